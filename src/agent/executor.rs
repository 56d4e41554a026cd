//! The agent programs that runs can use: see [`Executors`].

mod launch;

use crate::agent::activity::{Activity, AgentError};
use crate::agent::stream::{Framing, Record};
use crate::config::UserExecutor;

pub use crate::agent::storage::{Recovery, Reference};
pub use launch::{Ids, Launch, PromptBy, Role};

/// The class of a failure that a program tells only on stderr or in its final text.
pub fn classify_failure(stderr: &str, final_text: &str) -> Option<AgentError> {
    let _ = (stderr, final_text);
    todo!()
}

/// Cuts the middle out of a text that is longer than this many bytes, with a note.
pub fn cut_middle(text: &str, most: usize) -> String {
    let _ = most;
    text.to_owned()
}

/// The longest prompt that is passed as an argument: one argument holds 131,071 bytes.
pub const MAX_ARGUMENT_PROMPT: usize = 100 << 10;

/// An agent program: how it is started, what its output means, what it leaves.
#[derive(Debug)]
pub struct Executor {
    name: String,
}

impl Executor {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The program that must be there: a name in PATH or a path.
    pub fn program(&self) -> &str {
        todo!()
    }

    /// What to do where the program is missing: a sentence's end.
    pub fn install_hint(&self) -> &str {
        todo!()
    }

    /// How it gets its prompt. By argument, the whole prompt must stay within
    /// [`MAX_ARGUMENT_PROMPT`].
    pub fn prompt_by(&self) -> PromptBy {
        todo!()
    }

    /// How to start it.
    pub fn launch(&self, ids: &Ids<'_>) -> Launch {
        let _ = ids;
        todo!()
    }

    /// The shape of its stdout.
    pub fn framing(&self) -> Framing {
        todo!()
    }

    /// What a record of its stdout means.
    pub fn classify(&self, record: &Record) -> Vec<Activity> {
        let _ = record;
        todo!()
    }

    /// Whether all of its stdout is its final text, since it has no terminal event.
    pub fn final_text_is_stdout(&self) -> bool {
        todo!()
    }

    /// What its own storage shows.
    pub fn recover(&self, reference: &Reference<'_>) -> Recovery {
        let _ = reference;
        todo!()
    }
}

/// All executors, by name.
#[derive(Debug)]
pub struct Executors {
    all: Vec<Executor>,
}

/// Why a name stands for no executor.
#[derive(Debug, thiserror::Error)]
pub enum UnknownExecutor {
    /// There is none of this name.
    #[error("no executor {name:?}; there are {known}")]
    NoSuch {
        /// The name.
        name: String,
        /// The names that there are.
        known: String,
    },
}

/// Why there are no executors at all.
#[derive(Debug, thiserror::Error)]
#[error("the built-in list of executors is faulty: {0}")]
pub struct ListError(String);

impl Executors {
    /// The built-in ones, with what the user adds and changes.
    ///
    /// # Errors
    /// When the built-in list is faulty.
    pub fn new(user: &[UserExecutor]) -> Result<Executors, ListError> {
        let _ = user;
        Err(ListError(String::new()))
    }

    /// The executor of this name.
    ///
    /// # Errors
    /// When there is none, or when what the user configured of it cannot work.
    pub fn find(&self, name: &str) -> Result<&Executor, UnknownExecutor> {
        let found = self.all.iter().find(|executor| executor.name == name);
        found.ok_or_else(|| UnknownExecutor::NoSuch {
            name: name.to_owned(),
            known: self.names().collect::<Vec<_>>().join(", "),
        })
    }

    /// All names.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.all.iter().map(Executor::name)
    }
}
