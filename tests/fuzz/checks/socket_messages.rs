//! What other processes send to the control socket: whatever it is, the connection still serves the
//! next request, each request is answered at most once and under its id, nothing is started, and
//! errors that repeat what was sent are one line in which nothing hides.

use std::collections::HashMap;
use std::fs;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use serde_json::{Value, json};
use zsh_tool::testing::mcp::control::serve;
use zsh_tool::testing::protocol::message::{Incoming, parse};
use zsh_tool::testing::protocol::reader::FrameReader;
use zsh_tool::testing::task::supervisor::Supervisor;
use zsh_tool::testing::text::ansi::{Colours, readable};
use zsh_tool::testing::text::foreign::is_plain_line;

/// Far above the inputs, and above the longest answer.
const FRAME_LIMIT: usize = 1 << 20;
/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// The longest error, in characters.
const LONGEST_ERROR: usize = 4_000;
/// The ids of the requests before and after the input.
const FIRST: &str = "before the input";
const LAST: &str = "after the input";

/// Checks what this input leads to.
pub fn check(data: &[u8]) {
    let (socket, supervisor) = server();
    let ping = |id| json!({"jsonrpc": "2.0", "id": id, "method": "ping"}).to_string();
    // The first line decides how the connection is framed.
    let (first, last) = (ping(FIRST), ping(LAST));
    let sent = [first.as_bytes(), b"\n", data, b"\n", last.as_bytes(), b"\n"].concat();
    let mut asked = asked(&sent);
    let mut stream = UnixStream::connect(socket).expect("a connection");
    stream.set_read_timeout(Some(PATIENCE)).expect("a socket with a time limit");
    stream.write_all(&sent).expect("the socket has room for the input");
    let mut replies = FrameReader::new(stream, FRAME_LIMIT);
    loop {
        let frame = replies.next_frame().expect("an answer in time");
        let frame = frame.expect("the connection stays open").expect("a frame");
        let reply: Value = serde_json::from_slice(&frame).expect("an answer is JSON");
        check_reply(&reply);
        let id = reply.get("id").unwrap_or(&Value::Null);
        if !id.is_null() {
            let left = asked.get_mut(&id.to_string()).expect("an answer to what was asked");
            *left = left.checked_sub(1).expect("one answer to each request");
        }
        if *id == json!(LAST) {
            break;
        }
    }
    assert!(supervisor.tasks().is_empty(), "the socket starts nothing");
}

/// How often each id was used, by its JSON.
fn asked(sent: &[u8]) -> HashMap<String, usize> {
    let mut frames = FrameReader::new(sent, FRAME_LIMIT);
    let mut asked = HashMap::new();
    while let Some(frame) = frames.next_frame().expect("reading from memory") {
        let id = match frame.map(|frame| parse(&frame)) {
            Ok(Ok(Incoming::Request { id, .. })) => Some(id),
            Ok(Err(malformed)) => malformed.id,
            _ => None,
        };
        if let Some(id) = id.map(|id| serde_json::to_value(id).expect("an id is JSON")) {
            *asked.entry(id.to_string()).or_default() += 1;
        }
    }
    asked
}

fn check_reply(reply: &Value) {
    assert_eq!(reply.get("jsonrpc"), Some(&json!("2.0")));
    if let Some(error) = reply.get("error") {
        check_error(error.get("message").and_then(Value::as_str).expect("an error says why"));
    }
    let text = reply.pointer("/result/content/0/text").and_then(Value::as_str);
    if let Some(text) = text {
        if reply.pointer("/result/isError") == Some(&Value::Bool(true)) {
            check_error(text);
        }
        for line in text.split('\n') {
            assert_eq!(readable(line.as_bytes(), Colours::Drop, None), line);
        }
    }
}

fn check_error(text: &str) {
    assert!(is_plain_line(text), "{text:?}");
    assert!(text.chars().count() <= LONGEST_ERROR, "{text:?}");
}

fn server() -> &'static (PathBuf, Arc<Supervisor>) {
    static SERVER: OnceLock<(PathBuf, Arc<Supervisor>)> = OnceLock::new();
    SERVER.get_or_init(|| {
        fs::create_dir_all(home()).expect("a new directory");
        serve(&home()).expect("a control socket")
    })
}

/// The server's home directory. Its path is short, since that of a socket has at most 107 bytes.
fn home() -> PathBuf {
    std::env::temp_dir().join(format!("zsh-tool-fuzz-{}", std::process::id()))
}

/// Removes the server's files after the last check.
#[allow(dead_code, reason = "a fuzzer does not know which check is the last")]
pub fn remove_files() {
    fs::remove_dir_all(home()).expect("the server's files are removed");
}
