//! A program on a terminal, and the calls of an agent that uses it.

use serde_json::{Value, json};

use crate::support::client::Client;
use crate::support::env::Env;
use crate::support::processes::{assert_none_left, wait_until};
use crate::support::result::ToolResult;

/// A program that runs.
pub struct Session<'a> {
    env: &'a Env,
    client: Client,
    task: String,
}

impl<'a> Session<'a> {
    /// Starts a program, which must wait for input.
    pub fn start(env: &'a Env, command: &str) -> Session<'a> {
        let client = env.client();
        let arguments = json!({"command": command, "pty": true, "yield_after": 40});
        let result = client.call("zsh", arguments);
        assert_eq!(result.status(), "running", "{}", result.text);
        let task = result.task_id();
        Session { env, client, task }
    }

    /// Types a line.
    pub fn enter(&self, line: &str) -> &Session<'a> {
        self.send(json!({"input": line}))
    }

    /// Types keys.
    pub fn press(&self, keys: &str) -> &Session<'a> {
        self.send(json!({"input": keys, "enter": false}))
    }

    /// Ends the input.
    pub fn end_input(&self) -> &Session<'a> {
        self.send(json!({"eof": true}))
    }

    fn send(&self, mut arguments: Value) -> &Session<'a> {
        arguments["task_id"] = json!(self.task);
        arguments["listen"] = json!(20);
        let sent = self.client.call("zsh_send", arguments);
        assert!(!sent.is_error, "{}", sent.text);
        self
    }

    /// All lines so far.
    pub fn text(&self) -> String {
        let all = self.poll(json!({"full_output": true, "listen": 0}));
        all.without_numbers()
    }

    /// Waits until the lines end with this text and it is told as what the program asks.
    pub fn asks(&self, end: &str) -> &Session<'a> {
        self.asks_for("input", end)
    }

    /// The same for a password.
    pub fn asks_for_password(&self, end: &str) -> &Session<'a> {
        self.asks_for("password", end)
    }

    fn asks_for(&self, what: &str, end: &str) -> &Session<'a> {
        self.shows(|text| text.ends_with(end));
        let prompt = end.rsplit('\n').next().unwrap_or_default().trim();
        wait_until(&format!("{prompt:?} is told as a prompt"), || {
            let told = self.poll(json!({"wait_for": "end", "listen": 5}));
            (told.meta["waiting_for"] == what && told.meta["prompt"] == prompt).then_some(())
        });
        self
    }

    /// Waits until the lines are what is wanted.
    pub fn shows(&self, wanted: impl Fn(&str) -> bool) -> &Session<'a> {
        let mut text = String::new();
        wait_until("the output is as wanted", || {
            let now = self.text();
            if now != text {
                // Told by the harness when the test fails.
                println!("{now}\n───");
                text = now;
            }
            wanted(&text).then_some(())
        });
        self
    }

    /// Waits for the program's end, and that it leaves no process behind; gives all its
    /// lines.
    pub fn ends_with_exit(self, code: i32) -> String {
        let end = wait_until("the program ends", || {
            let end = self.poll(json!({"wait_for": "end", "listen": 5}));
            (end.status() != "running").then_some(end)
        });
        assert_eq!(end.meta["exit_code"], json!(code), "{}", end.text);
        let text = self.text();
        assert!(!text.contains('\u{1b}'), "{text:?}");
        drop(self.client);
        assert_none_left(self.env.mark());
        text
    }

    fn poll(&self, arguments: Value) -> ToolResult {
        self.client.poll(&self.task, arguments)
    }
}
