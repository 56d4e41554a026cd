//! Calls that may be cancelled while they wait for a task, or for descriptors.

use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Instant;

use crate::base::sync::Monitor;
use crate::process::descriptors::Waker;

/// Something that calls wait for.
pub trait Watched: Send + Sync + fmt::Debug {
    /// Wakes all who wait for something of it.
    fn wake_watchers(&self);
}

/// How far a call is, as far as cancelling it goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Stage {
    /// It can be cancelled.
    #[default]
    Open,
    /// It was: there is no answer.
    Cancelled,
    /// Its answer has begun and will be sent: what it takes is not lost.
    Answering,
}

/// A call that may be cancelled until its answer begins, and whom to wake then.
#[derive(Debug, Default)]
pub struct Cancel {
    call: Monitor<CallState>,
}

#[derive(Debug, Default)]
struct CallState {
    stage: Stage,
    /// The task that it waits for something of.
    task: Option<Weak<dyn Watched>>,
    /// Wakes it where it waits for descriptors.
    waker: Option<Waker>,
}

impl Cancel {
    /// Cancels the call, unless its answer has begun: its waiting ends.
    pub fn cancel(&self) {
        let (task, waker) = {
            let mut call = self.call.lock();
            if call.stage != Stage::Open {
                return;
            }
            call.stage = Stage::Cancelled;
            (call.task.take(), call.waker.take())
        };
        self.call.notify_all();
        if let Some(waker) = waker {
            waker.wake();
        }
        if let Some(task) = task.as_ref().and_then(Weak::upgrade) {
            task.wake_watchers();
        }
    }

    /// Whether it was cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.call.lock().stage == Stage::Cancelled
    }

    /// Waits for nothing but the cancellation; false: it did not come before the deadline.
    pub fn wait_until(&self, deadline: Instant) -> bool {
        let mut call = self.call.lock();
        while call.stage != Stage::Cancelled {
            if Instant::now() >= deadline {
                return false;
            }
            call = self.call.wait(call, Some(deadline));
        }
        true
    }

    /// Begins the answer: from now on the call cannot be cancelled. False: it was.
    pub fn begin_answer(&self) -> bool {
        let mut call = self.call.lock();
        if call.stage == Stage::Open {
            call.stage = Stage::Answering;
        }
        call.stage == Stage::Answering
    }

    /// What wakes the call when it is cancelled while it waits for descriptors; at once
    /// where it was cancelled before.
    pub fn wake_by(&self, waker: Waker) {
        let mut call = self.call.lock();
        match call.stage {
            Stage::Cancelled => waker.wake(),
            Stage::Open | Stage::Answering => call.waker = Some(waker),
        }
    }

    /// It waits for something of this task.
    pub(super) fn watch(&self, task: &Arc<dyn Watched>) {
        self.call.lock().task = Some(Arc::downgrade(task));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_cancelled_until_its_answer_begins() {
        let cancel = Cancel::default();
        assert!(cancel.begin_answer());
        cancel.cancel();
        assert!(!cancel.is_cancelled(), "the answer is sent");
        assert!(cancel.begin_answer());

        let cancel = Cancel::default();
        cancel.cancel();
        assert!(cancel.is_cancelled());
        assert!(!cancel.begin_answer(), "nothing is taken for nobody");
    }
}
