//! A task as its server's directory tells of it: what it is, how it is, and where its
//! output lies, for other processes and for whoever lists tasks in this one.
//!
//! Text of the caller's is redacted. Times are Unix seconds. How a running task is becomes
//! another thing as time passes: [`Entry::status`] says it for the time of reading. Limits:
//! output is not in it.

use std::path::PathBuf;
use std::time::Instant;

use serde::{Deserialize, Serialize};

use super::live::{Facts, Input, LiveTask, State};
use super::spool::Spool;
use super::state::Outcome;
use crate::progress::condition::Condition;
use crate::progress::outlook::{BlockedOn, Outlook, Status};
use crate::progress::tracker::{ChangeKind, Deeds};
use crate::progress::waiting::{Reader, Waiting};
use crate::text::redact::Redactor;

/// A task as the state directory tells of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// 8 lower-case hex digits.
    pub id: String,
    /// The command line, secrets redacted.
    pub command: String,
    /// What it is for, if the caller said so.
    pub description: Option<String>,
    /// The agent run or other session that it is a part of, if it is none of its own.
    #[serde(default)]
    pub part_of: Option<String>,
    /// Where it started.
    pub directory: String,
    /// The shell's pid.
    pub pid: i32,
    /// Unix seconds.
    pub started: f64,
    /// Whether it has a terminal.
    pub pty: bool,
    /// `None` while it runs.
    pub outcome: Option<RecordedOutcome>,
    /// The exit code, once it has ended.
    pub exit_code: Option<i32>,
    /// The command's own time in milliseconds, once it has ended.
    pub duration_ms: Option<u64>,
    /// Processes that live on after its end.
    pub leftovers: Vec<i32>,
    /// The files that hold its output.
    pub output: Vec<PathBuf>,
    /// Where the output of each of them begins, by the file's number: those before it may
    /// be gone.
    #[serde(default)]
    pub segments: Vec<(u64, u64)>,
    /// The width of its terminal.
    #[serde(default)]
    pub columns: Option<u16>,
    /// When output last came.
    #[serde(default)]
    pub last_output: Option<f64>,
    /// Who waits for input, the prompt redacted.
    #[serde(default)]
    pub waiting: Option<Waiting>,
    /// States of its processes that are worth knowing.
    #[serde(default)]
    pub conditions: Vec<Condition>,
    /// Whether it gets on; `None` before the first look.
    #[serde(default)]
    pub progress: Option<Progress>,
}

/// What looks at a task have found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// Signs of life in all.
    pub heartbeats: u64,
    /// State changes in all.
    pub state_changes: u64,
    /// The newest state change, and when it was.
    pub last_change: Option<(ChangeKind, f64)>,
    /// The judgement, as time passes.
    pub outlook: Outlook<f64>,
    /// What it did between the last two looks.
    pub deeds: Deeds,
    /// Who waits for the network.
    pub peer: Option<Reader>,
    /// Not all that its processes read and write can be seen.
    pub degraded: bool,
}

/// An [`Outcome`] in the words of the state directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
#[allow(missing_docs)]
pub enum RecordedOutcome {
    Success,
    Failure,
    Timeout,
    Killed,
    Interrupted,
}

impl From<Outcome> for RecordedOutcome {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Success => RecordedOutcome::Success,
            Outcome::Failure => RecordedOutcome::Failure,
            Outcome::Timeout => RecordedOutcome::Timeout,
            Outcome::Killed => RecordedOutcome::Killed,
            Outcome::Interrupted => RecordedOutcome::Interrupted,
        }
    }
}

