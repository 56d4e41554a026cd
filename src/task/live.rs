//! A task as its watchers see it: its state behind one mutex, the condvar that signals
//! changes, and the cursor of what has been shown.
//!
//! The worker reports what happens. Requests wait, take what is new, record the input that they
//! send, and send commands. At shutdown the server reports an overdue end in the worker's place. No
//! file is read and no pattern matched under the lock.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize, Serializer};

use super::events::{EventKind, EventSignal};
use super::request::{AtTimeout, Detached};
use super::stream::{Delta, PerStream, StreamMark, StreamName, StreamState};
use super::terminal::Terminal;
use super::told::{EmptyPolls, ShownMark, Told};
use super::unprotected::Unprotected;
use crate::base::cancel::{Cancel, Wake};
use crate::base::clock::Now;
use crate::base::sync::{CondvarMutex, Guard};
use crate::process::probe::{Identity, ProcessInfo};
use crate::process::pty::TerminalSize;
use crate::process::signals::Exit;
use crate::process::tree;
use crate::progress::condition::{Condition, Visibility};
use crate::progress::cost::{Cost, Usage};
use crate::progress::progress_state::{ProgressState, Verdict};
use crate::progress::tracker::{ActivityDelta, BlockedOn, Repetition, Status, Tracker};
use crate::progress::wait::ProcessName;
use crate::progress::waiting::{Reading, Waiting};
use crate::sandbox::policy::Policy;
use crate::shell::mode::ShellName;
use crate::shell::outcome::Outcome;
use crate::text::lines::LinePosition;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Input {
    /// Callers can send it nothing: stdin is `/dev/null`, or a pipe with the text given at the
    /// start.
    None,
    /// A pipe that stays open.
    Pipe,
    Terminal,
}

/// What is fixed when a task starts. Some of it is of use to its own process only.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Facts {
    /// 8 lower-case hex digits.
    pub id: String,
    /// As the caller wrote it.
    pub command: String,
    /// What it is for, in the caller's words.
    pub description: Option<String>,
    /// The agent run or other session that it belongs to, if any.
    pub part_of: Option<String>,
    /// `None` if it ends with this process.
    pub detached: Option<Box<Detached>>,
    /// The shell that the caller has chosen, if it is not the configured one.
    #[serde(default)]
    pub chosen_shell: Option<ShellName>,
    /// Whether it leaves its directory to the next command of a session.
    #[serde(skip)]
    pub in_session: bool,
    #[serde(serialize_with = "lossy")]
    pub directory: PathBuf,
    pub started: Now,
    /// How long it may run.
    #[serde(skip)]
    pub timeout: Option<Duration>,
    /// What happens then.
    #[serde(skip)]
    pub at_timeout: AtTimeout,
    /// How much memory its processes may occupy together, in bytes.
    #[serde(default)]
    pub memory_max: Option<u64>,
    /// What confines it, if anything does.
    #[serde(default)]
    pub sandbox: Option<Box<Confined>>,
    pub input: Input,
    pub shell: Identity,
    /// Notes on its shell and its environment, such as a fallback.
    #[serde(skip)]
    pub start_notes: Vec<String>,
}

/// The sandbox of a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Confined {
    pub policy: Policy,
    /// What of it is not enforced.
    pub missing: Vec<String>,
    /// What it protects, as it was found at the start.
    #[serde(default)]
    pub protected: Vec<PathBuf>,
    /// What it would protect and was not there at the start.
    pub absent: Vec<PathBuf>,
    /// Sockets, and directories of sockets, of programs outside that it closes.
    #[serde(default)]
    pub closed: Vec<PathBuf>,
}

/// Writes a path whose invalid UTF-8 is replaced, since JSON has no other text.
fn lossy<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&path.to_string_lossy())
}

fn lossy_if_any<S: Serializer>(path: &Option<PathBuf>, serializer: S) -> Result<S::Ok, S::Error> {
    path.as_ref().map(|path| path.to_string_lossy()).serialize(serializer)
}

