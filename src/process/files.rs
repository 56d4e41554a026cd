//! Files that only their owner may read, opened so that no link is followed and no child
//! inherits them.

use std::ffi::{CString, OsStr};
use std::fs::{DirBuilder, DirEntry, File, Metadata, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{Access, AtFlags, FlockOperation};
use rustix::io::Errno;

use super::removal;
use crate::text::foreign::ShowPath;

/// Why a directory cannot serve as a private one.
#[derive(Debug, thiserror::Error)]
pub enum PrivateDirError {
    #[error("cannot use the directory {path}: {1}", path = .0.shown())]
    Io(PathBuf, #[source] io::Error),
    /// Another user could put files there: the directory or its parent.
    #[error("{path} is writable by everyone: run `chmod o-w {path}` or choose another directory", path = .0.shown())]
    WorldWritable(PathBuf),
    /// Its mode is what all users rely on, such as that of `/tmp`.
    #[error("{path} is for all users: name a directory in it instead", path = .0.shown())]
    Shared(PathBuf),
    /// Its owner could put files there, and read ours.
    #[error(
        "{path} belongs to another user (uid {owner}): remove it, or choose another directory",
        path = .path.shown()
    )]
    OfAnotherUser { path: PathBuf, owner: u32 },
    /// Files would be written elsewhere.
    #[error("{} is a symbolic link: remove it; to keep files elsewhere, name that directory", .0.shown())]
    Link(PathBuf),
}

/// Creates a directory of mode 0700 (with its parents), or checks that an existing one belongs to
/// this user and corrects its mode. Its parent must not be writable by everyone, unless it is sticky.
/// The user names the directory, so it may be a link.
///
/// # Errors
/// It cannot be made, is no directory, belongs to another user or is another user's link, or others
/// can write to its parent.
pub(crate) fn private_dir(path: &Path) -> Result<(), PrivateDirError> {
    let own = [0, rustix::process::geteuid().as_raw()];
    let found = std::fs::symlink_metadata(path);
    if found.is_ok_and(|found| found.is_symlink() && !own.contains(&found.uid())) {
        return Err(PrivateDirError::Link(path.to_path_buf()));
    }
    make_private(path, 0)
}

/// As [`private_dir`], for a directory within one of those, which is never a link.
///
/// # Errors
/// As [`private_dir`], and if it is a link.
pub(crate) fn private_subdir(path: &Path) -> Result<(), PrivateDirError> {
    match make_private(path, libc::O_NOFOLLOW) {
        Err(_) if path.is_symlink() => Err(PrivateDirError::Link(path.to_path_buf())),
        made => made,
    }
}

fn make_private(path: &Path, flags: i32) -> Result<(), PrivateDirError> {
    let failed = |source| PrivateDirError::Io(path.to_path_buf(), source);
    if path.parent().is_some_and(Path::exists) {
        check_parent(path)?;
    }
    DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(failed)?;
    // The mode of the opened directory is set, even if the name leads elsewhere by then.
    let directory = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_DIRECTORY | libc::O_CLOEXEC | flags)
        .open(path)
        .map_err(failed)?;
    let found = directory.metadata().map_err(failed)?;
    check_owner(path, &found)?;
    check_unshared(path, &found)?;
    set_mode(path, &directory, &found, 0o700).map_err(failed)?;
    check_parent(path)
}

/// Checks that no other user can put another directory in the place of this one.
fn check_parent(path: &Path) -> Result<(), PrivateDirError> {
    let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) else {
        return Ok(());
    };
    let failed = |source| PrivateDirError::Io(path.to_path_buf(), source);
    let mode = std::fs::metadata(parent).map_err(failed)?.mode();
    let sticky = mode & 0o1000 != 0;
    if mode & 0o002 != 0 && !sticky {
        return Err(PrivateDirError::WorldWritable(parent.to_path_buf()));
    }
    Ok(())
}

