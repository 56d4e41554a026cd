//! Classifies what a task's processes do while they print nothing, from one probe of all their
//! threads.
//!
//! The leaves decide the state of a tree. A thread that waits for another thread, a child or a pipe
//! within the task does not count; the strongest of the other threads decides, in the order of
//! [`Rank`]. If every thread waits for another one, no event can end the wait.
//!
//! Pure. Limits: one probe does not prove a deadlock; the caller must see [`QUIET_BEFORE_DEADLOCK`]
//! without any work. A pipe counts as internal until the caller finds that a process outside the
//! task holds its other end.

use std::collections::HashSet;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::wait::{Lock, Peer, ProcessName, ProcessWaits, Thread, WaitSource};

/// The share of a core from which a tree that prints nothing counts as busy.
pub(crate) const BUSY_SHARE: f64 = 0.2;
/// How long threads that wait for each other must use no CPU time, I/O or output to count as a
/// deadlock.
pub(crate) const QUIET_BEFORE_DEADLOCK: Duration = Duration::from_secs(10);

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
    Listening(String),
    /// A datagram or an event at this address.
    Datagrams(String),
    /// A change in watched files.
    Files,
    Signal,
    /// A key, on a screen that it redraws by itself.
    Screen,
}

/// Why no process of the task can end its wait.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum DeadEnd {
    /// Threads wait for each other.
    Threads,
    /// They wait for a pipe whose other end no other process holds.
    Pipe,
    /// They wait for this FIFO, whose other end no process has open.
    Fifo(String),
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
    Unknown,
    Signal,
    Timer,
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

/// Classifies one probe of the processes; `None` if it contains none.
///
/// Other modules judge waits for input and stopped processes, which outrank this state. A wait for
/// input without a question is [`Idle::Screen`].
pub(crate) fn classify(tree: &[ProcessWaits]) -> Option<TreeState> {
    let parents: HashSet<i32> = tree.iter().map(|waits| waits.parent).collect();
    let mut strongest: Option<(Rank, TreeState)> = None;
    for waits in tree.iter().filter(|waits| !waits.stopped) {
        let has_children = parents.contains(&waits.process.pid);
        for thread in &waits.threads {
            let judged = judge(waits, thread, has_children);
            if strongest.as_ref().is_none_or(|(rank, _)| judged.0 > *rank) {
                strongest = Some(judged);
            }
        }
    }
    let (rank, tree_state) = strongest?;
    if rank > Rank::Internal {
        return Some(tree_state);
    }
    let any_stopped = tree.iter().any(|waits| waits.stopped);
    let found = (!any_stopped).then(|| deadlock(tree)).flatten();
    Some(found.unwrap_or(TreeState::Unknown))
}

/// The names of the pipes for which threads wait. There is no deadlock if a process outside the
/// tree holds one of them.
pub(crate) fn pipes(tree: &[ProcessWaits]) -> HashSet<&str> {
    let threads = tree.iter().flat_map(|waits| &waits.threads);
    let sources = threads.flat_map(|thread| match thread {
        Thread::In(source) => std::slice::from_ref(source),
        Thread::Waits { on, .. } => on.as_slice(),
        Thread::Running | Thread::Unreadable => &[],
    });
    sources
        .filter_map(|source| match source {
            WaitSource::Pipe(name) => Some(name.as_str()),
            _ => None,
        })
        .collect()
}

