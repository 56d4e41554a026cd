//! Patterns that cost minutes: a search ends with its work, its call or a cancel, and says so.

use serde_json::{Value, json};

use crate::support::client::Client;
use crate::support::env::Env;
use crate::support::processes::wait_until;

/// Thirty microseconds for each character that is not followed by `x`.
const COSTLY: &str = "(?s).{0,900}x.{0,900}x.{0,900}x";

/// A finished task with one line of three million characters, and what it is called with.
fn long_line(client: &Client) -> String {
    client.run("printf 'a%.0s' {1..3000000}").task_id()
}

fn costly(task: &str) -> Value {
    json!({"task_id": task, "grep": COSTLY})
}

/// By then no thread of the server computes.
fn await_rest(client: &Client) {
    wait_until("the server rests", || {
        let tasks =
            std::fs::read_dir(format!("/proc/{}/task", client.server_pid())).expect("a server");
        let is_running =
            |stat: String| stat.rsplit_once(") ").is_some_and(|(_, it)| it.starts_with('R'));
        let stats = tasks.flatten().map(|task| std::fs::read_to_string(task.path().join("stat")));
        // A thread that has ended meanwhile has no file.
        (!stats.flatten().any(is_running)).then_some(())
    });
}

#[test]
fn a_search_that_costs_too_much_is_given_up_and_says_where() {
    let env = Env::new();
    let client = env.client();
    let task = long_line(&client);
    let found = client.call("zsh_poll", costly(&task));
    assert!(!found.is_error, "{}", found.text);
    for part in ["grep was given up at line 1 after", "simpler pattern", "no line before line 1"] {
        assert!(found.text.contains(part), "{}", found.text);
    }
    await_rest(&client);
    // A pattern that is not costly is searched for in all of it.
    let found = client.call("zsh_poll", json!({"task_id": task, "grep": "a{5}$"}));
    assert!(found.text.contains("[char 2999996]"), "{}", found.text);
}

#[test]
fn four_costly_searches_leave_the_server_answering_and_end_when_cancelled() {
    let env = Env::new();
    let client = env.client();
    let task = long_line(&client);
    let searches: Vec<_> = (0..4).map(|_| client.call_async("zsh_poll", costly(&task))).collect();
    assert_eq!(client.run("print on").output(), "on");
    for search in &searches {
        client.cancel(search);
    }
    drop(searches);
    await_rest(&client);
}

#[test]
fn until_with_a_costly_pattern_ends_its_wait_and_not_the_task() {
    let env = Env::new();
    let client = env.client();
    let gate = env.named_pipe("gate");
    let command = "printf 'a%.0s' {1..60000}; print; \
                   repeat 60 printf 'a%.0s' {1..60000}; read word < gate; print $word";
    let call = json!({"command": command, "until": COSTLY, "yield_after": 40});
    let waited = client.call("zsh", call);
    assert!(waited.text.contains("until was given up after"), "{}", waited.text);
    assert_eq!(waited.status(), "running", "{}", waited.text);
    std::fs::write(&gate, "go\n").expect("a word");
    let ended = client.poll(&waited.task_id(), json!({"wait_for": "end", "listen": 20}));
    assert_eq!(ended.status(), "completed", "{}", ended.text);
    await_rest(&client);
}
