//! Evidence about a task in short phrases, the same for all front ends.
//!
//! Limits: gives no advice; the front ends say what a caller can do. Pure.

use std::time::Duration;

use super::live::{Confined, End, Input, OverMemory};
use super::snapshot::Snapshot;
use crate::progress::condition::{Condition, StopSignal};
use crate::progress::cost::Cost;
use crate::progress::progress_state::Verdict;
use crate::progress::status_forecast::{BlockedOn, Status};
use crate::progress::tracker::{BYTES_THAT_COUNT, ChangeKind};
use crate::progress::tree_state::{DeadEnd, Idle, TreeState, TreeStateKind};
use crate::progress::wait::{Holder, Peer, ProcessName};
use crate::progress::waiting::{InputProof, Waiting, WantedInput};
use crate::shell::outcome::Outcome;
use crate::text::foreign::{self, Foreign, Phrase};
use crate::text::quantity::{plural, seconds, size};

/// How many processes of one kind are named; the others are counted.
const NAMED: usize = 4;

/// The note on an end with [`super::live::End::output_cut`].
pub(crate) const OUTPUT_CUT: &str = "the output was still open 5 s after the exit, although no process was \
     found that holds it: the last lines may be missing. If they matter, run it again with \
     its output in a file.";

/// How much of a repeated line is shown.
const SHOWN_LINE_CHARS: usize = 80;

/// From this CPU time on, an answer tells what the command has cost …
const NOTABLE_CPU: Duration = Duration::from_secs(2);
/// … and from this peak of memory on, in bytes.
const NOTABLE_MEMORY: u64 = 512_000_000;

/// A smaller part of a core is shown as 0 %, which by itself says nothing.
const CPU_THAT_SHOWS: f64 = 0.005;

/// A tree that uses more than this part of a core does more than start programs repeatedly.
const BUSY_BEYOND_DOUBT: f64 = 0.5;

/// What a verdict is based on, the strongest evidence first: `["sleeping on a timer", "cpu 0%"]`.
pub(crate) fn evidence(verdict: &Verdict) -> Vec<String> {
    let Verdict { status, delta, tree_state, unchanged_for, .. } = verdict;
    let mut evidence = Vec::new();
    let tree_state = tree_state.as_ref();
    let named = tree_state.and_then(|(tree_state, lasted)| tree_state_phrase(tree_state, *lasted));
    // The phrase says by itself what keeps a process that seems done.
    let seems_done = seems_done_phrase(verdict);
    let named = named.filter(|_| seems_done.is_none());
    let kind = tree_state.map(|(tree_state, _)| tree_state.kind());
    let computes = kind == Some(TreeStateKind::Computing);
    let mut later = None;
    match status {
        // The processes cannot be observed: what is counted decides.
        Status::Stuck if kind != Some(TreeStateKind::Deadlock) => {
            evidence.push(format!("repeating the same line for {}", seconds(*unchanged_for)));
            later = named;
        }
        // Another line of the answer says what it waits for, or what stopped it.
        Status::Blocked(BlockedOn::Input | BlockedOn::Stop) | Status::Ended => {}
        Status::Stuck | Status::Idle | Status::Slow | Status::Blocked(_) => evidence.extend(named),
        Status::Silent => {
            evidence.push(format!("silent for {}, no evidence of work", seconds(*unchanged_for)))
        }
        Status::Progressing => later = named,
    }
    // A tree that keeps a core busy works, whether its input is new or not. The amount of new I/O
    // matters only if that is in question.
    let io = if computes && delta.cpu_share >= BUSY_BEYOND_DOUBT { delta.moved } else { delta.io };
    let (much, little) =
        if io >= BYTES_THAT_COUNT { (Some(io), None) } else { (None, (io > 0).then_some(io)) };
    let io = |bytes| format!("read or wrote {}", size(bytes));
    evidence.extend(much.map(io));
    if delta.output > 0 {
        evidence.push(format!("printed {}", size(delta.output)));
    }
    if delta.born > 0 || delta.ended > 0 {
        let (started, ended) = (plural(delta.born, "process", "processes"), delta.ended);
        evidence.push(format!("started {started}, {ended} ended"));
    }
    evidence.extend(little.map(io));
    if *status == Status::Progressing && evidence.is_empty() {
        evidence.extend(verdict.last_change.map(|kind| change_phrase(kind, *unchanged_for)));
    }
    evidence.extend(verdict.stuck_part.as_ref().and_then(stuck_part_phrase));
    evidence.extend(seems_done);
    evidence.extend(repetition_phrase(verdict));
    evidence.extend(later);
    let is_told = computes || evidence.is_empty() && delta.cpu_share < CPU_THAT_SHOWS;
    // Counting begins with the first probe, which has nothing to compare with.
    if !is_told && !delta.baseline {
        evidence.push(format!("cpu {:.0}%", 100.0 * delta.cpu_share));
    }
    evidence
}

