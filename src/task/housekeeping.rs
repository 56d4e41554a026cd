//! What a server does besides running tasks: it frees space for output, evicts old tasks, reaps
//! adopted zombies, and lists processes whose task is unknown.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::output::budget::StorageKind;
use super::output::collector::OnPressure;
use super::registry::TaskHandle;
use super::settings::Settings;
use super::supervisor::Supervisor;
use super::tombstone;
use crate::process::birthmark::Birthmark;
use crate::process::descriptors::{self, Waker};
use crate::process::orphans;
use crate::process::probe::ProcessInfo;
use crate::process::tree;

impl Supervisor {
    pub(super) fn pressure_relief(self: &Arc<Self>) -> OnPressure {
        let supervisor = Arc::downgrade(self);
        Arc::new(move || {
            if let Some(supervisor) = supervisor.upgrade() {
                supervisor.relieve(StorageKind::Disk);
                supervisor.relieve(StorageKind::Memory);
            }
        })
    }

    /// Frees space for output: first removes ended tasks, then drops the oldest output of the
    /// largest task.
    fn relieve(&self, store: StorageKind) {
        while self.budget.excess(store) > 0 {
            let evicted = self.registry.lock().evict_oldest_in(store);
            if let Some(task) = evicted {
                self.forget(&task);
                continue;
            }
            let largest_first = self.registry.lock().largest_first(store);
            if !largest_first.iter().any(|task| task.drop_oldest(store) > 0) {
                return;
            }
        }
    }

    pub(super) fn evict_surplus(&self) {
        let evicted = self.registry.lock().evict(
            self.settings.max_finished,
            self.settings.retention,
            Instant::now(),
        );
        for task in evicted {
            self.forget(&task);
        }
        self.workers.lock().retain(|(_, worker)| !worker.is_finished());
    }

    fn forget(&self, task: &TaskHandle) {
        task.spools.output.remove();
        task.spools.errors.remove();
        if let Ok(directory) = self.directory() {
            tombstone::note_evicted(&directory.path, task.id());
        }
    }

    /// Sets what wakes the housekeeping, after each task and at the ends of adopted processes.
    ///
    /// # Errors
    /// When adopted processes cannot be noticed.
    pub(crate) fn set_housekeeping(&self, waker: Arc<Waker>) -> std::io::Result<()> {
        let _ = self.housekeeping.set(Arc::clone(&waker));
        orphans::wake_at_ends(waker)
    }

    /// Runs until the process exits. After each wake-up, reaps adopted zombies and evicts
    /// expired tasks; once an hour, removes expired files of ended servers. Calls `on_idle` soon
    /// after the start, and whenever no child has ended for 5 s.
    pub fn run_housekeeping(&self, woken: &OwnedFd, on_idle: impl Fn()) {
        const SHORTEST_PAUSE: Duration = Duration::from_secs(1);
        const IDLE_AFTER: Duration = Duration::from_secs(5);
        /// A client's first requests have been answered by then.
        const STARTED_AFTER: Duration = Duration::from_millis(500);
        /// Servers that end while this one lives leave files, too.
        const SWEEP_INTERVAL: Duration = Duration::from_secs(3600);
        let mut swept: Option<Instant> = None;
        let mut seen = Default::default();
        let mut zombies_wait = false;
        let mut idle_at = Some(Instant::now() + STARTED_AFTER);
        loop {
            let now = Instant::now();
            if let Ok(state) = &self.settings.state
                && swept.is_none_or(|last| now.duration_since(last) >= SWEEP_INTERVAL)
            {
                swept = Some(now);
                let Settings { retention: keep, directory_quota, .. } = self.settings;
                tombstone::sweep(state, keep, directory_quota);
            }
            let expiry = self.registry.lock().next_expiry(self.settings.retention, now);
            let expiry = expiry.map(|at| at.saturating_duration_since(now).max(SHORTEST_PAUSE));
            let is_idle = idle_at.take_if(|at| now >= *at).is_some();
            let pauses = [
                zombies_wait.then_some(SHORTEST_PAUSE),
                expiry,
                idle_at.map(|at| at.saturating_duration_since(now)),
            ];
            let pause = pauses.into_iter().flatten().fold(SWEEP_INTERVAL, Duration::min);
            if is_idle {
                // Right before the wait: what runs after it comes back into memory.
                on_idle();
            }
            if descriptors::await_wake(woken, pause) {
                idle_at = Some(Instant::now() + IDLE_AFTER);
            }
            zombies_wait = orphans::reap_adopted(&mut seen);
            self.evict_surplus();
        }
    }

    /// The processes that this server has adopted and that no known task can be shown to have
    /// started.
    pub fn unattributed(&self) -> Vec<ProcessInfo> {
        let adopted = orphans::adopted().unwrap_or_default();
        let tasks = self.tasks();
        let pids = |task: &Arc<TaskHandle>| -> Vec<i32> {
            task.live.state().leftovers.iter().map(|left| left.pid).collect()
        };
        let known: Vec<i32> = tasks.iter().flat_map(pids).collect();
        adopted
            .into_iter()
            .filter(|pid| !known.contains(pid))
            .filter_map(tree::look_up)
            .filter(|process| {
                let is_kept = process.is_named(&self.settings.daemons) || process.is_shim();
                !process.zombie && !is_kept
            })
            .filter(|process| {
                let birthmark = Birthmark::on(process.id.pid);
                let of_task = |task: &Arc<TaskHandle>| {
                    let cookie = self.cookie(task.id());
                    // The task's lock is released before `/proc` is read.
                    let closed = task.live.state().closed;
                    !closed
                        && (task.live.facts.shell.pid == process.session
                            || birthmark == Some(Birthmark::for_cookie(&cookie))
                            || tree::cookie_of(process.id.pid) == Some(cookie))
                };
                !tasks.iter().any(of_task)
            })
            .collect()
    }
}
