//! What each tool does: arguments in, a result out. Runs on a thread of its own for each
//! call and may wait.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use regex::Regex;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::arguments::{self, ArgumentError, Clamped};
use super::insight::{self, Insight, Level};
use super::overview;
use super::render::{self, Palette, TaskResult, View};
use super::search;
use super::tools::{
    KillArguments, NoArguments, PollArguments, RunArguments, SendArguments, TasksArguments, Tool,
    ToolName, WaitFor,
};
use crate::config::{Config, InsightChoice, Warning};
use crate::process::pty::TerminalSize;
use crate::process::signals::Signal;
use crate::progress::advice::idle_polls_of;
use crate::record::notices;
use crate::task::deadline::{self, Kind, TimeoutBounds};
use crate::task::live::{Cancel, Delta, Input};
use crate::task::reading::{self, Match};
use crate::task::registry::TaskHandle;
use crate::task::state::KillOrder;
use crate::task::supervisor::{Request, Stdin, Supervisor};
use crate::task::watch::{Goal, Stopped, Tick, Watch};
use crate::text::lines::{self, Layout, Piece, Position};

/// A background command's first answer.
const BACKGROUND_YIELD: Duration = Duration::from_millis(300);
/// The default of `listen`.
const LISTEN: Duration = Duration::from_secs(2);
/// After a kill's receipt the end itself is waited for so long.
const END_AFTER_KILL: Duration = Duration::from_millis(500);
/// Progress is told no more often than this.
const PROGRESS_EVERY: Duration = Duration::from_millis(500);
/// How much of the output's last line a progress message holds.
const PROGRESS_CHARS: usize = 120;
/// How much of the shown text is looked at for signs of a missing terminal.
const TAIL_CHARS: usize = 2_000;

/// The answer to a call.
#[derive(Debug)]
pub struct Outcome {
    text: String,
    is_error: bool,
    meta: Option<Value>,
    structured: Option<Value>,
    /// MCP's annotation, 0 to 1.
    priority: f64,
}

impl Outcome {
    fn text(text: String) -> Outcome {
        Outcome {
            text,
            is_error: false,
            meta: None,
            structured: None,
            priority: 0.7,
        }
    }

    /// What the tool could not do.
    pub fn error(text: impl Into<String>) -> Outcome {
        Outcome {
            is_error: true,
            meta: Some(json!({"status": "error"})),
            priority: 1.0,
            ..Outcome::text(text.into())
        }
    }

    /// As the result of `tools/call`.
    pub fn into_result(self) -> Value {
        let mut result = json!({
            "content": [{
                "type": "text",
                "text": self.text,
                "annotations": {"audience": ["user", "assistant"], "priority": self.priority},
            }],
            "isError": self.is_error,
        });
        if let Some(structured) = self.structured {
            result["structuredContent"] = structured;
        }
        if let Some(meta) = self.meta {
            result["_meta"] = json!({"zsh-tool/result": meta});
        }
        result
    }
}

/// What a call is allowed to know of its surroundings.
pub struct Call<'a> {
    /// Cancelled by the client or by the server's end.
    pub cancel: &'a Cancel,
    /// Takes progress, when the client wants any: seconds since the start, and a message.
    pub progress: Option<&'a mut dyn FnMut(f64, String)>,
    /// Whether results are coloured.
    pub palette: Palette,
}

/// All tools of a server.
pub struct Tools {
    /// The tasks.
    pub supervisor: Arc<Supervisor>,
    /// What the user decided.
    pub config: Config,
    /// What is wrong with the configuration.
    pub warnings: Vec<Warning>,
}

type Answer = Result<Outcome, String>;

impl Tools {
    /// Carries a call out. `None`: it was cancelled and is not answered.
    pub fn call(&self, tool: &Tool, arguments: Option<&Value>, call: &mut Call) -> Option<Outcome> {
        let answer = match tool.name {
            ToolName::Run => self.run(tool, arguments, call),
            ToolName::Poll => self.poll(tool, arguments, call),
            ToolName::Send => self.send(tool, arguments, call),
            ToolName::Kill => self.kill(tool, arguments, call),
            ToolName::Tasks => self.tasks(tool, arguments),
            ToolName::Health => self.health(tool, arguments),
        };
        if call.cancel.is_cancelled() {
            return None;
        }
        let mut outcome = answer.unwrap_or_else(Outcome::error);
        self.put_notices_ahead(&mut outcome, arguments);
        Some(outcome)
    }

