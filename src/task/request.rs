//! Requests to the supervisor, the timeouts of commands, and why the supervisor may refuse.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::environment::StartEnvironment;
use super::shell::NoShell;
use crate::process::needs::SandboxError;
use crate::process::pty::TerminalSize;
use crate::process::spawn::SpawnError;
use crate::sandbox::policy::{NoSandbox, Policy};
use crate::shell::command_line::CommandLine;
use crate::shell::mode::ShellName;
use crate::text::foreign::ShowPath;
use crate::text::quantity::seconds;

/// What a command gets on stdin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stdin {
    Null,
    /// This text, then end of file.
    Text(String),
    Open,
}

/// A task that outlives its server: for whom it runs, and until when.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Detached {
    /// The name of the client that has asked for it; empty if it gave none.
    pub client: String,
    /// The directory of its project; invalid UTF-8 is replaced.
    pub project: String,
    /// When it is killed at the latest, in Unix seconds.
    pub until: Option<f64>,
    /// Whether it starts only if its file can be written, without which no other process finds it.
    #[serde(skip)]
    pub must_be_listed: bool,
}

/// Where a command's stderr goes without a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Stderr {
    /// Into its output, in the order in which both are written.
    #[default]
    Merged,
    /// Apart from its output, in a spool of its own.
    Separate,
}

#[derive(Debug, Clone)]
pub struct Request {
    /// Its id, if the caller has chosen it: 8 lower-case hex digits.
    pub id: Option<String>,
    pub command: CommandLine,
    /// `None` for the configured shell.
    pub shell: Option<ShellName>,
    /// What it is for.
    pub description: Option<String>,
    /// The agent run that it belongs to, as its agent or its judge. Lists of sessions leave it
    /// out.
    pub part_of: Option<String>,
    /// `None` if it ends with this process.
    pub detached: Option<Detached>,
    /// Where it starts; `None` for the default.
    pub directory: Option<PathBuf>,
    /// The session whose directory and variables it starts with and leaves to the next.
    pub session: Option<String>,
    /// Added to its environment.
    pub environment: Vec<(String, String)>,
    /// The environment and files that it starts with, if the server that asks a shim for it has
    /// found them.
    pub start: Option<StartEnvironment>,
    /// What the command gets on stdin. With a terminal `Text` is typed, and the others have no
    /// effect.
    pub stdin: Stdin,
    /// Ignored with a terminal.
    pub stderr: Stderr,
    pub terminal: Option<TerminalSize>,
    /// Whether that terminal is emulated. If it is passed through to a person's own terminal,
    /// that one draws the screen and answers the program's queries.
    pub emulated: bool,
    /// How long it may run.
    pub timeout: Option<Duration>,
    /// What happens then.
    pub at_timeout: AtTimeout,
    /// How much memory its processes may occupy together, in bytes.
    pub memory_max: Option<u64>,
    /// What it may read, write and reach.
    pub sandbox: Policy,
}

impl Request {
    /// A command that this program runs for its own purposes: without input, terminal, deadline and
    /// sandbox, with its errors in its output.
    pub fn of_own(command: CommandLine) -> Request {
        Request {
            id: None,
            command,
            shell: None,
            description: None,
            part_of: None,
            detached: None,
            directory: None,
            session: None,
            environment: Vec::new(),
            start: None,
            stdin: Stdin::Null,
            stderr: Stderr::Merged,
            terminal: None,
            emulated: false,
            timeout: None,
            at_timeout: AtTimeout::Kill,
            memory_max: None,
            sandbox: Policy::off(),
        }
    }
}

/// What happens when a command has run for its timeout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AtTimeout {
    #[default]
    Kill,
    /// It continues while it makes progress, at most for this long.
    Extend(Duration),
    /// It is killed if it is stuck, silent or stopped, then and whenever it is found so later. If it
    /// waits for input, it is killed after this long. Otherwise it continues without a limit.
    Judge(Duration),
}

