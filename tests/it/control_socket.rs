//! The control socket: tasks of one server as other processes of the user reach them, and what
//! the socket refuses.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Instant;

use serde_json::{Value, json};

use crate::support::client::{Client, PATIENCE};
use crate::support::env::Env;
use crate::support::oneshot::Runs;
use crate::support::processes::{UniqueSleep, wait_until};
use crate::support::program::{Program, ran, run_with_input, zsh_tool};
use crate::support::state_files::server_files;
use crate::support::unprivileged;

/// A background task, once other processes can know of it.
pub fn background(env: &Env, client: &Client, command: &str, more: Value) -> String {
    let mut arguments = json!({"command": command, "background": true});
    for (name, value) in more.as_object().expect("arguments") {
        arguments[name] = value.clone();
    }
    let task = client.call("zsh", arguments).task_id();
    wait_until("other processes can know of it", || {
        (server_files(env, &format!("{task}.json")).len() == 1).then_some(())
    });
    socket_of(env, &task);
    task
}

/// The control socket of the server that has the task.
pub fn socket_of(env: &Env, task: &str) -> PathBuf {
    wait_until("there is a control socket", || {
        let files = server_files(env, &format!("{task}.json"));
        let socket = files.first()?.with_file_name("control.sock");
        UnixStream::connect(&socket).is_ok().then_some(socket)
    })
}

/// Sends one line to a socket and reads the line that answers it.
fn ask(stream: &UnixStream, message: &Value) -> Value {
    let mut to = stream;
    writeln!(to, "{message}").expect("room");
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).expect("an answer");
    serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"))
}

pub fn call_of(tool: &str, arguments: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {"name": tool, "arguments": arguments}})
}

fn text(answer: &Value) -> &str {
    answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer}"))
}

#[test]
fn another_server_polls_types_and_kills_and_no_line_is_lost_or_shown_twice() {
    let env = Env::new();
    let (first, second) = (env.client(), env.client());
    let sleep = UniqueSleep::new();
    let command = format!("echo one; read a; echo got $a; read b; {sleep}");
    let task = background(&env, &first, &command, json!({"stdin_open": true, "detach": true}));
    assert_eq!(
        first.poll(&task, json!({"until": "one"})).numbered().len(),
        0,
        "shown at the start"
    );

    let sent = second.call("zsh_send", json!({"task_id": task, "input": "two"}));
    assert_eq!(sent.output(), "got two", "{}", sent.text);
    let empty = first.poll(&task, json!({"listen": 0}));
    assert!(empty.numbered().is_empty(), "{}", empty.text);
    first.call("zsh_send", json!({"task_id": task, "input": "three", "listen": 0}));
    sleep.wait_for(1);

    let range = second.poll(&task, json!({"from_line": 1, "to_line": 2}));
    assert_eq!(range.output(), "1: one\n2: got two", "{}", range.text);
    let killed = second.kill_task(&task);
    assert!(killed.text.contains("no survivors"), "{}", killed.text);
    sleep.assert_gone();
    let end = first.poll(&task, json!({"listen": 0}));
    assert_eq!(end.status(), "killed", "{}", end.text);
}

#[test]
fn what_a_person_is_shown_is_shown_to_the_agent_once() {
    let env = Env::new();
    let client = env.client();
    let command = "while read a; do echo got $a; done";
    let task = background(&env, &client, command, json!({"stdin_open": true, "detach": true}));
    let seen = std::thread::scope(|scope| {
        let agent = scope.spawn(|| {
            let mut seen = Vec::new();
            while seen.last().is_none_or(|last| last != "got 19") {
                let polled = client.poll(&task, json!({"listen": 0.2}));
                seen.extend(polled.numbered().into_iter().map(|(_, text)| text));
            }
            seen
        });
        for number in 0..20 {
            let sent = ran(&env, &["send", &task, &number.to_string()]);
            assert_eq!(sent.code, 0, "{sent:?}");
        }
        agent.join().expect("the lines")
    });
    let every: Vec<String> = (0..20).map(|number| format!("got {number}")).collect();
    assert_eq!(seen, every);
    assert_eq!(ran(&env, &["kill", &task]).code, 0);
    let end = client.poll(&task, json!({"listen": 0}));
    assert_eq!(end.status(), "killed", "{}", end.text);
}

