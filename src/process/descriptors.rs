//! File descriptors: reads and writes that do not block, waiting for several at once, and
//! waking a thread that is in `poll(2)`.
//!
//! Limits: reads and writes are single system calls; the caller interprets the results.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::{Mode, OFlags};
use rustix::process::{Pid, WaitId, WaitIdOptions};

use super::close_on_exec;
pub(crate) use super::close_on_exec::{
    mark_inherited as seal_inherited, pipe, pipe_size, widen_pipe,
};
use super::hangup::{self, HangupQueue};
use crate::base::cancel::Wake;

/// `/dev/null` for reading and writing.
///
/// # Errors
/// When it is missing or cannot be opened.
pub(crate) fn open_null() -> io::Result<OwnedFd> {
    Ok(rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?)
}

/// Replaces this process's stdin with `/dev/null`.
///
/// # Errors
/// When `/dev/null` cannot be opened.
pub(crate) fn close_stdin() -> io::Result<()> {
    Ok(rustix::stdio::dup2_stdin(open_null()?)?)
}

/// Makes reads and writes return instead of waiting.
///
/// # Errors
/// When the descriptor is not open.
pub(crate) fn set_nonblocking(fd: impl AsFd) -> io::Result<()> {
    let flags = rustix::fs::fcntl_getfl(&fd)?;
    Ok(rustix::fs::fcntl_setfl(&fd, flags | OFlags::NONBLOCK)?)
}

/// The result of one read or write on a non-blocking descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Transfer {
    /// This many bytes were transferred.
    Bytes(usize),
    /// Nothing now: wait until `poll(2)` reports it ready.
    WouldBlock,
    /// The other side is gone: end of file, a hung-up terminal (EIO) or a broken pipe.
    Closed,
}

fn transfer(call: impl FnMut() -> rustix::io::Result<usize>) -> Transfer {
    match rustix::io::retry_on_intr(call) {
        Ok(count) => Transfer::Bytes(count),
        Err(rustix::io::Errno::AGAIN) => Transfer::WouldBlock,
        Err(_) => Transfer::Closed,
    }
}

/// Reads once. A terminal's EIO is its end of file.
pub(crate) fn read(fd: &OwnedFd, buffer: &mut [u8]) -> Transfer {
    match transfer(|| rustix::io::read(fd, &mut *buffer)) {
        Transfer::Bytes(0) => Transfer::Closed,
        done => done,
    }
}

/// Reads into the spare capacity of the buffer, which is not filled with zeros first.
pub(crate) fn read_more(fd: &OwnedFd, buffer: &mut Vec<u8>) -> Transfer {
    match transfer(|| rustix::io::read(fd, rustix::buffer::spare_capacity(buffer))) {
        Transfer::Bytes(0) => Transfer::Closed,
        done => done,
    }
}

/// Reads what is available, up to about `max_bytes` bytes.
pub(crate) fn read_waiting(fd: &OwnedFd, max_bytes: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    while bytes.len() < max_bytes
        && let Transfer::Bytes(count) = read(fd, &mut buffer)
    {
        bytes.extend_from_slice(buffer.get(..count).unwrap_or_default());
    }
    bytes
}

pub(crate) fn write(fd: &OwnedFd, bytes: &[u8]) -> Transfer {
    transfer(|| rustix::io::write(fd, bytes))
}

/// Waits until the other side of a pipe, socket or terminal is gone, even if unread data
/// remains; for a file, forever.
pub(crate) fn await_hangup(fd: impl AsFd) {
    hangup::await_end(fd.as_fd());
}

/// Whether there is something to read, from a stream that still has a writer.
pub(crate) fn has_unread(fd: impl AsFd) -> bool {
    let mut fds = [PollFd::new(&fd, PollFlags::IN)];
    rustix::event::poll(&mut fds, Some(&Timespec::default())).is_ok()
        && fds.iter().any(|fd| {
            let events = fd.revents();
            events.contains(PollFlags::IN) && !events.contains(PollFlags::HUP)
        })
}

/// Whether the other side of stdin or stdout is gone.
// Unused where no server is replaced.
#[cfg_attr(any(not(target_os = "linux"), feature = "portable"), allow(dead_code))]
pub(crate) fn has_client_hung_up() -> bool {
    const STDIN_AND_STDOUT: [RawFd; 2] = [0, 1];
    let gone = PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL;
    STDIN_AND_STDOUT.iter().any(|number| {
        // SAFETY: polled for an instant; a number that is not open is reported as such.
        let fd = unsafe { BorrowedFd::borrow_raw(*number) };
        let mut fds = [PollFd::from_borrowed_fd(fd, PollFlags::empty())];
        let at_once = rustix::event::Timespec::default();
        rustix::event::poll(&mut fds, Some(&at_once)).is_ok()
            && fds.iter().any(|fd| fd.revents().intersects(gone))
    })
}

