//! Judges: given the evidence, does a run make progress?
//!
//! A judge answers with one of four findings and a reason. The [`Heuristic`], which reads
//! the tracker's status and counts, is always available; a model can be configured instead,
//! asked by a command line ([`command`]) or at an endpoint ([`openai`]). An answer that is not
//! a finding is [`Finding::Unknown`], which has no consequences.
//!
//! Pure. Limits: a judge blocks its caller until it has answered; [`super::checks`] provides a
//! thread.

use std::time::Duration;

use crate::progress::tracker::{BlockedOn, ChangeKind, Status};

pub mod command;
pub mod openai;
mod prompt;
mod reply;

/// Judges whether a run makes progress.
pub trait Judge: Send + Sync {
    /// Its name, as the configuration has it.
    fn name(&self) -> &str;

    /// The judgement; blocks until there is one.
    ///
    /// # Errors
    /// When there is none.
    fn judge(&self, evidence: &Evidence) -> Result<Judgement, JudgeError>;

    /// Ends what is under way and refuses what comes later.
    fn close(&self) {}
}

/// Why a judge has not answered.
#[derive(Debug, thiserror::Error)]
pub enum JudgeError {
    /// It could not be asked.
    #[error("cannot be asked: {0}")]
    Unreachable(String),
    /// It took too long.
    #[error("gave no answer within {0} s")]
    TimedOut(u64),
    /// It ended with an error.
    #[error("failed: {0}")]
    Failed(String),
    /// It was closed.
    #[error("was closed before it answered")]
    Closed,
}

/// The judge that is always available; the same evidence gives the same judgement.
#[derive(Debug, Clone, Copy, Default)]
pub struct Heuristic;

impl Judge for Heuristic {
    fn name(&self) -> &str {
        "heuristic"
    }

    fn judge(&self, evidence: &Evidence) -> Result<Judgement, JudgeError> {
        Ok(heuristic(evidence))
    }
}

/// A configured judge that cannot be asked; the judgements in its place give the reason.
#[derive(Debug, Clone)]
pub struct Unusable {
    /// Its name.
    pub name: String,
    /// What is wrong with its configuration.
    pub cause: String,
}

impl Judge for Unusable {
    fn name(&self) -> &str {
        &self.name
    }

    fn judge(&self, _: &Evidence) -> Result<Judgement, JudgeError> {
        Err(JudgeError::Unreachable(self.cause.clone()))
    }
}

/// The judge's judgement, or if it has none the heuristic's, which says so.
///
/// # Errors
/// When the judge was closed.
pub(crate) fn decide(judge: &dyn Judge, evidence: &Evidence) -> Result<Judgement, JudgeError> {
    match judge.judge(evidence) {
        Ok(judgement) => Ok(judgement),
        Err(JudgeError::Closed) => Err(JudgeError::Closed),
        Err(error) => Ok(instead_of(judge.name(), &error, evidence)),
    }
}

/// The heuristic's judgement in place of one that failed.
pub(crate) fn instead_of(name: &str, error: &JudgeError, evidence: &Evidence) -> Judgement {
    let judgement = heuristic(evidence);
    Judgement {
        finding: judgement.finding,
        reason: format!("{} (by the heuristic: the judge {name} {error})", judgement.reason),
    }
}

/// What a judge finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Finding {
    /// A: it makes progress, perhaps slowly.
    Progress,
    /// B: it repeats itself.
    Loop,
    /// C: it waits for something outside.
    Blocked,
    /// D: it has run into an error.
    Failed,
    /// The answer was none of these; it has no consequences.
    Unknown,
}

impl Finding {
    /// Its letter in the question; none for what was no answer.
    pub(crate) fn letter(self) -> Option<char> {
        match self {
            Finding::Progress => Some('A'),
            Finding::Loop => Some('B'),
            Finding::Blocked => Some('C'),
            Finding::Failed => Some('D'),
            Finding::Unknown => None,
        }
    }

