//! All tasks of a server: starting them within the limits, orders to them, room on the
//! disk, and the end of everything.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam_channel::bounded;
use parking_lot::Mutex;

use super::budget::{Budget, Store};
use super::ending::{Ending, OnEnd};
use super::environment;
use super::input::Sending;
use super::journal::{Journal, ServerDir};
use super::live::{Cancel, Facts, Input, LiveTask, Look, State};
use super::order::Order;
use super::order_line::OrderLine;
use super::preludes::Preludes;
use super::registry::{Refused, Registry, TaskHandle};
use super::request::{Request, StartError, Stderr, Stdin};
use super::shell::{self, Invocation, NoShell, Shell, ShellMode};
use super::spool::SpoolWriter;
use super::worker::Worker;
use crate::base::clock::Clock;
use crate::process::files::{self, Temporary};
use crate::process::orphans;
use crate::process::snapshots::Snapshots;
use crate::process::spawn::{Errors, Launch, Wiring};
use crate::progress::tracker;
use crate::text::redact::Redactor;

/// All tasks together get so long to end with the server; what hangs in the kernel is
/// left to it.
const SHUTDOWN_LIMIT: Duration = Duration::from_millis(900);
/// A worker that is just telling of its task's end gets so long for that.
const LAST_WORD: Duration = Duration::from_millis(200);
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
    /// What commands inherit of the server's environment.
    pub environment: Vec<(OsString, OsString)>,
    /// Takes secrets out of what is written.
    pub redactor: Arc<Redactor>,
    /// How it is judged whether a task gets on.
    pub tracking: tracker::Settings,
}

/// All tasks of one server.
pub struct Supervisor {
    pub(super) settings: Settings,
    clock: Arc<dyn Clock>,
    pub(super) instance: String,
    pub(super) registry: Arc<Mutex<Registry>>,
    pub(super) budget: Arc<Budget>,
    snapshots: Arc<Snapshots>,
    directory: OnceLock<Result<ServerDir, String>>,
    kept_directory: Mutex<Option<PathBuf>>,
    preludes: Preludes,
    pub(super) workers: Mutex<Vec<(String, JoinHandle<()>)>>,
}