/// Whether a descriptor leaves enough others free to read `/proc` and start processes: the kernel
/// assigns the lowest free number first.
pub(crate) fn leaves_room(fd: &OwnedFd) -> bool {
    const MIN_FREE: u64 = 16;
    let Some(limit) = rustix::process::getrlimit(rustix::process::Resource::Nofile).current else {
        return true;
    };
    // Every task's thread may read `/proc` at once: a quarter is for them.
    let free = MIN_FREE.max(limit / 4);
    u64::try_from(fd.as_raw_fd()).is_ok_and(|number| number + free < limit)
}

impl Wake for Waker {
    fn wake(&self) {
        Waker::wake(self);
    }
}

/// Wakes a thread that waits in [`Poller::wait`]; wake-ups that come before it checks count as one.
#[derive(Debug)]
pub(crate) struct Waker {
    write: OwnedFd,
}

impl Waker {
    /// The waker, and a descriptor that a wake-up makes readable.
    ///
    /// # Errors
    /// When descriptors have run out.
    pub(crate) fn new() -> io::Result<(Waker, OwnedFd)> {
        let (read, write) = close_on_exec::pipe_without_waiting()?;
        Ok((Waker { write }, read))
    }

    /// Wakes the thread. If the pipe is full, a wake-up is already pending; if it is closed, no
    /// thread waits any more.
    pub(crate) fn wake(&self) {
        let _ = rustix::io::write(&self.write, &[1]);
    }
}

/// The reading end of a pipe that a thread closes when a child ends, which makes it readable.
///
/// # Errors
/// No descriptor or no thread is available.
pub(super) fn wait_on_thread(pid: Pid) -> io::Result<OwnedFd> {
    let (waker, readable) = Waker::new()?;
    std::thread::Builder::new().name("child-end".to_owned()).stack_size(64 * 1024).spawn(
        move || {
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
            let _ =
                rustix::io::retry_on_intr(|| rustix::process::waitid(WaitId::Pid(pid), options));
            drop(waker);
        },
    )?;
    set_nonblocking(&readable)?;
    Ok(readable)
}

/// Discards all wake-ups so far.
pub(crate) fn drain_wakes(fd: &OwnedFd) {
    let mut buffer = [0; 64];
    while let Transfer::Bytes(64) = read(fd, &mut buffer) {}
}

/// Waits at most `pause` for a wake-up; returns whether one came. All wake-ups are discarded.
pub(crate) fn await_wake(fd: &OwnedFd, pause: std::time::Duration) -> bool {
    let mut poller = Poller::default();
    let place = poller.watch(fd.as_fd(), Interest::Read);
    poller.wait(Some(pause));
    let is_woken = poller.ready(Some(place));
    if is_woken {
        drain_wakes(fd);
    }
    is_woken
}

/// What to watch a descriptor for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Interest {
    /// Readable, or hung up.
    Read,
    /// Writable, or hung up.
    Write,
    /// Only the end of the reader at the other side.
    Hangup,
}

/// A file whose reads and writes wait, even if another process that shares it has set it
/// non-blocking.
#[derive(Debug)]
pub(crate) struct BlockingFile(File);

impl BlockingFile {
    /// Reads from or writes to this descriptor.
    pub(crate) fn new(fd: OwnedFd) -> BlockingFile {
        BlockingFile(File::from(fd))
    }

    fn retry<T>(
        &self,
        interest: Interest,
        mut action: impl FnMut(&File) -> io::Result<T>,
    ) -> io::Result<T> {
        loop {
            match action(&self.0) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    wait_for(&self.0, interest, None);
                }
                done => return done,
            }
        }
    }
}

// Unused where no server is replaced.
#[cfg_attr(any(not(target_os = "linux"), feature = "portable"), allow(dead_code))]
impl BlockingFile {
    /// Whether all that was written has been read; also true where that is not known.
    pub(super) fn holds_nothing(&self) -> bool {
        rustix::io::ioctl_fionread(&self.0).unwrap_or_default() == 0
    }

    /// Moves at most so many bytes here from a pipe that has them; how many.
    ///
    /// # Errors
    /// `InvalidInput` if this file takes none from pipes.
    #[cfg(target_os = "linux")]
    pub(super) fn take_from(&self, pipe: &OwnedFd, most: usize) -> io::Result<usize> {
        self.retry(Interest::Write, |file| {
            let flags = rustix::pipe::SpliceFlags::empty();
            let splice = || rustix::pipe::splice(pipe, None, file, None, most, flags);
            Ok(rustix::io::retry_on_intr(splice)?)
        })
    }

