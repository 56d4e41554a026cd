//! What came of a run, for people and for programs.

use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde_json::{Value, json};

use super::mistyped::END_OF_OPTIONS;
use super::words;
use crate::commands::output;
use crate::oneshot::reason::Reason;
use crate::oneshot::stage::{Stage, State};

/// What came of a run.
pub(super) struct End {
    /// The run's id.
    pub(super) id: String,
    /// Where it has come to rest.
    pub(super) stage: Stage,
    /// Its last iteration.
    pub(super) iteration: u32,
    /// How many there might have been.
    pub(super) maximum: u32,
    /// Where its files are.
    pub(super) directory: PathBuf,
    /// What the last worker said in the end; none where it came to no such end.
    pub(super) result: Option<String>,
    /// What the last auditor said.
    pub(super) feedback: Option<String>,
}

impl End {
    /// Says how it ended: the worker's result on stdout, the rest on stderr.
    pub(super) fn tell(self, as_json: bool) -> ExitCode {
        let code = self.stage.exit_code().unwrap_or(1);
        let printed = match (as_json, &self.stage, &self.result) {
            (true, ..) => output::print(&format!("{}\n", self.json(code))),
            (false, Stage::Completed, Some(result)) if !result.is_empty() => {
                let result = result.trim_end_matches('\n');
                match io::stdout().is_terminal() {
                    true => output::print(&format!("{}\n", words::text(result))),
                    false => output::print(&format!("{result}\n")),
                }
            }
            _ => Ok(()),
        };
        match &self.stage {
            Stage::Completed if as_json => {}
            Stage::Interrupted { .. } => {
                output::say(format_args!(
                    "zsh-tool: the run {} is paused; it goes on with",
                    self.id
                ));
                output::say(resume_command(&self.id));
            }
            stage => {
                output::say(self.summary(stage));
                if stage.state() == State::Failed {
                    output::say(self.way_out(stage));
                }
            }
        }
        output::conclude(printed, code)
    }

    fn summary(&self, stage: &Stage) -> String {
        let state = stage.state();
        let iterations = format!("iteration {} of {}", self.iteration, self.maximum);
        match stage.reason() {
            Some(reason) => format!(
                "zsh-tool: {state} ({reason}), {iterations}, run {}",
                self.id
            ),
            None => format!("zsh-tool: {state}, {iterations}, run {}", self.id),
        }
    }

    /// What can be done about a run that failed.
    fn way_out(&self, stage: &Stage) -> String {
        match stage.reason() {
            Some(Reason::MaxIterations) => format!(
                "more iterations: {} --max-iterations N",
                resume_command(&self.id)
            ),
            _ => format!("what went on: {}", command(&["follow", &self.id])),
        }
    }

    fn json(&self, code: u8) -> Value {
        let is_paused = matches!(self.stage, Stage::Interrupted { .. });
        json!({
            "oneshot_id": self.id,
            "state": self.stage.state().name(),
            "reason": self.stage.reason().map(|reason| reason.to_string()),
            "iteration_count": self.iteration,
            "max_iterations": self.maximum,
            "exit_code": code,
            "result": self.result,
            "feedback": self.feedback,
            "directory": self.directory.to_string_lossy(),
            "resume": is_paused.then(|| resume_command(&self.id)),
        })
    }
}

/// The command that takes a run up again, for pasting into a shell.
pub(super) fn resume_command(id: &str) -> String {
    command(&["--resume", id])
}

/// The command that begins a run with this prompt, whatever the prompt looks like.
pub(super) fn prompt_command(prompt: &str) -> String {
    command(&[END_OF_OPTIONS, &quoted(prompt)])
}

/// This command with these arguments, under the name that it was started by.
fn command(arguments: &[&str]) -> String {
    let arguments = arguments.join(" ");
    let program = std::env::args()
        .next()
        .unwrap_or_else(|| "zsh-tool".to_owned());
    let is_link = Path::new(&program)
        .file_name()
        .is_some_and(|name| name == "oneshot");
    let quoted = quoted(&program);
    match is_link {
        true => format!("{quoted} {arguments}"),
        false => format!("{quoted} oneshot {arguments}"),
    }
}

/// A word as a shell takes it.
fn quoted(word: &str) -> String {
    shlex::try_quote(word).map_or_else(|_| word.to_owned(), |quoted| quoted.into_owned())
}
