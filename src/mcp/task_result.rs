//! The result of a call about a task: what of its output is shown, and the remarks about it.

use std::io;

use super::dispatch::{
    Answer, ClientProfile, NoResult, ToolResult, Tools, Until, poll_call, unreadable,
};
use super::render::notes::{self, ResultNote};
use super::render::result::{self, TaskResult};
use super::render::view::View;
use crate::alan::insight::Level;
use crate::process::listening;
use crate::progress::progress_state::Verdict;
use crate::task::describe;
use crate::task::live::{End, Facts, Input};
use crate::task::output::amount::amount;
use crate::task::output::reading::{self, Amount};
use crate::task::port::{self, Port, PortFound, PortHolder};
use crate::task::port_watch;
use crate::task::registry::TaskHandle;
use crate::task::stream::{Delta, PerStream, StreamName};
use crate::task::terminal::Terminal;
use crate::task::watch::WaitEnd;
use crate::text::encoding::Found;
use crate::text::foreign;
use crate::text::lines::{self, Layout, LinePosition, OutputSpan, Repeats, Room, Shown};
use crate::text::quantity::{grouped, plural, seconds};

/// How many characters at the end of the shown text are searched for signs of a missing terminal.
const TAIL_CHARS: usize = 2_000;

/// How many characters a byte of output takes at most with the number of its line, in lines of a
/// character each.
const CHARS_PER_BYTE: usize = 4;
/// Room for a marker of what is omitted.
const MARKER_CHARS: usize = 200;

impl Tools {
    /// Adds the line or the port that ended the wait, or that the wait was for, to the result.
    pub(super) fn note_found(&self, result: &mut TaskResult, found: WaitEnd, until: Until<'_>) {
        match (found, until.port) {
            (WaitEnd::Matched(found), _) => result.matched = Some(found),
            (WaitEnd::TooMuchWork(done), _) => {
                result.notes.push(ResultNote::warning(format!(
                    "until was given up after {} of work: the pattern costs too much on this \
                     output. Use a simpler one.",
                    seconds(done)
                )));
            }
            (WaitEnd::Port(PortFound::Served(server)), Some(port)) => {
                result.served = Some((port, server));
            }
            (WaitEnd::Port(PortFound::Held(holder)), Some(port)) => {
                result.notes.push(ResultNote::warning(self.port_in_use(port, &holder)));
            }
            (_, port) => {
                result.awaited_port = port;
                result.awaited_line = until.pattern.map(|pattern| pattern.as_str().to_owned());
            }
        }
    }

    /// `port 3000 is in use by 4711 node, task b6d464a7 of another server (npm run dev)`
    fn port_in_use(&self, port: Port, holder: &PortHolder) -> String {
        let user = holder
            .user
            .as_ref()
            .map(|user| format!(" of user {}", foreign::shown(user)))
            .unwrap_or_default();
        let Some(process) = &holder.process else {
            let owner = if user.is_empty() { " that cannot be identified" } else { &user };
            return format!("port {port} is in use by a process{owner}");
        };
        let task = match self.supervisor.task_of_process(process.pid) {
            Some(task) => {
                let whose = if task.is_elsewhere { " of another server" } else { "" };
                format!(", task {}{whose} ({})", task.id, result::command_line(&task.command))
            }
            None => String::new(),
        };
        format!("port {port} is in use by {} {}{user}{task}", process.pid, process.name)
    }

    /// Warns, once for each task, of more processes than `max_processes_task`.
    fn many_processes_note(&self, task: &TaskHandle) -> Option<ResultNote> {
        let limit = self.config.max_processes_task;
        let mut state = task.live.state();
        let count = state.usage.processes;
        if limit == 0 || count <= limit || state.told.process_count {
            return None;
        }
        state.told.process_count = true;
        Some(ResultNote::warning(format!("this task has {} processes", grouped(count as u64))))
    }

    /// Names the process that holds the port which a failed or running command found in use.
    fn address_in_use(&self, task: &TaskHandle, result: &TaskResult) -> Option<ResultNote> {
        let failed = |end: &End| end.exit.code() != 0;
        if result.view.task.ended.as_ref().is_some_and(|end| !failed(end)) {
            return None;
        }
        let number = [&result.errors.text, &result.shown.text]
            .into_iter()
            .find_map(|text| port::port_reported_in_use(text, &task.live.facts.command))?;
        let port = Port::at_any_address(number);
        let holder = port_watch::holder_of(port)?;
        Some(ResultNote::warning(self.port_in_use(port, &holder)))
    }

