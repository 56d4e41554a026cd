//! What became of a command, as it is remembered.
//!
//! An exit code alone does not tell success from failure: `grep` exits 1 when nothing
//! matches, and a killed command has the code that the signal gave it. Limits: which
//! exits are benign is a small, fixed table; one line adds a program. Pure.

use std::time::Duration;

/// The exit code that a kill is remembered by, whatever signal ended the command.
pub const KILLED_EXIT: i32 = -9;

/// The outcome types of the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// Exit code 0, or one that is normal for the program.
    Success,
    /// Any other exit code.
    Failure,
    /// Ended because its deadline had passed.
    Timeout,
    /// Ended because somebody asked for it.
    Killed,
    /// Ended because the server ended.
    Interrupted,
}

impl Outcome {
    /// All of them.
    pub const ALL: [Outcome; 5] = [
        Outcome::Success,
        Outcome::Failure,
        Outcome::Timeout,
        Outcome::Killed,
        Outcome::Interrupted,
    ];

    /// The word in the column `outcome_type`.
    pub fn as_str(self) -> &'static str {
        match self {
            Outcome::Success => "SUCCESS",
            Outcome::Failure => "FAILURE",
            Outcome::Timeout => "TIMEOUT",
            Outcome::Killed => "KILLED",
            Outcome::Interrupted => "INTERRUPTED",
        }
    }

    /// The outcome of a row. Rows from before the column are read by their other
    /// columns: a timeout where one is noted, else by the exit code.
    pub fn of_row(outcome_type: Option<&str>, timed_out: bool, exit_code: Option<i32>) -> Outcome {
        let named = Outcome::ALL
            .into_iter()
            .find(|outcome| Some(outcome.as_str()) == outcome_type);
        named.unwrap_or(match (timed_out, exit_code) {
            (true, _) => Outcome::Timeout,
            (false, Some(0)) => Outcome::Success,
            (false, _) => Outcome::Failure,
        })
    }

    /// Whether the command ended by itself, so that its duration is a whole one.
    pub fn is_complete(self) -> bool {
        matches!(self, Outcome::Success | Outcome::Failure)
    }
}

/// How a command ended, with what is known of each way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// By itself, with this code.
    Exited(i32),
    /// Its deadline passed; the code is what the signal made of it.
    TimedOut(i32),
    /// Somebody asked for its end.
    Killed {
        /// From its start to when that was asked.
        after: Duration,
    },
    /// The server ended; the code is what the signal made of it.
    Interrupted(i32),
}

impl Ending {
    /// The exit code to remember.
    pub fn exit_code(self) -> i32 {
        match self {
            Ending::Exited(code) | Ending::TimedOut(code) | Ending::Interrupted(code) => code,
            Ending::Killed { .. } => KILLED_EXIT,
        }
    }

    /// What that amounts to for this program.
    pub fn outcome(self, program: Option<&str>) -> Outcome {
        match self {
            Ending::Exited(code) => of_exit(code, program),
            Ending::TimedOut(_) => Outcome::Timeout,
            Ending::Killed { .. } => Outcome::Killed,
            Ending::Interrupted(_) => Outcome::Interrupted,
        }
    }
}

/// What an exit code amounts to for a program.
pub fn of_exit(code: i32, program: Option<&str>) -> Outcome {
    if code == 0 || program.is_some_and(|program| benign(program, code).is_some()) {
        Outcome::Success
    } else {
        Outcome::Failure
    }
}

/// Exit codes that are an answer, not a failure: program, code, what it says.
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

/// What a benign exit of a program says; `None` for any other.
pub fn benign(program: &str, code: i32) -> Option<&'static str> {
    BENIGN_EXITS
        .iter()
        .find(|(name, exit, _)| *name == program && *exit == code)
        .map(|(_, _, meaning)| *meaning)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn benign_exits_are_successes_of_their_programs_only() {
        for program in [
            "grep", "egrep", "fgrep", "rg", "pgrep", "diff", "cmp", "test", "[",
        ] {
            assert_eq!(of_exit(1, Some(program)), Outcome::Success, "{program}");
            assert_eq!(of_exit(2, Some(program)), Outcome::Failure, "{program}");
        }
        assert_eq!(of_exit(1, Some("rm")), Outcome::Failure);
        assert_eq!(of_exit(1, None), Outcome::Failure);
    }

    #[test]
    fn rows_from_before_the_column_are_read_by_the_other_columns() {
        assert_eq!(Outcome::of_row(None, true, Some(0)), Outcome::Timeout);
        assert_eq!(Outcome::of_row(None, false, Some(0)), Outcome::Success);
        assert_eq!(Outcome::of_row(None, false, Some(3)), Outcome::Failure);
        assert_eq!(Outcome::of_row(None, false, None), Outcome::Failure);
        for outcome in Outcome::ALL {
            assert_eq!(
                Outcome::of_row(Some(outcome.as_str()), true, Some(7)),
                outcome
            );
        }
    }

    #[test]
    fn a_kill_is_remembered_by_one_code() {
        let killed = Ending::Killed {
            after: Duration::from_secs(3),
        };
        assert_eq!(killed.exit_code(), -9);
        assert_eq!(killed.outcome(Some("grep")), Outcome::Killed);
    }
}
