//! The parts of a line that carriage returns separate.
//!
//! On a terminal, what follows a carriage return covers what was there; on a pipe nothing is covered,
//! and each part is a line of its own. Pure.

use super::ansi::{self, Colours};
use super::encoding;

/// The parts of a line without its newline, as they are read one below the other; at least one. On a
/// terminal, and of what moves its cursor otherwise, the line itself.
pub(crate) fn of(line: &[u8], columns: Option<u16>) -> Vec<&[u8]> {
    let end = line.iter().rposition(|byte| *byte != b'\r').map_or(0, |last| last + 1);
    let shown = line.get(..end).unwrap_or_default();
    if columns.is_some() || memchr::memchr(b'\r', shown).is_none() || moves_cursor(shown) {
        return vec![line];
    }
    let parts = shown.split(|byte| *byte == b'\r').filter(|part| !part.trim_ascii().is_empty());
    let parts: Vec<&[u8]> = parts.collect();
    if parts.is_empty() { vec![line] } else { parts }
}

/// Each part of a line as plain text, and on a terminal also what it covers: all that can be searched.
pub(crate) fn searchable(line: &[u8], columns: Option<u16>) -> impl Iterator<Item = String> {
    let plain = |part: &[u8]| ansi::readable(&encoding::decoded_line(part), Colours::Drop, columns);
    // Most lines have one part, for which no list is made.
    let (one, all) = if !ansi::is_rewritten(line) {
        (Some(plain(line)), Vec::new())
    } else if columns.is_none() {
        (None, of(line, columns).into_iter().map(plain).collect())
    } else {
        let parts = line.split(|byte| *byte == b'\r').filter(|part| !part.is_empty());
        (Some(plain(line)), parts.map(plain).filter(|text| !text.trim().is_empty()).collect())
    };
    one.into_iter().chain(all)
}

/// Whether a line moves its cursor in a way other than by returning it, and erases more than lines.
fn moves_cursor(line: &[u8]) -> bool {
    memchr::memchr_iter(0x1b, line).any(|escape| {
        let Some([b'[', sequence @ ..]) = line.get(escape + 1..) else {
            return false;
        };
        let end = sequence.iter().position(|byte| (0x40..=0x7e).contains(byte));
        end.and_then(|end| sequence.get(end)).is_some_and(|end| !b"mKhl".contains(end))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(line: &str, columns: Option<u16>) -> Vec<String> {
        let plain = |part: &&[u8]| ansi::readable(part, Colours::Drop, columns);
        of(line.as_bytes(), columns).iter().map(plain).collect()
    }

    #[test]
    fn on_a_pipe_each_part_is_a_line() {
        for (line, expected) in [
            ("plain", vec!["plain"]),
            ("windows\r", vec!["windows"]),
            ("hello world\rbye", vec!["hello world", "bye"]),
            ("\r10%\r    \r20%\r\r", vec!["10%", "20%"]),
            ("\u{1b}[2K10%\r\u{1b}[2K20%\u{1b}[K", vec!["10%", "20%"]),
            ("one\rtwo\u{1b}[5Cthree", vec!["two     three"]),
            ("\r\r", vec![""]),
            ("", vec![""]),
        ] {
            assert_eq!(texts(line, None), expected, "{line:?}");
        }
    }

    #[test]
    fn on_a_terminal_it_covers_what_was_there_and_can_still_be_found() {
        assert_eq!(texts("hello world\rbye", Some(80)), ["byelo world"]);
        let found =
            |line: &str, columns| -> Vec<String> { searchable(line.as_bytes(), columns).collect() };
        assert_eq!(found("hello world\rbye", Some(80)), ["byelo world", "hello world", "bye"]);
        assert_eq!(found("a\rb", None), ["a", "b"]);
        assert_eq!(found("a", None), ["a"]);
    }
}
