//! What the output of a command line is: what programs report of their work, or data that is only
//! read. In data, words like `error` say nothing about the command. Pure.

use super::command_line::CommandLine;
use super::options::is_option;
use super::syntax::{Simple, simple_commands};
use super::token::Separator;
use super::unquote::Unquoted;

/// What a command line prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Prints {
    /// What programs report.
    Reports,
    /// Files that are no sources by their names, such as logs.
    Text,
    /// What queries give, unless they fail.
    Answers,
    /// Sources, differences, matches, lists, tables.
    Data,
}

/// Programs that change only the shell, or print what the command line says.
const NEUTRAL: &[&str] = &[
    "cd", "pushd", "popd", "export", "set", "unset", "setopt", "unsetopt", "source", ".", "true",
    "false", ":", "echo", "printf", "print", "sleep", "test", "[", "[[", "local", "typeset",
    "declare", "shopt", "umask", "wait", "mkdir", "touch", "pwd", "exit", "clear", "trap",
];

/// Programs that print files, or parts of them.
const READERS: &[&str] = &[
    "cat", "zcat", "gzcat", "bzcat", "xzcat", "zstdcat", "lz4cat", "tac", "rev", "nl", "head",
    "tail", "less", "more", "bat", "batcat", "sed", "awk", "gawk", "mawk", "cut", "sort", "uniq",
    "column", "fold", "fmt", "tr", "strings", "expand", "pr", "paste", "join", "comm", "tee", "wc",
    "grep", "egrep", "fgrep", "zgrep", "rg", "ag", "ack", "ugrep",
];

/// … of which these print matches, with their places.
const SEARCHERS: &[&str] = &["grep", "egrep", "fgrep", "zgrep", "rg", "ag", "ack", "ugrep"];

/// … and these a part of what they read.
const CUTTERS: &[&str] = &["head", "tail", "sed", "awk", "gawk", "mawk", "cut", "uniq"];

/// Programs that print data of other kinds.
const DATA: &[&str] = &[
    "diff",
    "sdiff",
    "colordiff",
    "delta",
    "difft",
    "cmp",
    "jq",
    "yq",
    "xq",
    "xmllint",
    "find",
    "fd",
    "fdfind",
    "locate",
    "ls",
    "ll",
    "eza",
    "exa",
    "lsd",
    "tree",
    "du",
    "df",
    "ps",
    "top",
    "free",
    "lsof",
    "stat",
    "file",
    "env",
    "printenv",
    "xxd",
    "hexdump",
    "od",
    "base64",
    "man",
    "tldr",
    "history",
    "alias",
    "which",
    "type",
    "whence",
    "where",
    "seq",
    "yes",
    "date",
    "cal",
    "id",
    "uname",
    "hostname",
    "getent",
    "ast-grep",
    "sg",
    "tokei",
    "cloc",
    "scc",
    "git-grep",
];

/// Programs whose answers are data, unless they fail.
const QUERIES: &[&str] = &["sqlite3", "psql", "mysql", "curl", "wget"];

/// Options with which `find` runs programs.
const RUNS: &[&str] = &["-exec", "-execdir", "-ok", "-okdir"];

/// What git prints with these is data.
const GIT_DATA: &[&str] = &[
    "diff",
    "show",
    "log",
    "blame",
    "annotate",
    "grep",
    "ls-files",
    "ls-tree",
    "cat-file",
    "branch",
    "tag",
    "reflog",
    "shortlog",
    "stash",
    "status",
    "config",
    "remote",
    "rev-list",
    "format-patch",
    "range-diff",
];

/// How the names of files end that are sources or data.
const SOURCES: &[&str] = &[
    "rs",
    "py",
    "pyi",
    "ipynb",
    "js",
    "mjs",
    "cjs",
    "jsx",
    "ts",
    "mts",
    "cts",
    "tsx",
    "vue",
    "svelte",
    "astro",
    "c",
    "h",
    "cc",
    "cpp",
    "cxx",
    "hh",
    "hpp",
    "hxx",
    "m",
    "mm",
    "go",
    "java",
    "kt",
    "kts",
    "scala",
    "sc",
    "groovy",
    "gradle",
    "cs",
    "fs",
    "vb",
    "swift",
    "rb",
    "erb",
    "php",
    "pl",
    "pm",
    "t",
    "lua",
    "r",
    "jl",
    "ex",
    "exs",
    "erl",
    "hrl",
    "hs",
    "ml",
    "mli",
    "clj",
    "cljs",
    "el",
    "lisp",
    "scm",
    "nim",
    "zig",
    "d",
    "dart",
    "v",
    "sv",
    "vhd",
    "asm",
    "s",
    "sh",
    "bash",
    "zsh",
    "fish",
    "ps1",
    "bat",
    "cmd",
    "sql",
    "proto",
    "graphql",
    "gql",
    "html",
    "htm",
    "css",
    "scss",
    "sass",
    "less",
    "xml",
    "xsd",
    "xsl",
    "svg",
    "json",
    "jsonc",
    "json5",
    "jsonl",
    "ndjson",
    "yaml",
    "yml",
    "toml",
    "ini",
    "cfg",
    "conf",
    "env",
    "properties",
    "csv",
    "tsv",
    "md",
    "mdx",
    "rst",
    "adoc",
    "tex",
    "org",
    "diff",
    "patch",
    "tf",
    "tfvars",
    "hcl",
    "nix",
    "cmake",
    "mk",
    "lock",
    "po",
    "srt",
];

