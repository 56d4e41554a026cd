//! Memory: how many processes the kernel has killed for lack of it, how this process uses little of
//! it, and how it closes its own to other processes.

use std::fs;
use std::path::Path;

use rustix::process::{DumpableBehavior, set_dumpable_behavior};

use crate::process::processes::{self, field};

/// Where control groups of version 2 are mounted.
const CONTROL_GROUPS: &str = "/sys/fs/cgroup";

/// How many processes the kernel has killed so far for lack of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OutOfMemoryKills {
    /// In this process's control group, since it was created.
    group: Option<u64>,
    /// On the machine, since it was started.
    machine: Option<u64>,
}

/// Reads both counts.
pub(crate) fn out_of_memory_kills() -> OutOfMemoryKills {
    let read = |name: &str, file: &str| count(&group_file(name)?, file);
    OutOfMemoryKills {
        group: read("memory.events", "oom_kill ")
            .or_else(|| read("memory.oom_control", "oom_kill ")),
        machine: fs::read_to_string("/proc/vmstat").ok().and_then(|text| count(&text, "oom_kill ")),
    }
}

impl OutOfMemoryKills {
    /// Whether there were more later: in the group or, if the command has a group of its own, on
    /// the machine.
    pub(crate) fn has_grown(self, later: OutOfMemoryKills) -> bool {
        self.has_grown_in_group(later) || grown(self.machine, later.machine)
    }

    /// Whether there were more later in this process's control group, whose limit was reached then.
    pub(crate) fn has_grown_in_group(self, later: OutOfMemoryKills) -> bool {
        grown(self.group, later.group)
    }
}

fn grown(before: Option<u64>, later: Option<u64>) -> bool {
    before.zip(later).is_some_and(|(before, later)| later > before)
}

/// How much memory this process's control group may use, in bytes; `None` for no limit.
pub(crate) fn group_limit() -> Option<u64> {
    /// Version 1 reports a number near the largest for no limit.
    const NO_LIMIT: u64 = 1 << 60;
    let text = group_file("memory.max").or_else(|| group_file("memory.limit_in_bytes"))?;
    text.trim().parse().ok().filter(|limit| *limit < NO_LIMIT)
}

/// A file of this process's control group of memory, of version 2 or 1.
fn group_file(name: &str) -> Option<String> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let root = Path::new(CONTROL_GROUPS);
    let (root, own) = match groups.lines().find_map(|line| line.split_once(":memory:/")) {
        Some((_, own)) => (root.join("memory"), own),
        None => (root.to_path_buf(), field(&groups, "0::/")?),
    };
    // In a container the name may be that of the host, which is not visible.
    fs::read_to_string(root.join(own).join(name))
        .or_else(|_| fs::read_to_string(root.join(name)))
        .ok()
}

/// When memory runs out, makes the kernel kill a program that this process has just started, and
/// its descendants, before this process.
pub(crate) fn end_first(pid: i32) {
    /// How much more likely, in thousandths of the memory.
    const MORE: i32 = 300;
    /// `OOM_SCORE_ADJ_MAX` of `linux/oom.h`.
    const MAX: i32 = 1000;
    let own = fs::read_to_string("/proc/self/oom_score_adj").ok();
    let Some(own) = own.and_then(|own| own.trim().parse::<i32>().ok()) else { return };
    let raised = own.saturating_add(MORE).min(MAX).to_string();
    // Before exec the file is not this user's, so the program cannot do it itself. Its present
    // children follow; later ones inherit the value.
    let mut next = vec![pid];
    while let Some(pid) = next.pop() {
        // If this is refused, the kernel chooses by size only.
        let _ = fs::write(processes::directory(pid).join("oom_score_adj"), &raised);
        next.extend(processes::children_of(pid).unwrap_or_default());
    }
}

/// Lets all threads allocate from one arena. By default glibc gives each of many concurrent threads
/// an arena of its own, which keeps the memory that short-lived threads have freed: eight calls at
/// a time left 70 MiB. A second arena costs 2 MiB and makes no call faster, since each thread has a
/// cache of its own. Call this before other threads start. Other allocators need no such call.
pub(crate) fn share_arena() {
    #[cfg(target_env = "gnu")]
    // SAFETY: changes a parameter of the allocator, which takes its own lock for it.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
    }
}

/// Returns freed memory, which the allocator would keep, to the system. Takes milliseconds, during
/// which other threads cannot allocate.
pub(crate) fn give_back_free() {
    #[cfg(target_env = "gnu")]
    // SAFETY: gives away only free pages, under the allocator's own locks.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Closes this process's environment, memory and descriptors in `/proc` to other processes of this
/// user: a command that the server runs could read configured secrets there. Root can still read
/// them. Programs that this process starts are not affected.
pub(crate) fn close_to_others() {
    // Fails only on kernels without it, where secrets are better kept in a file.
    let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
}

fn count(counts: &str, name: &str) -> Option<u64> {
    field(counts, name)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_kills_are_counted() {
        let events = "low 0\nhigh 3\nmax 9\noom 2\noom_kill 7\noom_group_kill 1\n";
        assert_eq!(count(events, "oom_kill "), Some(7));
        assert_eq!(count("oom 2\n", "oom_kill "), None);
    }
}
