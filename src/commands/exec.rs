//! `zsh-tool exec`: one command under the same supervision as the server's tasks. Its
//! output goes to stdout as it comes, a status line to stderr at the end, and its exit
//! code is this program's.
//!
//! The main thread waits for what happens and ends things; other threads copy output,
//! copy input and take signals, so that a reader that does not read or a command that
//! does not end keeps nobody from a second Ctrl-C.
//!
//! What the command does is remembered as that of the server's tasks, and one that has
//! timed out again and again is refused as there.
//!
//! Exit codes: the command's; 124 after the deadline; 125 when it is refused; 128 + N
//! after signal N; 141 when the reader of stdout is gone; 126 or 127 when no shell could
//! be started.

mod input;
mod report;
mod signals;
mod stream;

use std::io;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, at, bounded, never, select};
use signal_hook::consts::SIGTERM;

use super::output::{self, OutputError};
use super::setup;
use crate::cli::ExecArguments;
use crate::config::Config;
use crate::process::descriptors;
use crate::process::pty::{self, RawTerminal, TerminalSize};
use crate::process::spawn::SpawnError;
use crate::record::recorder::Recorder;
use crate::task::live::{Cancel, Leftover, Look};
use crate::task::registry::TaskHandle;
use crate::task::request::{Request, StartError, Stderr, Stdin};
use crate::task::state::{KILL_GRACE, KillOrder, Outcome};
use crate::task::supervisor::Supervisor;

use input::Source;
use signals::{HeldTerminal, Notices};
use stream::{Copied, Sink};

/// As `timeout(1)`.
const EXIT_TIMEOUT: u8 = 124;
/// As `timeout(1)` when it does not run the command at all.
const EXIT_REFUSED: u8 = 125;
/// As a shell for what cannot be run.
const EXIT_CANNOT_RUN: u8 = 126;
/// As a shell for what is not there.
const EXIT_NOT_FOUND: u8 = 127;
/// As clap for what is written wrongly.
const EXIT_USAGE: u8 = 2;
/// Added to the number of the signal that ended the run.
const EXIT_SIGNALLED: i32 = 128;
/// After a signal, a reader of stdout that does not read gets no more time than this.
const FLUSH: Duration = Duration::from_secs(1);

/// Runs the command.
pub fn run(arguments: &ExecArguments) -> ExitCode {
    if let Err(error) = descriptors::seal_inherited() {
        output::complain(format_args!("cannot open /dev/null: {error}"));
        return ExitCode::from(EXIT_CANNOT_RUN);
    }
    let (config, warnings) = setup::load_config();
    setup::start_log(&config);
    for warning in &warnings {
        tracing::warn!("{warning}");
    }
    setup::adopt_orphans();
    let supervisor = setup::supervisor(&config);
    let recorder = setup::recorder(&config, &supervisor.settings().redactor);
    let code = start(arguments, &config, &supervisor, &recorder);
    supervisor.shut_down();
    recorder.close();
    supervisor.remove_directory();
    ExitCode::from(code)
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
    let (resized, resizes) = bounded(1);
    let (wake, woken) = bounded(1);
    let notices = Notices {
        signalled,
        resized,
        wake,
    };
    let taken = signals::take(notices, Arc::clone(&terminal), config.daemons.clone());
    if let Err(error) = taken {
        output::complain(format_args!("cannot take signals: {error}"));
        return EXIT_CANNOT_RUN;
    }
    setup::start_housekeeping(supervisor, woken);

    let source = Source::of_stdin(arguments.pty);
    let is_raw = source == Source::Terminal && !arguments.json;
    let request = request(arguments, source, is_raw);
    let account = match recorder.begin(&request.command, request.timeout, arguments.pty) {
        Ok(account) => account,
        Err(refused) => {
            output::complain(refused);
            output::say("zsh-tool: here a longer --timeout, or none, lets it through");
            return EXIT_REFUSED;
        }
    };
    let task = match supervisor.start(request, Some(account.on_end())) {
        Ok(task) => task,
        Err(error) => {
            account.abandon();
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
    let copying = Arc::new(Cancel::default());
    let sink = match arguments.json {
        true => Sink::Nowhere,
        false => Sink::Stdout,
    };
    let copied = stream::start(Arc::clone(&task), sink, Arc::clone(&copying));
    let copies = match copied {
        Ok(copies) => copies,
        Err(error) => {
            output::complain(format_args!("cannot copy the output: {error}"));
            return EXIT_CANNOT_RUN;
        }
    };
    if is_raw || source == Source::Stream {
        input::start(Arc::clone(supervisor), Arc::clone(&task));
    }
    // Looked up while the command runs, so that its end does not wait for it.
    account.history();
    let mut run = Run {
        supervisor,
        task: &task,
        copying,
        written: copies.written,
        interrupted: None,
        leftovers: Vec::new(),
        give_up: None,
    };
    let copied = run.supervise(&signals, &resizes, &copies.told);
    terminal.lock().take();
    run.conclude(copied, arguments, config)
}

/// Puts the terminal back on every way out, a panic among them.
struct Restore<'a>(&'a HeldTerminal);

impl Drop for Restore<'_> {
    fn drop(&mut self) {
        self.0.lock().take();
    }
}

