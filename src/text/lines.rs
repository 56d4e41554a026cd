//! Output as numbered lines, cut to a size.
//!
//! Takes stretches of raw bytes and gives text: whole lines, one third from the head and
//! two thirds from the tail, with a marker that names what lies between and how to read
//! it. Runs of progress lines shrink to the newest. Limits: it sees only the stretches it
//! is given; where lines are stored is the spool's business.

use std::ops::Range;

use super::ansi::{self, Colours};
use super::progress_lines;

/// A longer line is cut, head and tail kept.
pub const LINE_CHARS: usize = 2_000;

/// A place in the output: byte `offset` lies in line `line` (counted from 1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Position {
    /// Bytes before it.
    pub offset: u64,
    /// The number of the line it is in.
    pub line: u64,
}

/// A position, and whether it lies within its line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The position.
    pub at: Position,
    /// Whether bytes of its line stand before it.
    pub inside_line: bool,
}

impl Place {
    /// Where all output begins.
    pub const FIRST: Place = Place {
        at: Position { offset: 0, line: 1 },
        inside_line: false,
    };

    /// The first line that begins here or later.
    pub fn next_line(&self) -> u64 {
        self.at.line + u64::from(self.inside_line)
    }

    /// The place behind these bytes, which stand here.
    pub fn after(self, bytes: &[u8]) -> Place {
        Place {
            at: Position {
                offset: self.at.offset + bytes.len() as u64,
                line: self.at.line + memchr::memchr_iter(b'\n', bytes).count() as u64,
            },
            inside_line: bytes.last().map_or(self.inside_line, |last| *last != b'\n'),
        }
    }
}

/// Output that lies together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// Where it begins.
    pub start: Place,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

impl Piece {
    /// Where it ends.
    pub fn end(&self) -> Place {
        self.start.after(&self.bytes)
    }

    /// The byte behind its last one.
    pub fn end_offset(&self) -> u64 {
        self.start.at.offset + self.bytes.len() as u64
    }
}

/// A part of what is to be shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stretch {
    /// Output.
    Read(Piece),
    /// Output that is not here. Two pieces without it between them follow on.
    Missing {
        /// The lines of which nothing is here; none when only a part of a line is missing.
        lines: Range<u64>,
        /// Whether it can still be read, or is gone.
        readable: bool,
    },
}

/// How lines are to be shown.
#[derive(Debug, Clone, Copy)]
pub struct Layout<'a> {
    /// All the text may have so many characters.
    pub max_chars: usize,
    /// Whether each line begins with its number.
    pub numbered: bool,
    /// Whether colours stay.
    pub colours: Colours,
    /// The width of the terminal that the output was written to.
    pub columns: Option<u16>,
    /// The call that reads omitted lines, `zsh_poll task_id=…`; `from_line` is added.
    /// Empty: there is none.
    pub reader: &'a str,
}

/// Lines ready to be shown.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Shown {
    /// The text, without a newline at its end.
    pub text: String,
    /// The first line that was to be shown; 0 when there is none.
    pub from_line: u64,
    /// The last line that was to be shown; 0 when there is none.
    pub to_line: u64,
    /// How many lines in between are left out.
    pub omitted_lines: u64,
}

/// One line, or some that are missing; there is at least one.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Row {
    Line { number: u64, text: String },
    Missing { from: u64, to: u64, readable: bool },
}

/// An unfinished character has at most so many bytes.
pub const UNFINISHED_BYTES: usize = 3;

/// How many bytes at the end are a character of which not all bytes are there. While
/// more may come they are held back, to be shown with the rest of their line.
pub fn unfinished_character(bytes: &[u8]) -> usize {
    for (bytes_there, byte) in (1..).zip(bytes.iter().rev().take(UNFINISHED_BYTES)) {
        let bytes_in_all = match byte {
            0x80..=0xbf => continue,
            0xc2..=0xdf => 2,
            0xe0..=0xef => 3,
            0xf0..=0xf4 => 4,
            _ => 1,
        };
        return if bytes_in_all > bytes_there {
            bytes_there
        } else {
            0
        };
    }
    0
}

