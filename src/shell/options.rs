//! Options of commands: which of them take the next word with them.

use super::unquote::Unquoted;

/// Options that take a value: short ones by their letters, long ones by name.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Values {
    /// Letters of short options.
    pub letters: &'static str,
    /// Long options with their dashes.
    pub long: &'static [&'static str],
}

impl Values {
    /// No option takes any.
    pub const NONE: Values = Values {
        letters: "",
        long: &[],
    };

    /// Whether the value of this option is the next word: not for `-p22` and
    /// `--port=22`; in `-vp` the last letter decides.
    pub fn takes_next(self, option: &str) -> bool {
        if option.starts_with("--") || self.long.contains(&option) {
            return self.long.contains(&option);
        }
        let letters = option.strip_prefix('-').unwrap_or_default();
        let with_value = letters
            .char_indices()
            .find(|(_, letter)| self.letters.contains(*letter));
        with_value.is_some_and(|(at, letter)| at + letter.len_utf8() == letters.len())
    }
}

impl Values {
    /// The letters of a cluster of short options that are options themselves: those in
    /// front of an attached value, with the one that takes it. None of a long option.
    pub fn letters_of(self, option: &str) -> &str {
        if option.starts_with("--") || self.long.contains(&option) {
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

/// Whether a word is an option as far as the shell does not change it. `-` alone stands
/// for a file.
pub(super) fn is_option(word: &Unquoted) -> bool {
    word.text.len() > 1 && word.fixed_part().starts_with('-')
}

/// How many of these words are options with their values; `--` ends them and is counted.
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

    const VALUES: Values = Values {
        letters: "pl",
        long: &["--port", "-jar"],
    };

    #[test]
    fn the_next_word_belongs_to_an_option_that_waits_for_its_value() {
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
    fn options_end_at_the_first_word_that_is_none() {
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
