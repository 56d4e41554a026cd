//! What a task has used of the machine: CPU time, memory and processes.
//!
//! Two sources are combined. The kernel's account of the ended shell covers all processes that
//! were waited for, with the exact CPU time and the peak of the largest single process. Probes of
//! the tree see several processes together, and those that nothing has waited for, but only now
//! and then. Pure.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// CPU time, in programs and in the kernel on their behalf.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CpuTime {
    pub user: Duration,
    pub system: Duration,
}

impl CpuTime {
    pub fn total(self) -> Duration {
        self.user.saturating_add(self.system)
    }

    pub(crate) fn saturating_add(self, other: CpuTime) -> CpuTime {
        CpuTime {
            user: self.user.saturating_add(other.user),
            system: self.system.saturating_add(other.system),
        }
    }

    pub(crate) fn saturating_sub(self, other: CpuTime) -> CpuTime {
        CpuTime {
            user: self.user.saturating_sub(other.user),
            system: self.system.saturating_sub(other.system),
        }
    }

    pub(crate) fn checked_sub(self, other: CpuTime) -> Option<CpuTime> {
        Some(CpuTime {
            user: self.user.checked_sub(other.user)?,
            system: self.system.checked_sub(other.system)?,
        })
    }
}

/// The kernel's account of an ended process and of the children that it has waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Account {
    pub(crate) cpu: CpuTime,
    /// The most memory, in bytes, that one of them has occupied; `None` if it was less than can be
    /// told apart from that of this process.
    pub(crate) largest: Option<u64>,
}

/// What probes of a running task have found; sizes in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Usage {
    /// What its processes have used so far.
    pub cpu: CpuTime,
    /// The memory that they occupied at the last probe, together.
    pub memory: u64,
    /// The most at any probe.
    pub memory_peak: u64,
    /// How many processes it had at the last probe.
    pub processes: usize,
    /// The most at any probe.
    pub processes_peak: usize,
}

impl Usage {
    /// Takes the next probe.
    pub(crate) fn add(&mut self, cpu: CpuTime, memory: u64, processes: usize) {
        *self = Usage {
            cpu: if cpu.total() > self.cpu.total() { cpu } else { self.cpu },
            memory,
            memory_peak: self.memory_peak.max(memory),
            processes,
            processes_peak: self.processes_peak.max(processes),
        };
    }
}

/// What an ended task has cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cost {
    pub cpu: CpuTime,
    /// The most memory that its processes have occupied together, in bytes; `None` if it was too
    /// little to be measured.
    pub peak: Option<u64>,
    /// Whether it may have been more between two probes.
    pub peak_is_least: bool,
    /// The most processes at once that a probe has seen, the shell among them.
    pub processes: usize,
}

/// A shell and one program: the account of the larger is that of both, but for the shell's few
/// megabytes.
const MEASURED_PROCESSES: usize = 2;

impl Cost {
    /// The cost by both sources; `account` is `None` where the kernel keeps none.
    pub(crate) fn new(account: Option<Account>, usage: &Usage) -> Cost {
        let cpu = account.map_or(CpuTime::default(), |account| account.cpu);
        let largest = account.and_then(|account| account.largest);
        let peak = largest.unwrap_or_default().max(usage.memory_peak);
        let is_measured = (1..=MEASURED_PROCESSES).contains(&usage.processes_peak);
        Cost {
            cpu: if usage.cpu.total() > cpu.total() { usage.cpu } else { cpu },
            peak: (peak > 0).then_some(peak),
            peak_is_least: largest.is_none() || !is_measured,
            processes: usage.processes_peak.max(1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cpu(user: u64, system: u64) -> CpuTime {
        CpuTime { user: Duration::from_secs(user), system: Duration::from_secs(system) }
    }

    #[test]
    fn the_larger_of_both_sources_counts() {
        let account = |user, largest| Account { cpu: cpu(user, 1), largest };
        let mut usage = Usage::default();
        let alone = Cost::new(Some(account(3, Some(600))), &usage);
        assert_eq!((alone.cpu, alone.peak, alone.processes), (cpu(3, 1), Some(600), 1));
        assert!(alone.peak_is_least, "nothing has seen how many there were");
        usage.add(cpu(1, 0), 500, 2);
        usage.add(cpu(1, 0), 100, 1);
        let seen = Cost::new(Some(account(3, Some(600))), &usage);
        assert_eq!((seen.cpu, seen.peak, seen.peak_is_least), (cpu(3, 1), Some(600), false));
        usage.add(cpu(9, 9), 900, 3);
        let many = Cost::new(Some(account(3, Some(600))), &usage);
        assert_eq!((many.cpu, many.peak, many.peak_is_least), (cpu(9, 9), Some(900), true));
        assert_eq!((many.processes, usage.memory, usage.memory_peak), (3, 900, 900));
        let unaccounted = Cost::new(None, &usage);
        assert_eq!((unaccounted.peak, unaccounted.peak_is_least), (Some(900), true));
        assert_eq!(Cost::new(Some(account(0, None)), &Usage::default()).peak, None);
    }
}
