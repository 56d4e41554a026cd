//! The end of the other side of a descriptor, which Linux's `poll(2)` reports unasked.

use std::os::fd::{AsFd, BorrowedFd};

use rustix::event::{PollFd, PollFlags};

/// A second descriptor for the end: none is needed.
#[derive(Debug)]
pub(crate) enum HangupQueue {}

impl HangupQueue {
    pub(crate) fn for_reader(_fd: BorrowedFd) -> Option<HangupQueue> {
        None
    }

    pub(crate) fn has_ended(&self) -> bool {
        match *self {}
    }
}

impl AsFd for HangupQueue {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match *self {}
    }
}

/// Waits until nothing more can come, even if unread data remains; for a file, forever.
pub(crate) fn await_end(fd: BorrowedFd) {
    let mut fds = [PollFd::from_borrowed_fd(fd, PollFlags::RDHUP)];
    while rustix::event::poll(&mut fds, None) == Err(rustix::io::Errno::INTR) {}
}
