//! Reading a task's output for a result: an excerpt, within bounds that do not grow with the
//! output; a range of lines; a search; a watch for a pattern.

use std::io;
use std::ops::{ControlFlow, Range};

use super::effort::Effort;
use super::findings;
use super::spool::Spool;
use crate::task::stream::{Delta, StreamName};
use crate::text::ansi::{self, Colours};
use crate::text::lines::{
    self, Choice, LinePosition, OutputSpan, Piece, Position, Room, grouped, unfinished_character,
};
use crate::text::pattern::{GivenUp, Pattern};
use crate::text::segments;

/// How many bytes are read for each character of the result: four for UTF-8, and as many again
/// for escape sequences.
const BYTES_PER_CHAR: u64 = 8;
/// Lines of at most this many bytes are not cut where the head ends and the tail begins.
const ALIGNED_WITHIN: u64 = 4 * 1024;
/// How much is read at once to search the output.
const SEARCH_BYTES: u64 = 256 * 1024;
/// How much is read to see that a line has only ended: a terminal may add carriage returns to those
/// of the program.
const ENDING_BYTES: u64 = 16;
/// A longer line is searched in parts of this size.
const LONGEST_SEARCHED_LINE: usize = 4 * 1024 * 1024;
/// Only this much of the end of a longer growing line is watched.
const LONGEST_WATCHED_LINE: u64 = 64 * 1024;
/// An escape sequence that begins this close to the end of a part is left to the next part.
const SEQUENCE_BYTES: usize = 64;

/// How much to show, and of what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Amount {
    pub(crate) max_chars: usize,
    pub(crate) choice: Choice,
}

impl Amount {
    /// Both ends of the output, up to this many characters.
    pub(crate) fn of_ends(max_chars: usize) -> Amount {
        Amount { max_chars, choice: Choice::Ends }
    }
}

/// An excerpt of the output between `from`, where a line begins, and `to`: all of it if it is
/// small, else its head and its tail and, if they are wanted, lines that say what went wrong; gaps are
/// described.
///
/// # Errors
/// When a spool file cannot be read.
pub(crate) fn excerpt(
    spool: &Spool,
    from: Position,
    to: LinePosition,
    amount: Amount,
) -> io::Result<Vec<OutputSpan>> {
    let request = ReadRequest {
        lines: from.line..to.next_line(),
        from: LinePosition { at: from, inside_line: false },
        to,
        choice: amount.choice,
    };
    request.read(spool, amount.max_chars)
}

/// The output that no result has shown, ready for layout.
///
/// # Errors
/// A spool file cannot be read.
pub(crate) fn new_output(
    spool: &Spool,
    delta: &Delta,
    amount: Amount,
) -> io::Result<Vec<OutputSpan>> {
    if delta.new_bytes() == 0 {
        return Ok(Vec::new());
    }
    let from = match first_grown_line(spool, delta)? {
        Some(from) if from.offset < delta.to.at.offset => from,
        _ => return Ok(Vec::new()),
    };
    excerpt(spool, from, delta.to, amount)
}

/// Where the first line begins that is new or has grown since it was shown; `None` if only carriage
/// returns have come, which may belong to a line's end.
fn first_grown_line(spool: &Spool, delta: &Delta) -> io::Result<Option<Position>> {
    let from = delta.from;
    if from.offset == delta.new_from {
        return Ok(Some(from));
    }
    // Part of the first line was shown. If only its end has come, it is not shown again.
    let new = LinePosition {
        at: Position { offset: delta.new_from, line: from.line },
        inside_line: true,
    };
    let piece = spool.next_piece(new, delta.to.at.offset, ENDING_BYTES)?;
    let Some(piece) = piece.filter(|piece| piece.start.at.offset == delta.new_from) else {
        return Ok(Some(from));
    };
    let returns = piece.bytes.iter().take_while(|byte| **byte == b'\r').count();
    match piece.bytes.get(returns) {
        Some(b'\n') => {
            Ok(Some(Position { offset: delta.new_from + returns as u64 + 1, line: from.line + 1 }))
        }
        None if piece.end_offset() == delta.to.at.offset => Ok(None),
        _ => Ok(Some(from)),
    }
}

/// The retained part of the lines `first` to `last`, inclusive; empty if there is no line `first`.
///
/// # Errors
/// A spool file cannot be read.
pub(crate) fn range(
    spool: &Spool,
    first: u64,
    last: Option<u64>,
    end: LinePosition,
    max_chars: usize,
) -> io::Result<Vec<OutputSpan>> {
    let first = first.max(1);
    let Some(from) = spool.find_line(first, end)? else {
        return Ok(Vec::new());
    };
    let behind = last.map_or(u64::MAX, |last| last.saturating_add(1)).min(end.next_line());
    let to = spool.find_line(behind, end)?.unwrap_or(end);
    let request = ReadRequest { lines: first..behind, from, to, choice: Choice::Ends };
    request.read(spool, max_chars)
}

/// Lines to show, and where they are.
struct ReadRequest {
    lines: Range<u64>,
    /// Where the first of them begins, or the first retained position after that.
    from: LinePosition,
    to: LinePosition,
    choice: Choice,
}

