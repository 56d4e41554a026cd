//! Prepares what a program printed for a person's terminal, which it must not ask or change.
//!
//! Removes queries: their answers would arrive as if the person had typed them. Removes what acts
//! beyond the text: titles, the clipboard, colours of the terminal's own, notifications, files, keys
//! with other meanings; links to anything but web pages. Of strings for the terminal only links and
//! sixel images are left, and of output that is only read only links; its invisible characters are
//! shown. Removes switches to and from the alternate screen: the terminal shows the
//! task on one screen, and keeps its own on the other.
//!
//! Passes on only whole sequences and characters, so that callers may write other text between two
//! pieces of output. Limits: passes on the text of a sequence of more than 4096 bytes, without its
//! beginning. Pure.

use super::invisible;
use super::lines::unfinished_character;

const ESCAPE: u8 = 0x1b;
const ENQUIRY: u8 = 0x05;
const BELL: u8 = 0x07;
/// They choose another character set.
const SHIFT_OUT: u8 = 0x0e;
const SHIFT_IN: u8 = 0x0f;
/// The first byte of the control characters U+0080 to U+009F, and of other characters.
const C1_LEAD: u8 = 0xc2;
/// Takes the place of bytes that are not a character.
const REPLACEMENT: &str = "\u{fffd}";
/// CAN and SUB end a sequence without effect.
const CANCELS: [u8; 2] = [0x18, 0x1a];
/// How much of a sequence to hold back, in bytes.
const MAX_HELD: usize = 4096;

/// Filters output.
#[derive(Debug, Default)]
pub struct TerminalFilter {
    /// The beginning of an incomplete sequence or character.
    held: Vec<u8>,
    /// Whether no program stands behind the output that could take back the modes it has set.
    is_record: bool,
}

impl TerminalFilter {
    /// A filter of output that is only read, from which nothing changes a mode of the terminal.
    pub fn for_record() -> TerminalFilter {
        TerminalFilter { is_record: true, ..TerminalFilter::default() }
    }

    /// Takes output; returns the bytes to write.
    pub fn pass(&mut self, output: &[u8]) -> Vec<u8> {
        let mut bytes = std::mem::take(&mut self.held);
        bytes.extend_from_slice(output);
        let mut passed = Vec::with_capacity(bytes.len());
        let mut rest = bytes.as_slice();
        while let Some((&first, after)) = rest.split_first() {
            match first {
                ENQUIRY => rest = after,
                SHIFT_OUT | SHIFT_IN if self.is_record => rest = after,
                ESCAPE => match sequence(rest) {
                    Some((length, is_harmful)) => {
                        let (sequence, after) = rest.split_at(length.min(rest.len()));
                        let is_left_out = is_harmful || self.is_record && changes_screen(sequence);
                        if !is_left_out {
                            let other = without_switch(sequence);
                            passed.extend_from_slice(other.as_deref().unwrap_or(sequence));
                        }
                        rest = after;
                    }
                    None if rest.len() <= MAX_HELD => break,
                    None => rest = after,
                },
                // The control characters that terminals take for two of their own: `ESC` and a letter.
                C1_LEAD if matches!(after.first(), Some(0x80..=0x9f)) => {
                    rest = after.get(1..).unwrap_or_default();
                }
                _ => {
                    let begins = |byte: &u8| {
                        matches!(*byte, ESCAPE | ENQUIRY | SHIFT_OUT | SHIFT_IN | C1_LEAD)
                    };
                    let text = rest.iter().skip(1).position(begins).map_or(rest.len(), |at| at + 1);
                    let (text, after) = rest.split_at(text);
                    let (whole, unfinished) =
                        text.split_at(text.len() - unfinished_character(text));
                    passed.extend_from_slice(whole);
                    if after.is_empty() {
                        rest = unfinished;
                        break;
                    }
                    if !unfinished.is_empty() {
                        // As terminals show it. With what follows a sequence that is left out, it
                        // could be a control character or an invisible one.
                        passed.extend_from_slice(REPLACEMENT.as_bytes());
                    }
                    rest = after;
                }
            }
        }
        self.held = rest.to_vec();
        self.shown(passed)
    }

