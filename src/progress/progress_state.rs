//! What probes have found about a task's progress. Pure.

use std::time::{Duration, Instant};

use super::status_forecast::{BlockedOn, Status};
use super::tracker::{ActivityDelta, ChangeKind, Repetition, Tracker};
use super::tree_state::TreeState;

/// The status of a task at one moment, and its evidence.
#[derive(Debug, Clone, PartialEq)]
pub struct Verdict {
    pub status: Status,
    /// Its activity between the last two probes.
    pub delta: ActivityDelta,
    /// What its processes do, if known, and for how long.
    pub tree_state: Option<(TreeState, Duration)>,
    /// A process that is stuck beside others that are not.
    pub stuck_part: Option<TreeState>,
    /// The summary with which a runner's output has ended, although the task still waits.
    pub finished: Option<String>,
    /// How long nothing has been new.
    pub unchanged_for: Duration,
    /// The newest change; `None` before the first.
    pub last_change: Option<ChangeKind>,
    /// What it prints again and again.
    pub repetition: Option<Repetition>,
    /// The address of this machine that the repeated line names, if nothing listens there.
    pub unserved: Option<String>,
}

#[derive(Debug, Clone)]
pub struct ProgressState {
    pub tracker: Tracker,
    /// What the processes do; `None` if unobservable.
    pub tree_state: Option<TreeState>,
    /// When they began to do that.
    pub tree_state_since: Instant,
    /// A process that is stuck beside others that are not.
    pub stuck_part: Option<TreeState>,
    /// The summary with which a runner's output has ended, although the task still waits.
    pub finished: Option<String>,
    /// The address of this machine that the repeated line names, if nothing listens there.
    pub unserved: Option<String>,
    /// Whether the newest probe saw no process of the task, or could not read all counters.
    pub degraded: bool,
}

impl ProgressState {
    /// The state before the first probe.
    pub fn new(tracker: Tracker, now: Instant) -> ProgressState {
        ProgressState {
            tracker,
            tree_state: None,
            tree_state_since: now,
            stuck_part: None,
            finished: None,
            unserved: None,
            degraded: false,
        }
    }

    /// The current verdict; `None` before the first probe. `held_up` is the reason for waiting that
    /// newer probes found.
    pub fn verdict(&self, held_up: Option<BlockedOn>, now: Instant) -> Option<Verdict> {
        let tree_state = self.tree_state.clone().map(|tree_state| {
            let lasted = now.saturating_duration_since(self.tree_state_since);
            (tree_state, lasted)
        });
        Some(Verdict {
            status: self.tracker.forecast(held_up).status(now),
            delta: *self.tracker.delta()?,
            tree_state,
            stuck_part: self.stuck_part.clone(),
            finished: self.finished.clone(),
            unchanged_for: self.tracker.unchanged_for(now),
            last_change: self.tracker.last_change.map(|last| last.kind),
            repetition: self.tracker.repetition(now),
            unserved: self.unserved.clone(),
        })
    }

    /// Records what the processes do according to the newest probe.
    pub fn observe(&mut self, tree_state: Option<TreeState>, now: Instant) {
        let continues = match (&tree_state, &self.tree_state) {
            (Some(newer), Some(earlier)) => newer.continues(earlier),
            (None, None) => true,
            _ => false,
        };
        if !continues {
            self.tree_state_since = now;
        }
        self.tree_state = tree_state;
    }
}
