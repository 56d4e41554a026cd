//! Rows of shown output: the lines that each row represents, how runs of rows shrink, and which
//! rows to omit without enough room. Pure.

use super::{LINE_CHARS, Layout, Room, first_chars, last_chars, missing_lines};
use crate::text::ansi::{self, Colours};
use crate::text::frame;
use crate::text::progress_lines;
use crate::text::quantity::grouped;

/// How many consecutive identical lines are shown as one, if that is shorter.
const REPEATS: usize = 3;

/// A row that represents one or more lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LineRow {
    /// The first line that it represents.
    pub(crate) first: u64,
    /// The last line that it represents, whose number it shows.
    pub(crate) last: u64,
    pub(crate) content: Content,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Content {
    Line(Line),
    Missing { readable: bool },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Line {
    /// The number of identical lines that it represents.
    pub(crate) times: u64,
    /// The text, up to the cut if there is one.
    pub(crate) text: String,
    pub(crate) cut: Option<Cut>,
}

/// An omitted part of a line, with the text after it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Cut {
    /// Bytes that can be read.
    pub(crate) omitted: u64,
    /// Bytes that are gone, if their number is known.
    pub(crate) gone: u64,
    pub(crate) tail: String,
}

impl Cut {
    pub(super) fn add(&mut self, bytes: u64, readable: bool) {
        if readable {
            self.omitted += bytes;
        } else {
            self.gone += bytes;
        }
    }

    /// `… 4,000 bytes omitted: zsh_poll task_id=ab from_line=3 from_char=667 …`
    pub(super) fn marker(&self, number: u64, character: u64, reader: &str) -> String {
        let mut parts = Vec::new();
        if self.omitted > 0 {
            let mut part = format!("{} bytes omitted", grouped(self.omitted));
            if !reader.is_empty() {
                // Without a character the call would read all lines from this one on.
                part += &format!(": {reader} from_line={number} from_char={character}");
            }
            parts.push(part);
        }
        if self.gone > 0 {
            let bytes = grouped(self.gone);
            parts.push(format!("{bytes} bytes gone: past the spool's quota"));
        }
        if parts.is_empty() { "…".to_owned() } else { format!("… {} …", parts.join("; ")) }
    }
}

impl Line {
    /// The text, with a marker for the omitted part.
    pub(super) fn shown(&self, number: u64, reader: &str) -> String {
        match &self.cut {
            None => self.text.clone(),
            Some(cut) => {
                let marker = cut.marker(number, self.next_character(), reader);
                format!("{}{marker}{}", self.text, cut.tail)
            }
        }
    }

    /// The number of the character at the cut.
    fn next_character(&self) -> u64 {
        self.text.chars().count() as u64 + 1
    }
}

impl LineRow {
    pub(super) fn line(number: u64, text: String) -> LineRow {
        LineRow {
            first: number,
            last: number,
            content: Content::Line(Line { times: 1, text, cut: None }),
        }
    }

    pub(super) fn as_line(&self) -> Option<&Line> {
        match &self.content {
            Content::Line(line) => Some(line),
            Content::Missing { .. } => None,
        }
    }

    pub(super) fn as_line_mut(&mut self) -> Option<&mut Line> {
        match &mut self.content {
            Content::Line(line) => Some(line),
            Content::Missing { .. } => None,
        }
    }

    /// Marks a line whose end is missing, so that it does not appear complete.
    pub(super) fn break_off(&mut self, missing: Cut) {
        if let Some(line) = self.as_line_mut() {
            let cut = line.cut.get_or_insert_default();
            cut.omitted += missing.omitted;
            cut.gone += missing.gone;
        }
    }

    /// Cuts a line to `limit` characters: one third from its head, two thirds from its tail. A cut
    /// line loses its colours, since the cut may divide a sequence.
    pub(super) fn shorten(&mut self, limit: usize) {
        let Some(Line { text, cut, .. }) = self.as_line_mut() else {
            return;
        };
        if cut.is_none() {
            if text.len() <= limit {
                return;
            }
            let plain = ansi::readable(text.as_bytes(), Colours::Drop, None);
            if plain.chars().count() <= limit {
                return;
            }
            let (head, tail) = plain.split_at(first_chars(&plain, limit / 3).len());
            *text = head.to_owned();
            *cut = Some(Cut { tail: tail.to_owned(), ..Cut::default() });
        }
        let Some(cut) = cut else {
            return;
        };
        let all = text.len() + cut.tail.len();
        *text = first_chars(text, limit / 3).to_owned();
        cut.tail = last_chars(&cut.tail, limit - limit / 3).to_owned();
        cut.omitted += (all - text.len() - cut.tail.len()) as u64;
    }

    pub(super) fn is_missing(&self) -> bool {
        matches!(self.content, Content::Missing { .. })
    }

    pub(super) fn missing_lines(&self) -> u64 {
        if self.is_missing() { self.last + 1 - self.first } else { 0 }
    }

    pub(super) fn omitted_bytes(&self) -> u64 {
        let cut = self.as_line().and_then(|line| line.cut.as_ref());
        cut.map_or(0, |cut| cut.omitted)
    }

