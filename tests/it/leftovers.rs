//! Processes that outlive their command: the command ends without them, its result
//! names them, and `zsh_kill` ends them.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use serde_json::json;

use crate::support::database::open_database;
use crate::support::env::{Env, copy_program, unique_word};
use crate::support::processes::{UniqueSleep, assert_none_left, end, processes_with, wait_until};
use crate::support::ssh_host::SSHD;
use crate::support::unprivileged;

/// Far below any of the sleeps, far above what a call takes.
const AT_ONCE: Duration = Duration::from_secs(12);

#[test]
fn a_command_ends_without_its_background_processes_and_names_them() {
    let env = Env::new();
    let client = env.client();
    for shape in [
        "SLEEP & echo hi",
        "nohup SLEEP >/dev/null 2>&1 & echo hi",
        "setsid SLEEP & echo hi",
        "setsid -f SLEEP; echo hi",
        "(SLEEP &); echo hi",
        "(setsid SLEEP >/dev/null 2>&1 </dev/null &); echo hi",
        "SLEEP >/dev/null 2>&1 &! echo hi",
        "env -i setsid SLEEP & echo hi",
        "SLEEP | cat & echo hi",
        "sh -c 'trap \"\" TERM HUP; SLEEP & wait' & echo hi",
        "echo hi; exec 2>&1; SLEEP & exec true",
    ] {
        let sleep = UniqueSleep::new();
        let command = shape.replace("SLEEP", &sleep.to_string());
        let result = client.run(&command);
        assert!(result.elapsed < AT_ONCE, "{command}: {:?}", result.elapsed);
        assert_eq!(result.status(), "completed", "{}", result.text);
        assert_eq!(result.output(), "hi", "{command}");
        sleep.wait_for(1);
        let pid = json!(sleep.running()[0].pid);
        let footer = result.footer();
        assert!(footer.contains("still running: "), "{command}: {footer}");
        // Named by its pid at once, and by its name when it has got there.
        wait_until("the leftover is named", || {
            let polled = client.poll(&result.task_id(), json!({"listen": 0}));
            let leftovers = polled.meta["leftovers"].as_array()?.clone();
            leftovers
                .iter()
                .any(|left| left["pid"] == pid && left["name"] == json!("sleep"))
                .then_some(())
        });
        let listed = client.call("zsh_tasks", json!({}));
        assert!(listed.text.contains(&result.task_id()), "{}", listed.text);
        client.kill_all_of(&result.task_id());
        sleep.assert_gone();
        let after = client.poll(&result.task_id(), json!({"listen": 0}));
        assert_eq!(after.meta["exit_code"], json!(0), "{}", after.text);
        assert_eq!(after.meta["leftovers"], json!([]), "{}", after.text);
    }
}

/// A daemon that has left its parents, the session, the environment and the output.
/// The command ends after the parents, which would be leftovers too for a moment.
const DAEMON: &str = "env -i setsid --wait sh -c '(SLEEP &)' </dev/null >/dev/null 2>&1";

#[test]
pub fn a_daemon_that_keeps_nothing_of_its_task_is_counted_and_ended_and_no_other_is() {
    let env = Env::new();
    let client = env.client();
    let daemons: Vec<UniqueSleep> = (0..4).map(|_| UniqueSleep::new()).collect();
    let calls: Vec<_> = daemons
        .iter()
        .map(|sleep| {
            let command = DAEMON.replace("SLEEP", &sleep.to_string());
            client.call_async("zsh", json!({"command": command, "yield_after": 50}))
        })
        .collect();
    let results: Vec<_> = calls.into_iter().map(|call| call.tool_result()).collect();
    let mut left = daemons.len();
    for (sleep, result) in daemons.iter().zip(&results) {
        sleep.wait_for(1);
        let pid = json!(sleep.running()[0].pid);
        assert_eq!(result.meta["leftovers"][0]["pid"], pid, "{}", result.text);
        assert!(result.footer().contains("1 still running"), "{}", result.text);
        let receipt = client.kill_task(&result.task_id());
        assert_eq!(receipt.meta["signalled"], json!(1), "{}", receipt.text);
        assert!(receipt.text.contains("no survivors"), "{}", receipt.text);
        sleep.assert_gone();
        left -= 1;
        let others: usize = daemons.iter().map(|other| other.running().len()).sum();
        assert_eq!(others, left, "{}", receipt.text);
    }
    // While its command runs, too.
    let (daemon, sleep) = (UniqueSleep::new(), UniqueSleep::new());
    let command = format!("{}; {sleep}", DAEMON.replace("SLEEP", &daemon.to_string()));
    let task = client.start_task(&command);
    daemon.wait_for(1);
    sleep.wait_for(1);
    client.kill_all_of(&task);
    daemon.assert_gone();
    sleep.assert_gone();
}

