//! What a probe of the machine reports about processes, and what the machine may hide.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::progress::condition::StopSignal;
use crate::progress::wait::ProcessName;

/// One process since the boot of the machine: its pid and its start time.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
pub struct Identity {
    pub pid: i32,
    /// On Linux field 22 of `/proc/<pid>/stat`, in clock ticks since boot; on macOS a number
    /// that the kernel gives each process in order, and one of the boot; 0 where it is not
    /// known.
    pub started: u64,
}

/// The environment that a process was started with, as far as it can be read.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(dead_code, reason = "the portable twin reads no entries")]
pub(crate) enum Environment {
    /// Its entries, each ended by NUL.
    Entries(Vec<u8>),
    /// Not there for a moment: the process is in the middle of exec, or has just ended.
    InTransition,
    /// Not readable: the process is another user's, or hidden.
    Hidden,
}

impl Environment {
    /// Whether it has this entry, `name=value`.
    pub(crate) fn has(&self, wanted: &[u8]) -> bool {
        self.entries().any(|entry| entry == wanted)
    }

    pub(crate) fn entries(&self) -> impl Iterator<Item = &[u8]> {
        let bytes = match self {
            Environment::Entries(bytes) => bytes.as_slice(),
            Environment::InTransition | Environment::Hidden => &[],
        };
        bytes.split(|byte| *byte == 0)
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProcessInfo {
    pub id: Identity,
    pub parent: i32,
    /// [`Identity::started`] of the process that started it, also after that has ended, then of
    /// its ancestors as far as they are known. Empty where the system does not keep it.
    pub origins: Vec<u64>,
    pub group: i32,
    pub session: i32,
    /// Its controlling terminal, if that is `/dev/pts/N`, by its number.
    pub terminal: Option<u32>,
    /// The process group in the foreground of that terminal.
    pub foreground: i32,
    /// Its name (comm), at most 15 bytes, which the process may choose; control characters are
    /// replaced by `?`.
    pub name: String,
    /// Whether it has ended and is not reaped yet.
    pub zombie: bool,
    /// What keeps it, or its main thread, from running.
    pub stall_reason: Option<StallReason>,
    /// Its number of threads; 0 where that is not known.
    pub threads: u64,
    /// Whether its main thread runs, or is ready to run.
    pub runnable: bool,
    /// Whether it still runs its parent's program, under that name: it was forked, and has not made
    /// an exec.
    pub is_fork: bool,
    /// The memory that it occupies, in bytes; pages that several processes share count for each.
    pub resident: u64,
    /// The CPU time that it has used, on Linux in clock ticks and on macOS in microseconds.
    pub cpu_ticks: u64,
    /// The CPU time of the children that it has waited for, in clock ticks.
    pub children_ticks: u64,
    /// How much of both the kernel has spent on their behalf.
    pub system_ticks: u64,
}

/// Programs whose work is to become another one.
const PREFIXES: [&str; 8] =
    ["chrt", "env", "ionice", "nice", "nohup", "setsid", "stdbuf", "taskset"];

impl ProcessInfo {
    /// Whether it may be on its way to another program, whose name it will have. A process that
    /// waits for something is not.
    pub(crate) fn may_be_about_to_exec(&self) -> bool {
        let is_busy = self.runnable || self.stall_reason == Some(StallReason::DiskSleep);
        is_busy && !self.zombie && (self.is_fork || PREFIXES.contains(&self.name.as_str()))
    }

    /// Its pid and name, as shown to users.
    pub(crate) fn label(&self) -> ProcessName {
        ProcessName { pid: self.id.pid, name: self.name.clone().into() }
    }
}

/// A TCP socket that listens.
// Not constructed where sockets cannot be seen.
#[cfg_attr(any(not(target_os = "linux"), feature = "portable"), allow(dead_code))]
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Listener {
    /// An IPv4 address even if the socket is an IPv6 one.
    pub(crate) address: std::net::SocketAddr,
    pub(crate) inode: u64,
    /// The user that created it.
    pub(crate) uid: u32,
}

/// What keeps a process, or its main thread, from running.
///
/// Limits: for a process with several threads it is the state of the main one. Which signal
/// stopped a process is reported by newer kernels only, for this user's processes, and until
/// its parent has asked for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StallReason {
    /// Stopped by a signal, not by a debugger.
    Stopped(StopSignal),
    /// A sleep that no signal ends: a disk, a network file system.
    DiskSleep,
    /// The main thread has ended, and others live.
    ZombieLeader,
}

/// The input that a task may wait for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum InputSource {
    /// The task's terminal: `/dev/pts/N`.
    Terminal(PathBuf),
    /// The pipe at its stdin: `pipe:[N]`.
    Pipe(PathBuf),
}

/// What prevents this machine from showing what processes wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(dead_code, reason = "each system constructs its own")]
pub(crate) enum VisibilityLimit {
    /// `/proc` cannot be read.
    NoProc,
    /// `/proc` shows the processes of another PID namespace.
    AnotherNamespace,
    /// The system calls that processes are blocked in cannot be read: Yama's policy forbids
    /// it, or the kernel was built without.
    NoSystemCalls,
    /// Other users' processes are not shown (`hidepid`).
    OthersHidden,
    /// The program was built without the parts that need Linux.
    Portable,
    /// macOS shows processes, and not what they are blocked in.
    MacOs,
}
