//! A task's descriptors: where input is written, and what the kernel calls the ends that
//! the task's processes hold, in `/proc/<pid>/fd`.

use std::os::fd::OwnedFd;
use std::path::PathBuf;

use super::live::{Input, LiveTask};
use super::shell;
use crate::process::descriptors;
use crate::process::probe::Source;
use crate::process::pty;
use crate::process::spawn::Spawned;
use crate::process::tree;

/// The most that is read of a side-band, which holds one or two short records.
const REPORT_BYTES: usize = 64 * 1024;

/// The task's output.
pub(super) fn output_name(task: &LiveTask, spawned: &Spawned) -> Option<PathBuf> {
    match task.facts.input {
        Input::Terminal => pty::terminal_name(&spawned.output),
        Input::Pipe | Input::None => tree::name_of_descriptor(&spawned.output),
    }
}

/// Where the task's input is written.
pub(super) fn input_descriptor<'a>(task: &LiveTask, spawned: &'a Spawned) -> Option<&'a OwnedFd> {
    match task.facts.input {
        Input::Terminal => Some(&spawned.output),
        Input::Pipe | Input::None => spawned.input.as_ref(),
    }
}

/// The task's input, if anybody can answer it.
pub(super) fn input_source(task: &LiveTask, spawned: &Spawned) -> Option<Source> {
    match task.facts.input {
        Input::Terminal => pty::terminal_name(&spawned.output).map(Source::Terminal),
        Input::Pipe => {
            let name = spawned.input.as_ref().and_then(tree::name_of_descriptor);
            name.map(Source::Pipe)
        }
        Input::None => None,
    }
}

/// What the shell's prologue has reported.
pub(super) fn read_report(sideband: Option<OwnedFd>) -> shell::Report {
    let bytes = sideband.map(|sideband| descriptors::read_waiting(&sideband, REPORT_BYTES));
    shell::read_report(&bytes.unwrap_or_default())
}
