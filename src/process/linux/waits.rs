//! What the threads of a task's processes wait for: their system calls, with the meaning of the
//! descriptors.
//!
//! Limits: Linux; processes of this user that do not hide or, for root, all processes. If the
//! kernel does not name the other end of a local socket, that end counts as outside the task.

use std::collections::{HashMap, HashSet};
use std::os::fd::AsRawFd;
use std::os::unix::fs::DirEntryExt;
use std::path::{Path, PathBuf};

use procfs::FromRead;
use procfs::process::{MMPermissions, MMapPath, MemoryMap, MemoryMaps};
use rustix::fs::{FileType, Mode, OFlags, ResolveFlags};

use super::alarms;
use super::calls::{self, Awaited, Limit, SystemCall, ThreadDirectory};
use super::go;
use super::hotspot;
use super::locks;
use super::mounts;
use super::runtimes::{self, Runtime};
use super::sockets::{self, LOCAL, LocalPeer, Socket, Sockets, inode_of};
use crate::process::probe::{Identity, InputSource, ProcessInfo, StallReason};
use crate::process::{processes, usage};
use crate::progress::standstill::{Runs, ThreadRuns};
use crate::progress::wait::{Lock, Peer, ProcessName, ProcessWaits, Signals, Thread, WaitSource};
use crate::text::foreign::{self, Foreign, Phrase};

/// An epoll instance may watch another one; no program nests them deeper.
const EPOLL_DEPTH: usize = 2;

/// What earlier probes have found out about processes, so that it is read only once.
#[derive(Debug, Default)]
pub(crate) struct Known {
    /// The sleep of each process, by the text of its call.
    sleeps: HashMap<Identity, (String, Thread)>,
    /// The runtime of each process, with the process's name: an exec changes both.
    runtimes: HashMap<Identity, (String, Runtime)>,
    /// Of Go programs.
    goroutines: HashMap<Identity, Option<go::Runtime>>,
}

impl Known {
    fn runtime(&mut self, process: &ProcessInfo) -> Runtime {
        if let Some((name, runtime)) = self.runtimes.get(&process.id)
            && *name == process.name
        {
            return *runtime;
        }
        let runtime = Runtime::detect(process.id.pid);
        self.goroutines.remove(&process.id);
        self.runtimes.insert(process.id, (process.name.clone(), runtime));
        runtime
    }

    /// Whether a Go program waits for signals, as far as its goroutines can be read.
    fn signals_of_go(&mut self, process: &ProcessInfo) -> Signals {
        let pid = process.id.pid;
        let known = self.goroutines.entry(process.id).or_insert_with(|| go::Runtime::detect(pid));
        match known.as_ref().and_then(|runtime| runtime.awaits_signals(pid)) {
            Some(true) => Signals::Handled,
            Some(false) => Signals::None,
            None => Signals::Unknown,
        }
    }
}

/// One probe of a task's processes, which share what it has read.
pub(crate) struct Waits<'a> {
    input: Option<&'a InputSource>,
    /// The pipes that take the task's output, by their names in `/proc/<pid>/fd`.
    outputs: &'a [PathBuf],
    /// The shell's session, in which `/dev/tty` is the task's terminal.
    session: i32,
    members: &'a [ProcessInfo],
    sockets: Sockets,
    descriptors: HashMap<i32, HashSet<PathBuf>>,
    /// The processes that read from a pipe of which they have the other end as well.
    read_themselves: HashSet<i32>,
}

