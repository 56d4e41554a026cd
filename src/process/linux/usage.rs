//! What processes have read, written and computed since their start, as `/proc` tells it.
//!
//! Limits: Linux; `io` is shown of this user's own processes that do not hide, and of any
//! to root. The kernel counts what goes through `read`, `write` and their kin, of terminals,
//! pipes and sockets as of files, and neither what `send` and `recv` carry nor what is
//! written into a file that is mapped.

use std::io::Read;
use std::path::Path;
use std::time::Duration;

use crate::process::processes;
use crate::process::tree::ProcessInfo;
use crate::progress::ledger::{Bytes, Member};

/// What each of these processes has done so far; those that have ended meanwhile are left
/// out.
pub fn members(processes: &[ProcessInfo]) -> Vec<Member> {
    processes
        .iter()
        .filter_map(|process| {
            let pid = process.id.pid;
            let io = bytes_of(pid);
            // A whole look lasts: who has ended since would be taken for one that hides.
            (io.is_some() || processes::directory(pid).exists()).then(|| Member {
                key: (pid, process.id.started),
                parent: process.parent,
                io,
                cpu: time_of(process.cpu_ticks + process.children_ticks),
            })
        })
        .collect()
}

/// So much of a command line tells one from another.
const COMMAND_LINE_BYTES: u64 = 4 * 1024;

/// The beginning of a process's command line; empty where that is not shown.
pub fn command_line(pid: i32) -> String {
    let mut line = Vec::new();
    let read = std::fs::File::open(processes::directory(pid).join("cmdline"))
        .and_then(|file| file.take(COMMAND_LINE_BYTES).read_to_end(&mut line));
    match read {
        Ok(_) => String::from_utf8_lossy(&line).replace('\0', " "),
        Err(_) => String::new(),
    }
}

/// The number that was given to the newest process or thread of the machine; from two of
/// them follows how many have begun in between, at most.
pub fn newest_pid() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/loadavg").ok()?;
    text.split_ascii_whitespace().next_back()?.parse().ok()
}

fn bytes_of(pid: i32) -> Option<Bytes> {
    let process = processes::directory(pid);
    let all = bytes_in(&process.join("io"))?;
    let threads = std::fs::read_dir(process.join("task")).ok()?;
    let own = threads
        .flatten()
        .filter_map(|thread| bytes_in(&thread.path().join("io")))
        .fold(0, u64::saturating_add);
    Some(Bytes { all, own })
}

fn bytes_in(path: &Path) -> Option<u64> {
    parse_bytes(&std::fs::read_to_string(path).ok()?)
}

/// The sum of the lines `rchar:` and `wchar:`.
fn parse_bytes(text: &str) -> Option<u64> {
    let of = |name: &str| {
        text.lines()
            .find_map(|line| line.strip_prefix(name)?.trim().parse::<u64>().ok())
    };
    Some(of("rchar:")?.saturating_add(of("wchar:")?))
}

fn time_of(ticks: u64) -> Duration {
    let per_second = procfs::ticks_per_second().max(1);
    Duration::from_millis(ticks.saturating_mul(1000) / per_second)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::tree::look_up;

    #[test]
    fn bytes_are_those_of_both_directions() {
        let text = "rchar: 724370\nwchar: 883\nsyscr: 1147\nsyscw: 105\nread_bytes: 0\n";
        assert_eq!(parse_bytes(text), Some(725_253));
        assert_eq!(parse_bytes("rchar: x\nwchar: 1\n"), None);
        assert_eq!(parse_bytes(""), None);
    }

    #[test]
    fn what_this_process_reads_is_seen() {
        let own = look_up(std::process::id() as i32).expect("this process");
        let bytes = || {
            let members = members(std::slice::from_ref(&own));
            members[0].io.expect("its own counters").all
        };
        let before = bytes();
        let read = std::fs::read("/proc/self/exe").expect("its own program");
        assert!(bytes() >= before + read.len() as u64);
        assert!(newest_pid().is_some());
    }

    #[test]
    fn the_command_line_of_this_process_is_its_own() {
        let own = std::env::args().next().expect("its own name");
        assert!(command_line(std::process::id() as i32).starts_with(&own));
        assert_eq!(command_line(50_000_000), "");
    }
}