/// Why a command was not run. There is no task then.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("command is empty: pass the text to run")]
    Empty,
    /// The kernel ends arguments at NUL.
    #[error(
        "command contains a NUL character at byte {0}, which no shell accepts: write it as \\0 or $'\\0'"
    )]
    Nul(usize),
    #[error(
        "env {0:?} cannot be set: a name must not be empty or contain `=`, and neither name nor value may contain NUL"
    )]
    Environment(String),
    #[error(
        "command is {length} bytes long, over the limit of {limit} (max_command): write it to a file and run that"
    )]
    TooLong { length: usize, limit: usize },
    #[error(
        "{limit} tasks are running, the limit (max_tasks): end one with zsh_kill; the oldest are {oldest}"
    )]
    Full {
        limit: usize,
        /// Some of them, with their commands.
        oldest: String,
    },
    #[error("the server is ending and starts no command")]
    Ending,
    #[error(transparent)]
    NoShell(#[from] NoShell),
    /// The file for a long command could not be written.
    #[error(
        "the command is too long to pass as one argument, and its script{} cannot be written: {source}",
        named(.path)
    )]
    Script { path: PathBuf, source: std::io::Error },
    #[error(
        "bash's startup file {} cannot be written: {source}; make room for it",
        .path.shown()
    )]
    StartupFile { path: PathBuf, source: std::io::Error },
    #[error(
        "session needs zsh or bash as the shell, the programs env and head, and a pipe for what \
         they report: leave session out, or see zsh_health"
    )]
    NoSession,
    /// No other process would find the task, for this reason.
    #[error(
        "{0}: the command was not started, since later servers would not find it; make room in the state \
         directory and let it be written, or leave detach out"
    )]
    Unlisted(String),
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
    #[error(
        "the sandbox ({mode}) does not let commands read {}, which runs them: choose another shell, or \
         the user can take it off sandbox.deny_read", .program.shown()
    )]
    SandboxProgram { mode: &'static str, program: PathBuf },
    #[error("{0}; make room in the state directory and let it be written")]
    SandboxPlace(String),
    /// The settings of the sandbox are wrong.
    #[error("{0}; no command is started, since the sandbox that was meant is not known")]
    SandboxSettings(String),
    #[error(transparent)]
    NoSandbox(#[from] NoSandbox),
    #[error(transparent)]
    Spawn(#[from] SpawnError),
    /// No thread or descriptor is available for the worker.
    #[error(
        "cannot start a worker for the command: {0}; end some tasks (`zsh_tasks` lists them) or raise `ulimit -u` and `ulimit -n`"
    )]
    Worker(std::io::Error),
}

/// A path after a word, if there is one.
fn named(path: &Path) -> String {
    if path.as_os_str().is_empty() { String::new() } else { format!(" {}", path.shown()) }
}

/// Why input was not accepted.
#[derive(Debug, thiserror::Error)]
pub enum InputError {
    /// Too many commands wait for its worker.
    #[error("task {id} has {waiting} requests pending: try again in a moment")]
    Busy { id: String, waiting: usize },
    /// The agent waits for the people who are attached.
    #[error("a person has been attached to this terminal for {}: poll, or wait", seconds(*.0))]
    Attached(Duration),
    #[error("task {0} has ended: nothing reads input any more")]
    Ended(String),
    #[error("stdin of task {0} is closed: nothing reads input any more")]
    Closed(String),
    #[error(
        "task {0} has no stdin: run the command again with pty: true (a terminal) or stdin_open: true (a pipe)"
    )]
    NoInput(String),
    /// The program does not read.
    #[error(
        "{waiting} bytes of input already wait for task {id}, which does not read: the limit is {limit}; \
         wait until it reads, or end it with zsh_kill"
    )]
    Full {
        id: String,
        /// How many bytes are waiting.
        waiting: usize,
        limit: usize,
    },
    #[error(
        "keys need a terminal, and task {0} has a pipe: send text with input, or run the command again with pty: true"
    )]
    NoKeyboard(String),
    #[error("task {0} has no terminal to resize: run the command again with pty: true")]
    NoTerminal(String),
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct TimeoutBounds {
    /// The deadline if the caller names none.
    pub(crate) default: Duration,
    /// The longest that a caller may ask for.
    pub(crate) most: Duration,
    /// Whether a caller may ask for none.
    pub(crate) none_allowed: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TimeoutKind {
    /// It ends by itself.
    Plain,
    /// It takes input (`stdin_open`, `pty`): it may have no deadline.
    Interactive,
    /// It runs in the background: it has no deadline unless it asks for one.
    Background,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Timeout {
    /// `None` for no deadline.
    pub(crate) limit: Option<Duration>,
    /// The requested limit in seconds, if it was above the maximum.
    pub(crate) clamped_from: Option<f64>,
}

#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub(crate) enum TimeoutError {
    /// Negative or not a number.
    #[error("timeout must be a number of seconds above 0 (or 0 for none), not {0}")]
    Unusable(f64),
    /// 0 for a kind of command that must have a deadline.
    #[error(
        "timeout 0 (no deadline) needs background, stdin_open or pty: add one of them, or give seconds"
    )]
    NoneForPlain,
    /// 0 where the configuration allows none.
    #[error(
        "timeout 0 (no deadline) is turned off: give seconds, or set allow_no_deadline: true in the config"
    )]
    NoDeadlineDisabled,
}

