//! What threads wait for: no portable call reports it, so every process counts as unreadable.

use std::collections::HashSet;

use crate::process::probe::InputSource;
use crate::process::tree::ProcessInfo;
use crate::progress::wait::ProcessName;
use crate::progress::wait::{ProcessWaits, Thread};

/// Sleeps that earlier probes have found: none.
#[derive(Debug, Default)]
pub struct Sleeps {}

/// One probe of the processes of a task.
pub struct Waits<'a> {
    family: &'a [ProcessInfo],
}

impl<'a> Waits<'a> {
    /// A probe of these processes of a task.
    pub(crate) fn new(
        _input: Option<&'a InputSource>,
        _session: i32,
        family: &'a [ProcessInfo],
    ) -> Waits<'a> {
        Waits { family }
    }

    /// What every process of the family does.
    pub(crate) fn of_all(&mut self, _sleeps: &mut Sleeps) -> Vec<ProcessWaits> {
        let family = self.family;
        family.iter().map(|process| self.of(process)).collect()
    }

    /// What one process does.
    pub(crate) fn of(&mut self, process: &ProcessInfo) -> ProcessWaits {
        ProcessWaits {
            process: process.label(),
            parent: process.parent,
            stopped: false,
            threads: vec![Thread::Unreadable],
        }
    }
}

/// A process outside the family that holds one of these pipes open: not known.
pub(crate) fn holder_outside(
    _names: &HashSet<&str>,
    _family: &[ProcessInfo],
) -> Option<ProcessName> {
    None
}
