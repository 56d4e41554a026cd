//! Input for a program: queued, so that no caller waits for a program that does not read.
//!
//! The input of one call stays together: concurrent calls follow one another. How the end of input
//! is typed into a terminal depends on the terminal's modes once all earlier input has been
//! written.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;

use super::live::Input;
use crate::process::descriptors::{self, Transfer};
use crate::process::pty::LineModes;

/// The longest line that a terminal in line mode holds: the kernel drops what exceeds it before
/// the line's end (N_TTY_BUF_SIZE, less one for the end).
pub(crate) const LONGEST_LINE: usize = 4095;

/// How many bytes of input may wait for a program that does not read.
pub(crate) const MAX_QUEUED_INPUT: usize = 1024 * 1024;

/// How many bytes of the terminal's replies may wait. Further replies, to a program that sends
/// queries without reading, are dropped.
const MAX_QUEUED_REPLIES: usize = 4096;

/// What one call sends.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InputChunk {
    /// The bytes as the program reads them.
    pub bytes: Vec<u8>,
    /// Whether the end of input follows them.
    pub end: bool,
}

impl InputChunk {
    /// Its share of the queue: an end counts as one byte.
    pub fn weight(&self) -> usize {
        self.bytes.len() + usize::from(self.end)
    }
}

/// Input that waits to be written, and the line being typed into a terminal.
#[derive(Debug, Default)]
pub(crate) struct InputQueue {
    pieces: VecDeque<Piece>,
    /// How many of the queued bytes are replies of the terminal.
    replies: usize,
    line: OpenLine,
}

#[derive(Debug)]
enum Piece {
    Bytes {
        bytes: Vec<u8>,
        /// How many of them have been written.
        offset: usize,
        from: Origin,
    },
    End,
    /// The end as it is typed into a terminal; `left` codes are still to be written.
    Ending {
        code: u8,
        left: usize,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Origin {
    Caller,
    Terminal,
}

/// What one flush wrote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Flushed {
    /// Callers' input, by weight.
    pub(crate) taken: usize,
    /// Bytes that the terminal has dropped from lines that are too long.
    pub(crate) dropped: usize,
}

impl InputQueue {
    pub(crate) fn push(&mut self, sending: InputChunk) {
        self.push_bytes(sending.bytes, Origin::Caller);
        if sending.end {
            self.pieces.push_back(Piece::End);
        }
    }

    /// Queues a reply of the terminal after the input queued so far. Drops it if too many are
    /// queued.
    pub(crate) fn push_reply(&mut self, bytes: Vec<u8>) {
        if self.replies + bytes.len() <= MAX_QUEUED_REPLIES {
            self.replies += bytes.len();
            self.push_bytes(bytes, Origin::Terminal);
        }
    }

    fn push_bytes(&mut self, bytes: Vec<u8>, from: Origin) {
        if !bytes.is_empty() {
            self.pieces.push_back(Piece::Bytes { bytes, offset: 0, from });
        }
    }

    /// Notes bytes that were written without the queue: they belong to the line being typed.
    pub(crate) fn note_typed(&mut self, written: &[u8], modes: Option<&LineModes>) {
        self.line.record(written, modes);
    }

    /// Whether there is anything to write or to close.
    pub(crate) fn wants_to_write(&self) -> bool {
        !self.pieces.is_empty()
    }

