//! A handshake and one command against this very program: what a client does first.

use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::Finding;
use crate::config::Config;
use crate::process::descriptors::{self, Interest, Poller, Transfer};
use crate::process::files;
use crate::process::wait::Child;

/// How long all of it may take; it takes a tenth of a second.
const PATIENCE: Duration = Duration::from_secs(10);
const WHAT: &str = "self-check";
/// What the command prints.
const EXPECTED: &str = "zsh-tool-self-check";
/// The protocol version of the handshake.
const PROTOCOL_VERSION: &str = "2025-06-18";
/// How much of an unexpected answer is shown.
const SHOWN_CHARS: usize = 300;

/// What went wrong in a conversation with the server.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("the server cannot be started: {0}")]
    Start(io::Error),
    #[error("the server took no request: {0}")]
    Send(io::Error),
    #[error("no answer to {what} within {} s", PATIENCE.as_secs())]
    Silent { what: &'static str },
    #[error("the server ended before it answered {what}")]
    Closed { what: &'static str },
    #[error("an unexpected answer to {what}: {answer}")]
    Unexpected { what: &'static str, answer: String },
    #[error("the server did not end within {} s of the end of its input", PATIENCE.as_secs())]
    Lingers,
    #[error("the server ended with exit code {0}")]
    ExitCode(i32),
}

/// Starts a server, runs one command through it and sees it end.
pub fn run(config: &Config) -> Finding {
    let begun = Instant::now();
    let scratch = config
        .state_dir
        .as_ref()
        .ok()
        .and_then(|state| Scratch::below(state));
    match converse(scratch.as_ref()) {
        Ok(()) => Finding::ok(
            WHAT,
            format!(
                "a handshake, a command and the end took {} ms",
                begun.elapsed().as_millis()
            ),
        ),
        Err(failure) => Finding::error(
            WHAT,
            failure.to_string(),
            "mend the errors above first; else run `ZSH_TOOL_LOG=debug zsh-tool serve` and look \
             at what it says",
        ),
    }
}

/// A state directory of its own, so that the check is seen by nobody; removed when
/// dropped.
struct Scratch {
    path: PathBuf,
}

impl Scratch {
    fn below(state: &Path) -> Option<Scratch> {
        let path = state.join(format!("doctor-{}", files::random_id()));
        files::private_subdir(&path).ok()?;
        Some(Scratch { path })
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

fn converse(scratch: Option<&Scratch>) -> Result<(), Failure> {
    let mut server = Server::start(scratch)?;
    server.send(
        &json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": PROTOCOL_VERSION,
            "capabilities": {},
            "clientInfo": {"name": "zsh-tool-doctor", "version": env!("CARGO_PKG_VERSION")},
        }}),
    )?;
    let answer = server.answer(1, "initialize")?;
    let introduced = answer.pointer("/result/serverInfo");
    if !introduced.is_some_and(Value::is_object) {
        return Err(unexpected("initialize", &answer));
    }
    server.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}))?;
    server.send(
        &json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {
            "name": "zsh",
            "arguments": {"command": format!("echo {EXPECTED}"), "yield_after": PATIENCE.as_secs()},
        }}),
    )?;
    let answer = server.answer(2, "a command")?;
    let text = text_of(&answer).unwrap_or_default();
    // The echoed command names it too; the output is a line of its own.
    let printed = text.lines().any(|line| line == EXPECTED);
    if !printed || answer.pointer("/result/isError") == Some(&json!(true)) {
        return Err(unexpected("a command", &answer));
    }
    server.end()
}

fn text_of(answer: &Value) -> Option<&str> {
    answer.pointer("/result/content/0/text")?.as_str()
}

fn unexpected(what: &'static str, answer: &Value) -> Failure {
    let text = match text_of(answer) {
        Some(text) => text.to_owned(),
        None => answer.to_string(),
    };
    Failure::Unexpected {
        what,
        answer: text.chars().take(SHOWN_CHARS).collect(),
    }
}

/// A server under check; ended for good when dropped.
struct Server {
    process: std::process::Child,
    watched: Child,
    stdin: Option<ChildStdin>,
    stdout: OwnedFd,
    received: Vec<u8>,
    deadline: Instant,
}

