//! `zsh-tool attach`: a person at the terminal of a task of any running server.
//!
//! The person's terminal, in raw mode, shows the task's terminal, and keys go to the program. A task
//! with an open pipe takes lines instead. Only the main thread writes to the terminal; other threads
//! wait for keys, signals and the task's owner, and write to the owner.

use std::convert::Infallible;
use std::io::{self, IsTerminal, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, TrySendError, bounded};
use signal_hook::consts::SIGWINCH;

use super::output::{EXIT_USAGE, Output, OutputError, complain, say_on_stderr};
use super::signals::{self, EXIT_SIGNALLED, StopRequest};
use super::{control, shared, tasks};
use crate::cli::AttachArguments;
use crate::config::Config;
use crate::peer::attach::{AttachEvent, AttachMode, AttachReceiver, AttachRequest, AttachSender};
use crate::peer::client::Peer;
use crate::peer::hosts::Purpose;
use crate::peer::{Owner, PeerError};
use crate::process::descriptors::BlockingFile;
use crate::process::pty::{self, RawTerminal, TerminalSize};
use crate::process::restorer::{self, Restorer};
use crate::task::snapshot::Snapshot;
use crate::text::keys::{KNOWN, Key};
use crate::text::screen::{Modes, Screen};
use crate::text::terminal_filter::TerminalFilter;

/// How many events can wait for the main thread.
const QUEUED_EVENTS: usize = 64;
/// Bytes of keys read at once.
const KEYS: usize = 4096;
/// How many messages can wait for an owner that does not read; a bell answers further keys.
const QUEUED_MESSAGES: usize = 256;
/// How long writing the last messages may take when the person detaches.
const LAST_KEYS: Duration = Duration::from_secs(1);
const BELL: &[u8] = b"\x07";
/// How long the last line of the screen names the key that detaches.
const HINT: Duration = Duration::from_secs(4);
/// The hint is written after output has paused for this long.
const HINT_AFTER: Duration = Duration::from_millis(100);
/// How many of the last lines of the task's screen are left on the person's.
const LAST_LINES: usize = 10;
/// The task is shown on the alternate screen, so that the person's own returns afterwards.
const ENTER: &str = "\x1b[?1049h\x1b[H\x1b[2J";
/// Resets the modes that programs set on a terminal, erases the hint, and switches back. A terminal
/// without an alternate screen is left at the beginning of its last line.
const LEAVE: &str = "\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1004l\x1b[?1005l\x1b[?1006l\
    \x1b[?2004l\x1b[?1l\x1b>\x1b[r\x1b[?6l\x1b[?7h\x1b[4l\x1b[?25h\x1b[0 q\x1b(B\x0f\
    \x1b[m\x1b[999;1H\x1b[K\x1b[?1049l";

/// Runs the command.
pub(crate) fn run(arguments: &AttachArguments) -> ExitCode {
    let Ok(key) = Key::parse(&arguments.detach_key) else {
        complain(format_args!(
            "--detach-key {:?} is not a key: known are {KNOWN}",
            arguments.detach_key
        ));
        return ExitCode::from(EXIT_USAGE);
    };
    if !(io::stdin().is_terminal() && io::stdout().is_terminal()) {
        complain(
            "attach needs a terminal as stdin and stdout: without one `zsh-tool send` types into a \
             task and `zsh-tool log --follow` prints its output",
        );
        return ExitCode::FAILURE;
    }
    let (config, _) = shared::load_config();
    let state = match shared::state_directory(&config) {
        Ok(state) => state,
        Err(code) => return code,
    };
    let size = own_size();
    let attach = |peer: Peer, task: &str| {
        peer.attach(&AttachRequest {
            task_id: task.to_owned(),
            size,
            read_only: arguments.read_only,
        })
    };
    let on_host = arguments.task.as_deref().and_then(|task| task.rsplit_once(':'));
    let (attached, task) = match on_host {
        Some((host, task)) => {
            let attached = connect_to_task(&config, host, task, |peer| attach(peer, task));
            (attached, format!("{host}:{task}"))
        }
        None => {
            let Some((directory, entry)) = find(state, arguments.task.as_deref()) else {
                return ExitCode::FAILURE;
            };
            let attached = Peer::connect(Owner { directory });
            let attached = attached.and_then(|peer| attach(peer, entry.id()));
            (attached.map_err(|error| error.to_string()), entry.facts.id.clone())
        }
    };
    let (begun, attached, events) = match attached {
        Ok(attached) => attached,
        Err(error) => {
            complain(&error);
            return ExitCode::FAILURE;
        }
    };
    let person = Person {
        mode: begun.mode,
        size,
        detach: key.bytes(Modes::default()),
        key: &arguments.detach_key,
        task: &task,
        filter: TerminalFilter::default(),
        screen: None,
        hint: None,
    };
    match person.converse(attached, events, arguments.read_only) {
        Ok(end) => end.conclude(&task),
        Err(error) => {
            complain(format_args!("cannot attach to task {task}: {error}"));
            ExitCode::FAILURE
        }
    }
}

