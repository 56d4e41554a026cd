//! The composition root: dispatches to the subcommands.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use crate::cli::{Arguments, Command};
use crate::commands;
use crate::process::pty;
use crate::text::foreign;

/// Started through a link with this name, the program runs the subcommand `oneshot`.
const ONESHOT: &str = "oneshot";

/// Parses the command line and runs the subcommand.
pub fn run() -> ExitCode {
    let words = with_implied_subcommand(std::env::args_os().collect());
    let arguments = match Arguments::try_parse_from(&words) {
        Ok(arguments) => arguments,
        Err(error) => {
            // An error names the word that is wrong. Help and version go to stdout and exit 0; usage
            // errors exit 2.
            let error = Arguments::try_parse_from(words.iter().map(shown)).err().unwrap_or(error);
            let _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    let Some(command) = arguments.command.or_else(default_command) else {
        let _ = Arguments::command().print_help();
        return ExitCode::from(2);
    };
    match command {
        Command::Serve { guarded } => commands::serve::run(guarded),
        Command::Shim { guarded } => commands::shim::run(guarded),
        Command::Far(arguments) => commands::far::run(arguments),
        Command::Exec(arguments) => commands::exec::run(&arguments),
        Command::Oneshot(arguments) => commands::oneshot::run(&arguments),
        Command::Config => commands::config::run(),
        Command::Setup(arguments) => commands::setup::run(&arguments),
        Command::Tasks { all, json } => commands::tasks::run(all, json),
        Command::Log(arguments) => commands::log::run(&arguments),
        Command::Kill(arguments) => commands::control::kill(&arguments),
        Command::Send(arguments) => commands::control::send(&arguments),
        Command::Events(arguments) => commands::events::run(&arguments),
        Command::Hook(command) => commands::events::hook(&command),
        Command::Attach(arguments) => commands::attach::run(&arguments),
        Command::RestoreTerminal => commands::attach::restore_terminal(),
        Command::Monitor { addr } => commands::monitor::run(addr),
        Command::Alan(command) => commands::alan::run(&command),
        Command::Manopt { words } => commands::manopt::run(&words),
        Command::Doctor { host } => commands::doctor::run(host.as_deref()),
        Command::AgentOpenai { model, base_url } => commands::agent_openai::run(model, base_url),
        Command::Help { words } => commands::help::run(&words),
        Command::Completions { shell } => commands::completions::run(shell),
        Command::Man => commands::man::run(),
    }
}

/// A word of the command line in which nothing acts on a terminal.
fn shown(word: &OsString) -> OsString {
    foreign::typed(&word.to_string_lossy()).into_owned().into()
}

/// Inserts the subcommand if the program was started under its name.
fn with_implied_subcommand(mut words: Vec<OsString>) -> Vec<OsString> {
    let name = words.first().map(Path::new).and_then(Path::file_name);
    if name == Some(OsStr::new(ONESHOT)) {
        words.insert(1, ONESHOT.into());
    }
    words
}

/// A client that starts the program without arguments expects the server; a person at a
/// terminal expects the help.
fn default_command() -> Option<Command> {
    (!pty::stdin_is_terminal()).then_some(Command::Serve { guarded: None })
}
