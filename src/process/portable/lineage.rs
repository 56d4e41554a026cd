//! The descendants of this process on macOS, even if they left their session and their parents
//! have ended: recorded at each scan of the machine and at each fork.
//!
//! Limits: the kernel reports that a process has forked, but not the child. A child that ends
//! before it is looked up is missed, and so are the processes that it started.

#![cfg(target_os = "macos")]

use std::collections::HashSet;
use std::os::fd::OwnedFd;
use std::sync::OnceLock;

use parking_lot::Mutex;
use rustix::event::kqueue::{EventFilter, EventFlags, ProcessEvents};
use rustix::process::Pid;

use super::darwin::Lineage;
use super::libproc::{children_of, look_up};
use super::queue::kqueue;
use crate::process::probe::ProcessInfo;

static LINEAGE: Mutex<Option<Lineage>> = Mutex::new(None);

/// The start of this process.
fn root() -> u64 {
    static ROOT: OnceLock<u64> = OnceLock::new();
    let own = || look_up(std::process::id().cast_signed()).map_or(0, |own| own.id.started);
    *ROOT.get_or_init(own)
}

/// Where forks are reported, once [`follow`] was called.
static FORKS: OnceLock<Option<OwnedFd>> = OnceLock::new();

fn note(seen: &[(u64, u64)], whole: bool) -> HashSet<u64> {
    LINEAGE.lock().get_or_insert_default().note(root(), seen, whole)
}

fn origin(process: &ProcessInfo) -> Option<(u64, u64)> {
    Some((process.id.started, *process.origins.first()?))
}

/// Records what a scan of the machine shows, and adds to each process the ancestors of its origin.
pub(super) fn complete(processes: &mut [ProcessInfo], whole: bool) {
    let seen: Vec<(u64, u64)> = processes.iter().filter_map(origin).collect();
    let fresh = note(&seen, whole);
    if let Some(Some(forks)) = FORKS.get() {
        let fresh = processes.iter().filter(|process| fresh.contains(&process.id.started));
        fresh.for_each(|process| watch(forks, process));
    }
    let living: HashSet<u64> = seen.iter().map(|(start, _)| *start).collect();
    let lineage = LINEAGE.lock();
    let Some(lineage) = lineage.as_ref() else { return };
    for process in processes {
        if let Some((_, origin)) = origin(process) {
            process.origins = lineage.up_to_living(origin, |start| living.contains(&start));
        }
    }
}

/// Whether a process of this start descends from this process.
pub(super) fn has(start: u64) -> bool {
    LINEAGE.lock().as_ref().is_some_and(|lineage| lineage.has(start))
}

/// Records a child of this process, but not the processes that it will start.
pub(super) fn note_child(child: Pid) {
    let child = look_up(child.as_raw_nonzero().get());
    note(child.as_ref().and_then(origin).as_slice(), false);
}

/// Records a child of this process and, from now on, the processes that it and its descendants start.
pub(super) fn follow(child: Pid) {
    let forks = FORKS.get_or_init(|| {
        let forks = kqueue::new().ok()?;
        let ours = forks.try_clone().ok()?;
        let thread = std::thread::Builder::new().name("lineage".to_owned());
        thread.spawn(move || note_forks(&ours)).ok()?;
        Some(forks)
    });
    note_child(child);
    if let (Some(forks), Some(child)) = (forks, look_up(child.as_raw_nonzero().get())) {
        watch(forks, &child);
    }
}

/// Waits for forks until the queue fails, which happens only when this process exits.
fn note_forks(forks: &OwnedFd) {
    loop {
        let events = kqueue::take(forks, true);
        if events.is_empty() {
            return;
        }
        for event in events {
            if let EventFilter::Proc { pid, .. } = event.filter() {
                note_children(forks, pid.as_raw_nonzero().get());
            }
        }
    }
}

/// Subscribes to the forks of a process, and records the children that it already has.
fn watch(forks: &OwnedFd, process: &ProcessInfo) {
    let Some(pid) = Pid::from_raw(process.id.pid) else { return };
    let filter = EventFilter::Proc { pid, flags: ProcessEvents::FORK };
    // An ended process cannot fork.
    if kqueue::add(forks, filter, EventFlags::CLEAR).is_ok() {
        note_children(forks, process.id.pid);
    }
}

fn note_children(forks: &OwnedFd, pid: i32) {
    for child in children_of(pid).into_iter().filter_map(look_up) {
        // A known process is already watched.
        if !note(origin(&child).as_slice(), false).is_empty() {
            watch(forks, &child);
        }
    }
}
