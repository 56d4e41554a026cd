//! Reading a task's output for a result: the part that is to be shown, within bounds
//! that do not grow with the output; a range of lines; a search; a watch for a pattern.

use std::io;
use std::ops::{ControlFlow, Range};

use regex::Regex;

use super::live::Delta;
use super::spool::Spool;
use crate::text::ansi::{self, Colours};
use crate::text::lines::{Piece, Place, Position, Stretch};

/// Bytes read for each character that may be shown: four for UTF-8, and as much again
/// for escape sequences.
const BYTES_PER_CHAR: u64 = 8;
/// Read at once when output is searched.
const SEARCH_BYTES: u64 = 256 * 1024;
/// How much is looked at to see that a line has only ended: a terminal may add carriage
/// returns to those of the program.
const ENDING_BYTES: u64 = 16;
/// A longer line is searched in parts of this size.
const LONGEST_MATCHED_LINE: usize = 64 * 1024;

/// What is to be shown of the output between `from`, where a line begins, and `to`: all
/// of it if it is small, else its head and its tail; what is missing is told.
///
/// # Errors
/// When a spool file cannot be read.
pub fn excerpt(
    spool: &Spool,
    from: Position,
    to: Place,
    max_chars: usize,
) -> io::Result<Vec<Stretch>> {
    let asked = Asked {
        lines: from.line..to.next_line(),
        from: Place {
            at: from,
            inside_line: false,
        },
        to,
    };
    asked.read(spool, max_chars)
}

/// What no result has shown, ready for layout.
///
/// # Errors
/// When a spool file cannot be read.
pub fn new_output(spool: &Spool, delta: &Delta, max_chars: usize) -> io::Result<Vec<Stretch>> {
    if delta.new_bytes() == 0 {
        return Ok(Vec::new());
    }
    let from = match first_grown_line(spool, delta)? {
        Some(from) if from.offset < delta.to.at.offset => from,
        _ => return Ok(Vec::new()),
    };
    excerpt(spool, from, delta.to, max_chars)
}

/// Where the first line begins that has not been shown as it stands; `None`: nothing has
/// come but the carriage returns that may belong to a line's end.
fn first_grown_line(spool: &Spool, delta: &Delta) -> io::Result<Option<Position>> {
    let from = delta.from;
    if from.offset == delta.new_from {
        return Ok(Some(from));
    }
    // Part of the first line was shown. If nothing but its end came, it has not grown
    // and is not shown again.
    let new = Place {
        at: Position {
            offset: delta.new_from,
            line: from.line,
        },
        inside_line: true,
    };
    let piece = spool.next_piece(new, delta.to.at.offset, ENDING_BYTES)?;
    let Some(piece) = piece.filter(|piece| piece.start.at.offset == delta.new_from) else {
        return Ok(Some(from));
    };
    let returns = piece
        .bytes
        .iter()
        .take_while(|byte| **byte == b'\r')
        .count();
    match piece.bytes.get(returns) {
        Some(b'\n') => Ok(Some(Position {
            offset: delta.new_from + returns as u64 + 1,
            line: from.line + 1,
        })),
        None if piece.end_offset() == delta.to.at.offset => Ok(None),
        _ => Ok(Some(from)),
    }
}

/// Lines `first` to `last`, both included; what is retained of them. Empty when there is
/// no line `first`.
///
/// # Errors
/// When a spool file cannot be read.
pub fn range(
    spool: &Spool,
    first: u64,
    last: Option<u64>,
    end: Place,
    max_chars: usize,
) -> io::Result<Vec<Stretch>> {
    let first = first.max(1);
    let Some(from) = spool.find_line(first, end)? else {
        return Ok(Vec::new());
    };
    let behind = last
        .map_or(u64::MAX, |last| last.saturating_add(1))
        .min(end.next_line());
    let to = spool.find_line(behind, end)?.unwrap_or(end);
    let asked = Asked {
        lines: first..behind,
        from,
        to,
    };
    asked.read(spool, max_chars)
}