/// `printed something new 8s ago`
fn change_phrase(kind: ChangeKind, ago: Duration) -> String {
    let what = match kind {
        ChangeKind::Output => "printed something new",
        ChangeKind::FileWritten => "read or wrote",
        ChangeKind::ChildStarted => "started a process",
        ChangeKind::ChildEnded => "a process ended",
        _ => "something new",
    };
    format!("{what} {} ago", seconds(ago))
}

/// What matters beside the status and its reason: a process that is stuck, or a line that comes
/// again and again.
pub(crate) fn beside(verdict: &Verdict) -> Option<String> {
    let part = verdict.stuck_part.as_ref().and_then(stuck_part_phrase);
    part.or_else(|| seems_done_phrase(verdict)).or_else(|| repetition_phrase(verdict))
}

/// `work seems done ("Tests: 3 passed, 3 total"), but it does not exit: listening on port 3000`
pub(crate) fn seems_done_phrase(verdict: &Verdict) -> Option<String> {
    let summary = verdict.finished.as_ref().filter(|_| verdict.status == Status::Idle)?;
    let summary = foreign::in_quotes(summary, SHOWN_LINE_CHARS);
    let keeps = verdict.tree_state.as_ref();
    let keeps = keeps.and_then(|(tree_state, lasted)| tree_state_phrase(tree_state, *lasted));
    let keeps = keeps.unwrap_or_else(|| "it waits".to_owned());
    Some(format!("work seems done ({summary}), but it does not exit: {keeps}"))
}

/// `one process is stuck: likely deadlock: 4711 cat is opening FIFO f, and no process has its other
/// end`
fn stuck_part_phrase(part: &TreeState) -> Option<String> {
    Some(format!("one process is stuck: {}", tree_state_phrase(part, Duration::ZERO)?))
}

/// `prints the same for 60s: "waiting for 127.0.0.1:5433", and nothing listens on 127.0.0.1:5433`
pub(crate) fn repetition_phrase(verdict: &Verdict) -> Option<String> {
    let repetition = verdict.repetition.as_ref()?;
    let line = foreign::in_quotes(repetition.line.trim(), SHOWN_LINE_CHARS);
    let mut phrase = format!("prints the same for {}: {line}", seconds(repetition.lasts));
    if let Some(address) = &verdict.unserved {
        phrase.push_str(&format!(", and nothing listens on {address}"));
    }
    Some(phrase)
}

/// How long a command took, why it ended then, and what it has cost as far as that is worth telling:
/// `48.2s · cpu 3m10s · peak 3.1 GB`.
pub(crate) fn took(end: &End, why: Option<String>) -> String {
    let mut took = format!("{:.1}s", end.duration.as_secs_f64());
    took.extend(why.map(|why| format!(" ({why})")));
    took.extend(end.cost.as_ref().and_then(notable_cost).map(|cost| format!(" · {cost}")));
    took
}

fn notable_cost(cost: &Cost) -> Option<String> {
    let cpu = cost.cpu.total();
    let cpu = (cpu >= NOTABLE_CPU).then(|| format!("cpu {}", short_time(cpu)));
    let peak = cost.peak.filter(|peak| *peak >= NOTABLE_MEMORY);
    let peak = peak.map(|peak| {
        let least = if cost.peak_is_least { "≥" } else { "" };
        format!("peak {least}{}", size(peak))
    });
    let notable: Vec<String> = cpu.into_iter().chain(peak).collect();
    (!notable.is_empty()).then(|| notable.join(" · "))
}

