//! Stdout and stderr apart: each whole, in its order, under a rule of its own or on its own descriptor.

use std::fs;

use serde_json::{Value, json};

use crate::support::client::Client;
use crate::support::env::{Env, binary};
use crate::support::processes::{assert_none_left, wait_until};
use crate::support::program::{ran, run, zsh_tool};
use crate::support::result::ToolResult;

fn separate(client: &Client, command: &str) -> ToolResult {
    client.call("zsh", json!({ "command": command, "stderr": "separate", "yield_after": 60 }))
}

#[test]
fn stderr_has_a_rule_and_numbers_of_its_own() {
    let env = Env::new();
    let client = env.client();
    let both = separate(&client, "echo one; echo two >&2; echo three; echo four >&2; exit 3");
    let rules = format!("───\none\nthree\n─── stderr\ntwo\nfour\n─── {}\n✘ exit=3", both.task_id());
    assert!(both.text.contains(&rules), "{}", both.text);
    let meta = &both.meta;
    let stderr = &meta["stderr"];
    assert_eq!((&meta["to_line"], &meta["new_bytes"]), (&json!(2), &json!(10)), "{meta}");
    assert_eq!((&stderr["to_line"], &stderr["new_bytes"]), (&json!(2), &json!(9)), "{meta}");
    let log = |of: &Value| fs::read_to_string(of["log_path"].as_str().expect("a path"));
    assert_eq!(log(stderr).expect("a spool"), "two\nfour\n");
    assert_eq!(log(meta).expect("a spool"), "one\nthree\n");

    let together = client.call("zsh", json!({ "command": "echo a; echo b >&2" })).task_id();
    let in_output = client.poll(&together, json!({ "stderr": true, "grep": "b" }));
    assert!(in_output.text.contains("they are in the output"), "{}", in_output.text);
    let bytes = separate(&client, "printf 'x\\xff\\nok\\n'; printf 'yy\\xfe' >&2");
    assert_eq!(bytes.text.matches("not UTF-8").count(), 2, "{}", bytes.text);
    let only_errors = separate(&client, "echo x >&2");
    assert!(only_errors.text.contains("───\n─── stderr\nx\n─── "), "{}", only_errors.text);
    let only_output = separate(&client, "echo x");
    assert!(!only_output.text.contains("stderr\n"), "{}", only_output.text);
    assert_eq!(only_output.meta["stderr"], Value::Null);
    let silent = separate(&client, "true");
    assert!(silent.text.contains("(no output)"), "{}", silent.text);
    let one_stream = client.call("zsh", json!({ "command": "echo one; echo two >&2; echo three" }));
    assert!(one_stream.text.contains("one\ntwo\nthree\n───"), "{}", one_stream.text);
    // However long stderr is, short output beside it stays.
    for max_output in [1_000, 2_000, 30_000] {
        let arguments = json!({
            "command": "echo 'answer is here'; echo 42; seq 1 40000 >&2",
            "stderr": "separate", "max_output": max_output, "yield_after": 60,
        });
        let beside = client.call("zsh", arguments);
        assert!(beside.text.contains("answer is here\n42\n─── stderr\n1\n"), "{}", beside.text);
    }
    // A line of either stream cannot look like the rule between them.
    let fake = separate(&client, "echo '─── stderr'; echo '─── stderr' >&2");
    assert_eq!(fake.text.matches("\n─── stderr\n").count(), 1, "{}", fake.text);
    let on_terminal =
        client.call("zsh", json!({ "command": "true", "stderr": "separate", "pty": true }));
    assert!(on_terminal.text.contains("a terminal has one stream"), "{}", on_terminal.text);
}

#[test]
fn polls_show_what_is_new_of_each_stream_and_read_any_part_of_stderr() {
    let env = Env::new();
    let client = env.client();
    let gate = env.named_pipe("gate");
    let command = format!(
        "echo out1; echo err1 >&2; read x < {gate}; \
         echo done; for i in {{2..400}}; do print -u2 \"err$i\"; done; read x < {gate}",
        gate = gate.display()
    );
    let started =
        client.call("zsh", json!({ "command": command, "stderr": "separate", "until": "err1" }));
    assert!(started.text.contains("until matched stderr line 1"), "{}", started.text);
    assert_eq!(started.meta["matched_stream"], "stderr", "{}", started.meta);
    let task = started.task_id();
    fs::write(&gate, "go\n").expect("a reader");
    let matched = client.poll(&task, json!({ "until": "err400$", "listen": 30 }));
    assert!(matched.text.contains("until matched stderr line 400"), "{}", matched.text);
    assert!(matched.text.contains("─── stderr\n2: err2\n"), "{}", matched.text);
    assert!(matched.text.contains("───\n2: done\n"), "{}", matched.text);
    assert!(!matched.text.contains("1: err1\n"), "{}", matched.text);
    let end = client.poll(&task, json!({ "listen": 0, "full_output": true }));
    assert!(end.text.contains("1: out1\n2: done\n─── stderr\n1: err1\n"), "{}", end.text);

    let range = client.poll(&task, json!({ "stderr": true, "from_line": 7, "to_line": 8 }));
    assert!(range.text.contains("───\n─── stderr\n7: err7\n8: err8\n───"), "{}", range.text);
    let found = client.poll(&task, json!({ "stderr": true, "grep": "err39[89]" }));
    assert!(found.text.contains("398: err398\n399: err399\n"), "{}", found.text);
    let nothing = client.poll(&task, json!({ "grep": "err" }));
    assert!(nothing.text.contains("no line matches"), "{}", nothing.text);
    let alone = client.poll(&task, json!({ "stderr": true }));
    assert!(alone.text.contains("pass from_line, to_line or grep"), "{}", alone.text);
    client.kill_task(&task);
}

