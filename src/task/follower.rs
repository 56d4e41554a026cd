//! A reader of a task's output that misses no byte: the program waits for it when it falls behind,
//! as it would for the reader of a pipe.
//!
//! It also reports stderr that is apart, probes of the task's processes, and the shell's end.
//! The task's condvar wakes it for all of these.

use std::io;
use std::sync::Arc;
use std::time::Instant;

use super::live::{LiveState, WaitStep};
use super::output::spool::Spool;
use super::registry::TaskHandle;
use super::stream::{PerStream, StreamName};
use crate::base::cancel::Cancel;
use crate::text::lines::{LinePosition, Position};

/// The most bytes read at once.
const CHUNK: u64 = 256 * 1024;

/// What is reported besides the end. The program waits for the reader of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Topics {
    /// The output.
    pub(crate) output: bool,
    /// Stderr, if it is apart.
    pub(crate) errors: bool,
    /// Each probe of the task's progress.
    pub(crate) probes: bool,
}

impl Topics {
    fn streams(self) -> impl Iterator<Item = StreamName> {
        let output = self.output.then_some(StreamName::Output);
        output.into_iter().chain(self.errors.then_some(StreamName::Errors))
    }
}

/// What the follower reports.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum TaskEvent {
    /// The next bytes of a stream.
    Output(StreamName, Vec<u8>),
    /// This many bytes are gone: more came at once than the spool's quota holds.
    Gap(u64),
    /// The task's progress was probed.
    Probed,
    /// The shell has ended, and all that had come by then was reported; its leftovers may
    /// print more. Reported once.
    Exit,
    /// Nothing more will come.
    Over,
    /// Nothing came before the deadline.
    Quiet,
    Cancelled,
}

/// Reads one task from its beginning. A task should have at most one.
#[derive(Debug)]
pub(crate) struct Follower {
    task: Arc<TaskHandle>,
    topics: Topics,
    /// The first byte of each stream that was not reported yet.
    next: PerStream<u64>,
    /// The stream whose bytes were reported last.
    last: StreamName,
    probes_seen: u64,
    exit_reported: bool,
}

/// What woke the follower.
enum Woken {
    /// There is output up to here.
    Output(StreamName, u64),
    Event(TaskEvent),
}

impl Follower {
    pub(crate) fn new(task: Arc<TaskHandle>, topics: Topics) -> Follower {
        for name in topics.streams() {
            task.note_taken(name, Some(0));
        }
        Follower {
            task,
            topics,
            next: PerStream::default(),
            last: StreamName::Errors,
            probes_seen: 0,
            exit_reported: false,
        }
    }

    pub(crate) fn task(&self) -> &Arc<TaskHandle> {
        &self.task
    }

    /// Waits for the next event, at most until `deadline`.
    ///
    /// # Errors
    /// The spool cannot be read.
    pub(crate) fn next(
        &mut self,
        deadline: Option<Instant>,
        cancel: &Cancel,
    ) -> io::Result<TaskEvent> {
        let task = Arc::clone(&self.task);
        let check = |state: &LiveState| match self.check(state) {
            Some(woken) => WaitStep::Found(woken),
            None if self.topics.output || self.topics.errors => WaitStep::WaitUntil(None),
            None => WaitStep::WaitDespiteOutput(None),
        };
        match task.live.wait_for(deadline, cancel, check, Instant::now) {
            Some(Woken::Output(name, end)) => self.read(name, end),
            Some(Woken::Event(event)) => Ok(event),
            None if cancel.is_cancelled() => Ok(TaskEvent::Cancelled),
            None => Ok(TaskEvent::Quiet),
        }
    }

    fn check(&mut self, state: &LiveState) -> Option<Woken> {
        let has_more =
            |name: &StreamName| state.streams.get(*name).end.offset > *self.next.get(*name);
        // In turns, so that a flood on one does not delay the other.
        let waiting = self.topics.streams().filter(has_more);
        if let Some(name) = waiting.max_by_key(|name| *name != self.last) {
            return Some(Woken::Output(name, state.streams.get(name).end.offset));
        }
        Some(Woken::Event(if self.topics.probes && state.progress_probes > self.probes_seen {
            self.probes_seen = state.progress_probes;
            TaskEvent::Probed
        } else if state.ended.is_some() && !self.exit_reported {
            self.exit_reported = true;
            TaskEvent::Exit
        } else if state.closed {
            TaskEvent::Over
        } else {
            return None;
        }))
    }

    /// Reads towards `end`: a chunk, or a gap before the next one.
    fn read(&mut self, name: StreamName, end: u64) -> io::Result<TaskEvent> {
        self.last = name;
        let next = self.next.get_mut(name);
        let read = read_next(self.task.spools.get(name), next, end)?;
        self.task.note_taken(name, Some(*next));
        Ok(match read {
            Read::Bytes(bytes) => TaskEvent::Output(name, bytes),
            Read::Gap(bytes) => TaskEvent::Gap(bytes),
        })
    }
}

/// The result of one read of the output.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Read {
    Bytes(Vec<u8>),
    /// This many bytes are gone.
    Gap(u64),
}

/// Reads raw output from `next` towards `end`, a chunk at most, and moves `next` behind it.
///
/// # Errors
/// The spool cannot be read.
pub(crate) fn read_next(spool: &Spool, next: &mut u64, end: u64) -> io::Result<Read> {
    let to = end.min(*next + CHUNK);
    // The line number does not matter: bytes are read by their offset.
    let from = LinePosition { at: Position { offset: *next, line: 1 }, inside_line: true };
    let piece = spool.read(from, to)?.into_iter().next();
    let (read, reached) = match piece {
        Some(piece) if piece.start.at.offset > *next => {
            let start = piece.start.at.offset;
            (Read::Gap(start - *next), start)
        }
        Some(piece) if !piece.bytes.is_empty() => {
            let end = piece.end_offset();
            (Read::Bytes(piece.bytes), end)
        }
        _ => (Read::Gap(to - *next), to),
    };
    *next = reached;
    Ok(read)
}

impl Drop for Follower {
    fn drop(&mut self) {
        for name in self.topics.streams() {
            self.task.note_taken(name, None);
        }
    }
}
