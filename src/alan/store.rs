//! The command history, in one SQLite file that all servers of a user share.
//!
//! Recording queues a run and returns; one thread writes. Readers have their own connections and
//! also see what is still queued, so that a server immediately sees its own records, however slow
//! the disk is. What was read of the latest commands stays in memory until others change the
//! database. If the database cannot be used, history is lost when the server exits, but no
//! command fails: see [`Status`]. Only redacted values are stored.

pub(crate) mod admin;
pub(crate) mod circuits;
mod connection;
mod import_legacy;
pub(crate) mod plots;
mod queue;
mod read;
mod tables;
mod write;

use std::collections::BTreeSet;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

use parking_lot::Mutex;

use self::circuits::CircuitStatus;
use self::connection::{Database, DatabaseError, Pool, ReadTransaction};
use self::queue::{Job, Phase, Queue, note_losses};
pub(crate) use self::read::KillCounts;
use self::read::ReadView;
use self::tables::written;
use super::cache::{CachedCommand, CommandCache};
use super::estimate::Estimate;
use super::history::History;
use super::insight::Insight;
use super::pattern::CommandPattern;
use super::rows::{CachedOptions, LastFailures, timestamp, unix_seconds};
use super::run::Run;
use super::schema::Derivation;
use crate::base::sync::CondvarMutex;
use crate::neverhang::Rules;
use crate::process::files;
use crate::text::foreign::ShowPath;

/// How long readers wait for the newest record to be written, counted from when it was recorded. If
/// the disk is slow or the database is locked, only the next reader waits.
const WRITTEN_PATIENCE: Duration = Duration::from_millis(20);
/// How long a caller waits for the database to open, from when opening began.
const OPENING_PATIENCE: Duration = Duration::from_millis(500);
/// How long `zsh-tool alan` and a reset wait for other processes' locks and for the queue.
const ADMIN_PATIENCE: Duration = Duration::from_secs(5);

/// The configuration of a store.
#[derive(Debug, Clone)]
pub struct StoreSettings {
    pub path: PathBuf,
    /// The session whose retries are reported.
    pub session: String,
    /// How to compute hashes and templates.
    pub derivation: Derivation,
    /// Older databases to import and rename.
    pub old_databases: Vec<PathBuf>,
    /// When circuits open and close.
    pub rules: Rules,
}

/// Why an operation on the database failed.
#[derive(Debug, thiserror::Error)]
#[error("cannot use the database {path}: {source}")]
pub struct StoreError {
    path: PathBuf,
    source: DatabaseError,
}

/// The state of the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    pub path: PathBuf,
    /// Why the database cannot be written; records stay in memory until it can be.
    pub failure: Option<String>,
    /// Whether the database can be read, as far as is known; false before its first use.
    pub opened: bool,
    /// Where a corrupt database was moved.
    pub moved_aside: Option<PathBuf>,
    /// Records waiting to be written.
    pub queued: usize,
    /// Records dropped because too many were waiting.
    pub dropped: u64,
}

/// The store of one server. All methods may be called from any thread.
pub struct Store {
    shared: Arc<Shared>,
    writer: Mutex<Option<JoinHandle<()>>>,
    next_lease: AtomicU64,
    /// Circuits that could not be written to the database.
    unwritten_circuits: Mutex<HashMap<String, CircuitStatus>>,
}

struct Shared {
    settings: StoreSettings,
    /// A unique name of this server.
    instance: String,
    queue: CondvarMutex<Queue>,
    /// A thread that holds this lock must not take the queue's.
    cache: Mutex<CommandCache>,
    pool: Pool,
}

/// A run in the queue. Dropping it wakes the writer.
pub struct QueuedRun(Arc<Shared>);

impl Drop for QueuedRun {
    fn drop(&mut self) {
        self.0.queue.notify_all();
    }
}

impl Store {
    /// Creates the store. The database is opened at the first use.
    pub fn open(settings: StoreSettings) -> Store {
        Store {
            shared: Arc::new(Shared {
                instance: format!("{}{}", files::random_id(), files::random_id()),
                queue: CondvarMutex::new(Queue::default()),
                cache: Mutex::default(),
                pool: Pool::new(settings.path.clone()),
                settings,
            }),
            writer: Mutex::new(None),
            next_lease: AtomicU64::new(0),
            unwritten_circuits: Mutex::new(HashMap::new()),
        }
    }

    pub fn path(&self) -> &Path {
        &self.shared.settings.path
    }

    /// Queues a run. Every later query of this store includes it. The writer begins once the result
    /// is dropped, so that a caller who waits for this run need not wait for its thread to be woken.
    pub fn record(&self, run: &Run<'_>) -> QueuedRun {
        let Shared { instance, settings, cache, queue, .. } = &*self.shared;
        self.start();
        let mut queue = queue.lock();
        let id = format!("{instance}-{:x}", queue.last + 1);
        let rows = Box::new(run.rows(&id, &settings.session));
        cache.lock().add(&rows);
        queue.push(Job::Run(rows));
        QueuedRun(Arc::clone(&self.shared))
    }

    /// Queues the table of a command's options.
    pub fn put_options(&self, command: &str, table: &str, now: SystemTime) {
        self.push(Job::Options(CachedOptions {
            base_command: command.to_owned(),
            options_text: table.to_owned(),
            created_at: timestamp(now),
        }));
    }

    /// What failed when this command last ran in this directory; `None` if that is not known.
    pub fn failures(&self, hash: &str, cwd: &str) -> Option<BTreeSet<String>> {
        let names = self.view(|view| view.failures(hash, cwd))?;
        Some(names.lines().map(str::to_owned).collect())
    }

    /// Queues what has failed now, without secrets.
    pub fn put_failures(&self, hash: &str, cwd: &str, names: &BTreeSet<String>, now: SystemTime) {
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        self.push(Job::Failures(LastFailures {
            command_hash: hash.to_owned(),
            cwd: cwd.to_owned(),
            names: names.join("\n"),
            created_at: timestamp(now),
        }));
    }

    fn push(&self, job: Job) {
        self.start();
        self.shared.queue.lock().push(job);
        self.shared.queue.notify_all();
    }

    pub fn history(&self, pattern: &CommandPattern, now: SystemTime) -> History {
        let now = unix_seconds(now);
        self.cached(pattern, now).history(now)
    }

    /// What is known of a command at this time.
    fn cached(&self, pattern: &CommandPattern, now: f64) -> Arc<CachedCommand> {
        self.kept_command(pattern, now).unwrap_or_else(|| self.read_command(pattern, now))
    }