/// Lays output out as text.
pub fn lay_out(stretches: &[Stretch], layout: &Layout) -> Shown {
    let rows = progress_rows(rows(stretches, layout));
    let Some(from_line) = rows.first().map(Row::first) else {
        return Shown::default();
    };
    let to_line = rows.last().map_or(from_line, Row::last);
    let rows = cap(rows, layout);
    let text: Vec<String> = rows
        .chunk_by(|row, next| row.is_missing() && next.is_missing())
        .map(|rows| paragraph(rows, layout))
        .collect();
    Shown {
        text: text.join("\n"),
        from_line,
        to_line,
        omitted_lines: rows.iter().map(Row::missing_lines).sum(),
    }
}

/// A line, or one marker for all that is missing in a place.
fn paragraph(rows: &[Row], layout: &Layout) -> String {
    let parts: Vec<String> = rows
        .iter()
        .map(|row| match row {
            Row::Line { number, text } if layout.numbered => format!("{number}: {text}"),
            Row::Line { text, .. } => text.clone(),
            Row::Missing { from, to, readable } => missing(*from, *to, *readable, layout.reader),
        })
        .collect();
    let parts = parts.join("; ");
    match rows.first() {
        Some(Row::Missing { .. }) => format!("… {parts} …"),
        _ => parts,
    }
}

fn missing(from: u64, to: u64, readable: bool, reader: &str) -> String {
    let count = grouped(to + 1 - from);
    let lines = if from == to { "line" } else { "lines" };
    let range = if from == to {
        grouped(from)
    } else {
        format!("{}–{}", grouped(from), grouped(to))
    };
    if readable && reader.is_empty() {
        format!("{count} {lines} omitted ({range})")
    } else if readable {
        format!("{count} {lines} omitted ({range}): {reader} from_line={from}")
    } else {
        format!("{count} {lines} gone ({range}): past the spool's quota")
    }
}

/// A number with its thousands apart: `12,345`.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A line cut to so many characters: one third of its head, two thirds of its tail.
pub fn clip(text: &str, limit: usize) -> String {
    let length = text.chars().count();
    if length <= limit {
        return text.to_owned();
    }
    let head: String = text.chars().take(limit / 3).collect();
    let tail_length = limit - limit / 3;
    let tail: String = text.chars().skip(length - tail_length).collect();
    format!(
        "{head}… {} characters omitted …{tail}",
        grouped((length - limit) as u64)
    )
}

impl Row {
    fn first(&self) -> u64 {
        match self {
            Row::Line { number, .. } => *number,
            Row::Missing { from, .. } => *from,
        }
    }

    fn last(&self) -> u64 {
        match self {
            Row::Line { number, .. } => *number,
            Row::Missing { to, .. } => *to,
        }
    }

    fn is_missing(&self) -> bool {
        matches!(self, Row::Missing { .. })
    }

    fn missing_lines(&self) -> u64 {
        match self {
            Row::Line { .. } => 0,
            Row::Missing { from, to, .. } => to + 1 - from,
        }
    }

    /// Adds the end of a line whose middle is missing.
    fn join(&mut self, rest: &[u8], layout: &Layout) {
        let Row::Line { text, .. } = self else {
            return;
        };
        if ansi::is_rewritten(rest) {
            *text = whole_line(rest, layout);
            return;
        }
        // Colours do not stay where a line is cut: a sequence could be cut as well.
        let head = ansi::readable(text.as_bytes(), Colours::Drop, None);
        let head: String = head.chars().take(LINE_CHARS / 3).collect();
        let tail = ansi::readable(rest, Colours::Drop, layout.columns);
        let tail = last_chars(&tail, LINE_CHARS - LINE_CHARS / 3);
        *text = format!("{head}… middle of the line omitted …{tail}");
    }

    /// Marks a line whose end is missing, so that it does not look whole.
    fn break_off(&mut self) {
        if let Row::Line { text, .. } = self {
            text.push('…');
        }
    }

