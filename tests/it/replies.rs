//! `zsh_send` answers when the program reads again, however long it works on what was typed.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::client::Client;
use crate::support::env::Env;
use crate::support::result::ToolResult;

/// Far beyond what any reply takes, in seconds.
const LISTEN: u32 = 30;
/// What every reply contains. No line that is typed does.
const REPLY: &str = "four-two";

/// Programs that talk: each with a line that it works on for two seconds, and one that it answers
/// at once.
const TALKERS: &[(&str, &str, &str)] = &[
    ("bash --norc -i", "sleep 2; echo four''-two", "echo four''-two"),
    ("zsh -f -i", "sleep 2; echo four''-two", "echo four''-two"),
    ("sh -i", "sleep 2; echo four''-two", "echo four''-two"),
    ("python3 -q", "import time; time.sleep(2); print('four' '-two')", "print('four' '-two')"),
    (
        "node",
        "const end = Date.now() + 2000; while (Date.now() < end); 'four' + '-two'",
        "'four' + '-two'",
    ),
    ("irb --noautocomplete", "sleep 2; puts 'four' '-two'", "puts 'four' '-two'"),
    ("lua5.4", "os.execute('sleep 2'); print('four' .. '-two')", "print('four' .. '-two')"),
    ("gdb -q", "shell sleep 2; echo four''-two", "shell echo four''-two"),
    ("perl -de0", "sleep 2; print 'four' . '-two'", "print 'four' . '-two'"),
    ("dash -i", "sleep 2; echo four''-two", "echo four''-two"),
    ("php -a", "sleep(2); echo 'four' . '-two', PHP_EOL;", "echo 'four' . '-two', PHP_EOL;"),
    (
        "guile -q --no-auto-compile",
        "(begin (sleep 2) (string-append \"four\" \"-two\"))",
        "(string-append \"four\" \"-two\")",
    ),
    ("erl", "timer:sleep(2000), \"four\" ++ \"-two\".", "\"four\" ++ \"-two\"."),
    ("iex", "Process.sleep(2000); \"four\" <> \"-two\"", "\"four\" <> \"-two\""),
    ("jshell", "Thread.sleep(2000); \"four\" + \"-two\"", "\"four\" + \"-two\""),
    ("ed -p '*'", "!sleep 2; echo four''-two", "!echo four''-two"),
];

#[test]
fn a_reply_that_takes_seconds_comes_with_the_call_that_asks_for_it() {
    let env = Env::new();
    let client = env.client();
    let commands: Vec<&str> = TALKERS.iter().map(|(command, ..)| *command).collect();
    let started = client.on_terminals(&commands, LISTEN);
    let late =
        |tasks: &[String],
         line: fn(&(&'static str, &'static str, &'static str)) -> &'static str| {
            let calls: Vec<_> = tasks
                .iter()
                .zip(TALKERS)
                .map(|(task, talker)| client.call_async("zsh_send", send(task, line(talker))))
                .collect();
            for (call, (command, ..)) in calls.into_iter().zip(TALKERS) {
                let answer = call.tool_result();
                assert_eq!(answer.status(), "running", "{command}: {}", answer.text);
                assert!(output(&answer).contains(REPLY), "{command}: {}", answer.text);
            }
        };
    let tasks: Vec<String> = started.iter().map(ToolResult::task_id).collect();
    late(&tasks, |(_, slow, _)| slow);
    late(&tasks, |(.., at_once)| at_once);
    for task in &tasks {
        client.kill_all_of(task);
    }
}

/// A program that shows itself what is typed, and does so late: one thread waits for the next line
/// while another works.
const LATE_ECHO: &str = r#"
import os, select, threading, time, tty
tty.setraw(0)
own, _ = os.pipe()
poll = select.epoll()
for end in 0, own:
    poll.register(end, select.EPOLLIN)
os.write(1, b"1> ")
def work(line):
    time.sleep(4)
    os.write(1, line + b"\r\nfour" + b"-two\r\n2> ")
while True:
    poll.poll()
    line = os.read(0, 100).strip()
    threading.Thread(target=work, args=(line,), daemon=True).start()
"#;

#[test]
fn a_program_that_has_not_shown_what_was_typed_does_not_wait_for_more() {
    let env = Env::new();
    let client = env.client();
    std::fs::write(env.work().join("late_echo.py"), LATE_ECHO).expect("a program");
    let task = talker(&client, "python3 late_echo.py");
    let answer = client.call("zsh_send", send(&task, "please"));
    assert!(output(&answer).contains(REPLY), "{}", answer.text);
    client.kill_all_of(&task);
}

#[test]
fn a_reply_comes_whole_though_it_pauses() {
    let env = Env::new();
    let client = env.client();
    let task = talker(&client, "bash --norc -i");
    let pieces = "for i in 1 2 3; do echo piece $i; sleep 0.4; done; echo four''-two";
    let answer = client.call("zsh_send", send(&task, pieces));
    assert!(output(&answer).contains(REPLY), "{}", answer.text);
    client.kill_all_of(&task);
}

#[test]
fn the_reply_of_a_program_on_a_pipe_comes_when_it_reads_again() {
    let env = Env::new();
    let client = env.client();
    let filter = "while read line; do sleep 1; print four-two $line; done";
    let arguments = json!({"command": filter, "stdin_open": true, "yield_after": LISTEN});
    let task = client.call("zsh", arguments).task_id();
    let answer = client.call("zsh_send", send(&task, "please"));
    assert!(output(&answer).contains("four-two please"), "{}", answer.text);
    client.kill_all_of(&task);
}

#[test]
fn a_line_that_is_waited_for_ends_the_wait_and_its_echo_does_not() {
    let env = Env::new();
    let client = env.client();
    let task = talker(&client, "bash --norc -i");
    let mut arguments = send(&task, "echo ready; sleep 1; echo ready now; sleep 300");
    arguments["until"] = json!("^ready now");
    let answer = client.call("zsh_send", arguments);
    assert!(!answer.meta["matched_line"].is_null(), "{}", answer.text);
    assert!(output(&answer).contains("\nready now"), "{}", answer.text);
    client.kill_all_of(&task);
}

#[test]
fn a_program_that_does_not_read_again_is_waited_for_as_long_as_asked() {
    let env = Env::new();
    let client = env.client();
    let task = talker(&client, "bash --norc -i");
    let mut arguments = send(&task, "echo begins; sleep 300");
    arguments["listen"] = json!(1.5);
    let answer = client.call("zsh_send", arguments);
    assert!(answer.elapsed >= Duration::from_millis(1400), "{}", answer.text);
    assert!(output(&answer).contains("\nbegins"), "{}", answer.text);
    assert_eq!(answer.meta["waiting_for"], Value::Null, "{}", answer.text);
    client.kill_all_of(&task);
}

fn talker(client: &Client, command: &str) -> String {
    let started = client.on_terminals(&[command], LISTEN);
    started.first().expect("its answer").task_id()
}

fn send(task: &str, input: &str) -> Value {
    json!({"task_id": task, "input": input, "listen": LISTEN})
}

/// What stands between the rules of an answer.
fn output(answer: &ToolResult) -> &str {
    answer.text.split("───").nth(1).unwrap_or_default()
}
