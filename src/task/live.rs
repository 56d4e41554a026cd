//! A task as its watchers see it: its state behind one mutex, the condvar that tells of
//! changes, the cursor of what has been shown, and the listen window.
//!
//! The worker is the only one that reports; requests wait, take what is new and send
//! orders. Nothing is read from disk and nothing is matched while the lock is held.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

pub use super::cancel::Cancel;
use super::cancel::Watched;
use super::state::Outcome;
use super::tail::Tail;
use super::terminal::Terminal;
use crate::base::clock::Now;
use crate::base::sync::{Guard, Monitor};
use crate::process::pty::TerminalSize;
use crate::process::signals::Exit;
use crate::progress::condition::{Condition, Evidence};
use crate::progress::findings::Findings;
use crate::progress::tracker::{BlockedOn, Deeds, Status, Tracker};
use crate::progress::waiting::Waiting;
use crate::text::lines::{Place, Position};

/// What input a task takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Input {
    /// None: stdin is `/dev/null`.
    None,
    /// A pipe that is kept open.
    Pipe,
    /// A terminal.
    Terminal,
}

/// What does not change in a task's life.
#[derive(Debug, Clone)]
pub struct Facts {
    /// 8 lower-case hex digits.
    pub id: String,
    /// As the caller wrote it.
    pub command: String,
    /// What the caller says it is for.
    pub description: Option<String>,
    /// The session that it is a part of, if it is none of its own.
    pub part_of: Option<String>,
    /// Where it started.
    pub directory: PathBuf,
    /// When it started.
    pub started: Now,
    /// After how long it is ended.
    pub timeout: Option<Duration>,
    /// How far that moves while it gets on; `None`: not at all.
    pub timeout_most: Option<Duration>,
    /// Whether it takes input.
    pub input: Input,
    /// The shell's pid.
    pub pid: i32,
    /// What is worth saying about the shell that ran it, such as a fallback.
    pub shell_note: Option<String>,
}

/// A process that outlived its shell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leftover {
    /// Its pid.
    pub pid: i32,
    /// Its name.
    pub name: String,
}

/// What looks at a task's processes have made certain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Who waits for input.
    pub waiting: Option<Waiting>,
    /// Whether the next look is to confirm what this one has found.
    pub unconfirmed: bool,
    /// States worth knowing.
    pub conditions: Vec<Condition>,
    /// How much could be seen.
    pub evidence: Evidence,
}

/// How a task ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct End {
    /// How its shell ended.
    pub exit: Exit,
    /// What that amounts to.
    pub outcome: Outcome,
    /// From the start to the shell's end.
    pub duration: Duration,
    /// The statuses of the last pipeline, when they say more than the exit code.
    pub pipestatus: Vec<i32>,
    /// Where the shell was at its end, if it told and it is not where it started.
    pub moved_to: Option<PathBuf>,
}

/// What changes in a task's life.
#[derive(Debug, Default)]
pub struct State {
    /// `None` while the shell runs.
    pub ended: Option<End>,
    /// The end of the output so far.
    pub output_end: Position,
    /// The start of the line at the output's end.
    pub line_start: Position,
    /// Bytes at the output's end that are the beginning of a character.
    pub unfinished: u64,
    /// The width of the task's terminal, if it has one.
    pub columns: Option<u16>,
    /// When output last came.
    pub last_output: Option<Instant>,
    /// Its stderr, where that is kept apart.
    pub errors: Tail,
    /// How often it was looked at whether it gets on.
    pub looks: u64,
    /// Processes that outlive the shell.
    pub leftovers: Vec<Leftover>,
    /// The worker is done: no output and no change will come.
    pub closed: bool,
    /// Bytes of input that wait for the program to read them.
    pub queued_input: usize,
    /// Sizes that its terminal is to get and has not got yet.
    pub queued_sizes: usize,
    /// Bytes that the terminal has dropped of lines that are too long for it, and that no
    /// result has told of.
    pub dropped_input: usize,
    /// A result has told that the program draws a full screen.
    pub screen_told: bool,
    /// Nothing reads the task's input any more, though it runs, or its end is on the way.
    pub input_closed: bool,
    /// How far a reader is that must not miss a byte: the worker reads on only as far as
    /// nothing is dropped before it is taken. `None`: there is no such reader.
    pub taken: Option<u64>,
    /// Who waits for input, and for what, as far as is known.
    pub waiting: Option<Waiting>,
    /// Whether somebody may wait for input, as one look has it that the next is to confirm.
    pub unconfirmed: bool,
    /// States of its processes that are worth knowing, as far as is known.
    pub conditions: Vec<Condition>,
    /// How much of its processes can be seen.
    pub evidence: Evidence,
    /// Whether a result has told that not all can be seen.
    pub evidence_told: bool,
    /// Whether it gets on; `None` before the first look.
    pub progress: Option<Findings>,
    /// How long such a command usually takes at most, where that is known.
    pub usual: Option<Duration>,
    /// How many polls there were.
    pub polls: u64,
    /// How many polls in a row brought nothing.
    pub idle_polls: u32,
    /// Whether a result has told of the end.
    pub end_told: bool,
    /// Calls that are about the task at the moment; the one that starts it counts from
    /// the beginning.
    pub attended_by: usize,
    /// Whether a notice ahead of another task's result has told of the end.
    pub end_noticed: bool,
    cursor: Cursor,
}

