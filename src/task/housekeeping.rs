//! What a server does beside running tasks: making room on the disk, letting old tasks
//! go, reaping adopted zombies, and knowing whom it cannot attribute.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender};

use super::budget::Store;
use super::collector::OnPressure;
use super::journal;
use super::registry::TaskHandle;
use super::supervisor::Supervisor;
use crate::process::orphans;
use crate::process::tree;

/// A process that came to the server from a task that cannot be told any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unattributed {
    /// Its pid.
    pub pid: i32,
    /// Its name.
    pub name: String,
}

impl Supervisor {
    pub(super) fn pressure_relief(self: &Arc<Self>) -> OnPressure {
        let supervisor = Arc::downgrade(self);
        Arc::new(move || {
            if let Some(supervisor) = supervisor.upgrade() {
                supervisor.relieve(Store::Disk);
                supervisor.relieve(Store::Memory);
            }
        })
    }

    /// Frees room for output: finished tasks go first, then the largest gives up its
    /// oldest output.
    fn relieve(&self, store: Store) {
        while self.budget.excess(store) > 0 {
            let evicted = self.registry.lock().evict_oldest_in(store);
            if let Some(task) = evicted {
                self.forget(&task);
                continue;
            }
            let largest_first = self.registry.lock().largest_first(store);
            let freed = largest_first.iter().find_map(|task| {
                let line = task.live.state().output_end.line;
                Some(task.spool.give_up_oldest(store, line)).filter(|freed| *freed > 0)
            });
            if freed.is_none() {
                return;
            }
        }
    }

    pub(super) fn evict_surplus(&self) {
        let evicted = self.registry.lock().evict(
            self.settings.max_finished,
            self.settings.keep,
            Instant::now(),
        );
        for task in evicted {
            self.forget(&task);
        }
        self.workers
            .lock()
            .retain(|(_, worker)| !worker.is_finished());
    }

    fn forget(&self, task: &TaskHandle) {
        task.spool.remove();
        if let Ok(directory) = self.directory() {
            journal::remove_entry(directory, task.id());
        }
    }

    /// Does what is due from time to time, until `stop` closes: adopted zombies are
    /// reaped after each wake-up, finished tasks go when their time is over, and what
    /// dead servers left is removed once.
    pub fn keep_house(&self, wake: &Receiver<()>) {
        const AGAIN: Duration = Duration::from_secs(1);
        if let Ok(state) = &self.settings.state {
            journal::remove_dead_servers(state);
        }
        let mut seen = Default::default();
        let mut zombies_wait = false;
        loop {
            let now = Instant::now();
            let expiry = self.registry.lock().next_expiry(self.settings.keep, now);
            let pause = match (zombies_wait, expiry) {
                (true, _) => Some(AGAIN),
                (false, Some(expiry)) => Some(expiry.saturating_duration_since(now).max(AGAIN)),
                (false, None) => None,
            };
            let woken = match pause {
                Some(pause) => wake
                    .recv_timeout(pause)
                    .map_err(|error| error.is_disconnected()),
                None => wake.recv().map_err(|_| true),
            };
            if woken == Err(true) {
                return;
            }
            zombies_wait = orphans::reap_adopted(&mut seen);
            self.evict_surplus();
        }
    }

    /// Processes that came to this server and belong to no task that is known.
    pub fn unattributed(&self) -> Vec<Unattributed> {
        let adopted = orphans::adopted().unwrap_or_default();
        let tasks = self.tasks();
        let known: Vec<i32> = tasks
            .iter()
            .flat_map(|task| {
                task.live
                    .state()
                    .leftovers
                    .iter()
                    .map(|left| left.pid)
                    .collect::<Vec<_>>()
            })
            .collect();
        adopted
            .into_iter()
            .filter(|pid| !known.contains(pid))
            .filter_map(tree::look_up)
            .filter(|process| !process.zombie && !process.is_named(&self.settings.daemons))
            .filter(|process| {
                let of_task = |task: &Arc<TaskHandle>| {
                    let ours = format!("{}/{}", self.instance, task.id());
                    // The lock is not held while /proc is read.
                    let closed = task.live.state().closed;
                    !closed
                        && (task.live.facts.pid == process.session
                            || tree::cookie_of(process.id.pid).is_some_and(|cookie| cookie == ours))
                };
                !tasks.iter().any(of_task)
            })
            .map(|process| Unattributed {
                pid: process.id.pid,
                name: process.name,
            })
            .collect()
    }
}

/// Wakes the housekeeping; a wake-up that is already waiting is enough.
pub fn wake_housekeeping(wake: &Sender<()>) {
    let _ = wake.try_send(());
}
