//! The JSON of a session, which is a task or an agent run. `sessions` and `runs` fill it in.

use std::time::SystemTime;

use serde::Serialize;
use serde_json::{Value, json};

use crate::alan::rows::unix_seconds;
use crate::task::request::Detached;

/// The server that a session belongs to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(crate) struct ServerName {
    /// Its name in the state directory.
    pub instance: String,
    /// Its pid, if known.
    pub pid: Option<i32>,
    /// Whether this process is that server.
    pub own: bool,
}

/// A session of the list.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Session {
    /// The task's id, or the run's.
    pub id: String,
    /// `task` or `run`.
    pub kind: &'static str,
    /// The command line or the beginning of the prompt, redacted.
    pub title: String,
    /// The caller's description.
    pub description: Option<String>,
    /// The directory it started in.
    pub directory: String,
    /// The shell's pid, or the runner's.
    pub pid: Option<i32>,
    /// Whether it has a terminal.
    pub pty: bool,
    /// `running`, or how it ended; for a run, its state.
    pub state: &'static str,
    /// Whether it makes progress; null before the first check.
    pub status: Option<String>,
    /// The evidence for the status, the strongest first.
    pub evidence: Vec<String>,
    /// Some evidence is not available.
    pub degraded: bool,
    /// `input` or `password`.
    pub waiting_for: Option<&'static str>,
    /// Whether a person is attached to it, and may type.
    pub attached: bool,
    /// The prompt of the process that waits.
    pub prompt: Option<String>,
    /// Unix seconds.
    pub started_at: f64,
    /// Time since the start; once ended, the duration.
    pub elapsed_ms: u64,
    /// Time since the last output; null once ended.
    pub silent_ms: Option<u64>,
    /// The duration; null until it has ended.
    pub duration_ms: Option<u64>,
    pub exit_code: Option<i32>,
    /// Pids of processes that outlive it.
    pub leftovers: Vec<i32>,
    /// How long such commands usually take.
    pub estimate: Option<Expected>,
    /// The median remaining time, given the time so far.
    pub remaining_ms: Option<u64>,
    pub server: ServerName,
    /// The host that it runs on; null for this machine.
    pub host: Option<String>,
    /// Null for a task that ends with its server.
    pub detached: Option<Detached>,
    /// Whether it is a task that has processes and can be reached.
    pub can_kill: bool,
    /// Whether it is a live run, which can be stopped.
    pub can_stop: bool,
    /// The last lines of its output, or of its log.
    pub tail: Vec<String>,
    /// Null for a task.
    pub run: Option<RunFacts>,
}

/// How long such commands usually take.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Expected {
    pub median_ms: u64,
    pub p90_ms: u64,
    /// How many runs this is based on.
    pub samples: usize,
}

/// All sessions at one moment.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct List {
    /// Unix seconds.
    pub now: f64,
    /// The server that answers.
    pub server: Answering,
    /// Live runs and running tasks, then ended ones; each part newest first.
    pub sessions: Vec<Session>,
    /// Why other runs cannot be shown.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unusable: Vec<String>,
}

/// The server that answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Answering {
    #[serde(flatten)]
    pub server: ServerName,
    pub version: &'static str,
}

/// Facts that only runs have.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RunFacts {
    /// The current iteration.
    pub iteration: u32,
    /// The maximum number of iterations.
    pub max_iterations: u32,
    /// `worker`, `auditor`, `recovery`, …
    pub phase: &'static str,
    /// The worker's executor.
    pub executor: String,
    /// The auditor's.
    pub auditor: String,
    /// Why it is in its state, if there is a reason.
    pub reason: Option<String>,
    /// The last auditor's feedback.
    pub feedback: Option<String>,
    /// Whether a process runs it.
    pub live: bool,
}

impl Session {
    /// A copy without the fields that always change with time, for comparison.
    pub(crate) fn without_times(&self) -> Session {
        Session { elapsed_ms: 0, silent_ms: None, remaining_ms: None, ..self.clone() }
    }
}

impl List {
    /// Its JSON, with the sessions of hosts after those of this machine.
    pub(crate) fn with(&self, of_hosts: Vec<Value>) -> Value {
        let mut list = json!(self);
        if let Some(sessions) = list.get_mut("sessions").and_then(Value::as_array_mut) {
            sessions.extend(of_hosts);
        }
        list
    }

    /// See [`Session::without_times`].
    pub(crate) fn without_times(&self) -> List {
        let sessions = self.sessions.iter().map(Session::without_times).collect();
        List { now: 0.0, sessions, ..self.clone() }
    }
}

/// Replaces line ends and other control characters with spaces.
pub(crate) fn one_line(text: &str) -> String {
    text.trim().replace(|c: char| c.is_control(), " ")
}

/// Seconds as whole milliseconds; negative ones become 0.
pub(crate) fn millis(seconds: f64) -> u64 {
    // Casts of floats saturate.
    (seconds * 1000.0).round() as u64
}

/// The current time in Unix seconds.
pub(crate) fn now() -> f64 {
    unix_seconds(SystemTime::now())
}
