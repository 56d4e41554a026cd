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
/// No process has it, the kernel is too old, or no descriptor is free.
pub(crate) fn open(pid: Pid) -> Result<OwnedFd> {
    rustix::process::pidfd_open(pid, PidfdFlags::empty())
}

/// Sends a signal to the process that a descriptor refers to.
///
/// # Errors
/// When the process is gone or another user's.
pub(crate) fn send(pidfd: &OwnedFd, signal: Signal) -> Result<()> {
    rustix::process::pidfd_send_signal(pidfd, signal)
}

/// A descriptor that becomes readable when a child of this process ends.
///
/// # Errors
/// No descriptor is free.
pub(crate) fn watch(child: Pid) -> io::Result<OwnedFd> {
    match open(child) {
        Err(error @ (Errno::MFILE | Errno::NFILE | Errno::NOMEM)) => Err(error.into()),
        // The kernel is too old, or a sandbox refuses the call; which error it gives varies.
        Err(_) => wait_on_thread(child),
        Ok(pidfd) => Ok(pidfd),
    }
}

/// Reaps an ended child.
pub(crate) fn reap(child: Pid) {
    let _ = rustix::process::waitpid(Some(child), WaitOptions::empty());
}
