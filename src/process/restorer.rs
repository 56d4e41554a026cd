//! The restorer: a process beside the one that has put a terminal into raw mode. It restores the
//! terminal if that one ends without doing so, by `kill -9` for example.
//!
//! It is in a session of its own, so that what is sent to the terminal's processes does not reach
//! it.

use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::process::Stdio;
use std::time::Duration;

use rustix::stdio::{stdin, stdout};
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
    /// has read the settings of the terminal at stdout.
    ///
    /// # Errors
    /// It cannot be started, or stdout is no terminal.
    pub(crate) fn start(arguments: &[&str]) -> io::Result<Restorer> {
        let (mut line, far) = UnixStream::pair()?;
        let terminal = io::stdout().as_fd().try_clone_to_owned()?;
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

/// Is the restorer, with the other process on stdin and the terminal on stdout. `leave` is written
/// to the terminal when it is restored.
///
/// # Errors
/// Stdout is no terminal, or it is gone.
pub(crate) fn attend(leave: &[u8]) -> io::Result<()> {
    let before = tcgetattr(stdout())?;
    let mut line = UnixStream::from(stdin().try_clone_to_owned()?);
    line.write_all(&[0])?;
    if line.read(&mut [0])? > 0 {
        return Ok(());
    }
    // The settings first: writing to the terminal may have to wait for it.
    tcsetattr(stdout(), OptionalActions::Now, &before)?;
    io::stdout().write_all(leave)?;
    io::stdout().flush()
}
