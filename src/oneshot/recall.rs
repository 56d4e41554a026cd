//! What a run's log still knows when the process that learned it is gone.

use std::io;

use serde_json::Value;

use super::log::{Kind, Line};
use super::log_reader;
use super::run::OpenRun;
use super::stage::{Role, State};

/// What the last worker did, as far as was found, if it was cut off.
///
/// # Errors
/// When the log cannot be read.
pub fn cut_off(run: &OpenRun) -> io::Result<Option<String>> {
    let pauses = |state| matches!(state, State::Interrupted | State::ReiterationPending);
    let mut entries = run.file().history.iter().rev();
    let before = entries.find(|entry| !pauses(entry.state));
    if before.is_none_or(|entry| entry.state != State::RecoveryPending) {
        return Ok(None);
    }
    let found = log_reader::newest(run.directory(), Kind::Recovered, u64::MAX)?;
    Ok(Some(text_of(found.as_ref(), "what")))
}

/// What the worker of an iteration said in the end, which may be nothing; none where it came
/// to no end that is known.
///
/// # Errors
/// When the log cannot be read.
pub fn result(run: &OpenRun, iteration: u32) -> io::Result<Option<String>> {
    let is_result = |line: &Line| {
        matches!(line.kind, Kind::Result | Kind::Recovered)
            && line.origin.role == Some(Role::Worker)
            && line.origin.iteration == Some(iteration)
            && line.data.get("text").is_some()
    };
    let found = log_reader::newest_that(run.directory(), u64::MAX, is_result, None)?;
    Ok(found.map(|line| text_of(Some(&line), "text")))
}

fn text_of(line: Option<&Line>, key: &str) -> String {
    let text = line.and_then(|line| line.data.get(key));
    let text = text.and_then(Value::as_str).unwrap_or_default();
    text.to_owned()
}
