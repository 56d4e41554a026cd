//! One consistent view of the database and this server's queue.
//!
//! The queue is copied first, then the database is read in one transaction. The writer stores
//! the number of the last entry it has written, so that no entry counts twice. Every query is
//! bounded and uses an index.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;

use rusqlite::{Connection, Params, Row, params};
use schemars::JsonSchema;
use serde::Serialize;

use super::queue::{Job, QueueCopy, Queued};
use super::tables;
use crate::alan::cache::{
    Alike, COSTS_CONSIDERED, CachedCommand, KnownRun, RemoteTry, SIMILAR, SessionRun,
    TRIES_CONSIDERED, retries_since,
};
use crate::alan::estimate::{RUNS_CONSIDERED, Sample};
use crate::alan::history::{RunPlace, failures_after};
use crate::alan::insight::after::programs_of;
use crate::alan::pattern::CommandPattern;
use crate::alan::rows::{Observation, RecentCommand, Streak, seconds_of};
use crate::alan::run::RunRows;
use crate::shell::outcome::Outcome;
use crate::shell::ssh::ExitType;

/// How many of a command's newest runs are read at most to find [`RUNS_CONSIDERED`] durations, which
/// its runs as segments of pipelines do not have.
const RUNS_READ: usize = 2 * RUNS_CONSIDERED;
/// How many of a session's runs of a kind are read to count its kills.
const SESSION_RUNS: usize = 1000;
/// How many kinds of commands are searched for known programs.
const PROGRAMS: usize = 2000;

/// Kills of a kind of command. `zsh_alan_query` shows them; its schema contains the fields'
/// comments.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct KillCounts {
    /// Kills.
    pub kills: u64,
    /// Runs.
    pub runs: u64,
    /// Kills in this session.
    pub session_kills: u64,
}

/// A view that lasts as long as the read transaction.
pub(super) struct ReadView<'a> {
    pub(super) connection: Option<&'a Connection>,
    /// Jobs that are not in the database yet, oldest first.
    queued: Vec<Queued>,
    /// The number of the newest job of this server that the view includes.
    pub(super) last: u64,
    /// As [`tables::Written::by_others`]; `None` without a database.
    pub(super) by_others: Option<i64>,
}

/// How to find the durations of a kind of command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Key {
    /// The kind including a word that may be a subcommand.
    Subcommand,
    Template,
}

/// All keys, the narrowest first.
#[cfg(test)]
const KEYS: [Key; 2] = [Key::Subcommand, Key::Template];

impl Key {
    fn column(self) -> &'static str {
        match self {
            Key::Subcommand => "subcommand_template",
            Key::Template => "command_template",
        }
    }

    fn index(self) -> &'static str {
        match self {
            Key::Subcommand => "idx_subcommand_runs",
            Key::Template => "idx_template_runs",
        }
    }
}

