//! Lays output out as numbered lines, cut to a size.
//!
//! Turns spans of raw bytes into text: whole lines, one third from the head and two thirds from the
//! tail, with a marker between them that names the omitted lines and how to read them. Long lines
//! are cut in the same way before lines are omitted. Runs of progress lines shrink to the newest
//! line, and runs of identical lines to one line with their count. Limits: uses only the given
//! spans; the spool stores lines. Pure.

mod choice;
mod data;
mod fit;
mod rows;
mod similar;

use std::borrow::Cow;
use std::ops::Range;

use serde::{Deserialize, Serialize};

use self::fit::cap;
use self::rows::{Content, Cut, Line, LineRow, progress_rows, repeated_rows};
pub(crate) use self::similar::without_numbers;
use super::ansi::{self, Colours};
use super::encoding::Found;
pub(crate) use super::encoding::UNFINISHED_BYTES;
pub use super::encoding::unfinished_character;
pub(crate) use super::quantity::grouped;
use super::{progress_lines, segments};

/// The length of a line, in characters, above which its middle is cut if the whole text does not
/// fit.
pub(crate) const LINE_CHARS: usize = 2_000;

/// A limit on the size of text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// Characters, counted like the strictest client: in units of UTF-16.
    pub chars: usize,
    /// Bytes of UTF-8.
    pub bytes: usize,
    pub lines: usize,
}

impl Room {
    pub(crate) const NONE: Room = Room { chars: 0, bytes: 0, lines: 0 };

    /// Room for this many characters, with unlimited bytes and lines.
    pub fn with_chars(chars: usize) -> Room {
        Room { chars, bytes: usize::MAX, lines: usize::MAX }
    }

    /// What a text of these characters leaves of it.
    pub(crate) fn beside(self, text: &str) -> Room {
        Room {
            chars: self.chars.saturating_sub(text.encode_utf16().count()),
            bytes: self.bytes.saturating_sub(text.len()),
            lines: self.lines.saturating_sub(text.lines().count()),
        }
    }

    /// Room for no more than this many characters.
    pub(crate) fn with_at_most(self, chars: usize) -> Room {
        Room { chars: self.chars.min(chars), ..self }
    }

    /// Half of it.
    pub(crate) fn half(self) -> Room {
        Room { chars: self.chars / 2, bytes: self.bytes / 2, lines: self.lines / 2 }
    }

    /// A third of it, and the rest.
    fn third(self) -> (Room, Room) {
        let third = Room { chars: self.chars / 3, bytes: self.bytes / 3, lines: self.lines / 3 };
        let rest = Room {
            chars: self.chars - third.chars,
            bytes: self.bytes - third.bytes,
            lines: self.lines - third.lines,
        };
        (third, rest)
    }

    /// Takes the room for a line and its newline. Returns false if there is not enough.
    pub fn take_line(&mut self, line: &str) -> bool {
        let (chars, bytes) = (line.encode_utf16().count() + 1, line.len() + 1);
        let fits = chars <= self.chars && bytes <= self.bytes && self.lines > 0;
        if fits {
            self.chars -= chars;
            self.bytes -= bytes;
            self.lines -= 1;
        }
        fits
    }

    /// Returns as much of the beginning of a text as fits, and takes its room.
    pub fn take<'a>(&mut self, text: &'a str) -> &'a str {
        let mut end = 0;
        for character in text.chars() {
            let (chars, bytes) = (character.len_utf16(), character.len_utf8());
            if chars > self.chars || bytes > self.bytes {
                break;
            }
            self.chars -= chars;
            self.bytes -= bytes;
            end += bytes;
        }
        text.get(..end).unwrap_or_default()
    }
}

/// A position in the output, with its line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Position {
    /// The number of bytes before it.
    pub offset: u64,
    /// The number of its line, counted from 1.
    pub line: u64,
}

/// A position, and whether it is inside its line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinePosition {
    pub at: Position,
    /// Whether bytes of its line precede it.
    pub inside_line: bool,
}

impl LinePosition {
    /// The beginning of all output.
    pub const FIRST: LinePosition =
        LinePosition { at: Position { offset: 0, line: 1 }, inside_line: false };

    /// The number of the first line that begins here or later.
    pub fn next_line(&self) -> u64 {
        self.at.line + u64::from(self.inside_line)
    }

    /// The position after these bytes, which begin at this position.
    pub fn after(self, bytes: &[u8]) -> LinePosition {
        LinePosition {
            at: Position {
                offset: self.at.offset + bytes.len() as u64,
                line: self.at.line + memchr::memchr_iter(b'\n', bytes).count() as u64,
            },
            inside_line: bytes.last().map_or(self.inside_line, |last| *last != b'\n'),
        }
    }
}

/// Contiguous output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// Where it begins.
    pub start: LinePosition,
    pub bytes: Vec<u8>,
}

