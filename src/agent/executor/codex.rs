//! Reads the records of `codex exec --json`. Pure.

use serde_json::Value;

use crate::agent::activity::class_of;
use crate::agent::activity::{Activity, AgentError, Final, Retry};
use crate::agent::json;
use crate::agent::usage::{Usage, UsageReport};

pub(super) fn classify(event: &Value) -> Vec<Activity> {
    let item = event.get("item").unwrap_or(&Value::Null);
    let activities = match json::text_at(event, "type") {
        Some("thread.started") => match json::text_at(event, "thread_id") {
            Some(id) => vec![Activity::Session { id: id.to_owned() }],
            None => Vec::new(),
        },
        Some("item.started") => started(item),
        Some("item.updated") => plan(item).into_iter().collect(),
        Some("item.completed") => completed(item),
        Some("turn.completed") => {
            let mut activities = vec![Activity::Final(Final { text: String::new(), error: None })];
            activities.extend(session_usage(event).map(Activity::Usage));
            activities
        }
        Some("turn.failed") => vec![Activity::Final(failed(event))],
        Some("error") => retry(event).map(Activity::Retry).into_iter().collect(),
        _ => Vec::new(),
    };
    if activities.is_empty() {
        return vec![Activity::Other];
    }
    activities
}

/// What the session has cost so far. Input tokens include the cached ones.
fn session_usage(event: &Value) -> Option<UsageReport> {
    UsageReport::of_session(Usage {
        input_tokens: json::count_at(event, &["usage.input_tokens"]),
        output_tokens: json::count_at(event, &["usage.output_tokens"]),
        ..Usage::default()
    })
}

/// The further attempt that Codex announces in an `error`: `Reconnecting... 2/5 (what failed)`.
fn retry(event: &Value) -> Option<Retry> {
    let text = json::text_at(event, "message")?.strip_prefix("Reconnecting... ")?;
    let (attempt, error) = text.split_once(" (").unwrap_or((text, text));
    let attempt = attempt.split_once('/').and_then(|(attempt, _)| attempt.parse().ok());
    Some(Retry { error: error.trim_end_matches(')').to_owned(), attempt })
}

fn failed(event: &Value) -> Final {
    let text = json::text_at(event, "error.message").unwrap_or_default();
    Final { text: text.to_owned(), error: Some(class_of(text).unwrap_or(AgentError::ApiError)) }
}

fn started(item: &Value) -> Vec<Activity> {
    let call = match json::text_at(item, "type") {
        Some("command_execution") => json::call("command", item),
        Some("mcp_tool_call") => {
            let server = json::text_at(item, "server").unwrap_or_default();
            let tool = json::text_at(item, "tool").unwrap_or_default();
            let arguments = item.get("arguments").unwrap_or(&Value::Null);
            json::call(&format!("{server}.{tool}"), arguments)
        }
        Some("web_search") => json::call("web_search", item),
        Some("todo_list") => return plan(item).into_iter().collect(),
        _ => return Vec::new(),
    };
    vec![call]
}

fn completed(item: &Value) -> Vec<Activity> {
    let text = || json::text_at(item, "text").unwrap_or_default().to_owned();
    match json::text_at(item, "type") {
        Some("agent_message") => vec![Activity::Text(text())],
        Some("reasoning") => vec![Activity::Reflection(text())],
        Some("command_execution") => vec![Activity::ToolResult {
            text: json::text_at(item, "aggregated_output").unwrap_or_default().to_owned(),
            failed: item.get("exit_code").and_then(Value::as_i64).is_some_and(|code| code != 0)
                || is_failed(item),
        }],
        Some("file_change") if !is_failed(item) => {
            let changes = item.get("changes").and_then(Value::as_array);
            let paths = changes.into_iter().flatten();
            let paths = paths.filter_map(|change| json::text_at(change, "path"));
            paths.map(|path| Activity::FileWritten { path: path.to_owned() }).collect()
        }
        Some("file_change" | "mcp_tool_call" | "web_search") => vec![Activity::ToolResult {
            text: item.get("result").map(json::text_of).unwrap_or_default(),
            failed: is_failed(item),
        }],
        Some("todo_list") => plan(item).into_iter().collect(),
        _ => Vec::new(),
    }
}

fn is_failed(item: &Value) -> bool {
    json::text_at(item, "status") == Some("failed")
}

fn plan(item: &Value) -> Option<Activity> {
    if json::text_at(item, "type") != Some("todo_list") {
        return None;
    }
    let items = item.get("items")?.as_array()?.iter();
    let words = items.filter_map(|item| json::text_at(item, "text"));
    Some(Activity::Plan(words.collect::<Vec<_>>().join("\n")))
}
