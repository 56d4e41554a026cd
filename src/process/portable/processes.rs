//! What can be learned about processes outside Linux. No portable call lists them: only whether a
//! pid is in use, its group and its session are known. macOS lists them, with more about processes
//! of this user.

use std::fs::Metadata;
use std::path::PathBuf;

#[cfg(target_os = "macos")]
pub use macos::*;
#[cfg(not(target_os = "macos"))]
pub use unlisted::*;

/// The children of this process that were not started by it: not known.
pub(crate) fn adopted_orphans() -> Option<Vec<i32>> {
    None
}

/// The file at the path that a process executes, and the path; `None` where that is not shown.
pub(crate) fn program_file(pid: i32) -> Option<(Metadata, PathBuf)> {
    let path = program_of(pid)?;
    Some((std::fs::metadata(&path).ok()?, path))
}

/// Whether a process acts as root: not known, so no.
pub(crate) fn acts_as_root(_pid: i32) -> bool {
    false
}

/// The children of a process that are shown nowhere else: not known.
pub(crate) fn children_of(_pid: i32) -> Option<Vec<i32>> {
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

#[cfg(target_os = "macos")]
mod macos {
    use std::os::fd::AsRawFd;
    use std::path::{Path, PathBuf};

    use super::super::{libproc, lineage};
    use super::user_name;
    use crate::process::probe::{ProcessInfo, VisibilityLimit};
    use crate::progress::condition::Visibility;

    pub use libproc::look_up;
    pub(crate) use libproc::{arguments, environment, program_of};

    /// Passes all processes of the machine to `take`; returns whether those are all.
    pub(crate) fn visit(take: impl FnMut(ProcessInfo)) -> bool {
        let (mut processes, whole) = libproc::all();
        lineage::complete(&mut processes, whole);
        processes.into_iter().for_each(take);
        whole
    }

    /// A process's effective user, by number.
    pub(crate) fn user_of(pid: i32) -> Option<String> {
        libproc::user_of(pid).map(user_name)
    }

    /// Processes and what they have used are seen, and not the calls that they are blocked in.
    pub(crate) fn evidence_of(_pid: i32) -> Option<Visibility> {
        Some(Visibility::NoSystemCalls)
    }

    /// What prevents this system from showing what processes wait for.
    pub(crate) fn visibility_limit() -> Option<VisibilityLimit> {
        Some(VisibilityLimit::MacOs)
    }

    /// A name for a pipe, the same for both of its ends, that other descriptors do not have.
    pub(crate) fn name_of_descriptor(fd: &impl AsRawFd) -> Option<PathBuf> {
        libproc::read_end(fd).map(|number| PathBuf::from(format!("pipe:[{number}]")))
    }

    /// The number in such a name.
    pub(in crate::process) fn pipe_number(name: &Path) -> Option<u64> {
        name.to_str()?.strip_prefix("pipe:[")?.strip_suffix(']')?.parse().ok()
    }

    /// Whether a process holds a pipe open; not known of terminals and of other users'
    /// processes.
    pub(crate) fn holds_open(pid: i32, target: &Path) -> Option<bool> {
        libproc::holds_pipe(pid, pipe_number(target)?)
    }
}

#[cfg(not(target_os = "macos"))]
mod unlisted {
    use std::os::fd::AsRawFd;
    use std::path::{Path, PathBuf};

    use super::super::groups;
    use crate::process::probe::{Environment, Identity, ProcessInfo, VisibilityLimit};
    use crate::progress::condition::Visibility;

    /// Looks one process up. Its start is not known, so that a later process of the same pid is
    /// taken for it.
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

    /// Passes no process to `_take`.
    pub(crate) fn visit(_take: impl FnMut(ProcessInfo)) -> bool {
        false
    }

    /// The environment that a process was started with: not known.
    pub(crate) fn environment(_pid: i32) -> Environment {
        Environment::Hidden
    }

    /// A process's arguments: not known.
    pub(crate) fn arguments(_pid: i32) -> Vec<u8> {
        Vec::new()
    }

    /// The file that a process runs: not known.
    pub(crate) fn program_of(_pid: i32) -> Option<PathBuf> {
        None
    }

    /// The name of a process's effective user: not known.
    pub(crate) fn user_of(_pid: i32) -> Option<String> {
        None
    }

    /// How much can be seen of a process.
    pub(crate) fn evidence_of(_pid: i32) -> Option<Visibility> {
        Some(Visibility::Nothing)
    }

    /// What prevents this system from showing what processes wait for.
    pub(crate) fn visibility_limit() -> Option<VisibilityLimit> {
        Some(VisibilityLimit::Portable)
    }

    /// What a descriptor of this process is called where others hold it: not known.
    pub(crate) fn name_of_descriptor(_fd: &impl AsRawFd) -> Option<PathBuf> {
        None
    }

    /// Whether a process holds a pipe or terminal open: not known.
    pub(crate) fn holds_open(_pid: i32, _target: &Path) -> Option<bool> {
        None
    }
}
