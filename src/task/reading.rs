//! Reading a task's output for a result: the part that is to be shown, within bounds
//! that do not grow with the output; a range of lines; a search; a watch for a pattern.

use std::io;
use std::ops::ControlFlow;

use regex::Regex;

use super::live::Delta;
use super::spool::Spool;
use crate::text::ansi::{self, Colours};
use crate::text::lines::{Piece, Position};

/// Bytes read for each character that may be shown: four for UTF-8, and as much again
/// for escape sequences.
const BYTES_PER_CHAR: u64 = 8;
/// Read at once when output is searched.
const SEARCH_BYTES: u64 = 256 * 1024;
/// A longer line is searched in parts of this size.
const LONGEST_MATCHED_LINE: usize = 64 * 1024;

/// What is to be shown of `[from, to)`: all of it if it is small, else its head and its
/// tail.
///
/// # Errors
/// When a spool file cannot be read.
pub fn excerpt(
    spool: &Spool,
    from: Position,
    to: Position,
    max_chars: usize,
) -> io::Result<Vec<Piece>> {
    let room = max_chars as u64 * BYTES_PER_CHAR;
    let (head, tail) = (room / 3 + 1, room - room / 3 + 1);
    if to.offset.saturating_sub(from.offset) <= head + tail {
        return spool.read(from, false, to.offset);
    }
    let mut pieces = spool.read(from, false, from.offset + head)?;
    let tail_start = spool.position_of(to.offset - tail)?;
    let mut ends = spool.read(tail_start, true, to.offset)?;
    if let Some(first) = ends.first_mut() {
        first.omitted_before = true;
    }
    pieces.append(&mut ends);
    Ok(pieces)
}

/// What no result has shown, ready for layout.
///
/// # Errors
/// When a spool file cannot be read.
pub fn new_output(spool: &Spool, delta: &Delta, max_chars: usize) -> io::Result<Vec<Piece>> {
    if delta.new_bytes() == 0 {
        return Ok(Vec::new());
    }
    let mut from = delta.from;
    if from.offset < delta.new_from {
        // Part of the first line was shown. If nothing but its end came, it has not
        // grown and is not shown again.
        let to = (delta.new_from + 2).min(delta.to.offset);
        let next = spool.read(
            Position {
                offset: delta.new_from,
                line: from.line,
            },
            true,
            to,
        )?;
        let next = next
            .first()
            .map(|piece| piece.bytes.as_slice())
            .unwrap_or_default();
        let ending = match next {
            [b'\n', ..] => 1,
            [b'\r', b'\n'] => 2,
            _ => 0,
        };
        if ending > 0 {
            from = Position {
                offset: delta.new_from + ending,
                line: from.line + 1,
            };
        }
    }
    excerpt(spool, from, delta.to, max_chars)
}

/// Lines `first` to `last`, both included; what is retained of them.
///
/// # Errors
/// When a spool file cannot be read.
pub fn range(
    spool: &Spool,
    first: u64,
    last: Option<u64>,
    end: Position,
    max_chars: usize,
) -> io::Result<Vec<Piece>> {
    let Some(from) = spool.find_line(first.max(1), end)? else {
        return Ok(Vec::new());
    };
    let to = match last {
        Some(last) => spool.find_line(last.saturating_add(1), end)?.unwrap_or(end),
        None => end,
    };
    if to.offset <= from.offset {
        return Ok(Vec::new());
    }
    excerpt(spool, from, to, max_chars)
}

/// The unfinished line at the output's end as plain text: where prompts stand.
pub fn unfinished_line(spool: &Spool, line_start: Position, end: Position) -> String {
    const LONGEST: u64 = 4096;
    let from = line_start.offset.max(end.offset.saturating_sub(LONGEST));
    let start = Position {
        offset: from,
        line: line_start.line,
    };
    let pieces = spool.read(start, true, end.offset).unwrap_or_default();
    let bytes = pieces.last().map(|piece| piece.bytes.as_slice());
    ansi::readable(bytes.unwrap_or_default(), Colours::Drop)
}

