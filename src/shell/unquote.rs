//! Removes the quotes of a word. Pure.

use super::scan::{after_escape, escaped_end, group_end};

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Unquoted {
    /// The text without quotes; expansions are unchanged.
    pub(crate) text: String,
    /// Where in that text the first expansion begins, if any. Patterns and `~` do not count.
    pub(crate) expands_at: Option<usize>,
}

impl Unquoted {
    /// The text, if it has no expansion.
    pub(crate) fn fixed(&self) -> Option<&str> {
        self.expands_at.is_none().then_some(self.text.as_str())
    }

    /// The part before the first expansion.
    pub(crate) fn fixed_part(&self) -> &str {
        let end = self.expands_at.unwrap_or(self.text.len());
        self.text.get(..end).unwrap_or_default()
    }
}

/// Removes the quotes of a word. Accepts any text; linear in its length.
pub(crate) fn unquote(word: &str) -> Unquoted {
    let mut reader = Unquoting { word, at: 0, in_double: false, result: Unquoted::default() };
    while reader.step() {}
    reader.result
}

struct Unquoting<'a> {
    word: &'a str,
    at: usize,
    in_double: bool,
    result: Unquoted,
}

impl Unquoting<'_> {
    /// Reads one part. Returns false at the end of the word.
    fn step(&mut self) -> bool {
        let bytes = self.word.as_bytes();
        let Some(&byte) = bytes.get(self.at) else {
            return false;
        };
        let next = bytes.get(self.at + 1).copied();
        match byte {
            b'"' => {
                self.in_double = !self.in_double;
                self.at += 1;
            }
            b'\\' => self.escape(next),
            b'\'' if !self.in_double => {
                let rest = bytes.get(self.at + 1..).unwrap_or_default();
                let length = memchr::memchr(b'\'', rest).unwrap_or(rest.len());
                self.take(1, length);
                self.at += 1;
            }
            b'$' if next == Some(b'\'') && !self.in_double => {
                let end = escaped_end(bytes, self.at + 2, b'\'');
                let inside = self.word.get(self.at + 2..end).unwrap_or_default();
                let inside = inside.strip_suffix('\'').unwrap_or(inside);
                decode(inside, &mut self.result.text);
                self.at = end;
            }
            b'$' if next.is_some_and(begins_parameter) => self.expansion(),
            b'`' => self.expansion(),
            b'<' | b'>' | b'=' if next == Some(b'(') && !self.in_double => self.expansion(),
            _ => {
                let rest = bytes.get(self.at + 1..).unwrap_or_default();
                let is_plain = |byte: &&u8| {
                    !matches!(**byte, b'"' | b'\\' | b'\'' | b'$' | b'`' | b'<' | b'>' | b'=')
                };
                let length = 1 + rest.iter().take_while(is_plain).count();
                self.take(0, length);
            }
        }
        true
    }

    /// Reads a backslash. Within double quotes it escapes only some characters. Before a line end,
    /// both are removed.
    fn escape(&mut self, next: Option<u8>) {
        match next {
            Some(b'\n') => self.at += 2,
            Some(b'$' | b'`' | b'"' | b'\\') => self.take(1, 1),
            Some(_) if self.in_double => self.take(0, 1),
            Some(_) => {
                let rest = self.word.get(self.at + 1..).unwrap_or_default();
                let length = rest.chars().next().map_or(0, char::len_utf8);
                self.take(1, length);
            }
            None => self.take(0, 1),
        }
    }

    /// Keeps an expansion unchanged, with its brackets.
    fn expansion(&mut self) {
        self.result.expands_at.get_or_insert(self.result.text.len());
        let bytes = self.word.as_bytes();
        let end = match (bytes.get(self.at), bytes.get(self.at + 1)) {
            (Some(b'`'), _) => escaped_end(bytes, self.at + 1, b'`'),
            (_, Some(b'(')) => group_end(bytes, self.at + 2, b'(', b')'),
            (_, Some(b'{')) => group_end(bytes, self.at + 2, b'{', b'}'),
            _ => self.at + 1,
        };
        self.take(0, end - self.at);
    }

    /// Skips `skipped` bytes and takes `length` more.
    fn take(&mut self, skipped: usize, length: usize) {
        let start = self.at + skipped;
        let end = (start + length).min(self.word.len());
        self.result.text.push_str(self.word.get(start..end).unwrap_or_default());
        self.at = end.max(start);
    }
}

