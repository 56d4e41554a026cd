//! What processes have read, written and computed since their start: told on macOS of the
//! processes that can be found, and else of none. A task's own output is known in any case.

use crate::process::tree::ProcessInfo;
use crate::progress::ledger::Member;

/// What each of these processes has done so far; those of whom it is not known are left
/// out.
pub fn members(processes: &[ProcessInfo]) -> Vec<Member> {
    processes.iter().filter_map(member).collect()
}

#[cfg(target_os = "macos")]
fn member(process: &ProcessInfo) -> Option<Member> {
    crate::process::libproc::usage(process)
}

#[cfg(not(target_os = "macos"))]
fn member(_process: &ProcessInfo) -> Option<Member> {
    None
}

/// The beginning of a process's command line: not known.
pub fn command_line(_pid: i32) -> String {
    String::new()
}

/// The number that was given to the newest process of the machine: not known.
pub fn newest_pid() -> Option<u64> {
    None
}