impl Piece {
    /// Where it ends.
    pub fn end(&self) -> LinePosition {
        self.start.after(&self.bytes)
    }

    /// The offset after its last byte.
    pub fn end_offset(&self) -> u64 {
        self.start.at.offset + self.bytes.len() as u64
    }
}

/// A part of the output to show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OutputSpan {
    /// Output.
    Read(Piece),
    /// Missing output. Pieces without a gap between them are contiguous.
    Missing {
        /// The lines that are completely missing; empty if only part of a line is missing.
        lines: Range<u64>,
        /// Whether it can still be read. If not, it is gone.
        readable: bool,
        /// Missing bytes of the line shown before the gap, if known.
        of_line_before: u64,
        /// Missing bytes of the line shown after the gap, if it is a different line.
        of_line_after: u64,
    },
    /// Output that is no text.
    Data {
        /// The lines, as newlines in the data happen to part it.
        lines: Range<u64>,
        /// The bytes of the whole output that it is.
        offsets: Range<u64>,
        /// What its first bytes are the beginning of, if known.
        kind: Option<&'static str>,
    },
}

/// How to show lines.
#[derive(Debug, Clone, Copy)]
pub struct Layout<'a> {
    /// The room for all the text.
    pub room: Room,
    /// Whether each line begins with its number.
    pub numbered: bool,
    /// How to treat consecutive identical lines.
    pub repeats: Repeats,
    /// Which lines to show if not all of them.
    pub choice: Choice,
    /// How to treat colours.
    pub colours: Colours,
    /// The width of the terminal that the output was written to.
    pub columns: Option<u16>,
    /// The call that reads omitted lines, `zsh_poll task_id=…`, to which `from_line` is appended.
    /// Empty if there is none.
    pub read_call: &'a str,
    /// The command that prints the bytes; empty if there is none.
    pub raw_call: &'a str,
}

/// Which lines to show if not all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Choice {
    /// As many as the room allows: one third from the head, two thirds from the tail.
    Ends,
    /// What went wrong, as far as the room allows, and up to `aim` characters in all of the rest,
    /// from the tail and the head.
    Worth {
        /// Text of at most this many characters is shown whole.
        aim: usize,
    },
}

/// How to treat consecutive identical lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repeats {
    /// Shows three or more as one line, `waiting for db (×50)`, with the number of the last, if
    /// that is shorter. Lines are identical if their shown text is equal. Blank and cut lines stay.
    Collapse,
    /// Show each line.
    Each,
}

/// Lines ready to be shown.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Shown {
    /// The text, without a newline at its end.
    pub text: String,
    /// The first line to show; 0 if there is none.
    pub from_line: u64,
    /// The last line to show; 0 if there is none.
    pub to_line: u64,
    /// The number of omitted lines between them.
    pub omitted_lines: u64,
    /// The number of bytes omitted from shown lines.
    pub omitted_bytes: u64,
    /// What is omitted and how to read it, in one line; empty if nothing is omitted.
    pub omission: String,
    /// What is known of text that is not UTF-8.
    pub not_utf_8: Option<Found>,
}

/// Lays output out as text.
pub fn lay_out(spans: &[OutputSpan], layout: &Layout) -> Shown {
    let (spans, not_utf_8) = data::decoded(spans);
    let spans = data::set_apart(spans);
    let rows = rows(&spans, layout);
    let rows = match layout.repeats {
        Repeats::Collapse => repeated_rows(progress_rows(rows)),
        Repeats::Each => rows,
    };
    let (Some(LineRow { first, .. }), Some(LineRow { last, .. })) = (rows.first(), rows.last())
    else {
        return Shown::default();
    };
    let (from_line, to_line) = (*first, *last);
    let rows = cap(rows, layout);
    let text: Vec<String> = rows
        .chunk_by(|row, next| row.is_missing() && next.is_missing())
        .map(|rows| paragraph(rows, layout))
        .collect();
    Shown {
        text: text.join("\n"),
        from_line,
        to_line,
        omitted_lines: rows.iter().map(LineRow::missing_lines).sum(),
        omitted_bytes: rows.iter().map(LineRow::omitted_bytes).sum(),
        omission: omission(&rows, layout.read_call),
        not_utf_8,
    }
}

/// Describes all omissions in one line: `986 lines and 4,000 bytes of long lines omitted: …`
fn omission(rows: &[LineRow], reader: &str) -> String {
    let lines = |wanted: bool| -> u64 {
        let missing = rows.iter().filter(|row| row.is_readable() == wanted);
        missing.map(LineRow::missing_lines).sum()
    };
    let bytes = rows.iter().map(LineRow::omitted_bytes).sum();
    let first = rows.iter().find_map(LineRow::first_omitted);
    omission_of(lines(true), bytes, lines(false), first, reader)
}

