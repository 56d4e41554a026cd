//! The listed hosts and the connections to them. Each host has one carrier process, started by the
//! first call that needs it and shared by all calls.
//!
//! A lost connection is renewed only when the next call needs it. Messages sent over a lost
//! connection are never sent again.

use std::collections::{BTreeMap, HashSet};
use std::ffi::OsString;
use std::io::{self, Cursor, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use crossbeam_channel::{Receiver, Sender, after, bounded, select};
use parking_lot::{Condvar, Mutex};
use serde_json::json;

use super::END;
pub(crate) use super::bootstrap::Purpose;
use super::bootstrap::{self, FarSystem, NO_PROGRAM, Report};
use super::link::Link;
use super::payload::Payload;
use crate::config::{HostEntry, HostList, UnknownHost};
use crate::process::capture::Running;
use crate::process::descriptors::{self, BlockingFile, Interest, Poller, Transfer, Waker};
use crate::process::files;
use crate::process::spawn::{Launch, StderrTarget, Wiring};
use crate::protocol::framing::MAX_FRAME_BYTES;
use crate::protocol::transport::Transport;
use crate::task::supervisor::Supervisor;
use crate::text::foreign;
use crate::text::terminal_filter::TerminalFilter;

/// How long a host may take for its first report.
const ANSWER_LIMIT: Duration = Duration::from_secs(10);
/// Clocks that differ by at most this many seconds count as equal.
const CLOCK_PRECISION: u64 = 2;
/// How long a host may take to check the program that was sent, and to receive the end of it.
const INSTALL_LIMIT: Duration = Duration::from_secs(120);
/// Attempts to connect begin at least this far apart.
const ATTEMPT_EVERY: Duration = Duration::from_secs(1);
/// How often a host is pinged.
const PING_EVERY: Duration = Duration::from_secs(5);
/// After this many unanswered pings a host is lost. Connections to a suspended machine look open.
const MAX_UNANSWERED_PINGS: u32 = 3;
/// How long a host may be silent.
pub(crate) const SILENCE_LIMIT: Duration =
    Duration::from_secs(MAX_UNANSWERED_PINGS as u64 * PING_EVERY.as_secs());
/// How long the far side may take to read the request to end before its carrier is killed. Even
/// then the far side ends its tasks.
const END_LIMIT: Duration = Duration::from_secs(1);
/// How long to wait for the end of the carrier's stderr.
const FINAL_READ_LIMIT: Duration = Duration::from_millis(300);
/// How much of the carrier's stderr is kept.
const KEPT_ERRORS: usize = 2_000;
/// How many last lines of stderr appear in an error.
const REASON_LINES: usize = 3;
/// How many bytes may precede a report in its line.
const LONGEST_LINE: usize = 64 * 1024;
/// The reason when this process ends.
const SERVER_ENDING: &str = "this server is shutting down";
/// The reason when the carrier or the far side has ended.
const CONNECTION_CLOSED: &str = "the connection was closed";
const STACK: usize = 256 * 1024;
/// Bytes of a command's output that are read at once.
const CHUNK: usize = 64 * 1024;
/// How long the carrier may take to end after its output has.
const EXIT_LIMIT: Duration = Duration::from_secs(10);
/// The exit code if the carrier does not end; the same as ssh's for a lost connection.
const EXIT_LOST: i32 = 255;

/// How much of what a host or its carrier says an error repeats, in characters.
const REASON_CHARS: usize = 1_000;

/// Why a host cannot be used.
#[derive(Debug, Clone, thiserror::Error)]
#[error("host {host} cannot be reached: {}", foreign::composed(.reason))]
pub(crate) struct HostError {
    pub(crate) host: String,
    /// Texts of others in it are shown as such.
    pub(crate) reason: String,
}

/// All listed hosts.
#[derive(Debug)]
pub(crate) struct Hosts {
    list: HostList,
    by_name: BTreeMap<String, Arc<Host>>,
}

/// A host, and the connection to it.
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) entry: HostEntry,
    context: HostContext,
    connection: Mutex<Connection>,
    changed: Condvar,
    /// The ids of tasks on the host.
    task_ids: Mutex<HashSet<String>>,
}

