//! Commands on hosts: over a real sshd on the loopback, and over carriers that misbehave.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

use serde_json::{Value, json};

use crate::support::client::{Client, kill_those_alive, send_signal};
use crate::support::env::{Env, binary, unique_word};
use crate::support::processes::{
    Found, UniqueSleep, assert_none_left, descendants_of, guards_and_guarded, processes_with,
    wait_until,
};
use crate::support::program::{ran, run_with_input};
use crate::support::result::ToolResult;
use crate::support::ssh_host::{
    SshHost, await_far_sides_gone, far_environment, far_home, far_sides, install, installed,
};
use crate::support::tmux::Window;

const EXIT: Duration = Duration::from_secs(20);

/// A host that is reached by a real sshd, with the program installed.
pub fn by_ssh(linger: u32) -> (Env, SshHost) {
    let env = Env::new();
    let host = SshHost::start(&env);
    install(&env, "far");
    let carrier = host.carrier();
    env.configure(&format!("hosts:\n  build1: {{command: [{carrier}], linger: {linger}}}\n"));
    (env, host)
}

pub fn on_host(client: &Client, command: &str, mut arguments: Value) -> ToolResult {
    arguments["command"] = json!(command);
    arguments["host"] = json!("build1");
    client.call("zsh", arguments)
}

pub fn carrier(client: &Client) -> Found {
    let is_carrier = |process: &Found| process.arguments.starts_with("ssh ");
    descendants_of(client.pid()).into_iter().find(is_carrier).expect("a carrier")
}

/// By then the host knows that earlier answers have reached the client: the first call's answer is
/// written after that was reported, and the second one is sent after the report.
pub fn await_delivery(client: &Client) {
    for _ in 0..2 {
        client.call("zsh_tasks", json!({"host": "build1"}));
    }
}

/// Ends the connection as a crash does.
pub fn cut(client: &Client) {
    send_signal("KILL", carrier(client).pid);
}

#[test]
fn calls_of_one_host_at_once_disturb_none_and_one_that_is_given_up_ends_no_command() {
    let (env, _host) = by_ssh(60);
    let client = env.client();
    on_host(&client, "true", json!({"yield_after": 25}));
    let (first, second) = (UniqueSleep::new(), UniqueSleep::new());
    let starts = |sleep: &UniqueSleep| {
        let command = format!("echo begun; {sleep}");
        client.call_async("zsh", json!({"command": command, "host": "build1", "yield_after": 45}))
    };
    let calls = [starts(&first), starts(&second)];
    first.wait_for(1);
    second.wait_for(1);
    // So long that one of a client that waits for one call at a time would count as given up.
    std::thread::sleep(calls[1].left_of(Duration::from_millis(3_200)));
    on_host(&client, "echo beside", json!({"yield_after": 25}));
    assert!(calls.iter().all(|call| !call.has_arrived()), "{}", client.describe());
    for call in &calls {
        let params = json!({"requestId": call.id(), "reason": "Request timed out"});
        client.notify("notifications/cancelled", params);
    }
    let told = wait_until("the next answers tell of both", || {
        let next = on_host(&client, "echo next", json!({"yield_after": 25}));
        next.text.contains("still runs as task 'build1:").then_some(next.text)
    });
    // They have not been killed meanwhile.
    await_delivery(&client);
    assert_eq!((first.running().len(), second.running().len()), (1, 1), "{told}");
    let listed = client.call("zsh_tasks", json!({"host": "build1"}));
    for row in listed.raw["structuredContent"]["tasks"].as_array().expect("tasks") {
        client.kill_task(row["task_id"].as_str().expect("an id"));
    }
}

