//! What threads wait for at one probe, and whether that is the task's input.
//!
//! Pure: `process::waits` collects the data, [`super::tree_state`] and [`super::waiting`] judge it.

use serde::{Deserialize, Serialize};

use crate::text::foreign::{Foreign, Phrase};

/// A process, as shown to users.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessName {
    pub pid: i32,
    pub name: Foreign,
}

/// Something that can end a thread's wait.
// Platforms that cannot observe processes never construct these.
#[cfg_attr(any(not(target_os = "linux"), feature = "portable"), allow(dead_code))]
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum WaitSource {
    /// The task's terminal, or the pipe at its stdin.
    Input,
    /// A terminal other than the task's, with the number of `/dev/pts/N` if known.
    OtherTerminal(Option<u32>),
    /// The master end of a terminal, with the number of `/dev/pts/N` if known.
    Master(Option<u32>),
    /// A connection request; the text names the address, as in `port 3000`.
    Listener(Phrase),
    /// The same, of a server with a client of the same task that still waits for an answer.
    BusyListener,
    /// A datagram or an event from any sender, as in `udp 514`.
    Datagrams(Phrase),
    /// The other end of a connection, outside the task or unknown.
    Peer(Peer),
    /// The other end of a local connection, held by a process of the same task.
    Relative,
    /// A lock that a process of the same task holds, perhaps the one that waits.
    RelativesLock(Lock),
    /// A pipe or FIFO, by its name in `/proc/<pid>/fd`.
    Pipe(String),
    /// Room in a pipe or FIFO, by its name in `/proc/<pid>/fd`.
    PipeRoom(String),
    /// Input from the task's own output, which only this program reads: none can come.
    OwnOutput,
    /// Another process opening the other end of a FIFO, by its path.
    FifoOpening(Foreign),
    /// Another thread or a signal handler of the same process: a self-pipe, an eventfd.
    OwnProcess,
    /// Another thread of the process.
    Futex,
    /// A thread of a process that shares this memory, perhaps the same process; the memory is named
    /// by its device and inode, as `/proc/<pid>/maps` writes them.
    SharedFutex(String),
    /// A file lock or a semaphore.
    Lock(Lock),
    /// A change in watched files.
    Files,
    /// Data from a device, by its path.
    Device(Foreign),
    Signal,
    /// A signal, in `sigsuspend`, with which shells wait for their commands.
    Suspension,
    /// The end of a child.
    Child,
    Timer,
    /// The C library's thread that calls a function when a timer of the process runs out. Whether one
    /// runs is not known.
    TimerThread,
    /// Any other event, by its name or the number of the system call.
    Other(String),
}

/// The other end of a connection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Peer {
    /// Its address, as in `127.0.0.1:5432`.
    Network(Phrase),
    /// The path of a local socket, or a description of one without a path.
    Local(Phrase),
    /// The process that holds the other end of a pipe.
    Pipe(ProcessName),
    /// A file system that a server or another process provides, as in `fuse.sshfs at /mnt`.
    FileSystem(Phrase),
}

/// A lock that a thread waits for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lock {
    /// The file, or a description of the lock.
    pub path: Phrase,
    /// The process that holds it, if the kernel or the output names one.
    pub holder: Option<Holder>,
    /// Whether the command itself says that it waits for it, and tries again from time to time.
    #[serde(default)]
    pub is_named_in_output: bool,
}

impl Lock {
    /// A lock that a thread is blocked in.
    #[cfg_attr(any(not(target_os = "linux"), feature = "portable"), allow(dead_code))]
    pub(crate) fn new(path: impl Into<Phrase>, holder: Option<Holder>) -> Lock {
        Lock { path: path.into(), holder, is_named_in_output: false }
    }
}

/// A process that holds a lock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    pub process: ProcessName,
    /// The id of its task, if it belongs to one.
    pub task: Option<String>,
    /// Whether a signal has stopped it, so that it cannot release the lock.
    #[serde(default)]
    pub stopped: bool,
}

