//! What cannot be seen is judged by signs, and said; what processes are in is told: stopped,
//! in disk sleep, without a main thread, out of reach.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::client::Client;
use crate::support::env::{Env, binary};
use crate::support::processes::{UniqueSleep, wait_until};
use crate::support::program::run;
use crate::support::result::ToolResult;
use crate::support::unprivileged;

/// Far above the time in which anything is found.
const LONG: u32 = 40;
/// In which a task that is wrongly taken for a waiting one would be found.
const WATCHED: u32 = 4;

/// Hides other users' processes.
const HIDE_OTHERS: &str = "mount -t proc -o hidepid=2 proc /proc";
/// Hides all.
const HIDE_ALL: &str = "mount -t tmpfs none /proc";

// Processes that cannot be read

#[test]
fn a_password_that_another_users_process_asks_for_is_found() {
    let env = Env::new();
    let client = unprivileged::client(&env);
    let mut commands = vec!["sudo -k -S true", "su root -c true", "su nobody"];
    commands.push("passwd");
    let results = client.on_terminals(&commands, LONG);
    for (command, result) in commands.iter().zip(results) {
        assert_asks(&result, "password", command);
        assert_eq!(result.meta["reader"]["seen"], json!(false), "{command}");
        let prompt = result.meta["prompt"].as_str().unwrap_or_default();
        assert!(prompt.to_lowercase().contains("password"), "{}", result.text);
        let line = format!("⌨ WAITING FOR A PASSWORD \"{prompt}\"");
        assert!(result.text.contains(&line), "{}", result.text);
    }
}

#[test]
fn a_password_that_is_asked_for_on_a_pipe_is_found() {
    let env = Env::new();
    let client = unprivileged::client(&env);
    let arguments = json!({"command": "sudo -k -S true", "stdin_open": true, "yield_after": LONG});
    let result = client.call("zsh", arguments);
    assert_asks(&result, "input", "sudo -S");
}

#[test]
fn a_process_that_hides_from_its_own_user_is_judged_by_its_signs() {
    let env = Env::new();
    let client = unprivileged::client(&env);
    let hidden = |text: &str| {
        format!("python3 -c 'import ctypes, getpass, time; ctypes.CDLL(None).prctl(4, 0); {text}'")
    };
    let result = on_terminal(&client, &hidden("getpass.getpass()"), LONG);
    assert_asks(&result, "password", "getpass");
    assert_eq!(result.meta["reader"]["seen"], json!(false));
    let wakes = hidden("print(\"Password:\", end=\"\", flush=True)\nwhile True: time.sleep(0.2)");
    let sleeps = hidden("print(\"building:\", end=\"\", flush=True); time.sleep(60)");
    let spins = hidden("print(\"Password:\", end=\"\", flush=True)\nwhile True: pass");
    // One that takes a whole processor would keep the others from showing that they work.
    watch_and_end(&client, &[&wakes, &sleeps]);
    watch_and_end(&client, &[&spins]);
}

#[test]
fn what_works_for_another_user_is_neither_waiting_nor_unnamed() {
    let terminals = ["use_pty", "!use_pty"];
    for terminal in terminals {
        let env = Env::new();
        let client = unprivileged::client_after(&env, &unprivileged::let_sudo(terminal));
        let sleep = UniqueSleep::new();
        let asleep = format!("sudo {sleep}");
        let wakes = "sudo timeout 20 sh -c 'printf Password:; while :; do sleep 0.3; done'";
        let mut results = assert_never_waiting(&client, &[&asleep, wakes]).into_iter();
        let first = results.next().expect("the first one's");
        let named = |result: &ToolResult| {
            let conditions = result.meta["conditions"].as_array().expect("conditions");
            let mut conditions = conditions.iter();
            conditions.find(|found| found["name"] == "sleep").cloned()
        };
        let told = poll_until(&client, first, "sleep is named", |result| named(result).is_some());
        let named = named(&told).expect("it is named");
        assert_eq!(named["kind"], json!("other_user"), "{named}");
        assert_eq!(named["user"], json!("root"), "{named}");
        let line = format!("⚠ OF ANOTHER USER (root): {} sleep", named["pid"]);
        assert!(told.text.contains(&line), "{}", told.text);
        for result in results.chain([told]) {
            client.kill_task(&result.task_id());
        }
    }
    // Those that take whole processors would keep the others from showing that they work,
    // also when they live on: who is another user's cannot be killed.
    for terminal in terminals {
        let env = Env::new();
        let client = unprivileged::client_after(&env, &unprivileged::let_sudo(terminal));
        let spin = [
            "sudo timeout 20 sh -c 'while :; do :; done'",
            "sudo timeout 20 dd if=/dev/urandom of=/dev/null",
            "sudo timeout 20 sh -c 'stty -echo; exec dd if=/dev/urandom of=/dev/null'",
        ];
        watch_and_end(&client, &spin);
    }
}