/// What probes of a task's processes have made certain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Detected {
    /// The process that waits for input.
    pub waiting: Option<Box<Waiting>>,
    /// Whether the next probe is to confirm what this one has found.
    pub unconfirmed: bool,
    pub conditions: Vec<Condition>,
    /// How much was visible.
    pub evidence: Visibility,
    /// Whether its processes have done anything since the probe before. Measured only while a
    /// call is about the task, and from the second probe on; true otherwise.
    pub active: bool,
    /// Whether a process reads the input.
    pub reading: Reading,
    /// Whether the prompt of before the last input is shown again. Looked up only for a program
    /// that never does nothing but read.
    pub prompts: bool,
    /// Whether its processes have used more than a tick of processor time since the probe before,
    /// as far as `active` is measured.
    pub computes: bool,
}

/// The last input of a call, of which the reply is awaited.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SentInput {
    pub at: Instant,
    /// The end of the output before.
    pub after: u64,
    /// The unfinished line before.
    pub prompt: String,
    /// The text that was typed.
    pub typed: String,
}

/// What the last probe saw of the reading of input.
#[derive(Debug, Clone, Copy)]
pub struct InputProbe {
    pub at: Instant,
    pub active: bool,
    pub reading: Reading,
    /// Whether the probe before saw the same of the reading. A process that is on its way to
    /// another program cannot be read for a moment.
    pub again: bool,
    pub prompts: bool,
    pub computes: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {
    /// How its shell ended.
    pub exit: Exit,
    /// Whether that is unknown, since its server ended first.
    pub exit_assumed: bool,
    pub outcome: Outcome,
    /// From the start to the shell's end.
    pub duration: Duration,
    /// The statuses of the last pipeline, if they say more than the exit code.
    pub pipestatus: Vec<i32>,
    /// Where the shell was at its end, if it reported that and it is not where it started.
    #[serde(serialize_with = "lossy_if_any")]
    pub moved_to: Option<PathBuf>,
    /// No process was found that holds the output open, and yet it did not end: the last of it
    /// may be missing.
    pub output_cut: bool,
    /// `None` if its server ended first.
    #[serde(default)]
    pub cost: Option<Cost>,
    /// Whether it was ended since it needed more memory than it may.
    #[serde(default)]
    pub over_memory: Option<OverMemory>,
}

/// More memory than a task may occupy, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct OverMemory {
    pub used: u64,
    pub limit: u64,
}

/// What changes during a task's life. Many ended tasks are kept: what most of them lack is in a box.
#[derive(Debug, Default)]
pub struct LiveState {
    /// `None` while the shell runs.
    pub ended: Option<End>,
    /// What has come of its output.
    pub streams: PerStream<StreamState>,
    /// The width of the task's terminal, if it has one.
    pub columns: Option<u16>,
    /// When the last output came.
    pub last_output: Option<Instant>,
    /// What it has used, as far as probes have found.
    pub usage: Usage,
    /// How often its progress was probed.
    pub progress_probes: u64,
    /// Processes that outlive the shell.
    pub leftovers: Vec<ProcessName>,
    /// Daemons that outlive the shell by rule, as they were last seen.
    pub(super) kept: Vec<ProcessInfo>,
    /// Whether the state is final: the worker will change nothing more.
    pub closed: bool,
    /// Whether its file, if it has one, has been written for the last time.
    pub(super) is_filed: bool,
    /// How many bytes of input wait to be read by the program.
    pub queued_input: usize,
    /// How many changes of the terminal's size are pending.
    pub queued_sizes: usize,
    /// Bytes that the terminal has dropped of lines that are too long for it, and that no
    /// result has reported.
    pub dropped_input: usize,
    /// The people who are attached to it, and may type.
    pub people: Option<Box<People>>,
    /// How often viewers must redraw the screen: at each report of a size, even the same.
    pub redraws: u64,
    /// Whether the task's input is closed, or its end queued.
    pub input_closed: bool,
    /// The process that waits for input, and for what, as far as is known.
    pub waiting: Option<Box<Waiting>>,
    /// Whether the last probe found a wait for input or a condition that the next must confirm.
    pub unconfirmed: bool,
    /// The known conditions of its processes.
    pub conditions: Vec<Condition>,
    /// How much of its processes is visible.
    pub evidence: Visibility,
    /// What the last probe saw of the reading of input.
    pub last_input_probe: Option<InputProbe>,
    /// The last input of a call.
    pub sent: Option<Box<SentInput>>,
    /// Its progress; `None` before the first probe.
    pub progress: Option<Box<ProgressState>>,
    /// Its verdict when it was asked to end.
    pub verdict_at_kill: Option<Box<Verdict>>,
    /// Whether the last probe found it stuck.
    pub is_stuck: bool,
    /// How long such a command usually takes at most, if known.
    pub expected_duration: Option<Duration>,
    /// How many calls are about the task now; the one that starts it counts from the beginning.
    pub active_calls: usize,
    /// How many threads wait for output, among other changes.
    output_watchers: usize,
    /// What results, notices and events have told of it.
    pub told: Told,
}

