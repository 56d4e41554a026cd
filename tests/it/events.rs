//! `zsh-tool events` and `zsh-tool hook stop`: what an agent would otherwise poll for is said once.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::client::{Client, PATIENCE, send_signal};
use crate::support::env::{Env, binary, unique_word};
use crate::support::oneshot::{Runs, says, verdict};
use crate::support::processes::{UniqueSleep, assert_none_left, processes_with, wait_until};
use crate::support::program::{Finished, Program, ran, run_with_input, zsh_tool};
use crate::support::state_files::{await_end, server_files};

/// A program that asks on a terminal as soon as it may.
const ASKS: &str = "read < go; read 'a?Your name: '";

fn background(client: &Client, command: &str, more: Value) -> String {
    let mut arguments = json!({"command": command, "background": true});
    for (name, value) in more.as_object().expect("arguments") {
        arguments[name] = value.clone();
    }
    client.call("zsh", arguments).task_id()
}

/// A task that ends with `exit=3` when the pipe is written to.
fn ends_later(client: &Client) -> String {
    background(client, "read < go; for n in {1..4}; do echo line $n; done; exit 3", json!({}))
}

fn go(env: &Env) {
    fs::write(env.work().join("go"), "\n").expect("a reader");
}

/// Lets the task end and waits until its file says so.
fn let_end(env: &Env, task: &str) {
    go(env);
    await_end(env, task);
}

fn follower(env: &Env, more: &[&str]) -> Program {
    let arguments = [&["events", "--follow", "--json"], more].concat();
    Program::start(zsh_tool(env, &arguments))
}

fn next(follower: &mut Program) -> Value {
    let line = follower.read_line();
    serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"))
}

/// Waits until it has acknowledged what it has printed, which it does before it sleeps. What is not
/// acknowledged is pending again.
fn await_acknowledgement(follower: &Program) {
    let stat = format!("/proc/{}/stat", follower.id());
    wait_until("it sleeps", || {
        let stat = fs::read_to_string(&stat).expect("it is alive");
        stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('S')).then_some(())
    });
}

/// What it prints until its end, which is now.
fn rest(follower: Program) -> String {
    await_acknowledgement(&follower);
    follower.signal("TERM");
    follower.finish().text()
}

/// What is pending, as lines.
fn pending(env: &Env) -> String {
    let finished = ran(env, &["events"]);
    assert_eq!((finished.code, finished.stderr.as_str()), (0, ""), "{finished:?}");
    finished.text()
}

fn hook(env: &Env, input: &str) -> Finished {
    run_with_input(zsh_tool(env, &["hook", "stop"]), input.as_bytes().to_vec())
}

#[test]
fn each_kind_of_event_is_one_line() {
    let env = Env::new();
    let client = env.client();
    env.named_pipe("go");
    let mut follower = follower(&env, &[]);

    let task = ends_later(&client);
    go(&env);
    let ended = next(&mut follower);
    assert_eq!(ended["event"], "ended", "{ended}");
    assert_eq!(ended["task_id"], json!(task), "{ended}");
    assert_eq!(ended["exit_code"], 3, "{ended}");
    assert_eq!(ended["status"], "failed", "{ended}");
    assert_eq!(ended["tail"], json!(["line 2", "line 3", "line 4"]), "{ended}");
    assert!(ended["duration_ms"].is_u64(), "{ended}");

    for (command, wants, prompt) in [
        (ASKS, "input", json!("Your name:")),
        ("read < go; read -s 'a?Password: '", "password", json!("Password:")),
        // The last line of a screen is no prompt.
        ("read < go; vim -u NONE -i NONE", "input", json!(null)),
    ] {
        let task = background(&client, command, json!({"pty": true}));
        go(&env);
        let waits = next(&mut follower);
        assert_eq!(waits["event"], "waiting", "{waits}");
        assert_eq!(waits["task_id"], json!(task), "{waits}");
        assert_eq!(waits["wants"], wants, "{waits}");
        assert_eq!(waits["prompt"], prompt, "{waits}");
        let by_person =
            (wants == "password").then(|| format!("A person can answer: zsh-tool attach {task}"));
        assert_eq!(waits["person"], json!(by_person), "{waits}");
        client.kill_task(&task);
    }

    let task = background(&client, "read < go; kill -STOP $$", json!({}));
    go(&env);
    let stopped = next(&mut follower);
    assert_eq!(stopped["event"], "stopped", "{stopped}");
    assert_eq!(stopped["task_id"], json!(task), "{stopped}");
    client.kill_task(&task);

    let locks = "import threading; l = threading.Lock(); l.acquire(); l.acquire()";
    let task = background(&client, &format!("python3 -c '{locks}'"), json!({}));
    let stuck = next(&mut follower);
    assert_eq!(stuck["event"], "stuck", "{stuck}");
    let reason = stuck["reason"].as_str().unwrap_or_default();
    assert!(reason.starts_with("stuck: likely deadlock"), "{stuck}");
    client.kill_task(&task);

    let sleep = UniqueSleep::new();
    let task = background(&client, &format!("read < go; {sleep} & echo left"), json!({}));
    go(&env);
    let ended = next(&mut follower);
    assert_eq!((&ended["event"], &ended["leftovers"]), (&json!("ended"), &json!(1)), "{ended}");
    for process in sleep.running() {
        send_signal("KILL", process.pid);
    }
    let gone = next(&mut follower);
    assert_eq!(gone["event"], "leftovers_gone", "{gone}");
    assert_eq!(gone["task_id"], json!(task), "{gone}");
    assert_eq!(rest(follower), "");
    assert_eq!(pending(&env), "");
}

