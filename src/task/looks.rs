//! Looks at a task's processes: what they wait for or are in (`sampling`), and whether
//! they get on (`tracking`), each in its own time.

use std::sync::Arc;
use std::time::Instant;

use super::journal::Journal;
use super::live::{LiveTask, State};
use super::sampling::Sampling;
use super::spool::SpoolWriter;
use super::tracking::Tracking;
use crate::process::probe::Source;
use crate::process::snapshots::Snapshots;
use crate::process::spawn::Spawned;
use crate::process::tree::Family;
use crate::progress::tracker::Settings;

/// Both series of looks.
pub(super) struct Looks {
    sampling: Sampling,
    tracking: Tracking,
}

impl Looks {
    /// Looks at a task that starts now. `source` is its input, and `moving_deadline` a
    /// time before which one is due.
    pub fn new(
        settings: Settings,
        snapshots: Arc<Snapshots>,
        source: Option<Source>,
        moving_deadline: Option<Instant>,
    ) -> Looks {
        let now = Instant::now();
        Looks {
            tracking: Tracking::new(settings, Arc::clone(&snapshots), moving_deadline, now),
            sampling: Sampling::new(source, snapshots, now),
        }
    }

    /// When the next one is due.
    pub fn next(&self) -> Option<Instant> {
        let both = [self.sampling.next(), self.tracking.next()];
        both.into_iter().flatten().min()
    }

    /// Takes those that are due; the task's file is to tell of what they find. The answer
    /// is whether the task gets on, where that was looked at.
    pub fn take(
        &mut self,
        task: &LiveTask,
        spawned: &Spawned,
        family: &mut Family,
        spool: &SpoolWriter,
        journal: &mut Journal,
    ) -> Option<bool> {
        if self.sampling.is_due(Instant::now()) {
            let found = self.sampling.look(task, spawned, family, spool);
            let changed = task.report_found(found);
            journal.note_findings(changed, Instant::now());
        }
        let gets_on = self.tracking.look(task, family, spool)?;
        journal.note_look(Instant::now());
        Some(gets_on)
    }

    /// Output or input has come: what the task waits for is looked at anew.
    pub fn restart(&mut self) {
        self.sampling.restart(Instant::now());
    }

    /// A signal changes what processes do: what was seen before counts no longer.
    pub fn begin_anew(&mut self, task: &LiveTask) {
        task.report(State::forget_found);
        self.restart();
    }

    /// Somebody wants to know now whether the task gets on.
    pub fn hasten(&mut self) {
        self.tracking.hasten(Instant::now());
    }

    /// The task has ended: nobody looks any more.
    pub fn stop(&mut self) {
        self.sampling.stop();
        self.tracking.stop();
    }
}