/// Resolves a timeout in seconds.
///
/// # Errors
/// The timeout makes no sense; it is never replaced silently.
pub(crate) fn resolve_timeout(
    requested: Option<f64>,
    kind: TimeoutKind,
    bounds: &TimeoutBounds,
) -> Result<Timeout, TimeoutError> {
    let unclamped = |limit| Ok(Timeout { limit, clamped_from: None });
    let Some(seconds) = requested else {
        return unclamped(match kind {
            TimeoutKind::Background if bounds.none_allowed => None,
            TimeoutKind::Background => Some(bounds.most),
            TimeoutKind::Plain | TimeoutKind::Interactive => Some(bounds.default.min(bounds.most)),
        });
    };
    if !seconds.is_finite() || seconds < 0.0 {
        return Err(TimeoutError::Unusable(seconds));
    }
    if seconds == 0.0 {
        return match kind {
            _ if !bounds.none_allowed => Err(TimeoutError::NoDeadlineDisabled),
            TimeoutKind::Plain => Err(TimeoutError::NoneForPlain),
            TimeoutKind::Interactive | TimeoutKind::Background => unclamped(None),
        };
    }
    if seconds > bounds.most.as_secs_f64() {
        return Ok(Timeout { limit: Some(bounds.most), clamped_from: Some(seconds) });
    }
    unclamped(Some(Duration::from_secs_f64(seconds)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: TimeoutBounds = TimeoutBounds {
        default: Duration::from_secs(120),
        most: Duration::from_secs(600),
        none_allowed: true,
    };

    fn limit(requested: Option<f64>, kind: TimeoutKind) -> Option<u64> {
        resolve_timeout(requested, kind, &BOUNDS).ok()?.limit.map(|limit| limit.as_secs())
    }

    #[test]
    fn defaults_depend_on_the_kind() {
        assert_eq!(limit(None, TimeoutKind::Plain), Some(120));
        assert_eq!(limit(None, TimeoutKind::Interactive), Some(120));
        assert_eq!(limit(None, TimeoutKind::Background), None);
    }

    #[test]
    fn a_timeout_above_the_maximum_is_clamped_and_reported() {
        let timeout = resolve_timeout(Some(1e9), TimeoutKind::Background, &BOUNDS).ok();
        assert_eq!(
            timeout,
            Some(Timeout { limit: Some(Duration::from_secs(600)), clamped_from: Some(1e9) })
        );
    }

    #[test]
    fn only_commands_that_may_run_long_may_have_no_deadline() {
        assert_eq!(
            resolve_timeout(Some(0.0), TimeoutKind::Plain, &BOUNDS),
            Err(TimeoutError::NoneForPlain)
        );
        assert_eq!(limit(Some(0.0), TimeoutKind::Interactive), None);
        let strict = TimeoutBounds { none_allowed: false, ..BOUNDS };
        assert_eq!(
            resolve_timeout(Some(0.0), TimeoutKind::Background, &strict),
            Err(TimeoutError::NoDeadlineDisabled)
        );
    }

    #[test]
    fn nonsense_is_an_error() {
        for seconds in [-1.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            assert!(
                resolve_timeout(Some(seconds), TimeoutKind::Plain, &BOUNDS).is_err(),
                "{seconds}"
            );
        }
    }
}
