//! A server in a PID namespace, as sandboxes and containers make them: its session's leader
//! may be out of sight, and `/proc` may show another namespace.

use std::fs;
use std::time::Duration;

use serde_json::json;

use crate::support::client::Client;
use crate::support::env::{Env, binary};
use crate::support::oneshot::{Runs, says};
use crate::support::processes::UniqueSleep;
use crate::support::program::run;
use crate::support::unprivileged::require_root;

/// A server in a PID namespace of its own that is not the leader of its session; `script`
/// ends with the server's start, `"$0" serve`.
fn server(env: &Env, options: &[&str], script: &str) -> Client {
    require_root();
    let mut command = env.command("unshare");
    command
        .args(["--pid", "--fork", "--kill-child"])
        .args(options)
        .args(["sh", "-c", script])
        .arg(binary());
    let client = Client::start(command, env.path("stderr"));
    client.initialize();
    client
}

#[test]
fn a_session_whose_leader_is_out_of_sight_costs_nothing() {
    let env = Env::new();
    let script = "read -r _ _ _ _ _ session _ </proc/self/stat; echo $session >session; \
        exec \"$0\" serve";
    let client = server(&env, &["--mount-proc"], script);
    let session = fs::read_to_string(env.work().join("session"));
    assert_eq!(session.unwrap(), "0\n");
    let sleep = UniqueSleep::new();
    let task = client.call(
        "zsh",
        json!({"command": format!("{sleep} & {sleep} & wait"), "yield_after": 0}),
    );
    sleep.wait_for(2);
    let receipt = client.kill_task(&task.task_id());
    assert_eq!(receipt.meta["survivors"], json!([]), "{}", receipt.text);
    sleep.assert_gone();
}

#[test]
fn a_run_is_made_where_its_session_is_out_of_sight() {
    require_root();
    let runs = Runs::working(json!([says("the work")]));
    let mut command = runs.surround(runs.env.command("unshare"));
    command
        .args(["--pid", "--fork", "--kill-child", "--mount-proc"])
        .arg(binary())
        .args(["oneshot", "make it"]);
    let ended = run(command);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert_eq!(ended.text(), "the work\n");
}

/// The numbers that `/proc` shows there mean others, and nobody is to be ended by them.
#[test]
fn where_proc_shows_another_namespace_it_is_said_and_no_stranger_is_ended() {
    let env = Env::new();
    let sleep = UniqueSleep::new();
    // The stranger has the lowest number there; among the numbers below the server's own
    // in /proc are the machine's first processes.
    let script = format!("{sleep} & \"$0\" serve; echo $? >code; kill -0 $! && echo lives >>code");
    let client = server(&env, &[], &script);
    let health = client.call("zsh_health", json!({}));
    let told = "/proc shows the processes of another PID namespace";
    assert!(health.text.contains(told), "{}", health.text);
    let own = UniqueSleep::new();
    let task = client.call(
        "zsh",
        json!({"command": format!("{own} & {own} & wait"), "yield_after": 0}),
    );
    own.wait_for(2);
    let receipt = client.kill_task(&task.task_id());
    assert!(
        receipt.text.contains("survivors not known"),
        "{}",
        receipt.text
    );
    own.assert_gone();
    client.close_stdin();
    client.wait_exit(Duration::from_secs(60));
    let code = fs::read_to_string(env.work().join("code")).unwrap();
    assert_eq!(code, "0\nlives\n");
    sleep.assert_gone();
}