/// What one thread does.
// Platforms that cannot observe processes never construct these.
#[cfg_attr(any(not(target_os = "linux"), feature = "portable"), allow(dead_code))]
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Thread {
    /// It runs, or is ready to run.
    Running,
    /// It is blocked in a call on one source: a read, a write, an `accept`, a lock.
    In(WaitSource),
    /// It waits for any of several sources.
    Waits {
        /// All sources that can end the wait, except the time limit.
        on: Vec<WaitSource>,
        /// Whether there is a time limit.
        timed: bool,
    },
    /// It looks again and again, after a second or less, for what another process of the task, or it
    /// itself, is to send: the end of that time means nothing.
    Polls,
    /// It is unreadable: it belongs to another user, or ended during the probe.
    Unreadable,
}

/// Whether a process handles a signal that other programs send, besides those that its language's
/// runtime handles in every program.
#[cfg_attr(any(not(target_os = "linux"), feature = "portable"), allow(dead_code))]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Signals {
    None,
    Handled,
    /// Its runtime hides that.
    Unknown,
}

/// What the signal of a process's timer does, in time.
#[cfg_attr(any(not(target_os = "linux"), feature = "portable"), allow(dead_code))]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SignalTimer {
    /// It calls a handler, which may end a wait.
    Wakes,
    /// It ends the process, or calls a handler that was set for this.
    Ends,
}

/// One process and what its threads do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ProcessWaits {
    pub(crate) process: ProcessName,
    pub(crate) parent: i32,
    /// Whether a signal has stopped it.
    pub(crate) stopped: bool,
    /// Whether it handles a signal that other programs send. Determined only if it waits for nothing
    /// else.
    pub(crate) signals: Signals,
    /// Whether a timer sends it a signal. Determined only of one without children that waits for
    /// nothing outside the task.
    pub(crate) timer: Option<SignalTimer>,
    /// Whether the Java machine that it is counts how often threads tried in vain to enter a
    /// monitor, which they do with a time limit. Determined only if threads wait so.
    pub(crate) counts_retries: bool,
    /// The threads that do the program's work. Those that serve its language's runtime, such as a
    /// garbage collector's, are left out.
    pub(crate) threads: Vec<Thread>,
}

/// How a thread waits for the task's input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum InputWait {
    /// In a read of the input.
    Reading,
    /// In a wait for the input, and for nothing else outside its own process.
    Waiting {
        /// Whether there is a time limit.
        timed: bool,
        /// Whether its own process can end it too, as of an event loop.
        in_loop: bool,
    },
    /// In a wait for the input and for another source, such as a connection.
    Mixed,
}

impl Thread {
    /// Whether it waits for another thread with a time limit.
    pub(crate) fn is_timed_futex(&self) -> bool {
        matches!(self, Thread::Waits { on, timed: true } if on == &[WaitSource::Futex])
    }

    /// Whether it is an event loop that only its own process can wake, or the end of a time.
    #[cfg_attr(any(not(target_os = "linux"), feature = "portable"), allow(dead_code))]
    pub(crate) fn is_timed_own_loop(&self) -> bool {
        let is_own = |source: &WaitSource| *source == WaitSource::OwnProcess;
        matches!(self, Thread::Waits { on, timed: true } if !on.is_empty() && on.iter().all(is_own))
    }

    /// Whether only its own process can end its wait, or a signal.
    #[cfg_attr(any(not(target_os = "linux"), feature = "portable"), allow(dead_code))]
    pub(crate) fn waits_for_own_process(&self) -> bool {
        let is_own =
            |source: &WaitSource| matches!(source, WaitSource::OwnProcess | WaitSource::Futex);
        match self {
            Thread::In(source) => is_own(source),
            Thread::Waits { on, timed } => !timed && on.iter().all(is_own),
            Thread::Running | Thread::Polls | Thread::Unreadable => false,
        }
    }

    /// Whether nothing but its own task can end its wait, as far as its sources show; a lock's holder
    /// may belong to it.
    #[cfg_attr(any(not(target_os = "linux"), feature = "portable"), allow(dead_code))]
    pub(crate) fn waits_within_task(&self) -> bool {
        match self {
            Thread::In(source) => source.is_within_task(),
            Thread::Waits { on, timed } => !timed && on.iter().all(WaitSource::is_within_task),
            Thread::Running | Thread::Polls | Thread::Unreadable => false,
        }
    }

