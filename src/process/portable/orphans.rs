//! Processes that outlive their parent, without a subreaper: orphans go to the first process
//! of the machine, and only their groups are known here.

use std::collections::HashSet;
use std::io;
use std::sync::Arc;

use crate::process::descriptors::Waker;
use crate::process::groups::{self, Group};
use crate::process::signals;
use crate::process::tree::Identity;

/// From now on this process learns of the end of its children, even if it was started with
/// SIGCHLD ignored. No orphans come to it.
pub(crate) fn adopt() -> io::Result<()> {
    signals::stop_ignoring_children();
    Ok(())
}

/// The processes that this one adopted: not known.
pub(crate) fn adopted() -> Option<Vec<i32>> {
    None
}

/// No process is adopted, so there is nothing to wake for.
pub(crate) fn wake_at_ends(_waker: Arc<Waker>) -> io::Result<()> {
    Ok(())
}

/// No process is adopted, so none is reaped.
pub(crate) fn reap_adopted(_seen: &mut HashSet<Identity>) -> bool {
    false
}

/// The groups that this process has started. Programs that are to be spared have left them,
/// as every leader of a session has.
pub(in crate::process) fn living(_spared: &[String]) -> Vec<Group> {
    groups::living().into_iter().map(Group).collect()
}
