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
