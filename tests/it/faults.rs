//! Faults that no page of its own covers: the client's end with the database in view, a
//! wall clock that is set back, a client that reads late, a tree of five hundred
//! processes, and what lies on the disk meanwhile.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::Connection;
use serde_json::{Value, json};

use crate::support::client::{Client, PATIENCE, send_signal};
use crate::support::database::{assert_outcomes_recorded, open_database};
use crate::support::env::{Env, binary};
use crate::support::oneshot::{Runs, says};
use crate::support::processes::{UniqueSleep, assert_none_left, memory_kib, wait_until};
use crate::support::result::ToolResult;
use crate::support::trees::plant;
use crate::support::unprivileged;

/// How far the wall clock is set back.
const SET_BACK_SECONDS: f64 = 86_400.0;

fn database(env: &Env) -> Connection {
    open_database(&env.path("state/alan.db"))
}

fn number(connection: &Connection, sql: &str) -> f64 {
    connection.query_row(sql, [], |row| row.get(0)).expect(sql)
}

/// Everything below a directory, itself too.
fn below(directory: &Path) -> Vec<PathBuf> {
    let mut found = vec![directory.to_path_buf()];
    let mut next = 0;
    while let Some(path) = found.get(next).cloned() {
        next += 1;
        if path.is_dir() && !path.is_symlink() {
            let entries = fs::read_dir(&path).expect("a directory");
            found.extend(entries.map(|entry| entry.expect("an entry").path()));
        }
    }
    found
}

#[test]
fn whatever_ends_the_server_its_commands_outcomes_are_recorded() {
    for end in ["EOF", "TERM", "INT", "HUP", "QUIT", "KILL of the guard"] {
        let env = Env::new();
        let client = env.client();
        let sleeps = plant(&client);
        match end {
            "EOF" => client.close_stdin(),
            // Then the kernel asks the server to end.
            "KILL of the guard" => client.signal("KILL"),
            signal => client.signal(signal),
        }
        client.wait_exit(PATIENCE);
        assert_none_left(env.mark());
        assert_outcomes_recorded(&env, &sleeps, end);
    }
}

#[test]
fn what_had_ended_before_the_server_was_killed_stays_recorded() {
    let env = Env::new();
    let client = env.client();
    client.run("echo before");
    let recorded = || {
        if !env.path("state/alan.db").exists() {
            return None;
        }
        let connection = database(&env);
        let found = "SELECT count(*) FROM observations WHERE command_preview = 'echo before'";
        let count = connection.query_row(found, [], |row| row.get::<_, i64>(0));
        (count == Ok(1)).then_some(())
    };
    wait_until("the record is written", recorded);
    client.kill_server();
    client.wait_exit(PATIENCE);
    assert_none_left(env.mark());
    assert!(recorded().is_some());
}

/// A library that sets the wall clock back for programs that are started with it, as soon
/// as a file is there.
fn clock_library(env: &Env) -> (PathBuf, PathBuf) {
    let (source, library) = (env.path("clock.c"), env.path("clock.so"));
    let flag = env.path("set_back");
    let text = format!(
        "#define _GNU_SOURCE\n#include <errno.h>\n#include <sys/syscall.h>\n\
         #include <time.h>\n#include <unistd.h>\n\
         int clock_gettime(clockid_t clock, struct timespec *now) {{\n\
           int result = syscall(SYS_clock_gettime, clock, now);\n\
           int kept = errno;\n\
           if (result == 0 && clock == CLOCK_REALTIME && access(\"{}\", F_OK) == 0)\n\
             now->tv_sec -= {SET_BACK_SECONDS};\n\
           errno = kept;\n\
           return result;\n\
         }}\n",
        flag.display()
    );
    fs::write(&source, text).expect("a source file");
    let compiled =
        Command::new("cc").args(["-shared", "-fPIC", "-o"]).args([&library, &source]).status();
    assert!(compiled.expect("cc, which Rust links with").success());
    (library, flag)
}

