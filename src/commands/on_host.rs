//! Commands of this program that run on a host: `exec --host`, and `log`, `kill` and `send` for a
//! task there. Each has a separate connection that carries stdin, stdout and stderr.
//!
//! Exit codes: that of the command there, as the carrier reports it (ssh: 255 for a lost
//! connection); 128 + N after signal N here, which ends the connection and, for `exec`, the command.
//!
//! Limits: if this process is killed with SIGKILL, the carrier and the remote command keep running.

use std::io::{self, IsTerminal, Read};
use std::os::fd::OwnedFd;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use super::output::{self, Output, OutputError};
use super::shared;
use super::signals::{self, EXIT_SIGNALLED, StopRequest};
use crate::peer::hosts::{HostError, Purpose};
use crate::process::descriptors::Waker;
use crate::text::terminal_filter::TerminalFilter;

/// As ssh, for a host that cannot be reached.
const EXIT_UNREACHED: u8 = 255;

/// The host and the id of a task on a host, as in `build1:3dc8c9ee`.
pub(super) fn task_on_host(task: &str) -> Option<(&str, &str)> {
    task.rsplit_once(':')
}

/// Runs this program with these arguments on a host.
pub(super) fn run(host: &str, words: &[String]) -> ExitCode {
    let (config, _) = shared::start();
    let hosts = shared::hosts(&config, Purpose::Command(words.to_vec()));
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
            output::complain(format_args!("cannot handle signals: {error}"));
            return ExitCode::FAILURE;
        }
    };
    // A terminal is not passed on: the remote side is no terminal.
    let input = Some(io::stdin()).filter(|stdin| !stdin.is_terminal());
    let ended =
        Output::stdout().map_err(OutputError::from).map_err(Failure::from).and_then(|stdout| {
            let mut stdout = stdout.filtered(TerminalFilter::for_record());
            let print = |bytes: &[u8]| stdout.write(bytes).map_err(Failure::from);
            host.run_command(input.map(Stdin), print, io::stderr(), &wakes)
        });
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

/// Returns a descriptor that becomes readable at the first signal that asks this process to end,
/// whose number is then in `number`.
fn interrupts(number: &Arc<AtomicI32>) -> io::Result<OwnedFd> {
    let (waker, wakes) = Waker::new()?;
    let number = Arc::clone(number);
    signals::handle(None, &[], move |request| match request {
        StopRequest::End(signal) => {
            number.store(signal, Ordering::Relaxed);
            waker.wake();
        }
        StopRequest::EndAtOnce(signal) => signals::exit_at_once(&[], signal),
        StopRequest::Other(_) => {}
    })?;
    Ok(wakes)
}

/// stdin without its lock, which another thread can own.
struct Stdin(io::Stdin);

impl Read for Stdin {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}
