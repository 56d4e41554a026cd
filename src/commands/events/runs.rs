//! The ends of agent runs, read from the files of runs.

use std::path::{Path, PathBuf};

use serde::Serialize;

use super::Scope;
use crate::commands::output;
use crate::monitor::runs::exit_code;
use crate::monitor::session::one_line;
use crate::oneshot::sessions::{self, RunView};
use crate::oneshot::unreported;
use crate::process::kill::Handle;
use crate::text::foreign;
use crate::text::lines::elide_middle;

/// How much of a prompt is shown.
const SHOWN_CHARS: usize = 160;

/// The end of a run, or of the process that ran it. Every key is always present in JSON.
#[derive(Debug, Serialize)]
pub(super) struct RunEnd {
    event: &'static str,
    pub(super) oneshot_id: String,
    prompt: String,
    directory: PathBuf,
    state: &'static str,
    /// Why, if it did not complete.
    reason: Option<String>,
    iteration_count: u32,
    /// What the runner exited with; none if it was killed.
    exit_code: Option<i32>,
    is_resumable: bool,
}

impl RunEnd {
    fn of(run: &RunView) -> RunEnd {
        let file = &run.file;
        RunEnd {
            event: "run_ended",
            oneshot_id: file.oneshot_id.clone(),
            prompt: elide_middle(&one_line(&file.prompt), SHOWN_CHARS),
            directory: file.directory.clone(),
            state: file.state.name(),
            reason: file
                .last()
                .and_then(|entry| entry.basis.reason.as_ref())
                .map(ToString::to_string),
            iteration_count: file.iteration_count,
            exit_code: exit_code(run),
            is_resumable: run.is_resumable(),
        }
    }

    /// The end as one line of text.
    pub(super) fn line(&self) -> String {
        let RunEnd { oneshot_id: id, state, .. } = self;
        let prompt = foreign::in_quotes(&self.prompt, SHOWN_CHARS);
        let reason = self.reason.as_ref().map(|reason| format!(" ({reason})")).unwrap_or_default();
        let next = if self.is_resumable {
            format!("zsh-tool oneshot --resume {id} continues it")
        } else {
            format!("zsh-tool oneshot show {id}")
        };
        let what = match self.exit_code {
            Some(_) => format!("is {state}{reason}"),
            None => format!("was left {state}, its runner is gone"),
        };
        format!("run {id} {what}, iteration {}  {prompt}  |  {next}", self.iteration_count)
    }
}

/// The ends that this process is to report, and the runners of runs that have not ended.
#[derive(Default)]
pub(super) struct Found {
    pub(super) ends: Vec<RunEnd>,
    /// `None` for a runner that is not visible, as in another container, or has just ended.
    pub(super) runners: Vec<Option<Handle>>,
}

/// Claims the ends that no process has reported, of runs in scope. Runs that are live, or that a
/// process resumes meanwhile, keep their marks.
pub(super) fn claim_ended(state: &Path, scope: &Scope) -> Found {
    let mut found = Found::default();
    for run in unreported::marked(state) {
        if !is_in(scope, &run) {
            continue;
        }
        if run.live {
            found.runners.push(run.runner.and_then(|runner| Handle::open(runner).ok()));
            continue;
        }
        if !unreported::claim(state, run.id()) {
            continue;
        }
        match sessions::view(&run.directory) {
            // A process has resumed it and found the mark of the end before.
            Ok(resumed) if resumed.live => unreported::mark(state, run.id()),
            Ok(run) => found.ends.push(RunEnd::of(&run)),
            Err(error) => output::complain(error),
        }
    }
    found
}

fn is_in(scope: &Scope, run: &RunView) -> bool {
    let Scope::Client { project, .. } = scope else {
        return true;
    };
    let tree = run.file.work_tree.as_ref();
    tree.map_or(&run.file.directory, |tree| &tree.repository).starts_with(project)
}
