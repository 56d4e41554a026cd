//! Other processes that own tasks (servers, runs of agents): finding the owner of a task, and
//! calling it over its control socket.
//!
//! A connection serves one call, or one person at a task's terminal ([`Peer::attach`]); closing it
//! cancels the call. Output in a call's result counts as shown once [`Peer::delivered`] confirms
//! that it has reached its reader. If the connection ends earlier, the owner shows it again.
//!
//! Calls to a host ([`hosts`]) share one connection, but otherwise work the same.

use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Value, json};
use zeroize::Zeroize;

use crate::base::cancel::Cancel;
use crate::process::descriptors::{Interest, Poller, Waker};
use crate::process::executable::AllowedPrograms;
use crate::process::kill::Handle;
use crate::process::probe::StallReason;
use crate::process::pty::TerminalSize;
use crate::process::signals::Signal;
use crate::process::{local_socket, tree};
use crate::protocol::framing::MAX_FRAME_BYTES;
use crate::protocol::message;
use crate::protocol::reader::FrameReader;
use crate::task::environment::{self, StartEnvironment};
use crate::task::journal::{self, CONTROL_SOCKET};
use crate::text::foreign::ShowPath;
use link::{Carried, Link};

pub(crate) mod bootstrap;
pub(crate) mod events;
pub(crate) mod hosts;
pub(crate) mod link;
pub(crate) mod pages;
pub(crate) mod payload;

/// How long an answer may take beyond the wait that its call requests.
pub(crate) const ANSWER_LIMIT: Duration = Duration::from_secs(5);
/// How long the owner may take to read a request.
const WRITE_LIMIT: Duration = Duration::from_secs(5);
/// The key of [`RelayedClient`] in a call's `_meta`.
pub(crate) const RELAY_KEY: &str = "zsh-tool/relay";
/// The notification that a relayed result has reached its reader.
pub(crate) const DELIVERED: &str = "zsh-tool/delivered";
/// The method that requests events.
pub(crate) const EVENTS: &str = "zsh-tool/events";
/// The notification that brings an event, which [`DELIVERED`] acknowledges.
pub(crate) const EVENT: &str = "zsh-tool/event";
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
/// The notification that a server shuts down in order, so that its tasks on the host end at once.
pub(crate) const END: &str = "zsh-tool/end";
/// The id of the only request of a connection.
const REQUEST_ID: u64 = 1;

/// The client behind a relayed call, and values that the relaying server adds.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct RelayedClient {
    /// Its name; empty if it gave none.
    pub(crate) name: String,
    pub(crate) coloured: bool,
    /// How many bytes of a result reach the model; `None` if the client sets no limit.
    pub(crate) result_bytes: Option<usize>,
    /// How many seconds a call may wait; `None` for an unknown client.
    pub(crate) ceiling_s: Option<f64>,
    /// For the call that starts a shim: the shim ends its task when no process has been connected to
    /// it for this many seconds. `None`: the shim needs no connection.
    pub(crate) lease_s: Option<f64>,
    /// A person reads the answer, so the output it shows stays new for the task's agent.
    pub(crate) for_person: bool,
    /// The id for the task that the call starts, if the caller has chosen it.
    pub(crate) task_id: Option<String>,
    /// The secret that a call to a host types.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) secret: Option<RelayedSecret>,
    /// The environment for the command that a shim starts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) start: Option<RelayedStart>,
}

/// A [`StartEnvironment`] on its way to a shim.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RelayedStart {
    /// In the format of `/proc/PID/environ`. Some may be secrets.
    variables: RelayedSecret,
    files: Vec<PathBuf>,
    problems: Vec<String>,
}

impl From<StartEnvironment> for RelayedStart {
    fn from(start: StartEnvironment) -> RelayedStart {
        let mut data = Vec::new();
        for (name, value) in start.variables.iter() {
            data.extend([name.as_bytes(), b"=", value.as_bytes(), b"\0"].concat());
        }
        let variables = RelayedSecret { data, programs: AllowedPrograms::default() };
        RelayedStart { variables, files: start.files, problems: start.problems }
    }
}

impl From<&RelayedStart> for StartEnvironment {
    fn from(start: &RelayedStart) -> StartEnvironment {
        StartEnvironment {
            variables: Arc::new(environment::entries(&start.variables.data)),
            files: start.files.clone(),
            problems: start.problems.clone(),
        }
    }
}

