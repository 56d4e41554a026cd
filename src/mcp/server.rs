//! The MCP server: methods on the reader thread, calls on threads of their own.
//!
//! The reader thread itself answers cheap requests (`initialize`, `server/discover`, `ping`,
//! `tools/list`), so that they never wait for calls. Both eras of the protocol are served side by
//! side: a request with an envelope is stateless; any other belongs to the connection's handshake.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use serde_json::{Value, json};
use zeroize::Zeroizing;

use super::access::Access;
use super::attach::Attachment;
use super::call::{Call, WrongCall};
use super::ceilings::{self, Learned};
use super::clients::{self, KeptOutput, KeptPart};
use super::codex;
#[cfg(feature = "conformance")]
use super::conformance::{self, StandIn};
use super::dispatch::{
    Answered, CallContext, ClientProfile, Given, ProgressMessage, ToolResult, Tools,
};
use super::elicitation::Asked;
use super::events::{Acknowledged, Event};
use super::in_flight::{BeginError, InFlight, MAX_CALLS};
use super::render::result::Palette;
use super::rpc_error::RpcError;
use super::tools::{self, ShellText, Tool};
use crate::base::cancel::Cancel;
use crate::config::{ColorChoice, MAX_WAIT};
use crate::peer::attach::{ATTACH, ATTACH_INPUT, ATTACH_RESIZE};
use crate::peer::pages::{PAGE, PageRequest};
use crate::peer::relayed::{RELAY_KEY, RelayedClient};
use crate::peer::{DELIVERED, END, EVENT, EVENTS};
use crate::process::ledger::{Entry, Inherited, Ledger, RequestKind, Unanswered};
use crate::process::local_socket::PeerProcess;
use crate::process::threads::KeptThreads;
use crate::protocol::era::{ClientInfo, Hello, initialize_result, negotiate};
use crate::protocol::framing::{Frame, FrameError};
use crate::protocol::id::RequestId;
use crate::protocol::message::{
    self, INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, Incoming, METHOD_NOT_FOUND, Malformed,
    parse,
};
use crate::protocol::outbox::OnWritten;
use crate::protocol::stateless::{
    self, CacheScope, DISCOVER, Envelope, EnvelopeError, LISTEN, MISSING_CLIENT_CAPABILITY,
    ResultType,
};
use crate::protocol::tasks::Operation;
use crate::protocol::transport::Outbound;
use crate::task::environment::StartEnvironment;
use crate::task::journal::is_task_id;
use crate::task::registry::TaskHandle;
use crate::task::shell::ShellKind;
use crate::task::supervisor::Supervisor;
use crate::task::told::ShownMark;
use crate::text::foreign;
use crate::text::mask::Secret;
use crate::text::quantity::tenths;

/// A call needs little stack: its buffers are on the heap.
const CALL_STACK: usize = 512 * 1024;
/// The client that renders colours in results (measured). It declares the tasks extension when a
/// person uses it; otherwise only the model reads results.
const COLOURING_CLIENT: &str = "claude-code";
/// The answer to a call that its client seems to have given up.
const GIVEN_UP: &str = "another call arrived while this one was unanswered for seconds, so its client \
    seems to have given it up. No command was ended for that: zsh_tasks lists what runs";
/// How many characters of an unknown name an error repeats.
const QUOTED_CHARS: usize = 100;

/// The era of the protocol that a request belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Era {
    /// Without an envelope: the handshake, if there was one, describes the client.
    Legacy,
    /// With an envelope, which describes the client in each request.
    Stateless(Envelope),
}

impl Era {
    /// A result in the form of this era.
    fn result(&self, result_type: ResultType, result: Value) -> Value {
        match self {
            Era::Legacy => result,
            Era::Stateless(_) => stateless::stamped(result_type, result),
        }
    }

    /// Whether the answer to a call may be a task.
    fn takes_tasks(&self) -> bool {
        match self {
            Era::Legacy => false,
            Era::Stateless(envelope) => envelope.takes_tasks,
        }
    }
}

/// A result that may not have reached its reader yet.
struct Undelivered {
    id: RequestId,
    task: Arc<TaskHandle>,
    /// How much of the task had been shown before this result.
    before: ShownMark,
}

impl Undelivered {
    fn take_back(self, supervisor: &Supervisor) {
        supervisor.take_back(&self.task, self.before);
    }
}