/// The people who are attached to a task, and may type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct People {
    /// When the first of them came.
    since: Instant,
    /// Each with the size of its own terminal; the task's has the size of the last one.
    sizes: Vec<(u64, TerminalSize)>,
    /// The size before they came; `None` without a terminal.
    size_before: Option<TerminalSize>,
}

impl People {
    /// No people yet, at a terminal of this size.
    pub fn new(size_before: Option<TerminalSize>) -> People {
        People { since: Instant::now(), sizes: Vec::new(), size_before }
    }

    /// Adds a person, or changes the size of one. Returns false if it has that size already.
    pub fn set_size(&mut self, person: u64, size: TerminalSize) -> bool {
        if self.sizes.contains(&(person, size)) {
            return false;
        }
        self.remove(person);
        self.sizes.push((person, size));
        true
    }

    pub fn remove(&mut self, person: u64) {
        self.sizes.retain(|(known, _)| *known != person);
    }

    /// How many people are attached.
    pub fn count(&self) -> usize {
        self.sizes.len()
    }

    /// The size that the task's terminal is to have.
    pub fn size(&self) -> Option<TerminalSize> {
        self.sizes.last().map(|(_, size)| *size).or(self.size_before)
    }

    /// How long people have been attached.
    pub fn attached_for(&self) -> Duration {
        self.since.elapsed()
    }
}

/// See [`LiveState::change_stamp`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ChangeStamp {
    /// Bytes of output, of all streams.
    pub output: u64,
    ended: bool,
    closed: bool,
    leftovers: usize,
    waits: bool,
    conditions: usize,
    /// Between the last two probes.
    activity: Option<ActivityDelta>,
}

impl LiveState {
    fn new() -> LiveState {
        LiveState { active_calls: 1, ..LiveState::default() }
    }

    /// Whether a stopped process holds up the task.
    pub fn is_held_up_by_stop(&self) -> bool {
        self.conditions.iter().any(Condition::holds_up)
    }

    /// Its status by the probes so far; `None` before the first.
    pub fn status(&self, now: Instant) -> Option<Status> {
        if self.ended.is_some() {
            return Some(Status::Ended);
        }
        let progress = self.progress.as_ref()?;
        Some(progress.tracker.forecast(self.held_up()).status(now))
    }

    /// The status and its reason; `None` while there is nothing to judge by.
    pub fn verdict(&self, now: Instant) -> Option<Verdict> {
        let progress = self.progress.as_ref()?;
        let mut verdict = progress.verdict(self.held_up(), now)?;
        if self.ended.is_some() {
            verdict.status = Status::Ended;
        }
        Some(verdict)
    }

    /// Whether it runs past a deadline that its caller has not set.
    pub(crate) fn is_past_unasked_deadline(&self, facts: &Facts, now: Instant) -> bool {
        let elapsed = now.saturating_duration_since(facts.started.mono);
        self.ended.is_none()
            && matches!(facts.at_timeout, AtTimeout::Judge(_))
            && facts.timeout.is_some_and(|timeout| elapsed > timeout)
    }

