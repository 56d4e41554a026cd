//! Asks whether to use the settings that a project's `.oneshot.json` makes for a run. Consent is
//! remembered for this content of the file.

use std::io::{self, IsTerminal, Read, Write};
use std::path::Path;
use std::process::ExitCode;

use sha2::{Digest, Sha256};

use crate::commands::output::{self, failed, misused};
use crate::commands::shared;
use crate::config::{Config, Row, RunSettings};
use crate::process::files;
use crate::text::foreign::ShowPath;

/// The directory within the state directory that remembers consent.
const ANSWERS: &str = "trusted";

/// The option that consents in advance.
const OPTION: &str = "--trust-project";

/// Says what the project's file sets, and makes sure that the user agrees. Reports a refusal, and
/// returns its exit code.
pub(super) fn agree(
    config: &Config,
    settings: &RunSettings,
    is_trusted: bool,
) -> Result<(), ExitCode> {
    let rows = settings.project_rows();
    let Some(file) = settings.project.as_deref().filter(|_| !rows.is_empty()) else {
        return Ok(());
    };
    let settings: Vec<String> = rows.iter().map(setting).collect();
    let listed = format!("{} sets {}", file.shown(), settings.join(", "));
    if is_trusted {
        output::complain(&listed);
        return Ok(());
    }
    let answers = shared::state_directory(config)?.join(ANSWERS);
    let hash = content_hash(file, &rows);
    let answer =
        answers.join(hash.map_err(|error| {
            failed(format_args!("{} cannot be read again: {error}", file.shown()))
        })?);
    // A file that another user could have written is no consent.
    files::private_dir(answers.parent().unwrap_or(&answers)).map_err(failed)?;
    files::private_subdir(&answers).map_err(failed)?;
    if files::open_private(&answer).is_ok() {
        output::complain(&listed);
        return Ok(());
    }
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return Err(misused(format_args!(
            "{listed}; you have not agreed to that yet, and there is no terminal to ask on: \
             run it in a terminal once, or with {OPTION}"
        )));
    }
    if !ask(&listed).map_err(|error| failed(format_args!("cannot read the answer: {error}")))? {
        return Err(misused(format_args!("not run; without {} it would be", file.shown())));
    }
    let kept = files::replace_private(&answer, b"");
    kept.map_err(|error| failed(format_args!("cannot keep the answer: {error}")))
}

/// `max_iterations=8`.
fn setting(row: &Row) -> String {
    let key = row.key.rsplit('.').next().unwrap_or(row.key);
    format!("{key}={}", row.value)
}

/// The hash of the file's path, its content, and the keys that it decides for this run. The values
/// as listed would not do: long ones are cut.
fn content_hash(file: &Path, rows: &[Row]) -> io::Result<String> {
    let mut content = Vec::new();
    files::open_regular(file)?.read_to_end(&mut content)?;
    let mut hasher = Sha256::new();
    hasher.update(file.as_os_str().as_encoded_bytes());
    hasher.update([0]);
    hasher.update(Sha256::digest(content));
    rows.iter().for_each(|row| hasher.update(row.key));
    Ok(hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

fn ask(listed: &str) -> io::Result<bool> {
    let question = format!("zsh-tool: {listed}\nRun with that? It is asked once. [y/N] ");
    io::stderr().write_all(question.as_bytes())?;
    let mut line = String::new();
    io::stdin().read_line(&mut line)?;
    Ok(matches!(line.trim().to_lowercase().as_str(), "y" | "yes"))
}
