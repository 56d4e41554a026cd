//! Other processes, as the kernel shows them.
//!
//! A test asks here what the program under test left behind. Linux only.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use super::client::PATIENCE;

/// How often [`wait_until`] looks again.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// Waits until the question has an answer.
///
/// The kernel offers no event for what processes of others do, so this one place looks
/// again and again, with a bound; all else in the tests waits for an event.
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
    /// Its id.
    pub pid: u32,
    /// Its arguments, joined by spaces.
    pub arguments: String,
}

/// The living processes that carry this word in their environment.
pub fn processes_with(mark: &str) -> Vec<Found> {
    all_processes()
        .filter(|pid| file_contains(*pid, "environ", mark))
        .map(found)
        .collect()
}

/// The living processes that carry this word in their arguments.
pub fn processes_named(word: &str) -> Vec<Found> {
    all_processes()
        .filter(|pid| file_contains(*pid, "cmdline", word))
        .map(found)
        .collect()
}

/// The `sleep`s with this argument: not the shells whose command text names it.
pub fn sleeps(argument: &str) -> Vec<Found> {
    let wanted = format!("sleep {argument}");
    processes_named(argument)
        .into_iter()
        .filter(|process| process.arguments == wanted)
        .collect()
}

/// The living processes below this one, by parent chain.
pub fn descendants_of(pid: u32) -> Vec<Found> {
    let parents: Vec<(u32, u32)> = all_processes()
        .filter_map(|child| Some((child, parent_of(child)?)))
        .collect();
    let mut family = vec![pid];
    let mut next = 0;
    while let Some(parent) = family.get(next).copied() {
        family.extend(
            parents
                .iter()
                .filter(|(_, of)| *of == parent)
                .map(|(child, _)| *child),
        );
        next += 1;
    }
    family.into_iter().skip(1).map(found).collect()
}

/// Waits until no process carries this word, in its environment or arguments.
pub fn assert_none_left(word: &str) {
    let mut left = Vec::new();
    let deadline = Instant::now() + PATIENCE / 3;
    let gone = wait_until("an end of the look-out for processes", || {
        left = processes_with(word);
        left.extend(processes_named(word));
        (left.is_empty() || Instant::now() > deadline).then_some(left.is_empty())
    });
    assert!(gone, "still running: {left:?}");
}

fn all_processes() -> impl Iterator<Item = u32> {
    fs::read_dir("/proc")
        .expect("/proc is mounted")
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|pid| *pid != std::process::id())
}

fn file_contains(pid: u32, file: &str, word: &str) -> bool {
    // A process that is gone by now, or another user's, is none of the test's.
    fs::read(format!("/proc/{pid}/{file}")).is_ok_and(|bytes| {
        bytes
            .windows(word.len())
            .any(|window| window == word.as_bytes())
    })
}

fn found(pid: u32) -> Found {
    let bytes = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    Found {
        pid,
        arguments: text.trim_end_matches('\0').replace('\0', " "),
    }
}

fn parent_of(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name may hold spaces and brackets; the fields follow its last bracket.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace();
    let state = fields.next()?;
    let parent = fields.next()?.parse().ok()?;
    (state != "Z").then_some(parent)
}
