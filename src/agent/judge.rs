//! Judges decide from evidence whether a run makes progress.
//!
//! A judge answers with one of four findings and a reason. The [`Heuristic`], which reads the
//! tracker's status and counts, is always available; the configuration can choose a model instead,
//! behind a command line ([`command`]) or an endpoint ([`openai`]). An answer without a finding is
//! [`Finding::Unknown`], which has no consequences.
//!
//! Pure. Limits: a judge blocks its caller until it has answered; [`super::checks`] provides a
//! thread.

use std::time::Duration;

use crate::progress::tracker::{BlockedOn, ChangeKind, Status};

pub(crate) mod command;
pub(crate) mod openai;
mod prompt;
mod reply;

/// Judges whether a run makes progress.
pub trait Judge: Send + Sync {
    /// The name, as in the configuration.
    fn name(&self) -> &str;

    /// Judges the evidence, blocking until the judgement is complete.
    ///
    /// # Errors
    /// If the judge cannot answer.
    fn judge(&self, evidence: &Evidence) -> Result<Judgement, JudgeError>;

    /// Ends running judgements and refuses later ones.
    fn close(&self) {}
}

/// Why a judge did not answer.
#[derive(Debug, thiserror::Error)]
pub enum JudgeError {
    /// It is unreachable.
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

/// The judge that is always available. It is deterministic.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Heuristic;

impl Judge for Heuristic {
    fn name(&self) -> &str {
        "heuristic"
    }

    fn judge(&self, evidence: &Evidence) -> Result<Judgement, JudgeError> {
        Ok(heuristic(evidence))
    }
}

/// A configured judge that is unusable. The heuristic's judgements in its place contain the cause.
#[derive(Debug, Clone)]
pub(crate) struct UnusableJudge {
    pub(crate) name: String,
    /// The fault in its configuration.
    pub(crate) cause: String,
}

impl Judge for UnusableJudge {
    fn name(&self) -> &str {
        &self.name
    }

    fn judge(&self, _: &Evidence) -> Result<Judgement, JudgeError> {
        Err(JudgeError::Unreachable(self.cause.clone()))
    }
}

/// The judge's judgement. If the judge fails, the heuristic's, with a reason that says so.
///
/// # Errors
/// If the judge was closed.
pub(crate) fn decide(judge: &dyn Judge, evidence: &Evidence) -> Result<Judgement, JudgeError> {
    match judge.judge(evidence) {
        Ok(judgement) => Ok(judgement),
        Err(JudgeError::Closed) => Err(JudgeError::Closed),
        Err(error) => Ok(fallback(judge.name(), &error, evidence)),
    }
}

/// The heuristic's judgement in place of a failed judge's.
pub(crate) fn fallback(name: &str, error: &JudgeError, evidence: &Evidence) -> Judgement {
    let judgement = heuristic(evidence);
    Judgement {
        finding: judgement.finding,
        reason: format!("{} (by the heuristic: the judge {name} {error})", judgement.reason),
    }
}

/// A judge's finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Finding {
    /// A: the run makes progress, perhaps slowly.
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
    /// Its letter in the question; `None` for [`Finding::Unknown`].
    pub(crate) fn letter(self) -> Option<char> {
        match self {
            Finding::Progress => Some('A'),
            Finding::Loop => Some('B'),
            Finding::Blocked => Some('C'),
            Finding::Failed => Some('D'),
            Finding::Unknown => None,
        }
    }

    /// The finding of a letter, in upper or lower case.
    pub(crate) fn from_letter(letter: char) -> Option<Finding> {
        let findings = [Finding::Progress, Finding::Loop, Finding::Blocked, Finding::Failed];
        let letter = Some(letter.to_ascii_uppercase());
        findings.into_iter().find(|finding| finding.letter() == letter)
    }
}

/// A finding and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judgement {
    pub finding: Finding,
    /// The reason, in one or two lines.
    pub reason: String,
}

/// The facts about a run that a judge gets.
#[derive(Debug, Clone, PartialEq)]
pub struct Evidence {
    /// The id of the task or of the agent run.
    pub session: String,
    /// Its command line, or the beginning of its prompt; redacted.
    pub prompt_or_command: String,
    /// The tracker's status.
    pub status: Status,
    /// The reasons for the status, in words.
    pub evidence: Vec<String>,
    /// The number of signs of life.
    pub heartbeats: u64,
    /// The number of state changes.
    pub state_changes: u64,
    /// The newest state change, with its age.
    pub last_change: Option<(ChangeKind, Duration)>,
    /// The time since the start.
    pub elapsed: Duration,
    /// The iteration of its work, if it has iterations.
    pub iteration: Option<u64>,
    /// Its newest activities or lines of output, oldest first; redacted.
    pub recent: Vec<String>,
}

/// Judges only by the tracker's status. Silence is neither a loop nor a failure: an agent without
/// signs of life waits for something.
pub(crate) fn heuristic(evidence: &Evidence) -> Judgement {
    let (finding, words) = match evidence.status {
        Status::Progressing => (Finding::Progress, "it makes progress"),
        Status::Slow => (Finding::Progress, "it is slow, within its usual time"),
        Status::Stuck => (Finding::Loop, "it is active and does nothing new"),
        Status::Silent => (Finding::Blocked, "it gives no sign of life"),
        Status::Blocked(BlockedOn::Input) => (Finding::Blocked, "it waits for input"),
        Status::Blocked(BlockedOn::Network) => (Finding::Blocked, "it waits for the network"),
        Status::Blocked(BlockedOn::Stop) => (Finding::Blocked, "a signal stopped it"),
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
    fn the_heuristic_replaces_a_judge_that_fails_and_says_so() {
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
    pub(crate) fn evidence(status: Status) -> Evidence {
        Evidence {
            session: "3dc8c9ee".to_owned(),
            prompt_or_command: "make test".to_owned(),
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
    fn the_reason_contains_the_counts() {
        assert_eq!(
            heuristic(&evidence(Status::Stuck)).reason,
            "it is active and does nothing new: signs of life 12, changes 3, \
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
