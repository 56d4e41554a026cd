//! A connection to the database file. The file is private and never opened through a symbolic link.
//! Its inode identifies it, so that a moved file is noticed.

use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags};

use crate::alan::insight::Insight;
use crate::alan::schema::{self, Derivation, SchemaError};
use crate::process::files::{self, FileLock, PrivateDirError};
use crate::process::processes;
use crate::text::foreign::ShowPath;

/// The page cache of each connection, in KiB, in addition to the system's own.
const CACHE_KIB: i64 = 1024;
/// Prepared statements that a connection caches: more than the store uses.
const STATEMENTS: usize = 64;

/// Why the database cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum DatabaseError {
    /// The path names something other than a file.
    #[error("it is not a regular file")]
    NotRegularFile,
    /// Another user could read and change it.
    #[error("{} belongs to another user (uid {owner}): remove it", .file.shown())]
    OfAnotherUser { file: PathBuf, owner: u32 },
    /// Its directory cannot be created, or others could put files there.
    #[error(transparent)]
    Directory(#[from] PrivateDirError),
    /// The file cannot be created or examined.
    #[error(transparent)]
    File(#[from] io::Error),
    /// Its tables cannot be migrated.
    #[error(transparent)]
    Schema(#[from] SchemaError),
    #[error(transparent)]
    Sqlite(#[from] rusqlite::Error),
    /// Another server is moving a corrupt file aside.
    #[error("another server is repairing it")]
    BeingRepaired,
}

impl DatabaseError {
    fn code(&self) -> Option<ErrorCode> {
        match self {
            DatabaseError::Sqlite(error) | DatabaseError::Schema(SchemaError::Sqlite(error)) => {
                error.sqlite_error_code()
            }
            _ => None,
        }
    }

    /// Whether another process holds the lock, so that a retry may succeed.
    pub(super) fn is_busy(&self) -> bool {
        matches!(self.code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
    }

    /// The cause in words. Where SQLite only says that it cannot open or write, the system's
    /// error for the file or its directory is added.
    pub(super) fn cause(&self, path: &Path) -> String {
        let vague = matches!(self.code(), Some(ErrorCode::CannotOpen | ErrorCode::ReadOnly));
        let system = [Some(path), path.parent()]
            .into_iter()
            .flatten()
            .find_map(|path| files::check_writable(path).err());
        match system {
            Some(system) if vague => format!("{self}: {system}"),
            _ => self.to_string(),
        }
    }

    /// Whether the file is not a valid database.
    pub(super) fn is_corrupt(&self) -> bool {
        matches!(self.code(), Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt))
    }
}

/// An open connection, and the identity of its file.
#[derive(Debug)]
pub(super) struct Database {
    pub(crate) connection: Connection,
    file: (u64, u64),
}

impl Database {
    /// Opens the database, creating it and its directory if they are missing. The connection
    /// waits for locks for at most `patience`.
    ///
    /// # Errors
    /// If it cannot be opened or created. Nothing that existed has then changed, except the file's
    /// mode.
    pub(super) fn open(path: &Path, patience: Duration) -> Result<Database, DatabaseError> {
        let path = &real_path(path)?;
        match files::create_private(path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error.into()),
            _ => Database::open_existing(path, patience),
        }
    }

    /// Opens an existing database.
    ///
    /// # Errors
    /// As [`Database::open`], and if the file is missing.
    pub(super) fn open_existing(
        path: &Path,
        patience: Duration,
    ) -> Result<Database, DatabaseError> {
        let path = &real_path(path)?;
        let file = private_file(path)?;
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_NOFOLLOW
            | OpenFlags::SQLITE_OPEN_NO_MUTEX
            | OpenFlags::SQLITE_OPEN_EXRESCODE;
        let connection = Connection::open_with_flags(path, flags)?;
        connection.busy_timeout(patience)?;
        connection.set_prepared_statement_cache_capacity(STATEMENTS);
        // Without it a statement is compiled anew whenever the value of its LIMIT is bound.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
        connection.pragma_update(None, "cache_size", -CACHE_KIB)?;
        connection.pragma_update(None, "journal_mode", "WAL")?;
        connection.pragma_update(None, "synchronous", "NORMAL")?;
        connection.pragma_update(None, "foreign_keys", true)?;
        Ok(Database { connection, file })
    }

    /// Frees the page cache.
    pub(super) fn release_memory(&self) {
        if let Err(error) = self.connection.release_memory() {
            tracing::debug!(%error, "cannot free the database's page cache");
        }
    }

    /// Whether the path still names the connected file.
    pub(super) fn is_current(&self, path: &Path) -> bool {
        std::fs::metadata(path).is_ok_and(|found| (found.dev(), found.ino()) == self.file)
    }
}

/// A transaction that only reads. Its statements are compiled once for each connection, unlike those
/// of [`rusqlite::Transaction`], which cost a call more than some of its queries.
pub(super) struct ReadTransaction<'a>(&'a Connection);

impl ReadTransaction<'_> {
    /// Begins it. The first query determines what it sees.
    ///
    /// # Errors
    /// If a transaction is under way.
    pub(super) fn begin(connection: &Connection) -> rusqlite::Result<ReadTransaction<'_>> {
        connection.prepare_cached("BEGIN DEFERRED")?.execute([])?;
        Ok(ReadTransaction(connection))
    }
}

