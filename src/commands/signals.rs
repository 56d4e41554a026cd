//! Handles a command's signals on a thread that runs until the process exits. Each command decides
//! what a signal means.

use std::io;
use std::time::Instant;

use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::SignalsInfo;
use signal_hook::iterator::exfiltrator::WithRawSiginfo;

use crate::process::signals::{EndRequest, EndRequests, is_ignored, sender, unblock};
use crate::process::survivors;

/// Signals that ask the process to end; SIGQUIT is Ctrl-\ on a terminal.
const ENDING: [i32; 4] = [SIGINT, SIGTERM, SIGHUP, SIGQUIT];

/// Added to a signal's number for the exit code of a process that it ended.
pub(super) const EXIT_SIGNALLED: i32 = 128;

/// The meaning of a signal, with its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StopRequest {
    /// The first request to end.
    End(i32),
    /// The second request to end, which must not wait.
    EndAtOnce(i32),
    /// Any other signal.
    Other(i32),
}

/// Calls `handler` for each signal from now on, one after another, and unblocks these signals.
/// Signals that ask for the end stay ignored if this process ignores them, as one that `nohup` or
/// `&` in a script has started. `guard` is the pid of a process that relays its signals to this one.
///
/// # Errors
/// When the system refuses, or no thread can be started.
pub(super) fn handle(
    guard: Option<i32>,
    others: &[i32],
    mut handler: impl FnMut(StopRequest) + Send + 'static,
) -> io::Result<()> {
    let ending: Vec<i32> = ENDING.into_iter().filter(|signal| !is_ignored(*signal)).collect();
    let mut signals = SignalsInfo::<WithRawSiginfo>::new(ending.iter().chain(others))?;
    // After the handlers are installed: a pending signal would otherwise take its default action.
    unblock(ending.iter().chain(others).copied());
    std::thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || {
            let mut requests = EndRequests::with_relay(guard);
            for info in signals.forever() {
                let signal = info.si_signo;
                if !ending.contains(&signal) {
                    handler(StopRequest::Other(signal));
                    continue;
                }
                match requests.note(Instant::now(), Some(sender(&info))) {
                    EndRequest::First => handler(StopRequest::End(signal)),
                    EndRequest::Same => {}
                    EndRequest::Again => handler(StopRequest::EndAtOnce(signal)),
                }
            }
        })
        .map(drop)
}

/// Kills all processes that this process has started, and exits with the signal's exit code.
pub(super) fn exit_at_once(daemons: &[String], number: i32) -> ! {
    survivors::kill_all(daemons);
    std::process::exit(EXIT_SIGNALLED + number);
}
