//! `zsh-tool far`: the far side of a host. It speaks the control socket's protocol on stdin and
//! stdout, with the rights of the server's own client, and owns the tasks that it starts like a
//! shim. When the connection is lost, the tasks keep running for the time of the lease. Until then
//! the far side of the next connection reaches them over this process's control socket.

use std::io;
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use crossbeam_channel::{Receiver, after, bounded, select};

use super::owner::{self, TaskOwner};
use super::{monitor, output, shared};
use crate::base::cancel::Cancel;
use crate::cli::FarArguments;
use crate::mcp::access::Access;
use crate::mcp::control::ControlSocket;
use crate::mcp::dispatch::{Shims, Tools};
use crate::mcp::server::Server;
use crate::monitor::far::FarPages;
use crate::peer::client::Peer;
use crate::peer::hosts;
use crate::peer::{self, ANSWER_LIMIT, Owner, payload};
use crate::process::descriptors::{self, BlockingFile};
use crate::process::guard::{Guarded, GuardedRole};
use crate::process::{files, local_socket};
use crate::protocol::transport::{Outbound, Transport};
use crate::task::journal::{self, CONTROL_SOCKET, SHIM_PREFIX};

/// How long calls may take to end when the connection is over.
const LAST_CALLS: Duration = Duration::from_secs(3);
/// How long an answer may take to be written.
const FLUSH: Duration = Duration::from_millis(150);
/// The connection counts as lost after this time without a message. The server gives up earlier.
const SILENCE_LIMIT: Duration = Duration::from_secs(3 * hosts::SILENCE_LIMIT.as_secs());
/// How often the far sides of earlier connections are pinged, which keeps this process connected to
/// them.
const HOLD_EVERY: Duration = Duration::from_secs(20);

/// Runs the command.
pub(crate) fn run(arguments: FarArguments) -> ExitCode {
    if arguments.hash {
        return match payload::own_hash().map(|hash| output::print(&format!("{hash}\n"))) {
            Ok(Ok(())) => ExitCode::SUCCESS,
            _ => ExitCode::FAILURE,
        };
    }
    if let Some(task) = &arguments.task {
        return forward(task);
    }
    descriptors::seal_inherited();
    let instance = || format!("{}{}", far_prefix(&arguments.server), files::random_id());
    let hold = |instance, guarded| hold(instance, &arguments, guarded);
    match arguments.guarded.clone() {
        Some(instance) => hold(instance, owner::watched_guard()),
        None => owner::guarded(GuardedRole::Server, instance(), hold),
    }
}

/// Forwards messages between this process's stdin and stdout and the owner of a task.
fn forward(task: &str) -> ExitCode {
    let (config, _) = shared::load_config();
    let state = match shared::state_directory(&config) {
        Ok(state) => state,
        Err(code) => return code,
    };
    let Some(owner) = peer::shim_of(state, task) else {
        output::complain(format_args!(
            "no task {task} runs here: zsh_tasks with this host and all=true lists the tasks"
        ));
        return ExitCode::FAILURE;
    };
    let forwarded = local_socket::connect(&owner.directory, CONTROL_SOCKET).and_then(|stream| {
        let (mut answers, mut commands) = (stream.try_clone()?, stream);
        std::thread::Builder::new().name("input".to_owned()).spawn(move || {
            let _ = io::copy(&mut io::stdin().lock(), &mut commands);
            let _ = commands.shutdown(Shutdown::Both);
        })?;
        // stdout is flushed at each line's end, and every message is a line.
        io::copy(&mut answers, &mut io::stdout())?;
        Ok(())
    });
    match forwarded {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            output::complain(format_args!("the owner of task {task} cannot be reached: {error}"));
            ExitCode::FAILURE
        }
    }
}

/// The prefix of the names of a server's far sides.
fn far_prefix(server: &str) -> String {
    format!("{SHIM_PREFIX}{server}-")
}

