//! Counts, prunes, forgets, exports and imports rows: on a user's command, and prunes every six
//! hours, but never within a tool call. Long work is split into short transactions.

use std::time::{Duration, SystemTime};

use rusqlite::{Connection, OptionalExtension, TransactionBehavior, params};

use super::tables::TableRow;
use super::{Store, StoreError, circuits};
use crate::alan::history::HALF_LIFE_HOURS;
use crate::alan::rows::{JournalRow, seconds_of, timestamp, unix_seconds};
use crate::alan::schema::count_transaction;

/// Rows lighter than this are removed.
const LIGHTEST: f64 = 0.01;
/// How many of the newest rows of each kind or host are kept at any weight.
const KEPT_OF_A_KIND: usize = 20;
/// Beyond this many rows, the oldest are removed whatever their weight.
const MAX_ROWS: usize = 100_000;
/// How long a session's runs are kept.
const RECENT_SECONDS: f64 = 24.0 * 3600.0;
/// Rows in one transaction.
const CHUNK: usize = 500;

/// The number of rows of each sort.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Counts {
    /// Runs and segments of pipelines.
    pub observations: u64,
    /// Different commands with a streak.
    pub commands: u64,
    pub templates: u64,
    /// Runs over SSH.
    pub ssh_observations: u64,
    pub cached_options: u64,
    /// Circuits that are not blank.
    pub circuits: u64,
    /// The kinds that ran most often, with runs, successes and kills.
    pub most_frequent: Vec<(String, u64, u64, u64)>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Removed {
    /// Runs and segments of pipelines.
    pub observations: usize,
    pub others: usize,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Imported {
    pub added: usize,
    /// Rows that the database already had, or had in a newer version.
    pub known: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Forget<'a> {
    /// One command, by its hash.
    Command(&'a str),
    /// All of a kind.
    Template(&'a str),
}

impl Store {
    /// Counts the rows of the database.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn counts(&self) -> Result<Counts, StoreError> {
        self.with_connection(|database| counts(&database.connection))
    }

    /// Removes rows that weigh next to nothing.
    ///
    /// # Errors
    /// If the database cannot be written.
    pub fn prune(&self, now: SystemTime) -> Result<Removed, StoreError> {
        self.with_connection(|database| prune(&mut database.connection, now, None))
    }

    /// Forgets a command or a kind of command.
    ///
    /// # Errors
    /// If the database cannot be written; nothing is then forgotten.
    pub fn forget(&self, what: Forget<'_>) -> Result<Removed, StoreError> {
        self.with_connection(|database| forget(&mut database.connection, what))
    }

    /// Passes every row to `each`. The inner result is the error of `each`, which ends the export.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn export<E>(
        &self,
        each: &mut dyn FnMut(JournalRow) -> Result<(), E>,
    ) -> Result<Result<(), E>, StoreError> {
        let mut stopped = Ok(());
        let exported = self.with_connection(|database| {
            export(&database.connection, &mut |row| {
                stopped = each(row);
                // Any error ends the export; the caller's own is returned below.
                stopped.as_ref().map(drop).map_err(|_| rusqlite::Error::InvalidQuery)
            })
        });
        match stopped {
            Ok(()) => exported.map(Ok),
            Err(error) => Ok(Err(error)),
        }
    }

    /// Imports rows of an export; existing rows that are the same or newer stay.
    ///
    /// # Errors
    /// If the database cannot be written; importing again changes nothing more.
    pub fn import(&self, entries: &[JournalRow]) -> Result<Imported, StoreError> {
        self.with_connection(|database| import(&mut database.connection, entries))
    }
}

/// Counts the rows of each table.
pub(crate) fn counts(connection: &Connection) -> rusqlite::Result<Counts> {
    let count = |table: &str| {
        let sql = format!("SELECT count(*) FROM {table}");
        connection.query_row(&sql, [], |row| row.get::<_, i64>(0).map(i64::unsigned_abs))
    };
    let mut frequent = connection.prepare(
        "SELECT command_template, runs, successes, kills FROM template_totals
         ORDER BY runs DESC, command_template LIMIT 10",
    )?;
    let frequent = frequent.query_map([], |row| {
        let number = |column| row.get::<_, i64>(column).map(i64::unsigned_abs);
        Ok((row.get(0)?, number(1)?, number(2)?, number(3)?))
    })?;
    Ok(Counts {
        observations: count("observations")?,
        commands: count("streaks")?,
        templates: count("template_totals")?,
        ssh_observations: count("ssh_observations")?,
        cached_options: count("manopt_cache")?,
        circuits: count("circuits")?,
        most_frequent: frequent.collect::<rusqlite::Result<_>>()?,
    })
}

/// Removes rows that weigh next to nothing, except the newest of each kind, so that the
/// durations of rare long jobs survive; then the oldest rows beyond 100,000.
///
/// # Errors
/// If SQLite fails; rows that were already removed stay removed.
pub(crate) fn prune(
    connection: &mut Connection,
    now: SystemTime,
    max_rows: Option<usize>,
) -> rusqlite::Result<Removed> {
    let hours = HALF_LIFE_HOURS * LIGHTEST.recip().log2();
    let age = Duration::from_secs_f64(hours * 3600.0);
    let light = timestamp(now.checked_sub(age).unwrap_or(SystemTime::UNIX_EPOCH));
    let seconds = unix_seconds(now);
    let kind = "coalesce(command_template, command_hash)";
    let victims = light_rows(connection, "observations", kind, &light)?;
    let mut observations = delete(connection, "observations", &victims)?;
    let surplus = surplus_rows(connection, max_rows.unwrap_or(MAX_ROWS))?;
    observations += delete(connection, "observations", &surplus)?;
    let victims = light_rows(connection, "ssh_observations", "host", &light)?;
    let mut others = delete(connection, "ssh_observations", &victims)?;
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    others += transaction
        .execute("DELETE FROM recent_commands WHERE timestamp < ?1", [seconds - RECENT_SECONDS])?;
    others += transaction.execute(
        "DELETE FROM written WHERE instance <> '' AND at < ?1",
        [seconds - 7.0 * RECENT_SECONDS],
    )?;
    others += transaction.execute("DELETE FROM last_failures WHERE created_at < ?1", [&light])?;
    transaction.execute(
        "INSERT OR REPLACE INTO meta (key, value) VALUES ('last_pruned', ?1)",
        [timestamp(now)],
    )?;
    count_transaction(&transaction)?;
    transaction.commit()?;
    Ok(Removed { observations, others })
}

/// Seconds since any server last pruned; infinite if none has.
pub(crate) fn since_pruned(connection: &Connection, now: f64) -> rusqlite::Result<f64> {
    let sql = "SELECT value FROM meta WHERE key = 'last_pruned'";
    let last: Option<Option<String>> =
        connection.query_row(sql, [], |row| row.get(0)).optional()?;
    let at = last.flatten().and_then(|value| seconds_of(&value));
    // A clock that was set back since then must not stop pruning.
    Ok(at.filter(|at| *at <= now).map_or(f64::INFINITY, |at| now - at))
}

fn light_rows(
    connection: &Connection,
    table: &str,
    kind: &str,
    light: &str,
) -> rusqlite::Result<Vec<i64>> {
    let mut found = connection.prepare(&format!(
        "SELECT id FROM (
             SELECT rowid AS id, created_at, row_number() OVER (
                 PARTITION BY {kind} ORDER BY created_at DESC, rowid DESC) AS place
             FROM {table})
         WHERE place > ?1 AND created_at < ?2"
    ))?;
    let rows = found.query_map(params![KEPT_OF_A_KIND as i64, light], |row| row.get(0))?;
    rows.collect()
}

