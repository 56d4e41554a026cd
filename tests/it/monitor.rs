//! What the monitor shows by HTTP: lists, progress, checks, event streams, kills; of the
//! tasks of the server that serves it and of those of other servers.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::support::client::{Client, PATIENCE, send_signal};
use crate::support::env::{Env, unique_word};
use crate::support::processes::{UniqueSleep, assert_none_left, descendants_of, wait_until};
use crate::support::program::{Program, run, zsh_tool};
use crate::support::runs;
use crate::support::ssh_host::{far_environment, install};
use crate::support::state_files::server_files;
use crate::support::watcher::Watcher;

/// A server that serves the monitor as well.
fn server_with_monitor(env: &Env, settings: &str) -> (Client, Watcher) {
    env.configure(&format!("http: 127.0.0.1:0\n{settings}"));
    let client = env.client();
    (client, watcher_of(env))
}

/// By the link that the server keeps in its directory.
fn watcher_of(env: &Env) -> Watcher {
    let servers = env.path("state/servers");
    let link = wait_until("the monitor's link is kept", || {
        let directories = fs::read_dir(&servers).ok()?.flatten();
        directories
            .filter_map(|directory| fs::read_to_string(directory.path().join("monitor.url")).ok())
            .next()
    });
    Watcher::of(&link)
}

/// A task's file is written a little after its start, later on a busy disk: other processes
/// know of it then.
fn await_file_of(watcher: &Watcher, task: &str) {
    let path = format!("/api/autonomous/progress/{task}");
    wait_until("the task is seen", || (watcher.get(&path).status == 200).then_some(()));
}

/// `zsh-tool monitor`, which runs no tasks of its own.
fn monitor_alone(env: &Env) -> (Program, Watcher) {
    let mut program = Program::start(zsh_tool(env, &["monitor", "--addr", "127.0.0.1:0"]));
    let link = program.read_line();
    (program, Watcher::of(&link))
}

fn end_of(monitor: Program) {
    monitor.signal("TERM");
    assert_eq!(monitor.finish().code, 0);
}

/// A session of the list; it gets there soon after its start.
fn session(watcher: &Watcher, id: &str) -> Value {
    wait_until("the session is in the list", || {
        let list = watcher.get("/api/sessions").body;
        assert_shape(&list_schema(), &list);
        let sessions = list["sessions"].as_array().cloned().unwrap_or_default();
        sessions.into_iter().find(|session| session["id"] == id)
    })
}

fn sessions(watcher: &Watcher) -> Vec<Value> {
    let list = watcher.get("/api/sessions").body;
    list["sessions"].as_array().cloned().unwrap_or_default()
}

fn progress(watcher: &Watcher, id: &str) -> Value {
    let answer = watcher.get(&format!("/api/autonomous/progress/{id}"));
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_shape(&progress_schema(), &answer.body);
    answer.body
}

fn status(watcher: &Watcher, id: &str) -> Value {
    let answer = watcher.get(&format!("/api/chat/autonomous/status?sessionId={id}"));
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.body
}

fn assert_shape(schema: &Value, value: &Value) {
    let validator = jsonschema::validator_for(schema).expect("a valid schema");
    let errors: Vec<String> = validator
        .iter_errors(value)
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect();
    assert!(errors.is_empty(), "{errors:?}\n{value}");
}

/// An object of exactly these members.
fn object(members: Value) -> Value {
    let names: Vec<String> = members.as_object().expect("members").keys().cloned().collect();
    json!({
        "type": "object",
        "properties": members,
        "required": names,
        "additionalProperties": false,
    })
}

fn list_schema() -> Value {
    let string = json!({"type": "string"});
    let maybe_string = json!({"type": ["string", "null"]});
    let maybe_integer = json!({"type": ["integer", "null"]});
    let server = json!({"instance": string, "pid": maybe_integer, "own": {"type": "boolean"}});
    let run = object(json!({
        "iteration": {"type": "integer"}, "maxIterations": {"type": "integer"},
        "phase": string, "executor": string, "auditor": string,
        "reason": maybe_string, "feedback": maybe_string, "cost": maybe_string,
        "checks": {"type": "array", "items": string}, "branch": maybe_string,
        "changedIterations": {"type": "array", "items": {"type": "integer"}},
        "live": {"type": "boolean"},
    }));
    let session = object(json!({
        "id": {"type": "string", "pattern": "^(build1:)?[0-9a-f]{8}(-[0-9a-f-]{27})?$"},
        "kind": {"enum": ["task", "run"]},
        "title": string, "description": maybe_string, "directory": string,
        "pid": maybe_integer, "pty": {"type": "boolean"}, "sandbox": maybe_string,
        "state": {"anyOf": [
            {"enum": ["running", "completed", "failed", "timeout", "killed", "interrupted"]},
            {"pattern": "^[A-Z_]+$"},
        ]},
        "status": {"enum": [null, "ended", "blocked", "stuck", "silent", "progressing", "slow"]},
        "evidence": {"type": "array", "items": string},
        "degraded": {"type": "boolean"},
        "waitingFor": {"enum": [null, "input", "password"]},
        "attached": {"type": "boolean"},
        "prompt": maybe_string,
        "startedAt": {"type": "number"},
        "elapsedMs": {"type": "integer"}, "silentMs": maybe_integer, "durationMs": maybe_integer,
        "usage": {"anyOf": [{"type": "null"}, object(json!({
            "cpuMs": {"type": "integer"}, "memoryBytes": maybe_integer, "peakBytes": maybe_integer,
            "peakAtLeast": {"type": "boolean"}, "processes": {"type": "integer"},
        }))]},
        "exitCode": maybe_integer,
        "leftovers": {"type": "array", "items": {"type": "integer"}},
        "estimate": {"anyOf": [{"type": "null"}, object(json!({
            "medianMs": {"type": "integer"}, "p90Ms": {"type": "integer"},
            "samples": {"type": "integer"},
        }))]},
        "remainingMs": maybe_integer,
        "server": object(server.clone()),
        "host": maybe_string,
        "detached": {"anyOf": [{"type": "null"}, object(json!({
            "client": string, "project": string, "until": {"type": ["number", "null"]},
        }))]},
        "canKill": {"type": "boolean"}, "canStop": {"type": "boolean"},
        "tail": {"type": "array", "items": string, "maxItems": 20},
        "run": {"anyOf": [{"type": "null"}, run]},
    }));
    let mut answering = server;
    answering["version"] = string.clone();
    answering["sandbox"] = object(json!({"text": string, "problem": maybe_string}));
    object(json!({
        "now": {"type": "number"},
        "server": object(answering),
        "sessions": {"type": "array", "items": session},
    }))
}

