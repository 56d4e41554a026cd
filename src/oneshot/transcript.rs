//! What one agent has said so far: its result, its error, and its newest words. Pure.
//!
//! Bounded, whatever the agent writes: of text that is no record the newest part is kept.

use std::collections::VecDeque;

use crate::agent::activity::{Activity, AgentError};
use crate::agent::stream::Record;

/// Of an agent whose final text is all of its stdout, so many of the newest bytes.
const MAX_STDOUT: usize = 4 << 20;
/// Of stderr, where a failure is named.
const MAX_STDERR: usize = 64 << 10;
/// Newest activities, for a judge.
const RECENT: usize = 20;
/// Characters of each of them.
const RECENT_CHARS: usize = 300;

/// What an agent has said.
#[derive(Debug, Clone, Default)]
pub struct Transcript {
    stdout: String,
    stderr: String,
    last_text: String,
    /// Its terminal event.
    end: Option<(String, Option<AgentError>)>,
    recent: VecDeque<String>,
}

impl Transcript {
    /// Takes a record of stdout and what it means.
    pub fn take(&mut self, record: &Record, activities: &[Activity]) {
        if let Record::Line(line) = record {
            add_line(&mut self.stdout, line, MAX_STDOUT);
        }
        for activity in activities {
            self.take_activity(activity);
        }
    }

    /// Takes a line of stderr.
    pub fn take_complaint(&mut self, line: &str) {
        add_line(&mut self.stderr, line, MAX_STDERR);
    }

    fn take_activity(&mut self, activity: &Activity) {
        let words = match activity {
            Activity::Text(text) => {
                self.last_text.clone_from(text);
                text.clone()
            }
            Activity::ToolCall { name, argument } => format!("{name}: {argument}"),
            Activity::ToolResult { text, failed: true } => format!("failed: {text}"),
            Activity::ToolResult { text, .. } => format!("→ {text}"),
            Activity::Reflection(text) | Activity::Plan(text) => text.clone(),
            Activity::FileWritten { path } => format!("wrote {path}"),
            Activity::Final(end) => {
                let text = match end.text.is_empty() {
                    true => self.last_text.clone(),
                    false => end.text.clone(),
                };
                self.end = Some((text, end.error));
                return;
            }
            Activity::Session { .. } | Activity::Other => return,
        };
        self.recent
            .push_back(words.chars().take(RECENT_CHARS).collect());
        if self.recent.len() > RECENT {
            self.recent.pop_front();
        }
    }

    /// Its terminal event: the final text, and what the agent itself calls an error.
    pub fn end(&self) -> Option<(&str, Option<AgentError>)> {
        let (text, error) = self.end.as_ref()?;
        Some((text, *error))
    }

    /// Its final text, where it has ended well: that of its terminal event, else the last
    /// thing it said, else what it wrote.
    pub fn final_text(&self, is_stdout: bool) -> &str {
        match &self.end {
            _ if is_stdout => &self.stdout,
            Some((text, _)) => text,
            None if self.last_text.is_empty() => &self.stdout,
            None => &self.last_text,
        }
    }

    /// Its stderr.
    pub fn stderr(&self) -> &str {
        &self.stderr
    }

    /// What it did and said last, oldest first.
    pub fn recent(&self) -> Vec<String> {
        self.recent.iter().cloned().collect()
    }
}

/// Adds a line; the oldest bytes go where there are too many.
fn add_line(text: &mut String, line: &str, most: usize) {
    text.push_str(line);
    text.push('\n');
    // Not at each line: moving the rest costs as much as it holds.
    if text.len() > 2 * most {
        let cut = (text.len() - most..text.len()).find(|at| text.is_char_boundary(*at));
        text.drain(..cut.unwrap_or_default());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::activity::Final;

    fn line(text: &str) -> Record {
        Record::Line(text.to_owned())
    }

    #[test]
    fn the_final_text_is_the_terminal_events_else_the_last_words() {
        let mut said = Transcript::default();
        said.take(&line("starting"), &[]);
        assert_eq!(said.final_text(false), "starting\n");
        said.take(&line("x"), &[Activity::Text("it is done".to_owned())]);
        assert_eq!(said.final_text(false), "it is done");
        let end = |text: &str| {
            Activity::Final(Final {
                text: text.to_owned(),
                error: None,
            })
        };
        said.take(&line("{}"), &[end("")]);
        assert_eq!(said.end(), Some(("it is done", None)));
        said.take(&line("{}"), &[end("DONE")]);
        assert_eq!(said.final_text(false), "DONE");
        assert_eq!(said.final_text(true), "starting\nx\n{}\n{}\n");
    }

    #[test]
    fn what_is_kept_is_bounded_and_is_the_newest() {
        let mut said = Transcript::default();
        for number in 0..200_000 {
            said.take(&line(&format!("line {number} of a flood, émigré")), &[]);
            said.take_complaint("a line of stderr");
        }
        let text = said.final_text(true);
        assert!(text.len() <= 2 * MAX_STDOUT);
        assert!(text.ends_with("line 199999 of a flood, émigré\n"));
        assert!(said.stderr().len() <= 2 * MAX_STDERR);
    }
}
