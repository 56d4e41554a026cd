//! Advice for an agent that polls a running task.
//!
//! Counts polls without output and compares the elapsed time with the usual one. Evidence outranks
//! counting; other modules decide whether a task waits for input, is stuck or reads and writes.
//! Advice never stops or blocks a task. Pure: the caller keeps the counts and resets them when
//! output arrives.

use std::fmt;
use std::time::Duration;

use crate::text::foreign::{self, Phrase};

/// The fewest idle polls before suggesting to poll less often.
const SPACE_POLLS_FROM: u32 = 3;

/// The fewest idle polls after which a command without I/O may be hung.
const HUNG_FROM: u32 = 10;

/// The range of elapsed time, in percent of the median, in which completion is near.
const NEARING_PERCENT: std::ops::RangeInclusive<u128> = 80..=120;

/// The wait that counts as one poll: how long a poll listens by default.
const ONE_POLL: Duration = Duration::from_secs(2);

/// How long a peer must be silent to be called mute.
pub(crate) const MUTE_FROM: Duration = Duration::from_secs(60);

/// The most polls that a single long wait counts as.
const MAX_POLLS_PER_WAIT: u32 = 5;

/// How long commands of this kind usually take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DurationEstimate {
    /// The kind of command, as in `git push origin *`.
    pub(crate) template: String,
    pub(crate) median: Duration,
    /// The longest run so far.
    pub(crate) longest: Duration,
}

/// What is known about a running task at the end of a poll.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Situation {
    /// Whether this poll returned output.
    pub(crate) new_output: bool,
    /// Polls since the last output.
    pub(crate) empty_polls: u32,
    /// As how many they count: [`idle_polls_of`] counts a long wait as several.
    pub(crate) idle_polls: u32,
    /// Time since the last output, or since the start before any.
    pub(crate) silent_for: Duration,
    /// Time since the start.
    pub(crate) elapsed: Duration,
    /// How long such a command usually takes, if known.
    pub(crate) estimate: Option<DurationEstimate>,
    /// Whether the task waits to read its terminal or standard input.
    pub(crate) waiting_for_input: bool,
    /// Why the task is stuck, if evidence shows that it is.
    pub(crate) stuck: Option<String>,
    /// The task that holds the lock that this one waits for.
    pub(crate) lock_holder: Option<String>,
    /// The peer that has been silent for long, and for how long.
    pub(crate) mute_peer: Option<(Phrase, Duration)>,
    /// What it prints again and again, if no result has reported that: a phrase.
    pub(crate) repetition: Option<String>,
    /// That its work seems done, and what keeps it from ending: a phrase.
    pub(crate) seems_done: Option<String>,
    /// Whether the task waits by design for a request or a change that may come at any time.
    pub(crate) waits_by_design: bool,
    /// Whether it shows an interactive screen that accepts keys.
    pub(crate) shows_screen: bool,
    /// Whether the task reads or writes steadily while it prints nothing.
    pub(crate) io_progress: bool,
    /// Whether the tracker found progress other than repeated output.
    pub(crate) does_something_new: bool,
    /// Whether its processes cannot be observed, so that only polls count.
    pub(crate) unseen: bool,
}

/// A suggestion; [`fmt::Display`] gives its text. The agent decides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Advice {
    /// The command waits for input.
    SendInput,
    /// The command may be hung.
    Hung { silent: Duration, polls: u32 },
    /// The command is stuck.
    Stuck {
        /// Why, in a phrase.
        reason: String,
    },
    /// Another task holds the lock that the command waits for.
    AwaitHolder {
        /// The other task's id.
        task: String,
    },
    /// The command waits by design.
    OtherWork,
    /// The command shows an interactive screen.
    PressKeys,
    /// The command has done its work and does not exit.
    SeemsDone {
        /// What it has done, and what keeps it, in a phrase.
        fact: String,
    },
    /// The command prints the same again and again.
    Repeats {
        /// What it does, in a phrase.
        fact: String,
    },
    /// The peer that the command waits for has been silent for long.
    MutePeer { peer: Phrase, mute: Duration },
    /// Commands of this kind usually end about now.
    NearingCompletion,
    /// The command has been silent for a long time but makes progress.
    WorksSilently {
        silent: Duration,
        polls: u32,
        /// Whether it reads and writes.
        moves_bytes: bool,
    },
    /// Polling less often loses nothing.
    SpacePolls {
        silent: Duration,
        /// Time since the start.
        elapsed: Duration,
        /// How long such a command usually takes, if known.
        estimate: Option<DurationEstimate>,
    },
}

