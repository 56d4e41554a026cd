//! `zsh_kill` and deadlines end all that a command has started, and say truly what they
//! did.

use std::fs;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::client::Client;
use crate::support::env::{Env, binary};
use crate::support::processes::{UniqueSleep, assert_none_left, wait_until};
use crate::support::result::ToolResult;
use crate::support::trees::command_of;

/// Trees of all kinds, and how many sleeps run in each.
const TREES: &[(&str, usize)] = &[
    ("SLEEP", 1),
    ("SLEEP | cat | cat", 1),
    ("SLEEP & SLEEP & wait", 2),
    ("setsid SLEEP & wait", 1),
    ("setsid -f SLEEP; SLEEP", 2),
    ("nohup SLEEP >/dev/null 2>&1 & SLEEP", 2),
    ("(setsid SLEEP >/dev/null 2>&1 </dev/null &); SLEEP", 2),
    ("(setsid sh -c 'SLEEP & SLEEP & :' &); SLEEP", 3),
    ("(env -i setsid SLEEP &); SLEEP", 2),
    ("trap '' TERM HUP INT; SLEEP; SLEEP", 1),
    ("sh -c 'trap \"\" TERM HUP; SLEEP & SLEEP & wait; wait' & SLEEP", 3),
    ("SLEEP & AWAIT; kill -STOP $!; wait", 1),
    ("(setsid SLEEP & AWAIT; kill -STOP $!); SLEEP", 2),
    ("SLEEP & kill -STOP $$", 1),
    ("exec SLEEP", 1),
    ("trap 'SLEEP' EXIT TERM; SLEEP", 1),
];

#[test]
fn a_kill_ends_trees_of_every_kind_and_its_receipt_is_true() {
    let env = Env::new();
    let client = env.client();
    for pty in [false, true] {
        let started: Vec<_> = TREES
            .iter()
            .map(|(shape, sleeps)| {
                let sleep = UniqueSleep::new();
                let task = start(&client, &command_of(shape, &sleep), json!({"pty": pty}));
                sleep.wait_for(*sleeps);
                (sleep, task)
            })
            .collect();
        let kills: Vec<_> = started
            .iter()
            .map(|(_, task)| client.call_async("zsh_kill", json!({"task_id": task})))
            .collect();
        for (kill, (shape, sleeps)) in kills.into_iter().zip(TREES) {
            let receipt = kill.tool_result();
            // A terminal that goes with its shell may be quicker than the signals.
            assert_all_gone(&receipt, if pty { 1 } else { *sleeps });
            assert_eq!(receipt.status(), "killed", "{shape}: {}", receipt.text);
        }
        for (sleep, task) in started {
            sleep.assert_gone();
            assert_none_left(&task);
        }
    }
}

#[test]
fn a_deadline_ends_trees_of_every_kind_though_nothing_is_printed() {
    let env = Env::new();
    let client = env.client();
    for pty in [false, true] {
        let started: Vec<_> = TREES
            .iter()
            .map(|(shape, _)| {
                let sleep = UniqueSleep::new();
                let arguments = json!({"pty": pty, "timeout": 0.7});
                let task = start(&client, &command_of(shape, &sleep), arguments);
                (sleep, task, *shape)
            })
            .collect();
        for (sleep, task, shape) in started {
            let result = client.poll_to_end(&task);
            assert_eq!(result.status(), "timeout", "{shape}: {}", result.text);
            assert!(result.footer().contains("⏱ TIMEOUT"), "{}", result.text);
            assert!(result.meta["duration_ms"].as_u64() >= Some(700), "{}", result.meta);
            sleep.assert_gone();
            assert_none_left(&task);
        }
    }
}

#[test]
fn a_deadline_holds_after_a_signal_that_the_command_survived() {
    let env = Env::new();
    let client = env.client();
    let sleep = UniqueSleep::new();
    let command = format!("trap '' INT; {sleep}");
    let task = start(&client, &command, json!({"timeout": 3}));
    sleep.wait_for(1);
    signal(&client, &task, "INT");
    let result = client.poll_to_end(&task);
    assert_eq!(result.status(), "timeout", "{}", result.text);
    sleep.assert_gone();
}

#[test]
fn five_hundred_children_are_ended() {
    const CHILDREN: usize = 500;
    let env = Env::new();
    let client = env.client();
    let sleep = UniqueSleep::new();
    let command = format!("repeat {CHILDREN} do {sleep} & done; wait");
    let task = start(&client, &command, json!({}));
    sleep.wait_for(CHILDREN);
    let receipt = client.kill_task(&task);
    assert_all_gone(&receipt, CHILDREN);
    sleep.assert_gone();
    assert_eq!(client.run("echo on").output(), "on");
}

