//! Splits a word into its quoted and unquoted texts, its parameters and its substitutions. Pure.

use crate::shell::scan::{bracket_end, escaped_end, group_end, single_quoted_end};

/// How many patterns of a `case` in a substitution are read.
const MOST_PATTERNS: usize = 32;

/// How the text of a piece is quoted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Quote {
    None,
    Double,
    /// By `'…'` or a backslash: nothing in it is special.
    Single,
    /// By `$'…'`, whose escapes are not decoded here.
    Dollar,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Piece<'a> {
    pub(super) kind: PieceKind<'a>,
    pub(super) quote: Quote,
    /// Its text in the word, without the quotes around it.
    pub(super) text: &'a str,
    /// Where that begins.
    pub(super) at: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PieceKind<'a> {
    Text,
    /// `$name`, `${name…}`.
    Parameter(Parameter<'a>),
    /// `$(…)`, `<(…)`, `>(…)`, `=(…)`, with its inside.
    Substitution(&'a str),
    /// `$((…))`, `$[…]`, with its inside.
    Arithmetic(&'a str),
    Backticks,
    /// The `$` of `$"…"`.
    Translation,
}

/// A parameter expansion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Parameter<'a> {
    pub(super) is_braced: bool,
    /// What precedes the name in braces: flags in parentheses, or `!`, `#`, `=` and the like.
    pub(super) before: &'a str,
    pub(super) name: &'a str,
    /// What follows the name in braces.
    pub(super) after: &'a str,
}

impl<'a> Parameter<'a> {
    /// Whether it is the value as it is: `$name`, `${name}`.
    pub(super) fn is_plain(&self) -> bool {
        self.before.is_empty() && self.after.is_empty()
    }

    /// The index of `${name[index]…}`, and what follows it.
    pub(super) fn index(&self) -> Option<(&'a str, &'a str)> {
        subscript(self.after)
    }
}

/// The inside of the `[…]` with which a text begins, and what follows it.
pub(super) fn subscript(text: &str) -> Option<(&str, &str)> {
    let inside = text.strip_prefix('[')?;
    let end = bracket_end(inside.as_bytes(), 0);
    Some((inside.get(..end)?.strip_suffix(']')?, inside.get(end..)?))
}

/// The pieces of a word, in order. Accepts any text; linear in its length.
pub(super) fn pieces(word: &str) -> Vec<Piece<'_>> {
    let mut reader = Reader { word, at: 0, in_double: false, pieces: Vec::new() };
    while reader.step() {}
    reader.pieces
}

struct Reader<'a> {
    word: &'a str,
    at: usize,
    in_double: bool,
    pieces: Vec<Piece<'a>>,
}

impl<'a> Reader<'a> {
    /// Reads one part. Returns false at the end of the word.
    fn step(&mut self) -> bool {
        let bytes = self.word.as_bytes();
        let Some(&byte) = bytes.get(self.at) else { return false };
        let next = bytes.get(self.at + 1).copied();
        match (byte, next) {
            (b'"', _) => {
                self.in_double = !self.in_double;
                self.at += 1;
            }
            (b'\\', Some(b'\n')) => self.at += 2,
            (b'\\', Some(b'$' | b'`' | b'"' | b'\\')) => self.escaped(),
            (b'\\', Some(_)) if !self.in_double => self.escaped(),
            (b'\'', _) if !self.in_double => {
                let end = single_quoted_end(bytes, self.at + 1);
                self.quoted(1, end, Quote::Single);
            }
            (b'$', Some(b'\'')) if !self.in_double => {
                let end = escaped_end(bytes, self.at + 2, b'\'');
                self.quoted(2, end, Quote::Dollar);
            }
            (b'$', Some(b'"')) if !self.in_double => self.push(PieceKind::Translation, self.at + 1),
            (b'$', Some(_)) => self.dollar(),
            (b'`', _) => {
                let end = escaped_end(bytes, self.at + 1, b'`');
                self.push(PieceKind::Backticks, end);
            }
            (b'<' | b'>' | b'=', Some(b'(')) if !self.in_double => self.substitution(),
            _ => self.plain(),
        }
        true
    }

