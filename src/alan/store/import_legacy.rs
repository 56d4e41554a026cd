//! Imports an older database: copies it by SQLite's backup, migrates the copy, adds its rows
//! and renames the old file.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::backup::Backup;
use rusqlite::{Connection, OpenFlags};

use super::admin::{self, Imported};
use super::connection::{self, Database, DatabaseError};
use crate::alan::rows::JournalRow;
use crate::alan::schema::{self, Derivation};
use crate::process::files::Temporary;

/// Copies all pages in one step: the source is locked for the whole import anyway.
const ALL_PAGES: std::ffi::c_int = -1;
/// Rows held in memory at a time.
const CHUNK: usize = 1000;

/// The result for one old database.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum LegacyImport {
    Missing,
    /// Another process uses it; the next start tries again.
    InUse,
    /// Its rows have been added, and it has been renamed.
    Done {
        /// The rows added.
        rows: Imported,
        /// Rows that could not be read; only the old file has them.
        unreadable_rows: usize,
    },
}

/// Imports an old database while holding the lock of the new one.
///
/// # Errors
/// If it cannot be read, or the new one cannot be written. The old one then keeps its name.
pub(super) fn import(
    own_path: &Path,
    own: &mut Database,
    old_path: &Path,
    derivation: &Derivation,
) -> Result<LegacyImport, DatabaseError> {
    let is_file = std::fs::symlink_metadata(old_path).is_ok_and(|found| found.is_file());
    if !is_file {
        return Ok(LegacyImport::Missing);
    }
    let _lock = match connection::lock(own_path) {
        Err(DatabaseError::BeingRepaired) => return Ok(LegacyImport::InUse),
        locked => locked?,
    };
    if std::fs::metadata(old_path).is_ok_and(|old| own.is_current(old_path) && old.is_file()) {
        return Ok(LegacyImport::Missing);
    }
    match copy_and_rename(own_path, own, old_path, derivation) {
        Err(error) if error.is_busy() => Ok(LegacyImport::InUse),
        done => done,
    }
}

fn copy_and_rename(
    own_path: &Path,
    own: &mut Database,
    old_path: &Path,
    derivation: &Derivation,
) -> Result<LegacyImport, DatabaseError> {
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
    let unreadable_rows = schema::migrate(&mut copy.connection, derivation)?;
    let rows = add_rows(&copy.connection, &mut own.connection)?;
    // The old database is still locked, so that no process writes to it between copying and
    // renaming.
    std::fs::rename(old_path, new_name(old_path))?;
    for suffix in ["-wal", "-shm"] {
        let _ = std::fs::remove_file(connection::beside(old_path, suffix));
    }
    Ok(LegacyImport::Done { rows, unreadable_rows })
}

/// The name of an old database once it has been imported.
pub(super) fn new_name(old_path: &Path) -> PathBuf {
    connection::beside(old_path, ".imported")
}

/// An exclusive connection: no other process can use the database while it is open.
fn exclusive(path: &Path) -> Result<Connection, DatabaseError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let old = Connection::open_with_flags(path, flags)?;
    old.busy_timeout(Duration::ZERO)?;
    old.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
    // In this mode the lock outlives its transaction. Leaving WAL mode also moves the log's
    // content into the file.
    old.execute_batch("BEGIN EXCLUSIVE; COMMIT;")?;
    old.pragma_update(None, "journal_mode", "DELETE")?;
    old.execute_batch("BEGIN EXCLUSIVE; COMMIT;")?;
    Ok(old)
}

