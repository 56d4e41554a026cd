//! Whether a run gets on, as somebody judges who has the evidence before them.
//!
//! A judge answers with one of four findings and a reason. There is always one, the
//! [`Heuristic`], which reads the tracker's status and needs nobody; a model that is asked
//! by a command line ([`command`]) or at an endpoint ([`openai`]) may be configured over
//! it. What cannot be read as a finding is [`Finding::Unknown`], on which nobody acts.
//!
//! This file and the ones it takes its types from are pure. Limits: a judge blocks its
//! caller until it has answered; [`super::checks`] gives it a thread.

pub mod command;
mod evidence;
mod heuristic;
pub mod openai;
mod prompt;
mod reply;

pub use evidence::{Evidence, Finding, Judgement};
pub use heuristic::heuristic;
pub use prompt::prompt;
pub use reply::parse;

/// Somebody who judges.
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
    /// Nobody waits for it any more.
    #[error("was closed before it answered")]
    Closed,
}

/// The judge that is always there, and always says the same of the same evidence.
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

/// A judge that was configured and cannot be asked, with the reason; so that the
/// judgements that come in its place tell of it.
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

/// The judgement of this judge, and where it has none the heuristic's, which says so.
///
/// # Errors
/// When the judge was closed: nobody waits for an answer then.
pub fn decide(judge: &dyn Judge, evidence: &Evidence) -> Result<Judgement, JudgeError> {
    match judge.judge(evidence) {
        Ok(judgement) => Ok(judgement),
        Err(JudgeError::Closed) => Err(JudgeError::Closed),
        Err(error) => Ok(instead_of(judge.name(), &error, evidence)),
    }
}

/// The heuristic's judgement in place of one that did not come.
pub fn instead_of(name: &str, error: &JudgeError, evidence: &Evidence) -> Judgement {
    let judgement = heuristic(evidence);
    Judgement {
        finding: judgement.finding,
        reason: format!(
            "{} (by the heuristic: the judge {name} {error})",
            judgement.reason
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::evidence::tests::evidence;
    use super::*;
    use crate::progress::tracker::Status;

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
}
