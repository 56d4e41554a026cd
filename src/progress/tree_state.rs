//! Classifies what a task's processes do while they print nothing, from one probe of all their
//! threads.
//!
//! The leaves decide the state of a tree. A thread that waits for another thread, a child or a pipe
//! within the task does not count; the strongest of the other threads decides, in the order of
//! [`Rank`]. If every thread waits for another one, no event can end the wait.
//!
//! Pure. Limits: one probe does not prove a deadlock; the caller must see for
//! [`QUIET_BEFORE_DEADLOCK`] that each [`Suspect`] does nothing. A pipe counts as internal until the
//! caller finds that a process outside the task holds its other end.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::wait::{
    Lock, Peer, ProcessName, ProcessWaits, SignalTimer, Signals, Thread, WaitSource,
};
use crate::text::foreign::{Foreign, Phrase};

/// The share of a core from which a tree that prints nothing counts as busy.
pub(crate) const BUSY_SHARE: f64 = 0.2;
/// The same if one of its threads is about to run at the probe.
pub(crate) const RUNNING_SHARE: f64 = 0.1;
/// How long threads that wait for each other must do nothing to count as a deadlock.
pub(crate) const QUIET_BEFORE_DEADLOCK: Duration = Duration::from_secs(10);
/// How long processes must be stuck below one that sleeps from time to time. It may look for their
/// end, or give them up, as a test runner with a time limit does.
pub(crate) const QUIET_BELOW_SLEEPER: Duration = Duration::from_secs(45);

/// What a task's processes do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum TreeState {
    Computing {
        /// The busiest process, if known.
        process: Option<ProcessName>,
        /// CPU time divided by time: 1.0 is one core.
        share: f64,
    },
    /// A process waits for the other end of a connection.
    Peer { process: ProcessName, peer: Peer },
    /// A process waits for a lock.
    Lock { process: ProcessName, lock: Lock },
    /// The task waits by design for an event that may or may not come.
    Idle { process: ProcessName, on: Idle },
    /// Every thread waits for another thread of the task.
    Deadlock {
        /// The process with the most waiting threads.
        process: ProcessName,
        threads: usize,
        /// How many processes of the task are involved.
        processes: usize,
        /// What the process waits for.
        cause: DeadEnd,
    },
    /// A thread does something else or is unreadable.
    Unknown,
}

/// What an idle task waits for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Idle {
    Timer,
    /// A connection request at this address.
    Listening(Phrase),
    /// A datagram or an event at this address.
    Datagrams(Phrase),
    /// A change in watched files; whether the same program reads the task's input as well.
    Files {
        accepts_keys: bool,
    },
    /// Data from this device.
    Device(Foreign),
    Signal,
    /// A key, on a screen that it redraws by itself.
    Screen,
}

/// Why no process of the task can end its wait.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum DeadEnd {
    /// Threads wait for each other.
    Threads,
    /// They wait for a pipe; the process of the task that holds its other end, if any does.
    Pipe(Option<ProcessName>),
    /// They wait for room in a pipe that is full; the process of the task that could read it.
    FullPipe(Option<ProcessName>),
    /// They wait for this FIFO, whose other end no process has open.
    Fifo(Foreign),
    /// They wait for input from the task's own output.
    OwnOutput,
    /// They wait for another process of the task, over a connection or in shared memory.
    Relative,
    /// They wait for this lock, which a process of the task holds, perhaps itself.
    Lock(Lock),
}

/// A [`TreeState`] without its details.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum TreeStateKind {
    /// See [`TreeState::Computing`].
    Computing,
    /// See [`TreeState::Peer`].
    Peer,
    /// See [`TreeState::Lock`].
    Lock,
    /// A lock for which the command itself says that it waits, trying again from time to time.
    NamedLock,
    /// See [`Idle::Timer`].
    Timer,
    /// See [`Idle::Screen`].
    Screen,
    /// Any other [`TreeState::Idle`].
    Idle,
    /// See [`TreeState::Deadlock`].
    Deadlock,
    /// See [`TreeState::Unknown`].
    Unknown,
}

impl TreeState {
    pub fn kind(&self) -> TreeStateKind {
        match self {
            TreeState::Computing { .. } => TreeStateKind::Computing,
            TreeState::Peer { .. } => TreeStateKind::Peer,
            TreeState::Lock { lock, .. } if lock.is_named_in_output => TreeStateKind::NamedLock,
            TreeState::Lock { .. } => TreeStateKind::Lock,
            TreeState::Idle { on: Idle::Timer, .. } => TreeStateKind::Timer,
            TreeState::Idle { on: Idle::Screen, .. } => TreeStateKind::Screen,
            TreeState::Idle { .. } => TreeStateKind::Idle,
            TreeState::Deadlock { .. } => TreeStateKind::Deadlock,
            TreeState::Unknown => TreeStateKind::Unknown,
        }
    }

    /// Whether it continues an earlier state, so that both are one wait.
    pub fn continues(&self, earlier: &TreeState) -> bool {
        match (self, earlier) {
            (TreeState::Computing { .. }, TreeState::Computing { .. })
            | (TreeState::Deadlock { .. }, TreeState::Deadlock { .. }) => true,
            _ => self == earlier,
        }
    }
}

