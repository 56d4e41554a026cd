//! The restorer: a process beside the one that has put a terminal into raw mode. It restores the
//! terminal if that one ends without doing so, by `kill -9` for example.
//!
//! It is in a session of its own, so that what is sent to the terminal's processes does not reach
//! it.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::Stdio;
use std::time::Duration;

use rustix::stdio::stdin;
use rustix::termios::{OptionalActions, tcgetattr, tcsetattr};

use super::launcher;

/// How long its start may take.
const START_LIMIT: Duration = Duration::from_secs(5);

/// A restorer that runs. It restores the terminal when this is dropped, or this process ends.
#[derive(Debug)]
pub struct Restorer {
    line: UnixStream,
}

impl Restorer {
    /// Starts this program with these arguments, which must call [`attend`], and waits until it
    /// has read the settings of the terminal, which is its stdout.
    ///
    /// # Errors
    /// It cannot be started, or this is no terminal.
    pub(crate) fn start(arguments: &[&str], terminal: OwnedFd) -> io::Result<Restorer> {
        let (mut line, far) = UnixStream::pair()?;
        launcher::start_apart(arguments, far.into(), Stdio::from(terminal))?;
        line.set_read_timeout(Some(START_LIMIT))?;
        line.read_exact(&mut [0])?;
        Ok(Restorer { line })
    }

    /// Ends it: the terminal is restored.
    pub(crate) fn dismiss(self) {
        // It has ended by itself if this fails.
        let _ = (&self.line).write_all(&[0]);
    }
}

/// Is the restorer, with the other process on stdin. `leave` is written to the terminal when it is
/// restored.
///
/// # Errors
/// This is no terminal, or it is gone.
pub(crate) fn attend(terminal: OwnedFd, leave: &[u8]) -> io::Result<()> {
    let before = tcgetattr(&terminal)?;
    let mut line = UnixStream::from(stdin().try_clone_to_owned()?);
    line.write_all(&[0])?;
    if line.read(&mut [0])? > 0 {
        return Ok(());
    }
    // The settings first: writing to the terminal may have to wait for it.
    tcsetattr(&terminal, OptionalActions::Now, &before)?;
    File::from(terminal).write_all(leave)
}
