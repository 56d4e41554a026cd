//! How a command is put to a shell: which shell, which arguments, and the prologue by
//! which it reports the statuses of its last pipeline and its directory.
//!
//! The exit code never comes from the prologue: the process's own wait status is the
//! truth, and what the side-band says is only shown when it agrees.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use crate::process::files;
use crate::process::signals::Exit;

/// Linux takes no argument longer than this, its end mark included (MAX_ARG_STRLEN).
const LONGEST_ARGUMENT: usize = 128 * 1024;

/// Runs before the command, on its first line, so that `$LINENO` and zsh's messages
/// keep their numbers. It moves the side-band from descriptor 9 to one above 9 that is
/// closed on exec, and reports at the end: `T status pipestatus… directory` from an EXIT
/// trap, `D directory` where the command set a trap of its own. A zsh without that module
/// (a static one), or without /proc, cannot close it on exec: programs inherit it there,
/// as under bash. Any step that fails leaves the command to run without a side-band.
///
/// `eval` would clobber `$pipestatus`, and text after the command would break
/// here-documents. The functions are defined under `emulate -R zsh -c`, so that they run
/// with options of their own: a plain `trap … EXIT` shows up in the output of
/// `set -x; exit 3`.
const ZSH_PROLOGUE: &str = concat!(
    "{ zmodload -F zsh/system b:sysopen && sysopen -w -o cloexec -u ZSH_TOOL_FD /proc/self/fd/9 } 2>/dev/null ",
    "|| { exec {ZSH_TOOL_FD}>&9 } 2>/dev/null; exec 9>&-; ",
    "emulate -R zsh -c '",
    "TRAPEXIT() { { builtin print -u $ZSH_TOOL_FD -rN -- T $? \"${pipestatus[@]}\" \"$PWD\" } 2>/dev/null }; ",
    "__zsh_tool_end() { { (( ZSH_SUBSHELL )) || builtin print -u $ZSH_TOOL_FD -rN -- D \"$PWD\" } 2>/dev/null }",
    "'; zshexit_functions+=(__zsh_tool_end); ",
);

/// Bash can neither open a descriptor closed on exec nor close one for its children
/// only, so that here programs do inherit the side-band; it decides nothing.
const BASH_PROLOGUE: &str =
    "trap '{ printf \"%s\\0\" T \"$?\" \"${PIPESTATUS[@]}\" \"$PWD\" >&9; } 2>/dev/null' EXIT; ";

/// Removes the script that is being read; the open file lives on until it is read.
const REMOVE_SCRIPT: &str =
    "{ zmodload -F zsh/files b:zf_rm && builtin zf_rm -f -- \"$0\" } 2>/dev/null; ";
const REMOVE_SCRIPT_PORTABLE: &str = "rm -f -- \"$0\" 2>/dev/null; ";

/// What the shell can tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShellKind {
    /// All of it.
    Zsh,
    /// Pipeline statuses by `PIPESTATUS`.
    Bash,
    /// The exit code only.
    Sh,
}

/// Which startup files the shell reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShellMode {
    /// Those of any shell (`.zshenv`).
    Plain,
    /// Those of a login shell too.
    Login,
    /// Those of an interactive shell too.
    Interactive,
}

impl ShellMode {
    fn flags(self) -> &'static [&'static str] {
        match self {
            ShellMode::Plain => &[],
            ShellMode::Login => &["-l"],
            ShellMode::Interactive => &["-i"],
        }
    }
}

/// The shell that runs commands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shell {
    /// Its program.
    pub path: PathBuf,
    /// What it can tell.
    pub kind: ShellKind,
    /// Said with every result when it is not the one that was wanted.
    pub note: Option<String>,
}

/// The shell that commands are meant for; only in its place do others serve.
const PREFERRED: &str = "zsh";

