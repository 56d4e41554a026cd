//! Events of tasks that an agent would otherwise poll for: their lines in `zsh-tool events`, and
//! their stream over the control socket (`zsh-tool/events`).
//!
//! A stream with `follow` sends one event at a time and waits until the reader acknowledges it.
//! Otherwise, the stream sends all pending events and an end mark, and then waits. A reader that
//! does not acknowledge gets no more events; events that it has not acknowledged stay pending.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::dispatch::Tools;
use super::render::progress::short_duration;
use super::render::result::{self, command_line, millis};
use super::rpc_error::RpcError;
use crate::base::cancel::Cancel;
use crate::progress::condition::Condition;
use crate::progress::waiting::WantedInput;
use crate::protocol::message::INTERNAL_ERROR;
use crate::task::describe::{self, outcome_word, wanted_word};
use crate::task::events::EventKind;
use crate::task::live::Facts;
use crate::task::output::reading;
use crate::task::registry::TaskHandle;
use crate::task::snapshot::Snapshot;
use crate::task::supervisor::Supervisor;
use crate::task::tombstone;
use crate::text::foreign;
use crate::text::lines::elide_middle;
use crate::text::redact::Redactor;

/// An event is sent only after this time, in case the answer to a call reports it first.
const GRACE: Duration = Duration::from_secs(1);
/// How long a reader may take to acknowledge an event.
const ACKNOWLEDGE_LIMIT: Duration = Duration::from_secs(5);
/// … and how long once this process is ending.
const LAST_ACKNOWLEDGEMENT: Duration = Duration::from_millis(300);
const UNACKNOWLEDGED: &str = "an event was not acknowledged in time";
/// How many of the last lines of an ended task are shown …
const TAIL_LINES: usize = 3;
/// … from this many bytes at the output's end.
const TAIL_BYTES: u64 = 8 * 1024;
/// How much of a line, a prompt or a command is shown.
const SHOWN_CHARS: usize = 160;

/// One event. Every key is always present in JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Event {
    pub(crate) event: EventKind,
    pub(crate) task_id: String,
    pub(crate) command: String,
    pub(crate) description: Option<String>,
    /// How the task ended, in one word.
    pub(crate) status: Option<String>,
    pub(crate) exit_code: Option<i32>,
    pub(crate) duration_ms: Option<u64>,
    /// The last lines of an ended task.
    pub(crate) tail: Vec<String>,
    /// How many processes outlive the task.
    pub(crate) leftovers: usize,
    /// `input` or `password`, if the task waits for it.
    pub(crate) wants: Option<String>,
    pub(crate) prompt: Option<String>,
    /// How a person can answer a prompt that is not for `zsh_send`.
    pub(crate) person: Option<String>,
    /// What has stopped the task, or why it is stuck.
    pub(crate) reason: Option<String>,
}

impl Event {
    /// An event of a task, described by the task's current state. `person` tells how a person can
    /// answer a prompt.
    pub(crate) fn from_task(
        kind: EventKind,
        task: &TaskHandle,
        redactor: &Redactor,
        person: impl FnOnce(WantedInput) -> Option<String>,
    ) -> Event {
        let facts = &task.live.facts;
        let shown = |text: &str| elide_middle(&one_line(&redactor.redact(text)), SHOWN_CHARS);
        let mut event = Event {
            event: kind,
            task_id: facts.id.clone(),
            command: shown(&command_line(&facts.command)),
            description: facts.description.as_deref().map(shown),
            status: None,
            exit_code: None,
            duration_ms: None,
            tail: Vec::new(),
            leftovers: 0,
            wants: None,
            prompt: None,
            person: None,
            reason: None,
        };
        let (waiting, conditions, verdict, end, ends, columns) = {
            let state = task.live.state();
            event.leftovers = if state.lingers() { state.leftovers.len() } else { 0 };
            (
                state.waiting.clone(),
                state.conditions.clone(),
                state.verdict(Instant::now()),
                state.ended.clone(),
                state.streams.map(|stream| stream.end.offset),
                state.columns,
            )
        };
        match kind {
            EventKind::Ended => {
                // Errors that are apart say more than the rest.
                let (spool, to) = match (ends.errors, ends.output) {
                    (0, output) => (&task.spools.output, output),
                    (errors, _) => (&task.spools.errors, errors),
                };
                let from = to.saturating_sub(TAIL_BYTES);
                let text = reading::newest_text(spool, from, to, columns);
                let lines = text.lines().rev().filter(|line| !line.trim().is_empty());
                event.tail = lines.take(TAIL_LINES).map(shown).collect();
                event.tail.reverse();
            }
            EventKind::Waiting => {
                event.wants =
                    waiting.as_ref().map(|waiting| wanted_word(waiting.wanted).to_owned());
                event.person = waiting.as_ref().and_then(|waiting| person(waiting.wanted));
                let prompt = waiting.map(|waiting| shown(waiting.prompt.trim_end()));
                event.prompt = prompt.filter(|prompt| !prompt.is_empty());
            }
            EventKind::Stopped => {
                let held_up: Vec<Condition> =
                    conditions.into_iter().filter(Condition::holds_up).collect();
                event.reason = Some(describe::condition_phrases(&held_up).join(", "));
            }
            EventKind::Stuck => {
                event.reason = verdict.as_ref().and_then(describe::verdict_summary);
            }
            EventKind::LeftoversGone => {}
        }
        if let Some(end) = end {
            event.status = Some(outcome_word(end.outcome).to_owned());
            event.exit_code = Some(end.exit.code());
            event.duration_ms = Some(millis(end.duration));
        }
        event
    }

