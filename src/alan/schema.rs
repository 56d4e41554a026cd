//! The database's tables, and how older ones become the present ones.
//!
//! Versions only go forward: `user_version` says where a file stands, each step is one
//! file of SQL, and all steps that are due are one transaction. A database without a
//! version may be one of the original zsh-tool, whose tables these are. Limits: a file
//! of a newer version is refused, not guessed at.

use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior, params};

use super::pattern::PREVIEW_BYTES;
use crate::text::redact::Redactor;

/// The present version.
pub const CURRENT: i64 = STEPS.len() as i64;

/// Each step's SQL; the columns of step 2 are added before it.
const STEPS: [&str; 2] = [
    include_str!("../../data/schema/1-tables.sql"),
    include_str!("../../data/schema/2-places-and-circuits.sql"),
];

/// Columns that a database of the original may lack or have.
const ADDED_COLUMNS: [(&str, &str, &str); 6] = [
    ("observations", "outcome_type", "TEXT"),
    ("observations", "kill_elapsed_ms", "INTEGER"),
    ("observations", "cwd", "TEXT"),
    ("observations", "git_head", "TEXT"),
    ("observations", "failure_fingerprint", "TEXT"),
    ("recent_commands", "outcome_type", "TEXT"),
];

/// Where `meta` keeps the version of the hashes and templates.
const DERIVATION_KEY: &str = "hash_version";

/// How hashes and templates are made, for rows that were made in another way.
#[derive(Debug, Clone)]
pub struct Derivation {
    /// Changes when one of the functions does.
    pub version: u32,
    /// The hash of a redacted command.
    pub hash: fn(&str) -> String,
    /// Its template.
    pub template: fn(&str) -> String,
    /// What takes secrets out of rows that were written without it.
    pub redactor: Redactor,
}

/// Why a database cannot be brought to the present version.
#[derive(Debug, thiserror::Error)]
pub enum SchemaError {
    /// Somebody newer made it.
    #[error(
        "it has version {found} and this zsh-tool knows up to {CURRENT}: update zsh-tool or set ALAN_DB_PATH"
    )]
    Newer {
        /// Its version.
        found: i64,
    },
    /// SQLite refused.
    #[error(transparent)]
    Sqlite(#[from] rusqlite::Error),
}

/// Brings a database to the present version; one that is there already is only looked at.
///
/// # Errors
/// When it is newer, or SQLite refuses; it is then as it was.
pub fn migrate(connection: &mut Connection, derivation: &Derivation) -> Result<(), SchemaError> {
    let version = version(connection)?;
    if version > CURRENT {
        return Err(SchemaError::Newer { found: version });
    }
    if version == CURRENT && derived_by(connection)? == Some(derivation.version) {
        return Ok(());
    }
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // Somebody else may have done it while this one waited.
    let version = self::version(&transaction)?;
    for (step, sql) in STEPS.iter().enumerate() {
        let step = step as i64 + 1;
        if step > version {
            if step == 2 {
                add_columns(&transaction)?;
            }
            transaction.execute_batch(sql)?;
            transaction.pragma_update(None, "user_version", step)?;
        }
    }
    let derived_by = derived_by(&transaction)?;
    if derived_by != Some(derivation.version) {
        derive(&transaction, derivation, derived_by.is_none())?;
    }
    if version < CURRENT || derived_by != Some(derivation.version) {
        count_templates(&transaction)?;
    }
    Ok(transaction.commit()?)
}

fn version(connection: &Connection) -> rusqlite::Result<i64> {
    connection.pragma_query_value(None, "user_version", |row| row.get(0))
}

fn derived_by(connection: &Connection) -> rusqlite::Result<Option<u32>> {
    let found: Option<Option<String>> = connection
        .query_row(
            "SELECT value FROM meta WHERE key = ?1",
            [DERIVATION_KEY],
            |row| row.get(0),
        )
        .optional()?;
    Ok(found.flatten().and_then(|value| value.parse().ok()))
}

fn add_columns(transaction: &Transaction<'_>) -> rusqlite::Result<()> {
    for (table, column, kind) in ADDED_COLUMNS {
        if !transaction.column_exists(None, table, column)? {
            transaction
                .execute_batch(&format!("ALTER TABLE {table} ADD COLUMN {column} {kind}"))?;
        }
    }
    // The original has these two under the same names.
    transaction.execute_batch(
        "DROP INDEX IF EXISTS idx_outcome_type; DROP INDEX IF EXISTS idx_recent_outcome;",
    )
}

