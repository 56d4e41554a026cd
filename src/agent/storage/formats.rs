//! Reads the conversations that agents store, as activities.
//!
//! Pure except for [`directory`] and [`has_failed`], which may read a small file next to a conversation. Limits:
//! incomplete and unknown records are skipped.

use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;

use crate::agent::activity::{Activity, AgentError, Final, class_of};
use crate::agent::json;

/// How many lines of a conversation to search for the agent's working directory.
const FIRST_LINES: usize = 50;

/// The largest file that is read for the working directory of a conversation's agent.
const MAX_SIDE_FILE: u64 = 1 << 20;

/// The format of a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Format {
    /// Claude Code: one record per line, with messages in Anthropic's format.
    Claude,
    /// Codex: one record per line, with items of OpenAI's Responses API.
    Codex,
    /// One list of messages in Anthropic's format, or of Cline's display entries.
    Messages,
    /// Gemini: one document, or changes to it, one record per line.
    Chat,
    /// Qwen Code: one record per line, with messages in Gemini's format.
    Parts,
    /// Aider's history, in Markdown.
    Markdown,
}

/// The activities of a conversation, without incomplete records.
pub(super) fn activities(format: Format, text: &str) -> Vec<Activity> {
    match format {
        Format::Claude => records(text).flat_map(|record| claude(&record)).collect(),
        Format::Codex => records(text).flat_map(|record| codex(&record)).collect(),
        Format::Messages => {
            let messages = elements(text);
            messages.iter().flat_map(message_or_display).collect()
        }
        Format::Chat => chat(text).iter().flat_map(gemini).collect(),
        Format::Parts => records(text).flat_map(|record| parts(&record)).collect(),
        Format::Markdown => markdown(text),
    }
}

/// The agent's working directory in a conversation, if the conversation or a file next to it names
/// it.
pub(super) fn directory(format: Format, path: &Path, text: &str) -> Option<PathBuf> {
    match format {
        Format::Claude | Format::Codex | Format::Parts => {
            let mut first = text.lines().take(FIRST_LINES);
            first.find_map(|line| {
                let record: Value = serde_json::from_str(line).ok()?;
                let known = json::text_at(&record, "cwd");
                known.or_else(|| json::text_at(&record, "payload.cwd")).map(PathBuf::from)
            })
        }
        Format::Messages => json::text_at(&session_of(path)?, "cwd").map(PathBuf::from),
        Format::Chat => {
            let text = side_file(&path.parent()?.parent()?.join(".project_root"))?;
            Some(PathBuf::from(text.trim_end()))
        }
        Format::Markdown => None,
    }
}

/// Whether the agent has noted beside a conversation that it failed.
pub(super) fn has_failed(format: Format, path: &Path) -> bool {
    match format {
        Format::Messages => session_of(path)
            .is_some_and(|session| json::text_at(&session, "status") == Some("failed")),
        Format::Claude | Format::Codex | Format::Chat | Format::Parts | Format::Markdown => false,
    }
}

/// What Cline notes beside a conversation.
fn session_of(path: &Path) -> Option<Value> {
    let name = path.file_name()?.to_str()?.strip_suffix(".messages.json")?;
    let text = side_file(&path.with_file_name(format!("{name}.json")))?;
    serde_json::from_str(&text).ok()
}

fn side_file(path: &Path) -> Option<String> {
    let found = fs::symlink_metadata(path).ok()?;
    let is_small = found.is_file() && found.len() <= MAX_SIDE_FILE;
    is_small.then(|| fs::read_to_string(path).ok()).flatten()
}

/// The lines that are complete records.
fn records(text: &str) -> impl Iterator<Item = Value> + '_ {
    text.lines().filter_map(|line| serde_json::from_str(line).ok())
}

fn claude(record: &Value) -> Vec<Activity> {
    let is = |key: &str| record.get(key).and_then(Value::as_bool) == Some(true);
    // Other records hold its system prompt, its requests and its settings.
    if !matches!(json::text_at(record, "type"), Some("assistant" | "user")) {
        return Vec::new();
    }
    // Records of subagents, and Claude Code's message about an error of its endpoint.
    if is("isSidechain") || is("isApiErrorMessage") {
        return Vec::new();
    }
    let Some(message) = record.get("message") else {
        return Vec::new();
    };
    // A text before a tool call is not an answer, even if the call was never written.
    let continues = matches!(
        json::text_at(message, "stop_reason"),
        Some("tool_use" | "pause_turn" | "max_tokens")
    );
    let activities = json::message(message).into_iter();
    activities
        .map(|activity| match activity {
            Activity::Text(text) if continues => Activity::Reflection(text),
            other => other,
        })
        .collect()
}