    /// The finding of a letter, large or small.
    pub(crate) fn of_letter(letter: char) -> Option<Finding> {
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

/// Judges by the tracker's status alone. Silence is neither a loop nor a failure: an agent
/// without signs of life waits for something.
pub(crate) fn heuristic(evidence: &Evidence) -> Judgement {
    let (finding, words) = match evidence.status {
        Status::Progressing => (Finding::Progress, "it makes progress"),
        Status::Slow => (Finding::Progress, "it is slow, within its usual time"),
        Status::Stuck => (Finding::Loop, "it lives and does nothing new"),
        Status::Silent => (Finding::Blocked, "it gives no sign of life"),
        Status::Blocked(BlockedOn::Input) => (Finding::Blocked, "it waits for input"),
        Status::Blocked(BlockedOn::Network) => (Finding::Blocked, "it waits for the network"),
        Status::Blocked(BlockedOn::Stop) => (Finding::Blocked, "a signal has stopped it"),
        Status::Blocked(BlockedOn::Lock) => (Finding::Blocked, "it waits for a lock"),
        Status::Idle => (Finding::Blocked, "it waits for a time, a request or a change"),
        Status::Ended => (Finding::Unknown, "it has ended"),
    };
    Judgement { finding, reason: format!("{words}: {}", counted(evidence)) }
}

fn counted(evidence: &Evidence) -> String {
    let last = match evidence.last_change {
        Some((kind, ago)) => format!("the last {} s ago ({})", ago.as_secs(), kind.name()),
        None => "none so far".to_owned(),
    };
    format!("signs of life {}, changes {}, {last}", evidence.heartbeats, evidence.state_changes)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    struct Failing(fn() -> JudgeError);

    impl Judge for Failing {
        fn name(&self) -> &str {
            "openai"
        }
        fn judge(&self, _: &Evidence) -> Result<Judgement, JudgeError> {
            Err((self.0)())
        }
    }

    #[test]
    fn a_judge_that_fails_is_replaced_by_the_heuristic_which_says_so() {
        let failing = Failing(|| JudgeError::TimedOut(120));
        let judgement = decide(&failing, &evidence(Status::Stuck)).unwrap();
        assert_eq!(judgement.finding, Finding::Loop);
        assert!(
            judgement
                .reason
                .ends_with("(by the heuristic: the judge openai gave no answer within 120 s)"),
            "{}",
            judgement.reason
        );
    }

    #[test]
    fn a_judge_that_was_closed_is_not_replaced() {
        let closed = Failing(|| JudgeError::Closed);
        let decided = decide(&closed, &evidence(Status::Stuck));
        assert!(matches!(decided, Err(JudgeError::Closed)));
    }

    /// Evidence of this status, with something in every field.
    pub fn evidence(status: Status) -> Evidence {
        Evidence {
            session: "3dc8c9ee".to_owned(),
            what: "make test".to_owned(),
            status,
            evidence: vec!["read or wrote 5.5 MB".to_owned(), "cpu 0%".to_owned()],
            heartbeats: 12,
            state_changes: 3,
            last_change: Some((ChangeKind::Output, Duration::from_millis(75_400))),
            elapsed: Duration::from_secs(130),
            iteration: Some(2),
            recent: vec!["compiling a".to_owned(), "compiling b".to_owned()],
        }
    }

    #[test]
    fn every_status_has_its_finding() {
        for (status, finding) in [
            (Status::Progressing, Finding::Progress),
            (Status::Slow, Finding::Progress),
            (Status::Stuck, Finding::Loop),
            (Status::Silent, Finding::Blocked),
            (Status::Blocked(BlockedOn::Input), Finding::Blocked),
            (Status::Blocked(BlockedOn::Network), Finding::Blocked),
            (Status::Blocked(BlockedOn::Stop), Finding::Blocked),
            (Status::Blocked(BlockedOn::Lock), Finding::Blocked),
            (Status::Idle, Finding::Blocked),
            (Status::Ended, Finding::Unknown),
        ] {
            assert_eq!(heuristic(&evidence(status)).finding, finding, "{status}");
        }
    }

    #[test]
    fn the_reason_tells_what_was_counted() {
        assert_eq!(
            heuristic(&evidence(Status::Stuck)).reason,
            "it lives and does nothing new: signs of life 12, changes 3, \
             the last 75 s ago (output)"
        );
        let mut young = evidence(Status::Slow);
        (young.heartbeats, young.state_changes, young.last_change) = (1, 0, None);
        assert_eq!(
            heuristic(&young).reason,
            "it is slow, within its usual time: signs of life 1, changes 0, none so far"
        );
    }
}
