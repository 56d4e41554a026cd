//! Task files of version 0.1.0, which named everything of a task side by side: what its tasks have
//! printed stays readable after an update. Pure.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;

use super::live::{End, Facts, Input};
use super::request::{AtTimeout, Detached};
use super::snapshot::{InputState, KeptStream, OutputState, Probed, Snapshot};
use super::told::ShownMark;
use crate::base::clock::Now;
use crate::process::probe::Identity;
use crate::process::signals::Exit;
use crate::shell::outcome::Outcome;
use crate::text::lines::Position;

/// What a file of that version says, as far as it is of use.
#[derive(Debug, Deserialize)]
struct Entry {
    id: String,
    command: String,
    description: Option<String>,
    part_of: Option<String>,
    detached: Option<Detached>,
    shown: Option<ShownMark>,
    directory: PathBuf,
    pid: i32,
    started: Now,
    pty: bool,
    /// `None` while the task runs.
    outcome: Option<Outcome>,
    exit_code: Option<i32>,
    duration_ms: Option<u64>,
    pipestatus: Vec<i32>,
    moved_to: Option<PathBuf>,
    /// The files of the output.
    output: Vec<PathBuf>,
    /// The number of each file, and the offset at which it begins.
    segments: Vec<(u64, u64)>,
    /// The line with which each file begins.
    first_lines: Vec<u64>,
    columns: Option<u16>,
    last_output: Option<f64>,
}

/// The task of such a file. How much it has printed is not known without its output.
pub(super) fn snapshot(text: &[u8]) -> Option<Snapshot> {
    let entry: Entry = serde_json::from_slice(text).ok()?;
    let ended = entry.outcome.map(|outcome| End {
        exit: Exit::Code(entry.exit_code.unwrap_or_default()),
        exit_assumed: entry.exit_code.is_none(),
        outcome,
        duration: Duration::from_millis(entry.duration_ms.unwrap_or_default()),
        pipestatus: entry.pipestatus,
        moved_to: entry.moved_to,
        output_cut: false,
        cost: None,
        over_memory: None,
    });
    let starts = entry.segments.iter().zip(&entry.first_lines);
    let starts = starts.map(|(&(number, offset), &line)| (number, Position { offset, line }));
    Some(Snapshot {
        facts: Arc::new(Facts {
            id: entry.id,
            command: entry.command,
            description: entry.description,
            part_of: entry.part_of,
            detached: entry.detached.map(Box::new),
            chosen_shell: None,
            in_session: false,
            directory: entry.directory,
            started: entry.started,
            timeout: None,
            at_timeout: AtTimeout::default(),
            memory_max: None,
            sandbox: None,
            input: if entry.pty { Input::Terminal } else { Input::None },
            // Its start time is not known, so that no other process is taken for it.
            shell: Identity { pid: entry.pid, started: 0 },
            start_notes: Vec::new(),
        }),
        ended,
        output: OutputState {
            kept: KeptStream {
                files: entry.output,
                starts: starts.collect(),
                ..KeptStream::default()
            },
            last: entry.last_output,
            columns: entry.columns,
            ..OutputState::default()
        },
        input: InputState::default(),
        probed: Probed::default(),
        leftovers: Vec::new(),
        kept: Vec::new(),
        attached: false,
        at_stop: None,
        shown: entry.shown,
    })
}
