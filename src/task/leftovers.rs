//! Processes that outlive their shell: who they are, and when to look again.

use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use super::live::Leftover;
use crate::process::kill::Handle;
use crate::process::tree::{Family, Identity, Snapshot};

/// Leftovers whose ends are watched; more are found by scans.
const MAX_WATCHED: usize = 32;
/// The first scan for changes among leftovers; each next one waits twice as long …
const FIRST_SCAN: Duration = Duration::from_secs(1);
/// … up to this.
const LAST_SCAN: Duration = Duration::from_secs(30);

/// The leftovers of one task; none yet by default.
#[derive(Default)]
pub(super) struct Leftovers {
    watched: Vec<Handle>,
    /// When to scan next, and how long the pause before it was.
    scan: Option<(Instant, Duration)>,
}

impl Leftovers {
    /// Whether nobody is left, as far as the last scan saw.
    pub fn is_empty(&self) -> bool {
        self.watched.is_empty()
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
        let left = family.living(&Snapshot::take());
        self.watched = left
            .iter()
            .filter_map(|process| Handle::open(process.id).ok())
            .take(MAX_WATCHED)
            .collect();
        let pause = match self.scan {
            Some((_, before)) => (before * 2).min(LAST_SCAN),
            None => FIRST_SCAN,
        };
        self.scan = (!self.watched.is_empty()).then(|| (Instant::now() + pause, pause));
        left.into_iter()
            .map(|process| Leftover {
                pid: process.id.pid,
                name: process.name,
            })
            .collect()
    }
}
