//! Prepares a command for its shell: its arguments, what is sourced before it, and its files.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use parking_lot::Mutex;

use super::prologue::{ExportsReport, KEY_VARIABLE, PrologueContext, ReportContext, StartupFile};
use super::request::StartError;
use super::shell::{Shell, ShellKind, SideBand};
use crate::process::files::{self, FileVersion, Temporary};
use crate::shell::command_line::CommandLine;
use crate::shell::mode::ShellMode;
use crate::shell::reports::{self, Reportable};

/// Startup files that every zsh reads before the user's own.
const SYSTEM_STARTUP: &[&str] = &["/etc/zsh/zshenv", "/etc/zshenv"];

/// How much of a startup file is read; a longer one is assumed to do anything.
const STARTUP_BYTES: u64 = 64 * 1024;

/// What a command is prepared with.
#[derive(Debug, Clone, Copy)]
pub(super) struct LaunchContext<'a> {
    pub(crate) id: &'a str,
    pub(crate) shell: &'a Shell,
    pub(crate) mode: ShellMode,
    pub(crate) takes_bash: bool,
    /// Sourced before the command.
    pub(crate) startup_files: &'a [StartupFile],
    pub(crate) startup_cache: &'a StartupFileCache,
    pub(crate) environment: &'a [(OsString, OsString)],
    /// The PATH in which the programs that report are found: a session may have changed it.
    pub(crate) search_path: &'a OsStr,
    /// The directory for its files, or why there is none.
    pub(crate) directory: Result<&'a Path, &'a str>,
    /// Whether the exported variables are to be reported, for a session.
    pub(crate) reports_exports: bool,
}

/// A command that a shell can be started with. Dropping it removes its files.
#[derive(Debug)]
pub(super) struct Prepared {
    pub(crate) arguments: Vec<OsString>,
    /// What is added to its environment.
    pub(crate) variables: Vec<(OsString, OsString)>,
    /// The script of a long command, and bash's startup file.
    pub(crate) files: Vec<Temporary>,
    /// Where the shell reports.
    pub(crate) sideband: Option<SideBand>,
}

/// Prepares a command. If a report is wanted and no pipe can be made, the command runs without.
///
/// # Errors
/// The command is long and its script cannot be written, or a session's variables cannot be
/// reported.
pub(super) fn prepare(command: &CommandLine, with: &LaunchContext) -> Result<Prepared, StartError> {
    // There bash reads no startup file, and is to find neither one nor a key.
    let is_posix = |(name, _): &(OsString, OsString)| name == "POSIXLY_CORRECT";
    let posix = (with.shell.kind == ShellKind::Bash && with.environment.iter().any(is_posix))
        .then(|| Shell { kind: ShellKind::Sh, ..with.shell.clone() });
    let with = &LaunchContext { shell: posix.as_ref().unwrap_or(with.shell), ..*with };
    let sideband = report_of(command, with)
        .and_then(|wanted| Some((wanted, SideBand::create(temporary_name(with, "report")).ok()?)));
    let script = with
        .directory
        .map_or_else(|_| PathBuf::new(), |directory| directory.join(format!("{}.zsh", with.id)));
    let startup = temporary_name(with, "bash");
    let mut programs = None;
    if with.reports_exports {
        let sideband = sideband.as_ref().filter(|_| with.shell.kind != ShellKind::Sh);
        let (_, sideband) = sideband.ok_or(StartError::NoSession)?;
        let find =
            |name| files::find_program(name, with.search_path).map_err(|_| StartError::NoSession);
        let room = Some(sideband.make_room()).filter(|room| *room > 0);
        programs = Some((find("env")?, find("head")?, room.ok_or(StartError::NoSession)?));
    }
    let surroundings = PrologueContext {
        mode: with.mode,
        takes_bash: with.takes_bash,
        startup_files: with.startup_files,
        script: &script,
        startup: &startup,
        environment: with.environment,
        report: sideband
            .as_ref()
            .map(|(wanted, sideband)| ReportContext { wanted: *wanted, pipe: sideband.name() }),
        exports: programs.as_ref().map(|(env, head, limit)| ExportsReport {
            env,
            head,
            limit: *limit,
        }),
    };
    let wrapped = surroundings.wrap(with.shell, command.text());
    let script = wrapped.script.map(|text| write_script(&script, &text, with.directory));
    let startup = wrapped.startup.map(|text| {
        write_private(&startup, &text)
            .map_err(|source| StartError::StartupFile { path: startup.clone(), source })
    });
    let files = script.into_iter().chain(startup).collect::<Result<Vec<_>, _>>()?;
    let sideband = sideband.map(|(_, sideband)| sideband);
    let key = |sideband: &SideBand| (KEY_VARIABLE.into(), sideband.key().into());
    let variables = sideband.as_ref().map(key).into_iter().chain(wrapped.variables).collect();
    Ok(Prepared { arguments: wrapped.arguments, variables, files, sideband })
}