/// The context of all carriers.
#[derive(Debug, Clone)]
pub(crate) struct HostContext {
    pub(crate) purpose: Purpose,
    pub(crate) environment: Vec<(OsString, OsString)>,
    pub(crate) daemons: Arc<[String]>,
}

#[derive(Debug, Default)]
struct Connection {
    state: State,
    /// The number of attempts to connect, and the time of the last.
    attempts: u64,
    last_attempt: Option<Instant>,
    /// Why the last attempt failed, or why the connection was lost.
    reason: Option<String>,
    /// Whether this process is ending.
    closed: bool,
    /// Dropping it ends the connection or the attempt.
    stop: Option<(Sender<()>, Waker)>,
    thread: Option<std::thread::JoinHandle<()>>,
}

#[derive(Debug, Default)]
enum State {
    #[default]
    Idle,
    Connecting,
    Connected {
        link: Arc<Link>,
        /// The host's system, version and clock, for people to read.
        found: String,
    },
    /// The connection is over, but its carrier has not ended yet.
    Ending,
}

impl Hosts {
    pub(crate) fn new(list: HostList, context: &HostContext) -> Hosts {
        let host = |entry: &HostEntry| {
            let host = Host {
                entry: entry.clone(),
                context: context.clone(),
                connection: Mutex::default(),
                changed: Condvar::new(),
                task_ids: Mutex::default(),
            };
            (entry.name.clone(), Arc::new(host))
        };
        Hosts { by_name: list.iter().map(host).collect(), list }
    }

    /// Those of the configuration, for the server that owns these tasks.
    pub(crate) fn for_server(list: HostList, supervisor: &Supervisor) -> Hosts {
        let settings = &supervisor.settings;
        let context = HostContext {
            purpose: Purpose::Server(supervisor.instance.clone()),
            environment: settings.environment.inherited.to_vec(),
            daemons: Arc::clone(&settings.daemons),
        };
        Hosts::new(list, &context)
    }

    /// Looks a host up by its name.
    ///
    /// # Errors
    /// When the host is not listed.
    pub(crate) fn find(&self, name: &str) -> Result<&Arc<Host>, UnknownHost> {
        self.by_name.get(name).map_or_else(|| Err(self.list.unknown(name)), Ok)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Host>> {
        self.by_name.values()
    }

    /// Ends all connections, and with them the tasks on the hosts.
    pub(crate) fn end(&self) {
        let threads: Vec<_> = self.iter().filter_map(|host| host.close()).collect();
        for thread in threads {
            if thread.join().is_err() {
                tracing::error!("the thread of a host panicked");
            }
        }
    }
}

impl Host {
    /// Returns the connection, and connects if necessary. Calls that arrive during an attempt share
    /// its result.
    ///
    /// # Errors
    /// When the attempt fails.
    pub(crate) fn link(self: &Arc<Self>) -> Result<Arc<Link>, HostError> {
        let mut connection = self.connection.lock();
        let mut awaited = None;
        loop {
            if connection.closed {
                return Err(self.error(SERVER_ENDING));
            }
            match &connection.state {
                State::Connected { link, .. } => return Ok(Arc::clone(link)),
                State::Connecting => {
                    awaited = Some(connection.attempts);
                    self.changed.wait(&mut connection);
                }
                State::Ending => self.changed.wait(&mut connection),
                State::Idle if awaited == Some(connection.attempts) => {
                    let reason = connection.reason.as_deref().unwrap_or("the connection was lost");
                    return Err(self.error(reason));
                }
                State::Idle => {
                    let earliest = connection.last_attempt.map(|last| last + ATTEMPT_EVERY);
                    if let Some(earliest) = earliest.filter(|at| *at > Instant::now()) {
                        self.changed.wait_until(&mut connection, earliest);
                        continue;
                    }
                    self.start_attempt(&mut connection)?;
                }
            }
        }
    }

