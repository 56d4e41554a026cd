//! Commands that run another command: `sudo -u bob make`, `timeout 5 make`. Pure.

use super::options::{Values, count_options, values};
use super::scan::assignment_value;
use super::unquote::Unquoted;

#[derive(Debug, Clone, Copy)]
pub(super) struct Prefix {
    /// Its name, with the subcommand that runs another command, if any.
    name: &'static str,
    subcommand: Option<&'static str>,
    values: Values,
    /// Options with which it runs nothing.
    unless: &'static str,
    /// How many operands it takes before the command.
    operands: usize,
    /// Whether it takes `NAME=value` before the command.
    assigns: bool,
    /// Whether templates keep it, because it changes the run (a limit, many runs).
    pub(crate) is_kept: bool,
}

/// A prefix that templates omit. `options` are its options that take a value.
const fn silent(name: &'static str, options: Values) -> Prefix {
    Prefix {
        name,
        subcommand: None,
        values: options,
        unless: "",
        operands: 0,
        assigns: false,
        is_kept: false,
    }
}

const fn kept(name: &'static str, options: Values) -> Prefix {
    Prefix { is_kept: true, ..silent(name, options) }
}

/// A subcommand that runs another command, like `uv run`. `long` are its long options that take a
/// value.
const fn runner(name: &'static str, subcommand: &'static str, long: &'static str) -> Prefix {
    Prefix { subcommand: Some(subcommand), ..kept(name, values("p", long)) }
}

impl Prefix {
    const fn unless(self, letters: &'static str) -> Prefix {
        Prefix { unless: letters, ..self }
    }

    const fn assigning(self) -> Prefix {
        Prefix { assigns: true, ..self }
    }

    const fn with_operand(self) -> Prefix {
        Prefix { operands: 1, ..self }
    }
}

const PREFIXES: &[Prefix] = &[
    silent("sudo", SUDO).unless("elVK").assigning(),
    silent("doas", values("uC", "")),
    silent("env", values("uCS", "--unset --chdir --split-string")).assigning(),
    silent("time", values("of", "--output --format")),
    silent("nice", values("n", "--adjustment")),
    silent("command", values("", "")).unless("vV"),
    silent("nohup", values("", "")),
    silent("exec", values("a", "")),
    silent("builtin", values("", "")),
    silent("noglob", values("", "")),
    silent("-", values("", "")),
    kept("timeout", values("ks", "--kill-after --signal")).with_operand(),
    kept("flock", values("wE", "--timeout --conflict-exit-code")).with_operand(),
    kept("taskset", values("", "")).unless("p").with_operand(),
    kept("stdbuf", values("ioe", "--input --output --error")),
    kept("setsid", values("", "")),
    kept("ionice", values("cnp", "--class --classdata")),
    kept("unbuffer", values("", "")),
    kept("caffeinate", values("tw", "")),
    kept("sshpass", values("pfdP", "")),
    kept("strace", values("oeEpsSaubIOPUX", "--output --trace")),
    kept("xargs", XARGS),
    kept("npx", values("p", "--package")),
    kept("bunx", values("p", "--package")),
    kept("uvx", values("p", "--from --with --python")),
    runner("uv", "run", UV_RUN),
    runner("poetry", "run", "--directory --project"),
    runner("pipenv", "run", ""),
    runner("pdm", "run", ""),
    runner("rye", "run", ""),
    runner("pipx", "run", "--spec --python"),
    runner("bundle", "exec", "--gemfile"),
    runner("npm", "exec", "--package --workspace"),
    runner("pnpm", "exec", "--filter"),
    runner("pnpm", "dlx", "--package"),
    runner("yarn", "dlx", "--package"),
];

const SUDO: Values = values(
    "ugpCRDrtThU",
    "--user --group --prompt --close-from --chroot --chdir --role --type --command-timeout \
     --host --other-user",
);
const XARGS: Values =
    values("IinPdLsaE", "--max-args --max-procs --delimiter --replace --arg-file --max-lines");
