//! The guard: the process that the client starts. It is the parent and the subreaper of
//! the server proper, so that whatever kills the server leaves no process behind.
//!
//! The server is a fork of the guard on the same stdin, stdout and stderr: it starts without a
//! second exec, and the two share the memory that neither changes. Descriptors that the client left
//! open stay open in both; no command gets them. The guard has one thread, and no data passes
//! through it. It forwards TERM, INT, HUP and QUIT unless the client ignores them,
//! waits, ends the remaining processes, and exits with the server's code. When the guard itself is
//! killed, the kernel sends the server SIGTERM. That is safe only because the guard has a single
//! thread: the kernel sends the signal at the end of the parent *thread*.

use std::collections::HashSet;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};
use rustix::process::{Pid, WaitOptions};

use crate::process::kill::handles;
use crate::process::launcher;
use crate::process::signals::{self, EndRequest, EndRequests, Exit, Signal, is_ignored};
use crate::process::terminate::{GRACE, PATIENCE, Termination};
use crate::process::tree::{self, Identity, ProcessInfo, Scan, cookie_of};
use crate::process::{descriptors, memory, orphans};

/// A server that ends later than this after a launch has not ended during it.
const SETTLED: Duration = Duration::from_secs(1);
/// How often to search for new descendants while waiting.
const RESCAN: Duration = Duration::from_millis(50);

/// What a guard is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GuardedRole {
    /// A server: the guard starts shims for it.
    Server,
    /// A shim, which has stdin for itself.
    Shim,
}

/// One of the two processes that [`start`] returns in.
pub(crate) enum Side {
    Guard(Guard),
    Server(Guarded),
}

/// A server, as its guard has started it.
pub(crate) struct Guarded {
    /// The guard's pid.
    pub(crate) guard: i32,
    /// For a server whose guard starts shims.
    pub(crate) launcher: Option<Launcher>,
}

/// Starts the server, and returns in both processes. `instance` is the server's name in the
/// cookies of its tasks.
///
/// # Errors
/// This process cannot guard, or the server cannot be guarded; the caller may serve unguarded.
pub(crate) fn start(role: GuardedRole, instance: &str) -> io::Result<Side> {
    check_may_guard()?;
    orphans::adopt()?;
    let signals = Box::new(SignalSet::block());
    let guard = rustix::process::getpid();
    let (launches, launcher) = Launches::new()?;
    // SAFETY: this process has one thread, so that the fork may do all that this process may.
    let server = match unsafe { libc::fork() } {
        -1 => return Err(io::Error::last_os_error()),
        0 => {
            drop(launches);
            become_server(guard)?;
            drop(signals);
            // SAFETY: only reads the set, and changes the mask of the only thread.
            unsafe {
                libc::sigprocmask(libc::SIG_SETMASK, &signals::set_of([]), std::ptr::null_mut())
            };
            let launcher = (role == GuardedRole::Server).then(|| Launcher(launcher.into()));
            return Ok(Side::Server(Guarded { guard: guard.as_raw_pid(), launcher }));
        }
        pid => Pid::from_raw(pid),
    };
    drop(launcher);
    let _ = rustix::thread::set_name(tree::GUARD_NAME);
    if role == GuardedRole::Shim {
        descriptors::close_stdin()?;
    }
    memory::hide_from_other_processes();
    let server = server.ok_or(io::ErrorKind::InvalidData)?;
    Ok(Side::Guard(Guard { server, signals, launches, instance: instance.to_owned() }))
}

/// Whether this process can guard another.
fn check_may_guard() -> io::Result<()> {
    // Without it, no process that a server leaves behind is found.
    std::fs::read_link("/proc/self/exe")
        .map_err(|error| io::Error::new(error.kind(), format!("/proc/self/exe: {error}")))?;
    let [own, for_children] =
        ["pid", "pid_for_children"].map(|name| Path::new("/proc/self/ns").join(name));
    // The second is missing before Linux 4.12, and unreadable until its namespace has a process.
    let has_both = for_children.symlink_metadata().is_ok();
    if has_both && for_children.read_link().ok() != own.read_link().ok() {
        return Err(io::Error::other("its children are in another PID namespace"));
    }
    // A fork continues with one thread, and what others have locked stays locked.
    let own = rustix::process::getpid().as_raw_pid();
    match tree::look_up(own).map(|process| process.threads) {
        Some(threads) if threads > 1 => Err(io::Error::other(format!(
            "it has {threads} threads already, which a preloaded library has started"
        ))),
        _ => Ok(()),
    }
}