/// The newest line of the output as plain text; for progress messages.
pub fn last_line(spool: &Spool, line_start: Position, end: Position) -> Option<String> {
    const WINDOW: u64 = 4096;
    let at_end = end.offset.saturating_sub(line_start.offset);
    let from = if at_end > 0 && at_end <= WINDOW {
        line_start.offset
    } else {
        end.offset.saturating_sub(WINDOW)
    };
    let pieces = spool
        .read(
            Position {
                offset: from,
                line: 1,
            },
            true,
            end.offset,
        )
        .ok()?;
    let bytes = &pieces.last()?.bytes;
    bytes
        .split(|byte| *byte == b'\n')
        .rev()
        .map(|line| ansi::readable(line, Colours::Drop))
        .find(|text| !text.trim().is_empty())
}

/// Goes through the lines of `[from, to)` in bounded memory. The last, unfinished line
/// counts as one. The visitor gets the number, where the line begins, and its bytes; a
/// very long line comes in parts with the same number.
///
/// # Errors
/// When a spool file cannot be read.
pub fn for_each_line(
    spool: &Spool,
    from: Position,
    to: u64,
    mut visit: impl FnMut(Position, &[u8]) -> ControlFlow<()>,
) -> io::Result<Position> {
    let mut carried: Vec<u8> = Vec::new();
    let mut line = from;
    let mut next = from.offset;
    while next < to {
        let pieces = spool.read(
            Position {
                offset: next,
                line: line.line,
            },
            true,
            (next + SEARCH_BYTES).min(to),
        )?;
        if pieces.is_empty() {
            next = (next + SEARCH_BYTES).min(to);
            continue;
        }
        for piece in pieces {
            if piece.start.offset != next {
                // Output is gone in between: a new line is begun where it goes on.
                carried.clear();
                line = piece.start;
            }
            next = piece.start.offset + piece.bytes.len() as u64;
            let mut rest = piece.bytes.as_slice();
            while let Some(newline) = memchr::memchr(b'\n', rest) {
                let (head, tail) = rest.split_at(newline);
                let flow = if carried.is_empty() {
                    visit(line, head)
                } else {
                    carried.extend_from_slice(head);
                    visit(line, &carried)
                };
                carried.clear();
                rest = tail.get(1..).unwrap_or_default();
                if flow.is_break() {
                    return Ok(line);
                }
                line = Position {
                    offset: next - rest.len() as u64,
                    line: line.line + 1,
                };
            }
            carried.extend_from_slice(rest);
            if carried.len() > LONGEST_MATCHED_LINE {
                if visit(line, &carried).is_break() {
                    return Ok(line);
                }
                carried.clear();
            }
        }
    }
    if !carried.is_empty() {
        let _ = visit(line, &carried);
    }
    Ok(line)
}

/// A line that matched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Match {
    /// Its number.
    pub line: u64,
    /// Its text.
    pub text: String,
}

/// Watches output for a pattern, line by line, as it grows.
#[derive(Debug)]
pub struct PatternWatch<'a> {
    pattern: &'a Regex,
    /// The start of the first line that may still match.
    from: Position,
    /// Where the last look ended.
    seen: u64,
}

impl<'a> PatternWatch<'a> {
    /// A watch of what no result has shown, and of the unfinished last line.
    pub fn new(pattern: &'a Regex, delta: &Delta) -> PatternWatch<'a> {
        PatternWatch {
            pattern,
            from: delta.from,
            seen: 0,
        }
    }

    /// Where the last look ended.
    pub fn seen(&self) -> u64 {
        self.seen
    }

    /// Looks at what has come since.
    ///
    /// # Errors
    /// When a spool file cannot be read.
    pub fn look(&mut self, spool: &Spool, end: Position) -> io::Result<Option<Match>> {
        let mut found = None;
        self.from = for_each_line(spool, self.from, end.offset, |position, bytes| {
            let text = ansi::readable(bytes, Colours::Drop);
            if self.pattern.is_match(&text) {
                found = Some(Match {
                    line: position.line,
                    text,
                });
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        })?;
        self.seen = end.offset;
        Ok(found)
    }
}