    fn chars(&self, numbered: bool) -> usize {
        match self {
            Row::Line { number, text } => {
                let label = if numbered {
                    number.to_string().len() + 2
                } else {
                    0
                };
                text.chars().count() + label + 1
            }
            Row::Missing { .. } => 0,
        }
    }
}

/// Splits output into lines. A line of which a part is missing is shown cut.
fn rows(stretches: &[Stretch], layout: &Layout) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    // The row of a line that goes on behind its piece.
    let mut open = None;
    for stretch in stretches {
        match stretch {
            Stretch::Missing { lines, .. } if lines.is_empty() => {}
            Stretch::Missing { lines, readable } => rows.push(Row::Missing {
                from: lines.start,
                to: lines.end - 1,
                readable: *readable,
            }),
            Stretch::Read(piece) => {
                let mut lines = split(&piece.bytes);
                let mut number = piece.start.at.line;
                let rest = if piece.start.inside_line {
                    lines.next()
                } else {
                    None
                };
                let goes_on = open.take().and_then(|place: usize| rows.get_mut(place));
                match (goes_on, rest) {
                    (Some(row), Some(rest)) if row.last() == number => {
                        row.join(rest, layout);
                        number += 1;
                    }
                    (goes_on, rest) => {
                        if let Some(row) = goes_on {
                            row.break_off();
                        }
                        if let Some(rest) = rest {
                            let text = tail_of_line(rest, layout);
                            rows.push(Row::Line { number, text });
                            number += 1;
                        }
                    }
                }
                for line in lines {
                    let text = whole_line(line, layout);
                    rows.push(Row::Line { number, text });
                    number += 1;
                }
                if piece.bytes.last().is_some_and(|last| *last != b'\n') {
                    open = rows.len().checked_sub(1);
                }
            }
        }
    }
    if let (Some(place), Some(Stretch::Missing { .. })) = (open, stretches.last())
        && let Some(row) = rows.get_mut(place)
    {
        row.break_off();
    }
    rows
}

/// The lines of a piece; what follows its last newline is a line only if there is
/// something.
fn split(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let ended = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    let lines = (!bytes.is_empty()).then(|| ended.split(|byte| *byte == b'\n'));
    lines.into_iter().flatten()
}

/// The end of a line whose beginning is missing. Where a carriage return rewrites it,
/// what is missing was not to be seen.
fn tail_of_line(rest: &[u8], layout: &Layout) -> String {
    if ansi::is_rewritten(rest) {
        return whole_line(rest, layout);
    }
    let text = ansi::readable(rest, Colours::Drop, layout.columns);
    format!("…{}", last_chars(&text, LINE_CHARS))
}

/// A line as it is shown. One that is cut has no colours: a sequence could be cut as well.
fn whole_line(line: &[u8], layout: &Layout) -> String {
    let text = ansi::readable(line, layout.colours, layout.columns);
    if text.len() <= LINE_CHARS {
        return text;
    }
    match layout.colours {
        Colours::Drop => clip(&text, LINE_CHARS),
        Colours::Keep => {
            let plain = ansi::readable(line, Colours::Drop, layout.columns);
            if plain.chars().count() <= LINE_CHARS {
                text
            } else {
                clip(&plain, LINE_CHARS)
            }
        }
    }
}

/// The last so many characters.
pub fn last_chars(text: &str, count: usize) -> &str {
    let start = text
        .char_indices()
        .rev()
        .take(count)
        .last()
        .map_or(text.len(), |(place, _)| place);
    text.get(start..).unwrap_or_default()
}

/// Shrinks runs of progress lines to the newest.
fn progress_rows(rows: Vec<Row>) -> Vec<Row> {
    let mut kept: Vec<Row> = Vec::with_capacity(rows.len());
    let mut run = progress_lines::Run::default();
    for row in rows {
        let goes_on = match &row {
            Row::Line { text, .. } => run.takes(text),
            Row::Missing { .. } => {
                run = progress_lines::Run::default();
                false
            }
        };
        if goes_on {
            kept.pop();
        }
        kept.push(row);
    }
    kept
}

