//! The lines of `oneshot-log.json`, with the data of each kind.
//!
//! Limits: other modules read and write them. Pure.

use std::num::NonZeroU32;

use serde::de::value::{self, StrDeserializer};
use serde::de::{DeserializeOwned, IntoDeserializer};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::run_files::{Basis, Entry};
use super::state::{Role, RunState};
use crate::agent::activity::AgentError;

/// The file's name in a run's directory.
pub(crate) const FILE_NAME: &str = "oneshot-log.json";

/// The kind of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LineKind {
    /// A record of the agent's output.
    Activity,
    /// The run entered another state: [`StateChange`].
    StateChange,
    /// The agent is alive: [`Heartbeat`].
    Heartbeat,
    /// A judge was asked whether the agent makes progress.
    StatusCheck,
    /// The agent's prompt.
    Prompt,
    /// The agent's final text.
    Result,
    /// Something that a recovery found.
    Recovered,
    /// A check of the worker's result has ended: its [`super::check::CheckResult`], and its
    /// `output` if it is red.
    Check,
    /// What an agent has changed in the run's repository: `summary`, and `files`, their paths.
    Changes,
    /// The agent's endpoint fails for now, and when the run tries again.
    Outage,
    /// A worker that ended well did nothing or was denied its tools.
    Shortfall,
    /// Lines were removed here to keep the log's quota: [`Omitted`].
    Omitted,
}

impl LineKind {
    /// The word in the file.
    pub fn name(self) -> &'static str {
        match self {
            LineKind::Activity => "activity",
            LineKind::StateChange => "state_change",
            LineKind::Heartbeat => "heartbeat",
            LineKind::StatusCheck => "status_check",
            LineKind::Prompt => "prompt",
            LineKind::Result => "result",
            LineKind::Recovered => "recovered",
            LineKind::Check => "check",
            LineKind::Changes => "changes",
            LineKind::Outage => "outage",
            LineKind::Shortfall => "shortfall",
            LineKind::Omitted => "omitted",
        }
    }

    /// Whether to sync a line of this kind to disk before it counts. Lines that a resume depends on
    /// must survive a crash of the machine; the rest may be hundreds of megabytes.
    pub(crate) fn is_synced(self) -> bool {
        matches!(
            self,
            LineKind::StateChange | LineKind::Prompt | LineKind::Result | LineKind::Recovered
        )
    }
}

/// The agent that a line is about.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Origin {
    /// The executor's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub executor: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<Role>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iteration: Option<u32>,
}

/// A line of the log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LogLine {
    /// The time, in Unix seconds.
    pub ts: f64,
    /// The line's number, from 1; each is larger than the previous one.
    pub seq: u64,
    #[serde(rename = "type")]
    pub kind: LineKind,
    /// The agent that the line is about, if any.
    #[serde(flatten)]
    pub origin: Origin,
    /// The data, which depends on the kind.
    pub data: Value,
}

impl LogLine {
    /// Its data, if it is a state change.
    pub fn state_change(&self) -> Option<StateChange> {
        self.data_of(LineKind::StateChange)
    }

    /// Its data, if it is a mark of omitted lines.
    pub(crate) fn omitted(&self) -> Option<Omitted> {
        self.data_of(LineKind::Omitted)
    }

    /// Its data, if it is a heartbeat.
    pub fn heartbeat(&self) -> Option<Heartbeat> {
        self.data_of(LineKind::Heartbeat)
    }

    fn data_of<T: DeserializeOwned>(&self, kind: LineKind) -> Option<T> {
        serde_json::from_value((self.kind == kind).then(|| self.data.clone())?).ok()
    }
}

/// The data of [`LineKind::StateChange`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StateChange {
    /// The previous state; null for the first.
    pub from: Option<RunState>,
    /// The new state.
    pub to: RunState,
    /// The run's maximum of iterations from now on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_iterations: Option<NonZeroU32>,
    #[serde(flatten)]
    pub basis: Basis,
}

impl StateChange {
    /// The history's entry for this change.
    pub fn entry(&self, ts: f64) -> Entry {
        Entry { state: self.to, ts, basis: self.basis.clone() }
    }
}

/// The data of [`LineKind::Omitted`]: the total of all removed lines since the log began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Omitted {
    pub(crate) lines: u64,
    pub(crate) bytes: u64,
}

impl Omitted {
    /// Adds a removed line of this length.
    pub(super) fn add(&mut self, length: u64) {
        self.lines += 1;
        self.bytes += length;
    }
}

/// The fields at the beginning of a line.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Head {
    pub(crate) ts: f64,
    pub(crate) seq: u64,
    pub(crate) kind: LineKind,
}

/// The longest head of a line, in bytes.
pub(super) const HEAD_BYTES: usize = 128;

impl Head {
    /// Parses the head of a line as this program writes it; `None` for other formats.
    pub(super) fn parse(line: &[u8]) -> Option<Head> {
        let line = line.get(..line.len().min(HEAD_BYTES))?;
        let (ts, rest) = until(line.strip_prefix(b"{\"ts\":")?, b",\"seq\":")?;
        let (seq, rest) = until(rest, b",\"type\":\"")?;
        let (word, _) = until(rest, b"\"")?;
        let word: StrDeserializer<'_, value::Error> = word.into_deserializer();
        Some(Head {
            ts: ts.parse().ok()?,
            seq: seq.parse().ok()?,
            kind: LineKind::deserialize(word).ok()?,
        })
    }
}

/// The text before a mark, and the rest after it.
fn until<'a>(text: &'a [u8], mark: &[u8]) -> Option<(&'a str, &'a [u8])> {
    let at = memchr::memmem::find(text, mark)?;
    let (before, rest) = text.split_at_checked(at)?;
    Some((std::str::from_utf8(before).ok()?, rest.get(mark.len()..)?))
}

/// The data of [`LineKind::Result`].
pub(super) fn result_data(text: &str, error: Option<AgentError>) -> Value {
    let error = error.map(AgentError::name);
    json!({"text": text, "error": error})
}

/// The data of [`LineKind::Heartbeat`]: the agent's status at that time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Heartbeat {
    /// The tracker's status: `progressing`, …
    pub status: String,
    /// The number of signs of life so far.
    pub heartbeats: u64,
    /// The number of state changes so far.
    pub state_changes: u64,
    /// The kind of its last change.
    pub last_change: Option<String>,
    /// The time of the last change, in Unix seconds.
    pub last_change_ts: Option<f64>,
    /// `worker`, `auditor`, `recovery`, …
    pub phase: String,
    pub iteration: u32,
    /// The evidence, in words.
    pub evidence: Vec<String>,
    /// Whether the agent is alive.
    pub alive: bool,
    /// Whether the agent seems stuck.
    pub stuck: bool,
}
