//! Splits a rendered page into lines of plain text with their indentation.
//!
//! Renderers print bold and underlined text by overstriking (`x`, backspace, `x`) or with escape
//! sequences, and may use special characters for hyphens and minus signs; this module removes all
//! of these. Limit: every character counts as one column. Pure.

/// A tab moves to the next multiple of this column.
const TAB: usize = 8;
/// Marks where a renderer divided a word at a line end; invisible elsewhere.
const SOFT_HYPHEN: char = '\u{ad}';

/// A line without its indentation and trailing blanks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Line {
    /// The number of columns before the text.
    pub(crate) indent: usize,
    /// The text; empty on a blank line.
    pub(crate) text: String,
    /// The number of columns of the text.
    pub(crate) width: usize,
}

impl Line {
    pub(crate) fn is_blank(&self) -> bool {
        self.text.is_empty()
    }

    /// The column after its last character.
    pub(super) fn end(&self) -> usize {
        self.indent + self.width
    }

    fn parse(text: &str) -> Line {
        let text = text.trim_end();
        let trimmed = text.trim_start();
        Line {
            indent: columns(text) - columns(trimmed),
            width: columns(trimmed),
            text: trimmed.to_owned(),
        }
    }
}

pub(super) fn columns(text: &str) -> usize {
    text.chars().count()
}

pub(super) fn lines(rendered: &str) -> Vec<Line> {
    rendered.split('\n').map(|line| Line::parse(&without_formatting(line))).collect()
}

/// Appends the next line of a paragraph, joining a word that was divided at the line end.
pub(super) fn join(paragraph: &mut String, line: &str) {
    if paragraph.ends_with(SOFT_HYPHEN) {
        paragraph.pop();
    } else if !paragraph.is_empty() && !ends_within_word(paragraph) {
        paragraph.push(' ');
    }
    paragraph.push_str(line);
}

/// Whether a text ends with a hyphen that belongs to a word.
fn ends_within_word(text: &str) -> bool {
    let mut last = text.chars().rev();
    last.next() == Some('-') && last.next().is_some_and(char::is_alphanumeric)
}

fn without_formatting(line: &str) -> String {
    let mut plain: Vec<char> = Vec::with_capacity(line.len());
    let mut characters = line.chars().peekable();
    // The character that the next one is printed over.
    let mut under = None;
    while let Some(character) = characters.next() {
        match character {
            '\u{8}' => under = plain.pop(),
            '\u{1b}' => skip_escape(&mut characters),
            '\t' => {
                let column = (plain.len() / TAB + 1) * TAB;
                plain.resize(column, ' ');
            }
            SOFT_HYPHEN if characters.peek().is_some() => {}
            SOFT_HYPHEN => plain.push(SOFT_HYPHEN),
            _ if character.is_control() => {}
            _ => {
                let over = usual(character);
                // An underscore marks the other character, whichever is printed first.
                plain.push(match under.take() {
                    Some(under) if over == '_' => under,
                    _ => over,
                });
            }
        }
    }
    plain.into_iter().collect()
}

/// Skips the rest of an escape sequence: a control sequence up to its final byte, or one
/// character.
fn skip_escape(characters: &mut std::iter::Peekable<std::str::Chars<'_>>) {
    if characters.next() == Some('[') {
        for character in characters.by_ref() {
            if matches!(character, '@'..='~') {
                return;
            }
        }
    }
}

/// The character that a person types instead of the one that a renderer prints.
fn usual(character: char) -> char {
    match character {
        '\u{2010}' | '\u{2011}' | '\u{2212}' => '-',
        '\u{a0}' => ' ',
        _ => character,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(rendered: &str) -> String {
        without_formatting(rendered)
    }

    #[test]
    fn overstrikes_and_escapes_leave_the_text() {
        assert_eq!(plain("-\u{8}-a\u{8}a, _\u{8}F_\u{8}I"), "-a, FI");
        assert_eq!(plain("F\u{8}_I\u{8}_"), "FI");
        assert_eq!(plain("_\u{8}F\u{8}F"), "F");
        assert_eq!(plain("\u{1b}[1m-a\u{1b}[0m \u{1b}[4mfile\u{1b}[24m"), "-a file");
        assert_eq!(plain("\u{2212}a\u{a0}\u{2010}\u{2010}all\r"), "-a --all");
        assert_eq!(plain("\u{8}\u{8}a\u{1b}"), "a");
    }

    #[test]
    fn tabs_lead_to_their_columns() {
        let line = Line::parse(&plain("     -C\u{9}     Requests"));
        assert_eq!((line.indent, line.text.as_str()), (5, "-C      Requests"));
        assert_eq!(Line::parse(&plain("\t x ")).indent, 9);
    }

    #[test]
    fn divided_words_are_joined() {
        let mut text = String::new();
        for line in ["a dia\u{ad}", "logue of non-", "optional", "words -", "and others"] {
            join(&mut text, line);
        }
        assert_eq!(text, "a dialogue of non-optional words - and others");
    }
}