fn parts(record: &Value) -> Vec<Activity> {
    let is_model = json::text_at(record, "message.role") == Some("model");
    let parts = json::at(record, "message.parts").and_then(Value::as_array);
    let activity = |part: &Value| {
        if let Some(response) = part.get("functionResponse") {
            let text = response.get("response").map(json::text_of).unwrap_or_default();
            return Some(Activity::ToolResult { text, failed: false });
        }
        if let Some(call) = part.get("functionCall") {
            let arguments = call.get("args").unwrap_or(&Value::Null);
            return Some(json::call(json::text_at(call, "name").unwrap_or("tool"), arguments));
        }
        let text = json::text_at(part, "text").filter(|_| is_model)?.to_owned();
        let is_thought = part.get("thought").and_then(Value::as_bool) == Some(true);
        Some(if is_thought { Activity::Reflection(text) } else { Activity::Text(text) })
    };
    parts.into_iter().flatten().filter_map(activity).collect()
}

fn codex(record: &Value) -> Vec<Activity> {
    let payload = record.get("payload").unwrap_or(&Value::Null);
    let kind = json::text_at(payload, "type").unwrap_or_default();
    let activity = match (json::text_at(record, "type"), kind) {
        (Some("response_item"), "message") => codex_message(payload),
        (Some("response_item"), "function_call_output" | "custom_tool_call_output") => {
            Some(Activity::ToolResult {
                text: payload.get("output").map(json::text_of).unwrap_or_default(),
                failed: false,
            })
        }
        (Some("response_item"), call) if call.ends_with("_call") => {
            let name = json::text_at(payload, "name").unwrap_or(call);
            let arguments = ["arguments", "input", "action"];
            let arguments = arguments.iter().find_map(|key| payload.get(key));
            Some(json::call(name, arguments.unwrap_or(&Value::Null)))
        }
        (Some("event_msg"), "task_complete") => Some(Activity::Final(Final {
            text: json::text_at(payload, "last_agent_message").unwrap_or_default().to_owned(),
            error: None,
        })),
        _ => None,
    };
    activity.into_iter().collect()
}

fn codex_message(payload: &Value) -> Option<Activity> {
    if json::text_at(payload, "role") != Some("assistant") {
        return None;
    }
    let text = payload.get("content").map(json::text_of)?;
    Some(match json::text_at(payload, "phase") {
        Some("commentary") => Activity::Reflection(text),
        _ => Activity::Text(text),
    })
}

/// The messages of a document that is or contains a list of messages. Of an incomplete document,
/// the complete messages at its beginning.
fn elements(text: &str) -> Vec<Value> {
    match serde_json::from_str::<Value>(text) {
        Ok(Value::Array(messages)) => messages,
        Ok(Value::Object(mut document)) => match document.remove("messages") {
            Some(Value::Array(messages)) => messages,
            _ => Vec::new(),
        },
        Ok(_) => Vec::new(),
        Err(_) => complete_elements(text),
    }
}

fn complete_elements(text: &str) -> Vec<Value> {
    let list = match text.trim_start().strip_prefix('[') {
        Some(list) => Some(list),
        None => text
            .split_once("\"messages\"")
            .and_then(|(_, rest)| rest.trim_start().strip_prefix(':'))
            .and_then(|rest| rest.trim_start().strip_prefix('[')),
    };
    let mut rest = list.unwrap_or_default();
    let mut messages = Vec::new();
    loop {
        rest = rest.trim_start_matches(|c: char| c == ',' || c.is_whitespace());
        let mut values = serde_json::Deserializer::from_str(rest).into_iter::<Value>();
        let Some(Ok(message)) = values.next() else {
            return messages;
        };
        rest = rest.get(values.byte_offset()..).unwrap_or_default();
        messages.push(message);
    }
}

