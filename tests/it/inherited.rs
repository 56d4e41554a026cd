//! What the program is started with and has not made itself: children that its process
//! had before it became this program, and signals that are ignored or blocked.

use std::process::Command;
use std::thread;
use std::time::Duration;

use serde_json::json;

use crate::support::client::{Client, SECOND_THOUGHT, send_signal};
use crate::support::env::{Env, binary};
use crate::support::processes::{Found, UniqueSleep, end, guards_and_guarded};
use crate::support::program::{Program, run};

/// What a shell leaves as children to the program that it becomes: one, one that leads a
/// session of its own, and one below another.
const BEFORE: &str = "SLEEP QUIETLY & setsid SLEEP QUIETLY & sh -c 'SLEEP; :' QUIETLY &";

/// A shell that starts such children and becomes the program, with these arguments.
fn after_others(env: &Env, sleep: &UniqueSleep, arguments: &str) -> Command {
    let before = BEFORE
        .replace("SLEEP", &sleep.to_string())
        .replace("QUIETLY", "</dev/null >/dev/null 2>&1");
    let mut shell = env.command("sh");
    shell.args(["-c", &format!("{before} exec \"$0\" {arguments}")]).arg(binary());
    shell
}

/// Panics unless all that [`BEFORE`] starts live on; ends them.
fn assert_spared(sleep: &UniqueSleep) {
    sleep.wait_for(3);
    end(&sleep.running());
}

#[test]
fn exec_spares_whoever_was_its_child_before_and_ends_its_own() {
    let env = Env::new();
    let (before, own) = (UniqueSleep::new(), UniqueSleep::new());
    let command = format!("exec -- '(env -i setsid {own} >/dev/null 2>&1 &); echo done'");
    let finished = run(after_others(&env, &before, &command));
    assert_eq!(finished.code, 0, "{}", finished.stderr);
    assert_eq!(finished.text(), "done\n");
    // Those of before are none of the command's.
    before.wait_for(3);
    for process in before.running() {
        let pid = format!(" {} ", process.pid);
        assert!(!finished.stderr.contains(&pid), "{}", finished.stderr);
    }
    own.assert_gone();
    assert_spared(&before);
}

#[test]
fn a_second_signal_to_exec_spares_them_as_well() {
    let env = Env::new();
    let (before, own) = (UniqueSleep::new(), UniqueSleep::new());
    let command = format!("exec -- \"trap '' INT; {own}; :\"");
    let program = Program::start(after_others(&env, &before, &command));
    before.wait_for(3);
    own.wait_for(1);
    program.signal("INT");
    thread::sleep(SECOND_THOUGHT);
    program.signal("TERM");
    let finished = program.finish();
    assert!(finished.code >= 128, "{}", finished.stderr);
    own.assert_gone();
    assert_spared(&before);
}

#[test]
fn a_server_and_its_guard_spare_whoever_was_there_before() {
    for ending in ["end of input", "TERM", "KILL of the server"] {
        let env = Env::new();
        let (before, own) = (UniqueSleep::new(), UniqueSleep::new());
        let client = Client::start(after_others(&env, &before, "serve"), env.path("stderr"));
        client.initialize();
        before.wait_for(3);
        let command = format!("(env -i setsid {own} >/dev/null 2>&1 &); {own}");
        client.start_task(&command);
        own.wait_for(2);
        match ending {
            "end of input" => client.close_stdin(),
            "TERM" => client.signal("TERM"),
            _ => {
                // While its client is there, its guard would replace it.
                let server = server_of(&env);
                server.iter().for_each(|process| send_signal("STOP", process.pid));
                client.close_stdin();
                end(&server);
            }
        }
        client.wait_exit(Duration::from_secs(20));
        own.assert_gone();
        assert_spared(&before);
    }
}

#[test]
fn a_server_without_a_guard_neither_lists_nor_ends_them() {
    let env = Env::new();
    let before = UniqueSleep::new();
    let command = after_others(&env, &before, "serve --guarded 0123abcd");
    let client = Client::start(command, env.path("stderr"));
    client.initialize();
    before.wait_for(3);
    let listed = client.call("zsh_tasks", json!({}));
    assert!(!listed.text.contains("unattributed"), "{}", listed.text);
    client.close_stdin();
    client.wait_exit(Duration::from_secs(20));
    assert_spared(&before);
}

