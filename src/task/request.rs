//! What callers ask of the supervisor, and why it may refuse.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::live::LiveTask;
use super::shell::NoShell;
use crate::process::pty::TerminalSize;
use crate::process::spawn::SpawnError;
use crate::text::redact::Redactor;

/// What a command gets on stdin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stdin {
    /// `/dev/null`.
    Null,
    /// This text, then the end.
    Text(String),
    /// A pipe that stays open.
    Open,
}

/// Where a command's stderr goes, in pipe mode; a terminal takes both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Stderr {
    /// Into its output, in the order in which both are written.
    #[default]
    Merged,
    /// Its newest bytes are kept apart from its output, in memory.
    Apart,
}

/// A command to run.
#[derive(Debug, Clone)]
pub struct Request {
    /// The command text.
    pub command: String,
    /// What it is for.
    pub description: Option<String>,
    /// The session that it is a part of: the agent run whose agent it is, or what it
    /// judges. Lists of sessions leave it out.
    pub part_of: Option<String>,
    /// Where it starts; `None`: where commands start.
    pub directory: Option<PathBuf>,
    /// Added to its environment.
    pub environment: Vec<(String, String)>,
    /// Its input, in pipe mode.
    pub stdin: Stdin,
    /// Its stderr, in pipe mode.
    pub stderr: Stderr,
    /// Its terminal, in PTY mode.
    pub terminal: Option<TerminalSize>,
    /// Whether that terminal is emulated. Where it is passed through to a person's own
    /// one, that draws the screen and answers the program's queries.
    pub emulated: bool,
    /// After how long it is ended.
    pub timeout: Option<Duration>,
    /// How far that moves while the command gets on; `None`: not at all.
    pub timeout_most: Option<Duration>,
}

/// Why a command was not run. No task exists then.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Nothing to run.
    #[error("command is empty: pass the text to run")]
    Empty,
    /// The kernel ends texts at NUL.
    #[error(
        "command contains a NUL character at byte {0}, which no shell takes: write it as \\0 or $'\\0'"
    )]
    Nul(usize),
    /// The environment's names and values cannot hold these.
    #[error("env {0:?} cannot be set: names take no `=`, and neither names nor values take NUL")]
    Environment(String),
    /// Longer than is allowed.
    #[error(
        "command is {length} bytes long, over the limit of {limit} (max_command): write it to a file and run that"
    )]
    TooLong {
        /// How long it is.
        length: usize,
        /// What is allowed.
        limit: usize,
    },
    /// Too many run.
    #[error(
        "{limit} tasks are running, the limit (max_tasks): end one with zsh_kill; the oldest are {oldest}"
    )]
    Full {
        /// What is allowed.
        limit: usize,
        /// Some of them, with their commands.
        oldest: String,
    },
    /// The server is ending.
    #[error("the server is ending and starts no command")]
    Ending,
    /// No shell.
    #[error(transparent)]
    NoShell(#[from] NoShell),
    /// The long command's file could not be written.
    #[error("the command is longer than one argument and cannot be written to {path}: {source}")]
    Script {
        /// Where.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The shell could not be started.
    #[error(transparent)]
    Spawn(#[from] SpawnError),
    /// No thread or descriptor for the worker.
    #[error(
        "cannot start a worker for the command: {0}; end some tasks, see zsh_tasks, or raise `ulimit -u` and `ulimit -n`"
    )]
    Worker(std::io::Error),
}

/// Why input was not taken.
#[derive(Debug, thiserror::Error)]
pub enum InputError {
    /// It is over.
    #[error("task {0} has ended: nothing reads input any more")]
    Ended(String),
    /// Nothing reads there any more.
    #[error("stdin of task {0} is closed: nothing reads input any more")]
    Closed(String),
    /// It has no stdin.
    #[error(
        "task {0} has no stdin: run the command again with pty: true (a terminal) or stdin_open: true (a pipe)"
    )]
    NoInput(String),
    /// It does not read.
    #[error(
        "{waiting} bytes of input already wait for task {id}, which does not read: the limit is {limit}; \
         wait until it reads, or end it with zsh_kill"
    )]
    Full {
        /// Which task.
        id: String,
        /// Bytes that wait.
        waiting: usize,
        /// The limit.
        limit: usize,
    },
    /// It has no keyboard.
    #[error(
        "keys need a terminal, and task {0} has a pipe: send text with input, or run the command again with pty: true"
    )]
    NoKeyboard(String),
    /// It has no window.
    #[error("task {0} has no terminal to resize: run the command again with pty: true")]
    NoTerminal(String),
}

impl StartError {
    /// Too many run; the oldest are named with the beginning of their commands.
    pub(super) fn full(limit: usize, oldest: &[Arc<LiveTask>], redactor: &Redactor) -> StartError {
        let named: Vec<String> = oldest
            .iter()
            .map(|task| {
                let command = redactor.redact(&task.facts.command);
                let line = command.lines().next().unwrap_or_default();
                let short: String = line.chars().take(40).collect();
                format!("{} ({short})", task.facts.id)
            })
            .collect();
        StartError::Full {
            limit,
            oldest: named.join(", "),
        }
    }
}
