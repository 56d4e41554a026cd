//! Agent runs as the monitor shows them, read from their files in the state directory, and their
//! logs as text for lists, judges and terminals.
//!
//! A live run's status comes from its newest heartbeat. To stop a run, use
//! [`crate::oneshot::sessions::stop`].

use std::ffi::OsString;
use std::iter;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use super::session::{RunFacts, ServerName, Session, millis, one_line};
use crate::agent::activity::Activity;
use crate::agent::executor::Executors;
use crate::agent::judge::Evidence;
use crate::agent::stream::Record;
use crate::oneshot::check::CheckResult;
use crate::oneshot::log::{Heartbeat, LineKind, LogLine};
use crate::oneshot::repository::{Repository, SNAPSHOTS};
use crate::oneshot::run::SESSIONS;
use crate::oneshot::sessions::{self, RunView};
use crate::oneshot::state::RunState;
use crate::oneshot::{log_reader, recovery};
use crate::progress::status_forecast::{BlockedOn, Status};
use crate::progress::tracker::ChangeKind;
use crate::text::lines::elide_middle;

/// How far back a log is searched for the newest heartbeat, since agents may print much in between.
const HEARTBEAT_WITHIN: u64 = 1 << 20;
/// How far back a log is searched for its last lines.
const TAIL_WITHIN: u64 = 256 * 1024;
/// Characters of a line, a prompt or a feedback that are shown.
const SHOWN_CHARS: usize = 400;
/// The server's name shown for a run.
const SERVER: &str = "oneshot";
/// The fields that summarize data other than an agent's record, in order of preference.
const SUMMARY_FIELDS: [&str; 6] = ["text", "stderr", "prompt", "reason", "what", "found"];

/// The run with this id; `None` if there is none or its file cannot be used.
pub(crate) fn find(state: &Path, id: &str) -> Option<RunView> {
    // The id becomes the name of a directory.
    let id = uuid::Uuid::try_parse(id).ok()?;
    let directory = folder(state).join(id.hyphenated().to_string());
    sessions::view(&directory).ok()
}

/// The directory of all runs.
pub(crate) fn folder(state: &Path) -> PathBuf {
    state.join(SESSIONS)
}

/// The newest heartbeat in a run's log.
pub(crate) fn heartbeat(run: &RunView) -> Option<Heartbeat> {
    let line = log_reader::newest(&run.directory, LineKind::Heartbeat, HEARTBEAT_WITHIN);
    line.ok().flatten()?.heartbeat()
}

/// At most `limit` of the last lines of a run's log, as text; none if it cannot be read.
pub(crate) fn tail(run: &RunView, limit: usize, executors: Option<&Executors>) -> Vec<String> {
    if limit == 0 {
        return Vec::new();
    }
    let read = |count: usize| -> Vec<String> {
        let lines = log_reader::tail(&run.directory, count, TAIL_WITHIN).unwrap_or_default();
        lines.iter().flat_map(|line| lines_of(line, executors, SHOWN_CHARS)).collect()
    };
    let mut found = read(limit);
    // Reading more is worthwhile only for a live run.
    if found.len() < limit && run.live {
        found = read(usize::MAX);
    }
    found.split_off(found.len().saturating_sub(limit))
}

