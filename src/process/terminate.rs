//! Ending processes: SIGTERM, a grace, then SIGKILL. Each step scans again, so that processes
//! started in between are ended as well.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use super::probe::Identity;
use super::signals::Signal;

/// From SIGTERM to SIGKILL.
pub(super) const GRACE: Duration = Duration::from_millis(500);
/// After SIGKILL: a process that remains for longer hangs in the kernel.
pub(super) const PATIENCE: Duration = Duration::from_secs(1);
/// The same at the end of the server, for which its client waits.
pub(super) const PATIENCE_AT_END: Duration = Duration::from_millis(300);

/// A process, or a process group where processes cannot be listed.
pub(super) trait Target: Sized {
    fn id(&self) -> Identity;

    /// Sends a signal; a target that is gone needs none.
    fn send(&self, signal: Signal);

    /// Waits until all have ended, for at most `limit`.
    fn await_ends(targets: Vec<Self>, limit: Duration);
}

/// One termination under way.
#[derive(Debug)]
pub(super) struct Termination {
    begun: Instant,
    grace: Duration,
    patience: Duration,
    /// The targets that were sent SIGTERM. A second one makes some programs abandon their cleanup.
    terminated: HashSet<Identity>,
}

impl Termination {
    /// Begins the grace; `patience` begins when the grace is over.
    pub(super) fn begin(grace: Duration, patience: Duration) -> Termination {
        Termination { begun: Instant::now(), grace, patience, terminated: HashSet::new() }
    }

    /// Sends SIGTERM and SIGCONT to targets that have not been sent them.
    pub(super) fn request_end<T: Target>(&mut self, targets: &[T]) {
        for target in targets {
            if self.terminated.insert(target.id()) {
                target.send(Signal::Term);
                target.send(Signal::Cont);
            }
        }
    }

    /// Ends all targets that `find` returns, until it returns `None` or the patience is over.
    /// `wait` waits for their ends, at most for the given time; it returns whether to cut the grace
    /// short.
    pub(super) fn finish<T: Target>(
        mut self,
        mut find: impl FnMut() -> Option<Vec<T>>,
        mut wait: impl FnMut(Vec<T>, Duration) -> bool,
    ) {
        let mut last = None;
        while let Some(targets) = find() {
            let mut limit = self.grace.saturating_sub(self.begun.elapsed());
            if limit.is_zero() {
                let last = *last.get_or_insert_with(|| Instant::now() + self.patience);
                limit = last.saturating_duration_since(Instant::now());
                if limit.is_zero() {
                    return;
                }
                for target in &targets {
                    target.send(Signal::Kill);
                }
            } else {
                self.request_end(&targets);
            }
            if wait(targets, limit) {
                self.grace = Duration::ZERO;
            }
        }
    }

    /// Ends all targets that `find` returns, until it returns none or the patience is over.
    pub(super) fn finish_all<T: Target>(self, mut find: impl FnMut() -> Vec<T>) {
        self.finish(
            || Some(find()).filter(|targets| !targets.is_empty()),
            |targets, limit| {
                T::await_ends(targets, limit);
                false
            },
        );
    }
}

/// Ends all targets that `find` returns, until it returns none or `patience` is over.
pub(super) fn terminate<T: Target>(
    find: impl FnMut() -> Vec<T>,
    grace: Duration,
    patience: Duration,
) {
    Termination::begin(grace, patience).finish_all(find);
}