#[test]
fn a_server_that_no_process_can_guard_says_why() {
    let env = Env::new();
    let mut command = env.command("unshare");
    command.args(["--pid"]).arg(binary()).arg("serve");
    let finished = run(command);
    // The kernel starts no thread there either.
    assert_eq!(finished.code, 1, "{}", finished.stderr);
    let reason = "no guard (its children are in another PID namespace)";
    assert!(finished.stderr.contains(reason), "{}", finished.stderr);
    assert!(finished.stderr.contains("cannot handle signals"), "{}", finished.stderr);
}

/// The server, which is not the only child of its guard.
fn server_of(env: &Env) -> Vec<Found> {
    guards_and_guarded(env.mark(), "serve").1
}

/// What the children of before leave behind when they end comes to the program as well.
#[test]
fn exec_spares_what_those_before_leave_behind() {
    let env = Env::new();
    let before = UniqueSleep::new();
    env.named_pipe("go_on");
    env.named_pipe("gone");
    let shell = format!(
        "sh -c 'exec 3>gone; {before} 3>&- & read -r _ <go_on' </dev/null >/dev/null 2>&1 & \
         exec \"$0\" exec -- 'exec 3<gone; echo >go_on; cat <&3'"
    );
    let mut command = env.command("sh");
    command.args(["-c", &shell]).arg(binary());
    let finished = run(command);
    assert_eq!(finished.code, 0, "{}", finished.stderr);
    // It may not have come to its program yet.
    before.wait_for(1);
    end(&before.running());
}

#[test]
fn a_server_in_the_background_is_not_ended_by_what_it_was_told_to_ignore() {
    for ending in ["end of input", "TERM"] {
        let env = Env::new();
        let mut command = env.command("env");
        command.arg("--ignore-signal=INT,HUP").arg(binary()).arg("serve");
        let client = Client::start(command, env.path("stderr"));
        client.initialize();
        let sleep = UniqueSleep::new();
        client.start_task(&sleep.to_string());
        sleep.wait_for(1);
        for signal in ["INT", "HUP"] {
            client.signal(signal);
        }
        // Takes longer than a guard takes to pass a signal on.
        let ran = client.run("kill -INT $$");
        assert_eq!(ran.meta["exit_code"], json!(130), "{}", ran.text);
        assert_eq!(sleep.running().len(), 1, "{}", client.describe());
        match ending {
            "TERM" => client.signal("TERM"),
            _ => client.close_stdin(),
        }
        let (status, _) = client.wait_exit(Duration::from_secs(20));
        assert_eq!(status.code(), Some(0), "{ending}");
        sleep.assert_gone();
    }
}

#[test]
fn exec_learns_of_signals_that_its_caller_has_blocked() {
    for (signal, code) in [("TERM", 143), ("INT", 130)] {
        let env = Env::new();
        let sleep = UniqueSleep::new();
        let mut command = env.command("env");
        command
            .arg("--block-signal=TERM,INT,HUP,CHLD")
            .arg(binary())
            .args(["exec", "--"])
            .arg(format!("{sleep}; :"));
        let program = Program::start(command);
        sleep.wait_for(1);
        program.signal(signal);
        let finished = program.finish();
        assert_eq!(finished.code, code, "{}", finished.stderr);
        sleep.assert_gone();
    }
}

/// The guard waits for signals by itself; a server that has none is one like this.
#[test]
fn a_server_without_a_guard_learns_of_signals_that_its_client_has_blocked() {
    let env = Env::new();
    let mut command = env.command("env");
    command.arg("--block-signal=TERM,INT,HUP,CHLD").arg(binary()).args([
        "serve",
        "--guarded",
        "0123abcd",
    ]);
    let client = Client::start(command, env.path("stderr"));
    client.initialize();
    let sleep = UniqueSleep::new();
    client.start_task(&sleep.to_string());
    sleep.wait_for(1);
    client.signal("TERM");
    let (status, _) = client.wait_exit(Duration::from_secs(20));
    assert_eq!(status.code(), Some(0));
    sleep.assert_gone();
}

#[test]
fn exec_reaps_orphans_although_its_caller_has_blocked_the_signal_that_tells_of_them() {
    let env = Env::new();
    let mut command = env.command("env");
    command.args(["--block-signal=CHLD"]).arg(binary());
    // An orphan that has ended stays in the process table until it is reaped.
    let wait = "(sh -c 'echo $$ >orphan' &) ; until [[ -s orphan ]]; do :; done; \
        until ! kill -0 $(<orphan) 2>&-; do :; done; echo reaped";
    command.args(["exec", "--timeout", "20", "--", wait]);
    let finished = run(command);
    assert_eq!(finished.text(), "reaped\n", "{}", finished.stderr);
}
