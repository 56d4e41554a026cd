//! `zsh-tool shim`: owns one detached task. A server's guard starts the shim's own guard outside of
//! the server's process tree. The call that starts the task comes on stdin.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded, select};

use super::signals::{self, StopRequest};
use super::{serve, setup};
use crate::base::cancel::Cancel;
use crate::mcp::access::Access;
use crate::mcp::control::ControlSocket;
use crate::mcp::dispatch::{Shims, Tools};
use crate::mcp::server::Server;
use crate::peer::hosts::Hosts;
use crate::process::guard::{Guarded, Role, Side};
use crate::process::{descriptors, files, guard, memory};
use crate::protocol::transport::{Outbound, Transport};
use crate::task::journal::{self, SHIM_PREFIX};
use crate::task::live::{LiveState, WaitStep};
use crate::task::supervisor::Supervisor;

/// How long cancelled calls may take to end.
const LAST_CALLS: Duration = Duration::from_secs(3);
/// How long other processes may take to read the task's end.
const LAST_ANSWERS: Duration = Duration::from_secs(1);
/// How long an answer may take to be written.
const FLUSH: Duration = Duration::from_millis(150);

/// Runs the command.
pub(crate) fn run(guarded: Option<String>) -> ExitCode {
    descriptors::seal_inherited();
    if let Some(instance) = guarded {
        let guard = guard::watch_guard()
            .inspect_err(|error| tracing::warn!("cannot talk to the guard: {error}"));
        return hold(instance, guard.ok());
    }
    let instance = format!("{SHIM_PREFIX}{}", files::random_id());
    match guard::start(Role::Shim, &instance) {
        Ok(Side::Guard(guard)) => serve::conclude(&instance, guard),
        Ok(Side::Server(guarded)) => hold(instance, Some(guarded)),
        // The server notices that the descriptor was closed.
        Err(_) => ExitCode::FAILURE,
    }
}

fn hold(instance: String, guarded: Option<Guarded>) -> ExitCode {
    memory::hide_from_other_processes();
    memory::use_one_arena();
    let (config, warnings) = setup::start();
    setup::adopt_orphans();
    let message_limit = setup::message_limit(&config);
    let supervisor = setup::supervisor_with_instance(instance, &config);
    let recorder = setup::recorder(&config, &supervisor.settings.redactor);
    let (stop, stopped) = bounded(1);
    let guard = guarded.map(|guarded| guarded.guard);
    let stopping = Arc::new(Cancel::default());
    let daemons = config.daemons.clone();
    if let Err(error) = watch_signals(guard, stop, Arc::clone(&stopping), daemons) {
        tracing::error!("cannot handle signals: {error}");
        return ExitCode::FAILURE;
    }
    // Before the task starts: without them, no process would find it.
    let listener = supervisor
        .directory()
        .map_err(str::to_owned)
        .and_then(|directory| ControlSocket::bind(&directory.path));
    let reachable = listener.as_ref().map(drop).map_err(Clone::clone);
    let hosts = Arc::new(Hosts::for_server(config.hosts.clone(), &supervisor));
    let tools = Arc::new(Tools::new(
        Arc::clone(&supervisor),
        Arc::clone(&recorder),
        config,
        warnings,
        None,
        Shims::IsShim(reachable),
        hosts,
    ));
    let control = listener
        .ok()
        .map(|listener| ControlSocket::serve(Arc::clone(&tools), message_limit, listener))
        .transpose();
    let control = match control {
        Ok(control) => control,
        Err(error) => {
            tracing::error!("no control socket: {error}");
            supervisor.leave_server_dir();
            return ExitCode::FAILURE;
        }
    };
    setup::start_housekeeping(&supervisor, setup::release_memory(&recorder));
    if let Err(error) = serve_call(Arc::clone(&tools), message_limit, &stopped) {
        tracing::error!("cannot serve the call: {error}");
    }
    if let Some(control) = &control {
        control.note_closed();
    }
    let lease = tools.lease.get().copied();
    let begun = Instant::now();
    let unconnected_since =
        || control.as_ref().map_or(Some(begun), ControlSocket::unconnected_since);
    await_end(&supervisor, &stopping, lease, unconnected_since);
    supervisor.shut_down();
    if let Some(control) = control {
        control.finish(LAST_ANSWERS);
    }
    write_last(&supervisor);
    recorder.close();
    supervisor.leave_server_dir();
    ExitCode::SUCCESS
}

/// Carries out the call on stdin, until its client closes the connection. If the client closes it
/// before the answer, the call is cancelled and its task killed.
fn serve_call(tools: Arc<Tools>, message_limit: usize, stopped: &Receiver<()>) -> io::Result<()> {
    let stream = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    // Only the transport may hold the connection open.
    descriptors::close_stdin()?;
    let server = Arc::new(Server::new(tools, Access::Launch));
    let receiver = Arc::clone(&server);
    let receive = move |outbound: &Outbound, received| receiver.receive(outbound, received);
    let (input, output) = (Box::new(stream.try_clone()?), Box::new(stream.try_clone()?));
    let transport = Transport::start(input, output, message_limit, receive)?;
    select! {
        recv(transport.ended()) -> _ => {}
        recv(stopped) -> _ => {}
    }
    server.cancel_calls();
    server.await_calls(LAST_CALLS);
    server.take_back_undelivered();
    let _ = stream.shutdown(std::net::Shutdown::Both);
    transport.finish(FLUSH);
    Ok(())
}

/// Waits until the tasks and their leftover processes have ended, this process is asked to end, or
/// no process has been connected for the time of the lease.
pub(super) fn await_end(
    supervisor: &Supervisor,
    stopping: &Cancel,
    lease: Option<Duration>,
    unconnected_since: impl Fn() -> Option<Instant>,
) {
    for task in supervisor.tasks() {
        let closed = |state: &LiveState| {
            if state.closed { WaitStep::Found(()) } else { WaitStep::WaitUntil(None) }
        };
        loop {
            let now = Instant::now();
            // While a process is connected, the lease ends at the earliest after its full time.
            let end = lease.map(|lease| unconnected_since().unwrap_or(now) + lease);
            if end.is_some_and(|end| end <= now) {
                tracing::warn!("ending task {}: no process has connected to it", task.id());
                return;
            }
            let over = task.live.wait_for(end, stopping, closed, Instant::now);
            if over.is_some() || stopping.is_cancelled() {
                break;
            }
        }
    }
}

/// Records for later servers how much of each task results have shown.
pub(super) fn write_last(supervisor: &Supervisor) {
    let Ok(directory) = supervisor.directory() else {
        return;
    };
    for task in supervisor.tasks() {
        let redactor = &supervisor.settings.redactor;
        if let Err(error) = journal::write_last(&directory.path, &task.live, &task.spool, redactor)
        {
            tracing::warn!("cannot write the file of task {}: {error}", task.id());
        }
    }
}

/// The first signal ends the shim in order, the second at once.
pub(super) fn watch_signals(
    guard: Option<i32>,
    stop: Sender<()>,
    stopping: Arc<Cancel>,
    daemons: Vec<String>,
) -> io::Result<()> {
    signals::handle(guard, &[], move |request| match request {
        StopRequest::Other(_) => {}
        StopRequest::EndAtOnce(number) => signals::exit_at_once(&daemons, number),
        StopRequest::End(_) => {
            stopping.cancel();
            let _ = stop.try_send(());
        }
    })
}