    /// Runs the command of the context's purpose on the host, and passes on its input, if any, its
    /// output and its errors. Returns its exit code as the carrier reports it; `None` if `wakes`
    /// became readable first.
    ///
    /// # Errors
    /// When the command cannot be started, or its output cannot be passed on.
    pub(crate) fn run_command<E: From<HostError>>(
        &self,
        input: Option<impl Read + Send + 'static>,
        mut output: impl FnMut(&[u8]) -> Result<(), E>,
        errors: impl Write + Send + 'static,
        wakes: &OwnedFd,
    ) -> Result<Option<i32>, E> {
        let mut carrier =
            Carrier::start(&self.entry, &self.context).map_err(|reason| self.error(reason))?;
        if let Err(reason) = carrier.bootstrap(&self.entry, &self.context.purpose, wakes) {
            let interrupted = reason == SERVER_ENDING;
            let reason = carrier.end(reason);
            return if interrupted { Ok(None) } else { Err(self.error(reason).into()) };
        }
        *carrier.errors.pass_on.lock() = Some(Box::new(errors));
        let given = carrier.input.take();
        if let (Some(mut input), Some(given)) = (input, given) {
            // The thread may stay blocked in its read until the process exits.
            let copy = move || io::copy(&mut input, &mut BlockingFile::new(given));
            let thread = std::thread::Builder::new().name("input".to_owned()).spawn(copy);
            if let Err(error) = thread {
                let reason = format!("no thread can be started: {error}");
                return Err(self.error(carrier.end(reason)).into());
            }
        }
        let passed = carrier.pass_on(&mut output, wakes);
        if matches!(passed, Ok(true)) {
            carrier.running.await_end(EXIT_LIMIT);
        }
        let exit = carrier.running.spawned.child.peek_exit();
        carrier.end(String::new());
        if passed? { Ok(Some(exit.map_or(EXIT_LOST, |exit| exit.code()))) } else { Ok(None) }
    }

    /// The connection, if there is one.
    pub(crate) fn connected(&self) -> Option<Arc<Link>> {
        match &self.connection.lock().state {
            State::Connected { link, .. } => Some(Arc::clone(link)),
            _ => None,
        }
    }

    /// How the connection is, for people to read.
    pub(crate) fn status(&self) -> String {
        let connection = self.connection.lock();
        match (&connection.state, &connection.reason) {
            (State::Connected { found, .. }, _) => format!("connected, {found}"),
            (State::Connecting, _) => "connecting".to_owned(),
            (State::Ending, _) => "not connected: the connection was lost".to_owned(),
            (State::Idle, Some(reason)) => format!("not connected: {reason}"),
            (State::Idle, None) => "not connected yet".to_owned(),
        }
    }

    /// Why the connection was lost or could not be made.
    fn reason(&self) -> String {
        self.connection.lock().reason.clone().unwrap_or_else(|| CONNECTION_CLOSED.to_owned())
    }

    /// Why the connection was lost. Waits for the end of the carrier, whose last messages are part
    /// of the reason.
    pub(crate) fn final_reason(&self) -> String {
        let deadline = Instant::now() + END_LIMIT;
        let mut connection = self.connection.lock();
        while !matches!(connection.state, State::Idle)
            && !self.changed.wait_until(&mut connection, deadline).timed_out()
        {}
        drop(connection);
        self.reason()
    }

    /// Notes the id of a task on this host.
    pub(crate) fn note(&self, task: &str) {
        self.task_ids.lock().insert(task.to_owned());
    }

    /// Whether a task on this host has this id.
    pub(crate) fn knows(&self, task: &str) -> bool {
        self.task_ids.lock().contains(task)
    }

    fn error(&self, reason: impl Into<String>) -> HostError {
        HostError { host: self.entry.name.clone(), reason: reason.into() }
    }

