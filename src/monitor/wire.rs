//! One client's socket with deadlines: a read or a write that would go on beyond its own
//! gives up, however little arrives however steadily.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Bytes of one read.
const CHUNK: usize = 8 * 1024;
/// A client that is told no is read out for so long, since closing on unread bytes would
/// take the answer back before it is read …
const PARTING: Duration = Duration::from_secs(1);
/// … and so many bytes at most.
const PARTING_BYTES: usize = 1024 * 1024;

/// Why nothing came, or nothing went.
#[derive(Debug, thiserror::Error)]
pub enum WireError {
    /// The deadline has passed.
    #[error("the client is too slow")]
    Late,
    /// The client is gone, or has said all it has to say.
    #[error("the client is gone")]
    Closed,
    /// The system refused.
    #[error("the connection failed: {0}")]
    Failed(#[from] io::Error),
}

/// A socket, and what has been read of it and not used.
#[derive(Debug)]
pub struct Wire {
    stream: Arc<TcpStream>,
    unused: Vec<u8>,
}

impl Wire {
    /// Over a blocking socket.
    pub fn new(stream: Arc<TcpStream>) -> Wire {
        Wire {
            stream,
            unused: Vec::new(),
        }
    }

    /// What has arrived and was not taken.
    pub fn unused(&self) -> &[u8] {
        &self.unused
    }

    /// Takes so many bytes of what has arrived.
    pub fn take(&mut self, length: usize) -> Vec<u8> {
        let rest = self.unused.split_off(length.min(self.unused.len()));
        std::mem::replace(&mut self.unused, rest)
    }

    /// Waits for more to arrive.
    ///
    /// # Errors
    /// When nothing does before the deadline.
    pub fn read_more(&mut self, deadline: Instant) -> Result<(), WireError> {
        let mut chunk = [0; CHUNK];
        let count = self.read(&mut chunk, deadline)?;
        self.unused
            .extend_from_slice(chunk.get(..count).unwrap_or_default());
        Ok(())
    }

    /// Sends all of it.
    ///
    /// # Errors
    /// When the client does not take it before the deadline.
    pub fn write(&self, mut bytes: &[u8], deadline: Instant) -> Result<(), WireError> {
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

    /// Closes so that the last answer arrives: tells the client that nothing follows, and
    /// reads what it still sends.
    pub fn part(self) {
        if self.stream.shutdown(Shutdown::Write).is_err() {
            return;
        }
        let deadline = Instant::now() + PARTING;
        let mut chunk = [0; CHUNK];
        let mut total = 0;
        while total < PARTING_BYTES {
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

/// What is left until the deadline; a socket takes no timeout of zero.
fn left(deadline: Instant) -> Result<Duration, WireError> {
    let left = deadline.saturating_duration_since(Instant::now());
    match left.is_zero() {
        true => Err(WireError::Late),
        false => Ok(left),
    }
}

/// A timeout and an interruption are no failures: the deadline is looked at again.
fn pass_over(error: io::Error) -> Result<(), WireError> {
    match error.kind() {
        ErrorKind::Interrupted | ErrorKind::WouldBlock | ErrorKind::TimedOut => Ok(()),
        ErrorKind::BrokenPipe | ErrorKind::ConnectionReset | ErrorKind::ConnectionAborted => {
            Err(WireError::Closed)
        }
        _ => Err(error.into()),
    }
}
