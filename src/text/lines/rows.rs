//! Rows of shown output: the lines that each row represents, and how runs of rows shrink. Pure.

use super::{Layout, first_chars, last_chars, missing_lines, redrawn, without_colours};
use crate::text::frame;
use crate::text::progress_lines;
use crate::text::quantity::{grouped, size};

/// How many consecutive identical lines are shown as one, if that is shorter.
const REPEATS: usize = 3;

/// How many lines of a progress bar are shown as one.
const STEPS: usize = 4;

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
    Missing {
        readable: bool,
    },
    /// What is no text.
    Data {
        bytes: u64,
        kind: Option<&'static str>,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Line {
    /// The number of identical lines that it represents.
    pub(crate) times: u64,
    /// The number of steps of a progress bar of which it is the newest.
    pub(crate) steps: u64,
    /// Whether its text lacks parts that were drawn over.
    pub(crate) hides_parts: bool,
    /// If it ends a group of lines that others like it follow: how many lines the group has, and
    /// how often it comes.
    pub(crate) group: Option<(usize, usize)>,
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
        // Without all of its parts, its characters cannot be counted.
        if self.hides_parts { 1 } else { self.text.chars().count() as u64 + 1 }
    }
}

impl LineRow {
    pub(super) fn line(number: u64, text: String) -> LineRow {
        LineRow {
            first: number,
            last: number,
            content: Content::Line(Line {
                times: 1,
                steps: 1,
                hides_parts: false,
                group: None,
                text,
                cut: None,
            }),
        }
    }

    /// A line of several parts, some of which its text may lack.
    pub(super) fn of_parts(number: u64, text: String, hides_parts: bool) -> LineRow {
        let mut row = LineRow::line(number, text);
        if let Some(line) = row.as_line_mut() {
            line.hides_parts = hides_parts;
        }
        row
    }

    pub(super) fn as_line(&self) -> Option<&Line> {
        match &self.content {
            Content::Line(line) => Some(line),
            Content::Missing { .. } | Content::Data { .. } => None,
        }
    }

    pub(super) fn as_line_mut(&mut self) -> Option<&mut Line> {
        match &mut self.content {
            Content::Line(line) => Some(line),
            Content::Missing { .. } | Content::Data { .. } => None,
        }
    }

    /// Makes the row, which ends a group of `lines` lines, represent all groups like it up to `last`.
    pub(super) fn stand_for(&mut self, lines: usize, times: usize, last: u64) {
        self.last = last;
        if let Some(line) = self.as_line_mut() {
            line.group = Some((lines, times));
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
            let plain = without_colours(text);
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
            Content::Data { .. } => None,
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

    /// `  (×300 with other numbers, to line 612)`
    fn count_of_groups(&self, (lines, times): (usize, usize)) -> String {
        let what = match lines {
            1 => String::new(),
            lines => format!("these {lines} lines "),
        };
        let times = grouped(times as u64);
        format!("  ({what}×{times} with other numbers, to line {})", grouped(self.last))
    }

    pub(super) fn shown(&self, layout: &Layout) -> String {
        match &self.content {
            Content::Missing { readable } => {
                missing_lines(self.first, self.last, *readable, layout)
            }
            Content::Data { bytes, kind } => data(*bytes, *kind, layout.raw_call),
            Content::Line(line) => {
                let (number, count) = match line.group {
                    None => (self.last, count_of(line.times)),
                    Some(group) => (self.first, self.count_of_groups(group)),
                };
                let steps = if line.steps > 1 { redrawn(line.steps) } else { String::new() };
                let text = line.shown(number, layout.read_call) + &steps + &count;
                if layout.numbered {
                    let lines = text.split('\n').map(|line| format!("{number}: {line}"));
                    lines.collect::<Vec<String>>().join("\n")
                } else if line.text.is_empty() {
                    // What it begins with is the tool's own marker.
                    text
                } else if text.contains('\n') {
                    let lines = text.split('\n').map(|line| frame::marked(line.to_owned()));
                    lines.collect::<Vec<String>>().join("\n")
                } else {
                    frame::marked(text)
                }
            }
        }
    }
}

/// `… binary: 5.2 MB, gzip data: zsh-tool log --raw 1a2b3c4d prints it …`
fn data(bytes: u64, kind: Option<&str>, raw_call: &str) -> String {
    let kind = kind.map_or_else(String::new, |kind| format!(", {kind}"));
    let call = if raw_call.is_empty() { String::new() } else { format!(": {raw_call} prints it") };
    format!("… binary: {}{kind}{call} …", size(bytes))
}

/// The count after a line that represents identical lines; empty for a single line.
fn count_of(times: u64) -> String {
    if times > 1 { format!("  (×{})", grouped(times)) } else { String::new() }
}

/// Shrinks runs of progress lines to the newest: of fewer lines, each is worth reading.
pub(super) fn progress_rows(rows: Vec<LineRow>) -> Vec<LineRow> {
    let mut run = progress_lines::Run::default();
    let continues = rows.iter().map(|row| match row.as_line() {
        Some(line) if !line.text.contains('\n') => run.add(&line.text),
        _ => {
            run = progress_lines::Run::default();
            false
        }
    });
    let continues: Vec<bool> = continues.collect();
    let mut kept: Vec<LineRow> = Vec::with_capacity(rows.len());
    let mut rows = rows.into_iter();
    let mut place = 0;
    while place < continues.len() {
        let rest = continues.get(place + 1..).unwrap_or_default();
        let lines = 1 + rest.iter().take_while(|continues| **continues).count();
        let mut steps: Vec<LineRow> = rows.by_ref().take(lines).collect();
        if lines >= STEPS
            && let Some(first) = steps.first().map(|row| row.first)
            && let Some(mut newest) = steps.pop()
        {
            newest.first = first;
            if let Some(line) = newest.as_line_mut() {
                line.steps = lines as u64;
            }
            kept.push(newest);
        } else {
            kept.append(&mut steps);
        }
        place += lines;
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
