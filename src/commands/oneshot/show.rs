//! `zsh-tool oneshot show`: one run, for a person to read.

use std::fmt::Write;
use std::process::ExitCode;

use super::{find, list, words};
use crate::commands::output;
use crate::mcp::view;
use crate::oneshot::context::RunFile;
use crate::oneshot::log::Kind;
use crate::oneshot::log_reader;
use crate::oneshot::reason::Reason;
use crate::oneshot::sessions::RunView;
use crate::oneshot::stage::State;

/// How far back in the log the newest result is looked for.
const RESULT_WITHIN: u64 = 16 << 20;

/// Lines of the result and of the feedback that are shown.
const TEXT_LINES: usize = 20;

/// How much of a line is shown.
const LINE_CHARS: usize = 200;

/// Runs the command.
pub(super) fn run(id: &str, json: bool) -> ExitCode {
    let run = match find(id) {
        Ok(run) => run,
        Err(code) => return code,
    };
    let text = match json {
        true => format!("{}\n", list::describe(&run)),
        false => describe(&run),
    };
    output::conclude(output::print(&text), 0)
}

fn describe(run: &RunView) -> String {
    let file = &run.file;
    let mut text = String::new();
    let mut row = |name: &str, value: &str| {
        // A string takes whatever is written to it.
        let _ = writeln!(text, "{name:<11}{value}");
    };
    row("run", &file.oneshot_id);
    row("state", &words::state(run));
    if let Some(runner) = run.runner {
        row("runner", &format!("pid {}", runner.pid));
    }
    row(
        "iteration",
        &format!("{} of {}", file.iteration_count, file.max_iterations),
    );
    row("worker", &agent(&file.executor, file.model.as_deref()));
    row(
        "auditor",
        &agent(&file.auditor, file.auditor_model.as_deref()),
    );
    row(
        "directory",
        &words::clean(&file.directory.to_string_lossy()),
    );
    row("files", &run.directory.display().to_string());
    row("created", &file.created_at);
    row("changed", &file.updated_at);
    text.push_str(&history(file));
    section(&mut text, "prompt", &file.prompt);
    if let Some(feedback) = file
        .feedback
        .as_ref()
        .filter(|text| !text.trim().is_empty())
    {
        section(&mut text, "feedback", feedback);
    }
    // A log that cannot be read has no result to show.
    let newest = log_reader::newest(&run.directory, Kind::Result, RESULT_WITHIN);
    if let Some(line) = newest.ok().flatten()
        && let Some(result) = line.data.get("text").and_then(|text| text.as_str())
    {
        let role = line.origin.role.map_or("", |role| role.name());
        section(&mut text, &format!("last result ({role})"), result);
    }
    if run.is_resumable() {
        let _ = writeln!(
            text,
            "\nresume: zsh-tool oneshot --resume {}",
            file.oneshot_id
        );
    } else if ends_at_maximum(file) && !run.live {
        let _ = writeln!(
            text,
            "\nmore iterations: zsh-tool oneshot --resume {} --max-iterations N",
            file.oneshot_id
        );
    }
    text
}

fn ends_at_maximum(file: &RunFile) -> bool {
    let reason = file.last().and_then(|entry| entry.reason.as_ref());
    file.state == State::Failed && matches!(reason, Some(Reason::MaxIterations))
}

fn agent(executor: &str, model: Option<&str>) -> String {
    let executor = words::clean(executor);
    match model {
        Some(model) => format!("{executor}, model {}", words::clean(model)),
        None => executor,
    }
}

/// Each state with the time since the run's creation and how long it lasted.
fn history(file: &RunFile) -> String {
    let mut text = String::from("\nhistory\n");
    let created = file.history.first().map_or(0.0, |entry| entry.ts);
    let ends = file.history.iter().skip(1).map(|entry| Some(entry.ts));
    for (entry, end) in file.history.iter().zip(ends.chain([None])) {
        let at = view::seconds(words::between(created, entry.ts));
        let lasted = match end {
            Some(end) => view::seconds(words::between(entry.ts, end)),
            None => String::new(),
        };
        let pid = entry.pid.map(|pid| format!("pid {pid}"));
        let reason = entry.reason.as_ref().map(|reason| reason.to_string());
        let note = pid.or(reason).unwrap_or_default();
        let line = format!(
            "  {at:>7}  {:<19}  {lasted:>7}  {}",
            entry.state,
            words::line(&note, LINE_CHARS)
        );
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

fn section(text: &mut String, title: &str, content: &str) {
    let _ = writeln!(text, "\n{title}");
    let count = content.lines().count();
    for line in content.lines().take(TEXT_LINES) {
        let shown = crate::text::lines::clip(&words::clean(line), LINE_CHARS);
        let _ = writeln!(text, "  {shown}");
    }
    if count > TEXT_LINES {
        let _ = writeln!(text, "  … {} more lines", count - TEXT_LINES);
    }
}
