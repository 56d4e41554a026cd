//! Detached tasks: they outlive the server that was asked for them, and later servers continue
//! where it stopped.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use crate::output::on_a_small_disk;
use crate::support::client::{Client, kill_those_alive, send_signal};
use crate::support::env::{Env, binary, unique_word};
use crate::support::processes::{
    Found, UniqueSleep, assert_none_left, descendants_of, guards_and_guarded, processes_with,
    wait_until,
};
use crate::support::program::ran;
use crate::support::result::ToolResult;
use crate::support::state_files::server_files;

const EXIT: Duration = Duration::from_secs(20);

fn detach(client: &Client, command: &str) -> ToolResult {
    client.call("zsh", json!({"command": command, "detach": true}))
}

/// The guard of the shim and the shim.
fn shims(env: &Env) -> Vec<Found> {
    let (guards, shims) = guards_and_guarded(env.mark(), "shim");
    guards.into_iter().chain(shims).collect()
}

/// The shim itself, once it runs.
fn shim(env: &Env) -> Found {
    wait_until("the shim runs", || guards_and_guarded(env.mark(), "shim").1.pop())
}

/// The guard of the shim.
fn shim_guard(env: &Env) -> Found {
    guards_and_guarded(env.mark(), "shim").0.pop().expect("the shim has a guard")
}

fn structured(client: &Client, arguments: Value) -> Value {
    client.call("zsh_tasks", arguments).raw["structuredContent"].clone()
}

#[test]
fn whatever_ends_the_server_the_next_one_continues_the_task() {
    for end in ["EOF", "TERM", "HUP", "KILL server", "KILL guard", "KILL both", "KILL group"] {
        let env = Env::new();
        let first = env.client();
        let sleep = UniqueSleep::new();
        let command = format!("echo one; read a; echo got $a; {sleep}");
        let started = first.call(
            "zsh",
            json!({"command": command, "detach": true, "until": "one", "yield_after": 20}),
        );
        assert!(started.output().starts_with("one"), "{}", started.text);
        let task = started.task_id();
        sleep.wait_for(1);
        // A server that has answered again has told the shim that its first answer was delivered.
        first.call("zsh_tasks", json!({}));
        match end {
            "EOF" => first.close_stdin(),
            "TERM" | "HUP" => first.signal(end),
            "KILL server" => first.kill_server(),
            "KILL guard" => first.signal("KILL"),
            "KILL both" => {
                let server = first.server_pid();
                send_signal("STOP", first.pid());
                send_signal("KILL", server);
                first.signal("KILL");
            }
            // As clients do that end the whole tree.
            _ => {
                let tree = descendants_of(first.pid());
                first.signal("KILL");
                kill_those_alive(tree.into_iter().map(|process| process.pid));
            }
        }
        first.wait_exit(EXIT);
        assert_eq!(sleep.running().len(), 1, "{end}");

        let second = env.client();
        let hello = second.run("echo hello");
        let notice = format!("┌ detached: task '{task}' running for ");
        assert!(hello.text.starts_with(&notice), "{end}: {}", hello.text);
        assert!(!second.run("echo again").text.contains("detached"), "said once");
        let listed = structured(&second, json!({}));
        assert_eq!(listed["detached"][0]["task_id"], json!(task), "{end}: {listed}");
        let polled = second.poll(&task, json!({"listen": 0}));
        assert_eq!(polled.status(), "running", "{}", polled.text);
        assert!(!polled.output().contains("one"), "shown before: {}", polled.text);
        let killed = second.kill_task(&task);
        assert!(killed.text.contains("no survivors"), "{}", killed.text);
        sleep.assert_gone();
        second.close_stdin();
        second.wait_exit(EXIT);
        assert_none_left(env.mark());
    }
}

#[test]
fn without_detach_nothing_outlives_the_server_beside_a_detached_task() {
    let env = Env::new();
    let client = env.client();
    let (bound, kept) = (UniqueSleep::new(), UniqueSleep::new());
    client.start_task(&format!("(setsid {bound} &); {bound}"));
    bound.wait_for(2);
    detach(&client, &kept.to_string());
    kept.wait_for(1);
    client.start_task(&format!("(setsid {bound} &); {bound}"));
    bound.wait_for(4);
    client.kill_server();
    client.wait_exit(EXIT);
    bound.assert_gone();
    assert_eq!(kept.running().len(), 1);
}