    /// How it is, if it continues past a deadline that its caller has not set. What is in trouble
    /// ends with the next look at it.
    pub(crate) fn continues_unasked(&self, facts: &Facts, now: Instant) -> Option<Verdict> {
        if !self.is_past_unasked_deadline(facts, now) {
            return None;
        }
        let asks = |status| status == Status::Blocked(BlockedOn::Input);
        self.verdict(now).filter(|it| it.status.extends_deadline() || asks(it.status))
    }

    /// How long no call has been about it, if it runs past a deadline that its caller has not set
    /// and that time is to be told: once after the longest deadline, then after each doubling.
    pub(crate) fn take_unpolled(&mut self, facts: &Facts, now: Instant) -> Option<Duration> {
        let AtTimeout::Judge(most) = facts.at_timeout else { return None };
        let since = self.told.last_call.unwrap_or(facts.started.mono);
        let unpolled = now.saturating_duration_since(since);
        let due = most.checked_mul(2_u32.checked_pow(self.told.unpolled_notices)?)?;
        if !self.is_past_unasked_deadline(facts, now) || self.active_calls > 0 || unpolled < due {
            return None;
        }
        self.told.unpolled_notices += 1;
        Some(unpolled)
    }

    /// What it prints again and again.
    pub fn repetition(&self, now: Instant) -> Option<Repetition> {
        let progress = self.progress.as_ref().filter(|_| self.ended.is_none())?;
        progress.tracker.repetition(now)
    }

    /// Whether it prints the same again and again.
    pub(crate) fn repeats(&self, now: Instant) -> bool {
        let progress = self.progress.as_ref().filter(|_| self.ended.is_none());
        progress.is_some_and(|progress| progress.tracker.repeated_line(now).is_some())
    }

    /// What holds it up, by the probes so far.
    pub fn held_up(&self) -> Option<BlockedOn> {
        match (&self.waiting, self.is_held_up_by_stop()) {
            (Some(_), _) => Some(BlockedOn::Input),
            (None, true) => Some(BlockedOn::Stop),
            (None, false) => None,
        }
    }

    /// A value that changes when something worth reporting has happened.
    pub fn change_stamp(&self) -> ChangeStamp {
        let tracker = self.progress.as_ref().map(|progress| &progress.tracker);
        ChangeStamp {
            output: self.printed(),
            ended: self.ended.is_some(),
            closed: self.closed,
            leftovers: self.leftovers.len(),
            waits: self.waiting.is_some(),
            conditions: self.conditions.len(),
            activity: tracker.and_then(Tracker::delta).copied(),
        }
    }

    /// Discards what the probes have found: the processes have done something since.
    pub fn forget_detected(&mut self) {
        self.told.events.stopped = false;
        self.waiting = None;
        self.unconfirmed = false;
        self.conditions.clear();
    }

    /// Discards what the probes have found: the wait is answered, and the next wait is another one,
    /// even for the same prompt.
    pub fn forget_answered(&mut self) {
        self.forget_detected();
        self.forget_reported();
    }

    /// Whether processes of the task outlive it.
    pub fn lingers(&self) -> bool {
        self.ended.is_some() && !self.closed && !self.leftovers.is_empty()
    }

    /// How many bytes it has printed, on all streams.
    pub fn printed(&self) -> u64 {
        let PerStream { output, errors } = &self.streams;
        output.end.offset + errors.end.offset
    }

    /// How many bytes no result has shown.
    pub fn unshown(&self) -> u64 {
        self.printed() - self.told.bytes()
    }

    /// How many of the bytes can be shown.
    pub fn showable(&self) -> u64 {
        let PerStream { output, errors } = self.streams.map(|it| it.showable_end(self.closed));
        output.at.offset + errors.at.offset
    }

    /// The end of what can be shown of a stream: an incomplete character is held back while the
    /// rest may come.
    pub fn showable_end(&self, name: StreamName) -> LinePosition {
        self.streams.get(name).showable_end(self.closed)
    }

    /// What no result has shown of a stream.
    pub fn delta(&self, name: StreamName) -> Delta {
        let StreamMark { bytes, line } = *self.told.streams.get(name);
        Delta { from: line, new_from: bytes, to: self.showable_end(name) }
    }