/// How strongly a wait characterises its tree, the weakest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    /// A wait for another thread of the task.
    Internal,
    /// Either that, with attempts that end by themselves, or a timer: a Java machine's thread.
    Retrying,
    Unknown,
    Signal,
    Timer,
    Device,
    Datagrams,
    Files,
    Listening,
    Screen,
    Lock,
    Peer,
}

/// The judgement of a wait for another thread of the task.
const INTERNAL: (Rank, TreeState) = (Rank::Internal, TreeState::Unknown);
const UNKNOWN: (Rank, TreeState) = (Rank::Unknown, TreeState::Unknown);

/// What one probe of a tree shows.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Classification {
    /// What the tree does, unless every suspect is found to do nothing.
    pub(crate) state: TreeState,
    /// Whether no thread waits for anything outside the task: if every suspect does nothing, the
    /// tree is stuck.
    pub(crate) waits_for_itself: bool,
    /// Whether every leaf is a suspect, and what is above them waits for nothing but them and, from
    /// time to time, the end of a sleep.
    pub(crate) only_sleeps_above: bool,
    /// The leaves whose threads all wait for another thread of the task.
    pub(crate) suspects: Vec<Suspect>,
    /// The processes above them that have work of their own, which a suspect may wait for.
    above: Vec<Above>,
}

/// A process above a suspect.
#[derive(Debug, Clone, PartialEq)]
struct Above {
    process: ProcessName,
    /// Whether it waits for nothing but a child's end.
    awaits_child: bool,
}

impl Classification {
    /// The processes that must be followed to know whether the tree is stuck.
    pub(crate) fn to_follow(&self) -> Vec<i32> {
        let suspects = self.suspects.iter().map(|suspect| &suspect.process);
        suspects.chain(self.decisive_above()).map(|process| process.pid).collect()
    }

    /// Those above the suspects that decide too: what waits for a relative is not stuck while that
    /// does something from time to time, and one that waits for a child and has run has seen one
    /// end, which may have lived between two probes.
    fn decisive_above(&self) -> impl Iterator<Item = &ProcessName> {
        let each_alone = self.suspects.iter().all(Suspect::is_stuck_alone);
        let any = self.waits_for_itself && !each_alone;
        let above = self.above.iter().filter(move |above| any || above.awaits_child);
        above.map(|above| &above.process)
    }

    /// Whether all is stuck, by how long each of the processes [`Self::to_follow`] has done
    /// nothing.
    pub(crate) fn is_stuck(&self, still: &HashMap<i32, Duration>) -> bool {
        let all_for = |least: Duration| {
            let followed = self.to_follow();
            followed.iter().all(|pid| still.get(pid).is_some_and(|time| *time >= least))
        };
        let each_alone = || self.suspects.iter().all(|suspect| is_stuck_alone(suspect, still));
        self.waits_for_itself && all_for(QUIET_BEFORE_DEADLOCK)
            || self.only_sleeps_above && each_alone() && all_for(QUIET_BELOW_SLEEPER)
    }

    /// A process that is stuck in a tree that is not.
    pub(crate) fn stuck_part(&self, still: &HashMap<i32, Duration>) -> Option<&Suspect> {
        let mut suspects = self.suspects.iter().filter(|_| !self.waits_for_itself);
        suspects.find(|suspect| is_stuck_alone(suspect, still))
    }
}

fn is_stuck_alone(suspect: &Suspect, still: &HashMap<i32, Duration>) -> bool {
    let time = still.get(&suspect.process.pid);
    suspect.is_stuck_alone() && time.is_some_and(|time| *time >= QUIET_BEFORE_DEADLOCK)
}

/// A process without children whose threads all wait for another thread of the task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Suspect {
    pub(crate) process: ProcessName,
    pub(crate) threads: usize,
    pub(crate) cause: DeadEnd,
    /// The pipes or FIFOs that it waits for, by their names.
    pub(crate) pipes: Vec<String>,
    /// The shared memory that it waits in; see [`WaitSource::SharedFutex`].
    pub(crate) memory: Vec<String>,
}

impl Suspect {
    /// Whether it is stuck whatever the other processes of the task do.
    fn is_stuck_alone(&self) -> bool {
        match &self.cause {
            DeadEnd::Threads => self.threads > 1,
            DeadEnd::Fifo(_) | DeadEnd::OwnOutput => true,
            DeadEnd::Pipe(_) | DeadEnd::FullPipe(_) | DeadEnd::Relative | DeadEnd::Lock(_) => false,
        }
    }

    /// Its state, once it is found to do nothing.
    pub(crate) fn deadlock(&self, processes: usize) -> TreeState {
        TreeState::Deadlock {
            process: self.process.clone(),
            threads: self.threads,
            processes,
            cause: self.cause.clone(),
        }
    }
}

/// Classifies one probe of the processes; `None` if it contains none.
///
/// Other modules judge waits for input and stopped processes, which outrank this state. A wait for
/// input without a question is [`Idle::Screen`].
pub(crate) fn classify(tree: &[ProcessWaits]) -> Option<Classification> {
    let found = classify_with(tree, &HashSet::new())?;
    if found.state.kind() != TreeStateKind::Lock {
        return Some(found);
    }
    // A lock that a process of the tree holds, which itself waits for others, is never released.
    let own = tree.iter().filter(|waits| !waits.stopped).map(|waits| waits.process.pid).collect();
    let behind = classify_with(tree, &own)?;
    Some(if behind.waits_for_itself {
        Classification { state: found.state, ..behind }
    } else {
        found
    })
}

