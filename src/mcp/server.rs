//! The MCP server: methods on the reader thread, calls on threads of their own.
//!
//! The reader answers what costs nothing (`initialize`, `server/discover`, `ping`,
//! `tools/list`) itself, so that a client is answered at once whatever runs. Both eras of
//! the protocol are served side by side: a request that carries an envelope is stateless
//! and judged by that alone; any other belongs to the connection's handshake.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use super::calls::{Calls, MAX_CALLS, NotBegun};
#[cfg(feature = "conformance")]
use super::conformance::{self, StandIn};
use super::dispatch::{Call, Outcome, Progress, Reply, Tools};
use super::refusal::Refusal;
use super::render::Palette;
use super::tools::{self, INSTRUCTIONS, Tool};
use crate::config::ColorChoice;
use crate::protocol::era::{Hello, InitializeResult, negotiate};
use crate::protocol::framing::{Frame, FrameError};
use crate::protocol::id::RequestId;
use crate::protocol::message::{
    self, INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, Incoming, METHOD_NOT_FOUND, Malformed,
    parse,
};
use crate::protocol::stateless::{
    self, CacheScope, DISCOVER, Envelope, EnvelopeError, MISSING_CLIENT_CAPABILITY, ResultType,
};
use crate::protocol::tasks::Operation;
use crate::protocol::transport::Outbound;
use crate::task::live::Cancel;

/// A call's own needs are small; what it reads is on the heap.
const CALL_STACK: usize = 512 * 1024;
/// The client that renders colours in results (measured).
const COLOURING_CLIENT: &str = "claude-code";
/// How much of a name that the client made up an error repeats, in characters.
const QUOTED_CHARS: usize = 100;

/// In which era of the protocol a request is made.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Era {
    /// After a handshake, which settled all there is to know of the client.
    Legacy,
    /// By itself.
    Stateless(Envelope),
}

impl Era {
    /// A result as this era writes it.
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

/// The server's side of a connection.
pub struct Server {
    tools: Tools,
    calls: Calls,
    /// A handshake has been made.
    shook_hands: AtomicBool,
    /// A stateless request has been served.
    served_stateless: AtomicBool,
    client_shows_colours: AtomicBool,
}

impl Server {
    /// A server with these tools.
    pub fn new(tools: Tools) -> Server {
        Server {
            tools,
            calls: Calls::default(),
            shook_hands: AtomicBool::new(false),
            served_stateless: AtomicBool::new(false),
            client_shows_colours: AtomicBool::new(false),
        }
    }

    /// Takes one frame; runs on the reader thread.
    pub fn receive(self: &Arc<Self>, outbound: &Outbound, received: Result<Frame, FrameError>) {
        let incoming = received
            .map_err(Malformed::from)
            .and_then(|frame| parse(&frame));
        match incoming {
            Ok(Incoming::Request { id, method, params }) => {
                let reply = self
                    .request(outbound, &id, &method, params)
                    .unwrap_or_else(|refusal| Some(refusal.reply(&id)));
                if let Some(reply) = reply {
                    send(outbound, reply);
                }
            }
            Ok(Incoming::Notification { method, params }) => {
                self.notification(&method, params.as_ref())
            }
            Ok(Incoming::Response) => {}
            Err(malformed) => {
                if let Some(reply) = malformed.reply() {
                    send(outbound, reply);
                }
            }
        }
    }

