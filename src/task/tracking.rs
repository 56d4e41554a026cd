//! Whether a task gets on: looks at what its processes did, taken each interval, sooner
//! at its beginning.
//!
//! The looks use the scans of the machine that all tasks share. What they find is judged
//! in `progress::tracker`, which stands in the task's state, so that whoever asks gets the
//! judgement of that moment. Limits: nothing is decided here; a deadline that moves with
//! progress is the machine's (`state`).

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::live::LiveTask;
use super::reading;
use super::spool::SpoolWriter;
use crate::process::network;
use crate::process::snapshots::Snapshots;
use crate::process::tree::{Family, Identity, ProcessInfo};
use crate::process::usage;
use crate::progress::findings::Findings;
use crate::progress::ledger::{Balance, Ledger};
use crate::progress::tracker::{BlockedOn, ChangeKind, Settings, Status, Totals, Tracker};

/// One scan of the machine serves all tasks that look within this time.
const SNAPSHOT_AGE: Duration = Duration::from_millis(200);
/// Pauses between the first looks, where the interval is longer: a caller gets evidence
/// with its first or second answer.
const FIRST_PAUSES: [Duration; 3] = [
    Duration::from_secs(1),
    Duration::from_secs(1),
    Duration::from_secs(3),
];
/// So many of the newest lines of an interval are looked at for something new.
const LINES_PER_LOOK: usize = 20;
/// Whoever computes more than this share of a core does not just wait for the network.
const IDLE_SHARE: f64 = 0.01;
/// A look so long before a deadline that may move, so that the newest evidence decides.
const BEFORE_DEADLINE: Duration = Duration::from_millis(50);

/// The series of looks at one task.
pub(super) struct Tracking {
    snapshots: Arc<Snapshots>,
    settings: Settings,
    next: Option<Instant>,
    /// A deadline that may move, before which a look is due.
    before: Option<Instant>,
    looks: usize,
    ledger: Ledger,
    balance: Balance,
    newest_pid: Option<u64>,
    /// What the ledger told at the last look.
    counted: u64,
    totals: Totals,
    /// How far the output has been read for something new.
    read_to: u64,
    children: Children,
}

/// What a look has found that may be new.
#[derive(Default)]
struct News {
    lines: Vec<String>,
    begun: Vec<String>,
    ended: Vec<String>,
}

impl Tracking {
    /// A series that begins now.
    pub fn new(
        settings: Settings,
        snapshots: Arc<Snapshots>,
        moving_deadline: Option<Instant>,
        now: Instant,
    ) -> Tracking {
        let mut tracking = Tracking {
            snapshots,
            settings,
            next: None,
            before: moving_deadline.and_then(|at| at.checked_sub(BEFORE_DEADLINE)),
            looks: 0,
            ledger: Ledger::default(),
            balance: Balance::default(),
            newest_pid: None,
            counted: 0,
            totals: Totals::default(),
            read_to: 0,
            children: Children::default(),
        };
        tracking.next = Some(tracking.time_after_pause(now));
        tracking
    }

    fn time_after_pause(&self, now: Instant) -> Instant {
        let interval = self.settings.heartbeat_interval;
        let pause = FIRST_PAUSES.get(self.looks).copied().unwrap_or(interval);
        let regular = self.snapshots.common_time(now, pause.min(interval));
        match self.before.filter(|before| *before > now) {
            Some(before) => regular.min(before),
            None => regular,
        }
    }

    /// The task has ended: nobody looks any more.
    pub fn stop(&mut self) {
        self.next = None;
    }

    /// Looks now and not when it would be time.
    pub fn hasten(&mut self, now: Instant) {
        if self.next.is_some() {
            self.next = Some(now);
        }
    }

    /// When to look next.
    pub fn next(&self) -> Option<Instant> {
        self.next
    }

