//! The MCP server: methods on the reader thread, tool calls on threads of their own.
//!
//! The reader answers what costs nothing (`initialize`, `ping`, `tools/list`) itself, so
//! that a client is answered at once whatever runs.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use serde_json::{Value, json};

use super::dispatch::{Call, Outcome, Progress, Tools};
use super::render::Palette;
use super::tools::{self, INSTRUCTIONS, Tool};
use crate::config::ColorChoice;
use crate::protocol::era::{Hello, InitializeResult, negotiate};
use crate::protocol::framing::{Frame, FrameError};
use crate::protocol::id::RequestId;
use crate::protocol::message::{
    self, INTERNAL_ERROR, INVALID_PARAMS, Incoming, METHOD_NOT_FOUND, Malformed, parse,
};
use crate::protocol::transport::Outbound;
use crate::task::live::Cancel;

/// Tool calls at the same time.
const MAX_CALLS: usize = 64;
/// A call's own needs are small; what it reads is on the heap.
const CALL_STACK: usize = 512 * 1024;
/// The client that renders colours in results (measured).
const COLOURING_CLIENT: &str = "claude-code";

/// The tool calls under way.
#[derive(Default)]
struct Calls {
    /// Those whose answer has not been given: their ids are taken.
    open: HashMap<RequestId, Arc<Cancel>>,
    /// Those whose answer has not been handed to the transport.
    under_way: usize,
}

/// The server's side of a connection.
pub struct Server {
    tools: Tools,
    calls: Mutex<Calls>,
    calls_changed: Condvar,
    client_shows_colours: AtomicBool,
}

