//! Output as numbered lines, cut to a size.
//!
//! Takes stretches of raw bytes and gives text: whole lines, one third from the head and
//! two thirds from the tail, with a marker that names what lies between and how to read
//! it. Runs of progress lines shrink to the newest. Limits: it sees only the stretches it
//! is given; where lines are stored is the spool's business.

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

/// A stretch of the output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// Where it begins.
    pub start: Position,
    /// Whether it begins within its first line.
    pub inside_line: bool,
    /// Whether what lies before it can still be read, if it does not follow on.
    pub omitted_before: bool,
    /// Its bytes.
    pub bytes: Vec<u8>,
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

/// One line, or a stretch of lines that is missing.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Row {
    Line { number: u64, text: String },
    Missing { from: u64, to: u64, readable: bool },
}

/// Takes the last character off when not all of its bytes have come: it is shown with
/// the rest of its line. For output that may still grow.
pub fn hold_back_unfinished_character(pieces: &mut [Piece]) {
    let Some(piece) = pieces.last_mut() else {
        return;
    };
    for (bytes_there, byte) in (1..).zip(piece.bytes.iter().rev().take(3)) {
        let bytes_in_all = match byte {
            0x80..=0xbf => continue,
            0xc2..=0xdf => 2,
            0xe0..=0xef => 3,
            0xf0..=0xf4 => 4,
            _ => 1,
        };
        if bytes_in_all > bytes_there {
            piece.bytes.truncate(piece.bytes.len() - bytes_there);
        }
        return;
    }
}

/// Lays pieces of output out as text.
pub fn lay_out(pieces: &[Piece], layout: &Layout) -> Shown {
    let rows = progress_rows(rows(pieces, layout.colours));
    let Some(from_line) = rows.first().map(Row::first) else {
        return Shown::default();
    };
    let to_line = rows.last().map_or(from_line, Row::last);
    let rows = cap(rows, layout);
    let mut shown = Shown {
        text: String::new(),
        from_line,
        to_line,
        omitted_lines: 0,
    };
    for (place, row) in rows.iter().enumerate() {
        if place > 0 {
            shown.text.push('\n');
        }
        match row {
            Row::Line { number, text } => {
                if layout.numbered {
                    shown.text.push_str(&number.to_string());
                    shown.text.push_str(": ");
                }
                shown.text.push_str(text);
            }
            Row::Missing { from, to, readable } => {
                shown.omitted_lines += to + 1 - from;
                shown
                    .text
                    .push_str(&marker(*from, *to, *readable, layout.reader));
            }
        }
    }
    shown
}

