//! Signals that reach only the intended process.
//!
//! Where there are pidfds, one is opened first and the start time compared afterwards: from then on
//! it refers to that process or to none. A process group is signalled right after one of its
//! members was seen in it: its number is not reused while it has members.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::Pid;

use super::descriptors::{self, Interest, Poller};
use super::ends;
use super::signals::Signal;
use super::terminate::Target;
use super::tree::{self, Identity, ProcessInfo};

/// Why a signal did not arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Undelivered {
    /// The process is gone already.
    Gone,
    /// It belongs to another user.
    NotPermitted,
}

/// A process to signal and to wait for.
#[derive(Debug)]
pub(crate) struct Handle {
    pub(crate) id: Identity,
    pidfd: Option<OwnedFd>,
}

impl Handle {
    /// Opens a process, if its start time still matches.
    ///
    /// # Errors
    /// [`Undelivered::Gone`] if it does not.
    pub(crate) fn open(id: Identity) -> Result<Handle, Undelivered> {
        let pid = Pid::from_raw(id.pid).ok_or(Undelivered::Gone)?;
        let pidfd = match ends::open(pid) {
            // A large tree must not use up the descriptors that scans need.
            Ok(fd) => Some(fd).filter(descriptors::leaves_room),
            Err(Errno::SRCH) => return Err(Undelivered::Gone),
            // This system has no pidfds, or no descriptor is free: signal by pid, which is checked
            // below.
            Err(_) => None,
        };
        match tree::look_up(id.pid) {
            Some(found) if found.id == id && !found.zombie => Ok(Handle { id, pidfd }),
            _ => Err(Undelivered::Gone),
        }
    }

    /// Becomes readable when the process has ended; `None` where the system has no
    /// pidfd.
    pub(crate) fn ended(&self) -> Option<BorrowedFd<'_>> {
        self.pidfd.as_ref().map(AsFd::as_fd)
    }

    /// Sends a signal.
    ///
    /// # Errors
    /// When the process is gone or another user's.
    pub(crate) fn signal(&self, signal: Signal) -> Result<(), Undelivered> {
        let pid = Pid::from_raw(self.id.pid).ok_or(Undelivered::Gone)?;
        // Another process may have the number since.
        let by_pid = || match tree::look_up(self.id.pid) {
            Some(found) if found.id == self.id => rustix::process::kill_process(pid, signal.raw()),
            _ => Err(Errno::SRCH),
        };
        let sent = match &self.pidfd {
            Some(pidfd) => match ends::send(pidfd, signal.raw()) {
                // A sandbox that refuses the call gives the same error as another user's process,
                // for which the second attempt fails, too.
                Err(Errno::PERM | Errno::NOSYS) => by_pid(),
                sent => sent,
            },
            None => by_pid(),
        };
        sent.map_err(Undelivered::from)
    }
}

/// Whether this user may signal a process; `None` if there is none of that number.
pub(crate) fn may_signal(pid: u32) -> Option<bool> {
    let pid = Pid::from_raw(i32::try_from(pid).ok()?)?;
    match rustix::process::test_kill_process(pid) {
        Ok(()) => Some(true),
        Err(Errno::PERM) => Some(false),
        Err(_) => None,
    }
}

/// Sends a signal to the whole process group of a process, if it still is in it.
///
/// # Errors
/// When it is not, or all of the group are another user's.
pub(crate) fn signal_group(member: &ProcessInfo, signal: Signal) -> Result<(), Undelivered> {
    let group = Pid::from_raw(member.group).ok_or(Undelivered::Gone)?;
    match tree::look_up(member.id.pid) {
        Some(found) if found.id == member.id && found.group == member.group => {
            Ok(rustix::process::kill_process_group(group, signal.raw())?)
        }
        _ => Err(Undelivered::Gone),
    }
}

impl From<Errno> for Undelivered {
    fn from(error: Errno) -> Self {
        match error {
            Errno::PERM => Undelivered::NotPermitted,
            _ => Undelivered::Gone,
        }
    }
}

/// Opens the processes that still exist.
pub(super) fn handles<'a>(processes: impl IntoIterator<Item = &'a ProcessInfo>) -> Vec<Handle> {
    let processes = processes.into_iter();
    processes.filter_map(|process| Handle::open(process.id).ok()).collect()
}

impl Target for Handle {
    fn id(&self) -> Identity {
        self.id
    }

    fn send(&self, signal: Signal) {
        let _ = self.signal(signal);
    }

    fn await_ends(mut processes: Vec<Handle>, limit: Duration) {
        let deadline = Instant::now() + limit;
        while !processes.is_empty() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            let mut poller = Poller::default();
            let places: Vec<Option<usize>> = processes
                .iter()
                .map(|process| process.ended().map(|fd| poller.watch(fd, Interest::Read)))
                .collect();
            // Without pidfds this waits for the whole time.
            poller.wait(Some(left));
            let ended: Vec<bool> = places.iter().map(|place| poller.ready(*place)).collect();
            let mut ended = ended.into_iter();
            processes.retain(|_| !ended.next().unwrap_or(false));
        }
    }
}
