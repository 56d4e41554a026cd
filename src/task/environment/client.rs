//! The files that Claude Code's hooks write variables to, to be sourced before each command.
//!
//! Claude Code gives each hook of a session its own file below `session-env/SESSION` of its
//! configuration directory, and sources all of them before each of its commands. MCP servers see
//! neither that directory nor, after `/clear`, which session is the current one. So a hook of the
//! plugin notes the directory for the client's process. Without a note, the directory is that of
//! the session in which the server was started.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::process::files::{self, PrivateDirError};
use crate::process::probe::Identity;
use crate::process::tree;

/// The directory of the notes in the state directory: files named PID-START that hold a path.
const NOTES: &str = "clients";
/// The longest path.
const MAX_PATH: u64 = 4096;
/// How many ancestors of a process are searched.
const MAX_ANCESTORS: usize = 64;
/// The events whose hooks write such files, in the order of sourcing.
const EVENTS: [&str; 4] = ["setup", "sessionstart", "cwdchanged", "filechanged"];

/// Where to find the files that a client wants sourced.
#[derive(Debug, Clone, Default)]
pub struct ClientFiles {
    named: Option<PathBuf>,
    state: Option<PathBuf>,
    initial: Option<PathBuf>,
    /// The processes above this one, once they have been read.
    ancestors: OnceLock<Vec<Identity>>,
}

impl ClientFiles {
    /// `named` is a file that the environment names, `state` the state directory, if the client is
    /// one whose hooks leave notes there, and `initial` the directory of the session that the server
    /// was started in.
    pub(crate) fn new(
        named: Option<PathBuf>,
        state: Option<PathBuf>,
        initial: Option<PathBuf>,
    ) -> ClientFiles {
        ClientFiles { named, state, initial, ancestors: OnceLock::new() }
    }

    /// The files to source, in order.
    pub fn files(&self) -> Vec<PathBuf> {
        let named = self.named.clone().filter(|path| path.is_file());
        let noted = self.state.as_ref().and_then(|state| {
            let ancestors = self.ancestors.get_or_init(ancestors);
            ancestors.iter().find_map(|client| note_of(state, *client))
        });
        let directory = noted.or_else(|| self.initial.clone());
        let of_hooks = directory.map(|directory| files_in(&directory)).unwrap_or_default();
        named.into_iter().chain(of_hooks).collect()
    }
}

/// The processes above this one, nearest first.
pub(crate) fn ancestors() -> Vec<Identity> {
    let mut found = Vec::new();
    let mut pid = i32::try_from(std::os::unix::process::parent_id()).unwrap_or_default();
    while found.len() < MAX_ANCESTORS
        && let Some(process) = tree::look_up(pid)
    {
        found.push(process.id);
        pid = process.parent;
    }
    found
}

fn note(state: &Path, client: Identity) -> PathBuf {
    state.join(NOTES).join(format!("{}-{}", client.pid, client.started))
}

fn note_of(state: &Path, client: Identity) -> Option<PathBuf> {
    let path = files::read_private(&note(state, client), MAX_PATH).ok()?;
    Some(PathBuf::from(OsString::from_vec(path)))
}

/// Notes the directory of a client's session, and removes the notes of clients that have ended.
///
/// # Errors
/// The note cannot be written.
pub(crate) fn write_note(
    state: &Path,
    client: Identity,
    directory: &Path,
) -> Result<(), NoteError> {
    files::private_dir(state)?;
    let notes = state.join(NOTES);
    files::private_subdir(&notes)?;
    for other in files::entries(&notes) {
        let name = other.file_name();
        let pid = name.to_str().and_then(|name| name.split('-').next()?.parse().ok());
        let lives = pid
            .and_then(tree::look_up)
            .is_some_and(|process| note(state, process.id).file_name() == Some(&name));
        if !lives {
            let _ = std::fs::remove_file(other.path());
        }
    }
    Ok(files::replace_private(&note(state, client), directory.as_os_str().as_bytes())?)
}

/// Why a client's note was not written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoteError {
    #[error(transparent)]
    Directory(#[from] PrivateDirError),
    #[error(transparent)]
    File(#[from] std::io::Error),
}

/// The hooks' files in a session's directory that are not empty and belong to this user.
fn files_in(directory: &Path) -> Vec<PathBuf> {
    let mut found: Vec<((usize, u32), PathBuf)> = files::entries(directory)
        .filter_map(|entry| Some((sourcing_order(&entry.file_name())?, entry.path())))
        .filter(|(_, path)| files::is_own_with_content(path))
        .collect();
    found.sort();
    found.into_iter().map(|(_, path)| path).collect()
}

/// The place of a file named EVENT-hook-NUMBER.sh in the order of sourcing.
fn sourcing_order(name: &OsStr) -> Option<(usize, u32)> {
    let (event, number) = name.to_str()?.strip_suffix(".sh")?.split_once("-hook-")?;
    let event = EVENTS.iter().position(|known| *known == event)?;
    Some((event, number.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_hooks_are_sourced_by_event_and_number() {
        let mut names = [
            "filechanged-hook-0.sh",
            "sessionstart-hook-10.sh",
            "sessionstart-hook-9.sh",
            "setup-hook-3.sh",
        ];
        names.sort_by_key(|name| sourcing_order(OsStr::new(name)));
        assert_eq!(names[0], "setup-hook-3.sh");
        assert_eq!(names[1..3], ["sessionstart-hook-9.sh", "sessionstart-hook-10.sh"]);
        for other in ["stop-hook-1.sh", "sessionstart-hook-1.sh~", "sessionstart-hook-x.sh"] {
            assert_eq!(sourcing_order(OsStr::new(other)), None, "{other}");
        }
    }
}
