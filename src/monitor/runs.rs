//! Agent runs as the monitor shows them, from their files in the state directory.
//!
//! How a live run is, its newest heartbeat says. Limits: reads only; whoever stops a run
//! does it by [`crate::oneshot::sessions::stop`].

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::run_words;
use super::session::{RunFacts, Server, Session, millis, one_line};
use crate::agent::executor::Executors;
use crate::agent::judge::Evidence;
use crate::oneshot::log::{Heartbeat, Kind};
use crate::oneshot::log_reader;
use crate::oneshot::run::SESSIONS;
use crate::oneshot::sessions::{self, RunView};
use crate::oneshot::stage::State;
use crate::progress::outlook::{BlockedOn, Status};
use crate::progress::tracker::ChangeKind;
use crate::text::lines::clip;

/// How far back in a log the newest sign of life is looked for: agents may print much in
/// between.
const HEARTBEAT_WITHIN: u64 = 1 << 20;
/// How far back its last lines are.
const TAIL_WITHIN: u64 = 256 * 1024;
/// How much of a line, a prompt or a feedback is shown.
const SHOWN_CHARS: usize = 400;
/// What stands for the server of a run: whoever started it.
const SERVER: &str = "oneshot";

/// The run of this id; `None`: there is none, or its file cannot be used.
pub fn find(state: &Path, id: &str) -> Option<RunView> {
    // The id becomes a directory's name.
    let id = uuid::Uuid::try_parse(id).ok()?;
    let directory = folder(state).join(id.hyphenated().to_string());
    sessions::view(&directory).ok()
}

/// Where all runs are.
pub fn folder(state: &Path) -> PathBuf {
    state.join(SESSIONS)
}

/// What a run's newest sign of life says, and when.
pub fn heartbeat(run: &RunView) -> Option<(Heartbeat, f64)> {
    let line = log_reader::newest(&run.directory, Kind::Heartbeat, HEARTBEAT_WITHIN);
    let line = line.ok().flatten()?;
    Some((line.heartbeat()?, line.ts))
}

/// The last lines of a run's log in words, at most so many; none when it cannot be read.
pub fn tail(run: &RunView, most: usize, executors: Option<&Executors>) -> Vec<String> {
    if most == 0 {
        return Vec::new();
    }
    let said = |count: usize| -> Vec<String> {
        let lines = log_reader::tail(&run.directory, count, TAIL_WITHIN).unwrap_or_default();
        let said = lines.iter();
        said.flat_map(|line| run_words::of(line, executors, SHOWN_CHARS))
            .collect()
    };
    let mut found = said(most);
    // What ends a run stands among its newest lines, and nobody waits for more of it.
    if found.len() < most && run.live {
        found = said(usize::MAX);
    }
    found.split_off(found.len().saturating_sub(most))
}

/// A run as the list shows it, with the last lines of its log.
pub fn session(run: &RunView, now: f64, tail: Vec<String>) -> Session {
    let file = &run.file;
    let begun = file.history.first().map_or(now, |entry| entry.ts);
    let changed = file.last().map_or(begun, |entry| entry.ts);
    let until = if run.live { now } else { changed };
    let is_over = file.state.is_terminal();
    let heartbeat = run.live.then(|| heartbeat(run)).flatten();
    let heartbeat = heartbeat.map(|(heartbeat, _)| heartbeat);
    let newest = run
        .live
        .then(|| log_reader::newest(&run.directory, Kind::Activity, TAIL_WITHIN).ok())
        .flatten()
        .flatten();
    let status = match is_over {
        true => Some(Status::Ended.to_string()),
        false => heartbeat.as_ref().map(|heartbeat| heartbeat.status.clone()),
    };
    Session {
        id: file.oneshot_id.clone(),
        kind: "run",
        title: clip(&one_line(&file.prompt), SHOWN_CHARS),
        description: None,
        directory: file.directory.display().to_string(),
        pid: run.runner.map(|runner| runner.pid),
        pty: false,
        state: file.state.name(),
        status,
        evidence: heartbeat.map_or_else(Vec::new, |heartbeat| heartbeat.evidence),
        degraded: false,
        waiting_for: None,
        prompt: None,
        started_at: begun,
        elapsed_ms: millis(until - begun),
        silent_ms: run
            .live
            .then(|| millis(now - newest.map_or(changed, |line| line.ts.max(changed)))),
        duration_ms: is_over.then(|| millis(changed - begun)),
        exit_code: exit_code(run),
        leftovers: Vec::new(),
        estimate: None,
        remaining_ms: None,
        server: Server {
            instance: SERVER.to_owned(),
            pid: run.runner.map(|runner| runner.pid),
            own: false,
        },
        can_kill: false,
        can_stop: run.live,
        tail,
        run: Some(RunFacts {
            iteration: file.iteration_count,
            max_iterations: file.max_iterations.get(),
            phase: phase(file.state),
            executor: file.executor.clone(),
            auditor: file.auditor.clone(),
            reason: reason(run),
            feedback: file.feedback.as_ref().map(|text| clip(text, SHOWN_CHARS)),
            live: run.live,
        }),
    }
}

/// Why it is in its state, where that has a reason.
pub fn reason(run: &RunView) -> Option<String> {
    let reason = run.file.last()?.reason.as_ref()?;
    Some(clip(&one_line(&reason.to_string()), SHOWN_CHARS))
}

/// The exit code that it ended with.
pub fn exit_code(run: &RunView) -> Option<i32> {
    let position = run.file.position().ok()?;
    position.stage.exit_code().map(i32::from)
}

/// What it is at.
pub fn phase(state: State) -> &'static str {
    match state {
        State::Created => "created",
        State::WorkerExecuting => "worker",
        State::RecoveryPending => "recovery",
        State::AuditPending => "audit",
        State::AuditorExecuting => "auditor",
        State::ReiterationPending => "reiteration",
        State::Interrupted => "interrupted",
        State::Completed | State::Rejected | State::Failed => "ended",
    }
}

/// What is known of a run, for a judge; its log, of which these are the last lines, is
/// redacted as it is written.
pub fn evidence(run: &RunView, now: f64, recent: Vec<String>) -> Evidence {
    let since = |at: f64| Duration::try_from_secs_f64(now - at).unwrap_or_default();
    let begun = run.file.history.first().map_or(now, |entry| entry.ts);
    let beat = heartbeat(run).map(|(heartbeat, _)| heartbeat);
    let beat = beat.as_ref();
    let last = beat.and_then(|beat| Some((beat.last_change.as_deref()?, beat.last_change_ts?)));
    Evidence {
        session: run.file.oneshot_id.clone(),
        what: clip(&run.file.prompt, SHOWN_CHARS),
        status: match run.live {
            false => Status::Ended,
            true => beat.map_or(Status::Progressing, |beat| status(&beat.status)),
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

/// The status of a heartbeat's word.
fn status(word: &str) -> Status {
    match word {
        "ended" => Status::Ended,
        "blocked" => Status::Blocked(BlockedOn::Network),
        "stuck" => Status::Stuck,
        "silent" => Status::Silent,
        "progressing" => Status::Progressing,
        _ => Status::Slow,
    }
}

/// The kind of a heartbeat's word.
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
