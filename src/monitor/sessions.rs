//! All sessions: the tasks of this process, and the tasks of other servers and agent runs, which are
//! read from the state directory.
//!
//! Limits: the list leaves out tasks of servers that have ended, unless detached, and tasks that are
//! parts of others (a run's agent, a judge); both can be found by id. It contains the newest
//! [`MAX_ENDED`] ended tasks and the most recently changed [`MAX_INACTIVE_RUNS`] runs.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use super::output::OutputSource;
use super::runs;
use super::session::{
    Answering, Expected, List, ServerName, Session, UsageView, millis, now, one_line,
};
use crate::agent::executor::Executors;
use crate::alan::estimate::Estimate;
use crate::alan::rows::unix_seconds;
use crate::history::recorder::Recorder;
use crate::oneshot::sessions::{self as oneshot, RunView};
use crate::peer::Owner;
use crate::process::files;
use crate::shell::command_line::CommandLine;
use crate::task::describe;
use crate::task::journal::{self, CONTROL_SOCKET};
use crate::task::live::Input;
use crate::task::registry::TaskHandle;
use crate::task::sandboxes::Summary;
use crate::task::snapshot::Snapshot;
use crate::task::stream::StreamName;
use crate::task::supervisor::Supervisor;
use crate::task::tombstone;
use crate::text::lines::elide_middle;
use crate::text::redact::Redactor;

/// How many ended tasks the list contains.
const MAX_ENDED: usize = 100;
/// How many runs that are not live the list contains.
const MAX_INACTIVE_RUNS: usize = 50;
/// How many lines of its output the list has for a session.
const TAIL_LINES: usize = 20;
/// How many of the newest ended sessions have such lines.
const TAILS_OF_ENDED: usize = 20;
/// The size of the cache of estimates.
const ESTIMATES_KEPT: usize = 256;
/// Characters of the command in the title.
const TITLE_CHARS: usize = 300;
/// Characters of a prompt that are shown.
const PROMPT_CHARS: usize = 120;

/// All sessions, and the sources they are read from.
pub(crate) struct Sessions {
    /// The state directory; without one, only this process's tasks are known.
    state: Option<PathBuf>,
    /// The tasks of this process, if it runs any.
    pub(crate) own: Option<Arc<Supervisor>>,
    pub(crate) recorder: Arc<Recorder>,
    pub(crate) redactor: Arc<Redactor>,
    /// Interprets the records of runs; `None` if the configuration is faulty.
    executors: Option<Executors>,
    server: ServerName,
    sandbox: Summary,
    estimates: Mutex<HashMap<String, Option<Estimate>>>,
}

/// The session with an id.
pub(crate) enum FoundSession {
    Task(Box<Task>),
    /// An agent run.
    Run(Box<RunView>),
}

impl Sessions {
    pub(crate) fn new(
        state: Option<PathBuf>,
        own: Option<Arc<Supervisor>>,
        recorder: Arc<Recorder>,
        redactor: Arc<Redactor>,
        executors: Option<Executors>,
        sandbox: Summary,
    ) -> Sessions {
        // Created now, so that they can be watched from the beginning.
        for folder in state.iter().flat_map(|state| folders(state)) {
            if let Err(error) = files::private_subdir(&folder) {
                tracing::warn!("sessions of other processes are not seen: {error}");
            }
        }
        let instance = match &own {
            Some(own) => own.instance.to_owned(),
            None => files::random_id(),
        };
        let server = ServerName {
            instance,
            pid: i32::try_from(std::process::id()).ok(),
            own: own.is_some(),
        };
        let estimates = Mutex::default();
        Sessions { state, own, recorder, redactor, executors, server, sandbox, estimates }
    }

