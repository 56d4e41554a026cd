//! Hosts whose processes are killed at any moment or frozen for long, whose user is another one,
//! and whose program is of another version.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;
use std::time::Duration;

use serde_json::json;

use crate::hosts::{await_delivery, by_ssh, carrier, cut, on_host};
use crate::support::client::{Client, PATIENCE, kill_those_alive, send_signal};
use crate::support::env::{Env, binary};
use crate::support::processes::{
    UniqueSleep, assert_none_left, descendants_of, guards_and_guarded, processes_with, wait_until,
};
use crate::support::ssh_host::{
    SshHost, await_far_sides_gone, far_environment, far_home, far_sides, install, installed,
};
use crate::support::unprivileged::{NOBODY, require_root};

/// Those that are killed, each in its turn.
const VICTIMS: [&str; 5] = ["server", "carrier", "far side", "far guard", "sshd child"];

/// Kills one of the processes of a call, in each round at another moment: of the connection, the
/// start, the run or the end. The command runs at most once, what is answered is true, and nothing
/// survives the lease.
pub fn kill_at_any_moment(rounds: u32) {
    let (env, host) = by_ssh(1);
    for round in 0..rounds {
        let client = env.client();
        let (count, sleep) = (env.path(&format!("count-{round}")), UniqueSleep::new());
        let file = count.display();
        let command =
            format!("echo run >> {file}; echo begun; (setsid {sleep} &); {sleep}; echo done");
        let call = client
            .call_async("zsh", json!({"command": command, "host": "build1", "yield_after": 0.3}));
        // Not a wait for something: the moment is meant to be any.
        std::thread::sleep(Duration::from_millis(u64::from(round * 137 % 1000)));
        let victim = VICTIMS[round as usize % VICTIMS.len()];
        match victim {
            "server" => client.kill_server(),
            "carrier" => {
                let below = descendants_of(client.pid()).into_iter();
                let mut carriers = below.filter(|process| process.arguments.starts_with("ssh "));
                kill_those_alive(carriers.next().map(|ssh| ssh.pid));
            }
            "far side" => {
                kill_those_alive(far_sides(&env).into_iter().map(|far| far.pid));
            }
            "far guard" => {
                let (guards, _) = guards_and_guarded(env.mark(), "far");
                kill_those_alive(guards.into_iter().map(|guard| guard.pid));
            }
            _ => kill_those_alive(host.session_pids()),
        }
        if victim == "server" {
            client.wait_exit(PATIENCE);
        } else {
            let text = call.tool_result().text;
            assert!(!text.contains("done"), "{victim}: {text}");
            let is_true = text.contains("RUNNING")
                || text.contains("lost (")
                || text.contains("cannot be reached")
                || text.contains("INTERRUPTED")
                || text.contains("KILLED");
            assert!(is_true, "{victim}: {text}");
        }
        let is_connected = victim != "server" && {
            let health = client.call("zsh_health", json!({})).text;
            health.contains("build1: connected")
        };
        // A connection that was not lost holds what it has started.
        if is_connected {
            client.close_stdin();
            client.wait_exit(PATIENCE);
        }
        sleep.assert_gone();
        await_far_sides_gone(&env);
        let runs = fs::read_to_string(&count).unwrap_or_default();
        assert!(runs.is_empty() || runs == "run\n", "{victim}: it ran twice");
    }
    drop(host);
    assert_none_left(env.mark());
}

#[test]
fn whatever_is_killed_at_any_moment_the_command_runs_once_at_most_and_nothing_is_left() {
    kill_at_any_moment(10);
}

/// As a laptop does that sleeps for this time: the carrier only, or all on this side.
pub fn sleep_and_wake(time: Duration, with_server: bool) {
    let (env, _host) = by_ssh(60);
    let client = env.client();
    let sleep = UniqueSleep::new();
    let go_on = env.named_pipe("go-on");
    let command = format!("echo one; read -r < {}; echo two; {sleep}", go_on.display());
    let task = on_host(&client, &command, json!({"until": "one", "yield_after": 25})).task_id();
    await_delivery(&client);
    let mut frozen = vec![carrier(&client).pid];
    if with_server {
        frozen.push(client.server_pid());
    }
    frozen.iter().for_each(|pid| send_signal("STOP", *pid));
    fs::write(&go_on, "\n").expect("the task goes on");
    // Nothing to wait for: this is how long it sleeps.
    std::thread::sleep(time);
    assert_eq!(sleep.running().len(), 1, "the task runs on");
    // The server has ended a carrier that it has found frozen.
    let left = processes_with(env.mark()).into_iter().map(|process| process.pid);
    left.filter(|pid| frozen.contains(pid)).for_each(|pid| send_signal("CONT", pid));
    let polled = wait_until("it is connected", || {
        let polled = client.poll(&task, json!({"listen": 0}));
        (polled.raw["isError"] == json!(false)).then_some(polled)
    });
    assert_eq!(polled.status(), "running", "{}", polled.text);
    assert_eq!(polled.output(), "2: two", "nothing is lost or repeated: {}", polled.text);
    assert!(client.kill_task(&task).text.contains("no survivors"));
    sleep.assert_gone();
}

