//! Sends server-sent events to one client until either side ends the stream.
//!
//! A comment is sent when there are no events, so that proxies keep the connection open. A client
//! that does not read is dropped when a write times out. When a client is gone, [`super::listener`],
//! which watches the socket, cancels the stream.

use std::time::{Duration, Instant};

use super::response::{EventSource, StreamStep};
use super::wire::{Wire, WireError};
use crate::base::cancel::Cancel;

/// Makes browsers wait before they reconnect, so that not all of them do so at once when the server
/// restarts.
const OPENING: &str = "retry: 1000\n\n";
/// Ignored by clients.
const COMMENT: &str = ":\n\n";

/// The times of a stream.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    /// The time without an event after which a comment is sent.
    pub keep_alive: Duration,
    /// How long a client may take to read one event.
    pub write: Duration,
}

/// Sends the source's events until it ends or the client is gone.
///
/// # Errors
/// When the client does not read.
pub(crate) fn send(
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
            StreamStep::Event(event) => write(&event.wire())?,
            StreamStep::Quiet if Instant::now() < deadline => continue,
            StreamStep::Quiet => write(COMMENT)?,
            StreamStep::End => return Ok(()),
        }
        deadline = Instant::now() + pace.keep_alive;
    }
    Ok(())
}
