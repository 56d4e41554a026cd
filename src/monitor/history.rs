//! What is remembered of commands, for plots: durations and ends of the kinds used most of
//! late, and circuits that are not closed or remember timeouts.

use serde::Serialize;

use super::session::millis;
use crate::alan::outcome::Outcome;
use crate::alan::store::plots::{Plot, PlottedRun};
use crate::neverhang::State;
use crate::record::consultation::Standing;
use crate::record::recorder::Recorder;

/// Kinds of commands that are shown …
const MOST_TEMPLATES: usize = 30;
/// … and runs of each.
const MOST_RUNS: usize = 50;

/// What is remembered.
#[derive(Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct History {
    /// The most used first.
    pub templates: Vec<Template>,
    /// Those that are not closed first.
    pub circuits: Vec<Circuit>,
}

/// A kind of command.
#[derive(Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Template {
    /// The kind.
    pub template: String,
    /// Newest first.
    pub runs: Vec<Run>,
    /// Null while fewer than three runs are known.
    pub median_ms: Option<u64>,
    /// As the median.
    pub p90_ms: Option<u64>,
}

/// One run.
#[derive(Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Run {
    /// When it ended, in Unix seconds.
    pub at: f64,
    /// How long it took.
    pub duration_ms: i64,
    /// What became of it.
    pub outcome: &'static str,
}

/// A circuit.
#[derive(Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Circuit {
    /// The command, redacted.
    pub command: String,
    /// `closed`, `open` or `half-open`.
    pub state: &'static str,
    /// Timeouts that it knows.
    pub failures: usize,
    /// When the next try is let through, in Unix seconds; null: now.
    pub retry_at: Option<f64>,
}

impl History {
    /// What is remembered now.
    pub fn of(recorder: &Recorder, now: f64) -> History {
        let plots = recorder.store().plots(MOST_TEMPLATES, MOST_RUNS);
        let circuits = recorder.circuits();
        History {
            templates: plots.into_iter().map(Template::from).collect(),
            circuits: circuits
                .into_iter()
                .map(|standing| Circuit::of(standing, now))
                .collect(),
        }
    }
}

impl From<Plot> for Template {
    fn from(plot: Plot) -> Template {
        Template {
            template: plot.template,
            runs: plot.runs.iter().map(Run::from).collect(),
            median_ms: plot.median.map(millis),
            p90_ms: plot.p90.map(millis),
        }
    }
}

impl From<&PlottedRun> for Run {
    fn from(run: &PlottedRun) -> Run {
        Run {
            at: run.at,
            duration_ms: run.duration_ms,
            outcome: match run.outcome {
                Outcome::Success => "success",
                Outcome::Failure => "failure",
                Outcome::Timeout => "timeout",
                Outcome::Killed => "killed",
                Outcome::Interrupted => "interrupted",
            },
        }
    }
}

impl Circuit {
    fn of(standing: Standing, now: f64) -> Circuit {
        Circuit {
            command: standing.preview.clone(),
            state: match standing.circuit.state {
                State::Closed => "closed",
                State::Open { .. } => "open",
                State::HalfOpen { .. } => "half-open",
            },
            failures: standing.circuit.timeouts.len(),
            retry_at: standing.refuses().then_some(now + standing.retry_in),
        }
    }
}
