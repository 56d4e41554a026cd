//! All tasks of a server, by id and in the order of their start. Bookkeeping under one lock,
//! which is never held during anything slow.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::completion::Completion;
use super::live::LiveTask;
use super::output::budget::StorageKind;
use super::output::spool::{Losses, Spools};
use super::request::StartError;
use super::stream::StreamName;
use super::tombstone::ServerEnd;
use super::worker_requests::RequestSender;
use crate::text::redact::Redactor;

/// A task, as the front ends hold it.
#[derive(Debug)]
pub struct TaskHandle {
    pub live: Arc<LiveTask>,
    pub spools: Spools,
    pub(super) requests: Arc<RequestSender>,
    pub(super) completion: Arc<Completion>,
    /// How its server ended; `None` for a task of this server.
    pub ended_server: Option<ServerEnd>,
}

impl TaskHandle {
    pub fn id(&self) -> &str {
        &self.live.facts.id
    }

    /// Records how far a reader that must not miss a byte has come; from the first call on, the
    /// program waits for that reader. `None`: the reader is gone.
    pub fn note_taken(&self, stream: StreamName, offset: Option<u64>) {
        self.live.state().streams.get_mut(stream).taken = offset;
        self.requests.wake();
    }

    /// What was lost of all streams.
    pub fn losses(&self) -> Losses {
        let (output, errors) = (self.spools.output.losses(), self.spools.errors.losses());
        Losses {
            bytes: output.bytes + errors.bytes,
            lines: output.lines + errors.lines,
            disk_failed: output.disk_failed.or(errors.disk_failed),
        }
    }

    /// How many bytes of its output are in this storage.
    fn held(&self, store: StorageKind) -> u64 {
        self.spools.output.held(store) + self.spools.errors.held(store)
    }

    /// Drops the oldest output in this storage; returns the bytes that were freed.
    pub(super) fn drop_oldest(&self, store: StorageKind) -> u64 {
        let lines = self.live.state().streams.map(|stream| stream.end.line);
        let Spools { output, errors } = &self.spools;
        let (larger, smaller) = if errors.held(store) > output.held(store) {
            ((errors, lines.errors), (output, lines.output))
        } else {
            ((output, lines.output), (errors, lines.errors))
        };
        match larger.0.drop_oldest(store, larger.1) {
            0 => smaller.0.drop_oldest(store, smaller.1),
            freed => freed,
        }
    }

    fn is_over(&self) -> bool {
        self.live.state().closed
    }

    /// Whether it can be evicted: what is known of it then is what its file holds.
    fn is_evictable(&self) -> bool {
        self.live.state().is_filed
    }

    /// Whether a result has shown its end, and with it all of its output.
    fn is_read(&self) -> bool {
        self.live.state().told.end
    }

    /// Whether nothing more will happen to it, and its end was reported.
    fn is_settled(&self) -> bool {
        let state = self.live.state();
        let reported = state.told.end || state.told.end_noticed;
        state.closed && reported && !state.awaits_leftovers()
    }
}

#[derive(Debug, Default)]
pub(crate) struct Registry {
    pub(super) by_id: HashMap<String, Arc<TaskHandle>>,
    /// In the order of their start.
    pub(super) order: Vec<Arc<TaskHandle>>,
    /// The tasks that were not settled at the last check. Every call iterates over these, while
    /// `order` may hold a thousand ended tasks.
    open: Vec<Arc<TaskHandle>>,
    /// How many are being started and are not yet in the list.
    starting: usize,
    /// Whether the server ends all tasks and accepts no new one; each worker knows it, too.
    pub(super) ending: Arc<AtomicBool>,
}

impl Registry {
    /// Reserves a place for a task that is about to start.
    ///
    /// # Errors
    /// When the server is ending or `limit` tasks run; the oldest of them are named.
    pub(crate) fn reserve(&mut self, limit: usize, redactor: &Redactor) -> Result<(), StartError> {
        const NAMED: usize = 5;
        if self.is_ending() {
            return Err(StartError::Ending);
        }
        let is_running = |task: &&Arc<TaskHandle>| task.live.state().ended.is_none();
        let running: Vec<&Arc<TaskHandle>> = self.open.iter().filter(is_running).collect();
        if running.len() + self.starting >= limit {
            let oldest = running.iter().take(NAMED).map(|task| {
                let command = redactor.redact(&task.live.facts.command);
                let line = command.lines().next().unwrap_or_default();
                let short: String = line.chars().take(40).collect();
                format!("{} ({short})", task.id())
            });
            let oldest: Vec<String> = oldest.collect();
            return Err(StartError::Full { limit, oldest: oldest.join(", ") });
        }
        self.starting += 1;
        Ok(())
    }

    /// Releases the place: the task did not start.
    pub(crate) fn release(&mut self) {
        self.starting -= 1;
    }

    /// Whether tasks are being started that are not listed yet.
    pub(crate) fn has_starts(&self) -> bool {
        self.starting > 0
    }

    /// Whether no new task is accepted.
    pub(crate) fn is_ending(&self) -> bool {
        self.ending.load(Ordering::SeqCst)
    }

    /// Adds a started task; returns whether the server has begun to end meanwhile.
    pub(crate) fn insert(&mut self, task: Arc<TaskHandle>) -> bool {
        self.release();
        self.by_id.insert(task.id().to_owned(), Arc::clone(&task));
        self.open.push(Arc::clone(&task));
        self.order.push(task);
        self.is_ending()
    }