impl Server {
    fn start(scratch: Option<&Scratch>) -> Result<Server, Failure> {
        let program = std::env::current_exe().map_err(Failure::Start)?;
        let mut command = Command::new(program);
        command
            .arg("serve")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        // Nothing of the check is to be learned from, and no older database taken over.
        command
            .env_remove("CLAUDE_PLUGIN_DATA")
            .env_remove("CLAUDE_PLUGIN_ROOT");
        if let Some(scratch) = scratch {
            command
                .env("ZSH_TOOL_STATE_DIR", &scratch.path)
                .env("ALAN_DB_PATH", scratch.path.join("alan.db"));
        }
        let mut process = command.spawn().map_err(Failure::Start)?;
        let stdin = process.stdin.take();
        let stdout = process.stdout.take().map(OwnedFd::from);
        // From here on the server is watched, and ended when it cannot be.
        let pid =
            i32::try_from(process.id()).map_err(|error| Failure::Start(io::Error::other(error)))?;
        let watched = Child::adopt(pid).map_err(Failure::Start)?;
        let stdout = stdout.ok_or_else(|| Failure::Start(io::ErrorKind::BrokenPipe.into()))?;
        descriptors::set_nonblocking(&stdout).map_err(Failure::Start)?;
        Ok(Server {
            stdin,
            process,
            watched,
            stdout,
            received: Vec::new(),
            deadline: Instant::now() + PATIENCE,
        })
    }

    fn send(&mut self, message: &Value) -> Result<(), Failure> {
        let Some(stdin) = &mut self.stdin else {
            return Err(Failure::Send(io::ErrorKind::BrokenPipe.into()));
        };
        // A few hundred bytes: a pipe takes them without waiting.
        stdin
            .write_all(format!("{message}\n").as_bytes())
            .map_err(Failure::Send)
    }

    /// The answer of this id; others are passed over.
    fn answer(&mut self, id: u64, what: &'static str) -> Result<Value, Failure> {
        loop {
            while let Some(line) = self.take_line() {
                if let Ok(message) = serde_json::from_slice::<Value>(&line)
                    && message.get("id") == Some(&json!(id))
                {
                    return Ok(message);
                }
            }
            self.receive(what)?;
        }
    }

    fn take_line(&mut self) -> Option<Vec<u8>> {
        let end = memchr::memchr(b'\n', &self.received)?;
        let rest = self.received.split_off(end + 1);
        Some(std::mem::replace(&mut self.received, rest))
    }

    fn receive(&mut self, what: &'static str) -> Result<(), Failure> {
        let mut buffer = [0; 4096];
        match descriptors::read(&self.stdout, &mut buffer) {
            Transfer::Bytes(count) => {
                let bytes = buffer.get(..count).unwrap_or_default();
                self.received.extend_from_slice(bytes);
                Ok(())
            }
            Transfer::Closed => Err(Failure::Closed { what }),
            Transfer::WouldBlock => match wait(self.stdout.as_fd(), self.deadline) {
                true => Ok(()),
                false => Err(Failure::Silent { what }),
            },
        }
    }

    /// Closes its input and sees it end.
    fn end(mut self) -> Result<(), Failure> {
        drop(self.stdin.take());
        while self.watched.peek_exit().is_none() {
            if !wait(self.watched.ended(), self.deadline) {
                return Err(Failure::Lingers);
            }
        }
        match self.watched.peek_exit().map(|exit| exit.code()) {
            Some(0) | None => Ok(()),
            Some(code) => Err(Failure::ExitCode(code)),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.watched.peek_exit().is_none() {
            // The guard is gone then; the server below it ends by itself.
            let _ = self.process.kill();
        }
        let _ = self.process.wait();
    }
}

/// Waits until the descriptor is ready; false when the time is over before.
fn wait(fd: std::os::fd::BorrowedFd<'_>, deadline: Instant) -> bool {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return false;
    }
    let mut poller = Poller::default();
    poller.watch(fd, Interest::Read);
    poller.wait(Some(left));
    true
}
