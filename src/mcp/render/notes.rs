//! Remarks about a task besides its output and status.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use jiff::Timestamp;

use crate::alan::insight::{Insight, Level};
use crate::process::probe::VisibilityLimit;
use crate::progress::condition::Visibility;
use crate::shell::outcome::Outcome;
use crate::task::describe;
use crate::task::live::{End, Facts, Input};
use crate::task::output::spool::Losses;
use crate::task::sandboxes;
use crate::task::tombstone::{EndCause, ServerEnd};
use crate::text::quantity::{grouped, size};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResultNote {
    pub level: Level,
    /// Whether it comes from the command history and not from the task itself.
    pub from_history: bool,
    pub message: String,
}

impl ResultNote {
    pub(crate) fn warning(message: impl Into<String>) -> ResultNote {
        ResultNote { level: Level::Warning, from_history: false, message: message.into() }
    }

    pub(crate) fn info(message: impl Into<String>) -> ResultNote {
        ResultNote { level: Level::Info, ..ResultNote::warning(message) }
    }
}

impl From<Insight> for ResultNote {
    fn from(insight: Insight) -> ResultNote {
        ResultNote { level: insight.level(), from_history: true, message: insight.to_string() }
    }
}

/// Text that programs print when they need a terminal and have none: the device's name and messages
/// of `isatty` refusals. Plain words such as "password" prove nothing.
const NO_TERMINAL: [&str; 6] = [
    "/dev/tty",
    "a terminal is required",
    "no tty present",
    "not a tty",
    "must be run from a terminal",
    "Inappropriate ioctl for device",
];

/// Says that a task's server has ended, and how.
pub(crate) fn server_ended_note(past: &ServerEnd, end: Option<&End>) -> ResultNote {
    let server = server_end(past);
    let Some(end) = end.filter(|end| end.outcome == Outcome::Interrupted) else {
        return ResultNote::info(format!("{server}, after this command."));
    };
    let assumed = if end.exit_assumed { " Its exit code is not known." } else { "" };
    ResultNote::warning(format!(
        "{server}, before this command did.{assumed} Run it again if it is still needed."
    ))
}

/// `its server was killed by signal 9 at 2026-07-28T00:00:00Z`
fn server_end(end: &ServerEnd) -> String {
    let how = match end.cause {
        EndCause::CleanExit => "its server ended".to_owned(),
        EndCause::Signal(number) => format!("its server was killed by signal {number}"),
        EndCause::Code(code) => format!("its server ended with exit code {code}"),
        EndCause::Unknown => "its server disappeared and was last seen".to_owned(),
    };
    let at = Duration::try_from_secs_f64(end.at).unwrap_or_default();
    let at = SystemTime::UNIX_EPOCH.checked_add(at);
    match at.and_then(|at| Timestamp::try_from(at).ok()) {
        Some(at) => format!("{how} at {at:.0}"),
        None => how,
    }
}

/// The insights about the task itself. `tail` is the end of the shown text, `made` what the answer is
/// to tell of unprotected files.
pub(crate) fn of_task(
    facts: &Facts,
    end: Option<&End>,
    losses: &Losses,
    tail: &str,
    made: &[PathBuf],
) -> Vec<ResultNote> {
    let notes = facts.start_notes.iter().cloned();
    let mut insights: Vec<ResultNote> = notes.map(ResultNote::warning).collect();
    let gap = facts.sandbox.as_deref().and_then(describe::sandbox_gap);
    insights.extend(gap.map(ResultNote::warning));
    if let Some(cause) = &losses.disk_failed {
        insights.push(ResultNote::warning(format!(
            "the spool is not on disk ({cause}): only the newest output is kept, in memory."
        )));
    }
    if losses.bytes > 0 {
        insights.push(ResultNote::warning(format!(
            "{} of the output ({} lines) are gone: over the spool's quota (spool_task_quota, spool_quota).",
            size(losses.bytes),
            grouped(losses.lines)
        )));
    }
    if end.is_some_and(|end| end.output_cut) {
        insights.push(ResultNote::warning(describe::OUTPUT_CUT));
    }
    let failed = end.is_some_and(|end| end.exit.code() != 0);
    if failed
        && facts.input != Input::Terminal
        && NO_TERMINAL.iter().any(|text| tail.contains(text))
    {
        insights.push(ResultNote::warning(
            "a program wanted a terminal and there is none: run it again with pty: true and answer with zsh_send.",
        ));
    }
    if let Some(sandbox) = &facts.sandbox {
        insights.extend(sandboxes::notes_made(sandbox, made).into_iter().map(ResultNote::warning));
    }
    if let Some(end) = end.filter(|_| failed) {
        insights.extend(sandboxes::refusal(facts, end, tail).map(ResultNote::warning));
    }
    if failed && cfg!(target_os = "macos") {
        insights.extend(refused_by_privacy(tail).map(ResultNote::warning));
    }
    insights
}

