//! A server in a sandbox: in a PID namespace its session's leader may be out of sight, and
//! `/proc` may show another namespace; and system calls may be refused.

use std::fs;
use std::process::Command;
use std::time::Duration;

use serde_json::json;

use crate::support::client::Client;
use crate::support::env::{Env, binary};
use crate::support::oneshot::{Runs, says};
use crate::support::processes::UniqueSleep;
use crate::support::program::{Program, run};
use crate::support::unprivileged::require_root;

const PATIENCE: Duration = Duration::from_secs(60);

/// What the health says of such a `/proc`.
const ANOTHER: &str = "/proc shows the processes of another PID namespace";

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
    connect(env, command)
}

fn connect(env: &Env, server: Command) -> Client {
    let client = Client::start(server, env.path("stderr"));
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
    let task = client.start_task(&format!("{sleep} & {sleep} & wait"));
    sleep.wait_for(2);
    let receipt = client.kill_task(&task);
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

/// The numbers that `/proc` shows there mean others, and nobody is to be ended by them: the
/// server, of the number 3, has a namesake around it with a namesake of a stranger as a child.
#[test]
fn where_proc_shows_the_namespace_around_it_is_said_and_no_stranger_is_ended() {
    require_root();
    let env = Env::new();
    let (outer, stranger, own) = (UniqueSleep::new(), UniqueSleep::new(), UniqueSleep::new());
    let around = format!(
        "{outer} & sh -c 'n=0; while [ $n -lt 100 ]; do {outer} & n=$((n+1)); done; : >begun; wait' & \
         read -r _ <begun; cat /proc/3/task/3/children >children; \
         exec unshare --pid --fork --kill-child sh -c \"$1\" \"$0\""
    );
    let within = format!(
        "exec 3<&0; \"$0\" serve <&3 3<&- & guard=$!; read -r _ <serves; {stranger} & \
         echo $! >number; wait $guard; echo $? >code; kill -0 $! && echo lives >>code"
    );
    env.named_pipe("begun");
    env.named_pipe("number");
    let serves = env.named_pipe("serves");
    let mut command = env.command("unshare");
    command
        .args(["--pid", "--fork", "--kill-child", "--mount-proc"])
        .args(["sh", "-c", &around])
        .arg(binary())
        .arg(within);
    let client = connect(&env, command);
    let read = |name: &str| fs::read_to_string(env.work().join(name)).unwrap();
    fs::write(serves, "\n").unwrap();
    let (children, number) = (read("children"), read("number"));
    assert!(children.split(' ').any(|child| child == number.trim()));
    assert_eq!(client.run("echo $PPID").output(), "3");
    let health = client.call("zsh_health", json!({}));
    assert!(health.text.contains(ANOTHER), "{}", health.text);
    let task = client.start_task(&format!("{own} & {own} & wait"));
    own.wait_for(2);
    let receipt = client.kill_task(&task);
    let told = "survivors not known";
    assert!(receipt.text.contains(told), "{}", receipt.text);
    own.assert_gone();
    client.close_stdin();
    client.wait_exit(PATIENCE);
    assert_eq!(read("code"), "0\nlives\n");
    stranger.assert_gone();
    outer.assert_gone();
}

#[test]
fn where_proc_shows_a_namespace_below_it_is_said() {
    let env = Env::new();
    let sleep = UniqueSleep::new();
    let script = format!(
        "unshare --pid --fork --kill-child sh -c \
             'mount -t proc proc /proc && : >mounted && exec {sleep}' & \
         read -r _ <mounted; exec \"$0\" serve"
    );
    env.named_pipe("mounted");
    let client = server(&env, &["--mount-proc"], &script);
    let health = client.call("zsh_health", json!({}));
    assert!(health.text.contains(ANOTHER), "{}", health.text);
    let result = client.run("echo runs");
    assert_eq!(result.output(), "runs");
    client.close_stdin();
    client.wait_exit(PATIENCE);
    sleep.assert_gone();
}

/// Older sandboxes do not know these.
#[test]
fn refused_system_calls_are_done_without() {
    const UNKNOWN: [i64; 4] = [
        libc::SYS_pidfd_send_signal,
        libc::SYS_pidfd_open,
        libc::SYS_close_range,
        libc::SYS_faccessat2,
    ];
    for error in ["ENOSYS", "EPERM"] {
        let env = Env::new();
        let mut command = refusing(&env, error, &UNKNOWN);
        command.arg("serve");
        let client = connect(&env, command);
        let sleep = UniqueSleep::new();
        let task = client.start_task(&format!("(setsid {sleep} &); {sleep}"));
        sleep.wait_for(2);
        let receipt = client.kill_task(&task);
        assert_eq!(receipt.meta["survivors"], json!([]), "{}", receipt.text);
        sleep.assert_gone();
        let asks = client.call("zsh", json!({"command": "cat", "pty": true, "yield_after": 25}));
        assert_eq!(asks.meta["waiting_for"], json!("input"), "{}", asks.text);
    }
}

/// Orphans go elsewhere then, and only a look at all processes finds them.
#[test]
fn what_leaves_its_session_is_found_where_orphans_cannot_be_adopted() {
    let env = Env::new();
    let sleep = UniqueSleep::new();
    let subreaper = format!("{}:{}", libc::SYS_prctl, libc::PR_SET_CHILD_SUBREAPER);
    let mut command = refusing(&env, "EINVAL", &[subreaper]);
    let detached = format!("setsid {sleep} >/dev/null 2>&1 & true");
    command.args(["exec", &detached]);
    let ended = run(command);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    let told = "1 process was still running and had to be killed: ";
    assert!(ended.stderr.contains(told), "{}", ended.stderr);
    sleep.assert_gone();
}

/// A user's instances of inotify are few, and shared by all programs.
#[test]
fn a_log_is_followed_where_nothing_can_be_watched() {
    let env = Env::new();
    let client = env.client();
    let go_on = env.named_pipe("go-on");
    let task = client.start_task("echo one; read <go-on; echo two");
    let mut command = refusing(&env, "EMFILE", &[libc::SYS_inotify_init1]);
    command.args(["log", "--follow", &task]);
    let mut follower = Program::start(command);
    assert_eq!(follower.read_line(), "one");
    fs::write(go_on, "\n").unwrap();
    let finished = follower.finish_with_stdin_open();
    assert_eq!(finished.text(), "two\n");
    assert_eq!(finished.code, 0, "{}", finished.stderr);
}

/// This program, for which these system calls fail with this error.
fn refusing(env: &Env, error: &str, calls: &[impl ToString]) -> Command {
    let program = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/refusing");
    let mut command = env.command("python3");
    command.arg(program).arg(error);
    command.args(calls.iter().map(ToString::to_string)).arg("--");
    command.arg(binary());
    command
}