    /// The end of a task whose output has been removed.
    pub(crate) fn of_ended(snapshot: &Snapshot) -> Event {
        let shown = |text: &str| elide_middle(&one_line(text), SHOWN_CHARS);
        Event {
            event: EventKind::Ended,
            task_id: snapshot.facts.id.clone(),
            command: shown(&command_line(&snapshot.facts.command)),
            description: snapshot.facts.description.as_deref().map(shown),
            status: snapshot.outcome().map(|outcome| outcome_word(outcome).to_owned()),
            exit_code: snapshot.exit_code(),
            duration_ms: snapshot.duration_ms(),
            tail: Vec::new(),
            leftovers: 0,
            wants: None,
            prompt: None,
            person: None,
            reason: None,
        }
    }

    /// The event as one line of text.
    pub(crate) fn line(&self) -> String {
        let Event { task_id: id, command, .. } = self;
        let reason = self.reason.as_deref().unwrap_or_default();
        let text = match self.event {
            EventKind::Ended => {
                let mut facts = Vec::new();
                match self.status.as_deref() {
                    Some("completed" | "failed") | None => {}
                    Some(word) => facts.push(word.to_owned()),
                }
                facts.extend(self.exit_code.map(|code| format!("exit={code}")));
                let took = self.duration_ms.map(Duration::from_millis);
                facts.extend(took.map(|took| short_duration(took.as_secs_f64())));
                if self.leftovers > 0 {
                    facts.push(format!("{} still running", self.leftovers));
                }
                let mut text = format!("task {id} ended ({})  {command}", facts.join(", "));
                if !self.tail.is_empty() {
                    let quoted = |line: &String| foreign::in_quotes(line, SHOWN_CHARS);
                    let tail: Vec<String> = self.tail.iter().map(quoted).collect();
                    text.push_str(&format!("  |  it printed last: {}", tail.join(", ")));
                }
                text.push_str(&format!("  |  read it with zsh_poll task_id={id}"));
                text
            }
            EventKind::Waiting => {
                let what = match self.wants.as_deref() {
                    Some("password") => "a password",
                    _ => "input",
                };
                let prompt = self.prompt.as_deref().unwrap_or_default();
                let prompt = match prompt.trim() {
                    "" => String::new(),
                    prompt => format!(" {}", foreign::in_quotes(prompt, SHOWN_CHARS)),
                };
                let answer = match &self.person {
                    Some(person) => person.clone(),
                    None => format!("answer with zsh_send task_id={id}"),
                };
                format!("task {id} waits for {what}{prompt}  {command}  |  {answer}")
            }
            EventKind::Stopped => format!(
                "task {id} is {reason}  {command}  |  zsh_kill task_id={id} signal=CONT resumes it"
            ),
            EventKind::Stuck => {
                let reason = self.reason.as_deref().unwrap_or("stuck");
                format!("task {id} is {reason}  {command}  |  read it with zsh_poll task_id={id}")
            }
            EventKind::LeftoversGone => {
                format!("task {id}: the processes that outlived it have ended  {command}")
            }
        };
        one_line(&text)
    }
}