#[test]
fn the_shim_is_no_descendant_of_the_server_and_shows_nothing_of_the_command() {
    let env = Env::new();
    let client = env.client();
    let secret = unique_word();
    let started = client.call(
        "zsh",
        json!({"command": "read line; print -r -- \"$line and $GIVEN\"; sleep 30",
            "detach": true, "stdin": format!("{secret}\n"), "env": {"GIVEN": secret}, "until": " and ", "yield_after": 20}),
    );
    assert!(started.text.contains(&format!("{secret} and {secret}")), "{}", started.text);
    let below = descendants_of(client.pid());
    for process in [shim_guard(&env), shim(&env)] {
        assert!(below.iter().all(|child| child.pid != process.pid), "{below:?}");
        assert!(!process.arguments.contains(&secret), "{process:?}");
        assert!(!process.arguments.contains("read line"), "{process:?}");
    }
    for file in server_files(&env, ".json") {
        let text = fs::read_to_string(file).expect("a file");
        assert!(!text.contains(&secret), "{text}");
    }
    client.kill_task(&started.task_id());
}

#[test]
fn the_death_of_a_shim_or_of_its_guard_ends_its_task_and_is_reported_once() {
    for victim in ["shim", "guard", "all"] {
        let env = Env::new();
        let client = env.client();
        let sleep = UniqueSleep::new();
        let task = detach(&client, &format!("(setsid {sleep} &); echo begun; {sleep}")).task_id();
        sleep.wait_for(2);
        let (holder, guard) = (shim(&env), shim_guard(&env));
        match victim {
            "shim" => send_signal("KILL", holder.pid),
            "guard" => send_signal("KILL", guard.pid),
            // As when the machine stops.
            _ => {
                send_signal("STOP", guard.pid);
                send_signal("STOP", holder.pid);
                let below = descendants_of(holder.pid);
                kill_those_alive(below.iter().chain([&holder, &guard]).map(|process| process.pid));
                kill_those_alive(sleep.running().iter().map(|process| process.pid));
            }
        }
        sleep.assert_gone();
        wait_until("the shim is gone", || shims(&env).is_empty().then_some(()));
        let next = env.client();
        let hello = next.run("echo hello");
        let notice = format!("┌ detached: task '{task}' ended ");
        assert!(hello.text.starts_with(&notice), "{victim}: {}", hello.text);
        assert!(!env.client().run("echo other").text.contains(&task), "the first one has said it");
        let polled = next.poll(&task, json!({"full_output": true}));
        assert_eq!(polled.status(), "interrupted", "{}", polled.text);
        assert_eq!(polled.output(), "1: begun", "{}", polled.text);
    }
}

#[test]
fn an_end_that_nobody_saw_is_reported_with_the_rest_of_the_output() {
    let env = Env::new();
    let client = env.client();
    let pipe = env.named_pipe("go");
    let command = "echo one; read -r < go; echo two; print -n three; exit 3";
    let task = detach(&client, command).task_id();
    client.poll(&task, json!({"listen": 0}));
    client.close_stdin();
    client.wait_exit(EXIT);
    fs::write(pipe, "\n").expect("a reader");
    wait_until("the shim is gone", || shims(&env).is_empty().then_some(()));

    let other = env.path("elsewhere");
    fs::create_dir(&other).expect("a directory");
    let mut elsewhere = env.serve();
    elsewhere.current_dir(&other);
    let elsewhere = Client::start(elsewhere, env.path("stderr-elsewhere"));
    elsewhere.initialize();
    assert!(!elsewhere.run("echo hello").text.contains(&task), "it is of another project");

    let next = env.client();
    let hello = next.run("echo hello");
    assert!(hello.text.contains("ago (exit=3)  echo one"), "{}", hello.text);
    let polled = next.poll(&task, json!({}));
    assert_eq!(polled.status(), "failed", "{}", polled.text);
    assert_eq!(polled.output(), "2: two\n3: three", "{}", polled.text);
    assert!(!polled.text.contains("its server"), "{}", polled.text);
    for reader in [&next, &env.client()] {
        let again = reader.poll(&task, json!({}));
        assert!(again.numbered().is_empty(), "{}", again.text);
    }
    let listed = structured(&next, json!({"all": true}));
    assert_eq!(listed["detached"][0]["exit_code"], json!(3), "{listed}");
    assert_eq!(structured(&next, json!({}))["detached"], json!([]));
}

