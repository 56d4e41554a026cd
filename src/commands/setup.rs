//! `zsh-tool setup`: the server's entry in the settings of a client.
//!
//! `clients` knows where each client keeps it and what it looks like; `entry` changes the text, and only
//! what belongs to the entry. A file that it cannot read with certainty stays as it is: the entry is
//! printed for the person.

pub(crate) mod clients;
mod entry;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::ValueEnum;

use self::clients::{Client, Place};
use self::entry::{Change, NotCertain};
use super::output;
use crate::cli::{ClientName, SetupArguments};
use crate::process::files;
use crate::text::foreign::ShowPath;

/// What a client's instructions for a project say of this tool.
const AGENTS: &str = include_str!("../../data/help/agents.md");
/// A larger file is no settings file.
const MAX_BYTES: u64 = 16 << 20;

/// Why a client was not set up.
#[derive(Debug, thiserror::Error)]
enum SetupError {
    #[error("no home directory: set HOME")]
    NoHome,
    #[error("this program's own path is not known: {0}")]
    NoProgram(io::Error),
    #[error("{}: {cause}", .path.shown())]
    File { path: PathBuf, cause: io::Error },
    #[error("{}: {cause}, so it was left as it is. The entry is:\n{entry}", .path.shown())]
    NotCertain { path: PathBuf, cause: NotCertain, entry: String },
}

/// Runs the command.
pub(crate) fn run(arguments: &SetupArguments) -> ExitCode {
    let env = |name: &str| std::env::var_os(name);
    let done = match (&arguments.print, arguments.client) {
        (Some(what), None) if what == "agents" => Ok(AGENTS.to_owned()),
        (Some(what), None) => {
            output::complain(format_args!(
                "there is nothing called {what:?} to print: pass agents, or the name of a client before \
                 --print"
            ));
            return ExitCode::from(2);
        }
        (Some(_), Some(name)) => program().and_then(|program| {
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

/// This program, as clients are to start it.
fn program() -> Result<PathBuf, SetupError> {
    std::env::current_exe().map_err(SetupError::NoProgram)
}

/// Adds the entry to a client's settings, or removes it.
fn change(name: ClientName, removes: bool, env: clients::Env<'_>) -> Result<String, SetupError> {
    let client = Client::new(name, env).ok_or(SetupError::NoHome)?;
    let entry = client.entry(&program()?);
    let Place { path, form } = &client.place;
    let of_file = |cause| SetupError::File { path: path.clone(), cause };
    let text = read(path).map_err(of_file)?;
    let changed = if removes { form.without(&text) } else { form.with(&text, &entry) };
    let changed = changed.map_err(|cause| SetupError::NotCertain {
        path: path.clone(),
        cause,
        entry: form.alone(&entry),
    })?;
    let (word, at) = (client.title, path.shown());
    Ok(match (changed, removes) {
        (Change::None, false) => format!("{word} has this entry already, in {at}"),
        (Change::None, true) => format!("{word} has no entry in {at}"),
        (Change::Text(text), _) => {
            write(path, &text).map_err(of_file)?;
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
            Some(Found::Other) => "has an entry for another program or another version".to_owned(),
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
    /// It has the entry for this program.
    Current,
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

/// Replaces a file's text at once. A link stays a link, and the mode stays.
fn write(path: &Path, text: &str) -> io::Result<()> {
    let target = match fs::canonicalize(path) {
        Ok(target) => target,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            if let Some(directory) = path.parent() {
                fs::create_dir_all(directory)?;
            }
            path.to_path_buf()
        }
        Err(error) => return Err(error),
    };
    let mode = fs::metadata(&target).map(|found| found.permissions()).ok();
    files::replace_durably(&target, |file| {
        io::Write::write_all(file, text.as_bytes())?;
        mode.map_or(Ok(()), |mode| file.set_permissions(mode))
    })
}
