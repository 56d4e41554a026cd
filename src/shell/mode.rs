//! How a shell is started. Pure.

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
