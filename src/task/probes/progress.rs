//! Whether a task makes progress: probes of what its processes did, taken each interval,
//! sooner at its beginning.
//!
//! The probes use the scans of the machine that all tasks share. `progress::tracker`, which is part
//! of the task's state, judges the findings anew at each query. Limits: nothing is decided here;
//! the state machine extends deadlines.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::process::probe::InputSource;
use crate::process::scans::Scans;
use crate::process::tree::{self, Identity, ProcessInfo, Scan, TaskProcesses};
use crate::process::usage;
use crate::process::waits::{self, Known, Waits};
use crate::process::{listening, locks};
use crate::progress::cost::CpuTime;
use crate::progress::counters::{ActivityCounters, Balance};
use crate::progress::mentions;
use crate::progress::progress_state::ProgressState;
use crate::progress::runner_summary;
use crate::progress::standstill::Standstill;
use crate::progress::tracker::{BlockedOn, ChangeKind, Status, Totals, Tracker, TrackerSettings};
use crate::progress::tree_state::{
    self, BUSY_SHARE, DeadEnd, Idle, QUIET_BEFORE_DEADLOCK, RUNNING_SHARE, Suspect, TreeState,
};
use crate::progress::wait::{Lock, Peer, ProcessName, Thread};
use crate::task::live::{LiveState, LiveTask};
use crate::task::output::reading;
use crate::task::output::spool::SpoolWriter;
use crate::task::state::Health;
use crate::task::terminal::Terminal;
use crate::text::foreign::Foreign;

/// One scan of the machine serves all tasks that probe within this time.
const MAX_SCAN_AGE: Duration = Duration::from_millis(200);
/// Pauses between the first probes, where the interval is longer: a caller gets evidence
/// with its first or second answer.
const FIRST_PAUSES: [Duration; 3] =
    [Duration::from_secs(1), Duration::from_secs(1), Duration::from_secs(3)];
/// How many of the newest lines of an interval are checked for something new.
const LINES_PER_PROBE: usize = 20;
/// While a call waits for the task, its processes are probed at least this often.
const AWAITED_PAUSE: Duration = Duration::from_secs(2);
/// And this often if their memory has a limit.
const MEMORY_PAUSE: Duration = Duration::from_secs(1);
/// A probe that a call asks for is skipped within this time after another one.
const FRESH: Duration = Duration::from_millis(500);
/// From this many bytes of output per second on, printing explains the CPU time.
const FLOOD: f64 = 256.0 * 1024.0;
/// How long a task must be silent after a runner's summary to seem done.
const SILENCE_AFTER_SUMMARY: Duration = Duration::from_secs(2);
/// A probe is due this long before a deadline that may move, so that the newest evidence
/// decides.
const BEFORE_DEADLINE: Duration = Duration::from_millis(50);

/// The series of probes of one task.
pub(crate) struct ProgressProbe {
    scans: Arc<Scans>,
    phase_offset: Duration,
    settings: TrackerSettings,
    /// The input that the task may wait for, and the session in which it may.
    input: Option<InputSource>,
    session: i32,
    /// When the next probe is due; `None` once the task has ended.
    pub(crate) next: Option<Instant>,
    last: Option<Instant>,
    /// When to probe before a deadline that progress can extend.
    before_deadline: Option<Instant>,
    has_memory_limit: bool,
    probes_taken: usize,
    counters: ActivityCounters,
    /// The I/O that counts as a sign of life, and all of it.
    life_sign_io: Balance,
    all_io: Balance,
    totals: Totals,
    memory: Memory,
    /// The CPU time before the first probe, at which the totals begin.
    cpu_before: Option<CpuTime>,
    /// CPU time of each process at the last probe, in clock ticks, and how long it had waited
    /// for a processor.
    used: HashMap<Identity, (u64, Duration)>,
    /// What earlier probes have found out about the processes.
    known: Known,
    /// What the processes did at the last probe, if that had a name.
    named_state: Option<TreeState>,
    /// The processes at the last probe, and since when they are the same.
    members: Option<(Vec<Identity>, Instant)>,
    /// The processes whose threads all wait for each other, since they have done nothing.
    standstills: HashMap<Identity, Standstill>,
    /// How far the output has been checked for something new.
    read_to: u64,
    /// The end of the output that was last checked for a summary, and the summary there.
    summary: (u64, Option<String>),
    command_lines: CommandLines,
}