/// The server's side of a connection.
pub(crate) struct Server {
    tools: Arc<Tools>,
    access: Access,
    /// Results for other servers that they have not yet passed on.
    undelivered: Mutex<Vec<Undelivered>>,
    /// Signalled when a result is delivered or taken back.
    delivered: Condvar,
    events: Acknowledged,
    calls: InFlight,
    /// Runs the calls. Its threads are not joined: `calls` counts what is under way, and shutdown
    /// waits for that.
    call_threads: KeptThreads,
    /// The person attached over this connection; the running call owns it.
    attachment: Mutex<Weak<Attachment>>,
    /// The client has made a valid request.
    has_requested: AtomicBool,
    /// The client has requested events.
    streams_events: AtomicBool,
    shook_hands: AtomicBool,
    /// The client has announced its end.
    ended: AtomicBool,
    /// A stateless request has been served.
    served_stateless: AtomicBool,
    /// The client of the handshake.
    client_info: Mutex<ClientInfo>,
    /// The prompts that a client which opens addresses was asked for; `None` for others.
    asked: Mutex<Option<Asked>>,
    /// Calls that were given up by a client that has only the name of its SDK.
    learned: Mutex<Vec<Learned>>,
    /// What a server that replaces this one takes over.
    ledger: Option<Arc<Ledger>>,
}

impl Server {
    pub(crate) fn new(tools: Arc<Tools>, access: Access) -> Server {
        Server {
            tools,
            access,
            undelivered: Mutex::default(),
            delivered: Condvar::new(),
            events: Acknowledged::default(),
            calls: InFlight::default(),
            call_threads: KeptThreads::new("call", CALL_STACK),
            attachment: Mutex::default(),
            has_requested: AtomicBool::new(false),
            streams_events: AtomicBool::new(false),
            shook_hands: AtomicBool::new(false),
            ended: AtomicBool::new(false),
            served_stateless: AtomicBool::new(false),
            client_info: Mutex::default(),
            asked: Mutex::default(),
            learned: Mutex::default(),
            ledger: None,
        }
    }

    /// The server, which keeps in the ledger what one that replaces it takes over.
    pub(crate) fn with_ledger(self, ledger: Option<Arc<Ledger>>) -> Server {
        if let Some(ledger) = &ledger {
            let _ = self.tools.ledger.set(Arc::clone(ledger));
        }
        Server { ledger, ..self }
    }

    /// Processes one frame; runs on the reader thread.
    pub(crate) fn receive(
        self: &Arc<Self>,
        outbound: &Outbound,
        received: Result<Frame, FrameError>,
    ) {
        let parsed =
            received.map_err(Malformed::from).and_then(|frame| Ok((parse(&frame)?, frame)));
        let entry = self.take(outbound, parsed.as_ref().ok());
        self.process(outbound, parsed.map(|(incoming, _)| incoming), entry);
    }

    /// Notes in the ledger what a frame asks for, and that it will not be read again.
    fn take(&self, outbound: &Outbound, parsed: Option<&(Incoming, Frame)>) -> Option<Entry> {
        let ledger = self.ledger.as_ref()?;
        let entry = match parsed {
            Some((Incoming::Request { id, method, params }, frame)) => {
                let is_stateless = || matches!(Envelope::from_params(params.as_ref()), Ok(Some(_)));
                let kind = match method.as_str() {
                    "initialize" => RequestKind::Handshake,
                    "tools/call" => RequestKind::Call { stateless: is_stateless() },
                    _ => RequestKind::Repeatable,
                };
                let id = serde_json::to_string(id).unwrap_or_default();
                ledger.note(&id, kind, frame)
            }
            _ => None,
        };
        if let Some(framing) = outbound.framing() {
            ledger.set_framing(framing.code());
        }
        ledger.take(entry.as_ref());
        entry
    }

    /// Takes over the client of a server that was killed, before anything is read.
    pub(crate) fn inherit(&self, inherited: &Inherited) {
        self.served_stateless.store(inherited.serves_stateless, Ordering::Relaxed);
        let hello = inherited.hello.as_ref().and_then(|frame| parse(frame).ok());
        if let Some(Incoming::Request { id, params, .. }) = hello {
            self.has_requested
                .store(self.initialize(&id, params.as_ref()).is_ok(), Ordering::Relaxed);
        }
    }

    /// Answers the requests that a killed server has left open: a call gets an error that says what
    /// became of it, and any other request its usual answer. `cause` says how that server ended.
    pub(crate) fn answer_inherited(
        self: &Arc<Self>,
        outbound: &Outbound,
        unanswered: Vec<Unanswered>,
        cause: &str,
    ) {
        for Unanswered { id, kind, frame, task, entry } in unanswered {
            let id = serde_json::value::RawValue::from_string(id).ok();
            let Some(id) = id.and_then(|id| RequestId::from_raw(&id)) else {
                continue;
            };
            let reply = match (kind, frame) {
                (RequestKind::Handshake | RequestKind::Repeatable, Some(frame)) => {
                    self.process(outbound, parse(&frame), Some(entry));
                    continue;
                }
                (RequestKind::Handshake | RequestKind::Repeatable, None) => {
                    let text = format!("server restarted ({cause}): ask again");
                    RpcError::new(INTERNAL_ERROR, text).reply(&id)
                }
                (RequestKind::Call { stateless }, _) => {
                    let is_kept =
                        task.as_deref().is_some_and(|task| self.tools.recall(task).is_some());
                    let text = restarted(cause, task.as_deref(), is_kept);
                    let result = ToolResult::error(text).into_result();
                    let result = if stateless {
                        stateless::stamped(ResultType::Complete, result)
                    } else {
                        result
                    };
                    message::response(&id, &result)
                }
            };
            send_and(outbound, reply, Some(entry));
        }
    }