impl Drop for ReadTransaction<'_> {
    fn drop(&mut self) {
        // Some errors end the transaction by themselves.
        if self.0.is_autocommit() {
            return;
        }
        let ended = self.0.prepare_cached("ROLLBACK").and_then(|mut end| end.execute([]));
        if let Err(error) = ended {
            tracing::warn!(%error, "cannot end a transaction");
        }
    }
}

/// How long a connection waits for locks, which rarely block readers in WAL mode.
const READ_PATIENCE: Duration = Duration::from_secs(1);
/// Idle connections that are kept.
const MAX_IDLE: usize = 2;

/// The idle connections.
#[derive(Debug)]
pub(super) struct Pool {
    path: PathBuf,
    idle: Mutex<Vec<Database>>,
}

impl Pool {
    /// A pool of connections to this database.
    pub(super) fn new(path: PathBuf) -> Pool {
        Pool { path, idle: Mutex::new(Vec::new()) }
    }

    /// Lends a connection to a function. No lock is held while the function runs.
    ///
    /// # Errors
    /// As [`Database::open_existing`] or as the function.
    pub(super) fn with<T>(
        &self,
        work: impl FnOnce(&mut Database) -> rusqlite::Result<T>,
    ) -> Result<T, DatabaseError> {
        let idle = self.idle.lock().pop();
        let mut database = match idle.filter(|database| database.is_current(&self.path)) {
            Some(database) => database,
            None => Database::open_existing(&self.path, READ_PATIENCE)?,
        };
        let given = work(&mut database)?;
        let mut idle = self.idle.lock();
        if idle.len() < MAX_IDLE {
            idle.push(database);
        }
        Ok(given)
    }

    /// Closes the idle connections.
    pub(super) fn clear(&self) {
        self.idle.lock().clear();
    }
}

/// What was lost when a database was opened.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Losses {
    /// Where a corrupt file was moved.
    pub(crate) moved_aside: Option<PathBuf>,
    /// How many rows could not be read.
    pub(crate) unreadable_rows: usize,
    /// The file that still contains the unreadable rows, if any.
    pub(crate) kept: Option<PathBuf>,
}

impl Losses {
    /// The warnings for the user.
    pub(super) fn warnings(&self, path: &Path) -> Vec<Insight> {
        let path = path.shown().to_string();
        let moved = self.moved_aside.as_ref().map(|aside| Insight::MovedAside {
            path: path.clone(),
            aside: aside.shown().to_string(),
        });
        let rows = self.unreadable_rows;
        let unreadable = (rows > 0).then(|| Insight::UnreadableRows {
            path: path.clone(),
            rows,
            kept: self.kept.as_ref().map(|kept| kept.shown().to_string()),
        });
        moved.into_iter().chain(unreadable).collect()
    }
}

/// Opens and migrates the database. A corrupt file is moved aside first.
///
/// # Errors
/// As [`Database::open`] and [`schema::migrate`].
pub(super) fn open_and_repair(
    path: &Path,
    patience: Duration,
    derivation: &Derivation,
) -> Result<(Database, Losses), DatabaseError> {
    let (opened, moved_aside) = match open_and_migrate(path, patience, derivation) {
        Err(error) if error.is_corrupt() => {
            let aside = move_aside(path)?;
            (open_and_migrate(path, patience, derivation), aside)
        }
        opened => (opened, None),
    };
    let (database, unreadable_rows) = opened?;
    let losses = Losses { moved_aside, unreadable_rows, kept: None };
    Ok((database, losses))
}

fn open_and_migrate(
    path: &Path,
    patience: Duration,
    derivation: &Derivation,
) -> Result<(Database, usize), DatabaseError> {
    let mut database = Database::open(path, patience)?;
    let unreadable_rows = schema::migrate(&mut database.connection, derivation)?;
    Ok((database, unreadable_rows))
}

/// Takes the lock for moving files; the lock file is next to the database.
///
/// # Errors
/// [`DatabaseError::BeingRepaired`] if another server holds it.
pub(super) fn lock(path: &Path) -> Result<FileLock, DatabaseError> {
    FileLock::try_take(&beside(path, ".lock"))?.ok_or(DatabaseError::BeingRepaired)
}

/// The path of the database with a suffix.
pub(super) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// Moves a corrupt database aside, if it is still corrupt once the lock is held. Returns the
/// new path.
///
/// # Errors
/// If another server is repairing it, or files cannot be renamed.
pub(super) fn move_aside(path: &Path) -> Result<Option<PathBuf>, DatabaseError> {
    let path = &real_path(path)?;
    let _lock = lock(path)?;
    if is_sound(path) {
        return Ok(None);
    }
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
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
        let found = database.connection.query_row("PRAGMA quick_check(1)", [], check)?;
        Ok(found == "ok")
    });
    match checked {
        Ok(sound) => sound,
        // Move the file only if it is certainly broken.
        Err(error) => !error.is_corrupt(),
    }
}

