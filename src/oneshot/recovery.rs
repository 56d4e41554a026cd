//! Recovers the work of earlier agents of a run: from the run's log first, then from the agent
//! program's own storage.

use std::cell::RefCell;
use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime};

use serde_json::Value;

use super::log::{LineKind, LogLine};
use super::log_reader::{newest, newest_that};
use super::run_files::{AgentSession, RunFile};
use super::state::{Role, RunState};
use crate::agent::activity::{Activity, Final};
use crate::agent::executor::{Executor, Recovery, Reference};
use crate::agent::stream::Record;
use crate::agent::usage::{Meter, Usage};

/// The home directory and the environment of the agents.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RecoveryContext<'a> {
    /// The user's home directory.
    pub(crate) home: &'a Path,
    /// The environment that agents inherit.
    pub(crate) environment: &'a [(OsString, OsString)],
}

/// Recovers the work of a run's last worker.
///
/// # Errors
/// If the run's log cannot be read.
pub(crate) fn recover_last_worker(
    directory: &Path,
    run: &RunFile,
    executor: &Executor,
    context: RecoveryContext<'_>,
) -> io::Result<Recovery> {
    let own = read_own_log(directory, executor)?;
    if let Some(text) = own.result {
        return Ok(Recovery::Success { text });
    }
    let assigned = run.agent_sessions.iter().rev().find(|session| {
        let is_current = session.iteration == run.iteration_count.max(1);
        executor.takes_session() && session.role == Role::Worker && is_current
    });
    let assigned = assigned.map(|session| session.id.as_str());
    let found = executor.recover(&Reference {
        home: context.home,
        directory: &run.directory,
        agent_session: own.session.as_deref().or(assigned),
        since: own.prompted.map_or_else(|| begun(run), system_time),
        environment: context.environment,
    });
    let found = match found {
        // What the agent was told is not what it did.
        Recovery::Success { text } if text.trim() == run.prompt.trim() => Recovery::Nothing,
        found => found,
    };
    Ok(match (found, own.acts.last()) {
        (Recovery::Nothing, Some(_)) => Recovery::Partial {
            what: own.acts.iter().rev().cloned().collect::<Vec<_>>().join("\n"),
        },
        (found, _) => found,
    })
}

/// When the run began, which no agent of it precedes.
fn begun(run: &RunFile) -> SystemTime {
    system_time(run.history.first().map_or(0.0, |entry| entry.ts))
}

fn system_time(unix_seconds: f64) -> SystemTime {
    let since = Duration::try_from_secs_f64(unix_seconds).unwrap_or_default();
    // Only a file edited by hand contains a time beyond the clock's range.
    let at = SystemTime::UNIX_EPOCH.checked_add(since);
    at.unwrap_or(SystemTime::UNIX_EPOCH)
}

/// The part of the run's log about the last worker, read from the newest line back.
#[derive(Default)]
struct OwnLog {
    /// The text of the worker's final event, unless that reports an error.
    result: Option<String>,
    /// Whether a final event reported an error, so that older final events do not count.
    final_error_seen: bool,
    /// Texts before a final event that has no text.
    texts: Vec<Activity>,
    /// Whether no older text belongs to the answer.
    sealed: bool,
    acts: Vec<String>,
    /// The newest session that the worker has named.
    session: Option<String>,
    /// When the worker was about to be started, in Unix seconds; the state that contains its pid is
    /// later than the start.
    prompted: Option<f64>,
}

/// How many acts of the last worker to report to the next one.
const MAX_ACTS: usize = 50;

/// How many pieces of an answer to join.
const MAX_TEXTS: usize = 10_000;

fn read_own_log(directory: &Path, executor: &Executor) -> io::Result<OwnLog> {
    let own = RefCell::new(OwnLog::default());
    let is_worker = |line: &LogLine| line.origin.role == Some(Role::Worker);
    newest_that(
        directory,
        u64::MAX,
        |line| {
            let mut own = own.borrow_mut();
            if is_worker(line) {
                own.add(line, executor);
            }
            // Lines before the prompt belong to another worker.
            own.result.is_some() && own.sealed || own.prompted.is_some()
        },
        &[LineKind::Prompt, LineKind::Result, LineKind::Activity],
    )?;
    let mut own = own.into_inner();
    if own.result.as_deref() == Some("") {
        let mut answer = executor.answer();
        own.texts.iter().rev().for_each(|text| answer.add(text));
        own.result = Some(answer.text().to_owned());
    }
    Ok(own)
}

