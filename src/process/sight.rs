//! What a look at a process may bring, whatever the system; `probe` looks.

use std::path::PathBuf;

/// The input that a task may be asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// The task's terminal: `/dev/pts/N`.
    Terminal(PathBuf),
    /// The same for a process of another session, whose `/dev/tty` is another.
    TerminalOfOthers(PathBuf),
    /// The pipe at its stdin: `pipe:[N]`.
    Pipe(PathBuf),
}

/// How a thread is blocked on the input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Blocked {
    /// In a read of it.
    Reading,
    /// In a wait on a set that holds it, with a time limit or without one.
    Waiting {
        /// Whether there is a time limit.
        timed: bool,
    },
}

/// What a look at one process brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
    /// It is blocked on the input.
    Blocked(Blocked),
    /// It is not.
    Otherwise,
    /// It cannot be read: another user's, or no `/proc`.
    Unreadable,
}

impl Source {
    /// The same input for processes of other sessions, if it is a terminal.
    pub fn beyond(&self) -> Option<Source> {
        match self {
            Source::Terminal(terminal) => Some(Source::TerminalOfOthers(terminal.clone())),
            Source::TerminalOfOthers(_) | Source::Pipe(_) => None,
        }
    }
}

/// What this machine keeps from whoever wants to know what processes wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shortcoming {
    /// `/proc` cannot be read.
    NoProc,
    /// `/proc` shows the processes of another PID namespace.
    AnotherNamespace,
    /// The calls that processes are blocked in cannot be read: by the policy of Yama, or
    /// because the kernel was built without.
    NoCalls,
    /// Other users' processes are not shown (`hidepid`).
    OthersHidden,
    /// The program was built without what Linux alone tells.
    Portable,
}