#[test]
pub fn an_sshd_is_named_and_ended() {
    let env = Env::new();
    let client = env.client();
    // sshd needs this directory of the system's when root starts it.
    let _ = fs::create_dir("/run/sshd");
    let folder = env.path("sshd").display().to_string();
    let free = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = free.local_addr().expect("an address");
    drop(free);
    let start = format!(
        "mkdir {folder} && ssh-keygen -q -t ed25519 -N '' -f {folder}/key && \
         print -l 'ListenAddress {address}' 'HostKey {folder}/key' 'PidFile none' >{folder}/config"
    );
    assert_eq!(client.run(&start).meta["exit_code"], json!(0));
    let sshd = client.run(&format!("{SSHD} -f {folder}/config"));
    assert_eq!(sshd.meta["exit_code"], json!(0), "{}", sshd.text);
    assert_eq!(sshd.meta["leftovers"][0]["name"], json!("sshd"), "{}", sshd.text);
    let pid = &sshd.meta["leftovers"][0]["pid"];
    let receipt = client.kill_all_of(&sshd.task_id());
    assert!(receipt.text.contains("1 signalled, 1 gone, no survivors"), "{}", receipt.text);
    wait_until("sshd is gone", || (!Path::new(&format!("/proc/{pid}")).exists()).then_some(()));
}

#[test]
fn who_has_dropped_every_sign_of_its_task_is_listed_as_unattributed_and_ends_with_the_server() {
    let env = Env::new();
    let client = env.client();
    let sleep = UniqueSleep::new();
    let unmarked = format!(
        "ulimit -S -x unlimited; {} && : >up; sleep 1e9",
        DAEMON.replace("SLEEP", &sleep.to_string())
    );
    fs::write(env.work().join("unmarked"), unmarked).expect("a script");
    // Its parents end before a scan can show them as the task's.
    let command = "env -i setsid zsh -f ./unmarked </dev/null >/dev/null 2>&1 & until [[ -e up ]] { }; kill $!; wait; echo hi";
    let result = client.run(command);
    assert_eq!(result.output(), "hi", "{}", result.text);
    sleep.wait_for(1);
    let pid = sleep.running()[0].pid;
    assert!(!result.footer().contains("still running"), "{}", result.text);
    let listed = client.call("zsh_tasks", json!({}));
    assert!(listed.text.contains(&format!("unattributed: {pid} sleep")), "{}", listed.text);
    let receipt = client.kill_task(&result.task_id());
    let told = format!("nothing shows which command started them: {pid} sleep");
    assert!(receipt.text.contains(&told), "{}", receipt.text);
    assert!(fs::metadata(format!("/proc/{pid}")).is_ok());
    client.close_stdin();
    client.wait_exit(Duration::from_secs(10));
    sleep.assert_gone();
}

#[test]
fn a_server_left_running_is_listened_to_and_its_output_is_the_delta() {
    let env = Env::new();
    let client = env.client();
    let sleep = UniqueSleep::new();
    let go_on = env.named_pipe("go_on");
    let server =
        format!("(read -r _; echo starting; echo ready on port 1; {sleep}) <go_on & echo started");
    let result = client.run(&server);
    assert_eq!(result.output(), "started");
    assert!(result.footer().contains("still running"), "{}", result.text);
    let task = result.task_id();
    let waiting =
        client.call_async("zsh_poll", json!({"task_id": task, "until": "ready", "listen": 25}));
    client.ping();
    fs::write(go_on, "\n").expect("the server reads");
    let ready = waiting.tool_result();
    assert!(ready.elapsed < AT_ONCE, "{:?}", ready.elapsed);
    assert!(ready.output().ends_with("ready on port 1"), "{}", ready.text);
    assert!(!ready.output().contains("started"), "{}", ready.text);
    assert_eq!(ready.meta["matched_line"], json!(3), "{}", ready.text);
    assert!(ready.footer().contains(" still running"), "{}", ready.text);
    assert_eq!(ready.meta["exit_code"], json!(0));
    // A poll that waits for the end sees the last leftover go.
    let waiting =
        client.call_async("zsh_poll", json!({"task_id": task, "wait_for": "end", "listen": 25}));
    client.ping();
    sleep.wait_for(1);
    client.kill_task(&task);
    let end = waiting.tool_result();
    assert_eq!(end.meta["leftovers"], json!([]), "{}", end.text);
    assert!(!end.footer().contains("still running"), "{}", end.text);
    sleep.assert_gone();
}