    /// How it waits for the task's input, if it does. A wait that file changes also end belongs to
    /// a watcher, which accepts keys while it works.
    pub(crate) fn input_wait(&self) -> Option<InputWait> {
        match self {
            Thread::In(WaitSource::Input) => Some(InputWait::Reading),
            Thread::Waits { on, timed } if on.contains(&WaitSource::Input) => {
                if on.contains(&WaitSource::Files) {
                    return None;
                }
                Some(if on.iter().all(WaitSource::is_input_or_internal) {
                    let in_loop = on.iter().any(|source| *source != WaitSource::Input);
                    InputWait::Waiting { timed: *timed, in_loop }
                } else {
                    InputWait::Mixed
                })
            }
            _ => None,
        }
    }
}

impl ProcessWaits {
    /// Whether any of its threads waits for the task's input, among other things perhaps.
    pub(crate) fn accepts_input(&self) -> bool {
        self.threads.iter().any(|thread| match thread {
            Thread::In(source) => *source == WaitSource::Input,
            Thread::Waits { on, .. } => on.contains(&WaitSource::Input),
            Thread::Running | Thread::Polls | Thread::Unreadable => false,
        })
    }

    /// Whether any of its threads waits for changes of files.
    pub(crate) fn watches_files(&self) -> bool {
        self.threads.iter().any(|thread| match thread {
            Thread::In(source) => *source == WaitSource::Files,
            Thread::Waits { on, .. } => on.contains(&WaitSource::Files),
            Thread::Running | Thread::Polls | Thread::Unreadable => false,
        })
    }

    /// Whether the main thread waits for the input and for nothing else, without a time limit.
    pub(crate) fn only_reads(&self) -> bool {
        match self.threads.first() {
            Some(Thread::In(source)) => *source == WaitSource::Input,
            Some(Thread::Waits { on, timed: false }) => {
                on.iter().all(|source| *source == WaitSource::Input) && !on.is_empty()
            }
            _ => false,
        }
    }
}

impl WaitSource {
    #[cfg_attr(any(not(target_os = "linux"), feature = "portable"), allow(dead_code))]
    fn is_within_task(&self) -> bool {
        matches!(
            self,
            WaitSource::Relative
                | WaitSource::RelativesLock(_)
                | WaitSource::Lock(_)
                | WaitSource::Pipe(_)
                | WaitSource::PipeRoom(_)
                | WaitSource::OwnOutput
                | WaitSource::FifoOpening(_)
                | WaitSource::OwnProcess
                | WaitSource::Futex
                | WaitSource::SharedFutex(_)
        )
    }

    /// Whether a wait for input that this source can also end is still only a wait for input.
    fn is_input_or_internal(&self) -> bool {
        matches!(
            self,
            WaitSource::Input | WaitSource::OwnProcess | WaitSource::Signal | WaitSource::Timer
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waits(on: &[WaitSource], timed: bool) -> Option<InputWait> {
        Thread::Waits { on: on.to_vec(), timed }.input_wait()
    }

    #[test]
    fn a_read_of_the_input_is_a_wait_for_it() {
        let wait = Thread::In(WaitSource::Input).input_wait();
        assert_eq!(wait, Some(InputWait::Reading));
        assert_eq!(Thread::In(WaitSource::Pipe("pipe:[1]".into())).input_wait(), None);
        assert_eq!(Thread::Running.input_wait(), None);
    }

    #[test]
    fn sources_inside_the_process_do_not_count() {
        let own = [WaitSource::Input, WaitSource::OwnProcess, WaitSource::Signal];
        for (on, timed, in_loop) in
            [(&own[..], false, true), (&own, true, true), (&own[..1], true, false)]
        {
            assert_eq!(waits(on, timed), Some(InputWait::Waiting { timed, in_loop }));
        }
        let peer = [WaitSource::Input, WaitSource::Peer(Peer::Network("127.0.0.1:443".into()))];
        assert_eq!(waits(&peer, false), Some(InputWait::Mixed));
        assert_eq!(waits(&[WaitSource::OwnProcess], false), None);
    }

    #[test]
    fn a_watcher_of_files_does_not_wait_for_input() {
        assert_eq!(waits(&[WaitSource::Input, WaitSource::Files], false), None);
    }
}
