//! Whether a process is confined more than this one: not known here.

use crate::process::probe::Identity;

/// Why a process may do less than this one: not known.
pub(crate) fn confinement(_process: Option<Identity>) -> Option<&'static str> {
    None
}

/// Why a process may not be what the file that it executes says: not known.
pub(crate) fn disguise(_pid: i32) -> Option<&'static str> {
    None
}