fn write_script(
    path: &Path,
    text: &str,
    directory: Result<&Path, &str>,
) -> Result<Temporary, StartError> {
    let failed = |source| StartError::Script { path: path.to_path_buf(), source };
    if let Err(cause) = directory {
        return Err(failed(std::io::Error::other(cause.to_owned())));
    }
    write_private(path, text).map_err(failed)
}

fn write_private(path: &Path, text: &str) -> std::io::Result<Temporary> {
    let mut file = files::create_private(path)?;
    let written = Temporary(path.to_path_buf());
    file.write_all(text.as_bytes())?;
    Ok(written)
}

/// The name of a file that a command needs also where this server has no directory.
fn temporary_name(with: &LaunchContext, ending: &str) -> PathBuf {
    with.directory.map_or_else(
        |_| std::env::temp_dir().join(format!("zsh-tool-{}.{ending}", files::random_id())),
        |directory| directory.join(format!("{}.{ending}", with.id)),
    )
}

/// What this command's shell is to report, if anything. The command's text alone decides if zsh
/// reads no startup file. Otherwise what those files add is reported too, or everything where that
/// is not known.
fn report_of(command: &CommandLine, with: &LaunchContext) -> Option<Reportable> {
    let own = if with.reports_exports {
        Reportable { shows_functions: false, ..Reportable::ALL }
    } else {
        reports::reportable(command)
    };
    let is_known = with.shell.kind == ShellKind::Zsh
        && with.mode == ShellMode::Plain
        && with.startup_files.is_empty();
    let more = if is_known { with.startup_cache.added(with.environment) } else { Reportable::ALL };
    let wanted = Reportable {
        pipestatus: own.pipestatus || more.pipestatus,
        directory: own.directory || more.directory,
        shows_functions: own.shows_functions,
    };
    (with.shell.kind != ShellKind::Sh && !wanted.is_nothing()).then_some(wanted)
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

/// What is known of startup files.
#[derive(Debug, Default)]
pub(super) struct StartupFileCache {
    /// The files whose errors were shown, by their version then.
    shown: Mutex<HashMap<PathBuf, Option<FileVersion>>>,
    /// What the files add to reports, by their version then.
    added: Mutex<HashMap<PathBuf, (FileVersion, Reportable)>>,
}

impl StartupFileCache {
    /// The files that the next command sources. Errors are shown the first time, and again once
    /// the file has changed.
    pub(super) fn due<'a>(&self, files: impl Iterator<Item = &'a PathBuf>) -> Vec<StartupFile> {
        files
            .map(|path| {
                let version = files::version(path);
                let shown = self.shown.lock().insert(path.clone(), version);
                StartupFile { show_errors: shown != Some(version), path: path.clone() }
            })
            .collect()
    }

    /// What the startup files of a plain zsh add to the reports of its commands.
    fn added(&self, environment: &[(OsString, OsString)]) -> Reportable {
        let value = |wanted: &str| {
            let found = environment.iter().find(|(name, _)| name == wanted);
            found.map(|(_, value)| value.as_os_str())
        };
        let home = value("ZDOTDIR").or(value("HOME")).unwrap_or(OsStr::new("/"));
        let own = Path::new(home).join(".zshenv");
        let system = SYSTEM_STARTUP.iter().map(PathBuf::from);
        let files = system.chain([own]).map(|path| self.added_by(path));
        files.fold(Reportable::default(), |all, one| Reportable {
            pipestatus: all.pipestatus || one.pipestatus,
            directory: all.directory || one.directory,
            shows_functions: false,
        })
    }

    fn added_by(&self, path: PathBuf) -> Reportable {
        let Some(version) = files::version(&path) else {
            return added_by(&path);
        };
        let known = self.added.lock().get(&path).filter(|(known, _)| *known == version).copied();
        if let Some((_, added)) = known {
            return added;
        }
        let added = added_by(&path);
        self.added.lock().insert(path, (version, added));
        added
    }
}
