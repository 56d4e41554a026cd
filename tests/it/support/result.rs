//! Splits the result of a tool call into the parts that the model reads.

use std::time::Duration;

use serde_json::Value;

/// The line before a command's output, and the beginning of the one after it, which names the task.
const RULE: &str = "───";

/// The text in place of empty output.
const NO_OUTPUT: &str = "(no output)";

/// The result of one tool call.
pub struct ToolResult {
    /// The text block.
    pub text: String,
    /// Whether the tool itself failed.
    pub is_error: bool,
    /// `_meta["zsh-tool/result"]`, null when absent.
    pub meta: Value,
    /// The whole result.
    pub raw: Value,
    /// The time from sending the request to receiving the response.
    pub elapsed: Duration,
}

impl ToolResult {
    /// Splits the `result` of a response.
    pub fn new(raw: Value, elapsed: Duration) -> ToolResult {
        let text = raw["content"][0]["text"]
            .as_str()
            .unwrap_or_else(|| panic!("no text block: {raw}"))
            .to_owned();
        ToolResult {
            text,
            is_error: raw["isError"].as_bool().unwrap_or(false),
            meta: raw["_meta"]["zsh-tool/result"].clone(),
            raw,
            elapsed,
        }
    }

    /// The task's id.
    pub fn task_id(&self) -> String {
        // Some clients get no `_meta`.
        let in_text = || self.text.split("task=").nth(1)?.split_whitespace().next();
        self.meta["task_id"]
            .as_str()
            .or_else(in_text)
            .unwrap_or_else(|| panic!("no task_id: {}", self.raw))
            .to_owned()
    }

    /// The task's status: `completed`, `failed`, `running` …
    pub fn status(&self) -> &str {
        self.meta["status"].as_str().unwrap_or_default()
    }

    /// The line that echoes the command.
    pub fn header(&self) -> &str {
        self.text
            .lines()
            .find(|line| line.starts_with("$ "))
            .unwrap_or_else(|| panic!("no echoed command: {}", self.text))
    }

    /// The command's shown output, without its final line end.
    pub fn output(&self) -> String {
        let lines: Vec<&str> = self.text.split('\n').collect();
        let (Some(first), Some(last)) =
            (lines.iter().position(|line| *line == RULE), closing_rule(&lines))
        else {
            panic!("no rules: {}", self.text);
        };
        assert!(first < last, "one rule only: {}", self.text);
        let output = lines[first + 1..last].join("\n");
        if output == NO_OUTPUT { String::new() } else { output }
    }

    /// The text after the output: the status line, poll lines, insights.
    pub fn footer(&self) -> String {
        let lines: Vec<&str> = self.text.split('\n').collect();
        let last = closing_rule(&lines);
        lines[last.map_or(0, |at| at + 1)..].join("\n")
    }

    /// The numbered lines of a poll.
    pub fn numbered(&self) -> Vec<(u64, String)> {
        self.output()
            .lines()
            .filter_map(|line| {
                let (number, text) = line.split_once(": ").or_else(|| {
                    // An empty line may be shown without the space.
                    line.strip_suffix(':').map(|number| (number, ""))
                })?;
                Some((number.parse().ok()?, text.to_owned()))
            })
            .collect()
    }

    /// The text of the numbered lines of a poll, joined.
    pub fn without_numbers(&self) -> String {
        let texts: Vec<String> = self.numbered().into_iter().map(|(_, text)| text).collect();
        texts.join("\n")
    }
}

/// The place of the only line that begins with a rule and names a task.
fn closing_rule(lines: &[&str]) -> Option<usize> {
    let named = |line: &&str| line.strip_prefix(RULE).is_some_and(|id| id.starts_with(' '));
    let mut places = lines.iter().enumerate().filter(|(_, line)| named(line));
    let place = places.next().map(|(place, _)| place);
    assert_eq!(places.next(), None, "two closing rules: {lines:?}");
    place
}
