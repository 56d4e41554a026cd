//! However the server ends, nothing that ran under it is left.

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::Connection;
use serde_json::{Value, json};

use crate::support::client::{Client, SECOND_THOUGHT, send_signal};
use crate::support::database::assert_outcomes_recorded;
use crate::support::env::{Env, binary};
use crate::support::processes::{
    UniqueSleep, assert_none_left, descendants_of, processes_with, wait_until,
};
use crate::support::state_files::{assert_task_files_whole, server_files};
use crate::support::trees::{plant, plant_those};

/// What the specification allows, and again four times that for a machine that is busy
/// with other tests.
const LIMIT: Duration = Duration::from_millis(5 * 1500);

fn assert_nothing_left(env: &Env, sleeps: &[UniqueSleep]) {
    for sleep in sleeps {
        sleep.assert_gone();
    }
    assert_none_left(env.mark());
}

#[test]
fn the_end_of_stdin_ends_the_server_and_trees_of_every_kind() {
    let env = Env::new();
    let client = env.client();
    let sleeps = plant(&client);
    client.close_stdin();
    let (status, took) = client.wait_exit(Duration::from_secs(20));
    eprintln!("EOF: {took:?}");
    assert_eq!(status.code(), Some(0));
    // Already: whoever outlives the guard is found at once, not after a wait.
    let left: Vec<_> = sleeps.iter().flat_map(UniqueSleep::running).collect();
    assert!(left.is_empty(), "{left:?}");
    assert!(took < LIMIT, "{took:?}");
    assert_nothing_left(&env, &sleeps);
}

#[test]
fn a_signal_ends_the_server_and_trees_of_every_kind() {
    for signal in ["TERM", "INT", "HUP", "QUIT"] {
        let env = Env::new();
        let client = env.client();
        let sleeps = plant(&client);
        client.signal(signal);
        let (status, took) = client.wait_exit(Duration::from_secs(20));
        eprintln!("{signal}: {took:?}");
        assert_eq!(status.code(), Some(0), "{signal}");
        let left: Vec<_> = sleeps.iter().flat_map(UniqueSleep::running).collect();
        assert!(left.is_empty(), "{signal}: {left:?}");
        assert!(took < LIMIT, "{signal}: {took:?}");
        assert_nothing_left(&env, &sleeps);
    }
}

#[test]
fn the_death_of_the_guard_or_the_server_leaves_nothing_behind() {
    for the_guard in [true, false] {
        let env = Env::new();
        let client = env.client();
        let sleeps = plant(&client);
        let killed = Instant::now();
        if the_guard {
            client.signal("KILL");
        } else {
            client.kill_server();
        }
        let (status, _) = client.wait_exit(Duration::from_secs(20));
        assert_ne!(status.code(), Some(0));
        wait_until("the server is gone", || processes_with(env.mark()).is_empty().then_some(()));
        eprintln!("KILL of the guard {the_guard}: {:?}", killed.elapsed());
        assert_nothing_left(&env, &sleeps);
    }
}

/// What any system can do, also without a list of its processes.
#[test]
fn what_stays_in_its_process_group_ends_with_the_server_in_any_case_and_is_recorded() {
    type End<'a> = (&'a str, &'a dyn Fn(&Client));
    let ends: [End; 4] = [
        ("EOF", &|client| client.close_stdin()),
        ("TERM", &|client| client.signal("TERM")),
        ("KILL of the guard", &|client| {
            send_signal("KILL", client.pid());
        }),
        ("KILL", &|client| client.kill_server()),
    ];
    for (number, (name, end)) in ends.iter().enumerate() {
        let env = Env::new();
        let client = env.client();
        let sleeps = plant_those(&client, |shape| !shape.contains("setsid"));
        end(&client);
        let (status, took) = client.wait_exit(Duration::from_secs(20));
        eprintln!("{name}: {took:?}");
        assert_eq!(status.code() == Some(0), number < 2, "{name}: {status}");
        assert_nothing_left(&env, &sleeps);
        if *name != "KILL" {
            assert_outcomes_recorded(&env, &sleeps, name);
        }
    }
}

