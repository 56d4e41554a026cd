//! What is worth saying about a task beside its output and status.

use crate::alan::insight as remembered;
pub use crate::alan::insight::Level;
use crate::task::live::{End, Facts, Input};
use crate::task::spool::Losses;
use crate::text::lines::grouped;
pub use crate::text::quantity::size;

/// Whose insight it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// The task's own circumstances.
    Task,
    /// What is remembered of commands.
    Memory,
}

/// One thing worth saying.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Insight {
    /// How much it matters.
    pub level: Level,
    /// Whose it is.
    pub source: Source,
    /// Whether it is said also to those who want only what is of use.
    pub useful: bool,
    /// What.
    pub message: String,
}

impl Insight {
    /// A warning.
    pub fn warning(message: impl Into<String>) -> Insight {
        Insight {
            level: Level::Warning,
            source: Source::Task,
            useful: true,
            message: message.into(),
        }
    }

    /// An information.
    pub fn info(message: impl Into<String>) -> Insight {
        Insight {
            level: Level::Info,
            useful: false,
            ..Insight::warning(message)
        }
    }
}

impl From<remembered::Insight> for Insight {
    fn from(insight: remembered::Insight) -> Insight {
        let level = insight.level();
        let informs = matches!(
            insight,
            remembered::Insight::UsuallyTakes { .. }
                | remembered::Insight::Similar { .. }
                | remembered::Insight::Options { .. }
        );
        Insight {
            level,
            source: Source::Memory,
            useful: informs || level == Level::Warning,
            message: insight.to_string(),
        }
    }
}

/// What programs say that found no terminal. Names of the terminal device and the
/// message of `isatty` refusals; plain words such as "password" prove nothing.
const NO_TERMINAL: [&str; 6] = [
    "/dev/tty",
    "a terminal is required",
    "no tty present",
    "not a tty",
    "must be run from a terminal",
    "Inappropriate ioctl for device",
];

/// What the task's own circumstances give to say. `tail` is the end of what is shown.
pub fn of_task(facts: &Facts, end: Option<&End>, losses: &Losses, tail: &str) -> Vec<Insight> {
    let mut insights = Vec::new();
    if let Some(note) = &facts.shell_note {
        insights.push(Insight::warning(note.clone()));
    }
    if let Some(cause) = &losses.disk_failed {
        insights.push(Insight::warning(format!(
            "the spool is not on disk ({cause}): only the newest output is kept, in memory."
        )));
    }
    if losses.bytes > 0 {
        insights.push(Insight::warning(format!(
            "{} of the output ({} lines) are gone: over the spool's quota (spool_task_quota, spool_quota).",
            size(losses.bytes),
            grouped(losses.lines)
        )));
    }
    let failed = end.is_some_and(|end| end.exit.code() != 0);
    if failed
        && facts.input != Input::Terminal
        && NO_TERMINAL.iter().any(|sign| tail.contains(sign))
    {
        insights.push(Insight::warning(
            "a program wanted a terminal and there is none: run it again with pty: true and answer with zsh_send.",
        ));
    }
    insights
}
