//! Notices ahead of a result, as text.

use super::render::echo;
use crate::record::notices::{MOST_NAMED, Notice};
use crate::task::state::Outcome;

/// `┌ notify: task '3dc8c9ee' completed (exit=0, 61.2s) make test`
pub fn lines(notices: &[Notice], redact: impl Fn(&str) -> String) -> Vec<String> {
    let mut lines: Vec<String> = notices
        .iter()
        .take(MOST_NAMED)
        .map(|notice| {
            let end = &notice.end;
            let word = match end.outcome {
                Outcome::Success => "completed",
                Outcome::Failure => "failed",
                Outcome::Timeout => "timed out",
                Outcome::Killed => "was killed",
                Outcome::Interrupted => "was interrupted",
            };
            let command = redact(&notice.task.facts.command);
            let command = echo(&command);
            format!(
                "┌ notify: task '{}' {word} (exit={}, {:.1}s) {}",
                notice.task.facts.id,
                end.exit.code(),
                end.duration.as_secs_f64(),
                command.strip_prefix("$ ").unwrap_or(&command)
            )
        })
        .collect();
    if notices.len() > MOST_NAMED {
        lines.push(format!(
            "┌ notify: {} more tasks ended: zsh_tasks all=true",
            notices.len() - MOST_NAMED
        ));
    }
    lines
}
