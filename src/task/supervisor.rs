//! All tasks of a server: starting them within the limits, orders to them, room on the
//! disk, and the end of everything.

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

use crossbeam_channel::{Receiver, Sender, bounded};
use parking_lot::Mutex;

use super::environment;
use super::journal::{self, Journal, ServerDir};
use super::kill_run::Receipt;
use super::live::{Facts, Input, LiveTask};
use super::registry::{MAX_ORDERS, NotOrdered, Refused, Registry, TaskHandle};
use super::shell::{self, Invocation, NoShell, Prelude, Shell, ShellMode};
use super::spool::{Budget, SpoolWriter};
use super::state::{KILL_GRACE, KILL_PATIENCE, KillOrder};
use super::worker::{OnPressure, Order, Worker};
use crate::base::clock::Clock;
use crate::process::descriptors::Waker;
use crate::process::files;
use crate::process::pty::TerminalSize;
use crate::process::spawn::{Launch, SpawnError, Wiring};
use crate::process::tree;
use crate::text::redact::Redactor;

/// Input that may wait for a program that does not read.
pub const MAX_QUEUED_INPUT: usize = 1024 * 1024;
/// A worker needs little: its buffer is on the heap.
const WORKER_STACK: usize = 256 * 1024;

/// What the user decides about tasks.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The state directory; without one nothing is written to disk.
    pub state: Result<PathBuf, String>,
    /// Whether output is kept on disk.
    pub spool_on_disk: bool,
    /// Bytes of output kept for one task.
    pub task_quota: u64,
    /// Bytes of output kept for all tasks.
    pub directory_quota: u64,
    /// How long finished tasks are kept.
    pub keep: Duration,
    /// Running tasks at the same time.
    pub max_running: usize,
    /// Finished tasks that are kept.
    pub max_finished: usize,
    /// Bytes of command text.
    pub max_command: usize,
    /// The shell: a name or a path.
    pub shell: String,
    /// Which startup files it reads.
    pub shell_mode: ShellMode,
    /// Sourced before each command.
    pub prelude: Option<PathBuf>,
    /// Sourced as well where it exists; the client writes it.
    pub environment_file: Option<PathBuf>,
    /// Where commands start.
    pub directory: PathBuf,
    /// Whether the end directory of one command is the start of the next.
    pub keep_directory: bool,
    /// Programs that are meant to live on.
    pub daemons: Arc<[String]>,
    /// The server's environment.
    pub environment: Vec<(OsString, OsString)>,
    /// Takes secrets out of what is written.
    pub redactor: Arc<Redactor>,
}

/// What a command gets on stdin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stdin {
    /// `/dev/null`.
    Null,
    /// This text, then the end.
    Text(String),
    /// A pipe that stays open.
    Open,
}

/// A command to run.
#[derive(Debug, Clone)]
pub struct Request {
    /// The command text.
    pub command: String,
    /// What it is for.
    pub description: Option<String>,
    /// Where it starts; `None`: where commands start.
    pub directory: Option<PathBuf>,
    /// Added to its environment.
    pub environment: Vec<(String, String)>,
    /// Its input, in pipe mode.
    pub stdin: Stdin,
    /// Its terminal, in PTY mode.
    pub terminal: Option<TerminalSize>,
    /// After how long it is ended.
    pub timeout: Option<Duration>,
}

