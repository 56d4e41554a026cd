//! MCP's tasks extension: which calls are answered with a task, and the extension's methods.
//!
//! A task of the extension is the zsh task with the same id. Its result shows the whole output up
//! to a limit, including parts already shown, and leaves the cursor of `zsh_poll` alone. Limits:
//! clients must poll; no status is pushed.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};

use super::dispatch::{
    Answer, ClientProfile, DeferredResult, NoResult, ToolResult, Tools, newest_line,
};
use super::poll::PAST_TASK_CHARS;
use super::render::notes::ResultNote;
use super::render::result::{Palette, TaskResult, end_words, output_gone};
use super::render::view::View;
use super::task_result::{Extent, Numbering};
use crate::config::TaskChoice;
use crate::progress::waiting::{Waiting, WantedInput};
use crate::protocol::message::{INTERNAL_ERROR, put};
use crate::protocol::tasks::{ClientTask, Failure, Operation, TaskStatus, UnknownTask};
use crate::shell::outcome::Outcome;
use crate::task::live::End;
use crate::task::recalled::RecalledTask;
use crate::task::registry::TaskHandle;
use crate::task::snapshot::Snapshot;
use crate::task::state::KillRequest;
use crate::task::watch::WaitEnd;
use crate::text::lines;

/// A client should ask again after the task's age divided by this.
const ASK_AGAIN_PART: u32 = 10;
/// The shortest time after which a client should ask again.
const ASK_AGAIN_SOONEST: Duration = Duration::from_millis(500);
/// The longest time after which a client should ask again.
const ASK_AGAIN_LATEST: Duration = Duration::from_secs(5);
/// How much of a prompt a status message contains.
const PROMPT_CHARS: usize = 80;

impl Tools {
    pub(crate) fn offers_tasks(&self) -> bool {
        self.config.mcp_tasks != TaskChoice::Off
    }

    /// Whether a call that has just started a command is answered with a task, without waiting.
    pub(super) fn answers_by_task(&self, client_takes_tasks: bool, background: bool) -> bool {
        client_takes_tasks && background && self.offers_tasks()
    }

    /// Whether a call is answered with a task when its wait is over. A wait that ended with a
    /// matching line or a prompt is answered with that.
    pub(super) fn yields_by_task(
        &self,
        client_takes_tasks: bool,
        background: bool,
        stopped: &WaitEnd,
    ) -> bool {
        let wanted = match self.config.mcp_tasks {
            TaskChoice::Always => true,
            TaskChoice::OnRequest => background,
            TaskChoice::Off => false,
        };
        client_takes_tasks && wanted && *stopped == WaitEnd::Limit
    }

    /// Turns the call into a task that the client polls. The client learns of the end that way, so
    /// no notice reports it.
    pub(super) fn become_task(&self, task: Arc<TaskHandle>, rest: DeferredResult) -> NoResult {
        task.live.state().told.end_noticed = true;
        // Forget tasks that the supervisor no longer has: no request can find them.
        let mut evicted: Vec<String> = self.deferred_results.lock().keys().cloned().collect();
        evicted.retain(|id| self.supervisor.task(id).is_none());
        let mut deferred_results = self.deferred_results.lock();
        for id in &evicted {
            deferred_results.remove(id);
        }
        deferred_results.insert(task.id().to_owned(), rest);
        drop(deferred_results);
        NoResult::BecameTask(task)
    }

    /// The answer to a call that has become a task.
    pub(super) fn created(&self, task: &TaskHandle) -> Value {
        describe(task, TaskStatus::Working, None, self.supervisor.settings.retention).as_created()
    }

    /// Carries out a method of the extension.
    ///
    /// # Errors
    /// When the task is unknown.
    pub(crate) fn operate(
        &self,
        operation: Operation,
        id: &str,
        client: ClientProfile,
    ) -> Result<Value, UnknownTask> {
        let task = match self.recall(id) {
            Some(RecalledTask::Task(task)) => task,
            Some(RecalledTask::Ended(snapshot)) => {
                return Ok(self.without_output(operation, &snapshot));
            }
            None => return Err(UnknownTask(id.chars().take(40).collect())),
        };
        match operation {
            Operation::Get => {
                // Read once, since the task may end between two reads.
                let end = task.live.state().ended.clone();
                let status = self.status(&task, end.as_ref(), client);
                Ok(describe(&task, status, end.as_ref(), self.supervisor.settings.retention)
                    .as_detailed())
            }
            Operation::Cancel => {
                // The leftovers of a command that has ended were left on purpose.
                if task.live.state().ended.is_none() {
                    task.live.state().told.kill_asked = true;
                    let _ = self.supervisor.kill(&task, KillRequest::Escalate);
                }
                Ok(json!({}))
            }
            Operation::Update => Ok(json!({})),
        }
    }

    /// The answer about a task whose output has been removed.
    fn without_output(&self, operation: Operation, snapshot: &Snapshot) -> Value {
        if operation != Operation::Get {
            return json!({});
        }
        let seconds = |seconds: f64| Duration::try_from_secs_f64(seconds).unwrap_or_default();
        let created = SystemTime::UNIX_EPOCH + seconds(snapshot.started());
        let lasted = Duration::from_millis(snapshot.duration_ms().unwrap_or_default());
        let text = output_gone(snapshot);
        let task = ClientTask {
            id: snapshot.facts.id.clone(),
            message: Some(text.clone()),
            status: match snapshot.outcome() {
                Some(Outcome::Killed) => TaskStatus::Cancelled,
                None | Some(Outcome::Interrupted) => TaskStatus::Failed { error: failure(text) },
                Some(_) => {
                    TaskStatus::Completed { result: complete(ToolResult::text(text).into_result()) }
                }
            },
            created,
            updated: created + lasted,
            kept_for: lasted + self.supervisor.settings.retention,
            ask_again_in: ASK_AGAIN_SOONEST,
        };
        task.as_detailed()
    }