#[test]
fn notices_of_a_host_are_in_the_structured_result_beside_those_from_here() {
    let (env, _host) = by_ssh(60);
    let client = env.client();
    let there = env.path("far-gate");
    let here = env.path("gate");
    for gate in [&there, &here] {
        assert!(Command::new("mkfifo").arg(gate).status().expect("mkfifo").success());
    }
    let reads = |gate: &Path| format!("read < {}; exit 4", gate.display());
    let far = on_host(&client, &reads(&there), json!({"background": true})).task_id();
    let near = client.call("zsh", json!({"command": reads(&here), "background": true})).task_id();
    fs::write(&there, "\n").expect("a reader");
    fs::write(&here, "\n").expect("a reader");
    let mut notices = String::new();
    wait_until("both are told of", || {
        let listed = client.call("zsh_tasks", json!({"host": "build1"}));
        for notice in listed.raw["structuredContent"]["notices"].as_array().into_iter().flatten() {
            notices += notice.as_str().expect("text");
            assert!(listed.text.contains(notice.as_str().expect("text")), "{}", listed.text);
        }
        let is_told = |task: &str| notices.contains(&format!("task '{task}' failed"));
        (is_told(&far) && is_told(&near)).then_some(())
    });
    assert_eq!(notices.matches("┌ notify").count(), 2, "{notices}");
}

#[test]
fn a_command_runs_there_and_its_task_is_reached_by_an_id_with_the_hosts_name() {
    let (env, _host) = by_ssh(60);
    let client = env.client();
    let ran = on_host(&client, "pwd; false | true; exit 3", json!({"yield_after": 25}));
    assert_eq!(ran.output(), far_home(&env, "far").display().to_string());
    assert!(ran.text.contains("exit=3"), "{}", ran.text);

    let started = on_host(
        &client,
        "echo one; read line; echo got $line",
        json!({
        "pty": true, "until": "one", "yield_after": 25}),
    );
    let task = started.task_id();
    assert!(task.starts_with("build1:"), "{}", started.text);
    assert!(started.text.contains(&format!("task={task}")), "{}", started.text);
    let listed = client.call("zsh_tasks", json!({"host": "build1"}));
    assert!(listed.text.starts_with(&task), "{}", listed.text);
    assert!(listed.text.lines().count() == 1, "listed once: {}", listed.text);
    assert_eq!(listed.raw["structuredContent"]["tasks"][0]["task_id"], json!(task));
    assert!(!client.call("zsh_tasks", json!({})).text.contains("read line"), "none here");
    let sent = client.call("zsh_send", json!({"task_id": task, "input": "this", "listen": 20}));
    assert!(sent.text.contains("got this"), "{}", sent.text);
    assert_eq!(client.poll_to_end(&task).status(), "completed");

    let queried = client
        .call("zsh_alan_query", json!({"host": "build1", "command": "pwd; false | true; exit 3"}));
    assert!(queried.text.contains("runs     1,"), "{}", queried.text);
    let health = client.call("zsh_health", json!({}));
    assert!(health.text.contains("build1: connected, Linux "), "{}", health.text);

    let sleep = UniqueSleep::new();
    let task = on_host(&client, &format!("(setsid {sleep} &); {sleep}"), json!({"yield_after": 0}))
        .task_id();
    sleep.wait_for(2);
    let killed = client.kill_task(&task);
    assert!(killed.text.contains("no survivors"), "{}", killed.text);
    sleep.assert_gone();
}

#[test]
fn an_orderly_end_of_the_server_ends_the_tasks_there_at_once() {
    let (env, _host) = by_ssh(600);
    let client = env.client();
    let (before, after) = (UniqueSleep::new(), UniqueSleep::new());
    on_host(&client, &before.to_string(), json!({"yield_after": 0}));
    before.wait_for(1);
    cut(&client);
    wait_until("it is connected again", || {
        let listed = client.call("zsh_tasks", json!({"host": "build1"}));
        (listed.raw["isError"] == json!(false)).then_some(())
    });
    // One of an earlier connection as well.
    on_host(&client, &after.to_string(), json!({"yield_after": 0}));
    after.wait_for(1);
    assert_eq!(before.running().len(), 1);
    client.close_stdin();
    client.wait_exit(EXIT);
    before.assert_gone();
    after.assert_gone();
    await_far_sides_gone(&env);
}

