//! What a judge is given, and what it answers.

use std::time::Duration;

use crate::progress::tracker::{ChangeKind, Status};

/// What a judge finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Finding {
    /// A: it gets on, maybe slowly.
    Progress,
    /// B: it repeats itself.
    Loop,
    /// C: it waits for something outside.
    Blocked,
    /// D: it has run into an error.
    Failed,
    /// The answer was none of these; nobody acts on it.
    Unknown,
}

impl Finding {
    /// Its letter in the question; none for what was no answer.
    pub fn letter(self) -> Option<char> {
        match self {
            Finding::Progress => Some('A'),
            Finding::Loop => Some('B'),
            Finding::Blocked => Some('C'),
            Finding::Failed => Some('D'),
            Finding::Unknown => None,
        }
    }

    /// The finding of a letter, large or small.
    pub fn of_letter(letter: char) -> Option<Finding> {
        match letter.to_ascii_uppercase() {
            'A' => Some(Finding::Progress),
            'B' => Some(Finding::Loop),
            'C' => Some(Finding::Blocked),
            'D' => Some(Finding::Failed),
            _ => None,
        }
    }
}

/// A finding and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judgement {
    /// What was found.
    pub finding: Finding,
    /// Why, in a line or two.
    pub reason: String,
}

/// What is known of a run when it is judged.
#[derive(Debug, Clone, PartialEq)]
pub struct Evidence {
    /// The id of the task or of the agent run.
    pub session: String,
    /// Its command line, or the beginning of its prompt; redacted.
    pub what: String,
    /// What the tracker says.
    pub status: Status,
    /// What that is based on, as a person would read it.
    pub evidence: Vec<String>,
    /// Signs of life in all.
    pub heartbeats: u64,
    /// State changes in all.
    pub state_changes: u64,
    /// The newest state change, and how long ago it was.
    pub last_change: Option<(ChangeKind, Duration)>,
    /// Since the start.
    pub elapsed: Duration,
    /// The round of its work, where there are rounds.
    pub iteration: Option<u64>,
    /// Its newest activities or lines of output, oldest first; redacted.
    pub recent: Vec<String>,
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Evidence of this status, with something in every field.
    pub(crate) fn evidence(status: Status) -> Evidence {
        Evidence {
            session: "3dc8c9ee".to_owned(),
            what: "make test".to_owned(),
            status,
            evidence: vec!["io +5.5 MB".to_owned(), "cpu 0%".to_owned()],
            heartbeats: 12,
            state_changes: 3,
            last_change: Some((ChangeKind::Output, Duration::from_millis(75_400))),
            elapsed: Duration::from_secs(130),
            iteration: Some(2),
            recent: vec!["compiling a".to_owned(), "compiling b".to_owned()],
        }
    }
}
