//! The server's output: every frame in order of arrival, with its time.
//!
//! One thread reads. Tests wait on a condvar with a deadline, never by sleeping.

use std::io::{BufRead, BufReader, Read};
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::Instant;

use serde_json::Value;

/// How a frame was delimited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// One line of JSON.
    Line,
    /// A `Content-Length` header block and a body.
    ContentLength,
}

/// One message from the server.
#[derive(Debug, Clone)]
pub struct Frame {
    /// The parsed message.
    pub value: Value,
    /// The message's bytes, without its line end or header.
    pub raw: String,
    /// How it was delimited.
    pub framing: Framing,
    /// When it was read.
    pub arrived: Instant,
    taken: bool,
}

impl Frame {
    /// Whether it answers a request (notifications have a method).
    pub fn is_response(&self) -> bool {
        self.value.get("method").is_none()
    }

    /// Whether it answers the request with this id.
    pub fn answers(&self, id: &Value) -> bool {
        self.is_response() && self.value.get("id") == Some(id)
    }
}

#[derive(Default)]
struct Contents {
    frames: Vec<Frame>,
    /// The index before which all frames have been taken.
    taken_up_to: usize,
    noise: Vec<String>,
    closed: bool,
}

/// The frames of one server.
#[derive(Default)]
pub struct Inbox {
    contents: Mutex<Contents>,
    changed: Condvar,
}

impl Inbox {
    /// Reads until end of file. Run it on a separate thread.
    pub fn fill_from(&self, stdout: impl Read) {
        let mut reader = BufReader::new(stdout);
        while let Some((bytes, framing)) = next_message(&mut reader) {
            self.add(&bytes, framing);
        }
        self.lock().closed = true;
        self.changed.notify_all();
    }

    /// Takes the first matching frame that was not taken yet; `None` at the deadline, or if the
    /// server closed its output without one.
    pub fn take(&self, deadline: Instant, matches: impl Fn(&Frame) -> bool) -> Option<Frame> {
        let mut contents = self.lock();
        loop {
            let begin = contents.taken_up_to;
            let waiting = &contents.frames[begin..];
            contents.taken_up_to += waiting.iter().take_while(|frame| frame.taken).count();
            let begin = contents.taken_up_to;
            let found =
                contents.frames[begin..].iter_mut().find(|frame| !frame.taken && matches(frame));
            if let Some(frame) = found {
                frame.taken = true;
                return Some(frame.clone());
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if contents.closed || left.is_zero() {
                return None;
            }
            contents = self.changed.wait_timeout(contents, left).expect("no reader panicked").0;
        }
    }

    /// All frames so far, taken or not, in order of arrival.
    pub fn frames(&self) -> Vec<Frame> {
        self.lock().frames.clone()
    }

    /// Output on stdout that was not a frame.
    pub fn noise(&self) -> Vec<String> {
        self.lock().noise.clone()
    }

    fn add(&self, bytes: &[u8], framing: Framing) {
        let raw = String::from_utf8_lossy(bytes).into_owned();
        let mut contents = self.lock();
        match serde_json::from_slice::<Value>(bytes) {
            Ok(value) if value.get("jsonrpc").is_some() => contents.frames.push(Frame {
                value,
                raw,
                framing,
                arrived: Instant::now(),
                taken: false,
            }),
            _ => contents.noise.push(raw),
        }
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, Contents> {
        self.contents.lock().expect("no reader panicked")
    }
}

/// The next message in either framing; `None` at the end of the stream.
fn next_message(reader: &mut impl BufRead) -> Option<(Vec<u8>, Framing)> {
    let first = next_line(reader)?;
    let Some(length) = content_length(&first) else {
        return Some((first, Framing::Line));
    };
    while !next_line(reader)?.is_empty() {}
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some((body, Framing::ContentLength))
}

fn next_line(reader: &mut impl BufRead) -> Option<Vec<u8>> {
    let mut line = Vec::new();
    if reader.read_until(b'\n', &mut line).ok()? == 0 {
        return None;
    }
    while line.last().is_some_and(|byte| matches!(byte, b'\n' | b'\r')) {
        line.pop();
    }
    Some(line)
}

fn content_length(line: &[u8]) -> Option<usize> {
    let line = std::str::from_utf8(line).ok()?;
    let (name, value) = line.split_once(':')?;
    name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().ok())?
}
