//! Tasks of ended servers, and tasks that this server has evicted. This server answers for them as
//! for its own ended tasks, with the output that is left. It keeps those that were requested last;
//! no list shows them.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::completion::Completion;
use super::journal::{self, Entry};
use super::live::{End, Facts, Input, LiveTask};
use super::output::spool::{Reopened, Spool};
use super::registry::TaskHandle;
use super::supervisor::Supervisor;
use super::tombstone::{self, Remains};
use super::worker_requests::RequestSender;
use crate::base::clock::Now;
use crate::process::signals::{Exit, Signal};
use crate::process::tree::Identity;
use crate::shell::outcome::Outcome;
use crate::text::lines::Position;

/// How many of these tasks are kept, with how much of their output results have shown.
const MAX_RECALLED: usize = 64;

/// What is left of a task that this server does not run.
#[derive(Debug, Clone)]
pub enum RecalledTask {
    /// All of it.
    Task(Arc<TaskHandle>),
    /// How it ended; its output is no longer kept.
    Ended(Box<Entry>),
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
        let files = journal::output_files(&remains.directory, id);
        let printed = remains.entry.last_output.is_some();
        if printed && files.is_empty() {
            return Some(RecalledTask::Ended(Box::new(remains.entry)));
        }
        let task = match reopen(files, &remains.entry) {
            Ok(reopened) => Arc::new(revive(remains, reopened, self.clock.now())),
            Err(error) => {
                tracing::warn!("the output of task {id} cannot be read: {error}");
                return Some(RecalledTask::Ended(Box::new(remains.entry)));
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
        let shown = task.live.state().shown_mark();
        if let Err(error) = journal::write_shown(&remains.directory, task.id(), shown) {
            tracing::warn!("cannot record how much of task {} was shown: {error}", task.id());
        }
    }
}

fn reopen(files: Vec<(u64, PathBuf)>, entry: &Entry) -> std::io::Result<Reopened> {
    let starts = entry.segments.iter().zip(&entry.first_lines);
    let starts: Vec<(u64, Position)> =
        starts.map(|(&(number, offset), &line)| (number, Position { offset, line })).collect();
    Spool::reopen(files, &starts)
}

fn revive(remains: Remains, reopened: Reopened, now: Now) -> TaskHandle {
    let entry = remains.entry;
    let since_epoch = Duration::try_from_secs_f64(entry.started).unwrap_or_default();
    let wall = (SystemTime::UNIX_EPOCH.checked_add(since_epoch)).unwrap_or(SystemTime::UNIX_EPOCH);
    let age = now.wall.duration_since(wall).unwrap_or_default();
    let facts = Facts {
        id: entry.id,
        command: entry.command,
        description: entry.description,
        part_of: entry.part_of,
        detached: entry.detached,
        directory: entry.directory.into(),
        started: Now {
            // The machine may have started after the task.
            mono: now.mono.checked_sub(age).unwrap_or(now.mono),
            wall,
        },
        timeout: None,
        timeout_max: None,
        input: if entry.pty { Input::Terminal } else { Input::Pipe },
        shell: Identity { pid: entry.pid, started: 0 },
        start_notes: Vec::new(),
        in_session: false,
    };
    let unknown = Exit::Signal(Signal::Kill.number());
    let end = End {
        exit: entry.exit_code.map_or(unknown, Exit::Code),
        outcome: entry.outcome.unwrap_or(Outcome::Interrupted),
        duration: Duration::from_millis(entry.duration_ms.unwrap_or_default()),
        pipestatus: entry.pipestatus,
        moved_to: entry.moved_to.map(PathBuf::from),
        output_cut: false,
    };
    let live = LiveTask::new(facts);
    live.report(|state| {
        state.ended = Some(end);
        state.closed = true;
        state.output_end = reopened.end;
        state.line_start = reopened.line_start;
        state.columns = entry.columns;
        state.active_calls = 0;
        if let Some(shown) = entry.shown {
            state.restore(shown);
        }
    });
    TaskHandle {
        live: Arc::new(live),
        spool: Arc::new(reopened.spool),
        requests: RequestSender::closed(),
        completion: Arc::new(Completion::new(None)),
        ended_server: remains.past,
    }
}
