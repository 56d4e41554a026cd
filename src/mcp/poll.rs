//! `zsh_poll`: shows a task's new output, or any part of its output again.

use std::sync::Arc;
use std::time::Instant;

use super::call::DEFAULT_LISTEN;
use super::dispatch::{
    Answer, CallContext, ClientProfile, NoResult, Tools, Until, compile, poll_call, refused,
    seconds_or, unreadable, until_port,
};
use super::render::notes::ResultNote;
use super::render::result::{TaskResult, screen_rows};
use super::render::view::View;
use super::search;
use super::task_result::{Extent, Numbering, Part, screen_hint};
use super::tools::{DiffWith, PollArguments, WaitFor};
use crate::progress::advice::idle_polls_of;
use crate::task::live::ActiveCall;
use crate::task::output::effort::Effort;
use crate::task::output::reading::{self, Amount};
use crate::task::registry::TaskHandle;
use crate::task::stream::{Delta, StreamName};
use crate::task::watch::{Goal, WaitEnd};
use crate::text::lines::{self, LinePosition, OutputSpan, Room, Shown};
use crate::text::pattern::Pattern;
use crate::text::quantity::{grouped, seconds};

/// The default limit for the output of a task whose server has ended.
pub(super) const PAST_TASK_CHARS: usize = 4_000;

impl Tools {
    pub(super) fn poll(
        &self,
        arguments: &PollArguments,
        notes: Vec<ResultNote>,
        call: &mut CallContext,
    ) -> Answer {
        refuse_contradictions(arguments)?;
        let task = self.find(&arguments.task_id)?;
        let max_output = arguments.max_output.unwrap_or(self.config.max_output);
        if arguments.diff == Some(DiffWith::Last) {
            return self.diff_with_last(&task, notes, max_output, call.client);
        }
        if arguments.screen == Some(true) {
            return self.show_screen(&task, arguments, notes, call);
        }
        if let Some(pattern) = compile("grep", arguments.grep.as_deref())? {
            return self.grep(&task, &pattern, arguments, notes, max_output, call);
        }
        if arguments.from_line.is_some() || arguments.to_line.is_some() {
            return self.read_range(&task, arguments, notes, max_output, call.client);
        }
        let pattern = compile("until", arguments.until.as_deref())?;
        let port = until_port(arguments.until_port.as_deref())?;
        let until = Until { pattern: pattern.as_ref(), port };
        let listen = seconds_or(DEFAULT_LISTEN, "listen", arguments.listen)?;
        let _active_call = ActiveCall::begin(&task.live);
        self.supervisor.request_probe(&task);
        let begun = Instant::now();
        let stopped = self.watch(&task, goal(arguments), until, listen, call)?;
        if !call.cancel.begin_answer() {
            return Err(NoResult::Cancelled);
        }
        let mut view = call.show_new(&task);
        let news = view.deltas.map(Delta::new_bytes);
        // A poll that output ended is not empty, even if another call has shown that output; nor is
        // a poll that found the task waiting for input, or stopped.
        let ended_early = matches!(
            stopped,
            WaitEnd::Output
                | WaitEnd::WaitsForInput
                | WaitEnd::TaskStopped
                | WaitEnd::Stuck
                | WaitEnd::Repeats
                | WaitEnd::Port(_)
        );
        let is_useful = news.output + news.errors > 0 || ended_early;
        let waited = begun.elapsed().min(listen);
        view.empty_polls = task.live.count_poll(is_useful, idle_polls_of(waited));
        let whole = arguments.full_output == Some(true);
        let max_output = match (&task.ended_server, arguments.max_output) {
            // The earlier server has shown most of it.
            (Some(_), None) if !whole => Some(max_output.min(PAST_TASK_CHARS)),
            (_, None) if whole => Some(max_output),
            (_, asked) => asked,
        };
        let mut result = TaskResult::new(view, notes);
        self.note_found(&mut result, stopped, until);
        let extent = if whole { Extent::Whole } else { Extent::New };
        self.show_output(&task, result, extent, Numbering::Numbered, max_output, call.client)
    }

