//! Processes that outlive their shell: who they are, and when to look again.

use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use super::live::Leftover;
use crate::process::kill::Handle;
use crate::process::orphans;
use crate::process::tree::{Family, Identity, ProcessInfo, Snapshot};

/// Leftovers whose ends are watched; more are found by scans.
const MAX_WATCHED: usize = 32;
/// The first scan for changes among leftovers; each next one waits twice as long …
const FIRST_SCAN: Duration = Duration::from_secs(1);
/// … up to this.
const LAST_SCAN: Duration = Duration::from_secs(30);
/// The next scan after one that did not make clear whether anybody is left.
const CLEAR_SCAN: Duration = Duration::from_millis(20);
/// How often those who had ended before they could be watched are looked for again: who
/// is gone then each time goes on in processes that live for no longer than a look takes.
const LOOKS: usize = 4;

/// A cheap look that spares most commands a scan of the machine: whoever outlives the
/// shell has been given to this process as its subreaper, where it is one.
pub(super) fn may_be(output_is_open: bool) -> bool {
    output_is_open || orphans::adopted().is_none_or(|adopted| !adopted.is_empty())
}

/// The leftovers of one task; none yet by default.
#[derive(Default)]
pub(super) struct Leftovers {
    /// How many the last look found.
    count: usize,
    /// Whether there may be others, as the last look did not make clear.
    unclear: bool,
    watched: Vec<Handle>,
    /// When to scan next, and how long the pause before it was.
    scan: Option<(Instant, Duration)>,
}

impl Leftovers {
    /// Whether the last scan made clear that nobody is left.
    pub fn is_empty(&self) -> bool {
        self.count == 0 && !self.unclear
    }

    /// The ends to watch for.
    pub fn ends(&self) -> impl Iterator<Item = (Identity, BorrowedFd<'_>)> {
        self.watched
            .iter()
            .filter_map(|handle| Some((handle.id(), handle.ended()?)))
    }

    /// When a scan is due.
    pub fn next_scan(&self) -> Option<Instant> {
        self.scan.map(|(at, _)| at)
    }

    /// Whether a scan is due, because one of them has ended or it is time.
    pub fn changed(&mut self, ended: &[Identity], now: Instant) -> bool {
        let before = self.watched.len();
        self.watched.retain(|handle| !ended.contains(&handle.id()));
        self.watched.len() < before || self.next_scan().is_some_and(|at| now >= at)
    }

    /// Looks who lives.
    pub fn scan(&mut self, family: &mut Family) -> Vec<Leftover> {
        let found = family.living(&Snapshot::take());
        self.take(found, family)
    }

    /// Takes those whom a look has just found.
    pub fn take(&mut self, mut found: Vec<ProcessInfo>, family: &mut Family) -> Vec<Leftover> {
        self.watched = watch(&found);
        for _ in 1..LOOKS {
            let is_clear = match found.is_empty() {
                true => !family.is_unclear(),
                false => !self.watched.is_empty(),
            };
            if is_clear {
                break;
            }
            found = family.living(&Snapshot::take());
            self.watched = watch(&found);
        }
        self.count = found.len();
        self.unclear = found.is_empty() && family.is_unclear();
        let pause = match self.scan {
            _ if self.unclear => CLEAR_SCAN,
            Some((_, before)) => (before * 2).clamp(FIRST_SCAN, LAST_SCAN),
            None => FIRST_SCAN,
        };
        self.scan = (!self.is_empty()).then(|| (Instant::now() + pause, pause));
        found
            .into_iter()
            .map(|process| Leftover {
                pid: process.id.pid,
                name: process.name,
            })
            .collect()
    }
}

fn watch(found: &[ProcessInfo]) -> Vec<Handle> {
    found
        .iter()
        .filter_map(|process| Handle::open(process.id).ok())
        .take(MAX_WATCHED)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// This process has never asked for orphans.
    #[test]
    fn where_orphans_go_elsewhere_there_may_always_be_leftovers() {
        assert!(may_be(false));
        assert!(may_be(true));
    }
}
