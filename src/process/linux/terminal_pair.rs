//! New terminals.

use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::{Mode, OFlags};
use rustix::pty::OpenptFlags;

/// Would return a copy of the terminal's end, to preserve unread output. Linux needs none: the
/// output can be read from the master after the last close of the terminal's end.
///
/// # Errors
/// None here.
pub(crate) fn keep(_terminal: &OwnedFd) -> io::Result<Option<OwnedFd>> {
    Ok(None)
}

/// A new terminal: the master's end and the terminal's.
///
/// # Errors
/// There is no `/dev/pts`, or all terminals are in use.
pub(crate) fn open() -> io::Result<(OwnedFd, OwnedFd)> {
    // Not `pty_process::open`: it sets close-on-exec in a second step, and children that
    // other threads start in between inherit the master.
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let master = rustix::pty::openpt(flags)?;
    rustix::pty::grantpt(&master)?;
    rustix::pty::unlockpt(&master)?;
    let terminal = match rustix::pty::ioctl_tiocgptpeer(&master, flags) {
        Ok(terminal) => terminal,
        // Before Linux 4.13 it can be opened by name only, which may be hidden.
        Err(error) => {
            let name = rustix::pty::ptsname(&master, Vec::new()).map_err(|_| error)?;
            let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
            rustix::fs::open(name.as_c_str(), flags, Mode::empty()).map_err(|_| error)?
        }
    };
    Ok((master, terminal))
}
