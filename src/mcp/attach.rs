//! `zsh-tool/attach`: a person at a task's terminal, over the control socket.
//!
//! The person gets the current screen, then the output as the program prints it. The output is read
//! from the spool, so that a slow person does not delay the task. A person who falls behind gets the
//! current screen again. Typed bytes go to the program and are not kept.

use std::io;
use std::sync::Arc;
use std::time::Instant;

use crossbeam_channel::bounded;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::render::result::{Palette, status_line};
use super::render::view::View;
use super::rpc_error::RpcError;
use crate::base::cancel::Cancel;
use crate::peer::attach::{
    ATTACH_OUTPUT, ATTACH_STATE, AttachEnd, AttachMode, AttachRequest, AttachState, Bytes, Typed,
};
use crate::process::pty::TerminalSize;
use crate::protocol::id::RequestId;
use crate::protocol::message::{self, INVALID_PARAMS};
use crate::protocol::outbox::Closed;
use crate::protocol::transport::Outbound;
use crate::task::attached::Person;
use crate::task::follower::{Read, read_next};
use crate::task::input::InputChunk;
use crate::task::live::{Input, LiveState, WaitStep};
use crate::task::registry::TaskHandle;
use crate::task::request::InputError;
use crate::task::stream::{PerStream, StreamName};
use crate::task::supervisor::Supervisor;
use crate::task::terminal::{Drawing, Terminal};

/// The most lines of a pipe's earlier output that a person gets first …
const FIRST_LINES: usize = 100;
/// … from this many bytes at its end.
const FIRST_BYTES: u64 = 64 * 1024;
/// A person who is more bytes behind gets the screen instead of the output.
const BEHIND_BYTES: u64 = 1024 * 1024;
/// Sent to the person for input that the task has no room for.
const BELL: &[u8] = b"\x07";

/// A person attached to a task.
pub(super) struct Attachment {
    task: Arc<TaskHandle>,
    /// `None` if the person only watches.
    person: Option<Person>,
    outbound: Outbound,
}

/// Why the stream to a person ends before the task does.
enum StreamStop {
    Gone,
    Unreadable(io::Error),
}

impl From<Closed> for StreamStop {
    fn from(_: Closed) -> Self {
        StreamStop::Gone
    }
}

/// What to send to the person next.
enum Next {
    /// A stream's output up to this offset.
    Output(StreamName, u64),
    /// The screen, because its size has changed.
    Screen,
    End(i32),
}

impl Attachment {
    /// Attaches a person to a task of this process.
    ///
    /// # Errors
    /// When the task is unknown or has ended, or the params are wrong.
    pub(super) fn begin(
        supervisor: &Arc<Supervisor>,
        outbound: &Outbound,
        params: Option<Value>,
    ) -> Result<Attachment, RpcError> {
        let request: AttachRequest = read(params)?;
        let unknown = || {
            let text = "this process has no such task: `zsh-tool tasks` lists them";
            RpcError::new(INVALID_PARAMS, text)
        };
        let task = supervisor.task(&request.task_id).ok_or_else(unknown)?;
        let refused = |error: InputError| RpcError::new(INVALID_PARAMS, error.to_string());
        if task.live.state().ended.is_some() {
            return Err(refused(InputError::Ended(request.task_id)));
        }
        let types = !request.read_only && task.live.facts.input != Input::None;
        let person = types.then(|| Person::attach(supervisor, &task, request.size)).transpose();
        Ok(Attachment { person: person.map_err(refused)?, outbound: outbound.clone(), task })
    }

    pub(super) fn task_id(&self) -> &str {
        self.task.id()
    }

    /// Types the bytes of an input notification.
    pub(super) fn enter(&self, params: Option<Value>) {
        let (Some(person), Ok(typed)) = (&self.person, read::<Typed>(params)) else {
            return;
        };
        let sending = InputChunk { bytes: typed.bytes.data, end: typed.end };
        // Input after the task's end is dropped: the person is about to learn of the end.
        if let Err(InputError::Full { .. } | InputError::Busy { .. }) = person.send(sending) {
            let bell = Bytes { data: BELL.to_vec() };
            let _ = self.outbound.send(notification(ATTACH_OUTPUT, &bell));
        }
    }

    /// Adopts the size of the person's window, and redraws the screen.
    pub(super) fn resize(&self, params: Option<Value>) {
        let Ok(size) = read::<TerminalSize>(params) else {
            return;
        };
        match &self.person {
            Some(person) => person.resize(size),
            None => self.task.live.report(|state| state.redraws += 1),
        }
    }

    /// Shows the task until it ends, the person leaves, or the call is cancelled. The task's end is
    /// the response to the request.
    pub(super) fn run(&self, id: &RequestId, cancel: &Cancel) -> Result<(), RpcError> {
        match self.stream(id, cancel) {
            Ok(()) | Err(StreamStop::Gone) => Ok(()),
            Err(StreamStop::Unreadable(error)) => {
                let text = format!("the output of task {} cannot be read: {error}", self.task.id());
                Err(RpcError::new(message::INTERNAL_ERROR, text))
            }
        }
    }

