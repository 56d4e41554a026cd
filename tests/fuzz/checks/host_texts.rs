//! What a host says: while it is connected to, over its connection, and in its answers. Nothing of
//! it controls a terminal or hides, no message reaches a call that it is not for, and no id of a host
//! looks like one of this machine.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use zsh_tool::testing::commands::doctor::of_host;
use zsh_tool::testing::mcp::hosts::{pass_on, progress};
use zsh_tool::testing::monitor::hosts::listed;
use zsh_tool::testing::peer::hosts::shown;
use zsh_tool::testing::peer::link::received;
use zsh_tool::testing::text::ansi::{Colours, readable};
use zsh_tool::testing::text::foreign::is_plain_line;

/// The longest line that quotes a host, in characters: of 1,000, each can be a code point.
const LONGEST: usize = 10_000;
/// The longest report of progress, in characters: of 120, each can be a code point, and quotes.
const LONGEST_PROGRESS: usize = 120 * 10 + 3;
/// Far above the inputs.
const FRAME_LIMIT: usize = 1 << 16;

/// Checks what this input leads to.
pub fn check(data: &[u8]) {
    let text = &*String::from_utf8_lossy(data);
    for line in shown(text, text) {
        assert!(is_plain_line(&line), "{line:?}");
        assert!(line.chars().count() <= LONGEST);
    }
    check_connection(data);
    let home = std::env::temp_dir().join(format!("zsh-tool-fuzz-host-{}", std::process::id()));
    list_host(&home);
    for value in data.split(|byte| *byte == b'\n').map(serde_json::from_slice::<Value>) {
        value.iter().for_each(|answer| check_answer(answer, &home));
    }
    fs::remove_dir_all(&home).expect("the file is removed");
    for session in listed(text, "far", 0.5) {
        check_session(&session);
    }
}

fn check_connection(data: &[u8]) {
    for calls in [1, 3] {
        let all = received(data, FRAME_LIMIT, calls).expect("a connection");
        for (number, received) in (1_u64..).zip(all) {
            for line in received.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
                let message: Value = serde_json::from_slice(line).expect("a message is one line");
                let named = message.get("id").or_else(|| message.pointer("/params/progressToken"));
                match named.and_then(Value::as_u64) {
                    Some(named) => assert_eq!(named, number),
                    None => assert_eq!(calls, 1, "{message}"),
                }
            }
        }
    }
}

/// Checks what becomes of an answer, whatever it was asked for.
fn check_answer(answer: &Value, home: &Path) {
    if let Some(text) = progress(answer) {
        // It is a line of output.
        assert!(!text.contains('\n'), "{text:?}");
        assert_eq!(readable(text.as_bytes(), Colours::Drop, None), text);
        assert!(text.chars().count() <= LONGEST_PROGRESS);
    }
    for line in of_host("far", answer) {
        assert!(is_plain_line(&line), "{line:?}");
    }
    for tool in ["zsh", "zsh_tasks"] {
        let mut result = answer.clone();
        pass_on(home, tool, &mut result);
        let contents = result.get("content").and_then(Value::as_array);
        for text in contents.into_iter().flatten().filter_map(|it| it.get("text")?.as_str()) {
            for line in text.split('\n') {
                assert_eq!(readable(line.as_bytes(), Colours::Keep, None), line);
            }
        }
        for list in ["tasks", "detached"] {
            let rows = result.pointer(&format!("/structuredContent/{list}"));
            let rows = rows.and_then(Value::as_array).into_iter().flatten();
            for id in rows.filter_map(|row| row.get("task_id")?.as_str()) {
                assert!(!is_own_id(id), "{id}");
            }
        }
    }
}

fn check_session(session: &Value) {
    for key in ["id", "sessionId", "taskId", "checkId"] {
        if let Some(id) = session.get(key).and_then(Value::as_str) {
            assert!(id.starts_with("far:"), "{key} {id}");
        }
    }
    let Some(fields) = session.as_object() else { return };
    assert_eq!(fields.get("host"), Some(&json!("far")));
    assert_ne!(session.pointer("/server/own"), Some(&Value::Bool(true)));
}

/// Whether this can be the id of a task of this machine.
fn is_own_id(id: &str) -> bool {
    id.len() == 8 && id.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Writes the configuration that lists the host.
fn list_host(home: &Path) {
    let directory = home.join(".config/zsh-tool");
    fs::create_dir_all(&directory).expect("a new directory");
    let hosts = "hosts: {far: {command: [cat]}}\n";
    fs::write(directory.join("config.yaml"), hosts).expect("a new file");
}
