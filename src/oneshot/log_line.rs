//! The lines of `oneshot-log.json`: what each kind of them tells.
//!
//! Limits: neither written nor read here.

use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::context::Entry;
use super::reason::Reason;
use super::stage::{Role, State};
use crate::process::tree::Identity;

/// The file's name in a run's directory.
pub const FILE_NAME: &str = "oneshot-log.json";

/// What a line tells of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Something that the agent put out.
    Activity,
    /// The run came to another state: [`StateChange`].
    StateChange,
    /// The agent lives: [`Heartbeat`].
    Heartbeat,
    /// A judge was asked whether the agent gets on.
    StatusCheck,
    /// What the agent was asked to do.
    Prompt,
    /// The agent's final text.
    Result,
    /// Something that a recovery found.
    Recovered,
}

impl Kind {
    /// The word for it in the file.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Activity => "activity",
            Kind::StateChange => "state_change",
            Kind::Heartbeat => "heartbeat",
            Kind::StatusCheck => "status_check",
            Kind::Prompt => "prompt",
            Kind::Result => "result",
            Kind::Recovered => "recovered",
        }
    }

    /// Whether such a line is on the disk, not only with the kernel, before it counts. An
    /// agent's stream may come by hundreds of megabytes; what has to outlive a crash of
    /// the machine is what a resume builds on.
    pub fn is_synced(self) -> bool {
        match self {
            Kind::StateChange | Kind::Prompt | Kind::Result | Kind::Recovered => true,
            Kind::Activity | Kind::Heartbeat | Kind::StatusCheck => false,
        }
    }
}

/// Whose line it is.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Origin {
    /// The executor's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub executor: Option<String>,
    /// Which agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<Role>,
    /// In which iteration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iteration: Option<u32>,
}

/// A line of the log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// When: Unix seconds.
    pub ts: f64,
    /// Its number, from 1; each is larger than the one before.
    pub seq: u64,
    /// What it tells of.
    #[serde(rename = "type")]
    pub kind: Kind,
    /// Whose it is.
    #[serde(flatten)]
    pub origin: Origin,
    /// The rest, which depends on the kind.
    pub data: Value,
}

impl Line {
    /// The change that it tells of, if it does.
    pub fn state_change(&self) -> Option<StateChange> {
        let is_change = self.kind == Kind::StateChange;
        is_change.then(|| serde_json::from_value(self.data.clone()).ok())?
    }

    /// The sign of life that it tells of, if it does.
    pub fn heartbeat(&self) -> Option<Heartbeat> {
        let is_heartbeat = self.kind == Kind::Heartbeat;
        is_heartbeat.then(|| serde_json::from_value(self.data.clone()).ok())?
    }
}

/// The data of [`Kind::StateChange`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StateChange {
    /// Where the run was; null before its creation.
    pub from: Option<State>,
    /// Where it is.
    pub to: State,
    /// As in the history.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<i32>,
    /// As in the history.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid_started: Option<u64>,
    /// As in the history.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    /// How many iterations the run may have from now on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_iterations: Option<NonZeroU32>,
}

impl StateChange {
    /// The entry of the history that goes with it.
    pub fn entry(&self, ts: f64) -> Entry {
        Entry {
            state: self.to,
            ts,
            pid: self.pid,
            pid_started: self.pid_started,
            reason: self.reason.clone(),
        }
    }

    /// The agent's process.
    pub fn process(&self) -> Option<Identity> {
        self.entry(0.0).process()
    }
}

/// The data of [`Kind::Heartbeat`]: what the newest one says is how the agent is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Heartbeat {
    /// The tracker's word: `progressing`, …
    pub status: String,
    /// How many there have been of this agent.
    pub heartbeats: u64,
    /// How often something new was seen of it.
    pub state_changes: u64,
    /// What was new last.
    pub last_change: Option<String>,
    /// When that was: Unix seconds.
    pub last_change_ts: Option<f64>,
    /// `worker`, `auditor`, `recovery`, …
    pub phase: String,
    /// The iteration.
    pub iteration: u32,
    /// What was seen, in words.
    pub evidence: Vec<String>,
    /// Whether it lives.
    pub alive: bool,
    /// Whether it seems stuck.
    pub stuck: bool,
}
