//! The history of a command, as one consistent view.
//!
//! Older runs count less in rates: a run weighs half after 24 hours. Durations do not age.
//! Limits: only the newest 200 runs of a command are considered. Pure.

use schemars::JsonSchema;
use serde::Serialize;

use super::estimate::Estimate;
use super::rows::Streak;
use crate::shell::outcome::Outcome;

/// The age at which a run weighs half.
pub(crate) const HALF_LIFE_HOURS: f64 = 24.0;
/// Running a command again within this many minutes, in the same session, is a retry.
pub(crate) const RETRY_WINDOW_MINUTES: u32 = 15;

/// The weight of a run of this age; a run from the future weighs 1.
pub(crate) fn weight(age_seconds: f64) -> f64 {
    0.5_f64.powf(age_seconds.max(0.0) / (HALF_LIFE_HOURS * 3600.0))
}

/// One remembered run of a command.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PastRun {
    pub outcome: Outcome,
    /// How long ago it ended, in seconds.
    pub age: f64,
}

/// The failure that the newest runs of a command have in common. Runs ended from outside are
/// skipped.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EqualFailures {
    fingerprint: Option<String>,
    runs: u32,
    /// Whether an older run ended otherwise.
    is_over: bool,
}

impl EqualFailures {
    /// Adds the next older run, with its fingerprint if it failed with one.
    pub(crate) fn add(&mut self, outcome: Outcome, fingerprint: Option<&str>) {
        if self.is_over || !outcome.is_complete() {
            return;
        }
        match (&self.fingerprint, fingerprint) {
            (Some(common), Some(fingerprint)) if common == fingerprint => self.runs += 1,
            (None, Some(fingerprint)) => {
                self.fingerprint = Some(fingerprint.to_owned());
                self.runs = 1;
            }
            _ => self.is_over = true,
        }
    }
}

/// Where a command ran.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunPlace {
    pub cwd: Option<String>,
    /// The commit that was checked out there.
    pub git_head: Option<String>,
}

/// Connections to a host. `zsh_alan_query` shows them; its schema contains the fields' comments.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct HostHistory {
    /// Name of the host.
    pub host: String,
    /// Attempts to connect.
    pub tries: u64,
    /// Failed attempts.
    pub failed: u64,
}

/// Runs of a remote command on all hosts, not counting failed connections. Shown like
/// [`HostHistory`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RemoteHistory {
    /// Kind of command.
    pub template: String,
    /// Runs whose connection did not fail.
    pub runs: u64,
    /// Failed runs.
    pub failed: u64,
    /// Hosts it ran on.
    pub hosts: u64,
}

/// What a command usually costs: medians of its newest runs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct UsualCost {
    pub cpu_ms: u64,
    /// The most memory that its processes occupy together, in bytes; `None` if that is too little
    /// to be measured.
    pub peak_bytes: Option<u64>,
    /// The number of runs counted.
    pub runs: usize,
}

impl UsualCost {
    /// The usual of these runs, each with its CPU time in milliseconds and its peak in bytes;
    /// `None` without any.
    pub(super) fn of(runs: &[(i64, Option<i64>)]) -> Option<UsualCost> {
        let median = |mut values: Vec<i64>| {
            values.sort_unstable();
            values.get(values.len() / 2).and_then(|median| u64::try_from(*median).ok())
        };
        Some(UsualCost {
            cpu_ms: median(runs.iter().map(|(cpu, _)| *cpu).collect())?,
            peak_bytes: median(runs.iter().filter_map(|(_, peak)| *peak).collect()),
            runs: runs.len(),
        })
    }
}

/// The history of a command.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct History {
    /// The kind of command.
    pub template: String,
    /// Its newest runs, newest first.
    pub runs: Vec<PastRun>,
    pub equal_failures: EqualFailures,
    /// Where it last succeeded.
    pub last_success: Option<RunPlace>,
    /// Its runs in this session within the last [`RETRY_WINDOW_MINUTES`].
    pub retries: Vec<Outcome>,
    /// The newest runs of its kind in the same period, if `retries` is empty.
    pub similar: Vec<Outcome>,
    /// Consecutive equal results.
    pub streak: Streak,
    /// Whether no command of its kind has run before.
    pub is_first_of_kind: bool,
    pub estimate: Option<Estimate>,
    pub usual_cost: Option<UsualCost>,
    /// The host it connects to.
    pub host: Option<HostHistory>,
    /// The command it runs on that host.
    pub remote: Option<RemoteHistory>,
    /// Consecutive failures of its kind in this session, by [`failures_after`].
    pub failures: u32,
}