    /// Shows the invisible characters of what is only read.
    fn shown(&self, passed: Vec<u8>) -> Vec<u8> {
        if !self.is_record || passed.is_ascii() {
            return passed;
        }
        let mut shown = Vec::with_capacity(passed.len());
        for chunk in passed.utf8_chunks() {
            shown.extend_from_slice(invisible::show(chunk.valid().into()).as_bytes());
            shown.extend_from_slice(chunk.invalid());
        }
        shown
    }
}

/// The length of the sequence at the beginning, and whether to remove it; `None` while it is
/// incomplete. Of one that a control character interrupts, only what precedes that is removed:
/// terminals execute it and read on.
fn sequence(bytes: &[u8]) -> Option<(usize, bool)> {
    match *bytes.get(1)? {
        b'[' => control_sequence(bytes),
        kind @ (b']' | b'P' | b'X' | b'^' | b'_') => string_sequence(bytes, kind),
        first @ 0x20..=0x2f => {
            let length = bytes.iter().skip(2).position(|byte| !matches!(byte, 0x20..=0x2f))?;
            let last = *bytes.get(length + 2)?;
            if !matches!(last, 0x30..=0x7e) {
                return Some((length + 2, true));
            }
            // Character sets, and the screen alignment test.
            let is_known =
                length == 0 && (matches!(first, b'('..=b'+') || first == b'#' && last == b'8');
            Some((length + 3, !is_known))
        }
        // Saving and restoring the cursor, keypads, index, tabs, reset.
        b'7' | b'8' | b'=' | b'>' | b'D' | b'E' | b'H' | b'M' | b'c' => Some((2, false)),
        0x30..=0x7e => Some((2, true)),
        _ => Some((1, true)),
    }
}