    fn process(
        self: &Arc<Self>,
        outbound: &Outbound,
        incoming: Result<Incoming, Malformed>,
        entry: Option<Entry>,
    ) {
        match incoming {
            Ok(Incoming::Request { id, method, params }) => {
                let mut entry = entry;
                let reply = self.request(outbound, &id, &method, params, &mut entry);
                self.has_requested.fetch_or(reply.is_ok(), Ordering::Relaxed);
                let reply = reply.unwrap_or_else(|refusal| Some(refusal.reply(&id)));
                if let Some(reply) = reply {
                    send_and(outbound, reply, entry);
                }
            }
            Ok(Incoming::Notification { method, params }) => self.notification(&method, params),
            Ok(Incoming::Response) => {}
            Err(malformed) => {
                if let Some(reply) = malformed.reply() {
                    send(outbound, reply);
                }
            }
        }
    }

    /// The reply to a request; `None` if the call's thread will send it.
    fn request(
        self: &Arc<Self>,
        outbound: &Outbound,
        id: &RequestId,
        method: &str,
        params: Option<Value>,
        entry: &mut Option<Entry>,
    ) -> Result<Option<Vec<u8>>, RpcError> {
        let era = self.era(method, params.as_ref())?;
        let work = match (&era, method) {
            (Era::Legacy, "initialize") => return self.initialize(id, params.as_ref()).map(Some),
            (Era::Legacy, "ping") => return Ok(Some(message::response(id, &json!({})))),
            (Era::Stateless(_), DISCOVER) => {
                let instructions = self.instructions(&era);
                let result = stateless::discovery(self.tools.offers_tasks(), &instructions);
                return Ok(Some(message::response(id, &result)));
            }
            (Era::Legacy, "tools/list") => {
                let marks_nullable = clients::is_sdk(&self.client_info.lock().name);
                return Ok(Some(message::response(
                    id,
                    &tools::list(marks_nullable, self.shell_text()),
                )));
            }
            (Era::Stateless(envelope), "tools/list") => {
                let marks_nullable = clients::is_sdk(&envelope.client.name);
                let list = tools::list(marks_nullable, self.shell_text());
                let scope = if marks_nullable { CacheScope::Private } else { CacheScope::Public };
                let result = stateless::cacheable(scope, list);
                return Ok(Some(message::response(id, &result)));
            }
            (Era::Stateless(_), LISTEN) => {
                // The subscription stays open until the client cancels it, but no notification
                // follows: tools never change.
                let text = "subscriptions/listen needs params.notifications, an object";
                let acknowledged = stateless::acknowledgement(id, params.as_ref());
                return acknowledged.map(Some).ok_or_else(|| RpcError::new(INVALID_PARAMS, text));
            }
            (_, "tools/call") => {
                #[cfg(feature = "conformance")]
                let params = match conformance::stand_in(params, era.takes_tasks())? {
                    StandIn::Call(params) => params,
                    StandIn::Result(result) => {
                        let result = era.result(ResultType::Complete, result);
                        return Ok(Some(message::response(id, &result)));
                    }
                };
                Work::tool(params)?
            }
            (Era::Legacy, EVENTS) if self.access != Access::Full => {
                self.streams_events.store(true, Ordering::Relaxed);
                Work::Events { follow: events_follow(params.as_ref()) }
            }
            (Era::Legacy, PAGE) if self.access == Access::Carrier => {
                let request = params.map(serde_json::from_value).transpose();
                let Ok(Some(request)) = request else {
                    return Err(RpcError::new(INVALID_PARAMS, "expected the request of a page"));
                };
                Work::Page(request)
            }
            (Era::Legacy, ATTACH) => match self.access {
                Access::ControlSocket(client) => self.attach(outbound, params, client)?,
                Access::Full | Access::Launch | Access::Carrier => {
                    return Err(unknown_method(method));
                }
            },
            (Era::Stateless(envelope), _) => match Operation::from_method(method) {
                Some(operation) if self.tools.offers_tasks() && self.access == Access::Full => {
                    Work::task(operation, envelope, params.as_ref())?
                }
                _ => return Err(unknown_method(method)),
            },
            (Era::Legacy, _) => return Err(unknown_method(method)),
        };
        self.start_call(outbound, id, era, work, entry)
    }

