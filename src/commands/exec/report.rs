//! How a command ended, in words: the status line on stderr, or one JSON object.

use std::io::{self, IsTerminal};

use serde_json::{Value, json};

use crate::commands::output::{self, OutputError, say};
use crate::config::{ColorChoice, Config};
use crate::mcp::insight::size;
use crate::mcp::render::{self, Palette};
use crate::mcp::times;
use crate::mcp::view::View;
use crate::task::live::{Leftover, LiveTask};
use crate::task::reading;
use crate::task::registry::TaskHandle;
use crate::task::spool::Losses;
use crate::text::ansi::Colours;
use crate::text::lines::{self, Layout, Place};

/// Writes `✔ exit=0  0.4s` and what else is worth saying to stderr.
pub fn status(task: &TaskHandle, leftovers: &[Leftover], config: &Config) {
    if ends_within_a_line(task) && io::stdout().is_terminal() && io::stderr().is_terminal() {
        say("");
    }
    let live = &task.live;
    if let Some(line) = status_line(live, palette(config)) {
        say(line);
    }
    if let Some(note) = &live.facts.shell_note {
        say(format_args!("⚠ {note}"));
    }
    if !leftovers.is_empty() {
        let noun = if leftovers.len() == 1 {
            "process was"
        } else {
            "processes were"
        };
        say(format_args!(
            "{} {noun} still running and had to be ended: {}",
            leftovers.len(),
            render::name_leftovers(leftovers)
        ));
    }
}

/// Prints the result as one JSON object on a line.
///
/// # Errors
/// When stdout or the spool fails.
pub fn json(task: &TaskHandle, leftovers: &[Leftover], config: &Config) -> Result<(), OutputError> {
    let live = &task.live;
    let (end, output_end, columns) = {
        let state = live.state();
        (state.ended.clone(), state.showable_end(), state.columns)
    };
    let view = View::of(live);
    let stretches = reading::excerpt(&task.spool, Place::FIRST.at, output_end, config.max_output)
        .map_err(OutputError::Unreadable)?;
    let shown = lines::lay_out(
        &stretches,
        &Layout {
            max_chars: config.max_output,
            numbered: false,
            colours: Colours::Drop,
            columns,
            reader: "",
        },
    );
    let left: Vec<Value> = leftovers
        .iter()
        .map(|left| json!({"pid": left.pid, "name": left.name}))
        .collect();
    let directory = end.as_ref().and_then(|end| end.moved_to.as_ref());
    let result = json!({
        "command": live.facts.command,
        "status": render::status_word(&view),
        "exit_code": end.as_ref().map(|end| end.exit.code()),
        "pipestatus": end.as_ref().map(|end| end.pipestatus.clone()).unwrap_or_default(),
        "duration_ms": end.as_ref().map(|end| times::millis(end.duration)),
        "cwd": directory.unwrap_or(&live.facts.directory).to_string_lossy(),
        "output": shown.text,
        "total_lines": shown.to_line,
        "total_bytes": output_end.at.offset,
        "omitted_lines": shown.omitted_lines,
        "leftovers": left,
        "warnings": warnings(live, &task.spool.losses()),
    });
    output::print(&format!("{result}\n"))
}

fn status_line(task: &LiveTask, palette: Palette) -> Option<String> {
    let state = task.state();
    let end = state.ended.as_ref()?;
    let mut parts = vec![render::end_words(end, palette)];
    if !end.pipestatus.is_empty() {
        let statuses: Vec<String> = end.pipestatus.iter().map(i32::to_string).collect();
        parts.push(format!("pipestatus=[{}]", statuses.join(",")));
    }
    parts.push(format!("{:.1}s", end.duration.as_secs_f64()));
    Some(parts.join("  "))
}

/// What the object's reader must know: which shell it was, and what of the output is not
/// there (when it is streamed, the stream says so itself).
fn warnings(task: &LiveTask, losses: &Losses) -> Vec<String> {
    let mut warnings: Vec<String> = task.facts.shell_note.iter().cloned().collect();
    if let Some(cause) = &losses.disk_failed {
        warnings.push(format!(
            "the spool is not on disk ({cause}): only the newest output was kept, in memory."
        ));
    }
    if losses.bytes > 0 {
        warnings.push(format!(
            "{} of the output were not kept: over the spool's quota (spool_task_quota, spool_quota).",
            size(losses.bytes)
        ));
    }
    warnings
}

fn palette(config: &Config) -> Palette {
    let coloured = match config.color {
        ColorChoice::Always => true,
        ColorChoice::Never => false,
        ColorChoice::Auto => io::stderr().is_terminal(),
    };
    match coloured {
        true => Palette::Coloured,
        false => Palette::Plain,
    }
}

/// Whether the last line of the output has no end.
fn ends_within_a_line(task: &TaskHandle) -> bool {
    let state = task.live.state();
    state.output_end.offset > state.line_start.offset
}
