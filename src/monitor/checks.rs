//! Status checks by HTTP: what is asked and answered, around [`crate::agent::checks`].

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::response::Response;
use super::runs;
use super::session::{millis, now};
use super::sessions::{Found as Session, Sessions};
use super::tasks::{Task, evidence};
use crate::agent::checks::{CheckState, Checks, Refused};
use crate::agent::judge::{Evidence, Finding};
use crate::progress::outlook::Status;

/// The longest wait for a result (progress.md §5).
pub const MAX_WAIT: Duration = Duration::from_secs(5);
/// Lines of output that a judge is given.
const RECENT_LINES: usize = 20;
/// The longest id of a check that a caller may choose.
const MAX_ID_CHARS: usize = 128;

/// What a check is asked for by.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Asked {
    /// The task or run.
    pub session_id: String,
    /// The id that the check is to have; one is made if there is none.
    pub check_id: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Started<'a> {
    check_id: &'a str,
    state: &'static str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Told<'a> {
    check_id: &'a str,
    state: &'static str,
    result: Option<Found>,
    error: Option<String>,
}

#[derive(Serialize)]
struct Found {
    /// `A` to `D`, or `unknown`.
    status: String,
    reason: String,
    /// Unix milliseconds.
    ts: u64,
}

impl Asked {
    /// Reads a request's body.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn read(body: &[u8]) -> Result<Asked, String> {
        let asked: Asked = serde_json::from_slice(body)
            .map_err(|error| format!("the body is to be {{\"sessionId\": …}}: {error}"))?;
        let id_fits = |id: &String| !id.is_empty() && id.chars().count() <= MAX_ID_CHARS;
        match asked.check_id.as_ref().is_none_or(id_fits) {
            true => Ok(asked),
            false => Err(format!("a checkId has 1 to {MAX_ID_CHARS} characters")),
        }
    }
}

/// Starts a check of this session.
pub fn start(checks: &Checks, asked: &Asked, evidence: Evidence) -> Response {
    let started = checks.start(&asked.session_id, asked.check_id.as_deref(), evidence);
    match started {
        Ok(id) => Response::json(
            202,
            &Started {
                check_id: &id,
                state: "pending",
            },
        ),
        Err(refused) => {
            let status = match refused {
                Refused::SameId | Refused::SameSession => 409,
                Refused::TooMany => 429,
                Refused::Disabled | Refused::Thread(_) => 503,
            };
            Response::error(status, &refused.to_string())
        }
    }
}

/// How far a check is; waits so long for its end.
pub fn result(checks: &Checks, id: &str, wait: Duration) -> Response {
    let Some(check) = checks.look(id, wait) else {
        let message = "there is no check of this id; results are kept for ten minutes";
        return Response::error(404, message);
    };
    let (state, result, error) = match check.state {
        CheckState::Pending => ("pending", None, None),
        CheckState::Failed(why) => ("error", None, Some(why)),
        CheckState::Done(judgement) => {
            let found = Found {
                status: status_word(judgement.finding),
                reason: judgement.reason,
                ts: millis(check.at),
            };
            ("done", Some(found), None)
        }
    };
    Response::json(
        200,
        &Told {
            check_id: id,
            state,
            result,
            error,
        },
    )
}

fn status_word(finding: Finding) -> String {
    finding
        .letter()
        .map_or_else(|| "unknown".to_owned(), |letter| letter.to_string())
}

/// What is known of a session, for a judge.
pub fn evidence_of(sessions: &Sessions, session: &Session) -> Evidence {
    match session {
        Session::Task(task) => evidence_of_task(sessions, task),
        Session::Run(run) => runs::evidence(run, now(), sessions.log_of(run, RECENT_LINES)),
    }
}

fn evidence_of_task(sessions: &Sessions, task: &Task) -> Evidence {
    let (entry, now) = (&task.entry, now());
    let progress = entry.progress.as_ref();
    let since = |at: f64| Duration::try_from_secs_f64(now - at).unwrap_or_default();
    let lines = task.source.tail(entry, RECENT_LINES);
    let redact = |line: &String| sessions.redactor().redact(line).into_owned();
    Evidence {
        session: entry.id.clone(),
        what: entry.command.clone(),
        // What has just begun is new.
        status: entry.status(now).unwrap_or(Status::Progressing),
        evidence: evidence(entry, now),
        heartbeats: progress.map_or(0, |progress| progress.heartbeats),
        state_changes: progress.map_or(0, |progress| progress.state_changes),
        last_change: progress
            .and_then(|progress| progress.last_change)
            .map(|(kind, at)| (kind, since(at))),
        elapsed: match entry.duration_ms {
            Some(duration) => Duration::from_millis(duration),
            None => since(entry.started),
        },
        iteration: None,
        recent: lines.iter().map(redact).collect(),
    }
}
