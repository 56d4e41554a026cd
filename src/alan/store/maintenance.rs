//! Counting, pruning, forgetting, exporting and importing: for people and for every
//! six hours, never within a call. Long work is cut into short transactions.

use rusqlite::{Connection, Row, TransactionBehavior, params};

use super::{circuits, write};
use crate::alan::history::HALF_LIFE_HOURS;
use crate::alan::rows::{
    CachedOptions, Entry, Observation, RecentCommand, SshObservation, Streak, seconds_of, timestamp,
};

/// Rows lighter than this go …
const LIGHTEST: f64 = 0.01;
/// … but not the newest so many of a kind or of a host.
const KEPT_OF_A_KIND: usize = 20;
/// Beyond so many rows the lightest go, whatever they are.
const MOST_ROWS: usize = 100_000;
/// A session's runs are kept for so many seconds.
const RECENT_SECONDS: f64 = 24.0 * 3600.0;
/// Rows in one transaction.
const CHUNK: usize = 500;

/// What the database holds.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Counts {
    /// Runs and segments of runs.
    pub observations: u64,
    /// Different commands with a streak.
    pub commands: u64,
    /// Kinds of commands.
    pub templates: u64,
    /// Runs that say something of a host.
    pub ssh_observations: u64,
    /// Manual pages.
    pub cached_options: u64,
    /// Circuits that are not blank.
    pub circuits: u64,
    /// The kinds that ran most often, with runs, successes and kills.
    pub most_frequent: Vec<(String, u64, u64, u64)>,
}

/// What was removed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Removed {
    /// Runs and segments of runs.
    pub observations: usize,
    /// All other rows.
    pub others: usize,
}

/// What an import did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Imported {
    /// Rows that were not there before.
    pub added: usize,
    /// Rows that were, or that something newer is in place of.
    pub known: usize,
}