impl ProgressProbe {
    pub(super) fn new(
        settings: TrackerSettings,
        (scans, phase_offset): (Arc<Scans>, Duration),
        input: Option<InputSource>,
        session: i32,
        moving_deadline: Option<Instant>,
        has_memory_limit: bool,
    ) -> ProgressProbe {
        let mut progress_probe = ProgressProbe {
            scans,
            phase_offset,
            settings,
            input,
            session,
            next: None,
            last: None,
            before_deadline: moving_deadline.and_then(|at| at.checked_sub(BEFORE_DEADLINE)),
            has_memory_limit,
            probes_taken: 0,
            counters: ActivityCounters::default(),
            life_sign_io: Balance::default(),
            all_io: Balance::default(),
            totals: Totals::default(),
            memory: Memory::default(),
            cpu_before: None,
            used: HashMap::new(),
            known: Known::default(),
            named_state: None,
            members: None,
            standstills: HashMap::new(),
            read_to: 0,
            summary: (0, None),
            command_lines: CommandLines::default(),
        };
        progress_probe.next = Some(progress_probe.time_after_pause(Instant::now(), false));
        progress_probe
    }

    fn time_after_pause(&self, now: Instant, awaited: bool) -> Instant {
        let interval = self.settings.heartbeat_interval;
        let mut pause = FIRST_PAUSES.get(self.probes_taken).copied().unwrap_or(interval);
        if awaited {
            pause = pause.min(AWAITED_PAUSE);
        }
        if self.has_memory_limit {
            pause = pause.min(MEMORY_PAUSE);
        }
        let regular = self.scans.common_time(now, pause.min(interval), self.phase_offset);
        match self.before_deadline.filter(|before| *before > now) {
            Some(before) => regular.min(before),
            None => regular,
        }
    }

    /// Moves the next probe to now.
    pub(super) fn hasten(&mut self, now: Instant) {
        let is_fresh = |last| now.saturating_duration_since(last) < FRESH;
        if self.next.is_some() && !self.last.is_some_and(is_fresh) {
            self.next = Some(now);
        }
    }

    /// Probes, if that is due. Returns whether the findings extend the deadline; `None` if no probe
    /// was due.
    pub(super) fn probe(
        &mut self,
        task: &LiveTask,
        processes: &mut TaskProcesses,
        spool: &SpoolWriter,
    ) -> Option<Health> {
        let now = Instant::now();
        if self.next.is_none_or(|due| now < due) {
            return None;
        }
        self.probes_taken += 1;
        let scan = self.scans.recent(MAX_SCAN_AGE);
        let members = processes.known_members(&scan);
        let before = self.totals;
        let (printed, awaited) = {
            let state = task.state();
            // The task of an agent run does not count: the run's wait is not urgent.
            let waits = state.active_calls > 0 && task.facts.part_of.is_none();
            (state.printed(), waits)
        };
        self.count(&members, printed);
        let (tree_state, stuck_part) = self.tree_state(&before, &members, processes.outputs(), now);
        // It may be ended by a timer that nothing shows.
        let (tree_state, stuck_part) = match tree_state {
            Some(TreeState::Deadlock { .. }) if mentions::alarm(&task.facts.command) => {
                (Some(TreeState::Unknown), None)
            }
            state => (state, stuck_part.filter(|_| !mentions::alarm(&task.facts.command))),
        };
        let mut tree_state = tree_state.map(|state| self.confirmed(state));
        // A full screen that is redrawn from time to time waits for a person to watch it; a line
        // that is redrawn does not, though its program may read keys, as spinners do.
        if let Some(TreeState::Idle { on, .. }) = &mut tree_state
            && let Some(terminal) = task.terminal()
        {
            match (&on, terminal.is_full_screen()) {
                (Idle::Timer, true) => *on = Idle::Screen,
                (Idle::Screen, false) => *on = Idle::Timer,
                _ => {}
            }
        }
        // A lock that a process of the same task holds is not another task's.
        if let Some(
            TreeState::Lock { lock, .. } | TreeState::Deadlock { cause: DeadEnd::Lock(lock), .. },
        ) = &mut tree_state
            && let Some(holder) = &mut lock.holder
        {
            holder.task.take_if(|holder| *holder == task.facts.id);
        }
        let changes = self.changes(task, &members, spool);
        let finished = self.finished(task, tree_state.as_ref(), spool);
        self.last = Some(now);
        self.next = Some(self.time_after_pause(now, awaited));
        Some(self.judge(task, &members, Findings { tree_state, stuck_part, finished, changes }))
    }

