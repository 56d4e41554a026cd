//! What a caller gets wrong is named to it, and nothing is silently replaced.

use serde_json::{Value, json};

use crate::support::env::Env;

#[test]
fn wrong_arguments_are_results_that_name_the_argument() {
    let env = Env::new();
    let client = env.client();
    let cases: [(&str, Value, &[&str]); 20] = [
        ("zsh", json!({}), &["command"]),
        ("zsh", json!({"command": 5}), &["command", "string"]),
        ("zsh", json!({"command": null}), &["command"]),
        ("zsh", json!({"command": ""}), &["command"]),
        ("zsh", json!({"command": "true", "timout": 5}), &["timout", "timeout"]),
        ("zsh", json!({"command": "true", "yield": 5}), &["yield", "yield_after"]),
        ("zsh", json!({"command": "true", "timeout": -1}), &["timeout"]),
        ("zsh", json!({"command": "true", "timeout": "NaN"}), &["timeout", "number"]),
        ("zsh", json!({"command": "true", "yield_after": "Infinity"}), &["yield_after"]),
        ("zsh", json!({"command": "true", "yield_after": -0.5}), &["yield_after"]),
        ("zsh", json!({"command": "true", "pty": "yes"}), &["pty"]),
        ("zsh", json!({"command": "true", "env": "A=1"}), &["env"]),
        ("zsh", json!({"command": "true", "until": "("}), &["until"]),
        ("zsh", json!({"command": "true", "rows": 2.5, "pty": true}), &["rows"]),
        ("zsh_poll", json!({}), &["task_id"]),
        ("zsh_poll", json!({"task": "x"}), &["task", "task_id"]),
        ("zsh_poll", json!({"task_id": "00000000"}), &["00000000"]),
        (
            "zsh_poll",
            json!({"task_id": "00000000", "wait_for": "never"}),
            &["wait_for", "output", "end"],
        ),
        ("zsh_kill", json!({"task_id": "00000000"}), &["00000000"]),
        ("zsh_send", json!({"task_id": "00000000", "input": "x"}), &["00000000"]),
    ];
    for (tool, arguments, words) in cases {
        let result = client.call(tool, arguments.clone());
        assert!(result.is_error, "{tool} {arguments}: {}", result.text);
        for word in words {
            assert!(result.text.contains(word), "{word}: {tool} {arguments}: {}", result.text);
        }
    }
    client.ping();
}

#[test]
fn whole_numbers_with_a_fraction_of_zero_are_taken() {
    let env = Env::new();
    let client = env.client();
    let arguments = r#"{"command":"stty size; echo x","pty":true,"rows":30.0,"cols":90.0,"yield_after":20.0,"timeout":60.0}"#;
    let arguments: Value = serde_json::from_str(arguments).expect("JSON");
    let result = client.call("zsh", arguments);
    assert!(!result.is_error, "{}", result.text);
    assert!(result.output().starts_with("30 90"), "{}", result.text);
    let task = result.task_id();
    let range = client.call("zsh_poll", json!({"task_id": task, "from_line": 2.0, "to_line": 2.0}));
    assert_eq!(range.without_numbers(), "x", "{}", range.text);
}

#[test]
fn times_above_their_maximum_are_clamped_and_said() {
    let env = Env::new();
    let client = env.client();
    let arguments = json!({"command": "true", "timeout": 9999, "yield_after": 20});
    let result = client.call("zsh", arguments);
    assert!(!result.is_error, "{}", result.text);
    assert!(result.footer().contains("600"), "{}", result.text);
    assert!(result.footer().contains("background"), "{}", result.text);
    let result = client.call("zsh", json!({"command": "true", "yield_after": 99}));
    assert!(!result.is_error, "{}", result.text);
    assert!(result.footer().contains("50"), "{}", result.text);
}

/// What models fill in for arguments that they leave out, when a strict schema requires all of them.
fn filled(tool: &Value, with: impl Fn(&Value) -> Value) -> Value {
    let properties = tool["inputSchema"]["properties"].as_object().expect("properties");
    properties.iter().map(|(name, property)| (name.clone(), with(property))).collect()
}

