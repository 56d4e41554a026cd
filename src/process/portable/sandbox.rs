//! Sandboxes for commands: there are none here, so every mode but `off` is refused.

use std::io;
use std::path::PathBuf;

use crate::process::needs::{Needs, SandboxError};
use crate::sandbox::limits::{self, Abilities, Namespaces};
use crate::sandbox::policy::Policy;

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

    /// Nothing is protected.
    #[expect(clippy::unused_self, reason = "the twin needs it")]
    pub(crate) fn protected(&self) -> &[PathBuf] {
        &[]
    }

    /// Nothing is watched.
    #[expect(clippy::unused_self, reason = "the twin needs it")]
    pub(crate) fn absent(&self) -> &[PathBuf] {
        &[]
    }

    /// Nothing is closed.
    #[expect(clippy::unused_self, reason = "the twin needs it")]
    pub(crate) fn closed(&self) -> Vec<PathBuf> {
        Vec::new()
    }

    /// Does nothing.
    #[expect(clippy::unused_self, reason = "the twin needs it")]
    pub(in crate::process) fn carry_out(&self) -> io::Result<()> {
        Ok(())
    }
}
