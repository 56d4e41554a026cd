//! Sessions as the lists of the monitor show them: the tasks of this process, and those of
//! other servers and agent runs, which are known from the state directory.
//!
//! How a task is, is said for the moment of asking. Limits: tasks of servers that have
//! ended are not shown, nor are those that are parts of others (a run's agent, a judge):
//! who knows their id finds them; of ended tasks the newest [`MOST_ENDED`], of runs that nobody runs
//! those that changed last.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use super::output::Source;
use super::runs;
use super::session::{Answering, List, Server, Session, now};
use super::tasks::Task;
use crate::agent::executor::Executors;
use crate::alan::estimate::Estimate;
use crate::oneshot::sessions::{self as oneshot, RunView};
use crate::process::files;
use crate::record::recorder::Recorder;
use crate::task::entry::Entry;
use crate::task::journal;
use crate::task::registry::TaskHandle;
use crate::task::supervisor::Supervisor;
use crate::text::redact::Redactor;

/// Ended tasks in the list …
const MOST_ENDED: usize = 100;
/// … and runs that nobody runs.
const MOST_RESTING: usize = 50;
/// Lines of output with each session …
const TAIL_LINES: usize = 20;
/// … and with each ended one but the newest of them.
const TAILS_OF_ENDED: usize = 20;
/// Estimates that are kept for tasks that are shown again and again.
const ESTIMATES_KEPT: usize = 256;

/// Where sessions are known from.
pub struct Sessions {
    /// The state directory; without one there are no others' sessions.
    state: Option<PathBuf>,
    /// The tasks of this process, if it runs any.
    own: Option<Arc<Supervisor>>,
    recorder: Arc<Recorder>,
    redactor: Arc<Redactor>,
    /// What the records of runs mean, where the agent programs are known.
    executors: Option<Executors>,
    server: Server,
    estimates: Mutex<HashMap<String, Option<Estimate>>>,
}

/// What an id stands for.
pub enum Found {
    /// A task.
    Task(Box<Task>),
    /// An agent run.
    Run(Box<RunView>),
}

impl Sessions {
    /// What is known from this state directory and, if there is one, from this process's
    /// supervisor.
    pub fn new(
        state: Option<PathBuf>,
        own: Option<Arc<Supervisor>>,
        recorder: Arc<Recorder>,
        redactor: Arc<Redactor>,
        executors: Option<Executors>,
    ) -> Sessions {
        // They can be watched from their beginning then.
        for folder in state.iter().flat_map(|state| folders(state)) {
            if let Err(error) = files::private_subdir(&folder) {
                tracing::warn!("sessions of other processes are not seen: {error}");
            }
        }
        let instance = match &own {
            Some(own) => own.instance().to_owned(),
            None => files::random_id(),
        };
        let server = Server {
            instance,
            pid: i32::try_from(std::process::id()).ok(),
            own: own.is_some(),
        };
        Sessions {
            state,
            own,
            recorder,
            redactor,
            executors,
            server,
            estimates: Mutex::default(),
        }
    }

    /// The tasks of this process, if it runs any.
    pub fn own(&self) -> Option<&Arc<Supervisor>> {
        self.own.as_ref()
    }

    /// What is remembered of commands.
    pub fn recorder(&self) -> &Recorder {
        &self.recorder
    }

    /// Takes secrets out of text.
    pub fn redactor(&self) -> &Arc<Redactor> {
        &self.redactor
    }

    /// The directories in which other processes and this one tell of sessions.
    pub fn directories(&self) -> Vec<PathBuf> {
        let Some(state) = &self.state else {
            return Vec::new();
        };
        let mut directories = vec![journal::servers_folder(state)];
        directories.extend(journal::servers(state));
        directories.push(runs::folder(state));
        let runs = oneshot::list(state).runs.into_iter();
        directories.extend(runs.filter(|run| run.live).map(|run| run.directory));
        directories
    }

    /// Whether all changes show in [`Sessions::directories`]: output that is kept in
    /// memory does not.
    pub fn are_on_disk(&self) -> bool {
        self.own.as_ref().is_none_or(|own| {
            let is_written = own.settings().spool_on_disk && own.directory().is_ok();
            is_written || own.tasks().is_empty()
        })
    }

