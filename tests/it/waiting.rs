//! A task that waits for input is told of at once, by evidence; one that does not, never.

use serde_json::json;

use crate::support::client::Client;
use crate::support::env::Env;
use crate::support::processes::wait_until;
use crate::support::result::ToolResult;

/// Far above the time in which a waiting task is found.
const LONG: u32 = 40;

fn run_on_terminal(env: &Env, command: &str) -> (Client, ToolResult) {
    let client = env.client();
    let arguments = json!({"command": command, "pty": true, "yield_after": LONG});
    let result = client.call("zsh", arguments);
    (client, result)
}

/// The end of a task, which a reply to the last input may come before, and all its output.
fn to_end(client: &Client, task: &str) -> (ToolResult, String) {
    let end = client.poll_to_end(task);
    assert_ne!(end.status(), "running", "{}", end.text);
    let all = client.poll(task, json!({"full_output": true}));
    let output = all.without_numbers();
    (end, output)
}

#[test]
fn a_question_gives_control_back_and_names_who_asks() {
    let env = Env::new();
    let (client, result) = run_on_terminal(&env, "read 'name?Your name: '; echo hi $name");
    assert_eq!(result.status(), "running", "{}", result.text);
    assert_eq!(result.meta["waiting_for"], json!("input"));
    assert_eq!(result.meta["prompt"], json!("Your name:"));
    let line = "⌨ WAITING FOR INPUT \"Your name:\" (reads tty: ";
    assert!(result.text.contains(line), "{}", result.text);
    let arguments = json!({"task_id": result.task_id(), "input": "Ada", "listen": LONG});
    client.call("zsh_send", arguments);
    let (end, output) = to_end(&client, &result.task_id());
    assert!(output.contains("hi Ada"), "{output}");
    assert_eq!(end.meta["waiting_for"], json!(null), "{}", end.text);
}

#[test]
fn a_reply_to_input_tells_that_the_next_question_waits() {
    let env = Env::new();
    let asks = "while read \"x?> \"; do print got $x; done";
    let (client, result) = run_on_terminal(&env, asks);
    let task = result.task_id();
    // The silence that ends a reply is shorter than what a verdict takes, and a machine
    // that is busy may be late with the look that would make the reply wait for it.
    let mut round = 0;
    wait_until("a reply tells that the next question waits", || {
        round += 1;
        let input = format!("round {round}");
        let arguments = json!({"task_id": task, "input": input, "listen": LONG});
        let reply = client.call("zsh_send", arguments);
        let answer = format!("got {input}");
        // The echo of the input may have been all of the reply.
        wait_until("the program answers", || {
            let all = client.poll(&task, json!({"full_output": true, "listen": 0}));
            all.without_numbers().contains(&answer).then_some(())
        });
        let told = reply.text.contains(&answer) && reply.meta["waiting_for"] == json!("input");
        told.then_some(())
    });
}

#[test]
fn a_password_is_told_from_other_input() {
    let env = Env::new();
    let (client, result) = run_on_terminal(&env, "read -s 'word?Password: '; echo; echo done");
    assert_eq!(result.meta["waiting_for"], json!("password"), "{}", result.text);
    assert!(result.text.contains("⌨ WAITING FOR A PASSWORD"), "{}", result.text);
    let arguments = json!({"task_id": result.task_id(), "input": "hunter2", "listen": LONG});
    let reply = client.call("zsh_send", arguments);
    assert!(!reply.text.contains("hunter2"), "{}", reply.text);
    let (end, output) = to_end(&client, &result.task_id());
    assert!(!end.text.contains("hunter2"), "{}", end.text);
    assert!(output.contains("done"), "{output}");
    assert!(!output.contains("hunter2"), "{output}");
}

#[test]
fn a_program_that_waits_by_select_or_poll_waits_for_input() {
    let env = Env::new();
    for wait in [
        "select.select([sys.stdin], [], [])",
        "p = select.poll(); p.register(sys.stdin, select.POLLIN); p.poll()",
        "e = select.epoll(); e.register(sys.stdin, select.EPOLLIN); e.poll()",
    ] {
        let command = format!("python3 -c 'import select, sys; {wait}'");
        let (client, result) = run_on_terminal(&env, &command);
        assert_eq!(result.meta["waiting_for"], json!("input"), "{wait}: {}", result.text);
        client.kill_task(&result.task_id());
    }
}

