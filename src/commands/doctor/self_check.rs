//! Starts this program as a server, and makes a handshake and one call like a client.

use std::io::{self, BufRead, BufReader, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, bounded};
use serde_json::{Value, json};

use super::Finding;
use crate::config::Config;
use crate::process::descriptors::{Interest, Poller};
use crate::process::files;
use crate::process::wait::Child;

/// The time limit for the whole check, which normally takes a tenth of a second.
const PATIENCE: Duration = Duration::from_secs(10);
const WHAT: &str = "self-check";
/// The output of the command.
const EXPECTED: &str = "zsh-tool-self-check";
/// The protocol version of the handshake.
const PROTOCOL_VERSION: &str = "2025-06-18";
/// How many lines can wait to be read; the server sends a few.
const QUEUED_LINES: usize = 64;

/// Characters of an unexpected answer that are shown.
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

/// Starts a server, runs one command through it and ends it.
pub(crate) fn run(config: &Config) -> Finding {
    let begun = Instant::now();
    let scratch = config.state_dir.as_ref().ok().and_then(|state| Scratch::below(state));
    match converse(scratch.as_ref()) {
        Ok(()) => Finding::ok(
            WHAT,
            format!("a handshake, a command and the end took {} ms", begun.elapsed().as_millis()),
        ),
        Err(failure) => Finding::error(
            WHAT,
            failure.to_string(),
            "fix the errors above first; if there are none, run `ZSH_TOOL_LOG=debug zsh-tool \
             serve` and read what it logs",
        ),
    }
}

/// A state directory only for the check, which no other process sees; removed when dropped.
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
    server.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": PROTOCOL_VERSION,
        "capabilities": {},
        "clientInfo": {"name": "zsh-tool-doctor", "version": env!("CARGO_PKG_VERSION")},
    }}))?;
    let answer = server.answer(1, "initialize")?;
    let introduced = answer.pointer("/result/serverInfo");
    if !introduced.is_some_and(Value::is_object) {
        return Err(unexpected("initialize", &answer));
    }
    server.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}))?;
    server.send(&json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {
        "name": "zsh",
        "arguments": {"command": format!("echo {EXPECTED}"), "yield_after": PATIENCE.as_secs()},
    }}))?;
    let answer = server.answer(2, "a command")?;
    let text = text_of(&answer).unwrap_or_default();
    // The echoed command line contains it too, but only in the output is it a whole line.
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
    Failure::Unexpected { what, answer: text.chars().take(SHOWN_CHARS).collect() }
}

/// The server under check; killed when dropped.
struct Server {
    process: std::process::Child,
    watched: Child,
    stdin: Option<ChildStdin>,
    /// The lines that it answers, until it closes its output.
    lines: Receiver<Vec<u8>>,
    deadline: Instant,
}

impl Server {
    fn start(scratch: Option<&Scratch>) -> Result<Server, Failure> {
        let program = std::env::current_exe().map_err(Failure::Start)?;
        let mut command = Command::new(program);
        command.arg("serve").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        // The check must not enter the history or import an older database.
        command.env_remove("CLAUDE_PLUGIN_DATA").env_remove("CLAUDE_PLUGIN_ROOT");
        if let Some(scratch) = scratch {
            command
                .env("ZSH_TOOL_STATE_DIR", &scratch.path)
                .env("ALAN_DB_PATH", scratch.path.join("alan.db"));
        }
        let mut process = command.spawn().map_err(Failure::Start)?;

        let pid =
            i32::try_from(process.id()).map_err(|error| Failure::Start(io::Error::other(error)))?;
        let watched = Child::adopt(pid).map_err(Failure::Start)?;
        let stdout = process.stdout.take().ok_or(ErrorKind::BrokenPipe);
        let stdout = BufReader::new(stdout.map_err(|kind| Failure::Start(kind.into()))?);
        let (sender, lines) = bounded(QUEUED_LINES);
        std::thread::Builder::new()
            .name("self-check".to_owned())
            .spawn(move || {
                for line in stdout.split(b'\n').map_while(Result::ok) {
                    if sender.send(line).is_err() {
                        return;
                    }
                }
            })
            .map_err(Failure::Start)?;
        let (stdin, deadline) = (process.stdin.take(), Instant::now() + PATIENCE);
        Ok(Server { process, watched, stdin, lines, deadline })
    }

    fn send(&mut self, message: &Value) -> Result<(), Failure> {
        let stdin = self.stdin.as_mut().ok_or(ErrorKind::BrokenPipe);
        let stdin = stdin.map_err(|kind| Failure::Send(kind.into()))?;
        // A pipe takes a few hundred bytes without blocking.
        stdin.write_all(format!("{message}\n").as_bytes()).map_err(Failure::Send)
    }

    /// The answer with this id; other messages are skipped.
    fn answer(&mut self, id: u64, what: &'static str) -> Result<Value, Failure> {
        loop {
            let line = self.lines.recv_deadline(self.deadline).map_err(|error| match error {
                RecvTimeoutError::Timeout => Failure::Silent { what },
                RecvTimeoutError::Disconnected => Failure::Closed { what },
            })?;
            if let Ok(message) = serde_json::from_slice::<Value>(&line)
                && message.get("id") == Some(&json!(id))
            {
                return Ok(message);
            }
        }
    }

    /// Closes the server's input and waits for its end.
    fn end(mut self) -> Result<(), Failure> {
        drop(self.stdin.take());
        while self.watched.peek_exit().is_none() {
            let left = self.deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(Failure::Lingers);
            }
            let mut poller = Poller::default();
            poller.watch(self.watched.ended(), Interest::Read);
            poller.wait(Some(left));
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
            // Kills the guard; the server then ends by itself.
            let _ = self.process.kill();
        }
        let _ = self.process.wait();
    }
}
