//! What a terminal shows at the end of one line's bytes: cells that a cursor moves over.
//!
//! Rows have the terminal's width and go on in the next one where text reaches it; such
//! rows read as one. Rows that the cursor was sent to read apart. Where the line began on
//! the screen is not known, so rows reached from there ([`LINE_ROW`]) and rows that were
//! named by number ([`SCREEN_ROW`]) are two areas. Limits: nothing scrolls, and lines are
//! neither inserted nor deleted; erased cells keep no background. Memory: eight bytes for
//! each printed column, and for at most [`PADDED_COLUMNS`] that are left free or filled by
//! repeating.

use std::collections::{BTreeMap, HashMap};

use unicode_width::UnicodeWidthChar;

use super::row::{Cell, Row};
use super::sgr::{Style, StyledText};

/// The width where no terminal says one; also the greatest. It bounds what an insertion
/// or deletion moves.
pub const MAX_COLUMNS: u16 = 1_000;
/// The cursor is sent at most so many rows away.
pub const JUMP_ROWS: u64 = 1_000;
/// A canvas of more columns than these leaves no more free before what is printed, and
/// repeats no more.
pub const PADDED_COLUMNS: usize = 1 << 20;
/// Between the rows of a line.
pub const ROW_BREAK: &str = " ⏎ ";

/// The row in which the line began; far above any count of rows above it.
const LINE_ROW: u64 = 1 << 40;
/// The screen's first row.
const SCREEN_ROW: u64 = 1 << 41;
const TAB_STOP: usize = 8;
/// The bytes of a character and its combining marks, where these come late.
const LATE_MARKS_BYTES: u16 = 64;

/// Where the cursor is; a column equal to the width stands behind the last one.
#[derive(Debug, Clone, Copy)]
struct Cursor {
    row: u64,
    column: usize,
}

/// Rows of cells and a cursor.
#[derive(Debug)]
pub struct Canvas {
    /// Every text that a cell shows or has shown.
    text: String,
    styles: Vec<Style>,
    numbers: HashMap<Style, u16>,
    style: u16,
    width: usize,
    /// All rows that hold something, but the cursor's.
    rows: BTreeMap<u64, Row>,
    /// The cells of all rows but the cursor's.
    stored: usize,
    current: Row,
    cursor: Cursor,
    saved: Cursor,
    /// The rows that the alternate screen hides.
    hidden: Option<(BTreeMap<u64, Row>, Cursor)>,
    last_printed: char,
}

/// Which part of a row or screen is erased.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Erase {
    /// From the cursor to the end.
    After,
    /// From the beginning to the cursor.
    Before,
    /// All.
    All,
}

/// How many columns a character takes that stands for itself.
fn columns_of(character: char) -> usize {
    character.width().unwrap_or(1).max(1)
}

