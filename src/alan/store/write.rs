//! The thread that writes this server's records and maintains the file: opens it, moves a
//! corrupt one aside, imports older ones, prunes every six hours.
//!
//! Failed writes are retried; until they succeed, records stay in the queue, where readers find
//! them. Limits: when the server exits, the writer waits half a second for other processes' locks;
//! records that are not written by then are lost.

use std::time::{Duration, Instant, SystemTime};

use super::connection::{self, Database, DatabaseError, Losses};
use super::import_legacy::{self, LegacyImport};
use super::queue::{Phase, Queue, note_losses};
use super::tables::write_batch;
use super::{StoreSettings, admin};
use crate::alan::rows::unix_seconds;
use crate::base::sync::CondvarMutex;
use crate::text::foreign::ShowPath;

/// The most entries in one transaction: few enough that other servers do not wait long.
const BATCH: usize = 256;
/// How long a record waits for other records to be written with it, which costs little more than
/// writing one. The answer about its command leaves in that time.
const GATHER: Duration = Duration::from_millis(20);
/// How long to wait for other processes' locks before the database counts as failing.
const BUSY_PATIENCE: Duration = Duration::from_secs(5);
/// The longest part of that time without a look at whether the server exits.
const BUSY_SLICE: Duration = Duration::from_millis(250);
/// The pause between attempts to open a failing database.
const RETRY_AFTER: Duration = Duration::from_secs(2);
/// How long the exiting server waits for other processes' locks, plus one slice. It also needs part
/// of its time to kill tasks.
const CLOSE_PATIENCE: Duration = Duration::from_millis(500);
/// The size at which an idle writer checkpoints the write-ahead log. By default SQLite checkpoints
/// within a commit, for which readers then wait.
const LOG_BYTES: u64 = 4 << 20;
/// How often one of the servers prunes.
const PRUNE_EVERY: Duration = Duration::from_secs(6 * 3600);

/// Writes until the queue is closed and empty.
pub(super) fn run(settings: &StoreSettings, instance: &str, queue: &CondvarMutex<Queue>) {
    let mut writer = Writer {
        settings,
        instance,
        queue,
        database: None,
        busy_since: None,
        prune_at: Instant::now(),
        shorten_at: LOG_BYTES,
        imported_old: false,
    };
    while writer.turn_and_wait() {}
    let mut state = queue.lock();
    if !state.entries.is_empty() {
        tracing::warn!(lost = state.entries.len(), "records were not written to the database");
    }
    state.phase = Phase::Closed;
    queue.notify_all();
}

struct Writer<'a> {
    settings: &'a StoreSettings,
    instance: &'a str,
    queue: &'a CondvarMutex<Queue>,
    database: Option<Database>,
    busy_since: Option<Instant>,
    prune_at: Instant,
    /// The log's length at which it is checkpointed next.
    shorten_at: u64,
    imported_old: bool,
}

