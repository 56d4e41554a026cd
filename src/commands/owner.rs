//! A process that owns tasks: what a server, a shim and the far side of a host have in common.

use std::io;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::Sender;

use super::signals::{self, StopRequest};
use super::{output, shared};
use crate::base::cancel::Cancel;
use crate::config::{Config, Warning};
use crate::history::recorder::Recorder;
use crate::mcp::control::ControlSocket;
use crate::mcp::dispatch::{MonitorAddress, Shims, Tools};
use crate::peer::hosts::Hosts;
use crate::process::guard::{self, After, Guarded, GuardedRole, Side};
use crate::process::memory;
use crate::process::signals::Exit;
use crate::task::live::{LiveState, WaitStep};
use crate::task::supervisor::Supervisor;
use crate::task::{journal, tombstone};

/// How long other processes may take to read the tasks' ends.
const LAST_ANSWERS: Duration = Duration::from_secs(1);

/// Becomes the guard of a process that `run` makes an owner of tasks, and returns in both. Without a
/// guard, a server runs all the same; a shim does not.
pub(super) fn guarded(
    role: GuardedRole,
    instance: String,
    run: impl FnOnce(String, Option<Guarded>) -> ExitCode,
) -> ExitCode {
    match guard::start(role, &instance) {
        Ok(Side::Guard(guard)) => {
            let daemons = || shared::load_config().0.daemons;
            match guard.run(daemons, conclude) {
                After::Ended { instance, exit, reaped, not_replaced } => {
                    conclude(&instance, exit, &reaped);
                    if let Some(reason) = not_replaced {
                        output::complain(format_args!("the server is gone ({reason})"));
                    }
                    ExitCode::from(u8::try_from(exit.code()).unwrap_or(u8::MAX))
                }
                After::Restarted { instance, guarded } => run(instance, Some(guarded)),
            }
        }
        Ok(Side::Server(guarded)) => run(instance, Some(guarded)),
        // The server notices that the descriptor was closed.
        Err(_) if role == GuardedRole::Shim => ExitCode::FAILURE,
        Err(error) => {
            output::complain(format_args!(
                "no guard ({error}): if this process is killed, processes may be left behind"
            ));
            run(instance, None)
        }
    }
}

/// The guard of a process that it has started as a program of its own; `None`, with a warning, if
/// there is none.
pub(super) fn watched_guard() -> Option<Guarded> {
    let guard = guard::watch_guard().inspect_err(|error| {
        output::complain(format_args!(
            "cannot talk to the guard ({error}): if this process is killed, processes may be left behind"
        ));
    });
    guard.ok()
}

/// Records the end of a server that had no time to do so, for later servers.
fn conclude(instance: &str, exit: Exit, reaped: &[(i32, Exit)]) {
    if exit != Exit::Code(0)
        && let Ok(state) = shared::load_config().0.state_dir
    {
        let directory = journal::servers_folder(&state).join(instance);
        tombstone::conclude(&directory, exit.into(), reaped);
    }
}

/// The parts of an owner of tasks.
pub(super) struct TaskOwner {
    pub(super) config: Config,
    pub(super) warnings: Vec<Warning>,
    /// The longest message of its clients, in bytes.
    pub(super) message_limit: usize,
    pub(super) supervisor: Arc<Supervisor>,
    pub(super) recorder: Arc<Recorder>,
    pub(super) hosts: Arc<Hosts>,
}

impl TaskOwner {
    pub(super) fn start(instance: String) -> TaskOwner {
        memory::hide_from_other_processes();
        memory::use_one_arena();
        let (config, warnings) = shared::start();
        shared::adopt_orphans();
        let supervisor = shared::supervisor_with_instance(instance, &config);
        TaskOwner {
            message_limit: shared::message_limit(&config),
            recorder: shared::recorder(&config, &supervisor.settings.redactor),
            hosts: Arc::new(Hosts::for_server(config.hosts.clone(), &supervisor)),
            config,
            warnings,
            supervisor,
        }
    }

    pub(super) fn tools(&self, monitor: Option<MonitorAddress>, shims: Shims) -> Arc<Tools> {
        Arc::new(Tools::new(
            Arc::clone(&self.supervisor),
            Arc::clone(&self.recorder),
            self.config.clone(),
            self.warnings.clone(),
            monitor,
            shims,
            Arc::clone(&self.hosts),
        ))
    }

    pub(super) fn start_housekeeping(&self) {
        shared::start_housekeeping(&self.supervisor, shared::release_memory(&self.recorder));
    }

    /// Ends the tasks, lets the connected processes read that, and leaves what later servers need.
    pub(super) fn end(self, control: Option<ControlSocket>) {
        self.supervisor.shut_down();
        if let Some(control) = control {
            control.finish(LAST_ANSWERS);
        }
        write_last(&self.supervisor);
        self.recorder.close();
        self.supervisor.leave_server_dir();
    }
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
fn write_last(supervisor: &Supervisor) {
    let Ok(directory) = supervisor.directory() else {
        return;
    };
    for task in supervisor.tasks() {
        let redactor = &supervisor.settings.redactor;
        if let Err(error) = journal::write_last(&directory.path, &task.live, &task.spools, redactor)
        {
            tracing::warn!("cannot write the file of task {}: {error}", task.id());
        }
    }
}

/// The first signal ends the process in order, the second at once.
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
