//! Which refusals of a sandbox a command's output speaks of. Pure.
//!
//! Programs name the path and the error in one line. Whether it was the sandbox is for the caller to
//! find out: files may refuse anyway.

use std::path::{Path, PathBuf};

/// The texts of the errors with which a path is refused, in lower case.
const REFUSED: [&str; 6] = [
    "permission denied",
    "operation not permitted",
    READ_ONLY,
    "eacces",
    "device or resource busy",
    "unable to open database",
];

const READ_ONLY: &str = "read-only file system";

/// Errors of a write that name no path.
const UNNAMED: [&str; 2] =
    ["unable to open database file", "failure writing output to destination"];

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

/// Words of an error of a program that got no socket. Other programs say them where nothing answers, so
/// they count only if the network is closed.
const CLOSED: [&str; 3] = ["couldn't connect to server", "connect eperm", "socket creation failed"];

/// What programs of OpenSSH say without its agent.
const AGENT: [&str; 2] =
    ["error connecting to agent", "could not open a connection to your authentication agent"];

/// Words near an error that names nothing, if it is about a socket.
const SOCKETS: [&str; 4] = ["socket", "connect", "urlopen", "inet"];

/// How many lines at the end of the output are read.
const LINES: usize = 60;

/// Pairs of quotes around paths.
const QUOTES: [(char, char); 4] = [('\'', '\''), ('"', '"'), ('‘', '’'), ('`', '`')];

/// Where a command ran.
pub(crate) struct Scene<'a> {
    pub(crate) command: &'a str,
    /// The end of its output.
    pub(crate) tail: &'a str,
    /// Where it started, and where it ended.
    pub(crate) directories: Vec<&'a Path>,
    pub(crate) home: Option<&'a Path>,
}

impl Scene<'_> {
    /// The paths that the output calls refused, the last first, as absolute paths.
    pub(crate) fn refused_paths(&self) -> Vec<PathBuf> {
        self.absolute(self.lines().filter(|line| says_one_of(line, &REFUSED)).flat_map(words))
    }

    /// The paths that it calls missing, as those are that something else is mounted over.
    pub(crate) fn missing_paths(&self) -> Vec<PathBuf> {
        self.absolute(self.lines().filter(|line| says_one_of(line, &MISSING)).flat_map(words))
    }

    /// The paths of sockets to which it could not connect.
    pub(crate) fn socket_paths(&self) -> Vec<PathBuf> {
        let lines = self.lines().filter(|line| says_one_of(line, &["connect"]));
        let words = lines.flat_map(words).map(|word| {
            let word = word.trim_end_matches('.');
            let word = word.strip_prefix("unix:").unwrap_or(word);
            word.strip_prefix("//").unwrap_or(word)
        });
        self.absolute(words)
    }

    /// Whether it says that the agent which holds keys for ssh could not be reached.
    pub(crate) fn misses_agent(&self) -> bool {
        self.lines().any(|line| says_one_of(line, &AGENT))
    }

    /// The paths in the command, if the output says that a write has failed, and not where.
    pub(crate) fn guessed_paths(&self) -> Vec<PathBuf> {
        let names_one = |line: &str| words(line).iter().any(|word| word.starts_with(['/', '~']));
        let is_unnamed = |line: &str| {
            says_one_of(line, &UNNAMED) || says_one_of(line, &[READ_ONLY]) && !names_one(line)
        };
        if !self.lines().any(is_unnamed) {
            return Vec::new();
        }
        let is_edge = |c: char| c.is_whitespace() || "'\"`;|&<>()=,".contains(c);
        let words = self.command.split(is_edge);
        self.absolute(words.filter(|word| word.starts_with(['/', '~', '$'])))
    }

    /// Whether it says that the network cannot be reached. `is_closed`: no program gets a socket.
    pub(crate) fn misses_network(&self, is_closed: bool) -> bool {
        let is_unnamed = |line: &str| {
            says_one_of(line, &["operation not permitted"])
                && !words(line).iter().any(|word| word.starts_with('/'))
        };
        let got_no_socket = || {
            // A socket of the file system needs no network.
            !says_one_of(self.command, &["unix"])
                && (self.lines().any(|line| says_one_of(line, &CLOSED))
                    || self.lines().any(is_unnamed)
                        && self.lines().any(|line| says_one_of(line, &SOCKETS)))
        };
        self.lines().any(|line| says_one_of(line, &NETWORK)) || is_closed && got_no_socket()
    }

    /// Whether it says that a process could not be signalled.
    pub(crate) fn misses_process(&self) -> bool {
        let refused = ["operation not permitted"];
        self.lines().any(|line| line.contains("kill") && says_one_of(line, &refused))
    }

    /// Whether it says that nothing could be mounted, or that a namespace could not be made.
    pub(crate) fn misses_namespace(&self) -> bool {
        let is_about = |line: &str| {
            ["mount:", "umount:", "unshare:"].iter().any(|program| line.starts_with(program))
        };
        self.lines().any(|line| is_about(line) && says_one_of(line, &REFUSED))
    }

    fn lines(&self) -> impl Iterator<Item = &str> {
        self.tail.lines().rev().take(LINES)
    }

    /// The words as paths, each once.
    fn absolute<'a>(&self, words: impl Iterator<Item = &'a str>) -> Vec<PathBuf> {
        let mut found: Vec<PathBuf> = Vec::new();
        for word in words {
            let below_home = ["~", "$HOME", "${HOME}"].iter().find_map(|name| {
                let rest = word.strip_prefix(name)?;
                (rest.is_empty() || rest.starts_with('/')).then(|| rest.trim_start_matches('/'))
            });
            let paths = match (below_home, self.home) {
                (Some(rest), Some(home)) => vec![home.join(rest)],
                _ => self.directories.iter().map(|directory| directory.join(word)).collect(),
            };
            for path in paths {
                if !found.contains(&path) {
                    found.push(path);
                }
            }
        }
        found
    }
}