    /// What the processes do, and one that is stuck beside others that are not; `before` are the
    /// totals of the probe before, `outputs` are the pipes that take the task's output.
    fn tree_state(
        &mut self,
        before: &Totals,
        members: &[ProcessInfo],
        outputs: &[PathBuf],
        now: Instant,
    ) -> (Option<TreeState>, Option<TreeState>) {
        let time = self.last.map(|last| now.saturating_duration_since(last));
        let settled = self.same_members_for(members, now) >= QUIET_BEFORE_DEADLOCK;
        let Busiest { process, waited, ran } = self.busiest(members);
        let after = self.totals;
        let computing = |least| computing(before, &after, time?, waited, least);
        let busy = computing(BUSY_SHARE);
        let mut waits =
            Waits::new(self.input.as_ref(), self.session, members).with_outputs(outputs);
        let tree = match busy {
            // Only one that is stuck beside them matters.
            Some(_) => waits.read_all_beside(&ran, &mut self.known),
            None => waits.read_all(&mut self.known),
        };
        let runs = || tree.iter().any(|waits| waits.threads.contains(&Thread::Running));
        let share = busy.or_else(|| computing(RUNNING_SHARE).filter(|_| runs()));
        let computing = share.map(|share| TreeState::Computing { process, share });
        let Some(found) = tree_state::classify(&tree) else {
            return (computing, None);
        };
        let still = self.standstills(found.to_follow(), members, now);
        if computing.is_none() && settled && found.is_stuck(&still) {
            // A timer ends what is below, as that of `timeout` does.
            if let Some(process) = waits::timer_above(members) {
                let part = found.suspects.first().map(|suspect| suspect.deadlock(1));
                return (Some(TreeState::Idle { process, on: Idle::Timer }), part);
            }
            return (deadlock(&found.suspects, members), None);
        }
        let part = found.stuck_part(&still).map(|suspect| suspect.deadlock(1));
        (Some(computing.unwrap_or(found.state)), part)
    }

    /// The address of this machine that a line names, if nothing listens there.
    fn unserved(&self, line: &str) -> Option<String> {
        let address = mentions::local_address(line)?;
        let listeners = listening::listeners(self.session)?;
        let mut ends = listeners.iter().map(|listener| listener.address);
        let is_served = ends.any(|end| address.is_served_by(end.ip(), end.port()));
        (!is_served).then(|| address.to_string())
    }

    /// The summary with which the output has ended, if the task waits by design or sleeps since.
    fn finished(
        &mut self,
        task: &LiveTask,
        tree_state: Option<&TreeState>,
        spool: &SpoolWriter,
    ) -> Option<String> {
        // A watcher's work is never done, nor that of a screen.
        let is_idle = matches!(
            tree_state,
            Some(TreeState::Idle { on, .. }) if !matches!(on, Idle::Files { .. } | Idle::Screen)
        );
        let (last_output, columns) = {
            let state = task.state();
            (state.last_output, state.columns)
        };
        let is_silent = last_output.is_some_and(|last| last.elapsed() >= SILENCE_AFTER_SUMMARY);
        if !is_idle || !is_silent || task.terminal().is_some_and(Terminal::is_full_screen) {
            return None;
        }
        let end = spool.end().offset;
        if self.summary.0 != end {
            let text = reading::newest_text(&spool.reader(), 0, end, columns);
            let lines: Vec<&str> = text.lines().collect();
            let summary = runner_summary::find(&lines).map(str::to_owned);
            self.summary = (end, summary);
        }
        self.summary.1.clone()
    }

    /// A state without a name counts when a second probe confirms it: the first may have come between
    /// two commands of a loop.
    fn confirmed(&mut self, state: TreeState) -> TreeState {
        if state == TreeState::Unknown {
            return self.named_state.take().unwrap_or(state);
        }
        self.named_state = Some(state.clone());
        state
    }

    /// How long no process of the task has begun or ended.
    fn same_members_for(&mut self, members: &[ProcessInfo], now: Instant) -> Duration {
        let ids = || members.iter().map(|member| member.id);
        match &self.members {
            Some((before, since)) if ids().eq(before.iter().copied()) => now.duration_since(*since),
            _ => {
                self.members = Some((ids().collect(), now));
                Duration::ZERO
            }
        }
    }

