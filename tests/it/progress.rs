//! Whether a running task gets on is told by evidence of its processes, and a deadline may
//! move with it.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use zsh_tool::testing::progress::tracker::{ChangeKind, Totals, Tracker, TrackerSettings};
use zsh_tool::testing::task::snapshot::Snapshot;

use crate::support::client::Client;
use crate::support::env::Env;
use crate::support::processes::wait_until;
use crate::support::result::ToolResult;
use crate::support::state_files::server_files;
use crate::support::unprivileged;

/// Long enough for what is written every few moments to fall into each interval, on a
/// busy machine as well.
const SHORT: &str = "heartbeat_interval: 1\nstuck_threshold: 4\n";
/// Far above the time in which anything is found.
const LONG: u32 = 40;

#[test]
fn what_sleeps_is_idle() {
    let told = told_of_with("sleep 300", "idle", "sleeping on a timer");
    assert_eq!(told.meta["poll_meta"]["progress"]["tracker"], json!("whole"));
    let words = " · idle: sleeping on a timer";
    assert!(told.text.contains(words), "{}", told.text);
}

#[test]
fn the_file_of_a_silent_task_is_written_no_more() {
    let env = short_intervals();
    let client = env.client();
    let task = client.start_task("exec sleep 300");
    let open = || fs::File::open(server_files(&env, &format!("{task}.json")).pop()?).ok();
    let file = wait_until("a probe has found nothing new", || {
        let file = open()?;
        let task: Snapshot = serde_json::from_reader(&file).ok()?;
        (task.probed.progress?.delta == Default::default()).then_some(file)
    });
    // At least two more probes.
    for _ in 0..3 {
        client.poll(&task, json!({"wait_for": "end", "listen": 1}));
    }
    assert_eq!(file.metadata().expect("its facts").nlink(), 1, "another file replaced it");
    client.kill_task(&task);
}

#[test]
fn a_loop_that_spins_is_busy_and_never_called_stuck() {
    let env = short_intervals();
    let client = env.client();
    let task = client.start_task("while :; do :; done");
    let told = wait_for_status(&client, &task, "slow", "busy: zsh ");
    assert!(told.text.contains("% CPU"), "{}", told.text);
    for _ in 0..8 {
        let later = client.poll(&task, json!({"wait_for": "end", "listen": 1}));
        assert_ne!(status(&later), "stuck", "{}", later.text);
        assert!(!later.text.contains("zsh_kill"), "{}", later.text);
    }
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
    let told = wait_for_status(&client, &task, "progressing", "read or wrote ");
    let line = told.text.lines().find(|line| line.starts_with('◷'));
    let line = line.unwrap_or_else(|| panic!("{}", told.text));
    assert!(line.contains("progressing: read or wrote "), "{line}");
    assert!(line.chars().count() <= 160, "{line}");
    // Ten idle polls and more: without evidence they would say that it may be hung.
    let mut idle = 0;
    while idle < 10 {
        let poll = client.poll(&task, json!({"wait_for": "end", "listen": 8.5}));
        idle = poll.meta["poll_meta"]["polls_since_output"].as_u64().expect("a count");
        let suggestion = poll.meta["poll_meta"]["suggestion"].as_str().unwrap_or_default();
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
        "read or wrote ",
    );
    told_of_with("gzip < /dev/urandom > packed", "progressing", "read or wrote ");
}

#[test]
fn the_same_lines_for_ever_are_a_fact_and_counting_lines_get_on() {
    for same in [
        "while :; do echo same; sleep 0.2; done",
        "while :; do echo this; sleep 0.1; echo that; sleep 0.1; done",
    ] {
        let told = told_that_it_repeats(same);
        assert!(!told.text.contains("stuck"), "{}", told.text);
        assert!(!told.text.contains("→ zsh_kill"), "{}", told.text);
    }
    let counts = "i=0; while :; do echo line $((++i)); sleep 0.2; done";
    let env = short_intervals();
    let client = env.client();
    let task = client.start_task(counts);
    assert_goes_on_getting_on(&client, &task, "printed ");
    client.kill_task(&task);
}

#[test]
fn a_flood_of_one_line_repeats_itself() {
    told_that_it_repeats("yes same");
    // Wherever a look cuts it.
    let long = "the same words again and again ".repeat(6);
    told_that_it_repeats(&format!("yes '{long}'"));
}

