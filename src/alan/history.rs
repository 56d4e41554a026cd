//! What is remembered of a command, as one consistent look into the past.
//!
//! Rates count what is old less: a run weighs half after 24 hours. Durations do not age.
//! Limits: of a command's runs only the newest 200 are looked at. Pure.

use super::estimate::Estimate;
use super::outcome::Outcome;
use super::rows::Streak;

/// After so many hours a run weighs half.
pub const HALF_LIFE_HOURS: f64 = 24.0;
/// How far back a run of the same session makes a command a retry, in minutes.
pub const RETRY_WINDOW_MINUTES: u32 = 15;

/// What a run of an age weighs; one from the future weighs 1.
pub fn weight(age_seconds: f64) -> f64 {
    0.5_f64.powf(age_seconds.max(0.0) / (HALF_LIFE_HOURS * 3600.0))
}

/// One remembered run of a command.
#[derive(Debug, Clone, PartialEq)]
pub struct PastRun {
    /// What became of it.
    pub outcome: Outcome,
    /// How long ago it ended, in seconds.
    pub age: f64,
    /// Its failure's fingerprint.
    pub fingerprint: Option<String>,
}

/// Where a command ran.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Place {
    /// The directory.
    pub cwd: Option<String>,
    /// The commit that was checked out there.
    pub git_head: Option<String>,
}

/// What is remembered of a host.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HostHistory {
    /// The host.
    pub host: String,
    /// Tries to connect.
    pub tries: u64,
    /// Those that failed to.
    pub failed: u64,
}

/// What is remembered of a remote command, on all hosts, where the connection held.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RemoteHistory {
    /// Its kind.
    pub template: String,
    /// Its runs.
    pub runs: u64,
    /// Those that failed.
    pub failed: u64,
    /// The hosts it ran on.
    pub hosts: u64,
}

/// All that is remembered of a command.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct History {
    /// The kind of command.
    pub template: String,
    /// Its newest runs, newest first.
    pub runs: Vec<PastRun>,
    /// Where it last succeeded.
    pub last_success: Option<Place>,
    /// Its runs in this session's window.
    pub retries: Vec<Outcome>,
    /// The newest runs of others of its kind in that window.
    pub similar: Vec<Outcome>,
    /// Equal results in a row.
    pub streak: Streak,
    /// How long it takes.
    pub estimate: Option<Estimate>,
    /// The host that it goes to.
    pub host: Option<HostHistory>,
    /// What it runs there.
    pub remote: Option<RemoteHistory>,
    /// Failures of its kind in a row in this session, as [`failures_in_a_row`] counts.
    pub failures: u32,
}

impl History {
    /// The same without the single runs and their durations, which are most of it.
    pub fn without_runs(&self) -> History {
        History {
            template: self.template.clone(),
            streak: self.streak.clone(),
            failures: self.failures,
            ..History::default()
        }
    }
}

/// Parts of a command's runs, weighted by age.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Rates {
    /// Runs that the rates are made from.
    pub runs: usize,
    /// The part that succeeded.
    pub success: f64,
    /// The part that ran into its deadline.
    pub timeout: f64,
}

impl History {
    /// Whether the command has run before.
    pub fn is_known(&self) -> bool {
        !self.runs.is_empty()
    }

    /// Success and timeout rates. Interrupted runs are the server's doing and count for
    /// neither.
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
        Rates {
            runs,
            success: success / all,
            timeout: timeout / all,
        }
    }

    /// How many of the newest runs, this one included, failed with this fingerprint one
    /// after the other. The history is that from before the run.
    pub fn same_failures(&self, fingerprint: &str) -> u32 {
        let finished = self.runs.iter().filter(|run| run.outcome.is_complete());
        let same = finished
            .take_while(|run| run.fingerprint.as_deref() == Some(fingerprint))
            .count();
        u32::try_from(same).unwrap_or(u32::MAX).saturating_add(1)
    }
}

/// Failures in a row, from the newest run backwards until a success; what was ended from
/// outside says nothing about a command's options.
pub fn failures_in_a_row(newest_first: impl IntoIterator<Item = Outcome>) -> u32 {
    let mut failures = 0;
    for outcome in newest_first {
        match outcome {
            Outcome::Success => break,
            Outcome::Failure => failures += 1,
            Outcome::Killed | Outcome::Timeout | Outcome::Interrupted => {}
        }
    }
    failures
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn run(outcome: Outcome, age: f64, fingerprint: Option<&str>) -> PastRun {
        PastRun {
            outcome,
            age,
            fingerprint: fingerprint.map(str::to_owned),
        }
    }

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
                run(Outcome::Success, 0.0, None),
                run(Outcome::Timeout, day, None),
                run(Outcome::Interrupted, 0.0, None),
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
        let history = History {
            runs: vec![
                run(Outcome::Failure, 1.0, Some("a")),
                run(Outcome::Killed, 2.0, None),
                run(Outcome::Failure, 3.0, Some("a")),
                run(Outcome::Failure, 4.0, Some("b")),
                run(Outcome::Failure, 5.0, Some("a")),
            ],
            ..History::default()
        };
        assert_eq!(history.same_failures("a"), 3);
        assert_eq!(history.same_failures("b"), 1);
    }

    #[test]
    fn only_failures_in_a_row_count_for_the_options() {
        use Outcome::{Failure, Interrupted, Killed, Success, Timeout};
        for (newest_first, wanted) in [
            (vec![], 0),
            (vec![Failure], 1),
            (vec![Failure, Failure, Success, Failure], 2),
            (vec![Failure, Killed, Timeout, Interrupted, Failure], 2),
            (vec![Killed, Killed, Killed], 0),
            (vec![Success, Failure], 0),
        ] {
            assert_eq!(
                failures_in_a_row(newest_first.clone()),
                wanted,
                "{newest_first:?}"
            );
        }
    }
}
