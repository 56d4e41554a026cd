//! Input on its way to a program: queued, so that nobody ever waits for a program that
//! does not read.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;

use super::live::Input;
use crate::process::descriptors::{self, Transfer};

/// Ctrl-D, a terminal's end of file.
const END_OF_TRANSMISSION: u8 = 4;

/// The terminal's answers that may wait: those of a program that asks on and on without
/// reading are dropped.
const MAX_QUEUED_REPLIES: usize = 4096;

/// Bytes waiting to be written, and whether the end comes after them.
#[derive(Debug, Default)]
pub struct InputQueue {
    chunks: VecDeque<Chunk>,
    /// Bytes of the terminal's answers among them.
    replies: usize,
    /// Written of the first chunk.
    offset: usize,
    /// Close after the last byte.
    end_after: bool,
}

#[derive(Debug)]
struct Chunk {
    bytes: Vec<u8>,
    from: Origin,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Origin {
    Caller,
    Terminal,
}

/// What a flush came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flushed {
    /// So many of the caller's bytes were taken; more may wait.
    Written(usize),
    /// All is written and the end was asked for: close the descriptor.
    End,
    /// The reader is gone.
    Closed,
}

impl InputQueue {
    /// Adds bytes.
    pub fn push(&mut self, bytes: Vec<u8>) {
        if !bytes.is_empty() {
            let from = Origin::Caller;
            self.chunks.push_back(Chunk { bytes, from });
        }
    }

    /// Adds an answer of the terminal, behind what has been typed so far as on any
    /// terminal, and never within it; not when too many wait.
    pub fn push_reply(&mut self, bytes: Vec<u8>) {
        if !bytes.is_empty() && self.replies + bytes.len() <= MAX_QUEUED_REPLIES {
            self.replies += bytes.len();
            let from = Origin::Terminal;
            self.chunks.push_back(Chunk { bytes, from });
        }
    }

    /// The end of the input comes after what is queued: a pipe is closed, a terminal is
    /// told by its end-of-file character.
    pub fn push_end(&mut self, input: Input) {
        match input {
            Input::Terminal => self.push(vec![END_OF_TRANSMISSION]),
            Input::Pipe | Input::None => self.end_after = true,
        }
    }

    /// Whether there is anything to write or to close.
    pub fn wants_to_write(&self) -> bool {
        !self.chunks.is_empty() || self.end_after
    }

    /// Writes as much as the program takes now.
    pub fn flush(&mut self, fd: &OwnedFd) -> Flushed {
        let mut written = 0;
        while let Some(chunk) = self.chunks.front() {
            let rest = chunk.bytes.get(self.offset..).unwrap_or_default();
            match descriptors::write(fd, rest) {
                Transfer::Bytes(count) => {
                    match chunk.from {
                        Origin::Caller => written += count,
                        Origin::Terminal => self.replies = self.replies.saturating_sub(count),
                    }
                    self.offset += count;
                    if self.offset >= chunk.bytes.len() {
                        self.chunks.pop_front();
                        self.offset = 0;
                    }
                }
                Transfer::WouldBlock => return Flushed::Written(written),
                Transfer::Closed => return Flushed::Closed,
            }
        }
        if self.end_after {
            Flushed::End
        } else {
            Flushed::Written(written)
        }
    }
}
