//! The command line as typed: arguments that are not yet combined with the settings.

use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use uuid::Uuid;

/// zsh-tool: the shell that reports the truth to AI agents.
#[derive(Debug, Parser)]
#[command(
    name = "zsh-tool",
    version,
    about,
    arg_required_else_help = false,
    disable_help_subcommand = true
)]
pub(crate) struct Arguments {
    /// The subcommand; by default `serve`, if stdin is not a terminal.
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Serve MCP on stdin and stdout.
    Serve {
        /// The server's name, if its guard has started it as a program of its own.
        #[arg(long, hide = true, value_name = "INSTANCE")]
        guarded: Option<String>,
    },
    /// Run one detached task, whose call comes on stdin.
    #[command(hide = true)]
    Shim {
        /// The shim's name, if its guard has started it as a program of its own.
        #[arg(long, hide = true, value_name = "INSTANCE")]
        guarded: Option<String>,
    },
    /// Carry out the calls of a server on another machine, on stdin and stdout.
    #[command(hide = true)]
    Far(FarArguments),
    /// Run one command under supervision, print its output and a status line, and exit with its exit
    /// code.
    Exec(ExecArguments),
    /// Let a worker agent and an auditor take turns until the work is done.
    Oneshot(Box<OneshotArguments>),
    /// List the tasks of all running servers.
    Tasks {
        /// List ended tasks too.
        #[arg(long)]
        all: bool,
        /// Print one JSON object per line.
        #[arg(long)]
        json: bool,
    },
    /// Print the output of a task of any server.
    Log(LogArguments),
    /// Kill a task of any running server with all its processes, and print the receipt.
    Kill(KillArguments),
    /// Type into a task of any running server, and print the reply.
    Send(SendArguments),
    /// Print a line for each task of any running server that has ended, waits for input or a
    /// password, is stopped or is stuck, and for each agent run that has ended, unless that has
    /// already been reported.
    Events(EventsArguments),
    /// Answer a hook of an agent program.
    #[command(subcommand)]
    Hook(HookCommand),
    /// Use the terminal of a task of any running server: see it, and type.
    Attach(AttachArguments),
    /// Restore the terminal at stdout when the process at stdin ends.
    #[command(hide = true)]
    RestoreTerminal,
    /// Serve a web page that shows the tasks and runs of all servers, until interrupted.
    Monitor {
        /// The address to listen on; port 0 picks a free port. On an address that other machines
        /// can reach, anyone who knows the link sees everything.
        #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:0")]
        addr: SocketAddr,
    },
    /// Show, query, export, import or delete the command history.
    #[command(subcommand)]
    Alan(AlanCommand),
    /// Print the options of a program from its manual page.
    Manopt {
        /// The command and its subcommand, as in `git push`; options that follow are listed first.
        #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
        words: Vec<String>,
    },
    /// Check the shell, the state directory and the kernel, and suggest how to fix problems.
    Doctor {
        /// Connect to this host instead, and check it.
        #[arg(long)]
        host: Option<String>,
    },
    /// Print the settings in use and where each comes from.
    Config,
    /// Add this server to the settings of a client, or list the clients that were found.
    Setup(SetupArguments),
    /// Send stdin to the configured OpenAI-compatible endpoint, and print its answer as NDJSON.
    #[command(hide = true)]
    AgentOpenai {
        /// The model, instead of the configured one.
        #[arg(long)]
        model: Option<String>,
        /// The endpoint, instead of the configured one.
        #[arg(long, value_name = "URL")]
        base_url: Option<String>,
    },
    /// Print the help of a command, or a topic of the reference: tools, settings, reading, …
    Help {
        /// The topic or the command; by default, a list of both.
        #[arg(value_name = "TOPIC")]
        words: Vec<String>,
    },
    /// Print a completion script for a shell.
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Print the manual page.
    #[command(hide = true)]
    Man,
}