#[test]
fn the_user_there_is_another_one_and_gets_the_program_sent() {
    let env = Env::new();
    require_root();
    let host = SshHost::start_for(&env, "elsewhere");
    let far = far_home(&env, "far");
    let open = fs::Permissions::from_mode(0o755);
    fs::set_permissions(env.path(""), open).expect("the test's own directory");
    let owner = format!("{NOBODY}:{NOBODY}");
    let given = env.command("chown").args(["-R", &owner]).arg(&far).status();
    assert!(given.expect("chown").success());
    let carrier = host.carrier();
    env.configure(&format!("hosts:\n  build1: {{command: [{carrier}], linger: 2}}\n"));
    let client = env.client();
    let ran =
        on_host(&client, "id -un; id -u; touch made; false | true", json!({"yield_after": 45}));
    assert_eq!(ran.output(), format!("elsewhere\n{NOBODY}"), "{}", ran.text);
    for path in [far.join("made"), installed(&env, "far"), far.join("state")] {
        let owner = fs::metadata(&path).expect("a file of that user").uid();
        assert_eq!(owner.to_string(), NOBODY, "{}", path.display());
    }
    let refused = on_host(&client, "cat /etc/shadow", json!({"yield_after": 25}));
    assert!(refused.text.contains("Permission denied"), "{}", refused.text);
    let sleep = UniqueSleep::new();
    let task = on_host(&client, &format!("(setsid {sleep} &); {sleep}"), json!({"yield_after": 0}))
        .task_id();
    sleep.wait_for(2);
    assert!(client.kill_task(&task).text.contains("no survivors"));
    sleep.assert_gone();
    on_host(&client, &format!("(setsid {sleep} &); {sleep}"), json!({"yield_after": 0}));
    sleep.wait_for(2);
    cut(&client);
    sleep.assert_gone();
    await_far_sides_gone(&env);
}

#[test]
fn a_program_there_that_others_may_change_is_not_run() {
    require_root();
    let env = Env::new();
    let far = far_environment(&env, "far").join(", ");
    let program = installed(&env, "far");
    let folder = program.parent().expect("a folder");
    fs::create_dir_all(folder).expect("a folder");
    let marker = env.path("run-by-others");
    let version = env!("CARGO_PKG_VERSION");
    let plant = |path: &Path, owner: &str, mode: u32| {
        let script = format!("#!/bin/sh\ntouch {}\necho zsh-tool {version}\n", marker.display());
        fs::write(&program, script).expect("a program");
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("a mode");
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("a mode");
        chown(path, Some(owner.parse().expect("a number")), None).expect("another owner");
    };
    let ran_with = |install: &str| {
        env.configure(&format!("hosts: {{build1: {{command: [{far}], install: {install}}}}}\n"));
        on_host(&env.client(), "echo ran", json!({"yield_after": 25}))
    };
    for (owner, mode) in [(NOBODY, 0o755), ("0", 0o757)] {
        plant(&program, owner, mode);
        let refused = ran_with("never");
        assert!(refused.is_error, "{}", refused.text);
        assert!(refused.text.contains("belongs to another user, or others"), "{}", refused.text);
        let ran = ran_with("auto");
        assert_eq!(ran.output(), "ran", "the program was sent: {}", ran.text);
        assert_eq!(fs::metadata(&program).expect("a program").uid(), 0);
    }
    for (owner, mode) in [(NOBODY, 0o755), ("0", 0o777)] {
        plant(folder, owner, mode);
        let refused = ran_with("auto");
        assert!(refused.is_error, "{}", refused.text);
        assert!(refused.text.contains("set binary_directory"), "{}", refused.text);
        chown(folder, Some(0), None).expect("the owner");
    }
    assert!(!marker.exists(), "no program of others has run");
}

