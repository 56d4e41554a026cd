//! Computes what a terminal shows after the bytes of one line: cells over which a cursor moves.
//!
//! Text that reaches the terminal's width continues in the next row; the result joins these rows.
//! Rows to which the cursor was moved stay separate. The row of the screen in which the line began
//! is unknown, so rows reached from it ([`LINE_ROW`]) and rows addressed by number ([`SCREEN_ROW`])
//! are two areas. Limits: no scrolling, no insertion or deletion of lines, and erased cells keep no
//! background. Memory: one [`Cell`] per printed column, and for at most [`PADDED_COLUMNS`] columns
//! that are skipped or filled by repetition.
//!
//! The emulation of whole screens (vt100) cannot replace it: vt100 turns tabs into spaces, drops
//! text that leaves its rows, has fewer styles, and allocates a screen for each line, which takes a
//! hundred times as long. Pure.

use std::collections::BTreeMap;

use unicode_width::UnicodeWidthChar;

use super::sgr::{Style, StyledText};

/// The greatest width, which also applies if the width is unknown. It limits how many cells an
/// insertion or deletion moves.
pub(super) const MAX_COLUMNS: u16 = 1_000;
/// How many rows the cursor can move away from the start of its area.
const JUMP_ROWS: u64 = 1_000;
/// The most cells of a canvas that may still skip or repeat columns.
pub(super) const PADDED_COLUMNS: usize = 1 << 20;
/// The separator between the rows of a line.
const ROW_BREAK: &str = " ⏎ ";

/// The row in which the line began; larger than any number of rows above it.
const LINE_ROW: u64 = 1 << 40;
/// The screen's first row.
const SCREEN_ROW: u64 = 1 << 41;
const TAB_STOP: usize = 8;
/// The most bytes of a character with combining marks that follow it late.
const LATE_MARKS_BYTES: u16 = 64;

/// The cursor's position. A column equal to the width is after the last one.
#[derive(Debug, Clone, Copy)]
struct Cursor {
    row: u64,
    column: usize,
}

/// Rows of cells and a cursor.
#[derive(Debug)]
pub(super) struct Canvas {
    /// The texts of all cells, including overwritten ones.
    text: String,
    /// The style of the next printed character.
    pub(crate) style: Style,
    width: usize,
    /// All rows that are not empty, except the cursor's.
    rows: BTreeMap<u64, Row>,
    /// The number of cells in all rows except the cursor's.
    stored: usize,
    current: Row,
    cursor: Cursor,
    saved: Cursor,
    /// The rows and the cursor that the alternate screen hides.
    hidden: Option<(BTreeMap<u64, Row>, Cursor)>,
    last_printed: char,
}

/// The part of a row or screen to erase, relative to the cursor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Erase {
    After,
    Before,
    All,
}

/// The width of a character that is not a combining mark.
fn columns_of(character: char) -> usize {
    character.width().unwrap_or(1).max(1)
}

impl Canvas {
    /// An empty canvas of this width.
    pub(super) fn new(columns: Option<u16>) -> Canvas {
        let cursor = Cursor { row: LINE_ROW, column: 0 };
        Canvas {
            text: String::new(),
            style: Style::default(),
            // A wide character has two columns.
            width: usize::from(columns.unwrap_or(MAX_COLUMNS).clamp(2, MAX_COLUMNS)),
            rows: BTreeMap::new(),
            stored: 0,
            current: Row::default(),
            cursor,
            saved: cursor,
            hidden: None,
            last_printed: ' ',
        }
    }

    pub(super) fn print(&mut self, character: char) {
        if character.width() == Some(0) && self.add_mark(character) {
            return;
        }
        self.last_printed = character;
        self.print_wide(character, columns_of(character));
    }

    /// Prints the last character again, at most as often as a row has columns.
    pub(super) fn repeat(&mut self, times: usize) {
        let times = times.min(self.width);
        let width = columns_of(self.last_printed);
        if self.has_room_for(times * width)
            && let Some(cell) = self.write(self.last_printed)
        {
            for _ in 0..times {
                self.place(cell, width);
            }
        }
    }

    fn print_wide(&mut self, character: char, width: usize) {
        if let Some(cell) = self.write(character) {
            self.place(cell, width);
        }
    }

    /// Adds a character to the text and returns a cell that shows it.
    fn write(&mut self, character: char) -> Option<Cell> {
        // Text beyond 4 GiB gets no cells.
        let start = u32::try_from(self.text.len()).ok()?;
        self.text.push(character);
        Some(Cell { start, length: character.len_utf8() as u16, style: self.style })
    }

