//! `zsh-tool shim`: owns one detached task. A server's guard starts the shim's own guard outside of
//! the server's process tree. The call that starts the task comes on stdin.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, bounded, select};

use super::owner::{self, TaskOwner};
use crate::base::cancel::Cancel;
use crate::mcp::access::Access;
use crate::mcp::control::ControlSocket;
use crate::mcp::dispatch::{Shims, Tools};
use crate::mcp::server::Server;
use crate::process::guard::{Guarded, GuardedRole};
use crate::process::{descriptors, files};
use crate::protocol::transport::{Outbound, Transport};
use crate::task::journal::SHIM_PREFIX;

/// How long cancelled calls may take to end.
const LAST_CALLS: Duration = Duration::from_secs(3);
/// How long an answer may take to be written.
const FLUSH: Duration = Duration::from_millis(150);

/// Runs the command.
pub(crate) fn run(guarded: Option<String>) -> ExitCode {
    descriptors::seal_inherited();
    let instance = || format!("{SHIM_PREFIX}{}", files::random_id());
    match guarded {
        Some(instance) => hold(instance, owner::watched_guard()),
        None => owner::guarded(GuardedRole::Shim, instance(), hold),
    }
}

fn hold(instance: String, guarded: Option<Guarded>) -> ExitCode {
    let owner = TaskOwner::start(instance);
    let (message_limit, supervisor) = (owner.message_limit, Arc::clone(&owner.supervisor));
    let (stop, stopped) = bounded(1);
    let guard = guarded.map(|guarded| guarded.guard);
    let stopping = Arc::new(Cancel::default());
    let daemons = owner.config.daemons.clone();
    if let Err(error) = owner::watch_signals(guard, stop, Arc::clone(&stopping), daemons) {
        tracing::error!("cannot handle signals: {error}");
        return ExitCode::FAILURE;
    }
    // Before the task starts: without them, no process would find it.
    let listener = supervisor
        .directory()
        .map_err(str::to_owned)
        .and_then(|directory| ControlSocket::bind(&directory.path));
    let reachable = listener.as_ref().map(drop).map_err(Clone::clone);
    let tools = owner.tools(None, Shims::IsShim(reachable));
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
    owner.start_housekeeping();
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
    owner::await_end(&supervisor, &stopping, lease, unconnected_since);
    owner.end(control);
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