impl<'a> ReadView<'a> {
    /// A view of this database, if it can be read, and of a copy of the queue that was made before
    /// the transaction began.
    pub(super) fn new(
        connection: Option<&'a Connection>,
        instance: &str,
        queue: QueueCopy,
    ) -> rusqlite::Result<ReadView<'a>> {
        let written = connection.map(|connection| tables::written(connection, instance));
        let written = written.transpose()?.unwrap_or_default();
        let QueueCopy { entries: mut queued, last } = queue;
        queued.retain(|queued| queued.sequence > written.sequence);
        let last = last.max(written.sequence);
        Ok(ReadView { connection, queued, last, by_others: written.by_others })
    }

    /// Reads the rows of a query until the function breaks; none without a database.
    fn each(
        &self,
        sql: &str,
        values: impl Params,
        mut read: impl FnMut(&Row<'_>) -> rusqlite::Result<ControlFlow<()>>,
    ) -> rusqlite::Result<()> {
        let Some(connection) = self.connection else {
            return Ok(());
        };
        let mut statement = connection.prepare_cached(sql)?;
        let mut rows = statement.query(values)?;
        while let Some(row) = rows.next()? {
            if read(row)?.is_break() {
                break;
            }
        }
        Ok(())
    }

    /// The rows of a query.
    pub(super) fn rows<T>(
        &self,
        sql: &str,
        values: impl Params,
        mut read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> rusqlite::Result<Vec<T>> {
        let mut rows = Vec::new();
        self.each(sql, values, |row| {
            rows.push(read(row)?);
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(rows)
    }

    /// The first row of a query.
    fn first<T>(
        &self,
        sql: &str,
        values: impl Params,
        mut read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> rusqlite::Result<Option<T>> {
        let mut first = None;
        self.each(sql, values, |row| {
            first = Some(read(row)?);
            Ok(ControlFlow::Break(()))
        })?;
        Ok(first)
    }

    /// What is known of a command at this time, in seconds since 1970.
    pub(super) fn cached(
        &self,
        pattern: &CommandPattern,
        session: &str,
        now: f64,
    ) -> rusqlite::Result<CachedCommand> {
        let mut cached = CachedCommand {
            pattern: pattern.clone(),
            read_at: now,
            streak: Streak { command_hash: pattern.hash.clone(), ..Streak::default() },
            ..CachedCommand::default()
        };
        self.read_runs(&mut cached)?;
        self.read_session_runs(&mut cached, session)?;
        if let Some(connection) = self.connection {
            cached.streak = tables::streak(connection, &pattern.hash)?;
        }
        if let Some(ssh) = &pattern.ssh {
            cached.connections = self.connections(&ssh.host)?;
            if let Some(remote) = &ssh.remote {
                cached.remote_tries = self.remote_tries(&remote.template)?;
            }
        }
        if !cached.has_enough_durations() {
            self.read_alike(&mut cached)?;
        }
        for rows in self.queued_runs() {
            cached.add(rows);
        }
        Ok(cached)
    }

    /// Reads the newest runs of the command, in one pass over an index that contains what is read
    /// of each.
    fn read_runs(&self, cached: &mut CachedCommand) -> rusqlite::Result<()> {
        let CachedCommand { pattern, runs, samples, costs, .. } = cached;
        let mut success: Option<i64> = None;
        self.each(
            "SELECT outcome_type, timed_out, exit_code, created_at, duration_ms,
                    failure_fingerprint, rowid, cpu_ms, peak_bytes
             FROM observations INDEXED BY idx_hash_runs
             WHERE command_hash = ?1 ORDER BY created_at DESC LIMIT ?2",
            params![pattern.hash, RUNS_READ as i64],
            |row| {
                let outcome = outcome_at(row, 0)?;
                if success.is_none() && outcome == Outcome::Success {
                    success = Some(row.get(6)?);
                }
                if samples.len() < RUNS_CONSIDERED {
                    let sample = Sample::from_run(row.get(4)?, outcome);
                    samples.extend(sample.map(|sample| (outcome, sample)));
                }
                if costs.len() < COSTS_CONSIDERED {
                    let (cpu, peak): (Option<i64>, _) = (row.get(7)?, row.get(8)?);
                    costs.extend(cpu.map(|cpu| (cpu, peak)));
                }
                if runs.len() < RUNS_CONSIDERED {
                    let created_at = row.get_ref(3)?.as_str().unwrap_or_default();
                    let fingerprint = row.get_ref(5)?.as_str_or_null()?;
                    runs.push(KnownRun::new(outcome, created_at, fingerprint, runs.last()));
                }
                let is_complete = runs.len().min(samples.len()) == RUNS_CONSIDERED;
                Ok(if is_complete { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
            },
        )?;
        cached.newest_at = cached.runs.first().map_or(0.0, |newest| newest.at);
        if let Some(rowid) = success {
            let sql = "SELECT cwd, git_head FROM observations WHERE rowid = ?1";
            cached.last_success = self.first(sql, [rowid], |row| {
                Ok(RunPlace { cwd: row.get(0)?, git_head: row.get(1)? })
            })?;
        }
        let kind = &cached.pattern.template;
        let sql = "SELECT 1 FROM template_totals WHERE command_template = ?1 AND runs > 0";
        cached.is_kind_known =
            !cached.runs.is_empty() || self.first(sql, [kind], |_| Ok(()))?.is_some();
        Ok(())
    }

    /// Reads the session's runs of the command and of its kind.
    fn read_session_runs(&self, cached: &mut CachedCommand, session: &str) -> rusqlite::Result<()> {
        let CachedCommand { pattern, retries, similar, failures, read_at, newest_at, .. } = cached;
        let since = retries_since(*read_at);
        self.each_session_run("command_hash", session, &pattern.hash, RUNS_CONSIDERED, |run| {
            if run.at <= since {
                return ControlFlow::Break(());
            }
            retries.push(run);
            ControlFlow::Continue(())
        })?;
        let (mut newest_first, mut is_over) = (Vec::new(), false);
        self.each_session_run(
            "command_template",
            session,
            &pattern.template,
            RUNS_CONSIDERED,
            |run| {
                if run.at > since && similar.len() < SIMILAR {
                    similar.push(run);
                }
                newest_first.push(run.outcome);
                *newest_at = newest_at.max(run.at);
                is_over |= run.outcome == Outcome::Success;
                let is_enough = similar.len() == SIMILAR || run.at <= since;
                if is_over && is_enough {
                    ControlFlow::Break(())
                } else {
                    ControlFlow::Continue(())
                }
            },
        )?;
        *failures = newest_first.into_iter().rev().fold(0, failures_after);
        Ok(())
    }

    /// Counts the kills of a kind of command.
    pub(super) fn kills(&self, template: &str, session: &str) -> rusqlite::Result<KillCounts> {
        let is_of_kind = |known: &Option<String>| known.as_deref() == Some(template);
        let recent = self.queued_runs().map(|rows| &rows.recent);
        let recent = recent.filter(|row| is_of_kind(&row.command_template));
        let mut session_runs: Vec<Outcome> = recent.map(RecentCommand::outcome).collect();
        let left = SESSION_RUNS.saturating_sub(session_runs.len());
        self.each_session_run("command_template", session, template, left, |run| {
            session_runs.push(run.outcome);
            ControlFlow::Continue(())
        })?;
        let sql = "SELECT kills, runs FROM template_totals WHERE command_template = ?1";
        let counts = self.first(sql, [template], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let (mut kills, mut runs): (i64, i64) = counts.unwrap_or_default();
        for row in self.observations().filter(|row| is_of_kind(&row.command_template)) {
            runs += 1;
            kills += i64::from(row.outcome() == Outcome::Killed);
        }
        let is_kill = |outcome: &&Outcome| **outcome == Outcome::Killed;
        Ok(KillCounts {
            kills: kills.unsigned_abs(),
            runs: runs.unsigned_abs(),
            session_kills: session_runs.iter().filter(is_kill).count() as u64,
        })
    }

    /// The cached table of a command's options.
    pub(super) fn options(&self, command: &str) -> rusqlite::Result<Option<String>> {
        for queued in self.queued.iter().rev() {
            if let Job::Options(options) = queued.job.as_ref()
                && options.base_command == command
            {
                return Ok(Some(options.options_text.clone()));
            }
        }
        let sql = "SELECT options_text FROM manopt_cache WHERE base_command = ?1";
        self.first(sql, [command], |row| row.get(0))
    }

    /// The names of what failed when a command last ran in a directory.
    pub(super) fn failures(&self, hash: &str, cwd: &str) -> rusqlite::Result<Option<String>> {
        for queued in self.queued.iter().rev() {
            if let Job::Failures(failures) = queued.job.as_ref()
                && (failures.command_hash.as_str(), failures.cwd.as_str()) == (hash, cwd)
            {
                return Ok(Some(failures.names.clone()));
            }
        }
        let sql = "SELECT names FROM last_failures WHERE command_hash = ?1 AND cwd = ?2";
        self.first(sql, [hash, cwd], |row| row.get(0))
    }

    /// The programs of successful commands.
    pub(super) fn programs(&self) -> rusqlite::Result<Vec<String>> {
        let successes = self.observations();
        let successes = successes.filter(|row| row.outcome() == Outcome::Success);
        let mut templates = self.rows(
            "SELECT command_template FROM template_totals WHERE successes > 0 LIMIT ?1",
            [PROGRAMS as i64],
            |row| row.get::<_, String>(0),
        )?;
        templates.extend(successes.filter_map(|row| row.command_template.clone()));
        let programs: BTreeSet<String> = templates
            .iter()
            .flat_map(|template| programs_of(template))
            .map(str::to_owned)
            .collect();
        Ok(programs.into_iter().collect())
    }

    /// Reads the durations of commands of the same kind.
    fn read_alike(&self, cached: &mut CachedCommand) -> rusqlite::Result<()> {
        let mut alike = Alike::default();
        let kind = cached.pattern.subcommand_template.as_deref();
        if let Some(kind) = kind {
            alike.subcommand = self.samples(Key::Subcommand, kind, &mut cached.newest_at)?;
        }
        let kind = &cached.pattern.template;
        alike.template = self.samples(Key::Template, kind, &mut cached.newest_at)?;
        cached.alike = Some(alike);
        Ok(())
    }

    /// The newest durations of a kind. Notes when the newest of these runs ended, if it is newer
    /// than `newest_at`.
    fn samples(&self, key: Key, value: &str, newest_at: &mut f64) -> rusqlite::Result<Vec<Sample>> {
        let (key, index) = (key.column(), key.index());
        let sql = format!(
            "SELECT duration_ms, outcome_type, timed_out, exit_code, created_at
             FROM observations INDEXED BY {index}
             WHERE {key} = ?1 AND duration_ms > 0 ORDER BY created_at DESC LIMIT ?2"
        );
        let mut samples = Vec::new();
        self.each(&sql, params![value, RUNS_CONSIDERED as i64], |row| {
            if samples.is_empty() {
                let at = seconds_of(row.get_ref(4)?.as_str().unwrap_or_default());
                *newest_at = newest_at.max(at.unwrap_or_default());
            }
            samples.extend(Sample::from_run(row.get(0)?, outcome_at(row, 1)?));
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(samples)
    }

    /// Reads a session's runs with this value in the column `key`, newest first, until the function
    /// breaks.
    fn each_session_run(
        &self,
        key: &str,
        session: &str,
        value: &str,
        limit: usize,
        mut read: impl FnMut(SessionRun) -> ControlFlow<()>,
    ) -> rusqlite::Result<()> {
        let is_by_hash = key == "command_hash";
        let index = if is_by_hash { "idx_session_hash" } else { "idx_session_template" };
        let sql = format!(
            "SELECT outcome_type, timed_out, success, timestamp
             FROM recent_commands INDEXED BY {index}
             WHERE session_id = ?1 AND {key} = ?2 ORDER BY timestamp DESC LIMIT ?3"
        );
        self.each(&sql, params![session, value, limit as i64], |row| {
            let outcome = match named_outcome_at(row, 0)? {
                Some(outcome) => outcome,
                None => {
                    let timed_out = row.get::<_, Option<bool>>(1)?.unwrap_or_default();
                    let success = row.get::<_, Option<bool>>(2)?.unwrap_or_default();
                    RecentCommand::outcome_of(None, timed_out, success)
                }
            };
            Ok(read(SessionRun { outcome, at: row.get(3)? }))
        })
    }

    /// Whether the newest connections to a host failed.
    fn connections(&self, host: &str) -> rusqlite::Result<Vec<bool>> {
        self.rows(
            "SELECT exit_type FROM ssh_observations INDEXED BY idx_host_time
             WHERE host = ?1 ORDER BY created_at DESC LIMIT ?2",
            params![host, TRIES_CONSIDERED as i64],
            |row| Ok(row.get_ref(0)?.as_str_or_null()? == Some(ExitType::ConnectionFailed.name())),
        )
    }

    /// The newest runs of a remote command on any host.
    fn remote_tries(&self, template: &str) -> rusqlite::Result<Vec<RemoteTry>> {
        self.rows(
            "SELECT host, exit_type FROM ssh_observations INDEXED BY idx_remote_time
             WHERE remote_command_template = ?1 ORDER BY created_at DESC LIMIT ?2",
            params![template, TRIES_CONSIDERED as i64],
            |row| {
                let exit_type = row.get_ref(1)?.as_str_or_null()?;
                Ok(RemoteTry::new(row.get_ref(0)?.as_str()?, exit_type))
            },
        )
    }

    fn queued_runs(&self) -> impl Iterator<Item = &RunRows> {
        self.queued.iter().filter_map(|queued| match Arc::as_ref(&queued.job) {
            Job::Run(rows) => Some(rows.as_ref()),
            Job::Options(_) | Job::Failures(_) => None,
        })
    }

    fn observations(&self) -> impl Iterator<Item = &Observation> {
        self.queued_runs().flat_map(|rows| &rows.observations)
    }
}

/// Reads the outcome from three consecutive columns: `outcome_type`, `timed_out`,
/// `exit_code`.
pub(super) fn outcome_at(row: &Row<'_>, first: usize) -> rusqlite::Result<Outcome> {
    if let Some(outcome) = named_outcome_at(row, first)? {
        return Ok(outcome);
    }
    let timed_out = row.get::<_, Option<bool>>(first + 1)?.unwrap_or_default();
    Ok(Outcome::from_row(None, timed_out, row.get(first + 2)?))
}

/// Reads the outcome from the column `outcome_type`, which all but old rows have. The other columns
/// are not read then, since a call reads hundreds of rows.
fn named_outcome_at(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<Outcome>> {
    Ok(row.get_ref(column)?.as_str_or_null()?.and_then(Outcome::named))
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;
    use crate::alan::pattern::{RemoteCommand, Ssh};
    use crate::alan::rows::unix_seconds;
    use crate::alan::run::Ending;
    use crate::alan::run::Run;
    use crate::alan::run::tests::{ended, pattern};
    use crate::alan::schema;
    use crate::alan::schema::tests::derivation;
    use crate::text::redact::Redactor;

    /// What SQLite plans for every statement that a view prepares.
    #[test]
    fn no_query_of_a_call_scans_a_table_or_sorts() {
        let mut database = Connection::open_in_memory().expect("memory");
        schema::migrate(&mut database, &derivation(1)).expect("schema");
        let mut checked = 0;
        for sql in statements() {
            let mut plan = database.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).expect(&sql);
            let values = vec![rusqlite::types::Value::Integer(1); plan.parameter_count()];
            let steps: Vec<String> = plan
                .query_map(rusqlite::params_from_iter(values), |row| row.get(3))
                .expect("a plan")
                .map(|step| step.expect("a step"))
                .collect();
            checked += 1;
            for step in &steps {
                // The only list that is cut to a fixed length in any order.
                let bounded = sql.contains("successes > 0");
                assert!(step.starts_with("SEARCH") || bounded, "{step} in {sql}");
                let many = sql.contains("LIMIT") && !bounded;
                let covered = step.contains("COVERING INDEX");
                assert!(covered || !many, "{step} looks up each row of {sql}");
            }
        }
        assert_eq!(checked, 15, "statements found");
    }

    /// The statements of a view, with every index and key filled in.
    fn statements() -> Vec<String> {
        let sources = [include_str!("read.rs"), include_str!("tables.rs")];
        let mut found = Vec::new();
        for part in sources.iter().flat_map(|source| selects(source)) {
            let keys = match part {
                sql if sql.contains("recent_commands") => [
                    ("command_hash", "idx_session_hash"),
                    ("command_template", "idx_session_template"),
                ]
                .to_vec(),
                _ => KEYS.map(|key| (key.column(), key.index())).to_vec(),
            };
            if part.contains("{key}") {
                found.extend(
                    keys.iter()
                        .map(|(key, index)| part.replace("{key}", key).replace("{index}", index)),
                )
            } else {
                found.push(part.to_owned())
            }
        }
        found
    }

    fn selects(source: &str) -> impl Iterator<Item = &str> {
        let program = source.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
        let texts = program.split('"');
        texts.filter(|text| text.starts_with("SELECT "))
    }

    #[test]
    fn a_record_both_written_and_queued_counts_once() {
        let mut database = Connection::open_in_memory().expect("memory");
        schema::migrate(&mut database, &derivation(1)).expect("schema");
        let queued: Vec<Queued> = (1..=3)
            .map(|sequence| {
                let ended = ended("make", Ending::Exited(0), SystemTime::now());
                let run = Run::new(ended, &Redactor::default());
                Queued {
                    sequence,
                    job: Arc::new(Job::Run(Box::new(run.rows(&sequence.to_string(), "s")))),
                }
            })
            .collect();
        tables::write_batch(&mut database, "me", &queued[..2], 0.0).expect("written");
        let queue = QueueCopy { entries: queued, last: 3 };
        let view = ReadView::new(Some(&database), "me", queue.clone()).expect("a view");
        let now = unix_seconds(SystemTime::now());
        let cached = view.cached(&pattern("make"), "s", now).expect("a command");
        let history = cached.history(now);
        assert_eq!((history.runs.len(), history.streak.current_streak), (3, 3));
        assert_eq!(history.retries.len(), 3);
        assert_eq!(view.kills("make *", "s").expect("counts").runs, 3);
        let other = ReadView::new(Some(&database), "other", queue).expect("a view");
        assert_eq!(other.kills("make *", "s").expect("counts").runs, 5, "its own queue");
    }

    #[test]
    fn a_view_includes_what_was_written_after_the_queue_was_copied() {
        let mut database = Connection::open_in_memory().expect("memory");
        schema::migrate(&mut database, &derivation(1)).expect("schema");
        let run =
            Run::new(ended("make", Ending::Exited(0), SystemTime::now()), &Redactor::default());
        let job = Arc::new(Job::Run(Box::new(run.rows("id", "s"))));
        let queued = Queued { sequence: 2, job };
        tables::write_batch(&mut database, "me", &[queued], 0.0).expect("written");
        let copy = QueueCopy { last: 1, ..QueueCopy::default() };
        let view = ReadView::new(Some(&database), "me", copy).expect("a view");
        assert_eq!(view.last, 2);
        let cached = view.cached(&pattern("make"), "s", 0.0).expect("a command");
        assert_eq!(cached.runs.len(), 1);
    }

    #[test]
    fn durations_behind_runs_as_a_segment_are_found() {
        let mut database = Connection::open_in_memory().expect("memory");
        schema::migrate(&mut database, &derivation(1)).expect("schema");
        let insert = |rows: std::ops::Range<usize>, duration_ms: Option<i64>, code: i64| {
            for number in rows {
                let row = Observation {
                    id: format!("{number}"),
                    command_hash: "h".to_owned(),
                    created_at: format!("2026-01-01T00:00:00.{number:06}Z"),
                    exit_code: Some(code),
                    outcome_type: Some(if code == 0 { "SUCCESS" } else { "FAILURE" }.to_owned()),
                    failure_fingerprint: (code != 0).then(|| "no".to_owned()),
                    cwd: Some(format!("/{number}")),
                    duration_ms,
                    ..Observation::default()
                };
                tables::TableRow::insert(&row, &database).expect("inserted");
            }
        };
        insert(0..300, Some(2000), 0);
        insert(300..500, None, 1);
        let view = ReadView::new(Some(&database), "me", QueueCopy::default()).expect("a view");
        let pattern = CommandPattern { hash: "h".to_owned(), ..CommandPattern::default() };
        let cached = || view.cached(&pattern, "s", 0.0).expect("a command");
        let known = cached();
        assert_eq!((known.runs.len(), known.samples.len()), (RUNS_CONSIDERED, RUNS_CONSIDERED));
        let history = known.history(0.0);
        assert_eq!(history.same_failures("no"), RUNS_CONSIDERED as u32 + 1);
        let place = history.last_success.expect("a success");
        assert_eq!(place.cwd.as_deref(), Some("/299"));
        insert(500..600, None, 1);
        assert_eq!(cached().samples.len(), RUNS_READ - 300, "no further back than that");
    }

    #[test]
    fn a_view_without_a_database_is_empty_and_does_not_fail() {
        let view = ReadView::new(None, "me", QueueCopy::default()).expect("a view");
        let pattern = CommandPattern {
            ssh: Some(Ssh { host: "h".to_owned(), remote: Some(RemoteCommand::default()) }),
            ..CommandPattern::default()
        };
        let history = view.cached(&pattern, "s", 0.0).expect("a command").history(0.0);
        assert!(!history.is_known() && history.estimate.is_none());
        assert_eq!(view.kills("t", "s").expect("counts"), KillCounts::default());
    }
}