    fn plain(&mut self) {
        let special: &[u8] = if self.in_double { b"\"\\$`" } else { b"\"\\$`'<>=" };
        let rest = self.word.as_bytes().get(self.at + 1..).unwrap_or_default();
        let length = rest.iter().position(|byte| special.contains(byte)).unwrap_or(rest.len());
        self.push(PieceKind::Text, self.at + 1 + length);
    }

    /// A backslash and the character that it escapes.
    fn escaped(&mut self) {
        let rest = self.word.get(self.at + 1..).unwrap_or_default();
        let length = rest.chars().next().map_or(0, char::len_utf8);
        let (from, to) = (self.at + 1, self.at + 1 + length);
        self.add(PieceKind::Text, Quote::Single, from, to);
        self.at = to;
    }

    /// A quote whose inside begins after `skipped` bytes and whose end is at `end`.
    fn quoted(&mut self, skipped: usize, end: usize, quote: Quote) {
        let inside = self.at + skipped;
        let closing = if self.word.as_bytes().get(end - 1) == Some(&b'\'') && end > inside {
            end - 1
        } else {
            end
        };
        self.add(PieceKind::Text, quote, inside, closing);
        self.at = end.max(self.at + 1);
    }

    fn substitution(&mut self) {
        let begin = self.at + 2;
        let mut end = group_end(self.word.as_bytes(), begin, b'(', b')');
        let mut inside = self.word.get(begin..end).unwrap_or_default();
        // The `)` after a pattern of a `case` has no opening one.
        for _ in 0..MOST_PATTERNS {
            let is_open = inside.trim_start().starts_with("case ") && !inside.contains("esac");
            if !is_open || end >= self.word.len() {
                break;
            }
            end = group_end(self.word.as_bytes(), end, b'(', b')');
            inside = self.word.get(begin..end).unwrap_or_default();
        }
        let inside = inside.strip_suffix(')').unwrap_or(inside);
        self.push(PieceKind::Substitution(inside), end);
    }

    fn dollar(&mut self) {
        let bytes = self.word.as_bytes();
        let rest = self.word.get(self.at + 1..).unwrap_or_default();
        if let Some(inside) = rest.strip_prefix("((") {
            let end = group_end(bytes, self.at + 2, b'(', b')');
            let length = end.saturating_sub(self.at + 5);
            let inside = inside.get(..length).unwrap_or_default();
            self.push(PieceKind::Arithmetic(inside), end);
        } else if rest.starts_with('(') {
            self.substitution();
        } else if rest.starts_with('[') {
            let end = bracket_end(bytes, self.at + 2);
            let inside = self.word.get(self.at + 2..end).unwrap_or_default();
            self.push(PieceKind::Arithmetic(inside.trim_end_matches(']')), end);
        } else if rest.starts_with('{') {
            let end = group_end(bytes, self.at + 2, b'{', b'}');
            let inside = self.word.get(self.at + 2..end).unwrap_or_default();
            let inside = inside.strip_suffix('}').unwrap_or(inside);
            self.push(PieceKind::Parameter(braced(inside)), end);
        } else {
            let name = name_at_start(rest);
            if name.is_empty() {
                return self.plain();
            }
            let parameter = Parameter { is_braced: false, before: "", name, after: "" };
            self.push(PieceKind::Parameter(parameter), self.at + 1 + name.len());
        }
    }

    fn push(&mut self, kind: PieceKind<'a>, end: usize) {
        let quote = if self.in_double { Quote::Double } else { Quote::None };
        self.add(kind, quote, self.at, end);
        self.at = end.max(self.at + 1);
    }

    fn add(&mut self, kind: PieceKind<'a>, quote: Quote, from: usize, to: usize) {
        let text = self.word.get(from..to).unwrap_or_default();
        self.pieces.push(Piece { kind, quote, text, at: from });
    }
}

