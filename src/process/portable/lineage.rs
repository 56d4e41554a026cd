//! The descendants of this process on macOS, those too that have left their session and whose
//! parents have ended: noted at each look at the machine, and at the moment of each fork.
//!
//! Limits: the kernel reports that a process has forked, not what; a child that ends before it
//! is looked up is missed, and with it what it has started.

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

/// Notes what a look at the machine shows, and adds to each process those above its origin.
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

/// Notes a child of this process, without what it will start.
pub(super) fn note_child(child: Pid) {
    let child = look_up(child.as_raw_nonzero().get());
    note(child.as_ref().and_then(origin).as_slice(), false);
}

/// Notes a child of this process and, from now on, what it and its descendants start.
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

/// Waits for forks until the queue fails, which it does at the end of the process alone.
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

/// Asks for the forks of a process, and notes the children that it has by then.
fn watch(forks: &OwnedFd, process: &ProcessInfo) {
    let Some(pid) = Pid::from_raw(process.id.pid) else { return };
    let filter = EventFilter::Proc { pid, flags: ProcessEvents::FORK };
    // One that has ended forks no more.
    if kqueue::add(forks, filter, EventFlags::CLEAR).is_ok() {
        note_children(forks, process.id.pid);
    }
}

fn note_children(forks: &OwnedFd, pid: i32) {
    for child in children_of(pid).into_iter().filter_map(look_up) {
        // One that is known is watched already.
        if !note(origin(&child).as_slice(), false).is_empty() {
            watch(forks, &child);
        }
    }
}
