//! Many calls of all kinds at once, for long: nothing is lost, no process is left, and
//! descriptors, threads and memory stay what they were.
//!
//! The long forms run in `make test-long`, where `SOAK_CALLS` and `LAST_LINES` say how many
//! calls and commands they take.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use serde_json::{Value, json};

use crate::detached::starts_that_are_broken_off;
use crate::support::client::Client;
use crate::support::database::wait_for_observations;
use crate::support::env::Env;
use crate::support::processes::{assert_none_left, descendants_of, memory_kib, wait_until};
use crate::support::result::ToolResult;

pub const CALLERS: usize = 8;
/// Finished tasks that are kept: few, so that memory is what it will be from early on.
pub const KEPT: usize = 40;
/// Idle connections to the database, and what looks at the machine at the moment.
pub const SPARE_DESCRIPTORS: usize = 10;
/// Threads that wait for a call, and those that are about to end at the moment.
pub const SPARE_THREADS: usize = 8;
/// What an allocator may keep more or less of at the end than in the middle.
pub const SPARE_KIB: u64 = 6 * 1024;
const DEFAULT_CALLS: usize = 10_000;
const DEFAULT_LAST_LINES: usize = 20_000;

#[test]
fn mixed_calls_by_eight_threads_lose_nothing_and_leave_nothing() {
    mixed_calls(400);
}

// Here, since beside it no other test can tell how fast anything is.
#[test]
#[ignore = "takes long: make test-long"]
fn two_hundred_detached_starts_broken_off_on_a_busy_machine_leave_a_listed_task_or_nothing() {
    starts_that_are_broken_off(200, 10);
}

#[test]
#[ignore = "takes long: make test-long"]
fn ten_thousand_mixed_calls_lose_nothing_and_leave_nothing() {
    mixed_calls(size_from("SOAK_CALLS", DEFAULT_CALLS));
}

#[test]
fn the_last_line_is_in_the_answer_that_names_the_end() {
    last_lines(48, |_| {});
}

#[test]
#[ignore = "takes long: make test-long"]
fn the_last_line_of_thousands_of_commands_is_there_on_a_busy_machine() {
    let _busy: Vec<BusyLoop> = (0..4).map(|_| BusyLoop::start()).collect();
    last_lines(size_from("LAST_LINES", DEFAULT_LAST_LINES), |_| {});
}

#[test]
#[ignore = "takes long: make test-long"]
fn the_last_line_is_there_where_the_kernel_pauses_everything() {
    let quota = CpuQuota::of_percent(5);
    last_lines(200, |client| {
        for pid in [client.pid(), client.server_pid()] {
            quota.take(pid);
        }
    });
}

/// A control group whose processes, and all that they start, run for a part of the time.
struct CpuQuota(PathBuf);

impl CpuQuota {
    const PERIOD_US: u32 = 100_000;

    fn of_percent(percent: u32) -> CpuQuota {
        let root = Path::new("/sys/fs/cgroup");
        // The older hierarchy has a folder for each controller.
        let older = root.join("cpu");
        let name = format!("zsh-tool-it-{}", std::process::id());
        let runs = Self::PERIOD_US * percent / 100;
        let (group, limits) = if older.is_dir() {
            let period = ("cpu.cfs_period_us", Self::PERIOD_US.to_string());
            let quota = ("cpu.cfs_quota_us", runs.to_string());
            (older.join(name), vec![period, quota])
        } else {
            let quota = ("cpu.max", format!("{runs} {}", Self::PERIOD_US));
            (root.join(name), vec![quota])
        };
        let how_to = "this test needs a cgroup of its own with a CPU quota: run it as root";
        fs::create_dir(&group).expect(how_to);
        let quota = CpuQuota(group);
        for (file, limit) in limits {
            fs::write(quota.0.join(file), limit).expect(how_to);
        }
        quota
    }

    fn take(&self, pid: u32) {
        fs::write(self.0.join("cgroup.procs"), pid.to_string()).expect("a living process");
    }
}

impl Drop for CpuQuota {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

pub fn size_from(variable: &str, default: usize) -> usize {
    std::env::var(variable).map_or(default, |size| {
        size.parse().unwrap_or_else(|_| panic!("{variable} is no number: {size}"))
    })
}

/// A process that takes all the time of a processor that it gets.
struct BusyLoop(Child);

impl BusyLoop {
    fn start() -> BusyLoop {
        let mut command = Command::new("sh");
        command.args(["-c", "while :; do :; done"]);
        BusyLoop(command.spawn().expect("a shell"))
    }
}

impl Drop for BusyLoop {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs `work` with a number of its own again and again, by eight threads at once.
fn side_by_side(times: usize, work: impl Fn(usize) + Sync) {
    let next = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..CALLERS {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= times {
                        return;
                    }
                    work(number);
                }
            });
        }
    });
}

