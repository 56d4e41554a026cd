//! `zsh-tool setup`: the server's entry in the settings of a client.
//!
//! `clients` knows where each client keeps it and what it looks like; `entry` changes the text, and only
//! what belongs to the entry. A file that it cannot read with certainty stays as it is: the entry is
//! printed for the person. `claude` carries the sandbox of Claude Code's settings over to this program's
//! configuration.

mod claude;
pub(crate) mod clients;
mod entry;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::ValueEnum;

use self::clients::{Client, Place};
use self::entry::{Change, NotCertain};
use super::output::{self, EXIT_USAGE};
use super::{permissions, shared};
use crate::cli::{ClientName, Printed, SetupArguments};
use crate::config;
use crate::process::files::{self, Temporary};
use crate::text::foreign::ShowPath;

/// What a client's instructions for a project say of this tool.
const AGENTS: &str = include_str!("../../data/help/agents.md");
/// The name of this program in PATH.
const PROGRAM: &str = "zsh-tool";
/// Directories of package managers' caches, whose programs go when others come.
const CACHES: [&str; 2] = ["_npx", ".cache"];
/// A larger file is no settings file.
const MAX_BYTES: u64 = 16 << 20;

/// Why a client was not set up.
#[derive(Debug, thiserror::Error)]
enum SetupError {
    #[error("no home directory: set HOME")]
    NoHome,
    #[error("this program's own path is not known: {0}")]
    NoProgram(io::Error),
    #[error(
        "{} would not be there for long, or cannot be written into settings: install zsh-tool in PATH and \
         set it up from there", .0.shown()
    )]
    NoLastingProgram(PathBuf),
    #[error(
        "Claude Code has this server by the plugin: a second entry would give it each tool twice"
    )]
    Plugin,
    #[error("{}: {cause}", .path.shown())]
    File { path: PathBuf, cause: io::Error },
    #[error("{}: {cause}, so it was left as it is. {advice}", .path.shown())]
    NotCertain { path: PathBuf, cause: NotCertain, advice: String },
    #[error("{0}")]
    Permissions(String),
    #[error("{}: {cause}, so it was left as it is. Put this into it:\n{section}", .path.shown())]
    OwnSandbox { path: PathBuf, cause: String, section: String },
}

/// Runs the command.
pub(crate) fn run(arguments: &SetupArguments) -> ExitCode {
    let env = |name: &str| std::env::var_os(name);
    if arguments.sandbox && arguments.client != Some(ClientName::Claude) {
        output::complain("--sandbox knows the settings of claude alone");
        return ExitCode::from(EXIT_USAGE);
    }
    let done = match (&arguments.print, arguments.client) {
        _ if arguments.sandbox => sandbox(arguments.print.is_some(), &env),
        (Some(Printed::Agents), None) => Ok(AGENTS.to_owned()),
        (Some(Printed::Agents), Some(_)) | (Some(Printed::Entry), None) => {
            output::complain(
                "pass --print agents alone, or the name of a client before --print for its entry",
            );
            return ExitCode::from(EXIT_USAGE);
        }
        (Some(Printed::Entry), Some(name)) => program().and_then(|program| {
            let client = Client::new(name, &env).ok_or(SetupError::NoHome)?;
            let Place { path, form } = &client.place;
            Ok(format!("{}:\n{}", path.shown(), form.alone(&client.entry(&program))))
        }),
        (None, Some(name)) => change(name, arguments.remove, &env),
        (None, None) => program().map(|program| list(&program, &env)),
    };
    match done {
        Ok(text) => output::conclude(output::print(&ended(text)), 0),
        Err(error) => output::failed(error),
    }
}

fn ended(mut text: String) -> String {
    if !text.ends_with('\n') {
        text.push('\n');
    }
    text
}

