//! The judge behind an OpenAI-compatible endpoint.

use std::sync::Arc;
use std::time::Duration;

use super::{Evidence, Judgement};
use super::{Judge, JudgeError, prompt, reply};
use crate::agent::endpoint::{Bounds, Endpoint, EndpointError};
use crate::task::live::Cancel;
use crate::text::redact::Redactor;

/// A letter and a brief reason, deterministic. A local model may first have to finish its
/// work for the run itself.
const BOUNDS: Bounds = Bounds { max_tokens: 100, temperature: 0.0, time: Duration::from_secs(120) };

/// Asks a model.
pub struct OpenaiJudge {
    endpoint: Endpoint,
    redactor: Arc<Redactor>,
    cancel: Cancel,
}

impl OpenaiJudge {
    /// Asks this endpoint.
    pub fn new(endpoint: Endpoint, redactor: Arc<Redactor>) -> OpenaiJudge {
        OpenaiJudge { endpoint, redactor, cancel: Cancel::default() }
    }
}

impl Judge for OpenaiJudge {
    fn name(&self) -> &str {
        "openai"
    }

    fn judge(&self, evidence: &Evidence) -> Result<Judgement, JudgeError> {
        let prompt = prompt::prompt(evidence, &self.redactor);
        match self.endpoint.complete(&prompt, &BOUNDS, &self.cancel) {
            Ok(answer) => Ok(reply::parse(&answer)),
            Err(EndpointError::Interrupted) => Err(JudgeError::Closed),
            Err(EndpointError::TimedOut { seconds, .. }) => Err(JudgeError::TimedOut(seconds)),
            Err(error @ EndpointError::Unreachable { .. }) => {
                Err(JudgeError::Unreachable(error.to_string()))
            }
            Err(error) => Err(JudgeError::Failed(error.to_string())),
        }
    }

    fn close(&self) {
        self.cancel.cancel();
    }
}