/// Commands that write between two inputs and end with a line: on terminals, where echo and
/// output come from different hands, and on pipes.
fn last_lines(commands: usize, prepare: impl Fn(&Client)) {
    let env = Env::new();
    env.configure(&format!("max_finished_tasks: {KEPT}\n"));
    let client = env.client();
    prepare(&client);
    side_by_side(commands, |number| {
        let (pty, open) = (number % 4 != 0, number % 4 == 0);
        let command = "read a; echo between; read z; echo $a-$z";
        let arguments =
            json!({"command": command, "pty": pty, "stdin_open": open, "yield_after": 0});
        let started = client.call("zsh", arguments);
        let task = started.task_id();
        let mut shown = started.output();
        // As soon as the program can take it, and after pauses of different lengths.
        for (input, listen) in [("one", (number % 3) as f64 / 20.0), ("two", 25.0)] {
            let arguments = json!({"task_id": task, "input": input, "listen": listen});
            let sent = client.call("zsh_send", arguments);
            assert!(!sent.is_error, "{number}: {}", sent.text);
            shown += &format!("\n{}", sent.output());
            if sent.status() != "running" {
                assert!(shown.contains("one-two"), "{number}: {shown}\n{}", sent.text);
            }
        }
        let mut status = String::from("running");
        while status == "running" && !shown.contains("one-two") {
            let polled = client.poll_to_end(&task);
            shown += &format!("\n{}", polled.output());
            status = polled.status().to_owned();
        }
        assert!(shown.contains("one-two"), "{number}: {shown}");
        assert!(shown.contains("between"), "{number}: {shown}");
    });
}

fn mixed_calls(calls: usize) {
    let env = Env::new();
    env.configure(&format!("max_finished_tasks: {KEPT}\n"));
    let client = env.client();
    let soak = Soak::new(&env, &client);
    // By now all that is loaded once has been, and as many tasks are kept as ever will be.
    soak.until(calls / 4);
    let first = soak.rest();
    soak.until(calls / 2);
    let middle = soak.rest();
    soak.until(calls);
    let last = soak.rest();
    let most = first.descriptors.max(middle.descriptors) + SPARE_DESCRIPTORS;
    assert!(last.descriptors <= most, "{first:?}, {middle:?}, {last:?}");
    let most = first.threads.max(middle.threads) + SPARE_THREADS;
    assert!(last.threads <= most, "{first:?}, {middle:?}, {last:?}");
    let most = first.kib.max(middle.kib) + SPARE_KIB;
    assert!(last.kib <= most, "{first:?}, {middle:?}, {last:?}");
    let commands = i64::try_from(soak.commands.into_inner()).expect("not that many");
    wait_for_observations(&env, commands);
    client.close_stdin();
    drop(client);
    assert_none_left(env.mark());
}

/// Calls of all kinds to one server.
pub struct Soak<'a> {
    env: &'a Env,
    client: &'a Client,
    pub calls: AtomicUsize,
    /// Commands on this machine.
    pub commands: AtomicUsize,
}

/// What a server that has nothing to do holds.
#[derive(Debug)]
pub struct Holdings {
    pub descriptors: usize,
    pub threads: usize,
    pub kib: u64,
}

