//! Handles a command's signals on a thread that runs until the process exits. What a signal
//! means is up to the command.

use std::io;
use std::time::Instant;

use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::SignalsInfo;
use signal_hook::iterator::exfiltrator::WithRawSiginfo;

use crate::process::signals::{Request, Requests, is_ignored, sender, unblock};
use crate::process::survivors;

/// Signals by which a user or the system asks for the end; SIGQUIT is Ctrl-\ on a terminal.
const ENDING: [i32; 4] = [SIGINT, SIGTERM, SIGHUP, SIGQUIT];

/// Added to a signal's number for the exit code of a process that it ended.
pub(super) const EXIT_SIGNALLED: i32 = 128;

/// What a signal asks for, with its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StopRequest {
    /// An orderly end.
    End(i32),
    /// The end at once: the second request.
    EndAtOnce(i32),
    /// Any other signal.
    Else(i32),
}

/// Calls `told` for each signal from now on, one after another, also for those that the
/// caller has blocked. Signals that ask for the end stay ignored where the caller ignores
/// them (`nohup`, `&` in a script). `guard` is the pid of a process that passes on what it
/// is sent.
///
/// # Errors
/// When the system refuses, or no thread can be had.
pub(super) fn take(
    guard: Option<i32>,
    others: &[i32],
    mut told: impl FnMut(StopRequest) + Send + 'static,
) -> io::Result<()> {
    let ending: Vec<i32> = ENDING.into_iter().filter(|signal| !is_ignored(*signal)).collect();
    let mut signals = SignalsInfo::<WithRawSiginfo>::new(ending.iter().chain(others))?;
    // Only once there are handlers: a pending signal would take its default action.
    unblock(ending.iter().chain(others).copied());
    std::thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || {
            let mut requests = Requests::with_relay(guard);
            for info in signals.forever() {
                let signal = info.si_signo;
                if !ending.contains(&signal) {
                    told(StopRequest::Else(signal));
                    continue;
                }
                match requests.note(Instant::now(), Some(sender(&info))) {
                    Request::First => told(StopRequest::End(signal)),
                    Request::Same => {}
                    Request::Again => told(StopRequest::EndAtOnce(signal)),
                }
            }
        })
        .map(drop)
}

/// Kills all processes that this one has started, and exits with the signal's exit code.
pub(super) fn exit_at_once(daemons: &[String], number: i32) -> ! {
    survivors::kill_all(daemons);
    std::process::exit(EXIT_SIGNALLED + number);
}
