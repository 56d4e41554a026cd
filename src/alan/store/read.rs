//! One consistent view of the database and this server's queue.
//!
//! The queue is copied first, then the database is read in one transaction. The writer stores
//! the number of the last entry it has written, so that no entry counts twice. Every query is
//! bounded and uses an index.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use rusqlite::{Connection, Params, Row, params};
use schemars::JsonSchema;
use serde::Serialize;

use super::queue::{Job, Queued};
use super::tables;
use crate::alan::estimate::{Estimate, RUNS_CONSIDERED, Sample, can_estimate, suffices_alone};
use crate::alan::history::{
    History, HostHistory, PastRun, RETRY_WINDOW_MINUTES, RemoteHistory, RunPlace, failures_in_a_row,
};
use crate::alan::insight::after::programs_of;
use crate::alan::pattern::CommandPattern;
use crate::alan::rows::{Observation, RecentCommand, SshObservation, Streak, seconds_of};
use crate::alan::run::RunRows;
use crate::shell::outcome::Outcome;
use crate::shell::ssh::ExitType;

/// How many of the newest runs of a kind are reported as similar.
const SIMILAR: usize = 5;
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
}

/// How to find the runs of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Key {
    /// The exact command.
    Command,
    /// Its kind including a word that may be a subcommand.
    Subcommand,
    Template,
}

/// All keys, the narrowest first.
#[cfg(test)]
const KEYS: [Key; 3] = [Key::Command, Key::Subcommand, Key::Template];