    fn start_attempt(self: &Arc<Self>, connection: &mut Connection) -> Result<(), HostError> {
        let (stop, stopped) = bounded(0);
        let cannot =
            |error: io::Error| self.error(format!("no connection can be started: {error}"));
        let (waker, wakes) = Waker::new().map_err(cannot)?;
        let host = Arc::clone(self);
        let thread = std::thread::Builder::new()
            .name("host".to_owned())
            .stack_size(STACK)
            .spawn(move || host.run(&stopped, &wakes))
            .map_err(cannot)?;
        connection.state = State::Connecting;
        connection.attempts += 1;
        connection.last_attempt = Some(Instant::now());
        connection.stop = Some((stop, waker));
        // The thread of an earlier attempt is about to return, so it need not be joined.
        connection.thread = Some(thread);
        Ok(())
    }

    /// Connects, and holds the connection until it is lost or stopped.
    fn run(self: Arc<Self>, stopped: &Receiver<()>, wakes: &OwnedFd) {
        let begun = Instant::now();
        let reason = match Carrier::start(&self.entry, &self.context) {
            Ok(mut carrier) => {
                let reason = match carrier.bootstrap(&self.entry, &self.context.purpose, wakes) {
                    Ok(system) => {
                        let found = describe(&system, begun.elapsed(), SystemTime::now());
                        self.hold(&mut carrier, found, stopped)
                    }
                    Err(reason) => reason,
                };
                carrier.end(reason)
            }
            Err(error) => error,
        };
        tracing::info!("host {}: {reason}", self.entry.name);
        let mut connection = self.connection.lock();
        connection.state = State::Idle;
        connection.reason = Some(reason);
        drop(connection);
        self.changed.notify_all();
    }

    /// Holds the connection; returns why it ended.
    fn hold(&self, carrier: &mut Carrier, found: String, stopped: &Receiver<()>) -> String {
        let (send, receive) = bounded(1);
        let mut link: Option<Arc<Link>> = None;
        let started = carrier.transport(move |received| {
            if link.is_none() {
                link = receive.recv().ok();
            }
            if let Some(link) = &link {
                link.receive(received);
            }
        });
        let transport = match started {
            Ok(transport) => transport,
            Err(error) => return format!("the connection cannot be used: {error}"),
        };
        let link = Arc::new(Link::new(transport.outbound().clone()));
        let _ = send.send(Arc::clone(&link));
        let connected = State::Connected { link: Arc::clone(&link), found };
        let mut connection = self.connection.lock();
        connection.state = connected;
        connection.reason = None;
        drop(connection);
        self.changed.notify_all();
        let reason = loop {
            select! {
                recv(transport.ended()) -> _ => break CONNECTION_CLOSED.to_owned(),
                recv(stopped) -> _ => {
                    let _ = link.send(&json!({"jsonrpc": "2.0", "method": END}));
                    break SERVER_ENDING.to_owned();
                }
                recv(after(PING_EVERY)) -> _ => {
                    if !link.ping(MAX_UNANSWERED_PINGS) {
                        let limit = SILENCE_LIMIT.as_secs();
                        break format!("it has not answered for {limit} s");
                    }
                }
            }
        };
        let mut connection = self.connection.lock();
        connection.state = State::Ending;
        connection.reason = Some(reason.clone());
        drop(connection);
        link.close();
        let orderly = reason == SERVER_ENDING;
        transport.finish(if orderly { FINAL_READ_LIMIT } else { Duration::ZERO });
        if orderly {
            carrier.running.await_end(END_LIMIT);
        }
        reason
    }