#[test]
fn signals_in_quick_succession_end_it_at_once_and_leave_nothing() {
    let env = Env::new();
    let client = env.client();
    let sleeps = plant(&client);
    client.signal("TERM");
    client.signal("INT");
    client.signal("HUP");
    let (_, took) = client.wait_exit(Duration::from_secs(20));
    eprintln!("three signals: {took:?}");
    assert!(took < LIMIT, "{took:?}");
    assert_nothing_left(&env, &sleeps);
}

/// Ends a server by a first signal and, while that takes its time, by a second. Where the
/// second comes too late, the first has ended it in order, and another server is ended; how
/// many there were.
fn end_by_two_signals(env: &Env) -> usize {
    for round in 1..=10 {
        let code = end_with_a_second_signal(env);
        if code != Some(0) {
            assert_eq!(code, Some(130), "round {round}");
            return round;
        }
    }
    panic!("a second signal never came in time");
}

/// One of them; its exit code.
fn end_with_a_second_signal(env: &Env) -> Option<i32> {
    let client = env.client();
    let sleep = UniqueSleep::new();
    let told = env.work().join("told");
    let _ = fs::remove_file(&told);
    // The first signal ends the server in order, which this makes long.
    let command = format!("trap 'echo told >told' TERM; {sleep}; while :; do {sleep}; done");
    client.start_task(&command);
    sleep.wait_for(1);
    client.signal("TERM");
    wait_until("the end has begun", || told.exists().then_some(()));
    thread::sleep(SECOND_THOUGHT);
    client.signal("INT");
    let (status, took) = client.wait_exit(Duration::from_secs(20));
    eprintln!("a second signal: {took:?}, {status}");
    assert_nothing_left(env, &[sleep]);
    status.code()
}

#[test]
fn a_second_signal_ends_it_at_once_and_what_it_knows_is_kept() {
    let env = Env::new();
    let ended = end_by_two_signals(&env);
    assert_eq!(outcomes(&env), vec!["INTERRUPTED"; ended]);
}

#[test]
fn a_second_signal_leaves_time_to_note_the_end() {
    let env = Env::new();
    let ended = end_by_two_signals(&env);
    assert_eq!(server_files(&env, "/ended").len(), ended);
}

/// As a service manager does it: the same signals to the guard and to the server.
#[test]
fn signals_to_the_guard_and_the_server_alike_are_one_request() {
    let env = Env::new();
    let client = env.client();
    let sleep = UniqueSleep::new();
    // Has time for its own end.
    let command = format!("trap 'sleep 0.1; echo told >told; exit' TERM; {sleep} & wait");
    client.start_task(&command);
    sleep.wait_for(1);
    let all = "kill -s TERM $0 $1; kill -s HUP $0 $1; kill -s CONT $0 $1";
    let pids = [client.pid(), client.server_pid()].map(|pid| pid.to_string());
    let sent = Command::new("sh").args(["-c", all]).args(pids).status();
    assert!(sent.expect("a shell").success());
    let (status, _) = client.wait_exit(Duration::from_secs(20));
    assert_eq!(status.code(), Some(0), "{}", client.describe());
    assert!(env.work().join("told").exists());
    assert_nothing_left(&env, &[sleep]);
    assert_eq!(outcomes(&env), ["INTERRUPTED"]);
    assert_eq!(server_files(&env, "/ended").len(), 1);
}

/// What is remembered of the commands, in order.
fn outcomes(env: &Env) -> Vec<String> {
    let database = Connection::open(env.path("state/alan.db")).expect("a database");
    let mut query = database
        .prepare("SELECT outcome_type FROM observations ORDER BY rowid")
        .expect("a table of observations");
    let rows = query.query_map([], |row| row.get(0)).expect("rows");
    rows.map(|row| row.expect("an outcome")).collect()
}

#[test]
fn a_client_that_ignores_the_end_of_its_children_changes_nothing() {
    let env = Env::new();
    let mut command = env.command("env");
    command.args(["--ignore-signal=CHLD"]).arg(binary()).arg("serve");
    let client = Client::start(command, env.path("stderr"));
    client.initialize();
    assert_eq!(client.run("exit 3").meta["exit_code"], json!(3));
    client.close_stdin();
    let (status, _) = client.wait_exit(Duration::from_secs(20));
    assert_eq!(status.code(), Some(0));
    assert_none_left(env.mark());
}

