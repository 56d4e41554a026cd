//! Insights from a command's history. Pure.

use super::Insight;
use crate::alan::history::{History, HostHistory, RemoteHistory};
use crate::shell::lint::Lint;
use crate::shell::outcome::Outcome;

/// The shortest streak that is reported.
const STREAK: u64 = 3;
/// The share of timeouts above which they are reported.
const TIMEOUT_RATE: f64 = 0.5;
/// The share of successes above which a command is reliable, with [`RELIABLE_RUNS`] or more.
const RELIABLE_RATE: f64 = 0.9;
/// The fewest runs of a reliable command.
const RELIABLE_RUNS: usize = 5;
/// The median in seconds above which a duration is reported.
const LONG_SECONDS: f64 = 10.0;
/// The peak in bytes from which what is free is looked up.
const MUCH_MEMORY: u64 = 64_000_000;
/// The fewest connections or remote runs from which a host or remote command is judged.
const MIN_TRIES: u64 = 3;
/// The percentage of failed connections from which they are reported.
const HOST_FAILURE_PERCENT: u64 = 30;
/// The fewest hosts on which a remote command must succeed to be reliable.
const RELIABLE_HOSTS: u64 = 2;

/// The insights about a command from its history and its text.
pub(crate) fn insights(history: &History, pitfalls: &[Lint]) -> Vec<Insight> {
    let mut insights = Vec::new();
    insights.extend(retry(history).or_else(|| similar(history)));
    insights.extend(streak(history));
    if history.is_known() {
        insights.extend(rates(history));
        insights.extend(duration(history));
    } else {
        insights.push(Insight::NewPattern);
    }
    insights.extend(history.host.as_ref().and_then(host));
    insights.extend(history.remote.as_ref().and_then(remote));
    insights.extend(pitfalls.iter().cloned().map(Insight::Pitfall));
    insights
}

fn retry(history: &History) -> Option<Insight> {
    let (previous, succeeded) = successes(&history.retries);
    match (previous, succeeded) {
        (0, _) => None,
        (_, 0) => Some(Insight::RetryFailed { previous }),
        (all, some) if all == some => Some(Insight::RetrySucceeded { previous }),
        _ => Some(Insight::RetryMixed { previous, succeeded }),
    }
}

fn similar(history: &History) -> Option<Insight> {
    let (runs, succeeded) = successes(&history.similar);
    (runs > 0).then(|| Insight::Similar { template: history.template.clone(), runs, succeeded })
}

/// The number of runs and of successes, without runs interrupted by the server's exit.
fn successes(outcomes: &[Outcome]) -> (usize, usize) {
    let counted = outcomes.iter().filter(|o| **o != Outcome::Interrupted);
    let succeeded = outcomes.iter().filter(|o| **o == Outcome::Success);
    (counted.count(), succeeded.count())
}

fn streak(history: &History) -> Option<Insight> {
    let current = history.streak.current_streak;
    let length = current.unsigned_abs();
    if length < STREAK {
        None
    } else if current > 0 {
        Some(Insight::SuccessStreak(length))
    } else {
        Some(Insight::FailingStreak(length))
    }
}

fn rates(history: &History) -> Option<Insight> {
    let rates = history.rates();
    if rates.timeout > TIMEOUT_RATE {
        Some(Insight::Timeouts { rate: rates.timeout })
    } else if rates.success > RELIABLE_RATE && rates.runs >= RELIABLE_RUNS {
        Some(Insight::Reliable { rate: rates.success, runs: rates.runs })
    } else {
        None
    }
}

fn duration(history: &History) -> Option<Insight> {
    let seconds = history.estimate.as_ref()?.median.seconds;
    (seconds > LONG_SECONDS).then_some(Insight::UsuallyTakes { seconds })
}

/// The warning that the command needs more memory than is free, which `free` looks up.
pub(crate) fn memory(history: &History, free: impl Fn() -> Option<u64>) -> Option<Insight> {
    let usual = history.usual_cost?.peak_bytes.filter(|usual| *usual >= MUCH_MEMORY)?;
    let free = free().filter(|free| *free < usual)?;
    Some(Insight::NeedsMemory { usual, free })
}

fn host(history: &HostHistory) -> Option<Insight> {
    let HostHistory { host, tries, failed } = history.clone();
    if tries < MIN_TRIES {
        None
    } else if failed * 100 >= tries * HOST_FAILURE_PERCENT {
        Some(Insight::HostFails { host, failed, tries })
    } else if failed == 0 {
        Some(Insight::HostReliable { host, connections: tries })
    } else {
        None
    }
}