#[derive(Debug, Clone, Copy, Default)]
struct Cursor {
    /// Bytes that results have shown.
    shown: u64,
    /// The start of the line that the next byte belongs to.
    line_start: Position,
}

/// See [`State::mark`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Mark {
    /// Bytes of output.
    pub output: u64,
    ended: bool,
    closed: bool,
    leftovers: usize,
    waits: bool,
    conditions: usize,
    /// Between the last two looks.
    deeds: Option<Deeds>,
}

/// Output that no result has shown before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Delta {
    /// The start of its first line, part of which may have been shown.
    pub from: Position,
    /// Where the new bytes begin.
    pub new_from: u64,
    /// Where they end.
    pub to: Place,
}

impl Delta {
    /// How many bytes are new.
    pub fn new_bytes(&self) -> u64 {
        self.to.at.offset.saturating_sub(self.new_from)
    }
}

impl State {
    fn new() -> State {
        let start = Position { offset: 0, line: 1 };
        State {
            output_end: start,
            line_start: start,
            attended_by: 1,
            cursor: Cursor {
                shown: 0,
                line_start: start,
            },
            ..State::default()
        }
    }

    /// Whether the task stands still until somebody acts.
    pub fn stands_still(&self) -> bool {
        self.conditions.iter().any(Condition::holds_up)
    }

    /// How it is, as far as looks have told; `None` before the first.
    pub fn status(&self, now: Instant) -> Option<Status> {
        if self.ended.is_some() {
            return Some(Status::Ended);
        }
        let progress = self.progress.as_ref()?;
        Some(progress.tracker.status_when(now, self.held_up()))
    }

    /// What holds it up, as far as looks at its processes have told.
    pub fn held_up(&self) -> Option<BlockedOn> {
        match (&self.waiting, self.stands_still()) {
            (Some(_), _) => Some(BlockedOn::Input),
            (None, true) => Some(BlockedOn::Stop),
            (None, false) => None,
        }
    }

    /// What differs between two moments between which something came about that is worth
    /// telling.
    pub fn mark(&self) -> Mark {
        let tracker = self.progress.as_ref().map(|progress| &progress.tracker);
        Mark {
            output: self.output_end.offset,
            ended: self.ended.is_some(),
            closed: self.closed,
            leftovers: self.leftovers.len(),
            waits: self.waiting.is_some(),
            conditions: self.conditions.len(),
            deeds: tracker.and_then(Tracker::deeds).copied(),
        }
    }

    /// What was seen of the task's processes counts no longer.
    pub fn forget_found(&mut self) {
        self.waiting = None;
        self.unconfirmed = false;
        self.conditions.clear();
    }

    /// Whether processes of the task live on after its end.
    pub fn lingers(&self) -> bool {
        self.ended.is_some() && !self.closed && !self.leftovers.is_empty()
    }

    /// Bytes that no result has shown yet.
    pub fn unshown(&self) -> u64 {
        self.output_end.offset - self.cursor.shown
    }

    /// How many bytes results have shown.
    pub fn shown(&self) -> u64 {
        self.cursor.shown
    }

    /// The end of what can be shown: the beginning of a character waits for its rest,
    /// as long as that may come.
    pub fn showable_end(&self) -> Place {
        let held_back = if self.closed { 0 } else { self.unfinished };
        let offset = self.output_end.offset.saturating_sub(held_back);
        Place {
            at: Position {
                offset,
                line: self.output_end.line,
            },
            inside_line: offset > self.line_start.offset,
        }
    }

    fn delta(&self) -> Delta {
        Delta {
            from: self.cursor.line_start,
            new_from: self.cursor.shown,
            to: self.showable_end(),
        }
    }
}