#[test]
fn nothing_is_said_twice_by_two_followers_or_after_a_restart() {
    const TASKS: usize = 8;
    let env = Env::new();
    let client = env.client();
    let said = env.path("said");
    let followers = [0, 1].map(|_| {
        let mut command = env.command("sh");
        let follow =
            format!("exec {} events --follow --json >>{}", binary().display(), said.display());
        command.args(["-c", &follow]);
        Program::start(command)
    });
    let sleep = UniqueSleep::new();
    for _ in 0..TASKS {
        background(&client, &sleep.to_string(), json!({}));
    }
    sleep.wait_for(TASKS);
    for process in sleep.running() {
        send_signal("TERM", process.pid);
    }
    let lines = || fs::read_to_string(&said).unwrap_or_default();
    wait_until("all is said", || (lines().lines().count() >= TASKS).then_some(()));
    assert_eq!(pending(&env), "");
    for follower in followers {
        assert_eq!(rest(follower), "");
    }
    let mut ids: Vec<String> = lines()
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("JSON"))
        .map(|event| event["task_id"].as_str().expect("an id").to_owned())
        .collect();
    ids.sort();
    ids.dedup();
    assert_eq!((ids.len(), lines().lines().count()), (TASKS, TASKS), "{}", lines());

    // Without a follower it stays pending, until one look.
    env.named_pipe("go");
    let task = ends_later(&client);
    let_end(&env, &task);
    let first = pending(&env);
    assert!(first.starts_with(&format!("task {task} ended (exit=3, ")), "{first}");
    assert!(first.contains("it printed last: \"line 2\", \"line 3\", \"line 4\""), "{first}");
    assert_eq!(first.lines().count(), 1, "{first}");
    assert_eq!(pending(&env), "");
}

#[test]
fn what_events_say_is_no_notice_and_what_a_notice_says_is_no_event() {
    let env = Env::new();
    let client = env.client();
    env.named_pipe("go");
    let said = ends_later(&client);
    let_end(&env, &said);
    assert!(pending(&env).contains(&said));
    let next = client.run("echo next");
    assert!(!next.text.contains("┌ notify"), "{}", next.text);

    let noticed = ends_later(&client);
    let_end(&env, &noticed);
    let next = client.run("echo next");
    assert!(next.text.contains(&format!("┌ notify: task '{noticed}'")), "{}", next.text);
    assert_eq!(pending(&env), "");

    // The output of a task whose end was an event is still new.
    let polled = client.poll(&said, json!({}));
    assert!(polled.output().contains("line 4"), "{}", polled.text);
}