fn add_rows(from: &Connection, to: &mut Connection) -> Result<Imported, DatabaseError> {
    let mut sum = Imported::default();
    let mut waiting: Vec<JournalRow> = Vec::new();
    let mut add = |waiting: &mut Vec<JournalRow>| -> rusqlite::Result<()> {
        let imported = admin::import(to, waiting)?;
        sum.added += imported.added;
        sum.known += imported.known;
        waiting.clear();
        Ok(())
    };
    admin::export(from, &mut |entry| {
        waiting.push(entry);
        if waiting.len() >= CHUNK { add(&mut waiting) } else { Ok(()) }
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
        let opened = connection::open_and_repair(&path, Duration::from_secs(1), &derivation(1));
        (path, opened.expect("a database").0)
    }

    fn count(database: &Database, sql: &str) -> i64 {
        database.connection.query_row(sql, [], |row| row.get(0)).expect(sql)
    }

    #[test]
    fn rows_of_an_old_database_are_imported_once_and_it_is_renamed() {
        let scratch = tempfile::tempdir().expect("a directory");
        let old = scratch.path().join("old.db");
        let connection = Connection::open(&old).expect("a database");
        original(&connection, false);
        drop(connection);
        let (path, mut database) = own(scratch.path());
        let done = import(&path, &mut database, &old, &derivation(1)).expect("imported");
        assert_eq!(done, all(6, 0));
        assert_eq!(count(&database, "SELECT count(*) FROM observations"), 4);
        assert_eq!(
            count(
                &database,
                "SELECT count(*) FROM observations WHERE command_hash = 'h(git push)'"
            ),
            2
        );
        assert!(!old.exists() && connection::beside(&old, ".imported").exists());
        let again = import(&path, &mut database, &old, &derivation(1)).expect("examined");
        assert_eq!(again, LegacyImport::Missing);
        let left: Vec<_> = std::fs::read_dir(scratch.path())
            .expect("a directory")
            .map(|entry| entry.expect("an entry").file_name())
            .filter(|name| name.to_string_lossy().contains(".import"))
            .collect();
        assert_eq!(left, ["old.db.imported"]);
    }

    fn all(added: usize, unreadable_rows: usize) -> LegacyImport {
        LegacyImport::Done { rows: Imported { added, known: 0 }, unreadable_rows }
    }

    #[test]
    fn unreadable_rows_of_an_old_database_exclude_no_sound_row() {
        let scratch = tempfile::tempdir().expect("a directory");
        let old = scratch.path().join("old.db");
        let connection = Connection::open(&old).expect("a database");
        original(&connection, false);
        connection
            .execute_batch(
                "INSERT INTO observations (id, command_hash, command_preview, created_at) VALUES
                     ('blob', 'h', x'00ff', ''), ('bytes', 'h', CAST(x'67ff' AS TEXT), '');
                 INSERT INTO observations (id, command_hash, duration_ms, created_at) VALUES
                     ('word', 'h', 'long', ''), (NULL, 'h', 1, '');
                 INSERT INTO streaks (command_hash, current_streak) VALUES ('h', x'00');
                 INSERT INTO meta VALUES ('hash_version', x'31');",
            )
            .expect("rows");
        drop(connection);
        let (path, mut database) = own(scratch.path());
        let done = import(&path, &mut database, &old, &derivation(1)).expect("imported");
        assert_eq!(done, all(6, 6));
        assert_eq!(count(&database, "SELECT count(*) FROM observations"), 4);
        let kept = Connection::open(new_name(&old)).expect("the old file");
        let rows = kept.query_row("SELECT count(*) FROM observations", [], |row| row.get(0));
        assert_eq!(rows, Ok(8_i64), "it is left as it was");
    }

    #[test]
    fn an_old_database_in_use_is_left_for_the_next_start() {
        for mode in ["DELETE", "WAL"] {
            let scratch = tempfile::tempdir().expect("a directory");
            let old = scratch.path().join("old.db");
            let user = Connection::open(&old).expect("a database");
            user.pragma_update(None, "journal_mode", mode).expect("mode");
            original(&user, true);
            user.execute_batch("BEGIN IMMEDIATE").expect("in use");
            let (path, mut database) = own(scratch.path());
            let left = import(&path, &mut database, &old, &derivation(1)).expect("examined");
            assert_eq!(left, LegacyImport::InUse, "{mode}");
            assert!(old.exists());
            user.execute_batch("COMMIT").expect("done");
            drop(user);
            let done = import(&path, &mut database, &old, &derivation(1)).expect("imported");
            assert_eq!(done, all(6, 0), "{mode}");
        }
    }
}
