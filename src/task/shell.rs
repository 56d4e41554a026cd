//! Which shell runs commands, and what it reports at its end: the statuses of its last
//! pipeline and its directory.
//!
//! The exit code never comes from such a report: the process's own wait status is the
//! truth, and a report is shown only where it agrees.

use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::sessions::{Variables, variable};
use crate::process::descriptors;
use crate::process::files::{self, Temporary};
use crate::process::signals::Exit;
use crate::shell::dialect::Dialect;
use crate::shell::mode::ShellName;
use crate::text::foreign;
use crate::text::foreign::ShowPath;

/// What the shell can report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShellKind {
    /// Everything.
    Zsh,
    /// Pipeline statuses, by `PIPESTATUS`, and the directory.
    Bash,
    /// Only the exit code.
    Sh,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shell {
    pub path: PathBuf,
    /// What it can report.
    pub kind: ShellKind,
    /// Shown with each result if zsh was configured and is missing.
    pub note: Option<String>,
}

impl Shell {
    /// Whether it is the shell that this name means.
    pub(crate) fn is(&self, name: ShellName) -> bool {
        match (name, self.kind) {
            (ShellName::Zsh, kind) => kind == ShellKind::Zsh,
            (ShellName::Bash, kind) => kind == ShellKind::Bash,
            (ShellName::Sh, _) => self.path.file_name() == Some(OsStr::new("sh")),
        }
    }

    /// The dialect in which it reads text; `takes_bash` is set with `dialect: bash`.
    pub(crate) fn dialect(&self, takes_bash: bool) -> Dialect {
        match self.kind {
            ShellKind::Zsh if takes_bash => Dialect::ZshAsBash,
            ShellKind::Zsh => Dialect::Zsh,
            ShellKind::Bash | ShellKind::Sh => Dialect::Other,
        }
    }
}

/// The shell that commands are written for; others only replace it.
const PREFERRED: &str = "zsh";

#[derive(Debug, thiserror::Error)]
pub enum NoShell {
    #[error(
        "the shell {} (config `shell`) does not exist or is not executable: install it, or correct the setting",
        foreign::shown(.0)
    )]
    Configured(String),
    #[error("{} is not installed: leave `shell` out, or install it", .0.as_str())]
    Named(ShellName),
    #[error(
        "no shell found: neither zsh nor bash nor sh is in PATH; install zsh, or set `shell` in the config"
    )]
    None,
}

/// Finds the shell: the configured one; if that is zsh and missing, bash, then sh.
///
/// # Errors
/// No shell was found.
pub(crate) fn find(configured: &str, search_path: &OsStr) -> Result<Shell, NoShell> {
    let locate = |name: &str| files::find_program(name, search_path).ok();
    if let Some(path) = locate(configured) {
        return Ok(Shell { kind: kind_of(&path), path, note: None });
    }
    if configured != PREFERRED {
        return Err(NoShell::Configured(configured.to_owned()));
    }
    for (name, kind, loss) in
        [("bash", ShellKind::Bash, ""), ("sh", ShellKind::Sh, ", no pipestatus")]
    {
        if let Some(path) = locate(name) {
            let note = format!(
                "{configured} was not found: this ran in {}{loss}. Install zsh, or set `shell` in the config.",
                path.shown()
            );
            return Ok(Shell { path, kind, note: Some(note) });
        }
    }
    Err(NoShell::None)
}

/// Finds the shell with this name in PATH.
///
/// # Errors
/// It is not there.
pub(crate) fn find_named(name: ShellName, search_path: &OsStr) -> Result<Shell, NoShell> {
    let kind = match name {
        ShellName::Zsh => ShellKind::Zsh,
        ShellName::Bash => ShellKind::Bash,
        ShellName::Sh => ShellKind::Sh,
    };
    let found = files::find_program(name.as_str(), search_path);
    found.map(|path| Shell { path, kind, note: None }).map_err(|_| NoShell::Named(name))
}

fn kind_of(path: &Path) -> ShellKind {
    match path.file_name().and_then(|name| name.to_str()) {
        Some(name) if name.starts_with("zsh") => ShellKind::Zsh,
        Some(name) if name.starts_with("bash") => ShellKind::Bash,
        _ => ShellKind::Sh,
    }
}

/// What the prologue reported.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Report {
    /// The statuses of the last pipeline.
    pub(crate) pipestatus: Vec<i32>,
    /// The shell's directory at its end.
    pub(crate) directory: Option<PathBuf>,
    /// The exported variables at its end.
    pub(crate) variables: Option<Variables>,
}

impl Report {
    /// The shell's directory at its end, if it differs from the one at its start or has been
    /// removed.
    pub(crate) fn moved_from(&self, start: &Path) -> Option<PathBuf> {
        let end = self.directory.as_ref()?;
        let is_same = || {
            let [end, start] = [end, start].map(std::fs::canonicalize);
            end.ok().is_some_and(|end| start.is_ok_and(|start| start == end))
        };
        (end != start && !is_same()).then(|| end.clone())
    }
}