impl ReadRequest {
    fn read(&self, spool: &Spool, max_chars: usize) -> io::Result<Vec<OutputSpan>> {
        let mut assembly = Assembly::begin(spool, self);
        for (from, to) in self.windows(spool, max_chars)? {
            for piece in spool.read(from, to)? {
                assembly.push(piece)?;
            }
        }
        assembly.finish()
    }

    /// The parts to read: everything, or head and tail.
    fn windows(&self, spool: &Spool, max_chars: usize) -> io::Result<Vec<(LinePosition, u64)>> {
        let Some(from) = spool.next_retained(self.from) else {
            return Ok(Vec::new());
        };
        let to = self.to.at.offset;
        let room = max_chars as u64 * BYTES_PER_CHAR;
        let (head, tail) = (room / 3 + 1, room - room / 3 + 1);
        if to.saturating_sub(from.at.offset) <= head + tail {
            return Ok(vec![(from, to)]);
        }
        let tail = spool.position_of(to - tail)?;
        let (Choice::Worth { .. }, Some(tail)) = (self.choice, tail) else {
            let mut windows = vec![(from, from.at.offset + head)];
            windows.extend(tail.map(|tail| (tail, to)));
            return Ok(windows);
        };
        // Lines are whole, if they are not long.
        let head = spool.position_of(from.at.offset + head)?.unwrap_or(from);
        let is_near = |one: u64, other: u64| one.abs_diff(other) <= ALIGNED_WITHIN;
        let whole = spool.find_line(head.at.line, self.to)?;
        let head = whole.filter(|whole| is_near(whole.at.offset, head.at.offset)).unwrap_or(head);
        let whole = spool.find_line(tail.next_line(), self.to)?;
        let tail = whole.filter(|whole| is_near(whole.at.offset, tail.at.offset)).unwrap_or(tail);
        let mut windows = vec![(from, head.at.offset)];
        windows.extend(findings::find(spool, head, tail.at.offset, room)?);
        windows.push((tail, to));
        Ok(findings::merged(windows))
    }
}

/// Joins pieces to spans: looks up what is missing between them, and covers each line once.
struct Assembly<'a> {
    spool: &'a Spool,
    request: &'a ReadRequest,
    spans: Vec<OutputSpan>,
    /// Where the last span ends.
    at: LinePosition,
    /// The first line that is not covered yet.
    next_line: u64,
}

impl<'a> Assembly<'a> {
    fn begin(spool: &'a Spool, request: &'a ReadRequest) -> Assembly<'a> {
        let mut assembly = Assembly {
            spool,
            request,
            spans: Vec::new(),
            at: request.from,
            next_line: request.lines.start,
        };
        if request.from.at.line > request.lines.start {
            assembly.miss(request.from.at.line, false, (0, 0));
        }
        assembly
    }

    fn push(&mut self, piece: Piece) -> io::Result<()> {
        self.bridge(piece.start, piece.start.at.line)?;
        self.at = piece.end();
        self.next_line = self.next_line.max(self.at.next_line());
        match self.spans.last_mut() {
            Some(OutputSpan::Read(last)) => last.bytes.extend_from_slice(&piece.bytes),
            _ => self.spans.push(OutputSpan::Read(piece)),
        }
        Ok(())
    }

    /// Describes what is missing up to `to`; the first line that is not missing is `behind`.
    fn bridge(&mut self, to: LinePosition, behind: u64) -> io::Result<()> {
        if to.at.offset <= self.at.at.offset {
            return Ok(());
        }
        for (start, end) in self.spool.retained(self.at, to) {
            if start.at.offset > self.at.at.offset {
                self.miss(start.at.line, false, self.gone_before(start));
            }
            let reaches = end.at.offset >= to.at.offset;
            let parts = self.parts_of_lines(start, end)?;
            self.miss(if reaches { behind } else { end.next_line() }, true, parts);
            self.at = end;
        }
        if self.at.at.offset < to.at.offset {
            self.miss(behind, false, self.gone_before(to));
            self.at = to;
        }
        Ok(())
    }

    /// How many bytes of `[start, end)`, all of which are retained, belong to the line shown
    /// before, and how many to the line shown after.
    fn parts_of_lines(&self, start: LinePosition, end: LinePosition) -> io::Result<(u64, u64)> {
        let all = end.at.offset - start.at.offset;
        if start.at.line == end.at.line {
            return Ok(if start.inside_line { (all, 0) } else { (0, all) });
        }
        let begin_of = |line| -> io::Result<u64> {
            let place = self.spool.find_line(line, self.request.to)?;
            let offset = place.map_or(end.at.offset, |place| place.at.offset);
            Ok(offset.clamp(start.at.offset, end.at.offset))
        };
        let of_line_before =
            if start.inside_line { begin_of(start.at.line + 1)? - start.at.offset - 1 } else { 0 };
        let of_line_after =
            if end.inside_line { end.at.offset - begin_of(end.at.line)? } else { 0 };
        Ok((of_line_before, of_line_after))
    }

    /// As [`Assembly::parts_of_lines`], for output that is gone up to `to`; known only within one
    /// line.
    fn gone_before(&self, to: LinePosition) -> (u64, u64) {
        if self.at.inside_line && self.at.at.line == to.at.line {
            (to.at.offset - self.at.at.offset, 0)
        } else {
            (0, 0)
        }
    }

    fn miss(&mut self, behind: u64, readable: bool, parts: (u64, u64)) {
        let behind = behind.min(self.request.lines.end).max(self.next_line);
        let lines = self.next_line..behind;
        self.next_line = behind;
        self.spans.push(OutputSpan::Missing {
            lines,
            readable,
            of_line_before: parts.0,
            of_line_after: parts.1,
        });
    }

    fn finish(mut self) -> io::Result<Vec<OutputSpan>> {
        self.bridge(self.request.to, self.request.lines.end)?;
        if self.next_line < self.request.lines.end {
            // The requested lines begin in a gap, after which nothing is retained.
            self.miss(self.request.lines.end, false, (0, 0));
        }
        Ok(self.spans)
    }
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct LinePart {
    /// As plain text, with a marker where bytes of it are gone.
    pub(crate) text: String,
    /// The number of its first character in the line.
    pub(crate) first: u64,
    /// The number of the next character, and how many bytes remain from there to the line's end;
    /// `None` if the part reaches the end.
    pub(crate) rest: Option<(u64, u64)>,
}