/// The first suggestion that applies, if any.
pub(crate) fn advise(situation: &Situation) -> Option<Advice> {
    let silent = situation.silent_for;
    let polls = situation.idle_polls;
    // Check this first: a stuck loop that repeats a line has output at every poll.
    if let Some(reason) = &situation.stuck
        && !situation.waiting_for_input
    {
        let reason = reason.clone();
        return Some(Advice::Stuck { reason });
    }
    if let Some(fact) = situation.repetition.clone()
        && !situation.waiting_for_input
    {
        return Some(Advice::Repeats { fact });
    }
    if situation.new_output {
        return None;
    }
    if situation.waiting_for_input {
        return Some(Advice::SendInput);
    }
    if let Some(task) = situation.lock_holder.clone() {
        return Some(Advice::AwaitHolder { task });
    }
    if let Some(fact) = situation.seems_done.clone() {
        return Some(Advice::SeemsDone { fact });
    }
    if situation.waits_by_design && polls > 0 {
        return Some(Advice::OtherWork);
    }
    if situation.shows_screen && polls > 0 {
        return Some(Advice::PressKeys);
    }
    if let Some((peer, mute)) = situation.mute_peer.clone()
        && polls > 0
    {
        return Some(Advice::MutePeer { peer, mute });
    }
    let long_idle = polls >= HUNG_FROM;
    let works = situation.io_progress || situation.does_something_new;
    if long_idle && !works && situation.unseen && !within_history(situation) {
        return Some(Advice::Hung { silent, polls: situation.empty_polls });
    }
    if let Some(estimate) = &situation.estimate
        && is_near(situation.elapsed, estimate.median)
    {
        return Some(Advice::NearingCompletion);
    }
    if long_idle && works {
        let (polls, moves_bytes) = (situation.empty_polls, situation.io_progress);
        return Some(Advice::WorksSilently { silent, polls, moves_bytes });
    }
    (polls >= SPACE_POLLS_FROM).then(|| Advice::SpacePolls {
        silent,
        elapsed: situation.elapsed,
        estimate: situation.estimate.clone(),
    })
}

/// How many idle polls a wait without output counts for: one per 2 s begun, 1 to 5.
pub(crate) fn idle_polls_of(wait: Duration) -> u32 {
    let begun = wait.as_nanos().div_ceil(ONE_POLL.as_nanos());
    u32::try_from(begun).unwrap_or(MAX_POLLS_PER_WAIT).clamp(1, MAX_POLLS_PER_WAIT)
}

/// Whether an earlier run of this kind has taken longer than this one so far.
fn within_history(situation: &Situation) -> bool {
    let estimate = situation.estimate.as_ref();
    estimate.is_some_and(|estimate| situation.elapsed < estimate.longest)
}

fn is_near(elapsed: Duration, median: Duration) -> bool {
    // Integers make the limits of 80 % and 120 % exact.
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
                seconds(*silent),
            ),
            Advice::Stuck { reason } => {
                write!(f, "Command is stuck: {reason}. Read its output, then consider zsh_kill.",)
            }
            Advice::AwaitHolder { task } => {
                write!(f, "Waiting for a lock that task {task} holds. Wait for that task.",)
            }
            Advice::OtherWork => write!(
                f,
                "Waiting by design. Continue with other work; zsh_poll until=… waits for a line.",
            ),
            Advice::PressKeys => {
                write!(f, "It shows a screen and accepts keys: zsh_send keys=[…] presses them.")
            }
            Advice::SeemsDone { fact } => {
                write!(f, "Its {fact}. The result above is all; zsh_kill ends the rest.")
            }
            Advice::Repeats { fact } => {
                write!(f, "It {fact}. Wait again, or zsh_kill if this cannot succeed.")
            }
            Advice::MutePeer { peer, mute } => write!(
                f,
                "No answer from {peer} for {}s. Look in another call whether it still serves that \
                 port, or wait for a line with zsh_poll until=….",
                seconds(*mute),
            ),
            Advice::WorksSilently { silent, polls, moves_bytes } => write!(
                f,
                "No output for {}s across {polls} polls, but it {}. \
                 Consider spacing polls wider.",
                seconds(*silent),
                if *moves_bytes { "reads and writes" } else { "does something new" },
            ),
            Advice::NearingCompletion => {
                write!(f, "Nearing typical completion — poll again soon.")
            }
            Advice::SpacePolls { silent, elapsed, estimate: Some(estimate) } => write!(
                f,
                "No output for {}s. Median completion for '{}' is {}s ({}s elapsed). \
                 Consider spacing polls.",
                seconds(*silent),
                foreign::between_quotes(&estimate.template),
                seconds(estimate.median),
                seconds(*elapsed),
            ),
            Advice::SpacePolls { silent, estimate: None, .. } => {
                write!(f, "No output for {}s. Consider spacing polls wider.", seconds(*silent))
            }
        }
    }
}

