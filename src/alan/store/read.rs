//! One consistent view of the database and this server's queue.
//!
//! The queue is copied first, then the database is read in one transaction. The writer stores
//! the number of the last entry it has written, so that no entry counts twice. Every query is
//! bounded and uses an index.

use std::collections::{BTreeSet, HashSet};
use std::ops::ControlFlow;
use std::sync::Arc;

use rusqlite::{Connection, Params, Row, params};
use schemars::JsonSchema;
use serde::Serialize;

use super::queue::{Job, Queued};
use super::tables;
use crate::alan::estimate::{Estimate, RUNS_CONSIDERED, Sample, can_estimate, suffices_alone};
use crate::alan::history::{
    EqualFailures, History, HostHistory, PastRun, RETRY_WINDOW_MINUTES, RemoteHistory, RunPlace,
    failures_in_a_row,
};
use crate::alan::insight::after::programs_of;
use crate::alan::pattern::CommandPattern;
use crate::alan::rows::{Observation, RecentCommand, SshObservation, Streak, seconds_of};
use crate::alan::run::RunRows;
use crate::shell::outcome::Outcome;
use crate::shell::ssh::ExitType;

/// How many of the newest runs of a kind are reported as similar.
const SIMILAR: usize = 5;
/// How many of a command's newest runs are read at most to find [`RUNS_CONSIDERED`] durations, which
/// its runs as segments of pipelines do not have.
const RUNS_READ: usize = 2 * RUNS_CONSIDERED;
/// How many of a session's runs of a kind are read to count its kills.
const SESSION_RUNS: usize = 1000;
/// How many of the newest connections to a host, and runs of a remote command, are considered.
const TRIES_CONSIDERED: usize = 50;
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
}

/// How to find the runs of a kind of command.
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

    fn of(self, row: &Observation) -> Option<&str> {
        match self {
            Key::Subcommand => row.subcommand_template.as_deref(),
            Key::Template => row.command_template.as_deref(),
        }
    }
}

/// What a call needs of the newest runs of a command.
#[derive(Debug, Default)]
struct NewestRuns {
    /// At most [`RUNS_CONSIDERED`], newest first.
    runs: Vec<PastRun>,
    /// At most as many that have a duration, newest first.
    samples: Vec<(Outcome, Sample)>,
    equal_failures: EqualFailures,
    /// Where the command last succeeded.
    last_success: Option<RunPlace>,
}

impl NewestRuns {
    /// Adds the next older run.
    fn add(&mut self, run: PastRun, duration_ms: Option<i64>, fingerprint: Option<&str>) {
        if self.samples.len() < RUNS_CONSIDERED {
            let sample = Sample::of_run(duration_ms, run.outcome);
            self.samples.extend(sample.map(|sample| (run.outcome, sample)));
        }
        if self.runs.len() < RUNS_CONSIDERED {
            self.equal_failures.add(run.outcome, fingerprint);
            self.runs.push(run);
        }
    }

    /// Whether older runs add nothing.
    fn is_complete(&self) -> bool {
        self.runs.len() == RUNS_CONSIDERED && self.samples.len() == RUNS_CONSIDERED
    }
}

impl<'a> ReadView<'a> {
    /// A view of this database, if it can be read, and of a copy of the queue that was made before
    /// the transaction began.
    pub(super) fn new(
        connection: Option<&'a Connection>,
        instance: &str,
        queued: Vec<Queued>,
    ) -> rusqlite::Result<ReadView<'a>> {
        let mut view = ReadView { connection, queued };
        if !view.queued.is_empty() {
            let sql = "SELECT sequence FROM written WHERE instance = ?1";
            let written: Option<i64> = view.first(sql, [instance], |row| row.get(0))?;
            let written = written.and_then(|sequence| u64::try_from(sequence).ok());
            let written = written.unwrap_or_default();
            view.queued.retain(|queued| queued.sequence > written);
        }
        Ok(view)
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

