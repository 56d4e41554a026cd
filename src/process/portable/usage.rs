//! What processes have read, written and computed since their start: known on macOS for the
//! processes that can be found, elsewhere for none. A task's own output is always known.

use std::time::Duration;

use crate::process::tree::ProcessInfo;
use crate::progress::counters::Member;

/// What each of these processes has done so far; those for which it is not known are omitted.
pub(crate) fn members(processes: &[ProcessInfo]) -> Vec<Member> {
    processes.iter().filter_map(member).collect()
}

#[cfg(target_os = "macos")]
fn member(process: &ProcessInfo) -> Option<Member> {
    super::libproc::usage(process)
}

#[cfg(not(target_os = "macos"))]
fn member(_process: &ProcessInfo) -> Option<Member> {
    None
}

/// The memory of a process in bytes, without what it shares.
#[cfg(target_os = "macos")]
pub(crate) fn share_of_memory(pid: i32) -> Option<u64> {
    super::libproc::footprint(pid)
}

/// The memory of a process in bytes, without what it shares: not known.
#[cfg(not(target_os = "macos"))]
pub(crate) fn share_of_memory(_pid: i32) -> Option<u64> {
    None
}

/// How long a process has waited for a processor: not known.
pub(crate) fn run_delay(_pid: i32) -> Option<Duration> {
    None
}

/// How often the kernel has switched away from a process's main thread: always `None`.
pub(crate) fn switches(_pid: i32) -> Option<u64> {
    None
}

/// How often the kernel has switched away from all of a process's threads together.
#[cfg(target_os = "macos")]
pub(crate) fn switches_of_all(pid: i32) -> Option<u64> {
    super::libproc::switches(pid)
}

/// How often the kernel has switched away from all of a process's threads together.
#[cfg(not(target_os = "macos"))]
pub(crate) fn switches_of_all(_pid: i32) -> Option<u64> {
    None
}
