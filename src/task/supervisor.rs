//! All tasks of a server: starts them within the limits, sends them requests, and ends them all at
//! shutdown.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use parking_lot::Mutex;

use super::completion::{Completion, OnEnd};
use super::environment::StartEnvironment;
use super::events::{EventKind, EventSignal};
use super::input::{InputChunk, MAX_QUEUED_INPUT};
use super::journal::{self, CONTROL_SOCKET, Journal, ServerDir};
use super::live::{Facts, Input, LiveTask};
use super::output::budget::{Budget, StorageKind};
use super::output::spool::SpoolWriter;
use super::planner::{PlanContext, Planner};
use super::registry::{Registry, TaskHandle};
use super::request::{InputError, Request, StartError};
use super::sandboxes;
use super::secret_input::{PATIENCE, SecretError, SecretInput};
use super::settings::Settings;
use super::shell::{NoShell, Shell};
use super::state::{KILL_GRACE, KILL_PATIENCE, KillRequest};
use super::stream::{PerStream, StreamName};
use super::terminal::Terminal;
use super::termination::Receipt;
use super::told::ShownMark;
use super::tombstone::{EndCause, ServerEnd};
use super::unprotected::Unprotected;
use super::worker::{Setup, Worker};
use super::worker_requests::{MAX_REQUESTS, RequestSender, SendError, WorkerRequest};
use crate::base::clock::Clock;
use crate::base::sync::{CondvarMutex, handover};
use crate::process::birthmark::Birthmark;
use crate::process::descriptors::Waker;
use crate::process::executable::AllowedPrograms;
use crate::process::files;
use crate::process::probe::Identity;
use crate::process::pty::TerminalSize;
use crate::process::scans::Scans;
use crate::process::spawn::Launch;
use crate::process::survivors;
use crate::process::tree;
use crate::sandbox::policy::Policy;
use crate::shell::dialect::Dialect;
use crate::shell::mode::ShellName;
use crate::text::mask::Secret;

/// How long all tasks together may take to end at shutdown; a process that hangs in the kernel is
/// left behind.
const SHUTDOWN_LIMIT: Duration = Duration::from_millis(900);
/// How long to wait for a worker that is already reporting its task's end.
const END_REPORT_PATIENCE: Duration = Duration::from_millis(200);
/// A worker needs little stack: its buffer is on the heap.
const WORKER_STACK: usize = 256 * 1024;

/// How much longer than the longest kill a receipt may take on a busy machine.
const KILL_SLACK: Duration = Duration::from_secs(2);
/// How long a caller waits for the receipt of a kill.
pub(crate) const KILL_LIMIT: Duration =
    KILL_GRACE.saturating_add(KILL_PATIENCE).saturating_add(KILL_SLACK);

/// Why a kill has no receipt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KillError {
    /// No process of the task is alive.
    Ended,
    /// Too many requests wait for the worker.
    Busy,
    /// The worker has not answered in time.
    Late,
}

pub struct Supervisor {
    pub(crate) settings: Settings,
    pub(super) clock: Arc<dyn Clock>,
    /// This server's name in cookies and in the state directory.
    pub(crate) instance: String,
    /// Notified when a task that was being started is listed, or has not started.
    pub(super) registry: CondvarMutex<Registry>,
    pub(super) budget: Arc<Budget>,
    pub(super) scans: Arc<Scans>,
    directory: OnceLock<Result<ServerDir, String>>,
    /// Notified when the pending event of a task changes.
    pub(crate) events: Arc<EventSignal>,
    /// The process that started this server; other processes find it in the directory.
    client: OnceLock<Identity>,
    /// Receives the directory's path once it exists.
    on_directory: Mutex<Option<Sender<PathBuf>>>,
    planner: Planner,
    pub(super) unprotected: Arc<Unprotected>,
    /// Tasks of ended servers that were requested recently.
    pub(super) recalled: Mutex<VecDeque<Arc<TaskHandle>>>,
    pub(super) workers: Mutex<Vec<(String, JoinHandle<()>)>>,
    /// What wakes the housekeeping.
    pub(super) housekeeping: OnceLock<Arc<Waker>>,
}

