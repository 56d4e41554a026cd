//! Runs in words: what `list`, `show` and `follow` say in the same way.

use std::time::Duration;

use crate::base::clock::{Clock, SystemClock};
use crate::mcp::view;
use crate::oneshot::sessions::RunView;
use crate::oneshot::stage::State;
use crate::text::ansi::{self, Colours};
use crate::text::lines;

/// The state of a run, and whether it is true: `WORKER_EXECUTING (runner died)`.
pub(super) fn state(run: &RunView) -> String {
    let state = run.file.state;
    let word = match (run.live, state) {
        (true, _) | (_, State::Completed | State::Rejected | State::Failed) => return reason(run),
        (false, State::Interrupted) => "resumable",
        (false, _) => "runner died, resumable",
    };
    format!("{} ({word})", state.name())
}

fn reason(run: &RunView) -> String {
    let name = run.file.state.name();
    let reason = run.file.last().and_then(|entry| entry.reason.as_ref());
    match reason {
        Some(reason) => format!("{name} ({})", line(&reason.to_string(), MAX_REASON)),
        None => name.to_owned(),
    }
}

/// How much of an auditor's feedback stands behind a state.
const MAX_REASON: usize = 60;

/// The first line of a text, without anything that a terminal would obey.
pub(super) fn line(text: &str, most: usize) -> String {
    let mut lines = text.lines().filter(|line| !line.trim().is_empty());
    let first = lines.next().unwrap_or_default();
    let more = lines.next().is_some();
    let shown = clean(first);
    let cut = lines::clip(shown.trim(), most);
    match more && !cut.ends_with('…') {
        true => format!("{cut} …"),
        false => cut,
    }
}

/// A line without anything that a terminal would obey.
pub(super) fn clean(line: &str) -> String {
    ansi::readable(line.as_bytes(), Colours::Drop, None)
}

/// A text of many lines without anything that a terminal would obey.
pub(super) fn text(text: &str) -> String {
    text.lines().map(clean).collect::<Vec<_>>().join("\n")
}

/// How long ago a moment is: `3m05s`.
pub(super) fn ago(ts: f64) -> String {
    view::seconds(between(ts, SystemClock.now().unix_seconds()))
}

/// From one moment to another; nothing, if the clock was set back.
pub(super) fn between(from: f64, to: f64) -> Duration {
    Duration::try_from_secs_f64(to - from).unwrap_or_default()
}
