//! Waiting for what a caller wants to see of a task: new output (the listen window), its
//! end, or a line that matches.

use std::io;
use std::time::{Duration, Instant};

use regex::Regex;

use super::live::{Cancel, Look, State};
use super::reading::{Match, PatternWatch};
use super::registry::TaskHandle;

/// After the first new output, so long more is waited for, so that a line does not
/// arrive in halves.
pub const SETTLE: Duration = Duration::from_millis(30);

/// A reply to input is over when output has been silent for so long.
pub const REPLY_SILENCE: Duration = Duration::from_millis(80);

/// A reply waits so much longer for the look that is to confirm that the task waits for
/// input again: without it the caller would have to ask for what it wants to know most.
pub const CONFIRMATION: Duration = Duration::from_millis(150);

/// What a caller waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Goal {
    /// Output that no result has shown, or the end.
    Output,
    /// The end, through all output.
    End,
    /// Output after so many bytes, and then silence.
    Reply {
        /// The end of the output before the input was sent.
        after: u64,
    },
}

/// Why the waiting ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stopped {
    /// New output came, or had come before.
    Output,
    /// The task has ended.
    Ended,
    /// A line matched.
    Matched(Match),
    /// The task waits for input.
    WaitsForInput,
    /// A signal has stopped the task.
    StandsStill,
    /// The time is over.
    Limit,
    /// The call was cancelled.
    Cancelled,
}

/// Something to be done from time to time while waiting.
pub struct Tick<'a> {
    /// How often at most.
    pub every: Duration,
    /// What.
    pub call: &'a mut dyn FnMut(&TaskHandle),
}

/// One wait.
pub struct Watch<'a> {
    /// For what.
    pub goal: Goal,
    /// A line that matches ends it; output alone does not then.
    pub pattern: Option<&'a Regex>,
    /// How long at most.
    pub limit: Instant,
    /// Ends it early.
    pub cancel: &'a Cancel,
    /// Done meanwhile.
    pub tick: Option<Tick<'a>>,
}

/// What one wait on the condvar brought.
enum Woken {
    Ended,
    WaitsForInput,
    StandsStill,
    Output,
    MoreToMatch,
}

impl Watch<'_> {
    /// Waits.
    ///
    /// # Errors
    /// When the output cannot be searched for the pattern.
    pub fn run(mut self, task: &TaskHandle) -> io::Result<Stopped> {
        let (shown, told, columns) = {
            let state = task.live.state();
            let shown = match self.goal {
                Goal::Reply { after } => after,
                Goal::Output | Goal::End => state.shown(),
            };
            (shown, state.end_told, state.columns)
        };
        let mut pattern = self
            .pattern
            .map(|pattern| PatternWatch::new(pattern, &task.live.peek_delta(), columns));
        let mut settled_at = None;
        let mut next_tick = self.tick.as_ref().map(|tick| Instant::now() + tick.every);
        loop {
            let end = task.live.state().output_end;
            if let Some(pattern) = &mut pattern
                && let Some(found) = pattern.look(&task.spool, end)?
            {
                return Ok(Stopped::Matched(found));
            }
            let searched = pattern.as_ref().map(PatternWatch::seen);
            let goal = if searched.is_some() {
                Goal::End
            } else {
                self.goal
            };
            let slice = next_tick.map_or(self.limit, |tick| tick.min(self.limit));
            let woken = task.live.wait_for(
                Some(slice),
                self.cancel,
                |state| {
                    if searched.is_some_and(|searched| state.output_end.offset > searched) {
                        return Look::Found(Woken::MoreToMatch);
                    }
                    let ended =
                        state.closed || (state.ended.is_some() && !told && searched.is_none());
                    if ended {
                        return Look::Found(Woken::Ended);
                    }
                    if state.waiting.is_some() {
                        return Look::Found(Woken::WaitsForInput);
                    }
                    if state.stands_still() {
                        return Look::Found(Woken::StandsStill);
                    }
                    match goal {
                        Goal::End => Look::WaitUntil(None),
                        Goal::Output => heard(state, shown, &mut settled_at),
                        Goal::Reply { after } => replied(state, after),
                    }
                },
                Instant::now,
            );
            match woken {
                Some(Woken::Ended) => return Ok(Stopped::Ended),
                Some(Woken::WaitsForInput) => return Ok(Stopped::WaitsForInput),
                Some(Woken::StandsStill) => return Ok(Stopped::StandsStill),
                Some(Woken::Output) => return Ok(Stopped::Output),
                Some(Woken::MoreToMatch) if Instant::now() < self.limit => {}
                Some(Woken::MoreToMatch) | None => {
                    if self.cancel.is_cancelled() {
                        return Ok(Stopped::Cancelled);
                    }
                    if Instant::now() >= self.limit {
                        let brought =
                            goal != Goal::End && task.live.state().showable_end().at.offset > shown;
                        return Ok(if brought {
                            Stopped::Output
                        } else {
                            Stopped::Limit
                        });
                    }
                }
            }
            if self.cancel.is_cancelled() {
                return Ok(Stopped::Cancelled);
            }
            if let (Some(tick), Some(due)) = (&mut self.tick, next_tick)
                && Instant::now() >= due
            {
                (tick.call)(task);
                next_tick = Some(Instant::now() + tick.every);
            }
        }
    }
}

/// The listen window: output that had not been shown when the wait began, settled.
fn heard(state: &State, shown: u64, settled_at: &mut Option<Instant>) -> Look<Woken> {
    if state.showable_end().at.offset <= shown {
        return Look::WaitUntil(None);
    }
    let newest = state.last_output.unwrap_or_else(Instant::now);
    let settled = *settled_at.get_or_insert(newest + SETTLE);
    if Instant::now() >= settled {
        Look::Found(Woken::Output)
    } else {
        Look::WaitUntil(Some(settled))
    }
}

/// Output has come and fallen silent.
fn replied(state: &State, before: u64) -> Look<Woken> {
    if state.showable_end().at.offset <= before {
        return Look::WaitUntil(None);
    }
    let mut silent_at = state.last_output.unwrap_or_else(Instant::now) + REPLY_SILENCE;
    if state.unconfirmed {
        silent_at += CONFIRMATION;
    }
    if Instant::now() >= silent_at {
        Look::Found(Woken::Output)
    } else {
        Look::WaitUntil(Some(silent_at))
    }
}