    /// How long each of these processes has done nothing.
    fn standstills(
        &mut self,
        pids: Vec<i32>,
        members: &[ProcessInfo],
        now: Instant,
    ) -> HashMap<i32, Duration> {
        let mut before = std::mem::take(&mut self.standstills);
        let lasts = |pid: i32| {
            let process = members.iter().find(|member| member.id.pid == pid)?;
            let runs = Waits::runs(process);
            let (standstill, lasted) = match before.remove(&process.id) {
                Some(mut standstill) => {
                    let lasted = standstill.add(runs, now);
                    (standstill, lasted)
                }
                None => (Standstill::begin(runs, now), Duration::ZERO),
            };
            self.standstills.insert(process.id, standstill);
            Some((pid, lasted))
        };
        pids.into_iter().filter_map(lasts).collect()
    }

    fn busiest(&mut self, members: &[ProcessInfo]) -> Busiest {
        let mut ran = HashSet::new();
        let mut busiest: Option<(u64, &ProcessInfo)> = None;
        let mut waited = Duration::ZERO;
        let mut used = HashMap::with_capacity(members.len());
        for process in members {
            let (earlier, before) = self.used.get(&process.id).copied().unwrap_or_default();
            let ticks = process.cpu_ticks.saturating_sub(earlier);
            // A process that has not run has not waited to run either.
            let wait = if ticks > 0 || process.runnable {
                usage::run_delay(process.id.pid).unwrap_or_default()
            } else {
                before
            };
            waited += wait.saturating_sub(before);
            if ticks > 0 || process.runnable {
                ran.insert(process.id);
            }
            if ticks > 0 && busiest.is_none_or(|(max, _)| ticks > max) {
                busiest = Some((ticks, process));
            }
            used.insert(process.id, (process.cpu_ticks, wait));
        }
        self.used = used;
        Busiest { process: busiest.map(|(_, process)| process.label()), waited, ran }
    }

    fn changes(
        &mut self,
        task: &LiveTask,
        members: &[ProcessInfo],
        spool: &SpoolWriter,
    ) -> Changes {
        let columns = task.state().columns;
        let (output, end) = (spool.reader(), spool.end());
        let newest = reading::newest_lines(&output, self.read_to, end, LINES_PER_PROBE, columns);
        self.read_to = newest.read_to;
        let (begun, ended) = self.command_lines.update(members, tree::command_line);
        Changes { lines: newest.lines, unfinished: newest.unfinished, begun, ended }
    }

    /// Adds what the members have done, and this many bytes of output in all.
    fn count(&mut self, members: &[ProcessInfo], output: u64) {
        self.memory.measure(members);
        let members = usage::members(members);
        let cpu = || members.iter().fold(CpuTime::default(), |sum, it| sum.saturating_add(it.cpu));
        self.cpu_before.get_or_insert_with(cpu);
        let totals = self.counters.add(members, tree::command_line);
        // A member wrote what came here as output: it does not count twice.
        let written_here = output.saturating_sub(self.totals.output);
        self.totals = Totals {
            output,
            io: self.life_sign_io.beyond_output(totals.io, written_here),
            moved: self.all_io.beyond_output(totals.moved, written_here),
            ..totals
        };
    }

    /// Measures what the task has used, outside of the series.
    pub(super) fn measure(&mut self, task: &LiveTask, scan: &Scan, processes: &mut TaskProcesses) {
        let members = processes.known_members(scan);
        self.count(&members, self.totals.output);
        task.report(|state| self.report_usage(state, &members));
    }

    fn report_usage(&self, state: &mut LiveState, members: &[ProcessInfo]) {
        let cpu = self.totals.cpu.saturating_add(self.cpu_before.unwrap_or_default());
        state.usage.add(cpu, self.memory.together, members.len());
    }

    /// See [`Probes::memory_above`](super::Probes::memory_above).
    pub(super) fn memory_above(&self, limit: u64) -> Option<u64> {
        Some(self.memory.together).filter(|memory| *memory > limit)
    }