    /// The directories that change when a session changes.
    pub(crate) fn directories(&self) -> Vec<PathBuf> {
        let Some(state) = &self.state else {
            return Vec::new();
        };
        let mut directories = vec![journal::servers_folder(state)];
        let servers = journal::servers(state).into_iter();
        directories.extend(servers.filter(|server| journal::server_lives(server)));
        directories.push(runs::folder(state));
        let runs = oneshot::list(state).runs.into_iter();
        directories.extend(runs.filter(|run| run.live).map(|run| run.directory));
        directories
    }

    /// Whether all changes appear in [`Sessions::directories`]; output kept in memory does not.
    pub(crate) fn are_on_disk(&self) -> bool {
        self.own.as_ref().is_none_or(|own| {
            let is_written = own.settings.spool_on_disk && own.directory().is_ok();
            is_written || own.tasks().is_empty()
        })
    }

    /// The list of sessions.
    pub(crate) fn list(&self) -> List {
        let now = now();
        let (mut running, mut ended) = (Vec::new(), Vec::new());
        for task in self.tasks().filter(|task| task.snapshot.facts.part_of.is_none()) {
            if !task.snapshot.is_over() {
                running.push(task);
                continue;
            }
            ended.push(task);
            // There may be thousands, and a list is to take no more memory for that.
            if ended.len() == 2 * MAX_ENDED {
                newest_first(&mut ended);
                ended.truncate(MAX_ENDED);
            }
        }
        newest_first(&mut running);
        newest_first(&mut ended);
        ended.truncate(MAX_ENDED);
        self.forget_estimates(&running);
        let state = self.state.as_ref();
        let runs = state.map(|state| oneshot::list(state)).unwrap_or_default();
        let (live, mut resting): (Vec<RunView>, Vec<RunView>) =
            runs.runs.into_iter().partition(|run| run.live);
        resting.truncate(MAX_INACTIVE_RUNS);
        let tail = |index: usize| {
            if index < TAILS_OF_ENDED { TAIL_LINES } else { 0 }
        };
        let task = |task: &Task, lines| self.session_of(task, now, lines);
        let run = |run: &RunView, lines| runs::session(run, now, self.log_of(run, lines));
        let mut sessions: Vec<Session> = live.iter().map(|live| run(live, TAIL_LINES)).collect();
        sessions.extend(running.iter().map(|running| task(running, TAIL_LINES)));
        let resting = resting.iter().enumerate();
        sessions.extend(resting.map(|(index, resting)| run(resting, tail(index))));
        let ended = ended.iter().enumerate();
        sessions.extend(ended.map(|(index, ended)| task(ended, tail(index))));
        List {
            now,
            server: Answering {
                server: self.server.clone(),
                version: env!("CARGO_PKG_VERSION"),
                sandbox: self.sandbox.clone(),
            },
            sessions,
            unusable: runs.unusable.iter().map(ToString::to_string).collect(),
        }
    }

    /// A task of any server or a run, by its full id.
    pub(crate) fn find(&self, id: &str) -> Option<FoundSession> {
        if let Some(task) = self.find_task(id) {
            return Some(FoundSession::Task(Box::new(task)));
        }
        let run = runs::find(self.state.as_ref()?, id)?;
        Some(FoundSession::Run(Box::new(run)))
    }

    fn find_task(&self, id: &str) -> Option<Task> {
        // The id becomes the name of a file.
        if id.len() != 8 || !id.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        if let Some(task) = self.own.as_ref().and_then(|own| own.task(id)) {
            return Some(self.own_task(&task));
        }
        let state = self.state.as_ref()?;
        let others = journal::servers(state).into_iter();
        others.filter(|directory| !self.is_own(directory)).find_map(|directory| {
            Some(Task::from_server_dir(&directory, tombstone::read(&directory, id)?))
        })
    }

    /// The process that owns the task; `None` if this process does and has no directory.
    pub(crate) fn owner(&self, task: &Task) -> Option<Owner> {
        let directory = match &task.source {
            OutputSource::Own(_) => self.own.as_ref()?.directory().ok()?.path.clone(),
            OutputSource::Files { directory, .. } => directory.clone(),
        };
        Some(Owner { directory })
    }

