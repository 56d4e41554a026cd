//! A command made ready for its shell: its arguments, its environment, what is sourced before
//! it, and the files that go with it.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use parking_lot::Mutex;

use super::journal::ServerDir;
use super::prologue::{ExportsReport, PrologueContext, StartupFile, WrappedCommand};
use super::request::StartError;
use super::shell::{Shell, ShellKind, SideBand};
use crate::process::files::{self, Temporary};
use crate::process::tree::COOKIE_VARIABLE;
use crate::shell::mode::ShellMode;
use crate::shell::reports::{self, Reportable};

/// Startup files that every zsh reads before the user's own.
const SYSTEM_STARTUP: &[&str] = &["/etc/zsh/zshenv", "/etc/zshenv"];

/// How much of a startup file is read; a longer one is assumed to do anything.
const STARTUP_BYTES: u64 = 64 * 1024;

/// What a command is prepared with.
#[derive(Debug, Clone, Copy)]
pub(super) struct LaunchContext<'a> {
    pub id: &'a str,
    pub shell: &'a Shell,
    pub mode: ShellMode,
    /// Sourced before the command.
    pub startup_files: &'a [StartupFile],
    pub environment: &'a [(OsString, OsString)],
    /// This server's directory, or why there is none.
    pub directory: Result<&'a ServerDir, &'a str>,
    /// Whether the exported variables are to be reported, for a session.
    pub reports_exports: bool,
}

/// A command that a shell can be started with. Dropping it removes its files.
#[derive(Debug)]
pub(super) struct Prepared {
    pub arguments: Vec<OsString>,
    /// The script of a long command.
    pub script: Option<Temporary>,
    /// Where the shell reports.
    pub sideband: Option<SideBand>,
}

/// Prepares a command. If a report is wanted and no pipe can be made, it runs without.
///
/// # Errors
/// The command is long and its script cannot be written, or a session's variables cannot be
/// reported.
pub(super) fn prepare(command: &str, with: &LaunchContext) -> Result<Prepared, StartError> {
    let sideband = report_of(command, with).and_then(|wanted| {
        let name = with.directory.map_or_else(
            |_| std::env::temp_dir().join(format!("zsh-tool-{}.report", files::random_id())),
            |directory| directory.path.join(format!("{}.report", with.id)),
        );
        Some((wanted, SideBand::create(name).ok()?))
    });
    let script = with.directory.map_or_else(
        |_| PathBuf::new(),
        |directory| directory.path.join(format!("{}.zsh", with.id)),
    );
    let mut programs = None;
    if with.reports_exports {
        let sideband = sideband.as_ref().filter(|_| with.shell.kind != ShellKind::Sh);
        let (_, sideband) = sideband.ok_or(StartError::NoSession)?;
        let search_path = search_path(with.environment);
        let find = |name| files::find_program(name, search_path).map_err(|_| StartError::NoSession);
        let room = Some(sideband.make_room()).filter(|room| *room > 0);
        programs = Some((find("env")?, find("head")?, room.ok_or(StartError::NoSession)?));
    }
    let surroundings = PrologueContext {
        mode: with.mode,
        startup_files: with.startup_files,
        script: &script,
        report: sideband.as_ref().map(|(wanted, sideband)| (*wanted, sideband.name())),
        exports: programs.as_ref().map(|(env, head, limit)| ExportsReport {
            env,
            head,
            limit: *limit,
        }),
    };
    let WrappedCommand { arguments, script: text } = surroundings.wrap(with.shell, command);
    let script = text.map(|text| write_script(&script, &text, with.directory)).transpose()?;
    Ok(Prepared { arguments, script, sideband: sideband.map(|(_, sideband)| sideband) })
}

fn write_script(
    path: &Path,
    text: &str,
    directory: Result<&ServerDir, &str>,
) -> Result<Temporary, StartError> {
    let failed = |source| StartError::Script { path: path.to_path_buf(), source };
    if let Err(cause) = directory {
        return Err(failed(std::io::Error::other(cause.to_owned())));
    }
    let mut file = files::create_private(path).map_err(failed)?;
    let script = Temporary(path.to_path_buf());
    file.write_all(text.as_bytes()).map_err(failed)?;
    Ok(script)
}