    /// Starts an orderly end of the connection. Returns the thread that carries it out.
    fn close(&self) -> Option<std::thread::JoinHandle<()>> {
        let mut connection = self.connection.lock();
        connection.closed = true;
        connection.stop = None;
        let thread = connection.thread.take();
        drop(connection);
        self.changed.notify_all();
        thread
    }
}

/// The process that carries a connection.
struct Carrier {
    running: Running,
    input: Option<OwnedFd>,
    output: Option<OwnedFd>,
    /// Bytes that were read but not used.
    read: Vec<u8>,
    errors: Arc<CarrierErrors>,
    errors_ended: Receiver<()>,
}

impl Carrier {
    fn start(entry: &HostEntry, context: &HostContext) -> Result<Carrier, String> {
        let (program, arguments) = entry.carrier.split_first().ok_or("it has no carrier")?;
        let search_path = context.environment.iter().find(|(name, _)| name == "PATH");
        let search_path = search_path.map(|(_, path)| path.clone()).unwrap_or_default();
        let program = files::find_program(program, &search_path)
            .map_err(|_| format!("its carrier {program} is not found in PATH"))?;
        let launch = Launch {
            program,
            args: arguments.iter().map(OsString::from).chain(["sh".into()]).collect(),
            environment: context.environment.clone(),
            directory: PathBuf::from("/"),
            wiring: Wiring::PipeWithInput(StderrTarget::Separate),
            group: None,
            sandbox: None,
        };
        let mut running = Running::start(launch, Arc::clone(&context.daemons))
            .map_err(|error| error.to_string())?;
        let errors = Arc::<CarrierErrors>::default();
        let (ended, errors_ended) = bounded(0);
        if let Some(pipe) = running.spawned.stderr.take() {
            let kept = Arc::clone(&errors);
            let collect = move || {
                keep_last(BlockingFile::new(pipe), &kept);
                drop(ended);
            };
            let thread = std::thread::Builder::new().name("host-errors".to_owned());
            if let Err(error) = thread.stack_size(STACK).spawn(collect) {
                running.end_all();
                return Err(format!("no thread can be started: {error}"));
            }
        }
        let output = running.spawned.output.try_clone().map_err(|error| error.to_string());
        let output = output.inspect_err(|_| running.end_all())?;
        let input = running.spawned.input.take();
        let read = Vec::new();
        Ok(Carrier { running, input, output: Some(output), read, errors, errors_ended })
    }

    /// Starts the far side, and sends it the program if it needs one.
    fn bootstrap(
        &mut self,
        entry: &HostEntry,
        purpose: &Purpose,
        wakes: &OwnedFd,
    ) -> Result<FarSystem, String> {
        let limit = Limit::new(ANSWER_LIMIT);
        self.write(bootstrap::script(entry, purpose).as_bytes(), wakes)?;
        let system = match self.report(limit, wakes)? {
            Report::Ready(system) => return Ok(system),
            Report::Failed(reason) => return Err(said(&reason)),
            Report::Needed { system } => system,
        };
        let payload = Payload::for_system(&system)
            .map_err(|error| format!("the program to send cannot be read: {error}"))?;
        let Some(payload) = payload else {
            let _ = self.write(NO_PROGRAM.as_bytes(), wakes);
            return Err(format!(
                "there is no zsh-tool for {} here: install version {} there, in PATH or in \
                 binary_directory",
                bootstrap::shown_words(system.split(' ')),
                env!("CARGO_PKG_VERSION")
            ));
        };
        let line = bootstrap::announcement(payload.bytes.len(), &payload.hash);
        let sent =
            self.write(line.as_bytes(), wakes).and_then(|()| self.write(&payload.bytes, wakes));
        // If it was not read, the report says why.
        let limit = if sent.is_ok() { INSTALL_LIMIT } else { FINAL_READ_LIMIT };
        match (self.report(Limit::new(limit), wakes), sent) {
            (Ok(Report::Ready(system)), Ok(())) => Ok(system),
            (Ok(Report::Failed(reason)), _) => Err(said(&reason)),
            (Ok(_), _) => Err("it has not installed zsh-tool".to_owned()),
            (Err(reason), Ok(())) | (Err(_), Err(reason)) => Err(reason),
        }
    }

    fn report(&mut self, limit: Limit, wakes: &OwnedFd) -> Result<Report, String> {
        loop {
            while let Some(end) = self.read.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.read.drain(..=end).collect();
                if let Some(report) = Report::parse(&String::from_utf8_lossy(&line)) {
                    return Ok(report);
                }
            }
            if self.read.len() > LONGEST_LINE {
                self.read.clear();
            }
            let output = self.output.as_ref().ok_or("it has no output")?;
            // Also where there is always something to read.
            await_ready(output, Interest::Read, limit, wakes)?;
            let mut buffer = [0; 4096];
            match descriptors::read(output, &mut buffer) {
                Transfer::Bytes(count) => {
                    self.read.extend_from_slice(buffer.get(..count).unwrap_or_default());
                }
                Transfer::WouldBlock => {}
                Transfer::Closed => return Err(CONNECTION_CLOSED.to_owned()),
            }
        }
    }

