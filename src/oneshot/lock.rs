//! Who runs a run: a lock on a file of its directory, with the runner's pid and start time
//! in it.
//!
//! The lock goes with the process that holds it, however that ends. Limits: on a network
//! file system it may not reach other machines.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::process::files::{self, FileLock};
use crate::process::tree::{self, Identity};

/// The file's name in a run's directory.
pub const FILE_NAME: &str = "lock";

/// Whoever asks whether a lock is held holds it for that moment: so often it is tried
/// again where no runner is known.
const TRIES: usize = 100;

/// The right to run a run, for as long as this lives.
#[derive(Debug)]
pub struct Lock {
    held: FileLock,
}

/// Why a run is not this process's to run.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Somebody runs it.
    #[error(
        "this run is being run {}: `zsh-tool oneshot follow` watches it, `stop` ends it",
        by(.runner)
    )]
    Held {
        /// Who, where that is known.
        runner: Option<Identity>,
    },
    /// The system refused.
    #[error("cannot lock {path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

fn by(runner: &Option<Identity>) -> String {
    match runner {
        Some(runner) => format!("by pid {}", runner.pid),
        None => "by another process".to_owned(),
    }
}

impl Lock {
    /// Takes the lock of a run's directory.
    ///
    /// # Errors
    /// When somebody else has it, or the disk refuses.
    pub fn take(directory: &Path) -> Result<Lock, LockError> {
        let path = directory.join(FILE_NAME);
        let failed = |source| LockError::Io {
            path: path.clone(),
            source,
        };
        for _ in 0..TRIES {
            if let Some(held) = FileLock::try_take(&path).map_err(failed)? {
                let lock = Lock { held };
                lock.sign().map_err(failed)?;
                return Ok(lock);
            }
            let runner = runner(directory);
            if runner.is_some() {
                return Err(LockError::Held { runner });
            }
            std::thread::yield_now();
        }
        Err(LockError::Held { runner: None })
    }

    fn sign(&self) -> io::Result<()> {
        let own = i32::try_from(std::process::id()).unwrap_or_default();
        let started = tree::look_up(own).map_or(0, |found| found.id.started);
        let mut file = self.held.file();
        file.set_len(0)?;
        let text = format!("{own} {started}\n");
        file.write_all(text.as_bytes())
    }
}

impl Drop for Lock {
    /// Nobody runs it from now on, though this process may live on. Whoever watches the
    /// directory is woken by the file's close, which comes after the lock has gone.
    fn drop(&mut self) {
        let _ = self.held.file().set_len(0);
    }
}

/// The process that runs a run, if one does and this process can see it.
pub fn runner(directory: &Path) -> Option<Identity> {
    let text = std::fs::read_to_string(directory.join(FILE_NAME)).ok()?;
    let (pid, started) = text.trim().split_once(' ')?;
    let signed = Identity {
        pid: pid.parse().ok()?,
        started: started.parse().ok()?,
    };
    tree::look_up(signed.pid)
        .filter(|found| found.id == signed && !found.zombie)
        .map(|found| found.id)
}

/// Whether somebody runs a run. Its lock is only tried where the runner is not seen.
pub fn is_held(directory: &Path) -> bool {
    runner(directory).is_some() || files::is_locked(&directory.join(FILE_NAME))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As a process has one that another thread is just starting.
    #[test]
    fn a_lock_that_is_given_up_is_free_whoever_has_a_copy_of_its_descriptor() {
        let directory = tempfile::tempdir().unwrap();
        let lock = Lock::take(directory.path()).unwrap();
        assert!(is_held(directory.path()));
        let copy = lock.held.file().try_clone().unwrap();
        drop(lock);
        assert!(!is_held(directory.path()));
        drop(copy);
    }
}
