//! One kill of a task's tree, from its order to its receipt.
//!
//! Each process that a scan finds is signalled by itself. Beside that the shell's process
//! group is signalled as a whole where scans do not reach: where `/proc` cannot be read, and
//! where processes start others faster than scans find them. The shell is not yet reaped,
//! so that this number is its own.

use std::collections::HashSet;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use crossbeam_channel::Sender;

use crate::process::kill::{self, Handle, Undelivered};
use crate::process::signals::Signal;
use crate::process::tree::{Family, Identity, ProcessInfo, Snapshot};
use crate::process::wait::Child;

/// Processes held for their end at the same time; the others are found by scans.
const MAX_HANDLES: usize = 64;
/// How soon a tree is scanned again while not all its ends can be watched.
const RESCAN: Duration = Duration::from_millis(50);

/// How soon a tree is looked at again after a look that did not make clear who belongs to it.
const LOOK_AGAIN: Duration = Duration::from_millis(5);
/// How often it is at once.
const LOOKS: usize = 4;

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
    /// Processes that got a signal. Where [`Receipt::unseen`] is set a whole group may
    /// have got it with its shell, which counts as one.
    pub signalled: usize,
    /// Those of them that are gone.
    pub gone: usize,
    /// Those that live.
    pub survivors: Vec<Survivor>,
    /// `/proc` could not be read at the end: there may be survivors that are not listed.
    pub unseen: bool,
    /// How long it took.
    pub took: Duration,
}

/// The kill of one task that is under way, if any, and who waits for its receipt.
#[derive(Debug, Default)]
pub(super) struct Kills {
    run: Option<KillRun>,
    waiting: Vec<Sender<Receipt>>,
}

impl Kills {
    /// Whether a kill is under way.
    pub fn under_way(&self) -> bool {
        self.run.is_some()
    }

    /// Somebody waits for the receipt of the kill that is under way or begins now.
    pub fn expect(&mut self, receipt: Sender<Receipt>) {
        self.waiting.push(receipt);
        self.run();
    }

    /// From now on each process of the tree gets these; whether all are gone.
    pub fn escalate(
        &mut self,
        signals: &'static [Signal],
        family: &mut Family,
        shell: &Child,
    ) -> bool {
        let run = self.run();
        run.signals = signals;
        run.served.clear();
        run.shell_served = false;
        run.sweep(family, shell)
    }

    /// Sends one signal to everybody, once.
    pub fn send_once(&mut self, signal: Signal, family: &mut Family, shell: &Child) {
        self.run().send_once(signal, family, shell);
    }

    /// Looks again if these ends, or the time, ask for it; whether all are gone.
    pub fn follow(&mut self, ended: &[Identity], family: &mut Family, shell: &Child) -> bool {
        let Some(run) = &mut self.run else {
            return false;
        };
        let due = run.next_sweep.is_some_and(|at| Instant::now() >= at);
        let last_ended = !ended.is_empty() && run.forget(ended);
        (due || last_ended) && run.sweep(family, shell)
    }

    /// The ends to watch for.
    pub fn ends(&self) -> impl Iterator<Item = (Identity, BorrowedFd<'_>)> {
        self.run
            .iter()
            .flat_map(|run| &run.handles)
            .filter_map(|handle| {
                let end = handle.ended()?;
                Some((handle.id(), end))
            })
    }

    /// When to look again without an end.
    pub fn next_sweep(&self) -> Option<Instant> {
        self.run.as_ref()?.next_sweep
    }

    /// Ends the kill with a receipt by a last look; gives those who live by it.
    pub fn close(&mut self, family: &mut Family, shell: &Child) -> Option<Vec<ProcessInfo>> {
        let run = self.run.take()?;
        let snapshot = Snapshot::take();
        let alive = family.living(&snapshot);
        let receipt = run.receipt(&alive, !snapshot.is_whole(), shell);
        for waiting in self.waiting.drain(..) {
            // Whoever asked may have gone; the channel has room for one.
            let _ = waiting.try_send(receipt.clone());
        }
        Some(alive)
    }

    fn run(&mut self) -> &mut KillRun {
        self.run.get_or_insert_with(KillRun::new)
    }
}

/// A kill under way.
#[derive(Debug)]
struct KillRun {
    started: Instant,
    /// What to send to processes that a scan finds for the first time.
    signals: &'static [Signal],
    /// Who got all of the present signals.
    served: HashSet<Identity>,
    /// Whether the shell did, without being found by a scan.
    shell_served: bool,
    /// Whether the shell's group was sent SIGKILL.
    group_killed: bool,
    signalled: HashSet<Identity>,
    refused: HashSet<Identity>,
    alive: Vec<ProcessInfo>,
    handles: Vec<Handle>,
    next_sweep: Option<Instant>,
}

impl KillRun {
    /// A kill that begins now.
    fn new() -> KillRun {
        KillRun {
            started: Instant::now(),
            signals: &[],
            served: HashSet::new(),
            shell_served: false,
            group_killed: false,
            signalled: HashSet::new(),
            refused: HashSet::new(),
            alive: Vec::new(),
            handles: Vec::new(),
            next_sweep: None,
        }
    }

