//! What an executor needs to know of a run, and what it makes of it.
//!
//! Limits: data, and the rules that hold for every prompt. Nothing is started here.

use std::borrow::Cow;

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

/// The longest prompt that is passed as an argument: one argument holds 131,071 bytes
/// (`MAX_ARG_STRLEN` of Linux), and quotes take some of them.
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
    /// The id that the agent's own session gets, where the program takes one: a UUID.
    pub agent_session: &'a str,
    /// The model, where one is asked for.
    pub model: Option<&'a str>,
    /// The prompt.
    pub prompt: &'a str,
}

/// What tells an agent, and all that it starts, which run it works for.
pub(super) const ID_VARIABLE: &str = "ONESHOT_ID";

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

impl Launch {
    /// The run that it works for.
    pub fn run(&self) -> Option<&str> {
        let mut variables = self.environment.iter();
        let (_, run) = variables.find(|(name, _)| name == ID_VARIABLE)?;
        Some(run)
    }
}

/// A prompt as programs can take it: without NUL, which no argument holds and no program
/// expects.
pub(super) fn clean(prompt: &str) -> Cow<'_, str> {
    match prompt.contains('\0') {
        true => Cow::Owned(prompt.replace('\0', "")),
        false => Cow::Borrowed(prompt),
    }
}

/// Cuts the middle out of a text that is longer than this many bytes, with a note of how
/// much is left out. What comes out is never longer, unless the note alone is.
pub fn cut_middle(text: &str, most: usize) -> String {
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
