//! What to tell an agent that polls a running task.
//!
//! Counts polls without output and compares the time with the task's usual one.
//! Evidence outranks counting: what waits for input, is stuck or moves bytes arrives
//! here already decided. Advice never stops or blocks anything. Pure: the caller keeps
//! the counts and resets them when output arrives.

use std::fmt;
use std::time::Duration;

/// From this many idle polls on, polling less often is suggested.
const SPACE_POLLS_FROM: u32 = 3;

/// From this many idle polls on, a command without I/O may be hung.
const HUNG_FROM: u32 = 10;

/// One that computes without I/O for longer may be hung; a compiler that optimises a large
/// file does so for tens of seconds.
const LONG_COMPUTATION: Duration = Duration::from_secs(60);

/// The part of the median run time, in percent, from which and up to which completion
/// is near.
const NEARING_PERCENT: std::ops::RangeInclusive<u128> = 80..=120;

/// The wait that counts as one poll; the default listen window of a poll.
const ONE_POLL: Duration = Duration::from_secs(2);

/// A single long wait says less than as many polls as would fit into it.
const MAX_POLLS_PER_WAIT: u32 = 5;

/// How long commands of this kind usually take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Estimate {
    /// The kind of command, as in `git push origin *`.
    pub template: String,
    /// Half of the runs were done by then.
    pub median: Duration,
}

/// What is known about a running task at the end of a poll.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Situation {
    /// This poll brought output.
    pub new_output: bool,
    /// Polls since the last output, long waits counted by [`idle_polls_of`].
    pub idle_polls: u32,
    /// Time since the last output, or since the start before any.
    pub silent_for: Duration,
    /// Time since the start.
    pub elapsed: Duration,
    /// How long such a command usually takes, where that is known.
    pub estimate: Option<Estimate>,
    /// The task reads from its terminal or standard input.
    pub waiting_for_input: bool,
    /// The tracker found the task alive without progress: for how long nothing was new.
    pub stuck_for: Option<Duration>,
    /// The task reads or writes steadily, though it prints nothing.
    pub io_progress: bool,
    /// The tracker found it progressing, by something else than its output of before.
    pub does_something_new: bool,
    /// The task uses CPU time, which is weak evidence.
    pub computes: bool,
}

/// A suggestion; its text is what [`fmt::Display`] gives. The agent decides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Advice {
    /// The command waits for input.
    SendInput,
    /// The command may be hung.
    Hung {
        /// Time without output.
        silent: Duration,
        /// Polls without output.
        polls: u32,
    },
    /// The command lives and does not get on.
    Stuck {
        /// Time without anything new.
        unchanged: Duration,
    },
    /// Commands of this kind usually end about now.
    NearingCompletion,
    /// It has been silent for long, and gets on nevertheless.
    WorksSilently {
        /// Time without output.
        silent: Duration,
        /// Polls without output.
        polls: u32,
        /// It is known to read and write.
        moves_bytes: bool,
    },
    /// Polling less often costs nothing.
    SpacePolls {
        /// Time without output.
        silent: Duration,
        /// Time since the start.
        elapsed: Duration,
        /// How long such a command usually takes, where that is known.
        estimate: Option<Estimate>,
    },
}

/// The first suggestion that holds, or none while all is well.
pub fn advise(situation: &Situation) -> Option<Advice> {
    let silent = situation.silent_for;
    let polls = situation.idle_polls;
    if situation.new_output {
        return None;
    }
    if situation.waiting_for_input {
        return Some(Advice::SendInput);
    }
    let long_idle = polls >= HUNG_FROM;
    let works = situation.io_progress || situation.does_something_new;
    if long_idle && !works && !computes_as_compilers_do(situation) {
        return Some(Advice::Hung { silent, polls });
    }
    if let Some(unchanged) = situation.stuck_for {
        return Some(Advice::Stuck { unchanged });
    }
    if let Some(estimate) = &situation.estimate
        && is_near(situation.elapsed, estimate.median)
    {
        return Some(Advice::NearingCompletion);
    }
    if long_idle && works {
        return Some(Advice::WorksSilently {
            silent,
            polls,
            moves_bytes: situation.io_progress,
        });
    }
    (polls >= SPACE_POLLS_FROM).then(|| Advice::SpacePolls {
        silent,
        elapsed: situation.elapsed,
        estimate: situation.estimate.clone(),
    })
}

