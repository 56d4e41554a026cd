//! A caller's pattern for lines of output. Any pattern can be searched for piece by piece, so that
//! the search can be given up in between. Pure.

use std::ops::Range;

use regex_automata::meta::{Builder, Config, Regex};
use regex_automata::{Input, Span};

/// The sizes of a compiled pattern, with how much text is searched at once: at most some 0.3 s of
/// work in the worst case. Measured: 30 µs a byte with `(?s).{0,900}x.{0,900}x.{0,900}x` (4 MiB),
/// 4 µs with `[abx]{200}x[abx]{200}x[abx]{200}x` (64 KiB).
const PIECES: [(usize, usize); 5] = [
    (16 << 10, 256 << 10),
    (64 << 10, 32 << 10),
    (1 << 20, 32 << 10),
    (4 << 20, 8 << 10),
    (10 << 20, 4 << 10),
];

/// A compiled pattern.
#[derive(Debug)]
pub(crate) struct Pattern {
    text: String,
    regex: Regex,
    /// The most bytes that are searched at once.
    piece: usize,
    /// Whether a search may cost more than reading the text does.
    pub(crate) is_costly: bool,
}

/// What is wrong with a pattern.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct PatternError(String);

/// The search was given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct GivenUp;

impl Pattern {
    /// Compiles a pattern in the syntax of the `regex` crate.
    ///
    /// # Errors
    /// When it is none, or too large.
    pub(crate) fn new(text: &str) -> Result<Pattern, PatternError> {
        for (at, (size, piece)) in PIECES.into_iter().enumerate() {
            let config = Config::new().nfa_size_limit(Some(size));
            match Builder::new().configure(config).build(text) {
                Ok(regex) => {
                    return Ok(Pattern { text: text.to_owned(), regex, piece, is_costly: at > 0 });
                }
                Err(error) => {
                    if let Some(error) = error.syntax_error() {
                        return Err(PatternError(error.to_string()));
                    }
                }
            }
        }
        Err(PatternError("it is too large: repeat less in it".to_owned()))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.text
    }

    /// The first match at or after `from`, which is the border of a character. `permit` is asked
    /// before each piece of this many bytes, and gives up by `None`; what it returns lives while
    /// the piece is searched.
    ///
    /// A match longer than half a piece may be missed or cut where a costly pattern meets a line
    /// longer than a piece.
    ///
    /// # Errors
    /// When the search was given up.
    pub(crate) fn find<T>(
        &self,
        text: &str,
        from: usize,
        mut permit: impl FnMut(usize) -> Option<T>,
    ) -> Result<Option<Range<usize>>, GivenUp> {
        let mut start = from;
        loop {
            let end = text.ceil_char_boundary(start.saturating_add(self.piece));
            let permission = permit(end - start).ok_or(GivenUp)?;
            let input = Input::new(text).span(Span { start, end });
            let found = self.regex.find(input);
            drop(permission);
            if let Some(found) = found {
                return Ok(Some(found.range()));
            }
            if end >= text.len() {
                return Ok(None);
            }
            start = text.ceil_char_boundary(start + self.piece / 2);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(pattern: &str, text: &str, from: usize) -> Option<Range<usize>> {
        let pattern = Pattern::new(pattern).expect("a pattern");
        pattern.find(text, from, |_| Some(())).expect("a whole search")
    }

    #[test]
    fn matches_are_those_of_the_whole_text() {
        assert_eq!(find(r"\d+", "ab 12 34", 0), Some(3..5));
        assert_eq!(find(r"\d+", "ab 12 34", 5), Some(6..8));
        assert_eq!(find("^ab", "ab ab", 1), None);
        // A costly pattern, whose text is searched in pieces: `^` and `$` keep their meaning.
        let text = format!("{}ü{}", "a".repeat(20_000), "b".repeat(20_000));
        for (pattern, expected) in [
            ("ü(?:x.{0,900}x.{0,900}x.{0,900})?", Some(20_000..20_002)),
            ("(?:x.{0,900}x.{0,900}x.{0,900})?b$", Some(40_001..40_002)),
            ("^(?:x.{0,900}x.{0,900}x.{0,900})?b", None),
        ] {
            assert!(Pattern::new(pattern).expect("a pattern").is_costly, "{pattern}");
            assert_eq!(find(pattern, &text, 0), expected, "{pattern}");
        }
    }

    #[test]
    fn a_costly_search_asks_often_and_can_be_given_up() {
        let costly = Pattern::new("(?s).{0,900}x.{0,900}x.{0,900}x").expect("a pattern");
        let text = "a".repeat(3_000_000);
        let mut asked = 0;
        let given_up = costly.find(&text, 0, |bytes| {
            assert!(bytes <= 8 << 10);
            asked += 1;
            (asked < 3).then_some(())
        });
        assert_eq!((given_up, asked), (Err(GivenUp), 3));
        let plain = Pattern::new("(?i)error|warning").expect("a pattern");
        assert!(!plain.is_costly);
        assert_eq!(plain.find(&text, 0, |_| Some(())), Ok(None));
    }

    #[test]
    fn a_pattern_of_a_few_hundred_characters_in_a_row_is_costly_too() {
        let pattern = Pattern::new("[abx]{200}x[abx]{200}x[abx]{200}x").expect("a pattern");
        assert!(pattern.is_costly && pattern.piece <= 32 << 10);
    }

    #[test]
    fn what_is_wrong_with_a_pattern_is_said() {
        let said = |text: &str| Pattern::new(text).expect_err("no pattern").to_string();
        assert!(said("a(b").contains("unclosed group"), "{}", said("a(b"));
        assert!(said(r"(\w{1000}){1000}").contains("too large"));
    }
}