impl Supervisor {
    /// A supervisor without tasks. It opens and starts nothing yet.
    pub fn new(settings: Settings, clock: Arc<dyn Clock>) -> Supervisor {
        Self::with_instance(files::random_id(), settings, clock)
    }

    /// Like [`Supervisor::new`], for a server whose name other processes already know.
    pub fn with_instance(
        instance: String,
        settings: Settings,
        clock: Arc<dyn Clock>,
    ) -> Supervisor {
        Supervisor {
            budget: Budget::new(settings.directory_quota),
            planner: Planner::default(),
            unprotected: Arc::default(),
            scans: Arc::default(),
            settings,
            clock,
            instance,
            recalled: Mutex::default(),
            registry: CondvarMutex::new(Registry::default()),
            directory: OnceLock::new(),
            events: Arc::default(),
            client: OnceLock::new(),
            on_directory: Mutex::default(),
            workers: Mutex::default(),
            housekeeping: OnceLock::new(),
        }
    }

    /// How many bytes of output are on disk.
    pub fn disk_bytes(&self) -> u64 {
        self.budget.used(StorageKind::Disk)
    }

    /// This server's directory, created by the first call, or why there is none.
    pub fn directory(&self) -> Result<&ServerDir, &str> {
        self.directory
            .get_or_init(|| {
                let state = self.settings.state.as_ref().map_err(Clone::clone)?;
                let made = ServerDir::create(state, &self.instance, self.client.get().copied());
                if let (Ok(made), Some(receiver)) = (&made, self.on_directory.lock().take()) {
                    let _ = receiver.try_send(made.path.clone());
                }
                made.map_err(|error| error.to_string())
            })
            .as_ref()
            .map_err(String::as_str)
    }

    /// Sets the process that started this server, before the directory is made.
    pub(crate) fn set_client(&self, client: Identity) {
        let _ = self.client.set(client);
    }

    /// A channel that receives the path of this server's directory once it exists. Call this before
    /// other threads use the supervisor.
    pub fn directory_made(&self) -> Receiver<PathBuf> {
        let (send, receive) = bounded(1);
        match self.directory.get() {
            None => *self.on_directory.lock() = Some(send),
            Some(Ok(made)) => {
                let _ = send.try_send(made.path.clone());
            }
            Some(Err(_)) => {}
        }
        receive
    }

    /// Starts a command, which runs when this returns. `on_end` is called before any caller can see
    /// the end.
    ///
    /// # Errors
    /// The command cannot be run: no task exists then, and `on_end` is dropped.
    pub fn start(
        self: &Arc<Self>,
        request: Request,
        on_end: Option<OnEnd>,
    ) -> Result<Arc<TaskHandle>, StartError> {
        self.start_named(request, on_end, |_| ())
    }

    /// Like [`Supervisor::start`], and calls `named` with the task's id before the command runs.
    ///
    /// # Errors
    /// As [`Supervisor::start`].
    pub(crate) fn start_named(
        self: &Arc<Self>,
        request: Request,
        on_end: Option<OnEnd>,
        named: impl FnOnce(&str),
    ) -> Result<Arc<TaskHandle>, StartError> {
        self.check(&request)?;
        let shell = self.find_shell(request.shell)?;
        let id = self.reserve(request.id.as_deref())?;
        named(&id);
        let started = self.start_reserved(&id, request, &shell, on_end);
        match &started {
            Ok(task) => {
                let is_ending = self.registry.lock().insert(Arc::clone(task));
                if is_ending {
                    // The server began to shut down while the task was starting.
                    let _ = task.requests.send(WorkerRequest::Shutdown);
                }
            }
            Err(_) => {
                self.unprotected.take_back(&id);
                self.registry.lock().release();
            }
        }
        self.registry.notify_all();
        self.evict_surplus();
        started
    }

    /// The shell with this name, or the configured one.
    ///
    /// # Errors
    /// No such shell was found.
    pub fn find_shell(&self, name: Option<ShellName>) -> Result<Shell, NoShell> {
        self.planner.find_shell(&self.settings, name)
    }