    /// The current state of the same task; `None` if its files are gone.
    pub(crate) fn reload(&self, task: &Task) -> Option<Task> {
        match &task.source {
            OutputSource::Own(own) => Some(self.own_task(own)),
            OutputSource::Files { directory, task } => {
                Some(Task::from_server_dir(directory, tombstone::read(directory, task)?))
            }
        }
    }

    /// A task as the list shows it, with the last `lines` lines of its output.
    pub(crate) fn session_of(&self, task: &Task, now: f64, lines: usize) -> Session {
        let runs = task.snapshot.running();
        let estimate = runs.then(|| self.estimate(&task.snapshot)).flatten();
        task.session(now, lines, estimate)
    }

    /// At most `lines` of the last lines of a run's log, as text.
    pub(crate) fn log_of(&self, run: &RunView, lines: usize) -> Vec<String> {
        runs::tail(run, lines, self.executors.as_ref())
    }

    /// This server's tasks, and then those of the others, read as they are asked for.
    fn tasks(&self) -> impl Iterator<Item = Task> {
        let own = self.own.iter().flat_map(|own| own.tasks()).map(|task| self.own_task(&task));
        let servers = self.state.iter().flat_map(|state| journal::servers(state));
        let others = servers.filter(|directory| !self.is_own(directory)).flat_map(|directory| {
            let snapshots = tombstone::listed(&directory).into_iter();
            snapshots.map(move |snapshot| Task::from_server_dir(&directory, snapshot))
        });
        own.chain(others)
    }

    fn own_task(&self, task: &Arc<TaskHandle>) -> Task {
        Task {
            snapshot: Snapshot::for_others(&task.live, &task.spools, &self.redactor),
            server: self.server.clone(),
            source: OutputSource::Own(Arc::clone(task)),
        }
    }

    fn is_own(&self, directory: &Path) -> bool {
        self.server.own
            && directory.file_name().is_some_and(|name| name == self.server.instance.as_str())
    }

    /// How long such a command usually takes, looked up once for each task.
    fn estimate(&self, snapshot: &Snapshot) -> Option<Estimate> {
        if let Some(known) = self.estimates.lock().get(snapshot.id()) {
            return known.clone();
        }
        let known = self.recorder.identify(&CommandLine::parse(&*snapshot.facts.command));
        let estimate = self.recorder.store().estimate(&known.pattern);
        self.estimates.lock().insert(snapshot.facts.id.clone(), estimate.clone());
        estimate
    }

    fn forget_estimates(&self, running: &[Task]) {
        let mut estimates = self.estimates.lock();
        if estimates.len() > ESTIMATES_KEPT {
            estimates.retain(|id, _| running.iter().any(|task| task.snapshot.id() == *id));
        }
    }
}

/// The directories of servers and runs.
fn folders(state: &Path) -> [PathBuf; 2] {
    [journal::servers_folder(state), runs::folder(state)]
}

/// A task, its server and its output.
#[derive(Debug, Clone)]
pub(crate) struct Task {
    /// Its recorded state.
    pub(crate) snapshot: Snapshot,
    pub(crate) server: ServerName,
    pub(crate) source: OutputSource,
}

impl Task {
    /// A task of the server with this directory.
    pub(crate) fn from_server_dir(directory: &Path, snapshot: Snapshot) -> Task {
        let instance = directory.file_name().unwrap_or_default();
        Task {
            server: ServerName {
                instance: instance.to_string_lossy().into_owned(),
                pid: journal::server_pid(directory),
                own: false,
            },
            source: OutputSource::Files {
                directory: directory.to_path_buf(),
                task: snapshot.facts.id.clone(),
            },
            snapshot,
        }
    }

