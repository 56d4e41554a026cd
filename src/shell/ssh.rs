//! Finds the host that a command connects to over SSH, and the command that it runs there.
//!
//! Recognises `ssh` (also after `sudo`, `timeout`, `sshpass`), `autossh`, `mosh`, `sftp`, `scp`,
//! `rsync`, and `git` with an address. A host is the unchanged name, without user and port; a host
//! that only the shell knows (`$HOST`) does not count.
//!
//! Limits: does not read the user's configuration, so an alias and its host are two hosts, and a
//! git remote that uses SSH is not recognised. Pure.

use super::command_line::CommandLine;
use super::options::{Values, is_option, values};
use super::prefix::base_name;
use super::syntax::segment_words;
use super::unquote::Unquoted;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ssh {
    pub host: String,
    /// The remote command's words joined by blanks; `None` for a login, a forwarding or a copy.
    pub remote_command: Option<String>,
}

/// The meaning of the exit code of `ssh`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExitType {
    /// Connected, and the command succeeded.
    Success,
    ConnectionFailed,
    /// Connected, and the command failed.
    CommandFailed,
}

/// The exit code of `ssh` if `ssh` itself failed.
const CONNECTION_FAILED: i32 = 255;

impl ExitType {
    pub(crate) fn from_code(exit_code: i32) -> ExitType {
        match exit_code {
            0 => ExitType::Success,
            CONNECTION_FAILED => ExitType::ConnectionFailed,
            _ => ExitType::CommandFailed,
        }
    }

    /// The name in the database.
    pub(crate) fn name(self) -> &'static str {
        match self {
            ExitType::Success => "success",
            ExitType::ConnectionFailed => "connection_failed",
            ExitType::CommandFailed => "command_failed",
        }
    }
}

/// The options of ssh(1) that take a value.
const SSH: Values = values("BbcDEeFIiJLlmOopPQRSWw", "");
const AUTOSSH: Values = values("MBbcDEeFIiJLlmOopPQRSWw", "");
const SFTP: Values = values("BbcDFiJloPRSsX", "");
const SCP: Values = values("cDFiJloPSX", "");
const MOSH: Values = values("p", "--port --ssh --client --server --predict --family");
const RSYNC: Values = values(
    "efBTM@",
    "--rsh --rsync-path --exclude --include --exclude-from --include-from --files-from --filter \
     --chown --chmod --usermap --groupmap --temp-dir --partial-dir --compare-dest --copy-dest \
     --link-dest --log-file --bwlimit --timeout --contimeout --port --max-size --min-size \
     --backup-dir --suffix --out-format --password-file --block-size --info --debug",
);
const GIT: Values = values(
    "CcbojX",
    "--git-dir --work-tree --namespace --depth --branch --origin --reference --config --template \
     --upload-pack --receive-pack --jobs --push-option --filter --shallow-since --name \
     --server-option --strategy",
);

/// Options with which ssh connects to no host.
const WITHOUT_CONNECTION: &str = "GQV";

/// The SSH connection of a pipeline's segment, if it is one simple command.
pub fn ssh_of_segment(segment: &CommandLine) -> Option<Ssh> {
    ssh_target(&segment_words(segment)?)
}

/// The SSH connection of a simple command, given its words without prefixes.
pub(crate) fn ssh_target(words: &[Unquoted]) -> Option<Ssh> {
    let (name, words) = words.split_first()?;
    let copied = |values| operands(words, values).into_iter().find_map(copied_host);
    let host = match base_name(name.fixed()?) {
        "ssh" => return login(words, SSH),
        "autossh" => return login(words, AUTOSSH),
        "mosh" => return login(words, MOSH),
        "sftp" => operands(words, SFTP)
            .first()
            .and_then(|word| copied_host(word).or_else(|| plain_host(word.fixed()?))),
        "scp" => copied(SCP),
        "rsync" => copied(RSYNC),
        "git" => repository_host(words),
        _ => None,
    };
    Some(Ssh { host: host?, remote_command: None })
}