    /// The cached command in memory, if others have not changed the history since it was read.
    fn kept_command(&self, pattern: &CommandPattern, now: f64) -> Option<Arc<CachedCommand>> {
        let Shared { instance, cache, .. } = &*self.shared;
        if !cache.lock().contains(pattern) {
            return None;
        }
        let by_others = self.read(|connection| written(connection, instance))?.by_others?;
        cache.lock().valid(pattern, by_others, now)
    }

    /// Reads a cached command and keeps it.
    fn read_command(&self, pattern: &CommandPattern, now: f64) -> Arc<CachedCommand> {
        let session = &self.shared.settings.session;
        let (cached, by_others, last) =
            self.view(|view| Ok((view.cached(pattern, session, now)?, view.by_others, view.last)));
        let cached = Arc::new(cached);
        if let Some(by_others) = by_others {
            let mut kept = Arc::clone(&cached);
            // Runs recorded meanwhile are not yet part of it.
            let queue = self.shared.queue.lock();
            if queue.each_run_after(last, |rows| Arc::make_mut(&mut kept).add(rows)) {
                self.shared.cache.lock().keep(by_others, kept);
            }
        }
        cached
    }

    /// How long a command takes.
    pub fn estimate(&self, pattern: &CommandPattern) -> Option<Estimate> {
        self.history(pattern, SystemTime::now()).estimate
    }

    /// Counts the kills of a kind of command.
    pub fn kills(&self, template: &str) -> KillCounts {
        self.view(|view| view.kills(template, &self.shared.settings.session))
    }

    /// The stored table of a command's options.
    pub fn options(&self, command: &str) -> Option<String> {
        self.view(|view| view.options(command))
    }

    /// Programs that have run successfully: candidates for a mistyped name.
    pub fn programs(&self) -> Vec<String> {
        self.view(|view| view.programs())
    }

    /// The state of the store.
    pub fn status(&self) -> Status {
        let queue = self.shared.queue.lock();
        Status {
            path: self.shared.settings.path.clone(),
            failure: match &queue.phase {
                Phase::Failing { cause, .. } => Some(cause.clone()),
                _ => None,
            },
            opened: is_readable(&queue),
            moved_aside: queue.moved_aside.clone(),
            queued: queue.entries.len(),
            dropped: queue.dropped,
        }
    }

    /// Removes and returns the warnings about history that was lost or is not on disk, so that each
    /// is reported once.
    pub fn take_warnings(&self) -> Vec<Insight> {
        let mut queue = self.shared.queue.lock();
        let mut warnings = std::mem::take(&mut queue.losses);
        if let Phase::Failing { cause, .. } = &queue.phase
            && !queue.failure_reported
        {
            warnings.push(Insight::NotOnDisk {
                path: self.shared.settings.path.shown().to_string(),
                cause: cause.clone(),
            });
            queue.failure_reported = true;
        }
        warnings
    }

    /// Writes the queue, waiting at most half a second for other processes' locks, and ends the
    /// writer.
    pub fn close(&self) {
        self.shared.queue.lock().closing = true;
        self.shared.queue.notify_all();
        let writer = self.writer.lock().take();
        if writer.is_some_and(|writer| writer.join().is_err()) {
            tracing::error!("the database writer panicked");
        }
        self.shared.pool.clear();
    }

    /// Frees the connections' page caches and the cached commands.
    pub fn release_memory(&self) {
        self.shared.pool.clear();
        self.shared.cache.lock().clear();
        self.shared.queue.lock().release = true;
        self.shared.queue.notify_all();
        let until = Instant::now() + WRITTEN_PATIENCE;
        self.wait(until, |queue| !queue.release || queue.phase != Phase::Ready);
    }

    /// Starts the writer, unless it has been started.
    fn start(&self) {
        let mut queue = self.shared.queue.lock();
        if queue.phase != Phase::Idle || queue.closing {
            return;
        }
        queue.phase = Phase::Opening { since: Instant::now() };
        drop(queue);
        let shared = Arc::clone(&self.shared);
        let spawned = std::thread::Builder::new()
            .name("store".to_owned())
            .spawn(move || write::run(&shared.settings, &shared.instance, &shared.queue));
        match spawned {
            Ok(writer) => *self.writer.lock() = Some(writer),
            Err(error) => {
                self.shared.queue.lock().phase = Phase::Failing {
                    cause: format!("cannot start the writer thread: {error}"),
                    readable: false,
                };
            }
        }
    }

