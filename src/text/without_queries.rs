//! Prepares output for a second terminal. The task's emulated terminal already answers the program's
//! queries, so the second one must not. Removes queries, and sequences that switch the keyboard to
//! another encoding. Removes switches to and from the alternate screen too: the second terminal shows
//! the task on one screen, and keeps its own on the other.
//!
//! Passes on only whole sequences and characters, so that callers may write other text between two
//! pieces of output. Limits: passes on a sequence of more than 4096 bytes in parts. Pure.

use super::lines::unfinished_character;

const ESCAPE: u8 = 0x1b;
const ENQUIRY: u8 = 0x05;
const BELL: u8 = 0x07;
/// CAN and SUB end a sequence without effect.
const CANCELS: [u8; 2] = [0x18, 0x1a];
/// How much of a sequence to hold back, in bytes.
const MAX_HELD: usize = 4096;

/// Removes queries from output.
#[derive(Debug, Default)]
pub(crate) struct WithoutQueries {
    /// The beginning of an incomplete sequence or character.
    held: Vec<u8>,
}

impl WithoutQueries {
    /// Takes output; returns the bytes to write.
    pub(crate) fn pass(&mut self, output: &[u8]) -> Vec<u8> {
        let mut bytes = std::mem::take(&mut self.held);
        bytes.extend_from_slice(output);
        let mut passed = Vec::with_capacity(bytes.len());
        let mut rest = bytes.as_slice();
        while let Some((&first, after)) = rest.split_first() {
            match first {
                ENQUIRY => rest = after,
                ESCAPE => match sequence(rest) {
                    Some((length, is_query)) => {
                        let (sequence, after) = rest.split_at(length.min(rest.len()));
                        if !is_query {
                            let other = without_switch(sequence);
                            passed.extend_from_slice(other.as_deref().unwrap_or(sequence));
                        }
                        rest = after;
                    }
                    None if rest.len() <= MAX_HELD => break,
                    None => {
                        passed.push(first);
                        rest = after;
                    }
                },
                _ => {
                    let text = memchr::memchr2(ESCAPE, ENQUIRY, rest).unwrap_or(rest.len());
                    let (text, after) = rest.split_at(text);
                    let cut = match after {
                        [] => text.len() - unfinished_character(text),
                        _ => text.len(),
                    };
                    passed.extend_from_slice(text.get(..cut).unwrap_or(text));
                    rest = rest.get(cut..).unwrap_or_default();
                    if cut < text.len() {
                        break;
                    }
                }
            }
        }
        self.held = rest.to_vec();
        passed
    }
}

/// The length of the sequence at the beginning, and whether it is a query; `None` while it is
/// incomplete.
fn sequence(bytes: &[u8]) -> Option<(usize, bool)> {
    match *bytes.get(1)? {
        b'[' => control_sequence(bytes),
        kind @ (b']' | b'P' | b'X' | b'^' | b'_') => string_sequence(bytes, kind),
        0x20..=0x2f => {
            let last = bytes.iter().skip(2).position(|byte| !matches!(byte, 0x20..=0x2f))?;
            Some((last + 3, false))
        }
        // Another sequence interrupts the incomplete one.
        ESCAPE => Some((1, false)),
        second => Some((2, second == b'Z')),
    }
}

fn control_sequence(bytes: &[u8]) -> Option<(usize, bool)> {
    let length = bytes.iter().skip(2).position(|byte| !matches!(byte, 0x20..=0x3f))?;
    let parameters = bytes.get(2..length + 2)?;
    match *bytes.get(length + 2)? {
        last @ 0x40..=0x7e => Some((length + 3, is_query(parameters, last))),
        ESCAPE => Some((length + 2, false)),
        _ => Some((length + 3, false)),
    }
}

/// What replaces a sequence that switches to or from the alternate screen: its other modes, and a
/// blank screen, with which the alternate screen begins.
fn without_switch(sequence: &[u8]) -> Option<Vec<u8>> {
    let modes = sequence.strip_prefix(b"\x1b[?")?;
    let (last, modes) = modes.split_last().filter(|(last, _)| matches!(last, b'h' | b'l'))?;
    let modes: Vec<&[u8]> = modes.split(|byte| *byte == b';').collect();
    let is_switch = |mode: &&[u8]| matches!(*mode, b"47" | b"1047" | b"1049");
    if !modes.iter().any(is_switch) {
        return None;
    }
    let other: Vec<&[u8]> = modes.into_iter().filter(|mode| !is_switch(mode)).collect();
    let mut bytes = Vec::new();
    if !other.is_empty() {
        bytes.extend_from_slice(b"\x1b[?");
        bytes.extend_from_slice(&other.join(&b';'));
        bytes.push(*last);
    }
    if *last == b'h' {
        bytes.extend_from_slice(b"\x1b[2J");
    }
    Some(bytes)
}