impl Entry {
    /// A task of this process, as it is now.
    pub fn of(task: &LiveTask, spool: &Spool, redactor: &Redactor) -> Entry {
        let facts = &task.facts;
        let redact = |text: &str| redactor.redact(text).into_owned();
        let (output, segments) = (spool.files(), spool.starts());
        let command = redact(&facts.command);
        let description = facts.description.as_deref().map(redact);
        let seen = Seen::of(&task.state(), facts);
        Entry {
            id: facts.id.clone(),
            command,
            description,
            part_of: facts.part_of.clone(),
            directory: facts.directory.display().to_string(),
            pid: facts.pid,
            started: facts.started.unix_seconds(),
            pty: facts.input == Input::Terminal,
            outcome: seen.outcome.map(RecordedOutcome::from),
            exit_code: seen.exit_code,
            duration_ms: seen.duration_ms,
            leftovers: seen.leftovers,
            output,
            segments,
            columns: seen.columns,
            last_output: seen.last_output,
            waiting: seen.waiting.map(|waiting| Waiting {
                prompt: redact(&waiting.prompt),
                ..waiting
            }),
            conditions: seen.conditions,
            progress: seen.progress,
        }
    }

    /// Whether the task has ended, and all that it left.
    pub fn is_over(&self) -> bool {
        self.outcome.is_some() && self.leftovers.is_empty()
    }

    /// How it is at this time (Unix seconds); `None`: it runs, and nobody has looked yet.
    pub fn status(&self, now: f64) -> Option<Status> {
        let held_up = match (&self.waiting, &self.progress) {
            _ if self.outcome.is_some() => return Some(Status::Ended),
            (_, Some(progress)) => return Some(progress.outlook.status(now)),
            (Some(_), None) => BlockedOn::Input,
            (None, None) if self.conditions.iter().any(Condition::holds_up) => BlockedOn::Stop,
            (None, None) => return None,
        };
        Some(Status::Blocked(held_up))
    }

    /// Whether it runs and lives. Before the first look it has just begun.
    pub fn alive(&self, now: f64) -> bool {
        let lives = |progress: &Progress| progress.outlook.alive(now);
        self.outcome.is_none() && self.progress.as_ref().is_none_or(lives)
    }

    /// Whether it lives and does not get on.
    pub fn stuck(&self, now: f64) -> bool {
        let stuck = |progress: &Progress| progress.outlook.stuck(now);
        self.outcome.is_none() && self.progress.as_ref().is_some_and(stuck)
    }
}

/// What is taken under the task's lock.
struct Seen {
    outcome: Option<Outcome>,
    exit_code: Option<i32>,
    duration_ms: Option<u64>,
    leftovers: Vec<i32>,
    columns: Option<u16>,
    last_output: Option<f64>,
    waiting: Option<Waiting>,
    conditions: Vec<Condition>,
    progress: Option<Progress>,
}

impl Seen {
    fn of(state: &State, facts: &Facts) -> Seen {
        let end = state.ended.as_ref();
        let unix = |at: Instant| unix_seconds(facts, at);
        Seen {
            outcome: end.map(|end| end.outcome),
            exit_code: end.map(|end| end.exit.code()),
            duration_ms: end.map(|end| u64::try_from(end.duration.as_millis()).unwrap_or(u64::MAX)),
            leftovers: state.leftovers.iter().map(|left| left.pid).collect(),
            columns: state.columns,
            last_output: state.last_output.map(unix),
            waiting: state.waiting.clone(),
            conditions: state.conditions.clone(),
            progress: progress(state, facts),
        }
    }
}

fn progress(state: &State, facts: &Facts) -> Option<Progress> {
    let found = state.progress.as_ref()?;
    let held_up: Option<BlockedOn> = state.held_up();
    let unix = |at: Instant| unix_seconds(facts, at);
    Some(Progress {
        heartbeats: found.tracker.heartbeat_count(),
        state_changes: found.tracker.change_count(),
        last_change: found
            .tracker
            .last_change()
            .map(|change| (change.kind, unix(change.at))),
        outlook: found.tracker.outlook(held_up).on_clock(unix),
        deeds: *found.tracker.deeds()?,
        peer: found.peer.clone().map(|(pid, name)| Reader { pid, name }),
        degraded: found.degraded,
    })
}

/// A time of this process's clock on the wall, by the task's start.
fn unix_seconds(facts: &Facts, at: Instant) -> f64 {
    let since_start = at.saturating_duration_since(facts.started.mono);
    facts.started.unix_seconds() + since_start.as_secs_f64()
}
