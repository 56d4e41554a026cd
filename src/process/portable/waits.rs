//! What threads wait for: no portable call reports it, so every process counts as unreadable.
//! On macOS a pipe reports that a process waits in a read of it; the youngest process that has it as stdin
//! is taken for that reader, since the others have started it.

use std::collections::HashSet;
use std::path::PathBuf;

use crate::process::probe::{Identity, InputSource, StallReason};
use crate::process::tree::ProcessInfo;
use crate::progress::standstill::Runs;
use crate::progress::wait::ProcessName;
use crate::progress::wait::{ProcessWaits, Signals, Thread, WaitSource};

/// Known that earlier probes have found: always none, since none can be seen.
#[derive(Debug, Default)]
pub(crate) struct Known {}

/// One probe of the processes of a task.
pub(crate) struct Waits<'a> {
    family: &'a [ProcessInfo],
    /// The process that waits for the task's input, at its pipe.
    reader: Option<i32>,
}

#[cfg(target_os = "macos")]
fn reader(input: Option<&InputSource>, family: &[ProcessInfo]) -> Option<i32> {
    use super::{libproc, processes};
    let Some(InputSource::Pipe(name)) = input else { return None };
    let pipe = processes::pipe_number(name)?;
    let is_stopped =
        |process: &&ProcessInfo| matches!(process.stall_reason, Some(StallReason::Stopped(_)));
    let holders = family.iter().filter(|process| !is_stopped(process)).filter_map(|process| {
        let is_awaited = libproc::is_awaited_at_stdin(process.id.pid, pipe)?;
        // The mark of a reader that was killed stays until something is written.
        Some((process.id.started, process.id.pid, is_awaited && !process.runnable))
    });
    holders.max().and_then(|(_, pid, is_awaited)| is_awaited.then_some(pid))
}

#[cfg(not(target_os = "macos"))]
fn reader(_input: Option<&InputSource>, _family: &[ProcessInfo]) -> Option<i32> {
    None
}

impl<'a> Waits<'a> {
    /// A probe of these processes of a task.
    pub(crate) fn new(
        input: Option<&'a InputSource>,
        _session: i32,
        family: &'a [ProcessInfo],
    ) -> Waits<'a> {
        Waits { family, reader: reader(input, family) }
    }

    /// The same probe: which pipes take the output does not matter here.
    pub(crate) fn with_outputs(self, _outputs: &[PathBuf]) -> Waits<'a> {
        self
    }

    /// How often a process's threads have run: not known.
    pub(crate) fn runs(_process: &ProcessInfo) -> Runs {
        Runs::default()
    }

    /// What every process of the family does.
    pub(crate) fn read_all(&mut self, _known: &mut Known) -> Vec<ProcessWaits> {
        let family = self.family;
        family.iter().map(|process| self.read_one(process)).collect()
    }

    /// The same: it does not matter which processes have run.
    pub(crate) fn read_all_beside(
        &mut self,
        _running: &HashSet<Identity>,
        known: &mut Known,
    ) -> Vec<ProcessWaits> {
        self.read_all(known)
    }

    /// What one process does.
    pub(crate) fn read_one(&mut self, process: &ProcessInfo) -> ProcessWaits {
        ProcessWaits {
            process: process.label(),
            parent: process.parent,
            stopped: matches!(process.stall_reason, Some(StallReason::Stopped(_))),
            signals: Signals::None,
            timer: None,
            counts_retries: false,
            threads: vec![if self.reader == Some(process.id.pid) {
                Thread::In(WaitSource::Input)
            } else {
                Thread::Unreadable
            }],
        }
    }
}

/// The first of these processes that has a timer, above others: not known.
pub(crate) fn timer_above(_members: &[ProcessInfo]) -> Option<ProcessName> {
    None
}

/// A process outside the family that holds one of these pipes open: not known.
pub(crate) fn holder_outside(
    _names: &HashSet<&str>,
    _family: &[ProcessInfo],
) -> Option<ProcessName> {
    None
}

/// Another process of the family that holds this pipe open: not known.
pub(crate) fn holder_inside(
    _name: &str,
    _but: i32,
    _family: &[ProcessInfo],
) -> Option<ProcessName> {
    None
}

/// Whether a process outside the family maps this memory: not known.
pub(crate) fn is_mapped_outside(_memory: &str, _family: &[ProcessInfo]) -> bool {
    true
}

/// Whether another process of the family maps this memory: not known.
pub(crate) fn is_mapped_inside(_memory: &str, _but: i32, _family: &[ProcessInfo]) -> bool {
    true
}

/// Whether a process waits for a child that borrows its memory: not known.
pub(crate) fn is_in_vfork(_process: &ProcessInfo) -> bool {
    false
}
