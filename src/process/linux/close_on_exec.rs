//! Descriptors that no child inherits. Each is opened close-on-exec, so that no child that another
//! thread is just starting gets it.

use std::io;
use std::os::fd::OwnedFd;

use rustix::pipe::PipeFlags;

use crate::process::marking::mark_one_by_one;

/// Does nothing: this process leaves its limit of descriptors as it found it.
pub(crate) fn restore_descriptor_limit() {}

/// Marks every descriptor from 3 upwards, so that no command gets one that the client left open.
pub(crate) fn mark_inherited() {
    // SAFETY: close_range with CLOEXEC only changes flags; it closes nothing, so no owner of a
    // descriptor is affected.
    let marked =
        unsafe { libc::syscall(libc::SYS_close_range, 3, u32::MAX, libc::CLOSE_RANGE_CLOEXEC) };
    if marked != 0 {
        // Before Linux 5.11 there is no CLOSE_RANGE_CLOEXEC.
        mark_one_by_one();
    }
}

/// A pipe.
///
/// # Errors
/// When descriptors have run out.
pub(crate) fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?)
}

/// A pipe whose ends do not block.
///
/// # Errors
/// When descriptors have run out.
pub(crate) fn pipe_without_waiting() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(rustix::pipe::pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?)
}

/// Asks for a larger pipe, so that a flood of output takes fewer reads. The kernel may refuse,
/// which costs speed only.
pub(crate) fn widen_pipe(fd: &OwnedFd, bytes: usize) {
    let _ = rustix::pipe::fcntl_setpipe_size(fd, bytes);
}

/// Does nothing: every descriptor was opened close-on-exec.
pub(crate) fn mark_in_child() {}

/// How many bytes a pipe holds; 0 if that is not known.
pub(crate) fn pipe_size(pipe: &OwnedFd) -> usize {
    rustix::pipe::fcntl_getpipe_size(pipe).unwrap_or_default()
}
