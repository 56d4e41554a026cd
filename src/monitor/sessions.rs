//! Sessions as the lists of the monitor show them: the tasks of this process, and those of
//! other servers and agent runs, which are known from the state directory.
//!
//! How a task is, is said for the moment of asking. Limits: tasks of servers that have
//! ended are not shown; of ended tasks the newest [`MOST_ENDED`], of runs that nobody runs
//! those that changed last.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use parking_lot::Mutex;
use serde::Serialize;

use super::output::Source;
use super::runs::{self, RunFacts};
use crate::alan::estimate::Estimate;
use crate::alan::rows::unix_seconds;
use crate::oneshot::sessions::{self as oneshot, RunView};
use crate::process::files;
use crate::progress::outlook::{BlockedOn, Status};
use crate::record::recorder::Recorder;
use crate::task::entry::{Entry, RecordedOutcome};
use crate::task::journal;
use crate::task::live::Input;
use crate::task::registry::TaskHandle;
use crate::task::supervisor::Supervisor;
use crate::task::words;
use crate::text::lines::clip;
use crate::text::redact::Redactor;

/// Ended tasks in the list …
const MOST_ENDED: usize = 100;
/// … and runs that nobody runs.
const MOST_RESTING: usize = 50;
/// Lines of output with each session …
const TAIL_LINES: usize = 20;
/// … and with each ended one but the newest of them.
const TAILS_OF_ENDED: usize = 20;
/// How much of a command is its title.
const TITLE_CHARS: usize = 300;
/// How much of a prompt is repeated.
const PROMPT_CHARS: usize = 120;
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
    server: Server,
    estimates: Mutex<HashMap<String, Option<Estimate>>>,
}

/// Whose a session is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Server {
    /// Its name in the state directory.
    pub instance: String,
    /// Its pid, where that is known.
    pub pid: Option<i32>,
    /// Whether it is this process.
    pub own: bool,
}

/// A task with what is needed to follow it.
#[derive(Debug, Clone)]
pub struct Task {
    /// What it is and how.
    pub entry: Entry,
    /// Whose it is.
    pub server: Server,
    /// Its output.
    pub source: Source,
}

/// What an id stands for.
pub enum Found {
    /// A task.
    Task(Box<Task>),
    /// An agent run.
    Run(Box<RunView>),
}

/// A session of the list.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Session {
    /// The task's id, or the run's.
    pub id: String,
    /// `task` or `run`.
    pub kind: &'static str,
    /// The command line or the beginning of the prompt, redacted.
    pub title: String,
    /// What it is for.
    pub description: Option<String>,
    /// Where it started.
    pub directory: String,
    /// The shell's pid, or the runner's.
    pub pid: Option<i32>,
    /// Whether it has a terminal.
    pub pty: bool,
    /// `running`, or how it ended; of a run its state.
    pub state: &'static str,
    /// Whether it gets on; null before the first look.
    pub status: Option<String>,
    /// Why that is thought, the strongest evidence first.
    pub evidence: Vec<String>,
    /// Not all evidence can be had.
    pub degraded: bool,
    /// `input` or `password`.
    pub waiting_for: Option<&'static str>,
    /// What it asks.
    pub prompt: Option<String>,
    /// Unix seconds.
    pub started_at: f64,
    /// Since the start; of an ended one its duration.
    pub elapsed_ms: u64,
    /// Since output last came; null once it has ended.
    pub silent_ms: Option<u64>,
    /// From the start to the end.
    pub duration_ms: Option<u64>,
    /// The exit code.
    pub exit_code: Option<i32>,
    /// Processes that outlive it.
    pub leftovers: Vec<i32>,
    /// How long such commands take.
    pub estimate: Option<Expected>,
    /// The median of what is left, given the time already run.
    pub remaining_ms: Option<u64>,
    /// Whose it is.
    pub server: Server,
    /// Whether this server can end it.
    pub can_kill: bool,
    /// Whether it is a run that can be stopped.
    pub can_stop: bool,
    /// The last lines of its output, or of its log.
    pub tail: Vec<String>,
    /// What only runs have.
    pub run: Option<RunFacts>,
}