#[test]
fn end_of_stdin_and_a_signal_together_end_it_as_either_does() {
    let env = Env::new();
    let client = env.client();
    let sleep = UniqueSleep::new();
    client.start_task(&format!("{sleep} & wait"));
    sleep.wait_for(1);
    client.close_stdin();
    client.signal("TERM");
    let (status, _) = client.wait_exit(Duration::from_secs(20));
    assert_eq!(status.code(), Some(0));
    assert_nothing_left(&env, &[sleep]);
}

#[test]
fn commands_that_are_just_being_started_end_with_the_server() {
    for round in 0..10 {
        let env = Env::new();
        let client = env.client();
        let sleep = UniqueSleep::new();
        let command = format!("trap '' TERM; {sleep}");
        for _ in 0..8 {
            client.call_async("zsh", json!({"command": command, "yield_after": 50}));
        }
        // From "none has begun" to "all have": each round ends at another moment.
        wait_until("some have begun", || {
            (descendants_of(client.pid()).len() >= round).then_some(())
        });
        client.signal("TERM");
        let (status, took) = client.wait_exit(Duration::from_secs(20));
        assert_eq!(status.code(), Some(0));
        assert!(took < LIMIT, "{took:?}");
        assert_nothing_left(&env, &[sleep]);
    }
}

#[test]
fn calls_under_way_are_told_that_their_task_was_interrupted() {
    let env = Env::new();
    let client = env.client();
    let sleep = UniqueSleep::new();
    let command = sleep.to_string();
    let call = client.call_async("zsh", json!({"command": command, "yield_after": 50}));
    sleep.wait_for(1);
    client.signal("TERM");
    let result = call.tool_result();
    assert_eq!(result.status(), "interrupted", "{}", result.text);
    client.wait_exit(Duration::from_secs(20));
    sleep.assert_gone();
}

#[test]
fn a_client_that_never_reads_does_not_keep_the_server() {
    let env = Env::new();
    let sleep = UniqueSleep::new();
    let mut server = deaf(&env);
    let mut stdin = server.stdin.take().expect("a piped stdin");
    let background = format!("trap '' TERM; {sleep} & wait; wait");
    send(&mut stdin, 1, "zsh", json!({"command": background, "yield_after": 0}));
    // Each answer is larger than what a pipe holds.
    let flood = json!({"command": "seq 1 200000", "max_output": 500_000, "yield_after": 20});
    for id in 2..12 {
        send(&mut stdin, id, "zsh", flood.clone());
    }
    sleep.wait_for(1);
    drop(stdin);
    let took = wait_for_end(&mut server);
    eprintln!("a client that never reads: {took:?}");
    assert!(took < LIMIT, "{took:?}");
    assert_nothing_left(&env, &[sleep]);
}