/// This program, as clients are to start it: by its name in PATH, which stays when a new version is
/// installed, or by its own path.
fn program() -> Result<PathBuf, SetupError> {
    let own = std::env::current_exe().map_err(SetupError::NoProgram)?;
    let search_path = std::env::var_os("PATH").unwrap_or_default();
    let is_own =
        |path: &PathBuf| path.is_absolute() && fs::canonicalize(path).is_ok_and(|it| it == own);
    let in_path = std::env::split_paths(&search_path).map(|folder| folder.join(PROGRAM));
    let program = in_path.into_iter().find(is_own).unwrap_or_else(|| own.clone());
    let lasts = |path: &Path| {
        let is_cached =
            |part: std::path::Component| CACHES.iter().any(|cache| part.as_os_str() == *cache);
        path.exists() && path.to_str().is_some() && !path.components().any(is_cached)
    };
    if lasts(&program) { Ok(program) } else { Err(SetupError::NoLastingProgram(program)) }
}

/// Adds the entry to a client's settings, or removes it.
fn change(name: ClientName, removes: bool, env: clients::Env<'_>) -> Result<String, SetupError> {
    let client = Client::new(name, env).ok_or(SetupError::NoHome)?;
    if !removes && client.has_plugin(env) {
        return Err(SetupError::Plugin);
    }
    let entry = if removes { String::new() } else { client.entry(&program()?) };
    let Place { path, form } = &client.place;
    let of_file = |cause| SetupError::File { path: path.clone(), cause };
    let before = read(path).map_err(of_file)?;
    let changed = if removes { form.without(&before) } else { form.with(&before, &entry) };
    let changed = changed.map_err(|cause| SetupError::NotCertain {
        path: path.clone(),
        cause,
        advice: if removes {
            "Remove the server zsh-tool from it by hand.".to_owned()
        } else {
            format!("Add to it:\n{}", form.alone(&entry))
        },
    })?;
    let (word, at) = (client.title, path.shown());
    Ok(match (changed, removes) {
        (Change::None, false) => format!("{word} has this entry already, in {at}"),
        (Change::None, true) => format!("{word} has no entry in {at}"),
        (Change::Text(text), _) => {
            write(path, &before, &text).map_err(of_file)?;
            if removes {
                format!("removed from {word}, in {at}; restart it")
            } else {
                format!(
                    "added to {word}, in {at}; restart it. To undo it: zsh-tool setup {} --remove",
                    name.word()
                )
            }
        }
    })
}

/// Carries Claude Code's sandbox over to the configuration, or only prints what that would be.
fn sandbox(only_prints: bool, env: clients::Env<'_>) -> Result<String, SetupError> {
    let path = config::path(env).ok_or(SetupError::NoHome)?;
    let project = shared::project_directory();
    let files = permissions::settings(&project).map_err(SetupError::Permissions)?;
    let (mut read_files, mut settings) = (Vec::new(), Vec::new());
    for (file, value) in files {
        let directory = file.parent().unwrap_or(&project);
        let base = if directory == project.join(".claude") { &project } else { directory };
        settings.push(claude::Settings { value, base: base.to_path_buf() });
        read_files.push(file.shown().to_string());
    }
    let found = claude::read(&settings, &project);
    let read_files = read_files.join(", ");
    if !found.is_enabled {
        let read = if read_files.is_empty() { "no settings".to_owned() } else { read_files };
        return Ok(format!(
            "Claude Code's sandbox is off (sandbox.enabled): nothing was changed. Read: {read}"
        ));
    }
    let section = found.section(&config::DENY_READ.map(PathBuf::from));
    let of_file = |cause| SetupError::File { path: path.clone(), cause };
    let before = read(&path).map_err(of_file)?;
    let mut text = if only_prints {
        format!("{}:\n{section}", path.shown())
    } else {
        let after = config::with_section(&before, "sandbox", &section).map_err(|cause| {
            SetupError::OwnSandbox { path: path.clone(), cause, section: section.clone() }
        })?;
        if after == before {
            format!("{} has this sandbox already:\n{section}", path.shown())
        } else {
            write(&path, &before, &after).map_err(of_file)?;
            format!("added to {}; servers that start from now on use it:\n{section}", path.shown())
        }
    };
    text += &format!("From {read_files}");
    if !found.left_out.is_empty() {
        text += "\nNot carried over:";
        text.extend(found.left_out.iter().map(|left| format!("\n  {left}")));
    }
    Ok(text)
}

