//! One process, as any look at it describes it.

use super::hindrance::Hindrance;

/// One process for as long as the machine is up: its pid and its start time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Identity {
    /// The process id.
    pub pid: i32,
    /// On Linux field 22 of `/proc/<pid>/stat`, in clock ticks since boot, on macOS Unix
    /// time in microseconds; 0 where it is not known.
    pub started: u64,
}

/// The environment that a process was started with, as a look finds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Environment {
    /// Its entries, each ended by NUL.
    Entries(Vec<u8>),
    /// It is just becoming another program, or has just ended: for this moment there is none.
    Passing,
    /// It is another user's, or is not shown at all.
    Hidden,
}

impl Environment {
    /// Whether it has this entry, `name=value`.
    pub fn has(&self, wanted: &[u8]) -> bool {
        self.entries().any(|entry| entry == wanted)
    }

    /// Its entries.
    pub fn entries(&self) -> impl Iterator<Item = &[u8]> {
        let bytes = match self {
            Environment::Entries(bytes) => bytes.as_slice(),
            Environment::Passing | Environment::Hidden => &[],
        };
        bytes.split(|byte| *byte == 0)
    }
}

/// What is known of one process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessInfo {
    /// Which process.
    pub id: Identity,
    /// Its parent's pid.
    pub parent: i32,
    /// Its process group's id.
    pub group: i32,
    /// Its session's id.
    pub session: i32,
    /// Its name (comm), at most 15 bytes, which it chooses itself; control characters in
    /// it are shown as `?`.
    pub name: String,
    /// Ended, but not yet reaped.
    pub zombie: bool,
    /// What keeps it from running on, if anything does.
    pub hindrance: Option<Hindrance>,
    /// Its first thread runs, or would if there were a processor for it.
    pub runnable: bool,
    /// The CPU time that it has used, in clock ticks.
    pub cpu_ticks: u64,
    /// The CPU time of the children that it has waited for, in clock ticks.
    pub children_ticks: u64,
}