    /// The dialect in which that shell reads text.
    pub(crate) fn dialect(&self, name: Option<ShellName>) -> Dialect {
        let takes_bash = self.settings.takes_bash;
        self.find_shell(name).map_or(Dialect::Other, |shell| shell.dialect(takes_bash))
    }

    /// The environment and files for a command with this policy, which a shim will start, and the
    /// directory if it is not the default one.
    ///
    /// # Errors
    /// No shell was found.
    pub(crate) fn start_elsewhere(
        &self,
        directory: Option<&Path>,
        policy: &Policy,
    ) -> Result<(Option<PathBuf>, StartEnvironment), NoShell> {
        self.planner.start_elsewhere(&self.settings, self.directory(), directory, policy)
    }

    /// Whether commands of this process are in a sandbox, by its settings or because a call asked for it.
    pub(crate) fn confines_commands(&self) -> bool {
        let by_settings = self.settings.sandbox.as_ref().map_or(true, |it| !it.policy().is_off());
        by_settings || self.tasks().iter().any(|task| task.live.facts.sandbox.is_some())
    }

    /// Why a process counts as one in a sandbox, if it does: it comes from a task that has one, of this
    /// server or of another with the same state directory. Not all that confines a process is shown.
    pub(crate) fn sandboxed_origin(&self, process: Identity) -> Option<&'static str> {
        const MAX_ANCESTORS: usize = 1000;
        const FROM_TASK: &str = "it comes from a task in a sandbox";
        let tasks = self.tasks();
        let marks: Vec<Birthmark> = tasks
            .iter()
            .filter(|task| task.live.facts.sandbox.is_some())
            .map(|task| Birthmark::for_cookie(&self.cookie(task.id())))
            .collect();
        let own = std::process::id() as i32;
        let own_cookie = std::env::var(tree::COOKIE_VARIABLE).ok();
        let mut is_of_task = false;
        let (mut pid, mut child) = (process.pid, None);
        for _ in 0..MAX_ANCESTORS {
            if pid == own {
                // An orphan that this process has adopted may hide which task it was born to.
                return (!is_of_task && self.confines_commands()).then_some(FROM_TASK);
            }
            let info = tree::look_up(pid);
            // What has ended meanwhile has left its children to another process.
            let parent = child.and_then(tree::look_up).map(|child| child.parent);
            if let Some(parent) = parent.filter(|parent| *parent != pid) {
                pid = parent;
                continue;
            }
            // What is not shown belongs to another user.
            let info = info?;
            let cookie = tree::cookie_of(pid).filter(|cookie| own_cookie.as_ref() != Some(cookie));
            let is_marked = Birthmark::on(pid).is_some_and(|mark| marks.contains(&mark));
            let task = tasks.iter().find(|task| task.live.facts.shell == info.id);
            let is_sandboxed = is_marked
                || task.is_some_and(|task| task.live.facts.sandbox.is_some())
                || cookie.is_some_and(|cookie| self.is_sandboxed(&cookie));
            if is_sandboxed {
                return Some(FROM_TASK);
            }
            is_of_task |= task.is_some();
            if info.parent <= 1 {
                return None;
            }
            (pid, child) = (info.parent, Some(pid));
        }
        Some("its origin is too long to be followed")
    }

    /// Whether the task with this cookie is in a sandbox.
    fn is_sandboxed(&self, cookie: &str) -> bool {
        let Some((instance, id)) = cookie.split_once('/') else { return false };
        if instance == self.instance
            && let Some(task) = self.task(id)
        {
            return task.live.facts.sandbox.is_some();
        }
        let Ok(state) = &self.settings.state else { return false };
        // Any process can choose its environment.
        let directory = journal::servers(state).into_iter().find(|path| path.ends_with(instance));
        let snapshot = directory
            .filter(|_| journal::is_task_id(id))
            .and_then(|directory| journal::read(&directory, id));
        snapshot.is_some_and(|snapshot| snapshot.facts.sandbox.is_some())
    }

    /// Makes later commands in the same sandbox start in this directory, if the settings say so;
    /// returns whether they do. For the call that started this command and saw it end there.
    pub(crate) fn keep_directory(&self, facts: &Facts, directory: &Path) -> bool {
        let policy = facts.sandbox.as_ref().map_or_else(Policy::off, |it| it.policy.clone());
        self.settings.keep_directory
            && self.planner.keep_directory(self.directory(), &policy, directory)
    }

    fn check(&self, request: &Request) -> Result<(), StartError> {
        let command = request.command.text();
        if command.trim().is_empty() {
            return Err(StartError::Empty);
        }
        if command.len() > self.settings.max_command {
            return Err(StartError::TooLong {
                length: command.len(),
                limit: self.settings.max_command,
            });
        }
        if let Some(offset) = command.find('\0') {
            return Err(StartError::Nul(offset));
        }
        let invalid = request.environment.iter().find(|(name, value)| {
            name.is_empty() || name.contains(['=', '\0']) || value.contains('\0')
        });
        match invalid {
            Some((name, _)) => Err(StartError::Environment(name.clone())),
            None => Ok(()),
        }
    }

    fn reserve(&self, chosen: Option<&str>) -> Result<String, StartError> {
        let mut registry = self.registry.lock();
        registry.reserve(self.settings.max_running, &self.settings.redactor)?;
        let mut id = chosen.map_or_else(files::random_id, str::to_owned);
        while registry.by_id.contains_key(&id) {
            id = files::random_id();
        }
        Ok(id)
    }

    fn start_reserved(
        self: &Arc<Self>,
        id: &str,
        request: Request,
        shell: &Shell,
        on_end: Option<OnEnd>,
    ) -> Result<Arc<TaskHandle>, StartError> {
        if request.detached.as_ref().is_some_and(|detached| detached.must_be_listed) {
            self.directory().map_err(|cause| StartError::Unlisted(cause.to_owned()))?;
        }
        let with = PlanContext {
            settings: &self.settings,
            directory: self.directory(),
            cookie: self.cookie(id),
            clock: &*self.clock,
            unprotected: &self.unprotected,
        };
        let plan = self.planner.plan(with, id, request, shell)?;
        let spools = PerStream {
            output: self.spool(id, StreamName::Output),
            errors: self.spool(id, StreamName::Errors),
        };
        let readers = spools.map(SpoolWriter::reader);
        let (requests, receiver) = RequestSender::new().map_err(StartError::Worker)?;
        let journal = Journal::new(
            self.directory().ok(),
            id,
            readers.clone(),
            Arc::clone(&self.settings.redactor),
        );
        let completion = Arc::new(Completion::new(on_end));
        let server_ending = Arc::clone(&self.registry.lock().ending);
        let setup = Setup {
            spools,
            cookie: plan.cookie,
            requests: receiver,
            first_input: plan.first_input,
            daemons: Arc::clone(&self.settings.daemons),
            journal,
            files: plan.files,
            temporary: plan.temporary,
            sideband: plan.sideband,
            on_shell_end: plan.on_shell_end,
            scans: Arc::clone(&self.scans),
            server_ending,
            tracker: self.settings.tracker,
            on_pressure: self.pressure_relief(),
            completion: Arc::clone(&completion),
            housekeeping: self.housekeeping.get().cloned(),
        };
        let (report, started) = handover();
        let (launch, mut task) = (plan.launch, LiveTask::new(plan.facts));
        task.events = Some(Arc::clone(&self.events));
        task.unprotected = Some(Arc::clone(&self.unprotected));
        task.terminal = plan.emulated.map(|size| Box::new(Terminal::new(size)));
        task.report(|state| state.columns = plan.columns);
        let thread = std::thread::Builder::new()
            .name(format!("task-{id}"))
            .stack_size(WORKER_STACK)
            .spawn(move || run_task(task, launch, setup, |started| report.give(started)))
            .map_err(StartError::Worker)?;
        self.workers.lock().push((id.to_owned(), thread));
        let live = started.take().ok_or_else(|| {
            StartError::Worker(std::io::Error::other(
                "the worker ended before it started the command",
            ))
        })??;
        Ok(Arc::new(TaskHandle { live, spools: readers, requests, completion, ended_server: None }))
    }

    /// The time in Unix seconds.
    pub fn now(&self) -> f64 {
        self.clock.now().unix_seconds()
    }

    fn spool(&self, id: &str, stream: StreamName) -> SpoolWriter {
        let quota = self.settings.task_quota;
        let budget = Arc::clone(&self.budget);
        if !self.settings.spool_on_disk {
            return SpoolWriter::new(None, quota, budget);
        }
        match self.directory() {
            Ok(directory) => {
                SpoolWriter::new(Some(directory.spool_base(id, stream)), quota, budget)
            }
            Err(cause) => SpoolWriter::new(None, quota, budget).without_disk(cause.to_owned()),
        }
    }

    /// Finds a task.
    pub fn task(&self, id: &str) -> Option<Arc<TaskHandle>> {
        self.registry.lock().by_id.get(id).cloned()
    }

    /// The value of the variable by which a task's processes are recognised.
    pub(super) fn cookie(&self, id: &str) -> String {
        format!("{}/{id}", self.instance)
    }

    /// The tasks that run, linger, or whose end was not reported yet, oldest first.
    pub fn open_tasks(&self) -> Vec<Arc<TaskHandle>> {
        self.registry.lock().open()
    }

    /// Restores what results had shown before one that did not reach the client.
    pub fn take_back(&self, task: &Arc<TaskHandle>, before: ShownMark) {
        task.live.report(|state| state.take_back(before));
        self.unprotected.take_back(task.id());
        self.registry.lock().reopen(task);
    }

    /// Makes an event pending again after its report was lost.
    pub(crate) fn take_back_event(&self, task: &Arc<TaskHandle>, event: EventKind) {
        task.live.report(|state| state.take_back_event(event));
        self.registry.lock().reopen(task);
        self.events.notify();
    }

    /// Whether the server is ending.
    pub(crate) fn is_ending(&self) -> bool {
        self.registry.lock().is_ending()
    }

    /// All known tasks, oldest first.
    pub fn tasks(&self) -> Vec<Arc<TaskHandle>> {
        self.registry.lock().order.clone()
    }

    /// Signals a task's processes and waits for the receipt.
    ///
    /// # Errors
    /// No receipt came in time; the kill may still be under way.
    pub fn kill(&self, task: &TaskHandle, request: KillRequest) -> Result<Receipt, KillError> {
        let closed = || task.live.state().closed;
        let received = self.begin_kill(task, request)?;
        if closed() {
            // The worker may have received the command in its last turn, or not at all.
            return received.try_recv().map_err(|_| KillError::Ended);
        }
        received.recv_timeout(KILL_LIMIT).map_err(|error| match error {
            RecvTimeoutError::Timeout => KillError::Late,
            RecvTimeoutError::Disconnected => KillError::Ended,
        })
    }

    /// Signals a task's processes without waiting: the receipt comes when the kill is over.
    ///
    /// # Errors
    /// No receipt will come.
    pub fn begin_kill(
        &self,
        task: &TaskHandle,
        request: KillRequest,
    ) -> Result<Receiver<Receipt>, KillError> {
        if task.live.state().closed {
            return Err(KillError::Ended);
        }
        let (receipt, received) = bounded(1);
        task.requests.send(WorkerRequest::Kill { request, receipt }).map_err(
            |error| match error {
                SendError::Ended => KillError::Ended,
                SendError::Busy => KillError::Busy,
            },
        )?;
        Ok(received)
    }

    /// Asks the worker to probe the task's progress now; `LiveState::progress_probes` counts the
    /// probe. A task that has ended is not probed.
    pub fn request_probe(&self, task: &TaskHandle) {
        let _ = task.requests.send(WorkerRequest::ProbeProgress);
    }

    /// Sends input to a task, and then ends its input if requested. Input of other calls does not
    /// come in between.
    ///
    /// # Errors
    /// The task accepts no input, or too much is waiting already.
    pub fn send(&self, task: &TaskHandle, sending: InputChunk) -> Result<(), InputError> {
        let id = || task.id().to_owned();
        let (weight, closes) =
            (sending.weight(), sending.end && task.live.facts.input == Input::Pipe);
        {
            let mut state = task.live.state();
            if state.ended.is_some() {
                return Err(InputError::Ended(id()));
            }
            if task.live.facts.input == Input::None {
                return Err(InputError::NoInput(id()));
            }
            if state.input_closed {
                return Err(InputError::Closed(id()));
            }
            // The end is always accepted: a task that reads until then cannot end without it.
            if !sending.bytes.is_empty() && state.queued_input + weight > MAX_QUEUED_INPUT {
                return Err(InputError::Full {
                    id: id(),
                    waiting: state.queued_input,
                    limit: MAX_QUEUED_INPUT,
                });
            }
            state.queued_input += weight;
            state.input_closed = closes;
            // The input that it waits for will arrive.
            state.forget_answered();
        }
        self.command_input(task, WorkerRequest::Input(sending)).inspect_err(|_| {
            let mut state = task.live.state();
            state.queued_input = state.queued_input.saturating_sub(weight);
            state.input_closed &= !closes;
        })
    }

    /// Changes the size of a task's terminal.
    ///
    /// # Errors
    /// The task has no terminal.
    pub fn resize(&self, task: &TaskHandle, size: TerminalSize) -> Result<(), InputError> {
        if task.live.facts.input != Input::Terminal {
            return Err(InputError::NoTerminal(task.id().to_owned()));
        }
        // A waiting program redraws: that output is the reply.
        task.live.report(|state| {
            state.forget_answered();
            state.queued_sizes += 1;
        });
        let sent = self.command_input(task, WorkerRequest::Resize(size));
        if sent.is_err() {
            task.live.state().queued_sizes -= 1;
        }
        sent
    }

    fn command_input(&self, task: &TaskHandle, command: WorkerRequest) -> Result<(), InputError> {
        task.requests.send(command).map_err(|error| match error {
            SendError::Ended => InputError::Ended(task.id().to_owned()),
            SendError::Busy => InputError::Busy { id: task.id().to_owned(), waiting: MAX_REQUESTS },
        })
    }

    /// Checks that the task has a terminal and has not ended. A failure is final.
    ///
    /// # Errors
    /// The task has no terminal, or has ended.
    pub fn check_secret_goes_to(&self, task: &TaskHandle) -> Result<(), SecretError> {
        let id = || task.id().to_owned();
        if task.live.facts.input != Input::Terminal {
            return Err(SecretError::NoTerminal(id()));
        }
        match task.live.state().ended {
            Some(_) => Err(InputError::Ended(id()).into()),
            None => Ok(()),
        }
    }

    /// Types a secret into a task's terminal, if only these programs read it, followed by Enter if
    /// requested, and waits for the result.
    ///
    /// # Errors
    /// It was not typed, or not completely.
    pub fn send_secret(
        &self,
        task: &TaskHandle,
        name: &str,
        (secret, programs): (Secret, AllowedPrograms),
        enter: bool,
    ) -> Result<(), SecretError> {
        self.check_secret_goes_to(task)?;
        let (id, name) = (task.id().to_owned(), name.to_owned());
        let (answer, answered) = bounded(1);
        let input = SecretInput { name: name.clone(), secret, programs, enter, answer };
        self.command_input(task, WorkerRequest::Secret(input))?;
        match answered.recv_timeout(PATIENCE) {
            Ok(typed) => typed,
            Err(RecvTimeoutError::Timeout) => Err(SecretError::Late { name, id }),
            Err(RecvTimeoutError::Disconnected) => Err(InputError::Ended(id).into()),
        }
    }

    /// Kills all tasks, their leftovers and any other process that this server has adopted, within
    /// about a second.
    pub fn shut_down(&self) {
        let listed = {
            let registry = self.registry.lock();
            registry.ending.store(true, Ordering::SeqCst);
            registry.order.clone()
        };
        self.events.notify();
        // The workers first: one whose shell dies by the sweep's signal must know that the server
        // sent it, also if its task is not listed yet.
        for task in &listed {
            let _ = task.requests.send(WorkerRequest::Shutdown);
        }
        let sweep = survivors::Sweep::begin(&self.settings.daemons);
        let deadline = Instant::now() + SHUTDOWN_LIMIT;
        let tasks = self.listed_once_started(deadline);
        for task in &tasks {
            task.live.await_state(deadline, |state| state.closed);
        }
        sweep.finish();
        report_unended_tasks(&tasks);
        let workers = std::mem::take(&mut *self.workers.lock());
        for (id, worker) in workers {
            // The worker of a task that is not closed waits for a process that hangs in the kernel.
            let closed = tasks.iter().any(|task| task.id() == id && task.live.state().closed);
            if closed || worker.is_finished() {
                let _ = worker.join();
            }
        }
    }

    /// All tasks, once none is being started any more.
    fn listed_once_started(&self, deadline: Instant) -> Vec<Arc<TaskHandle>> {
        let mut registry = self.registry.lock();
        while registry.has_starts() && Instant::now() < deadline {
            registry = self.registry.wait(registry, Some(deadline));
        }
        registry.order.clone()
    }

    /// Removes this server's directory: the last act of a process whose tasks no other process
    /// needs.
    pub fn remove_server_dir(&self) {
        if let Some(Ok(directory)) = self.directory.get() {
            directory.remove();
        }
    }

    /// Leaves this server's directory to later servers, which answer for its tasks: the last act of
    /// a server. Removes it if there are no tasks or nothing is to be kept. The tasks' files
    /// remain, since removing them would take longer than clients wait.
    pub fn leave_server_dir(&self) {
        let Some(Ok(directory)) = self.directory.get() else {
            return;
        };
        if self.registry.lock().order.is_empty() || self.settings.retention.is_zero() {
            directory.remove();
            return;
        }
        let _ = std::fs::remove_file(directory.path.join(CONTROL_SOCKET));
        let end = ServerEnd {
            at: self.clock.now().unix_seconds(),
            cause: EndCause::CleanExit,
            exits: Vec::new(),
            bytes: self.budget.used(StorageKind::Disk),
        };
        end.write(&directory.path);
    }
}