/// What to forget.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Forget<'a> {
    /// One command, by its hash.
    Command(&'a str),
    /// All of a kind.
    Template(&'a str),
}

/// Counts what is there.
///
/// # Errors
/// As SQLite.
pub fn counts(connection: &Connection) -> rusqlite::Result<Counts> {
    let count = |table: &str| {
        let sql = format!("SELECT count(*) FROM {table}");
        connection.query_row(&sql, [], |row| row.get::<_, i64>(0).map(i64::unsigned_abs))
    };
    let mut most = connection.prepare(
        "SELECT command_template, runs, successes, kills FROM template_totals
         ORDER BY runs DESC, command_template LIMIT 10",
    )?;
    let number = |row: &Row<'_>, place| row.get::<_, i64>(place).map(i64::unsigned_abs);
    let most = most.query_map([], |row| {
        Ok((
            row.get(0)?,
            number(row, 1)?,
            number(row, 2)?,
            number(row, 3)?,
        ))
    })?;
    Ok(Counts {
        observations: count("observations")?,
        commands: count("streaks")?,
        templates: count("template_totals")?,
        ssh_observations: count("ssh_observations")?,
        cached_options: count("manopt_cache")?,
        circuits: count("circuits")?,
        most_frequent: most.collect::<rusqlite::Result<_>>()?,
    })
}

/// Removes what weighs next to nothing, but of each kind keeps the newest runs, so that
/// the durations of rare long jobs survive; and what is beyond 100,000 rows.
///
/// # Errors
/// As SQLite; what was removed by then stays removed.
pub fn prune(
    connection: &mut Connection,
    now: std::time::SystemTime,
    most_rows: Option<usize>,
) -> rusqlite::Result<Removed> {
    let hours = HALF_LIFE_HOURS * LIGHTEST.recip().log2();
    let age = std::time::Duration::from_secs_f64(hours * 3600.0);
    let light = timestamp(
        now.checked_sub(age)
            .unwrap_or(std::time::SystemTime::UNIX_EPOCH),
    );
    let seconds = crate::alan::rows::unix_seconds(now);
    let victims = light_rows(
        connection,
        "observations",
        "coalesce(command_template, command_hash)",
        &light,
    )?;
    let mut observations = delete(connection, "observations", &victims)?;
    let surplus = surplus_rows(connection, most_rows.unwrap_or(MOST_ROWS))?;
    observations += delete(connection, "observations", &surplus)?;
    let victims = light_rows(connection, "ssh_observations", "host", &light)?;
    let mut others = delete(connection, "ssh_observations", &victims)?;
    others += connection.execute(
        "DELETE FROM recent_commands WHERE timestamp < ?1",
        [seconds - RECENT_SECONDS],
    )?;
    others += connection.execute(
        "DELETE FROM written WHERE at < ?1",
        [seconds - 7.0 * RECENT_SECONDS],
    )?;
    connection.execute(
        "INSERT OR REPLACE INTO meta (key, value) VALUES ('last_pruned', ?1)",
        [timestamp(now)],
    )?;
    Ok(Removed {
        observations,
        others,
    })
}

/// Seconds since the last pruning by any server; infinite where there was none.
///
/// # Errors
/// As SQLite.
pub fn since_pruned(connection: &Connection, now: f64) -> rusqlite::Result<f64> {
    let mut last = connection.prepare("SELECT value FROM meta WHERE key = 'last_pruned'")?;
    let last = last.query_map([], |row| row.get::<_, Option<String>>(0))?;
    let mut since = f64::INFINITY;
    for value in last {
        since = value?
            .and_then(|value| seconds_of(&value))
            // A clock that was set back since then does not stop pruning.
            .filter(|at| *at <= now)
            .map_or(f64::INFINITY, |at| now - at);
    }
    Ok(since)
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

fn surplus_rows(connection: &Connection, most: usize) -> rusqlite::Result<Vec<i64>> {
    // The oldest are the lightest.
    let mut found = connection.prepare(
        "SELECT rowid FROM observations ORDER BY created_at DESC, rowid DESC LIMIT -1 OFFSET ?1",
    )?;
    let rows = found.query_map([most as i64], |row| row.get(0))?;
    rows.collect()
}

fn delete(connection: &mut Connection, table: &str, rows: &[i64]) -> rusqlite::Result<usize> {
    let mut deleted = 0;
    for chunk in rows.chunks(CHUNK) {
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        {
            let sql = format!("DELETE FROM {table} WHERE rowid = ?1");
            let mut statement = transaction.prepare_cached(&sql)?;
            for row in chunk {
                deleted += statement.execute([row])?;
            }
        }
        transaction.commit()?;
    }
    Ok(deleted)
}

/// Forgets a command or a kind of command, in one transaction.
///
/// # Errors
/// As SQLite; nothing is forgotten then.
pub fn forget(connection: &mut Connection, what: Forget<'_>) -> rusqlite::Result<Removed> {
    let (column, value) = match what {
        Forget::Command(hash) => ("command_hash", hash),
        Forget::Template(template) => ("command_template", template),
    };
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let hashes = format!(
        "(SELECT command_hash FROM observations WHERE {column} = ?1
          UNION SELECT command_hash FROM recent_commands WHERE {column} = ?1 UNION SELECT ?1)"
    );
    let mut others = transaction.execute(
        &format!(
            "DELETE FROM ssh_observations WHERE observation_id IN
             (SELECT id FROM observations WHERE {column} = ?1)"
        ),
        [value],
    )?;
    for table in ["streaks", "circuits"] {
        let sql = format!("DELETE FROM {table} WHERE command_hash IN {hashes}");
        others += transaction.execute(&sql, [value])?;
    }
    let sql = format!("DELETE FROM recent_commands WHERE {column} = ?1");
    others += transaction.execute(&sql, [value])?;
    let sql = format!("DELETE FROM observations WHERE {column} = ?1");
    let observations = transaction.execute(&sql, [value])?;
    transaction.commit()?;
    Ok(Removed {
        observations,
        others,
    })
}

/// Gives every row of every table to a function, as of one moment.
///
/// # Errors
/// As SQLite or as the function.
pub fn export<E: From<rusqlite::Error>>(
    connection: &Connection,
    each: &mut dyn FnMut(Entry) -> Result<(), E>,
) -> Result<(), E> {
    let transaction = connection.unchecked_transaction()?;
    every(
        &transaction,
        "SELECT * FROM observations ORDER BY created_at, rowid",
        &mut |row| each(Entry::Observations(observation(row)?)),
    )?;
    every(
        &transaction,
        "SELECT * FROM recent_commands ORDER BY id",
        &mut |row| each(Entry::RecentCommands(recent(row)?)),
    )?;
    every(
        &transaction,
        "SELECT * FROM streaks ORDER BY command_hash",
        &mut |row| each(Entry::Streaks(streak(row)?)),
    )?;
    every(
        &transaction,
        "SELECT * FROM ssh_observations ORDER BY created_at, rowid",
        &mut |row| each(Entry::SshObservations(ssh(row)?)),
    )?;
    every(
        &transaction,
        "SELECT * FROM manopt_cache ORDER BY base_command",
        &mut |row| {
            each(Entry::ManoptCache(CachedOptions {
                base_command: row.get("base_command")?,
                options_text: row.get("options_text")?,
                created_at: row.get("created_at")?,
            }))
        },
    )?;
    for found in circuits::all(&transaction)? {
        let row = circuits::row(&found.hash, &found.preview, &found.circuit);
        each(Entry::Circuits(row))?;
    }
    Ok(())
}

fn every<E: From<rusqlite::Error>>(
    connection: &Connection,
    sql: &str,
    each: &mut dyn FnMut(&Row<'_>) -> Result<(), E>,
) -> Result<(), E> {
    let mut statement = connection.prepare(sql)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        each(row)?;
    }
    Ok(())
}

fn flag(row: &Row<'_>, column: &str) -> rusqlite::Result<bool> {
    Ok(row.get::<_, Option<bool>>(column)?.unwrap_or_default())
}

fn observation(row: &Row<'_>) -> rusqlite::Result<Observation> {
    Ok(Observation {
        id: row.get("id")?,
        command_hash: row.get("command_hash")?,
        command_template: row.get("command_template")?,
        command_preview: row.get("command_preview")?,
        exit_code: row.get("exit_code")?,
        duration_ms: row.get("duration_ms")?,
        timed_out: flag(row, "timed_out")?,
        output_snippet: row.get("output_snippet")?,
        error_snippet: row.get("error_snippet")?,
        weight: row.get("weight")?,
        created_at: row.get("created_at")?,
        last_accessed: row.get("last_accessed")?,
        outcome_type: row.get("outcome_type")?,
        kill_elapsed_ms: row.get("kill_elapsed_ms")?,
        cwd: row.get("cwd")?,
        git_head: row.get("git_head")?,
        failure_fingerprint: row.get("failure_fingerprint")?,
    })
}

fn recent(row: &Row<'_>) -> rusqlite::Result<RecentCommand> {
    Ok(RecentCommand {
        session_id: row.get("session_id")?,
        command_hash: row.get("command_hash")?,
        command_template: row.get("command_template")?,
        command_preview: row.get("command_preview")?,
        timestamp: row.get("timestamp")?,
        duration_ms: row.get("duration_ms")?,
        exit_code: row.get("exit_code")?,
        timed_out: flag(row, "timed_out")?,
        success: flag(row, "success")?,
        outcome_type: row.get("outcome_type")?,
    })
}

fn streak(row: &Row<'_>) -> rusqlite::Result<Streak> {
    let number = |column| -> rusqlite::Result<i64> {
        let number: Option<i64> = row.get(column)?;
        Ok(number.unwrap_or_default())
    };
    Ok(Streak {
        command_hash: row.get("command_hash")?,
        current_streak: number("current_streak")?,
        longest_success_streak: number("longest_success_streak")?,
        longest_fail_streak: number("longest_fail_streak")?,
        last_result: row.get("last_result")?,
        last_updated: row.get("last_updated")?,
    })
}

fn ssh(row: &Row<'_>) -> rusqlite::Result<SshObservation> {
    Ok(SshObservation {
        id: row.get("id")?,
        observation_id: row.get("observation_id")?,
        host: row.get("host")?,
        remote_command: row.get("remote_command")?,
        remote_command_template: row.get("remote_command_template")?,
        exit_code: row.get("exit_code")?,
        exit_type: row.get("exit_type")?,
        duration_ms: row.get("duration_ms")?,
        timed_out: flag(row, "timed_out")?,
        weight: row.get("weight")?,
        created_at: row.get("created_at")?,
    })
}

/// Adds rows of an export; what is there already, or newer, stays.
///
/// # Errors
/// As SQLite; earlier chunks stay added, and adding them again changes nothing.
pub fn import(connection: &mut Connection, entries: &[Entry]) -> rusqlite::Result<Imported> {
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
        transaction.commit()?;
    }
    Ok(imported)
}

