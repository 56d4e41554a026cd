//! The composition root: arguments and configuration become running parts.

use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use crate::cli::{Arguments, Command, ServeArguments};
use crate::commands;
use crate::process::pty;

/// Runs the program.
pub fn run() -> ExitCode {
    let arguments = match Arguments::try_parse() {
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
        Command::Config => commands::config::run(),
        Command::Tasks(arguments) => commands::tasks::run(&arguments),
        Command::Log(arguments) => commands::log::run(&arguments),
        Command::Monitor(arguments) => commands::monitor::run(&arguments),
        Command::Alan(command) => commands::alan::run(&command),
        Command::Manopt(arguments) => commands::manopt::run(&arguments),
        Command::Doctor => commands::doctor::run(),
        Command::Completions { shell } => commands::completions::run(shell),
    }
}

/// A client that starts the program without arguments wants the server; a person at a
/// terminal wants to know what there is.
fn default_command() -> Option<Command> {
    (!pty::stdin_is_terminal()).then_some(Command::Serve(ServeArguments { guarded: false }))
}
