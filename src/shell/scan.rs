//! Finds the ends of parts of a word that need no stack: quotes, backticks, arithmetic,
//! here-documents.
//!
//! Every returned position is on a character boundary, since each part ends with an ASCII
//! character. An unclosed part extends to the end of the text. Pure.

use memchr::{memchr, memchr2};

/// The position after the `'` that closes the quote whose inside begins at `start`.
pub(super) fn single_quoted_end(bytes: &[u8], start: usize) -> usize {
    let rest = bytes.get(start..).unwrap_or_default();
    memchr(b'\'', rest).map_or(bytes.len(), |length| start + length + 1)
}

/// The position after the next unescaped `closing`, for `$'…'` and backticks, within which other
/// quotes have no meaning.
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

/// The position after a backslash and the byte that it escapes. Before a multi-byte character, only
/// the position after the backslash, since such characters have no special meaning.
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

/// The position after the bracket that closes the group whose inside begins at `start`.
/// Only quotes and brackets are recognised.
pub(super) fn group_end(bytes: &[u8], start: usize, open: u8, close: u8) -> usize {
    let mut depth = 1_usize;
    let mut at = start;
    while let Some(&byte) = bytes.get(at) {
        at = after_part(bytes, at, byte);
        depth += usize::from(byte == open);
        depth -= usize::from(byte == close);
        if depth == 0 {
            return at;
        }
    }
    bytes.len()
}

/// The position after this byte, or after the quotes or the escape that it begins.
fn after_part(bytes: &[u8], at: usize, byte: u8) -> usize {
    match byte {
        b'\\' => after_escape(bytes, at),
        b'"' | b'`' => escaped_end(bytes, at + 1, byte),
        b'\'' => single_quoted_end(bytes, at + 1),
        _ => at + 1,
    }
}

/// Looks ahead for the `))` of an arithmetic expression, within a budget for the whole text.
/// Without the budget, `((((((…` would be read again from each of its parentheses.
pub(super) struct Lookahead {
    budget: usize,
}

/// The budget, as a multiple of the text's length.
const LOOK_AHEAD_FACTOR: usize = 4;
/// The lowest budget, in bytes.
const MIN_LOOK_AHEAD: usize = 4096;

impl Lookahead {
    pub(super) fn new(length: usize) -> Self {
        Lookahead {
            budget: length.saturating_mul(LOOK_AHEAD_FACTOR).saturating_add(MIN_LOOK_AHEAD),
        }
    }

    /// The position after the `))` that closes the `((` whose inside begins at `start`; `None` if
    /// its parentheses close elsewhere, so that it is two nested subshells.
    pub(super) fn arithmetic_end(&mut self, bytes: &[u8], start: usize) -> Option<usize> {
        let mut depth = 0_usize;
        let mut at = start;
        while let Some(&byte) = bytes.get(at) {
            match byte {
                b'(' => depth += 1,
                b')' if depth == 0 => {
                    return (bytes.get(at + 1) == Some(&b')')).then_some(at + 2);
                }
                b')' => depth -= 1,
                _ => {}
            }
            let next = after_part(bytes, at, byte);
            self.budget = self.budget.checked_sub(next - at)?;
            at = next;
        }
        None
    }
}

/// The end of the range of numbers that `<` at this position begins, as in `<1-10>`.
pub(super) fn number_range_end(bytes: &[u8], start: usize) -> Option<usize> {
    let digits = |from: usize| {
        let rest = bytes.get(from..).unwrap_or_default();
        from + rest.iter().take_while(|byte| byte.is_ascii_digit()).count()
    };
    let dash = digits(start + 1);
    let end = digits(dash + 1);
    (bytes.get(dash) == Some(&b'-') && bytes.get(end) == Some(&b'>')).then_some(end + 1)
}

/// A here-document before its body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct HereDocument {
    /// The line that ends it.
    pub(crate) delimiter: String,
    /// Whether tabs at the beginning of a line are ignored (`<<-`).
    pub(crate) strips_tabs: bool,
}

impl HereDocument {
    /// The end of the body that begins at `start`: after its delimiter, before that line's end.
    pub(super) fn end(&self, text: &str, start: usize) -> usize {
        // The shell ignores the tabs of a quoted delimiter as well.
        let unindented =
            |line| if self.strips_tabs { str::trim_start_matches(line, '\t') } else { line };
        let delimiter = unindented(self.delimiter.as_str());
        let mut at = start;
        loop {
            let rest = text.get(at..).unwrap_or_default();
            let length = memchr(b'\n', rest.as_bytes()).unwrap_or(rest.len());
            let line = rest.get(..length).unwrap_or_default();
            if unindented(line) == delimiter || length == rest.len() {
                return at + length;
            }
            at += length + 1;
        }
    }
}

/// The start of an assignment's value, after `NAME=`, `NAME+=` or `NAME[…]=`.
pub(super) fn assignment_value(word: &str) -> Option<usize> {
    let bytes = word.as_bytes();
    let first = bytes.first()?;
    if !(first.is_ascii_alphabetic() || *first == b'_') {
        return None;
    }
    let name =
        bytes.iter().take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'_').count();
    let mut at = name;
    if bytes.get(at) == Some(&b'[') {
        at = bracket_end(bytes, at + 1);
    }
    if bytes.get(at) == Some(&b'+') {
        at += 1;
    }
    (bytes.get(at) == Some(&b'=')).then_some(at + 1)
}