/// Computes hashes and templates again from previews, where a preview is the whole
/// command; the others keep what they have. Rows of the original are redacted first.
fn derive(
    transaction: &Transaction<'_>,
    derivation: &Derivation,
    is_original: bool,
) -> rusqlite::Result<()> {
    for table in ["observations", "recent_commands"] {
        rederive_table(transaction, table, derivation)?;
    }
    if is_original {
        redact_column(transaction, "observations", "output_snippet", derivation)?;
        redact_column(transaction, "observations", "error_snippet", derivation)?;
        for column in ["remote_command", "remote_command_template"] {
            redact_column(transaction, "ssh_observations", column, derivation)?;
        }
    }
    transaction.execute(
        "INSERT OR REPLACE INTO meta (key, value) VALUES (?1, ?2)",
        params![DERIVATION_KEY, derivation.version.to_string()],
    )?;
    Ok(())
}

fn rederive_table(
    transaction: &Transaction<'_>,
    table: &str,
    derivation: &Derivation,
) -> rusqlite::Result<()> {
    let mut previews = transaction.prepare(&format!(
        "SELECT DISTINCT command_hash, command_preview FROM {table} WHERE command_preview IS NOT NULL"
    ))?;
    let found: Vec<(String, String)> = previews
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<rusqlite::Result<_>>()?;
    let mut change = transaction.prepare(&format!(
        "UPDATE {table} SET command_hash = ?1, command_template = coalesce(?2, command_template), \
         command_preview = ?3 WHERE command_hash = ?4 AND command_preview = ?5"
    ))?;
    for (hash, preview) in found {
        let redacted = derivation.redactor.redact(&preview);
        let is_whole = preview.len() < PREVIEW_BYTES;
        let (new_hash, template) = if is_whole {
            (
                (derivation.hash)(&redacted),
                Some((derivation.template)(&redacted)),
            )
        } else {
            (hash.clone(), None)
        };
        change.execute(params![new_hash, template, redacted, hash, preview])?;
        if is_whole && new_hash != hash {
            follow(transaction, &hash, &new_hash)?;
        }
    }
    redact_column(transaction, table, "command_template", derivation)
}

/// Takes what else is kept under a hash along to its new one, unless something newer is
/// there.
fn follow(transaction: &Transaction<'_>, old: &str, new: &str) -> rusqlite::Result<()> {
    for table in ["streaks", "circuits"] {
        transaction
            .prepare_cached(&format!(
                "UPDATE OR IGNORE {table} SET command_hash = ?1 WHERE command_hash = ?2"
            ))?
            .execute([new, old])?;
    }
    Ok(())
}

fn redact_column(
    transaction: &Transaction<'_>,
    table: &str,
    column: &str,
    derivation: &Derivation,
) -> rusqlite::Result<()> {
    let mut texts = transaction.prepare(&format!(
        "SELECT rowid, {column} FROM {table} WHERE {column} IS NOT NULL"
    ))?;
    let mut change = transaction.prepare(&format!(
        "UPDATE {table} SET {column} = ?1 WHERE rowid = ?2"
    ))?;
    let mut changed: Vec<(i64, String)> = Vec::new();
    let mut rows = texts.query([])?;
    while let Some(row) = rows.next()? {
        let text: String = row.get(1)?;
        let redacted = derivation.redactor.redact(&text);
        if *redacted != text {
            changed.push((row.get(0)?, redacted.into_owned()));
        }
    }
    drop(rows);
    for (rowid, text) in changed {
        change.execute(params![text, rowid])?;
    }
    Ok(())
}

