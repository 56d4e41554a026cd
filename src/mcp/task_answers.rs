//! Calls that are answered by a task of MCP's tasks extension: which ones are, and what
//! the extension's methods tell of a task and do to it.
//!
//! A task of the extension is the zsh task of the same id. Its result shows the whole
//! output, capped, also what other results have shown, and takes nothing from what
//! `zsh_poll` has yet to show. Limits: the client asks; no status is ever pushed.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::dispatch::{HandedOver, NoAnswer, Numbering, Showing, Tools, newest_line};
use super::insight::Insight;
use super::render::{Palette, end_words};
use crate::config::TaskChoice;
use crate::progress::waiting::{Waiting, Wanted};
use crate::protocol::message::{INTERNAL_ERROR, put};
use crate::protocol::tasks::{Failure, Operation, Status, Task, UnknownTask};
use crate::task::live::End;
use crate::task::reading;
use crate::task::registry::TaskHandle;
use crate::task::state::{KillOrder, Outcome as Ended};
use crate::task::watch::Stopped;
use crate::text::lines::{self, Place};

/// A client is to ask again after this part of what the task has taken so far …
const ASK_AGAIN_PART: u32 = 10;
/// … but not sooner …
const ASK_AGAIN_SOONEST: Duration = Duration::from_millis(500);
/// … nor later.
const ASK_AGAIN_LATEST: Duration = Duration::from_secs(5);
/// How much of a prompt a status message holds.
const PROMPT_CHARS: usize = 80;

impl Tools {
    /// Whether the extension is offered.
    pub fn offers_tasks(&self) -> bool {
        self.config.mcp_tasks != TaskChoice::Off
    }

    /// Whether the answer to a call that has just started a command is a task at once.
    pub(super) fn answers_by_task(&self, client_takes_tasks: bool, background: bool) -> bool {
        client_takes_tasks && background && self.offers_tasks()
    }

    /// Whether it is one after all, now that the waiting for the command is over. A line
    /// that matched and a question are answers by themselves.
    pub(super) fn yields_by_task(
        &self,
        client_takes_tasks: bool,
        background: bool,
        stopped: &Stopped,
    ) -> bool {
        let wanted = match self.config.mcp_tasks {
            TaskChoice::Always => true,
            TaskChoice::Asked => background,
            TaskChoice::Off => false,
        };
        client_takes_tasks && wanted && *stopped == Stopped::Limit
    }

    /// Leaves the rest of a call to the client, which asks how the task is. The client
    /// tells of its end, so no notice does.
    pub(super) fn hand_over(&self, task: Arc<TaskHandle>, rest: HandedOver) -> NoAnswer {
        task.live.state().end_noticed = true;
        self.forget_evicted();
        let id = task.id().to_owned();
        self.handed_over.lock().insert(id, rest);
        NoAnswer::HandedOver(task)
    }

    /// Tasks that are no longer known are not asked about.
    fn forget_evicted(&self) {
        let mut evicted: Vec<String> = self.handed_over.lock().keys().cloned().collect();
        evicted.retain(|id| self.supervisor.task(id).is_none());
        let mut handed_over = self.handed_over.lock();
        for id in &evicted {
            handed_over.remove(id);
        }
    }

    /// The task that a call has become, as the answer to it.
    pub(super) fn created(&self, task: &TaskHandle) -> Value {
        describe(task, Status::Working, None, self.kept()).as_created()
    }

    /// Carries out a method of the extension.
    ///
    /// # Errors
    /// There is no such task.
    pub fn operate(
        &self,
        operation: Operation,
        id: &str,
        palette: Palette,
    ) -> Result<Value, UnknownTask> {
        let task = self
            .supervisor
            .task(id)
            .ok_or_else(|| UnknownTask(id.chars().take(40).collect()))?;
        match operation {
            Operation::Get => {
                // Looked at once: it may end between two looks.
                let end = task.live.state().ended.clone();
                let status = self.status(&task, end.as_ref(), palette);
                Ok(describe(&task, status, end.as_ref(), self.kept()).as_detailed())
            }
            Operation::Cancel => {
                // What a command that has ended leaves behind was meant to stay.
                if task.live.state().ended.is_none() {
                    let _ = self.supervisor.kill(&task, KillOrder::InOrder);
                }
                Ok(json!({}))
            }
            Operation::Update => Ok(json!({})),
        }
    }

    /// How long a task is kept after its end.
    fn kept(&self) -> Duration {
        self.supervisor.settings().keep
    }

