//! Finds processes on the machine.
//!
//! Tests use this to find processes that the program under test left behind. Linux only.

use std::fmt;
use std::fs;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::client::PATIENCE;
use super::env::unique_word;

/// The interval at which [`wait_until`] checks.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// Waits until a check succeeds.
///
/// The kernel offers no events about unrelated processes, so this function polls, with a deadline.
/// It is the only place in the tests that does; all others wait for an event.
pub fn wait_until<T>(what: &str, mut answer: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = answer() {
            return found;
        }
        assert!(Instant::now() < deadline, "never came true: {what}");
        thread::sleep(LOOK_AGAIN);
    }
}

/// A process that a test found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    pub pid: u32,
    /// Its arguments, joined by spaces.
    pub arguments: String,
}

/// The living processes with this word in their environment.
pub fn processes_with(mark: &str) -> Vec<Found> {
    all_processes().filter(|pid| file_contains(*pid, "environ", mark)).map(found).collect()
}

/// The living processes with this word in their arguments.
fn processes_named(word: &str) -> Vec<Found> {
    all_processes().filter(|pid| file_contains(*pid, "cmdline", word)).map(found).collect()
}

/// A `sleep` with a unique argument: 27 hours and a random fraction. It can be found even if it has
/// cleared its environment.
pub struct UniqueSleep {
    argument: String,
}

impl UniqueSleep {
    /// Chooses the argument; the test's command runs the sleep.
    pub fn new() -> UniqueSleep {
        let digits: String =
            unique_word().bytes().map(|byte| char::from(b'0' + byte % 10)).collect();
        UniqueSleep { argument: format!("98765.{digits}") }
    }

    /// The sleep processes, not the shells whose command text contains the argument.
    pub fn running(&self) -> Vec<Found> {
        let wanted = self.to_string();
        processes_named(&self.argument)
            .into_iter()
            .filter(|process| process.arguments == wanted)
            .collect()
    }

    /// Waits until this many of them run.
    pub fn wait_for(&self, count: usize) {
        wait_until(&format!("{count} times {self} run"), || {
            (self.running().len() == count).then_some(())
        });
    }

    /// Waits until no process contains the argument.
    pub fn assert_gone(&self) {
        assert_gone(|| processes_named(&self.argument));
    }
}

impl fmt::Display for UniqueSleep {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "sleep {}", self.argument)
    }
}

impl Drop for UniqueSleep {
    /// Failing tests leave no process behind either.
    fn drop(&mut self) {
        end(&self.running());
    }
}

/// Kills processes that a test found by its unique word.
pub fn end(processes: &[Found]) {
    for process in processes {
        // The process may already have ended.
        let _ = Command::new("kill")
            .args(["-s", "KILL", &process.pid.to_string()])
            .stderr(Stdio::null())
            .status();
    }
}

/// The living descendants of a process, by parent chain.
pub fn descendants_of(pid: u32) -> Vec<Found> {
    let parents: Vec<(u32, u32)> =
        all_processes().filter_map(|child| Some((child, parent_of(child)?))).collect();
    let mut family = vec![pid];
    let mut next = 0;
    while let Some(parent) = family.get(next).copied() {
        family.extend(parents.iter().filter(|(_, of)| *of == parent).map(|(child, _)| *child));
        next += 1;
    }
    family.into_iter().skip(1).map(found).collect()
}

/// The processes with this word in their environment that run this subcommand of the program: the
/// guards, and those that they guard, which are their children with the same arguments. One whose
/// guard was killed counts as a guard.
pub fn guards_and_guarded(mark: &str, subcommand: &str) -> (Vec<Found>, Vec<Found>) {
    let runs = |process: &Found| {
        let mut words = process.arguments.split(' ');
        words.next().is_some_and(|program| program.ends_with("zsh-tool"))
            && words.next() == Some(subcommand)
    };
    let found: Vec<Found> = processes_with(mark).into_iter().filter(runs).collect();
    let pids: Vec<u32> = found.iter().map(|process| process.pid).collect();
    let is_child_of = |process: &Found, parents: &[u32]| {
        parent_of(process.pid).is_some_and(|parent| parents.contains(&parent))
    };
    let (guards, mut guarded): (Vec<Found>, Vec<Found>) =
        found.into_iter().partition(|process| !is_child_of(process, &pids));
    // Before its exec, a child of a guarded process has the same arguments.
    let pids: Vec<u32> = guards.iter().map(|process| process.pid).collect();
    guarded.retain(|process| is_child_of(process, &pids));
    (guards, guarded)
}

/// Waits until a process has ended with all its threads, whether or not its parent has noticed: a
/// thread that is still ending keeps the process's locks.
pub fn await_end(pid: u32) {
    wait_until("the process has ended", || {
        let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else {
            return Some(());
        };
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let state = stat.rsplit(')').next().unwrap_or_default().trim_start();
        (threads.count() <= 1 && (state.is_empty() || state.starts_with('Z'))).then_some(())
    });
}

/// A value of `/proc/<pid>/status` in KiB: `VmRSS`, `VmHWM`.
pub fn memory_kib(pid: u32, field: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("a living process");
    status
        .lines()
        .find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))
        .and_then(|value| value.trim().strip_suffix(" kB")?.parse().ok())
        .unwrap_or_else(|| panic!("no {field} in {status}"))
}

/// Waits until no process has this word in its environment.
pub fn assert_none_left(mark: &str) {
    assert_gone(|| processes_with(mark));
}

fn assert_gone(look: impl Fn() -> Vec<Found>) {
    let deadline = Instant::now() + PATIENCE / 3;
    let left = wait_until("an end of the look-out for processes", || {
        let left = look();
        (left.is_empty() || Instant::now() > deadline).then_some(left)
    });
    assert!(left.is_empty(), "still running: {left:?}");
}

fn all_processes() -> impl Iterator<Item = u32> {
    fs::read_dir("/proc")
        .expect("/proc is mounted")
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|pid| *pid != std::process::id())
}

fn file_contains(pid: u32, file: &str, word: &str) -> bool {
    // A process that is gone by now, or another user's, is none of the test's.
    fs::read(format!("/proc/{pid}/{file}"))
        .is_ok_and(|bytes| bytes.windows(word.len()).any(|window| window == word.as_bytes()))
}

fn found(pid: u32) -> Found {
    let bytes = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    Found { pid, arguments: text.trim_end_matches('\0').replace('\0', " ") }
}

fn parent_of(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name may contain spaces and brackets; the fields follow its last bracket.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace();
    let state = fields.next()?;
    let parent = fields.next()?.parse().ok()?;
    (state != "Z").then_some(parent)
}