/// Describes omissions in one line: readable `lines`, readable `bytes` of other lines, and lines
/// that are `gone`. The readable part begins with line and character `first`.
pub(crate) fn omission_of(
    lines: u64,
    bytes: u64,
    gone: u64,
    first: Option<(u64, u64)>,
    reader: &str,
) -> String {
    let mut omitted = Vec::new();
    if lines > 0 {
        omitted.push(lines_of(lines));
    }
    if bytes > 0 {
        omitted.push(format!("{} bytes of long lines", grouped(bytes)));
    }
    let mut parts = Vec::new();
    if !omitted.is_empty() {
        parts.push(format!("{} omitted", omitted.join(" and ")));
    }
    if gone > 0 {
        parts.push(format!("{} gone", lines_of(gone)));
    }
    match first {
        Some((line, character)) if !reader.is_empty() && !parts.is_empty() => {
            let mut call = format!("{reader} from_line={line}");
            if character > 1 {
                call += &format!(" from_char={character}");
            }
            format!("{}: {call}", parts.join(", "))
        }
        _ => parts.join(", "),
    }
}

/// `1 line`, `20 lines`
pub(crate) fn lines_of(count: u64) -> String {
    let noun = if count == 1 { "line" } else { "lines" };
    format!("{} {noun}", grouped(count))
}

/// A line, or one marker for all omissions between two lines.
fn paragraph(rows: &[LineRow], layout: &Layout) -> String {
    let parts: Vec<String> = rows.iter().map(|row| row.shown(layout)).collect();
    let parts = parts.join("; ");
    if rows.first().is_some_and(LineRow::is_missing) { format!("… {parts} …") } else { parts }
}

/// A marker of omitted lines. Where there may be other gaps, its call names the end of this one, too.
fn missing_lines(from: u64, to: u64, readable: bool, layout: &Layout) -> String {
    let reader = layout.read_call;
    let lines = lines_of(to + 1 - from);
    let range =
        if from == to { grouped(from) } else { format!("{}–{}", grouped(from), grouped(to)) };
    if readable && reader.is_empty() {
        format!("{lines} omitted ({range})")
    } else if readable {
        let end = match layout.choice {
            Choice::Worth { .. } if to > from => format!(" to_line={to}"),
            _ => String::new(),
        };
        format!("{lines} omitted ({range}): {reader} from_line={from}{end}")
    } else {
        format!("{lines} gone ({range}): past the spool's quota")
    }
}

/// A line cut to `limit` characters: one third from its head, two thirds from its tail.
pub(crate) fn elide_middle(text: &str, limit: usize) -> String {
    let length = text.chars().count();
    if length <= limit {
        return text.to_owned();
    }
    let head: String = text.chars().take(limit / 3).collect();
    let tail_length = limit - limit / 3;
    let tail: String = text.chars().skip(length - tail_length).collect();
    format!("{head}… {} characters omitted …{tail}", grouped((length - limit) as u64))
}

/// A line of output, cut if it has more characters than `limit`, with the number of omitted bytes.
pub(crate) fn line_cut_to(limit: usize, text: &str, number: u64, reader: &str) -> (String, u64) {
    let mut row = LineRow::line(number, text.to_owned());
    row.shorten(limit);
    let text = row.as_line().map(|line| line.shown(number, reader));
    (text.unwrap_or_default(), row.omitted_bytes())
}

/// The marker after the beginning of a line: how many bytes follow it, and from which
/// character on.
pub(crate) fn line_continues(bytes: u64, number: u64, character: u64, reader: &str) -> String {
    let cut = Cut { omitted: bytes, ..Cut::default() };
    cut.marker(number, character, reader)
}

/// A line's text: each of its parts that carriage returns separate below the one before.
pub(crate) fn text_of(line: &[u8], colours: Colours, columns: Option<u16>) -> String {
    if !ansi::is_rewritten(line) {
        return ansi::readable(line, colours, columns);
    }
    match &*segments::of(line, columns) {
        [part] => ansi::readable(part, colours, columns),
        parts => {
            let texts: Vec<String> =
                parts.iter().map(|part| ansi::readable(part, colours, columns)).collect();
            texts.join("\n")
        }
    }
}

/// As [`text_of`], but of a progress bar's steps only the newest, with their number. The second value
/// is whether some are not shown.
fn collapsed_text(line: &[u8], layout: &Layout) -> (String, bool) {
    let all = text_of(line, layout.colours, layout.columns);
    if layout.repeats == Repeats::Each || !all.contains('\n') {
        return (all, false);
    }
    let mut kept: Vec<(&str, u64)> = Vec::new();
    for part in all.split('\n') {
        match kept.last_mut() {
            Some(last) if progress_lines::are_of_one_bar(last.0, part) => {
                *last = (part, last.1 + 1)
            }
            _ => kept.push((part, 1)),
        }
    }
    let hides = kept.iter().any(|(_, times)| *times > 1);
    let shown = kept.into_iter().map(|(part, times)| match times {
        1 => part.to_owned(),
        times => format!("{part}{}", redrawn(times)),
    });
    (shown.collect::<Vec<String>>().join("\n"), hides)
}