#[test]
fn a_clock_that_is_set_back_changes_no_duration_and_no_deadline() {
    let env = Env::new();
    env.configure("insights: all\n");
    let (library, flag) = clock_library(&env);
    // The static build takes no library: the dynamic one stands for both.
    let mut serve = env.command(env!("CARGO_BIN_EXE_zsh-tool"));
    serve.arg("serve").env("LD_PRELOAD", &library);
    let client = Client::start(serve, env.path("stderr"));
    client.initialize();
    let go_on = env.named_pipe("go_on");
    assert_eq!(client.run("echo before").output(), "before");
    let task = client.start_until("echo up; read -r _ <go_on; echo done", "up");
    fs::write(&flag, "").expect("the clock is set back");
    let polled = client.poll(&task, json!({"listen": 0.2}));
    assert_eq!(polled.status(), "running", "{}", polled.text);
    let listed = client.call("zsh_tasks", json!({}));
    assert!(listed.text.contains(&task), "{}", listed.text);
    // Another process, whose clock is the one that was set back too. It knows what the
    // server has written down, a moment after the start.
    wait_until("another process lists the task", || {
        let mut tasks = env.command(env!("CARGO_BIN_EXE_zsh-tool"));
        tasks.arg("tasks").env("LD_PRELOAD", &library);
        let tasks = crate::support::program::run(tasks);
        assert_eq!(tasks.code, 0, "{tasks:?}");
        tasks.text().contains(&task).then_some(())
    });
    let hung =
        client.call("zsh", json!({"command": "sleep 600", "timeout": 0.5, "yield_after": 25}));
    assert_eq!(hung.status(), "timeout", "{}", hung.text);
    fs::write(go_on, "\n").expect("the command reads");
    let end = client.poll_to_end(&task);
    assert_eq!(end.status(), "completed", "{}", end.text);
    for result in [&hung, &end] {
        let took = result.meta["duration_ms"].as_f64().expect("a duration");
        assert!(took < SET_BACK_SECONDS * 100.0, "{}", result.meta);
    }
    // What was recorded before the step still counts as recent after it.
    assert!(client.run("echo before").text.contains("Retry #2"));
    client.close_stdin();
    client.wait_exit(PATIENCE);
    let connection = database(&env);
    let count = number(&connection, "SELECT CAST(count(*) AS REAL) FROM recent_commands");
    assert_eq!(count, 4.0);
    let back = "SELECT max(timestamp) - min(timestamp) FROM recent_commands";
    let back = number(&connection, back);
    assert!(back > SET_BACK_SECONDS / 2.0, "the clock went back: {back}");
    let odd = "SELECT CAST(count(*) AS REAL) FROM recent_commands \
               WHERE duration_ms < 0 OR duration_ms > 8640000";
    assert_eq!(number(&connection, odd), 0.0);
}

#[test]
fn a_client_that_reads_late_finds_every_answer() {
    a_late_reader_finds_every_answer(Duration::ZERO);
}

/// A client that reads nothing until its commands have ended, and for so long at least.
pub fn a_late_reader_finds_every_answer(unread: Duration) {
    const CALLS: u64 = 12;
    let env = Env::new();
    let mut server = env
        .command(binary())
        .arg("serve")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("a server");
    let mut stdin = server.stdin.take().expect("a piped stdin");
    let call = |id: u64, command: String| {
        let arguments = json!({"command": command, "max_output": 490_000, "yield_after": 25});
        let params = json!({"name": "zsh", "arguments": arguments});
        json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})
    };
    let mut send = |frame: Value| {
        use std::io::Write;
        writeln!(stdin, "{frame}").expect("the server reads");
    };
    let begun = Instant::now();
    // Each answer is larger than what a pipe holds.
    for id in 0..CALLS {
        send(call(id, format!("seq 1 50000; touch ended_{id}")));
    }
    // The commands end although nobody reads.
    for id in 0..CALLS {
        let ended = env.work().join(format!("ended_{id}"));
        wait_until("the command ends", || ended.exists().then_some(()));
    }
    // There is nothing to wait for but the time itself.
    thread::sleep(unread.saturating_sub(begun.elapsed()));
    send(call(CALLS, "echo next".to_owned()));
    let stdout = server.stdout.take().expect("a piped stdout");
    let mut waiting: Vec<u64> = (0..=CALLS).collect();
    for line in std::io::BufRead::lines(std::io::BufReader::new(stdout)) {
        let frame: Value = serde_json::from_str(&line.expect("a line")).expect("a frame");
        assert_eq!(frame["error"], Value::Null, "{frame}");
        let text = frame["result"]["content"][0]["text"].as_str();
        let last = if frame["id"] == json!(CALLS) { "next" } else { "\n49999\n50000" };
        assert!(text.is_some_and(|text| text.contains(last)), "{frame}");
        waiting.retain(|id| frame["id"] != json!(id));
        if waiting.is_empty() {
            break;
        }
    }
    assert!(waiting.is_empty(), "not answered: {waiting:?}");
    send_signal("TERM", server.id());
    assert!(server.wait().expect("our child").success());
    assert_none_left(env.mark());
}

