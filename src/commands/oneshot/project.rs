//! Asks whether the settings that a project's file makes for a run are to be used. The answer is
//! kept for that file with these settings.

use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use sha2::{Digest, Sha256};

use super::run::{failed, misused};
use crate::commands::{output, setup};
use crate::config::{Config, Row, RunSettings};
use crate::process::files::{self, PrivateDirError};
use crate::text::foreign::ShowPath;

/// The directory of the answers within the state directory.
const ANSWERS: &str = "trusted";

/// The option that answers in advance.
const OPTION: &str = "--trust-project";

/// Says what the project's file sets, and makes sure that the user agrees. Reports a refusal, and
/// returns its exit code.
pub(super) fn agree(
    config: &Config,
    settings: &RunSettings,
    is_trusted: bool,
) -> Result<(), ExitCode> {
    let rows = settings.of_project();
    let Some(file) = settings.project.as_deref().filter(|_| !rows.is_empty()) else {
        return Ok(());
    };
    let rows: Vec<String> = rows.iter().map(setting).collect();
    let listed = format!("{} sets {}", file.shown(), rows.join(", "));
    if is_trusted {
        output::complain(&listed);
        return Ok(());
    }
    let answers = setup::state_directory(config)?.join(ANSWERS);
    let answer = answers.join(content_hash(file, &rows));
    if answer.exists() {
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
    keep(&answers, &answer).map_err(failed)
}

/// `max_iterations=8`.
fn setting(row: &Row) -> String {
    let key = row.key.rsplit('.').next().unwrap_or(row.key);
    format!("{key}={}", row.value)
}

fn content_hash(file: &Path, rows: &[String]) -> String {
    let mut hasher = Sha256::new();
    hasher.update(file.as_os_str().as_encoded_bytes());
    for row in rows {
        hasher.update([0]);
        hasher.update(row);
    }
    hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

fn ask(listed: &str) -> io::Result<bool> {
    let question = format!("zsh-tool: {listed}\nRun with that? It is asked once. [y/N] ");
    io::stderr().write_all(question.as_bytes())?;
    let mut line = String::new();
    io::stdin().read_line(&mut line)?;
    Ok(matches!(line.trim().to_lowercase().as_str(), "y" | "yes"))
}

fn keep(answers: &Path, answer: &Path) -> Result<(), PrivateDirError> {
    files::private_subdir(answers)?;
    let failed = |error| PrivateDirError::Io(PathBuf::from(answers), error);
    files::replace_private(answer, b"").map_err(failed)
}