/// Replaces characters that move the cursor or begin another line.
fn one_line(text: &str) -> String {
    let is_harmful = |c: char| {
        // Line and paragraph separators, and marks that change the direction of writing.
        c.is_control() || matches!(c, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    text.replace(is_harmful, " ")
}

/// How many events the reader has acknowledged.
#[derive(Debug, Default)]
pub(super) struct Acknowledged(AtomicU64);

impl Acknowledged {
    /// The reader has passed on all events up to this number.
    pub(super) fn note(&self, number: u64, supervisor: &Supervisor) {
        self.0.fetch_max(number, Ordering::SeqCst);
        supervisor.events.notify();
    }
}

/// An event reserved for one reader. It is pending again if dropped before it is `reported`.
struct Claim<'a> {
    supervisor: &'a Supervisor,
    task: Arc<TaskHandle>,
    event: EventKind,
    reported: bool,
}

impl<'a> Claim<'a> {
    /// `None` if another answer or reader has reported it.
    fn take(
        supervisor: &'a Supervisor,
        task: &Arc<TaskHandle>,
        event: EventKind,
    ) -> Option<Claim<'a>> {
        {
            let mut state = task.live.state();
            if state.pending_event() != Some(event) {
                return None;
            }
            state.report_event(event);
        }
        // Other servers may report the end of a detached task, which they read from its files.
        let claimed = match shared_end(supervisor, task, event) {
            Some(directory) => tombstone::claim_report(&directory, task.id()),
            None => true,
        };
        let task = Arc::clone(task);
        claimed.then_some(Claim { supervisor, task, event, reported: false })
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        if !self.reported {
            if let Some(directory) = shared_end(self.supervisor, &self.task, self.event) {
                tombstone::return_report(&directory, self.task.id());
            }
            self.supervisor.take_back_event(&self.task, self.event);
        }
    }
}

/// The directory in which a report of this event is claimed, if other processes may report it too.
fn shared_end(
    supervisor: &Supervisor,
    task: &TaskHandle,
    event: EventKind,
) -> Option<std::path::PathBuf> {
    let is_shared = event == EventKind::Ended && task.live.facts.detached.is_some();
    let directory = supervisor.directory().ok().filter(|_| is_shared)?;
    Some(directory.path.clone())
}

impl Tools {
    /// How a person can answer this prompt, if that is advised instead of `zsh_send`.
    pub(super) fn person_line(&self, wanted: WantedInput, facts: &Facts) -> Option<String> {
        self.supervisor.settings.state.as_ref().ok()?;
        let secrets_listed = self.config.secrets.iter().next().is_some();
        result::person_line(wanted, facts, secrets_listed)
    }

