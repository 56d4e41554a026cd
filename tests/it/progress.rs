//! Whether a running task gets on is told by evidence of its processes, and a deadline may
//! move with it.

use std::net::TcpListener;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use zsh_tool::progress::tracker::{ChangeKind, Settings, Totals, Tracker};

use crate::support::client::Client;
use crate::support::env::Env;
use crate::support::processes::wait_until;
use crate::support::result::ToolResult;
use crate::support::unprivileged;

/// Long enough for what is written every few moments to fall into each interval, on a
/// busy machine as well.
const SHORT: &str = "heartbeat_interval: 1\nstuck_threshold: 4\n";
/// Far above the time in which anything is found.
const LONG: u32 = 40;

#[test]
fn what_sleeps_gives_no_sign_of_life() {
    // Its start may have taken a part of an interval.
    let told = told_of_with("sleep 300", "silent", "cpu 0%");
    assert_eq!(evidence(&told), ["cpu 0%"], "{}", told.text);
    assert_eq!(
        told.meta["poll_meta"]["progress"]["tracker"],
        json!("whole")
    );
    assert!(told.text.contains(" · silent: cpu 0%"), "{}", told.text);
}

#[test]
fn a_loop_that_spins_is_busy_and_gives_no_sign_of_life() {
    let env = short_intervals();
    let client = env.client();
    let task = client.start_task("while :; do :; done");
    // Others may take most of the processor from it for an interval.
    wait_until("it is silent and busy", || {
        let told = wait_for_status(&client, &task, "silent", "cpu ");
        let cpu: u32 = evidence(&told)[0]
            .strip_prefix("cpu ")
            .and_then(|share| share.strip_suffix("% (busy, unverified)")?.parse().ok())?;
        (cpu > 5).then_some(())
    });
    client.kill_task(&task);
}

