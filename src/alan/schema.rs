//! The database's tables, and the migration of older databases.
//!
//! Versions only go forward: `user_version` holds a file's version, each step is one file of SQL,
//! and all missing steps run in one transaction. A database without a version may be one of the
//! original zsh-tool, which has the same tables. A newer version is refused.

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior, params};

use super::pattern::PREVIEW_BYTES;
use crate::text::redact::Redactor;

/// The current version.
pub(crate) const CURRENT: i64 = STEPS.len() as i64;

/// The SQL of each step. [`ADDED_COLUMNS`] are added before step 2.
const STEPS: [&str; 7] = [
    include_str!("../../data/schema/1-tables.sql"),
    include_str!("../../data/schema/2-places-and-circuits.sql"),
    include_str!("../../data/schema/3-subcommands.sql"),
    include_str!("../../data/schema/4-one-index.sql"),
    include_str!("../../data/schema/5-transactions.sql"),
    include_str!("../../data/schema/6-costs.sql"),
    include_str!("../../data/schema/7-failures.sql"),
];

/// Columns that a database of the original zsh-tool may lack.
const ADDED_COLUMNS: [(&str, &str, &str); 6] = [
    ("observations", "outcome_type", "TEXT"),
    ("observations", "kill_elapsed_ms", "INTEGER"),
    ("observations", "cwd", "TEXT"),
    ("observations", "git_head", "TEXT"),
    ("observations", "failure_fingerprint", "TEXT"),
    ("recent_commands", "outcome_type", "TEXT"),
];

/// The tables whose rows are read back. All have a rowid.
const TABLES: [&str; 9] = [
    "observations",
    "recent_commands",
    "streaks",
    "ssh_observations",
    "manopt_cache",
    "last_failures",
    "meta",
    "circuits",
    "circuit_timeouts",
];

/// The key in `meta` under which the version of hashes and templates is stored.
const DERIVATION_KEY: &str = "hash_version";

/// How to compute hashes and templates, to update rows that an older version wrote.
#[derive(Debug, Clone)]
pub struct Derivation {
    /// Changes whenever one of the functions changes.
    pub version: u32,
    /// The hash of a redacted command.
    pub hash: fn(&str) -> String,
    /// Its template.
    pub template: fn(&str) -> String,
    /// Its template including words that may be subcommands, if there are any.
    pub with_subcommands: fn(&str) -> Option<String>,
    /// Redacts rows that were written without redaction.
    pub redactor: Redactor,
}

/// Why a database cannot be migrated.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SchemaError {
    /// A newer zsh-tool made it.
    #[error(
        "it has version {found} and this zsh-tool knows up to {CURRENT}: update zsh-tool or set ALAN_DB_PATH"
    )]
    Newer { found: i64 },
    /// SQLite failed.
    #[error(transparent)]
    Sqlite(#[from] rusqlite::Error),
}

/// Migrates a database to the current version, if necessary. Removes rows that cannot be read
/// (a BLOB instead of a text, text that is not UTF-8) and returns their number.
///
/// # Errors
/// If the database is newer, or SQLite fails; the database is then unchanged.
pub(crate) fn migrate(
    connection: &mut Connection,
    derivation: &Derivation,
) -> Result<usize, SchemaError> {
    let version = version(connection)?;
    if version > CURRENT {
        return Err(SchemaError::Newer { found: version });
    }
    if version == CURRENT && derived_by(connection)? == Some(derivation.version) {
        return Ok(0);
    }
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // A circuit and its timeouts get their new hash in separate statements.
    transaction.pragma_update(None, "defer_foreign_keys", true)?;
    // Another server may have migrated it while this one waited.
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
    let unreadable = remove_unreadable(&transaction)?;
    let derived_by = derived_by(&transaction)?;
    if derived_by != Some(derivation.version) {
        derive(&transaction, derivation, derived_by.is_none())?;
    }
    if version < CURRENT || derived_by != Some(derivation.version) {
        count_templates(&transaction)?;
    }
    count_transaction(&transaction)?;
    transaction.commit()?;
    Ok(unreadable)
}

