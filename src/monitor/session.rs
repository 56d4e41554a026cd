//! A session as the lists of the monitor show it, be it a task or an agent run: the shape of
//! the JSON.
//!
//! Limits: who fills it in is `tasks` and `runs`.

use std::time::SystemTime;

use serde::Serialize;

use crate::alan::rows::unix_seconds;

/// Whose a session is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Server {
    /// Its name in the state directory.
    pub instance: String,
    /// Its pid, where that is known.
    pub pid: Option<i32>,
    /// Whether it is this process.
    pub own: bool,
}

/// A session of the list.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Session {
    /// The task's id, or the run's.
    pub id: String,
    /// `task` or `run`.
    pub kind: &'static str,
    /// The command line or the beginning of the prompt, redacted.
    pub title: String,
    /// What it is for.
    pub description: Option<String>,
    /// Where it started.
    pub directory: String,
    /// The shell's pid, or the runner's.
    pub pid: Option<i32>,
    /// Whether it has a terminal.
    pub pty: bool,
    /// `running`, or how it ended; of a run its state.
    pub state: &'static str,
    /// Whether it gets on; null before the first look.
    pub status: Option<String>,
    /// Why that is thought, the strongest evidence first.
    pub evidence: Vec<String>,
    /// Not all evidence can be had.
    pub degraded: bool,
    /// `input` or `password`.
    pub waiting_for: Option<&'static str>,
    /// What it asks.
    pub prompt: Option<String>,
    /// Unix seconds.
    pub started_at: f64,
    /// Since the start; of an ended one its duration.
    pub elapsed_ms: u64,
    /// Since output last came; null once it has ended.
    pub silent_ms: Option<u64>,
    /// From the start to the end.
    pub duration_ms: Option<u64>,
    /// The exit code.
    pub exit_code: Option<i32>,
    /// Processes that outlive it.
    pub leftovers: Vec<i32>,
    /// How long such commands take.
    pub estimate: Option<Expected>,
    /// The median of what is left, given the time already run.
    pub remaining_ms: Option<u64>,
    /// Whose it is.
    pub server: Server,
    /// Whether this server can end it.
    pub can_kill: bool,
    /// Whether it is a run that can be stopped.
    pub can_stop: bool,
    /// The last lines of its output, or of its log.
    pub tail: Vec<String>,
    /// What only runs have.
    pub run: Option<RunFacts>,
}

/// How long such commands take.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Expected {
    /// Half of them are done by then.
    pub median_ms: u64,
    /// Nine in ten are done by then.
    pub p90_ms: u64,
    /// So many are known.
    pub samples: usize,
}

/// All sessions at one moment.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct List {
    /// Unix seconds.
    pub now: f64,
    /// Who answers.
    pub server: Answering,
    /// Runs and tasks that go on, then those that do not, each part newest first.
    pub sessions: Vec<Session>,
}

/// Who answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Answering {
    /// This process.
    #[serde(flatten)]
    pub server: Server,
    /// The program's version.
    pub version: &'static str,
}

/// What only runs have.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RunFacts {
    /// The number of the iteration.
    pub iteration: u32,
    /// How many there may be.
    pub max_iterations: u32,
    /// `worker`, `auditor`, `recovery`, …
    pub phase: &'static str,
    /// The worker's executor.
    pub executor: String,
    /// The auditor's.
    pub auditor: String,
    /// Why it is in its state, where that has a reason.
    pub reason: Option<String>,
    /// What the last auditor wants to be done.
    pub feedback: Option<String>,
    /// Whether somebody runs it.
    pub live: bool,
}

impl Session {
    /// The same without what passes by itself: two that differ have something to tell.
    pub fn without_times(&self) -> Session {
        Session {
            elapsed_ms: 0,
            silent_ms: None,
            remaining_ms: None,
            ..self.clone()
        }
    }
}

impl List {
    /// As [`Session::without_times`].
    pub fn without_times(&self) -> List {
        List {
            now: 0.0,
            server: self.server.clone(),
            sessions: self.sessions.iter().map(Session::without_times).collect(),
        }
    }
}

/// Text without line ends and other control characters.
pub fn one_line(text: &str) -> String {
    text.trim().replace(|c: char| c.is_control(), " ")
}

/// Seconds as whole milliseconds.
pub fn millis(seconds: f64) -> u64 {
    // Casts of floats saturate: below zero there is zero.
    (seconds * 1000.0).round() as u64
}

/// The present in Unix seconds.
pub fn now() -> f64 {
    unix_seconds(SystemTime::now())
}
