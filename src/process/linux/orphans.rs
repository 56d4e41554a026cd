//! Orphans that this process adopts as their subreaper: adopting them, reaping the ended ones, and
//! ending the living ones.
//!
//! A shell that execs its last command leaves its background processes to this process as children
//! (`server & zsh-tool exec make`). Such preexisting processes are left alone. Limits: their
//! descendants are recognised by their parents or their session; a process that has left both
//! counts as an adopted orphan.

use std::collections::HashSet;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use rustix::process::{Pid, WaitId, WaitIdOptions, WaitOptions};

use crate::process::descriptors::Waker;
use crate::process::kill::{Handle, handles};
use crate::process::processes::program_of;
use crate::process::signals;
use crate::process::tree::{self, Identity, ProcessInfo, Scan};
use crate::process::wait;

/// Whether this process adopts orphans.
static ADOPTS: AtomicBool = AtomicBool::new(false);
/// Woken when a child has ended.
static AT_ENDS: OnceLock<Arc<Waker>> = OnceLock::new();
/// The children that this process had before it started any itself; in a server, those of its
/// guard, none of which come to it.
static PREEXISTING: OnceLock<PreexistingProcesses> = OnceLock::new();

/// Children of this process that it did not start.
#[derive(Debug, Default)]
struct PreexistingProcesses {
    children: HashSet<Identity>,
    /// Their sessions. No process that was started here can join one: each child gets a
    /// session of its own.
    sessions: HashSet<i32>,
    /// The latest time at which any of them, or of their sessions' leaders, may have started.
    latest: u64,
}

impl PreexistingProcesses {
    /// Finds the present children. Usually there are none, which one system call shows.
    fn find() -> PreexistingProcesses {
        if !has_children() {
            return PreexistingProcesses::default();
        }
        let own = std::process::id() as i32;
        let children: Vec<ProcessInfo> = match tree::adopted_orphans() {
            Some(children) => children.into_iter().filter_map(tree::look_up).collect(),
            None => {
                let all = Scan::take();
                let children = all.processes().filter(|process| process.parent == own);
                children.cloned().collect()
            }
        };
        let own_start = tree::look_up(own).map(|process| process.id.started);
        let starts = children.iter().map(|child| child.id.started);
        PreexistingProcesses {
            latest: starts.chain(own_start).max().unwrap_or_default(),
            sessions: children.iter().map(|child| child.session).collect(),
            children: children.into_iter().map(|child| child.id).collect(),
        }
    }

    /// Whether a process is one of them, or a descendant: it is in one of their sessions, not in a
    /// new one of the same number, and is not a child of this process before its exec.
    fn includes(&self, process: &ProcessInfo) -> bool {
        self.children.contains(&process.id)
            || (self.sessions.contains(&process.session)
                && tree::look_up(process.session)
                    .is_none_or(|leader| leader.id.started <= self.latest)
                && program_of(process.id.pid) != program_of(std::process::id() as i32))
    }
}

/// Whether this process has any child, ended or not.
pub(super) fn has_children() -> bool {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    let state = rustix::process::waitid(WaitId::All, options);
    !matches!(state, Err(rustix::io::Errno::CHILD))
}

/// Whether the calling thread has a child, ended or not, that has not been reaped. When the thread
/// ends, the kernel makes it a child of the main thread, where it counts as adopted.
pub(crate) fn thread_has_children() -> bool {
    let options = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT | libc::__WNOTHREAD;
    // rustix has no __WNOTHREAD.
    // SAFETY: Linux accepts a null pointer for the result.
    let found = unsafe { libc::waitid(libc::P_ALL, 0, std::ptr::null_mut(), options) };
    // Kernels before 4.7 do not support it and fail with EINVAL: there may be one.
    found == 0 || io::Error::last_os_error().raw_os_error() != Some(libc::ECHILD)
}

/// Whether a process was this one's child before it started any, or descends from such a
/// child.
fn is_preexisting(process: &ProcessInfo) -> bool {
    PREEXISTING.get().is_some_and(|preexisting| preexisting.includes(process))
}