/// What a process has used of a processor, in the kernel's hundredths of a second.
fn processor_ticks(pid: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).expect("a living process");
    let (_, fields) = stat.rsplit_once(')').expect("a name in brackets");
    let fields = fields.split_whitespace().skip(11).take(2);
    fields.map(|field| field.parse::<u64>().expect("a number")).sum()
}

/// The receipt that lists no survivors. The processor may keep some of so many waiting for
/// longer than a kill waits for their ends; those are listed, and another kill finds them
/// gone.
#[track_caller]
fn ended_whole(client: &Client, task: &str, receipt: ToolResult) -> ToolResult {
    let mut last = Some(receipt);
    wait_until("no survivors are listed", || {
        let receipt = last.take().unwrap_or_else(|| client.kill_task(task));
        (receipt.meta["survivors"] == json!([])).then_some(receipt)
    })
}

#[test]
fn five_hundred_processes_that_are_left_are_named_in_short_and_ended() {
    const CHILDREN: usize = 500;
    /// What a person reads in one go; all of them would take twenty times as much.
    const SHORT: usize = 2_000;
    let env = Env::new();
    let client = env.client();
    let sleep = UniqueSleep::new();
    let command = format!("repeat {CHILDREN} do {sleep} >/dev/null 2>&1 &! done; echo left");
    let result = client.run(&command);
    assert_eq!(result.output(), "left", "{}", result.text);
    assert!(result.footer().contains("still running"), "{}", result.text);
    assert!(result.text.len() < SHORT, "{}", result.text);
    sleep.wait_for(CHILDREN);
    eprintln!("{}", result.footer());
    let task = result.task_id();
    let receipt = ended_whole(&client, &task, client.kill_task(&task));
    assert!(receipt.text.len() < SHORT, "{}", receipt.text);
    sleep.assert_gone();
    assert_eq!(client.run("echo next").output(), "next");
}

#[test]
fn a_tree_of_five_hundred_is_listed_and_costs_little_memory() {
    const CHILDREN: usize = 500;
    /// A process that is known takes less than 16 KiB, with room for the allocator.
    const GROWTH_KIB: u64 = 16 * 500;
    let env = Env::new();
    env.configure("heartbeat_interval: 0.2\n");
    let client = env.client();
    client.run("true");
    let before = memory_kib(client.server_pid(), "VmRSS");
    let sleep = UniqueSleep::new();
    let task = client.start_task(&format!("repeat {CHILDREN} do {sleep} & done; wait"));
    sleep.wait_for(CHILDREN);
    // Looked at, more than once, with all of them there.
    let (spent, begun) = (processor_ticks(client.server_pid()), Instant::now());
    for _ in 0..3 {
        let polled = client.poll(&task, json!({"listen": 0.5}));
        assert_eq!(polled.status(), "running", "{}", polled.text);
        client.ping();
    }
    let spent = processor_ticks(client.server_pid()) - spent;
    eprintln!("500 children: {spent} ticks in {:?}", begun.elapsed());
    let listed = client.call("zsh_tasks", json!({}));
    assert!(listed.text.contains(&task), "{}", listed.text);
    let grown = memory_kib(client.server_pid(), "VmRSS").saturating_sub(before);
    eprintln!("500 children: {grown} KiB more; {}", listed.text);
    assert!(grown < GROWTH_KIB, "{grown} KiB");
    let receipt = client.kill_task(&task);
    let survivors = receipt.meta["survivors"].as_array().expect("a list").len();
    let gone = receipt.meta["gone"].as_u64().expect("a number");
    assert_eq!(gone + survivors as u64, CHILDREN as u64 + 1, "{}", receipt.text);
    ended_whole(&client, &task, receipt);
    sleep.assert_gone();
    assert_eq!(client.run("echo next").output(), "next");
}