/// Runs a command until an answer says that it prints the same again and again.
fn told_that_it_repeats(command: &str) -> ToolResult {
    let env = short_intervals();
    let client = env.client();
    let task = client.start_task(command);
    let told = wait_until("it is said to repeat itself", || {
        let told =
            client.poll(&task, json!({"wait_for": "end", "listen": LONG, "max_output": 400}));
        told.text.contains("prints the same for ").then_some(told)
    });
    client.kill_task(&task);
    told
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
fn a_silent_loop_of_short_programs_is_idle() {
    told_of_with("while :; do sleep 0.3; done", "idle", "sleeping on a timer");
}

#[test]
fn a_search_that_reads_by_its_children_shows_io() {
    let env = short_intervals();
    let client = env.client();
    let task = client.start_task("find /usr -xdev -type f -exec md5sum {} \\; > sums");
    wait_for_evidence(&client, &task, "read or wrote ");
    client.kill_task(&task);
}

#[test]
fn what_is_written_through_a_mapping_shows_io() {
    let env = short_intervals();
    let client = env.client();
    // The kernel counts no pages of a tmpfs, which may be where tests have their files.
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let writes = format!(
        "python3 -c 'import mmap, time
file = open(\"{}\", \"wb+\")
file.truncate(1 << 20)
pages = mmap.mmap(file.fileno(), 1 << 20)
while True:
    for page in range(256):
        pages[page * 4096:page * 4096 + 4] = b\"done\"
        pages.flush()
        time.sleep(0.2)'",
        folder.path().join("mapped").display()
    );
    let task = client.start_task(&writes);
    let told = wait_for_evidence(&client, &task, "read or wrote ");
    assert_eq!(status(&told), "progressing", "{}", told.text);
    client.kill_task(&task);
}

#[test]
fn a_loop_that_polls_by_programs_shows_no_io() {
    for polls in [
        "while :; do sleep 0.2; done",
        "until false; do /bin/true; sleep 0.1; done",
        "until grep -q nothing /etc/hosts; do sleep 0.2; done",
    ] {
        let env = short_intervals();
        let client = env.client();
        let task = client.start_task(polls);
        // Counting begins with the first probe, which may come in the middle of a start: what
        // is left of that start counts in the first interval.
        wait_for_evidence(&client, &task, "started ");
        client.poll(&task, json!({"wait_for": "end", "listen": 2}));
        for _ in 0..6 {
            let told = client.poll(&task, json!({"wait_for": "end", "listen": 1}));
            assert!(!shows_work(&told), "{polls}: {:?}", evidence(&told));
        }
        client.kill_task(&task);
    }
}

#[test]
fn a_loop_whose_program_reads_much_each_time_shows_no_io_once_it_repeats() {
    let env = short_intervals();
    let client = env.client();
    // Its interpreter reads more than a megabyte.
    let task = client.start_task("until python3 -c 'exit(1)'; do sleep 0.2; done");
    let mut quiet = 0;
    wait_until("six looks in a row find nothing new", || {
        let told = client.poll(&task, json!({"wait_for": "end", "listen": 1}));
        quiet = if shows_work(&told) { 0 } else { quiet + 1 };
        (quiet == 6).then_some(())
    });
    client.kill_task(&task);
}

#[test]
fn a_wait_for_the_end_ends_when_the_command_becomes_stuck() {
    let env = short_intervals();
    let client = env.client();
    let task = client.start_task("mkfifo fifo; cat fifo");
    let told = client.poll(&task, json!({"wait_for": "end", "listen": LONG}));
    assert_eq!(status(&told), "stuck", "{}", told.text);
    let suggestion = told.meta["poll_meta"]["suggestion"].as_str();
    let suggestion = suggestion.unwrap_or_default();
    let reason = "Command is stuck: likely deadlock: ";
    assert!(suggestion.starts_with(reason), "{}", told.text);
    assert!(told.text.contains(&format!("→ zsh_kill task_id={task}")));
    // An agent that knows can still wait.
    let begun = Instant::now();
    let until = json!({"until": "never printed", "listen": 2});
    let waited = client.poll(&task, until);
    assert!(begun.elapsed() >= Duration::from_secs(2), "{}", waited.text);
    let list = client.call("zsh_tasks", json!({}));
    assert!(list.text.contains("  running, stuck  "), "{}", list.text);
    let row = list.raw["structuredContent"]["tasks"][0].clone();
    assert_eq!(row["progress"], json!("stuck"), "{row}");
    assert!(row["evidence"][0].is_string(), "{row}");
    client.kill_task(&task);
    let list = client.call("zsh_tasks", json!({"all": true}));
    assert!(list.text.contains("  killed exit="), "{}", list.text);
    let row = list.raw["structuredContent"]["tasks"][0].clone();
    assert_eq!(row["progress"], Value::Null);
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
    assert!(!told.text.contains("blocked: "), "said twice: {}", told.text);
}

#[test]
fn what_a_signal_has_stopped_is_blocked() {
    let stops = "python3 -c 'import os, signal; os.kill(os.getpid(), signal.SIGSTOP)'";
    told_of_with(stops, "blocked", "stopped: ");
}

#[test]
fn a_pipeline_does_what_its_writer_does() {
    told_of_with("(echo begin; sleep 300) | cat | tr b B", "idle", "sleeping on a timer");
}

#[test]
fn what_waits_for_its_peer_is_blocked_and_one_that_listens_is_not() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("its address").port();
    let connects = format!(
        "python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", {port})).recv(1)'"
    );
    let peer = format!("waiting for network peer 127.0.0.1:{port}");
    let told = told_of_with(&connects, "blocked", &peer);
    let words = format!("blocked: {peer}");
    assert!(told.text.contains(&words), "{}", told.text);
    let serves = "python3 -c 'import socket; s = socket.socket(); s.bind((\"127.0.0.1\", 0)); \
                  s.listen(); s.accept()'";
    told_of_with(serves, "idle", "listening on port ");
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
    let told = wait_for_status(&client, &task, "progressing", "printed ");
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
    let lives = ["idle", "slow", "progressing"];
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
    let mut tracker = Tracker::new(TrackerSettings::default(), start);
    let mut follow = |beats: std::ops::Range<u64>| {
        for beat in beats {
            let now = start + Duration::from_millis(beat);
            let totals = Totals { output: beat, io: beat * 5000, born: beat, ..Totals::default() };
            tracker.heartbeat(now);
            tracker.probe(now, totals, None);
            let line = format!("step {beat} of {:x}", beat.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            tracker.change(now, ChangeKind::Output, &line);
        }
        tracker.heartbeat_count
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
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
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
    let repeats = "for i in {1..60}; do print same; sleep 0.2; done; print done";
    let stuck = "mkfifo fifo; cat fifo";
    let run = |command: &str, timeout: u32, mode: &str| {
        let arguments = json!({
            "command": command, "timeout": timeout, "timeout_mode": mode, "yield_after": LONG,
        });
        client.call_async("zsh", arguments)
    };
    let calls = [
        run(works, 6, "progress"),
        run(repeats, 6, "progress"),
        run(works, 6, "deadline"),
        run(stuck, 20, "progress"),
    ];
    let [moved, repeated, held, stuck] = calls.map(|call| call.tool_result());
    // These came back once, when there was something to say.
    let to_the_end = || json!({"wait_for": "end", "listen": LONG});
    assert_eq!(stuck.status(), "running", "{}", stuck.text);
    let stuck = client.poll(&stuck.task_id(), to_the_end());
    let repeated = match repeated.status() {
        "running" => client.poll(&repeated.task_id(), to_the_end()),
        _ => repeated,
    };
    for moved in [moved, repeated] {
        assert_eq!(moved.status(), "completed", "{}", moved.text);
        assert!(moved.text.contains("done"), "{}", moved.text);
    }
    for (ended, why) in [(held, " (progressing: printed "), (stuck, " (stuck: likely deadlock: ")] {
        assert_eq!(ended.status(), "timeout", "{}", ended.text);
        assert!(ended.text.contains(why), "{}", ended.text);
    }
}

#[test]
fn a_deadline_moves_for_what_sleeps() {
    let env = Env::new();
    env.configure("heartbeat_interval: 2\nstuck_threshold: 4\n");
    let client = env.client();
    let arguments = json!({
        "command": "sleep 9; print done", "timeout": 6, "timeout_mode": "progress",
        "yield_after": LONG,
    });
    let slept = client.call("zsh", arguments);
    assert_eq!(slept.status(), "completed", "{}", slept.text);
    let arguments = json!({"command": "sleep 60", "timeout": 3, "yield_after": LONG});
    let held = client.call("zsh", arguments);
    let why = " (idle: sleeping on a timer, nothing new for ";
    assert_eq!(held.status(), "timeout", "{}", held.text);
    assert!(held.text.contains(why), "{}", held.text);
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
    assert!(result.text.contains("has none: pass timeout"), "{}", result.text);
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

/// Whether it reads or writes more than the few bytes that a shell moves when it forks.
fn shows_work(result: &ToolResult) -> bool {
    let is_io = |shown: &String| shown.starts_with("read or wrote ") && !shown.ends_with(" B");
    evidence(result).iter().any(is_io)
}

fn wait_for_evidence(client: &Client, task: &str, begins: &str) -> ToolResult {
    wait_until(&format!("{task} shows {begins:?}"), || {
        let poll = client.poll(task, json!({"wait_for": "end", "listen": 1}));
        let shown = evidence(&poll);
        let is_there = shown.iter().any(|shown| shown.starts_with(begins));
        is_there.then_some(poll)
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
