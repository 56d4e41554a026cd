//! States of a task's processes that are worth knowing: stopped, in disk sleep, without a
//! main thread, out of reach.
//!
//! Each is reported only when looks in a row have found it. Limits: what a process does
//! while it is in none of these states is not asked here.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::waiting::Reader;

/// Disk sleep is worth knowing when one and the same sleep has lasted so long; shorter
/// ones are how disks are read.
pub const LONG_SLEEP: Duration = Duration::from_secs(1);

/// What has stopped a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum StopSignal {
    /// SIGSTOP: somebody asked for it.
    Stop,
    /// SIGTSTP: Ctrl-Z, or the program itself.
    Keyboard,
    /// SIGTTIN: it wanted to read the terminal from the background.
    Reading,
    /// SIGTTOU: it wanted to change or write the terminal from the background.
    Writing,
    /// The kernel does not tell.
    Unknown,
}

/// A state of one process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Condition {
    /// A signal has stopped it; it goes on at SIGCONT.
    Stopped {
        /// Which process.
        process: Reader,
        /// By what.
        by: StopSignal,
        /// Whether the task stands still because of it: nobody else in the foreground
        /// could go on. A job in the background holds nothing up.
        holds_up: bool,
    },
    /// It waits for a disk or a network file system, and no signal reaches it.
    DiskSleep {
        /// Which process.
        process: Reader,
    },
    /// Its main thread has ended while others live: it looks ended and is not.
    ZombieLeader {
        /// Which process.
        process: Reader,
    },
    /// It belongs to another user and cannot be signalled.
    OutOfReach {
        /// Which process.
        process: Reader,
        /// Whose: a name, or the number of one without a name.
        user: String,
    },
}

impl Condition {
    /// Which process.
    pub fn process(&self) -> &Reader {
        match self {
            Condition::Stopped { process, .. }
            | Condition::DiskSleep { process }
            | Condition::ZombieLeader { process }
            | Condition::OutOfReach { process, .. } => process,
        }
    }

    /// Whether the task stands still because of it until somebody acts.
    pub fn holds_up(&self) -> bool {
        matches!(self, Condition::Stopped { holds_up: true, .. })
    }

    /// How long it must have lasted; two looks in any case.
    fn patience(&self) -> Duration {
        match self {
            Condition::DiskSleep { .. } => LONG_SLEEP,
            _ => Duration::ZERO,
        }
    }
}

/// A condition as one look has seen it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sighting {
    /// What was seen.
    pub condition: Condition,
    /// How often the process has been switched to and from; while it stays the same, so
    /// does the sleep that it is in. 0 where that does not matter.
    pub switches: u64,
}

/// What looks in a row have seen.
#[derive(Debug, Default)]
pub struct Sightings {
    since: Vec<(Sighting, Instant)>,
    unconfirmed: bool,
}

impl Sightings {
    /// Takes the next look in; what is now certain.
    pub fn take(&mut self, seen: Vec<Sighting>, now: Instant) -> Vec<Condition> {
        let before = std::mem::take(&mut self.since);
        let mut certain = Vec::new();
        self.unconfirmed = false;
        for sighting in seen {
            let first = before
                .iter()
                .find(|(earlier, _)| *earlier == sighting)
                .map(|(_, since)| *since);
            let patience = sighting.condition.patience();
            match first {
                Some(since) if now.saturating_duration_since(since) >= patience => {
                    certain.push(sighting.condition.clone());
                }
                _ => self.unconfirmed |= patience.is_zero(),
            }
            self.since.push((sighting, first.unwrap_or(now)));
        }
        certain
    }

    /// Whether another look soon may make something certain.
    pub fn wants_another(&self) -> bool {
        self.unconfirmed
    }

    /// What was seen before counts no longer.
    pub fn reset(&mut self) {
        self.since.clear();
        self.unconfirmed = false;
    }
}

/// How much of a task's processes can be seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Evidence {
    /// All that is this user's.
    #[default]
    Whole,
    /// The processes, but not what they are blocked in: a policy of the kernel forbids
    /// it, or it was built without.
    NoCalls,
    /// Nothing: `/proc` is missing or shows none of them.
    Nothing,
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOON: Duration = Duration::from_millis(100);

    fn process() -> Reader {
        Reader {
            pid: 4711,
            name: "vim".to_owned(),
        }
    }

    fn stopped() -> Sighting {
        Sighting {
            condition: Condition::Stopped {
                process: process(),
                by: StopSignal::Keyboard,
                holds_up: true,
            },
            switches: 0,
        }
    }

    fn asleep(switches: u64) -> Sighting {
        Sighting {
            condition: Condition::DiskSleep { process: process() },
            switches,
        }
    }

    #[test]
    fn a_stop_that_two_looks_see_is_certain() {
        let now = Instant::now();
        let mut sightings = Sightings::default();
        assert_eq!(sightings.take(vec![stopped()], now), []);
        assert!(sightings.wants_another());
        let certain = sightings.take(vec![stopped()], now + SOON);
        assert_eq!(certain, [stopped().condition]);
        assert!(!sightings.wants_another());
        assert_eq!(sightings.take(vec![], now + SOON), []);
        assert_eq!(sightings.take(vec![stopped()], now + SOON), []);
        sightings.reset();
        assert_eq!(sightings.take(vec![stopped()], now + SOON), []);
    }

    #[test]
    fn disk_sleep_is_certain_when_one_sleep_lasts() {
        let now = Instant::now();
        let mut sightings = Sightings::default();
        assert_eq!(sightings.take(vec![asleep(5)], now), []);
        assert!(!sightings.wants_another(), "a short one is nothing");
        assert_eq!(sightings.take(vec![asleep(5)], now + SOON), []);
        let later = now + LONG_SLEEP;
        let certain = sightings.take(vec![asleep(5)], later);
        assert_eq!(certain, [asleep(5).condition]);
        // It has been awake in between: it reads and reads.
        assert_eq!(sightings.take(vec![asleep(6)], later + LONG_SLEEP), []);
    }
}