#[test]
fn another_users_editor_on_the_tasks_own_terminal_waits() {
    let env = Env::new();
    let client = unprivileged::client_after(&env, &unprivileged::let_sudo("!use_pty"));
    let result = on_terminal(&client, "sudo less /etc/passwd", LONG);
    assert_asks(&result, "input", "sudo less");
    client.kill_task(&result.task_id());
}

// A machine that does not show all

#[test]
fn where_other_users_are_hidden_a_plain_password_prompt_is_found_and_the_lack_is_told() {
    let env = Env::new();
    let client = unprivileged::client_after(&env, HIDE_OTHERS);
    let result = on_terminal(&client, "sudo -k -S true", LONG);
    assert_asks(&result, "password", "sudo");
    assert_never_waiting(&client, &["stty -echo; printf 'Password:'; sleep 60"]);
    let health = client.call("zsh_health", json!({}));
    let lack = "/proc hides other users' processes";
    assert!(health.text.contains(lack), "{}", health.text);
    let doctor = run(unprivileged::command_after(&env, HIDE_OTHERS, &["doctor"]));
    assert!(doctor.text().contains(lack), "{}", doctor.text());
    assert!(doctor.text().contains("hidepid=0"), "{}", doctor.text());
}

#[test]
fn without_proc_the_lack_of_evidence_is_told_once_and_signs_go_on_being_seen() {
    unprivileged::require_root();
    let env = Env::new();
    let mut command = env.command("unshare");
    let hidden = format!("{HIDE_ALL} && exec \"$0\" serve");
    command.args(["--mount", "sh", "-c", &hidden]).arg(binary());
    let client = Client::start(command, env.path("stderr"));
    client.initialize();
    let health = client.call("zsh_health", json!({}));
    assert!(health.text.contains("/proc cannot be read"), "{}", health.text);
    let lack = "no processes can be seen";
    let first = on_terminal(&client, "cat", 2);
    let result = poll_until(&client, first, "a look has found nothing", |result| {
        result.meta["evidence"] == json!("none")
    });
    assert_eq!(result.meta["waiting_for"], Value::Null, "{}", result.text);
    assert!(result.text.contains(lack), "{}", result.text);
    let again = client.poll(&result.task_id(), json!({"listen": 0}));
    assert_eq!(again.meta["evidence"], json!("none"), "{}", again.text);
    assert!(!again.text.contains(lack), "{}", again.text);
    let asks = on_terminal(&client, "stty -echo; printf 'Password: '; cat", LONG);
    assert_asks(&asks, "password", "a password without /proc");
    let plain = client.call("zsh", json!({"command": "sleep 60", "yield_after": 2}));
    assert!(!plain.text.contains(lack), "{}", plain.text);
}

// States

#[test]
fn a_stopped_task_gives_control_back_and_names_who_and_the_way_out() {
    let env = Env::new();
    let client = env.client();
    let stops = "python3 -c 'import os, signal; os.kill(os.getpid(), signal.SIGSTOP)'; echo on";
    for pty in [true, false] {
        let arguments = json!({"command": stops, "pty": pty, "yield_after": LONG});
        let result = client.call("zsh", arguments);
        let task = result.task_id();
        assert_eq!(result.status(), "running", "{}", result.text);
        let stopped = &result.meta["conditions"][0];
        assert_eq!(stopped["kind"], json!("stopped"), "{}", result.text);
        assert_eq!(stopped["name"], json!("python3"), "{}", result.text);
        assert!(result.text.contains("⏸ STOPPED"), "{}", result.text);
        let way_out = format!("zsh_kill task_id={task} signal=CONT resumes it");
        assert!(result.text.contains(&way_out), "{}", result.text);

        let poll = client.poll(&task, json!({"wait_for": "end", "listen": LONG}));
        assert_eq!(poll.status(), "running", "it still stands: {}", poll.text);
        let listed = client.call("zsh_tasks", json!({}));
        let row = format!("stopped: {} python3", stopped["pid"]);
        assert!(listed.text.contains(&row), "{}", listed.text);

        client.call("zsh_kill", json!({"task_id": task, "signal": "CONT"}));
        let end = client.poll_to_end(&task);
        assert_eq!(end.status(), "completed", "{}", end.text);
        assert!(end.text.contains("on"), "{}", end.text);
        assert_eq!(end.meta["conditions"], json!([]), "{}", end.text);
    }
}

