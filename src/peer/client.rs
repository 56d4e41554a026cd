//! Lets another process carry out a call, over its control socket or over a connection to a host.

use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::link::{Carried, Link};
use super::relayed::{RELAY_KEY, RelayedClient};
use super::{ANSWER_LIMIT, DELIVERED, Owner, PeerError};
use crate::base::cancel::Cancel;
use crate::process::descriptors::{Interest, Poller, Waker};
use crate::process::probe::StallReason;
use crate::process::{local_socket, tree};
use crate::protocol::framing::MAX_FRAME_BYTES;
use crate::protocol::message;
use crate::protocol::reader::FrameReader;
use crate::task::journal::{self, CONTROL_SOCKET};

/// How long the owner may take to read a request.
pub(super) const WRITE_LIMIT: Duration = Duration::from_secs(5);
/// The id of the only request of a connection.
pub(super) const REQUEST_ID: u64 = 1;

/// Lets the owner of a task carry out a tool call for a person. Output in the result stays new for
/// the task's agent. `wait` is how long the owner may wait before it answers.
///
/// # Errors
/// When there is no result, or it is an error; [`PeerError::Refused`] then has its text.
pub(crate) fn call_for_person(
    owner: Owner,
    tool: &str,
    arguments: &Value,
    wait: Duration,
) -> Result<Value, PeerError> {
    let call = PeerCall {
        tool,
        arguments,
        client: RelayedClient { for_person: true, ..RelayedClient::default() },
        limit: wait + ANSWER_LIMIT,
        cancel: &Cancel::default(),
    };
    let result = Peer::connect(owner)?.call(&call, None)?;
    match result.get("isError").and_then(Value::as_bool) {
        Some(true) => Err(PeerError::Refused(text_of(&result).to_owned())),
        _ => Ok(result),
    }
}

/// The text of a tool's result.
pub(crate) fn text_of(result: &Value) -> &str {
    result.pointer("/content/0/text").and_then(Value::as_str).unwrap_or_default()
}

/// A tool call for another process.
#[derive(Debug)]
pub(crate) struct PeerCall<'a> {
    pub(crate) tool: &'a str,
    pub(crate) arguments: &'a Value,
    pub(crate) client: RelayedClient,
    /// How long the answer may take.
    pub(crate) limit: Duration,
    /// Ends the call early.
    pub(crate) cancel: &'a Cancel,
}

/// A connection to the owner of a task.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(super) owner: Owner,
    /// Carries incoming messages, and outgoing ones unless the connection is shared.
    pub(super) stream: UnixStream,
    /// This call's part of a shared connection.
    carried: Option<Carried>,
}

impl Peer {
    /// Connects to a process that owns tasks.
    ///
    /// # Errors
    /// When the process has ended or does not listen.
    pub(crate) fn connect(owner: Owner) -> Result<Peer, PeerError> {
        match local_socket::connect(&owner.directory, CONTROL_SOCKET) {
            Ok(stream) => Ok(Peer { owner, stream, carried: None }),
            Err(_) => Err(PeerError::Gone(owner)),
        }
    }

    /// Wraps the connection to a process that was started for one call.
    pub(crate) fn launched(stream: UnixStream) -> Peer {
        Peer { owner: Owner { directory: PathBuf::new() }, stream, carried: None }
    }

    /// Begins a call on a shared connection.
    ///
    /// # Errors
    /// When no descriptor is left.
    pub(crate) fn carried(link: Arc<Link>) -> io::Result<Peer> {
        let (carried, stream) = Carried::begin(link)?;
        Ok(Peer { carried: Some(carried), ..Peer::launched(stream) })
    }

    /// The id of the call.
    pub(super) fn id(&self) -> u64 {
        self.carried.as_ref().map_or(REQUEST_ID, |carried| carried.number)
    }

    /// Calls a tool and waits for its result. `progress` receives the params of progress messages.
    ///
    /// # Errors
    /// When there is no result; the call is then cancelled.
    pub(crate) fn call(
        &mut self,
        call: &PeerCall,
        progress: Option<&mut dyn FnMut(&Value)>,
    ) -> Result<Value, PeerError> {
        let mut meta = json!({RELAY_KEY: &call.client});
        if progress.is_some() {
            message::put(&mut meta, "progressToken", self.id());
        }
        let request = json!({
            "jsonrpc": "2.0",
            "id": self.id(),
            "method": "tools/call",
            "params": {"name": call.tool, "arguments": call.arguments, "_meta": meta},
        });
        let begun = Instant::now();
        self.request(&request).map_err(|error| self.failed(error, begun))?;
        self.await_result(begun, call.limit, call.cancel, progress)
    }

