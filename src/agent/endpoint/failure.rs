//! Why an endpoint is not asked, or gives no answer.

use crate::agent::activity::AgentError;

/// Why there is no endpoint to ask.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum SetupError {
    /// No address.
    #[error("openai.base_url is not set: name the endpoint, as in http://127.0.0.1:11434/v1")]
    NoAddress,
    /// No model.
    #[error("openai.model is not set: name a model that the endpoint has")]
    NoModel,
    /// It cannot be read.
    #[error("openai.base_url is no address: {0}")]
    BadAddress(String),
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum EndpointError {
    /// Nobody there.
    #[error("cannot connect to {url}: {cause}")]
    Unreachable {
        /// Where.
        url: String,
        /// What the system said.
        cause: String,
    },
    /// The connection broke before the answer was whole.
    #[error("the connection to {url} broke: {cause}")]
    Broken {
        /// Where.
        url: String,
        /// What the system said.
        cause: String,
    },
    /// The key is missing or wrong.
    #[error("{url} answered {status}: {message} (the key comes from ${key_variable}{unset})")]
    Unauthorised {
        /// Where.
        url: String,
        /// 401 or 403.
        status: u16,
        /// What the endpoint said.
        message: String,
        /// Where the key comes from.
        key_variable: String,
        /// `, which is not set`, or nothing.
        unset: &'static str,
    },
    /// Another error of the endpoint.
    #[error("{url} answered {status}: {message}")]
    Status {
        /// Where.
        url: String,
        /// The status.
        status: u16,
        /// What the endpoint said.
        message: String,
    },
    /// An answer that cannot be read, or an error in the midst of one.
    #[error("{url} answered what cannot be used: {cause}")]
    BadAnswer {
        /// Where.
        url: String,
        /// What is wrong with it.
        cause: String,
    },
    /// It took too long.
    #[error("{url} gave no answer within {seconds} s")]
    TimedOut {
        /// Where.
        url: String,
        /// The limit.
        seconds: u64,
    },
    /// Nobody waits any more.
    #[error("was stopped before there was an answer")]
    Interrupted,
}

impl EndpointError {
    /// Its class among what goes wrong within agents.
    pub fn class(&self) -> AgentError {
        match self {
            EndpointError::Unreachable { .. } => AgentError::ConnectionRefused,
            EndpointError::Unauthorised { .. } => AgentError::AuthFailed,
            EndpointError::Broken { .. }
            | EndpointError::Status { .. }
            | EndpointError::BadAnswer { .. }
            | EndpointError::TimedOut { .. }
            | EndpointError::Interrupted => AgentError::ApiError,
        }
    }

    /// Whether the same request may succeed a moment later.
    pub(super) fn may_pass(&self) -> bool {
        match self {
            EndpointError::Unreachable { .. } | EndpointError::Broken { .. } => true,
            EndpointError::Status { status, .. } => (500..600).contains(status),
            EndpointError::Unauthorised { .. }
            | EndpointError::BadAnswer { .. }
            | EndpointError::TimedOut { .. }
            | EndpointError::Interrupted => false,
        }
    }
}
