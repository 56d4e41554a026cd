//! The ends of processes, without descriptors that stand for them: signals go by pid, and of
//! own children alone the end is learnt at once, by a thread that waits for it.

use std::io;
use std::os::fd::OwnedFd;

use rustix::io::{Errno, Result};
use rustix::process::{Pid, Signal, WaitOptions};

use crate::process::descriptors::wait_on_thread;
use crate::process::groups;

/// A descriptor for a process.
///
/// # Errors
/// Always.
pub fn open(_pid: Pid) -> Result<OwnedFd> {
    Err(Errno::NOSYS)
}

/// Sends a signal to whom a descriptor stands for.
///
/// # Errors
/// Always.
pub fn send(_pidfd: &OwnedFd, _signal: Signal) -> Result<()> {
    Err(Errno::NOSYS)
}

/// What becomes readable at the end of an own child. From now on its group is remembered.
///
/// # Errors
/// When there is no descriptor or no thread to be had.
pub fn watch(child: Pid) -> io::Result<OwnedFd> {
    let ended = wait_on_thread(child)?;
    groups::begun(child);
    Ok(ended)
}

/// Takes an ended child out of the process table.
pub fn reap(child: Pid) {
    let _ = rustix::process::waitpid(Some(child), WaitOptions::empty());
    groups::reaped(child);
}