/// Counts a transaction, so that other servers read again what they have in memory. Every
/// transaction that changes the history must call this.
///
/// # Errors
/// If SQLite fails.
pub(crate) fn count_transaction(transaction: &Connection) -> rusqlite::Result<()> {
    let sql = "UPDATE written SET transactions = transactions + 1 WHERE instance = ''";
    transaction.prepare_cached(sql)?.execute([]).map(drop)
}

/// Removes rows with cells of the wrong type, and returns their number.
fn remove_unreadable(transaction: &Transaction<'_>) -> rusqlite::Result<usize> {
    let mut removed = 0;
    for table in TABLES {
        let columns: Vec<(String, bool)> = transaction
            .prepare("SELECT type, \"notnull\" OR pk FROM pragma_table_info(?1) ORDER BY cid")?
            .query_map([table], |row| Ok((row.get(0)?, row.get(1)?)))?
            .collect::<rusqlite::Result<_>>()?;
        let mut statement = transaction.prepare(&format!("SELECT rowid, * FROM {table}"))?;
        let mut rows = statement.query([])?;
        let mut unreadable: Vec<i64> = Vec::new();
        while let Some(row) = rows.next()? {
            let mut cells = columns.iter().zip(1..);
            let is_readable = cells.all(|((kind, is_needed), at)| {
                let cell = row.get_ref(at);
                cell.is_ok_and(|cell| can_be_read(cell, kind, *is_needed))
            });
            if !is_readable {
                unreadable.push(row.get(0)?);
            }
        }
        let mut delete = transaction.prepare(&format!("DELETE FROM {table} WHERE rowid = ?1"))?;
        for rowid in unreadable {
            removed += delete.execute([rowid])?;
        }
    }
    Ok(removed)
}

/// Whether a cell fits its column's declared type. SQLite itself accepts any value in any
/// column.
fn can_be_read(cell: ValueRef<'_>, kind: &str, is_needed: bool) -> bool {
    match (kind, cell) {
        (_, ValueRef::Null) => !is_needed,
        ("TEXT", ValueRef::Text(text)) => std::str::from_utf8(text).is_ok(),
        ("REAL", cell) => matches!(cell, ValueRef::Integer(_) | ValueRef::Real(_)),
        ("INTEGER", cell) => matches!(cell, ValueRef::Integer(_)),
        (kind, _) => kind != "TEXT",
    }
}

fn version(connection: &Connection) -> rusqlite::Result<i64> {
    connection.pragma_query_value(None, "user_version", |row| row.get(0))
}

fn derived_by(connection: &Connection) -> rusqlite::Result<Option<u32>> {
    let sql = "SELECT value FROM meta WHERE key = ?1";
    let found = connection.query_row(sql, [DERIVATION_KEY], |row| {
        // Anything other than a number as text counts as no version.
        Ok(row.get_ref(0)?.as_str().ok().and_then(|value| value.parse().ok()))
    });
    Ok(found.optional()?.flatten())
}

fn add_columns(transaction: &Transaction<'_>) -> rusqlite::Result<()> {
    for (table, column, kind) in ADDED_COLUMNS {
        if !transaction.column_exists(None, table, column)? {
            transaction
                .execute_batch(&format!("ALTER TABLE {table} ADD COLUMN {column} {kind}"))?;
        }
    }
    // The original has two different indexes of the same names.
    transaction.execute_batch(
        "DROP INDEX IF EXISTS idx_outcome_type; DROP INDEX IF EXISTS idx_recent_outcome;",
    )
}