    /// The history of a command.
    pub(super) fn history(
        &self,
        pattern: &CommandPattern,
        session: &str,
        now: f64,
    ) -> rusqlite::Result<History> {
        let hash = pattern.hash.as_str();
        let window = now - f64::from(RETRY_WINDOW_MINUTES) * 60.0;
        let retries = self.recent("command_hash", session, hash, window, RUNS_CONSIDERED)?;
        let similar = if retries.is_empty() {
            let template = &pattern.template;
            self.recent("command_template", session, template, window, SIMILAR)?
        } else {
            Vec::new()
        };
        let ssh = pattern.ssh.as_ref();
        let remote = ssh.and_then(|ssh| ssh.remote.as_ref());
        let NewestRuns { runs, samples, equal_failures, last_success } =
            self.newest_runs(hash, now)?;
        Ok(History {
            template: pattern.template.clone(),
            is_first_of_kind: runs.is_empty() && self.is_first_of_kind(&pattern.template)?,
            runs,
            equal_failures,
            last_success,
            retries,
            similar,
            streak: self.streak(hash)?,
            estimate: self.estimate_with(pattern, &samples)?,
            host: ssh.map(|ssh| self.host(&ssh.host)).transpose()?,
            remote: remote.map(|remote| self.remote(&remote.template)).transpose()?,
            failures: self.failures(&pattern.template, session)?,
        })
    }

    fn is_first_of_kind(&self, template: &str) -> rusqlite::Result<bool> {
        let mut queued = self.observations();
        if queued.any(|row| row.command_template.as_deref() == Some(template)) {
            return Ok(false);
        }
        let sql = "SELECT 1 FROM template_totals WHERE command_template = ?1 AND runs > 0";
        Ok(self.first(sql, [template], |_| Ok(()))?.is_none())
    }