fn check_owner(path: &Path, found: &Metadata) -> Result<(), PrivateDirError> {
    let owner = found.uid();
    if owner == rustix::process::geteuid().as_raw() {
        return Ok(());
    }
    Err(PrivateDirError::OfAnotherUser { path: path.to_path_buf(), owner })
}

/// Checks that a directory is not one that is there for other users too, who would be shut out.
fn check_unshared(path: &Path, found: &Metadata) -> Result<(), PrivateDirError> {
    const STICKY_AND_WRITABLE: u32 = 0o1002;
    let is_sticky = found.mode() & STICKY_AND_WRITABLE == STICKY_AND_WRITABLE;
    let is_root = || std::fs::metadata("/").is_ok_and(|root| is_same(&root, found));
    if is_sticky || is_root() {
        return Err(PrivateDirError::Shared(path.to_path_buf()));
    }
    Ok(())
}

fn is_same(one: &Metadata, other: &Metadata) -> bool {
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

/// Gives a directory this mode, and says so.
fn set_mode(path: &Path, directory: &File, found: &Metadata, mode: u32) -> io::Result<()> {
    let had = found.mode() & 0o777;
    if had != mode {
        directory.set_permissions(std::fs::Permissions::from_mode(mode))?;
        let path = path.shown();
        if had & 0o022 == 0 {
            tracing::warn!("the mode of {path} was {had:03o}, and is {mode:03o} now");
        } else {
            // An error, so that it is said by default: what is in it may be others' work.
            tracing::error!(
                "others could write to {path}: its mode was {had:03o}, and is {mode:03o} now; \
                 look through what is in it"
            );
        }
    }
    Ok(())
}

/// Checks that only this user can put files into an existing directory, which may be a link: it
/// belongs to this user, and takes the right of others to write off it.
///
/// # Errors
/// It belongs to another user, its mode cannot be changed, or others can write to its parent.
pub(crate) fn without_other_writers(path: &Path) -> Result<(), PrivateDirError> {
    let failed = |source| PrivateDirError::Io(path.to_path_buf(), source);
    let directory = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_DIRECTORY | libc::O_CLOEXEC)
        .open(path)
        .map_err(failed)?;
    let found = directory.metadata().map_err(failed)?;
    check_owner(path, &found)?;
    check_unshared(path, &found)?;
    set_mode(path, &directory, &found, found.mode() & 0o755).map_err(failed)?;
    check_parent(path)
}

/// Creates a file of mode 0600 for reading and writing, which must not exist.
///
/// # Errors
/// As `open(2)` with `O_CREAT|O_EXCL|O_NOFOLLOW`.
pub(crate) fn create_private(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .mode(0o600)
        .custom_flags(libc::O_NOFOLLOW | libc::O_CLOEXEC)
        .open(path)
}

/// Creates a named pipe of mode 0600 and opens its reading end, which never blocks and remains
/// usable whether or not it has a writer.
///
/// # Errors
/// As `mkfifo(3)`, which fails if the name exists, and as `open(2)`.
pub(crate) fn create_pipe(path: &Path) -> io::Result<OwnedFd> {
    let name = CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: the name ends with NUL and outlives the call.
    if unsafe { libc::mkfifo(name.as_ptr(), 0o600) } < 0 {
        return Err(io::Error::last_os_error());
    }
    let opened = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_NOFOLLOW | libc::O_CLOEXEC)
        .open(path);
    if opened.is_err() {
        let _ = std::fs::remove_file(path);
    }
    Ok(opened?.into())
}

/// Opens a regular file for reading, never through a link; never waits.
///
/// # Errors
/// As [`open_regular`].
pub(crate) fn open_private(path: &Path) -> io::Result<File> {
    open_only_regular(OpenOptions::new().read(true), path, libc::O_NOFOLLOW)
}

/// Opens a regular file for reading, through links too; never waits, as opening a pipe would.
///
/// # Errors
/// As `open(2)`, and if it is not a regular file.
pub(crate) fn open_regular(path: &Path) -> io::Result<File> {
    open_only_regular(OpenOptions::new().read(true), path, 0)
}

