//! What agent runs are run with: the parts of this process that they have in common.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use crate::agent::checks::Checks;
use crate::agent::executor::Executors;
use crate::base::clock::Clock;
use crate::record::recorder::Recorder;
use crate::task::supervisor::Supervisor;

/// What runs are run with.
pub struct Equipment {
    /// Starts and ends agents.
    pub supervisor: Arc<Supervisor>,
    /// Remembers them.
    pub recorder: Arc<Recorder>,
    /// The agent programs.
    pub executors: Executors,
    /// Judges whether they get on.
    pub checks: Arc<Checks>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// The user's home directory.
    pub home: PathBuf,
    /// What agents inherit.
    pub environment: Vec<(OsString, OsString)>,
}
