//! The HTTP interface: the answer for each path, to requests that `http::access` has checked.
//!
//! Text typed into a task is neither logged nor kept, nor repeated in an error.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::{Value, json};

use super::events::{FollowedRun, FollowedTask, LastSent, ListEvents, SessionEvents};
use super::hosts::{self, HostLists};
use super::http::request::{Method, Request};
use super::http::response::{Response, Routes};
use super::output::OutputSource;
use super::runs;
use super::session::{millis, now};
use super::sessions::{FoundSession, Sessions, Task, evidence};
use crate::agent::checks::{CheckRefusal, CheckState, Checks};
use crate::agent::judge::{Evidence, Finding};
use crate::alan::store::circuits::CircuitStatus;
use crate::alan::store::plots::{Plot, PlottedRun};
use crate::base::cancel::Cancel;
use crate::base::clock::{Clock, SystemClock};
use crate::history::recorder::Recorder;
use crate::oneshot::sessions::{self as oneshot, RunView, StopError, StopOutcome};
use crate::oneshot::state::RunState;
use crate::peer;
use crate::peer::hosts::Hosts;
use crate::progress::status_forecast::Status;
use crate::task::describe;
use crate::task::live::WaitStep;
use crate::task::registry::TaskHandle;
use crate::task::state::KillRequest;
use crate::task::supervisor::{KILL_LIMIT, KillError};
use crate::task::termination::Receipt;
use crate::text::foreign;

/// The longest wait for a result.
const MAX_WAIT: Duration = Duration::from_secs(5);
/// The longest difference that is shown, in bytes.
const MAX_DIFF: usize = 256 << 10;
/// Lines of output that a judge gets.
const RECENT_LINES: usize = 20;
/// The longest check id that a client may choose.
const MAX_ID_CHARS: usize = 128;
/// The maximum number of kinds of commands in the history.
const MAX_TEMPLATES: usize = 30;
/// The maximum number of runs of each kind in the history.
const MAX_RUNS: usize = 50;
/// Why nothing can be typed into a task of this process.
const NO_SOCKET: &str =
    "the server has no control socket, since it has no state directory: see `zsh-tool doctor`";
/// How long to wait for a task's end after a kill.
const END_AFTER_KILL: Duration = Duration::from_secs(2);

/// The routes of the HTTP interface.
pub(crate) struct Api {
    sessions: Arc<Sessions>,
    checks: Checks,
    /// The hosts on which this process runs commands as well.
    hosts: Option<Arc<Hosts>>,
}

impl Api {
    pub(crate) fn new(sessions: Sessions, checks: Checks, hosts: Option<Arc<Hosts>>) -> Api {
        Api { sessions: Arc::new(sessions), checks, hosts }
    }
}

impl Routes for Api {
    fn answer(&self, request: &Request) -> Response {
        let segments = request.segments();
        let Some(path) = segments.strip_prefix(&["api"]) else {
            return Response::not_found();
        };
        if let Some(hosts) = &self.hosts
            && let Some(response) = hosts::forward(hosts, request)
        {
            return response;
        }
        let answered = match (path, request.method) {
            (["sessions"], Method::Get) => {
                let of_hosts = self.hosts.clone().map(HostLists::current).unwrap_or_default();
                Ok(Response::json(200, &self.sessions.list().with(of_hosts)))
            }
            (["sessions", id, "events"], Method::Get) => self.session_events(id, request),
            (["sessions", id, "diff"], Method::Get) => self.diff(id, request),
            (["events"], Method::Get) => Ok(Response::Events(Box::new(ListEvents::new(
                Arc::clone(&self.sessions),
                self.hosts.clone(),
            )))),
            (["history"], Method::Get) => {
                Ok(Response::json(200, &history(&self.sessions.recorder, now())))
            }
            (["autonomous", "progress", id], Method::Get) => {
                self.find(id).map(|found| Response::json(200, &progress(&found)))
            }
            (["autonomous", "check-status", id], Method::Get) => self.check(id, request),
            (["chat", "autonomous", "status"], Method::Get) => self.status(request),
            (["autonomous", "check-status"], Method::Post) => self.start_check(request),
            (["autonomous", "stop"], Method::Post) => self.stop(request),
            (["tasks", id, "kill"], Method::Post) => self.kill(id),
            (["tasks", id, "input"], Method::Post) => self.input(id, request),
            (
                ["autonomous", "check-status" | "stop"] | ["tasks", _, "kill" | "input"],
                Method::Get,
            ) => Ok(Response::NotAllowed("POST")),
            (
                ["sessions"]
                | ["sessions", _, "events" | "diff"]
                | ["events"]
                | ["history"]
                | ["autonomous", "progress", _]
                | ["autonomous", "check-status", _]
                | ["chat", "autonomous", "status"],
                Method::Post,
            ) => Ok(Response::NotAllowed("GET, HEAD")),
            _ => Ok(Response::not_found()),
        };
        answered.unwrap_or_else(|error| error)
    }