/// As the seed prints it.
fn progress_schema() -> Value {
    object(json!({
        "sessionId": {"type": "string"},
        "alive": {"type": "boolean"},
        "stuck": {"type": "boolean"},
        "progress": object(json!({
            "heartbeats": {"type": "integer"},
            "stateChanges": {"type": "integer"},
            "lastChange": {"type": ["string", "null"]},
            "lastChangeAgo": {"type": ["integer", "null"]},
        })),
        "currentPhase": {"type": "string"},
        "iteration": {"type": ["integer", "null"]},
    }))
}

#[test]
fn of_many_ended_tasks_the_newest_are_listed() {
    const EACH: u32 = 150;
    let env = Env::new();
    let client = env.client();
    let task = client.call("zsh", json!({"command": "true", "detach": true})).task_id();
    let (file, mut snapshot) = wait_until("the end is written", || {
        let file = server_files(&env, &format!("{task}.json")).pop()?;
        let snapshot: Value = serde_json::from_slice(&fs::read(&file).ok()?).ok()?;
        (!snapshot["ended"].is_null()).then_some((file, snapshot))
    });
    client.close_stdin();
    client.wait_exit(PATIENCE);
    let begun = snapshot["facts"]["started"].as_f64().expect("a time");
    let servers = file.ancestors().nth(2).expect("the folder of all servers");
    for server in 0..3 {
        let directory = servers.join(format!("shim-{server:08x}"));
        fs::create_dir(&directory).expect("a server's directory");
        for nth in 0..EACH {
            // Each server has some of the newest.
            let age = nth * 3 + server;
            let id = format!("{age:08x}");
            snapshot["facts"]["id"] = json!(id);
            snapshot["facts"]["started"] = json!(begun + f64::from(3 * EACH - age));
            fs::write(directory.join(format!("{id}.json")), snapshot.to_string()).expect("room");
        }
    }
    let (monitor, watcher) = monitor_alone(&env);
    let listed: Vec<Value> =
        sessions(&watcher).iter().map(|session| session["id"].clone()).collect();
    let newest: Vec<Value> = (0..100).map(|age| json!(format!("{age:08x}"))).collect();
    assert_eq!(listed, newest);
    end_of(monitor);
}

#[test]
fn the_sandbox_is_shown_as_health_shows_it() {
    let env = Env::new();
    let (client, watcher) = server_with_monitor(&env, "sandbox: {mode: workspace}");
    let health = client.call("zsh_health", json!({}));
    let sandbox = &watcher.get("/api/sessions").body["server"]["sandbox"];
    assert_eq!(sandbox["text"], health.raw["structuredContent"]["sandbox"], "{sandbox}");
    assert!(
        sandbox["text"].as_str().is_some_and(|text| text.starts_with("workspace, enforced by"))
    );
    assert_eq!(sandbox["problem"], Value::Null);
    let (monitor, watcher) = monitor_alone(&env);
    assert_eq!(&watcher.get("/api/sessions").body["server"]["sandbox"], sandbox);
    end_of(monitor);
    env.configure("sandbox: {mode: workspac}\n");
    let (monitor, watcher) = monitor_alone(&env);
    let sandbox = &watcher.get("/api/sessions").body["server"]["sandbox"];
    assert!(sandbox["problem"].as_str().is_some_and(|text| text.contains("sandbox.mode")));
    end_of(monitor);
}

#[test]
fn a_task_is_shown_while_it_runs_and_after_its_end() {
    let env = Env::new();
    let (client, watcher) = server_with_monitor(&env, "heartbeat_interval: 0.5");
    let go_on = env.named_pipe("go-on");
    let task = client.start_until("echo one; cat go-on; echo two; exit 3", "one");
    let running = session(&watcher, &task);
    assert_eq!(running["state"], "running");
    assert_eq!(running["title"], "echo one; cat go-on; echo two; exit 3");
    assert_eq!(running["tail"], json!(["one"]));
    assert_eq!(running["canKill"], true);
    assert_eq!(running["server"]["own"], true);
    assert_eq!(status(&watcher, &task)["status"], "running");
    let looked = wait_until("a look brings a state change", || {
        let progress = progress(&watcher, &task);
        (progress["progress"]["stateChanges"].as_u64() > Some(0)).then_some(progress)
    });
    assert_eq!(looked["alive"], true);
    assert_eq!(looked["stuck"], false);
    assert_eq!(looked["currentPhase"], "execution");
    assert_eq!(looked["progress"]["lastChange"], "output");
    assert!(looked["progress"]["lastChangeAgo"].is_u64(), "{looked}");

    fs::write(&go_on, "").expect("the task goes on");
    client.poll_to_end(&task);
    let ended = session(&watcher, &task);
    assert_eq!(ended["state"], "failed");
    assert_eq!(ended["status"], "ended");
    assert_eq!(ended["exitCode"], 3);
    assert_eq!(ended["tail"], json!(["one", "two"]));
    assert_eq!(ended["silentMs"], Value::Null);
    assert_eq!(ended["canKill"], false);
    let after = progress(&watcher, &task);
    assert_eq!(after["alive"], false);
    assert_eq!(after["currentPhase"], "ended");
    assert!(after["progress"]["heartbeats"].as_u64() > Some(0), "{after}");
    assert_eq!(
        status(&watcher, &task),
        json!({"sessionId": task, "status": "failed", "iteration": null, "error": "exit code 3"})
    );
    let answer = watcher.get(&format!("/api/chat/autonomous/status?session_id={task}"));
    assert_eq!(answer.body["status"], "failed");
}

/// Another process may see a wait for input a moment later.
fn await_waiting(watcher: &Watcher, task: &str) -> Value {
    wait_until("it is seen to wait for input", || {
        let session = session(watcher, task);
        session["waitingFor"].is_string().then_some(session)
    })
}

fn input_of(task: &str) -> String {
    format!("/api/tasks/{task}/input")
}

