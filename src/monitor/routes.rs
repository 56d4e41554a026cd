//! What answers each path of the HTTP interface (progress.md §5).
//!
//! Who may ask at all is decided before (`access`). Limits: tasks of other servers are
//! shown and never touched.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::Serialize;
use serde_json::json;

use super::answers::{Progress, Standing};
use super::checks::{self, Asked};
use super::events::{Last, ListEvents, TaskEvents};
use super::history::History;
use super::output::Source;
use super::request::{Method, Request};
use super::response::{Response, Routes};
use super::run_events::RunEvents;
use super::runs;
use super::session::{Server, millis, now};
use super::sessions::{Found, Sessions};
use super::tasks::{Task, state_word};
use crate::agent::checks::Checks;
use crate::base::clock::{Clock, SystemClock};
use crate::oneshot::sessions::{self as oneshot, RunView, StopError, Stopped};
use crate::oneshot::stage::State;
use crate::task::kill_run::{Receipt, SurvivalReason};
use crate::task::live::{Cancel, Look};
use crate::task::registry::TaskHandle;
use crate::task::sending::NoReceipt;
use crate::task::state::KillOrder;

/// After a kill's receipt the end itself is waited for so long.
const END_AFTER_KILL: Duration = Duration::from_secs(2);

/// All paths of the interface.
pub struct Api {
    sessions: Arc<Sessions>,
    checks: Checks,
}