    /// Runs a query on one consistent view of the database and the queue, or of only the queue if
    /// the database cannot be read.
    fn view<T: Default>(&self, query: impl Fn(&ReadView<'_>) -> rusqlite::Result<T>) -> T {
        self.start();
        self.wait_until_open();
        let instance = &self.shared.instance;
        let queue = self.shared.queue.lock();
        let (copy, readable) = (queue.copy(), is_readable(&queue));
        drop(queue);
        if readable {
            let found = self.shared.pool.with(|database| {
                let connection = &database.connection;
                let _transaction = ReadTransaction::begin(connection)?;
                query(&ReadView::new(Some(connection), instance, copy.clone())?)
            });
            match found {
                Ok(found) => return found,
                Err(error) => self.report_failure(&error),
            }
        }
        ReadView::new(None, instance, copy).and_then(|view| query(&view)).unwrap_or_default()
    }

    /// Runs a query on the database without the queue; `None` if it cannot be read.
    fn read<T>(
        &self,
        query: impl FnOnce(&rusqlite::Connection) -> rusqlite::Result<T>,
    ) -> Option<T> {
        self.start();
        self.wait_until_open();
        if !is_readable(&self.shared.queue.lock()) {
            return None;
        }
        let found = self.shared.pool.with(|database| {
            let _transaction = ReadTransaction::begin(&database.connection)?;
            query(&database.connection)
        });
        found.inspect_err(|error| self.report_failure(error)).ok()
    }

    /// Carries out a change that a user asks for, such as an import, on a separate connection.
    fn with_connection<T>(
        &self,
        work: impl FnOnce(&mut Database) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        self.start();
        // This includes importing older databases and moving a corrupt one aside.
        let until = Instant::now() + ADMIN_PATIENCE;
        self.wait(until, |queue| {
            !matches!(queue.phase, Phase::Opening { .. }) && queue.is_written(queue.last)
        });
        let StoreSettings { path, derivation, .. } = &self.shared.settings;
        connection::open_and_repair(path, ADMIN_PATIENCE, derivation)
            .and_then(|(mut database, losses)| {
                note_losses(&self.shared.queue, path, losses);
                Ok(work(&mut database)?)
            })
            .map_err(|source| StoreError { path: path.clone(), source })
    }

    fn wait_until_open(&self) {
        let Phase::Opening { since } = self.shared.queue.lock().phase else {
            return;
        };
        self.wait(since + OPENING_PATIENCE, |queue| !matches!(queue.phase, Phase::Opening { .. }));
    }

    /// Waits until every record is on disk, for at most [`WRITTEN_PATIENCE`] after the newest.
    pub fn wait_until_written(&self) {
        self.wait_until_open();
        let queue = self.shared.queue.lock();
        let (last, pushed) = (queue.last, queue.last_pushed);
        drop(queue);
        let Some(pushed) = pushed else {
            return;
        };
        self.wait(pushed + WRITTEN_PATIENCE, |queue| {
            queue.is_written(last) || queue.phase != Phase::Ready
        });
    }

    fn wait(&self, until: Instant, done: impl Fn(&Queue) -> bool) {
        let mut queue = self.shared.queue.lock();
        if done(&queue) {
            return;
        }
        queue.awaited = true;
        self.shared.queue.notify_all();
        // Waiting for a writer that failed or has ended is pointless.
        let is_pointless =
            |queue: &Queue| matches!(queue.phase, Phase::Failing { .. } | Phase::Closed);
        while !done(&queue) && !is_pointless(&queue) && Instant::now() < until {
            queue = self.shared.queue.wait(queue, Some(until));
        }
    }

    /// Makes the writer recover from a reader's failure.
    fn report_failure(&self, error: &DatabaseError) {
        tracing::debug!(%error, "the database cannot be read");
        if !error.is_busy() {
            let mut queue = self.shared.queue.lock();
            queue.reopen = true;
            queue.suspect |= error.is_corrupt();
            drop(queue);
            self.shared.queue.notify_all();
        }
    }
}

/// Whether the database can be read, as far as the writer knows.
fn is_readable(queue: &Queue) -> bool {
    match &queue.phase {
        Phase::Ready | Phase::Closed => true,
        Phase::Failing { readable, .. } => *readable,
        Phase::Idle | Phase::Opening { .. } => false,
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.close();
    }
}

#[cfg(test)]
mod tests {

    use std::sync::atomic::Ordering;
    use std::time::{Duration, SystemTime};

    use proptest::prelude::*;
    use rusqlite::Connection;
    use tempfile::TempDir;

    use super::admin::Forget;
    use super::*;
    use crate::alan::estimate::Basis;
    use crate::alan::rows::JournalRow;
    use crate::alan::run::tests::{ended, pattern};
    use crate::alan::run::{EndedRun, Ending};
    use crate::alan::schema::tests::{derivation, original};
    use crate::neverhang::{Decision, Lease, RunEnd};
    use crate::shell::outcome::Outcome;
    use crate::text::redact::Redactor;

    fn settings(path: &Path, session: &str) -> StoreSettings {
        StoreSettings {
            path: path.to_path_buf(),
            session: session.to_owned(),
            derivation: derivation(1),
            old_databases: Vec::new(),
            rules: Rules::default(),
        }
    }

    fn scratch() -> (TempDir, PathBuf) {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("alan.db");
        (directory, path)
    }

    fn store(path: &Path) -> Store {
        Store::open(settings(path, "session"))
    }

    /// A store whose database is open. Until it is, the store answers from memory, and opening may
    /// take longer than an answer waits.
    fn opened(path: &Path, session: &str) -> Store {
        let store = Store::open(settings(path, session));
        store.start();
        let until = Instant::now() + Duration::from_secs(30);
        store.wait(until, is_readable);
        assert!(store.status().opened, "{:?}", store.status());
        store
    }

    fn run(command: &str, ending: Ending) -> Run<'static> {
        Run::new(ended(command, ending, SystemTime::now()), &Redactor::default())
    }

    fn history(store: &Store, command: &str) -> History {
        store.history(&pattern(command), SystemTime::now())
    }

    fn killed(milliseconds: u64) -> Ending {
        Ending::Killed { after: Duration::from_millis(milliseconds) }
    }

    /// Waits until every record of a store is on disk.
    pub(super) fn flush(store: &Store) {
        let until = Instant::now() + Duration::from_secs(30);
        let mut queue = store.shared.queue.lock();
        while !queue.entries.is_empty() && Instant::now() < until {
            queue = store.shared.queue.wait(queue, Some(until));
        }
        drop(queue);
        assert_eq!(store.status().queued, 0, "{:?}", store.status());
    }

