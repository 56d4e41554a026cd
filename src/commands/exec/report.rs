//! Reports how a command ended: a status line on stderr, or one JSON object.

use std::collections::BTreeMap;
use std::io::{self, IsTerminal};

use serde_json::json;

use crate::commands::output::{self, OutputError, say_on_stderr};
use crate::config::{ColorChoice, Config};
use crate::mcp::render::result::{self, Palette};
use crate::mcp::render::view::View;
use crate::progress::wait::ProcessName;
use crate::task::describe;
use crate::task::live::LiveTask;
use crate::task::output::amount::amount;
use crate::task::output::reading;
use crate::task::output::spool::Losses;
use crate::task::registry::TaskHandle;
use crate::task::sandboxes;
use crate::task::stream::StreamName;
use crate::text::ansi::Colours;
use crate::text::lines::{self, Layout, LinePosition, Repeats, Room, Shown};
use crate::text::quantity::size;

/// Writes the status line, such as `✔ exit=0  0.4s`, and warnings to stderr.
pub(crate) fn status(task: &TaskHandle, leftovers: &[ProcessName], config: &Config) {
    if ends_within_a_line(task) && io::stdout().is_terminal() && io::stderr().is_terminal() {
        say_on_stderr("");
    }
    let live = &task.live;
    if let Some(line) = status_line(live, palette(config)) {
        say_on_stderr(line);
    }
    for note in &live.facts.start_notes {
        say_on_stderr(format_args!("⚠ {note}"));
    }
    if let Some(sandbox) = &live.facts.sandbox {
        if let Some(gap) = describe::sandbox_gap(sandbox) {
            say_on_stderr(format_args!("⚠ {gap}"));
        }
        let made = sandboxes::notes_made(sandbox, &live.made_unprotected(false));
        for note in refusal(task).iter().chain(&made) {
            say_on_stderr(format_args!("⚠ {note}"));
        }
    }
    if is_cut(live) {
        say_on_stderr(format_args!("⚠ {}", describe::OUTPUT_CUT));
    }
    if !leftovers.is_empty() {
        let noun = if leftovers.len() == 1 { "process was" } else { "processes were" };
        say_on_stderr(format_args!(
            "{} {noun} still running and had to be killed: {}",
            leftovers.len(),
            result::name_leftovers(leftovers, &BTreeMap::new())
        ));
    }
}

/// Prints the result as one JSON object on a line, with stderr apart if it `asks_for_stderr`.
///
/// # Errors
/// When stdout or the spool fails.
pub(crate) fn json(
    task: &TaskHandle,
    leftovers: &[ProcessName],
    asks_for_stderr: bool,
    config: &Config,
) -> Result<(), OutputError> {
    let live = &task.live;
    let view = View::take(live);
    let (end, output_end) = (view.task.ended.as_ref(), view.deltas.output.to);
    let shown = lay_out(task, StreamName::Output, &view, config)?;
    let directory = end.and_then(|end| end.moved_to.as_ref());
    let mut result = json!({
        "command": live.facts.command,
        "status": describe::status_word(&view.task),
        "exit_code": end.map(|end| end.exit.code()),
        "pipestatus": end.map(|end| end.pipestatus.clone()).unwrap_or_default(),
        "cost": end.and_then(|end| end.cost.as_ref().map(|cost| result::cost_meta(end, cost))),
        "duration_ms": end.map(|end| result::millis(end.duration)),
        "sandbox": live.facts.sandbox.as_ref().map(|sandbox| sandbox.policy.to_string()),
        "cwd": directory.unwrap_or(&live.facts.directory).to_string_lossy(),
        "output": shown.text,
        "total_lines": shown.to_line,
        "total_bytes": output_end.at.offset,
        "omitted_lines": shown.omitted_lines,
        "omitted_bytes": shown.omitted_bytes,
        "leftovers": leftovers,
        "warnings": warnings(live, &task.losses()),
    });
    if asks_for_stderr && let Some(fields) = result.as_object_mut() {
        let errors = lay_out(task, StreamName::Errors, &view, config)?;
        fields.insert("stderr".to_owned(), json!(errors.text));
        fields.insert("stderr_lines".to_owned(), json!(errors.to_line));
        fields.insert("stderr_bytes".to_owned(), json!(view.deltas.errors.to.at.offset));
    }
    output::print(&format!("{result}\n"))
}

fn lay_out(
    task: &TaskHandle,
    stream: StreamName,
    view: &View,
    config: &Config,
) -> Result<Shown, OutputError> {
    let (to, end) = (view.deltas.get(stream).to, view.task.ended.as_ref());
    let amount = amount(task, stream, to.at, end, Some(config.max_output), config.max_output);
    let spool = task.spools.get(stream);
    let spans = reading::excerpt(spool, LinePosition::FIRST.at, to, amount)
        .map_err(OutputError::Unreadable)?;
    Ok(lines::lay_out(
        &spans,
        &Layout {
            room: Room::with_chars(amount.max_chars),
            numbered: false,
            repeats: Repeats::Each,
            choice: amount.choice,
            colours: Colours::Drop,
            columns: task.live.state().columns,
            read_call: "",
            raw_call: "",
        },
    ))
}

fn status_line(task: &LiveTask, palette: Palette) -> Option<String> {
    let state = task.state();
    let end = state.ended.as_ref()?;
    let mut parts = vec![result::end_words(end, palette)];
    if !end.pipestatus.is_empty() {
        let statuses: Vec<String> = end.pipestatus.iter().map(i32::to_string).collect();
        parts.push(format!("pipestatus=[{}]", statuses.join(",")));
    }
    parts.push(describe::took(end, None));
    parts.extend(task.facts.sandbox.as_deref().map(describe::sandbox_phrase));
    Some(parts.join("  "))
}

/// Says what the sandbox refused the command, by the end of what it printed.
fn refusal(task: &TaskHandle) -> Option<String> {
    let view = View::take(&task.live);
    let ended = view.task.ended.as_ref().filter(|end| end.exit.code() != 0)?;
    [StreamName::Errors, StreamName::Output].into_iter().find_map(|stream| {
        let end = view.deltas.get(stream).to.at;
        let (_, tail) = reading::head_and_tail(task.spools.get(stream), end);
        sandboxes::refusal(&task.live.facts, ended, &tail)
    })
}

/// Names the shell that was used instead of zsh, and missing output. Streamed output reports its
/// gaps itself.
fn warnings(task: &LiveTask, losses: &Losses) -> Vec<String> {
    let mut warnings: Vec<String> = task.facts.start_notes.clone();
    if let Some(sandbox) = &task.facts.sandbox {
        warnings.extend(describe::sandbox_gap(sandbox));
        warnings.extend(sandboxes::notes_made(sandbox, &task.made_unprotected(false)));
    }
    if is_cut(task) {
        warnings.push(describe::OUTPUT_CUT.to_owned());
    }
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

fn is_cut(task: &LiveTask) -> bool {
    task.state().ended.as_ref().is_some_and(|end| end.output_cut)
}

fn palette(config: &Config) -> Palette {
    let coloured = match config.color {
        ColorChoice::Always => true,
        ColorChoice::Never => false,
        ColorChoice::Auto => io::stderr().is_terminal(),
    };
    if coloured { Palette::Coloured } else { Palette::Plain }
}

/// Whether the last line of the output is incomplete.
fn ends_within_a_line(task: &TaskHandle) -> bool {
    let state = task.live.state();
    state.streams.output.end.offset > state.streams.output.line_start.offset
}