/// Gives the server a session of its own first: from then on signals to the client's process group
/// reach only the guard, and the server has no controlling terminal. Ignores no signal any more
/// except SIGPIPE, which Rust's runtime ignores in each process.
///
/// # Errors
/// The system refuses what a guarded server needs. Does not return if the guard is gone, which the
/// server must not outlive.
fn become_server(guard: Pid) -> io::Result<()> {
    rustix::process::setsid()?;
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::TERM))?;
    if rustix::process::getppid() != Some(guard) {
        std::process::exit(1);
    }
    for signal in (1..=31).filter(|signal| *signal != libc::SIGPIPE && is_ignored(*signal)) {
        // SAFETY: sets the default action of a signal that was ignored.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
    Ok(())
}

/// Takes the parent for the guard of this process, which was started as a guarded one.
///
/// # Errors
/// None here.
pub(crate) fn watch_guard() -> io::Result<Guarded> {
    let guard = rustix::process::getppid().map_or(0, Pid::as_raw_pid);
    Ok(Guarded { guard, launcher: None })
}

/// The guard's side of a server that has started.
pub(crate) struct Guard {
    server: Pid,
    signals: Box<SignalSet>,
    launches: Launches,
    instance: String,
}

impl Guard {
    /// Waits for the server's end and ends the processes that it left. Programs named in `spared`
    /// that lead a session of their own survive, and so do the children that this process had
    /// before. Returns the server's exit, and those of the processes that outlived it, by pid.
    pub(crate) fn run(mut self, spared: impl FnOnce() -> Vec<String>) -> (Exit, Vec<(i32, Exit)>) {
        // What the start needed, this process does not need any more.
        memory::drop_unchanged_pages();
        let mut requests = EndRequests::default();
        let (exit, hurry) =
            wait_for_server(self.server, &self.signals, &mut requests, &mut self.launches);
        let mut reaped = Vec::new();
        let mut lost = self.launches.lost(&self.instance);
        if reap_all(&mut reaped) || lost.is_some() {
            let spared = spared();
            let grace = if hurry { Duration::ZERO } else { GRACE };
            Termination::begin(grace, PATIENCE).finish(
                || {
                    let scan = Scan::take();
                    let left = orphans::below(&scan, &spared);
                    // Processes that cannot be seen may be alive; `waitid` shows whether there are
                    // children.
                    let may_live =
                        !left.is_empty() || (!scan.is_whole() && orphans::has_children());
                    let mut found = handles(left);
                    if let Some(lost) = &mut lost {
                        found.extend(handles(lost.find(&scan, &spared)));
                    }
                    (may_live || !found.is_empty()).then_some(found)
                },
                |_, limit| {
                    let asked = self.signals.wait(Some(limit.min(RESCAN)));
                    reap_all(&mut reaped);
                    asked.is_some() && requests.note(Instant::now(), None) != EndRequest::Same
                },
            );
            reap_all(&mut reaped);
        }
        (exit, reaped)
    }
}

/// The server's requests to start shims, which arrive as descriptors on a socket, announced by
/// SIGIO.
struct Launches {
    requests: UnixStream,
    /// When the last launch was over, and the guard's descendants before it.
    last: Option<(Instant, HashSet<Identity>)>,
}

/// Processes that the guard did not adopt, because the server ended during a launch.
struct Lost {
    /// Former descendants of the guard, and those found since.
    known: HashSet<Identity>,
    /// The prefix of the cookies of processes that were started since.
    cookies: String,
}

impl Lost {
    /// The living ones, except the named programs that lead a session of their own, and their
    /// descendants.
    fn find<'a>(&mut self, scan: &'a Scan, spared: &[String]) -> Vec<&'a ProcessInfo> {
        let carries_cookie = |process: &ProcessInfo| {
            cookie_of(process.id.pid).is_some_and(|cookie| cookie.starts_with(&self.cookies))
        };
        let (mut found, mut spared_ids) = (Vec::new(), HashSet::new());
        for process in scan.processes() {
            if self.known.contains(&process.id) || carries_cookie(process) {
                let below = scan.descendants(process.id.pid);
                if process.is_spared(spared) {
                    spared_ids.extend(below.iter().map(|process| process.id).chain([process.id]));
                } else {
                    found.extend(below.into_iter().chain([process]));
                }
            }
        }
        // Remembered, so that their later children are found even after their end.
        self.known.extend(found.iter().map(|process| process.id));
        found.retain(|process| !process.zombie && !spared_ids.contains(&process.id));
        found
    }
}

impl Launches {
    /// The guard's end and the server's.
    fn new() -> io::Result<(Launches, OwnedFd)> {
        let (requests, launcher) = UnixStream::pair()?;
        requests.set_nonblocking(true)?;
        // SAFETY: SIGIO is received while it is blocked; once it is unblocked, a pending one has no
        // effect. The other calls change how the guard's own end announces messages.
        let announced = unsafe {
            libc::signal(libc::SIGIO, libc::SIG_IGN);
            libc::fcntl(requests.as_raw_fd(), libc::F_SETOWN, libc::getpid()) == 0
                && libc::fcntl(
                    requests.as_raw_fd(),
                    libc::F_SETFL,
                    libc::O_ASYNC | libc::O_NONBLOCK,
                ) == 0
        };
        if announced {
            Ok((Launches { requests, last: None }, launcher.into()))
        } else {
            Err(io::Error::last_os_error())
        }
    }