    fn put_notices_ahead(&self, outcome: &mut Outcome, arguments: Option<&Value>) {
        let about = arguments
            .and_then(|arguments| arguments.get("task_id"))
            .and_then(Value::as_str);
        let notices = notices::take(&self.supervisor.tasks(), about);
        if notices.is_empty() {
            return;
        }
        let redactor = &self.supervisor.settings().redactor;
        let mut lines = render::notice_lines(&notices, |text| redactor.redact(text).into_owned());
        lines.push(std::mem::take(&mut outcome.text));
        outcome.text = lines.join("\n");
    }

    // zsh

    fn run(&self, tool: &Tool, arguments: Option<&Value>, call: &mut Call) -> Answer {
        let (arguments, clamped) = read::<RunArguments>(tool, arguments)?;
        let mut notes: Vec<Insight> = clamped.iter().map(clamped_note).collect();
        let pattern = compile("until", arguments.until.as_deref())?;
        let background = arguments.background.unwrap_or(false);
        let yield_after = match arguments.yield_after {
            Some(seconds) => seconds_of("yield_after", seconds)?,
            None if background => BACKGROUND_YIELD,
            None => self.config.yield_after,
        };
        let request = self.request(&arguments, background, &mut notes)?;
        let max_output = arguments.max_output.unwrap_or(self.config.max_output);
        let task = self
            .supervisor
            .start(request)
            .map_err(|error| error.to_string())?;
        let stopped = self.watch(&task, Goal::End, pattern.as_ref(), yield_after, call)?;
        if stopped == Stopped::Cancelled {
            // Whoever cancels a command's first call wants the command gone.
            self.supervisor.kill(&task, KillOrder::InOrder);
            return Ok(Outcome::text(String::new()));
        }
        let delta = task.live.take_delta();
        let pieces = reading::new_output(&task.spool, &delta, max_output);
        let moved_to = task
            .live
            .state()
            .ended
            .as_ref()
            .and_then(|end| end.moved_to.clone());
        if let Some(directory) = moved_to {
            self.supervisor.keep_directory(&directory);
        }
        self.result(
            &task,
            delta,
            pieces,
            matched(stopped),
            notes,
            Numbering::Plain,
            max_output,
            call.palette,
        )
    }

    fn request(
        &self,
        arguments: &RunArguments,
        background: bool,
        notes: &mut Vec<Insight>,
    ) -> Result<Request, String> {
        let pty = arguments.pty.unwrap_or(false);
        let stdin_open = arguments.stdin_open.unwrap_or(false);
        let stdin = match (&arguments.stdin, stdin_open, pty) {
            (Some(_), _, true) => {
                return Err(
                    "stdin feeds a pipe and pty has none: leave stdin out and type with zsh_send"
                        .into(),
                );
            }
            (Some(_), true, false) => {
                return Err(
                    "stdin ends after its text and stdin_open stays open: pass one of them, \
                    and with stdin_open send the text with zsh_send"
                        .into(),
                );
            }
            (None, true, true) => {
                return Err(
                    "stdin_open asks for a pipe and pty for a terminal: pass one of them".into(),
                );
            }
            (Some(text), false, false) => Stdin::Text(text.clone()),
            (None, true, false) => Stdin::Open,
            (None, false, _) => Stdin::Null,
        };
        if !pty && (arguments.rows.is_some() || arguments.cols.is_some()) {
            return Err(
                "rows and cols are the size of a terminal: pass pty: true with them".into(),
            );
        }
        let standard = TerminalSize::default();
        let terminal = pty.then(|| TerminalSize {
            rows: arguments.rows.unwrap_or(standard.rows),
            cols: arguments.cols.unwrap_or(standard.cols),
        });
        let kind = match (background, pty || stdin_open) {
            (true, _) => Kind::Background,
            (false, true) => Kind::Interactive,
            (false, false) => Kind::Plain,
        };
        let bounds = TimeoutBounds {
            default: self.config.timeout_default,
            most: self.config.timeout_max,
            none_allowed: self.config.allow_no_deadline,
        };
        let timeout = deadline::resolve(arguments.timeout, kind, &bounds)
            .map_err(|error| error.to_string())?;
        if let Some(asked) = timeout.clamped_from {
            notes.push(Insight::info(format!(
                "timeout {asked} s is above the maximum: {} s is used. For longer runs pass background: true \
                 without timeout (or raise timeout_max).",
                self.config.timeout_max.as_secs_f64()
            )));
        }
        let environment = arguments.env.iter().flatten();
        Ok(Request {
            command: arguments.command.clone(),
            description: arguments.description.clone(),
            directory: arguments.cwd.as_ref().map(PathBuf::from),
            environment: environment
                .map(|(name, value)| (name.clone(), value.clone()))
                .collect(),
            stdin,
            terminal,
            timeout: timeout.limit,
        })
    }

