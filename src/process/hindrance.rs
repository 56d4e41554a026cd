//! What keeps a process from running on, as `/proc/<pid>/stat` tells it.
//!
//! Limits: of a process with several threads it is the main one's state. Which signal has
//! stopped a process is told by newer kernels, of this user's processes, and until its
//! parent has asked for it.

use procfs::process::Stat;

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

impl Hindrance {
    /// What a line of `/proc/<pid>/stat` says.
    pub(super) fn of(stat: &Stat) -> Option<Hindrance> {
        match stat.state {
            // The field of the exit code holds the signal while a process is stopped.
            'T' => Some(Hindrance::Stopped(stop_signal(stat.exit_code))),
            'D' => Some(Hindrance::DiskSleep),
            'Z' if stat.num_threads > 1 => Some(Hindrance::ZombieLeader),
            _ => None,
        }
    }
}

fn stop_signal(number: Option<i32>) -> StopSignal {
    match number {
        Some(libc::SIGSTOP) => StopSignal::Stop,
        Some(libc::SIGTSTP) => StopSignal::Keyboard,
        Some(libc::SIGTTIN) => StopSignal::Reading,
        Some(libc::SIGTTOU) => StopSignal::Writing,
        // Older kernels do not tell, nor does any of another user's processes.
        _ => StopSignal::Unknown,
    }
}
