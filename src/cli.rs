//! The command line as it is written: low arguments, not yet resolved.

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

/// Arguments of `exec`.
#[derive(Debug, Args)]
pub struct ExecArguments {
    /// Run on a terminal; when stdin is one, it is passed through.
    #[arg(long)]
    pub pty: bool,
    /// End the whole process tree after so many seconds (0: never); the exit code is 124 then.
    #[arg(long, value_name = "SECONDS")]
    pub timeout: Option<f64>,
    /// Print one JSON object with the result instead of streaming.
    #[arg(long)]
    pub json: bool,
    /// The command text; several words are joined by blanks.
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    pub command: Vec<String>,
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

/// Arguments of `log`.
#[derive(Debug, Args)]
pub struct LogArguments {
    /// The task's id, or the beginning of it.
    pub task: String,
    /// Go on until the task ends.
    #[arg(long, short)]
    pub follow: bool,
}