/// A run as the list shows it, with these last lines of its log.
pub(crate) fn session(run: &RunView, now: f64, tail: Vec<String>) -> Session {
    let file = &run.file;
    let begun = file.history.first().map_or(now, |entry| entry.ts);
    let changed = file.last().map_or(begun, |entry| entry.ts);
    let until = if run.live { now } else { changed };
    let is_over = file.state.is_terminal();
    let heartbeat = run.live.then(|| heartbeat(run)).flatten();
    let newest = run
        .live
        .then(|| log_reader::newest(&run.directory, LineKind::Activity, TAIL_WITHIN).ok())
        .flatten()
        .flatten();
    let status = if is_over {
        Some(Status::Ended.to_string())
    } else {
        heartbeat.as_ref().map(|heartbeat| heartbeat.status.clone())
    };
    Session {
        id: file.oneshot_id.clone(),
        kind: "run",
        title: elide_middle(&one_line(&file.prompt), SHOWN_CHARS),
        directory: file.directory.to_string_lossy().into_owned(),
        pid: run.runner.map(|runner| runner.pid),
        state: file.state.name(),
        status,
        evidence: heartbeat.map_or_else(Vec::new, |heartbeat| heartbeat.evidence),
        started_at: begun,
        elapsed_ms: millis(until - begun),
        silent_ms: run
            .live
            .then(|| millis(now - newest.map_or(changed, |line| line.ts.max(changed)))),
        duration_ms: is_over.then(|| millis(changed - begun)),
        exit_code: exit_code(run),
        server: ServerName {
            instance: SERVER.to_owned(),
            pid: run.runner.map(|runner| runner.pid),
            own: false,
        },
        can_stop: run.live,
        tail,
        run: Some(RunFacts {
            iteration: file.iteration_count,
            max_iterations: file.max_iterations.get(),
            phase: phase(file.state),
            executor: file.executor.clone(),
            auditor: file.auditor.clone(),
            reason: reason(run),
            feedback: file.feedback.as_ref().map(|text| elide_middle(text, SHOWN_CHARS)),
            cost: cost(run),
            checks: checks(run),
            changed_iterations: changed_iterations(run),
            branch: run.file.work_tree.as_ref().map(|tree| tree.branch.clone()),
            live: run.live,
        }),
        ..Session::default()
    }
}

/// What a run, or one of its iterations, has changed, as text; the error says why there is nothing
/// to show.
pub(crate) fn diff(
    run: &RunView,
    iteration: Option<u32>,
    environment: &[(OsString, OsString)],
) -> Result<String, String> {
    let none = || run.file.why_no_difference(iteration);
    let (from, to) = run.file.snapshots_around(iteration).ok_or_else(none)?;
    let store = run.directory.join(SNAPSHOTS);
    let found = Repository::find(run.file.repository_directory(), &store, environment);
    let repository = found.map_err(|error| error.to_string())?.ok_or_else(none)?;
    let diff = repository.diff(from, to, false).map_err(|error| error.to_string())?;
    Ok(String::from_utf8_lossy(&diff).into_owned())
}

/// The iterations whose differences can be shown.
fn changed_iterations(run: &RunView) -> Vec<u32> {
    let mut iterations: Vec<u32> =
        run.file.snapshots.iter().map(|snapshot| snapshot.iteration).collect();
    iterations.dedup();
    let changed = |iteration: &u32| {
        run.file.snapshots_around(Some(*iteration)).is_some_and(|(from, to)| from != to)
    };
    iterations.into_iter().filter(changed).collect()
}

/// What the agents have cost, if they report it.
fn cost(run: &RunView) -> Option<String> {
    let usage = run.file.usage();
    usage.is_reported().then(|| usage.to_string())
}

/// The last result of each check.
fn checks(run: &RunView) -> Vec<String> {
    let results = |check: &String| {
        run.file.check_results.iter().rev().find(|result| result.command == *check)
    };
    let results = run.file.checks.iter().filter_map(results);
    results.map(|result| elide_middle(&one_line(&result.summary()), SHOWN_CHARS)).collect()
}

/// Why the run is in its state, if there is a reason.
pub(crate) fn reason(run: &RunView) -> Option<String> {
    let reason = run.file.last()?.basis.reason.as_ref()?;
    Some(elide_middle(&one_line(&reason.to_string()), SHOWN_CHARS))
}

/// The exit code of a run that has ended or is paused.
pub(crate) fn exit_code(run: &RunView) -> Option<i32> {
    let position = run.file.position().ok()?;
    position.stage.exit_code().map(i32::from)
}

