//! `zsh_alan_stats`, `zsh_alan_query`, `zsh_neverhang_status` and `zsh_neverhang_reset`:
//! what is remembered, for reading and as JSON.
//!
//! Nothing is run and nothing recorded here, and no command is shown before it has been
//! redacted.

pub mod outputs;
pub mod words;

use serde::Serialize;
use serde_json::Value;

use self::outputs::{CircuitOutput, CircuitsOutput, QueryOutput, ResetOutput, StatsOutput};
use super::dispatch::{Answer, Outcome, Tools, read};
use super::overview::Overview;
use super::tools::{NoArguments, QueryArguments, ResetArguments, Tool};
use crate::alan::store::StoreError;
use crate::alan::store::breaker::Reset;
use crate::record::recorder::Recorder;

/// The length of a hash, by which a circuit may be named too.
const HASH_DIGITS: usize = 16;

/// What the database holds.
///
/// # Errors
/// When it cannot be read.
pub fn stats(recorder: &Recorder) -> Result<Overview, StoreError> {
    let counts = recorder.store().counts()?;
    let status = recorder.store().status();
    let output = StatsOutput::new(&status, counts, &recorder.circuits());
    Ok(overview(words::stats(&output), &output))
}

/// What is known of a command.
pub fn query(recorder: &Recorder, command: &str) -> Overview {
    let found = recorder.consult(command);
    let output = QueryOutput::from(&found);
    overview(words::query(&found, &output), &output)
}

/// All circuits.
pub fn circuits(recorder: &Recorder) -> Overview {
    let circuits = recorder.circuits();
    let output = CircuitsOutput {
        circuits: circuits.iter().map(CircuitOutput::from).collect(),
    };
    let rules = recorder.store().rules();
    overview(words::circuits(&circuits, rules), &output)
}

/// Closes the circuit of a command, which may be named by its hash, or all.
fn reset(recorder: &Recorder, command: Option<&str>) -> Reset {
    let hash = command.map(|command| match is_hash(command) {
        true => command.to_owned(),
        false => recorder.known(command).pattern.hash,
    });
    recorder.store().circuit_reset(hash.as_deref())
}

fn is_hash(text: &str) -> bool {
    text.len() == HASH_DIGITS
        && text
            .bytes()
            .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

impl Tools {
    /// Carries `zsh_alan_stats` out.
    pub(super) fn alan_stats(&self, tool: &Tool, arguments: Option<&Value>) -> Answer {
        read::<NoArguments>(tool, arguments)?;
        match stats(&self.recorder) {
            Ok(overview) => Ok(told(overview)),
            Err(error) => {
                let queued = self.recorder.store().status().queued;
                let memory = format!("what is learned stays in memory ({queued} records)");
                Err(format!("{error}: {memory}").into())
            }
        }
    }

    /// Carries `zsh_alan_query` out.
    pub(super) fn alan_query(&self, tool: &Tool, arguments: Option<&Value>) -> Answer {
        let (arguments, _) = read::<QueryArguments>(tool, arguments)?;
        let longest = self.config.max_command;
        if arguments.command.trim().is_empty() {
            return Err("command is empty: pass the command that is to be looked up".into());
        }
        if arguments.command.len() as u64 > longest {
            return Err(format!("command is longer than {longest} bytes (max_command)").into());
        }
        Ok(told(query(&self.recorder, &arguments.command)))
    }

    /// Carries `zsh_neverhang_status` out.
    pub(super) fn neverhang_status(&self, tool: &Tool, arguments: Option<&Value>) -> Answer {
        read::<NoArguments>(tool, arguments)?;
        Ok(told(circuits(&self.recorder)))
    }

    /// Carries `zsh_neverhang_reset` out.
    pub(super) fn neverhang_reset(&self, tool: &Tool, arguments: Option<&Value>) -> Answer {
        let (arguments, _) = read::<ResetArguments>(tool, arguments)?;
        let command = arguments.command.as_deref();
        let reset = reset(&self.recorder, command);
        let redacted = command.map(|command| self.recorder.known(command).redacted);
        let text = words::reset(&reset, redacted.as_deref());
        if reset.closed.is_empty() && reset.failure.is_some() {
            return Err(text.into());
        }
        Ok(told(overview(text, &ResetOutput::from(&reset))))
    }
}

fn told(overview: Overview) -> Outcome {
    let mut outcome = Outcome::text(overview.text);
    outcome.structured = Some(overview.structured);
    outcome
}

fn overview(text: String, output: &impl Serialize) -> Overview {
    Overview {
        text,
        // Structures of numbers and texts: they can always be written.
        structured: serde_json::to_value(output).unwrap_or_default(),
    }
}
