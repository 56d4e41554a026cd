//! The signals that a command takes, on a thread of their own.
//!
//! Limits: that thread never ends before the process does; what a signal means is its
//! caller's.

use std::io;
use std::time::Instant;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::SignalsInfo;
use signal_hook::iterator::exfiltrator::WithRawSiginfo;

use crate::process::signals::{Request, Requests, is_ignored, sender, unblock};

/// By these a user or a system asks for the end.
pub(super) const ENDING: [i32; 3] = [SIGINT, SIGTERM, SIGHUP];

/// What a signal asks for; all carry its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Asked {
    /// The end, in order.
    End(i32),
    /// The end once more: now.
    EndAtOnce(i32),
    /// Something else.
    Else(i32),
}

/// Those that the caller has not chosen to ignore (`nohup`, `&` in a script), as they stay.
pub(super) fn not_ignored(signals: &[i32]) -> Vec<i32> {
    let taken = signals.iter().copied();
    taken.filter(|signal| !is_ignored(*signal)).collect()
}

/// Tells of these signals from now on, one after another, also of those that the caller
/// has blocked.
///
/// # Errors
/// When the system refuses, or no thread can be had.
pub(super) fn take(
    ending: Vec<i32>,
    others: &[i32],
    told: impl FnMut(Asked) + Send + 'static,
) -> io::Result<()> {
    take_below(None, ending, others, told)
}

/// The same below a guard, by its pid, which passes on what it is sent.
///
/// # Errors
/// As [`take`].
pub(super) fn take_below(
    guard: Option<i32>,
    ending: Vec<i32>,
    others: &[i32],
    mut told: impl FnMut(Asked) + Send + 'static,
) -> io::Result<()> {
    let mut signals = SignalsInfo::<WithRawSiginfo>::new(ending.iter().chain(others))?;
    // Not before there are handlers: one that waits would take its default action.
    unblock(ending.iter().chain(others).copied());
    std::thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || {
            let mut requests = Requests::with_relay(guard);
            for info in signals.forever() {
                let signal = info.si_signo;
                if !ending.contains(&signal) {
                    told(Asked::Else(signal));
                    continue;
                }
                match requests.note(Instant::now(), Some(sender(&info))) {
                    Request::First => told(Asked::End(signal)),
                    Request::Same => {}
                    Request::Again => told(Asked::EndAtOnce(signal)),
                }
            }
        })
        .map(drop)
}