/// The phase that a state belongs to.
pub(crate) fn phase(state: RunState) -> &'static str {
    match state {
        RunState::Created => "created",
        RunState::WorkerExecuting => "worker",
        RunState::RecoveryPending => "recovery",
        RunState::CheckPending | RunState::CheckExecuting => "check",
        RunState::AuditPending => "audit",
        RunState::AuditorExecuting => "auditor",
        RunState::ReiterationPending => "reiteration",
        RunState::Interrupted => "interrupted",
        RunState::Completed | RunState::Rejected | RunState::Failed => "ended",
    }
}

/// The evidence about a run for a judge. `recent` are the last lines of the log, which is
/// already redacted.
pub(crate) fn evidence(run: &RunView, now: f64, recent: Vec<String>) -> Evidence {
    let since = |at: f64| Duration::try_from_secs_f64(now - at).unwrap_or_default();
    let begun = run.file.history.first().map_or(now, |entry| entry.ts);
    let beat = heartbeat(run);
    let beat = beat.as_ref();
    let last = beat.and_then(|beat| Some((beat.last_change.as_deref()?, beat.last_change_ts?)));
    Evidence {
        session: run.file.oneshot_id.clone(),
        prompt_or_command: elide_middle(&run.file.prompt, SHOWN_CHARS),
        status: if run.live {
            beat.map_or(Status::Progressing, |beat| status(&beat.status))
        } else {
            Status::Ended
        },
        evidence: beat.map_or_else(Vec::new, |beat| beat.evidence.clone()),
        heartbeats: beat.map_or(0, |beat| beat.heartbeats),
        state_changes: beat.map_or(0, |beat| beat.state_changes),
        last_change: last.and_then(|(kind, at)| Some((change_kind(kind)?, since(at)))),
        elapsed: since(begun),
        iteration: Some(u64::from(run.file.iteration_count)),
        recent,
    }
}

/// Parses the status in a heartbeat. Heartbeats do not record what blocks the agent, so `blocked`
/// becomes a wait for the network. An unknown word becomes `slow`.
fn status(word: &str) -> Status {
    match word {
        "ended" => Status::Ended,
        "blocked" => Status::Blocked(BlockedOn::Network),
        "stuck" => Status::Stuck,
        "silent" => Status::Silent,
        "progressing" => Status::Progressing,
        "idle" => Status::Idle,
        _ => Status::Slow,
    }
}

/// Parses the kind of change in a heartbeat.
fn change_kind(word: &str) -> Option<ChangeKind> {
    let kinds = [
        ChangeKind::Output,
        ChangeKind::ChildStarted,
        ChangeKind::ChildEnded,
        ChangeKind::StateChange,
        ChangeKind::ToolCall,
        ChangeKind::ReflectionComplete,
        ChangeKind::PlanGenerated,
        ChangeKind::FileWritten,
    ];
    kinds.into_iter().find(|kind| kind.name() == word)
}

/// A log line as lines for a person, each of at most `limit` characters; possibly none.
fn lines_of(line: &LogLine, executors: Option<&Executors>, limit: usize) -> Vec<String> {
    let role = line.origin.role.map_or("", |role| role.name());
    let texts = describe(line, executors);
    texts
        .iter()
        .map(|text| elide_middle(one_line(&format!("{role} {text}")).trim(), limit))
        .collect()
}

/// A log line as text, uncut.
pub(crate) fn describe(line: &LogLine, executors: Option<&Executors>) -> Vec<String> {
    match line.kind {
        LineKind::Heartbeat => Vec::new(),
        LineKind::Activity => describe_record(line, executors),
        LineKind::StateChange => describe_change(line).into_iter().collect(),
        LineKind::Omitted => describe_gap(line).into_iter().collect(),
        LineKind::Outage => describe_outage(line).into_iter().collect(),
        LineKind::Check => describe_check(line),
        LineKind::Changes => describe_changes(line).into_iter().collect(),
        LineKind::Shortfall => vec![describe_shortfall(line)],
        kind => vec![format!("{}: {}", kind.name().replace('_', " "), summary(&line.data))],
    }
}

