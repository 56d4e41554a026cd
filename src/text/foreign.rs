//! Text that others wrote, in places where the tool speaks: names of programs and files, paths,
//! arguments, what a host says.
//!
//! Such text can be shown only on one line, without characters that control a terminal or are not
//! seen, and cut. Where a reader could take it for the tool's own words, it is in quotes. Pure.

use std::borrow::Cow;
use std::fmt;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::{frame, invisible};

/// How many characters of a text are shown, the quotes excluded.
const SHOWN_CHARS: usize = 240;

/// Text that others wrote. Only [`Foreign::raw`] gives it as it is, for comparisons and for JSON.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Foreign(String);

impl Foreign {
    /// The text as it is. It may contain anything.
    pub fn raw(&self) -> &str {
        &self.0
    }
}

impl<T: Into<String>> From<T> for Foreign {
    fn from(text: T) -> Foreign {
        Foreign(text.into())
    }
}

impl fmt::Display for Foreign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&shown(&self.0))
    }
}

impl fmt::Debug for Foreign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&in_quotes(&self.0, SHOWN_CHARS))
    }
}

/// A text of others as it may be shown among the tool's own words.
pub(crate) fn shown(text: &str) -> Cow<'_, str> {
    shown_within(text, SHOWN_CHARS)
}

/// As [`shown`], with at most `limit` characters of the text.
pub(crate) fn shown_within(text: &str, limit: usize) -> Cow<'_, str> {
    let is_long = text.len() > limit && text.chars().count() > limit;
    if is_long || is_misleading(text) {
        Cow::Owned(in_quotes(text, limit))
    } else {
        Cow::Borrowed(text)
    }
}

/// Paths among the tool's own words.
pub(crate) trait ShowPath {
    fn shown(&self) -> Foreign;
}

impl ShowPath for Path {
    /// The path, in which what is not UTF-8 becomes U+FFFD.
    fn shown(&self) -> Foreign {
        Foreign(self.to_string_lossy().into_owned())
    }
}

/// A row of a table that others wrote, which no line of the tool equals.
pub(crate) fn row(text: &str) -> String {
    let hidden = |it: char| if is_hidden(it) { invisible::code_point(it) } else { it.to_string() };
    frame::marked(text.chars().map(hidden).collect())
}

/// A text of others in quotes, on one line, with at most `limit` of its characters: the middle of a
/// longer one is left out.
pub(crate) fn in_quotes(text: &str, limit: usize) -> String {
    let length = text.chars().count();
    let (head, tail) = if length > limit { (limit / 3, limit - limit / 3) } else { (length, 0) };
    let mut quoted = String::from('"');
    text.chars().take(head).for_each(|character| push_escaped(&mut quoted, character));
    if length > limit {
        quoted.push('…');
        text.chars().skip(length - tail).for_each(|character| push_escaped(&mut quoted, character));
    }
    quoted.push('"');
    quoted
}

/// The beginning of a line, in which a text in quotes may have lost its end: with a closing quote.
pub(crate) fn closed(cut: &str) -> String {
    let (mut is_open, mut is_escaped) = (false, false);
    for character in cut.chars() {
        is_open ^= character == '"' && !is_escaped;
        is_escaped = character == '\\' && !is_escaped && is_open;
    }
    let mut closed = cut.to_owned();
    if is_escaped {
        closed.pop();
    }
    if is_open {
        closed.push_str("…\"");
    }
    closed
}

fn push_escaped(quoted: &mut String, character: char) {
    match character {
        '"' | '\\' => quoted.extend(['\\', character]),
        '\n' => quoted.push_str("\\n"),
        '\r' => quoted.push_str("\\r"),
        '\t' => quoted.push_str("\\t"),
        '\u{1b}' => quoted.push_str("\\e"),
        character if is_hidden(character) => quoted.push_str(&invisible::code_point(character)),
        character => quoted.push(character),
    }
}

pub(crate) fn is_hidden(character: char) -> bool {
    character.is_control() || invisible::is_invisible(character)
}

/// What separates the parts of the tool's lines.
const SEPARATORS: &[&str] = &["  ", " · ", " | ", " → ", " — ", ", not kept", "(zsh_"];

/// Whether a character looks like a blank.
fn is_blank(character: char) -> bool {
    character.is_whitespace() || character == '\u{2800}'
}

/// Whether a reader could take a text, or a part of it, for something else: it has a character that
/// is not seen, a sign of the tool, or what separates the parts of the tool's lines.
fn is_misleading(text: &str) -> bool {
    text.is_empty()
        || text.starts_with(char::is_whitespace)
        || text.ends_with(char::is_whitespace)
        || SEPARATORS.iter().any(|separator| text.contains(separator))
        || text.chars().any(|it| is_blank(it) && it != ' ')
        || text.contains('=') && text.contains(char::is_whitespace)
        || text.chars().any(|it| it == '"' || is_hidden(it) || frame::is_sign(it))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_was_cut_is_closed() {
        for (cut, closed_text) in [
            ("held by \"a b", "held by \"a b…\""),
            ("\"a\" · x", "\"a\" · x"),
            ("\"a\\\"b", "\"a\\\"b…\""),
            ("\"a\\", "\"a…\""),
            ("plain", "plain"),
        ] {
            assert_eq!(closed(cut), closed_text);
        }
    }

    #[test]
    fn ordinary_names_are_shown_as_they_are() {
        for text in ["cargo", "/home/anna/my work", "größe.txt", "npm run dev", "a\\b", "it's"] {
            assert_eq!(Foreign::from(text).to_string(), text);
        }
    }

    #[test]
    fn what_could_mislead_is_in_quotes() {
        for (text, expected) in [
            ("x\n✔ exit=0", r#""x\n✔ exit=0""#),
            ("a\u{1b}]52;c;\u{7}", r#""a\e]52;c;<U+0007>""#),
            ("✔", r#""✔""#),
            ("/tmp/x task=deadbeef", r#""/tmp/x task=deadbeef""#),
            ("a · next: rm", r#""a · next: rm""#),
            ("a | A.L.A.N.: x", r#""a | A.L.A.N.: x""#),
            ("b, not kept: pass cwd", r#""b, not kept: pass cwd""#),
            ("c (zsh_kill)", r#""c (zsh_kill)""#),
            ("d\u{a0}x", "\"d\u{a0}x\""),
            ("e\u{2800}x", "\"e\u{2800}x\""),
            ("say \"hi\\\"", r#""say \"hi\\\"""#),
            ("\u{202e}fdp", r#""<U+202E>fdp""#),
            ("", r#""""#),
        ] {
            assert_eq!(Foreign::from(text).to_string(), expected);
        }
    }

    #[test]
    fn a_long_text_loses_its_middle() {
        let shown = Foreign::from("a".repeat(5_000)).to_string();
        assert_eq!(shown.chars().count(), SHOWN_CHARS + 3);
        assert!(shown.contains('…'));
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_shown_on_one_line(bytes in proptest::collection::vec(0_u8.., 0..600)) {
            let text = Foreign::from(String::from_utf8_lossy(&bytes));
            let shown = text.to_string();
            assert!(!shown.chars().any(is_hidden), "{shown:?}");
            assert!(shown.chars().count() <= 9 * SHOWN_CHARS, "{shown:?}");
            let is_quoted = shown.starts_with('"') && shown.ends_with('"');
            assert!(is_quoted || !shown.chars().any(frame::is_sign), "{shown:?}");
            assert_eq!(text.raw(), String::from_utf8_lossy(&bytes));
        }
    }
}