    fn close(&self) {
        self.checks.close();
    }
}

/// The answer to a request; an error response is the error.
type Answer = Result<Response, Response>;

impl Api {
    fn find(&self, id: &str) -> Result<FoundSession, Response> {
        let unknown = || Response::error(404, &format!("there is no task or run {id:?}"));
        self.sessions.find(id).ok_or_else(unknown)
    }

    fn session_events(&self, id: &str, request: &Request) -> Answer {
        let last = LastSent::parse(request.header("Last-Event-ID"));
        let sessions = Arc::clone(&self.sessions);
        Ok(match self.find(id)? {
            // 204 keeps a browser from reconnecting after the end.
            FoundSession::Task(task) if last == LastSent::End && task.snapshot.is_over() => {
                Response::NoContent
            }
            FoundSession::Run(run) if last == LastSent::End && !run.live => Response::NoContent,
            FoundSession::Task(task) => {
                let task = FollowedTask::new(sessions, *task, last);
                Response::Events(Box::new(SessionEvents::new(task)))
            }
            FoundSession::Run(run) => match FollowedRun::new(*run, last) {
                Ok(run) => Response::Events(Box::new(SessionEvents::new(run))),
                Err(error) => Response::error(500, &format!("cannot read its log: {error}")),
            },
        })
    }

    /// What a run, or one of its iterations, has changed.
    fn diff(&self, id: &str, request: &Request) -> Answer {
        let FoundSession::Run(run) = self.find(id)? else {
            return Err(Response::error(404, "only agent runs have differences"));
        };
        let iteration = request.query("iteration").map(str::parse).transpose();
        let iteration =
            iteration.map_err(|_| Response::error(400, "iteration is a whole number"))?;
        let diff = runs::diff(&run, iteration, &std::env::vars_os().collect::<Vec<_>>());
        let diff = diff.map_err(|why| Response::error(404, &why))?;
        let diff = self.sessions.redactor.redact(&diff);
        let shown = foreign::lines(&diff);
        let text = shown.get(..shown.floor_char_boundary(MAX_DIFF)).unwrap_or_default();
        let cut = text.len() < shown.len();
        Ok(Response::json(200, &json!({"diff": text, "cut": cut, "iteration": iteration})))
    }

    /// Starts a check of a session.
    fn start_check(&self, request: &Request) -> Answer {
        let body = SessionRequest::read(&request.body)?;
        let evidence = self.evidence(&self.find(&body.session_id)?);
        let started = self.checks.start(&body.session_id, body.check_id.as_deref(), evidence);
        Ok(match started {
            Ok(id) => Response::json(202, &json!({"checkId": id, "state": "pending"})),
            Err(refused) => {
                let status = match refused {
                    CheckRefusal::SameId | CheckRefusal::SameSession => 409,
                    CheckRefusal::TooMany => 429,
                    CheckRefusal::Disabled | CheckRefusal::Thread(_) => 503,
                };
                Response::error(status, &refused.to_string())
            }
        })
    }

    /// The state of a check. Waits for its end for at most the time that the client requests.
    fn check(&self, id: &str, request: &Request) -> Answer {
        let wait = match request.query("wait_ms").map(str::parse) {
            None => Duration::ZERO,
            Some(Ok(milliseconds)) => Duration::from_millis(milliseconds),
            Some(Err(_)) => Duration::MAX,
        };
        if wait > MAX_WAIT {
            return Err(Response::error(400, "wait_ms is a number from 0 to 5000"));
        }
        let Some(check) = self.checks.wait_for(id, wait) else {
            let message = "there is no check with this id; results are kept for ten minutes";
            return Err(Response::error(404, message));
        };
        let (state, result, error) = match check.state {
            CheckState::Pending => ("pending", None, None),
            CheckState::Failed(why) => ("error", None, Some(why)),
            CheckState::Done(judgement) => {
                let result = json!({
                    "status": finding_word(judgement.finding),
                    "reason": judgement.reason,
                    "ts": millis(check.at),
                });
                ("done", Some(result), None)
            }
        };
        let answer = json!({"checkId": id, "state": state, "result": result, "error": error});
        Ok(Response::json(200, &answer))
    }

