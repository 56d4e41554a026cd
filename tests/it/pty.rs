//! Commands on a terminal of their own, and input to running commands.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::client::Client;
use crate::support::env::Env;
use crate::support::processes::{UniqueSleep, wait_until};
use crate::support::result::ToolResult;

/// Below any wait that a test asks for.
const AT_ONCE: Duration = Duration::from_secs(12);

#[test]
fn a_question_is_answered() {
    let env = Env::new();
    let client = env.client();
    let command = "read 'name?Your name: '; echo \"Hello $name.\"";
    let task = on_terminal(&client, command, "Your name:");
    let answered = send(&client, &task, json!({"input": "Ada", "listen": 20}));
    assert!(answered.elapsed < AT_ONCE, "{:?}", answered.elapsed);
    let end = to_end(&client, &task, &answered);
    assert!(end.contains("Hello Ada."), "{end}");
}

#[test]
fn a_password_is_never_in_a_result() {
    let env = Env::new();
    let client = env.client();
    let command = "read -s 'word?Password: '; echo; echo \"${#word} characters\"";
    let task = on_terminal(&client, command, "Password:");
    let answered = send(&client, &task, json!({"input": "hunter2hunter2", "listen": 20}));
    let end = to_end(&client, &task, &answered);
    assert!(end.contains("14 characters"), "{end}");
    let all = client.poll(&task, json!({"full_output": true}));
    assert!(!all.text.contains("hunter2"), "{}", all.text);
}

#[test]
fn a_repl_answers_statement_by_statement() {
    let env = Env::new();
    let client = env.client();
    let command = "PYTHON_BASIC_REPL=1 exec python3 -q";
    let task = on_terminal(&client, command, ">>> ");
    for (input, answer) in
        [("x = 6 * 7", None), ("print('x is', x)", Some("x is 42")), ("'ab' * 3", Some("'ababab'"))]
    {
        let sent = send(&client, &task, json!({"input": input, "listen": 20}));
        let mut text = sent.output();
        if let Some(answer) = answer {
            wait_until("the statement is answered", || {
                let all = client.poll(&task, json!({"full_output": true, "listen": 0}));
                text = all.without_numbers();
                text.contains(answer).then_some(())
            });
        }
    }
    // Before its prompt it does not read, and the end might come to nobody.
    wait_until("it asks for the next statement", || {
        let all = client.poll(&task, json!({"full_output": true, "listen": 0}));
        all.without_numbers().ends_with(">>> ").then_some(())
    });
    let ended = send(&client, &task, json!({"eof": true, "listen": 20}));
    let end = client.poll_to_end(&task);
    assert_eq!(end.status(), "completed", "{}\n{}", ended.text, end.text);
}

#[test]
fn a_terminal_is_there_with_its_size_and_type() {
    let env = Env::new();
    let client = env.client();
    let command = "[[ -t 0 && -t 1 && -t 2 ]] && echo yes; stty size; print $TERM; print -n to the terminal >/dev/tty";
    for (arguments, size) in [(json!({}), "24 80"), (json!({"rows": 50, "cols": 132}), "50 132")] {
        let mut arguments = arguments;
        arguments["command"] = json!(command);
        arguments["pty"] = json!(true);
        arguments["yield_after"] = json!(20);
        let result = client.call("zsh", arguments);
        assert_eq!(result.output(), format!("yes\n{size}\nxterm-256color\nto the terminal"));
    }
}

#[test]
fn a_resize_reaches_the_program() {
    let env = Env::new();
    let client = env.client();
    let sleep = UniqueSleep::new();
    let command = format!("trap 'stty size' WINCH; {sleep} & echo up; wait; wait");
    let task = on_terminal(&client, &command, "up");
    let sent = send(&client, &task, json!({"rows": 33, "cols": 99, "listen": 20}));
    assert!(!sent.is_error, "{}", sent.text);
    wait_until("the program sees its new size", || {
        let all = client.poll(&task, json!({"full_output": true, "listen": 0}));
        all.without_numbers().contains("33 99").then_some(())
    });
    let piped = client.start_task("sleep 98765");
    let refused = send(&client, &piped, json!({"rows": 33, "cols": 99}));
    assert!(refused.is_error && refused.text.contains("pty: true"), "{}", refused.text);
    client.kill_task(&piped);
    client.kill_task(&task);
}

