//! Orphans that came to this process because it is their subreaper: becoming one, taking
//! ended ones out of the process table, and ending the living.
//!
//! A shell that runs its last command in its own place leaves its background processes to
//! this process as children (`server & zsh-tool exec make`). They were there before it
//! and are none of its business. Limits: whoever descends from them is known by living
//! below them or in their session; one that has left both counts as an orphan of ours.

use std::collections::HashSet;
use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, WaitId, WaitIdOptions, WaitOptions};

use crate::process::kill::{Handle, await_ends};
use crate::process::processes::program_of;
use crate::process::signals::{self, Signal};
use crate::process::tree::{self, Identity, ProcessInfo, Snapshot};

/// From SIGTERM to SIGKILL for whatever lives below this process when it ends.
const GRACE: Duration = Duration::from_millis(500);
/// After SIGKILL.
const PATIENCE: Duration = Duration::from_millis(300);

/// Whether orphans come to this process.
static ADOPTS: AtomicBool = AtomicBool::new(false);
/// The children that this process had before it started any.
static ELDERS: OnceLock<Elders> = OnceLock::new();

/// Processes that somebody else started, although they are this process's children.
#[derive(Debug, Default)]
struct Elders {
    children: HashSet<Identity>,
    /// Their sessions, which nobody can join who was started by this process: it gives
    /// each of its children a session of its own.
    sessions: HashSet<i32>,
    /// When the youngest of them and of their sessions' leaders may have started.
    latest: u64,
}

impl Elders {
    /// The children that are there now; usually none, which one system call tells.
    fn look() -> Elders {
        if !has_children() {
            return Elders::default();
        }
        let own = std::process::id() as i32;
        let children: Vec<ProcessInfo> = match tree::children_of_self() {
            Some(children) => children.into_iter().filter_map(tree::look_up).collect(),
            None => {
                let all = Snapshot::take();
                let children = all.processes().filter(|process| process.parent == own);
                children.cloned().collect()
            }
        };
        let own_start = tree::look_up(own).map(|process| process.id.started);
        let starts = children.iter().map(|child| child.id.started);
        Elders {
            latest: starts.chain(own_start).max().unwrap_or_default(),
            sessions: children.iter().map(|child| child.session).collect(),
            children: children.into_iter().map(|child| child.id).collect(),
        }
    }

    /// Whether a process is one of them, or has come from one.
    fn include(&self, process: &ProcessInfo) -> bool {
        self.children.contains(&process.id)
            || (self.sessions.contains(&process.session) && self.knew_session(process))
    }

    /// Whether a process is in a session of before, and not in a new one of that number,
    /// nor a child of this process that still has to become a program of its own.
    fn knew_session(&self, process: &ProcessInfo) -> bool {
        let leader = tree::look_up(process.session);
        leader.is_none_or(|leader| leader.id.started <= self.latest)
            && program_of(process.id.pid) != program_of(std::process::id() as i32)
    }
}

/// Whether this process has any child, ended or not.
fn has_children() -> bool {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    let state = rustix::process::waitid(WaitId::All, options);
    !matches!(state, Err(rustix::io::Errno::CHILD))
}

/// Whether a child of this process was its child before it started any, or has come from
/// one; what lives below such a child is not this process's either.
pub(super) fn is_elder(process: &ProcessInfo) -> bool {
    ELDERS.get().is_some_and(|elders| elders.include(process))
}

/// The living or ended processes that came to this one as their subreaper. `None` where
/// the kernel does not tell, and where they go elsewhere.
pub fn adopted() -> Option<Vec<i32>> {
    if !ADOPTS.load(Ordering::Relaxed) {
        return None;
    }
    let mut children = tree::children_of_self()?;
    if ELDERS
        .get()
        .is_some_and(|elders| !elders.children.is_empty())
    {
        children.retain(|pid| !tree::look_up(*pid).is_some_and(|child| is_elder(&child)));
    }
    Some(children)
}

/// Makes this process the one to which orphaned descendants are given, and names it
/// so that an agent's `pkill zsh` does not match it. From then on it learns of the end of
/// its children, whatever it was started with.
///
/// # Errors
/// When the kernel has no subreapers (before Linux 3.4, and elsewhere).
pub fn adopt() -> io::Result<()> {
    ELDERS.get_or_init(Elders::look);
    signals::stop_ignoring_children();
    let _ = rustix::thread::set_name(c"ztool");
    let own = rustix::process::getpid();
    rustix::process::set_child_subreaper(Some(own))?;
    ADOPTS.store(true, Ordering::Relaxed);
    Ok(())
}

/// Reaps adopted zombies that an earlier call has seen already, and remembers the new
/// ones in `seen`. The answer tells whether some wait for the next call, which should
/// come a second later.
///
/// They are reaped by pid and only at the second sight: a child that another thread is
/// just starting may look like an adopted one for a moment. Those who were children from
/// the start have no other parent who would reap them, so that they are reaped as well.
pub fn reap_adopted(seen: &mut HashSet<Identity>) -> bool {
    let zombies: HashSet<Identity> = tree::children_of_self()
        .unwrap_or_default()
        .into_iter()
        .filter_map(tree::look_up)
        .filter(|process| process.zombie)
        .map(|process| process.id)
        .collect();
    for id in zombies.intersection(seen) {
        if let Some(pid) = Pid::from_raw(id.pid) {
            let _ = rustix::process::waitpid(Some(pid), WaitOptions::NOHANG);
        }
    }
    let fresh: HashSet<Identity> = zombies.difference(seen).copied().collect();
    *seen = fresh;
    !seen.is_empty()
}

/// The end of everything below this process: those that belong to tasks and those that
/// cannot be attributed any more.
#[derive(Debug)]
pub struct Sweep<'a> {
    spared: &'a [String],
    begun: Instant,
}

impl<'a> Sweep<'a> {
    /// Sends SIGTERM and SIGCONT to all that live below this process, but for the named
    /// programs that lead a session of their own, and whoever was there before.
    pub fn begin(spared: &'a [String]) -> Sweep<'a> {
        let sweep = Sweep {
            spared,
            begun: Instant::now(),
        };
        for process in sweep.living() {
            for signal in [Signal::Term, Signal::Cont] {
                let _ = process.signal(signal);
            }
        }
        sweep
    }

    /// Waits until the grace is over or nobody lives, then sends SIGKILL to the rest.
    pub fn finish(self) {
        let mut left = self.living();
        await_ends(
            &mut left,
            (self.begun + GRACE).saturating_duration_since(Instant::now()),
        );
        let last = Instant::now() + PATIENCE;
        loop {
            let mut left = self.living();
            let patience = last.saturating_duration_since(Instant::now());
            if left.is_empty() || patience.is_zero() {
                return;
            }
            for process in &left {
                let _ = process.signal(Signal::Kill);
            }
            await_ends(&mut left, patience);
        }
    }

    fn living(&self) -> Vec<Handle> {
        let own = std::process::id() as i32;
        Snapshot::take()
            .descendants_but(own, |process| {
                process.is_daemon(self.spared) || is_elder(process)
            })
            .into_iter()
            .filter(|process| !process.zombie)
            .filter_map(|process| Handle::open(process.id).ok())
            .collect()
    }
}

/// Sends SIGKILL to all that live below this process now, but for the named programs
/// that lead a session of their own and whoever was there before; for an end that waits
/// for nobody.
pub fn kill_all(spared: &[String]) {
    let sweep = Sweep {
        spared,
        begun: Instant::now(),
    };
    for process in sweep.living() {
        let _ = process.signal(Signal::Kill);
    }
}
