//! When to look what a task waits for or is in, and what the looks add up to.
//!
//! The first look comes when the output has been quiet for a moment, later ones less and
//! less often; output and input begin the series anew. A look that finds something is
//! soon followed by one that confirms it. What is seen is judged in
//! `progress::waiting` and `progress::condition`.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::live::{Found, Input, LiveTask};
use super::reading;
use super::spool::SpoolWriter;
use crate::process::hindrance::Hindrance;
use crate::process::probe::{self, Look, Source};
use crate::process::snapshots::Snapshots;
use crate::process::spawn::Spawned;
use crate::process::tree::{Family, Identity, ProcessInfo, Snapshot};
use crate::process::{owner, pty, tree};
use crate::progress::condition::{Condition, Evidence, Sighting, Sightings};
use crate::progress::waiting::{
    Blocked, CONFIRMING_PAUSE, Confirmation, FIRST_PAUSES, Judgement, LATER_PAUSE, Modes, Reader,
    Sample, judge,
};

/// One scan of the machine serves all tasks that look within this time.
const SNAPSHOT_AGE: Duration = Duration::from_millis(40);
/// Whose processes are not shown go by this name.
const UNSEEN: &str = "(hidden)";

/// The series of looks at one task.
pub(super) struct Sampling {
    /// What it may be asked for; `None`: it takes no input.
    source: Option<Source>,
    snapshots: Arc<Snapshots>,
    next: Option<Instant>,
    /// Nobody looks any more.
    over: bool,
    /// Looks since the last output or input.
    looks: usize,
    /// The next look is to confirm the last.
    confirming: bool,
    confirmation: Confirmation,
    sightings: Sightings,
    /// How much unreadable processes had done at the last look, and since when no more.
    usage: Option<(Vec<Usage>, Instant)>,
    evidence: Option<Evidence>,
    /// Whether there may be processes that are not shown.
    hides: Option<bool>,
}

/// What anybody may know of what a process has done.
type Usage = (Identity, u64, Option<u64>);

/// What a look looks at.
struct View<'a> {
    snapshot: &'a Snapshot,
    family: &'a [ProcessInfo],
    /// The process group that holds the terminal.
    foreground: Option<i32>,
    shell: i32,
}

impl View<'_> {
    /// Those who may ask for input: a terminal serves its foreground alone.
    fn candidates(&self) -> Vec<&ProcessInfo> {
        match self.foreground {
            Some(group) => self.group(group),
            None => self.family.iter().collect(),
        }
    }

    /// Those of other sessions that may read the terminal: job control does not keep them
    /// from it. As below `su -c`, all of the foreground has started them and waits for them.
    fn beyond(&self) -> Vec<&ProcessInfo> {
        let beyond = |process: &&ProcessInfo| process.session != self.shell;
        let Some(group) = self
            .foreground
            .filter(|_| self.family.iter().any(|p| beyond(&p)))
        else {
            return Vec::new();
        };
        let below: Vec<Vec<i32>> = self
            .group(group)
            .iter()
            .map(|member| self.snapshot.descendants(member.id.pid))
            .map(|below| below.iter().map(|process| process.id.pid).collect())
            .collect();
        let is_awaited = |process: &&ProcessInfo| {
            !below.is_empty() && below.iter().all(|below| below.contains(&process.id.pid))
        };
        let beyond = self.family.iter().filter(beyond);
        beyond.filter(is_awaited).collect()
    }

    /// Whether the task stands still because of stopped processes: the group that the
    /// shell waits for has some, and all others in it have started them and wait for them.
    fn stands_still(&self) -> bool {
        let members = self.group(self.awaited());
        let stopped: Vec<i32> = members
            .iter()
            .filter(|member| is_stopped(member))
            .map(|member| member.id.pid)
            .collect();
        !stopped.is_empty()
            && members.iter().all(|member| {
                let pid = member.id.pid;
                let below = || self.snapshot.descendants(pid);
                stopped.contains(&pid)
                    || below().iter().any(|child| stopped.contains(&child.id.pid))
            })
    }

    /// The living members of a process group of the task's own session.
    fn group(&self, group: i32) -> Vec<&ProcessInfo> {
        let members = self.snapshot.group(group);
        members
            .filter(|process| process.session == self.shell)
            .collect()
    }

    /// The process group that the shell waits for, as far as groups tell.
    fn awaited(&self) -> i32 {
        self.foreground.unwrap_or(self.shell)
    }
}