#[test]
fn a_stopped_reader_does_not_wait_for_input() {
    let env = Env::new();
    let client = env.client();
    let task = on_terminal(&client, "cat", LONG).task_id();
    client.call("zsh_kill", json!({"task_id": task, "signal": "STOP"}));
    let stopped = wait_for_condition(&client, &task, "stopped");
    assert_eq!(stopped.meta["waiting_for"], json!(null), "{}", stopped.text);
    client.call("zsh_kill", json!({"task_id": task, "signal": "CONT"}));
    let waits = client.poll(&task, json!({"wait_for": "end", "listen": LONG}));
    assert_eq!(waits.meta["waiting_for"], json!("input"), "{}", waits.text);
    client.kill_task(&task);
}

#[test]
fn a_stopped_job_in_the_background_is_told_and_holds_nothing_up() {
    let env = Env::new();
    let client = env.client();
    let command = "zsh -fic 'cat & read line < go'";
    env.named_pipe("go");
    let arguments = json!({"command": command, "pty": true, "yield_after": 2});
    let task = client.call("zsh", arguments).task_id();
    let told = wait_for_condition(&client, &task, "stopped");
    assert!(told.text.contains(" cat — "), "{}", told.text);
    assert_eq!(told.meta["conditions"][0]["holds_up"], json!(false));
    let waits = client.poll(&task, json!({"wait_for": "end", "listen": 2}));
    let waited = waits.elapsed.as_secs_f64();
    assert!(waited > 1.5, "it came back at once: {waited}");
    client.kill_task(&task);
}

#[test]
fn what_ctrl_z_has_stopped_is_told_beside_the_shell_that_waits() {
    let env = Env::new();
    let client = env.client();
    let result = on_terminal(&client, "zsh -fi", LONG);
    assert_asks(&result, "input", "zsh -i");
    let task = result.task_id();
    type_in(&client, &task, "cat\r");
    wait_until("cat reads", || {
        let poll = client.poll(&task, json!({"listen": 2}));
        (poll.meta["reader"]["name"] == json!("cat")).then_some(())
    });
    type_in(&client, &task, "\u{1a}");
    let told = wait_for_condition(&client, &task, "stopped");
    assert!(told.text.contains(" cat — "), "{}", told.text);
    wait_until("the shell asks", || {
        let poll = client.poll(&task, json!({"listen": 2}));
        (poll.meta["reader"]["name"] == json!("zsh")).then_some(())
    });
    type_in(&client, &task, "fg\r");
    wait_until("nobody is stopped any more", || {
        let poll = client.poll(&task, json!({"listen": 2}));
        let goes_on = poll.meta["reader"]["name"] == json!("cat");
        (goes_on && poll.meta["conditions"] == json!([])).then_some(())
    });
    client.kill_task(&task);
}

#[test]
fn a_lost_main_thread_is_told_and_a_wait_for_a_borrower_of_memory_is_no_disk_sleep() {
    let env = Env::new();
    let client = env.client();
    let source = "#include <pthread.h>
#include <unistd.h>
static void *stay(void *unused) { pause(); return unused; }
int main(int count, char **words) {
    pthread_t thread;
    (void)words;
    /* The kernel shows who has started another in this way as it shows one that waits for a disk. */
    if (count > 1) { if (vfork() == 0) { pause(); _exit(0); } return 0; }
    pthread_create(&thread, 0, stay, 0);
    pthread_exit(0);
}
";
    std::fs::write(env.work().join("odd.c"), source).expect("a source file");
    let compiled = client.run("cc -pthread -o odd odd.c");
    assert_eq!(compiled.status(), "completed", "{}", compiled.text);
    let task = client.start_task("./odd");
    let told = wait_for_condition(&client, &task, "zombie_leader");
    assert!(told.text.contains("⚠ ZOMBIE LEADER: "), "{}", told.text);
    assert!(told.text.contains(" odd — "), "{}", told.text);
    let receipt = client.kill_task(&task);
    assert_eq!(receipt.meta["survivors"], json!([]), "{}", receipt.text);

    let task = client.start_task("./odd sleeping");
    let told = wait_until("what it does is told", || {
        let poll = client.poll(&task, json!({"listen": 1}));
        assert_eq!(poll.meta["conditions"], json!([]), "{}", poll.text);
        poll.text.contains("idle: waiting for a signal").then_some(poll)
    });
    assert!(!told.text.contains("DISK SLEEP"), "{}", told.text);
    let receipt = client.kill_task(&task);
    assert_eq!(receipt.meta["survivors"], json!([]), "{}", receipt.text);
}