impl<'a> Waits<'a> {
    /// A probe of these processes of a task, whose input is `input`.
    pub(crate) fn new(
        input: Option<&'a InputSource>,
        session: i32,
        members: &'a [ProcessInfo],
    ) -> Waits<'a> {
        let (sockets, descriptors) = (Sockets::default(), HashMap::new());
        let read_themselves = HashSet::new();
        Waits { input, outputs: &[], session, members, sockets, descriptors, read_themselves }
    }

    /// The same probe of a task whose output goes to these pipes.
    pub(crate) fn with_outputs(mut self, outputs: &'a [PathBuf]) -> Waits<'a> {
        self.outputs = outputs;
        self
    }

    /// What every process of the task waits for.
    pub(crate) fn read_all(&mut self, known: &mut Known) -> Vec<ProcessWaits> {
        let members = self.members;
        let lives = |id: &Identity| members.iter().any(|process| process.id == *id);
        known.sleeps.retain(|id, _| lives(id));
        known.runtimes.retain(|id, _| lives(id));
        known.goroutines.retain(|id, _| lives(id));
        let works = |process: &&ProcessInfo| {
            !runtimes::is_helper(process) || self.has_children(process.id.pid)
        };
        let working: Vec<&ProcessInfo> = members.iter().filter(works).collect();
        working.into_iter().map(|process| self.probe(process, Some(known))).collect()
    }

    /// The same, where these processes are known to have run.
    pub(crate) fn read_all_beside(
        &mut self,
        running: &HashSet<Identity>,
        known: &mut Known,
    ) -> Vec<ProcessWaits> {
        let members = self.members;
        let seen = members.iter().map(|process| {
            if running.contains(&process.id) {
                ProcessWaits { threads: vec![Thread::Running], ..unread(process) }
            } else {
                self.probe(process, Some(known))
            }
        });
        seen.collect()
    }

    /// What one process waits for. A process that has ended meanwhile has no threads.
    pub(crate) fn read_one(&mut self, process: &ProcessInfo) -> ProcessWaits {
        self.probe(process, None)
    }

    fn has_children(&self, pid: i32) -> bool {
        self.members.iter().any(|child| child.parent == pid && !runtimes::is_helper(child))
    }

    fn probe(&mut self, process: &ProcessInfo, mut known: Option<&mut Known>) -> ProcessWaits {
        let directories = calls::threads(process);
        let mut threads = Vec::with_capacity(directories.len());
        for (place, directory) in directories.iter().enumerate() {
            let thread = self.of_thread(process, directory, known.as_deref_mut());
            // The second thread of Node posts V8's own delayed tasks, such as collections of garbage
            // (`DelayedTaskScheduler` of `src/node_platform.cc`).
            let is_of_v8 = place == 1
                && thread.is_timed_own_loop()
                && known.as_deref_mut().map(|known| known.runtime(process)) == Some(Runtime::Node);
            // The only thread is the program's, and its name is not read.
            let is_one_of_many = directories.len() > 1;
            if !(is_of_v8 || is_one_of_many && is_housekeeping(&thread, directory)) {
                threads.push(thread);
            }
        }
        let mut waits = ProcessWaits { threads, ..unread(process) };
        if let Some(known) = known {
            self.ask_runtime(process, &mut waits, known);
        }
        waits
    }

    /// Takes account of what the process's runtime does for every program.
    fn ask_runtime(&self, process: &ProcessInfo, waits: &mut ProcessWaits, known: &mut Known) {
        let (pid, threads) = (process.id.pid, &mut waits.threads);
        if threads.len() > 1 && threads.iter().any(Thread::is_timed_futex) {
            match known.runtime(process) {
                // Only the scheduler's monitor waits so (`sysmon` of Go's `runtime/proc.go`); a
                // timer of the program is a time limit of `epoll`.
                Runtime::Go => threads.retain(|thread| !thread.is_timed_futex()),
                Runtime::Jvm => waits.counts_retries = hotspot::futile_wakeups(pid).is_some(),
                _ => {}
            }
        }
        let threads = &waits.threads;
        if threads.is_empty() || self.has_children(pid) {
            return;
        }
        if threads.iter().all(Thread::waits_within_task) {
            waits.timer = alarms::timer_of(pid);
        }
        if threads.iter().all(Thread::waits_for_own_process) {
            waits.signals = match known.runtime(process) {
                Runtime::Go => known.signals_of_go(process),
                // It wakes its threads for a signal by an `eventfd`.
                Runtime::Ruby if self.read_themselves.contains(&pid) => Signals::Unknown,
                runtime if runtime.hides_waits() || runtime.handles_signals(pid) => {
                    Signals::Handled
                }
                _ => Signals::None,
            };
        }
    }

    /// How often the threads that do the program's work have run.
    pub(crate) fn runs(process: &ProcessInfo) -> Runs {
        let directories = calls::threads(process);
        let only = directories.len() == 1;
        let works = |thread: &&ThreadDirectory| only || !runtimes::is_housekeeping(&thread.name());
        let threads = directories.iter().filter(works);
        let runs = |thread: &ThreadDirectory| {
            let call = SystemCall::read(&thread.call_text()?, thread)?;
            Some(ThreadRuns {
                thread: thread.0.file_name()?.to_str()?.parse().ok()?,
                pauses: usage::pauses(&thread.0)?,
                retries: matches!(call, SystemCall::Plain(thread) if thread.is_timed_futex()),
            })
        };
        let pid = process.id.pid;
        let futile = if runtimes::is_java(pid) { hotspot::futile_wakeups(pid) } else { None };
        // Only a Java machine's threads try again. Another that waits so has been left out.
        let counts = |runs: &ThreadRuns| futile.is_some() || !runs.retries;
        Runs {
            threads: threads.filter_map(runs).filter(counts).collect(),
            futile: futile.unwrap_or_default(),
            // The time of the scan is a little earlier than now.
            cpu: usage::time_of(process.cpu_ticks),
        }
    }

    fn of_thread(
        &mut self,
        process: &ProcessInfo,
        thread: &ThreadDirectory,
        known: Option<&mut Known>,
    ) -> Thread {
        let Some(text) = thread.call_text() else {
            return Thread::Unreadable;
        };
        let sleep = known.as_ref().and_then(|known| known.sleeps.get(&process.id));
        if let Some((_, sleep)) = sleep.filter(|(known, _)| *known == text) {
            return sleep.clone();
        }
        let Some(call) = SystemCall::read(&text, thread) else {
            return Thread::Unreadable;
        };
        let is_sleep = matches!(
            call,
            SystemCall::Plain(Thread::Waits { .. } | Thread::In(WaitSource::Signal))
        );
        let found = self.of_call(process, thread, call);
        if let Some(known) = known.filter(|_| is_sleep) {
            known.sleeps.insert(process.id, (text, found.clone()));
        }
        found
    }

    fn of_call(
        &mut self,
        process: &ProcessInfo,
        thread: &ThreadDirectory,
        call: SystemCall,
    ) -> Thread {
        Thread::In(match call {
            SystemCall::Plain(thread) => return thread,
            SystemCall::Set { descriptors, limit } => {
                let on = self.sources(process, thread, &descriptors, EPOLL_DEPTH);
                if limit == Limit::Brief && is_conversation_within_task(&on) {
                    return Thread::Polls;
                }
                return Thread::Waits { on, timed: limit != Limit::None };
            }
            SystemCall::SharedFutex(address) => shared_futex(process.id.pid, address),
            SystemCall::Transfer(awaited) => return self.transfer(process, thread, awaited),
            SystemCall::FileLock(descriptor) => {
                let name = thread.descriptor_name(descriptor).unwrap_or_default();
                let path = thread.0.join(format!("fd/{descriptor}"));
                WaitSource::Lock(locks::lock_of(&path, &name))
            }
            SystemCall::Open(path) => match mounts::provider_of_path(&thread.0, &path) {
                Some(provider) => WaitSource::Peer(Peer::FileSystem(provider)),
                None if opens_fifo(process.id.pid, &path) == Some(true) => {
                    WaitSource::FifoOpening(path.into())
                }
                None => WaitSource::Other(format!("opening {path}")),
            },
            SystemCall::OnPath { path, number } => {
                let provider = mounts::provider_of_path(&thread.0, &path);
                file_system_or(provider, || format!("system call {number}"))
            }
            SystemCall::OnFile { descriptor, number } => {
                let provider = mounts::provider_of_descriptor(&thread.0, descriptor);
                file_system_or(provider, || format!("system call {number}"))
            }
            SystemCall::UnknownSet => WaitSource::Other("many descriptors".to_owned()),
        })
    }

    /// What a thread does that reads from a descriptor or writes to it. A socket may have a time limit
    /// of its own, which matters only where nothing outside the task can end the wait.
    fn transfer(
        &mut self,
        process: &ProcessInfo,
        thread: &ThreadDirectory,
        awaited: Awaited,
    ) -> Thread {
        let source = self.source(process, thread, awaited);
        let is_inside = matches!(source, WaitSource::OwnProcess | WaitSource::Relative);
        let name = thread.descriptor_name(awaited.number).unwrap_or_default();
        let Some(inode) = inode_of(&name.to_string_lossy()).filter(|_| is_inside) else {
            return Thread::In(source);
        };
        // If the kernel does not name the other end of a local socket, it is a guess that the process
        // holds both.
        let is_local =
            matches!(self.sockets.look_up(process.id.pid, inode), Some(Socket::Local(_)));
        if source == WaitSource::OwnProcess
            && is_local
            && sockets::peer_of_local(inode) == LocalPeer::Unknown
        {
            return Thread::In(WaitSource::Other("a socket of its own".to_owned()));
        }
        match sockets::has_time_limit(process.id.pid, awaited) {
            Some(false) => Thread::In(source),
            Some(true) => Thread::Waits { on: vec![source], timed: true },
            None => Thread::In(WaitSource::Other("a socket, perhaps for a time".to_owned())),
        }
    }

    fn sources(
        &mut self,
        process: &ProcessInfo,
        thread: &ThreadDirectory,
        descriptors: &[Awaited],
        depth: usize,
    ) -> Vec<WaitSource> {
        let mut sources = Vec::new();
        for awaited in descriptors {
            let name = thread.descriptor_name(awaited.number);
            let is_epoll = name.as_deref() == Some(Path::new("anon_inode:[eventpoll]"));
            let nested = (depth > 0 && is_epoll)
                .then(|| calls::watched_by_epoll(thread, awaited.number))
                .flatten();
            if let Some(nested) = nested {
                sources.extend(self.sources(process, thread, &nested, depth - 1));
                continue;
            }
            // Room for output or an exception at the task's own terminal or output does not count as a
            // source besides its input.
            let is_own =
                |name: PathBuf| self.is_input(process, &name) || self.outputs.contains(&name);
            if awaited.input || !name.is_some_and(is_own) {
                sources.push(self.source(process, thread, *awaited));
            }
        }
        sources
    }

    /// What a wait for a descriptor waits for.
    fn source(
        &mut self,
        process: &ProcessInfo,
        thread: &ThreadDirectory,
        awaited: Awaited,
    ) -> WaitSource {
        let Some(name) = thread.descriptor_name(awaited.number) else {
            return WaitSource::Other(format!("descriptor {}", awaited.number));
        };
        if self.is_input(process, &name) {
            return if awaited.input {
                WaitSource::Input
            } else {
                WaitSource::Other("room for output".to_owned())
            };
        }
        let text = name.to_string_lossy().into_owned();
        if let Some(inode) = inode_of(&text) {
            return self.socket(process.id.pid, inode);
        }
        if text.starts_with("pipe:[") {
            let is_output = self.outputs.contains(&name);
            return match awaited.input {
                true if is_output => WaitSource::OwnOutput,
                true if writes_to(process.id.pid, &name) => {
                    self.read_themselves.insert(process.id.pid);
                    WaitSource::OwnProcess
                }
                true => WaitSource::Pipe(text),
                // This process takes the output.
                false if is_output => WaitSource::Other("room for output".to_owned()),
                false => WaitSource::PipeRoom(text),
            };
        }
        match text.as_str() {
            "anon_inode:inotify" | "anon_inode:[fanotify]" => WaitSource::Files,
            "anon_inode:[eventfd]" => WaitSource::OwnProcess,
            "anon_inode:[timerfd]" => WaitSource::Timer,
            "anon_inode:[signalfd]" => WaitSource::Signal,
            "anon_inode:[pidfd]" => WaitSource::Child,
            "/dev/ptmx" | "/dev/pts/ptmx" => {
                WaitSource::Master(master_number(thread, awaited.number))
            }
            "/dev/tty" => WaitSource::OtherTerminal(process.terminal),
            _ if text.starts_with("/dev/pts/") => {
                let number = text.strip_prefix("/dev/pts/").and_then(|it| it.parse().ok());
                WaitSource::OtherTerminal(number)
            }
            _ => self.file(process, thread, awaited, text),
        }
    }

    /// What a wait for a FIFO, a device or another file waits for.
    fn file(
        &self,
        process: &ProcessInfo,
        thread: &ThreadDirectory,
        awaited: Awaited,
        text: String,
    ) -> WaitSource {
        match calls::kind(&thread.0.join(format!("fd/{}", awaited.number))) {
            // A program that holds both ends of a FIFO reads what any other program writes there.
            Some(FileType::Fifo)
                if awaited.input && writes_to(process.id.pid, Path::new(&text)) =>
            {
                WaitSource::Datagrams(Phrase::new(format_args!("FIFO {}", foreign::shown(&text))))
            }
            Some(FileType::Fifo) if awaited.input => WaitSource::Pipe(text),
            Some(FileType::Fifo) => WaitSource::PipeRoom(text),
            Some(FileType::CharacterDevice) if awaited.input => WaitSource::Device(text.into()),
            _ => {
                let provider = mounts::provider_of_descriptor(&thread.0, awaited.number);
                file_system_or(provider, || text)
            }
        }
    }

    fn is_input(&self, process: &ProcessInfo, name: &Path) -> bool {
        match self.input {
            Some(InputSource::Terminal(terminal)) => {
                let own = process.session == self.session;
                name == terminal || own && name == Path::new("/dev/tty")
            }
            Some(InputSource::Pipe(pipe)) => name == pipe,
            None => false,
        }
    }

    fn socket(&mut self, pid: i32, inode: u64) -> WaitSource {
        match self.sockets.look_up(pid, inode) {
            Some(Socket::Listening(at)) if self.has_waiting_client(inode, &at) => {
                WaitSource::BusyListener
            }
            Some(Socket::Listening(at)) => WaitSource::Listener(at),
            Some(Socket::Connected(peer)) => self.connection(pid, inode, peer),
            Some(Socket::Datagrams(at)) => WaitSource::Datagrams(at),
            Some(Socket::Local(name)) => self.local_socket(pid, inode, name),
            None => WaitSource::Other(format!("socket {inode}")),
        }
    }

    /// Whether a process of the task waits for an answer of the server that listens at this socket,
    /// which another one of the task is to give, or the same one.
    fn has_waiting_client(&mut self, listener: u64, at: &Phrase) -> bool {
        let clients = self.sockets.clients_of(listener);
        let of_tcp = clients.into_iter().any(|(client, server)| {
            // One that has not been accepted yet has no descriptor.
            (server == 0 || self.member_with(server).is_some())
                && self.member_with(client).is_some_and(|pid| sockets::awaits_answer(pid, client))
        });
        let accepted = self.sockets.accepted_at(at).to_vec();
        of_tcp
            || accepted.into_iter().any(|server| {
                self.member_with(server).is_some()
                    && matches!(
                        sockets::peer_of_local(server),
                        LocalPeer::Inode(client) if self.member_with(client).is_some()
                    )
            })
    }

    /// A process of the task that holds this socket.
    fn member_with(&mut self, inode: u64) -> Option<i32> {
        let name = PathBuf::from(format!("socket:[{inode}]"));
        let mut members = self.members.iter().map(|process| process.id.pid);
        members.find(|pid| self.descriptors_of(*pid).contains(&name))
    }

    /// A connection to this address, whose other end may be a process of the task.
    fn connection(&mut self, pid: i32, inode: u64, peer: Phrase) -> WaitSource {
        let Some(other) = self.sockets.other_end(inode) else {
            return WaitSource::Peer(Peer::Network(peer));
        };
        let name = PathBuf::from(format!("socket:[{other}]"));
        if self.descriptors_of(pid).contains(&name) {
            return WaitSource::OwnProcess;
        }
        let mut others = self.members.iter().filter(|other| other.id.pid != pid);
        if others.any(|other| self.descriptors_of(other.id.pid).contains(&name)) {
            WaitSource::Relative
        } else {
            WaitSource::Peer(Peer::Network(peer))
        }
    }

    fn local_socket(&mut self, pid: i32, inode: u64, name: Option<Phrase>) -> WaitSource {
        let (peer, candidates) = match sockets::peer_of_local(inode) {
            LocalPeer::Inode(peer) => (Some(peer), vec![peer]),
            LocalPeer::None => (None, Vec::new()),
            // The kernel numbers the two sockets of a pair one after the other.
            LocalPeer::Unknown => (None, vec![inode.wrapping_sub(1), inode.wrapping_add(1)]),
        };
        let names: Vec<PathBuf> =
            candidates.iter().map(|inode| PathBuf::from(format!("socket:[{inode}]"))).collect();
        let holds =
            |descriptors: &HashSet<PathBuf>| names.iter().any(|name| descriptors.contains(name));
        if holds(self.descriptors_of(pid)) {
            return WaitSource::OwnProcess;
        }
        let members = self.members;
        let mut others = members.iter().filter(|other| other.id.pid != pid);
        if peer.is_some() && others.any(|other| holds(self.descriptors_of(other.id.pid))) {
            return WaitSource::Relative;
        }
        let of_peer = peer.and_then(|peer| match self.sockets.look_up(pid, peer) {
            Some(Socket::Local(name)) => name,
            _ => None,
        });
        let name = of_peer.or(name);
        WaitSource::Peer(Peer::Local(name.unwrap_or_else(|| LOCAL.into())))
    }

    fn descriptors_of(&mut self, pid: i32) -> &HashSet<PathBuf> {
        self.descriptors.entry(pid).or_insert_with(|| processes::descriptor_names(pid).collect())
    }
}