    fn judge(&self, task: &LiveTask, members: &[ProcessInfo], findings: Findings) -> Health {
        let now = Instant::now();
        let Findings { mut tree_state, stuck_part, finished, changes } = findings;
        let repeated = task.state().repetition(now);
        let line = changes.lines.last().map(String::as_str);
        let line = line.or(repeated.as_ref().map(|repetition| repetition.line.as_str()));
        if let Some(lock) = line.and_then(|line| named_lock(line, tree_state.as_ref(), members)) {
            tree_state = Some(lock);
        }
        let unserved = line.and_then(|line| self.unserved(line));
        let kind = tree_state.as_ref().map(TreeState::kind);
        task.report(|state| {
            self.report_usage(state, members);
            let usual = state.expected_duration;
            let progress = state.progress.get_or_insert_with(|| {
                let tracker = Tracker::new(self.settings, task.facts.started.mono);
                Box::new(ProgressState::new(tracker, now))
            });
            if kind.is_some() {
                progress.tracker.count_output_alone();
            }
            if let Some(usual) = usual {
                progress.tracker.expect(usual);
            }
            progress.tracker.probe(now, self.totals, kind);
            changes.report(&mut progress.tracker, now);
            progress.observe(tree_state, now);
            progress.stuck_part = stuck_part;
            progress.finished = finished;
            progress.unserved = unserved;
            // The machine may hide all processes of a running task.
            progress.degraded = members.is_empty() || self.counters.is_incomplete;
            state.progress_probes += 1;
            let status = state.status(now);
            state.is_stuck = status == Some(Status::Stuck);
            // A moment of work in between is no news to a caller that knows it is stuck.
            state.told.stuck &= status != Some(Status::Progressing);
            state.told.repetition &= state.repeats(now);
            match status {
                Some(status) if status.extends_deadline() => Health::Sound,
                Some(Status::Blocked(BlockedOn::Input)) => Health::WaitsForInput,
                _ => Health::Troubled,
            }
        })
    }
}

/// The memory of the processes, in bytes.
#[derive(Debug, Default)]
struct Memory {
    /// Of all together, at the last probe.
    together: u64,
    /// How many there were when it was last measured what they share, and what they occupied, each
    /// counted alone.
    measured: (usize, u64),
}

impl Memory {
    /// Less is not worth a look at what is shared, which takes the kernel milliseconds for each
    /// gigabyte.
    const WORTH_A_LOOK: u64 = 64_000_000;
    /// Nor is a change by less than 1 part in this.
    const NOTABLE_CHANGE: u64 = 20;

    fn measure(&mut self, members: &[ProcessInfo]) {
        let alone: u64 = members.iter().map(|member| member.resident).sum();
        let (count, before) = self.measured;
        if members.len() < 2 || alone < Memory::WORTH_A_LOOK {
            self.together = alone;
        } else if count != members.len() || alone.abs_diff(before) > before / Memory::NOTABLE_CHANGE
        {
            let share = |member: &ProcessInfo| {
                usage::share_of_memory(member.id.pid).unwrap_or(member.resident)
            };
            self.together = members.iter().map(share).sum();
            self.measured = (members.len(), alone);
        }
    }
}

/// Which processes have run since the last probe.
struct Busiest {
    /// The living one that used most CPU time.
    process: Option<ProcessName>,
    /// How long all of them have waited for a processor.
    waited: Duration,
    ran: HashSet<Identity>,
}

/// What one probe has found.
struct Findings {
    tree_state: Option<TreeState>,
    /// See [`Verdict::stuck_part`](crate::progress::progress_state::Verdict::stuck_part).
    stuck_part: Option<TreeState>,
    /// See [`Verdict::finished`](crate::progress::progress_state::Verdict::finished).
    finished: Option<String>,
    changes: Changes,
}

/// What may be progress since the last probe.
struct Changes {
    lines: Vec<String>,
    /// Whether the only line has not ended.
    unfinished: bool,
    /// The command lines of the processes that have begun.
    begun: Vec<String>,
    ended: Vec<String>,
}

impl Changes {
    fn report(&self, tracker: &mut Tracker, now: Instant) {
        for line in &self.lines {
            if self.unfinished {
                tracker.unfinished_line(now, line);
            } else {
                tracker.change(now, ChangeKind::Output, line);
            }
        }
        for line in &self.begun {
            tracker.change(now, ChangeKind::ChildStarted, line);
        }
        for line in &self.ended {
            tracker.change(now, ChangeKind::ChildEnded, line);
        }
    }
}

