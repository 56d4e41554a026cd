//! `zsh-tool serve`: becomes the guard of a server and starts it, or is the server.

use std::io;
use std::os::fd::AsFd;
use std::process::ExitCode;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, after, bounded, never, select};

use super::monitor::{self, Monitor};
use super::output;
use super::owner::{self, TaskOwner};
use super::signals::{self, StopRequest};
use crate::config::Warning;
use crate::mcp::access::Access;
use crate::mcp::control::ControlSocket;
use crate::mcp::dispatch::Shims;
use crate::mcp::server::Server;
use crate::process::descriptors::BlockingFile;
use crate::process::guard::{Guarded, GuardedRole};
use crate::process::ledger::Ledger;
use crate::process::{descriptors, files, survivors, tree};
use crate::protocol::framing::Framing;
use crate::protocol::reader::FrameReader;
use crate::protocol::transport::{Outbound, StreamEnd, Transport};

/// How long calls may still answer after the end of the input, since scripts pipe in a few requests
/// and close.
const LAST_CALLS: Duration = Duration::from_millis(150);
/// How long calls may take to report that their task was interrupted.
const INTERRUPTED_CALLS: Duration = Duration::from_millis(300);
/// The time between two checks of the queue of answers after the client has closed its input. If
/// answers fill it both times, the client no longer reads.
const STUCK: Duration = Duration::from_millis(150);
/// How long to wait for a client that does not read its answers.
const FLUSH: Duration = Duration::from_millis(150);

/// How long writing the records of killed tasks may take after the second signal that asks for the
/// end.
const LAST_NOTES: Duration = Duration::from_millis(500);

/// The number of the second signal that asks for the end.
type SecondSignal = Arc<OnceLock<i32>>;

/// Runs the command.
pub(crate) fn run(guarded: Option<String>) -> ExitCode {
    descriptors::seal_inherited();
    match guarded {
        Some(instance) => serve(instance, owner::watched_guard()),
        None => owner::guarded(GuardedRole::Client, files::random_id(), serve),
    }
}

fn serve(instance: String, guarded: Option<Guarded>) -> ExitCode {
    let mut owner = TaskOwner::start(instance);
    let (message_limit, supervisor) = (owner.message_limit, Arc::clone(&owner.supervisor));
    let guard = guarded.as_ref().map(|guarded| guarded.guard);
    let parent = guard.and_then(tree::look_up).map(|guard| guard.parent);
    let parent = parent.or_else(|| i32::try_from(std::os::unix::process::parent_id()).ok());
    if let Some(client) = parent.and_then(tree::look_up) {
        supervisor.set_client(client.id);
    }
    let (stop, stopped) = bounded(1);
    let hurried = SecondSignal::default();
    let daemons = owner.config.daemons.clone();
    if let Err(error) = watch_signals(guard, stop, Arc::clone(&hurried), daemons) {
        output::complain(format_args!("cannot handle signals: {error}"));
        return ExitCode::FAILURE;
    }
    let monitor = start_monitor(&mut owner);
    let location = monitor.as_ref().map(Monitor::location);
    let directory = supervisor.directory_made();
    let ledger = guarded.as_ref().and_then(|guarded| guarded.ledger.clone());
    let inherited = ledger.as_ref().and_then(Ledger::inherit);
    let tools = owner.tools(location, Shims::from_guard(guarded));
    if let Err(error) = ControlSocket::start(Arc::clone(&tools), message_limit, directory) {
        tracing::error!("no control socket: {error}");
    }
    let server = Arc::new(Server::new(tools, Access::Full).with_ledger(ledger.clone()));
    if let Some(inherited) = &inherited {
        server.inherit(inherited);
    }
    let receiver = Arc::clone(&server);
    let receive = move |outbound: &Outbound, received| receiver.receive(outbound, received);
    let connect = || {
        let input = BlockingFile::new(io::stdin().as_fd().try_clone_to_owned()?);
        let output = BlockingFile::new(io::stdout().as_fd().try_clone_to_owned()?);
        let Some(ledger) = &ledger else {
            return Transport::start(Box::new(input), Box::new(output), message_limit, receive);
        };
        let framing = inherited.as_ref().and_then(|it| Framing::from_code(it.framing?));
        // A line that was cut is ended before anything else is written.
        let is_cut =
            inherited.as_ref().is_some_and(|it| it.is_cut) && framing == Some(Framing::Lines);
        let output = Box::new(ledger.output(output, is_cut));
        let frames = FrameReader::buffered(ledger.buffer(input), message_limit, framing);
        Transport::start_on(frames, output, receive)
    };
    let transport = match connect() {
        Ok(transport) => transport,
        Err(error) => {
            output::complain(format_args!("cannot start: {error}"));
            return ExitCode::FAILURE;
        }
    };
    if let Some(inherited) = inherited {
        let cause = ledger.and_then(|ledger| ledger.restarts().1).map(|restart| restart.cause);
        let cause = cause.unwrap_or_default();
        server.answer_inherited(transport.outbound(), inherited.unanswered, &cause);
    }
    let monitor_note = monitor
        .as_ref()
        .map(|monitor| format!(", and a monitor at {}", monitor.announcement()))
        .unwrap_or_default();
    output::say_on_stderr(format_args!(
        "zsh-tool {}: serving MCP on stdin and stdout{monitor_note}",
        env!("CARGO_PKG_VERSION")
    ));
    owner.start_housekeeping();
    let hung_up = watch_hangup().unwrap_or_else(|error| {
        tracing::error!("no hangup thread: {error}");
        never()
    });
    if await_end(&transport, &stopped, &hung_up) {
        server.await_calls(LAST_CALLS);
    }
    // Before the supervisor kills all processes, including the hosts' carriers.
    owner.hosts.end();
    supervisor.shut_down();
    server.await_calls(INTERRUPTED_CALLS);
    transport.finish(FLUSH);
    drop(monitor);
    owner.recorder.close();
    supervisor.leave_server_dir();
    match hurried.get() {
        Some(number) => {
            ExitCode::from(u8::try_from(signals::EXIT_SIGNALLED + number).unwrap_or(u8::MAX))
        }
        None => ExitCode::SUCCESS,
    }
}