    /// Starts the requested shims.
    fn serve(&mut self) {
        while let Some(stdin) = self.next() {
            self.launch(stdin);
        }
    }

    fn next(&self) -> Option<OwnedFd> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut byte = [0];
        let received = rustix::io::retry_on_intr(|| {
            let into = &mut [IoSliceMut::new(&mut byte)];
            rustix::net::recvmsg(&self.requests, into, &mut ancillary, RecvFlags::CMSG_CLOEXEC)
        });
        received.ok().filter(|received| received.bytes > 0)?;
        ancillary.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
            _ => None,
        })
    }

    /// A shim must not be a descendant of the guard, so the guard is no subreaper for a moment. If
    /// the server is killed in that moment, its orphans go elsewhere: [`Launches::lost`].
    fn launch(&mut self, stdin: OwnedFd) {
        let before = Scan::take();
        let before = orphans::below(&before, &[]).into_iter().map(|process| process.id).collect();
        let own = rustix::process::getpid();
        if rustix::process::set_child_subreaper(None).is_err() {
            return;
        }
        // If this fails, the descriptor closes, which shows the server that no shim was started.
        let _ = launcher::start_apart(&["shim"], stdin, Stdio::null());
        let _ = rustix::process::set_child_subreaper(Some(own));
        self.last = Some((Instant::now(), before));
    }

    /// Processes that may be lost when the server has just ended. The guard may see the server's
    /// end only after another process has adopted the server's orphans.
    fn lost(&mut self, instance: &str) -> Option<Lost> {
        let (_, known) = self.last.take().filter(|(over, _)| over.elapsed() < SETTLED)?;
        Some(Lost { known, cookies: format!("{instance}/") })
    }
}

/// The server's handle to have shims started.
#[derive(Debug)]
pub(crate) struct Launcher(UnixStream);

impl Launcher {
    /// Asks for a shim with this stdin. If none can be started, the other end of it is closed.
    ///
    /// # Errors
    /// The guard is gone.
    pub(crate) fn launch(&self, stdin: OwnedFd) -> io::Result<()> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        let descriptors = [stdin.as_fd()];
        ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
        let message = [IoSlice::new(&[0])];
        rustix::net::sendmsg(&self.0, &message, &mut ancillary, SendFlags::NOSIGNAL)?;
        Ok(())
    }
}

/// Waits for the server's end; returns its exit, and whether the end was requested more than once.
fn wait_for_server(
    server: Pid,
    signals: &SignalSet,
    requests: &mut EndRequests,
    launches: &mut Launches,
) -> (Exit, bool) {
    let mut hurry = false;
    loop {
        if let Some(exit) = reap_for(server) {
            return (exit, hurry);
        }
        launches.serve();
        let Some(signal) = signals.wait(None) else {
            continue;
        };
        let request = requests.note(Instant::now(), None);
        hurry |= request == EndRequest::Again;
        if request != EndRequest::Same {
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
            // There is no child: the server's exit is lost.
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
/// Dropping this restores the mask: a server without a guard receives its signals by handlers.
struct SignalSet {
    set: libc::sigset_t,
    before: libc::sigset_t,
}

impl SignalSet {
    /// Blocks TERM, INT, HUP, QUIT, CHLD and IO, so that [`SignalSet::wait`] receives them.
    ///
    /// Signals that the client ignores (`nohup`, `&` in a script) are not blocked and stay ignored:
    /// if blocked, they would be queued.
    fn block() -> SignalSet {
        let ending = [libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGQUIT];
        let ending = ending.into_iter().filter(|number| !is_ignored(*number));
        let set = signals::set_of(ending.chain([libc::SIGCHLD, libc::SIGIO]));
        let mut before = signals::set_of([]);
        // SAFETY: changes the mask of the only thread, and writes the former one to `before`.
        unsafe { libc::sigprocmask(libc::SIG_BLOCK, &set, &mut before) };
        SignalSet { set, before }
    }

    /// Waits for one of them; returns the signal to forward, or `None` for a child's end, a
    /// request of the server, a timeout or an interruption.
    fn wait(&self, limit: Option<Duration>) -> Option<Signal> {
        // SAFETY: the set is initialised; the pointer for information may be null.
        let number = unsafe {
            match limit {
                Some(limit) => {
                    let limit = libc::timespec {
                        // Its type differs among the C libraries.
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