fn marker(from: u64, to: u64, readable: bool, reader: &str) -> String {
    let count = grouped(to + 1 - from);
    let lines = if from == to { "line" } else { "lines" };
    let range = if from == to {
        grouped(from)
    } else {
        format!("{}–{}", grouped(from), grouped(to))
    };
    if readable && reader.is_empty() {
        format!("… {count} {lines} omitted ({range}) …")
    } else if readable {
        format!("… {count} {lines} omitted ({range}): {reader} from_line={from} …")
    } else {
        format!("… {count} {lines} gone ({range}): past the spool's quota …")
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

/// Splits pieces into lines. A line whose middle is missing is shown cut.
fn rows(pieces: &[Piece], colours: Colours) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    let mut end = None;
    let mut cut = false;
    for piece in pieces {
        let follows_on = end.is_none_or(|end| end == piece.start.offset);
        let mut lines: Vec<&[u8]> = piece.bytes.split(|byte| *byte == b'\n').collect();
        // What follows the last newline is a line only if there is something.
        if lines.last().is_some_and(|last| last.is_empty()) {
            lines.pop();
        }
        let mut lines = lines.into_iter();
        let mut number = piece.start.line;
        if !follows_on {
            number = bridge(&mut rows, cut, piece, &mut lines, colours);
        }
        for line in lines {
            let text = clip(&ansi::readable(line, colours), LINE_CHARS);
            rows.push(Row::Line { number, text });
            number += 1;
        }
        end = Some(piece.start.offset + piece.bytes.len() as u64);
        cut = piece.bytes.last().is_some_and(|last| *last != b'\n');
    }
    rows
}

/// Joins a piece to what stands before a gap, which may have cut a line; the answer is
/// the number of its next line.
fn bridge<'a>(
    rows: &mut Vec<Row>,
    cut_before: bool,
    piece: &Piece,
    lines: &mut impl Iterator<Item = &'a [u8]>,
    colours: Colours,
) -> u64 {
    let number = piece.start.line;
    let rest = if piece.inside_line {
        lines.next()
    } else {
        None
    };
    let rest = rest.map(|bytes| ansi::readable(bytes, colours));
    let before = rows.last().map(Row::last);
    if before == Some(number) {
        // One long line spans the gap.
        if let (Some(Row::Line { text, .. }), Some(rest)) = (rows.last_mut(), &rest) {
            let head: String = text.chars().take(LINE_CHARS / 3).collect();
            let tail = last_chars(rest, LINE_CHARS - LINE_CHARS / 3);
            *text = format!("{head}… middle of the line omitted …{tail}");
            return number + 1;
        }
    }
    // The head's last line may be cut by the gap as well: what stands of it is shown.
    if let Some(Row::Line { text, .. }) = rows.last_mut()
        && cut_before
    {
        text.push('…');
    }
    let from = before.map_or(1, |before| before + 1);
    if from < number {
        rows.push(Row::Missing {
            from,
            to: number - 1,
            readable: piece.omitted_before,
        });
    }
    match rest {
        Some(rest) => {
            let tail = last_chars(&rest, LINE_CHARS);
            rows.push(Row::Line {
                number,
                text: format!("…{tail}"),
            });
            number + 1
        }
        None => number,
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
    let mut after = rows.split_off(tail_start);
    let middle = rows.split_off(head);
    let (Some(first), Some(last)) = (middle.first(), middle.last()) else {
        rows.append(&mut after);
        return rows;
    };
    rows.push(Row::Missing {
        from: first.first(),
        to: last.last(),
        readable: true,
    });
    // A marker at the cut joins the new one.
    if let Some(Row::Missing { to, .. }) = after.first().cloned() {
        after.remove(0);
        if let Some(Row::Missing { to: end, .. }) = rows.last_mut() {
            *end = to;
        }
    }
    rows.append(&mut after);
    rows
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

    fn piece(offset: u64, line: u64, text: &str) -> Piece {
        Piece {
            start: Position { offset, line },
            inside_line: false,
            omitted_before: true,
            bytes: text.as_bytes().to_vec(),
        }
    }

    fn layout(max_chars: usize, numbered: bool) -> Layout<'static> {
        Layout {
            max_chars,
            numbered,
            colours: Colours::Drop,
            reader: "zsh_poll task_id=ab",
        }
    }

    #[test]
    fn lines_are_numbered_from_where_the_piece_begins() {
        let shown = lay_out(&[piece(90, 801, "a\nb\nc\n")], &layout(1000, true));
        assert_eq!(shown.text, "801: a\n802: b\n803: c");
        assert_eq!(
            (shown.from_line, shown.to_line, shown.omitted_lines),
            (801, 803, 0)
        );
    }

    #[test]
    fn an_unfinished_last_line_and_empty_lines_are_lines() {
        let shown = lay_out(&[piece(0, 1, "a\n\nlast")], &layout(1000, true));
        assert_eq!(shown.text, "1: a\n2: \n3: last");
    }

    #[test]
    fn nothing_is_no_line() {
        assert_eq!(
            lay_out(&[piece(0, 1, "")], &layout(1000, true)),
            Shown::default()
        );
    }

    #[test]
    fn too_much_leaves_out_the_middle_and_names_it() {
        let text: String = (1..=1000).map(|n| format!("line {n} of many\n")).collect();
        let shown = lay_out(&[piece(0, 1, &text)], &layout(600, false));
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
        let shown = lay_out(&[piece(0, 1, &text)], &layout(30_000, false));
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
        let head = piece(0, 1, &format!("BEGIN{}", "a".repeat(3000)));
        let mut tail = piece(1_000_000, 1, &format!("{}END\nnext\n", "b".repeat(3000)));
        tail.inside_line = true;
        let shown = lay_out(&[head, tail], &layout(30_000, true));
        assert!(shown.text.starts_with("1: BEGINaaa"));
        assert!(shown.text.ends_with("bEND\n2: next"), "{}", shown.text);
    }

    #[test]
    fn lines_between_pieces_are_marked_as_omitted_or_gone() {
        let mut tail = piece(1000, 50, "zz\n");
        let shown = lay_out(&[piece(0, 1, "a\nb\n"), tail.clone()], &layout(1000, false));
        assert_eq!(
            shown.text,
            "a\nb\n… 47 lines omitted (3–49): zsh_poll task_id=ab from_line=3 …\nzz"
        );
        assert_eq!(shown.omitted_lines, 47);
        tail.omitted_before = false;
        let shown = lay_out(&[piece(0, 1, "a\nb\n"), tail], &layout(1000, false));
        assert!(
            shown
                .text
                .contains("… 47 lines gone (3–49): past the spool's quota …")
        );
    }

    #[test]
    fn a_line_cut_by_a_gap_does_not_look_whole() {
        let shown = lay_out(
            &[piece(0, 1, "one\ntw"), piece(1000, 50, "zz\n")],
            &layout(1000, false),
        );
        assert!(
            shown.text.starts_with("one\ntw…\n… 47 lines"),
            "{}",
            shown.text
        );
    }

    #[test]
    fn an_unfinished_character_is_held_back() {
        for (bytes, kept) in [
            (&b"x\xe3\x81"[..], &b"x"[..]),
            (b"x\xe3\x81\x82", b"x\xe3\x81\x82"),
            (b"\xf0\x9f\x98", b""),
            (b"\xc3", b""),
            (b"\xff", b"\xff"),
            (b"\x81\x81\x81\x81", b"\x81\x81\x81\x81"),
            (b"plain\n", b"plain\n"),
            (b"", b""),
        ] {
            let mut pieces = [piece(0, 1, "")];
            pieces[0].bytes = bytes.to_vec();
            hold_back_unfinished_character(&mut pieces);
            assert_eq!(pieces[0].bytes, kept, "{bytes:?}");
        }
    }

    #[test]
    fn progress_lines_shrink_to_the_newest() {
        let shown = lay_out(
            &[piece(0, 1, "start\n 10%\n 20%\n 30%\ndone\n")],
            &layout(1000, true),
        );
        assert_eq!(shown.text, "1: start\n4:  30%\n5: done");
    }

    proptest::proptest! {
        #[test]
        fn any_text_any_cap_no_panic(text in ".{0,400}", cap in 0usize..300, numbered: bool) {
            let shown = lay_out(&[piece(7, 3, &text)], &layout(cap, numbered));
            proptest::prop_assert!(shown.to_line >= shown.from_line);
        }

        #[test]
        fn the_last_line_is_always_shown(lines in proptest::collection::vec("[a-z]{1,30}", 1..80), cap in 40usize..400) {
            let text = lines.join("\n");
            let shown = lay_out(&[piece(0, 1, &text)], &layout(cap, false));
            let last = lines.last().map(String::as_str).unwrap_or_default();
            proptest::prop_assert!(shown.text.ends_with(last), "{}", shown.text);
        }
    }
}
