//! Where the parts of a word end that need no stack: quotes, backticks, arithmetic,
//! here-documents.
//!
//! Every position returned is on a character boundary, since all that ends a part is
//! ASCII. What never closes reaches to the end of the text.

use memchr::{memchr, memchr2};

/// The position after the `'` that closes the quote whose inside begins at `start`.
pub(super) fn single_quoted_end(bytes: &[u8], start: usize) -> usize {
    let rest = bytes.get(start..).unwrap_or_default();
    memchr(b'\'', rest).map_or(bytes.len(), |length| start + length + 1)
}

/// The position after the unescaped `closing`: of `$'…'` and of backticks, in which
/// other quotes mean nothing.
pub(super) fn escaped_end(bytes: &[u8], start: usize, closing: u8) -> usize {
    let mut at = start;
    loop {
        let rest = bytes.get(at..).unwrap_or_default();
        match memchr2(b'\\', closing, rest) {
            None => return bytes.len(),
            Some(length) if rest.get(length) == Some(&closing) => return at + length + 1,
            Some(length) => at = after_escape(bytes, at + length),
        }
    }
}

/// The position after a backslash and the byte that it escapes; of a longer character
/// only the backslash, since what follows it is no ASCII and means nothing anyway.
pub(super) fn after_escape(bytes: &[u8], backslash: usize) -> usize {
    match bytes.get(backslash + 1) {
        Some(next) if next.is_ascii() => backslash + 2,
        _ => (backslash + 1).min(bytes.len()),
    }
}

/// The position after the `]` that closes `$[` whose inside begins at `start`.
pub(super) fn bracket_end(bytes: &[u8], start: usize) -> usize {
    let mut depth = 1_usize;
    let mut at = start;
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'[' => depth += 1,
            b']' if depth == 1 => return at + 1,
            b']' => depth -= 1,
            _ => {}
        }
        at += 1;
    }
    bytes.len()
}

/// The position after the bracket that closes the group whose inside begins at `start`,
/// as far as quotes and brackets tell.
pub(super) fn group_end(bytes: &[u8], start: usize, open: u8, close: u8) -> usize {
    let mut depth = 1_usize;
    let mut at = start;
    while let Some(&byte) = bytes.get(at) {
        at = match byte {
            b'\\' => after_escape(bytes, at),
            b'"' | b'`' => escaped_end(bytes, at + 1, byte),
            b'\'' => single_quoted_end(bytes, at + 1),
            _ => at + 1,
        };
        depth += usize::from(byte == open);
        depth -= usize::from(byte == close);
        if depth == 0 {
            return at;
        }
    }
    bytes.len()
}

/// Looks ahead for the `))` of an arithmetic expression, within a budget for the whole
/// text: `((((((…` would else be read again from every one of its parentheses.
pub(super) struct LookAhead {
    budget: usize,
}

/// How many times its own length a text may be looked ahead in all.
const LOOK_AHEAD_FACTOR: usize = 4;
/// What a short text may be looked ahead in any case, in bytes.
const LEAST_LOOK_AHEAD: usize = 4096;

impl LookAhead {
    pub(super) fn new(length: usize) -> Self {
        LookAhead {
            budget: length
                .saturating_mul(LOOK_AHEAD_FACTOR)
                .saturating_add(LEAST_LOOK_AHEAD),
        }
    }

    /// The position after the `))` that closes the `((` whose inside begins at `start`;
    /// none if its parentheses close elsewhere, so that it is a subshell in a subshell.
    pub(super) fn arithmetic_end(&mut self, bytes: &[u8], start: usize) -> Option<usize> {
        let mut depth = 0_usize;
        let mut at = start;
        while let Some(&byte) = bytes.get(at) {
            let next = match byte {
                b'(' => {
                    depth += 1;
                    at + 1
                }
                b')' if depth == 0 => {
                    return (bytes.get(at + 1) == Some(&b')')).then_some(at + 2);
                }
                b')' => {
                    depth -= 1;
                    at + 1
                }
                b'\\' => after_escape(bytes, at),
                b'"' | b'`' => escaped_end(bytes, at + 1, byte),
                b'\'' => single_quoted_end(bytes, at + 1),
                _ => at + 1,
            };
            self.budget = self.budget.checked_sub(next - at)?;
            at = next;
        }
        None
    }
}

/// Whether `<` at this position begins a range of numbers, as in `<1-10>`; its end.
pub(super) fn number_range_end(bytes: &[u8], start: usize) -> Option<usize> {
    let digits = |from: usize| {
        let rest = bytes.get(from..).unwrap_or_default();
        from + rest.iter().take_while(|byte| byte.is_ascii_digit()).count()
    };
    let dash = digits(start + 1);
    let end = digits(dash + 1);
    (bytes.get(dash) == Some(&b'-') && bytes.get(end) == Some(&b'>')).then_some(end + 1)
}

/// A here-document whose body is still to come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct HereDocument {
    /// The line that ends it.
    pub delimiter: String,
    /// Whether tabs in front of a line are not part of it (`<<-`).
    pub strips_tabs: bool,
}

impl HereDocument {
    /// Where the body that begins at `start` ends: after its delimiter, in front of the
    /// end of that line.
    pub(super) fn end(&self, text: &str, start: usize) -> usize {
        let mut at = start;
        loop {
            let rest = text.get(at..).unwrap_or_default();
            let length = memchr(b'\n', rest.as_bytes()).unwrap_or(rest.len());
            let line = rest.get(..length).unwrap_or_default();
            let line = if self.strips_tabs {
                line.trim_start_matches('\t')
            } else {
                line
            };
            if line == self.delimiter || length == rest.len() {
                return at + length;
            }
            at += length + 1;
        }
    }
}

/// Whether a command may be assigned to: `NAME=`, `NAME+=`, `NAME[…]=` in front; where
/// the value begins.
pub(super) fn assignment_value(word: &str) -> Option<usize> {
    let bytes = word.as_bytes();
    let first = bytes.first()?;
    if !(first.is_ascii_alphabetic() || *first == b'_') {
        return None;
    }
    let name = bytes
        .iter()
        .take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'_')
        .count();
    let mut at = name;
    if bytes.get(at) == Some(&b'[') {
        at = bracket_end(bytes, at + 1);
    }
    if bytes.get(at) == Some(&b'+') {
        at += 1;
    }
    (bytes.get(at) == Some(&b'=')).then_some(at + 1)
}