#[test]
fn a_task_of_another_server_is_shown_typed_into_and_killed() {
    let env = Env::new();
    env.configure("heartbeat_interval: 0.5");
    let client = env.client();
    let task = client
        .call(
            "zsh",
            json!({"command": "print -n 'Name? '; read name", "pty": true, "yield_after": 0}),
        )
        .task_id();
    let (monitor, watcher) = monitor_alone(&env);
    await_file_of(&watcher, &task);
    let shown = await_waiting(&watcher, &task);
    assert_eq!(shown["waitingFor"], "input");
    assert_eq!(shown["status"], "blocked");
    assert_eq!(shown["prompt"], "Name?");
    assert_eq!(shown["tail"], json!(["Name? "]));
    assert_eq!(shown["canKill"], true);
    assert_eq!(shown["detached"], Value::Null);
    assert_eq!(shown["server"]["own"], false);
    assert_eq!(progress(&watcher, &task)["currentPhase"], "execution");

    let mut events = watcher.events(&format!("/api/sessions/{task}/events"), None);
    assert_eq!(events.next_named("output").data, json!({"text": "Name? "}));
    let typed = watcher.post(&input_of(&task), &json!({"text": "Ada"}));
    assert_eq!((typed.status, &typed.body), (200, &json!({"taskId": task})));
    let (text, _) = events.output_to_end();
    assert!(text.starts_with("Ada"), "{text:?}");
    let ended = session(&watcher, &task);
    assert_eq!(ended["state"], "completed");
    let polled = client.poll(&task, json!({}));
    assert!(polled.output().contains("Ada"), "it is still new to the agent: {}", polled.text);

    let sleep = UniqueSleep::new();
    let task = client.start_task(&format!("{sleep} & wait"));
    sleep.wait_for(1);
    await_file_of(&watcher, &task);
    let path = format!("/api/tasks/{task}/kill");
    let killed = watcher.post(&path, &json!({}));
    assert_eq!(killed.status, 200, "{killed:?}");
    assert_eq!(killed.body["taskId"], json!(task));
    assert_eq!(killed.body["state"], "killed");
    assert!(killed.body["exitCode"].is_i64(), "{killed:?}");
    assert_eq!(killed.body["survivors"], json!([]));
    assert!(killed.body["signalled"].as_u64() > Some(0), "{killed:?}");
    assert_eq!(killed.body["signalled"], killed.body["gone"]);
    assert!(killed.body["tookMs"].is_u64(), "{killed:?}");
    sleep.assert_gone();
    wait_until("its file says so", || {
        (!session(&watcher, &task)["canKill"].as_bool()?).then_some(())
    });
    assert_eq!(watcher.post(&path, &json!({})).status, 409);
    let next = client.run("echo next");
    assert!(next.text.contains(&task), "the end is reported: {}", next.text);
    end_of(monitor);
}

#[test]
fn a_task_of_a_connected_host_is_shown_followed_typed_into_and_killed() {
    let env = Env::new();
    install(&env, "far");
    let far = far_environment(&env, "far").join(", ");
    let hosts = format!("hosts: {{build1: {{command: [{far}]}}, other: {{command: [\"false\"]}}}}");
    let (client, watcher) = server_with_monitor(&env, &hosts);
    let mut list = watcher.events("/api/events", None);
    assert_eq!(list.next_named("sessions").data["sessions"], json!([]));
    let there = |command: &str, more: Value| {
        let mut arguments = more;
        arguments["host"] = json!("build1");
        arguments["command"] = json!(command);
        client.call("zsh", arguments).task_id()
    };
    let command = "seq 20000; print -n 'Name? '; read name; echo hello $name; exit 3";
    let task = there(command, json!({"pty": true, "until": "Name", "yield_after": 25}));
    let shown = await_waiting(&watcher, &task);
    assert_eq!((&shown["host"], &shown["detached"]), (&json!("build1"), &Value::Null));
    assert_eq!((&shown["server"]["own"], &shown["canKill"]), (&json!(false), &json!(true)));
    assert_eq!(progress(&watcher, &task)["sessionId"], json!(task));
    // The stream of the list shows it as well.
    while list.next_named("sessions").data["sessions"][0]["id"] != json!(task) {}

    let path = format!("/api/sessions/{task}/events");
    let mut events = watcher.events(&path, Some("0"));
    assert_eq!(events.next_named("session").data["id"], json!(task));
    let typed = watcher.post(&input_of(&task), &json!({"text": "Ada"}));
    assert_eq!((typed.status, &typed.body), (200, &json!({"taskId": task})), "{typed:?}");
    let (text, last) = events.output_to_end();
    let numbers: String = (1..=20000).map(|number| format!("{number}\n")).collect();
    assert_eq!(text.replace("\r\n", "\n"), format!("{numbers}Name? Ada\nhello Ada\n"));
    assert_eq!(watcher.get_after(&path, &format!("{last}.end")).status, 204);
    assert_eq!(status(&watcher, &task)["error"], "exit code 3");
    assert_eq!(watcher.post(&input_of(&task), &json!({"text": "x"})).status, 409);

    let sleep = UniqueSleep::new();
    let task = there(&format!("{sleep} & wait"), json!({"yield_after": 0}));
    sleep.wait_for(1);
    session(&watcher, &task);
    let killed = watcher.post(&format!("/api/tasks/{task}/kill"), &json!({}));
    assert_eq!((killed.status, &killed.body["taskId"]), (200, &json!(task)), "{killed:?}");
    sleep.assert_gone();
    assert_eq!(watcher.get("/api/autonomous/progress/build1:00000000").status, 404);
    assert_eq!(watcher.get("/api/autonomous/progress/other:00000000").status, 503);
    assert_eq!(watcher.get("/api/autonomous/progress/none:00000000").status, 404);
    // A lost connection: what is listed there disappears, and nothing waits for it.
    let mut events = watcher.events(&path, None);
    let carriers = descendants_of(client.pid()).into_iter();
    let mut carriers = carriers.filter(|process| process.arguments.contains("far --server"));
    send_signal("KILL", carriers.next().expect("a carrier").pid);
    while events.next().is_some() {}
    wait_until("nothing of it is listed", || sessions(&watcher).is_empty().then_some(()));
}

#[test]
fn a_task_whose_server_does_not_answer_is_409_and_the_server_is_named() {
    let env = Env::new();
    let client = env.client();
    let task = client
        .call("zsh", json!({"command": "cat", "stdin_open": true, "yield_after": 0}))
        .task_id();
    let (monitor, watcher) = monitor_alone(&env);
    await_file_of(&watcher, &task);
    let server = client.server_pid();
    let refusal = |path: &str, body: Value| {
        let refused = watcher.post(path, &body);
        assert_eq!(refused.status, 409, "{refused:?}");
        assert_eq!(refused.body["server"]["pid"], json!(server), "{refused:?}");
        let error = refused.body["error"].as_str().expect("an error").to_owned();
        assert!(error.contains(&format!("process {server} owns this task")), "{error}");
        error
    };
    send_signal("STOP", server);
    let error = refusal(&format!("/api/tasks/{task}/kill"), json!({}));
    send_signal("CONT", server);
    assert!(error.contains(&format!("`kill -CONT {server}`")), "{error}");

    // The call that came while it was stopped was withdrawn with its connection, or is carried out.
    let task = client
        .call("zsh", json!({"command": "cat", "stdin_open": true, "yield_after": 0}))
        .task_id();
    await_file_of(&watcher, &task);
    for socket in server_files(&env, "control.sock") {
        fs::remove_file(socket).expect("the socket is removed");
    }
    let error = refusal(&input_of(&task), json!({"text": "x"}));
    assert!(error.contains("cannot be reached"), "{error}");
    end_of(monitor);
}

