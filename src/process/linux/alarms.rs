//! Timers that send a signal to their process, such as those of `timeout(1)` and `alarm(2)`.
//!
//! Limits: the kernel lists those of `timer_create(2)` alone, and not whether they are set. One of
//! `alarm(2)` or `setitimer(2)` shows only by a handler for its signal: a program without one, such
//! as a program that another one has become after `alarm`, seems to have none.

use super::runtimes::{Runtime, bit, signals};
use crate::process::processes;
use crate::progress::wait::SignalTimer;

/// The C library's own, for timers that call a function in a thread.
const SIGTIMER: i32 = 32;
/// Signals that do nothing by default.
const HARMLESS: u64 =
    bit(libc::SIGCHLD) | bit(libc::SIGCONT) | bit(libc::SIGURG) | bit(libc::SIGWINCH);

/// What the timers of a process may do to it, apart from those of its runtime.
pub(super) fn timer_of(pid: i32) -> Option<SignalTimer> {
    let handled = signals(pid, "SigCgt:");
    if handles_alarm(handled) {
        return Some(SignalTimer::Ends);
    }
    let timers = processes::read_proc_text(processes::proc_directory(pid).join("timers")).ok()?;
    if timers.is_empty() || Runtime::detect(pid).hides_waits() {
        return None;
    }
    let ignored = signals(pid, "SigIgn:");
    let effects =
        sent_by(&timers).into_iter().filter_map(|signal| effect(signal, handled, ignored));
    effects.reduce(|one, other| if one == SignalTimer::Ends { one } else { other })
}

/// Whether a process handles the signal of `alarm(2)` and `setitimer(2)`. Readline, Ruby and libraries
/// that clean up at the end handle it with each other signal that ends a process, such as that of a
/// hangup, and set no timer.
fn handles_alarm(handled: u64) -> bool {
    handled & bit(libc::SIGALRM) != 0 && handled & bit(libc::SIGHUP) == 0
}

fn effect(signal: i32, handled: u64, ignored: u64) -> Option<SignalTimer> {
    let signal = bit(signal);
    if handled & signal != 0 {
        return Some(SignalTimer::Wakes);
    }
    ((ignored | HARMLESS) & signal == 0).then_some(SignalTimer::Ends)
}

/// The signals that the timers in a text of `/proc/<pid>/timers` send:
///
/// ```text
/// ID: 0
/// signal: 14/00005581a5d8b2a0
/// notify: signal/pid.4711
/// ClockID: 1
/// ```
///
/// Those on a clock of CPU time stand still while a process waits.
fn sent_by(timers: &str) -> Vec<i32> {
    let lines: Vec<&str> = timers.lines().collect();
    let each = lines.chunk_by(|_, next| !next.starts_with("ID:"));
    each.filter_map(|timer| signal_of(&timer.join("\n"))).collect()
}

/// The signal of one timer, if it comes while its process waits.
fn signal_of(timer: &str) -> Option<i32> {
    let clock: i32 = processes::field(timer, "ClockID:")?.parse().ok()?;
    let stands_still = clock < 0
        || clock == libc::CLOCK_PROCESS_CPUTIME_ID
        || clock == libc::CLOCK_THREAD_CPUTIME_ID;
    let is_sent = processes::field(timer, "notify:")?.starts_with("signal/");
    let (signal, _) = processes::field(timer, "signal:")?.split_once('/')?;
    let signal = signal.parse().ok()?;
    (is_sent && !stands_still && (1..=64).contains(&signal) && signal != SIGTIMER).then_some(signal)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timer(signal: i32, notify: &str, clock: i32) -> String {
        format!("ID: 0\nsignal: {signal}/00005581a5d8b2a0\nnotify: {notify}\nClockID: {clock}\n")
    }

    fn sent(timers: &[String]) -> Vec<i32> {
        sent_by(&timers.concat())
    }

    #[test]
    fn timers_name_their_signals() {
        let alarm = timer(14, "signal/pid.4711", 1);
        assert_eq!(sent(&[alarm.clone(), timer(34, "signal/tid.4711", 0)]), [14, 34]);
        assert_eq!(sent(&[timer(14, "none/pid.4711", 1)]), [0; 0]);
        assert_eq!(sent(&[timer(32, "signal/tid.4712", 1)]), [0; 0], "the C library's own");
        assert_eq!(sent(&[timer(27, "signal/pid.4711", 2)]), [0; 0], "CPU time");
        assert_eq!(sent(&[timer(27, "signal/pid.4711", -22)]), [0; 0], "another's CPU time");
        assert_eq!(sent(&[timer(99, "signal/pid.4711", 1), alarm]), [14]);
        assert_eq!(sent(&["ID: 0\nsignal".to_owned()]), [0; 0]);
        assert_eq!(sent(&[]), [0; 0]);
    }

    #[test]
    fn a_signal_without_a_handler_ends_its_process() {
        let alarm = bit(libc::SIGALRM);
        assert_eq!(effect(libc::SIGALRM, 0, 0), Some(SignalTimer::Ends));
        assert_eq!(effect(libc::SIGALRM, alarm, 0), Some(SignalTimer::Wakes));
        assert_eq!(effect(libc::SIGALRM, 0, alarm), None);
        assert_eq!(effect(libc::SIGURG, 0, 0), None);
        assert!(handles_alarm(alarm));
        assert!(!handles_alarm(alarm | bit(libc::SIGHUP)) && !handles_alarm(0));
        assert_eq!(timer_of(std::process::id() as i32), None);
        assert_eq!(timer_of(50_000_000), None);
    }

    proptest::proptest! {
        #[test]
        fn no_text_panics(text in "(ID: |signal: |notify: |ClockID: |[0-9/]|\n|.){0,60}") {
            let _ = sent_by(&text);
        }
    }
}
