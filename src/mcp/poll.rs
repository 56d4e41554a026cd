//! `zsh_poll`: what is new of a task, or any part of its output again.

use std::time::Instant;

use regex::Regex;
use serde_json::Value;

use super::choices::WaitFor;
use super::dispatch::{
    Answer, Call, LISTEN, Lines, NoAnswer, Numbering, Showing, Tools, clamped_note, compile,
    matched, read, seconds_of,
};
use super::insight::Insight;
use super::render::Palette;
use super::screen;
use super::search;
use super::tools::{PollArguments, Tool};
use crate::progress::advice::idle_polls_of;
use crate::task::attendance::Attendance;
use crate::task::reading;
use crate::task::registry::TaskHandle;
use crate::task::watch::{Goal, Stopped};
use crate::text::lines::{Place, Shown, Stretch, grouped};

impl Tools {
    /// Carries `zsh_poll` out.
    pub(super) fn poll(&self, tool: &Tool, arguments: Option<&Value>, call: &mut Call) -> Answer {
        let (arguments, clamped) = read::<PollArguments>(tool, arguments)?;
        let notes: Vec<Insight> = clamped.iter().map(clamped_note).collect();
        refuse_contradictions(&arguments)?;
        let task = self.find(&arguments.task_id)?;
        let max_output = arguments.max_output.unwrap_or(self.config.max_output);
        if arguments.screen == Some(true) {
            return self.show_screen(&task, &arguments, notes, call);
        }
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
        // is one that found the task waiting for the caller, or stopped.
        let woken = matches!(
            stopped,
            Stopped::Output | Stopped::WaitsForInput | Stopped::StandsStill
        );
        let brought_output = delta.new_bytes() > 0 || woken;
        let waited = begun.elapsed().min(listen);
        task.live.count_poll(brought_output, idle_polls_of(waited));
        let stretches = if arguments.full_output == Some(true) {
            reading::excerpt(&task.spool, Place::FIRST.at, delta.to, max_output)
        } else {
            reading::new_output(&task.spool, &delta, max_output)
        };
        let showing = Showing {
            stretches,
            new_bytes: delta.new_bytes(),
            matched: matched(stopped),
            notes,
            numbering: Numbering::Numbered,
            max_output,
        };
        self.tell(&task, showing, call.palette)
    }