#[test]
fn a_client_that_asks_much_and_reads_nothing_does_not_keep_the_server() {
    let env = Env::new();
    let mut server = deaf(&env);
    let mut stdin = server.stdin.take().expect("a piped stdin");
    // More answers than the server queues, of a kind that its reader gives itself; what
    // it leaves unread still fits into the pipe, so that this client is not blocked.
    for id in 0..3_000 {
        writeln!(stdin, r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#).expect("a reader");
    }
    drop(stdin);
    let took = wait_for_end(&mut server);
    eprintln!("a client that asks much: {took:?}");
    assert_none_left(env.mark());
}

#[test]
fn a_server_that_is_killed_as_it_starts_leaves_nothing() {
    for signal in ["TERM", "KILL"] {
        for fraction in 0..6 {
            let env = Env::new();
            let client = env.client_before_initialize();
            // At different moments of the start: after so many of its threads.
            wait_until("it has come so far", || {
                let threads: usize = std::iter::once(client.pid())
                    .chain(descendants_of(client.pid()).iter().map(|process| process.pid))
                    .map(|pid| fs::read_dir(format!("/proc/{pid}/task")).map_or(0, Iterator::count))
                    .sum();
                (threads >= fraction).then_some(())
            });
            client.signal(signal);
            client.wait_exit(Duration::from_secs(20));
            assert_none_left(env.mark());
        }
    }
}

#[test]
fn a_second_server_beside_the_first_changes_nothing_for_it() {
    let env = Env::new();
    let first = env.client();
    let sleep = UniqueSleep::new();
    let task = first.start_until(&format!("echo mine; {sleep}"), "mine");
    let second = env.client();
    let foreign = second.poll(&task, json!({"listen": 0}));
    assert!(foreign.is_error, "{}", foreign.text);
    assert_eq!(second.run("echo theirs").output(), "theirs");
    second.close_stdin();
    second.wait_exit(Duration::from_secs(20));
    assert_eq!(sleep.running().len(), 1);
    let read = first.poll(&task, json!({"full_output": true}));
    assert_eq!(read.output(), "1: mine");
    first.kill_task(&task);
}

#[test]
fn servers_that_are_probed_and_killed_beside_the_first_change_nothing_for_it() {
    let env = Env::new();
    let first = env.client();
    let sleep = UniqueSleep::new();
    let task = first.start_until(&format!("echo mine; {sleep}"), "mine");
    for signal in ["KILL", "TERM"] {
        let probed = env.client_before_initialize();
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        let probe = probed.request("server/discover", json!({"_meta": meta}));
        assert!(probe.wait()["result"].is_object(), "{}", probed.describe());
        probed.signal(signal);
        probed.wait_exit(Duration::from_secs(20));
        let unspoken = env.client_before_initialize();
        unspoken.signal(signal);
        unspoken.wait_exit(Duration::from_secs(20));
    }
    assert_eq!(sleep.running().len(), 1);
    let read = first.poll(&task, json!({"full_output": true}));
    assert_eq!(read.output(), "1: mine");
    assert_eq!(first.run("echo on").output(), "on");
    first.kill_task(&task);
}

#[test]
fn what_a_killed_server_left_on_disk_was_whole_and_goes_at_a_start_after_its_time() {
    let env = Env::new();
    for _ in 0..12 {
        let before = server_files(&env, "").len();
        let client = env.client();
        let flood = "while :; do print -r -- $RANDOM; done | head -c 20000000";
        let calls: Vec<_> = (0..4)
            .map(|_| client.call_async("zsh", json!({"command": flood, "yield_after": 0})))
            .collect();
        wait_until("writes are in flight", || {
            (server_files(&env, "").len() >= before + 6).then_some(())
        });
        client.kill_server();
        client.wait_exit(Duration::from_secs(20));
        drop(calls);
        assert_task_files_whole(&env);
        assert_none_left(env.mark());
    }
    // What a killed server needed for itself, such as scripts of commands, is gone.
    let kept = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let numbered =
            path.extension().is_some_and(|end| end.to_string_lossy().parse::<u64>().is_ok());
        numbered || name.ends_with(".json") || ["lock", "ended"].contains(&&*name)
    };
    let useless: Vec<PathBuf> =
        server_files(&env, "").into_iter().filter(|path| !kept(path)).collect();
    assert!(useless.is_empty(), "{useless:?}");
    env.configure("spool_keep_hours: 0\n");
    let client = env.client();
    client.run("true");
    wait_until("the dead servers' directories are gone", || {
        let servers = fs::read_dir(env.path("state/servers")).ok()?;
        (servers.count() == 1).then_some(())
    });
    client.close_stdin();
    client.wait_exit(Duration::from_secs(20));
    let left = server_files(&env, "");
    assert!(left.is_empty(), "{left:?}");
}

/// A server whose output nobody reads.
fn deaf(env: &Env) -> Child {
    env.command(binary())
        .arg("serve")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("a server")
}

fn send(stdin: &mut impl Write, id: u64, tool: &str, arguments: Value) {
    let params = json!({"name": tool, "arguments": arguments});
    let call = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params});
    writeln!(stdin, "{call}").expect("the server reads");
}

fn wait_for_end(server: &mut Child) -> Duration {
    let asked = Instant::now();
    let status = wait_until("the server ends", || server.try_wait().expect("our child"));
    assert_eq!(status.code(), Some(0));
    asked.elapsed()
}