    fn count(path: &Path, table: &str) -> i64 {
        let connection = Connection::open(path).expect("the database");
        connection
            .query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0))
            .expect("a count")
    }

    #[test]
    fn what_one_call_recorded_the_next_one_sees_a_thousand_times_in_a_row() {
        let (_directory, path) = scratch();
        let store = store(&path);
        for round in 1..=1000_i64 {
            store.record(&run("make", Ending::Exited(0)));
            let history = history(&store, "make");
            assert_eq!(history.streak.current_streak, round);
            assert_eq!(history.retries.len(), (round as usize).min(200));
            let kills = store.kills("make *");
            assert_eq!(kills.runs, round.unsigned_abs());
        }
    }

    #[test]
    fn each_of_a_thousand_kills_and_failures_is_counted_by_the_next_call() {
        let (_directory, path) = scratch();
        let store = store(&path);
        for round in 1..=1000_u64 {
            store.record(&run("sleep 9", killed(5)));
            let counts = store.kills("sleep *");
            assert_eq!((counts.kills, counts.runs), (round, round));
            assert_eq!(counts.session_kills, round.min(1000));
            // Two failures, which look options up, then a success.
            let failures = (round % 3) as u32;
            store.record(&run("tar x", Ending::Exited(i32::from(failures > 0) * 2)));
            assert_eq!(history(&store, "tar x").failures, failures, "round {round}");
        }
    }

    #[test]
    fn a_half_open_circuit_always_lets_exactly_one_run_through() {
        let (_directory, path) = scratch();
        let store = opened(&path, "session");
        let command = pattern("sleep 9");
        let limit = Some(Duration::from_secs(5));
        let mut now = SystemTime::now();
        for round in 1..=1000 {
            for _ in 0..3 {
                store.circuit_report(&command, timed_out(5.0), None, now);
            }
            let refused = store.circuit_check_and_lease(&command, now, limit);
            assert!(matches!(refused, Decision::Refuse(_)), "{round}: {refused:?}");
            now += Duration::from_secs(301);
            let Decision::Probe(lease) = store.circuit_check_and_lease(&command, now, limit) else {
                panic!("nothing is let through in round {round}");
            };
            let second = store.circuit_check_and_lease(&command, now, limit);
            assert!(matches!(second, Decision::Refuse(_)), "{round}: {second:?}");
            store.circuit_report(&command, RunEnd::Finished, Some(&lease), now);
            let closed = store.circuit_check_and_lease(&command, now, limit);
            assert_eq!(closed, Decision::Allow, "round {round}");
        }
    }

    /// Records 3,000 runs while `look` counts them again and again: each count must include all that
    /// were recorded before.
    fn count_while_recording(store: &Store, look: impl Fn() -> u64) {
        let recorded = AtomicU64::new(0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..3000 {
                    store.record(&run("make", Ending::Exited(0)));
                    recorded.fetch_add(1, Ordering::SeqCst);
                }
            });
            while recorded.load(Ordering::SeqCst) < 3000 {
                let before = recorded.load(Ordering::SeqCst);
                let seen = look();
                // One may be recorded and not counted here yet.
                let after = recorded.load(Ordering::SeqCst) + 1;
                assert!((before..=after).contains(&seen), "{before} {seen} {after}");
            }
        });
        assert_eq!(look(), 3000);
    }

    #[test]
    fn a_query_while_the_writer_writes_counts_each_run_once() {
        let (_directory, path) = scratch();
        let store = store(&path);
        count_while_recording(&store, || store.kills("make *").runs);
    }

    #[test]
    fn two_servers_on_one_file_lose_none_of_ten_thousand_records() {
        let (_directory, path) = scratch();
        let record = |name: &'static str, path: PathBuf| {
            std::thread::spawn(move || {
                let store = Store::open(settings(&path, name));
                for number in 0..5000 {
                    store.record(&run("make", Ending::Exited(number % 2)));
                    if number % 500 == 0 {
                        flush(&store);
                    }
                }
                flush(&store);
                assert_eq!(store.status().dropped, 0);
            })
        };
        let servers = [record("one", path.clone()), record("two", path.clone())];
        for server in servers {
            server.join().expect("a server");
        }
        assert_eq!(count(&path, "observations"), 10_000);
        assert_eq!(count(&path, "recent_commands"), 10_000);
        let connection = Connection::open(&path).expect("the database");
        let sound: String =
            connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).expect("a check");
        assert_eq!(sound, "ok");
    }

    #[test]
    fn records_survive_the_server() {
        let (_directory, path) = scratch();
        for _ in 0..3 {
            store(&path).record(&run("make", Ending::Exited(2)));
        }
        let history = history(&opened(&path, "session"), "make");
        assert_eq!(history.runs.len(), 3);
        assert_eq!(history.streak.current_streak, -3);
        assert_eq!(history.estimate.map(|estimate| estimate.sample_size), Some(3));
    }

    #[test]
    fn a_retry_is_one_of_the_same_session_and_window() {
        let (_directory, path) = scratch();
        let store = store(&path);
        store.record(&run("make", Ending::Exited(1)));
        flush(&store);
        let other = opened(&path, "other session");
        assert!(history(&other, "make").is_known());
        assert_eq!(history(&other, "make").retries, []);
        assert_eq!(history(&store, "make").retries, [Outcome::Failure]);
        let later = SystemTime::now() + Duration::from_secs(15 * 60 + 1);
        assert_eq!(store.history(&pattern("make"), later).retries, []);
    }

    #[test]
    fn runs_of_a_kind_are_similar() {
        let (_directory, path) = scratch();
        let store = store(&path);
        store.record(&run("git one", Ending::Exited(0)));
        store.record(&run("git two", Ending::Exited(1)));
        let found = history(&store, "git three");
        assert_eq!(found.similar, [Outcome::Failure, Outcome::Success]);
        assert!(!found.is_known());
    }

    /// What may happen to a database between two histories of a command.
    #[derive(Debug, Clone, Copy)]
    enum Event {
        /// One of two servers records a run of a command, this many seconds after the last event.
        Run {
            by_other: bool,
            command: usize,
            ending: Ending,
            seconds: u64,
        },
        /// The asking server's records are on disk.
        Flush,
        Forget(usize),
        /// This many days later.
        Prune(u64),
        Import(usize),
    }

    const COMMANDS: [&str; 5] = ["make", "make x", "ssh far ls", "ssh near ls", "make | tee log"];

    fn known(command: usize) -> CommandPattern {
        use crate::alan::pattern::{RemoteCommand, Segment, Ssh};
        let command = COMMANDS[command];
        let mut pattern = pattern(command);
        if command == "make x" {
            pattern.subcommand_template = Some("make x *".to_owned());
        }
        if let Some(segments) = command.split_once(" | ") {
            let of = |segment: &str| {
                let of = self::pattern(segment);
                Segment { hash: of.hash, template: of.template, ..Segment::default() }
            };
            pattern.segments = vec![of(segments.0), of(segments.1)];
        }
        pattern.ssh = command.strip_prefix("ssh ").map(|rest| Ssh {
            host: rest.trim_end_matches(" ls").to_owned(),
            remote: Some(RemoteCommand { preview: "ls".to_owned(), template: "ls".to_owned() }),
        });
        pattern
    }

    fn known_run(command: usize, ending: Ending, at: SystemTime) -> Run<'static> {
        let seconds = unix_seconds(at) as u64;
        let ended = EndedRun {
            pattern: known(command),
            duration: Duration::from_millis(seconds % 97 * 100),
            cpu: None,
            peak: None,
            pipestatus: vec![0; known(command).segments.len()],
            output_tail: if seconds.is_multiple_of(3) { "error: one\n" } else { "error: other\n" },
            cwd: Some(format!("/{seconds}")),
            ..ended("", ending, at)
        };
        Run::new(ended, &Redactor::default())
    }

    fn event() -> impl Strategy<Value = Event> {
        let command = 0..COMMANDS.len();
        let ending = prop_oneof![
            3 => prop::sample::select(vec![0, 2, 255]).prop_map(Ending::Exited),
            1 => Just(killed(1500)),
            1 => Just(Ending::TimedOut(143)),
            1 => Just(Ending::Interrupted(143)),
        ];
        let run = (prop::bool::weighted(0.2), command.clone(), ending, 1..300_u64);
        prop_oneof![
            20 => run.prop_map(|(by_other, command, ending, seconds)| Event::Run {
                by_other, command, ending, seconds
            }),
            2 => Just(Event::Flush),
            1 => command.clone().prop_map(Event::Forget),
            1 => command.prop_map(Event::Import),
            1 => (0..8_u64).prop_map(Event::Prune),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        #[test]
        fn a_history_from_memory_is_the_one_that_the_database_has(
            events in prop::collection::vec(event(), 1..60),
        ) {
            let (_directory, path) = scratch();
            let (store, other) = (opened(&path, "session"), opened(&path, "other session"));
            let mut now = SystemTime::now();
            for (number, event) in events.into_iter().enumerate() {
                match event {
                    Event::Run { by_other, command, ending, seconds } => {
                        now += Duration::from_secs(seconds);
                        let run = known_run(command, ending, now);
                        if by_other {
                            other.record(&run);
                            flush(&other);
                        } else {
                            store.record(&run);
                        }
                    }
                    Event::Flush => flush(&store),
                    Event::Forget(command) => {
                        flush(&store);
                        let hash = &known(command).hash;
                        other.forget(Forget::Command(hash)).expect("forgotten");
                    }
                    Event::Prune(days) => {
                        now += Duration::from_secs(days * 86_400);
                        store.prune(now).expect("pruned");
                    }
                    Event::Import(command) => {
                        now += Duration::from_secs(1);
                        let run = known_run(command, Ending::Exited(0), now);
                        let rows = run.rows(&format!("imported {number}"), "session");
                        let mut entries = vec![JournalRow::RecentCommands(rows.recent)];
                        let observations = rows.observations.into_iter();
                        entries.extend(observations.map(JournalRow::Observations));
                        entries.extend(rows.ssh.map(JournalRow::SshObservations));
                        flush(&store);
                        other.import(&entries).expect("imported");
                    }
                }
                for command in 0..COMMANDS.len() {
                    let pattern = known(command);
                    let pair = || {
                        let history = store.history(&pattern, now);
                        let seconds = unix_seconds(now);
                        let read = store.view(|view| view.cached(&pattern, "session", seconds));
                        (history, read.history(seconds))
                    };
                    let (history, read) = pair();
                    if history == read {
                        continue;
                    }
                    // A queued run counts as the newest until it is written, even if another
                    // server's run ended later.
                    flush(&store);
                    let (history, read) = pair();
                    prop_assert_eq!(history, read, "{:?}", event);
                }
            }
        }
    }

    /// Waits until the writers have pruned, which they do in the turn of their first batch.
    fn settle<'a>(stores: impl IntoIterator<Item = &'a Store>) {
        for store in stores {
            for _ in 0..2 {
                store.record(&run("true", Ending::Exited(0)));
                flush(store);
            }
        }
    }

    #[test]
    fn a_command_is_read_again_only_after_others_have_changed_the_history() {
        let (_directory, path) = scratch();
        let (store, other) = (opened(&path, "session"), opened(&path, "other session"));
        settle([&store, &other]);
        let runs = || history(&store, "make").runs.len();
        store.record(&run("make", Ending::Exited(0)));
        flush(&store);
        assert_eq!(runs(), 1);
        // Unlike zsh-tool, this does not count the transaction.
        let database = Connection::open(&path).expect("the database");
        database.execute("DELETE FROM observations", []).expect("removed");
        assert_eq!(runs(), 1, "from memory");
        store.record(&run("make", Ending::Exited(0)));
        flush(&store);
        assert_eq!(runs(), 2, "from memory and the server's own run");
        other.record(&run("ls", Ending::Exited(0)));
        flush(&other);
        assert_eq!(runs(), 1, "from the database");
        store.release_memory();
        database.execute("DELETE FROM observations", []).expect("removed");
        assert_eq!(runs(), 0, "no command is left");
    }

    #[test]
    fn runs_recorded_while_a_command_is_read_are_neither_missed_nor_counted_twice() {
        let (_directory, path) = scratch();
        let store = opened(&path, "session");
        let looks = AtomicU64::new(0);
        count_while_recording(&store, || {
            // Every second look uses what the one before has kept.
            if looks.fetch_add(1, Ordering::SeqCst).is_multiple_of(2) {
                store.shared.cache.lock().clear();
            }
            history(&store, "make").streak.current_streak.unsigned_abs()
        });
    }

    #[test]
    fn another_file_in_place_of_the_database_is_noticed() {
        let (_directory, path) = scratch();
        let store = opened(&path, "session");
        settle([&store]);
        assert!(!history(&store, "make").is_known());
        store.record(&run("make", Ending::Exited(0)));
        flush(&store);
        assert!(history(&store, "make").is_known());
        let moved = path.with_extension("moved");
        for suffix in ["", "-wal", "-shm"] {
            let of = |path: &Path| connection::beside(path, suffix);
            std::fs::rename(of(&path), of(&moved)).expect("moved");
        }
        drop(opened(&path, "other session"));
        assert!(!history(&store, "make").is_known());
    }

    #[test]
    fn a_kill_breaks_the_streak_and_counts_as_a_kill_at_once() {
        let (_directory, path) = scratch();
        let store = store(&path);
        for _ in 0..3 {
            store.record(&run("sleep 9", Ending::Exited(0)));
        }
        store.record(&run("sleep 9", killed(100)));
        assert_eq!(history(&store, "sleep 9").streak.current_streak, -1);
        let counts = KillCounts { kills: 1, runs: 4, session_kills: 1 };
        assert_eq!(store.kills("sleep *"), counts);
        flush(&store);
        assert_eq!(store.kills("sleep *"), counts, "also from the file");
    }

    #[test]
    fn a_kill_never_shortens_the_median() {
        let (_directory, path) = scratch();
        let store = store(&path);
        for _ in 0..5 {
            store.record(&run("make", Ending::Exited(0)));
        }
        let median = |store: &Store| store.estimate(&pattern("make")).expect("one").median.seconds;
        let before = median(&store);
        for _ in 0..4 {
            store.record(&run("make", killed(1)));
            assert!(median(&store) >= before);
        }
        let estimate = store.estimate(&pattern("make")).expect("one");
        assert_eq!((estimate.basis, estimate.sample_size), (Basis::Exact, 5));
    }

    #[test]
    fn failures_in_a_row_are_counted_for_the_options() {
        let (_directory, path) = scratch();
        let store = store(&path);
        store.record(&run("tar a", Ending::Exited(2)));
        store.record(&run("tar b", killed(10)));
        store.record(&run("tar c", Ending::TimedOut(143)));
        store.record(&run("tar d", Ending::Exited(2)));
        assert_eq!(history(&store, "tar x").failures, 2);
        store.record(&run("tar e", Ending::Exited(0)));
        assert_eq!(history(&store, "tar x").failures, 0);
    }

    #[test]
    fn options_are_kept_and_seen_at_once() {
        let (_directory, path) = scratch();
        let store = store(&path);
        assert_eq!(store.options("tar"), None);
        store.put_options("tar", "-x  extract", SystemTime::now());
        assert_eq!(store.options("tar").as_deref(), Some("-x  extract"));
        flush(&store);
        assert_eq!(store.options("tar").as_deref(), Some("-x  extract"));
    }

    #[test]
    fn programs_that_succeeded_are_known() {
        let (_directory, path) = scratch();
        let store = store(&path);
        store.record(&run("cargo build", Ending::Exited(0)));
        store.record(&run("carg build", Ending::Exited(127)));
        assert_eq!(store.programs(), ["cargo"]);
        flush(&store);
        assert_eq!(store.programs(), ["cargo"]);
    }

    /// Records and queries, which work whatever the database does.
    fn works_in_memory(store: &Store) {
        for round in 1..=3 {
            store.record(&run("make", Ending::Exited(1)));
            assert_eq!(history(store, "make").streak.current_streak, -round);
        }
        let estimate = store.estimate(&pattern("make")).expect("from memory");
        assert_eq!(estimate.sample_size, 3);
        let checked = store.circuit_check_and_lease(&pattern("make"), SystemTime::now(), None);
        assert_eq!(checked, Decision::Allow);
    }

    fn wait_for_failure(store: &Store) -> Status {
        store.wait(Instant::now() + Duration::from_secs(30), |queue| {
            matches!(queue.phase, Phase::Failing { .. })
        });
        store.status()
    }

    #[test]
    fn a_directory_in_place_of_the_database_costs_no_command() {
        let (_directory, path) = scratch();
        std::fs::create_dir(&path).expect("a directory");
        let store = store(&path);
        works_in_memory(&store);
        let status = wait_for_failure(&store);
        assert_eq!(status.failure.as_deref(), Some("it is not a regular file"));
        assert_eq!((status.queued, status.path), (3, path.clone()));
        let warning = store.take_warnings().first().expect("a warning").to_string();
        assert!(warning.contains(&path.to_string_lossy().into_owned()), "{warning}");
        assert_eq!(store.take_warnings(), [], "said once");
    }

    #[test]
    fn a_directory_that_cannot_be_made_costs_no_command() {
        let store = store(Path::new("/proc/nowhere/alan.db"));
        works_in_memory(&store);
        assert!(wait_for_failure(&store).failure.is_some());
    }

    #[test]
    fn circuits_work_in_memory() {
        let store = store(Path::new("/proc/nowhere/alan.db"));
        let now = SystemTime::now();
        for _ in 0..3 {
            store.circuit_report(&pattern("sleep 9"), timed_out(5.0), None, now);
        }
        let limit = Some(Duration::from_secs(5));
        let decided = store.circuit_check_and_lease(&pattern("sleep 9"), now, limit);
        assert!(matches!(decided, Decision::Refuse(_)), "{decided:?}");
        assert_eq!(store.circuits(now)[0].preview, "sleep 9");
        let reset = store.circuit_reset(None);
        assert_eq!(reset.closed.len(), 1);
        assert!(reset.failure.is_some(), "the database could not be asked");
        let decided = store.circuit_check_and_lease(&pattern("sleep 9"), now, limit);
        assert_eq!(decided, Decision::Allow);
    }

    #[test]
    fn a_corrupt_database_is_moved_aside_and_a_new_one_created() {
        let (directory, path) = scratch();
        std::fs::write(&path, "x".repeat(5000)).expect("a file");
        let store = store(&path);
        works_in_memory(&store);
        flush(&store);
        let aside = store.status().moved_aside.expect("moved");
        assert_eq!(aside.parent(), Some(directory.path()));
        assert_eq!(std::fs::read(&aside).expect("kept").len(), 5000);
        assert_eq!(count(&path, "observations"), 3);
    }

    #[test]
    fn pages_that_become_corrupt_are_noticed() {
        let (_directory, path) = scratch();
        {
            let store = store(&path);
            for _ in 0..200 {
                store.record(&run("make", Ending::Exited(0)));
            }
            flush(&store);
        }
        let length = std::fs::metadata(&path).expect("a file").len();
        let mut bytes = std::fs::read(&path).expect("a file");
        bytes[4096..].fill(0xff);
        std::fs::write(&path, &bytes).expect("written");
        assert!(length > 8192);
        let store = store(&path);
        works_in_memory(&store);
        let until = Instant::now() + Duration::from_secs(30);
        store.wait(until, |queue| queue.moved_aside.is_some());
        flush(&store);
        assert!(store.status().moved_aside.is_some());
        assert_eq!(count(&path, "observations"), 3);
    }

    #[test]
    fn a_database_that_disappears_is_created_again() {
        let (_directory, path) = scratch();
        let store = store(&path);
        store.record(&run("make", Ending::Exited(0)));
        flush(&store);
        for suffix in ["", "-wal", "-shm"] {
            let _ = std::fs::remove_file(connection::beside(&path, suffix));
        }
        store.record(&run("make", Ending::Exited(0)));
        flush(&store);
        assert_eq!(count(&path, "observations"), 1);
        assert_eq!(history(&store, "make").runs.len(), 1);
    }

    #[test]
    fn a_held_lock_loses_nothing_and_delays_no_caller_for_long() {
        let (_directory, path) = scratch();
        let store = store(&path);
        store.record(&run("make", Ending::Exited(1)));
        flush(&store);
        let holder = Connection::open(&path).expect("the database");
        holder.execute_batch("BEGIN IMMEDIATE").expect("the lock");
        for round in 2..=4 {
            store.record(&run("make", Ending::Exited(1)));
            assert_eq!(history(&store, "make").streak.current_streak, -round);
        }
        let status = wait_for_failure(&store);
        let cause = status.failure.expect("a cause");
        assert!(cause.contains("locked"), "{cause}");
        assert_eq!(status.queued, 3);
        assert_eq!(history(&store, "make").runs.len(), 4, "file and queue together");
        holder.execute_batch("ROLLBACK").expect("released");
        flush(&store);
        assert_eq!(store.status().failure, None);
        assert_eq!(count(&path, "observations"), 4);
    }

    #[test]
    fn a_full_disk_loses_nothing_while_the_server_lives() {
        let (_directory, path) = scratch();
        let store = store(&path);
        store.record(&run("make", Ending::Exited(1)));
        flush(&store);
        // A trigger raises the same error as a full disk.
        let other = Connection::open(&path).expect("the database");
        other
            .execute_batch(
                "CREATE TRIGGER full BEFORE INSERT ON observations
             BEGIN SELECT raise(ABORT, 'database or disk is full'); END;",
            )
            .expect("a trigger");
        store.record(&run("make", Ending::Exited(1)));
        let status = wait_for_failure(&store);
        assert!(status.failure.is_some_and(|cause| cause.contains("full")));
        assert_eq!(history(&store, "make").streak.current_streak, -2);
        other.execute_batch("DROP TRIGGER full").expect("space again");
        flush(&store);
        assert_eq!(count(&path, "observations"), 2);
    }

    #[test]
    fn a_newer_database_is_left_alone() {
        let (_directory, path) = scratch();
        store(&path).record(&run("make", Ending::Exited(0)));
        let connection = Connection::open(&path).expect("the database");
        connection.pragma_update(None, "user_version", 99).expect("a version");
        let store = store(&path);
        works_in_memory(&store);
        let failure = wait_for_failure(&store).failure.expect("a cause");
        assert!(failure.contains("version 99"), "{failure}");
        assert_eq!(count(&path, "observations"), 1);
    }

    #[test]
    fn the_database_of_the_original_opens_with_its_history() {
        for with_outcomes in [false, true] {
            let (_directory, path) = scratch();
            original(&Connection::open(&path).expect("a database"), with_outcomes);
            let store = opened(&path, "session");
            let mut known = pattern("git push");
            known.hash = "h(git push)".to_owned();
            let history = store.history(&known, SystemTime::now());
            assert_eq!(history.runs.len(), 2);
            assert_eq!(history.runs[0].outcome, Outcome::Timeout);
            assert_eq!(history.streak.current_streak, -1);
        }
    }

    #[test]
    fn an_older_database_elsewhere_is_imported_old_at_the_start() {
        let (directory, path) = scratch();
        let old = directory.path().join("plugin.db");
        original(&Connection::open(&old).expect("a database"), true);
        let mut settings = settings(&path, "session");
        settings.old_databases = vec![directory.path().join("missing.db"), old.clone()];
        let store = Store::open(settings);
        store.record(&run("make", Ending::Exited(0)));
        flush(&store);
        assert_eq!(count(&path, "observations"), 5);
        assert!(!old.exists());
    }

    #[test]
    fn an_export_and_its_import_lose_nothing() {
        let (directory, path) = scratch();
        let one = store(&path);
        let mut tried = ended("ssh h ls", Ending::Exited(255), SystemTime::now());
        tried.pattern.ssh = Some(crate::alan::pattern::Ssh { host: "h".to_owned(), remote: None });
        tried.output_tail = "error: no \u{1f600}\n";
        one.record(&Run::new(tried, &Redactor::default()));
        one.record(&run("make", killed(5)));
        one.put_options("tar", "-x", SystemTime::now());
        for _ in 0..3 {
            one.circuit_report(&pattern("sleep 9"), timed_out(7.5), None, SystemTime::now());
        }
        let lines = |store: &Store| {
            let mut lines = Vec::new();
            let done: Result<(), serde_json::Error> = store
                .export(&mut |entry| {
                    lines.push(serde_json::to_string(&entry)?);
                    Ok(())
                })
                .expect("an export");
            done.expect("lines");
            lines
        };
        let exported = lines(&one);
        let other = store(&directory.path().join("other.db"));
        let entries: Vec<JournalRow> =
            exported.iter().map(|line| serde_json::from_str(line).expect("an entry")).collect();
        let imported = other.import(&entries).expect("an import");
        assert_eq!((imported.added, imported.known), (entries.len(), 0));
        assert_eq!(lines(&other), exported);
        let again = other.import(&entries).expect("an import");
        assert_eq!((again.added, again.known), (0, entries.len()));
    }

    #[test]
    fn pruning_keeps_the_newest_of_each_kind_and_young_rows() {
        let (_directory, path) = scratch();
        let store = store(&path);
        let now = SystemTime::now();
        let old = now - Duration::from_secs(30 * 24 * 3600);
        for (command, at) in [("rare x", old), ("often x", old), ("young x", now)] {
            let runs = if command == "rare x" { 15 } else { 50 };
            for _ in 0..runs {
                let ended = ended(command, Ending::Exited(0), at);
                store.record(&Run::new(ended, &Redactor::default()));
            }
        }
        // The writer prunes at its start, so that some of it may be done already.
        store.prune(now).expect("pruned");
        for (command, left) in [("rare x", 15), ("often x", 20), ("young x", 50)] {
            assert_eq!(history(&store, command).runs.len(), left, "{command}");
        }
        assert_eq!(store.prune(now).expect("again").observations, 0);
        let database = &mut Connection::open(&path).expect("the database");
        let removed = admin::prune(database, now, Some(40)).expect("pruned");
        assert_eq!(removed.observations, 45, "the oldest beyond the limit");
        assert_eq!(history(&store, "young x").runs.len(), 40);
    }

    #[test]
    fn every_transaction_that_removes_rows_is_counted() {
        let (_directory, path) = scratch();
        let store = store(&path);
        settle([&store]);
        let old = SystemTime::now() - Duration::from_secs(30 * 24 * 3600);
        for _ in 0..25 {
            let run = ended("often x", Ending::Exited(0), old);
            store.record(&Run::new(run, &Redactor::default()));
        }
        flush(&store);
        let database = &mut Connection::open(&path).expect("the database");
        let by_others = |database: &Connection| {
            let found = written(database, "another server").expect("a row");
            found.by_others.expect("a number")
        };
        let before = by_others(database);
        let removed = admin::prune(database, SystemTime::now(), None).expect("pruned");
        assert_eq!(removed.observations, 5);
        assert_eq!(by_others(database) - before, 2, "the rows, and what is as old");
        admin::forget(database, Forget::Template("often *")).expect("forgotten");
        assert_eq!(by_others(database) - before, 3);
    }

    #[test]
    fn a_forgotten_command_is_gone() {
        let (_directory, path) = scratch();
        let store = store(&path);
        store.record(&run("git one", Ending::Exited(1)));
        store.record(&run("git two", Ending::Exited(1)));
        store.record(&run("make", Ending::Exited(1)));
        let forgotten = pattern("git one").hash;
        store.forget(Forget::Command(&forgotten)).expect("forgotten");
        assert!(!history(&store, "git one").is_known());
        assert!(history(&store, "git two").is_known());
        store.forget(Forget::Template("git *")).expect("forgotten");
        let forgotten = history(&store, "git two");
        assert!(!forgotten.is_known() && forgotten.retries.is_empty());
        assert_eq!((forgotten.streak.current_streak, forgotten.failures), (0, 0));
        assert!(history(&store, "make").is_known());
        assert_eq!(store.counts().expect("counts").observations, 1);
    }

    fn timed_out(allowed: f64) -> RunEnd {
        RunEnd::TimedOut { allowed, usual: None, waited_for_input: false }
    }

    #[test]
    fn circuits_survive_a_restart_and_one_of_two_servers_gets_the_lease() {
        let (_directory, path) = scratch();
        let start = SystemTime::now();
        let command = pattern("sleep 9");
        let limit = Some(Duration::from_secs(5));
        {
            let store = opened(&path, "session");
            for _ in 0..3 {
                store.circuit_report(&command, timed_out(5.0), None, start);
            }
        }
        let stores = [opened(&path, "session"), opened(&path, "session")];
        for store in &stores {
            let decided = store.circuit_check_and_lease(&command, start, limit);
            assert!(matches!(decided, Decision::Refuse(_)), "{decided:?}");
            let other = store.circuit_check_and_lease(&pattern("ls"), start, limit);
            assert_eq!(other, Decision::Allow, "other patterns are not touched");
        }
        let later = start + Duration::from_secs(301);
        let decided = std::thread::scope(|scope| {
            let asked: Vec<_> = (0..8)
                .map(|number| {
                    let (store, command) = (&stores[number % 2], &command);
                    scope.spawn(move || store.circuit_check_and_lease(command, later, limit))
                })
                .collect();
            let decided = asked.into_iter().map(|asked| asked.join().expect("an answer"));
            decided.collect::<Vec<_>>()
        });
        let leases: Vec<&Lease> = decided
            .iter()
            .filter_map(|decision| match decision {
                Decision::Probe(lease) => Some(lease),
                _ => None,
            })
            .collect();
        assert_eq!(leases.len(), 1, "{decided:?}");
        assert!(!decided.contains(&Decision::Allow), "{decided:?}");
        assert_eq!(stores[1].circuits(later).len(), 1);
        stores[1].circuit_report(&command, RunEnd::Finished, Some(leases[0]), later);
        for store in &stores {
            let decided = store.circuit_check_and_lease(&command, later, limit);
            assert_eq!(decided, Decision::Allow);
            assert_eq!(store.circuits(later), []);
        }
    }

    #[test]
    fn a_report_waits_for_no_lock_and_loses_no_timeout() {
        let (_directory, path) = scratch();
        let store = opened(&path, "session");
        let (command, now) = (pattern("sleep 9"), SystemTime::now());
        let limit = Some(Duration::from_secs(5));
        for _ in 0..2 {
            store.circuit_report(&command, timed_out(5.0), None, now);
        }
        let holder = Connection::open(&path).expect("the database");
        holder.execute_batch("BEGIN IMMEDIATE").expect("the lock");
        let begun = Instant::now();
        store.circuit_report(&command, timed_out(5.0), None, now);
        // Two seconds as a rule; the writer would wait for five.
        assert!(begun.elapsed() < Duration::from_millis(4_500), "the end waited");
        let decided = store.circuit_check_and_lease(&command, now, limit);
        assert!(matches!(decided, Decision::Refuse(_)), "{decided:?}");
        holder.execute_batch("ROLLBACK").expect("the end");
        // The next report takes it to disk, where other servers see it.
        store.circuit_report(&command, timed_out(5.0), None, now);
        let other = opened(&path, "session");
        let decided = other.circuit_check_and_lease(&command, now, limit);
        assert!(matches!(decided, Decision::Refuse(_)), "{decided:?}");
    }

    #[test]
    fn closing_gives_up_on_a_locked_database_soon() {
        let (_directory, path) = scratch();
        let store = store(&path);
        store.record(&run("make", Ending::Exited(0)));
        flush(&store);
        let holder = Connection::open(&path).expect("the database");
        holder.execute_batch("BEGIN IMMEDIATE").expect("the lock");
        store.record(&run("make", Ending::Exited(0)));
        let begun = Instant::now();
        store.close();
        // Three quarters of a second as a rule. A writer that did not give up would wait until the
        // lock is released.
        assert!(begun.elapsed() < Duration::from_secs(5));
    }

    #[test]
    fn a_timeout_shorter_than_the_usual_success_opens_no_circuit() {
        let (_directory, path) = scratch();
        let store = store(&path);
        store.record(&run("make", Ending::Exited(0)));
        for _ in 0..5 {
            store.circuit_report(&pattern("make"), timed_out(0.5), None, SystemTime::now());
        }
        assert_eq!(store.circuits(SystemTime::now()), []);
    }

    #[test]
    fn a_reset_closes_one_circuit_or_all() {
        let (_directory, path) = scratch();
        let store = store(&path);
        let now = SystemTime::now();
        for command in ["a", "b", "c"] {
            for _ in 0..3 {
                store.circuit_report(&pattern(command), timed_out(5.0), None, now);
            }
        }
        assert_eq!(store.circuits(now).len(), 3);
        let closed = |hash: Option<&str>| {
            let reset = store.circuit_reset(hash);
            assert!(reset.failure.is_none(), "{reset:?}");
            let closed = reset.closed.into_iter().map(|named| named.preview);
            closed.collect::<Vec<_>>()
        };
        assert_eq!(closed(Some(&pattern("a").hash)), ["a"]);
        assert_eq!(closed(Some(&pattern("a").hash)), [""; 0], "once");
        assert_eq!(store.circuits(now).len(), 2);
        assert_eq!(closed(None), ["b", "c"]);
        assert_eq!(store.circuits(now), []);
    }

    #[test]
    fn circuits_whose_timeouts_are_long_ago_are_not_listed() {
        let (_directory, path) = scratch();
        let store = store(&path);
        let start = SystemTime::now();
        store.circuit_report(&pattern("sleep 9"), timed_out(5.0), None, start);
        assert_eq!(store.circuits(start).len(), 1);
        assert_eq!(store.circuits(start + Duration::from_secs(3601)), []);
    }

    #[test]
    fn a_store_that_is_never_used_makes_no_file() {
        let (_directory, path) = scratch();
        drop(store(&path));
        assert!(!path.exists());
    }
}
