//! A command line that is read once: its text and its tokens, from which templates, warnings, hosts
//! and reports are derived. Pure.

use std::ops::Range;

use super::lexer::{Lexed, lex};
use super::token::Token;

#[derive(Debug, Clone, Default)]
pub struct CommandLine {
    text: String,
    lexed: Lexed,
}

impl CommandLine {
    /// Accepts any text; linear in its length.
    pub fn parse(text: impl Into<String>) -> CommandLine {
        let text = text.into();
        CommandLine { lexed: lex(&text), text }
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    pub(crate) fn into_text(self) -> String {
        self.text
    }

    pub(crate) fn lexed(&self) -> &Lexed {
        &self.lexed
    }

    /// The text of a token, or of another range.
    pub(crate) fn written(&self, span: &Range<usize>) -> &str {
        self.text.get(span.clone()).unwrap_or_default()
    }

    /// A part that consists of whole tokens, as a line of its own.
    pub(crate) fn part(&self, span: &Range<usize>) -> CommandLine {
        let moved = |it: &Range<usize>| it.start - span.start..it.end - span.start;
        let ranges =
            |all: &[Range<usize>]| within(all, |it| it, span).iter().map(moved).collect::<Vec<_>>();
        let tokens = within(&self.lexed.tokens, |token| &token.span, span).iter();
        let tokens = tokens.map(|token| Token { span: moved(&token.span), ..token.clone() });
        CommandLine {
            text: self.written(span).to_owned(),
            lexed: Lexed {
                tokens: tokens.collect(),
                substitutions: ranges(&self.lexed.substitutions),
                blanks: ranges(&self.lexed.blanks),
            },
        }
    }
}

/// What is within a range, of things in the order of their positions.
fn within<'a, T>(
    all: &'a [T],
    position: impl Fn(&T) -> &Range<usize>,
    span: &Range<usize>,
) -> &'a [T] {
    let start = all.partition_point(|it| position(it).start < span.start);
    let end = all.partition_point(|it| position(it).end <= span.end);
    all.get(start..end).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    impl PartialEq<&str> for CommandLine {
        fn eq(&self, other: &&str) -> bool {
            self.text == *other
        }
    }

    #[test]
    fn a_part_is_read_as_its_text_is() {
        let line = CommandLine::parse("cat a  'b c' | sort $(ls  x) >f; echo");
        for text in ["cat a  'b c'", "sort $(ls  x) >f", "echo"] {
            let at = line.text().find(text).expect(text);
            let part = line.part(&(at..at + text.len()));
            assert_eq!((part.text(), part.lexed()), (text, &lex(text)));
        }
    }
}
