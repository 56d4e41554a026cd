//! What an executor needs to know of a run, and what it makes of it.
//!
//! Limits: data, and the rules that hold for every prompt. Nothing is started here.

pub use crate::config::PromptBy;

/// What an agent is started for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// It does the work.
    Worker,
    /// It judges the work.
    Auditor,
}

impl Role {
    /// The word for it in `ONESHOT_ROLE`.
    pub fn word(self) -> &'static str {
        match self {
            Role::Worker => "worker",
            Role::Auditor => "auditor",
        }
    }
}

/// One start of an agent.
#[derive(Debug, Clone, Copy)]
pub struct Ids<'a> {
    /// The run.
    pub oneshot: &'a str,
    /// What for.
    pub role: Role,
    /// The run's iteration, from 1.
    pub iteration: u32,
    /// The id that the agent's own session gets, where the program takes one: a UUID.
    pub agent_session: &'a str,
    /// The model, where one is asked for.
    pub model: Option<&'a str>,
    /// The prompt.
    pub prompt: &'a str,
}

/// How an agent is started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Launch {
    /// The program and its arguments.
    pub argv: Vec<String>,
    /// What it reads on stdin, then its end; nothing where there is none.
    pub stdin: Option<String>,
    /// Variables beyond the environment that tasks get.
    pub environment: Vec<(String, String)>,
}