/// How many idle polls a wait without output counts for: one per 2 s begun, 1 to 5.
pub fn idle_polls_of(wait: Duration) -> u32 {
    let begun = wait.as_nanos().div_ceil(ONE_POLL.as_nanos());
    u32::try_from(begun)
        .unwrap_or(MAX_POLLS_PER_WAIT)
        .clamp(1, MAX_POLLS_PER_WAIT)
}

/// Whether it does nothing but compute, and for no longer than is usual for that.
fn computes_as_compilers_do(situation: &Situation) -> bool {
    situation.computes && situation.stuck_for.is_none() && situation.silent_for < LONG_COMPUTATION
}

fn is_near(elapsed: Duration, median: Duration) -> bool {
    // In whole numbers, so that exactly 80 % is 80 %; a rest beyond 120 % is past it.
    let (elapsed, median) = (elapsed.as_nanos() * 100, median.as_nanos());
    median > 0
        && (median * NEARING_PERCENT.start()..=median * NEARING_PERCENT.end()).contains(&elapsed)
}

impl fmt::Display for Advice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Advice::SendInput => write!(f, "Waiting for input. Answer it with zsh_send."),
            Advice::Hung { silent, polls } => write!(
                f,
                "No output for {}s across {polls} polls. Command may be hung. Consider zsh_kill.",
                Seconds(*silent),
            ),
            Advice::Stuck { unchanged } => write!(
                f,
                "Nothing new for {}s, though it runs. Command may be stuck. Consider zsh_kill.",
                Seconds(*unchanged),
            ),
            Advice::WorksSilently {
                silent,
                polls,
                moves_bytes,
            } => write!(
                f,
                "No output for {}s across {polls} polls, but it {}. \
                 Consider spacing polls wider.",
                Seconds(*silent),
                if *moves_bytes {
                    "reads and writes"
                } else {
                    "does something new"
                },
            ),
            Advice::NearingCompletion => {
                write!(f, "Nearing typical completion — poll again soon.")
            }
            Advice::SpacePolls {
                silent,
                elapsed,
                estimate: Some(estimate),
            } => write!(
                f,
                "No output for {}s. Median completion for '{}' is {}s ({}s elapsed). \
                 Consider spacing polls.",
                Seconds(*silent),
                estimate.template,
                Seconds(estimate.median),
                Seconds(*elapsed),
            ),
            Advice::SpacePolls {
                silent,
                estimate: None,
                ..
            } => write!(
                f,
                "No output for {}s. Consider spacing polls wider.",
                Seconds(*silent)
            ),
        }
    }
}

