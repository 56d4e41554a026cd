//! The outcome of a command, in words that all files and answers share.
//!
//! An exit code does not always distinguish success from failure: `grep` exits with 1 if nothing
//! matches. Limits: benign exit codes are a small, fixed table. To add a program, add a line. Pure.

use serde::{Deserialize, Serialize};

/// The outcome of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Outcome {
    /// Exit code 0; in the history also a benign exit code of the program.
    Success,
    /// Any other exit code.
    Failure,
    /// The deadline ended it.
    Timeout,
    /// A kill request ended it.
    Killed,
    /// The server's exit ended it.
    Interrupted,
}

impl Outcome {
    pub const ALL: [Outcome; 5] = [
        Outcome::Success,
        Outcome::Failure,
        Outcome::Timeout,
        Outcome::Killed,
        Outcome::Interrupted,
    ];

    /// The word in the database, as serde writes it.
    pub fn as_str(self) -> &'static str {
        match self {
            Outcome::Success => "SUCCESS",
            Outcome::Failure => "FAILURE",
            Outcome::Timeout => "TIMEOUT",
            Outcome::Killed => "KILLED",
            Outcome::Interrupted => "INTERRUPTED",
        }
    }

    /// The outcome of a row. Without a known `outcome_type`, as in rows older than that column, a
    /// recorded timeout or the exit code decides.
    pub fn from_row(
        outcome_type: Option<&str>,
        timed_out: bool,
        exit_code: Option<i64>,
    ) -> Outcome {
        outcome_type.and_then(Outcome::named).unwrap_or(match (timed_out, exit_code) {
            (true, _) => Outcome::Timeout,
            (false, Some(0)) => Outcome::Success,
            (false, _) => Outcome::Failure,
        })
    }

    /// The outcome that is written like this.
    pub(crate) fn named(text: &str) -> Option<Outcome> {
        Outcome::ALL.into_iter().find(|outcome| outcome.as_str() == text)
    }

    /// Whether the command exited by itself, so that its duration is complete.
    pub fn is_complete(self) -> bool {
        matches!(self, Outcome::Success | Outcome::Failure)
    }
}

/// The outcome of an exit code of a program.
pub(crate) fn of_exit(code: i32, program: Option<&str>) -> Outcome {
    if code == 0 || program.is_some_and(|program| benign(program, code).is_some()) {
        Outcome::Success
    } else {
        Outcome::Failure
    }
}

/// Exit codes that are an answer, not a failure: program, code, meaning.
const BENIGN_EXITS: &[(&str, i32, &str)] = &[
    ("grep", 1, "no match"),
    ("egrep", 1, "no match"),
    ("fgrep", 1, "no match"),
    ("rg", 1, "no match"),
    ("pgrep", 1, "no process matched"),
    ("diff", 1, "files differ"),
    ("cmp", 1, "files differ"),
    ("test", 1, "condition false"),
    ("[", 1, "condition false"),
];

/// The meaning of a program's benign exit code; `None` for any other code.
pub(crate) fn benign(program: &str, code: i32) -> Option<&'static str> {
    BENIGN_EXITS
        .iter()
        .find(|(name, exit, _)| *name == program && *exit == code)
        .map(|(_, _, meaning)| *meaning)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn benign_exits_are_successes_only_of_their_programs() {
        for program in ["grep", "egrep", "fgrep", "rg", "pgrep", "diff", "cmp", "test", "["] {
            assert_eq!(of_exit(1, Some(program)), Outcome::Success, "{program}");
            assert_eq!(of_exit(2, Some(program)), Outcome::Failure, "{program}");
        }
        assert_eq!(of_exit(1, Some("rm")), Outcome::Failure);
        assert_eq!(of_exit(1, None), Outcome::Failure);
    }

    #[test]
    fn rows_older_than_the_column_use_the_other_columns() {
        assert_eq!(Outcome::from_row(None, true, Some(0)), Outcome::Timeout);
        assert_eq!(Outcome::from_row(None, false, Some(0)), Outcome::Success);
        assert_eq!(Outcome::from_row(None, false, Some(3)), Outcome::Failure);
        assert_eq!(Outcome::from_row(None, false, None), Outcome::Failure);
        for outcome in Outcome::ALL {
            assert_eq!(Outcome::from_row(Some(outcome.as_str()), true, Some(7)), outcome);
        }
    }
}