/// The inside of `${…}`.
fn braced(inside: &str) -> Parameter<'_> {
    let mut at = 0;
    if inside.starts_with('(') {
        at = group_end(inside.as_bytes(), 1, b'(', b')');
    }
    let rest = inside.get(at..).unwrap_or_default();
    let operators = rest.bytes().take_while(|byte| b"!#=~^+".contains(byte)).count();
    let named = rest.get(operators..).map_or("", name_at_start);
    // `${#}` and `${!}` are parameters themselves.
    let operators = if named.is_empty() { 0 } else { operators };
    let (before, rest) = inside.split_at_checked(at + operators).unwrap_or((inside, ""));
    let name = name_at_start(rest);
    let after = rest.get(name.len()..).unwrap_or_default();
    Parameter { is_braced: true, before, name, after }
}

/// The name of a parameter at the start of a text; empty if there is none.
fn name_at_start(text: &str) -> &str {
    let bytes = text.as_bytes();
    let length = match bytes.first() {
        Some(b'0'..=b'9') => bytes.iter().take_while(|byte| byte.is_ascii_digit()).count(),
        Some(first) if first.is_ascii_alphabetic() || *first == b'_' => {
            bytes.iter().take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'_').count()
        }
        Some(b'@' | b'*' | b'#' | b'?' | b'-' | b'$' | b'!') => 1,
        _ => 0,
    };
    text.get(..length).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(word: &str) -> String {
        let pieces = pieces(word);
        let shown = pieces.iter().map(|piece| {
            let kind = match piece.kind {
                PieceKind::Text => "text".to_owned(),
                PieceKind::Parameter(it) => format!("{}<{}>{}", it.before, it.name, it.after),
                PieceKind::Substitution(inside) => format!("({inside})"),
                PieceKind::Arithmetic(inside) => format!("[{inside}]"),
                PieceKind::Backticks => "`".to_owned(),
                PieceKind::Translation => "$".to_owned(),
            };
            format!("{kind}:{:?}:{}", piece.quote, piece.text)
        });
        shown.collect::<Vec<_>>().join(" | ")
    }

    #[test]
    fn words_are_split_at_their_quotes_and_expansions() {
        for (word, expected) in [
            ("a'b c'\"d\"", "text:None:a | text:Single:b c | text:Double:d"),
            ("$a:h", "<a>:None:$a | text:None::h"),
            ("\"${a[0]}x\"", "<a>[0]:Double:${a[0]} | text:Double:x"),
            ("${(s.:.)a}", "(s.:.)<a>:None:${(s.:.)a}"),
            ("${!a[@]}", "!<a>[@]:None:${!a[@]}"),
            ("${#a}${#}", "#<a>:None:${#a} | <#>:None:${#}"),
            ("$(ls $x)$((i + 1))", "(ls $x):None:$(ls $x) | [i + 1]:None:$((i + 1))"),
            ("$\"a\"", "$:None:$ | text:Double:a"),
            ("\\*$'a\\n'", "text:Single:* | text:Dollar:a\\n"),
            ("100$", "text:None:100 | text:None:$"),
            ("`ls`", "`:None:`ls`"),
            (
                "$(case x in a) b;; *) c;; esac)d",
                "(case x in a) b;; *) c;; esac):None:$(case x in a) b;; *) c;; esac) | text:None:d",
            ),
        ] {
            assert_eq!(shown(word), expected, "{word}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_has_pieces(word in ".{0,60}") {
            let total: usize = pieces(&word).iter().map(|piece| piece.text.len()).sum();
            assert!(total <= word.len());
        }

        #[test]
        fn odd_words_have_pieces(word in "[\\\\'\"$`(){}\\[\\]a!#=ä]{0,24}") {
            let total: usize = pieces(&word).iter().map(|piece| piece.text.len()).sum();
            assert!(total <= word.len());
        }
    }
}
