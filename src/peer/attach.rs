//! A person at the terminal of another process's task: what both sides say, and the person's side.

use std::io::{self, BufReader};
use std::os::unix::net::UnixStream;
use std::time::Instant;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::client::{Peer, failed};
use super::{ANSWER_LIMIT, Owner, PeerError, from_base64, to_base64};
use crate::process::pty::TerminalSize;
use crate::protocol::framing::MAX_FRAME_BYTES;
use crate::protocol::reader::FrameReader;

/// The request that attaches a person to a task. Its response, an [`AttachEnd`], comes at the task's
/// end; until then both sides send notifications.
pub(crate) const ATTACH: &str = "zsh-tool/attach";
/// To the person, first and once: an [`AttachState`].
pub(crate) const ATTACH_STATE: &str = "zsh-tool/state";
/// To the person: [`Bytes`] for the terminal.
pub(crate) const ATTACH_OUTPUT: &str = "zsh-tool/output";
/// From the person: [`Typed`].
pub(crate) const ATTACH_INPUT: &str = "zsh-tool/input";
/// From the person: the [`TerminalSize`] of the window. The task redraws the screen.
pub(crate) const ATTACH_RESIZE: &str = "zsh-tool/resize";

/// The params of [`ATTACH`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AttachRequest {
    pub(crate) task_id: String,
    /// The size of the person's terminal.
    pub(crate) size: TerminalSize,
    /// The person only watches.
    #[serde(default)]
    pub(crate) read_only: bool,
}

/// What an attached person can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum AttachMode {
    /// Type and see on the task's terminal.
    Terminal,
    /// See the task's terminal.
    WatchTerminal,
    /// Send lines to the task's stdin.
    Lines,
    /// See the output of a task without a terminal.
    WatchOutput,
}

/// How an attachment begins.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AttachState {
    pub(crate) mode: AttachMode,
}

/// Raw bytes, in JSON as base64.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Bytes {
    #[serde(serialize_with = "to_base64", deserialize_with = "from_base64")]
    pub(crate) data: Vec<u8>,
}

/// What a person types.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Typed {
    #[serde(flatten)]
    pub(crate) bytes: Bytes,
    /// Whether the input ends after the bytes.
    #[serde(default)]
    pub(crate) end: bool,
}

/// How the task ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AttachEnd {
    pub(crate) status_line: String,
    pub(crate) exit_code: i32,
}

impl Peer {
    /// Attaches a person to a task.
    ///
    /// # Errors
    /// When the owner refuses or does not answer.
    pub(crate) fn attach(
        self,
        request: &AttachRequest,
    ) -> Result<(AttachState, AttachSender, AttachReceiver), PeerError> {
        let begun = Instant::now();
        let failed = |error| self.failed(error, begun);
        let message =
            json!({"jsonrpc": "2.0", "id": self.id(), "method": ATTACH, "params": request});
        self.request(&message)
            .and_then(|()| self.stream.set_read_timeout(Some(ANSWER_LIMIT)))
            .map_err(failed)?;
        let input = self.stream.try_clone().map_err(failed)?;
        let frames = FrameReader::new(input, MAX_FRAME_BYTES);
        let mut events = AttachReceiver { owner: self.owner.clone(), frames };
        let AttachEvent::State(state) = events.next_event()? else {
            let error = io::Error::other("the first message is not the state");
            return Err(failed(error));
        };
        self.stream.set_read_timeout(None).map_err(failed)?;
        Ok((state, AttachSender(self), events))
    }
}

/// The sending side of an attached person. Writes wait for an owner that does not read; after a
/// failed write, the connection is unusable.
#[derive(Debug)]
pub(crate) struct AttachSender(Peer);

impl AttachSender {
    /// Types into the task.
    ///
    /// # Errors
    /// When the owner is gone or does not read.
    pub(crate) fn send_input(&self, data: Vec<u8>, end: bool) -> Result<(), PeerError> {
        self.notify(ATTACH_INPUT, &Typed { bytes: Bytes { data }, end })
    }

    /// Reports the size of the person's window, so that the task redraws the screen.
    ///
    /// # Errors
    /// As [`AttachSender::send_input`].
    pub(crate) fn resize(&self, size: TerminalSize) -> Result<(), PeerError> {
        self.notify(ATTACH_RESIZE, &size)
    }

    fn notify(&self, method: &str, params: &impl Serialize) -> Result<(), PeerError> {
        let begun = Instant::now();
        let written = self.0.write(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
        written.map_err(|error| self.0.failed(error, begun))
    }
}

/// A message to an attached person.
#[derive(Debug)]
pub(crate) enum AttachEvent {
    State(AttachState),
    Output(Vec<u8>),
    End(AttachEnd),
}

/// The receiving side of an attached person.
#[derive(Debug)]
pub(crate) struct AttachReceiver {
    owner: Owner,
    frames: FrameReader<BufReader<UnixStream>>,
}

impl AttachReceiver {
    /// Waits for the next event.
    ///
    /// # Errors
    /// When the owner refuses or is gone.
    pub(crate) fn next_event(&mut self) -> Result<AttachEvent, PeerError> {
        let begun = Instant::now();
        loop {
            let frame = match self.frames.next_frame() {
                Ok(Some(Ok(frame))) => frame,
                Ok(Some(Err(error))) => return Err(self.failed(io::Error::other(error), begun)),
                Ok(None) => return Err(PeerError::Gone(self.owner.clone())),
                Err(error) => return Err(self.failed(error, begun)),
            };
            match read_event(&frame).map_err(|error| self.failed(error.into(), begun))? {
                Some(Ok(event)) => return Ok(event),
                Some(Err(refusal)) => return Err(PeerError::Refused(refusal)),
                None => {}
            }
        }
    }

    fn failed(&self, error: io::Error, begun: Instant) -> PeerError {
        failed(&self.owner, error, begun)
    }
}

/// Reads an event or a refusal; `None` for a message of a later version.
fn read_event(frame: &[u8]) -> serde_json::Result<Option<Result<AttachEvent, String>>> {
    let mut message: Value = serde_json::from_slice(frame)?;
    if let Some(error) = message.get("error") {
        let text = error.get("message").and_then(Value::as_str).unwrap_or_default();
        return Ok(Some(Err(text.to_owned())));
    }
    if let Some(result) = message.get_mut("result") {
        return Ok(Some(Ok(AttachEvent::End(serde_json::from_value(result.take())?))));
    }
    let params = message.get_mut("params").map(Value::take).unwrap_or_default();
    Ok(match message.get("method").and_then(Value::as_str) {
        Some(ATTACH_STATE) => Some(Ok(AttachEvent::State(serde_json::from_value(params)?))),
        Some(ATTACH_OUTPUT) => {
            let bytes: Bytes = serde_json::from_value(params)?;
            Some(Ok(AttachEvent::Output(bytes.data)))
        }
        _ => None,
    })
}
