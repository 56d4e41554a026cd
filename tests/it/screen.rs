//! The screen of commands on a terminal, as a person would see it, and the answers that
//! a terminal gives to programs.

use std::fs;

use serde_json::{Value, json};

use crate::support::client::Client;
use crate::support::env::Env;
use crate::support::processes::wait_until;
use crate::support::result::ToolResult;

fn start(client: &Client, command: &str, rows: u16, cols: u16) -> String {
    let arguments = json!({
        "command": command, "pty": true, "rows": rows, "cols": cols, "yield_after": 0, "timeout": 60,
    });
    client.call("zsh", arguments).task_id()
}

fn look(client: &Client, task: &str) -> ToolResult {
    let screen = client.poll(task, json!({"screen": true, "listen": 0}));
    assert!(!screen.is_error, "{}", screen.text);
    screen
}

/// The screen once it shows a text.
fn screen_with(client: &Client, task: &str, text: &str) -> ToolResult {
    wait_until(&format!("the screen shows {text}"), || {
        let screen = look(client, task);
        screen.text.contains(text).then_some(screen)
    })
}

/// The screen once it is as wanted.
fn screen_that(
    client: &Client,
    task: &str,
    what: &str,
    wanted: impl Fn(&Value) -> bool,
) -> ToolResult {
    wait_until(what, || {
        let screen = look(client, task);
        wanted(&screen.meta["screen"]).then_some(screen)
    })
}

fn lines(screen: &ToolResult) -> Vec<String> {
    let lines = screen.meta["screen"]["lines"].as_array().expect("lines");
    lines.iter().map(|line| line.as_str().expect("text").to_owned()).collect()
}

fn keys(client: &Client, task: &str, keys: &str) {
    let arguments = json!({"task_id": task, "input": keys, "enter": false, "listen": 0});
    let sent = client.call("zsh_send", arguments);
    assert!(!sent.is_error, "{}", sent.text);
}

fn numbered_file(env: &Env) -> String {
    let text: String = (1..=99).map(|number| format!("line {number}\n")).collect();
    let path = env.path("numbered");
    fs::write(&path, text).expect("a file");
    path.display().to_string()
}

#[test]
fn a_pager_is_paged_and_left() {
    let env = Env::new();
    let client = env.client();
    let command = format!("echo before; LESS= less {}", numbered_file(&env));
    let task = start(&client, &command, 8, 40);
    let first = screen_with(&client, &task, "line 7");
    assert_eq!(lines(&first)[..2], ["line 1", "line 2"], "{}", first.text);
    assert_eq!(first.meta["screen"]["alternate"], json!(true));
    assert!(first.text.contains("\nscreen 8×40, cursor row 8 column "), "{}", first.text);
    keys(&client, &task, " ");
    let second = screen_with(&client, &task, "line 14");
    assert_eq!(lines(&second)[0], "line 8", "{}", second.text);
    keys(&client, &task, "q");
    client.poll_to_end(&task);
    let left = look(&client, &task);
    assert_eq!(lines(&left), ["before"], "{}", left.text);
    assert_eq!(left.meta["screen"]["alternate"], json!(false));
}

#[test]
fn an_editor_changes_a_file() {
    let env = Env::new();
    let client = env.client();
    let file = numbered_file(&env);
    let task = start(&client, &format!("vim -u NONE -n {file}"), 10, 60);
    screen_with(&client, &task, "line 9");
    keys(&client, &task, "ihello \u{1b}");
    let changed = screen_that(&client, &task, "the text is typed", |screen| {
        screen["lines"][0] == "hello line 1" && screen["cursor"] == json!([1, 6])
    });
    assert_eq!(lines(&changed)[1], "line 2", "{}", changed.text);
    keys(&client, &task, ":wq\r");
    assert_eq!(client.poll_to_end(&task).status(), "completed");
    let text = fs::read_to_string(file).expect("the file");
    assert!(text.starts_with("hello line 1\nline 2\n"), "{text}");
}

