//! A reader of a task's output that misses no byte: the program waits for it where it
//! falls behind, as it would for the reader of a pipe.
//!
//! It also tells of what comes beside the output: stderr that is kept apart, looks at the
//! task's processes, the shell's end. All of it wakes it by the task's condvar.

use std::io;
use std::sync::Arc;
use std::time::Instant;

use super::live::{Cancel, Look, State};
use super::registry::TaskHandle;
use crate::text::lines::{Place, Position};

/// Read at once.
const CHUNK: u64 = 256 * 1024;

/// What is told besides the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Topics {
    /// The output; the program waits for the follower then.
    pub output: bool,
    /// Stderr, where it is kept apart.
    pub errors: bool,
    /// Each look at whether the task gets on.
    pub looks: bool,
}

/// What the follower heard.
#[derive(Debug, PartialEq, Eq)]
pub enum Heard {
    /// The next bytes of the output.
    Output(Vec<u8>),
    /// So many bytes are gone: the spool's quota is smaller than what came at once.
    Gap(u64),
    /// New bytes of stderr, the newest of them if they were many.
    Errors(Vec<u8>),
    /// It was looked at whether the task gets on.
    Looked,
    /// The shell has ended, and all that had come by then has been told; what it left may
    /// print more. Told once.
    Exit,
    /// Nothing more comes.
    Over,
    /// Nothing came until the deadline.
    Quiet,
    /// It was cancelled.
    Cancelled,
}

/// Reads one task from its beginning. There should be one for a task at most.
#[derive(Debug)]
pub struct Follower {
    task: Arc<TaskHandle>,
    topics: Topics,
    /// The first byte that is not told yet.
    next: u64,
    errors: u64,
    looks: u64,
    exit_told: bool,
}

enum Seen {
    Output { end: u64 },
    Errors { bytes: Vec<u8>, total: u64 },
    Looked { looks: u64 },
    Exit,
    Over,
}

impl Follower {
    /// Begins.
    pub fn new(task: Arc<TaskHandle>, topics: Topics) -> Follower {
        if topics.output {
            task.note_taken(Some(0));
        }
        Follower {
            task,
            topics,
            next: 0,
            errors: 0,
            looks: 0,
            exit_told: false,
        }
    }

    /// The task.
    pub fn task(&self) -> &Arc<TaskHandle> {
        &self.task
    }

    /// Waits for what comes next, until `deadline` at most.
    ///
    /// # Errors
    /// When the spool cannot be read.
    pub fn next(&mut self, deadline: Option<Instant>, cancel: &Cancel) -> io::Result<Heard> {
        let task = Arc::clone(&self.task);
        let look = |state: &State| match self.see(state) {
            Some(seen) => Look::Found(seen),
            None => Look::WaitUntil(None),
        };
        let seen = task.live.wait_for(deadline, cancel, look, Instant::now);
        Ok(match seen {
            Some(Seen::Output { end }) => self.read(end)?,
            Some(Seen::Errors { bytes, total }) => {
                self.errors = total;
                Heard::Errors(bytes)
            }
            Some(Seen::Looked { looks }) => {
                self.looks = looks;
                Heard::Looked
            }
            Some(Seen::Exit) => {
                self.exit_told = true;
                Heard::Exit
            }
            Some(Seen::Over) => Heard::Over,
            None if cancel.is_cancelled() => Heard::Cancelled,
            None => Heard::Quiet,
        })
    }

    fn see(&self, state: &State) -> Option<Seen> {
        let end = state.output_end.offset;
        let errors = state.errors.total();
        if self.topics.output && end > self.next {
            Some(Seen::Output { end })
        } else if self.topics.errors && errors > self.errors {
            Some(Seen::Errors {
                bytes: state.errors.since(self.errors),
                total: errors,
            })
        } else if self.topics.looks && state.looks > self.looks {
            Some(Seen::Looked { looks: state.looks })
        } else if state.ended.is_some() && !self.exit_told {
            Some(Seen::Exit)
        } else if state.closed {
            Some(Seen::Over)
        } else {
            None
        }
    }

    /// Reads on towards `end`: a chunk, or a gap before the next one.
    fn read(&mut self, end: u64) -> io::Result<Heard> {
        let to = end.min(self.next + CHUNK);
        // Lines are nobody's business here: bytes are asked for by their offset.
        let from = Place {
            at: Position {
                offset: self.next,
                line: 1,
            },
            inside_line: true,
        };
        let piece = self.task.spool.read(from, to)?.into_iter().next();
        let (heard, told) = match piece {
            Some(piece) if piece.start.at.offset <= self.next && !piece.bytes.is_empty() => {
                let end = piece.end_offset();
                (Heard::Output(piece.bytes), end)
            }
            Some(piece) if piece.start.at.offset > self.next => {
                let start = piece.start.at.offset;
                (Heard::Gap(start - self.next), start)
            }
            _ => (Heard::Gap(to - self.next), to),
        };
        self.next = told;
        self.task.note_taken(Some(told));
        Ok(heard)
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        if self.topics.output {
            self.task.note_taken(None);
        }
    }
}
