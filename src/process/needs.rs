//! What a sandboxed command needs, and why it may not get its sandbox.

use std::io;
use std::path::PathBuf;

use crate::text::foreign::ShowPath;

/// Why a command is not started in its sandbox.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    #[error(
        "the sandbox ({mode}) cannot be enforced here: {missing}; the command was not started. The user \
         can set sandbox.best_effort: true to run it all the same, or sandbox.mode: off"
    )]
    NotEnforced { mode: &'static str, missing: String },
    #[error(
        "the sandbox ({mode}) does not let commands into {}: give another cwd, or the user can take it \
         off sandbox.deny_read", directory.shown()
    )]
    Directory { mode: &'static str, directory: PathBuf },
    #[error("the sandbox ({mode}) cannot be made ready: {source}; the command was not started")]
    Io { mode: &'static str, source: io::Error },
}

/// What one command needs besides what its policy says.
#[derive(Debug, Clone, Default)]
#[cfg_attr(
    any(not(target_os = "linux"), feature = "portable"),
    expect(dead_code, reason = "nothing is enforced there")
)]
pub(crate) struct Needs {
    /// Where it starts.
    pub(crate) directory: PathBuf,
    /// Files that it reads and writes although they are in a directory that it may not read.
    pub(crate) files: Vec<PathBuf>,
    /// Its own temporary directory, in the shared one.
    pub(crate) temporary: Option<PathBuf>,
    /// The directory of those files and of temporary directories: it may read there.
    pub(crate) shared: Option<PathBuf>,
}