/// Whether the main thread of a process waits until a child that borrows its memory, as under
/// `vfork(2)`, has started another program: the kernel shows that as a sleep that no signal ends.
pub(crate) fn is_in_vfork(process: &ProcessInfo) -> bool {
    let pid = process.id.pid;
    awaits_child(&ThreadDirectory(processes::proc_directory(pid).join(format!("task/{pid}"))))
}

fn awaits_child(thread: &ThreadDirectory) -> bool {
    let call = thread.call_text().and_then(|text| SystemCall::read(&text, thread));
    call == Some(SystemCall::Plain(Thread::In(WaitSource::Child)))
}

/// A process whose threads have not been read.
fn unread(process: &ProcessInfo) -> ProcessWaits {
    ProcessWaits {
        process: process.label(),
        parent: process.parent,
        stopped: matches!(process.stall_reason, Some(StallReason::Stopped(_))),
        signals: Signals::None,
        timer: None,
        counts_retries: false,
        threads: Vec::new(),
    }
}

/// The first of these processes that has a timer, above others that it may end.
pub(crate) fn timer_above(members: &[ProcessInfo]) -> Option<ProcessName> {
    let parents: HashSet<i32> = members.iter().map(|process| process.parent).collect();
    let mut above = members.iter().filter(|process| parents.contains(&process.id.pid));
    above.find(|process| alarms::timer_of(process.id.pid).is_some()).map(ProcessInfo::label)
}

