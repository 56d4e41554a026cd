//! A model behind an OpenAI-compatible endpoint: this program itself, as `agent-openai`,
//! so that it is supervised like any other.

use serde_json::Value;

use super::launch::Ids;
use crate::agent::activity::{Activity, AgentError, Final};
use crate::agent::json;

pub(super) fn arguments(ids: &Ids<'_>) -> Vec<String> {
    let mut arguments = vec!["agent-openai"];
    if let Some(model) = ids.model {
        arguments.extend(["--model", model]);
    }
    arguments.into_iter().map(str::to_owned).collect()
}

/// This program's file; its name, where that cannot be told.
pub(super) fn program() -> String {
    let file = std::env::current_exe().ok();
    let file = file.filter(|path| path.is_file());
    let path = file.and_then(|path| path.into_os_string().into_string().ok());
    path.unwrap_or_else(|| env!("CARGO_PKG_NAME").to_owned())
}

pub(super) fn classify(event: &Value) -> Vec<Activity> {
    let text = json::text_at(event, "text").unwrap_or_default().to_owned();
    vec![match json::text_at(event, "type") {
        Some("text") => Activity::Text(text),
        Some("reasoning") => Activity::Reflection(text),
        Some("result") => Activity::Final(result(event, text)),
        _ => Activity::Other,
    }]
}

fn result(event: &Value, text: String) -> Final {
    let error = json::text_at(event, "error").map(|class| match class {
        "connection_refused" => AgentError::ConnectionRefused,
        "auth_failed" => AgentError::AuthFailed,
        _ => AgentError::ApiError,
    });
    Final { text, error }
}