#[test]
fn what_a_lost_answer_has_shown_is_shown_again() {
    let env = Env::new();
    let client = env.client();
    let task =
        background(&env, &client, "echo seen; sleep 2; echo news; cat", json!({"pty": true}));
    let poll = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
        "name": "zsh_poll",
        "arguments": {"task_id": task, "until": "news", "listen": 25},
        "_meta": {"zsh-tool/relay": {}},
    }});
    let delivered =
        json!({"jsonrpc": "2.0", "method": "zsh-tool/delivered", "params": {"requestId": 1}});
    let lost = UnixStream::connect(socket_of(&env, &task)).expect("a connection");
    assert!(text(&ask(&lost, &poll)).contains("news"));
    drop(lost);
    let again = wait_until("the lost answer is taken back", || {
        let poll = client.poll(&task, json!({"listen": 0}));
        (!poll.numbered().is_empty()).then_some(poll)
    });
    assert!(again.output().contains("news"), "{}", again.text);

    assert_eq!(ran(&env, &["send", &task, "more"]).code, 0);
    let kept = UnixStream::connect(socket_of(&env, &task)).expect("a connection");
    let mut poll = poll;
    poll["params"]["arguments"]["until"] = json!("more");
    assert!(text(&ask(&kept, &poll)).contains("more"));
    writeln!(&kept, "{delivered}").expect("room");
    // Closed by this side only: the server has read everything when it closes its own.
    kept.shutdown(std::net::Shutdown::Write).expect("an open connection");
    let mut rest = String::new();
    (&kept).read_to_string(&mut rest).expect("the end");
    let empty = client.poll(&task, json!({"listen": 0}));
    assert!(!empty.output().contains("more"), "{}", empty.text);
}

#[test]
fn the_socket_starts_nothing_and_types_no_secret() {
    let env = Env::new();
    let client = env.client();
    let task = background(&env, &client, "cat", json!({"pty": true}));
    let socket = socket_of(&env, &task);
    let mode = std::fs::metadata(&socket).expect("the socket").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    for (tool, arguments, why) in [
        ("zsh", json!({"command": "touch made"}), "starts no command"),
        ("zsh_send", json!({"task_id": task, "secret_env": "X"}), "types no secret"),
    ] {
        let stream = UnixStream::connect(&socket).expect("a connection");
        let answer = ask(&stream, &call_of(tool, arguments));
        assert_eq!(answer["result"]["isError"], json!(true), "{answer}");
        assert!(text(&answer).contains(why), "{answer}");
    }
    assert!(!env.work().join("made").exists());
    let stream = UnixStream::connect(&socket).expect("a connection");
    let typed = ask(&stream, &call_of("zsh_send", json!({"task_id": task, "input": "hello"})));
    assert!(text(&typed).contains("hello"), "{typed}");
}

#[test]
fn garbage_deaf_clients_and_forty_connections_hold_nothing_up() {
    let env = Env::new();
    let client = env.client();
    let task = background(&env, &client, "cat", json!({"pty": true}));
    let socket = socket_of(&env, &task);
    let mut held = Vec::new();
    for count in 0..40 {
        let mut stream = UnixStream::connect(&socket).expect("a connection");
        match count % 3 {
            0 => {}
            1 => {
                // A full socket refuses the rest, and a replaced connection all of it.
                stream.set_nonblocking(true).expect("a socket");
                let _ = stream.write_all(&[0xff; 100_000]);
            }
            _ => {
                let poll = call_of("zsh_poll", json!({"task_id": task, "listen": 0}));
                let _ = writeln!(stream, "{poll}");
            }
        }
        held.push(stream);
    }
    let begun = Instant::now();
    let stream = UnixStream::connect(&socket).expect("a connection");
    let answer = ask(&stream, &call_of("zsh_tasks", json!({})));
    assert!(text(&answer).contains(&task), "{answer}");
    client.ping();
    assert!(begun.elapsed() < PATIENCE, "{:?}", begun.elapsed());
    // The first ones were replaced.
    let mut first = held.swap_remove(0);
    first.set_read_timeout(Some(PATIENCE)).expect("a socket");
    assert_eq!(first.read(&mut [0; 8]).expect("closed"), 0);
}

