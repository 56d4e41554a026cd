//! The composition root: arguments and configuration become running parts.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use crate::cli::{Arguments, Command, ServeArguments};
use crate::commands;
use crate::process::pty;

/// The command that a link of this name stands for.
const ONESHOT: &str = "oneshot";

/// Runs the program.
pub fn run() -> ExitCode {
    let arguments = match Arguments::try_parse_from(words(std::env::args_os().collect())) {
        Ok(arguments) => arguments,
        Err(error) => {
            // Help and version are no errors and go to stdout; usage errors exit 2.
            let _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    let Some(command) = arguments.command.or_else(default_command) else {
        let _ = Arguments::command().print_help();
        return ExitCode::from(2);
    };
    match command {
        Command::Serve(arguments) => commands::serve::run(&arguments),
        Command::Exec(arguments) => commands::exec::run(&arguments),
        Command::Oneshot(arguments) => commands::oneshot::run(&arguments),
        Command::Config => commands::config::run(),
        Command::Tasks(arguments) => commands::tasks::run(&arguments),
        Command::Log(arguments) => commands::log::run(&arguments),
        Command::Monitor(arguments) => commands::monitor::run(&arguments),
        Command::Alan(command) => commands::alan::run(&command),
        Command::Manopt(arguments) => commands::manopt::run(&arguments),
        Command::Doctor => commands::doctor::run(),
        Command::AgentOpenai(arguments) => commands::agent_openai::run(&arguments),
        Command::Completions { shell } => commands::completions::run(shell),
    }
}

/// The words of the command line. Started under the name `oneshot`, by a link, the program
/// is that command.
fn words(mut words: Vec<OsString>) -> Vec<OsString> {
    let name = words.first().map(Path::new).and_then(Path::file_name);
    if name == Some(OsStr::new(ONESHOT)) {
        words.insert(1, ONESHOT.into());
    }
    words
}

/// A client that starts the program without arguments wants the server; a person at a
/// terminal wants to know what there is.
fn default_command() -> Option<Command> {
    (!pty::stdin_is_terminal()).then_some(Command::Serve(ServeArguments { guarded: false }))
}
