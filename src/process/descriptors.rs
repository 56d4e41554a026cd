//! File descriptors: who may inherit them, pipes that do not block, and the wake-up of
//! a thread that sits in `poll(2)`.
//!
//! Limits: reads and writes are single system calls; what they mean is the caller's.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::{Mode, OFlags};
use rustix::process::{Pid, WaitId, WaitIdOptions};

use super::close_on_exec;
pub use super::close_on_exec::widen_pipe;

/// The side-band's descriptor in the shell: one digit, because zsh takes no more in a
/// redirection, and the highest, because scripts use the low ones.
pub const SIDEBAND_FD: RawFd = 9;

/// Marks every descriptor from 3 upwards close-on-exec, so that nothing the client left
/// open reaches a command, and holds the side-band's number with `/dev/null`.
///
/// The number is held because a spawn copies the side-band onto it in the child: were
/// it free, the standard library's own error pipe could sit there and be overwritten.
///
/// # Errors
/// When `/dev/null` cannot be opened.
pub fn seal_inherited() -> io::Result<()> {
    close_on_exec::mark_inherited();
    let null = open_null()?;
    if null.as_raw_fd() != SIDEBAND_FD {
        // SAFETY: the program owns no descriptor of that number yet: this runs before
        // any thread or file of ours exists, and what the client left there is unused.
        unsafe { close_on_exec::copy_to(null.as_fd(), SIDEBAND_FD) }
    } else {
        // It stays open for the life of the process.
        std::mem::forget(null);
        Ok(())
    }
}

/// `/dev/null` for reading and writing.
///
/// # Errors
/// When it is missing or cannot be opened.
pub fn open_null() -> io::Result<OwnedFd> {
    Ok(rustix::fs::open(
        "/dev/null",
        OFlags::RDWR | OFlags::CLOEXEC,
        Mode::empty(),
    )?)
}

/// A pipe whose ends are both close-on-exec.
///
/// # Errors
/// When descriptors have run out.
pub fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    close_on_exec::pipe()
}

/// Makes reads and writes on our end return instead of waiting.
///
/// # Errors
/// When the descriptor is not open.
pub fn set_nonblocking(fd: impl AsFd) -> io::Result<()> {
    let flags = rustix::fs::fcntl_getfl(&fd)?;
    Ok(rustix::fs::fcntl_setfl(&fd, flags | OFlags::NONBLOCK)?)
}

/// What one read or write on a descriptor that does not block brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transfer {
    /// So many bytes.
    Bytes(usize),
    /// Nothing now: wait until `poll(2)` says ready.
    WouldBlock,
    /// The other side is gone: end of file, a hung-up terminal (EIO) or a broken pipe.
    Closed,
}

/// Reads once. A terminal's EIO is its end of file.
pub fn read(fd: &OwnedFd, buffer: &mut [u8]) -> Transfer {
    loop {
        match rustix::io::read(fd, &mut *buffer) {
            Ok(0) => return Transfer::Closed,
            Ok(count) => return Transfer::Bytes(count),
            Err(rustix::io::Errno::INTR) => {}
            Err(rustix::io::Errno::AGAIN) => return Transfer::WouldBlock,
            Err(_) => return Transfer::Closed,
        }
    }
}

/// Reads what is there, up to about `most` bytes.
pub fn read_waiting(fd: &OwnedFd, most: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    while bytes.len() < most
        && let Transfer::Bytes(count) = read(fd, &mut buffer)
    {
        bytes.extend_from_slice(buffer.get(..count).unwrap_or_default());
    }
    bytes
}

/// Writes once.
pub fn write(fd: &OwnedFd, bytes: &[u8]) -> Transfer {
    loop {
        match rustix::io::write(fd, bytes) {
            Ok(count) => return Transfer::Bytes(count),
            Err(rustix::io::Errno::INTR) => {}
            Err(rustix::io::Errno::AGAIN) => return Transfer::WouldBlock,
            Err(_) => return Transfer::Closed,
        }
    }
}

/// Waits until the other side of a pipe, socket or terminal is gone, whatever stands
/// unread in it; for a file, for ever.
pub fn await_hangup(fd: impl AsFd) {
    #[cfg(target_os = "linux")]
    let half_closed = PollFlags::RDHUP;
    #[cfg(not(target_os = "linux"))]
    let half_closed = PollFlags::empty();
    loop {
        let mut fds = [PollFd::new(&fd, half_closed)];
        let polled = rustix::event::poll(&mut fds, None);
        let interrupted = polled == Err(rustix::io::Errno::INTR);
        if !interrupted {
            return;
        }
    }
}

