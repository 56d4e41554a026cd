//! The ends of processes, without pidfds: signals are sent by pid. A thread waits for each child of
//! this process; on macOS a queue reports the ends of other processes.

use std::io;
use std::os::fd::OwnedFd;

use rustix::io::{Errno, Result};
use rustix::process::{Pid, Signal, WaitOptions};

use crate::process::descriptors::wait_on_thread;
use crate::process::groups;
use crate::progress::cost::Account;

/// Always fails with `ENOSYS`: there are no descriptors for processes.
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

/// Returns a descriptor that becomes readable when a child of this process ends, and records the
/// child's process group. A thread waits for the child, on macOS too: there NOTE_EXIT comes before
/// the child can be waited for, and NOTE_EXITSTATUS adds nothing to what `waitpid` returns.
///
/// # Errors
/// When no descriptor or thread is available.
pub(crate) fn watch(child: Pid) -> io::Result<OwnedFd> {
    let ended = wait_on_thread(child)?;
    groups::begun(child);
    #[cfg(target_os = "macos")]
    super::lineage::follow(child);
    Ok(ended)
}

/// The account of an ended child: not known before it is reaped.
pub(crate) fn account(_child: Pid) -> Option<Account> {
    None
}

/// Takes an ended child out of the process table.
pub(crate) fn reap(child: Pid) {
    let _ = rustix::process::waitpid(Some(child), WaitOptions::empty());
    groups::reaped(child);
}