/// A secret's bytes on their way to a host.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct RelayedSecret {
    #[serde(serialize_with = "to_base64", deserialize_with = "from_base64")]
    pub(crate) data: Vec<u8>,
    /// The programs there that may read it, if it is to be typed.
    #[serde(default)]
    pub(crate) programs: AllowedPrograms,
}

impl std::fmt::Debug for RelayedSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("RelayedSecret")
    }
}

impl Drop for RelayedSecret {
    fn drop(&mut self) {
        self.data.zeroize();
    }
}

/// Why another process did not carry out a call.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PeerError {
    /// The process has ended or has no control socket.
    #[error("process {0} owns this task and cannot be reached: if it has just ended, try again")]
    Gone(Owner),
    #[error(
        "process {owner} owns this task and has not answered for {} s{}", .waited.as_secs(),
        if *.stopped { format!(": it is stopped, `kill -CONT {owner}` continues it") } else { String::new() }
    )]
    Silent {
        owner: Owner,
        waited: Duration,
        /// A signal has stopped it.
        stopped: bool,
    },
    /// The error that it answered.
    #[error("{0}")]
    Refused(String),
    #[error("the call was cancelled")]
    Cancelled,
    #[error("process {owner} owns this task and its answer cannot be read: {source}")]
    Unreadable { owner: Owner, source: io::Error },
}

/// A process that owns tasks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Owner {
    /// Its directory below the state directory.
    pub(crate) directory: PathBuf,
}

impl Owner {
    /// Terminates the process, which ends its tasks.
    pub(crate) fn end(&self) {
        let process = journal::server_pid(&self.directory).and_then(tree::look_up);
        // The lock shows that the pid still belongs to this process.
        if let Some(process) = process.filter(|_| journal::server_lives(&self.directory))
            && let Ok(handle) = Handle::open(process.id)
        {
            // Fails only if the process has ended.
            let _ = handle.signal(Signal::Term);
        }
    }

    /// Waits for the end of the process; returns false if it has not ended within the limit.
    pub(crate) fn await_end(&self, limit: Duration) -> bool {
        let process = journal::server_pid(&self.directory).and_then(tree::look_up);
        if let Some(handle) = process.and_then(|process| Handle::open(process.id).ok())
            && let Some(end) = handle.ended()
        {
            let mut poller = Poller::default();
            poller.watch(end, Interest::Read);
            poller.wait(Some(limit));
        }
        !journal::server_lives(&self.directory)
    }
}

impl std::fmt::Display for Owner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match journal::server_pid(&self.directory) {
            Some(pid) => write!(f, "{pid}"),
            None => write!(f, "of {}", self.directory.shown()),
        }
    }
}

/// The living shim that holds a detached task.
pub(crate) fn shim_of(state: &Path, task: &str) -> Option<Owner> {
    if !journal::is_task_id(task) {
        return None;
    }
    let directory = journal::shims(state).into_iter().find(|directory| {
        journal::read(directory, task).is_some() && journal::server_lives(directory)
    })?;
    Some(Owner { directory })
}

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

fn to_base64<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&BASE64.encode(bytes))
}

fn from_base64<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
    BASE64.decode(String::deserialize(deserializer)?).map_err(D::Error::custom)
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
    owner: Owner,
    /// Carries incoming messages, and outgoing ones unless the connection is shared.
    stream: UnixStream,
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
    fn id(&self) -> u64 {
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
    fn await_result(
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
                        let params = json!({"requestId": REQUEST_ID, "reason": "timed out"});
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

    fn request(&self, message: &Value) -> io::Result<()> {
        local_socket::limit_writes(&self.stream, WRITE_LIMIT)?;
        unless_closed(self.write(message))
    }

    fn write(&self, message: &Value) -> io::Result<()> {
        if let Some(carried) = &self.carried {
            return carried.send(message);
        }
        let mut line = message.to_string();
        line.push('\n');
        (&self.stream).write_all(line.as_bytes())
    }

    fn failed(&self, error: io::Error, begun: Instant) -> PeerError {
        failed(&self.owner, error, begun)
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
    frames: FrameReader<UnixStream>,
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

/// Ignores that the owner has closed the connection, since it may have sent its reason, which the
/// caller reads next.
fn unless_closed(written: io::Result<()>) -> io::Result<()> {
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
fn failed(owner: &Owner, error: io::Error, begun: Instant) -> PeerError {
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