/// Leaves out the middle when all is too long. The last line is shown even if it alone
/// is over the room.
fn cap(mut rows: Vec<Row>, layout: &Layout) -> Vec<Row> {
    let total: usize = rows.iter().map(|row| row.chars(layout.numbered)).sum();
    if total <= layout.max_chars.saturating_add(1) {
        return rows;
    }
    let head_room = layout.max_chars / 3;
    let head = count_fitting(rows.iter(), head_room, layout.numbered);
    let tail_room = layout.max_chars - head_room;
    let tail = count_fitting(rows.iter().rev(), tail_room, layout.numbered).max(1);
    let tail_start = rows.len().saturating_sub(tail).max(head);
    if tail_start == head {
        return rows;
    }
    let after = rows.split_off(tail_start);
    let middle: Vec<Row> = rows
        .drain(head..)
        .map(|row| match row {
            Row::Line { number, .. } => Row::Missing {
                from: number,
                to: number,
                readable: true,
            },
            missing @ Row::Missing { .. } => missing,
        })
        .collect();
    let mut kept: Vec<Row> = Vec::with_capacity(rows.len() + after.len() + 1);
    for row in rows.into_iter().chain(middle).chain(after) {
        match (kept.last_mut(), &row) {
            (
                Some(Row::Missing {
                    to: end,
                    readable: before,
                    ..
                }),
                Row::Missing { to, readable, .. },
            ) if before == readable => *end = *to,
            _ => kept.push(row),
        }
    }
    kept
}