#[test]
fn a_silent_writer_gets_on_and_is_never_called_hung() {
    let writes = "python3 -c 'import time
while True:
    open(\"out\", \"wb\").write(bytes(1000000))
    time.sleep(0.1)'";
    let env = Env::new();
    // Two intervals are longer than a busy machine holds it up.
    env.configure("heartbeat_interval: 3\nstuck_threshold: 4\n");
    let client = env.client();
    let task = client.start_task(writes);
    let told = wait_for_status(&client, &task, "progressing", "io +");
    let line = told.text.lines().find(|line| line.starts_with('◷'));
    let line = line.unwrap_or_else(|| panic!("{}", told.text));
    assert!(line.contains("progressing: io +"), "{line}");
    assert!(line.chars().count() <= 160, "{line}");
    // Ten idle polls and more: without evidence they would say that it may be hung.
    let mut idle = 0;
    while idle < 10 {
        let poll = client.poll(&task, json!({"wait_for": "end", "listen": 8.5}));
        idle = poll.meta["poll_meta"]["polls_since_output"]
            .as_u64()
            .expect("a count");
        let suggestion = poll.meta["poll_meta"]["suggestion"]
            .as_str()
            .unwrap_or_default();
        assert!(!suggestion.contains("hung"), "{}", poll.text);
    }
    client.kill_task(&task);
}

#[test]
fn what_trickles_gets_on_and_a_long_compression_too() {
    told_of_with(
        "python3 -c 'import time
while True:
    open(\"part\", \"ab\").write(bytes(5000))
    time.sleep(0.2)'",
        "progressing",
        "io +",
    );
    told_of_with("gzip < /dev/urandom > packed", "progressing", "io +");
}

#[test]
fn the_same_lines_for_ever_are_stuck_and_counting_lines_get_on() {
    for same in [
        "while :; do echo same; sleep 0.2; done",
        "while :; do echo this; sleep 0.1; echo that; sleep 0.1; done",
    ] {
        let told = told_of_with(same, "stuck", "output +");
        assert!(told.text.contains("stuck: output +"), "{}", told.text);
    }
    let counts = "i=0; while :; do echo line $((++i)); sleep 0.2; done";
    let env = short_intervals();
    let client = env.client();
    let task = client.start_task(counts);
    assert_goes_on_getting_on(&client, &task, "output +");
    client.kill_task(&task);
}

#[test]
fn a_flood_of_one_line_is_stuck() {
    told_of_with("yes same", "stuck", "output +");
    // Wherever a look cuts it.
    let long = "the same words again and again ".repeat(6);
    let told = told_of_with(&format!("yes '{long}'"), "stuck", "output +");
    assert!(told.text.contains(", nothing new for "), "{}", told.text);
}

#[test]
fn a_silent_loop_over_different_things_gets_on() {
    let env = short_intervals();
    let client = env.client();
    // Each of them reads next to nothing.
    let works = "for name in {a..z}{a..z}; do sh -c 'sleep 0.3' $name; done";
    let task = client.start_task(works);
    assert_goes_on_getting_on(&client, &task, "");
    client.kill_task(&task);
}

#[test]
fn a_make_of_a_real_project_gets_on_and_is_never_called_hung() {
    let env = Env::new();
    env.configure("heartbeat_interval: 2\nstuck_threshold: 4\n");
    let client = env.client();
    let sources = c_project();
    let makefile = format!(
        "VPATH := {0}/crypto {0}/crypto/curve25519 {0}/crypto/poly1305 {0}/crypto/fipsmodule/ec \
         {0}/crypto/fipsmodule/aes {0}/crypto/limbs\n\
         CFLAGS := -O2 -I{0}/include -I{0}/pregenerated\n\
         all: curve25519.o curve25519_64_adx.o poly1305.o gfp_p384.o aes_nohw.o limbs.o mem.o\n",
        sources.display()
    );
    std::fs::write(env.work().join("Makefile"), makefile).expect("a makefile");
    let build = "for round in 1 2 3; do make -s -B || break; done";
    let task = client.start_task(build);
    let mut seen = Vec::new();
    let ended = loop {
        let poll = client.poll(&task, json!({"wait_for": "end", "listen": 0.4}));
        if poll.status() != "running" {
            break poll;
        }
        let suggestion = &poll.meta["poll_meta"]["suggestion"];
        let calls_it_hung = suggestion.to_string().contains("zsh_kill");
        assert!(!calls_it_hung, "{}", poll.text);
        seen.push(status(&poll).to_owned());
    };
    assert_eq!(ended.meta["exit_code"], json!(0), "{}", ended.text);
    assert!(seen.iter().any(|seen| seen == "progressing"), "{seen:?}");
    let wrong = ["stuck", "blocked"].map(str::to_owned);
    assert!(!seen.iter().any(|seen| wrong.contains(seen)), "{seen:?}");
}

#[test]
fn a_loop_of_short_programs_is_no_work() {
    told_of_with("while :; do sleep 0.1; done", "stuck", "processes +");
}

#[test]
fn a_stuck_command_is_told_before_polls_tell() {
    let env = short_intervals();
    let client = env.client();
    // It prints nothing, and does the same again and again.
    let task = client.start_task("while :; do sleep 0.1; done");
    // A look at the list is no poll, and many polls would say that it may be hung.
    let listed_as_stuck = || {
        wait_until("it is listed as stuck", || {
            let list = client.call("zsh_tasks", json!({}));
            let row = list.raw["structuredContent"]["tasks"][0].clone();
            (row["progress"] == json!("stuck")).then_some((list, row))
        })
    };
    listed_as_stuck();
    let told = wait_for_status(&client, &task, "stuck", "processes +");
    let suggestion = told.meta["poll_meta"]["suggestion"]
        .as_str()
        .unwrap_or_default();
    assert!(suggestion.contains("Nothing new for "), "{}", told.text);
    assert!(suggestion.contains("zsh_kill"), "{}", told.text);
    let (list, row) = listed_as_stuck();
    assert!(list.text.contains("  running, stuck  "), "{}", list.text);
    assert!(row["evidence"][0].is_string(), "{row}");
    client.kill_task(&task);
    let list = client.call("zsh_tasks", json!({"all": true}));
    assert!(list.text.contains("  killed exit="), "{}", list.text);
    assert_eq!(
        list.raw["structuredContent"]["tasks"][0]["progress"],
        Value::Null
    );
}

#[test]
fn what_reads_the_terminal_is_blocked_and_who_reads_is_evidence() {
    let env = short_intervals();
    let client = env.client();
    let arguments = json!({"command": "read 'x?Name: '", "pty": true, "yield_after": LONG});
    let task = client.call("zsh", arguments).task_id();
    let told = wait_for_status(&client, &task, "blocked", "reads tty: ");
    let progress = &told.meta["poll_meta"]["progress"];
    assert_eq!(progress["waiting_for"], json!("input"), "{}", told.text);
    assert_eq!(progress["prompt"], json!("Name:"), "{}", told.text);
    assert!(
        !told.text.contains("blocked: "),
        "said twice: {}",
        told.text
    );
}

#[test]
fn what_a_signal_has_stopped_is_blocked() {
    let stops = "python3 -c 'import os, signal; os.kill(os.getpid(), signal.SIGSTOP)'";
    told_of_with(stops, "blocked", "stopped: ");
}

#[test]
fn a_pipeline_whose_writer_stalls_gives_no_sign_of_life() {
    told_of("(echo begin; sleep 300) | cat | tr b B", "silent");
}

#[test]
fn what_waits_for_its_peer_is_blocked_and_one_that_listens_is_not() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("its address").port();
    let connects = format!(
        "python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", {port})).recv(1)'"
    );
    let told = told_of_with(&connects, "blocked", "waits for its peer: ");
    assert!(
        told.text.contains("blocked: waits for its peer: "),
        "{}",
        told.text
    );
    let serves = "python3 -c 'import socket; s = socket.socket(); s.bind((\"127.0.0.1\", 0)); \
                  s.listen(); s.accept()'";
    told_of(serves, "silent");
}

