//! Descriptors that no child inherits. Each is made so in the step that makes it, so that
//! none gets into a child that another thread is just starting.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};

use rustix::pipe::PipeFlags;

use crate::process::marking::mark_one_by_one;

/// Marks every descriptor from 3 upwards that this process was started with.
pub fn mark_inherited() {
    // SAFETY: close_range with CLOEXEC changes flags only; it closes nothing, so no
    // owner of a descriptor is affected.
    let marked = unsafe {
        libc::syscall(
            libc::SYS_close_range,
            3,
            u32::MAX,
            libc::CLOSE_RANGE_CLOEXEC,
        )
    };
    if marked != 0 {
        // Before Linux 5.11 there is no CLOSE_RANGE_CLOEXEC.
        mark_one_by_one();
    }
}

/// Copies a descriptor to a number of this process's.
///
/// # Errors
/// As `dup3(2)`.
///
/// # Safety
/// Whatever owned the number before must use it no more.
pub unsafe fn copy_to(fd: BorrowedFd, number: RawFd) -> io::Result<()> {
    // SAFETY: nobody uses the number, as the caller has promised.
    match unsafe { libc::dup3(fd.as_raw_fd(), number, libc::O_CLOEXEC) } {
        copied if copied < 0 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// A pipe.
///
/// # Errors
/// When descriptors have run out.
pub fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?)
}

/// A pipe whose ends do not wait.
///
/// # Errors
/// When descriptors have run out.
pub fn pipe_without_waiting() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(rustix::pipe::pipe_with(
        PipeFlags::CLOEXEC | PipeFlags::NONBLOCK,
    )?)
}

/// Asks for a larger pipe, so that a flood needs fewer turns of its reader; the kernel
/// may refuse, which costs speed only.
pub fn widen_pipe(fd: &OwnedFd, bytes: usize) {
    let _ = rustix::pipe::fcntl_setpipe_size(fd, bytes);
}

/// What is left to do in a child between fork and exec: nothing, since nobody can have
/// left a descriptor unmarked.
pub fn mark_in_child() {}
