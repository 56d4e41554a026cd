//! A task at one moment, as results report it.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::progress::advice::MUTE_FROM;
use crate::progress::condition::Condition;
use crate::progress::progress_state::Verdict;
use crate::progress::tracker::{BlockedOn, ChangeKind, Status};
use crate::progress::tree_state::{TreeState, TreeStateKind};
use crate::progress::wait::Peer;
use crate::progress::waiting::Waiting;
use crate::task::describe;
use crate::task::live::{LiveState, LiveTask};
use crate::task::snapshot::Snapshot;
use crate::task::stream::{Delta, PerStream};
use crate::task::told::EmptyPolls;
use crate::text::foreign::Phrase;

/// A task at one moment, and what of it results have not reported.
///
/// Both are read together: a result that reports this end and shows this output omits nothing that
/// was printed before the end.
#[derive(Debug, Clone)]
pub struct View {
    pub task: Snapshot,
    /// When it was taken, in Unix seconds.
    pub(crate) now: f64,
    /// What no result had shown.
    pub deltas: PerStream<Delta>,
    /// Bytes of output that no result has shown.
    pub(crate) unshown: u64,
    pub(crate) empty_polls: EmptyPolls,
    /// Whether no result has reported that the task prints the same again and again.
    pub(crate) repeats_anew: bool,
    /// How the task is, if it continues past a deadline that its caller has not set, and no result
    /// has told that.
    pub(crate) continues_anew: Option<Verdict>,
    /// Whether the next command starts where this one ended.
    pub(crate) keeps_directory: bool,
    /// What programs outside of the sandbox obey, was made, and this answer is to tell.
    pub(crate) made: Vec<PathBuf>,
    /// `None` before the first probe.
    pub(crate) progress: Option<ProgressStatus>,
}

impl View {
    /// The task now.
    pub fn take(task: &LiveTask) -> View {
        View::take_with(task, |state| state.deltas())
    }

    /// As [`View::take`], with the new output that `take` reads from the state at the same moment.
    pub fn take_with(
        task: &LiveTask,
        take: impl FnOnce(&mut LiveState) -> PerStream<Delta>,
    ) -> View {
        let moment = Instant::now();
        let now = task.facts.started.unix_seconds_at(moment);
        let mut state = task.state();
        let repeats_anew = !state.told.repetition && state.repetition(moment).is_some();
        let continues_anew =
            (!state.told.continues).then(|| state.continues_unasked(&task.facts, moment)).flatten();
        let deltas = take(&mut state);
        let (unshown, empty_polls) = (state.unshown(), state.told.empty_polls);
        let mut snapshot = Snapshot::take(task, &state, moment);
        drop(state);
        if !snapshot.running() {
            snapshot.kept = task.kept();
        }
        let progress = ProgressStatus::from_snapshot(&snapshot, now);
        let keeps_directory = task.facts.in_session;
        View {
            task: snapshot,
            now,
            deltas,
            unshown,
            empty_polls,
            repeats_anew,
            continues_anew,
            keeps_directory,
            made: Vec::new(),
            progress,
        }
    }

    /// Whether its shell runs.
    pub fn running(&self) -> bool {
        self.task.running()
    }

    /// How long it has run, or had run at its end.
    pub(crate) fn elapsed(&self) -> Duration {
        self.task.elapsed(self.now)
    }

    pub(crate) fn silent_for(&self) -> Duration {
        self.task.silent_for(self.now)
    }

    /// The process that waits for input; `None` while an attached person can answer it.
    pub(crate) fn waiting(&self) -> Option<&Waiting> {
        self.task.probed.waiting.as_ref().filter(|_| !self.task.attached)
    }

    pub(crate) fn conditions(&self) -> &[Condition] {
        &self.task.probed.conditions
    }

    /// Whether the task makes progress; `None` after its end and before the first probe.
    pub(crate) fn status(&self) -> Option<Status> {
        // Waiting for input is known even before the first probe of progress.
        if self.waiting().is_some() {
            return Some(Status::Blocked(BlockedOn::Input));
        }
        let progress = self.progress.as_ref().filter(|_| self.running())?;
        Some(progress.verdict.status)
    }
}

