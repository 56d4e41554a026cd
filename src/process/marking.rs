//! Marking descriptors close-on-exec one by one, where no system call marks them all.

use std::os::fd::RawFd;

/// Marks every descriptor from 3 up to this process's limit, but at most 65,536. Safe between fork
/// and exec.
pub(super) fn mark_one_by_one() {
    // SAFETY: reads a limit and writes it into the local variable.
    let limit = unsafe {
        let mut limit: libc::rlimit = std::mem::zeroed();
        libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit);
        limit.rlim_cur.min(65_536) as RawFd
    };
    for fd in 3..limit {
        // SAFETY: sets a flag of a descriptor that may or may not be open.
        unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) };
    }
}