#[test]
fn what_calls_answer_wakes_nothing() {
    let env = Env::new();
    let client = env.client();
    env.named_pipe("go");
    for _ in 0..5 {
        client.run("true");
    }
    let polled = ends_later(&client);
    go(&env);
    client.poll_to_end(&polled);
    // A call is about it while it ends.
    let awaited = ends_later(&client);
    let poll =
        client.call_async("zsh_poll", json!({"task_id": awaited, "wait_for": "end", "listen": 25}));
    go(&env);
    poll.tool_result();
    // The answer says that it waits.
    let asks = client
        .call("zsh", json!({"command": "read 'a?Your name: '", "pty": true, "yield_after": 25}));
    assert!(asks.text.contains("WAITING FOR INPUT"), "{}", asks.text);
    assert_eq!(pending(&env), "");
    let killed = ends_later(&client);
    client.kill_task(&killed);
    assert_eq!(pending(&env), "");
    // The person has interrupted the call, or the client has.
    for reason in [None, Some("AbortError: user-cancel")] {
        let command = "read < go";
        let call = client.call_async("zsh", json!({"command": command, "yield_after": 40}));
        let task = wait_until("it runs", || {
            let tasks = client.call("zsh_tasks", json!({}));
            let row = &tasks.raw["structuredContent"]["tasks"][0];
            (row["command"] == command).then(|| row["task_id"].as_str().map(str::to_owned))?
        });
        let mut params = json!({"requestId": call.id()});
        if let Some(reason) = reason {
            params["reason"] = json!(reason);
        }
        client.notify("notifications/cancelled", params);
        await_end(&env, &task);
        assert_eq!(pending(&env), "");
        // The model is told by its next call, which it makes anyway.
        let next = client.run("echo next");
        let said = format!("┌ notify: task '{task}' was killed");
        assert!(next.text.contains(&said), "{}", next.text);
    }
}

#[test]
fn the_events_of_other_clients_are_left_to_them() {
    let env = Env::new();
    let own = env.client();
    // Its parent is a shell, which is none of the ancestors of `events`.
    let mut below = env.command("sh");
    below.arg("-c").arg(format!("{} serve; :", binary().display()));
    let other = Client::start(below, env.path("stderr-other"));
    other.initialize();
    env.named_pipe("go");
    let theirs = ends_later(&other);
    let_end(&env, &theirs);
    let ours = ends_later(&own);
    let_end(&env, &ours);
    let said = ran(&env, &["events", "--of-client"]).text();
    assert!(said.contains(&ours) && !said.contains(&theirs), "{said}");
    let rest = pending(&env);
    assert!(rest.contains(&theirs) && !rest.contains(&ours), "{rest}");
}

#[test]
fn detached_tasks_of_the_project_are_followed_across_servers_and_after_their_shims() {
    let env = Env::new();
    let client = env.client();
    env.named_pipe("go");
    let detach = |command: &str| {
        client.call("zsh", json!({"command": command, "detach": true, "pty": true})).task_id()
    };
    let mut follower = follower(&env, &["--of-client"]);
    let asks = detach(ASKS);
    go(&env);
    let waits = next(&mut follower);
    assert_eq!(waits["event"], "waiting", "{waits}");
    assert_eq!(waits["task_id"], json!(asks), "{waits}");
    client.close_stdin();
    client.wait_exit(PATIENCE);
    assert_eq!(ran(&env, &["send", &asks, "Ada"]).code, 0);
    let ended = next(&mut follower);
    assert_eq!((&ended["event"], &ended["exit_code"]), (&json!("ended"), &json!(0)), "{ended}");
    assert_eq!(ended["task_id"], json!(asks), "{ended}");
    let hello = env.client().run("echo hello");
    assert!(!hello.text.contains(&asks), "{}", hello.text);

    // Its shim lives as long as what it leaves behind.
    let server = env.client();
    let sleep = UniqueSleep::new();
    let left = format!("read < go; {sleep} & echo left");
    let left = server.call("zsh", json!({"command": left, "detach": true})).task_id();
    go(&env);
    let ended = next(&mut follower);
    assert_eq!((&ended["event"], &ended["leftovers"]), (&json!("ended"), &json!(1)), "{ended}");
    assert_eq!(ended["task_id"], json!(left), "{ended}");
    for process in sleep.running() {
        send_signal("KILL", process.pid);
    }
    let gone = next(&mut follower);
    assert_eq!(gone["event"], "leftovers_gone", "{gone}");
    drop(server);

    // Nothing follows: it is said by the first look, or by the first server.
    assert_eq!(rest(follower), "");
    for by_server in [false, true] {
        let client = env.client();
        let command = "read < go; echo done";
        let task = client.call("zsh", json!({"command": command, "detach": true})).task_id();
        go(&env);
        wait_until("the shim is gone", || {
            let is_shim = |arguments: &str| arguments.starts_with("zsh-tool shim");
            let processes = processes_with(env.mark());
            processes.iter().all(|process| !is_shim(&process.arguments)).then_some(())
        });
        let elsewhere = {
            let mut command = zsh_tool(&env, &["events", "--of-client"]);
            command.current_dir(env.path("home"));
            crate::support::program::run(command)
        };
        assert_eq!(elsewhere.text(), "", "of another project");
        let server = env.client();
        let (first, then) = if by_server {
            (server.run("echo hello").text, pending(&env))
        } else {
            (pending(&env), server.run("echo hello").text)
        };
        assert!(first.contains(&task), "{first}");
        assert!(!then.contains(&task), "{then}");
    }
    assert_none_left(env.mark());
}