#[test]
fn a_lost_connection_leaves_the_task_and_the_next_call_continues_it() {
    let (env, _host) = by_ssh(60);
    let client = env.client();
    let pipe = env.path("go");
    let made = env.command("mkfifo").arg(&pipe).status();
    assert!(made.expect("mkfifo").success());
    // With a writer, a reader is not stuck however long it waits.
    let writer = fs::OpenOptions::new().read(true).write(true).open(&pipe).expect("a FIFO");
    let command = format!("echo one; read -r < {}; echo two; exit 3", pipe.display());
    let task = on_host(&client, &command, json!({"until": "one", "yield_after": 25})).task_id();
    await_delivery(&client);
    let poll =
        client.call_async("zsh_poll", json!({"task_id": task, "wait_for": "end", "listen": 25}));
    client.ping();
    cut(&client);
    let lost = poll.tool_result();
    assert!(lost.text.starts_with("connection to build1 lost ("), "{}", lost.text);
    assert!(lost.text.contains(&format!("zsh_poll task_id={task} reconnects")), "{}", lost.text);
    fs::write(&pipe, "\n").expect("a reader");
    let ended = client.poll_to_end(&task);
    assert_eq!(ended.output(), "2: two", "what was shown is not shown again: {}", ended.text);
    assert!(ended.text.contains("exit=3"), "{}", ended.text);
    // Its far side is gone by now or will be; its files answer.
    let again = client.poll(&task, json!({"full_output": true}));
    assert_eq!(again.output(), "1: one\n2: two", "{}", again.text);
    drop(writer);
}

#[test]
fn a_frozen_connection_is_given_up_and_the_next_call_continues_the_task() {
    let (env, _host) = by_ssh(60);
    let client = env.client();
    let sleep = UniqueSleep::new();
    let arguments = json!({"until": "one", "yield_after": 25});
    let task = on_host(&client, &format!("echo one; {sleep}"), arguments).task_id();
    await_delivery(&client);
    let poll =
        client.call_async("zsh_poll", json!({"task_id": task, "wait_for": "end", "listen": 50}));
    client.ping();
    let frozen = carrier(&client);
    send_signal("STOP", frozen.pid);
    let begun = Instant::now();
    let lost = poll.tool_result();
    let took = begun.elapsed();
    assert!(took > Duration::from_secs(14) && took < Duration::from_secs(40), "{took:?}");
    let expected = "connection to build1 lost (it has not answered for 15 s); the task keeps running there until ";
    let rest = lost.text.strip_prefix(expected).unwrap_or_else(|| panic!("{}", lost.text));
    let (until, rest) = rest.split_at_checked("00:00:00".len()).expect("a time");
    assert!(until.chars().all(|c| c == ':' || c.is_ascii_digit()), "{}", lost.text);
    assert_eq!(rest, format!("; zsh_poll task_id={task} reconnects"));
    wait_until("the frozen carrier is ended", || {
        (!descendants_of(client.pid()).contains(&frozen)).then_some(())
    });
    let polled = client.poll(&task, json!({"listen": 0}));
    assert_eq!(polled.status(), "running", "{}", polled.text);
    assert_eq!(polled.output(), "(no new output)", "what was shown is not shown again");
    let all = client.poll(&task, json!({"listen": 0, "full_output": true}));
    assert_eq!(all.output(), "1: one", "{}", all.text);
    assert_eq!(sleep.running().len(), 1);
    client.kill_task(&task);
    sleep.assert_gone();
}

#[test]
fn a_start_whose_answer_is_lost_is_not_repeated_and_is_found_by_its_id() {
    let (env, _host) = by_ssh(60);
    let client = env.client();
    on_host(&client, "true", json!({"yield_after": 25}));
    let (count, sleep) = (env.path("count"), UniqueSleep::new());
    let command = format!("echo run >> {}; echo begun; {sleep}", count.display());
    let call =
        client.call_async("zsh", json!({"command": command, "host": "build1", "yield_after": 25}));
    sleep.wait_for(1);
    cut(&client);
    let lost = call.tool_result();
    assert!(lost.text.contains("it is not known whether the command started"), "{}", lost.text);
    let task = lost.text.split("task_id=").nth(1).and_then(|rest| rest.split(' ').next());
    let polled = client.poll(task.expect("an id"), json!({"listen": 0}));
    assert_eq!(polled.status(), "running", "{}", polled.text);
    assert_eq!(polled.output(), "1: begun", "{}", polled.text);
    assert_eq!(fs::read_to_string(&count).expect("a file"), "run\n");
    let unknown = client.poll("build1:00000000", json!({}));
    assert!(unknown.text.contains("unknown on build1"), "{}", unknown.text);
    let printed = on_host(&client, "echo task_id=00000000", json!({"yield_after": 25}));
    assert_eq!(printed.output(), "task_id=00000000", "what is printed stays as it is");
    client.kill_task(task.expect("an id"));
}

