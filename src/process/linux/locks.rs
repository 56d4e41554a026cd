//! Which process holds a file lock, from `/proc/locks`, or from `/proc/PID/fdinfo` where that names
//! the one that took the lock and has ended, or none.
//!
//! Limits: of other users' processes only `/proc/locks` tells, and for them it cannot be checked
//! whether they hold this file, or one with the same number on another file system.

use std::ffi::OsString;
use std::path::Path;

use super::calls::{FileIdentity, identity};
use crate::process::probe::{Identity, StallReason};
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
    let holders: Vec<i32> = holders_in(&table, file.inode).collect();
    if holders.is_empty() {
        return None;
    }
    let named = holders.into_iter().find(|pid| *pid > 0 && may_hold(*pid, file));
    named.and_then(holder_of).or_else(|| holder_by_descriptor(file))
}

/// The oldest process with a descriptor that has the lock. All that share the open file description
/// have it, as the children of a shell do after `exec 9>file; flock 9`.
fn holder_by_descriptor(file: FileIdentity) -> Option<Holder> {
    let mut oldest: Option<Identity> = None;
    processes::visit(|process| {
        if !process.zombie
            && oldest.is_none_or(|oldest| process.id.started < oldest.started)
            && has_lock(process.id.pid, file)
        {
            oldest = Some(process.id);
        }
    });
    holder_of(oldest?.pid)
}

fn has_lock(pid: i32, file: FileIdentity) -> bool {
    let facts = processes::proc_directory(pid).join("fdinfo");
    descriptors_of(pid, file).into_iter().flatten().any(|descriptor| {
        let facts = processes::read_proc_text(facts.join(descriptor));
        facts.is_ok_and(|facts| facts.lines().any(|line| line.starts_with("lock:")))
    })
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
    descriptors_of(pid, file).is_none_or(|mut found| found.next().is_some())
}

/// The numbers of a process's descriptors of this file; `None` where they are not shown.
fn descriptors_of(pid: i32, file: FileIdentity) -> Option<impl Iterator<Item = OsString>> {
    let entries = std::fs::read_dir(processes::proc_directory(pid).join("fd")).ok()?.flatten();
    let of_file = entries.filter(move |entry| identity(&entry.path()) == Some(file));
    Some(of_file.map(|entry| entry.file_name()))
}

/// The processes that took a lock on this inode, in lines such as
/// `1: FLOCK  ADVISORY  WRITE 700 08:01:4521 0 EOF`; -1 or 0 where the kernel names none. A process
/// with `->` waits for one. The device is ignored: `/proc/locks` and `stat` name it differently on
/// some file systems.
fn holders_in(table: &str, inode: u64) -> impl Iterator<Item = i32> {
    const PID: usize = 4;
    const FILE: usize = 5;
    table.lines().filter_map(move |line| {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let file = words.get(FILE)?;
        let held: u64 = file.rsplit(':').next()?.parse().ok()?;
        let pid: i32 = words.get(PID)?.parse().ok()?;
        (held == inode && words.get(1) != Some(&"->")).then_some(pid)
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
        assert_eq!(holders(table, 78), [-1]);
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

    #[test]
    fn a_lock_that_an_ended_process_took_is_held_by_who_has_its_descriptor() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let shared = file.reopen().expect("a file");
        let mut flock = std::process::Command::new("flock");
        flock.args(["--nonblock", "0"]).stdin(shared.try_clone().expect("a descriptor"));
        assert!(flock.status().expect("flock(1)").success());
        let holder = holder(file.path()).expect("a holder");
        assert_eq!(Ok(holder.process.pid), i32::try_from(std::process::id()));
        drop(shared);
    }
}
