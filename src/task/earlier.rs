//! Task files of version 0.1.0, which named everything of a task side by side: what ended tasks have
//! printed stays readable after an update. Pure.

use serde::Deserialize;
use serde_json::{Value, json};

use super::snapshot::Snapshot;

/// What a file of that version says, as far as it is of use.
#[derive(Debug, Deserialize)]
struct Entry {
    id: String,
    command: String,
    description: Option<String>,
    part_of: Option<String>,
    detached: Value,
    shown: Value,
    directory: String,
    pid: i32,
    started: f64,
    pty: bool,
    /// `None` while the task runs.
    outcome: Option<String>,
    exit_code: Option<i32>,
    duration_ms: Option<u64>,
    pipestatus: Vec<i32>,
    moved_to: Option<String>,
    /// The files of the output.
    output: Vec<String>,
    /// The number of each file, and the offset at which it begins.
    segments: Vec<(u64, u64)>,
    /// The line with which each file begins.
    first_lines: Vec<u64>,
    columns: Option<u16>,
    last_output: Option<f64>,
}

/// The task of such a file.
pub(super) fn snapshot(text: &[u8]) -> Option<Snapshot> {
    let entry: Entry = serde_json::from_slice(text).ok()?;
    let ended = entry.outcome.map(|outcome| {
        let milliseconds = entry.duration_ms.unwrap_or_default();
        json!({
            "exit": {"Code": entry.exit_code.unwrap_or_default()},
            "exit_assumed": entry.exit_code.is_none(),
            "outcome": outcome,
            "duration": {"secs": milliseconds / 1000, "nanos": milliseconds % 1000 * 1_000_000},
            "pipestatus": entry.pipestatus,
            "moved_to": entry.moved_to,
            "output_cut": false,
        })
    });
    let starts = entry.segments.iter().zip(&entry.first_lines);
    let starts: Vec<Value> = starts
        .map(|((number, offset), line)| json!([number, {"offset": offset, "line": line}]))
        .collect();
    // It noted how much there is only where results had shown it.
    let bytes = entry.shown.get("bytes").and_then(Value::as_u64).unwrap_or_default();
    let snapshot = json!({
        "facts": {
            "id": entry.id,
            "command": entry.command,
            "description": entry.description,
            "part_of": entry.part_of,
            "detached": entry.detached,
            "directory": entry.directory,
            "started": entry.started,
            "input": if entry.pty { "Terminal" } else { "None" },
            "shell": {"pid": entry.pid, "started": 0},
        },
        "ended": ended,
        "output": {
            "bytes": bytes,
            "files": entry.output,
            "starts": starts,
            "last": entry.last_output,
            "columns": entry.columns,
        },
        "shown": entry.shown,
    });
    serde_json::from_value(snapshot).ok()
}
