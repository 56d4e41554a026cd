//! One consistent look at the database and at what this server has queued beyond it.
//!
//! The queue is copied first, then the database is read in one transaction; the number
//! that the writer left in it says which of the copies it already holds. Every query is
//! bounded and goes by an index.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension, Row, params};

use super::queue::{Job, Queued};
use super::write;
use crate::alan::estimate::{Estimate, RUNS_CONSIDERED, Sample, is_enough};
use crate::alan::history::{
    History, HostHistory, PastRun, Place, RETRY_WINDOW_MINUTES, RemoteHistory, failures_in_a_row,
};
use crate::alan::insight::after::programs_of;
use crate::alan::outcome::Outcome;
use crate::alan::pattern::Pattern;
use crate::alan::rows::{Observation, RecentCommand, SshObservation, Streak, seconds_of};
use crate::alan::run::RunRows;
use crate::shell::ssh::ExitType;

/// So many of the newest runs of the kind are compared with, where there are more.
const SIMILAR: usize = 5;
/// A session's runs of a kind that are looked at when its kills are counted.
const SESSION_RUNS: usize = 1000;
/// So many kinds of commands are looked through for known programs.
const PROGRAMS: usize = 2000;

/// How many kills of a kind of command are remembered.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct KillCounts {
    /// Its kills …
    pub kills: u64,
    /// … of so many runs.
    pub runs: u64,
    /// Its kills in this session.
    pub session_kills: u64,
}

/// A look, for as long as the read transaction lasts.
pub struct Look<'a> {
    connection: Option<&'a Connection>,
    /// What the database does not hold yet, oldest first.
    queued: Vec<Queued>,
}