fn begins_parameter(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"_{([*@#?-$!+=~^".contains(&byte)
}

/// Decodes the inside of `$'…'`.
fn decode(inside: &str, text: &mut String) {
    let bytes = inside.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        let rest = inside.get(at..).unwrap_or_default();
        let plain = memchr::memchr(b'\\', rest.as_bytes()).unwrap_or(rest.len());
        text.push_str(rest.get(..plain).unwrap_or_default());
        at += plain;
        if at >= bytes.len() {
            return;
        }
        let escaped = bytes.get(at + 1).copied();
        let (radix, max_digits) = match escaped {
            Some(b'x') => (16, 2),
            Some(b'u') => (16, 4),
            Some(b'U') => (16, 8),
            Some(b'0'..=b'7') => (8, 3),
            _ => (0, 0),
        };
        if radix == 0 {
            text.extend(named_escape(escaped));
            at = after_escape(bytes, at);
            continue;
        }
        let first = at + if radix == 8 { 1 } else { 2 };
        let digits = bytes
            .get(first..)
            .unwrap_or_default()
            .iter()
            .take(max_digits)
            .take_while(|byte| char::from(**byte).is_digit(radix))
            .count();
        let number = inside
            .get(first..first + digits)
            .and_then(|digits| u32::from_str_radix(digits, radix).ok());
        text.extend(number.and_then(char::from_u32));
        at = first + digits;
    }
}

fn named_escape(escaped: Option<u8>) -> Option<char> {
    Some(match escaped? {
        b'a' => '\u{7}',
        b'b' => '\u{8}',
        b'e' | b'E' => '\u{1b}',
        b'f' => '\u{c}',
        b'n' => '\n',
        b'r' => '\r',
        b't' => '\t',
        b'v' => '\u{b}',
        other if other.is_ascii() => char::from(other),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_are_removed_as_the_shell_removes_them() {
        for (word, text) in [
            ("plain", "plain"),
            ("'a b'", "a b"),
            ("\"a 'b'\"", "a 'b'"),
            ("a\\ b", "a b"),
            ("'it'\\''s'", "it's"),
            ("\"a\\\"b\\n\"", "a\"b\\n"),
            ("$'a\\n\\x41\\u00e9\\101\\''", "a\nAéA'"),
            ("größe", "größe"),
            ("\\ö", "ö"),
            ("a\\\nb", "ab"),
            ("--x=\"y z\"", "--x=y z"),
            ("a=b", "a=b"),
            ("100$", "100$"),
            ("'open", "open"),
            ("\"open", "open"),
            ("end\\", "end\\"),
            ("$'open\\", "open"),
        ] {
            let unquoted = unquote(word);
            assert_eq!(unquoted.fixed(), Some(text), "{word}");
        }
    }

    #[test]
    fn an_expansion_is_left_to_the_shell() {
        for (word, fixed_part) in [
            ("$HOME/x", ""),
            ("a$(b 'c')d", "a"),
            ("\"x ${y}\"", "x "),
            ("--n=`nproc`", "--n="),
            ("<(ls)", ""),
            ("=(ls)", ""),
        ] {
            let unquoted = unquote(word);
            assert_eq!(unquoted.fixed(), None, "{word}");
            assert_eq!(unquoted.fixed_part(), fixed_part, "{word}");
        }
        assert_eq!(unquote("'$HOME'").fixed(), Some("$HOME"));
        for (word, text) in [
            ("\"cd $DIR && 'ls'\"", "cd $DIR && 'ls'"),
            ("\"$(echo \")\" 'x')\"'y'", "$(echo \")\" 'x')y"),
            ("${x:-'a}'}'b'", "${x:-'a}'}b"),
        ] {
            assert_eq!(unquote(word).text, text, "{word}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_word_panics(word in "\\PC{0,40}|[\\\\$'\"`(){}<=axuU0é\n]{0,40}") {
            let unquoted = unquote(&word);
            proptest::prop_assert!(unquoted.text.len() <= word.len() + 4);
            proptest::prop_assert!(unquoted.text.starts_with(unquoted.fixed_part()));
        }
    }
}
