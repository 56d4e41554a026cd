//! What the numbers and bytes of macOS's calls mean. Pure, so that it is tested on Linux, where
//! none of these calls exist.

#![cfg_attr(not(target_os = "macos"), allow(dead_code))]

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use crate::process::probe::ProcessInfo;

/// How many bits of a start hold the kernel's number of the process, and how many hold the hash
/// of the boot. Together they stay below 2^53, so that every JSON reader keeps them exactly.
const BITS_OF_NUMBER: u32 = 40;
const BITS_OF_BOOT: u32 = 13;

/// A process's start: a hash of the boot's name, then the number that the kernel gives processes
/// in order. Without the hash, a process recorded before a reboot could be mistaken for another,
/// since pids and numbers begin anew.
pub(super) fn start(boot: &[u8], number: u64) -> u64 {
    // FNV-1a.
    let hash = boot.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let boot = hash >> (u64::BITS - BITS_OF_BOOT);
    boot << BITS_OF_NUMBER | number & ((1 << BITS_OF_NUMBER) - 1)
}

/// A time in ticks of `mach_absolute_time`, which last `numer / denom` nanoseconds each.
pub(super) fn time(ticks: u64, (numer, denom): (u32, u32)) -> Duration {
    let nanoseconds = u128::from(ticks) * u128::from(numer) / u128::from(denom.max(1));
    Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX))
}

/// Splits what the sysctl `kern.procargs2` returns: the number of arguments, the program's path,
/// NULs, the arguments and the environment, each ended by NUL, then an empty string and the
/// system's own entries. The environment of a protected program is missing.
pub(super) fn arguments_and_environment(block: &[u8]) -> Option<(&[u8], &[u8])> {
    let (count, rest) = block.split_first_chunk::<4>()?;
    let count = usize::try_from(i32::from_ne_bytes(*count)).ok()?;
    let path_end = rest.iter().position(|byte| *byte == 0)?;
    let rest = rest.get(path_end..)?;
    let begin = rest.iter().position(|byte| *byte != 0).unwrap_or(rest.len());
    let rest = rest.get(begin..)?;
    let mut ends = rest.iter().enumerate().filter(|(_, byte)| **byte == 0).map(|(at, _)| at + 1);
    let arguments_end = match count {
        0 => 0,
        _ => ends.nth(count - 1)?,
    };
    let (arguments, rest) = rest.split_at_checked(arguments_end)?;
    let is_end = |at: &usize| {
        let begins = *at == 0 || rest.get(*at - 1) == Some(&0);
        begins && rest.get(*at).is_none_or(|byte| *byte == 0)
    };
    let environment_end = (0..=rest.len()).find(is_end).unwrap_or(rest.len());
    Some((arguments, rest.get(..environment_end)?))
}

/// The descendants of one process, even after processes in between have ended: the kernel
/// records which process started each.
///
/// Limits: a process that begins and ends between two scans is missing, and so are the processes
/// that it started.
#[derive(Debug, Default)]
pub(super) struct Lineage {
    /// The starts of the descendants, each with that of the process that started it.
    origins: HashMap<u64, u64>,
}

/// Beyond these, ended processes that lead to no living one are forgotten.
const MOST_DESCENDANTS: usize = 8192;

impl Lineage {
    /// Notes what one look shows: the start of each process and that of its origin. `whole`:
    /// no other process lives. Returns the starts of the descendants that are new.
    pub(super) fn note(&mut self, root: u64, seen: &[(u64, u64)], whole: bool) -> HashSet<u64> {
        let mut seen = seen.to_vec();
        // A process comes after its origin.
        seen.sort_unstable();
        let mut fresh = HashSet::new();
        for (start, origin) in &seen {
            let descends = *origin == root || self.origins.contains_key(origin);
            if descends && self.origins.insert(*start, *origin).is_none() {
                fresh.insert(*start);
            }
        }
        if whole && self.origins.len() > MOST_DESCENDANTS {
            let mut needed = HashSet::new();
            for (start, _) in &seen {
                let mut next = Some(start);
                while let Some(start) = next
                    && needed.insert(*start)
                {
                    next = self.origins.get(start);
                }
            }
            self.origins.retain(|start, _| needed.contains(start));
        }
        fresh
    }

    /// Whether a process descends from the root.
    pub(super) fn has(&self, start: u64) -> bool {
        self.origins.contains_key(&start)
    }

    /// An origin and those above it, up to the first that lives, as far as they are known.
    pub(super) fn up_to_living(&self, origin: u64, lives: impl Fn(u64) -> bool) -> Vec<u64> {
        let mut chain = vec![origin];
        let mut next = origin;
        while !lives(next)
            && let Some(above) = self.origins.get(&next)
        {
            chain.push(*above);
            next = *above;
        }
        chain
    }
}