/// Attaches to a task on a host, over a separate connection.
fn connect_to_task<T>(
    config: &Config,
    host: &str,
    task: &str,
    attach: impl FnOnce(Peer) -> Result<T, PeerError>,
) -> Result<T, String> {
    let hosts = shared::hosts(config, Purpose::Task(task.to_owned()));
    let host = hosts.find(host).map_err(|error| error.to_string())?;
    let link = host.link().map_err(|error| error.to_string())?;
    let peer = Peer::carried(link).map_err(|error| error.to_string())?;
    attach(peer).map_err(|error| match error {
        PeerError::Gone(_) => format!("host {}: {}", host.entry.name, host.final_reason()),
        error => error.to_string(),
    })
}

/// Runs the process that restores the terminal.
pub(crate) fn restore_terminal() -> ExitCode {
    match own_terminal().and_then(|terminal| restorer::run(terminal, LEAVE.as_bytes())) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

/// The named task, or the only one that waits for input.
fn find(state: &Path, wanted: Option<&str>) -> Option<(PathBuf, Snapshot)> {
    match wanted {
        Some(wanted) => control::find_running(state, wanted),
        None => tasks::find_waiting(state),
    }
}

fn own_terminal() -> io::Result<OwnedFd> {
    io::stdout().as_fd().try_clone_to_owned()
}

fn own_size() -> TerminalSize {
    pty::size_of(io::stdout()).unwrap_or_default()
}

/// An event for the main thread.
enum Event {
    /// From the task's owner.
    Task(Result<AttachEvent, PeerError>),
    Keys(Vec<u8>),
    /// The end of stdin: Ctrl-D in line mode, otherwise the terminal is gone.
    InputEnd,
    Resized,
    Stop(i32),
}

/// A message to the task's owner.
enum Message {
    Keys(Vec<u8>),
    InputEnd,
    Size(TerminalSize),
}

/// How an attachment ends.
enum Ending {
    Detached,
    Ended { status_line: String, exit_code: i32 },
    Lost(PeerError),
    Signalled(i32),
    Unwritable(OutputError),
}

impl Ending {
    fn conclude(self, task: &str) -> ExitCode {
        match self {
            Ending::Detached => {
                say_on_stderr(format_args!("detached from task {task}"));
                ExitCode::SUCCESS
            }
            Ending::Ended { status_line, exit_code } => {
                say_on_stderr(status_line);
                ExitCode::from(u8::try_from(exit_code).unwrap_or(u8::MAX))
            }
            Ending::Lost(PeerError::Gone(_)) => {
                complain(format_args!(
                    "the connection to the server of task {task} is lost: it has ended, or this \
                     terminal was too slow; the terminal is restored"
                ));
                ExitCode::FAILURE
            }
            Ending::Lost(error) => {
                complain(format_args!("{error}; the terminal is restored"));
                ExitCode::FAILURE
            }
            Ending::Signalled(number) => {
                ExitCode::from(u8::try_from(EXIT_SIGNALLED + number).unwrap_or(u8::MAX))
            }
            Ending::Unwritable(error) => ExitCode::from(error.report()),
        }
    }
}

/// The hint on the last line.
struct Hint {
    until: Instant,
    write_at: Option<Instant>,
}

/// A person at this process's terminal.
struct Person<'a> {
    mode: AttachMode,
    size: TerminalSize,
    /// The bytes of the key that detaches …
    detach: Vec<u8>,
    /// … and its name.
    key: &'a str,
    task: &'a str,
    filter: TerminalFilter,
    /// The task's screen, if it has a terminal.
    screen: Option<Screen>,
    /// `None` once it has been shown, and in line mode.
    hint: Option<Hint>,
}

