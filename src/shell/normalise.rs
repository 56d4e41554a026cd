//! The identity of a command: commands that differ only in blanks have the same hash.
//!
//! Normalises only blanks between tokens and at the ends; quotes, here-documents and comments are
//! unchanged. Templates recognise similar commands. The caller removes secrets first. Pure.

use sha2::{Digest, Sha256};

use super::command_line::CommandLine;
use super::token::{Separator, TokenKind};

/// The algorithm's version.
pub(crate) const VERSION: u32 = 1;

const DIGITS: usize = 16;

/// Replaces each run of blanks outside quotes by one blank, and removes blanks at the ends.
pub fn normalise(line: &CommandLine) -> String {
    let (command, lexed) = (line.text(), line.lexed());
    let is_line_end = |kind: TokenKind| kind == TokenKind::Separator(Separator::Newline);
    let mut tokens = lexed.tokens.iter().filter(|token| !is_line_end(token.kind));
    let Some(first) = tokens.next() else {
        return String::new();
    };
    let end = tokens.next_back().unwrap_or(first).span.end;
    let mut normalised = String::with_capacity(end - first.span.start);
    let mut at = first.span.start;
    for blanks in &lexed.blanks {
        if blanks.start < at || blanks.end > end {
            continue;
        }
        normalised.push_str(command.get(at..blanks.start).unwrap_or_default());
        normalised.push(' ');
        at = blanks.end;
    }
    normalised.push_str(command.get(at..end).unwrap_or_default());
    normalised
}

/// The first 16 hexadecimal digits of the SHA-256 of the normalised command.
pub fn hash(line: &CommandLine) -> String {
    let digest = Sha256::digest(normalise(line).as_bytes());
    digest.iter().take(DIGITS / 2).map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::shell::template::template;

    #[test]
    fn blanks_outside_quotes_are_normalised() {
        for (command, normal) in [
            ("  ls   -l\t\t/tmp \n", "ls -l /tmp"),
            ("echo  'a  b'  \"c  d\"", "echo 'a  b' \"c  d\""),
            ("echo a\\ \\  b", "echo a\\ \\  b"),
            ("echo  a\\  ", "echo a\\ "),
            ("a  |  b  ;  c", "a | b ; c"),
            ("echo $(ls   -l  'a  b')", "echo $(ls -l 'a  b')"),
            ("cat  <<E\n  a   b\nE\n", "cat <<E\n  a   b\nE"),
            ("python <<E; x  y\na  b\nE\nls  -l", "python <<E; x y\na  b\nE\nls -l"),
            ("a  # b   c", "a # b   c"),
            ("a\n\n  b", "a\n\n b"),
            ("", ""),
            (" \n\t", ""),
        ] {
            assert_eq!(normalise(&CommandLine::parse(command)), normal, "{command:?}");
        }
    }

    #[test]
    fn hashes_never_change() {
        assert_eq!(hash(&CommandLine::parse("ls -l")), "f0f40cf78dab06e0");
        assert_eq!(hash(&CommandLine::parse("  ls \t -l\n")), hash(&CommandLine::parse("ls -l")));
    }

    #[test]
    fn commands_of_one_template_have_different_hashes() {
        for (one, other) in [
            ("python3 -c \"print(1)\"", "python3 -c \"print(2)\""),
            ("exit 0", "exit 1"),
            ("git push origin a", "git push origin b"),
        ] {
            assert_eq!(
                template(&CommandLine::parse(one)),
                template(&CommandLine::parse(other)),
                "{one}"
            );
            assert_ne!(hash(&CommandLine::parse(one)), hash(&CommandLine::parse(other)), "{one}");
        }
    }

    /// Words that blanks around them do not change.
    fn word() -> impl Strategy<Value = String> {
        prop_oneof![
            "[a-z-]{1,6}",
            "'[a-z \"$]{0,6}'",
            "\"[a-z ']{0,6}\"",
            "\\$\\('[a-z ]{0,4}'\\)",
            Just("|".to_owned()),
            Just("&&".to_owned()),
            Just("> ".to_owned()),
        ]
    }

    proptest! {
        #[test]
        fn blanks_between_words_do_not_change_a_hash(
            words in proptest::collection::vec((word(), "[ \t]{1,4}"), 1..12),
            before in "[ \t\n]{0,3}",
        ) {
            let plain: Vec<&str> = words.iter().map(|(word, _)| word.as_str()).collect();
            let spread: String = words.iter().map(|(word, blanks)| format!("{word}{blanks}")).collect();
            let hash = |text: String| hash(&CommandLine::parse(text));
            prop_assert_eq!(hash(format!("{before}{spread}")), hash(plain.join(" ")));
        }

        #[test]
        fn blanks_within_quotes_do(blanks in " {2,5}", quote in "['\"]") {
            let with = |blanks: &str| hash(&CommandLine::parse(format!("echo {quote}a{blanks}b{quote}")));
            prop_assert_ne!(with(&blanks), with(" "));
        }
    }
}