#[test]
fn where_not_all_can_be_read_the_tracker_says_so() {
    let env = short_intervals();
    let rights = "printf 'nobody ALL=(ALL) NOPASSWD: ALL\\n' > \"$1/sudoers\"
        chmod 440 \"$1/sudoers\"; mount --bind \"$1/sudoers\" /etc/sudoers";
    let client = unprivileged::client_after(&env, rights);
    let task = client.start_task("sudo timeout 60 sleep 60");
    wait_until("the lack is told", || {
        let poll = client.poll(&task, json!({"listen": 1}));
        let tracker = &poll.meta["poll_meta"]["progress"]["tracker"];
        (*tracker == json!("degraded")).then_some(())
    });
    client.kill_task(&task);
}

#[test]
fn where_no_process_is_shown_the_tracker_says_so_and_output_still_tells() {
    let env = short_intervals();
    let client = unprivileged::client_after(&env, "mount -t tmpfs none /proc");
    let counts = "i=0; while :; do echo line $((++i)); sleep 0.2; done";
    let task = client.start_task(counts);
    let told = wait_for_status(&client, &task, "progressing", "output +");
    let tracker = &told.meta["poll_meta"]["progress"]["tracker"];
    assert_eq!(*tracker, json!("degraded"), "{}", told.text);
    client.kill_task(&task);
}

#[test]
fn evidence_is_there_within_the_first_answers() {
    let env = Env::new();
    // Far beyond the time for which anything is waited for.
    env.configure("heartbeat_interval: 600\n");
    let client = env.client();
    let result = client.call("zsh", json!({"command": "sleep 300", "yield_after": 3}));
    let task = result.task_id();
    let mut first = Some(result);
    let result = wait_until("there is evidence", || {
        let next = || client.poll(&task, json!({"listen": 1}));
        let result = first.take().unwrap_or_else(next);
        (!status(&result).is_empty()).then_some(result)
    });
    // A look that saw it start takes that for something new.
    let lives = ["slow", "progressing"];
    assert!(lives.contains(&status(&result)), "{}", result.text);
    client.kill_task(&task);
}