fn surplus_rows(connection: &Connection, max_rows: usize) -> rusqlite::Result<Vec<i64>> {
    // A row's weight falls with its age, so the oldest are the lightest.
    let mut found = connection.prepare(
        "SELECT rowid FROM observations ORDER BY created_at DESC, rowid DESC LIMIT -1 OFFSET ?1",
    )?;
    let rows = found.query_map([max_rows as i64], |row| row.get(0))?;
    rows.collect()
}

fn delete(connection: &mut Connection, table: &str, rows: &[i64]) -> rusqlite::Result<usize> {
    let sql = format!("DELETE FROM {table} WHERE rowid = ?1");
    let mut deleted = 0;
    for chunk in rows.chunks(CHUNK) {
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        for row in chunk {
            deleted += transaction.prepare_cached(&sql)?.execute([row])?;
        }
        count_transaction(&transaction)?;
        transaction.commit()?;
    }
    Ok(deleted)
}

/// Forgets a command or a kind of command, in one transaction.
///
/// # Errors
/// If SQLite fails; nothing is then forgotten.
pub(crate) fn forget(connection: &mut Connection, what: Forget<'_>) -> rusqlite::Result<Removed> {
    let (column, value) = match what {
        Forget::Command(hash) => ("command_hash", hash),
        Forget::Template(template) => ("command_template", template),
    };
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let hashes = format!(
        "(SELECT command_hash FROM observations WHERE {column} = ?1
          UNION SELECT command_hash FROM recent_commands WHERE {column} = ?1 UNION SELECT ?1)"
    );
    let delete = |table: &str, condition: &str| {
        let sql = format!("DELETE FROM {table} WHERE {condition}");
        transaction.execute(&sql, [value])
    };
    let of_command = format!("command_hash IN {hashes}");
    let runs = format!("observation_id IN (SELECT id FROM observations WHERE {column} = ?1)");
    let mut others = delete("ssh_observations", &runs)?;
    others += delete("streaks", &of_command)?;
    others += delete("circuits", &of_command)?;
    others += delete("last_failures", &of_command)?;
    others += delete("recent_commands", &format!("{column} = ?1"))?;
    let observations = delete("observations", &format!("{column} = ?1"))?;
    count_transaction(&transaction)?;
    transaction.commit()?;
    Ok(Removed { observations, others })
}

