//! Removal of directories that commands have written to: of any depth, and closed ones too.
//!
//! Links are not followed. What is below a directory is moved up before it is removed, so neither the
//! stack nor the number of descriptors grows with the depth.
//!
//! Limits: file systems that are mounted inside remain, and what is above them.

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Dir, Mode, OFlags, openat, renameat, unlinkat};
use rustix::io::{Errno, Result};

/// How many levels there may be, so that this ends although a process adds more all the time.
const MAX_LEVELS: usize = 100_000;

/// Removes a directory with its content.
///
/// # Errors
/// A part of it belongs to another user, is mounted or is in use; the rest is removed.
pub(crate) fn remove_tree(path: &Path) -> std::io::Result<()> {
    let name = CString::new(path.as_os_str().as_encoded_bytes())?;
    let root = open(CWD, &name)?;
    let mut moved = 0;
    for _ in 0..MAX_LEVELS {
        let names = names(&root)?;
        if names.is_empty() {
            return Ok(unlinkat(CWD, &name, AtFlags::REMOVEDIR)?);
        }
        let removed: Vec<Result<()>> =
            names.iter().map(|name| remove_one(&root, name, &mut moved)).collect();
        if removed.iter().all(Result::is_err) {
            return removed.into_iter().collect::<Result<()>>().map_err(Into::into);
        }
    }
    Err(Errno::NOTEMPTY.into())
}

/// Removes an entry of `root`, of which the directories inside of it become entries.
fn remove_one(root: &OwnedFd, name: &CStr, moved: &mut u64) -> Result<()> {
    if is_removed(root, name)? {
        return Ok(());
    }
    let directory = open(root, name)?;
    for inner in names(&directory)? {
        if is_removed(&directory, &inner)? {
            continue;
        }
        // Where it is, is a change of the directory itself.
        make_own(&directory, &inner);
        loop {
            *moved += 1;
            match renameat(&directory, &inner, root, moved.to_string()) {
                Err(Errno::NOTEMPTY | Errno::EXIST | Errno::NOTDIR) => {}
                renamed => break renamed?,
            }
        }
    }
    unlinkat(root, name, AtFlags::REMOVEDIR)
}

/// Removes an entry, unless it is a directory that is not empty.
fn is_removed(directory: &OwnedFd, name: &CStr) -> Result<bool> {
    match unlinkat(directory, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => return Ok(true),
        // What systems say of a directory.
        Err(Errno::ISDIR | Errno::PERM) => {}
        Err(error) => return Err(error),
    }
    match unlinkat(directory, name, AtFlags::REMOVEDIR) {
        Ok(()) | Err(Errno::NOENT) => Ok(true),
        Err(Errno::NOTEMPTY | Errno::EXIST) => Ok(false),
        Err(Errno::NOTDIR) => Err(Errno::PERM),
        Err(error) => Err(error),
    }
}

/// Opens a directory, in which everything can be changed then if it belongs to this user.
fn open(directory: impl AsFd, name: &CStr) -> Result<OwnedFd> {
    make_own(&directory, name);
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(&directory, name, flags, Mode::empty())
}

/// Lets this user read and change a directory that it has closed.
fn make_own(directory: impl AsFd, name: &CStr) {
    let (directory, flags) = (directory.as_fd().as_raw_fd(), libc::AT_SYMLINK_NOFOLLOW);
    // A directory of another user's remains as it is, and the removal fails.
    // SAFETY: the name ends with NUL.
    unsafe { libc::fchmodat(directory, name.as_ptr(), libc::S_IRWXU, flags) };
}

fn names(directory: &OwnedFd) -> Result<Vec<CString>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(directory)? {
        let name = entry?.file_name().to_owned();
        if !matches!(name.to_bytes(), b"." | b"..") {
            names.push(name);
        }
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn a_deep_tree_is_removed_and_nothing_outside() {
        const LEVELS: usize = 5000;
        let folder = tempfile::tempdir().expect("a directory");
        let (tree, outside) = (folder.path().join("tree"), folder.path().join("outside"));
        for directory in [&tree, &outside] {
            fs::create_dir(directory).expect("a directory");
            fs::write(directory.join("file"), "").expect("a file");
        }
        symlink(&outside, tree.join("link")).expect("a link");
        let mut at =
            open(CWD, &CString::new(tree.as_os_str().as_encoded_bytes()).unwrap()).unwrap();
        for _ in 0..LEVELS {
            rustix::fs::mkdirat(&at, "1", Mode::RWXU).expect("a directory");
            rustix::fs::symlinkat("/", &at, "2").expect("a link");
            at = open(&at, c"1").expect("the directory");
        }
        remove_tree(&tree).expect("it is removed");
        assert!(!tree.exists() && outside.join("file").exists());
    }

    #[test]
    fn closed_directories_are_removed() {
        let folder = tempfile::tempdir().expect("a directory");
        let tree = folder.path().join("tree");
        fs::create_dir_all(tree.join("a/b/c")).expect("a directory");
        for path in ["a/b/c", "a/b", "a", ""] {
            let closed = fs::Permissions::from_mode(0o500);
            fs::set_permissions(tree.join(path), closed).expect("its mode");
        }
        remove_tree(&tree).expect("it is removed");
        assert!(!tree.exists());
    }
}