    /// Always fails with `InvalidInput`.
    #[cfg(not(target_os = "linux"))]
    pub(super) fn take_from(&self, _pipe: &OwnedFd, _most: usize) -> io::Result<usize> {
        Err(io::ErrorKind::InvalidInput.into())
    }
}

impl Read for BlockingFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.retry(Interest::Read, |mut file| file.read(buffer))
    }
}

impl Write for BlockingFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.retry(Interest::Write, |mut file| file.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Waits until a descriptor is ready or `timeout` passes (`None`: without limit), as
/// [`Poller::wait`].
pub(crate) fn wait_for(fd: &impl AsFd, interest: Interest, timeout: Option<Duration>) {
    let mut poller = Poller::default();
    poller.watch(fd.as_fd(), interest);
    poller.wait(timeout);
}

/// A set of descriptors for one `poll(2)`.
#[derive(Default)]
pub(crate) struct Poller<'a> {
    watched: Vec<(BorrowedFd<'a>, Interest)>,
    /// Whether each of them became ready in the last wait.
    ready: Vec<bool>,
}

impl<'a> Poller<'a> {
    /// Adds a descriptor; returns its place in the results.
    pub(crate) fn watch(&mut self, fd: BorrowedFd<'a>, interest: Interest) -> usize {
        self.watched.push((fd, interest));
        self.watched.len() - 1
    }

    /// Waits until one is ready or `timeout` passes (`None`: without limit). An
    /// interrupted wait returns as if it had timed out: the caller checks again.
    pub(crate) fn wait(&mut self, timeout: Option<Duration>) {
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let watched = self.watched.iter();
        let queues: Vec<Option<HangupQueue>> = watched
            .map(|(fd, interest)| match interest {
                Interest::Hangup => HangupQueue::for_reader(*fd),
                Interest::Read | Interest::Write => None,
            })
            .collect();
        let watched = self.watched.iter().zip(&queues);
        let mut fds: Vec<PollFd> = watched
            .map(|((fd, interest), queue)| match (queue, interest) {
                (Some(queue), _) => PollFd::new(queue, PollFlags::IN),
                (None, Interest::Read) => PollFd::from_borrowed_fd(*fd, PollFlags::IN),
                (None, Interest::Write) => PollFd::from_borrowed_fd(*fd, PollFlags::OUT),
                // A hang-up is reported unasked; on a pipe without a reader, as an error.
                (None, Interest::Hangup) => PollFd::from_borrowed_fd(*fd, PollFlags::empty()),
            })
            .collect();
        loop {
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            let left = left.and_then(|left| Timespec::try_from(left).ok());
            let is_over = !matches!(rustix::event::poll(&mut fds, left.as_ref()), Ok(1..));
            let polled = fds.iter().zip(&queues);
            self.ready = polled
                .map(|(fd, queue)| {
                    !is_over
                        && !fd.revents().is_empty()
                        && queue.as_ref().is_none_or(HangupQueue::has_ended)
                })
                .collect();
            // A queue may also report what is not the end.
            if is_over || self.ready.contains(&true) {
                return;
            }
        }
    }

    /// Whether the descriptor at `place` became ready, hung up or failed.
    pub(crate) fn ready(&self, place: Option<usize>) -> bool {
        place.and_then(|place| self.ready.get(place)).copied().unwrap_or_default()
    }
}

/// Whether two descriptors are of the same file, pipe or terminal. Those that are closed are not.
pub(crate) fn are_same_file(first: &impl AsFd, second: &impl AsFd) -> bool {
    let id = |fd: &dyn AsFd| {
        let file = std::fs::File::from(fd.as_fd().try_clone_to_owned().ok()?);
        let metadata = file.metadata().ok()?;
        Some((metadata.dev(), metadata.ino(), metadata.rdev()))
    };
    id(first).is_some_and(|first| id(second) == Some(first))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_living_writer_has_written_is_unread_until_it_is_read() {
        let (ours, theirs) = pipe().expect("a pipe");
        assert!(!has_unread(&ours));
        assert_eq!(write(&theirs, b"line\n"), Transfer::Bytes(5));
        assert!(has_unread(&ours));
        assert_eq!(read_waiting(&ours, 1), b"line\n");
        assert!(!has_unread(&ours));
        assert_eq!(write(&theirs, b"rest"), Transfer::Bytes(4));
        drop(theirs);
        assert!(!has_unread(&ours), "nothing follows that");
    }
}