/// The same, where waits for locks that these processes hold are waits within the tree.
fn classify_with(tree: &[ProcessWaits], holders: &HashSet<i32>) -> Option<Classification> {
    let parents: HashSet<i32> = tree.iter().map(|waits| waits.parent).collect();
    let mut strongest: Option<(Rank, TreeState)> = None;
    let (mut suspects, mut above) = (Vec::new(), Vec::new());
    let mut only_sleeps_above = true;
    // One without threads has ended since the processes were listed, and may have been a leaf that
    // was about to do something.
    let mut all_seen = true;
    for waits in tree.iter().filter(|waits| !waits.stopped) {
        let has_children = parents.contains(&waits.process.pid);
        let waits = if holders.is_empty() {
            Cow::Borrowed(waits)
        } else {
            Cow::Owned(without_locks_of(waits, holders))
        };
        let waits = waits.as_ref();
        let Some(judged) = judge_process(waits, has_children) else {
            all_seen = false;
            continue;
        };
        let is_suspect = !has_children && judged.0 < Rank::Unknown;
        if is_suspect {
            suspects.push(suspect(waits));
        } else if has_children && !is_launcher(waits) {
            let awaits_child = matches!(
                waits.threads.as_slice(),
                [Thread::In(WaitSource::Suspension | WaitSource::Child)]
            );
            above.push(Above { process: waits.process.clone(), awaits_child });
        }
        only_sleeps_above &=
            is_suspect || has_children && judged.0 <= Rank::Timer && judged.0 != Rank::Unknown;
        if strongest.as_ref().is_none_or(|(rank, _)| judged.0 > *rank) {
            strongest = Some(judged);
        }
    }
    let (rank, state) = strongest?;
    let any_stopped = tree.iter().any(|waits| waits.stopped);
    let may_be_stuck = all_seen && !any_stopped && !suspects.is_empty();
    let waits_for_itself = rank < Rank::Unknown && may_be_stuck;
    only_sleeps_above &= may_be_stuck;
    Some(Classification { state, waits_for_itself, only_sleeps_above, suspects, above })
}

/// A process whose waits for locks that these processes hold are waits within the tree.
fn without_locks_of(waits: &ProcessWaits, holders: &HashSet<i32>) -> ProcessWaits {
    let mut waits = waits.clone();
    for thread in &mut waits.threads {
        if let Thread::In(WaitSource::Lock(lock)) = thread
            && lock.holder.as_ref().is_some_and(|it| holders.contains(&it.process.pid))
        {
            *thread = Thread::In(WaitSource::RelativesLock(lock.clone()));
        }
    }
    waits
}

/// The suspect that shows best why a tree is stuck.
pub(crate) fn culprit(suspects: &[Suspect]) -> Option<&Suspect> {
    let clarity = |suspect: &&Suspect| {
        let clear = match suspect.cause {
            DeadEnd::Fifo(_) => 4,
            DeadEnd::OwnOutput => 3,
            DeadEnd::FullPipe(_) | DeadEnd::Lock(_) => 2,
            DeadEnd::Pipe(_) => 1,
            DeadEnd::Threads | DeadEnd::Relative => 0,
        };
        (clear, suspect.threads)
    };
    suspects.iter().max_by_key(clarity)
}

/// Judges a process by its threads; `None` if it has none.
fn judge_process(waits: &ProcessWaits, has_children: bool) -> Option<(Rank, TreeState)> {
    let threads = waits.threads.iter().map(|thread| judge(waits, thread, has_children));
    let strongest = threads.max_by_key(|(rank, _)| *rank)?;
    if strongest.0 == Rank::Internal && !has_children {
        // No timer makes input come.
        let ends = match waits.timer {
            Some(SignalTimer::Ends) => true,
            Some(SignalTimer::Wakes) => !awaits_own_output(waits),
            None => false,
        };
        if ends {
            return Some(idle(waits, Rank::Timer, Idle::Timer));
        }
        match waits.signals {
            Signals::Handled => return Some(idle(waits, Rank::Signal, Idle::Signal)),
            Signals::Unknown => return Some(UNKNOWN),
            Signals::None => {}
        }
    }
    Some(strongest)
}

/// Judges one thread.
fn judge(waits: &ProcessWaits, thread: &Thread, has_children: bool) -> (Rank, TreeState) {
    match thread {
        Thread::Running | Thread::Polls | Thread::Unreadable => UNKNOWN,
        Thread::In(source) => judge_source(waits, source, has_children),
        thread if waits.counts_retries && thread.is_timed_futex() => {
            idle(waits, Rank::Retrying, Idle::Timer)
        }
        Thread::Waits { on, timed } => judge_set(waits, on, *timed, has_children),
    }
}