/// Why a command was not run. No task exists then.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Nothing to run.
    #[error("command is empty: pass the text to run")]
    Empty,
    /// The kernel ends texts at NUL.
    #[error(
        "command contains a NUL character at byte {0}, which no shell takes: write it as \\0 or $'\\0'"
    )]
    Nul(usize),
    /// The environment's names and values cannot hold these.
    #[error("env {0:?} cannot be set: names take no `=`, and neither names nor values take NUL")]
    Environment(String),
    /// Longer than is allowed.
    #[error(
        "command is {length} bytes long, over the limit of {limit} (max_command): write it to a file and run that"
    )]
    TooLong {
        /// How long it is.
        length: usize,
        /// What is allowed.
        limit: usize,
    },
    /// Too many run.
    #[error(
        "{limit} tasks are running, the limit (max_tasks): end one with zsh_kill; the oldest are {oldest}"
    )]
    Full {
        /// What is allowed.
        limit: usize,
        /// Some of them, with their commands.
        oldest: String,
    },
    /// The server is ending.
    #[error("the server is ending and starts no command")]
    Ending,
    /// No shell.
    #[error(transparent)]
    NoShell(#[from] NoShell),
    /// The long command's file could not be written.
    #[error("the command is longer than one argument and cannot be written to {path}: {source}")]
    Script {
        /// Where.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The shell could not be started.
    #[error(transparent)]
    Spawn(#[from] SpawnError),
    /// No thread or descriptor for the worker.
    #[error("cannot start a worker for the command: {0}")]
    Worker(std::io::Error),
}

/// Why input was not taken.
#[derive(Debug, thiserror::Error)]
pub enum InputError {
    /// It is over.
    #[error("task {0} has ended: nothing reads input any more")]
    Ended(String),
    /// It has no stdin.
    #[error(
        "task {0} has no stdin: run the command again with pty: true (a terminal) or stdin_open: true (a pipe)"
    )]
    NoInput(String),
    /// It does not read.
    #[error(
        "{waiting} bytes of input already wait for task {id}, which does not read: the limit is {limit}; \
         wait until it reads, or end it with zsh_kill"
    )]
    Full {
        /// Which task.
        id: String,
        /// Bytes that wait.
        waiting: usize,
        /// The limit.
        limit: usize,
    },
    /// It has no window.
    #[error("task {0} has no terminal to resize: run the command again with pty: true")]
    NoTerminal(String),
}

/// A process that came to the server from a task that cannot be told any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unattributed {
    /// Its pid.
    pub pid: i32,
    /// Its name.
    pub name: String,
}

/// All tasks of one server.
pub struct Supervisor {
    settings: Settings,
    clock: Arc<dyn Clock>,
    instance: String,
    registry: Arc<Mutex<Registry>>,
    budget: Arc<Budget>,
    directory: OnceLock<Result<ServerDir, String>>,
    kept_directory: Mutex<Option<PathBuf>>,
    /// Preludes whose errors have been shown, with the age of the file shown.
    shown_preludes: Mutex<HashMap<PathBuf, Option<SystemTime>>>,
    workers: Mutex<Vec<JoinHandle<()>>>,
}

impl Supervisor {
    /// A supervisor without tasks. It opens and starts nothing yet.
    pub fn new(settings: Settings, clock: Arc<dyn Clock>) -> Supervisor {
        Supervisor {
            budget: Budget::new(settings.directory_quota),
            settings,
            clock,
            instance: files::random_id(),
            registry: Arc::default(),
            directory: OnceLock::new(),
            kept_directory: Mutex::new(None),
            shown_preludes: Mutex::default(),
            workers: Mutex::default(),
        }
    }

    /// What the user decided.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// This server's name in cookies and in the state directory.
    pub fn instance(&self) -> &str {
        &self.instance
    }

    /// Bytes of output on disk.
    pub fn disk_bytes(&self) -> u64 {
        self.budget.used()
    }

    /// This server's directory, made at the first call, or why there is none.
    pub fn directory(&self) -> Result<&ServerDir, &str> {
        self.directory
            .get_or_init(|| {
                let state = self.settings.state.as_ref().map_err(Clone::clone)?;
                ServerDir::create(state, &self.instance).map_err(|error| error.to_string())
            })
            .as_ref()
            .map_err(String::as_str)
    }

