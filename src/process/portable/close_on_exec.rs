//! Descriptors that no child inherits, where they cannot be opened close-on-exec: a child
//! marks all of its descriptors before its exec.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};

use rustix::fs::OFlags;
use rustix::io::FdFlags;

use crate::process::marking::mark_one_by_one;

/// Marks every descriptor from 3 upwards, so that nothing the client left open reaches a
/// command.
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

/// Marks all descriptors that a child has, between fork and exec; those that it is to keep
/// are put in their place after it.
pub(crate) fn mark_in_child() {
    mark_one_by_one();
}

/// How many bytes a pipe holds; 0 if that is not known.
pub(crate) fn pipe_size(_pipe: &OwnedFd) -> usize {
    // pipe(7) of Linux.
    if cfg!(target_os = "linux") { 64 * 1024 } else { 0 }
}
