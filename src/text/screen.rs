//! Emulates a terminal, to show the screen that a program has drawn.
//!
//! Takes bytes of output, cut anywhere. Returns rows of text, the cursor, the modes that matter for
//! typing, and the replies to the program's queries. Replaces sequences of xterm that the emulation
//! (vt100) lacks by equivalent ones. Limits: text without colours; no scrollback, custom tab stops,
//! insert mode or side margins. Pure.

use std::num::NonZeroU16;

use super::invisible;
use super::lines::{UNFINISHED_BYTES, unfinished_character};
use super::sequences::{SequenceEffect, SequenceScanner, answer};

/// The most rows and columns. This limits a screen's memory (32 bytes per cell, twice with the
/// alternate screen) and the work that one sequence can cause.
pub(crate) const MAX_SIDE: u16 = 500;
/// U+FE0F, which makes some narrow characters wide after they were printed. It is removed, since
/// vt100 panics if the character then must move to the next row; xterm ignores it too.
const EMOJI_PRESENTATION: &[u8] = "\u{fe0f}".as_bytes();
/// The fewest columns: a wide character must fit.
const MIN_COLS: u16 = 2;
/// The most bytes of unread replies; further replies are dropped.
const MAX_REPLIES: usize = 4096;
/// NUL, which a terminal ignores, and which ends an incomplete character.
const NOTHING: &[u8] = b"\0";
/// Cancels an incomplete sequence.
const CANCEL: &[u8] = b"\x18";
/// The distance between tab stops.
const TAB_WIDTH: u16 = 8;

/// A terminal's screen and its modes.
pub struct Screen {
    terminal: vt100::Parser,
    /// Reads the same bytes as the terminal's own parser, in step with it.
    parser: vte::Parser,
    scanner: SequenceScanner,
    /// The beginning of an incomplete character. The parsers get only whole characters, since they
    /// lose characters next to an incomplete one.
    unfinished: Vec<u8>,
    replies: String,
}

/// The modes that programs set and that decide what a terminal's keys send.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Modes {
    /// Arrow keys, Home and End send `ESC O` instead of `ESC [` (DECCKM).
    pub application_cursor: bool,
    /// Pasted text is enclosed in `ESC [ 200 ~` and `ESC [ 201 ~`.
    pub bracketed_paste: bool,
}

/// A screen at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScreenView {
    /// The text of each row from the top, without trailing blanks.
    pub rows: Vec<String>,
    /// The number of columns.
    pub cols: u16,
    /// The cursor's row, counted from 1.
    pub cursor_row: u16,
    /// The cursor's column, counted from 1.
    pub cursor_col: u16,
    /// Whether the cursor is visible.
    pub cursor_visible: bool,
    /// Whether this is the alternate screen, which full-screen programs use.
    pub alternate: bool,
}

impl Screen {
    /// An empty screen.
    pub fn new(rows: u16, cols: u16) -> Screen {
        Screen {
            terminal: vt100::Parser::new(side(rows, 1), side(cols, MIN_COLS), 0),
            parser: vte::Parser::new(),
            scanner: SequenceScanner::default(),
            unfinished: Vec::new(),
            replies: String::new(),
        }
    }

    /// Processes output of the program.
    pub fn feed(&mut self, bytes: &[u8]) {
        let rest = self.finish_character(bytes);
        let cut = rest.len() - unfinished_character(rest);
        let (whole, unfinished) = rest.split_at(cut);
        self.draw(whole);
        self.unfinished.extend_from_slice(unfinished);
    }

    /// Takes the replies to the program's queries since the last call.
    pub fn take_replies(&mut self) -> String {
        std::mem::take(&mut self.replies)
    }

    /// The number of cells: the most work that a few bytes of output can cause.
    pub fn cells(&self) -> usize {
        let (rows, cols) = self.terminal.screen().size();
        usize::from(rows.get()) * usize::from(cols.get())
    }

    /// Changes the size.
    pub fn resize(&mut self, rows: u16, cols: u16) {
        self.terminal.set_size(side(rows, 1), side(cols, MIN_COLS));
    }

