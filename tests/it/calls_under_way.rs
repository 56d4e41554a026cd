//! A call that runs can be taken back, and tells how far it is when asked to.

use std::fs;
use std::time::Duration;

use serde_json::json;

use crate::support::env::Env;
use crate::support::inbox::Frame;
use crate::support::processes::{UniqueSleep, wait_until};

#[test]
fn cancelling_a_first_call_ends_its_tree_and_nothing_is_answered() {
    let env = Env::new();
    let client = env.client();
    let sleep = UniqueSleep::new();
    let command = format!("{sleep} & (setsid {sleep} &); {sleep}; echo no");
    let call = client.call_async("zsh", json!({"command": command, "yield_after": 50}));
    sleep.wait_for(3);
    client.cancel(&call);
    sleep.assert_gone();
    // A later call was answered, so the cancelled one would have been.
    let next = client.call("zsh", json!({"command": "echo on", "yield_after": 20}));
    assert_eq!(next.output(), "on");
    assert!(!call.has_arrived(), "{}", client.describe());
}

#[test]
fn cancelling_a_poll_leaves_the_task_running() {
    let env = Env::new();
    let client = env.client();
    let sleep = UniqueSleep::new();
    let started = client.call("zsh", json!({"command": sleep.to_string(), "yield_after": 0}));
    let task = started.task_id();
    sleep.wait_for(1);
    let end = json!({"task_id": &task, "wait_for": "end", "listen": 50});
    let poll = client.call_async("zsh_poll", end);
    client.ping();
    client.cancel(&poll);
    let after = client.call("zsh_poll", json!({"task_id": &task, "listen": 0.1}));
    assert_eq!(after.status(), "running", "{}", after.text);
    assert_eq!(sleep.running().len(), 1);
    client.call("zsh_kill", json!({"task_id": &task}));
    sleep.assert_gone();
    assert!(!poll.has_arrived(), "{}", client.describe());
}

#[test]
fn progress_rises_at_most_twice_a_second_and_ends_with_the_response() {
    let env = Env::new();
    let client = env.client();
    // It goes on until the test has seen enough.
    let command = "until [[ -e enough ]]; do print -r -- $RANDOM ${(l:200::x:)}; sleep 0.1; done";
    let call = client.request(
        "tools/call",
        json!({
            "name": "zsh",
            "arguments": {"command": command, "yield_after": 25},
            "_meta": {"progressToken": "token-1"},
        }),
    );
    let id = call.id().clone();
    let is_progress = |frame: &Frame| frame.value["method"] == json!("notifications/progress");
    wait_until("progress is told again and again", || {
        let told = client.frames().iter().filter(|frame| is_progress(frame)).count();
        (told >= 4).then_some(())
    });
    fs::write(env.work().join("enough"), "").expect("a file");
    let result = call.tool_result();
    assert_eq!(result.meta["exit_code"], json!(0), "{}", result.text);
    client.ping();

    let frames = client.frames();
    let response = frames.iter().position(|frame| frame.answers(&id));
    let progress: Vec<(usize, &Frame)> =
        frames.iter().enumerate().filter(|(_, frame)| is_progress(frame)).collect();
    let mut last = f64::NEG_INFINITY;
    for (position, frame) in &progress {
        let params = &frame.value["params"];
        assert_eq!(params["progressToken"], json!("token-1"));
        let value = params["progress"].as_f64().expect("a number");
        assert!(value > last, "{value} after {last}");
        last = value;
        let message = params["message"].as_str().unwrap_or_default();
        assert!(message.chars().count() <= 120, "{message}");
        assert!(Some(*position) < response, "progress after the response");
    }
    let allowed = 2 * (result.elapsed + Duration::from_secs(1)).as_secs() as usize;
    assert!(progress.len() <= allowed, "{} in {:?}", progress.len(), result.elapsed);
}

#[test]
fn without_a_token_there_is_no_progress() {
    let env = Env::new();
    let client = env.client();
    let command = "repeat 10; do echo $RANDOM; sleep 0.1; done";
    client.call("zsh", json!({"command": command, "yield_after": 20}));
    let told = client.frames().iter().any(|frame| !frame.is_response());
    assert!(!told, "{}", client.describe());
}

#[test]
fn commands_side_by_side_are_not_told_to_each_other() {
    let env = Env::new();
    let client = env.client();
    let calls: Vec<_> = (0..40)
        .map(|_| client.call_async("zsh", json!({"command": "true", "yield_after": 30})))
        .collect();
    for call in calls {
        let answer = call.wait().to_string();
        assert!(!answer.contains("┌ notify"), "{answer}");
    }
}

#[test]
fn a_task_that_ended_unseen_is_told_once_ahead_of_the_next_result() {
    let env = Env::new();
    let client = env.client();
    let unseen = client
        .call("zsh", json!({"command": "mkfifo go; read < go; exit 7", "yield_after": 0}))
        .task_id();
    let opened = client
        .call("zsh", json!({"command": "until [[ -p go ]] { }; echo > go", "yield_after": 30}));
    assert_eq!(opened.status(), "completed", "{}", opened.text);
    let told = format!("┌ notify: task '{unseen}' failed (exit=7, ");
    if !opened.text.starts_with(&told) {
        wait_until("its end is told", || {
            let tasks = client.call("zsh_tasks", json!({"all": true}));
            tasks.text.starts_with(&told).then_some(())
        });
    }
    let next = client.call("zsh", json!({"command": "true"}));
    assert!(!next.text.contains("┌ notify"), "{}", next.text);
}

#[test]
fn each_reply_to_input_comes_without_waiting_for_the_whole_window() {
    let env = Env::new();
    let client = env.client();
    let arguments = json!({"command": "cat", "stdin_open": true, "yield_after": 0});
    let task = client.call("zsh", arguments).task_id();
    let begun = std::time::Instant::now();
    for number in 0..30 {
        let text = format!("line {number}");
        let arguments = json!({"task_id": task, "input": text, "listen": 20});
        let reply = client.call("zsh_send", arguments);
        assert!(reply.text.contains(&text), "{}", reply.text);
    }
    // One that waits for its whole window takes longer than all of them may.
    assert!(begun.elapsed() < std::time::Duration::from_secs(18));
    client.kill_task(&task);
}
