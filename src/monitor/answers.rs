//! What is said of one session by the paths that the seed names: its progress, and the
//! state that waiting clients look at.

use serde::Serialize;

use super::runs;
use super::session::{millis, now};
use super::sessions::Found;
use super::tasks::{Task, state_word};
use crate::oneshot::sessions::RunView;
use crate::oneshot::stage::State;

/// The seed's answer about a session's progress.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Progress {
    session_id: String,
    alive: bool,
    stuck: bool,
    progress: Counts,
    current_phase: &'static str,
    iteration: Option<u32>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Counts {
    heartbeats: u64,
    state_changes: u64,
    last_change: Option<String>,
    /// Milliseconds.
    last_change_ago: Option<u64>,
}

impl Progress {
    /// Of a session, now.
    pub fn of(found: &Found) -> Progress {
        match found {
            Found::Task(task) => Progress::of_task(task),
            Found::Run(run) => Progress::of_run(run),
        }
    }

    fn of_task(task: &Task) -> Progress {
        let (entry, now) = (&task.entry, now());
        let progress = entry.progress.as_ref();
        let last = progress.and_then(|progress| progress.last_change);
        Progress {
            session_id: entry.id.clone(),
            alive: entry.alive(now),
            stuck: entry.stuck(now),
            progress: Counts {
                heartbeats: progress.map_or(0, |progress| progress.heartbeats),
                state_changes: progress.map_or(0, |progress| progress.state_changes),
                last_change: last.map(|(kind, _)| kind.name().to_owned()),
                last_change_ago: last.map(|(_, at)| millis(now - at)),
            },
            current_phase: match entry.outcome {
                None => "execution",
                Some(_) => "ended",
            },
            iteration: None,
        }
    }

    fn of_run(run: &RunView) -> Progress {
        let beat = runs::heartbeat(run).map(|(beat, _)| beat);
        let beat = beat.as_ref();
        let at = beat.and_then(|beat| beat.last_change_ts);
        // Before the first sign of life it has just begun.
        let lives = beat.map_or(run.file.state.is_executing(), |beat| beat.alive);
        Progress {
            session_id: run.file.oneshot_id.clone(),
            alive: run.live && lives,
            stuck: run.live && beat.is_some_and(|beat| beat.stuck),
            progress: Counts {
                heartbeats: beat.map_or(0, |beat| beat.heartbeats),
                state_changes: beat.map_or(0, |beat| beat.state_changes),
                last_change: beat.and_then(|beat| beat.last_change.clone()),
                last_change_ago: at.map(|at| millis(now() - at)),
            },
            current_phase: runs::phase(run.file.state),
            iteration: Some(run.file.iteration_count),
        }
    }
}

/// What clients that wait for the end of a session look at: `running`, `completed`,
/// `failed` or, of a run that can be resumed, `interrupted`; and why.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Standing {
    session_id: String,
    status: &'static str,
    iteration: Option<u32>,
    error: Option<String>,
}

impl Standing {
    /// Of a session, now.
    pub fn of(found: &Found) -> Standing {
        match found {
            Found::Task(task) => Standing::of_task(task),
            Found::Run(run) => Standing::of_run(run),
        }
    }

    fn of_task(task: &Task) -> Standing {
        let entry = &task.entry;
        let code = entry.exit_code.unwrap_or_default();
        let (status, error) = match state_word(entry) {
            word @ ("running" | "completed") => (word, None),
            "failed" => ("failed", Some(format!("exit code {code}"))),
            word => ("failed", Some(format!("{word} (exit code {code})"))),
        };
        Standing {
            session_id: entry.id.clone(),
            status,
            iteration: None,
            error,
        }
    }

    fn of_run(run: &RunView) -> Standing {
        let reason = || runs::reason(run).or_else(|| Some(run.file.state.name().to_owned()));
        let (status, error) = match run.file.state {
            State::Completed => ("completed", None),
            State::Rejected | State::Failed => ("failed", reason()),
            _ if run.live => ("running", None),
            State::Interrupted => ("interrupted", reason()),
            _ => ("interrupted", Some("its runner died".to_owned())),
        };
        Standing {
            session_id: run.file.oneshot_id.clone(),
            status,
            iteration: Some(run.file.iteration_count),
            error,
        }
    }
}
