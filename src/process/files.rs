//! Files that only their owner may read, opened so that no link and no child gets in
//! between.

use std::ffi::OsStr;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Access, AtFlags, FlockOperation};
use rustix::io::Errno;

/// Why a directory cannot serve as a private one.
#[derive(Debug, thiserror::Error)]
pub enum PrivateDirError {
    /// The system refused.
    #[error("cannot use the directory {path}: {source}")]
    Io {
        /// The directory.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Somebody else could put files there.
    #[error("{path} is writable by everyone: run `chmod o-w {path}` or choose another directory")]
    WorldWritable {
        /// The directory or its parent.
        path: PathBuf,
    },
    /// What is written below it would go elsewhere.
    #[error("{path} is a symbolic link: remove it; to keep files elsewhere, name that directory")]
    Link {
        /// The link.
        path: PathBuf,
    },
}

/// Makes a directory of mode 0700 (with its parents), or checks and mends an existing
/// one. Neither it nor its parent may be writable by everyone; a sticky one further up
/// is fine. It is one that the user names, who may have put a link there.
///
/// # Errors
/// When it cannot be made, is no directory, is another user's link, or others can write to
/// its parent.
pub fn private_dir(path: &Path) -> Result<(), PrivateDirError> {
    let own = [0, rustix::process::geteuid().as_raw()];
    let found = std::fs::symlink_metadata(path);
    if found.is_ok_and(|found| found.is_symlink() && !own.contains(&found.uid())) {
        let path = path.to_path_buf();
        return Err(PrivateDirError::Link { path });
    }
    make_private(path, 0)
}

/// As [`private_dir`], for a directory within one of those, which is never a link.
///
/// # Errors
/// As [`private_dir`], and when it is a link.
pub fn private_subdir(path: &Path) -> Result<(), PrivateDirError> {
    match make_private(path, libc::O_NOFOLLOW) {
        Err(_) if path.is_symlink() => {
            let path = path.to_path_buf();
            Err(PrivateDirError::Link { path })
        }
        made => made,
    }
}

fn make_private(path: &Path, flags: i32) -> Result<(), PrivateDirError> {
    let failed = |source| PrivateDirError::Io {
        path: path.to_path_buf(),
        source,
    };
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(failed)?;
    // The mode is that of what was opened, whatever has the name by then.
    let directory = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_DIRECTORY | libc::O_CLOEXEC | flags)
        .open(path)
        .map_err(failed)?;
    let found = directory.metadata().map_err(failed)?;
    if found.mode() & 0o777 != 0o700 {
        let private = std::fs::Permissions::from_mode(0o700);
        directory.set_permissions(private).map_err(failed)?;
    }
    if let Some(parent) = path.parent() {
        let mode = std::fs::metadata(parent).map_err(failed)?.mode();
        let sticky = mode & 0o1000 != 0;
        if mode & 0o002 != 0 && !sticky {
            return Err(PrivateDirError::WorldWritable {
                path: parent.to_path_buf(),
            });
        }
    }
    Ok(())
}

/// Makes a new file of mode 0600 for reading and writing; one that exists is an error.
///
/// # Errors
/// As `open(2)` with `O_CREAT|O_EXCL|O_NOFOLLOW`.
pub fn create_private(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .mode(0o600)
        .custom_flags(libc::O_NOFOLLOW | libc::O_CLOEXEC)
        .open(path)
}

/// Opens a file for reading, never through a link.
///
/// # Errors
/// As `open(2)`.
pub fn open_private(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_CLOEXEC)
        .open(path)
}

/// Opens a regular file of the user's for reading, through links too; never waits, as
/// opening a pipe would.
///
/// # Errors
/// As `open(2)`; one that is no regular file is an error.
pub fn open_regular(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC)
        .open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::other("it is no regular file")),
    }
}

/// Why a program cannot be run.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoProgram {
    /// Nothing has that name.
    #[error("is not there")]
    Missing,
    /// There is a file, which this user may not run.
    #[error("is not executable: {}", .0.display())]
    NotExecutable(PathBuf),
}

/// Where a program is: a path that is one, or a name in an absolute directory of the
/// search path. A relative one would mean another program in every directory.
pub fn find_program(name: &str, search_path: &OsStr) -> Option<PathBuf> {
    locate_program(name, search_path).ok()
}

