//! Starts this program on a host: the script that `sh` reads there, and the lines that it reports.
//! Pure.
//!
//! The script is one compound command, which `sh` reads completely before it runs any of it. This
//! side sends nothing more until `sh` has reported, since a shell may read ahead. Reports are lines
//! that begin with [`MARK`]; text that a banner or a startup file prints before them is skipped.
//!
//! An installed program is run only if its version is this one, and only the user or root owns and
//! can write to it, its directory and the directory of a link's target.
//!
//! Limits: does not check the directories above. Another user who can write there could replace
//! the program between the check and its start.

use crate::config::{HostEntry, InstallChoice};
use crate::text::foreign;

const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Begins each report.
const MARK: &str = "::zsh-tool-host::";

/// The purpose of a far side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// The calls of a server, by its name.
    Server(String),
    /// A person at a task that runs there.
    Task(String),
    /// A command of this program, by its arguments, which gets stdin and stdout for itself.
    Command(Vec<String>),
}

/// A report of `sh`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Report {
    /// The far side now runs.
    Ready(FarSystem),
    /// The host needs the program: first a line with its size and hash, then its bytes.
    Needed { system: String },
    /// Why the far side cannot be started.
    Failed(String),
}

/// The machine of a far side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FarSystem {
    /// As `uname -sm` names it, as it may be shown.
    pub(crate) name: String,
    /// Its clock, in seconds since the Unix epoch, if it has `date`.
    pub(crate) time: Option<i64>,
    /// Whether the kernel there shows what a silent process waits for.
    pub(crate) shows_waits: bool,
}

impl FarSystem {
    fn parse(words: &str) -> FarSystem {
        let value = |key: &str| words.split(' ').find_map(|word| word.strip_prefix(key));
        let name = words.split(' ').filter(|word| !word.contains('='));
        FarSystem {
            name: shown_words(name),
            time: value("time=").and_then(|time| time.parse().ok()),
            shows_waits: value("waits=") == Some("yes"),
        }
    }
}

/// The first two words that a host says, as they may be shown: the names of a system and a processor.
pub(super) fn shown_words<'a>(words: impl Iterator<Item = &'a str>) -> String {
    let shown: Vec<_> = words.take(2).map(foreign::shown).collect();
    shown.join(" ")
}

impl Report {
    /// Parses a line; `None` if it is not a report.
    pub(crate) fn parse(line: &str) -> Option<Report> {
        // A banner without a final newline may precede the mark.
        let (_, report) = line.trim_end().split_once(MARK)?;
        let (word, rest) = report.trim_start().split_once(' ').unwrap_or((report.trim(), ""));
        let rest = rest.trim().to_owned();
        match word {
            "ready" => Some(Report::Ready(FarSystem::parse(&rest))),
            "need" => Some(Report::Needed { system: rest }),
            "fail" => Some(Report::Failed(rest)),
            _ => None,
        }
    }
}

/// The line ahead of the program's bytes.
pub(super) fn announcement(size: usize, hash: &str) -> String {
    format!("{size} {hash}\n")
}

/// The line that says that there is no program for that system.
pub(super) const NO_PROGRAM: &str = "none\n";

/// The script that `sh` on a host reads.
pub(super) fn script(host: &HostEntry, purpose: &Purpose) -> String {
    let directory = match &host.binary_directory {
        Some(directory) => path(directory),
        // Not a cache: commands in a sandbox may write to those.
        None => format!(
            "\"${{XDG_DATA_HOME:-${{HOME:?is not set: set binary_directory}}/.local/share}}/zsh-tool/{VERSION}-$(uname -m)\""
        ),
    };
    let start = host.directory.as_deref().map_or("\"$HOME\"".to_owned(), path);
    let far = match purpose {
        Purpose::Server(server) => {
            format!("far --server {} --linger {}", quoted(server), host.linger.as_secs_f64())
        }
        Purpose::Task(task) => format!("far --task {}", quoted(task)),
        Purpose::Command(words) => {
            words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
        }
    };
    let fetch = match host.install {
        InstallChoice::Auto => INSTALL,
        InstallChoice::Never => {
            "zt_fail \"zsh-tool $zt_version is not installed in $zt_dir or in PATH, and install is never$zt_why\""
        }
    };
    format!(
        r#"zt_far() {{
set -f
zt_version={VERSION}
zt_fail() {{ set -- $1; printf '\n{MARK} fail %s\n' "$*"; exit 1; }}
zt_ours() {{
zt_path=$1
set -- $(ls -Ldn -- "$1" 2>/dev/null)
case $1 in
d????????[tT]*) ;;
????????w* | ?????w*) return 1 ;;
esac
[ "$3" = 0 ] || [ "$3" = "$zt_uid" ]
}}
zt_right() {{
[ -x "$1" ] || return 1
if [ -L "$1" ]
then set -- "$1" "$(readlink -f "$1")" && [ -n "$2" ] && zt_ours "${{2%/*}}/" || {{ zt_why="; others may change what $1 leads to"; return 1; }}
fi
zt_ours "${{1%/*}}/" && zt_ours "$1" || {{ zt_why="; $zt_path belongs to another user, or others may change it"; return 1; }}
[ "$("$1" --version </dev/null 2>/dev/null)" = "zsh-tool $zt_version" ]
}}
zt_run() {{
cd {start} 2>/dev/null || zt_fail "cannot enter the directory "{start}
zt_waits=no
{{ read -r zt_call </proc/self/syscall && zt_waits=yes; }} 2>/dev/null
printf '\n{MARK} ready %s\n' "$zt_system time=$(date +%s 2>/dev/null) waits=$zt_waits"
exec "$1" {far}
}}
zt_system=$(uname -sm) || zt_fail "uname does not run"
zt_uid=$(id -u) || zt_fail "id does not run"
zt_why=
zt_dir={directory} || exit 1
[ -n "$zt_dir" ] || zt_fail "HOME is not set: set binary_directory"
zt_program=$zt_dir/zsh-tool
zt_right "$zt_program" && zt_run "$zt_program"
zt_found=$(command -v zsh-tool 2>/dev/null) && zt_right "$zt_found" && zt_run "$zt_found"
{fetch}
zt_run "$zt_program"
}}
zt_far
"#
    )
}

