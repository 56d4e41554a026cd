//! Runs a check of a run: a command line of the user that says whether a worker's result holds.
//!
//! It is red if it exits with an error, if a program in its last pipeline has failed (`make test |
//! tail` hides that from the exit code), or if it does not end in time. What it leaves running is
//! ended with it.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::controls::{Control, Controls};
use super::runtime::Runtime;
use super::state::RunEvent;
use crate::process::signals::Exit;
use crate::shell::command_line::CommandLine;
use crate::task::describe;
use crate::task::live::{End, LiveState, WaitStep};
use crate::task::output::amount;
use crate::task::output::reading;
use crate::task::registry::TaskHandle;
use crate::task::request::Request;
use crate::task::state::{KILL_GRACE, KILL_PATIENCE, KillRequest};
use crate::task::stream::StreamName;
use crate::text::ansi::Colours;
use crate::text::lines::{self, Layout, LinePosition, Repeats, Room};
use crate::text::quantity::seconds;

/// The most characters of a red check's output that the next worker gets.
const OUTPUT_CHARS: usize = 12_000;
/// A shell's exit code for a program that SIGPIPE ended: in `yes | head -1` nothing failed.
const BROKEN_PIPE: i32 = 128 + 13;

/// How a check ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CheckResult {
    pub iteration: u32,
    /// Its command line.
    pub command: String,
    pub passed: bool,
    /// How it ended, in words: `exit 2`.
    pub ended: String,
    /// How long it took, in seconds.
    pub seconds: f64,
}

impl CheckResult {
    /// `make test: passed (12s)`.
    pub(crate) fn summary(&self) -> String {
        let word = if self.passed { "passed" } else { "failed" };
        let took = Duration::try_from_secs_f64(self.seconds).unwrap_or_default();
        let how = if self.passed { String::new() } else { format!(", {}", self.ended) };
        format!("{}: {word}{how} ({})", self.command, seconds(took))
    }
}

/// The outcome of one check.
pub(super) enum CheckOutcome {
    Ended {
        result: CheckResult,
        /// What its output says, if it is red; not redacted.
        output: String,
    },
    /// The run should pause or end; the check is still alive.
    Stopped(RunEvent),
}

/// A check that runs.
pub(super) struct RunningCheck<'a> {
    runtime: &'a Runtime,
    pub(super) task: Arc<TaskHandle>,
    command: &'a str,
    iteration: u32,
}

