//! A task's end, told to whoever learns from it before anybody else knows of it.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::live::{End, Facts, LiveTask};
use super::spool::Spool;
use super::state::Outcome;
use crate::process::signals::{Exit, Signal};
use crate::progress::waiting::Waiting;
use crate::text::lines::Position;

/// How a task was when it was first asked to end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Circumstances {
    /// How long it had run.
    pub elapsed: Duration,
    /// How long it had printed nothing.
    pub silent_for: Duration,
    /// Who waited for input, and for what.
    pub waiting: Option<Waiting>,
}

/// What there is to learn from.
pub struct Ended<'a> {
    /// What ran.
    pub facts: &'a Facts,
    /// How it ended.
    pub end: &'a End,
    /// What it printed, and where that ends.
    pub output: &'a Spool,
    /// See [`Ended::output`].
    pub output_end: Position,
    /// How it was when it was first asked to end, if it was.
    pub asked: Option<&'a Circumstances>,
}

/// Called once when a task is over and nobody knows of it yet, so that whoever is told of
/// the end can rely on what was learned from it: on the worker's thread, or by a server that
/// ends before its task does. The task's end waits for it: it must be quick, and must not
/// wait for a task.
pub type OnEnd = Box<dyn FnOnce(&Ended<'_>) + Send>;

/// What is gathered for the end of one task.
pub struct Ending {
    asked: Mutex<Option<Circumstances>>,
    so_far: Mutex<Option<(Exit, Outcome)>>,
    on_end: Mutex<Option<OnEnd>>,
}

impl fmt::Debug for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ending").finish_non_exhaustive()
    }
}

impl Ending {
    /// For a task of which `on_end` is to be told.
    pub fn new(on_end: Option<OnEnd>) -> Ending {
        Ending {
            asked: Mutex::default(),
            so_far: Mutex::default(),
            on_end: Mutex::new(on_end),
        }
    }

    /// Notes how the task is, when it is asked to end for the first time.
    pub fn note(&self, task: &LiveTask) {
        if self.asked.lock().is_some() {
            return;
        }
        let now = Instant::now();
        let started = task.facts.started.mono;
        let (last_output, waiting) = {
            let state = task.state();
            (state.last_output, state.waiting.clone())
        };
        *self.asked.lock() = Some(Circumstances {
            elapsed: now.saturating_duration_since(started),
            silent_for: now.saturating_duration_since(last_output.unwrap_or(started)),
            waiting,
        });
    }

    /// Notes what the end comes to if the worker learns nothing more.
    pub fn foresee(&self, so_far: (Exit, Outcome)) {
        *self.so_far.lock() = Some(so_far);
    }

    /// Tells of the end, unless somebody has or does; whether it was told here.
    pub fn tell(&self, facts: &Facts, end: &End, output: &Spool, output_end: Position) -> bool {
        let Some(on_end) = self.on_end.lock().take() else {
            return false;
        };
        let asked = self.asked.lock().clone();
        let ended = Ended {
            facts,
            end,
            output,
            output_end,
            asked: asked.as_ref(),
        };
        // A task that cannot be learned from ends all the same.
        let told = catch_unwind(AssertUnwindSafe(|| on_end(&ended)));
        if told.is_err() {
            tracing::error!("task {}: its end was not taken in", facts.id);
        }
        true
    }

    /// Tells of a task that has not ended in time with the server: its program hangs in the
    /// kernel, belongs to another user, or the machine is busy. Whether it was told here.
    pub fn tell_now(&self, task: &LiveTask, output: &Spool) -> bool {
        let facts = &task.facts;
        // A worker that has not come to note anything was to interrupt it.
        let unknown = (Exit::Signal(Signal::Kill.number()), Outcome::Interrupted);
        let (exit, outcome) = self.so_far.lock().unwrap_or(unknown);
        let end = End {
            exit,
            outcome,
            duration: Instant::now().saturating_duration_since(facts.started.mono),
            pipestatus: Vec::new(),
            moved_to: None,
        };
        let output_end = task.state().output_end;
        let told = self.tell(facts, &end, output, output_end);
        if told {
            // Calls that wait for it are answered.
            task.report(|state| {
                state.ended.get_or_insert(end);
            });
        }
        told
    }
}
