//! Events that spare an agent from polling a task.
//!
//! An event is pending until a tool's answer, a notice or an event stream has reported it. While a
//! call is about the task, no event is pending, since the call's answer reports it:
//! `LiveState::pending_event`.

use std::time::Instant;

use serde::{Deserialize, Serialize};

use crate::base::cancel::Wake;
use crate::base::sync::CondvarMutex;

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

/// Signals that the pending events of some task have changed.
#[derive(Debug, Default)]
pub(crate) struct EventSignal {
    count: CondvarMutex<u64>,
}

impl Wake for EventSignal {
    fn wake(&self) {
        self.notify();
    }
}

impl EventSignal {
    /// Wakes all waiting threads.
    pub(crate) fn notify(&self) {
        *self.count.lock() += 1;
        self.count.notify_all();
    }

    /// The number of notifications so far, for [`EventSignal::wait`]. Read it before the tasks'
    /// states.
    pub(crate) fn count(&self) -> u64 {
        *self.count.lock()
    }

    /// Waits for a notification after `seen`, or until the deadline.
    pub(crate) fn wait(&self, seen: u64, deadline: Option<Instant>) {
        let mut count = self.count.lock();
        while *count == seen && deadline.is_none_or(|deadline| Instant::now() < deadline) {
            count = self.count.wait(count, deadline);
        }
    }
}