/// Arguments of `far`.
#[derive(Debug, Args)]
pub(crate) struct FarArguments {
    /// The name of the server.
    #[arg(long, default_value = "")]
    pub(crate) server: String,
    /// Forward stdin and stdout to the owner of this task instead.
    #[arg(long)]
    pub(crate) task: Option<String>,
    /// How long tasks survive a lost connection, in seconds.
    #[arg(long, default_value_t = 60.0)]
    pub(crate) linger: f64,
    /// Print the hash of this program.
    #[arg(long)]
    pub(crate) hash: bool,
    /// This process's name, if its guard has started it as a program of its own.
    #[arg(long, hide = true, value_name = "INSTANCE")]
    pub(crate) guarded: Option<String>,
}

/// Arguments of `exec`.
#[derive(Debug, Args)]
pub(crate) struct ExecArguments {
    /// Run the command on a terminal, and pass keys through if stdin is a terminal.
    #[arg(long)]
    pub(crate) pty: bool,
    /// Kill the whole process tree after this many seconds, with exit code 124 (0: never).
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) timeout: Option<Duration>,
    /// Print one JSON object with the result instead of streaming.
    #[arg(long)]
    pub(crate) json: bool,
    /// Run the command in this directory.
    #[arg(long, value_name = "DIRECTORY")]
    pub(crate) cwd: Option<PathBuf>,
    /// Run the command in this shell instead of the configured one.
    #[arg(long, value_name = "SHELL", value_parser = ["zsh", "bash", "sh"])]
    pub(crate) shell: Option<String>,
    /// Keep stderr apart from the output even if both go to the same place, and with --json in a
    /// field of its own.
    #[arg(long, value_name = "WHERE", value_parser = ["separate"], conflicts_with = "pty")]
    pub(crate) stderr: Option<String>,
    /// Run the command in a sandbox: workspace or read-only, network=off or network=loopback, or both.
    /// It can only be tighter than the configured one.
    #[arg(long, value_name = "SANDBOX")]
    pub(crate) sandbox: Option<String>,
    /// Run the command on this configured host. Signals sent to this process end the command there.
    #[arg(long, conflicts_with = "pty")]
    pub(crate) host: Option<String>,
    /// End the command when the reader of stdout is gone, even if it prints nothing.
    #[arg(long, hide = true)]
    pub(crate) tied: bool,
    /// The command text; several words are joined by spaces.
    #[arg(required = true, trailing_var_arg = true)]
    pub(crate) command: Vec<String>,
}

/// Arguments of `kill`.
#[derive(Debug, Args)]
pub(crate) struct KillArguments {
    /// The task's id, or the beginning of it.
    pub(crate) task: String,
    /// Send only this signal, such as INT or HUP, to the task's processes.
    #[arg(long, short, value_name = "SIGNAL")]
    pub(crate) signal: Option<String>,
}

/// Arguments of `send`.
#[derive(Debug, Args)]
pub(crate) struct SendArguments {
    /// The task's id, or the beginning of it.
    pub(crate) task: String,
    /// The text to type.
    #[arg(allow_hyphen_values = true, required_unless_present_any = ["keys", "eof"])]
    pub(crate) text: Option<String>,
    /// Do not press Enter after the text.
    #[arg(long)]
    pub(crate) no_enter: bool,
    /// Press this key after the text, such as C-c, Escape or Up; may be repeated.
    #[arg(long = "key", value_name = "KEY")]
    pub(crate) keys: Vec<String>,
    /// End the input afterwards.
    #[arg(long)]
    pub(crate) eof: bool,
}

/// Arguments of `events`.
#[derive(Debug, Args)]
pub(crate) struct EventsArguments {
    /// Keep printing until interrupted.
    #[arg(long, short)]
    pub(crate) follow: bool,
    /// Print one JSON object per line, always with the same keys: `event` is `ended`, `waiting`,
    /// `stopped`, `stuck` or `leftovers_gone`. That of an agent run, `run_ended`, has keys of its
    /// own.
    #[arg(long)]
    pub(crate) json: bool,
    /// Only report tasks of servers that an ancestor of this process started, and detached tasks and
    /// agent runs of this project.
    #[arg(long)]
    pub(crate) of_client: bool,
}