impl Person<'_> {
    /// Passes on keys and output until one side ends, and restores the terminal.
    fn converse(
        mut self,
        attached: AttachSender,
        events: AttachReceiver,
        read_only: bool,
    ) -> io::Result<Ending> {
        let (notify, notified) = bounded(QUEUED_EVENTS);
        let (send, messages) = bounded(QUEUED_MESSAGES);
        let (writing, written) = bounded(0);
        let mut output = Output::stdout()?;
        watch_signals(&notify)?;
        let raw = match self.mode {
            AttachMode::Terminal | AttachMode::WatchTerminal => {
                let restorer = Restorer::start(&["restore-terminal"], own_terminal()?)?;
                Some((RawTerminal::enter()?, restorer))
            }
            AttachMode::Lines | AttachMode::WatchOutput => None,
        };
        start("task-events", &notify, move |notify| follow(events, notify))?;
        start("input", &notify, read_keys)?;
        start("keys", &notify, move |notify| pass_keys(&attached, &messages, &notify, &writing))?;
        let begun = match raw {
            Some(_) => self.begin_on_screen(&mut output),
            None => {
                say_on_stderr(self.line_hint(read_only));
                Ok(())
            }
        };
        let ending = match begun.and_then(|()| self.pass_on(&notified, &send, &mut output)) {
            Ok(ending) => ending,
            Err(error) => Ending::Unwritable(error),
        };
        drop((send, notified));
        if matches!(ending, Ending::Detached) {
            // `pass_keys` returns after the last message.
            let _ = written.recv_timeout(LAST_KEYS);
        }
        if let Some((raw, restorer)) = raw {
            let _ = output.write(LEAVE.as_bytes());
            drop(raw);
            restorer.dismiss();
            if matches!(ending, Ending::Detached | Ending::Ended { .. } | Ending::Lost(_)) {
                let _ = output.write(self.last_lines().as_bytes());
            }
        }
        Ok(ending)
    }

    fn begin_on_screen(&mut self, output: &mut Output) -> Result<(), OutputError> {
        let now = Instant::now();
        self.hint = Some(Hint { until: now + HINT, write_at: Some(now + HINT_AFTER) });
        self.screen = Some(Screen::new(self.size.rows, self.size.cols));
        output.write(ENTER.as_bytes())
    }

    /// Shows output on the person's terminal.
    fn show(&mut self, bytes: &[u8], output: &mut Output) -> Result<(), OutputError> {
        output.write(&self.filter.pass(bytes))?;
        let Some(screen) = &mut self.screen else {
            return Ok(());
        };
        let was_alternate = screen.is_alternate();
        screen.feed(bytes);
        screen.take_replies();
        if was_alternate && !screen.is_alternate() {
            // The program expects its other screen to return.
            output.write(&TerminalFilter::default().pass(&screen.drawing()))?;
        }
        Ok(())
    }

    /// The last lines of the task's screen, unless a full-screen program has drawn it.
    fn last_lines(&self) -> String {
        let Some(screen) = self.screen.as_ref().filter(|screen| !screen.is_full_screen()) else {
            return String::new();
        };
        let rows = screen.view().rows;
        let mut lines: Vec<&String> = rows.iter().rev().skip_while(|row| row.is_empty()).collect();
        lines.truncate(LAST_LINES);
        lines.iter().rev().map(|line| format!("{line}\n")).collect()
    }

    fn line_hint(&self, read_only: bool) -> String {
        let (task, key) = (self.task, self.key);
        match self.mode {
            AttachMode::WatchOutput if read_only => {
                format!("zsh-tool: watching task {task}; {key} and Enter detach")
            }
            AttachMode::WatchOutput => format!(
                "zsh-tool: task {task} takes no input, you only watch it; {key} and Enter detach"
            ),
            _ => format!(
                "zsh-tool: attached to stdin of task {task}; C-d ends it, {key} and Enter detach"
            ),
        }
    }

    fn pass_on(
        &mut self,
        events: &Receiver<Event>,
        send: &Sender<Message>,
        output: &mut Output,
    ) -> Result<Ending, OutputError> {
        loop {
            let event = match self.hint.as_ref().map(Hint::due) {
                Some(due) => events.recv_deadline(due),
                None => events.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            let message = match event {
                Ok(Event::Task(Ok(AttachEvent::Output(bytes)))) => {
                    self.show(&bytes, output)?;
                    if let Some(hint) = &mut self.hint {
                        hint.write_at = Some(Instant::now() + HINT_AFTER);
                    }
                    None
                }
                Ok(Event::Task(Ok(AttachEvent::State(_)))) => None,
                Ok(Event::Task(Ok(AttachEvent::End(end)))) => {
                    let (status_line, exit_code) = (end.status_line, end.exit_code);
                    return Ok(Ending::Ended { status_line, exit_code });
                }
                Ok(Event::Task(Err(error))) => return Ok(Ending::Lost(error)),
                Ok(Event::Keys(mut keys)) => {
                    let found = memchr::memmem::find(&keys, &self.detach);
                    keys.truncate(found.unwrap_or(keys.len()));
                    let types = matches!(self.mode, AttachMode::Terminal | AttachMode::Lines);
                    let message = (types && !keys.is_empty()).then_some(Message::Keys(keys));
                    if found.is_some() {
                        // If the queue is full, these keys are lost with those before them.
                        let _ = message.map(|message| send.try_send(message));
                        return Ok(Ending::Detached);
                    }
                    message
                }
                Ok(Event::InputEnd) => match self.mode {
                    AttachMode::Lines => Some(Message::InputEnd),
                    AttachMode::WatchOutput => None,
                    _ => return Ok(Ending::Detached),
                },
                Ok(Event::Resized) => {
                    self.size = own_size();
                    if let Some(screen) = &mut self.screen {
                        screen.resize(self.size.rows, self.size.cols);
                    }
                    Some(Message::Size(self.size))
                }
                Ok(Event::Stop(number)) => return Ok(Ending::Signalled(number)),
                Err(RecvTimeoutError::Timeout) => self.keep_hint(output)?,
                // Unreachable: the signal thread never ends.
                Err(RecvTimeoutError::Disconnected) => return Ok(Ending::Detached),
            };
            // If the owner is gone, an event reports it.
            if let Some(Err(TrySendError::Full(_))) = message.map(|message| send.try_send(message))
            {
                output.write(BELL)?;
            }
        }
    }

    /// Writes the hint, or requests a redraw without it when its time is over.
    fn keep_hint(&mut self, output: &mut Output) -> Result<Option<Message>, OutputError> {
        let Some(hint) = &mut self.hint else {
            return Ok(None);
        };
        if Instant::now() >= hint.until {
            self.hint = None;
            return Ok(Some(Message::Size(self.size)));
        }
        hint.write_at = None;
        let text = match self.mode {
            AttachMode::Terminal => {
                format!(" attached to task {}: {} detaches ", self.task, self.key)
            }
            _ => format!(" watching task {}: {} detaches ", self.task, self.key),
        };
        let text: String = text.chars().take(usize::from(self.size.cols)).collect();
        let rows = self.size.rows;
        let line = format!("\x1b7\x1b[{rows};1H\x1b[0;7m{text}\x1b[0m\x1b[K\x1b8");
        output.write(line.as_bytes()).map(|()| None)
    }
}

