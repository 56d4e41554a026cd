//! Lines of a run's log about an agent that are not the agent's own.

use serde_json::{Value, json};

use super::log::{Kind, LogError, NewLine, Origin, RunLog};
use super::reason::Reason;
use super::redaction::Redacted;
use crate::agent::activity::AgentError;
use crate::base::clock::Clock;
use crate::text::redact::Redactor;

/// Writes lines of an attempt that are not its agent's own.
pub(super) struct Writer<'a> {
    /// What takes secrets out.
    pub redactor: &'a Redactor,
    /// Whose agent's.
    pub origin: Origin,
    /// The time.
    pub clock: &'a dyn Clock,
}

impl Writer<'_> {
    /// Unix seconds.
    pub fn now(&self) -> f64 {
        self.clock.now().unix_seconds()
    }

    /// Writes a line.
    pub fn note(&self, log: &mut RunLog, kind: Kind, data: Value) -> Result<(), LogError> {
        log.append(NewLine {
            ts: self.now(),
            kind,
            origin: self.origin.clone(),
            data: Redacted::new(data, self.redactor),
        })?;
        Ok(())
    }
}

/// The data of a `result` line.
pub(super) fn result_data(text: &str, error: Option<AgentError>) -> Value {
    let error = error.map(|error| Reason::from(error).to_string());
    json!({"text": text, "error": error})
}
