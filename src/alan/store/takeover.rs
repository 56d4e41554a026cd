//! Taking over a database that lies elsewhere: copied whole by SQLite's backup, brought
//! to the present version, its rows added, and the old file renamed.

use std::path::Path;
use std::time::Duration;

use rusqlite::backup::Backup;
use rusqlite::{Connection, OpenFlags};

use super::connection::{self, Database, DatabaseError};
use super::maintenance::{self, Imported};
use crate::alan::rows::Entry;
use crate::alan::schema::{self, Derivation};
use crate::process::files::Temporary;

/// Pages copied at a time: all, since the source is locked meanwhile anyway.
const ALL_PAGES: std::ffi::c_int = -1;
/// Rows that are held in memory at a time.
const CHUNK: usize = 1000;

/// What became of an old database.
#[derive(Debug, PartialEq, Eq)]
pub enum TakeOver {
    /// There is none.
    Missing,
    /// Somebody uses it: the next start tries again.
    InUse,
    /// Its rows are here now, and it has another name.
    Done(Imported),
}

/// Takes over the rows of an old database, under the lock of the new one.
///
/// # Errors
/// When it cannot be read or the new one cannot be written; the old one keeps its name.
pub fn take_over(
    own_path: &Path,
    own: &mut Database,
    old_path: &Path,
    derivation: &Derivation,
) -> Result<TakeOver, DatabaseError> {
    let is_file = std::fs::symlink_metadata(old_path).is_ok_and(|found| found.is_file());
    if !is_file {
        return Ok(TakeOver::Missing);
    }
    let _lock = match connection::lock(own_path) {
        Err(DatabaseError::BeingRepaired) => return Ok(TakeOver::InUse),
        locked => locked?,
    };
    if std::fs::metadata(old_path).is_ok_and(|old| own.is_current(old_path) && old.is_file()) {
        return Ok(TakeOver::Missing);
    }
    match copy_and_rename(own_path, own, old_path, derivation) {
        Err(error) if error.is_busy() => Ok(TakeOver::InUse),
        done => done.map(TakeOver::Done),
    }
}

fn copy_and_rename(
    own_path: &Path,
    own: &mut Database,
    old_path: &Path,
    derivation: &Derivation,
) -> Result<Imported, DatabaseError> {
    let copy_path = connection::beside(own_path, ".import");
    let _removed = [
        copy_path.clone(),
        connection::beside(&copy_path, "-wal"),
        connection::beside(&copy_path, "-shm"),
    ]
    .map(Temporary);
    let _ = std::fs::remove_file(&copy_path);
    let old = exclusive(old_path)?;
    let mut copy = Database::open(&copy_path, Duration::from_secs(1))?;
    Backup::new(&old, &mut copy.connection)?.step(ALL_PAGES)?;
    schema::migrate(&mut copy.connection, derivation)?;
    let imported = add_rows(&copy.connection, &mut own.connection)?;
    // Still locked, so that nobody writes to it between the copy and the new name.
    std::fs::rename(old_path, connection::beside(old_path, ".imported"))?;
    for suffix in ["-wal", "-shm"] {
        let _ = std::fs::remove_file(connection::beside(old_path, suffix));
    }
    Ok(imported)
}

/// A connection that nobody else has one beside, for as long as it lives.
fn exclusive(path: &Path) -> Result<Connection, DatabaseError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let old = Connection::open_with_flags(path, flags)?;
    old.busy_timeout(Duration::ZERO)?;
    old.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
    // In this mode the lock of a transaction outlives it. Leaving the write-ahead log
    // also puts all of it into the file.
    old.execute_batch("BEGIN EXCLUSIVE; COMMIT;")?;
    old.pragma_update(None, "journal_mode", "DELETE")?;
    old.execute_batch("BEGIN EXCLUSIVE; COMMIT;")?;
    Ok(old)
}

fn add_rows(from: &Connection, to: &mut Connection) -> Result<Imported, DatabaseError> {
    let mut sum = Imported::default();
    let mut waiting: Vec<Entry> = Vec::new();
    let mut add = |waiting: &mut Vec<Entry>| -> rusqlite::Result<()> {
        let imported = maintenance::import(to, waiting)?;
        sum.added += imported.added;
        sum.known += imported.known;
        waiting.clear();
        Ok(())
    };
    maintenance::export::<rusqlite::Error>(from, &mut |entry| {
        waiting.push(entry);
        if waiting.len() >= CHUNK {
            add(&mut waiting)
        } else {
            Ok(())
        }
    })?;
    add(&mut waiting)?;
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::alan::schema::tests::{derivation, original};

    fn own(scratch: &Path) -> (std::path::PathBuf, Database) {
        let path = scratch.join("alan.db");
        let opened = connection::open_present(&path, Duration::from_secs(1), &derivation(1));
        (path, opened.expect("a database").0)
    }

    fn count(database: &Database, sql: &str) -> i64 {
        database
            .connection
            .query_row(sql, [], |row| row.get(0))
            .expect(sql)
    }

    #[test]
    fn rows_of_an_old_database_come_over_once_and_it_gets_another_name() {
        let scratch = tempfile::tempdir().expect("a directory");
        let old = scratch.path().join("old.db");
        let connection = Connection::open(&old).expect("a database");
        original(&connection, false);
        drop(connection);
        let (path, mut database) = own(scratch.path());
        let done = take_over(&path, &mut database, &old, &derivation(1)).expect("taken over");
        assert_eq!(done, TakeOver::Done(Imported { added: 6, known: 0 }));
        assert_eq!(count(&database, "SELECT count(*) FROM observations"), 4);
        assert_eq!(
            count(
                &database,
                "SELECT count(*) FROM observations WHERE command_hash = 'h(git push)'"
            ),
            2
        );
        assert!(!old.exists() && connection::beside(&old, ".imported").exists());
        let again = take_over(&path, &mut database, &old, &derivation(1)).expect("looked at");
        assert_eq!(again, TakeOver::Missing);
        let left: Vec<_> = std::fs::read_dir(scratch.path())
            .expect("a directory")
            .map(|entry| entry.expect("an entry").file_name())
            .filter(|name| name.to_string_lossy().contains(".import"))
            .collect();
        assert_eq!(left, ["old.db.imported"]);
    }

    #[test]
    fn an_old_database_in_use_is_left_for_the_next_start() {
        for mode in ["DELETE", "WAL"] {
            let scratch = tempfile::tempdir().expect("a directory");
            let old = scratch.path().join("old.db");
            let user = Connection::open(&old).expect("a database");
            user.pragma_update(None, "journal_mode", mode)
                .expect("mode");
            original(&user, true);
            user.execute_batch("BEGIN IMMEDIATE").expect("in use");
            let (path, mut database) = own(scratch.path());
            let left = take_over(&path, &mut database, &old, &derivation(1)).expect("looked at");
            assert_eq!(left, TakeOver::InUse, "{mode}");
            assert!(old.exists());
            user.execute_batch("COMMIT").expect("done");
            drop(user);
            let done = take_over(&path, &mut database, &old, &derivation(1)).expect("taken over");
            assert!(matches!(done, TakeOver::Done(_)), "{mode}: {done:?}");
        }
    }
}
