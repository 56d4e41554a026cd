//! A server that is killed is replaced on the same pipes: what its client has asked for is answered
//! once, nothing runs twice, and the session goes on.

use std::collections::HashMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::Stdio;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::client::{Client, PATIENCE, kill_those_alive, send_signal};
use crate::support::env::{Env, binary};
use crate::support::processes::{UniqueSleep, descendants_of, wait_until};

/// The server below this guard that is not this one.
fn server_other_than(guard: u32, known: Option<u32>) -> Option<u32> {
    let children = fs::read_to_string(format!("/proc/{guard}/task/{guard}/children")).ok()?;
    let children = children.split_whitespace().filter_map(|pid| pid.parse().ok());
    children.rev().find(|pid| {
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        Some(*pid) != known && name.trim() == "ztool"
    })
}

/// Kills the server of a client; returns the pid of the next.
pub fn kill_server(client: &Client, known: Option<u32>) -> u32 {
    let server = wait_until("the server", || server_other_than(client.pid(), known));
    send_signal("KILL", server);
    wait_until("the next server", || server_other_than(client.pid(), Some(server)))
}

/// Whether a file of a server's directory has this text.
fn is_noted(servers: &Path, text: &str) -> bool {
    let directories = fs::read_dir(servers).into_iter().flatten().flatten();
    let files =
        directories.flat_map(|directory| fs::read_dir(directory.path())).flatten().flatten();
    files.filter_map(|file| fs::read_to_string(file.path()).ok()).any(|file| file.contains(text))
}

#[test]
fn a_killed_server_is_replaced_and_the_session_goes_on() {
    let env = Env::new();
    let client = env.client();
    client.run("echo before");
    let detached = json!({"command": "echo apart; sleep 600", "detach": true, "until": "apart"});
    let detached = client.call("zsh", detached).task_id();
    let sleep = UniqueSleep::new();
    let command = format!("echo begun; {sleep}");
    let call = client.call_async("zsh", json!({"command": command, "yield_after": 40}));
    sleep.wait_for(1);
    // A task's file is written soon after its start.
    wait_until("the file of the task", || {
        is_noted(&env.path("state/servers"), &sleep.to_string()).then_some(())
    });
    let server = server_other_than(client.pid(), None).expect("a server");
    send_signal("KILL", server);
    let answer = call.tool_result();
    let begin = "server restarted (killed by SIGKILL); task ";
    let end = " ended with it: zsh_poll shows its output";
    assert!(answer.text.starts_with(begin) && answer.text.ends_with(end), "{}", answer.text);
    assert_eq!(answer.raw["isError"], true, "{}", answer.raw);
    let task = answer.text.strip_prefix(begin).and_then(|rest| rest.get(..8)).expect("an id");
    sleep.assert_gone();
    let shown = wait_until("the end of the task", || {
        let shown = client.poll(task, json!({"listen": 0}));
        shown.text.contains("INTERRUPTED").then_some(shown)
    });
    assert_eq!(shown.without_numbers(), "begun", "{}", shown.text);
    let health = client.call("zsh_health", json!({}));
    assert!(health.text.contains("restarted  1 time, the last time "), "{}", health.text);
    assert!(health.text.contains("(killed by SIGKILL)"), "{}", health.text);
    assert_eq!(health.raw["structuredContent"]["restarts"], 1);
    assert!(client.run("echo after").text.contains("✔ exit=0"));
    // A task that was to outlive its server has.
    let polled = client.poll(&detached, json!({"listen": 0, "from_line": 1}));
    assert!(polled.text.contains("apart") && polled.status() == "running", "{}", polled.text);
    client.kill_task(&detached);
    client.assert_only_frames();
}

#[test]
fn what_was_read_of_a_frame_is_kept() {
    let env = Env::new();
    let client = env.client();
    let text = "x".repeat(1_000_000);
    let params = json!({"name": "zsh", "arguments": {"command": "wc -c", "stdin": text}});
    let frame =
        json!({"jsonrpc": "2.0", "id": 4711, "method": "tools/call", "params": params}).to_string();
    let (first, rest) = frame.as_bytes().split_at(600_000);
    client.send_raw(first);
    // The pipe holds less: when all of it was written, the server has read most.
    kill_server(&client, None);
    client.send_raw(rest);
    client.send_raw(b"\n");
    let answer = wait_until("the answer", || {
        let frames = client.frames();
        frames.into_iter().find(|frame| frame.value["id"] == 4711)
    });
    let text = answer.value["result"]["content"][0]["text"].to_string();
    assert!(text.contains("1000000"), "{text}");
}