/// Lines that are to be shown, and where they are.
struct Asked {
    lines: Range<u64>,
    /// Where the first of them begins, or what is retained behind that.
    from: Place,
    to: Place,
}

impl Asked {
    fn read(&self, spool: &Spool, max_chars: usize) -> io::Result<Vec<Stretch>> {
        let mut assembly = Assembly::begin(spool, self);
        for (from, to) in self.windows(spool, max_chars)? {
            for piece in spool.read(from, to)? {
                assembly.push(piece);
            }
        }
        Ok(assembly.finish())
    }

    /// The parts that are read: all, or head and tail.
    fn windows(&self, spool: &Spool, max_chars: usize) -> io::Result<Vec<(Place, u64)>> {
        let Some(from) = spool.goes_on(self.from) else {
            return Ok(Vec::new());
        };
        let to = self.to.at.offset;
        let room = max_chars as u64 * BYTES_PER_CHAR;
        let (head, tail) = (room / 3 + 1, room - room / 3 + 1);
        if to.saturating_sub(from.at.offset) <= head + tail {
            return Ok(vec![(from, to)]);
        }
        let mut windows = vec![(from, from.at.offset + head)];
        windows.extend(spool.place_of(to - tail)?.map(|tail| (tail, to)));
        Ok(windows)
    }
}

/// Pieces on their way to stretches: what is missing between them is looked up, and
/// each line told once.
struct Assembly<'a> {
    spool: &'a Spool,
    asked: &'a Asked,
    stretches: Vec<Stretch>,
    /// Where the last stretch ends.
    at: Place,
    /// The first line that is not told of.
    next_line: u64,
}

impl<'a> Assembly<'a> {
    fn begin(spool: &'a Spool, asked: &'a Asked) -> Assembly<'a> {
        let mut assembly = Assembly {
            spool,
            asked,
            stretches: Vec::new(),
            at: asked.from,
            next_line: asked.lines.start,
        };
        if asked.from.at.line > asked.lines.start {
            assembly.miss(asked.from.at.line, false);
        }
        assembly
    }

    fn push(&mut self, piece: Piece) {
        self.bridge(piece.start, piece.start.at.line);
        self.at = piece.end();
        self.next_line = self.next_line.max(self.at.next_line());
        match self.stretches.last_mut() {
            Some(Stretch::Read(last)) => last.bytes.extend_from_slice(&piece.bytes),
            _ => self.stretches.push(Stretch::Read(piece)),
        }
    }

    /// Tells what is missing up to `to`; the first line that is not missing is `behind`.
    fn bridge(&mut self, to: Place, behind: u64) {
        if to.at.offset <= self.at.at.offset {
            return;
        }
        for (start, end) in self.spool.retained(self.at, to) {
            if start.at.offset > self.at.at.offset {
                self.miss(start.at.line, false);
            }
            let reaches = end.at.offset >= to.at.offset;
            self.miss(if reaches { behind } else { end.next_line() }, true);
            self.at = end;
        }
        if self.at.at.offset < to.at.offset {
            self.miss(behind, false);
            self.at = to;
        }
    }

    fn miss(&mut self, behind: u64, readable: bool) {
        let behind = behind.min(self.asked.lines.end).max(self.next_line);
        let lines = self.next_line..behind;
        self.next_line = behind;
        self.stretches.push(Stretch::Missing { lines, readable });
    }

    fn finish(mut self) -> Vec<Stretch> {
        self.bridge(self.asked.to, self.asked.lines.end);
        if self.next_line < self.asked.lines.end {
            // Nothing is retained behind a gap that begins with what was asked for.
            self.miss(self.asked.lines.end, false);
        }
        self.stretches
    }
}

/// How much is looked at of the output's end for its last line.
const LAST_LINE_BYTES: u64 = 4096;

/// The unfinished line at the output's end as plain text, as far as the cursor stands in
/// it: where prompts stand.
pub fn unfinished_line(
    spool: &Spool,
    line_start: Position,
    end: Position,
    columns: Option<u16>,
) -> String {
    let from = end.offset.saturating_sub(LAST_LINE_BYTES);
    let bytes = newest_bytes(spool, from.max(line_start.offset), end.offset);
    ansi::prompt(&bytes, columns)
}