/// Whether macOS's privacy settings may have caused an error, by its message. macOS asks the person
/// at the screen once, for the application that started the client; later refusals are plain errors.
fn refused_by_privacy(tail: &str) -> Option<&'static str> {
    /// Folders that programs need permission for.
    const GUARDED: [&str; 6] =
        ["/Desktop", "/Documents", "/Downloads", "/Library/", "/Volumes/", "/.Trash"];
    let is_guarded = |line: &str| {
        line.contains("Operation not permitted") && GUARDED.iter().any(|place| line.contains(place))
    };
    if tail.lines().any(is_guarded) {
        return Some(
            "macOS may have refused access to this folder: allow the application that runs the \
             client to access it, in System Settings, Privacy & Security, Files & Folders or Full \
             Disk Access, and start the application again.",
        );
    }
    tail.contains("No route to host").then_some(
        "if this host is on your own network, macOS may have refused access to it: allow \
         the application that runs the client to use it, in System Settings, Privacy & Security, Local \
         Network.",
    )
}

/// Says what zsh-tool cannot see of a task's processes.
pub(crate) fn evidence_note(evidence: Visibility) -> Option<ResultNote> {
    match evidence {
        Visibility::Whole => None,
        Visibility::NoSystemCalls => Some(ResultNote::warning(
            "the kernel does not show what processes are blocked in: waiting for input is \
             recognized only by prompts and silence.",
        )),
        Visibility::Nothing => Some(ResultNote::warning(
            "no processes can be seen: waiting for input is recognized only by plain password \
             prompts, and stopped processes are not found.",
        )),
    }
}

/// Says what zsh-tool cannot see on this machine.
pub(crate) fn visibility_limit(limit: VisibilityLimit) -> &'static str {
    match limit {
        VisibilityLimit::NoProc => {
            "/proc cannot be read: waiting for input is recognized only by plain password \
             prompts, and stopped processes are not found"
        }
        VisibilityLimit::AnotherNamespace => {
            "/proc shows the processes of another PID namespace: waiting for input is recognized \
             only by plain password prompts, and stopped processes are not found"
        }
        VisibilityLimit::NoSystemCalls => {
            "what processes are blocked in cannot be read: waiting for input is recognized only \
             by prompts and silence"
        }
        VisibilityLimit::Portable => {
            "this system does not show what processes are blocked in: waiting for input is \
             recognized only by plain password prompts, and stopped processes are not found"
        }
        VisibilityLimit::MacOs => {
            "macOS does not show what processes are blocked in: waiting for input is recognized \
             by prompts and silence, on a pipe by a blocked read"
        }
        VisibilityLimit::OthersHidden => {
            "/proc hides other users' processes: sudo and su are recognized only by plain \
             password prompts"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_privacy_of_macos_may_have_refused_is_explained() {
        let of = |tail| refused_by_privacy(tail).unwrap_or_default();
        assert!(of("ls: /Users/me/Documents: Operation not permitted\n").contains("Full Disk"));
        assert!(of("ssh: connect to host nas port 22: No route to host").contains("Local Network"));
        assert_eq!(of("kill: 1: Operation not permitted\n/Users/me/Documents"), "");
        assert_eq!(of("cat: /Users/me/Documents/a: Permission denied"), "");
    }
}
