//! Runs whose creation was cut off: nobody has seen them, and nobody will miss them.
//!
//! Limits: whoever is creating a run just now is left alone, by its lock and by time.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::lock;

/// A directory is made some moments before its lock; a new one is left alone for so long.
const LEAST_AGE: Duration = Duration::from_secs(60);

/// What ends the name of a run's directory until the run is whole.
const SUFFIX: &str = ".new";

/// Where the run of an id is made.
pub(super) fn place(sessions: &Path, id: &str) -> PathBuf {
    sessions.join(format!("{id}{SUFFIX}"))
}

/// Removes what killed processes have left in the directory of all runs.
///
/// # Errors
/// When that cannot be read. What cannot be removed stays for the next time.
pub(super) fn remove(sessions: &Path, now: SystemTime) -> io::Result<()> {
    for entry in std::fs::read_dir(sessions)? {
        let path = entry?.path();
        let is_left = is_ours(&path) && is_old(&path, now) && !lock::is_held(&path);
        if is_left && let Err(error) = std::fs::remove_dir_all(&path) {
            tracing::warn!("cannot remove {}: {error}", path.display());
        }
    }
    Ok(())
}

fn is_ours(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    let id = name.and_then(|name| name.strip_suffix(SUFFIX));
    id.is_some_and(|id| uuid::Uuid::try_parse(id).is_ok())
}

/// A time that is still to come says nothing: the clock was set back.
fn is_old(path: &Path, now: SystemTime) -> bool {
    let changed = std::fs::symlink_metadata(path).and_then(|found| found.modified());
    let age = changed.ok().and_then(|at| now.duration_since(at).ok());
    age.is_some_and(|age| age >= LEAST_AGE)
}

#[cfg(test)]
mod tests {
    use super::super::lock::Lock;
    use super::*;

    const ID: &str = "11111111-2222-4333-8444-555555555555";

    #[test]
    fn what_nobody_is_making_any_more_goes() {
        let sessions = tempfile::tempdir().unwrap();
        let left = place(sessions.path(), ID);
        let others = ["keep.new", ID].map(|name| sessions.path().join(name));
        for directory in others.iter().chain([&left]) {
            std::fs::create_dir(directory).unwrap();
            std::fs::write(directory.join("oneshot-log.json"), "{").unwrap();
        }
        let now = SystemTime::now();
        remove(sessions.path(), now).unwrap();
        assert!(left.exists(), "it may be made just now");
        let later = now + 2 * LEAST_AGE;
        let lock = Lock::take(&left).unwrap();
        remove(sessions.path(), later).unwrap();
        assert!(left.exists(), "somebody is making it");
        drop(lock);
        remove(sessions.path(), later).unwrap();
        assert!(!left.exists());
        assert!(others.iter().all(|other| other.exists()));
    }
}
