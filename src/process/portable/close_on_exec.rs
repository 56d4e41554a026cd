//! Descriptors that no child inherits, where they cannot be opened close-on-exec: a child
//! marks all of its descriptors before its exec. And how many there may be.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::OnceLock;

use rustix::fs::OFlags;
use rustix::io::FdFlags;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::process::marking::mark_one_by_one;

/// Marks every descriptor from 3 upwards, so that no command gets one that the client left open.
pub(crate) fn mark_inherited() {
    mark_one_by_one();
}

/// Copies a descriptor to a number of this process's.
///
/// # Errors
/// As `dup2(2)`.
///
/// # Safety
/// Whatever owned the number before must use it no more.
pub(crate) unsafe fn copy_to(fd: BorrowedFd, number: RawFd) -> io::Result<()> {
    // SAFETY: the number is unused, as the caller has promised.
    let copied = unsafe { libc::dup2(fd.as_raw_fd(), number) };
    // SAFETY: sets a flag of the descriptor just made.
    if copied < 0 || unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// A pipe.
///
/// # Errors
/// When descriptors have run out.
pub(crate) fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let (read, write) = rustix::pipe::pipe()?;
    for end in [&read, &write] {
        rustix::io::fcntl_setfd(end, FdFlags::CLOEXEC)?;
    }
    Ok((read, write))
}

/// A pipe whose ends do not block.
///
/// # Errors
/// When descriptors have run out.
pub(crate) fn pipe_without_waiting() -> io::Result<(OwnedFd, OwnedFd)> {
    let (read, write) = pipe()?;
    for end in [&read, &write] {
        rustix::fs::fcntl_setfl(end, rustix::fs::fcntl_getfl(end)? | OFlags::NONBLOCK)?;
    }
    Ok((read, write))
}

/// Pipes keep the size that the system gives them.
pub(crate) fn widen_pipe(_fd: &OwnedFd, _bytes: usize) {}

/// In a child between fork and exec: marks all its descriptors, and restores the limit that this
/// process started with. The descriptors that the child is to keep are installed afterwards.
pub(crate) fn mark_in_child() {
    mark_one_by_one();
    restore_descriptor_limit();
}

/// In a child between fork and exec: restores the limit that this process started with.
pub(crate) fn restore_descriptor_limit() {
    if let Some(before) = LIMIT_BEFORE.get() {
        let _ = setrlimit(Resource::Nofile, *before);
    }
}

/// The limit of this process when it started, if it was raised.
static LIMIT_BEFORE: OnceLock<Rlimit> = OnceLock::new();

/// Raises this process's limit of descriptors above macOS's default of 256, if allowed. Commands
/// keep the old limit: programs that use `select(2)` fail with large numbers.
pub(crate) fn raise_descriptor_limit() {
    /// Enough for the most tasks at once; each child marks all of them.
    const WANTED: u64 = 4096;
    let before = getrlimit(Resource::Nofile);
    let wanted = before.maximum.map_or(WANTED, |most| most.min(WANTED));
    let raised = Rlimit { current: Some(wanted), ..before };
    if before.current.is_some_and(|current| current < wanted)
        && setrlimit(Resource::Nofile, raised).is_ok()
    {
        let _ = LIMIT_BEFORE.set(before);
    }
}

/// How many bytes a pipe holds; 0 if that is not known.
pub(crate) fn pipe_size(_pipe: &OwnedFd) -> usize {
    // pipe(7) of Linux.
    if cfg!(target_os = "linux") { 64 * 1024 } else { 0 }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt;
    use std::process::Command;

    use super::*;

    #[test]
    fn the_limit_is_raised_and_a_child_has_the_one_before() {
        // In a process of its own, since the limit is the process's.
        let mut child = Command::new("sh");
        child.args(["-c", "ulimit -n"]);
        // SAFETY: only system calls between fork and exec.
        unsafe {
            child.pre_exec(|| {
                let before = getrlimit(Resource::Nofile);
                setrlimit(Resource::Nofile, Rlimit { current: Some(256), ..before })?;
                raise_descriptor_limit();
                match getrlimit(Resource::Nofile).current {
                    Some(4096) => restore_descriptor_limit(),
                    _ => return Err(io::Error::from_raw_os_error(libc::EDOM)),
                }
                Ok(())
            });
        }
        let output = child.output().expect("the limit was raised");
        assert_eq!(String::from_utf8_lossy(&output.stdout), "256\n");
    }
}
