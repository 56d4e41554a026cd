//! What is asked of a run from outside while it goes on, and the bell that rings for it.
//!
//! Whoever asks sends its wish and rings; whoever waits for an agent's output hears it at
//! once, by the task's condvar. A bell that nobody heard is heard by the next wait.

use std::sync::Arc;

use crossbeam_channel::{Receiver, Sender, bounded};
use parking_lot::Mutex;

use crate::agent::checks::CheckState;
use crate::task::live::Cancel;

/// Wishes that may wait; a person and a judge have few.
const MOST_WAITING: usize = 16;

/// What is asked of a run.
#[derive(Debug)]
pub enum Control {
    /// This signal: the run is to pause.
    Interrupt(i32),
    /// The run is to end for good.
    Cancel,
    /// The judge has answered, if it could.
    Judged {
        /// The task of the agent that it was asked about.
        task: String,
        /// The answer.
        state: Option<CheckState>,
    },
    /// The person has answered: whether a stuck agent is waited for.
    GoOn(bool),
}

/// Rings for one who waits.
#[derive(Debug, Default)]
pub struct Bell {
    /// Whether it has rung since it was last heard, and what ends the present wait.
    inner: Mutex<(bool, Arc<Cancel>)>,
}

impl Bell {
    /// Rings.
    pub fn ring(&self) {
        let waiting = {
            let mut inner = self.inner.lock();
            inner.0 = true;
            Arc::clone(&inner.1)
        };
        waiting.cancel();
    }

    /// Whether it has rung; it is heard by this.
    pub fn heard(&self) -> bool {
        let mut inner = self.inner.lock();
        if inner.0 {
            *inner = (false, Arc::default());
            return true;
        }
        false
    }

    /// What ends a wait as soon as it rings, or at once if it has.
    pub fn wait(&self) -> Arc<Cancel> {
        Arc::clone(&self.inner.lock().1)
    }
}

/// The sender's side.
#[derive(Debug, Clone)]
pub struct Controller {
    sender: Sender<Control>,
    bell: Arc<Bell>,
}

/// The run's side.
#[derive(Debug)]
pub struct Controls {
    receiver: Receiver<Control>,
    /// Rings when there is something to take.
    pub bell: Arc<Bell>,
}

/// Both sides.
pub fn controls() -> (Controller, Controls) {
    let (sender, receiver) = bounded(MOST_WAITING);
    let bell = Arc::<Bell>::default();
    let controller = Controller {
        sender,
        bell: Arc::clone(&bell),
    };
    (controller, Controls { receiver, bell })
}

impl Controller {
    /// Asks. Nobody hears it when the run is over, and more than a few wishes that nobody
    /// has taken say nothing new.
    pub fn ask(&self, control: Control) {
        let _ = self.sender.try_send(control);
        self.bell.ring();
    }
}

impl Controls {
    /// The next wish, if there is one.
    pub fn take(&self) -> Option<Control> {
        self.receiver.try_recv().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bell_is_heard_once_and_not_missed() {
        let (controller, controls) = controls();
        assert!(!controls.bell.heard());
        controller.ask(Control::Cancel);
        assert!(controls.bell.wait().is_cancelled(), "the wait ends at once");
        assert!(controls.bell.heard());
        assert!(!controls.bell.heard());
        assert!(!controls.bell.wait().is_cancelled());
        assert!(matches!(controls.take(), Some(Control::Cancel)));
        assert!(controls.take().is_none());
    }
}
