//! Which refusals of a sandbox a command's output speaks of. Pure.
//!
//! Programs name the path and the error in one line. Whether it was the sandbox is for the caller to
//! find out: files may refuse anyway.

use std::path::{Path, PathBuf};

/// What an error says of the paths in its line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The file system is read-only: a write was tried.
    ReadOnly,
    /// Something is mounted there.
    Busy,
    /// The two paths are on different mounts.
    CrossDevice,
    Denied,
    NotPermitted,
    Missing,
    /// A database could not be opened, for reading or for writing.
    Unopened,
}

/// The texts of errors in lower case. The first that is in a line counts.
const ERRORS: [(&str, Kind); 13] = [
    (READ_ONLY, Kind::ReadOnly),
    ("erofs", Kind::ReadOnly),
    ("device or resource busy", Kind::Busy),
    ("ebusy", Kind::Busy),
    ("cross-device link", Kind::CrossDevice),
    ("exdev", Kind::CrossDevice),
    ("unable to open database", Kind::Unopened),
    ("permission denied", Kind::Denied),
    ("eacces", Kind::Denied),
    (NOT_PERMITTED, Kind::NotPermitted),
    ("eperm", Kind::NotPermitted),
    ("no such file", Kind::Missing),
    ("enoent", Kind::Missing),
];

const READ_ONLY: &str = "read-only file system";
const NOT_PERMITTED: &str = "operation not permitted";

/// What was tried with a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    /// To make it, or to write to it.
    Content,
    /// To remove it or give it another name.
    Entry,
    /// To change its mode, owner or times.
    Attributes,
}

/// Words of programs, in lower case, that say so. The first that is in a line counts.
const CHANGES: [(&str, Change); 38] = [
    ("cannot remove", Change::Entry),
    ("failed to remove", Change::Entry),
    ("cannot move", Change::Entry),
    ("cannot delete", Change::Entry),
    ("cannot rename", Change::Entry),
    ("rename", Change::Entry),
    ("unlink", Change::Entry),
    ("rmdir", Change::Entry),
    ("cannot touch", Change::Content),
    ("changing", Change::Attributes),
    ("permissions", Change::Attributes),
    ("change mode", Change::Attributes),
    ("setting", Change::Attributes),
    ("utime", Change::Attributes),
    ("create", Change::Content),
    ("cannot make", Change::Content),
    ("failed to make", Change::Content),
    ("mkdir", Change::Content),
    ("mkstemp", Change::Content),
    ("overwrite", Change::Content),
    ("cannot open output", Change::Content),
    ("for writing", Change::Content),
    ("cannot write", Change::Content),
    ("could not write", Change::Content),
    ("unable to write", Change::Content),
    ("failed to write", Change::Content),
    ("error writing", Change::Content),
    ("could not lock", Change::Entry),
    ("symlink", Change::Content),
    ("failed to link", Change::Content),
    ("tee:", Change::Content),
    ("touch:", Change::Content),
    ("truncate:", Change::Content),
    ("chmod:", Change::Attributes),
    ("chown:", Change::Attributes),
    ("ln:", Change::Content),
    ("rm:", Change::Entry),
    ("mv:", Change::Entry),
];

/// Errors of a write that name no path.
const UNNAMED: [&str; 2] =
    ["unable to open database file", "failure writing output to destination"];

/// Words of an error that is about the network. A closed network lets no program resolve names.
const NETWORK: [&str; 8] = [
    "could not resolve host",
    "couldn't resolve host",
    "name resolution",
    "name or service not known",
    "network is unreachable",
    "getaddrinfo e",
    "getaddrinfo failed",
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

/// An error line of the output.
#[derive(Debug)]
pub(crate) struct Told<'a> {
    pub(crate) line: &'a str,
    pub(crate) kind: Kind,
    /// What was tried, if it says so.
    pub(crate) change: Option<Change>,
    /// What may be the paths of which it speaks, as absolute ones.
    pub(crate) paths: Vec<PathBuf>,
}

