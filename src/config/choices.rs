//! Settings that are one of a few words.

use std::path::Path;

use clap::ValueEnum;

use super::value::{Raw, ValueParser, expected};
use crate::text::foreign;

pub(crate) use crate::shell::mode::{EnvironmentTool, ShellMode};

/// The environment with which commands start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum EnvironmentChoice {
    /// The server's environment.
    Inherit,
    /// The environment of an interactive login shell.
    Login,
}

/// The dialect in which zsh reads the text of commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum DialectChoice {
    Zsh,
    /// Text for bash, as far as zsh's options reach.
    Bash,
}

/// What happens to a command that sets no deadline when it has run for the default one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum UnaskedDeadline {
    /// It is killed if it is stuck, silent or stopped, and continues otherwise.
    Judge,
    Kill,
}

/// Where to keep a task's output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum SpoolMode {
    /// In files of the state directory.
    Disk,
    /// In memory, 4 MiB per task; no file is written.
    Memory,
}

/// When to colour results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ColorChoice {
    /// For clients that are known to show colours.
    Auto,
    Always,
    Never,
}

/// Which insights a result contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum InsightChoice {
    /// All insights from the command history.
    All,
    /// Warnings, and insights that the caller has not read elsewhere.
    Useful,
}

/// Which calls become tasks of MCP's tasks extension, if the client supports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TaskChoice {
    /// Calls with `background: true`.
    OnRequest,
    /// Also calls whose command is still running when they would return.
    Always,
    Off,
}

/// Whether to install this program on a host that does not have it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum InstallChoice {
    Auto,
    Never,
}

/// Which judge decides whether an agent run makes progress.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum JudgeChoice {
    /// None: the tracker's status decides.
    Heuristic,
    /// The OpenAI-compatible endpoint.
    Openai,
    /// The executor with this name.
    Executor(String),
}

/// `heuristic`, `openai` or `command:NAME`.
pub(crate) struct JudgeParser;

impl ValueParser for JudgeParser {
    type Value = JudgeChoice;

    fn read(&self, raw: &Raw, _: Option<&Path>) -> Result<JudgeChoice, String> {
        let text = raw.text().unwrap_or_default().trim();
        if let Some(name) = text.strip_prefix("command:") {
            return match name.trim() {
                "" => Err(expected("the name of an executor after command:", raw)),
                name => Ok(JudgeChoice::Executor(name.to_owned())),
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
            JudgeChoice::Executor(name) => format!("command:{}", foreign::shown(name)),
        }
    }
}

impl JudgeChoice {
    /// Parses a choice from an argument of the command line.
    ///
    /// # Errors
    /// For any other word, with the expected words.
    pub(crate) fn parse(word: &str) -> Result<JudgeChoice, String> {
        JudgeParser.read(&Raw::Text(word.to_owned()), None)
    }
}

/// What to do about an agent that is certainly stuck.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum StuckChoice {
    /// At a terminal, ask the user; otherwise wait.
    Auto,
    /// Ask the user while the agent continues.
    Ask,
    Wait,
    /// Stop it and recover its work.
    Recover,
    /// Fail the run.
    Fail,
}

impl StuckChoice {
    /// The choice with this name.
    pub(crate) fn from_name(name: &str) -> Option<StuckChoice> {
        StuckChoice::from_str(name, false).ok()
    }

    /// The name in a run's file.
    pub(crate) fn name(self) -> String {
        super::value::Choice::new().show(&self)
    }
}

/// The level of the server's log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogLevel {
    Off,
    /// Errors.
    Error,
    /// Also warnings.
    Warn,
    /// Also actions, without command text.
    Info,
    /// Also details, with command text.
    Debug,
    /// Also every step.
    Trace,
}
