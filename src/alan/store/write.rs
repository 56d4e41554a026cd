//! Rows into the database.

use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior, params};

use super::queue::{Job, Queued};
use crate::alan::rows::{CachedOptions, Observation, RecentCommand, SshObservation, Streak};
use crate::alan::run::RunRows;

/// Writes a batch of this server's queue in one transaction, and how far that comes.
///
/// # Errors
/// As SQLite; nothing of the batch is written then.
pub fn batch(
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
            Job::Run(rows) => run(&transaction, rows)?,
            Job::Options(options) => cached_options(&transaction, options)?,
        }
    }
    transaction
        .prepare_cached(
            "INSERT OR REPLACE INTO written (instance, sequence, at) VALUES (?1, ?2, ?3)",
        )?
        .execute(params![instance, last.sequence as i64, now])?;
    transaction.commit()
}

fn run(transaction: &Transaction<'_>, rows: &RunRows) -> rusqlite::Result<()> {
    for observation in &rows.observations {
        self::observation(transaction, observation)?;
    }
    recent(transaction, &rows.recent)?;
    let hash = &rows.recent.command_hash;
    let mut streak = self::streak(transaction, hash)?;
    streak.add(rows.outcome(), rows.recent.timestamp);
    put_streak(transaction, &streak)?;
    if let Some(observation) = &rows.ssh {
        ssh(transaction, observation)?;
    }
    Ok(())
}

/// Adds an observation; whether it was not there before.
///
/// # Errors
/// As SQLite.
pub fn observation(connection: &Connection, row: &Observation) -> rusqlite::Result<bool> {
    let added = connection
        .prepare_cached(
            "INSERT OR IGNORE INTO observations
                 (id, command_hash, command_template, command_preview, exit_code, duration_ms,
                  timed_out, output_snippet, error_snippet, weight, created_at, last_accessed,
                  outcome_type, kill_elapsed_ms, cwd, git_head, failure_fingerprint)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17)",
        )?
        .execute(params![
            row.id,
            row.command_hash,
            row.command_template,
            row.command_preview,
            row.exit_code,
            row.duration_ms,
            row.timed_out,
            row.output_snippet,
            row.error_snippet,
            row.weight,
            row.created_at,
            row.last_accessed,
            row.outcome_type,
            row.kill_elapsed_ms,
            row.cwd,
            row.git_head,
            row.failure_fingerprint,
        ])?;
    Ok(added > 0)
}

/// Adds a run to its session's.
///
/// # Errors
/// As SQLite.
pub fn recent(connection: &Connection, row: &RecentCommand) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "INSERT INTO recent_commands
                 (session_id, command_hash, command_template, command_preview, timestamp,
                  duration_ms, exit_code, timed_out, success, outcome_type)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
        )?
        .execute(params![
            row.session_id,
            row.command_hash,
            row.command_template,
            row.command_preview,
            row.timestamp,
            row.duration_ms,
            row.exit_code,
            row.timed_out,
            row.success,
            row.outcome_type,
        ])?;
    Ok(())
}

/// The streak of a command; a new one where there is none.
///
/// # Errors
/// As SQLite.
pub fn streak(connection: &Connection, hash: &str) -> rusqlite::Result<Streak> {
    let found = connection
        .prepare_cached(
            "SELECT current_streak, longest_success_streak, longest_fail_streak, last_result,
                 last_updated FROM streaks WHERE command_hash = ?1",
        )?
        .query_row([hash], |row| {
            Ok(Streak {
                command_hash: hash.to_owned(),
                current_streak: row.get::<_, Option<i64>>(0)?.unwrap_or_default(),
                longest_success_streak: row.get::<_, Option<i64>>(1)?.unwrap_or_default(),
                longest_fail_streak: row.get::<_, Option<i64>>(2)?.unwrap_or_default(),
                last_result: row.get(3)?,
                last_updated: row.get(4)?,
            })
        })
        .optional()?;
    Ok(found.unwrap_or_else(|| Streak {
        command_hash: hash.to_owned(),
        ..Streak::default()
    }))
}

/// Puts a streak in place of the one that is there.
///
/// # Errors
/// As SQLite.
pub fn put_streak(connection: &Connection, streak: &Streak) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "INSERT OR REPLACE INTO streaks
                 (command_hash, current_streak, longest_success_streak, longest_fail_streak,
                  last_result, last_updated)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        )?
        .execute(params![
            streak.command_hash,
            streak.current_streak,
            streak.longest_success_streak,
            streak.longest_fail_streak,
            streak.last_result,
            streak.last_updated,
        ])?;
    Ok(())
}

/// Adds what a run says of a host; whether it was not there before.
///
/// # Errors
/// As SQLite.
pub fn ssh(connection: &Connection, row: &SshObservation) -> rusqlite::Result<bool> {
    let added = connection
        .prepare_cached(
            "INSERT OR IGNORE INTO ssh_observations
                 (id, observation_id, host, remote_command, remote_command_template, exit_code,
                  exit_type, duration_ms, timed_out, weight, created_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
        )?
        .execute(params![
            row.id,
            row.observation_id,
            row.host,
            row.remote_command,
            row.remote_command_template,
            row.exit_code,
            row.exit_type,
            row.duration_ms,
            row.timed_out,
            row.weight,
            row.created_at,
        ])?;
    Ok(added > 0)
}

/// Puts a table of options in place of the one that is there.
///
/// # Errors
/// As SQLite.
pub fn cached_options(connection: &Connection, row: &CachedOptions) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "INSERT OR REPLACE INTO manopt_cache (base_command, options_text, created_at)
             VALUES (?1, ?2, ?3)",
        )?
        .execute(params![row.base_command, row.options_text, row.created_at])?;
    Ok(())
}