fn hold(instance: String, arguments: &FarArguments, guarded: Option<Guarded>) -> ExitCode {
    let owner = TaskOwner::start(instance);
    let (message_limit, supervisor) = (owner.message_limit, Arc::clone(&owner.supervisor));
    if let Err(error) = payload::remove_unused(SystemTime::now()) {
        tracing::warn!("cannot remove unused versions beside this program: {error}");
    }
    let (stop, stopped) = bounded(1);
    let guard = guarded.as_ref().map(|guarded| guarded.guard);
    let stopping = Arc::new(Cancel::default());
    let daemons = owner.config.daemons.clone();
    if let Err(error) = owner::watch_signals(guard, stop, Arc::clone(&stopping), daemons) {
        output::complain(format_args!("cannot handle signals: {error}"));
        return ExitCode::FAILURE;
    }
    let directory = supervisor.directory_made();
    let tools = owner.tools(None, Shims::from_guard(guarded));
    let (shown, known) = (Arc::clone(&supervisor), Arc::clone(&owner.recorder));
    let config = owner.config.clone();
    let routes = move || monitor::routes_beside(&shown, &config, &known, None);
    let _ = tools.pages.set(Box::new(FarPages::new(routes)));
    let control = ControlSocket::start(Arc::clone(&tools), message_limit, directory);
    let control = control.inspect_err(|error| tracing::error!("no control socket: {error}")).ok();
    owner.start_housekeeping();
    let earlier = supervisor.settings.state.as_deref().map(far_sides).unwrap_or_default();
    let own_earlier: Vec<PathBuf> = earlier
        .iter()
        .filter(|directory| is_of_server(directory, &arguments.server))
        .cloned()
        .collect();
    let holds: Vec<_> = earlier.into_iter().filter_map(keep).collect();
    let end = serve_connection(&tools, message_limit, &stopped);
    match end {
        Ok(ConnectionEnd::Ended) => {
            for directory in own_earlier {
                end_earlier(directory);
            }
        }
        Ok(ConnectionEnd::Lost) => {
            if let Some(control) = &control {
                control.note_closed();
            }
            let lease = Duration::try_from_secs_f64(arguments.linger).unwrap_or_default();
            let now = std::time::Instant::now();
            let unconnected_since =
                || control.as_ref().map_or(Some(now), ControlSocket::unconnected_since);
            owner::await_end(&supervisor, &stopping, Some(lease), unconnected_since);
        }
        Err(error) => output::complain(format_args!("cannot serve: {error}")),
    }
    drop(holds);
    owner.end(control);
    ExitCode::SUCCESS
}

/// How a connection has ended.
enum ConnectionEnd {
    /// The server or this process ends, which ends the tasks.
    Ended,
    Lost,
}

fn serve_connection(
    tools: &Arc<Tools>,
    message_limit: usize,
    stopped: &Receiver<()>,
) -> io::Result<ConnectionEnd> {
    let server = Arc::new(Server::new(Arc::clone(tools), Access::Carrier));
    let has_received = Arc::new(AtomicBool::new(false));
    let (receiver, receives) = (Arc::clone(&server), Arc::clone(&has_received));
    let receive = move |outbound: &Outbound, received| {
        receives.store(true, Ordering::Relaxed);
        receiver.receive(outbound, received);
    };
    let input = BlockingFile::new(io::stdin().as_fd().try_clone_to_owned()?);
    let output = BlockingFile::new(io::stdout().as_fd().try_clone_to_owned()?);
    let transport = Transport::start(Box::new(input), Box::new(output), message_limit, receive)?;
    let stopped = loop {
        select! {
            recv(transport.ended()) -> _ => break false,
            recv(stopped) -> _ => break true,
            recv(after(SILENCE_LIMIT)) -> _ => {
                if !has_received.swap(false, Ordering::Relaxed) {
                    break false;
                }
            }
        }
    };
    let ended = stopped || server.was_ended();
    if !ended {
        tools.connection_lost.store(true, Ordering::Relaxed);
    }
    server.cancel_calls();
    server.await_calls(LAST_CALLS);
    server.take_back_undelivered();
    transport.finish(FLUSH);
    Ok(if ended { ConnectionEnd::Ended } else { ConnectionEnd::Lost })
}

/// The living far sides of earlier connections.
fn far_sides(state: &Path) -> Vec<PathBuf> {
    let is_far = |directory: &PathBuf| {
        let name = directory.file_name().and_then(|name| name.to_str());
        let rest = name.and_then(|name| name.strip_prefix(SHIM_PREFIX));
        rest.is_some_and(|rest| rest.contains('-')) && journal::server_lives(directory)
    };
    journal::shims(state).into_iter().filter(is_far).collect()
}

fn is_of_server(directory: &Path, server: &str) -> bool {
    let name = directory.file_name().and_then(|name| name.to_str());
    name.is_some_and(|name| name.starts_with(&far_prefix(server)))
}

/// Stays connected to an earlier far side until the returned sender is dropped.
fn keep(directory: PathBuf) -> Option<crossbeam_channel::Sender<()>> {
    let mut peer = Peer::connect(Owner { directory }).ok()?;
    let (stop, stopped) = bounded::<()>(0);
    let run = move || {
        use crossbeam_channel::RecvTimeoutError::Timeout;
        while stopped.recv_timeout(HOLD_EVERY) == Err(Timeout) && peer.ping().is_ok() {}
    };
    let started = std::thread::Builder::new().name("earlier".to_owned()).spawn(run);
    started.is_ok().then_some(stop)
}

/// Ends an earlier far side and its tasks.
fn end_earlier(directory: PathBuf) {
    let owner = Owner { directory };
    owner.end();
    owner.await_end(ANSWER_LIMIT);
}