/// Whether a wait is one for processes of the task alone, at the end of a client or of a server.
fn is_conversation_within_task(on: &[WaitSource]) -> bool {
    let is_of_it =
        |source: &WaitSource| matches!(source, WaitSource::Relative | WaitSource::BusyListener);
    let is_own = |source: &WaitSource| *source == WaitSource::OwnProcess;
    on.iter().any(is_of_it) && on.iter().all(|source| is_of_it(source) || is_own(source))
}

/// A process outside the task that holds one of these pipes or FIFOs open.
pub(crate) fn holder_outside(
    names: &HashSet<&str>,
    members: &[ProcessInfo],
) -> Option<ProcessName> {
    let inside: HashSet<i32> = members.iter().map(|process| process.id.pid).collect();
    let mut found = None;
    processes::visit(|process| {
        if found.is_none()
            && !process.zombie
            && !inside.contains(&process.id.pid)
            && processes::descriptor_names(process.id.pid)
                .any(|name| name.to_str().is_some_and(|name| names.contains(name)))
        {
            found = Some(process.label());
        }
    });
    found
}

/// Another process of the task that holds this pipe or FIFO open.
pub(crate) fn holder_inside(name: &str, but: i32, members: &[ProcessInfo]) -> Option<ProcessName> {
    let mut others = members.iter().filter(|process| process.id.pid != but);
    let holder = others.find(|process| {
        processes::descriptor_names(process.id.pid).any(|held| held.to_str() == Some(name))
    });
    holder.map(ProcessInfo::label)
}

