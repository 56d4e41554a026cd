//! The guard where there is no subreaper: the process that the client starts, and the
//! parent of the server proper.
//!
//! The server reports every process group that begins and ends. Whatever kills the server,
//! the guard ends the remaining groups and exits with the server's code. The two are
//! connected by a socket, whose end shows the server that the guard was killed.
//!
//! Limits: a process that has left its group survives, and so does one that the server
//! started right before it was killed, too late to report it. On macOS, which records what started
//! each process, both are killed unless a process between them and the server has ended.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Read};
use std::os::fd::{AsFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, bounded};
use parking_lot::Mutex;
use rustix::process::{Pid, WaitOptions};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::process::close_on_exec;
use crate::process::descriptors;
use crate::process::groups::{self, News};
use crate::process::launcher;
use crate::process::ledger::Ledger;
use crate::process::memory;
use crate::process::signals::{self, EndRequest, EndRequests, Exit, Signal, is_ignored};
use crate::process::terminate::{GRACE, PATIENCE, terminate};

/// The socket's number in the server.
const LINK: RawFd = 8;
/// Signals that wait to be taken.
const SIGNALS: usize = 16;

/// What a guard is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GuardedRole {
    /// A server of a client on stdin and stdout.
    Client,
    Server,
    /// A shim, which has stdin for itself.
    Shim,
}

/// One of the two processes: the guard, since the server is another program and calls
/// [`watch_guard`].
pub(crate) enum Side {
    Guard(Guard),
    #[expect(dead_code, reason = "only where the server is a fork of the guard")]
    Server(Guarded),
}

/// A server, as its guard has started it.
pub(crate) struct Guarded {
    /// The guard's pid.
    pub(crate) guard: i32,
    pub(crate) launcher: Option<Launcher>,
    /// A server that is killed is not replaced, since nothing is shared with the next.
    pub(crate) ledger: Option<Arc<Ledger>>,
}

/// What [`Guard::run`] returns in.
pub(crate) enum After {
    /// In the guard, at the end: the server's name and exit, the exits of the processes that
    /// outlived it, by pid, and why another server was due and did not start.
    Ended { instance: String, exit: Exit, reaped: Vec<(i32, Exit)>, not_replaced: Option<String> },
    #[expect(dead_code, reason = "only where the server is a fork of the guard")]
    Restarted { instance: String, guarded: Guarded },
}

/// The server's way to have shims started.
#[derive(Debug)]
pub(crate) struct Launcher;

impl Launcher {
    /// Starts a shim with this stdin: without a subreaper nothing holds it.
    ///
    /// # Errors
    /// It cannot be started.
    pub(crate) fn launch(&self, stdin: OwnedFd) -> io::Result<()> {
        launcher::start_apart(&["shim"], stdin, Stdio::null())
    }
}

type Groups = Arc<Mutex<BTreeSet<i32>>>;

/// Starts the server as a program of its own, with this process's arguments and its name,
/// `instance`: a fork that stays the same program is not safe where the system's libraries run
/// threads.
///
/// # Errors
/// When the server cannot be started; the caller may serve unguarded then.
pub(crate) fn start(role: GuardedRole, instance: &str) -> io::Result<Side> {
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
    let mut arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    if arguments.is_empty() {
        arguments.push("serve".into());
    }
    command.arg0("zsh-tool").args(arguments).args(["--guarded", instance]);
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
    #[cfg(target_os = "macos")]
    super::lineage::note_child(server);
    if role == GuardedRole::Shim {
        descriptors::close_stdin()?;
    }
    memory::hide_from_other_processes();
    let groups = Groups::default();
    let server_ended = listen(ours, Arc::clone(&groups))?;
    let instance = instance.to_owned();
    Ok(Side::Guard(Guard { server, signals, groups, server_ended, instance }))
}

/// The guard's side of a server that has started.
pub(crate) struct Guard {
    server: Pid,
    signals: Receiver<i32>,
    groups: Groups,
    server_ended: Receiver<()>,
    instance: String,
}

