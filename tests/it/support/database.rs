//! The database of the command history, as tests read it.

use std::path::Path;

use rusqlite::{Connection, OpenFlags, ToSql};

use super::client::PATIENCE;
use super::env::Env;
use super::processes::{UniqueSleep, wait_until};
use super::trees::is_over;

/// The exit codes of a shell that SIGTERM or SIGKILL ended.
const ENDED_BY_SIGNAL: [i64; 2] = [128 + 15, 128 + 9];

/// A connection that does not create the database.
#[track_caller]
pub fn open_database(path: &Path) -> Connection {
    try_open_database(path).expect("the database opens")
}

/// Like [`open_database`], for a database that may not exist yet.
pub fn try_open_database(path: &Path) -> rusqlite::Result<Connection> {
    let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    connection.busy_timeout(PATIENCE)?;
    Ok(connection)
}

/// Waits until this many observations are on disk. A server answers before its observations are on
/// disk, where other servers see them.
pub fn wait_for_observations(env: &Env, count: i64) {
    wait_for_row(env, "SELECT count(*) = ?1 FROM observations", count);
}

/// Waits until a query with one parameter finds a true value in the database, which need not exist
/// yet.
pub fn wait_for_row(env: &Env, sql: &str, parameter: impl ToSql) {
    let path = env.path("state/alan.db");
    wait_until(sql, || {
        let database = Connection::open_with_flags(&path, OpenFlags::SQLITE_OPEN_READ_WRITE);
        let found = database.ok()?.query_row(sql, [&parameter], |row| row.get::<_, bool>(0));
        (found == Ok(true)).then_some(())
    });
}

/// Asserts of a server that has ended that it recorded each tree of [`super::trees::plant`] once:
/// running trees as interrupted, outside streaks and circuits, and finished ones as successes.
#[track_caller]
pub fn assert_outcomes_recorded(env: &Env, sleeps: &[UniqueSleep], end: &str) {
    let connection = open_database(&env.path("state/alan.db"));
    let recorded = |sleep: &UniqueSleep, sql: &str| {
        let mut statement = connection.prepare(sql).expect(sql);
        let rows = statement.query_map([format!("%{sleep}%")], |row| {
            Ok((
                row.get::<_, String>(0)?,
                row.get::<_, String>(1)?,
                row.get::<_, i64>(2)?,
                row.get::<_, bool>(3)?,
                row.get::<_, Option<i64>>(4)?.unwrap_or_default(),
            ))
        });
        let rows: Vec<_> = rows.expect(sql).map(|row| row.expect(sql)).collect();
        assert_eq!(rows.len(), 1, "{end}: {sleep}: {rows:?}");
        rows.into_iter().next().expect("one row")
    };
    for sleep in sleeps {
        for table in ["recent_commands", "observations"] {
            // The segments of a pipeline are observations without a duration.
            let (command, outcome, code, timed_out, streak) = recorded(
                sleep,
                &format!(
                    "SELECT command_preview, outcome_type, exit_code, timed_out, current_streak \
                     FROM {table} LEFT JOIN streaks USING (command_hash) \
                     WHERE command_preview LIKE ?1 AND duration_ms > 0"
                ),
            );
            let found = format!("{end}: {table}: {command}: {outcome}, {code}, streak {streak}");
            if is_over(&command) {
                assert_eq!((&*outcome, code, streak), ("SUCCESS", 0, 1), "{found}");
            } else {
                assert_eq!((&*outcome, streak), ("INTERRUPTED", 0), "{found}");
                assert!(ENDED_BY_SIGNAL.contains(&code), "{found}");
            }
            assert!(!timed_out, "{found}");
        }
    }
    let timeouts = "SELECT count(*) FROM circuit_timeouts";
    let timeouts: i64 = connection.query_row(timeouts, [], |row| row.get(0)).expect(timeouts);
    assert_eq!(timeouts, 0, "{end}");
}