#[test]
fn a_deaf_reader_holds_nothing_up_and_keeps_nothing() {
    let env = Env::new();
    let client = env.client();
    env.named_pipe("go");
    let mut deaf = follower(&env, &[]);
    let first = ends_later(&client);
    go(&env);
    assert_eq!(next(&mut deaf)["task_id"], json!(first));
    await_acknowledgement(&deaf);
    deaf.signal("STOP");

    let second = ends_later(&client);
    let begun = Instant::now();
    let_end(&env, &second);
    let third = client.run("echo quick");
    assert!(third.text.contains("exit=0"), "{}", third.text);
    assert!(begun.elapsed() < PATIENCE, "{:?}", begun.elapsed());
    let mut other = follower(&env, &[]);
    // The notice of that call has said it, or it is an event for the other reader.
    if !third.text.contains(&second) {
        assert_eq!(next(&mut other)["task_id"], json!(second));
    }
    let fourth = ends_later(&client);
    go(&env);
    // The stopped one may have been given it first.
    assert_eq!(next(&mut other)["task_id"], json!(fourth));
    deaf.signal("CONT");
    deaf.signal("TERM");
    assert_eq!(deaf.finish().text(), "");
    assert_eq!(rest(other), "");
    assert_eq!(pending(&env), "");
}

#[test]
fn followers_end_with_their_reader_and_outlive_servers() {
    let env = Env::new();
    let mut follower = follower(&env, &[]);
    for _ in 0..2 {
        let client = env.client();
        env.named_pipe("go");
        let task = ends_later(&client);
        go(&env);
        assert_eq!(next(&mut follower)["task_id"], json!(task));
        fs::remove_file(env.work().join("go")).expect("the pipe");
        client.close_stdin();
        client.wait_exit(PATIENCE);
    }
    follower.close_stdout();
    assert_eq!(follower.finish_with_stdin_open().code, 141);
    assert_none_left(env.mark());
}

#[test]
fn text_is_one_line_with_secrets_redacted() {
    let env = Env::new();
    let client = env.client();
    env.named_pipe("go");
    let command =
        "read < go; print 'password=hunter2-very-secret'; print -n 'a\\e[2Jb\\tc\\u202e'; exit 1";
    let task = background(&client, command, json!({}));
    let_end(&env, &task);
    let said = pending(&env);
    assert_eq!(said.lines().count(), 1, "{said:?}");
    assert!(!said.contains("hunter2"), "{said:?}");
    assert!(!said.trim_end().contains(char::is_control), "{said:?}");
    assert!(!said.contains('\u{202e}'), "{said:?}");
}

