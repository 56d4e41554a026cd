//! Requests to a run from outside.
//!
//! The sender queues its request and wakes the run, if it waits for an agent's output. If the
//! run is not waiting, its next wait ends at once.

use std::sync::Arc;

use crossbeam_channel::{Receiver, Sender, bounded};
use parking_lot::Mutex;

use super::state::Event;
use crate::agent::checks::CheckState;
use crate::task::live::Cancel;

/// How many requests may be queued; a person and a judge send few.
const MOST_WAITING: usize = 16;

/// A request to a run.
#[derive(Debug)]
pub enum Control {
    /// The run is to pause or to end for good.
    Stop(Event),
    /// The judge has answered, or failed to.
    Judged {
        /// The task of the agent that it was asked about.
        task: String,
        /// The answer.
        state: Option<CheckState>,
    },
    /// The person has answered: whether a stuck agent is waited for.
    GoOn(bool),
}

/// Wakes a waiting run.
#[derive(Debug, Default)]
pub(crate) struct Waker {
    /// Whether it was woken since the last [`Waker::take_wakeup`], and what cancels the present
    /// wait.
    inner: Mutex<(bool, Arc<Cancel>)>,
}

impl Waker {
    /// Ends the present or the next wait.
    pub(crate) fn wake(&self) {
        let waiting = {
            let mut inner = self.inner.lock();
            inner.0 = true;
            Arc::clone(&inner.1)
        };
        waiting.cancel();
    }

    /// Whether it was woken since the last call of this.
    pub(crate) fn take_wakeup(&self) -> bool {
        let mut inner = self.inner.lock();
        if inner.0 {
            *inner = (false, Arc::default());
            return true;
        }
        false
    }

    /// What cancels a wait when it is woken, or at once if it was.
    pub(crate) fn wait(&self) -> Arc<Cancel> {
        Arc::clone(&self.inner.lock().1)
    }
}

/// The sender's side.
#[derive(Debug, Clone)]
pub struct Controller {
    sender: Sender<Control>,
    pub(crate) waker: Arc<Waker>,
}

/// The run's side.
#[derive(Debug)]
pub struct Controls {
    pub(crate) receiver: Receiver<Control>,
    /// The other side.
    pub(crate) controller: Controller,
}

impl Controller {
    /// Sends a request. It is dropped when the run is over or the queue is full: a full queue
    /// already holds whatever could be asked.
    pub(crate) fn ask(&self, control: Control) {
        let _ = self.sender.try_send(control);
        self.waker.wake();
    }
}

impl Controls {
    /// A queue without a request.
    pub(crate) fn new() -> Controls {
        let (sender, receiver) = bounded(MOST_WAITING);
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
        controls.controller.ask(Control::Stop(Event::Cancel));
        assert!(controls.controller.waker.wait().is_cancelled(), "the wait ends at once");
        assert!(controls.controller.waker.take_wakeup());
        assert!(!controls.controller.waker.take_wakeup());
        assert!(!controls.controller.waker.wait().is_cancelled());
        assert!(matches!(controls.take(), Some(Control::Stop(Event::Cancel))));
        assert!(controls.take().is_none());
    }
}
