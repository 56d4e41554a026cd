//! What decides about sandboxes: who may use the control socket, what a call and its client may ask for,
//! and settings that cannot be meant.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::control_socket::{ask_from, background, call_of, socket_of};
use crate::sandbox::{DONE, LANDLOCK_ALONE, assert_refused, client_with, home};
use crate::support::client::Client;
use crate::support::env::{Env, binary};
use crate::support::processes::wait_until;
use crate::support::program::{run, zsh_tool};
use crate::support::result::ToolResult;

const CLOSED: &str = "closed to sandboxed processes";

/// Asks the socket `argv[1]` for the tasks, and prints the answer.
const ASKS: &str = r#"import json, socket, sys
def ask(made):
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "zsh_tasks"}}
    try:
        made.sendall(json.dumps(call).encode() + b"\n")
    except OSError:
        pass
    return made.makefile().readline()
"#;

/// A command in which Python runs this after [`ASKS`]; `words` are those before it.
fn python(words: &str, script: &str, socket: &Path) -> String {
    format!("{words} /usr/bin/python3 -c '{ASKS}{script}' {}", socket.display())
}

fn connects(words: &str, socket: &Path) -> String {
    let script =
        "made = socket.socket(socket.AF_UNIX)\nmade.connect(sys.argv[1])\nprint(ask(made))";
    python(words, script, socket)
}

#[test]
fn a_connection_of_a_process_that_has_ended_is_refused() {
    let env = Env::new();
    let client = env.client();
    let task = background(&env, &client, "sleep 60", json!({}));
    let socket = socket_of(&env, &task);
    // While the server accepts nothing, a process connects and ends, and another one gets its pid, where
    // pids can be chosen.
    let script = r#"
import os, signal, time
server = int(sys.argv[2])
os.kill(server, signal.SIGSTOP)
def is_stopped(thread):
    return open(f"/proc/{server}/task/{thread}/stat").read().rpartition(")")[2].split()[0] == "T"
while not all(map(is_stopped, os.listdir(f"/proc/{server}/task"))):
    time.sleep(0.001)
made = socket.socket(socket.AF_UNIX)
first = os.fork()
if first == 0:
    made.connect(sys.argv[1])
    os._exit(0)
os.waitpid(first, 0)
again = None
try:
    for _ in range(100):
        open("/proc/sys/kernel/ns_last_pid", "w").write(str(first - 1))
        again = os.fork()
        if again == 0:
            signal.pause()
        if again == first:
            break
        os.kill(again, signal.SIGKILL)
        os.waitpid(again, 0)
except OSError:
    pass
os.kill(server, signal.SIGCONT)
print(ask(made), end="")
if again == first:
    os.kill(again, signal.SIGKILL)
"#;
    let mut asks = Command::new("python3");
    asks.args(["-c", &format!("{ASKS}{script}")]).arg(&socket);
    let answer = run_with(asks, client.server_pid());
    assert!(answer.contains(CLOSED) && answer.contains("it has ended"), "{answer}");
    let tasks = ask_from(&["env"], &socket, &call_of("zsh_tasks", json!({})));
    assert_eq!(tasks["result"]["isError"], json!(false), "{tasks}");
}

fn run_with(mut command: Command, server: u32) -> String {
    command.arg(server.to_string());
    run(command).text()
}

#[test]
fn a_server_without_a_sandbox_answers_no_process_in_one() {
    let env = home();
    let alone = [LANDLOCK_ALONE];
    let free = client_with(&env, "", &alone);
    let task = background(&env, &free, "sleep 60", json!({}));
    let asks = connects("", &socket_of(&env, &task));
    let open = free.run(&asks);
    assert!(open.output().contains(&task), "{}", open.text);
    // A call's own sandbox, a detached task's, and that of another server.
    let call = |arguments: Value| {
        let mut call = json!({"command": asks, "yield_after": 25});
        for (name, value) in arguments.as_object().expect("arguments") {
            call[name] = value.clone();
        }
        free.call("zsh", call)
    };
    let own = call(json!({"sandbox": "workspace"}));
    let detached = call(json!({"sandbox": "workspace", "detach": true}));
    let detached = free.poll(&detached.task_id(), json!({"wait_for": "end", "full_output": true}));
    let other = client_with(&env, "sandbox: {mode: workspace}\n", &alone).run(&asks);
    for result in [own, detached, other] {
        assert!(result.text.contains(CLOSED), "{}", result.text);
        assert!(!result.output().contains(&task), "{}", result.text);
    }
}