    /// All sessions now.
    pub fn list(&self) -> List {
        let now = now();
        let (mut running, mut ended): (Vec<Task>, Vec<Task>) = self
            .tasks()
            .into_iter()
            .filter(|task| task.entry.part_of.is_none())
            .partition(|task| !task.entry.is_over());
        let newest_first = |a: &Task, b: &Task| b.entry.started.total_cmp(&a.entry.started);
        running.sort_by(newest_first);
        ended.sort_by(newest_first);
        ended.truncate(MOST_ENDED);
        self.forget_estimates(&running);
        let (live, mut resting): (Vec<RunView>, Vec<RunView>) =
            self.runs().into_iter().partition(|run| run.live);
        resting.truncate(MOST_RESTING);
        let with_tail = |place: usize| {
            if place < TAILS_OF_ENDED {
                TAIL_LINES
            } else {
                0
            }
        };
        let running = running
            .iter()
            .map(|task| self.session_of(task, now, TAIL_LINES));
        let live = live
            .iter()
            .map(|run| self.run_session(run, now, TAIL_LINES));
        let ended = ended.iter().enumerate();
        let ended = ended.map(|(place, task)| self.session_of(task, now, with_tail(place)));
        let resting = resting.iter().enumerate();
        let resting = resting.map(|(place, run)| self.run_session(run, now, with_tail(place)));
        List {
            now,
            server: Answering {
                server: self.server.clone(),
                version: env!("CARGO_PKG_VERSION"),
            },
            sessions: live.chain(running).chain(resting).chain(ended).collect(),
        }
    }

    /// A task, of whatever server, or a run, by its whole id.
    pub fn find(&self, id: &str) -> Option<Found> {
        if let Some(task) = self.find_task(id) {
            return Some(Found::Task(Box::new(task)));
        }
        let run = runs::find(self.state.as_ref()?, id)?;
        Some(Found::Run(Box::new(run)))
    }

    fn find_task(&self, id: &str) -> Option<Task> {
        // The id becomes a file's name.
        if id.len() != 8 || !id.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        if let Some(task) = self.own.as_ref().and_then(|own| own.task(id)) {
            return Some(self.own_task(&task));
        }
        let state = self.state.as_ref()?;
        let others = journal::servers(state).into_iter();
        others
            .filter(|directory| !self.is_own(directory))
            .find_map(|directory| {
                let entry = journal::read(&directory, id)?;
                journal::server_lives(&directory).then(|| Task::of_another(&directory, entry))
            })
    }

    /// The same task as it is now; `None`: it or its server is gone.
    pub fn again(&self, task: &Task) -> Option<Task> {
        match &task.source {
            Source::Own(own) => Some(self.own_task(own)),
            Source::Files { directory, task } => {
                let entry = journal::read(directory, task)?;
                journal::server_lives(directory).then(|| Task::of_another(directory, entry))
            }
        }
    }

    /// A task as the list shows it, with so many lines of its output.
    pub fn session_of(&self, task: &Task, now: f64, lines: usize) -> Session {
        let runs = task.entry.outcome.is_none();
        let estimate = runs.then(|| self.estimate(&task.entry)).flatten();
        task.session(now, lines, estimate)
    }

    fn run_session(&self, run: &RunView, now: f64, lines: usize) -> Session {
        runs::session(run, now, self.log_of(run, lines))
    }

    /// The last lines of a run's log in words, at most so many.
    pub fn log_of(&self, run: &RunView, lines: usize) -> Vec<String> {
        runs::tail(run, lines, self.executors.as_ref())
    }

    fn tasks(&self) -> Vec<Task> {
        let own = self.own.iter().flat_map(|own| own.tasks());
        let mut tasks: Vec<Task> = own.map(|task| self.own_task(&task)).collect();
        let Some(state) = &self.state else {
            return tasks;
        };
        for directory in journal::servers(state) {
            if self.is_own(&directory) || !journal::server_lives(&directory) {
                continue;
            }
            let entries = journal::read_server(&directory).into_iter();
            tasks.extend(entries.map(|entry| Task::of_another(&directory, entry)));
        }
        tasks
    }

    /// The one that changed last comes first.
    fn runs(&self) -> Vec<RunView> {
        let state = self.state.as_ref();
        state.map_or_else(Vec::new, |state| oneshot::list(state).runs)
    }

    fn own_task(&self, task: &Arc<TaskHandle>) -> Task {
        Task {
            entry: Entry::of(&task.live, &task.spool, &self.redactor),
            server: self.server.clone(),
            source: Source::Own(Arc::clone(task)),
        }
    }

    fn is_own(&self, directory: &Path) -> bool {
        self.server.own
            && directory
                .file_name()
                .is_some_and(|name| name == self.server.instance.as_str())
    }

    /// How long such a command takes, looked up once for each task.
    fn estimate(&self, entry: &Entry) -> Option<Estimate> {
        if let Some(known) = self.estimates.lock().get(&entry.id) {
            return known.clone();
        }
        let known = self.recorder.known(&entry.command);
        let estimate = self.recorder.store().estimate(&known.pattern);
        self.estimates
            .lock()
            .insert(entry.id.clone(), estimate.clone());
        estimate
    }

    fn forget_estimates(&self, running: &[Task]) {
        let mut estimates = self.estimates.lock();
        if estimates.len() > ESTIMATES_KEPT {
            estimates.retain(|id, _| running.iter().any(|task| task.entry.id == *id));
        }
    }
}

/// Where servers and runs tell of themselves.
fn folders(state: &Path) -> [PathBuf; 2] {
    [journal::servers_folder(state), runs::folder(state)]
}
