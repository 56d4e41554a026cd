//! `zsh-tool oneshot stop`: ends a run for good, whoever runs it.

use std::process::ExitCode;

use super::find;
use crate::base::clock::{Clock, SystemClock};
use crate::commands::{output, setup};
use crate::oneshot::sessions::{self, Stopped};

/// Runs the command.
pub(super) fn run(id: &str) -> ExitCode {
    let run = match find(id) {
        Ok(run) => run,
        Err(code) => return code,
    };
    let (config, _) = setup::load_config();
    let redactor = setup::redactor(&config);
    match sessions::stop(&run.directory, redactor, SystemClock.now()) {
        Ok(stopped) => {
            let text = format!("{}: {}\n", run.id(), describe(stopped));
            output::conclude(output::print(&text), 0)
        }
        Err(error) => {
            output::complain(format_args!("{}: {error}", run.id()));
            ExitCode::FAILURE
        }
    }
}

fn describe(stopped: Stopped) -> String {
    match stopped {
        Stopped::ByRunner { state } => format!("stopped, {state}"),
        Stopped::Here { survivors: 0 } => "stopped; nobody ran it".to_owned(),
        Stopped::Here { survivors: 1 } => {
            "stopped; nobody ran it, 1 process that was left has been ended".to_owned()
        }
        Stopped::Here { survivors } => {
            format!("stopped; nobody ran it, {survivors} processes that were left have been ended")
        }
    }
}