    fn status(&self, task: &TaskHandle, end: Option<&End>, client: ClientProfile) -> TaskStatus {
        let status = match end.map(|end| end.outcome) {
            None => return TaskStatus::Working,
            Some(Outcome::Killed) => TaskStatus::Cancelled,
            Some(Outcome::Interrupted) => {
                TaskStatus::Failed { error: failure(self.interruption(task, client)) }
            }
            Some(Outcome::Success | Outcome::Failure | Outcome::Timeout) => {
                self.result(task, client)
            }
        };
        task.live.state().mark_end_shown();
        status
    }

    /// The answer that the call would have given if it had waited.
    fn result(&self, task: &TaskHandle, client: ClientProfile) -> TaskStatus {
        #[cfg(feature = "conformance")]
        if let Some(status) = super::conformance::ends_as(task.live.facts.description.as_deref()) {
            return status;
        }
        let (max_output, notes) = self.left_to_result(task);
        match self.whole(task, max_output, notes, client) {
            Ok(result) => TaskStatus::Completed { result: complete(result.into_result()) },
            Err(NoResult::Refused(text)) => TaskStatus::Failed { error: failure(text) },
            Err(NoResult::Cancelled | NoResult::BecameTask(_)) => TaskStatus::Cancelled,
        }
    }

    /// Why a task has no result, and the end of its output.
    fn interruption(&self, task: &TaskHandle, client: ClientProfile) -> String {
        const CAUSE: &str = "the server ended before the command did";
        let plain = ClientProfile { palette: Palette::Plain, ..client };
        match self.whole(task, Some(PAST_TASK_CHARS), Vec::new(), plain) {
            Ok(result) => format!("{CAUSE}:\n{}", result.text),
            Err(_) => CAUSE.to_owned(),
        }
    }

    /// The whole output up to a limit, including parts that results have shown.
    fn whole(
        &self,
        task: &TaskHandle,
        max_output: Option<usize>,
        notes: Vec<ResultNote>,
        client: ClientProfile,
    ) -> Answer {
        let made = task.live.made_unprotected(false);
        let view = View { made, ..View::take(&task.live) };
        let result = TaskResult::new(view, notes);
        self.show_output(task, result, Extent::Whole, Numbering::Plain, max_output, client)
    }

    /// How much output the result of a task shows, and its remarks. The history returns its
    /// insights only once, so the first result keeps them for later ones.
    fn left_to_result(&self, task: &TaskHandle) -> (Option<usize>, Vec<ResultNote>) {
        if !self.deferred_results.lock().contains_key(task.id()) {
            return (None, Vec::new());
        }
        // Not under the lock, since this may query the database.
        let run_record = self.recorder.record_of(task.id());
        let news = run_record
            .iter()
            .flat_map(|run_record| run_record.take_new_insights(self.config.insights, false));
        let news: Vec<ResultNote> = news.map(ResultNote::from).collect();
        let mut deferred_results = self.deferred_results.lock();
        match deferred_results.get_mut(task.id()) {
            Some(rest) => {
                rest.notes.extend(news);
                (rest.max_output, rest.notes.clone())
            }
            None => (None, news),
        }
    }
}

fn describe(
    task: &TaskHandle,
    status: TaskStatus,
    end: Option<&End>,
    kept: Duration,
) -> ClientTask {
    let started = task.live.facts.started;
    let (last_output, waiting) = {
        let state = task.live.state();
        // A person who is attached answers.
        let waiting = state.waiting.clone().filter(|_| state.people.is_none());
        (state.last_output, waiting)
    };
    let lasted = end.map_or_else(|| started.mono.elapsed(), |end| end.duration);
    let changed_after = match (end, last_output) {
        (Some(end), _) => end.duration,
        (None, Some(last)) => last.saturating_duration_since(started.mono),
        (None, None) => Duration::ZERO,
    };
    let message = match (end, &waiting) {
        (Some(end), _) => {
            let words = end_words(end, Palette::Plain);
            Some(format!("{words}  {:.1}s", end.duration.as_secs_f64()))
        }
        (None, Some(waiting)) => Some(waiting_message(task, waiting)),
        (None, None) => Some(newest_line(task)).filter(|line| !line.is_empty()),
    };
    ClientTask {
        id: task.id().to_owned(),
        status,
        message,
        created: started.wall,
        updated: started.wall + changed_after,
        kept_for: lasted + kept,
        ask_again_in: (lasted / ASK_AGAIN_PART).clamp(ASK_AGAIN_SOONEST, ASK_AGAIN_LATEST),
    }
}

/// `waits for a password "Password:" → zsh_send task_id=3dc8c9ee`
fn waiting_message(task: &TaskHandle, waiting: &Waiting) -> String {
    let prompt = match waiting.prompt.trim() {
        "" => String::new(),
        prompt => format!(" \"{}\"", lines::elide_middle(prompt, PROMPT_CHARS)),
    };
    let what = match waiting.wanted {
        WantedInput::Input => "input",
        WantedInput::Password => "a password",
    };
    format!("waits for {what}{prompt} → zsh_send task_id={}", task.id())
}

/// Adds the type that a result needs inside another result.
fn complete(mut result: Value) -> Value {
    put(&mut result, "resultType", "complete");
    result
}

fn failure(message: String) -> Failure {
    Failure { code: INTERNAL_ERROR, message }
}
