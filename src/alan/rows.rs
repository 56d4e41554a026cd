//! The rows of the database as types whose fields are named like the columns.
//!
//! The store writes them, an export contains them, and readers get them for runs that are still
//! queued. No SQL. Pure.

use std::time::SystemTime;

use jiff::Timestamp;
use jiff::civil::{Date, DateTime, Time};
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};

use crate::neverhang::Lease;
use crate::shell::outcome::Outcome;

/// One run of a command, or of a segment of a pipeline.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Observation {
    /// Unique in all databases.
    pub id: String,
    /// As [`crate::alan::pattern::CommandPattern::hash`].
    pub command_hash: String,
    /// As [`crate::alan::pattern::CommandPattern::template`].
    pub command_template: Option<String>,
    /// As [`crate::alan::pattern::CommandPattern::subcommand_template`]; `None` for a segment.
    pub subcommand_template: Option<String>,
    /// As [`crate::alan::pattern::CommandPattern::preview`].
    pub command_preview: Option<String>,
    /// −9 if the command was killed.
    pub exit_code: Option<i64>,
    /// How long the command ran; `None` for a segment.
    pub duration_ms: Option<i64>,
    /// Ended by its deadline.
    pub timed_out: bool,
    /// The output's first characters.
    pub output_snippet: Option<String>,
    /// The error lines of a failure.
    pub error_snippet: Option<String>,
    /// Always 1: readers compute a row's weight from its age.
    pub weight: Option<f64>,
    /// When it ended: RFC 3339 in UTC.
    pub created_at: String,
    /// Never set; older databases have the column.
    pub last_accessed: Option<String>,
    /// As [`Outcome::as_str`]; `None` in old rows.
    pub outcome_type: Option<String>,
    /// From the start to the kill request.
    pub kill_elapsed_ms: Option<i64>,
    /// Where it ran.
    pub cwd: Option<String>,
    /// The commit that was checked out there.
    pub git_head: Option<String>,
    /// As [`crate::alan::fingerprint::Fingerprint::hash`].
    pub failure_fingerprint: Option<String>,
    /// The CPU time of its processes; `None` for a segment and in old rows.
    pub cpu_ms: Option<i64>,
    /// The most memory, in bytes, that its processes have occupied together.
    pub peak_bytes: Option<i64>,
}

impl Observation {
    /// What became of it.
    pub fn outcome(&self) -> Outcome {
        Outcome::from_row(self.outcome_type.as_deref(), self.timed_out, self.exit_code)
    }
}

/// One run of a whole command, in the order of a session.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RecentCommand {
    pub session_id: String,
    /// As in [`Observation`].
    pub command_hash: String,
    /// As in [`Observation`].
    pub command_template: Option<String>,
    /// As in [`Observation`].
    pub command_preview: Option<String>,
    /// When it ended, in seconds since 1970.
    pub timestamp: f64,
    /// As in [`Observation`].
    pub duration_ms: Option<i64>,
    /// As in [`Observation`].
    pub exit_code: Option<i64>,
    /// As in [`Observation`].
    pub timed_out: bool,
    /// Whether it succeeded.
    pub success: bool,
    /// As in [`Observation`].
    pub outcome_type: Option<String>,
}

impl RecentCommand {
    /// The outcome. Old rows without the column only distinguish success from failure.
    pub fn outcome(&self) -> Outcome {
        Self::outcome_of(self.outcome_type.as_deref(), self.timed_out, self.success)
    }

    /// The same of these columns.
    pub fn outcome_of(outcome_type: Option<&str>, timed_out: bool, success: bool) -> Outcome {
        Outcome::from_row(outcome_type, timed_out, Some(i64::from(!success)))
    }
}

/// Consecutive equal results.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Streak {
    /// As in [`Observation`].
    pub command_hash: String,
    /// Consecutive successes, or failures as a negative number.
    pub current_streak: i64,
    /// The most consecutive successes.
    pub longest_success_streak: i64,
    /// The most consecutive failures.
    pub longest_fail_streak: i64,
    /// 1 or 0.
    pub last_result: Option<i64>,
    /// In seconds since 1970.
    pub last_updated: Option<f64>,
}

impl Streak {
    /// Adds a result. Kills and timeouts count as failures. A run interrupted by the server's exit
    /// leaves the streak unchanged.
    pub fn add(&mut self, outcome: Outcome, at: f64) {
        let current = self.current_streak;
        match outcome {
            Outcome::Interrupted => return,
            Outcome::Success => {
                self.current_streak = current.max(0).saturating_add(1);
                self.longest_success_streak = self.longest_success_streak.max(self.current_streak);
                self.last_result = Some(1);
            }
            Outcome::Failure | Outcome::Timeout | Outcome::Killed => {
                self.current_streak = current.min(0).saturating_sub(1);
                let length = self.current_streak.saturating_neg();
                self.longest_fail_streak = self.longest_fail_streak.max(length);
                self.last_result = Some(0);
            }
        }
        self.last_updated = Some(at);
    }
}