    /// Waits as any poll does, then shows the screen; what is new of the output stays
    /// new. Without a wait of the caller's own, a screen that no new output has touched
    /// is shown at once.
    fn show_screen(
        &self,
        task: &TaskHandle,
        arguments: &PollArguments,
        notes: Vec<Insight>,
        call: &mut Call,
    ) -> Answer {
        let no_screen = || {
            format!(
                "task {} has no terminal, so there is no screen: run the command again with pty: true",
                task.id()
            )
        };
        let terminal = task.live.terminal().ok_or_else(no_screen)?;
        let pattern = compile("until", arguments.until.as_deref())?;
        let goal = match arguments.wait_for {
            Some(WaitFor::End) => Goal::End,
            Some(WaitFor::Output) | None => Goal::Output,
        };
        let _attending = Attendance::begin(&task.live);
        let asks_to_wait =
            arguments.listen.is_some() || arguments.wait_for.is_some() || pattern.is_some();
        let stopped = if asks_to_wait || task.live.state().unshown() > 0 {
            let listen = match arguments.listen {
                Some(seconds) => seconds_of("listen", seconds)?,
                None => LISTEN,
            };
            Some(self.watch(task, goal, pattern.as_ref(), listen, call)?)
        } else {
            None
        };
        if !call.cancel.begin_answer() {
            return Err(NoAnswer::Cancelled);
        }
        task.live.tell_end();
        let seen = terminal.seen();
        let max_output = arguments.max_output.unwrap_or(self.config.max_output);
        let lines = Lines {
            shown: Shown {
                text: screen::text(&seen.view, max_output, task.id()),
                ..Shown::default()
            },
            new_bytes: 0,
            matched: stopped.and_then(matched),
            numbered: true,
            screen: Some(seen),
        };
        Ok(self.tell_lines(task, lines, notes, call.palette))
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
        let end = task.live.state().showable_end();
        let stretches = reading::range(&task.spool, first, arguments.to_line, end, max_output);
        notes.extend(past_the_end(first, end));
        notes.extend(stretches.as_deref().ok().and_then(beginning_gone));
        let showing = Showing {
            stretches,
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
        mut notes: Vec<Insight>,
        max_output: usize,
        palette: Palette,
    ) -> Answer {
        let (end, columns) = {
            let state = task.live.state();
            (state.showable_end(), state.columns)
        };
        let range = search::Range {
            first: arguments.from_line.unwrap_or(1),
            last: arguments.to_line.unwrap_or(u64::MAX),
        };
        notes.extend(past_the_end(range.first, end));
        let context = arguments.context.unwrap_or(0);
        let found = search::grep(
            &task.spool,
            end,
            columns,
            pattern,
            range,
            context,
            max_output,
        )
        .map_err(|error| error.to_string())?;
        let lines = Lines {
            shown: found.into_shown(pattern, task.id()),
            new_bytes: 0,
            matched: None,
            numbered: true,
            screen: None,
        };
        Ok(self.tell_lines(task, lines, notes, palette))
    }
}

/// Refuses arguments of which one would make another mean nothing. A value that asks for
/// nothing, such as `listen: 0` beside a range, is no contradiction.
fn refuse_contradictions(arguments: &PollArguments) -> Result<(), String> {
    let reads = [
        ("grep", arguments.grep.is_some()),
        ("from_line", arguments.from_line.is_some()),
        ("to_line", arguments.to_line.is_some()),
    ];
    let waits = [
        (
            "listen",
            arguments.listen.is_some_and(|seconds| seconds > 0.0),
        ),
        ("wait_for", arguments.wait_for.is_some()),
        ("until", arguments.until.is_some()),
        ("full_output", arguments.full_output == Some(true)),
    ];
    let ignored: Vec<&str> = given(&waits).collect();
    if let Some(reader) = given(&reads).next()
        && !ignored.is_empty()
    {
        return Err(format!(
            "{} cannot go with {reader}, which reads a part of the output and does not wait: \
             leave one out, or make two calls",
            ignored.join(", ")
        ));
    }
    let reads_output = [
        ("grep", arguments.grep.is_some()),
        ("from_line", arguments.from_line.is_some()),
        ("to_line", arguments.to_line.is_some()),
        ("full_output", arguments.full_output == Some(true)),
    ];
    let others: Vec<&str> = given(&reads_output).collect();
    if arguments.screen == Some(true) && !others.is_empty() {
        return Err(format!(
            "screen shows the terminal and {} reads the output: leave one out, or make two calls",
            others.join(", ")
        ));
    }
    if arguments.context.is_some_and(|lines| lines > 0) && arguments.grep.is_none() {
        return Err("context is about the matches of grep: pass grep with it".into());
    }
    let first = arguments.from_line.unwrap_or(1);
    match arguments.to_line {
        Some(last) if last < first => Err(format!(
            "to_line must be at least from_line ({first}), not {last}"
        )),
        _ => Ok(()),
    }
}

fn given<'a>(arguments: &'a [(&'static str, bool)]) -> impl Iterator<Item = &'static str> + 'a {
    arguments
        .iter()
        .filter(|(_, is_given)| *is_given)
        .map(|(name, _)| *name)
}

/// Says how many lines there are to somebody who asks for others.
fn past_the_end(first: u64, end: Place) -> Option<Insight> {
    let lines = end.next_line() - 1;
    (first > lines).then(|| {
        let noun = if lines == 1 { "line" } else { "lines" };
        Insight::info(format!("the output has {} {noun}.", grouped(lines)))
    })
}

/// Says that a range begins with lines that are no longer there.
fn beginning_gone(stretches: &[Stretch]) -> Option<Insight> {
    match stretches.first()? {
        Stretch::Missing {
            lines,
            readable: false,
        } if !lines.is_empty() => Some(Insight::warning(format!(
            "lines {}–{} are gone.",
            grouped(lines.start),
            grouped(lines.end - 1)
        ))),
        _ => None,
    }
}