/// As much as fits of a line, from its `first` character on; `None` if the line does not exist or
/// nothing of it is retained. If the line's beginning is gone, characters are counted from where it
/// is retained. A `first` beyond the line's end is moved there.
///
/// # Errors
/// A spool file cannot be read.
pub(crate) fn line_part(
    spool: &Spool,
    line: u64,
    first: u64,
    end: LinePosition,
    columns: Option<u16>,
    mut room: Room,
) -> io::Result<Option<LinePart>> {
    let from = spool.find_line(line, end)?;
    let Some(from) = from.filter(|from| from.at.line == line) else {
        return Ok(None);
    };
    let next = spool.find_line(line + 1, end)?;
    let line_end = next.map_or(end.at.offset, |next| next.at.offset);
    let newline = u64::from(line < end.at.line);
    let mut part = LinePart::default();
    let (mut passed, mut read_to) = (0, from.at.offset);
    for_each_line(spool, from, line_end, |position, bytes| {
        if position.line != line {
            return ControlFlow::Break(());
        }
        if position.offset > read_to {
            let gone = grouped(position.offset - read_to);
            part.text.push_str(&format!("… {gone} bytes gone …"));
            read_to = position.offset;
        }
        read_to += bytes.len() as u64;
        let text = lines::text_of(bytes, Colours::Drop, columns);
        let chars = text.chars().count() as u64;
        let skipped = (first - 1).saturating_sub(passed).min(chars);
        let wanted = text
            .char_indices()
            .nth(usize::try_from(skipped).unwrap_or(usize::MAX))
            .and_then(|(place, _)| text.get(place..))
            .unwrap_or_default();
        let fitting = room.take(wanted);
        part.text.push_str(fitting);
        passed += skipped + fitting.chars().count() as u64;
        let left = wanted.len() - fitting.len();
        if left > 0 {
            // The newline is no part of it.
            let unread = line_end.saturating_sub(read_to + newline);
            part.rest = Some((passed + 1, left as u64 + unread));
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    })?;
    if part.rest.is_none() && read_to + newline < line_end {
        // What is gone after it includes the line's end.
        part.text.push('…');
    }
    part.first = first.min(passed + 1);
    Ok(Some(part))
}

/// How much of the output's end is read for its last line.
const LAST_LINE_BYTES: u64 = 4096;

/// The unfinished line at the output's end as plain text, up to the cursor:
/// where prompts are.
pub(crate) fn unfinished_line(
    spool: &Spool,
    line_start: Position,
    end: Position,
    columns: Option<u16>,
) -> String {
    let from = end.offset.saturating_sub(LAST_LINE_BYTES);
    let bytes = newest_bytes(spool, from.max(line_start.offset), end.offset);
    ansi::prompt(&bytes, columns)
}

/// The newest line of the output as plain text, for progress messages.
pub(crate) fn last_line(
    spool: &Spool,
    line_start: Position,
    end: Position,
    columns: Option<u16>,
) -> Option<String> {
    let at_end = end.offset.saturating_sub(line_start.offset);
    let from = if at_end > 0 && at_end <= LAST_LINE_BYTES {
        line_start.offset
    } else {
        end.offset.saturating_sub(LAST_LINE_BYTES)
    };
    newest_bytes(spool, from, end.offset)
        .split(|byte| *byte == b'\n')
        .rev()
        .map(|line| newest_part(line, columns))
        .find(|text| !text.trim().is_empty())
}

/// How much of the newest output is read for its last lines.
const NEWEST_BYTES: u64 = 8 * 1024;

/// The newest lines of an output, and how far it has been read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Newest {
    /// As plain text, in order.
    pub(crate) lines: Vec<String>,
    /// Whether the only line has not ended.
    pub(crate) unfinished: bool,
    /// Where the next reading begins.
    pub(crate) read_to: u64,
}

