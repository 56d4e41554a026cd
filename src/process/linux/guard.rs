//! The guard: the process that the client starts. It is the parent and the subreaper of
//! the server proper, so that whatever kills the server leaves no process behind.
//!
//! The server is a fork of the guard on the same stdin, stdout and stderr: it starts without a
//! second exec, and the two share the memory that neither changes. Descriptors that the client left
//! open stay open in both; no command gets them. The guard has one thread, and no data passes
//! through it. It forwards TERM, INT, HUP and QUIT unless the client ignores them, waits, ends the
//! remaining processes, and exits with the server's code. A server that was killed, or panicked,
//! while its client is there is replaced by another fork on the same descriptors, which takes over
//! what the ledger has. When the guard itself is killed, the kernel sends the server SIGTERM. That is
//! safe only because the guard has a single thread: the kernel sends the signal at the end of the
//! parent *thread*.

use std::collections::HashSet;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};
use rustix::process::{Pid, WaitOptions};

use crate::process::kill::handles;
use crate::process::launcher;
use crate::process::ledger::Ledger;
use crate::process::signals::{self, EndRequest, EndRequests, Exit, Signal, is_ignored};
use crate::process::terminate::{GRACE, PATIENCE, Termination};
use crate::process::tree::{self, Identity, ProcessInfo, Scan, cookie_of};
use crate::process::{descriptors, files, memory, orphans};

/// A server that ends later than this after a launch has not ended during it.
const SETTLED: Duration = Duration::from_secs(1);
/// How often to search for new descendants while waiting.
const RESCAN: Duration = Duration::from_millis(50);

/// What a guard is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GuardedRole {
    /// A server of a client on stdin and stdout: the guard starts shims for it, and replaces it when
    /// it is killed.
    Client,
    /// A server that is not replaced.
    Server,
    /// A shim, which has stdin for itself.
    Shim,
}

/// One of the two processes that [`start`] returns in.
pub(crate) enum Side {
    Guard(Guard),
    Server(Guarded),
}

/// A server that is killed is replaced this many times …
const MAX_RESTARTS: usize = 3;
/// … within this time.
const RESTARTS_WITHIN: Duration = Duration::from_secs(60);
/// The exit code of a program whose main thread has panicked.
const PANICKED: i32 = 101;

/// A server, as its guard has started it.
pub(crate) struct Guarded {
    /// The guard's pid.
    pub(crate) guard: i32,
    /// For a server whose guard starts shims.
    pub(crate) launcher: Option<Launcher>,
    /// What this server leaves to the next, and takes over from the one before.
    pub(crate) ledger: Option<Arc<Ledger>>,
}

/// What [`Guard::run`] returns in.
pub(crate) enum After {
    /// In the guard, at the end: the server's name and exit, the exits of the processes that
    /// outlived it, by pid, and why another server was due and did not start.
    Ended { instance: String, exit: Exit, reaped: Vec<(i32, Exit)>, not_replaced: Option<String> },
    /// In a new server, with its name.
    Restarted { instance: String, guarded: Guarded },
}

/// Starts the server, and returns in both processes. `instance` is the server's name in the
/// cookies of its tasks.
///
/// # Errors
/// This process cannot guard, or the server cannot be guarded; the caller may serve unguarded.
pub(crate) fn start(role: GuardedRole, instance: &str) -> io::Result<Side> {
    check_may_guard()?;
    orphans::adopt()?;
    // Before the fork: the server may be at work, and be sought by its name, before the guard runs
    // again. The server takes its own name when it adopts.
    let _ = rustix::thread::set_name(tree::GUARD_NAME);
    let signals = Box::new(SignalSet::block());
    // Without it, a server that is killed is not replaced.
    let ledger = (role == GuardedRole::Client).then(Ledger::create).and_then(Result::ok);
    let ledger = ledger.map(Arc::new);
    let (launches, launcher) = Launches::new()?;
    let server = match fork()? {
        Fork::Child { parent } => {
            drop(launches);
            become_server(parent)?;
            drop(signals);
            unblock_all();
            let launcher = (role != GuardedRole::Shim).then(|| Launcher(launcher.into()));
            return Ok(Side::Server(Guarded { guard: parent.as_raw_pid(), launcher, ledger }));
        }
        Fork::Parent { child } => child,
    };
    drop(launcher);
    if role == GuardedRole::Shim {
        descriptors::close_stdin()?;
    }
    memory::hide_from_other_processes();
    let instance = instance.to_owned();
    Ok(Side::Guard(Guard {
        server,
        signals,
        launches,
        instance,
        role,
        ledger,
        restarts: Vec::new(),
    }))
}

