//! The processes of the machine, where no portable call lists them: whether a pid is in use,
//! and its group and session. On macOS, which has such a list, also the members of the groups
//! that this process has started.

use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

#[cfg(not(target_os = "macos"))]
use crate::process::groups;
#[cfg(target_os = "macos")]
use crate::process::libproc;
#[cfg(target_os = "macos")]
pub use crate::process::libproc::look_up;
#[cfg(not(target_os = "macos"))]
use crate::process::probe::Identity;
use crate::process::probe::{Environment, ProcessInfo, VisibilityLimit};
use crate::progress::condition::Evidence;

/// Looks one process up. Its start is not known, so that a later process of the same pid is
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
        ..ProcessInfo::default()
    })
}

/// Passes the processes that can be found to `_take`; they are never known to be all.
pub(crate) fn visit(_take: impl FnMut(ProcessInfo)) -> bool {
    #[cfg(target_os = "macos")]
    libproc::started().into_iter().for_each(_take);
    false
}

/// The children of this process that were not started by it: not known.
pub(crate) fn children_of_self() -> Option<Vec<i32>> {
    None
}

/// The children of a process that are shown nowhere else: not known.
pub(crate) fn children_of(_pid: i32) -> Option<Vec<i32>> {
    None
}

/// The environment that a process was started with: not known.
pub(crate) fn environment(_pid: i32) -> Environment {
    Environment::Hidden
}

/// A process's arguments: not known.
pub(crate) fn arguments(_pid: i32) -> Vec<u8> {
    Vec::new()
}

/// The name of a process's effective user: not known.
pub(crate) fn user_of(_pid: i32) -> Option<String> {
    None
}

/// A user, by number.
pub(crate) fn user_name(uid: u32) -> String {
    format!("uid {uid}")
}

/// The effective user of this process.
pub(crate) fn effective_user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// How much can be seen of a process.
pub(crate) fn evidence_of(_pid: i32) -> Option<Evidence> {
    Some(Evidence::Nothing)
}

/// What prevents this system from showing what processes wait for.
pub(crate) fn visibility_limit() -> Option<VisibilityLimit> {
    Some(VisibilityLimit::Portable)
}

/// What a descriptor of this process is called where others hold it: not known.
pub(crate) fn name_of_descriptor(_fd: &impl AsRawFd) -> Option<PathBuf> {
    None
}

/// The file that a process runs: not known.
pub(crate) fn program_of(_pid: i32) -> Option<PathBuf> {
    None
}

/// Whether a process holds a pipe or terminal open: not known.
pub(crate) fn holds_open(_pid: i32, _target: &Path) -> Option<bool> {
    None
}