/// The first line of a small text file; `None` if there is none.
pub(crate) fn first_line(path: &Path) -> Option<String> {
    const MAX_BYTES: u64 = 4096;
    let mut text = String::new();
    open_regular(path).ok()?.take(MAX_BYTES).read_to_string(&mut text).ok()?;
    text.lines().next().map(str::to_owned)
}

/// The first bytes of a regular file, at most `max_bytes`, never read through a link.
///
/// # Errors
/// As [`open_private`], and as `read(2)`.
pub(crate) fn read_private(path: &Path, max_bytes: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open_private(path)?.take(max_bytes).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The metadata that changes with a file's content: its modification time in seconds and
/// nanoseconds, its length and its inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileVersion {
    modified: (i64, i64),
    length: u64,
    inode: u64,
}

/// The version of a file, through links.
pub(crate) fn version(path: &Path) -> Option<FileVersion> {
    let found = std::fs::metadata(path).ok()?;
    Some(FileVersion {
        modified: (found.mtime(), found.mtime_nsec()),
        length: found.len(),
        inode: found.ino(),
    })
}

/// Whether this is a regular file of this user that is not empty.
pub(crate) fn is_own_with_content(path: &Path) -> bool {
    let own = rustix::process::geteuid().as_raw();
    let found = std::fs::metadata(path);
    found.is_ok_and(|found| found.is_file() && found.len() > 0 && found.uid() == own)
}

fn open_only_regular(options: &mut OpenOptions, path: &Path, flags: i32) -> io::Result<File> {
    let no_file = || io::Error::other("it is not a regular file");
    let opened = options
        .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY | libc::O_CLOEXEC | flags)
        .open(path);
    let file = opened.map_err(|error| match Errno::from_io_error(&error) {
        // A socket, a pipe without a reader, or a directory opened for writing.
        Some(Errno::NXIO | Errno::ISDIR) => no_file(),
        _ => error,
    })?;
    if !file.metadata()?.is_file() {
        return Err(no_file());
    }
    Ok(file)
}

/// Why a program cannot be run.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NoProgram {
    #[error("was not found")]
    Missing,
    #[error("is not executable: {}", .0.shown())]
    NotExecutable(PathBuf),
    #[error("is a directory: {}", .0.shown())]
    Directory(PathBuf),
}

/// Finds a program: by its path, or by its name in the absolute directories of the search
/// path. A relative directory would mean another program in every working directory. As in a
/// shell, a file that may not be run does not hide one further down the search path.
///
/// # Errors
/// No such program exists, or none that may be run; the error names the first of those.
pub(crate) fn find_program(name: &str, search_path: &OsStr) -> Result<PathBuf, NoProgram> {
    let is_path = name.contains('/');
    let named = is_path.then(|| PathBuf::from(name));
    let searched = std::env::split_paths(search_path)
        .filter(|directory| !is_path && directory.is_absolute())
        .map(|directory| directory.join(name));
    let mut error = NoProgram::Missing;
    if let Some(path) = named.as_ref().filter(|path| path.is_dir()) {
        return Err(NoProgram::Directory(path.clone()));
    }
    let candidates = named.into_iter().chain(searched);
    for path in candidates.filter(|path| path.is_file()) {
        if is_executable(&path) {
            return Ok(path);
        }
        if error == NoProgram::Missing {
            error = NoProgram::NotExecutable(path);
        }
    }
    Err(error)
}

/// A directory of this user's in memory, which no disk keeps: that of the login session, else the
/// system's. `None` if there is neither.
pub(crate) fn volatile_directory() -> Option<PathBuf> {
    let session = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let shared = cfg!(target_os = "linux").then(|| PathBuf::from("/dev/shm"));
    let mut candidates = session.into_iter().chain(shared);
    candidates.find(|path| path.is_absolute() && path.is_dir())
}

