//! Processes that outlive their parent, without a subreaper: init adopts them. Only their process
//! groups are known here, and on macOS which process started each.

use std::collections::HashSet;
use std::io;
use std::sync::Arc;

use crate::process::close_on_exec;
use crate::process::descriptors::Waker;
#[cfg(not(target_os = "macos"))]
use crate::process::groups::{self, Group};
#[cfg(target_os = "macos")]
use crate::process::kill::{Handle, handles};
use crate::process::signals;
use crate::process::tree::Identity;

/// From now on this process learns of the end of its children, even if it was started with
/// SIGCHLD ignored, and has descriptors for many. No orphans come to it.
pub(crate) fn adopt() -> io::Result<()> {
    signals::stop_ignoring_children();
    close_on_exec::raise_descriptor_limit();
    Ok(())
}

/// The processes that this one adopted: not known.
pub(crate) fn adopted() -> Option<Vec<i32>> {
    None
}

/// Children are the process's: the end of a thread changes nothing.
pub(crate) fn thread_has_children() -> bool {
    false
}

/// No process is adopted, so there is nothing to wake for.
pub(crate) fn wake_at_ends(_waker: Arc<Waker>) -> io::Result<()> {
    Ok(())
}

/// No process is adopted, so none is reaped.
pub(crate) fn reap_adopted(_seen: &mut HashSet<Identity>) -> bool {
    false
}

/// The descendants of this process, except the named programs that lead a session of their own
/// and what they have started.
#[cfg(target_os = "macos")]
pub(in crate::process) fn living(spared: &[String]) -> Vec<Handle> {
    living_or_in(spared, &std::collections::BTreeSet::new())
}

/// The same, with the members of these sessions and groups.
#[cfg(target_os = "macos")]
pub(super) fn living_or_in(
    spared: &[String],
    groups: &std::collections::BTreeSet<i32>,
) -> Vec<Handle> {
    use super::{darwin, lineage};
    use crate::process::tree::{ProcessInfo, Scan};
    let scan = Scan::take();
    let own = std::process::id().cast_signed();
    let is_ours = |process: &ProcessInfo| {
        process.id.pid != own
            && (lineage::has(process.id.started)
                || groups.contains(&process.session)
                || groups.contains(&process.group))
    };
    let is_spared = |process: &ProcessInfo| process.is_spared(spared);
    handles(darwin::select_own(scan.processes(), is_ours, is_spared))
}

/// The groups that this process has started. A program to be spared leads a session of its own, and
/// so has left these groups.
#[cfg(not(target_os = "macos"))]
pub(in crate::process) fn living(_spared: &[String]) -> Vec<Group> {
    groups::living().into_iter().map(Group).collect()
}