impl<'a> Look<'a> {
    /// A look at this database (`None`: it cannot be read) and at copies of the queue
    /// that were made before its transaction began.
    ///
    /// # Errors
    /// As SQLite.
    pub fn new(
        connection: Option<&'a Connection>,
        instance: &str,
        queued: Vec<Queued>,
    ) -> rusqlite::Result<Look<'a>> {
        let written = match connection {
            Some(connection) if !queued.is_empty() => connection
                .prepare_cached("SELECT sequence FROM written WHERE instance = ?1")?
                .query_row([instance], |row| row.get::<_, i64>(0))
                .optional()?,
            _ => None,
        };
        let written = written.and_then(|sequence| u64::try_from(sequence).ok());
        let written = written.unwrap_or_default();
        let mut queued = queued;
        queued.retain(|queued| queued.sequence > written);
        Ok(Look { connection, queued })
    }

    /// All that is remembered of a command.
    ///
    /// # Errors
    /// As SQLite.
    pub fn history(&self, pattern: &Pattern, session: &str, now: f64) -> rusqlite::Result<History> {
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
            runs,
            last_success,
            retries,
            similar,
            streak: self.streak(hash)?,
            estimate: self.estimate(pattern)?,
            host: ssh.map(|ssh| self.host(&ssh.host)).transpose()?,
            remote: remote
                .map(|remote| self.remote(&remote.template))
                .transpose()?,
            failures: self.failures(&pattern.template, session)?,
        })
    }

    /// How long a command takes.
    ///
    /// # Errors
    /// As SQLite.
    pub fn estimate(&self, pattern: &Pattern) -> rusqlite::Result<Option<Estimate>> {
        let exact = self.samples("command_hash", &pattern.hash)?;
        let alike = if is_enough(&exact) {
            Vec::new()
        } else {
            self.samples("command_template", &pattern.template)?
        };
        Ok(Estimate::new(&pattern.template, &exact, &alike))
    }

    /// The median duration of a command's successes, in seconds.
    ///
    /// # Errors
    /// As SQLite.
    pub fn usual_success(&self, hash: &str) -> rusqlite::Result<Option<f64>> {
        let rows = self.duration_rows("command_hash", hash)?;
        let mut successes: Vec<f64> = rows
            .into_iter()
            .filter(|(_, outcome)| *outcome == Outcome::Success)
            .filter_map(|(duration, outcome)| Sample::of_run(duration, outcome))
            .map(|sample| sample.seconds)
            .collect();
        successes.sort_by(f64::total_cmp);
        Ok(successes.get(successes.len() / 2).copied())
    }

    /// Kills of a kind of command.
    ///
    /// # Errors
    /// As SQLite.
    pub fn kills(&self, template: &str, session: &str) -> rusqlite::Result<KillCounts> {
        let recent = self.recent("command_template", session, template, 0.0, SESSION_RUNS)?;
        let counts = match self.connection {
            Some(connection) => connection
                .prepare_cached(
                    "SELECT kills, runs FROM template_totals WHERE command_template = ?1",
                )?
                .query_row([template], |row| Ok((row.get(0)?, row.get(1)?)))
                .optional()?,
            None => None,
        };
        let (mut kills, mut runs): (i64, i64) = counts.unwrap_or_default();
        for row in self.observations() {
            if row.command_template.as_deref() == Some(template) {
                runs += 1;
                kills += i64::from(row.outcome() == Outcome::Killed);
            }
        }
        Ok(KillCounts {
            kills: u64::try_from(kills).unwrap_or_default(),
            runs: u64::try_from(runs).unwrap_or_default(),
            session_kills: recent.iter().filter(|o| **o == Outcome::Killed).count() as u64,
        })
    }

    /// Failures of a kind in a row in this session.
    ///
    /// # Errors
    /// As SQLite.
    pub fn failures(&self, template: &str, session: &str) -> rusqlite::Result<u32> {
        let recent = self.recent("command_template", session, template, 0.0, RUNS_CONSIDERED)?;
        Ok(failures_in_a_row(recent))
    }

    /// The cached table of a command's options.
    ///
    /// # Errors
    /// As SQLite.
    pub fn options(&self, command: &str) -> rusqlite::Result<Option<String>> {
        for queued in self.queued.iter().rev() {
            if let Job::Options(options) = queued.job.as_ref()
                && options.base_command == command
            {
                return Ok(Some(options.options_text.clone()));
            }
        }
        match self.connection {
            Some(connection) => connection
                .prepare_cached("SELECT options_text FROM manopt_cache WHERE base_command = ?1")?
                .query_row([command], |row| row.get(0))
                .optional(),
            None => Ok(None),
        }
    }

    /// The programs of commands that have succeeded.
    ///
    /// # Errors
    /// As SQLite.
    pub fn programs(&self) -> rusqlite::Result<Vec<String>> {
        let successes = self.observations();
        let successes = successes.filter(|row| row.outcome() == Outcome::Success);
        let mut templates: Vec<String> = successes
            .filter_map(|row| row.command_template.clone())
            .collect();
        if let Some(connection) = self.connection {
            let mut found = connection.prepare_cached(
                "SELECT command_template FROM template_totals WHERE successes > 0 LIMIT ?1",
            )?;
            let rows = found.query_map([PROGRAMS as i64], |row| row.get::<_, String>(0))?;
            for template in rows {
                templates.push(template?);
            }
        }
        let programs: BTreeSet<String> = templates
            .iter()
            .flat_map(|template| programs_of(template))
            .map(str::to_owned)
            .collect();
        Ok(programs.into_iter().collect())
    }

    /// The newest runs of a command, newest first, and where it last succeeded.
    fn runs(&self, hash: &str, now: f64) -> rusqlite::Result<(Vec<PastRun>, Option<Place>)> {
        let queued = self.observations_newest_first();
        let queued = queued.filter(|row| row.command_hash == hash);
        let (mut runs, mut success) = (Vec::new(), None);
        for row in queued.take(RUNS_CONSIDERED) {
            let run = past_run_of(row, now);
            if success.is_none() && run.outcome == Outcome::Success {
                success = Some(Place {
                    cwd: row.cwd.clone(),
                    git_head: row.git_head.clone(),
                });
            }
            runs.push(run);
        }
        if let Some(connection) = self.connection {
            let mut found = connection.prepare_cached(
                "SELECT outcome_type, timed_out, exit_code, created_at, failure_fingerprint, rowid
                 FROM observations INDEXED BY idx_hash_time
                 WHERE command_hash = ?1 ORDER BY created_at DESC LIMIT ?2",
            )?;
            let left = RUNS_CONSIDERED.saturating_sub(runs.len()) as i64;
            let found = found.query_map(params![hash, left], |row| {
                Ok((past_run(row, now)?, row.get::<_, i64>(5)?))
            })?;
            for row in found {
                let (run, id) = row?;
                if success.is_none() && run.outcome == Outcome::Success {
                    success = Some(place(connection, id)?);
                }
                runs.push(run);
            }
        }
        Ok((runs, success))
    }

    fn samples(&self, key: &str, value: &str) -> rusqlite::Result<Vec<Sample>> {
        let rows = self.duration_rows(key, value)?.into_iter();
        Ok(rows
            .filter_map(|(duration, outcome)| Sample::of_run(duration, outcome))
            .collect())
    }

    /// Durations of the newest runs of a command or of a kind, newest first.
    fn duration_rows(
        &self,
        key: &str,
        value: &str,
    ) -> rusqlite::Result<Vec<(Option<i64>, Outcome)>> {
        let by_hash = key == "command_hash";
        let queued = self.observations_newest_first();
        let mut rows: Vec<(Option<i64>, Outcome)> = queued
            .filter(|row| match by_hash {
                true => row.command_hash == value,
                false => row.command_template.as_deref() == Some(value),
            })
            .filter(|row| row.duration_ms > Some(0))
            .map(|row| (row.duration_ms, row.outcome()))
            .take(RUNS_CONSIDERED)
            .collect();
        if let Some(connection) = self.connection {
            let index = if by_hash {
                "idx_hash_runs"
            } else {
                "idx_template_runs"
            };
            let mut found = connection.prepare_cached(&format!(
                "SELECT duration_ms, outcome_type, timed_out, exit_code
                 FROM observations INDEXED BY {index}
                 WHERE {key} = ?1 AND duration_ms > 0 ORDER BY created_at DESC LIMIT ?2"
            ))?;
            let left = RUNS_CONSIDERED.saturating_sub(rows.len()) as i64;
            let found = found.query_map(params![value, left], |row| {
                Ok((row.get(0)?, outcome_at(row, 1)?))
            })?;
            for row in found {
                rows.push(row?);
            }
        }
        Ok(rows)
    }

    /// Outcomes of this session's runs of a command or of a kind, newest first.
    fn recent(
        &self,
        key: &str,
        session: &str,
        value: &str,
        since: f64,
        most: usize,
    ) -> rusqlite::Result<Vec<Outcome>> {
        let by_hash = key == "command_hash";
        let queued = self.queued_runs().rev().map(|rows| &rows.recent);
        let mut outcomes: Vec<Outcome> = queued
            .filter(|row| row.session_id == session && row.timestamp > since)
            .filter(|row| match by_hash {
                true => row.command_hash == value,
                false => row.command_template.as_deref() == Some(value),
            })
            .map(RecentCommand::outcome)
            .take(most)
            .collect();
        if let Some(connection) = self.connection {
            let index = if by_hash {
                "idx_session_hash"
            } else {
                "idx_session_template"
            };
            let mut found = connection.prepare_cached(&format!(
                "SELECT outcome_type, timed_out, success
                 FROM recent_commands INDEXED BY {index}
                 WHERE session_id = ?1 AND {key} = ?2 AND timestamp > ?3
                 ORDER BY timestamp DESC LIMIT ?4"
            ))?;
            let left = most.saturating_sub(outcomes.len()) as i64;
            let found = found.query_map(params![session, value, since, left], |row| {
                let row = RecentCommand {
                    outcome_type: row.get(0)?,
                    timed_out: row.get::<_, Option<bool>>(1)?.unwrap_or_default(),
                    success: row.get::<_, Option<bool>>(2)?.unwrap_or_default(),
                    ..RecentCommand::default()
                };
                Ok(row.outcome())
            })?;
            for outcome in found {
                outcomes.push(outcome?);
            }
        }
        Ok(outcomes)
    }

    fn streak(&self, hash: &str) -> rusqlite::Result<Streak> {
        let mut streak = match self.connection {
            Some(connection) => write::streak(connection, hash)?,
            None => Streak {
                command_hash: hash.to_owned(),
                ..Streak::default()
            },
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
        if let Some(connection) = self.connection {
            let mut found = connection.prepare_cached(
                "SELECT exit_type FROM ssh_observations INDEXED BY idx_host_time
                 WHERE host = ?1 ORDER BY created_at DESC LIMIT ?2",
            )?;
            let found = found.query_map(params![host, RUNS_CONSIDERED as i64], |row| row.get(0))?;
            for exit in found {
                exits.push(exit?);
            }
        }
        let failed = exits
            .iter()
            .filter(|exit| is(exit, ExitType::ConnectionFailed));
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
        let mut rows: Vec<(Option<String>, String)> = queued
            .map(|row| (row.exit_type.clone(), row.host.clone()))
            .collect();
        if let Some(connection) = self.connection {
            let mut found = connection.prepare_cached(
                "SELECT exit_type, host FROM ssh_observations INDEXED BY idx_remote_time
                 WHERE remote_command_template = ?1 ORDER BY created_at DESC LIMIT ?2",
            )?;
            let found = found.query_map(params![template, RUNS_CONSIDERED as i64], |row| {
                Ok((row.get(0)?, row.get(1)?))
            })?;
            for row in found {
                rows.push(row?);
            }
        }
        rows.retain(|(exit, _)| !is(exit, ExitType::ConnectionFailed));
        let failed = rows
            .iter()
            .filter(|(exit, _)| is(exit, ExitType::CommandFailed));
        let hosts: HashSet<&str> = rows.iter().map(|(_, host)| host.as_str()).collect();
        Ok(RemoteHistory {
            template: template.to_owned(),
            runs: rows.len() as u64,
            failed: failed.count() as u64,
            hosts: hosts.len() as u64,
        })
    }

    fn queued_runs(&self) -> impl DoubleEndedIterator<Item = &RunRows> {
        self.queued
            .iter()
            .filter_map(|queued| match Arc::as_ref(&queued.job) {
                Job::Run(rows) => Some(rows.as_ref()),
                Job::Options(_) => None,
            })
    }

    fn observations(&self) -> impl Iterator<Item = &Observation> {
        self.queued_runs().flat_map(|rows| &rows.observations)
    }

    fn observations_newest_first(&self) -> impl Iterator<Item = &Observation> {
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

/// The outcome of three columns from this one on: `outcome_type`, `timed_out`,
/// `exit_code`.
pub(super) fn outcome_at(row: &Row<'_>, first: usize) -> rusqlite::Result<Outcome> {
    let observation = Observation {
        outcome_type: row.get(first)?,
        timed_out: row.get::<_, Option<bool>>(first + 1)?.unwrap_or_default(),
        exit_code: row.get(first + 2)?,
        ..Observation::default()
    };
    Ok(observation.outcome())
}

fn past_run(row: &Row<'_>, now: f64) -> rusqlite::Result<PastRun> {
    Ok(PastRun {
        outcome: outcome_at(row, 0)?,
        age: age(row.get_ref(3)?.as_str().unwrap_or_default(), now),
        fingerprint: row.get(4)?,
    })
}

fn past_run_of(row: &Observation, now: f64) -> PastRun {
    PastRun {
        outcome: row.outcome(),
        age: age(&row.created_at, now),
        fingerprint: row.failure_fingerprint.clone(),
    }
}

/// Where the run of a row was.
fn place(connection: &Connection, row: i64) -> rusqlite::Result<Place> {
    connection
        .prepare_cached("SELECT cwd, git_head FROM observations WHERE rowid = ?1")?
        .query_row([row], |row| {
            Ok(Place {
                cwd: row.get(0)?,
                git_head: row.get(1)?,
            })
        })
}

/// In seconds; a time that cannot be read is as old as can be.
fn age(created_at: &str, now: f64) -> f64 {
    now - seconds_of(created_at).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;
    use crate::alan::outcome::Ending;
    use crate::alan::pattern::{RemoteCommand, Ssh};
    use crate::alan::rows::unix_seconds;
    use crate::alan::run::Run;
    use crate::alan::run::tests::{ended, pattern};
    use crate::alan::schema;
    use crate::alan::schema::tests::derivation;
    use crate::text::redact::Redactor;

    /// What SQLite plans for every statement that a look prepares.
    #[test]
    fn no_query_of_a_call_scans_a_table_or_sorts() {
        let mut database = Connection::open_in_memory().expect("memory");
        schema::migrate(&mut database, &derivation(1)).expect("schema");
        let text = include_str!("look.rs");
        let mut checked = 0;
        for sql in statements(text) {
            let mut plan = database
                .prepare(&format!("EXPLAIN QUERY PLAN {sql}"))
                .expect(&sql);
            let values = vec![rusqlite::types::Value::Integer(1); plan.parameter_count()];
            let steps: Vec<String> = plan
                .query_map(rusqlite::params_from_iter(values), |row| row.get(3))
                .expect("a plan")
                .map(|step| step.expect("a step"))
                .collect();
            checked += 1;
            for step in &steps {
                // The one list that is cut to a fixed length and read in any order.
                let bounded = sql.contains("successes > 0");
                assert!(step.starts_with("SEARCH") || bounded, "{step} in {sql}");
                let many = sql.contains("LIMIT") && !bounded;
                let covered = step.contains("COVERING INDEX");
                assert!(covered || !many, "{step} looks up each row of {sql}");
            }
        }
        assert_eq!(checked, 13, "statements found");
    }

    /// The statements of this file, with every index and key filled in.
    fn statements(text: &str) -> Vec<String> {
        let program = text.split("#[cfg(test)]").next().unwrap_or_default();
        let mut found = Vec::new();
        for part in program
            .split('"')
            .filter(|part| part.starts_with("SELECT "))
        {
            let sql = part.to_owned();
            if sql.contains("{key}") {
                for key in ["command_hash", "command_template"] {
                    let kind = key.trim_start_matches("command_");
                    let index = if sql.contains("recent_commands") {
                        format!("idx_session_{kind}")
                    } else {
                        format!("idx_{kind}_runs")
                    };
                    found.push(sql.replace("{key}", key).replace("{index}", &index));
                }
            } else {
                found.push(sql);
            }
        }
        let streak = include_str!("write.rs").split('"');
        found.extend(
            streak
                .filter(|part| part.starts_with("SELECT "))
                .map(str::to_owned),
        );
        found
    }

    #[test]
    fn what_is_written_and_still_queued_counts_once() {
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
        write::batch(&mut database, "me", &queued[..2], 0.0).expect("written");
        let look = Look::new(Some(&database), "me", queued.clone()).expect("a look");
        let now = unix_seconds(SystemTime::now());
        let history = look.history(&pattern("make"), "s", now).expect("a history");
        assert_eq!((history.runs.len(), history.streak.current_streak), (3, 3));
        assert_eq!(history.retries.len(), 3);
        assert_eq!(look.kills("make *", "s").expect("counts").runs, 3);
        let other = Look::new(Some(&database), "other", queued).expect("a look");
        assert_eq!(
            other.kills("make *", "s").expect("counts").runs,
            5,
            "its own queue"
        );
    }

    #[test]
    fn a_look_without_a_database_sees_nothing_and_does_not_fail() {
        let look = Look::new(None, "me", Vec::new()).expect("a look");
        let pattern = Pattern {
            ssh: Some(Ssh {
                host: "h".to_owned(),
                remote: Some(RemoteCommand::default()),
            }),
            ..Pattern::default()
        };
        let history = look.history(&pattern, "s", 0.0).expect("a history");
        assert!(!history.is_known() && history.estimate.is_none());
        assert_eq!(look.kills("t", "s").expect("counts"), KillCounts::default());
    }
}