/// What a path is about.
enum Place<'a> {
    Sessions,
    SessionEvents(&'a str),
    Events,
    History,
    Progress(&'a str),
    CheckStatus,
    Check(&'a str),
    Status,
    Stop,
    Kill(&'a str),
}

impl<'a> Place<'a> {
    fn of(segments: &[&'a str]) -> Option<Place<'a>> {
        match segments.strip_prefix(&["api"])? {
            ["sessions"] => Some(Place::Sessions),
            ["sessions", id, "events"] => Some(Place::SessionEvents(id)),
            ["events"] => Some(Place::Events),
            ["history"] => Some(Place::History),
            ["autonomous", "progress", id] => Some(Place::Progress(id)),
            ["autonomous", "check-status"] => Some(Place::CheckStatus),
            ["autonomous", "check-status", id] => Some(Place::Check(id)),
            ["chat", "autonomous", "status"] => Some(Place::Status),
            ["autonomous", "stop"] => Some(Place::Stop),
            ["tasks", id, "kill"] => Some(Place::Kill(id)),
            _ => None,
        }
    }

    fn method(&self) -> Method {
        match self {
            Place::CheckStatus | Place::Stop | Place::Kill(_) => Method::Post,
            _ => Method::Get,
        }
    }
}

impl Api {
    /// The interface to these sessions.
    pub fn new(sessions: Sessions, checks: Checks) -> Api {
        Api {
            sessions: Arc::new(sessions),
            checks,
        }
    }
}

impl Routes for Api {
    fn answer(&self, request: &Request) -> Response {
        let segments = request.segments();
        let Some(place) = Place::of(&segments) else {
            return Response::not_found();
        };
        match (place.method(), request.method) {
            (Method::Get, Method::Post) => return Response::NotAllowed("GET, HEAD"),
            (Method::Post, Method::Get) => return Response::NotAllowed("POST"),
            _ => {}
        }
        match place {
            Place::Sessions => Response::json(200, &self.sessions.list()),
            Place::SessionEvents(id) => self.session_events(id, request),
            Place::Events => {
                Response::Events(Box::new(ListEvents::new(Arc::clone(&self.sessions))))
            }
            Place::History => Response::json(200, &History::of(self.sessions.recorder(), now())),
            Place::Progress(id) => {
                self.with(id, |found| Response::json(200, &Progress::of(&found)))
            }
            Place::CheckStatus => self.check_status(request),
            Place::Check(id) => self.check(id, request),
            Place::Status => self.status(request),
            Place::Stop => self.stop(request),
            Place::Kill(id) => self.with(id, |found| self.kill(&found)),
        }
    }

    fn close(&self) {
        self.checks.close();
    }
}

impl Api {
    fn with(&self, id: &str, answer: impl FnOnce(Found) -> Response) -> Response {
        match self.sessions.find(id) {
            Some(found) => answer(found),
            None => unknown(id),
        }
    }

    fn session_events(&self, id: &str, request: &Request) -> Response {
        let last = Last::of(request.header("Last-Event-ID"));
        let sessions = Arc::clone(&self.sessions);
        self.with(id, |found| match found {
            // A browser that comes back after the end is told to stay away.
            Found::Task(task) if last == Last::End && task.entry.is_over() => Response::NoContent,
            Found::Run(run) if last == Last::End && !run.live => Response::NoContent,
            Found::Task(task) => Response::Events(Box::new(TaskEvents::new(sessions, *task, last))),
            Found::Run(run) => match RunEvents::new(*run, last) {
                Ok(events) => Response::Events(Box::new(events)),
                Err(error) => Response::error(500, &format!("cannot read its log: {error}")),
            },
        })
    }

    fn check_status(&self, request: &Request) -> Response {
        match Asked::read(&request.body) {
            Ok(asked) => self.with(&asked.session_id, |found| {
                let evidence = checks::evidence_of(&self.sessions, &found);
                checks::start(&self.checks, &asked, evidence)
            }),
            Err(error) => Response::error(400, &error),
        }
    }

    fn check(&self, id: &str, request: &Request) -> Response {
        let wait = match request.query("wait_ms").map(str::parse) {
            None => Duration::ZERO,
            Some(Ok(milliseconds)) => Duration::from_millis(milliseconds),
            Some(Err(_)) => Duration::MAX,
        };
        match wait <= checks::MAX_WAIT {
            true => checks::result(&self.checks, id, wait),
            false => Response::error(400, "wait_ms is a number from 0 to 5000"),
        }
    }

    fn status(&self, request: &Request) -> Response {
        let id = request.query("sessionId").or(request.query("session_id"));
        match id {
            Some(id) => self.with(id, |found| Response::json(200, &Standing::of(&found))),
            None => Response::error(400, "say which: ?sessionId=…"),
        }
    }

    fn stop(&self, request: &Request) -> Response {
        match Asked::read(&request.body) {
            Ok(asked) => self.with(&asked.session_id, |found| match found {
                Found::Run(run) => self.stop_run(&run),
                Found::Task(task) => {
                    let id = &task.entry.id;
                    let way =
                        format!("{id} is a task and no run: POST /api/tasks/{id}/kill ends it");
                    Response::error(409, &way)
                }
            }),
            Err(error) => Response::error(400, &error),
        }
    }

    fn stop_run(&self, run: &RunView) -> Response {
        let redactor = Arc::clone(self.sessions.redactor());
        let stopped = oneshot::stop(&run.directory, redactor, SystemClock.now());
        match stopped {
            Ok(stopped) => Response::json(200, &StoppedRun::of(run, stopped)),
            Err(error) => {
                let status = match error {
                    StopError::Over(_)
                    | StopError::OutOfSight
                    | StopError::NotPermitted(_)
                    | StopError::Open(_) => 409,
                    StopError::StillLive { .. } => 503,
                    StopError::Load(_) | StopError::Apply(_) => 500,
                };
                Response::error(status, &error.to_string())
            }
        }
    }

    fn kill(&self, found: &Found) -> Response {
        let task = match found {
            Found::Task(task) => task,
            Found::Run(run) => {
                let way = format!("{} is a run: POST /api/autonomous/stop stops it", run.id());
                return Response::error(409, &way);
            }
        };
        let (own, handle) = match (self.sessions.own(), &task.source) {
            (Some(own), Source::Own(handle)) => (own, handle),
            _ => return of_another(&task.server),
        };
        let id = &task.entry.id;
        match own.kill(handle, KillOrder::InOrder) {
            Ok(receipt) => {
                await_end(handle);
                let task = self.sessions.again(task);
                Response::json(200, &Killed::of(task.as_ref(), id, &receipt))
            }
            Err(NoReceipt::Ended) => {
                Response::error(409, &format!("task {id} has ended, nothing of it lives"))
            }
            Err(NoReceipt::Busy) => Response::error(
                503,
                &format!("too many orders wait for task {id}: ask again"),
            ),
            Err(NoReceipt::Late) => Response::Json(
                202,
                json!({"taskId": id, "state": "running", "message": "the kill goes on"})
                    .to_string(),
            ),
        }
    }
}

fn unknown(id: &str) -> Response {
    Response::error(404, &format!("there is no task or run {id:?}"))
}

/// Only the server that runs a task can end it.
fn of_another(server: &Server) -> Response {
    let pid = server
        .pid
        .map_or_else(String::new, |pid| format!(" (pid {pid})"));
    let message = format!(
        "the task is of the server {}{pid}: only that one can end it",
        server.instance
    );
    Response::Json(409, json!({"error": message, "server": server}).to_string())
}

fn await_end(task: &TaskHandle) {
    let limit = Instant::now() + END_AFTER_KILL;
    task.live.wait_for(
        Some(limit),
        &Cancel::default(),
        |state| match state.ended {
            Some(_) => Look::Found(()),
            None => Look::WaitUntil(None),
        },
        Instant::now,
    );
}

/// How a run was stopped.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct StoppedRun<'a> {
    session_id: &'a str,
    state: &'static str,
    reason: Option<String>,
}

impl StoppedRun<'_> {
    fn of(run: &RunView, stopped: Stopped) -> StoppedRun<'_> {
        let after = oneshot::view(&run.directory).ok();
        StoppedRun {
            session_id: run.id(),
            state: match (stopped, &after) {
                (Stopped::ByRunner { state }, _) => state.name(),
                (Stopped::Here { .. }, Some(after)) => after.file.state.name(),
                (Stopped::Here { .. }, None) => State::Failed.name(),
            },
            reason: after.as_ref().and_then(runs::reason),
        }
    }
}

/// What a kill did.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Killed<'a> {
    task_id: &'a str,
    state: &'static str,
    exit_code: Option<i32>,
    signalled: usize,
    gone: usize,
    survivors: Vec<Survivor<'a>>,
    took_ms: u64,
}

#[derive(Serialize)]
struct Survivor<'a> {
    pid: i32,
    name: &'a str,
    why: &'static str,
}

impl<'a> Killed<'a> {
    fn of(task: Option<&Task>, id: &'a str, receipt: &'a Receipt) -> Killed<'a> {
        let entry = task.map(|task| &task.entry);
        Killed {
            task_id: id,
            state: entry.map_or("killed", state_word),
            exit_code: entry.and_then(|entry| entry.exit_code),
            signalled: receipt.signalled,
            gone: receipt.gone,
            survivors: receipt
                .survivors
                .iter()
                .map(|survivor| Survivor {
                    pid: survivor.pid,
                    name: &survivor.name,
                    why: match survivor.why {
                        SurvivalReason::OtherUser => "other_user",
                        SurvivalReason::StillAlive => "still_alive",
                    },
                })
                .collect(),
            took_ms: millis(receipt.took.as_secs_f64()),
        }
    }
}