    /// The evidence about a session for a judge.
    fn evidence(&self, session: &FoundSession) -> Evidence {
        match session {
            FoundSession::Task(task) => self.evidence_of_task(task),
            FoundSession::Run(run) => {
                runs::evidence(run, now(), self.sessions.log_of(run, RECENT_LINES))
            }
        }
    }

    fn evidence_of_task(&self, task: &Task) -> Evidence {
        let (snapshot, now) = (&task.snapshot, now());
        let progress = snapshot.probed.progress.as_ref();
        let since = |at: f64| Duration::try_from_secs_f64(now - at).unwrap_or_default();
        let lines = task.source.tail(snapshot, RECENT_LINES);
        let redact = |line: &String| self.sessions.redactor.redact(line).into_owned();
        Evidence {
            session: snapshot.facts.id.clone(),
            prompt_or_command: snapshot.facts.command.clone(),
            // A task without a status has just started.
            status: snapshot.status(now).unwrap_or(Status::Progressing),
            evidence: evidence(snapshot, now),
            heartbeats: progress.map_or(0, |progress| progress.heartbeats),
            state_changes: progress.map_or(0, |progress| progress.state_changes),
            last_change: progress
                .and_then(|progress| progress.last_change)
                .map(|(kind, at)| (kind, since(at))),
            elapsed: match snapshot.duration_ms() {
                Some(duration) => Duration::from_millis(duration),
                None => since(snapshot.started()),
            },
            iteration: None,
            recent: lines.iter().map(redact).collect(),
        }
    }

    fn status(&self, request: &Request) -> Answer {
        let Some(id) = request.query("sessionId").or(request.query("session_id")) else {
            return Err(Response::error(400, "name the session: ?sessionId=…"));
        };
        Ok(Response::json(200, &status(&self.find(id)?)))
    }

    fn stop(&self, request: &Request) -> Answer {
        let body = SessionRequest::read(&request.body)?;
        let run = match self.find(&body.session_id)? {
            FoundSession::Run(run) => run,
            FoundSession::Task(task) => {
                let id = task.snapshot.id();
                let message =
                    format!("{id} is a task, not a run: POST /api/tasks/{id}/kill kills it");
                return Err(Response::error(409, &message));
            }
        };
        let redactor = Arc::clone(&self.sessions.redactor);
        match oneshot::stop(&run.directory, redactor, SystemClock.now()) {
            Ok(stopped) => Ok(Response::json(200, &stopped_run(&run, stopped))),
            Err(error) => {
                let status = match error {
                    StopError::Over(_)
                    | StopError::OutOfSight
                    | StopError::NotPermitted(_)
                    | StopError::Open(_) => 409,
                    StopError::StillLive { .. } => 503,
                    StopError::Load(_) | StopError::Apply(_) => 500,
                };
                Err(Response::error(status, &error.to_string()))
            }
        }
    }

    /// A task of any server that runs or has leftover processes.
    fn live_task(&self, id: &str) -> Result<Box<Task>, Response> {
        match self.find(id)? {
            FoundSession::Task(task) if task.snapshot.is_over() => Err(has_ended(id)),
            FoundSession::Task(task) => Ok(task),
            FoundSession::Run(_) => {
                let message =
                    format!("{id} is a run, not a task: POST /api/autonomous/stop stops it");
                Err(Response::error(409, &message))
            }
        }
    }

    /// Lets the server of a task carry out a call about it. `wait` is how long that server may wait
    /// before it answers.
    fn call_owner(
        &self,
        task: &Task,
        tool: &str,
        arguments: &Value,
        wait: Duration,
    ) -> Result<Value, Response> {
        let refused =
            |message: &str| Response::json(409, &json!({"error": message, "server": task.server}));
        let Some(owner) = self.sessions.owner(task) else {
            return Err(refused(NO_SOCKET));
        };
        peer::client::call_for_person(owner, tool, arguments, wait)
            .map_err(|error| refused(&error.to_string()))
    }

    /// Types into a task.
    fn input(&self, id: &str, request: &Request) -> Answer {
        let body = InputRequest::read(&request.body)?;
        let task = self.live_task(id)?;
        let arguments =
            json!({"task_id": id, "input": body.text, "enter": body.enter, "listen": 0});
        self.call_owner(&task, "zsh_send", &arguments, Duration::ZERO)?;
        Ok(Response::json(200, &json!({"taskId": id})))
    }