/// Judges a wait for several things, which shows the purpose of its process: a process that accepts
/// connections is a server, whatever connections it has. A time limit only matters if nothing else
/// does.
fn judge_set(
    waits: &ProcessWaits,
    on: &[WaitSource],
    timed: bool,
    has_children: bool,
) -> (Rank, TreeState) {
    let serves =
        |source: &&WaitSource| matches!(source, WaitSource::Listener(_) | WaitSource::Files);
    let server = on.iter().filter(serves).min_by_key(|source| match source {
        WaitSource::Listener(_) => 0,
        _ => 1,
    });
    if let Some(source) = server {
        return judge_source(waits, source, has_children);
    }
    // For a program that relays input to a second terminal, the processes at that terminal decide.
    let relays = on.iter().any(|source| matches!(source, WaitSource::Master(_)));
    let counts = |source: &&WaitSource| match source {
        WaitSource::Master(_) => false,
        WaitSource::Input => !relays,
        // An event loop watches its own program's signals, which say nothing of others'.
        WaitSource::Signal => !has_children,
        _ => true,
    };
    let strongest = on
        .iter()
        .filter(counts)
        .map(|source| judge_source(waits, source, has_children))
        .max_by_key(|(rank, _)| *rank);
    match strongest {
        Some(judged) if judged.0 > Rank::Timer => judged,
        _ if timed && has_children && is_launcher(waits) => INTERNAL,
        _ if timed => idle(waits, Rank::Timer, Idle::Timer),
        _ if relays && on.contains(&WaitSource::Input) => UNKNOWN,
        Some(judged) => judged,
        // An empty wait without a time limit, as of `select` without descriptors.
        None if on.is_empty() && !has_children => idle(waits, Rank::Signal, Idle::Signal),
        None => INTERNAL,
    }
}

fn judge_source(
    waits: &ProcessWaits,
    source: &WaitSource,
    has_children: bool,
) -> (Rank, TreeState) {
    let process = waits.process.clone();
    match source.clone() {
        WaitSource::Peer(_) if has_children && is_launcher(waits) => INTERNAL,
        WaitSource::Peer(peer) => (Rank::Peer, TreeState::Peer { process, peer }),
        WaitSource::Lock(lock) => (Rank::Lock, TreeState::Lock { process, lock }),
        WaitSource::Listener(at) => idle(waits, Rank::Listening, Idle::Listening(at)),
        WaitSource::Datagrams(at) => idle(waits, Rank::Datagrams, Idle::Datagrams(at)),
        WaitSource::Files => {
            let accepts_keys = waits.accepts_input();
            idle(waits, Rank::Files, Idle::Files { accepts_keys })
        }
        WaitSource::Device(path) => idle(waits, Rank::Device, Idle::Device(path)),
        WaitSource::Input => idle(waits, Rank::Screen, Idle::Screen),
        WaitSource::Timer => idle(waits, Rank::Timer, Idle::Timer),
        // No timer makes input come.
        WaitSource::TimerThread if awaits_own_output(waits) => INTERNAL,
        WaitSource::TimerThread => idle(waits, Rank::Timer, Idle::Timer),
        // A process that waits for a signal while it has children waits for their end.
        WaitSource::Suspension | WaitSource::Signal if has_children => INTERNAL,
        WaitSource::Suspension | WaitSource::Signal => idle(waits, Rank::Signal, Idle::Signal),
        // Invisible children may do anything.
        WaitSource::Child if !has_children => UNKNOWN,
        WaitSource::Child
        | WaitSource::Futex
        | WaitSource::SharedFutex(_)
        | WaitSource::OwnProcess
        | WaitSource::OwnOutput
        | WaitSource::Relative
        | WaitSource::RelativesLock(_)
        | WaitSource::Pipe(_)
        | WaitSource::PipeRoom(_)
        | WaitSource::FifoOpening(_)
        | WaitSource::Master(_) => INTERNAL,
        // The master end may be anywhere. A request from outside may come to a server as well.
        WaitSource::OtherTerminal(_) | WaitSource::BusyListener | WaitSource::Other(_) => UNKNOWN,
    }
}

/// Programs that start another one and have nothing else to do until it ends, by the beginnings of
/// their names. Their timers and connections, such as those of a look for a newer version of
/// themselves, mean nothing meanwhile.
const LAUNCHERS: [&str; 5] = ["npm", "npx", "pnpm", "pnpx", "yarn"];

fn is_launcher(waits: &ProcessWaits) -> bool {
    LAUNCHERS.iter().any(|name| waits.process.name.raw().starts_with(name))
}

fn awaits_own_output(waits: &ProcessWaits) -> bool {
    waits.threads.iter().any(|thread| match thread {
        Thread::In(source) => *source == WaitSource::OwnOutput,
        Thread::Waits { on, .. } => on.contains(&WaitSource::OwnOutput),
        Thread::Running | Thread::Polls | Thread::Unreadable => false,
    })
}

fn idle(waits: &ProcessWaits, rank: Rank, on: Idle) -> (Rank, TreeState) {
    let process = waits.process.clone();
    (rank, TreeState::Idle { process, on })
}