/// What this command's shell is to report, if anything. The command's text determines it for a
/// zsh that reads no other file, or only startup files that add nothing.
fn report_of(command: &str, with: &LaunchContext) -> Option<Reportable> {
    let own = match with.reports_exports {
        true => Reportable { shows_functions: false, ..Reportable::ALL },
        false => reports::reportable(command),
    };
    let is_known = with.shell.kind == ShellKind::Zsh
        && with.mode == ShellMode::Plain
        && with.startup_files.is_empty();
    let more = match is_known {
        true => added_by_startup(with.environment),
        false => Reportable::ALL,
    };
    let wanted = Reportable {
        pipestatus: own.pipestatus || more.pipestatus,
        directory: own.directory || more.directory,
        shows_functions: own.shows_functions,
    };
    (with.shell.kind != ShellKind::Sh && !wanted.is_nothing()).then_some(wanted)
}

/// What the startup files of a plain zsh add to the reports of its commands.
fn added_by_startup(environment: &[(OsString, OsString)]) -> Reportable {
    let value = |wanted: &str| {
        let found = environment.iter().find(|(name, _)| name == wanted);
        found.map(|(_, value)| value.as_os_str())
    };
    let home = value("ZDOTDIR").or(value("HOME")).unwrap_or(OsStr::new("/"));
    let own = Path::new(home).join(".zshenv");
    let system = SYSTEM_STARTUP.iter().map(PathBuf::from);
    let files = system.chain([own]).map(|path| added_by(&path));
    files.fold(Reportable::default(), |all, one| Reportable {
        pipestatus: all.pipestatus || one.pipestatus,
        directory: all.directory || one.directory,
        shows_functions: false,
    })
}

/// A missing file adds nothing.
fn added_by(path: &Path) -> Reportable {
    let Ok(file) = files::open_regular(path) else {
        return Reportable::default();
    };
    let mut text = Vec::new();
    match file.take(STARTUP_BYTES).read_to_end(&mut text) {
        Ok(length) if (length as u64) < STARTUP_BYTES => {
            reports::added_by_startup(&String::from_utf8_lossy(&text))
        }
        _ => Reportable::ALL,
    }
}

/// The startup files whose errors were shown, with their modification times.
#[derive(Debug, Default)]
pub(super) struct StartupFiles(Mutex<HashMap<PathBuf, Option<SystemTime>>>);

impl StartupFiles {
    /// The files that the next command sources. Errors are shown the first time, and again once
    /// the file has changed.
    pub fn due(&self, own: Option<&PathBuf>, client: Option<&PathBuf>) -> Vec<StartupFile> {
        // A missing file of the user's is an error that is shown; the client's exists only
        // when there is something in it.
        let client = client.filter(|path| path.is_file());
        own.into_iter()
            .chain(client)
            .map(|path| {
                let modified = std::fs::metadata(path).and_then(|found| found.modified()).ok();
                let shown = self.0.lock().insert(path.clone(), modified);
                StartupFile { show_errors: shown != Some(modified), path: path.clone() }
            })
            .collect()
    }
}

