//! Arguments that take one of a few words.

use schemars::JsonSchema;
use serde::Deserialize;

/// How the deadline of `zsh` holds.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs)]
pub enum TimeoutMode {
    Deadline,
    Progress,
}

/// What `zsh_poll` waits for.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs)]
pub enum WaitFor {
    Output,
    End,
}
