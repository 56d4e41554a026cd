//! Connections for readers: one for each that reads at the same time, kept for the next.

use std::path::PathBuf;
use std::time::Duration;

use parking_lot::Mutex;

use super::connection::{Database, DatabaseError};

/// How long a lease waits for others' locks; for readers there are next to none in WAL
/// mode.
const PATIENCE: Duration = Duration::from_secs(1);
/// Idle connections that are kept.
const MOST_IDLE: usize = 2;

/// The connections that nobody uses at the moment.
#[derive(Debug)]
pub struct Pool {
    path: PathBuf,
    idle: Mutex<Vec<Database>>,
}

impl Pool {
    /// A pool of connections to this database.
    pub fn new(path: PathBuf) -> Pool {
        Pool {
            path,
            idle: Mutex::new(Vec::new()),
        }
    }

    /// Lends a connection to a function; nothing is locked meanwhile.
    ///
    /// # Errors
    /// As [`Database::open_existing`] or as the function.
    pub fn with<T>(
        &self,
        work: impl FnOnce(&mut Database) -> rusqlite::Result<T>,
    ) -> Result<T, DatabaseError> {
        let idle = self.idle.lock().pop();
        let mut database = match idle.filter(|database| database.is_current(&self.path)) {
            Some(database) => database,
            None => Database::open_existing(&self.path, PATIENCE)?,
        };
        let given = work(&mut database)?;
        let mut idle = self.idle.lock();
        if idle.len() < MOST_IDLE {
            idle.push(database);
        }
        Ok(given)
    }

    /// Closes the connections that nobody uses.
    pub fn clear(&self) {
        let idle = std::mem::take(&mut *self.idle.lock());
        drop(idle);
    }
}