    /// Waits like any poll, then shows the screen; new output stays new. If the caller passes no
    /// wait and there is no new output, it does not wait.
    fn show_screen(
        &self,
        task: &Arc<TaskHandle>,
        arguments: &PollArguments,
        notes: Vec<ResultNote>,
        call: &mut CallContext,
    ) -> Answer {
        let id = task.id();
        let no_screen = || match task.ended_server {
            Some(_) => refused(format!(
                "the screen of task {id} is gone with its server: leave screen out to read its output"
            )),
            None => refused(format!(
                "task {id} has no terminal, so there is no screen: run the command again with pty: true"
            )),
        };
        let terminal = task.live.terminal().ok_or_else(no_screen)?;
        let pattern = compile("until", arguments.until.as_deref())?;
        let port = until_port(arguments.until_port.as_deref())?;
        let until = Until { pattern: pattern.as_ref(), port };
        let _active_call = ActiveCall::begin(&task.live);
        let awaits = pattern.is_some() || port.is_some();
        let asks_to_wait = arguments.listen.is_some() || arguments.wait_for.is_some() || awaits;
        let mut stopped = None;
        if asks_to_wait || task.live.state().unshown() > 0 {
            let listen = seconds_or(DEFAULT_LISTEN, "listen", arguments.listen)?;
            stopped = Some(self.watch(task, goal(arguments), until, listen, call)?);
        }
        if !call.cancel.begin_answer() {
            return Err(NoResult::Cancelled);
        }
        let view = call.report_end(task);
        let screen = terminal.content();
        let max_output = arguments.max_output.unwrap_or(self.config.max_output);
        let mut result = TaskResult::new(view, notes);
        result.shown = screen_rows(&screen.view, call.client.room(max_output), id);
        if let Some(stopped) = stopped {
            self.note_found(&mut result, stopped, until);
        }
        result.screen = Some(screen);
        Ok(self.task_result(task, result, call.client))
    }

    fn read_range(
        &self,
        task: &TaskHandle,
        arguments: &PollArguments,
        mut notes: Vec<ResultNote>,
        max_output: usize,
        client: ClientProfile,
    ) -> Answer {
        let first = arguments.from_line.unwrap_or(1);
        let view = View::take(&task.live);
        let stream = stream_of(arguments);
        let end = view.deltas.get(stream).to;
        if arguments.from_char.is_some() || arguments.to_line == Some(first) {
            let first_char = arguments.from_char.unwrap_or(1);
            let line = line_from(task, stream, first, first_char, client.room(max_output))?;
            if let Some((shown, note)) = line {
                notes.extend(note);
                notes.extend(screen_hint(task));
                let result = TaskResult::of_lines(view, notes, stream, shown);
                return Ok(self.task_result(task, result, client));
            }
        }
        let spans =
            reading::range(task.spools.get(stream), first, arguments.to_line, end, max_output);
        notes.extend(past_the_end(stream, first, end));
        notes.extend(spans.as_deref().ok().and_then(beginning_gone));
        let result = TaskResult::new(view, notes);
        let amount = Amount::of_ends(max_output);
        let room = client.room(max_output);
        let part = Part { stream, numbering: Numbering::Range, amount, room };
        self.show(task, result, spans, part, client)
    }

    fn grep(
        &self,
        task: &TaskHandle,
        pattern: &Pattern,
        arguments: &PollArguments,
        mut notes: Vec<ResultNote>,
        max_output: usize,
        call: &CallContext<'_>,
    ) -> Answer {
        let client = call.client;
        let mut effort = Effort::new(call.cancel, Instant::now() + client.ceiling);
        let view = View::take(&task.live);
        let stream = stream_of(arguments);
        let (end, columns) = (view.deltas.get(stream).to, task.live.state().columns);
        let query = search::Query {
            pattern,
            context: arguments.context.unwrap_or(0),
            first: arguments.from_line.unwrap_or(1),
            first_char: arguments.from_char.unwrap_or(1),
            last: arguments.to_line.unwrap_or(u64::MAX),
        };
        notes.extend(past_the_end(stream, query.first, end));
        let room = client.room(max_output);
        let (spool, reader) = (task.spools.get(stream), poll_call(task, stream));
        let found = search::grep(spool, end, columns, query, room, &reader, &mut effort)?;
        if call.cancel.is_cancelled() {
            return Err(NoResult::Cancelled);
        }
        if let Some(line) = found.given_up_at {
            notes.push(ResultNote::warning(format!(
                "grep was given up at line {} after {} of work: lines from there on are not \
                 searched. Use a simpler pattern, or fewer lines with from_line and to_line.",
                grouped(line),
                seconds(effort.done())
            )));
        }
        let shown = found.into_shown(pattern, &reader);
        let result = TaskResult::of_lines(view, notes, stream, shown);
        Ok(self.task_result(task, result, client))
    }
}

/// The stream that a poll of lines reads.
fn stream_of(arguments: &PollArguments) -> StreamName {
    if arguments.stderr == Some(true) { StreamName::Errors } else { StreamName::Output }
}

fn goal(arguments: &PollArguments) -> Goal<'static> {
    match arguments.wait_for {
        Some(WaitFor::End) => Goal::End,
        Some(WaitFor::Output) | None => Goal::Output,
    }
}

