//! Processes that were ended for want of memory, and freed memory: no portable call concerns
//! them.

/// How many there were; not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OutOfMemoryKills;

pub(crate) fn out_of_memory_kills() -> OutOfMemoryKills {
    OutOfMemoryKills
}

impl OutOfMemoryKills {
    /// Whether there were more later; not known.
    pub(crate) fn has_grown(self, _later: OutOfMemoryKills) -> bool {
        false
    }

    /// The same.
    pub(crate) fn has_grown_in_group(self, _later: OutOfMemoryKills) -> bool {
        false
    }
}

/// How much memory this process may use; not known.
pub(crate) fn group_limit() -> Option<u64> {
    None
}

/// Takes the program's code out of this process's memory; nothing that can be asked for portably.
pub(crate) fn give_back_code() {}

/// Makes the kernel rather end a program than this process; nothing that can be asked for
/// portably.
pub(crate) fn prefer_for_oom_kill(_pid: i32) {}

/// Lets all threads allocate from one arena; nothing that can be asked for portably.
pub(crate) fn use_one_arena() {}

/// Gives memory that has been freed back to the system; nothing that can be asked for
/// portably.
pub(crate) fn trim_heap() {}

/// No portable call closes this process's data to others of its user: they may see its
/// environment, as `ps -E` does. A file of mode 0600 is the better place for a secret.
pub(crate) fn hide_from_other_processes() {}
