//! A task's end, told to whoever learns from it before anybody else knows of it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use super::live::{End, Facts, LiveTask};
use super::spool::{Spool, SpoolWriter};
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

/// Called once on the worker's thread when a task is over and nobody knows of it yet, so
/// that whoever is told of the end can rely on what was learned from it. The task's end
/// waits for it: it must be quick, and must not wait for a task.
pub type OnEnd = Box<dyn FnOnce(&Ended<'_>) + Send>;

/// What is gathered for the end of one task.
#[derive(Default)]
pub(super) struct Ending {
    asked: Option<Circumstances>,
    on_end: Option<OnEnd>,
}

impl Ending {
    /// For a task of which `on_end` is to be told.
    pub fn new(on_end: Option<OnEnd>) -> Ending {
        Ending {
            asked: None,
            on_end,
        }
    }

    /// Notes how the task is, when it is asked to end for the first time.
    pub fn note(&mut self, task: &LiveTask) {
        if self.asked.is_some() {
            return;
        }
        let now = Instant::now();
        let started = task.facts.started.mono;
        let (last_output, waiting) = {
            let state = task.state();
            (state.last_output, state.waiting.clone())
        };
        self.asked = Some(Circumstances {
            elapsed: now.saturating_duration_since(started),
            silent_for: now.saturating_duration_since(last_output.unwrap_or(started)),
            waiting,
        });
    }

    /// Tells of the end.
    pub fn tell(&mut self, facts: &Facts, end: &End, output: &SpoolWriter) {
        let Some(on_end) = self.on_end.take() else {
            return;
        };
        let ended = Ended {
            facts,
            end,
            output: &output.reader(),
            output_end: output.end(),
            asked: self.asked.as_ref(),
        };
        // A task that cannot be learned from ends all the same.
        let told = catch_unwind(AssertUnwindSafe(|| on_end(&ended)));
        if told.is_err() {
            tracing::error!("task {}: its end was not taken in", facts.id);
        }
    }
}
