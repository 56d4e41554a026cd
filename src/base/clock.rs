//! The time, as a value that is passed in.
//!
//! Everything that decides takes a [`Now`] and never reads a clock itself, so that
//! tests own the time. Limits: no time zones, no formatting.

use std::time::{Duration, Instant, SystemTime};

/// One moment, on both clocks: monotonic for durations, wall for records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Now {
    /// Never goes back; used for every deadline and duration.
    pub mono: Instant,
    /// May be set back by the user; used for what people read.
    pub wall: SystemTime,
}

impl Now {
    /// Seconds since the Unix epoch with fractions; 0 for a clock before 1970.
    pub fn unix_seconds(&self) -> f64 {
        self.wall
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or_default()
            .as_secs_f64()
    }
}

/// Where the time comes from: the system for the program, [`FakeClock`] for tests.
pub trait Clock: Send + Sync {
    /// The present moment.
    fn now(&self) -> Now;
}

/// The machine's clocks.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Now {
        Now {
            mono: Instant::now(),
            wall: SystemTime::now(),
        }
    }
}

/// A clock that moves only when it is told to.
#[derive(Debug)]
pub struct FakeClock {
    start: Now,
    elapsed: parking_lot::Mutex<Duration>,
}

impl Default for FakeClock {
    fn default() -> Self {
        FakeClock {
            start: SystemClock.now(),
            elapsed: parking_lot::Mutex::new(Duration::ZERO),
        }
    }
}

impl FakeClock {
    /// Moves the clock forward.
    pub fn advance(&self, by: Duration) {
        *self.elapsed.lock() += by;
    }
}

impl Clock for FakeClock {
    fn now(&self) -> Now {
        let elapsed = *self.elapsed.lock();
        Now {
            mono: self.start.mono + elapsed,
            wall: self.start.wall + elapsed,
        }
    }
}
