//! The ends of processes, without pidfds: signals are sent by pid, and only the end of own
//! children is noticed at once, by a thread that waits for it.

use std::io;
use std::os::fd::OwnedFd;

use rustix::io::{Errno, Result};
use rustix::process::{Pid, Signal, WaitOptions};

use crate::process::descriptors::wait_on_thread;
use crate::process::groups;

/// A descriptor for a process.
pub(crate) fn open(_pid: Pid) -> Result<OwnedFd> {
    Err(Errno::NOSYS)
}

/// Sends a signal to the process of a descriptor.
pub(crate) fn send(_pidfd: &OwnedFd, _signal: Signal) -> Result<()> {
    Err(Errno::NOSYS)
}

/// A descriptor that becomes readable at the end of an own child, whose group is recorded.
///
/// # Errors
/// When there is no descriptor or no thread to be had.
pub(crate) fn watch(child: Pid) -> io::Result<OwnedFd> {
    let ended = wait_on_thread(child)?;
    groups::begun(child);
    Ok(ended)
}

/// Takes an ended child out of the process table.
pub(crate) fn reap(child: Pid) {
    let _ = rustix::process::waitpid(Some(child), WaitOptions::empty());
    groups::reaped(child);
}
