//! What the threads of a task's processes wait for: their system calls, with the meaning of the
//! descriptors.
//!
//! Limits: Linux; processes of this user that do not hide or, for root, all processes. If the
//! kernel does not name the other end of a local socket, that end counts as outside the task.

use std::collections::{HashMap, HashSet};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use procfs::FromRead;
use procfs::process::{MMPermissions, MMapPath, MemoryMaps};
use rustix::fs::{FileType, Mode, OFlags, ResolveFlags};

use super::calls::{self, Awaited, Call, ThreadDirectory};
use super::locks;
use super::sockets::{self, LOCAL, Socket, Sockets, inode_of};
use crate::process::probe::{Identity, InputSource, ProcessInfo, StallReason};
use crate::process::processes;
use crate::progress::wait::{Lock, Peer, ProcessName, ProcessWaits, Thread, WaitSource};

/// An epoll instance may watch another one; no program nests them deeper.
const EPOLL_DEPTH: usize = 2;

/// Sleeps that were seen before, by process and by the text of the call, so that a sleep's duration
/// is read from the process's memory only once.
#[derive(Debug, Default)]
pub(crate) struct Sleeps {
    known: HashMap<Identity, (String, Thread)>,
}

/// One probe of a task's processes, which share what it has read.
pub(crate) struct Waits<'a> {
    input: Option<&'a InputSource>,
    /// The shell's session, in which `/dev/tty` is the task's terminal.
    session: i32,
    members: &'a [ProcessInfo],
    sockets: Sockets,
    descriptors: HashMap<i32, HashSet<PathBuf>>,
}