/// The hooks of agent programs.
#[derive(Debug, Subcommand)]
pub(crate) enum HookCommand {
    /// Keep the agent's turn from ending while events of its tasks have not been reported.
    Stop,
    /// Tell this Claude Code's servers where the session's hooks write CLAUDE_ENV_FILE.
    SessionStart,
    /// Apply Claude Code's permission rules for Bash to a call of zsh or zsh_send.
    Permissions,
}

/// Arguments of `setup`.
#[derive(Debug, Args)]
pub(crate) struct SetupArguments {
    /// The client.
    pub(crate) client: Option<ClientName>,
    /// Remove the entry again.
    #[arg(long, requires = "client", conflicts_with = "print")]
    pub(crate) remove: bool,
    /// Only print the client's entry and its place; `--print agents` prints a paragraph for AGENTS.md.
    #[arg(long, value_name = "WHAT", num_args = 0..=1, default_missing_value = "entry")]
    pub(crate) print: Option<Printed>,
    /// Carry the sandbox of Claude Code's settings over to the configuration, instead of the entry.
    #[arg(long, requires = "client", conflicts_with = "remove")]
    pub(crate) sandbox: bool,
}

/// What `setup --print` prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Printed {
    Entry,
    Agents,
}

/// The clients whose settings are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ClientName {
    Claude,
    Codex,
    Gemini,
    Qwen,
    Copilot,
    Opencode,
    Cline,
    Cursor,
    Vscode,
}

impl ClientName {
    /// The word on the command line.
    pub(crate) fn word(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }
}

/// Arguments of `attach`.
#[derive(Debug, Args)]
pub(crate) struct AttachArguments {
    /// The task's id, or the beginning of it; by default the only task that waits for input. For a
    /// task on a host the whole id, as in build1:3dc8c9ee.
    pub(crate) task: Option<String>,
    /// Watch without typing.
    #[arg(long)]
    pub(crate) read_only: bool,
    /// The key that detaches, spelled as for `send --key`.
    #[arg(long, value_name = "KEY", default_value = "C-]")]
    pub(crate) detach_key: String,
}

/// Arguments of `oneshot`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct OneshotArguments {
    /// What to do with existing runs; by default, start a run.
    #[command(subcommand)]
    pub(crate) command: Option<OneshotCommand>,
    /// The run.
    #[command(flatten)]
    pub(crate) run: OneshotRunArguments,
}

/// What to do with existing runs.
#[derive(Debug, Subcommand)]
pub(crate) enum OneshotCommand {
    /// List all runs, the most recently changed first.
    List {
        /// Print one JSON object per line.
        #[arg(long)]
        json: bool,
    },
    /// Show a run: its states, its prompt and its result.
    Show {
        /// The run's id, the beginning of it, or `latest`.
        id: String,
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
        /// Print what the run, or one iteration, has changed in its git repository.
        #[arg(long, value_name = "ITERATION", num_args = 0..=1, conflicts_with = "json")]
        diff: Option<Option<u32>>,
    },
    /// Print the events of a run until it ends, and exit with its exit code.
    Follow {
        /// The run's id, the beginning of it, or `latest`.
        id: String,
        /// Print the lines of its log as JSON.
        #[arg(long)]
        json: bool,
    },
    /// List the agent programs: which are installed, in which version, and what they may do.
    Agents {
        /// Print one JSON object per line.
        #[arg(long)]
        json: bool,
    },
    /// End a run for good.
    Stop {
        /// The run's id, the beginning of it, or `latest`.
        id: String,
    },
}

/// Arguments of `log`.
#[derive(Debug, Args)]
pub(crate) struct LogArguments {
    /// The task's id, or the beginning of it; for a task on a host the whole id, as in
    /// build1:3dc8c9ee.
    pub(crate) task: String,
    /// Keep printing until the task ends.
    #[arg(long, short)]
    pub(crate) follow: bool,
    /// Print its stderr, if that was kept apart.
    #[arg(long)]
    pub(crate) stderr: bool,
    /// Print the bytes as they are, as is done to files and pipes anyway; refused on a terminal.
    #[arg(long)]
    pub(crate) raw: bool,
    /// Let --raw print to a terminal.
    #[arg(long, requires = "raw")]
    pub(crate) force: bool,
}