/// Whether a task makes progress at one moment, and why.
#[derive(Debug, Clone)]
pub(crate) struct ProgressStatus {
    pub(crate) verdict: Verdict,
    /// The task reads or writes steadily.
    pub(crate) moves_bytes: bool,
    /// Some evidence is not available.
    pub(crate) degraded: bool,
}

impl ProgressStatus {
    fn from_snapshot(task: &Snapshot, now: f64) -> Option<ProgressStatus> {
        let progress = task.probed.progress.as_ref()?;
        Some(ProgressStatus {
            verdict: task.verdict(now)?,
            moves_bytes: progress.moves_bytes,
            degraded: progress.degraded,
        })
    }

    /// Whether the last change was recent, and was not output.
    pub(crate) fn does_something_new(&self) -> bool {
        self.verdict.status == Status::Progressing
            && self.verdict.last_change.is_some_and(|change| change != ChangeKind::Output)
    }

    /// `progressing: read or wrote 5.5 MB`, `idle: sleeping on a timer`; `None` if another line
    /// reports it.
    pub(crate) fn summary(&self) -> Option<String> {
        match self.verdict.status {
            Status::Ended | Status::Blocked(BlockedOn::Input | BlockedOn::Stop) => None,
            _ => describe::verdict_summary(&self.verdict),
        }
    }

    /// Why it is stuck, if it is.
    pub(crate) fn stuck_reason(&self) -> Option<String> {
        let reason = || describe::evidence(&self.verdict).into_iter().next();
        (self.verdict.status == Status::Stuck).then(reason).flatten()
    }

    /// Whether the task waits by design for an event that may never come, unlike a timer.
    pub(crate) fn waits_by_design(&self) -> bool {
        let kind = self.verdict.tree_state.as_ref().map(|(tree_state, _)| tree_state.kind());
        self.verdict.status == Status::Idle
            && matches!(kind, Some(TreeStateKind::Idle | TreeStateKind::Screen))
    }

    /// That its work seems done, and what keeps it from ending, in a phrase.
    pub(crate) fn seems_done(&self) -> Option<String> {
        describe::seems_done_phrase(&self.verdict)
    }

    /// Whether the task draws a screen by itself and takes keys.
    pub(crate) fn accepts_keys(&self) -> bool {
        let kind = self.verdict.tree_state.as_ref().map(|(tree_state, _)| tree_state.kind());
        self.verdict.status == Status::Idle && kind == Some(TreeStateKind::Screen)
    }

    /// The peer on the network that has been silent for long, and for how long.
    pub(crate) fn mute_peer(&self) -> Option<(Phrase, Duration)> {
        match &self.verdict.tree_state {
            Some((TreeState::Peer { peer: Peer::Network(peer), .. }, lasted))
                if self.verdict.status == Status::Blocked(BlockedOn::Network)
                    && *lasted >= MUTE_FROM =>
            {
                Some((peer.clone(), *lasted))
            }
            _ => None,
        }
    }

