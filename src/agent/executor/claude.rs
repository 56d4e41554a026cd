//! Reads the records of Claude Code's `stream-json`. Pure.

use serde_json::Value;

use crate::agent::activity::class_of;
use crate::agent::activity::{Activity, AgentError, Final};
use crate::agent::json;
use crate::agent::usage::{Usage, UsageReport};

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
            activities.extend(answer_usage(event).map(Activity::Usage));
            from_subagent(event, activities)
        }
        Some("result") => {
            let mut activities = vec![Activity::Final(result(event))];
            activities.extend(session_usage(event).map(Activity::Usage));
            activities
        }
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

/// The kinds of input tokens in the usage of an answer.
const INPUT: [&str; 3] = ["input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"];
/// The same kinds for each model, in the result.
const MODEL_INPUT: [&str; 3] = ["inputTokens", "cacheCreationInputTokens", "cacheReadInputTokens"];

/// What an answer costs. A record has one block of it, and the usage as it is known by then.
fn answer_usage(event: &Value) -> Option<UsageReport> {
    let found = json::at(event, "message.usage")?;
    let is_subagents = json::text_at(event, "parent_tool_use_id").is_some();
    let usage = Usage {
        input_tokens: json::count_at(found, &INPUT),
        output_tokens: json::count_at(found, &["output_tokens"]),
        usd: None,
        // The result counts the agent's own turns only.
        turns: (!is_subagents).then_some(1),
    };
    UsageReport::of_answer(usage, json::text_at(event, "message.id"))
}

/// What the session has cost up to its result. The usage of each model includes subagents and what
/// the program asks a small model, and belongs to the price; versions without it report the agent's.
fn session_usage(event: &Value) -> Option<UsageReport> {
    let found = event.get("usage").unwrap_or(&Value::Null);
    let models = event.get("modelUsage").and_then(Value::as_object);
    let of_models = |paths: &[&str]| {
        let counts = models?.values().filter_map(|model| json::count_at(model, paths));
        counts.reduce(u64::saturating_add)
    };
    UsageReport::of_session(Usage {
        input_tokens: of_models(&MODEL_INPUT).or_else(|| json::count_at(found, &INPUT)),
        output_tokens: of_models(&["outputTokens"])
            .or_else(|| json::count_at(found, &["output_tokens"])),
        usd: json::money_at(event, "total_cost_usd"),
        turns: json::count_at(event, &["num_turns"]),
    })
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