    fn stream(&self, id: &RequestId, cancel: &Cancel) -> Result<(), StreamStop> {
        self.write(notification(ATTACH_STATE, &AttachState { mode: self.mode() }))?;
        let mut sizes = self.task.live.state().redraws;
        let mut drawn = self.draw()?;
        // Stderr that is apart is shown among the output, in the order of arrival.
        let mut next = match &drawn {
            Some(drawn) => PerStream { output: drawn.end, errors: 0 },
            None => PerStream {
                errors: self.show_newest_lines(StreamName::Errors)?,
                output: self.show_newest_lines(StreamName::Output)?,
            },
        };
        loop {
            let has_screen = drawn.is_some();
            let next_of = |state: &LiveState| {
                WaitStep::Found(if has_screen && state.redraws != sizes {
                    Next::Screen
                } else if let Some((stream, end)) = state.streams.longer_than(&next) {
                    Next::Output(stream, end)
                } else if let Some(end) = &state.ended {
                    Next::End(end.exit.code())
                } else {
                    return WaitStep::WaitUntil(None);
                })
            };
            let found = self.task.live.wait_for(None, cancel, next_of, Instant::now);
            let mut redraw = false;
            match found {
                None => return Ok(()),
                Some(Next::Screen) => redraw = true,
                Some(Next::Output(stream, end))
                    if has_screen && end - next.get(stream) > BEHIND_BYTES =>
                {
                    redraw = true;
                }
                Some(Next::Output(stream, end)) => {
                    match read_next(self.task.spools.get(stream), next.get_mut(stream), end)
                        .map_err(StreamStop::Unreadable)?
                    {
                        Read::Bytes(bytes) => self.show(bytes)?,
                        Read::Gap(_) => redraw = has_screen,
                    }
                    // The main screen has not been on this person's terminal yet.
                    let left_alternate = |drawn: &Drawing| {
                        drawn.alternate
                            && !self.task.live.terminal().is_some_and(Terminal::is_alternate)
                    };
                    redraw |= drawn.as_ref().is_some_and(left_alternate);
                }
                Some(Next::End(exit_code)) => {
                    let view = View::take(&self.task.live);
                    let status_line = status_line(&self.task.live.facts, &view, Palette::Plain);
                    let end = AttachEnd { status_line, exit_code };
                    return Ok(self.write(message::response(id, &end))?);
                }
            }
            if redraw {
                sizes = self.task.live.state().redraws;
                // `None` if the task has just been closed: the rest of its output follows.
                if let Some(screen) = self.draw()? {
                    next.output = screen.end;
                    drawn = Some(screen);
                }
            }
        }
    }

    fn mode(&self) -> AttachMode {
        match (self.task.live.facts.input, &self.person) {
            (Input::Terminal, Some(_)) => AttachMode::Terminal,
            (Input::Terminal, None) => AttachMode::WatchTerminal,
            (_, Some(_)) => AttachMode::Lines,
            (_, None) => AttachMode::WatchOutput,
        }
    }

    /// Sends the screen; `None` if the task has no screen.
    fn draw(&self) -> Result<Option<Drawing>, StreamStop> {
        let Some(mut drawing) = self.task.live.terminal().and_then(Terminal::drawing) else {
            return Ok(None);
        };
        self.show(std::mem::take(&mut drawing.bytes))?;
        Ok(Some(drawing))
    }

    /// Sends a stream's newest lines, of a task without a screen; returns where it continues.
    fn show_newest_lines(&self, stream: StreamName) -> Result<u64, StreamStop> {
        let end = self.task.live.state().streams.get(stream).end.offset;
        let mut next = end.saturating_sub(FIRST_BYTES);
        let mut newest = Vec::new();
        while next < end {
            if let Read::Bytes(bytes) = read_next(self.task.spools.get(stream), &mut next, end)
                .map_err(StreamStop::Unreadable)?
            {
                newest.extend(bytes);
            }
        }
        let complete = newest.strip_suffix(b"\n").unwrap_or(&newest);
        let begins = memchr::memrchr_iter(b'\n', complete).nth(FIRST_LINES - 1);
        newest.drain(..begins.map_or(0, |at| at + 1));
        self.show(newest)?;
        Ok(next)
    }

    fn show(&self, data: Vec<u8>) -> Result<(), StreamStop> {
        Ok(self.write(notification(ATTACH_OUTPUT, &Bytes { data }))?)
    }

    /// Sends a message and waits until it is written, so that at most one message is queued for a
    /// person who does not read.
    fn write(&self, message: Vec<u8>) -> Result<(), Closed> {
        let (writer, written) = bounded(1);
        let on_written = Box::new(move || {
            let _ = writer.send(());
        });
        self.outbound.send_and(message, Some(on_written))?;
        written.recv().map_err(|_| Closed)
    }
}

fn read<T: DeserializeOwned>(params: Option<Value>) -> Result<T, RpcError> {
    serde_json::from_value(params.unwrap_or_default())
        .map_err(|error| RpcError::new(INVALID_PARAMS, error.to_string()))
}

fn notification(method: &str, params: &impl Serialize) -> Vec<u8> {
    // Fails only for maps whose keys are not strings.
    message::notification(method, params).unwrap_or_default()
}