enum Fork {
    Child { parent: Pid },
    Parent { child: Pid },
}

fn fork() -> io::Result<Fork> {
    let parent = rustix::process::getpid();
    // SAFETY: this process has one thread, so that the fork may do all that this process may.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(Fork::Child { parent }),
        pid => {
            let child = Pid::from_raw(pid).ok_or(io::ErrorKind::InvalidData)?;
            Ok(Fork::Parent { child })
        }
    }
}

/// Receives all signals again.
fn unblock_all() {
    // SAFETY: only reads the set, and changes the mask of the only thread.
    unsafe { libc::sigprocmask(libc::SIG_SETMASK, &signals::set_of([]), std::ptr::null_mut()) };
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
    Ok(Guarded { guard, launcher: None, ledger: None })
}

/// The guard's side of a server that has started.
pub(crate) struct Guard {
    server: Pid,
    signals: Box<SignalSet>,
    launches: Launches,
    instance: String,
    role: GuardedRole,
    ledger: Option<Arc<Ledger>>,
    /// When it has replaced a server.
    restarts: Vec<Instant>,
}

impl Guard {
    /// Waits for the server's end and ends the processes that it left. Programs named in `spared`
    /// that lead a session of their own survive, and so do the children that this process had
    /// before. Replaces a server that was killed; `on_restart` gets the name and exit of each such
    /// server, and the exits of the processes that outlived it.
    pub(crate) fn run(
        mut self,
        spared: impl Fn() -> Vec<String>,
        on_restart: impl Fn(&str, Exit, &[(i32, Exit)]),
    ) -> After {
        let mut requests = EndRequests::default();
        let mut end =
            wait_for_server(self.server, &self.signals, &mut requests, &mut self.launches);
        loop {
            let instance = std::mem::take(&mut self.instance);
            let lost = self.launches.lost(&instance);
            let mut not_replaced = None;
            let next = self.due_restart(&end).and_then(|cause| match self.restart(&cause) {
                Ok(fork) => Some(fork),
                Err(error) => {
                    not_replaced = Some(format!("{cause}: {error}"));
                    None
                }
            });
            let next = match next {
                Some(Fork::Child { parent }) => return self.become_next(parent),
                Some(Fork::Parent { child }) => Some(child),
                None => None,
            };
            let mut reaped = Reaped { server: next, exit: None, others: Vec::new() };
            self.end_remains(&mut reaped, lost, &spared, &mut requests, end.hurry);
            if next.is_none() {
                let (exit, reaped) = (end.exit, reaped.others);
                return After::Ended { instance, exit, reaped, not_replaced };
            }
            on_restart(&instance, end.exit, &reaped.others);
            end = match reaped.exit {
                Some(exit) => ServerEnd { exit, is_asked: requests.is_any(), hurry: false },
                None => {
                    wait_for_server(self.server, &self.signals, &mut requests, &mut self.launches)
                }
            };
        }
    }

    /// What has ended the server, if another is due in its place.
    fn due_restart(&self, end: &ServerEnd) -> Option<String> {
        let cause = match end.exit {
            Exit::Code(PANICKED) => "it panicked".to_owned(),
            Exit::Code(_) => return None,
            Exit::Signal(libc::SIGTERM | libc::SIGINT | libc::SIGHUP | libc::SIGQUIT) => {
                return None;
            }
            Exit::Signal(number) => match Signal::from_number(number) {
                Some(signal) => format!("killed by SIG{}", signal.name()),
                None => format!("killed by signal {number}"),
            },
        };
        let is_due =
            self.role == GuardedRole::Client && !end.is_asked && !descriptors::has_client_hung_up();
        is_due.then_some(cause)
    }

    /// Starts a server in place of one that has ended like this, and returns in both.
    fn restart(&mut self, cause: &str) -> io::Result<Fork> {
        let Some(ledger) = &self.ledger else {
            return Err(io::Error::other("it shares no memory with another"));
        };
        if ledger.is_incomplete() {
            return Err(io::Error::other("a part of its input is lost"));
        }
        let now = Instant::now();
        self.restarts.retain(|at| now.duration_since(*at) < RESTARTS_WITHIN);
        if self.restarts.len() >= MAX_RESTARTS {
            let often = format!("{MAX_RESTARTS} others have ended like this within a minute");
            return Err(io::Error::other(often));
        }
        self.instance = files::random_id();
        self.restarts.push(now);
        ledger.note_restart(cause);
        let (launches, launcher) = Launches::new()?;
        self.launches = launches;
        self.launches.next = Some(launcher);
        let fork = fork()?;
        if let Fork::Parent { child } = fork {
            self.server = child;
            self.launches.next = None;
        }
        Ok(fork)
    }

