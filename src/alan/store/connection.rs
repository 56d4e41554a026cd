//! One connection to the database file: opened privately, never through a link, and
//! known by its inode, so that a file that was moved away is noticed.

use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rusqlite::{Connection, ErrorCode, OpenFlags};

use crate::alan::schema::{self, Derivation, SchemaError};
use crate::process::files::{self, FileLock, PrivateDirError};

/// Memory for pages of the file, in KiB, for each connection; the system's own cache is
/// next to it.
const CACHE_KIB: i64 = 1024;
/// Prepared statements kept by a connection: more than there are.
const STATEMENTS: usize = 64;

/// Why the database cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DatabaseError {
    /// The path names something that is no file.
    #[error("it is no regular file")]
    NoFile,
    /// Its directory cannot be made.
    #[error(transparent)]
    Directory(#[from] PrivateDirError),
    /// The file cannot be made or looked at.
    #[error(transparent)]
    File(#[from] io::Error),
    /// Its tables cannot be brought to the present version.
    #[error(transparent)]
    Schema(SchemaError),
    /// SQLite refused.
    #[error(transparent)]
    Sqlite(rusqlite::Error),
    /// Another server is moving a corrupt file aside.
    #[error("another server is repairing it")]
    BeingRepaired,
}

impl From<rusqlite::Error> for DatabaseError {
    fn from(error: rusqlite::Error) -> Self {
        DatabaseError::Sqlite(error)
    }
}

impl From<SchemaError> for DatabaseError {
    fn from(error: SchemaError) -> Self {
        match error {
            SchemaError::Sqlite(error) => DatabaseError::Sqlite(error),
            error => DatabaseError::Schema(error),
        }
    }
}

impl DatabaseError {
    fn code(&self) -> Option<ErrorCode> {
        match self {
            DatabaseError::Sqlite(error) => error.sqlite_error_code(),
            _ => None,
        }
    }

    /// Whether somebody else holds the lock that is needed: worth another try.
    pub fn is_busy(&self) -> bool {
        matches!(
            self.code(),
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked)
        )
    }

    /// The cause in words; what the system says of the file and its directory where
    /// SQLite only says that it cannot open or write.
    pub fn cause(&self, path: &Path) -> String {
        let vague = matches!(
            self.code(),
            Some(ErrorCode::CannotOpen | ErrorCode::ReadOnly)
        );
        let system = [Some(path), path.parent()]
            .into_iter()
            .flatten()
            .find_map(|path| files::check_writable(path).err());
        match system {
            Some(system) if vague => format!("{self}: {system}"),
            _ => self.to_string(),
        }
    }

    /// Whether the file's content is not a sound database.
    pub fn is_corrupt(&self) -> bool {
        matches!(
            self.code(),
            Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt)
        )
    }
}

/// An open connection, and which file it is to.
#[derive(Debug)]
pub struct Database {
    /// The connection.
    pub connection: Connection,
    file: (u64, u64),
}

impl Database {
    /// Opens the database, making it and its directory where they are missing. Whoever
    /// waits for a lock on it waits `patience`.
    ///
    /// # Errors
    /// When that cannot be done; nothing that exists has been changed then, but for the
    /// file's mode.
    pub fn open(path: &Path, patience: Duration) -> Result<Database, DatabaseError> {
        let path = &real_path(path)?;
        match files::create_private(path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error.into()),
            _ => Database::open_existing(path, patience),
        }
    }

    /// Opens a database that is there.
    ///
    /// # Errors
    /// As [`Database::open`], and when it is missing.
    pub fn open_existing(path: &Path, patience: Duration) -> Result<Database, DatabaseError> {
        let path = &real_path(path)?;
        let file = private_file(path)?;
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_NOFOLLOW
            | OpenFlags::SQLITE_OPEN_NO_MUTEX
            | OpenFlags::SQLITE_OPEN_EXRESCODE;
        let connection = Connection::open_with_flags(path, flags)?;
        connection.busy_timeout(patience)?;
        connection.set_prepared_statement_cache_capacity(STATEMENTS);
        connection.pragma_update(None, "cache_size", -CACHE_KIB)?;
        connection.pragma_update(None, "journal_mode", "WAL")?;
        connection.pragma_update(None, "synchronous", "NORMAL")?;
        connection.pragma_update(None, "foreign_keys", true)?;
        Ok(Database { connection, file })
    }

    /// Whether the path still names the file that this is a connection to.
    pub fn is_current(&self, path: &Path) -> bool {
        std::fs::metadata(path).is_ok_and(|found| (found.dev(), found.ino()) == self.file)
    }
}