    /// Looks, if it is time to. The answer is whether the task gets on, or may yet;
    /// `None`: it was not time to look.
    pub fn look(
        &mut self,
        task: &LiveTask,
        family: &mut Family,
        spool: &SpoolWriter,
    ) -> Option<bool> {
        let now = Instant::now();
        if self.next.is_none_or(|due| now < due) {
            return None;
        }
        self.looks += 1;
        let snapshot = self.snapshots.recent(SNAPSHOT_AGE);
        let members = family.nearest(&snapshot);
        let before = self.totals;
        let errors = task.state().errors.total();
        self.count(&members, spool.end().offset.saturating_add(errors));
        let peer = self.peer_awaited(&before, &members);
        let news = self.news(task, &members, spool);
        self.next = Some(self.time_after_pause(now));
        Some(self.judge(task, members.is_empty(), peer, &news))
    }

    fn news(&mut self, task: &LiveTask, members: &[ProcessInfo], spool: &SpoolWriter) -> News {
        let columns = task.state().columns;
        let (output, end) = (spool.reader(), spool.end());
        let newest = reading::newest_lines(&output, self.read_to, end, LINES_PER_LOOK, columns);
        self.read_to = newest.read_to;
        let (begun, ended) = self.children.take(members, usage::command_line);
        News {
            lines: newest.lines,
            begun,
            ended,
        }
    }

    /// Counts what the members have done, and these bytes of output in all.
    fn count(&mut self, members: &[ProcessInfo], output: u64) {
        let earlier = self.newest_pid;
        // Whatever begins while the counters are read counts for this look, where it may
        // have done something already, and for the next one, where it may do more.
        self.newest_pid = usage::newest_pid();
        let members = usage::members(members);
        let begun = match (earlier, usage::newest_pid()) {
            (Some(earlier), Some(newest)) if newest >= earlier => newest - earlier,
            // Numbers have begun anew.
            (Some(_), Some(_)) => u64::MAX,
            _ => 0,
        };
        let tally = self.ledger.take(members, begun);
        // What came here as output was written by somebody, and is told as output.
        let written_here = output.saturating_sub(self.totals.output);
        let moved = tally.io.saturating_sub(self.counted);
        let io = self.balance.beyond_output(moved, written_here);
        self.counted = tally.io;
        self.totals = Totals {
            output,
            io: self.totals.io.saturating_add(io),
            born: tally.born,
            ended: tally.ended,
            cpu: tally.cpu,
        };
    }

    /// Who waits for the other end of a connection while nobody does anything else.
    fn peer_awaited(&self, before: &Totals, members: &[ProcessInfo]) -> Option<(i32, String)> {
        // The first look is where counting begins: it tells of nothing yet.
        let idle = self.looks > 1
            && before.output == self.totals.output
            && before.io == self.totals.io
            && before.born == self.totals.born
            && before.ended == self.totals.ended;
        let cpu = self.totals.cpu.saturating_sub(before.cpu);
        if !idle || cpu.as_secs_f64() > IDLE_SHARE * self.settings.heartbeat_interval.as_secs_f64()
        {
            return None;
        }
        let waits = |member: &&ProcessInfo| network::waits_for_peer(member.id.pid);
        let waiting = members.iter().find(waits)?;
        Some((waiting.id.pid, waiting.name.clone()))
    }

    /// `unseen`: the machine does not show a single process of a task that runs.
    fn judge(
        &self,
        task: &LiveTask,
        unseen: bool,
        peer: Option<(i32, String)>,
        news: &News,
    ) -> bool {
        let now = Instant::now();
        let blocked = peer.is_some().then_some(BlockedOn::Network);
        task.report(|state| {
            let usual = state.usual;
            let progress = state.progress.get_or_insert_with(|| Findings {
                tracker: Tracker::new(self.settings, task.facts.started.mono),
                peer: None,
                degraded: false,
            });
            if let Some(usual) = usual {
                progress.tracker.expect(usual);
            }
            progress.tracker.look(now, self.totals, blocked);
            for (kind, texts) in [
                (ChangeKind::Output, &news.lines),
                (ChangeKind::ChildStarted, &news.begun),
                (ChangeKind::ChildEnded, &news.ended),
            ] {
                for text in texts {
                    progress.tracker.change(now, kind, text);
                }
            }
            progress.peer = peer;
            progress.degraded = unseen || self.ledger.hides();
            state.looks += 1;
            let status = state.status(now);
            matches!(status, Some(Status::Progressing | Status::Slow))
        })
    }
}