/// Writes the file of a task that must be listed before its command starts, so that it is listed
/// whenever this process may be killed. That of another detached task is written while its shell
/// starts: creating a file can take as long as that.
///
/// # Errors
/// It cannot be written.
fn announce(task: &LiveTask, journal: &mut Journal) -> Result<(), StartError> {
    match &task.facts.detached {
        Some(detached) if detached.must_be_listed => journal.announce(task),
        _ => Ok(()),
    }
}

/// Starts a task's shell, reports it, and works for it until the end. The thread that starts the child
/// is the one that waits for it.
fn run_task(
    mut task: LiveTask,
    launch: Launch,
    mut setup: Setup,
    report: impl FnOnce(Result<Arc<LiveTask>, StartError>),
) {
    let spawned = announce(&task, &mut setup.journal).and_then(|()| {
        launch.spawn().map_err(|error| sandboxes::start_error(error, task.facts.sandbox.as_deref()))
    });
    let spawned = match spawned {
        Ok(spawned) => spawned,
        Err(error) => {
            setup.journal.withdraw();
            // Before the failure is reported: the script to remove holds the command's text.
            drop(setup);
            report(Err(error));
            return;
        }
    };
    Arc::make_mut(&mut task.facts).shell = spawned.id;
    let task = Arc::new(task);
    if task.facts.detached.is_some() {
        // Other processes must know the shell even if this one dies right after its answer.
        setup.journal.write(&task);
    }
    report(Ok(Arc::clone(&task)));
    Worker::new(task, spawned, setup).run();
}

/// Reports the end of each task that has not ended in time, unless its worker is doing so.
fn report_unended_tasks(tasks: &[Arc<TaskHandle>]) {
    let deadline = Instant::now() + END_REPORT_PATIENCE;
    for task in tasks {
        let ended = task.live.state().ended.is_some();
        if !ended && !task.completion.report_overdue_end(&task.live, &task.spools) {
            task.live.await_state(deadline, |state| state.ended.is_some());
        }
    }
}