/// Opens the database and brings it to the present version. A corrupt file is moved
/// aside first: the second value says where to.
///
/// # Errors
/// As [`Database::open`] and [`schema::migrate`].
pub fn open_present(
    path: &Path,
    patience: Duration,
    derivation: &Derivation,
) -> Result<(Database, Option<PathBuf>), DatabaseError> {
    match open_and_migrate(path, patience, derivation) {
        Err(error) if error.is_corrupt() => {
            let aside = move_aside(path)?;
            let database = open_and_migrate(path, patience, derivation)?;
            Ok((database, aside))
        }
        opened => Ok((opened?, None)),
    }
}

fn open_and_migrate(
    path: &Path,
    patience: Duration,
    derivation: &Derivation,
) -> Result<Database, DatabaseError> {
    let mut database = Database::open(path, patience)?;
    schema::migrate(&mut database.connection, derivation)?;
    Ok(database)
}

/// The lock under which files are moved; it lives beside the database.
///
/// # Errors
/// [`DatabaseError::BeingRepaired`] when another server holds it.
pub fn lock(path: &Path) -> Result<FileLock, DatabaseError> {
    FileLock::try_take(&beside(path, ".lock"))?.ok_or(DatabaseError::BeingRepaired)
}

/// A path beside the database: its own with something appended.
pub fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// Moves a corrupt database aside, if it still is one once the lock is held; where to.
///
/// # Errors
/// When another server is at it, or files cannot be renamed.
pub fn move_aside(path: &Path) -> Result<Option<PathBuf>, DatabaseError> {
    let path = &real_path(path)?;
    let _lock = lock(path)?;
    if is_sound(path) {
        return Ok(None);
    }
    let now = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    let aside = beside(path, &format!(".corrupt-{}", now.as_millis()));
    std::fs::rename(path, &aside)?;
    for suffix in ["-wal", "-shm"] {
        match std::fs::rename(beside(path, suffix), beside(&aside, suffix)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
    }
    Ok(Some(aside))
}

fn is_sound(path: &Path) -> bool {
    let checked = Database::open(path, Duration::from_secs(1)).and_then(|database| {
        let check = |row: &rusqlite::Row<'_>| row.get::<_, String>(0);
        let found = database
            .connection
            .query_row("PRAGMA quick_check(1)", [], check)?;
        Ok(found == "ok")
    });
    match checked {
        Ok(sound) => sound,
        // Only what is surely broken is moved.
        Err(error) => !error.is_corrupt(),
    }
}

/// The path with its directory's links followed, so that only the file itself can be one.
fn real_path(path: &Path) -> Result<PathBuf, DatabaseError> {
    let parent = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    if !parent.exists() {
        files::private_dir(parent)?;
    }
    let name = path.file_name().ok_or(DatabaseError::NoFile)?;
    Ok(parent.canonicalize()?.join(name))
}

/// Checks that the file is one, and mends its mode; gives its inode.
fn private_file(path: &Path) -> Result<(u64, u64), DatabaseError> {
    let found = std::fs::symlink_metadata(path)?;
    if !found.is_file() {
        return Err(DatabaseError::NoFile);
    }
    if found.mode() & 0o077 != 0 {
        // A file that its owner has made read-only stays so.
        let private = std::fs::Permissions::from_mode(found.mode() & 0o700);
        std::fs::set_permissions(path, private)?;
    }
    Ok((found.dev(), found.ino()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::alan::schema::tests::derivation;

    const PATIENCE: Duration = Duration::from_millis(100);

    fn mode(path: &Path) -> u32 {
        std::fs::metadata(path).expect("metadata").mode() & 0o777
    }

    #[test]
    fn file_and_directory_are_private() {
        let scratch = tempfile::tempdir().expect("a directory");
        let path = scratch.path().join("new/alan.db");
        let opened = open_present(&path, PATIENCE, &derivation(1)).expect("a database");
        assert_eq!(mode(&path), 0o600);
        assert_eq!(mode(&scratch.path().join("new")), 0o700);
        assert_eq!(mode(&beside(&path, "-wal")), 0o600);
        assert!(opened.0.is_current(&path) && opened.1.is_none());
    }

    #[test]
    fn the_cause_says_what_the_system_says_where_sqlite_is_vague() {
        let missing = Path::new("/nowhere/alan.db");
        let refused = Connection::open_with_flags(missing, OpenFlags::SQLITE_OPEN_READ_WRITE);
        let cause = DatabaseError::from(refused.expect_err("no such file")).cause(missing);
        assert!(cause.contains("No such file or directory"), "{cause}");
    }

    #[test]
    fn the_mode_of_an_older_file_is_mended() {
        let scratch = tempfile::tempdir().expect("a directory");
        let path = scratch.path().join("alan.db");
        std::fs::write(&path, "").expect("a file");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).expect("mode");
        open_present(&path, PATIENCE, &derivation(1)).expect("a database");
        assert_eq!(mode(&path), 0o600);
    }

    #[test]
    fn a_link_is_not_followed_but_a_linked_directory_is() {
        let scratch = tempfile::tempdir().expect("a directory");
        let (real, link) = (
            scratch.path().join("real.db"),
            scratch.path().join("link.db"),
        );
        std::fs::write(&real, "").expect("a file");
        std::os::unix::fs::symlink(&real, &link).expect("a link");
        let refused = Database::open(&link, PATIENCE);
        assert!(matches!(refused, Err(DatabaseError::NoFile)), "{refused:?}");
        let directory = scratch.path().join("directory");
        std::os::unix::fs::symlink(scratch.path(), &directory).expect("a link");
        Database::open(&directory.join("other.db"), PATIENCE).expect("a database");
    }

    #[test]
    fn a_corrupt_file_is_moved_aside_once() {
        let scratch = tempfile::tempdir().expect("a directory");
        let path = scratch.path().join("alan.db");
        std::fs::write(
            &path,
            "this is no database, and long enough to be read as one",
        )
        .expect("x");
        let (_, aside) = open_present(&path, PATIENCE, &derivation(1)).expect("a database");
        let aside = aside.expect("moved");
        assert!(aside.to_string_lossy().contains("alan.db.corrupt-"));
        assert!(aside.exists() && path.exists());
        let (_, again) = open_present(&path, PATIENCE, &derivation(1)).expect("a database");
        assert_eq!(again, None);
    }

    #[test]
    fn a_sound_file_is_never_moved() {
        let scratch = tempfile::tempdir().expect("a directory");
        let path = scratch.path().join("alan.db");
        open_present(&path, PATIENCE, &derivation(1)).expect("a database");
        assert_eq!(move_aside(&path).expect("looked at"), None);
    }

    #[test]
    fn a_corrupt_file_is_left_while_another_server_repairs_it() {
        let scratch = tempfile::tempdir().expect("a directory");
        let path = scratch.path().join("alan.db");
        std::fs::write(
            &path,
            "this is no database, and long enough to be read as one",
        )
        .expect("x");
        let _held = lock(&path).expect("the lock");
        let refused = open_present(&path, PATIENCE, &derivation(1)).map(|_| ());
        assert!(
            matches!(refused, Err(DatabaseError::BeingRepaired)),
            "{refused:?}"
        );
    }
}
