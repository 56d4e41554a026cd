//! What was found at paths, and whether it still is there.

use std::collections::BTreeMap;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// A file's device, inode and birth. Another file can get the number of one that was removed.
type Identity = (u64, u64, Option<SystemTime>);

fn identity(path: &Path) -> Option<Identity> {
    let data = std::fs::metadata(path).ok()?;
    Some((data.dev(), data.ino(), data.created().ok()))
}

/// Changes with a directory's entries: its device, inode and the time of its change, which no program
/// can set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Version(u64, u64, Duration);

impl Version {
    /// `None` if there is no such directory, or if it has just changed: times are as coarse as a tick,
    /// so a further change may give it the same.
    pub(super) fn read(directory: &Path) -> Option<Version> {
        const SETTLED: Duration = Duration::from_millis(20);
        // Some file systems keep seconds, and FAT every other of them.
        const SETTLED_IN_SECONDS: Duration = Duration::from_secs(3);
        let data = std::fs::metadata(directory).ok()?;
        let seconds = u64::try_from(data.ctime()).ok()?;
        let changed = Duration::new(seconds, u32::try_from(data.ctime_nsec()).ok()?);
        let settled = if changed.subsec_nanos() == 0 { SETTLED_IN_SECONDS } else { SETTLED };
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).ok()?;
        let is_settled = now.checked_sub(changed).is_some_and(|age| age > settled);
        is_settled.then(|| Version(data.dev(), data.ino(), changed))
    }

    /// Whether the directory has this version, and no unknown one.
    pub(super) fn is_of(version: Option<Version>, directory: &Path) -> bool {
        version.is_some() && version == Version::read(directory)
    }
}

/// What was found at paths.
#[derive(Debug, Default)]
pub(super) struct Seen(BTreeMap<PathBuf, Entries>);

/// What was found in one directory.
#[derive(Debug, Default)]
struct Entries {
    version: Option<Version>,
    /// Whether all of its entries count.
    is_listed: bool,
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

    /// The directories in this one. More of them count as a change.
    pub(super) fn directories(&mut self, above: &Path) -> Vec<PathBuf> {
        let new = || Entries { version: Version::read(above), ..Entries::default() };
        self.0.entry(above.to_path_buf()).or_insert_with(new).is_listed = true;
        let entries = std::fs::read_dir(above).into_iter().flatten().flatten();
        let is_one = |kind: io::Result<std::fs::FileType>| kind.is_ok_and(|kind| kind.is_dir());
        entries.filter(|entry| is_one(entry.file_type())).map(|entry| entry.path()).collect()
    }

    /// What is at many paths, without links.
    pub(super) fn resolve_all(&mut self, given: &[PathBuf]) -> Vec<PathBuf> {
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
        self.0.iter().all(|(directory, Entries { version, is_listed, found })| {
            // Entries are compared only if some have changed.
            Version::is_of(*version, directory)
                || !is_listed && found.iter().all(|(path, found)| identity(path) == *found)
        })
    }
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
