//! Finds the ends of words and quotes of a command line.
//!
//! Approximates a shell, which suffices for text that resembles a command line: unclosed quotes
//! extend to the end. Only ASCII ends a word or a quote, so every returned position is on a
//! character boundary.
//!
//! Limits: no expansions, no here-documents, no comments; [`crate::shell::lexer`] is the lexer of
//! commands. Pure.

/// The end of the shell word at `start`.
pub(crate) fn word_end(bytes: &[u8], start: usize, enclosing: Option<u8>) -> usize {
    let mut at = start;
    let mut depth = 0_usize;
    while let Some(&byte) = bytes.get(at) {
        if Some(byte) == enclosing {
            return at;
        }
        if let Some(quote) = opening_quote(bytes, at, enclosing) {
            // In prose a later backtick closes a code span that began before the name.
            if quote == b"`" && at != start {
                return at;
            }
            at = quoted_end(bytes, at + quote.len(), quote, enclosing);
            continue;
        }
        match byte {
            b'\\' => at += escape_len(bytes, at) - 1,
            b'(' => depth += 1,
            b')' if depth == 0 => return at,
            b')' => depth -= 1,
            b';' | b'&' | b'|' | b'<' | b'>' if depth == 0 => return at,
            _ if depth == 0 && byte.is_ascii_whitespace() => return at,
            _ => {}
        }
        at += 1;
    }
    bytes.len()
}

/// The quote that opens at `at`, including an escaped one inside double quotes.
pub(crate) fn opening_quote(
    bytes: &[u8],
    at: usize,
    enclosing: Option<u8>,
) -> Option<&'static [u8]> {
    match (bytes.get(at)?, bytes.get(at + 1)) {
        (b'\\', Some(b'"')) if enclosing == Some(b'"') => Some(b"\\\""),
        (b'"', _) => Some(b"\""),
        (b'\'', _) => Some(b"'"),
        (b'`', _) => Some(b"`"),
        _ => None,
    }
}

/// The position after the closing `quote`. If there is none, the end of the enclosing quote
/// or of the text.
pub(crate) fn quoted_end(bytes: &[u8], start: usize, quote: &[u8], enclosing: Option<u8>) -> usize {
    let mut at = start;
    while let Some(&byte) = bytes.get(at) {
        if bytes.get(at..).is_some_and(|rest| rest.starts_with(quote)) {
            return at + quote.len();
        }
        if Some(byte) == enclosing {
            return at;
        }
        at += match byte {
            b'\\' if quote != b"'" => escape_len(bytes, at),
            _ => 1,
        };
    }
    bytes.len()
}

/// The length of a backslash and the character that it escapes, if that is ASCII.
fn escape_len(bytes: &[u8], at: usize) -> usize {
    match bytes.get(at + 1) {
        Some(next) if next.is_ascii() => 2,
        _ => 1,
    }
}

/// The first position from `start` whose byte ends the value.
pub(crate) fn find_end(bytes: &[u8], start: usize, ends: impl Fn(u8) -> bool) -> usize {
    bytes
        .iter()
        .skip(start)
        .position(|&byte| ends(byte))
        .map_or(bytes.len(), |length| start + length)
}

/// Follows a shell's quotes through a text, from its beginning.
pub(crate) struct Quotes<'a> {
    bytes: &'a [u8],
    at: usize,
    open: Option<u8>,
}

impl<'a> Quotes<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        Quotes { bytes: text.as_bytes(), at: 0, open: None }
    }

    /// The quote that is open at `position`, which must not decrease from call to call.
    pub(crate) fn enclosing(&mut self, position: usize) -> Option<u8> {
        while self.at < position {
            let Some(&byte) = self.bytes.get(self.at) else {
                break;
            };
            match (self.open, byte) {
                (None | Some(b'"'), b'\\') => {
                    self.at += escape_len(self.bytes, self.at) - 1;
                }
                (Some(open), _) if open == byte => self.open = None,
                (None, b'"') => self.open = Some(byte),
                (None, b'\'') if !self.is_apostrophe() => self.open = Some(byte),
                _ => {}
            }
            self.at += 1;
        }
        self.open
    }

    /// As in `don't`: a letter on both sides.
    fn is_apostrophe(&self) -> bool {
        let is_letter = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphabetic);
        let before = self.at.checked_sub(1).and_then(|at| self.bytes.get(at));
        is_letter(before) && is_letter(self.bytes.get(self.at + 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(text: &str, enclosing: Option<u8>) -> &str {
        &text[..word_end(text.as_bytes(), 0, enclosing)]
    }

    #[test]
    fn words_end_at_blanks_and_operators_outside_quotes() {
        for (text, expected) in [
            ("abc def", "abc"),
            ("a\"b c\"d;e", "a\"b c\"d"),
            ("'it is' x", "'it is'"),
            ("a\\ b c", "a\\ b"),
            ("$(cat a b) c", "$(cat a b)"),
            ("abc) d", "abc"),
            ("a&b", "a"),
            ("\"open a b", "\"open a b"),
            ("größe x", "größe"),
        ] {
            assert_eq!(word(text, None), expected);
        }
    }

    #[test]
    fn words_within_quotes_end_with_the_quotes() {
        assert_eq!(word("abc\" def", Some(b'"')), "abc");
        assert_eq!(word("'a b' c\"", Some(b'"')), "'a b'");
        assert_eq!(word("\\\"a b\\\" c\"", Some(b'"')), "\\\"a b\\\"");
    }

    #[test]
    fn quotes_are_followed_once_through_a_text() {
        let text = "don't \"a 'b' \\\" c\" 'd'";
        let mut quotes = Quotes::new(text);
        let open: String =
            (0..=text.len()).map(|at| quotes.enclosing(at).map_or('.', char::from)).collect();
        let expected = [".".repeat(7), "\"".repeat(11), "..''.".to_owned()].concat();
        assert_eq!(open, expected);
    }
}