    /// Puts a cell at the cursor, or in the next row if this row has no room.
    fn place(&mut self, cell: Cell, width: usize) {
        if self.cursor.column + width > self.width {
            self.current.wraps = true;
            self.go_to_row(self.cursor.row + 1);
            self.cursor.column = 0;
        }
        let length = self.current.cells.len();
        if self.cursor.column > length && !self.has_room_for(self.cursor.column - length) {
            self.cursor.column = length;
        }
        self.current.put(self.cursor.column, width, cell);
        self.cursor.column += width;
    }

    fn has_room_for(&self, free_columns: usize) -> bool {
        self.stored + self.current.cells.len() + free_columns <= PADDED_COLUMNS
    }

    /// Adds a combining mark to the character before the cursor, if there is one.
    fn add_mark(&mut self, mark: char) -> bool {
        let before = self.current.cells.get_mut(..self.cursor.column);
        let Some(cell) = before
            .unwrap_or_default()
            .iter_mut()
            .rfind(|cell| **cell != Cell::CONTINUATION)
            .filter(|cell| cell.length > 0)
        else {
            return false;
        };
        let start = cell.start as usize;
        let end = start + usize::from(cell.length);
        if end != self.text.len() {
            let Ok(moved) = u32::try_from(self.text.len()) else {
                return false;
            };
            if cell.length > LATE_MARKS_BYTES {
                return true;
            }
            self.text.extend_from_within(start..end);
            cell.start = moved;
        }
        let length = cell.length + mark.len_utf8() as u16;
        if length < u16::MAX - 4 {
            self.text.push(mark);
            cell.length = length;
        }
        true
    }

    /// Moves the cursor to the next tab stop.
    pub(super) fn tab(&mut self) {
        let from = self.column();
        let to = ((from / TAB_STOP + 1) * TAB_STOP).min(self.width - 1);
        if to > from && from >= self.current.cells.len() {
            // A tab over empty columns stays a tab.
            let style = std::mem::take(&mut self.style);
            self.cursor.column = from;
            self.print_wide('\t', to - from);
            self.style = style;
        }
        self.cursor.column = to;
    }

    /// The cursor's column. After the last column, the cursor is still in it.
    fn column(&self) -> usize {
        self.cursor.column.min(self.width - 1)
    }

    /// Moves the cursor to a column, counted from 0.
    pub(super) fn go_to_column(&mut self, column: usize) {
        self.cursor.column = column.min(self.width - 1);
    }

    pub(super) fn go_right(&mut self, columns: usize) {
        self.go_to_column(self.column() + columns);
    }

    pub(super) fn go_left(&mut self, columns: usize) {
        self.go_to_column(self.column().saturating_sub(columns));
    }

    pub(super) fn go_right_by_tabs(&mut self, stops: usize) {
        self.go_to_column((self.column() / TAB_STOP + stops) * TAB_STOP);
    }

    pub(super) fn go_left_by_tabs(&mut self, stops: usize) {
        let stop = self.column().div_ceil(TAB_STOP);
        self.go_to_column(stop.saturating_sub(stops) * TAB_STOP);
    }

    pub(super) fn go_up(&mut self, rows: u64) {
        let top = match self.area() {
            LINE_ROW => LINE_ROW - JUMP_ROWS,
            area => area,
        };
        self.go_to_row(self.cursor.row.saturating_sub(rows).max(top));
    }

    pub(super) fn go_down(&mut self, rows: u64) {
        let bottom = (self.area() + JUMP_ROWS).max(self.cursor.row);
        self.go_to_row((self.cursor.row + rows).min(bottom));
    }

    /// Moves the cursor down, to the first column.
    pub(super) fn next_line(&mut self, rows: u64) {
        self.go_down(rows);
        self.go_to_column(0);
    }

    /// Moves the cursor to a row of the screen, counted from 0.
    pub(super) fn go_to_screen_row(&mut self, row: u64) {
        self.go_to_row(SCREEN_ROW + row.min(JUMP_ROWS));
    }

    fn area(&self) -> u64 {
        if self.cursor.row < SCREEN_ROW { LINE_ROW } else { SCREEN_ROW }
    }

    fn go_to_row(&mut self, row: u64) {
        // A cursor after the last column returns to it when it moves.
        self.cursor.column = self.column();
        if row == self.cursor.row {
            return;
        }
        let next = self.rows.remove(&row).unwrap_or_default();
        self.stored -= next.cells.len();
        let left = std::mem::replace(&mut self.current, next);
        self.stored += left.cells.len();
        if !left.cells.is_empty() {
            self.rows.insert(self.cursor.row, left);
        }
        self.cursor.row = row;
    }

    pub(super) fn save_cursor(&mut self) {
        self.saved = self.cursor;
    }

