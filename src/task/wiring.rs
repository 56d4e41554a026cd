//! A task's descriptors: where input is written, and what the kernel calls the ends that
//! the task's processes hold, in `/proc/<pid>/fd`.

use std::os::fd::OwnedFd;
use std::path::PathBuf;

use super::input::{Flushed, InputQueue};
use super::live::{Input, LiveTask};
use super::shell;
use crate::process::descriptors;
use crate::process::probe::Source;
use crate::process::pty::{self, TerminalSize};
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

/// Writes as much of the queued input as the program takes now.
pub(super) fn feed_input(input: &mut InputQueue, task: &LiveTask, spawned: &mut Spawned) {
    let flushed = match input_descriptor(task, spawned) {
        Some(fd) => input.flush(fd, task.facts.input),
        None => Flushed::Closed,
    };
    match flushed {
        // Answers of the terminal alone: nobody waits for them to be read.
        Flushed::Written {
            taken: 0,
            dropped: 0,
        } => {}
        Flushed::Written { taken, dropped } => task.report(|state| {
            state.queued_input = state.queued_input.saturating_sub(taken);
            state.dropped_input += dropped;
        }),
        Flushed::End | Flushed::Closed => close_input(input, task, spawned),
    }
}

/// Closes the task's input; what is queued goes nowhere.
pub(super) fn close_input(input: &mut InputQueue, task: &LiveTask, spawned: &mut Spawned) {
    spawned.input = None;
    *input = InputQueue::default();
    task.report(|state| {
        state.queued_input = 0;
        state.input_closed = true;
    });
}

/// Gives the task's terminal a size that was queued for it.
pub(super) fn resize(task: &LiveTask, spawned: &Spawned, size: TerminalSize) {
    let resized = pty::resize(&spawned.output, size).is_ok();
    task.report(|state| {
        state.queued_sizes = state.queued_sizes.saturating_sub(1);
        if resized {
            state.columns = Some(size.cols);
        }
    });
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
