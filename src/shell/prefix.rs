//! Commands that run the command behind them: `sudo -u bob make`, `timeout 5 make`.

use super::options::{Values, count_options};
use super::scan::assignment_value;
use super::unquote::Unquoted;

/// A command in front of another.
#[derive(Debug, Clone, Copy)]
pub(super) struct Prefix {
    /// Its name, and the subcommand by which it runs another.
    name: &'static str,
    subcommand: Option<&'static str>,
    /// Its own options that take a value.
    values: Values,
    /// With one of these letters it runs nothing.
    unless: &'static str,
    /// How many words it takes in front of the command.
    operands: usize,
    /// Whether it takes `NAME=value` in front of the command.
    assigns: bool,
    /// Whether it changes what the run is like (a limit, many runs), so that a template
    /// keeps it.
    pub is_kept: bool,
}

const fn silent(
    name: &'static str,
    letters: &'static str,
    long: &'static [&'static str],
) -> Prefix {
    Prefix {
        name,
        subcommand: None,
        values: Values { letters, long },
        unless: "",
        operands: 0,
        assigns: false,
        is_kept: false,
    }
}

const fn kept(name: &'static str, letters: &'static str, long: &'static [&'static str]) -> Prefix {
    Prefix {
        is_kept: true,
        ..silent(name, letters, long)
    }
}

const fn runner(
    name: &'static str,
    subcommand: &'static str,
    long: &'static [&'static str],
) -> Prefix {
    Prefix {
        subcommand: Some(subcommand),
        ..kept(name, "p", long)
    }
}

/// All that are known.
const PREFIXES: &[Prefix] = &[
    Prefix {
        unless: "elVK",
        assigns: true,
        ..silent(
            "sudo",
            "ugpCRDrtThU",
            &[
                "--user",
                "--group",
                "--prompt",
                "--close-from",
                "--chroot",
                "--chdir",
                "--role",
                "--type",
                "--command-timeout",
                "--host",
                "--other-user",
            ],
        )
    },
    silent("doas", "uC", &[]),
    Prefix {
        assigns: true,
        ..silent("env", "uCS", &["--unset", "--chdir", "--split-string"])
    },
    silent("time", "of", &["--output", "--format"]),
    silent("nice", "n", &["--adjustment"]),
    Prefix {
        unless: "vV",
        ..silent("command", "", &[])
    },
    silent("nohup", "", &[]),
    silent("exec", "a", &[]),
    silent("builtin", "", &[]),
    silent("noglob", "", &[]),
    silent("-", "", &[]),
    Prefix {
        operands: 1,
        ..kept("timeout", "ks", &["--kill-after", "--signal"])
    },
    Prefix {
        operands: 1,
        ..kept("flock", "wE", &["--timeout", "--conflict-exit-code"])
    },
    Prefix {
        unless: "p",
        operands: 1,
        ..kept("taskset", "", &[])
    },
    kept("stdbuf", "ioe", &["--input", "--output", "--error"]),
    kept("setsid", "", &[]),
    kept("ionice", "cnp", &["--class", "--classdata"]),
    kept("unbuffer", "", &[]),
    kept("caffeinate", "tw", &[]),
    kept("sshpass", "pfdP", &[]),
    kept("strace", "oeEpsSaubIOPUX", &["--output", "--trace"]),
    kept(
        "xargs",
        "IinPdLsaE",
        &[
            "--max-args",
            "--max-procs",
            "--delimiter",
            "--replace",
            "--arg-file",
            "--max-lines",
        ],
    ),
    kept("npx", "p", &["--package"]),
    kept("bunx", "p", &["--package"]),
    kept("uvx", "p", &["--from", "--with", "--python"]),
    runner(
        "uv",
        "run",
        &[
            "--with",
            "--python",
            "--extra",
            "--group",
            "--directory",
            "--project",
            "--env-file",
            "--package",
        ],
    ),
    runner("poetry", "run", &["--directory", "--project"]),
    runner("pipenv", "run", &[]),
    runner("pdm", "run", &[]),
    runner("rye", "run", &[]),
    runner("pipx", "run", &["--spec", "--python"]),
    runner("bundle", "exec", &["--gemfile"]),
    runner("npm", "exec", &["--package", "--workspace"]),
    runner("pnpm", "exec", &["--filter"]),
    runner("pnpm", "dlx", &["--package"]),
    runner("yarn", "dlx", &["--package"]),
];

/// The words of a command, parted.
#[derive(Debug, Clone, Copy)]
pub(super) struct Parted<'a> {
    /// The prefix.
    pub prefix: Prefix,
    /// Its own words, its name among them.
    pub own: &'a [Unquoted],
    /// The command that it runs, never empty.
    pub command: &'a [Unquoted],
}

/// Parts the first prefix from the command that it runs; none where there is no prefix,
/// or where it runs nothing (`sudo -l`, `command -v git`).
pub(super) fn part(words: &[Unquoted]) -> Option<Parted<'_>> {
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
    Some(Parted {
        prefix: *prefix,
        own: words.get(..own)?,
        command,
    })
}

/// The command itself, behind all its prefixes.
pub(super) fn innermost(words: &[Unquoted]) -> &[Unquoted] {
    let mut words = words;
    while let Some(parted) = part(words) {
        words = parted.command;
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
    fn prefixes_with_their_options_are_passed_over() {
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
            let found: Vec<&str> = innermost(&words)
                .iter()
                .map(|word| word.text.as_str())
                .collect();
            assert_eq!(found.join(" "), command, "{line}");
        }
    }
}