/// A wait for the provider of a file's file system; without one, for something else.
fn file_system_or(provider: Option<Phrase>, other: impl FnOnce() -> String) -> WaitSource {
    match provider {
        Some(provider) => WaitSource::Peer(Peer::FileSystem(provider)),
        None => WaitSource::Other(other()),
    }
}

/// Whether a thread serves its runtime. The names of threads that wait for others are not read,
/// since they do not matter.
fn is_housekeeping(thread: &Thread, directory: &ThreadDirectory) -> bool {
    *thread != Thread::In(WaitSource::Futex) && runtimes::is_housekeeping(&directory.name())
}

/// Whether a process holds an end of this pipe that can be written to.
fn writes_to(pid: i32, pipe: &Path) -> bool {
    let directory = processes::proc_directory(pid);
    let Ok(entries) = std::fs::read_dir(directory.join("fd")) else {
        return false;
    };
    entries.flatten().any(|entry| {
        std::fs::read_link(entry.path()).is_ok_and(|name| name == pipe)
            && is_writable(&directory.join("fdinfo").join(entry.file_name()))
    })
}

/// Whether the line `flags:` of a descriptor, in octal, allows writing.
fn is_writable(info: &Path) -> bool {
    let text = processes::read_proc_text(info).unwrap_or_default();
    let flags =
        processes::field(&text, "flags:").and_then(|flags| i32::from_str_radix(flags, 8).ok());
    flags.is_some_and(|flags| flags & libc::O_ACCMODE != libc::O_RDONLY)
}