    /// The task as the list shows it, with the last `lines` lines of its output. `estimate` is how
    /// long such commands usually take, for a running task.
    pub(crate) fn session(&self, now: f64, lines: usize, estimate: Option<Estimate>) -> Session {
        let snapshot = &self.snapshot;
        let runs = snapshot.running();
        let elapsed = match snapshot.duration_ms() {
            Some(duration) => duration as f64 / 1000.0,
            None => (now - snapshot.started()).max(0.0),
        };
        let waiting = snapshot.probed.waiting.as_ref().filter(|_| runs);
        let prompt = waiting.map(|waiting| elide_middle(waiting.prompt.trim(), PROMPT_CHARS));
        Session {
            id: snapshot.facts.id.clone(),
            kind: "task",
            title: elide_middle(&one_line(&snapshot.facts.command), TITLE_CHARS),
            description: snapshot.facts.description.clone(),
            directory: snapshot.facts.directory.to_string_lossy().into_owned(),
            pid: Some(snapshot.facts.shell.pid),
            pty: snapshot.is_on_terminal(),
            sandbox: snapshot.facts.sandbox.as_ref().map(|sandbox| sandbox.policy.to_string()),
            state: describe::status_word(snapshot),
            status: snapshot.status(now).map(|status| status.to_string()),
            evidence: evidence(snapshot, now),
            degraded: snapshot.probed.progress.as_ref().is_some_and(|progress| progress.degraded),
            waiting_for: waiting.map(|waiting| describe::wanted_word(waiting.wanted)),
            attached: runs && snapshot.attached,
            prompt: prompt.filter(|prompt| !prompt.is_empty()),
            started_at: snapshot.started(),
            elapsed_ms: millis(elapsed),
            silent_ms: runs.then(|| millis(now - self.last_output())),
            duration_ms: snapshot.duration_ms(),
            usage: UsageView::of(snapshot),
            exit_code: snapshot.exit_code(),
            leftovers: snapshot.leftover_pids(),
            remaining_ms: estimate
                .as_ref()
                .and_then(|estimate| estimate.remaining(elapsed))
                .map(millis),
            estimate: estimate.map(|estimate| Expected {
                median_ms: millis(estimate.median.seconds),
                p90_ms: millis(estimate.p90.seconds),
                samples: estimate.sample_size,
            }),
            server: self.server.clone(),
            detached: snapshot.facts.detached.as_deref().cloned(),
            can_kill: !snapshot.is_over() && self.is_reachable(),
            tail: match lines {
                0 => Vec::new(),
                lines => self.source.tail(snapshot, lines),
            },
            ..Session::default()
        }
    }

    /// Whether this process owns the task, or its owner has a control socket.
    fn is_reachable(&self) -> bool {
        match &self.source {
            OutputSource::Own(_) => true,
            OutputSource::Files { directory, .. } => directory.join(CONTROL_SOCKET).exists(),
        }
    }

    /// When output last arrived, or the start, in Unix seconds. For another server, the output
    /// file's own time is more recent than the recorded one.
    fn last_output(&self) -> f64 {
        let recorded = self.snapshot.output.last.unwrap_or(self.snapshot.started());
        let OutputSource::Files { directory, task } = &self.source else {
            return recorded;
        };
        let newest = journal::output_files(directory, task, StreamName::Output).pop();
        let written = newest.and_then(|(_, path)| std::fs::metadata(path).ok()?.modified().ok());
        written.map_or(recorded, |at| unix_seconds(at).max(recorded))
    }
}

/// The evidence for a running task's status, the strongest first.
pub(crate) fn evidence(snapshot: &Snapshot, now: f64) -> Vec<String> {
    if !snapshot.running() {
        return Vec::new();
    }
    let input = if snapshot.is_on_terminal() { Input::Terminal } else { Input::Pipe };
    let waiting = snapshot.probed.waiting.as_ref();
    let mut evidence: Vec<String> =
        waiting.map(|waiting| describe::input_proof_phrase(waiting, input)).into_iter().collect();
    evidence.extend(snapshot.attached.then(|| "person attached".to_owned()));
    evidence.extend(describe::condition_phrases(&snapshot.probed.conditions));
    evidence.extend(snapshot.verdict(now).iter().flat_map(describe::evidence));
    evidence
}