#[test]
fn two_servers_side_by_side_see_each_line_once() {
    let env = Env::new();
    let servers = [env.client(), env.client()];
    let command = "for i in {1..200}; do echo line $i; sleep 0.01; done";
    let started = detach(&servers[0], command);
    let task = started.task_id();
    let mut seen: Vec<String> = started.output().lines().map(str::to_owned).collect();
    let mut turn = servers.iter().cycle();
    loop {
        let polled = turn.next().expect("a server").poll(&task, json!({"listen": 0.1}));
        seen.extend(polled.numbered().into_iter().map(|(_, text)| text));
        if polled.status() == "completed" {
            break;
        }
    }
    let every: Vec<String> = (1..=200).map(|line| format!("line {line}")).collect();
    assert_eq!(seen, every);
}

#[test]
fn a_later_server_greps_and_knows_how_long_such_commands_take() {
    let env = Env::new();
    let first = env.client();
    let pipe = env.named_pipe("go");
    let command = "echo alpha; echo beta; read < go";
    for _ in 0..3 {
        let earlier = first.call("zsh", json!({"command": command, "yield_after": 0})).task_id();
        fs::write(&pipe, "\n").expect("a reader");
        first.poll_to_end(&earlier);
    }
    let task = detach(&first, command).task_id();
    first.close_stdin();
    first.wait_exit(EXIT);
    let second = env.client();
    let found = second.poll(&task, json!({"grep": "^b"}));
    assert_eq!(found.output(), "2: beta", "{}", found.text);
    let waits = second.poll(&task, json!({"listen": 0}));
    assert!(waits.text.contains("◷ "), "{}", waits.text);
    assert!(waits.text.contains("typical "), "{}", waits.text);
    fs::write(&pipe, "\n").expect("a reader");
    assert_eq!(second.poll_to_end(&task).status(), "completed");
}

#[test]
fn a_terminal_is_typed_into_and_shown_by_later_servers() {
    let env = Env::new();
    let first = env.client();
    let started = first
        .call("zsh", json!({"command": "vim -u NONE -i NONE note", "detach": true, "pty": true}));
    let task = started.task_id();
    first.close_stdin();
    first.wait_exit(EXIT);
    let second = env.client();
    second.call("zsh_send", json!({"task_id": task, "keys": ["i"], "input": "", "enter": false}));
    second.call("zsh_send", json!({"task_id": task, "input": "typed later", "enter": false}));
    let screen = second.poll(&task, json!({"screen": true}));
    assert!(screen.text.contains("typed later"), "{}", screen.text);
    second.call("zsh_send", json!({"task_id": task, "keys": ["Escape", ":", "w", "q", "Enter"]}));
    let note =
        wait_until("the file is written", || fs::read_to_string(env.work().join("note")).ok());
    assert_eq!(note, "typed later\n");
}

#[test]
fn a_forgotten_task_is_killed_after_its_hours_and_what_is_wrong_is_refused() {
    let env = Env::new();
    let client = env.client();
    let sleep = UniqueSleep::new();
    let started = client.call(
        "zsh",
        json!({"command": sleep.to_string(), "detach": true, "detached_hours": 0.0003}),
    );
    let ended = client.poll_to_end(&started.task_id());
    assert_eq!(ended.status(), "timeout", "{}", ended.text);
    sleep.assert_gone();
    for (arguments, why) in [
        (json!({"command": "true", "detached_hours": 1}), "pass detach: true"),
        (json!({"command": "true", "detach": true, "detached_hours": -1}), "detached_hours"),
        (json!({"command": "", "detach": true}), "command is empty"),
        (json!({"command": "true", "detach": true, "cwd": "/no/such"}), "/no/such"),
        (json!({"command": "true", "detach": true, "nonsense": 1}), "nonsense"),
    ] {
        let refused = client.call("zsh", arguments);
        assert!(refused.is_error && refused.text.contains(why), "{}", refused.text);
    }
    wait_until("no shim is left", || shims(&env).is_empty().then_some(()));

    let env = Env::new();
    env.configure("allow_detach: false\n");
    let refused = detach(&env.client(), "true");
    assert!(refused.is_error && refused.text.contains("allow_detach"), "{}", refused.text);
}

