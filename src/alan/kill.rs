//! Classifies a kill: too early, too late, at the usual time, or of a command that is often killed.
//!
//! The time of the kill request is compared with how long such commands take. The result is
//! advice after the fact; no kill is prevented. Pure.

use std::fmt;
use std::time::Duration;

use super::estimate::Estimate;
use super::insight::{KIND_CHARS, truncate};
use crate::text::foreign;

/// How much of a prompt is shown.
const PROMPT_CHARS: usize = 120;

/// A kind of command killed at least this often may itself be the problem: if more than
/// [`PATTERN_KILL_RATE`] of its runs were killed, or if all of these kills were in one session.
const PATTERN_KILLS: u64 = 3;
/// The share of killed runs above which the kind of command may be the problem.
const PATTERN_KILL_RATE: f64 = 0.5;
/// A kill before this multiple of the median is early.
const EARLY_RATIO: f64 = 0.5;
/// A kill after this multiple of the median is late.
const LATE_RATIO: f64 = 2.0;
/// Shorter silences before a kill are not mentioned.
const MIN_SILENCE: Duration = Duration::from_secs(1);

/// The facts about a kill. All counts include this kill.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct KillFacts {
    /// The kind of command.
    pub(crate) template: String,
    /// From the start to the kill request.
    pub(crate) elapsed: Duration,
    /// Recorded kills of the kind.
    pub(crate) kills: u64,
    /// Recorded runs of the kind.
    pub(crate) runs: u64,
    /// Kills of the kind in this session.
    pub(crate) session_kills: u64,
    /// How long the kind usually takes.
    pub(crate) estimate: Option<Estimate>,
    /// Time without output before the kill.
    pub(crate) silent_for: Option<Duration>,
    /// The prompt at which it waited for input, redacted.
    pub(crate) waiting_at: Option<String>,
}

/// The class of a kill, with the numbers its text shows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum KillClass {
    /// Commands of the kind are often killed.
    PatternProblem {
        /// Kills of the kind.
        kills: u64,
        /// Recorded runs of the kind.
        runs: u64,
    },
    /// There is not enough history.
    Unknown,
    /// Well before such commands end.
    EarlyKill {
        /// Their median, in seconds.
        median: f64,
    },
    /// Long after such commands end.
    LateKill {
        /// Their median, in seconds.
        median: f64,
    },
    /// About when such commands end.
    NormalKill {
        /// Their median, in seconds.
        median: f64,
    },
}

impl KillClass {
    /// The word in answers.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            KillClass::PatternProblem { .. } => "PATTERN_PROBLEM",
            KillClass::Unknown => "UNKNOWN",
            KillClass::EarlyKill { .. } => "EARLY_KILL",
            KillClass::LateKill { .. } => "LATE_KILL",
            KillClass::NormalKill { .. } => "NORMAL_KILL",
        }
    }
}

/// The report on a kill; [`fmt::Display`] gives the text.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct KillInsight {
    pub(crate) class: KillClass,
    /// The kind of command.
    pub(crate) template: String,
    /// From the start to the kill request.
    pub(crate) elapsed: Duration,
    silent_for: Option<Duration>,
    waiting_at: Option<String>,
}

/// Classifies a kill.
pub(crate) fn classify(facts: KillFacts) -> KillInsight {
    let class = class(&facts);
    // A median belongs to the estimate's kind, counts of kills to the template.
    let has_median = !matches!(class, KillClass::PatternProblem { .. } | KillClass::Unknown);
    let estimate = facts.estimate.filter(|_| has_median);
    KillInsight {
        class,
        template: estimate.map_or(facts.template, |estimate| estimate.template),
        elapsed: facts.elapsed,
        silent_for: facts.silent_for.filter(|silent| *silent >= MIN_SILENCE),
        waiting_at: facts.waiting_at,
    }
}

fn class(facts: &KillFacts) -> KillClass {
    let (kills, runs) = (facts.kills, facts.runs);
    let rate = if runs > 0 { kills as f64 / runs as f64 } else { 0.0 };
    let often = rate > PATTERN_KILL_RATE && kills >= PATTERN_KILLS;
    if often || facts.session_kills >= PATTERN_KILLS {
        return KillClass::PatternProblem { kills, runs };
    }
    let Some(estimate) = &facts.estimate else {
        return KillClass::Unknown;
    };
    let median = estimate.median.seconds;
    let ratio = if median > 0.0 { facts.elapsed.as_secs_f64() / median } else { 1.0 };
    if ratio < EARLY_RATIO {
        KillClass::EarlyKill { median }
    } else if ratio > LATE_RATIO {
        KillClass::LateKill { median }
    } else {
        KillClass::NormalKill { median }
    }
}

