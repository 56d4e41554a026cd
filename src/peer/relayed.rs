//! What a call that is passed on says of its client, and what only the server that passes it on sends.

use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use zeroize::Zeroize;

use super::{from_base64, to_base64};
use crate::process::executable::AllowedPrograms;
use crate::sandbox::policy::Policy;
use crate::task::environment::{self, StartEnvironment};

/// The key of [`RelayedClient`] in a call's `_meta`.
pub(crate) const RELAY_KEY: &str = "zsh-tool/relay";

/// The client behind a relayed call, and values that the relaying server adds.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct RelayedClient {
    /// Its name; empty if it gave none.
    pub(crate) name: String,
    pub(crate) coloured: bool,
    /// How many bytes of a result reach the model; `None` if the client sets no limit.
    pub(crate) result_bytes: Option<usize>,
    /// How many lines.
    pub(crate) result_lines: Option<usize>,
    /// Only the head of a result that is too long reaches it.
    pub(crate) head_only: bool,
    /// How many seconds a call may wait; `None` for an unknown client.
    pub(crate) ceiling_s: Option<f64>,
    /// For the call that starts a shim: the shim ends its task when no process has been connected to
    /// it for this many seconds. `None`: the shim needs no connection.
    pub(crate) lease_s: Option<f64>,
    /// A person reads the answer, so the output it shows stays new for the task's agent.
    pub(crate) for_person: bool,
    /// The id for the task that the call starts, if the caller has chosen it.
    pub(crate) task_id: Option<String>,
    /// The secret that a call to a host types.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) secret: Option<RelayedSecret>,
    /// The environment for the command that a shim starts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) start: Option<RelayedStart>,
    /// The sandbox for the command that a shim starts, or the loosest that a task which gets input may
    /// have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) sandbox: Option<Policy>,
}

/// A [`StartEnvironment`] on its way to a shim.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RelayedStart {
    /// In the format of `/proc/PID/environ`. Some may be secrets.
    variables: RelayedSecret,
    files: Vec<PathBuf>,
    problems: Vec<String>,
}

impl From<StartEnvironment> for RelayedStart {
    fn from(start: StartEnvironment) -> RelayedStart {
        let mut data = Vec::new();
        for (name, value) in start.variables.iter() {
            data.extend([name.as_bytes(), b"=", value.as_bytes(), b"\0"].concat());
        }
        let variables = RelayedSecret { data, programs: AllowedPrograms::default() };
        RelayedStart { variables, files: start.files, problems: start.problems }
    }
}

impl From<&RelayedStart> for StartEnvironment {
    fn from(start: &RelayedStart) -> StartEnvironment {
        StartEnvironment {
            variables: Arc::new(environment::entries(&start.variables.data)),
            files: start.files.clone(),
            problems: start.problems.clone(),
        }
    }
}

/// A secret's bytes on their way to a host.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct RelayedSecret {
    #[serde(serialize_with = "to_base64", deserialize_with = "from_base64")]
    pub(crate) data: Vec<u8>,
    /// The programs there that may read it, if it is to be typed.
    #[serde(default)]
    pub(crate) programs: AllowedPrograms,
}

impl std::fmt::Debug for RelayedSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("RelayedSecret")
    }
}

impl Drop for RelayedSecret {
    fn drop(&mut self) {
        self.data.zeroize();
    }
}