/// Passes every row of every table to a function, in one transaction.
pub(crate) fn export(
    connection: &Connection,
    each: &mut dyn FnMut(JournalRow) -> rusqlite::Result<()>,
) -> rusqlite::Result<()> {
    let transaction = &connection.unchecked_transaction()?;
    every(transaction, "created_at, rowid", JournalRow::Observations, each)?;
    every(transaction, "id", JournalRow::RecentCommands, each)?;
    every(transaction, "command_hash", JournalRow::Streaks, each)?;
    every(transaction, "created_at, rowid", JournalRow::SshObservations, each)?;
    every(transaction, "base_command", JournalRow::ManoptCache, each)?;
    for found in circuits::all(transaction)? {
        each(JournalRow::Circuits(found.row()))?;
    }
    Ok(())
}

fn every<T: TableRow>(
    connection: &Connection,
    order: &str,
    entry: fn(T) -> JournalRow,
    each: &mut dyn FnMut(JournalRow) -> rusqlite::Result<()>,
) -> rusqlite::Result<()> {
    let sql = format!("SELECT * FROM {} ORDER BY {order}", T::NAME);
    let mut statement = connection.prepare(&sql)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        each(entry(T::read(row)?))?;
    }
    Ok(())
}

/// Imports rows of an export; existing rows that are the same or newer stay.
///
/// # Errors
/// If SQLite fails; earlier chunks stay imported, and importing them again changes nothing.
pub(crate) fn import(
    connection: &mut Connection,
    entries: &[JournalRow],
) -> rusqlite::Result<Imported> {
    let mut imported = Imported::default();
    for chunk in entries.chunks(CHUNK) {
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        for entry in chunk {
            if import_one(&transaction, entry)? {
                imported.added += 1;
            } else {
                imported.known += 1;
            }
        }
        count_transaction(&transaction)?;
        transaction.commit()?;
    }
    Ok(imported)
}