/// As [`find_program`], and why there is none. As in a shell, a file that may not be run
/// hides none further down the search path.
///
/// # Errors
/// When there is none, or none that may be run: then the first of those.
pub fn locate_program(name: &str, search_path: &OsStr) -> Result<PathBuf, NoProgram> {
    let is_path = name.contains('/');
    let named = is_path.then(|| PathBuf::from(name));
    let searched = std::env::split_paths(search_path)
        .filter(|directory| !is_path && directory.is_absolute())
        .map(|directory| directory.join(name));
    let mut hindered = NoProgram::Missing;
    for path in named.into_iter().chain(searched) {
        if !path.is_file() {
            continue;
        }
        if is_executable(&path) {
            return Ok(path);
        }
        if hindered == NoProgram::Missing {
            hindered = NoProgram::NotExecutable(path);
        }
    }
    Err(hindered)
}

/// Whether this process may run a file.
fn is_executable(path: &Path) -> bool {
    check_access(path, Access::EXEC_OK).is_ok()
}

/// Whether this process may access what a path names, as `faccessat(2)`.
fn check_access(path: &Path, access: Access) -> rustix::io::Result<()> {
    let ask = |flags| rustix::fs::accessat(rustix::fs::CWD, path, access, flags);
    match ask(AtFlags::EACCESS) {
        // A sandbox that does not know the call with flags refuses it; the older one asks
        // for the real user, who is the effective one but in a program of another's rights.
        Err(Errno::PERM) => ask(AtFlags::empty()),
        answer => answer,
    }
}

/// Opens (or makes) a file of mode 0600 for appending; for logs.
///
/// # Errors
/// As `open(2)`.
pub fn append_private(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .custom_flags(libc::O_NOFOLLOW | libc::O_CLOEXEC)
        .open(path)
}

/// Replaces a file's content by rename, so that a reader sees the old text or the new.
/// Not synced: what is written here may be lost with the machine, never torn.
///
/// # Errors
/// As the calls it is made of; the temporary file is removed then.
pub fn replace_private(path: &Path, content: &[u8]) -> io::Result<()> {
    let temporary = path.with_extension("new");
    let mut file = match create_private(&temporary) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            // Somebody was killed between the two steps.
            std::fs::remove_file(&temporary)?;
            create_private(&temporary)?
        }
        created => created?,
    };
    let written =
        io::Write::write_all(&mut file, content).and_then(|()| std::fs::rename(&temporary, path));
    if written.is_err() {
        let _ = std::fs::remove_file(&temporary);
    }
    written
}

/// Replaces a file's content so that a reader sees the old text or the new, and so that the
/// new one outlives the machine from the moment at which this returns: the temporary file
/// is synced before the rename, the directory after it.
///
/// # Errors
/// As the calls it is made of; the temporary file is removed then.
pub fn replace_durably(path: &Path, content: &[u8]) -> io::Result<()> {
    let temporary = path.with_extension("new");
    match std::fs::remove_file(&temporary) {
        // Somebody was killed between the two steps.
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let mut file = create_private(&temporary)?;
    let replaced = io::Write::write_all(&mut file, content)
        .and_then(|()| file.sync_all())
        .and_then(|()| std::fs::rename(&temporary, path))
        .and_then(|()| path.parent().map_or(Ok(()), sync_directory));
    if replaced.is_err() {
        let _ = std::fs::remove_file(&temporary);
    }
    replaced
}

/// Makes what was created or renamed in a directory outlive the machine.
///
/// # Errors
/// As `fsync(2)`.
pub fn sync_directory(path: &Path) -> io::Result<()> {
    OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_DIRECTORY | libc::O_CLOEXEC)
        .open(path)?
        .sync_all()
}

/// A file that is removed, if it is still there, when this is dropped.
#[derive(Debug)]
pub struct Temporary(pub PathBuf);

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// The lock of a file, held by this process until it is dropped.
///
/// It is given up before the file is closed. Closing it alone would not do where another
/// thread is starting a process: that has a copy of the descriptor, and with it the lock,
/// until it is another program.
#[derive(Debug)]
pub struct FileLock(File);

impl FileLock {
    /// Takes the lock of a file, which is made where it is missing; `None` when somebody
    /// else holds it, or is just asking whether it is held ([`is_locked`]).
    ///
    /// # Errors
    /// When the file cannot be opened.
    pub fn try_take(path: &Path) -> io::Result<Option<FileLock>> {
        Self::try_on(
            append_private(path)?,
            FlockOperation::NonBlockingLockExclusive,
        )
    }

