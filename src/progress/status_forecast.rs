//! Predicts how a tracker's verdict changes until the next probe, for later readers and other
//! processes.
//!
//! Pure. Times may be of any comparable type: a process's own clock, or Unix seconds for other
//! processes.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::tree_state::TreeStateKind;

/// What a task waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum BlockedOn {
    Input,
    /// The other end of a connection or pipe.
    Network,
    /// A signal stopped it.
    Stop,
    Lock,
}

/// The status of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    Ended,
    /// It waits for something outside its control.
    Blocked(BlockedOn),
    /// It is alive and makes no progress.
    Stuck,
    /// It gives no sign of life.
    Silent,
    /// It makes progress.
    Progressing,
    /// It works or gives signs of life, but has done nothing new recently.
    Slow,
    /// It waits by design for a time, a request or a change.
    Idle,
}

impl Status {
    /// Whether a deadline that progress extends is extended, because no problem is known.
    pub fn extends_deadline(self) -> bool {
        match self {
            Status::Progressing
            | Status::Slow
            | Status::Idle
            | Status::Blocked(BlockedOn::Network | BlockedOn::Lock) => true,
            Status::Ended
            | Status::Stuck
            | Status::Silent
            | Status::Blocked(BlockedOn::Input | BlockedOn::Stop) => false,
        }
    }
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
            Status::Idle => "idle",
        })
    }
}

/// A running task's verdict for all times until its next probe.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct StatusForecast<T> {
    /// What it waits for.
    pub blocked: Option<BlockedOn>,
    /// It counts as alive until then.
    pub alive_until: T,
    /// Until then, it counts as having recently done something new.
    pub novel_until: Option<T>,
    /// From then on it counts as stuck while it is alive.
    pub stuck_from: Option<T>,
    /// What its processes did at the last probe; `None` if unobservable.
    #[serde(default)]
    pub tree_state: Option<TreeStateKind>,
    /// Whether the last probe found no output, no I/O and no process that began or ended.
    #[serde(default)]
    pub quiet: bool,
}

impl<T: PartialOrd + Copy> StatusForecast<T> {
    pub fn alive(&self, now: T) -> bool {
        now < self.alive_until
    }

    /// Whether its processes wait for each other; if they cannot be observed, whether it repeats
    /// itself.
    pub fn stuck(&self, now: T) -> bool {
        match self.tree_state {
            Some(TreeStateKind::Deadlock) => true,
            // Of an agent's program, which is counted although it can be observed.
            Some(TreeStateKind::Computing | TreeStateKind::Screen | TreeStateKind::Idle) => false,
            _ => self.alive(now) && self.stuck_from.is_some_and(|from| now >= from),
        }
    }

    pub fn status(&self, now: T) -> Status {
        let novel = self.novel_until.is_some_and(|until| now < until);
        if let Some(on) = self.blocked {
            return Status::Blocked(on);
        }
        if self.stuck(now) {
            return Status::Stuck;
        }
        // The attempts to take a lock read and print.
        let is_certain =
            self.tree_state == Some(TreeStateKind::NamedLock) || self.quiet && self.is_certain();
        if novel && !is_certain {
            return Status::Progressing;
        }
        match self.tree_state {
            Some(TreeStateKind::Peer) => Status::Blocked(BlockedOn::Network),
            Some(TreeStateKind::Lock | TreeStateKind::NamedLock) => {
                Status::Blocked(BlockedOn::Lock)
            }
            Some(TreeStateKind::Timer | TreeStateKind::Idle | TreeStateKind::Screen) => {
                Status::Idle
            }
            Some(TreeStateKind::Computing) => Status::Slow,
            _ if self.alive(now) => Status::Slow,
            _ => Status::Silent,
        }
    }

    /// Whether what the processes do outranks recent novelty. A timer does not: a program that
    /// sleeps between its steps makes progress.
    fn is_certain(&self) -> bool {
        matches!(
            self.tree_state,
            Some(
                TreeStateKind::Peer
                    | TreeStateKind::Lock
                    | TreeStateKind::Idle
                    | TreeStateKind::Screen
            )
        )
    }

    /// Converts the times to another clock.
    pub fn on_clock<U>(self, convert: impl Fn(T) -> U) -> StatusForecast<U> {
        StatusForecast {
            blocked: self.blocked,
            alive_until: convert(self.alive_until),
            novel_until: self.novel_until.map(&convert),
            stuck_from: self.stuck_from.map(&convert),
            tree_state: self.tree_state,
            quiet: self.quiet,
        }
    }
}