fn request(arguments: &ExecArguments, source: Source, is_raw: bool) -> Request {
    let terminal = arguments.pty.then(|| own_size().unwrap_or_default());
    // A person's programs are drawn by that person's terminal.
    let environment = std::env::var("TERM").ok().filter(|_| is_raw);
    Request {
        command: arguments.command.join(" "),
        description: None,
        part_of: None,
        directory: Some(setup::own_directory()),
        environment: environment
            .map(|term| ("TERM".to_owned(), term))
            .into_iter()
            .collect(),
        stdin: match source {
            Source::Stream => Stdin::Open,
            Source::Terminal | Source::Nothing => Stdin::Null,
        },
        stderr: Stderr::Merged,
        terminal,
        emulated: !is_raw,
        timeout: arguments.timeout.filter(|timeout| !timeout.is_zero()),
        timeout_most: None,
    }
}

/// The size of the terminal that a person sees this on.
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
        StartError::Full { .. }
        | StartError::Ending
        | StartError::Script { .. }
        | StartError::Spawn(_)
        | StartError::Worker(_) => EXIT_CANNOT_RUN,
    }
}

/// A command under way.
struct Run<'a> {
    supervisor: &'a Supervisor,
    task: &'a Arc<TaskHandle>,
    /// Bytes that have been copied.
    written: Arc<AtomicU64>,
    /// Ends the copying when nothing more can be waited for.
    copying: Arc<Cancel>,
    /// The signal that ended it.
    interrupted: Option<i32>,
    /// What outlived the shell.
    leftovers: Vec<Leftover>,
    /// When the copying is no longer waited for, and how far it was when that was decided.
    give_up: Option<(Instant, Copying)>,
}

/// How far the copying is: the bytes that were written, and whether no more will come.
type Copying = (u64, bool);

impl Run<'_> {
    /// Waits for the end, and ends what asks for it.
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
                    // The thread that takes signals never ends.
                    Err(_) => return Ok(()),
                },
                recv(copies) -> copied => match copied {
                    Ok(Copied::UpToExit) => self.end_leftovers(),
                    Ok(Copied::All(copied)) => return copied,
                    // It has panicked, and said so.
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

    /// Passes the signal on first, as a terminal would, so that programs that clean up
    /// on Ctrl-C do; who has not ended after the grace is ended in order.
    fn interrupt(&mut self, number: i32) {
        self.interrupted = Some(number);
        if number != SIGTERM
            && let Some(signal) = signals::to_pass_on(number)
        {
            // The end itself is waited for below.
            let _ = self.supervisor.kill(self.task, KillOrder::Only(signal));
            self.task.live.wait_for(
                Some(Instant::now() + KILL_GRACE),
                &Cancel::default(),
                |state| match state.ended {
                    Some(_) => Look::Found(()),
                    None => Look::WaitUntil(None),
                },
                Instant::now,
            );
        }
        self.end_tree();
        self.limit_copying();
    }

    /// The copying is given up unless something comes of it in time; how far it is.
    fn limit_copying(&mut self) -> Copying {
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
        let receipt = self.supervisor.kill(self.task, KillOrder::InOrder);
        // Who cannot be ended may hold the output open for ever.
        if receipt.map_or(true, |receipt| !receipt.survivors.is_empty()) {
            self.copying.cancel();
        }
    }

    /// Says how it ended; the exit code.
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
        match report::json(self.task, &self.leftovers, config) {
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