#[test]
fn a_command_that_takes_no_calls_is_not_offered_for_a_kill() {
    let env = Env::new();
    let (monitor, watcher) = monitor_alone(&env);
    let exec = Program::start(zsh_tool(&env, &["exec", "echo here; sleep 600"]));
    let shown = wait_until("it is listed", || sessions(&watcher).pop());
    assert_eq!(shown["state"], "running");
    assert_eq!(shown["canKill"], false);
    let id = shown["id"].as_str().expect("an id");
    let refused = watcher.post(&format!("/api/tasks/{id}/kill"), &json!({}));
    assert_eq!(refused.status, 409, "{refused:?}");
    exec.signal("TERM");
    exec.finish();
    end_of(monitor);
}

#[test]
fn a_detached_task_is_marked_typed_into_and_killed() {
    let env = Env::new();
    env.configure("heartbeat_interval: 0.5");
    let client = env.client();
    let sleep = UniqueSleep::new();
    let command = format!("read '?Name? ' name; print hello $name; {sleep}");
    let task =
        client.call("zsh", json!({"command": command, "detach": true, "pty": true})).task_id();
    client.close_stdin();
    client.wait_exit(PATIENCE);
    let (monitor, watcher) = monitor_alone(&env);
    await_file_of(&watcher, &task);
    let shown = await_waiting(&watcher, &task);
    assert_eq!(shown["canKill"], true);
    let detached = &shown["detached"];
    assert!(!detached["client"].as_str().expect("a client").is_empty(), "{detached}");
    assert_eq!(detached["project"], json!(env.work()));
    let day = detached["until"].as_f64().expect("a time") - shown["startedAt"].as_f64().unwrap();
    assert!((day - 24.0 * 3600.0).abs() < 60.0, "{detached}");

    assert_eq!(watcher.post(&input_of(&task), &json!({"text": "Ada"})).status, 200);
    wait_until("it has read the line", || {
        session(&watcher, &task)["tail"].to_string().contains("hello Ada").then_some(())
    });
    let killed = watcher.post(&format!("/api/tasks/{task}/kill"), &json!({}));
    assert_eq!(killed.status, 200, "{killed:?}");
    sleep.assert_gone();
    wait_until("its shim is gone and its end is listed", || {
        let ended = session(&watcher, &task);
        let is_ended = ended["state"] == "killed" && server_files(&env, "control.sock").is_empty();
        is_ended.then_some(())
    });
    end_of(monitor);
    assert_none_left(env.mark());
}

#[test]
fn what_is_typed_arrives_and_is_kept_nowhere() {
    let env = Env::new();
    env.configure("http: 127.0.0.1:0\nheartbeat_interval: 0.5\n");
    let mut server = env.serve();
    server.env("RUST_LOG", "trace");
    let client = Client::start(server, env.path("stderr"));
    client.initialize();
    let watcher = watcher_of(&env);
    let secret = unique_word();
    let digest = "read -rs '?Password: ' word; print -rn -- $word | sha256sum; read -r line; \
                  print -r -- \"got [$line]\"; sleep 600";
    let task =
        client.call("zsh", json!({"command": digest, "pty": true, "yield_after": 0})).task_id();
    wait_until("it asks for a password", || {
        (session(&watcher, &task)["waitingFor"] == "password").then_some(())
    });
    let typed = watcher.post(&input_of(&task), &json!({"text": secret, "enter": true}));
    assert_eq!(typed.status, 200, "{typed:?}");
    let sum = wait_until("it has read the password", || {
        let tail = session(&watcher, &task)["tail"].to_string();
        tail.contains("  -").then_some(tail)
    });
    let mut sha256sum = env.command("sh");
    sha256sum.args(["-c", "printf %s \"$1\" | sha256sum", "sh", &secret]);
    let wanted = run(sha256sum).text();
    assert!(sum.contains(wanted.trim()), "{sum} {wanted}");

    for part in ["in ", "parts"] {
        let typed =
            watcher.post(&input_of(&task), &json!({"text": part, "enter": part == "parts"}));
        assert_eq!(typed.status, 200, "{typed:?}");
    }
    wait_until("both parts are one line", || {
        session(&watcher, &task)["tail"].to_string().contains("got [in parts]").then_some(())
    });
    client.close_stdin();
    client.wait_exit(PATIENCE);
    let grep = |word: &str| {
        let mut grep = env.command("grep");
        grep.args(["-rla", word]).arg(env.path("state")).arg(env.path("stderr"));
        run(grep).text()
    };
    assert_ne!(grep(&task), "", "the files are searched");
    assert_eq!(grep(&secret), "");
}

#[test]
fn input_that_cannot_be_typed_is_refused_with_the_reason() {
    let env = Env::new();
    let (client, watcher) = server_with_monitor(&env, "");
    let deaf = client.start_task("sleep 600");
    let refused = watcher.post(&input_of(&deaf), &json!({"text": "x"}));
    assert_eq!(refused.status, 409, "{refused:?}");
    let error = refused.body["error"].as_str().unwrap_or_default();
    assert!(error.contains("stdin_open: true"), "{error}");

    let ended = client.run("true").task_id();
    let refused = watcher.post(&input_of(&ended), &json!({"text": "x"}));
    assert_eq!(refused.status, 409, "{refused:?}");
    assert!(refused.body["error"].to_string().contains("already ended"), "{refused:?}");

    for body in [
        json!({}),
        json!({"text": 7}),
        json!({"text": "hunter2", "enter": "hunter2"}),
        json!({"text": "x", "hunter2": true}),
        json!("hunter2"),
    ] {
        let refused = watcher.post(&input_of(&deaf), &body);
        assert_eq!(refused.status, 400, "{body}");
        assert!(!refused.body.to_string().contains("hunter2"), "{refused:?}");
    }
    assert_eq!(watcher.post(&input_of("00000000"), &json!({"text": "x"})).status, 404);
    assert_eq!(watcher.get(&input_of(&deaf)).status, 405);
}