    /// The era of a request: stateless with an envelope, otherwise that of the connection. A
    /// connection without a handshake counts as legacy until it has made a stateless request.
    fn era(&self, method: &str, params: Option<&Value>) -> Result<Era, RpcError> {
        if let Some(envelope) = Envelope::from_params(params)? {
            self.served_stateless.store(true, Ordering::Relaxed);
            if let Some(ledger) = &self.ledger {
                ledger.set_serves_stateless();
            }
            return Ok(Era::Stateless(envelope));
        }
        let legacy = match method {
            "initialize" | "ping" => true,
            DISCOVER => false,
            _ => {
                self.shook_hands.load(Ordering::Relaxed)
                    || !self.served_stateless.load(Ordering::Relaxed)
            }
        };
        if legacy { Ok(Era::Legacy) } else { Err(EnvelopeError::no_envelope().into()) }
    }

    fn initialize(&self, id: &RequestId, params: Option<&Value>) -> Result<Vec<u8>, RpcError> {
        let hello = Hello::from_params(params)
            .map_err(|error| RpcError::new(INVALID_PARAMS, error.to_string()))?;
        self.shook_hands.store(true, Ordering::Relaxed);
        *self.asked.lock() = hello.opens_addresses().then(Asked::default);
        *self.client_info.lock() = hello.client_info;
        let version = negotiate(&hello.protocol_version);
        let instructions = self.instructions(&Era::Legacy);
        Ok(message::response(id, &initialize_result(version, &instructions)))
    }

    /// Attaches a person; a connection has room for one.
    fn attach(
        &self,
        outbound: &Outbound,
        params: Option<Value>,
        client: PeerProcess,
    ) -> Result<Work, RpcError> {
        let mut current = self.attachment.lock();
        if current.strong_count() > 0 {
            let text = "a person is attached over this connection: open another one";
            return Err(RpcError::new(INVALID_REQUEST, text));
        }
        let attachment = Attachment::begin(&self.tools.supervisor, outbound, params)?;
        let attachment = Arc::new(attachment);
        *current = Arc::downgrade(&attachment);
        let task = attachment.task_id();
        tracing::info!("{client} is attached to task {task} by the control socket");
        Ok(Work::Attach(attachment))
    }

    fn notification(&self, method: &str, params: Option<Value>) {
        if matches!(method, ATTACH_INPUT | ATTACH_RESIZE) {
            let attachment = self.attachment.lock().upgrade();
            match attachment {
                Some(attachment) if method == ATTACH_INPUT => attachment.enter(params),
                Some(attachment) => attachment.resize(params),
                None => {}
            }
            return;
        }
        if method == END {
            self.ended.store(true, Ordering::Relaxed);
        }
        let id = params.as_ref().and_then(|params| params.get("requestId"));
        match (method, id.and_then(RequestId::from_value)) {
            ("notifications/cancelled", Some(id)) => {
                let reason = params.as_ref().and_then(|params| params.get("reason")?.as_str());
                self.calls.cancel(&id, reason);
            }
            (DELIVERED, Some(id)) => {
                let event = params.as_ref().and_then(|params| params.get("event")?.as_u64());
                if let Some(number) = event {
                    self.events.note(number, &self.tools.supervisor);
                }
                self.undelivered.lock().retain(|result| result.id != id);
                self.delivered.notify_all();
            }
            _ => {}
        }
    }

    /// Takes back the results that did not reach their reader before the connection ended, so that
    /// their output is shown again.
    pub(crate) fn take_back_undelivered(&self) {
        for lost in std::mem::take(&mut *self.undelivered.lock()) {
            lost.take_back(&self.tools.supervisor);
        }
        self.delivered.notify_all();
    }

    /// Waits for at most `limit` until all calls are over and their results delivered or taken
    /// back.
    pub(crate) fn await_delivered(&self, limit: Duration) {
        let deadline = Instant::now() + limit;
        self.calls.await_none(limit);
        let mut undelivered = self.undelivered.lock();
        while !undelivered.is_empty()
            && !self.delivered.wait_until(&mut undelivered, deadline).timed_out()
        {}
    }