#[test]
fn a_read_only_state_directory_costs_a_warning_and_no_command() {
    let env = Env::new();
    let close = "mount --bind \"$1/state\" \"$1/state\"; mount -o remount,ro,bind \"$1/state\"";
    let client = unprivileged::client_after(&env, close);
    let result = client.run("seq 1 1000");
    assert_eq!(result.status(), "completed", "{}", result.text);
    assert!(result.output().ends_with("\n999\n1000"), "{}", result.text);
    let health = client.call("zsh_health", json!({}));
    assert!(health.text.contains("Read-only"), "{}", health.text);
    assert_eq!(client.run("echo next").output(), "next");
}

#[test]
fn without_man_a_failing_command_is_answered_and_recorded() {
    let env = Env::new();
    let programs = env.path("programs");
    fs::create_dir(&programs).expect("a folder");
    for name in ["zsh", "ls"] {
        let path = std::env::var_os("PATH").expect("a PATH");
        let found = std::env::split_paths(&path)
            .map(|folder| folder.join(name))
            .find(|program| program.exists());
        symlink(found.expect("the program"), programs.join(name)).expect("a link");
    }
    env.configure("log: debug\n");
    let mut serve = env.serve();
    serve.env("PATH", &programs);
    let client = Client::start(serve, env.path("stderr"));
    client.initialize();
    let fail = |failure: u32| {
        let failed = client.run("ls --no-such-option");
        assert_eq!(failed.status(), "failed", "{}", failed.text);
        assert!(!failed.text.contains("Options for"), "{}", failed.text);
        let retry = format!("Retry #{failure}. Previous {} all failed.", failure - 1);
        let told = failed.text.contains(&retry);
        assert_eq!(told, failure > 1, "{}", failed.text);
    };
    // The page is looked for after the second, and would be shown from the third on.
    (1..=3).for_each(fail);
    wait_until("the look-up has failed", || {
        let log = fs::read_to_string(env.path("stderr")).expect("the log");
        log.contains("`man` was not found in PATH").then_some(())
    });
    fail(4);
    assert_eq!(client.run("echo next").output(), "next");
    client.close_stdin();
    client.wait_exit(PATIENCE);
    let connection = database(&env);
    for (found, wanted) in [
        (
            "SELECT CAST(count(*) AS REAL) FROM recent_commands \
             WHERE command_preview = 'ls --no-such-option' AND outcome_type = 'FAILURE' \
             AND exit_code = 2 AND duration_ms > 0",
            4.0,
        ),
        ("SELECT CAST(min(current_streak) AS REAL) FROM streaks", -4.0),
        ("SELECT CAST(count(*) AS REAL) FROM manopt_cache", 0.0),
    ] {
        assert_eq!(number(&connection, found), wanted, "{found}");
    }
}

/// Asserts of all below the state directory that it is the user's alone.
#[track_caller]
fn assert_private(env: &Env) {
    let found = below(&env.path("state"));
    for path in &found {
        // What a server that goes on has removed meanwhile is nobody's.
        let Ok(metadata) = fs::symlink_metadata(path) else {
            continue;
        };
        let mode = metadata.permissions().mode() & 0o777;
        let allowed = if metadata.is_dir() { 0o700 } else { 0o600 };
        assert_eq!(mode & !allowed, 0, "{}: {mode:o}", path.display());
        assert!(!metadata.is_symlink(), "{}", path.display());
        assert_eq!(metadata.uid(), fs::metadata("/proc/self").expect("we").uid());
    }
}