/// One run over SSH: the host, and the remote command if there was one.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SshObservation {
    /// Unique in all databases.
    pub id: String,
    /// The run's [`Observation::id`].
    pub observation_id: Option<String>,
    pub host: String,
    /// Redacted.
    pub remote_command: Option<String>,
    /// Its kind.
    pub remote_command_template: Option<String>,
    /// As in [`Observation`].
    pub exit_code: Option<i64>,
    /// As [`crate::shell::ssh::ExitType::name`].
    pub exit_type: Option<String>,
    /// As in [`Observation`].
    pub duration_ms: Option<i64>,
    /// As in [`Observation`].
    pub timed_out: bool,
    /// As in [`Observation`].
    pub weight: Option<f64>,
    /// As in [`Observation`].
    pub created_at: String,
}

/// What failed when a command last ran in a directory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct LastFailures {
    pub command_hash: String,
    /// Redacted.
    pub cwd: String,
    /// A name in each line, redacted.
    pub names: String,
    /// RFC 3339, UTC.
    pub created_at: String,
}

/// The options of a command, from its manual page.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct CachedOptions {
    /// The command, or `git-push` for a subcommand.
    pub base_command: String,
    /// The table, one line for each option.
    pub options_text: String,
    /// RFC 3339 in UTC.
    pub created_at: String,
}

/// The circuit of a command.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct CircuitRow {
    pub command_hash: String,
    /// The redacted command.
    pub command_preview: String,
    /// When it opened, in seconds since 1970; `None` while it is closed.
    pub opened_at: Option<f64>,
    /// Whether a single run may probe it.
    pub half_open: bool,
    /// The lease of the probing run.
    pub lease: Option<Lease>,
    /// The timeouts within the window, each with its time and the run's time limit in seconds, if
    /// it had one.
    pub timeouts: Vec<(f64, Option<f64>)>,
}

/// One line of an export.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "table", rename_all = "snake_case")]
pub enum JournalRow {
    /// Of `observations`.
    Observations(Observation),
    /// Of `recent_commands`.
    RecentCommands(RecentCommand),
    /// Of `streaks`.
    Streaks(Streak),
    /// Of `ssh_observations`.
    SshObservations(SshObservation),
    /// Of `manopt_cache`.
    ManoptCache(CachedOptions),
    /// Of `circuits`.
    Circuits(CircuitRow),
}

/// Seconds since 1970; 0 for a clock before that.
pub(crate) fn unix_seconds(at: SystemTime) -> f64 {
    at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}

/// Formats a time for the text columns: RFC 3339 in UTC with microseconds, so that texts sort by
/// time.
pub(crate) fn timestamp(at: SystemTime) -> String {
    let at = Timestamp::try_from(at).unwrap_or(Timestamp::UNIX_EPOCH);
    at.strftime("%Y-%m-%dT%H:%M:%S.%6f+00:00").to_string()
}

/// Parses the time of a text column into seconds since 1970. Without an offset it is UTC.
pub(crate) fn seconds_of(timestamp: &str) -> Option<f64> {
    if let Some(microseconds) = microseconds_of_own(timestamp) {
        return Some(microseconds as f64 / 1e6);
    }
    let parsed = timestamp.parse::<Timestamp>().ok().or_else(|| {
        let civil = timestamp.parse::<DateTime>().ok()?;
        Some(civil.to_zoned(TimeZone::UTC).ok()?.timestamp())
    });
    parsed.map(|at| at.as_microsecond() as f64 / 1e6)
}