    fn try_on(file: File, operation: FlockOperation) -> io::Result<Option<FileLock>> {
        match rustix::fs::flock(&file, operation) {
            Ok(()) => Ok(Some(FileLock(file))),
            Err(Errno::WOULDBLOCK) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// The file, open for appending.
    pub fn file(&self) -> &File {
        &self.0
    }
}

impl Drop for FileLock {
    fn drop(&mut self) {
        // It can only fail for a descriptor that is none.
        let _ = rustix::fs::flock(&self.0, FlockOperation::Unlock);
    }
}

/// Bytes that this user may still write to the file system of a path.
///
/// # Errors
/// As `statvfs(3)`.
pub fn free_bytes(path: &Path) -> io::Result<u64> {
    let found = rustix::fs::statvfs(path)?;
    Ok(found.f_bavail.saturating_mul(found.f_frsize))
}

/// Whether a path names a directory that this process may work in.
pub fn is_enterable(path: &Path) -> bool {
    path.is_dir() && check_access(path, Access::EXEC_OK).is_ok()
}

/// Whether this process may write to what a path names. The file is not opened: closing
/// it again would give up the locks that this process holds on it.
///
/// # Errors
/// Why it may not, as `faccessat(2)`.
pub fn check_writable(path: &Path) -> io::Result<()> {
    Ok(check_access(path, Access::WRITE_OK)?)
}

/// Whether somebody holds the lock of a file; it is neither made nor changed. Who tries to
/// take the lock in that moment does not get it.
pub fn is_locked(path: &Path) -> bool {
    let Ok(file) = open_private(path) else {
        return false;
    };
    let taken = FileLock::try_on(file, FlockOperation::NonBlockingLockShared);
    matches!(taken, Ok(None))
}

/// 256 random bits of the kernel as lower-case hex digits, for what nobody may guess.
///
/// # Errors
/// When the kernel gives none; nothing weaker takes their place.
pub fn random_secret() -> io::Result<String> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// 8 random lower-case hex digits, from the kernel.
pub fn random_id() -> String {
    let mut bytes = [0; 4];
    if getrandom::fill(&mut bytes).is_err() {
        // Only a kernel that gives none: the clock's low digits differ enough.
        let nanos = std::time::SystemTime::now()
            .duration_since(std::time::SystemTime::UNIX_EPOCH)
            .unwrap_or_default()
            .as_nanos();
        bytes.copy_from_slice(nanos.to_le_bytes().get(..4).unwrap_or(&[0; 4]));
    }
    format!("{:08x}", u32::from_le_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn mode(path: &Path) -> u32 {
        std::fs::metadata(path).unwrap().mode() & 0o777
    }

    #[test]
    fn a_directory_within_a_private_one_is_no_link() {
        let scratch = tempfile::tempdir().unwrap();
        let (elsewhere, link) = (
            scratch.path().join("elsewhere"),
            scratch.path().join("link"),
        );
        std::fs::create_dir(&elsewhere).unwrap();
        std::fs::set_permissions(&elsewhere, PermissionsExt::from_mode(0o755)).unwrap();
        symlink(&elsewhere, &link).unwrap();
        let refused = private_subdir(&link).unwrap_err().to_string();
        assert!(refused.contains("is a symbolic link"), "{refused}");
        assert_eq!(mode(&elsewhere), 0o755);
        symlink(
            scratch.path().join("nowhere"),
            scratch.path().join("dangling"),
        )
        .unwrap();
        let dangling = private_subdir(&scratch.path().join("dangling"));
        assert!(matches!(dangling, Err(PrivateDirError::Link { .. })));
        // The user's own link to the whole is the user's will.
        private_dir(&link).unwrap();
        assert_eq!(mode(&elsewhere), 0o700);
    }

    #[test]
    fn a_private_directory_is_made_and_mended() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("a/b");
        for make in [private_dir, private_subdir] {
            make(&path).unwrap();
            assert_eq!(mode(&path), 0o700);
            std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
        }
        std::fs::write(scratch.path().join("file"), "").unwrap();
        assert!(private_subdir(&scratch.path().join("file")).is_err());
    }
}
