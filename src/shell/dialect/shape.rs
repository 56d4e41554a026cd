//! What a word may have become when the shell reports it. Pure.

use super::pieces::{Piece, PieceKind, Quote};

/// The fixed parts of a word, between which its expansions have put any text.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Shape {
    parts: Vec<String>,
}

impl Shape {
    pub(super) fn of(pieces: &[Piece]) -> Shape {
        let mut parts = vec![String::new()];
        for (index, piece) in pieces.iter().enumerate() {
            match piece.kind {
                PieceKind::Text if piece.quote == Quote::None => {
                    let text = piece.text;
                    let home = if index == 0 { text.strip_prefix('~') } else { None };
                    if let Some(rest) = home {
                        parts.push(String::new());
                        let rest = rest.find('/').and_then(|at| rest.get(at..));
                        add_unquoted(&mut parts, rest.unwrap_or_default());
                    } else {
                        add_unquoted(&mut parts, text);
                    }
                }
                PieceKind::Text if piece.quote == Quote::Dollar => parts.push(String::new()),
                PieceKind::Text => add(&mut parts, piece.text),
                _ => parts.push(String::new()),
            }
        }
        Shape { parts }
    }

    /// The report on a word that begins with `=`, without that.
    pub(super) fn of_path(pieces: &[Piece]) -> Shape {
        let mut shape = Shape::of(pieces);
        add(&mut shape.parts, " not found");
        shape
    }

    /// Whether the word may have become this text.
    pub(super) fn matches(&self, text: &str) -> bool {
        let Some((first, rest)) = self.parts.split_first() else { return false };
        let Some(mut text) = text.strip_prefix(first.as_str()) else { return false };
        let Some((last, middle)) = rest.split_last() else { return text.is_empty() };
        for part in middle {
            let Some(at) = text.find(part.as_str()) else { return false };
            text = text.get(at + part.len()..).unwrap_or_default();
        }
        text.ends_with(last.as_str())
    }
}

/// Braces expand to several words, of which a report names one.
fn add_unquoted(parts: &mut Vec<String>, mut text: &str) {
    while let Some((before, inside)) = text.split_once('{') {
        let Some((_, after)) = inside.split_once('}') else { break };
        add(parts, before);
        parts.push(String::new());
        text = after;
    }
    add(parts, text);
}

fn add(parts: &mut [String], text: &str) {
    if let Some(last) = parts.last_mut() {
        last.push_str(text);
    }
}

#[cfg(test)]
mod tests {
    use super::super::pieces::pieces;
    use super::*;

    #[test]
    fn a_word_matches_what_it_may_have_become() {
        for (word, text, expected) in [
            ("*.foo", "*.foo", true),
            ("*.foo", "a*.foo", false),
            ("\"$d\"/*.foo", "/tmp/a b/*.foo", true),
            ("$d/*.{c,h}", "/x/*.c", true),
            ("~/x/*.c", "/root/x/*.c", true),
            ("--include=*.py", "--include=*.py", true),
            ("'a b'*", "a b*", true),
            ("$(pwd)/*.x", "/a/*.y", false),
        ] {
            assert_eq!(Shape::of(&pieces(word)).matches(text), expected, "{word} {text}");
        }
    }
}