/// Why a task was ended that needed too much memory: `memory 4.0 GB, limit 4 GB`.
pub(crate) fn over_memory(over: OverMemory) -> String {
    let limit = size(over.limit).replace(".0 ", " ");
    format!("memory {}, limit {limit}", size(over.used))
}

/// What holds commands to a limit of memory: a control group, or probes.
pub(crate) fn memory_limit(limit: Option<u64>, by_group: bool) -> String {
    match (limit, by_group) {
        (Some(limit), true) => {
            format!("{} at most for a command, held by a control group", size(limit))
        }
        (Some(limit), false) => format!(
            "{} at most for a command, checked once a second: a burst can pass, since no control \
             group can be made",
            size(limit)
        ),
        (None, true) => "no limit; memory_max would be held by a control group".to_owned(),
        (None, false) => "no limit; memory_max would be checked once a second".to_owned(),
    }
}

/// A task's sandbox: `sandbox=workspace network=off`.
pub(crate) fn sandbox_phrase(sandbox: &Confined) -> String {
    let files = if sandbox.policy.writes_all() { " files=all" } else { "" };
    format!("sandbox={}{files}", sandbox.policy)
}

/// Says what of a task's sandbox is not enforced, if anything.
pub(crate) fn sandbox_gap(sandbox: &Confined) -> Option<String> {
    let missing = sandbox.missing.join("; ");
    (!missing.is_empty()).then(|| format!("the sandbox is not whole: {missing}."))
}

/// What a running task uses: `cpu 12.3s, memory 310.0 MB`.
pub(crate) fn usage_phrase(cpu_s: f64, memory: u64) -> String {
    format!(
        "cpu {}, memory {}",
        short_time(Duration::try_from_secs_f64(cpu_s).unwrap_or_default()),
        size(memory)
    )
}

/// `2.4s`, `3m10s`
fn short_time(time: Duration) -> String {
    if time.as_secs() < 60 { format!("{:.1}s", time.as_secs_f64()) } else { seconds(time) }
}

/// A status with its strongest evidence: `idle: sleeping on a timer`.
pub(crate) fn verdict_summary(verdict: &Verdict) -> Option<String> {
    let evidence = evidence(verdict);
    Some(format!("{}: {}", verdict.status, evidence.first()?))
}

/// The status of a task when its deadline passed, and how long nothing had been new: `idle:
/// sleeping on a timer, nothing new for 1m05s`. A stuck task's reason already says so.
pub(crate) fn at_deadline(verdict: &Verdict) -> Option<String> {
    let summary = match verdict.status {
        Status::Blocked(BlockedOn::Input) => "blocked: waiting for input".to_owned(),
        Status::Blocked(BlockedOn::Stop) => "blocked: stopped by a signal".to_owned(),
        _ => verdict_summary(verdict)?,
    };
    let unchanged_for = verdict.unchanged_for;
    Some(match verdict.status {
        Status::Idle | Status::Slow | Status::Blocked(_) if unchanged_for.as_secs() > 0 => {
            format!("{summary}, nothing new for {}", seconds(unchanged_for))
        }
        _ => summary,
    })
}

