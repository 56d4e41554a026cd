//! The agent programs that the user adds or changes: `executors: {NAME: {argv: […],
//! env: {…}, prompt_by: stdin|argument}}`.
//!
//! Limits: whether a name is one of the built-in executors is not known here, nor whether
//! a program is there. Values of `env` may be secret: they are neither printed nor quoted.

use std::fmt;

/// The key of the file.
#[allow(dead_code)]
pub(super) const KEY: &str = "executors";

/// How a program is given its prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PromptBy {
    /// On stdin, then its end.
    Stdin,
    /// As one of its arguments.
    Argument,
}

/// An executor of the configuration.
#[derive(Clone, PartialEq, Eq)]
pub struct UserExecutor {
    /// Its name: letters, digits, `-` and `_`.
    pub name: String,
    /// The program and its arguments; empty where only the rest is given.
    pub argv: Vec<String>,
    /// Variables beyond the environment that it gets anyway.
    pub env: Vec<(String, String)>,
    /// How it gets its prompt, where that is said.
    pub prompt_by: Option<PromptBy>,
}

impl fmt::Debug for UserExecutor {
    /// Without what the variables hold.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.env.iter().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("UserExecutor")
            .field("name", &self.name)
            .field("argv", &self.argv)
            .field("env", &names)
            .field("prompt_by", &self.prompt_by)
            .finish()
    }
}