    /// The task that holds the lock which this task waits for.
    pub(crate) fn lock_holder(&self) -> Option<&str> {
        match &self.verdict.tree_state {
            Some((TreeState::Lock { lock, .. }, _))
                if self.verdict.status == Status::Blocked(BlockedOn::Lock) =>
            {
                lock.holder.as_ref()?.task.as_deref()
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::progress::tracker::{ActivityDelta, Repetition};
    use crate::progress::tree_state::{DeadEnd, Idle};
    use crate::progress::wait::{Holder, Lock, Peer, ProcessName};

    fn status_of(status: Status, delta: ActivityDelta) -> ProgressStatus {
        ProgressStatus {
            verdict: Verdict {
                status,
                delta,
                tree_state: None,
                stuck_part: None,
                finished: None,
                unchanged_for: Duration::from_secs(40),
                last_change: None,
                repetition: None,
                unserved: None,
            },
            moves_bytes: false,
            degraded: false,
        }
    }

    fn doing(status: Status, tree_state: TreeState) -> ProgressStatus {
        let mut doing = status_of(status, ActivityDelta::default());
        doing.verdict.tree_state = Some((tree_state, Duration::from_secs(40)));
        doing
    }

    fn evidence_of(progress: &ProgressStatus) -> Vec<String> {
        describe::evidence(&progress.verdict)
    }

    fn process() -> ProcessName {
        ProcessName { pid: 4711, name: "cargo".into() }
    }

    #[test]
    fn the_strongest_evidence_comes_first_and_cpu_time_last() {
        let delta = ActivityDelta {
            io: 5_500_000,
            output: 10,
            born: 2,
            cpu_share: 0.021,
            ..ActivityDelta::default()
        };
        let evidence = evidence_of(&status_of(Status::Progressing, delta));
        assert_eq!(
            evidence,
            ["read or wrote 5.5 MB", "printed 10 B", "started 2 processes, 0 ended", "cpu 2%"]
        );
        let little = ActivityDelta { io: 24, output: 10, ..ActivityDelta::default() };
        let evidence = evidence_of(&status_of(Status::Slow, little));
        assert_eq!(evidence, ["printed 10 B", "read or wrote 24 B", "cpu 0%"]);
        let evidence = evidence_of(&status_of(Status::Silent, ActivityDelta::default()));
        assert_eq!(evidence, ["silent for 40s, no evidence of work", "cpu 0%"]);
    }

    #[test]
    fn of_what_computes_repeated_reads_are_shown_too() {
        let delta =
            ActivityDelta { io: 24, moved: 5_500_000, cpu_share: 0.98, ..ActivityDelta::default() };
        let tree_state = TreeState::Computing { process: Some(process()), share: 0.98 };
        let mut computing = doing(Status::Slow, tree_state);
        computing.verdict.delta = delta;
        assert_eq!(
            evidence_of(&computing),
            ["busy: cargo 98% CPU for 40s", "read or wrote 5.5 MB"]
        );
        assert_eq!(
            evidence_of(&status_of(Status::Progressing, delta)),
            ["read or wrote 24 B", "cpu 98%"]
        );
    }

    #[test]
    fn every_state_has_its_words() {
        let process = process();
        let network = Status::Blocked(BlockedOn::Network);
        let lock = |holder| TreeState::Lock {
            process: process.clone(),
            lock: Lock::new("/w/target/.cargo-lock", holder),
        };
        let idle = |on| TreeState::Idle { process: process.clone(), on };
        let deadlock = |threads, processes, cause| TreeState::Deadlock {
            process: process.clone(),
            threads,
            processes,
            cause,
        };
        let peer = |peer| TreeState::Peer { process: process.clone(), peer };
        let holder =
            Holder { process: process.clone(), task: Some("b6d464a7".to_owned()), stopped: false };
        let held_by = |pid| {
            let process = ProcessName { pid, ..process.clone() };
            Lock::new("/w/l", Some(Holder { process, task: None, stopped: false }))
        };
        let rows = [
            (
                Status::Slow,
                TreeState::Computing { process: Some(process.clone()), share: 0.98 },
                "busy: cargo 98% CPU for 40s",
            ),
            (
                network,
                peer(Peer::Network("127.0.0.1:5432".into())),
                "waiting for network peer 127.0.0.1:5432 (40s)",
            ),
            (
                network,
                peer(Peer::Local("/run/x.sock".into())),
                "waiting for peer /run/x.sock (40s)",
            ),
            (
                network,
                peer(Peer::Local("a local socket".into())),
                "waiting for a local socket (40s)",
            ),
            (
                network,
                peer(Peer::Pipe(process.clone())),
                "waiting for a pipe that 4711 cargo holds (40s)",
            ),
            (
                Status::Blocked(BlockedOn::Lock),
                lock(Some(holder)),
                "waiting for lock /w/target/.cargo-lock held by 4711 cargo (task b6d464a7)",
            ),
            (
                Status::Blocked(BlockedOn::Lock),
                lock(None),
                "waiting for lock /w/target/.cargo-lock",
            ),
            (Status::Idle, idle(Idle::Timer), "sleeping on a timer"),
            (
                Status::Idle,
                idle(Idle::Listening("port 3000".into())),
                "listening on port 3000, no requests pending",
            ),
            (Status::Idle, idle(Idle::Datagrams("udp 514".into())), "listening on udp 514"),
            (Status::Idle, idle(Idle::Files { accepts_keys: false }), "watching files"),
            (
                Status::Idle,
                idle(Idle::Files { accepts_keys: true }),
                "watching files, accepts keys",
            ),
            (Status::Idle, idle(Idle::Signal), "waiting for a signal"),
            (Status::Idle, idle(Idle::Screen), "interactive screen, accepts keys"),
            (
                Status::Stuck,
                deadlock(4, 1, DeadEnd::Threads),
                "likely deadlock: all 4 threads of 4711 cargo are waiting on each other",
            ),
            (
                Status::Stuck,
                deadlock(1, 1, DeadEnd::Threads),
                "likely deadlock: the only thread of 4711 cargo waits for another to wake it",
            ),
            (
                Status::Stuck,
                deadlock(1, 1, DeadEnd::Lock(held_by(4711))),
                "likely deadlock: 4711 cargo is waiting for lock /w/l, which it holds itself",
            ),
            (
                Status::Stuck,
                deadlock(1, 1, DeadEnd::Lock(held_by(4712))),
                "likely deadlock: 4711 cargo is waiting for lock /w/l held by 4712 cargo, which \
                 waits too",
            ),
            (
                Status::Stuck,
                deadlock(1, 3, DeadEnd::Pipe(None)),
                "likely deadlock: all 3 processes are waiting on each other, 4711 cargo among them",
            ),
            (
                Status::Stuck,
                deadlock(1, 1, DeadEnd::Pipe(None)),
                "likely deadlock: 4711 cargo is waiting on a pipe that no other process holds",
            ),
            (
                Status::Stuck,
                deadlock(1, 1, DeadEnd::Fifo("go".into())),
                "likely deadlock: 4711 cargo is opening FIFO go, and no process has its other end",
            ),
        ];
        for (status, tree_state, words) in rows {
            let doing = doing(status, tree_state);
            assert_eq!(evidence_of(&doing).first().map(String::as_str), Some(words));
            assert_eq!(doing.summary(), Some(format!("{status}: {words}")));
        }
    }

    #[test]
    fn the_first_look_says_nothing_of_cpu_time_which_it_cannot_compare() {
        let delta = ActivityDelta { cpu_share: 0.05, ..ActivityDelta::default() };
        let mut first = status_of(Status::Slow, delta);
        assert_eq!(evidence_of(&first), ["cpu 5%"]);
        first.verdict.delta.baseline = true;
        assert_eq!(evidence_of(&first), [""; 0]);
    }

    #[test]
    fn that_nothing_was_done_is_no_evidence_of_work() {
        let slow = status_of(Status::Slow, ActivityDelta::default());
        assert_eq!(evidence_of(&slow), [""; 0]);
        assert_eq!(slow.summary(), None);
    }

    #[test]
    fn repeated_output_stands_beside_the_state_of_the_processes() {
        let mut waits =
            doing(Status::Idle, TreeState::Idle { process: process(), on: Idle::Timer });
        waits.verdict.repetition = Some(Repetition {
            line: "waiting for 127.0.0.1:5433".to_owned(),
            lasts: Duration::from_secs(60),
        });
        waits.verdict.unserved = Some("127.0.0.1:5433".to_owned());
        assert_eq!(
            evidence_of(&waits),
            [
                "sleeping on a timer",
                "prints the same for 60s: \"waiting for 127.0.0.1:5433\", and nothing listens on 127.0.0.1:5433",
                "cpu 0%"
            ]
        );
        assert_eq!(waits.stuck_reason(), None);
    }

    #[test]
    fn repetition_is_named_before_the_sleep_between_the_lines() {
        let delta = ActivityDelta { output: 45, ..ActivityDelta::default() };
        let on = Idle::Timer;
        let process = process();
        let mut stuck = doing(Status::Stuck, TreeState::Idle { process, on });
        stuck.verdict.delta = delta;
        assert_eq!(
            evidence_of(&stuck),
            ["repeating the same line for 40s", "printed 45 B", "sleeping on a timer", "cpu 0%"]
        );
        let reason = stuck.stuck_reason();
        assert_eq!(reason.as_deref(), Some("repeating the same line for 40s"));
    }
}
