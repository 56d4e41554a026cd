//! How to launch an executor for a run. Pure.
//!
//! Limits: starts no process.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

pub use crate::config::PromptBy;

/// The role of an agent in a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// It does the work.
    Worker,
    /// It judges the result.
    Auditor,
}

impl Role {
    /// `worker` or `auditor`.
    pub fn name(self) -> &'static str {
        match self {
            Role::Worker => "worker",
            Role::Auditor => "auditor",
        }
    }
}

/// The longest prompt passed as an argument: Linux limits an argument to 131,071 bytes
/// (`MAX_ARG_STRLEN`), and quoting takes some of them.
pub const MAX_ARGUMENT_PROMPT: usize = 100 << 10;

/// One start of an agent.
#[derive(Debug, Clone, Copy)]
pub struct Ids<'a> {
    pub oneshot: &'a str,
    pub role: Role,
    /// The run's iteration, from 1.
    pub iteration: u32,
    /// A UUID for the agent's own session, for programs that take one.
    pub agent_session: &'a str,
    /// The model, if the run chooses one.
    pub model: Option<&'a str>,
    pub prompt: &'a str,
    /// A file with the prompt, for programs that cannot get one of this length otherwise.
    pub prompt_file: Option<&'a str>,
    /// Whether a worker gets the permission to change files.
    pub allow_edits: bool,
}

/// The variable that names the run for an agent and its processes.
pub(super) const ID_VARIABLE: &str = "ONESHOT_ID";

/// How an agent is started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Launch {
    /// The program and its arguments.
    pub argv: Vec<String>,
    /// The contents of stdin; `None` for an empty stdin.
    pub stdin: Option<String>,
    /// Variables in addition to the environment of tasks.
    pub environment: Vec<(String, String)>,
}

impl Launch {
    /// The id of the run.
    pub fn run(&self) -> Option<&str> {
        let mut variables = self.environment.iter();
        let (_, run) = variables.find(|(name, _)| name == ID_VARIABLE)?;
        Some(run)
    }
}

/// A command line that replaces the shell with the program, so that the program's wait status is
/// the task's.
pub(crate) fn exec_line(argv: &[String]) -> String {
    let quoted = argv.iter().map(|word| {
        let word = word.replace('\0', "");
        format!(" '{}'", word.replace('\'', r"'\''"))
    });
    format!("exec{}", quoted.collect::<String>())
}

/// The prompt that sends a program to the file with its prompt.
pub(super) fn in_file(file: &str) -> String {
    format!("Your task is in the file {file}. Read all of that file first, then do what it says.")
}

/// A prompt without NUL, which an argument cannot contain and no program expects.
pub(super) fn clean(prompt: &str) -> Cow<'_, str> {
    if prompt.contains('\0') {
        return Cow::Owned(prompt.replace('\0', ""));
    }
    Cow::Borrowed(prompt)
}

/// Cuts the middle out of a text longer than `limit` bytes, with a note of how much is missing. The
/// result is longer than `limit` only if the note itself is.
pub(crate) fn cut_middle(text: &str, limit: usize) -> String {
    if text.len() <= limit {
        return text.to_owned();
    }
    let note = |omitted: usize| format!("\n[… {omitted} bytes omitted …]\n");
    let room = limit.saturating_sub(note(text.len()).len());
    let head = text.floor_char_boundary(room.div_ceil(2));
    let tail = text.ceil_char_boundary(text.len() - room / 2);
    let begin = text.get(..head).unwrap_or_default();
    let end = text.get(tail..).unwrap_or_default();
    [begin, &note(tail - head), end].concat()
}

/// The prompt replaces this text in a word of `argv`. Without it, the prompt becomes the last word.
const PLACEHOLDER: &str = "{prompt}";

/// The arguments of a user-defined program (`executors.NAME.argv` in the configuration).
pub(super) fn user_arguments(words: &[String], prompt_by: PromptBy, prompt: &str) -> Vec<String> {
    if prompt_by == PromptBy::Stdin {
        return words.to_vec();
    }
    let mut is_placed = false;
    let mut filled: Vec<String> = words
        .iter()
        .map(|word| match word.split_once(PLACEHOLDER) {
            Some((before, after)) => {
                is_placed = true;
                [before, prompt, after].concat()
            }
            None => word.clone(),
        })
        .collect();
    if !is_placed {
        filled.push(prompt.to_owned());
    }
    filled
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_is_cut_on_character_boundaries_with_a_note() {
        let text = format!("begin{}end", "é漢".repeat(2_000));
        for limit in [60, 61, 62, 63, 1_000, 5_001] {
            let cut = cut_middle(&text, limit);
            assert!(cut.len() <= limit, "{limit}: {}", cut.len());
            assert!(cut.starts_with("begin") && cut.ends_with("end"), "{cut}");
            let note = cut.lines().find(|line| line.starts_with("[… "));
            let omitted = note.and_then(|line| line.split(' ').nth(1));
            let omitted: usize = omitted.and_then(|words| words.parse().ok()).unwrap();
            let note = format!("\n[… {omitted} bytes omitted …]\n");
            assert_eq!(cut.len() - note.len() + omitted, text.len());
        }
        assert_eq!(cut_middle(&text, text.len()), text);
        assert!(cut_middle(&text, 0).contains("omitted"));
    }
}