/// Parses a side-band: records of fields that end with NUL. Each begins with an empty field, the key
/// and a letter: `T status… directory` holds the statuses of the last pipeline, `D directory` the
/// directory only, `E length` is followed by so many bytes of environment, each entry with `=`, and
/// by the end mark `F:key`. Ignores everything else, since any program of the user may write to the
/// pipe.
pub(crate) fn read_report(bytes: &[u8], key: &str) -> Report {
    let mut report = Report::default();
    let mut rest = bytes;
    let directory = |field: &[u8]| PathBuf::from(OsStr::from_bytes(field));
    while let Some(field) = next_field(&mut rest) {
        if field != key.as_bytes() {
            continue;
        }
        match next_field(&mut rest) {
            Some(b"T") => {
                report.pipestatus.clear();
                while let Some(field) = next_field(&mut rest) {
                    if field.starts_with(b"/") {
                        report.directory = Some(directory(field));
                        break;
                    }
                    match number(field) {
                        Some(number) => report.pipestatus.push(number),
                        None => break,
                    }
                }
            }
            Some(b"D") => {
                if let Some(field) = next_field(&mut rest).filter(|field| field.starts_with(b"/")) {
                    report.directory = Some(directory(field));
                }
            }
            Some(b"E") => report.variables = read_variables(&mut rest, key),
            _ => {}
        }
    }
    report
}

/// The next field, without its NUL; the last one may lack it.
fn next_field<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    if rest.is_empty() {
        return None;
    }
    let mut parts = rest.splitn(2, |byte| *byte == 0);
    let field = parts.next()?;
    *rest = parts.next().unwrap_or_default();
    Some(field)
}

fn number<T: std::str::FromStr>(field: &[u8]) -> Option<T> {
    std::str::from_utf8(field).ok()?.trim().parse().ok()
}

/// `None` if they did not fit into the pipe, or if the end mark is not where their length says:
/// another program has written between them.
fn read_variables(rest: &mut &[u8], key: &str) -> Option<Variables> {
    let length = next_field(rest).and_then(number)?;
    let (entries, mut after) = rest.split_at_checked(length)?;
    let entries = entries.strip_suffix(b"\0")?;
    next_field(&mut after).filter(|field| field.is_empty())?;
    next_field(&mut after)?.strip_prefix(b"F:").filter(|end| *end == key.as_bytes())?;
    *rest = after;
    entries.split(|byte| *byte == 0).map(variable).collect()
}

/// The statuses to show: those of at least two segments that agree with the exit code, which is the
/// last status or, under `pipefail`, the rightmost failure.
pub(crate) fn pipestatus_to_show(reported: Vec<i32>, exit: Exit) -> Vec<i32> {
    let code = exit.code();
    let rightmost_failure = reported.iter().rev().find(|status| **status != 0);
    let agrees = match reported.last() {
        Some(0) => code == 0 || rightmost_failure == Some(&code),
        Some(last) => *last == code,
        None => false,
    };
    if reported.len() >= 2 && agrees { reported } else { Vec::new() }
}

/// How much of a side-band is read: one or two short records and, for a session, the environment
/// twice.
const REPORT_BYTES: usize = 2 * EXPORTS_PIPE_BYTES;
/// The size of the pipe for exported variables: the most that Linux allows an ordinary user.
const EXPORTS_PIPE_BYTES: usize = 1024 * 1024;
/// How much of the pipe is for other records.
const OTHER_RECORDS: usize = 16 * 1024;

/// The pipe on which a shell reports at its end. The shell opens it by name.
///
/// A name needs no inherited descriptor: the command's descriptors have the same numbers as without
/// the pipe, and no program inherits one. Limits: a shell that has changed its user cannot open the
/// pipe, and reports nothing; a program that may read the shell's environment or memory can report in
/// its place. Dropping this removes the name.
#[derive(Debug)]
pub(crate) struct SideBand {
    reader: OwnedFd,
    name: Temporary,
    /// With which each record begins. The shell finds it in its environment: a program in a sandbox
    /// may reach the pipe and see the shell's arguments, but not that.
    key: String,
}

impl SideBand {
    /// Creates a side-band at this path, which must not exist.
    ///
    /// # Errors
    /// The pipe cannot be created.
    pub(crate) fn create(name: PathBuf) -> io::Result<SideBand> {
        let reader = files::create_pipe(&name)?;
        let key = files::random_id() + &files::random_id();
        Ok(SideBand { reader, name: Temporary(name), key })
    }

    /// Enlarges the pipe for exported variables; returns how many bytes of them fit, since the
    /// shell may report them twice.
    pub(crate) fn make_room(&self) -> usize {
        descriptors::widen_pipe(&self.reader, EXPORTS_PIPE_BYTES);
        (descriptors::pipe_size(&self.reader) / 2).saturating_sub(OTHER_RECORDS)
    }

    /// The path at which the shell opens it.
    pub(crate) fn name(&self) -> &Path {
        &self.name.0
    }

