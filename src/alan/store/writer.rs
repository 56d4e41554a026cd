//! The one thread that writes what this server records, and looks after the file: opens
//! it, moves a corrupt one aside, takes over older ones, prunes every six hours.
//!
//! Whatever fails is tried again; until it works, what was recorded stays in the queue,
//! where readers find it. Limits: at the end of the server only what can be written
//! within half a second of waiting for others is.

use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime};

use super::connection::{self, Database, DatabaseError};
use super::maintenance;
use super::queue::{Phase, Queue};
use super::takeover::{self, TakeOver};
use super::write;
use crate::alan::rows::unix_seconds;
use crate::alan::schema::Derivation;
use crate::base::sync::Monitor;

/// Entries in one transaction: short enough that other servers wait little.
const BATCH: usize = 256;
/// How long others' locks are waited for before the database counts as failing …
const BUSY_PATIENCE: Duration = Duration::from_secs(5);
/// … in slices, so that the end of the server is noticed in between.
const BUSY_SLICE: Duration = Duration::from_millis(250);
/// How long a failing database is left alone.
const RETRY_AFTER: Duration = Duration::from_secs(2);
/// How long the end of the server waits for others' locks, and a slice more: tasks that
/// have to be killed take their part of its time as well.
const CLOSE_PATIENCE: Duration = Duration::from_millis(500);
/// The log's size from which on it is put into the file, in the writer's spare time: the
/// default of SQLite does so within a commit, which readers then wait for.
const LOG_BYTES: u64 = 4 << 20;
/// How often is pruned, by whichever server comes first.
const PRUNE_EVERY: Duration = Duration::from_secs(6 * 3600);

/// What the writer needs to know.
#[derive(Debug)]
pub struct Setup {
    /// The database.
    pub path: PathBuf,
    /// This server, unlike any other.
    pub instance: String,
    /// How hashes and templates are made.
    pub derivation: Derivation,
    /// Older databases to take over.
    pub old_databases: Vec<PathBuf>,
}

/// Writes until the queue is closed and empty.
pub fn run(setup: &Setup, queue: &Monitor<Queue>) {
    let mut writer = Writer {
        setup,
        queue,
        database: None,
        busy_since: None,
        prune_at: Instant::now(),
        shorten_at: LOG_BYTES,
        taken_over: false,
    };
    while writer.turn_and_wait() {}
    let mut state = queue.lock();
    if !state.is_empty() {
        tracing::warn!(lost = state.len(), "observations were not written");
    }
    state.phase = Phase::Closed;
    queue.notify_all();
}

struct Writer<'a> {
    setup: &'a Setup,
    queue: &'a Monitor<Queue>,
    database: Option<Database>,
    busy_since: Option<Instant>,
    prune_at: Instant,
    /// The log's length at which it is put into the file next.
    shorten_at: u64,
    taken_over: bool,
}