const INSTALL: &str = r#"printf '\n::zsh-tool-host:: need %s\n' "$zt_system"
read -r zt_size zt_hash || exit 1
[ "$zt_size" = none ] && exit 1
zt_umask=$(umask)
umask 077
zt_said=$(mkdir -p "$zt_dir" 2>&1) || zt_fail "$zt_said; set binary_directory, or install zsh-tool $zt_version there and set install: never"
zt_ours "$zt_dir/" || zt_fail "$zt_dir belongs to another user, or others may change it: set binary_directory"
zt_new=$zt_dir/.new.$$
if head -c 1 </dev/null >/dev/null 2>&1
then zt_said=$(head -c "$zt_size" 2>&1 >"$zt_new")
else zt_said=$(dd bs=1 count="$zt_size" 2>/dev/null >"$zt_new")
fi || { rm -f "$zt_new"; zt_fail "cannot write $zt_new: $zt_said; set binary_directory, or install zsh-tool $zt_version there and set install: never"; }
zt_said=$(chmod 700 "$zt_new" 2>&1) || zt_fail "$zt_said"
zt_said=$("$zt_new" far --hash </dev/null 2>&1)
[ "$zt_said" = "$zt_hash" ] || { rm -f "$zt_new"; zt_fail "the program sent to $zt_dir does not run there: $zt_said; set binary_directory, or install zsh-tool $zt_version there and set install: never"; }
zt_said=$(mv -f "$zt_new" "$zt_program" 2>&1) || zt_fail "$zt_said"
umask "$zt_umask""#;

/// A path on the host as a word of `sh`; a leading `~/` means the home directory there.
fn path(path: &str) -> String {
    match path.strip_prefix("~/") {
        Some(rest) => format!("\"$HOME\"/{}", quoted(rest)),
        None => quoted(path),
    }
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_are_found_behind_what_else_is_printed() {
        let mut system =
            FarSystem { name: "Linux x86_64".to_owned(), time: None, shows_waits: false };
        let ready = Some(Report::Ready(system.clone()));
        assert_eq!(Report::parse("::zsh-tool-host:: ready Linux x86_64\n"), ready);
        assert_eq!(Report::parse("Welcome!::zsh-tool-host:: ready Linux x86_64\r\n"), ready);
        (system.time, system.shows_waits) = (Some(1_700_000_000), true);
        let line = "::zsh-tool-host:: ready Linux x86_64 time=1700000000 waits=yes\n";
        assert_eq!(Report::parse(line), Some(Report::Ready(system.clone())));
        system.time = None;
        let line = "::zsh-tool-host:: ready Linux x86_64 time= waits=yes\n";
        assert_eq!(Report::parse(line), Some(Report::Ready(system)));
        let needed = Report::Needed { system: "Linux aarch64".to_owned() };
        assert_eq!(Report::parse("::zsh-tool-host:: need Linux aarch64"), Some(needed));
        let failed = Report::Failed("no space".to_owned());
        assert_eq!(Report::parse("::zsh-tool-host:: fail no space"), Some(failed));
        for other in ["", "ready", "Welcome to build1", "::zsh-tool-host:: later"] {
            assert_eq!(Report::parse(other), None, "{other}");
        }
    }
}