#[test]
fn the_stop_hook_holds_up_a_first_stop_while_something_is_pending() {
    let env = Env::new();
    let client = env.client();
    env.named_pipe("go");
    let stop = r#"{"hook_event_name": "Stop", "stop_hook_active": false}"#;
    let quiet = |input: &str| {
        let finished = hook(&env, input);
        assert_eq!((finished.code, finished.text().as_str()), (0, ""), "{input}: {finished:?}");
    };
    quiet(stop);
    let task = ends_later(&client);
    quiet(stop);
    let_end(&env, &task);
    for input in ["", "garbage", "[]", "\u{0}", r#"{"stop_hook_active": true}"#] {
        quiet(input);
    }
    let held = hook(&env, stop);
    assert_eq!(held.code, 0, "{held:?}");
    let answer: Value = serde_json::from_slice(&held.stdout).expect("JSON");
    assert_eq!(answer["decision"], "block", "{answer}");
    let reason = answer["reason"].as_str().expect("a reason");
    assert!(reason.starts_with(&format!("task {task} ended (exit=3")), "{reason}");
    assert!(reason.ends_with(&format!("read it with zsh_poll task_id={task}")), "{reason}");
    quiet(stop);
    assert!(!client.run("echo next").text.contains("┌ notify"), "the hook has said it");
}

#[test]
fn a_wait_that_prints_meanwhile_is_said_once() {
    let env = Env::new();
    let client = env.client();
    env.named_pipe("go");
    env.named_pipe("draw");
    let mut follower = follower(&env, &[]);
    let command = concat!(
        r"read < go; { while read -r; do print -n '\r\e[KName: '; done < draw } & ",
        "read 'a?Name: '",
    );
    let task = background(&client, command, json!({"pty": true}));
    go(&env);
    let mut draw =
        fs::OpenOptions::new().write(true).open(env.work().join("draw")).expect("a reader");
    let waits = next(&mut follower);
    assert_eq!((&waits["event"], &waits["task_id"]), (&json!("waiting"), &json!(task)), "{waits}");
    let output =
        wait_until("its output is in a file", || server_files(&env, &format!("{task}.0")).pop());
    for _ in 0..3 {
        let before = fs::metadata(&output).expect("its output").len();
        draw.write_all(b"\n").expect("a reader");
        wait_until("it prints, and waits again", || {
            let file = server_files(&env, &format!("{task}.json")).pop()?;
            let entry: Value = serde_json::from_slice(&fs::read(file).ok()?).ok()?;
            let printed = fs::metadata(&output).ok()?.len() > before;
            (printed && !entry["probed"]["waiting"].is_null()).then_some(())
        });
    }
    let marker = ends_later(&client);
    go(&env);
    let ended = next(&mut follower);
    assert_eq!((&ended["event"], &ended["task_id"]), (&json!("ended"), &json!(marker)), "{ended}");
    assert_eq!(rest(follower), "");
    client.kill_task(&task);
}

const STOP: &str = r#"{"hook_event_name": "Stop", "stop_hook_active": false}"#;

#[test]
fn what_the_stop_hook_cannot_print_stays_pending() {
    let env = Env::new();
    let client = env.client();
    // The shim of the last one ends with it, so that it is reported from files.
    let tasks = [false, false, true].map(|detach| {
        let command = format!("read < {}; exit 4", env.named_pipe(&unique_word()).display());
        background(&client, &command, json!({"detach": detach}))
    });
    for pipe in fs::read_dir(env.work()).expect("the pipes") {
        fs::write(pipe.expect("a pipe").path(), "\n").expect("a reader");
    }
    for task in &tasks[..2] {
        await_end(&env, task);
    }
    wait_until("the shim is gone", || {
        let processes = processes_with(env.mark());
        let is_shim = |arguments: &str| arguments.starts_with("zsh-tool shim");
        (!processes.iter().any(|process| is_shim(&process.arguments))).then_some(())
    });
    let mut deaf = Program::start(zsh_tool(&env, &["hook", "stop"]));
    deaf.close_stdout();
    let mut stdin = deaf.stdin.take().expect("a piped stdin");
    stdin.write_all(STOP.as_bytes()).expect("room");
    drop(stdin);
    assert_eq!(deaf.finish().code, 141);

    // The owner may need a moment until it knows that the first hook is gone.
    let mut reasons = String::new();
    wait_until("all are reported", || {
        let held = hook(&env, STOP);
        if !held.stdout.is_empty() {
            let answer: Value = serde_json::from_slice(&held.stdout).expect("JSON");
            reasons.push_str(answer["reason"].as_str().expect("a reason"));
            reasons.push('\n');
        }
        tasks.iter().all(|task| reasons.contains(task)).then_some(())
    });
    assert_eq!(reasons.lines().count(), tasks.len(), "{reasons}");
    assert_eq!(hook(&env, STOP).text(), "");
}

