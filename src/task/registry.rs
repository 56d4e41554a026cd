//! All tasks of a server, by id and in the order of their start. Pure bookkeeping under
//! one lock that is never held over anything slow.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::budget::Store;
use super::ending::Ending;
use super::live::LiveTask;
use super::order_line::OrderLine;
use super::spool::Spool;

/// A task, as the faces hold it.
#[derive(Debug)]
pub struct TaskHandle {
    /// Its state.
    pub live: Arc<LiveTask>,
    /// Its output.
    pub spool: Arc<Spool>,
    pub(super) orders: Arc<OrderLine>,
    pub(super) ending: Arc<Ending>,
}

impl TaskHandle {
    /// Its id.
    pub fn id(&self) -> &str {
        &self.live.facts.id
    }

    /// Notes how far a reader that must not miss a byte has come; from the first call
    /// on the program waits for it. `None`: nobody reads so any more.
    pub fn note_taken(&self, offset: Option<u64>) {
        self.live.state().taken = offset;
        self.orders.wake();
    }

    fn runs(&self) -> bool {
        self.live.state().ended.is_none()
    }

    fn is_over(&self) -> bool {
        self.live.state().closed
    }

    /// Nothing more comes of it, and its end has been told.
    fn is_settled(&self) -> bool {
        let state = self.live.state();
        state.closed && (state.end_told || state.end_noticed)
    }
}

/// The tasks that are known.
#[derive(Debug, Default)]
pub struct Registry {
    by_id: HashMap<String, Arc<TaskHandle>>,
    order: Vec<Arc<TaskHandle>>,
    /// Those of them that were not settled at the last look: what every call goes
    /// through, whereas finished tasks gather by the hundred.
    open: Vec<Arc<TaskHandle>>,
    /// Being started, not yet in the list.
    starting: usize,
    /// No new task is taken.
    closed: bool,
}

/// Why no task may be started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refused {
    /// The limit of running tasks is reached; the oldest of them are named.
    Full(Vec<Arc<LiveTask>>),
    /// The server is ending.
    Closed,
}

impl PartialEq for LiveTask {
    fn eq(&self, other: &Self) -> bool {
        self.facts.id == other.facts.id
    }
}

impl Eq for LiveTask {}

impl Registry {
    /// Holds a place for a task that is about to start.
    pub fn reserve(&mut self, most: usize) -> Result<(), Refused> {
        const NAMED: usize = 5;
        if self.closed {
            return Err(Refused::Closed);
        }
        let running: Vec<&Arc<TaskHandle>> = self.open.iter().filter(|task| task.runs()).collect();
        if running.len() + self.starting >= most {
            let oldest = running
                .iter()
                .take(NAMED)
                .map(|task| Arc::clone(&task.live))
                .collect();
            return Err(Refused::Full(oldest));
        }
        self.starting += 1;
        Ok(())
    }

    /// Gives the place back: the task did not start.
    pub fn release(&mut self) {
        self.starting = self.starting.saturating_sub(1);
    }

    /// Puts a started task in its place; whether no more tasks are taken by now.
    pub fn insert(&mut self, task: Arc<TaskHandle>) -> bool {
        self.release();
        self.by_id.insert(task.id().to_owned(), Arc::clone(&task));
        self.open.push(Arc::clone(&task));
        self.order.push(task);
        self.closed
    }

    /// Takes no more tasks.
    pub fn close(&mut self) {
        self.closed = true;
    }

    /// Whether an id is taken.
    pub fn contains(&self, id: &str) -> bool {
        self.by_id.contains_key(id)
    }

    /// Looks a task up.
    pub fn get(&self, id: &str) -> Option<Arc<TaskHandle>> {
        self.by_id.get(id).cloned()
    }

    /// All tasks, oldest first.
    pub fn all(&self) -> Vec<Arc<TaskHandle>> {
        self.order.clone()
    }

    /// The tasks that run, linger, or whose end nobody has been told of, oldest first.
    pub fn open(&mut self) -> Vec<Arc<TaskHandle>> {
        self.open.retain(|task| !task.is_settled());
        self.open.clone()
    }

    /// Takes out finished tasks over the number that is kept, and those that ended
    /// before the time that is kept.
    pub fn evict(
        &mut self,
        most_finished: usize,
        kept_for: Duration,
        now: Instant,
    ) -> Vec<Arc<TaskHandle>> {
        let may_expire = self.earliest_expiry(kept_for).is_some_and(|at| at <= now);
        if self.order.len() <= most_finished && !may_expire {
            return Vec::new();
        }
        let over: Vec<bool> = self.order.iter().map(|task| task.is_over()).collect();
        let mut surplus = over
            .iter()
            .filter(|over| **over)
            .count()
            .saturating_sub(most_finished);
        let mut evicted = Vec::new();
        let mut over = over.into_iter();
        self.order.retain(|task| {
            let finished = over.next().unwrap_or(false);
            let expired =
                finished && ended_at(task).is_some_and(|end| now.duration_since(end) > kept_for);
            let goes = finished && (surplus > 0 || expired);
            if goes {
                surplus = surplus.saturating_sub(1);
                evicted.push(Arc::clone(task));
            }
            !goes
        });
        for task in &evicted {
            self.forget(task);
        }
        evicted
    }

    fn forget(&mut self, task: &Arc<TaskHandle>) {
        self.by_id.remove(task.id());
        self.open.retain(|open| !Arc::ptr_eq(open, task));
    }

    /// Takes out the oldest finished task that holds bytes there.
    pub fn evict_oldest_in(&mut self, store: Store) -> Option<Arc<TaskHandle>> {
        let place = self
            .order
            .iter()
            .position(|task| task.is_over() && task.spool.held(store) > 0)?;
        let task = self.order.remove(place);
        self.forget(&task);
        Some(task)
    }

    /// The tasks that hold bytes in a store, those that hold most first.
    pub fn largest_first(&self, store: Store) -> Vec<Arc<TaskHandle>> {
        let mut holders: Vec<(u64, &Arc<TaskHandle>)> = self
            .order
            .iter()
            .map(|task| (task.spool.held(store), task))
            .filter(|(held, _)| *held > 0)
            .collect();
        holders.sort_by_key(|(held, _)| std::cmp::Reverse(*held));
        holders
            .into_iter()
            .map(|(_, task)| Arc::clone(task))
            .collect()
    }

    /// When to look for expired tasks again.
    pub fn next_expiry(&self, kept_for: Duration, now: Instant) -> Option<Instant> {
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

    /// No task expires before this, were even the oldest to have ended at its start.
    fn earliest_expiry(&self, kept_for: Duration) -> Option<Instant> {
        let oldest = self.order.first()?;
        oldest.live.facts.started.mono.checked_add(kept_for)
    }
}

fn ended_at(task: &TaskHandle) -> Option<Instant> {
    let duration = task.live.state().ended.as_ref()?.duration;
    task.live.facts.started.mono.checked_add(duration)
}
