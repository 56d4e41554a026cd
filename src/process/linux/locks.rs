//! Which process holds a file lock, from `/proc/locks`.
//!
//! Limits: a lock of an open file description names no process, and an older kernel or another PID
//! namespace may name none either. For a process of another user it cannot be checked whether it
//! holds this file, or one with the same number on another file system.

use std::path::Path;

use super::calls::{FileIdentity, identity};
use crate::process::probe::StallReason;
use crate::process::processes;
use crate::process::tree;
use crate::progress::wait::{Holder, Lock};
use crate::text::foreign::ShowPath;

/// The lock of the file behind this descriptor, named by `name`.
pub(super) fn lock_of(descriptor: &Path, name: &Path) -> Lock {
    Lock::new(name.shown(), holder(descriptor))
}

fn holder(descriptor: &Path) -> Option<Holder> {
    let file = identity(descriptor)?;
    let table = processes::read_proc_text("/proc/locks").ok()?;
    let pid = holders_in(&table, file.inode).find(|pid| may_hold(*pid, file))?;
    holder_of(pid)
}

/// A living process as the holder of a lock.
pub(crate) fn holder_of(pid: i32) -> Option<Holder> {
    let process = processes::look_up(pid).filter(|process| !process.zombie)?;
    Some(Holder {
        process: process.label(),
        task: tree::cookie_of(pid).and_then(|cookie| task_of(&cookie)),
        stopped: matches!(process.stall_reason, Some(StallReason::Stopped(_))),
    })
}

/// The task's id in the value of `ZSH_TOOL_TASK`, `<server instance>/<task id>`.
fn task_of(cookie: &str) -> Option<String> {
    let (_, task) = cookie.split_once('/')?;
    Some(task.to_owned())
}

/// Whether a process has this file open; true where that is not shown.
fn may_hold(pid: i32, file: FileIdentity) -> bool {
    let Ok(descriptors) = std::fs::read_dir(processes::proc_directory(pid).join("fd")) else {
        return true;
    };
    let mut files = descriptors.flatten().map(|entry| identity(&entry.path()));
    files.any(|held| held == Some(file))
}

/// The processes that hold a lock on this inode, in lines such as
/// `1: FLOCK  ADVISORY  WRITE 700 08:01:4521 0 EOF`; a process with `->` waits for one. The device
/// is ignored: `/proc/locks` and `stat` name it differently on some file systems.
fn holders_in(table: &str, inode: u64) -> impl Iterator<Item = i32> {
    const PID: usize = 4;
    const FILE: usize = 5;
    table.lines().filter_map(move |line| {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let file = words.get(FILE)?;
        let held: u64 = file.rsplit(':').next()?.parse().ok()?;
        let pid: i32 = words.get(PID)?.parse().ok()?;
        (held == inode && pid > 0 && words.get(1) != Some(&"->")).then_some(pid)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_holder_is_named_and_not_one_that_waits() {
        let table = "1: FLOCK  ADVISORY  WRITE 700 08:01:4521 0 EOF\n\
                     1: -> FLOCK  ADVISORY  WRITE 701 08:01:4521 0 EOF\n\
                     2: POSIX  ADVISORY  WRITE 702 00:19:77 0 EOF\n\
                     3: OFDLCK ADVISORY  WRITE -1 00:19:78 0 EOF\n";
        let holders = |table, inode| holders_in(table, inode).collect::<Vec<_>>();
        assert_eq!(holders(table, 4521), [700]);
        assert_eq!(holders(table, 77), [702]);
        assert_eq!(holders(table, 78), [0; 0]);
        assert_eq!(holders("garbage\n", 1), [0; 0]);
        assert_eq!(task_of("4f2a/b6d464a7").as_deref(), Some("b6d464a7"));
    }

    #[test]
    fn only_a_process_that_has_the_file_open_may_hold_its_lock() {
        let own = i32::try_from(std::process::id()).expect("a pid");
        let file = tempfile::NamedTempFile::new().expect("a file");
        let opened = identity(file.path()).expect("a file");
        assert!(may_hold(own, opened));
        let elsewhere = FileIdentity { device: (opened.device.0, opened.device.1 + 1), ..opened };
        assert!(!may_hold(own, elsewhere));
    }
}