    /// Counts the kills of a kind of command.
    pub(super) fn kills(&self, template: &str, session: &str) -> rusqlite::Result<KillCounts> {
        let recent = self.recent("command_template", session, template, 0.0, SESSION_RUNS)?;
        let sql = "SELECT kills, runs FROM template_totals WHERE command_template = ?1";
        let counts = self.first(sql, [template], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let (mut kills, mut runs): (i64, i64) = counts.unwrap_or_default();
        for row in self.observations() {
            if row.command_template.as_deref() == Some(template) {
                runs += 1;
                kills += i64::from(row.outcome() == Outcome::Killed);
            }
        }
        Ok(KillCounts {
            kills: kills.unsigned_abs(),
            runs: runs.unsigned_abs(),
            session_kills: recent.iter().filter(|o| **o == Outcome::Killed).count() as u64,
        })
    }

    /// Counts the consecutive failures of a kind in this session.
    pub(super) fn failures(&self, template: &str, session: &str) -> rusqlite::Result<u32> {
        let ends_streak = |outcome: &Outcome| *outcome == Outcome::Success;
        let most = RUNS_CONSIDERED;
        let recent =
            self.recent_up_to(ends_streak, "command_template", session, template, 0.0, most)?;
        Ok(failures_in_a_row(recent))
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

    /// Estimates how long a command takes.
    pub(super) fn estimate(&self, pattern: &CommandPattern) -> rusqlite::Result<Option<Estimate>> {
        let newest = self.newest_runs(&pattern.hash, 0.0)?;
        self.estimate_with(pattern, &newest.samples)
    }

    /// Estimates how long a command takes from its runs, or from the runs of its kind if there are
    /// too few. Prefers the kind with a possible subcommand if that has enough runs.
    fn estimate_with(
        &self,
        pattern: &CommandPattern,
        exact: &[(Outcome, Sample)],
    ) -> rusqlite::Result<Option<Estimate>> {
        let exact: Vec<Sample> = exact.iter().map(|(_, sample)| *sample).collect();
        if suffices_alone(&exact) {
            return Ok(Estimate::new(&pattern.template, &exact, &[]));
        }
        if let Some(kind) = &pattern.subcommand_template {
            let alike = self.samples(Key::Subcommand, kind)?;
            if can_estimate(&alike) {
                return Ok(Estimate::new(kind, &exact, &alike));
            }
        }
        let alike = self.samples(Key::Template, &pattern.template)?;
        Ok(Estimate::new(&pattern.template, &exact, &alike))
    }

    /// The median duration of a command's successes, in seconds.
    pub(super) fn usual_success(&self, hash: &str) -> rusqlite::Result<Option<f64>> {
        let runs = self.newest_runs(hash, 0.0)?.samples.into_iter();
        let successes = runs.filter(|(outcome, _)| *outcome == Outcome::Success);
        let mut successes: Vec<f64> = successes.map(|(_, sample)| sample.seconds).collect();
        successes.sort_by(f64::total_cmp);
        Ok(successes.get(successes.len() / 2).copied())
    }

    /// The newest runs of a kind that have a duration.
    fn samples(&self, key: Key, value: &str) -> rusqlite::Result<Vec<Sample>> {
        let queued = self.observations_newest_first();
        let queued = queued.filter(|row| key.of(row) == Some(value));
        let queued = queued.filter_map(|row| Sample::of_run(row.duration_ms, row.outcome()));
        let mut samples: Vec<Sample> = queued.take(RUNS_CONSIDERED).collect();
        let (key, index) = (key.column(), key.index());
        let sql = format!(
            "SELECT duration_ms, outcome_type, timed_out, exit_code
             FROM observations INDEXED BY {index}
             WHERE {key} = ?1 AND duration_ms > 0 ORDER BY created_at DESC LIMIT ?2"
        );
        let left = RUNS_CONSIDERED.saturating_sub(samples.len()) as i64;
        let stored = self.rows(&sql, params![value, left], |row| {
            Ok(Sample::of_run(row.get(0)?, outcome_at(row, 1)?))
        })?;
        samples.extend(stored.into_iter().flatten());
        Ok(samples)
    }

    /// The newest runs of a command, in one pass over an index that contains what is read.
    fn newest_runs(&self, hash: &str, now: f64) -> rusqlite::Result<NewestRuns> {
        let mut newest = NewestRuns::default();
        let queued = self.observations_newest_first();
        let mut left = RUNS_READ as i64;
        for row in queued.filter(|row| row.command_hash == hash).take(RUNS_READ) {
            let run = PastRun { outcome: row.outcome(), age: age(&row.created_at, now) };
            if newest.last_success.is_none() && run.outcome == Outcome::Success {
                newest.last_success =
                    Some(RunPlace { cwd: row.cwd.clone(), git_head: row.git_head.clone() });
            }
            newest.add(run, row.duration_ms, row.failure_fingerprint.as_deref());
            left -= 1;
        }
        let mut stored_success: Option<i64> = None;
        self.each(
            "SELECT outcome_type, timed_out, exit_code, created_at, duration_ms,
                    failure_fingerprint, rowid
             FROM observations INDEXED BY idx_hash_runs
             WHERE command_hash = ?1 ORDER BY created_at DESC LIMIT ?2",
            params![hash, left],
            |row| {
                let created_at = row.get_ref(3)?.as_str().unwrap_or_default();
                let run = PastRun { outcome: outcome_at(row, 0)?, age: age(created_at, now) };
                if stored_success.is_none() && run.outcome == Outcome::Success {
                    stored_success = Some(row.get(6)?);
                }
                newest.add(run, row.get(4)?, row.get_ref(5)?.as_str_or_null()?);
                let is_complete = newest.is_complete();
                Ok(if is_complete { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
            },
        )?;
        if let Some(rowid) = stored_success
            && newest.last_success.is_none()
        {
            let sql = "SELECT cwd, git_head FROM observations WHERE rowid = ?1";
            newest.last_success = self.first(sql, [rowid], |row| {
                Ok(RunPlace { cwd: row.get(0)?, git_head: row.get(1)? })
            })?;
        }
        Ok(newest)
    }

    /// Outcomes of a session's runs with this value in the column `key`, newest first.
    fn recent(
        &self,
        key: &str,
        session: &str,
        value: &str,
        since: f64,
        limit: usize,
    ) -> rusqlite::Result<Vec<Outcome>> {
        self.recent_up_to(|_| false, key, session, value, since, limit)
    }

    /// Like [`Self::recent`], but may stop after an outcome for which `is_last` is true.
    fn recent_up_to(
        &self,
        is_last: impl Fn(&Outcome) -> bool,
        key: &str,
        session: &str,
        value: &str,
        since: f64,
        limit: usize,
    ) -> rusqlite::Result<Vec<Outcome>> {
        let by_hash = key == "command_hash";
        let queued = self.queued_runs().rev().map(|rows| &rows.recent);
        let mut outcomes: Vec<Outcome> = queued
            .filter(|row| row.session_id == session && row.timestamp > since)
            .filter(|row| {
                if by_hash {
                    row.command_hash == value
                } else {
                    row.command_template.as_deref() == Some(value)
                }
            })
            .map(RecentCommand::outcome)
            .take(limit)
            .collect();
        let index = if by_hash { "idx_session_hash" } else { "idx_session_template" };
        let sql = format!(
            "SELECT outcome_type, timed_out, success
             FROM recent_commands INDEXED BY {index}
             WHERE session_id = ?1 AND {key} = ?2 AND timestamp > ?3
             ORDER BY timestamp DESC LIMIT ?4"
        );
        let left = limit.saturating_sub(outcomes.len()) as i64;
        if outcomes.iter().any(&is_last) {
            return Ok(outcomes);
        }
        self.each(&sql, params![session, value, since, left], |row| {
            let outcome = match named_outcome_at(row, 0)? {
                Some(outcome) => outcome,
                None => {
                    let timed_out = row.get::<_, Option<bool>>(1)?.unwrap_or_default();
                    let success = row.get::<_, Option<bool>>(2)?.unwrap_or_default();
                    RecentCommand::outcome_of(None, timed_out, success)
                }
            };
            outcomes.push(outcome);
            let is_last = is_last(&outcome);
            Ok(if is_last { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })?;
        Ok(outcomes)
    }

    fn streak(&self, hash: &str) -> rusqlite::Result<Streak> {
        let mut streak = match self.connection {
            Some(connection) => tables::streak(connection, hash)?,
            None => Streak { command_hash: hash.to_owned(), ..Streak::default() },
        };
        for rows in self.queued_runs() {
            if rows.recent.command_hash == hash {
                streak.add(rows.outcome(), rows.recent.timestamp);
            }
        }
        Ok(streak)
    }

    fn host(&self, host: &str) -> rusqlite::Result<HostHistory> {
        let mut found = HostHistory { host: host.to_owned(), ..HostHistory::default() };
        let mut add = |exit: Option<&str>| {
            found.tries += 1;
            found.failed += u64::from(exit == Some(ExitType::ConnectionFailed.name()));
        };
        for row in self.ssh_rows().filter(|row| row.host == host) {
            add(row.exit_type.as_deref());
        }
        self.each(
            "SELECT exit_type FROM ssh_observations INDEXED BY idx_host_time
             WHERE host = ?1 ORDER BY created_at DESC LIMIT ?2",
            params![host, TRIES_CONSIDERED as i64],
            |row| {
                add(row.get_ref(0)?.as_str_or_null()?);
                Ok(ControlFlow::Continue(()))
            },
        )?;
        Ok(found)
    }

    fn remote(&self, template: &str) -> rusqlite::Result<RemoteHistory> {
        let (mut runs, mut failed) = (0, 0);
        let mut hosts: HashSet<String> = HashSet::new();
        let mut add = |exit: Option<&str>, host: &str| {
            if exit == Some(ExitType::ConnectionFailed.name()) {
                return;
            }
            runs += 1;
            failed += u64::from(exit == Some(ExitType::CommandFailed.name()));
            if !hosts.contains(host) {
                hosts.insert(host.to_owned());
            }
        };
        let of_kind =
            |row: &&SshObservation| row.remote_command_template.as_deref() == Some(template);
        for row in self.ssh_rows().filter(of_kind) {
            add(row.exit_type.as_deref(), &row.host);
        }
        self.each(
            "SELECT exit_type, host FROM ssh_observations INDEXED BY idx_remote_time
             WHERE remote_command_template = ?1 ORDER BY created_at DESC LIMIT ?2",
            params![template, TRIES_CONSIDERED as i64],
            |row| {
                add(row.get_ref(0)?.as_str_or_null()?, row.get_ref(1)?.as_str()?);
                Ok(ControlFlow::Continue(()))
            },
        )?;
        let hosts = hosts.len() as u64;
        Ok(RemoteHistory { template: template.to_owned(), runs, failed, hosts })
    }

    fn queued_runs(&self) -> impl DoubleEndedIterator<Item = &RunRows> {
        self.queued.iter().filter_map(|queued| match Arc::as_ref(&queued.job) {
            Job::Run(rows) => Some(rows.as_ref()),
            Job::Options(_) => None,
        })
    }

    fn observations(&self) -> impl Iterator<Item = &Observation> {
        self.queued_runs().flat_map(|rows| &rows.observations)
    }

    pub(super) fn observations_newest_first(&self) -> impl Iterator<Item = &Observation> {
        let runs = self.queued_runs().rev();
        runs.flat_map(|rows| rows.observations.iter().rev())
    }

    fn ssh_rows(&self) -> impl Iterator<Item = &SshObservation> {
        self.queued_runs().filter_map(|rows| rows.ssh.as_ref())
    }
}

/// Reads the outcome from three consecutive columns: `outcome_type`, `timed_out`,
/// `exit_code`.
pub(super) fn outcome_at(row: &Row<'_>, first: usize) -> rusqlite::Result<Outcome> {
    if let Some(outcome) = named_outcome_at(row, first)? {
        return Ok(outcome);
    }
    let timed_out = row.get::<_, Option<bool>>(first + 1)?.unwrap_or_default();
    Ok(Outcome::of_row(None, timed_out, row.get(first + 2)?))
}

/// Reads the outcome from the column `outcome_type`, which all but old rows have. The other columns
/// are not read then, since a call reads hundreds of rows.
fn named_outcome_at(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<Outcome>> {
    Ok(row.get_ref(column)?.as_str_or_null()?.and_then(Outcome::named))
}

/// The age in seconds; an unreadable time counts as 1970.
fn age(created_at: &str, now: f64) -> f64 {
    now - seconds_of(created_at).unwrap_or_default()
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
        assert_eq!(checked, 14, "statements found");
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
        let view = ReadView::new(Some(&database), "me", queued.clone()).expect("a view");
        let now = unix_seconds(SystemTime::now());
        let history = view.history(&pattern("make"), "s", now).expect("a history");
        assert_eq!((history.runs.len(), history.streak.current_streak), (3, 3));
        assert_eq!(history.retries.len(), 3);
        assert_eq!(view.kills("make *", "s").expect("counts").runs, 3);
        let other = ReadView::new(Some(&database), "other", queued).expect("a view");
        assert_eq!(other.kills("make *", "s").expect("counts").runs, 5, "its own queue");
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
        let view = ReadView::new(Some(&database), "me", Vec::new()).expect("a view");
        let newest = view.newest_runs("h", 0.0).expect("runs");
        assert_eq!((newest.runs.len(), newest.samples.len()), (RUNS_CONSIDERED, RUNS_CONSIDERED));
        let history = History { equal_failures: newest.equal_failures, ..History::default() };
        assert_eq!(history.same_failures("no"), RUNS_CONSIDERED as u32 + 1);
        let place = newest.last_success.expect("a success");
        assert_eq!(place.cwd.as_deref(), Some("/299"));
        insert(500..600, None, 1);
        let newest = view.newest_runs("h", 0.0).expect("runs");
        assert_eq!(newest.samples.len(), RUNS_READ - 300, "no further back than that");
    }

    #[test]
    fn a_view_without_a_database_is_empty_and_does_not_fail() {
        let view = ReadView::new(None, "me", Vec::new()).expect("a view");
        let pattern = CommandPattern {
            ssh: Some(Ssh { host: "h".to_owned(), remote: Some(RemoteCommand::default()) }),
            ..CommandPattern::default()
        };
        let history = view.history(&pattern, "s", 0.0).expect("a history");
        assert!(!history.is_known() && history.estimate.is_none());
        assert_eq!(view.kills("t", "s").expect("counts"), KillCounts::default());
    }
}