    fn kill(&self, id: &str) -> Answer {
        let task = self.live_task(id)?;
        let (Some(own), OutputSource::Own(handle)) = (&self.sessions.own, &task.source) else {
            let result = self.call_owner(&task, "zsh_kill", &json!({"task_id": id}), KILL_LIMIT)?;
            return Ok(Response::json(200, &killed_by_owner(id, &result)));
        };
        match own.kill(handle, KillRequest::Escalate) {
            Ok(receipt) => {
                await_end(handle);
                let task = self.sessions.reload(&task);
                Ok(Response::json(200, &killed(id, task.as_ref(), &receipt)))
            }
            Err(KillError::Ended) => Err(has_ended(id)),
            Err(KillError::Busy) => {
                let message = format!("too many requests are waiting for task {id}: try again");
                Err(Response::error(503, &message))
            }
            Err(KillError::Late) => Ok(Response::json(
                202,
                &json!({"taskId": id, "state": "running", "message": "the kill continues"}),
            )),
        }
    }
}

/// The body of a request about a session.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct SessionRequest {
    /// The task or run.
    session_id: String,
    /// The id for the check; generated if absent.
    check_id: Option<String>,
}

impl SessionRequest {
    fn read(body: &[u8]) -> Result<SessionRequest, Response> {
        let request: SessionRequest = serde_json::from_slice(body).map_err(|error| {
            Response::error(400, &format!("expected a body {{\"sessionId\": …}}: {error}"))
        })?;
        let id_fits = |id: &String| !id.is_empty() && id.chars().count() <= MAX_ID_CHARS;
        if !request.check_id.as_ref().is_none_or(id_fits) {
            let message = format!("a checkId has 1 to {MAX_ID_CHARS} characters");
            return Err(Response::error(400, &message));
        }
        Ok(request)
    }
}

/// The body of a request to type into a task.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct InputRequest {
    text: String,
    /// Whether Enter follows.
    #[serde(default = "with_enter")]
    enter: bool,
}

fn with_enter() -> bool {
    true
}

