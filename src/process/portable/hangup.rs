//! The end of the other side of a descriptor, by a queue of events that is itself a descriptor.
//!
//! `poll(2)` cannot report it everywhere. In XNU, a descriptor polled for no event never becomes
//! ready; polled for POLLHUP, it reports nothing but returns at once while unread data remains. A queue reports changes (EV_CLEAR)
//! and marks the end among them (EV_EOF).

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags};

use super::queue::{self, Side};

/// A queue that becomes readable when a descriptor may have lost its other side.
#[derive(Debug)]
pub(crate) struct HangupQueue(OwnedFd);

impl HangupQueue {
    /// Watches for the end of the reader of the bytes written to `fd`. `None` if there is no such
    /// end, as for a file, or if descriptors have run out.
    pub(crate) fn for_reader(fd: BorrowedFd) -> Option<HangupQueue> {
        queue::watch(fd, Side::Reader).ok().map(HangupQueue)
    }

    /// Whether the end was among the events since the last call.
    pub(crate) fn has_ended(&self) -> bool {
        queue::take_end(&self.0)
    }
}

impl AsFd for HangupQueue {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Waits until nothing more can come, even if unread data remains; for a file, forever.
pub(crate) fn await_end(fd: BorrowedFd) {
    let queue = queue::watch(fd, Side::Writer).ok();
    loop {
        let mut fds: Vec<PollFd> =
            queue.iter().map(|queue| PollFd::new(queue, PollFlags::IN)).collect();
        let _ = rustix::event::poll(&mut fds, None);
        if queue.as_ref().is_some_and(queue::take_end) {
            return;
        }
    }
}
