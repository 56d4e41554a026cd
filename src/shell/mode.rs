//! What a shell is started with. Pure.

use clap::ValueEnum;

/// Which startup files the shell reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ShellMode {
    /// Those of any shell (`.zshenv`).
    Plain,
    /// Those of a login shell too.
    Login,
    /// Those of an interactive shell too.
    Interactive,
}

/// A program that sets variables by directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, ValueEnum)]
pub enum EnvironmentTool {
    Direnv,
    Mise,
}

impl EnvironmentTool {
    /// The command that prints them, as a JSON object; a variable to unset is null.
    pub fn command_line(self) -> [&'static str; 3] {
        match self {
            EnvironmentTool::Direnv => ["direnv", "export", "json"],
            EnvironmentTool::Mise => ["mise", "env", "--json"],
        }
    }
}

impl ShellMode {
    /// The options by which the shell reads those files.
    pub fn flags(self) -> &'static [&'static str] {
        match self {
            ShellMode::Plain => &[],
            ShellMode::Login => &["-l"],
            ShellMode::Interactive => &["-i"],
        }
    }
}