/// The newest whole lines of the output after `from`, at most `limit` of them, from its last
/// [`NEWEST_BYTES`]. Leaves an unfinished line to the next reading, since it ends at random, unless
/// nothing else has come: a progress bar or a row of dots may never end its line.
pub(crate) fn newest_lines(
    spool: &Spool,
    from: u64,
    end: Position,
    limit: usize,
    columns: Option<u16>,
) -> Newest {
    let from = from.min(end.offset);
    let bytes = newest_bytes(spool, from.max(end.offset.saturating_sub(NEWEST_BYTES)), end.offset);
    let begins = end.offset - bytes.len() as u64;
    let last = memchr::memrchr(b'\n', &bytes);
    let (read, read_to) = match last {
        Some(last) => (bytes.get(..last).unwrap_or_default(), begins + last as u64 + 1),
        None => (&bytes[..], end.offset),
    };
    let mut lines: Vec<&[u8]> = read.split(|byte| *byte == b'\n').collect();
    if begins > from && lines.len() > 1 {
        lines.remove(0);
    }
    let mut lines: Vec<String> = lines
        .into_iter()
        .rev()
        .map(|line| newest_part(line, columns))
        .filter(|line| !line.trim().is_empty())
        .take(limit)
        .collect();
    lines.reverse();
    Newest { lines, unfinished: last.is_none(), read_to }
}

/// How much of the beginning of an output is read to learn from it.
const HEAD_BYTES: u64 = 4 * 1024;
/// How much of the end of an output is read to learn from it.
const TAIL_BYTES: u64 = 32 * 1024;

/// The retained beginning and end of the output as plain text, each of bounded length. They may
/// overlap.
pub(crate) fn head_and_tail(spool: &Spool, end: Position) -> (String, String) {
    let head = spool.read(LinePosition::FIRST, end.offset.min(HEAD_BYTES)).unwrap_or_default();
    let head = head.first().map_or(&[][..], |piece| &piece.bytes);
    let tail = newest_bytes(spool, end.offset.saturating_sub(TAIL_BYTES), end.offset);
    (plain_lines(head, None), plain_lines(&tail, None))
}

/// The text of `[from, to)`, or as much of its end as [`head_and_tail`] returns.
pub(crate) fn newest_text(spool: &Spool, from: u64, to: u64, columns: Option<u16>) -> String {
    let from = from.max(to.saturating_sub(TAIL_BYTES));
    plain_lines(&newest_bytes(spool, from, to), columns)
}

fn plain_lines(bytes: &[u8], columns: Option<u16>) -> String {
    let lines = bytes.split(|byte| *byte == b'\n');
    let lines: Vec<String> =
        lines.map(|line| lines::text_of(line, Colours::Drop, columns)).collect();
    lines.join("\n")
}

/// What a line shows now, as plain text: on a pipe, what follows its last carriage return.
fn newest_part(line: &[u8], columns: Option<u16>) -> String {
    let newest = segments::of(line, columns).pop().unwrap_or(line);
    ansi::readable(newest, Colours::Drop, columns)
}

/// What is retained at the end of `[from, to)` without a gap; empty if it cannot be read.
fn newest_bytes(spool: &Spool, from: u64, to: u64) -> Vec<u8> {
    // The line number does not matter.
    let from = LinePosition { at: Position { offset: from, line: 1 }, inside_line: true };
    let mut pieces = spool.read(from, to).unwrap_or_default();
    pieces.pop().map(|piece| piece.bytes).unwrap_or_default()
}

/// How much of the end of an output is searched for reports of its shell.
const REPORTS_BYTES: u64 = 16 * 1024 * 1024;

/// Visits the newest lines, but only in those pieces of the output of which `may_matter` is true: for
/// most output, that alone is looked at. The last, unfinished line counts as one.
///
/// # Errors
/// A spool file cannot be read.
pub(crate) fn visit_newest(
    spool: &Spool,
    end: Position,
    may_matter: impl Fn(&[u8]) -> bool,
    mut visit: impl FnMut(&[u8]) -> ControlFlow<()>,
) -> io::Result<()> {
    let mut visit_all = |bytes: &[u8]| {
        if !may_matter(bytes) {
            return ControlFlow::Continue(());
        }
        bytes.split(|byte| *byte == b'\n').try_for_each(&mut visit)
    };
    let offset = end.offset.saturating_sub(REPORTS_BYTES);
    // The line number does not matter.
    let mut next = LinePosition { at: Position { offset, line: 1 }, inside_line: offset > 0 };
    let mut unfinished: Vec<u8> = Vec::new();
    while let Some(piece) = spool.next_piece(next, end.offset, SEARCH_BYTES)? {
        next = piece.end();
        let whole = memchr::memrchr(b'\n', &piece.bytes).map_or(0, |newline| newline + 1);
        let (lines, rest) = piece.bytes.split_at(whole);
        if !unfinished.is_empty() && whole > 0 {
            let first = memchr::memchr(b'\n', lines).unwrap_or(whole);
            unfinished.extend_from_slice(lines.get(..first).unwrap_or_default());
            if visit_all(&unfinished).is_break() {
                return Ok(());
            }
            unfinished.clear();
        }
        if visit_all(lines).is_break() {
            return Ok(());
        }
        // No report is as long as that.
        if unfinished.len() < LONGEST_SEARCHED_LINE {
            unfinished.extend_from_slice(rest);
        }
    }
    let _ = visit_all(&unfinished);
    Ok(())
}

