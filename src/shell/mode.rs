//! Which shell runs a command, and how it is started. Pure.

use clap::ValueEnum;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A shell that a caller may choose for a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ShellName {
    Zsh,
    Bash,
    Sh,
}

impl ShellName {
    pub fn as_str(self) -> &'static str {
        match self {
            ShellName::Zsh => "zsh",
            ShellName::Bash => "bash",
            ShellName::Sh => "sh",
        }
    }
}

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