    /// Whether the client announced its end, instead of only disconnecting.
    pub(crate) fn was_ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }

    /// Whether a call is under way.
    pub(crate) fn is_busy(&self) -> bool {
        self.calls.any()
    }

    /// Whether the client has made a valid request.
    pub(crate) fn has_requested(&self) -> bool {
        self.has_requested.load(Ordering::Relaxed)
    }

    /// Whether the client has requested events; such a client reconnects when disconnected.
    pub(crate) fn streams_events(&self) -> bool {
        self.streams_events.load(Ordering::Relaxed)
    }

    /// Cancels the calls under way, whose client is gone.
    pub(crate) fn cancel_calls(&self) {
        self.calls.cancel_all();
    }

    fn start_call(
        self: &Arc<Self>,
        outbound: &Outbound,
        id: &RequestId,
        era: Era,
        work: Work,
        entry: &mut Option<Entry>,
    ) -> Result<Option<Vec<u8>>, RpcError> {
        let (name, answering) = (work.name(), era.clone());
        let is_tool = matches!(work, Work::Tool { .. });
        // A tool that fails returns an error as its result; any other method a JSON-RPC error.
        let cannot = |text: String| {
            if !is_tool {
                return Err(RpcError::new(INTERNAL_ERROR, text));
            }
            let result = ToolResult::error(text).into_result();
            let result = answering.result(ResultType::Complete, result);
            Ok(Some(message::response(id, &result)))
        };
        let client = self.client_info(&era).name;
        // Hosts and other processes of the user send calls of many clients at once.
        let may_give_up = is_tool
            && self.access == Access::Full
            && self.shook_hands.load(Ordering::Relaxed)
            && clients::is_sdk(&client);
        let cancel = match self.calls.begin(id, &client, may_give_up) {
            Ok(begun) => {
                if let Some(waited) = begun.gave_up_after {
                    // First, since the limit counts for the new call too.
                    self.learn(&era, ceilings::limit_of_given_up(waited));
                }
                begun.cancel
            }
            Err(BeginError::Busy) => {
                return cannot(format!(
                    "{MAX_CALLS} calls are under way, the limit: wait for one to end and try again"
                ));
            }
            Err(BeginError::IdTaken) => {
                let text = "a request of this id is still under way";
                return Err(RpcError::new(INVALID_REQUEST, text));
            }
        };
        let call = RunningCall {
            server: Arc::clone(self),
            outbound: outbound.clone(),
            id: id.clone(),
            era,
            work,
            cancel,
            entry: entry.take(),
        };
        let started = self.call_threads.run(name, move || call.run());
        match started {
            Ok(()) => Ok(None),
            Err(error) => {
                self.calls.free_id(id);
                self.calls.end();
                cannot(format!(
                    "cannot start a thread for the call: {error}; end some tasks and try again"
                ))
            }
        }
    }

    /// Waits for at most `limit` until no call is under way; returns whether none is.
    pub(crate) fn await_calls(&self, limit: Duration) -> bool {
        self.calls.await_none(limit)
    }

    /// The client of a request.
    fn client_info(&self, era: &Era) -> ClientInfo {
        match era {
            Era::Legacy => self.client_info.lock().clone(),
            Era::Stateless(envelope) => envelope.client.clone(),
        }
    }

    /// Notes how long the client of a request has waited before it gave a call up.
    fn learn(&self, era: &Era, waited: Duration) {
        let client = self.client_info(era);
        let new = Learned::new(&client, waited, self.tools.supervisor.now());
        if clients::is_sdk(&client.name) {
            let mut learned = self.learned.lock();
            *learned = ceilings::learn(std::mem::take(&mut *learned), new);
        } else {
            self.tools.keep_learned(new);
        }
    }

    /// What the client asks its person because of this result, if anything.
    fn question(&self, era: &Era, result: &Value) -> Option<Vec<u8>> {
        let monitor = self.tools.monitor.as_ref()?;
        if self.access != Access::Full || *era != Era::Legacy {
            return None;
        }
        self.asked.lock().as_mut()?.message(result, monitor)
    }

    fn instructions(&self, era: &Era) -> String {
        let known = clients::known(&self.client_info(era), era.takes_tasks());
        tools::instructions(known.output.part, self.shell_text())
    }

    /// The shell that the descriptions of the tools name.
    fn shell_text(&self) -> ShellText {
        let shell = self.tools.supervisor.find_shell(None);
        match shell.map(|shell| shell.kind) {
            Ok(ShellKind::Zsh) if self.tools.supervisor.settings.takes_bash => ShellText::ZshAsBash,
            Ok(ShellKind::Zsh) | Err(_) => ShellText::Zsh,
            Ok(ShellKind::Bash) => ShellText::Bash,
            Ok(ShellKind::Sh) => ShellText::Sh,
        }
    }

    /// Whether a request's client is sent no `_meta`, since its model would see it.
    fn hides_meta(&self, era: &Era) -> bool {
        self.access == Access::Full
            && clients::known(&self.client_info(era), era.takes_tasks()).hides_meta
    }

    /// How the client of a request shows results, and how long it waits for them.
    fn client(&self, era: &Era) -> ClientProfile {
        let info = self.client_info(era);
        let shows_colours = info.name == COLOURING_CLIENT && era.takes_tasks();
        let known = clients::known(&info, era.takes_tasks()).output;
        let learned = self.learned.lock().clone();
        let config = &self.tools.config;
        let coloured = match config.color {
            ColorChoice::Always => true,
            ColorChoice::Never => false,
            ColorChoice::Auto => shows_colours,
        };
        let set = config.client_output.and_then(|bytes| usize::try_from(bytes).ok());
        ClientProfile {
            palette: if coloured { Palette::Coloured } else { Palette::Plain },
            kept: KeptOutput { bytes: set.or(known.bytes), ..known },
            ceiling: self.tools.ceiling(&info, era.takes_tasks(), &learned),
        }
    }
}

