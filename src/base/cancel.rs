//! A call that may be cancelled until its answer begins, and what a cancellation wakes.

use std::fmt;
use std::sync::Weak;
use std::time::{Duration, Instant};

use super::sync::CondvarMutex;

/// How far a call has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Stage {
    /// It can still be cancelled.
    #[default]
    Open,
    /// It was cancelled: the client wants no answer.
    Cancelled,
    /// It was cancelled because the client stopped waiting after this long.
    TimedOut(Duration),
    /// As far as can be told, the client stopped waiting, and after at most this long.
    GivenUp(Duration),
    /// Its answer has begun and will be sent, so what it takes from the task is not lost.
    Answering,
}

impl Stage {
    fn is_cancelled(self) -> bool {
        matches!(self, Stage::Cancelled | Stage::TimedOut(_) | Stage::GivenUp(_))
    }
}

/// What a call waits for, and what wakes it there.
pub trait Wake: Send + Sync {
    fn wake(&self);
}

/// A call that may be cancelled until its answer begins, and what to wake then.
#[derive(Default)]
pub struct Cancel {
    call: CondvarMutex<CallState>,
}

#[derive(Default)]
struct CallState {
    stage: Stage,
    /// What it waits for.
    waits_for: Option<Weak<dyn Wake>>,
    /// Wakes it while it waits for descriptors.
    waker: Option<Box<dyn Wake>>,
    /// Called if the client stops waiting.
    on_time_out: Option<Box<dyn FnOnce() + Send>>,
}

impl fmt::Debug for Cancel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Cancel({:?})", self.call.lock().stage)
    }
}

impl Cancel {
    /// Cancels the call and ends its wait, unless its answer has begun.
    pub fn cancel(&self) {
        self.cancel_at(Stage::Cancelled);
    }

    /// As [`Cancel::cancel`], because the client stopped waiting after this long.
    pub(crate) fn time_out(&self, waited: Duration) {
        self.cancel_at(Stage::TimedOut(waited));
    }

    /// As [`Cancel::time_out`], but without a word of the client, which may still wait.
    pub(crate) fn give_up(&self, waited: Duration) {
        self.cancel_at(Stage::GivenUp(waited));
    }

    fn cancel_at(&self, stage: Stage) {
        let (waits_for, waker, on_time_out) = {
            let mut call = self.call.lock();
            if call.stage != Stage::Open {
                return;
            }
            call.stage = stage;
            (call.waits_for.take(), call.waker.take(), call.on_time_out.take())
        };
        if let Some(on_time_out) = on_time_out.filter(|_| stage != Stage::Cancelled) {
            on_time_out();
        }
        self.call.notify_all();
        if let Some(waker) = waker {
            waker.wake();
        }
        if let Some(waits_for) = waits_for.as_ref().and_then(Weak::upgrade) {
            waits_for.wake();
        }
    }

    /// Sets what a cancellation wakes. The caller checks for a cancellation after this.
    pub(crate) fn wait_for(&self, awaited: Weak<dyn Wake>) {
        self.call.lock().waits_for = Some(awaited);
    }

    pub fn is_cancelled(&self) -> bool {
        self.call.lock().stage.is_cancelled()
    }

    /// How long the client has waited, if the call was cancelled for that reason.
    pub(crate) fn timed_out_after(&self) -> Option<Duration> {
        match self.call.lock().stage {
            Stage::TimedOut(waited) | Stage::GivenUp(waited) => Some(waited),
            _ => None,
        }
    }

    /// Whether the client stopped waiting, as far as can be told.
    pub(crate) fn is_given_up(&self) -> bool {
        matches!(self.call.lock().stage, Stage::GivenUp(_))
    }

    /// Sets what to do when the client stops waiting; does it at once if it has.
    pub(crate) fn on_time_out(&self, act: impl FnOnce() + Send + 'static) {
        let mut call = self.call.lock();
        if matches!(call.stage, Stage::TimedOut(_) | Stage::GivenUp(_)) {
            drop(call);
            act();
        } else {
            call.on_time_out = Some(Box::new(act));
        }
    }

    /// Waits for the cancellation only; returns false if it did not come before the deadline.
    pub fn await_cancellation(&self, deadline: Instant) -> bool {
        let mut call = self.call.lock();
        while !call.stage.is_cancelled() {
            if Instant::now() >= deadline {
                return false;
            }
            call = self.call.wait(call, Some(deadline));
        }
        true
    }

    /// Begins the answer: from now on the call cannot be cancelled. Returns false if it already
    /// was.
    pub fn begin_answer(&self) -> bool {
        let mut call = self.call.lock();
        if call.stage == Stage::Open {
            call.stage = Stage::Answering;
        }
        call.stage == Stage::Answering
    }

    /// Sets what wakes the call if it is cancelled while it waits for descriptors. Wakes at once
    /// if it was cancelled before.
    pub fn set_waker(&self, waker: impl Wake + 'static) {
        let mut call = self.call.lock();
        match call.stage {
            Stage::Cancelled | Stage::TimedOut(_) | Stage::GivenUp(_) => waker.wake(),
            Stage::Open | Stage::Answering => call.waker = Some(Box::new(waker)),
        }
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
        assert!(!cancel.begin_answer(), "a cancelled call takes no output");
    }
}