#[test]
fn a_stopped_shim_is_named() {
    let env = Env::new();
    let client = env.client();
    let task = detach(&client, "echo out; sleep 30").task_id();
    let shim = shim(&env).pid;
    send_signal("STOP", shim);
    let silent = client.poll(&task, json!({"listen": 0}));
    send_signal("CONT", shim);
    assert!(silent.is_error, "{}", silent.text);
    assert!(silent.text.contains(&shim.to_string()), "{}", silent.text);
    assert!(silent.text.contains("stopped"), "{}", silent.text);
    assert!(!client.poll(&task, json!({"listen": 0})).is_error);
    let killed = ran(&env, &["kill", &task]);
    assert_eq!(killed.code, 0, "{killed:?}");
}

#[test]
fn a_call_that_is_cancelled_leaves_nothing() {
    let env = Env::new();
    let client = env.client();
    let sleep = UniqueSleep::new();
    let call = client.call_async(
        "zsh",
        json!({"command": sleep.to_string(), "detach": true, "yield_after": 20}),
    );
    sleep.wait_for(1);
    client.cancel(&call);
    sleep.assert_gone();
    wait_until("no shim is left", || shims(&env).is_empty().then_some(()));
}

#[test]
fn a_task_that_no_other_server_would_find_is_not_started() {
    let env = Env::new();
    let client = on_a_small_disk(&env);
    let state = env.path("state").display().to_string();
    let begun = env.work().join("begun");
    client.run("true");
    for (step, why) in [
        // All of it, and then some pages less.
        (format!("cat /dev/zero > {state}/full; true"), "No space left"),
        (format!("truncate -s -4096 {state}/full"), "No space left"),
        (format!("truncate -s -4096 {state}/full"), ""),
        (format!("truncate -s -4096 {state}/full"), ""),
        (format!("truncate -s -8192 {state}/full"), ""),
        (
            format!(
                "rm {state}/full; mount --bind {state} {state}; mount -o remount,bind,ro {state}"
            ),
            "Read-only",
        ),
        (format!("umount {state}"), ""),
    ] {
        let prepared = client.run(&step);
        assert_eq!(prepared.status(), "completed", "{step}: {}", prepared.text);
        let sleep = UniqueSleep::new();
        let started = detach(&client, &format!("touch {}; {sleep}", begun.display()));
        if started.is_error {
            assert!(started.text.contains("the command was not started"), "{}", started.text);
            assert!(started.text.contains(why), "{step}: {}", started.text);
            assert!(!begun.exists(), "{step}: {}", started.text);
            assert_eq!(structured(&client, json!({}))["detached"], json!([]), "{step}");
        } else {
            assert_eq!(why, "", "{step}: {}", started.text);
            sleep.wait_for(1);
            let task = started.task_id();
            let listed = structured(&client, json!({}));
            assert_eq!(listed["detached"][0]["task_id"], json!(task), "{step}: {listed}");
            let killed = client.kill_task(&task);
            assert!(killed.text.contains("no survivors"), "{step}: {}", killed.text);
            fs::remove_file(&begun).expect("the command has begun");
        }
        wait_until("no shim is left", || shims(&env).is_empty().then_some(()));
        sleep.assert_gone();
    }
    // With room again, it starts.
    let started = detach(&client, "true");
    assert!(!started.is_error, "{}", started.text);
}