/// What the processes do, in a phrase; `None` if that is not known.
pub(crate) fn tree_state_phrase(tree_state: &TreeState, lasted: Duration) -> Option<String> {
    Some(match tree_state {
        TreeState::Computing { process, share } => {
            let share = format!("{:.0}% CPU", 100.0 * share);
            let busy = match process {
                Some(process) => format!("busy: {} {share}", process.name),
                None => format!("busy: {share}"),
            };
            match lasted.as_secs() {
                0 => busy,
                _ => format!("{busy} for {}", seconds(lasted)),
            }
        }
        TreeState::Peer { peer, .. } => {
            let peer = match peer {
                Peer::Network(address) => format!("network peer {address}"),
                Peer::Local(path) => named("peer", path),
                Peer::Pipe(holder) => format!("a pipe that {} holds", pid_and_name(holder)),
                Peer::FileSystem(name) => format!("the file system {name}"),
            };
            match lasted.as_secs() {
                0 => format!("waiting for {peer}"),
                _ => format!("waiting for {peer} ({})", seconds(lasted)),
            }
        }
        TreeState::Lock { lock, .. } => {
            let lock_name = named("lock", &lock.path);
            match &lock.holder {
                Some(holder) => {
                    format!("waiting for {lock_name} held by {}", holder_name(holder))
                }
                None => format!("waiting for {lock_name}"),
            }
        }
        TreeState::Idle { on, .. } => match on {
            Idle::Timer => "sleeping on a timer".to_owned(),
            Idle::Listening(at) => format!("listening on {at}, no requests pending"),
            Idle::Datagrams(at) => format!("listening on {at}"),
            Idle::Files { accepts_keys: true } => "watching files, accepts keys".to_owned(),
            Idle::Files { accepts_keys: false } => "watching files".to_owned(),
            Idle::Device(path) => format!("waiting for data from {path}"),
            Idle::Signal => "waiting for a signal".to_owned(),
            Idle::Screen => "interactive screen, accepts keys".to_owned(),
        },
        TreeState::Deadlock { process, threads, processes, cause } => {
            let pid = process.pid;
            let process = pid_and_name(process);
            let what = match (cause, processes, threads) {
                (DeadEnd::Fifo(path), ..) => {
                    format!("{process} is opening FIFO {path}, and no process has its other end")
                }
                (DeadEnd::OwnOutput, ..) => {
                    format!(
                        "{process} is waiting for input from its own output, where none can come"
                    )
                }
                (DeadEnd::Pipe(None), 1, _) => {
                    format!("{process} is waiting on a pipe that no other process holds")
                }
                (DeadEnd::Pipe(Some(holder)), 1, _) => {
                    let holder = pid_and_name(holder);
                    format!(
                        "{process} is waiting on a pipe that {holder} holds and does not write to"
                    )
                }
                (DeadEnd::FullPipe(None), 1, _) => {
                    format!("{process} is writing to a full pipe that no other process holds")
                }
                (DeadEnd::FullPipe(Some(holder)), 1, _) => {
                    let holder = pid_and_name(holder);
                    format!("{process} is writing to a full pipe that {holder} does not read")
                }
                (DeadEnd::Relative, 1, _) => {
                    format!("{process} is waiting for another process of the task, which waits too")
                }
                (DeadEnd::Lock(lock), 1, _) => {
                    let name = named("lock", &lock.path);
                    let own = |holder: &&Holder| holder.process.pid == pid;
                    match lock.holder.as_ref().filter(|holder| !own(holder)) {
                        Some(holder) => format!(
                            "{process} is waiting for {name} held by {}, which waits too",
                            holder_name(holder)
                        ),
                        None => format!("{process} is waiting for {name}, which it holds itself"),
                    }
                }
                (DeadEnd::Threads, 1, 1) => {
                    format!("the only thread of {process} waits for another to wake it")
                }
                (DeadEnd::Threads, 1, threads) => {
                    format!("all {threads} threads of {process} are waiting on each other")
                }
                (_, processes, _) => {
                    format!(
                        "all {processes} processes are waiting on each other, {process} among them"
                    )
                }
            };
            format!("likely deadlock: {what}")
        }
        TreeState::Unknown => return None,
    })
}

/// A path with the word for what it is: `lock /run/x.lock`. A name without a path is already a
/// description: `a System V semaphore`.
fn named(what: &str, name: &Phrase) -> String {
    if name.is_path() { format!("{what} {name}") } else { name.to_string() }
}

/// `4711 cargo`
fn pid_and_name(process: &ProcessName) -> String {
    format!("{} {}", process.pid, process.name)
}

/// `4711 cargo (task b6d464a7)`
fn holder_name(holder: &Holder) -> String {
    let mut name = pid_and_name(&holder.process);
    if let Some(task) = &holder.task {
        name.push_str(&format!(" (task {task})"));
    }
    if holder.stopped {
        name.push_str(", which is stopped");
    }
    name
}

/// How a task ended, in one word.
pub(crate) fn outcome_word(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Success => "completed",
        Outcome::Failure => "failed",
        Outcome::Timeout => "timeout",
        Outcome::Killed => "killed",
        Outcome::Interrupted => "interrupted",
    }
}

/// Whether a task runs, or how it ended, in one word.
pub(crate) fn status_word(task: &Snapshot) -> &'static str {
    task.outcome().map_or("running", outcome_word)
}