    /// The result that shows output up to a limit. `asked` is the caller's `max_output`.
    pub(super) fn show_output(
        &self,
        task: &TaskHandle,
        mut result: TaskResult,
        extent: Extent,
        numbering: Numbering,
        asked: Option<usize>,
        client: ClientProfile,
    ) -> Answer {
        let PerStream { output, errors } = result.view.deltas.map(|delta| match extent {
            Extent::New => delta.new_bytes(),
            Extent::Whole => delta.to.at.offset,
        });
        let amounts = self.amounts(task, &result.view, asked);
        let read = |name: StreamName| {
            let (spool, delta) = (task.spools.get(name), result.view.deltas.get(name));
            let amount = *amounts.get(name);
            let spans = match extent {
                Extent::New => reading::new_output(spool, delta, amount),
                Extent::Whole => reading::excerpt(spool, LinePosition::FIRST.at, delta.to, amount),
            };
            (spans, amount)
        };
        // Both share what the caller has asked for.
        let both = amounts.output.max_chars.saturating_add(amounts.errors.max_chars);
        let room = client.room(asked.unwrap_or(both));
        if errors > 0 {
            let (spans, amount) = read(StreamName::Errors);
            // The output keeps the room that it needs, up to half.
            let half = room.half();
            let needed =
                usize::try_from(output).unwrap_or(usize::MAX).saturating_mul(CHARS_PER_BYTE);
            let kept = needed.saturating_add(MARKER_CHARS).min(half.chars);
            let part = match output {
                0 => room,
                _ => Room { chars: room.chars - kept, ..half },
            };
            let room = part.with_at_most(amount.max_chars);
            let part = Part { stream: StreamName::Errors, numbering, amount, room };
            result.errors = self.lay_out(task, &mut result.notes, spans, part, client)?;
        }
        let (spans, amount) = read(StreamName::Output);
        let room = room.beside(&result.errors.text).with_at_most(amount.max_chars);
        let part = Part { stream: StreamName::Output, numbering, amount, room };
        self.show(task, result, spans, part, client)
    }

    fn amounts(&self, task: &TaskHandle, view: &View, asked: Option<usize>) -> PerStream<Amount> {
        let ended = view.task.ended.as_ref();
        let of = |name: StreamName| {
            let to = view.deltas.get(name).to.at;
            amount(task, name, to, ended, asked, self.config.max_output)
        };
        PerStream { output: of(StreamName::Output), errors: of(StreamName::Errors) }
    }

    /// The result that shows these spans of a stream, or the screen of a full-screen program.
    pub(super) fn show(
        &self,
        task: &TaskHandle,
        mut result: TaskResult,
        spans: io::Result<Vec<OutputSpan>>,
        part: Part,
        client: ClientProfile,
    ) -> Answer {
        result.numbered = part.numbering != Numbering::Plain;
        if part.numbering != Numbering::Range {
            result.new_bytes = result.view.deltas.map(Delta::new_bytes);
        }
        let shown = self.lay_out(task, &mut result.notes, spans, part, client)?;
        match part.stream {
            StreamName::Output => result.shown = shown,
            StreamName::Errors => result.errors = shown,
        }
        // A caller that asked for lines gets lines.
        if result.numbered || result.matched.is_some() {
            result.notes.extend(screen_hint(task));
        } else if let Some(screen) = task.live.terminal().and_then(Terminal::full_screen) {
            result.shown = Shown {
                from_line: result.shown.from_line,
                to_line: result.shown.to_line,
                ..result::screen_rows(&screen.view, part.room, task.id())
            };
            result.screen = Some(screen);
        }
        Ok(self.task_result(task, result, client))
    }

    /// Lays these spans of a stream out. Notes, once for each stream of a task, if they are not UTF-8.
    fn lay_out(
        &self,
        task: &TaskHandle,
        notes: &mut Vec<ResultNote>,
        spans: io::Result<Vec<OutputSpan>>,
        part: Part,
        client: ClientProfile,
    ) -> Result<Shown, NoResult> {
        let spans = spans.map_err(|error| unreadable(task, &error))?;
        // Copied first, so that no lock is held while lines are laid out.
        let columns = task.live.state().columns;
        let raw_call = match part.stream {
            StreamName::Output => format!("zsh-tool log --raw {}", task.id()),
            StreamName::Errors => format!("zsh-tool log --raw --stderr {}", task.id()),
        };
        let shown = lines::lay_out(
            &spans,
            &Layout {
                room: part.room,
                numbered: part.numbering != Numbering::Plain,
                repeats: match part.numbering {
                    Numbering::Plain | Numbering::Numbered => Repeats::Collapse,
                    Numbering::Range => Repeats::Each,
                },
                choice: part.amount.choice,
                colours: client.palette.output_colours(task.live.facts.input),
                columns,
                read_call: &poll_call(task, part.stream),
                raw_call: &raw_call,
            },
        );
        if let Some(found) = shown.not_utf_8 {
            let mut state = task.live.state();
            let is_new = !std::mem::replace(state.told.encoding.get_mut(part.stream), true);
            drop(state);
            notes.extend(is_new.then(|| encoding_note(found, &raw_call)));
        }
        Ok(shown)
    }