#[test]
fn no_task_survives_the_lease_whatever_is_killed() {
    for victim in ["server", "carrier", "far side", "far guard", "sshd child"] {
        let (env, host) = by_ssh(2);
        let client = env.client();
        let sleep = UniqueSleep::new();
        let task =
            on_host(&client, &format!("(setsid {sleep} &); {sleep}"), json!({"yield_after": 0}))
                .task_id();
        sleep.wait_for(2);
        let far = far_sides(&env).pop().expect("a far side");
        match victim {
            "server" => {
                client.kill_server();
                client.wait_exit(EXIT);
            }
            "carrier" => cut(&client),
            "far side" => send_signal("KILL", far.pid),
            "far guard" => {
                let (guards, _) = guards_and_guarded(env.mark(), "far");
                kill_those_alive(guards.into_iter().map(|guard| guard.pid));
            }
            _ => kill_those_alive(host.session_pids()),
        }
        // On its own, with nothing that asks for it.
        sleep.assert_gone();
        await_far_sides_gone(&env);
        let next = env.client();
        let polled = next.poll(&task, json!({"full_output": true}));
        assert!(
            ["killed", "interrupted", "failed"].contains(&polled.status()),
            "{victim}: {}",
            polled.text
        );
    }
}

#[test]
fn the_task_of_a_killed_server_is_continued_by_the_next_one_within_the_lease() {
    let (env, _host) = by_ssh(600);
    let client = env.client();
    let sleep = UniqueSleep::new();
    let task =
        on_host(&client, &format!("echo one; {sleep}"), json!({"until": "one", "yield_after": 25}))
            .task_id();
    client.call("zsh_tasks", json!({"host": "build1"}));
    client.kill_server();
    client.wait_exit(EXIT);
    assert_eq!(sleep.running().len(), 1);
    let next = env.client();
    let polled = next.poll(&task, json!({"listen": 0}));
    assert_eq!(polled.status(), "running", "{}", polled.text);
    assert!(next.kill_task(&task).text.contains("no survivors"));
    sleep.assert_gone();
}

#[test]
fn what_cannot_be_reached_says_why_and_holds_up_nothing_else() {
    let env = Env::new();
    let host = SshHost::start(&env);
    install(&env, "far");
    let far = far_environment(&env, "far").join(", ");
    let ssh = host.carrier();
    let banner = env.path("banner");
    fs::write(&banner, "echo Welcome; echo to build1; printf x; exec \"$@\"\n").expect("a file");
    let banner = format!("sh, {}, {far}", banner.display());
    env.configure(&format!(
        "hosts:\n  closes: {{command: [\"true\"]}}\n  missing: {{command: [no-such-carrier]}}\n  \
         says: {{command: [sh, -c, \"echo Permission denied >&2; exit 255\"]}}\n  \
         silent: {{command: [sh, -c, \"exec sleep 1000\"]}}\n  \
         chatty: {{command: [sh, -c, \"yes; true\"]}}\n  banner: {{command: [{banner}]}}\n  \
         uninstalled: {{command: [env, HOME=/proc/none, PATH=/usr/bin:/bin], install: never}}\n  \
         full: {{command: [{far}], binary_directory: /proc/none}}\n  build1: {{command: [{ssh}]}}\n"
    ));
    // The far sides of these do not find the program in their homes.
    let known = env.path("ssh/known");
    let text = fs::read_to_string(&known).expect("a file");
    fs::write(&known, text.replace("AAAAC3NzaC1lZDI1NTE5AAAAI", "AAAAC3NzaC1lZDI1NTE5AAAAJ"))
        .expect("a file");
    let client = env.client();
    let silent = client.call_async("zsh", json!({"command": "true", "host": "silent"}));
    let second = client.call_async("zsh", json!({"command": "true", "host": "silent"}));
    let chatty = client.call_async("zsh", json!({"command": "true", "host": "chatty"}));
    let run = |host: &str| {
        client.call("zsh", json!({"command": "echo ran", "host": host, "yield_after": 25}))
    };
    for (name, expected) in [
        ("closes", "host closes cannot be reached: the connection was closed"),
        (
            "missing",
            "host missing cannot be reached: its carrier no-such-carrier is not found in PATH",
        ),
        ("says", "Permission denied"),
        ("uninstalled", "is not installed in"),
        ("full", "there and set install: never"),
        ("build1", "Host key verification failed"),
        ("nowhere", "the hosts are closes, missing, says"),
    ] {
        let failed = run(name);
        assert!(failed.text.contains(expected), "{name}: {}", failed.text);
        assert_eq!(failed.raw["isError"], json!(true), "{name}: {}", failed.text);
    }
    assert_eq!(run("banner").output(), "ran");
    assert_eq!(client.run("echo here").output(), "here");
    let begun = Instant::now();
    for call in [silent, second, chatty] {
        let failed = call.tool_result();
        assert!(
            failed.text.contains("cannot be reached: it has not answered for 10 s"),
            "{}",
            failed.text
        );
    }
    assert!(begun.elapsed() < Duration::from_secs(15), "one attempt for both");
    client.close_stdin();
    client.wait_exit(EXIT);
    assert_none_left(env.mark());
}

