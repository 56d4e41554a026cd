//! Kills for lack of memory, and the return of memory to the system. There is no portable call for
//! either, so these functions do nothing.

/// How many kills there were: not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OutOfMemoryKills;

pub(crate) fn out_of_memory_kills() -> OutOfMemoryKills {
    OutOfMemoryKills
}

impl OutOfMemoryKills {
    /// Whether `later` counts more: always false.
    pub(crate) fn has_grown(self, _later: OutOfMemoryKills) -> bool {
        false
    }

    /// Whether `later` counts more in this process's control group: always false.
    pub(crate) fn has_grown_in_group(self, _later: OutOfMemoryKills) -> bool {
        false
    }
}

/// How much memory this process may use: always `None`.
pub(crate) fn group_limit() -> Option<u64> {
    None
}

/// How much memory is free: not known.
pub(crate) fn available() -> Option<u64> {
    None
}

/// Would drop code and constants from this process's memory.
pub(crate) fn drop_unchanged_pages() {}

/// Would make the kernel kill a program before this process when memory runs out.
pub(crate) fn prefer_for_oom_kill(_pid: i32) {}

/// Would let all threads allocate from one arena.
pub(crate) fn use_one_arena() {}

/// Would return freed memory to the system.
pub(crate) fn trim_heap() {}

/// No portable call closes this process's data to others of its user: they may see its
/// environment, as `ps -E` does. A file of mode 0600 is the better place for a secret.
pub(crate) fn hide_from_other_processes() {}