/// The living processes that `is_ours` accepts and those that they started, without those that
/// `is_spared` accepts and those that these started.
pub(super) fn select_own<'a>(
    processes: impl Iterator<Item = &'a ProcessInfo>,
    is_ours: impl Fn(&ProcessInfo) -> bool,
    is_spared: impl Fn(&ProcessInfo) -> bool,
) -> Vec<&'a ProcessInfo> {
    let mut processes: Vec<&ProcessInfo> = processes.collect();
    // A process comes after its origin.
    processes.sort_by_key(|process| process.id.started);
    let (mut ours, mut spared) = (HashSet::new(), HashSet::new());
    let mut found = Vec::new();
    for process in processes {
        let from = |set: &HashSet<u64>| process.origins.iter().any(|start| set.contains(start));
        if from(&spared) || is_spared(process) {
            spared.insert(process.id.started);
        } else if from(&ours) || is_ours(process) {
            ours.insert(process.id.started);
            found.push(process);
        }
    }
    found.retain(|process| !process.zombie);
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::probe::Identity;

    #[test]
    fn starts_are_in_order_within_a_boot_and_differ_between_boots() {
        let boot = b"5CB1F8A6-5F5B-4E0B-9A55-0C35BE8F8E29";
        assert!(start(boot, 4711) < start(boot, 4712));
        assert_ne!(start(boot, 4711), start(b"7A1D0E34-0000-4C1B-8C2E-1B2C3D4E5F60", 4711));
        assert!(start(boot, u64::MAX) < 1 << 53);
    }

    #[test]
    fn ticks_are_of_the_length_that_the_machine_says() {
        assert_eq!(time(24_000_000, (125, 3)), Duration::from_secs(1));
        assert_eq!(time(1_000_000_000, (1, 1)), Duration::from_secs(1));
        assert_eq!(time(u64::MAX, (125, 0)), Duration::from_nanos(u64::MAX));
    }

    fn block(count: i32, rest: &[u8]) -> Vec<u8> {
        [&count.to_ne_bytes(), rest].concat()
    }

    #[test]
    fn arguments_and_environment_are_told_apart() {
        let whole = block(2, b"/bin/ls\0\0\0\0ls\0-l\0A=1\0B=\0\0ptr_munge=\0");
        let found = arguments_and_environment(&whole);
        assert_eq!(found, Some((&b"ls\0-l\0"[..], &b"A=1\0B=\0"[..])));
        let hidden = block(1, b"/bin/ls\0\0ls\0");
        assert_eq!(arguments_and_environment(&hidden), Some((&b"ls\0"[..], &b""[..])));
        let bare = block(0, b"/bin/ls\0A=1\0\0");
        assert_eq!(arguments_and_environment(&bare), Some((&b""[..], &b"A=1\0"[..])));
        for short in [&block(3, b"/bin/ls\0ls\0")[..], &block(-1, b"/x\0"), b"\0\0", b""] {
            assert_eq!(arguments_and_environment(short), None);
        }
    }

    #[test]
    fn an_orphan_that_has_left_its_session_leads_back() {
        let mut lineage = Lineage::default();
        // A shell, and a process that it has started: the order of a look is any.
        let fresh = lineage.note(10, &[(12, 11), (11, 10), (13, 5), (5, 1)], true);
        assert_eq!(fresh, HashSet::from([11, 12]));
        assert!(lineage.has(11) && lineage.has(12) && !lineage.has(13) && !lineage.has(5));
        // It has started another, and has ended.
        let fresh = lineage.note(10, &[(14, 12), (11, 10), (5, 1)], true);
        assert_eq!(fresh, HashSet::from([14]));
        assert!(lineage.has(14));
        assert_eq!(lineage.up_to_living(12, |start| start == 11), [12, 11]);
        assert_eq!(lineage.up_to_living(12, |start| start == 10), [12, 11, 10]);
        assert_eq!(lineage.up_to_living(5, |start| start == 11), [5]);
    }

    #[test]
    fn daemons_are_spared_with_what_they_have_started() {
        let process = |started, origins: &[u64], zombie| ProcessInfo {
            id: Identity { pid: 1, started },
            origins: origins.to_vec(),
            zombie,
            ..ProcessInfo::default()
        };
        let all = [
            process(15, &[14], false),
            process(14, &[12, 11], false),
            process(13, &[11], true),
            process(11, &[10], false),
            process(16, &[9], false),
            process(18, &[17], false),
            process(17, &[11], false),
        ];
        let is_ours = |process: &ProcessInfo| process.id.started == 11;
        let found = select_own(all.iter(), is_ours, |process| process.id.started == 17);
        let starts: Vec<u64> = found.iter().map(|process| process.id.started).collect();
        assert_eq!(starts, [11, 14, 15]);
        let mut lineage = Lineage::default();
        lineage.note(10, &[(11, 10), (12, 11), (14, 12), (15, 14)], true);
        let found = select_own(all.iter(), |process| lineage.has(process.id.started), |_| false);
        let starts: Vec<u64> = found.iter().map(|process| process.id.started).collect();
        assert_eq!(starts, [11, 14, 15, 17, 18]);
    }

    #[test]
    fn what_has_ended_and_leads_nowhere_is_forgotten() {
        let mut lineage = Lineage::default();
        let most = MOST_DESCENDANTS as u64;
        let children: Vec<(u64, u64)> = (2..most + 4).map(|start| (start, 1)).collect();
        lineage.note(1, &children, false);
        lineage.note(1, &[(most + 10, 2)], true);
        assert!(lineage.has(2) && lineage.has(most + 10) && !lineage.has(3));
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(0_u8..3, 0..64)) {
            let _ = arguments_and_environment(&bytes);
        }
    }
}
