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

/// How many characters of a part of a command are shown.
const CODE_CHARS: usize = 160;
/// How many characters of a name are shown in a phrase: what follows must have room on its line.
const PHRASE_CHARS: usize = 80;

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

/// Words of the tool, in which texts of others are already shown as such: `fuse.sshfs at "/my home"`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Phrase(String);

impl Phrase {
    #[cfg_attr(any(not(target_os = "linux"), feature = "portable"), allow(dead_code))]
    pub(crate) fn new(words: fmt::Arguments) -> Phrase {
        Phrase(words.to_string())
    }

    /// Whether it is nothing but the name of a file or of an abstract socket.
    pub(crate) fn is_path(&self) -> bool {
        self.0.starts_with(['/', '@', '"'])
    }
}

impl From<&'static str> for Phrase {
    fn from(words: &'static str) -> Phrase {
        Phrase(words.to_owned())
    }
}

impl From<Foreign> for Phrase {
    fn from(text: Foreign) -> Phrase {
        Phrase(shown_within(&text.0, PHRASE_CHARS).into_owned())
    }
}

impl fmt::Display for Phrase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&composed(&self.0))
    }
}

/// Words of the tool with texts of others in them, which were shown as such when they were put
/// together. What was not is in quotes as a whole.
pub(crate) fn composed(words: &str) -> Cow<'_, str> {
    if words.chars().any(is_hidden) {
        Cow::Owned(in_quotes(words, SHOWN_CHARS))
    } else {
        Cow::Borrowed(words)
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

/// A text of others for a place between single quotes, which it cannot end.
pub(crate) fn between_quotes(text: &str) -> String {
    let mut shown = String::new();
    for character in text.chars().take(SHOWN_CHARS) {
        match character {
            '\'' => shown.push_str("\\'"),
            '"' | '\\' => shown.push(character),
            character => push_escaped(&mut shown, character),
        }
    }
    if text.chars().nth(SHOWN_CHARS).is_some() {
        shown.push('…');
    }
    shown
}

/// A line that a shell gets, in which nothing acts on a terminal: control characters are shown as
/// terminals echo them, `^[`, but for tabs.
pub(crate) fn typed(line: &str) -> Cow<'_, str> {
    let line = invisible::show(Cow::Borrowed(line));
    let acts = |it: char| it.is_control() && it != '\t';
    if !line.chars().any(acts) {
        return line;
    }
    let mut shown = String::new();
    for character in line.chars() {
        match u8::try_from(character) {
            // Caret notation flips bit 6: DEL is `^?`.
            Ok(byte) if acts(character) && byte.is_ascii() => {
                shown.extend(['^', char::from(byte ^ 0x40)]);
            }
            _ if acts(character) => shown.push_str(&invisible::code_point(character)),
            _ => shown.push(character),
        }
    }
    Cow::Owned(shown)
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

/// A part of a command between backticks, so that it can be copied as it is; in quotes if it could end
/// them, or is not seen as it is, or is long.
pub(crate) fn in_backticks(text: &str) -> String {
    let is_plain = |it| it != '`' && !is_hidden(it) && !frame::is_sign(it);
    if text.chars().all(is_plain) && text.chars().count() <= CODE_CHARS {
        format!("`{text}`")
    } else {
        in_quotes(text, CODE_CHARS)
    }
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

/// A text of several lines, for a terminal: what controls it, or is not seen, is shown.
pub(crate) fn lines(text: &str) -> Cow<'_, str> {
    let text = invisible::show(Cow::Borrowed(text));
    let acts = |it: char| it.is_control() && !matches!(it, '\n' | '\t');
    if !text.chars().any(acts) {
        return text;
    }
    let show = |it: char| if acts(it) { invisible::code_point(it) } else { it.to_string() };
    Cow::Owned(text.chars().map(show).collect())
}

pub(crate) fn is_hidden(character: char) -> bool {
    character.is_control() || invisible::is_invisible(character)
}

/// Whether a character looks like a blank.
fn is_blank(character: char) -> bool {
    character.is_whitespace() || character == '\u{2800}'
}

/// Whether a reader could take a text, or a part of it, for something else: it is more than one
/// word, is like a field, ends like a part of a sentence, or has a character that is not seen or a
/// sign of the tool.
fn is_misleading(text: &str) -> bool {
    let misleads = |it: char| it == '=' || it == '"' || is_blank(it) || is_hidden(it);
    text.is_empty()
        || text.ends_with([',', ';', ':', ')'])
        || text.chars().any(|it| misleads(it) || frame::is_sign(it))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_shell_gets_is_shown_and_does_not_act() {
        for (line, shown) in [
            ("touch evil #\u{1b}[1G\u{1b}[Kls", "touch evil #^[[1G^[[Kls"),
            ("rm x #\u{8}\u{8}\rls\u{7f}", "rm x #^H^H^Mls^?"),
            ("echo \u{9b}2K\u{202e}x", "echo <U+009B>2K<U+202E>x"),
            ("printf 'a\tb' größe", "printf 'a\tb' größe"),
        ] {
            assert_eq!(typed(line), shown);
        }
    }

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
        for text in ["cargo", "/home/anna/work", "größe.txt", "a.b:c,d(e)f", "a\\b", "it's", "."]
        {
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
            ("c(zsh_kill)", r#""c(zsh_kill)""#),
            ("/x held by 1 init", r#""/x held by 1 init""#),
            ("exit=0", r#""exit=0""#),
            ("x,", r#""x,""#),
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
    fn lines_for_a_terminal_control_and_hide_nothing() {
        for (text, expected) in [
            ("a\tb\nc é 👩‍💻\n", "a\tb\nc é 👩‍💻\n"),
            ("a\u{1b}[2J\u{9b}c\u{202e}d", "a<U+001B>[2J<U+009B>c<U+202E>d"),
        ] {
            assert_eq!(lines(text), expected);
        }
    }

    #[test]
    fn a_text_ends_no_single_quotes() {
        for (text, expected) in [
            (r"server\.js", r"server\.js"),
            ("a \"b\"", "a \"b\""),
            ("it's", r"it\'s"),
            ("a\nb\u{202e}", r"a\nb<U+202E>"),
        ] {
            assert_eq!(between_quotes(text), expected);
        }
        assert_eq!(between_quotes(&"a".repeat(5_000)).chars().count(), SHOWN_CHARS + 1);
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
