//! The ends of processes, by pidfd: a descriptor that refers to a process, so that a signal
//! sent by it reaches that process or none. It becomes readable at the end of the process.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::io::{Errno, Result};
use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions};

use crate::process::descriptors::wait_on_thread;
use crate::process::memory;
use crate::progress::cost::{Account, CpuTime};

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

/// The account of an ended child, which stays a zombie.
pub(crate) fn account(child: Pid) -> Option<Account> {
    // SAFETY: zeros are a valid value of this C struct.
    let mut usage = unsafe { std::mem::zeroed::<libc::rusage>() };
    let options = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
    let pid = child.as_raw_nonzero().get();
    // The C library's function does not pass on the fifth argument of the call.
    // SAFETY: writes to `usage` only.
    let called = unsafe {
        libc::syscall(
            libc::SYS_waitid,
            libc::P_PID,
            pid,
            std::ptr::null_mut::<libc::siginfo_t>(),
            options,
            &raw mut usage,
        )
    };
    if called != 0 {
        return None;
    }
    let time = |time: libc::timeval| {
        let micros = u64::try_from(time.tv_usec).unwrap_or_default();
        Duration::from_secs(u64::try_from(time.tv_sec).unwrap_or_default())
            + Duration::from_micros(micros)
    };
    let largest = u64::try_from(usage.ru_maxrss).unwrap_or_default().saturating_mul(1024);
    Some(Account {
        cpu: CpuTime { user: time(usage.ru_utime), system: time(usage.ru_stime) },
        // The child began in this process's memory, so that the kernel counts no less for it.
        largest: Some(largest).filter(|largest| memory::is_above_highest(*largest)),
    })
}

/// Reaps an ended child.
pub(crate) fn reap(child: Pid) {
    let _ = rustix::process::waitpid(Some(child), WaitOptions::empty());
}
