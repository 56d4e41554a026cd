//! What the judgement of a tracker becomes as time passes while nobody looks again: for
//! whoever reads it later, or in another process.
//!
//! Pure. The times are of any kind that can be compared: a process's own clock, or Unix
//! seconds where another process reads them.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What holds a task up, where the evidence says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum BlockedOn {
    /// It waits for input.
    Input,
    /// It has connections and does nothing but wait for them.
    Network,
    /// It was stopped by a signal.
    Stop,
}

/// How a task is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// It is over.
    Ended,
    /// It waits for something that it cannot bring about.
    Blocked(BlockedOn),
    /// It lives and does not get on.
    Stuck,
    /// It gives no sign of life.
    Silent,
    /// It gets on.
    Progressing,
    /// It lives, and has not yet taken too long for what it does.
    Slow,
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Status::Ended => "ended",
            Status::Blocked(_) => "blocked",
            Status::Stuck => "stuck",
            Status::Silent => "silent",
            Status::Progressing => "progressing",
            Status::Slow => "slow",
        })
    }
}

/// A running task's judgement for all times from its last look on.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Outlook<T> {
    /// What holds it up.
    pub blocked: Option<BlockedOn>,
    /// It is alive before this.
    pub alive_until: T,
    /// There was something new lately, before this.
    pub novel_until: Option<T>,
    /// From then on it is stuck, as long as it is alive.
    pub stuck_from: Option<T>,
}

impl<T: PartialOrd + Copy> Outlook<T> {
    /// Whether it lives.
    pub fn alive(&self, now: T) -> bool {
        now < self.alive_until
    }

    /// Whether it lives and does not get on.
    pub fn stuck(&self, now: T) -> bool {
        self.alive(now) && self.stuck_from.is_some_and(|from| now >= from)
    }

    /// How it is.
    pub fn status(&self, now: T) -> Status {
        if let Some(on) = self.blocked {
            Status::Blocked(on)
        } else if self.stuck(now) {
            Status::Stuck
        } else if !self.alive(now) {
            Status::Silent
        } else if self.novel_until.is_some_and(|until| now < until) {
            Status::Progressing
        } else {
            Status::Slow
        }
    }

    /// The same on another clock.
    pub fn on_clock<U>(self, convert: impl Fn(T) -> U) -> Outlook<U> {
        Outlook {
            blocked: self.blocked,
            alive_until: convert(self.alive_until),
            novel_until: self.novel_until.map(&convert),
            stuck_from: self.stuck_from.map(&convert),
        }
    }
}
