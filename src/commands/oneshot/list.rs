//! `zsh-tool oneshot list`: all runs, aligned for people or as JSON for scripts.

use std::process::ExitCode;

use serde_json::{Value, json};

use super::{state_directory, words};
use crate::commands::{output, setup};
use crate::oneshot::sessions::{self, RunView};

/// How much of a prompt a line shows.
const PROMPT_CHARS: usize = 60;

/// How much of an id a line shows; the rest is asked for where two begin so.
const ID_CHARS: usize = 8;

/// Runs the command.
pub(super) fn run(json: bool) -> ExitCode {
    let (config, _) = setup::load_config();
    let Some(state) = state_directory(config) else {
        return ExitCode::FAILURE;
    };
    let listing = sessions::list(&state);
    for error in &listing.unusable {
        output::complain(error);
    }
    if listing.runs.is_empty() {
        output::say("no agent runs");
    }
    let text = match json {
        true => listing.runs.iter().map(json_line).collect(),
        false => table(&listing.runs),
    };
    output::conclude(output::print(&text), 0)
}

fn json_line(run: &RunView) -> String {
    format!("{}\n", describe(run))
}

/// A run's file, and what can be seen of it now.
pub(super) fn describe(run: &RunView) -> Value {
    let mut value = serde_json::to_value(&run.file).unwrap_or_default();
    if let Some(fields) = value.as_object_mut() {
        fields.insert("live".to_owned(), json!(run.live));
        fields.insert(
            "runner_pid".to_owned(),
            json!(run.runner.map(|runner| runner.pid)),
        );
        fields.insert("resumable".to_owned(), json!(run.is_resumable()));
        fields.insert(
            "directory_of_run".to_owned(),
            json!(run.directory.display().to_string()),
        );
    }
    value
}

/// Id, state, iteration, age, executor, prompt.
fn table(runs: &[RunView]) -> String {
    let cells: Vec<[String; 6]> = runs.iter().map(cells).collect();
    let mut widths = [0; 6];
    for row in &cells {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.chars().count().max(*width);
        }
    }
    let [id, state, iteration, age, executor, _] = widths;
    cells
        .iter()
        .map(|[a, b, c, d, e, f]| {
            format!("{a:<id$}  {b:<state$}  {c:>iteration$}  {d:>age$}  {e:<executor$}  {f}\n")
        })
        .collect()
}

fn cells(run: &RunView) -> [String; 6] {
    let file = &run.file;
    let changed = file.last().map_or(0.0, |entry| entry.ts);
    [
        file.oneshot_id.chars().take(ID_CHARS).collect(),
        words::state(run),
        format!("{}/{}", file.iteration_count, file.max_iterations),
        format!("{} ago", words::ago(changed)),
        words::clean(&file.executor),
        words::line(&file.prompt, PROMPT_CHARS),
    ]
}