/// The line `tty-index:` of a terminal's master end.
fn master_number(thread: &ThreadDirectory, descriptor: i32) -> Option<u32> {
    let text = thread.descriptor_info(descriptor)?;
    processes::field(&text, "tty-index:")?.parse().ok()
}

/// A futex that is not marked as private: in memory that is not shared it is so all the same, as that
/// of pthread_join(3). In a named file it is a semaphore, which any program may post; in other
/// memory it is shared with relatives.
fn shared_futex(pid: i32, address: u64) -> WaitSource {
    let directory = processes::proc_directory(pid);
    let maps = MemoryMaps::from_file(directory.join("maps"));
    match maps.map(|maps| memory_at(maps, address, |map, path| name_now(&directory, map, path))) {
        Ok(Memory::OfFile(path)) => WaitSource::Lock(Lock::new(Foreign::from(path), None)),
        Ok(Memory::Shared(memory)) => WaitSource::SharedFutex(memory),
        Ok(Memory::Own) | Err(_) => WaitSource::Futex,
    }
}

/// Who sees the memory at an address.
#[derive(Debug, PartialEq, Eq)]
enum Memory {
    Own,
    /// Relatives: it has no file, or one without a name by which another program could open it. Named
    /// by its device and inode.
    Shared(String),
    /// Every process that opens this file.
    OfFile(String),
}