#[test]
fn four_kills_in_a_minute_end_it_and_an_orderly_end_is_one() {
    let env = Env::new();
    let client = env.client();
    let mut known = None;
    for _ in 0..3 {
        let next = kill_server(&client, known);
        client.run("echo on");
        known = server_other_than(client.pid(), None).filter(|server| *server != next);
    }
    let server = server_other_than(client.pid(), None).expect("a server");
    send_signal("KILL", server);
    let (status, _) = client.wait_exit(PATIENCE);
    assert_eq!(status.code(), Some(137), "{status}");
    assert!(descendants_of(client.pid()).is_empty());
    let said = client.stderr();
    let reason =
        "the server is gone (killed by SIGKILL: 3 others have ended like this within a minute)";
    assert!(said.contains(reason), "{said}");

    for (signal, closes) in [("TERM", false), ("KILL", true)] {
        let client = env.client();
        client.run("echo on");
        let server = server_other_than(client.pid(), None).expect("a server");
        if closes {
            // Stopped, it does not see the end of its input.
            send_signal("STOP", server);
            client.close_stdin();
        }
        send_signal(signal, server);
        client.wait_exit(PATIENCE);
        client.assert_only_frames();
        let said = client.stderr();
        assert!(!said.contains("the server is gone"), "{said}");
    }
}

#[test]
fn a_server_that_dies_at_its_start_is_not_replaced_for_ever() {
    let env = Env::new();
    let client = env.client();
    client.run("echo on");
    let guard = client.pid();
    // Each is killed as soon as it is there, before it can begin.
    let mut killed = Vec::new();
    let begun = Instant::now();
    while begun.elapsed() < PATIENCE {
        let children = fs::read_to_string(format!("/proc/{guard}/task/{guard}/children"));
        let Ok(children) = children else { break };
        for pid in children.split_whitespace().filter_map(|pid| pid.parse::<u32>().ok()) {
            if !killed.contains(&pid) {
                kill_those_alive([pid]);
                killed.push(pid);
            }
        }
    }
    let (status, _) = client.wait_exit(PATIENCE);
    assert_eq!(status.code(), Some(137), "{status}");
    // The guard adopts what a killed server leaves behind.
    assert!((4..=8).contains(&killed.len()), "{killed:?}");
    client.assert_only_frames();
}

/// A connection of bytes, since what is cut is no frame.
struct Session {
    process: std::process::Child,
    lines: Receiver<String>,
    number: u64,
    stateless: bool,
    asked: Vec<(u64, Option<String>)>,
    answers: HashMap<u64, Vec<Value>>,
}