#[test]
fn monitors_look_as_to_a_person() {
    let env = Env::new();
    let client = env.client();
    let top = start(&client, "top -d 60", 40, 120);
    let screen = screen_with(&client, &top, "COMMAND");
    let rows = lines(&screen);
    assert!(rows[0].starts_with("top - "), "{}", screen.text);
    assert!(rows[1].starts_with("Tasks: "), "{}", screen.text);
    assert!(rows[6].trim_start().starts_with("PID USER"), "{}", screen.text);
    keys(&client, &top, "q");
    let htop = start(&client, "htop -d 100", 40, 120);
    let screen = screen_with(&client, &htop, "F10Quit");
    let rows = lines(&screen);
    assert_eq!(rows.len(), 40, "{}", screen.text);
    assert!(rows[39].starts_with("F1Help"), "{}", screen.text);
    assert!(screen.text.contains("Load average:"), "{}", screen.text);
    assert!(screen.text.contains("(hidden), alternate screen"), "{}", screen.text);
    keys(&client, &htop, "q");
    for task in [top, htop] {
        assert_eq!(client.poll_to_end(&task).status(), "completed");
    }
}

#[test]
fn a_resize_reaches_the_screen_and_the_program() {
    let env = Env::new();
    let client = env.client();
    let command = format!("LESS= less {}", numbered_file(&env));
    let task = start(&client, &command, 8, 40);
    screen_with(&client, &task, "line 7");
    let resize = json!({"task_id": task, "rows": 33, "cols": 99, "listen": 0});
    assert!(!client.call("zsh_send", resize).is_error);
    let resized = screen_with(&client, &task, "line 32");
    assert_eq!(lines(&resized)[0], "line 1", "{}", resized.text);
    assert!(resized.text.contains("screen 33×99"), "{}", resized.text);
    keys(&client, &task, "q");
    client.poll_to_end(&task);
}

#[test]
fn what_a_program_draws_at_a_resize_comes_back_with_the_reply() {
    let env = Env::new();
    let client = env.client();
    let command = format!("LESS= less {}", numbered_file(&env));
    let task = start(&client, &command, 8, 40);
    let waits = client.poll(&task, json!({"wait_for": "end", "listen": 25}));
    assert_eq!(waits.meta["waiting_for"], json!("input"), "{}", waits.text);
    let resize = json!({"task_id": task, "rows": 33, "cols": 99, "listen": 25});
    let resized = client.call("zsh_send", resize);
    assert!(resized.text.contains("line 32"), "{}", resized.text);
    keys(&client, &task, "q");
    client.poll_to_end(&task);
}

#[test]
fn a_program_learns_where_its_cursor_is() {
    let env = Env::new();
    let client = env.client();
    let command = r"printf '\e[5;7H\e[6n'; read -s -d R answer; print -r -- ${(q)answer}";
    let task = start(&client, command, 24, 80);
    let end = client.poll_to_end(&task);
    assert_eq!(end.status(), "completed", "{}", end.text);
    let screen = look(&client, &task);
    assert!(screen.text.contains(r"$'\033'\[5\;7"), "{}", screen.text);
}

#[test]
fn questions_that_nobody_reads_the_answers_of_take_no_room_from_input() {
    let env = Env::new();
    let client = env.client();
    let command = r"stty raw -echo; printf '\e[c%.0s' {1..50000}; print -n asked; sleep 98765";
    let task = start(&client, command, 24, 80);
    screen_with(&client, &task, "asked");
    let arguments = json!({
        "task_id": task, "input": "x".repeat(1024 * 1024), "enter": false, "listen": 0,
    });
    let sent = client.call("zsh_send", arguments);
    assert!(!sent.is_error, "{}", sent.text);
    assert_eq!(client.kill_task(&task).status(), "killed");
}

#[test]
fn wide_characters_take_two_columns() {
    let env = Env::new();
    let client = env.client();
    let command = "print -n '日本語 👍\\r\\nxe\\u0301y\\e[1;5H|'; read -k1 -s _";
    let task = start(&client, command, 5, 20);
    let screen =
        screen_that(&client, &task, "all is drawn", |screen| screen["cursor"] == json!([1, 6]));
    assert_eq!(lines(&screen), ["日本|  👍", "xe\u{301}y"], "{}", screen.text);
    keys(&client, &task, "q");
    client.poll_to_end(&task);
}