/// Names without such an end that are sources, too.
const SOURCE_NAMES: &[&str] = &[
    "Makefile",
    "makefile",
    "GNUmakefile",
    "Dockerfile",
    "Containerfile",
    "Jenkinsfile",
    "Rakefile",
    "Gemfile",
];

/// What a command line prints. Accepts any text; linear in its length.
pub(crate) fn prints(line: &CommandLine) -> Prints {
    let mut after_pipe = false;
    let mut found: Option<Prints> = None;
    for command in simple_commands(line) {
        let follows = std::mem::replace(&mut after_pipe, is_pipe(&command));
        match of_command(&command, follows) {
            Some(Prints::Reports) => return Prints::Reports,
            prints => found = found.max(prints),
        }
    }
    found.unwrap_or(Prints::Reports)
}

/// Whether only a part of the output is shown: the beginning, the end, or some lines.
pub(crate) fn cuts_output(line: &CommandLine) -> bool {
    let cuts = |command: &Simple| {
        command
            .program()
            .is_some_and(|program| CUTTERS.contains(&program) || SEARCHERS.contains(&program))
    };
    simple_commands(line).iter().any(cuts)
}

fn is_pipe(command: &Simple) -> bool {
    matches!(command.ended_by, Some(Separator::Pipe | Separator::PipeBoth))
}

/// `None` if it does not matter.
fn of_command(command: &Simple, follows_pipe: bool) -> Option<Prints> {
    if command.words.is_empty() {
        return None;
    }
    let Some(program) = command.program() else {
        return Some(Prints::Reports);
    };
    let words = command.core();
    let is_filter =
        READERS.contains(&program) || matches!(program, "jq" | "yq" | "diff" | "xxd" | "od");
    if NEUTRAL.contains(&program) || (follows_pipe && is_filter) {
        return None;
    }
    if program == "find" && words.iter().any(|word| RUNS.contains(&word.fixed_part())) {
        return Some(Prints::Reports);
    }
    if QUERIES.contains(&program) {
        return Some(Prints::Answers);
    }
    if SEARCHERS.contains(&program) || DATA.contains(&program) {
        return Some(Prints::Data);
    }
    if READERS.contains(&program) {
        let reads_source = words.get(1..).unwrap_or_default().iter().any(is_source);
        return Some(if reads_source { Prints::Data } else { Prints::Text });
    }
    let mut operands = words.iter().skip(1).filter(|word| !is_option(word));
    let is_git_data = program == "git"
        && operands.any(|word| word.fixed().is_some_and(|word| GIT_DATA.contains(&word)));
    Some(if is_git_data { Prints::Data } else { Prints::Reports })
}

fn is_source(word: &Unquoted) -> bool {
    let name = word.text.rsplit('/').next().unwrap_or_default();
    let ending = name.rsplit_once('.').map(|(_, ending)| ending.to_ascii_lowercase());
    SOURCE_NAMES.contains(&name) || ending.is_some_and(|ending| SOURCES.contains(&&*ending))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_runs_reports_and_what_reads_does_not() {
        for (line, expected) in [
            ("cargo test", Prints::Reports),
            ("cd x && make 2>&1 | tail -50", Prints::Reports),
            ("pytest | grep -v ok | head", Prints::Reports),
            ("./run", Prints::Reports),
            ("$CMD", Prints::Reports),
            ("echo a; printf b", Prints::Reports),
            ("git push", Prints::Reports),
            ("cat log", Prints::Text),
            ("cd x; tail -n 500 build.log", Prints::Text),
            ("zcat a.log.gz | sed -n 1,20p", Prints::Text),
            ("cat files | xargs make", Prints::Reports),
            ("cat src/a.rs", Prints::Data),
            ("sed -n 1,2000p 'my file.py'", Prints::Data),
            ("cat Makefile", Prints::Data),
            ("grep -rn error .", Prints::Data),
            ("cat log | grep error", Prints::Text),
            ("rg -n 'fn main' | head", Prints::Data),
            ("git diff HEAD~1", Prints::Data),
            ("git -C x log -p", Prints::Data),
            ("sudo ls -la", Prints::Data),
            ("diff a b", Prints::Data),
            ("find . -name '*.c' -exec gcc -c {} \\;", Prints::Reports),
            ("psql -f m.sql", Prints::Answers),
            ("cat a.rs; false", Prints::Data),
            ("", Prints::Reports),
        ] {
            assert_eq!(prints(&CommandLine::parse(line)), expected, "{line}");
        }
    }
}
