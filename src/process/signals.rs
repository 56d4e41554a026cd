//! The signals that the tool sends and reports, by name; and which processes exist, which the
//! kernel reports for signal 0 without sending anything.

use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal as RawSignal, WaitStatus};
use serde::{Deserialize, Serialize};

/// Signals within this time are one request. A service manager sends them to all processes of a
/// group, to the guard and the server alike, and SIGHUP right after SIGTERM; no person or client
/// sends a second one within a tenth of a second.
const SAME_REQUEST: Duration = Duration::from_millis(50);

/// A signal that was sent to a process and to its relay arrives from both within this time, even on
/// a busy machine.
const RELAYED: Duration = Duration::from_secs(1);

/// A signal that a caller may ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Signal {
    /// SIGINT
    Int,
    /// SIGTERM
    Term,
    /// SIGKILL
    Kill,
    /// SIGHUP
    Hup,
    /// SIGQUIT
    Quit,
    /// SIGUSR1
    Usr1,
    /// SIGUSR2
    Usr2,
    /// SIGSTOP
    Stop,
    /// SIGCONT
    Cont,
}

impl Signal {
    /// All of them, in the order in which callers see them.
    pub(crate) const ALL: [Signal; 9] = [
        Signal::Int,
        Signal::Term,
        Signal::Kill,
        Signal::Hup,
        Signal::Quit,
        Signal::Usr1,
        Signal::Usr2,
        Signal::Stop,
        Signal::Cont,
    ];

    /// `INT`, `TERM`, …
    pub(crate) fn name(self) -> &'static str {
        self.named().0
    }

    /// The signal of a name, in upper or lower case, with or without `SIG`.
    pub(crate) fn from_name(name: &str) -> Option<Signal> {
        let upper = name.to_ascii_uppercase();
        let bare = upper.strip_prefix("SIG").unwrap_or(&upper);
        Signal::ALL.into_iter().find(|signal| signal.name() == bare)
    }

    pub(super) fn from_number(number: i32) -> Option<Signal> {
        let mut all = Signal::ALL.into_iter();
        all.find(|signal| signal.number() == number)
    }

    /// Whether the signal makes a process end.
    pub(crate) fn is_terminating(self) -> bool {
        matches!(self, Signal::Int | Signal::Term | Signal::Kill | Signal::Hup | Signal::Quit)
    }

    pub(crate) fn number(self) -> i32 {
        self.raw().as_raw()
    }

    pub(super) fn raw(self) -> RawSignal {
        self.named().1
    }

    fn named(self) -> (&'static str, RawSignal) {
        match self {
            Signal::Int => ("INT", RawSignal::INT),
            Signal::Term => ("TERM", RawSignal::TERM),
            Signal::Kill => ("KILL", RawSignal::KILL),
            Signal::Hup => ("HUP", RawSignal::HUP),
            Signal::Quit => ("QUIT", RawSignal::QUIT),
            Signal::Usr1 => ("USR1", RawSignal::USR1),
            Signal::Usr2 => ("USR2", RawSignal::USR2),
            Signal::Stop => ("STOP", RawSignal::STOP),
            Signal::Cont => ("CONT", RawSignal::CONT),
        }
    }
}

/// Distinguishes repeated requests to end from signals that repeat one request.
#[derive(Debug, Default)]
pub(crate) struct EndRequests {
    /// A process that forwards its signals, and when its first one came.
    relay: Option<(i32, Option<Instant>)>,
    /// When the first one of another process came.
    first: Option<Instant>,
}

/// What a signal to end means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EndRequest {
    /// The first request to end.
    First,
    /// A repetition of the same request.
    Same,
    /// A further request: the end takes too long.
    Again,
}

impl EndRequests {
    /// Requests that the process `pid` may forward to this one. A signal sent to both is one
    /// request, though the forwarded copy may come a little later.
    pub(crate) fn with_relay(pid: Option<i32>) -> EndRequests {
        EndRequests { relay: pid.map(|pid| (pid, None)), first: None }
    }

    /// Whether there was any.
    // Unused where no server is replaced.
    #[cfg_attr(any(not(target_os = "linux"), feature = "portable"), allow(dead_code))]
    pub(crate) fn is_any(&self) -> bool {
        self.first.is_some() || self.relay.is_some_and(|(_, first)| first.is_some())
    }

    /// Records a signal that has just come, with its sender if that is known.
    pub(crate) fn note(&mut self, now: Instant, sender: Option<i32>) -> EndRequest {
        let (first, other) = match &mut self.relay {
            Some((pid, first)) if sender == Some(*pid) => (first, self.first),
            relay => (&mut self.first, relay.and_then(|(_, first)| first)),
        };
        match (*first, other) {
            (None, other) => {
                *first = Some(now);
                match other {
                    None => EndRequest::First,
                    Some(first) if now < first + RELAYED => EndRequest::Same,
                    Some(_) => EndRequest::Again,
                }
            }
            (Some(first), _) if now < first + SAME_REQUEST => EndRequest::Same,
            (Some(_), _) => EndRequest::Again,
        }
    }
}

/// The pid of a signal's sender.
pub(crate) fn sender(signal: &libc::siginfo_t) -> i32 {
    // SAFETY: every signal that comes from a process has the field; in others it is a number
    // without a meaning.
    unsafe { signal.si_pid() }
}