impl<'a> Soak<'a> {
    pub fn new(env: &'a Env, client: &'a Client) -> Soak<'a> {
        Soak { env, client, calls: AtomicUsize::new(0), commands: AtomicUsize::new(0) }
    }

    /// Goes on until there were this many calls.
    fn until(&self, calls: usize) {
        thread::scope(|scope| {
            for caller in 0..CALLERS {
                scope.spawn(move || {
                    let mut kind = caller;
                    while self.calls.load(Ordering::Relaxed) < calls {
                        self.one_of_a_kind(kind);
                        kind += 1;
                    }
                });
            }
        });
    }

    /// Waits until nothing runs below the server but what carries calls to hosts; what it holds then.
    pub fn rest(&self) -> Holdings {
        let server = self.client.server_pid();
        wait_until("no process below the server", || {
            let below = descendants_of(server);
            below.iter().all(|process| process.arguments.starts_with("ssh ")).then_some(())
        });
        wait_until("no task that runs", || {
            let listed = self.client.call("zsh_tasks", json!({}));
            listed.text.contains("no running tasks").then_some(())
        });
        let count = |list: &str| {
            fs::read_dir(format!("/proc/{server}/{list}")).expect("an own process").count()
        };
        // The history of the last calls may still be written.
        let mut before = None;
        wait_until("its descriptors remain as many", || {
            let now = count("fd");
            (before.replace(now) == Some(now)).then_some(())
        });
        Holdings {
            descriptors: count("fd"),
            threads: count("task"),
            kib: memory_kib(server, "VmRSS"),
        }
    }

    pub fn call(&self, tool: &str, arguments: Value) -> ToolResult {
        self.calls.fetch_add(1, Ordering::Relaxed);
        if tool == "zsh" && arguments.get("host").is_none() {
            self.commands.fetch_add(1, Ordering::Relaxed);
        }
        let result = self.client.call(tool, arguments);
        assert!(!result.is_error, "{}", result.text);
        result
    }

    pub fn one_of_a_kind(&self, kind: usize) {
        match kind % 8 {
            0 => self.quick(kind),
            1 => self.many_lines(kind),
            2 => self.failure(kind),
            3 => self.background(),
            4 => self.killed(kind),
            5 => self.pipe(kind),
            6 => self.terminal(kind),
            _ => self.cancelled(),
        }
    }

    fn quick(&self, kind: usize) {
        let command = format!("echo quick {kind}");
        let result = self.call("zsh", json!({"command": command, "yield_after": 25}));
        assert_eq!(result.status(), "completed", "{}", result.text);
        assert_eq!(result.output(), format!("quick {kind}"));
    }

    fn many_lines(&self, kind: usize) {
        let lines = 2_000 + kind;
        let command = format!("seq {lines}");
        let result = self.call("zsh", json!({"command": command, "yield_after": 25}));
        assert_eq!(result.meta["total_lines"], json!(lines), "{}", result.text);
        let last = json!({"task_id": result.task_id(), "from_line": lines});
        let polled = self.client.call("zsh_poll", last);
        // Newer tasks may have taken its place by now.
        if !polled.is_error {
            assert_eq!(polled.output(), format!("{lines}: {lines}"), "{}", polled.text);
        }
    }

    fn failure(&self, kind: usize) {
        let code = 1 + kind % 100;
        let command = format!("echo no such thing >&2; exit {code}");
        let result = self.call("zsh", json!({"command": command, "yield_after": 25}));
        assert_eq!(result.meta["exit_code"], json!(code), "{}", result.text);
        assert_eq!(result.output(), "no such thing");
    }

    fn background(&self) {
        let command = "for i in {1..5}; do echo line $i; sleep 0.02; done";
        let arguments = json!({"command": command, "background": true, "yield_after": 0});
        let started = self.call("zsh", arguments);
        self.follow(started, 5);
    }

    /// Polls a task that writes so many numbered lines until it has ended: each is shown once. Its last
    /// answer.
    pub fn follow(&self, started: ToolResult, lines: usize) -> ToolResult {
        let (task, mut result, mut shown) = (started.task_id(), started, Vec::new());
        loop {
            let output = result.output();
            let found = output.lines().filter_map(|line| line.find("line ").map(|at| &line[at..]));
            shown.extend(found.map(str::to_owned));
            if result.status() != "running" {
                break;
            }
            result = self.call("zsh_poll", json!({"task_id": task, "listen": 25}));
        }
        let expected: Vec<String> = (1..=lines).map(|number| format!("line {number}")).collect();
        assert_eq!(shown, expected, "{}", result.text);
        result
    }

    fn killed(&self, kind: usize) {
        let arguments = json!({"command": "sleep 600 & sleep 600", "yield_after": 0});
        let task = self.call("zsh", arguments).task_id();
        let polled = self.call("zsh_poll", json!({"task_id": task, "listen": 0}));
        assert_eq!(polled.status(), "running", "{}", polled.text);
        let mut arguments = json!({"task_id": task});
        if kind % 16 < 8 {
            arguments["signal"] = json!("KILL");
        }
        let mut receipt = self.call("zsh_kill", arguments);
        while receipt.meta["survivors"] != json!([]) {
            receipt = self.call("zsh_kill", json!({"task_id": task}));
        }
    }

    fn pipe(&self, kind: usize) {
        let arguments = json!({"command": "cat", "stdin_open": true, "yield_after": 0});
        let task = self.call("zsh", arguments).task_id();
        let word = format!("word {kind}");
        let sent = json!({"task_id": task, "input": word, "eof": true, "listen": 25});
        self.typed(&task, sent, &word);
    }

    fn terminal(&self, kind: usize) {
        let command = "stty -echo; read -r a; print -r -- got $a";
        let arguments = json!({"command": command, "pty": true, "yield_after": 0});
        let task = self.call("zsh", arguments).task_id();
        let sent = json!({"task_id": task, "input": format!("{kind}"), "listen": 25});
        self.typed(&task, sent, &format!("got {kind}"));
    }

    /// Sends the input and follows the task to its end; the answers must show the reply.
    fn typed(&self, task: &str, input: serde_json::Value, reply: &str) {
        let mut result = self.call("zsh_send", input);
        let mut shown = result.output();
        while result.status() == "running" {
            let to_end = json!({"task_id": task, "wait_for": "end", "listen": 25});
            result = self.call("zsh_poll", to_end);
            shown += &format!("\n{}", result.output());
        }
        assert!(shown.contains(reply), "{reply} is missing: {shown}\n{}", result.text);
    }

    fn cancelled(&self) {
        let commands = self.commands.fetch_add(1, Ordering::Relaxed);
        self.calls.fetch_add(1, Ordering::Relaxed);
        let started = self.env.work().join(format!("started-{commands}"));
        let command = format!("echo > {}; sleep 600", started.display());
        let arguments = json!({"command": command, "yield_after": 50});
        let call = self.client.call_async("zsh", arguments);
        wait_until("the command has begun", || started.exists().then_some(()));
        self.client.cancel(&call);
        fs::remove_file(started).expect("a file of the command's");
    }
}
