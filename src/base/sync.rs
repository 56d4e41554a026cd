//! One mutex with its condvar, from parking_lot or, with the feature `shuttle`,
//! from the model checker.
//!
//! Guards are moved through the waits, as in std, which both implementations support. Under
//! Shuttle timed waits never time out: a lost wake-up becomes a deadlock, which the model
//! check detects.

use std::sync::Arc;
use std::time::Instant;

#[cfg(not(feature = "shuttle"))]
use parking_lot::{Condvar, Mutex, MutexGuard};
#[cfg(feature = "shuttle")]
use shuttle::sync::{Condvar, Mutex, MutexGuard};

/// A value behind a mutex, and the condvar that signals its changes.
#[derive(Debug, Default)]
pub(crate) struct CondvarMutex<T> {
    value: Mutex<T>,
    changed: Condvar,
}

/// The lock of a [`CondvarMutex`], held.
pub(crate) type Guard<'a, T> = MutexGuard<'a, T>;

impl<T> CondvarMutex<T> {
    /// Puts a value behind the lock.
    pub(crate) fn new(value: T) -> Self {
        CondvarMutex { value: Mutex::new(value), changed: Condvar::new() }
    }

    /// Wakes every waiting thread.
    pub(crate) fn notify_all(&self) {
        self.changed.notify_all();
    }
}

#[cfg(not(feature = "shuttle"))]
impl<T> CondvarMutex<T> {
    /// Takes the lock.
    pub(crate) fn lock(&self) -> Guard<'_, T> {
        self.value.lock()
    }

    /// Releases the lock until another thread notifies or `deadline` passes (`None`: never);
    /// the caller checks the value again, since wake-ups may be spurious.
    pub(crate) fn wait<'a>(
        &self,
        mut guard: Guard<'a, T>,
        deadline: Option<Instant>,
    ) -> Guard<'a, T> {
        match deadline {
            Some(deadline) => {
                self.changed.wait_until(&mut guard, deadline);
            }
            None => self.changed.wait(&mut guard),
        }
        guard
    }
}

#[cfg(feature = "shuttle")]
impl<T> CondvarMutex<T> {
    /// Takes the lock.
    pub(crate) fn lock(&self) -> Guard<'_, T> {
        self.value.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Waits for a notification; the deadline is never reached under the model checker.
    pub(crate) fn wait<'a>(&self, guard: Guard<'a, T>, _deadline: Option<Instant>) -> Guard<'a, T> {
        // The checker switches threads at its own operations only; a real one may switch between a
        // caller's last check and its wait.
        shuttle::thread::yield_now();
        self.changed.wait(guard).unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// Passes one value to the thread that waits for it. That thread sleeps at once, where a channel's
/// receiver would first spin and yield, which takes the processor from the sender.
pub(crate) fn handover<T>() -> (Giver<T>, Taker<T>) {
    let slot = Arc::new(CondvarMutex::new(Slot { value: None, is_given: false }));
    (Giver(Arc::clone(&slot)), Taker(slot))
}

#[derive(Debug)]
struct Slot<T> {
    value: Option<T>,
    /// Whether the giver is done, with or without a value.
    is_given: bool,
}

/// Gives the value; dropped without one, it ends the other's wait.
#[derive(Debug)]
pub(crate) struct Giver<T>(Arc<CondvarMutex<Slot<T>>>);

impl<T> Giver<T> {
    pub(crate) fn give(self, value: T) {
        self.0.lock().value = Some(value);
    }
}

impl<T> Drop for Giver<T> {
    fn drop(&mut self) {
        self.0.lock().is_given = true;
        self.0.notify_all();
    }
}

/// Waits for the value.
#[derive(Debug)]
pub(crate) struct Taker<T>(Arc<CondvarMutex<Slot<T>>>);

impl<T> Taker<T> {
    /// The value; `None` if none will come.
    pub(crate) fn take(self) -> Option<T> {
        let mut slot = self.0.lock();
        while !slot.is_given {
            slot = self.0.wait(slot, None);
        }
        slot.value.take()
    }
}
