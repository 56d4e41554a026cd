//! Noticing the end of a child without releasing its pid too early.
//!
//! The end is seen first (`WNOWAIT`) and the child reaped later, by the same thread:
//! until then its pid cannot be used again, nor the process group and the session of that
//! number, so that signals cannot go astray.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicI32, Ordering};

use rustix::process::{Pid, WaitOptions};

use super::ends;
use super::kill::Undelivered;
use super::signals::{Exit, Signal};
use crate::progress::cost::Account;

/// The pids of children that threads wait for, in no order; 0 is a free place. A fixed number, for
/// a signal handler to read; children beyond it only cost needless wake-ups.
static WATCHED: [AtomicI32; 256] = [const { AtomicI32::new(0) }; 256];

fn replace_watched(pid: i32, by: i32) {
    for place in &WATCHED {
        if place.compare_exchange(pid, by, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            return;
        }
    }
}

/// Whether a thread waits for this child. May be called in a signal handler.
// Unused where no orphans are adopted.
#[cfg_attr(any(not(target_os = "linux"), feature = "portable"), allow(dead_code))]
pub(super) fn is_watched(pid: i32) -> bool {
    WATCHED.iter().any(|place| place.load(Ordering::Relaxed) == pid)
}

/// A child of this process, watched by the thread that started it.
#[derive(Debug)]
pub(crate) struct Child {
    pid: Pid,
    /// Readable at its end.
    ended: OwnedFd,
    reaped: bool,
}

impl Child {
    /// Takes charge of a child that this thread has just started.
    ///
    /// # Errors
    /// Neither a pidfd nor a thread in its place is available: the child cannot be watched, so it
    /// is killed.
    pub(crate) fn adopt(pid: i32) -> io::Result<Child> {
        let pid = Pid::from_raw(pid).ok_or_else(|| io::Error::other("the child has no pid"))?;
        match ends::watch(pid) {
            Ok(ended) => {
                replace_watched(0, pid.as_raw_nonzero().get());
                Ok(Child { pid, ended, reaped: false })
            }
            Err(error) => {
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
                let _ = rustix::process::waitpid(Some(pid), WaitOptions::empty());
                Err(error)
            }
        }
    }

    pub(crate) fn pid(&self) -> i32 {
        self.pid.as_raw_nonzero().get()
    }

    /// Readable once the child has ended.
    pub(crate) fn ended(&self) -> BorrowedFd<'_> {
        self.ended.as_fd()
    }

    /// How the child ended, if it has; it stays a zombie.
    pub(crate) fn peek_exit(&self) -> Option<Exit> {
        // `rustix` passes uninitialized memory. qemu's user-mode emulation does not write to it
        // while the child lives, so that the end of an earlier child would be read there.
        // SAFETY: zeros are a valid value of this C struct.
        let mut end = unsafe { std::mem::zeroed::<libc::siginfo_t>() };
        let options = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
        // SAFETY: writes to `end` only.
        let called =
            unsafe { libc::waitid(libc::P_PID, self.pid().unsigned_abs(), &raw mut end, options) };
        // SAFETY: the fields of a child's end were written, or are zero.
        let (pid, status) = unsafe { (end.si_pid(), end.si_status()) };
        if called != 0 || pid != self.pid() {
            return None;
        }
        Some(match end.si_code {
            libc::CLD_EXITED => Exit::Code(status),
            _ => Exit::Signal(status),
        })
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.reaped || self.peek_exit().is_some()
    }

    /// What the ended child has used, and the children that it has waited for; `None` before its
    /// end, and where the system does not tell.
    pub(crate) fn account(&self) -> Option<Account> {
        if self.reaped { None } else { ends::account(self.pid) }
    }

    /// Sends a signal to the child only; does not need `/proc`.
    ///
    /// # Errors
    /// The child has been reaped, or has become another user's.
    pub(crate) fn signal(&self, signal: Signal) -> Result<(), Undelivered> {
        if self.reaped {
            return Err(Undelivered::Gone);
        }
        Ok(rustix::process::kill_process(self.pid, signal.raw())?)
    }

    /// Sends a signal to the process group that the child leads, even after its end.
    ///
    /// # Errors
    /// The child has been reaped, or its whole group belongs to another user.
    pub(crate) fn signal_group(&self, signal: Signal) -> Result<(), Undelivered> {
        if self.reaped {
            return Err(Undelivered::Gone);
        }
        Ok(rustix::process::kill_process_group(self.pid, signal.raw())?)
    }

    /// Reaps the ended child.
    pub(crate) fn reap(&mut self) {
        if !self.reaped {
            // The child has ended, so this does not block. No other code reaps it, so this does not
            // fail.
            ends::reap(self.pid);
            self.reaped = true;
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if !self.reaped && self.peek_exit().is_some() {
            self.reap();
        }
        replace_watched(self.pid(), 0);
    }
}

/// Checks whether the kernel has pidfds.
///
/// # Errors
/// The kernel is too old, or a sandbox refuses the call.
pub(crate) fn pidfds_work() -> io::Result<()> {
    ends::open(rustix::process::getpid())?;
    Ok(())
}