impl Server {
    /// A server with these tools.
    pub fn new(tools: Tools) -> Server {
        Server {
            tools,
            calls: Mutex::default(),
            calls_changed: Condvar::new(),
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
                self.request(outbound, id, &method, params)
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

    fn request(
        self: &Arc<Self>,
        outbound: &Outbound,
        id: RequestId,
        method: &str,
        params: Option<Value>,
    ) {
        let reply = match method {
            "initialize" => self.initialize(&id, params.as_ref()),
            "ping" => message::response(&id, &json!({})),
            "tools/list" => message::response(&id, &tools::list()),
            "tools/call" => match self.start_call(outbound, &id, params) {
                Started::Running => return,
                Started::Answered(reply) => reply,
            },
            _ => {
                let text = format!(
                    "unknown method {}",
                    method.chars().take(100).collect::<String>()
                );
                message::error(Some(&id), METHOD_NOT_FOUND, &text, None)
            }
        };
        send(outbound, reply);
    }

    fn initialize(&self, id: &RequestId, params: Option<&Value>) -> Vec<u8> {
        match Hello::from_params(params) {
            Ok(hello) => {
                let colours = hello.client_info.name == COLOURING_CLIENT;
                self.client_shows_colours.store(colours, Ordering::Relaxed);
                let version = negotiate(&hello.protocol_version);
                message::response(id, &InitializeResult::new(version, INSTRUCTIONS))
            }
            Err(error) => message::error(Some(id), INVALID_PARAMS, &error.to_string(), None),
        }
    }

    fn notification(&self, method: &str, params: Option<&Value>) {
        if method == "notifications/cancelled"
            && let Some(id) = params
                .and_then(|params| params.get("requestId"))
                .and_then(RequestId::from_value)
        {
            let call = self.calls.lock().open.get(&id).cloned();
            if let Some(cancel) = call {
                cancel.cancel();
            }
        }
    }

    fn start_call(
        self: &Arc<Self>,
        outbound: &Outbound,
        id: &RequestId,
        params: Option<Value>,
    ) -> Started {
        let invalid =
            |text: &str| Started::Answered(message::error(Some(id), INVALID_PARAMS, text, None));
        let Some(Value::Object(mut params)) = params else {
            return invalid("tools/call needs params with name and arguments");
        };
        let Some(name) = params.get("name").and_then(Value::as_str) else {
            return invalid("tools/call needs the tool's name, a string");
        };
        let Some(tool) = tools::find(name) else {
            let name: String = name.chars().take(100).collect();
            let known: Vec<&str> = tools::TOOLS.iter().map(|tool| tool.wire_name).collect();
            return invalid(&format!(
                "unknown tool {name}: there are {}",
                known.join(", ")
            ));
        };
        let arguments = params.remove("arguments");
        if arguments
            .as_ref()
            .is_some_and(|value| !value.is_object() && !value.is_null())
        {
            return invalid("arguments of tools/call must be an object");
        }
        let token = params
            .get("_meta")
            .and_then(|meta| meta.get("progressToken"))
            .filter(|token| token.is_string() || token.is_number())
            .cloned();
        let cancel = Arc::new(Cancel::default());
        {
            let mut calls = self.calls.lock();
            if calls.under_way >= MAX_CALLS {
                let text = format!(
                    "{MAX_CALLS} calls are under way, the limit: wait for one to end and try again"
                );
                return Started::Answered(message::response(
                    id,
                    &Outcome::error(text).into_result(),
                ));
            }
            if calls.open.contains_key(id) {
                let text = "a request of this id is still under way";
                return Started::Answered(message::error(
                    Some(id),
                    message::INVALID_REQUEST,
                    text,
                    None,
                ));
            }
            calls.open.insert(id.clone(), Arc::clone(&cancel));
            calls.under_way += 1;
        }
        let call = RunningCall {
            server: Arc::clone(self),
            outbound: outbound.clone(),
            id: id.clone(),
            tool,
            arguments,
            token,
            cancel,
        };
        let started = std::thread::Builder::new()
            .name(format!("call-{}", tool.wire_name))
            .stack_size(CALL_STACK)
            .spawn(move || call.run());
        match started {
            Ok(_counted_in_calls) => Started::Running,
            Err(error) => {
                self.free_id(id);
                self.end_call();
                let text = format!(
                    "cannot start a thread for the call: {error}; end some tasks and try again"
                );
                Started::Answered(message::response(id, &Outcome::error(text).into_result()))
            }
        }
    }

    /// The id is free again: before the client can see the answer.
    fn free_id(&self, id: &RequestId) {
        self.calls.lock().open.remove(id);
    }

    /// The answer, if there is one, is with the transport.
    fn end_call(&self) {
        self.calls.lock().under_way -= 1;
        self.calls_changed.notify_all();
    }

    /// Waits until no call is under way, for so long at most; whether none is.
    pub fn await_calls(&self, limit: Duration) -> bool {
        let deadline = Instant::now() + limit;
        let mut calls = self.calls.lock();
        while calls.under_way > 0 {
            if self
                .calls_changed
                .wait_until(&mut calls, deadline)
                .timed_out()
            {
                return calls.under_way == 0;
            }
        }
        true
    }

    fn palette(&self) -> Palette {
        let coloured = match self.tools.config.color {
            ColorChoice::Always => true,
            ColorChoice::Never => false,
            ColorChoice::Auto => self.client_shows_colours.load(Ordering::Relaxed),
        };
        if coloured {
            Palette::Coloured
        } else {
            Palette::Plain
        }
    }
}

enum Started {
    /// A thread will answer.
    Running,
    /// This is the answer.
    Answered(Vec<u8>),
}

struct RunningCall {
    server: Arc<Server>,
    outbound: Outbound,
    id: RequestId,
    tool: &'static Tool,
    arguments: Option<Value>,
    token: Option<Value>,
    cancel: Arc<Cancel>,
}

impl RunningCall {
    fn run(self) {
        // A defect in one call answers that call and leaves the server serving.
        let answer = catch_unwind(AssertUnwindSafe(|| self.answer()));
        let reply = match answer {
            Ok(Some(outcome)) => Some(message::response(&self.id, &outcome.into_result())),
            Ok(None) => None,
            Err(_) => {
                tracing::error!("a call of {} panicked", self.tool.wire_name);
                let text = "the call failed by a defect of zsh-tool; the server goes on";
                Some(message::error(Some(&self.id), INTERNAL_ERROR, text, None))
            }
        };
        self.server.free_id(&self.id);
        if let Some(reply) = reply {
            send(&self.outbound, reply);
        }
        self.server.end_call();
    }

    fn answer(&self) -> Option<Outcome> {
        let mut tell;
        let mut progress: Option<&mut dyn FnMut(Progress)> = None;
        if let Some(token) = &self.token {
            tell = |progress: Progress| self.tell_progress(token, progress);
            progress = Some(&mut tell);
        }
        let mut call = Call {
            cancel: &self.cancel,
            progress,
            palette: self.server.palette(),
        };
        self.server
            .tools
            .call(self.tool, self.arguments.as_ref(), &mut call)
    }

    fn tell_progress(&self, token: &Value, progress: Progress) {
        let mut params = json!({"progressToken": token, "progress": progress.elapsed});
        if let Some(usual) = progress.usual {
            params["total"] = json!(usual);
        }
        let text = progress.message;
        if !text.is_empty() {
            params["message"] = text.into();
        }
        if let Ok(notification) = message::notification("notifications/progress", &params) {
            send(&self.outbound, notification);
        }
    }
}

/// A client that is gone has no use for an answer; the transport reports its going.
fn send(outbound: &Outbound, message: Vec<u8>) {
    let _ = outbound.send(message);
}