/// Whether a path names a file that this process may run.
pub(crate) fn is_program(path: &Path) -> bool {
    path.is_file() && is_executable(path)
}

/// Whether this process may run a file, or enter a directory.
fn is_executable(path: &Path) -> bool {
    check_access(path, Access::EXEC_OK).is_ok()
}

/// Whether this process may access what a path names, as `faccessat(2)`.
fn check_access(path: &Path, access: Access) -> rustix::io::Result<()> {
    let ask = |flags| rustix::fs::accessat(rustix::fs::CWD, path, access, flags);
    match ask(AtFlags::EACCESS) {
        // A sandbox may refuse the call with flags. The older call checks the real user, which is
        // the effective one except in a set-user-ID program.
        Err(Errno::PERM) => ask(AtFlags::empty()),
        answer => answer,
    }
}

/// Opens or creates a regular file of mode 0600 for appending, never through a link; never waits.
///
/// # Errors
/// As [`open_regular`].
pub(crate) fn append_private(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.append(true).create(true).mode(0o600);
    open_only_regular(&mut options, path, libc::O_NOFOLLOW)
}

/// Opens or creates the log that the user names, of mode 0600, for appending; it may be a device.
///
/// # Errors
/// As `open(2)`.
pub(crate) fn append_log(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .custom_flags(libc::O_NOFOLLOW | libc::O_CLOEXEC)
        .open(path)
}

/// Replaces a file's content by rename, so that a reader sees the old text or the new. Not synced:
/// a crash of the machine may lose the new text, but never tears it.
///
/// # Errors
/// As the calls it is made of; the temporary file is removed then.
pub(crate) fn replace_private(path: &Path, content: &[u8]) -> io::Result<()> {
    replace(path, false, |file| file.write_all(content))
}

/// Replaces a file's content by what `write` writes, so that a reader sees the old text or the
/// new, and the new one survives a crash of the machine once this has returned: the temporary
/// file is synced before the rename, the directory after it.
///
/// # Errors
/// As the calls it is made of, and those of `write`; the temporary file is removed then.
pub(crate) fn replace_durably(
    path: &Path,
    write: impl FnOnce(&mut File) -> io::Result<()>,
) -> io::Result<()> {
    replace(path, true, write)
}

fn replace(
    path: &Path,
    durably: bool,
    write: impl FnOnce(&mut File) -> io::Result<()>,
) -> io::Result<()> {
    let temporary = path.with_extension("new");
    let mut file = match create_private(&temporary) {
        // An earlier writer was killed before its rename.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            std::fs::remove_file(&temporary)?;
            create_private(&temporary)?
        }
        created => created?,
    };
    let replaced = write(&mut file).and_then(|()| {
        if durably {
            file.sync_all()?;
        }
        std::fs::rename(&temporary, path)?;
        let directory = path.parent().filter(|_| durably);
        directory.map_or(Ok(()), sync_directory)
    });
    if replaced.is_err() {
        let _ = std::fs::remove_file(&temporary);
    }
    replaced
}

/// The entries of a directory, as far as they can be read.
pub(crate) fn entries(directory: &Path) -> impl Iterator<Item = DirEntry> + use<> {
    std::fs::read_dir(directory).into_iter().flatten().flatten()
}

/// Makes files that were created or renamed in a directory survive a crash of the machine.
///
/// # Errors
/// As `fsync(2)`.
pub(crate) fn sync_directory(path: &Path) -> io::Result<()> {
    OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_DIRECTORY | libc::O_CLOEXEC)
        .open(path)?
        .sync_all()
}

/// A path without links and dots. Its last part need not exist. `None` if nothing is above it.
pub(crate) fn resolved(path: &Path) -> Option<PathBuf> {
    path.canonicalize().ok().or_else(|| {
        let (above, name) = (path.parent()?, path.file_name()?);
        Some(above.canonicalize().ok()?.join(name))
    })
}

