//! Probes of a task's processes. `input` finds what they wait for and their states, `progress`
//! whether they make progress; each has its own schedule.

mod input;
mod progress;

use std::sync::Arc;
use std::time::{Duration, Instant};

use self::input::InputDetection;
use self::progress::ProgressProbe;
use super::journal::Journal;
use super::live::{LiveState, LiveTask};
use super::output::spool::SpoolWriter;
use super::state::Health;
use super::stream::PerStream;
use crate::process::probe::InputSource;
use crate::process::scans::Scans;
use crate::process::spawn::Spawned;
use crate::process::tree::{Scan, TaskProcesses};
use crate::progress::tracker::TrackerSettings;
use crate::progress::wait::ProcessName;

/// Both series of probes.
pub(super) struct Probes {
    input_detection: InputDetection,
    progress_probe: ProgressProbe,
}

impl Probes {
    /// Probes of a task that starts now. `source` is its input and `session` that of its shell; a
    /// probe is due before `moving_deadline`, and more often if its memory has a limit.
    pub(super) fn new(
        settings: TrackerSettings,
        scans: Arc<Scans>,
        source: Option<InputSource>,
        session: i32,
        moving_deadline: Option<Instant>,
        has_memory_limit: bool,
    ) -> Probes {
        let phase_offset = scans.phase_offset();
        let (shared, input) = ((Arc::clone(&scans), phase_offset), source.clone());
        Probes {
            progress_probe: ProgressProbe::new(
                settings,
                shared,
                input,
                session,
                moving_deadline,
                has_memory_limit,
            ),
            input_detection: InputDetection::new(source, (scans, phase_offset)),
        }
    }

    pub(super) fn next(&self) -> Option<Instant> {
        [self.input_detection.next, self.progress_probe.next].into_iter().flatten().min()
    }

    /// Takes the probes that are due, and schedules the task's file to be written if they find
    /// something new. Returns whether the task makes progress, if that was probed.
    pub(super) fn take_due(
        &mut self,
        task: &LiveTask,
        spawned: &Spawned,
        processes: &mut TaskProcesses,
        spools: PerStream<&SpoolWriter>,
        journal: &mut Journal,
    ) -> Option<Health> {
        if self.input_detection.next.is_some_and(|due| Instant::now() >= due) {
            let found = self.input_detection.probe(task, spawned, processes, spools);
            if task.report_detected(found) {
                journal.schedule_soon();
            }
        }
        let health = self.progress_probe.probe(task, processes, spools.output)?;
        journal.schedule(Duration::ZERO);
        Some(health)
    }

    /// The processes that read the task's terminal now, or may.
    pub(super) fn readers(
        &mut self,
        task: &LiveTask,
        spawned: &Spawned,
        processes: &mut TaskProcesses,
    ) -> Vec<ProcessName> {
        self.input_detection.readers(task, spawned, processes)
    }

    /// After output or input: probes again what the task waits for.
    pub(super) fn restart(&mut self) {
        self.input_detection.restart(Instant::now());
    }

    /// Discards earlier observations after a signal or a resize, which change what the processes
    /// do.
    pub(super) fn reset(&mut self, task: &LiveTask) {
        task.report(LiveState::forget_detected);
        self.restart();
    }

    /// Measures what the task has used before its processes are asked to end: no one counts what
    /// nothing waits for.
    pub(super) fn measure(&mut self, task: &LiveTask, scan: &Scan, processes: &mut TaskProcesses) {
        self.progress_probe.measure(task, scan, processes);
    }

    /// How much memory the processes occupied at the last probe, if that is more than `limit`.
    pub(super) fn memory_above(&self, limit: u64) -> Option<u64> {
        self.progress_probe.memory_above(limit)
    }

    /// Probes soon, since a caller has asked for it.
    pub(super) fn hasten(&mut self) {
        let now = Instant::now();
        self.input_detection.hasten(now);
        self.progress_probe.hasten(now);
    }

    /// Takes no more probes: the task has ended.
    pub(super) fn stop(&mut self) {
        self.input_detection.stop();
        self.progress_probe.next = None;
    }
}