impl Hint {
    fn due(&self) -> Instant {
        self.write_at.unwrap_or(self.until).min(self.until)
    }
}

fn start(
    name: &str,
    notify: &Sender<Event>,
    run: impl FnOnce(Sender<Event>) + Send + 'static,
) -> io::Result<()> {
    let notify = notify.clone();
    std::thread::Builder::new().name(name.to_owned()).spawn(move || run(notify)).map(drop)
}

fn follow(mut events: AttachReceiver, notify: Sender<Event>) {
    loop {
        let event = events.next_event();
        let is_over = !matches!(event, Ok(AttachEvent::State(_) | AttachEvent::Output(_)));
        if notify.send(Event::Task(event)).is_err() || is_over {
            return;
        }
    }
}

/// Writes messages to the owner until the channel closes or a write fails. Dropping `_writing`
/// signals the end.
fn pass_keys(
    attached: &AttachSender,
    messages: &Receiver<Message>,
    notify: &Sender<Event>,
    _writing: &Sender<Infallible>,
) {
    for message in messages {
        let written = match message {
            Message::Keys(keys) => attached.send_input(keys, false),
            Message::InputEnd => attached.send_input(Vec::new(), true),
            Message::Size(size) => attached.resize(size),
        };
        if let Err(error) = written {
            // The thread that reads from the owner learns why it is gone.
            if !matches!(error, PeerError::Gone(_)) {
                let _ = notify.send(Event::Task(Err(error)));
            }
            return;
        }
    }
}

/// The thread may stay blocked in its read until the process exits.
fn read_keys(notify: Sender<Event>) {
    let Ok(stdin) = io::stdin().as_fd().try_clone_to_owned() else {
        return;
    };
    let mut stdin = BlockingFile::new(stdin);
    let mut buffer = vec![0; KEYS];
    loop {
        let event = match stdin.read(&mut buffer) {
            Ok(0) | Err(_) => Event::InputEnd,
            Ok(count) => Event::Keys(buffer.get(..count).unwrap_or_default().to_vec()),
        };
        let is_over = matches!(event, Event::InputEnd);
        if notify.send(event).is_err() || is_over {
            return;
        }
    }
}

fn watch_signals(notify: &Sender<Event>) -> io::Result<()> {
    let notify = notify.clone();
    signals::handle(None, &[SIGWINCH], move |request| {
        let event = match request {
            StopRequest::Other(_) => Event::Resized,
            StopRequest::End(number) => Event::Stop(number),
            // The restorer restores the terminal.
            StopRequest::EndAtOnce(number) => std::process::exit(EXIT_SIGNALLED + number),
        };
        let _ = notify.send(event);
    })
}