#[test]
fn everything_below_the_state_directory_is_the_users_alone() {
    let runs = Runs::working(json!([says("done")]));
    let env = &runs.env;
    // The mask of the server must not matter.
    let mut serve = runs.surround(env.command("sh"));
    serve.args(["-c", "umask 0; exec \"$0\" serve"]).arg(binary());
    let client = Client::start(serve, env.path("stderr"));
    client.initialize();
    let sleep = UniqueSleep::new();
    client.run("seq 1 1000");
    client.run(&format!(": {}; echo long", "x".repeat(200_000)));
    client.run("ls --no-such-option");
    client.start_task(&sleep.to_string());
    client.call("zsh", json!({"command": sleep.to_string(), "pty": true, "yield_after": 0}));
    client.call("zsh", json!({"command": "sleep 600", "timeout": 0.3, "yield_after": 20}));
    client.call("zsh_alan_stats", json!({}));
    let mut oneshot = runs.surround(env.command("sh"));
    oneshot.args(["-c", "umask 0; exec \"$0\" oneshot \"do it\""]).arg(binary());
    let ran = crate::support::program::run(oneshot);
    assert_eq!(ran.code, 0, "{ran:?}");
    wait_until("the tasks' files are there", || {
        let found = below(&env.path("state"));
        let entries =
            found.iter().filter(|path| path.extension().is_some_and(|kind| kind == "json"));
        (entries.count() >= 5).then_some(())
    });
    assert_private(env);
    assert!(env.path("state/alan.db").exists() && env.path("state/sessions").is_dir());
    // Nothing of the tool's own is in the directory that all share.
    let shared = below(&env.path("tmp"));
    assert_eq!(shared.len(), 1, "{shared:?}");
    client.close_stdin();
    client.wait_exit(PATIENCE);
    assert_private(env);
}

#[test]
fn a_link_in_place_of_a_state_file_is_replaced_or_refused_and_never_followed() {
    let env = Env::new();
    let theirs = env.path("theirs");
    fs::write(&theirs, "theirs\n").expect("a file");
    fs::set_permissions(&theirs, fs::Permissions::from_mode(0o644)).expect("its mode");
    symlink(&theirs, env.path("state/alan.db")).expect("a link");
    let client = env.client();
    let sleep = UniqueSleep::new();
    let task = client.start_until(&format!("echo up; {sleep}"), "up");
    let entry = wait_until("the task's file is written", || {
        let mut found = below(&env.path("state/servers")).into_iter();
        found.find(|path| path.ends_with(format!("{task}.json")))
    });
    // In one step, since the server may write the file at any moment.
    let link = env.path("link");
    let new = entry.with_extension("new");
    for place in [&new, &entry] {
        symlink(&theirs, &link).expect("a link");
        fs::rename(&link, place).expect("a link in its place");
    }
    client.kill_task(&task);
    wait_until("the end is written and no link is left", || {
        (!entry.is_symlink() && !new.is_symlink()).then_some(())
    });
    assert_eq!(client.run("echo next").output(), "next");
    let health = client.call("zsh_health", json!({}));
    assert!(health.text.contains("not a regular file"), "{}", health.text);
    client.close_stdin();
    client.wait_exit(PATIENCE);
    assert_eq!(fs::read_to_string(&theirs).expect("kept"), "theirs\n");
    let mode = fs::metadata(&theirs).expect("kept").permissions().mode();
    assert_eq!(mode & 0o777, 0o644);
}

#[test]
fn a_link_in_place_of_the_servers_directory_is_told_and_what_it_leads_to_stays() {
    let env = Env::new();
    let kept = env.work().join("elsewhere/kept");
    fs::create_dir_all(&kept).expect("a directory");
    fs::create_dir_all(env.path("state")).expect("a directory");
    symlink(env.work().join("elsewhere"), env.path("state/servers")).expect("a link");
    let client = env.client();
    assert_eq!(client.run("echo done").output(), "done");
    let health = client.call("zsh_health", json!({}));
    let words = "servers is a symbolic link: remove it";
    assert!(health.text.contains(words), "{}", health.text);
    client.close_stdin();
    client.wait_exit(PATIENCE);
    let below = below(&env.work().join("elsewhere"));
    assert_eq!(below.len(), 2, "{below:?}");
}

#[test]
fn no_text_of_a_command_is_in_the_arguments_of_a_server() {
    let env = Env::new();
    let client = env.client();
    let sleep = UniqueSleep::new();
    let task = client.start_task(&format!("API_TOKEN=hunter2hunter2 {sleep}"));
    sleep.wait_for(1);
    for pid in [client.pid(), client.server_pid()] {
        let arguments = fs::read_to_string(format!("/proc/{pid}/cmdline")).expect("alive");
        assert!(!arguments.contains("hunter2"), "{arguments}");
        assert!(!arguments.contains("98765"), "{arguments}");
    }
    let killed = client.kill_task(&task);
    assert_eq!(killed.status(), "killed", "{}", killed.text);
}
