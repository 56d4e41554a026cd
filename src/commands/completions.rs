//! `zsh-tool completions`: a shell's completion script for this program.

use std::process::ExitCode;

use clap::CommandFactory;
use clap_complete::Shell;

use super::output;
use crate::cli::Arguments;

/// Runs the command.
pub(crate) fn run(shell: Shell) -> ExitCode {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "zsh-tool", &mut script);
    let printed = output::print(&String::from_utf8_lossy(&script));
    output::conclude(printed, 0)
}
