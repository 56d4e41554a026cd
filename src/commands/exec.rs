//! `zsh-tool exec`: runs one command under the same supervision as the server's tasks. It streams
//! stdout and stderr to its own, prints a status line on stderr, and exits with the command's exit
//! code.
//!
//! The main thread waits for events and ends processes. Other threads copy output and input and
//! handle signals, so that a second Ctrl-C works even if stdout is blocked or the command does not
//! end.
//!
//! The command enters the history like a server's tasks, and is refused if it has timed out
//! repeatedly.
//!
//! Exit codes: the command's; 124 after a timeout; 125 when it is refused; 128 + N after
//! signal N; 141 when the reader of stdout is gone; 126 or 127 when no shell could be
//! started.

mod input;
mod report;
mod stream;

use std::io;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use clap::ValueEnum;
use crossbeam_channel::{Receiver, at, bounded, never, select};
use parking_lot::Mutex;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGWINCH};

use super::output::{self, EXIT_USAGE, OutputError};
use super::signals::{self, EXIT_SIGNALLED, StopRequest};
use super::{on_host, sandbox, shared};
use crate::base::cancel::Cancel;
use crate::cli::ExecArguments;
use crate::config::Config;
use crate::history::recorder::Recorder;
use crate::process::descriptors;
use crate::process::pty::{self, RawTerminal, TerminalSize};
use crate::process::signals::Signal;
use crate::process::spawn::SpawnError;
use crate::process::survivors;
use crate::progress::wait::ProcessName;
use crate::sandbox::policy::{self, Policy, Tightening};
use crate::shell::command_line::CommandLine;
use crate::shell::mode::ShellName;
use crate::shell::outcome::Outcome;
use crate::task::live::WaitStep;
use crate::task::registry::TaskHandle;
use crate::task::request::{AtTimeout, Request, StartError, Stderr, Stdin};
use crate::task::state::{KILL_GRACE, KillRequest};
use crate::task::supervisor::Supervisor;

use input::InputOrigin;
use stream::Copied;

/// As `timeout(1)`.
const EXIT_TIMEOUT: u8 = 124;
/// As `timeout(1)` when it does not run the command.
const EXIT_REFUSED: u8 = 125;
/// As a shell for a command that cannot be run.
const EXIT_CANNOT_RUN: u8 = 126;
/// As a shell for a command that is not found.
const EXIT_NOT_FOUND: u8 = 127;
/// How long to wait, after a signal, for a reader of stdout that does not read.
const FLUSH: Duration = Duration::from_secs(1);

/// Runs the command.
pub(crate) fn run(arguments: &ExecArguments) -> ExitCode {
    descriptors::seal_inherited();
    if let Some(host) = &arguments.host {
        let (config, _) = shared::load_config();
        let policy =
            match sandbox(arguments, &sandbox::settings(&config, &shared::project_directory())) {
                Ok(policy) => policy,
                Err(error) => {
                    output::complain(error);
                    return ExitCode::from(EXIT_REFUSED);
                }
            };
        return on_host::run(host, &remote_words(arguments, &policy));
    }
    let (config, _) = shared::start();
    shared::adopt_orphans();
    let supervisor = shared::supervisor(&config);
    let recorder = shared::recorder(&config, &supervisor.settings.redactor);
    let code = start(arguments, &config, &supervisor, &recorder);
    supervisor.shut_down();
    recorder.close();
    supervisor.remove_server_dir();
    ExitCode::from(code)
}

/// The arguments that run the same command on a host until the connection ends.
fn remote_words(arguments: &ExecArguments, policy: &Policy) -> Vec<String> {
    let mut words = vec!["exec".to_owned(), "--tied".to_owned()];
    if let Some(timeout) = arguments.timeout {
        words.extend(["--timeout".to_owned(), timeout.as_secs_f64().to_string()]);
    }
    if let Some(directory) = &arguments.cwd {
        words.extend(["--cwd".to_owned(), directory.to_string_lossy().into_owned()]);
    }
    if let Some(shell) = &arguments.shell {
        words.extend(["--shell".to_owned(), shell.clone()]);
    }
    if !policy.is_off() {
        words.extend(["--sandbox".to_owned(), policy.to_string()]);
    }
    if arguments.json {
        words.push("--json".to_owned());
    }
    if arguments.stderr.is_some() {
        words.extend(["--stderr".to_owned(), "separate".to_owned()]);
    }
    words.push("--".to_owned());
    words.push(arguments.command.join(" "));
    words
}