/// The newest line of the output as plain text; for progress messages.
pub fn last_line(
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
        .map(|line| ansi::readable(line, Colours::Drop, columns))
        .find(|text| !text.trim().is_empty())
}

/// How much of the newest output is looked at for its last lines.
const NEWEST_BYTES: u64 = 8 * 1024;

/// The newest lines of an output, and how far it has been read for them.
#[derive(Debug, PartialEq, Eq)]
pub struct Newest {
    /// As plain text, in their order.
    pub lines: Vec<String>,
    /// Where the next reading begins.
    pub read_to: u64,
}

/// The newest whole lines of the output from `from` on, at most so many; of much output
/// only what its end holds. A line that is being written is left to the next reading,
/// since where it is cut is chance, unless nothing but it has come: it may be all that
/// there ever is, as of a bar or a row of dots.
pub fn newest_lines(
    spool: &Spool,
    from: u64,
    end: Position,
    most: usize,
    columns: Option<u16>,
) -> Newest {
    let from = from.min(end.offset);
    let bytes = newest_bytes(
        spool,
        from.max(end.offset.saturating_sub(NEWEST_BYTES)),
        end.offset,
    );
    let begins = end.offset - bytes.len() as u64;
    let (read, read_to) = match memchr::memrchr(b'\n', &bytes) {
        Some(last) => (
            bytes.get(..last).unwrap_or_default(),
            begins + last as u64 + 1,
        ),
        None => (&bytes[..], end.offset),
    };
    let mut lines: Vec<&[u8]> = read.split(|byte| *byte == b'\n').collect();
    if begins > from && lines.len() > 1 {
        lines.remove(0);
    }
    let mut lines: Vec<String> = lines
        .into_iter()
        .rev()
        .map(|line| ansi::readable(line, Colours::Drop, columns))
        .filter(|line| !line.trim().is_empty())
        .take(most)
        .collect();
    lines.reverse();
    Newest { lines, read_to }
}

/// So much of the beginning …
const HEAD_BYTES: u64 = 4 * 1024;
/// … and of the end of an output is looked at to learn from it.
const TAIL_BYTES: u64 = 32 * 1024;

/// The beginning and the end of the output as plain text, each of bounded length; what is
/// not retained is left out. They may overlap.
pub fn head_and_tail(spool: &Spool, end: Position) -> (String, String) {
    let head = spool
        .read(Place::FIRST, end.offset.min(HEAD_BYTES))
        .unwrap_or_default();
    let head = head.first().map_or(&[][..], |piece| &piece.bytes);
    let tail = newest_bytes(spool, end.offset.saturating_sub(TAIL_BYTES), end.offset);
    (plain_lines(head), plain_lines(&tail))
}

fn plain_lines(bytes: &[u8]) -> String {
    let lines = bytes.split(|byte| *byte == b'\n');
    let lines: Vec<String> = lines
        .map(|line| ansi::readable(line, Colours::Drop, None))
        .collect();
    lines.join("\n")
}

/// What is retained at the end of `[from, to)` without a gap; nothing if it cannot be
/// read.
fn newest_bytes(spool: &Spool, from: u64, to: u64) -> Vec<u8> {
    // Nobody asks for the number of the line.
    let from = Place {
        at: Position {
            offset: from,
            line: 1,
        },
        inside_line: true,
    };
    let mut pieces = spool.read(from, to).unwrap_or_default();
    pieces.pop().map(|piece| piece.bytes).unwrap_or_default()
}