/// The processes of a task by their command lines, so that work that goes from one thing
/// to the next is told from a loop around the same.
#[derive(Debug, Default)]
struct Children {
    /// `None`: nobody has looked yet; whom the first look finds has not begun since.
    known: Option<HashMap<Identity, Child>>,
}

/// A process by its command line.
#[derive(Debug)]
struct Child {
    line: String,
    /// Whether it is the first with this line. A copy of another process may be about to
    /// become a program; an empty line is of a moment in which it becomes one, or ends.
    /// Which of them a look finds is chance, and nothing that happened.
    own: bool,
}

impl Children {
    /// The command lines of those that have begun and of those that have ended since the
    /// last look, or have shown only now what they are.
    fn take(
        &mut self,
        members: &[ProcessInfo],
        command_line: impl Fn(i32) -> String,
    ) -> (Vec<String>, Vec<String>) {
        let before = self.known.take();
        let is_first = before.is_none();
        let mut before = before.unwrap_or_default();
        let mut now = HashMap::new();
        let mut unclear = Vec::new();
        for member in members {
            let known = before.remove(&member.id).filter(|child| child.own);
            let child = known.unwrap_or_else(|| {
                unclear.push(member);
                let line = command_line(member.id.pid);
                Child { line, own: false }
            });
            now.insert(member.id, child);
        }
        let mut shown: HashSet<String> = HashSet::new();
        if !unclear.is_empty() {
            let own = now.values().filter(|child| child.own);
            shown.extend(own.map(|child| child.line.clone()));
        }
        let mut begun = Vec::new();
        for member in unclear {
            let Some(child) = now.get_mut(&member.id) else {
                continue;
            };
            child.own = !child.line.is_empty() && shown.insert(child.line.clone());
            if child.own {
                begun.push(child.line.clone());
            }
        }
        self.known = Some(now);
        let ended = before.into_values().filter(|child| child.own);
        match is_first {
            true => (Vec::new(), Vec::new()),
            false => (begun, ended.map(|child| child.line).collect()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(pid: i32) -> ProcessInfo {
        ProcessInfo {
            id: Identity { pid, started: 1 },
            parent: 1,
            group: pid,
            session: pid,
            name: "sh".to_owned(),
            zombie: false,
            hindrance: None,
            runnable: false,
            cpu_ticks: 0,
            children_ticks: 0,
        }
    }

    #[test]
    fn children_begin_and_end_between_two_looks() {
        let mut children = Children::default();
        let mut take = |pids: &[i32]| {
            let members: Vec<ProcessInfo> = pids.iter().map(|pid| process(*pid)).collect();
            children.take(&members, |pid| format!("step {pid}"))
        };
        let none = Vec::<String>::new;
        assert_eq!(take(&[1, 2]), (none(), none()), "where counting begins");
        assert_eq!(take(&[1, 2]), (none(), none()));
        assert_eq!(
            take(&[1, 3]),
            (vec!["step 3".into()], vec!["step 2".into()])
        );
        assert_eq!(take(&[]).0, none());
    }

    #[test]
    fn what_a_child_is_before_its_program_starts_and_as_it_ends_is_nothing_new() {
        let mut children = Children::default();
        let mut take = |lines: &[(i32, &str)]| {
            let members: Vec<ProcessInfo> = lines
                .iter()
                .map(|(pid, _)| ProcessInfo {
                    parent: if *pid == 1 { 0 } else { 1 },
                    ..process(*pid)
                })
                .collect();
            let shown = |pid| lines.iter().find(|line| line.0 == pid).map(|line| line.1);
            children.take(&members, |pid| shown(pid).unwrap_or_default().to_owned())
        };
        let none = Vec::<String>::new;
        take(&[(1, "zsh loop")]);
        assert_eq!(take(&[(1, "zsh loop"), (2, "zsh loop")]), (none(), none()));
        let begun = (vec!["sleep 1".to_owned()], none());
        assert_eq!(take(&[(1, "zsh loop"), (2, "sleep 1")]), begun);
        let ended = (none(), vec!["sleep 1".to_owned()]);
        assert_eq!(take(&[(1, "zsh loop"), (3, "")]), ended);
        assert_eq!(take(&[(1, "zsh loop"), (4, "zsh loop")]), (none(), none()));
        assert_eq!(take(&[(1, "zsh loop")]), (none(), none()));
    }
}