    fn become_next(mut self, guard: Pid) -> After {
        let launcher = self.launches.next.take();
        if become_server(guard).is_err() {
            std::process::exit(1);
        }
        memory::show_to_other_processes();
        let Guard { signals, instance, ledger, .. } = self;
        drop(signals);
        unblock_all();
        let launcher = launcher.map(|launcher| Launcher(launcher.into()));
        let guarded = Guarded { guard: guard.as_raw_pid(), launcher, ledger };
        After::Restarted { instance, guarded }
    }

    /// Ends the processes that a server has left, but for the next server and what that has started.
    fn end_remains(
        &mut self,
        reaped: &mut Reaped,
        mut lost: Option<Lost>,
        spared: &impl Fn() -> Vec<String>,
        requests: &mut EndRequests,
        hurry: bool,
    ) {
        if !reaped.reap() && lost.is_none() {
            return;
        }
        let spared = spared();
        let next = reaped.server.map(Pid::as_raw_pid);
        let grace = if hurry { Duration::ZERO } else { GRACE };
        Termination::begin(grace, PATIENCE).finish(
            || {
                let scan = Scan::take();
                let mut left = orphans::below(&scan, &spared);
                if let Some(next) = next {
                    let of_next: HashSet<i32> =
                        scan.descendants(next).iter().map(|process| process.id.pid).collect();
                    left.retain(|process| {
                        process.id.pid != next && !of_next.contains(&process.id.pid)
                    });
                }
                // Processes that cannot be seen may be alive; `waitid` shows whether there are
                // children.
                let may_live = !left.is_empty()
                    || (next.is_none() && !scan.is_whole() && orphans::has_children());
                let mut found = handles(left);
                if let Some(lost) = &mut lost {
                    found.extend(handles(lost.find(&scan, &spared)));
                }
                (may_live || !found.is_empty()).then_some(found)
            },
            |_, limit| {
                let asked = self.signals.wait(Some(limit.min(RESCAN)));
                reaped.reap();
                let Some(signal) = asked else { return false };
                let is_new = requests.note(Instant::now(), None) != EndRequest::Same;
                if let Some(server) = reaped.server.filter(|_| is_new && reaped.exit.is_none()) {
                    let _ = rustix::process::kill_process(server, signal.raw());
                }
                is_new
            },
        );
        reaped.reap();
    }
}

/// How a server has ended.
struct ServerEnd {
    exit: Exit,
    /// Whether a signal asked the guard for it.
    is_asked: bool,
    /// Whether more than one did.
    hurry: bool,
}

/// The ends of children.
struct Reaped {
    /// The server that runs now.
    server: Option<Pid>,
    /// Its exit.
    exit: Option<Exit>,
    /// Those of the others, by pid.
    others: Vec<(i32, Exit)>,
}

impl Reaped {
    /// Reaps all ended children; returns whether living ones remain.
    fn reap(&mut self) -> bool {
        loop {
            match rustix::process::wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) if Some(pid) == self.server => {
                    self.exit = Some(Exit::from(status));
                }
                Ok(Some((pid, status))) => {
                    self.others.push((pid.as_raw_pid(), Exit::from(status)));
                }
                Err(rustix::io::Errno::INTR) => {}
                Ok(None) => return true,
                Err(_) => return false,
            }
        }
    }
}

/// The server's requests to start shims, which arrive as descriptors on a socket, announced by
/// SIGIO.
struct Launches {
    requests: UnixStream,
    /// When the last launch was over, and the guard's descendants before it.
    last: Option<(Instant, HashSet<Identity>)>,
    /// The other end, until the next server takes it.
    next: Option<OwnedFd>,
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
            Ok((Launches { requests, last: None, next: None }, launcher.into()))
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

/// Waits for the server's end.
fn wait_for_server(
    server: Pid,
    signals: &SignalSet,
    requests: &mut EndRequests,
    launches: &mut Launches,
) -> ServerEnd {
    /// The server answers its client's first requests meanwhile.
    const STARTED_AFTER: Duration = Duration::from_millis(500);
    let mut hurry = false;
    let mut drop_at = Some(Instant::now() + STARTED_AFTER);
    loop {
        if let Some(exit) = reap_for(server) {
            return ServerEnd { exit, is_asked: requests.is_any(), hurry };
        }
        launches.serve();
        let mut limit = drop_at.map(|at| at.saturating_duration_since(Instant::now()));
        if limit == Some(Duration::ZERO) {
            (drop_at, limit) = (None, None);
            // Right before the wait, which may be long: what runs after it comes back into memory.
            memory::drop_unchanged_pages();
        }
        let Some(signal) = signals.wait(limit) else {
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
