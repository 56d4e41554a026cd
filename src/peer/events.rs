//! The events of the tasks of another process, as they come.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use serde_json::{Value, json};

use super::{DELIVERED, EVENT, EVENTS, Owner, PeerError, REQUEST_ID, WRITE_LIMIT, unless_closed};
use crate::process::local_socket;
use crate::task::journal::CONTROL_SOCKET;

/// The largest message; an event is much smaller.
const MAX_MESSAGE: usize = 1 << 20;
/// Bytes read at once: more than an event and what may follow it.
const CHUNK: usize = 64 * 1024;

/// The id of the ping ahead of the request: one that does not answer it is frozen.
const PING_ID: u64 = REQUEST_ID + 1;

/// A stream of events. One that follows brings the next event when the last is acknowledged.
#[derive(Debug)]
pub(crate) struct EventStream {
    stream: UnixStream,
    received: Vec<u8>,
    /// The number of the newest event.
    newest: u64,
    /// The owner has answered something.
    pub(crate) answers: bool,
    /// All that was pending has been received.
    pub(crate) is_complete: bool,
}

/// What a stream has brought.
#[derive(Debug)]
pub(crate) enum Received {
    /// Events, for [`EventStream::acknowledge`]. If there are none, read again when the stream is
    /// readable.
    Events(Vec<Value>),
    /// There will be no more events: the owner ends, or has failed. What was not acknowledged is pending with the owner.
    End,
}

impl EventStream {
    /// Asks for the events that are pending, and if `follow` is set for later ones.
    ///
    /// # Errors
    /// The owner has ended or does not listen.
    pub(crate) fn open(owner: &Owner, follow: bool) -> Result<EventStream, PeerError> {
        let ping = json!({"jsonrpc": "2.0", "id": PING_ID, "method": "ping"});
        let request = json!({
            "jsonrpc": "2.0",
            "id": REQUEST_ID,
            "method": EVENTS,
            "params": {"follow": follow},
        });
        let open = || {
            let stream = local_socket::connect(&owner.directory, CONTROL_SOCKET)?;
            local_socket::limit_writes(&stream, WRITE_LIMIT)?;
            let mut stream = EventStream {
                stream,
                received: Vec::new(),
                newest: 0,
                answers: false,
                is_complete: false,
            };
            unless_closed(stream.write(&ping).and_then(|()| stream.write(&request)))?;
            Ok(stream)
        };
        open().map_err(|_: io::Error| PeerError::Gone(owner.clone()))
    }

    /// Reads once, which waits unless the stream is readable. Events that the end follows already
    /// are not returned: the owner has taken them back.
    pub(crate) fn receive(&mut self) -> Received {
        let mut chunk = vec![0; CHUNK];
        match self.stream.read(&mut chunk) {
            Ok(count) if count > 0 => {
                self.received.extend_from_slice(chunk.get(..count).unwrap_or_default());
            }
            Ok(_) | Err(_) => return Received::End,
        }
        let mut events = Vec::new();
        while let Some(end) = self.received.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.received.drain(..=end).collect();
            let Ok(mut message) = serde_json::from_slice::<Value>(&line) else {
                return Received::End;
            };
            self.answers = true;
            if message.get("result").is_some() {
                self.is_complete |= message.get("id").and_then(Value::as_u64) == Some(REQUEST_ID);
                continue;
            }
            if message.get("method").and_then(Value::as_str) != Some(EVENT) {
                return Received::End;
            }
            let number = message.pointer("/params/event").and_then(Value::as_u64);
            let data = message.pointer_mut("/params/data").map(Value::take);
            self.newest = number.unwrap_or(self.newest);
            match data {
                Some(Value::Null) => self.is_complete = true,
                data => events.extend(data),
            }
        }
        match self.received.len() > MAX_MESSAGE {
            true => Received::End,
            false => Received::Events(events),
        }
    }

    /// Says that the events so far were passed on.
    ///
    /// # Errors
    /// The owner is gone.
    pub(crate) fn acknowledge(&mut self) -> io::Result<()> {
        let params = json!({"requestId": REQUEST_ID, "event": self.newest});
        self.write(&json!({"jsonrpc": "2.0", "method": DELIVERED, "params": params}))
    }

    fn write(&mut self, message: &Value) -> io::Result<()> {
        let mut line = message.to_string();
        line.push('\n');
        self.stream.write_all(line.as_bytes())
    }
}

impl AsFd for EventStream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}
