//! Requests to a run from outside.
//!
//! The sender queues its request and wakes the run. If the run is not waiting for an agent's
//! output, its next wait returns immediately.

use std::sync::Arc;

use crossbeam_channel::{Receiver, Sender, bounded};
use parking_lot::Mutex;

use super::state::RunEvent;
use crate::agent::checks::CheckState;
use crate::base::cancel::Cancel;

/// How many requests may be queued. A person and a judge send few.
const MAX_QUEUED: usize = 16;

/// A request to a run.
#[derive(Debug)]
pub(crate) enum Control {
    /// Pause the run or end it permanently.
    Stop(RunEvent),
    /// The judge has answered or failed.
    Judged {
        /// The task of the agent that the judge was asked about.
        task: String,
        /// The result of the check; `None` if it was dropped.
        state: Option<CheckState>,
    },
    /// The person's answer: whether to wait for the stuck agent.
    KeepWaiting(bool),
}

/// Wakes a waiting run.
#[derive(Debug, Default)]
pub(crate) struct Waker {
    /// Whether it was woken since the last [`Waker::take_wakeup`], and the canceller of the current
    /// wait.
    inner: Mutex<(bool, Arc<Cancel>)>,
}

impl Waker {
    /// Ends the current or the next wait.
    pub(crate) fn wake(&self) {
        let waiting = {
            let mut inner = self.inner.lock();
            inner.0 = true;
            Arc::clone(&inner.1)
        };
        waiting.cancel();
    }

    /// Whether it was woken since the last call of this method.
    pub(crate) fn take_wakeup(&self) -> bool {
        let mut inner = self.inner.lock();
        if inner.0 {
            *inner = (false, Arc::default());
            return true;
        }
        false
    }

    /// The canceller of a wait: cancelled when it is woken, or already cancelled if it was woken
    /// before.
    pub(crate) fn wait(&self) -> Arc<Cancel> {
        Arc::clone(&self.inner.lock().1)
    }
}

/// The sender's side.
#[derive(Debug, Clone)]
pub(crate) struct Controller {
    sender: Sender<Control>,
    pub(crate) waker: Arc<Waker>,
}

/// The run's side.
#[derive(Debug)]
pub(crate) struct Controls {
    pub(crate) receiver: Receiver<Control>,
    /// The sender's side.
    pub(crate) controller: Controller,
}

impl Controller {
    /// Sends a request. Drops it if the run has ended or the queue is full: a full queue already
    /// contains every useful request.
    pub(crate) fn send(&self, control: Control) {
        let _ = self.sender.try_send(control);
        self.waker.wake();
    }
}

impl Controls {
    /// An empty queue.
    pub(crate) fn new() -> Controls {
        let (sender, receiver) = bounded(MAX_QUEUED);
        Controls { receiver, controller: Controller { sender, waker: Arc::default() } }
    }

    /// The next request, if there is one.
    pub(crate) fn take(&self) -> Option<Control> {
        self.receiver.try_recv().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_waker_wakes_once_and_is_not_missed() {
        let controls = Controls::new();
        assert!(!controls.controller.waker.take_wakeup());
        controls.controller.send(Control::Stop(RunEvent::Cancel));
        assert!(controls.controller.waker.wait().is_cancelled(), "the wait ends at once");
        assert!(controls.controller.waker.take_wakeup());
        assert!(!controls.controller.waker.take_wakeup());
        assert!(!controls.controller.waker.wait().is_cancelled());
        assert!(matches!(controls.take(), Some(Control::Stop(RunEvent::Cancel))));
        assert!(controls.take().is_none());
    }
}