fn start(
    arguments: &ExecArguments,
    config: &Config,
    supervisor: &Arc<Supervisor>,
    recorder: &Recorder,
) -> u8 {
    let terminal = HeldTerminal::default();
    let _restored = Restore(&terminal);
    let (signalled, signals) = bounded(1);
    let disconnected = signalled.clone();
    let (resized, resizes) = bounded(1);
    let (held, daemons) = (Arc::clone(&terminal), config.daemons.clone());
    // Each channel has room for one message: further ones would add nothing.
    let handled = signals::handle(None, &[SIGWINCH], move |request| match request {
        StopRequest::Other(_) => {
            let _ = resized.try_send(());
        }
        StopRequest::End(number) => {
            let _ = signalled.try_send(number);
        }
        StopRequest::EndAtOnce(number) => {
            survivors::kill_all(&daemons);
            held.lock().take();
            std::process::exit(EXIT_SIGNALLED + number);
        }
    });
    if let Err(error) = handled {
        output::complain(format_args!("cannot handle signals: {error}"));
        return EXIT_CANNOT_RUN;
    }
    shared::start_housekeeping(supervisor, || {});

    let source = InputOrigin::from_stdin(arguments.pty);
    let is_raw = source == InputOrigin::Terminal && !arguments.json;
    let sandbox = match sandbox(arguments, &supervisor.settings.sandbox) {
        Ok(sandbox) => sandbox,
        Err(error) => {
            output::complain(error);
            return EXIT_REFUSED;
        }
    };
    let memory_max = config.memory_max;
    let request = Request { memory_max, sandbox, ..request(arguments, source, is_raw) };
    let run_record = match recorder.begin(
        &request.command,
        request.timeout,
        arguments.pty,
        supervisor.dialect(request.shell),
    ) {
        Ok(run_record) => run_record,
        Err(refused) => {
            output::complain(refused);
            output::say_on_stderr("zsh-tool: a longer --timeout, or none, lets it run");
            return EXIT_REFUSED;
        }
    };
    let task = match supervisor.start(request, Some(run_record.on_end())) {
        Ok(task) => task,
        Err(error) => {
            run_record.abandon();
            output::complain(&error);
            return exit_code_of(&error);
        }
    };
    if is_raw {
        match RawTerminal::enter() {
            Ok(raw) => *terminal.lock() = Some(raw),
            Err(error) => output::complain(format_args!("cannot pass keys through: {error}")),
        }
    }
    let cancel_copying = Arc::new(Cancel::default());
    // The JSON object is written at the end, from the spool.
    let copied = stream::start(Arc::clone(&task), !arguments.json, Arc::clone(&cancel_copying));
    let (copies, written) = match copied {
        Ok(copying) => copying,
        Err(error) => {
            output::complain(format_args!("cannot copy the output: {error}"));
            return EXIT_CANNOT_RUN;
        }
    };
    if is_raw || source == InputOrigin::Stream {
        input::start(Arc::clone(supervisor), Arc::clone(&task));
    }
    if arguments.tied
        && let Err(error) = stream::watch_reader(move || {
            let _ = disconnected.try_send(SIGHUP);
        })
    {
        output::complain(format_args!("cannot watch for the end of the connection: {error}"));
    }
    // Looked up while the command runs, so that its end does not wait for the database.
    run_record.history();
    let mut run = Run {
        supervisor,
        task: &task,
        cancel_copying,
        written,
        interrupted: None,
        leftovers: Vec::new(),
        give_up: None,
    };
    let copied = run.supervise(&signals, &resizes, &copies);
    terminal.lock().take();
    run.conclude(copied, arguments, config)
}

/// The terminal while it is in raw mode; dropping the content restores it.
type HeldTerminal = Arc<Mutex<Option<RawTerminal>>>;

/// Restores the terminal on every exit from the function, including a panic.
struct Restore<'a>(&'a HeldTerminal);

impl Drop for Restore<'_> {
    fn drop(&mut self) {
        self.0.lock().take();
    }
}

