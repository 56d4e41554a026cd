//! What an agent would otherwise poll a task for, and what of that has been reported.
//!
//! An event is pending until an answer of a tool, a notice or a reader of events has reported it,
//! and while no call is about the task, whose answer will.

use std::time::Instant;

use serde::{Deserialize, Serialize};

use super::live::LiveState;
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
    waiting: Option<Waiting>,
    /// It is held up by a signal.
    stopped: bool,
    /// Its end, with processes that outlived it.
    leftovers: bool,
}

impl LiveState {
    /// The event that is to be reported now, if there is one.
    pub fn pending_event(&self) -> Option<EventKind> {
        if self.active_calls > 0 {
            return None;
        }
        if self.ended.is_some() {
            let reported = self.end_reported || self.end_noticed;
            let gone = self.closed && self.reported.leftovers;
            return match reported {
                false => Some(EventKind::Ended),
                true => gone.then_some(EventKind::LeftoversGone),
            };
        }
        if let Some(waiting) = &self.waiting {
            return (!self.reported.has_reported(waiting)).then_some(EventKind::Waiting);
        }
        if self.is_held_up_by_stop() {
            return (!self.reported.stopped).then_some(EventKind::Stopped);
        }
        (self.is_stuck && !self.stuck_reported).then_some(EventKind::Stuck)
    }

    /// Marks an event as reported.
    pub(crate) fn report_event(&mut self, event: EventKind) {
        match event {
            EventKind::Ended => self.end_noticed = true,
            EventKind::Stuck => self.stuck_reported = true,
            EventKind::Waiting | EventKind::Stopped | EventKind::LeftoversGone => {}
        }
        self.note_reported();
    }

    /// Makes an event pending again whose report was lost.
    pub(crate) fn take_back_event(&mut self, event: EventKind) {
        match event {
            EventKind::Ended => self.end_noticed = false,
            EventKind::Stuck => self.stuck_reported = false,
            EventKind::Waiting => self.reported.waiting = None,
            EventKind::Stopped => self.reported.stopped = false,
            EventKind::LeftoversGone => self.reported.leftovers = true,
        }
    }

    /// Notes that the present state has been reported.
    pub(super) fn note_reported(&mut self) {
        if self.waiting.is_some() {
            self.reported.waiting.clone_from(&self.waiting);
        }
        self.reported.stopped = self.is_held_up_by_stop();
        self.reported.leftovers = self.lingers();
    }

    /// What it waits for or has stopped it was answered: the next time is another one.
    pub(super) fn forget_reported(&mut self) {
        self.reported.waiting = None;
        self.reported.stopped = false;
    }

    /// Whether the end of processes that outlive the task is to be reported.
    pub(super) fn awaits_leftovers(&self) -> bool {
        self.reported.leftovers
    }
}

impl ReportedEvents {
    /// Whether this wait has been reported. A program that prints while it waits does not wait
    /// anew.
    fn has_reported(&self, waiting: &Waiting) -> bool {
        self.waiting.as_ref().is_some_and(|reported| {
            (&reported.reader, reported.wanted, &reported.prompt)
                == (&waiting.reader, waiting.wanted, &waiting.prompt)
        })
    }

    /// A process that runs again and is stopped later is stopped anew.
    pub(super) fn note_stop(&mut self, is_stopped: bool) {
        self.stopped &= is_stopped;
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
