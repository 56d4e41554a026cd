//! `zsh-tool alan`: the command history, for people and scripts.
//!
//! Safe while servers run: they share the store, and every change is a short transaction. Exit
//! codes: 0, or 1 when the database cannot be used, a line cannot be imported, or there is nothing
//! to delete.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::process::ExitCode;
use std::time::SystemTime;

use super::output::{self, Output, OutputError};
use super::shared;
use crate::alan::rows::JournalRow;
use crate::alan::store::admin::{Forget, Imported, Removed};
use crate::alan::store::{Store, StoreError};
use crate::cli::AlanCommand;
use crate::config::Config;
use crate::history::recorder::Recorder;
use crate::mcp::dispatch::ToolResult;
use crate::mcp::history_tools;
use crate::shell::command_line::CommandLine;
use crate::shell::dialect::Dialect;
use crate::text::foreign::{Foreign, ShowPath};
use crate::text::terminal_filter::TerminalFilter;

/// Rows per transaction of an import.
const IMPORT_CHUNK: usize = 1000;
/// The longest line of an import, in bytes; exported lines have a few kilobytes.
const LONGEST_LINE: u64 = 1 << 20;
/// Bytes of an export that are buffered before a write.
const EXPORT_BUFFER: usize = 64 * 1024;

/// Why the command failed.
#[derive(Debug, thiserror::Error)]
enum AlanError {
    #[error("there is no place for the database: set ZSH_TOOL_STATE_DIR or ALAN_DB_PATH")]
    NoPath,
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("cannot use the database {path}: {cause}")]
    Unusable { path: String, cause: String },
    #[error("cannot read {name}: {source}")]
    Input { name: String, source: io::Error },
    #[error("{name}, line {line}: {cause}; {} rows before it were imported, and doing so again is harmless", .before.added)]
    Line { name: String, line: usize, cause: String, before: Imported },
    #[error(
        "{0} is not in the history: `zsh-tool alan query` shows how a command's kind is written"
    )]
    Unknown(Foreign),
    #[error(transparent)]
    Output(#[from] OutputError),
}

pub(crate) fn run(command: &AlanCommand) -> ExitCode {
    let (config, _) = shared::load_config();
    shared::start_log(&config);
    let recorder = shared::recorder(&config, &shared::redactor(&config));
    let outcome = execute(command, &recorder, &config);
    recorder.close();
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(AlanError::Output(error)) => ExitCode::from(error.report()),
        Err(error) => {
            output::complain(error);
            ExitCode::FAILURE
        }
    }
}

fn execute(command: &AlanCommand, recorder: &Recorder, config: &Config) -> Result<(), AlanError> {
    let store = recorder.store();
    if store.path().as_os_str().is_empty() {
        return Err(AlanError::NoPath);
    }
    match command {
        AlanCommand::Path => say(&store.path().shown().to_string()),
        AlanCommand::Stats { json } => show(history_tools::stats(recorder)?, *json),
        AlanCommand::Query { json, command } => {
            let dialect = shared::supervisor(config).dialect(None);
            query(recorder, &command.join(" "), dialect, *json)
        }
        AlanCommand::Export => export(store),
        AlanCommand::Import { file } => import(store, file.as_deref()),
        AlanCommand::Prune => say(&removed(store.prune(SystemTime::now())?)),
        AlanCommand::Forget { pattern } => forget(recorder, &pattern.join(" ")),
    }
}

fn say(line: &str) -> Result<(), AlanError> {
    Ok(output::print(&format!("{line}\n"))?)
}

fn show(result: ToolResult, json: bool) -> Result<(), AlanError> {
    match result.structured {
        Some(structured) if json => say(&structured.to_string()),
        _ => say(&result.text),
    }
}

fn query(
    recorder: &Recorder,
    command: &str,
    dialect: Dialect,
    json: bool,
) -> Result<(), AlanError> {
    let result = history_tools::query(recorder, command, dialect);
    let status = recorder.store().status();
    // Without a database, "nothing known" would be misleading.
    if let Some(cause) = status.failure {
        let path = status.path.shown().to_string();
        return Err(AlanError::Unusable { path, cause });
    }
    show(result, json)
}