fn suspect(waits: &ProcessWaits) -> Suspect {
    let mut suspect = Suspect {
        process: waits.process.clone(),
        threads: waits.threads.len(),
        cause: DeadEnd::Threads,
        pipes: Vec::new(),
        memory: Vec::new(),
    };
    for thread in &waits.threads {
        let sources = match thread {
            Thread::In(source) => std::slice::from_ref(source),
            Thread::Waits { on, .. } => on.as_slice(),
            Thread::Running | Thread::Polls | Thread::Unreadable => &[],
        };
        for source in sources {
            let cause = match source {
                WaitSource::FifoOpening(path) => DeadEnd::Fifo(path.clone()),
                WaitSource::OwnOutput => DeadEnd::OwnOutput,
                WaitSource::PipeRoom(_) => DeadEnd::FullPipe(None),
                WaitSource::Pipe(_) => DeadEnd::Pipe(None),
                WaitSource::Relative | WaitSource::SharedFutex(_) => DeadEnd::Relative,
                WaitSource::RelativesLock(lock) => DeadEnd::Lock(lock.clone()),
                _ => DeadEnd::Threads,
            };
            if let WaitSource::SharedFutex(memory) = source {
                suspect.memory.push(memory.clone());
            }
            if let WaitSource::Pipe(name) | WaitSource::PipeRoom(name) = source {
                suspect.pipes.push(name.clone());
            }
            // The first pipe of a process is the one to name.
            if matches!(suspect.cause, DeadEnd::Threads) {
                suspect.cause = cause;
            }
        }
    }
    suspect
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::progress::wait::Holder;

    fn reader(pid: i32, name: &str) -> ProcessName {
        ProcessName { pid, name: name.into() }
    }

    fn process(pid: i32, parent: i32, threads: &[Thread]) -> ProcessWaits {
        ProcessWaits {
            process: reader(pid, "p"),
            parent,
            stopped: false,
            signals: Signals::None,
            timer: None,
            counts_retries: false,
            threads: threads.to_vec(),
        }
    }

    /// What a tree does if every suspect has done nothing for long.
    fn state_of(tree: &[ProcessWaits]) -> Option<TreeState> {
        let found = classify(tree)?;
        if found.waits_for_itself {
            return culprit(&found.suspects).map(|it| it.deadlock(found.suspects.len()));
        }
        Some(found.state)
    }

    fn shell() -> ProcessWaits {
        process(1, 0, &[Thread::In(WaitSource::Suspension)])
    }

    /// A shell that waits for its child, the process under test.
    fn below_a_shell(threads: &[Thread]) -> Option<TreeState> {
        state_of(&[shell(), process(2, 1, threads)])
    }

    fn set(on: &[WaitSource], timed: bool) -> Thread {
        Thread::Waits { on: on.to_vec(), timed }
    }

    fn kind_of(threads: &[Thread]) -> Option<TreeStateKind> {
        below_a_shell(threads).map(|tree_state| tree_state.kind())
    }

    fn idle_on(threads: &[Thread]) -> Option<Idle> {
        match below_a_shell(threads) {
            Some(TreeState::Idle { on, .. }) => Some(on),
            _ => None,
        }
    }

    fn peer() -> WaitSource {
        WaitSource::Peer(Peer::Network("127.0.0.1:5432".into()))
    }

    fn lock() -> WaitSource {
        WaitSource::Lock(Lock::new("/tmp/lock", None))
    }

    fn port() -> WaitSource {
        WaitSource::Listener("port 3000".into())
    }

    #[test]
    fn every_wait_has_its_state() {
        let listening = Idle::Listening("port 3000".into());
        let pipe = || WaitSource::Pipe("pipe:[1]".to_owned());
        let rows: &[(&[Thread], Option<Idle>)] = &[
            (&[set(&[], true)], Some(Idle::Timer)),
            (&[set(&[WaitSource::Futex], true)], Some(Idle::Timer)),
            (&[set(&[pipe(), WaitSource::OwnProcess], true)], Some(Idle::Timer)),
            (&[set(&[WaitSource::Timer], false)], Some(Idle::Timer)),
            (&[Thread::In(port())], Some(listening.clone())),
            (&[set(&[peer(), port(), WaitSource::Input], true)], Some(listening)),
            (
                &[set(&[WaitSource::Files, WaitSource::Input], false)],
                Some(Idle::Files { accepts_keys: true }),
            ),
            (&[set(&[WaitSource::Files], false)], Some(Idle::Files { accepts_keys: false })),
            (&[Thread::In(WaitSource::Signal)], Some(Idle::Signal)),
            (&[Thread::In(WaitSource::Suspension)], Some(Idle::Signal)),
            (&[set(&[], false)], Some(Idle::Signal)),
            (&[set(&[WaitSource::OwnProcess], false)], None),
            (
                &[Thread::In(WaitSource::Device("/dev/kmsg".into()))],
                Some(Idle::Device("/dev/kmsg".into())),
            ),
            (&[Thread::In(WaitSource::TimerThread)], Some(Idle::Timer)),
            // pexpect while its child prints nothing.
            (&[set(&[WaitSource::Master(Some(1))], true)], Some(Idle::Timer)),
            // A terminal server.
            (
                &[set(&[WaitSource::Master(Some(1)), port()], false)],
                Some(Idle::Listening("port 3000".into())),
            ),
            (&[set(&[WaitSource::Input], true)], Some(Idle::Screen)),
            (&[Thread::In(pipe())], None),
        ];
        for (threads, on) in rows {
            assert_eq!(idle_on(threads), *on, "{threads:?}");
        }
        assert_eq!(kind_of(&[set(&[peer()], true)]), Some(TreeStateKind::Peer));
        assert_eq!(kind_of(&[Thread::In(lock())]), Some(TreeStateKind::Lock));
        assert_eq!(kind_of(&[Thread::Running]), Some(TreeStateKind::Unknown));
        assert_eq!(kind_of(&[Thread::Unreadable]), Some(TreeStateKind::Unknown));
        assert_eq!(classify(&[]), None);
        assert_eq!(classify(&[process(1, 0, &[])]), None);
    }

    #[test]
    fn a_wait_for_a_signal_above_a_child_is_a_wait_for_the_child() {
        for above in [
            Thread::In(WaitSource::Signal),
            set(&[WaitSource::Signal, WaitSource::OwnProcess], false),
            set(&[], false),
        ] {
            let tree =
                |below| [process(1, 0, std::slice::from_ref(&above)), process(2, 1, &[below])];
            let sleeps = state_of(&tree(set(&[], true))).map(|it| it.kind());
            assert_eq!(sleeps, Some(TreeStateKind::Timer), "{above:?}");
            let opens = Thread::In(WaitSource::FifoOpening("/tmp/go".into()));
            let stuck = state_of(&tree(opens)).map(|it| it.kind());
            assert_eq!(stuck, Some(TreeStateKind::Deadlock), "{above:?}");
        }
    }

    #[test]
    fn a_process_that_handles_signals_waits_for_one_unless_it_has_children() {
        let handles = |pid, parent| ProcessWaits {
            signals: Signals::Handled,
            ..process(pid, parent, &[set(&[WaitSource::OwnProcess], false)])
        };
        let kind = |tree: &[ProcessWaits]| state_of(tree).map(|it| it.kind());
        assert_eq!(kind(&[shell(), handles(2, 1)]), Some(TreeStateKind::Idle));
        let child = process(3, 2, &[Thread::In(WaitSource::Futex)]);
        assert_eq!(kind(&[shell(), handles(2, 1), child]), Some(TreeStateKind::Deadlock));
    }

    #[test]
    fn threads_that_try_again_and_again_are_suspects_and_sleep_until_that_is_proved() {
        let tries = set(&[WaitSource::Futex], true);
        let java = ProcessWaits { counts_retries: true, ..process(2, 1, &[tries.clone(), tries]) };
        let found = classify(&[shell(), java.clone()]).expect("a tree");
        assert!(found.waits_for_itself);
        assert_eq!(found.state.kind(), TreeStateKind::Timer);
        let sleeps = process(3, 1, &[set(&[], true)]);
        let found = classify(&[shell(), java, sleeps]).expect("a tree");
        assert!(!found.waits_for_itself);
        assert_eq!(found.suspects.len(), 1);
        assert!(found.suspects[0].is_stuck_alone());
    }

    #[test]
    fn a_suspect_beside_others_that_work_is_stuck_alone_or_not_at_all() {
        let works = process(3, 1, &[set(&[], true)]);
        for (thread, alone) in [
            (Thread::In(WaitSource::FifoOpening("/tmp/go".into())), true),
            (set(&[WaitSource::OwnOutput], false), true),
            (Thread::In(WaitSource::Pipe("pipe:[1]".to_owned())), false),
            (Thread::In(WaitSource::PipeRoom("pipe:[1]".to_owned())), false),
            (Thread::In(WaitSource::Futex), false),
        ] {
            let tree = [shell(), works.clone(), process(2, 1, std::slice::from_ref(&thread))];
            let found = classify(&tree).expect("a tree");
            assert!(!found.waits_for_itself, "{thread:?}");
            assert_eq!(found.suspects[0].is_stuck_alone(), alone, "{thread:?}");
        }
    }

    #[test]
    fn what_waits_for_a_relative_is_stuck_only_if_those_above_do_nothing() {
        // A machine that starts slowly, and its parent that talks to it.
        let parent = process(2, 1, &[Thread::In(WaitSource::Relative)]);
        let opens = Thread::In(WaitSource::FifoOpening("/tmp/go".into()));
        for (thread, depends) in [(Thread::In(WaitSource::Relative), true), (opens, false)] {
            let tree = [shell(), parent.clone(), process(3, 2, std::slice::from_ref(&thread))];
            let found = classify(&tree).expect("a tree");
            let still = |parent: u64| {
                let times = [(1, 60), (2, parent), (3, 60)];
                times.map(|(pid, time)| (pid, Duration::from_secs(time))).into()
            };
            assert!(found.is_stuck(&still(10)), "{thread:?}");
            assert_eq!(found.is_stuck(&still(9)), !depends, "{thread:?}");
        }
        // A shell that runs short commands beside it.
        let stuck = process(2, 1, &[Thread::In(WaitSource::FifoOpening("/tmp/go".into()))]);
        let found = classify(&[shell(), stuck]).expect("a tree");
        let still = |shell: u64| {
            [(1, shell), (2, 600)].map(|(pid, time)| (pid, Duration::from_secs(time))).into()
        };
        assert!(found.is_stuck(&still(10)) && !found.is_stuck(&still(9)));
        // A launcher has nothing to do but wait.
        let npm = ProcessWaits { process: reader(2, "npm run test"), ..parent };
        let tree = [shell(), npm, process(3, 2, &[Thread::In(WaitSource::Futex)])];
        assert_eq!(classify(&tree).expect("a tree").to_follow(), [3, 1]);
    }

    #[test]
    fn a_timer_that_sends_a_signal_may_end_a_wait() {
        let with = |timer, source: WaitSource| {
            let leaf = ProcessWaits {
                timer: Some(timer),
                ..process(2, 1, &[set(std::slice::from_ref(&source), false)])
            };
            let found = classify(&[shell(), leaf]).expect("a tree");
            (found.state.kind(), found.suspects.len())
        };
        let pipe = || WaitSource::Pipe("pipe:[1]".to_owned());
        let timer = (TreeStateKind::Timer, 0);
        assert_eq!(with(SignalTimer::Ends, pipe()), timer);
        assert_eq!(with(SignalTimer::Wakes, pipe()), timer);
        assert_eq!(with(SignalTimer::Ends, WaitSource::OwnOutput), timer);
        // No handler makes input come.
        assert_eq!(with(SignalTimer::Wakes, WaitSource::OwnOutput), (TreeStateKind::Unknown, 1));
    }

    #[test]
    fn a_server_whose_client_of_the_task_waits_does_not_wait_by_design() {
        let busy = || WaitSource::BusyListener;
        let kind = |threads: &[Thread]| kind_of(threads);
        let unknown = Some(TreeStateKind::Unknown);
        assert_eq!(kind(&[Thread::In(busy())]), unknown);
        assert_eq!(kind(&[set(&[busy(), WaitSource::Relative], false)]), unknown);
        let handles = Thread::In(WaitSource::Futex);
        assert_eq!(kind(&[Thread::In(busy()), handles.clone()]), unknown);
        assert_eq!(kind(&[Thread::Polls, handles]), unknown);
        for sleeps in [set(&[], true), set(&[busy(), WaitSource::OwnProcess], true)] {
            assert_eq!(kind(&[Thread::In(busy()), sleeps]), Some(TreeStateKind::Timer));
        }
    }

    #[test]
    fn what_a_runtime_hides_of_signals_is_neither_a_wait_by_design_nor_a_deadlock() {
        let hides = ProcessWaits {
            signals: Signals::Unknown,
            ..process(2, 1, &[set(&[WaitSource::OwnProcess], false)])
        };
        assert_eq!(state_of(&[shell(), hides]), Some(TreeState::Unknown));
    }

    #[test]
    fn a_lock_that_its_holder_waits_for_is_a_deadlock_with_its_name() {
        let holder = Holder { process: reader(2, "p"), task: None, stopped: false };
        let lock = Lock::new("/tmp/lock", Some(holder));
        match below_a_shell(&[Thread::In(WaitSource::Lock(lock.clone()))]) {
            Some(TreeState::Deadlock { cause: DeadEnd::Lock(found), .. }) => {
                assert_eq!(found, lock);
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn memory_that_is_shared_is_named_by_its_suspect() {
        let waits = Thread::In(WaitSource::SharedFutex("00:1a 6".to_owned()));
        let found = classify(&[shell(), process(2, 1, &[waits])]).expect("a tree");
        assert_eq!(found.suspects[0].memory, ["00:1a 6"]);
        assert_eq!(found.suspects[0].cause, DeadEnd::Relative);
    }

    #[test]
    fn locks_that_are_held_in_turn_are_a_deadlock() {
        let lock_of = |pid| {
            let process = reader(pid, "p");
            let holder = Some(Holder { process, task: None, stopped: false });
            Thread::In(WaitSource::Lock(Lock::new("/tmp/lock", holder)))
        };
        let kind = |tree: &[ProcessWaits]| state_of(tree).map(|it| it.kind());
        let in_turn = [shell(), process(2, 1, &[lock_of(3)]), process(3, 1, &[lock_of(2)])];
        assert_eq!(kind(&in_turn), Some(TreeStateKind::Deadlock));
        let works = [shell(), process(2, 1, &[lock_of(3)]), process(3, 1, &[set(&[], true)])];
        assert_eq!(kind(&works), Some(TreeStateKind::Lock));
        let elsewhere = [shell(), process(2, 1, &[lock_of(77)])];
        assert_eq!(kind(&elsewhere), Some(TreeStateKind::Lock));
    }

    #[test]
    fn a_program_that_reads_its_own_output_waits_for_nothing() {
        let reads = set(&[WaitSource::OwnOutput], false);
        let helper = Thread::In(WaitSource::TimerThread);
        let found = below_a_shell(&[reads, helper]);
        let own = |found: &TreeState| {
            matches!(found, TreeState::Deadlock { cause: DeadEnd::OwnOutput, .. })
        };
        assert!(found.as_ref().is_some_and(own), "{found:?}");
    }

    #[test]
    fn a_package_managers_own_connection_does_not_count_above_its_script() {
        let npm = |pid| ProcessWaits {
            process: reader(pid, "npm run build"),
            ..process(pid, 1, &[set(&[peer(), WaitSource::OwnProcess], false)])
        };
        let script = process(3, 2, &[Thread::In(WaitSource::FifoOpening("/tmp/go".into()))]);
        let kind = |tree: &[ProcessWaits]| state_of(tree).map(|it| it.kind());
        assert_eq!(kind(&[shell(), npm(2), script]), Some(TreeStateKind::Deadlock));
        assert_eq!(kind(&[shell(), npm(2)]), Some(TreeStateKind::Peer));
        let sleeps = ProcessWaits { threads: vec![set(&[], true)], ..npm(2) };
        let script = process(3, 2, &[Thread::In(WaitSource::FifoOpening("/tmp/go".into()))]);
        assert_eq!(kind(&[shell(), sleeps.clone(), script]), Some(TreeStateKind::Deadlock));
        assert_eq!(kind(&[shell(), sleeps]), Some(TreeStateKind::Timer));
    }

    #[test]
    fn a_relay_has_the_state_of_the_processes_behind_it() {
        let relays =
            set(&[WaitSource::Input, WaitSource::Master(Some(1)), WaitSource::Signal], false);
        let tree = |behind: Thread| {
            state_of(&[process(1, 0, std::slice::from_ref(&relays)), process(2, 1, &[behind])])
        };
        let sleeps = tree(set(&[], true)).map(|it| it.kind());
        assert_eq!(sleeps, Some(TreeStateKind::Timer));
        let reads = tree(Thread::In(WaitSource::OtherTerminal(Some(1))));
        assert_eq!(reads, Some(TreeState::Unknown));
        let expects = set(&[WaitSource::Master(Some(1))], false);
        assert_eq!(kind_of(&[expects]), Some(TreeStateKind::Deadlock));
    }

    #[test]
    fn one_thread_that_may_continue_prevents_a_deadlock() {
        let futex = Thread::In(WaitSource::Futex);
        let deadlock = Some(TreeStateKind::Deadlock);
        assert_eq!(kind_of(&[futex.clone(), futex.clone()]), deadlock);
        for other in [
            Thread::Running,
            Thread::Unreadable,
            set(&[], true),
            Thread::In(peer()),
            Thread::In(WaitSource::Other("call 1".to_owned())),
        ] {
            assert_ne!(kind_of(&[futex.clone(), other.clone()]), deadlock, "{other:?}");
        }
        let mut stopped = process(3, 2, &[Thread::In(WaitSource::Input)]);
        stopped.stopped = true;
        let tree = [process(2, 1, &[futex]), stopped];
        assert_eq!(state_of(&tree), Some(TreeState::Unknown));
    }

    #[test]
    fn what_the_look_has_missed_prevents_a_deadlock() {
        let stuck = process(2, 1, &[Thread::In(WaitSource::FifoOpening("f".into()))]);
        let tree = |other: ProcessWaits| classify(&[shell(), stuck.clone(), other]);
        let found = tree(process(3, 1, &[])).expect("a classification");
        assert!(!found.waits_for_itself && !found.only_sleeps_above, "one has ended");
        // A parent in a call of which nothing is known.
        let call = Thread::In(WaitSource::Other("system call 208".into()));
        let above = [shell(), process(3, 1, &[call]), process(4, 3, &stuck.threads)];
        let found = classify(&above).expect("a classification");
        assert!(!found.waits_for_itself && !found.only_sleeps_above, "{found:?}");
    }

    #[test]
    fn a_deadlock_names_the_process_and_the_cause() {
        let futex = Thread::In(WaitSource::Futex);
        let found = below_a_shell(&[futex.clone(), futex]);
        let expected = TreeState::Deadlock {
            process: reader(2, "p"),
            threads: 2,
            processes: 1,
            cause: DeadEnd::Threads,
        };
        assert_eq!(found, Some(expected));
        let opens = Thread::In(WaitSource::FifoOpening("/tmp/go".into()));
        let cause = |threads: &[Thread]| match below_a_shell(threads) {
            Some(TreeState::Deadlock { cause, .. }) => Some(cause),
            _ => None,
        };
        assert_eq!(cause(&[opens]), Some(DeadEnd::Fifo("/tmp/go".into())));
        let reads = Thread::In(WaitSource::Pipe("pipe:[1]".to_owned()));
        assert_eq!(cause(std::slice::from_ref(&reads)), Some(DeadEnd::Pipe(None)));
        let suspects = classify(&[process(1, 0, &[reads])]).map(|found| found.suspects);
        assert_eq!(suspects.expect("a tree")[0].pipes, ["pipe:[1]"]);
    }

    #[test]
    fn a_shell_waits_for_its_child_or_for_a_signal() {
        let alone = state_of(&[shell()]);
        assert_eq!(alone.map(|it| it.kind()), Some(TreeStateKind::Idle));
        let hidden = state_of(&[process(1, 0, &[Thread::In(WaitSource::Child)])]);
        assert_eq!(hidden, Some(TreeState::Unknown));
    }

    #[test]
    fn the_strongest_leaf_decides() {
        let order = [
            set(&[], true),
            Thread::In(WaitSource::Files),
            Thread::In(port()),
            Thread::In(lock()),
            Thread::In(peer()),
        ];
        for (place, stronger) in order.iter().enumerate().skip(1) {
            let tree = [
                process(1, 0, &[Thread::In(WaitSource::Suspension)]),
                process(2, 1, std::slice::from_ref(&order[place - 1])),
                process(3, 1, std::slice::from_ref(stronger)),
            ];
            let alone = below_a_shell(std::slice::from_ref(stronger)).map(|it| it.kind());
            assert_eq!(state_of(&tree).map(|it| it.kind()), alone, "{stronger:?}");
        }
    }
}