/// Makes programs print instead of starting a pager or asking at a prompt that no
/// user sees. Set in pipe mode, where the user has not decided otherwise.
const NON_INTERACTIVE: [(&str, &str); 5] = [
    ("PAGER", "cat"),
    ("GIT_PAGER", "cat"),
    ("MANPAGER", "cat"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GH_PROMPT_DISABLED", "1"),
];

/// The terminal that we emulate.
const TERMINAL: &str = "xterm-256color";

/// Secrets that clients give to their servers; commands must not have them.
const CLIENT_TOKENS: [&str; 1] = ["CLAUDE_CODE_MESSAGING_TOKEN"];

/// Where programs are looked up if PATH is not set, as the shells do.
const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// The PATH of the server's environment, in which it looks up the shell. A call's own additions
/// affect only its command.
pub fn search_path(environment: &[(OsString, OsString)]) -> &OsStr {
    environment
        .iter()
        .rev()
        .find(|(name, _)| name == "PATH")
        .map_or(OsStr::new(DEFAULT_PATH), |(_, value)| value)
}

/// Builds a command's environment from the server's.
pub fn environment(
    inherited: &[(OsString, OsString)],
    added: &[(String, String)],
    cookie: &str,
    on_terminal: bool,
) -> Vec<(OsString, OsString)> {
    let mut variables: Vec<(OsString, OsString)> = inherited
        .iter()
        .filter(|(name, _)| !CLIENT_TOKENS.iter().any(|token| name == token))
        .cloned()
        .collect();
    let is_set = |variables: &[(OsString, OsString)], name: &str| {
        variables.iter().any(|(known, value)| known == name && !value.is_empty())
    };
    if !["LC_ALL", "LC_CTYPE", "LANG"].iter().any(|name| is_set(&variables, name)) {
        set(&mut variables, "LANG", "C.UTF-8");
    }
    if on_terminal {
        set(&mut variables, "TERM", TERMINAL);
    } else {
        for (name, value) in NON_INTERACTIVE {
            if !variables.iter().any(|(known, _)| known == name) {
                set(&mut variables, name, value);
            }
        }
    }
    for (name, value) in added {
        set(&mut variables, name, value);
    }
    set(&mut variables, COOKIE_VARIABLE, cookie);
    variables
}

fn set(variables: &mut Vec<(OsString, OsString)>, name: &str, value: &str) {
    variables.retain(|(known, _)| known != OsStr::new(name));
    variables.push((name.into(), value.into()));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn built(
        inherited: &[(&str, &str)],
        added: &[(&str, &str)],
        on_terminal: bool,
    ) -> Vec<(String, String)> {
        let inherited: Vec<_> = inherited.iter().map(|(n, v)| (n.into(), v.into())).collect();
        let added: Vec<_> = added.iter().map(|(n, v)| ((*n).into(), (*v).into())).collect();
        environment(&inherited, &added, "i/t", on_terminal)
            .into_iter()
            .map(|(n, v)| (n.to_string_lossy().into_owned(), v.to_string_lossy().into_owned()))
            .collect()
    }

    fn value<'a>(variables: &'a [(String, String)], name: &str) -> Option<&'a str> {
        variables.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    #[test]
    fn the_user_decides_and_the_defaults_fill_in() {
        let variables = built(&[("PAGER", "less"), ("LANG", "de_DE.UTF-8")], &[], false);
        assert_eq!(value(&variables, "PAGER"), Some("less"));
        assert_eq!(value(&variables, "GIT_PAGER"), Some("cat"));
        assert_eq!(value(&variables, "LANG"), Some("de_DE.UTF-8"));
        assert_eq!(value(&variables, "ZSH_TOOL_TASK"), Some("i/t"));
    }

    #[test]
    fn a_terminal_gets_no_non_interactive_defaults() {
        let variables = built(&[("TERM", "dumb")], &[("EDITOR", "vi")], true);
        assert_eq!(value(&variables, "TERM"), Some("xterm-256color"));
        assert_eq!(value(&variables, "PAGER"), None);
        assert_eq!(value(&variables, "EDITOR"), Some("vi"));
        assert_eq!(value(&variables, "LANG"), Some("C.UTF-8"));
    }

    #[test]
    fn a_command_can_neither_see_client_tokens_nor_forge_the_cookie() {
        let variables =
            built(&[("CLAUDE_CODE_MESSAGING_TOKEN", "t")], &[("ZSH_TOOL_TASK", "other")], false);
        assert_eq!(value(&variables, "CLAUDE_CODE_MESSAGING_TOKEN"), None);
        assert_eq!(value(&variables, "ZSH_TOOL_TASK"), Some("i/t"));
    }
}
