//! The guard: the process that the client starts. It is the parent and the subreaper of
//! the server proper, so that whatever kills the server leaves no process behind.
//!
//! It has one thread, and no data passes through it. It starts the server on the same stdin,
//! stdout and stderr, forwards TERM, INT, HUP and QUIT unless the client ignores them, waits,
//! ends the remaining processes, and exits with the server's code. When the guard itself is
//! killed, the kernel sends the server SIGTERM. That is safe only because the thread that
//! starts the server is the guard's only one: the signal comes at the end of the parent
//! *thread*.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::{Pid, WaitOptions};

use crate::process::kill::handles;
use crate::process::signals::{self, Exit, Request, Requests, Signal, is_ignored};
use crate::process::terminate::{GRACE, PATIENCE, Termination};
use crate::process::tree::Snapshot;
use crate::process::{memory, orphans};

/// How often to search for new descendants while waiting.
const RESCAN: Duration = Duration::from_millis(50);

/// Starts the server under guard, waits for its end and ends the processes that it left.
/// Programs named in `spared` that lead a session of their own survive, and so do the children
/// that this process had before. Returns the server's exit, and those of the processes that
/// outlived it, by pid.
///
/// # Errors
/// When the server cannot be started; the caller may serve unguarded then.
pub(crate) fn run(
    arguments: &[&str],
    spared: impl FnOnce() -> Vec<String>,
) -> io::Result<(Exit, Vec<(i32, Exit)>)> {
    orphans::adopt()?;
    let signals = SignalSet::block();
    let guard = rustix::process::getpid();
    let mut command = Command::new("/proc/self/exe");
    command.arg0("zsh-tool").args(arguments);
    // SAFETY: only system calls that are safe between fork and exec.
    unsafe {
        command.pre_exec(move || {
            // A session of its own: what is sent to the client's process group reaches
            // the guard alone, and the server holds no terminal of the client's.
            rustix::process::setsid()?;
            signals::reset_all();
            rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::TERM))?;
            if rustix::process::getppid() != Some(guard) {
                return Err(io::Error::other("the guard is gone"));
            }
            Ok(())
        });
    }
    let server = command.spawn()?;
    memory::close_to_others();
    let server = Pid::from_child(&server);
    let mut requests = Requests::default();
    let (exit, hurry) = wait_for_server(server, &signals, &mut requests);
    let mut reaped = Vec::new();
    if reap_all(&mut reaped) {
        let spared = spared();
        let grace = if hurry { Duration::ZERO } else { GRACE };
        Termination::begin(grace, PATIENCE).finish(
            || {
                let snapshot = Snapshot::take();
                let left = orphans::below(&snapshot, &spared);
                // Processes that cannot be seen may be alive: whether there are children is
                // known in any case.
                let may_live =
                    !left.is_empty() || (!snapshot.is_whole() && orphans::has_children());
                may_live.then(|| handles(left))
            },
            |_, limit| {
                let asked = signals.wait(Some(limit.min(RESCAN)));
                reap_all(&mut reaped);
                asked.is_some() && requests.note(Instant::now(), None) != Request::Same
            },
        );
        reap_all(&mut reaped);
    }
    Ok((exit, reaped))
}

/// For the server. Does nothing: the kernel sends it SIGTERM when the guard is killed, and the
/// guard finds the server's processes without help.
pub(crate) fn attend() -> io::Result<()> {
    Ok(())
}

/// The server's end, and whether it was asked for more than once.
fn wait_for_server(server: Pid, signals: &SignalSet, requests: &mut Requests) -> (Exit, bool) {
    let mut hurry = false;
    loop {
        if let Some(exit) = reap_for(server) {
            return (exit, hurry);
        }
        let Some(signal) = signals.wait(None) else {
            continue;
        };
        let request = requests.note(Instant::now(), None);
        hurry |= request == Request::Again;
        if request != Request::Same {
            let _ = rustix::process::kill_process(server, signal.raw());
        }
    }
}

/// Reaps all ended children; returns the server's exit, if it is among them.
fn reap_for(server: Pid) -> Option<Exit> {
    loop {
        match rustix::process::wait(WaitOptions::NOHANG) {
            Ok(Some((pid, status))) if pid == server => {
                return Some(Exit::from(status));
            }
            Ok(Some(_)) | Err(rustix::io::Errno::INTR) => {}
            Ok(None) => return None,
            // No child at all: the server cannot be waited for any more.
            Err(_) => return Some(Exit::Code(1)),
        }
    }
}

/// Reaps all ended children and records how they ended; returns whether living ones remain.
fn reap_all(reaped: &mut Vec<(i32, Exit)>) -> bool {
    loop {
        match rustix::process::wait(WaitOptions::NOHANG) {
            Ok(Some((pid, status))) => reaped.push((pid.as_raw_pid(), Exit::from(status))),
            Err(rustix::io::Errno::INTR) => {}
            Ok(None) => return true,
            Err(_) => return false,
        }
    }
}

/// The signals that the guard waits for, instead of installing handlers.
///
/// When it is dropped the mask is as it was: a server that serves without a guard takes
/// its signals by handlers.
struct SignalSet {
    set: libc::sigset_t,
    before: libc::sigset_t,
}

impl SignalSet {
    /// Blocks TERM, INT, HUP, QUIT and CHLD, so that they are taken by [`SignalSet::wait`].
    ///
    /// Those that the client has chosen to ignore (`nohup`, `&` in a script) stay ignored:
    /// blocked, they would be queued for us all the same.
    fn block() -> SignalSet {
        let ending = [libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGQUIT];
        let ending = ending.into_iter().filter(|number| !is_ignored(*number));
        // SAFETY: the set is initialised by sigemptyset before use, the former mask by
        // sigprocmask, and the mask of the only thread is changed.
        unsafe {
            let mut set: libc::sigset_t = std::mem::zeroed();
            let mut before: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&mut set);
            for signal in ending.chain([libc::SIGCHLD]) {
                libc::sigaddset(&mut set, signal);
            }
            libc::sigprocmask(libc::SIG_BLOCK, &set, &mut before);
            SignalSet { set, before }
        }
    }

    /// Waits for one of them; returns the signal to forward, or `None` for a child's end, a
    /// timeout or an interruption.
    fn wait(&self, limit: Option<Duration>) -> Option<Signal> {
        // SAFETY: the set is initialised; no information is asked for.
        let number = unsafe {
            match limit {
                Some(limit) => {
                    let limit = libc::timespec {
                        // Its type goes by several names among the C libraries.
                        tv_sec: limit.as_secs() as _,
                        tv_nsec: limit.subsec_nanos().into(),
                    };
                    libc::sigtimedwait(&self.set, std::ptr::null_mut(), &limit)
                }
                None => libc::sigwaitinfo(&self.set, std::ptr::null_mut()),
            }
        };
        Signal::from_number(number)
    }
}

impl Drop for SignalSet {
    fn drop(&mut self) {
        // SAFETY: the former mask is initialised; it is given back to the same thread.
        unsafe { libc::sigprocmask(libc::SIG_SETMASK, &self.before, std::ptr::null_mut()) };
    }
}