    // zsh_poll

    fn poll(&self, tool: &Tool, arguments: Option<&Value>, call: &mut Call) -> Answer {
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
        let begun = Instant::now();
        let stopped = self.watch(&task, goal, pattern.as_ref(), listen, call)?;
        if stopped == Stopped::Cancelled {
            return Ok(Outcome::text(String::new()));
        }
        let delta = task.live.take_delta();
        task.live
            .count_poll(delta.new_bytes() > 0, idle_polls_of(begun.elapsed()));
        let pieces = if arguments.full_output == Some(true) {
            reading::excerpt(&task.spool, FIRST, delta.to, max_output)
        } else {
            reading::new_output(&task.spool, &delta, max_output)
        };
        self.result(
            &task,
            delta,
            pieces,
            matched(stopped),
            notes,
            Numbering::Numbered,
            max_output,
            call.palette,
        )
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
            return Err(format!(
                "to_line must be at least from_line ({first}), not {last}"
            ));
        }
        let end = task.live.state().output_end;
        let pieces = reading::range(&task.spool, first, arguments.to_line, end, max_output);
        notes.extend(pieces.iter().find_map(|pieces| {
            let last = arguments.to_line.unwrap_or(u64::MAX);
            lines_gone(pieces, first, last, end)
        }));
        let nothing_new = Delta {
            from: end,
            new_from: end.offset,
            to: end,
        };
        self.result(
            task,
            nothing_new,
            pieces,
            None,
            notes,
            Numbering::Numbered,
            max_output,
            palette,
        )
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
        let shown = found.into_shown(pattern, task.id());
        Ok(self.task_outcome(task, shown, 0, None, notes, true, palette))
    }

    // zsh_send

    fn send(&self, tool: &Tool, arguments: Option<&Value>, call: &mut Call) -> Answer {
        let (arguments, clamped) = read::<SendArguments>(tool, arguments)?;
        let notes: Vec<Insight> = clamped.iter().map(clamped_note).collect();
        let task = self.find(&arguments.task_id)?;
        let size = match (arguments.rows, arguments.cols) {
            (Some(rows), Some(cols)) => Some(TerminalSize { rows, cols }),
            (None, None) => None,
            _ => return Err("rows and cols go together: pass both".into()),
        };
        let eof = arguments.eof.unwrap_or(false);
        if arguments.input.is_none() && !eof && size.is_none() {
            return Err("nothing to send: pass input, eof: true, or rows and cols".into());
        }
        let listen = match arguments.listen {
            Some(seconds) => seconds_of("listen", seconds)?,
            None => LISTEN,
        };
        let refused = |error: crate::task::supervisor::InputError| error.to_string();
        if let Some(size) = size {
            self.supervisor.resize(&task, size).map_err(refused)?;
        }
        if let Some(input) = &arguments.input {
            let bytes = typed(
                input,
                arguments.enter.unwrap_or(true),
                task.live.facts.input,
            );
            self.supervisor.send_input(&task, bytes).map_err(refused)?;
        }
        if eof {
            self.supervisor.end_input(&task).map_err(refused)?;
        }
        let stopped = self.watch(&task, Goal::Reply, None, listen, call)?;
        if stopped == Stopped::Cancelled {
            return Ok(Outcome::text(String::new()));
        }
        let max_output = self.config.max_output;
        let delta = task.live.take_delta();
        let pieces = reading::new_output(&task.spool, &delta, max_output);
        self.result(
            &task,
            delta,
            pieces,
            None,
            notes,
            Numbering::Plain,
            max_output,
            call.palette,
        )
    }

    // zsh_kill

    fn kill(&self, tool: &Tool, arguments: Option<&Value>, call: &mut Call) -> Answer {
        let (arguments, _) = read::<KillArguments>(tool, arguments)?;
        let task = self.find(&arguments.task_id)?;
        let order = match &arguments.signal {
            None => KillOrder::InOrder,
            Some(name) => KillOrder::Only(Signal::from_name(name).ok_or_else(|| {
                let known = Signal::ALL.map(Signal::name).join(", ");
                format!("signal must be one of {known}, not {name}")
            })?),
        };
        let receipt = self.supervisor.kill(&task, order);
        let all_gone = receipt
            .as_ref()
            .is_none_or(|receipt| receipt.survivors.is_empty());
        if all_gone {
            self.watch(&task, Goal::End, None, END_AFTER_KILL, call)?;
        }
        let view = View::of(&task.live);
        task.live.tell_end();
        let facts = &task.live.facts;
        let mut outcome = Outcome::text(render::receipt_text(
            facts,
            &view,
            receipt.as_ref(),
            call.palette,
        ));
        outcome.meta = Some(render::receipt_meta(facts, &view, receipt.as_ref()));
        Ok(outcome)
    }

    // zsh_tasks, zsh_health

    fn tasks(&self, tool: &Tool, arguments: Option<&Value>) -> Answer {
        let (arguments, _) = read::<TasksArguments>(tool, arguments)?;
        let overview = overview::tasks(
            &self.supervisor,
            arguments.all.unwrap_or(false),
            arguments.limit.unwrap_or(overview::TASKS_LISTED),
        );
        Ok(Outcome {
            structured: Some(overview.structured),
            ..Outcome::text(overview.text)
        })
    }

    fn health(&self, tool: &Tool, arguments: Option<&Value>) -> Answer {
        read::<NoArguments>(tool, arguments)?;
        let overview = overview::health(&self.supervisor, &self.config, &self.warnings);
        Ok(Outcome {
            structured: Some(overview.structured),
            ..Outcome::text(overview.text)
        })
    }

    // What they share.

    fn find(&self, id: &str) -> Result<Arc<TaskHandle>, String> {
        self.supervisor.task(id).ok_or_else(|| {
            let id: String = id.chars().take(40).collect();
            format!(
                "task_id {id} is unknown: zsh_tasks with all=true lists the tasks that are known"
            )
        })
    }

    /// Waits, and tells the client's progress meanwhile, if it wants any.
    fn watch(
        &self,
        task: &TaskHandle,
        goal: Goal,
        pattern: Option<&Regex>,
        limit: Duration,
        call: &mut Call,
    ) -> Result<Stopped, String> {
        let cancel = call.cancel;
        let mut tell;
        let tick = match &mut call.progress {
            None => None,
            Some(progress) => {
                tell = |task: &TaskHandle| {
                    let seconds = task.live.facts.started.mono.elapsed().as_secs_f64();
                    progress(seconds, newest_line(task));
                };
                Some(Tick {
                    every: PROGRESS_EVERY,
                    call: &mut tell,
                })
            }
        };
        let watch = Watch {
            goal,
            pattern,
            limit: Instant::now() + limit,
            cancel,
            tick,
        };
        watch.run(task).map_err(|error| error.to_string())
    }

    #[allow(clippy::too_many_arguments)]
    fn result(
        &self,
        task: &TaskHandle,
        delta: Delta,
        pieces: std::io::Result<Vec<Piece>>,
        matched: Option<Match>,
        notes: Vec<Insight>,
        numbering: Numbering,
        max_output: usize,
        palette: Palette,
    ) -> Answer {
        let mut pieces = pieces
            .map_err(|error| format!("the output of task {} cannot be read: {error}", task.id()))?;
        if !task.live.state().closed {
            lines::hold_back_unfinished_character(&mut pieces);
        }
        let numbered = numbering == Numbering::Numbered;
        let shown = lines::lay_out(
            &pieces,
            &Layout {
                max_chars: max_output,
                numbered,
                colours: palette.of_output(task.live.facts.input),
                reader: &format!("zsh_poll task_id={}", task.id()),
            },
        );
        Ok(self.task_outcome(
            task,
            shown,
            delta.new_bytes(),
            matched,
            notes,
            numbered,
            palette,
        ))
    }

    #[allow(clippy::too_many_arguments)]
    fn task_outcome(
        &self,
        task: &TaskHandle,
        shown: lines::Shown,
        new_bytes: u64,
        matched: Option<Match>,
        notes: Vec<Insight>,
        numbered: bool,
        palette: Palette,
    ) -> Outcome {
        let facts = &task.live.facts;
        let view = View::of(&task.live);
        let tail: String = {
            let skipped = shown.text.chars().count().saturating_sub(TAIL_CHARS);
            shown.text.chars().skip(skipped).collect()
        };
        let mut insights = insight::of_task(facts, view.end(), &task.spool.losses(), &tail);
        insights.extend(notes);
        if self.config.insights == InsightChoice::Useful {
            insights.retain(|insight| insight.level == Level::Warning);
        }
        let warned = insights
            .iter()
            .any(|insight| insight.level == Level::Warning);
        let only_told = !insights.is_empty() && shown.to_line == 0;
        let priority = match (warned, only_told) {
            (true, _) => 1.0,
            (false, true) => 0.3,
            (false, false) => 0.7,
        };
        let log_path = task
            .spool
            .files()
            .first()
            .map(|path| path.display().to_string());
        let result = TaskResult {
            facts,
            view,
            shown,
            new_bytes,
            numbered,
            matched,
            insights,
            log_path,
        };
        Outcome {
            meta: Some(result.meta()),
            priority,
            ..Outcome::text(result.text(palette))
        }
    }
}

