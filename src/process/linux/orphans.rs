//! Orphans that came to this process because it is their subreaper: becoming one, taking
//! ended ones out of the process table, and ending the living.

use std::collections::HashSet;
use std::io;
use std::time::{Duration, Instant};

use rustix::process::{Pid, WaitOptions};

use crate::process::kill::{Handle, await_ends};
use crate::process::signals::{self, Signal};
use crate::process::tree::{self, Identity, Snapshot};

/// From SIGTERM to SIGKILL for whatever lives below this process when it ends.
const GRACE: Duration = Duration::from_millis(500);
/// After SIGKILL.
const PATIENCE: Duration = Duration::from_millis(300);

/// Makes this process the one to which orphaned descendants are given, and names it
/// so that an agent's `pkill zsh` does not match it. From then on it learns of the end of
/// its children, whatever it was started with.
///
/// # Errors
/// When the kernel has no subreapers (before Linux 3.4, and elsewhere).
pub fn adopt() -> io::Result<()> {
    signals::stop_ignoring_children();
    let _ = rustix::thread::set_name(c"ztool");
    let own = rustix::process::getpid();
    Ok(rustix::process::set_child_subreaper(Some(own))?)
}

/// Reaps adopted zombies that an earlier call has seen already, and remembers the new
/// ones in `seen`. The answer tells whether some wait for the next call, which should
/// come a second later.
///
/// They are reaped by pid and only at the second sight: a child that another thread is
/// just starting may look like an adopted one for a moment.
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
    /// programs that lead a session of their own.
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
            .descendants_but(own, |process| process.is_daemon(self.spared))
            .into_iter()
            .filter(|process| !process.zombie)
            .filter_map(|process| Handle::open(process.id).ok())
            .collect()
    }
}

/// Sends SIGKILL to all that live below this process now, but for the named programs
/// that lead a session of their own; for an end that waits for nobody.
pub fn kill_all(spared: &[String]) {
    let sweep = Sweep {
        spared,
        begun: Instant::now(),
    };
    for process in sweep.living() {
        let _ = process.signal(Signal::Kill);
    }
}