    /// What no result has shown.
    pub fn deltas(&self) -> PerStream<Delta> {
        PerStream { output: self.delta(StreamName::Output), errors: self.delta(StreamName::Errors) }
    }

    /// Takes the output that no result has shown: the next deltas begin after it. An end counts as
    /// reported then.
    pub fn take_deltas(&mut self) -> PerStream<Delta> {
        let deltas = self.deltas();
        if self.showable() > self.told.bytes() {
            self.told.empty_polls = EmptyPolls::default();
        }
        self.told.streams = self.streams.map(|stream| StreamMark {
            bytes: stream.showable_end(self.closed).at.offset,
            line: stream.line_start,
        });
        self.mark_end_shown();
        self.told.stuck = self.is_stuck;
        self.told.repetition |= self.repeats(Instant::now());
        self.told.start_timed_out = false;
        deltas
    }

    /// Takes back what a lost result has shown since `before`. What later results have shown is
    /// shown once more, after the lost lines.
    pub fn take_back(&mut self, before: ShownMark) {
        if before.bytes() <= self.told.bytes() {
            self.told.restore(before);
            self.forget_reported();
        }
    }

    /// Notes that a result has reported the end, if there is one.
    pub fn mark_end_shown(&mut self) {
        self.told.end |= self.ended.is_some();
        self.note_reported();
    }

    /// The event to report now, if any.
    pub fn pending_event(&self) -> Option<EventKind> {
        if self.active_calls > 0 {
            return None;
        }
        if let Some(end) = &self.ended {
            let is_no_news = self.told.kill_asked && end.outcome == Outcome::Killed;
            let reported = self.told.end || self.told.end_noticed || is_no_news;
            let gone = self.closed && self.told.events.leftovers;
            return if reported {
                gone.then_some(EventKind::LeftoversGone)
            } else {
                Some(EventKind::Ended)
            };
        }
        // A person is there to answer, and sees what the task does.
        if self.people.is_some() {
            return None;
        }
        if let Some(waiting) = &self.waiting {
            return (!self.told.events.has_reported(waiting)).then_some(EventKind::Waiting);
        }
        if self.is_held_up_by_stop() {
            return (!self.told.events.stopped).then_some(EventKind::Stopped);
        }
        (self.is_stuck && !self.told.stuck).then_some(EventKind::Stuck)
    }

    /// Marks an event as reported.
    pub(crate) fn report_event(&mut self, event: EventKind) {
        match event {
            EventKind::Ended => self.told.end_noticed = true,
            EventKind::Stuck => self.told.stuck = true,
            EventKind::Waiting | EventKind::Stopped | EventKind::LeftoversGone => {}
        }
        self.note_reported();
    }

    /// Makes an event pending again after its report was lost.
    pub(crate) fn take_back_event(&mut self, event: EventKind) {
        match event {
            EventKind::Ended => self.told.end_noticed = false,
            EventKind::Stuck => self.told.stuck = false,
            EventKind::Waiting => self.told.events.waiting = None,
            EventKind::Stopped => self.told.events.stopped = false,
            EventKind::LeftoversGone => self.told.events.leftovers = true,
        }
    }

    /// Notes that the present state has been reported.
    fn note_reported(&mut self) {
        if self.waiting.is_some() {
            self.told.events.waiting.clone_from(&self.waiting);
        }
        self.told.events.stopped = self.is_held_up_by_stop();
        self.told.events.leftovers = self.lingers();
    }

    /// A wait or a stop was answered: report the next one, even if it is the same.
    fn forget_reported(&mut self) {
        self.told.events.waiting = None;
        self.told.events.stopped = false;
    }

    /// Whether the end of processes that outlive the task is still to be reported.
    pub(super) fn awaits_leftovers(&self) -> bool {
        self.told.events.leftovers
    }
}

/// A task, shared between its worker and its watchers.
#[derive(Debug)]
pub struct LiveTask {
    pub facts: Arc<Facts>,
    monitor: CondvarMutex<LiveState>,
    pub(super) terminal: Option<Box<Terminal>>,
    /// Notified when its pending event changes, with no lock held.
    pub(super) events: Option<Arc<EventSignal>>,
    /// What its server watches; `None` for a task without one.
    pub(super) unprotected: Option<Arc<Unprotected>>,
}