const FIRST: Position = Position { offset: 0, line: 1 };

/// Says that a range begins with lines that are no longer there.
fn lines_gone(pieces: &[Piece], first: u64, last: u64, end: Position) -> Option<Insight> {
    let found = pieces.first().map_or(end.line, |piece| piece.start.line);
    let last_gone = last.min(found.saturating_sub(1));
    (last_gone >= first).then(|| {
        Insight::warning(format!(
            "lines {}–{} are gone.",
            lines::grouped(first),
            lines::grouped(last_gone)
        ))
    })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Numbering {
    Plain,
    Numbered,
}

fn read<T: DeserializeOwned>(
    tool: &Tool,
    arguments: Option<&Value>,
) -> Result<(T, Vec<Clamped>), String> {
    arguments::read(tool.wire_name, &tool.schema, arguments).map_err(|ArgumentError(text)| text)
}

fn compile(argument: &str, pattern: Option<&str>) -> Result<Option<Regex>, String> {
    pattern.map(Regex::new).transpose().map_err(|error| {
        format!("{argument} is no valid regular expression (Rust syntax): {error}")
    })
}

fn seconds_of(argument: &str, seconds: f64) -> Result<Duration, String> {
    Duration::try_from_secs_f64(seconds)
        .map_err(|_| format!("{argument} must be a number of seconds, not {seconds}"))
}

fn clamped_note(clamped: &Clamped) -> Insight {
    Insight::info(format!(
        "{} {} s is above the maximum: {} s is used. For longer waits pass background: true and poll.",
        clamped.argument, clamped.asked, clamped.used
    ))
}

/// The newest line of output, short enough for a progress message.
fn newest_line(task: &TaskHandle) -> String {
    let (line_start, end) = {
        let state = task.live.state();
        (state.line_start, state.output_end)
    };
    let line = reading::last_line(&task.spool, line_start, end).unwrap_or_default();
    line.chars().take(PROGRESS_CHARS).collect()
}

fn matched(stopped: Stopped) -> Option<Match> {
    match stopped {
        Stopped::Matched(found) => Some(found),
        Stopped::Output | Stopped::Ended | Stopped::Limit | Stopped::Cancelled => None,
    }
}

/// Text as keys: Enter is CR on a terminal and LF in a pipe.
fn typed(text: &str, enter: bool, input: Input) -> Vec<u8> {
    let mut bytes = text.as_bytes().to_vec();
    if enter {
        bytes.push(match input {
            Input::Terminal => b'\r',
            Input::Pipe | Input::None => b'\n',
        });
    }
    bytes
}