    /// Writes as much as the program accepts now. `None`: the input is over, because its end was
    /// reached or its reader is gone; the caller closes the descriptor.
    pub(crate) fn flush(&mut self, fd: &OwnedFd, input: Input) -> Option<Flushed> {
        let modes = match input {
            Input::Terminal => LineModes::read(fd),
            Input::Pipe | Input::None => None,
        };
        let (mut taken, mut dropped) = (0, 0);
        while let Some(piece) = self.pieces.front_mut() {
            let (transfer, over) = match piece {
                Piece::Bytes { bytes, offset, from } => {
                    let rest = bytes.get(*offset..).unwrap_or_default();
                    let transfer = descriptors::write(fd, rest);
                    if let Transfer::Bytes(count) = transfer {
                        let written = rest.get(..count).unwrap_or_default();
                        dropped += self.line.record(written, modes.as_ref());
                        *offset += count;
                        match from {
                            Origin::Caller => taken += count,
                            Origin::Terminal => self.replies = self.replies.saturating_sub(count),
                        }
                    }
                    (transfer, *offset >= bytes.len())
                }
                Piece::End if input != Input::Terminal => return None,
                Piece::End => {
                    // All earlier input is in the terminal by now, so its present modes count, not
                    // those at the time of the request.
                    let modes = LineModes::read(fd).unwrap_or(LineModes::USUAL);
                    *piece = Piece::Ending {
                        code: modes.end_of_file,
                        left: self.line.codes_to_end(&modes),
                    };
                    continue;
                }
                Piece::Ending { code, left } => {
                    let codes = [*code; 2];
                    let rest = codes.get(..*left).unwrap_or(&codes);
                    let transfer = descriptors::write(fd, rest);
                    if let Transfer::Bytes(count) = transfer {
                        *left = left.saturating_sub(count);
                    }
                    let over = *left == 0;
                    if over {
                        self.line = OpenLine::default();
                        taken += 1;
                    }
                    (transfer, over)
                }
            };
            if over {
                self.pieces.pop_front();
            }
            match transfer {
                Transfer::Bytes(_) => {}
                Transfer::WouldBlock => break,
                Transfer::Closed => return None,
            }
        }
        Some(Flushed { taken, dropped })
    }
}

/// The line that is being typed into a terminal in line mode, until its end is typed.
///
/// Limits: the keys that erase a word or quote the next key count as text.
#[derive(Debug, Default)]
struct OpenLine {
    bytes: usize,
    /// The characters that erasing removes one at a time.
    characters: usize,
}

impl OpenLine {
    /// Records written bytes; returns how many of them the terminal has dropped.
    fn record(&mut self, written: &[u8], modes: Option<&LineModes>) -> usize {
        let Some(modes) = modes.filter(|modes| modes.canonical) else {
            // The program gets each byte at once.
            *self = OpenLine::default();
            return 0;
        };
        let mut dropped = 0;
        for &byte in written {
            let continues = modes.utf8 && byte & 0xc0 == 0x80;
            if modes.begins_line_after(byte) {
                *self = OpenLine::default();
            } else if byte == modes.erase {
                self.characters = self.characters.saturating_sub(1);
                self.bytes = self.bytes.saturating_sub(1).max(self.characters);
            } else if self.bytes < LONGEST_LINE {
                self.bytes += 1;
                self.characters += usize::from(!continues);
            } else {
                dropped += 1;
            }
        }
        dropped
    }

    /// How many times the end-of-file character must be typed. It ends the input only at the
    /// start of a line; elsewhere it submits what has been typed so far. A program that reads
    /// single bytes gets it once.
    fn codes_to_end(&self, modes: &LineModes) -> usize {
        if modes.canonical && self.characters > 0 { 2 } else { 1 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(written: &[u8]) -> (usize, usize) {
        let mut line = OpenLine::default();
        let dropped = line.record(written, Some(&LineModes::USUAL));
        (line.codes_to_end(&LineModes::USUAL), dropped)
    }

    #[test]
    fn the_end_is_typed_twice_where_a_line_has_begun() {
        for (written, times) in [
            (b"".as_slice(), 1),
            (b"line\r", 1),
            (b"line\n", 1),
            (b"part", 2),
            (b"line\rpart", 2),
            (b"ab\x7f\x7f", 1),
            (b"ab\x7f", 2),
            ("éé\x7f\x7f".as_bytes(), 1),
            ("éé\x7f".as_bytes(), 2),
            (b"part\x04", 1),
        ] {
            assert_eq!(after(written).0, times, "{written:?}");
        }
    }

    #[test]
    fn a_program_that_reads_every_byte_gets_the_end_once() {
        let mut raw = LineModes::USUAL;
        raw.canonical = false;
        let mut line = OpenLine::default();
        assert_eq!(line.record(&[b'x'; 10_000], Some(&raw)), 0);
        assert_eq!(line.codes_to_end(&raw), 1);
        // Bytes typed before the terminal entered line mode have reached the program.
        assert_eq!(line.codes_to_end(&LineModes::USUAL), 1);
    }

    #[test]
    fn bytes_that_a_line_has_no_room_for_are_counted() {
        let long = [b'x'; LONGEST_LINE + 10];
        assert_eq!(after(&long[..LONGEST_LINE]).1, 0);
        assert_eq!(after(&long).1, 10);
        let lines = [long.as_slice(), b"\r", &long[..100], b"\r", &long].concat();
        assert_eq!(after(&lines).1, 20);
    }
}