#[test]
fn a_leftover_that_ends_by_itself_is_struck_from_the_list() {
    let env = Env::new();
    let client = env.client();
    let go_on = env.named_pipe("go_on");
    let result =
        client.run("(read -r _; echo bye) <go_on & (read -r _) <go_on2 & mkfifo go_on2; echo hi");
    assert!(result.footer().contains("still running"), "{}", result.text);
    let task = result.task_id();
    fs::write(go_on, "\n").expect("the leftover reads");
    let bye = client.poll(&task, json!({"until": "bye", "listen": 25}));
    assert!(bye.output().ends_with("bye"), "{}", bye.text);
    wait_until("one leftover is gone", || {
        let polled = client.poll(&task, json!({"listen": 0}));
        (polled.meta["leftovers"].as_array()?.len() <= 1).then_some(())
    });
    client.kill_task(&task);
    assert_none_left(&task);
}

#[test]
fn the_deadline_applies_to_the_command_and_not_to_what_it_left() {
    let env = Env::new();
    let client = env.client();
    let sleep = UniqueSleep::new();
    let arguments =
        json!({"command": format!("{sleep} & echo hi"), "timeout": 0.5, "yield_after": 20});
    let result = client.call("zsh", arguments);
    assert_eq!(result.status(), "completed", "{}", result.text);
    // A whole command with the same deadline runs into it meanwhile.
    let other =
        client.call("zsh", json!({"command": "sleep 100", "timeout": 1, "yield_after": 20}));
    assert_eq!(other.status(), "timeout", "{}", other.text);
    assert_eq!(sleep.running().len(), 1);
    client.kill_task(&result.task_id());
    sleep.assert_gone();
}

/// A program's name that no other has, short enough for the kernel to keep it whole.
fn unique_name() -> String {
    format!("d{:.11}", unique_word())
}

/// Shell text that goes on once so many programs of this name run: until its exec, a
/// process has the name of the one that started it.
fn until_running(name: &str, count: usize) -> String {
    format!("until (( $(grep -lxs {name} /proc/[0-9]*/comm | wc -l) >= {count} )); do :; done")
}

#[test]
pub fn a_daemon_of_the_list_is_named_as_kept_and_not_ended() {
    let env = Env::new();
    let name = &unique_name();
    env.configure(&format!("daemons: [{name}]\n"));
    // A program whose name is the daemon's: a copy of sleep.
    let program = env.work().join(name);
    copy_program(Path::new("/bin/sleep"), &program);
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("its mode");
    let client = env.client();
    let argument = UniqueSleep::new().to_string().replace("sleep ", "");
    let command = format!(
        "setsid -f ./{name} {argument} </dev/null >/dev/null 2>&1; {}; echo hi",
        until_running(name, 1)
    );
    let result = client.run(&command);
    assert_eq!(result.output(), "hi");
    let daemon = || {
        processes_with(env.mark())
            .into_iter()
            .find(|process| process.arguments == format!("./{name} {argument}"))
    };
    let pid = wait_until("the daemon runs", daemon).pid;
    assert!(!result.footer().contains("still running"), "{}", result.text);
    let told = format!("kept: {pid} {name} (a listed daemon outlives its command; kill {pid} ends");
    assert!(result.footer().contains(&told), "{}", result.text);
    let kept = json!([{"pid": pid, "name": name}]);
    assert_eq!(result.meta["kept"], kept, "{}", result.text);
    assert_eq!(result.meta["leftovers"], json!([]), "{}", result.text);
    let tasks = client.call("zsh_tasks", json!({}));
    assert!(!tasks.text.contains(name), "{}", tasks.text);
    let receipt = client.kill_task(&result.task_id());
    assert!(daemon().is_some(), "zsh_kill of the ended task ended the daemon");
    assert!(receipt.text.contains(&told), "{}", receipt.text);
    assert!(receipt.text.contains("nothing was signalled"), "{}", receipt.text);
    assert_eq!(receipt.meta["kept"], kept, "{}", receipt.text);
    // Nor does the kill of a command that has started one and goes on.
    let sleep = UniqueSleep::new();
    let command = format!(
        "setsid -f ./{name} {argument}1 </dev/null >/dev/null 2>&1; {}; {sleep}",
        until_running(name, 2)
    );
    let task = client.start_task(&command);
    sleep.wait_for(1);
    let receipt = client.kill_task(&task);
    assert_eq!(receipt.status(), "killed", "{}", receipt.text);
    assert_eq!(receipt.meta["kept"][0]["name"], json!(name), "{}", receipt.text);
    sleep.assert_gone();
    let daemons = processes_with(env.mark())
        .into_iter()
        .filter(|process| process.arguments.starts_with(&format!("./{name}")))
        .count();
    assert_eq!(daemons, 2, "zsh_kill of the running task ended the daemon");
    client.close_stdin();
    client.wait_exit(Duration::from_secs(10));
    assert!(daemon().is_some(), "the end of the server ended the daemon");
}