/// Arguments of a run.
#[derive(Debug, Args)]
pub(crate) struct OneshotRunArguments {
    /// The agent program that does the work.
    #[arg(long, value_name = "NAME")]
    pub(crate) executor: Option<String>,
    /// The agent program that audits the work; by default the same one. `none`: the checks alone
    /// judge.
    #[arg(long, value_name = "NAME")]
    pub(crate) auditor: Option<String>,
    /// Check each result with this command line, such as 'make test'; may be repeated. Red checks go
    /// back to the worker without an audit.
    #[arg(long, value_name = "COMMAND")]
    pub(crate) check: Vec<String>,
    /// Give up on a check after this many seconds.
    #[arg(long, value_name = "SECONDS", value_parser = seconds_above_zero)]
    pub(crate) check_timeout: Option<Duration>,
    /// The model for the worker.
    #[arg(long)]
    pub(crate) model: Option<String>,
    /// The model for the auditor.
    #[arg(long, value_name = "MODEL")]
    pub(crate) auditor_model: Option<String>,
    /// The maximum number of iterations.
    #[arg(long, value_name = "N", value_parser = count_above_zero)]
    pub(crate) max_iterations: Option<NonZeroU32>,
    /// Give up on an agent after this many seconds without activity.
    #[arg(long, value_name = "SECONDS", value_parser = seconds_above_zero)]
    pub(crate) inactivity: Option<Duration>,
    /// Give up on the run after this many seconds (0: never).
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) max_runtime: Option<Duration>,
    /// Wait at most this many seconds for an endpoint that fails for now (0: not at all).
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) wait_limit: Option<Duration>,
    /// Stop once the agents have cost this many dollars, as far as they report it (0: no limit).
    #[arg(long, value_name = "USD", value_parser = dollars)]
    pub(crate) max_cost: Option<f64>,
    /// Stop once they have used this many tokens, as far as they report it (0: no limit).
    #[arg(long, value_name = "N")]
    pub(crate) max_tokens: Option<u64>,
    /// Let the worker change files without asking, by its program's own option.
    #[arg(long)]
    pub(crate) allow_edits: bool,
    /// Work in a git work tree of the run's own, on a new branch.
    #[arg(long, conflicts_with = "resume")]
    pub(crate) worktree: bool,
    /// Run this command line when the run has ended.
    #[arg(long, value_name = "COMMAND")]
    pub(crate) then: Option<String>,
    /// What to do about a stuck agent.
    #[arg(long, value_name = "POLICY")]
    pub(crate) on_stuck: Option<OnStuck>,
    /// The judge that decides whether an agent is stuck.
    #[arg(long, value_name = "NAME")]
    pub(crate) judge: Option<String>,
    /// Check for activity every this many seconds.
    #[arg(long, value_name = "SECONDS", value_parser = seconds_above_zero)]
    pub(crate) heartbeat: Option<Duration>,
    /// Consider an agent stuck after this many checks without progress.
    #[arg(long, value_name = "N", value_parser = count_above_zero)]
    pub(crate) stuck_threshold: Option<NonZeroU32>,
    /// Remove runs that ended more than this many days ago (0: never).
    #[arg(long, value_name = "DAYS", value_parser = clap::value_parser!(u16).range(..=36_500))]
    pub(crate) keep_days: Option<u16>,
    /// Resume an interrupted run: its id, the beginning of it, or `latest`.
    #[arg(long, value_name = "ID", conflicts_with = "prompt")]
    pub(crate) resume: Option<String>,
    /// Take the settings of the working directory's .oneshot.json without asking.
    #[arg(long, conflicts_with = "resume")]
    pub(crate) trust_project: bool,
    /// Use this id, a UUID, for the run. The same command again resumes the run, or reports its
    /// result.
    #[arg(long, value_name = "UUID", conflicts_with = "resume")]
    pub(crate) id: Option<Uuid>,
    /// Print one JSON object with the result.
    #[arg(long)]
    pub(crate) json: bool,
    /// Serve the dashboard at this address during the run.
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) http: Option<SocketAddr>,
    /// The prompt; several words are joined by spaces, `-` reads it from stdin.
    #[arg(required_unless_present = "resume")]
    pub(crate) prompt: Vec<String>,
}

