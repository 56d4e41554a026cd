//! One connection that carries the calls of many threads: each has a number, and a socket of its
//! own that what comes for it is written to.

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

/// The id of requests that only ask whether the other side is there.
const PING: &str = "ping";
/// A call that does not read what comes for it is dropped after this time.
const WRITE_LIMIT: Duration = Duration::from_secs(5);

/// A connection that is shared.
#[derive(Debug)]
pub(crate) struct Link {
    outbound: Outbound,
    calls: Mutex<HashMap<u64, UnixStream>>,
    next: AtomicU64,
    /// How many pings in a row are not answered.
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
    /// The connection is lost.
    pub(crate) fn send(&self, message: &Value) -> io::Result<()> {
        let sent = self.outbound.send(message.to_string().into_bytes());
        sent.map_err(|_| io::ErrorKind::BrokenPipe.into())
    }

    /// Asks whether the other side is there; false: it has not answered the last `limit` times.
    pub(super) fn ping(&self, limit: u32) -> bool {
        if self.unanswered.fetch_add(1, Ordering::Relaxed) >= limit {
            return false;
        }
        // A full queue has no room for a ping, which then counts as one that is not answered.
        self.outbound.is_full()
            || self.send(&json!({"jsonrpc": "2.0", "id": PING, "method": "ping"})).is_ok()
    }

    /// Hands over what has come.
    pub(super) fn receive(&self, received: Result<Frame, FrameError>) {
        let message = match received.map(|frame| serde_json::from_slice::<Value>(&frame)) {
            Ok(Ok(message)) => message,
            Ok(Err(error)) => return tracing::warn!("a message of a host is no JSON: {error}"),
            Err(error) => return tracing::warn!("a message of a host cannot be read: {error}"),
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
                // Only a person at a task gets such, who has the connection alone.
                None => calls.iter().next().filter(|_| calls.len() == 1),
            };
            call.and_then(|(number, call)| Some((*number, call.try_clone().ok()?)))
        };
        // Not under the lock: the call may read slowly.
        if let Some((number, mut call)) = found
            && call.write_all(format!("{message}\n").as_bytes()).is_err()
        {
            self.calls.lock().remove(&number);
        }
    }

    /// Ends the calls: nothing will come for them.
    pub(super) fn close(&self) {
        self.calls.lock().clear();
    }
}

/// A call's part of a connection. Dropping it cancels the call, unless it has been answered.
#[derive(Debug)]
pub(super) struct Carried {
    link: Arc<Link>,
    pub number: u64,
    pub answered: bool,
}

impl Carried {
    /// Begins a call; what comes for it can be read from the socket.
    pub(super) fn begin(link: Arc<Link>) -> io::Result<(Carried, UnixStream)> {
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
            // If the connection is lost there is nothing to cancel.
            let _ = self.send(&cancelled);
        }
    }
}