/// How long such commands take.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Expected {
    /// Half of them are done by then.
    pub median_ms: u64,
    /// Nine in ten are done by then.
    pub p90_ms: u64,
    /// So many are known.
    pub samples: usize,
}

/// All sessions at one moment.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct List {
    /// Unix seconds.
    pub now: f64,
    /// Who answers.
    pub server: Answering,
    /// Runs and tasks that go on, then those that do not, each part newest first.
    pub sessions: Vec<Session>,
}

/// Who answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Answering {
    /// This process.
    #[serde(flatten)]
    pub server: Server,
    /// The program's version.
    pub version: &'static str,
}

impl Sessions {
    /// What is known from this state directory and, if there is one, from this process's
    /// supervisor.
    pub fn new(
        state: Option<PathBuf>,
        own: Option<Arc<Supervisor>>,
        recorder: Arc<Recorder>,
        redactor: Arc<Redactor>,
    ) -> Sessions {
        // They can be watched from their beginning then.
        for folder in state.iter().flat_map(|state| folders(state)) {
            if let Err(error) = files::private_dir(&folder) {
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

    /// Whether all changes show in [`Sessions::directories`].
    pub fn are_on_disk(&self) -> bool {
        self.own
            .as_ref()
            .is_none_or(|own| own.tasks().is_empty() || own.directory().is_ok())
    }

    /// All sessions now.
    pub fn list(&self) -> List {
        let now = now();
        let (mut running, mut ended): (Vec<Task>, Vec<Task>) = self
            .tasks()
            .into_iter()
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
            .map(|task| self.session(task, now, TAIL_LINES));
        let live = live.iter().map(|run| runs::session(run, now, TAIL_LINES));
        let ended = ended.iter().enumerate();
        let ended = ended.map(|(place, task)| self.session(task, now, with_tail(place)));
        let resting = resting.iter().enumerate();
        let resting = resting.map(|(place, run)| runs::session(run, now, with_tail(place)));
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
                journal::server_lives(&directory).then(|| others_task(&directory, entry))
            })
    }

    /// The same task as it is now; `None`: it or its server is gone.
    pub fn again(&self, task: &Task) -> Option<Task> {
        match &task.source {
            Source::Own(own) => Some(self.own_task(own)),
            Source::Files { directory, task } => {
                let entry = journal::read(directory, task)?;
                journal::server_lives(directory).then(|| others_task(directory, entry))
            }
        }
    }

    /// A task as the list shows it, with so many lines of its output.
    pub fn session(&self, task: &Task, now: f64, lines: usize) -> Session {
        let entry = &task.entry;
        let runs = entry.outcome.is_none();
        let elapsed = match entry.duration_ms {
            Some(duration) => duration as f64 / 1000.0,
            None => (now - entry.started).max(0.0),
        };
        let estimate = runs.then(|| self.estimate(entry)).flatten();
        let waiting = entry.waiting.as_ref().filter(|_| runs);
        let prompt = waiting.map(|waiting| clip(waiting.prompt.trim(), PROMPT_CHARS));
        Session {
            id: entry.id.clone(),
            kind: "task",
            title: clip(&one_line(&entry.command), TITLE_CHARS),
            description: entry.description.clone(),
            directory: entry.directory.clone(),
            pid: Some(entry.pid),
            pty: entry.pty,
            state: state_word(entry),
            status: entry.status(now).map(|status| status.to_string()),
            evidence: evidence(entry, now),
            degraded: entry
                .progress
                .as_ref()
                .is_some_and(|progress| progress.degraded),
            waiting_for: waiting.map(|waiting| words::wanted_word(waiting.wanted)),
            prompt: prompt.filter(|prompt| !prompt.is_empty()),
            started_at: entry.started,
            elapsed_ms: millis(elapsed),
            silent_ms: runs.then(|| millis(now - task.last_output())),
            duration_ms: entry.duration_ms,
            exit_code: entry.exit_code,
            leftovers: entry.leftovers.clone(),
            remaining_ms: estimate
                .as_ref()
                .and_then(|estimate| estimate.remaining(elapsed))
                .map(millis),
            estimate: estimate.map(|estimate| Expected {
                median_ms: millis(estimate.median.seconds),
                p90_ms: millis(estimate.p90.seconds),
                samples: estimate.sample_size,
            }),
            server: task.server.clone(),
            can_kill: task.server.own && !entry.is_over(),
            can_stop: false,
            tail: match lines {
                0 => Vec::new(),
                lines => task.source.tail(entry, lines),
            },
            run: None,
        }
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
            tasks.extend(entries.map(|entry| others_task(&directory, entry)));
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

impl Task {
    /// When output last came, or it started, in Unix seconds. Another server's file says
    /// so later than the output's own file does.
    fn last_output(&self) -> f64 {
        let told = self.entry.last_output.unwrap_or(self.entry.started);
        let Source::Files { directory, task } = &self.source else {
            return told;
        };
        let newest = journal::output_files(directory, task).pop();
        let written = newest.and_then(|(_, path)| std::fs::metadata(path).ok()?.modified().ok());
        written.map_or(told, |at| unix_seconds(at).max(told))
    }
}

impl Session {
    /// The same without what passes by itself: two that differ have something to tell.
    pub fn without_times(&self) -> Session {
        Session {
            elapsed_ms: 0,
            silent_ms: None,
            remaining_ms: None,
            ..self.clone()
        }
    }
}

impl List {
    /// As [`Session::without_times`].
    pub fn without_times(&self) -> List {
        List {
            now: 0.0,
            server: self.server.clone(),
            sessions: self.sessions.iter().map(Session::without_times).collect(),
        }
    }
}

/// Where servers and runs tell of themselves.
fn folders(state: &Path) -> [PathBuf; 2] {
    [journal::servers_folder(state), runs::folder(state)]
}

fn others_task(directory: &Path, entry: Entry) -> Task {
    let instance = directory.file_name().unwrap_or_default();
    Task {
        server: Server {
            instance: instance.to_string_lossy().into_owned(),
            pid: journal::server_pid(directory),
            own: false,
        },
        source: Source::Files {
            directory: directory.to_path_buf(),
            task: entry.id.clone(),
        },
        entry,
    }
}

/// What a task's state is called.
pub fn state_word(entry: &Entry) -> &'static str {
    match entry.outcome {
        None => "running",
        Some(RecordedOutcome::Success) => "completed",
        Some(RecordedOutcome::Failure) => "failed",
        Some(RecordedOutcome::Timeout) => "timeout",
        Some(RecordedOutcome::Killed) => "killed",
        Some(RecordedOutcome::Interrupted) => "interrupted",
    }
}

/// Why a running task's status is what it is, the strongest evidence first.
pub fn evidence(entry: &Entry, now: f64) -> Vec<String> {
    if entry.outcome.is_some() {
        return Vec::new();
    }
    let input = if entry.pty {
        Input::Terminal
    } else {
        Input::Pipe
    };
    let waiting = entry.waiting.as_ref();
    let mut evidence: Vec<String> = waiting
        .map(|waiting| words::proof(waiting, input))
        .into_iter()
        .collect();
    evidence.extend(words::summary(&entry.conditions));
    if let Some(progress) = &entry.progress {
        let awaited = progress.outlook.status(now) == Status::Blocked(BlockedOn::Network);
        let peer = progress.peer.as_ref().filter(|_| awaited);
        let peer = peer.map(|peer| (peer.pid, peer.name.as_str()));
        evidence.extend(words::deeds(&progress.deeds, peer));
    }
    evidence
}

/// Text without line ends and other control characters.
pub fn one_line(text: &str) -> String {
    text.trim().replace(|c: char| c.is_control(), " ")
}

/// Seconds as whole milliseconds.
pub fn millis(seconds: f64) -> u64 {
    // Casts of floats saturate: below zero there is zero.
    (seconds * 1000.0).round() as u64
}

/// The present in Unix seconds.
pub fn now() -> f64 {
    unix_seconds(SystemTime::now())
}
