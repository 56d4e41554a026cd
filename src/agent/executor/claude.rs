//! Reads the records of Claude Code's `stream-json`. Pure.

use serde_json::Value;

use crate::agent::activity::class_of;
use crate::agent::activity::{Activity, AgentError, Final};
use crate::agent::json;

pub(super) fn classify(event: &Value) -> Vec<Activity> {
    let message = event.get("message").unwrap_or(&Value::Null);
    match json::text_at(event, "type") {
        Some("system") if json::text_at(event, "subtype") == Some("init") => session(event),
        // Claude Code's message about an error of the endpoint, which the result repeats.
        Some("assistant") if event.get("error").is_some_and(|error| !error.is_null()) => {
            vec![Activity::Other]
        }
        Some("assistant" | "user") => {
            let mut activities = json::message(message);
            activities.extend(written(event));
            from_subagent(event, activities)
        }
        Some("result") => vec![Activity::Final(result(event))],
        _ => vec![Activity::Other],
    }
}

fn session(event: &Value) -> Vec<Activity> {
    match json::text_at(event, "session_id") {
        Some(id) => vec![Activity::Session { id: id.to_owned() }],
        None => vec![Activity::Other],
    }
}

/// A subagent's text is addressed to the agent, not to the user.
fn from_subagent(event: &Value, activities: Vec<Activity>) -> Vec<Activity> {
    if activities.is_empty() {
        return vec![Activity::Other];
    }
    if json::text_at(event, "parent_tool_use_id").is_none() {
        return activities;
    }
    let private = activities.into_iter().map(|activity| match activity {
        Activity::Text(text) => Activity::Reflection(text),
        other => other,
    });
    private.collect()
}

/// The file that a tool has written.
fn written(event: &Value) -> Option<Activity> {
    let result = event.get("tool_use_result")?;
    let writes = matches!(json::text_at(result, "type"), Some("create" | "update"))
        || result.get("structuredPatch").is_some();
    let path = json::text_at(result, "filePath").filter(|_| writes)?;
    Some(Activity::FileWritten { path: path.to_owned() })
}

fn result(event: &Value) -> Final {
    let text = json::text_at(event, "result").unwrap_or_default().to_owned();
    let failed = event.get("is_error").and_then(Value::as_bool) == Some(true)
        || json::text_at(event, "subtype").is_some_and(|kind| kind.starts_with("error"));
    let error = failed.then(|| error_of(event, &text));
    Final { text, error }
}

fn error_of(event: &Value, text: &str) -> AgentError {
    match event.get("api_error_status").and_then(Value::as_u64) {
        Some(401 | 403) => AgentError::AuthFailed,
        Some(_) => AgentError::ApiError,
        None => class_of(text).unwrap_or(AgentError::ToolError),
    }
}