/// No shell to run commands in.
#[derive(Debug, thiserror::Error)]
pub enum NoShell {
    /// The one that the user chose is missing.
    #[error(
        "the shell {0} (config `shell`) is not there or not executable: install it, or correct the setting"
    )]
    Configured(String),
    /// None at all.
    #[error(
        "no shell found: neither zsh nor bash nor sh is in PATH; install zsh, or set `shell` in the config"
    )]
    None,
}

/// Finds the shell: the configured one; where that is zsh and missing, bash, then sh.
///
/// # Errors
/// When there is none.
pub fn find(configured: &str, search_path: &OsStr) -> Result<Shell, NoShell> {
    let locate = |name: &str| files::find_program(name, search_path);
    if let Some(path) = locate(configured) {
        return Ok(Shell {
            kind: kind_of(&path),
            path,
            note: None,
        });
    }
    if configured != PREFERRED {
        return Err(NoShell::Configured(configured.to_owned()));
    }
    for (name, kind, loss) in [
        ("bash", ShellKind::Bash, ""),
        ("sh", ShellKind::Sh, ", no pipestatus"),
    ] {
        if let Some(path) = locate(name) {
            let note = format!(
                "{configured} was not found: this ran in {}{loss}. Install zsh, or set `shell` in the config.",
                path.display()
            );
            return Ok(Shell {
                path,
                kind,
                note: Some(note),
            });
        }
    }
    Err(NoShell::None)
}

fn kind_of(path: &Path) -> ShellKind {
    match path.file_name().and_then(|name| name.to_str()) {
        Some(name) if name.starts_with("zsh") => ShellKind::Zsh,
        Some(name) if name.starts_with("bash") => ShellKind::Bash,
        _ => ShellKind::Sh,
    }
}

/// A file that is sourced before the command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prelude {
    /// Which.
    pub path: PathBuf,
    /// Whether its errors are shown; they are the first time.
    pub show_errors: bool,
}

/// How a command reaches its shell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Invocation {
    /// As an argument.
    Argument(Vec<OsString>),
    /// It is longer than an argument may be: this text is to be written to the file that
    /// the arguments name.
    Script {
        /// The file's content.
        text: String,
        /// The shell's arguments.
        arguments: Vec<OsString>,
    },
}

impl Shell {
    /// Whether the shell reports on the side-band.
    pub fn reports(&self) -> bool {
        self.kind != ShellKind::Sh
    }

    /// Puts a command to the shell. `script` is where a long one would be written.
    pub fn invoke(
        &self,
        command: &str,
        mode: ShellMode,
        preludes: &[Prelude],
        script: &Path,
    ) -> Invocation {
        let prologue = match self.kind {
            ShellKind::Zsh => ZSH_PROLOGUE,
            ShellKind::Bash => BASH_PROLOGUE,
            ShellKind::Sh => "",
        };
        let preludes: String = preludes
            .iter()
            .map(|prelude| self.source(prelude))
            .collect();
        if prologue.len() + preludes.len() + command.len() < LONGEST_ARGUMENT {
            let mut arguments: Vec<OsString> = mode.flags().iter().map(OsString::from).collect();
            arguments.push("-c".into());
            arguments.push(format!("{prologue}{preludes}{command}").into());
            return Invocation::Argument(arguments);
        }
        let remove = match self.kind {
            ShellKind::Zsh => REMOVE_SCRIPT,
            ShellKind::Bash | ShellKind::Sh => REMOVE_SCRIPT_PORTABLE,
        };
        // The check comes first, so that a syntax error runs nothing, as with `-c`.
        let flags = mode.flags().join(" ");
        let check_and_run = format!("\"$1\" -n \"$2\" && exec \"$1\" {flags} \"$2\"");
        let arguments: Vec<OsString> = vec![
            "-c".into(),
            check_and_run.into(),
            "zsh-tool".into(),
            self.path.clone().into(),
            script.into(),
        ];
        Invocation::Script {
            text: format!("{prologue}{remove}{preludes}{command}\n"),
            arguments,
        }
    }

