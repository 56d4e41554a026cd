//! The guard where there is no subreaper: the process that the client starts, and the
//! parent of the server proper.
//!
//! The server tells it of every process group that begins and ends. Whatever kills the
//! server, the guard ends the groups that are left, and exits with the server's code. The
//! two are joined by a socket: its end tells the server that the guard was killed.
//!
//! Limits: what has left its group lives on, and so does what the server started and was
//! killed before it could tell.

use std::collections::BTreeSet;
use std::io::{self, BufRead, BufReader, Read};
use std::os::fd::{AsFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, bounded};
use parking_lot::Mutex;
use rustix::process::{Pid, WaitOptions};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::process::close_on_exec;
use crate::process::groups::{self, News};
use crate::process::privacy;
use crate::process::signals::{self, Exit, Request, Requests, Signal, group_lives, is_ignored};

/// From SIGTERM to SIGKILL for what outlives the server.
const GRACE: Duration = Duration::from_millis(500);
/// After SIGKILL: a process that does not go by then hangs in the kernel.
const PATIENCE: Duration = Duration::from_secs(1);
/// The socket's number in the server, below the side-band's.
const LINK: RawFd = 8;
/// Signals that wait to be taken.
const SIGNALS: usize = 16;

type Groups = Arc<Mutex<BTreeSet<i32>>>;

/// Starts `program arguments…` under guard, waits for its end and ends the groups that it
/// left. Programs that are to be spared have left them, as whoever leads a session has.
///
/// # Errors
/// When the server cannot be started; the caller may serve unguarded then.
pub fn run(arguments: &[&str], _spared: impl FnOnce() -> Vec<String>) -> io::Result<i32> {
    signals::stop_ignoring_children();
    let (ours, theirs) = UnixStream::pair()?;
    // Neither end may sit at the number that one of them is copied to.
    let ours = UnixStream::from(rustix::io::fcntl_dupfd_cloexec(ours, LINK + 1)?);
    let theirs = rustix::io::fcntl_dupfd_cloexec(theirs, LINK + 1)?;
    // SAFETY: the program owns no descriptor of that number yet: no other thread or file
    // of ours exists, and what the client left there is unused.
    unsafe { close_on_exec::copy_to(theirs.as_fd(), LINK)? };
    drop(theirs);
    let signals = take_signals()?;
    let mut command = Command::new(std::env::current_exe()?);
    command.arg0("zsh-tool").args(arguments);
    // SAFETY: only system calls that are safe between fork and exec.
    unsafe {
        command.pre_exec(move || {
            // A session of its own: what is sent to the client's process group reaches
            // the guard alone, and the server holds no terminal of the client's.
            rustix::process::setsid()?;
            signals::reset_all();
            match libc::fcntl(LINK, libc::F_SETFD, 0) {
                0 => Ok(()),
                _ => Err(io::Error::last_os_error()),
            }
        });
    }
    let server = command.spawn();
    // SAFETY: the number was made above, and nothing else owns it.
    drop(unsafe { OwnedFd::from_raw_fd(LINK) });
    let server = Pid::from_child(&server?);
    privacy::close_to_others();
    let groups = Groups::default();
    let told = listen(ours, Arc::clone(&groups))?;
    let (exit, hurry) = wait_for_server(server, &signals);
    // The socket ends with the server; a child of its that has not become another program
    // by then holds it for a moment more.
    let _ = told.recv_timeout(PATIENCE);
    let living = || {
        let groups = groups.lock();
        let all = groups.iter().copied();
        all.filter(|group| group_lives(*group)).collect()
    };
    end(living, if hurry { Duration::ZERO } else { GRACE });
    Ok(exit.code())
}

/// TERM, then KILL to these groups, until nobody lives.
fn end(living: impl Fn() -> Vec<i32>, grace: Duration) {
    if !grace.is_zero() {
        groups::signal(&living(), &[Signal::Term, Signal::Cont]);
    }
    let left = groups::await_ends(&living, grace);
    groups::signal(&left, &[Signal::Kill]);
    groups::await_ends(&living, PATIENCE);
}

/// The signals that concern the guard, one by one, from now on. Those that the client has
/// chosen to ignore (`nohup`, `&` in a script) stay ignored.
fn take_signals() -> io::Result<Receiver<i32>> {
    let ending = [SIGTERM, SIGINT, SIGHUP];
    let ending = ending.into_iter().filter(|number| !is_ignored(*number));
    let taken = ending.chain([SIGCHLD]).collect::<Vec<_>>();
    let mut signals = Signals::new(&taken)?;
    signals::unblock(taken);
    let (give, take) = bounded(SIGNALS);
    std::thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || {
            for number in signals.forever() {
                if give.send(number).is_err() {
                    return;
                }
            }
        })?;
    Ok(take)
}

/// Keeps the groups that the server tells of; the receiver ends with the server.
fn listen(server: UnixStream, groups: Groups) -> io::Result<Receiver<()>> {
    let (give, take) = bounded(0);
    std::thread::Builder::new()
        .name("groups".to_owned())
        .spawn(move || {
            let lines = BufReader::new(server).lines();
            for line in lines.map_while(Result::ok) {
                match News::parse(&line) {
                    Some(News::Begun(group)) => groups.lock().insert(group),
                    Some(News::Ended(group)) => groups.lock().remove(&group),
                    None => false,
                };
            }
            drop(give);
        })?;
    Ok(take)
}

/// The server's end, and whether it was asked for more than once.
fn wait_for_server(server: Pid, signals: &Receiver<i32>) -> (Exit, bool) {
    let mut requests = Requests::default();
    let mut hurry = false;
    for number in signals {
        let signal = match number {
            SIGTERM => Signal::Term,
            SIGINT => Signal::Int,
            SIGHUP => Signal::Hup,
            _ => match rustix::process::waitpid(Some(server), WaitOptions::NOHANG) {
                Ok(Some((_, status))) => {
                    let exit = match status.exit_status() {
                        Some(code) => Exit::Code(code),
                        None => Exit::Signal(status.terminating_signal().unwrap_or(libc::SIGKILL)),
                    };
                    return (exit, hurry);
                }
                Ok(None) | Err(rustix::io::Errno::INTR) => continue,
                // No such child: it cannot be waited for any more.
                Err(_) => return (Exit::Code(1), hurry),
            },
        };
        let request = requests.note(Instant::now(), None);
        hurry |= request == Request::Again;
        if request != Request::Same {
            let _ = rustix::process::kill_process(server, signal.raw());
        }
    }
    // The thread that takes signals lives as long as the process.
    (Exit::Code(1), hurry)
}

/// For the server: tells the guard of groups from now on, and ends this process by SIGTERM
/// when the guard is killed.
///
/// # Errors
/// When there is no socket or no thread to be had: then the guard knows of nothing.
pub fn attend() -> io::Result<()> {
    // SAFETY: asks for the flags of a number that may or may not be open.
    if unsafe { libc::fcntl(LINK, libc::F_GETFD) } < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the guard has put the socket there, and this is called once.
    let guard = unsafe { UnixStream::from_raw_fd(LINK) };
    groups::tell(guard.try_clone()?);
    std::thread::Builder::new()
        .name("guard".to_owned())
        .spawn(move || {
            // Nothing is ever sent: this is the guard's end.
            let _ = (&guard).read(&mut [0]);
            let _ = rustix::process::kill_process(
                rustix::process::getpid(),
                rustix::process::Signal::TERM,
            );
        })?;
    Ok(())
}