impl InputRequest {
    fn read(body: &[u8]) -> Result<InputRequest, Response> {
        // The parser's error may quote the text.
        serde_json::from_slice(body).map_err(|_| {
            Response::error(400, r#"expected a body {"text": "…"}, optionally with "enter": false"#)
        })
    }
}

fn has_ended(id: &str) -> Response {
    Response::error(409, &format!("task {id} has already ended with all its processes"))
}

fn await_end(task: &TaskHandle) {
    let limit = Instant::now() + END_AFTER_KILL;
    task.live.wait_for(
        Some(limit),
        &Cancel::default(),
        |state| match state.ended {
            Some(_) => WaitStep::Found(()),
            None => WaitStep::WaitUntil(None),
        },
        Instant::now,
    );
}

fn stopped_run(run: &RunView, stopped: StopOutcome) -> Value {
    let after = oneshot::view(&run.directory).ok();
    let state = match (stopped, &after) {
        (StopOutcome::ByRunner { state }, _) => state,
        (StopOutcome::Here { .. }, Some(after)) => after.file.state,
        (StopOutcome::Here { .. }, None) => RunState::Failed,
    };
    json!({
        "sessionId": run.id(),
        "state": state.name(),
        "reason": after.as_ref().and_then(runs::reason),
    })
}

/// The receipt of a kill; `task` is the task's state afterwards.
fn killed(id: &str, task: Option<&Task>, receipt: &Receipt) -> Value {
    let snapshot = task.map(|task| &task.snapshot);
    json!({
        "taskId": id,
        "state": snapshot.map_or("killed", describe::status_word),
        "exitCode": snapshot.and_then(|snapshot| snapshot.exit_code()),
        "signalled": receipt.signalled,
        "gone": receipt.gone,
        "survivors": receipt.survivors,
        "tookMs": millis(receipt.took.as_secs_f64()),
    })
}

/// The receipt in the result of another server's `zsh_kill`.
fn killed_by_owner(id: &str, result: &Value) -> Value {
    let receipt = |name: &str| result.pointer(&format!("/_meta/zsh-tool~1result/{name}"));
    json!({
        "taskId": id,
        "state": receipt("status"),
        "exitCode": receipt("exit_code"),
        "signalled": receipt("signalled"),
        "gone": receipt("gone"),
        "survivors": receipt("survivors"),
        "tookMs": receipt("took_ms"),
    })
}

/// `A` to `D`, or `unknown`.
fn finding_word(finding: Finding) -> String {
    finding.letter().map_or_else(|| "unknown".to_owned(), |letter| letter.to_string())
}

/// A session's progress.
fn progress(found: &FoundSession) -> Value {
    match found {
        FoundSession::Task(task) => task_progress(task),
        FoundSession::Run(run) => run_progress(run),
    }
}

fn task_progress(task: &Task) -> Value {
    let (snapshot, now) = (&task.snapshot, now());
    let progress = snapshot.probed.progress.as_ref();
    let last = progress.and_then(|progress| progress.last_change);
    let is_running = snapshot.running();
    json!({
        "sessionId": snapshot.id(),
        "alive": snapshot.alive(now),
        "stuck": snapshot.stuck(now),
        "progress": {
            "heartbeats": progress.map_or(0, |progress| progress.heartbeats),
            "stateChanges": progress.map_or(0, |progress| progress.state_changes),
            "lastChange": last.map(|(kind, _)| kind.name()),
            "lastChangeAgo": last.map(|(_, at)| millis(now - at)),
        },
        "currentPhase": if is_running { "execution" } else { "ended" },
        "iteration": null,
    })
}

fn run_progress(run: &RunView) -> Value {
    let beat = runs::heartbeat(run);
    let beat = beat.as_ref();
    let at = beat.and_then(|beat| beat.last_change_ts);
    // Before the first heartbeat the agent has just started.
    let lives = beat.map_or(run.file.state.is_executing(), |beat| beat.alive);
    json!({
        "sessionId": run.file.oneshot_id,
        "alive": run.live && lives,
        "stuck": run.live && beat.is_some_and(|beat| beat.stuck),
        "progress": {
            "heartbeats": beat.map_or(0, |beat| beat.heartbeats),
            "stateChanges": beat.map_or(0, |beat| beat.state_changes),
            "lastChange": beat.and_then(|beat| beat.last_change.as_ref()),
            "lastChangeAgo": at.map(|at| millis(now() - at)),
        },
        "currentPhase": runs::phase(run.file.state),
        "iteration": run.file.iteration_count,
    })
}

/// A session's status for clients that wait for its end: `running`, `completed`, `failed`, or
/// `interrupted` for a run that can be resumed; with the reason.
fn status(found: &FoundSession) -> Value {
    match found {
        FoundSession::Task(task) => task_status(task),
        FoundSession::Run(run) => run_status(run),
    }
}

fn task_status(task: &Task) -> Value {
    let snapshot = &task.snapshot;
    let code = snapshot.exit_code().unwrap_or_default();
    let (status, error) = match describe::status_word(snapshot) {
        word @ ("running" | "completed") => (word, None),
        "failed" => ("failed", Some(format!("exit code {code}"))),
        word => ("failed", Some(format!("{word} (exit code {code})"))),
    };
    json!({"sessionId": snapshot.id(), "status": status, "iteration": null, "error": error})
}

fn run_status(run: &RunView) -> Value {
    let reason = || runs::reason(run).or_else(|| Some(run.file.state.name().to_owned()));
    let (status, error) = match run.file.state {
        RunState::Completed => ("completed", None),
        RunState::Rejected | RunState::Failed => ("failed", reason()),
        _ if run.live => ("running", None),
        RunState::Interrupted => ("interrupted", reason()),
        _ => ("interrupted", Some("its runner died".to_owned())),
    };
    json!({
        "sessionId": run.file.oneshot_id,
        "status": status,
        "iteration": run.file.iteration_count,
        "error": error,
    })
}

/// The most used kinds of commands, and the circuits, closed ones last.
fn history(recorder: &Recorder, now: f64) -> Value {
    let plots = recorder.store().plots(MAX_TEMPLATES, MAX_RUNS);
    let circuits = recorder.circuits();
    let circuits = circuits.iter().map(|status| circuit(status, now));
    json!({
        "templates": plots.iter().map(template).collect::<Vec<_>>(),
        "circuits": circuits.collect::<Vec<_>>(),
    })
}

/// A kind of command with its runs, newest first. The median and the 90th percentile are null for
/// fewer than three runs.
fn template(plot: &Plot) -> Value {
    json!({
        "template": plot.template,
        "runs": plot.runs.iter().map(run).collect::<Vec<_>>(),
        "medianMs": plot.median.map(millis),
        "p90Ms": plot.p90.map(millis),
    })
}

/// A run; `at` is its end in Unix seconds.
fn run(run: &PlottedRun) -> Value {
    let outcome = run.outcome.as_str().to_lowercase();
    json!({"at": run.at, "durationMs": run.duration_ms, "outcome": outcome})
}

/// A circuit with its redacted command and its number of recent timeouts. `retryAt` is when the next
/// attempt is allowed, in Unix seconds; null means now.
fn circuit(status: &CircuitStatus, now: f64) -> Value {
    let state = status.circuit.state.as_str().to_lowercase().replace('_', "-");
    json!({
        "command": status.preview,
        "state": state,
        "failures": status.circuit.timeouts.len(),
        "retryAt": status.refuses().then_some(now + status.retry_in),
    })
}