#[test]
fn frozen_owners_hold_up_neither_the_hook_nor_the_events_of_others() {
    let env = Env::new();
    let client = env.client();
    env.named_pipe("go");
    let mut follower = follower(&env, &[]);
    // Both are connected once they have brought something.
    let others = [0, 1].map(|_| {
        let other = env.client();
        let task = ends_later(&other);
        go(&env);
        assert_eq!(next(&mut follower)["task_id"], json!(task));
        other
    });
    let frozen = ends_later(&others[0]);
    let_end(&env, &frozen);
    assert_eq!(next(&mut follower)["task_id"], json!(frozen));
    for other in &others {
        send_signal("STOP", other.server_pid());
    }
    let ours = ends_later(&client);
    go(&env);
    assert_eq!(next(&mut follower)["task_id"], json!(ours));
    assert_eq!(rest(follower), "");

    let ours = ends_later(&client);
    let_end(&env, &ours);
    let begun = Instant::now();
    let held = hook(&env, STOP);
    // One that answers gets longer than a frozen one, which gets a second.
    assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
    assert!(held.text().contains(&ours), "{held:?}");
    for other in &others {
        send_signal("CONT", other.server_pid());
    }
}

#[test]
fn what_a_person_sees_is_pending_when_the_person_has_left() {
    let env = Env::new();
    let client = env.client();
    env.named_pipe("go");
    let task = background(&client, ASKS, json!({"pty": true}));
    let socket = wait_until("other processes can know of it", || {
        let socket = server_files(&env, "control.sock").pop()?;
        let known = !server_files(&env, &format!("{task}.json")).is_empty();
        known.then_some(socket)
    });
    let mut person = UnixStream::connect(socket).expect("a connection");
    let params = json!({"task_id": task, "size": {"rows": 24, "cols": 80}});
    let request = json!({"jsonrpc": "2.0", "id": 1, "method": "zsh-tool/attach", "params": params});
    writeln!(person, "{request}").expect("room");
    let mut answer = String::new();
    BufReader::new(&person).read_line(&mut answer).expect("an answer");
    assert!(answer.contains("zsh-tool/state"), "{answer}");
    go(&env);
    wait_until("it waits for input", || {
        let listed = ran(&env, &["tasks", "--json"]).text();
        listed.lines().any(|line| line.contains(&task) && line.contains("Your name:")).then_some(())
    });
    assert_eq!(pending(&env), "");
    drop(person);
    let said = wait_until("the person has left", || {
        let said = pending(&env);
        (!said.is_empty()).then_some(said)
    });
    assert!(said.contains(&task) && said.contains("Your name:"), "{said}");
}

/// A worker that never ends at its first start, and has a result at its second.
fn hangs_once() -> Value {
    json!([[{"init": 1}, {"touch": "begun"}, {"wait": "never"}, {"result": "x"}], says("the work")])
}

fn await_worker(runs: &Runs) {
    let begun = runs.env.work().join("begun");
    wait_until("the worker has begun", || begun.exists().then_some(()));
}

