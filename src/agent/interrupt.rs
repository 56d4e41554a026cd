//! An order to stop waiting, for what one thread does on another's behalf.

use std::time::{Duration, Instant};

use crate::base::sync::Monitor;

/// Given once, and for good.
#[derive(Debug, Default)]
pub struct Interrupt {
    given: Monitor<bool>,
}

impl Interrupt {
    /// Gives the order: all waiting ends.
    pub fn give(&self) {
        *self.given.lock() = true;
        self.given.notify_all();
    }

    /// Whether it has been given.
    pub fn is_given(&self) -> bool {
        *self.given.lock()
    }

    /// Waits for so long; true, and at once, when the order is given.
    pub fn wait(&self, time: Duration) -> bool {
        let deadline = Instant::now() + time;
        let mut given = self.given.lock();
        while !*given && Instant::now() < deadline {
            given = self.given.wait(given, Some(deadline));
        }
        *given
    }
}