impl<'a> RunningCheck<'a> {
    /// Starts a check of a run's iteration. `variables` mark its processes as the run's.
    ///
    /// # Errors
    /// If it cannot be started, with the reason as text.
    pub(super) fn start(
        runtime: &'a Runtime,
        run: &str,
        iteration: u32,
        directory: &Path,
        command: &'a str,
        variables: Vec<(String, String)>,
    ) -> Result<RunningCheck<'a>, String> {
        let request = Request {
            part_of: Some(run.to_owned()),
            description: Some("check of an agent run".to_owned()),
            directory: Some(directory.to_path_buf()),
            environment: variables,
            ..Request::of_own(CommandLine::parse(command))
        };
        let task = runtime
            .supervisor
            .start(request, None)
            .map_err(|error| format!("cannot start the check {command}: {error}"))?;
        Ok(RunningCheck { runtime, task, command, iteration })
    }

    /// Waits for its end, at most for `limit`, or until the run is to stop at the latest at
    /// `runtime_ends`.
    ///
    /// # Errors
    /// If its output cannot be read.
    pub(super) fn finish(
        &self,
        limit: Duration,
        runtime_ends: Option<Instant>,
        controls: &Controls,
    ) -> io::Result<CheckOutcome> {
        let begun = Instant::now();
        let deadline = begun.checked_add(limit);
        let found = loop {
            controls.controller.waker.take_wakeup();
            while let Some(control) = controls.take() {
                // Other requests concern agents.
                if let Control::Stop(event) = control {
                    return Ok(CheckOutcome::Stopped(event));
                }
            }
            let now = Instant::now();
            if runtime_ends.is_some_and(|end| now >= end) {
                return Ok(CheckOutcome::Stopped(RunEvent::MaxRuntime));
            }
            if deadline.is_some_and(|deadline| now >= deadline) {
                break None;
            }
            let until = [deadline, runtime_ends].into_iter().flatten().min();
            let cancel = controls.controller.waker.wait();
            let found = self.task.live.wait_for(until, &cancel, end_of, Instant::now);
            if found.is_some() {
                break found;
            }
        };
        let (passed, ended) = match found {
            Some(end) => (is_green(&end), how_it_ended(&end)),
            None => (false, self.why_it_hangs(limit)),
        };
        self.end_all();
        let result = CheckResult {
            iteration: self.iteration,
            command: self.command.to_owned(),
            passed,
            ended,
            seconds: begun.elapsed().as_secs_f64(),
        };
        let output = if passed { String::new() } else { self.output()? };
        Ok(CheckOutcome::Ended { result, output })
    }

    /// Says that it did not end in time, and what it was doing then.
    fn why_it_hangs(&self, limit: Duration) -> String {
        let verdict = self.task.live.state().verdict(Instant::now());
        let doing = verdict.as_ref().and_then(describe::at_deadline);
        let doing = doing.map_or_else(String::new, |text| format!(" ({text})"));
        format!("stopped after {}{doing}", seconds(limit))
    }

    /// Ends its processes, also those that it left in the background.
    fn end_all(&self) {
        // One whose processes have all ended refuses the kill.
        if let Ok(receipt) = self.runtime.supervisor.begin_kill(&self.task, KillRequest::Escalate) {
            let _ = receipt.recv_timeout(KILL_GRACE + KILL_PATIENCE);
        }
    }

    fn output(&self) -> io::Result<String> {
        let (end, to, columns) = {
            let state = self.task.live.state();
            (state.ended.clone(), state.showable_end(StreamName::Output), state.columns)
        };
        let amount =
            amount::amount(&self.task, StreamName::Output, to.at, end.as_ref(), None, OUTPUT_CHARS);
        let spool = &self.task.spools.output;
        let spans = reading::excerpt(spool, LinePosition::FIRST.at, to, amount)?;
        let layout = Layout {
            room: Room::with_chars(amount.max_chars),
            numbered: false,
            repeats: Repeats::Collapse,
            choice: amount.choice,
            colours: Colours::Drop,
            columns,
            read_call: "",
            raw_call: "",
        };
        Ok(lines::lay_out(&spans, &layout).text)
    }
}

fn end_of(state: &LiveState) -> WaitStep<End> {
    match &state.ended {
        Some(end) => WaitStep::Found(end.clone()),
        None => WaitStep::WaitDespiteOutput(None),
    }
}

fn is_green(end: &End) -> bool {
    end.exit == Exit::Code(0) && failed_in_pipe(end).is_none()
}

/// The status of a program in the last pipeline that failed.
fn failed_in_pipe(end: &End) -> Option<i32> {
    end.pipestatus.iter().copied().find(|status| *status != 0 && *status != BROKEN_PIPE)
}

fn how_it_ended(end: &End) -> String {
    match (end.exit, failed_in_pipe(end)) {
        (Exit::Code(0), Some(status)) => {
            format!("exit 0, but a program in its pipe failed with {status}")
        }
        (Exit::Code(code), _) => format!("exit {code}"),
        (Exit::Signal(number), _) => format!("ended by signal {number}"),
    }
}

/// Describes the red checks for the next worker.
pub(super) fn failures(red: &[(CheckResult, String)]) -> String {
    let parts = red.iter().map(|(result, output)| {
        let output = output.trim_end();
        let output = if output.trim().is_empty() { "(no output)" } else { output };
        format!("$ {}\n{output}\n[{}]", result.command, result.ended)
    });
    parts.collect::<Vec<_>>().join("\n\n")
}