fn count_fitting<'a>(rows: impl Iterator<Item = &'a Row>, room: usize, numbered: bool) -> usize {
    let mut used = 0;
    rows.take_while(|row| {
        used += row.chars(numbered);
        used <= room
    })
    .count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: u64, text: &str) -> Stretch {
        Stretch::Read(Piece {
            start: Place {
                at: Position { offset: 0, line },
                inside_line: false,
            },
            bytes: text.as_bytes().to_vec(),
        })
    }

    /// What begins within its first line.
    fn rest(line: u64, text: &str) -> Stretch {
        let Stretch::Read(mut piece) = read(line, text) else {
            unreachable!("it was just read");
        };
        piece.start.inside_line = true;
        Stretch::Read(piece)
    }

    fn omitted(lines: Range<u64>) -> Stretch {
        Stretch::Missing {
            lines,
            readable: true,
        }
    }

    fn gone(lines: Range<u64>) -> Stretch {
        Stretch::Missing {
            lines,
            readable: false,
        }
    }

    fn layout(max_chars: usize, numbered: bool) -> Layout<'static> {
        Layout {
            max_chars,
            numbered,
            colours: Colours::Drop,
            columns: None,
            reader: "zsh_poll task_id=ab",
        }
    }

    #[test]
    fn lines_are_numbered_from_where_the_piece_begins() {
        let shown = lay_out(&[read(801, "a\nb\nc\n")], &layout(1000, true));
        assert_eq!(shown.text, "801: a\n802: b\n803: c");
        assert_eq!(
            (shown.from_line, shown.to_line, shown.omitted_lines),
            (801, 803, 0)
        );
    }

    #[test]
    fn an_unfinished_last_line_and_empty_lines_are_lines() {
        let shown = lay_out(&[read(1, "a\n\nlast")], &layout(1000, true));
        assert_eq!(shown.text, "1: a\n2: \n3: last");
    }

    #[test]
    fn nothing_is_no_line() {
        assert_eq!(
            lay_out(&[read(1, "")], &layout(1000, true)),
            Shown::default()
        );
    }

    #[test]
    fn too_much_leaves_out_the_middle_and_names_it() {
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
    fn one_long_line_is_cut_in_the_same_manner() {
        let text = format!("{}END\n", "x".repeat(10_000));
        let shown = lay_out(&[read(1, &text)], &layout(30_000, false));
        assert!(shown.text.ends_with("xEND"));
        assert!(
            shown.text.contains("… 8,003 characters omitted …"),
            "{}",
            shown.text.len()
        );
        assert!(shown.text.chars().count() < 2_100);
    }

    #[test]
    fn a_line_whose_middle_was_not_read_shows_both_ends() {
        let head = read(1, &format!("BEGIN{}", "a".repeat(3000)));
        let tail = rest(1, &format!("{}END\nnext\n", "b".repeat(3000)));
        let shown = lay_out(&[head, omitted(2..2), tail], &layout(30_000, true));
        assert!(shown.text.starts_with("1: BEGINaaa"));
        assert!(
            shown.text.contains("middle of the line omitted"),
            "{}",
            shown.text
        );
        assert!(shown.text.ends_with("bEND\n2: next"), "{}", shown.text);
    }

    #[test]
    fn of_a_rewritten_line_only_the_newest_frame_is_shown_though_its_middle_was_not_read() {
        let head = read(1, "\r 1% of a bar\r 2% of a");
        let tail = rest(1, "98% of a bar\r99% of a bar\r\nnext\n");
        let shown = lay_out(&[head, omitted(2..2), tail.clone()], &layout(30_000, true));
        assert_eq!(shown.text, "1: 99% of a bar\n2: next");
        let shown = lay_out(&[gone(1..1), tail], &layout(30_000, true));
        assert_eq!(shown.text, "1: 99% of a bar\n2: next");
    }

    #[test]
    fn lines_between_pieces_are_marked_as_omitted_or_gone() {
        let (head, tail) = (read(1, "a\nb\n"), read(50, "zz\n"));
        let stretches = [head.clone(), omitted(3..50), tail.clone()];
        let shown = lay_out(&stretches, &layout(1000, false));
        assert_eq!(
            shown.text,
            "a\nb\n… 47 lines omitted (3–49): zsh_poll task_id=ab from_line=3 …\nzz"
        );
        assert_eq!(shown.omitted_lines, 47);
        let shown = lay_out(&[head, gone(3..50), tail], &layout(1000, false));
        assert_eq!(
            shown.text,
            "a\nb\n… 47 lines gone (3–49): past the spool's quota …\nzz"
        );
    }

    #[test]
    fn what_is_omitted_and_what_is_gone_in_one_place_share_a_marker() {
        let stretches = [
            gone(1..5),
            read(5, "five\n"),
            omitted(6..10),
            gone(10..20),
            omitted(20..21),
            read(21, "end\n"),
        ];
        let shown = lay_out(&stretches, &layout(1000, true));
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
    fn what_the_size_leaves_out_and_what_is_gone_stay_apart() {
        let head: String = (1..=50).map(|number| format!("line {number}\n")).collect();
        let tail: String = (91..=150)
            .map(|number| format!("line {number}\n"))
            .collect();
        let stretches = [read(1, &head), gone(51..91), read(91, &tail)];
        let shown = lay_out(&stretches, &layout(200, false));
        let markers: Vec<&str> = shown
            .text
            .lines()
            .filter(|line| line.starts_with('…'))
            .collect();
        assert_eq!(
            markers,
            [
                "… 41 lines omitted (10–50): zsh_poll task_id=ab from_line=10; \
              40 lines gone (51–90): past the spool's quota; \
              46 lines omitted (91–136): zsh_poll task_id=ab from_line=91 …"
            ]
        );
    }

    #[test]
    fn a_line_cut_by_a_gap_does_not_look_whole() {
        let stretches = [
            read(1, "one\ntw"),
            gone(3..50),
            rest(50, "zz\nlas"),
            gone(52..53),
        ];
        let shown = lay_out(&stretches, &layout(1000, false));
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
    fn an_unfinished_character_is_told_from_a_broken_one() {
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
        let shown = lay_out(
            &[read(1, "start\n 10%\n 20%\n 30%\ndone\n")],
            &layout(1000, true),
        );
        assert_eq!(shown.text, "1: start\n4:  30%\n5: done");
    }

    proptest::proptest! {
        #[test]
        fn any_text_any_cap_no_panic(text in ".{0,400}", cap in 0usize..300, numbered: bool) {
            let shown = lay_out(&[read(3, &text)], &layout(cap, numbered));
            proptest::prop_assert!(shown.to_line >= shown.from_line);
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
