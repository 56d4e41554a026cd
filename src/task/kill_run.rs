//! One kill of a task's tree, from its order to its receipt.

use std::collections::HashSet;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use crate::process::kill::{Handle, Undelivered};
use crate::process::signals::Signal;
use crate::process::tree::{Family, Identity, ProcessInfo, Snapshot};

/// Processes held for their end at the same time; the others are found by scans.
const MAX_HANDLES: usize = 64;
/// How soon a tree is scanned again while not all its ends can be watched.
pub const RESCAN: Duration = Duration::from_millis(50);

/// A process that a kill did not end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Survivor {
    /// Its pid.
    pub pid: i32,
    /// Its name.
    pub name: String,
    /// Why it lives.
    pub why: SurvivalReason,
}

/// Why a process survived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SurvivalReason {
    /// It belongs to another user.
    OtherUser,
    /// It got its signal and has not ended.
    StillAlive,
}

/// What a kill did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Receipt {
    /// Processes that got a signal.
    pub signalled: usize,
    /// Those of them that are gone.
    pub gone: usize,
    /// Those that live.
    pub survivors: Vec<Survivor>,
    /// How long it took.
    pub took: Duration,
}

/// A kill under way.
#[derive(Debug)]
pub struct KillRun {
    started: Instant,
    /// What to send to processes that a scan finds for the first time.
    signals: &'static [Signal],
    /// Who got all of the present signals.
    served: HashSet<Identity>,
    signalled: HashSet<Identity>,
    refused: HashSet<Identity>,
    alive: Vec<ProcessInfo>,
    handles: Vec<Handle>,
}

impl KillRun {
    /// A kill that begins now.
    pub fn new(now: Instant) -> KillRun {
        KillRun {
            started: now,
            signals: &[],
            served: HashSet::new(),
            signalled: HashSet::new(),
            refused: HashSet::new(),
            alive: Vec::new(),
            handles: Vec::new(),
        }
    }

    /// From now on each process of the tree gets these.
    pub fn escalate(&mut self, signals: &'static [Signal]) {
        self.signals = signals;
        self.served.clear();
    }

    /// Scans the tree and signals whom it has not signalled yet; whether anybody lives.
    pub fn sweep(&mut self, family: &mut Family) -> bool {
        self.scan(family);
        let newcomers: Vec<ProcessInfo> = self
            .alive
            .iter()
            .filter(|process| !self.served.contains(&process.id))
            .cloned()
            .collect();
        for process in newcomers {
            self.served.insert(process.id);
            self.send(&process, self.signals);
        }
        !self.alive.is_empty()
    }

    /// Sends one signal to everybody, once.
    pub fn send_once(&mut self, signal: Signal, family: &mut Family) {
        self.scan(family);
        for process in self.alive.clone() {
            self.send(&process, &[signal]);
        }
    }

    fn scan(&mut self, family: &mut Family) {
        self.alive = family.living(&Snapshot::take());
        self.handles = self
            .alive
            .iter()
            .filter_map(|process| Handle::open(process.id).ok())
            .take(MAX_HANDLES)
            .collect();
    }

    fn send(&mut self, process: &ProcessInfo, signals: &[Signal]) {
        let held = self.handles.iter().find(|handle| handle.id() == process.id);
        let opened;
        let handle = match held {
            Some(handle) => handle,
            None => match Handle::open(process.id) {
                Ok(handle) => {
                    opened = handle;
                    &opened
                }
                Err(_) => return,
            },
        };
        for signal in signals {
            match handle.signal(*signal) {
                Ok(()) => {
                    self.signalled.insert(process.id);
                }
                Err(Undelivered::NotPermitted) => {
                    self.refused.insert(process.id);
                }
                Err(Undelivered::Gone) => {}
            }
        }
    }

    /// The ends to watch for.
    pub fn ends(&self) -> impl Iterator<Item = (Identity, BorrowedFd<'_>)> {
        self.handles
            .iter()
            .filter_map(|handle| handle.ended().map(|fd| (handle.id(), fd)))
    }

    /// Whether every living process is watched, so that no scan is needed before an end.
    pub fn watches_all(&self) -> bool {
        self.handles.len() >= self.alive.len()
            && self.handles.iter().all(|handle| handle.ended().is_some())
    }

    /// Stops watching processes that have ended; whether none is watched any more.
    pub fn forget(&mut self, ended: &[Identity]) -> bool {
        self.handles.retain(|handle| !ended.contains(&handle.id()));
        self.alive.retain(|process| !ended.contains(&process.id));
        self.handles.is_empty()
    }

    /// What it came to, by a last scan.
    pub fn receipt(&mut self, family: &mut Family, now: Instant) -> Receipt {
        let alive = family.living(&Snapshot::take());
        let survivors = alive
            .iter()
            .map(|process| Survivor {
                pid: process.id.pid,
                name: process.name.clone(),
                why: if self.refused.contains(&process.id) {
                    SurvivalReason::OtherUser
                } else {
                    SurvivalReason::StillAlive
                },
            })
            .collect();
        let alive: HashSet<Identity> = alive.iter().map(|process| process.id).collect();
        Receipt {
            signalled: self.signalled.len(),
            gone: self.signalled.difference(&alive).count(),
            survivors,
            took: now - self.started,
        }
    }
}
