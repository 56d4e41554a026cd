//! Which processes there are and what is to be known of each, where the system has no
//! portable list of them: whether a pid is in use, and its group and session. On macOS,
//! which has such a list, also the members of the groups that this process has started.

use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

#[cfg(not(target_os = "macos"))]
use crate::process::groups;
#[cfg(target_os = "macos")]
use crate::process::libproc;
#[cfg(not(target_os = "macos"))]
use crate::process::process_info::Identity;
use crate::process::process_info::{Environment, ProcessInfo};

/// Looks one process up. Its start is not known, so that another one of the same pid is
/// taken for it.
#[cfg(not(target_os = "macos"))]
pub fn look_up(pid: i32) -> Option<ProcessInfo> {
    if pid <= 0 || !crate::process::signals::lives(pid) {
        return None;
    }
    Some(ProcessInfo {
        id: Identity { pid, started: 0 },
        parent: 0,
        group: groups::group(pid),
        session: groups::session(pid),
        name: String::new(),
        zombie: false,
        hindrance: None,
        runnable: false,
        cpu_ticks: 0,
        children_ticks: 0,
    })
}

/// Looks one process up.
#[cfg(target_os = "macos")]
pub fn look_up(pid: i32) -> Option<ProcessInfo> {
    libproc::look_up(pid)
}

/// Gives the processes that can be found; those are never known to be all.
pub fn visit(_take: impl FnMut(ProcessInfo)) -> bool {
    #[cfg(target_os = "macos")]
    libproc::started().into_iter().for_each(_take);
    false
}

/// The children of this process that were not started by it: not known.
pub fn children_of_self() -> Option<Vec<i32>> {
    None
}

/// The children of a process that are shown nowhere else: not known.
pub fn children_of(_pid: i32) -> Vec<i32> {
    Vec::new()
}

/// The environment that a process was started with: not known.
pub fn environment(_pid: i32) -> Environment {
    Environment::Hidden
}

/// A process's arguments: not known.
pub fn arguments(_pid: i32) -> Option<Vec<u8>> {
    None
}

/// The number of the user whose rights a process has: not known.
pub fn user_number(_pid: i32) -> Option<u32> {
    None
}

/// What a descriptor of this process is called where others hold it: not known.
pub fn name_of_descriptor(_fd: &impl AsRawFd) -> Option<PathBuf> {
    None
}

/// The file that a process runs: not known.
pub fn program_of(_pid: i32) -> Option<PathBuf> {
    None
}

/// Whether a process holds a pipe or terminal open: not known, and said of none.
pub fn holds_open(_pid: i32, _target: &Path) -> bool {
    false
}