    /// Waits for the result of the request that began then.
    pub(super) fn await_result(
        &mut self,
        begun: Instant,
        limit: Duration,
        cancel: &Cancel,
        mut progress: Option<&mut dyn FnMut(&Value)>,
    ) -> Result<Value, PeerError> {
        let (waker, wakes) = Waker::new().map_err(|error| self.failed(error, begun))?;
        cancel.set_waker(waker);
        let input = AwaitedInput { stream: &self.stream, wakes, deadline: begun + limit };
        let mut frames = FrameReader::new(input, MAX_FRAME_BYTES);
        loop {
            let frame = match frames.next_frame() {
                Ok(Some(Ok(frame))) => frame,
                Ok(Some(Err(error))) => return Err(self.failed(io::Error::other(error), begun)),
                Ok(None) => return Err(PeerError::Gone(self.owner.clone())),
                Err(_) if cancel.is_cancelled() => {
                    if cancel.timed_out_after().is_some() {
                        // Without this, the end of the connection would end the task.
                        let params = json!({"requestId": self.id(), "reason": "timed out"});
                        let _ = self.write(&json!({
                            "jsonrpc": "2.0",
                            "method": "notifications/cancelled",
                            "params": params,
                        }));
                    }
                    return Err(PeerError::Cancelled);
                }
                Err(error) => return Err(self.failed(error, begun)),
            };
            let mut message: Value =
                serde_json::from_slice(&frame).map_err(|error| self.failed(error.into(), begun))?;
            let is_answer = message.get("error").is_some() || message.get("result").is_some();
            if let Some(carried) = self.carried.as_mut().filter(|_| is_answer) {
                carried.answered = true;
            }
            if let Some(error) = message.get("error") {
                let text = error.get("message").and_then(Value::as_str).unwrap_or_default();
                return Err(PeerError::Refused(text.to_owned()));
            }
            if let Some(result) = message.get_mut("result") {
                return Ok(result.take());
            }
            if let (Some(progress), Some(params)) = (&mut progress, message.get("params")) {
                progress(params);
            }
        }
    }

    /// Checks that the owner answers.
    ///
    /// # Errors
    /// When it does not.
    pub(crate) fn ping(&mut self) -> Result<(), PeerError> {
        let begun = Instant::now();
        let request = json!({"jsonrpc": "2.0", "id": self.id(), "method": "ping"});
        let answered = local_socket::limit_writes(&self.stream, WRITE_LIMIT)
            .and_then(|()| self.stream.set_read_timeout(Some(ANSWER_LIMIT)))
            .and_then(|()| self.write(&request))
            .and_then(|()| FrameReader::new(&self.stream, MAX_FRAME_BYTES).next_frame());
        match answered {
            Ok(Some(_)) => Ok(()),
            Ok(None) => Err(PeerError::Gone(self.owner.clone())),
            Err(error) => Err(self.failed(error, begun)),
        }
    }

    /// Confirms that the result of the call has reached its reader.
    pub(crate) fn delivered(self) {
        let notification =
            json!({"jsonrpc": "2.0", "method": DELIVERED, "params": {"requestId": self.id()}});
        if let Err(error) = self.write(&notification) {
            tracing::debug!(
                "the owner {} ended before its result was confirmed: {error}",
                self.owner
            );
        }
    }

    pub(super) fn request(&self, message: &Value) -> io::Result<()> {
        local_socket::limit_writes(&self.stream, WRITE_LIMIT)?;
        unless_closed(self.write(message))
    }

    pub(super) fn write(&self, message: &Value) -> io::Result<()> {
        if let Some(carried) = &self.carried {
            return carried.send(message);
        }
        let mut line = message.to_string();
        line.push('\n');
        (&self.stream).write_all(line.as_bytes())
    }

    pub(super) fn failed(&self, error: io::Error, begun: Instant) -> PeerError {
        failed(&self.owner, error, begun)
    }
}

/// Ignores that the owner has closed the connection, since it may have sent its reason, which the
/// caller reads next.
pub(super) fn unless_closed(written: io::Result<()>) -> io::Result<()> {
    match written {
        Err(error)
            if matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset) =>
        {
            Ok(())
        }
        written => written,
    }
}

/// Classifies the failure of a connection to an owner.
pub(super) fn failed(owner: &Owner, error: io::Error, begun: Instant) -> PeerError {
    let owner = owner.clone();
    match error.kind() {
        ErrorKind::TimedOut | ErrorKind::WouldBlock => {
            let process = journal::server_pid(&owner.directory).and_then(tree::look_up);
            let stopped = process.is_some_and(|process| {
                matches!(process.stall_reason, Some(StallReason::Stopped(_)))
            });
            PeerError::Silent { owner, waited: begun.elapsed(), stopped }
        }
        ErrorKind::BrokenPipe | ErrorKind::ConnectionReset => PeerError::Gone(owner),
        _ => PeerError::Unreadable { owner, source: error },
    }
}

/// Reads from a socket until a deadline or a wake-up, both of which are errors.
struct AwaitedInput<'a> {
    stream: &'a UnixStream,
    wakes: OwnedFd,
    deadline: Instant,
}

impl Read for AwaitedInput<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let rest = self.deadline.saturating_duration_since(Instant::now());
            if rest.is_zero() {
                return Err(ErrorKind::TimedOut.into());
            }
            let mut poller = Poller::default();
            let input = poller.watch(self.stream.as_fd(), Interest::Read);
            let wakes = poller.watch(self.wakes.as_fd(), Interest::Read);
            poller.wait(Some(rest));
            if poller.ready(Some(wakes)) {
                return Err(ErrorKind::ConnectionAborted.into());
            }
            if poller.ready(Some(input)) {
                return (&mut &*self.stream).read(buffer);
            }
        }
    }
}