#[test]
fn one_that_only_has_a_daemons_name_is_a_leftover_like_others() {
    let env = Env::new();
    let name = &unique_name();
    env.configure(&format!("daemons: [{name}]\n"));
    let program = env.work().join(name);
    copy_program(Path::new("/bin/sleep"), &program);
    let client = env.client();
    // Still in the session, or still holding the output.
    for shape in ["./NAME 98765 >/dev/null 2>&1 </dev/null &", "setsid ./NAME 98765 &"] {
        let started = shape.replace("NAME", name);
        let result = client.run(&format!("{started} {}; echo hi", until_running(name, 1)));
        assert!(result.footer().contains(name), "{shape}: {}", result.text);
        client.kill_all_of(&result.task_id());
    }
    client.close_stdin();
    client.wait_exit(Duration::from_secs(10));
    assert_none_left(env.mark());
}

#[test]
fn a_terminal_takes_its_background_processes_along_when_it_goes() {
    let env = Env::new();
    let client = env.client();
    let sleep = UniqueSleep::new();
    env.named_pipe("up");
    let command = format!("sh -c 'echo >up; exec {sleep}' & read -r _ <up; echo hi");
    let arguments = json!({"command": command, "pty": true, "yield_after": 20});
    let result = client.call("zsh", arguments);
    assert_eq!(result.status(), "completed", "{}", result.text);
    assert_eq!(result.output(), "hi", "{}", result.text);
    sleep.assert_gone();
}

#[test]
fn what_left_its_terminal_is_named_and_can_be_ended() {
    let env = Env::new();
    let client = env.client();
    env.named_pipe("up");
    for shape in [
        "setsid sh -c 'echo >up; exec SLEEP' & read -r _ <up; echo hi",
        "setsid -f sh -c 'echo >up; exec SLEEP'; read -r _ <up; echo hi",
        "nohup sh -c 'echo >up; exec SLEEP' >/dev/null 2>&1 & read -r _ <up; echo hi",
        "(trap '' HUP; echo >up; exec SLEEP) & read -r _ <up; echo hi",
    ] {
        let sleep = UniqueSleep::new();
        let command = shape.replace("SLEEP", &sleep.to_string());
        let arguments = json!({"command": command, "pty": true, "yield_after": 20});
        let result = client.call("zsh", arguments);
        assert_eq!(result.status(), "completed", "{}", result.text);
        assert!(result.output().ends_with("hi"), "{}", result.text);
        sleep.wait_for(1);
        assert!(result.footer().contains("still running: "), "{}", result.text);
        client.kill_all_of(&result.task_id());
        sleep.assert_gone();
    }
}

#[test]
fn what_the_server_may_not_end_is_recorded_as_interrupted_and_does_not_hold_it_up() {
    let env = Env::new();
    let becomes = "!use_pty, !pam_session, !pam_setcred";
    let client = unprivileged::client_after(&env, &unprivileged::let_sudo(becomes));
    let sleep = UniqueSleep::new();
    // The shell itself becomes a process of root's, since sudo has nothing to wait for.
    let arguments = json!({"command": format!("exec sudo {sleep}"), "yield_after": 50});
    let call = client.call_async("zsh", arguments);
    sleep.wait_for(1);
    client.close_stdin();
    let told = call.tool_result();
    assert_eq!(told.status(), "interrupted", "{}", told.text);
    client.wait_exit(AT_ONCE);
    assert_eq!(sleep.running().len(), 1);
    let recorded: (String, i64) = open_database(&env.path("state/alan.db"))
        .query_row(
            "SELECT outcome_type, count(*) FROM observations WHERE command_preview LIKE ?1",
            [format!("%{sleep}%")],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )
        .expect("a record");
    assert_eq!(recorded, ("INTERRUPTED".to_owned(), 1));
    end(&sleep.running());
    sleep.assert_gone();
}

#[test]
fn orphans_of_one_task_hold_no_other_up() {
    let env = Env::new();
    let client = env.client();
    let orphans = client.start_task("while :; do (/bin/true &); done");
    let ended = client.run("echo hi");
    assert_eq!(ended.output(), "hi", "{}", ended.text);
    let arguments = json!({"task_id": ended.task_id(), "until": "never", "listen": 50});
    let polled = client.call("zsh_poll", arguments);
    assert!(polled.elapsed < AT_ONCE, "{:?}", polled.elapsed);
    let sleep = UniqueSleep::new();
    let task = client.start_task(&sleep.to_string());
    sleep.wait_for(1);
    let receipt = client.kill_task(&task);
    assert!(receipt.elapsed < AT_ONCE, "{:?}", receipt.elapsed);
    assert_eq!(receipt.meta["survivors"], json!([]), "{}", receipt.text);
    sleep.assert_gone();
    client.kill_all_of(&orphans);
    assert_none_left(&orphans);
}
