//! What an agent would otherwise poll a task for, and what of that has been reported.
//!
//! An event is pending until an answer of a tool, a notice or a reader of events has reported it,
//! and while no call is about the task, whose answer will: `LiveState::pending_event`.

use std::time::Instant;

use serde::{Deserialize, Serialize};

use crate::base::sync::Monitor;
use crate::progress::waiting::Waiting;

/// What has happened to a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EventKind {
    Ended,
    /// It waits for input or a password.
    Waiting,
    /// A signal has stopped it.
    Stopped,
    Stuck,
    /// The processes that outlived it, which have been reported, are gone.
    LeftoversGone,
}

/// What of a task's state has been reported, apart from its end and whether it is stuck.
#[derive(Debug, Default)]
pub(crate) struct ReportedEvents {
    /// The last wait for input.
    pub(super) waiting: Option<Waiting>,
    /// The program draws a full screen, whose last line is no prompt.
    pub(super) is_screen: bool,
    /// It is held up by a signal.
    pub(super) stopped: bool,
    /// Its end, with processes that outlived it.
    pub(super) leftovers: bool,
}

impl ReportedEvents {
    /// Whether this wait has been reported. A program that prints while it waits does not wait
    /// anew.
    pub(super) fn has_reported(&self, waiting: &Waiting) -> bool {
        self.waiting.as_ref().is_some_and(|reported| {
            (&reported.reader, reported.wanted) == (&waiting.reader, waiting.wanted)
                && (self.is_screen || reported.prompt == waiting.prompt)
        })
    }
}

/// Signals that the pending events of some task have changed.
#[derive(Debug, Default)]
pub struct EventSignal {
    count: Monitor<u64>,
}

impl EventSignal {
    /// Wakes all that wait.
    pub fn notify(&self) {
        *self.count.lock() += 1;
        self.count.notify_all();
    }

    /// How often it was notified, for [`EventSignal::wait`]. Call it before looking at the tasks.
    pub fn count(&self) -> u64 {
        *self.count.lock()
    }

    /// Waits for a notification after `seen`, or until the deadline.
    pub fn wait(&self, seen: u64, deadline: Option<Instant>) {
        let mut count = self.count.lock();
        while *count == seen && deadline.is_none_or(|deadline| Instant::now() < deadline) {
            count = self.count.wait(count, deadline);
        }
    }
}
