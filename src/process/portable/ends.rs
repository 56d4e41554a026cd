//! The ends of processes, without pidfds: signals are sent by pid. The end of an own child is
//! noticed by a thread that waits for it, and on macOS that of other processes by a queue.

use std::io;
use std::os::fd::OwnedFd;

use rustix::io::{Errno, Result};
use rustix::process::{Pid, Signal, WaitOptions};

use crate::process::descriptors::wait_on_thread;
use crate::process::groups;

/// A descriptor for a process: none.
#[cfg(not(target_os = "macos"))]
pub(crate) fn open(_pid: Pid) -> Result<OwnedFd> {
    Err(Errno::NOSYS)
}

/// A queue that becomes readable at the end of a process, of any user.
///
/// # Errors
/// When it has ended, or descriptors have run out.
#[cfg(target_os = "macos")]
pub(crate) fn open(pid: Pid) -> Result<OwnedFd> {
    use super::queue::kqueue;
    use rustix::event::kqueue::{EventFilter, EventFlags, ProcessEvents};
    let queue = kqueue::new()?;
    let filter = EventFilter::Proc { pid, flags: ProcessEvents::EXIT };
    kqueue::add(&queue, filter, EventFlags::empty())?;
    Ok(queue)
}

/// Sends a signal to the process of a descriptor.
pub(crate) fn send(_pidfd: &OwnedFd, _signal: Signal) -> Result<()> {
    Err(Errno::NOSYS)
}

/// A descriptor that becomes readable at the end of an own child, whose group is recorded. By
/// a thread on macOS as well: there NOTE_EXIT comes before the child can be waited for, and
/// NOTE_EXITSTATUS tells nothing that the wait does not.
///
/// # Errors
/// When there is no descriptor or no thread to be had.
pub(crate) fn watch(child: Pid) -> io::Result<OwnedFd> {
    let ended = wait_on_thread(child)?;
    groups::begun(child);
    #[cfg(target_os = "macos")]
    super::lineage::follow(child);
    Ok(ended)
}

/// Takes an ended child out of the process table.
pub(crate) fn reap(child: Pid) {
    let _ = rustix::process::waitpid(Some(child), WaitOptions::empty());
    groups::reaped(child);
}