/// The lock that a task waits for which sleeps between its attempts, by the line that it prints: the
/// process that the line names lives.
fn named_lock(
    line: &str,
    tree_state: Option<&TreeState>,
    members: &[ProcessInfo],
) -> Option<TreeState> {
    let Some(TreeState::Idle { process, on: Idle::Timer }) = tree_state else {
        return None;
    };
    // The command may name a process of its own.
    let is_member = |pid: &i32| members.iter().any(|member| member.id.pid == *pid);
    let holder = locks::holder_of(mentions::lock_holder(line).filter(|pid| !is_member(pid))?)?;
    let path = mentions::lock_path(line).map_or("a lock".into(), |path| Foreign::from(path).into());
    let lock = Lock { path, holder: Some(holder), is_named_in_output: true };
    Some(TreeState::Lock { process: process.clone(), lock })
}

/// The state of a tree in which these processes, all its leaves, wait for each other and do nothing:
/// a deadlock, unless a process outside holds one of the pipes that they wait for.
fn deadlock(stuck: &[Suspect], members: &[ProcessInfo]) -> Option<TreeState> {
    let mut culprit = tree_state::culprit(stuck)?.clone();
    let pipes = stuck.iter().flat_map(|suspect| &suspect.pipes).map(String::as_str).collect();
    if let Some(holder) = waits::holder_outside(&pipes, members) {
        return Some(TreeState::Peer { process: culprit.process, peer: Peer::Pipe(holder) });
    }
    if let DeadEnd::Pipe(holder) | DeadEnd::FullPipe(holder) = &mut culprit.cause
        && let Some(pipe) = culprit.pipes.first()
    {
        *holder = waits::holder_inside(pipe, culprit.process.pid, members);
    }
    if stuck.iter().flat_map(|it| &it.memory).any(|it| waits::is_mapped_outside(it, members)) {
        let lock = Lock::new("a lock in shared memory", None);
        return Some(TreeState::Lock { process: culprit.process, lock });
    }
    if culprit.cause == DeadEnd::Relative
        && !culprit.memory.is_empty()
        && !culprit
            .memory
            .iter()
            .any(|it| waits::is_mapped_inside(it, culprit.process.pid, members))
    {
        culprit.cause = DeadEnd::Threads;
    }
    // A read blocks only while some process can write: here one that is not shown.
    if culprit.cause == DeadEnd::Pipe(None) {
        return Some(TreeState::Unknown);
    }
    Some(culprit.deadlock(stuck.len()))
}

/// The part of a core that was used between two probes, if the tree is busy: if it used at least this
/// part, or would have on an idle machine, and more than printing needs.
fn computing(
    before: &Totals,
    now: &Totals,
    time: Duration,
    waited: Duration,
    least: f64,
) -> Option<f64> {
    let seconds = time.as_secs_f64();
    let share = now.cpu.saturating_sub(before.cpu).total().as_secs_f64() / seconds;
    let output = now.output.saturating_sub(before.output) as f64 / seconds;
    let wanted = share + waited.as_secs_f64() / seconds;
    (seconds > 0.0 && wanted >= least && output < FLOOD).then_some(share)
}

/// The processes of a task by their command lines, which distinguish work on successive items
/// from a loop that repeats the same commands.
#[derive(Debug, Default)]
struct CommandLines {
    /// `None` before the first probe, which finds no new processes.
    known: Option<HashMap<Identity, SeenProcess>>,
}

/// A process by its command line.
#[derive(Debug)]
struct SeenProcess {
    line: String,
    /// Whether it is the first with this line. A forked copy still has its parent's line, and the
    /// line is empty during exec and exit; neither counts as a new process.
    is_first_with_line: bool,
    /// Its name, and whether it had not called `execve` yet, when its line was read.
    read_as: (String, bool),
}

impl SeenProcess {
    /// The line is read again only where another program may run by now.
    fn line_of(&self, member: &ProcessInfo) -> Option<&str> {
        let (name, was_fork) = &self.read_as;
        let is_same = *name == member.name && *was_fork == member.is_fork;
        Some(self.line.as_str()).filter(|line| is_same && !line.is_empty())
    }
}