/// Whether a terminal answers this sequence, or encodes keys in another way after it.
fn is_query(parameters: &[u8], last: u8) -> bool {
    let first = parameters.first().copied().unwrap_or_default();
    let intermediate = parameters.last().copied().filter(|byte| matches!(byte, 0x20..=0x2f));
    match (last, intermediate) {
        // Reports of status and attributes.
        (b'n' | b'c' | b'x', None) => true,
        // Modes and checksums.
        (b'p', Some(b'$')) | (b'y', Some(b'*')) => true,
        // The terminal's version.
        (b'q', None) => first == b'>',
        // Encodings of keys.
        (b'u', None) => matches!(first, b'?' | b'>' | b'<' | b'='),
        (b'm', None) => matches!(first, b'?' | b'>'),
        // Reports and changes of the window, except its title.
        (b't', None) => !(parameters.starts_with(b"22") || parameters.starts_with(b"23")),
        _ => false,
    }
}

fn string_sequence(bytes: &[u8], kind: u8) -> Option<(usize, bool)> {
    let ends = |byte: &u8| *byte == ESCAPE || *byte == BELL || CANCELS.contains(byte);
    let length = bytes.iter().skip(2).position(ends)?;
    let text = bytes.get(2..length + 2)?;
    let is_query = match kind {
        b']' => text.split(|byte| *byte == b';').any(|part| part == b"?"),
        b'P' => text.starts_with(b"$q") || text.starts_with(b"+q"),
        _ => false,
    };
    match *bytes.get(length + 2)? {
        ESCAPE => match *bytes.get(length + 3)? {
            b'\\' => Some((length + 4, is_query)),
            _ => Some((length + 2, false)),
        },
        _ => Some((length + 3, is_query)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_removed_and_other_output_passes_wherever_it_is_cut() {
        for (output, passed) in [
            ("plain \x1b[31mred\x1b[m é", "plain \x1b[31mred\x1b[m é"),
            ("a\x1b[6nb\x1b[c\x1b[>c\x1b[?1;2c\x1b[5nc", "abc"),
            ("\x1b[?12$p\x1b[>q\x1b[?u\x1b[>1u\x1b[>4;2m\x1b[?4mx", "x"),
            ("\x1b[1;2H\x1b[u\x1b[4m\x1b[2 q\x1b[!p", "\x1b[1;2H\x1b[u\x1b[4m\x1b[2 q\x1b[!p"),
            ("\x1b]0;title\x07\x1b]11;?\x07\x1b]10;?\x1b\\x", "\x1b]0;title\x07x"),
            ("\x1bP$qm\x1b\\\x1bP+q544e\x1b\\\x1bP1;2q#\x1b\\x", "\x1bP1;2q#\x1b\\x"),
            ("\x1b[18t\x1b[22;0t\x1b[8;9;9tx", "\x1b[22;0tx"),
            ("\x1b(B\x1b=\x1bZ\x05\x1b7x", "\x1b(B\x1b=\x1b7x"),
            ("\x1b[12\x1b[1mx", "\x1b[12\x1b[1mx"),
            ("\x1b[?1049h\x1b[?25;1047;7lx", "\x1b[2J\x1b[?25;7lx"),
            ("\x1b[?47lx\x1b[?104h\x1b[47m", "x\x1b[?104h\x1b[47m"),
        ] {
            let mut bytewise = WithoutQueries::default();
            let bytewise: Vec<u8> =
                output.bytes().flat_map(|byte| bytewise.pass(&[byte])).collect();
            for found in [WithoutQueries::default().pass(output.as_bytes()), bytewise] {
                assert_eq!(String::from_utf8_lossy(&found), passed, "{output:?}");
            }
        }
    }

    #[test]
    fn a_sequence_without_an_end_is_not_held_forever() {
        let mut filter = WithoutQueries::default();
        let endless = [b"\x1bP".to_vec(), vec![b'x'; 3 * MAX_HELD]].concat();
        let passed: usize = endless.chunks(100).map(|piece| filter.pass(piece).len()).sum();
        assert!(passed + MAX_HELD >= endless.len(), "{passed}");
        assert!(filter.held.len() <= MAX_HELD);
    }
}
