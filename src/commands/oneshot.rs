//! `zsh-tool oneshot`: agent runs.

mod end;
mod flags;
mod follow;
mod list;
mod mistyped;
mod planning;
mod run;
mod screen;
mod show;
mod signals;
mod stop;
mod words;

use std::path::PathBuf;
use std::process::ExitCode;

use super::{output, setup};
use crate::cli::{OneshotArguments, OneshotCommand};
use crate::config::Config;
use crate::oneshot::sessions::{self, FindError, RunView};

/// The exit code of a wrong argument, an unknown run among them.
const EXIT_USAGE: u8 = 2;

/// Runs the command.
pub fn run(arguments: &OneshotArguments) -> ExitCode {
    match &arguments.command {
        Some(OneshotCommand::List { json }) => list::run(*json),
        Some(OneshotCommand::Show { id, json }) => show::run(id, *json),
        Some(OneshotCommand::Follow { id, json }) => follow::run(id, *json),
        Some(OneshotCommand::Stop { id }) => stop::run(id),
        None => run::run(&arguments.run),
    }
}

/// The state directory; says why there is none.
fn state_directory(config: Config) -> Option<PathBuf> {
    config.state_dir.map_err(output::complain).ok()
}

/// The run that is meant; says why there is none, with the exit code of that.
fn find(wanted: &str) -> Result<RunView, ExitCode> {
    let (config, _) = setup::load_config();
    let state = state_directory(config).ok_or(ExitCode::FAILURE)?;
    sessions::find(&state, wanted).map_err(|error| {
        output::complain(&error);
        match error {
            FindError::Load(_) => ExitCode::FAILURE,
            FindError::Unknown(_) | FindError::None | FindError::Ambiguous { .. } => {
                ExitCode::from(EXIT_USAGE)
            }
        }
    })
}
