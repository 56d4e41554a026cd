//! How many processes the kernel has ended for want of memory, how this process uses little
//! of it, and how it closes its own to others.

use std::fs;
use std::path::Path;

use rustix::process::{DumpableBehavior, set_dumpable_behavior};

use crate::process::processes::field;

/// Where control groups of version 2 are mounted.
const CONTROL_GROUPS: &str = "/sys/fs/cgroup";

/// How many processes of this process's control group the kernel has ended for want of
/// memory since the group was created; `None` where it does not report that.
pub(crate) fn out_of_memory_kills() -> Option<u64> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let own = field(&groups, "0::/")?;
    let root = Path::new(CONTROL_GROUPS);
    // Within a container the name may be that of the host, which is not to be seen.
    let events = fs::read_to_string(root.join(own).join("memory.events"))
        .or_else(|_| fs::read_to_string(root.join("memory.events")))
        .ok()?;
    count(&events)
}

/// Lets all threads allocate from one arena. By default glibc gives each of many threads at
/// once an arena of its own, and what short-lived threads have freed there stays with it:
/// eight calls at a time left 70 MiB. A second arena costs 2 MiB and makes no call faster,
/// since each thread has a cache of its own. To be called before there are other threads;
/// other allocators need nothing of it.
pub(crate) fn share_arena() {
    #[cfg(target_env = "gnu")]
    // SAFETY: changes a number of the allocator's, which takes its own lock for it.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
    }
}

/// Returns freed memory to the system, which the allocator would keep for later. Takes
/// milliseconds, during which other threads cannot allocate.
pub(crate) fn give_back_free() {
    #[cfg(target_env = "gnu")]
    // SAFETY: gives away free pages alone, under the allocator's own locks.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Closes this process's environment, memory and descriptors in `/proc` to other processes
/// of its user: a command that the server runs could read configured secrets there. Root can
/// still read them. Programs that it starts are not affected.
pub(crate) fn close_to_others() {
    // Fails on no kernel that has it; without it a file is the better place for a secret.
    let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
}

fn count(events: &str) -> Option<u64> {
    field(events, "oom_kill ")?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kills_are_counted_and_not_attempts_or_groups() {
        let events = "low 0\nhigh 3\nmax 9\noom 2\noom_kill 7\noom_group_kill 1\n";
        assert_eq!(count(events), Some(7));
        assert_eq!(count("oom 2\n"), None);
    }
}