    pub(super) fn restore_cursor(&mut self) {
        let Cursor { row, column } = self.saved;
        self.go_to_row(row);
        self.cursor.column = column;
    }

    pub(super) fn erase_in_row(&mut self, part: Erase) {
        let column = self.column();
        match part {
            Erase::After => {
                self.current.blank(column, self.width);
                self.current.wraps = false;
            }
            Erase::Before => self.current.blank(0, column + 1),
            Erase::All => self.current = Row::default(),
        }
    }

    pub(super) fn erase_in_screen(&mut self, part: Erase) {
        let at = self.cursor.row;
        if part != Erase::Before {
            while let Some(below) = self.rows.last_entry().filter(|row| *row.key() > at) {
                self.stored -= below.remove().cells.len();
            }
        }
        if part != Erase::After {
            while let Some(above) = self.rows.first_entry().filter(|row| *row.key() < at) {
                self.stored -= above.remove().cells.len();
            }
        }
        self.erase_in_row(part);
    }

    /// Erases columns, beginning with the cursor's.
    pub(super) fn erase_columns(&mut self, columns: usize) {
        let column = self.column();
        self.current.blank(column, column.saturating_add(columns));
    }

    /// Deletes columns; those after them move left.
    pub(super) fn delete_columns(&mut self, columns: usize) {
        let begin = self.column();
        self.current.delete(begin, begin.saturating_add(columns));
    }

    /// Inserts blank columns; cells that leave the row at its end are lost.
    pub(super) fn insert_columns(&mut self, columns: usize) {
        let begin = self.column();
        let room = columns.min(self.width - begin);
        if self.has_room_for(room) {
            self.current.insert(begin, room, self.width);
        }
    }

    /// Switches to the alternate screen, which is empty.
    pub(super) fn enter_alternate_screen(&mut self) {
        if self.hidden.is_some() {
            return;
        }
        let cursor = self.cursor;
        self.go_to_row(u64::MAX);
        self.hidden = Some((std::mem::take(&mut self.rows), cursor));
        self.stored = 0;
        self.go_to_screen_row(0);
    }

    /// Switches back; the contents of the alternate screen are lost.
    pub(super) fn leave_alternate_screen(&mut self) {
        self.current = Row::default();
        let hidden = self.hidden.take();
        let (rows, cursor) = hidden.unwrap_or_else(|| (BTreeMap::new(), self.cursor));
        self.rows = rows;
        self.current = self.rows.remove(&cursor.row).unwrap_or_default();
        self.cursor = cursor;
        self.stored = self.rows.values().map(|row| row.cells.len()).sum();
    }

    pub(super) fn reset(&mut self) {
        self.erase_in_screen(Erase::All);
        self.style = Style::default();
        self.cursor.column = 0;
    }

    /// All non-blank rows as one line of text. Consecutive rows that differ at most in colours
    /// appear once, as the last of them, with their count.
    pub(super) fn into_text(mut self) -> String {
        let rows = self.take_rows();
        let shown: Vec<Vec<Cell>> = rows
            .chunk_by(continues)
            .map(paragraph)
            .filter(|cells| cells.iter().any(|cell| self.is_ink(*cell)))
            .collect();
        if let [only] = shown.as_slice() {
            return self.text(only, |cell| cell.style);
        }
        let texts: Vec<(String, String)> = shown
            .iter()
            .map(|cells| {
                let cells = self.trimmed(cells);
                let plain = self.text(cells, |_| Style::default());
                (plain, self.text(cells, |cell| cell.style))
            })
            .collect();
        let texts: Vec<String> = texts
            .chunk_by(|(text, _), (next, _)| text == next)
            .filter_map(|same| match (same.len(), same.last()?) {
                (1, (_, styled)) => Some(styled.clone()),
                (times, (_, styled)) => Some(format!("{styled} (×{times})")),
            })
            .collect();
        texts.join(ROW_BREAK)
    }

    /// The text of the cursor's row, joined with the rows that continue into it or from it.
    pub(super) fn into_cursor_text(mut self) -> String {
        let at = self.cursor.row;
        let rows = self.take_rows();
        rows.chunk_by(continues)
            .find(|rows| rows.iter().any(|(number, _)| *number == at))
            .map(|rows| self.text(&paragraph(rows), |cell| cell.style))
            .unwrap_or_default()
    }

    fn take_rows(&mut self) -> Vec<(u64, Row)> {
        self.go_to_row(u64::MAX);
        std::mem::take(&mut self.rows).into_iter().collect()
    }