    /// Starts a command; it runs when this returns.
    ///
    /// # Errors
    /// When it cannot be run: nothing runs and no task exists then.
    pub fn start(self: &Arc<Self>, request: Request) -> Result<Arc<TaskHandle>, StartError> {
        self.check(&request)?;
        let search_path = request
            .environment
            .iter()
            .rev()
            .find(|(name, _)| name == "PATH")
            .map(|(_, value)| value.clone())
            .or_else(|| std::env::var("PATH").ok())
            .unwrap_or_else(|| DEFAULT_PATH.to_owned());
        let shell = shell::find(&self.settings.shell, &search_path)?;
        let id = self.reserve()?;
        let started = self.start_reserved(&id, request, &shell);
        match &started {
            Ok(task) => self.registry.lock().insert(Arc::clone(task)),
            Err(_) => self.registry.lock().release(),
        }
        self.evict_surplus();
        started
    }

    fn check(&self, request: &Request) -> Result<(), StartError> {
        if request.command.trim().is_empty() {
            return Err(StartError::Empty);
        }
        if request.command.len() > self.settings.max_command {
            return Err(StartError::TooLong {
                length: request.command.len(),
                limit: self.settings.max_command,
            });
        }
        if let Some(place) = request.command.find('\0') {
            return Err(StartError::Nul(place));
        }
        let unusable = request.environment.iter().find(|(name, value)| {
            name.is_empty() || name.contains(['=', '\0']) || value.contains('\0')
        });
        match unusable {
            Some((name, _)) => Err(StartError::Environment(name.clone())),
            None => Ok(()),
        }
    }

    fn reserve(&self) -> Result<String, StartError> {
        let mut registry = self.registry.lock();
        registry
            .reserve(self.settings.max_running)
            .map_err(|refused| match refused {
                Refused::Closed => StartError::Ending,
                Refused::Full(oldest) => StartError::Full {
                    limit: self.settings.max_running,
                    oldest: name_tasks(&oldest),
                },
            })?;
        loop {
            let id = files::random_id();
            if !registry.contains(&id) {
                return Ok(id);
            }
        }
    }

    fn start_reserved(
        self: &Arc<Self>,
        id: &str,
        request: Request,
        shell: &Shell,
    ) -> Result<Arc<TaskHandle>, StartError> {
        let cookie = format!("{}/{id}", self.instance);
        let directory = self.start_directory(&request);
        let environment = environment::build(
            &self.settings.environment,
            &request.environment,
            &cookie,
            request.terminal.is_some(),
        );
        let (arguments, script) = self.arguments(id, shell, &request.command)?;
        let (wiring, input, first_input) = match (request.terminal, request.stdin) {
            (Some(size), Stdin::Text(text)) => (
                Wiring::Terminal(size),
                Input::Terminal,
                Some((text.into_bytes(), false)),
            ),
            (Some(size), _) => (Wiring::Terminal(size), Input::Terminal, None),
            (None, Stdin::Null) => (Wiring::Pipe, Input::None, None),
            (None, Stdin::Text(text)) => (
                Wiring::PipeWithInput,
                Input::None,
                Some((text.into_bytes(), true)),
            ),
            (None, Stdin::Open) => (Wiring::PipeWithInput, Input::Pipe, None),
        };
        let launch = Launch {
            program: shell.path.clone(),
            args: arguments,
            environment,
            directory: directory.clone(),
            wiring,
            sideband: shell.reports(),
        };
        let spool = self.spool(id);
        let reader = spool.reader();
        let (orders, worker_orders) = bounded(MAX_ORDERS);
        let (waker, readable) = Waker::new().map_err(StartError::Worker)?;
        let facts = Facts {
            id: id.to_owned(),
            command: request.command,
            description: request.description,
            directory,
            started: self.clock.now(),
            timeout: request.timeout,
            input,
            pid: 0,
            shell_note: shell.note.clone(),
        };
        let journal = Journal::new(
            self.directory().ok(),
            id,
            Arc::clone(&reader),
            Arc::clone(&self.settings.redactor),
        );
        let daemons = Arc::clone(&self.settings.daemons);
        let on_pressure = self.pressure_relief();
        let (report, started) = bounded(1);
        let on_thread = move || {
            // The thread that starts the child is the one that waits for it.
            let spawned = match launch.spawn() {
                Ok(spawned) => spawned,
                Err(error) => {
                    let _ = report.send(Err(error));
                    return;
                }
            };
            let facts = Facts {
                pid: spawned.id.pid,
                ..facts
            };
            let task = Arc::new(LiveTask::new(facts));
            let _ = report.send(Ok(Arc::clone(&task)));
            drop(report);
            let worker = Worker {
                task,
                spawned,
                spool,
                cookie,
                orders: (worker_orders, readable),
                first_input,
                daemons,
                journal,
                script,
                on_pressure,
            };
            worker.run();
        };
        let thread = std::thread::Builder::new()
            .name(format!("task-{id}"))
            .stack_size(WORKER_STACK)
            .spawn(on_thread)
            .map_err(StartError::Worker)?;
        self.workers.lock().push(thread);
        let live = started.recv().map_err(|_| {
            StartError::Worker(std::io::Error::other("the worker ended before it began"))
        })??;
        Ok(Arc::new(TaskHandle {
            live,
            spool: reader,
            orders,
            waker,
        }))
    }

