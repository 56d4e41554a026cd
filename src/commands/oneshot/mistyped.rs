//! Detects prompts that are probably no tasks: `oneshot lsit` or `oneshot status` would start an agent.
//!
//! Only prompts of one word, or of one word and a run's id, are refused; after `--` they are
//! prompts.

use clap::{Command, Subcommand};

use crate::cli::OneshotCommand;

/// Ends the options: what follows is the prompt.
pub(super) const END_OF_OPTIONS: &str = "--";
/// The longest word that counts as short.
const SHORT_CHARS: usize = 4;
/// The typos allowed in a short word and in a longer one. More would match real prompts (`test` is
/// two typos away from `list`).
const MAX_TYPOS: (usize, usize) = (1, 2);
/// Words of other programs for what a command here does. `{id}` is the second word, else `latest`.
const OTHER_WORDS: [(&str, &str); 16] = [
    ("help", "zsh-tool help runs"),
    ("ls", "zsh-tool oneshot list"),
    ("ps", "zsh-tool oneshot list"),
    ("runs", "zsh-tool oneshot list"),
    ("status", "zsh-tool oneshot show {id}"),
    ("info", "zsh-tool oneshot show {id}"),
    ("diff", "zsh-tool oneshot show {id} --diff"),
    ("log", "zsh-tool oneshot follow {id}"),
    ("logs", "zsh-tool oneshot follow {id}"),
    ("tail", "zsh-tool oneshot follow {id}"),
    ("watch", "zsh-tool oneshot follow {id}"),
    ("cancel", "zsh-tool oneshot stop {id}"),
    ("kill", "zsh-tool oneshot stop {id}"),
    ("resume", "zsh-tool oneshot --resume {id}"),
    ("continue", "zsh-tool oneshot --resume {id}"),
    ("version", "zsh-tool --version"),
];

/// Why a prompt is probably no task, as the end of a sentence; `None` if it may be one.
pub(super) fn objection(prompt: &[String]) -> Option<String> {
    let (word, id) = match prompt {
        [word] => (word, None),
        [word, id] if is_id(id) => (word, Some(id.as_str())),
        _ => return None,
    };
    let word = word.to_lowercase();
    if let Some((_, command)) = OTHER_WORDS.iter().find(|(known, _)| *known == word) {
        let command = command.replace("{id}", id.unwrap_or("latest"));
        return Some(format!("is no subcommand: did you mean `{command}`?"));
    }
    if let Some(name) = subcommand_near(&word) {
        return Some(format!("is no subcommand: did you mean `{name}`?"));
    }
    // Languages without spaces say much in what looks like one word.
    let is_a_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    (id.is_none() && word.chars().all(is_a_word))
        .then(|| "is one word, which says little to an agent.".to_owned())
}

/// The subcommand that a word is a typo of.
fn subcommand_near(word: &str) -> Option<String> {
    let known = OneshotCommand::augment_subcommands(Command::new("oneshot"));
    let near = known.get_subcommands().filter_map(|command| {
        let name = command.get_name();
        let limit = if name.len() <= SHORT_CHARS { MAX_TYPOS.0 } else { MAX_TYPOS.1 };
        let typos = strsim::damerau_levenshtein(word, name);
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

    fn objection_to(prompt: &str) -> Option<String> {
        let words: Vec<String> = prompt.split(' ').map(str::to_owned).collect();
        objection(&words)
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
            ("help", "zsh-tool help runs"),
            ("status", "zsh-tool oneshot show latest"),
            ("ls", "zsh-tool oneshot list"),
            ("Logs 3dc8c9ee", "zsh-tool oneshot follow 3dc8c9ee"),
            ("resume latest", "zsh-tool oneshot --resume latest"),
        ] {
            let objection = objection_to(prompt).unwrap();
            assert!(objection.ends_with(&format!("did you mean `{command}`?")), "{objection}");
        }
    }

    #[test]
    fn one_word_is_no_task() {
        for prompt in ["test", "fix", "build", "re-run", "x"] {
            assert!(objection_to(prompt).unwrap().contains("one word"), "{prompt}");
        }
    }

    #[test]
    fn work_is_work() {
        for prompt in [
            "lsit the files",
            "stop the server",
            "shop around",
            "stop it",
            "fix it",
            "help me",
            "修复失败的测试",
            "make 3dc8c9ee",
        ] {
            assert_eq!(objection_to(prompt), None, "{prompt}");
        }
    }
}
