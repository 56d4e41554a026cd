//! Notable states of a task's processes: stopped, in disk sleep, without a main thread, owned by
//! another user.
//!
//! Each state is reported only after several consecutive probes have found it. Pure.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::wait::ProcessName;
use crate::text::foreign::Foreign;

/// How long a single disk sleep must last to be reported; reading a disk causes shorter ones.
pub(crate) const LONG_SLEEP: Duration = Duration::from_secs(1);

/// The signal that stopped a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum StopSignal {
    /// SIGSTOP, on request.
    Stop,
    /// SIGTSTP: from Ctrl-Z or the program itself.
    Keyboard,
    /// SIGTTIN: the process tried to read the terminal from the background.
    Reading,
    /// SIGTTOU: the process tried to write or change the terminal from the background.
    Writing,
    /// The kernel does not report it.
    Unknown,
}

/// A state of one process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Condition {
    /// A signal stopped it; SIGCONT continues it.
    Stopped {
        process: ProcessName,
        by: StopSignal,
        /// Whether the task cannot continue without it, because no other process in the foreground
        /// can run. A stopped background job does not block the task.
        holds_up: bool,
    },
    /// It waits for a disk or a network file system, and cannot handle signals.
    DiskSleep { process: ProcessName },
    /// Its main thread has ended but other threads live, so that it only seems to have ended.
    ZombieLeader { process: ProcessName },
    /// It belongs to another user and cannot be signalled.
    OutOfReach {
        process: ProcessName,
        /// The user's name, or number if there is no name.
        user: Foreign,
    },
}

impl Condition {
    pub fn process(&self) -> &ProcessName {
        match self {
            Condition::Stopped { process, .. }
            | Condition::DiskSleep { process }
            | Condition::ZombieLeader { process }
            | Condition::OutOfReach { process, .. } => process,
        }
    }

    /// Whether the task cannot continue until this is resolved.
    pub fn holds_up(&self) -> bool {
        matches!(self, Condition::Stopped { holds_up: true, .. })
    }

    /// How long it must last before it is reported. Two probes must always find it.
    fn patience(&self) -> Duration {
        match self {
            Condition::DiskSleep { .. } => LONG_SLEEP,
            _ => Duration::ZERO,
        }
    }
}

/// A condition found by one probe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sighting {
    pub(crate) condition: Condition,
    /// The process's context switches: an unchanged number means that it is the same sleep. 0 if
    /// irrelevant.
    pub(crate) switches: u64,
}

/// The conditions found by consecutive probes.
#[derive(Debug, Default)]
pub(crate) struct Sightings {
    since: Vec<(Sighting, Instant)>,
    /// Whether another probe soon may confirm a condition.
    pub(crate) unconfirmed: bool,
}

impl Sightings {
    /// Adds the next probe and returns the confirmed conditions.
    pub(crate) fn add(&mut self, seen: Vec<Sighting>, now: Instant) -> Vec<Condition> {
        let before = std::mem::take(&mut self.since);
        let mut confirmed = Vec::new();
        self.unconfirmed = false;
        for sighting in seen {
            let first =
                before.iter().find(|(earlier, _)| *earlier == sighting).map(|(_, since)| *since);
            let patience = sighting.condition.patience();
            match first {
                Some(since) if now.saturating_duration_since(since) >= patience => {
                    confirmed.push(sighting.condition.clone());
                }
                _ => self.unconfirmed |= patience.is_zero(),
            }
            self.since.push((sighting, first.unwrap_or(now)));
        }
        confirmed
    }
}

/// How much of a task's processes can be observed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Visibility {
    /// All states of this user's processes.
    #[default]
    Whole,
    /// The processes, but not the system calls in which they are blocked: the kernel's policy or
    /// configuration prevents it.
    NoSystemCalls,
    /// None: `/proc` is missing or shows none of the processes.
    Nothing,
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOON: Duration = Duration::from_millis(100);

    fn process() -> ProcessName {
        ProcessName { pid: 4711, name: "vim".into() }
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
        Sighting { condition: Condition::DiskSleep { process: process() }, switches }
    }

    #[test]
    fn a_stop_that_two_probes_find_is_confirmed() {
        let now = Instant::now();
        let mut sightings = Sightings::default();
        assert_eq!(sightings.add(vec![stopped()], now), []);
        assert!(sightings.unconfirmed);
        let confirmed = sightings.add(vec![stopped()], now + SOON);
        assert_eq!(confirmed, [stopped().condition]);
        assert!(!sightings.unconfirmed);
        assert_eq!(sightings.add(vec![], now + SOON), []);
        assert_eq!(sightings.add(vec![stopped()], now + SOON), []);
        sightings = Sightings::default();
        assert_eq!(sightings.add(vec![stopped()], now + SOON), []);
    }

    #[test]
    fn disk_sleep_is_confirmed_when_one_sleep_lasts() {
        let now = Instant::now();
        let mut sightings = Sightings::default();
        assert_eq!(sightings.add(vec![asleep(5)], now), []);
        assert!(!sightings.unconfirmed, "a short one is nothing");
        assert_eq!(sightings.add(vec![asleep(5)], now + SOON), []);
        let later = now + LONG_SLEEP;
        let confirmed = sightings.add(vec![asleep(5)], later);
        assert_eq!(confirmed, [asleep(5).condition]);
        // The process was awake in between: it keeps reading.
        assert_eq!(sightings.add(vec![asleep(6)], later + LONG_SLEEP), []);
    }
}
