//! One row of a terminal: cells, some of them parts of one wide character.

/// What stands in one column: a piece of the canvas's text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cell {
    /// Where its text begins.
    pub start: u32,
    /// The bytes of its text.
    pub length: u16,
    /// The number of its style.
    pub style: u16,
}

impl Cell {
    /// Nothing was printed here.
    pub const BLANK: Cell = Cell {
        start: 0,
        length: 0,
        style: 0,
    };
    /// Part of the wide character or tab before it.
    pub const CONTINUATION: Cell = Cell {
        start: 0,
        length: u16::MAX,
        style: 0,
    };
}

/// Cells up to the last one that was printed.
#[derive(Debug, Clone, Default)]
pub struct Row {
    /// One for each column.
    pub cells: Vec<Cell>,
    /// Its text goes on in the next row.
    pub goes_on: bool,
}

impl Row {
    /// Sets a cell of so many columns; what it covers in part is erased.
    pub fn put(&mut self, begin: usize, width: usize, cell: Cell) {
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
    pub fn blank(&mut self, begin: usize, end: usize) {
        self.split_at(begin);
        self.split_at(end);
        if end >= self.cells.len() {
            self.cells.truncate(begin);
        } else if let Some(erased) = self.cells.get_mut(begin..end) {
            erased.fill(Cell::BLANK);
        }
    }

    /// Deletes the columns from `begin` to before `end`; those behind them move up.
    pub fn delete(&mut self, begin: usize, end: usize) {
        self.split_at(begin);
        self.split_at(end);
        if begin < self.cells.len() {
            self.cells.drain(begin..end.min(self.cells.len()));
        }
    }

    /// Makes room for so many columns before `begin`; what does not fit into the width
    /// any more is gone.
    pub fn insert(&mut self, begin: usize, columns: usize, width: usize) {
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

    /// Leaves no wide character on both sides of a column.
    fn split_at(&mut self, column: usize) {
        if self.cells.get(column) != Some(&Cell::CONTINUATION) {
            return;
        }
        let (before, behind) = self.cells.split_at_mut(column);
        for cell in behind {
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