    /// Draws the character that earlier bytes began, if it is now complete; returns the bytes after
    /// it.
    fn finish_character<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        if self.unfinished.is_empty() {
            return bytes;
        }
        let continuation = bytes
            .iter()
            .take(UNFINISHED_BYTES)
            .take_while(|byte| matches!(byte, 0x80..=0xbf))
            .count();
        let (end, rest) = bytes.split_at(continuation);
        self.unfinished.extend_from_slice(end);
        let is_unfinished = unfinished_character(&self.unfinished) == self.unfinished.len();
        if !(rest.is_empty() && is_unfinished) {
            let character = std::mem::take(&mut self.unfinished);
            self.draw(&character);
        }
        rest
    }

    fn draw(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while let Some(at) = memchr::memmem::find(rest, EMOJI_PRESENTATION) {
            let (before, found) = rest.split_at(at);
            self.draw_run(before);
            // The bytes on both sides must not become one character.
            self.draw_run(NOTHING);
            rest = found.get(EMOJI_PRESENTATION.len()..).unwrap_or_default();
        }
        self.draw_run(rest);
    }

    fn draw_run(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            // While text is drawn differently, process one character at a time, so that text and
            // sequences do not mix.
            let step = if self.scanner.draws_otherwise() {
                bytes.get(..first_character(bytes)).unwrap_or(bytes)
            } else {
                bytes
            };
            let taken = self.parser.advance_until_terminated(&mut self.scanner, step);
            let (run, rest) = bytes.split_at(taken);
            bytes = rest;
            match self.scanner.found.as_slice() {
                [] if self.scanner.text.is_empty() => self.terminal.process(run),
                [] => self.draw_text(),
                [SequenceEffect::Repeat(count)] => {
                    let count = *count;
                    self.scanner.found.clear();
                    self.repeat(run, count);
                }
                _ => {
                    let found = std::mem::take(&mut self.scanner.found);
                    self.terminal.process(run);
                    for found in found {
                        self.carry_out(found);
                    }
                }
            }
        }
    }

    /// Draws the text that the scanner has read.
    fn draw_text(&mut self) {
        let text = std::mem::take(&mut self.scanner.text);
        self.terminal.process(text.as_bytes());
        let screen = self.terminal.screen();
        let cols = screen.size().1.get();
        if self.scanner.no_wrap && screen.cursor_position().1 >= cols {
            self.place(None, cols);
        }
    }

    /// Draws `run`, replacing the sequence at its end: repeats the last character at most as often
    /// as a row has columns. Otherwise a few bytes could cause the work of a whole screen.
    fn repeat(&mut self, run: &[u8], count: u16) {
        let (_, cols) = self.terminal.screen().size();
        let count = count.min(cols.get());
        let before = run.split_last().map_or(run, |(_, before)| before);
        self.terminal.process(before);
        self.terminal.process(CANCEL);
        self.terminal.process(format!("\x1b[{count}b").as_bytes());
    }

    fn carry_out(&mut self, found: SequenceEffect) {
        match found {
            SequenceEffect::Query(query) => {
                let reply = answer(query, self.terminal.screen());
                if self.replies.len() + reply.len() <= MAX_REPLIES {
                    self.replies.push_str(&reply);
                }
            }
            SequenceEffect::BackTab(count) => {
                let (_, col) = self.terminal.screen().cursor_position();
                let stop = col.div_ceil(TAB_WIDTH).saturating_sub(count);
                self.place(None, stop * TAB_WIDTH + 1);
            }
            // `repeat` carries out the first; the second only ends a run.
            SequenceEffect::Repeat(_) | SequenceEffect::Switched => {}
            SequenceEffect::SoftReset => {
                let (row, col) = self.terminal.screen().cursor_position();
                self.scanner.reset();
                self.terminal.process(b"\x1b[?1l\x1b>\x1b[?25h\x1b[?6l\x1b[r\x1b[m");
                self.place(Some(row + 1), col + 1);
            }
            SequenceEffect::Alternate(true) => self.terminal.process(b"\x1b[?47h"),
            SequenceEffect::Alternate(false) => {
                if self.terminal.screen().alternate_screen() {
                    self.terminal.process(b"\x1b[2J\x1b[?47l");
                }
            }
            SequenceEffect::Replacement(sequence) => self.terminal.process(sequence.as_bytes()),
        }
    }

    /// Moves the cursor to a column, and to a row if given; both count from 1.
    fn place(&mut self, row: Option<u16>, col: u16) {
        let sequence = match row {
            Some(row) => format!("\x1b[{row};{col}H"),
            None => format!("\x1b[{col}G"),
        };
        self.terminal.process(sequence.as_bytes());
    }

    /// The screen as it is now.
    pub fn view(&self) -> ScreenView {
        let screen = self.terminal.screen();
        let cols = screen.size().1.get();
        let (row, col) = screen.cursor_position();
        ScreenView {
            rows: screen.rows(0, cols).map(|row| shown(&row)).collect(),
            cols,
            cursor_row: row + 1,
            // After printing in the last column, the cursor stays in it until the next character
            // wraps.
            cursor_col: (col + 1).min(cols),
            cursor_visible: !screen.hide_cursor(),
            alternate: screen.alternate_screen(),
        }
    }

    /// The bytes that draw this screen on a terminal of the same size, whatever it shows: text,
    /// colours, cursor and the modes of keys. Later output can follow. Omits invisible state:
    /// scroll margins, the saved cursor, and the normal screen behind the alternate one.
    pub fn drawing(&self) -> Vec<u8> {
        let screen = self.terminal.screen();
        let switch = if screen.alternate_screen() { "\x1b[?1049h" } else { "\x1b[?1047l" };
        let mut bytes = format!("{switch}\x1b[?6l\x1b[r\x1b[?7h\x1b(B\x0f").into_bytes();
        bytes.extend_from_slice(screen.state_formatted().as_bytes());
        bytes.extend_from_slice(&self.unfinished);
        bytes
    }

    /// Whether this is the alternate screen, which full-screen programs use.
    pub fn is_alternate(&self) -> bool {
        self.terminal.screen().alternate_screen()
    }

    /// The number of rows and of columns.
    pub fn size(&self) -> (u16, u16) {
        let (rows, cols) = self.terminal.screen().size();
        (rows.get(), cols.get())
    }

    /// Whether a full-screen program draws on it: one that uses the alternate screen, or
    /// application cursor keys. Line editors use these keys too, but bracketed paste as well.
    pub fn is_full_screen(&self) -> bool {
        let modes = self.modes();
        let by_keys = modes.application_cursor && !modes.bracketed_paste;
        by_keys || self.terminal.screen().alternate_screen()
    }

    /// The current modes.
    pub fn modes(&self) -> Modes {
        let screen = self.terminal.screen();
        Modes {
            application_cursor: screen.application_cursor(),
            bracketed_paste: screen.bracketed_paste(),
        }
    }
}