/// Starts the monitor if the configuration enables it. If that fails, the server still serves, and
/// `zsh_health` reports why there is no monitor.
fn start_monitor(owner: &mut TaskOwner) -> Option<Monitor> {
    let TaskOwner { config, warnings, supervisor, recorder, hosts, .. } = owner;
    let address = config.http?;
    monitor::start_beside(supervisor, address, config, recorder, Some(hosts))
        .inspect_err(|error| {
            output::complain(error);
            warnings.push(Warning {
                source: config.source("http"),
                key: Some("http".to_owned()),
                text: format!("{error}; there is no monitor"),
            });
        })
        .ok()
}

/// Waits for the end of the server; returns whether the end of the input was the reason.
fn await_end(transport: &Transport, stopped: &Receiver<()>, hung_up: &Receiver<()>) -> bool {
    let mut gone = false;
    let mut stuck = false;
    loop {
        let (hung_up, recheck) =
            if gone { (never(), after(STUCK)) } else { (hung_up.clone(), never()) };
        select! {
            recv(transport.ended()) -> ended => {
                match ended {
                    Ok(StreamEnd::Input) => return true,
                    Ok(StreamEnd::InputFailed(error)) => tracing::error!("cannot read stdin: {error}"),
                    Ok(StreamEnd::OutputFailed(error)) => {
                        tracing::debug!("the client no longer reads: {error}");
                    }
                    Err(_) => {}
                }
                return false;
            }
            recv(stopped) -> _ => return false,
            recv(hung_up) -> _ => gone = true,
            recv(recheck) -> _ => {
                let full = transport.outbound().is_full();
                if stuck && full {
                    tracing::debug!("the client is gone and has not read its answers");
                    return false;
                }
                stuck = full;
            }
        }
    }
}

/// Receives a message once the client has closed the input, even while the reader is blocked because
/// the client does not read its answers.
fn watch_hangup() -> io::Result<Receiver<()>> {
    let (sender, hung_up) = bounded(1);
    std::thread::Builder::new().name("hangup".to_owned()).spawn(move || {
        descriptors::await_hangup(io::stdin());
        let _ = sender.send(());
    })?;
    Ok(hung_up)
}

/// The first signal ends the server in an orderly way. The second kills all its processes and waits only
/// until that is recorded; if recording takes longer, the guard does it.
fn watch_signals(
    guard: Option<i32>,
    stop: Sender<()>,
    hurried: SecondSignal,
    daemons: Vec<String>,
) -> io::Result<()> {
    signals::handle(guard, &[], move |request| match request {
        StopRequest::Other(_) => {}
        StopRequest::EndAtOnce(number) => {
            let _ = hurried.set(number);
            survivors::kill_all(&daemons);
            std::thread::sleep(LAST_NOTES);
            std::process::exit(signals::EXIT_SIGNALLED + number);
        }
        StopRequest::End(_) => {
            let _ = stop.try_send(());
        }
    })
}