/// Visits the lines of `[from, to)` in bounded memory. The last, unfinished line counts as one,
/// and so does what is retained of a line that a gap cuts. The visitor gets the number, where the
/// line begins, and its bytes; a very long line comes in parts with the same number. Returns
/// where the last line begins.
///
/// # Errors
/// A spool file cannot be read.
pub(crate) fn for_each_line(
    spool: &Spool,
    from: LinePosition,
    to: u64,
    mut visit: impl FnMut(Position, &[u8]) -> ControlFlow<()>,
) -> io::Result<LinePosition> {
    let mut carried: Vec<u8> = Vec::new();
    let mut line = from;
    let mut next = from;
    while let Some(piece) = spool.next_piece(next, to, SEARCH_BYTES)? {
        if piece.start.at.offset != next.at.offset {
            // Output is gone in between: the line before ends here, and another begins.
            if !carried.is_empty() && visit(line.at, &carried).is_break() {
                return Ok(line);
            }
            carried.clear();
            line = piece.start;
        }
        next = piece.end();
        let mut rest = piece.bytes.as_slice();
        while let Some(newline) = memchr::memchr(b'\n', rest) {
            let (head, tail) = rest.split_at(newline);
            let flow = if carried.is_empty() {
                visit(line.at, head)
            } else {
                carried.extend_from_slice(head);
                visit(line.at, &carried)
            };
            carried.clear();
            rest = tail.get(1..).unwrap_or_default();
            if flow.is_break() {
                return Ok(line);
            }
            line = LinePosition {
                at: Position { offset: next.at.offset - rest.len() as u64, line: line.at.line + 1 },
                inside_line: false,
            };
        }
        carried.extend_from_slice(rest);
        if carried.len() > LONGEST_SEARCHED_LINE {
            let (part, _) = carried.split_at(whole_characters(&carried));
            if visit(line.at, part).is_break() {
                return Ok(line);
            }
            let visited = part.len();
            carried.drain(..visited);
        }
    }
    if !carried.is_empty() {
        let _ = visit(line.at, &carried);
    }
    Ok(line)
}

/// How many bytes of a part of a line can be read without the rest: not an incomplete character or
/// escape sequence at its end.
fn whole_characters(part: &[u8]) -> usize {
    let whole = part.len() - unfinished_character(part);
    let tail = whole.saturating_sub(SEQUENCE_BYTES);
    let sequence = part.get(tail..whole).and_then(|tail| memchr::memrchr(0x1b, tail));
    sequence.map_or(whole, |place| tail + place)
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Match {
    pub stream: StreamName,
    pub line: u64,
    pub text: String,
}

/// Watches growing output for a pattern, line by line.
#[derive(Debug)]
pub(crate) struct PatternWatch<'a> {
    pattern: &'a Pattern,
    pub(crate) stream: StreamName,
    columns: Option<u16>,
    /// The start of the first line that may still match.
    from: LinePosition,
    /// Where the last search ended.
    pub(crate) seen: u64,
    /// Lines before this offset do not count.
    after: u64,
    /// Lines that were typed, each with the number of the line that is its echo, once seen.
    typed: Vec<(String, Option<u64>)>,
}