#[test]
fn the_program_is_sent_where_it_is_missing() {
    let env = Env::new();
    let far = far_environment(&env, "far").join(", ");
    env.configure(&format!("hosts: {{build1: {{command: [{far}]}}}}\n"));
    let client = env.client();
    let ran = on_host(&client, "echo ran", json!({"yield_after": 25}));
    assert_eq!(ran.output(), "ran", "{}", ran.text);
    assert!(installed(&env, "far").is_file());
    let here = client.run("umask").output();
    assert_eq!(on_host(&client, "umask", json!({"yield_after": 25})).output(), here);
    let folder = installed(&env, "far");
    let left = fs::read_dir(folder.parent().expect("a folder")).expect("a folder").count();
    assert_eq!(left, 1, "nothing but the program");
}

#[test]
fn versions_that_were_not_used_for_long_are_removed_unless_they_run() {
    let env = Env::new();
    let program = installed(&env, "far");
    let own = program.parent().expect("a folder");
    let version = |name: &str| own.with_file_name(format!("{name}-{}", std::env::consts::ARCH));
    let day = Duration::from_secs(24 * 60 * 60);
    let use_days_ago = |folder: &Path, days: u32| {
        let at = SystemTime::now() - days * day;
        File::open(folder).and_then(|folder| folder.set_modified(at)).expect("a mark");
    };
    let (old, runs, recent) = (version("0.0.1"), version("0.0.2"), version("0.0.3"));
    for folder in [own, &old, &runs, &recent] {
        fs::create_dir_all(folder).expect("a folder");
    }
    // Not by this process: a child that it starts meanwhile would hold the file open.
    let copied = env.command("cp").arg(binary()).arg(&program).status();
    assert!(copied.expect("cp").success());
    let copied = env.command("cp").arg("/bin/sleep").arg(runs.join("zsh-tool")).status();
    assert!(copied.expect("cp").success());
    for folder in [&old, &recent] {
        fs::write(folder.join("zsh-tool"), "").expect("a file");
    }
    use_days_ago(own, 31);
    use_days_ago(&old, 31);
    use_days_ago(&runs, 31);
    use_days_ago(&recent, 29);
    let mut running = env.command(runs.join("zsh-tool")).arg("1000").spawn().expect("a program");
    let far = far_environment(&env, "far").join(", ");
    env.configure(&format!("hosts: {{build1: {{command: [{far}]}}}}\n"));
    let servers = [env.client(), env.client()];
    let arguments = json!({"command": "echo ran", "host": "build1", "yield_after": 25});
    let calls = servers.each_ref().map(|server| server.call_async("zsh", arguments.clone()));
    for call in calls {
        assert_eq!(call.tool_result().output(), "ran");
    }
    running.kill().and_then(|()| running.wait()).expect("an end");
    assert!(!old.exists() && recent.exists() && runs.exists());
    let used = fs::metadata(own).and_then(|own| own.modified()).expect("a mark");
    assert!(used.elapsed().expect("a time in the past") < day);
    // It runs no longer.
    let ran = on_host(&env.client(), "echo ran", json!({"yield_after": 25}));
    assert_eq!(ran.output(), "ran");
    assert!(!runs.exists() && recent.exists());
}