#[test]
fn every_tool_takes_all_of_its_arguments_filled_in() {
    let env = Env::new();
    let client = env.client();
    let list = client.request("tools/list", json!({})).wait();
    let tools = list["result"]["tools"].as_array().expect("tools").clone();
    assert_eq!(tools.len(), 10);
    let of_type = |texts: bool| {
        move |property: &Value| match property["type"].as_str().unwrap_or_default() {
            "string" => json!(""),
            "boolean" if texts => json!("false"),
            "boolean" => json!(false),
            "number" | "integer" if texts => json!("0"),
            "number" | "integer" => json!(0),
            "array" => json!([]),
            _ => json!({}),
        }
    };
    let none = |_: &Value| Value::Null;
    for tool in &tools {
        let name = tool["name"].as_str().expect("a name");
        for mut arguments in
            [filled(tool, none), filled(tool, of_type(false)), filled(tool, of_type(true))]
        {
            let task = client
                .call("zsh", json!({"command": "cat", "stdin_open": true, "background": true}))
                .task_id();
            if !arguments["task_id"].is_null() || name.ends_with("poll") {
                arguments["task_id"] = json!(task);
            }
            let properties = &tool["inputSchema"]["properties"];
            for (required, value) in [("task_id", json!(task)), ("command", json!("echo x"))] {
                if !properties[required].is_null() {
                    arguments[required] = value;
                }
            }
            // Something has to be sent.
            if name == "zsh_send" {
                arguments["input"] = json!("typed");
            }
            let result = client.call(name, arguments.clone());
            assert!(!result.is_error, "{name} {arguments}: {}", result.text);
            client.kill_all_of(&task);
        }
    }
}

#[test]
fn what_is_filled_in_beside_what_is_meant_changes_nothing() {
    let env = Env::new();
    let client = env.client();
    let meant = json!({
        "command": "sleep 0.2; echo done", "timeout": "30", "yield_after": "20", "pty": "false",
        "until": "", "until_port": "", "rows": 24, "cols": 80, "detach": "False",
        "detached_hours": 24, "session": "", "stdin": "", "stdin_open": false, "cwd": "",
        "host": "", "env": {}, "description": "", "timeout_mode": "", "background": null,
        "max_output": 0,
    });
    let result = client.call("zsh", meant);
    assert_eq!(result.output(), "done", "no empty pattern has matched: {}", result.text);
    let on_terminal = client.call(
        "zsh",
        json!({"command": "read 'a?Name: '; echo got $a", "pty": "true", "rows": 0, "cols": 0,
               "stdin": "", "yield_after": 20}),
    );
    let task = on_terminal.task_id();
    let sent = client.call(
        "zsh_send",
        json!({"task_id": task, "input": "me", "enter": true, "secret_env": "", "keys": [],
               "eof": false, "rows": 0, "cols": 0, "listen": 5, "until": ""}),
    );
    assert!(sent.text.contains("got me"), "{}", sent.text);
    let polled = client.call(
        "zsh_poll",
        json!({"task_id": task, "full_output": false, "listen": 2, "wait_for": "output",
               "until": "", "until_port": "", "from_line": 1, "from_char": 0, "to_line": 0,
               "grep": "", "context": 0, "screen": false, "max_output": 30_000}),
    );
    assert!(polled.text.contains("1: Name:"), "{}", polled.text);
    for (tool, conflict, named) in [
        ("zsh", json!({"command": "x", "rows": 30}), ["rows", "pty"]),
        ("zsh", json!({"command": "x", "pty": true, "stdin": "y"}), ["stdin", "pty"]),
        ("zsh", json!({"command": "x", "detached_hours": 3}), ["detached_hours", "detach"]),
        ("zsh_poll", json!({"task_id": task, "grep": "x", "listen": 9}), ["listen", "grep"]),
        (
            "zsh_send",
            json!({"task_id": task, "input": "x", "secret_env": "y"}),
            ["input", "secret_env"],
        ),
    ] {
        let result = client.call(tool, conflict.clone());
        let is_named = named.iter().all(|name| result.text.contains(name));
        assert!(result.is_error && is_named, "{conflict}: {}", result.text);
    }
}
