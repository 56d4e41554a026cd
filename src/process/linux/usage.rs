//! What processes have read, written and computed since their start, and how often they were
//! scheduled, from `/proc`.
//!
//! Limits: Linux; `io` is shown for this user's own processes that do not hide and, to root, for
//! all. The kernel counts bytes that go through `read`, `write` and their kin, for terminals, pipes
//! and sockets as for files, and pages of files that are marked as changed. It counts neither
//! `send` and `recv` nor reads through a mapping.

use std::path::Path;
use std::time::Duration;

use super::calls;
use crate::process::probe::ProcessInfo;
use crate::process::processes;
use crate::progress::cost::CpuTime;
use crate::progress::counters::{Bytes, Counters, Member};

/// What each of these processes has done so far; those that have ended meanwhile are omitted.
pub(crate) fn members(processes: &[ProcessInfo]) -> Vec<Member> {
    processes
        .iter()
        .filter_map(|process| {
            let pid = process.id.pid;
            let io = bytes_of(process);
            // A process that has ended since the scan must not count as a hidden one.
            (io.is_some() || processes::proc_directory(pid).exists()).then(|| Member {
                key: (pid, process.id.started),
                parent: process.parent,
                io,
                cpu: cpu_time(process),
            })
        })
        .collect()
}

/// How long the main thread of a process has waited for a processor in all; `None` where the
/// kernel does not count it.
pub(crate) fn run_delay(pid: i32) -> Option<Duration> {
    // The time on a processor, the time of waiting for one, and how often it ran.
    let schedstat = processes::proc_directory(pid).join("schedstat");
    let run_delay = |text: &str| text.split_ascii_whitespace().nth(1)?.parse().ok();
    processes::read_record(schedstat, run_delay).map(Duration::from_nanos)
}

/// The memory of a process in bytes, in which a page that several share counts in part for each;
/// `None` if that cannot be read.
pub(crate) fn share_of_memory(pid: i32) -> Option<u64> {
    let kilobytes = |file: &str, name: &str| {
        let text = processes::read_proc_text(processes::proc_directory(pid).join(file)).ok()?;
        processes::field(&text, name)?.split_whitespace().next()?.parse::<u64>().ok()
    };
    // Before Linux 4.14 only what is shared with no file.
    let share = kilobytes("smaps_rollup", "Pss:").or_else(|| kilobytes("status", "RssAnon:"));
    Some(share?.saturating_mul(1024))
}

/// How often the kernel has switched away from a process's main thread, which every user may read.
/// While the number stays the same, the thread is in one and the same sleep, or runs without a
/// pause.
pub(crate) fn switches(pid: i32) -> Option<u64> {
    switches_in(&processes::proc_directory(pid).join(format!("task/{pid}")))
}

/// As [`switches`], for all threads together.
pub(crate) fn switches_of_all(pid: i32) -> Option<u64> {
    let threads = std::fs::read_dir(processes::proc_directory(pid).join("task")).ok()?;
    let counts = threads.flatten().filter_map(|thread| switches_in(&thread.path()));
    Some(counts.fold(0, u64::saturating_add))
}

fn switches_in(thread: &Path) -> Option<u64> {
    parse_switches(&processes::read_proc_text(thread.join("status")).ok()?)
}

/// How often a thread has gone to sleep, by its directory `/proc/<pid>/task/<tid>`. A thread that
/// others displace has not.
pub(super) fn pauses(thread: &Path) -> Option<u64> {
    let status = processes::read_proc_text(thread.join("status")).ok()?;
    processes::field(&status, "voluntary_ctxt_switches:")?.parse().ok()
}

/// The sum of the lines `voluntary_ctxt_switches:` and `nonvoluntary_ctxt_switches:`.
fn parse_switches(status: &str) -> Option<u64> {
    let names = ["voluntary_ctxt_switches:", "nonvoluntary_ctxt_switches:"];
    let counts = names.into_iter().filter_map(|name| processes::field(status, name)?.parse().ok());
    counts.reduce(u64::saturating_add)
}

fn bytes_of(process: &ProcessInfo) -> Option<Bytes> {
    let pid = process.id.pid;
    let directory = processes::proc_directory(pid);
    let all = counters_in(&directory.join("io"))?;
    let own = if process.threads == 1 {
        counters_in(&directory.join(format!("task/{pid}/io"))).unwrap_or_default()
    } else {
        calls::threads(process)
            .iter()
            .filter_map(|thread| counters_in(&thread.0.join("io")))
            .fold(Counters::default(), Counters::saturating_add)
    };
    Some(Bytes { all, own })
}

/// The fields of `/proc/<pid>/io`, as proc_pid_io(5) describes them.
fn counters_in(path: &Path) -> Option<Counters> {
    processes::read_record(path, |text| {
        let count = |name| processes::field(text, name)?.parse().ok();
        Some(Counters {
            read: count("rchar:")?,
            written: count("wchar:")?,
            changed: count("write_bytes:")?,
            read_calls: count("syscr:")?,
            write_calls: count("syscw:")?,
        })
    })
}

/// CPU time of a process and of the children that it has waited for.
fn cpu_time(process: &ProcessInfo) -> CpuTime {
    let all = process.cpu_ticks + process.children_ticks;
    CpuTime {
        user: time_of(all.saturating_sub(process.system_ticks)),
        system: time_of(process.system_ticks),
    }
}

pub(super) fn time_of(ticks: u64) -> Duration {
    let per_second = procfs::ticks_per_second().max(1);
    Duration::from_millis(ticks.saturating_mul(1000) / per_second)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::tree::look_up;

    #[test]
    fn all_counters_are_read_or_none() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let counters_of = |text: &str| {
            std::fs::write(file.path(), text).expect("written");
            counters_in(file.path())
        };
        let text = "rchar: 724370\nwchar: 883\nsyscr: 1147\nsyscw: 105\nread_bytes: 0\n\
                    write_bytes: 4096\ncancelled_write_bytes: 7\n";
        let counters = Counters {
            read: 724_370,
            written: 883,
            changed: 4096,
            read_calls: 1147,
            write_calls: 105,
        };
        assert_eq!(counters_of(text), Some(counters));
        assert_eq!(counters_of(&text.replace("rchar: 7", "rchar: x")), None);
        assert_eq!(counters_of("rchar: 1\nwchar: 1\n"), None);
        assert_eq!(counters_of(""), None);
    }

    #[test]
    fn switches_of_both_kinds_are_added() {
        let text = "Threads:\t1\nvoluntary_ctxt_switches:\t564\nnonvoluntary_ctxt_switches:\t142\n";
        assert_eq!(parse_switches(text), Some(706));
        assert_eq!(parse_switches("Threads:\t1\n"), None);
    }

    #[test]
    fn bytes_that_this_process_reads_are_counted() {
        let own = look_up(std::process::id() as i32).expect("this process");
        let bytes = || {
            let members = members(std::slice::from_ref(&own));
            members[0].io.expect("its own counters").all.read
        };
        let before = bytes();
        let read = std::fs::read("/proc/self/exe").expect("its own program");
        assert!(bytes() >= before + read.len() as u64);
    }

    proptest::proptest! {
        #[test]
        fn no_text_panics(text in ".{0,200}") {
            let _ = parse_switches(&text);
        }
    }
}