/// A task, shared between its worker and those who watch it.
#[derive(Debug)]
pub struct LiveTask {
    /// What does not change.
    pub facts: Facts,
    monitor: Monitor<State>,
    terminal: Option<Terminal>,
}

impl Watched for LiveTask {
    fn wake_watchers(&self) {
        // Under the lock: a watcher that has looked and does not wait yet would miss it.
        drop(self.monitor.lock());
        self.monitor.notify_all();
    }
}

impl LiveTask {
    /// A task that has just been started.
    pub fn new(facts: Facts) -> LiveTask {
        LiveTask {
            facts,
            monitor: Monitor::new(State::new()),
            terminal: None,
        }
    }

    /// The same with an emulated terminal of this size.
    #[must_use]
    pub fn with_terminal(self, size: TerminalSize) -> LiveTask {
        LiveTask {
            terminal: Some(Terminal::new(size)),
            ..self
        }
    }

    /// Its emulated terminal; `None` in pipe mode and where a person's own terminal draws.
    pub fn terminal(&self) -> Option<&Terminal> {
        self.terminal.as_ref()
    }

    /// Its state, locked: for looking at, briefly.
    pub fn state(&self) -> Guard<'_, State> {
        self.monitor.lock()
    }

    /// Changes the state and wakes all watchers. The worker's way to report.
    pub fn report<R>(&self, change: impl FnOnce(&mut State) -> R) -> R {
        let result = change(&mut self.monitor.lock());
        self.monitor.notify_all();
        result
    }

    /// Reports what was found. While input or a size of the terminal is on its way to the
    /// task, who waited before counts no longer. The answer is whether it is something else
    /// than before.
    pub fn report_found(&self, found: Found) -> bool {
        let changed = {
            let mut state = self.monitor.lock();
            let answered = state.queued_input > 0 || state.queued_sizes > 0;
            let waiting = found.waiting.filter(|_| !answered);
            let changed = state.waiting != waiting
                || state.unconfirmed != found.unconfirmed
                || state.conditions != found.conditions;
            state.waiting = waiting;
            state.unconfirmed = found.unconfirmed;
            state.conditions = found.conditions;
            state.evidence = found.evidence;
            changed
        };
        if changed {
            self.monitor.notify_all();
        }
        changed
    }

    /// Waits until `look` gives an answer, the call is cancelled or the limit is
    /// reached; `None` in the latter two cases.
    pub fn wait_for<R>(
        self: &Arc<Self>,
        limit: Option<Instant>,
        cancel: &Cancel,
        mut look: impl FnMut(&State) -> Look<R>,
        now: impl Fn() -> Instant,
    ) -> Option<R> {
        let watched: Arc<dyn Watched> = Arc::clone(self) as Arc<dyn Watched>;
        cancel.watch(&watched);
        let mut state = self.monitor.lock();
        loop {
            let again = match look(&state) {
                Look::Found(result) => return Some(result),
                Look::WaitUntil(again) => again,
            };
            if cancel.is_cancelled() || limit.is_some_and(|limit| now() >= limit) {
                return None;
            }
            let deadline = match (limit, again) {
                (Some(limit), Some(again)) => Some(limit.min(again)),
                (limit, again) => limit.or(again),
            };
            state = self.monitor.wait(state, deadline);
        }
    }

    /// What no result has shown, without taking it.
    pub fn peek_delta(&self) -> Delta {
        self.state().delta()
    }

    /// Takes what no result has shown: the next delta begins after it. An end counts as
    /// told by this.
    pub fn take_delta(&self) -> Delta {
        let mut state = self.state();
        let delta = state.delta();
        state.cursor = Cursor {
            shown: delta.to.at.offset,
            line_start: state.line_start,
        };
        if delta.new_bytes() > 0 {
            state.idle_polls = 0;
        }
        if state.ended.is_some() {
            state.end_told = true;
        }
        delta
    }

    /// Notes that a result has told of the end, if there is one.
    pub fn tell_end(&self) {
        let mut state = self.state();
        state.end_told |= state.ended.is_some();
    }

    /// Counts a poll that brought output or not; a long one counts as several.
    pub fn count_poll(&self, brought_output: bool, as_idle: u32) {
        let mut state = self.state();
        state.polls += 1;
        if brought_output {
            state.idle_polls = 0;
        } else {
            state.idle_polls = state.idle_polls.saturating_add(as_idle);
        }
    }
}

/// What one look at the state brought.
#[derive(Debug)]
pub enum Look<R> {
    /// What was waited for.
    Found(R),
    /// Not yet: look again at the next change, or at this time.
    WaitUntil(Option<Instant>),
}
