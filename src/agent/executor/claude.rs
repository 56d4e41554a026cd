//! Reads the records of Claude Code's `stream-json`. Pure.

use serde_json::Value;

use crate::agent::activity::class_of;
use crate::agent::activity::{Activity, AgentError, Final, Retry};
use crate::agent::json;
use crate::agent::usage::{Usage, UsageReport};

pub(super) fn classify(event: &Value) -> Vec<Activity> {
    let message = event.get("message").unwrap_or(&Value::Null);
    match json::text_at(event, "type") {
        Some("system") => match json::text_at(event, "subtype") {
            Some("init") => session(event),
            Some("api_retry") => vec![Activity::Retry(retry(event))],
            _ => vec![Activity::Other],
        },
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
            let mut activities = denials(event);
            activities.push(Activity::Final(result(event)));
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

/// The input tokens of a usage. Where it has a total, as Qwen Code's, the cached ones are among the
/// others.
fn input_tokens(usage: &Value) -> Option<u64> {
    let total = json::count_at(usage, &["total_tokens"]);
    match (total, json::count_at(usage, &["output_tokens"])) {
        (Some(total), Some(output)) => Some(total.saturating_sub(output)),
        _ => json::count_at(usage, &INPUT),
    }
}

/// What an answer costs. A record has one block of it, and the usage as it is known by then.
fn answer_usage(event: &Value) -> Option<UsageReport> {
    let found = json::at(event, "message.usage")?;
    let is_subagents = json::text_at(event, "parent_tool_use_id").is_some();
    let usage = Usage {
        input_tokens: input_tokens(found),
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
        input_tokens: of_models(&MODEL_INPUT).or_else(|| input_tokens(found)),
        output_tokens: of_models(&["outputTokens"])
            .or_else(|| json::count_at(found, &["output_tokens"])),
        usd: json::money_at(event, "total_cost_usd"),
        turns: json::count_at(event, &["num_turns"]),
    })
}

fn retry(event: &Value) -> Retry {
    let error = match event.get("error_status").and_then(Value::as_u64) {
        Some(status) => format!("{status} from the API"),
        None => match json::text_at(event, "error") {
            None | Some("unknown") => "no answer from the API".to_owned(),
            Some(error) => error.to_owned(),
        },
    };
    Retry { error, attempt: event.get("attempt").and_then(Value::as_u64) }
}

/// The tools that the result lists as denied. Each of them has a result of its own, which failed.
fn denials(event: &Value) -> Vec<Activity> {
    let listed = event.get("permission_denials").and_then(Value::as_array);
    let names = listed.into_iter().flatten().map(|denial| json::text_at(denial, "tool_name"));
    names.map(|name| Activity::Denied(name.unwrap_or("a tool").to_owned())).collect()
}

fn result(event: &Value) -> Final {
    // Qwen Code reports an error of its endpoint apart, older versions as an answer.
    let text = json::text_at(event, "result").or_else(|| json::text_at(event, "error.message"));
    let text = text.unwrap_or_default().to_owned();
    let failed = text.starts_with("[API Error: ")
        || event.get("is_error").and_then(Value::as_bool) == Some(true)
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