/// A library that holds the guard while it starts a shim, as long as the file `hold` exists; `held`
/// says that it does.
fn holding_library(env: &Env) -> PathBuf {
    let (source, library) = (env.path("hold.c"), env.path("hold.so"));
    let text = format!(
        "#define _GNU_SOURCE\n#include <dlfcn.h>\n#include <fcntl.h>\n#include <string.h>\n\
         #include <sys/prctl.h>\n#include <unistd.h>\n\
         pid_t fork(void) {{\n\
           char name[16] = \"\";\n\
           prctl(PR_GET_NAME, name);\n\
           while (strcmp(name, \"ztool-guard\") == 0 && access(\"{hold}\", F_OK) == 0) {{\n\
             close(open(\"{held}\", O_WRONLY | O_CREAT, 0600));\n\
             usleep(1000);\n\
           }}\n\
           return ((pid_t (*)(void))dlsym(RTLD_NEXT, \"fork\"))();\n\
         }}\n",
        hold = env.path("hold").display(),
        held = env.path("held").display(),
    );
    fs::write(&source, text).expect("a source file");
    let compiled =
        Command::new("cc").args(["-shared", "-fPIC", "-o"]).args([&library, &source]).status();
    assert!(compiled.expect("cc, which Rust links with").success());
    library
}

#[test]
fn what_is_started_while_the_guard_is_no_subreaper_ends_with_the_server() {
    let env = Env::new();
    // The static build takes no library: the dynamic one stands for both.
    let mut serve = env.command(env!("CARGO_BIN_EXE_zsh-tool"));
    serve.arg("serve").env("LD_PRELOAD", holding_library(&env));
    let client = Client::start(serve, env.path("stderr"));
    client.initialize();
    let (go, late, early) = (env.named_pipe("go"), UniqueSleep::new(), UniqueSleep::new());
    client.start_task(&format!("setsid zsh -fc 'read < go; setsid {late} &' & {early}"));
    early.wait_for(1);
    fs::write(env.path("hold"), "").expect("a file");
    client.call_async("zsh", json!({"command": "true", "detach": true}));
    wait_until("the guard is held", || env.path("held").exists().then_some(()));
    client.kill_server();
    // Its parent ends with this, and leaves it to the system.
    fs::write(go, "\n").expect("a reader");
    late.wait_for(1);
    assert_eq!(early.running().len(), 1);
    fs::remove_file(env.path("hold")).expect("the file");
    client.wait_exit(EXIT);
    late.assert_gone();
    early.assert_gone();
}

/// Kills one of the processes after a random moment of the start, and then either the task is
/// listed and runs, or nothing of it does; and nothing of another task in any case.
#[test]
fn killed_at_any_moment_of_the_start_the_task_is_listed_or_nothing_runs() {
    const ROUNDS: u32 = 100;
    for round in 0..ROUNDS {
        let env = Env::new();
        let client = env.client();
        let (bound, sleep) = (UniqueSleep::new(), UniqueSleep::new());
        client.start_task(&format!("(setsid {bound} &); {bound}"));
        bound.wait_for(2);
        client.call_async("zsh", json!({"command": sleep.to_string(), "detach": true}));
        // Not a wait for something: the moment is meant to be any.
        std::thread::sleep(Duration::from_micros(u64::from(round) * 700));
        let shim = shims(&env);
        match (round % 4, shim.first(), shim.last()) {
            // The guard ends what the server leaves.
            (1, ..) => client.kill_server(),
            (2, Some(first), _) => send_signal("KILL", first.pid),
            (3, _, Some(last)) => send_signal("KILL", last.pid),
            _ => {}
        }
        if round % 4 != 1 {
            client.signal("KILL");
        }
        client.wait_exit(EXIT);
        bound.assert_gone();
        // What was being started has started, or has given up.
        let listed = wait_until("the task is listed, or nothing runs", || {
            let files = server_files(&env, ".json");
            let detached = files.iter().filter(|file| file.to_string_lossy().contains("/shim-"));
            match (detached.count(), sleep.running().len(), shims(&env).len()) {
                (1, 1, 2) => Some(true),
                (_, 0, 0) => Some(false),
                _ => None,
            }
        });
        if listed {
            let next = env.client();
            let tasks = structured(&next, json!({}));
            // The shim may have learnt only now that nobody waits for its answer.
            if let Some(task) = tasks["detached"][0]["task_id"].as_str() {
                next.kill_task(task);
            }
        }
        sleep.assert_gone();
    }
}