fn events_follow(params: Option<&Value>) -> bool {
    params.and_then(|params| params.get("follow")).and_then(Value::as_bool) == Some(true)
}

fn unknown_method(method: &str) -> RpcError {
    let name: String = method.chars().take(QUOTED_CHARS).collect();
    RpcError::new(METHOD_NOT_FOUND, format!("unknown method {}", foreign::shown(&name)))
}

/// What a call does.
enum Work {
    /// Call a tool.
    Tool {
        tool: &'static Tool,
        arguments: Option<Value>,
        token: Option<Value>,
        /// The client of the server that relays the call.
        relayed: Option<Box<RelayedClient>>,
        /// Codex's description of its own sandbox.
        codex: Option<Value>,
    },
    /// Query or cancel a task of the tasks extension.
    Task { operation: Operation, task: String },
    /// Report what happens to tasks.
    Events { follow: bool },
    /// Show a task to a person.
    Attach(Arc<Attachment>),
    /// Answer a page.
    Page(PageRequest),
}

impl Work {
    /// Reads the params of `tools/call`.
    fn tool(params: Option<Value>) -> Result<Work, RpcError> {
        let invalid = |text: &str| RpcError::new(INVALID_PARAMS, text);
        let Some(Value::Object(mut params)) = params else {
            return Err(invalid("tools/call needs params with name and arguments"));
        };
        let Some(name) = params.get("name").and_then(Value::as_str) else {
            return Err(invalid("tools/call needs the tool's name, a string"));
        };
        let Some(tool) = tools::find(name) else {
            let name: String = name.chars().take(QUOTED_CHARS).collect();
            let known: Vec<&str> = tools::TOOLS.iter().map(|tool| tool.wire_name).collect();
            let (name, known) = (foreign::shown(&name), known.join(", "));
            return Err(invalid(&format!("unknown tool {name}: there are {known}")));
        };
        let arguments = params.remove("arguments");
        if arguments.as_ref().is_some_and(|value| !value.is_object() && !value.is_null()) {
            return Err(invalid("arguments of tools/call must be an object"));
        }
        let meta = |key: &str| params.get("_meta").and_then(|meta| meta.get(key));
        let token = meta("progressToken").filter(|token| token.is_string() || token.is_number());
        let relayed =
            meta(RELAY_KEY).and_then(|client| serde_json::from_value(client.clone()).ok());
        let codex = meta(codex::SANDBOX_STATE).cloned();
        Ok(Work::Tool { tool, arguments, token: token.cloned(), relayed, codex })
    }

    /// Reads the params of a method of the tasks extension.
    fn task(
        operation: Operation,
        envelope: &Envelope,
        params: Option<&Value>,
    ) -> Result<Work, RpcError> {
        if !envelope.takes_tasks {
            let text = "the client has not declared the tasks extension in this request";
            return Err(RpcError {
                data: Some(stateless::needs_tasks_extension()),
                ..RpcError::new(MISSING_CLIENT_CAPABILITY, text)
            });
        }
        let task = operation.task_of(params).map_err(|text| RpcError::new(INVALID_PARAMS, text))?;
        Ok(Work::Task { operation, task })
    }

    fn name(&self) -> &'static str {
        match self {
            Work::Tool { tool, .. } => tool.wire_name,
            Work::Task { .. } => "task",
            Work::Events { .. } => "events",
            Work::Attach(_) => "attach",
            Work::Page(_) => "page",
        }
    }
}

struct RunningCall {
    server: Arc<Server>,
    outbound: Outbound,
    id: RequestId,
    era: Era,
    work: Work,
    cancel: Arc<Cancel>,
    /// Its place in the ledger until it is answered.
    entry: Option<Entry>,
}

impl RunningCall {
    fn run(mut self) {
        let mut question = None;
        let reply = match catch_panic(self.work.name(), || self.answer()) {
            Ok(Some(Answered { result_type, mut result, delivered })) => {
                question = self.server.question(&self.era, &result);
                if self.server.hides_meta(&self.era) {
                    remove_meta(&mut result);
                }
                let result = self.era.result(result_type, result);
                Some((message::response(&self.id, &result), delivered))
            }
            // The client may still wait.
            Ok(None) if self.cancel.is_given_up() => {
                let result = ToolResult::error(GIVEN_UP).into_result();
                let result = self.era.result(ResultType::Complete, result);
                Some((message::response(&self.id, &result), None))
            }
            Ok(None) => None,
            Err(refusal) => Some((refusal.reply(&self.id), None)),
        };
        self.server.calls.free_id(&self.id);
        if let Some(waited) = self.cancel.timed_out_after()
            && self.server.access == Access::Full
            && !self.cancel.is_given_up()
        {
            self.server.learn(&self.era, waited);
        }
        // A client that has gone needs no answer; the transport reports its end.
        let entry = self.entry.take();
        let to_write = reply.map(|(reply, delivered)| {
            self.outbound.hand_over(reply, on_answered(entry, delivered))
        });
        self.server.calls.end();
        if let Some(Ok(Some(answer))) = to_write {
            answer.write();
        }
        if let Some(question) = question {
            send(&self.outbound, question);
        }
    }

