//! Detects prompts that are probably mistyped subcommands: `oneshot lsit` would start an agent.
//!
//! Only prompts that look like a complete subcommand are refused: one word, or one word and a run's
//! id. That includes `lint`; after `--` it is a prompt.

use clap::{Command, Subcommand};

use crate::cli::OneshotCommand;

/// Ends the options: what follows is the prompt.
pub(super) const END_OF_OPTIONS: &str = "--";
/// The longest word that counts as short.
const SHORT_CHARS: usize = 4;
/// The typos allowed in a short word and in a longer one. More would match real prompts (`test` is
/// two typos away from `list`).
const MAX_TYPOS: (usize, usize) = (1, 2);

/// The subcommand that a prompt probably means.
pub(super) fn meant(prompt: &[String]) -> Option<String> {
    let word = match prompt {
        [word] => word,
        [word, id] if is_id(id) => word,
        _ => return None,
    };
    let word = word.to_lowercase();
    let known = OneshotCommand::augment_subcommands(Command::new("oneshot"));
    let near = known.get_subcommands().filter_map(|command| {
        let name = command.get_name();
        let limit = if name.len() <= SHORT_CHARS { MAX_TYPOS.0 } else { MAX_TYPOS.1 };
        let typos = strsim::damerau_levenshtein(&word, name);
        (typos <= limit).then(|| (typos, name.to_owned()))
    });
    near.min().map(|(_, name)| name)
}

/// Whether a word looks like a run's id.
fn is_id(word: &str) -> bool {
    let hex = |c: char| c.is_ascii_hexdigit() || c == '-';
    word == "latest" || (!word.is_empty() && word.chars().all(hex))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meant_by(prompt: &str) -> Option<String> {
        let words: Vec<String> = prompt.split(' ').map(str::to_owned).collect();
        meant(&words)
    }

    #[test]
    fn a_typo_in_a_subcommand_is_detected() {
        for (prompt, command) in [
            ("lsit", "list"),
            ("lst", "list"),
            ("List", "list"),
            ("lists", "list"),
            ("shwo latest", "show"),
            ("sotp 3dc8c9ee", "stop"),
            ("folow latest", "follow"),
            ("fololw 01234567-89ab", "follow"),
        ] {
            assert_eq!(meant_by(prompt).as_deref(), Some(command), "{prompt}");
        }
    }

    #[test]
    fn work_is_work() {
        for prompt in [
            "test",
            "fix",
            "build",
            "ship",
            "refactor",
            "lsit the files",
            "stop the server",
            "shop around",
            "stop it",
        ] {
            assert_eq!(meant_by(prompt), None, "{prompt}");
        }
    }
}
