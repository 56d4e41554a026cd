//! A client's socket, with deadlines for a whole read or write even if bytes trickle in.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Bytes read at once.
const CHUNK: usize = 8 * 1024;
/// How long remaining input is read before closing, since closing with unread input would reset the
/// connection before the client has read the answer.
const CLOSE_LIMIT: Duration = Duration::from_secs(1);
/// How many bytes of remaining input are read before closing.
const CLOSE_BYTES: usize = 1024 * 1024;

/// Why a read or a write failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WireError {
    /// The deadline has passed.
    #[error("the client is too slow")]
    Late,
    /// The client has closed the connection.
    #[error("the client is gone")]
    Closed,
    /// Another error of the system.
    #[error("the connection failed: {0}")]
    Failed(#[from] io::Error),
}

/// A socket and the input that was read but not used yet.
#[derive(Debug)]
pub(crate) struct Wire {
    stream: Arc<TcpStream>,
    unused: Vec<u8>,
}

impl Wire {
    /// Wraps a blocking socket.
    pub(crate) fn new(stream: Arc<TcpStream>) -> Wire {
        Wire { stream, unused: Vec::new() }
    }

    /// The input that was read but not taken yet.
    pub(crate) fn unused(&self) -> &[u8] {
        &self.unused
    }

    /// Takes up to `length` bytes of the unused input.
    pub(crate) fn take(&mut self, length: usize) -> Vec<u8> {
        let rest = self.unused.split_off(length.min(self.unused.len()));
        std::mem::replace(&mut self.unused, rest)
    }

    /// Waits for more input.
    ///
    /// # Errors
    /// When none arrives before the deadline.
    pub(crate) fn read_more(&mut self, deadline: Instant) -> Result<(), WireError> {
        let mut chunk = [0; CHUNK];
        let count = self.read(&mut chunk, deadline)?;
        self.unused.extend_from_slice(chunk.get(..count).unwrap_or_default());
        Ok(())
    }

    /// Sends all bytes.
    ///
    /// # Errors
    /// When the client does not read them before the deadline.
    pub(crate) fn write(&self, mut bytes: &[u8], deadline: Instant) -> Result<(), WireError> {
        while !bytes.is_empty() {
            self.stream.set_write_timeout(Some(left(deadline)?))?;
            match (&*self.stream).write(bytes) {
                Ok(0) => return Err(WireError::Closed),
                Ok(count) => bytes = bytes.get(count..).unwrap_or_default(),
                Err(error) => pass_over(error)?,
            }
        }
        Ok(())
    }

    /// Closes so that the response arrives: shuts down the sending side, then reads the client's
    /// remaining input.
    pub(crate) fn close_gracefully(self) {
        if self.stream.shutdown(Shutdown::Write).is_err() {
            return;
        }
        let deadline = Instant::now() + CLOSE_LIMIT;
        let mut chunk = [0; CHUNK];
        let mut total = 0;
        while total < CLOSE_BYTES {
            match self.read(&mut chunk, deadline) {
                Ok(count) => total += count,
                Err(_) => return,
            }
        }
    }

    fn read(&self, chunk: &mut [u8], deadline: Instant) -> Result<usize, WireError> {
        loop {
            self.stream.set_read_timeout(Some(left(deadline)?))?;
            match (&*self.stream).read(chunk) {
                Ok(0) => return Err(WireError::Closed),
                Ok(count) => return Ok(count),
                Err(error) => pass_over(error)?,
            }
        }
    }
}

/// The time until the deadline; a socket does not accept a timeout of zero.
fn left(deadline: Instant) -> Result<Duration, WireError> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return Err(WireError::Late);
    }
    Ok(left)
}

/// Ignores timeouts and interruptions, after which the deadline is checked again.
fn pass_over(error: io::Error) -> Result<(), WireError> {
    match error.kind() {
        ErrorKind::Interrupted | ErrorKind::WouldBlock | ErrorKind::TimedOut => Ok(()),
        ErrorKind::BrokenPipe | ErrorKind::ConnectionReset | ErrorKind::ConnectionAborted => {
            Err(WireError::Closed)
        }
        _ => Err(error.into()),
    }
}
