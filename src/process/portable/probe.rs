//! What processes are blocked in: no portable call tells. That a task waits for input is
//! told by its output and its terminal's modes, and else is not claimed.

pub use crate::process::sight::{Blocked, Look, Shortcoming, Source};
use crate::progress::condition::Evidence;

/// Looks at a process.
pub fn look(_pid: i32, _source: &Source) -> Look {
    Look::Unreadable
}

/// How much can be seen of a process.
pub fn evidence_of(_pid: i32) -> Option<Evidence> {
    Some(Evidence::Nothing)
}

/// What this system keeps from whoever wants to know what processes wait for.
pub fn shortcoming() -> Option<Shortcoming> {
    Some(Shortcoming::Portable)
}

/// How often a process's main thread has been switched to and from; not known.
pub fn switches(_pid: i32) -> Option<u64> {
    None
}

/// The same for all threads together.
pub fn switches_of_all(_pid: i32) -> Option<u64> {
    None
}