// Memory

/// How much a process may grow by what is remembered of a task, whatever it does.
const FLAT: u64 = 256 * 1024;
/// Asks this program to follow a task of its own, since only a process of its own shows
/// what its memory comes to.
const MILLION: &str = "progress::a_million_signs_of_life_in_a_process_of_its_own";

#[test]
fn a_million_signs_of_life_leave_memory_flat() {
    let own = std::env::current_exe().expect("this program");
    let run = Command::new(own)
        .args(["--exact", MILLION, "--ignored", "--nocapture"])
        .output()
        .expect("this program again");
    let text = String::from_utf8_lossy(&run.stdout);
    assert!(run.status.success(), "{text}");
    assert!(text.contains("1 passed"), "{text}");
}

#[test]
#[ignore = "another test runs it in a process of its own"]
fn a_million_signs_of_life_in_a_process_of_its_own() {
    let start = Instant::now();
    let mut tracker = Tracker::new(Settings::default(), start);
    let mut follow = |beats: std::ops::Range<u64>| {
        for beat in beats {
            let now = start + Duration::from_millis(beat);
            let totals = Totals {
                output: beat,
                io: beat * 5000,
                born: beat,
                ..Totals::default()
            };
            tracker.heartbeat(now, Some(beat));
            tracker.look(now, totals, None);
            let line = format!(
                "step {beat} of {:x}",
                beat.wrapping_mul(0x9e37_79b9_7f4a_7c15)
            );
            tracker.change(now, ChangeKind::Output, &line);
        }
        tracker.heartbeat_count()
    };
    follow(0..100_000);
    let before = own_memory();
    assert!(follow(100_000..1_100_000) > 1_100_000);
    let after = own_memory();
    println!("own memory before {before}, after {after}");
    assert!(after <= before + FLAT, "from {before} to {after} bytes");
}

/// Memory of this process in bytes that no file backs.
fn own_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("/proc is mounted");
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("RssAnon:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    1024 * kilobytes.expect("the size of this process")
}

// A deadline that moves

#[test]
fn a_deadline_that_moves_lets_the_slow_one_live_and_ends_the_stuck_one() {
    let env = Env::new();
    // Two intervals are longer than a busy machine holds the one up that works.
    env.configure("heartbeat_interval: 2\nstuck_threshold: 4\n");
    let client = env.client();
    let works = "for i in {1..60}; do print line $i; sleep 0.2; done; print done";
    let stuck = "while :; do print same; sleep 0.1; done";
    let run = |command: &str, mode: &str| {
        let arguments = json!({
            "command": command, "timeout": 6, "timeout_mode": mode, "yield_after": LONG,
        });
        client.call_async("zsh", arguments)
    };
    let calls = [
        run(works, "progress"),
        run(works, "deadline"),
        run(stuck, "progress"),
        run("sleep 60", "progress"),
    ];
    let [moved, held, stuck, asleep] = calls.map(|call| call.tool_result());
    assert_eq!(moved.status(), "completed", "{}", moved.text);
    assert!(moved.text.contains("done"), "{}", moved.text);
    for ended in [held, stuck, asleep] {
        assert_eq!(ended.status(), "timeout", "{}", ended.text);
    }
}

#[test]
fn a_deadline_moves_to_the_maximum_and_no_further() {
    let env = Env::new();
    env.configure("heartbeat_interval: 2\ntimeout_max: 8\n");
    let client = env.client();
    let counts = "i=0; while :; do print line $((++i)); sleep 0.1; done";
    let arguments = json!({
        "command": counts, "timeout": 3, "timeout_mode": "progress", "yield_after": LONG,
    });
    let result = client.call("zsh", arguments);
    assert_eq!(result.status(), "timeout", "{}", result.text);
    let ran = result.meta["duration_ms"].as_u64().unwrap_or_default();
    assert!(ran >= 8_000, "{}", result.text);
}

