//! Queues of events about descriptors and processes: kqueue, which macOS and the BSDs have. On
//! Linux, for testing what uses them, an edge-triggered epoll instance reports the same changes
//! of descriptors.

use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::buffer::spare_capacity;
use rustix::io::{Errno, Result};

/// More events than these are read in a second call.
const EVENTS: usize = 4;

/// The other side of a descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    /// It reads what is written to the descriptor.
    Reader,
    /// It writes what is read from it.
    Writer,
}

#[cfg(not(target_os = "linux"))]
pub(super) use kqueue::{take_end, watch};

#[cfg(target_os = "linux")]
pub(super) use epoll::{take_end, watch};

#[cfg(not(target_os = "linux"))]
pub(super) mod kqueue {
    use super::*;

    use std::os::fd::AsRawFd;

    use rustix::event::kqueue::{Event, EventFilter, EventFlags, kevent, kqueue};
    use rustix::io::FdFlags;

    /// A new queue.
    pub(in crate::process) fn new() -> Result<OwnedFd> {
        let queue = kqueue()?;
        rustix::io::fcntl_setfd(&queue, FdFlags::CLOEXEC)?;
        Ok(queue)
    }

    /// Registers a filter. The kernel drops it when its descriptor is closed.
    pub(in crate::process) fn add(
        queue: &OwnedFd,
        filter: EventFilter,
        flags: EventFlags,
    ) -> Result<()> {
        let change = Event::new(filter, EventFlags::ADD | flags, std::ptr::null_mut());
        let mut none: [Event; 0] = [];
        // SAFETY: the kernel forgets a descriptor when it is closed.
        unsafe { kevent(queue, &[change], &mut none, None) }.map(drop)
    }

    /// Takes the pending events; if `wait` is set, waits for the first one.
    pub(in crate::process) fn take(queue: &OwnedFd, wait: bool) -> Vec<Event> {
        let mut events = Vec::with_capacity(EVENTS);
        let limit = (!wait).then_some(std::time::Duration::ZERO);
        // SAFETY: no descriptor is registered here.
        while unsafe { kevent(queue, &[], spare_capacity(&mut events), limit) } == Err(Errno::INTR)
        {
        }
        events
    }

    /// A queue of the changes at the other side of a descriptor, including its end.
    pub(in crate::process) fn watch(fd: BorrowedFd, side: Side) -> Result<OwnedFd> {
        let queue = new()?;
        let filter = match side {
            Side::Reader => EventFilter::Write(fd.as_raw_fd()),
            Side::Writer => EventFilter::Read(fd.as_raw_fd()),
        };
        add(&queue, filter, EventFlags::CLEAR)?;
        Ok(queue)
    }

    /// Takes all events; returns whether one of them was the end of the other side.
    pub(in crate::process) fn take_end(queue: &OwnedFd) -> bool {
        take(queue, false).iter().any(|event| event.flags().contains(EventFlags::EOF))
    }
}

#[cfg(target_os = "linux")]
mod epoll {
    use super::*;

    use rustix::event::Timespec;
    use rustix::event::epoll::{CreateFlags, Event, EventData, EventFlags, add, create, wait};

    /// A queue of the changes at the other side of a descriptor, including its end.
    pub(in crate::process) fn watch(fd: BorrowedFd, side: Side) -> Result<OwnedFd> {
        let queue = create(CreateFlags::CLOEXEC)?;
        let changes = match side {
            Side::Reader => EventFlags::OUT,
            Side::Writer => EventFlags::IN | EventFlags::RDHUP,
        };
        add(&queue, fd, EventData::new_u64(0), changes | EventFlags::ET)?;
        Ok(queue)
    }

    /// Takes all events; returns whether one of them was the end of the other side.
    pub(in crate::process) fn take_end(queue: &OwnedFd) -> bool {
        let mut events: Vec<Event> = Vec::with_capacity(EVENTS);
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        while wait(queue, spare_capacity(&mut events), Some(&at_once)) == Err(Errno::INTR) {}
        let end = EventFlags::HUP | EventFlags::ERR | EventFlags::RDHUP;
        events.iter().any(|event| { event.flags }.intersects(end))
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn the_end_of_a_reader_is_told_from_its_reads() {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        let queue = watch(writer.as_fd(), Side::Reader).expect("a queue");
        assert!(!take_end(&queue), "there is room");
        assert!(!take_end(&queue));
        drop(reader);
        assert!(take_end(&queue));
    }

    #[test]
    fn the_end_of_a_writer_is_seen_behind_unread_bytes() {
        let (near, far) = UnixStream::pair().expect("a socket");
        let queue = watch(near.as_fd(), Side::Writer).expect("a queue");
        rustix::io::write(&far, b"unread").expect("room");
        assert!(!take_end(&queue));
        far.shutdown(std::net::Shutdown::Write).expect("open");
        assert!(take_end(&queue));
        // An end that came before the watch is one of its events.
        assert!(take_end(&watch(near.as_fd(), Side::Writer).expect("a queue")));
    }

    #[test]
    fn a_file_has_no_end() {
        let file = tempfile::tempfile().expect("a file");
        assert!(!watch(file.as_fd(), Side::Reader).is_ok_and(|queue| take_end(&queue)));
    }
}