/// Recomputes hashes and templates of rows whose preview is the whole command; other rows keep
/// theirs. Also redacts rows of the original.
fn derive(
    transaction: &Transaction<'_>,
    derivation: &Derivation,
    is_original: bool,
) -> rusqlite::Result<()> {
    for table in ["observations", "recent_commands"] {
        rederive_table(transaction, table, derivation)?;
    }
    rederive_subcommands(transaction, derivation)?;
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
    let mut change = transaction.prepare(&format!(
        "UPDATE {table} SET command_hash = ?1, command_template = coalesce(?2, command_template), \
         command_preview = ?3 WHERE command_hash = ?4 AND command_preview = ?5"
    ))?;
    for (hash, preview) in previews(transaction, table, "")? {
        let redacted = derivation.redactor.redact(&preview);
        let is_whole = preview.len() < PREVIEW_BYTES;
        let new_hash = if is_whole { (derivation.hash)(&redacted) } else { hash.clone() };
        let template = is_whole.then(|| (derivation.template)(&redacted));
        change.execute(params![new_hash, template, redacted, hash, preview])?;
        if new_hash != hash {
            rename_hash(transaction, &hash, &new_hash)?;
        }
    }
    redact_column(transaction, table, "command_template", derivation)
}

/// The distinct commands of a table, as hash and preview.
fn previews(
    transaction: &Transaction<'_>,
    table: &str,
    condition: &str,
) -> rusqlite::Result<Vec<(String, String)>> {
    transaction
        .prepare(&format!(
            "SELECT DISTINCT command_hash, command_preview FROM {table}
             WHERE command_preview IS NOT NULL {condition}"
        ))?
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect()
}

/// Recomputes which words may be subcommands, where the preview is the whole command.
fn rederive_subcommands(
    transaction: &Transaction<'_>,
    derivation: &Derivation,
) -> rusqlite::Result<()> {
    let mut change = transaction.prepare(
        "UPDATE observations SET subcommand_template = ?1
         WHERE command_hash = ?2 AND command_preview = ?3 AND duration_ms > 0
             AND subcommand_template IS NOT ?1",
    )?;
    for (hash, preview) in previews(transaction, "observations", "AND duration_ms > 0")? {
        if preview.len() < PREVIEW_BYTES {
            let kept = (derivation.with_subcommands)(&preview);
            change.execute(params![kept, hash, preview])?;
        }
    }
    Ok(())
}