impl Canvas {
    /// An empty one of this width.
    pub fn new(columns: Option<u16>) -> Canvas {
        let cursor = Cursor {
            row: LINE_ROW,
            column: 0,
        };
        Canvas {
            text: String::new(),
            styles: vec![Style::default()],
            numbers: HashMap::from([(Style::default(), 0)]),
            style: 0,
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

    /// The style of what is printed from now on.
    pub fn set_style(&mut self, style: Style) {
        if let Some(number) = self.numbers.get(&style) {
            self.style = *number;
            return;
        }
        // So many styles in one line: those that come later are not shown.
        let Some(number) = u16::try_from(self.styles.len()).ok() else {
            self.style = 0;
            return;
        };
        self.styles.push(style);
        self.numbers.insert(style, number);
        self.style = number;
    }

    /// Prints a character where the cursor stands.
    pub fn print(&mut self, character: char) {
        if character.width() == Some(0) && self.add_mark(character) {
            return;
        }
        self.last_printed = character;
        self.print_wide(character, columns_of(character));
    }

    /// Prints the last character again, as far as there is room for more than a program
    /// has written.
    pub fn repeat(&mut self, times: usize) {
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

    /// Adds a character to the text, for cells to show it.
    fn write(&mut self, character: char) -> Option<Cell> {
        // A text of more than 4 GiB has no cells.
        let start = u32::try_from(self.text.len()).ok()?;
        self.text.push(character);
        Some(Cell {
            start,
            length: character.len_utf8() as u16,
            style: self.style,
        })
    }

    /// Puts a cell where the cursor stands, in the next row if this one has no room.
    fn place(&mut self, cell: Cell, width: usize) {
        if self.cursor.column + width > self.width {
            self.current.goes_on = true;
            self.go_to_row(self.cursor.row + 1);
            self.cursor.column = 0;
        }
        self.put(cell, width);
    }

    fn put(&mut self, cell: Cell, width: usize) {
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

    /// Moves on to the next tab stop.
    pub fn tab(&mut self) {
        let from = self.column();
        let to = ((from / TAB_STOP + 1) * TAB_STOP).min(self.width - 1);
        if to > from && from >= self.current.cells.len() {
            // Over columns that hold nothing the tab stays a tab.
            let style = std::mem::take(&mut self.style);
            self.cursor.column = from;
            self.print_wide('\t', to - from);
            self.style = style;
        }
        self.cursor.column = to;
    }

    /// The cursor's column; behind the last one it is still in it.
    fn column(&self) -> usize {
        self.cursor.column.min(self.width - 1)
    }

    /// Sends the cursor to a column, counted from 0.
    pub fn go_to_column(&mut self, column: usize) {
        self.cursor.column = column.min(self.width - 1);
    }

    /// Moves the cursor to the right.
    pub fn go_right(&mut self, columns: usize) {
        self.go_to_column(self.column() + columns);
    }

    /// Moves the cursor to the left.
    pub fn go_left(&mut self, columns: usize) {
        self.go_to_column(self.column().saturating_sub(columns));
    }

    /// Moves the cursor by tab stops to the right.
    pub fn go_right_by_tabs(&mut self, stops: usize) {
        self.go_to_column((self.column() / TAB_STOP + stops) * TAB_STOP);
    }

    /// Moves the cursor by tab stops to the left.
    pub fn go_left_by_tabs(&mut self, stops: usize) {
        let stop = self.column().div_ceil(TAB_STOP);
        self.go_to_column(stop.saturating_sub(stops) * TAB_STOP);
    }

    /// Moves the cursor up.
    pub fn go_up(&mut self, rows: u64) {
        let top = match self.area() {
            LINE_ROW => LINE_ROW - JUMP_ROWS,
            area => area,
        };
        self.go_to_row(self.cursor.row.saturating_sub(rows).max(top));
    }

    /// Moves the cursor down.
    pub fn go_down(&mut self, rows: u64) {
        let bottom = (self.area() + JUMP_ROWS).max(self.cursor.row);
        self.go_to_row((self.cursor.row + rows).min(bottom));
    }

    /// Sends the cursor to a row of the screen, counted from 0.
    pub fn go_to_screen_row(&mut self, row: u64) {
        self.go_to_row(SCREEN_ROW + row.min(JUMP_ROWS));
    }

    fn area(&self) -> u64 {
        if self.cursor.row < SCREEN_ROW {
            LINE_ROW
        } else {
            SCREEN_ROW
        }
    }

    fn go_to_row(&mut self, row: u64) {
        // Behind the last column the cursor stands in it as soon as it moves.
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

    /// Remembers where the cursor is.
    pub fn save_cursor(&mut self) {
        self.saved = self.cursor;
    }

    /// Sends it back there.
    pub fn restore_cursor(&mut self) {
        let Cursor { row, column } = self.saved;
        self.go_to_row(row);
        self.cursor.column = column;
    }

    /// Erases in the cursor's row.
    pub fn erase_in_row(&mut self, part: Erase) {
        let column = self.column();
        match part {
            Erase::After => {
                self.current.blank(column, self.width);
                self.current.goes_on = false;
            }
            Erase::Before => self.current.blank(0, column + 1),
            Erase::All => self.current = Row::default(),
        }
    }

    /// Erases rows.
    pub fn erase_in_screen(&mut self, part: Erase) {
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

    /// Erases so many columns from the cursor on.
    pub fn erase_columns(&mut self, columns: usize) {
        let column = self.column();
        self.current.blank(column, column.saturating_add(columns));
    }

    /// Deletes so many columns; what stands behind them moves up.
    pub fn delete_columns(&mut self, columns: usize) {
        let begin = self.column();
        self.current.delete(begin, begin.saturating_add(columns));
    }

    /// Makes room for so many columns; what leaves the row at its end is gone.
    pub fn insert_columns(&mut self, columns: usize) {
        let begin = self.column();
        let room = columns.min(self.width - begin);
        if self.has_room_for(room) {
            self.current.insert(begin, room, self.width);
        }
    }

    /// Turns to the alternate screen, which is empty.
    pub fn enter_alternate_screen(&mut self) {
        if self.hidden.is_some() {
            return;
        }
        let cursor = self.cursor;
        self.go_to_row(u64::MAX);
        self.hidden = Some((std::mem::take(&mut self.rows), cursor));
        self.stored = 0;
        self.go_to_screen_row(0);
    }

    /// Turns back: what the alternate screen showed is gone.
    pub fn leave_alternate_screen(&mut self) {
        self.current = Row::default();
        let hidden = self.hidden.take();
        let (rows, cursor) = hidden.unwrap_or_else(|| (BTreeMap::new(), self.cursor));
        self.rows = rows;
        self.current = self.rows.remove(&cursor.row).unwrap_or_default();
        self.cursor = cursor;
        self.stored = self.rows.values().map(|row| row.cells.len()).sum();
    }

    /// Clears all.
    pub fn reset(&mut self) {
        self.erase_in_screen(Erase::All);
        self.set_style(Style::default());
        self.cursor.column = 0;
    }

    /// All rows that show something, as one line of text; one that is there again and
    /// again, in whatever colours, stands there once as it is last, with how often.
    pub fn into_text(mut self) -> String {
        let rows = self.take_rows();
        let mut shown = rows
            .chunk_by(|(number, row), (next, _)| row.goes_on && number + 1 == *next)
            .map(|rows| self.paragraph(rows))
            .filter(|cells| cells.iter().any(|cell| self.is_ink(*cell)));
        let (Some(first), second) = (shown.next(), shown.next()) else {
            return String::new();
        };
        let Some(second) = second else {
            return self.styled(&first);
        };
        let texts: Vec<(String, String)> = [first, second]
            .into_iter()
            .chain(shown)
            .map(|cells| {
                let cells = self.trimmed(&cells);
                (self.text(cells, |_| Style::default()), self.styled(cells))
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

    /// The text of the row in which the cursor is, with those that it goes on from.
    pub fn into_cursor_text(mut self) -> String {
        let at = self.cursor.row;
        let rows = self.take_rows();
        let found = rows
            .chunk_by(|(number, row), (next, _)| row.goes_on && number + 1 == *next)
            .find(|rows| rows.iter().any(|(number, _)| *number == at));
        found.map_or_else(String::new, |rows| self.styled(&self.paragraph(rows)))
    }

    fn take_rows(&mut self) -> Vec<(u64, Row)> {
        self.go_to_row(u64::MAX);
        std::mem::take(&mut self.rows).into_iter().collect()
    }

    /// The cells of rows that go on in each other, without blank ones at the end.
    fn paragraph(&self, rows: &[(u64, Row)]) -> Vec<Cell> {
        let mut cells: Vec<Cell> = Vec::new();
        for (_, row) in rows {
            cells.extend_from_slice(&row.cells);
        }
        let end = cells.iter().rposition(|cell| *cell != Cell::BLANK);
        cells.truncate(end.map_or(0, |last| last + 1));
        cells
    }

    /// Without white space at both ends.
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

    fn styled(&self, cells: &[Cell]) -> String {
        let style = |cell: Cell| self.styles.get(usize::from(cell.style)).copied();
        self.text(cells, |cell| style(cell).unwrap_or_default())
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