    /// Fails when nothing has been read for long, however much there is to write.
    fn write(&self, mut bytes: &[u8], wakes: &OwnedFd) -> Result<(), String> {
        let input = self.input.as_ref().ok_or("it has no input")?;
        let mut limit = Limit::new(ANSWER_LIMIT);
        while !bytes.is_empty() {
            match descriptors::write(input, bytes) {
                Transfer::Bytes(count) => {
                    bytes = bytes.get(count..).unwrap_or_default();
                    limit = Limit::new(ANSWER_LIMIT);
                }
                Transfer::WouldBlock => await_ready(input, Interest::Write, limit, wakes)?,
                Transfer::Closed => return Err(CONNECTION_CLOSED.to_owned()),
            }
        }
        Ok(())
    }

    /// Passes on the output until its end; returns false if `wakes` became readable first.
    fn pass_on<E>(
        &mut self,
        output: &mut impl FnMut(&[u8]) -> Result<(), E>,
        wakes: &OwnedFd,
    ) -> Result<bool, E> {
        output(&std::mem::take(&mut self.read))?;
        let Some(pipe) = self.output.take() else { return Ok(true) };
        let mut buffer = vec![0; CHUNK];
        loop {
            match descriptors::read(&pipe, &mut buffer) {
                Transfer::Bytes(count) => output(buffer.get(..count).unwrap_or_default())?,
                Transfer::Closed => return Ok(true),
                Transfer::WouldBlock => {
                    let mut poller = Poller::default();
                    poller.watch(pipe.as_fd(), Interest::Read);
                    let woken = poller.watch(wakes.as_fd(), Interest::Read);
                    poller.wait(None);
                    if poller.ready(Some(woken)) {
                        return Ok(false);
                    }
                }
            }
        }
    }

    fn transport(
        &mut self,
        mut handler: impl FnMut(Result<Vec<u8>, crate::protocol::framing::FrameError>) + Send + 'static,
    ) -> io::Result<Transport> {
        let (Some(input), Some(output)) = (self.input.take(), self.output.take()) else {
            return Err(io::ErrorKind::BrokenPipe.into());
        };
        let read = Cursor::new(std::mem::take(&mut self.read)).chain(BlockingFile::new(output));
        Transport::start(
            Box::new(read),
            Box::new(BlockingFile::new(input)),
            MAX_FRAME_BYTES,
            move |_, received| handler(received),
        )
    }

    /// Ends the process, and adds its last messages to the reason.
    fn end(mut self, reason: String) -> String {
        self.input = None;
        let exit = self.running.spawned.child.peek_exit();
        self.running.end_all();
        let _ = self.errors_ended.recv_timeout(FINAL_READ_LIMIT);
        let errors = last_lines(&String::from_utf8_lossy(&self.errors.kept.lock()));
        let shown = foreign::shown_within(&errors, REASON_CHARS);
        match exit {
            _ if !errors.is_empty() => format!("{reason}: {shown}"),
            Some(exit) if reason == CONNECTION_CLOSED => {
                format!("{reason}, its carrier ended with exit code {}", exit.code())
            }
            _ => reason,
        }
    }
}

/// How long something may take.
#[derive(Debug, Clone, Copy)]
struct Limit {
    whole: Duration,
    deadline: Instant,
}

impl Limit {
    fn new(whole: Duration) -> Limit {
        Limit { whole, deadline: Instant::now() + whole }
    }
}

