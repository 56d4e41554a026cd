//! `zsh-tool oneshot`: agent runs.

mod agents;
mod end;
mod follow;
mod mistyped;
mod planning;
mod project;
mod run;
mod screen;
pub(crate) mod show;
mod words;

use std::process::ExitCode;

use super::output::{self, EXIT_USAGE};
use super::shared;
use crate::base::clock::{Clock, SystemClock};
use crate::cli::{OneshotArguments, OneshotCommand};
use crate::config::Config;
use crate::oneshot::sessions::{self, FindError, RunView, StopOutcome};

/// Runs the command.
pub(crate) fn run(arguments: &OneshotArguments) -> ExitCode {
    let (config, warnings) = shared::load_config();
    let result = match &arguments.command {
        Some(OneshotCommand::List { json }) => show::list(&config, *json),
        Some(OneshotCommand::Show { id, diff: Some(iteration), .. }) => {
            show::diff(&config, id, *iteration)
        }
        Some(OneshotCommand::Show { id, json, diff: None }) => show::show(&config, id, *json),
        Some(OneshotCommand::Follow { id, json }) => follow::run(&config, id, *json),
        Some(OneshotCommand::Agents { json }) => agents::list(&config, *json),
        Some(OneshotCommand::Stop { id }) => stop(&config, id),
        None => run::run(&config, warnings, &arguments.run),
    };
    result.unwrap_or_else(|code| code)
}

/// The run with this id. Reports an error, and returns its exit code.
fn find(config: &Config, wanted: &str) -> Result<RunView, ExitCode> {
    sessions::find(shared::state_directory(config)?, wanted).map_err(|error| {
        output::complain(&error);
        match error {
            FindError::Load(_) => ExitCode::FAILURE,
            FindError::Unknown(_) | FindError::None | FindError::Ambiguous { .. } => {
                ExitCode::from(EXIT_USAGE)
            }
        }
    })
}

/// Ends a run for good, whichever process runs it.
fn stop(config: &Config, id: &str) -> Result<ExitCode, ExitCode> {
    let run = find(config, id)?;
    let redactor = shared::redactor(config);
    match sessions::stop(&run.directory, redactor, SystemClock.now()) {
        Ok(stopped) => {
            let text = format!("{}: {}\n", run.id(), describe_stop(stopped));
            Ok(output::conclude(output::print(&text), 0))
        }
        Err(error) => {
            output::complain(format_args!("{}: {error}", run.id()));
            Err(ExitCode::FAILURE)
        }
    }
}

fn describe_stop(stopped: StopOutcome) -> String {
    match stopped {
        StopOutcome::ByRunner { state } => format!("stopped, {state}"),
        StopOutcome::Here { survivors: 0 } => "stopped; it was not running".to_owned(),
        StopOutcome::Here { survivors: 1 } => {
            "stopped; it was not running, and 1 process that it left behind was ended".to_owned()
        }
        StopOutcome::Here { survivors } => {
            format!(
                "stopped; it was not running, and {survivors} processes that it left behind were ended"
            )
        }
    }
}