fn says_one_of(line: &str, texts: &[&str]) -> bool {
    let line = line.to_lowercase();
    texts.iter().any(|text| line.contains(text))
}

/// The parts of a line that may be paths: what is in quotes, and words with a slash or at an end. The
/// last come first, since a line may begin with the path of the program that prints it.
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
    let plain: Vec<&str> = plain.filter(|word| word.contains('/')).collect();
    found.extend(plain.into_iter().rev());
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

    fn scene<'a>(command: &'a str, tail: &'a str) -> Scene<'a> {
        let home = Path::new("/home/me");
        Scene { command, tail, directories: vec![home], home: Some(home) }
    }

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
            "Error: unable to open database \"/home/me/.npmrc\": unable to open database file",
        ] {
            let tail = format!("before\n{line}\nafter\n");
            let found = scene("", &tail).refused_paths();
            assert!(found.contains(&"/home/me/.npmrc".into()), "{line}: {found:?}");
        }
        let linker = "/usr/bin/ld: cannot open output file /home/me/a: Read-only file system";
        assert_eq!(scene("", linker).refused_paths().first(), Some(&"/home/me/a".into()));
        let moved = Scene {
            directories: vec![Path::new("/project"), Path::new("/data")],
            ..scene("cd /data && touch a", "touch: cannot touch 'a': Read-only file system")
        };
        assert!(moved.refused_paths().contains(&"/data/a".into()));
    }

    #[test]
    fn a_write_that_names_no_path_was_to_one_of_the_command() {
        for (command, tail) in [
            ("curl -o ~/a file:///b", "curl: (23) Failure writing output to destination"),
            ("tar xf b.tar -C \"$HOME/a\"", "tar: b: Cannot open: Read-only file system"),
            ("dd of=${HOME}/a", "sqlite3.OperationalError: unable to open database file"),
        ] {
            let found = scene(command, tail).guessed_paths();
            assert!(found.contains(&"/home/me/a".into()), "{command}: {found:?}");
        }
        let named = "cp: cannot create regular file '/mnt/b': Read-only file system";
        for tail in [named, "b: Permission denied", "failed"] {
            let found = scene("cp ~/a /mnt/b", tail).guessed_paths();
            assert_eq!(found, [""; 0].map(PathBuf::from), "{tail}");
        }
    }

    #[test]
    fn a_socket_is_found_where_it_could_not_be_connected_to() {
        for line in [
            "Cannot connect to the Docker daemon at unix:///run/a.sock. Is the docker daemon running?",
            "error connecting to /run/a.sock (No such file or directory)",
            "Error: connect ECONNREFUSED /run/a.sock",
            "dial unix /run/a.sock: connect: connection refused",
        ] {
            let found = scene("", line).socket_paths();
            assert!(found.contains(&"/run/a.sock".into()), "{line}: {found:?}");
        }
    }

    #[test]
    fn other_lines_name_nothing() {
        for line in ["cat: /no/such: No such file or directory", "make: *** [all] Error 1", ""] {
            let scene = scene("", line);
            assert_eq!(scene.refused_paths(), [""; 0].map(PathBuf::from));
            assert!(!scene.misses_network(true) && !scene.misses_process(), "{line}");
            assert!(!scene.misses_namespace(), "{line}");
        }
        assert!(
            scene("", "zsh:kill:1: kill 4711 failed: operation not permitted").misses_process()
        );
        assert!(scene("", "unshare: unshare failed: Operation not permitted").misses_namespace());
    }

    #[test]
    fn a_closed_network_is_told_from_other_refusals() {
        let python = "  File \"/usr/lib/python3/socket.py\", line 233, in __init__\n\
                      PermissionError: [Errno 1] Operation not permitted";
        for (tail, when_closed, otherwise) in [
            ("curl: (6) Could not resolve host: example.org", true, true),
            ("curl: (7) Failed to connect to 1.1.1.1: Couldn't connect to server", true, false),
            ("Error: connect EPERM 1.1.1.1:80 - Local (undefined:undefined)", true, false),
            (python, true, false),
            (
                "urllib.error.URLError: <urlopen error [Errno 1] Operation not permitted>",
                true,
                false,
            ),
            ("chown: changing ownership of 'a': Operation not permitted", false, false),
        ] {
            let scene = scene("", tail);
            assert_eq!(scene.misses_network(true), when_closed, "{tail}");
            assert_eq!(scene.misses_network(false), otherwise, "{tail}");
        }
        let local = "curl: (7) Failed to connect to x: Couldn't connect to server";
        assert!(!scene("curl --unix-socket /run/a http://x/", local).misses_network(true));
    }
}
