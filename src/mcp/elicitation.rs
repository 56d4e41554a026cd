//! At a password prompt, the person is asked by the page: the client opens its address, and what is
//! typed there reaches neither the client nor its model.
//!
//! Limits: only for clients of the legacy era that can open addresses (`elicitation: {url: {}}`), while
//! the page is on. What the client answers changes nothing: the prompt waits for whoever answers it.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};

use crate::process::files;
use crate::protocol::message;
use crate::text::foreign;

/// How much of a prompt is shown, in characters.
const PROMPT_CHARS: usize = 120;
/// A link is no longer.
const LINK_BYTES: u64 = 4096;
/// How many prompts are remembered as asked.
const MAX_ASKED: usize = 100;

/// The prompts that were asked over one connection.
#[derive(Debug, Default)]
pub(super) struct Asked {
    /// The last prompt of each task.
    prompts: BTreeMap<String, String>,
    requests: u64,
}

/// A password prompt.
#[derive(Debug)]
pub(super) struct Question {
    number: u64,
    task: String,
    prompt: String,
}

impl Asked {
    /// The prompt that this result of a tool reports, if the person was not asked for it before.
    pub(super) fn take(&mut self, result: &Value) -> Option<Question> {
        let facts = result.pointer("/_meta/zsh-tool~1result")?;
        let text = |name: &str| facts.get(name).and_then(Value::as_str);
        if text("waiting_for") != Some("password") {
            return None;
        }
        let task = text("task_id")?;
        let prompt = text("prompt").unwrap_or_default();
        // The same text may ask again, on a later line.
        let asked = format!("{} {prompt}", facts.get("total_lines").unwrap_or(&Value::Null));
        if self.prompts.get(task) == Some(&asked) {
            return None;
        }
        if self.prompts.len() >= MAX_ASKED {
            self.prompts.pop_first();
        }
        self.prompts.insert(task.to_owned(), asked);
        self.requests += 1;
        let (task, prompt) = (task.to_owned(), prompt.to_owned());
        Some(Question { number: self.requests, task, prompt })
    }
}

impl Question {
    /// The request to the client, with the link in this file; `None` without one.
    pub(super) fn request(&self, link_file: &Path) -> Option<Vec<u8>> {
        let Question { number, task, prompt } = self;
        let link = files::read_private(link_file, LINK_BYTES).ok()?;
        let link = String::from_utf8(link).ok()?;
        let quoted = foreign::in_quotes(prompt, PROMPT_CHARS);
        let params = json!({
            "mode": "url",
            "elicitationId": files::random_id(),
            "url": link.trim(),
            "message": format!(
                "Task {task} waits for a password: {quoted}. On the page of zsh-tool, it is typed without the \
                 model seeing it."
            ),
        });
        message::request(&format!("zsh-tool-{number}"), "elicitation/create", &params).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(task: &str, waiting_for: Value, prompt: &str, lines: u64) -> Value {
        json!({"_meta": {"zsh-tool/result": {
            "task_id": task, "waiting_for": waiting_for, "prompt": prompt, "total_lines": lines,
        }}})
    }

    #[test]
    fn each_prompt_is_asked_once_and_no_other_wait() {
        let directory = tempfile::tempdir().unwrap();
        let link = directory.path().join("link");
        files::replace_private(&link, b"http://127.0.0.1:1/#token=x\n").unwrap();
        let mut asked = Asked::default();
        let first = result("1", json!("password"), "Password:\u{7}", 3);
        let question = asked.take(&first).expect("it is new");
        let request = question.request(&link).expect("a request");
        assert!(question.request(&directory.path().join("none")).is_none(), "no page");
        let request: Value = serde_json::from_slice(&request).unwrap();
        assert_eq!(request["params"]["url"], "http://127.0.0.1:1/#token=x");
        let message = request["params"]["message"].as_str().unwrap_or_default();
        assert!(message.starts_with("Task 1 waits for a password: \"Password:"), "{message}");
        assert!(!message.contains('\u{7}'));
        assert!(asked.take(&first).is_none());
        for (result, is_asked) in [
            (result("1", json!("password"), "Password:", 4), true),
            (result("2", json!("password"), "Password:", 3), true),
            (result("1", json!("input"), "Name:", 5), false),
            (result("1", Value::Null, "", 6), false),
            (json!({}), false),
        ] {
            assert_eq!(asked.take(&result).is_some(), is_asked, "{result}");
        }
    }
}