#[test]
fn a_tree_that_forks_all_the_time_is_ended() {
    let env = Env::new();
    let client = env.client();
    for shape in [
        "while :; do SLEEP & /bin/true; done",
        "trap '' TERM; while :; do (/bin/true; /bin/true); done; : SLEEP",
        // Each link starts the next and ends: no process lives for long.
        "print -r -- 'setsid ./link SLEEP >/dev/null 2>&1 </dev/null & exit' >link; chmod +x link; sh ./link; SLEEP",
    ] {
        let sleep = UniqueSleep::new();
        let task = start(&client, &command_of(shape, &sleep), json!({}));
        wait_until("it has begun", || {
            let shown = client.call("zsh_tasks", json!({}));
            shown.text.contains(&task).then_some(())
        });
        client.kill_all_of(&task);
        assert_none_left(&task);
    }
}

/// Each link starts the next and ends, for as long as the file `go` is there: no scan shows
/// a link that still lives when it is signalled.
const CHAIN: &str = "link() { [[ -e go ]] && link & }; link";

#[test]
fn a_chain_of_processes_that_live_for_no_time_is_ended() {
    let env = Env::new();
    let client = env.client();
    fs::write(env.work().join("go"), "").expect("a file");
    let sleep = UniqueSleep::new();
    let task = start(&client, &format!("trap '' TERM; {CHAIN}; {sleep}"), json!({}));
    sleep.wait_for(1);
    let group = pid_of(&client, &task);
    let receipt = client.kill_all_of(&task);
    assert_eq!(receipt.status(), "killed", "{}", receipt.text);
    assert_eq!(receipt.meta["leftovers"], json!([]), "{}", receipt.text);
    assert_group_gone(group);
}

#[test]
fn a_chain_that_outlives_its_shell_is_named_and_ended() {
    let env = Env::new();
    let client = env.client();
    fs::write(env.work().join("go"), "").expect("a file");
    let result = client.run(&format!("{{ {CHAIN} }} >/dev/null 2>&1; echo $$"));
    let group = result.output().parse().expect("a pid");
    assert!(result.footer().contains("still running"), "{}", result.text);
    let receipt = client.kill_all_of(&result.task_id());
    assert_eq!(receipt.meta["leftovers"], json!([]), "{}", receipt.text);
    assert_group_gone(group);
}

#[test]
fn without_proc_the_shell_and_its_group_are_ended() {
    let env = Env::new();
    let client = without_proc(&env);
    for shape in ["SLEEP; :", "SLEEP & SLEEP; :", "trap '' TERM; SLEEP & SLEEP; SLEEP"] {
        let sleep = UniqueSleep::new();
        let task = start(&client, &command_of(shape, &sleep), json!({}));
        sleep.wait_for(shape.matches("SLEEP").count().min(2));
        let receipt = client.kill_task(&task);
        assert_eq!(receipt.status(), "killed", "{shape}: {}", receipt.text);
        assert!(receipt.text.contains("not known"), "{shape}: {}", receipt.text);
        assert_eq!(receipt.meta["signalled"], json!(1), "{}", receipt.text);
        assert_eq!(receipt.meta["gone"], json!(1), "{}", receipt.text);
        sleep.assert_gone();
    }
    let sleep = UniqueSleep::new();
    let task = start(&client, &format!("exec {sleep}"), json!({}));
    sleep.wait_for(1);
    let receipt = signal(&client, &task, "INT");
    assert_eq!(receipt.meta["signalled"], json!(1), "{}", receipt.text);
    assert_eq!(client.poll_to_end(&task).meta["exit_code"], json!(130));
}

#[test]
fn without_proc_a_deadline_and_the_end_of_the_server_hold() {
    let env = Env::new();
    let client = without_proc(&env);
    let sleep = UniqueSleep::new();
    let command = format!("{sleep} & {sleep}");
    let task = start(&client, &command, json!({"timeout": 0.5}));
    let end = client.poll_to_end(&task);
    assert_eq!(end.status(), "timeout", "{}", end.text);
    sleep.assert_gone();
    start(&client, &command, json!({}));
    sleep.wait_for(2);
    client.signal("TERM");
    let (status, _) = client.wait_exit(Duration::from_secs(20));
    assert_eq!(status.code(), Some(0), "{}", client.describe());
    sleep.assert_gone();
}