    fn source(&self, prelude: &Prelude) -> String {
        let path = prelude.path.to_string_lossy();
        let quoted = shlex::try_quote(&path).unwrap_or_default();
        let errors = if prelude.show_errors {
            ""
        } else {
            " 2>/dev/null"
        };
        match self.kind {
            ShellKind::Zsh | ShellKind::Bash => format!("source {quoted}{errors}; "),
            // A missing file would end a POSIX shell.
            ShellKind::Sh => format!("[ -r {quoted} ] && . {quoted}{errors}; "),
        }
    }
}

/// What the prologue reported.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Report {
    /// The statuses of the last pipeline.
    pub pipestatus: Vec<i32>,
    /// The shell's directory at its end.
    pub directory: Option<PathBuf>,
}

impl Report {
    /// The shell's directory at its end, if it is another than at its start; one that is
    /// gone is another.
    pub fn moved_from(&self, start: &Path) -> Option<PathBuf> {
        let end = self.directory.as_ref()?;
        let same =
            end == start || std::fs::canonicalize(end).ok() == std::fs::canonicalize(start).ok();
        (!same).then(|| end.clone())
    }
}

/// Reads what came over the side-band: NUL-separated records. What does not parse is
/// passed over, since any program of the user may have written there.
pub fn read_report(bytes: &[u8]) -> Report {
    use std::os::unix::ffi::OsStrExt;
    let mut report = Report::default();
    let mut fields = bytes.split(|byte| *byte == 0);
    let directory = |field: &[u8]| PathBuf::from(std::ffi::OsStr::from_bytes(field));
    while let Some(field) = fields.next() {
        match field {
            b"T" => {
                report.pipestatus.clear();
                // The first number is the status itself.
                let mut first = true;
                for field in fields.by_ref() {
                    if field.starts_with(b"/") {
                        report.directory = Some(directory(field));
                        break;
                    }
                    let number = std::str::from_utf8(field)
                        .ok()
                        .and_then(|text| text.parse().ok());
                    match number {
                        Some(number) if !first => report.pipestatus.push(number),
                        Some(_) => first = false,
                        None => break,
                    }
                }
            }
            b"D" => {
                if let Some(field) = fields.next().filter(|field| field.starts_with(b"/")) {
                    report.directory = Some(directory(field));
                }
            }
            _ => {}
        }
    }
    report
}

/// The statuses to show: of two or more segments, and only when they agree with the
/// exit code, by their last or (`pipefail`) by their rightmost failure.
pub fn pipestatus_to_show(reported: Vec<i32>, exit: Exit) -> Vec<i32> {
    let code = exit.code();
    let rightmost_failure = reported.iter().rev().find(|status| **status != 0);
    let agrees = match reported.last() {
        Some(0) => code == 0 || rightmost_failure == Some(&code),
        Some(last) => *last == code,
        None => false,
    };
    if reported.len() >= 2 && agrees {
        reported
    } else {
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_are_read_in_any_mixture() {
        let table: &[(&[u8], &[i32], Option<&str>)] = &[
            (
                b"T\x001\x000\x001\x00/tmp\x00D\x00/tmp\x00",
                &[0, 1],
                Some("/tmp"),
            ),
            (b"D\x00/a b\x00", &[], Some("/a b")),
            (b"", &[], None),
            (b"garbage\x00T\x00x\x00", &[], None),
            (
                b"T\x000\x000\x00/first\x00T\x003\x003\x00/second\x00",
                &[3],
                Some("/second"),
            ),
            (b"T\x001\x00", &[], None),
        ];
        for (bytes, pipestatus, directory) in table {
            let report = read_report(bytes);
            assert_eq!(report.pipestatus, *pipestatus, "{bytes:?}");
            assert_eq!(report.directory, directory.map(PathBuf::from), "{bytes:?}");
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
            read_report(&bytes);
        }
    }
}