fn request(arguments: &ExecArguments, source: InputOrigin, is_raw: bool) -> Request {
    let terminal = arguments.pty.then(|| own_size().unwrap_or_default());
    // In raw mode the person's own terminal draws the output.
    let environment = std::env::var("TERM").ok().filter(|_| is_raw);
    Request {
        command: CommandLine::parse(arguments.command.join(" ")),
        shell: arguments.shell.as_deref().and_then(|name| ShellName::from_str(name, false).ok()),
        description: None,
        id: None,
        part_of: None,
        detached: None,
        session: None,
        directory: Some(match &arguments.cwd {
            Some(directory) => shared::own_directory().join(directory),
            None => shared::own_directory(),
        }),
        environment: environment.map(|term| ("TERM".to_owned(), term)).into_iter().collect(),
        start: None,
        stdin: match source {
            InputOrigin::Stream => Stdin::Open,
            InputOrigin::Terminal | InputOrigin::Nothing => Stdin::Null,
        },
        stderr: if terminal.is_none() && keeps_errors_apart(arguments) {
            Stderr::Separate
        } else {
            Stderr::Merged
        },
        terminal,
        emulated: !is_raw,
        timeout: arguments.timeout.filter(|timeout| !timeout.is_zero()),
        at_timeout: AtTimeout::Kill,
        memory_max: None,
        sandbox: Policy::off(),
    }
}

/// The user's sandbox, as tight as the command line asks for.
///
/// # Errors
/// Says why there is none.
fn sandbox(
    arguments: &ExecArguments,
    settings: &Result<policy::Settings, String>,
) -> Result<Policy, String> {
    let asked = arguments.sandbox.as_deref().map(Tightening::parse).transpose();
    let asked = asked.map_err(|error| error.to_string())?;
    let settings = settings.as_ref();
    let settings =
        settings.map_err(|fault| StartError::SandboxSettings(fault.clone()).to_string())?;
    settings.tightened(asked).map_err(|error| error.to_string())
}

/// Whether stderr is apart from the output. Where both go to the same file their order counts.
fn keeps_errors_apart(arguments: &ExecArguments) -> bool {
    let is_asked_for = arguments.stderr.is_some();
    is_asked_for || !arguments.json && !descriptors::are_same_file(&io::stdout(), &io::stderr())
}

/// The size of this process's terminal.
fn own_size() -> Option<TerminalSize> {
    pty::size_of(io::stdin()).or_else(|| pty::size_of(io::stdout()))
}

fn exit_code_of(error: &StartError) -> u8 {
    match error {
        StartError::Empty
        | StartError::Nul(_)
        | StartError::Environment(_)
        | StartError::TooLong { .. } => EXIT_USAGE,
        StartError::NoShell(_) | StartError::Spawn(SpawnError::MissingProgram(_)) => EXIT_NOT_FOUND,
        StartError::Sandbox(_)
        | StartError::SandboxPlace(_)
        | StartError::SandboxProgram { .. }
        | StartError::SandboxSettings(_)
        | StartError::NoSandbox(_) => EXIT_REFUSED,
        StartError::Full { .. }
        | StartError::Ending
        | StartError::NoSession
        | StartError::Script { .. }
        | StartError::StartupFile { .. }
        | StartError::Spawn(_)
        | StartError::Unlisted(_)
        | StartError::Worker(_) => EXIT_CANNOT_RUN,
    }
}

/// A running command.
struct Run<'a> {
    supervisor: &'a Supervisor,
    task: &'a Arc<TaskHandle>,
    /// Bytes copied so far.
    written: Arc<AtomicU64>,
    /// Cancels the copying when waiting longer is useless.
    cancel_copying: Arc<Cancel>,
    /// The signal that ended the command.
    interrupted: Option<i32>,
    /// Processes that outlived the shell.
    leftovers: Vec<ProcessName>,
    /// When to stop waiting for the copying, and its progress when that was decided.
    give_up: Option<(Instant, CopyProgress)>,
}

/// The progress of copying: bytes written, and whether the task is closed.
type CopyProgress = (u64, bool);

