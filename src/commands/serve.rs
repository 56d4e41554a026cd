//! `zsh-tool serve`: the guard, and below it the server proper.

use std::io;
use std::os::fd::AsFd;
use std::process::ExitCode;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, after, bounded, never, select};
use signal_hook::consts::SIGCHLD;

use super::monitor::{self, Monitor};
use super::signals::{self, Asked};
use super::{output, setup};
use crate::cli::ServeArguments;
use crate::config::{Config, Warning};
use crate::mcp::dispatch::Tools;
use crate::mcp::server::Server;
use crate::process::descriptors::Waiting;
use crate::process::{descriptors, guard, orphans, privacy};
use crate::protocol::framing::{Frame, FrameError};
use crate::protocol::transport::{Ended, Outbound, Transport};
use crate::record::recorder::Recorder;
use crate::task::housekeeping::wake_housekeeping;
use crate::task::supervisor::Supervisor;

/// After the end of the input, calls that are almost done may still answer: scripts pipe
/// a few requests in and close.
const LAST_CALLS: Duration = Duration::from_millis(150);
/// Calls whose task was interrupted say so.
const INTERRUPTED_CALLS: Duration = Duration::from_millis(300);
/// After the client has closed the input: answers that fill the queue at two looks so
/// far apart are no longer read.
const STUCK: Duration = Duration::from_millis(150);
/// A client that does not read gets no more time than this.
const FLUSH: Duration = Duration::from_millis(150);

/// After the second signal that asks for the end: what there is to note of tasks that were
/// killed is on the disk by then.
const LAST_NOTES: Duration = Duration::from_millis(500);
/// Added to the number of the signal that ended the server at once.
const EXIT_SIGNALLED: i32 = 128;

/// The number of the second signal that asked for the end, once there is one.
type Hurried = Arc<OnceLock<i32>>;

/// Runs the command.
pub fn run(arguments: &ServeArguments) -> ExitCode {
    if let Err(error) = descriptors::seal_inherited() {
        output::complain(format_args!("cannot open /dev/null: {error}"));
        return ExitCode::FAILURE;
    }
    if arguments.guarded {
        if let Err(error) = guard::attend() {
            output::complain(format_args!(
                "no word to the guard ({error}): when this server is killed, processes may be left"
            ));
        }
        let guard = i32::try_from(std::os::unix::process::parent_id()).ok();
        return serve(guard);
    }
    let spared = || setup::load_config().0.daemons;
    match guard::run(&["serve", "--guarded"], spared) {
        Ok(code) => ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX)),
        Err(error) => {
            output::complain(format_args!(
                "no guard ({error}): a killed server may leave processes behind"
            ));
            serve(None)
        }
    }
}

/// The connection on this process's stdin and stdout.
///
/// # Errors
/// There is no thread or descriptor for it.
fn connect<H>(request_limit: usize, receive: H) -> io::Result<Transport>
where
    H: FnMut(&Outbound, Result<Frame, FrameError>) + Send + 'static,
{
    let input = Waiting::new(io::stdin().as_fd().try_clone_to_owned()?);
    let output = Waiting::new(io::stdout().as_fd().try_clone_to_owned()?);
    Transport::start(Box::new(input), Box::new(output), request_limit, receive)
}

/// What ends the server.
enum Reason {
    InputEnded,
    Other,
}

fn serve(guard: Option<i32>) -> ExitCode {
    privacy::close_to_others();
    let (config, mut warnings) = setup::load_config();
    setup::start_log(&config);
    setup::adopt_orphans();
    for warning in &warnings {
        tracing::warn!("{warning}");
    }
    let request_limit = usize::try_from(config.max_request).unwrap_or(usize::MAX);
    let supervisor = setup::supervisor(&config);
    let (wake, woken) = bounded(1);
    let (stop, stopped) = bounded(1);
    let hurried = Hurried::default();
    let daemons = config.daemons.clone();
    if let Err(error) = watch_signals(guard, wake.clone(), stop, Arc::clone(&hurried), daemons) {
        output::complain(format_args!("cannot take signals: {error}"));
        return ExitCode::FAILURE;
    }
    let recorder = setup::recorder(&config, &supervisor.settings().redactor);
    let monitor = start_monitor(&config, &mut warnings, &supervisor, &recorder);
    let place = monitor.as_ref().map(Monitor::place);
    let server = Arc::new(Server::new(Tools::new(
        Arc::clone(&supervisor),
        Arc::clone(&recorder),
        config,
        warnings,
        place,
    )));
    let receiver = Arc::clone(&server);
    let receive = move |outbound: &Outbound, received| receiver.receive(outbound, received);
    let transport = match connect(request_limit, receive) {
        Ok(transport) => transport,
        Err(error) => {
            output::complain(format_args!("cannot start: {error}"));
            return ExitCode::FAILURE;
        }
    };
    let also = monitor
        .as_ref()
        .map(|monitor| format!(", and a monitor at {}", monitor.announcement()))
        .unwrap_or_default();
    output::say(format_args!(
        "zsh-tool {}: serving MCP on stdin and stdout{also}",
        env!("CARGO_PKG_VERSION")
    ));
    let housekeeper = setup::start_housekeeping(&supervisor, woken);
    let hung_up = watch_hangup().unwrap_or_else(|error| {
        tracing::error!("no hangup thread: {error}");
        never()
    });
    let reason = await_end(&transport, &stopped, &hung_up);
    end(&server, &supervisor, &recorder, transport, monitor, reason);
    drop(wake);
    drop(housekeeper);
    match hurried.get() {
        Some(number) => ExitCode::from(u8::try_from(EXIT_SIGNALLED + number).unwrap_or(u8::MAX)),
        None => ExitCode::SUCCESS,
    }
}

