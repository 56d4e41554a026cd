//! Converts a line of output to the text that a terminal finally shows.
//!
//! Most lines are plain and stay unchanged. If only carriage returns rewrite a line, as in progress
//! bars, the result is its newest frame. A line that moves its cursor in any other way (line
//! editors, full-screen programs) is drawn on a [`canvas`](super::canvas). Other sequences are
//! removed, except colours if the caller keeps them. Control characters appear in caret notation
//! (`^@`), C1 characters as the equivalent escape sequence (`^[[`); drawing removes bells and
//! padding, and characters that are not seen appear by their code points. Invalid UTF-8 becomes
//! U+FFFD. Limits: each line is processed separately, so a colour or
//! a string of a terminal command ends with its line. Pure.

use std::borrow::Cow;

use vte::{Params, Parser, Perform};

use super::canvas::{Canvas, Erase};
use super::invisible;
use super::line_drawing::{self, CharacterSets, SHIFT_IN, SHIFT_OUT};
use super::sequences::parameter;
use super::sgr::{Style, StyledText};

/// How to treat colours (SGR sequences) in the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Colours {
    /// Keep them.
    Keep,
    /// Remove them.
    Drop,
}

/// Whether the end of a line hides its beginning: it has a carriage return, or moves the cursor to
/// a row of the screen by number.
pub(crate) fn is_rewritten(line: &[u8]) -> bool {
    memchr::memchr(b'\r', without_returns_at_end(line)).is_some() || names_screen_rows(line)
}

fn without_returns_at_end(line: &[u8]) -> &[u8] {
    let end = line.iter().rposition(|byte| *byte != b'\r').map_or(0, |last| last + 1);
    line.get(..end).unwrap_or_default()
}

/// Converts a line's bytes (without its newline) to readable text. `columns` is the width of the
/// terminal, if the line was written to one. The only control characters in the result are tabs,
/// and colours if they are kept. Converting the result again does not change it.
pub fn readable(line: &[u8], colours: Colours, columns: Option<u16>) -> String {
    let line = String::from_utf8_lossy(without_returns_at_end(line));
    let shown = if is_plain(line.as_bytes()) {
        line
    } else if columns.is_some() && is_rewritten(line.as_bytes()) {
        Cow::Owned(draw(&line, colours, columns).into_text())
    } else if memchr::memchr2(ESCAPE, BACKSPACE, line.as_bytes()).is_none() {
        let frame = line.rsplit('\r').next().unwrap_or_default();
        Cow::Owned(spell_out(frame, colours).unwrap_or_default())
    } else {
        let drawn = || draw(&line, colours, columns).into_text();
        Cow::Owned(spell_out(&line, colours).unwrap_or_else(drawn))
    };
    invisible::show(shown).into_owned()
}

/// Like [`readable`], but only the row with the cursor, which contains a program's prompt.
pub fn prompt(line: &[u8], columns: Option<u16>) -> String {
    let text = String::from_utf8_lossy(without_returns_at_end(line));
    let drawn = || draw(&text, Colours::Drop, columns).into_cursor_text();
    let shown = spell_out(&text, Colours::Drop).unwrap_or_else(drawn);
    invisible::show(shown.into()).into_owned()
}

const BACKSPACE: u8 = 0x08;
const ESCAPE: u8 = 0x1b;
/// The first byte of the control characters U+0080 to U+009F, and of a few others.
const C1_LEAD: u8 = 0xc2;

/// Whether the line contains nothing to convert or remove. Reads every byte without a branch.
fn is_plain(line: &[u8]) -> bool {
    !line.iter().fold(false, |found, byte| {
        found | ((*byte < 0x20) & (*byte != b'\t')) | (*byte == 0x7f) | (*byte == C1_LEAD)
    })
}

/// The text of a line whose cursor only returns to the first column; `None` for other lines.
fn spell_out(line: &str, colours: Colours) -> Option<String> {
    let mut writer = PlainWriter {
        text: StyledText::with_capacity(line.len()),
        colours,
        style: Style::default(),
        returned: false,
        draws: false,
    };
    // A line that draws is drawn again from its start, so the unread rest does not matter.
    let _ = Parser::new().advance_until_terminated(&mut writer, line.as_bytes());
    (!writer.draws).then(|| writer.text.finish())
}

