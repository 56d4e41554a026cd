//! `zsh_poll`: what is new of a task, or any part of its output again.

use std::time::Instant;

use regex::Regex;
use serde_json::Value;

use super::dispatch::{
    Answer, Call, LISTEN, Lines, NoAnswer, Numbering, Showing, Tools, clamped_note, compile,
    matched, read, seconds_of,
};
use super::insight::Insight;
use super::render::Palette;
use super::search;
use super::tools::{PollArguments, Tool, WaitFor};
use crate::progress::advice::idle_polls_of;
use crate::task::live::Attendance;
use crate::task::reading;
use crate::task::registry::TaskHandle;
use crate::task::watch::{Goal, Stopped};
use crate::text::lines::{Piece, Position, grouped};

/// Where all output begins.
const FIRST: Position = Position { offset: 0, line: 1 };

impl Tools {
    /// Carries `zsh_poll` out.
    pub(super) fn poll(&self, tool: &Tool, arguments: Option<&Value>, call: &mut Call) -> Answer {
        let (arguments, clamped) = read::<PollArguments>(tool, arguments)?;
        let notes: Vec<Insight> = clamped.iter().map(clamped_note).collect();
        let task = self.find(&arguments.task_id)?;
        let max_output = arguments.max_output.unwrap_or(self.config.max_output);
        if let Some(pattern) = compile("grep", arguments.grep.as_deref())? {
            return self.grep(&task, &pattern, &arguments, notes, max_output, call.palette);
        }
        if arguments.from_line.is_some() || arguments.to_line.is_some() {
            return self.read_range(&task, &arguments, notes, max_output, call.palette);
        }
        let pattern = compile("until", arguments.until.as_deref())?;
        let listen = match arguments.listen {
            Some(seconds) => seconds_of("listen", seconds)?,
            None => LISTEN,
        };
        let goal = match arguments.wait_for {
            Some(WaitFor::End) => Goal::End,
            Some(WaitFor::Output) | None => Goal::Output,
        };
        let _attending = Attendance::begin(&task.live);
        let begun = Instant::now();
        let stopped = self.watch(&task, goal, pattern.as_ref(), listen, call)?;
        if !call.cancel.begin_answer() {
            return Err(NoAnswer::Cancelled);
        }
        let delta = task.live.take_delta();
        // One that was woken by output is not empty, though another may have taken it; nor
        // is one that found the task waiting for the caller.
        let woken = matches!(stopped, Stopped::Output | Stopped::WaitsForInput);
        let brought_output = delta.new_bytes() > 0 || woken;
        let waited = begun.elapsed().min(listen);
        task.live.count_poll(brought_output, idle_polls_of(waited));
        let pieces = if arguments.full_output == Some(true) {
            reading::excerpt(&task.spool, FIRST, delta.to, max_output)
        } else {
            reading::new_output(&task.spool, &delta, max_output)
        };
        let showing = Showing {
            pieces,
            new_bytes: delta.new_bytes(),
            matched: matched(stopped),
            notes,
            numbering: Numbering::Numbered,
            max_output,
        };
        self.tell(&task, showing, call.palette)
    }

    fn read_range(
        &self,
        task: &TaskHandle,
        arguments: &PollArguments,
        mut notes: Vec<Insight>,
        max_output: usize,
        palette: Palette,
    ) -> Answer {
        let first = arguments.from_line.unwrap_or(1);
        if let Some(last) = arguments.to_line
            && last < first
        {
            return Err(format!("to_line must be at least from_line ({first}), not {last}").into());
        }
        let end = task.live.state().output_end;
        let pieces = reading::range(&task.spool, first, arguments.to_line, end, max_output);
        notes.extend(pieces.iter().find_map(|pieces| {
            let last = arguments.to_line.unwrap_or(u64::MAX);
            lines_gone(pieces, first, last, end)
        }));
        let showing = Showing {
            pieces,
            new_bytes: 0,
            matched: None,
            notes,
            numbering: Numbering::Numbered,
            max_output,
        };
        self.tell(task, showing, palette)
    }

    fn grep(
        &self,
        task: &TaskHandle,
        pattern: &Regex,
        arguments: &PollArguments,
        notes: Vec<Insight>,
        max_output: usize,
        palette: Palette,
    ) -> Answer {
        let end = task.live.state().output_end;
        let range = search::Range {
            first: arguments.from_line.unwrap_or(1),
            last: arguments.to_line.unwrap_or(u64::MAX),
        };
        let context = arguments.context.unwrap_or(0);
        let found = search::grep(&task.spool, end, pattern, range, context, max_output)
            .map_err(|error| error.to_string())?;
        let lines = Lines {
            shown: found.into_shown(pattern, task.id()),
            new_bytes: 0,
            matched: None,
            numbered: true,
        };
        Ok(self.tell_lines(task, lines, notes, palette))
    }
}

/// Says that a range begins with lines that are no longer there.
fn lines_gone(pieces: &[Piece], first: u64, last: u64, end: Position) -> Option<Insight> {
    let found = pieces.first().map_or(end.line, |piece| piece.start.line);
    let last_gone = last.min(found.saturating_sub(1));
    (last_gone >= first).then(|| {
        Insight::warning(format!(
            "lines {}–{} are gone.",
            grouped(first),
            grouped(last_gone)
        ))
    })
}