    fn start_directory(&self, request: &Request) -> PathBuf {
        let base = &self.settings.directory;
        match &request.directory {
            Some(directory) => base.join(directory),
            None => self
                .kept_directory
                .lock()
                .clone()
                .unwrap_or_else(|| base.clone()),
        }
    }

    /// Notes where a command ended that its own call saw end.
    pub fn keep_directory(&self, directory: &Path) {
        if self.settings.keep_directory {
            *self.kept_directory.lock() = Some(directory.to_path_buf());
        }
    }

    fn arguments(
        &self,
        id: &str,
        shell: &Shell,
        command: &str,
    ) -> Result<(Vec<OsString>, Option<PathBuf>), StartError> {
        let preludes = self.preludes();
        let path = match self.directory() {
            Ok(directory) => directory.script_path(id),
            Err(_) => PathBuf::new(),
        };
        match shell.invoke(command, self.settings.shell_mode, &preludes, &path) {
            Invocation::Argument(arguments) => Ok((arguments, None)),
            Invocation::Script { text, arguments } => {
                let failed = |source| StartError::Script {
                    path: path.clone(),
                    source,
                };
                if let Err(cause) = self.directory() {
                    return Err(failed(std::io::Error::other(cause.to_owned())));
                }
                let mut file = files::create_private(&path).map_err(failed)?;
                std::io::Write::write_all(&mut file, text.as_bytes()).map_err(|error| {
                    let _ = std::fs::remove_file(&path);
                    failed(error)
                })?;
                Ok((arguments, Some(path)))
            }
        }
    }

    fn preludes(&self) -> Vec<Prelude> {
        let mut shown = self.shown_preludes.lock();
        let client_file = self
            .settings
            .environment_file
            .iter()
            .filter(|path| path.is_file());
        self.settings
            .prelude
            .iter()
            .chain(client_file)
            .map(|path| {
                let age = std::fs::metadata(path)
                    .and_then(|found| found.modified())
                    .ok();
                let show_errors = shown.get(path) != Some(&age);
                shown.insert(path.clone(), age);
                Prelude {
                    path: path.clone(),
                    show_errors,
                }
            })
            .collect()
    }

    fn spool(&self, id: &str) -> SpoolWriter {
        let quota = self.settings.task_quota;
        let budget = Arc::clone(&self.budget);
        if !self.settings.spool_on_disk {
            return SpoolWriter::new(None, quota, budget);
        }
        match self.directory() {
            Ok(directory) => SpoolWriter::new(Some(directory.spool_base(id)), quota, budget),
            Err(cause) => SpoolWriter::new(None, quota, budget).without_disk(cause.to_owned()),
        }
    }