    pub(crate) fn key(&self) -> &str {
        &self.key
    }

    /// What the shell has reported so far.
    pub(crate) fn read(&self) -> Report {
        read_report(&descriptors::read_waiting(&self.reader, REPORT_BYTES), &self.key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn reports_are_read_in_any_mixture() {
        let table: &[(&[u8], &[i32], Option<&str>)] = &[
            (b"\0key\0T\x000\x001\x00/tmp\x00\0key\0D\x00/tmp\x00", &[0, 1], Some("/tmp")),
            (b"half of a record\0key\0D\x00/a b\x00", &[], Some("/a b")),
            (b"", &[], None),
            (b"garbage\x00key\x00T\x00x\x00", &[], None),
            (b"\0key\0T\x000\x00/1\x00\0key\0T\x003\x00/2\x00", &[3], Some("/2")),
            (b"\0key\0T\x003\x00/own\x00\0other\0T\x000\x00/forged\x00", &[3], Some("/own")),
            (b"T\x000\x00/forged\x00D\x00/forged\x00", &[], None),
            (b"\0key\0T\x001\x00", &[1], None),
        ];
        for (bytes, pipestatus, directory) in table {
            let report = read_report(bytes, "key");
            assert_eq!(report.pipestatus, *pipestatus, "{bytes:?}");
            assert_eq!(report.directory, directory.map(PathBuf::from), "{bytes:?}");
        }
    }

    #[test]
    fn variables_count_if_nothing_was_written_between_them() {
        let variables = |bytes: &[u8]| read_report(bytes, "key").variables;
        let own = variables(b"\0key\0E\0 8\0A=1\0B=\n\0\0F:key\0").expect("two variables");
        assert_eq!(own, [("A".into(), "1".into()), ("B".into(), "\n".into())]);
        for refused in [
            &b"\0key\0E\x008\0A=1\0X=2\0B=\n\0\0F:key\0"[..],
            b"\0key\0E\x0010\0A=1\0B=\n\0\0F:key\0",
            b"\0key\0E\x007\0A=1\0B=\n\0F:key\0",
            b"\0key\0E\x008\0A=1\0B=\n\0\0F:other\0",
            b"\0other\0E\x004\0A=1\0\0F:other\0",
            b"\0key\0E\x0099999999999999999999\0",
            b"\0key\0E",
        ] {
            assert_eq!(variables(refused), None, "{}", refused.escape_ascii());
        }
    }

    #[test]
    fn a_directory_is_new_unless_both_paths_lead_to_it() {
        let table = [("/", "/usr/..", false), ("/", "/usr", true), ("/gone/a", "/gone/b", true)];
        for (start, end, is_new) in table {
            let report = Report { directory: Some(end.into()), ..Report::default() };
            assert_eq!(report.moved_from(Path::new(start)).is_some(), is_new, "{start} {end}");
        }
    }

    #[test]
    fn pipestatus_is_shown_when_it_agrees_with_the_exit_code() {
        let table: &[(&[i32], i32, bool)] = &[
            (&[0, 1], 1, true),
            (&[1, 0], 0, true),
            (&[1, 0], 1, true),
            (&[0, 1], 0, false),
            (&[3, 2, 0], 2, true),
            (&[3, 2, 0], 3, false),
            (&[1], 1, false),
            (&[], 0, false),
            (&[0, 0], 0, true),
            (&[0, 0], 5, false),
        ];
        for (reported, code, shown) in table {
            let result = pipestatus_to_show(reported.to_vec(), Exit::Code(*code));
            assert_eq!(!result.is_empty(), *shown, "{reported:?} with exit {code}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_report_panics(bytes in proptest::collection::vec(0u8.., 0..200)) {
            read_report(&bytes, "k");
            read_report(&[&b"\0k\0E\0"[..], &bytes].concat(), "k");
        }
    }

    #[test]
    fn a_report_outlives_its_writer_and_the_pipe_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let name = folder.path().join("report");
        let sideband = SideBand::create(name.clone()).unwrap();
        assert_eq!(sideband.read(), Report::default());
        let mut writer = std::fs::OpenOptions::new().write(true).open(sideband.name()).unwrap();
        let record = format!("\0{}\0T\x000\x001\x00/usr\x00", sideband.key());
        writer.write_all(record.as_bytes()).unwrap();
        drop(writer);
        let report = sideband.read();
        assert_eq!(report.pipestatus, [0, 1]);
        assert_eq!(report.directory.as_deref(), Some(Path::new("/usr")));
        drop(sideband);
        assert!(!name.exists());
    }

    #[test]
    fn a_path_that_exists_is_an_error_and_is_not_changed() {
        let folder = tempfile::tempdir().unwrap();
        let name = folder.path().join("report");
        std::fs::write(&name, "text").unwrap();
        assert!(SideBand::create(name.clone()).is_err());
        assert_eq!(std::fs::read_to_string(name).unwrap(), "text");
    }
}