#[test]
fn a_signal_by_name_reaches_the_tree_and_ends_it_or_does_not() {
    let env = Env::new();
    let client = env.client();
    for (name, outcome, code) in [
        ("INT", "killed", 130),
        ("TERM", "killed", 143),
        ("KILL", "killed", 137),
        ("HUP", "killed", 129),
        ("QUIT", "killed", 131),
        ("USR1", "failed", 138),
        ("USR2", "failed", 140),
    ] {
        let sleep = UniqueSleep::new();
        let task = start(&client, &format!("exec {sleep}"), json!({}));
        sleep.wait_for(1);
        let receipt = signal(&client, &task, name);
        assert_eq!(receipt.meta["signalled"], json!(1), "{}", receipt.text);
        let end = client.poll_to_end(&task);
        assert_eq!(end.status(), outcome, "{name}: {}", end.text);
        assert_eq!(end.meta["exit_code"], json!(code), "{name}: {}", end.text);
    }
}

#[test]
fn a_trapped_signal_changes_no_outcome() {
    let env = Env::new();
    let client = env.client();
    for name in ["USR1", "INT", "TERM", "HUP"] {
        let go_on = env.named_pipe(name);
        let command = format!(
            "trap 'echo got {name}' {name}; echo up; until read -r _ <{name}; do :; done; echo end"
        );
        let task = client.start_until(&command, "up");
        let receipt = signal(&client, &task, name);
        assert_eq!(receipt.status(), "running", "{}", receipt.text);
        assert_eq!(receipt.meta["survivors"][0]["why"], json!("still_alive"));
        // The read goes on or is begun again: one line ends it.
        std::fs::write(&go_on, "\n").expect("the command reads");
        let end = client.poll_to_end(&task);
        assert!(end.output().contains(&format!("got {name}")), "{}", end.text);
        assert!(end.output().ends_with("end"), "{}", end.text);
        assert_eq!(end.meta["exit_code"], json!(0), "{}", end.text);
    }
}

#[test]
fn a_stopped_task_is_continued_and_a_stopped_task_is_killed() {
    let env = Env::new();
    let client = env.client();
    let sleep = UniqueSleep::new();
    let task = start(&client, &format!("{sleep}; :"), json!({}));
    sleep.wait_for(1);
    let pid = sleep.running()[0].pid;
    let state = || {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        stat.rsplit_once(") ")?.1.chars().next()
    };
    signal(&client, &task, "STOP");
    wait_until("it is stopped", || (state() == Some('T')).then_some(()));
    signal(&client, &task, "CONT");
    wait_until("it goes on", || (state() == Some('S')).then_some(()));
    signal(&client, &task, "STOP");
    let receipt = client.kill_all_of(&task);
    assert_eq!(receipt.status(), "killed", "{}", receipt.text);
    sleep.assert_gone();
}

#[test]
fn a_kill_of_what_has_ended_says_so_and_changes_nothing() {
    let env = Env::new();
    let client = env.client();
    let task = client.run("echo hi; exit 3").task_id();
    for arguments in [json!({"task_id": task}), json!({"task_id": task, "signal": "KILL"})] {
        let receipt = client.call("zsh_kill", arguments);
        assert!(!receipt.is_error, "{}", receipt.text);
        assert!(receipt.text.contains("had already ended"), "{}", receipt.text);
        assert_eq!(receipt.status(), "failed", "{}", receipt.text);
        assert_eq!(receipt.meta["exit_code"], json!(3), "{}", receipt.text);
    }
}

#[test]
pub fn a_receipt_and_the_status_of_a_program_that_waited_for_input_agree() {
    let env = Env::new();
    let client = env.client();
    let waits = |task: &str| {
        let polled = client.poll(task, json!({"listen": 0}));
        (polled.meta["waiting_for"] == json!("input")).then_some(())
    };
    // It outlives SIGTERM, and is seen to wait for input again before SIGKILL ends it.
    let task = start(&client, "trap '' TERM; cat", json!({"pty": true}));
    wait_until("it waits for input", || waits(&task));
    let kill = client.call_async("zsh_kill", json!({"task_id": task}));
    wait_until("it waits again", || (kill.has_arrived() || waits(&task).is_some()).then_some(()));
    let receipt = kill.tool_result();
    assert!(receipt.text.contains("1 signalled, 1 gone, no survivors"), "{}", receipt.text);
    assert_eq!(receipt.status(), "killed", "{}", receipt.text);
    assert!(!receipt.text.contains("RUNNING"), "{}", receipt.text);
}

#[test]
fn two_kills_at_once_both_tell_the_end() {
    let env = Env::new();
    let client = env.client();
    let sleep = UniqueSleep::new();
    let task = start(&client, &format!("trap '' TERM; {sleep}"), json!({}));
    sleep.wait_for(1);
    let kill = || client.call_async("zsh_kill", json!({"task_id": task}));
    let kills = [kill(), kill(), kill()];
    for kill in kills {
        let receipt = kill.tool_result();
        assert!(!receipt.is_error, "{}", receipt.text);
        assert_eq!(receipt.status(), "killed", "{}", receipt.text);
        assert_eq!(receipt.meta["survivors"], json!([]), "{}", receipt.text);
    }
    sleep.assert_gone();
}

