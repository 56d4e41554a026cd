//! Which ends of runs are still to be reported by `zsh-tool events`.
//!
//! A runner leaves a mark with its run's id when it starts or resumes the run. Once it has ended,
//! even by SIGKILL, the process that removes the mark reports the end, so that it is said once.
//!
//! Limits: these are files of their own, in one directory, so that one watch sees every new one.

use std::path::{Path, PathBuf};

use uuid::Uuid;

use super::sessions::{self, FindError, RunView};
use crate::process::files::{self, PrivateDirError};

/// The directory of marks below the state directory.
const FOLDER: &str = "unreported_runs";

/// The directory of all marks, which is made if it is missing.
///
/// # Errors
/// If it cannot be made or is not private.
pub(crate) fn folder(state: &Path) -> Result<PathBuf, PrivateDirError> {
    let folder = state.join(FOLDER);
    files::private_dir(state)?;
    files::private_subdir(&folder)?;
    Ok(folder)
}

/// Leaves the mark of a run: its end is to be reported.
pub(crate) fn mark(state: &Path, id: &str) {
    if let Err(error) = folder(state) {
        tracing::warn!("events will not report the end of run {id}: {error}");
    } else if let Err(error) = files::create_private(&state.join(FOLDER).join(id))
        && error.kind() != std::io::ErrorKind::AlreadyExists
    {
        tracing::warn!("events will not report the end of run {id}: {error}");
    }
}

/// The runs with marks. A mark without a run, such as one that has been pruned, is removed.
pub(crate) fn marked(state: &Path) -> Vec<RunView> {
    let entries = std::fs::read_dir(state.join(FOLDER)).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let ids = names.filter(|name| Uuid::try_parse(name).is_ok());
    let mut runs = Vec::new();
    for id in ids {
        match sessions::find(state, &id) {
            Ok(run) => runs.push(run),
            Err(FindError::Unknown(_)) => {
                claim(state, &id);
            }
            Err(error) => tracing::warn!("the end of run {id} cannot be reported: {error}"),
        }
    }
    runs
}

/// Removes the mark of a run that has ended. Returns whether this process is to report the end.
pub(crate) fn claim(state: &Path, id: &str) -> bool {
    std::fs::remove_file(state.join(FOLDER).join(id)).is_ok()
}
