//! Input on its way to a program: queued, so that nobody ever waits for a program that
//! does not read.
//!
//! What one call sends stays together: calls side by side come one after the other. How
//! a terminal is told of the end depends on the modes that it has when all before has
//! been written.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;

use super::live::Input;
use crate::process::descriptors::{self, Transfer};
use crate::process::pty::LineModes;

/// A terminal in line mode holds no longer line: the kernel drops what comes before the
/// line's end (N_TTY_BUF_SIZE, less one for the end).
pub const LONGEST_LINE: usize = 4095;

/// The terminal's answers that may wait: those of a program that asks on and on without
/// reading are dropped.
const MAX_QUEUED_REPLIES: usize = 4096;

/// What one call sends.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sending {
    /// Bytes as the program gets them.
    pub bytes: Vec<u8>,
    /// Whether the end of the input comes after them.
    pub end: bool,
}

impl Sending {
    /// How much of the queue it takes: an end counts as one byte.
    pub fn weight(&self) -> usize {
        self.bytes.len() + usize::from(self.end)
    }
}

/// What waits to be written, and what a terminal holds of the line that is being typed.
#[derive(Debug, Default)]
pub struct InputQueue {
    pieces: VecDeque<Piece>,
    /// Bytes of the terminal's answers among them.
    replies: usize,
    line: OpenLine,
}

#[derive(Debug)]
enum Piece {
    Bytes {
        bytes: Vec<u8>,
        /// Of them written.
        offset: usize,
        from: Origin,
    },
    /// The end of the input.
    End,
    /// What tells a terminal of it, of which so much is left to write.
    Ending { code: u8, left: usize },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Origin {
    Caller,
    Terminal,
}

/// What a flush came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flushed {
    /// So much was taken; more may wait.
    Written {
        /// Of what callers sent, by weight.
        taken: usize,
        /// Bytes that the terminal has dropped of lines that are too long.
        dropped: usize,
    },
    /// All is written and the end was asked for: close the descriptor.
    End,
    /// The reader is gone.
    Closed,
}

impl InputQueue {
    /// Adds what one call sends.
    pub fn push(&mut self, sending: Sending) {
        self.push_bytes(sending.bytes, Origin::Caller);
        if sending.end {
            self.pieces.push_back(Piece::End);
        }
    }

    /// Adds an answer of the terminal, behind what has been typed so far as on any
    /// terminal, and never within it; not when too many wait.
    pub fn push_reply(&mut self, bytes: Vec<u8>) {
        if self.replies + bytes.len() <= MAX_QUEUED_REPLIES {
            self.replies += bytes.len();
            self.push_bytes(bytes, Origin::Terminal);
        }
    }

    fn push_bytes(&mut self, bytes: Vec<u8>, from: Origin) {
        if !bytes.is_empty() {
            self.pieces.push_back(Piece::Bytes {
                bytes,
                offset: 0,
                from,
            });
        }
    }

    /// Notes what was written past the queue: it belongs to the line that is being typed.
    pub fn note_typed(&mut self, written: &[u8], modes: Option<&LineModes>) {
        self.line.take(written, modes);
    }

    /// Whether there is anything to write or to close.
    pub fn wants_to_write(&self) -> bool {
        !self.pieces.is_empty()
    }

    /// Writes as much as the program takes now.
    pub fn flush(&mut self, fd: &OwnedFd, input: Input) -> Flushed {
        let modes = match input {
            Input::Terminal => LineModes::of(fd),
            Input::Pipe | Input::None => None,
        };
        let (mut taken, mut dropped) = (0, 0);
        while let Some(piece) = self.pieces.front_mut() {
            let (transfer, over) = match piece {
                Piece::Bytes {
                    bytes,
                    offset,
                    from,
                } => {
                    let rest = bytes.get(*offset..).unwrap_or_default();
                    let transfer = descriptors::write(fd, rest);
                    if let Transfer::Bytes(count) = transfer {
                        let written = rest.get(..count).unwrap_or_default();
                        dropped += self.line.take(written, modes.as_ref());
                        *offset += count;
                        match from {
                            Origin::Caller => taken += count,
                            Origin::Terminal => self.replies = self.replies.saturating_sub(count),
                        }
                    }
                    (transfer, *offset >= bytes.len())
                }
                Piece::End if input != Input::Terminal => return Flushed::End,
                Piece::End => {
                    // All before is with the terminal by now: its modes count, not those
                    // of the time when the end was asked for.
                    let modes = LineModes::of(fd).unwrap_or(LineModes::USUAL);
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
                Transfer::Closed => return Flushed::Closed,
            }
        }
        Flushed::Written { taken, dropped }
    }
}

/// The line that is being typed into a terminal in line mode, as far as its end has not
/// been typed.
///
/// Limits: the keys that erase a word and that take the next one literally count as text.
#[derive(Debug, Default)]
struct OpenLine {
    bytes: usize,
    /// What erasing takes back one by one.
    characters: usize,
}

impl OpenLine {
    /// Notes what was written; the answer is how much of it the terminal has dropped.
    fn take(&mut self, written: &[u8], modes: Option<&LineModes>) -> usize {
        let Some(modes) = modes.filter(|modes| modes.canonical) else {
            // The program has each byte already.
            *self = OpenLine::default();
            return 0;
        };
        let mut dropped = 0;
        for &byte in written {
            let continues = modes.utf8 && byte & 0xc0 == 0x80;
            if modes.begins_anew_after(byte) {
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

    /// How often the end-of-file character is typed: it ends the input at the start of a
    /// line only, and elsewhere hands over what has been typed so far. A program that
    /// reads every byte for itself gets it once.
    fn codes_to_end(&self, modes: &LineModes) -> usize {
        if modes.canonical && self.characters > 0 {
            2
        } else {
            1
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(written: &[u8]) -> (usize, usize) {
        let mut line = OpenLine::default();
        let dropped = line.take(written, Some(&LineModes::USUAL));
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
        assert_eq!(line.take(&[b'x'; 10_000], Some(&raw)), 0);
        assert_eq!(line.codes_to_end(&raw), 1);
        // What was typed before line mode came is with the program.
        assert_eq!(line.codes_to_end(&LineModes::USUAL), 1);
    }

    #[test]
    fn what_a_line_has_no_room_for_is_counted() {
        let long = [b'x'; LONGEST_LINE + 10];
        assert_eq!(after(&long[..LONGEST_LINE]).1, 0);
        assert_eq!(after(&long).1, 10);
        let lines = [long.as_slice(), b"\r", &long[..100], b"\r", &long].concat();
        assert_eq!(after(&lines).1, 20);
    }
}