#[test]
fn a_kill_during_the_grace_of_another_may_force_it() {
    let env = Env::new();
    let client = env.client();
    let sleep = UniqueSleep::new();
    let task = start(&client, &format!("trap '' TERM; {sleep}; {sleep}"), json!({}));
    sleep.wait_for(1);
    let patient = client.call_async("zsh_kill", json!({"task_id": task}));
    client.ping();
    let forced = signal(&client, &task, "KILL");
    assert_eq!(forced.status(), "killed", "{}", forced.text);
    assert_eq!(patient.tool_result().status(), "killed");
    sleep.assert_gone();
}

#[test]
fn wrong_signals_and_unknown_tasks_are_refused_by_name() {
    let env = Env::new();
    let client = env.client();
    let task = client.run("true").task_id();
    for name in ["SEGV", "9", " ", "kill -9"] {
        let refused = signal(&client, &task, name);
        assert!(refused.is_error, "{}", refused.text);
        assert!(refused.text.contains("INT, TERM, KILL"), "{}", refused.text);
    }
    let unknown = client.kill_task("ffffffff");
    assert!(unknown.is_error && unknown.text.contains("unknown"), "{}", unknown.text);
}

#[test]
fn a_kill_touches_no_other_task() {
    let env = Env::new();
    let client = env.client();
    let (one, other) = (UniqueSleep::new(), UniqueSleep::new());
    let first = start(&client, &format!("setsid {one} & wait"), json!({}));
    let second = start(&client, &format!("setsid {other} & wait"), json!({}));
    one.wait_for(1);
    other.wait_for(1);
    client.kill_task(&first);
    one.assert_gone();
    assert_eq!(other.running().len(), 1);
    let polled = client.poll(&second, json!({"listen": 0}));
    assert_eq!(polled.status(), "running", "{}", polled.text);
    client.kill_task(&second);
}

#[test]
fn a_cancelled_first_call_ends_its_tree() {
    let env = Env::new();
    let client = env.client();
    let sleep = UniqueSleep::new();
    let command = format!("(setsid {sleep} &); {sleep}");
    let call = client.call_async("zsh", json!({"command": command, "yield_after": 50}));
    sleep.wait_for(2);
    client.cancel(&call);
    sleep.assert_gone();
    client.ping();
    assert!(!call.has_arrived());
    wait_until("the task counts as killed", || {
        let listed = client.call("zsh_tasks", json!({"all": true}));
        listed.text.contains("killed").then_some(())
    });
}

fn start(client: &Client, command: &str, mut arguments: Value) -> String {
    arguments["command"] = json!(command);
    arguments["yield_after"] = json!(0);
    client.call("zsh", arguments).task_id()
}

/// A server that sees an empty `/proc`, which also means that it has no guard.
fn without_proc(env: &Env) -> Client {
    let mut command = env.command("unshare");
    let hidden = "mount -t tmpfs none /proc && exec \"$0\" serve";
    command.args(["--mount", "sh", "-c", hidden]).arg(binary());
    let client = Client::start(command, env.path("stderr"));
    client.initialize();
    client
}

fn pid_of(client: &Client, task: &str) -> i64 {
    let listed = client.call("zsh_tasks", json!({}));
    let tasks = listed.raw["structuredContent"]["tasks"].as_array().expect("a list");
    let found = tasks.iter().find(|listed| listed["task_id"] == json!(task));
    found
        .and_then(|task| task["pid"].as_i64())
        .unwrap_or_else(|| panic!("no pid of {task}: {}", listed.text))
}

fn assert_group_gone(group: i64) {
    wait_until("nobody is left of the group", || {
        let asked = Command::new("kill")
            .args(["-s", "0", "--", &format!("-{group}")])
            .stderr(Stdio::null())
            .status();
        (!asked.expect("the kill program").success()).then_some(())
    });
}

fn signal(client: &Client, task: &str, name: &str) -> ToolResult {
    client.call("zsh_kill", json!({"task_id": task, "signal": name}))
}

/// The receipt tells of at least the sleeps, and that nobody is left.
fn assert_all_gone(receipt: &ToolResult, sleeps: usize) {
    let figure = |name: &str| receipt.meta[name].as_u64().expect("a figure");
    assert_eq!(receipt.meta["survivors"], json!([]), "{}", receipt.text);
    assert!(figure("signalled") >= sleeps as u64, "{}", receipt.text);
    assert_eq!(figure("gone"), figure("signalled"), "{}", receipt.text);
    assert!(receipt.text.contains("no survivors, "), "{}", receipt.text);
    let took = Duration::from_millis(figure("took_ms"));
    assert!(took <= receipt.elapsed, "{took:?} of {:?}", receipt.elapsed);
}