    /// Looks a task up.
    pub fn task(&self, id: &str) -> Option<Arc<TaskHandle>> {
        self.registry.lock().get(id)
    }

    /// All tasks that are known, oldest first.
    pub fn tasks(&self) -> Vec<Arc<TaskHandle>> {
        self.registry.lock().all()
    }

    // Orders.

    /// Signals a task's processes and waits for the receipt. `None`: nothing of it lives.
    pub fn kill(&self, task: &TaskHandle, order: KillOrder) -> Option<Receipt> {
        let (receipt, received) = bounded(1);
        task.order(Order::Kill { order, receipt }).ok()?;
        received
            .recv_timeout(KILL_GRACE + KILL_PATIENCE + Duration::from_secs(2))
            .ok()
    }

    /// Writes to a task.
    ///
    /// # Errors
    /// When it takes no input, or too much waits already.
    pub fn send_input(&self, task: &TaskHandle, bytes: Vec<u8>) -> Result<(), InputError> {
        let id = task.id().to_owned();
        if task.live.facts.input == Input::None {
            return Err(InputError::NoInput(id));
        }
        let waiting = {
            let mut state = task.live.state();
            if state.ended.is_some() {
                return Err(InputError::Ended(id));
            }
            let waiting = state.queued_input;
            if waiting + bytes.len() <= MAX_QUEUED_INPUT {
                state.queued_input += bytes.len();
                None
            } else {
                Some(waiting)
            }
        };
        if let Some(waiting) = waiting {
            return Err(InputError::Full {
                id,
                waiting,
                limit: MAX_QUEUED_INPUT,
            });
        }
        self.order_input(task, Order::Input(bytes))
    }

    /// Tells a task that no more input comes.
    ///
    /// # Errors
    /// When it takes no input.
    pub fn end_input(&self, task: &TaskHandle) -> Result<(), InputError> {
        if task.live.facts.input == Input::None {
            return Err(InputError::NoInput(task.id().to_owned()));
        }
        self.order_input(task, Order::EndInput)
    }

    /// Changes the size of a task's terminal.
    ///
    /// # Errors
    /// When it has none.
    pub fn resize(&self, task: &TaskHandle, size: TerminalSize) -> Result<(), InputError> {
        if task.live.facts.input != Input::Terminal {
            return Err(InputError::NoTerminal(task.id().to_owned()));
        }
        self.order_input(task, Order::Resize(size))
    }

    fn order_input(&self, task: &TaskHandle, order: Order) -> Result<(), InputError> {
        task.order(order).map_err(|error| match error {
            NotOrdered::Ended => InputError::Ended(task.id().to_owned()),
            NotOrdered::Busy => InputError::Full {
                id: task.id().to_owned(),
                waiting: task.live.state().queued_input,
                limit: MAX_QUEUED_INPUT,
            },
        })
    }

    // Room.

    fn pressure_relief(self: &Arc<Self>) -> OnPressure {
        let supervisor = Arc::downgrade(self);
        Arc::new(move || {
            if let Some(supervisor) = supervisor.upgrade() {
                supervisor.relieve_disk();
            }
        })
    }

    /// Frees disk space: finished tasks go first, then the largest gives up its oldest
    /// output.
    fn relieve_disk(&self) {
        while self.budget.excess() > 0 {
            let evicted = self.registry.lock().evict_oldest_on_disk();
            if let Some(task) = evicted {
                self.forget(&task);
                continue;
            }
            let largest = self.registry.lock().largest_on_disk();
            let freed = largest.map_or(0, |task| {
                let line = task.live.state().output_end.line;
                task.spool.give_up_oldest(line)
            });
            if freed == 0 {
                return;
            }
        }
    }

    fn evict_surplus(&self) {
        let evicted = self.registry.lock().evict(
            self.settings.max_finished,
            self.settings.keep,
            Instant::now(),
        );
        for task in evicted {
            self.forget(&task);
        }
        self.workers.lock().retain(|worker| !worker.is_finished());
    }