impl Supervisor {
    /// A supervisor without tasks. It opens and starts nothing yet.
    pub fn new(settings: Settings, clock: Arc<dyn Clock>) -> Supervisor {
        Supervisor {
            budget: Budget::new(settings.directory_quota),
            snapshots: Arc::default(),
            preludes: Preludes::new(settings.prelude.clone(), settings.environment_file.clone()),
            settings,
            clock,
            instance: files::random_id(),
            registry: Arc::default(),
            directory: OnceLock::new(),
            kept_directory: Mutex::new(None),
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
        self.budget.used(Store::Disk)
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

    /// Starts a command; it runs when this returns. Its end is told to `on_end` first.
    ///
    /// # Errors
    /// When it cannot be run: nothing runs and no task exists then, and `on_end` is
    /// dropped.
    pub fn start(
        self: &Arc<Self>,
        request: Request,
        on_end: Option<OnEnd>,
    ) -> Result<Arc<TaskHandle>, StartError> {
        self.check(&request)?;
        let shell = self.find_shell()?;
        let id = self.reserve()?;
        let started = self.start_reserved(&id, request, &shell, on_end);
        match &started {
            Ok(task) => {
                let closed = self.registry.lock().insert(Arc::clone(task));
                if closed {
                    // The server began to end while this was starting.
                    let _ = task.orders.send(Order::Shutdown);
                }
            }
            Err(_) => self.registry.lock().release(),
        }
        self.evict_surplus();
        started
    }

    /// The shell that commands run in.
    ///
    /// # Errors
    /// When there is none.
    pub fn find_shell(&self) -> Result<Shell, NoShell> {
        let search_path = environment::search_path(&self.settings.environment);
        shell::find(&self.settings.shell, search_path)
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
                Refused::Full(oldest) => {
                    StartError::full(self.settings.max_running, &oldest, &self.settings.redactor)
                }
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
        on_end: Option<OnEnd>,
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
        let emulated = request.terminal.filter(|_| request.emulated);
        let errors = match request.stderr {
            Stderr::Merged => Errors::WithOutput,
            Stderr::Apart => Errors::Apart,
        };
        let (wiring, input, first_input) = match (request.terminal, request.stdin) {
            (Some(size), Stdin::Text(text)) => (
                Wiring::Terminal(size),
                Input::Terminal,
                Some(Sending {
                    bytes: text.into_bytes(),
                    end: false,
                }),
            ),
            (Some(size), _) => (Wiring::Terminal(size), Input::Terminal, None),
            (None, Stdin::Null) => (Wiring::Pipe(errors), Input::None, None),
            (None, Stdin::Text(text)) => (
                Wiring::PipeWithInput(errors),
                Input::None,
                Some(Sending {
                    bytes: text.into_bytes(),
                    end: true,
                }),
            ),
            (None, Stdin::Open) => (Wiring::PipeWithInput(errors), Input::Pipe, None),
        };
        let columns = request.terminal.map(|size| size.cols);
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
        let (line, orders) = OrderLine::new().map_err(StartError::Worker)?;
        let facts = Facts {
            id: id.to_owned(),
            command: request.command,
            description: request.description,
            part_of: request.part_of,
            directory,
            started: self.clock.now(),
            timeout: request.timeout,
            timeout_most: request.timeout_most,
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
        let snapshots = Arc::clone(&self.snapshots);
        let tracking = self.settings.tracking;
        let ending = Arc::new(Ending::new(on_end));
        let of_worker = Arc::clone(&ending);
        let (report, started) = bounded(1);
        let on_thread = move || {
            // The thread that starts the child is the one that waits for it.
            let spawned = match launch.spawn() {
                Ok(spawned) => spawned,
                Err(error) => {
                    // Gone before anybody knows of the failure: it holds the command's text.
                    drop(script);
                    let _ = report.send(Err(error));
                    return;
                }
            };
            let facts = Facts {
                pid: spawned.id.pid,
                ..facts
            };
            let task = LiveTask::new(facts);
            let task = Arc::new(match emulated {
                Some(size) => task.with_terminal(size),
                None => task,
            });
            task.report(|state| state.columns = columns);
            let _ = report.send(Ok(Arc::clone(&task)));
            drop(report);
            let worker = Worker {
                task,
                spawned,
                spool,
                cookie,
                orders,
                first_input,
                daemons,
                journal,
                script,
                snapshots,
                tracking,
                on_pressure,
                ending: of_worker,
            };
            worker.run();
        };
        let thread = std::thread::Builder::new()
            .name(format!("task-{id}"))
            .stack_size(WORKER_STACK)
            .spawn(on_thread)
            .map_err(StartError::Worker)?;
        self.workers.lock().push((id.to_owned(), thread));
        let live = started.recv().map_err(|_| {
            StartError::Worker(std::io::Error::other("the worker ended before it began"))
        })??;
        Ok(Arc::new(TaskHandle {
            live,
            spool: reader,
            orders: line,
            ending,
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
    ) -> Result<(Vec<OsString>, Option<Temporary>), StartError> {
        let preludes = self.preludes.due();
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
                let script = Temporary(path.clone());
                std::io::Write::write_all(&mut file, text.as_bytes()).map_err(failed)?;
                Ok((arguments, Some(script)))
            }
        }
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

    /// The tasks that run, linger, or whose end nobody has been told of, oldest first.
    pub fn open_tasks(&self) -> Vec<Arc<TaskHandle>> {
        self.registry.lock().open()
    }

    /// All tasks that are known, oldest first.
    pub fn tasks(&self) -> Vec<Arc<TaskHandle>> {
        self.registry.lock().all()
    }

    /// Ends all tasks, their leftovers and whatever else came to this server, within
    /// about a second.
    pub fn shut_down(&self) {
        let tasks = {
            let mut registry = self.registry.lock();
            registry.close();
            registry.all()
        };
        // The workers are told first: whoever sees its shell end by the sweep's signal
        // is to know that the server did it.
        for task in &tasks {
            let _ = task.orders.send(Order::Shutdown);
        }
        let strays = orphans::Sweep::begin(&self.settings.daemons);
        let deadline = Instant::now() + SHUTDOWN_LIMIT;
        for task in &tasks {
            await_state(task, deadline, |state| state.closed);
        }
        strays.finish();
        tell_of_the_late(&tasks);
        let workers = std::mem::take(&mut *self.workers.lock());
        for (id, worker) in workers {
            // One that is not closed waits for a process that hangs in the kernel.
            let closed = tasks
                .iter()
                .any(|task| task.id() == id && task.live.state().closed);
            if closed || worker.is_finished() {
                let _ = worker.join();
            }
        }
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

/// Tells of the ends of tasks that have not ended in time, and that their workers have not
/// told of.
fn tell_of_the_late(tasks: &[Arc<TaskHandle>]) {
    let deadline = Instant::now() + LAST_WORD;
    for task in tasks {
        let ended = task.live.state().ended.is_some();
        if !ended && !task.ending.tell_now(&task.live, &task.spool) {
            await_state(task, deadline, |state| state.ended.is_some());
        }
    }
}

fn await_state(task: &TaskHandle, deadline: Instant, wanted: impl Fn(&State) -> bool) {
    let look = |state: &State| match wanted(state) {
        true => Look::Found(()),
        false => Look::WaitUntil(None),
    };
    task.live
        .wait_for(Some(deadline), &Cancel::default(), look, Instant::now);
}