    /// Sends the pending events and, with `follow`, later ones until the call is cancelled. `send`
    /// gets each event with its number; `None` with the newest number marks the end of the pending
    /// events.
    ///
    /// # Errors
    /// When this process ends, or the reader does not acknowledge an event.
    pub(super) fn stream_events(
        &self,
        follow: bool,
        cancel: &Cancel,
        acknowledged: &Acknowledged,
        mut send: impl FnMut(u64, Option<&Event>),
    ) -> Result<(), RpcError> {
        let failed = |text: &str| Err(RpcError::new(INTERNAL_ERROR, text));
        let supervisor = &self.supervisor;
        let signal = &supervisor.events;
        let mut pending_since: HashMap<(String, EventKind), Instant> = HashMap::new();
        let begun = Instant::now();
        let mut number = 0;
        let mut claims: Vec<Claim> = Vec::new();
        let deliver = |number: u64, claims: &mut Vec<Claim>| {
            let is_complete = self.await_acknowledged(number, cancel, acknowledged);
            let passed_on = acknowledged.0.load(Ordering::SeqCst);
            for (claim, number) in claims.iter_mut().rev().zip((1..=number).rev()) {
                claim.reported = number <= passed_on;
            }
            claims.clear();
            is_complete
        };
        let awaited = Arc::downgrade(signal);
        cancel.wait_for(awaited);
        loop {
            let seen = signal.count();
            if cancel.is_cancelled() {
                return Ok(());
            }
            let is_ending = supervisor.is_ending();
            let mut next: Option<Instant> = None;
            let mut still_pending = HashMap::new();
            for task in supervisor.open_tasks() {
                let Some((event, ended)) = pending(&task) else {
                    continue;
                };
                // A shim ends with its task. Servers report the end from files, but not the end of
                // leftovers.
                let is_last =
                    event == EventKind::LeftoversGone && task.live.facts.detached.is_some();
                if is_ending && !is_last {
                    continue;
                }
                let key = (task.id().to_owned(), event);
                let since = pending_since.get(&key).copied().or(ended);
                let since = since.unwrap_or_else(Instant::now);
                let is_fresh = event == EventKind::Ended || since > begun;
                let due = if !is_last && (follow || is_fresh) { since + GRACE } else { since };
                if due > Instant::now() {
                    next = Some(next.map_or(due, |next| next.min(due)));
                    still_pending.insert(key, since);
                    continue;
                }
                let Some(claim) = Claim::take(supervisor, &task, event) else {
                    continue;
                };
                number += 1;
                claims.push(claim);
                let facts = &task.live.facts;
                let person = |wanted| self.person_line(wanted, facts);
                let event = Event::from_task(event, &task, &supervisor.settings.redactor, person);
                send(number, Some(&event));
                if follow && !deliver(number, &mut claims) {
                    return failed(UNACKNOWLEDGED);
                }
            }
            pending_since = still_pending;
            let is_all = is_ending || next.is_none();
            if is_all && !claims.is_empty() {
                send(number, None);
                if !deliver(number, &mut claims) {
                    return failed(UNACKNOWLEDGED);
                }
            }
            if is_ending {
                return failed("this process is ending");
            }
            if !follow && next.is_none() {
                return Ok(());
            }
            signal.wait(seen, next);
        }
    }

    fn await_acknowledged(
        &self,
        number: u64,
        cancel: &Cancel,
        acknowledged: &Acknowledged,
    ) -> bool {
        let mut deadline = Instant::now() + ACKNOWLEDGE_LIMIT;
        let signal = &self.supervisor.events;
        loop {
            let seen = signal.count();
            if self.supervisor.is_ending() {
                deadline = deadline.min(Instant::now() + LAST_ACKNOWLEDGEMENT);
            }
            if acknowledged.0.load(Ordering::SeqCst) >= number {
                return true;
            }
            if cancel.is_cancelled() || Instant::now() >= deadline {
                return false;
            }
            signal.wait(seen, Some(deadline));
        }
    }
}

/// A task's pending event, with the time of the end if the event is `Ended`.
fn pending(task: &TaskHandle) -> Option<(EventKind, Option<Instant>)> {
    let state = task.live.state();
    let event = state.pending_event()?;
    let end = state.ended.as_ref().filter(|_| event == EventKind::Ended);
    Some((event, end.map(|end| task.live.facts.started.mono + end.duration)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_one_harmless_line() {
        let event = Event {
            event: EventKind::Ended,
            task_id: "b6d464a7".to_owned(),
            command: "make".to_owned(),
            description: None,
            status: Some("failed".to_owned()),
            exit_code: Some(2),
            duration_ms: Some(63_200),
            tail: vec!["one".to_owned(), "two\n\u{1b}[2J\u{202e}x".to_owned()],
            leftovers: 1,
            wants: None,
            prompt: None,
            person: None,
            reason: None,
        };
        assert_eq!(
            event.line(),
            "task b6d464a7 ended (exit=2, 63s, 1 still running)  make  |  it printed last: \"one\", \"two\\n\\e[2J<U+202E>x\"  |  read it with zsh_poll task_id=b6d464a7"
        );
        let short = Event { duration_ms: Some(420), ..event.clone() };
        assert!(short.line().contains("(exit=2, 0.4s, 1 still running)"), "{}", short.line());
        let person = Some("A person can answer: zsh-tool attach b6d464a7".to_owned());
        let wants = Some("password".to_owned());
        let asks = Event { event: EventKind::Waiting, wants, person, ..event.clone() };
        assert_eq!(
            asks.line(),
            "task b6d464a7 waits for a password  make  |  A person can answer: zsh-tool attach b6d464a7"
        );
        let text = serde_json::to_string(&event).expect("JSON");
        assert!(text.contains(r#""event":"ended","task_id":"b6d464a7""#), "{text}");
        assert_eq!(serde_json::from_str::<Event>(&text).expect("the same"), event);
    }
}
