//! The ends of processes, by pidfd: a descriptor that refers to a process, so that a signal
//! sent by it reaches that process or none. It becomes readable at the end of the process.

use std::io;
use std::os::fd::OwnedFd;

use rustix::io::{Errno, Result};
use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions};

use crate::process::descriptors::wait_on_thread;

/// A descriptor for the process that has this pid now.
///
/// # Errors
/// When there is none, the kernel is too old, or descriptors have run out.
pub(crate) fn open(pid: Pid) -> Result<OwnedFd> {
    rustix::process::pidfd_open(pid, PidfdFlags::empty())
}

/// Sends a signal to the process of a descriptor.
///
/// # Errors
/// When the process is gone or another user's.
pub(crate) fn send(pidfd: &OwnedFd, signal: Signal) -> Result<()> {
    rustix::process::pidfd_send_signal(pidfd, signal)
}

/// A descriptor that becomes readable at the end of an own child.
///
/// # Errors
/// When there is no descriptor to be had.
pub(crate) fn watch(child: Pid) -> io::Result<OwnedFd> {
    match open(child) {
        Err(error @ (Errno::MFILE | Errno::NFILE | Errno::NOMEM)) => Err(error.into()),
        // The kernel is too old, or a sandbox refuses what it does not know, each with an
        // error of its own choice.
        Err(_) => wait_on_thread(child),
        Ok(pidfd) => Ok(pidfd),
    }
}

/// Takes an ended child out of the process table.
pub(crate) fn reap(child: Pid) {
    let _ = rustix::process::waitpid(Some(child), WaitOptions::empty());
}
