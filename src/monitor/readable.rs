//! A task's output as readable text, piece by piece, without state between pieces. Pure.
//!
//! No piece ends within a character, an escape sequence or a line end, so that a client can continue
//! after any piece. Lines within a piece are drawn (a progress bar shows its last state); output that
//! rewrites the line of an earlier piece begins a new line. Limits: an escape sequence that does not
//! end within [`LONGEST_SEQUENCE`] bytes is shown as text.

use crate::text::ansi::{self, Colours};
use crate::text::lines;

/// The longest escape sequence in bytes; a longer one is shown as text.
const LONGEST_SEQUENCE: usize = 4096;

/// The beginning of some output as text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Readable {
    /// Without escape sequences, and without control characters except newlines and tabs.
    pub(crate) text: String,
    /// How many bytes the text was made from.
    pub(crate) bytes: usize,
}

/// Reads the complete part of `bytes`, or everything if `is_all`.
pub(crate) fn read(bytes: &[u8], is_all: bool, columns: Option<u16>) -> Readable {
    let end = if is_all { bytes.len() } else { whole(bytes) };
    let bytes = bytes.get(..end).unwrap_or_default();
    let mut text = String::with_capacity(end);
    let mut lines = bytes.split(|byte| *byte == b'\n').peekable();
    while let Some(line) = lines.next() {
        if text.is_empty() && begins_by_rewriting(line) {
            text.push('\n');
        }
        text.push_str(&ansi::readable(line, Colours::Drop, columns));
        if lines.peek().is_some() {
            text.push('\n');
        }
    }
    Readable { text, bytes: end }
}

/// Whether a line begins with a carriage return, which rewrites an earlier piece's line.
fn begins_by_rewriting(line: &[u8]) -> bool {
    let after = line.iter().position(|byte| *byte != b'\r');
    after.is_some_and(|after| after > 0)
}

/// How many bytes make up complete characters, escape sequences and line ends.
fn whole(bytes: &[u8]) -> usize {
    let end = bytes.len() - lines::unfinished_character(bytes);
    let end = before_open_sequence(bytes.get(..end).unwrap_or_default());
    // The next byte decides whether a carriage return ends a line or rewrites it.
    let kept = bytes.get(..end).unwrap_or_default();
    let returns = kept.iter().rev().take_while(|byte| **byte == b'\r').count();
    end - returns
}

/// Where an unfinished escape sequence at the end begins; the end if there is none.
fn before_open_sequence(bytes: &[u8]) -> usize {
    let from = bytes.len().saturating_sub(LONGEST_SEQUENCE);
    let newest = bytes.get(from..).unwrap_or_default();
    let mut at = 0;
    while let Some(start) = memchr::memchr(0x1b, newest.get(at..).unwrap_or_default()) {
        let start = at + start;
        match sequence_length(newest.get(start + 1..).unwrap_or_default()) {
            Some(length) => at = start + 1 + length,
            None => return from + start,
        }
    }
    bytes.len()
}

/// The length of the sequence after an escape character; `None` if it is unfinished.
fn sequence_length(after: &[u8]) -> Option<usize> {
    match after.first()? {
        // Parameters and intermediates, then one byte of the final range.
        b'[' => {
            let rest = after.get(1..)?;
            let ended = |byte: &u8| !(0x20..0x40).contains(byte);
            Some(rest.iter().position(ended)? + 2)
        }
        // Strings end with BEL, or with ESC and a backslash, whose ESC begins the next sequence.
        b']' | b'P' | b'X' | b'^' | b'_' => {
            let rest = after.get(1..)?;
            let ended = |byte: &u8| matches!(byte, 0x07 | 0x18 | 0x1a | 0x1b);
            let place = rest.iter().position(ended)?;
            match rest.get(place)? {
                0x1b => Some(place + 1),
                _ => Some(place + 2),
            }
        }
        // Intermediates, then a final byte.
        0x20..0x30 => {
            let ended = |byte: &u8| !(0x20..0x30).contains(byte);
            Some(after.iter().position(ended)? + 1)
        }
        _ => Some(1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn all(bytes: &[u8]) -> String {
        read(bytes, true, None).text
    }

    /// Reads pieces as they arrive, keeping only the unread bytes of each.
    fn in_pieces(pieces: &[&[u8]]) -> String {
        let (mut held, mut text) = (Vec::new(), String::new());
        for (number, piece) in pieces.iter().enumerate() {
            held.extend_from_slice(piece);
            let read = read(&held, number + 1 == pieces.len(), None);
            text.push_str(&read.text);
            held.drain(..read.bytes);
        }
        assert_eq!(held, b"");
        text
    }

    #[test]
    fn escape_sequences_and_control_characters_go_and_lines_are_drawn() {
        let bytes = b"\x1b[31mred\x1b[0m\tx\r\n 10%\r 50%\r100%\nbel\x08t\x01\n\x1b]0;title\x07end";
        assert_eq!(all(bytes), "red\tx\n100%\nbet^A\nend");
        assert_eq!(all("caf\u{e9} \u{20ac}\n".as_bytes()), "caf\u{e9} \u{20ac}\n");
        assert_eq!(all(b"\xff\xfe\n"), "\u{fffd}\u{fffd}\n");
    }

    #[test]
    fn output_cut_anywhere_reads_the_same() {
        let texts: [&[u8]; 4] = [
            "a \u{20ac} and \u{1f600}\r\nnext\r\n".as_bytes(),
            b"one\x1b[1;31mtwo\x1b[0m\nthree\x1b(Bfour\n",
            b"\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\\n",
            b"prompt> ",
        ];
        for text in texts {
            let whole = all(text);
            for cut in 0..=text.len() {
                let (one, other) = text.split_at(cut);
                assert_eq!(in_pieces(&[one, other]), whole, "{cut} of {text:?}");
            }
        }
    }

    #[test]
    fn output_that_rewrites_an_earlier_piece_begins_a_new_line() {
        assert_eq!(in_pieces(&[b" 10%", b"\r 50%", b"\r100%\n"]), " 10%\n 50%\n100%\n");
    }

    #[test]
    fn a_sequence_without_end_is_given_up() {
        let endless = [b"\x1b]0;".to_vec(), vec![b'x'; 2 * LONGEST_SEQUENCE]].concat();
        assert!(read(&endless, false, None).bytes > LONGEST_SEQUENCE);
        assert_eq!(read(b"ab\x1b]0;xx", false, None).bytes, 2);
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let some = read(&bytes, false, Some(80));
            prop_assert!(some.bytes <= bytes.len());
            let text = read(&bytes, true, None).text;
            prop_assert!(text.chars().all(|c| c == '\n' || c == '\t' || !c.is_control()), "{text:?}");
        }
    }
}
