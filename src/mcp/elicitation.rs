//! At a password prompt, the person is asked to open the page: what is typed there reaches neither the
//! client nor its model.
//!
//! Limits: only for clients of the legacy era that open addresses (`elicitation: {url: {}}`), while the
//! page is on. The address has no token, which is for the person alone. What the client answers changes
//! nothing: only an answer at the prompt itself ends the wait.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::dispatch::MonitorAddress;
use crate::process::files;
use crate::protocol::message;
use crate::task::journal::is_task_id;
use crate::text::foreign::{self, ShowPath};

/// How much of a prompt is shown, in characters.
const PROMPT_CHARS: usize = 120;
/// How many prompts may be open at once.
const MAX_OPEN: usize = 64;

/// The prompts that were asked over one connection and are still there, as far as answers told.
#[derive(Debug, Default)]
pub(super) struct Asked {
    /// The elicitation's id, by task.
    open: BTreeMap<String, String>,
    requests: u64,
}

impl Asked {
    /// What to send because of this result of a tool: a request for the prompt that it reports, unless
    /// that was asked already, or the word that an earlier prompt is gone.
    pub(super) fn message(&mut self, result: &Value, page: &MonitorAddress) -> Option<Vec<u8>> {
        let facts = result.pointer("/_meta/zsh-tool~1result")?;
        let text = |name: &str| facts.get(name).and_then(Value::as_str);
        let task = text("task_id").filter(|id| is_id(id))?;
        if text("waiting_for") != Some("password") {
            let id = self.open.remove(task)?;
            let gone = json!({ "elicitationId": id });
            return message::notification("notifications/elicitation/complete", &gone).ok();
        }
        if self.open.contains_key(task) || self.open.len() >= MAX_OPEN {
            return None;
        }
        let id = files::random_id();
        self.open.insert(task.to_owned(), id.clone());
        self.requests += 1;
        let prompt = foreign::in_quotes(text("prompt").unwrap_or_default(), PROMPT_CHARS);
        let link = page.link_file.as_ref();
        let link = link.map(|file| format!(" The link for it is in {}.", file.shown()));
        let message = format!(
            "Task {task} waits for a password: {prompt}. Type it on the page of zsh-tool, which the model \
             does not see, or in a terminal: zsh-tool attach {task}.{}",
            link.unwrap_or_default()
        );
        let params =
            json!({"mode": "url", "elicitationId": id, "url": page.address, "message": message});
        message::request(&format!("zsh-tool-{}", self.requests), "elicitation/create", &params).ok()
    }
}

/// Whether this is the id of a task, here or on a host, which may say anything.
fn is_id(text: &str) -> bool {
    match text.rsplit_once(':') {
        Some((host, id)) => is_task_id(id) && foreign::shown(host) == host,
        None => is_task_id(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(task: &str, waiting_for: Value, prompt: &str) -> Value {
        json!({"_meta": {"zsh-tool/result": {
            "task_id": task, "waiting_for": waiting_for, "prompt": prompt,
        }}})
    }

    #[test]
    fn each_prompt_is_asked_once_and_withdrawn_when_it_is_gone() {
        let page = MonitorAddress {
            address: "http://127.0.0.1:1/".to_owned(),
            link_file: Some("/state/monitor.url".into()),
        };
        let mut asked = Asked::default();
        let mut sent = |task: &str, waiting_for: Value, prompt: &str| {
            let message = asked.message(&result(task, waiting_for, prompt), &page);
            message.map(|message| serde_json::from_slice::<Value>(&message).unwrap())
        };
        let password = || json!("password");
        let request = sent("3dc8c9ee", password(), "Password:\u{7}\nx").expect("a request");
        assert_eq!(request["params"]["url"], "http://127.0.0.1:1/");
        let message = request["params"]["message"].as_str().unwrap_or_default();
        assert!(
            message.starts_with("Task 3dc8c9ee waits for a password: \"Password:"),
            "{message}"
        );
        assert!(!message.contains(['\u{7}', '\n']) && message.contains("/state/monitor.url"));
        assert_eq!(sent("3dc8c9ee", password(), "Again:"), None);
        assert!(sent("b:3dc8c9ee", password(), "").is_some());
        assert_eq!(sent("3dc8c9ef", json!("input"), "Name:"), None);
        let gone = sent("3dc8c9ee", Value::Null, "").expect("the end of the prompt");
        assert_eq!(gone["method"], "notifications/elicitation/complete");
        assert_eq!(gone["params"]["elicitationId"], request["params"]["elicitationId"]);
        assert_eq!(sent("3dc8c9ee", Value::Null, ""), None);
        assert!(sent("3dc8c9ee", password(), "Password:").is_some(), "another prompt");
        assert_eq!(sent("1. Sign in at http://evil", password(), ""), None);
    }
}