#[test]
fn a_deadline_that_is_to_move_and_is_not_there_is_said() {
    let env = Env::new();
    let client = env.client();
    let arguments = json!({
        "command": "sleep 60", "background": true, "timeout_mode": "progress",
    });
    let result = client.call("zsh", arguments);
    assert!(
        result.text.contains("there is none: give timeout"),
        "{}",
        result.text
    );
    client.kill_task(&result.task_id());
}

/// Where the C sources of `ring` are, BoringSSL's: this package is built with it, so that
/// they are on any machine that builds it.
fn c_project() -> PathBuf {
    let version = cargo(&["-vV"]);
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    let described = cargo(&[
        "metadata",
        "--format-version=1",
        "--offline",
        "--locked",
        // Packages of other machines need not be here.
        "--filter-platform",
        host.expect("the platform that cargo is for"),
    ]);
    let described: Value = serde_json::from_str(&described).expect("JSON");
    let packages = described["packages"].as_array().into_iter().flatten();
    let mut manifests = packages
        .filter(|package| package["name"] == "ring")
        .filter_map(|package| package["manifest_path"].as_str());
    let manifest = PathBuf::from(manifests.next().expect("the package ring"));
    manifest.parent().expect("its directory").to_owned()
}

/// What cargo, which has built this test, says of this package.
fn cargo(arguments: &[&str]) -> String {
    let said = Command::new(env!("CARGO"))
        .args(arguments)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("the cargo program");
    let complaints = String::from_utf8_lossy(&said.stderr);
    assert!(said.status.success(), "cargo {arguments:?}: {complaints}");
    String::from_utf8(said.stdout).expect("UTF-8")
}

fn short_intervals() -> Env {
    let env = Env::new();
    env.configure(SHORT);
    env
}

fn told_of(command: &str, status: &str) -> ToolResult {
    told_of_with(command, status, "")
}

/// What is told of a command once it has this status, and evidence that begins so.
fn told_of_with(command: &str, status: &str, begins: &str) -> ToolResult {
    let env = short_intervals();
    let client = env.client();
    let task = client.start_task(command);
    let told = wait_for_status(&client, &task, status, begins);
    client.kill_task(&task);
    told
}

fn wait_for_status(client: &Client, task: &str, wanted: &str, begins: &str) -> ToolResult {
    wait_until(&format!("{task} is {wanted} by {begins:?}"), || {
        let poll = client.poll(task, json!({"wait_for": "end", "listen": 1}));
        let first = evidence(&poll).into_iter().next();
        let is_wanted = status(&poll) == wanted && first?.starts_with(begins);
        is_wanted.then_some(poll)
    })
}

/// It gets on, and is not called stuck for as long as others take to be. At a single
/// moment a busy machine may have held it up for long enough to call it silent.
fn assert_goes_on_getting_on(client: &Client, task: &str, begins: &str) {
    wait_for_status(client, task, "progressing", begins);
    for _ in 0..7 {
        let later = client.poll(task, json!({"wait_for": "end", "listen": 1}));
        assert_ne!(status(&later), "stuck", "{}", later.text);
    }
    wait_for_status(client, task, "progressing", begins);
}

fn status(result: &ToolResult) -> &str {
    let status = &result.meta["poll_meta"]["progress"]["status"];
    status.as_str().unwrap_or_default()
}

fn evidence(result: &ToolResult) -> Vec<String> {
    let evidence = result.meta["poll_meta"]["progress"]["evidence"].as_array();
    let texts = evidence.into_iter().flatten().filter_map(Value::as_str);
    texts.map(str::to_owned).collect()
}