impl Writer<'_> {
    /// Does what is to be done and waits for more; whether there will be more.
    fn turn_and_wait(&mut self) -> bool {
        match self.turn() {
            Ok(()) => {
                self.busy_since = None;
                self.wait_for_work()
            }
            Err(error) if error.is_busy() => self.wait_for_locks(&error),
            Err(error) => self.wait_for_repair(&error),
        }
    }

    fn turn(&mut self) -> Result<(), DatabaseError> {
        let mut state = self.queue.lock();
        let suspect = std::mem::take(&mut state.suspect);
        let reopen = std::mem::take(&mut state.reopen);
        drop(state);
        let current = |database: &Database| database.is_current(&self.setup.path);
        if suspect || reopen || !self.database.as_ref().is_some_and(current) {
            self.database = None;
        }
        if suspect {
            let aside = connection::move_aside(&self.setup.path)?;
            self.note_moved(aside);
        }
        if self.database.is_none() {
            let (path, derivation) = (&self.setup.path, &self.setup.derivation);
            let (database, aside) = connection::open_present(path, BUSY_SLICE, derivation)?;
            let connection = &database.connection;
            connection.pragma_update(None, "wal_autocheckpoint", 0)?;
            // A log that is begun anew is cut, so that its length says what is in it.
            connection.pragma_update(None, "journal_size_limit", 0)?;
            self.note_moved(aside);
            self.database = Some(database);
        }
        self.take_over();
        self.note_open();
        self.write()?;
        self.shorten_log()?;
        self.prune()
    }

    fn note_moved(&self, aside: Option<PathBuf>) {
        if let Some(aside) = aside {
            tracing::warn!(to = %aside.display(), "the database was corrupt and was moved");
            self.queue.lock().moved_aside = Some(aside);
        }
    }

    /// Readers need not wait for the first batch, for which others may hold the lock. A
    /// failure lasts until something has been written.
    fn note_open(&self) {
        let mut state = self.queue.lock();
        if matches!(state.phase, Phase::Opening { .. }) {
            state.phase = Phase::Ready;
        }
        drop(state);
        self.queue.notify_all();
    }

    /// Writes one batch.
    fn write(&mut self) -> Result<(), DatabaseError> {
        let batch = self.queue.lock().oldest(BATCH);
        if let (Some(database), Some(last)) = (&mut self.database, batch.last()) {
            let now = unix_seconds(SystemTime::now());
            write::batch(&mut database.connection, &self.setup.instance, &batch, now)?;
            self.queue.lock().remove_up_to(last.sequence);
        }
        let mut state = self.queue.lock();
        state.phase = Phase::Ready;
        state.told = false;
        drop(state);
        self.queue.notify_all();
        Ok(())
    }

    /// As far as nobody reads what is older; the last one to close does the rest. It makes
    /// the disk write, which takes longer than many records: what could not be put into
    /// the file is tried again when as much has come to it.
    fn shorten_log(&mut self) -> Result<(), DatabaseError> {
        let log = connection::beside(&self.setup.path, "-wal");
        let length = std::fs::metadata(log).map_or(0, |found| found.len());
        if length < LOG_BYTES {
            self.shorten_at = LOG_BYTES;
        }
        if let Some(database) = &self.database
            && length > self.shorten_at
        {
            self.shorten_at = length + LOG_BYTES;
            let checkpoint = "PRAGMA wal_checkpoint(PASSIVE)";
            database.connection.query_row(checkpoint, [], |_| Ok(()))?;
        }
        Ok(())
    }

    /// Once for each start. One that is in use, or cannot be read, stays where it is.
    fn take_over(&mut self) {
        if std::mem::replace(&mut self.taken_over, true) {
            return;
        }
        let Some(database) = &mut self.database else {
            return;
        };
        for old in &self.setup.old_databases {
            let (path, derivation) = (&self.setup.path, &self.setup.derivation);
            let old_path = old.display();
            match takeover::take_over(path, database, old, derivation) {
                Ok(TakeOver::Missing) => {}
                Ok(TakeOver::InUse) => tracing::warn!(%old_path, "an old database is in use"),
                Ok(TakeOver::Done(rows)) => {
                    tracing::info!(%old_path, added = rows.added, "took over an old database");
                }
                Err(error) => tracing::warn!(%old_path, %error, "cannot take over"),
            }
        }
    }

    fn prune(&mut self) -> Result<(), DatabaseError> {
        if Instant::now() < self.prune_at || self.queue.lock().closing {
            return Ok(());
        }
        let Some(database) = &mut self.database else {
            return Ok(());
        };
        let now = SystemTime::now();
        let every = PRUNE_EVERY.as_secs_f64();
        let since = maintenance::since_pruned(&database.connection, unix_seconds(now))?;
        let wait = if since >= every {
            maintenance::prune(&mut database.connection, now, None)?;
            PRUNE_EVERY
        } else {
            Duration::from_secs_f64(every - since)
        };
        self.prune_at = Instant::now() + wait;
        Ok(())
    }

    fn wait_for_work(&mut self) -> bool {
        let mut state = self.queue.lock();
        while state.is_empty() && !state.closing && !state.reopen && Instant::now() < self.prune_at
        {
            state = self.queue.wait(state, Some(self.prune_at));
        }
        !(state.closing && state.is_empty())
    }

    /// Somebody else holds the lock; SQLite has waited a slice for it already.
    fn wait_for_locks(&mut self, error: &DatabaseError) -> bool {
        let since = *self.busy_since.get_or_insert_with(Instant::now);
        let closing = self.queue.lock().closing;
        if since.elapsed() >= BUSY_PATIENCE {
            self.fail(error);
        }
        !(closing && since.elapsed() >= CLOSE_PATIENCE)
    }

    /// It does not work, and will hardly work at once.
    fn wait_for_repair(&mut self, error: &DatabaseError) -> bool {
        if error.is_corrupt() {
            // Looked at more closely at the next turn.
            let mut state = self.queue.lock();
            (state.suspect, state.reopen) = (true, true);
        }
        self.fail(error);
        self.database = None;
        let until = Instant::now() + RETRY_AFTER;
        let mut state = self.queue.lock();
        while !state.closing && Instant::now() < until {
            state = self.queue.wait(state, Some(until));
        }
        !state.closing
    }

    fn fail(&self, error: &DatabaseError) {
        let mut state = self.queue.lock();
        state.phase = Phase::Failing {
            cause: error.cause(&self.setup.path),
            readable: self.database.is_some() && !error.is_corrupt(),
        };
        drop(state);
        self.queue.notify_all();
    }
}