    /// The reply to a request; `None`: a thread will give it.
    fn request(
        self: &Arc<Self>,
        outbound: &Outbound,
        id: &RequestId,
        method: &str,
        params: Option<Value>,
    ) -> Result<Option<Vec<u8>>, Refusal> {
        let era = self.era(method, params.as_ref())?;
        let work = match (&era, method) {
            (Era::Legacy, "initialize") => return self.initialize(id, params.as_ref()).map(Some),
            (Era::Legacy, "ping") => return Ok(Some(message::response(id, &json!({})))),
            (Era::Stateless(_), DISCOVER) => {
                let result = stateless::discovery(self.tools.offers_tasks(), INSTRUCTIONS);
                return Ok(Some(message::response(id, &result)));
            }
            (Era::Legacy, "tools/list") => {
                return Ok(Some(message::response(id, &tools::list())));
            }
            (Era::Stateless(_), "tools/list") => {
                let result = stateless::cacheable(CacheScope::Public, tools::list());
                return Ok(Some(message::response(id, &result)));
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
            (Era::Stateless(envelope), _) => match Operation::of_method(method) {
                Some(operation) if self.tools.offers_tasks() => {
                    Work::task(operation, envelope, params.as_ref())?
                }
                _ => return Err(unknown_method(method)),
            },
            (Era::Legacy, _) => return Err(unknown_method(method)),
        };
        self.start_call(outbound, id, era, work)
    }

    /// The era of a request: its envelope's or, without one, that of the connection. One
    /// that nothing has opened yet is taken for a legacy one, unless the method is of the
    /// stateless era only.
    fn era(&self, method: &str, params: Option<&Value>) -> Result<Era, Refusal> {
        if let Some(envelope) = Envelope::from_params(params)? {
            self.served_stateless.store(true, Ordering::Relaxed);
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
        match legacy {
            true => Ok(Era::Legacy),
            false => Err(EnvelopeError::no_envelope().into()),
        }
    }

    fn initialize(&self, id: &RequestId, params: Option<&Value>) -> Result<Vec<u8>, Refusal> {
        let hello = Hello::from_params(params)
            .map_err(|error| Refusal::new(INVALID_PARAMS, error.to_string()))?;
        self.shook_hands.store(true, Ordering::Relaxed);
        let colours = hello.client_info.name == COLOURING_CLIENT;
        self.client_shows_colours.store(colours, Ordering::Relaxed);
        let version = negotiate(&hello.protocol_version);
        Ok(message::response(
            id,
            &InitializeResult::new(version, INSTRUCTIONS),
        ))
    }

    fn notification(&self, method: &str, params: Option<&Value>) {
        if method == "notifications/cancelled"
            && let Some(id) = params
                .and_then(|params| params.get("requestId"))
                .and_then(RequestId::from_value)
        {
            self.calls.cancel(&id);
        }
    }

    fn start_call(
        self: &Arc<Self>,
        outbound: &Outbound,
        id: &RequestId,
        era: Era,
        work: Work,
    ) -> Result<Option<Vec<u8>>, Refusal> {
        let (name, answering) = (work.name(), era.clone());
        let is_tool = matches!(work, Work::Tool { .. });
        // What a tool could not do is a result; nothing else has one.
        let cannot = |text: String| {
            if !is_tool {
                return Err(Refusal::new(INTERNAL_ERROR, text));
            }
            let result = Outcome::error(text).into_result();
            let result = answering.result(ResultType::Complete, result);
            Ok(Some(message::response(id, &result)))
        };
        let cancel = match self.calls.begin(id) {
            Ok(cancel) => cancel,
            Err(NotBegun::Busy) => {
                return cannot(format!(
                    "{MAX_CALLS} calls are under way, the limit: wait for one to end and try again"
                ));
            }
            Err(NotBegun::IdTaken) => {
                let text = "a request of this id is still under way";
                return Err(Refusal::new(INVALID_REQUEST, text));
            }
        };
        let call = RunningCall {
            server: Arc::clone(self),
            outbound: outbound.clone(),
            id: id.clone(),
            era,
            work,
            cancel,
        };
        let started = std::thread::Builder::new()
            .name(format!("call-{name}"))
            .stack_size(CALL_STACK)
            .spawn(move || call.run());
        match started {
            Ok(_counted_in_calls) => Ok(None),
            Err(error) => {
                self.calls.free_id(id);
                self.calls.end();
                cannot(format!(
                    "cannot start a thread for the call: {error}; end some tasks and try again"
                ))
            }
        }
    }

    /// Waits until no call is under way, for so long at most; whether none is.
    pub fn await_calls(&self, limit: Duration) -> bool {
        self.calls.await_none(limit)
    }

    fn palette(&self, era: &Era) -> Palette {
        let shows_colours = match era {
            Era::Legacy => self.client_shows_colours.load(Ordering::Relaxed),
            Era::Stateless(envelope) => envelope.client_name == COLOURING_CLIENT,
        };
        let coloured = match self.tools.config.color {
            ColorChoice::Always => true,
            ColorChoice::Never => false,
            ColorChoice::Auto => shows_colours,
        };
        if coloured {
            Palette::Coloured
        } else {
            Palette::Plain
        }
    }
}

fn unknown_method(method: &str) -> Refusal {
    let name: String = method.chars().take(QUOTED_CHARS).collect();
    Refusal::new(METHOD_NOT_FOUND, format!("unknown method {name}"))
}

/// What a call is to do.
enum Work {
    /// Call a tool.
    Tool {
        tool: &'static Tool,
        arguments: Option<Value>,
        token: Option<Value>,
    },
    /// Ask about a task, or end it.
    Task { operation: Operation, task: String },
}

impl Work {
    /// Reads the params of `tools/call`.
    fn tool(params: Option<Value>) -> Result<Work, Refusal> {
        let invalid = |text: &str| Refusal::new(INVALID_PARAMS, text);
        let Some(Value::Object(mut params)) = params else {
            return Err(invalid("tools/call needs params with name and arguments"));
        };
        let Some(name) = params.get("name").and_then(Value::as_str) else {
            return Err(invalid("tools/call needs the tool's name, a string"));
        };
        let Some(tool) = tools::find(name) else {
            let name: String = name.chars().take(QUOTED_CHARS).collect();
            let known: Vec<&str> = tools::TOOLS.iter().map(|tool| tool.wire_name).collect();
            return Err(invalid(&format!(
                "unknown tool {name}: there are {}",
                known.join(", ")
            )));
        };
        let arguments = params.remove("arguments");
        if arguments
            .as_ref()
            .is_some_and(|value| !value.is_object() && !value.is_null())
        {
            return Err(invalid("arguments of tools/call must be an object"));
        }
        let token = params
            .get("_meta")
            .and_then(|meta| meta.get("progressToken"))
            .filter(|token| token.is_string() || token.is_number())
            .cloned();
        Ok(Work::Tool {
            tool,
            arguments,
            token,
        })
    }

    /// Reads the params of a method of the tasks extension.
    fn task(
        operation: Operation,
        envelope: &Envelope,
        params: Option<&Value>,
    ) -> Result<Work, Refusal> {
        if !envelope.takes_tasks {
            let text = "the client has not declared the tasks extension in this request";
            return Err(Refusal {
                data: Some(stateless::needs_tasks_extension()),
                ..Refusal::new(MISSING_CLIENT_CAPABILITY, text)
            });
        }
        let task = operation
            .task_of(params)
            .map_err(|text| Refusal::new(INVALID_PARAMS, text))?;
        Ok(Work::Task { operation, task })
    }

    fn name(&self) -> &'static str {
        match self {
            Work::Tool { tool, .. } => tool.wire_name,
            Work::Task { .. } => "task",
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
}

impl RunningCall {
    fn run(self) {
        let reply = match contain(self.work.name(), || self.answer()) {
            Ok(Some((result_type, result))) => {
                let result = self.era.result(result_type, result);
                Some(message::response(&self.id, &result))
            }
            Ok(None) => None,
            Err(refusal) => Some(refusal.reply(&self.id)),
        };
        self.server.calls.free_id(&self.id);
        if let Some(reply) = reply {
            send(&self.outbound, reply);
        }
        self.server.calls.end();
    }

    /// The result, or none when the call was cancelled.
    fn answer(&self) -> Result<Option<(ResultType, Value)>, Refusal> {
        match &self.work {
            Work::Tool {
                tool,
                arguments,
                token,
            } => Ok(self.call_tool(tool, arguments.as_ref(), token.as_ref())),
            Work::Task { operation, task } => {
                // What a status tells counts as told, so it must be sent once it is read.
                if *operation == Operation::Get && !self.cancel.begin_answer() {
                    return Ok(None);
                }
                let palette = self.server.palette(&self.era);
                let result = self.server.tools.operate(*operation, task, palette)?;
                let wanted = self.cancel.begin_answer();
                Ok(wanted.then_some((ResultType::Complete, result)))
            }
        }
    }

    fn call_tool(
        &self,
        tool: &Tool,
        arguments: Option<&Value>,
        token: Option<&Value>,
    ) -> Option<(ResultType, Value)> {
        let mut tell;
        let mut progress: Option<&mut dyn FnMut(Progress)> = None;
        if let Some(token) = token {
            tell = |progress: Progress| self.tell_progress(token, progress);
            progress = Some(&mut tell);
        }
        let mut call = Call {
            cancel: &self.cancel,
            progress,
            palette: self.server.palette(&self.era),
            takes_tasks: self.era.takes_tasks(),
        };
        match self.server.tools.call(tool, arguments, &mut call)? {
            Reply::Result(outcome) => Some((ResultType::Complete, outcome.into_result())),
            Reply::Task(task) => Some((ResultType::Task, task)),
        }
    }

    fn tell_progress(&self, token: &Value, progress: Progress) {
        let mut params = json!({"progressToken": token, "progress": progress.elapsed});
        if let Some(usual) = progress.usual {
            message::put(&mut params, "total", usual);
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

/// A defect in one call is that call's answer and leaves the server serving.
fn contain<T>(name: &str, answer: impl FnOnce() -> Result<T, Refusal>) -> Result<T, Refusal> {
    catch_unwind(AssertUnwindSafe(answer)).unwrap_or_else(|_| {
        tracing::error!("a call of {name} panicked");
        let text = "the call failed by a defect of zsh-tool; the server goes on";
        Err(Refusal::new(INTERNAL_ERROR, text))
    })
}

/// A client that is gone has no use for an answer; the transport reports its going.
fn send(outbound: &Outbound, message: Vec<u8>) {
    let _ = outbound.send(message);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_in_a_call_is_its_answer() {
        let broken = contain("zsh", || -> Result<(), Refusal> {
            panic!("wanted by the test")
        });
        let reply = broken
            .expect_err("a refusal")
            .reply(&RequestId::String("7".to_owned()));
        let reply: Value = serde_json::from_slice(&reply).expect("a message");
        assert_eq!(reply["id"], json!("7"));
        assert_eq!(reply["error"]["code"], json!(-32603));
        let text = reply["error"]["message"].as_str().unwrap_or_default();
        assert!(text.contains("the server goes on"), "{text}");
    }

    #[test]
    fn what_a_call_answers_is_passed_on() {
        assert!(matches!(contain("zsh", || Ok(1)), Ok(1)));
        let refused = contain("zsh", || Err::<(), _>(Refusal::new(INVALID_PARAMS, "no")));
        assert_eq!(refused.expect_err("a refusal").code, INVALID_PARAMS);
    }
}