impl CommandLines {
    /// The command lines of the processes that have begun since the last probe, or only now show
    /// their own line, and of those that have ended.
    fn update(
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
            let child = match before.remove(&member.id) {
                Some(first) if first.is_first_with_line => first,
                known => {
                    unclear.push(member);
                    let line = known.as_ref().and_then(|known| known.line_of(member));
                    SeenProcess {
                        line: line.map_or_else(|| command_line(member.id.pid), str::to_owned),
                        is_first_with_line: false,
                        read_as: (member.name.clone(), member.is_fork),
                    }
                }
            };
            now.insert(member.id, child);
        }
        let mut shown: HashSet<String> = HashSet::new();
        if !unclear.is_empty() {
            let own = now.values().filter(|child| child.is_first_with_line);
            shown.extend(own.map(|child| child.line.clone()));
        }
        let mut begun = Vec::new();
        for member in unclear {
            let Some(child) = now.get_mut(&member.id) else {
                continue;
            };
            child.is_first_with_line = !child.line.is_empty() && shown.insert(child.line.clone());
            if child.is_first_with_line {
                begun.push(child.line.clone());
            }
        }
        self.known = Some(now);
        let ended = before.into_values().filter(|child| child.is_first_with_line);
        if is_first {
            (Vec::new(), Vec::new())
        } else {
            (begun, ended.map(|child| child.line).collect())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(pid: i32) -> ProcessInfo {
        ProcessInfo { id: Identity { pid, started: 1 }, ..ProcessInfo::default() }
    }

    #[test]
    fn a_thread_that_runs_needs_less_to_count_as_busy() {
        let after = |cpu: u64, output| Totals {
            output,
            cpu: CpuTime { user: Duration::from_millis(cpu), ..CpuTime::default() },
            ..Totals::default()
        };
        let (none, second) = (Totals::default(), Duration::from_secs(1));
        let share =
            |cpu, least| computing(&none, &after(cpu, 0), second, Duration::ZERO, least).is_some();
        assert!(share(200, BUSY_SHARE) && !share(150, BUSY_SHARE));
        assert!(share(150, RUNNING_SHARE) && !share(50, RUNNING_SHARE));
        let waited = Duration::from_millis(150);
        assert!(computing(&none, &after(50, 0), second, waited, BUSY_SHARE).is_some());
        let flood = after(500, FLOOD as u64);
        assert_eq!(computing(&none, &flood, second, Duration::ZERO, RUNNING_SHARE), None);
    }

    #[test]
    fn children_begin_and_end_between_two_probes() {
        let mut children = CommandLines::default();
        let mut update = |pids: &[i32]| {
            let members: Vec<ProcessInfo> = pids.iter().map(|pid| process(*pid)).collect();
            children.update(&members, |pid| format!("step {pid}"))
        };
        let none = Vec::<String>::new;
        assert_eq!(update(&[1, 2]), (none(), none()), "where counting begins");
        assert_eq!(update(&[1, 2]), (none(), none()));
        assert_eq!(update(&[1, 3]), (vec!["step 3".into()], vec!["step 2".into()]));
        assert_eq!(update(&[]).0, none());
    }

    #[test]
    fn a_child_before_its_exec_or_at_its_end_is_not_new() {
        let mut children = CommandLines::default();
        let mut update = |lines: &[(i32, &str)]| {
            let members: Vec<ProcessInfo> = lines
                .iter()
                .map(|(pid, line)| ProcessInfo {
                    parent: if *pid == 1 { 0 } else { 1 },
                    is_fork: *pid != 1 && *line == "zsh loop",
                    ..process(*pid)
                })
                .collect();
            let shown = |pid| lines.iter().find(|line| line.0 == pid).map(|line| line.1);
            children.update(&members, |pid| shown(pid).unwrap_or_default().to_owned())
        };
        let none = Vec::<String>::new;
        update(&[(1, "zsh loop")]);
        assert_eq!(update(&[(1, "zsh loop"), (2, "zsh loop")]), (none(), none()));
        let begun = (vec!["sleep 1".to_owned()], none());
        assert_eq!(update(&[(1, "zsh loop"), (2, "sleep 1")]), begun);
        let ended = (none(), vec!["sleep 1".to_owned()]);
        assert_eq!(update(&[(1, "zsh loop"), (3, "")]), ended);
        assert_eq!(update(&[(1, "zsh loop"), (4, "zsh loop")]), (none(), none()));
        assert_eq!(update(&[(1, "zsh loop")]), (none(), none()));
    }
}