#[test]
fn twenty_hosts_are_reached_at_once() {
    let env = Env::new();
    let mut hosts = "hosts:\n".to_owned();
    for number in 0..20 {
        let name = format!("far{number}");
        let far = far_environment(&env, &name).join(", ");
        install(&env, &name);
        hosts += &format!("  {name}: {{command: [{far}]}}\n");
    }
    env.configure(&hosts);
    let client = env.client();
    let calls: Vec<_> = (0..20)
        .map(|number| {
            let arguments = json!({"command": format!("echo {number}"), "host": format!("far{number}"), "yield_after": 25});
            client.call_async("zsh", arguments)
        })
        .collect();
    for (number, call) in calls.into_iter().enumerate() {
        assert_eq!(call.tool_result().output(), number.to_string());
    }
    client.close_stdin();
    client.wait_exit(EXIT);
    assert_none_left(env.mark());
}

#[test]
fn a_person_takes_the_terminal_of_a_task_there() {
    let (env, _host) = by_ssh(60);
    let client = env.client();
    let command = "echo ready; read line; echo got $line; read line";
    let task = on_host(&client, command, json!({"pty": true, "until": "ready", "yield_after": 25}))
        .task_id();
    let window = Window::open(&env, 24, 200);
    window.zsh_tool(&format!("attach {task}"));
    window.await_text("C-] detaches");
    window.enter("this");
    window.await_text("got this");
    let refused = client.call("zsh_send", json!({"task_id": task, "input": "that"}));
    assert!(refused.text.contains("person"), "{}", refused.text);
    window.press("C-]");
    window.await_text(&format!("detached from task {task}"));
    window.zsh_tool("attach build1:00000000");
    window.await_text("no task 00000000 runs here");
    let polled = client.poll(&task, json!({"listen": 0}));
    assert_eq!(polled.status(), "running", "{}", polled.text);
    client.kill_task(&task);
}

#[test]
fn a_listed_secret_is_typed_there_and_masked() {
    let env = Env::new();
    let host = SshHost::start(&env);
    install(&env, "far");
    let (secret, carrier) = (unique_word(), host.carrier());
    let file = env.path("secret");
    fs::write(&file, format!("{secret}\n")).expect("a file");
    env.configure(&format!(
        "secrets: {{PW: {{file: {}, programs: any}}}}\nhosts: {{build1: {{command: [{carrier}]}}}}\n",
        file.display()
    ));
    let client = env.client();
    let command = "stty -echo; printf 'Password: '; read pw; stty echo; echo; echo typed $pw";
    let asked =
        on_host(&client, command, json!({"pty": true, "until": "Password", "yield_after": 25}));
    let task = asked.task_id();
    let sent = client.call("zsh_send", json!({"task_id": task, "secret_env": "PW", "listen": 20}));
    assert!(sent.text.contains("typed [secret PW]"), "{}", sent.text);
    let ended = client.poll(&task, json!({"full_output": true}));
    assert!(!ended.text.contains(&secret), "{}", ended.text);
    let other = client.call("zsh_send", json!({"task_id": task, "secret_env": "OTHER"}));
    assert!(other.text.contains("\"OTHER\" is not among the listed secrets: PW"), "{}", other.text);
}

#[test]
fn doctor_connects_to_a_host_and_reports_what_is_there() {
    let (env, _host) = by_ssh(60);
    let report = ran(&env, &["doctor", "--host", "build1"]).text();
    assert!(report.contains("ok       host: build1: connected, Linux "), "{report}");
    assert!(report.contains("shell /"), "{report}");
    let listed = ran(&env, &["doctor"]).text();
    assert!(listed.contains("host: build1, via ssh, not connected"), "{listed}");
    await_far_sides_gone(&env);
}

