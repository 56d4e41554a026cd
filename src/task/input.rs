//! Input on its way to a program: queued, so that nobody ever waits for a program that
//! does not read.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;

use super::live::Input;
use crate::process::descriptors::{self, Transfer};

/// Ctrl-D, a terminal's end of file.
const END_OF_TRANSMISSION: u8 = 4;

/// Bytes waiting to be written, and whether the end comes after them.
#[derive(Debug, Default)]
pub struct InputQueue {
    chunks: VecDeque<Vec<u8>>,
    /// Written of the first chunk.
    offset: usize,
    /// Close after the last byte.
    end_after: bool,
}

/// What a flush came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flushed {
    /// So many bytes were taken; more may wait.
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
            self.chunks.push_back(bytes);
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
            let rest = chunk.get(self.offset..).unwrap_or_default();
            match descriptors::write(fd, rest) {
                Transfer::Bytes(count) => {
                    written += count;
                    self.offset += count;
                    if self.offset >= chunk.len() {
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