/// The activities of a message, or of a display entry of Cline before version 3.
fn message_or_display(entry: &Value) -> Vec<Activity> {
    let text = || json::text_at(entry, "text").unwrap_or_default().to_owned();
    let is_partial = entry.get("partial").and_then(Value::as_bool) == Some(true);
    let shown = json::text_at(entry, "say").or_else(|| json::text_at(entry, "ask"));
    match shown {
        None => match json::text_at(entry, "metadata.displayRole") {
            None => json::message(entry),
            // What its endpoint answered, which it stores as if it were an answer.
            Some("error") => vec![Activity::Final(failure(entry))],
            // Shown to the user only.
            Some(_) => Vec::new(),
        },
        Some(_) if is_partial => Vec::new(),
        Some("completion_result") if !text().is_empty() => vec![Activity::Text(text())],
        Some(name @ ("tool" | "command" | "browser_action" | "use_mcp_server")) => {
            vec![json::call(name, entry.get("text").unwrap_or(&Value::Null))]
        }
        Some("text") => vec![Activity::Reflection(text())],
        Some(_) => Vec::new(),
    }
}

/// The end that an entry reports as an error.
fn failure(entry: &Value) -> Final {
    let text = entry.get("content").map(json::text_of).unwrap_or_default();
    let error = class_of(&text).unwrap_or(AgentError::ApiError);
    Final { text, error: Some(error) }
}

/// The messages after applying all records: a record with a known id replaces the message.
fn chat(text: &str) -> Vec<Value> {
    if serde_json::from_str::<Value>(text.lines().next().unwrap_or_default()).is_err() {
        return elements(text);
    }
    let mut messages: Vec<Value> = Vec::new();
    for record in records(text) {
        let set = json::at(&record, "$set.messages");
        if let Some(all) = set.or_else(|| record.get("messages")).and_then(Value::as_array) {
            messages.clone_from(all);
        } else if let Some(id) = json::text_at(&record, "id") {
            // Search from the end, where messages still change.
            let same =
                messages.iter_mut().rev().find(|known| json::text_at(known, "id") == Some(id));
            match same {
                Some(known) => *known = record,
                None => messages.push(record),
            }
        }
    }
    messages
}

fn gemini(message: &Value) -> Vec<Activity> {
    if json::text_at(message, "type") != Some("gemini") {
        return Vec::new();
    }
    let mut activities = Vec::new();
    let text = message.get("content").map(json::text_of).unwrap_or_default();
    if !text.is_empty() {
        activities.push(Activity::Text(text));
    }
    let calls = message.get("toolCalls").and_then(Value::as_array);
    for tool in calls.into_iter().flatten() {
        let name = json::text_at(tool, "name").unwrap_or("tool");
        activities.push(json::call(name, tool.get("args").unwrap_or(&Value::Null)));
        activities.push(Activity::ToolResult {
            text: json::text_at(tool, "resultDisplay").unwrap_or_default().to_owned(),
            failed: json::text_at(tool, "status") == Some("error"),
        });
    }
    activities
}

/// The last chat of a history. Aider writes its file changes after the answer that requested them,
/// and the number of tokens after a complete answer.
fn markdown(text: &str) -> Vec<Activity> {
    let begin = text.rfind("# aider chat started at").unwrap_or(0);
    let mut acts = Vec::new();
    let mut answer = String::new();
    let mut is_whole = false;
    for line in text.get(begin..).unwrap_or_default().lines().skip(1) {
        if let Some(note) = line.strip_prefix("> ") {
            is_whole |= note.starts_with("Tokens: ");
            acts.extend(aider_act(note.trim_end()));
        } else if line.starts_with("#### ") {
            answer.clear();
            is_whole = false;
        } else {
            is_whole &= line.trim().is_empty();
            answer.push_str(line);
            answer.push('\n');
        }
    }
    if is_whole && !answer.trim().is_empty() {
        acts.push(Activity::Text(answer.trim().to_owned()));
    }
    acts
}

fn aider_act(note: &str) -> Option<Activity> {
    if let Some(path) = note.strip_prefix("Applied edit to ") {
        let path = path.to_owned();
        return Some(Activity::FileWritten { path });
    }
    let (name, argument) = note.split_once(' ')?;
    let is_act = matches!(name, "Commit" | "Running");
    is_act.then(|| Activity::ToolCall { name: name.to_owned(), argument: argument.to_owned() })
}