/// Parses the form that [`timestamp`] writes; `None` for any other. A call reads the times of hundreds
/// of rows, and this takes a fifth of the time of a parser for all forms.
fn microseconds_of_own(text: &str) -> Option<i64> {
    let (time, "+00:00") = text.split_at_checked(26)? else {
        return None;
    };
    let time = time.as_bytes();
    let separators = [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':'), (19, b'.')];
    if separators.iter().any(|(at, separator)| time.get(*at) != Some(separator)) {
        return None;
    }
    let number = |from: usize, to: usize| {
        time.get(from..to)?.iter().try_fold(0_i32, |sum, digit| {
            digit.is_ascii_digit().then(|| sum * 10 + i32::from(digit - b'0'))
        })
    };
    let two_digits = |from: usize| i8::try_from(number(from, from + 2)?).ok();
    let year = i16::try_from(number(0, 4)?).ok()?;
    let date = Date::new(year, two_digits(5)?, two_digits(8)?).ok()?;
    let time_of_day = Time::new(two_digits(11)?, two_digits(14)?, two_digits(17)?, 0).ok()?;
    let seconds = TimeZone::UTC.to_timestamp(date.to_datetime(time_of_day)).ok()?.as_second();
    Some(seconds * 1_000_000 + i64::from(number(20, 26)?))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn timestamps_of_every_writer_are_read() {
        for text in [
            "2026-02-11T12:00:00.5Z",
            "2026-02-11T12:00:00.500000+00:00",
            "2026-02-11T13:00:00.500000000+01:00",
            "2026-02-11T12:00:00.5",
            "2026-02-11 12:00:00.5",
        ] {
            assert_eq!(seconds_of(text), Some(1_770_811_200.5), "{text}");
        }
        // Later than any time that can be computed with.
        assert_eq!(seconds_of("9999-12-30T23:00:00.000000+00:00"), None);
        assert_eq!(seconds_of("yesterday"), None);
        assert_eq!(seconds_of(""), None);
    }

    #[test]
    fn streaks_count_equal_results_and_keep_the_longest() {
        let mut streak = Streak::default();
        let mut follow = |outcomes: &[Outcome]| {
            for outcome in outcomes {
                streak.add(*outcome, 1.0);
            }
            streak.clone()
        };
        assert_eq!(follow(&[Outcome::Success; 4]).current_streak, 4);
        assert_eq!(follow(&[Outcome::Killed]).current_streak, -1);
        let failing = follow(&[Outcome::Timeout, Outcome::Failure]);
        assert_eq!((failing.current_streak, failing.last_result), (-3, Some(0)));
        assert_eq!(follow(&[Outcome::Interrupted]).current_streak, -3);
        let back = follow(&[Outcome::Success]);
        assert_eq!(
            (back.current_streak, back.longest_success_streak, back.longest_fail_streak),
            (1, 4, 3)
        );
    }

    #[test]
    fn an_export_line_reads_back_as_it_was() {
        let entry = JournalRow::Observations(Observation {
            id: "a".to_owned(),
            output_snippet: Some("two\nlines \u{1f600}".to_owned()),
            weight: Some(1.0),
            ..Observation::default()
        });
        let line = serde_json::to_string(&entry).expect("json");
        assert!(line.starts_with("{\"table\":\"observations\""), "{line}");
        assert_eq!(serde_json::from_str::<JournalRow>(&line).expect("an entry"), entry);
        let older = line.replace(",\"subcommand_template\":null", "");
        assert_ne!(older, line);
        assert_eq!(serde_json::from_str::<JournalRow>(&older).expect("an older export"), entry);
    }

    proptest! {
        #[test]
        fn numbers_of_an_export_read_back_as_they_were(timestamp in 0.0f64..4e9) {
            let entry = JournalRow::RecentCommands(RecentCommand {
                timestamp,
                ..RecentCommand::default()
            });
            let line = serde_json::to_string(&entry).expect("json");
            prop_assert_eq!(serde_json::from_str::<JournalRow>(&line).expect("an entry"), entry);
        }

        #[test]
        fn times_are_written_in_the_order_of_the_clock(one in 0u64..4_000_000_000_000_000, other in 0u64..4_000_000_000_000_000) {
            let at = |micros| SystemTime::UNIX_EPOCH + Duration::from_micros(micros);
            let (first, second) = (timestamp(at(one)), timestamp(at(other)));
            prop_assert_eq!(first.cmp(&second), one.cmp(&other));
            let back = seconds_of(&first).expect("a time");
            prop_assert!((back - one as f64 / 1e6).abs() < 1e-5);
        }

        /// What is not of the fixed form, such as a second of 60 or another offset, is left to the
        /// parser. What both read they read alike.
        #[test]
        fn the_form_that_is_written_reads_like_any_other(
            micros in 0u64..253_402_000_000_000_000,
            at in 0usize..32,
            instead in "[0-9TZ:+. -]",
        ) {
            let mut text = timestamp(SystemTime::UNIX_EPOCH + Duration::from_micros(micros));
            prop_assert_eq!(microseconds_of_own(&text), i64::try_from(micros).ok());
            text.replace_range(at..=at, &instead);
            let parsed = text.parse::<Timestamp>().ok().map(|parsed| parsed.as_microsecond());
            if let Some(own) = microseconds_of_own(&text) {
                prop_assert_eq!(Some(own), parsed, "{}", text);
            }
        }

        #[test]
        fn any_text_is_a_time_or_none(text in any::<String>()) {
            let _ = seconds_of(&text);
        }
    }
}