#[test]
fn a_reader_of_an_open_pipe_waits_for_input() {
    let env = Env::new();
    let client = env.client();
    let arguments = json!({"command": "cat", "stdin_open": true, "yield_after": LONG});
    let result = client.call("zsh", arguments);
    assert_eq!(result.meta["waiting_for"], json!("input"), "{}", result.text);
    let arguments = json!({"task_id": result.task_id(), "wait_for": "end", "listen": LONG});
    let poll = client.call("zsh_poll", arguments);
    assert_eq!(poll.meta["waiting_for"], json!("input"), "{}", poll.text);
    let arguments = json!({"task_id": result.task_id(), "input": "x", "eof": true, "listen": LONG});
    let reply = client.call("zsh_send", arguments);
    assert_eq!(reply.output(), "x", "{}", reply.text);
}

#[test]
fn what_does_not_read_is_never_called_waiting() {
    let env = Env::new();
    let silent = "sleep 2.5";
    let python = |text: &str| format!("python3 -c '{text}'");
    let commands = [
        silent.to_owned(),
        format!("echo 'Password:'; {silent}"),
        format!("printf 'Password: '; {silent}"),
        format!("stty -echo; {silent}"),
        format!("(while :; do :; done) & {silent}; kill $!"),
        format!("{silent} | gzip | cat"),
        format!("cat =(echo x) | (cat; {silent})"),
        // As ssh and docker do: terminal and socket together.
        python(
            "import select, socket, sys; a, b = socket.socketpair(); select.select([sys.stdin, a], [], [], 2.5)",
        ),
        // As script and sudo do: terminal and another terminal's master.
        python(
            "import os, pty, select, sys; m, t = pty.openpty(); select.select([sys.stdin, m], [], [], 2.5)",
        ),
        // A server that listens to keys with a time limit, on a terminal by lines.
        python("import select, sys\nfor _ in range(25): select.select([sys.stdin], [], [], 0.1)"),
        python(
            "import socket; s = socket.socket(); s.bind((\"127.0.0.1\", 0)); s.listen(); s.settimeout(2.5)\ntry: s.accept()\nexcept TimeoutError: pass",
        ),
    ];
    let calls: Vec<_> = commands.iter().map(|_| env.client()).collect();
    let pending: Vec<_> = calls
        .iter()
        .zip(&commands)
        .map(|(client, command)| {
            let arguments = json!({"command": command, "pty": true, "yield_after": LONG});
            client.call_async("zsh", arguments)
        })
        .collect();
    for (call, command) in pending.into_iter().zip(&commands) {
        let result = call.tool_result();
        assert_ne!(result.status(), "running", "{command}: {}", result.text);
    }
}

#[test]
fn without_a_terminal_or_a_pipe_nobody_waits() {
    let env = Env::new();
    let client = env.client();
    let arguments = json!({"command": "read x; echo read=$?", "yield_after": LONG});
    let result = client.call("zsh", arguments);
    assert_eq!(result.output(), "read=1", "{}", result.text);
}

#[test]
fn a_program_that_names_itself_writes_no_line_of_the_result() {
    let env = Env::new();
    let command = r"print -n $'a\nb\ec' > /proc/$$/comm; read x";
    let (client, waits) = run_on_terminal(&env, command);
    assert_eq!(waits.meta["waiting_for"], json!("input"), "{}", waits.text);
    assert!(waits.text.contains(" a?b?c, run by /"), "{}", waits.text);
    assert_eq!(client.kill_task(&waits.task_id()).status(), "killed");
}

#[test]
fn a_reply_is_awaited_while_the_program_works_and_only_the_echo_has_come() {
    let env = Env::new();
    // It reads, and computes for a second before it writes.
    let computes = "read 'name?Name: '; typeset -F SECONDS=0; while (( SECONDS < 1 )); do :; done; \
                    echo hi $name; read again";
    let (client, result) = run_on_terminal(&env, computes);
    let arguments = json!({"task_id": result.task_id(), "input": "Ada", "listen": LONG});
    let reply = client.call("zsh_send", arguments);
    assert!(reply.output().contains("hi Ada"), "{}", reply.text);
}