fn control_sequence(bytes: &[u8]) -> Option<(usize, bool)> {
    let length = bytes.iter().skip(2).position(|byte| !matches!(byte, 0x20..=0x3f))?;
    let parameters = bytes.get(2..length + 2)?;
    match *bytes.get(length + 2)? {
        last @ 0x40..=0x7e => Some((length + 3, !is_harmless(parameters, last))),
        _ => Some((length + 2, true)),
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

/// Whether a sequence sets a mode that stays after the output, resets the terminal, or covers it.
fn changes_screen(sequence: &[u8]) -> bool {
    matches!(
        sequence,
        [ESCAPE, b'[', .., b'h' | b'l' | b'r' | b'q' | b'p']
            | [ESCAPE, b'c' | b'=' | b'>' | b'#' | b'P' | b'('..=b'+', ..]
    )
}

/// Whether a sequence only writes, moves the cursor or sets a mode that programs need: no terminal
/// answers it, encodes keys in another way after it, or changes its window.
fn is_harmless(parameters: &[u8], last: u8) -> bool {
    let is_number = |byte: &u8| matches!(byte, b'0'..=b';');
    match parameters {
        [b'?', numbers @ ..] => {
            matches!(last, b'h' | b'l' | b'J' | b'K') && numbers.iter().all(is_number)
        }
        // The form of the cursor, and the soft reset.
        [numbers @ .., b' '] => last == b'q' && numbers.iter().all(is_number),
        [b'!'] => last == b'p',
        numbers => {
            let is_known = matches!(last, b'@'..=b'M' | b'P' | b'S' | b'T' | b'X' | b'Z' | b'`'
                | b'a' | b'b' | b'd'..=b'h' | b'l' | b'm' | b'r' | b's' | b'u');
            is_known && numbers.iter().all(is_number)
        }
    }
}

fn string_sequence(bytes: &[u8], kind: u8) -> Option<(usize, bool)> {
    let ends = |byte: &u8| *byte == ESCAPE || *byte == BELL || CANCELS.contains(byte);
    let length = bytes.iter().skip(2).position(ends)?;
    let text = bytes.get(2..length + 2)?;
    // A terminal may end a string at a control character.
    let is_harmless = text.iter().all(|byte| matches!(byte, 0x20..=0x7e))
        && match kind {
            b']' => is_link(text),
            b'P' => is_image(text),
            _ => false,
        };
    match *bytes.get(length + 2)? {
        ESCAPE => match *bytes.get(length + 3)? {
            b'\\' => Some((length + 4, !is_harmless)),
            // Another sequence interrupts this one.
            _ => Some((length + 2, true)),
        },
        _ => Some((length + 3, !is_harmless)),
    }
}

/// Whether an operating system command begins a link to a web page, or ends a link.
fn is_link(text: &[u8]) -> bool {
    let link = text.strip_prefix(b"8;").and_then(|link| {
        let end = memchr::memchr(b';', link)?;
        link.get(end + 1..)
    });
    link.is_some_and(|address| {
        let address = address.to_ascii_lowercase();
        address.is_empty() || address.starts_with(b"http://") || address.starts_with(b"https://")
    })
}

/// Whether a device control string is a sixel image.
fn is_image(text: &[u8]) -> bool {
    let begins = text.iter().find(|byte| !matches!(byte, b'0'..=b'9' | b';'));
    begins == Some(&b'q')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_asks_or_changes_the_terminal_is_removed_wherever_the_output_is_cut() {
        for (output, passed) in [
            ("plain \x1b[31mred\x1b[m é", "plain \x1b[31mred\x1b[m é"),
            ("a\x1b[6nb\x1b[c\x1b[>c\x1b[?1;2c\x1b[5nc", "abc"),
            ("\x1b[?12$p\x1b[>q\x1b[?u\x1b[>1u\x1b[>4;2m\x1b[?4mx", "x"),
            ("\x1b[1;2H\x1b[u\x1b[4m\x1b[2 q\x1b[!p", "\x1b[1;2H\x1b[u\x1b[4m\x1b[2 q\x1b[!p"),
            ("\x1b]0;title\x07\x1b]11;?\x07\x1b]10;?\x1b\\x", "x"),
            ("a\x1b]52;c;aGk=\x07\x1b]1337;File=:AAAA\x1b\\\x1b]777;notify;a;b\x07b", "ab"),
            (
                "\x1b]8;;https://a.b\x1b\\link\x1b]8;;\x1b\\",
                "\x1b]8;;https://a.b\x1b\\link\x1b]8;;\x1b\\",
            ),
            ("\x1b]8;id=1;file:///etc\x07link\x1b]8;;\x07", "link\x1b]8;;\x07"),
            (
                "\x1b_Gf=100;AAAA\x1b\\\x1bX\x07\x1b^x\x07\x1bP1|17/0a\x1b\\\u{9d}52;x\u{9b}5n",
                "52;x5n",
            ),
            ("\x1bP$qm\x1b\\\x1bP+q544e\x1b\\\x1bP1;2q#\x1b\\x", "\x1bP1;2q#\x1b\\x"),
            ("\x1b[18t\x1b[22;0t\x1b[8;9;9tx", "x"),
            ("\x1b(B\x1b=\x1bZ\x05\x1b7x", "\x1b(B\x1b=\x1b7x"),
            ("\x1b[12\x1b[1mx", "\x1b[1mx"),
            // What terminals execute within a sequence.
            (
                "\x1b\0]52;c;b\x07x\x1b\x08]0;t\x07\x1b\x7f]52;y",
                "\0]52;c;b\x07x\x08]0;t\x07\x7f]52;y",
            ),
            ("\x1b#\x1b]52;c;a\x07\x1b \x1b]52;c;a\x07x", "x"),
            ("\x1b\x1b[6n]52;c;a\x07", "]52;c;a\x07"),
            ("\x1b[6\x08n\x1b[\0c\x1b[6\x1b[cn", "\x08n\0cn"),
            ("\x1b[?1;1;0S\x1b[#|\x1b[1$w\x1b[\"v\x1b[61\"p\x1b%@\x1bnx", "x"),
            ("\x1b]8;;http://a\u{9c}\u{9d}52;c;a\x07x", "x"),
            ("\x1b[6\nn\x1b[\r6n\x1b[6\x7fn\x1b\x07]52;c;a\x07", "\nn\r6n\x7fn\x07]52;c;a\x07"),
            ("\x1b(\x1b]52;c;a\x07x\x1b#\x1b[cx", "xx"),
            ("\x1b\x1b]0;t\x07]52;c;a\x07\x1b[6\x1b]0;t\x07n", "]52;c;a\x07n"),
            ("\x1b]8;;https://a\u{9d}52;c;a\x07x", "x"),
            ("\x1b[?1049h\x1b[?25;1047;7lx", "\x1b[2J\x1b[?25;7lx"),
            ("\x1b[?47lx\x1b[?104h\x1b[47m", "x\x1b[?104h\x1b[47m"),
        ] {
            let mut bytewise = TerminalFilter::default();
            let bytewise: Vec<u8> =
                output.bytes().flat_map(|byte| bytewise.pass(&[byte])).collect();
            for found in [TerminalFilter::default().pass(output.as_bytes()), bytewise] {
                assert_eq!(String::from_utf8_lossy(&found), passed, "{output:?}");
            }
        }
    }

    #[test]
    fn what_is_left_out_joins_no_character() {
        let output = b"\xc2\x1b]0;t\x07\x9d52;c;a\x07\xc2\x05\x9b6n\xf3\xa0\x81\x1b[?\xb6";
        let mut bytewise = TerminalFilter::for_record();
        let bytewise: Vec<u8> = output.iter().flat_map(|byte| bytewise.pass(&[*byte])).collect();
        for passed in [TerminalFilter::for_record().pass(output), bytewise] {
            let (first, rest) = ("\u{fffd}".as_bytes(), b"\x9d52;c;a\x07".as_slice());
            assert_eq!(passed, [first, rest, first, b"\x9b6n", first, b"\xb6"].concat());
        }
        assert_eq!(
            TerminalFilter::default().pass(b"caf\xe9\x1b[m"),
            "caf\u{fffd}\x1b[m".as_bytes()
        );
    }

    #[test]
    fn what_is_only_read_sets_no_mode() {
        let output =
            b"\x1b[?1000h\x1b[?25lx\x1b[4h\x1b[3;5r\x1b[5 q\x1bc\x1b(0\x1b)0\x0e\x1b[1my\x1b[m";
        let passed = TerminalFilter::for_record().pass(output);
        assert_eq!(String::from_utf8_lossy(&passed), "x\x1b[1my\x1b[m");
    }

    #[test]
    fn what_is_only_read_hides_and_covers_nothing() {
        let output = "a\u{202e}b\u{e0041}\x1b#8\x1bP0;1q#1!9~\x1b\\👩‍💻";
        let passed = TerminalFilter::for_record().pass(output.as_bytes());
        assert_eq!(String::from_utf8_lossy(&passed), "a<U+202E>b<U+E0041>👩‍💻");
        let passed = TerminalFilter::for_record().pass(b"\xffa\xe2\x80\xae\n");
        assert_eq!(passed, b"\xffa<U+202E>\n");
        let passed = TerminalFilter::default().pass(output.as_bytes());
        assert_eq!(String::from_utf8_lossy(&passed), output);
    }

    #[test]
    fn a_sequence_without_an_end_is_not_held_forever() {
        let mut filter = TerminalFilter::default();
        let endless = [b"\x1bP".to_vec(), vec![b'x'; 3 * MAX_HELD]].concat();
        let passed: usize = endless.chunks(100).map(|piece| filter.pass(piece).len()).sum();
        assert!(passed + 2 * MAX_HELD >= endless.len(), "{passed}");
        assert!(filter.held.len() <= MAX_HELD);
    }
}