#[test]
fn a_task_of_a_server_that_has_ended_is_listed_no_more_and_its_id_tells_its_end() {
    let env = Env::new();
    let client = env.client();
    let task = client.start_until("echo here; sleep 600", "here");
    let (monitor, watcher) = monitor_alone(&env);
    await_file_of(&watcher, &task);
    let mut events = watcher.events(&format!("/api/sessions/{task}/events"), None);
    assert_eq!(events.next_named("output").data, json!({"text": "here\n"}));
    send_signal("KILL", client.pid());
    events.next_named("end");
    assert!(events.next().is_none());
    wait_until("its server's tasks are gone", || {
        let list = watcher.get("/api/sessions").body;
        (list["sessions"] == json!([])).then_some(())
    });
    let told = progress(&watcher, &task);
    assert_eq!(told["currentPhase"], json!("ended"), "{told}");
    end_of(monitor);
}

#[test]
fn a_kill_by_http_gives_the_receipt_and_a_second_one_finds_nothing() {
    let env = Env::new();
    let (client, watcher) = server_with_monitor(&env, "");
    let sleep = UniqueSleep::new();
    let task = client.start_task(&format!("{sleep} & wait"));
    sleep.wait_for(1);
    let path = format!("/api/tasks/{task}/kill");
    let killed = watcher.post(&path, &json!({}));
    assert_eq!(killed.status, 200, "{killed:?}");
    assert_eq!(killed.body["taskId"], json!(task));
    assert_eq!(killed.body["state"], "killed");
    assert_eq!(killed.body["survivors"], json!([]));
    assert_eq!(killed.body["signalled"], killed.body["gone"]);
    assert!(killed.body["tookMs"].is_u64(), "{killed:?}");
    sleep.assert_gone();
    let again = watcher.post(&path, &json!({}));
    assert_eq!(again.status, 409, "{again:?}");
    assert_eq!(status(&watcher, &task)["status"], "failed");
}

/// `zsh-tool oneshot` with an agent program that does what a script says: the worker says
/// something and waits for a file.
fn run_of_agents(env: &Env, go_on: &Path) -> Program {
    Program::start(agents(env, go_on, &[]))
}

/// The command that starts it, with further options.
fn agents(env: &Env, go_on: &Path, options: &[&str]) -> Command {
    let (programs, notes) = (env.path("programs"), env.path("notes"));
    for folder in [&programs, &notes] {
        fs::create_dir(folder).expect("a folder for the agent");
    }
    let agent = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/agents/fake-agent");
    std::os::unix::fs::symlink(agent, programs.join("claude")).expect("the program");
    let script = json!({
        "worker": [[{"text": "on it"}, {"wait": go_on}, {"result": "done it"}]],
        "auditor": [[{"result": "{\"verdict\": \"DONE\"}"}]],
    });
    fs::write(env.path("script.json"), script.to_string()).expect("a script");
    let path = std::env::var("PATH").unwrap_or_default();
    let mut command = zsh_tool(env, &["oneshot", "--executor", "claude", "--heartbeat", "0.2"]);
    command.args(options).arg("Count password=hunter2hunter2");
    command
        .env("PATH", format!("{}:{path}", programs.display()))
        .env("FAKE_AGENT", env.path("script.json"))
        .env("FAKE_AGENT_NOTES", notes);
    command
}

/// The only run, once its worker works and has given a sign of life.
fn working_run(watcher: &Watcher) -> Value {
    wait_until("a run is in the list", || {
        let list = watcher.get("/api/sessions").body;
        assert_shape(&list_schema(), &list);
        let sessions = list["sessions"].as_array().cloned().unwrap_or_default();
        let is_run = |session: &Value| session["kind"] == "run" && session["status"].is_string();
        sessions.into_iter().find(is_run)
    })
}

#[test]
fn what_a_run_changes_costs_and_passes_is_shown() {
    let env = Env::new();
    let git = |words: &[&str]| {
        let mut command = env.command("git");
        command.args(["-c", "user.name=T", "-c", "user.email=t@example.org"]).args(words);
        assert!(command.output().expect("git").status.success(), "{words:?}");
    };
    git(&["init", "-q"]);
    git(&["commit", "-q", "--allow-empty", "-m", "begin"]);
    let (_monitor, watcher) = monitor_alone(&env);
    let go_on = env.path("go-on");
    let command = agents(&env, &go_on, &["--check", "test -e made.txt"]);
    let worker = json!([
        {"append": {"path": "made.txt", "text": "a \u{1b}[2Jfile\npassword=hunter2hunter2\n"}},
        {"json": {"type": "result", "subtype": "success", "is_error": false, "result": "done",
                  "total_cost_usd": 0.5, "num_turns": 2}},
    ]);
    let script = json!({"worker": [worker], "auditor": [[{"result": "{\"verdict\": \"DONE\"}"}]]});
    fs::write(env.path("script.json"), script.to_string()).expect("a script");
    assert_eq!(Program::start(command).finish().code, 0);
    let shown = wait_until("the run is in the list", || sessions(&watcher).pop());
    assert_shape(&list_schema(), &watcher.get("/api/sessions").body);
    let facts = &shown["run"];
    assert_eq!(facts["cost"], "$0.5000, 2 turns");
    assert_eq!(facts["checks"], json!(["test -e made.txt: passed (0s)"]));
    assert_eq!(facts["changedIterations"], json!([1]));
    let path = format!("/api/sessions/{}/diff", shown["id"].as_str().expect("an id"));
    let diff = watcher.get(&format!("{path}?iteration=1"));
    let text = diff.body["diff"].as_str().expect("a difference");
    assert!(text.contains("+++ b/made.txt") && text.contains("+a "), "{text}");
    assert!(!text.contains('\u{1b}') && !text.contains("hunter2"), "{text}");
    assert_eq!((&diff.body["cut"], diff.status), (&json!(false), 200));
    assert_eq!(watcher.get(&path).body["diff"], diff.body["diff"]);
    assert_eq!(watcher.get(&format!("{path}?iteration=2")).status, 404);
    assert_eq!(watcher.get(&format!("{path}?iteration=x")).status, 400);
}