/// Whether a descriptor leaves enough others free for what cannot do without: looking
/// into `/proc`, starting a process. Descriptors are given lowest number first.
pub fn leaves_room(fd: &OwnedFd) -> bool {
    const LEAST_FREE: u64 = 16;
    let Some(limit) = rustix::process::getrlimit(rustix::process::Resource::Nofile).current else {
        return true;
    };
    // As many threads may look at once as there are tasks: a quarter is theirs.
    let free = LEAST_FREE.max(limit / 4);
    u64::try_from(fd.as_raw_fd()).is_ok_and(|number| number + free < limit)
}

/// Wakes a thread that waits in [`Poller::wait`]; any number of wakes before it looks
/// count as one.
#[derive(Debug)]
pub struct Waker {
    write: OwnedFd,
}

impl Waker {
    /// The waker and the descriptor to watch for readability.
    ///
    /// # Errors
    /// When descriptors have run out.
    pub fn new() -> io::Result<(Waker, OwnedFd)> {
        let (read, write) = close_on_exec::pipe_without_waiting()?;
        Ok((Waker { write }, read))
    }

    /// Wakes the watcher. A full pipe means that a wake-up is already on its way, and a
    /// closed one that nobody waits any more.
    pub fn wake(&self) {
        let _ = rustix::io::write(&self.write, &[1]);
    }
}

/// A pipe that a thread closes at the end of a child, so that it becomes readable.
///
/// # Errors
/// When there is no descriptor or no thread to be had.
pub(super) fn wait_on_thread(pid: Pid) -> io::Result<OwnedFd> {
    let (waker, readable) = Waker::new()?;
    std::thread::Builder::new()
        .name("child-end".to_owned())
        .stack_size(64 * 1024)
        .spawn(move || {
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
            while let Err(rustix::io::Errno::INTR) =
                rustix::process::waitid(WaitId::Pid(pid), options)
            {}
            drop(waker);
        })?;
    set_nonblocking(&readable)?;
    Ok(readable)
}

/// Takes all wake-ups that have gathered.
pub fn drain_wakes(fd: &OwnedFd) {
    let mut buffer = [0; 64];
    while let Transfer::Bytes(64) = read(fd, &mut buffer) {}
}

/// What to watch a descriptor for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interest {
    /// Readable, or hung up.
    Read,
    /// Writable, or hung up.
    Write,
    /// Nothing but the end of the other side.
    Hangup,
}

/// A file whose reads and writes wait, also when whoever shares the open file has set it not
/// to block.
#[derive(Debug)]
pub struct Waiting(File);

impl Waiting {
    /// Reads from or writes to this descriptor.
    pub fn new(fd: OwnedFd) -> Waiting {
        Waiting(File::from(fd))
    }

    fn retry<T>(
        &self,
        interest: Interest,
        mut action: impl FnMut(&File) -> io::Result<T>,
    ) -> io::Result<T> {
        loop {
            match action(&self.0) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let mut poller = Poller::default();
                    poller.watch(self.0.as_fd(), interest);
                    poller.wait(None);
                }
                done => return done,
            }
        }
    }
}

impl Read for Waiting {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.retry(Interest::Read, |mut file| file.read(buffer))
    }
}

impl Write for Waiting {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.retry(Interest::Write, |mut file| file.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A set of descriptors for one `poll(2)`; built anew for each wait.
#[derive(Default)]
pub struct Poller<'a> {
    fds: Vec<PollFd<'a>>,
}

impl<'a> Poller<'a> {
    /// Adds a descriptor; the answer is its place in the results.
    pub fn watch(&mut self, fd: BorrowedFd<'a>, interest: Interest) -> usize {
        let flags = match interest {
            Interest::Read => PollFlags::IN,
            Interest::Write => PollFlags::OUT,
            // Reported in any case, as an error on a pipe that nobody reads.
            Interest::Hangup => PollFlags::empty(),
        };
        self.fds.push(PollFd::from_borrowed_fd(fd, flags));
        self.fds.len() - 1
    }

    /// Waits until one is ready or `timeout` passes (`None`: without limit). An
    /// interrupted wait returns as if it had timed out: the caller looks again.
    pub fn wait(&mut self, timeout: Option<std::time::Duration>) {
        let timeout = timeout.map(|duration| Timespec {
            tv_sec: duration.as_secs().min(i64::MAX as u64) as i64,
            tv_nsec: i64::from(duration.subsec_nanos()),
        });
        if rustix::event::poll(&mut self.fds, timeout.as_ref()).is_err() {
            for fd in &mut self.fds {
                fd.clear_revents();
            }
        }
    }

    /// Whether the descriptor at `place` became ready, hung up or failed.
    pub fn ready(&self, place: Option<usize>) -> bool {
        place
            .and_then(|place| self.fds.get(place))
            .is_some_and(|fd| !fd.revents().is_empty())
    }
}