impl fmt::Display for KillInsight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let template = foreign::between_quotes(&truncate(&self.template, KIND_CHARS));
        let elapsed = self.elapsed.as_secs_f64();
        match self.class {
            KillClass::PatternProblem { kills, runs } => write!(
                f,
                "'{template}' gets killed {:.0}% of the time ({kills}/{runs}). \
                 This pattern may need a different approach.",
                100.0 * kills as f64 / runs.max(1) as f64,
            ),
            KillClass::Unknown => {
                write!(f, "Killed after {elapsed:.1}s. Not enough history to classify.")
            }
            KillClass::EarlyKill { median } => write!(
                f,
                "Killed '{template}' at {elapsed:.1}s. Median completion is {median:.1}s. \
                 This command likely needs more time."
            ),
            KillClass::LateKill { median } => write!(
                f,
                "Killed '{template}' after {elapsed:.1}s. Median is {median:.1}s. \
                 Something is wrong — this isn't normal duration."
            ),
            KillClass::NormalKill { median } => {
                write!(f, "Killed '{template}' at {elapsed:.1}s (median: {median:.1}s).")
            }
        }?;
        if let Some(prompt) = &self.waiting_at {
            match prompt.as_str() {
                "" => write!(f, " It was waiting for input.")?,
                prompt => {
                    let prompt = foreign::in_quotes(prompt, PROMPT_CHARS);
                    write!(f, " It was waiting for input at {prompt}.")?;
                }
            }
        } else if let Some(silent) = self.silent_for {
            let seconds = silent.as_secs();
            write!(f, " Command produced no output for {seconds}s before kill.")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::alan::estimate::Sample;

    fn usual(median: f64) -> Option<Estimate> {
        let runs = [Sample { seconds: median, completed: true }; 5];
        Estimate::new("pip install *", &[], &runs)
    }

    fn facts(elapsed: f64) -> KillFacts {
        KillFacts {
            template: "pip install *".to_owned(),
            elapsed: Duration::from_secs_f64(elapsed),
            kills: 1,
            runs: 6,
            session_kills: 1,
            estimate: usual(45.0),
            ..KillFacts::default()
        }
    }

    #[test]
    fn each_class_has_its_text() {
        for (elapsed, class, text) in [
            (
                10.0,
                "EARLY_KILL",
                "Killed 'pip install *' at 10.0s. Median completion is 45.0s. \
                 This command likely needs more time.",
            ),
            (
                180.0,
                "LATE_KILL",
                "Killed 'pip install *' after 180.0s. Median is 45.0s. \
                 Something is wrong — this isn't normal duration.",
            ),
            (45.0, "NORMAL_KILL", "Killed 'pip install *' at 45.0s (median: 45.0s)."),
        ] {
            let kill = classify(facts(elapsed));
            assert_eq!((kill.class.as_str(), kill.to_string().as_str()), (class, text));
        }
    }

    #[test]
    fn the_bounds_of_the_classes_belong_to_normal() {
        for (elapsed, class) in [
            (22.4, "EARLY_KILL"),
            (22.5, "NORMAL_KILL"),
            (90.0, "NORMAL_KILL"),
            (90.1, "LATE_KILL"),
        ] {
            assert_eq!(classify(facts(elapsed)).class.as_str(), class, "{elapsed}");
        }
    }

    #[test]
    fn without_an_estimate_the_class_is_unknown() {
        let mut facts = facts(3.24);
        facts.estimate = None;
        assert_eq!(
            classify(facts).to_string(),
            "Killed after 3.2s. Not enough history to classify."
        );
    }

    #[test]
    fn three_kills_of_more_than_half_the_runs_are_a_problem() {
        for (kills, runs, problem) in [(3, 5, true), (3, 6, false), (2, 2, false), (4, 6, true)] {
            let kill = classify(KillFacts { kills, runs, ..facts(10.0) });
            let found = matches!(kill.class, KillClass::PatternProblem { .. });
            assert_eq!(found, problem, "{kills} of {runs}");
        }
        let kill = classify(KillFacts { kills: 3, runs: 4, ..facts(10.0) });
        assert_eq!(
            kill.to_string(),
            "'pip install *' gets killed 75% of the time (3/4). \
             This pattern may need a different approach."
        );
    }

    #[test]
    fn a_median_is_reported_with_its_own_kind() {
        let with = |kills| KillFacts { template: "pip *".to_owned(), kills, ..facts(10.0) };
        assert_eq!(classify(with(1)).template, "pip install *");
        assert_eq!(classify(with(4)).template, "pip *", "kills are counted by it");
    }

    #[test]
    fn three_kills_in_one_session_are_a_problem_whatever_the_rate() {
        let kill = classify(KillFacts { kills: 3, runs: 100, session_kills: 3, ..facts(10.0) });
        assert_eq!(kill.class.as_str(), "PATTERN_PROBLEM");
    }

    #[test]
    fn silence_or_a_prompt_before_the_kill_is_reported() {
        let silent =
            classify(KillFacts { silent_for: Some(Duration::from_secs(45)), ..facts(45.0) });
        assert!(silent.to_string().ends_with(" Command produced no output for 45s before kill."));
        let waiting = classify(KillFacts {
            silent_for: Some(Duration::from_secs(45)),
            waiting_at: Some("Password:".to_owned()),
            ..facts(45.0)
        });
        assert!(waiting.to_string().ends_with(" It was waiting for input at \"Password:\"."));
        let silently = classify(KillFacts { waiting_at: Some(String::new()), ..facts(45.0) });
        assert!(silently.to_string().ends_with(" It was waiting for input."));
    }
}