/// Waits until a descriptor is ready. `wakes` becomes readable when this process ends.
fn await_ready(
    fd: &OwnedFd,
    interest: Interest,
    limit: Limit,
    wakes: &OwnedFd,
) -> Result<(), String> {
    let rest = limit.deadline.saturating_duration_since(Instant::now());
    if rest.is_zero() {
        let did = if interest == Interest::Write { "read" } else { "answered" };
        return Err(format!("it has not {did} for {} s", limit.whole.as_secs()));
    }
    let mut poller = Poller::default();
    poller.watch(fd.as_fd(), interest);
    let woken = poller.watch(wakes.as_fd(), Interest::Read);
    poller.wait(Some(rest));
    if poller.ready(Some(woken)) { Err(SERVER_ENDING.to_owned()) } else { Ok(()) }
}

/// Describes a connected host for people; connecting took `took`.
pub(crate) fn describe(system: &FarSystem, took: Duration, now: SystemTime) -> String {
    let here = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
    let here = i64::try_from(here).unwrap_or(i64::MAX);
    let clock = match system.time.map(|there| there.saturating_sub(here)) {
        None => "clock unknown".to_owned(),
        // Whole seconds, and the time that the report took to arrive, allow no finer comparison.
        Some(ahead) if ahead.unsigned_abs() <= CLOCK_PRECISION => "clock as here".to_owned(),
        Some(ahead @ 1..) => format!("clock {ahead} s ahead"),
        Some(behind) => format!("clock {} s behind", behind.unsigned_abs()),
    };
    let waits = if system.shows_waits { "there" } else { "missing" };
    format!(
        "{}, zsh-tool {}, kernel evidence {waits}, {clock}, took {:.1} s",
        system.name,
        env!("CARGO_PKG_VERSION"),
        took.as_secs_f64()
    )
}

/// A carrier's stderr.
#[derive(Default)]
struct CarrierErrors {
    /// Its last bytes.
    kept: Mutex<Vec<u8>>,
    /// Once set, receives stderr instead.
    pass_on: Mutex<Option<Box<dyn Write + Send>>>,
}

fn keep_last(mut pipe: impl Read, errors: &CarrierErrors) {
    let mut buffer = [0; 1024];
    // What a host says, a person may see on a terminal.
    let mut filter = TerminalFilter::for_record();
    while let Ok(count @ 1..) = pipe.read(&mut buffer) {
        let read = buffer.get(..count).unwrap_or_default();
        if let Some(out) = &mut *errors.pass_on.lock() {
            // stderr is the last place for a message.
            let _ = out.write_all(&filter.pass(read));
            continue;
        }
        let mut kept = errors.kept.lock();
        kept.extend_from_slice(read);
        let surplus = kept.len().saturating_sub(KEPT_ERRORS);
        kept.drain(..surplus);
    }
}

/// What a host says of its failure.
fn said(reason: &str) -> String {
    foreign::shown_within(reason, REASON_CHARS).into_owned()
}

/// Joins the last lines of a text into one line.
pub(crate) fn last_lines(text: &str) -> String {
    let plain = |line: &str| line.chars().filter(|c| !c.is_control()).collect::<String>();
    let lines: Vec<String> =
        text.lines().map(|line| plain(line.trim())).filter(|line| !line.is_empty()).collect();
    let first = lines.len().saturating_sub(REASON_LINES);
    lines.get(first..).unwrap_or_default().join(" / ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_described_with_its_clock() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1000);
        let described = |time: Option<i64>| {
            let system = FarSystem { name: "Linux x86_64".to_owned(), time, shows_waits: false };
            describe(&system, Duration::from_millis(120), now)
        };
        let version = env!("CARGO_PKG_VERSION");
        for (time, clock) in [
            (Some(1002), "as here"),
            (Some(1003), "3 s ahead"),
            (Some(0), "1000 s behind"),
            (Some(i64::MIN), "9223372036854775808 s behind"),
            (None, "unknown"),
        ] {
            assert_eq!(
                described(time),
                format!(
                    "Linux x86_64, zsh-tool {version}, kernel evidence missing, clock {clock}, took 0.1 s"
                )
            );
        }
    }

    #[test]
    fn the_last_lines_are_a_reason() {
        assert_eq!(last_lines("a\n\nb\r\nc\nd\x1b[0m\n"), "b / c / d[0m");
        assert_eq!(last_lines(""), "");
    }
}