/// Moves the rows of other tables from an old hash to the new one, unless they already have rows
/// for it.
fn rename_hash(transaction: &Transaction<'_>, old: &str, new: &str) -> rusqlite::Result<()> {
    for table in ["streaks", "circuits", "circuit_timeouts"] {
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
    let mut texts = transaction
        .prepare(&format!("SELECT rowid, {column} FROM {table} WHERE {column} IS NOT NULL"))?;
    let mut change =
        transaction.prepare(&format!("UPDATE {table} SET {column} = ?1 WHERE rowid = ?2"))?;
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
    use std::collections::BTreeSet;

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

    fn with_subcommands(command: &str) -> Option<String> {
        (!command.starts_with("cat ")).then(|| format!("s({command})"))
    }

    pub(crate) fn derivation(version: u32) -> Derivation {
        Derivation { version, hash, template, with_subcommands, redactor: Redactor::default() }
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
                "SELECT m.name || ' ' || coalesce(group_concat(c.name), '') || ' '
                     || iif(m.type = 'index', coalesce(m.sql, ''), '')
                 FROM sqlite_schema m
                 LEFT JOIN pragma_table_info(m.name) c GROUP BY m.name ORDER BY m.name",
            )
            .expect("schema");
        let rows = found.query_map([], |row| row.get(0)).expect("names");
        let mut rows: Vec<String> = rows.map(|row| row.expect("a name")).collect();
        for row in &mut rows {
            // Columns of the older tables are in another order.
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
            old.pragma_update(None, "user_version", version as i64).expect("version");
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
                number(&old, &format!("SELECT count(*) FROM {table} WHERE command_hash = 'old'")),
                0
            );
        }
        let of = |column: &str, id: u32| {
            text(&old, &format!("SELECT {column} FROM observations WHERE id = '{id}'"))
        };
        assert_eq!(of("command_hash", 1), "h(git push)");
        assert_eq!(of("command_template", 1), "t(git push)");
        assert_eq!(of("subcommand_template", 1), "s(git push)");
        let without = "SELECT count(*) FROM observations
                       WHERE id = '4' AND subcommand_template IS NULL";
        assert_eq!(number(&old, without), 1, "its preview is cut");
        assert_eq!(of("command_hash", 4), "long");
        assert_eq!(of("command_template", 4), "cat *");
        assert_eq!(text(&old, "SELECT command_hash FROM streaks"), "h(git push)");
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
        assert!(!all.contains("hunter2") && !all.contains("abcdefghijklmnop1234"), "{all}");
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
        other.with_subcommands = |_| None;
        migrate(&mut database, &other).expect("second");
        assert_eq!(text(&database, again), "second git push");
        let kept = "SELECT count(subcommand_template) FROM observations";
        assert_eq!(number(&database, kept), 0);
    }

    #[test]
    fn a_newer_database_is_refused_and_left_as_it_is() {
        let mut database = Connection::open_in_memory().expect("memory");
        migrate(&mut database, &derivation(1)).expect("first");
        database.pragma_update(None, "user_version", CURRENT + 1).expect("version");
        let refused = migrate(&mut database, &derivation(2));
        assert!(matches!(refused, Err(SchemaError::Newer { found }) if found == CURRENT + 1));
        assert_eq!(text(&database, "SELECT value FROM meta WHERE key = 'hash_version'"), "1");
    }

    #[test]
    fn totals_follow_inserted_and_deleted_rows() {
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
        database.execute_batch("DELETE FROM observations").expect("none");
        assert_eq!(number(&database, "SELECT count(*) FROM template_totals"), 0);
    }

    #[test]
    fn a_circuit_keeps_its_timeouts_under_a_new_hash() {
        let mut database = Connection::open_in_memory().expect("memory");
        original(&database, true);
        migrate(&mut database, &derivation(1)).expect("first");
        database
            .execute_batch(
                "INSERT INTO circuits (command_hash, command_preview) VALUES ('h(git push)', 'x');
                 INSERT INTO circuit_timeouts VALUES ('h(git push)', 1.0, 2.0);",
            )
            .expect("a circuit");
        let mut other = derivation(2);
        other.hash = |command| format!("second {command}");
        migrate(&mut database, &other).expect("second");
        let joined = "SELECT count(*) FROM circuits JOIN circuit_timeouts USING (command_hash)
                      WHERE command_hash = 'second git push'";
        assert_eq!(number(&database, joined), 1);
    }

    /// A cell that another program or an older version may have written.
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

    fn rowids(connection: &Connection) -> BTreeSet<(&'static str, i64)> {
        let of_table = |table: &'static str| {
            let mut found =
                connection.prepare(&format!("SELECT rowid FROM {table}")).expect("a table");
            let rows = found.query_map([], |row| row.get(0)).expect("rows");
            rows.map(|rowid| (table, rowid.expect("a rowid"))).collect::<Vec<_>>()
        };
        let tables = ["observations", "recent_commands", "streaks"];
        tables.into_iter().flat_map(of_table).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]

        #[test]
        fn any_older_database_keeps_its_sound_rows_and_counts_the_others(
            cells in prop::collection::vec(
                (prop::sample::select(CELLS.to_vec()), any_cell(), 1..5_i64),
                0..6,
            ),
            with_outcomes: bool,
        ) {
            let mut old = Connection::open_in_memory().expect("memory");
            original(&old, with_outcomes);
            let mut sound = rowids(&old);
            let before = sound.len();
            for ((table, column), cell, rowid) in cells {
                sound.remove(&(table, rowid));
                let sql = format!("UPDATE {table} SET {column} = ?1 WHERE rowid = ?2");
                // The column's constraints reject some cells; no database contains those.
                let _ = old.execute(&sql, params![cell, rowid]);
            }
            let removed = migrate(&mut old, &derivation(1)).expect("a migration");
            prop_assert_eq!(version(&old).expect("a version"), CURRENT);
            let after = rowids(&old);
            prop_assert!(sound.is_subset(&after), "{:?} of {:?}", after, sound);
            prop_assert_eq!(after.len() + removed, before);
            prop_assert_eq!(migrate(&mut old, &derivation(2)).expect("all rows are sound"), 0);
        }
    }
}