#[test]
fn an_agent_run_is_shown_with_its_log_while_it_goes_on_and_after() {
    let env = Env::new();
    let (monitor, watcher) = monitor_alone(&env);
    let go_on = env.path("go-on");
    let runner = run_of_agents(&env, &go_on);
    let shown = working_run(&watcher);
    let id = shown["id"].as_str().expect("an id").to_owned();
    assert_eq!(shown["state"], "WORKER_EXECUTING");
    assert_eq!(shown["title"], "Count password=[redacted]");
    assert_eq!(shown["canStop"], true);
    assert_eq!(shown["canKill"], false);
    assert_eq!(shown["run"]["phase"], "worker");
    assert_eq!(shown["run"]["iteration"], 1);
    assert_eq!(shown["run"]["live"], true);
    let said = wait_until("what its worker says is shown", || {
        let tail = session(&watcher, &id)["tail"].clone();
        tail.to_string().contains("on it").then_some(tail)
    });
    let last = said.as_array().and_then(|lines| lines.last());
    assert_eq!(last, Some(&json!("worker on it")), "no sign of life, no JSON: {said}");
    assert_eq!(sessions(&watcher).len(), 1, "its agent is a part of it");
    let now = progress(&watcher, &id);
    assert_eq!(now["currentPhase"], "worker");
    assert_eq!(now["iteration"], 1);
    assert_eq!(now["alive"], true);
    assert_eq!(status(&watcher, &id)["status"], "running");
    let killed = watcher.post(&format!("/api/tasks/{id}/kill"), &json!({}));
    assert_eq!(killed.status, 409, "a run is no task: {killed:?}");
    let asked = json!({"sessionId": id, "checkId": "of-a-run"});
    assert_eq!(watcher.post("/api/autonomous/check-status", &asked).status, 202);

    let path = format!("/api/sessions/{id}/events");
    let mut events = watcher.events(&path, Some("0"));
    let mut lines = Vec::new();
    while lines.len() < 3 {
        let seen = events.next_named("log");
        assert_eq!(seen.id, Some(seen.data["seq"].to_string()));
        lines.push(seen.data);
    }
    drop(events);
    let last = lines.last().expect("lines")["seq"].to_string();
    let mut events = watcher.events(&path, Some(&last));
    fs::write(&go_on, "").expect("the agent goes on");
    let end = loop {
        let seen = events.next().expect("an end");
        match seen.name.as_str() {
            "log" => lines.push(seen.data),
            "end" => break seen,
            _ => {}
        }
    };
    assert_eq!(end.data, json!({"exitCode": 0}));
    let numbers: Vec<u64> = lines.iter().filter_map(|line| line["seq"].as_u64()).collect();
    let whole: Vec<u64> = (1..=numbers.len() as u64).collect();
    assert_eq!(numbers, whole, "no line is lost and none comes twice");
    assert_eq!(lines[0]["data"]["to"], "CREATED");

    let ended = session(&watcher, &id);
    assert_eq!(ended["state"], "COMPLETED");
    assert_eq!(ended["canStop"], false);
    assert_eq!(ended["exitCode"], 0);
    assert_eq!(status(&watcher, &id)["status"], "completed");
    assert_eq!(progress(&watcher, &id)["currentPhase"], "ended");
    assert_eq!(watcher.get_after(&path, &end.id.expect("an id")).status, 204);
    let stopped = watcher.post("/api/autonomous/stop", &json!({"sessionId": id}));
    assert_eq!(stopped.status, 409, "it is over: {stopped:?}");
    assert_eq!(runner.finish().code, 0);
    end_of(monitor);
}

#[test]
fn a_run_whose_file_is_a_pipe_is_named_and_holds_no_answer_up() {
    let env = Env::new();
    let directory = runs::create(&env, "make it").directory().to_path_buf();
    let path = directory.join("oneshot.json");
    fs::remove_file(&path).unwrap();
    let made = std::process::Command::new("mkfifo").arg(&path).status();
    assert!(made.expect("the mkfifo program").success());
    let (monitor, watcher) = monitor_alone(&env);
    let list = watcher.get("/api/sessions").body;
    assert_eq!(list["sessions"], json!([]));
    let why = list["unusable"][0].as_str().unwrap_or_default();
    let told = format!("{}: it is not a regular file", path.display());
    assert!(why.contains(&told), "{list}");
    end_of(monitor);
}

#[test]
fn a_stop_by_http_ends_a_run_as_cancelled_by_its_user() {
    let env = Env::new();
    let (monitor, watcher) = monitor_alone(&env);
    let runner = run_of_agents(&env, &env.path("never"));
    let id = working_run(&watcher)["id"].clone();
    let stopped = watcher.post("/api/autonomous/stop", &json!({"sessionId": id}));
    assert_eq!(stopped.status, 200, "{stopped:?}");
    let wanted = json!({"sessionId": id, "state": "FAILED", "reason": "user_cancelled"});
    assert_eq!(stopped.body, wanted);
    let standing = status(&watcher, id.as_str().expect("an id"));
    assert_eq!(standing["status"], "failed");
    assert_eq!(standing["error"], "user_cancelled");
    assert_ne!(runner.finish().code, 0);
    end_of(monitor);
}

#[test]
fn what_is_not_there_is_404_and_what_is_asked_wrongly_says_so() {
    let env = Env::new();
    let (client, watcher) = server_with_monitor(&env, "");
    let task = client.run("true").task_id();
    for target in [
        "/api/sessions/00000000/events",
        "/api/autonomous/progress/00000000",
        "/api/autonomous/progress/..%2f..%2fetc",
        "/api/autonomous/check-status/none",
        "/api/chat/autonomous/status?sessionId=none",
        "/api/nothing",
        "/api/sessions/",
    ] {
        let answer = watcher.get(target);
        assert_eq!(answer.status, 404, "{target}: {answer:?}");
        assert!(answer.body["error"].is_string(), "{target}: {answer:?}");
    }
    let unknown = json!({"sessionId": "00000000"});
    for target in ["/api/autonomous/check-status", "/api/autonomous/stop"] {
        assert_eq!(watcher.post(target, &unknown).status, 404, "{target}");
        for body in [json!({}), json!([1]), json!({"sessionId": 1})] {
            assert_eq!(watcher.post(target, &body).status, 400, "{target} {body}");
        }
    }
    assert_eq!(watcher.post("/api/tasks/00000000/kill", &json!({})).status, 404);
    assert_eq!(watcher.get("/api/chat/autonomous/status").status, 400);
    assert_eq!(watcher.get(&format!("/api/tasks/{task}/kill")).status, 405);
    assert_eq!(watcher.post("/api/sessions", &json!({})).status, 405);
    let stopped = watcher.post("/api/autonomous/stop", &json!({"sessionId": task}));
    assert_eq!(stopped.status, 409, "a task is no run: {stopped:?}");
}

