//! How a shell is started. Pure.

use clap::ValueEnum;

/// Which startup files the shell reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ShellMode {
    /// The files of any shell (`.zshenv`).
    Plain,
    /// The files of a login shell too.
    Login,
    /// The files of an interactive shell too.
    Interactive,
}

/// A program that sets environment variables per directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, ValueEnum)]
pub enum EnvironmentTool {
    Direnv,
    Mise,
}

impl EnvironmentTool {
    /// The command that prints the variables as a JSON object, in which null unsets a variable.
    pub fn command_line(self) -> [&'static str; 3] {
        match self {
            EnvironmentTool::Direnv => ["direnv", "export", "json"],
            EnvironmentTool::Mise => ["mise", "env", "--json"],
        }
    }
}

impl ShellMode {
    /// The options that make the shell read those files.
    pub fn flags(self) -> &'static [&'static str] {
        match self {
            ShellMode::Plain => &[],
            ShellMode::Login => &["-l"],
            ShellMode::Interactive => &["-i"],
        }
    }
}