fn newest_first(tasks: &mut [Task]) {
    tasks.sort_by(|a, b| b.snapshot.started().total_cmp(&a.snapshot.started()));
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::arbitrary;

    /// The files of two tasks as servers write them.
    const FILES: &str = r#"
        {"facts":{"id":"22e9e137","command":"sudo make","description":"Build","part_of":null,
                  "detached":null,"directory":"/tmp","started":1795337849.4,"input":"Terminal",
                  "shell":{"pid":26800,"started":4711}},
         "ended":null,
         "output":{"bytes":5000,"lines":90,"last":1795337850.1,"columns":80,
                   "files":["/tmp/22e9e137.0"],
                   "starts":[[0,{"offset":0,"line":1}],[1,{"offset":4096,"line":70}]]},
         "probed":{
            "waiting":{"wanted":"Password","proof":"Blocked","reader":{"pid":26801,"name":"sudo"},
                       "prompt":"Password: "},
            "conditions":[{"Stopped":{"process":{"pid":1,"name":"x"},"by":"Stop","holds_up":true}},
                          {"DiskSleep":{"process":{"pid":2,"name":"y"}}}],
            "progress":{"heartbeats":3,"state_changes":2,"last_change":["Output",1795337850.1],
                        "outlook":{"blocked":"Input","alive_until":1795337860.0,
                                   "novel_until":null,"stuck_from":1795337900.0},
                        "delta":{"output":10,"io":5000000,"born":1,"ended":0,"cpu_share":0.5},
                        "tree_state":[{"Peer":{"process":{"pid":3,"name":"curl"},
                                             "peer":{"Network":"127.0.0.1:443"}}},1795337850.1],
                        "stuck_part":null,"finished":null,"repeated":null,"unserved":null,
                        "degraded":false}},
         "leftovers":[],"attached":false,"shown":null}
        {"facts":{"id":"3dc8c9ee","command":"make","description":null,"part_of":null,
                  "detached":null,"directory":"/tmp","started":1795337849.4,"input":"Pipe",
                  "shell":{"pid":7,"started":4712}},
         "ended":{"exit":{"Code":0},"exit_assumed":false,"outcome":"SUCCESS",
                  "duration":{"secs":1,"nanos":500000000},"pipestatus":[],"moved_to":null,
                  "output_cut":false},
         "output":{"bytes":0,"lines":0,"last":null,"columns":null,"files":[],"starts":[]},
         "probed":{"waiting":null,"conditions":[],"progress":null},
         "leftovers":[{"pid":8,"name":"daemon"}],"attached":false,"shown":null}"#;

    #[test]
    fn a_servers_file_is_a_task() {
        let tasks = serde_json::Deserializer::from_str(FILES).into_iter::<Snapshot>();
        let tasks: Vec<Snapshot> = tasks.map(|task| task.expect("a task")).collect();
        assert_eq!(tasks.len(), 2);
    }

    proptest! {
        #[test]
        fn any_file_of_a_server_is_shown_or_left_out(
            file in arbitrary::damaged(FILES),
            now in prop_oneof![Just(1795337855.0), Just(1795339999.0), any::<f64>()],
        ) {
            let Ok(task) = serde_json::from_str::<Snapshot>(&file.to_string()) else {
                return Ok(());
            };
            let task = Task::from_server_dir(Path::new("/nowhere/servers/a"), task);
            let session = task.session(now, 3, None);
            prop_assert!(serde_json::to_string(&session).is_ok());
            prop_assert_eq!(session.tail.len(), 0);
        }
    }
}
