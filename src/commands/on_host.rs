//! Commands of this program that run on a host: `exec --host`, and `log`, `kill` and `send` of a
//! task there. They have a connection of their own, over which the host's `zsh-tool` gets stdin and
//! is heard on stdout and stderr.
//!
//! Exit codes: those of the command there, as the carrier reports them (ssh: 255 for a lost
//! connection); 128 + N after signal N here, which ends the connection and, for `exec`, the command.
//!
//! Limits: SIGKILL leaves the carrier, and what it runs there, as it leaves a local command.

use std::io::{self, IsTerminal, Read};
use std::os::fd::OwnedFd;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use super::output::{self, Output, OutputError};
use super::setup;
use super::signals::{self, EXIT_SIGNALLED, StopRequest};
use crate::peer::hosts::{HostContext, HostError, Hosts, Purpose};
use crate::process::descriptors::Waker;
use crate::process::survivors;

/// As ssh, for a host that cannot be reached.
const EXIT_UNREACHED: u8 = 255;

/// The host and the id of a task on a host, as in `build1:3dc8c9ee`.
pub(super) fn task_on_host(task: &str) -> Option<(&str, &str)> {
    task.rsplit_once(':')
}

/// Runs a command of this program there, by its arguments.
pub(super) fn run(host: &str, words: &[String]) -> ExitCode {
    let (config, _) = setup::start();
    let hosts = Hosts::new(
        config.hosts.clone(),
        &HostContext {
            purpose: Purpose::Command(words.to_vec()),
            environment: setup::environment(&config),
            daemons: config.daemons.clone().into(),
        },
    );
    let host = match hosts.find(host) {
        Ok(host) => host,
        Err(unknown) => {
            output::complain(unknown);
            return ExitCode::from(output::EXIT_USAGE);
        }
    };
    let number = Arc::new(AtomicI32::new(0));
    let wakes = match interrupts(&number) {
        Ok(wakes) => wakes,
        Err(error) => {
            output::complain(format_args!("cannot take signals: {error}"));
            return ExitCode::FAILURE;
        }
    };
    // A terminal here is none there.
    let input = Some(io::stdin()).filter(|stdin| !stdin.is_terminal());
    let ended = Output::stdout().map_err(OutputError::from).map_err(Failure::from).and_then(
        |mut stdout| {
            let print = |bytes: &[u8]| stdout.write(bytes).map_err(Failure::from);
            host.run_command(input.map(Stdin), print, io::stderr(), &wakes)
        },
    );
    let code = match ended {
        Ok(Some(code)) => code,
        Ok(None) => EXIT_SIGNALLED + number.load(Ordering::Relaxed),
        Err(Failure::Host(error)) => {
            output::complain(error);
            EXIT_UNREACHED.into()
        }
        Err(Failure::Output(error)) => error.report().into(),
    };
    ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX))
}

/// Why nothing was run, or its output is incomplete.
enum Failure {
    Host(HostError),
    Output(OutputError),
}

impl From<HostError> for Failure {
    fn from(error: HostError) -> Failure {
        Failure::Host(error)
    }
}

impl From<OutputError> for Failure {
    fn from(error: OutputError) -> Failure {
        Failure::Output(error)
    }
}

/// Becomes readable at the first signal that asks for the end, whose number is stored.
fn interrupts(number: &Arc<AtomicI32>) -> io::Result<OwnedFd> {
    let (waker, wakes) = Waker::new()?;
    let number = Arc::clone(number);
    signals::take(None, &[], move |request| match request {
        StopRequest::End(signal) => {
            number.store(signal, Ordering::Relaxed);
            waker.wake();
        }
        StopRequest::EndAtOnce(signal) => {
            survivors::kill_all(&[]);
            std::process::exit(EXIT_SIGNALLED + signal);
        }
        StopRequest::Else(_) => {}
    })?;
    Ok(wakes)
}

/// stdin without its lock, to be read on a thread.
struct Stdin(io::Stdin);

impl Read for Stdin {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}