/// Each client of this user that was found, and whether it has the entry.
fn list(program: &Path, env: clients::Env<'_>) -> String {
    let mut lines = Vec::new();
    for name in ClientName::value_variants().iter().copied() {
        let Some(client) = Client::new(name, env) else {
            continue;
        };
        let state = match found(&client, program, env) {
            None => "not found".to_owned(),
            Some(Found::Current) => "has the entry".to_owned(),
            Some(Found::Plugin) => "has this server by the plugin".to_owned(),
            Some(Found::Other) => "has an entry for another program".to_owned(),
            Some(Found::Missing) => format!("has no entry: zsh-tool setup {}", name.word()),
            Some(Found::Unreadable(cause)) => cause,
        };
        let at = client.place.path.shown();
        lines.push(format!("{:<9} {:<16} {state}  ({at})", name.word(), client.title));
    }
    lines.join("\n")
}

/// What was found of a client.
pub(crate) enum Found {
    /// It has an entry for this program.
    Current,
    /// It has the plugin, which brings the server.
    Plugin,
    /// It has another entry under the same name.
    Other,
    Missing,
    /// Why that is not known.
    Unreadable(String),
}

/// Whether a client of this user has the entry; `None` if there is no sign of the client.
pub(crate) fn found(client: &Client, program: &Path, env: clients::Env<'_>) -> Option<Found> {
    let Place { path, form } = &client.place;
    let text = match read(path) {
        Ok(text) => text,
        Err(cause) => return Some(Found::Unreadable(cause.to_string())),
    };
    if text.is_empty() && !client.is_installed(env) {
        return None;
    }
    let entry = client.entry(program);
    Some(match (form.with(&text, &entry), form.without(&text)) {
        (Ok(Change::None), _) => Found::Current,
        (Ok(_), Ok(Change::Text(_))) => Found::Other,
        _ if client.has_plugin(env) => Found::Plugin,
        (Ok(_), _) => Found::Missing,
        (Err(cause), _) => Found::Unreadable(cause.to_string()),
    })
}

/// The text of a file; empty if there is none.
fn read(path: &Path) -> io::Result<String> {
    match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(String::new()),
        Err(error) => return Err(error),
        Ok(found) if !found.is_file() => return Err(io::Error::other("it is no file")),
        Ok(found) if found.len() > MAX_BYTES => {
            return Err(io::Error::other("it is too large for settings"));
        }
        Ok(_) => {}
    }
    fs::read_to_string(path)
}

/// Replaces a file's text at once, unless the client has changed it since it was read. A link stays a
/// link, and the mode stays.
fn write(path: &Path, before: &str, text: &str) -> io::Result<()> {
    let target = match fs::canonicalize(path) {
        Ok(target) => target,
        Err(error) if error.kind() == io::ErrorKind::NotFound && !path.is_symlink() => {
            if let Some(directory) = path.parent() {
                fs::create_dir_all(directory)?;
            }
            path.to_path_buf()
        }
        Err(error) => return Err(error),
    };
    let mode = fs::metadata(&target).map(|found| found.permissions()).ok();
    // A name of its own: the usual one for a new text may be a file of the user.
    let beside = target.with_file_name(format!(".zsh-tool-{}", files::random_id()));
    let new = Temporary(beside);
    let mut file = files::create_private(&new.0)?;
    io::Write::write_all(&mut file, text.as_bytes())?;
    mode.map_or(Ok(()), |mode| file.set_permissions(mode))?;
    file.sync_all()?;
    if read(&target)? != before {
        return Err(io::Error::other("it was changed meanwhile: try again"));
    }
    fs::rename(&new.0, &target)
}