fn count_templates(transaction: &Transaction<'_>) -> rusqlite::Result<()> {
    transaction.execute_batch(
        "DELETE FROM template_totals;
         INSERT INTO template_totals
         SELECT command_template, count(*),
             sum(coalesce(outcome_type = 'SUCCESS',
                          exit_code = 0 AND coalesce(timed_out, 0) = 0, 0)),
             sum(coalesce(outcome_type = 'KILLED', 0))
         FROM observations WHERE command_template IS NOT NULL GROUP BY command_template;",
    )
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;
    use rusqlite::types::Value;

    use super::*;

    /// Columns that a migration reads or counts.
    const CELLS: [(&str, &str); 10] = [
        ("observations", "command_hash"),
        ("observations", "command_template"),
        ("observations", "command_preview"),
        ("observations", "exit_code"),
        ("observations", "duration_ms"),
        ("observations", "timed_out"),
        ("observations", "output_snippet"),
        ("recent_commands", "command_preview"),
        ("recent_commands", "timestamp"),
        ("streaks", "command_hash"),
    ];

    fn hash(command: &str) -> String {
        format!("h({command})")
    }

    fn template(command: &str) -> String {
        format!("t({command})")
    }

    pub(crate) fn derivation(version: u32) -> Derivation {
        Derivation {
            version,
            hash,
            template,
            redactor: Redactor::default(),
        }
    }

    /// A database of the original, before (`false`) or after it knew outcomes.
    pub(crate) fn original(connection: &Connection, with_outcomes: bool) {
        connection.execute_batch(STEPS[0]).expect("tables");
        if with_outcomes {
            connection
                .execute_batch(
                    "ALTER TABLE observations ADD COLUMN outcome_type TEXT;
                     ALTER TABLE observations ADD COLUMN kill_elapsed_ms INTEGER;
                     ALTER TABLE recent_commands ADD COLUMN outcome_type TEXT;
                     CREATE INDEX idx_outcome_type ON observations(outcome_type);
                     CREATE INDEX idx_recent_outcome ON recent_commands(outcome_type);",
                )
                .expect("columns");
        }
        connection
            .execute_batch(&format!(
                "INSERT INTO observations
                     (id, command_hash, command_template, command_preview, exit_code,
                      duration_ms, timed_out, output_snippet, created_at)
                 VALUES
                     ('1', 'old', 'git push *', 'git push', 0, 700, 0, NULL,
                      '2026-02-11T12:00:00+00:00'),
                     ('2', 'old', 'git push *', 'git push', 1, 800, 1, 'x', 
                      '2026-02-11T12:00:01.5+00:00'),
                     ('3', 'secret', 'curl *', 'curl -H \"Authorization: Bearer abcdefghijklmnop1234\"',
                      0, 900, 0, 'API_KEY=hunter2hunter2', '2026-02-11T12:00:02+00:00'),
                     ('4', 'long', 'cat *', 'cat {}', 0, 0, 0, NULL, '2026-02-11T12:00:03+00:00');
                 INSERT INTO recent_commands (session_id, command_hash, command_template,
                      command_preview, timestamp, duration_ms, exit_code, timed_out, success)
                 VALUES ('s', 'old', 'git push *', 'git push', 1770811200.0, 700, 0, 0, 1);
                 INSERT INTO streaks VALUES ('old', -1, 1, 1, 0, 1770811201.5);",
                "y".repeat(PREVIEW_BYTES)
            ))
            .expect("rows");
    }

    fn text(connection: &Connection, sql: &str) -> String {
        connection.query_row(sql, [], |row| row.get(0)).expect(sql)
    }

    fn number(connection: &Connection, sql: &str) -> i64 {
        connection.query_row(sql, [], |row| row.get(0)).expect(sql)
    }

    /// All tables, indexes and triggers, in a comparable form.
    fn objects(connection: &Connection) -> Vec<String> {
        let mut found = connection
            .prepare(
                "SELECT m.name || ' ' || coalesce(group_concat(c.name), '') FROM sqlite_schema m
                 LEFT JOIN pragma_table_info(m.name) c GROUP BY m.name ORDER BY m.name",
            )
            .expect("schema");
        let rows = found.query_map([], |row| row.get(0)).expect("names");
        let mut rows: Vec<String> = rows.map(|row| row.expect("a name")).collect();
        for row in &mut rows {
            // Columns that were there before stand in another place.
            let mut names: Vec<&str> = row.split([' ', ',']).collect();
            names.sort_unstable();
            *row = names.join(",");
        }
        rows.sort();
        rows
    }

    #[test]
    fn every_start_leads_to_the_same_schema() {
        let mut wanted = Connection::open_in_memory().expect("memory");
        migrate(&mut wanted, &derivation(1)).expect("from nothing");
        let wanted = objects(&wanted);
        for with_outcomes in [false, true] {
            let mut old = Connection::open_in_memory().expect("memory");
            original(&old, with_outcomes);
            migrate(&mut old, &derivation(1)).expect("from the original");
            assert_eq!(objects(&old), wanted);
        }
        for version in 1..=STEPS.len() {
            let mut old = Connection::open_in_memory().expect("memory");
            for (step, sql) in STEPS.iter().enumerate().take(version) {
                if step == 1 {
                    let transaction = old.transaction().expect("transaction");
                    add_columns(&transaction).expect("columns");
                    transaction.commit().expect("commit");
                }
                old.execute_batch(sql).expect("step");
            }
            old.pragma_update(None, "user_version", version as i64)
                .expect("version");
            migrate(&mut old, &derivation(1)).expect("from an earlier version");
            assert_eq!(objects(&old), wanted, "from version {version}");
        }
    }

    #[test]
    fn rows_of_the_original_get_the_hash_of_their_whole_preview() {
        let mut old = Connection::open_in_memory().expect("memory");
        original(&old, false);
        migrate(&mut old, &derivation(1)).expect("migration");
        for table in ["observations", "recent_commands"] {
            assert_eq!(
                number(
                    &old,
                    &format!("SELECT count(*) FROM {table} WHERE command_hash = 'old'")
                ),
                0
            );
        }
        let of = |column: &str, id: u32| {
            text(
                &old,
                &format!("SELECT {column} FROM observations WHERE id = '{id}'"),
            )
        };
        assert_eq!(of("command_hash", 1), "h(git push)");
        assert_eq!(of("command_template", 1), "t(git push)");
        assert_eq!(of("command_hash", 4), "long");
        assert_eq!(of("command_template", 4), "cat *");
        assert_eq!(
            text(&old, "SELECT command_hash FROM streaks"),
            "h(git push)"
        );
        assert_eq!(
            number(
                &old,
                "SELECT successes * 10 + runs FROM template_totals WHERE command_template = 't(git push)'"
            ),
            12
        );
    }

    #[test]
    fn rows_of_the_original_are_redacted() {
        let mut old = Connection::open_in_memory().expect("memory");
        original(&old, true);
        migrate(&mut old, &derivation(1)).expect("migration");
        let all = text(
            &old,
            "SELECT group_concat(coalesce(command_preview, '') || coalesce(command_template, '')
             || coalesce(output_snippet, '')) FROM observations",
        );
        assert!(
            !all.contains("hunter2") && !all.contains("abcdefghijklmnop1234"),
            "{all}"
        );
        assert!(all.contains("[redacted]"));
    }

    #[test]
    fn another_derivation_is_applied_once() {
        let mut database = Connection::open_in_memory().expect("memory");
        original(&database, true);
        migrate(&mut database, &derivation(1)).expect("first");
        migrate(&mut database, &derivation(1)).expect("nothing to do");
        let again = "SELECT command_hash FROM observations WHERE id = '1'";
        assert_eq!(text(&database, again), "h(git push)");
        let mut other = derivation(2);
        other.hash = |command| format!("second {command}");
        migrate(&mut database, &other).expect("second");
        assert_eq!(text(&database, again), "second git push");
    }

    #[test]
    fn a_newer_database_is_refused_and_left_as_it_is() {
        let mut database = Connection::open_in_memory().expect("memory");
        migrate(&mut database, &derivation(1)).expect("first");
        database
            .pragma_update(None, "user_version", CURRENT + 1)
            .expect("version");
        let refused = migrate(&mut database, &derivation(2));
        assert!(matches!(refused, Err(SchemaError::Newer { found }) if found == CURRENT + 1));
        assert_eq!(
            text(
                &database,
                "SELECT value FROM meta WHERE key = 'hash_version'"
            ),
            "1"
        );
    }

    #[test]
    fn totals_follow_every_row_that_comes_and_goes() {
        let mut database = Connection::open_in_memory().expect("memory");
        migrate(&mut database, &derivation(1)).expect("migration");
        database
            .execute_batch(
                "INSERT INTO observations (id, command_hash, command_template, exit_code, outcome_type, created_at)
                 VALUES ('1', 'h', 't', 0, 'SUCCESS', ''), ('2', 'h', 't', -9, 'KILLED', ''),
                        ('3', 'h', 't', 1, 'SUCCESS', ''), ('4', 'h', 't', 0, NULL, '');
                 DELETE FROM observations WHERE id = '1';",
            )
            .expect("rows");
        let totals = "SELECT runs * 100 + successes * 10 + kills FROM template_totals";
        assert_eq!(number(&database, totals), 321);
        database
            .execute_batch("DELETE FROM observations")
            .expect("none");
        assert_eq!(number(&database, "SELECT count(*) FROM template_totals"), 0);
    }

    /// A cell of a row that another program or another time has written.
    fn any_cell() -> impl Strategy<Value = Value> {
        prop_oneof![
            Just(Value::Null),
            any::<i64>().prop_map(Value::Integer),
            any::<f64>().prop_map(Value::Real),
            "\\PC{0,20}".prop_map(Value::Text),
            Just(Value::Text("git push -p hunter2".to_owned())),
            prop::collection::vec(any::<u8>(), 0..8).prop_map(Value::Blob),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]

        #[test]
        fn whatever_an_older_database_holds_it_is_taken_or_left_as_it_was(
            cells in prop::collection::vec((prop::sample::select(CELLS.to_vec()), any_cell()), 0..6),
            with_outcomes: bool,
        ) {
            let mut old = Connection::open_in_memory().expect("memory");
            original(&old, with_outcomes);
            for ((table, column), cell) in cells {
                // What the column's own rules refuse cannot be there either.
                let _ = old.execute(&format!("UPDATE {table} SET {column} = ?1"), [cell]);
            }
            let before = objects(&old);
            match migrate(&mut old, &derivation(1)) {
                Ok(()) => prop_assert_eq!(version(&old).expect("a version"), CURRENT),
                Err(_) => prop_assert_eq!(objects(&old), before),
            }
        }
    }
}