#[test]
fn what_a_debugger_holds_is_not_called_stopped() {
    let env = Env::new();
    let client = env.client();
    let command = "gdb -q -nx -batch -ex starti -ex 'shell sleep 60' /bin/true";
    let arguments = json!({
        "command": command, "pty": true, "until": "stopped", "yield_after": LONG,
    });
    let held = client.call("zsh", arguments);
    assert_eq!(held.status(), "running", "{}", held.text);
    assert!(!held.meta["matched_line"].is_null(), "{}", held.text);
    assert_eq!(held.meta["conditions"], json!([]), "{}", held.text);
    let task = held.task_id();
    let result = client.poll(&task, json!({"wait_for": "end", "listen": WATCHED}));
    assert_eq!(result.status(), "running", "{}", result.text);
    assert_eq!(result.meta["waiting_for"], Value::Null, "{}", result.text);
    assert_eq!(result.meta["conditions"], json!([]), "{}", result.text);
    let watched = Duration::from_secs(WATCHED.into());
    assert!(result.elapsed >= watched, "it came back: {}", result.text);
    client.kill_task(&task);
}

fn on_terminal(client: &Client, command: &str, yield_after: u32) -> ToolResult {
    client.on_terminals(&[command], yield_after).remove(0)
}

fn assert_asks(result: &ToolResult, what: &str, command: &str) {
    assert_eq!(result.status(), "running", "{command}: {}", result.text);
    let waiting_for = &result.meta["waiting_for"];
    assert_eq!(waiting_for, &json!(what), "{command}: {}", result.text);
}

/// None of the commands, which run on for longer, gives control back before it has to.
fn assert_never_waiting(client: &Client, commands: &[&str]) -> Vec<ToolResult> {
    let results = client.on_terminals(commands, WATCHED);
    for (command, result) in commands.iter().zip(&results) {
        assert_eq!(result.status(), "running", "{command}: {}", result.text);
        let waiting_for = &result.meta["waiting_for"];
        assert_eq!(waiting_for, &Value::Null, "{command}: {}", result.text);
        let ran = result.meta["duration_ms"].as_u64().unwrap_or_default();
        let all = u64::from(WATCHED) * 1000;
        assert!(ran >= all, "{command} came back early: {}", result.text);
    }
    results
}

/// The same, and ends them.
fn watch_and_end(client: &Client, commands: &[&str]) {
    for result in assert_never_waiting(client, commands) {
        client.kill_task(&result.task_id());
    }
}

/// The first result of a task, the one given or a later poll, that is as wanted.
fn poll_until(
    client: &Client,
    first: ToolResult,
    what: &str,
    is_wanted: impl Fn(&ToolResult) -> bool,
) -> ToolResult {
    let task = first.task_id();
    let mut first = Some(first);
    wait_until(what, || {
        let next = || client.poll(&task, json!({"listen": 1}));
        let result = first.take().unwrap_or_else(next);
        is_wanted(&result).then_some(result)
    })
}

fn wait_for_condition(client: &Client, task: &str, kind: &str) -> ToolResult {
    wait_until(&format!("{kind} is told"), || {
        let poll = client.poll(task, json!({"listen": 1}));
        let conditions = poll.meta["conditions"].as_array().expect("conditions");
        let found = conditions.iter().any(|found| found["kind"] == json!(kind));
        found.then_some(poll)
    })
}

fn type_in(client: &Client, task: &str, keys: &str) {
    let arguments = json!({"task_id": task, "input": keys, "enter": false, "listen": 1});
    client.call("zsh_send", arguments);
}