struct PlainWriter {
    text: StyledText,
    colours: Colours,
    style: Style,
    /// Whether the next character replaces all earlier ones.
    returned: bool,
    draws: bool,
}

impl PlainWriter {
    fn push(&mut self, character: char) {
        if std::mem::take(&mut self.returned) {
            self.text.clear();
        }
        self.text.push_character(character, self.style);
    }
}

impl Perform for PlainWriter {
    fn print(&mut self, character: char) {
        match character {
            '\u{7f}' => self.execute(0x7f),
            character => self.push(character),
        }
    }

    fn execute(&mut self, byte: u8) {
        match byte {
            BACKSPACE => self.draws = true,
            b'\r' => self.returned = true,
            b'\t' => self.push('\t'),
            byte => in_caret_notation(byte).chars().for_each(|shown| self.push(shown)),
        }
    }

    fn csi_dispatch(&mut self, params: &Params, intermediates: &[u8], ignore: bool, action: char) {
        if ignore {
            return;
        }
        match (intermediates, action) {
            ([], 'm') if self.colours == Colours::Keep => self.style.apply(params),
            (
                [],
                '@' | 'A'..='K' | 'P' | 'X' | 'Z' | '`' | 'a' | 'b' | 'd' | 'e' | 'f' | 's' | 'u',
            ) => self.draws = true,
            (b"?", 'h' | 'l') => {
                self.draws = params.iter().flatten().any(|mode| is_drawing_mode(*mode, action));
            }
            _ => {}
        }
    }

    fn esc_dispatch(&mut self, intermediates: &[u8], ignore: bool, byte: u8) {
        self.draws = !ignore
            && matches!(
                (intermediates, byte),
                ([], b'7' | b'8' | b'D' | b'E' | b'M' | b'c') | ([b'(' | b')'], line_drawing::SET)
            );
    }

    fn terminated(&self) -> bool {
        self.draws
    }
}

/// Line editors enable bracketed paste, full-screen programs the alternate screen.
fn is_drawing_mode(mode: u16, action: char) -> bool {
    mode == BRACKETED_PASTE && action == 'h' || ALTERNATE_SCREEN.contains(&mode)
}

const BRACKETED_PASTE: u16 = 2004;
const ALTERNATE_SCREEN: [u16; 3] = [47, 1047, 1049];

/// `^@`, or `^[@` for C1.
fn in_caret_notation(byte: u8) -> String {
    match byte {
        0..0x20 => format!("^{}", char::from(byte + b'@')),
        0x7f => "^?".to_owned(),
        0x80..0xa0 => format!("^[{}", char::from(byte - 0x80 + b'@')),
        _ => char::REPLACEMENT_CHARACTER.to_string(),
    }
}

/// Whether a line moves the cursor to a row of the screen, or clears the screen.
fn names_screen_rows(line: &[u8]) -> bool {
    struct Places(bool);
    impl Perform for Places {
        fn csi_dispatch(&mut self, params: &Params, intermediates: &[u8], _: bool, action: char) {
            self.0 = intermediates.is_empty()
                && (matches!(action, 'H' | 'f' | 'd')
                    || (action == 'J' && parameter(params, 0, 0) == 2));
        }

        fn terminated(&self) -> bool {
            self.0
        }
    }
    let mut places = Places(false);
    if memchr::memchr(ESCAPE, line).is_some() {
        let _ = Parser::new().advance_until_terminated(&mut places, line);
    }
    places.0
}

fn draw(line: &str, colours: Colours, columns: Option<u16>) -> Canvas {
    let mut painter = LinePainter {
        canvas: Canvas::new(columns),
        colours,
        character_sets: CharacterSets::default(),
    };
    Parser::new().advance(&mut painter, line.as_bytes());
    painter.canvas
}