/// Whether this process was started with a signal ignored, as by `nohup`. Call this before
/// installing a handler.
pub(crate) fn is_ignored(number: i32) -> bool {
    // SAFETY: without a new action the call only writes the present one into the local
    // variable, which is plain data.
    unsafe {
        let mut present: libc::sigaction = std::mem::zeroed();
        libc::sigaction(number, std::ptr::null(), &mut present) == 0
            && present.sa_sigaction == libc::SIG_IGN
    }
}

/// Unblocks signals for this thread and for those that it starts from now on: the handler of a
/// signal that the parent process had blocked would never run.
pub(crate) fn unblock(numbers: impl IntoIterator<Item = i32>) {
    // SAFETY: only reads the set, and changes the mask of this thread.
    unsafe { libc::pthread_sigmask(libc::SIG_UNBLOCK, &set_of(numbers), std::ptr::null_mut()) };
}

/// A set of signals for the C library. Safe between fork and exec.
pub(super) fn set_of(numbers: impl IntoIterator<Item = i32>) -> libc::sigset_t {
    // SAFETY: sigemptyset initialises the set before it is used; sigaddset refuses a number that
    // is no signal.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        for number in numbers {
            libc::sigaddset(&mut set, number);
        }
        set
    }
}

/// Restores SIGCHLD's default action if the client ignores the signal: otherwise the exit status of
/// children would be lost as they end. A handler remains.
pub(super) fn stop_ignoring_children() {
    if is_ignored(libc::SIGCHLD) {
        // SAFETY: sets the default action, which is to do nothing.
        unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
    }
}

/// Gives a new process the signal actions and the mask that programs expect at their start. It
/// would inherit what the client or the guard ignores or blocks, and a blocked SIGTERM or an
/// ignored SIGPIPE changes how programs behave. Safe between fork and exec.
pub(super) fn reset_all() {
    for signal in 1..=64 {
        // SAFETY: sets the default action; SIGKILL, SIGSTOP, those that the C library keeps for
        // itself and numbers of no signal refuse, harmlessly.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
    // SAFETY: only reads the set, and changes the mask of this process, which has one thread.
    unsafe { libc::sigprocmask(libc::SIG_SETMASK, &set_of([]), std::ptr::null_mut()) };
}

/// Whether a process lives and the kernel refuses to let this process signal it.
pub(crate) fn is_out_of_reach(pid: i32) -> bool {
    Pid::from_raw(pid)
        .is_some_and(|pid| rustix::process::test_kill_process(pid) == Err(rustix::io::Errno::PERM))
}

/// Whether a process lives, even if this process may not signal it.
pub(crate) fn lives(pid: i32) -> bool {
    Pid::from_raw(pid)
        .is_some_and(|pid| rustix::process::test_kill_process(pid) != Err(rustix::io::Errno::SRCH))
}

/// Whether a process group has members, even if this process may not signal them.
pub(crate) fn group_lives(group: i32) -> bool {
    Pid::from_raw(group).is_some_and(|group| {
        rustix::process::test_kill_process_group(group) != Err(rustix::io::Errno::SRCH)
    })
}

/// How a process ended, as its parent learns it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Exit {
    /// By `exit(n)`.
    Code(i32),
    /// By a signal of this number.
    Signal(i32),
}

impl From<WaitStatus> for Exit {
    fn from(status: WaitStatus) -> Exit {
        Exit::new(status.exit_status(), status.terminating_signal())
    }
}

impl Exit {
    /// From the exit code or the signal, one of which the kernel reports.
    pub(super) fn new(code: Option<i32>, signal: Option<i32>) -> Exit {
        match code {
            Some(code) => Exit::Code(code),
            None => Exit::Signal(signal.unwrap_or(libc::SIGKILL)),
        }
    }

    /// The shell's convention: the exit code, or 128 + signal.
    pub(crate) fn code(self) -> i32 {
        match self {
            Exit::Code(code) => code,
            Exit::Signal(number) => 128 + number,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_at_once_are_one_request_and_a_later_one_is_another() {
        let mut requests = EndRequests::default();
        let first = Instant::now();
        let after = |milliseconds| first + Duration::from_millis(milliseconds);
        let mut note = |now| requests.note(now, Some(7));
        assert_eq!(note(first), EndRequest::First);
        assert_eq!(note(first), EndRequest::Same);
        assert_eq!(note(after(49)), EndRequest::Same);
        assert_eq!(note(after(50)), EndRequest::Again);
        assert_eq!(note(after(51)), EndRequest::Again);
    }

    #[test]
    fn a_signal_that_a_relay_forwards_late_is_the_same_request() {
        let first = Instant::now();
        let later = first + Duration::from_millis(999);
        for senders in [[7, 3], [3, 7]] {
            let mut requests = EndRequests::with_relay(Some(3));
            let mut note = |now, sender| requests.note(now, Some(sender));
            assert_eq!(note(first, senders[0]), EndRequest::First);
            assert_eq!(note(later, senders[1]), EndRequest::Same);
            let again = later + SAME_REQUEST;
            assert_eq!(note(again, 3), EndRequest::Again);
            assert_eq!(note(again, 7), EndRequest::Again);
            let mut requests = EndRequests::with_relay(Some(3));
            let mut note = |now, sender| requests.note(now, Some(sender));
            assert_eq!(note(first, senders[0]), EndRequest::First);
            assert_eq!(note(first + RELAYED, senders[1]), EndRequest::Again);
        }
    }

    #[test]
    fn this_process_is_in_its_own_reach() {
        assert!(!is_out_of_reach(std::process::id() as i32));
    }
}