impl Scene<'_> {
    /// The lines that tell of an error with files, the last first.
    pub(crate) fn told(&self) -> Vec<Told<'_>> {
        let lines = self.lines().filter(|line| !is_about_namespaces(line));
        let errors = lines.filter_map(|line| Some((line, kind_of(line)?)));
        let told = errors.map(|(line, kind)| {
            let paths = self.absolute(words(line).into_iter());
            Told { line, kind, change: change_in(line), paths }
        });
        told.collect()
    }

    /// The paths to which the command itself says that something is to be written.
    pub(crate) fn written_paths(&self) -> Vec<PathBuf> {
        let redirected = self.command.split('>').skip(1).filter_map(|after| {
            let after = after.trim_start_matches(['|', '!', '&', ' ', '\t']);
            after.split(is_edge).find(|word| !word.is_empty())
        });
        let output = self.command.split(is_edge).zip(self.command.split(is_edge).skip(1));
        let output = output.filter(|(key, _)| *key == "of").map(|(_, word)| word);
        self.absolute(redirected.chain(output))
    }

    /// The paths that the command itself runs as programs.
    pub(crate) fn run_paths(&self) -> Vec<PathBuf> {
        const BEFORE: [&str; 14] = [
            "!", "command", "do", "else", "env", "exec", "if", "nice", "nohup", "sudo", "then",
            "time", "while", "{",
        ];
        let commands = self.command.split([';', '&', '|', '\n', '`']);
        // A text that is a command of its own.
        let commands = commands.flat_map(|command| command.split(" -c "));
        let first = commands.filter_map(|command| {
            let mut words = command.split_whitespace().map(|word| {
                word.trim_start_matches(['(', '$']).trim_matches(['\'', '"', '(', ')'])
            });
            let is_assignment =
                |word: &str| word.split_once('=').is_some_and(|(name, _)| !name.contains('/'));
            words.find(|word| !word.is_empty() && !BEFORE.contains(word) && !is_assignment(word))
        });
        self.absolute(first.filter(|word| word.contains('/')))
    }

    /// All words of the command as paths.
    pub(crate) fn named_paths(&self) -> Vec<PathBuf> {
        const WORDS: usize = 100;
        self.absolute(self.command.split(is_edge).filter(|word| !word.is_empty()).take(WORDS))
    }

    /// Whether the command or this line of its output has a mode with set-user-ID or set-group-ID.
    pub(crate) fn sets_id(&self, line: &str) -> bool {
        const PROGRAMS: [&str; 3] = ["chmod", "install", "mkdir"];
        let is_mode = |word: &str| {
            let digits = word.strip_prefix("0").unwrap_or(word);
            let is_octal = digits.len() == 4
                && digits.starts_with(|first| ('2'..='7').contains(&first))
                && digits.bytes().all(|digit| (b'0'..=b'7').contains(&digit));
            let symbolic = |part: &str| {
                let (who, rights) = part.split_once(['+', '=']).unwrap_or_default();
                who.bytes().all(|who| b"ugoa".contains(&who))
                    && rights.contains('s')
                    && rights.bytes().all(|right| b"rwxXst".contains(&right))
            };
            is_octal || word.split(',').any(symbolic)
        };
        // As `rwxr-sr-x`.
        let is_shown = |word: &str| {
            word.len() == 9
                && word.contains(['s', 'S'])
                && word.bytes().all(|right| b"rwxsStT-".contains(&right))
        };
        let mut words = self.command.split(is_edge);
        words.any(|word| PROGRAMS.contains(&word)) && words.any(is_mode)
            || line.split([' ', ':']).any(is_shown)
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
        let words = self.command.split(is_edge);
        self.absolute(words.filter(|word| word.starts_with(['/', '~', '$'])))
    }

    /// Whether it says that the network cannot be reached. `is_closed`: no program gets a socket.
    pub(crate) fn misses_network(&self, is_closed: bool) -> bool {
        let is_unnamed = |line: &str| {
            says_one_of(line, &[NOT_PERMITTED])
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

    /// The numbers of processes that it says could not be signalled, of each such line. None if it is not
    /// said which.
    pub(crate) fn missed_processes(&self) -> Vec<Option<u32>> {
        fn number(words: &str) -> Option<u32> {
            let mut words = words.split(|c: char| c.is_whitespace() || "():,;|&'\"".contains(c));
            words.find_map(|word| word.parse().ok())
        }
        let lines = self.lines().filter(|line| says_one_of(line, &[NOT_PERMITTED]));
        let named = lines.filter_map(|line| Some((line, line.rsplit_once("kill")?.1)));
        let asked = || number(self.command.split_once("kill ")?.1);
        named.map(|(_, after)| number(after).or_else(asked)).collect()
    }

    /// Whether it says that a program gains no privileges.
    pub(crate) fn misses_privileges(&self) -> bool {
        self.lines().any(|line| says_one_of(line, &["no new privileges"]))
    }

    /// Whether it says that nothing could be mounted, or that a namespace could not be made.
    pub(crate) fn misses_namespace(&self) -> bool {
        let is_refused = |line: &str| {
            kind_of(line).is_some_and(|kind| !matches!(kind, Kind::Missing | Kind::CrossDevice))
        };
        self.lines().any(|line| is_about_namespaces(line) && is_refused(line))
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

/// What is around the words of a command.
fn is_edge(c: char) -> bool {
    c.is_whitespace() || "'\"`;|&<>()=,".contains(c)
}

fn kind_of(line: &str) -> Option<Kind> {
    let line = line.to_lowercase();
    ERRORS.iter().find(|(text, _)| line.contains(text)).map(|(_, kind)| *kind)
}

fn is_about_namespaces(line: &str) -> bool {
    ["mount:", "umount:", "unshare:"].iter().any(|program| line.starts_with(program))
}

/// What a line says was tried, by words that are not part of a name.
fn change_in(line: &str) -> Option<Change> {
    let mut line = line.to_lowercase().replace("can't", "cannot").replace("couldn't", "could not");
    for (opening, closing) in QUOTES {
        while let Some((before, from)) = line.split_once(opening) {
            let Some((_, after)) = from.split_once(closing) else { break };
            line = format!("{before} {after}");
        }
    }
    // As in `permission denied: name`.
    let named = line.rsplit_once(": ").filter(|(before, name)| {
        kind_of(before).is_some() && kind_of(name).is_none() && !name.contains(' ')
    });
    let line = named.map_or(line.as_str(), |(before, _)| before);
    let words: Vec<&str> = line.split_whitespace().filter(|word| !word.contains('/')).collect();
    let line = words.join(" ");
    let says = |text: &str| {
        if text.ends_with(':') { words.contains(&text) } else { line.contains(text) }
    };
    CHANGES.iter().find(|(text, _)| says(text)).map(|(_, change)| *change)
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
    let mut plain: Vec<&str> = plain.filter(|word| word.contains('/')).collect();
    // The path of the program that prints it.
    let program = line.split(": ").next().filter(|_| !found.is_empty() || plain.len() > 1);
    if program.is_some() && plain.first().copied() == program {
        plain.remove(0);
    }
    found.extend(plain.into_iter().rev());
    // `zsh:1: permission denied: name`, and `name: Permission denied` of other shells.
    let parts = line.rsplit(": ").map(str::trim).take(2);
    // As dash says it.
    let parts = parts.map(|part| part.strip_prefix("cannot create ").unwrap_or(part));
    let is_name = |part: &&str| {
        kind_of(part).is_none()
            && !part.contains(|c: char| c.is_whitespace() || "'\"‘`".contains(c))
    };
    found.extend(parts.filter(is_name));
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

    /// All paths that lines with these errors name.
    fn paths(scene: &Scene) -> Vec<PathBuf> {
        scene.told().into_iter().flat_map(|told| told.paths).collect()
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
            let found = paths(&scene("", &tail));
            assert!(found.contains(&"/home/me/.npmrc".into()), "{line}: {found:?}");
        }
        let linker = "/usr/bin/ld: cannot open output file /home/me/a: Read-only file system";
        assert_eq!(paths(&scene("", linker)), [PathBuf::from("/home/me/a")]);
        let moved = Scene {
            directories: vec![Path::new("/project"), Path::new("/data")],
            ..scene("cd /data && touch a", "touch: cannot touch 'a': Read-only file system")
        };
        assert!(paths(&moved).contains(&"/data/a".into()));
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
        for line in ["cat: /no/such: Is a directory", "make: *** [all] Error 1", ""] {
            let scene = scene("", line);
            assert!(scene.told().is_empty() && scene.missed_processes().is_empty(), "{line}");
            assert!(!scene.misses_network(true) && !scene.misses_namespace(), "{line}");
        }
        assert!(scene("", "mount: /mnt: permission denied.").told().is_empty());
        // The words of an error are no names.
        for line in [
            "zsh:1: permission denied: /home/me/a",
            "PermissionError: [Errno 13] Permission denied: '/home/me/a'",
            "tar: /home/me/a: Cannot open: Read-only file system",
            "mkdir: cannot create directory '/home/me/a': Permission denied",
        ] {
            let found = paths(&scene("", line));
            assert!(found.iter().all(|path| path == "/home/me/a"), "{line}: {found:?}");
        }
        assert!(scene("", "unshare: unshare failed: Operation not permitted").misses_namespace());
    }

    #[test]
    fn the_process_that_was_not_signalled_is_named_by_the_line_or_the_command() {
        for (command, line, expected) in [
            ("", "zsh:kill:1: kill 4711 failed: operation not permitted", Some(4711)),
            ("", "bash: line 1: kill: (4711) - Operation not permitted", Some(4711)),
            ("", "kill: sending signal to 4711 failed: Operation not permitted", Some(4711)),
            ("", "pkill: killing pid 4711 failed: Operation not permitted", Some(4711)),
            ("kill -9 4711", "sh: 1: kill: Operation not permitted", Some(4711)),
            ("sh -c 'kill 4711'", "sh: 1: kill: Operation not permitted", Some(4711)),
            ("kill $A", "sh: 1: kill: Operation not permitted", None),
        ] {
            assert_eq!(scene(command, line).missed_processes(), [expected], "{line}");
        }
    }

    #[test]
    fn what_was_tried_is_told_by_the_line_or_the_command() {
        for (line, kind, change) in [
            ("rm: cannot remove '/a': Read-only file system", Kind::ReadOnly, Some(Change::Entry)),
            (
                "mv: cannot move 'a' to 'b': Device or resource busy",
                Kind::Busy,
                Some(Change::Entry),
            ),
            ("touch: cannot touch 'a': Permission denied", Kind::Denied, Some(Change::Content)),
            ("tee: /a: Permission denied", Kind::Denied, Some(Change::Content)),
            ("cat: /a: Permission denied", Kind::Denied, None),
            ("Error: EACCES: permission denied, open '/a'", Kind::Denied, None),
            (
                "chmod: changing permissions of 'a': Operation not permitted",
                Kind::NotPermitted,
                Some(Change::Attributes),
            ),
            (
                "Error: EXDEV: cross-device link not permitted, link 'a' -> 'b'",
                Kind::CrossDevice,
                None,
            ),
            ("cat: a: No such file or directory", Kind::Missing, None),
            // A name is not what was tried.
            ("zsh:1: permission denied: /settings/s.sh", Kind::Denied, None),
            ("zsh:1: permission denied: rename", Kind::Denied, None),
            ("cat: 'create': Permission denied", Kind::Denied, None),
            ("committee: /a: Permission denied", Kind::Denied, None),
            ("sh: can't create 'a': Permission denied", Kind::Denied, Some(Change::Content)),
            ("mkdir /settings: permission denied", Kind::Denied, Some(Change::Content)),
            (
                "Error: EACCES: permission denied, unlink '/create'",
                Kind::Denied,
                Some(Change::Entry),
            ),
        ] {
            let scene = scene("", line);
            let told = scene.told();
            let found: Vec<_> = told.iter().map(|told| (told.kind, told.change)).collect();
            assert_eq!(found, [(kind, change)], "{line}");
        }
        let path = PathBuf::from("/home/me/a");
        for command in ["echo > ~/a", "echo >> '/home/me/a'; true", "b &>~/a", "dd if=b of=a"] {
            assert!(scene(command, "").written_paths().contains(&path), "{command}");
        }
        for command in
            ["~/a", "true && A=b ~/a c", "env A=b ~/a", "sh -c '~/a'", "(~/a)", "if ! ./a"]
        {
            let found = scene(command, "").run_paths();
            assert!(
                found.iter().any(|found| found.components().eq(path.components())),
                "{command}"
            );
        }
        for command in ["cat ~/a", "echo b > ~/a", "python -c 'open(\"/home/me/a\")'", "A=~/a true"]
        {
            assert!(!scene(command, "").run_paths().contains(&path), "{command}");
        }
        assert!(!scene("cat ~/a < b", "").written_paths().contains(&path));
    }

    #[test]
    fn a_mode_with_the_rights_of_the_owner_is_told_from_others() {
        for command in ["chmod g+s a", "chmod 2755 a", "chmod 04755 a", "install -d -m 2775 a"] {
            assert!(scene(command, "").sets_id(""), "{command}");
        }
        for command in ["chmod g+x a", "chmod 755 a", "chmod 1777 a", "echo 4755", "chmod 0644 yes"]
        {
            assert!(!scene(command, "").sets_id(""), "{command}");
        }
        let line = "tar: a: Cannot change mode to rwxr-sr-x: Operation not permitted";
        assert!(scene("tar xf a.tar", line).sets_id(line));
        let line = "tar: a: Cannot change mode to rwxr-xr-x: Operation not permitted";
        assert!(!scene("tar xf a.tar", line).sets_id(line));
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