#[test]
fn a_status_check_is_started_at_once_and_asked_for_later() {
    let env = Env::new();
    let (client, watcher) = server_with_monitor(&env, "");
    let task = client.start_until("echo working; sleep 600", "working");
    let asked = json!({"sessionId": task, "checkId": "check-001"});
    let started = watcher.post("/api/autonomous/check-status", &asked);
    assert_eq!(started.status, 202, "{started:?}");
    assert_eq!(started.body["checkId"], "check-001");
    let done = watcher.get("/api/autonomous/check-status/check-001?wait_ms=5000");
    assert_eq!(done.status, 200, "{done:?}");
    assert_shape(
        &object(json!({
            "checkId": {"const": "check-001"},
            "state": {"const": "done"},
            "result": object(json!({
                "status": {"enum": ["A", "B", "C", "D"]},
                "reason": {"type": "string"},
                "ts": {"type": "integer"},
            })),
            "error": {"type": "null"},
        })),
        &done.body,
    );
    assert_eq!(done.body["result"]["status"], "A");
    let made = watcher.post("/api/autonomous/check-status", &json!({"sessionId": task}));
    assert!(made.body["checkId"].as_str().is_some_and(|id| !id.is_empty()), "{made:?}");
    for wait in ["5001", "-1", "soon"] {
        let target = format!("/api/autonomous/check-status/check-001?wait_ms={wait}");
        assert_eq!(watcher.get(&target).status, 400, "{wait}");
    }
}

#[test]
fn a_program_that_judges_is_no_session_and_goes_with_its_monitor() {
    let env = Env::new();
    let judges = "judge: command:mine\nexecutors:\n  mine:\n    argv:";
    let wait = UniqueSleep::new();
    env.configure(&format!("{judges} [sh, -c, \"{wait}\"]\n"));
    let server = env.client();
    let task = server.start_task("exec sleep 600");
    let (monitor, watcher) = monitor_alone(&env);
    let asked = json!({"sessionId": task, "checkId": "x"});
    session(&watcher, &task);
    let started = watcher.post("/api/autonomous/check-status", &asked);
    assert_eq!(started.status, 202, "{started:?}");
    wait.wait_for(1);
    assert_eq!(sessions(&watcher).len(), 1, "the task alone");
    let directories = || fs::read_dir(env.path("state/servers")).expect("servers").count();
    assert_eq!(directories(), 2, "the judge has one while the monitor lives");
    end_of(monitor);
    wait.assert_gone();
    assert_eq!(directories(), 1);
}

#[test]
fn checks_of_one_id_or_session_and_the_fourth_at_once_are_refused() {
    let env = Env::new();
    // An agent program that takes its time.
    let programs = env.path("programs");
    fs::create_dir(&programs).expect("a folder for the program");
    let agent = programs.join("claude");
    fs::write(&agent, "#!/bin/sh\nexec sleep 600\n").expect("the program");
    fs::set_permissions(&agent, fs::Permissions::from_mode(0o755)).expect("it can be run");
    env.configure("http: 127.0.0.1:0\njudge: command:claude");
    let mut server = env.serve();
    let path = std::env::var("PATH").unwrap_or_default();
    server.env("PATH", format!("{}:{path}", programs.display()));
    let client = Client::start(server, env.path("stderr"));
    client.initialize();
    let watcher = watcher_of(&env);
    let tasks: Vec<String> = (0..4).map(|_| client.start_task("sleep 600")).collect();
    let check = |task: &str, id: &str| {
        let asked = json!({"sessionId": task, "checkId": id});
        watcher.post("/api/autonomous/check-status", &asked).status
    };
    assert_eq!(check(&tasks[0], "a"), 202);
    assert_eq!(check(&tasks[1], "a"), 409, "the id is taken");
    assert_eq!(check(&tasks[0], "b"), 409, "the session is being checked");
    assert_eq!(check(&tasks[1], "b"), 202);
    assert_eq!(check(&tasks[2], "c"), 202);
    assert_eq!(check(&tasks[3], "d"), 429, "three are under way");
    let pending = watcher.get("/api/autonomous/check-status/a").body;
    let wanted = json!({"checkId": "a", "state": "pending", "result": null, "error": null});
    assert_eq!(pending, wanted);
}

#[test]
fn a_stream_goes_on_where_its_reader_was_with_nothing_lost_or_repeated() {
    let env = Env::new();
    let (client, watcher) = server_with_monitor(&env, "");
    let go_on = env.named_pipe("go-on");
    let command = "for i in {1..3000}; do echo \"$i zwölf €\"; done; cat go-on; \
                   for i in {3001..4000}; do echo \"$i zwölf €\"; done";
    let task = client.start_until(command, "^3000 ");
    let path = format!("/api/sessions/{task}/events");
    let whole: String = (1..=4000).map(|number| format!("{number} zwölf €\n")).collect();

    // Leaves in the middle, comes back, and again after each event.
    let mut text = String::new();
    let mut last = "0".to_owned();
    for _ in 0..3 {
        let mut events = watcher.events(&path, Some(&last));
        let seen = events.next_named("output");
        text.push_str(seen.data["text"].as_str().expect("text"));
        last = seen.id.expect("an id");
        if text.ends_with("3000 zwölf €\n") {
            break;
        }
    }
    let mut events = watcher.events(&path, Some(&last));
    fs::write(&go_on, "").expect("the task goes on");
    let (rest, end) = events.output_to_end();
    assert_eq!(text.clone() + &rest, whole);
    assert_eq!(end, whole.len().to_string(), "ids are places in bytes");

    // From any place that was told, the rest is the same; after the end there is nothing.
    let (again, _) = watcher.events(&path, Some(&last)).output_to_end();
    assert_eq!(text + &again, whole);
    let (all, _) = watcher.events(&path, None).output_to_end();
    assert_eq!(all, whole);
    let mut at_end = watcher.events(&path, Some(&end));
    assert_eq!(at_end.next_named("end").id, Some(format!("{end}.end")));
}

#[test]
fn whoever_was_told_of_the_end_is_told_to_stay_away() {
    let env = Env::new();
    let (client, watcher) = server_with_monitor(&env, "");
    let task = client.run("echo done").task_id();
    let path = format!("/api/sessions/{task}/events");
    let end = watcher.events(&path, None).next_named("end");
    assert_eq!(end.data, json!({"exitCode": 0}));
    assert_eq!(watcher.get_after(&path, &end.id.expect("an id")).status, 204);
}