    /// The result; `None` if the call was cancelled.
    fn answer(&self) -> Result<Option<Answered>, RpcError> {
        let complete =
            |result| Answered { result_type: ResultType::Complete, result, delivered: None };
        match &self.work {
            Work::Tool { tool, arguments, token, relayed, .. } => {
                let call = Call::parse(tool, arguments.as_ref());
                let refusal = |call| self.server.access.refusal(tool, call);
                if let Some(refusal) = call.as_ref().ok().and_then(refusal) {
                    return Ok(Some(complete(ToolResult::error(refusal).into_result())));
                }
                match (self.server.access, relayed) {
                    (Access::ControlSocket(_) | Access::Launch | Access::Carrier, Some(client)) => {
                        Ok(self.call_relayed(tool, call, token.as_ref(), client))
                    }
                    _ => {
                        let client = self.server.client(&self.era);
                        let name = self.server.client_info(&self.era).name;
                        let token = token.as_ref();
                        Ok(self.call_tool(tool, call, token, client, name, None).0)
                    }
                }
            }
            Work::Attach(attachment) => {
                attachment.run(&self.id, &self.cancel)?;
                Ok(None)
            }
            Work::Task { operation, task } => {
                // A status that has been read counts as shown, so it must be sent.
                if *operation == Operation::Get && !self.cancel.begin_answer() {
                    return Ok(None);
                }
                let client = self.server.client(&self.era);
                let result = self.server.tools.operate(*operation, task, client)?;
                let wanted = self.cancel.begin_answer();
                Ok(wanted.then(|| complete(result)))
            }
            Work::Page(request) => {
                let Some(pages) = self.server.tools.pages.get() else {
                    return Err(unknown_method(PAGE));
                };
                let answer = pages.answer(request.clone(), &self.cancel);
                let wanted = self.cancel.begin_answer();
                Ok(wanted.then(|| complete(json!(answer))))
            }
            Work::Events { follow } => self.stream_events(*follow).map(|()| {
                let wanted = self.cancel.begin_answer();
                wanted.then(|| complete(json!({})))
            }),
        }
    }

    fn stream_events(&self, follow: bool) -> Result<(), RpcError> {
        let server = &self.server;
        let send_event = |number: u64, event: Option<&Event>| {
            let params = json!({"event": number, "data": event});
            if let Ok(notification) = message::notification(EVENT, &params) {
                send(&self.outbound, notification);
            }
        };
        server.tools.stream_events(follow, &self.cancel, &server.events, send_event)
    }

    /// Calls a tool for a server that passes on the result, and keeps the result as undelivered
    /// until that server reports its delivery.
    fn call_relayed(
        &self,
        tool: &Tool,
        call: Result<Call, WrongCall>,
        token: Option<&Value>,
        client: &RelayedClient,
    ) -> Option<Answered> {
        let palette = if client.coloured { Palette::Coloured } else { Palette::Plain };
        let ceiling = client.ceiling_s.and_then(|s| Duration::try_from_secs_f64(s).ok());
        let ceiling = ceiling.map_or(clients::UNKNOWN_CEILING, |ceiling| ceiling.min(MAX_WAIT));
        let part = if client.head_only { KeptPart::Head } else { KeptPart::Ends };
        let kept = KeptOutput { bytes: client.result_bytes, lines: client.result_lines, part };
        let shown_to = ClientProfile { palette, kept, ceiling };
        let lease = client.lease_s.and_then(|lease| Duration::try_from_secs_f64(lease).ok());
        if let (Access::Launch, Some(lease)) = (self.server.access, lease) {
            let _ = self.server.tools.lease.set(lease);
        }
        let name = client.name.clone();
        let (answered, shown_before) =
            self.call_tool(tool, call, token, shown_to, name, Some(client));
        if let Some((task, before)) = shown_before {
            let result = Undelivered { id: self.id.clone(), task, before };
            match answered {
                Some(_) => self.server.undelivered.lock().push(result),
                None => result.take_back(&self.server.tools.supervisor),
            }
        }
        answered
    }