/// Programs that keep the processors busy until this is dropped.
struct Busy(Vec<Child>);

impl Busy {
    fn start(count: u32) -> Busy {
        let busy = || Command::new("sh").args(["-c", "while :; do :; done"]).spawn().expect("sh");
        Busy((0..count).map(|_| busy()).collect())
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        for program in &mut self.0 {
            let _ = program.kill();
            let _ = program.wait();
        }
    }
}

/// Starts a detached task in each round and, at a moment of the start that differs from round to
/// round, kills the server, cancels the call or ends the connection. A command that runs is listed
/// from its beginning; in the end either it is listed, polled and killed, or nothing runs.
pub fn starts_that_are_broken_off(rounds: u32, busy: u32) {
    let _busy = Busy::start(busy);
    let env = Env::new();
    let whole = {
        let client = env.client();
        let started =
            client.call("zsh", json!({"command": "sleep 600", "detach": true, "yield_after": 0}));
        client.kill_task(&started.task_id());
        started.elapsed
    };
    let mut listed = 0;
    for round in 0..rounds {
        let env = Env::new();
        let client = env.client();
        let sleep = UniqueSleep::new();
        let command = format!("(setsid {sleep} &); {sleep}");
        let call =
            client.call_async("zsh", json!({"command": command, "detach": true, "yield_after": 0}));
        // Not a wait for something: the moment is meant to be any.
        std::thread::sleep(whole * (round * 37 % 100) / 75);
        match round % 5 {
            0 => client.kill_server(),
            1 => client.signal("KILL"),
            2 => {
                let server = client.server_pid();
                client.signal("KILL");
                kill_those_alive([server]);
            }
            3 => client.close_stdin(),
            _ => client.cancel(&call),
        }
        client.close_stdin();
        client.wait_exit(EXIT);
        let is_listed = wait_until("the task is listed, or nothing runs", || {
            let (running, shims) = (sleep.running().len(), shims(&env).len());
            // Looked for after the command.
            let files = server_files(&env, ".json");
            let files = files.iter().filter(|file| file.to_string_lossy().contains("/shim-"));
            let is_listed = files.count() == 1;
            assert!(running == 0 || is_listed, "round {round}: it runs, and is not listed");
            match (running, shims) {
                (2, 2) => Some(true),
                // Nor is one about to be started.
                (0, 0) if processes_with(env.mark()).is_empty() => Some(false),
                _ => None,
            }
        });
        let next = env.client();
        let tasks = structured(&next, json!({}));
        // A shim that has learnt only now that its answer has no reader may have ended the task.
        if let Some(task) = tasks["detached"][0]["task_id"].as_str() {
            assert!(is_listed, "round {round}: {tasks}");
            listed += 1;
            let polled = next.poll(task, json!({"listen": 0}));
            assert!(!polled.is_error, "round {round}: {}", polled.text);
            next.kill_task(task);
        }
        sleep.assert_gone();
        wait_until("no shim is left", || shims(&env).is_empty().then_some(()));
    }
    eprintln!("{listed} of {rounds} were listed");
}

#[test]
fn a_start_that_is_broken_off_at_any_moment_leaves_a_listed_task_or_nothing() {
    starts_that_are_broken_off(10, 4);
}

#[test]
fn twenty_at_once_are_listed_polled_and_killed() {
    let env = Env::new();
    let client = env.client();
    let sleep = UniqueSleep::new();
    let calls: Vec<_> = (0..20)
        .map(|number| {
            let command = format!("echo number {number}; {sleep}");
            client.call_async("zsh", json!({"command": command, "detach": true}))
        })
        .collect();
    let tasks: Vec<String> = calls.into_iter().map(|call| call.tool_result().task_id()).collect();
    sleep.wait_for(20);
    client.close_stdin();
    client.wait_exit(EXIT);
    let next = env.client();
    let listed = structured(&next, json!({}));
    assert_eq!(listed["detached"].as_array().map(Vec::len), Some(20), "{listed}");
    for (number, task) in tasks.iter().enumerate() {
        let polled = next.poll(task, json!({"full_output": true, "listen": 0}));
        assert_eq!(polled.output(), format!("1: number {number}"), "{}", polled.text);
        next.kill_task(task);
    }
    sleep.assert_gone();
}

