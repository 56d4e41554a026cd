//! JSON-RPC errors, which answer requests that cannot be carried out.

use serde_json::Value;

use crate::protocol::id::RequestId;
use crate::protocol::message;
use crate::protocol::stateless::EnvelopeError;
use crate::protocol::tasks::UnknownTask;

#[derive(Debug)]
pub struct RpcError {
    /// The JSON-RPC error code.
    pub code: i64,
    /// What is wrong, for the client's developer.
    pub text: String,
    /// The member `data` that this error code requires, if any.
    pub data: Option<Value>,
}

impl RpcError {
    pub fn new(code: i64, text: impl Into<String>) -> RpcError {
        RpcError { code, text: text.into(), data: None }
    }

    /// The response to the request.
    pub fn reply(self, id: &RequestId) -> Vec<u8> {
        message::error(Some(id), self.code, &self.text, self.data)
    }
}

impl From<EnvelopeError> for RpcError {
    fn from(error: EnvelopeError) -> Self {
        RpcError { code: error.code(), text: error.to_string(), data: error.data() }
    }
}

impl From<UnknownTask> for RpcError {
    fn from(error: UnknownTask) -> Self {
        RpcError::new(UnknownTask::CODE, error.to_string())
    }
}