    /// Scans the tree and signals whom it has not signalled yet; whether all are gone.
    fn sweep(&mut self, family: &mut Family, shell: &Child) -> bool {
        let snapshot = self.scan(family);
        let newcomers: Vec<ProcessInfo> = self
            .alive
            .iter()
            .filter(|process| !self.served.contains(&process.id))
            .cloned()
            .collect();
        for process in &newcomers {
            self.served.insert(process.id);
            self.send(process, self.signals);
        }
        if !self.shell_served && self.misses(shell) {
            self.shell_served = true;
            self.send_unseen(shell, self.signals, &snapshot);
        }
        let forced = self.signals.contains(&Signal::Kill);
        if forced {
            self.kill_groups(shell, &snapshot);
        }
        self.next_sweep = if family.is_unclear() {
            Some(Instant::now() + LOOK_AGAIN)
        } else if forced && !newcomers.is_empty() {
            // Who starts others faster than they are ended is hunted without a pause.
            Some(Instant::now())
        } else {
            (!self.watches_all(&snapshot)).then(|| Instant::now() + RESCAN)
        };
        !family.is_unclear() && self.is_over(shell, &snapshot)
    }

    /// Whether nobody is left. The shell's end is known without a scan; those whom no scan
    /// can show are gone when they had to go.
    fn is_over(&mut self, shell: &Child, snapshot: &Snapshot) -> bool {
        if !self.alive.is_empty() || !shell.has_ended() {
            return false;
        }
        if snapshot.is_whole() {
            // Nobody is left to be hit, unless the scan has missed him.
            let _ = shell.signal_group(Signal::Kill);
            return true;
        }
        self.group_killed
    }

    fn send_once(&mut self, signal: Signal, family: &mut Family, shell: &Child) {
        let snapshot = self.scan(family);
        for process in self.alive.clone() {
            self.send(&process, &[signal]);
        }
        if self.misses(shell) {
            self.send_unseen(shell, &[signal], &snapshot);
        }
        if signal == Signal::Kill {
            self.kill_groups(shell, &snapshot);
        }
        let looks_again = signal.ends() && !self.watches_all(&snapshot);
        self.next_sweep = looks_again.then(|| Instant::now() + RESCAN);
    }

    fn scan(&mut self, family: &mut Family) -> Snapshot {
        let mut snapshot = Snapshot::take();
        self.alive = family.living(&snapshot);
        for _ in 1..LOOKS {
            if !family.is_unclear() {
                break;
            }
            snapshot = Snapshot::take();
            self.alive = family.living(&snapshot);
        }
        self.handles = self
            .alive
            .iter()
            .filter_map(|process| Handle::open(process.id).ok())
            .take(MAX_HANDLES)
            .collect();
        snapshot
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
        let sent: Vec<_> = signals
            .iter()
            .map(|signal| handle.signal(*signal))
            .collect();
        for sent in sent {
            self.note(process.id, sent);
        }
    }

    /// Whether the shell lives and the last scan has not shown it.
    fn misses(&self, shell: &Child) -> bool {
        let seen = self
            .alive
            .iter()
            .any(|process| process.id.pid == shell.pid());
        !seen && !shell.has_ended()
    }

    /// Signals a shell that no scan shows, and with it, where scans show too few, those of
    /// its group.
    fn send_unseen(&mut self, shell: &Child, signals: &[Signal], snapshot: &Snapshot) {
        for signal in signals {
            let sent = if snapshot.is_whole() {
                shell.signal(*signal)
            } else {
                shell.signal_group(*signal)
            };
            self.note(unseen(shell), sent);
        }
    }

    /// Nobody of a group escapes by starting others: the signal reaches all of it at once.
    fn kill_groups(&mut self, shell: &Child, snapshot: &Snapshot) {
        let _ = shell.signal_group(Signal::Kill);
        self.group_killed = true;
        for member in snapshot.groups_of(&self.alive) {
            if member.group != shell.pid() {
                let _ = kill::signal_group(member, Signal::Kill);
            }
        }
    }

    fn note(&mut self, id: Identity, sent: Result<(), Undelivered>) {
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

    /// Whether every living process is watched, so that no scan is needed before an end.
    fn watches_all(&self, snapshot: &Snapshot) -> bool {
        snapshot.is_whole()
            && self.handles.len() >= self.alive.len()
            && self.handles.iter().all(|handle| handle.ended().is_some())
    }

    /// Stops watching processes that have ended; whether none is watched any more.
    fn forget(&mut self, ended: &[Identity]) -> bool {
        self.handles.retain(|handle| !ended.contains(&handle.id()));
        self.alive.retain(|process| !ended.contains(&process.id));
        self.handles.is_empty()
    }

    /// What it came to, by a last scan's living.
    fn receipt(&self, alive: &[ProcessInfo], unseen_left: bool, shell: &Child) -> Receipt {
        let mut survivors: Vec<Survivor> = alive
            .iter()
            .map(|process| Survivor {
                pid: process.id.pid,
                name: process.name.clone(),
                why: self.why_it_lives(process.id),
            })
            .collect();
        let mut living: HashSet<Identity> = alive.iter().map(|process| process.id).collect();
        let listed = alive.iter().any(|process| process.id.pid == shell.pid());
        if !listed && !shell.has_ended() {
            living.insert(unseen(shell));
            survivors.push(Survivor {
                pid: shell.pid(),
                name: "shell".to_owned(),
                why: self.why_it_lives(unseen(shell)),
            });
        }
        Receipt {
            signalled: self.signalled.len(),
            gone: self.signalled.difference(&living).count(),
            survivors,
            unseen: unseen_left,
            took: self.started.elapsed(),
        }
    }

    fn why_it_lives(&self, id: Identity) -> SurvivalReason {
        if self.refused.contains(&id) {
            SurvivalReason::OtherUser
        } else {
            SurvivalReason::StillAlive
        }
    }
}

/// The shell in the books of a kill that has not seen it.
fn unseen(shell: &Child) -> Identity {
    Identity {
        pid: shell.pid(),
        started: 0,
    }
}