/// A shim that is started with a lease, as for another host: `zsh-tool shim` with the call on
/// stdin.
#[test]
fn a_shim_with_a_lease_ends_its_task_when_no_process_is_connected_any_more() {
    let env = Env::new();
    let sleep = UniqueSleep::new();
    let (near, far) = UnixStream::pair().expect("a pair of sockets");
    let mut command = env.command(binary());
    command.arg("shim").stdin(OwnedFd::from(far)).stdout(Stdio::null());
    let mut shim = command.spawn().expect("the program starts");
    // Its end of the socket goes with the command.
    drop(command);
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
        "name": "zsh",
        "arguments": {"command": sleep.to_string(), "detach": true},
        "_meta": {"zsh-tool/relay": {"lease_s": 0.5}},
    }});
    let delivered =
        json!({"jsonrpc": "2.0", "method": "zsh-tool/delivered", "params": {"requestId": 1}});
    writeln!(&near, "{call}").expect("room");
    let mut answer = String::new();
    BufReader::new(&near).read_line(&mut answer).expect("an answer");
    assert!(answer.contains("RUNNING"), "{answer}");
    sleep.wait_for(1);
    writeln!(&near, "{delivered}").expect("room");
    let socket = wait_until("there is a control socket", || {
        server_files(&env, "control.sock")
            .into_iter()
            .find(|path| UnixStream::connect(path).is_ok())
    });
    // Connections without a valid request do not count.
    let idle = UnixStream::connect(&socket).expect("a connection");
    let garbage = UnixStream::connect(&socket).expect("a connection");
    writeln!(&garbage, "garbage").expect("room");
    writeln!(&garbage, "{}", json!({"jsonrpc": "2.0", "id": 1, "method": "no"})).expect("room");
    let connected = UnixStream::connect(&socket).expect("a connection");
    writeln!(&connected, "{}", json!({"jsonrpc": "2.0", "id": 1, "method": "ping"})).expect("room");
    drop(near);
    // Longer than the lease, which is what is to be shown.
    std::thread::sleep(Duration::from_millis(1_500));
    assert_eq!(sleep.running().len(), 1, "a process is connected");
    drop(connected);
    sleep.assert_gone();
    drop((idle, garbage));
    shim.wait().expect("the end of the shim");
}

/// What another version writes and reads: keys that this one does not know, and none of its own.
#[test]
fn a_shim_of_another_version_is_listed_polled_and_killed() {
    let env = Env::new();
    let client = env.client();
    let sleep = UniqueSleep::new();
    let command = format!("echo one; {sleep}");
    let started = client.call(
        "zsh",
        json!({"command": command, "detach": true, "until": "one", "yield_after": 20}),
    );
    let task = started.task_id();
    let file =
        wait_until("its file is written", || server_files(&env, &format!("{task}.json")).pop());
    send_signal("STOP", shim(&env).pid);
    let text = fs::read(&file).expect("the file");
    let mut entry: Value = serde_json::from_slice(&text).expect("JSON");
    let members = entry.as_object_mut().expect("an object");
    members.insert("of_a_later_version".to_owned(), json!({"x": 1}));
    for name in ["shown", "attached", "probed", "leftovers"] {
        members.remove(name);
    }
    fs::write(&file, entry.to_string()).expect("the file");
    let next = env.client();
    assert_eq!(structured(&next, json!({}))["detached"][0]["task_id"], json!(task));
    send_signal("CONT", shim(&env).pid);
    let polled = next.poll(&task, json!({"full_output": true, "listen": 0}));
    assert_eq!(polled.output(), "1: one", "{}", polled.text);
    let killed = next.kill_task(&task);
    assert!(killed.text.contains("no survivors"), "{}", killed.text);
    sleep.assert_gone();
}