fn describe_gap(line: &LogLine) -> Option<String> {
    let omitted = line.omitted()?;
    Some(format!(
        "… {} lines with {} bytes are left out: the log has reached its quota",
        omitted.lines, omitted.bytes
    ))
}

fn describe_outage(line: &LogLine) -> Option<String> {
    let text = |key: &str| line.data.get(key).and_then(Value::as_str);
    let pause = line.data.get("tries_again_in").and_then(Value::as_f64)?;
    let (error, message) = (text("error")?, text("message").unwrap_or_default());
    Some(format!("{error}: {message}; trying again in {pause:.0} s"))
}

fn describe_changes(line: &LogLine) -> Option<String> {
    let summary = line.data.get("summary")?.as_str()?;
    let files = line.data.get("files")?.as_array()?.iter().filter_map(Value::as_str);
    Some(format!("changed {summary}: {}", files.collect::<Vec<_>>().join(", ")))
}

fn describe_check(line: &LogLine) -> Vec<String> {
    let Ok(result) = serde_json::from_value::<CheckResult>(line.data.clone()) else {
        return Vec::new();
    };
    let output = line.data.get("output").and_then(Value::as_str).unwrap_or_default();
    let lines = output.lines().map(|line| format!("  {line}"));
    iter::once(format!("check {}", result.summary())).chain(lines).collect()
}

fn describe_shortfall(line: &LogLine) -> String {
    let text = |key: &str| line.data.get(key).and_then(Value::as_str).unwrap_or_default();
    format!("the worker {}: {}", text("text"), text("advice"))
}

fn describe_change(line: &LogLine) -> Option<String> {
    let change = line.state_change()?;
    let reason = change.basis.reason.map(|reason| format!(" ({reason})"));
    Some(format!("→ {}{}", change.to, reason.unwrap_or_default()))
}

/// The activities in an agent's record; for an unknown executor, the record's text.
fn describe_record(line: &LogLine, executors: Option<&Executors>) -> Vec<String> {
    if let Some(text) = line.data.get("stderr").and_then(Value::as_str) {
        return vec![format!("stderr: {text}")];
    }
    let name = line.origin.executor.as_deref();
    let Some(executor) = name.and_then(|name| executors?.find(name).ok()) else {
        return vec![summary(&line.data)];
    };
    let record = recovery::record(&line.data);
    let activities = executor.classify(&record);
    let texts: Vec<String> = activities.iter().filter_map(describe_activity).collect();
    match record {
        // A message for people between the records.
        Record::Line(text) if texts.is_empty() => vec![text],
        _ => texts,
    }
}

/// An agent's activity, if it is worth a line.
fn describe_activity(activity: &Activity) -> Option<String> {
    Some(match activity {
        Activity::Text(text) => text.clone(),
        Activity::Reflection(text) => format!("thinks: {text}"),
        Activity::Plan(text) => format!("plans: {text}"),
        Activity::ToolCall { name, argument } => format!("{name}: {argument}"),
        Activity::ToolResult { text, failed: true } => format!("failed: {text}"),
        Activity::ToolResult { text, .. } => format!("result: {text}"),
        Activity::FileWritten { path } => format!("wrote {path}"),
        Activity::Denied(what) => format!("denied: {what}"),
        Activity::Retry(retry) => retry.to_string(),
        Activity::Final(last) if last.error.is_some() => {
            format!("ends with an error: {}", last.text)
        }
        Activity::Final(last) => format!("ends: {}", last.text),
        Activity::Session { .. } | Activity::Usage(_) | Activity::Other => return None,
    })
}

/// The summary of some data, or all of it as JSON.
fn summary(data: &Value) -> String {
    let text = SUMMARY_FIELDS.iter().find_map(|key| data.get(key)?.as_str());
    text.map_or_else(|| data.to_string(), str::to_owned)
}
