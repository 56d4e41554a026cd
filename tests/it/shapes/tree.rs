//! What the processes of a task wait in, for the report of a wrong verdict: a look of the
//! test's own, so that the program under test is not its own witness.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use crate::support::processes::processes_with;

/// The system calls of x86-64 that waits are in.
const CALLS: &[(&str, &str)] = &[
    ("0", "read"),
    ("1", "write"),
    ("7", "poll"),
    ("23", "select"),
    ("34", "pause"),
    ("35", "nanosleep"),
    ("43", "accept"),
    ("45", "recvfrom"),
    ("47", "recvmsg"),
    ("61", "wait4"),
    ("72", "fcntl"),
    ("73", "flock"),
    ("128", "rt_sigtimedwait"),
    ("130", "rt_sigsuspend"),
    ("202", "futex"),
    ("230", "clock_nanosleep"),
    ("232", "epoll_wait"),
    ("247", "waitid"),
    ("257", "openat"),
    ("262", "newfstatat"),
    ("270", "pselect6"),
    ("271", "ppoll"),
    ("281", "epoll_pwait"),
    ("288", "accept4"),
];
/// Threads beyond these are only counted.
const THREADS: usize = 24;
const ARGUMENTS: usize = 90;

/// The processes of a task with their threads' system calls, in lines.
pub fn describe(task: &str) -> String {
    let mut text = String::new();
    for process in processes_with(&format!("/{task}")) {
        let arguments: String = process.arguments.chars().take(ARGUMENTS).collect();
        let parent = status_field(process.pid, "PPid:");
        let _ = writeln!(text, "{} (of {parent}) {arguments}", process.pid);
        let threads = fs::read_dir(format!("/proc/{}/task", process.pid)).into_iter().flatten();
        let threads: Vec<_> = threads.flatten().map(|thread| thread.path()).collect();
        for thread in threads.iter().take(THREADS) {
            let _ = writeln!(text, "    {}", thread_line(thread));
        }
        if threads.len() > THREADS {
            let _ = writeln!(text, "    and {} threads more", threads.len() - THREADS);
        }
    }
    text
}

/// `Reference Handl S futex 0x7f.. in futex_wait_queue`
fn thread_line(thread: &Path) -> String {
    let read = |name: &str| fs::read_to_string(thread.join(name)).unwrap_or_default();
    let call = read("syscall");
    let mut words = call.split_whitespace();
    let number = words.next().unwrap_or("gone");
    let name = CALLS.iter().find(|(of, _)| *of == number).map_or(number, |(_, name)| name);
    let arguments: Vec<&str> = words.take(3).collect();
    let stat = read("stat");
    let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next()).unwrap_or('?');
    format!(
        "{:16} {state} {name}({}) in {}",
        read("comm").trim(),
        arguments.join(", "),
        read("wchan")
    )
}

fn status_field(pid: u32, name: &str) -> String {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    line.unwrap_or_default().trim().to_owned()
}
