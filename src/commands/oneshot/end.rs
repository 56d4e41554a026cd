//! Reports the result of a run, to people and to programs.

use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde_json::{Value, json};

use super::mistyped::END_OF_OPTIONS;
use super::words;
use crate::agent::usage::Usage;
use crate::commands::output;
use crate::oneshot::engine::Engine;
use crate::oneshot::recovery;
use crate::oneshot::repository::WorkTree;
use crate::oneshot::run_files::RunFile;
use crate::oneshot::sessions::RunView;
use crate::oneshot::state::{Position, Reason, RunState, Stage};

/// The result of a run.
pub(super) struct End {
    id: String,
    /// The stage in which it ended or was paused.
    stage: Stage,
    /// Its last iteration.
    iteration: u32,
    /// The maximum number of iterations.
    maximum: u32,
    /// Where its agents work.
    directory: PathBuf,
    /// The directory of its files.
    directory_of_run: PathBuf,
    /// The last worker's final message, if it had one.
    result: Option<String>,
    /// The last auditor's feedback.
    feedback: Option<String>,
    /// What its agents have cost.
    usage: Usage,
    /// The work tree of its own, if there is one.
    work_tree: Option<WorkTree>,
}

impl End {
    pub(super) fn from_engine(engine: &Engine) -> End {
        let run = engine.run();
        let position = run.position();
        // A paused run shows no result, and searching for it takes time.
        let is_paused = matches!(position.stage, Stage::Interrupted { .. });
        let result = (!is_paused).then(|| engine.result()).flatten();
        End::new(run.file(), position, run.directory(), result)
    }

    /// The end of a run that another process has finished.
    pub(super) fn of_ended(run: &RunView, position: &Position) -> End {
        let result = recovery::result(&run.directory, position.iteration).ok().flatten();
        End::new(&run.file, position, &run.directory, result)
    }

    fn new(file: &RunFile, position: &Position, directory: &Path, result: Option<String>) -> End {
        End {
            id: file.oneshot_id.clone(),
            stage: position.stage.clone(),
            iteration: position.iteration,
            maximum: position.maximum.get(),
            directory: file.directory.clone(),
            directory_of_run: directory.to_path_buf(),
            result,
            feedback: file.feedback.clone(),
            usage: file.usage(),
            work_tree: file.work_tree.clone().filter(|tree| tree.path.exists()),
        }
    }

    /// Prints the worker's result to stdout and the rest to stderr.
    pub(super) fn report(self, as_json: bool) -> ExitCode {
        let code = self.stage.exit_code().unwrap_or(1);
        let printed = match (as_json, &self.stage, &self.result) {
            (true, ..) => output::print(&format!("{}\n", self.json(code))),
            (false, Stage::Completed, Some(result)) if !result.is_empty() => {
                let result = result.trim_end_matches('\n');
                if io::stdout().is_terminal() {
                    output::print(&format!("{}\n", words::text(result)))
                } else {
                    output::print(&format!("{result}\n"))
                }
            }
            _ => Ok(()),
        };
        match &self.stage {
            Stage::Completed if as_json => {}
            Stage::Interrupted { .. } => {
                output::say_on_stderr(format_args!(
                    "zsh-tool: the run {} is paused; resume it with",
                    self.id
                ));
                output::say_on_stderr(resume_command(&self.id));
            }
            stage => {
                output::say_on_stderr(self.summary(stage));
                if stage.state() == RunState::Failed {
                    output::say_on_stderr(self.next_step(stage));
                }
            }
        }
        if let Some(tree) = self.work_tree.as_ref().filter(|_| !as_json) {
            for (what, line) in words::about_work_tree(tree, &self.id) {
                output::say_on_stderr(format_args!("{what}: {line}"));
            }
        }
        output::conclude(printed, code)
    }

    fn summary(&self, stage: &Stage) -> String {
        let state = stage.state();
        let iterations = format!("iteration {} of {}", self.iteration, self.maximum);
        let cost =
            if self.usage.is_reported() { format!(", {}", self.usage) } else { String::new() };
        match stage.reason() {
            Some(reason) => {
                format!("zsh-tool: {state} ({reason}), {iterations}{cost}, run {}", self.id)
            }
            None => format!("zsh-tool: {state}, {iterations}{cost}, run {}", self.id),
        }
    }

    /// What to do about a failed run.
    fn next_step(&self, stage: &Stage) -> String {
        match stage.reason() {
            Some(Reason::MaxCost) => {
                format!("a larger budget: {} --max-cost USD", resume_command(&self.id))
            }
            Some(Reason::MaxTokens) => {
                format!("a larger budget: {} --max-tokens N", resume_command(&self.id))
            }
            Some(Reason::MaxIterations) => {
                format!("more iterations: {} --max-iterations N", resume_command(&self.id))
            }
            _ if matches!(stage, Stage::GivenUp { .. }) => format!(
                "see what happened: {}\nwhen the cause is removed: {}",
                command(&["follow", &self.id]),
                resume_command(&self.id)
            ),
            _ => format!("see what happened: {}", command(&["follow", &self.id])),
        }
    }

    fn json(&self, code: u8) -> Value {
        let is_resumable = matches!(self.stage, Stage::Interrupted { .. } | Stage::GivenUp { .. });
        let [take_over, throw_away] = match &self.work_tree {
            Some(tree) => words::about_work_tree(tree, &self.id).map(|(_, line)| Some(line)),
            None => [None, None],
        };
        json!({
            "oneshot_id": self.id,
            "state": self.stage.state().name(),
            "reason": self.stage.reason().map(|reason| reason.to_string()),
            "iteration_count": self.iteration,
            "max_iterations": self.maximum,
            "exit_code": code,
            "result": self.result,
            "feedback": self.feedback,
            "usage": self.usage,
            "directory": self.directory.to_string_lossy(),
            "directory_of_run": self.directory_of_run.to_string_lossy(),
            "work_tree": self.work_tree,
            "take_over": take_over,
            "throw_away": throw_away,
            "resume": is_resumable.then(|| resume_command(&self.id)),
        })
    }
}

/// The command that resumes a run, for pasting into a shell.
pub(super) fn resume_command(id: &str) -> String {
    command(&["--resume", id])
}

/// This process's command line with these words, its last ones, marked as the prompt.
pub(super) fn prompt_command(words: &[String]) -> String {
    let all: Vec<String> = std::env::args().collect();
    let is_link = Path::new(all.first().map_or("", String::as_str))
        .file_name()
        .is_some_and(|name| name == "oneshot");
    let mut options: Vec<String> = all.into_iter().skip(if is_link { 1 } else { 2 }).collect();
    for word in words.iter().rev() {
        if let Some(at) = options.iter().rposition(|known| known == word) {
            options.remove(at);
        }
    }
    let options = options.iter().map(|word| output::shell_word(word));
    let prompt = output::shell_word(&words.join(" "));
    let words: Vec<String> = options.chain([END_OF_OPTIONS.to_owned(), prompt]).collect();
    command(&words.iter().map(String::as_str).collect::<Vec<_>>())
}

/// This command with these arguments, under the name by which it was started.
fn command(arguments: &[&str]) -> String {
    let arguments = arguments.join(" ");
    let program = std::env::args().next().unwrap_or_else(|| "zsh-tool".to_owned());
    let is_link = Path::new(&program).file_name().is_some_and(|name| name == "oneshot");
    let subcommand = if is_link { "" } else { " oneshot" };
    format!("{}{subcommand} {arguments}", output::shell_word(&program))
}
