//! When to look whether a task waits for input, and what the looks add up to.
//!
//! The first look comes when the output has been quiet for a moment, later ones less and
//! less often; output and input begin the series anew. What is seen is judged in
//! `progress::waiting`.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::live::{Input, LiveTask};
use super::reading;
use super::spool::SpoolWriter;
use crate::process::probe::{self, Look, Source};
use crate::process::pty;
use crate::process::spawn::Spawned;
use crate::process::tree::{Family, ProcessInfo, Snapshots};
use crate::progress::waiting::{
    Blocked, Confirmation, FIRST_PAUSES, LATER_PAUSE, Modes, Reader, Sample, Waiting, judge,
};

/// One scan of the machine serves all tasks that look within this time.
const SNAPSHOT_AGE: Duration = Duration::from_millis(40);

/// The series of looks at one task.
pub(super) struct Sampling {
    /// What it may be asked for; `None`: it takes no input, and nobody looks.
    source: Option<Source>,
    snapshots: Arc<Snapshots>,
    next: Option<Instant>,
    /// Looks since the last output or input.
    looks: usize,
    confirmation: Confirmation,
    /// The CPU time of an unreadable process at the last look.
    last_cpu: Option<(i32, u64)>,
}

impl Sampling {
    /// A series that begins now.
    pub fn new(source: Option<Source>, snapshots: Arc<Snapshots>, now: Instant) -> Sampling {
        let mut sampling = Sampling {
            source,
            snapshots,
            next: None,
            looks: 0,
            confirmation: Confirmation::default(),
            last_cpu: None,
        };
        sampling.restart(now);
        sampling
    }

    /// Output came or input was sent: what was seen before counts no longer.
    pub fn restart(&mut self, now: Instant) {
        self.confirmation.reset();
        self.looks = 0;
        self.next = self.source.is_some().then(|| now + self.pause());
    }

    fn pause(&self) -> Duration {
        FIRST_PAUSES.get(self.looks).copied().unwrap_or(LATER_PAUSE)
    }

    /// The task has ended: nobody looks any more.
    pub fn stop(&mut self) {
        self.next = None;
    }

    /// When to look next.
    pub fn next(&self) -> Option<Instant> {
        self.next
    }

    /// Whether it is time to look.
    pub fn is_due(&self, now: Instant) -> bool {
        self.next.is_some_and(|due| now >= due)
    }

    /// Looks; the answer is the verdict of this look and the one before it.
    pub fn look(
        &mut self,
        task: &LiveTask,
        spawned: &Spawned,
        family: &mut Family,
        spool: &SpoolWriter,
    ) -> Option<Waiting> {
        let source = self.source.clone()?;
        self.looks += 1;
        self.next = Some(Instant::now() + self.pause());
        let terminal = match task.facts.input {
            Input::Terminal => Some(spawned.output.as_fd()),
            Input::Pipe | Input::None => None,
        };
        let snapshot = self.snapshots.recent(SNAPSHOT_AGE);
        let foreground = terminal.and_then(pty::foreground_group);
        let candidates: Vec<ProcessInfo> = family
            .living(&snapshot)
            .into_iter()
            .filter(|process| terminal.is_none() || Some(process.group) == foreground)
            .collect();
        let sample = self.sample(&candidates, &source);
        let modes = terminal
            .and_then(pty::input_modes)
            .map(|(echo, canonical)| Modes { echo, canonical });
        let judged = match sample {
            Sample::Nobody => None,
            sample => {
                let newest = task.state().last_output;
                let silent_for = newest.unwrap_or(task.facts.started.mono).elapsed();
                let (line_start, end) = (spool.line_start(), spool.end());
                let columns = task.state().columns;
                let last_line = reading::unfinished_line(&spool.reader(), line_start, end, columns);
                judge(&sample, modes, silent_for, &last_line)
            }
        };
        self.confirmation.take(judged)
    }

    fn sample(&mut self, candidates: &[ProcessInfo], source: &Source) -> Sample {
        let mut unreadable = None;
        for process in candidates {
            let reader = Reader {
                pid: process.id.pid,
                name: process.name.clone(),
            };
            match probe::look(process, source) {
                Look::Blocked(blocked) => {
                    let how = match blocked {
                        probe::Blocked::Reading => Blocked::Reading,
                        probe::Blocked::Waiting { timed: false } => Blocked::Waiting,
                        probe::Blocked::Waiting { timed: true } => Blocked::WaitingForATime,
                    };
                    return Sample::Blocked { reader, how };
                }
                Look::Unreadable => unreadable = Some(reader),
                Look::Otherwise => {}
            }
        }
        let Some(reader) = unreadable else {
            return Sample::Nobody;
        };
        let cpu = probe::cpu_ticks(reader.pid).map(|ticks| (reader.pid, ticks));
        let idle = cpu.is_some() && cpu == self.last_cpu;
        self.last_cpu = cpu;
        Sample::Unreadable { reader, idle }
    }
}
