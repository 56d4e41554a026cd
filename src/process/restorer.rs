//! The restorer: a second process that restores the terminal if the process that has put it into
//! raw mode ends without doing so, by `kill -9` for example.
//!
//! It is in a session of its own, so that signals to the terminal's processes do not reach it.

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

/// A running restorer. It restores the terminal when this is dropped or this process ends.
#[derive(Debug)]
pub(crate) struct Restorer {
    connection: UnixStream,
}

impl Restorer {
    /// Starts this program with these arguments, which must lead to [`run`], and waits until it
    /// has read the settings of the terminal, which is its stdout.
    ///
    /// # Errors
    /// It cannot be started, or `terminal` is not a terminal.
    pub(crate) fn start(arguments: &[&str], terminal: OwnedFd) -> io::Result<Restorer> {
        let (mut connection, peer) = UnixStream::pair()?;
        launcher::start_apart(arguments, peer.into(), Stdio::from(terminal))?;
        connection.set_read_timeout(Some(START_LIMIT))?;
        connection.read_exact(&mut [0])?;
        Ok(Restorer { connection })
    }

    /// Ends it without restoring the terminal, which the caller has done.
    pub(crate) fn dismiss(self) {
        // If this fails, the restorer has ended by itself.
        let _ = (&self.connection).write_all(&[0]);
    }
}

/// Runs as the restorer, connected to the other process by stdin. `leave` is written to the
/// terminal once its settings are restored.
///
/// # Errors
/// `terminal` is not a terminal, or is gone.
pub(crate) fn run(terminal: OwnedFd, leave: &[u8]) -> io::Result<()> {
    let before = tcgetattr(&terminal)?;
    let mut connection = UnixStream::from(stdin().try_clone_to_owned()?);
    connection.write_all(&[0])?;
    if connection.read(&mut [0])? > 0 {
        return Ok(());
    }
    // The settings first: writing to the terminal may have to wait for it.
    tcsetattr(&terminal, OptionalActions::Now, &before)?;
    File::from(terminal).write_all(leave)
}