    fn status(&self, task: &TaskHandle, end: Option<&End>, palette: Palette) -> Status {
        let status = match end.map(|end| end.outcome) {
            None => return Status::Working,
            Some(Ended::Killed) => Status::Cancelled,
            Some(Ended::Interrupted) => Status::Failed {
                error: failure("the server ended before the command did".to_owned()),
            },
            Some(Ended::Success | Ended::Failure | Ended::Timeout) => self.result(task, palette),
        };
        task.live.tell_end();
        status
    }

    /// What the call would have answered had it waited.
    fn result(&self, task: &TaskHandle, palette: Palette) -> Status {
        #[cfg(feature = "conformance")]
        if let Some(status) = super::conformance::ends_as(task.live.facts.description.as_deref()) {
            return status;
        }
        let (max_output, notes) = self.left_to_result(task);
        let delta = task.live.peek_delta();
        let showing = Showing {
            stretches: reading::excerpt(&task.spool, Place::FIRST.at, delta.to, max_output),
            new_bytes: delta.new_bytes(),
            matched: None,
            notes,
            numbering: Numbering::Plain,
            max_output,
        };
        match self.tell(task, showing, palette) {
            Ok(outcome) => Status::Completed {
                result: complete(outcome.into_result()),
            },
            Err(NoAnswer::Refused(text)) => Status::Failed {
                error: failure(text),
            },
            Err(NoAnswer::Cancelled | NoAnswer::HandedOver(_)) => Status::Cancelled,
        }
    }

    /// How much output the result of a task shows, and what it says besides. What is
    /// remembered of its command is given out only once, and so kept here from then on.
    /// Of a task that no call has handed over there is nothing to keep.
    fn left_to_result(&self, task: &TaskHandle) -> (usize, Vec<Insight>) {
        if !self.handed_over.lock().contains_key(task.id()) {
            return (self.config.max_output, Vec::new());
        }
        // Taken without the lock: the database may be asked.
        let account = self.recorder.account(task.id());
        let remembered = account.iter().flat_map(|account| account.take_news());
        let remembered: Vec<Insight> = remembered.map(Insight::from).collect();
        let mut handed_over = self.handed_over.lock();
        match handed_over.get_mut(task.id()) {
            Some(rest) => {
                rest.notes.extend(remembered);
                (rest.max_output, rest.notes.clone())
            }
            None => (self.config.max_output, remembered),
        }
    }
}

fn describe(task: &TaskHandle, status: Status, end: Option<&End>, kept: Duration) -> Task {
    let started = task.live.facts.started;
    let (last_output, waiting) = {
        let state = task.live.state();
        (state.last_output, state.waiting.clone())
    };
    let lasted = end.map_or_else(|| started.mono.elapsed(), |end| end.duration);
    let sign_of_life = match end {
        Some(end) => end.duration,
        None => last_output.map_or(Duration::ZERO, |last| {
            last.saturating_duration_since(started.mono)
        }),
    };
    let message = match (end, &waiting) {
        (Some(end), _) => Some(end_message(end)),
        (None, Some(waiting)) => Some(waiting_message(task, waiting)),
        (None, None) => Some(newest_line(task)).filter(|line| !line.is_empty()),
    };
    Task {
        id: task.id().to_owned(),
        status,
        message,
        created: started.wall,
        updated: started.wall + sign_of_life,
        kept_for: lasted + kept,
        ask_again_in: (lasted / ASK_AGAIN_PART).clamp(ASK_AGAIN_SOONEST, ASK_AGAIN_LATEST),
    }
}

/// `waits for a password "Password:" → zsh_send task_id=3dc8c9ee`
fn waiting_message(task: &TaskHandle, waiting: &Waiting) -> String {
    let prompt = match waiting.prompt.trim() {
        "" => String::new(),
        prompt => format!(" \"{}\"", lines::clip(prompt, PROMPT_CHARS)),
    };
    let what = match waiting.wanted {
        Wanted::Input => "input",
        Wanted::Password => "a password",
    };
    format!("waits for {what}{prompt} → zsh_send task_id={}", task.id())
}

/// `✔ exit=0  61.2s`
fn end_message(end: &End) -> String {
    format!(
        "{}  {:.1}s",
        end_words(end, Palette::Plain),
        end.duration.as_secs_f64()
    )
}

/// A result that stands within another one is read by its own type.
fn complete(mut result: Value) -> Value {
    put(&mut result, "resultType", "complete");
    result
}

fn failure(message: String) -> Failure {
    Failure {
        code: INTERNAL_ERROR,
        message,
    }
}