#[test]
fn each_end_of_a_run_is_said_once_also_of_one_that_was_killed() {
    let runs = Runs::working(hangs_once());
    let mut follower = follower(&runs.env, &[]);
    let runner = runs.start(&["make it"]);
    await_worker(&runs);
    assert_eq!(pending(&runs.env), "", "a run that is live has no event");
    runner.signal("INT");
    assert_eq!(runner.finish().code, 130);
    let paused = next(&mut follower);
    let id = runs.id();
    assert_eq!(paused["event"], "run_ended", "{paused}");
    assert_eq!(paused["oneshot_id"], json!(id), "{paused}");
    assert_eq!(paused["state"], "INTERRUPTED", "{paused}");
    assert_eq!(paused["reason"], "signal:2", "{paused}");
    assert_eq!(paused["exit_code"], 130, "{paused}");
    assert_eq!(paused["is_resumable"], true, "{paused}");
    assert_eq!(paused["prompt"], "make it", "{paused}");

    let ended = runs.ran(&["--resume", &id]);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    let completed = next(&mut follower);
    assert_eq!(completed["oneshot_id"], json!(id), "{completed}");
    assert_eq!(completed["state"], "COMPLETED", "{completed}");
    assert_eq!(completed["is_resumable"], false, "{completed}");

    runs.script(json!({"worker": hangs_once(), "auditor": [verdict("DONE", "")]}));
    fs::remove_file(runs.env.work().join("begun")).expect("it was begun");
    fs::remove_dir_all(runs.env.path("notes")).expect("notes");
    fs::create_dir(runs.env.path("notes")).expect("a folder");
    let runner = runs.start(&["make another"]);
    await_worker(&runs);
    runner.signal("KILL");
    let killed = next(&mut follower);
    assert_eq!(killed["state"], "WORKER_EXECUTING", "{killed}");
    assert_eq!(killed["exit_code"], json!(null), "{killed}");
    assert_eq!(killed["is_resumable"], true, "{killed}");
    runner.finish();
    assert_eq!(pending(&runs.env), "");
    let id = killed["oneshot_id"].as_str().expect("an id");
    let stopped = runs.ran(&["stop", id]);
    assert_eq!(stopped.code, 0, "{}", stopped.stderr);
    assert_eq!(rest(follower), "");
}

#[test]
fn the_line_of_a_run_says_what_to_do_next() {
    let runs = Runs::working(hangs_once());
    let runner = runs.start(&["make it\nnow"]);
    await_worker(&runs);
    runner.signal("TERM");
    runner.finish();
    let id = runs.id();
    assert_eq!(
        pending(&runs.env),
        format!(
            "run {id} is INTERRUPTED (signal:15), iteration 1  \"make it now\"  |  zsh-tool \
             oneshot --resume {id} continues it\n"
        )
    );
    assert_eq!(runs.ran(&["--resume", &id]).code, 0);
    assert_eq!(
        pending(&runs.env),
        format!(
            "run {id} is COMPLETED, iteration 1  \"make it now\"  |  zsh-tool oneshot show {id}\n"
        )
    );
    assert_eq!(pending(&runs.env), "");
}

#[test]
fn a_hook_tells_of_the_runs_of_its_project_outside_of_tasks() {
    let runs = Runs::working(json!([says("the work")]));
    let mut within = runs.command(&["in a task"]);
    within.env("ZSH_TOOL_TASK", "server/task");
    assert_eq!(crate::support::program::run(within).code, 0);
    assert_eq!(pending(&runs.env), "", "the task's own end says it");
    assert_eq!(runs.ran(&["make it"]).code, 0);
    let elsewhere = || {
        let mut command = zsh_tool(&runs.env, &["events", "--of-client"]);
        command.env("CLAUDE_PROJECT_DIR", runs.env.path("home"));
        crate::support::program::run(command).text()
    };
    assert_eq!(elsewhere(), "");
    // A hook whose answer was lost has told nothing.
    let input = runs.env.path("stop.json");
    fs::write(&input, STOP).expect("a file");
    let mut lost = zsh_tool(&runs.env, &["hook", "stop"]);
    lost.env("CLAUDE_PROJECT_DIR", runs.env.work());
    lost.stdin(fs::File::open(&input).expect("the file"));
    lost.stdout(fs::File::options().write(true).open("/dev/full").expect("a full device"));
    assert_eq!(lost.status().expect("it runs").code(), Some(1));
    let mut held = zsh_tool(&runs.env, &["hook", "stop"]);
    held.env("CLAUDE_PROJECT_DIR", runs.env.work());
    let held = run_with_input(held, STOP.as_bytes().to_vec());
    assert!(held.text().contains("COMPLETED"), "{held:?}");
    assert_eq!(pending(&runs.env), "");
}
