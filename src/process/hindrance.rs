//! What keeps a process from running on.
//!
//! Limits: of a process with several threads it is the main one's state. Which signal has
//! stopped a process is told by newer kernels, of this user's processes, and until its
//! parent has asked for it.

use crate::progress::condition::StopSignal;

/// What keeps a process, or its main thread, from running on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hindrance {
    /// Stopped by a signal. A debugger's stop is another thing and none of this.
    Stopped(StopSignal),
    /// A sleep that no signal ends: a disk, a network file system.
    DiskSleep,
    /// The main thread has ended, and others live.
    ZombieLeader,
}
