//! Options of commands, and which of them take the next word as their value. Pure.

use super::unquote::Unquoted;

/// Options that take a value: the letters of short options, and long options with their dashes,
/// separated by blanks.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Values {
    pub(crate) letters: &'static str,
    pub(crate) long: &'static str,
}

pub(super) const fn values(letters: &'static str, long: &'static str) -> Values {
    Values { letters, long }
}

impl Values {
    /// Whether the value of this option is the next word. It is not for `-p22` and `--port=22`; in
    /// `-vp` the last letter decides.
    pub(crate) fn takes_next(self, option: &str) -> bool {
        let letters = self.letters_of(option);
        let ends_cluster = option.len() == letters.len() + 1;
        is_listed(option, self.long)
            || ends_cluster && letters.ends_with(|last| self.letters.contains(last))
    }

    /// The option letters in a cluster of short options: the letters before an attached value,
    /// including the one that takes it. Empty for a long option.
    pub(crate) fn letters_of(self, option: &str) -> &str {
        if option.starts_with("--") || is_listed(option, self.long) {
            return "";
        }
        let letters = option.strip_prefix('-').unwrap_or_default();
        let end = letters
            .char_indices()
            .find(|(_, letter)| self.letters.contains(*letter))
            .map_or(letters.len(), |(at, letter)| at + letter.len_utf8());
        letters.get(..end).unwrap_or_default()
    }
}

/// Whether a list of words separated by blanks contains this word.
pub(super) fn is_listed(word: &str, list: &str) -> bool {
    // By bytes: each command is compared with hundreds of words.
    !word.is_empty()
        && list.as_bytes().split(u8::is_ascii_whitespace).any(|known| known == word.as_bytes())
}

/// Whether a word is an option, judged by the part before any expansion. A single `-` is a file.
pub(super) fn is_option(word: &Unquoted) -> bool {
    word.text.len() > 1 && word.fixed_part().starts_with('-')
}

/// How many of the first words are options or their values. `--` ends the options and is counted.
pub(super) fn count_options(words: &[Unquoted], values: Values) -> usize {
    let mut count = 0;
    while let Some(word) = words.get(count).filter(|word| is_option(word)) {
        count += 1;
        if word.fixed() == Some("--") {
            break;
        }
        if word.fixed().is_some_and(|option| values.takes_next(option)) {
            count += 1;
        }
    }
    count.min(words.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shell::unquote::unquote;

    const VALUES: Values = Values { letters: "pl", long: "--port -jar" };

    #[test]
    fn the_next_word_belongs_to_an_option_that_takes_a_value() {
        for (option, takes) in [
            ("-p", true),
            ("-vp", true),
            ("-p22", false),
            ("-pv", false),
            ("--port", true),
            ("--port=22", false),
            ("-jar", true),
            ("-v", false),
            ("-", false),
        ] {
            assert_eq!(VALUES.takes_next(option), takes, "{option}");
        }
    }

    #[test]
    fn letters_end_with_the_one_that_takes_a_value() {
        for (option, letters) in [
            ("-vx", "vx"),
            ("-vpleft", "vp"),
            ("-p", "p"),
            ("--port", ""),
            ("-jar", ""),
            ("word", ""),
        ] {
            assert_eq!(VALUES.letters_of(option), letters, "{option}");
        }
    }

    #[test]
    fn options_end_at_the_first_other_word() {
        for (line, count) in [
            ("-v -p 22 host -x", 3),
            ("host", 0),
            ("-- -v", 1),
            ("- x", 0),
            ("-p", 1),
            ("-l$USER x", 1),
        ] {
            let words: Vec<Unquoted> = line.split(' ').map(unquote).collect();
            assert_eq!(count_options(&words, VALUES), count, "{line}");
        }
    }
}