/// A path without links and dots. None of its parts need exist. `None` if it is not known where it leads:
/// through a link to what is missing, or up from there.
pub(crate) fn real_path(path: &Path) -> Option<PathBuf> {
    let (above, real) = path.ancestors().find_map(|at| match at.canonicalize() {
        Ok(real) => Some((at, Some(real))),
        Err(_) => at.is_symlink().then_some((at, None)),
    })?;
    let rest = path.strip_prefix(above).ok()?;
    let goes_up = rest.components().any(|part| part == Component::ParentDir);
    let mut real = real.filter(|_| !goes_up)?;
    real.extend(rest);
    Some(real)
}

/// The places that the system looks at on the way to an absolute path: directories, links, and last what
/// they lead to. Those behind a missing one are as they are named.
pub(crate) fn way(path: &Path) -> Vec<PathBuf> {
    /// As many as the kernel follows.
    const MAX_LINKS: usize = 40;
    let mut way = Vec::new();
    let mut links = 0;
    let mut at = PathBuf::from("/");
    let parts = |path: &Path| -> Vec<PathBuf> {
        path.components().rev().map(|part| PathBuf::from(part.as_os_str())).collect()
    };
    let mut ahead = parts(path);
    while let Some(part) = ahead.pop() {
        match part.components().next() {
            Some(Component::Normal(name)) => at.push(name),
            Some(Component::ParentDir) => {
                at.pop();
            }
            Some(Component::RootDir) => at = PathBuf::from("/"),
            _ => continue,
        }
        way.push(at.clone());
        if let Ok(target) = std::fs::read_link(&at)
            && links < MAX_LINKS
        {
            links += 1;
            at.pop();
            ahead.extend(parts(&target));
        }
    }
    way
}

/// Whether this process could read a file or list a directory.
pub(crate) fn is_readable(path: &Path) -> bool {
    rustix::fs::access(path, rustix::fs::Access::READ_OK).is_ok()
}

/// Whether this process could write to a file, or make and remove entries of a directory; whether it
/// could make it and the directories above it, if there is none.
pub(crate) fn is_changeable(path: &Path) -> bool {
    // The kernel lets root open its own files for writing and refuses the write.
    let is_fixed = |data: std::fs::Metadata| data.permissions().readonly();
    if is_of_kernel(path) && path.metadata().is_ok_and(is_fixed) {
        return false;
    }
    let writable = |path: &Path| rustix::fs::access(path, rustix::fs::Access::WRITE_OK);
    match writable(path) {
        Err(rustix::io::Errno::NOENT) => {
            let above = path.ancestors().skip(1).find(|above| above.exists());
            above.is_some_and(|above| writable(above).is_ok())
        }
        tried => tried.is_ok(),
    }
}

/// Whether a path is where the kernel has files of its own.
pub(crate) fn is_of_kernel(path: &Path) -> bool {
    ["/proc", "/sys"].iter().any(|place| path.starts_with(place))
}

/// Whether this process could remove or rename what is at a path, or make something there.
pub(crate) fn is_entry_changeable(path: &Path) -> bool {
    let Some(above) = path.parent() else { return false };
    let is_sticky = above.metadata().is_ok_and(|data| data.mode() & 0o1000 != 0);
    let is_others = || path.symlink_metadata().is_ok() && !is_own(path) && !is_own(above);
    rustix::fs::access(above, Access::WRITE_OK).is_ok() && !(is_sticky && is_others())
}

/// Whether this process could change the mode and the times of what is at a path: it belongs to this
/// user, or this is root.
pub(crate) fn is_own(path: &Path) -> bool {
    let user = rustix::process::geteuid();
    user.is_root() || path.symlink_metadata().is_ok_and(|data| data.uid() == user.as_raw())
}

/// Whether a path names a device.
pub(crate) fn is_device(path: &Path) -> bool {
    use std::os::unix::fs::FileTypeExt;
    let kind = path.metadata().map(|data| data.file_type());
    kind.is_ok_and(|kind| kind.is_char_device() || kind.is_block_device())
}