#[test]
fn a_look_at_the_screen_leaves_what_is_new_new() {
    let env = Env::new();
    let client = env.client();
    let arguments = json!({"command": "echo one; echo two", "pty": true, "yield_after": 0});
    let task = client.call("zsh", arguments).task_id();
    let at_end = client.poll(&task, json!({"screen": true, "wait_for": "end", "listen": 20}));
    assert_eq!(at_end.status(), "completed", "{}", at_end.text);
    assert_eq!(lines(&at_end), ["one", "two"]);
    assert_eq!(at_end.meta["new_bytes"], json!(0));
    let unread = client.poll(&task, json!({"listen": 0}));
    let again = client.poll(&task, json!({"screen": true}));
    assert_eq!(lines(&again), ["one", "two"]);
    let all = client.poll(&task, json!({"full_output": true}));
    assert_eq!(all.without_numbers(), "one\ntwo");
    // What the first answer had not shown by then is all there is to the delta.
    assert!(unread.meta["to_line"] == json!(2) || unread.meta["new_bytes"] == json!(0));
}

#[test]
fn a_screen_that_cannot_be_is_refused_with_the_way_out() {
    let env = Env::new();
    let client = env.client();
    let piped = client.start_task("echo piped");
    let refused = client.poll(&piped, json!({"screen": true}));
    assert!(refused.is_error && refused.text.contains("pty: true"), "{}", refused.text);
    for (arguments, name) in [
        (json!({"screen": true, "grep": "x"}), "grep"),
        (json!({"screen": true, "from_line": 1}), "from_line"),
        (json!({"screen": true, "to_line": 1}), "to_line"),
        (json!({"screen": true, "full_output": true}), "full_output"),
    ] {
        let refused = client.poll(&piped, arguments);
        assert!(refused.is_error, "{}", refused.text);
        assert!(refused.text.contains("screen") && refused.text.contains(name), "{}", refused.text);
    }
}

#[test]
fn a_full_screen_program_is_answered_for_with_its_screen() {
    let env = Env::new();
    let client = env.client();
    let command = r"echo before; printf '\e[?1049h\e[2J\e[3;5H| menu |'; read -k1 -s _; printf '\e[?1049l'; echo after";
    let arguments = json!({"command": command, "pty": true, "yield_after": 25});
    let started = client.call("zsh", arguments);
    let task = started.task_id();
    assert_eq!(lines(&started), ["", "", "    | menu |"], "{}", started.text);
    assert!(started.text.contains("\n    | menu |\n"), "{}", started.text);
    // A frame asks nothing.
    assert!(started.text.contains("WAITING FOR INPUT (reads"), "{}", started.text);
    assert_eq!(started.meta["prompt"], json!(""), "{}", started.text);
    // What else was written is not lost on who reads.
    assert!(
        started.text.contains("lines 1-2 not shown as lines (zsh_poll from_line=1)"),
        "{}",
        started.text
    );
    let first = client.poll(&task, json!({"from_line": 1, "to_line": 1}));
    assert_eq!(first.without_numbers(), "before");
    assert!(first.text.contains("zsh_poll screen=true"), "{}", first.text);
    let again = client.poll(&task, json!({"listen": 0}));
    assert!(!again.text.contains("zsh_poll screen=true"), "told once: {}", again.text);

    let sent = json!({"task_id": task, "keys": ["q"], "listen": 25});
    client.call("zsh_send", sent);
    let left = client.poll_to_end(&task);
    assert_ne!(left.status(), "running", "{}", left.text);
    assert_eq!(left.meta["screen"], json!(null), "{}", left.text);
    let all = client.poll(&task, json!({"full_output": true}));
    assert_eq!(all.meta["screen"], json!(null), "{}", all.text);
    assert!(all.output().ends_with("after"), "{}", all.text);
}

#[test]
fn a_kill_does_not_wait_for_what_is_still_to_be_drawn() {
    let env = Env::new();
    let client = env.client();
    // Each pair of bytes clears the largest screen: seconds of work in every read.
    let command = r"stty raw; printf 'up\r\n'; clears=$(printf '\ec%.0s' {1..2000}); yes $clears";
    let task = start(&client, command, 500, 500);
    screen_that(&client, &task, "more is to be drawn", |screen| {
        screen["undrawn_bytes"].as_u64().is_some_and(|bytes| bytes > 0)
    });
    let receipt = client.kill_task(&task);
    assert_eq!(receipt.status(), "killed", "{}", receipt.text);
    assert!(receipt.text.contains("no survivors"), "{}", receipt.text);
    let seen = look(&client, &task);
    let undrawn = seen.meta["screen"]["undrawn_bytes"].as_u64();
    let told = seen.text.contains("of output not drawn");
    assert_eq!(told, undrawn.is_some_and(|bytes| bytes > 0), "{}", seen.text);
}