/// `name_now` finds the name of a file whose name at its opening, without the mark, is gone.
fn memory_at(
    maps: MemoryMaps,
    address: u64,
    name_now: impl Fn(&MemoryMap, &str) -> Option<String>,
) -> Memory {
    let map = maps.into_iter().find(|map| {
        map.perms.contains(MMPermissions::SHARED)
            && (map.address.0..map.address.1).contains(&address)
    });
    let Some(map) = map else { return Memory::Own };
    let path = match &map.pathname {
        MMapPath::Path(path) => path.to_str(),
        _ => None,
    };
    let name = path.and_then(|path| match path.strip_suffix(" (deleted)") {
        Some(before) => name_now(&map, before),
        None => Some(path.to_owned()),
    });
    let (major, minor) = map.dev;
    name.map_or_else(
        || Memory::Shared(format!("{major:02x}:{minor:02x} {}", map.inode)),
        Memory::OfFile,
    )
}

/// How many entries of a directory are read to find the name of a file.
const MAX_ENTRIES: usize = 10_000;

/// The name of a file that had another one when it was opened: `sem_open(3)` makes a semaphore under a
/// name of its own, gives it the wanted one and removes the first. It stays in its directory.
fn name_now(process: &Path, map: &MemoryMap, before: &str) -> Option<String> {
    let directory = Path::new(before).parent()?;
    let seen = process.join("root").join(directory.strip_prefix("/").ok()?);
    let mut entries = std::fs::read_dir(seen).ok()?.flatten().take(MAX_ENTRIES);
    // Of one directory, they are on one file system.
    let found = entries.find(|entry| entry.ino() == map.inode)?;
    directory.join(found.file_name()).into_os_string().into_string().ok()
}

/// Whether a process outside the task maps this memory.
pub(crate) fn is_mapped_outside(memory: &str, members: &[ProcessInfo]) -> bool {
    let inside: HashSet<i32> = members.iter().map(|process| process.id.pid).collect();
    let mut found = false;
    processes::visit(|process| {
        let pid = process.id.pid;
        found |= !found && !process.zombie && !inside.contains(&pid) && maps_memory(pid, memory);
    });
    found
}

/// Whether another process of the task maps this memory.
pub(crate) fn is_mapped_inside(memory: &str, but: i32, members: &[ProcessInfo]) -> bool {
    members.iter().any(|process| process.id.pid != but && maps_memory(process.id.pid, memory))
}

fn maps_memory(pid: i32, memory: &str) -> bool {
    let maps = processes::read_proc_text(processes::proc_directory(pid).join("maps"));
    maps.is_ok_and(|maps| maps.contains(&format!(" {memory} ")))
}

/// How often a path is looked up in the kernel's cache, which fails while a file system is mounted.
const CACHED_TRIES: usize = 3;

