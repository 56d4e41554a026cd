//! A stream of server-sent events to one client, until one side has enough.
//!
//! A comment goes out when nothing else does, so that what stands between keeps the
//! connection. A client that does not read is dropped by the deadline of a write, one that
//! is gone by the watch that [`super::http`] keeps on its socket: it cancels the stream.

use std::time::{Duration, Instant};

use super::response::{EventSource, Next};
use super::wire::{Wire, WireError};
use crate::task::live::Cancel;

/// How soon a browser comes back after a stream was cut: at once would be a storm when
/// the server restarts.
const OPENING: &str = "retry: 1000\n\n";
/// Says nothing.
const COMMENT: &str = ":\n\n";

/// Times of a stream.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    /// A comment is sent after so long without an event.
    pub keep_alive: Duration,
    /// A client may take so long to read one event.
    pub write: Duration,
}

/// Sends the events of a source until it ends or the client is gone.
///
/// # Errors
/// When the client does not read.
pub fn send(
    source: &mut dyn EventSource,
    wire: &Wire,
    cancel: &Cancel,
    pace: Pace,
) -> Result<(), WireError> {
    let write = |text: &str| wire.write(text.as_bytes(), Instant::now() + pace.write);
    write(OPENING)?;
    let mut deadline = Instant::now() + pace.keep_alive;
    while !cancel.is_cancelled() {
        match source.next(deadline, cancel) {
            Next::Event(event) => write(&event.wire())?,
            Next::Quiet if Instant::now() < deadline => continue,
            Next::Quiet => write(COMMENT)?,
            Next::End => return Ok(()),
        }
        deadline = Instant::now() + pace.keep_alive;
    }
    Ok(())
}