/// Whether a file or directory has the rights of its owner or group: set-user-ID or set-group-ID.
pub(crate) fn has_set_id(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|data| !data.is_symlink() && data.mode() & 0o6000 != 0)
}

/// Whether a file begins as programs do.
pub(crate) fn is_like_program(path: &Path) -> bool {
    let mut start = Vec::new();
    let read = open_regular(path).and_then(|file| file.take(4).read_to_end(&mut start));
    read.is_ok() && (start.starts_with(b"#!") || start == b"\x7fELF")
}

/// Whether two directories or files are seen through the same mount, so that files can be moved and
/// linked between them.
#[cfg(target_os = "linux")]
pub(crate) fn are_on_one_mount(one: &Path, other: &Path) -> bool {
    use rustix::fs::{CWD, StatxFlags, statx};
    let mount = |path: &Path| {
        let data = statx(CWD, path, AtFlags::SYMLINK_NOFOLLOW, StatxFlags::MNT_ID).ok()?;
        let is_known = data.stx_mask & StatxFlags::MNT_ID.bits() != 0;
        is_known.then_some((data.stx_mnt_id, data.stx_dev_major, data.stx_dev_minor))
    };
    mount(one).is_some_and(|mount_of_one| Some(mount_of_one) == mount(other))
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn are_on_one_mount(one: &Path, other: &Path) -> bool {
    let device = |path: &Path| path.symlink_metadata().ok().map(|data| data.dev());
    device(one).is_some_and(|device_of_one| Some(device_of_one) == device(other))
}

/// A file that is removed, if it is still there, when this is dropped.
#[derive(Debug)]
pub(crate) struct Temporary(pub(crate) PathBuf);

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// A directory that is removed with its content when this is dropped.
#[derive(Debug)]
pub(crate) struct TemporaryDirectory(pub(crate) PathBuf);

impl Drop for TemporaryDirectory {
    fn drop(&mut self) {
        let _ = removal::remove_tree(&self.0);
    }
}

/// The lock of a file, held by this process until it is dropped.
///
/// It is released before the file is closed. Closing alone does not release it while another thread
/// starts a process: until its exec, the child has a copy of the descriptor, and so of the lock.
#[derive(Debug)]
pub(crate) struct FileLock(File);

impl FileLock {
    /// Takes the lock of a file, which is created if it is missing; `None` while another
    /// process or thread holds it, or checks whether it is held ([`is_locked`]).
    ///
    /// # Errors
    /// The file cannot be opened.
    pub(crate) fn try_take(path: &Path) -> io::Result<Option<FileLock>> {
        Self::try_on(append_private(path)?, FlockOperation::NonBlockingLockExclusive)
    }

    fn try_on(file: File, operation: FlockOperation) -> io::Result<Option<FileLock>> {
        match rustix::fs::flock(&file, operation) {
            Ok(()) => Ok(Some(FileLock(file))),
            Err(Errno::WOULDBLOCK) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// The file, open for appending.
    pub(crate) fn file(&self) -> &File {
        &self.0
    }
}

impl Drop for FileLock {
    fn drop(&mut self) {
        // It fails only for an invalid descriptor.
        let _ = rustix::fs::flock(&self.0, FlockOperation::Unlock);
    }
}

/// How many bytes this user may still write to the file system of a path.
///
/// # Errors
/// As `statvfs(3)`.
pub(crate) fn free_bytes(path: &Path) -> io::Result<u64> {
    let found = rustix::fs::statvfs(path)?;
    Ok(found.f_bavail.saturating_mul(found.f_frsize))
}

/// Whether a path names a directory that this process may work in.
pub(crate) fn is_enterable(path: &Path) -> bool {
    path.is_dir() && is_executable(path)
}

/// Whether this process may write to what a path names. Does not open the file: closing it again
/// would give up this process's locks on it.
///
/// # Errors
/// It may not, as `faccessat(2)` reports.
pub(crate) fn check_writable(path: &Path) -> io::Result<()> {
    Ok(check_access(path, Access::WRITE_OK)?)
}

/// Whether the lock of a file is held; the file is neither created nor changed. An attempt to
/// take the lock at the same moment fails.
pub(crate) fn is_locked(path: &Path) -> bool {
    let Ok(file) = open_private(path) else {
        return false;
    };
    let taken = FileLock::try_on(file, FlockOperation::NonBlockingLockShared);
    matches!(taken, Ok(None))
}

/// 256 random bits from the kernel as lower-case hex digits, for what must not be guessed.
///
/// # Errors
/// The kernel provides none; nothing weaker is used instead.
pub(crate) fn random_secret() -> io::Result<String> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// 8 random lower-case hex digits, from the kernel.
pub(crate) fn random_id() -> String {
    let mut bytes = [0; 4];
    if getrandom::fill(&mut bytes).is_err() {
        // Only a kernel without random numbers: the clock's low digits differ enough.
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
        std::fs::metadata(path).unwrap().mode() & 0o7777
    }

    #[test]
    fn a_directory_within_a_private_one_must_not_be_a_link() {
        let scratch = tempfile::tempdir().unwrap();
        let (elsewhere, link) = (scratch.path().join("elsewhere"), scratch.path().join("link"));
        std::fs::create_dir(&elsewhere).unwrap();
        std::fs::set_permissions(&elsewhere, PermissionsExt::from_mode(0o755)).unwrap();
        symlink(&elsewhere, &link).unwrap();
        let refused = private_subdir(&link).unwrap_err().to_string();
        assert!(refused.contains("is a symbolic link"), "{refused}");
        assert_eq!(mode(&elsewhere), 0o755);
        symlink(scratch.path().join("nowhere"), scratch.path().join("dangling")).unwrap();
        let dangling = private_subdir(&scratch.path().join("dangling"));
        assert!(matches!(dangling, Err(PrivateDirError::Link(_))));
        // The user may have made the whole directory a link.
        private_dir(&link).unwrap();
        assert_eq!(mode(&elsewhere), 0o700);
    }

    #[test]
    fn the_way_to_a_path_leads_through_its_links() {
        let scratch = tempfile::tempdir().unwrap();
        let root = scratch.path().canonicalize().unwrap();
        std::fs::create_dir_all(root.join("a/b")).unwrap();
        symlink("a/b", root.join("link")).unwrap();
        symlink(root.join("link"), root.join("a/again")).unwrap();
        symlink("round", root.join("round")).unwrap();
        let places = |path: &str| -> Vec<PathBuf> {
            way(&root.join(path)).into_iter().filter(|at| at.starts_with(&root)).collect()
        };
        let at = |names: &[&str]| -> Vec<PathBuf> {
            names.iter().map(|name| root.join(name).components().collect()).collect()
        };
        assert_eq!(
            places("a/../link/c/d"),
            at(&["", "a", "", "link", "a", "a/b", "a/b/c", "a/b/c/d"])
        );
        let again = ["", "a", "a/again", "", "link", "a", "a/b"];
        assert_eq!(places("a/again"), at(&again));
        assert!(places("round").len() > 1);
    }

    #[test]
    fn a_directory_for_all_users_remains_one() {
        let scratch = tempfile::tempdir().unwrap();
        let shared = PermissionsExt::from_mode(0o1777);
        std::fs::set_permissions(scratch.path(), shared).unwrap();
        for make in [private_dir, private_subdir, without_other_writers] {
            let refused = make(scratch.path());
            assert!(matches!(refused, Err(PrivateDirError::Shared(_))), "{refused:?}");
            assert_eq!(mode(scratch.path()), 0o1777);
        }
        // What is in it can be private.
        private_dir(&scratch.path().join("own")).unwrap();
    }

    #[test]
    fn a_private_directory_is_created_or_corrected() {
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