#[test]
fn a_task_that_another_version_runs_there_is_listed_polled_and_killed_by_this_one() {
    let env = Env::new();
    let own = env!("CARGO_PKG_VERSION");
    let (head, last) = own.split_at(own.len() - 1);
    // As long, so that nothing moves in the program.
    let other = format!("{head}{}", if last == "9" { "8" } else { "9" });
    let program = env.path("other-version");
    let changed = env
        .command("sed")
        .env("LC_ALL", "C")
        .arg(format!("s/{}/{other}/g; w {}", own.replace('.', "\\."), program.display()))
        .arg(binary())
        .stdout(std::process::Stdio::null())
        .status();
    assert!(changed.expect("sed").success());
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("a program");
    let version = env.command(&program).arg("--version").output().expect("it runs").stdout;
    assert_eq!(String::from_utf8_lossy(&version), format!("zsh-tool {other}\n"));
    let host = SshHost::start(&env);
    let carrier = host.carrier();
    env.configure(&format!("hosts: {{build1: {{command: [{carrier}], linger: 600}}}}\n"));
    let mut serve = env.command(&program);
    serve.arg("serve");
    let before = Client::start(serve, env.path("stderr-before"));
    before.initialize();
    let sleep = UniqueSleep::new();
    let command = format!("echo one; {sleep}");
    let arguments = json!({"until": "one", "yield_after": 45});
    let task = on_host(&before, &command, arguments.clone()).task_id();
    let folder = installed(&env, "far").display().to_string().replace(own, &other);
    assert!(fs::metadata(&folder).is_ok(), "it is installed beside others: {folder}");
    before.kill_server();
    before.wait_exit(PATIENCE);
    let client = env.client();
    let listed = client.call("zsh_tasks", json!({"host": "build1"}));
    assert!(listed.text.starts_with(&task), "{}", listed.text);
    assert!(installed(&env, "far").is_file());
    let polled = client.poll(&task, json!({"listen": 0, "full_output": true}));
    assert_eq!(
        (polled.status(), polled.output()),
        ("running", "1: one".to_owned()),
        "{}",
        polled.text
    );
    assert!(client.kill_task(&task).text.contains("no survivors"));
    sleep.assert_gone();
    // And the other way: the older one reaches what the newer one runs.
    let task = on_host(&client, &command, arguments).task_id();
    client.kill_server();
    client.wait_exit(PATIENCE);
    let mut serve = env.command(&program);
    serve.arg("serve");
    let older = Client::start(serve, env.path("stderr-after"));
    older.initialize();
    let polled = older.poll(&task, json!({"listen": 0, "full_output": true}));
    assert_eq!(polled.status(), "running", "{}", polled.text);
    assert!(older.kill_task(&task).text.contains("no survivors"));
    older.close_stdin();
    older.wait_exit(PATIENCE);
    drop(host);
    assert_none_left(env.mark());
}

#[test]
fn of_much_output_only_what_results_show_crosses() {
    const BYTES: u64 = 200_000_000;
    let (env, _host) = by_ssh(60);
    let client = env.client();
    on_host(&client, "true", json!({"yield_after": 25}));
    let ssh = carrier(&client).pid;
    let crossed = || {
        let counters = fs::read_to_string(format!("/proc/{ssh}/io")).expect("its counters");
        let count = |name: &str| {
            let line = counters.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|count| count.trim().parse::<u64>().ok()).expect("a counter")
        };
        count("rchar:") + count("wchar:")
    };
    let before = crossed();
    let command = format!("yes 0123456789abcdef | head -c {BYTES}; echo; echo end");
    let mut ran = on_host(&client, &command, json!({"yield_after": 50}));
    if ran.status() == "running" {
        ran = client.poll_to_end(&ran.task_id());
    }
    assert_eq!(ran.status(), "completed", "{}", ran.text);
    assert!(ran.output().ends_with("end"), "{}", ran.text);
    let moved = crossed() - before;
    assert!(moved < BYTES / 200, "{moved} bytes");
}

/// A carrier that runs a program here: the far side, and at first the shim, descend from the server.
#[test]
fn a_detached_task_of_a_host_entered_by_a_local_program_outlives_the_server() {
    require_root();
    for (end, enter) in [
        ("EOF", ""),
        ("TERM", "sudo, -n, "),
        ("KILL server", "chroot, /, "),
        ("KILL guard", "unshare, --uts, "),
        ("KILL far side", ""),
        ("KILL both", "sudo, -n, "),
    ] {
        let env = Env::new();
        install(&env, "far");
        let carrier = far_environment(&env, "far").join(", ");
        env.configure(&format!("hosts:\n  build1: {{command: [{enter}{carrier}], linger: 1}}\n"));
        let client = env.client();
        let (bound, kept) = (UniqueSleep::new(), UniqueSleep::new());
        let background = json!({"background": true, "yield_after": 0});
        let begun = on_host(&client, &format!("(setsid {bound} &); {bound}"), background);
        assert!(!begun.is_error, "{}", begun.text);
        bound.wait_for(2);
        let command = format!("(setsid {kept} &); {kept}");
        let started = on_host(&client, &command, json!({"detach": true, "yield_after": 0}));
        assert!(!started.is_error, "{end}: {}", started.text);
        kept.wait_for(2);
        let task = started.task_id();
        await_delivery(&client);
        let health = client.call("zsh_health", json!({}));
        assert!(!health.text.contains("unattributed"), "{}", health.text);
        match end {
            "EOF" => client.close_stdin(),
            "TERM" => client.signal("TERM"),
            "KILL server" => client.kill_server(),
            "KILL guard" => client.signal("KILL"),
            "KILL far side" => {
                let far = far_sides(&env).pop().expect("a far side");
                send_signal("KILL", far.pid);
                client.close_stdin();
            }
            _ => {
                let server = client.server_pid();
                client.signal("KILL");
                kill_those_alive([server]);
            }
        }
        client.wait_exit(PATIENCE);
        bound.assert_gone();
        await_far_sides_gone(&env);
        assert_eq!(kept.running().len(), 2, "{end}");

        let next = env.client();
        let polled = next.poll(&task, json!({"listen": 0}));
        assert_eq!(polled.status(), "running", "{end}: {}", polled.text);
        let killed = next.kill_task(&task);
        assert!(killed.text.contains("no survivors"), "{end}: {}", killed.text);
        kept.assert_gone();
    }
}