const UV_RUN: &str = "--with --python --extra --group --directory --project --env-file --package";

/// The words of a command, split into a prefix and the command that it runs.
#[derive(Debug, Clone, Copy)]
pub(super) struct PrefixSplit<'a> {
    pub(crate) prefix: Prefix,
    /// The prefix's own words, including its name.
    pub(crate) own: &'a [Unquoted],
    /// Never empty.
    pub(crate) command: &'a [Unquoted],
}

/// Splits off the first prefix. `None` if there is no prefix, or if it runs no command (`sudo -l`,
/// `command -v git`).
pub(super) fn split_prefix(words: &[Unquoted]) -> Option<PrefixSplit<'_>> {
    let name = base_name(words.first()?.fixed()?);
    let subcommand = words.get(1).and_then(Unquoted::fixed);
    let prefix = PREFIXES
        .iter()
        .filter(|prefix| prefix.name == name)
        .find(|prefix| prefix.subcommand.is_none() || prefix.subcommand == subcommand)?;
    let mut own = 1 + usize::from(prefix.subcommand.is_some());
    let options = count_options(words.get(own..)?, prefix.values);
    let is_query = words.get(own..own + options)?.iter().any(|option| {
        let letters = prefix.values.letters_of(option.fixed_part());
        letters.contains(|letter| prefix.unless.contains(letter))
    });
    if is_query {
        return None;
    }
    own += options;
    while prefix.assigns && words.get(own).is_some_and(is_assignment) {
        own += 1;
    }
    own += prefix.operands;
    let command = words.get(own..).filter(|command| !command.is_empty())?;
    Some(PrefixSplit { prefix: *prefix, own: words.get(..own)?, command })
}

/// Whether a program with this name can be a prefix.
pub(super) fn is_prefix(name: &str) -> bool {
    PREFIXES.iter().any(|prefix| prefix.name == name && prefix.subcommand.is_none())
}

/// The command itself, without its prefixes.
pub(super) fn innermost(words: &[Unquoted]) -> &[Unquoted] {
    let mut words = words;
    while let Some(split) = split_prefix(words) {
        words = split.command;
    }
    words
}

/// The program's name without its directory.
pub(super) fn base_name(path: &str) -> &str {
    match path.rsplit_once('/') {
        Some((_, name)) if !name.is_empty() => name,
        _ => path,
    }
}

fn is_assignment(word: &Unquoted) -> bool {
    assignment_value(&word.text)
        .is_some_and(|value| word.expands_at.is_none_or(|expands_at| expands_at >= value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shell::unquote::unquote;

    #[test]
    fn prefixes_with_their_options_are_skipped() {
        for (line, command) in [
            ("sudo -u bob x y", "x y"),
            ("sudo -Hu bob A=1 x", "x"),
            ("sudo -l", "sudo -l"),
            ("sudo -e f", "sudo -e f"),
            ("sudo -u eve x", "x"),
            ("sudo -ueve x", "x"),
            ("env -i A=1 B=2 make all", "make all"),
            ("env", "env"),
            ("command -v git", "command -v git"),
            ("command git log", "git log"),
            ("nice -n 5 nohup /usr/bin/time -v make", "make"),
            ("timeout -k 5 10s sudo ssh host", "ssh host"),
            ("exec -a name prog", "prog"),
            ("uv run --with x pytest -q", "pytest -q"),
            ("uv pip install x", "uv pip install x"),
            ("sudo --user=bob -- x", "x"),
            ("- ls", "ls"),
            ("timeout 5", "timeout 5"),
        ] {
            let words: Vec<Unquoted> = line.split(' ').map(unquote).collect();
            let found: Vec<&str> =
                innermost(&words).iter().map(|word| word.text.as_str()).collect();
            assert_eq!(found.join(" "), command, "{line}");
        }
    }
}