/// The rest of a line from a character on, with a remark; `None` if the line is gone.
fn line_from(
    task: &TaskHandle,
    stream: StreamName,
    line: u64,
    first_char: u64,
    room: Room,
) -> Result<Option<(Shown, Option<ResultNote>)>, NoResult> {
    let (end, columns) = {
        let state = task.live.state();
        (state.showable_end(stream), state.columns)
    };
    let part = reading::line_part(task.spools.get(stream), line, first_char, end, columns, room)
        .map_err(|error| unreadable(task, &error))?;
    let Some(part) = part else {
        return Ok(None);
    };
    let before = if part.first > 1 { "…" } else { "" };
    let mut shown = Shown {
        text: format!("{line}: {before}{}", part.text),
        from_line: line,
        to_line: line,
        ..Shown::default()
    };
    if let Some((next, bytes)) = part.rest {
        let reader = poll_call(task, stream);
        shown.text += &lines::line_continues(bytes, line, next, &reader);
        shown.omitted_bytes = bytes;
        shown.omission = lines::omission_of(0, bytes, 0, Some((line, next)), &reader);
    }
    let note = (part.first < first_char).then(|| {
        let chars = grouped(part.first - 1);
        ResultNote::info(format!("line {line} has {chars} characters."))
    });
    Ok(Some((shown, note)))
}

/// Refuses arguments that contradict each other. A value without effect, such as `listen: 0` beside
/// a range, is allowed.
fn refuse_contradictions(arguments: &PollArguments) -> Result<(), NoResult> {
    let given = |arguments: &[(&'static str, bool)]| -> Vec<&str> {
        arguments.iter().filter(|(_, is_given)| *is_given).map(|(name, _)| *name).collect()
    };
    let full_output = ("full_output", arguments.full_output == Some(true));
    let mut reads = given(&[
        ("grep", arguments.grep.is_some()),
        ("from_line", arguments.from_line.is_some()),
        ("to_line", arguments.to_line.is_some()),
        ("diff", arguments.diff.is_some()),
    ]);
    let waits = given(&[
        ("listen", arguments.listen.is_some_and(|seconds| seconds > 0.0)),
        ("wait_for", arguments.wait_for.is_some()),
        ("until", arguments.until.is_some()),
        ("until_port", arguments.until_port.is_some()),
        full_output,
    ]);
    if arguments.diff.is_some()
        && let Some(reader) = reads.first().filter(|reader| **reader != "diff")
    {
        return Err(refused(format!(
            "diff compares all of the output and {reader} reads a part of it: leave one out"
        )));
    }
    if let Some(reader) = reads.first()
        && !waits.is_empty()
    {
        return Err(refused(format!(
            "{} cannot go with {reader}, which reads a part of the output and does not wait: \
             leave one out, or make two calls",
            waits.join(", ")
        )));
    }
    reads.extend(given(&[full_output]));
    if arguments.screen == Some(true) && !reads.is_empty() {
        return Err(refused(format!(
            "screen shows the terminal and {} reads the output: leave one out, or make two calls",
            reads.join(", ")
        )));
    }
    if arguments.stderr == Some(true) && arguments.diff.is_some() {
        return Err(refused("diff compares the output: leave stderr out"));
    }
    if arguments.stderr == Some(true) && reads.iter().all(|reader| *reader == "full_output") {
        return Err(refused(
            "stderr reads lines of a separate stderr: pass from_line, to_line or grep with it",
        ));
    }
    if arguments.context.is_some_and(|lines| lines > 0) && arguments.grep.is_none() {
        return Err(refused("context is about the matches of grep: pass grep with it"));
    }
    if arguments.from_char.is_some() && arguments.from_line.is_none() {
        return Err(refused("from_char is a place in a line: pass from_line with it"));
    }
    let first = arguments.from_line.unwrap_or(1);
    match arguments.to_line {
        Some(last) if last > first && arguments.from_char.is_some() && arguments.grep.is_none() => {
            Err(refused("from_char reads a single line: leave to_line out"))
        }
        Some(last) if last < first => {
            Err(refused(format!("to_line must be at least from_line ({first}), not {last}")))
        }
        _ => Ok(()),
    }
}

/// Says how many lines there are if the range starts after the last.
fn past_the_end(stream: StreamName, first: u64, end: LinePosition) -> Option<ResultNote> {
    let lines = end.next_line() - 1;
    (first > lines).then(|| {
        let noun = if lines == 1 { "line" } else { "lines" };
        ResultNote::info(match (stream, lines) {
            (StreamName::Errors, 0) => {
                "stderr apart has no lines: without stderr=separate they are in the output."
                    .to_owned()
            }
            (StreamName::Errors, _) => format!("stderr has {} {noun}.", grouped(lines)),
            (StreamName::Output, _) => format!("the output has {} {noun}.", grouped(lines)),
        })
    })
}

/// Says that a range begins with lines that are gone.
fn beginning_gone(spans: &[OutputSpan]) -> Option<ResultNote> {
    match spans.first()? {
        OutputSpan::Missing { lines, readable: false, .. } if !lines.is_empty() => {
            Some(ResultNote::warning(format!(
                "lines {}–{} are gone.",
                grouped(lines.start),
                grouped(lines.end - 1)
            )))
        }
        _ => None,
    }
}