impl OwnLog {
    fn add(&mut self, line: &LogLine, executor: &Executor) {
        match line.kind {
            LineKind::Result
                if !self.final_error_seen && line.data.get("error").is_none_or(Value::is_null) =>
            {
                let text = line.data.get("text").and_then(Value::as_str).unwrap_or_default();
                self.result.get_or_insert(text.to_owned());
                self.sealed = true;
            }
            // It counts the events before it, too.
            LineKind::Result => self.final_error_seen |= self.result.is_none(),
            LineKind::Prompt => self.prompted = Some(line.ts),
            LineKind::Activity => {
                for activity in executor.classify(&record(&line.data)).iter().rev() {
                    self.add_activity(activity);
                }
            }
            _ => {}
        }
    }

    fn add_activity(&mut self, activity: &Activity) {
        self.sealed |= self.result.is_some() && activity.is_act();
        match activity {
            Activity::Session { id } => {
                self.session.get_or_insert_with(|| id.clone());
            }
            Activity::Final(Final { text, error: None }) if !self.final_error_seen => {
                self.result.get_or_insert_with(|| text.clone());
                self.sealed |= !text.is_empty();
            }
            Activity::Final(_) => self.final_error_seen = self.result.is_none(),
            Activity::Text(_) if self.result.is_some() && !self.sealed => {
                self.texts.push(activity.clone());
                self.sealed = self.texts.len() >= MAX_TEXTS;
            }
            activity if self.acts.len() < MAX_ACTS => self.acts.extend(activity.act()),
            _ => {}
        }
    }
}

/// What a session's agent has cost, as far as the run's log says.
///
/// # Errors
/// If the log cannot be read.
pub(crate) fn usage(
    directory: &Path,
    session: &AgentSession,
    executor: &Executor,
) -> io::Result<Usage> {
    let reports = RefCell::new(Vec::new());
    let is_its = |line: &LogLine| {
        line.origin.role == Some(session.role) && line.origin.iteration == Some(session.iteration)
    };
    newest_that(
        directory,
        u64::MAX,
        |line| {
            if is_its(line) && line.kind == LineKind::Activity {
                let activities = executor.classify(&record(&line.data)).into_iter().rev();
                reports.borrow_mut().extend(activities.filter_map(|activity| match activity {
                    Activity::Usage(report) => Some(report),
                    _ => None,
                }));
            }
            // Lines before the prompt belong to another session.
            is_its(line) && line.kind == LineKind::Prompt
        },
        &[LineKind::Prompt, LineKind::Activity],
    )?;
    let mut meter = Meter::default();
    reports.borrow().iter().rev().for_each(|report| meter.add(report));
    Ok(meter.usage())
}

/// The record in the data of a [`LineKind::Activity`] line, for its executor to classify.
pub(crate) fn record(data: &Value) -> Record {
    match data.as_object().filter(|data| data.len() == 1) {
        Some(data) => match data.get("text").and_then(Value::as_str) {
            Some(text) => Record::Line(text.to_owned()),
            None => Record::Json(Value::Object(data.clone()).to_string()),
        },
        None => Record::Json(data.to_string()),
    }
}

/// The known acts of the last worker, if it was cut off.
///
/// # Errors
/// If the log cannot be read.
pub(crate) fn interrupted_work(directory: &Path, run: &RunFile) -> io::Result<Option<String>> {
    let pauses = |state| matches!(state, RunState::Interrupted | RunState::ReiterationPending);
    let mut entries = run.history.iter().rev();
    let before = entries.find(|entry| !pauses(entry.state));
    if before.is_none_or(|entry| entry.state != RunState::RecoveryPending) {
        return Ok(None);
    }
    let found = newest(directory, LineKind::Recovered, u64::MAX)?;
    Ok(Some(text_of(found.as_ref(), "what")))
}

/// The final text of an iteration's worker, which may be empty; `None` if the log contains no end
/// of that worker.
///
/// # Errors
/// If the log cannot be read.
pub(crate) fn result(directory: &Path, iteration: u32) -> io::Result<Option<String>> {
    let is_result = |line: &LogLine| {
        line.origin.role == Some(Role::Worker)
            && line.origin.iteration == Some(iteration)
            && line.data.get("text").is_some()
    };
    let kinds = [LineKind::Result, LineKind::Recovered];
    let found = newest_that(directory, u64::MAX, is_result, &kinds)?;
    Ok(found.map(|line| text_of(Some(&line), "text")))
}

