//! `grep` over a task's output: matching lines with their numbers and context. A long line shows a
//! window around each match, with the match's column.

use std::collections::VecDeque;
use std::io;
use std::ops::{ControlFlow, Range};

use crate::task::output::effort::Effort;
use crate::task::output::reading;
use crate::task::output::spool::Spool;
use crate::text::foreign;
use crate::text::lines::{self, LINE_CHARS, LinePosition, Room, Shown};
use crate::text::pattern::{GivenUp, Pattern};
use crate::text::quantity::grouped;
use crate::text::segments;

/// How many characters of a long line are shown with a match.
const WINDOW_CHARS: usize = 200;
/// How many matches in long lines are counted beyond those that are shown.
const MAX_COUNTED: u64 = 10_000;

/// What to search for and in which lines, inclusive.
#[derive(Debug, Clone, Copy)]
pub(super) struct Query<'a> {
    pub(crate) pattern: &'a Pattern,
    /// Lines shown before and after each match.
    pub(crate) context: usize,
    /// From 1.
    pub(crate) first: u64,
    /// The character of the first line at which the search begins, from 1.
    pub(crate) first_char: u64,
    /// `u64::MAX` for the end.
    pub(crate) last: u64,
}

/// The result of a search.
#[derive(Debug, Default)]
pub(super) struct SearchResult {
    rows: Vec<String>,
    first: u64,
    last: u64,
    matches: u64,
    /// How many matches did not fit, and the first of these: its line, and in a long line its
    /// character.
    unshown: u64,
    next: Option<(u64, Option<u64>)>,
    /// The same for lines of context.
    unshown_context: u64,
    next_context: Option<u64>,
    /// How many bytes of the shown lines were cut, and the first cut line.
    omitted: u64,
    first_cut: Option<u64>,
    /// The line at which the search was given up.
    pub(super) given_up_at: Option<u64>,
}

struct Search<'a, 'b> {
    query: Query<'a>,
    effort: &'a mut Effort<'b>,
    room: Room,
    reader: &'a str,
    found: SearchResult,
    before: VecDeque<ContextLine>,
    /// How many more lines of context the last match gets.
    after: usize,
    long: LongLine,
}

/// A line around a match, shortened.
struct ContextLine {
    number: u64,
    text: String,
    omitted: u64,
}

/// A long line that is being searched in parts.
#[derive(Default)]
struct LongLine {
    number: u64,
    /// The end of the last part, so that a match across the border is found.
    tail: String,
    /// How many characters precede the tail.
    chars: u64,
}

