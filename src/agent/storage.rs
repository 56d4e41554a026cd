//! What agents leave in their own storage.

use std::ffi::OsString;
use std::path::Path;
use std::time::SystemTime;

/// Where to look for what an agent left.
#[derive(Debug, Clone, Copy)]
pub struct Reference<'a> {
    /// The user's home directory.
    pub home: &'a Path,
    /// The directory that the agent was started in.
    pub directory: &'a Path,
    /// The agent's own session: the one that it was given or has named.
    pub agent_session: Option<&'a str>,
    /// When it was started.
    pub since: SystemTime,
    /// The environment that it was started with.
    pub environment: &'a [(OsString, OsString)],
}

/// What an agent's storage shows of a run that ended badly.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Recovery {
    /// It had finished.
    Success {
        /// Its final answer.
        text: String,
    },
    /// It had begun to act.
    Partial {
        /// What it did, for people and for the next worker.
        what: String,
    },
    /// Nothing is to be found.
    Nothing,
}
