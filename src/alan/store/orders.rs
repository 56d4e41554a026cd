//! What a person asks of the store: to count, prune, forget, export and import.

use std::time::SystemTime;

use super::maintenance::{self, Counts, Forget, Imported, Removed};
use super::{Store, StoreError};
use crate::alan::rows::Entry;

impl Store {
    /// Counts what the database holds.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn counts(&self) -> Result<Counts, StoreError> {
        self.order(|database| maintenance::counts(&database.connection))
    }

    /// Removes what weighs next to nothing.
    ///
    /// # Errors
    /// When the database cannot be written.
    pub fn prune(&self, now: SystemTime) -> Result<Removed, StoreError> {
        self.order(|database| maintenance::prune(&mut database.connection, now, None))
    }

    /// Forgets a command or a kind of command.
    ///
    /// # Errors
    /// When the database cannot be written; nothing is forgotten then.
    pub fn forget(&self, what: Forget<'_>) -> Result<Removed, StoreError> {
        self.order(|database| maintenance::forget(&mut database.connection, what))
    }

    /// Gives every row to a function, which may stop it with an error of its own.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub fn export<E>(
        &self,
        each: &mut dyn FnMut(Entry) -> Result<(), E>,
    ) -> Result<Result<(), E>, StoreError> {
        self.order(|database| {
            let exported = maintenance::export(&database.connection, &mut |entry| {
                each(entry).map_err(Stopped::ByCaller)
            });
            match exported {
                Ok(()) => Ok(Ok(())),
                Err(Stopped::ByCaller(error)) => Ok(Err(error)),
                Err(Stopped::BySqlite(error)) => Err(error),
            }
        })
    }

    /// Adds rows of an export; what is there already, or newer, stays.
    ///
    /// # Errors
    /// When the database cannot be written; doing it again changes nothing more.
    pub fn import(&self, entries: &[Entry]) -> Result<Imported, StoreError> {
        self.order(|database| maintenance::import(&mut database.connection, entries))
    }
}

/// What ended an export early.
enum Stopped<E> {
    ByCaller(E),
    BySqlite(rusqlite::Error),
}

impl<E> From<rusqlite::Error> for Stopped<E> {
    fn from(error: rusqlite::Error) -> Self {
        Stopped::BySqlite(error)
    }
}
