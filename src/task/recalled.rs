//! Tasks of ended servers, and tasks that this server has evicted. This server answers for them as
//! for its own ended tasks, with the output that is left. It keeps those that were requested last;
//! no list shows them.

use std::sync::Arc;

use super::completion::Completion;
use super::journal;
use super::live::LiveTask;
use super::output::spool::{Reopened, Spool, Spools};
use super::registry::TaskHandle;
use super::snapshot::Snapshot;
use super::stream::{PerStream, StreamName, StreamState};
use super::supervisor::Supervisor;
use super::tombstone::{self, Remains};
use super::worker_requests::RequestSender;

/// How many of these tasks are kept, with how much of their output results have shown.
const MAX_RECALLED: usize = 64;

/// What is left of a task that this server does not run.
#[derive(Debug, Clone)]
pub enum RecalledTask {
    /// All of it.
    Task(Arc<TaskHandle>),
    /// How it ended; its output is no longer kept.
    Ended(Box<Snapshot>),
}

impl Supervisor {
    /// Finds a task that an ended server has left or that this one has evicted.
    pub fn recall(&self, id: &str) -> Option<RecalledTask> {
        let is_it = |task: &&Arc<TaskHandle>| task.id() == id;
        if let Some(task) = self.recalled.lock().iter().find(is_it) {
            return Some(RecalledTask::Task(Arc::clone(task)));
        }
        let state = self.settings.state.as_ref().ok()?;
        let remains = tombstone::find(state, &self.instance, id)?;
        let files = |stream| journal::output_files(&remains.directory, id, stream);
        let (output, errors) = (files(StreamName::Output), files(StreamName::Errors));
        let printed = remains.task.output.last.is_some();
        // The output of an evicted task is gone, or goes at this moment.
        let is_gone = remains.past.is_none() || output.is_empty() && errors.is_empty();
        if printed && is_gone {
            return Some(RecalledTask::Ended(Box::new(remains.task)));
        }
        let kept = &remains.task.output;
        let reopened = Spool::reopen(output, &kept.kept.starts).and_then(|output| {
            Ok(PerStream { output, errors: Spool::reopen(errors, &kept.errors.starts)? })
        });
        let task = match reopened {
            Ok(reopened) => {
                let mut task = revive(remains, reopened);
                if let Some(live) = Arc::get_mut(&mut task.live) {
                    live.unprotected = Some(Arc::clone(&self.unprotected));
                }
                Arc::new(task)
            }
            Err(error) => {
                tracing::warn!("the output of task {id} cannot be read: {error}");
                return Some(RecalledTask::Ended(Box::new(remains.task)));
            }
        };
        let mut recalled = self.recalled.lock();
        // What has been shown of a detached task is in its files, for all servers.
        if task.live.facts.detached.is_some() {
            return Some(RecalledTask::Task(task));
        }
        // Two calls may have searched at once: the task has one cursor.
        if let Some(task) = recalled.iter().find(is_it) {
            return Some(RecalledTask::Task(Arc::clone(task)));
        }
        if recalled.len() >= MAX_RECALLED {
            recalled.pop_front();
        }
        recalled.push_back(Arc::clone(&task));
        Some(RecalledTask::Task(task))
    }

    /// Writes how much of a detached task without its shim was shown, so that no other server shows
    /// it again.
    pub(crate) fn keep_shown(&self, task: &TaskHandle) {
        let Ok(state) = &self.settings.state else { return };
        let Some(remains) = tombstone::find(state, &self.instance, task.id()) else { return };
        let shown = task.live.state().told.mark();
        if let Err(error) = journal::write_shown(&remains.directory, task.id(), shown) {
            tracing::warn!("cannot record how much of task {} was shown: {error}", task.id());
        }
    }
}

fn revive(remains: Remains, reopened: PerStream<Reopened>) -> TaskHandle {
    let Snapshot { facts, ended, output, shown, .. } = remains.task;
    let live = LiveTask::new(Arc::unwrap_or_clone(facts));
    live.report(|state| {
        state.ended = ended;
        state.closed = true;
        state.streams = reopened.map(|stream| StreamState {
            end: stream.end,
            line_start: stream.line_start,
            ..StreamState::default()
        });
        state.columns = output.columns;
        state.active_calls = 0;
        if let Some(shown) = shown {
            state.told.restore(shown);
        }
    });
    TaskHandle {
        live: Arc::new(live),
        spools: Spools {
            output: Arc::new(reopened.output.spool),
            errors: Arc::new(reopened.errors.spool),
        },
        requests: RequestSender::closed(),
        completion: Arc::new(Completion::new(None)),
        ended_server: remains.past,
    }
}
