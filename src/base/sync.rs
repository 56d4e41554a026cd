//! One mutex with its condvar, from parking_lot or, with the feature `shuttle`,
//! from the model checker.
//!
//! Guards are moved through the waits, as in std, which both implementations support. Under
//! Shuttle timed waits never time out: a lost wake-up becomes a deadlock, which the model
//! check detects.

use std::time::Instant;

#[cfg(not(feature = "shuttle"))]
use parking_lot::{Condvar, Mutex, MutexGuard};
#[cfg(feature = "shuttle")]
use shuttle::sync::{Condvar, Mutex, MutexGuard};

/// A value behind a mutex, and the condvar that signals its changes.
#[derive(Debug, Default)]
pub struct Monitor<T> {
    value: Mutex<T>,
    changed: Condvar,
}

/// The lock of a [`Monitor`], held.
pub type Guard<'a, T> = MutexGuard<'a, T>;

impl<T> Monitor<T> {
    /// Puts a value behind the lock.
    pub fn new(value: T) -> Self {
        Monitor { value: Mutex::new(value), changed: Condvar::new() }
    }

    /// Wakes every waiting thread.
    pub fn notify_all(&self) {
        self.changed.notify_all();
    }
}

#[cfg(not(feature = "shuttle"))]
impl<T> Monitor<T> {
    /// Takes the lock.
    pub fn lock(&self) -> Guard<'_, T> {
        self.value.lock()
    }

    /// Releases the lock until another thread notifies or `deadline` passes (`None`: never);
    /// the caller checks the value again, since wake-ups may be spurious.
    pub fn wait<'a>(&self, mut guard: Guard<'a, T>, deadline: Option<Instant>) -> Guard<'a, T> {
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
impl<T> Monitor<T> {
    /// Takes the lock.
    pub fn lock(&self) -> Guard<'_, T> {
        self.value.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Waits for a notification; the deadline is never reached under the model checker.
    pub fn wait<'a>(&self, guard: Guard<'a, T>, _deadline: Option<Instant>) -> Guard<'a, T> {
        // The checker switches threads at its own operations only; a real one may switch between a
        // caller's last check and its wait.
        shuttle::thread::yield_now();
        self.changed.wait(guard).unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}
