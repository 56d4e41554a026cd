//! The stream of events from another process's tasks.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use serde_json::{Value, json};

use super::client::{REQUEST_ID, WRITE_LIMIT, unless_closed};
use super::{DELIVERED, EVENT, EVENTS, Owner, PeerError};
use crate::process::local_socket;
use crate::task::journal::CONTROL_SOCKET;

/// The largest message; an event is much smaller.
const MAX_MESSAGE: usize = 1 << 20;
/// Bytes read at once: enough for an event and the end that may follow it.
const CHUNK: usize = 64 * 1024;

/// The id of the ping before the request, which even an owner without events answers at once.
const PING_ID: u64 = REQUEST_ID + 1;

/// A stream of events. With `follow`, the owner sends the next event after the acknowledgement of
/// the last.
#[derive(Debug)]
pub(crate) struct EventStream {
    stream: UnixStream,
    received: Vec<u8>,
    /// The number of the newest event.
    newest: u64,
    /// The owner has sent a message.
    pub(crate) answers: bool,
    /// All that was pending has been received.
    pub(crate) is_complete: bool,
}

/// The outcome of one read from a stream.
#[derive(Debug)]
pub(crate) enum Received {
    /// Events to be acknowledged, possibly none yet.
    Events(Vec<Value>),
    /// The owner ends or has failed. Events that were not acknowledged stay pending with it.
    End,
}

impl EventStream {
    /// Requests the pending events and, with `follow`, later ones.
    ///
    /// # Errors
    /// When the owner has ended or does not listen.
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

    /// Reads once, and blocks if the stream is not readable. Events read together with the end are
    /// dropped, since the owner has taken them back.
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
        if self.received.len() > MAX_MESSAGE { Received::End } else { Received::Events(events) }
    }

    /// Acknowledges all events received so far.
    ///
    /// # Errors
    /// When the owner is gone.
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