impl LiveTask {
    pub fn new(facts: Facts) -> LiveTask {
        LiveTask {
            facts: Arc::new(facts),
            monitor: CondvarMutex::new(LiveState::new()),
            terminal: None,
            events: None,
            unprotected: None,
        }
    }

    /// Its emulated terminal; `None` without a terminal, or if a person's own terminal draws.
    pub fn terminal(&self) -> Option<&Terminal> {
        self.terminal.as_deref()
    }

    /// What programs outside of its sandbox obey, was made, and no answer has told. If an answer that
    /// the agent gets `tells` it, no other one does.
    pub(crate) fn made_unprotected(&self, tells: bool) -> Vec<PathBuf> {
        let (Some(unprotected), Some(sandbox)) = (&self.unprotected, &self.facts.sandbox) else {
            return Vec::new();
        };
        unprotected.watch_for(&sandbox.absent);
        if tells { unprotected.tell(&self.facts.id) } else { unprotected.untold() }
    }

    /// Its state, locked. Hold it briefly.
    pub fn state(&self) -> Guard<'_, LiveState> {
        self.monitor.lock()
    }

    /// The daemons that outlive the shell by rule, as far as they are still alive.
    pub fn kept(&self) -> Vec<ProcessName> {
        let kept = self.state().kept.clone();
        let lives = |daemon: &&ProcessInfo| {
            tree::look_up(daemon.id.pid).is_some_and(|now| now.id == daemon.id && !now.zombie)
        };
        kept.iter().filter(lives).map(ProcessInfo::label).collect()
    }

    /// Changes the state and wakes all watchers.
    pub fn report<R>(&self, change: impl FnOnce(&mut LiveState) -> R) -> R {
        self.change(change, |_| true)
    }

    /// Changes the state because output has come: wakes the watchers only if one of them waits for
    /// output, so that a flood does not wake those that wait for the end.
    pub fn report_output(&self, change: impl FnOnce(&mut LiveState)) {
        self.change(change, |state| state.output_watchers > 0);
    }

    fn change<R>(
        &self,
        change: impl FnOnce(&mut LiveState) -> R,
        wakes: impl FnOnce(&LiveState) -> bool,
    ) -> R {
        let (result, wakes, has_event) = {
            let mut state = self.monitor.lock();
            let before = state.pending_event();
            let result = change(&mut state);
            (result, wakes(&state), state.pending_event() != before)
        };
        if wakes {
            self.monitor.notify_all();
        }
        if has_event && let Some(events) = &self.events {
            events.notify();
        }
        result
    }

    /// Reports a probe's findings. While input or a size of the terminal is queued for the task, an
    /// earlier wait for input no longer counts. Returns whether anything changed.
    pub fn report_detected(&self, found: Detected) -> bool {
        let is_screen = self.terminal().is_some_and(Terminal::is_full_screen);
        self.report(|state| {
            state.told.events.is_screen = is_screen;
            let answered = state.queued_input > 0 || state.queued_sizes > 0;
            let waiting = found.waiting.filter(|_| !answered);
            let changed = state.waiting != waiting
                || state.unconfirmed != found.unconfirmed
                || state.conditions != found.conditions;
            state.waiting = waiting;
            state.unconfirmed = found.unconfirmed;
            state.conditions = found.conditions;
            state.evidence = found.evidence;
            let before = state.last_input_probe;
            state.last_input_probe = Some(InputProbe {
                at: Instant::now(),
                active: found.active,
                reading: found.reading,
                again: before.is_some_and(|before| before.reading == found.reading),
                prompts: found.prompts,
                computes: found.computes,
            });
            // A process that runs again may be stopped again: that is another event.
            state.told.events.stopped &= state.is_held_up_by_stop();
            changed
        })
    }

    /// Waits until `check` returns a result, the call is cancelled or the limit is reached;
    /// returns `None` in the latter two cases.
    pub fn wait_for<R>(
        self: &Arc<Self>,
        limit: Option<Instant>,
        cancel: &Cancel,
        mut check: impl FnMut(&LiveState) -> WaitStep<R>,
        now: impl Fn() -> Instant,
    ) -> Option<R> {
        let awaited: Weak<Self> = Arc::downgrade(self);
        cancel.wait_for(awaited);
        let mut state = self.monitor.lock();
        loop {
            let (recheck_at, awaits_output) = match check(&state) {
                WaitStep::Found(result) => return Some(result),
                WaitStep::WaitUntil(at) => (at, true),
                WaitStep::WaitDespiteOutput(at) => (at, false),
            };
            if cancel.is_cancelled() || limit.is_some_and(|limit| now() >= limit) {
                return None;
            }
            let deadline = match (limit, recheck_at) {
                (Some(limit), Some(recheck_at)) => Some(limit.min(recheck_at)),
                (limit, recheck_at) => limit.or(recheck_at),
            };
            state.output_watchers += usize::from(awaits_output);
            state = self.monitor.wait(state, deadline);
            state.output_watchers -= usize::from(awaits_output);
        }
    }

    /// Waits until the state is as `wanted`, or until the deadline.
    pub(super) fn await_state(
        self: &Arc<Self>,
        deadline: Instant,
        wanted: impl Fn(&LiveState) -> bool,
    ) {
        let check = |state: &LiveState| {
            if wanted(state) { WaitStep::Found(()) } else { WaitStep::WaitUntil(None) }
        };
        self.wait_for(Some(deadline), &Cancel::default(), check, Instant::now);
    }

    /// Counts a poll. One without output counts as `counts_as` idle polls, since a long wait replaces
    /// several.
    pub fn count_poll(&self, brought_output: bool, counts_as: u32) -> EmptyPolls {
        let mut state = self.state();
        state.told.polls += 1;
        state.told.empty_polls = if brought_output {
            EmptyPolls::default()
        } else {
            EmptyPolls {
                polls: state.told.empty_polls.polls.saturating_add(1),
                weight: state.told.empty_polls.weight.saturating_add(counts_as),
            }
        };
        state.told.empty_polls
    }
}

