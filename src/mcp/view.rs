//! A task at one moment, as far as results tell of it.

use std::time::{Duration, Instant};

use super::progress::Standing;
pub use super::times::{millis, seconds};
use crate::progress::condition::{Condition, Evidence};
use crate::progress::waiting::Waiting;
use crate::task::live::{End, Leftover, LiveTask};
use crate::task::terminal::Terminal;

/// A task at one moment, as far as results tell of it.
#[derive(Debug, Clone)]
pub struct View {
    pub(super) ended: Option<End>,
    pub(super) leftovers: Vec<Leftover>,
    pub(super) elapsed: Duration,
    pub(super) silent_for: Duration,
    pub(super) idle_polls: u32,
    pub(super) total_lines: u64,
    pub(super) total_bytes: u64,
    pub(super) unshown: u64,
    pub(super) queued_input: usize,
    pub(super) input_closed: bool,
    pub(super) waiting: Option<Waiting>,
    pub(super) conditions: Vec<Condition>,
    pub(super) evidence: Evidence,
    pub(super) standing: Option<Standing>,
}

impl View {
    /// The task now.
    pub fn of(task: &LiveTask) -> View {
        let now = Instant::now();
        // The last line of a full screen asks nothing: it is a frame, a menu, a status.
        let tells_prompt = !task.terminal().is_some_and(Terminal::is_full_screen);
        let state = task.state();
        let started = task.facts.started.mono;
        let unfinished = u64::from(state.output_end.offset > state.line_start.offset);
        View {
            ended: state.ended.clone(),
            leftovers: state.leftovers.clone(),
            elapsed: now.duration_since(started),
            silent_for: now.duration_since(state.last_output.unwrap_or(started)),
            idle_polls: state.idle_polls,
            total_lines: state.output_end.line.saturating_sub(1) + unfinished,
            total_bytes: state.output_end.offset,
            unshown: state.unshown(),
            queued_input: state.queued_input,
            input_closed: state.input_closed,
            waiting: state.waiting.clone().map(|waiting| Waiting {
                prompt: if tells_prompt {
                    waiting.prompt
                } else {
                    String::new()
                },
                ..waiting
            }),
            conditions: state.conditions.clone(),
            evidence: state.evidence,
            standing: Standing::of(&state, now),
        }
    }

    /// Bytes of output that no result has shown.
    pub fn unshown(&self) -> u64 {
        self.unshown
    }

    /// Processes that outlived its shell.
    pub fn leftovers(&self) -> &[Leftover] {
        &self.leftovers
    }

    /// How it ended, if it has.
    pub fn end(&self) -> Option<&End> {
        self.ended.as_ref()
    }

    /// States of its processes that are worth knowing.
    pub fn conditions(&self) -> &[Condition] {
        &self.conditions
    }

    /// Whether its shell runs.
    pub fn running(&self) -> bool {
        self.ended.is_none()
    }
}
