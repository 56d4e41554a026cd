//! `zsh-tool oneshot list` and `zsh-tool oneshot show`: lists runs, and describes one.

use std::fmt::Write;
use std::io::{self, IsTerminal};
use std::process::ExitCode;

use serde_json::{Value, json};

use super::{find, words};
use crate::agent::usage::Usage;
use crate::commands::output::{self, Output};
use crate::commands::shared;
use crate::config::Config;
use crate::oneshot::check::CheckResult;
use crate::oneshot::log::{self, LineKind};
use crate::oneshot::log_reader;
use crate::oneshot::repository::{Repository, SNAPSHOTS};
use crate::oneshot::run_files::{AgentSession, RunFile};
use crate::oneshot::sessions::{self, RunView};
use crate::oneshot::state::{Reason, RunState};
use crate::text::foreign::ShowPath;
use crate::text::quantity::{grouped, seconds};

/// How far back the log is searched for the newest result.
const RESULT_WITHIN: u64 = 16 << 20;

/// Lines of a text that are shown.
const TEXT_LINES: usize = 20;

/// Characters of a line that are shown.
const LINE_CHARS: usize = 200;

/// Describes one run.
pub(super) fn show(config: &Config, id: &str, json: bool) -> Result<ExitCode, ExitCode> {
    let run = find(config, id)?;
    let text = if json { format!("{}\n", to_json(&run)) } else { describe(&run) };
    if !json
        && !run.live
        && let Err(error) = log::check(&run.directory, &run.file)
    {
        output::complain(error);
    }
    Ok(output::conclude(output::print(&text), 0))
}

/// Prints what a run, or one iteration of it, has changed.
pub(super) fn diff(
    config: &Config,
    id: &str,
    iteration: Option<u32>,
) -> Result<ExitCode, ExitCode> {
    let run = find(config, id)?;
    let Some((from, to)) = run.file.snapshots_around(iteration) else {
        return Err(output::misused(run.file.why_no_difference(iteration)));
    };
    let (directory, store) = (run.file.repository_directory(), run.directory.join(SNAPSHOTS));
    let binary = !io::stdout().is_terminal();
    let diff = Repository::find(directory, &store, &shared::environment(config))
        .and_then(|found| found.map(|repository| repository.diff(from, to, binary)).transpose())
        .map_err(output::failed)?
        .ok_or_else(|| {
            let directory = directory.shown();
            output::failed(format_args!("{directory} is no longer in a git repository"))
        })?;
    let printed = if io::stdout().is_terminal() {
        output::print(&String::from_utf8_lossy(&diff))
    } else {
        Output::stdout().map_err(Into::into).and_then(|mut output| output.write(&diff))
    };
    Ok(output::conclude(printed, 0))
}