impl Writer<'_> {
    /// Does the pending work and waits for more. Returns whether to continue.
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
        let current = |database: &Database| database.is_current(&self.settings.path);
        if suspect || reopen || !self.database.as_ref().is_some_and(current) {
            self.database = None;
        }
        if suspect {
            let moved_aside = connection::move_aside(&self.settings.path)?;
            let losses = Losses { moved_aside, ..Losses::default() };
            note_losses(self.queue, &self.settings.path, losses);
        }
        if self.database.is_none() {
            let (path, derivation) = (&self.settings.path, &self.settings.derivation);
            let (database, losses) = connection::open_and_repair(path, BUSY_SLICE, derivation)?;
            let connection = &database.connection;
            connection.pragma_update(None, "wal_autocheckpoint", 0)?;
            // Truncate a restarted log, so that its length shows what it contains.
            connection.pragma_update(None, "journal_size_limit", 0)?;
            note_losses(self.queue, path, losses);
            self.database = Some(database);
        }
        self.import_old();
        self.note_open();
        self.write()?;
        self.shorten_log()?;
        self.prune()
    }

    /// Lets readers use the database before the first batch is written, since other processes may
    /// hold the lock for that. A failing database stays failing until a batch has been written.
    fn note_open(&self) {
        let mut state = self.queue.lock();
        if matches!(state.phase, Phase::Opening { .. }) {
            state.phase = Phase::Ready;
        }
        drop(state);
        self.queue.notify_all();
    }

    fn write(&mut self) -> Result<(), DatabaseError> {
        let batch = self.queue.lock().oldest(BATCH);
        if let (Some(database), Some(last)) = (&mut self.database, batch.last()) {
            let now = unix_seconds(SystemTime::now());
            write_batch(&mut database.connection, self.instance, &batch, now)?;
            self.queue.lock().remove_up_to(last.sequence);
        }
        let mut state = self.queue.lock();
        state.phase = Phase::Ready;
        state.failure_reported = false;
        state.awaited &= !state.entries.is_empty();
        drop(state);
        self.queue.notify_all();
        Ok(())
    }

    /// Checkpoints the part of the log that no reader needs; the last connection to close does the
    /// rest. A checkpoint takes longer than writing many records, so the next one waits until the
    /// log has grown by [`LOG_BYTES`].
    fn shorten_log(&mut self) -> Result<(), DatabaseError> {
        let log = connection::beside(&self.settings.path, "-wal");
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

    /// Imports older databases, once per start. A database that is in use or cannot be read stays.
    fn import_old(&mut self) {
        if std::mem::replace(&mut self.imported_old, true) {
            return;
        }
        let Some(database) = &mut self.database else {
            return;
        };
        for old in &self.settings.old_databases {
            let (path, derivation) = (&self.settings.path, &self.settings.derivation);
            let old_path = old.shown();
            match import_legacy::import(path, database, old, derivation) {
                Ok(LegacyImport::Missing) => {}
                Ok(LegacyImport::InUse) => tracing::warn!(%old_path, "an old database is in use"),
                Ok(LegacyImport::Done { rows, unreadable_rows }) => {
                    tracing::info!(%old_path, added = rows.added, "imported an old database");
                    let losses = Losses {
                        unreadable_rows,
                        kept: Some(import_legacy::new_name(old)),
                        ..Losses::default()
                    };
                    note_losses(self.queue, old, losses);
                }
                Err(error) => tracing::warn!(%old_path, %error, "cannot import an old database"),
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
        let since = admin::since_pruned(&database.connection, unix_seconds(now))?;
        let wait = if since >= every {
            admin::prune(&mut database.connection, now, None)?;
            PRUNE_EVERY
        } else {
            Duration::from_secs_f64(every - since)
        };
        self.prune_at = Instant::now() + wait;
        Ok(())
    }

    fn wait_for_work(&mut self) -> bool {
        let mut state = self.queue.lock();
        while state.entries.is_empty()
            && !state.closing
            && !state.reopen
            && Instant::now() < self.prune_at
        {
            if state.release {
                drop(state);
                if let Some(database) = &self.database {
                    database.release_memory();
                }
                state = self.queue.lock();
                state.release = false;
                self.queue.notify_all();
                continue;
            }
            state = self.queue.wait(state, Some(self.prune_at));
        }
        let written_at = Instant::now() + GATHER;
        let gathers = |state: &Queue| {
            let is_idle = !state.closing && !state.reopen && !state.awaited;
            is_idle && state.entries.len() < BATCH && Instant::now() < written_at
        };
        while gathers(&state) {
            state = self.queue.wait(state, Some(written_at));
        }
        !(state.closing && state.entries.is_empty())
    }

    /// Another process holds the lock; SQLite has waited for one slice already.
    fn wait_for_locks(&mut self, error: &DatabaseError) -> bool {
        let since = *self.busy_since.get_or_insert_with(Instant::now);
        let closing = self.queue.lock().closing;
        if since.elapsed() >= BUSY_PATIENCE {
            self.fail(error);
        }
        !(closing && since.elapsed() >= CLOSE_PATIENCE)
    }

    /// The database failed, and an immediate retry would fail again.
    fn wait_for_repair(&mut self, error: &DatabaseError) -> bool {
        if error.is_corrupt() {
            // The next turn checks the file.
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
            cause: error.cause(&self.settings.path),
            readable: self.database.is_some() && !error.is_corrupt(),
        };
        drop(state);
        self.queue.notify_all();
    }
}
