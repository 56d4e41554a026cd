//! The command line as it is written: low arguments, not yet resolved.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};

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
    /// Print a completion script for a shell.
    Completions {
        /// Which shell.
        shell: clap_complete::Shell,
    },
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

/// A time in seconds, with fractions.
fn seconds(text: &str) -> Result<Duration, String> {
    let expected = || "expected a number of seconds from 0 on, such as 90 or 0.5".to_owned();
    let seconds: f64 = text.parse().map_err(|_| expected())?;
    Duration::try_from_secs_f64(seconds).map_err(|_| expected())
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