impl Sampling {
    /// A series that begins now.
    pub fn new(source: Option<Source>, snapshots: Arc<Snapshots>, now: Instant) -> Sampling {
        let mut sampling = Sampling {
            source,
            snapshots,
            next: None,
            over: false,
            looks: 0,
            confirming: false,
            confirmation: Confirmation::default(),
            sightings: Sightings::default(),
            usage: None,
            evidence: None,
            hides: None,
        };
        sampling.restart(now);
        sampling
    }

    /// Output came, or input or a signal was sent: what was seen before counts no longer.
    /// A series that is over does not begin again.
    pub fn restart(&mut self, now: Instant) {
        if self.over {
            return;
        }
        self.confirmation.reset();
        self.sightings.reset();
        self.looks = 0;
        self.confirming = false;
        self.next = Some(self.time_after_pause(now));
    }

    /// The first looks have their own times, all later ones those that all tasks have in
    /// common. Nobody has to be told soon about what takes no input.
    fn time_after_pause(&self, now: Instant) -> Instant {
        match FIRST_PAUSES.get(self.looks) {
            Some(pause) if self.source.is_some() => now + *pause,
            _ => self.snapshots.common_time(now, LATER_PAUSE),
        }
    }

    /// The task has ended: nobody looks any more.
    pub fn stop(&mut self) {
        self.over = true;
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

    /// Looks; the answer is what this look and those before it make certain.
    pub fn look(
        &mut self,
        task: &LiveTask,
        spawned: &Spawned,
        family: &mut Family,
        spool: &SpoolWriter,
    ) -> Found {
        self.looks += 1;
        let terminal = match task.facts.input {
            Input::Terminal => Some(spawned.output.as_fd()),
            Input::Pipe | Input::None => None,
        };
        let snapshot = self.snapshots.recent(SNAPSHOT_AGE);
        let members = family.nearest(&snapshot);
        let view = View {
            snapshot: &snapshot,
            family: &members,
            foreground: terminal.and_then(pty::foreground_group),
            shell: spawned.id.pid,
        };
        let conditions = self.sightings.take(sightings(&view), Instant::now());
        let judged = self.judge(&view, task, terminal, spool);
        let waiting = self.confirmation.take(&judged);
        let unconfirmed = matches!(judged, Judgement::Waits(_)) && waiting.is_none()
            || self.sightings.wants_another();
        // What comes and goes from look to look is never confirmed: one try, and then at
        // the regular time.
        self.confirming = unconfirmed && !self.confirming;
        let soon = match &judged {
            _ if self.confirming => Some(CONFIRMING_PAUSE),
            Judgement::After(rest) => Some(*rest),
            _ => None,
        };
        let now = Instant::now();
        let regular = self.time_after_pause(now);
        self.next = Some(soon.map_or(regular, |pause| regular.min(now + pause)));
        Found {
            waiting,
            unconfirmed: self.confirming,
            conditions,
            evidence: self.evidence(view.shell),
        }
    }

    fn judge(
        &mut self,
        view: &View<'_>,
        task: &LiveTask,
        terminal: Option<BorrowedFd<'_>>,
        spool: &SpoolWriter,
    ) -> Judgement {
        let sample = match self.source.clone() {
            Some(source) => self.sample(view, &source),
            None => Sample::Nobody,
        };
        if sample == Sample::Nobody {
            return Judgement::Nothing;
        }
        let modes = terminal
            .and_then(pty::input_modes)
            .map(|(echo, canonical)| Modes { echo, canonical });
        let (newest, columns) = {
            let state = task.state();
            (state.last_output, state.columns)
        };
        let silent_for = newest.unwrap_or(task.facts.started.mono).elapsed();
        let (line_start, end) = (spool.line_start(), spool.end());
        let last_line = reading::unfinished_line(&spool.reader(), line_start, end, columns);
        judge(&sample, modes, silent_for, &last_line)
    }

    fn sample(&mut self, view: &View<'_>, source: &Source) -> Sample {
        let candidates = view.candidates();
        let mut unreadable = Vec::new();
        // Who is stopped does not read, though the kernel names the call that goes on then.
        for process in candidates.iter().filter(|process| !is_stopped(process)) {
            match probe::look(process.id.pid, source) {
                Look::Blocked(blocked) => return blocked_sample(process, blocked),
                Look::Unreadable => unreadable.push(*process),
                Look::Otherwise => {}
            }
        }
        if let Some(source) = source.beyond() {
            for process in view.beyond().iter().filter(|process| !is_stopped(process)) {
                if let Look::Blocked(blocked) = probe::look(process.id.pid, &source) {
                    return blocked_sample(process, blocked);
                }
            }
        }
        unreadable.sort_by_key(|process| process.id);
        // The youngest asks: the others have started it.
        match unreadable.last() {
            Some(process) => self.unreadable(view.snapshot, process, &unreadable),
            None => self.unseen(view, &candidates),
        }
    }

    fn unreadable(
        &mut self,
        snapshot: &Snapshot,
        youngest: &ProcessInfo,
        all: &[&ProcessInfo],
    ) -> Sample {
        let below: Vec<&ProcessInfo> = all
            .iter()
            .flat_map(|process| snapshot.descendants(process.id.pid))
            .collect();
        let relays = below
            .iter()
            .any(|process| process.session != youngest.session);
        let usage: Vec<Usage> = all
            .iter()
            .chain(&below)
            .map(|process| {
                let pid = process.id.pid;
                (process.id, process.cpu_ticks, probe::switches_of_all(pid))
            })
            .collect();
        let now = Instant::now();
        // Who waits for a processor stands still as well, and is not idle.
        let works = all.iter().chain(&below).any(|process| process.runnable);
        let since = match &self.usage {
            Some((before, since)) if *before == usage && !works => *since,
            _ => now,
        };
        self.usage = Some((usage, since));
        Sample::Unreadable {
            reader: reader(youngest),
            idle_for: now.duration_since(since),
            relays,
        }
    }

    /// Who may ask where not all are shown.
    fn unseen(&mut self, view: &View<'_>, candidates: &[&ProcessInfo]) -> Sample {
        let hides = *self
            .hides
            .get_or_insert_with(|| probe::shortcoming().is_some());
        let Some(group) = view.foreground.filter(|_| hides) else {
            return Sample::Nobody;
        };
        let is_hidden = |pid: &i32| view.snapshot.process(*pid).is_none() && owner::lives(*pid);
        let hidden = if candidates.is_empty() {
            owner::group_lives(group).then_some(group)
        } else {
            candidates
                .iter()
                .flat_map(|process| tree::children_of(process.id.pid))
                .find(is_hidden)
        };
        hidden.map_or(Sample::Nobody, |pid| Sample::Unseen {
            reader: Reader {
                pid,
                name: UNSEEN.to_owned(),
            },
        })
    }

    /// Found once, by the shell, which is this user's own: it does not change while a task
    /// runs.
    fn evidence(&mut self, shell: i32) -> Evidence {
        self.evidence = self.evidence.or_else(|| probe::evidence_of(shell));
        self.evidence.unwrap_or_default()
    }
}

fn blocked_sample(process: &ProcessInfo, blocked: probe::Blocked) -> Sample {
    let how = match blocked {
        probe::Blocked::Reading => Blocked::Reading,
        probe::Blocked::Waiting { timed: false } => Blocked::Waiting,
        probe::Blocked::Waiting { timed: true } => Blocked::WaitingForATime,
    };
    let reader = reader(process);
    Sample::Blocked { reader, how }
}

fn is_stopped(process: &ProcessInfo) -> bool {
    matches!(process.hindrance, Some(Hindrance::Stopped(_)))
}

fn reader(process: &ProcessInfo) -> Reader {
    Reader {
        pid: process.id.pid,
        name: process.name.clone(),
    }
}

/// What one look sees of the states that are worth knowing.
fn sightings(view: &View<'_>) -> Vec<Sighting> {
    let mut seen = Vec::new();
    let stands_still = view.stands_still();
    for member in view.family {
        let process = reader(member);
        let condition = match member.hindrance {
            Some(Hindrance::Stopped(by)) => Condition::Stopped {
                process,
                by,
                holds_up: stands_still && member.group == view.awaited(),
            },
            Some(Hindrance::DiskSleep) => Condition::DiskSleep { process },
            Some(Hindrance::ZombieLeader) => Condition::ZombieLeader { process },
            None => continue,
        };
        let switches = match condition {
            Condition::DiskSleep { .. } => probe::switches(member.id.pid).unwrap_or_default(),
            _ => 0,
        };
        seen.push(Sighting {
            condition,
            switches,
        });
    }
    let strangers = view
        .family
        .iter()
        .filter(|member| owner::is_out_of_reach(member.id.pid));
    seen.extend(strangers.map(|member| Sighting {
        condition: Condition::OutOfReach {
            process: reader(member),
            user: owner::user_of(member.id.pid).unwrap_or_else(|| "another user".to_owned()),
        },
        switches: 0,
    }));
    seen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_series_that_is_over_does_not_begin_again() {
        let now = Instant::now();
        let mut sampling = Sampling::new(None, Arc::default(), now);
        assert!(sampling.next().is_some());
        sampling.stop();
        // Input that was on its way when the shell ended.
        sampling.restart(now);
        assert_eq!(sampling.next(), None);
    }
}