/// Formats whole seconds, with tenths below ten seconds.
fn seconds(duration: Duration) -> String {
    let tenths = duration.as_millis() / 100;
    match (tenths / 10, tenths % 10) {
        (whole, tenth) if whole < 10 && tenth > 0 => format!("{whole}.{tenth}"),
        (whole, _) => whole.to_string(),
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
            empty_polls: idle_polls,
            idle_polls,
            silent_for: Duration::from_secs(20),
            elapsed: Duration::from_secs(25),
            ..Situation::default()
        }
    }

    fn with_median(mut situation: Situation, seconds: u64) -> Situation {
        situation.estimate = Some(DurationEstimate {
            template: "make *".to_owned(),
            median: Duration::from_secs(seconds),
            longest: Duration::from_secs(seconds),
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

    fn unseen(idle_polls: u32) -> Situation {
        Situation { unseen: true, ..idle(idle_polls) }
    }

    #[test]
    fn ten_idle_polls_may_be_hung_if_processes_are_not_visible() {
        assert_eq!(text(&unseen(10)).as_deref(), Some(HUNG));
        assert_eq!(text(&idle(10)).as_deref(), Some(SPACE));
    }

    #[test]
    fn below_the_longest_run_of_its_history_nothing_is_hung() {
        let known = |seconds| text(&with_median(unseen(10), seconds));
        let space = known(90).unwrap_or_default();
        assert!(space.contains("Median completion"), "{space}");
        assert_eq!(known(20).as_deref(), Some(HUNG));
    }

    #[test]
    fn new_output_resets_every_suggestion_except_for_a_stuck_command() {
        let situation = Situation {
            new_output: true,
            waiting_for_input: true,
            waits_by_design: true,
            ..with_median(idle(12), 25)
        };
        assert_eq!(text(&situation), None);
        let repeats = Situation {
            new_output: true,
            stuck: Some("repeating the same line for 40s".to_owned()),
            ..idle(0)
        };
        assert_eq!(
            text(&repeats).as_deref(),
            Some(
                "Command is stuck: repeating the same line for 40s. Read its output, \
                 then consider zsh_kill."
            )
        );
    }

    #[test]
    fn a_screen_is_for_keys() {
        let shows = |polls| Situation { shows_screen: true, ..idle(polls) };
        assert_eq!(advise(&shows(0)), None);
        assert_eq!(advise(&shows(3)), Some(Advice::PressKeys));
    }

    #[test]
    fn a_wait_by_design_leaves_time_for_other_work() {
        let waits = |polls| Situation { waits_by_design: true, ..idle(polls) };
        assert_eq!(advise(&waits(0)), None);
        assert_eq!(advise(&waits(30)), Some(Advice::OtherWork));
    }

    #[test]
    fn the_task_that_holds_a_lock_is_named() {
        let situation = Situation { lock_holder: Some("b6d464a7".to_owned()), ..idle(1) };
        let expected = "Waiting for a lock that task b6d464a7 holds. Wait for that task.";
        assert_eq!(text(&situation).as_deref(), Some(expected));
    }

    #[test]
    fn completion_is_near_from_80_to_120_percent_of_the_median() {
        for (elapsed, near) in [(79, false), (80, true), (120, true), (121, false)] {
            let situation =
                Situation { elapsed: Duration::from_secs(elapsed), ..with_median(idle(1), 100) };
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
        let situation = Situation { elapsed: Duration::ZERO, ..with_median(idle(0), 0) };
        assert_eq!(text(&situation), None);
    }

    #[test]
    fn a_command_that_waits_for_input_is_not_called_hung() {
        let situation =
            Situation { waiting_for_input: true, stuck: Some("it waits".to_owned()), ..idle(12) };
        assert_eq!(advise(&situation), Some(Advice::SendInput));
    }

    #[test]
    fn a_silent_writer_is_never_called_hung() {
        let situation = |polls| Situation { io_progress: true, ..idle(polls) };
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
    fn a_task_that_does_something_new_is_never_called_hung() {
        let situation = Situation { does_something_new: true, ..idle(12) };
        assert_eq!(
            text(&situation).as_deref(),
            Some(
                "No output for 20s across 12 polls, but it does something new. \
                 Consider spacing polls wider."
            )
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
            let seconds = seconds(Duration::from_millis(milliseconds));
            assert_eq!(seconds.to_string(), shown);
        }
    }
}
