//! Why an agent run is where it is, as data and as the files have it. Pure.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::agent::activity::AgentError;

/// Why a run is where it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    /// The agent could not reach its service.
    ConnectionRefused,
    /// Its service did not take its credentials.
    AuthFailed,
    /// Its service answered with an error.
    ApiError,
    /// One of its tools failed for good.
    ToolError,
    /// It ended with this code, not 0.
    ExitCode(i32),
    /// This signal ended it, or interrupted the run.
    Signal(i32),
    /// Nothing was seen of it for too long.
    InactivityTimeout,
    /// It was alive and did not get on.
    StuckConfirmed,
    /// It had finished and did not end.
    ExitHang,
    /// The process that ran the run was killed.
    SupervisorDied,
    /// The auditor gave no verdict, twice.
    NoVerdict,
    /// All iterations are used up.
    MaxIterations,
    /// The run took too long.
    MaxRuntime,
    /// Somebody stopped it for good.
    UserCancelled,
    /// The agent's program could not be started.
    SpawnFailed,
    /// The first line of what the auditor said.
    Feedback(String),
}

/// The reasons that are one word.
const WORDS: [(&str, Reason); 13] = [
    ("connection_refused", Reason::ConnectionRefused),
    ("auth_failed", Reason::AuthFailed),
    ("api_error", Reason::ApiError),
    ("tool_error", Reason::ToolError),
    ("inactivity_timeout", Reason::InactivityTimeout),
    ("stuck_confirmed", Reason::StuckConfirmed),
    ("exit_hang", Reason::ExitHang),
    ("supervisor_died", Reason::SupervisorDied),
    ("no_verdict", Reason::NoVerdict),
    ("max_iterations", Reason::MaxIterations),
    ("max_runtime", Reason::MaxRuntime),
    ("user_cancelled", Reason::UserCancelled),
    ("spawn_failed", Reason::SpawnFailed),
];

impl Reason {
    /// The reason that is written so. Whatever is none of the known ones is feedback.
    pub fn parse(text: &str) -> Reason {
        let number = |prefix: &str| text.strip_prefix(prefix)?.parse().ok();
        if let Some((_, reason)) = WORDS.iter().find(|(word, _)| *word == text) {
            return reason.clone();
        }
        number("exit_code:")
            .map(Reason::ExitCode)
            .or_else(|| number("signal:").map(Reason::Signal))
            .unwrap_or_else(|| Reason::Feedback(text.to_owned()))
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::ExitCode(code) => write!(f, "exit_code:{code}"),
            Reason::Signal(signal) => write!(f, "signal:{signal}"),
            Reason::Feedback(line) => f.write_str(line),
            word => {
                let known = WORDS.iter().find(|(_, reason)| reason == word);
                f.write_str(known.map_or("", |(word, _)| word))
            }
        }
    }
}

impl Serialize for Reason {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Reason {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Reason::parse(&String::deserialize(deserializer)?))
    }
}

impl From<AgentError> for Reason {
    fn from(fault: AgentError) -> Reason {
        match fault {
            AgentError::ConnectionRefused => Reason::ConnectionRefused,
            AgentError::AuthFailed => Reason::AuthFailed,
            AgentError::ApiError => Reason::ApiError,
            AgentError::ToolError => Reason::ToolError,
        }
    }
}

/// How an agent ended, if not by exit 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Crash {
    /// With this code.
    ExitCode(i32),
    /// By this signal.
    Signal(i32),
}

impl From<Crash> for Reason {
    fn from(crash: Crash) -> Reason {
        match crash {
            Crash::ExitCode(code) => Reason::ExitCode(code),
            Crash::Signal(signal) => Reason::Signal(signal),
        }
    }
}
