//! A prompt that is too long for an argument, in a file that its agent reads.
//!
//! The file is removed when the agent has ended, and by the next one if its runner was killed.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::process::files;

/// A file that exists as long as this value.
#[derive(Debug)]
pub(super) struct PromptFile {
    folder: PathBuf,
    path: PathBuf,
}

impl PromptFile {
    /// Writes the prompt of a run's agent.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub(super) fn make(directory: &Path, run: &str, prompt: &str) -> io::Result<PromptFile> {
        let folder = directory.join(format!(".oneshot-{run}"));
        match std::fs::remove_dir_all(&folder) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        files::private_subdir(&folder).map_err(io::Error::other)?;
        // From here on it is removed, even if it cannot be written.
        let made = PromptFile { path: folder.join("prompt.md"), folder };
        // No commit of an agent and no snapshot has it.
        files::create_private(&made.folder.join(".gitignore"))?.write_all(b"*\n")?;
        files::create_private(&made.path)?.write_all(prompt.as_bytes())?;
        Ok(made)
    }

    /// Its path, if that is text.
    pub(super) fn path(&self) -> Option<&str> {
        self.path.to_str()
    }
}

impl Drop for PromptFile {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.folder) {
            tracing::warn!("cannot remove a prompt's file: {error}");
        }
    }
}
