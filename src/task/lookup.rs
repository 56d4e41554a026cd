//! From line numbers to places in a spool, and back.

use std::io;

use super::spool::{Spool, advance};
use crate::text::lines::Position;

/// Read at once when a file is searched.
const READ_BYTES: usize = 256 * 1024;

impl Spool {
    /// Where line `line` begins, or the first retained place after it; `None` past
    /// `end`.
    ///
    /// # Errors
    /// When a file cannot be read.
    pub fn find_line(&self, line: u64, end: Position) -> io::Result<Option<Position>> {
        if line <= 1 {
            return Ok(Some(Position { offset: 0, line: 1 }));
        }
        if line > end.line {
            return Ok(None);
        }
        // Line `line` begins after the newline that ends line `line - 1`.
        let from = self.checkpoint(|checkpoint| checkpoint.line < line);
        let mut position = from;
        while position.offset < end.offset {
            let to = (position.offset + READ_BYTES as u64).min(end.offset);
            let Some(piece) = self.read(position, true, to)?.into_iter().next() else {
                break;
            };
            if piece.start.line >= line && piece.start.offset > position.offset {
                return Ok(Some(piece.start));
            }
            let mut number = piece.start.line;
            for newline in memchr::memchr_iter(b'\n', &piece.bytes) {
                number += 1;
                if number == line {
                    return Ok(Some(Position {
                        offset: piece.start.offset + newline as u64 + 1,
                        line,
                    }));
                }
            }
            position = advance(piece.start, &piece.bytes);
        }
        Ok(None)
    }

    /// The number of the line that byte `offset` is in.
    ///
    /// # Errors
    /// When a file cannot be read.
    pub fn position_of(&self, offset: u64) -> io::Result<Position> {
        let from = self.checkpoint(|checkpoint| checkpoint.offset <= offset);
        let pieces = self.read(from, true, offset)?;
        Ok(pieces.last().map_or(
            Position {
                offset,
                line: from.line,
            },
            |piece| advance(piece.start, &piece.bytes),
        ))
    }
}
