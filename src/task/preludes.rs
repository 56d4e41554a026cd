//! Files that are sourced before each command, and whether their errors have been seen.

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::SystemTime;

use parking_lot::Mutex;

use super::shell::Prelude;

/// The configured files of a server.
#[derive(Debug)]
pub(super) struct Preludes {
    /// The user's; a missing one is an error that is shown.
    own: Option<PathBuf>,
    /// The client's, which exists only when there is something in it.
    client: Option<PathBuf>,
    /// The age of each file whose errors were shown.
    shown: Mutex<HashMap<PathBuf, Option<SystemTime>>>,
}

impl Preludes {
    /// The files, none of them shown.
    pub fn new(own: Option<PathBuf>, client: Option<PathBuf>) -> Preludes {
        Preludes {
            own,
            client,
            shown: Mutex::default(),
        }
    }

    /// What the next command sources. Errors are shown the first time, and again when
    /// the file has changed.
    pub fn due(&self) -> Vec<Prelude> {
        let client = self.client.iter().filter(|path| path.is_file());
        let files = self.own.iter().chain(client).map(|path| {
            let age = std::fs::metadata(path).and_then(|found| found.modified());
            (path.clone(), age.ok())
        });
        let files: Vec<_> = files.collect();
        let mut shown = self.shown.lock();
        files
            .into_iter()
            .map(|(path, age)| Prelude {
                show_errors: shown.insert(path.clone(), age) != Some(age),
                path,
            })
            .collect()
    }
}
