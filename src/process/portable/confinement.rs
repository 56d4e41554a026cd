//! Whether a process is confined more than this one: not known here.

use crate::process::probe::Identity;

/// Why a process may do less than this one: not known.
pub(crate) fn confinement(_process: Option<Identity>) -> Option<&'static str> {
    None
}