impl Session {
    fn start(env: &Env, stateless: bool) -> Session {
        let mut command = env.command(binary());
        command.arg("serve").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut process = command.spawn().expect("the server starts");
        let stdout = BufReader::new(process.stdout.take().expect("a pipe"));
        let (give, lines) = channel();
        thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                let _ = give.send(line);
            }
        });
        let mut session = Session {
            process,
            lines,
            number: 0,
            stateless,
            asked: Vec::new(),
            answers: HashMap::new(),
        };
        if !stateless {
            let client = json!({"name": "zsh-tool-tests", "version": "1"});
            let hello = json!({
                "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client,
            });
            session.ask("initialize", hello, None);
            session.await_answers();
        }
        session
    }

    fn ask(&mut self, method: &str, mut params: Value, token: Option<String>) {
        if self.stateless {
            params["_meta"] = json!({
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientInfo": {"name": "zsh-tool-tests", "version": "1"},
                "io.modelcontextprotocol/clientCapabilities": {},
            });
        }
        self.number += 1;
        self.asked.push((self.number, token));
        let id = self.number;
        let frame = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        let stdin = self.process.stdin.as_mut().expect("it is open");
        stdin.write_all(format!("{frame}\n").as_bytes()).expect("the guard holds the pipe");
    }

    /// Asks for something of one of several kinds.
    fn ask_any(&mut self, number: u64) {
        let token = format!("{}", self.number + 1);
        let run = |more: &str, stdin: usize| {
            let command = format!("echo {token} >>ran; {more}");
            json!({"name": "zsh", "arguments": {
                "command": command, "stdin": "x".repeat(stdin), "yield_after": 40,
                "max_output": 400_000,
            }})
        };
        let flood = "head -c 300000 /dev/zero | tr '\\0' y | fold -w 100";
        match number % 7 {
            0 | 1 => self.ask("tools/call", run("echo done", 1), Some(token.clone())),
            2 => self.ask("tools/call", run("wc -c", 1_000_000), Some(token.clone())),
            3 => self.ask("tools/call", run(flood, 1), Some(token.clone())),
            4 => self.ask("tools/call", json!({"name": "zsh_tasks", "arguments": {}}), None),
            5 => self.ask("tools/list", json!({}), None),
            _ if self.stateless => self.ask("server/discover", json!({}), None),
            _ => self.ask("ping", json!({}), None),
        }
    }

    /// Waits until all has been answered.
    fn await_answers(&mut self) {
        let limit = Instant::now() + PATIENCE;
        while self.asked.iter().any(|(id, _)| !self.answers.contains_key(id)) {
            match self.lines.recv_timeout(limit.saturating_duration_since(Instant::now())) {
                Ok(line) => self.note(&line),
                Err(error) => panic!("{error}: {:?} has no answer", self.asked),
            }
        }
    }

    /// Notes an answer. What was cut is no JSON.
    fn note(&mut self, line: &str) {
        if let Ok(answer) = serde_json::from_str::<Value>(line)
            && let Some(id) = answer["id"].as_u64()
        {
            self.answers.entry(id).or_default().push(answer);
        }
    }

    /// Ends it, and checks what became of each request.
    fn finish(mut self, env: &Env) -> usize {
        drop(self.process.stdin.take());
        loop {
            match self.lines.recv_timeout(PATIENCE) {
                Ok(line) => self.note(&line),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => panic!("it does not end"),
            }
        }
        let status = self.process.wait().expect("it has ended");
        assert!(status.success(), "{status}");
        let ran = fs::read_to_string(env.work().join("ran")).unwrap_or_default();
        let mut restarted = 0;
        for (id, token) in &self.asked {
            let answers = self.answers.get(id).map(Vec::as_slice).unwrap_or_default();
            assert_eq!(answers.len(), 1, "{id}: {answers:?}");
            let answer = answers[0].to_string();
            let is_restart = answer.contains("server restarted (killed by SIGKILL)");
            assert!(is_restart || answers[0]["error"].is_null(), "{answer}");
            restarted += usize::from(is_restart);
            if let Some(token) = token {
                let runs = ran.lines().filter(|line| line == token).count();
                assert!(runs == 1 || is_restart && runs == 0, "{id} ran {runs} times: {answer}");
            }
        }
        restarted
    }
}

/// Kills servers at moments that differ in each session, while they read, write, start commands and
/// wait.
pub fn kill_servers(sessions: u64) {
    let mut restarted = 0;
    for number in 0..sessions {
        let env = Env::new();
        let mut session = Session::start(&env, number % 3 == 2);
        let mut known = None;
        for kill in 0..3 {
            let guard = session.process.id();
            let server = wait_until("a server", || server_other_than(guard, known));
            known = Some(server);
            let step = number * 3 + kill;
            // Between none and 160 ms, most of them short.
            let delay = Duration::from_micros((step * 7919) % 400 * (1 + (step % 5) * 100));
            // Not a wait for something: the moment is meant to be any.
            let killer = thread::spawn(move || {
                thread::sleep(delay);
                send_signal("KILL", server);
            });
            for request in 0..1 + step % 6 {
                session.ask_any(step * 5 + request * 3);
            }
            killer.join().expect("it is killed");
            session.await_answers();
        }
        session.ask_any(0);
        session.await_answers();
        restarted += session.finish(&env);
    }
    assert!(restarted > 0, "no kill has met a request");
}

#[test]
fn each_request_is_answered_once_and_nothing_runs_twice() {
    kill_servers(8);
}