#[test]
fn the_interrupt_character_interrupts() {
    let env = Env::new();
    let client = env.client();
    let sleep = UniqueSleep::new();
    let command = format!("trap 'echo interrupted; exit 9' INT; echo up; {sleep} & wait");
    let task = on_terminal(&client, &command, "up");
    sleep.wait_for(1);
    let sent = send(&client, &task, json!({"input": "\u{3}", "enter": false, "listen": 20}));
    let end = to_end(&client, &task, &sent);
    assert!(end.contains("interrupted"), "{end}");
    assert_eq!(client.poll(&task, json!({"listen": 0})).meta["exit_code"], json!(9));
}

#[test]
fn an_open_pipe_is_written_to_until_its_end() {
    let env = Env::new();
    let client = env.client();
    let arguments = json!({"command": "cat; echo over", "stdin_open": true, "yield_after": 0});
    let started = client.call("zsh", arguments);
    assert!(started.footer().contains("stdin=open"), "{}", started.text);
    let task = started.task_id();
    let first = send(&client, &task, json!({"input": "one", "listen": 20}));
    assert!(first.elapsed < AT_ONCE, "{:?}", first.elapsed);
    assert_eq!(first.output(), "one");
    let second = send(&client, &task, json!({"input": "two", "enter": false, "listen": 20}));
    assert_eq!(second.output(), "two");
    let third = send(&client, &task, json!({"input": " and a half", "eof": true, "listen": 20}));
    let end = to_end(&client, &task, &third);
    assert!(end.ends_with("two and a half\nover"), "{end}");
    let late = send(&client, &task, json!({"input": "more"}));
    assert!(late.is_error && late.text.contains("ended"), "{}", late.text);
}

#[test]
fn text_on_stdin_is_fed_and_ends() {
    let env = Env::new();
    let client = env.client();
    let text = "y".repeat(3_000_000);
    for (command, stdin, output) in [
        ("cat", "a\nb", "a\nb"),
        ("wc -c", text.as_str(), "3000000"),
        ("read -r x; echo $x; cat", "first\nrest", "first\nrest"),
        ("cat; echo none", "", "none"),
        // Who does not read it is not held up by it.
        ("exec 0<&-; echo closed", text.as_str(), "closed"),
        ("echo unread", text.as_str(), "unread"),
    ] {
        let arguments = json!({"command": command, "stdin": stdin, "yield_after": 25});
        let result = client.call("zsh", arguments);
        assert_eq!(result.output().trim(), output, "{command}");
        assert_eq!(result.meta["exit_code"], json!(0), "{}", result.text);
    }
}

#[test]
fn input_to_a_task_without_stdin_says_how_to_run_it_again() {
    let env = Env::new();
    let client = env.client();
    let task = client.start_task("sleep 98765");
    for arguments in [json!({"input": "x"}), json!({"eof": true})] {
        let refused = send(&client, &task, arguments);
        assert!(refused.is_error, "{}", refused.text);
        for word in ["no stdin", "pty: true", "stdin_open: true"] {
            assert!(refused.text.contains(word), "{word}: {}", refused.text);
        }
    }
    let nothing = send(&client, &task, json!({}));
    assert!(nothing.is_error, "{}", nothing.text);
    client.kill_task(&task);
}

#[test]
fn a_large_text_comes_back_through_cat() {
    const LINES: usize = 2_000;
    let env = Env::new();
    let client = env.client();
    let text: String = (1..=LINES).map(|n| format!("{n:05} {}\n", "x".repeat(44))).collect();
    assert!(text.len() > 100_000);
    for mode in [json!({"stdin_open": true}), json!({"pty": true})] {
        let mut arguments = mode;
        // Without the terminal's echo each line comes back once.
        arguments["command"] = json!("stty -echo 2>/dev/null; echo up; cat");
        arguments["until"] = json!("up");
        arguments["yield_after"] = json!(20);
        let task = client.call("zsh", arguments).task_id();
        let sent = send(&client, &task, json!({"input": text, "enter": false, "listen": 0}));
        assert!(!sent.is_error, "{}", sent.text);
        send(&client, &task, json!({"eof": true, "listen": 0}));
        let end = client.poll_to_end(&task);
        assert_eq!(end.status(), "completed", "{}", end.footer());
        assert_eq!(end.meta["total_lines"], json!(LINES + 1), "{}", end.footer());
        let last = client.poll(&task, json!({"from_line": LINES + 1}));
        assert_eq!(last.without_numbers(), format!("{LINES:05} {}", "x".repeat(44)));
        let found = client.poll(&task, json!({"grep": "^00777 x{44}$"}));
        assert_eq!(found.numbered().len(), 1, "{}", found.text);
    }
}