#[test]
fn health_and_doctor_say_how_far_the_clock_there_is_off() {
    let env = Env::new();
    install(&env, "far");
    let date = env.path("fast/date");
    fs::create_dir_all(env.path("fast")).expect("a folder");
    fs::write(&date, "#!/bin/sh\necho $(($(/bin/date \"$@\") + 10000))\n").expect("a file");
    fs::set_permissions(&date, fs::Permissions::from_mode(0o755)).expect("a program");
    let far = far_environment(&env, "far").join(", ");
    let path = std::env::var("PATH").expect("a path");
    let fast = format!("{far}, \"PATH={}:{path}\"", env.path("fast").display());
    env.configure(&format!(
        "hosts: {{build1: {{command: [{far}]}}, fast: {{command: [{fast}]}}}}\n"
    ));
    let client = env.client();
    for host in ["build1", "fast"] {
        client.call("zsh", json!({"command": "true", "host": host, "yield_after": 25}));
    }
    let health = client.call("zsh_health", json!({})).text;
    let line = |host: &str| {
        let mut lines = health.lines().filter(|line| line.contains(&format!("{host}: connected")));
        lines.next().unwrap_or_else(|| panic!("{health}")).to_owned()
    };
    let version = env!("CARGO_PKG_VERSION");
    let known = format!("zsh-tool {version}, kernel evidence there, clock ");
    assert!(line("build1").contains(&format!("{known}as here, took ")), "{health}");
    for text in [line("fast"), ran(&env, &["doctor", "--host", "fast"]).text()] {
        let ahead = text.split(&known).nth(1).and_then(|rest| rest.split_once(" s ahead"));
        let ahead: i64 = ahead.and_then(|(ahead, _)| ahead.parse().ok()).expect(&text);
        assert!((9980..=10000).contains(&ahead), "{text}");
    }
}

#[test]
fn a_server_that_ends_while_it_connects_leaves_nothing() {
    let env = Env::new();
    env.configure("hosts: {silent: {command: [sh, -c, \"exec sleep 1000\"]}}\n");
    let client = env.client();
    let _call = client.call_async("zsh", json!({"command": "true", "host": "silent"}));
    wait_until("the carrier runs", || {
        processes_with(env.mark()).iter().any(|found| found.arguments == "sleep 1000").then_some(())
    });
    client.close_stdin();
    let (_, took) = client.wait_exit(EXIT);
    assert!(took < Duration::from_secs(8), "not until the attempt is over: {took:?}");
    assert_none_left(env.mark());
}

/// `zsh-tool exec --host build1`, with these arguments.
fn exec_there(env: &Env, arguments: &[&str]) -> Command {
    let mut command = env.command(binary());
    command.args(["exec", "--host", "build1"]).args(arguments);
    command
}

#[test]
fn exec_runs_there_and_passes_input_output_errors_and_the_exit_code() {
    let (env, _host) = by_ssh(60);
    fs::create_dir_all(far_home(&env, "far").join("a b")).expect("a directory");
    let mut command = exec_there(&env, &["--cwd", "a b", "--"]);
    command.args(["pwd;", "read -r line;", "echo got $line 'it''s';", "echo no >&2;", "exit 7"]);
    let ran = run_with_input(command, b"input\n".to_vec());
    let expected = format!("{}\ngot input its\n", far_home(&env, "far").join("a b").display());
    assert_eq!(String::from_utf8_lossy(&ran.stdout), expected, "{ran:?}");
    assert_eq!(ran.code, 7);
    assert!(ran.stderr.contains("no\n"), "{ran:?}");
    assert!(ran.stderr.contains("exit=7"), "{ran:?}");

    // Bytes of all values, and more than any pipe holds.
    let sum = exec_there(
        &env,
        &["--", "head -c 3000000 /dev/zero | tr '\\0' '\\377'; print -n '\\0\\r\\n'"],
    )
    .output();
    let sum = sum.expect("exec");
    assert_eq!((sum.stdout.len(), sum.stdout.get(3_000_000..)), (3_000_003, Some(&b"\0\r\n"[..])));

    let bash = exec_there(&env, &["--shell", "bash", "--", "s=HELLO; echo ${s,,}"]).output();
    assert_eq!(String::from_utf8_lossy(&bash.expect("exec").stdout), "hello\n");

    let timed_out = exec_there(&env, &["--timeout", "0.3", "--", "sleep 100"]).output();
    assert_eq!(timed_out.expect("exec").status.code(), Some(124));
    let unknown = env.command(binary()).args(["exec", "--host", "other", "--", "true"]).output();
    let unknown = unknown.expect("exec");
    assert!(
        String::from_utf8_lossy(&unknown.stderr).contains("the hosts are build1"),
        "{unknown:?}"
    );
    assert_eq!(unknown.status.code(), Some(2));
}

