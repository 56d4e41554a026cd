//! A task's end: recorded before it becomes visible to callers.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::live::{End, Facts, LiveTask};
use super::output::spool::Spools;
use super::stream::PerStream;
use crate::process::memory::{self, OutOfMemoryKills};
use crate::process::signals::{Exit, Signal};
use crate::progress::cost::Cost;
use crate::progress::waiting::Waiting;
use crate::shell::outcome::Outcome;
use crate::text::lines::Position;

/// The state of a task when it was first asked to end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KillContext {
    pub elapsed: Duration,
    /// How long it had printed nothing.
    pub silent_for: Duration,
    /// The process that waited for input, and for what.
    pub waiting: Option<Box<Waiting>>,
}

/// An ended task, as the recorder sees it.
pub struct FinishedTask<'a> {
    pub facts: &'a Facts,
    pub end: &'a End,
    /// Its streams, and where each ends.
    pub spools: &'a Spools,
    /// See [`FinishedTask::spools`].
    pub ends: PerStream<Position>,
    /// Its state when it was first asked to end, if it was.
    pub kill_context: Option<&'a KillContext>,
    /// See [`Usage::memory_peak`](crate::progress::cost::Usage::memory_peak).
    pub memory_peak: u64,
    /// How many processes the kernel had killed for lack of memory soon after the start; `None` if
    /// the command ended before that.
    pub(crate) memory_kills_at_start: Option<OutOfMemoryKills>,
}

/// Called once when a task is over, before callers can see that, so that later calls can rely on
/// the record. Runs on the worker's thread, or on that of a server that ends before the task. The
/// task's end waits for it: it must be quick, and must not wait for a task. What it returns is
/// dropped once callers can see the end: what no caller need wait for belongs there.
pub(crate) type OnEnd = Box<dyn FnOnce(&FinishedTask<'_>) -> AfterEnd + Send>;

/// See [`OnEnd`].
pub(crate) type AfterEnd = Box<dyn Send>;

/// What is collected for the end of one task.
pub(crate) struct Completion(Mutex<CompletionState>);

struct CompletionState {
    kill_context: Option<Box<KillContext>>,
    memory_kills_at_start: Option<OutOfMemoryKills>,
    provisional: (Exit, Outcome),
    on_end: Option<OnEnd>,
}

impl fmt::Debug for Completion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Completion")
    }
}

impl Completion {
    /// The completion of a task, with the function to call at its end.
    pub(crate) fn new(on_end: Option<OnEnd>) -> Completion {
        // Until the worker sets something else, only the server's end can end the task.
        let provisional = (Exit::Signal(Signal::Kill.number()), Outcome::Interrupted);
        Completion(Mutex::new(CompletionState {
            kill_context: None,
            memory_kills_at_start: None,
            provisional,
            on_end,
        }))
    }

    /// Records the task's state when it is asked to end for the first time; returns whether it did.
    pub(crate) fn record_kill_context(&self, task: &LiveTask) -> bool {
        if self.0.lock().kill_context.is_some() {
            return false;
        }
        let now = Instant::now();
        let started = task.facts.started.mono;
        let (last_output, waiting) = {
            let mut state = task.state();
            state.verdict_at_kill = state.verdict(now).map(Box::new);
            (state.last_output, state.waiting.clone())
        };
        self.0.lock().kill_context = Some(Box::new(KillContext {
            elapsed: now.saturating_duration_since(started),
            silent_for: now.saturating_duration_since(last_output.unwrap_or(started)),
            waiting,
        }));
        true
    }

    /// Counts the kernel's kills for lack of memory, the first time, to compare with at the end. The
    /// reading takes too long to do it for commands that end at once.
    pub(crate) fn count_memory_kills(&self) {
        if self.0.lock().memory_kills_at_start.is_none() {
            let count = memory::out_of_memory_kills();
            self.0.lock().memory_kills_at_start = Some(count);
        }
    }

    /// Sets the exit and outcome to report if the worker learns nothing more.
    pub(crate) fn set_provisional(&self, provisional: (Exit, Outcome)) {
        self.0.lock().provisional = provisional;
    }

    /// Calls `on_end`, unless there is none or it was called before, for which it returns `None`.
    pub(crate) fn call_on_end(
        &self,
        task: &LiveTask,
        end: &End,
        spools: &Spools,
    ) -> Option<AfterEnd> {
        let (on_end, kill_context, memory_kills_at_start) = {
            let mut state = self.0.lock();
            (state.on_end.take(), state.kill_context.clone(), state.memory_kills_at_start)
        };
        let on_end = on_end?;
        let (memory_peak, ends) = {
            let state = task.state();
            (state.usage.memory_peak, state.streams.map(|stream| stream.end))
        };
        let kill_context = kill_context.as_deref();
        let ended = FinishedTask {
            facts: &task.facts,
            end,
            spools,
            ends,
            kill_context,
            memory_peak,
            memory_kills_at_start,
        };
        // The task ends even if recording it panics.
        let after_end = catch_unwind(AssertUnwindSafe(|| on_end(&ended)));
        Some(after_end.unwrap_or_else(|_| {
            tracing::error!("task {}: recording its end panicked", task.facts.id);
            Box::new(())
        }))
    }

    /// Reports the end of a task that outlasts the server's shutdown: its program hangs in the
    /// kernel or belongs to another user, or the machine is busy. Returns whether it did.
    pub(crate) fn report_overdue_end(&self, task: &LiveTask, spools: &Spools) -> bool {
        let facts = &task.facts;
        let (exit, outcome) = self.0.lock().provisional;
        let end = End {
            exit,
            exit_assumed: false,
            outcome,
            duration: Instant::now().saturating_duration_since(facts.started.mono),
            pipestatus: Vec::new(),
            moved_to: None,
            output_cut: false,
            cost: Some(Cost::new(None, &task.state().usage)),
            over_memory: None,
        };
        let Some(_after_end) = self.call_on_end(task, &end, spools) else {
            return false;
        };
        // Wakes the calls that wait for the end.
        task.report(|state| {
            state.ended.get_or_insert(end);
        });
        true
    }
}