fn import_one(
    transaction: &rusqlite::Transaction<'_>,
    entry: &JournalRow,
) -> rusqlite::Result<bool> {
    let exists = |sql: &str, values: &[&dyn rusqlite::ToSql]| {
        transaction.prepare_cached(sql)?.exists(values)
    };
    let is_known = match entry {
        // Their ids are unique: the insertion ignores existing rows.
        JournalRow::Observations(_) | JournalRow::SshObservations(_) => false,
        JournalRow::RecentCommands(row) => exists(
            "SELECT 1 FROM recent_commands INDEXED BY idx_session_hash
             WHERE session_id = ?1 AND command_hash = ?2 AND timestamp = ?3",
            &[&row.session_id, &row.command_hash, &row.timestamp],
        )?,
        JournalRow::Streaks(row) => exists(
            "SELECT 1 FROM streaks WHERE command_hash = ?1
             AND coalesce(last_updated, 0) >= coalesce(?2, 0)",
            &[&row.command_hash, &row.last_updated],
        )?,
        JournalRow::ManoptCache(row) => exists(
            "SELECT 1 FROM manopt_cache WHERE base_command = ?1 AND created_at >= ?2",
            &[&row.base_command, &row.created_at],
        )?,
        JournalRow::Circuits(row) => {
            exists("SELECT 1 FROM circuits WHERE command_hash = ?1", &[&row.command_hash])?
        }
    };
    if is_known {
        return Ok(false);
    }
    match entry {
        JournalRow::Observations(row) => row.insert(transaction),
        JournalRow::RecentCommands(row) => row.insert(transaction),
        JournalRow::Streaks(row) => row.insert(transaction),
        JournalRow::SshObservations(row) => row.insert(transaction),
        JournalRow::ManoptCache(row) => row.insert(transaction),
        JournalRow::Circuits(row) => circuits::put(transaction, row).map(|()| true),
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use proptest::prelude::*;

    use super::super::plots::plots;
    use super::super::queue::QueueCopy;
    use super::super::read::ReadView;
    use super::*;
    use crate::alan::pattern::{CommandPattern, RemoteCommand, Ssh};
    use crate::alan::rows::{RecentCommand, Streak};
    use crate::alan::schema::{self, tests::derivation};
    use crate::arbitrary;
    use crate::neverhang::Rules;

    const EXPORT: &str = include_str!("../../../tests/fixtures/alan/export.ndjson");

    fn database() -> Connection {
        let mut database = Connection::open_in_memory().expect("memory");
        schema::migrate(&mut database, &derivation(1)).expect("schema");
        database
    }

    fn exported(database: &Connection) -> Vec<JournalRow> {
        let mut entries = Vec::new();
        export(database, &mut |entry| {
            entries.push(entry);
            Ok(())
        })
        .expect("an export");
        entries
    }

    /// Runs the queries of a run of this command: before, during and after it.
    fn query(database: &Connection, hash: &str, template: &str, host: &str, now: f64) {
        let view = ReadView::new(Some(database), "me", QueueCopy::default()).expect("a view");
        let remote = RemoteCommand { preview: template.to_owned(), template: template.to_owned() };
        let pattern = CommandPattern {
            hash: hash.to_owned(),
            template: template.to_owned(),
            ssh: Some(Ssh { host: host.to_owned(), remote: Some(remote) }),
            ..CommandPattern::default()
        };
        let cached = view.cached(&pattern, "s", now).expect("a command");
        let history = cached.history(now);
        let rates = history.rates();
        for rate in [rates.success, rates.timeout] {
            assert!((0.0..=1.0).contains(&rate), "{rate} of {history:?}");
        }
        if let Some(estimate) = &history.estimate {
            for elapsed in [0.0, 1.0, 1e9] {
                assert!(estimate.next_poll(elapsed, 50.0).is_finite());
                let _ = (estimate.remaining(elapsed), estimate.completion_probability(elapsed));
            }
        }
        cached.usual_success();
        view.kills(template, "s").expect("kills");
        view.options(template).expect("options");
        let mut circuit = circuits::circuit(database, hash).expect("a circuit");
        let rules = Rules::default();
        assert!(circuit.retry_in(now, &rules).is_finite());
        circuit.check(now, Some(1.0), "me", &rules);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]

        #[test]
        fn any_export_is_refused_or_can_be_queried(
            lines in prop::collection::vec(arbitrary::damaged(EXPORT), 0..12),
            now in prop::sample::select(vec![0, 1_000_000_000, 4_000_000_000]),
        ) {
            let lines = lines.iter().map(ToString::to_string);
            let entries: Vec<JournalRow> =
                lines.filter_map(|line| serde_json::from_str(&line).ok()).collect();
            let mut first = database();
            if import(&mut first, &entries).is_err() {
                return Ok(());
            }
            let now = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(now);
            let seconds = unix_seconds(now);
            for entry in &entries {
                match entry {
                    JournalRow::Observations(row) => {
                        let template = row.command_template.as_deref().unwrap_or_default();
                        query(&first, &row.command_hash, template, "far.example", seconds);
                    }
                    JournalRow::SshObservations(row) => {
                        let template = row.remote_command_template.as_deref();
                        let template = template.unwrap_or_default();
                        query(&first, "", template, &row.host, seconds);
                    }
                    JournalRow::RecentCommands(RecentCommand { command_hash, .. })
                    | JournalRow::Streaks(Streak { command_hash, .. }) => {
                        query(&first, command_hash, "", "", seconds);
                    }
                    JournalRow::Circuits(row) => query(&first, &row.command_hash, "", "", seconds),
                    JournalRow::ManoptCache(row) => query(&first, "", &row.base_command, "", seconds),
                }
            }
            prop_assert!(plots(&first, 10, 10).is_ok());
            prop_assert!(counts(&first).is_ok());
            let held = exported(&first);
            let mut second = database();
            import(&mut second, &held).expect("an export of its own");
            prop_assert_eq!(&exported(&second), &held);
            prop_assert_eq!(import(&mut second, &held).expect("again").added, 0);
            prune(&mut first, now, Some(1)).expect("pruned");
            since_pruned(&first, seconds).expect("a time");
        }
    }
}