/// What an iteration's worker lacked, as a clause without its subject.
///
/// # Errors
/// If the log cannot be read.
pub(crate) fn shortfall(directory: &Path, iteration: u32) -> io::Result<Option<String>> {
    // It is written after the worker's prompt.
    let is_limit = |line: &LogLine| {
        line.origin.role == Some(Role::Worker)
            && line.origin.iteration.is_some_and(|known| known <= iteration)
    };
    let kinds = [LineKind::Shortfall, LineKind::Prompt];
    let found = newest_that(directory, u64::MAX, is_limit, &kinds)?;
    let found = found.filter(|line| {
        line.kind == LineKind::Shortfall && line.origin.iteration == Some(iteration)
    });
    Ok(found.map(|line| text_of(Some(&line), "text")))
}

fn text_of(line: Option<&LogLine>, key: &str) -> String {
    let text = line.and_then(|line| line.data.get(key));
    let text = text.and_then(Value::as_str).unwrap_or_default();
    text.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::executor::Executors;
    use crate::oneshot::log::{NewLine, Origin, RunLog};
    use crate::oneshot::redaction::Redacted;
    use crate::text::redact::Redactor;
    use serde_json::json;

    /// The recovered facts from a worker's log with these lines.
    fn found(executor: &str, lines: &[(LineKind, Value)]) -> OwnLog {
        let directory = tempfile::tempdir().unwrap();
        let mut log = RunLog::open(directory.path()).unwrap();
        let redactor = Redactor::new([]);
        for (kind, data) in lines {
            let origin = Origin {
                executor: Some(executor.to_owned()),
                role: Some(Role::Worker),
                iteration: Some(1),
            };
            let data = Redacted::new(data.clone(), &redactor);
            log.append(NewLine { ts: 1.0, kind: *kind, origin, data }).unwrap();
        }
        let executors = Executors::new(&[]).unwrap();
        read_own_log(directory.path(), executors.find(executor).unwrap()).unwrap()
    }

    fn piece(text: &str) -> (LineKind, Value) {
        let data = json!({"type": "message", "role": "assistant", "content": text, "delta": true});
        (LineKind::Activity, data)
    }

    fn tool() -> (LineKind, Value) {
        let data = json!({"type": "tool_use", "tool_name": "ls", "parameters": {}});
        (LineKind::Activity, data)
    }

    fn prompt() -> (LineKind, Value) {
        (LineKind::Prompt, json!({"text": "do it"}))
    }

    fn end() -> (LineKind, Value) {
        (LineKind::Activity, json!({"type": "result", "status": "success"}))
    }

    #[test]
    fn an_answer_in_pieces_is_found_without_a_result_line() {
        let before = [piece("old"), end(), prompt(), piece("I look.")];
        let after = [tool(), piece("It is "), piece("done."), end()];
        let own = found("gemini", &[&before[..], &after[..]].concat());
        assert_eq!(own.result.as_deref(), Some("It is done."));
    }

    #[test]
    fn another_workers_text_is_not_found() {
        let own = found("gemini", &[prompt(), piece("old"), end(), prompt(), tool()]);
        assert_eq!(own.result, None);
        assert_eq!(own.acts.len(), 1);
        let own = found("gemini", &[prompt(), piece("old"), end(), prompt(), end()]);
        assert_eq!(own.result.as_deref(), Some(""));
    }

    #[test]
    fn a_written_result_line_wins() {
        let result = (LineKind::Result, json!({"text": "as it was", "error": null}));
        let own = found("gemini", &[prompt(), piece("x"), end(), result]);
        assert_eq!(own.result.as_deref(), Some("as it was"));
        let failed = || (LineKind::Result, json!({"text": "no", "error": "api_error"}));
        let own = found("gemini", &[prompt(), piece("x"), failed()]);
        assert_eq!(own.result, None);
        // A killed agent may end its output as if all were well.
        let own = found("gemini", &[prompt(), piece("x"), end(), failed()]);
        assert_eq!(own.result, None);
    }

    #[test]
    fn a_start_beyond_the_clocks_range_is_ignored() {
        let text = include_str!("../../tests/fuzz/seeds/sessions/run");
        let mut run: RunFile = serde_json::from_str(text).unwrap();
        for (ts, expected) in [(1e19, 0), (1e300, 0), (-1.0, 0), (5.0, 5)] {
            for entry in &mut run.history {
                entry.ts = ts;
            }
            let since = begun(&run).duration_since(SystemTime::UNIX_EPOCH);
            assert_eq!(since.unwrap(), Duration::from_secs(expected), "{ts}");
        }
    }
}