/// Searches the output of a task whose terminal, if any, has this width. Keeps as many lines as
/// fit, and counts the other matches, in long lines up to a limit. `reader` is the call that reads
/// omitted parts of a line.
///
/// # Errors
/// When a spool file cannot be read.
pub(super) fn grep(
    spool: &Spool,
    end: LinePosition,
    columns: Option<u16>,
    query: Query<'_>,
    room: Room,
    reader: &str,
    effort: &mut Effort<'_>,
) -> io::Result<SearchResult> {
    let mut search = Search {
        query,
        effort,
        room,
        reader,
        found: SearchResult::default(),
        before: VecDeque::new(),
        after: 0,
        long: LongLine::default(),
    };
    let Some(from) = spool.find_line(query.first, end)? else {
        return Ok(search.found);
    };
    reading::for_each_line(spool, from, end.at.offset, |position, bytes| {
        if position.line > query.last {
            return ControlFlow::Break(());
        }
        for text in segments::searchable(bytes, columns) {
            if search.visit(position.line, &text).is_err() {
                search.found.given_up_at = Some(position.line);
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
    })?;
    search.effort.pause();
    Ok(search.found)
}

impl Search<'_, '_> {
    /// Visits a line, or the next part of one.
    fn visit(&mut self, number: u64, text: &str) -> Result<(), GivenUp> {
        if self.long.number != number {
            self.long = LongLine::default();
        }
        let is_long = !self.long.tail.is_empty() || text.chars().nth(LINE_CHARS).is_some();
        let starts_within = number == self.query.first && self.query.first_char > 1;
        if is_long || starts_within {
            return self.visit_long(number, text);
        }
        if self.effort.is_match(self.query.pattern, text)? {
            self.found.matches += 1;
            self.show_match(number, None, text);
        } else {
            self.visit_context(number, text);
        }
        Ok(())
    }

    /// Keeps or shows a line that does not match, as context.
    fn visit_context(&mut self, number: u64, text: &str) {
        if self.after == 0 && self.query.context == 0 {
            return;
        }
        let (text, omitted) = lines::line_cut_to(LINE_CHARS, text, number, self.reader);
        let line = ContextLine { number, text, omitted };
        if self.after == 0 {
            if self.before.len() == self.query.context {
                self.before.pop_front();
            }
            self.before.push_back(line);
            return;
        }
        self.after -= 1;
        let mut left = self.room;
        if left.take_line(&row(number, '-', &line.text)) {
            self.push_context(line);
        } else {
            self.room = Room::NONE;
            self.leave_context_out(&[line]);
        }
    }

    fn push_context(&mut self, line: ContextLine) {
        self.count_cut(line.number, line.omitted);
        self.push(line.number, '-', &line.text);
    }

    fn leave_context_out(&mut self, lines: &[ContextLine]) {
        self.found.unshown_context += lines.len() as u64;
        let first = lines.first().map(|line| line.number);
        self.found.next_context = self.found.next_context.or(first);
    }

    fn count_cut(&mut self, number: u64, omitted: u64) {
        if omitted > 0 {
            self.found.omitted += omitted;
            self.found.first_cut.get_or_insert(number);
        }
    }

    /// Shows a window around each match that no other window shows.
    fn visit_long(&mut self, number: u64, part: &str) -> Result<(), GivenUp> {
        let tail = std::mem::take(&mut self.long.tail);
        let text = format!("{tail}{part}");
        // Characters are counted up to `place`, and the text is shown up to `shown_to`.
        let (mut place, mut chars, mut shown_to) = (0, self.long.chars, 0);
        let mut shown = 0;
        self.effort.begin(part);
        let mut from = 0;
        while let Some(found) = self.effort.find(self.query.pattern, &text, from)? {
            // After an empty match, the search continues after the next character.
            from = found.end + usize::from(found.is_empty());
            from = text.ceil_char_boundary(from);
            chars += text.get(place..found.start).map_or(0, count_chars);
            place = found.start;
            let column = chars + 1;
            let was_searched = !tail.is_empty() && found.end <= tail.len();
            let is_before = number == self.query.first && column < self.query.first_char;
            let is_over = found.is_empty() && found.end >= text.len();
            if was_searched || is_before || found.start < shown_to {
                if is_over {
                    break;
                }
                continue;
            }
            self.found.matches += 1;
            if self.found.next.is_some() {
                self.found.unshown += 1;
                if self.found.unshown >= MAX_COUNTED || is_over {
                    break;
                }
                continue;
            }
            let window = window_around(&text, found);
            let mark = |cut: bool| if cut { "…" } else { "" };
            let row = format!(
                "[char {column}] {}{}{}",
                mark(window.start > 0 || self.long.chars > 0),
                text.get(window.clone()).unwrap_or_default(),
                mark(window.end < text.len()),
            );
            if self.show_match(number, Some(column), &row) {
                shown += window.len();
                shown_to = window.end;
            }
            if is_over {
                break;
            }
        }
        if shown > 0 {
            self.found.omitted += part.len().saturating_sub(shown) as u64;
            self.found.first_cut.get_or_insert(number);
        } else if tail.is_empty() {
            self.visit_context(number, part);
        }
        let tail = lines::last_chars(&text, WINDOW_CHARS).to_owned();
        self.long = LongLine {
            number,
            chars: self.long.chars + count_chars(&text) - count_chars(&tail),
            tail,
        };
        Ok(())
    }

    /// Shows a match with the context before it, if they fit; returns whether they did. The first
    /// match is always shown, so that each call makes progress.
    fn show_match(&mut self, number: u64, column: Option<u64>, text: &str) -> bool {
        let before: Vec<ContextLine> = std::mem::take(&mut self.before).into();
        let mut left = self.room;
        let context = before.iter().map(|line| row(line.number, '-', &line.text));
        let mut rows = context.chain([row(number, ':', text)]);
        if self.found.next.is_none() && rows.all(|row| left.take_line(&row)) {
            for line in before {
                self.push_context(line);
            }
            self.push(number, ':', text);
        } else if self.found.rows.is_empty() {
            self.leave_context_out(&before);
            let limit = LINE_CHARS.min(self.room.chars).min(self.room.bytes / 4);
            let (text, omitted) = lines::line_cut_to(limit, text, number, self.reader);
            self.count_cut(number, omitted);
            self.push(number, ':', &text);
        } else {
            self.found.unshown += 1;
            self.found.next.get_or_insert((number, column));
            return false;
        }
        self.after = self.query.context;
        true
    }

    fn push(&mut self, number: u64, sign: char, text: &str) {
        let found = &mut self.found;
        if self.query.context > 0 && found.last > 0 && number > found.last + 1 {
            found.rows.push("--".to_owned());
        }
        let row = row(number, sign, text);
        if !self.room.take_line(&row) {
            self.room = Room::NONE;
        }
        found.rows.push(row);
        if found.first == 0 {
            found.first = number;
        }
        found.last = number;
    }
}

fn row(number: u64, sign: char, text: &str) -> String {
    format!("{number}{sign} {text}")
}

fn count_chars(text: &str) -> u64 {
    text.chars().count() as u64
}

/// The range of [`WINDOW_CHARS`] around a match; of a longer match, its beginning.
fn window_around(text: &str, found: Range<usize>) -> Range<usize> {
    let (before, behind) = text.split_at(found.start);
    let matched = text.get(found.clone()).map_or(0, |text| text.chars().count());
    let beside = WINDOW_CHARS.saturating_sub(matched);
    let before = lines::last_chars(before, beside / 2);
    let behind = lines::first_chars(behind, WINDOW_CHARS - before.chars().count());
    found.start - before.len()..found.start + behind.len()
}

impl SearchResult {
    /// The body of a result.
    pub(super) fn into_shown(mut self, pattern: &Pattern, reader: &str) -> Shown {
        if self.matches == 0 {
            let pattern = foreign::shown(pattern.as_str());
            self.rows.push(match self.given_up_at {
                Some(line) => format!("(no line before line {line} matches {pattern})"),
                None => format!("(no line matches {pattern})"),
            });
        }
        let mut left_out = Vec::new();
        if let Some((line, column)) = self.next {
            let least = match self.unshown {
                ..MAX_COUNTED => "",
                MAX_COUNTED.. => "at least ",
            };
            let column = column.map_or_else(String::new, |column| format!(" from_char={column}"));
            left_out.push(format!(
                "{least}{} more matches: {reader} grep=… from_line={line}{column}",
                grouped(self.unshown)
            ));
        }
        if let Some(line) = self.next_context {
            left_out.push(format!(
                "{} of context: {reader} from_line={line}",
                lines::lines_of(self.unshown_context)
            ));
        }
        if !left_out.is_empty() {
            self.rows.push(format!("… {} …", left_out.join("; ")));
        }
        if let Some(line) = self.first_cut {
            let first = Some((line, 1));
            left_out.push(lines::omission_of(0, self.omitted, 0, first, reader));
        }
        let omission = left_out.join("; ");
        Shown {
            not_utf_8: None,
            text: self.rows.join("\n"),
            from_line: self.first,
            to_line: self.last,
            omitted_lines: 0,
            omitted_bytes: self.omitted,
            omission,
        }
    }
}