    fn forget(&self, task: &TaskHandle) {
        task.spool.remove();
        if let Ok(directory) = self.directory() {
            journal::remove_entry(directory, task.id());
        }
    }

    /// Does what is due from time to time, until `stop` closes: adopted zombies are
    /// reaped after each wake-up, finished tasks go when their time is over, and what
    /// dead servers left is removed once.
    pub fn keep_house(&self, wake: &Receiver<()>) {
        const AGAIN: Duration = Duration::from_secs(1);
        if let Ok(state) = &self.settings.state {
            journal::remove_dead_servers(state);
        }
        let mut seen = Default::default();
        let mut zombies_wait = false;
        loop {
            let expiry = self.registry.lock().next_expiry(self.settings.keep);
            let pause = match (zombies_wait, expiry) {
                (true, _) => Some(AGAIN),
                (false, Some(expiry)) => {
                    Some(expiry.saturating_duration_since(Instant::now()).max(AGAIN))
                }
                (false, None) => None,
            };
            let woken = match pause {
                Some(pause) => wake
                    .recv_timeout(pause)
                    .map_err(|error| error.is_disconnected()),
                None => wake.recv().map_err(|_| true),
            };
            if woken == Err(true) {
                return;
            }
            zombies_wait = crate::process::orphans::reap_adopted(&mut seen);
            self.evict_surplus();
        }
    }

    /// Processes that came to this server and belong to no task that is known.
    pub fn unattributed(&self) -> Vec<Unattributed> {
        let own = tree::children_of_self().unwrap_or_default();
        let tasks = self.tasks();
        let known: Vec<i32> = tasks
            .iter()
            .flat_map(|task| {
                task.live
                    .state()
                    .leftovers
                    .iter()
                    .map(|left| left.pid)
                    .collect::<Vec<_>>()
            })
            .collect();
        own.into_iter()
            .filter(|pid| !known.contains(pid))
            .filter_map(tree::look_up)
            .filter(|process| !process.zombie && !process.is_named(&self.settings.daemons))
            .filter(|process| {
                let of_task = |task: &Arc<TaskHandle>| {
                    let ours = format!("{}/{}", self.instance, task.id());
                    !task.live.state().closed
                        && (task.live.facts.pid == process.session
                            || tree::cookie_of(process.id.pid).is_some_and(|cookie| cookie == ours))
                };
                !tasks.iter().any(of_task)
            })
            .map(|process| Unattributed {
                pid: process.id.pid,
                name: process.name,
            })
            .collect()
    }

    /// Ends all tasks, their leftovers and whatever else came to this server, within
    /// about a second.
    pub fn shut_down(&self) {
        let tasks = {
            let mut registry = self.registry.lock();
            registry.close();
            registry.all()
        };
        let strays = crate::process::orphans::Sweep::begin(&self.settings.daemons);
        for task in &tasks {
            let _ = task.order(Order::Shutdown);
        }
        for worker in self.workers.lock().drain(..) {
            let _ = worker.join();
        }
        strays.finish();
        for task in &tasks {
            task.spool.remove();
        }
    }

    /// Removes this server's directory; the last thing that a server does.
    pub fn remove_directory(&self) {
        if let Some(Ok(directory)) = self.directory.get() {
            directory.remove();
        }
    }
}

/// Where programs are looked for when no PATH is set (as the shells themselves do).
const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

fn name_tasks(tasks: &[Arc<LiveTask>]) -> String {
    let named: Vec<String> = tasks
        .iter()
        .map(|task| {
            let line = task.facts.command.lines().next().unwrap_or_default();
            let short: String = line.chars().take(40).collect();
            format!("{} ({short})", task.facts.id)
        })
        .collect();
    named.join(", ")
}

/// Wakes the housekeeping; a wake-up that is already waiting is enough.
pub fn wake_housekeeping(wake: &Sender<()>) {
    let _ = wake.try_send(());
}
