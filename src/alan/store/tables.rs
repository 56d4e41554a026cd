//! Reads and inserts rows.

use rusqlite::{
    Connection, OptionalExtension, Row, ToSql, Transaction, TransactionBehavior, params,
};

use super::queue::{Job, Queued};
use crate::alan::rows::{
    CachedOptions, LastFailures, Observation, RecentCommand, SshObservation, Streak,
};
use crate::alan::run::RunRows;
use crate::alan::schema::count_transaction;

/// A row type whose fields are the columns of one table.
pub(super) trait TableRow: Sized {
    const NAME: &'static str;

    /// Reads a row of `SELECT *`. NULL becomes the field's default: the original zsh-tool omitted
    /// flags and counters.
    fn read(row: &Row<'_>) -> rusqlite::Result<Self>;

    /// Inserts the row; returns whether the table changed.
    fn insert(&self, connection: &Connection) -> rusqlite::Result<bool>;
}

/// Implements [`TableRow`], given the type, the insert statement, the table and its columns.
macro_rules! table {
    ($row:ident: $insert:literal $table:literal $($column:ident)*) => {
        impl TableRow for $row {
            const NAME: &'static str = $table;

            fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
                Ok($row {
                    $($column: row.get::<_, Option<_>>(stringify!($column))?.unwrap_or_default(),)*
                })
            }

            fn insert(&self, connection: &Connection) -> rusqlite::Result<bool> {
                let columns = [$(stringify!($column)),*];
                let values = [$(&self.$column as &dyn ToSql),*];
                let places = vec!["?"; columns.len()].join(", ");
                let sql = format!(
                    "{} INTO {} ({}) VALUES ({places})", $insert, $table, columns.join(", "),
                );
                Ok(connection.prepare_cached(&sql)?.execute(&values[..])? > 0)
            }
        }
    };
}

table!(Observation: "INSERT OR IGNORE" "observations"
    id command_hash command_template subcommand_template command_preview exit_code duration_ms
    timed_out output_snippet error_snippet weight created_at last_accessed outcome_type
    kill_elapsed_ms cwd git_head failure_fingerprint cpu_ms peak_bytes);
table!(RecentCommand: "INSERT" "recent_commands"
    session_id command_hash command_template command_preview timestamp duration_ms exit_code
    timed_out success outcome_type);
table!(Streak: "INSERT OR REPLACE" "streaks"
    command_hash current_streak longest_success_streak longest_fail_streak last_result
    last_updated);
table!(SshObservation: "INSERT OR IGNORE" "ssh_observations"
    id observation_id host remote_command remote_command_template exit_code exit_type
    duration_ms timed_out weight created_at);
table!(CachedOptions: "INSERT OR REPLACE" "manopt_cache"
    base_command options_text created_at);
table!(LastFailures: "INSERT OR REPLACE" "last_failures"
    command_hash cwd names created_at);

/// Writes a batch of this server's queue in one transaction, together with the number of its last
/// entry.
///
/// # Errors
/// If SQLite fails; no part of the batch is then written.
pub(super) fn write_batch(
    connection: &mut Connection,
    instance: &str,
    batch: &[Queued],
    now: f64,
) -> rusqlite::Result<()> {
    let Some(last) = batch.last() else {
        return Ok(());
    };
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    for queued in batch {
        match queued.job.as_ref() {
            Job::Run(rows) => insert_run(&transaction, rows)?,
            Job::Options(options) => _ = options.insert(&transaction)?,
            Job::Failures(failures) => _ = failures.insert(&transaction)?,
        }
    }
    transaction
        .prepare_cached(
            "INSERT INTO written (instance, sequence, at, transactions) VALUES (?1, ?2, ?3, 1)
             ON CONFLICT (instance) DO UPDATE SET
                 sequence = excluded.sequence, at = excluded.at, transactions = transactions + 1",
        )?
        .execute(params![instance, last.sequence as i64, now])?;
    count_transaction(&transaction)?;
    transaction.commit()
}

fn insert_run(transaction: &Transaction<'_>, rows: &RunRows) -> rusqlite::Result<()> {
    for observation in &rows.observations {
        observation.insert(transaction)?;
    }
    rows.recent.insert(transaction)?;
    let mut streak = streak(transaction, &rows.recent.command_hash)?;
    streak.add(rows.outcome(), rows.recent.timestamp);
    streak.insert(transaction)?;
    if let Some(ssh) = &rows.ssh {
        ssh.insert(transaction)?;
    }
    Ok(())
}

/// How far a server has written its queue, and how often others have changed the history.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Written {
    /// The number of its last entry that is written; 0 if none is.
    pub(super) sequence: u64,
    /// Changes with every transaction that changes the history, except those that write the
    /// server's own queue; `None` if the database does not count them.
    pub(super) by_others: Option<i64>,
}

/// Reads how far a server has written.
pub(super) fn written(connection: &Connection, instance: &str) -> rusqlite::Result<Written> {
    let sql = "SELECT instance = '', sequence, transactions FROM written
               WHERE instance IN ('', ?1)";
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query([instance])?;
    let (mut sequence, mut own, mut of_all) = (0, 0, None);
    while let Some(row) = rows.next()? {
        let transactions: i64 = row.get(2)?;
        if row.get(0)? {
            of_all = Some(transactions);
        } else {
            (sequence, own) = (row.get(1)?, transactions);
        }
    }
    let by_others = of_all.map(|of_all| of_all.wrapping_sub(own));
    Ok(Written { sequence: u64::try_from(sequence).unwrap_or_default(), by_others })
}

/// The streak of a command; an empty one if there is none.
pub(super) fn streak(connection: &Connection, hash: &str) -> rusqlite::Result<Streak> {
    let found = connection
        .prepare_cached("SELECT * FROM streaks WHERE command_hash = ?1")?
        .query_row([hash], Streak::read)
        .optional()?;
    Ok(found.unwrap_or_else(|| Streak { command_hash: hash.to_owned(), ..Streak::default() }))
}
