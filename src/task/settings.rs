//! The user's settings for tasks.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::environment::EnvironmentSettings;
use crate::progress::tracker;
use crate::sandbox::policy;
use crate::shell::mode::ShellMode;
use crate::text::redact::Redactor;

/// The user's settings for tasks.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The state directory; without one nothing is written to disk.
    pub state: Result<PathBuf, String>,
    pub spool_on_disk: bool,
    /// How many bytes of output are kept for one task.
    pub task_quota: u64,
    /// How many bytes of output are kept for all tasks.
    pub directory_quota: u64,
    /// How long ended tasks are kept.
    pub retention: Duration,
    pub max_running: usize,
    /// How many ended tasks are kept.
    pub max_finished: usize,
    /// In bytes.
    pub max_command: usize,
    /// A name or a path.
    pub shell: String,
    pub shell_mode: ShellMode,
    /// Whether zsh gets the options of `dialect: bash`.
    pub takes_bash: bool,
    /// Sourced before each command.
    pub startup_file: Option<PathBuf>,
    /// Where commands start.
    pub directory: PathBuf,
    /// Whether a command starts in the directory where the previous one ended.
    pub keep_directory: bool,
    /// Programs that are meant to outlive their task.
    pub daemons: Arc<[String]>,
    /// The environment that commands start with.
    pub environment: EnvironmentSettings,
    /// Removes secrets from text before it is written.
    pub redactor: Arc<Redactor>,
    /// The sandbox of commands, or what is wrong with its settings.
    pub sandbox: Result<policy::Settings, String>,
    /// How progress is judged.
    pub tracker: tracker::TrackerSettings,
}
