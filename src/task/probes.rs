//! Probes of a task's processes: what they wait for or are in (`input`), and whether they make
//! progress (`progress`), each in its own time.

mod input;
mod progress;

use std::sync::Arc;
use std::time::{Duration, Instant};

use self::input::InputDetection;
use self::progress::ProgressProbe;
use super::journal::Journal;
use super::live::{LiveState, LiveTask};
use super::output::spool::SpoolWriter;
use crate::process::probe::InputSource;
use crate::process::snapshots::Snapshots;
use crate::process::spawn::Spawned;
use crate::process::tree::TaskProcesses;
use crate::progress::tracker::TrackerSettings;

/// Both series of probes.
pub(super) struct Probes {
    input_detection: InputDetection,
    progress_probe: ProgressProbe,
}

impl Probes {
    /// Probes of a task that starts now. `source` is its input, `session` that of its shell,
    /// and `moving_deadline` a time before which a probe is due.
    pub fn new(
        settings: TrackerSettings,
        snapshots: Arc<Snapshots>,
        source: Option<InputSource>,
        session: i32,
        moving_deadline: Option<Instant>,
    ) -> Probes {
        let turn = snapshots.turn();
        let (shared, input) = ((Arc::clone(&snapshots), turn), source.clone());
        Probes {
            progress_probe: ProgressProbe::new(settings, shared, input, session, moving_deadline),
            input_detection: InputDetection::new(source, (snapshots, turn)),
        }
    }

    pub fn next(&self) -> Option<Instant> {
        [self.input_detection.next, self.progress_probe.next].into_iter().flatten().min()
    }

    /// Takes those that are due, and has the task's file written with what they find. The
    /// answer is whether the task makes progress, where that was probed.
    pub fn take(
        &mut self,
        task: &LiveTask,
        spawned: &Spawned,
        processes: &mut TaskProcesses,
        spool: &SpoolWriter,
        journal: &mut Journal,
    ) -> Option<bool> {
        if self.input_detection.next.is_some_and(|due| Instant::now() >= due) {
            let found = self.input_detection.probe(task, spawned, processes, spool);
            if task.report_detected(found) {
                journal.note_finding();
            }
        }
        let progressing = self.progress_probe.probe(task, processes, spool)?;
        journal.due_after(Duration::ZERO);
        Some(progressing)
    }

    /// Output or input has come: what the task waits for is probed again.
    pub fn restart(&mut self) {
        self.input_detection.restart(Instant::now());
    }

    /// A signal changes what processes do: earlier observations no longer count.
    pub fn begin_anew(&mut self, task: &LiveTask) {
        task.report(LiveState::forget_detected);
        self.restart();
    }

    /// A caller wants to know now whether the task makes progress.
    pub fn hasten(&mut self) {
        self.progress_probe.hasten(Instant::now());
    }

    /// The task has ended: no more probes.
    pub fn stop(&mut self) {
        self.input_detection.stop();
        self.progress_probe.next = None;
    }
}