impl<'a> PatternWatch<'a> {
    /// Watches the output that no result has shown, including the unfinished last line.
    pub(crate) fn new(
        pattern: &'a Pattern,
        stream: StreamName,
        delta: &Delta,
        columns: Option<u16>,
    ) -> PatternWatch<'a> {
        PatternWatch {
            pattern,
            stream,
            columns,
            from: LinePosition { at: delta.from, inside_line: false },
            seen: 0,
            after: 0,
            typed: Vec::new(),
        }
    }

    /// Neither lines that end before `after` nor the echo of what is typed count.
    pub(crate) fn begin_after_input(&mut self, after: u64, typed: &str) {
        self.after = after;
        let lines = typed.lines().map(str::trim).filter(|line| !line.is_empty());
        self.typed = lines.map(|line| (line.to_owned(), None)).collect();
    }

    /// Searches the output that has come since the last search. `Err` within the result: it was too
    /// much work.
    ///
    /// # Errors
    /// When a spool file cannot be read.
    pub(crate) fn search(
        &mut self,
        spool: &Spool,
        end: Position,
        effort: &mut Effort<'_>,
    ) -> io::Result<Option<Result<Match, GivenUp>>> {
        let mut found = None;
        self.from = for_each_line(spool, self.from, end.offset, |position, bytes| {
            let line_end = position.offset.saturating_add(bytes.len() as u64);
            if line_end <= self.after {
                return ControlFlow::Continue(());
            }
            let texts: Vec<String> = segments::searchable(bytes, self.columns).collect();
            let is_echo_of = |(typed, line): &&mut (String, Option<u64>)| {
                line.is_none_or(|line| line == position.line)
                    && texts.iter().any(|text| text.trim_end().ends_with(typed.as_str()))
            };
            if let Some((_, line)) = self.typed.iter_mut().find(is_echo_of) {
                *line = Some(position.line);
                return ControlFlow::Continue(());
            }
            for text in texts {
                found = match effort.is_match(self.pattern, &text) {
                    Ok(false) => continue,
                    Ok(true) => Some(Ok(Match { stream: self.stream, line: position.line, text })),
                    Err(given_up) => Some(Err(given_up)),
                };
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        })?;
        effort.pause();
        self.seen = end.offset;
        self.forget_the_beginning_of_a_long_line(end);
        Ok(found)
    }

    /// An unfinished line is searched again when it has grown. Of a line that grows without end
    /// only the newest part is searched, since each search would cost more than the last.
    fn forget_the_beginning_of_a_long_line(&mut self, end: Position) {
        let newest = end.offset.saturating_sub(LONGEST_WATCHED_LINE);
        if self.from.at.offset < newest {
            self.from.at.offset = newest;
            self.from.inside_line = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::task::output::budget::Budget;
    use crate::task::output::spool::SpoolWriter;

    const QUOTA: u64 = 4 * 1024 * 1024;
    const ROOM: usize = 1_000;

    fn writer() -> SpoolWriter {
        SpoolWriter::new(None, QUOTA, Budget::new(QUOTA))
    }

    fn delta(from: Position, new_from: u64, writer: &SpoolWriter) -> Delta {
        Delta { from, new_from, to: writer.line_end() }
    }

    /// `text`, `+40` for lines that can be read, `-40` for lines that are gone.
    fn outline(spans: &[OutputSpan]) -> Vec<String> {
        spans
            .iter()
            .map(|span| match span {
                OutputSpan::Read(piece) => format!("from {}", piece.start.at.line),
                OutputSpan::Missing { lines, readable, .. } => {
                    let sign = if *readable { '+' } else { '-' };
                    format!("{sign}{}..{}", lines.start, lines.end)
                }
                OutputSpan::Data { .. } => "data".to_owned(),
            })
            .collect()
    }

    #[test]
    fn a_line_is_visited_whole_wherever_pieces_of_the_output_part_it() {
        let line = b"zsh:1: no matches found: *.c";
        for before in 0..=line.len() + 1 {
            let mut writer = writer();
            writer.append(&vec![b'x'; SEARCH_BYTES as usize - before]);
            writer.append(b"\n");
            writer.append(line);
            writer.append(b"\nlast");
            let mut visited = Vec::new();
            let visit = |seen: &[u8]| {
                visited.push(seen.to_vec());
                ControlFlow::Continue(())
            };
            let matters = |bytes: &[u8]| memchr::memmem::find(bytes, b"zsh:").is_some();
            visit_newest(&writer.reader(), writer.end(), matters, visit).expect("memory");
            assert!(visited.iter().any(|seen| seen == line), "{before}");
            assert!(visited.iter().all(|seen| seen != b"last"), "{before}");
        }
    }

    #[test]
    fn lines_behind_a_gap_keep_their_numbers_wherever_reading_begins() {
        let writer = SpoolWriter::count_to(2_000_000);
        let (spool, end) = (writer.reader(), writer.line_end());
        for first in [1, 100_000, 700_000, 1_000_000, 1_900_000] {
            let from = spool.find_line(first, end).expect("memory");
            let (mut seen, mut wrong) = (0, Vec::new());
            let visit = |position: Position, bytes: &[u8]| {
                seen += 1;
                let text = String::from_utf8_lossy(bytes);
                if text != position.line.to_string() {
                    wrong.push(format!("{}: {text}", position.line));
                }
                ControlFlow::Continue(())
            };
            let from = from.expect("the line exists");
            for_each_line(&spool, from, end.at.offset, visit).expect("memory");
            assert!(seen > 90_000, "{seen}");
            // Only the lines that the gap cuts may be incomplete.
            assert!(wrong.len() <= 2, "{wrong:?}");
            for cut in wrong {
                let (number, text) = cut.split_once(": ").expect("both");
                assert!(number.contains(text), "{cut}");
            }
        }
    }

    #[test]
    fn an_excerpt_distinguishes_omitted_lines_from_lines_that_are_gone() {
        let writer = SpoolWriter::count_to(2_000_000);
        let (spool, end) = (writer.reader(), writer.line_end());
        let all =
            excerpt(&spool, LinePosition::FIRST.at, end, Amount::of_ends(ROOM)).expect("memory");
        let [
            OutputSpan::Read(head),
            OutputSpan::Missing { lines: first, readable: true, .. },
            OutputSpan::Missing { lines: gone, readable: false, .. },
            OutputSpan::Missing { lines: second, readable: true, .. },
            OutputSpan::Read(tail),
        ] = &all[..]
        else {
            panic!("{:?}", outline(&all));
        };
        assert_eq!(first.start, head.end().next_line());
        assert_eq!((first.end, gone.end), (gone.start, second.start));
        assert_eq!(second.end, tail.start.at.line);
    }

    #[test]
    fn a_requested_range_may_begin_or_end_in_a_gap() {
        let writer = SpoolWriter::count_to(2_000_000);
        let (spool, end) = (writer.reader(), writer.line_end());
        let all =
            excerpt(&spool, LinePosition::FIRST.at, end, Amount::of_ends(ROOM)).expect("memory");
        let Some(OutputSpan::Missing { lines: gone, .. }) = all.get(2) else {
            panic!("{:?}", outline(&all));
        };
        let (first, last) = (gone.start + 10, gone.end + 3);
        let begins = range(&spool, first, Some(last), end, ROOM).expect("memory");
        let expected = [format!("-{first}..{}", gone.end), format!("from {}", gone.end)];
        assert_eq!(outline(&begins), expected);
        let (first, last) = (gone.start - 3, gone.end - 10);
        let ends = range(&spool, first, Some(last), end, ROOM).expect("memory");
        let expected = [format!("from {first}"), format!("-{}..{}", gone.start, last + 1)];
        assert_eq!(outline(&ends), expected);
        let (first, last) = (gone.start + 10, gone.end - 10);
        let within = range(&spool, first, Some(last), end, ROOM).expect("memory");
        assert_eq!(outline(&within), [format!("-{first}..{}", last + 1)]);
        let first_gone = Position { offset: 1_100_000, line: first };
        let since = delta(first_gone, 1_100_000, &writer);
        let since = new_output(&spool, &since, Amount::of_ends(ROOM)).expect("memory");
        assert_eq!(outline(&since)[0], format!("-{first}..{}", gone.end));
    }

    #[test]
    fn every_line_of_output_that_is_gone_is_reported_as_gone() {
        let folder = tempfile::tempdir().expect("a folder");
        let base = folder.path().join("task");
        let mut writer = SpoolWriter::new(Some(base), QUOTA, Budget::new(QUOTA));
        writer.append(b"one\ntwo\nthree");
        let (spool, end) = (writer.reader(), writer.line_end());
        spool.remove();
        let all = excerpt(&spool, LinePosition::FIRST.at, end, Amount::of_ends(ROOM))
            .expect("nothing to read");
        assert_eq!(outline(&all), ["-1..4"]);
        let last = range(&spool, 3, None, end, ROOM).expect("nothing to read");
        assert_eq!(outline(&last), ["-3..4"]);
    }

    #[test]
    fn the_number_of_newest_lines_is_limited() {
        let mut writer = writer();
        writer.append(b"old\n");
        let from = writer.end().offset;
        let newest = |writer: &SpoolWriter, from: u64| {
            newest_lines(&writer.reader(), from, writer.end(), 3, None)
        };
        assert_eq!(newest(&writer, from).lines, Vec::<String>::new());
        writer.append(b"one\n\n\x1b[31mtwo\x1b[0m\nthr");
        let read = newest(&writer, from);
        assert_eq!(read.lines, ["one", "two"]);
        writer.append(b"ee\n");
        assert_eq!(newest(&writer, read.read_to).lines, ["three"]);
        for line in 0..100_000 {
            writer.append(format!("line {line}\n").as_bytes());
        }
        let wanted = ["line 99997", "line 99998", "line 99999"];
        assert_eq!(newest(&writer, from).lines, wanted);
    }

    #[test]
    fn a_line_that_never_ends_is_read_as_it_grows() {
        let mut writer = writer();
        let mut read_to = 0;
        for (more, shown) in [("10%\r20%", "20%"), ("\r30%", "30%"), ("\r40%", "40%")] {
            writer.append(more.as_bytes());
            let newest = newest_lines(&writer.reader(), read_to, writer.end(), 3, None);
            assert_eq!(newest.lines, [shown]);
            read_to = newest.read_to;
        }
    }

    #[test]
    fn a_flood_of_one_line_is_read_as_whole_lines() {
        let mut writer = writer();
        let line = format!("{}\n", "a line that is long and the same for ever ".repeat(5));
        let flood = line.repeat(100);
        let mut read_to = 0;
        for bytes in flood.as_bytes().chunks(line.len() * 50 / 7) {
            writer.append(bytes);
            let newest = newest_lines(&writer.reader(), read_to, writer.end(), 20, None);
            let whole = |shown: &String| shown.trim_end() == line.trim_end();
            assert!(newest.lines.iter().all(whole));
            read_to = newest.read_to;
        }
    }

    #[test]
    fn a_line_that_has_only_ended_is_not_shown_again() {
        let mut writer = writer();
        writer.append(b"a");
        for (more, shown) in [("\r", 0), ("\n", 0), ("b", 1), ("\r\r\n", 0), ("c", 1), ("\rd", 1)] {
            let new_from = writer.end().offset;
            let begun = writer.line_start();
            writer.append(more.as_bytes());
            let delta = delta(begun, new_from, &writer);
            let spans =
                new_output(&writer.reader(), &delta, Amount::of_ends(ROOM)).expect("memory");
            assert_eq!(spans.len(), shown, "{more:?}");
        }
    }

    #[test]
    fn a_half_line_before_a_gap_and_one_behind_it_are_two_lines() {
        let mut writer = SpoolWriter::new(None, 80, Budget::new(QUOTA));
        for number in 0..20 {
            writer.append(format!("line {number:02} of twenty\n").as_bytes());
        }
        let mut lines = Vec::new();
        let visit = |position: Position, bytes: &[u8]| {
            lines.push((position.line, String::from_utf8_lossy(bytes).into_owned()));
            ControlFlow::Continue(())
        };
        let end = writer.end().offset;
        for_each_line(&writer.reader(), LinePosition::FIRST, end, visit).expect("memory");
        assert_eq!(lines[0], (1, "line 00 of twenty".to_owned()));
        assert_eq!(lines[1], (2, "li".to_owned()));
        assert!("line 17 of twenty".ends_with(&lines[2].1), "{lines:?}");
        assert_eq!(lines.last(), Some(&(20, "line 19 of twenty".to_owned())));
    }

    /// All of a line, in parts of at most `chars` characters each.
    fn parts_of(writer: &SpoolWriter, line: u64, chars: usize) -> Vec<String> {
        let (spool, end) = (writer.reader(), writer.line_end());
        let mut parts = Vec::new();
        let mut next = 1;
        loop {
            let room = Room::with_chars(chars);
            let part = line_part(&spool, line, next, end, None, room).expect("memory");
            let part = part.expect("the line exists");
            assert_eq!(part.first, next);
            parts.push(part.text);
            match part.rest {
                Some((character, bytes)) => {
                    assert!(character > next && bytes > 0);
                    next = character;
                }
                None => return parts,
            }
        }
    }

    #[test]
    fn a_line_is_read_whole_in_parts_wherever_they_end() {
        let mut writer = writer();
        let long: String = (0..1_000).map(|n| format!("ä{n}🦀")).collect();
        writer.append(format!("before\n\x1b[31m{long}\x1b[0m\r\nbehind").as_bytes());
        for chars in [7, 1_000, 100_000] {
            let parts = parts_of(&writer, 2, chars);
            assert_eq!(parts.concat(), long, "{chars}");
        }
        assert_eq!(parts_of(&writer, 1, 3), ["bef", "ore"]);
        assert_eq!(parts_of(&writer, 3, 100), ["behind"]);
        let (spool, end) = (writer.reader(), writer.line_end());
        let beyond = line_part(&spool, 3, 50, end, None, Room::with_chars(10)).expect("memory");
        assert_eq!(beyond.map(|part| (part.text, part.first)), Some((String::new(), 7)));
        let none = line_part(&spool, 4, 1, end, None, Room::with_chars(10)).expect("memory");
        assert_eq!(none, None);
    }

    #[test]
    fn a_line_beyond_all_bounds_is_split_between_characters() {
        let quota = 64 * 1024 * 1024;
        let folder = tempfile::tempdir().expect("a folder");
        let base = Some(folder.path().join("task"));
        let mut writer = SpoolWriter::new(base, quota, Budget::new(quota));
        let long = "日本".repeat(LONGEST_SEARCHED_LINE / 4);
        writer.append(long.as_bytes());
        let mut read = String::new();
        let mut parts = 0;
        for_each_line(
            &writer.reader(),
            LinePosition::FIRST,
            long.len() as u64,
            |position, bytes| {
                assert_eq!(position.line, 1);
                read += std::str::from_utf8(bytes).expect("whole characters");
                parts += 1;
                ControlFlow::Continue(())
            },
        )
        .expect("a readable spool");
        assert!(parts > 1 && read == long, "{parts} parts");
    }

    #[test]
    fn a_line_that_is_read_in_part_has_the_number_of_the_other_bytes() {
        let mut writer = writer();
        let long = |letter: &str| letter.repeat(100_000);
        writer.append(format!("{}\nmiddle\n{}\n", long("a"), long("b")).as_bytes());
        let (spool, end) = (writer.reader(), writer.line_end());
        let all =
            excerpt(&spool, LinePosition::FIRST.at, end, Amount::of_ends(ROOM)).expect("memory");
        let [
            OutputSpan::Read(head),
            OutputSpan::Missing { lines, of_line_before, of_line_after, .. },
            OutputSpan::Read(tail),
        ] = &all[..]
        else {
            panic!("{:?}", outline(&all));
        };
        assert_eq!(*lines, 2..3);
        assert_eq!(head.bytes.len() as u64 + of_line_before, 100_000);
        assert_eq!(tail.bytes.len() as u64 - 1 + of_line_after, 100_000);
        let first = range(&spool, 1, Some(1), end, ROOM).expect("memory");
        let [
            OutputSpan::Read(head),
            OutputSpan::Missing { of_line_before, .. },
            OutputSpan::Read(tail),
        ] = &first[..]
        else {
            panic!("{:?}", outline(&first));
        };
        let read = (head.bytes.len() + tail.bytes.len()) as u64;
        assert_eq!(read + of_line_before, 100_001);
    }
}