impl Key {
    fn column(self) -> &'static str {
        match self {
            Key::Command => "command_hash",
            Key::Subcommand => "subcommand_template",
            Key::Template => "command_template",
        }
    }

    fn index(self) -> &'static str {
        match self {
            Key::Command => "idx_hash_runs",
            Key::Subcommand => "idx_subcommand_runs",
            Key::Template => "idx_template_runs",
        }
    }

    fn of(self, row: &Observation) -> Option<&str> {
        match self {
            Key::Command => Some(&row.command_hash),
            Key::Subcommand => row.subcommand_template.as_deref(),
            Key::Template => row.command_template.as_deref(),
        }
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

    /// The rows of a query; none without a database.
    pub(super) fn rows<T>(
        &self,
        sql: &str,
        values: impl Params,
        read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> rusqlite::Result<Vec<T>> {
        self.rows_up_to(|_| false, sql, values, read)
    }

    /// Like [`Self::rows`], but reads no further than the first row for which `is_last` is true.
    fn rows_up_to<T>(
        &self,
        is_last: impl Fn(&T) -> bool,
        sql: &str,
        values: impl Params,
        read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> rusqlite::Result<Vec<T>> {
        let Some(connection) = self.connection else {
            return Ok(Vec::new());
        };
        let mut rows = Vec::new();
        for row in connection.prepare_cached(sql)?.query_map(values, read)? {
            rows.push(row?);
            if rows.last().is_some_and(&is_last) {
                break;
            }
        }
        Ok(rows)
    }

    /// The first row of a query.
    fn first<T>(
        &self,
        sql: &str,
        values: impl Params,
        read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> rusqlite::Result<Option<T>> {
        Ok(self.rows_up_to(|_| true, sql, values, read)?.pop())
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
        let (runs, last_success) = self.runs(hash, now)?;
        Ok(History {
            template: pattern.template.clone(),
            is_first_of_kind: runs.is_empty() && self.is_first_of_kind(&pattern.template)?,
            runs,
            last_success,
            retries,
            similar,
            streak: self.streak(hash)?,
            estimate: self.estimate(pattern)?,
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

    /// Estimates how long a command takes from its runs, or from the runs of its kind if there are
    /// too few. Prefers the kind with a possible subcommand if that has enough runs.
    pub(super) fn estimate(&self, pattern: &CommandPattern) -> rusqlite::Result<Option<Estimate>> {
        let exact = self.samples(Key::Command, &pattern.hash)?;
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
        let rows = self.durations(Key::Command, hash)?;
        let successes = rows.into_iter().filter(|(outcome, _)| *outcome == Outcome::Success);
        let mut successes: Vec<f64> = successes.map(|(_, sample)| sample.seconds).collect();
        successes.sort_by(f64::total_cmp);
        Ok(successes.get(successes.len() / 2).copied())
    }

    fn samples(&self, key: Key, value: &str) -> rusqlite::Result<Vec<Sample>> {
        let rows = self.durations(key, value)?;
        Ok(rows.into_iter().map(|(_, sample)| sample).collect())
    }

    /// The newest runs that have a duration.
    fn durations(&self, key: Key, value: &str) -> rusqlite::Result<Vec<(Outcome, Sample)>> {
        let sample = |outcome: Outcome, duration_ms: Option<i64>| {
            Sample::of_run(duration_ms, outcome).map(|sample| (outcome, sample))
        };
        let queued = self.observations_newest_first();
        let queued = queued.filter(|row| key.of(row) == Some(value));
        let queued = queued.filter_map(|row| sample(row.outcome(), row.duration_ms));
        let mut samples: Vec<(Outcome, Sample)> = queued.take(RUNS_CONSIDERED).collect();
        let (key, index) = (key.column(), key.index());
        let sql = format!(
            "SELECT duration_ms, outcome_type, timed_out, exit_code
             FROM observations INDEXED BY {index}
             WHERE {key} = ?1 AND duration_ms > 0 ORDER BY created_at DESC LIMIT ?2"
        );
        let left = RUNS_CONSIDERED.saturating_sub(samples.len()) as i64;
        let stored = self
            .rows(&sql, params![value, left], |row| Ok(sample(outcome_at(row, 1)?, row.get(0)?)))?;
        samples.extend(stored.into_iter().flatten());
        Ok(samples)
    }

    /// The newest runs of a command, newest first, and where it last succeeded.
    fn runs(&self, hash: &str, now: f64) -> rusqlite::Result<(Vec<PastRun>, Option<RunPlace>)> {
        let queued = self.observations_newest_first();
        let queued = queued.filter(|row| row.command_hash == hash);
        let (mut runs, mut success) = (Vec::new(), None);
        for row in queued.take(RUNS_CONSIDERED) {
            let run = PastRun {
                outcome: row.outcome(),
                age: age(&row.created_at, now),
                fingerprint: row.failure_fingerprint.clone(),
            };
            if success.is_none() && run.outcome == Outcome::Success {
                success = Some(RunPlace { cwd: row.cwd.clone(), git_head: row.git_head.clone() });
            }
            runs.push(run);
        }
        let left = RUNS_CONSIDERED.saturating_sub(runs.len()) as i64;
        let found = self.rows(
            "SELECT outcome_type, timed_out, exit_code, created_at, failure_fingerprint, rowid
             FROM observations INDEXED BY idx_hash_time
             WHERE command_hash = ?1 ORDER BY created_at DESC LIMIT ?2",
            params![hash, left],
            |row| {
                let run = PastRun {
                    outcome: outcome_at(row, 0)?,
                    age: age(row.get_ref(3)?.as_str().unwrap_or_default(), now),
                    fingerprint: row.get(4)?,
                };
                Ok((run, row.get::<_, i64>(5)?))
            },
        )?;
        for (run, rowid) in found {
            if success.is_none() && run.outcome == Outcome::Success {
                let sql = "SELECT cwd, git_head FROM observations WHERE rowid = ?1";
                success = self.first(sql, [rowid], |row| {
                    let (cwd, git_head) = (row.get(0)?, row.get(1)?);
                    Ok(RunPlace { cwd, git_head })
                })?;
            }
            runs.push(run);
        }
        Ok((runs, success))
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
        let values = params![session, value, since, left];
        outcomes.extend(self.rows_up_to(is_last, &sql, values, |row| {
            if let Some(outcome) = named_outcome_at(row, 0)? {
                return Ok(outcome);
            }
            let timed_out = row.get::<_, Option<bool>>(1)?.unwrap_or_default();
            let success = row.get::<_, Option<bool>>(2)?.unwrap_or_default();
            Ok(RecentCommand::outcome_of(None, timed_out, success))
        })?);
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
        let queued = self.ssh_rows().filter(|row| row.host == host);
        let mut exits: Vec<Option<String>> = queued.map(|row| row.exit_type.clone()).collect();
        exits.extend(self.rows(
            "SELECT exit_type FROM ssh_observations INDEXED BY idx_host_time
             WHERE host = ?1 ORDER BY created_at DESC LIMIT ?2",
            params![host, RUNS_CONSIDERED as i64],
            |row| row.get(0),
        )?);
        let failed = exits.iter().filter(|exit| is(exit, ExitType::ConnectionFailed));
        Ok(HostHistory {
            host: host.to_owned(),
            tries: exits.len() as u64,
            failed: failed.count() as u64,
        })
    }

    fn remote(&self, template: &str) -> rusqlite::Result<RemoteHistory> {
        let of_kind =
            |row: &&SshObservation| row.remote_command_template.as_deref() == Some(template);
        let queued = self.ssh_rows().filter(of_kind);
        let mut rows: Vec<(Option<String>, String)> =
            queued.map(|row| (row.exit_type.clone(), row.host.clone())).collect();
        rows.extend(self.rows(
            "SELECT exit_type, host FROM ssh_observations INDEXED BY idx_remote_time
             WHERE remote_command_template = ?1 ORDER BY created_at DESC LIMIT ?2",
            params![template, RUNS_CONSIDERED as i64],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )?);
        rows.retain(|(exit, _)| !is(exit, ExitType::ConnectionFailed));
        let failed = rows.iter().filter(|(exit, _)| is(exit, ExitType::CommandFailed));
        let hosts: HashSet<&str> = rows.iter().map(|(_, host)| host.as_str()).collect();
        Ok(RemoteHistory {
            template: template.to_owned(),
            runs: rows.len() as u64,
            failed: failed.count() as u64,
            hosts: hosts.len() as u64,
        })
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

fn is(exit: &Option<String>, kind: ExitType) -> bool {
    exit.as_deref() == Some(kind.name())
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