/// Starts the monitor where the configuration asks for one. A server without its monitor
/// still serves; `zsh_health` says why there is none.
fn start_monitor(
    config: &Config,
    warnings: &mut Vec<Warning>,
    supervisor: &Arc<Supervisor>,
    recorder: &Arc<Recorder>,
) -> Option<Monitor> {
    let address = config.http?;
    let redactor = &supervisor.settings().redactor;
    let own = Some(Arc::clone(supervisor));
    let routes = monitor::routes(config, own, recorder, redactor);
    let directory = supervisor
        .directory()
        .ok()
        .map(|directory| directory.path());
    monitor::start(address, routes, directory)
        .inspect_err(|error| {
            output::complain(error);
            warnings.push(Warning {
                place: config.source("http"),
                key: Some("http".to_owned()),
                text: format!("{error}; there is no monitor"),
            });
        })
        .ok()
}

fn await_end(transport: &Transport, stopped: &Receiver<()>, hung_up: &Receiver<()>) -> Reason {
    let mut gone = false;
    let mut stuck = false;
    loop {
        let (hung_up, look) = if gone {
            (never(), after(STUCK))
        } else {
            (hung_up.clone(), never())
        };
        select! {
            recv(transport.ended()) -> ended => return reason(ended.ok()),
            recv(stopped) -> _ => return Reason::Other,
            recv(hung_up) -> _ => gone = true,
            recv(look) -> _ => {
                let full = transport.outbound().is_full();
                if stuck && full {
                    tracing::debug!("the client is gone and has not read its answers");
                    return Reason::Other;
                }
                stuck = full;
            }
        }
    }
}

fn reason(ended: Option<Ended>) -> Reason {
    match ended {
        Some(Ended::Input) => Reason::InputEnded,
        Some(Ended::InputFailed(error)) => {
            tracing::error!("cannot read stdin: {error}");
            Reason::Other
        }
        Some(Ended::OutputFailed(error)) => {
            tracing::debug!("the client no longer reads: {error}");
            Reason::Other
        }
        None => Reason::Other,
    }
}

/// Tells that the client has closed the input, also while the reader does not see it
/// because it waits for room for an answer that nobody reads.
fn watch_hangup() -> std::io::Result<Receiver<()>> {
    let (tell, told) = bounded(1);
    std::thread::Builder::new()
        .name("hangup".to_owned())
        .spawn(move || {
            descriptors::await_hangup(io::stdin());
            let _ = tell.send(());
        })?;
    Ok(told)
}

fn end(
    server: &Server,
    supervisor: &Supervisor,
    recorder: &Recorder,
    transport: Transport,
    monitor: Option<Monitor>,
    reason: Reason,
) {
    if let Reason::InputEnded = reason {
        server.await_calls(LAST_CALLS);
    }
    supervisor.shut_down();
    server.await_calls(INTERRUPTED_CALLS);
    transport.finish(FLUSH);
    drop(monitor);
    recorder.close();
    supervisor.remove_directory();
}

/// The first signal ends the server in order. With the second all that it has started ends
/// at once, which leaves nothing to wait for but the notes of it; what takes longer than a
/// moment is left to the guard. Below a guard the server ignores no signal, and without one
/// those stay ignored that the client has chosen to.
fn watch_signals(
    guard: Option<i32>,
    wake: Sender<()>,
    stop: Sender<()>,
    hurried: Hurried,
    daemons: Vec<String>,
) -> std::io::Result<()> {
    let ending = signals::not_ignored(&signals::ENDING);
    signals::take_below(guard, ending, &[SIGCHLD], move |asked| match asked {
        Asked::Else(_) => wake_housekeeping(&wake),
        Asked::EndAtOnce(number) => {
            let _ = hurried.set(number);
            orphans::kill_all(&daemons);
            std::thread::sleep(LAST_NOTES);
            std::process::exit(EXIT_SIGNALLED + number);
        }
        Asked::End(_) => {
            let _ = stop.try_send(());
        }
    })
}
