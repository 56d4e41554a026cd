//! Other processes that own tasks (servers, runs of agents): finding the owner of a task, and
//! calling it over its control socket.
//!
//! A connection serves one call, or one person at a task's terminal ([`attach`]); closing it
//! cancels the call. Output in a call's result counts as shown once [`client::Peer::delivered`] confirms
//! that it has reached its reader. If the connection ends earlier, the owner shows it again.
//!
//! Calls to a host ([`hosts`]) share one connection, but otherwise work the same.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serializer};

use crate::process::descriptors::{Interest, Poller};
use crate::process::kill::Handle;
use crate::process::signals::Signal;
use crate::process::tree;
use crate::task::journal::{self};
use crate::text::foreign::ShowPath;

pub(crate) mod attach;
pub(crate) mod bootstrap;
pub(crate) mod client;
pub(crate) mod events;
pub(crate) mod hosts;
pub(crate) mod link;
pub(crate) mod pages;
pub(crate) mod payload;
pub(crate) mod relayed;

/// How long an answer may take beyond the wait that its call requests.
pub(crate) const ANSWER_LIMIT: Duration = Duration::from_secs(5);
/// How often to look whether a process has ended where the system does not tell.
const RECHECK: Duration = Duration::from_millis(20);
/// The notification that a relayed result has reached its reader.
pub(crate) const DELIVERED: &str = "zsh-tool/delivered";
/// The method that requests events.
pub(crate) const EVENTS: &str = "zsh-tool/events";
/// The notification that brings an event, which [`DELIVERED`] acknowledges.
pub(crate) const EVENT: &str = "zsh-tool/event";
/// The notification that a server shuts down in order, so that its tasks on the host end at once.
pub(crate) const END: &str = "zsh-tool/end";

/// Why another process did not carry out a call.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PeerError {
    /// The process has ended or has no control socket.
    #[error("process {0} owns this task and cannot be reached: if it has just ended, try again")]
    Gone(Owner),
    #[error(
        "process {owner} owns this task and has not answered for {} s{}", .waited.as_secs(),
        if *.stopped { format!(": it is stopped, `kill -CONT {owner}` continues it") } else { String::new() }
    )]
    Silent {
        owner: Owner,
        waited: Duration,
        /// A signal has stopped it.
        stopped: bool,
    },
    /// The error that it answered.
    #[error("{0}")]
    Refused(String),
    #[error("the call was cancelled")]
    Cancelled,
    #[error("process {owner} owns this task and its answer cannot be read: {source}")]
    Unreadable { owner: Owner, source: io::Error },
}

/// A process that owns tasks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Owner {
    /// Its directory below the state directory.
    pub(crate) directory: PathBuf,
}

impl Owner {
    /// Terminates the process, which ends its tasks.
    pub(crate) fn end(&self) {
        let process = journal::server_pid(&self.directory).and_then(tree::look_up);
        // The lock shows that the pid still belongs to this process.
        if let Some(process) = process.filter(|_| journal::server_lives(&self.directory))
            && let Ok(handle) = Handle::open(process.id)
        {
            // Fails only if the process has ended.
            let _ = handle.signal(Signal::Term);
        }
    }

    /// Waits for the end of the process; returns false if it has not ended within the limit.
    pub(crate) fn await_end(&self, limit: Duration) -> bool {
        let deadline = Instant::now() + limit;
        let process = journal::server_pid(&self.directory).and_then(tree::look_up);
        let handle = process.and_then(|process| Handle::open(process.id).ok());
        let end = handle.as_ref().and_then(Handle::ended);
        while journal::server_lives(&self.directory) {
            let left = deadline.saturating_duration_since(Instant::now());
            let mut poller = Poller::default();
            let place = end.map(|end| poller.watch(end, Interest::Read));
            // Without a pidfd, only its lock shows that it lives.
            poller.wait(Some(if end.is_some() { left } else { left.min(RECHECK) }));
            if poller.ready(place) || left.is_zero() {
                return !journal::server_lives(&self.directory);
            }
        }
        true
    }
}

impl std::fmt::Display for Owner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match journal::server_pid(&self.directory) {
            Some(pid) => write!(f, "{pid}"),
            None => write!(f, "of {}", self.directory.shown()),
        }
    }
}

/// The living shim that holds a detached task.
pub(crate) fn shim_of(state: &Path, task: &str) -> Option<Owner> {
    if !journal::is_task_id(task) {
        return None;
    }
    let directory = journal::shims(state).into_iter().find(|directory| {
        journal::read(directory, task).is_some() && journal::server_lives(directory)
    })?;
    Some(Owner { directory })
}

fn to_base64<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&BASE64.encode(bytes))
}

fn from_base64<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
    BASE64.decode(String::deserialize(deserializer)?).map_err(D::Error::custom)
}