/// `running, idle`, `failed exit=1`
pub(crate) fn status_phrase(task: &Snapshot, status: Option<Status>) -> String {
    let word = status_word(task);
    match (task.exit_code(), status.filter(|_| task.running())) {
        (Some(code), _) => format!("{word} exit={code}"),
        (None, Some(status)) => format!("{word}, {status}"),
        (None, None) => word.to_owned(),
    }
}

/// What a task waits for, in one word.
pub(crate) fn wanted_word(wanted: WantedInput) -> &'static str {
    match wanted {
        WantedInput::Input => "input",
        WantedInput::Password => "password",
    }
}

/// `reads tty: 4711 passwd`
pub(crate) fn input_proof_phrase(waiting: &Waiting, input: Input) -> String {
    let device = match input {
        Input::Terminal => "tty",
        Input::Pipe | Input::None => "stdin",
    };
    let mut reader = pid_and_name(&waiting.reader);
    if let Some(program) = &waiting.program {
        reader.push_str(&format!(", run by {program}"));
    }
    match waiting.proof {
        InputProof::Blocked => format!("reads {device}: {reader}"),
        InputProof::Probable => format!("probably: {reader} waits for {device} and other events"),
        InputProof::Signs => {
            format!("asks and is silent, cannot be inspected: {reader}")
        }
    }
}

/// `stopped: 4711 vim`, for lists.
pub(crate) fn condition_phrases(conditions: &[Condition]) -> Vec<String> {
    kinds(conditions)
        .into_iter()
        .map(|(kind, processes)| format!("{}: {}", kind.word().replace('_', " "), name(&processes)))
        .collect()
}

/// Conditions that are reported together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConditionKind<'a> {
    Stopped {
        by: StopSignal,
        /// See [`Condition::holds_up`].
        holds_up: bool,
    },
    DiskSleep,
    ZombieLeader,
    /// Processes of another user, with its name, which this server cannot signal.
    OutOfReach(&'a Foreign),
}

impl ConditionKind<'_> {
    pub(crate) fn from_condition(condition: &Condition) -> ConditionKind<'_> {
        match condition {
            Condition::Stopped { by, holds_up, .. } => {
                ConditionKind::Stopped { by: *by, holds_up: *holds_up }
            }
            Condition::DiskSleep { .. } => ConditionKind::DiskSleep,
            Condition::ZombieLeader { .. } => ConditionKind::ZombieLeader,
            Condition::OutOfReach { user, .. } => ConditionKind::OutOfReach(user),
        }
    }

    /// Its word in JSON.
    pub(crate) fn word(self) -> &'static str {
        match self {
            ConditionKind::Stopped { .. } => "stopped",
            ConditionKind::DiskSleep => "disk_sleep",
            ConditionKind::ZombieLeader => "zombie_leader",
            ConditionKind::OutOfReach(_) => "other_user",
        }
    }
}

/// The conditions grouped by kind, in order.
pub(crate) fn kinds(conditions: &[Condition]) -> Vec<(ConditionKind<'_>, Vec<&Condition>)> {
    let mut kinds: Vec<(ConditionKind<'_>, Vec<&Condition>)> = Vec::new();
    for condition in conditions {
        let kind = ConditionKind::from_condition(condition);
        match kinds.iter_mut().find(|(known, _)| *known == kind) {
            Some((_, processes)) => processes.push(condition),
            None => kinds.push((kind, vec![condition])),
        }
    }
    kinds
}

/// `1 vim, 2 vim, 2 more`
pub(crate) fn name(conditions: &[&Condition]) -> String {
    let mut named: Vec<String> =
        conditions.iter().take(NAMED).map(|condition| pid_and_name(condition.process())).collect();
    if conditions.len() > NAMED {
        named.push(format!("{} more", conditions.len() - NAMED));
    }
    named.join(", ")
}

pub(crate) fn signal_name(by: StopSignal) -> &'static str {
    match by {
        StopSignal::Stop => "SIGSTOP",
        StopSignal::Keyboard => "SIGTSTP",
        StopSignal::Reading => "SIGTTIN",
        StopSignal::Writing => "SIGTTOU",
        StopSignal::Unknown => "unknown",
    }
}