fn export(store: &Store) -> Result<(), AlanError> {
    let stdout = Output::stdout().map_err(OutputError::from)?;
    let mut stdout = stdout.filtered(TerminalFilter::for_record());
    let mut buffer: Vec<u8> = Vec::with_capacity(EXPORT_BUFFER);
    let exported = store.export(&mut |entry| {
        serde_json::to_writer(&mut buffer, &entry)
            .map_err(|error| OutputError::from(io::Error::from(error)))?;
        buffer.push(b'\n');
        if buffer.len() < EXPORT_BUFFER {
            return Ok(());
        }
        let written = stdout.write(&buffer);
        buffer.clear();
        written
    })?;
    exported?;
    Ok(stdout.write(&buffer)?)
}

fn import(store: &Store, file: Option<&Path>) -> Result<(), AlanError> {
    let name = file.map_or_else(|| "stdin".to_owned(), |path| path.shown().to_string());
    let input: Box<dyn Read> = match file {
        None => Box::new(io::stdin()),
        Some(path) => match File::open(path) {
            Ok(file) => Box::new(file),
            Err(source) => return Err(AlanError::Input { name, source }),
        },
    };
    let imported = import_lines(store, &name, BufReader::new(input))?;
    say(&format!("{} rows added, {} already known", imported.added, imported.known))
}

fn import_lines(store: &Store, name: &str, mut input: impl BufRead) -> Result<Imported, AlanError> {
    let mut sum = Imported::default();
    let mut line = 0;
    loop {
        let mut entries: Vec<JournalRow> = Vec::new();
        let read = read_chunk(&mut input, &mut line, &mut entries);
        // The rows before a faulty line are still imported.
        let imported = store.import(&entries)?;
        sum.added += imported.added;
        sum.known += imported.known;
        match read {
            Ok(true) => {}
            Ok(false) => return Ok(sum),
            Err(cause) => {
                return Err(AlanError::Line { name: name.to_owned(), line, cause, before: sum });
            }
        }
    }
}

/// Reads up to [`IMPORT_CHUNK`] rows, counting lines; returns whether there may be more.
fn read_chunk(
    input: &mut impl BufRead,
    line: &mut usize,
    entries: &mut Vec<JournalRow>,
) -> Result<bool, String> {
    let mut bytes = Vec::new();
    while entries.len() < IMPORT_CHUNK {
        *line += 1;
        bytes.clear();
        let read = input
            .take(LONGEST_LINE)
            .read_until(b'\n', &mut bytes)
            .map_err(|error| error.to_string())?;
        if read == 0 {
            return Ok(false);
        }
        if read as u64 == LONGEST_LINE && bytes.last() != Some(&b'\n') {
            return Err(format!("it is longer than {LONGEST_LINE} bytes"));
        }
        if bytes.trim_ascii().is_empty() {
            continue;
        }
        let entry = serde_json::from_slice(&bytes)
            .map_err(|error| format!("it is not a row of an export ({error})"))?;
        entries.push(entry);
    }
    Ok(true)
}

/// Deletes the command and the kind of command with this text: `ls *` may be either.
fn forget(recorder: &Recorder, pattern: &str) -> Result<(), AlanError> {
    let known = recorder.identify(&CommandLine::parse(pattern));
    let store = recorder.store();
    let command = store.forget(Forget::Command(&known.pattern.hash))?;
    let kind = store.forget(Forget::Template(known.redacted.text()))?;
    let all = Removed {
        observations: command.observations + kind.observations,
        others: command.others + kind.others,
    };
    if all == Removed::default() {
        return Err(AlanError::Unknown(known.redacted.into_text().into()));
    }
    say(&removed(all))
}

fn removed(removed: Removed) -> String {
    format!("{} observations and {} other rows removed", removed.observations, removed.others)
}