impl Wake for LiveTask {
    fn wake(&self) {
        // A watcher between its check and its wait holds the lock: once it is free, the watcher waits
        // and is notified.
        drop(self.monitor.lock());
        self.monitor.notify_all();
    }
}

/// The result of one check of the state.
#[derive(Debug)]
pub enum WaitStep<R> {
    /// What the caller waits for.
    Found(R),
    /// Not yet: check again at the next change, or at this time.
    WaitUntil(Option<Instant>),
    /// Not yet, and more output alone is not enough: check again at the next other change, or at
    /// this time.
    WaitDespiteOutput(Option<Instant>),
}

/// A call in progress about a task. Its answer reports the task's end, so no separate notice
/// does.
#[derive(Debug)]
pub(crate) struct ActiveCall {
    task: Arc<LiveTask>,
}

impl ActiveCall {
    pub(crate) fn begin(task: &Arc<LiveTask>) -> ActiveCall {
        task.state().active_calls += 1;
        ActiveCall::of_started_task(task)
    }

    /// The call that started the task, which was counted from the beginning.
    pub(crate) fn of_started_task(task: &Arc<LiveTask>) -> ActiveCall {
        ActiveCall { task: Arc::clone(task) }
    }
}

impl Drop for ActiveCall {
    fn drop(&mut self) {
        self.task.report(|state| {
            state.active_calls = state.active_calls.saturating_sub(1);
            state.told.last_call = Some(Instant::now());
            state.told.unpolled_notices = 0;
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_that_an_attached_person_sees_is_pending_once_the_person_has_left() {
        let mut state = LiveState::new();
        state.active_calls = 0;
        state.is_stuck = true;
        assert_eq!(state.pending_event(), Some(EventKind::Stuck));
        state.people = Some(Box::new(People::new(None)));
        assert_eq!(state.pending_event(), None);
        state.people = None;
        assert_eq!(state.pending_event(), Some(EventKind::Stuck));
    }
}
