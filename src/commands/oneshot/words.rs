//! Text about runs that `list`, `show` and `follow` share.

use std::path::Path;
use std::time::Duration;

use crate::base::clock::{Clock, SystemClock};
use crate::commands::output;
use crate::oneshot::repository::WorkTree;
use crate::oneshot::sessions::RunView;
use crate::oneshot::state::RunState;
use crate::text::ansi::{self, Colours};
use crate::text::lines;
use crate::text::quantity::seconds;

/// The state of a run, and whether it has a runner: `WORKER_EXECUTING (runner died, resumable)`.
pub(super) fn state(run: &RunView) -> String {
    let state = run.file.state;
    let word = match (run.live, state) {
        (true, _) | (_, RunState::Completed | RunState::Rejected | RunState::Failed) => {
            return reason(run);
        }
        (false, RunState::Interrupted) => "resumable",
        (false, _) => "runner died, resumable",
    };
    format!("{} ({word})", state.name())
}

fn reason(run: &RunView) -> String {
    let name = run.file.state.name();
    let reason = run.file.last().and_then(|entry| entry.basis.reason.as_ref());
    let resumable = if run.is_resumable() { ", resumable" } else { "" };
    match reason {
        Some(reason) => format!("{name} ({}{resumable})", line(&reason.to_string(), MAX_REASON)),
        None => name.to_owned(),
    }
}

/// The lines that take over or throw away what is in a run's work tree, for pasting into a shell. A
/// commit that fails is the end of the line.
pub(super) fn about_work_tree(tree: &WorkTree, id: &str) -> [(&'static str, String); 2] {
    let word = |path: &Path| output::shell_word(&path.to_string_lossy());
    let (path, repository) = (word(&tree.path), word(&tree.repository));
    let (branch, id) = (output::shell_word(&tree.branch), id.get(..8).unwrap_or(id));
    let take_over = format!(
        "git -C {path} add -A && {{ git -C {path} diff --cached --quiet || \
         git -C {path} commit -m 'oneshot {id}'; }} && git -C {repository} merge {branch} && \
         git -C {repository} worktree remove {path} && git -C {repository} branch -d {branch}"
    );
    let throw_away = format!(
        "git -C {repository} worktree remove --force {path} && \
         git -C {repository} branch -D {branch}"
    );
    [("take over", take_over), ("throw away", throw_away)]
}

/// Characters of a reason that are shown after a state.
const MAX_REASON: usize = 60;

/// The first line of a text, without control sequences, cut to `limit` characters.
pub(super) fn line(text: &str, limit: usize) -> String {
    let mut lines = text.lines().filter(|line| !line.trim().is_empty());
    let first = lines.next().unwrap_or_default();
    let more = lines.next().is_some();
    let shown = clean(first);
    let cut = lines::elide_middle(shown.trim(), limit);
    if more && !cut.ends_with('…') {
        return format!("{cut} …");
    }
    cut
}

/// A line without control sequences.
pub(super) fn clean(line: &str) -> String {
    ansi::readable(line.as_bytes(), Colours::Drop, None)
}

/// A text of several lines without control sequences.
pub(super) fn text(text: &str) -> String {
    text.lines().map(clean).collect::<Vec<_>>().join("\n")
}

/// The time since a moment: `3m05s`.
pub(super) fn ago(ts: f64) -> String {
    seconds(between(ts, SystemClock.now().unix_seconds()))
}

/// The time between two moments; zero if the clock was set back.
pub(super) fn between(from: f64, to: f64) -> Duration {
    Duration::try_from_secs_f64(to - from).unwrap_or_default()
}
