//! Data for plots: the kinds of commands used most recently, and the durations and outcomes
//! of their last runs.
//!
//! Reads at most [`ROWS_CONSIDERED`] rows by time and [`RUNS_CONSIDERED`] rows of each kind, both
//! by an index, whatever the size of the database. Limits: queued runs and segments of pipelines
//! are not included.

use std::collections::HashMap;

use rusqlite::{Connection, params};

use super::Store;
use super::read::outcome_at;
use crate::alan::estimate::{Estimate, RUNS_CONSIDERED, Sample};
use crate::alan::rows::seconds_of;
use crate::shell::outcome::Outcome;

/// How many of the newest rows to count when choosing the kinds.
const ROWS_CONSIDERED: usize = 1000;

/// The last runs of a kind of command.
#[derive(Debug, Clone, PartialEq)]
pub struct Plot {
    /// The kind of command.
    pub template: String,
    /// Newest first.
    pub runs: Vec<PlottedRun>,
    /// Seconds within which half of the runs finish; `None` if there are too few runs.
    pub median: Option<f64>,
    /// Seconds within which nine in ten runs finish.
    pub p90: Option<f64>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct PlottedRun {
    /// When it ended, in seconds since 1970.
    pub at: f64,
    pub duration_ms: i64,
    pub outcome: Outcome,
}

impl Store {
    /// At most `kinds` kinds, the most used first, each with at most `runs` of its last runs.
    /// Empty if the database cannot be read.
    pub fn plots(&self, kinds: usize, runs: usize) -> Vec<Plot> {
        self.wait_until_written();
        self.read(|connection| plots(connection, kinds, runs)).unwrap_or_default()
    }
}

pub(super) fn plots(
    connection: &Connection,
    kinds: usize,
    runs: usize,
) -> rusqlite::Result<Vec<Plot>> {
    let templates = most_used(connection, kinds)?;
    templates.into_iter().map(|template| plot(connection, template, runs)).collect()
}

/// The kinds of the newest rows, the most frequent first; among equally frequent kinds, the most
/// recently used first.
fn most_used(connection: &Connection, limit: usize) -> rusqlite::Result<Vec<String>> {
    let mut newest = connection.prepare_cached(
        "SELECT command_template, duration_ms FROM observations
         ORDER BY created_at DESC LIMIT ?1",
    )?;
    let rows = newest.query_map(params![ROWS_CONSIDERED as i64], |row| {
        Ok((row.get::<_, Option<String>>(0)?, row.get::<_, Option<i64>>(1)?))
    })?;
    let mut counts: HashMap<String, (usize, usize)> = HashMap::new();
    for (index, row) in rows.enumerate() {
        if let (Some(template), Some(1..)) = row? {
            counts.entry(template).or_insert((0, index)).0 += 1;
        }
    }
    let mut found: Vec<(String, (usize, usize))> = counts.into_iter().collect();
    found.sort_by_key(|(_, (count, last))| (std::cmp::Reverse(*count), *last));
    found.truncate(limit);
    Ok(found.into_iter().map(|(template, _)| template).collect())
}

fn plot(connection: &Connection, template: String, max_runs: usize) -> rusqlite::Result<Plot> {
    let mut newest = connection.prepare_cached(
        "SELECT duration_ms, outcome_type, timed_out, exit_code, created_at
         FROM observations INDEXED BY idx_template_runs
         WHERE command_template = ?1 AND duration_ms > 0 ORDER BY created_at DESC LIMIT ?2",
    )?;
    let rows = newest.query_map(params![template, RUNS_CONSIDERED as i64], |row| {
        let ended: String = row.get(4)?;
        Ok(PlottedRun {
            at: seconds_of(&ended).unwrap_or_default(),
            duration_ms: row.get(0)?,
            outcome: outcome_at(row, 1)?,
        })
    })?;
    let mut runs: Vec<PlottedRun> = rows.collect::<rusqlite::Result<_>>()?;
    let samples: Vec<Sample> = runs
        .iter()
        .filter_map(|run| Sample::from_run(Some(run.duration_ms), run.outcome))
        .collect();
    let estimate = Estimate::new(&template, &[], &samples);
    runs.truncate(max_runs);
    Ok(Plot {
        template,
        runs,
        median: estimate.as_ref().map(|estimate| estimate.median.seconds),
        p90: estimate.as_ref().map(|estimate| estimate.p90.seconds),
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::{Duration, SystemTime};

    use super::super::StoreSettings;
    use super::super::tests::flush;
    use super::*;
    use crate::alan::run::Ending;
    use crate::alan::run::Run;
    use crate::alan::run::tests::{ended, pattern};
    use crate::alan::schema;
    use crate::alan::schema::tests::derivation;
    use crate::neverhang::Rules;
    use crate::text::redact::Redactor;

    fn store(path: &Path) -> Store {
        Store::open(StoreSettings {
            path: path.to_path_buf(),
            session: "session".to_owned(),
            derivation: derivation(1),
            old_databases: Vec::new(),
            rules: Rules::default(),
        })
    }

    #[test]
    fn no_query_reads_more_rows_than_it_returns() {
        let mut database = Connection::open_in_memory().unwrap();
        schema::migrate(&mut database, &derivation(1)).unwrap();
        let program = include_str!("plots.rs");
        let program = program.split("#[cfg(test)]").next().unwrap();
        let statements = program.split('"').filter(|part| part.starts_with("SELECT "));
        let mut plans = Vec::new();
        for sql in statements {
            let mut plan = database.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
            let values = vec![rusqlite::types::Value::Integer(1); plan.parameter_count()];
            let steps = plan
                .query_map(rusqlite::params_from_iter(values), |row| row.get::<_, String>(3))
                .unwrap();
            plans.extend(steps.map(Result::unwrap));
        }
        assert_eq!(
            plans,
            [
                "SCAN observations USING INDEX idx_created_at",
                "SEARCH observations USING COVERING INDEX idx_template_runs \
                 (command_template=?)",
            ],
            "the first in the order of its index, which the limit ends; none sorts"
        );
    }

    #[test]
    fn the_kinds_used_most_come_first_with_their_last_runs() {
        let scratch = tempfile::tempdir().unwrap();
        let store = store(&scratch.path().join("alan.db"));
        let begin = SystemTime::now() - Duration::from_secs(1000);
        for (number, (command, ending)) in [
            ("rare", Ending::Exited(0)),
            ("make", Ending::Exited(0)),
            ("make", Ending::Exited(1)),
            ("make", Ending::TimedOut(124)),
            ("make", Ending::Exited(0)),
        ]
        .into_iter()
        .enumerate()
        {
            let number = number as u64;
            let mut run = ended(command, ending, begin + Duration::from_secs(number));
            run.duration = Duration::from_secs(number + 1);
            store.record(&Run::new(run, &Redactor::default()));
        }
        flush(&store);
        let plots = store.plots(30, 3);
        let names: Vec<&str> = plots.iter().map(|plot| plot.template.as_str()).collect();
        assert_eq!(names, [pattern("make").template, pattern("rare").template]);
        let make = &plots[0];
        let runs: Vec<(i64, Outcome)> =
            make.runs.iter().map(|run| (run.duration_ms, run.outcome)).collect();
        assert_eq!(
            runs,
            [(5000, Outcome::Success), (4000, Outcome::Timeout), (3000, Outcome::Failure)]
        );
        assert!((make.runs[0].at - make.runs[2].at - 2.0).abs() < 0.001);
        assert_eq!(make.median, Some(5.0), "the one that was cut off took longer than 4 s");
        assert_eq!(plots[1].median, None);
        assert_eq!(store.plots(1, 3).len(), 1);
    }
}