#[test]
fn a_person_types_and_kills_by_the_command_line_and_the_agent_still_hears_of_it() {
    let env = Env::new();
    let client = env.client();
    let task = background(&env, &client, "cat", json!({"stdin_open": true}));
    let sent = ran(&env, &["send", &task[..6], "typed by a person"]);
    assert_eq!(sent.code, 0, "{sent:?}");
    assert!(sent.text().contains("typed by a person"), "{sent:?}");
    let polled = client.poll(&task, json!({"listen": 25}));
    assert!(polled.output().contains("typed by a person"), "{}", polled.text);

    // What a person is shown takes no notice from the agent.
    let unseen = background(&env, &client, "sleep 0.4; exit 5", json!({}));
    wait_until("it has ended", || {
        let listed = ran(&env, &["tasks", "--all", "--json"]).text();
        listed.lines().any(|line| line.contains(&unseen) && line.contains("failed")).then_some(())
    });
    assert_eq!(ran(&env, &["send", &task, "again"]).code, 0);
    let noticed = client.run("echo noticed");
    assert!(noticed.text.contains(&unseen), "{}", noticed.text);

    let wrong = ran(&env, &["kill", &task, "--signal", "NOPE"]);
    assert_eq!(wrong.code, 1, "{wrong:?}");
    assert!(wrong.stderr.contains("signal must be one of"), "{wrong:?}");
    let killed = ran(&env, &["kill", &task]);
    assert_eq!(killed.code, 0, "{killed:?}");
    assert!(killed.text().contains("no survivors"), "{killed:?}");
    let next = client.run("echo next");
    assert!(next.text.contains(&task), "the end is reported: {}", next.text);
    wait_until("other processes can know of the end", || {
        let listed = ran(&env, &["tasks", "--all", "--json"]).text();
        listed.lines().any(|line| line.contains(&task) && line.contains("killed")).then_some(())
    });
    for arguments in [&["kill", &task][..], &["send", &task, "x"]] {
        let ended = ran(&env, arguments);
        assert_eq!(ended.code, 1, "{ended:?}");
        assert!(ended.stderr.contains("has ended"), "{ended:?}");
    }
    let usage = crate::support::program::run(zsh_tool(&env, &["send", &task]));
    assert_eq!(usage.code, 2, "{usage:?}");
}

#[test]
fn the_agents_of_a_run_are_reached_like_other_tasks() {
    let runs = Runs::working(json!([[{"hang": 1}]]));
    let run = runs.start(&["make it"]);
    runs.wait_for_start("worker", 1);
    let task = wait_until("other processes can know of the agent", || {
        let file = server_files(&runs.env, ".json").pop()?;
        Some(file.file_stem()?.to_str()?.to_owned())
    });
    socket_of(&runs.env, &task);
    let killed = ran(&runs.env, &["kill", &task]);
    assert_eq!(killed.code, 0, "{killed:?}");
    assert!(killed.text().contains("no survivors"), "{killed:?}");
    let ended = run.finish();
    assert_eq!(ended.code, 1, "{}", ended.stderr);
}

#[test]
fn the_connection_of_another_user_is_closed_unread() {
    let env = Env::new();
    env.configure("log: warn\n");
    let client = unprivileged::client(&env);
    let task = background(&env, &client, "cat", json!({"pty": true}));
    let socket = socket_of(&env, &task);
    // As root, everything on the way there is opened.
    for path in socket.ancestors().take_while(|path| path.starts_with(env.path(""))) {
        let mode = if path == socket { 0o666 } else { 0o755 };
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("a mode");
    }
    let mut stranger = env.command("setpriv");
    stranger.args(["--reuid=65533", "--regid=65533", "--clear-groups", "socat", "-"]);
    stranger.arg(format!("UNIX-CONNECT:{}", socket.display()));
    let request = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\"}\n";
    let finished = run_with_input(stranger, request.as_bytes().to_vec());
    assert_eq!(finished.text(), "", "{finished:?}");
    let log = std::fs::read_to_string(env.path("stderr")).expect("the log");
    assert!(log.contains("user 65533 is refused at the control socket"), "{log} {finished:?}");
    client.kill_task(&task);
}

const CONNECTIONS: usize = 16;

/// Connections each of which has one call, begun when this returns.
fn busy(socket: &Path, count: usize, call: &Value) -> Vec<UnixStream> {
    let busy = |_| {
        let stream = UnixStream::connect(socket).expect("a connection");
        writeln!(&stream, "{call}").expect("room");
        // Requests are begun in their order.
        ask(&stream, &json!({"jsonrpc": "2.0", "id": 2, "method": "ping"}));
        stream
    };
    (0..count).map(busy).collect()
}

#[test]
fn streams_of_events_make_room_and_connect_again() {
    let env = Env::new();
    let client = env.client();
    let pipe = env.named_pipe("go");
    let mut follower = Program::start(zsh_tool(&env, &["events", "--follow", "--json"]));
    let task = background(&env, &client, "cat", json!({"pty": true}));
    let ends = |client: &Client| {
        let task = background(&env, client, "read < go", json!({}));
        std::fs::write(&pipe, "\n").expect("a reader");
        task
    };
    let first = ends(&client);
    assert!(follower.read_line().contains(&first));
    let events = json!({"jsonrpc": "2.0", "id": 1, "method": "zsh-tool/events",
        "params": {"follow": true}});
    let streams = busy(&socket_of(&env, &task), 2 * CONNECTIONS, &events);
    let sent = ran(&env, &["send", &task, "typed by a person"]);
    assert_eq!(sent.code, 0, "{sent:?}");
    drop(streams);
    let second = ends(&client);
    // That the other task waits for input is an event as well.
    while !follower.read_line().contains(&second) {}
    follower.signal("TERM");
    follower.finish();
}

