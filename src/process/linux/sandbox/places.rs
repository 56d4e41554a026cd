//! A policy's paths as they are now: resolved, and only those that exist; and whether they still are.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};
use rustix::path::Arg;

use crate::process::needs::Needs;
use crate::sandbox::policy::{self, Policy};

/// A file's device, inode and birth. Another file can get the number of one that was removed.
type Identity = (u64, u64, Option<SystemTime>);

fn identity(path: &Path) -> Option<Identity> {
    let data = std::fs::metadata(path).ok()?;
    Some((data.dev(), data.ino(), data.created().ok()))
}

/// Changes with a directory's entries: its device, inode and time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Version(u64, u64, SystemTime);

impl Version {
    /// `None` if there is no such directory, or if it has just changed: times are as coarse as a tick,
    /// so a further change may give it the same.
    pub(super) fn read(directory: &Path) -> Option<Version> {
        const SETTLED: Duration = Duration::from_millis(20);
        let data = std::fs::metadata(directory).ok()?;
        let changed = data.modified().ok()?;
        let is_settled = SystemTime::now().duration_since(changed).is_ok_and(|age| age > SETTLED);
        is_settled.then(|| Version(data.dev(), data.ino(), changed))
    }

    /// Whether the directory has this version, and no unknown one.
    pub(super) fn is_of(version: Option<Version>, directory: &Path) -> bool {
        version.is_some() && version == Version::read(directory)
    }
}

/// Opens what is at a path without links, for what is done with it apart from reading and writing.
/// Allocates nothing.
///
/// # Errors
/// There is no such file, or a link is on the way.
pub(super) fn open(path: impl Arg) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let without_links = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    Ok(rustix::fs::openat2(CWD, path, flags, Mode::empty(), without_links)?)
}

/// What was found at paths.
#[derive(Debug, Default)]
pub(super) struct Seen(BTreeMap<PathBuf, Entries>);

/// What was found in one directory.
#[derive(Debug, Default)]
struct Entries {
    version: Option<Version>,
    found: BTreeMap<PathBuf, Option<Identity>>,
}

impl Seen {
    /// The path without links; `None` if there is no such file.
    pub(super) fn resolve(&mut self, given: &Path) -> Option<PathBuf> {
        let found = identity(given);
        if found.is_none() {
            // Many paths may be missing for one reason, which is looked at once.
            let missing = given.ancestors().take_while(|path| !path.exists()).last();
            self.add(missing.unwrap_or(given), None);
            return None;
        }
        self.add(given, found);
        let real = given.canonicalize().ok()?;
        self.add(&real, found);
        Some(real)
    }

    /// The same, for many paths.
    fn resolve_all(&mut self, given: &[PathBuf]) -> Vec<PathBuf> {
        given.iter().filter_map(|path| self.resolve(path)).collect()
    }

    fn add(&mut self, path: &Path, found: Option<Identity>) {
        let directory = path.parent().unwrap_or(path);
        let new = || Entries { version: Version::read(directory), ..Entries::default() };
        let entries = self.0.entry(directory.to_path_buf()).or_insert_with(new);
        // Changed since it was looked up, and maybe before the version was.
        if identity(path) != found {
            entries.version = None;
        }
        entries.found.insert(path.to_path_buf(), found);
    }

    /// Whether the same files are there.
    pub(super) fn is_current(&self) -> bool {
        self.0.iter().all(|(directory, Entries { version, found })| {
            // Entries are compared only if some have changed.
            Version::is_of(*version, directory)
                || found.iter().all(|(path, found)| identity(path) == *found)
        })
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
    pub(super) denied: Vec<PathBuf>,
    /// The denied paths as they were given, for what appears there later.
    pub(super) denied_as_given: Vec<PathBuf>,
    /// The directory of what the command alone uses: it may read there.
    pub(super) shared: Option<PathBuf>,
}

impl Places {
    pub(super) fn resolve(policy: &Policy, needs: &Needs, seen: &mut Seen) -> Places {
        // They were resolved when the settings were read. A link that is there now was made since, maybe
        // by a command that may write around it, to lead this one elsewhere.
        let mut write = seen.resolve_all(&policy.write);
        write.retain(|path| policy.write.contains(path));
        if policy.mode == policy::Mode::Workspace {
            write.extend(seen.resolve(Path::new("/dev/shm")));
        }
        outermost(&mut write);
        let mut denied = seen.resolve_all(&policy.deny_read);
        outermost(&mut denied);
        let inside = |paths: Vec<PathBuf>| -> Vec<PathBuf> {
            let is_inside =
                |path: &PathBuf| write.iter().any(|tree| path.starts_with(tree) && path != tree);
            let mut paths: Vec<PathBuf> = paths.into_iter().filter(is_inside).collect();
            outermost(&mut paths);
            paths
        };
        Places {
            keep: inside(seen.resolve_all(&policy.keep)),
            protect: inside(seen.resolve_all(&policy.protect)),
            shared: needs.shared.as_ref().and_then(|shared| seen.resolve(shared)),
            denied_as_given: policy.deny_read.clone(),
            write,
            denied,
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_leads_elsewhere_is_noticed() {
        let folder = tempfile::tempdir().expect("a directory");
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir(at("a")).expect("a directory");
        std::os::unix::fs::symlink("a", at("link")).expect("a link");
        let look = |name: &str| {
            let mut seen = Seen::default();
            let found = seen.resolve(&at(name));
            (seen, found.is_some())
        };
        let (kept, link, missing) = (look("a"), look("link"), look("b/c/d"));
        assert_eq!((kept.1, link.1, missing.1), (true, true, false));
        for (seen, _) in [&kept, &link, &missing] {
            assert!(seen.is_current(), "{seen:?}");
        }
        std::fs::create_dir(at("b")).expect("a directory");
        assert!(kept.0.is_current() && !missing.0.is_current());
        std::fs::rename(at("a"), at("old")).expect("another name");
        std::fs::create_dir(at("a")).expect("another with this name");
        assert!(!kept.0.is_current() && !link.0.is_current());
    }
}
