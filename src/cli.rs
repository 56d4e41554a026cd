//! The command line as it is written: low arguments, not yet resolved.

use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};

/// zsh-tool: the shell that tells an AI agent the truth.
#[derive(Debug, Parser)]
#[command(name = "zsh-tool", version, about, arg_required_else_help = false)]
pub struct Arguments {
    /// What to do; nothing, with stdin no terminal, is `serve`.
    #[command(subcommand)]
    pub command: Option<Command>,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Serve MCP on stdin and stdout.
    Serve(ServeArguments),
    /// Run one command under supervision: its output, a status line on stderr, its exit code.
    Exec(ExecArguments),
    /// Let a worker agent and an auditor take turns until the work is done.
    Oneshot(Box<OneshotArguments>),
    /// List the tasks of all servers that run.
    Tasks(TasksArguments),
    /// Print the output of a task of any server.
    Log(LogArguments),
    /// Serve a page that shows the tasks and runs of all servers, until it is interrupted.
    Monitor(MonitorArguments),
    /// What is remembered of commands: show it, ask it, carry it elsewhere, forget it.
    #[command(subcommand)]
    Alan(AlanCommand),
    /// Print the options of a program as its manual page tells them.
    Manopt(ManoptArguments),
    /// Check the shell, the state directory and the kernel, and say how to mend what is wrong.
    Doctor,
    /// Print the settings in use and where each comes from.
    Config,
    /// Ask the configured OpenAI-compatible endpoint what stands on stdin; NDJSON comes out.
    #[command(hide = true)]
    AgentOpenai(AgentOpenaiArguments),
    /// Print a completion script for a shell.
    Completions {
        /// Which shell.
        shell: clap_complete::Shell,
    },
    /// Print the manual page.
    #[command(hide = true)]
    Man,
}

/// Arguments of `serve`.
#[derive(Debug, Args)]
pub struct ServeArguments {
    /// This process has a guard above it.
    #[arg(long, hide = true)]
    pub guarded: bool,
}

/// Arguments of `monitor`.
#[derive(Debug, Args)]
pub struct MonitorArguments {
    /// Where to listen; port 0 takes any that is free. Who reaches an address that is not of
    /// this machine alone, and knows the link, sees everything.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:0")]
    pub addr: SocketAddr,
}

/// Arguments of `exec`.
#[derive(Debug, Args)]
pub struct ExecArguments {
    /// Run on a terminal; when stdin is one, it is passed through.
    #[arg(long)]
    pub pty: bool,
    /// End the whole process tree after so many seconds (0: never); the exit code is 124 then.
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub timeout: Option<Duration>,
    /// Print one JSON object with the result instead of streaming.
    #[arg(long)]
    pub json: bool,
    /// The command text; several words are joined by blanks.
    #[arg(required = true, trailing_var_arg = true)]
    pub command: Vec<String>,
}

/// Arguments of `oneshot`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct OneshotArguments {
    /// What to do with runs that there are; nothing: run one.
    #[command(subcommand)]
    pub command: Option<OneshotCommand>,
    /// The run.
    #[command(flatten)]
    pub run: OneshotRunArguments,
}

