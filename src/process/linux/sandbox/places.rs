//! A policy's paths as they are now: resolved, and only those that exist.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};
use rustix::path::Arg;

use super::seen::Seen;
use super::{repositories, system};
use crate::process::files;
use crate::process::needs::Needs;
use crate::sandbox::policy::Policy;

/// Opens what is at a path without links, for what is done with it apart from reading and writing.
/// Allocates nothing.
///
/// # Errors
/// There is no such file, or a link is on the way.
pub(super) fn open(path: impl Arg + Copy) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let without_links = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    match rustix::fs::openat2(CWD, path, flags, Mode::empty(), without_links) {
        // Some sandboxes refuse this call, ours among them. Without it only a link at the end is noticed.
        Err(rustix::io::Errno::NOSYS | rustix::io::Errno::PERM) => {
            Ok(rustix::fs::open(path, flags | OFlags::NOFOLLOW, Mode::empty())?)
        }
        opened => Ok(opened?),
    }
}

/// A policy's paths.
#[derive(Debug, Default)]
pub(super) struct Places {
    pub(super) write: Vec<PathBuf>,
    /// What is not written to inside of those.
    pub(super) keep: Vec<PathBuf>,
    /// The same, if it can be mounted.
    pub(super) protect: Vec<PathBuf>,
    /// What of both is missing. Nothing can keep a command from making it.
    pub(super) absent: Vec<PathBuf>,
    pub(super) denied: Vec<PathBuf>,
    /// The denied paths as they were given, for what appears there later.
    pub(super) denied_as_given: Vec<PathBuf>,
    /// The directory of what the command alone uses: it may read there.
    pub(super) shared: Option<PathBuf>,
    /// File systems of the kernel that are mounted inside of what may be written to.
    pub(super) system: Vec<PathBuf>,
}

impl Places {
    /// # Errors
    /// The table of mounts cannot be read.
    pub(super) fn resolve(policy: &Policy, needs: &Needs, seen: &mut Seen) -> io::Result<Places> {
        // They were resolved when the settings were read. A link that is there now was made since, maybe
        // by a command that may write around it, to lead this one elsewhere.
        let mut write = seen.resolve_all(&policy.write);
        write.retain(|path| policy.write.contains(path));
        let mut denied = seen.resolve_all(&policy.deny_read);
        outermost(&mut denied);
        let keep = seen.resolve_all(&policy.keep);
        let is_in =
            |trees: &[PathBuf], path: &Path| trees.iter().any(|tree| path.starts_with(tree));
        write.retain(|path| !is_in(&keep, path) && !is_in(&denied, path));
        outermost(&mut write);
        let inside = |paths: Vec<PathBuf>| -> Vec<PathBuf> {
            let is_inside =
                |path: &PathBuf| write.iter().any(|tree| path.starts_with(tree) && path != tree);
            let mut paths: Vec<PathBuf> = paths.into_iter().filter(is_inside).collect();
            outermost(&mut paths);
            paths
        };
        let mut protect = policy.protect.clone();
        for directory in &policy.git {
            repositories::add_parts(directory, seen, &mut protect)?;
        }
        let absent = policy.keep.iter().chain(&protect).filter_map(|path| missing(path));
        let is_writable =
            |path: &PathBuf| files::real_path(path).is_some_and(|path| is_in(&write, &path));
        let mut absent: Vec<PathBuf> = absent.filter(is_writable).collect();
        absent.sort();
        absent.dedup();
        Ok(Places {
            absent,
            keep: inside(keep),
            protect: inside(seen.resolve_all(&protect)),
            system: inside(system::mounts()?),
            shared: needs.shared.as_ref().and_then(|shared| seen.resolve(shared)),
            denied_as_given: policy.deny_read.clone(),
            write,
            denied,
        })
    }

    /// Whether this path without links is denied.
    pub(super) fn denies(&self, path: &Path) -> bool {
        let is_shared = || self.shared.as_ref().is_some_and(|shared| path.starts_with(shared));
        self.denied.iter().any(|denied| path.starts_with(denied)) && !is_shared()
    }

    /// Whether a writable tree is this directory or below it.
    pub(super) fn leads_to_writable(&self, directory: &Path) -> bool {
        self.write.iter().chain(&self.shared).any(|tree| tree.starts_with(directory))
    }

    /// The denied paths inside of trees that are writable.
    pub(super) fn denied_inside(&self) -> impl Iterator<Item = &PathBuf> {
        let is_inside = |path: &&PathBuf| self.write.iter().any(|tree| path.starts_with(tree));
        self.denied.iter().filter(is_inside)
    }
}

/// What would have to be made for there to be something at this path, which may be a link that leads
/// nowhere yet.
fn missing(path: &Path) -> Option<PathBuf> {
    if path.exists() {
        return None;
    }
    let Ok(target) = path.read_link() else { return Some(path.to_path_buf()) };
    files::resolved(&path.parent().unwrap_or(path).join(target))
}

/// Leaves out what is inside of another path of the list.
pub(super) fn outermost(paths: &mut Vec<PathBuf>) {
    paths.sort();
    let mut kept: Vec<PathBuf> = Vec::with_capacity(paths.len());
    for path in paths.drain(..) {
        if !kept.last().is_some_and(|last| path.starts_with(last)) {
            kept.push(path);
        }
    }
    *paths = kept;
}
