//! One connection that carries the calls of many threads. Each call has a number, and a socket from
//! which it reads the messages for it.

use std::collections::HashMap;
use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::process::local_socket;
use crate::protocol::framing::{Frame, FrameError};
use crate::protocol::transport::Outbound;

/// The id of pings.
const PING: &str = "ping";
/// A call that does not read its messages for this long is dropped.
const WRITE_LIMIT: Duration = Duration::from_secs(5);

/// A shared connection.
#[derive(Debug)]
pub(crate) struct Link {
    outbound: Outbound,
    calls: Mutex<HashMap<u64, UnixStream>>,
    next: AtomicU64,
    /// The number of unanswered pings in a row.
    unanswered: AtomicU32,
}

impl Link {
    pub(crate) fn new(outbound: Outbound) -> Link {
        Link {
            outbound,
            calls: Mutex::default(),
            next: AtomicU64::new(1),
            unanswered: AtomicU32::new(0),
        }
    }

    /// Queues a message.
    ///
    /// # Errors
    /// When the connection is lost.
    pub(crate) fn send(&self, message: &Value) -> io::Result<()> {
        let sent = self.outbound.send(message.to_string().into_bytes());
        sent.map_err(|_| io::ErrorKind::BrokenPipe.into())
    }

    /// Pings the other side; returns false if it has not answered the last `limit` pings.
    pub(super) fn ping(&self, limit: u32) -> bool {
        if self.unanswered.fetch_add(1, Ordering::Relaxed) >= limit {
            return false;
        }
        // A ping that does not fit into the full queue counts as unanswered.
        self.outbound.is_full()
            || self.send(&json!({"jsonrpc": "2.0", "id": PING, "method": "ping"})).is_ok()
    }

    /// Hands a message over to its call.
    pub(crate) fn receive(&self, received: Result<Frame, FrameError>) {
        let message = match received.map(|frame| serde_json::from_slice::<Value>(&frame)) {
            Ok(Ok(message)) => message,
            Ok(Err(error)) => return tracing::warn!("a host's message is not JSON: {error}"),
            Err(error) => return tracing::warn!("a host's message cannot be read: {error}"),
        };
        if message.get("id").and_then(Value::as_str) == Some(PING) {
            self.unanswered.store(0, Ordering::Relaxed);
            return;
        }
        let number = message.get("id").or_else(|| message.pointer("/params/progressToken"));
        let number = number.and_then(Value::as_u64);
        let found = {
            let calls = self.calls.lock();
            let call = match number {
                Some(number) => calls.get_key_value(&number),
                // Only an attached person gets messages without a number, and has the connection
                // alone.
                None => calls.iter().next().filter(|_| calls.len() == 1),
            };
            call.and_then(|(number, call)| Some((*number, call.try_clone().ok()?)))
        };
        // Not under the lock, since the call may read slowly.
        if let Some((number, mut call)) = found
            && call.write_all(format!("{message}\n").as_bytes()).is_err()
        {
            self.calls.lock().remove(&number);
        }
    }

    /// Ends all calls.
    pub(crate) fn close(&self) {
        self.calls.lock().clear();
    }
}

/// A call's part of a connection. Dropping it cancels the call, unless it has been answered.
#[derive(Debug)]
pub(crate) struct Carried {
    link: Arc<Link>,
    pub(crate) number: u64,
    pub(crate) answered: bool,
}

impl Carried {
    /// Begins a call, whose messages can be read from the socket.
    pub(crate) fn begin(link: Arc<Link>) -> io::Result<(Carried, UnixStream)> {
        let (ours, theirs) = UnixStream::pair()?;
        local_socket::limit_writes(&theirs, WRITE_LIMIT)?;
        let number = link.next.fetch_add(1, Ordering::Relaxed);
        link.calls.lock().insert(number, theirs);
        Ok((Carried { link, number, answered: false }, ours))
    }

    pub(super) fn send(&self, message: &Value) -> io::Result<()> {
        self.link.send(message)
    }
}

impl Drop for Carried {
    fn drop(&mut self) {
        self.link.calls.lock().remove(&self.number);
        if !self.answered {
            let params = json!({"requestId": self.number});
            let cancelled =
                json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params});
            // If the connection is lost, nothing is left to cancel.
            let _ = self.send(&cancelled);
        }
    }
}