#[test]
fn input_for_a_program_that_reads_nothing_is_bounded() {
    let env = Env::new();
    let client = env.client();
    let megabyte = "x".repeat(1024 * 1024);
    for mode in [json!({"stdin_open": true}), json!({"pty": true})] {
        let sleep = UniqueSleep::new();
        let mut arguments = mode;
        arguments["command"] = json!(format!("stty raw -echo 2>/dev/null; echo up; {sleep}"));
        arguments["until"] = json!("up");
        arguments["yield_after"] = json!(20);
        let task = client.call("zsh", arguments).task_id();
        let mut sent = 0;
        let refused = loop {
            let input = json!({"input": megabyte, "enter": false, "listen": 0});
            let result = send(&client, &task, input);
            if result.is_error {
                break result;
            }
            sent += 1;
            assert!(sent < 4, "four megabytes are taken for a program that reads nothing");
        };
        assert!(refused.text.contains("1048576"), "{}", refused.text);
        assert!(refused.text.contains("does not read"), "{}", refused.text);
        // The worker is not stuck in a write.
        let receipt = client.kill_task(&task);
        assert_eq!(receipt.status(), "killed", "{}", receipt.text);
        sleep.assert_gone();
    }
}

#[test]
fn more_than_a_megabyte_at_once_is_refused() {
    let env = Env::new();
    let client = env.client();
    let arguments = json!({"command": "cat >/dev/null", "stdin_open": true, "yield_after": 0});
    let task = client.call("zsh", arguments).task_id();
    let input = json!({"input": "x".repeat(1024 * 1024), "listen": 0});
    let refused = send(&client, &task, input);
    assert!(refused.is_error, "the line's end is above the limit: {}", refused.text);
    let taken = send(&client, &task, json!({"input": "x".repeat(1024 * 1024 - 1), "listen": 0}));
    assert!(!taken.is_error, "{}", taken.text);
    send(&client, &task, json!({"eof": true, "listen": 0}));
    assert_eq!(client.poll_to_end(&task).status(), "completed");
}

#[test]
fn a_full_screen_program_is_run_and_left() {
    let env = Env::new();
    let client = env.client();
    // An alternate screen, colours, a cursor that is moved: what editors do.
    let command = r"printf '\e[?1049h\e[2J\e[5;10Hmiddle\e[31mred\e[0m'; read -k1 -s _; printf '\e[?1049l'; echo; echo left";
    let task = on_terminal(&client, command, "middle");
    let sent = send(&client, &task, json!({"input": "q", "enter": false, "listen": 20}));
    let end = to_end(&client, &task, &sent);
    assert!(end.ends_with("left"), "{end}");
    let all = client.poll(&task, json!({"full_output": true}));
    assert!(!all.text.contains('\u{1b}'), "{:?}", all.text);
}

fn on_terminal(client: &Client, command: &str, until: &str) -> String {
    let arguments = json!({
        "command": command, "pty": true, "until": regex::escape(until), "yield_after": 25,
    });
    let result = client.call("zsh", arguments);
    assert_eq!(result.status(), "running", "{}", result.text);
    assert!(!result.meta["matched_line"].is_null(), "{}", result.text);
    result.task_id()
}

fn send(client: &Client, task: &str, mut arguments: Value) -> ToolResult {
    arguments["task_id"] = json!(task);
    client.call("zsh_send", arguments)
}

/// What `sent` brought, and all that came after it until the end.
fn to_end(client: &Client, task: &str, sent: &ToolResult) -> String {
    assert!(!sent.is_error, "{}", sent.text);
    let end = client.poll_to_end(task);
    assert_ne!(end.status(), "running", "{}", end.text);
    let all = client.poll(task, json!({"full_output": true}));
    all.without_numbers()
}