#[test]
fn a_prompt_on_stderr_is_found() {
    let env = Env::new();
    let client = env.client();
    let asked = client.call(
        "zsh",
        json!({
            "command": "bash -c 'printf \"Name? \" >&2; read name; echo hello $name'",
            "stderr": "separate", "stdin_open": true, "yield_after": 30,
        }),
    );
    assert!(asked.text.contains("⌨ WAITING FOR INPUT"), "{}", asked.text);
    assert!(asked.text.contains("Name?"), "{}", asked.text);
    let answered = client
        .call("zsh_send", json!({ "task_id": asked.task_id(), "input": "you", "listen": 30 }));
    assert!(answered.text.contains("hello you"), "{}", answered.text);
}

/// Both pipes are full most of the time: neither waits for the other to be read.
#[test]
fn a_hundred_megabytes_on_each_stream_arrive_whole() {
    let env = Env::new();
    let client = env.client();
    let command = "yes out | head -c 100000000 & yes err | head -c 100000000 >&2; wait";
    let flooded = separate(&client, command);
    assert!(flooded.text.contains("✔ exit=0"), "{}", &flooded.text[..2_000]);
    let meta = &flooded.meta;
    assert_eq!(meta["new_bytes"], json!(100_000_000));
    assert_eq!(meta["stderr"]["new_bytes"], json!(100_000_000));

    let mut exec = zsh_tool(&env, &["exec", "--", command]);
    exec.env("ZSH_TOOL_SPOOL_TASK_QUOTA", "8388608");
    let copied = run(exec);
    assert_eq!(copied.stdout.len(), 100_000_000);
    assert_eq!(copied.stderr.matches("err\n").count(), 25_000_000);
    assert!(!copied.stderr.contains("out"));
    drop(client);
    assert_none_left(env.mark());
}

#[test]
fn exec_writes_each_stream_to_its_own_descriptor() {
    let env = Env::new();
    let apart = ran(&env, &["exec", "--", "echo out; echo err >&2; exit 3"]);
    assert_eq!((apart.text(), apart.code), ("out\n".to_owned(), 3));
    assert!(apart.stderr.starts_with("err\n✘ exit=3  "), "{}", apart.stderr);
    let shell = |text: &str| {
        let mut command = env.command("sh");
        command.arg("-c").arg(text).arg("sh").arg(binary());
        run(command).text()
    };
    let order = "for i in 1 2 3; do echo out$i; echo err$i >&2; done";
    let together = shell(&format!("\"$1\" exec -- '{order}' 2>&1 | head -6"));
    assert_eq!(together, "out1\nerr1\nout2\nerr2\nout3\nerr3\n");
    assert_eq!(shell(&format!("\"$1\" exec -- '{order}' 2>/dev/null")), "out1\nout2\nout3\n");
    // Nobody reads stderr: the command runs to its end all the same.
    assert_eq!(shell("\"$1\" exec -- 'seq 20000 >&2; echo end' 2>&-"), "end\n");

    let json = ran(&env, &["exec", "--json", "--stderr", "separate", "--", "echo o; echo e >&2"]);
    let json: Value = serde_json::from_str(&json.text()).expect("JSON");
    assert_eq!((&json["output"], &json["stderr"]), (&json!("o"), &json!("e")), "{json}");
}

#[test]
fn the_log_prints_each_stream_and_says_that_there_are_two() {
    let env = Env::new();
    let client = env.client();
    let task = separate(&client, "echo out; echo err >&2; exit 1").task_id();
    // Its file is written soon after the answer.
    let output = wait_until("the task's file", || {
        let output = ran(&env, &["log", &task]);
        (output.code == 0).then_some(output)
    });
    assert_eq!(output.text(), "out\n");
    assert!(output.stderr.contains(&format!("zsh-tool log --stderr {task}")), "{}", output.stderr);
    assert_eq!(ran(&env, &["log", "--stderr", &task]).text(), "err\n");
    drop(client);
    // Another server reads both from its files.
    let next = env.client();
    let recalled = next.poll(&task, json!({ "full_output": true }));
    assert!(recalled.text.contains("1: out\n─── stderr\n1: err\n"), "{}", recalled.text);
}