impl Guard {
    /// Waits for the server's end and ends the groups that it left. Programs that are to be spared
    /// have left them, as every leader of a session has. Returns the server's exit; those of
    /// processes that outlived it are not seen here.
    pub(crate) fn run(
        self,
        spared: impl Fn() -> Vec<String>,
        _on_restart: impl Fn(&str, Exit, &[(i32, Exit)]),
    ) -> After {
        let (exit, hurry) = wait_for_server(self.server, &self.signals);
        // The socket ends with the server; a child of its that has not become another program
        // by then holds it for a moment more.
        let _ = self.server_ended.recv_timeout(PATIENCE);
        let spared = spared();
        let living = || living(&self.groups.lock(), &spared);
        terminate(living, if hurry { Duration::ZERO } else { GRACE }, PATIENCE);
        After::Ended { instance: self.instance, exit, reaped: Vec::new(), not_replaced: None }
    }
}

/// The groups that still have members.
#[cfg(not(target_os = "macos"))]
fn living(groups: &BTreeSet<i32>, _spared: &[String]) -> Vec<groups::Group> {
    let groups = groups.iter().copied();
    groups.filter(|group| signals::group_lives(*group)).map(groups::Group).collect()
}

/// Their members, and what the server has started or these have.
#[cfg(target_os = "macos")]
fn living(groups: &BTreeSet<i32>, spared: &[String]) -> Vec<crate::process::kill::Handle> {
    super::orphans::living_or_in(spared, groups)
}

/// Receives the guard's signals one by one. Those that the client has chosen to ignore
/// (`nohup`, `&` in a script) stay ignored.
fn take_signals() -> io::Result<Receiver<i32>> {
    let ending = [SIGTERM, SIGINT, SIGHUP, SIGQUIT];
    let ending = ending.into_iter().filter(|number| !is_ignored(*number));
    let taken = ending.chain([SIGCHLD]).collect::<Vec<_>>();
    let mut signals = Signals::new(&taken)?;
    signals::unblock(taken);
    let (give, take) = bounded(SIGNALS);
    std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
        for number in signals.forever() {
            if give.send(number).is_err() {
                return;
            }
        }
    })?;
    Ok(take)
}

/// Records the groups that the server reports; the receiver ends with the server.
fn listen(server: UnixStream, groups: Groups) -> io::Result<Receiver<()>> {
    let (give, take) = bounded(0);
    std::thread::Builder::new().name("groups".to_owned()).spawn(move || {
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
    let mut requests = EndRequests::default();
    let mut hurry = false;
    for number in signals {
        let Some(signal) = Signal::from_number(number) else {
            match rustix::process::waitpid(Some(server), WaitOptions::NOHANG) {
                Ok(Some((_, status))) => return (status.into(), hurry),
                Ok(None) | Err(rustix::io::Errno::INTR) => continue,
                // No such child: it cannot be waited for any more.
                Err(_) => return (Exit::Code(1), hurry),
            }
        };
        let request = requests.note(Instant::now(), None);
        hurry |= request == EndRequest::Again;
        if request != EndRequest::Same {
            let _ = rustix::process::kill_process(server, signal.raw());
        }
    }
    // The thread that takes signals lives as long as the process.
    (Exit::Code(1), hurry)
}

/// For the server: reports groups to the guard from now on, and ends this process by SIGTERM
/// when the guard is killed.
///
/// # Errors
/// When no socket or thread is available: then the guard learns of no group.
pub(crate) fn watch_guard() -> io::Result<Guarded> {
    // SAFETY: asks for the flags of a number that may or may not be open.
    if unsafe { libc::fcntl(LINK, libc::F_GETFD) } < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the guard has put the socket there, and this is called once.
    let guard = unsafe { UnixStream::from_raw_fd(LINK) };
    groups::report_to(guard.try_clone()?);
    std::thread::Builder::new().name("guard".to_owned()).spawn(move || {
        // Nothing is ever sent: this is the guard's end.
        let _ = (&guard).read(&mut [0]);
        let _ =
            rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::TERM);
    })?;
    let guard = rustix::process::getppid().map_or(0, Pid::as_raw_pid);
    Ok(Guarded { guard, launcher: Some(Launcher), ledger: None })
}