/// Draws on a canvas as a terminal does.
struct LinePainter {
    canvas: Canvas,
    colours: Colours,
    character_sets: CharacterSets,
}

impl Perform for LinePainter {
    fn print(&mut self, character: char) {
        if character == '\u{7f}' {
            self.execute(0x7f);
        } else {
            self.canvas.print(self.character_sets.shown(character));
        }
    }

    fn execute(&mut self, byte: u8) {
        match byte {
            BACKSPACE => self.canvas.go_left(1),
            b'\t' => self.canvas.tab(),
            b'\r' => self.canvas.go_to_column(0),
            VERTICAL_TAB | FORM_FEED => self.canvas.go_down(1),
            SHIFT_OUT | SHIFT_IN => self.character_sets.shift(byte),
            0 | BELL => {}
            byte => in_caret_notation(byte).chars().for_each(|shown| self.canvas.print(shown)),
        }
    }

    fn csi_dispatch(&mut self, params: &Params, intermediates: &[u8], ignore: bool, action: char) {
        if ignore {
            return;
        }
        let count = parameter(params, 0, 1);
        let columns = usize::from(count);
        let rows = u64::from(count);
        let canvas = &mut self.canvas;
        match (intermediates, action) {
            ([], 'm') if self.colours == Colours::Keep => canvas.style.apply(params),
            ([], '@') => canvas.insert_columns(columns),
            ([], 'A') => canvas.go_up(rows),
            ([], 'B' | 'e') => canvas.go_down(rows),
            ([], 'C' | 'a') => canvas.go_right(columns),
            ([], 'D') => canvas.go_left(columns),
            ([], 'E') => canvas.next_line(rows),
            ([], 'F') => {
                canvas.go_up(rows);
                canvas.go_to_column(0);
            }
            ([], 'G' | '`') => canvas.go_to_column(columns - 1),
            ([], 'H' | 'f') => {
                canvas.go_to_screen_row(rows - 1);
                canvas.go_to_column(usize::from(parameter(params, 1, 1)) - 1);
            }
            ([], 'I') => canvas.go_right_by_tabs(columns),
            ([], 'Z') => canvas.go_left_by_tabs(columns),
            ([], 'd') => canvas.go_to_screen_row(rows - 1),
            ([], 'J' | 'K') => {
                let part = match parameter(params, 0, 0) {
                    0 => Erase::After,
                    1 => Erase::Before,
                    2 => Erase::All,
                    _ => return,
                };
                if action == 'J' {
                    canvas.erase_in_screen(part);
                } else {
                    canvas.erase_in_row(part);
                }
            }
            ([], 'P') => canvas.delete_columns(columns),
            ([], 'X') => canvas.erase_columns(columns),
            ([], 'b') => canvas.repeat(columns),
            ([], 's') => canvas.save_cursor(),
            ([], 'u') => canvas.restore_cursor(),
            (b"?", 'h') if switches_screen(params) => canvas.enter_alternate_screen(),
            (b"?", 'l') if switches_screen(params) => canvas.leave_alternate_screen(),
            _ => {}
        }
    }

    fn esc_dispatch(&mut self, intermediates: &[u8], ignore: bool, byte: u8) {
        if ignore {
            return;
        }
        match (intermediates, byte) {
            ([], b'7') => self.canvas.save_cursor(),
            ([], b'8') => self.canvas.restore_cursor(),
            ([], b'D') => self.canvas.go_down(1),
            ([], b'E') => self.canvas.next_line(1),
            ([], b'M') => self.canvas.go_up(1),
            ([], b'c') => {
                self.canvas.reset();
                self.character_sets = CharacterSets::default();
            }
            _ => {
                self.character_sets.designate(intermediates, byte);
            }
        }
    }
}

fn switches_screen(params: &Params) -> bool {
    let mut modes = params.iter().flatten();
    modes.any(|mode| ALTERNATE_SCREEN.contains(mode))
}