/// After a step of a progress bar of which not all can be counted.
const REDRAWN: &str = "  (redrawn)";

/// `  (×12 redrawn)`
fn redrawn(times: u64) -> String {
    format!("  (×{} redrawn)", grouped(times))
}

/// The text without colours, which cuts may divide.
fn without_colours(text: &str) -> String {
    let lines = text.split('\n').map(|line| ansi::readable(line.as_bytes(), Colours::Drop, None));
    lines.collect::<Vec<String>>().join("\n")
}

/// Adds the end of a line whose middle is missing.
fn join(row: &mut LineRow, rest: &[u8], missing: Cut, layout: &Layout) {
    let Some(Line { text, cut, hides_parts, .. }) = row.as_line_mut() else {
        return;
    };
    if hides_beginning(rest, layout) {
        *text = text_of(rest, layout.colours, layout.columns);
        return;
    }
    let begins = text.split(['\n', '(']).next().unwrap_or_default().trim_end();
    if let Some(newest) = newest_step(rest, layout)
        && (begins.is_empty() || progress_lines::are_of_one_bar(begins, &newest))
    {
        *text = newest + REDRAWN;
        *hides_parts = true;
        return;
    }
    *text = without_colours(text);
    *cut = Some(Cut { tail: text_of(rest, Colours::Drop, layout.columns), ..missing });
}

/// The newest step of a progress bar of which `rest` is what can be read of the end; `None` if it is
/// no bar. The first part may be cut.
fn newest_step(rest: &[u8], layout: &Layout) -> Option<String> {
    let parts = segments::of(rest, layout.columns);
    let [_, steps @ ..] = &*parts else {
        return None;
    };
    let texts: Vec<String> =
        steps.iter().map(|step| ansi::readable(step, layout.colours, layout.columns)).collect();
    let newest = texts.last()?;
    let is_bar = texts.iter().all(|text| progress_lines::are_of_one_bar(text, newest));
    is_bar.then(|| newest.clone())
}

/// Whether the end of a line covers its beginning.
fn hides_beginning(rest: &[u8], layout: &Layout) -> bool {
    ansi::is_rewritten(rest) && segments::of(rest, layout.columns).len() == 1
}

/// Splits output into lines. A line with a missing part appears cut.
fn rows(spans: &[OutputSpan], layout: &Layout) -> Vec<LineRow> {
    let mut rows: Vec<LineRow> = Vec::new();
    // The row of a line that continues after its piece, and the missing bytes of that line and of
    // the next one.
    let mut open: Option<usize> = None;
    let mut of_open = Cut::default();
    let mut of_next = Cut::default();
    for span in spans {
        match span {
            OutputSpan::Missing { lines, readable, of_line_before, of_line_after } => {
                of_open.add(*of_line_before, *readable);
                of_next.add(*of_line_after, *readable);
                if !lines.is_empty() {
                    rows.push(LineRow {
                        first: lines.start,
                        last: lines.end - 1,
                        content: Content::Missing { readable: *readable },
                    });
                }
            }
            OutputSpan::Data { lines, offsets, kind } => {
                if let Some(row) = open.take().and_then(|place| rows.get_mut(place)) {
                    row.break_off(std::mem::take(&mut of_open));
                }
                of_next = Cut::default();
                rows.push(LineRow {
                    first: lines.start,
                    last: lines.end.max(lines.start + 1) - 1,
                    content: Content::Data { bytes: offsets.end - offsets.start, kind: *kind },
                });
            }
            OutputSpan::Read(piece) => {
                let mut lines = split(&piece.bytes);
                let mut number = piece.start.at.line;
                let begun = piece.start.inside_line;
                let rest = begun.then(|| lines.next()).flatten();
                let missing = std::mem::take(&mut of_open);
                let of_this = std::mem::take(&mut of_next);
                let open_row = open.take().and_then(|place| rows.get_mut(place));
                match (open_row, rest) {
                    (Some(row), Some(rest)) if row.last == number => {
                        join(row, rest, missing, layout);
                        number += 1;
                    }
                    (open_row, rest) => {
                        if let Some(row) = open_row {
                            row.break_off(missing);
                        }
                        if let Some(rest) = rest {
                            rows.push(end_of_line(number, rest, of_this, layout));
                            number += 1;
                        }
                    }
                }
                for line in lines {
                    let (text, hides) = collapsed_text(line, layout);
                    rows.push(LineRow::of_parts(number, text, hides));
                    number += 1;
                }
                if piece.bytes.last().is_some_and(|last| *last != b'\n') {
                    open = rows.len().checked_sub(1);
                }
            }
        }
    }
    if let (Some(place), Some(OutputSpan::Missing { .. })) = (open, spans.last())
        && let Some(row) = rows.get_mut(place)
    {
        row.break_off(of_open);
    }
    rows
}

