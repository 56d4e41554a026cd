//! Reads JSON of unknown shape: a missing value is `None`, never an error.
//!
//! Independent of any agent program. Pure.

use serde_json::Value;

use super::activity::Activity;
use super::usage;
use crate::text::lines::truncate;

/// How much of a tool call's argument is kept for display, logs and comparison.
const MAX_ARGUMENT: usize = 2_000;

/// The arguments that show what a call does, the most informative first.
const INFORMATIVE: [&str; 13] = [
    "command",
    "cmd",
    "commands",
    "file_path",
    "filePath",
    "path",
    "files",
    "notebook_path",
    "pattern",
    "query",
    "url",
    "description",
    "prompt",
];

/// The value at a dotted path, whose numbers count the elements of lists; `None` for the empty path.
pub(super) fn at<'a>(value: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.').try_fold(value, |value, key| match value {
        Value::Array(values) => values.get(key.parse::<usize>().ok()?),
        value => value.get(key),
    })
}

/// The text at a dotted path.
pub(super) fn text_at<'a>(value: &'a Value, path: &str) -> Option<&'a str> {
    at(value, path)?.as_str()
}

/// The sum of the counts at these dotted paths; `None` if none of them is a count.
pub(super) fn count_at<P: AsRef<str>>(value: &Value, paths: &[P]) -> Option<u64> {
    let counts = paths.iter().filter_map(|path| count(at(value, path.as_ref())?));
    counts.reduce(u64::saturating_add)
}

fn count(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| {
        let number = value.as_f64().and_then(usage::money)?;
        // Beyond the range of counts, this is the largest one.
        Some(number as u64)
    })
}

/// An amount of money at a dotted path.
pub(super) fn money_at(value: &Value, path: &str) -> Option<f64> {
    usage::money(at(value, path)?.as_f64()?)
}

/// A string unchanged, the texts of a list's elements on lines, or other values as JSON.
pub(super) fn text_of(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            let texts = parts.iter().map(|part| match part.get("text") {
                Some(text) => text_of(text),
                None => text_of(part),
            });
            texts.collect::<Vec<_>>().join("\n")
        }
        other => other.to_string(),
    }
}

/// A tool call with its most informative argument.
pub(super) fn call(name: &str, arguments: &Value) -> Activity {
    // Some programs write the arguments as a string of JSON.
    let unpacked = arguments.as_str().and_then(|text| serde_json::from_str::<Value>(text).ok());
    let arguments = unpacked.as_ref().unwrap_or(arguments);
    let informative = INFORMATIVE.iter().find_map(|key| arguments.get(key));
    Activity::ToolCall {
        name: name.to_owned(),
        argument: truncate(&flat(informative.unwrap_or(arguments)), MAX_ARGUMENT).into_owned(),
    }
}

/// Like [`text_of`], with lists of words on one line.
fn flat(value: &Value) -> String {
    match value {
        Value::Array(words) if words.iter().all(Value::is_string) => {
            let words = words.iter().filter_map(Value::as_str);
            words.collect::<Vec<_>>().join(" ")
        }
        Value::Array(_) => value.to_string(),
        other => text_of(other),
    }
}

/// The activities of a message in Anthropic's format: a text, or blocks of text, thinking, tool
/// uses and tool results. Only what the role `assistant` says is the agent's: others are prompts,
/// instructions and what tools have answered.
pub(super) fn message(message: &Value) -> Vec<Activity> {
    let is_agents = text_at(message, "role") == Some("assistant");
    match message.get("content") {
        Some(Value::String(text)) if is_agents && !text.is_empty() => {
            vec![Activity::Text(text.clone())]
        }
        Some(Value::Array(blocks)) => {
            let blocks = blocks.iter();
            blocks.filter_map(|part| block(part, is_agents)).collect()
        }
        _ => Vec::new(),
    }
}

fn block(block: &Value, is_agents: bool) -> Option<Activity> {
    let kind = text_at(block, "type")?;
    if !is_agents && kind != "tool_result" {
        return None;
    }
    match kind {
        "text" => Some(Activity::Text(text_at(block, "text")?.to_owned())),
        "thinking" => Some(Activity::Reflection(text_at(block, "thinking")?.to_owned())),
        "tool_use" | "server_tool_use" => {
            let name = text_at(block, "name").unwrap_or("tool");
            let input = block.get("input").unwrap_or(&Value::Null);
            Some(match plan_of(name, input) {
                Some(plan) => Activity::Plan(plan),
                None => call(name, input),
            })
        }
        "tool_result" => Some(Activity::ToolResult {
            text: block.get("content").map(text_of).unwrap_or_default(),
            failed: block.get("is_error").and_then(Value::as_bool) == Some(true),
        }),
        _ => None,
    }
}

/// The plan in a call of the to-do list tool.
fn plan_of(name: &str, input: &Value) -> Option<String> {
    if name != "TodoWrite" {
        return None;
    }
    let items = input.get("todos")?.as_array()?.iter();
    let words = items.filter_map(|item| text_at(item, "content"));
    Some(words.collect::<Vec<_>>().join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_read_in_every_form() {
        let value = serde_json::json!({"a": 3, "b": {"c": 4.0}, "d": -1, "e": "7", "f": 1e300});
        assert_eq!(count_at(&value, &["a", "b.c", "d", "e", "x"]), Some(7));
        assert_eq!(count_at(&value, &["d", "e", "x"]), None);
        assert_eq!(count_at(&value, &["f", "a"]), Some(u64::MAX));
        assert_eq!(money_at(&value, "b.c"), Some(4.0));
        assert_eq!(money_at(&value, "d"), None);
    }

    #[test]
    fn a_path_leads_through_lists_and_objects() {
        let value = serde_json::json!({"a": [{"b": 1}, {"b": [2, 3]}]});
        assert_eq!(at(&value, "a.1.b.0"), Some(&Value::from(2)));
        for path in ["", "a.2", "a.b", "a.-1", "a.0.b.0"] {
            assert_eq!(at(&value, path), None, "{path}");
        }
    }
}