impl<'a> Waits<'a> {
    /// A probe of these processes of a task, whose input is `input`.
    pub(crate) fn new(
        input: Option<&'a InputSource>,
        session: i32,
        members: &'a [ProcessInfo],
    ) -> Waits<'a> {
        Waits { input, session, members, sockets: Sockets::default(), descriptors: HashMap::new() }
    }

    /// What every process of the task waits for.
    pub(crate) fn of_all(&mut self, sleeps: &mut Sleeps) -> Vec<ProcessWaits> {
        let members = self.members;
        let lives = |id: &Identity| members.iter().any(|process| process.id == *id);
        sleeps.known.retain(|id, _| lives(id));
        let processes = members.iter();
        processes.map(|process| self.probe(process, Some(sleeps))).collect()
    }

    /// What one process waits for. A process that has ended meanwhile has no threads.
    pub(crate) fn of(&mut self, process: &ProcessInfo) -> ProcessWaits {
        self.probe(process, None)
    }

    fn probe(&mut self, process: &ProcessInfo, mut sleeps: Option<&mut Sleeps>) -> ProcessWaits {
        let threads = calls::threads(process).into_iter();
        let threads = threads.map(|thread| self.of_thread(process, &thread, sleeps.as_deref_mut()));
        ProcessWaits {
            process: process.label(),
            parent: process.parent,
            stopped: matches!(process.stall_reason, Some(StallReason::Stopped(_))),
            threads: threads.collect(),
        }
    }

    fn of_thread(
        &mut self,
        process: &ProcessInfo,
        thread: &ThreadDirectory,
        sleeps: Option<&mut Sleeps>,
    ) -> Thread {
        let Some(text) = thread.call_text() else {
            return Thread::Unreadable;
        };
        let known = sleeps.as_ref().and_then(|sleeps| sleeps.known.get(&process.id));
        if let Some((_, known)) = known.filter(|(known, _)| *known == text) {
            return known.clone();
        }
        let Some(call) = Call::read(&text, thread) else {
            return Thread::Unreadable;
        };
        let is_sleep =
            matches!(call, Call::Plain(Thread::Waits { .. } | Thread::In(WaitSource::Signal)));
        let found = self.of_call(process, thread, call);
        if let Some(sleeps) = sleeps.filter(|_| is_sleep) {
            sleeps.known.insert(process.id, (text, found.clone()));
        }
        found
    }

    fn of_call(&mut self, process: &ProcessInfo, thread: &ThreadDirectory, call: Call) -> Thread {
        Thread::In(match call {
            Call::Plain(thread) => return thread,
            Call::Set { descriptors, timed } => {
                let on = self.sources(process, thread, &descriptors, EPOLL_DEPTH);
                return Thread::Waits { on, timed };
            }
            Call::SharedFutex(address) => shared_futex(process.id.pid, address),
            Call::Transfer(awaited) => match self.source(process, thread, awaited) {
                // That the process holds both ends of a socket pair may be a guess.
                WaitSource::OwnProcess if !is_pipe(thread, awaited.number) => {
                    WaitSource::Other("a socket of its own".to_owned())
                }
                source => source,
            },
            Call::FileLock(descriptor) => {
                let name = thread.descriptor_name(descriptor).unwrap_or_default();
                let path = thread.0.join(format!("fd/{descriptor}"));
                WaitSource::Lock(locks::lock_of(&path, &name))
            }
            Call::Open(path) if opens_fifo(process.id.pid, &path) == Some(true) => {
                WaitSource::FifoOpening(path)
            }
            Call::Open(path) => WaitSource::Other(format!("opening {path}")),
            Call::UnknownSet => WaitSource::Other("many descriptors".to_owned()),
        })
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
            // Room for output or an exception at the task's own terminal does not count as a source
            // besides its input.
            if awaited.input || !name.is_some_and(|name| self.is_input(process, &name)) {
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
            return if awaited.input && writes_to(process.id.pid, &name) {
                WaitSource::OwnProcess
            } else {
                WaitSource::Pipe(text)
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
            _ if is_fifo(&thread.0.join(format!("fd/{}", awaited.number))) => {
                // A program that holds both ends of a FIFO reads what any other program writes
                // there.
                if awaited.input && writes_to(process.id.pid, &name) {
                    WaitSource::Datagrams(format!("FIFO {text}"))
                } else {
                    WaitSource::Pipe(text)
                }
            }
            _ => WaitSource::Other(text),
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
            Some(Socket::Listening(at)) => WaitSource::Listener(at),
            Some(Socket::Connected(peer)) => WaitSource::Peer(Peer::Network(peer)),
            Some(Socket::Datagrams(at)) => WaitSource::Datagrams(at),
            Some(Socket::Local(name)) => self.local_socket(pid, inode, name),
            None => WaitSource::Other(format!("socket {inode}")),
        }
    }

    fn local_socket(&mut self, pid: i32, inode: u64, name: Option<String>) -> WaitSource {
        let answer = sockets::peer_of_local(inode);
        let peer = answer.flatten();
        // The kernel numbers the two sockets of a pair one after the other.
        let candidates = match answer {
            Some(peer) => peer.into_iter().collect(),
            None => vec![inode.wrapping_sub(1), inode.wrapping_add(1)],
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
        WaitSource::Peer(Peer::Local(name.unwrap_or_else(|| LOCAL.to_owned())))
    }

    fn descriptors_of(&mut self, pid: i32) -> &HashSet<PathBuf> {
        self.descriptors.entry(pid).or_insert_with(|| processes::descriptor_names(pid).collect())
    }
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

fn is_pipe(thread: &ThreadDirectory, descriptor: i32) -> bool {
    let name = thread.descriptor_name(descriptor);
    name.is_some_and(|name| name.to_string_lossy().starts_with("pipe:["))
}

fn is_fifo(path: &Path) -> bool {
    calls::kind(path) == Some(FileType::Fifo)
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

/// A futex in a named file is a semaphore, which any program may post; any other is shared with
/// relatives at most.
fn shared_futex(pid: i32, address: u64) -> WaitSource {
    let maps = MemoryMaps::from_file(processes::proc_directory(pid).join("maps"));
    match maps.ok().and_then(|maps| file_in(maps, address)) {
        Some(path) => WaitSource::Lock(Lock { path, holder: None }),
        None => WaitSource::Futex,
    }
}

/// The file that is mapped shared at an address. One that was deleted has no name by which
/// another program could open it.
fn file_in(maps: MemoryMaps, address: u64) -> Option<String> {
    let map = maps.into_iter().find(|map| {
        map.perms.contains(MMPermissions::SHARED)
            && (map.address.0..map.address.1).contains(&address)
    })?;
    match map.pathname {
        MMapPath::Path(path) => path.into_os_string().into_string().ok(),
        _ => None,
    }
    .filter(|path| !path.ends_with(" (deleted)"))
}

/// Whether a process that opens this path opens a FIFO. A path that is not in the kernel's
/// cache is not resolved: its file system may be what hangs.
fn opens_fifo(pid: i32, path: &str) -> Option<bool> {
    let from = if path.starts_with('/') { "root" } else { "cwd" };
    let base = processes::proc_directory(pid).join(from);
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let base = rustix::fs::open(base, flags, Mode::empty()).ok()?;
    let path = path.trim_start_matches('/');
    let cached = ResolveFlags::CACHED;
    let file = rustix::fs::openat2(base, path, flags, Mode::empty(), cached).ok()?;
    let own = Path::new("/proc/self/fd").join(file.as_raw_fd().to_string());
    Some(is_fifo(&own))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::tree::look_up;

    #[test]
    fn the_waits_of_this_process_are_seen() {
        // A thread that waits for this one, which holds the sender.
        let (sender, receiver) = crossbeam_channel::bounded::<()>(0);
        let waiting = std::thread::spawn(move || receiver.recv().is_ok());

        let mut sleeps = Sleeps::default();
        let own = look_up(std::process::id() as i32).expect("this process");
        let members = [own];
        let blocked = Thread::In(WaitSource::Futex);
        while !Waits::new(None, 0, &members).of_all(&mut sleeps)[0].threads.contains(&blocked) {}
        drop(sender);
        assert!(!waiting.join().expect("the thread ends"));
        // Above any pid of a live machine.
        let mut gone = members[0].clone();
        gone.id.pid = 50_000_000;
        let members = [gone];
        let seen = Waits::new(None, 0, &members).of_all(&mut sleeps);
        assert_eq!(seen[0].threads, []);
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
        let path = Some("/dev/shm/sem.x".to_owned());
        assert_eq!(file_in(maps(), 0x7f08), path);
        assert_eq!(file_in(maps(), 0x7f18), None);
        assert_eq!(file_in(maps(), 0x7f28), None);
        assert_eq!(file_in(maps(), 0x1), None);
    }
}