/// What to do about a stuck agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnStuck {
    /// Ask at the terminal while the agent continues.
    Ask,
    /// Keep waiting.
    Wait,
    /// End the agent and use its work so far.
    Recover,
    /// Give up on the run.
    Fail,
}

/// A whole number that is not 0.
fn count_above_zero(text: &str) -> Result<NonZeroU32, String> {
    text.parse().map_err(|_| "expected a whole number above 0, such as 5".to_owned())
}

/// An amount of money, 0 or more.
fn dollars(text: &str) -> Result<f64, String> {
    let amount = text.parse().ok().filter(|amount: &f64| amount.is_finite() && *amount >= 0.0);
    amount.ok_or_else(|| "expected an amount of dollars, such as 2.5".to_owned())
}

/// A time in seconds above 0; fractions are allowed.
fn seconds_above_zero(text: &str) -> Result<Duration, String> {
    match seconds(text) {
        Ok(Duration::ZERO) | Err(_) => {
            Err("expected a number of seconds above 0, such as 90 or 0.5".to_owned())
        }
        Ok(time) => Ok(time),
    }
}

/// A time in seconds; fractions are allowed.
fn seconds(text: &str) -> Result<Duration, String> {
    let expected = || "expected a number of seconds, such as 90 or 0.5".to_owned();
    let seconds: f64 = text.parse().map_err(|_| expected())?;
    Duration::try_from_secs_f64(seconds).map_err(|_| expected())
}

/// What to do with the command history.
#[derive(Debug, Subcommand)]
pub(crate) enum AlanCommand {
    /// Print a summary of the database.
    Stats {
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Print what is known about a command, without running it.
    Query {
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
        /// The command text; several words are joined by spaces.
        #[arg(required = true, trailing_var_arg = true)]
        command: Vec<String>,
    },
    /// Print every row as a line of JSON.
    Export,
    /// Add the rows of an export; existing and newer rows are kept.
    Import {
        /// The file to read; stdin by default.
        file: Option<PathBuf>,
    },
    /// Remove observations that are too old to matter.
    Prune,
    /// Delete a command, or all commands of a kind such as `git push origin *`.
    Forget {
        /// The command or kind; several words are joined by spaces.
        #[arg(required = true, trailing_var_arg = true)]
        pattern: Vec<String>,
    },
    /// Print the path of the database.
    Path,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Words that command lines are made of.
    const WORDS: [&str; 42] = [
        "serve",
        "exec",
        "oneshot",
        "list",
        "show",
        "follow",
        "stop",
        "agents",
        "tasks",
        "log",
        "monitor",
        "alan",
        "stats",
        "query",
        "import",
        "forget",
        "manopt",
        "completions",
        "zsh",
        "--json",
        "--pty",
        "--timeout",
        "--timeout=",
        "--addr",
        "[::1]:0",
        "--max-iterations",
        "--inactivity",
        "--max-runtime",
        "--heartbeat",
        "--on-stuck",
        "ask",
        "--resume",
        "--id",
        "latest",
        "--",
        "-",
        "0.5",
        "-1",
        "1e999",
        "nan",
        "inf",
        "18446744073709551616",
    ];

    proptest! {
        #[test]
        fn any_words_are_a_command_line_or_an_error(
            words in prop::collection::vec(
                prop_oneof![8 => prop::sample::select(WORDS.to_vec()).prop_map(str::to_owned), 1 => "\\PC{0,8}"],
                0..8,
            ),
        ) {
            let line = std::iter::once("zsh-tool".to_owned()).chain(words);
            if let Err(error) = Arguments::try_parse_from(line) {
                prop_assert!(!error.to_string().is_empty());
            }
        }

        #[test]
        fn any_number_is_a_time_or_an_error(number: f64, text in "\\PC{0,8}") {
            for text in [number.to_string(), format!("{number:e}"), text] {
                let time = seconds(&text);
                prop_assert_eq!(time.is_ok_and(|time| !time.is_zero()), seconds_above_zero(&text).is_ok());
            }
        }
    }
}