/// The path with symbolic links in its directory resolved, so that only the file itself can
/// be a link.
fn real_path(path: &Path) -> Result<PathBuf, DatabaseError> {
    let parent = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    if parent.exists() {
        files::without_other_writers(parent)?;
    } else {
        files::private_dir(parent)?;
    }
    let name = path.file_name().ok_or(DatabaseError::NotRegularFile)?;
    Ok(parent.canonicalize()?.join(name))
}

/// Checks that the path names a regular file and makes it private, and that SQLite's files beside it
/// are this user's. Returns its device and inode.
fn private_file(path: &Path) -> Result<(u64, u64), DatabaseError> {
    let own = processes::effective_user();
    for suffix in ["", "-wal", "-shm", "-journal"] {
        let file = beside(path, suffix);
        let owner = std::fs::symlink_metadata(&file).map_or(own, |found| found.uid());
        if owner != own {
            return Err(DatabaseError::OfAnotherUser { file, owner });
        }
    }
    let found = std::fs::symlink_metadata(path)?;
    if !found.is_file() {
        return Err(DatabaseError::NotRegularFile);
    }
    if found.mode() & 0o077 != 0 {
        // A file that its owner has made read-only stays read-only.
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
        let opened = open_and_repair(&path, PATIENCE, &derivation(1)).expect("a database");
        assert_eq!(mode(&path), 0o600);
        assert_eq!(mode(&scratch.path().join("new")), 0o700);
        assert_eq!(mode(&beside(&path, "-wal")), 0o600);
        assert!(opened.0.is_current(&path));
        assert_eq!(opened.1, Losses::default());
    }

    #[test]
    fn the_cause_names_the_systems_error_where_sqlite_is_vague() {
        let missing = Path::new("/nowhere/alan.db");
        let refused = Connection::open_with_flags(missing, OpenFlags::SQLITE_OPEN_READ_WRITE);
        let cause = DatabaseError::from(refused.expect_err("no such file")).cause(missing);
        assert!(cause.contains("No such file or directory"), "{cause}");
    }

    #[test]
    fn the_mode_of_an_older_file_becomes_private() {
        let scratch = tempfile::tempdir().expect("a directory");
        let path = scratch.path().join("alan.db");
        std::fs::write(&path, "").expect("a file");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).expect("mode");
        open_and_repair(&path, PATIENCE, &derivation(1)).expect("a database");
        assert_eq!(mode(&path), 0o600);
    }

    #[test]
    fn a_link_is_not_followed_but_a_linked_directory_is() {
        let scratch = tempfile::tempdir().expect("a directory");
        let (real, link) = (scratch.path().join("real.db"), scratch.path().join("link.db"));
        std::fs::write(&real, "").expect("a file");
        std::os::unix::fs::symlink(&real, &link).expect("a link");
        let refused = Database::open(&link, PATIENCE);
        assert!(matches!(refused, Err(DatabaseError::NotRegularFile)), "{refused:?}");
        let directory = scratch.path().join("directory");
        std::os::unix::fs::symlink(scratch.path(), &directory).expect("a link");
        Database::open(&directory.join("other.db"), PATIENCE).expect("a database");
    }

    #[test]
    fn a_corrupt_file_is_moved_aside_once() {
        let scratch = tempfile::tempdir().expect("a directory");
        let path = scratch.path().join("alan.db");
        std::fs::write(&path, "this is not a database, and long enough to be read as one")
            .expect("x");
        let (_, losses) = open_and_repair(&path, PATIENCE, &derivation(1)).expect("a database");
        let aside = losses.moved_aside.expect("moved");
        assert!(aside.to_string_lossy().contains("alan.db.corrupt-"));
        assert!(aside.exists() && path.exists());
        let (_, again) = open_and_repair(&path, PATIENCE, &derivation(1)).expect("a database");
        assert_eq!(again, Losses::default());
    }

    #[test]
    fn a_sound_file_is_never_moved() {
        let scratch = tempfile::tempdir().expect("a directory");
        let path = scratch.path().join("alan.db");
        open_and_repair(&path, PATIENCE, &derivation(1)).expect("a database");
        assert_eq!(move_aside(&path).expect("looked at"), None);
    }

    #[test]
    fn a_corrupt_file_is_left_while_another_server_repairs_it() {
        let scratch = tempfile::tempdir().expect("a directory");
        let path = scratch.path().join("alan.db");
        std::fs::write(&path, "this is not a database, and long enough to be read as one")
            .expect("x");
        let _held = lock(&path).expect("the lock");
        let refused = open_and_repair(&path, PATIENCE, &derivation(1)).map(|_| ());
        assert!(matches!(refused, Err(DatabaseError::BeingRepaired)), "{refused:?}");
    }
}
