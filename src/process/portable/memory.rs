//! Processes that were ended for want of memory: no portable call tells of them.

/// How many there were; not known.
pub fn out_of_memory_kills() -> Option<u64> {
    None
}
