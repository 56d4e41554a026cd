//! One kill of a task's tree, from its command to its receipt.
//!
//! Each process that a scan finds is signalled by itself. The shell's process group is also
//! signalled as a whole where scans do not suffice: where `/proc` cannot be read, and where
//! processes start others faster than scans find them. The shell is not reaped yet, so that no
//! other group can have its number.

use std::collections::HashSet;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use crossbeam_channel::Sender;
use serde::Serialize;

use crate::process::kill::{self, Handle, Undelivered};
use crate::process::signals::Signal;
use crate::process::tree::{Identity, ProcessInfo, Scan, TaskProcesses};
use crate::process::wait::Child;
use crate::progress::wait::ProcessName;

/// How many processes are watched for their end at once; scans find the ends of others.
const MAX_HANDLES: usize = 64;
/// The pause between scans of a tree while not all ends can be watched.
const RESCAN: Duration = Duration::from_millis(50);

/// The pause after an inconclusive scan.
const SCAN_AGAIN: Duration = Duration::from_millis(5);
/// How many scans are made at once while they are inconclusive.
const SCANS: usize = 4;

/// A process that survived a kill.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Survivor {
    pub pid: i32,
    pub name: String,
    pub why: SurvivalReason,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SurvivalReason {
    /// It belongs to another user.
    OtherUser,
    /// It was signalled and has not ended.
    StillAlive,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Receipt {
    /// How many processes were signalled. If [`Receipt::is_incomplete`] is set, a whole group may have
    /// been signalled with its shell, which counts as one.
    pub signalled: usize,
    /// How many of them are gone.
    pub gone: usize,
    /// The processes that are still alive.
    pub survivors: Vec<Survivor>,
    /// The living daemons that were spared by rule.
    pub kept: Vec<ProcessName>,
    /// `/proc` could not be read at the end: there may be survivors that are not listed.
    pub is_incomplete: bool,
    pub took: Duration,
}

/// The kill of a task's tree that is under way, if any; none by default.
#[derive(Debug, Default)]
pub(super) struct TreeKill {
    started: Option<Instant>,
    /// Callers that wait for the receipt.
    receivers: Vec<Sender<Receipt>>,
    /// What to send to processes that a scan finds for the first time.
    signals: &'static [Signal],
    /// Processes that were sent all of `signals`.
    fully_signalled: HashSet<Identity>,
    /// Whether the shell, which no scan has found, was sent all of them.
    shell_signalled_unseen: bool,
    /// Whether the shell's group was sent SIGKILL.
    group_killed: bool,
    signalled: HashSet<Identity>,
    refused: HashSet<Identity>,
    alive: Vec<ProcessInfo>,
    handles: Vec<Handle>,
    next_sweep: Option<Instant>,
    /// Whether the last scan has shown all processes of the machine, and none of the tree.
    seen_gone: bool,
}

impl TreeKill {
    pub(super) fn under_way(&self) -> bool {
        self.started.is_some()
    }

    fn begin(&mut self) {
        self.started.get_or_insert_with(Instant::now);
    }

    /// Adds a caller that waits for the receipt. Begins a kill, if none is under way.
    pub(super) fn expect(&mut self, receipt: Sender<Receipt>) {
        self.begin();
        self.receivers.push(receipt);
    }

    /// Sends these signals to each process of the tree from now on, first to those of `scan`, which
    /// was taken just now; returns whether all are gone.
    pub(super) fn escalate(
        &mut self,
        signals: &'static [Signal],
        scan: Scan,
        processes: &mut TaskProcesses,
        shell: &Child,
    ) -> bool {
        self.begin();
        self.signals = signals;
        self.fully_signalled.clear();
        self.shell_signalled_unseen = false;
        self.sweep(scan, processes, shell)
    }

    /// Scans again if a scan is due or the last watched process has ended; returns whether all are
    /// gone.
    pub(super) fn follow(
        &mut self,
        ended: &[Identity],
        processes: &mut TaskProcesses,
        shell: &Child,
    ) -> bool {
        let due = self.next_sweep.is_some_and(|at| Instant::now() >= at);
        let last_ended = self.under_way() && !ended.is_empty() && self.forget(ended);
        (due || last_ended) && self.sweep(Scan::take(), processes, shell)
    }

    /// The processes whose ends to watch for.
    pub(super) fn watched_ends(&self) -> impl Iterator<Item = (Identity, BorrowedFd<'_>)> {
        self.handles.iter().filter_map(|handle| Some((handle.id, handle.ended()?)))
    }

    /// When to scan again, if no watched process ends before.
    pub(super) fn next_sweep(&self) -> Option<Instant> {
        self.next_sweep
    }

    /// Ends the kill: scans again, unless the last scan has shown that no process is left, sends the
    /// receipt, and returns the processes that are still alive.
    pub(super) fn close(
        &mut self,
        processes: &mut TaskProcesses,
        shell: &Child,
    ) -> Option<Vec<ProcessInfo>> {
        let started = self.started?;
        let kill = std::mem::take(self);
        // A tree that is gone has started no processes since.
        let (alive, is_incomplete) = if kill.seen_gone {
            (Vec::new(), false)
        } else {
            let scan = Scan::take();
            (processes.living(&scan), !scan.is_whole())
        };
        let receipt = Receipt {
            kept: processes.kept().iter().map(ProcessInfo::label).collect(),
            ..kill.receipt(started, &alive, is_incomplete, shell)
        };
        for receiver in kill.receivers {
            // The caller may be gone; the channel has room for one receipt.
            let _ = receiver.try_send(receipt.clone());
        }
        Some(alive)
    }

    /// Signals the processes of this scan that were not signalled yet; returns whether all are gone.
    fn sweep(&mut self, scan: Scan, processes: &mut TaskProcesses, shell: &Child) -> bool {
        let scan = self.find(scan, processes);
        let newcomers: Vec<ProcessInfo> = self
            .alive
            .iter()
            .filter(|process| !self.fully_signalled.contains(&process.id))
            .cloned()
            .collect();
        for process in &newcomers {
            self.fully_signalled.insert(process.id);
            self.signal(process, self.signals);
        }
        if !self.shell_signalled_unseen && self.is_unseen(shell) {
            self.shell_signalled_unseen = true;
            self.signal_unseen_shell(shell, self.signals, &scan);
        }
        let forced = self.signals.contains(&Signal::Kill);
        if forced {
            self.kill_groups(shell, &scan);
        }
        self.next_sweep = if processes.is_inconclusive() {
            Some(Instant::now() + SCAN_AGAIN)
        } else if forced && !newcomers.is_empty() {
            // The tree may start processes faster than they are ended: scan without a pause.
            Some(Instant::now())
        } else {
            (!self.watches_all(&scan)).then(|| Instant::now() + RESCAN)
        };
        let is_over = !processes.is_inconclusive() && self.is_over(shell, &scan);
        self.seen_gone = is_over && scan.is_whole();
        is_over
    }

    /// Whether no process is left. The shell's end is known without a scan; processes that no
    /// scan can show are gone once their group was killed.
    fn is_over(&mut self, shell: &Child, scan: &Scan) -> bool {
        if !self.alive.is_empty() || !shell.has_ended() {
            return false;
        }
        if scan.is_whole() {
            // This reaches only a process that the scan has missed.
            let _ = shell.signal_group(Signal::Kill);
            return true;
        }
        self.group_killed
    }

    /// Sends one signal to every process of `scan`, which was taken just now, once.
    pub(super) fn signal_once(
        &mut self,
        signal: Signal,
        scan: Scan,
        processes: &mut TaskProcesses,
        shell: &Child,
    ) {
        self.begin();
        let scan = self.find(scan, processes);
        for process in self.alive.clone() {
            self.signal(&process, &[signal]);
        }
        if self.is_unseen(shell) {
            self.signal_unseen_shell(shell, &[signal], &scan);
        }
        if signal == Signal::Kill {
            self.kill_groups(shell, &scan);
        }
        let rescans = signal.is_terminating() && !self.watches_all(&scan);
        self.next_sweep = rescans.then(|| Instant::now() + RESCAN);
    }

    /// Finds the tree's processes in this scan, or in a new one where it does not tell; returns which.
    fn find(&mut self, mut scan: Scan, processes: &mut TaskProcesses) -> Scan {
        self.seen_gone = false;
        self.alive = processes.living(&scan);
        for _ in 1..SCANS {
            if !processes.is_inconclusive() {
                break;
            }
            scan = Scan::take();
            self.alive = processes.living(&scan);
        }
        self.handles = self
            .alive
            .iter()
            .filter_map(|process| Handle::open(process.id).ok())
            .take(MAX_HANDLES)
            .collect();
        scan
    }

    fn signal(&mut self, process: &ProcessInfo, signals: &[Signal]) {
        let watched = self.handles.iter().find(|handle| handle.id == process.id);
        let opened = watched.is_none().then(|| Handle::open(process.id).ok()).flatten();
        let Some(handle) = watched.or(opened.as_ref()) else {
            return;
        };
        let sent: Vec<_> = signals.iter().map(|signal| handle.signal(*signal)).collect();
        for sent in sent {
            self.record(process.id, sent);
        }
    }

    /// Whether the shell is alive and the last scan has not shown it.
    fn is_unseen(&self, shell: &Child) -> bool {
        let seen = self.alive.iter().any(|process| process.id.pid == shell.pid());
        !seen && !shell.has_ended()
    }

    /// Signals a shell that no scan shows, and its group if scans show too few.
    fn signal_unseen_shell(&mut self, shell: &Child, signals: &[Signal], scan: &Scan) {
        for signal in signals {
            let sent =
                if scan.is_whole() { shell.signal(*signal) } else { shell.signal_group(*signal) };
            self.record(unseen_shell(shell), sent);
        }
    }

    /// Kills whole groups, which reaches all members at once: none escapes by starting others.
    fn kill_groups(&mut self, shell: &Child, scan: &Scan) {
        let _ = shell.signal_group(Signal::Kill);
        self.group_killed = true;
        for member in scan.groups_of(&self.alive) {
            if member.group != shell.pid() {
                let _ = kill::signal_group(member, Signal::Kill);
            }
        }
    }

    fn record(&mut self, id: Identity, sent: Result<(), Undelivered>) {
        match sent {
            Ok(()) => {
                self.signalled.insert(id);
            }
            Err(Undelivered::NotPermitted) => {
                self.refused.insert(id);
            }
            Err(Undelivered::Gone) => {}
        }
    }

    /// Whether each living process is watched, so that no scan is needed before one ends.
    fn watches_all(&self, scan: &Scan) -> bool {
        scan.is_whole()
            && self.handles.len() >= self.alive.len()
            && self.handles.iter().all(|handle| handle.ended().is_some())
    }

    /// Stops watching processes that have ended; returns whether no others are watched.
    fn forget(&mut self, ended: &[Identity]) -> bool {
        self.handles.retain(|handle| !ended.contains(&handle.id));
        self.alive.retain(|process| !ended.contains(&process.id));
        self.handles.is_empty()
    }

    /// The receipt, given the living processes of a last scan.
    fn receipt(
        &self,
        started: Instant,
        alive: &[ProcessInfo],
        is_incomplete: bool,
        shell: &Child,
    ) -> Receipt {
        let survivor = |process: &ProcessInfo| self.survivor(process.id, &process.name);
        let mut survivors: Vec<Survivor> = alive.iter().map(survivor).collect();
        let mut living: HashSet<Identity> = alive.iter().map(|process| process.id).collect();
        let listed = alive.iter().any(|process| process.id.pid == shell.pid());
        if !listed && !shell.has_ended() {
            living.insert(unseen_shell(shell));
            survivors.push(self.survivor(unseen_shell(shell), "shell"));
        }
        Receipt {
            signalled: self.signalled.len(),
            gone: self.signalled.difference(&living).count(),
            survivors,
            is_incomplete,
            took: started.elapsed(),
            ..Receipt::default()
        }
    }

    fn survivor(&self, id: Identity, name: &str) -> Survivor {
        let why = if self.refused.contains(&id) {
            SurvivalReason::OtherUser
        } else {
            SurvivalReason::StillAlive
        };
        Survivor { pid: id.pid, name: name.to_owned(), why }
    }
}

/// The identity of a shell that no scan of this kill has seen.
fn unseen_shell(shell: &Child) -> Identity {
    Identity { pid: shell.pid(), started: 0 }
}