#[test]
fn characters_and_sequences_that_come_in_two_parts_are_told_whole() {
    let env = Env::new();
    let (client, watcher) = server_with_monitor(&env, "");
    let go_on = env.named_pipe("go-on");
    let command = r"printf 'a\xe2\x82'; cat go-on; printf '\xac\033[3'; sleep 0.3; printf '1mred\033[0m\007\r\n'";
    let task = client.start_until(command, "a");
    let path = format!("/api/sessions/{task}/events");
    let mut events = watcher.events(&path, None);
    assert_eq!(events.next_named("output").data, json!({"text": "a"}));
    fs::write(&go_on, "").expect("the task goes on");
    let (text, _) = events.output_to_end();
    assert_eq!(text, "€red^G\n", "control characters as they are spelled elsewhere");
}

#[test]
fn output_that_the_quota_has_dropped_is_told_as_a_gap() {
    let env = Env::new();
    // 1 MiB: the head is a quarter of it, and two segments of three eighths take turns.
    let (client, watcher) = server_with_monitor(&env, "spool_task_quota: 1MiB");
    let task = client.run("for i in {1000000..1399999}; do echo $i; done").task_id();
    let whole: String = (1_000_000..1_400_000).map(|number| format!("{number}\n")).collect();
    let (alone, other) = monitor_alone(&env);
    for watcher in [&watcher, &other] {
        await_file_of(watcher, &task);
        let mut events = watcher.events(&format!("/api/sessions/{task}/events"), Some("0"));
        let (mut at, mut gaps) = (0, 0);
        while let Some(seen) = events.next() {
            if seen.name != "output" {
                continue;
            }
            let mut text = seen.data["text"].as_str().expect("text");
            if let Some(gap) = seen.data["gap"].as_u64() {
                gaps += 1;
                at += usize::try_from(gap).expect("a length");
                text = text.split_once('\n').expect("a line that tells of it").1;
            }
            assert_eq!(whole.get(at..at + text.len()), Some(text), "at {at}");
            at += text.len();
            assert_eq!(seen.id, Some(at.to_string()));
        }
        assert_eq!((at, gaps), (whole.len(), 1));
    }
    end_of(alone);
}

#[test]
fn the_stream_of_all_sessions_tells_of_each_change() {
    let env = Env::new();
    let (client, watcher) = server_with_monitor(&env, "");
    let (alone, other) = monitor_alone(&env);
    let mut streams = [watcher.events("/api/events", None), other.events("/api/events", None)];
    for stream in &mut streams {
        let first = stream.next().expect("the list at once");
        assert_eq!(first.name, "sessions");
        assert_shape(&list_schema(), &first.data);
        assert_eq!(first.data["sessions"], json!([]));
    }
    let task = client.start_task("sleep 600");
    for stream in &mut streams {
        let seen = stream.next().expect("the task's start");
        assert_eq!(seen.data["sessions"][0]["id"], json!(task));
    }
    client.kill_task(&task);
    for stream in &mut streams {
        loop {
            let seen = stream.next().expect("the task's end");
            if seen.data["sessions"][0]["state"] == "killed" {
                break;
            }
        }
    }
    end_of(alone);
}

#[test]
fn the_history_has_durations_and_ends_of_the_kinds_used_most() {
    let env = Env::new();
    let (client, watcher) = server_with_monitor(&env, "");
    for code in [0, 0, 1] {
        client.run(&format!("sleep 0.01; exit {code}"));
    }
    client.run("true --password hunter2hunter2");
    let history = watcher.get("/api/history");
    assert_eq!(history.status, 200);
    let maybe_integer = json!({"type": ["integer", "null"]});
    assert_shape(
        &object(json!({
            "templates": {"type": "array", "maxItems": 30, "items": object(json!({
                "template": {"type": "string"},
                "runs": {"type": "array", "maxItems": 50, "items": object(json!({
                    "at": {"type": "number"},
                    "durationMs": {"type": "integer"},
                    "outcome": {"enum": ["success", "failure", "timeout", "killed", "interrupted"]},
                }))},
                "medianMs": maybe_integer,
                "p90Ms": maybe_integer,
            }))},
            "circuits": {"type": "array", "items": object(json!({
                "command": {"type": "string"},
                "state": {"enum": ["open", "half-open", "closed"]},
                "failures": {"type": "integer"},
                "retryAt": {"type": ["number", "null"]},
            }))},
        })),
        &history.body,
    );
    let slept = &history.body["templates"][0];
    let ends: Vec<&Value> =
        slept["runs"].as_array().into_iter().flatten().map(|run| &run["outcome"]).collect();
    assert_eq!(ends, ["failure", "success", "success"], "{history:?}");
    assert!(slept["medianMs"].as_u64() >= Some(10), "{slept}");
    assert!(!history.body.to_string().contains("hunter2"), "{history:?}");
}

#[test]
fn a_circuit_that_is_open_is_in_the_history() {
    let env = Env::new();
    let (client, watcher) = server_with_monitor(&env, "neverhang_threshold: 1");
    client.call("zsh", json!({"command": "sleep 600", "timeout": 0.2, "yield_after": 25}));
    let history = watcher.get("/api/history").body;
    let circuit = &history["circuits"][0];
    assert_eq!(circuit["command"], "sleep 600", "{history}");
    assert_eq!(circuit["state"], "open");
    assert_eq!(circuit["failures"], 1);
    assert!(circuit["retryAt"].is_f64(), "{circuit}");
}

#[test]
fn no_secret_of_a_command_or_prompt_is_shown_or_stands_in_the_state_directory() {
    let env = Env::new();
    env.configure("heartbeat_interval: 0.5");
    let client = env.client();
    let command =
        "API_TOKEN=hunter2hunter2 zsh -c 'print -n \"API_TOKEN=hunter2hunter2? \"; read x'";
    let task = client
        .call(
            "zsh",
            json!({"command": command, "description": "password: hunter2hunter2",
                            "pty": true, "yield_after": 0}),
        )
        .task_id();
    let (monitor, watcher) = monitor_alone(&env);
    await_file_of(&watcher, &task);
    let shown = wait_until("it is seen to wait", || {
        let session = session(&watcher, &task);
        session["prompt"].is_string().then_some(session)
    });
    for member in ["title", "description", "prompt", "evidence"] {
        assert!(!shown[member].to_string().contains("hunter2"), "{member}: {shown}");
    }
    let servers = fs::read_dir(env.path("state/servers")).expect("servers").flatten();
    for server in servers {
        for file in fs::read_dir(server.path()).expect("a server's files").flatten() {
            let is_entry = file.path().extension().is_some_and(|kind| kind == "json");
            let text = fs::read_to_string(file.path()).unwrap_or_default();
            assert!(!is_entry || !text.contains("hunter2"), "{text}");
        }
    }
    end_of(monitor);
}
