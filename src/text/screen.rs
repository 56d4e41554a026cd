//! What a person would see on a terminal: the screen that a program has drawn.
//!
//! Bytes of output go in as they come, cut anywhere; rows of text, the cursor and the
//! modes that matter for typing come out. Limits: text only, without colours; nothing
//! that has scrolled away; sizes are held within [`MAX_SIDE`].

use std::num::NonZeroU16;

/// The most rows, and the most columns, of a screen.
pub const MAX_SIDE: u16 = 1000;

/// A terminal's screen and the state that programs put it into.
pub struct Screen {
    terminal: vt100::Parser,
}

/// What the keys of a terminal send depends on these, which programs switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Modes {
    /// Arrow keys, Home and End send `ESC O` instead of `ESC [` (DECCKM).
    pub application_cursor: bool,
    /// The keypad sends escape sequences (DECKPAM).
    pub application_keypad: bool,
    /// Pasted text is wanted between `ESC [ 200 ~` and `ESC [ 201 ~`.
    pub bracketed_paste: bool,
}

/// A screen at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct View {
    /// The text of each row from the top, without trailing blanks.
    pub rows: Vec<String>,
    /// How many columns there are.
    pub cols: u16,
    /// The cursor's row, counted from 1.
    pub cursor_row: u16,
    /// The cursor's column, counted from 1.
    pub cursor_col: u16,
    /// Whether the cursor is shown.
    pub cursor_visible: bool,
    /// Whether this is the alternate screen, that of full-screen programs.
    pub alternate: bool,
}

impl Screen {
    /// An empty screen of so many rows and columns.
    pub fn new(rows: u16, cols: u16) -> Screen {
        Screen {
            terminal: vt100::Parser::new(side(rows), side(cols), 0),
        }
    }

    /// Takes output of the program.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.terminal.process(bytes);
    }

    /// Changes the size.
    pub fn resize(&mut self, rows: u16, cols: u16) {
        self.terminal.set_size(side(rows), side(cols));
    }

    /// What is to be seen now.
    pub fn view(&self) -> View {
        let screen = self.terminal.screen();
        let cols = screen.size().1.get();
        let (row, col) = screen.cursor_position();
        View {
            rows: screen
                .rows(0, cols)
                .map(|row| row.trim_end().to_owned())
                .collect(),
            cols,
            cursor_row: row + 1,
            // Behind the last column the next character wraps; the cursor stays on it.
            cursor_col: (col + 1).min(cols),
            cursor_visible: !screen.hide_cursor(),
            alternate: screen.alternate_screen(),
        }
    }

    /// The modes now.
    pub fn modes(&self) -> Modes {
        let screen = self.terminal.screen();
        Modes {
            application_cursor: screen.application_cursor(),
            application_keypad: screen.application_keypad(),
            bracketed_paste: screen.bracketed_paste(),
        }
    }
}

fn side(length: u16) -> NonZeroU16 {
    NonZeroU16::new(length.min(MAX_SIDE)).unwrap_or(NonZeroU16::MIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_follow_what_the_program_asks_for() {
        let mut screen = Screen::new(24, 80);
        assert_eq!(screen.modes(), Modes::default());
        screen.feed(b"\x1b[?1h\x1b=\x1b[?20");
        screen.feed(b"04h");
        let all = Modes {
            application_cursor: true,
            application_keypad: true,
            bracketed_paste: true,
        };
        assert_eq!(screen.modes(), all);
        screen.feed(b"\x1b[?1l\x1b>\x1b[?2004l");
        assert_eq!(screen.modes(), Modes::default());
    }

    #[test]
    fn text_stands_where_the_cursor_was_put() {
        let mut screen = Screen::new(3, 10);
        screen.feed(b"\x1b[2;4Hhere\x1b[31m  ");
        let view = screen.view();
        assert_eq!(view.rows, ["", "   here", ""]);
        assert_eq!((view.cursor_row, view.cursor_col), (2, 10));
        assert!(view.cursor_visible && !view.alternate);
    }
}
