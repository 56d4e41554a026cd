//! Errors of the protocol: what a request gets that is not carried out.

use serde_json::Value;

use crate::protocol::id::RequestId;
use crate::protocol::message;
use crate::protocol::stateless::EnvelopeError;
use crate::protocol::tasks::UnknownTask;

/// An error that is sent instead of a result.
#[derive(Debug)]
pub struct Refusal {
    /// The JSON-RPC error code.
    pub code: i64,
    /// What is wrong, for the client's developer.
    pub text: String,
    /// What the code prescribes.
    pub data: Option<Value>,
}

impl Refusal {
    /// One without data.
    pub fn new(code: i64, text: impl Into<String>) -> Refusal {
        Refusal {
            code,
            text: text.into(),
            data: None,
        }
    }

    /// The response to the request that is refused.
    pub fn reply(self, id: &RequestId) -> Vec<u8> {
        message::error(Some(id), self.code, &self.text, self.data)
    }
}

impl From<EnvelopeError> for Refusal {
    fn from(error: EnvelopeError) -> Self {
        Refusal {
            code: error.code(),
            text: error.to_string(),
            data: error.data(),
        }
    }
}

impl From<UnknownTask> for Refusal {
    fn from(error: UnknownTask) -> Self {
        Refusal::new(UnknownTask::CODE, error.to_string())
    }
}
