//! A judge that asks an OpenAI-compatible endpoint.

use std::sync::Arc;
use std::time::Duration;

use super::{Evidence, Judgement};
use super::{Judge, JudgeError, prompt, reply};
use crate::agent::endpoint::{Bounds, Endpoint, EndpointError};
use crate::base::cancel::Cancel;
use crate::text::redact::Redactor;

/// Bounds for a letter and a brief reason, deterministic. The time allows a local model to finish
/// its work for the run first.
const BOUNDS: Bounds = Bounds { max_tokens: 100, temperature: 0.0, time: Duration::from_secs(120) };

pub struct OpenaiJudge {
    endpoint: Endpoint,
    redactor: Arc<Redactor>,
    cancel: Cancel,
}

impl OpenaiJudge {
    /// A judge that asks this endpoint.
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
