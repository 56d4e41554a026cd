//! The versions of agent programs. Pure.

/// The version in what a program prints of itself: its first word of numbers and dots.
pub(crate) fn version_in(text: &str) -> Option<String> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '+');
    text.split_whitespace().find_map(|word| {
        let word = word.trim_start_matches('v');
        let end = word.find(|c| !is_part(c)).unwrap_or(word.len());
        let word = word.get(..end)?.trim_end_matches('.');
        let (major, rest) = word.split_once('.')?;
        let is_version = !major.is_empty()
            && major.chars().all(|c| c.is_ascii_digit())
            && rest.starts_with(|c: char| c.is_ascii_digit());
        is_version.then(|| word.to_owned())
    })
}

/// Whether the entry of a program was verified with its version.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verified {
    Yes,
    /// With other versions than this one, which are listed.
    Others(String),
    Never,
    /// The entry is the user's, or the program is this one.
    NotOurs,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_programs_print_contains_their_version() {
        for (text, version) in [
            ("2.1.332 (Claude Code)\n", Some("2.1.332")),
            ("codex-cli 0.169.0\n", Some("0.169.0")),
            ("GitHub Copilot CLI 1.0.102.\nRun 'copilot update'\n", Some("1.0.102")),
            ("v1.2.0-rc.1\n", Some("1.2.0-rc.1")),
            ("1.9.0,x", Some("1.9.0")),
            (" 1.44.0", Some("1.44.0")),
            ("see https://a.b/1.2", None),
            ("version 3", None),
            ("a.b .5 5.", None),
            ("", None),
        ] {
            assert_eq!(version_in(text).as_deref(), version, "{text}");
        }
    }
}
