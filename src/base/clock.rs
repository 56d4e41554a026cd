//! The time, as a value that is passed in.
//!
//! Code that makes decisions takes a [`Now`] and never reads a clock itself, so that tests
//! control the time. Limits: no time zones, no formatting.

use std::time::{Duration, Instant, SystemTime};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

#[cfg(test)]
pub(crate) use tests::FakeClock;

/// One moment, on both clocks: monotonic for durations, wall for records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Now {
    /// Never goes back; used for every deadline and duration.
    pub mono: Instant,
    /// May be set back by the user; used for times that people read.
    pub wall: SystemTime,
}

impl Now {
    /// Seconds since the Unix epoch with fractions; 0 for a clock before 1970.
    pub fn unix_seconds(&self) -> f64 {
        self.wall.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs_f64()
    }

    /// A later moment of the monotonic clock as Unix seconds, however the wall clock was set since.
    pub fn unix_seconds_at(&self, later: Instant) -> f64 {
        self.unix_seconds() + later.saturating_duration_since(self.mono).as_secs_f64()
    }

    /// The moment of these Unix seconds, which another process has recorded.
    pub fn from_unix_seconds(seconds: f64, now: Now) -> Now {
        let since_epoch = Duration::try_from_secs_f64(seconds).unwrap_or_default();
        let wall = SystemTime::UNIX_EPOCH.checked_add(since_epoch);
        let wall = wall.unwrap_or(SystemTime::UNIX_EPOCH);
        let age = now.wall.duration_since(wall).unwrap_or_default();
        // The machine may have started later.
        Now { mono: now.mono.checked_sub(age).unwrap_or(now.mono), wall }
    }
}

/// As Unix seconds.
impl Serialize for Now {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.unix_seconds())
    }
}

impl<'de> Deserialize<'de> for Now {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Now, D::Error> {
        let seconds = f64::deserialize(deserializer)?;
        Ok(Now::from_unix_seconds(seconds, SystemClock.now()))
    }
}

/// The source of the time: [`SystemClock`], or a `FakeClock` in tests.
pub trait Clock: Send + Sync {
    /// The present moment.
    fn now(&self) -> Now;
}

/// The machine's clocks.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Now {
        Now { mono: Instant::now(), wall: SystemTime::now() }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Clock, Now, SystemClock};

    /// A clock that moves only when it is advanced.
    #[derive(Debug)]
    pub(crate) struct FakeClock(parking_lot::Mutex<Now>);

    impl Default for FakeClock {
        fn default() -> Self {
            FakeClock(parking_lot::Mutex::new(SystemClock.now()))
        }
    }

    impl FakeClock {
        /// Moves the clock forward.
        pub(crate) fn advance(&self, by: Duration) {
            let mut now = self.0.lock();
            now.mono += by;
            now.wall += by;
        }
    }

    impl Clock for FakeClock {
        fn now(&self) -> Now {
            *self.0.lock()
        }
    }
}