    /// The tasks that run, linger, or whose end was not reported yet, oldest first.
    pub(crate) fn open(&mut self) -> Vec<Arc<TaskHandle>> {
        self.open.retain(|task| !task.is_settled());
        self.open.clone()
    }

    /// Lists a known task among the open ones again, so that its end is reported once more.
    pub(crate) fn reopen(&mut self, task: &Arc<TaskHandle>) {
        let is_it = |open: &Arc<TaskHandle>| Arc::ptr_eq(open, task);
        if self.order.iter().any(is_it) && !self.open.iter().any(is_it) {
            self.open.push(Arc::clone(task));
        }
    }

    /// Removes ended tasks beyond the maximum number, oldest first and unread ones last, and those
    /// that ended more than `kept_for` ago. One whose output is being read stays until later.
    pub(crate) fn evict(
        &mut self,
        max_finished: usize,
        kept_for: Duration,
        now: Instant,
    ) -> Vec<Arc<TaskHandle>> {
        // Every end of a task comes here, while a thousand ended ones are kept. Usually the oldest one
        // has been read and is the only one to go, so that no other is looked at.
        let unfinished = self.open.iter().filter(|task| !task.is_over()).count();
        let surplus = self.order.len().saturating_sub(max_finished + unfinished);
        let mut evicted = self.oldest(surplus, &[], |task| task.is_read());
        let rest = self.oldest(surplus - evicted.len(), &evicted, |_| true);
        evicted.extend(rest);
        if self.earliest_expiry(kept_for).is_some_and(|at| at <= now) {
            let expired = |task: &TaskHandle| {
                ended_at(task).is_some_and(|end| now.duration_since(end) > kept_for)
            };
            let rest = self.oldest(usize::MAX, &evicted, expired);
            evicted.extend(rest);
        }
        // This list refers to each.
        evicted.retain(|task| self.users(task) == 1);
        for task in &evicted {
            self.forget(task);
        }
        evicted
    }

    /// The oldest ended tasks of this kind, at most `count`, without those that are `known`.
    fn oldest(
        &self,
        count: usize,
        known: &[Arc<TaskHandle>],
        is_wanted: impl Fn(&TaskHandle) -> bool,
    ) -> Vec<Arc<TaskHandle>> {
        let is_new = |task: &&Arc<TaskHandle>| !known.iter().any(|known| Arc::ptr_eq(known, task));
        let ended = self.order.iter().filter(|task| task.is_evictable() && is_wanted(task));
        ended.filter(is_new).take(count).cloned().collect()
    }

    /// How many others refer to a task of this registry. Of an ended one these are calls, streams and
    /// people: they may be about to read the output, which counts as shown by then.
    fn users(&self, task: &Arc<TaskHandle>) -> usize {
        let in_open = self.open.iter().any(|open| Arc::ptr_eq(open, task));
        let own = 2 + usize::from(in_open);
        Arc::strong_count(task).saturating_sub(own)
    }

    fn forget(&mut self, task: &Arc<TaskHandle>) {
        self.by_id.remove(task.id());
        self.order.retain(|known| !Arc::ptr_eq(known, task));
        self.open.retain(|open| !Arc::ptr_eq(open, task));
    }

    /// Removes the oldest ended task with bytes in this storage: unread ones late, and those whose
    /// output is being read last.
    pub(crate) fn evict_oldest_in(&mut self, store: StorageKind) -> Option<Arc<TaskHandle>> {
        let holds = |task: &&Arc<TaskHandle>| task.is_evictable() && task.held(store) > 0;
        let oldest = self.order.iter().filter(holds);
        let task = Arc::clone(oldest.min_by_key(|task| (self.users(task) > 0, !task.is_read()))?);
        self.forget(&task);
        Some(task)
    }

    /// The tasks with bytes in this storage, largest first.
    pub(crate) fn largest_first(&self, store: StorageKind) -> Vec<Arc<TaskHandle>> {
        let mut holders: Vec<(u64, &Arc<TaskHandle>)> = self
            .order
            .iter()
            .map(|task| (task.held(store), task))
            .filter(|(held, _)| *held > 0)
            .collect();
        holders.sort_by_key(|(held, _)| std::cmp::Reverse(*held));
        holders.into_iter().map(|(_, task)| Arc::clone(task)).collect()
    }

    /// When to check for expired tasks again.
    pub(crate) fn next_expiry(&self, kept_for: Duration, now: Instant) -> Option<Instant> {
        let earliest = self.earliest_expiry(kept_for)?;
        if earliest > now {
            return Some(earliest);
        }
        self.order
            .iter()
            .filter(|task| task.is_over())
            .filter_map(|task| ended_at(task)?.checked_add(kept_for))
            .min()
    }

    /// No task expires before this, even if the oldest ended as it started.
    fn earliest_expiry(&self, kept_for: Duration) -> Option<Instant> {
        let oldest = self.order.first()?;
        oldest.live.facts.started.mono.checked_add(kept_for)
    }
}

fn ended_at(task: &TaskHandle) -> Option<Instant> {
    let duration = task.live.state().ended.as_ref()?.duration;
    task.live.facts.started.mono.checked_add(duration)
}