/// The living and ended processes that this one adopted as subreaper. `None` if the kernel
/// does not list them, or this process is no subreaper.
pub(crate) fn adopted() -> Option<Vec<i32>> {
    if !ADOPTS.load(Ordering::Relaxed) {
        return None;
    }
    let mut children = tree::adopted_orphans()?;
    if PREEXISTING.get().is_some_and(|preexisting| !preexisting.children.is_empty()) {
        children.retain(|pid| !tree::look_up(*pid).is_some_and(|child| is_preexisting(&child)));
    }
    Some(children)
}

/// Makes this process the subreaper of its descendants, and names it so that an agent's `pkill zsh`
/// does not match it. From then on it learns of the ends of its children, even if it was started
/// with SIGCHLD ignored.
///
/// # Errors
/// The kernel has no subreapers (before Linux 3.4).
pub(crate) fn adopt() -> io::Result<()> {
    PREEXISTING.get_or_init(PreexistingProcesses::find);
    signals::stop_ignoring_children();
    let _ = rustix::thread::set_name(tree::OWN_NAME);
    let own = rustix::process::getpid();
    rustix::process::set_child_subreaper(Some(own))?;
    ADOPTS.store(true, Ordering::Relaxed);
    Ok(())
}

/// From now on, wakes a thread when a child has ended for which no thread of this process waits,
/// such as an adopted one. The signal may be lost if another child ends at the same moment, so the
/// caller checks for such children after each task as well.
///
/// # Errors
/// When the system refuses a handler.
pub(crate) fn wake_at_ends(waker: Arc<Waker>) -> io::Result<()> {
    let _ = AT_ENDS.set(waker);
    // SAFETY: the action is plain data, initialised before use. Its handler has the type that
    // SA_SIGINFO asks for and may run at any time: it reads atomics and makes one system call,
    // without the C library and its errno.
    let taken = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = child_ended as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART | libc::SA_NOCLDSTOP;
        libc::sigemptyset(&mut action.sa_mask);
        libc::sigaction(libc::SIGCHLD, &action, std::ptr::null_mut())
    };
    if taken != 0 {
        return Err(io::Error::last_os_error());
    }
    signals::unblock([libc::SIGCHLD]);
    Ok(())
}

/// Handles SIGCHLD.
extern "C" fn child_ended(_: i32, signal: *const libc::siginfo_t, _: *const libc::c_void) {
    // SAFETY: the kernel passes a valid one.
    let is_watched =
        unsafe { signal.as_ref() }.is_some_and(|signal| wait::is_watched(signals::sender(signal)));
    if !is_watched && let Some(waker) = AT_ENDS.get() {
        waker.wake();
    }
}

/// Reaps adopted zombies that the last call has seen, and records the new ones in `seen`. Returns
/// whether there are new ones, for another call a second later.
///
/// They are reaped by pid, and only when they are seen twice: for a moment, a child that another
/// thread starts may look like an adopted one. Preexisting children are reaped as well, as this
/// process is their only parent.
pub(crate) fn reap_adopted(seen: &mut HashSet<Identity>) -> bool {
    let zombies: HashSet<Identity> = tree::adopted_orphans()
        .unwrap_or_default()
        .into_iter()
        .filter_map(tree::look_up)
        .filter(|process| process.zombie)
        .map(|process| process.id)
        .collect();
    for id in zombies.intersection(seen) {
        if let Some(pid) = Pid::from_raw(id.pid) {
            let _ = rustix::process::waitpid(Some(pid), WaitOptions::NOHANG);
        }
    }
    let fresh: HashSet<Identity> = zombies.difference(seen).copied().collect();
    *seen = fresh;
    !seen.is_empty()
}

/// The living descendants of this process, except the named programs that lead a session of their
/// own, and preexisting processes.
pub(in crate::process) fn living(spared: &[String]) -> Vec<Handle> {
    handles(below(&Scan::take(), spared))
}

/// As [`living`], in a scan.
pub(super) fn below<'a>(scan: &'a Scan, spared: &[String]) -> Vec<&'a ProcessInfo> {
    let own = std::process::id() as i32;
    let mut below =
        scan.descendants_but(own, |process| process.is_spared(spared) || is_preexisting(process));
    below.retain(|process| !process.zombie);
    below
}
