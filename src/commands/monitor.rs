//! `zsh-tool monitor`: the dashboard and the HTTP interface for the tasks and runs of all servers.
//! Other commands serve them too, with [`start_beside`].
//!
//! The link with the token is printed once on stdout, and kept in a file in the server's directory,
//! if any. It is not written to a server's stderr, which clients keep in logs that others may read.
//! Limits: plain HTTP; on an address that other machines can reach, anyone on the network can read
//! everything, and a warning says so.

use std::io::{self, IsTerminal};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use crossbeam_channel::{Receiver, bounded};

use super::signals::{self, StopRequest};
use super::{output, shared};
use crate::agent::checks::Checks;
use crate::config::Config;
use crate::history::recorder::Recorder;
use crate::mcp::dispatch::MonitorAddress;
use crate::monitor::api::Api;
use crate::monitor::http::access::Token;
use crate::monitor::http::listener::{Server, StartError};
use crate::monitor::http::request::Request;
use crate::monitor::http::response::{Response, Routes};
use crate::monitor::sessions::Sessions;
use crate::peer::hosts::Hosts;
use crate::process::files::{self, Temporary};
use crate::process::memory;
use crate::task::sandboxes;
use crate::task::supervisor::Supervisor;
use crate::text::foreign::ShowPath;
use crate::text::redact::Redactor;

/// The file of a server's directory that holds the link.
const LINK_FILE: &str = "monitor.url";

/// A running monitor. Dropping it stops it.
pub(crate) struct Monitor {
    server: Server,
    link_file: Option<Temporary>,
}

/// Starts a monitor, and writes its link to a file in `directory`.
///
/// # Errors
/// When it cannot listen there.
fn start(
    address: SocketAddr,
    routes: Arc<dyn Routes>,
    directory: Option<&Path>,
) -> Result<Monitor, StartError> {
    let token = Token::new(files::random_secret()?)
        .ok_or_else(|| io::Error::other("too few random digits"))?;
    let server = Server::start(address, token, routes)?;
    if !address.ip().is_loopback() {
        output::complain(format_args!(
            "the monitor at {} can be reached by other machines, and nothing is encrypted",
            server.address()
        ));
    }
    let link_file = directory.and_then(|directory| {
        let file = directory.join(LINK_FILE);
        files::replace_private(&file, format!("{}\n", server.link()).as_bytes())
            .inspect_err(|error| tracing::warn!("cannot write {}: {error}", file.shown()))
            .ok()
            .map(|()| Temporary(file))
    });
    Ok(Monitor { server, link_file })
}

/// Starts a monitor that also shows the tasks of this process.
///
/// # Errors
/// As [`start`].
pub(crate) fn start_beside(
    supervisor: &Arc<Supervisor>,
    address: SocketAddr,
    config: &Config,
    recorder: &Arc<Recorder>,
    hosts: Option<&Arc<Hosts>>,
) -> Result<Monitor, StartError> {
    let routes = routes_beside(supervisor, config, recorder, hosts);
    let directory = supervisor.directory().ok();
    start(address, routes, directory.map(|directory| directory.path.as_path()))
}

impl Monitor {
    /// The URL of the dashboard, with the token.
    pub(crate) fn link(&self) -> String {
        self.server.link()
    }

    /// The URL for a server's start line: with the token only if stderr is a terminal.
    pub(crate) fn announcement(&self) -> String {
        if io::stderr().is_terminal() { self.link() } else { self.location().to_string() }
    }

    /// The URL without the token, and the file that contains the link.
    pub(crate) fn location(&self) -> MonitorAddress {
        let file: Option<&PathBuf> = self.link_file.as_ref().map(|Temporary(path)| path);
        MonitorAddress {
            address: format!("http://{}/", self.server.address()),
            link_file: file.cloned(),
        }
    }
}

/// The routes of a process that runs tasks.
pub(super) fn routes_beside(
    supervisor: &Arc<Supervisor>,
    config: &Config,
    recorder: &Arc<Recorder>,
    hosts: Option<&Arc<Hosts>>,
) -> Arc<dyn Routes> {
    let redactor = &supervisor.settings.redactor;
    routes(config, Some(Arc::clone(supervisor)), hosts.cloned(), recorder, redactor)
}

/// The routes for everything in the state directory, and for the tasks and the hosts of this
/// process, if it has any.
fn routes(
    config: &Config,
    own: Option<Arc<Supervisor>>,
    hosts: Option<Arc<Hosts>>,
    recorder: &Arc<Recorder>,
    redactor: &Arc<Redactor>,
) -> Arc<dyn Routes> {
    let state = config.state_dir.as_ref().ok().cloned();
    let (recorder, redactor) = (Arc::clone(recorder), Arc::clone(redactor));
    let api = move |own: Option<Arc<Supervisor>>, judges: &Arc<Supervisor>| {
        let judge = shared::judge(&config.judge, config, judges);
        let checks = Checks::new(judge, config.enable_concurrent_checks);
        let executors = shared::executors(config)
            .inspect_err(|error| tracing::warn!("agents' records are shown unformatted: {error}"))
            .ok();
        let sandbox = sandboxes::summary(&judges.settings.sandbox);
        let sessions = Sessions::new(state, own, recorder, redactor, executors, sandbox);
        Api::new(sessions, checks, hosts)
    };
    match own {
        Some(own) => Arc::new(api(Some(Arc::clone(&own)), &own)),
        None => {
            let judges = shared::supervisor(config);
            let api = api(None, &judges);
            Arc::new(WithJudges { api, judges })
        }
    }
}

/// Routes of a process that runs no tasks except the agent programs that judge.
struct WithJudges {
    api: Api,
    judges: Arc<Supervisor>,
}

impl Routes for WithJudges {
    fn answer(&self, request: &Request) -> Response {
        self.api.answer(request)
    }

    fn close(&self) {
        self.api.close();
        self.judges.shut_down();
        self.judges.remove_server_dir();
    }
}

/// Runs the command.
pub(crate) fn run(address: SocketAddr) -> ExitCode {
    memory::hide_from_other_processes();
    let (config, _) = shared::start();
    let ended = match watch_signals() {
        Ok(ended) => ended,
        Err(error) => {
            output::complain(format_args!("cannot handle signals: {error}"));
            return ExitCode::FAILURE;
        }
    };
    let redactor = shared::redactor(&config);
    let recorder = shared::recorder(&config, &redactor);
    let routes = routes(&config, None, None, &recorder, &redactor);
    let code = match start(address, routes, None) {
        Ok(monitor) => {
            let printed = output::print(&format!("{}\n", monitor.link()));
            if printed.is_ok() {
                let _ = ended.recv();
            }
            drop(monitor);
            output::conclude(printed, 0)
        }
        Err(error) => {
            output::complain(error);
            ExitCode::FAILURE
        }
    };
    recorder.close();
    code
}

/// Receives a message at the first signal that asks for the end. The second ends the process at
/// once.
fn watch_signals() -> io::Result<Receiver<()>> {
    let (end, ended) = bounded(1);
    signals::handle(None, &[], move |request| match request {
        StopRequest::EndAtOnce(number) => std::process::exit(signals::EXIT_SIGNALLED + number),
        StopRequest::End(_) | StopRequest::Other(_) => {
            let _ = end.try_send(());
        }
    })?;
    Ok(ended)
}
