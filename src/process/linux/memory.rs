//! What the kernel tells of processes that it ended for want of memory.

use std::fs;
use std::path::Path;

/// Where control groups of version 2 are mounted.
const CONTROL_GROUPS: &str = "/sys/fs/cgroup";

/// How many processes of this process's control group the kernel has ended for want of
/// memory since the group exists; `None` where it does not say.
pub fn out_of_memory_kills() -> Option<u64> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let own = groups.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let root = Path::new(CONTROL_GROUPS);
    // Within a container the name may be that of the host, which is not to be seen.
    let events = fs::read_to_string(root.join(own).join("memory.events"))
        .or_else(|_| fs::read_to_string(root.join("memory.events")))
        .ok()?;
    count(&events)
}

fn count(events: &str) -> Option<u64> {
    events
        .lines()
        .find_map(|line| line.strip_prefix("oom_kill "))
        .and_then(|count| count.trim().parse().ok())
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
