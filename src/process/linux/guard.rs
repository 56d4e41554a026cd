//! The guard: the process that the client starts. It is the parent and the subreaper of
//! the server proper, so that whatever kills the server leaves no process behind.
//!
//! One thread, no data passes through it. It starts the server on the same stdin, stdout
//! and stderr, passes TERM, INT and HUP on unless the client ignores them, waits, ends what
//! is left, and exits with the server's code. When the guard itself is killed, the kernel
//! sends the server SIGTERM. That is safe here only because the thread that starts the
//! server is the guard's only one: the signal comes at the end of the parent *thread*.

use std::collections::HashSet;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::{Pid, WaitOptions};

use crate::process::kill::Handle;
use crate::process::signals::{self, Exit, Request, Requests, Signal, is_ignored};
use crate::process::tree::{Identity, Snapshot};
use crate::process::{orphans, privacy};

/// From SIGTERM to SIGKILL for what outlives the server.
const GRACE: Duration = Duration::from_millis(500);
/// After SIGKILL: a process that does not go by then hangs in the kernel.
const PATIENCE: Duration = Duration::from_secs(1);
/// How often new descendants are looked for while waiting.
const RESCAN: Duration = Duration::from_millis(50);

/// Starts `program arguments…` under guard, waits for its end and ends what it left.
/// Programs named in `spared` that lead a session of their own live on, and so does
/// whoever was this process's child before.
///
/// # Errors
/// When the server cannot be started; the caller may serve unguarded then.
pub fn run(arguments: &[&str], spared: impl FnOnce() -> Vec<String>) -> io::Result<i32> {
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
    privacy::close_to_others();
    let server = Pid::from_child(&server);
    let mut requests = Requests::default();
    let (exit, hurry) = wait_for_server(server, &signals, &mut requests);
    end_descendants(&signals, &mut requests, hurry, spared);
    Ok(exit.code())
}

/// For the server: the kernel has been told to send it SIGTERM when the guard is killed,
/// and the guard finds its processes by itself, so that nothing is left to do.
///
/// # Errors
/// None.
pub fn attend() -> io::Result<()> {
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

/// Reaps whatever has ended; the server's end is the answer.
fn reap_for(server: Pid) -> Option<Exit> {
    loop {
        match rustix::process::wait(WaitOptions::NOHANG) {
            Ok(Some((pid, status))) if pid == server => {
                return Some(match status.exit_status() {
                    Some(code) => Exit::Code(code),
                    None => Exit::Signal(status.terminating_signal().unwrap_or(libc::SIGKILL)),
                });
            }
            Ok(Some(_)) | Err(rustix::io::Errno::INTR) => {}
            Ok(None) => return None,
            // No child at all: the server cannot be waited for any more.
            Err(_) => return Some(Exit::Code(1)),
        }
    }
}

/// TERM, then KILL to all that lives below the guard, until nobody does.
fn end_descendants(
    signals: &SignalSet,
    requests: &mut Requests,
    mut hurry: bool,
    spared: impl FnOnce() -> Vec<String>,
) {
    if !reap_all() {
        return;
    }
    let spared = spared();
    let start = Instant::now();
    let mut told: HashSet<(Identity, bool)> = HashSet::new();
    loop {
        let snapshot = Snapshot::take();
        let left: Vec<_> = snapshot
            .descendants_but(std::process::id() as i32, |process| {
                process.is_daemon(&spared) || orphans::is_elder(process)
            })
            .into_iter()
            .filter(|process| !process.zombie)
            .map(|process| process.id)
            .collect();
        let waited = start.elapsed();
        // Who cannot be seen may live: whether there are children is known in any case.
        let nobody = left.is_empty() && (snapshot.is_whole() || !reap_all());
        if nobody || waited > GRACE + PATIENCE {
            reap_all();
            return;
        }
        let last_resort = hurry || waited >= GRACE;
        for id in left {
            if told.insert((id, last_resort)) {
                end(id, last_resort);
            }
        }
        let asked = signals.wait(Some(RESCAN));
        hurry |= asked.is_some() && requests.note(Instant::now(), None) != Request::Same;
        reap_all();
    }
}

fn end(id: Identity, last_resort: bool) {
    let Ok(process) = Handle::open(id) else {
        return;
    };
    let order: &[Signal] = if last_resort {
        &[Signal::Kill]
    } else {
        &[Signal::Term, Signal::Cont]
    };
    for signal in order {
        let _ = process.signal(*signal);
    }
}

/// Reaps all ended children; whether living ones are left.
fn reap_all() -> bool {
    loop {
        match rustix::process::wait(WaitOptions::NOHANG) {
            Ok(Some(_)) | Err(rustix::io::Errno::INTR) => {}
            Ok(None) => return true,
            Err(_) => return false,
        }
    }
}

/// The signals that the guard takes one by one instead of by handlers.
///
/// When it is dropped the mask is as it was: a server that serves without a guard takes
/// its signals by handlers.
struct SignalSet {
    set: libc::sigset_t,
    before: libc::sigset_t,
}

impl SignalSet {
    /// Blocks TERM, INT, HUP and CHLD, so that they are taken by [`SignalSet::wait`].
    ///
    /// Those that the client has chosen to ignore (`nohup`, `&` in a script) stay ignored:
    /// the kernel would keep them for us as long as they are blocked.
    fn block() -> SignalSet {
        let ending = [libc::SIGTERM, libc::SIGINT, libc::SIGHUP];
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

    /// Waits for one of them; the answer is a signal to pass on, or `None` for a
    /// child's end, the time's end or an interruption.
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
        match number {
            libc::SIGTERM => Some(Signal::Term),
            libc::SIGINT => Some(Signal::Int),
            libc::SIGHUP => Some(Signal::Hup),
            _ => None,
        }
    }
}

impl Drop for SignalSet {
    fn drop(&mut self) {
        // SAFETY: the former mask is initialised; it is given back to the same thread.
        unsafe { libc::sigprocmask(libc::SIG_SETMASK, &self.before, std::ptr::null_mut()) };
    }
}