    /// Whether the omitted output can be read.
    pub(super) fn is_readable(&self) -> bool {
        self.content != Content::Missing { readable: false }
    }

    /// The first readable omitted line, and the first omitted character in it.
    pub(super) fn first_omitted(&self) -> Option<(u64, u64)> {
        match &self.content {
            Content::Missing { readable } => readable.then_some((self.first, 1)),
            Content::Line(line) => {
                (self.omitted_bytes() > 0).then(|| (self.last, line.next_character()))
            }
        }
    }

    /// Whether the next row repeats the same line. Rows for several lines of a progress bar and cut
    /// lines are not compared, since parts of them are missing.
    fn is_repeated_by(&self, next: &LineRow) -> bool {
        let (Content::Line(line), Content::Line(next_line)) = (&self.content, &next.content) else {
            return false;
        };
        let are_single = self.first == self.last && next.first == next.last;
        are_single && line == next_line && line.cut.is_none() && !line.text.trim().is_empty()
    }

    pub(super) fn shown(&self, layout: &Layout) -> String {
        match &self.content {
            Content::Missing { readable } => {
                missing_lines(self.first, self.last, *readable, layout.read_call)
            }
            Content::Line(line) => {
                let text = line.shown(self.last, layout.read_call) + &count_of(line.times);
                if layout.numbered {
                    format!("{}: {text}", self.last)
                } else if line.text.is_empty() {
                    // What it begins with is the tool's own marker.
                    text
                } else {
                    frame::marked(text)
                }
            }
        }
    }
}

/// The count after a line that represents identical lines; empty for a single line.
fn count_of(times: u64) -> String {
    if times > 1 { format!("  (×{})", grouped(times)) } else { String::new() }
}

/// Shrinks runs of progress lines to the newest.
pub(super) fn progress_rows(rows: Vec<LineRow>) -> Vec<LineRow> {
    let mut kept: Vec<LineRow> = Vec::with_capacity(rows.len());
    let mut run = progress_lines::Run::default();
    for mut row in rows {
        let replaces = match row.as_line() {
            Some(line) => run.add(&line.text),
            None => {
                run = progress_lines::Run::default();
                false
            }
        };
        if replaces && let Some(earlier) = kept.pop() {
            row.first = earlier.first;
        }
        kept.push(row);
    }
    kept
}

/// Shrinks runs of identical lines to one.
pub(super) fn repeated_rows(rows: Vec<LineRow>) -> Vec<LineRow> {
    let mut kept: Vec<LineRow> = Vec::with_capacity(rows.len());
    let runs = rows.chunk_by(LineRow::is_repeated_by).map(<[LineRow]>::len);
    let runs: Vec<usize> = runs.collect();
    let mut rows = rows.into_iter();
    for run in runs {
        let start = kept.len();
        kept.extend(rows.by_ref().take(run));
        if run < REPEATS {
            continue;
        }
        let times = run as u64;
        let Some((last, line)) = kept.last().and_then(|row| Some((row.last, row.as_line()?)))
        else {
            continue;
        };
        let saved = (run - 1) * (line.text.chars().count() + 1);
        if saved <= count_of(times).chars().count() {
            continue;
        }
        kept.truncate(start + 1);
        if let Some(row) = kept.last_mut() {
            row.last = last;
            if let Some(line) = row.as_line_mut() {
                line.times = times;
            }
        }
    }
    kept
}

/// Cuts long lines, and then omits the middle, if there is not enough room. Always shows the last
/// line, even if it does not fit.
pub(super) fn cap(mut rows: Vec<LineRow>, layout: &Layout) -> Vec<LineRow> {
    let room = layout.room;
    // The last line has no newline after it.
    let all =
        Room { chars: room.chars.saturating_add(1), bytes: room.bytes.saturating_add(1), ..room };
    if count_fitting(rows.iter(), all, layout) == rows.len() {
        return rows;
    }
    // A character has at most four bytes.
    let max_length = LINE_CHARS.min(room.chars).min(room.bytes / 4);
    rows.iter_mut().for_each(|row| row.shorten(max_length));
    if count_fitting(rows.iter(), all, layout) == rows.len() {
        return rows;
    }
    let (head_room, tail_room) = room.third();
    let head = count_fitting(rows.iter(), head_room, layout);
    let tail = count_fitting(rows.iter().rev(), tail_room, layout).max(1);
    let tail_start = rows.len().saturating_sub(tail).max(head);
    for row in rows.get_mut(head..tail_start).unwrap_or_default() {
        if !row.is_missing() {
            row.content = Content::Missing { readable: true };
        }
    }
    if tail_start > head {
        rows.dedup_by(|row, before| {
            let continues = row.is_missing() && row.content == before.content;
            if continues {
                before.last = row.last;
            }
            continues
        });
    }
    rows
}

/// How many of the first rows fit into the room. Missing lines take no room.
fn count_fitting<'a>(
    rows: impl Iterator<Item = &'a LineRow>,
    mut room: Room,
    layout: &Layout,
) -> usize {
    rows.take_while(|row| row.is_missing() || room.take_line(&row.shown(layout))).count()
}
