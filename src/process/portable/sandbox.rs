//! Sandboxes for commands: there are none here, so every mode but `off` is refused.

use std::io;
use std::path::PathBuf;

use crate::sandbox::limits::{self, Abilities, Namespaces};
use crate::sandbox::policy::Policy;

/// Why a command is not started in its sandbox.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    #[error(
        "the sandbox ({mode}) cannot be enforced here: {missing}; the command was not started. The user \
         can set sandbox.best_effort: true to run it all the same, or sandbox.mode: off"
    )]
    NotEnforced { mode: &'static str, missing: String },
}

/// What one command needs besides what its policy says.
#[derive(Debug, Clone, Default)]
pub(crate) struct Needs {
    /// Where it starts.
    pub(crate) directory: PathBuf,
    /// Files that it reads and writes although they are in a directory that it may not read.
    pub(crate) files: Vec<PathBuf>,
    /// Its own temporary directory.
    pub(crate) temporary: Option<PathBuf>,
    /// The directory of those files and of temporary directories: it may read there.
    pub(crate) shared: Option<PathBuf>,
}

/// There is none.
#[derive(Debug)]
pub(crate) struct Sandbox;

/// What this system can enforce.
pub(crate) fn abilities() -> Abilities {
    Abilities { abi: 0, filters: false, namespaces: Namespaces::Unavailable }
}

impl Sandbox {
    /// # Errors
    /// The policy does not accept that nothing is enforced.
    pub(crate) fn prepare(policy: &Policy, _: &Needs) -> Result<Option<Sandbox>, SandboxError> {
        let losses = limits::losses(policy, abilities());
        if losses.is_empty() || policy.best_effort {
            return Ok(None);
        }
        let missing: Vec<&str> = losses.iter().map(|loss| loss.text()).collect();
        let mode = policy.mode.name();
        Err(SandboxError::NotEnforced { mode, missing: missing.join("; ") })
    }

    /// Does nothing.
    #[expect(clippy::unused_self, reason = "the twin needs it")]
    pub(in crate::process) fn carry_out(&self) -> io::Result<()> {
        Ok(())
    }
}