/// Whether a process that opens this path opens a FIFO, as far as the kernel's cache tells: a link on
/// the way may lead to a file system that does not answer.
fn opens_fifo(pid: i32, path: &str) -> Option<bool> {
    let from = if path.starts_with('/') { "root" } else { "cwd" };
    let base = processes::proc_directory(pid).join(from);
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let base = rustix::fs::open(base, flags, Mode::empty()).ok()?;
    let path = path.trim_start_matches('/');
    let open =
        |_| rustix::fs::openat2(&base, path, flags, Mode::empty(), ResolveFlags::CACHED).ok();
    let file = (0..CACHED_TRIES).find_map(open)?;
    let own = Path::new("/proc/self/fd").join(file.as_raw_fd().to_string());
    Some(calls::kind(&own) == Some(FileType::Fifo))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;
    use crate::process::tree::look_up;
    use crate::process::vfork;

    #[test]
    fn the_waits_of_this_process_are_seen() {
        // A thread that waits for this one, which holds the sender.
        let (sender, receiver) = crossbeam_channel::bounded::<()>(0);
        let waiting = std::thread::spawn(move || receiver.recv().is_ok());

        let mut known = Known::default();
        let own = look_up(std::process::id() as i32).expect("this process");
        let members = [own];
        let blocked = Thread::In(WaitSource::Futex);
        while !Waits::new(None, 0, &members).read_all(&mut known)[0].threads.contains(&blocked) {}
        drop(sender);
        assert!(!waiting.join().expect("the thread ends"));
        // Above any pid of a live machine.
        let mut gone = members[0].clone();
        gone.id.pid = 50_000_000;
        let members = [gone];
        let seen = Waits::new(None, 0, &members).read_all(&mut known);
        assert_eq!(seen[0].threads, []);
    }

    /// Reads one byte.
    extern "C" fn read_one(pipe: *mut libc::c_void) -> libc::c_int {
        // SAFETY: it is the descriptor that the parent, which is suspended, has passed.
        let pipe = unsafe { *pipe.cast::<libc::c_int>() };
        let mut byte = 0_u8;
        // SAFETY: `byte` has room for one byte.
        unsafe { libc::read(pipe, (&raw mut byte).cast(), 1) };
        0
    }

    #[test]
    fn a_wait_for_a_child_that_borrows_the_memory_is_no_disk_sleep() {
        let own = look_up(std::process::id() as i32).expect("this process");
        assert!(!is_in_vfork(&own));
        let (reader, mut writer) = std::io::pipe().expect("a pipe");
        let (sender, receiver) = crossbeam_channel::bounded(1);
        let waits = std::thread::spawn(move || {
            sender.send(rustix::thread::gettid().as_raw_nonzero()).expect("a receiver");
            let mut pipe = reader.as_raw_fd();
            // SAFETY: `read_one` makes one system call, and the descriptor outlives the child.
            unsafe { vfork::run(0, read_one, (&raw mut pipe).cast()) }
        });
        let thread = receiver.recv().expect("the id of a thread");
        let directory = processes::proc_directory(own.id.pid).join(format!("task/{thread}"));
        while !awaits_child(&ThreadDirectory(directory.clone())) {
            std::thread::yield_now();
        }
        writer.write_all(b"x").expect("the child reads it");
        let child = waits.join().expect("no panic").expect("a child");
        vfork::reap(child);
    }

    #[test]
    fn an_exec_changes_the_runtime() {
        let mut known = Known::default();
        let mut own = look_up(std::process::id() as i32).expect("this process");
        known.runtimes.insert(own.id, (own.name.clone(), Runtime::Go));
        assert_eq!(known.runtime(&own), Runtime::Go, "it is read only once");
        own.name.push('x');
        assert_eq!(known.runtime(&own), Runtime::None);
    }

    #[test]
    fn a_pipe_that_a_stranger_holds_is_held_outside() {
        let (reader, _writer) = std::io::pipe().expect("a pipe");
        let link = format!("/proc/self/fd/{}", reader.as_raw_fd());
        let name = std::fs::read_link(link).expect("its name");
        let name = name.to_str().expect("text");
        let own = look_up(std::process::id() as i32).expect("this process");
        let names = HashSet::from([name]);
        let holder = holder_outside(&names, &[]).expect("this process");
        assert_eq!(holder.pid, own.id.pid);
        assert!(writes_to(own.id.pid, Path::new(name)));
        assert_eq!(holder_outside(&names, &[own]), None);
    }

    #[test]
    fn semaphores_have_files_with_names() {
        let text = "7f00-7f10 rw-s 00000000 00:1a 5    /dev/shm/sem.x\n\
                    7f10-7f20 rw-s 00000000 00:1a 6    /dev/shm/mp-y (deleted)\n\
                    7f20-7f30 rw-p 00000000 00:1a 7    /usr/lib/libfoo.so\n";
        let maps = || MemoryMaps::from_read(text.as_bytes()).expect("maps");
        let at = |address| memory_at(maps(), address, |_, _| None);
        assert_eq!(at(0x7f08), Memory::OfFile("/dev/shm/sem.x".to_owned()));
        assert_eq!(at(0x7f18), Memory::Shared("00:1a 6".to_owned()));
        assert_eq!(at(0x7f28), Memory::Own);
        assert_eq!(at(0x1), Memory::Own);
        let renamed = memory_at(maps(), 0x7f18, |_, before| Some(format!("{before}-now")));
        assert_eq!(renamed, Memory::OfFile("/dev/shm/mp-y-now".to_owned()));
    }

    #[test]
    fn a_file_is_found_under_another_name_in_its_directory() {
        let directory = tempfile::tempdir().expect("a directory");
        let (first, second) = (directory.path().join("one"), directory.path().join("two"));
        std::fs::write(&first, "x").expect("a file");
        std::fs::hard_link(&first, &second).expect("a second name");
        std::fs::remove_file(&first).expect("the first name is removed");
        let file = calls::identity(&second).expect("a file");
        let text = format!(
            "7f00-7f10 rw-s 0 {:02x}:{:02x} {} {} (deleted)\n",
            file.device.0,
            file.device.1,
            file.inode,
            first.to_str().expect("text")
        );
        let process = processes::proc_directory(std::process::id() as i32);
        let memory = || {
            let maps = MemoryMaps::from_read(text.as_bytes()).expect("maps");
            memory_at(maps, 0x7f08, |map, before| name_now(&process, map, before))
        };
        assert_eq!(memory(), Memory::OfFile(second.to_str().expect("text").to_owned()));
        std::fs::remove_file(&second).expect("the second name is removed");
        assert!(matches!(memory(), Memory::Shared(_)));
    }
}