/// Judges one thread.
fn judge(waits: &ProcessWaits, thread: &Thread, has_children: bool) -> (Rank, TreeState) {
    match thread {
        Thread::Running | Thread::Unreadable => UNKNOWN,
        Thread::In(source) => judge_source(waits, source, has_children),
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
        _ => true,
    };
    let strongest = on
        .iter()
        .filter(counts)
        .map(|source| judge_source(waits, source, has_children))
        .max_by_key(|(rank, _)| *rank);
    // Only a signal handler or another thread can wake an event loop that watches nothing else, or
    // an empty wait without a time limit.
    let wakes_itself =
        |source: &WaitSource| matches!(source, WaitSource::OwnProcess | WaitSource::Futex);
    match strongest {
        Some(judged) if judged.0 > Rank::Timer => judged,
        _ if timed => idle(waits, Rank::Timer, Idle::Timer),
        _ if relays && on.contains(&WaitSource::Input) => UNKNOWN,
        _ if relays => INTERNAL,
        _ if on.iter().all(wakes_itself) => idle(waits, Rank::Signal, Idle::Signal),
        Some(judged) => judged,
        None => idle(waits, Rank::Signal, Idle::Signal),
    }
}

fn judge_source(
    waits: &ProcessWaits,
    source: &WaitSource,
    has_children: bool,
) -> (Rank, TreeState) {
    let process = waits.process.clone();
    match source.clone() {
        WaitSource::Peer(peer) => (Rank::Peer, TreeState::Peer { process, peer }),
        WaitSource::Lock(lock) => (Rank::Lock, TreeState::Lock { process, lock }),
        WaitSource::Listener(at) => idle(waits, Rank::Listening, Idle::Listening(at)),
        WaitSource::Datagrams(at) => idle(waits, Rank::Datagrams, Idle::Datagrams(at)),
        WaitSource::Files => idle(waits, Rank::Files, Idle::Files),
        WaitSource::Input => idle(waits, Rank::Screen, Idle::Screen),
        WaitSource::Timer => idle(waits, Rank::Timer, Idle::Timer),
        WaitSource::Suspension if has_children => INTERNAL,
        WaitSource::Suspension | WaitSource::Signal => idle(waits, Rank::Signal, Idle::Signal),
        // Invisible children may do anything.
        WaitSource::Child if !has_children => UNKNOWN,
        WaitSource::Child
        | WaitSource::Futex
        | WaitSource::OwnProcess
        | WaitSource::Relative
        | WaitSource::Pipe(_)
        | WaitSource::FifoOpening(_)
        | WaitSource::Master(_) => INTERNAL,
        // The master end may be anywhere.
        WaitSource::OtherTerminal(_) | WaitSource::Other(_) => UNKNOWN,
    }
}

fn idle(waits: &ProcessWaits, rank: Rank, on: Idle) -> (Rank, TreeState) {
    let process = waits.process.clone();
    (rank, TreeState::Idle { process, on })
}

/// Describes the deadlock of a tree in which every thread waits for another; `None` if all threads
/// only wait for children.
fn deadlock(tree: &[ProcessWaits]) -> Option<TreeState> {
    let waits_for_others = |waits: &&ProcessWaits| waits.threads.iter().any(is_dead_end);
    let processes = tree.iter().filter(waits_for_others).count();
    let largest = tree.iter().filter(waits_for_others).max_by_key(|waits| waits.threads.len())?;
    Some(TreeState::Deadlock {
        process: largest.process.clone(),
        threads: largest.threads.len(),
        processes,
        cause: cause(largest),
    })
}

/// Whether a thread that waits within the task waits for something other than a child.
fn is_dead_end(thread: &Thread) -> bool {
    match thread {
        Thread::In(WaitSource::Child | WaitSource::Suspension) => false,
        Thread::In(_) => true,
        Thread::Waits { on, .. } => !on.is_empty(),
        Thread::Running | Thread::Unreadable => false,
    }
}