#[test]
fn a_command_of_exec_ends_there_with_its_connection() {
    let (env, host) = by_ssh(60);
    for victim in ["a signal", "carrier", "sshd child"] {
        let sleep = UniqueSleep::new();
        let mut exec = exec_there(&env, &["--", &format!("(setsid {sleep} &) ; {sleep}")]);
        let mut exec = exec.stdout(Stdio::piped()).spawn().expect("exec");
        sleep.wait_for(2);
        match victim {
            "a signal" => send_signal("INT", exec.id()),
            "carrier" => {
                let below = descendants_of(exec.id()).into_iter();
                let mut carriers = below.filter(|process| process.arguments.starts_with("ssh "));
                send_signal("KILL", carriers.next().expect("a carrier").pid);
            }
            _ => kill_those_alive(host.session_pids()),
        }
        let ended = exec.wait().expect("its end");
        match victim {
            "a signal" => assert_eq!(ended.code(), Some(130)),
            "carrier" => assert_eq!(ended.code(), Some(137)),
            _ => assert_eq!(ended.code(), Some(255)),
        }
        sleep.assert_gone();
    }
}

#[test]
fn a_signal_while_a_host_is_being_reached_ends_exec_as_a_signal_does() {
    let env = Env::new();
    let sleep = UniqueSleep::new();
    env.configure(&format!("hosts:\n  build1: {{command: [sh, -c, \"exec {sleep}\"]}}\n"));
    let mut exec = exec_there(&env, &["--", "true"]);
    let exec = exec.stderr(Stdio::piped()).spawn().expect("exec");
    sleep.wait_for(1);
    send_signal("INT", exec.id());
    let ended = exec.wait_with_output().expect("its end");
    assert_eq!((ended.status.code(), ended.stderr), (Some(130), Vec::new()));
    sleep.assert_gone();
}

#[test]
fn log_send_and_kill_reach_a_task_there_by_its_id() {
    let (env, _host) = by_ssh(60);
    let client = env.client();
    let command = "echo one; read line; echo got $line; sleep 1000";
    let started =
        on_host(&client, command, json!({"pty": true, "until": "one", "yield_after": 25}));
    let task = started.task_id();
    let run = |arguments: &[&str]| {
        let ran = env.command(binary()).args(arguments).output();
        let ran = ran.expect("zsh-tool");
        assert!(ran.status.success(), "{arguments:?}: {ran:?}");
        String::from_utf8_lossy(&ran.stdout).into_owned()
    };
    assert_eq!(run(&["log", &task]), "one\r\n");
    let mut following = env.command(binary());
    let mut following =
        following.args(["log", "--follow", &task]).stdout(Stdio::piped()).spawn().expect("log");
    let follows = || {
        processes_with(env.mark()).into_iter().any(|process| {
            process.arguments.ends_with(&format!("log --follow {}", &task["build1:".len()..]))
        })
    };
    wait_until("it follows there", || follows().then_some(()));
    send_signal("INT", following.id());
    assert_eq!(following.wait().expect("its end").code(), Some(130));
    wait_until("it has ended there, though nothing was printed", || (!follows()).then_some(()));
    assert!(run(&["send", &task, "it's this"]).contains("got it's this"));
    assert!(run(&["kill", &task]).contains("no survivors"));
    assert!(run(&["log", "--follow", &task]).ends_with("got it's this\r\n"));
    let ended = client.poll_to_end(&task);
    assert_eq!(ended.status(), "killed", "{}", ended.text);
}
