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
    /// The CPU time that it has used, in clock ticks.
    pub cpu_ticks: u64,
    /// The CPU time of the children that it has waited for, in clock ticks.
    pub children_ticks: u64,
}