/// Goes through the lines of `[from, to)` in bounded memory. The last, unfinished line
/// counts as one, and so does what is retained of a line that a gap cuts. The visitor
/// gets the number, where the line begins, and its bytes; a very long line comes in parts
/// with the same number. The answer is where the last line begins.
///
/// # Errors
/// When a spool file cannot be read.
pub fn for_each_line(
    spool: &Spool,
    from: Place,
    to: u64,
    mut visit: impl FnMut(Position, &[u8]) -> ControlFlow<()>,
) -> io::Result<Place> {
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
            line = Place {
                at: Position {
                    offset: next.at.offset - rest.len() as u64,
                    line: line.at.line + 1,
                },
                inside_line: false,
            };
        }
        carried.extend_from_slice(rest);
        if carried.len() > LONGEST_MATCHED_LINE {
            if visit(line.at, &carried).is_break() {
                return Ok(line);
            }
            carried.clear();
        }
    }
    if !carried.is_empty() {
        let _ = visit(line.at, &carried);
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
    columns: Option<u16>,
    /// The start of the first line that may still match.
    from: Place,
    /// Where the last look ended.
    seen: u64,
}

impl<'a> PatternWatch<'a> {
    /// A watch of what no result has shown, and of the unfinished last line.
    pub fn new(pattern: &'a Regex, delta: &Delta, columns: Option<u16>) -> PatternWatch<'a> {
        PatternWatch {
            pattern,
            columns,
            from: Place {
                at: delta.from,
                inside_line: false,
            },
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
            let text = ansi::readable(bytes, Colours::Drop, self.columns);
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
        self.forget_the_beginning_of_a_long_line(end);
        Ok(found)
    }

    /// An unfinished line is looked at again when it has grown. Of one that grows without
    /// end only the newest part is: each look would cost more than the one before.
    fn forget_the_beginning_of_a_long_line(&mut self, end: Position) {
        let newest = end.offset.saturating_sub(LONGEST_MATCHED_LINE as u64);
        if self.from.at.offset < newest {
            self.from.at.offset = newest;
            self.from.inside_line = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::task::budget::Budget;
    use crate::task::spool::SpoolWriter;

    const QUOTA: u64 = 4 * 1024 * 1024;
    const ROOM: usize = 1_000;

    fn writer() -> SpoolWriter {
        SpoolWriter::new(None, QUOTA, Budget::new(QUOTA))
    }

    fn count_to(last: u64) -> SpoolWriter {
        let mut writer = writer();
        let text: String = (1..=last).map(|number| format!("{number}\n")).collect();
        for chunk in text.as_bytes().chunks(60_000) {
            writer.append(chunk);
        }
        writer
    }

    fn end_of(writer: &SpoolWriter) -> Place {
        Place {
            at: writer.end(),
            inside_line: writer.line_start() != writer.end(),
        }
    }

    fn delta(from: Position, new_from: u64, writer: &SpoolWriter) -> Delta {
        Delta {
            from,
            new_from,
            to: end_of(writer),
        }
    }

    /// `text`, `+40` for lines that can be read, `-40` for lines that are gone.
    fn outline(stretches: &[Stretch]) -> Vec<String> {
        stretches
            .iter()
            .map(|stretch| match stretch {
                Stretch::Read(piece) => format!("from {}", piece.start.at.line),
                Stretch::Missing { lines, readable } => {
                    let sign = if *readable { '+' } else { '-' };
                    format!("{sign}{}..{}", lines.start, lines.end)
                }
            })
            .collect()
    }

    #[test]
    fn lines_behind_a_gap_keep_their_numbers_wherever_reading_begins() {
        let writer = count_to(2_000_000);
        let (spool, end) = (writer.reader(), end_of(&writer));
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
            // The lines that the gap cuts are the only ones that are not whole.
            assert!(wrong.len() <= 2, "{wrong:?}");
            for cut in wrong {
                let (number, text) = cut.split_once(": ").expect("both");
                assert!(number.contains(text), "{cut}");
            }
        }
    }

    #[test]
    fn an_excerpt_tells_what_is_omitted_from_what_is_gone() {
        let writer = count_to(2_000_000);
        let (spool, end) = (writer.reader(), end_of(&writer));
        let all = excerpt(&spool, Place::FIRST.at, end, ROOM).expect("memory");
        let [
            Stretch::Read(head),
            Stretch::Missing {
                lines: first,
                readable: true,
            },
            Stretch::Missing {
                lines: gone,
                readable: false,
            },
            Stretch::Missing {
                lines: second,
                readable: true,
            },
            Stretch::Read(tail),
        ] = &all[..]
        else {
            panic!("{:?}", outline(&all));
        };
        assert_eq!(first.start, head.end().next_line());
        assert_eq!((first.end, gone.end), (gone.start, second.start));
        assert_eq!(second.end, tail.start.at.line);
    }

    #[test]
    fn what_is_asked_for_begins_or_ends_in_a_gap() {
        let writer = count_to(2_000_000);
        let (spool, end) = (writer.reader(), end_of(&writer));
        let all = excerpt(&spool, Place::FIRST.at, end, ROOM).expect("memory");
        let Some(Stretch::Missing { lines: gone, .. }) = all.get(2) else {
            panic!("{:?}", outline(&all));
        };
        let (first, last) = (gone.start + 10, gone.end + 3);
        let begins = range(&spool, first, Some(last), end, ROOM).expect("memory");
        let expected = [
            format!("-{first}..{}", gone.end),
            format!("from {}", gone.end),
        ];
        assert_eq!(outline(&begins), expected);
        let (first, last) = (gone.start - 3, gone.end - 10);
        let ends = range(&spool, first, Some(last), end, ROOM).expect("memory");
        let expected = [
            format!("from {first}"),
            format!("-{}..{}", gone.start, last + 1),
        ];
        assert_eq!(outline(&ends), expected);
        let (first, last) = (gone.start + 10, gone.end - 10);
        let within = range(&spool, first, Some(last), end, ROOM).expect("memory");
        assert_eq!(outline(&within), [format!("-{first}..{}", last + 1)]);
        let first_gone = Position {
            offset: 1_100_000,
            line: first,
        };
        let since = delta(first_gone, 1_100_000, &writer);
        let since = new_output(&spool, &since, ROOM).expect("memory");
        assert_eq!(outline(&since)[0], format!("-{first}..{}", gone.end));
    }

    #[test]
    fn of_a_task_whose_output_is_all_gone_every_line_is_told_as_gone() {
        let folder = tempfile::tempdir().expect("a folder");
        let base = folder.path().join("task");
        let mut writer = SpoolWriter::new(Some(base), QUOTA, Budget::new(QUOTA));
        writer.append(b"one\ntwo\nthree");
        let (spool, end) = (writer.reader(), end_of(&writer));
        spool.remove();
        let all = excerpt(&spool, Place::FIRST.at, end, ROOM).expect("nothing to read");
        assert_eq!(outline(&all), ["-1..4"]);
        let last = range(&spool, 3, None, end, ROOM).expect("nothing to read");
        assert_eq!(outline(&last), ["-3..4"]);
    }

    #[test]
    fn the_newest_lines_are_few_however_much_came() {
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
    fn of_a_line_that_never_ends_what_has_come_is_read() {
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
    fn a_flood_of_one_line_is_one_line_wherever_the_reading_cuts_it() {
        let mut writer = writer();
        let line = format!(
            "{}\n",
            "a line that is long and the same for ever ".repeat(5)
        );
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
        for (more, shown) in [
            ("\r", 0),
            ("\n", 0),
            ("b", 1),
            ("\r\r\n", 0),
            ("c", 1),
            ("\rd", 1),
        ] {
            let new_from = writer.end().offset;
            let begun = writer.line_start();
            writer.append(more.as_bytes());
            let delta = delta(begun, new_from, &writer);
            let stretches = new_output(&writer.reader(), &delta, ROOM).expect("memory");
            assert_eq!(stretches.len(), shown, "{more:?}");
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
        for_each_line(&writer.reader(), Place::FIRST, end, visit).expect("memory");
        assert_eq!(lines[0], (1, "line 00 of twenty".to_owned()));
        assert_eq!(lines[1], (2, "li".to_owned()));
        assert!("line 17 of twenty".ends_with(&lines[2].1), "{lines:?}");
        assert_eq!(lines.last(), Some(&(20, "line 19 of twenty".to_owned())));
    }
}
