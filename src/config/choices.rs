//! Settings that are one of a few words.

use std::path::Path;

use clap::ValueEnum;

use super::value::{Raw, ValueParser, expected};

pub use crate::shell::mode::{EnvironmentTool, ShellMode};

/// What environment commands start with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum EnvironmentChoice {
    /// The server's.
    Inherit,
    /// That of an interactive login shell.
    Login,
}

/// Where a task's output is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SpoolMode {
    /// In files of the state directory.
    Disk,
    /// In memory, 4 MiB a task; nothing is written.
    Memory,
}

/// When results are coloured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ColorChoice {
    /// For clients known to show colours.
    Auto,
    Always,
    Never,
}

/// Which insights a result carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum InsightChoice {
    /// Everything that the command history has to say.
    All,
    /// Warnings, and what the caller has not read elsewhere.
    Useful,
}

/// Which calls become tasks of MCP's tasks extension, if the client supports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum TaskChoice {
    /// Those with `background: true`.
    Asked,
    /// Also those whose command is still running when they would return.
    Always,
    Off,
}

/// Whether this program is installed on a host that does not have it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum InstallChoice {
    Auto,
    Never,
}

/// Which judge decides whether an agent run makes progress.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JudgeChoice {
    /// None: the tracker's status decides.
    Heuristic,
    /// The OpenAI-compatible endpoint.
    Openai,
    /// The executor of this name.
    Command(String),
}

/// `heuristic`, `openai` or `command:NAME`.
pub(crate) struct JudgeWord;

impl ValueParser for JudgeWord {
    type Value = JudgeChoice;

    fn read(&self, raw: &Raw, _: Option<&Path>) -> Result<JudgeChoice, String> {
        let text = raw.text().unwrap_or_default().trim();
        if let Some(name) = text.strip_prefix("command:") {
            return match name.trim() {
                "" => Err(expected("the name of an executor after command:", raw)),
                name => Ok(JudgeChoice::Command(name.to_owned())),
            };
        }
        match text.to_ascii_lowercase().as_str() {
            "heuristic" => Ok(JudgeChoice::Heuristic),
            "openai" => Ok(JudgeChoice::Openai),
            _ => Err(expected("heuristic, openai or command:NAME", raw)),
        }
    }

    fn show(&self, value: &JudgeChoice) -> String {
        match value {
            JudgeChoice::Heuristic => "heuristic".to_owned(),
            JudgeChoice::Openai => "openai".to_owned(),
            JudgeChoice::Command(name) => format!("command:{name}"),
        }
    }
}

impl JudgeChoice {
    /// Reads a choice as an argument of the command line gives it.
    ///
    /// # Errors
    /// What is expected, for any other word.
    pub(crate) fn of_word(word: &str) -> Result<JudgeChoice, String> {
        JudgeWord.read(&Raw::Text(word.to_owned()), None)
    }
}

/// What happens to an agent that is certainly stuck.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum StuckChoice {
    /// At a terminal the user is asked; otherwise nothing.
    Auto,
    /// The user is asked; the agent continues meanwhile.
    Ask,
    Wait,
    /// It is stopped and its work recovered.
    Recover,
    /// The run is given up.
    Fail,
}

impl StuckChoice {
    /// The choice of this name.
    pub(crate) fn from_name(name: &str) -> Option<StuckChoice> {
        StuckChoice::from_str(name, false).ok()
    }

    /// The name that a run's file holds.
    pub fn name(self) -> String {
        super::value::Choice::new().show(&self)
    }
}

/// What the server's log holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogLevel {
    Off,
    /// Errors.
    Error,
    /// Also warnings.
    Warn,
    /// Also what was done, without command text.
    Info,
    /// Also how, with command text.
    Debug,
    /// Also every step.
    Trace,
}