/// What to do with runs that there are.
#[derive(Debug, Subcommand)]
pub enum OneshotCommand {
    /// List all runs, the one that changed last first.
    List {
        /// Print one JSON object per line.
        #[arg(long)]
        json: bool,
    },
    /// Show a run: its states, what it was asked and what came of it.
    Show {
        /// The run's id, the beginning of it, or `latest`.
        id: String,
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Print what goes on in a run until it ends; the exit code is the run's.
    Follow {
        /// The run's id, the beginning of it, or `latest`.
        id: String,
        /// Print the lines of its log.
        #[arg(long)]
        json: bool,
    },
    /// End a run for good.
    Stop {
        /// The run's id, the beginning of it, or `latest`.
        id: String,
    },
}

/// Arguments of a run.
#[derive(Debug, Args)]
pub struct OneshotRunArguments {
    /// The agent program that does the work.
    #[arg(long, value_name = "NAME")]
    pub executor: Option<String>,
    /// The agent program that judges it; none: the same.
    #[arg(long, value_name = "NAME")]
    pub auditor: Option<String>,
    /// The model that the worker is asked to use.
    #[arg(long)]
    pub model: Option<String>,
    /// The model that the auditor is asked to use.
    #[arg(long, value_name = "MODEL")]
    pub auditor_model: Option<String>,
    /// How many iterations there may be.
    #[arg(long, value_name = "N", value_parser = count_above_zero::<NonZeroU32>)]
    pub max_iterations: Option<NonZeroU32>,
    /// Give an agent up after so many seconds without any sign of life.
    #[arg(long, value_name = "SECONDS", value_parser = seconds_above_zero)]
    pub inactivity: Option<Duration>,
    /// Give the run up after so many seconds (0: never).
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub max_runtime: Option<Duration>,
    /// What to do about an agent that is stuck.
    #[arg(long, value_name = "POLICY")]
    pub on_stuck: Option<OnStuck>,
    /// Who judges whether an agent is stuck.
    #[arg(long, value_name = "NAME")]
    pub judge: Option<String>,
    /// Look for signs of life every so many seconds.
    #[arg(long, value_name = "SECONDS", value_parser = seconds_above_zero)]
    pub heartbeat: Option<Duration>,
    /// Call an agent stuck after so many signs of life without anything new.
    #[arg(long, value_name = "N", value_parser = count_above_zero::<NonZeroU32>)]
    pub stuck_threshold: Option<NonZeroU32>,
    /// Go on with a run that was interrupted: its id, the beginning of it, or `latest`.
    #[arg(long, value_name = "ID", conflicts_with = "prompt")]
    pub resume: Option<String>,
    /// Print one JSON object with the result.
    #[arg(long)]
    pub json: bool,
    /// Serve the dashboard at this address while the run goes on.
    #[arg(long, value_name = "ADDRESS")]
    pub http: Option<SocketAddr>,
    /// What is to be done; several words are joined by blanks, `-` reads it from stdin.
    #[arg(required_unless_present = "resume")]
    pub prompt: Vec<String>,
}

/// What is done about an agent that is stuck.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum OnStuck {
    /// Ask at the terminal; the agent goes on meanwhile.
    Ask,
    /// Nothing.
    Wait,
    /// End the agent and use what it has done.
    Recover,
    /// Give the run up.
    Fail,
}

/// A whole number that is not 0.
fn count_above_zero<N: std::str::FromStr>(text: &str) -> Result<N, String> {
    let expected = || "expected a whole number above 0, such as 5".to_owned();
    text.parse().map_err(|_| expected())
}

/// A time in seconds, with fractions, that is not 0.
fn seconds_above_zero(text: &str) -> Result<Duration, String> {
    match seconds(text) {
        Ok(Duration::ZERO) | Err(_) => {
            Err("expected a number of seconds above 0, such as 90 or 0.5".to_owned())
        }
        Ok(time) => Ok(time),
    }
}

/// A time in seconds, with fractions.
fn seconds(text: &str) -> Result<Duration, String> {
    let expected = || "expected a number of seconds from 0 on, such as 90 or 0.5".to_owned();
    let seconds: f64 = text.parse().map_err(|_| expected())?;
    Duration::try_from_secs_f64(seconds).map_err(|_| expected())
}

/// Arguments of `agent-openai`.
#[derive(Debug, Args)]
pub struct AgentOpenaiArguments {
    /// The model, instead of the configured one.
    #[arg(long)]
    pub model: Option<String>,
    /// The endpoint, instead of the configured one.
    #[arg(long, value_name = "URL")]
    pub base_url: Option<String>,
}

/// Arguments of `tasks`.
#[derive(Debug, Args)]
pub struct TasksArguments {
    /// List ended tasks too.
    #[arg(long)]
    pub all: bool,
    /// Print one JSON object per line.
    #[arg(long)]
    pub json: bool,
}

/// What to do with what is remembered.
#[derive(Debug, Subcommand)]
pub enum AlanCommand {
    /// Print what the database holds.
    Stats {
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Print what is known of a command, without running it.
    Query {
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
        /// The command text; several words are joined by blanks.
        #[arg(required = true, trailing_var_arg = true)]
        command: Vec<String>,
    },
    /// Print every row as a line of JSON.
    Export,
    /// Add rows of an export; what is there already, or newer, stays.
    Import {
        /// The file to read; none: stdin.
        file: Option<PathBuf>,
    },
    /// Remove what has lost its weight.
    Prune,
    /// Forget a command, or all commands of a kind such as `git push origin *`.
    Forget {
        /// The command or kind; several words are joined by blanks.
        #[arg(required = true, trailing_var_arg = true)]
        pattern: Vec<String>,
    },
    /// Print where the database is.
    Path,
}

/// Arguments of `manopt`.
#[derive(Debug, Args)]
pub struct ManoptArguments {
    /// The command and its subcommand, as in `git push`; options after them are listed first.
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    pub words: Vec<String>,
}

/// Arguments of `log`.
#[derive(Debug, Args)]
pub struct LogArguments {
    /// The task's id, or the beginning of it.
    pub task: String,
    /// Go on until the task ends.
    #[arg(long, short)]
    pub follow: bool,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What command lines are made of.
    const WORDS: [&str; 40] = [
        "serve",
        "exec",
        "oneshot",
        "list",
        "show",
        "follow",
        "stop",
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