    /// The result of a call about a task, with the insights about it.
    pub(super) fn task_result(
        &self,
        task: &TaskHandle,
        mut result: TaskResult,
        client: ClientProfile,
    ) -> ToolResult {
        let facts = &task.live.facts;
        let end = result.view.task.ended.as_ref();
        let ends = [&result.shown.text, &result.errors.text]
            .map(|text| lines::last_chars(text, TAIL_CHARS))
            .join("\n");
        let run_record = self.recorder.record_of(task.id());
        let mut insights = notes::of_task(facts, end, &task.losses(), &ends, &result.view.made);
        insights.extend(
            result.view.continues_anew.as_ref().map(|verdict| continues_note(facts, verdict)),
        );
        // The shim of a detached task always ends with it, so a clean end is not reported.
        let past =
            task.ended_server.as_ref().filter(|past| facts.detached.is_none() || !past.is_clean());
        insights.extend(past.map(|past| notes::server_ended_note(past, end)));
        insights.extend(limited_visibility_note(task));
        insights.extend(self.many_processes_note(task));
        insights.append(&mut result.notes);
        insights.extend(self.address_in_use(task, &result));
        if !result.view.running() {
            let leftovers = result.view.task.leftovers.iter().map(|left| left.pid);
            result.listening = listening::ports_of(&leftovers.collect::<Vec<i32>>());
        }
        let news = run_record.iter().flat_map(|run_record| {
            run_record.take_new_insights(self.config.insights, insights.is_empty())
        });
        let news: Vec<ResultNote> = news.map(ResultNote::from).collect();
        insights.extend(news);
        let priority = if insights.iter().any(|insight| insight.level == Level::Warning) {
            1.0
        } else if !insights.is_empty() && result.shown.to_line + result.errors.to_line == 0 {
            0.3
        } else {
            0.7
        };
        result.notes = insights;
        let waiting = result.view.waiting();
        result.person_line = waiting.and_then(|waiting| self.person_line(waiting.wanted, facts));
        let log_paths = task
            .spools
            .map(|spool| spool.files().first().map(|path| path.to_string_lossy().into_owned()));
        let history = run_record.as_ref().map(|run_record| run_record.history());
        let estimate = history.as_ref().and_then(|known| known.estimate.as_ref());
        ToolResult {
            meta: Some(result.meta(facts, estimate, client.ceiling, log_paths)),
            priority,
            ..ToolResult::text(result.text(
                facts,
                estimate,
                client.ceiling,
                client.palette,
                client.kept.part,
            ))
        }
    }
}

/// Says that output is not UTF-8, and how it is shown.
fn encoding_note(found: Found, raw_call: &str) -> ResultNote {
    let count = plural(grouped(found.bytes), "byte is", "bytes are");
    let shown = match found.encoding {
        Some(encoding) if found.is_sure => format!("shown as decoded from {}", encoding.name()),
        Some(encoding) => format!("shown as U+FFFD, perhaps it is {}", encoding.name()),
        None => "shown as U+FFFD".to_owned(),
    };
    ResultNote::info(format!("{count} not UTF-8: {shown}. {raw_call} prints the bytes."))
}

/// Warns, once for each task that takes input, that a wait for input may go unnoticed.
fn limited_visibility_note(task: &TaskHandle) -> Option<ResultNote> {
    let mut state = task.live.state();
    if state.ended.is_some() || state.told.evidence || task.live.facts.input == Input::None {
        return None;
    }
    let note = notes::evidence_note(state.evidence)?;
    state.told.evidence = true;
    Some(note)
}

/// Says, once for each task, how to see the screen of a full-screen program.
pub(super) fn screen_hint(task: &TaskHandle) -> Option<ResultNote> {
    let is_full_screen = task.live.terminal().is_some_and(Terminal::is_full_screen);
    let is_new = is_full_screen && !std::mem::replace(&mut task.live.state().told.screen, true);
    is_new.then(|| {
        ResultNote::info("a full-screen program: zsh_poll screen=true shows what it looks like.")
    })
}

/// Which of the output a result shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Extent {
    /// What no other has shown.
    New,
    /// All, also what others have shown.
    Whole,
}

/// The part of a result that shows a stream.
#[derive(Debug, Clone, Copy)]
pub(super) struct Part {
    pub(super) stream: StreamName,
    pub(super) numbering: Numbering,
    pub(super) amount: Amount,
    pub(super) room: Room,
}

/// Whether lines have numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Numbering {
    /// `zsh`, `zsh_send`.
    Plain,
    /// `zsh_poll`.
    Numbered,
    /// `zsh_poll` with a range: numbered, and identical lines are not collapsed.
    Range,
}

/// Says that a task continues past a deadline that its caller has not set, and why.
fn continues_note(facts: &Facts, verdict: &Verdict) -> ResultNote {
    let why = describe::at_deadline(verdict).map_or_else(String::new, |why| format!(": {why}"));
    let limit = facts.timeout.unwrap_or_default().as_secs_f64();
    ResultNote::info(format!("past {limit}s, continues{why} · zsh_kill ends it"))
}
