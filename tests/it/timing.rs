//! Calls end when there is something to say, and never wait for one another.
//!
//! The bounds are far from the truth on both sides: they tell waiting from not
//! waiting, not fast from slow.

use std::time::Duration;

use serde_json::json;

use crate::support::env::Env;
use crate::support::processes::UniqueSleep;

#[test]
fn a_command_that_has_ended_returns_long_before_its_yield() {
    let env = Env::new();
    let client = env.client();
    let result = client.call("zsh", json!({"command": "true", "yield_after": 50}));
    assert_eq!(result.meta["exit_code"], json!(0), "{}", result.text);
    assert!(result.elapsed < Duration::from_secs(10), "{:?}", result.elapsed);
}

#[test]
fn a_command_that_runs_on_is_given_back_at_its_yield() {
    let env = Env::new();
    let client = env.client();
    let sleep = UniqueSleep::new();
    let command = format!("echo begun; {sleep}");
    let result = client.call("zsh", json!({"command": command, "yield_after": 5}));
    assert_eq!(result.status(), "running", "{}", result.text);
    assert_eq!(result.output(), "begun");
    assert!(result.footer().starts_with("⟳ RUNNING  "), "{}", result.text);
    assert!(result.elapsed >= Duration::from_millis(4900), "{:?}", result.elapsed);
    assert!(result.elapsed < Duration::from_secs(20), "{:?}", result.elapsed);
}

#[test]
fn two_calls_run_side_by_side() {
    let env = Env::new();
    let client = env.client();
    env.named_pipe("to_first");
    env.named_pipe("to_second");
    // Each waits for the other: if one of them came after the other, neither would end.
    let call =
        |command: &str| client.call_async("zsh", json!({"command": command, "yield_after": 25}));
    let first = call("read -r word <to_first; echo on >to_second; echo $word");
    let second = call("echo first >to_first; read -r word <to_second; echo $word");
    assert_eq!(first.tool_result().output(), "first");
    assert_eq!(second.tool_result().output(), "on");
}

#[test]
fn fifty_polls_of_one_task_side_by_side_all_answer() {
    const POLLS: usize = 50;
    let env = Env::new();
    let client = env.client();
    let command = "repeat 20; do print -r -- $RANDOM apples; sleep 0.02; done; echo end";
    let task = client.call("zsh", json!({"command": command, "yield_after": 0})).task_id();
    let polls: Vec<_> = (0..POLLS)
        .map(|_| client.call_async("zsh_poll", json!({"task_id": &task, "listen": 0.2})))
        .collect();
    for poll in polls {
        let result = poll.tool_result();
        assert!(!result.is_error, "{}", result.text);
    }
    client.ping();
    client.assert_only_frames();
}

#[test]
fn a_poll_that_waits_does_not_hold_up_a_call() {
    let env = Env::new();
    let client = env.client();
    let sleep = UniqueSleep::new();
    let command = sleep.to_string();
    let task = client.call("zsh", json!({"command": command, "yield_after": 0})).task_id();
    let end = json!({"task_id": task, "wait_for": "end", "listen": 25});
    let poll = client.call_async("zsh_poll", end);
    let result = client.call("zsh", json!({"command": "echo meanwhile", "yield_after": 20}));
    assert_eq!(result.output(), "meanwhile");
    assert!(!poll.has_arrived(), "{}", client.describe());
    client.call("zsh_kill", json!({"task_id": task}));
    assert_eq!(poll.tool_result().status(), "killed");
}
