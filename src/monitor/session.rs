//! The JSON of a session, which is a task or an agent run. `sessions` and `runs` fill it in.

use std::time::SystemTime;

use serde::Serialize;
use serde_json::{Value, json};

use crate::alan::rows::unix_seconds;
use crate::task::request::Detached;
use crate::task::sandboxes::Summary;
use crate::task::snapshot::Snapshot;

/// The server that a session belongs to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(crate) struct ServerName {
    /// Its name in the state directory.
    pub(crate) instance: String,
    /// Its pid, if known.
    pub(crate) pid: Option<i32>,
    /// Whether this process is that server.
    pub(crate) own: bool,
}

/// What the processes of a task use, or have used.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct UsageView {
    pub(crate) cpu_ms: u64,
    /// Null once it has ended.
    pub(crate) memory_bytes: Option<u64>,
    /// The most so far; null if it was too little to be measured.
    pub(crate) peak_bytes: Option<u64>,
    /// Whether it may have been more.
    pub(crate) peak_at_least: bool,
    /// How many there are; once ended, the most that there were.
    pub(crate) processes: usize,
}

impl UsageView {
    /// `None` while nothing is known.
    pub(crate) fn of(task: &Snapshot) -> Option<UsageView> {
        let usage = &task.probed.usage;
        match &task.ended {
            Some(end) => end.cost.map(|cost| UsageView {
                cpu_ms: millis(cost.cpu.total().as_secs_f64()),
                memory_bytes: None,
                peak_bytes: cost.peak,
                peak_at_least: cost.peak_is_least,
                processes: cost.processes,
            }),
            None => (usage.processes_peak > 0).then(|| UsageView {
                cpu_ms: millis(usage.cpu.total().as_secs_f64()),
                memory_bytes: Some(usage.memory),
                peak_bytes: Some(usage.memory_peak),
                peak_at_least: true,
                processes: usage.processes,
            }),
        }
    }
}

/// A session of the list.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Session {
    /// The task's id, or the run's.
    pub(crate) id: String,
    /// `task` or `run`.
    pub(crate) kind: &'static str,
    /// The command line or the beginning of the prompt, redacted.
    pub(crate) title: String,
    /// The caller's description.
    pub(crate) description: Option<String>,
    /// The directory it started in.
    pub(crate) directory: String,
    /// The shell's pid, or the runner's.
    pub(crate) pid: Option<i32>,
    /// Whether it has a terminal.
    pub(crate) pty: bool,
    /// What confines it, such as `workspace network=off`; null without a sandbox.
    pub(crate) sandbox: Option<String>,
    /// `running`, or how it ended; for a run, its state.
    pub(crate) state: &'static str,
    /// Whether it makes progress; null before the first check.
    pub(crate) status: Option<String>,
    /// The evidence for the status, the strongest first.
    pub(crate) evidence: Vec<String>,
    /// Some evidence is not available.
    pub(crate) degraded: bool,
    /// `input` or `password`.
    pub(crate) waiting_for: Option<&'static str>,
    /// Whether a person is attached to it, and may type.
    pub(crate) attached: bool,
    /// The prompt of the process that waits.
    pub(crate) prompt: Option<String>,
    /// Unix seconds.
    pub(crate) started_at: f64,
    /// Time since the start; once ended, the duration.
    pub(crate) elapsed_ms: u64,
    /// Time since the last output; null once ended.
    pub(crate) silent_ms: Option<u64>,
    /// The duration; null until it has ended.
    pub(crate) duration_ms: Option<u64>,
    /// What a task uses, or has used; `None` where that is not known.
    pub(crate) usage: Option<UsageView>,
    pub(crate) exit_code: Option<i32>,
    /// Pids of processes that outlive it.
    pub(crate) leftovers: Vec<i32>,
    /// How long such commands usually take.
    pub(crate) estimate: Option<Expected>,
    /// The median remaining time, given the time so far.
    pub(crate) remaining_ms: Option<u64>,
    pub(crate) server: ServerName,
    /// The host that it runs on; null for this machine.
    pub(crate) host: Option<String>,
    /// Null for a task that ends with its server.
    pub(crate) detached: Option<Detached>,
    /// Whether it is a task that has processes and can be reached.
    pub(crate) can_kill: bool,
    /// Whether it is a live run, which can be stopped.
    pub(crate) can_stop: bool,
    /// The last lines of its output, or of its log.
    pub(crate) tail: Vec<String>,
    /// Null for a task.
    pub(crate) run: Option<RunFacts>,
}

/// How long such commands usually take.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Expected {
    pub(crate) median_ms: u64,
    pub p90_ms: u64,
    /// How many runs this is based on.
    pub(crate) samples: usize,
}

/// All sessions at one moment.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct List {
    /// Unix seconds.
    pub(crate) now: f64,
    /// The server that answers.
    pub(crate) server: Answering,
    /// Live runs and running tasks, then ended ones; each part newest first.
    pub(crate) sessions: Vec<Session>,
    /// Why other runs cannot be shown.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) unusable: Vec<String>,
}

/// The server that answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Answering {
    #[serde(flatten)]
    pub(crate) server: ServerName,
    pub(crate) version: &'static str,
    /// The sandbox of its commands.
    pub(crate) sandbox: Summary,
}

/// Facts that only runs have.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RunFacts {
    /// The current iteration.
    pub(crate) iteration: u32,
    /// The maximum number of iterations.
    pub(crate) max_iterations: u32,
    /// `worker`, `auditor`, `recovery`, …
    pub(crate) phase: &'static str,
    /// The worker's executor.
    pub(crate) executor: String,
    /// The auditor's.
    pub(crate) auditor: String,
    /// Why it is in its state, if there is a reason.
    pub(crate) reason: Option<String>,
    /// The last auditor's feedback.
    pub(crate) feedback: Option<String>,
    /// What its agents have cost, if they report it.
    pub(crate) cost: Option<String>,
    /// The last result of each check.
    pub(crate) checks: Vec<String>,
    /// The iterations whose differences `api/sessions/ID/diff` shows.
    pub(crate) changed_iterations: Vec<u32>,
    /// The branch of its own work tree, if it has one.
    pub(crate) branch: Option<String>,
    /// Whether a process runs it.
    pub(crate) live: bool,
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
