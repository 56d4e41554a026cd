//! Structured results say what their tools' output schemas promise, and nothing besides.

use serde_json::{Value, json};

use crate::support::client::Client;
use crate::support::env::Env;
use crate::support::processes::UniqueSleep;

/// A tool's output schema, as the list of tools gives it.
fn output_schema(client: &Client, tool: &str) -> Value {
    let listed = client.request("tools/list", json!({})).wait();
    let tools = listed["result"]["tools"].as_array().cloned();
    tools
        .unwrap_or_default()
        .into_iter()
        .find(|listed| listed["name"] == json!(tool))
        .map(|listed| listed["outputSchema"].clone())
        .filter(Value::is_object)
        .unwrap_or_else(|| panic!("{tool} has no output schema: {listed}"))
}

/// The same schema with every object closed, so that no member goes undescribed.
fn closed(mut schema: Value) -> Value {
    match &mut schema {
        Value::Object(members) => {
            for member in members.values_mut() {
                *member = closed(member.take());
            }
            if members.get("type") == Some(&json!("object")) {
                members.insert("additionalProperties".to_owned(), json!(false));
            }
        }
        Value::Array(members) => {
            for member in members {
                *member = closed(member.take());
            }
        }
        _ => {}
    }
    schema
}

fn assert_valid(client: &Client, tool: &str, arguments: Value) -> Value {
    let schema = closed(output_schema(client, tool));
    let validator = jsonschema::validator_for(&schema).expect("a valid schema");
    let result = client.call(tool, arguments);
    let structured = result.raw["structuredContent"].clone();
    let errors: Vec<String> = validator
        .iter_errors(&structured)
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect();
    assert!(errors.is_empty(), "{errors:?}\n{structured}");
    structured
}

#[test]
fn lists_of_tasks_in_every_state_are_as_their_schema_says() {
    let env = Env::new();
    let client = env.client();
    assert_valid(&client, "zsh_tasks", json!({}));
    let sleep = UniqueSleep::new();
    client.run("exit 3");
    client.run(&format!("{sleep} &"));
    client.start_task("read line < /dev/zero");
    let asking = json!({
        "command": "read 'x?Name: '", "pty": true, "yield_after": 20, "description": "asks",
    });
    client.call("zsh", asking);
    client.call(
        "zsh_kill",
        json!({"task_id": client.start_task("sleep 60")}),
    );
    let listed = assert_valid(&client, "zsh_tasks", json!({"all": true}));
    let statuses: Vec<&str> = listed["tasks"]
        .as_array()
        .expect("rows")
        .iter()
        .filter_map(|row| row["status"].as_str())
        .collect();
    assert_eq!(
        statuses,
        ["killed", "running", "running", "completed", "failed"]
    );
    assert_eq!(listed["tasks"][1]["waiting_for"], json!("input"));
    let few = assert_valid(&client, "zsh_tasks", json!({"all": true, "limit": 2}));
    assert_eq!(few["not_listed"], json!(3));
}

#[test]
fn the_health_is_as_its_schema_says_also_with_problems() {
    let env = Env::new();
    let client = env.client();
    let well = assert_valid(&client, "zsh_health", json!({}));
    assert_eq!(well["status"], json!("ok"));
    let env = Env::new();
    env.configure("shell: no-such-shell-anywhere\nmax_task: 5\n");
    let client = env.client();
    let ill = assert_valid(&client, "zsh_health", json!({}));
    assert_eq!(ill["status"], json!("problems"));
    assert!(ill["problems"].as_array().map(Vec::len) > Some(1), "{ill}");
}
