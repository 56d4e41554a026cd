//! What an executor needs to know about a run, and the launch that it makes of it. Pure.
//!
//! Limits: starts nothing.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

pub use crate::config::PromptBy;

/// What an agent is started for.
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

/// The longest prompt that is passed as an argument: Linux limits an argument to 131,071
/// bytes (`MAX_ARG_STRLEN`), and quotes take some of them.
pub const MAX_ARGUMENT_PROMPT: usize = 100 << 10;

/// One start of an agent.
#[derive(Debug, Clone, Copy)]
pub struct Ids<'a> {
    /// The run.
    pub oneshot: &'a str,
    /// What for.
    pub role: Role,
    /// The run's iteration, from 1.
    pub iteration: u32,
    /// The id for the agent's own session, if the program takes one: a UUID.
    pub agent_session: &'a str,
    /// The model, where one is asked for.
    pub model: Option<&'a str>,
    /// The prompt.
    pub prompt: &'a str,
}

/// The variable that names the run for an agent and its processes.
pub(super) const ID_VARIABLE: &str = "ONESHOT_ID";

/// How an agent is started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Launch {
    /// The program and its arguments.
    pub argv: Vec<String>,
    /// The contents of its stdin; without them, stdin is empty.
    pub stdin: Option<String>,
    /// Variables beyond the environment that tasks get.
    pub environment: Vec<(String, String)>,
}

impl Launch {
    /// The id of the run that it works for.
    pub fn run(&self) -> Option<&str> {
        let mut variables = self.environment.iter();
        let (_, run) = variables.find(|(name, _)| name == ID_VARIABLE)?;
        Some(run)
    }
}

/// The command line that puts a program in the shell's place, so that the program's wait
/// status is the task's.
pub(crate) fn exec_line(argv: &[String]) -> String {
    let quoted = argv.iter().map(|word| {
        let word = word.replace('\0', "");
        format!(" '{}'", word.replace('\'', r"'\''"))
    });
    format!("exec{}", quoted.collect::<String>())
}

/// A prompt without NUL, which no argument can hold and no program expects.
pub(super) fn clean(prompt: &str) -> Cow<'_, str> {
    if prompt.contains('\0') {
        return Cow::Owned(prompt.replace('\0', ""));
    }
    Cow::Borrowed(prompt)
}

/// Cuts the middle out of a text longer than `most` bytes and notes how much is missing. The
/// result is longer than `most` only if the note alone is.
pub(crate) fn cut_middle(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let note = |left_out: usize| format!("\n[… {left_out} bytes are left out here …]\n");
    let room = most.saturating_sub(note(text.len()).len());
    let head = text.floor_char_boundary(room.div_ceil(2));
    let tail = text.ceil_char_boundary(text.len() - room / 2);
    let begin = text.get(..head).unwrap_or_default();
    let end = text.get(tail..).unwrap_or_default();
    [begin, &note(tail - head), end].concat()
}

/// Replaced by the prompt in a word of `argv`; without it the prompt is the last word.
const PLACEHOLDER: &str = "{prompt}";

/// The arguments of a program of the user's (`executors.NAME.argv` of the configuration).
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
    fn the_middle_is_cut_on_character_boundaries_and_told() {
        let text = format!("begin{}end", "é漢".repeat(2_000));
        for most in [60, 61, 62, 63, 1_000, 5_001] {
            let cut = cut_middle(&text, most);
            assert!(cut.len() <= most, "{most}: {}", cut.len());
            assert!(cut.starts_with("begin") && cut.ends_with("end"), "{cut}");
            let note = cut.lines().find(|line| line.starts_with("[… "));
            let left_out = note.and_then(|line| line.split(' ').nth(1));
            let left_out: usize = left_out.and_then(|words| words.parse().ok()).unwrap();
            let note = format!("\n[… {left_out} bytes are left out here …]\n");
            assert_eq!(cut.len() - note.len() + left_out, text.len());
        }
        assert_eq!(cut_middle(&text, text.len()), text);
        assert!(cut_middle(&text, 0).contains("left out"));
    }
}