fn cause(waits: &ProcessWaits) -> DeadEnd {
    let mut cause = DeadEnd::Threads;
    for thread in &waits.threads {
        match thread {
            Thread::In(WaitSource::FifoOpening(path)) => return DeadEnd::Fifo(path.clone()),
            Thread::In(WaitSource::Pipe(_) | WaitSource::OwnProcess) => cause = DeadEnd::Pipe,
            _ => {}
        }
    }
    cause
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reader(pid: i32, name: &str) -> ProcessName {
        ProcessName { pid, name: name.to_owned() }
    }

    fn process(pid: i32, parent: i32, threads: &[Thread]) -> ProcessWaits {
        ProcessWaits {
            process: reader(pid, "p"),
            parent,
            stopped: false,
            threads: threads.to_vec(),
        }
    }

    /// A shell that waits for its child, the process under test.
    fn below_a_shell(threads: &[Thread]) -> Option<TreeState> {
        classify(&[process(1, 0, &[Thread::In(WaitSource::Suspension)]), process(2, 1, threads)])
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
        WaitSource::Peer(Peer::Network("127.0.0.1:5432".to_owned()))
    }

    fn lock() -> WaitSource {
        WaitSource::Lock(Lock { path: "/tmp/lock".to_owned(), holder: None })
    }

    fn port() -> WaitSource {
        WaitSource::Listener("port 3000".to_owned())
    }

    #[test]
    fn every_wait_has_its_state() {
        let listening = Idle::Listening("port 3000".to_owned());
        let pipe = || WaitSource::Pipe("pipe:[1]".to_owned());
        let rows: &[(&[Thread], Option<Idle>)] = &[
            (&[set(&[], true)], Some(Idle::Timer)),
            (&[set(&[WaitSource::Futex], true)], Some(Idle::Timer)),
            (&[set(&[pipe(), WaitSource::OwnProcess], true)], Some(Idle::Timer)),
            (&[set(&[WaitSource::Timer], false)], Some(Idle::Timer)),
            (&[Thread::In(port())], Some(listening.clone())),
            (&[set(&[peer(), port(), WaitSource::Input], true)], Some(listening)),
            (&[set(&[WaitSource::Files, WaitSource::Input], false)], Some(Idle::Files)),
            (&[Thread::In(WaitSource::Signal)], Some(Idle::Signal)),
            (&[Thread::In(WaitSource::Suspension)], Some(Idle::Signal)),
            (&[set(&[], false)], Some(Idle::Signal)),
            // An event loop that waits for its signal handler.
            (&[set(&[WaitSource::OwnProcess], false)], Some(Idle::Signal)),
            // pexpect while its child prints nothing.
            (&[set(&[WaitSource::Master(Some(1))], true)], Some(Idle::Timer)),
            // A terminal server.
            (
                &[set(&[WaitSource::Master(Some(1)), port()], false)],
                Some(Idle::Listening("port 3000".to_owned())),
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
    }

    #[test]
    fn a_relay_has_the_state_of_the_processes_behind_it() {
        let relays =
            set(&[WaitSource::Input, WaitSource::Master(Some(1)), WaitSource::Signal], false);
        let tree = |behind: Thread| {
            classify(&[process(1, 0, std::slice::from_ref(&relays)), process(2, 1, &[behind])])
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
        assert_eq!(classify(&tree), Some(TreeState::Unknown));
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
        let opens = Thread::In(WaitSource::FifoOpening("/tmp/go".to_owned()));
        let cause = |threads: &[Thread]| match below_a_shell(threads) {
            Some(TreeState::Deadlock { cause, .. }) => Some(cause),
            _ => None,
        };
        assert_eq!(cause(&[opens]), Some(DeadEnd::Fifo("/tmp/go".to_owned())));
        let reads = Thread::In(WaitSource::Pipe("pipe:[1]".to_owned()));
        assert_eq!(cause(std::slice::from_ref(&reads)), Some(DeadEnd::Pipe));
        assert_eq!(pipes(&[process(1, 0, &[reads])]).len(), 1);
    }

    #[test]
    fn a_shell_waits_for_its_child_or_for_a_signal() {
        let alone = classify(&[process(1, 0, &[Thread::In(WaitSource::Suspension)])]);
        assert_eq!(alone.map(|it| it.kind()), Some(TreeStateKind::Idle));
        let hidden = classify(&[process(1, 0, &[Thread::In(WaitSource::Child)])]);
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
            assert_eq!(classify(&tree).map(|it| it.kind()), alone, "{stronger:?}");
        }
    }
}