/// The lines of a piece. After its last newline there is no empty line.
fn split(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let ended = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    let lines = (!bytes.is_empty()).then(|| ended.split(|byte| *byte == b'\n'));
    lines.into_iter().flatten()
}

/// The end of a line whose beginning is missing. If the end rewrites the line, the missing part
/// would not be visible anyway.
fn end_of_line(number: u64, rest: &[u8], missing: Cut, layout: &Layout) -> LineRow {
    if hides_beginning(rest, layout) {
        return LineRow::line(number, text_of(rest, layout.colours, layout.columns));
    }
    let mut row = LineRow::line(number, String::new());
    join(&mut row, rest, missing, layout);
    row
}

/// The first `max_chars` characters, with an ellipsis if there are more.
pub(crate) fn truncate(text: &str, max_chars: usize) -> Cow<'_, str> {
    let head = first_chars(text, max_chars);
    if head.len() == text.len() { Cow::Borrowed(text) } else { Cow::Owned(format!("{head}…")) }
}

/// The first `count` characters.
pub(crate) fn first_chars(text: &str, count: usize) -> &str {
    let end = text.char_indices().nth(count);
    let end = end.map_or(text.len(), |(index, _)| index);
    text.get(..end).unwrap_or_default()
}

/// The last `count` characters.
pub(crate) fn last_chars(text: &str, count: usize) -> &str {
    let start = text.char_indices().rev().take(count).last().map_or(text.len(), |(index, _)| index);
    text.get(start..).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: u64, text: &str) -> OutputSpan {
        OutputSpan::Read(Piece {
            start: LinePosition { at: Position { offset: 0, line }, inside_line: false },
            bytes: text.as_bytes().to_vec(),
        })
    }

    /// A piece that begins within its first line.
    fn rest(line: u64, text: &str) -> OutputSpan {
        let OutputSpan::Read(mut piece) = read(line, text) else {
            unreachable!("it was just read");
        };
        piece.start.inside_line = true;
        OutputSpan::Read(piece)
    }

    /// A gap of these lines, with numbers of missing bytes of the lines before and after it.
    fn missing(lines: Range<u64>, readable: bool, parts: (u64, u64)) -> OutputSpan {
        OutputSpan::Missing { lines, readable, of_line_before: parts.0, of_line_after: parts.1 }
    }

    fn omitted(lines: Range<u64>) -> OutputSpan {
        missing(lines, true, (0, 0))
    }

    fn gone(lines: Range<u64>) -> OutputSpan {
        missing(lines, false, (0, 0))
    }

    fn layout(max_chars: usize, numbered: bool) -> Layout<'static> {
        Layout {
            room: Room::with_chars(max_chars),
            numbered,
            repeats: Repeats::Collapse,
            choice: Choice::Ends,
            colours: Colours::Drop,
            columns: None,
            read_call: "zsh_poll task_id=ab",
            raw_call: "zsh-tool log --raw ab",
        }
    }

    #[test]
    fn lines_are_numbered_from_where_the_piece_begins() {
        let shown = lay_out(&[read(801, "a\nb\nc\n")], &layout(1000, true));
        assert_eq!(shown.text, "801: a\n802: b\n803: c");
        assert_eq!((shown.from_line, shown.to_line, shown.omitted_lines), (801, 803, 0));
    }

    #[test]
    fn an_unfinished_last_line_and_empty_lines_are_lines() {
        let shown = lay_out(&[read(1, "a\n\nlast")], &layout(1000, true));
        assert_eq!(shown.text, "1: a\n2: \n3: last");
    }

    #[test]
    fn empty_output_has_no_line() {
        assert_eq!(lay_out(&[read(1, "")], &layout(1000, true)), Shown::default());
    }

    #[test]
    fn too_much_output_omits_the_middle_and_names_it() {
        let text: String = (1..=1000).map(|n| format!("line {n} of many\n")).collect();
        let shown = lay_out(&[read(1, &text)], &layout(600, false));
        assert!(shown.text.chars().count() <= 700, "{}", shown.text);
        assert!(shown.text.starts_with("line 1 of many\n"));
        assert!(shown.text.ends_with("line 1000 of many"));
        assert!(shown.text.contains("lines omitted (14–"), "{}", shown.text);
        assert!(shown.text.contains("zsh_poll task_id=ab from_line=14 …"));
        assert_eq!(shown.to_line, 1000);
    }

    #[test]
    fn the_last_line_is_shown_even_where_lines_are_chosen_and_it_does_not_fit() {
        let text = format!("first\nerror: broken\n{}\n", "x".repeat(500));
        let choice = Choice::Worth { aim: 100 };
        let shown = lay_out(&[read(1, &text)], &Layout { choice, ..layout(100, false) });
        assert!(shown.text.ends_with("xxx"), "{}", shown.text);
    }

    #[test]
    fn long_lines_are_whole_if_the_whole_text_fits() {
        let long = "x".repeat(10_000);
        let text = format!("{long}\nbetween\n{long}END\n");
        let shown = lay_out(&[read(1, &text)], &layout(20_012, false));
        assert!(shown.text == text.trim_end(), "{}", shown.omission);
        assert_eq!((shown.omitted_bytes, shown.omission.as_str()), (0, ""));
    }

    #[test]
    fn a_cut_line_shows_how_much_is_omitted_and_how_to_read_it() {
        let text = format!("{}END\nlast\n", "é".repeat(10_000));
        let shown = lay_out(&[read(7, &text)], &layout(9_000, true));
        let marker = "é… 16,006 bytes omitted: zsh_poll task_id=ab from_line=7 from_char=667 …é";
        assert!(shown.text.contains(marker), "{}", shown.text);
        assert!(shown.text.ends_with("éEND\n8: last"), "{}", shown.text);
        assert_eq!((shown.omitted_lines, shown.omitted_bytes), (0, 16_006));
        assert_eq!(
            shown.omission,
            "16,006 bytes of long lines omitted: zsh_poll task_id=ab from_line=7 from_char=667"
        );
    }

    #[test]
    fn all_omissions_are_named_in_one_line() {
        let lines: String = (2..=500).map(|n| format!("line {n} of many\n")).collect();
        let long = "y".repeat(3_000);
        let text = format!("{long}\n{lines}");
        let shown = lay_out(&[read(1, &text), gone(501..503)], &layout(7_000, false));
        let (lines, bytes) = (shown.omitted_lines - 2, shown.omitted_bytes);
        assert!(lines > 0 && bytes == 1_000, "{}", shown.text);
        let omission = format!(
            "{lines} lines and 1,000 bytes of long lines omitted, 2 lines gone: \
             zsh_poll task_id=ab from_line=1 from_char=667"
        );
        assert_eq!(shown.omission, omission);
    }

    #[test]
    fn room_is_counted_in_bytes_as_well_and_in_the_units_of_the_strictest_client() {
        let lines = |text: &str| format!("{text}\n").repeat(100);
        let layout = |chars, bytes| Layout {
            room: Room { bytes, ..Room::with_chars(chars) },
            repeats: Repeats::Each,
            ..layout(0, false)
        };
        let fits = |text: &str, chars, bytes| {
            let shown = lay_out(&[read(1, &lines(text))], &layout(chars, bytes));
            assert!(shown.text.len() <= bytes.saturating_add(200), "{}", shown.text.len());
            shown.omission.is_empty()
        };
        assert!(fits("日本語日本語日本語", 1_000, usize::MAX));
        assert!(!fits("日本語日本語日本語", 1_000, 1_000));
        assert!(!fits("🦀🦀🦀🦀🦀🦀🦀🦀🦀", 1_000, usize::MAX));
    }

    #[test]
    fn a_line_whose_middle_was_not_read_shows_both_ends() {
        let head = read(1, &format!("BEGIN{}", "a".repeat(3000)));
        let tail = rest(1, &format!("{}END\nnext\n", "b".repeat(3000)));
        let unread = missing(2..2, true, (50_000, 0));
        let shown = lay_out(&[head, unread, tail], &layout(5_000, true));
        assert!(shown.text.starts_with("1: BEGINaaa"));
        let marker = "… 54,008 bytes omitted: zsh_poll task_id=ab from_line=1 from_char=667 …b";
        assert!(shown.text.contains(marker), "{}", shown.text);
        assert!(shown.text.ends_with("bEND\n2: next"), "{}", shown.text);
        assert_eq!(shown.omitted_bytes, 54_008);
    }

    #[test]
    fn partly_read_lines_show_how_much_of_each_is_omitted() {
        let spans = [read(1, "one\ntw"), missing(3..50, true, (10, 20)), rest(50, "zz\nlast")];
        let shown = lay_out(&spans, &layout(1000, false));
        assert_eq!(
            shown.text,
            "one\ntw… 10 bytes omitted: zsh_poll task_id=ab from_line=2 from_char=3 …\n\
             … 47 lines omitted (3–49): zsh_poll task_id=ab from_line=3 …\n\
             … 20 bytes omitted: zsh_poll task_id=ab from_line=50 from_char=1 …zz\nlast"
        );
        assert_eq!((shown.omitted_lines, shown.omitted_bytes), (47, 30));
        let middle = [
            read(1, "ab"),
            missing(2..2, true, (5, 0)),
            missing(2..2, false, (7, 0)),
            rest(1, "yz"),
        ];
        let shown = lay_out(&middle, &layout(1000, false));
        assert_eq!(
            shown.text,
            "ab… 5 bytes omitted: zsh_poll task_id=ab from_line=1 from_char=3; \
             7 bytes gone: past the spool's quota …yz"
        );
    }

    #[test]
    fn a_rewritten_line_shows_its_newest_frame_even_without_its_middle() {
        let head = read(1, "\r 1% of a bar\r 2% of a");
        let tail = rest(1, "98% of a bar\r99% of a bar\r\nnext\n");
        let shown = lay_out(&[head, omitted(2..2), tail.clone()], &layout(30_000, true));
        assert_eq!(shown.text, "1: 99% of a bar  (redrawn)\n2: next");
        let shown = lay_out(&[gone(1..1), tail], &layout(30_000, true));
        assert_eq!(shown.text, "1: 99% of a bar  (redrawn)\n2: next");
    }

    #[test]
    fn lines_between_pieces_are_marked_as_omitted_or_gone() {
        let (head, tail) = (read(1, "a\nb\n"), read(50, "zz\n"));
        let spans = [head.clone(), omitted(3..50), tail.clone()];
        let shown = lay_out(&spans, &layout(1000, false));
        assert_eq!(
            shown.text,
            "a\nb\n… 47 lines omitted (3–49): zsh_poll task_id=ab from_line=3 …\nzz"
        );
        assert_eq!(shown.omitted_lines, 47);
        let shown = lay_out(&[head, gone(3..50), tail], &layout(1000, false));
        assert_eq!(shown.text, "a\nb\n… 47 lines gone (3–49): past the spool's quota …\nzz");
    }

    #[test]
    fn adjacent_omitted_and_gone_lines_share_a_marker() {
        let spans = [
            gone(1..5),
            read(5, "five\n"),
            omitted(6..10),
            gone(10..20),
            omitted(20..21),
            read(21, "end\n"),
        ];
        let shown = lay_out(&spans, &layout(1000, true));
        assert_eq!(
            shown.text,
            "… 4 lines gone (1–4): past the spool's quota …\n5: five\n\
             … 4 lines omitted (6–9): zsh_poll task_id=ab from_line=6; \
             10 lines gone (10–19): past the spool's quota; \
             1 line omitted (20): zsh_poll task_id=ab from_line=20 …\n21: end"
        );
        assert_eq!((shown.from_line, shown.to_line), (1, 21));
        assert_eq!(shown.omitted_lines, 19);
    }

    #[test]
    fn lines_omitted_for_size_and_gone_lines_stay_separate() {
        let head: String = (1..=50).map(|number| format!("line {number}\n")).collect();
        let tail: String = (91..=150).map(|number| format!("line {number}\n")).collect();
        let spans = [read(1, &head), gone(51..91), read(91, &tail)];
        let shown = lay_out(&spans, &layout(200, false));
        let markers: Vec<&str> = shown.text.lines().filter(|line| line.starts_with('…')).collect();
        assert_eq!(
            markers,
            ["… 41 lines omitted (10–50): zsh_poll task_id=ab from_line=10; \
              40 lines gone (51–90): past the spool's quota; \
              46 lines omitted (91–136): zsh_poll task_id=ab from_line=91 …"]
        );
    }

    #[test]
    fn a_line_cut_by_a_gap_is_marked() {
        let spans = [read(1, "one\ntw"), gone(3..50), rest(50, "zz\nlas"), gone(52..53)];
        let shown = lay_out(&spans, &layout(1000, false));
        assert_eq!(
            shown.text,
            "one\ntw…\n… 47 lines gone (3–49): past the spool's quota …\n…zz\nlas…\n\
             … 1 line gone (52): past the spool's quota …"
        );
        let shown = lay_out(&[gone(1..1), rest(1, "half\n")], &layout(1000, false));
        assert_eq!(shown.text, "…half");
        assert_eq!((shown.from_line, shown.omitted_lines), (1, 0));
    }

    #[test]
    fn an_unfinished_character_is_distinguished_from_a_broken_one() {
        for (bytes, unfinished) in [
            (&b"x\xe3\x81"[..], 2),
            (b"x\xe3\x81\x82", 0),
            (b"\xf0\x9f\x98", 3),
            (b"\xc3", 1),
            (b"\xff", 0),
            (b"\x81\x81\x81\x81", 0),
            (b"plain\n", 0),
            (b"", 0),
        ] {
            assert_eq!(unfinished_character(bytes), unfinished, "{bytes:?}");
        }
    }

    #[test]
    fn progress_lines_shrink_to_the_newest() {
        let shown =
            lay_out(&[read(1, "start\n 5%\n 10%\n 20%\n 30%\ndone\n")], &layout(1000, true));
        assert_eq!(shown.text, "1: start\n5:  30%  (×4 redrawn)\n6: done");
    }

    #[test]
    fn identical_lines_in_a_row_are_one_with_their_count() {
        let text = format!("begin\n{}end\n{}", "waiting for db\n".repeat(50), "again\n".repeat(3));
        let shown = lay_out(&[read(1, &text)], &layout(1000, false));
        assert_eq!(shown.text, "begin\nwaiting for db  (×50)\nend\nagain  (×3)");
        assert_eq!((shown.from_line, shown.to_line), (1, 55));
        assert_eq!(shown.omitted_lines, 0);
        let shown = lay_out(&[read(101, &text)], &layout(1000, true));
        assert_eq!(
            shown.text,
            "101: begin\n151: waiting for db  (×50)\n152: end\n155: again  (×3)"
        );
        let all = Layout { repeats: Repeats::Each, ..layout(1000, false) };
        assert_eq!(lay_out(&[read(1, &text)], &all).text, text.trim_end());
        let many = "x\n".repeat(12_345);
        let shown = lay_out(&[read(1, &many)], &layout(1000, false));
        assert_eq!(shown.text, "x  (×12,345)");
        assert_eq!((shown.from_line, shown.to_line), (1, 12_345));
    }

    #[test]
    fn a_first_row_that_is_shown_for_several_lines_begins_with_the_first_of_them() {
        for text in ["waiting\nwaiting\nwaiting\nwaiting\n", "5%\n10%\n20%\n30%\n"] {
            let shown = lay_out(&[read(7, text)], &layout(1000, true));
            assert!(shown.text.starts_with("10: "), "{}", shown.text);
            assert_eq!((shown.from_line, shown.to_line), (7, 10));
        }
    }

    #[test]
    fn few_short_blank_or_separate_lines_stay() {
        for text in [
            "two of them\ntwo of them\n",
            "ok\nok\nok\n",
            "}\n}\n}\n}\n",
            "\n\n\n\n\n",
            "  \n  \n  \n  \n  \n",
            "one\ntwo\none\ntwo\none\ntwo\n",
            "alike\nalike \nalike\nalike \n",
            "alike (×2)\nalike  (×2)\nalike (×2)\n",
        ] {
            let shown = lay_out(&[read(1, text)], &layout(30_000, false));
            let lines = text.lines().count();
            assert_eq!(shown.text.split('\n').count(), lines, "{text:?}");
        }
        let apart =
            [read(1, "same line\nsame line\n"), omitted(3..5), read(5, "same line\nsame line\n")];
        let shown = lay_out(&apart, &layout(1000, false));
        assert_eq!(shown.text.matches("same line").count(), 4);
    }

    #[test]
    fn lines_are_identical_if_their_shown_text_is_equal() {
        let text = "\x1b[31msame line\x1b[0m\nsame line\n\x1b[32msame line\x1b[0m\n";
        let shown = lay_out(&[read(1, text)], &layout(1000, false));
        assert_eq!(shown.text, "same line  (×3)");
        let coloured = Layout { colours: Colours::Keep, ..layout(1000, false) };
        let shown = lay_out(&[read(1, text)], &coloured);
        assert_eq!(shown.text.lines().count(), 3, "{:?}", shown.text);
    }

    #[test]
    fn each_omitted_identical_line_is_counted() {
        let wide = |letter: &str| format!("{}\n", letter.repeat(60)).repeat(10);
        let text: String = ["a", "b", "c", "d", "e"].map(wide).concat();
        let shown = lay_out(&[read(1, &text)], &layout(216, true));
        let lines: Vec<&str> = shown.text.lines().collect();
        let marker = "… 20 lines omitted (11–30): zsh_poll task_id=ab from_line=11 …";
        assert!(lines.contains(&marker), "{}", shown.text);
        assert!(shown.text.ends_with("e  (×10)"), "{}", shown.text);
        assert_eq!((shown.to_line, shown.omitted_lines), (50, 20));
    }

    proptest::proptest! {
        #[test]
        fn any_text_any_cap_no_panic(text in ".{0,400}", cap in 0usize..300, numbered: bool) {
            let shown = lay_out(&[read(3, &text)], &layout(cap, numbered));
            proptest::prop_assert!(shown.to_line >= shown.from_line);
        }

        #[test]
        fn each_line_is_shown_counted_or_omitted(
            lines in proptest::collection::vec("(a|bb|same line|)", 1..80), cap in 10usize..400
        ) {
            let shown = lay_out(&[read(1, &lines.join("\n"))], &layout(cap, false));
            let rows = shown.text.split('\n').filter(|row| !row.starts_with('…'));
            proptest::prop_assume!(shown.to_line > 0);
            let shown_lines: u64 = rows
                .map(|row| match row.rsplit_once("  (×") {
                    Some((_, times)) => times.trim_end_matches(')').parse().expect("a count"),
                    None => 1,
                })
                .sum();
            proptest::prop_assert_eq!(shown_lines + shown.omitted_lines, shown.to_line);
        }

        #[test]
        fn the_last_line_is_always_shown(lines in proptest::collection::vec("[a-z]{1,30}", 1..80), cap in 40usize..400) {
            let text = lines.join("\n");
            let shown = lay_out(&[read(1, &text)], &layout(cap, false));
            let last = lines.last().map(String::as_str).unwrap_or_default();
            proptest::prop_assert!(shown.text.ends_with(last), "{}", shown.text);
        }
    }
}