/// Shares of a command's runs, weighted by age.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Rates {
    /// The number of runs counted.
    pub runs: usize,
    /// The share that succeeded.
    pub success: f64,
    /// The share that reached its deadline.
    pub timeout: f64,
}

impl History {
    /// A copy without the runs and their durations, which take most of the memory.
    pub fn without_runs(&self) -> History {
        History {
            template: self.template.clone(),
            streak: self.streak.clone(),
            failures: self.failures,
            ..History::default()
        }
    }

    /// Whether the command has run before.
    pub fn is_known(&self) -> bool {
        !self.runs.is_empty()
    }

    /// Success and timeout rates. Runs interrupted by the server's exit are not counted.
    pub fn rates(&self) -> Rates {
        let (mut all, mut success, mut timeout, mut runs) = (0.0, 0.0, 0.0, 0);
        let counted = self.runs.iter();
        for run in counted.filter(|run| run.outcome != Outcome::Interrupted) {
            let weight = weight(run.age);
            runs += 1;
            all += weight;
            match run.outcome {
                Outcome::Success => success += weight,
                Outcome::Timeout => timeout += weight,
                _ => {}
            }
        }
        if all <= 0.0 {
            return Rates::default();
        }
        Rates { runs, success: success / all, timeout: timeout / all }
    }

    /// How often in a row the command failed with this fingerprint, including the run that has just
    /// ended, which this history does not contain yet.
    pub fn same_failures(&self, fingerprint: &str) -> u32 {
        let EqualFailures { fingerprint: common, runs, .. } = &self.equal_failures;
        if common.as_deref() == Some(fingerprint) { runs + 1 } else { 1 }
    }
}

/// Consecutive failures after one more run. A run ended from outside changes nothing: it says
/// nothing about a command's options.
pub(crate) fn failures_after(failures: u32, outcome: Outcome) -> u32 {
    match outcome {
        Outcome::Success => 0,
        Outcome::Failure => failures.saturating_add(1),
        Outcome::Killed | Outcome::Timeout | Outcome::Interrupted => failures,
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    #[test]
    fn a_run_weighs_half_after_a_day() {
        assert_eq!(weight(0.0), 1.0);
        assert_eq!(weight(24.0 * 3600.0), 0.5);
        assert_eq!(weight(72.0 * 3600.0), 0.125);
        assert_eq!(weight(-5.0), 1.0);
    }

    #[test]
    fn rates_count_new_runs_more() {
        let day = 24.0 * 3600.0;
        let history = History {
            runs: vec![
                PastRun { outcome: Outcome::Success, age: 0.0 },
                PastRun { outcome: Outcome::Timeout, age: day },
                PastRun { outcome: Outcome::Interrupted, age: 0.0 },
            ],
            ..History::default()
        };
        let rates = history.rates();
        assert_eq!(rates.runs, 2);
        assert!((rates.success - 2.0 / 3.0).abs() < 1e-9);
        assert!((rates.timeout - 1.0 / 3.0).abs() < 1e-9);
    }

    #[test]
    fn equal_failures_are_counted_up_to_the_first_other_one() {
        let mut history = History::default();
        for (outcome, fingerprint) in [
            (Outcome::Failure, Some("a")),
            (Outcome::Killed, None),
            (Outcome::Failure, Some("a")),
            (Outcome::Failure, Some("b")),
            (Outcome::Failure, Some("a")),
        ] {
            history.equal_failures.add(outcome, fingerprint);
        }
        assert_eq!(history.same_failures("a"), 3);
        assert_eq!(history.same_failures("b"), 1);
        let mut recovered = History::default();
        recovered.equal_failures.add(Outcome::Success, None);
        recovered.equal_failures.add(Outcome::Failure, Some("a"));
        assert_eq!(recovered.same_failures("a"), 1);
    }

    #[test]
    fn only_consecutive_failures_count_for_the_options() {
        use Outcome::{Failure, Interrupted, Killed, Success, Timeout};
        for (newest_first, wanted) in [
            (vec![], 0),
            (vec![Failure], 1),
            (vec![Failure, Failure, Success, Failure], 2),
            (vec![Failure, Killed, Timeout, Interrupted, Failure], 2),
            (vec![Killed, Killed, Killed], 0),
            (vec![Success, Failure], 0),
        ] {
            let oldest_first = newest_first.iter().rev().copied();
            assert_eq!(oldest_first.fold(0, failures_after), wanted, "{newest_first:?}");
        }
    }
}
