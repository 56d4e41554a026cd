//! Which refusals of a sandbox a command's output speaks of. Pure.
//!
//! Programs name the path and the error in one line. Whether it was the sandbox is for the caller to
//! find out: files may refuse anyway.

use std::path::{Path, PathBuf};

/// The texts of the errors with which a path is refused, in lower case.
const REFUSED: [&str; 5] = [
    "permission denied",
    "operation not permitted",
    "read-only file system",
    "eacces",
    "device or resource busy",
];

/// … and with which a missing one is.
const MISSING: [&str; 2] = ["no such file", "enoent"];

/// Words of an error that is about the network. A closed network lets no program resolve names.
const NETWORK: [&str; 7] = [
    "could not resolve host",
    "couldn't resolve host",
    "name resolution",
    "name or service not known",
    "network is unreachable",
    "getaddrinfo",
    "socket: operation not permitted",
];

/// How many lines at the end of the output are read.
const LINES: usize = 60;

/// Pairs of quotes around paths.
const QUOTES: [(char, char); 4] = [('\'', '\''), ('"', '"'), ('‘', '’'), ('`', '`')];

/// The paths that the end of an output calls refused, the last first, as absolute paths.
pub(crate) fn refused_paths(tail: &str, directory: &Path, home: Option<&Path>) -> Vec<PathBuf> {
    paths(tail, &REFUSED, directory, home)
}

/// The paths that it calls missing, as those are that something else is mounted over.
pub(crate) fn missing_paths(tail: &str, directory: &Path, home: Option<&Path>) -> Vec<PathBuf> {
    paths(tail, &MISSING, directory, home)
}

/// The paths in lines that say one of these texts.
fn paths(tail: &str, texts: &[&str], directory: &Path, home: Option<&Path>) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = Vec::new();
    let lines = tail.lines().rev().take(LINES);
    let saying = lines.filter(|line| says_one_of(line, texts));
    for word in saying.flat_map(words) {
        let path = match (word.strip_prefix("~/"), home) {
            (Some(rest), Some(home)) => home.join(rest),
            _ => directory.join(word),
        };
        if !found.contains(&path) {
            found.push(path);
        }
    }
    found
}

/// Whether the end of an output says that the network cannot be reached.
pub(crate) fn misses_network(tail: &str) -> bool {
    tail.lines().rev().take(LINES).any(|line| says_one_of(line, &NETWORK))
}

/// Whether the end of an output says that a process could not be signalled.
pub(crate) fn misses_process(tail: &str) -> bool {
    let mut lines = tail.lines().rev().take(LINES);
    lines.any(|line| line.contains("kill") && says_one_of(line, &["operation not permitted"]))
}

fn says_one_of(line: &str, texts: &[&str]) -> bool {
    let line = line.to_lowercase();
    texts.iter().any(|text| line.contains(text))
}

/// The parts of a line that may be paths: what is in quotes, and words with a slash or at an end.
fn words(line: &str) -> Vec<&str> {
    let mut found = Vec::new();
    for (opening, closing) in QUOTES {
        let mut rest = line;
        while let Some((_, from)) = rest.split_once(opening) {
            let Some((inside, after)) = from.split_once(closing) else { break };
            found.push(inside);
            rest = after;
        }
    }
    let is_edge = |c: char| matches!(c, ':' | ',' | '\'' | '"' | '‘' | '’' | '`' | '(' | ')');
    let plain = line.split_whitespace().map(|word| word.trim_matches(is_edge));
    found.extend(plain.filter(|word| word.contains('/')));
    // `zsh:1: permission denied: name`, and `name: Permission denied` of other shells.
    let last = line.rsplit(": ").next().filter(|last| !says_one_of(last, &REFUSED));
    found.extend(last.map(str::trim));
    let mut before = line.rsplit(": ").skip(1);
    found.extend(before.next().map(str::trim));
    found.retain(|word| !word.is_empty() && !word.contains('\0'));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_is_found_in_what_common_programs_print() {
        for line in [
            "zsh:1: permission denied: /home/me/.npmrc",
            "touch: cannot touch '/home/me/.npmrc': Read-only file system",
            "mkdir: cannot create directory ‘/home/me/.npmrc’: Permission denied",
            "PermissionError: [Errno 13] Permission denied: '/home/me/.npmrc'",
            "Error: EACCES: permission denied, open '/home/me/.npmrc'",
            "open /home/me/.npmrc: permission denied",
            "sh: 1: cannot create /home/me/.npmrc: Permission denied",
            "bash: line 1: ~/.npmrc: Permission denied",
            "cat: .npmrc: Operation not permitted",
        ] {
            let home = Path::new("/home/me");
            let found = refused_paths(&format!("before\n{line}\nafter\n"), home, Some(home));
            assert!(found.contains(&home.join(".npmrc")), "{line}: {found:?}");
        }
    }

    #[test]
    fn other_lines_name_nothing() {
        for line in ["cat: /no/such: No such file or directory", "make: *** [all] Error 1", ""] {
            assert_eq!(refused_paths(line, Path::new("/"), None), [""; 0].map(PathBuf::from));
            assert!(!misses_network(line) && !misses_process(line));
        }
        assert!(misses_network("curl: (6) Could not resolve host: example.org"));
        assert!(misses_process("zsh:kill:1: kill 4711 failed: operation not permitted"));
    }
}