    fn call_tool(
        &self,
        tool: &Tool,
        call: Result<Call, WrongCall>,
        token: Option<&Value>,
        client: ClientProfile,
        client_name: String,
        relayed: Option<&RelayedClient>,
    ) -> (Option<Answered>, Option<(Arc<TaskHandle>, ShownMark)>) {
        let mut report;
        let mut progress: Option<&mut dyn FnMut(ProgressMessage)> = None;
        if let Some(token) = token {
            report = |progress: ProgressMessage| self.report_progress(token, progress);
            progress = Some(&mut report);
        }
        // What only the server at the other end of a carrier, or the one that starts this shim, sends.
        let mut given = Given {
            task_id: relayed.and_then(|client| client.task_id.clone()).filter(|id| is_task_id(id)),
            ..Given::default()
        };
        match self.server.access {
            Access::Carrier => {
                given.at_most = relayed.and_then(|client| client.sandbox.clone());
                let secret = relayed.and_then(|client| client.secret.as_ref());
                given.secret = secret.and_then(|secret| {
                    let bytes = Zeroizing::new(secret.data.clone());
                    Some((Secret::new(bytes).ok()?, secret.programs.clone()))
                });
            }
            Access::Launch => {
                let start = relayed.and_then(|client| client.start.as_ref());
                given.start = start.map(StartEnvironment::from);
                given.policy = relayed.and_then(|client| client.sandbox.clone());
            }
            Access::Full => {
                if let Work::Tool { codex, .. } = &self.work {
                    given.codex = codex.clone();
                }
            }
            Access::ControlSocket(_) => {
                given.at_most = relayed.and_then(|client| client.sandbox.clone());
            }
        }
        let mut context = CallContext {
            cancel: &self.cancel,
            progress,
            client,
            client_name,
            takes_tasks: self.era.takes_tasks(),
            access: self.server.access,
            for_person: relayed.is_some_and(|client| client.for_person),
            given,
            shown_before: None,
            entry: self.entry.as_ref(),
        };
        let answered = self.server.tools.call(tool, call, &mut context);
        (answered, context.shown_before)
    }

    fn report_progress(&self, token: &Value, progress: ProgressMessage) {
        let mut params = json!({"progressToken": token, "progress": tenths(progress.elapsed)});
        if let Some(usual) = progress.usual {
            message::put(&mut params, "total", tenths(usual));
        }
        let text = progress.message;
        if !text.is_empty() {
            message::put(&mut params, "message", text);
        }
        if let Ok(notification) = message::notification("notifications/progress", &params) {
            send(&self.outbound, notification);
        }
    }
}

/// The error of a call that was under way when its server was killed. Of a task that has only just
/// begun, nothing may be kept yet.
fn restarted(cause: &str, task: Option<&str>, is_kept: bool) -> String {
    let became = match task {
        Some(task) if is_kept => format!("task {task} ended with it: zsh_poll shows its output"),
        Some(task) => format!(
            "task {task} ended with it before its output was kept: look at what it has done before you \
             repeat it"
        ),
        None => {
            "the call was not finished: look at what it has done before you repeat it".to_owned()
        }
    };
    format!("server restarted ({cause}); {became}")
}

/// Frees a request's place in the ledger once the answer has been written.
fn on_answered(entry: Option<Entry>, delivered: Option<OnWritten>) -> Option<OnWritten> {
    let Some(entry) = entry else { return delivered };
    Some(Box::new(move || {
        drop(entry);
        if let Some(delivered) = delivered {
            delivered();
        }
    }))
}

fn send_and(outbound: &Outbound, message: Vec<u8>, entry: Option<Entry>) {
    let _ = outbound.send_and(message, on_answered(entry, None));
}

/// Turns a panic into an error of that call; the server continues.
fn catch_panic<T>(name: &str, answer: impl FnOnce() -> Result<T, RpcError>) -> Result<T, RpcError> {
    catch_unwind(AssertUnwindSafe(answer)).unwrap_or_else(|_| {
        tracing::error!("a call of {name} panicked");
        let text = "the call failed because of a bug in zsh-tool; the server keeps running";
        Err(RpcError::new(INTERNAL_ERROR, text))
    })
}

/// Leaves out what only programs read.
fn remove_meta(result: &mut Value) {
    if let Value::Object(members) = result {
        members.remove("_meta");
    }
}

/// Sends a message. A client that has gone needs none; the transport reports its end.
fn send(outbound: &Outbound, message: Vec<u8>) {
    let _ = outbound.send(message);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_in_a_call_is_its_answer() {
        let broken =
            catch_panic("zsh", || -> Result<(), RpcError> { panic!("wanted by the test") });
        let reply = broken.expect_err("a refusal").reply(&RequestId::String("7".to_owned()));
        let reply: Value = serde_json::from_slice(&reply).expect("a message");
        assert_eq!(reply["id"], json!("7"));
        assert_eq!(reply["error"]["code"], json!(-32603));
        let text = reply["error"]["message"].as_str().unwrap_or_default();
        assert!(text.contains("the server keeps running"), "{text}");
    }

    #[test]
    fn what_a_call_answers_is_passed_on() {
        assert!(matches!(catch_panic("zsh", || Ok(1)), Ok(1)));
        let refused = catch_panic("zsh", || Err::<(), _>(RpcError::new(INVALID_PARAMS, "no")));
        assert_eq!(refused.expect_err("a refusal").code, INVALID_PARAMS);
    }
}
