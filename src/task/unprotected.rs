//! What programs outside of the sandbox obey and is missing, which no sandbox can protect: answers tell
//! when it has come into being, whichever command or process left behind has made it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use parking_lot::Mutex;

/// The paths that a server watches, each with the task whose answer has told that it was made.
#[derive(Debug, Default)]
pub(crate) struct Unprotected(Mutex<BTreeMap<PathBuf, Option<String>>>);

impl Unprotected {
    /// Watches those of the paths that are missing: a command starts whose sandbox would protect them.
    pub(super) fn watch(&self, paths: &[PathBuf]) {
        // The disk may be slow, so nothing is looked at while others wait.
        let missing = paths.iter().filter(|path| !is_there(path));
        let missing: Vec<PathBuf> = missing.cloned().collect();
        self.0.lock().extend(missing.into_iter().map(|path| (path, None)));
    }

    /// Watches what was missing when a task began, maybe under another server.
    pub(super) fn watch_for(&self, absent: &[PathBuf]) {
        let mut watched = self.0.lock();
        for path in absent {
            watched.entry(path.clone()).or_default();
        }
    }

    /// What was made and that no answer has told.
    pub(super) fn untold(&self) -> Vec<PathBuf> {
        let watched = self.0.lock().clone();
        let untold = watched.into_iter().filter(|(_, told)| told.is_none());
        untold.map(|(path, _)| path).filter(|path| is_there(path)).collect()
    }

    /// The same, which an answer about this task tells now.
    pub(super) fn tell(&self, task: &str) -> Vec<PathBuf> {
        let watched: Vec<PathBuf> = self.0.lock().keys().cloned().collect();
        let there: Vec<bool> = watched.iter().map(|path| is_there(path)).collect();
        let mut all = self.0.lock();
        let mut made = Vec::new();
        for (path, is_there) in watched.iter().zip(there) {
            let Some(told) = all.get_mut(path) else { continue };
            if !is_there {
                // It may be made again.
                *told = None;
            } else if told.is_none() {
                *told = Some(task.to_owned());
                made.push(path.clone());
            }
        }
        made
    }

    /// An answer about this task was lost.
    pub(super) fn take_back(&self, task: &str) {
        for told in self.0.lock().values_mut() {
            told.take_if(|by| by == task);
        }
    }
}

/// A link is there wherever it leads.
fn is_there(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_path_is_told_once_each_time_that_it_is_made() {
        let folder = tempfile::tempdir().expect("a directory");
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("old"), "").expect("a file");
        std::os::unix::fs::symlink("nowhere", at("dangling")).expect("a link");
        let watched = Unprotected::default();
        watched.watch(&[at("old"), at("dangling"), at("new"), at("link")]);
        assert!(watched.tell("one").is_empty());
        std::fs::write(at("new"), "").expect("a file");
        std::os::unix::fs::symlink("nowhere", at("link")).expect("a link");
        assert_eq!(watched.untold(), [at("link"), at("new")]);
        assert_eq!(watched.tell("one"), [at("link"), at("new")]);
        watched.watch_for(&[at("new")]);
        assert!(watched.tell("two").is_empty() && watched.untold().is_empty());
        watched.take_back("two");
        assert!(watched.untold().is_empty());
        watched.take_back("one");
        assert_eq!(watched.tell("two").len(), 2);
        std::fs::remove_file(at("new")).expect("it was there");
        watched.watch(&[at("new")]);
        std::fs::write(at("new"), "").expect("a file");
        assert_eq!(watched.tell("two"), [at("new")]);
    }
}
