//! One line of terminal output as a person reads it.
//!
//! Escape sequences are parsed as a terminal parses them and left out, but for colours
//! when they are wanted; other control characters are shown in caret notation (`^@`,
//! `^H`), those of C1 as the escape sequence that they stand for (`^[[`); invalid UTF-8
//! becomes U+FFFD. Limits: no cursor movement is carried out.

use vte::{Params, Parser, Perform};

/// Whether colours (SGR sequences) stay in the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Colours {
    /// They stay.
    Keep,
    /// They go.
    Drop,
}

/// The newest frame of a line whose carriage returns rewrite it, as progress bars do.
pub fn newest_frame(line: &[u8]) -> &[u8] {
    let content = without_returns_at_end(line);
    match memchr::memrchr(b'\r', content) {
        Some(place) => content.get(place + 1..).unwrap_or_default(),
        None => content,
    }
}

/// Whether a carriage return within a line rewrites it, so that what stands before is
/// not to be seen.
pub fn is_rewritten(line: &[u8]) -> bool {
    memchr::memchr(b'\r', without_returns_at_end(line)).is_some()
}

fn without_returns_at_end(line: &[u8]) -> &[u8] {
    let end = line
        .iter()
        .rposition(|byte| *byte != b'\r')
        .map_or(0, |last| last + 1);
    line.get(..end).unwrap_or_default()
}

/// A line's bytes (without its newline) as readable text.
pub fn readable(line: &[u8], colours: Colours) -> String {
    let frame = newest_frame(line);
    if !frame
        .iter()
        .any(|byte| (*byte < 0x20 && *byte != b'\t') || matches!(*byte, 0x7f | C1_LEAD))
    {
        return String::from_utf8_lossy(frame).into_owned();
    }
    let mut view = View {
        text: String::with_capacity(frame.len()),
        colours,
        coloured: false,
    };
    Parser::new().advance(&mut view, frame);
    if view.coloured {
        view.text.push_str("\x1b[0m");
    }
    view.text
}

/// The first byte of the control characters U+0080 to U+009F, and of a few others.
const C1_LEAD: u8 = 0xc2;

struct View {
    text: String,
    colours: Colours,
    /// A colour is on that the line itself has not reset.
    coloured: bool,
}

impl Perform for View {
    fn print(&mut self, character: char) {
        if character == '\u{7f}' {
            self.text.push_str("^?");
        } else {
            self.text.push(character);
        }
    }

    fn execute(&mut self, byte: u8) {
        match byte {
            b'\t' => self.text.push('\t'),
            0..0x20 => {
                self.text.push('^');
                self.text.push(char::from(byte + b'@'));
            }
            0x7f => self.text.push_str("^?"),
            0x80..0xa0 => {
                self.text.push_str("^[");
                self.text.push(char::from(byte - 0x80 + b'@'));
            }
            _ => self.text.push(char::REPLACEMENT_CHARACTER),
        }
    }

    fn csi_dispatch(&mut self, params: &Params, intermediates: &[u8], _ignore: bool, action: char) {
        if action != 'm' || self.colours == Colours::Drop || !intermediates.is_empty() {
            return;
        }
        let groups: Vec<String> = params
            .iter()
            .map(|group| {
                group
                    .iter()
                    .map(u16::to_string)
                    .collect::<Vec<_>>()
                    .join(":")
            })
            .collect();
        self.coloured = !matches!(groups.last().map(String::as_str), None | Some("0"));
        self.text.push_str("\x1b[");
        self.text.push_str(&groups.join(";"));
        self.text.push('m');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_read_as_on_a_terminal() {
        let table: &[(&[u8], &str)] = &[
            (b"plain", "plain"),
            (b"tab\there", "tab\there"),
            (b"\x1b[31mred\x1b[0m", "red"),
            (b"\x1b]0;title\x07text", "text"),
            (b"\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
            (b"\x1b[2K\x1b[1Gline", "line"),
            (b"nul\0here", "nul^@here"),
            (b"back\x08space", "back^Hspace"),
            (b"del\x7f", "del^?"),
            (b"bad \xff utf8", "bad \u{fffd} utf8"),
            (b"bad \xff utf8 \x01", "bad \u{fffd} utf8 ^A"),
            (b"10%\r20%\r30%", "30%"),
            (b"10%\r20%\r", "20%"),
            (b"windows\r", "windows"),
            (b"\r\r\r", ""),
            ("日本語 \x1b[1m太字".as_bytes(), "日本語 太字"),
            (b"cut \x1b[3", "cut "),
            ("8-bit \u{9b}31mred\u{85}".as_bytes(), "8-bit ^[[31mred^[E"),
            ("\u{80}\u{9f}".as_bytes(), "^[@^[_"),
            (
                "caf\u{e9} 20\u{b0} \u{a0}·".as_bytes(),
                "caf\u{e9} 20\u{b0} \u{a0}·",
            ),
        ];
        for (bytes, wanted) in table {
            assert_eq!(readable(bytes, Colours::Drop), *wanted, "{bytes:?}");
        }
    }

    #[test]
    fn colours_stay_when_wanted_and_are_closed() {
        assert_eq!(
            readable(b"\x1b[1;31mred\x1b[K", Colours::Keep),
            "\x1b[1;31mred\x1b[0m"
        );
        assert_eq!(
            readable(b"\x1b[38;5;200mx\x1b[m", Colours::Keep),
            "\x1b[38;5;200mx\x1b[0m"
        );
    }

    fn has_control(text: &str) -> bool {
        text.chars().any(|c| c.is_control() && c != '\t')
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_panic_and_no_control_is_left(bytes in proptest::collection::vec(0u8.., 0..300)) {
            proptest::prop_assert!(!has_control(&readable(&bytes, Colours::Drop)));
        }

        #[test]
        fn no_text_leaves_a_control(text in r"[\x00-\x{9f}あ°é]{0,80}") {
            proptest::prop_assert!(!has_control(&readable(text.as_bytes(), Colours::Drop)));
        }
    }
}