#[test]
fn an_owner_whose_connections_all_have_calls_is_busy_and_not_gone() {
    let env = Env::new();
    let client = env.client();
    let sleep = UniqueSleep::new();
    let task = background(&env, &client, &sleep.to_string(), json!({"detach": true}));
    let socket = socket_of(&env, &task);
    let poll = call_of("zsh_poll", json!({"task_id": task, "listen": 25}));
    let polls = busy(&socket, CONNECTIONS, &poll);
    let killed = ran(&env, &["kill", &task]);
    assert_eq!(killed.code, 1, "{killed:?}");
    assert!(killed.stderr.contains("is busy: all 16 connections"), "{killed:?}");
    let polled = client.poll(&task, json!({"listen": 0}));
    assert!(polled.is_error && polled.text.contains("is busy"), "{}", polled.text);
    drop(polls);
    wait_until("there is room", || {
        let killed = ran(&env, &["kill", &task]);
        (killed.code == 0).then_some(())
    });
}

/// Sends a call from a process that a sandbox starts: `sandbox` are the words before `python3`.
pub fn ask_from(sandbox: &[&str], socket: &Path, call: &Value) -> Value {
    const SCRIPT: &str = "import socket, sys
s = socket.socket(socket.AF_UNIX)
s.connect(sys.argv[1])
try:
    s.sendall(sys.argv[2].encode() + b'\\n')
except OSError:
    pass
print(s.makefile().readline(), end='')";
    let call = call.to_string();
    let socket = socket.to_str().expect("UTF-8");
    let mut words = sandbox.iter().copied().chain(["python3", "-c", SCRIPT, socket, &call]);
    let program = words.next().expect("a program");
    let output = std::process::Command::new(program).args(words).output().expect(program);
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{sandbox:?}: {error}: {output:?}"))
}

/// A seccomp filter that allows all system calls.
const FILTERED: &str = "import ctypes, os, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
code = struct.pack('HBBI', 0x06, 0, 0, 0x7fff0000)
buffer = ctypes.create_string_buffer(code)
program = ctypes.create_string_buffer(struct.pack('HxxxxxxQ', 1, ctypes.addressof(buffer)))
if libc.prctl(22, 2, program) != 0:
    sys.exit(f'no seccomp filter: {ctypes.get_errno()}')
os.execvp(sys.argv[1], sys.argv[1:])";

#[test]
fn a_process_that_is_confined_more_is_refused() {
    let env = Env::new();
    let client = env.client();
    let task = background(&env, &client, "cat", json!({"pty": true}));
    let socket = socket_of(&env, &task);
    let typed = call_of("zsh_send", json!({"task_id": task, "input": "from a sandbox"}));
    let killed = call_of("zsh_kill", json!({"task_id": task}));
    let reset = call_of("zsh_neverhang_reset", json!({}));
    let read = call_of("zsh_poll", json!({"task_id": task, "listen": 0}));
    let attached = json!({"jsonrpc": "2.0", "id": 1, "method": "zsh-tool/attach",
        "params": {"task_id": task, "rows": 24, "cols": 80}});
    let root = unprivileged::is_root();
    let sandboxes: &[(&[&str], &str, bool)] = &[
        (&["setpriv", "--no-new-privs"], "no_new_privs", true),
        (&["unshare", "--user", "--map-current-user"], "user namespace", true),
        (&["unshare", "--mount"], "mount namespace", root),
        (&["unshare", "--pid", "--fork"], "pid namespace", root),
        // Without `no_new_privs` only root may set a filter.
        (&["python3", "-c", FILTERED], "seccomp", root),
    ];
    for (sandbox, reason, _) in sandboxes.iter().filter(|(_, _, possible)| *possible) {
        for call in [&typed, &killed, &reset, &attached, &read] {
            let answer = ask_from(sandbox, &socket, call);
            let error = answer["error"]["message"].as_str().unwrap_or_default();
            assert!(error.contains("closed to sandboxed processes"), "{sandbox:?}: {answer}");
            assert!(error.contains(reason), "{sandbox:?}: {answer}");
        }
    }
    // From outside it works as before.
    let answer = ask_from(&["env"], &socket, &typed);
    assert!(text(&answer).contains("from a sandbox"), "{answer}");
    let answer = ask_from(&["env"], &socket, &killed);
    assert_eq!(answer["result"]["isError"], json!(false), "{answer}");
}