const BELL: u8 = 0x07;
const VERTICAL_TAB: u8 = 0x0b;
const FORM_FEED: u8 = 0x0c;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::canvas;

    fn plain(line: &[u8]) -> String {
        readable(line, Colours::Drop, Some(80))
    }

    #[test]
    fn lines_read_as_on_a_terminal() {
        let table: &[(&[u8], &str)] = &[
            (b"plain", "plain"),
            (b"tab\there", "tab\there"),
            (b"\x1b[31mred\x1b[0m", "red"),
            (b"\x1b[2K\x1b[1Gline", "line"),
            (b"nul\0here", "nul^@here"),
            (b"bell\x07", "bell^G"),
            (b"del\x7f", "del^?"),
            (b"bad \xff utf8", "bad \u{fffd} utf8"),
            (b"bad \xff utf8 \x01", "bad \u{fffd} utf8 ^A"),
            (b"\x1b[1mcut \xe3\x81", "cut \u{fffd}"),
            (b"windows\r", "windows"),
            (b"\r\r\r", ""),
            ("日本語 \x1b[1m太字".as_bytes(), "日本語 太字"),
            ("8-bit \u{9b}31mred\u{85}".as_bytes(), "8-bit ^[[31mred^[E"),
            ("\u{80}\u{9f}".as_bytes(), "^[@^[_"),
            ("caf\u{e9} 20\u{b0} \u{a0}·".as_bytes(), "caf\u{e9} 20\u{b0} \u{a0}·"),
        ];
        for (bytes, wanted) in table {
            assert_eq!(plain(bytes), *wanted, "{bytes:?}");
        }
    }

    #[test]
    fn a_line_that_only_returns_covers_what_it_reaches() {
        let table: &[(&[u8], &str)] = &[
            (b"10%\r20%\r30%", "30%"),
            (b"10%\r20%\r", "20%"),
            (b"hello world\rbye", "byelo world"),
            (b"a long first frame\rshort\x1b[K", "short"),
            (b"\x1b[32ma long first\r\x1b[1mshort\x1b[0m", "shortg first"),
            (b"done\r\x1b[?25h\r", "done"),
            (b"\x1b[?2004l\rcol\tumn\r", "col\tumn"),
        ];
        for (bytes, wanted) in table {
            assert_eq!(plain(bytes), *wanted, "{bytes:?}");
        }
    }

    #[test]
    fn a_cursor_that_moves_within_its_row_is_followed() {
        let table: &[(&[u8], &str)] = &[
            (b"back\x08space", "bacspace"),
            (b"\x08\x08x", "x"),
            (b"N\x08NA\x08AM\x08ME\x08E _\x08i_\x08n", "NAME in"),
            (b"p\x08pr\x08\x08pri\x08\x08\x08print", "print"),
            (b"abcdef\x1b[3Dx", "abcxef"),
            (b"abcdef\r\x1b[2Cx", "abxdef"),
            (b"abcdef\x1b[2Gx", "axcdef"),
            (b"abcdef\x1b[2`x\x1b[2ay", "axcdyf"),
            (b"abcdef\x1b[3G\x1b[K", "ab"),
            (b"abcdef\x1b[3G\x1b[1K", "   def"),
            (b"abcdef\x1b[3G\x1b[2Kx", "  x"),
            (b"abcdef\x1b[3G\x1b[2P", "abef"),
            (b"abcdef\x1b[3G\x1b[2@", "ab  cdef"),
            (b"abcdef\x1b[3G\x1b[2X", "ab  ef"),
            (b"abcdef\x1b[3G\x1b[20X", "ab"),
            (b"-\x1b[4b|", "-----|"),
            (b"\x1b[10Gx", "         x"),
            (b"> \x1b[3G", "> "),
            (b"a\tb\x08c", "a\tc"),
            (b"a\tb\x1b[4Gx", "a  x    b"),
            (b"ab\x1b7cd\x1b8x", "abxd"),
            (b"12345678901\r\tx\x08", "12345678x01"),
            (b"\x1b[2Ka\0b\x07c\x7f", "abc^?"),
            (b"\x1b(0lqk\x1b(B lqk", "┌─┐ lqk"),
            (b"\x1b)0\x0eqx\x0f qx", "─│ qx"),
        ];
        for (bytes, wanted) in table {
            assert_eq!(plain(bytes), *wanted, "{:?}", bytes.escape_ascii());
        }
    }

    #[test]
    fn wide_characters_and_marks_keep_their_columns() {
        let table: &[(&str, &str)] = &[
            ("日本\x08\x08x", "日x"),
            ("日本\x08x", "日 x"),
            ("日本\x1b[2Gx", " x本"),
            ("e\u{301}x\x08y", "e\u{301}y"),
            ("ax\x08\u{301}", "a\u{301}x"),
            ("\u{301}x\x08y", "\u{301}y"),
            ("日本語\x1b[3G\x1b[P", "日 語"),
        ];
        for (text, wanted) in table {
            assert_eq!(plain(text.as_bytes()), *wanted, "{text:?}");
        }
    }

    #[test]
    fn text_that_reaches_the_last_column_continues() {
        let wraps = |text: &[u8]| readable(text, Colours::Drop, Some(4));
        // The cursor stays in the last column until more text follows.
        assert_eq!(wraps(b"abcd\x08x"), "abxd");
        assert_eq!(wraps(b"abcde\x08x"), "abcdx");
        assert_eq!(wraps(b"abcd \ref\x08g"), "abcdeg");
        assert_eq!(wraps(b"abcdef\x1b[Ax\x1b[By"), "abxdef y");
        assert_eq!(wraps("abc日\x08\x08x".as_bytes()), "abcx");
        // A line editor at a known terminal width, and at an unknown one.
        assert_eq!(wraps(b"\x1b[?2004h$ ab \rcd"), "$ abcd");
        let unknown = readable(b"abcdef\x08x", Colours::Drop, None);
        assert_eq!(unknown, "abcdex");
    }

    #[test]
    fn rows_of_a_screen_are_separated() {
        let table: &[(&[u8], &str)] = &[
            (b"\x1b[2;3Hmiddle\x1b[1;1Htop  \x1b[5dend", "top ⏎ middle ⏎ end"),
            (b"\x1b[5;10Honly", "         only"),
            (b"old\x1b[H\x1b[2Jnew", "new"),
            (b"\x1b[3;1Hc\x1b[2;1Hb\x1b[J\x1b[1;1Ha", "a ⏎ b"),
            (b"\x1b[1;1Ha\x1b[2;1Hb\x1b[3;1Hc\x1b[2;1H\x1b[1J", "c"),
            (b"\x1b[2A\x1b[2Kservice done", "service done"),
            (b"below\x1b[A\rabove", "above ⏎ below"),
            (b"one\x1bDtwo\x1bEthree\x1bM!", "one ⏎ tw! ⏎ three"),
            (b"$ \x1b[?1049h\x1b[2Jeditor\x1b[?1049lleft", "$ left"),
            (b"text\x1b[24;1H\x1b[?1049l\rleft", "left"),
            (b"all\x1bcnew", "new"),
            (b"\x1b[1;1Htext\x1b[2;1H~\x1b[3;1H~\x1b[4;1H~  \x1b[5;1H:", "text ⏎ ~ (×3) ⏎ :"),
        ];
        for (bytes, wanted) in table {
            assert_eq!(plain(bytes), *wanted, "{:?}", bytes.escape_ascii());
        }
    }

    #[test]
    fn a_row_repeated_in_another_colour_is_shown_once() {
        let line = b"red\x1b[2;1H\x1b[31mred\x1b[m\x1b[3;1H\x1b[32mred \x1b[m\x1b[4;1Hx";
        let kept = readable(line, Colours::Keep, None);
        assert_eq!(kept, "\x1b[32mred\x1b[0m (×3) ⏎ x");
        assert_eq!(plain(line), "red (×3) ⏎ x");
        assert_eq!(plain(kept.as_bytes()), plain(line));
    }

    #[test]
    fn other_sequences_are_removed() {
        let table: &[(&[u8], &str)] = &[
            (b"\x1b]0;title\x07text", "text"),
            (b"\x1b]0;title\x1b\\text", "text"),
            (b"\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
            (b"text\x1b]0;never ends", "text"),
            (b"a\x1bPq#0;2;0\x1b\\b", "ab"),
            (b"a\x1bPnever ends", "a"),
            (b"a\x1b_apc\x1b\\\x1b^pm\x1b\\\x1bXsos\x1b\\b", "ab"),
            (b"a\x1b[?25l\x1b[?1006;1000h\x1b[>4;2m\x1b[!p\x1b=\x1b[6nb", "ab"),
            (b"a\x1b[1;24r\x1b[4l\x1b[22;0;0tb", "ab"),
            (b"a\x1b[99999;99999;99999zb", "ab"),
            (b"a\x1b[1;2;3;4;5;6;7;8;9;10;11;12;13;14;15;16;17;18;19;20;21;22;23;24;25;26;27;28;29;30;31;32;33;34;35mb", "ab"),
            (b"cut \x1b[3", "cut "),
            (b"cut \x1b", "cut "),
            (b"broken \x1b[3\x18mend", "broken ^Xmend"),
        ];
        for (bytes, wanted) in table {
            assert_eq!(plain(bytes), *wanted, "{:?}", bytes.escape_ascii());
        }
    }

    #[test]
    fn colours_stay_when_wanted_and_are_closed() {
        let table: &[(&str, &str)] = &[
            ("\x1b[1;31mred\x1b[K", "\x1b[1;31mred\x1b[0m"),
            ("\x1b[38;5;200mx\x1b[m", "\x1b[38;5;200mx\x1b[0m"),
            ("\x1b[38:2::1:2:3mx", "\x1b[38;2;1;2;3mx\x1b[0m"),
            ("\x1b[38;2;1;2;3;1mx", "\x1b[1;38;2;1;2;3mx\x1b[0m"),
            ("\x1b[91;104mx\x1b[39my\x1b[49mz", "\x1b[91;104mx\x1b[0;104my\x1b[0mz"),
            ("\x1b[31m\x1b[31ma\x1b[31mb\x1b[1mc", "\x1b[31mab\x1b[1mc\x1b[0m"),
            ("\x1b[4:3;58:5:9mx\x1b[24;59my", "\x1b[4:3;58;5;9mx\x1b[0my"),
            ("\x1b[31m\x1b[0mnone", "none"),
            ("\x1b[31mold\rnew", "\x1b[31mnew\x1b[0m"),
            ("\x1b[31mab\x1b[0m\x08x", "\x1b[31ma\x1b[0mx"),
            ("\x1b[1;1H\x1b[31ma\x1b[2;1Hb", "\x1b[31ma\x1b[0m ⏎ \x1b[31mb\x1b[0m"),
            ("\x1b[38;5;999;38;2;1mx", "x"),
        ];
        for (text, wanted) in table {
            let kept = readable(text.as_bytes(), Colours::Keep, None);
            assert_eq!(kept, *wanted, "{text:?}");
        }
    }

    #[test]
    fn a_prompt_is_at_the_cursor() {
        let screen = b"\x1b[1;1HTitle\x1b[9;3HName: \x1b[24;1HF1 help\x1b[9;9H";
        assert_eq!(prompt(screen, Some(80)), "  Name: ");
        assert_eq!(prompt(b"\x1b[?2004h>>> \x1b[K", Some(80)), ">>> ");
        assert_eq!(prompt(b"50%\rPassword: ", Some(80)), "Password: ");
    }

    #[test]
    fn row_numbers_rewrite_the_earlier_text() {
        assert!(is_rewritten(b"10%\r20%"));
        assert!(is_rewritten(b"\x1b[3;1Htext"));
        assert!(is_rewritten(b"\x1b[2Jtext"));
        assert!(!is_rewritten(b"10%\r"));
        assert!(!is_rewritten(b"\x1b[31mtext\x1b[K"));
    }

    #[test]
    fn far_columns_and_rows_take_bounded_memory() {
        let far: String = (0..20_000)
            .map(|number| format!("\x1b[{0};65535Hx\x1b[65535Cy\x1b[65535B", number % 65_536))
            .collect();
        let text = plain(far.as_bytes());
        assert!(text.len() < 20_000, "{}", text.len());
        let unknown = readable(b"\x1b[65535Cx", Colours::Drop, None);
        assert_eq!(unknown.len(), usize::from(canvas::MAX_COLUMNS));
        let padded = "\x1b[990Cyyyyyyyyyyyy".repeat(20_000);
        let padded = readable(padded.as_bytes(), Colours::Drop, None);
        assert_eq!(padded.matches('y').count(), 12 * 20_000);
        assert!(padded.len() < canvas::PADDED_COLUMNS + 12 * 20_000);
    }

    #[test]
    fn repeating_takes_bounded_memory() {
        assert_eq!(plain(b"\x1b[Gab\x1b[3b"), "abbbb");
        let width = usize::from(canvas::MAX_COLUMNS);
        let repeated = format!("\x1b[Gx{}", "\x1b[1000b".repeat(4_000));
        let repeated = readable(repeated.as_bytes(), Colours::Drop, None);
        assert!(repeated.len() > width, "{}", repeated.len());
        assert!(repeated.len() <= canvas::PADDED_COLUMNS + width);
        let marked = plain("\x1b[Gx\x1b[2b\u{301}y".as_bytes());
        assert_eq!(marked, "xxx\u{301}y");
    }

    fn has_control(text: &str) -> bool {
        text.chars().any(|c| c.is_control() && c != '\t')
    }

    /// Pieces of lines, with more sequences than random text would have.
    fn pieces() -> impl proptest::strategy::Strategy<Value = String> {
        proptest::collection::vec(
            proptest::prop_oneof![
                r"[a-z ]{1,9}",
                r"[あ漢\x{301}\x{200d}é👩]{1,4}",
                r"[\x00-\x09\x0b-\x1f\x7f-\x{9f}]",
                r"\x1b\[[0-9]{0,5}(;[0-9]{1,3})?[@A-KPXZ`abdefsum]",
                r"\x1b\[[0-9:;]{0,12}m",
                r"\x1b\[\?(47|1049|2004|25)[hl]",
                r"\x1b[78DEMc]|\x1b[()][0B]|\x1b][a-z;]{0,5}\x07",
            ],
            0..40,
        )
        .prop_map(|pieces| pieces.concat())
    }

    use proptest::strategy::Strategy;

    proptest::proptest! {
        #[test]
        fn no_bytes_panic_and_no_control_is_left(bytes in proptest::collection::vec(0u8.., 0..300)) {
            proptest::prop_assert!(!has_control(&plain(&bytes)));
        }

        #[test]
        fn no_sequence_leaves_a_control(text in pieces(), columns in proptest::option::of(0u16..90)) {
            let read = readable(text.as_bytes(), Colours::Drop, columns);
            proptest::prop_assert!(!has_control(&read), "{read:?}");
        }

        #[test]
        fn converting_again_changes_nothing(text in pieces(), columns in proptest::option::of(0u16..90)) {
            for colours in [Colours::Drop, Colours::Keep] {
                let once = readable(text.as_bytes(), colours, columns);
                proptest::prop_assert_eq!(&readable(once.as_bytes(), colours, columns), &once);
                let bare = readable(once.as_bytes(), Colours::Drop, columns);
                proptest::prop_assert_eq!(bare, readable(text.as_bytes(), Colours::Drop, columns));
            }
        }

        #[test]
        fn plain_text_is_unchanged(text in r"[ -~\tあ漢é👩]{0,200}") {
            proptest::prop_assert_eq!(plain(text.as_bytes()), text);
        }

        #[test]
        fn drawn_text_is_unchanged(text in r"[ -~あ漢é]{0,200}", columns in 2u16..90) {
            let drawn = format!("\x1b[?2004h{text}");
            let read = readable(drawn.as_bytes(), Colours::Drop, Some(columns));
            let inked = if text.trim().is_empty() { "" } else { text.as_str() };
            proptest::prop_assert_eq!(read, inked);
        }
    }
}
