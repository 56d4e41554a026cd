//! A task's stderr, where it is kept apart from the output: read as it comes, so that the
//! program never waits for its reader, and its newest bytes kept in memory.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Instant;

use super::live::LiveTask;
use crate::process::descriptors::{self, Transfer};

/// Read at once.
const READ_BYTES: usize = 16 * 1024;
/// Reads in one turn of the worker, so that a flood does not keep orders waiting. As much
/// as a pipe holds: one turn after the exit takes all that the program wrote.
const READS_PER_TURN: usize = 4;

/// The pipe, until its last writer has closed it.
pub(super) struct ErrorPipe {
    pipe: Option<OwnedFd>,
}

impl ErrorPipe {
    /// Of a task that may have none.
    pub fn new(pipe: Option<OwnedFd>) -> ErrorPipe {
        ErrorPipe { pipe }
    }

    /// What to watch for bytes.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.pipe.as_ref().map(AsFd::as_fd)
    }

    /// Whether somebody may write to it.
    pub fn is_open(&self) -> bool {
        self.pipe.is_some()
    }

    /// Takes what is there; the answer is whether there was any.
    pub fn read(&mut self, task: &LiveTask) -> bool {
        let mut heard = false;
        for _ in 0..READS_PER_TURN {
            let Some(pipe) = &self.pipe else {
                break;
            };
            let mut buffer = vec![0; READ_BYTES];
            match descriptors::read(pipe, &mut buffer) {
                Transfer::Bytes(count) => {
                    heard = true;
                    let chunk = buffer.get(..count).unwrap_or_default();
                    task.report(|state| {
                        state.errors.push(chunk);
                        state.last_output = Some(Instant::now());
                    });
                }
                Transfer::WouldBlock => break,
                Transfer::Closed => self.pipe = None,
            }
        }
        heard
    }
}
