//! JSON-RPC errors, which answer requests that cannot be carried out.

use serde_json::Value;

use crate::protocol::id::RequestId;
use crate::protocol::message;
use crate::protocol::stateless::EnvelopeError;
use crate::protocol::tasks::UnknownTask;

#[derive(Debug)]
pub(crate) struct RpcError {
    /// The JSON-RPC error code.
    pub(crate) code: i64,
    /// What is wrong, for the client's developer.
    pub(crate) text: String,
    /// The member `data` that this error code requires, if any.
    pub(crate) data: Option<Value>,
}

impl RpcError {
    pub(crate) fn new(code: i64, text: impl Into<String>) -> RpcError {
        RpcError { code, text: text.into(), data: None }
    }

    /// The response to the request.
    pub(crate) fn reply(self, id: &RequestId) -> Vec<u8> {
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
