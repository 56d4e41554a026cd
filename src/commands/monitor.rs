//! `zsh-tool monitor`: the page and the HTTP interface for the tasks and runs of all
//! servers; and the same beside another command ([`start`]).
//!
//! The link with the token is printed once, and kept in a file of the server's own
//! directory where there is one. Limits: HTTP alone; on an address that others reach, who
//! listens in on the network sees everything, and the start says so.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use crossbeam_channel::{Receiver, bounded};

use super::signals::{self, Asked};
use super::{output, setup};
use crate::agent::checks::Checks;
use crate::cli::MonitorArguments;
use crate::config::Config;
use crate::mcp::overview::MonitorAt;
use crate::monitor::access::Token;
use crate::monitor::http::{self, Server};
use crate::monitor::response::Routes;
use crate::monitor::routes::Api;
use crate::monitor::sessions::Sessions;
use crate::process::files::{self, Temporary};
use crate::process::privacy;
use crate::record::recorder::Recorder;
use crate::task::supervisor::Supervisor;
use crate::text::redact::Redactor;

/// The file of a server's directory that holds the link.
const LINK_FILE: &str = "monitor.url";

/// A monitor that runs. Dropping it ends it.
pub struct Monitor {
    server: Server,
    link_file: Option<Temporary>,
}

/// Why there is none.
#[derive(Debug, thiserror::Error)]
pub enum MonitorError {
    /// Nothing to make a token of.
    #[error("cannot make a token for the monitor: {0}")]
    Token(io::Error),
    /// The address cannot be had.
    #[error(transparent)]
    Start(#[from] http::StartError),
}

/// Starts a monitor. The link goes to a file of this directory, if there is one.
///
/// # Errors
/// When it cannot listen there.
pub fn start(
    address: SocketAddr,
    routes: Arc<dyn Routes>,
    directory: Option<&Path>,
) -> Result<Monitor, MonitorError> {
    let digits = files::random_secret().map_err(MonitorError::Token)?;
    let token = Token::new(digits)
        .ok_or_else(|| MonitorError::Token(io::Error::other("too few random digits")))?;
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
            .inspect_err(|error| tracing::warn!("cannot write {}: {error}", file.display()))
            .ok()
            .map(|()| Temporary(file))
    });
    Ok(Monitor { server, link_file })
}

impl Monitor {
    /// The page with the token, for a person.
    pub fn link(&self) -> String {
        self.server.link()
    }

    /// Where it is, without the token.
    pub fn place(&self) -> MonitorAt {
        let file: Option<&PathBuf> = self.link_file.as_ref().map(|Temporary(path)| path);
        MonitorAt {
            address: format!("http://{}/", self.server.address()),
            link_file: file.cloned(),
        }
    }
}

/// What answers the requests: all that the state directory tells, and the tasks of this
/// process, if it runs any.
pub fn routes(
    config: &Config,
    own: Option<Arc<Supervisor>>,
    recorder: &Arc<Recorder>,
    redactor: &Arc<Redactor>,
) -> Arc<dyn Routes> {
    let state = config.state_dir.as_ref().ok().cloned();
    // An agent program that judges runs as a task.
    let tasks = own.clone().unwrap_or_else(|| setup::supervisor(config));
    let judge = setup::judge(&config.judge, config, &tasks);
    let checks = Checks::new(judge, config.enable_concurrent_checks);
    let sessions = Sessions::new(state, own, Arc::clone(recorder), Arc::clone(redactor));
    Arc::new(Api::new(sessions, checks))
}

/// Runs the command.
pub fn run(arguments: &MonitorArguments) -> ExitCode {
    privacy::close_to_others();
    let (config, warnings) = setup::load_config();
    setup::start_log(&config);
    for warning in &warnings {
        tracing::warn!("{warning}");
    }
    let ended = match take_signals() {
        Ok(ended) => ended,
        Err(error) => {
            output::complain(format_args!("cannot take signals: {error}"));
            return ExitCode::FAILURE;
        }
    };
    let redactor = setup::redactor(&config);
    let recorder = setup::recorder(&config, &redactor);
    let routes = routes(&config, None, &recorder, &redactor);
    let code = match start(arguments.addr, routes, None) {
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

/// Tells of the first signal that asks for the end; the second ends the process at once.
/// Those that the caller has chosen to ignore (`nohup`) stay ignored.
fn take_signals() -> io::Result<Receiver<()>> {
    let (end, ended) = bounded(1);
    let ending = signals::not_ignored(&signals::ENDING);
    signals::take(ending, &[], move |asked| match asked {
        Asked::EndAtOnce(number) => std::process::exit(128 + number),
        Asked::End(_) | Asked::Else(_) => {
            let _ = end.try_send(());
        }
    })?;
    Ok(ended)
}