/// Whole seconds that have passed; tenths below ten, where they matter.
struct Seconds(Duration);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tenths = self.0.as_millis() / 100;
        match (tenths / 10, tenths % 10) {
            (whole, tenth) if whole < 10 && tenth > 0 => write!(f, "{whole}.{tenth}"),
            (whole, _) => write!(f, "{whole}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HUNG: &str = "No output for 20s across 10 polls. Command may be hung. Consider zsh_kill.";
    const NEARING: &str = "Nearing typical completion — poll again soon.";
    const SPACE: &str = "No output for 20s. Consider spacing polls wider.";

    fn idle(idle_polls: u32) -> Situation {
        Situation {
            idle_polls,
            silent_for: Duration::from_secs(20),
            elapsed: Duration::from_secs(25),
            ..Situation::default()
        }
    }

    fn with_median(mut situation: Situation, seconds: u64) -> Situation {
        situation.estimate = Some(Estimate {
            template: "make *".to_owned(),
            median: Duration::from_secs(seconds),
        });
        situation
    }

    fn text(situation: &Situation) -> Option<String> {
        advise(situation).map(|advice| advice.to_string())
    }

    #[test]
    fn up_to_two_idle_polls_are_too_early() {
        for polls in [0, 1, 2] {
            assert_eq!(text(&idle(polls)), None, "{polls} polls");
        }
    }

    #[test]
    fn three_to_nine_idle_polls_suggest_wider_spacing() {
        for polls in [3, 5, 6, 9] {
            assert_eq!(text(&idle(polls)).as_deref(), Some(SPACE), "{polls} polls");
        }
    }

    #[test]
    fn an_estimate_is_named_with_the_spacing() {
        for polls in [3, 5, 9] {
            assert_eq!(
                text(&with_median(idle(polls), 90)).as_deref(),
                Some(
                    "No output for 20s. Median completion for 'make *' is 90s \
                     (25s elapsed). Consider spacing polls."
                )
            );
        }
    }

    #[test]
    fn ten_idle_polls_may_be_hung() {
        assert_eq!(text(&idle(10)).as_deref(), Some(HUNG));
        assert_eq!(text(&with_median(idle(10), 90)).as_deref(), Some(HUNG));
    }

    #[test]
    fn hung_outranks_nearing_completion() {
        assert_eq!(text(&with_median(idle(10), 25)).as_deref(), Some(HUNG));
    }

    #[test]
    fn new_output_resets_every_suggestion() {
        let situation = Situation {
            new_output: true,
            waiting_for_input: true,
            stuck_for: Some(Duration::from_secs(40)),
            ..with_median(idle(12), 25)
        };
        assert_eq!(text(&situation), None);
    }

    #[test]
    fn completion_is_near_from_80_to_120_percent_of_the_median() {
        for (elapsed, near) in [(79, false), (80, true), (120, true), (121, false)] {
            let situation = Situation {
                elapsed: Duration::from_secs(elapsed),
                ..with_median(idle(1), 100)
            };
            let expected = near.then_some(NEARING);
            assert_eq!(text(&situation).as_deref(), expected, "{elapsed} %");
        }
    }

    #[test]
    fn completion_that_is_near_outranks_spacing() {
        assert_eq!(text(&with_median(idle(5), 25)).as_deref(), Some(NEARING));
    }

    #[test]
    fn a_median_of_nothing_is_never_near() {
        let situation = Situation {
            elapsed: Duration::ZERO,
            ..with_median(idle(0), 0)
        };
        assert_eq!(text(&situation), None);
    }

    #[test]
    fn a_command_that_waits_for_input_is_not_called_hung() {
        let situation = Situation {
            waiting_for_input: true,
            stuck_for: Some(Duration::from_secs(40)),
            ..idle(12)
        };
        assert_eq!(advise(&situation), Some(Advice::SendInput));
    }

    #[test]
    fn a_silent_writer_is_never_called_hung() {
        let situation = |polls| Situation {
            io_progress: true,
            ..idle(polls)
        };
        assert_eq!(text(&situation(9)).as_deref(), Some(SPACE));
        assert_eq!(
            text(&situation(30)).as_deref(),
            Some(
                "No output for 20s across 30 polls, but it reads and writes. \
                 Consider spacing polls wider."
            )
        );
    }

    #[test]
    fn what_does_something_new_is_never_called_hung() {
        let situation = Situation {
            does_something_new: true,
            ..idle(12)
        };
        assert_eq!(
            text(&situation).as_deref(),
            Some(
                "No output for 20s across 12 polls, but it does something new. \
                 Consider spacing polls wider."
            )
        );
    }

    #[test]
    fn one_that_only_computes_is_called_hung_when_it_does_so_for_long() {
        let situation = |seconds| Situation {
            computes: true,
            silent_for: Duration::from_secs(seconds),
            ..idle(12)
        };
        assert_eq!(text(&situation(20)).as_deref(), Some(SPACE));
        let hung = text(&situation(60)).unwrap_or_default();
        assert!(hung.contains("may be hung"), "{hung}");
    }

    #[test]
    fn a_stuck_command_is_told_by_what_is_missing_before_ten_polls() {
        let situation = |polls| Situation {
            stuck_for: Some(Duration::from_secs(40)),
            silent_for: Duration::from_millis(200),
            computes: true,
            ..idle(polls)
        };
        assert_eq!(
            text(&situation(1)).as_deref(),
            Some("Nothing new for 40s, though it runs. Command may be stuck. Consider zsh_kill.")
        );
        assert_eq!(
            text(&situation(10)).as_deref(),
            Some("No output for 0.2s across 10 polls. Command may be hung. Consider zsh_kill.")
        );
    }

    #[test]
    fn long_waits_count_as_several_polls() {
        for (milliseconds, polls) in [
            (0, 1),
            (2_000, 1),
            (2_001, 2),
            (4_000, 2),
            (4_001, 3),
            (8_001, 5),
            (10_001, 5),
            (50_000, 5),
        ] {
            let wait = Duration::from_millis(milliseconds);
            assert_eq!(idle_polls_of(wait), polls, "{milliseconds} ms");
        }
        assert_eq!(idle_polls_of(Duration::MAX), 5);
    }

    #[test]
    fn short_times_are_shown_with_tenths() {
        for (milliseconds, shown) in [(0, "0"), (440, "0.4"), (9_990, "9.9"), (61_600, "61")] {
            let seconds = Seconds(Duration::from_millis(milliseconds));
            assert_eq!(seconds.to_string(), shown);
        }
    }
}