/// `ssh [options] host [options] [command]`: options may follow the host, and the first
/// other word begins the command.
fn login(words: &[Unquoted], values: Values) -> Option<Ssh> {
    let before = options_of_login(words, values)?;
    let host = words.get(before)?;
    let rest = words.get(before + 1..)?;
    let after = options_of_login(rest, values)?;
    let command: Vec<&str> = rest.get(after..)?.iter().map(|word| word.text.as_str()).collect();
    let command = command.join(" ");
    Some(Ssh {
        host: match url(host) {
            Url::Host(host) => host,
            Url::OtherHost => return None,
            Url::No => plain_host(host.fixed()?)?,
        },
        remote_command: Some(command).filter(|command| !command.trim().is_empty()),
    })
}

/// How many of the first words are options or their values; `None` if one of them prevents ssh from
/// connecting.
fn options_of_login(words: &[Unquoted], values: Values) -> Option<usize> {
    let mut at = 0;
    while let Some(option) = words.get(at).filter(|word| is_option(word)) {
        at += 1;
        if option.text == "--" {
            break;
        }
        let letters = option.text.trim_start_matches('-');
        let flags = letters
            .split(|letter| values.letters.contains(letter) && !WITHOUT_CONNECTION.contains(letter))
            .next()
            .unwrap_or_default();
        if flags.contains(|letter| WITHOUT_CONNECTION.contains(letter)) {
            return None;
        }
        // An option with an expansion is assumed to be one word.
        if values.takes_next(&option.text) {
            at += 1;
        }
    }
    Some(at)
}

/// The words that are neither options nor values of options.
fn operands(words: &[Unquoted], values: Values) -> Vec<&Unquoted> {
    let mut operands = Vec::new();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        if word.fixed() == Some("--") {
            operands.extend(words);
            break;
        }
        if !is_option(word) {
            operands.push(word);
        } else if values.takes_next(&word.text) {
            words.next();
        }
    }
    operands
}

/// The host of `[user@]host:path`, or of an SSH URL.
fn copied_host(word: &Unquoted) -> Option<String> {
    match url(word) {
        Url::No => {}
        Url::OtherHost => return None,
        Url::Host(host) => return Some(host),
    }
    // Only the host must have no expansions; the path may have some.
    let address = word.fixed_part();
    let is_user = |text: &str| text.is_empty() || text.ends_with('@');
    let end = match address.find('[') {
        Some(open) if address.get(..open).is_some_and(is_user) => address.find("]:")? + 1,
        _ => address.find(':')?,
    };
    let host = address.get(..end)?;
    // A slash before the colon makes it a file; two colons are rsync's own protocol.
    let is_daemon = address.get(end + 1..)?.starts_with(':');
    let is_url = address.get(end + 1..)?.starts_with("//");
    if host.contains('/') || is_daemon || is_url {
        return None;
    }
    plain_host(host)
}

/// A word as a URL.
enum Url {
    /// It is none.
    No,
    /// Of another scheme, or without a known host.
    OtherHost,
    Host(String),
}

fn url(word: &Unquoted) -> Url {
    let Some((scheme, rest)) = word.fixed_part().split_once("://") else {
        return Url::No;
    };
    if !["ssh", "scp", "sftp", "rsync+ssh", "git+ssh", "ssh+git"].contains(&scheme) {
        return Url::OtherHost;
    }
    let is_whole = word.fixed().is_some() || rest.contains('/');
    let Some(authority) = rest.split('/').next().filter(|_| is_whole) else {
        return Url::No;
    };
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let host = match host.strip_prefix('[') {
        Some(bracketed) => bracketed.split(']').next(),
        None => host.split(':').next(),
    };
    host.and_then(plain_host).map_or(Url::OtherHost, Url::Host)
}

/// The host of `[user@]host`.
fn plain_host(address: &str) -> Option<String> {
    let host = address.rsplit_once('@').map_or(address, |(_, host)| host);
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let is_name = !host.is_empty()
        && !host.starts_with('-')
        && host.chars().all(|letter| letter.is_alphanumeric() || "._-:%".contains(letter));
    is_name.then(|| host.to_owned())
}

