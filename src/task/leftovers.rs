//! Processes that outlive their shell: who they are, and when to look again.

use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::live::Leftover;
use crate::process::kill::Handle;
use crate::process::tree::{self, Family, Identity, Snapshot};

/// Leftovers whose ends are watched; more are found by scans.
const MAX_WATCHED: usize = 32;
/// The first scan for changes among leftovers; each next one waits twice as long …
const FIRST_SCAN: Duration = Duration::from_secs(1);
/// … up to this.
const LAST_SCAN: Duration = Duration::from_secs(30);

/// What is known of the shell that they outlived.
pub(super) struct Shell {
    /// Which process it was.
    pub id: Identity,
    /// What its output is called in `/proc/<pid>/fd`; a terminal goes with its shell.
    pub output: Option<PathBuf>,
    /// Whether somebody holds the output open.
    pub output_open: bool,
}

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
    pub fn scan(&mut self, family: &mut Family, shell: &Shell) -> Vec<Leftover> {
        let snapshot = Snapshot::take();
        if shell.output_open {
            adopt_output_holders(family, &snapshot, shell);
        }
        let left = family.living(&snapshot);
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

/// Adds processes that hold the task's output but carry no sign of it, such as what
/// `env -i setsid` leaves.
fn adopt_output_holders(family: &mut Family, snapshot: &Snapshot, shell: &Shell) {
    let Some(output) = &shell.output else {
        return;
    };
    for process in snapshot.descendants(std::process::id() as i32) {
        let younger = process.id.started >= shell.id.started;
        if younger && !process.zombie && tree::holds_open(process.id.pid, output) {
            family.adopt(process.id);
        }
    }
}
