//! Processes that were ended for want of memory, and freed memory: no portable call concerns
//! them.

/// How many there were; not known.
pub(crate) fn out_of_memory_kills() -> Option<u64> {
    None
}

/// Lets all threads allocate from one arena; nothing that can be asked for portably.
pub(crate) fn share_arena() {}

/// Gives memory that has been freed back to the system; nothing that can be asked for
/// portably.
pub(crate) fn give_back_free() {}

/// No portable call closes this process's data to others of its user: they may see its
/// environment, as `ps -E` does. A file of mode 0600 is the better place for a secret.
pub(crate) fn close_to_others() {}
