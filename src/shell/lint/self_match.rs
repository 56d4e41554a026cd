//! Finds `pgrep -f` and `pkill -f` that match the shell which runs them, because its command line
//! contains the pattern.
//!
//! Applies the pattern to the command itself, as pgrep applies it to the command lines of
//! processes; so `[s]erver` matches nothing unless another word of the command matches. Does not
//! check patterns with expansions. Pure.

use regex::RegexBuilder;

use crate::shell::options::{Values, is_listed, is_option, values};
use crate::shell::syntax::Simple;
use crate::shell::unquote::Unquoted;

/// The beginning of a shell's command line.
const SHELL: &str = "zsh -c ";

/// The options of pgrep(1) that take a value.
const VALUES: Values = values(
    "dFGgPstuUr",
    "--delimiter --pidfile --group --pgroup --parent --session --terminal --euid --uid \
     --runstates --signal --ns --nslist",
);

/// Options with which pgrep does not find its own shell: an exact match, another parent, no
/// ancestors, the oldest process, another group, session or terminal.
const ELSEWHERE: &str = "xPAogst";
const ELSEWHERE_LONG: &str =
    "--exact --parent --ignore-ancestors --oldest --pgroup --session --terminal";

/// The largest compiled pattern, in bytes. A larger pattern is searched as plain text.
const MAX_PATTERN: usize = 1 << 16;

/// The program and the pattern, if this command searches whole command lines.
pub(super) fn pattern_of(simple: &Simple) -> Option<(&str, &Unquoted)> {
    let program = simple.program().filter(|name| matches!(*name, "pgrep" | "pkill"))?;
    let mut pattern = None;
    let mut is_full = false;
    let mut words = simple.core().iter().skip(1);
    while let Some(word) = words.next() {
        if !is_option(word) {
            pattern = Some(word);
            continue;
        }
        let option = word.fixed()?;
        if is_signal(option) {
            continue;
        }
        let letters = VALUES.letters_of(option);
        let name = option.split('=').next().unwrap_or_default();
        if letters.contains(|letter| ELSEWHERE.contains(letter)) || is_listed(name, ELSEWHERE_LONG)
        {
            return None;
        }
        is_full |= letters.contains('f') || option == "--full";
        if VALUES.takes_next(option) {
            words.next();
        }
    }
    pattern.filter(|_| is_full).map(|pattern| (program, pattern))
}

/// `-9`, `-TERM`, `-SIGTERM`.
fn is_signal(option: &str) -> bool {
    let name = option.trim_start_matches('-');
    let is_number = name.bytes().all(|byte| byte.is_ascii_digit());
    let is_name = name.len() >= 3
        && name.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit());
    !option.starts_with("--") && (is_number || is_name)
}

/// How often the pattern matches the command line of the shell that runs this command, counting up
/// to two. If once, only the pattern itself matches.
pub(super) fn count_matches(pattern: &str, command: &str) -> usize {
    let line = format!("{SHELL}{command}");
    match RegexBuilder::new(pattern).size_limit(MAX_PATTERN).build() {
        Ok(regex) => regex.find_iter(&line).take(2).count(),
        Err(_) => line.matches(pattern).take(2).count(),
    }
}

/// A form of the pattern that does not match itself: `[s]erver`.
pub(super) fn without_self_match(pattern: &str) -> Option<String> {
    let (at, first) = pattern.char_indices().find(|(_, letter)| letter.is_alphanumeric())?;
    let (before, rest) = pattern.split_at(at);
    let is_plain = !before.contains(['[', '(', '\\', '{']);
    is_plain
        .then(|| format!("{before}[{first}]{}", rest.get(first.len_utf8()..).unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shell::command_line::CommandLine;
    use crate::shell::syntax::simple_commands;

    fn finds_itself(command: &str) -> bool {
        let commands = simple_commands(&CommandLine::parse(command));
        commands
            .iter()
            .filter_map(pattern_of)
            .filter_map(|(_, pattern)| pattern.fixed())
            .any(|pattern| count_matches(pattern, command) > 0)
    }

    #[test]
    fn a_pattern_that_matches_its_own_command_is_found() {
        for command in [
            "pkill -f server.js",
            "pgrep -f 'node server'",
            "pkill -9 -f server",
            "pkill -TERM -f server",
            "pkill -HUP -f server",
            "pkill -fi server",
            "pgrep -af server | head",
            "pgrep --full server",
            "pkill -f -u $USER server",
            "sudo pkill -f server",
            "pgrep -f '^zsh'",
            "pkill -f '[s]erver.js'; node server.js &",
            "pkill -f 's(erver'",
            "pkill --signal TERM -f server",
        ] {
            assert!(finds_itself(command), "{command}");
        }
    }

    #[test]
    fn a_pattern_that_cannot_match_its_own_shell_is_not() {
        for command in [
            "pkill server",
            "pkill -f '[s]erver.js'",
            "pgrep -f '^node server'",
            "pgrep -xf 'node server.js'",
            "pkill -f \"$NAME\"",
            "pgrep -f -P 1 server",
            "pgrep -u bob -l",
            "echo pkill -f server",
            "pkill -f 'server$' || true",
        ] {
            assert!(!finds_itself(command), "{command}");
        }
    }

    #[test]
    fn the_suggested_form_does_not_match_itself() {
        for (pattern, form) in [
            ("server.js", Some("[s]erver.js")),
            ("^node x", Some("^[n]ode x")),
            ("--flag", Some("--[f]lag")),
            ("[s]erver", None),
            ("...", None),
            ("ünder", Some("[ü]nder")),
        ] {
            let found = without_self_match(pattern);
            assert_eq!(found.as_deref(), form, "{pattern}");
            if let Some(found) = found {
                let command = format!("pkill -f '{found}'");
                assert_eq!(count_matches(&found, &command), 0, "{found}");
            }
        }
    }
}
