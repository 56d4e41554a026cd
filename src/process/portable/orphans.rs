//! What was started and outlives whoever started it, without a subreaper: orphans go to
//! the first process of the machine, and their groups alone are known here.

use std::collections::HashSet;
use std::io;
use std::time::{Duration, Instant};

use crate::process::groups;
use crate::process::signals::{self, Signal};
use crate::process::tree::Identity;

/// From SIGTERM to SIGKILL for whatever this process has started when it ends.
const GRACE: Duration = Duration::from_millis(500);
/// After SIGKILL.
const PATIENCE: Duration = Duration::from_millis(300);

/// From now on this process learns of the end of its children, whatever it was started
/// with. No orphans come to it.
///
/// # Errors
/// None.
pub fn adopt() -> io::Result<()> {
    signals::stop_ignoring_children();
    Ok(())
}

/// Who came to this process: not known.
pub fn adopted() -> Option<Vec<i32>> {
    None
}

/// Nobody is adopted, so that nobody is reaped.
pub fn reap_adopted(_seen: &mut HashSet<Identity>) -> bool {
    false
}

/// The end of all groups that this process has started.
#[derive(Debug)]
pub struct Sweep {
    begun: Instant,
}

impl Sweep {
    /// Sends SIGTERM and SIGCONT to all groups. Programs that are to be spared have left
    /// them, as whoever leads a session has.
    pub fn begin(_spared: &[String]) -> Sweep {
        groups::signal(&groups::living(), &[Signal::Term, Signal::Cont]);
        Sweep {
            begun: Instant::now(),
        }
    }

    /// Waits until the grace is over or nobody lives, then sends SIGKILL to the rest.
    pub fn finish(self) {
        let grace = (self.begun + GRACE).saturating_duration_since(Instant::now());
        let left = groups::await_ends(groups::living, grace);
        groups::signal(&left, &[Signal::Kill]);
        groups::await_ends(groups::living, PATIENCE);
    }
}

/// Sends SIGKILL to all groups that this process has started; for an end that waits for
/// nobody.
pub fn kill_all(_spared: &[String]) {
    groups::signal(&groups::living(), &[Signal::Kill]);
}