    /// Removes white space at both ends.
    fn trimmed<'a>(&self, cells: &'a [Cell]) -> &'a [Cell] {
        let begin = cells.iter().position(|cell| self.is_ink(*cell));
        let end = cells.iter().rposition(|cell| self.is_ink(*cell));
        match (begin, end) {
            (Some(begin), Some(end)) => cells.get(begin..=end).unwrap_or_default(),
            _ => &[],
        }
    }

    fn is_ink(&self, cell: Cell) -> bool {
        cell != Cell::CONTINUATION && !self.text_of(cell).trim().is_empty()
    }

    fn text_of(&self, cell: Cell) -> &str {
        let start = cell.start as usize;
        let text = self.text.get(start..start + usize::from(cell.length));
        text.unwrap_or_default()
    }

    fn text(&self, cells: &[Cell], style: impl Fn(Cell) -> Style) -> String {
        let mut text = StyledText::default();
        for cell in cells {
            match *cell {
                Cell::CONTINUATION => {}
                Cell::BLANK => text.push(" ", Style::default()),
                cell => text.push(self.text_of(cell), style(cell)),
            }
        }
        text.finish()
    }
}

/// Whether a row's text continues in the next one.
fn continues((number, row): &(u64, Row), (next, _): &(u64, Row)) -> bool {
    row.wraps && number + 1 == *next
}

/// The cells of rows that continue each other, without trailing blank cells.
fn paragraph(rows: &[(u64, Row)]) -> Vec<Cell> {
    let rows = rows.iter().map(|(_, row)| row.cells.as_slice());
    let mut cells = rows.collect::<Vec<_>>().concat();
    let end = cells.iter().rposition(|cell| *cell != Cell::BLANK);
    cells.truncate(end.map_or(0, |last| last + 1));
    cells
}

/// One column: a range of the canvas's text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Cell {
    pub start: u32,
    pub length: u16,
    pub style: Style,
}

impl Cell {
    /// A cell without a printed character.
    pub(crate) const BLANK: Cell = Cell { start: 0, length: 0, style: Style::PLAIN };
    /// Part of the wide character or tab before it.
    pub(crate) const CONTINUATION: Cell = Cell { start: 0, length: u16::MAX, style: Style::PLAIN };
}

/// Cells up to the last printed one.
#[derive(Debug, Clone, Default)]
struct Row {
    /// One for each column.
    pub cells: Vec<Cell>,
    /// Whether its text continues in the next row.
    pub wraps: bool,
}

impl Row {
    /// Sets a cell of `width` columns. Erases wide characters that it partly covers.
    pub(crate) fn put(&mut self, begin: usize, width: usize, cell: Cell) {
        let end = begin + width;
        self.split_at(begin);
        self.split_at(end);
        if self.cells.len() < end {
            self.cells.resize(end, Cell::BLANK);
        }
        let covered = self.cells.get_mut(begin..end);
        if let Some((first, others)) = covered.and_then(<[Cell]>::split_first_mut) {
            *first = cell;
            others.fill(Cell::CONTINUATION);
        }
    }

    /// Erases the columns from `begin` to before `end`.
    pub(crate) fn blank(&mut self, begin: usize, end: usize) {
        self.split_at(begin);
        self.split_at(end);
        if end >= self.cells.len() {
            self.cells.truncate(begin);
        } else if let Some(erased) = self.cells.get_mut(begin..end) {
            erased.fill(Cell::BLANK);
        }
    }

    /// Deletes the columns from `begin` to before `end`; those after them move left.
    pub(crate) fn delete(&mut self, begin: usize, end: usize) {
        self.split_at(begin);
        self.split_at(end);
        if begin < self.cells.len() {
            self.cells.drain(begin..end.min(self.cells.len()));
        }
    }

    /// Inserts blank columns before `begin`; cells that no longer fit into the width are lost.
    pub(crate) fn insert(&mut self, begin: usize, columns: usize, width: usize) {
        self.split_at(begin);
        if begin >= self.cells.len() {
            return;
        }
        let fits = width.saturating_sub(columns);
        self.split_at(fits);
        self.cells.truncate(fits);
        let begin = begin.min(self.cells.len());
        let blanks = std::iter::repeat_n(Cell::BLANK, columns);
        self.cells.splice(begin..begin, blanks);
    }

    /// Erases a wide character that begins before a column and extends into it.
    fn split_at(&mut self, column: usize) {
        if self.cells.get(column) != Some(&Cell::CONTINUATION) {
            return;
        }
        let (before, after) = self.cells.split_at_mut(column);
        for cell in after {
            if *cell != Cell::CONTINUATION {
                break;
            }
            *cell = Cell::BLANK;
        }
        for cell in before.iter_mut().rev() {
            let was_first = *cell != Cell::CONTINUATION;
            *cell = Cell::BLANK;
            if was_first {
                break;
            }
        }
    }
}