fn import_one(transaction: &rusqlite::Transaction<'_>, entry: &Entry) -> rusqlite::Result<bool> {
    let exists = |sql: &str, values: &[&dyn rusqlite::ToSql]| {
        transaction.prepare_cached(sql)?.exists(values)
    };
    match entry {
        Entry::Observations(row) => write::observation(transaction, row),
        Entry::SshObservations(row) => write::ssh(transaction, row),
        Entry::RecentCommands(row) => {
            let known = exists(
                "SELECT 1 FROM recent_commands INDEXED BY idx_session_hash
                 WHERE session_id = ?1 AND command_hash = ?2 AND timestamp = ?3",
                &[&row.session_id, &row.command_hash, &row.timestamp],
            )?;
            if !known {
                write::recent(transaction, row)?;
            }
            Ok(!known)
        }
        Entry::Streaks(row) => {
            let known = exists(
                "SELECT 1 FROM streaks WHERE command_hash = ?1
                 AND coalesce(last_updated, 0) >= coalesce(?2, 0)",
                &[&row.command_hash, &row.last_updated],
            )?;
            if !known {
                write::put_streak(transaction, row)?;
            }
            Ok(!known)
        }
        Entry::ManoptCache(row) => {
            let known = exists(
                "SELECT 1 FROM manopt_cache WHERE base_command = ?1 AND created_at >= ?2",
                &[&row.base_command, &row.created_at],
            )?;
            if !known {
                write::cached_options(transaction, row)?;
            }
            Ok(!known)
        }
        Entry::Circuits(row) => {
            let known = exists(
                "SELECT 1 FROM circuits WHERE command_hash = ?1",
                &[&row.command_hash],
            )?;
            if !known {
                circuits::put(transaction, row)?;
            }
            Ok(!known)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use proptest::prelude::*;

    use super::super::look::Look;
    use super::super::plots::plots;
    use super::*;
    use crate::alan::pattern::{Pattern, RemoteCommand, Ssh};
    use crate::alan::rows::unix_seconds;
    use crate::alan::schema::{self, tests::derivation};
    use crate::arbitrary;
    use crate::neverhang::Rules;

    const EXPORT: &str = include_str!("../../../tests/fixtures/alan/export.ndjson");

    fn database() -> Connection {
        let mut database = Connection::open_in_memory().expect("memory");
        schema::migrate(&mut database, &derivation(1)).expect("schema");
        database
    }

    fn exported(database: &Connection) -> Vec<Entry> {
        let mut entries = Vec::new();
        export::<rusqlite::Error>(database, &mut |entry| {
            entries.push(entry);
            Ok(())
        })
        .expect("an export");
        entries
    }

    /// What is asked of the database before, during and after a run of this command.
    fn look(database: &Connection, hash: &str, template: &str, host: &str, now: f64) {
        let look = Look::new(Some(database), "me", Vec::new()).expect("a look");
        let remote = RemoteCommand {
            preview: template.to_owned(),
            template: template.to_owned(),
        };
        let pattern = Pattern {
            hash: hash.to_owned(),
            template: template.to_owned(),
            ssh: Some(Ssh {
                host: host.to_owned(),
                remote: Some(remote),
            }),
            ..Pattern::default()
        };
        let history = look.history(&pattern, "s", now).expect("a history");
        let rates = history.rates();
        for rate in [rates.success, rates.timeout] {
            assert!((0.0..=1.0).contains(&rate), "{rate} of {history:?}");
        }
        if let Some(estimate) = &history.estimate {
            for elapsed in [0.0, 1.0, 1e9] {
                assert!(estimate.next_poll(elapsed).is_finite());
                let _ = (
                    estimate.remaining(elapsed),
                    estimate.completion_probability(elapsed),
                );
            }
        }
        look.usual_success(hash).expect("a time");
        look.kills(template, "s").expect("kills");
        look.options(template).expect("options");
        let mut circuit = circuits::circuit(database, hash).expect("a circuit");
        let rules = Rules::default();
        assert!(circuit.retry_in(now, &rules).is_finite());
        circuit.check(now, Some(1.0), "me", &rules);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]

        #[test]
        fn whatever_an_export_holds_is_refused_or_can_be_looked_at(
            lines in prop::collection::vec(arbitrary::damaged(EXPORT), 0..12),
            now in prop::sample::select(vec![0, 1_000_000_000, 4_000_000_000]),
        ) {
            let lines = lines.iter().map(ToString::to_string);
            let entries: Vec<Entry> =
                lines.filter_map(|line| serde_json::from_str(&line).ok()).collect();
            let mut first = database();
            if import(&mut first, &entries).is_err() {
                return Ok(());
            }
            let now = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(now);
            let seconds = unix_seconds(now);
            for entry in &entries {
                match entry {
                    Entry::Observations(row) => {
                        let template = row.command_template.as_deref().unwrap_or_default();
                        look(&first, &row.command_hash, template, "far.example", seconds);
                    }
                    Entry::SshObservations(row) => {
                        let template = row.remote_command_template.as_deref();
                        let template = template.unwrap_or_default();
                        look(&first, "", template, &row.host, seconds);
                    }
                    Entry::RecentCommands(RecentCommand { command_hash, .. })
                    | Entry::Streaks(Streak { command_hash, .. }) => {
                        look(&first, command_hash, "", "", seconds);
                    }
                    Entry::Circuits(row) => look(&first, &row.command_hash, "", "", seconds),
                    Entry::ManoptCache(row) => look(&first, "", &row.base_command, "", seconds),
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