fn remote(history: &RemoteHistory) -> Option<Insight> {
    let RemoteHistory { template, runs, failed, hosts } = history.clone();
    if runs < MIN_TRIES {
        None
    } else if failed * 2 > runs {
        Some(Insight::RemoteFails { template, failed, runs })
    } else if failed == 0 && hosts >= RELIABLE_HOSTS {
        Some(Insight::RemoteReliable { template, hosts })
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::alan::estimate::{Estimate, Sample};
    use crate::alan::history::PastRun;
    use crate::alan::rows::Streak;

    fn texts(history: &History) -> Vec<String> {
        let insights = insights(history, &[]);
        insights.iter().map(ToString::to_string).collect()
    }

    fn known(runs: Vec<(Outcome, f64)>) -> History {
        History {
            template: "make *".to_owned(),
            runs: runs.into_iter().map(|(outcome, age)| PastRun { outcome, age }).collect(),
            ..History::default()
        }
    }

    #[test]
    fn a_new_pattern_says_so_and_nothing_else() {
        assert_eq!(texts(&History::default()), ["New pattern. No history yet."]);
        assert_eq!(texts(&known(vec![(Outcome::Success, 1.0)])), [""; 0]);
    }

    #[test]
    fn retries_are_reported_by_their_outcomes() {
        use Outcome::{Failure, Interrupted, Killed, Success};
        for (retries, text) in [
            (vec![Failure, Failure], "Retry #3. Previous 2 all failed. Different approach?"),
            (vec![Killed], "Retry #2. Previous 1 all failed. Different approach?"),
            (vec![Success; 2], "Retry #3. Previous 2 succeeded."),
            (vec![Success, Failure, Failure], "Retry #4 in last 15m. 1/3 succeeded."),
            (vec![Interrupted, Success], "Retry #2. Previous 1 succeeded."),
        ] {
            let mut history = known(vec![(Failure, 1.0)]);
            history.retries = retries;
            history.similar = vec![Success];
            assert_eq!(texts(&history), [text]);
        }
    }

    #[test]
    fn runs_of_the_kind_are_reported_without_retries() {
        let history = History {
            template: "git push origin *".to_owned(),
            similar: vec![Outcome::Success, Outcome::Failure],
            ..History::default()
        };
        assert_eq!(
            texts(&history),
            [
                "Similar to 'git push origin *' - 1/2 succeeded recently.",
                "New pattern. No history yet."
            ]
        );
    }

    #[test]
    fn streaks_are_reported_from_three_on() {
        for (current_streak, wanted) in [
            (2, None),
            (3, Some("Streak: 3 successes in a row. Solid.")),
            (-2, None),
            (-3, Some("Failing streak: 3. Same approach?")),
        ] {
            let mut history = known(vec![(Outcome::Failure, 1.0)]);
            history.streak = Streak { current_streak, ..Streak::default() };
            assert_eq!(texts(&history), Vec::from_iter(wanted), "{current_streak}");
        }
    }

    #[test]
    fn rates_are_weighted_by_age() {
        let week = 7.0 * 24.0 * 3600.0;
        let mut often = vec![(Outcome::Timeout, 1.0)];
        often.extend([(Outcome::Success, week); 5]);
        assert_eq!(texts(&known(often)), ["96% timeout rate for this pattern."]);
        let mut reliable = vec![(Outcome::Success, 1.0); 4];
        assert_eq!(texts(&known(reliable.clone())), [""; 0], "too few runs");
        reliable.push((Outcome::Failure, week));
        assert_eq!(texts(&known(reliable)), ["Reliable pattern: 100% success (5 runs)."]);
        let half = vec![(Outcome::Timeout, 1.0), (Outcome::Success, 1.0)];
        assert_eq!(texts(&known(half)), [""; 0], "half is not more than half");
    }

    #[test]
    fn durations_are_reported_above_ten_seconds() {
        for (seconds, wanted) in [(10.0, None), (47.2, Some("Usually takes ~47s."))] {
            let samples = [Sample { seconds, completed: true }; 3];
            let mut history = known(vec![(Outcome::Failure, 1.0)]);
            history.estimate = Estimate::new("make *", &[], &samples);
            assert_eq!(texts(&history), Vec::from_iter(wanted));
        }
    }

    #[test]
    fn hosts_are_judged_from_three_tries_on() {
        for (tries, failed, wanted) in [
            (2, 2, None),
            (3, 1, Some("Host 'h' has 33% connection failure rate (1/3).")),
            (10, 3, Some("Host 'h' has 30% connection failure rate (3/10).")),
            (10, 2, None),
            (3, 0, Some("Host 'h' is reliable: 3 successful connections.")),
        ] {
            let mut history = known(vec![(Outcome::Failure, 1.0)]);
            history.host = Some(HostHistory { host: "h".to_owned(), tries, failed });
            assert_eq!(texts(&history), Vec::from_iter(wanted), "{failed}/{tries}");
        }
    }

    #[test]
    fn remote_commands_are_judged_across_hosts() {
        for (runs, failed, hosts, wanted) in [
            (2, 2, 1, None),
            (3, 2, 1, Some("Remote command 'git pull' fails often (2/3).")),
            (4, 2, 1, None),
            (3, 0, 1, None),
            (3, 0, 2, Some("Remote command 'git pull' reliable across 2 hosts.")),
        ] {
            let mut history = known(vec![(Outcome::Failure, 1.0)]);
            history.remote =
                Some(RemoteHistory { template: "git pull".to_owned(), runs, failed, hosts });
            assert_eq!(texts(&history), Vec::from_iter(wanted), "{failed}/{runs}");
        }
    }

    #[test]
    fn pitfalls_are_warnings_that_say_what_to_use_instead() {
        for (pitfall, instead) in [
            (Lint::WaitLoopWithoutDeadline, "background: true"),
            (Lint::NohupBackground, "background: true"),
            (
                Lint::SelfMatchingPgrep {
                    program: "pkill".to_owned(),
                    pattern: "server".to_owned(),
                    instead: None,
                },
                "zsh_kill",
            ),
            (Lint::EditorWithoutTerminal { program: "vim".to_owned() }, "pty: true"),
        ] {
            let shown = insights(&History::default(), &[pitfall]);
            let text = shown.last().map(ToString::to_string).unwrap_or_default();
            assert!(text.contains(instead), "{text}");
        }
    }
}