impl Run<'_> {
    /// Waits until all output is copied, and handles signals and resizes.
    fn supervise(
        &mut self,
        signals: &Receiver<i32>,
        resizes: &Receiver<()>,
        copies: &Receiver<Copied>,
    ) -> Result<(), OutputError> {
        loop {
            let expiry = self.give_up.map_or_else(never, |(expiry, _)| at(expiry));
            select! {
                recv(resizes) -> _ => self.resize(),
                recv(expiry) -> _ => {
                    let before = self.give_up.map(|(_, copying)| copying);
                    if before == Some(self.limit_copying()) {
                        return Ok(());
                    }
                }
                recv(signals) -> number => match number {
                    Ok(number) => self.interrupt(number),
                    // Unreachable: the signal thread never ends.
                    Err(_) => return Ok(()),
                },
                recv(copies) -> copied => match copied {
                    Ok(Copied::UpToExit) => self.end_leftovers(),
                    Ok(Copied::All(copied)) => return copied,
                    // The copying thread has panicked, which was printed.
                    Err(_) => return Ok(()),
                },
            }
        }
    }

    fn resize(&self) {
        if let Some(size) = own_size() {
            // A task without a terminal has nothing to resize.
            let _ = self.supervisor.resize(self.task, size);
        }
    }

    /// First passes on the signal, as a terminal would, so that programs can clean up on Ctrl-C.
    /// Processes that have not ended after the grace period are killed.
    fn interrupt(&mut self, number: i32) {
        self.interrupted = Some(number);
        if number != SIGTERM
            && let Some(signal) = to_pass_on(number)
        {
            // If the signal was not delivered, `end_tree` below kills the processes.
            let _ = self.supervisor.kill(self.task, KillRequest::Only(signal));
            self.task.live.wait_for(
                Some(Instant::now() + KILL_GRACE),
                &Cancel::default(),
                |state| match state.ended {
                    Some(_) => WaitStep::Found(()),
                    None => WaitStep::WaitUntil(None),
                },
                Instant::now,
            );
        }
        self.end_tree();
        self.limit_copying();
    }

    /// Restarts the time limit of the copying, and returns the progress so far.
    fn limit_copying(&mut self) -> CopyProgress {
        let written = self.written.load(Ordering::Relaxed);
        let copying = (written, self.task.live.state().closed);
        self.give_up = Some((Instant::now() + FLUSH, copying));
        copying
    }

    fn end_leftovers(&mut self) {
        let (left, closed) = {
            let state = self.task.live.state();
            (state.leftovers.clone(), state.closed)
        };
        if self.interrupted.is_none() {
            self.leftovers = left;
        }
        if !closed {
            self.end_tree();
        }
    }

    fn end_tree(&self) {
        let receipt = self.supervisor.kill(self.task, KillRequest::Escalate);
        // A survivor may hold the output open forever.
        if receipt.map_or(true, |receipt| !receipt.survivors.is_empty()) {
            self.cancel_copying.cancel();
        }
    }

    /// Reports how the command ended; returns the exit code.
    fn conclude(
        &self,
        copied: Result<(), OutputError>,
        arguments: &ExecArguments,
        config: &Config,
    ) -> u8 {
        if let Err(error) = copied {
            return error.report();
        }
        let code = self.exit_code();
        if !arguments.json {
            report::status(self.task, &self.leftovers, config);
            return code;
        }
        match report::json(self.task, &self.leftovers, arguments.stderr.is_some(), config) {
            Ok(()) => code,
            Err(error) => error.report(),
        }
    }

    fn exit_code(&self) -> u8 {
        let code = match (self.interrupted, &self.task.live.state().ended) {
            (Some(number), _) => EXIT_SIGNALLED + number,
            (None, Some(end)) if end.outcome == Outcome::Timeout => return EXIT_TIMEOUT,
            (None, Some(end)) => end.exit.code(),
            (None, None) => return EXIT_CANNOT_RUN,
        };
        u8::try_from(code).unwrap_or(u8::MAX)
    }
}

/// The signal with this number, if a terminal can send it.
pub(crate) fn to_pass_on(number: i32) -> Option<Signal> {
    match number {
        SIGINT => Some(Signal::Int),
        SIGHUP => Some(Signal::Hup),
        SIGQUIT => Some(Signal::Quit),
        _ => None,
    }
}