/// The host of a repository that a git command names by its address.
fn repository_host(words: &[Unquoted]) -> Option<String> {
    let operands = operands(words, GIT);
    let mut operands = operands.into_iter();
    match operands.next()?.fixed()? {
        "clone" | "push" | "pull" | "fetch" | "ls-remote" => copied_host(operands.next()?),
        "submodule" => match operands.next()?.fixed()? {
            "add" => copied_host(operands.next()?),
            _ => None,
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A command, the host, and the remote command.
    const TABLE: &[(&str, &str, Option<&str>)] = &[
        ("ssh vps", "vps", None),
        ("ssh bob@vps 'git pull'", "vps", Some("git pull")),
        ("ssh -p2222 u@h 'a | b'", "h", Some("a | b")),
        ("ssh -p 2222 h uname -a", "h", Some("uname -a")),
        ("ssh -L 8080:db:80 -N -f jump", "jump", None),
        ("ssh -tt -o BatchMode=yes -oPort=22 h -- ls -l", "h", Some("ls -l")),
        ("ssh h -p 22 ls", "h", Some("ls")),
        ("ssh -vi ~/.ssh/key h ls", "h", Some("ls")),
        ("ssh -J a@j1,j2 h", "h", None),
        ("ssh -- h ls", "h", Some("ls")),
        ("ssh ssh://bob@example.org:2222 ls", "example.org", Some("ls")),
        ("ssh ssh://[fe80::1]:22", "fe80::1", None),
        ("ssh bob@fe80::1%eth0 ls", "fe80::1%eth0", Some("ls")),
        ("ssh -l bob h \"cd $DIR && ls\"", "h", Some("cd $DIR && ls")),
        ("ssh -W db:22 jump", "jump", None),
        ("ssh -Wdb:22 jump", "jump", None),
        ("sudo -u bob /usr/bin/ssh h ls", "h", Some("ls")),
        ("FOO=1 timeout 5 ssh h ls", "h", Some("ls")),
        ("sshpass -p secret ssh h ls", "h", Some("ls")),
        ("autossh -M 0 -N h", "h", None),
        ("mosh --ssh 'ssh -p 22' bob@h", "h", None),
        ("ssh h < script.sh", "h", None),
        ("ssh h bash -s <<'E'\nls\nE", "h", Some("bash -s")),
        ("sftp -P 22 bob@h:/tmp", "h", None),
        ("sftp h", "h", None),
        ("scp -r a b@h:/x", "h", None),
        ("scp -P 22 h:/x ./a:b", "h", None),
        ("scp a \"h:$DIR\"", "h", None),
        ("scp scp://h:22/x .", "h", None),
        ("scp 'bob@[::1]:x' .", "::1", None),
        ("rsync -avz -e 'ssh -p 22' src/ bob@h:dst/", "h", None),
        ("rsync --chown a:b src/ h:dst", "h", None),
        ("git clone git@github.com:a/b.git", "github.com", None),
        ("git -C d clone --depth 1 ssh://git@h:2222/a.git dir", "h", None),
        ("git push git@h:a.git main:main", "h", None),
        ("git submodule add git@h:a.git", "h", None),
    ];

    const NONE: &[&str] = &[
        "ssh",
        "ssh -V",
        "ssh -G h",
        "ssh -Q cipher",
        "ssh $HOST ls",
        "ssh bob@$HOST",
        "ssh-keygen -t ed25519",
        "scp a b",
        "scp ./a:b c",
        "rsync -a src/ dst/",
        "rsync -a rsync://h/m dst",
        "rsync h::m dst",
        "git clone https://github.com/a/b",
        "git push -u origin main:main",
        "git clone ../a",
        "git remote add x git@h:a",
        "echo ssh h",
        "ls | cat",
        "for h in a b; do ssh $h ls; done",
        "",
    ];

    #[test]
    fn hosts_are_found_after_all_options() {
        for (command, host, remote_command) in TABLE {
            let found = ssh_of_segment(&CommandLine::parse(*command));
            let expected =
                Ssh { host: (*host).to_owned(), remote_command: remote_command.map(str::to_owned) };
            assert_eq!(found, Some(expected), "{command}");
        }
    }

    #[test]
    fn commands_without_a_known_host_have_none() {
        for command in NONE {
            assert_eq!(ssh_of_segment(&CommandLine::parse(*command)), None, "{command}");
        }
    }

    #[test]
    fn only_255_means_that_the_connection_failed() {
        for (code, expected) in [
            (0, ExitType::Success),
            (1, ExitType::CommandFailed),
            (254, ExitType::CommandFailed),
            (255, ExitType::ConnectionFailed),
            (-9, ExitType::CommandFailed),
        ] {
            assert_eq!(ExitType::from_code(code), expected, "{code}");
        }
    }
}
