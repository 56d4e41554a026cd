//! Memory and processes: what the kernel ends for want of memory, what an idle server gives back,
//! and a task of many processes.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::json;

use crate::support::client::Client;
use crate::support::env::{Env, binary, unique_word};
use crate::support::processes::{memory_kib, wait_until};
use crate::support::unprivileged;

/// A control group with a limit of memory, for processes that move into it.
struct Group(PathBuf);

impl Group {
    /// As root, of version 1 where that is mounted, else of version 2.
    fn with_limit(bytes: u64) -> Group {
        unprivileged::require_root();
        let first = Path::new("/sys/fs/cgroup/memory");
        let (root, limit) = if first.exists() {
            (first, "memory.limit_in_bytes")
        } else {
            (Path::new("/sys/fs/cgroup"), "memory.max")
        };
        let group = Group(root.join(unique_word()));
        fs::create_dir(&group.0).expect("a control group");
        fs::write(group.0.join(limit), bytes.to_string()).expect("a limit of memory");
        group
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        wait_until("the group is empty", || fs::remove_dir(&self.0).ok());
    }
}

#[test]
fn a_command_that_is_killed_for_memory_is_named_so_and_the_server_lives() {
    const LIMIT: u64 = 128 * 1024 * 1024;
    let group = Group::with_limit(LIMIT);
    let env = Env::new();
    let mut command = env.command("sh");
    command
        .arg("-c")
        .arg(format!("echo $$ > {}/cgroup.procs; exec \"$0\" serve", group.0.display()));
    let client = Client::start(
        {
            command.arg(binary());
            command
        },
        env.path("stderr"),
    );
    client.initialize();
    let grows = "python3 -c 'import time
kept = [bytearray(b\"x\" * 40_000_000)]
time.sleep(2.5)
while True: kept.append(bytearray(b\"x\" * 1_000_000))'";
    for shape in [grows.to_owned(), format!("exec {grows}"), format!("{grows}; exit $?")] {
        let result = client.call("zsh", json!({"command": shape, "yield_after": 50}));
        assert_eq!(result.meta["exit_code"], json!(137), "{}", result.text);
        let told = "killed by the kernel, out of memory (exit 137): it was seen with ";
        assert!(result.text.contains(told), "{}", result.text);
        assert!(result.text.contains(", the limit is 134.2 MB"), "{}", result.text);
    }
    let other = client.run("kill -9 $$");
    assert!(other.text.contains("killed by SIGKILL (exit 137)"), "{}", other.text);
    client.close_stdin();
    client.wait_exit(crate::support::client::PATIENCE);
}

#[test]
fn the_kernel_ends_commands_rather_than_the_server() {
    let env = Env::new();
    let client = env.client();
    let own =
        |pid: &str| fs::read_to_string(format!("/proc/{pid}/oom_score_adj")).expect("a number");
    let before: i32 = own(&client.server_pid().to_string()).trim().parse().expect("a number");
    for pty in [false, true] {
        let pipe = env.named_pipe(&unique_word());
        // The line is read by the thread that has started the shell, once it has marked it; what the
        // shell starts later inherits the mark.
        let command = format!(
            "echo started; read x < {}; sh -c 'cat /proc/self/oom_score_adj'; true",
            pipe.display()
        );
        let started = client.call(
            "zsh",
            json!({"command": command, "pty": pty, "until": "started", "yield_after": 40}),
        );
        fs::write(pipe, "\n").expect("a reader");
        let result = client.poll(&started.task_id(), json!({"wait_for": "end", "listen": 40}));
        let raised: i32 =
            result.output().trim_start_matches("2: ").trim().parse().expect("a number");
        assert_eq!(raised, (before + 300).min(1000), "{}", result.text);
    }
    let after: i32 = own(&client.server_pid().to_string()).trim().parse().expect("a number");
    assert_eq!(after, before);
}

#[test]
fn a_task_of_many_processes_is_warned_of_once() {
    let env = Env::new();
    env.configure("max_processes_task: 20\nheartbeat_interval: 1\n");
    let client = env.client();
    let started = client.call(
        "zsh",
        json!({"command": "for n in {1..30}; do sleep 600 & done; wait", "background": true}),
    );
    let task = started.task_id();
    wait_until("it is warned of", || {
        let polled = client.poll(&task, json!({"listen": 1}));
        polled.text.contains("⚠ this task has 31 processes").then_some(())
    });
    let again = client.poll(&task, json!({"listen": 0}));
    assert!(!again.text.contains("this task has"), "{}", again.text);
    client.kill_task(&task);
}

#[test]
fn a_server_gives_the_memory_of_its_code_back_when_it_is_idle() {
    let env = Env::new();
    let client = env.client();
    let server = client.server_pid();
    client.run("true");
    let used = memory_kib(server, "RssFile");
    wait_until("the code is gone", || (memory_kib(server, "RssFile") < used / 3 * 2).then_some(()));
    assert_eq!(client.run("echo again").output(), "again");
}