/// The length in bytes of the first character, which may be incomplete. Excludes bytes that cannot
/// belong to it, since they may end a sequence.
fn first_character(bytes: &[u8]) -> usize {
    let more = match bytes.first() {
        Some(0xc2..=0xdf) => 1,
        Some(0xe0..=0xef) => 2,
        Some(0xf0..=0xf4) => 3,
        _ => 0,
    };
    let continuation = bytes.iter().skip(1).take(more);
    1 + continuation.take_while(|byte| matches!(byte, 0x80..=0xbf)).count()
}

fn side(length: u16, min: u16) -> NonZeroU16 {
    NonZeroU16::new(length.clamp(min, MAX_SIDE)).unwrap_or(NonZeroU16::MIN)
}

/// A row without blanks at its end and without characters that are not seen.
fn shown(row: &str) -> String {
    invisible::show(row.trim_end_matches(' ').into()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_bytes_do_not_break_sequences() {
        let bytes = b"\x1b[?7l\x1ba\x80bc";
        let mut whole = Screen::new(1, 80);
        whole.feed(bytes);
        assert_eq!(whole.view().rows, ["bc"]);
        let mut cut = Screen::new(1, 80);
        bytes.chunks(1).for_each(|byte| cut.feed(byte));
        assert_eq!(cut.view(), whole.view());
    }

    #[test]
    fn a_character_split_between_two_reads_breaks_nothing() {
        let text = "éaé日b日😀c😀e\u{301}x";
        let bytes = text.as_bytes();
        for cut in 0..=bytes.len() {
            let mut screen = Screen::new(1, 80);
            screen.feed(&bytes[..cut]);
            screen.feed(&bytes[cut..]);
            assert_eq!(screen.view().rows, [text], "cut at {cut}");
        }
    }

    #[test]
    fn modes_follow_the_programs_sequences() {
        let mut screen = Screen::new(24, 80);
        assert_eq!(screen.modes(), Modes::default());
        screen.feed(b"\x1b[?1h\x1b=\x1b[?20");
        screen.feed(b"04h");
        let all = Modes { application_cursor: true, bracketed_paste: true };
        assert_eq!(screen.modes(), all);
        screen.feed(b"\x1b[?1l\x1b>\x1b[?2004l");
        assert_eq!(screen.modes(), Modes::default());
    }

    #[test]
    fn text_appears_at_the_cursor() {
        let mut screen = Screen::new(3, 10);
        screen.feed(b"\x1b[2;4Hhere\x1b[31m  ");
        let view = screen.view();
        assert_eq!(view.rows, ["", "   here", ""]);
        assert_eq!((view.cursor_row, view.cursor_col), (2, 10));
        assert!(view.cursor_visible && !view.alternate);
    }

    fn drawn(rows: u16, cols: u16, output: &str) -> ScreenView {
        let mut screen = Screen::new(rows, cols);
        screen.feed(output.as_bytes());
        screen.view()
    }

    fn cursor(view: &ScreenView) -> (u16, u16) {
        (view.cursor_row, view.cursor_col)
    }

    fn replies_to(screen: &mut Screen, output: &str) -> String {
        screen.feed(output.as_bytes());
        screen.take_replies()
    }

    #[test]
    fn queries_are_answered() {
        let table: &[(&str, &str)] = &[
            ("\x1b[5n", "\x1b[0n"),
            ("\x1b[7;12H\x1b[6n", "\x1b[7;12R"),
            // The cursor stays on the last column until the next character wraps.
            ("\x1b[1;80Hx\x1b[6n", "\x1b[1;80R"),
            ("ab\x1b[6ncd\x1b[6n", "\x1b[1;3R\x1b[1;5R"),
            ("\x1b[c", "\x1b[?62;22c"),
            ("\x1b[0c", "\x1b[?62;22c"),
            ("\x1bZ", "\x1b[?62;22c"),
            ("\x1b[>c", "\x1b[>0;10;1c"),
            ("\x1b]11;?\x07", "\x1b]11;rgb:0000/0000/0000\x07"),
            ("\x1b]10;?\x1b\\", "\x1b]10;rgb:e5e5/e5e5/e5e5\x1b\\"),
            ("\x1b]11;?;?\x07", "\x1b]11;rgb:0000/0000/0000\x07\x1b]12;rgb:e5e5/e5e5/e5e5\x07"),
            ("\x1b[18t", "\x1b[8;24;80t"),
            // A title that a program has set would come back as typed text.
            ("\x1b]2;rm -rf ~\x07\x1b[21t", ""),
            ("\x1bP+qrm -rf\x1b\\", ""),
            // Unknown queries are not answered: programs query the attributes after them.
            ("\x1b[?u\x1b[c", "\x1b[?62;22c"),
            ("\x1b[>q\x1b[=c\x1b[c", "\x1b[?62;22c"),
            ("\x1b[?2026$p\x1b[?6n\x1b[c", "\x1b[?62;22c"),
            ("\x1b]4;1;?\x07\x1b[14t\x1b[c", "\x1b[?62;22c"),
            ("\x1bP+q544e\x1b\\\x1bP$qm\x1b\\\x1b[c", "\x1b[?62;22c"),
            // Settings and replies are not queries.
            ("\x1b]11;#ff0000\x07\x1b]4;1;red\x07\x1b]4;300;?\x07", ""),
            ("\x1b[?62;22c\x1b[>0;10;1c\x1b[1;1R\x1b[0n", ""),
        ];
        for (output, replies) in table {
            let mut screen = Screen::new(24, 80);
            assert_eq!(replies_to(&mut screen, output), *replies, "{output:?}");
            assert_eq!(replies_to(&mut screen, replies), "", "an echo of {output:?}");
            let mut screen = Screen::new(24, 80);
            let bytewise: String =
                output.chars().map(|char| replies_to(&mut screen, &char.to_string())).collect();
            assert_eq!(bytewise, *replies, "{output:?} byte by byte");
        }
    }

    #[test]
    fn unread_replies_are_bounded_and_whole() {
        let mut screen = Screen::new(24, 80);
        for _ in 0..1000 {
            screen.feed("\x1b[c".repeat(100).as_bytes());
        }
        let replies = screen.take_replies();
        let count = replies.len() / "\x1b[?62;22c".len();
        assert!(replies.len() <= MAX_REPLIES && count > 300, "{count}");
        assert_eq!(replies, "\x1b[?62;22c".repeat(count));
        assert_eq!(replies_to(&mut screen, "\x1b[5n"), "\x1b[0n");
    }

    #[test]
    fn sequences_that_the_emulation_lacks_are_carried_out() {
        let table: &[(&str, &[&str], (u16, u16))] = &[
            ("0123456789ab\x1b[ZX", &["01234567X9ab", "", ""], (1, 10)),
            ("0123456789ab\x1b[2ZX", &["X123456789ab", "", ""], (1, 2)),
            ("0123456\x1b[10ZX", &["X123456", "", ""], (1, 2)),
            ("ab\x1bDc\x1bEd", &["ab", "  c", "d"], (3, 2)),
            ("ab\x1b[s\x1b[3;9Hfar\x1b[uc", &["abc", "", "        far"], (1, 4)),
            ("x\x1b[4b", &["xxxxx", "", ""], (1, 6)),
            // Up to the end of the line, each on the last column.
            ("\x1b[?7labcdefghijklmnopqrst", &["abcdefghijklmnot", "", ""], (1, 16)),
            ("\x1b[?7l\x1b[?7habcdefghijklmnopq", &["abcdefghijklmnop", "q", ""], (2, 2)),
            ("a\x1b[1m\x1b(0lqk\x1b[2;2Hx\x1b(Bqx", &["a┌─┐", " │qx", ""], (2, 5)),
            ("\x1b)0a\x0eqq\x0fq\n\x0ex\x0f", &["a──q", "    │", ""], (2, 6)),
            ("\x1b(0x\x1bcx", &["x", "", ""], (1, 2)),
            ("\x1b[2;3r\x1b[?25l\x1b(0\x1b[3;2H\x1b[!px\n\n", &[" x", "", ""], (3, 3)),
        ];
        for (output, rows, cursor_at) in table {
            let view = drawn(3, 16, output);
            assert_eq!(view.rows, *rows, "{output:?}");
            assert_eq!(cursor(&view), *cursor_at, "{output:?}");
            let mut screen = Screen::new(3, 16);
            for byte in output.as_bytes() {
                screen.feed(&[*byte]);
            }
            assert_eq!(screen.view(), view, "{output:?} byte by byte");
        }
    }

    #[test]
    fn the_alternate_screen_gives_the_normal_one_back() {
        for (on, off) in [("?1049h", "?1049l"), ("?47h", "?47l"), ("?1047h", "?1047l")] {
            let mut screen = Screen::new(3, 16);
            screen.feed(format!("normal\x1b[{on}\x1b[Hother").as_bytes());
            let other = screen.view();
            assert_eq!((other.rows[0].as_str(), other.alternate), ("other", true));
            screen.feed(format!("\x1b[{off}").as_bytes());
            let normal = screen.view();
            assert_eq!((normal.rows[0].as_str(), normal.alternate), ("normal", false));
        }
    }

    #[test]
    fn text_scrolls_within_its_region() {
        let view = drawn(5, 20, "top\x1b[5;1Hbottom\x1b[2;4r\x1b[4;1Hone\ntwo\nthree");
        assert_eq!(view.rows, ["top", "one", "   two", "      three", "bottom"]);
    }

    #[test]
    fn wide_and_combined_characters_take_the_columns_that_a_terminal_gives_them() {
        let view = drawn(4, 8, "日本語x\r\n👍🏽e\u{301}é\u{200d}!\r\n1234567日");
        assert_eq!(view.rows[0], "日本語x");
        assert!(view.rows[1].ends_with('!'), "{:?}", view.rows);
        // The last column contains no half of a wide character.
        assert_eq!(view.rows[2..], ["1234567", "日"]);
        assert_eq!(cursor(&view), (4, 3));
        let overwritten = drawn(1, 8, "日本語\x1b[2Gx");
        assert_eq!(overwritten.rows, [" x本語"]);
    }

    #[test]
    fn emoji_presentation_does_not_form_from_surrounding_bytes() {
        let mut screen = Screen::new(1, 8);
        screen.feed("☺".as_bytes());
        let [first, rest @ ..] = EMOJI_PRESENTATION else {
            panic!("it has bytes");
        };
        screen.feed(&[&[*first], EMOJI_PRESENTATION, rest].concat());
        screen.feed(b"x");
        let shown = screen.view().rows.concat();
        assert!(!shown.contains('\u{fe0f}'), "{shown:?}");
        assert!(shown.starts_with('☺') && shown.ends_with('x'), "{shown:?}");
    }

    #[test]
    fn a_string_without_an_end_is_not_kept() {
        let mut screen = Screen::new(2, 20);
        for start in ["\x1b]2;", "\x1bP+q", "\x1b_G", "\x1b["] {
            screen.feed(start.as_bytes());
            for _ in 0..4 {
                screen.feed(&[b'1'; 65_536]);
            }
            assert!(screen.scanner.text.is_empty() && screen.scanner.found.is_empty());
            screen.feed(b"\x18");
        }
        screen.feed(b"\x1b[Hstill drawn");
        assert_eq!(screen.view().rows[0], "still drawn");
        // The parsers must bound their own buffers; this test checks that.
        let title = format!("\x1b]11;{}\x07", "?;".repeat(2_000));
        assert_eq!(replies_to(&mut screen, &title).matches("rgb:").count(), 2);
    }

    /// A piece of output of a hostile program.
    fn hostile() -> impl proptest::strategy::Strategy<Value = Vec<u8>> {
        use proptest::prelude::*;
        let number = prop_oneof![0u16..12, Just(u16::MAX), Just(499), Just(500), Just(501)];
        let numbers = proptest::collection::vec(number, 0..4);
        let sequence = (
            prop_oneof![Just(""), Just("?"), Just(">"), Just("!"), Just("$")],
            numbers,
            prop_oneof![
                proptest::char::range('@', '~'),
                Just('h'),
                Just('l'),
                Just('b'),
                Just('r'),
                Just('H'),
                Just('@'),
                Just('P')
            ],
        );
        let sequence = sequence.prop_map(|(mark, numbers, last)| {
            let numbers: Vec<String> = numbers.iter().map(u16::to_string).collect();
            format!("\x1b[{mark}{}{last}", numbers.join(";")).into_bytes()
        });
        let mode =
            prop_oneof![Just(1), Just(6), Just(7), Just(25), Just(47), Just(1047), Just(1049)];
        let mode = (mode, proptest::bool::ANY)
            .prop_map(|(mode, on)| format!("\x1b[?{mode}{}", if on { 'h' } else { 'l' }).into());
        prop_oneof![
            proptest::collection::vec(proptest::num::u8::ANY, 0..40),
            "[a-z日é\u{301}\u{fe0f}☺👍\u{200d}\u{17d8}\t\r\n\x08\x0e\x0f]{0,30}"
                .prop_map(String::into_bytes),
            sequence,
            mode,
            "\x1b[()#]?[0-9A-Za-z=>]".prop_map(String::into_bytes),
        ]
    }

    #[derive(Debug, Clone)]
    enum Act {
        Feed(Vec<u8>),
        Resize(u16, u16),
    }

    fn act() -> impl proptest::strategy::Strategy<Value = Act> {
        use proptest::prelude::*;
        let side = || prop_oneof![8 => 0u16..6, 1 => Just(24)];
        prop_oneof![
            8 => hostile().prop_map(Act::Feed),
            1 => (side(), side()).prop_map(|(rows, cols)| Act::Resize(rows, cols)),
        ]
    }

    proptest::proptest! {
        #[test]
        fn no_output_and_no_size_panics(
            rows in 0u16..8,
            cols in 0u16..8,
            acts in proptest::collection::vec(act(), 0..30),
        ) {
            let mut screen = Screen::new(rows, cols);
            for act in acts {
                match act {
                    Act::Feed(bytes) => screen.feed(&bytes),
                    Act::Resize(rows, cols) => screen.resize(rows, cols),
                }
                let view = screen.view();
                proptest::prop_assert!((1..=view.rows.len()).contains(&view.cursor_row.into()));
                proptest::prop_assert!((1..=view.cols).contains(&view.cursor_col));
                proptest::prop_assert!(screen.replies.len() <= MAX_REPLIES);
                screen.modes();
            }
        }

        #[test]
        fn cuts_do_not_change_what_is_drawn(
            pieces in proptest::collection::vec(hostile(), 0..20),
            cuts in proptest::collection::vec(0usize..400, 0..6),
        ) {
            let bytes = pieces.concat();
            let mut whole = Screen::new(6, 9);
            whole.feed(&bytes);
            let mut cut = Screen::new(6, 9);
            let mut ends: Vec<usize> = cuts.iter().map(|at| (*at).min(bytes.len())).collect();
            ends.push(bytes.len());
            ends.sort_unstable();
            let mut start = 0;
            for end in ends {
                cut.feed(&bytes[start..end]);
                start = end;
            }
            proptest::prop_assert_eq!(whole.view(), cut.view());
            proptest::prop_assert_eq!(whole.take_replies(), cut.take_replies());
        }
    }
}
