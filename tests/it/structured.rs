//! Structured results say what their tools' output schemas promise, and nothing besides.

use serde_json::json;

use crate::support::env::Env;
use crate::support::processes::UniqueSleep;
use crate::support::schema::assert_valid;

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
    client.call("zsh_kill", json!({"task_id": client.start_task("sleep 60")}));
    let listed = assert_valid(&client, "zsh_tasks", json!({"all": true}));
    let statuses: Vec<&str> = listed["tasks"]
        .as_array()
        .expect("rows")
        .iter()
        .filter_map(|row| row["status"].as_str())
        .collect();
    assert_eq!(statuses, ["killed", "running", "running", "completed", "failed"]);
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