pub(crate) fn describe(run: &RunView) -> String {
    let file = &run.file;
    let mut text = String::new();
    let mut row = |name: &str, value: &str| {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{name:<11}{value}");
    };
    row("run", &file.oneshot_id);
    row("state", &words::state(run));
    if let Some(runner) = run.runner {
        row("runner", &format!("pid {}", runner.pid));
    }
    row("iteration", &format!("{} of {}", file.iteration_count, file.max_iterations));
    row("worker", &agent(&file.executor, file.model.as_deref()));
    row("auditor", &agent(&file.auditor, file.auditor_model.as_deref()));
    row("cost", &cost(file));
    for check in &file.checks {
        let of_it = file.check_results.iter().rev().find(|result| result.command == *check);
        let text = of_it.map_or_else(|| format!("{check}: not run yet"), CheckResult::summary);
        row("check", &words::line(&text, LINE_CHARS));
    }
    row("directory", &file.directory.shown().to_string());
    if let Some(tree) = &file.work_tree {
        row("branch", &tree.branch);
    }
    row("files", &run.directory.shown().to_string());
    row("created", &words::clean(&file.created_at));
    row("changed", &words::clean(&file.updated_at));
    text.push_str(&history(file));
    if !file.agent_sessions.is_empty() {
        text.push_str(&costs(file));
    }
    section(&mut text, "prompt", &file.prompt);
    if let Some(feedback) = file.feedback.as_ref().filter(|text| !text.trim().is_empty()) {
        section(&mut text, "feedback", feedback);
    }
    let newest = log_reader::newest(&run.directory, LineKind::Result, RESULT_WITHIN);
    if let Some(line) = newest.ok().flatten()
        && let Some(result) = line.data.get("text").and_then(|text| text.as_str())
    {
        let role = line.origin.role.map_or("", |role| role.name());
        section(&mut text, &format!("last result ({role})"), result);
    }
    if let Some(failed) = &file.failed_checks {
        section(&mut text, "failed checks", failed);
    }
    if let Some(tree) = file.work_tree.as_ref().filter(|tree| !run.live && tree.path.exists()) {
        text.push('\n');
        for (what, line) in words::about_work_tree(tree, &file.oneshot_id) {
            let _ = writeln!(text, "{what}: {line}");
        }
    }
    if run.is_resumable() {
        let _ = writeln!(text, "\nresume: zsh-tool oneshot --resume {}", file.oneshot_id);
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
    let reason = file.last().and_then(|entry| entry.basis.reason.as_ref());
    file.state == RunState::Failed && matches!(reason, Some(Reason::MaxIterations))
}

fn agent(executor: &str, model: Option<&str>) -> String {
    let executor = words::clean(executor);
    match model {
        Some(model) => format!("{executor}, model {}", words::clean(model)),
        None => executor,
    }
}

/// The states, each with its time since the run's creation and its duration.
fn history(file: &RunFile) -> String {
    let mut text = String::from("\nhistory\n");
    let created = file.history.first().map_or(0.0, |entry| entry.ts);
    let ends = file.history.iter().skip(1).map(|entry| Some(entry.ts));
    for (entry, end) in file.history.iter().zip(ends.chain([None])) {
        let at = seconds(words::between(created, entry.ts));
        let lasted = end.map(|end| seconds(words::between(entry.ts, end)));
        let lasted = lasted.unwrap_or_default();
        let pid = entry.basis.pid.map(|pid| format!("pid {pid}"));
        let reason = entry.basis.reason.as_ref().map(|reason| reason.to_string());
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

/// What the agents have cost: `$0.12, 15,200 tokens (14,000 in, 1,200 out), 7 turns`.
fn cost(file: &RunFile) -> String {
    let usage = file.usage();
    if usage.is_reported() { usage.to_string() } else { "not reported".to_owned() }
}

/// What each agent has cost.
fn costs(file: &RunFile) -> String {
    let mut text = String::from("\ncosts\n");
    for AgentSession { role, iteration, executor, usage, .. } in &file.agent_sessions {
        let usage = match usage {
            Some(usage) if usage.is_reported() => usage.to_string(),
            Some(_) => "not reported".to_owned(),
            None => "not over".to_owned(),
        };
        let (role, executor) = (role.name(), words::clean(executor));
        let _ = writeln!(text, "  {iteration:>3}  {role:<7}  {executor}: {usage}");
    }
    text
}

fn section(text: &mut String, title: &str, content: &str) {
    let _ = writeln!(text, "\n{title}");
    let count = content.lines().count();
    for line in content.lines().take(TEXT_LINES) {
        let shown = crate::text::lines::elide_middle(&words::clean(line), LINE_CHARS);
        let _ = writeln!(text, "  {shown}");
    }
    if count > TEXT_LINES {
        let _ = writeln!(text, "  … {} more lines", count - TEXT_LINES);
    }
}

/// Characters of a prompt that are shown.
const PROMPT_CHARS: usize = 60;

/// Characters of an id that are shown, which nearly always identify it.
const ID_CHARS: usize = 8;

/// Lists all runs, aligned for people or as JSON for scripts.
pub(super) fn list(config: &Config, json: bool) -> Result<ExitCode, ExitCode> {
    let listing = sessions::list(shared::state_directory(config)?);
    for error in &listing.unusable {
        output::complain(error);
    }
    if listing.runs.is_empty() {
        output::say_on_stderr("no agent runs");
    }
    let text = if json {
        let lines = listing.runs.iter().map(|run| format!("{}\n", to_json(run)));
        lines.collect()
    } else {
        let rows: Vec<_> = listing.runs.iter().map(cells).collect();
        output::columns(&rows, &[2, 3])
    };
    Ok(output::conclude(output::print(&text), 0))
}

/// A run's file and its present state.
fn to_json(run: &RunView) -> Value {
    let mut value = serde_json::to_value(&run.file).unwrap_or_default();
    if let Some(fields) = value.as_object_mut() {
        let mut add = |name: &str, value| fields.insert(name.to_owned(), value);
        add("live", json!(run.live));
        add("usage", json!(run.file.usage()));
        add("runner_pid", json!(run.runner.map(|runner| runner.pid)));
        add("resumable", json!(run.is_resumable()));
        add("directory_of_run", json!(run.directory.shown().to_string()));
    }
    value
}

/// Money if it is reported, else tokens, else `-`.
fn short_cost(usage: &Usage) -> String {
    match (usage.usd, usage.tokens()) {
        (Some(usd), _) if usd > 0.0 && usd < 0.01 => "<$0.01".to_owned(),
        (Some(usd), _) => format!("${usd:.2}"),
        (None, Some(tokens)) => format!("{} tokens", grouped(tokens)),
        (None, None) => "-".to_owned(),
    }
}

/// Id, state, iteration, age, cost, executor, prompt.
pub(crate) fn cells(run: &RunView) -> [String; 7] {
    let file = &run.file;
    let changed = file.last().map_or(0.0, |entry| entry.ts);
    [
        file.oneshot_id.chars().take(ID_CHARS).collect(),
        words::state(run),
        format!("{}/{}", file.iteration_count, file.max_iterations),
        format!("{} ago", words::ago(changed)),
        short_cost(&file.usage()),
        words::clean(&file.executor),
        words::line(&file.prompt, PROMPT_CHARS),
    ]
}