#[test]
fn a_server_that_is_confined_answers_processes_that_are_confined_alike() {
    let env = Env::new();
    let client = confined_server(&env, &[]);
    let task = background(&env, &client, "cat", json!({"stdin_open": true}));
    let socket = socket_of(&env, &task);
    let alike: &[&str] = &["setpriv", "--no-new-privs"];
    for words in [alike, &["env"]] {
        let tasks = ask_from(words, &socket, &call_of("zsh_tasks", json!({})));
        assert!(tasks.to_string().contains(&task), "{tasks}");
    }
    let mut kill = env.command("setpriv");
    kill.arg("--no-new-privs").arg(binary()).args(["kill", &task]);
    assert_eq!(run(kill).code, 0);
}

/// A server that can gain no privileges, like those of clients that confine themselves.
fn confined_server(env: &Env, variables: &[(&str, &str)]) -> Client {
    let mut server = env.command("setpriv");
    server.arg("--no-new-privs").arg(binary()).arg("serve").envs(variables.iter().copied());
    let client = Client::start(server, env.path("stderr"));
    client.initialize();
    client
}

#[test]
fn a_sandboxed_task_is_known_by_its_origin_where_nothing_shows_the_sandbox() {
    let env = home();
    env.configure("sandbox: {mode: workspace, best_effort: true}\n");
    let lowered = [("ZSH_TOOL_SANDBOX_LOWERED", "filters=none namespaces=none")];
    let client = confined_server(&env, &lowered);
    let task = client.start_task("sleep 60");
    let socket = socket_of(&env, &task);
    for words in ["", "env -i", "setsid -w env -i", "ulimit -x unlimited; exec env -i"] {
        let result = client.run(&connects(words, &socket));
        assert!(result.output().contains(CLOSED), "{words}: {}", result.text);
    }
    // Without a mark in its environment or its limits, and without its parent.
    let orphan = r#"
import os, resource
parent = os.getpid()
if os.fork() == 0:
    os.setsid()
    resource.setrlimit(10, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    while os.getppid() == parent:
        pass
    made = socket.socket(socket.AF_UNIX)
    made.connect(sys.argv[1])
    open("answer.new", "w").write(ask(made))
    os.rename("answer.new", "answer")
"#;
    client.run(&python("env -i", orphan, &socket));
    let answer =
        wait_until("it has an answer", || fs::read_to_string(env.work().join("answer")).ok());
    assert!(answer.contains(CLOSED), "{answer}");
    // Another server without a sandbox, with the same state directory, and a detached task.
    let free = confined_server(&env, &[("ZSH_TOOL_SANDBOX_MODE", "off")]);
    let other = background(&env, &free, "sleep 60", json!({}));
    let asks = connects("", &socket_of(&env, &other));
    let result = client.run(&asks);
    assert!(result.output().contains(CLOSED), "{}", result.text);
    let detached = client.call("zsh", json!({"command": asks, "detach": true, "yield_after": 25}));
    let end = client.poll(&detached.task_id(), json!({"wait_for": "end", "full_output": true}));
    assert!(end.text.contains(CLOSED), "{}", end.text);
    let open = free.run(&asks);
    assert!(open.output().contains(&other), "{}", open.text);
}

#[test]
fn an_empty_sandbox_is_no_sandbox_that_is_understood() {
    let env = Env::new();
    let client = env.client();
    for sandbox in [json!(""), json!([]), json!([""]), json!(" ")] {
        let result = client.call("zsh", json!({"command": "echo ran", "sandbox": sandbox}));
        assert!(result.is_error, "{sandbox}: {}", result.text);
        assert!(result.text.contains("must be workspace or read-only"), "{}", result.text);
    }
    let left_out = client.call("zsh", json!({"command": "echo ran", "sandbox": null}));
    assert_eq!(left_out.output(), "ran");
}

/// Calls a tool as Codex does with this profile of permissions.
fn call_as_codex(client: &Client, tool: &str, arguments: Value, profile: &Value) -> ToolResult {
    let state = json!({"permissionProfile": profile, "sandboxCwd": "file:///nowhere"});
    let meta = json!({"codex/sandbox-state-meta": state});
    let params = json!({"name": tool, "arguments": arguments, "_meta": meta});
    client.request("tools/call", params).tool_result()
}

fn managed(entries: &[(&Path, &str)]) -> Value {
    let entry = |path: Value, access: &str| json!({"path": path, "access": access});
    let root = entry(json!({"type": "special", "value": {"kind": "root"}}), "read");
    let named =
        entries.iter().map(|(path, access)| entry(json!({"type": "path", "path": path}), access));
    let entries: Vec<Value> = std::iter::once(root).chain(named).collect();
    json!({
        "type": "managed", "network": "enabled",
        "file_system": {"type": "restricted", "entries": entries},
    })
}

#[test]
fn codex_paths_are_compared_by_where_they_lead() {
    let env = home();
    let (real, link) = (env.path("home/w"), env.path("home/wl"));
    fs::create_dir_all(real.join(".git")).expect("a directory");
    symlink("w", &link).expect("a link");
    let client = env.client();
    for (written, kept) in [
        (link.clone(), real.join(".git")),
        (real.clone(), link.join(".git")),
        (real.join("../wl"), real.join(".//.git")),
    ] {
        let profile = managed(&[(&written, "write"), (&kept, "read")]);
        let command =
            format!("echo x > ~/w/a && echo made; echo x > ~/wl/.git/config && echo {DONE}");
        let call = json!({"command": command, "yield_after": 25});
        let result = call_as_codex(&client, "zsh", call, &profile);
        assert!(result.output().contains("made"), "{written:?}: {}", result.text);
        assert_refused(&result, &format!("{written:?}"));
    }
    let unknown = json!({"type": "managed", "network": "enabled", "domains": ["example.org"],
        "file_system": {"type": "unrestricted"}});
    let result = call_as_codex(&client, "zsh", json!({"command": "echo ran"}), &unknown);
    assert!(result.is_error && result.text.contains("`domains`"), "{}", result.text);
}

#[test]
fn codex_profiles_hold_for_what_is_typed() {
    let env = home();
    let client = env.client();
    let (free, read_only) = (json!({"type": "disabled"}), managed(&[]));
    let cat = json!({"command": "cat", "stdin_open": true, "yield_after": 0});
    let loose = call_as_codex(&client, "zsh", cat.clone(), &free).task_id();
    let tight = call_as_codex(&client, "zsh", cat.clone(), &read_only).task_id();
    let mut detached = cat;
    detached["detach"] = json!(true);
    let apart = call_as_codex(&client, "zsh", detached, &free).task_id();
    let sent = |task: &str, profile: &Value| {
        let arguments = json!({"task_id": task, "input": "typed", "until": "typed", "listen": 20});
        call_as_codex(&client, "zsh_send", arguments, profile)
    };
    for task in [&loose, &apart] {
        let refused = sent(task, &read_only);
        assert!(refused.is_error && refused.text.contains("nothing was sent"), "{}", refused.text);
        assert!(refused.text.contains("sandbox=off"), "{}", refused.text);
        let open = sent(task, &free);
        assert!(!open.is_error && open.text.contains("typed"), "{}", open.text);
    }
    for profile in [&read_only, &free] {
        let open = sent(&tight, profile);
        assert!(!open.is_error && open.text.contains("typed"), "{}", open.text);
    }
    for task in [&loose, &tight, &apart] {
        let killed = call_as_codex(&client, "zsh_kill", json!({"task_id": task}), &read_only);
        assert!(!killed.is_error, "{}", killed.text);
    }
}

#[test]
fn what_a_host_cannot_be_told_of_a_codex_profile_is_refused() {
    let env = home();
    let binaries = binary();
    let binaries = binaries.parent().expect("a folder").display().to_string();
    env.configure(&format!(
        "hosts:\n  there: {{command: [env], directory: {}, binary_directory: {binaries}, install: never}}\n",
        env.work().display()
    ));
    let client = env.client();
    let (work, secret) = (env.work(), env.path("home/.ssh"));
    let call = |command: &str, profile: &Value| {
        let arguments = json!({"command": command, "host": "there", "yield_after": 25});
        call_as_codex(&client, "zsh", arguments, profile)
    };
    for (profile, named) in [
        (managed(&[(&work, "write")]), "only listed directories"),
        (managed(&[(&secret, "deny")]), ".ssh may not be read"),
    ] {
        let result = call("echo ran", &profile);
        assert!(result.is_error && result.text.contains(named), "{}", result.text);
        assert!(result.text.contains("host there"), "{}", result.text);
    }
    let result = call(&format!("echo x > new && echo {DONE}; echo ran"), &managed(&[]));
    assert_refused(&result, "read-only");
    assert!(result.text.contains("sandbox=read-only"), "{}", result.text);
    let free = json!({"type": "disabled"});
    let cat = json!({"command": "cat", "host": "there", "stdin_open": true, "yield_after": 0});
    let task = call_as_codex(&client, "zsh", cat, &free).task_id();
    let typed = json!({"task_id": task, "input": "typed", "until": "typed", "listen": 20});
    let refused = call_as_codex(&client, "zsh_send", typed.clone(), &managed(&[]));
    assert!(refused.is_error && refused.text.contains("nothing was sent"), "{}", refused.text);
    let open = call_as_codex(&client, "zsh_send", typed, &free);
    assert!(open.text.contains("typed"), "{}", open.text);
    call_as_codex(&client, "zsh_kill", json!({"task_id": task}), &free);
}

#[test]
fn settings_that_cannot_be_meant_are_faults() {
    let env = home();
    for (yaml, named) in [
        ("{mode: workspace, deny_read: [/]}", "sandbox.deny_read: / would leave no program"),
        ("{mode: read-only, deny_read: [/usr/..]}", "would leave no program"),
        ("{mode: workspace, deny_read: [~/.ss*]}", "sandbox.deny_read: ~/.ss* is a pattern"),
        ("{mode: workspace, write: ['~/project?']}", "sandbox.write: ~/project? is a pattern"),
    ] {
        for variables in [&[][..], &[LANDLOCK_ALONE]] {
            let client = client_with(&env, &format!("sandbox: {yaml}\n"), variables);
            let result = client.run("echo ran");
            assert!(result.is_error && result.text.contains(named), "{yaml}: {}", result.text);
        }
    }
    // What contains such a character and exists is a path.
    fs::create_dir(env.path("home/[id]")).expect("a directory");
    let client = client_with(&env, "sandbox: {mode: workspace, write: ['~/[id]']}\n", &[]);
    let result = client.run("echo x > ~/\\[id\\]/new && echo made");
    assert_eq!(result.output(), "made", "{}", result.text);
}

#[test]
fn a_home_or_a_project_that_says_nothing_is_a_fault_of_the_sandbox() {
    let env = home();
    let started = |mode: &str, change: fn(&mut Command)| {
        env.configure(&format!("sandbox: {{mode: {mode}}}\n"));
        let config = env.path("home/.config/zsh-tool/config.yaml");
        let mut server = env.serve();
        server.env("ZSH_TOOL_CONFIG", config);
        change(&mut server);
        let client = Client::start(server, env.path("stderr"));
        client.initialize();
        client
    };
    let no_home: fn(&mut Command) = |server| _ = server.env_remove("HOME");
    let relative: fn(&mut Command) = |server| _ = server.env("HOME", "home");
    let root: fn(&mut Command) = |server| _ = server.env("CLAUDE_PROJECT_DIR", "/");
    for (mode, change, named) in [
        ("workspace", no_home, "HOME is not set to an absolute path"),
        ("read-only", relative, "HOME is not set to an absolute path"),
        ("workspace", root, "the project is /"),
    ] {
        let result = started(mode, change).run("echo ran");
        assert!(result.is_error && result.text.contains(named), "{mode}: {}", result.text);
    }
    for change in [no_home, root] {
        let client = started("off", change);
        assert_eq!(client.run("echo ran").output(), "ran");
        let asked = client.call("zsh", json!({"command": "echo ran", "sandbox": "workspace"}));
        assert!(asked.is_error && asked.text.contains("not started"), "{}", asked.text);
    }
    let read_only = started("read-only", root).run("echo ran");
    assert_eq!(read_only.output(), "ran", "{}", read_only.text);
    let exec = run(zsh_tool(&env, &["exec", "--sandbox", "read-only", "--", "echo ran"]));
    assert_eq!(exec.text(), "ran\n", "{}", exec.stderr);
}

#[test]
fn a_session_leaves_nothing_to_commands_in_another_sandbox() {
    let env = home();
    let client = env.client();
    let call = |command: &str, sandbox: Option<&str>| {
        let arguments = json!({"command": command, "session": "s", "sandbox": sandbox});
        client.call("zsh", arguments).output()
    };
    call("export BASH_ENV=$PWD/evil PATH=$PWD/bin:$PATH; cd /tmp", Some("workspace"));
    let shows = "echo ${BASH_ENV-none} $PWD; print -r -- ${path[1]}";
    let work = env.work().canonicalize().expect("a directory");
    let outside = call(shows, None);
    assert!(outside.starts_with(&format!("none {}\n", work.display())), "{outside}");
    assert!(!outside.contains(&format!("{}/bin", work.display())), "{outside}");
    let tighter = call(shows, Some("read-only"));
    assert!(tighter.starts_with("none "), "{tighter}");
    let again = call(shows, Some("workspace"));
    assert!(again.contains("/evil /tmp\n"), "{again}");
}
