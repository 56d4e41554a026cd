//! The settings that are one of a few words, and the words.

use std::path::Path;

use super::value::{Choice, Kind, Raw, expected};

/// How the shell reads its startup files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShellMode {
    /// Neither login nor interactive.
    Plain,
    /// A login shell (`-l`).
    Login,
    /// An interactive shell (`-i`).
    Interactive,
}

impl ShellMode {
    pub(crate) const WORDS: Choice<Self> = Choice(&[
        ("plain", Self::Plain),
        ("login", Self::Login),
        ("interactive", Self::Interactive),
    ]);
}

/// Where a task's output is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpoolMode {
    /// In files of the state directory.
    Disk,
    /// In memory, 4 MiB a task; nothing is written.
    Memory,
}

impl SpoolMode {
    pub(crate) const WORDS: Choice<Self> =
        Choice(&[("disk", Self::Disk), ("memory", Self::Memory)]);
}

/// When results are coloured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColorChoice {
    /// For clients that are known to show colours.
    Auto,
    /// For every client.
    Always,
    /// For none.
    Never,
}

impl ColorChoice {
    pub(crate) const WORDS: Choice<Self> = Choice(&[
        ("auto", Self::Auto),
        ("always", Self::Always),
        ("never", Self::Never),
    ]);
}

/// Which insights a result carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InsightChoice {
    /// Every one.
    All,
    /// Warnings, estimates and likeness to other commands.
    Useful,
}

impl InsightChoice {
    pub(crate) const WORDS: Choice<Self> = Choice(&[("all", Self::All), ("useful", Self::Useful)]);
}

/// Which calls a client that takes tasks of MCP's tasks extension gets as such.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskChoice {
    /// Those that ask for it, by `background: true`.
    Asked,
    /// Also those whose command still runs when they would return.
    Always,
    /// None.
    Off,
}

impl TaskChoice {
    pub(crate) const WORDS: Choice<Self> = Choice(&[
        ("asked", Self::Asked),
        ("always", Self::Always),
        ("off", Self::Off),
    ]);
}

/// Who judges whether an agent run gets on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JudgeChoice {
    /// Nobody is asked: the tracker's status decides.
    Heuristic,
    /// The OpenAI-compatible endpoint.
    Openai,
    /// The executor of this name.
    Command(String),
}

/// `heuristic`, `openai` or `command:NAME`.
pub(crate) struct JudgeWord;

impl JudgeWord {
    const COMMAND: &'static str = "command:";
}

impl Kind for JudgeWord {
    type Value = JudgeChoice;

    fn read(&self, raw: &Raw, _: Option<&Path>) -> Result<JudgeChoice, String> {
        let Raw::Text(text) = raw else {
            return expected("heuristic, openai or command:NAME", raw);
        };
        let text = text.trim();
        if let Some(name) = text.strip_prefix(JudgeWord::COMMAND) {
            let name = name.trim();
            return match name.is_empty() {
                true => expected("the name of an executor after command:", raw),
                false => Ok(JudgeChoice::Command(name.to_owned())),
            };
        }
        match text.to_ascii_lowercase().as_str() {
            "heuristic" => Ok(JudgeChoice::Heuristic),
            "openai" => Ok(JudgeChoice::Openai),
            _ => expected("heuristic, openai or command:NAME", raw),
        }
    }

    fn show(&self, value: &JudgeChoice) -> String {
        match value {
            JudgeChoice::Heuristic => "heuristic".to_owned(),
            JudgeChoice::Openai => "openai".to_owned(),
            JudgeChoice::Command(name) => format!("{}{name}", JudgeWord::COMMAND),
        }
    }
}

impl JudgeChoice {
    /// The choice of a word, as an argument of the command line gives it.
    ///
    /// # Errors
    /// What is expected, when it is none.
    pub fn of_word(word: &str) -> Result<JudgeChoice, String> {
        JudgeWord.read(&Raw::Text(word.to_owned()), None)
    }
}

/// What is done about an agent that is stuck for sure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StuckChoice {
    /// The user is asked at a terminal, else nothing is done.
    Auto,
    /// The user is asked; the agent goes on meanwhile.
    Ask,
    /// Nothing.
    Wait,
    /// It is ended and its work recovered.
    Recover,
    /// The run is given up.
    Fail,
}

impl StuckChoice {
    pub(crate) const WORDS: Choice<Self> = Choice(&[
        ("auto", Self::Auto),
        ("ask", Self::Ask),
        ("wait", Self::Wait),
        ("recover", Self::Recover),
        ("fail", Self::Fail),
    ]);

    /// The choice of this name.
    pub fn from_name(name: &str) -> Option<StuckChoice> {
        let mut words = Self::WORDS.0.iter();
        words
            .find(|(word, _)| *word == name)
            .map(|(_, choice)| *choice)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        let mut words = Self::WORDS.0.iter();
        words
            .find(|(_, choice)| *choice == self)
            .map_or("", |(word, _)| word)
    }
}

/// What the server's log holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// Nothing.
    Off,
    /// What went wrong.
    Error,
    /// And what may go wrong.
    Warn,
    /// And what was done, without command text.
    Info,
    /// And how, with command text.
    Debug,
    /// And every step.
    Trace,
}

impl LogLevel {
    pub(crate) const WORDS: Choice<Self> = Choice(&[
        ("off", Self::Off),
        ("error", Self::Error),
        ("warn", Self::Warn),
        ("info", Self::Info),
        ("debug", Self::Debug),
        ("trace", Self::Trace),
    ]);
}
