//! New terminals.

use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::{Mode, OFlags};
use rustix::io::FdFlags;
use rustix::pty::OpenptFlags;

/// A copy of the terminal's end. XNU waits 0.6 s at the last close of a terminal for its output
/// to be read, and then discards it.
///
/// # Errors
/// When descriptors have run out.
pub(crate) fn keep(terminal: &OwnedFd) -> io::Result<Option<OwnedFd>> {
    terminal.try_clone().map(Some)
}

/// A new terminal: the master's end and the terminal's.
///
/// # Errors
/// When there are no terminals, or all are in use.
pub(crate) fn open() -> io::Result<(OwnedFd, OwnedFd)> {
    let master = rustix::pty::openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY)?;
    rustix::io::fcntl_setfd(&master, FdFlags::CLOEXEC)?;
    rustix::pty::grantpt(&master)?;
    rustix::pty::unlockpt(&master)?;
    let name = rustix::pty::ptsname(&master, Vec::new())?;
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    let terminal = rustix::fs::open(name.as_c_str(), flags, Mode::empty())?;
    Ok((master, terminal))
}
