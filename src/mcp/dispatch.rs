//! What the tools share: a call's way from its arguments to its result, waiting, and the
//! shape of an answer. Runs on a thread of its own for each call and may wait.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use regex::Regex;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::arguments::{self, ArgumentError, Clamped};
use super::conditions;
use super::insight::{self, Insight, Level};
use super::notice;
use super::overview::MonitorAt;
use super::render::{Palette, TaskResult};
use super::screen;
use super::tools::{Tool, ToolName};
use super::view::View;
use crate::config::{Config, InsightChoice, Warning};
use crate::protocol::message::put;
use crate::record::notices;
use crate::record::recorder::Recorder;
use crate::task::live::{Cancel, Input};
use crate::task::reading::{self, Match};
use crate::task::registry::TaskHandle;
use crate::task::supervisor::Supervisor;
use crate::task::terminal::{Seen, Terminal};
use crate::task::watch::{Goal, Stopped, Tick, Watch};
use crate::text::lines::{self, Layout, Shown, Stretch};

/// The default of `listen`.
pub(super) const LISTEN: Duration = Duration::from_secs(2);
/// Progress is told no more often than this.
const PROGRESS_EVERY: Duration = Duration::from_millis(500);
/// How much of the output's last line a progress message holds.
const PROGRESS_CHARS: usize = 120;
/// How much of the shown text is looked at for signs of a missing terminal.
const TAIL_CHARS: usize = 2_000;

/// The answer to a call.
#[derive(Debug)]
pub struct Outcome {
    pub(super) text: String,
    is_error: bool,
    pub(super) meta: Option<Value>,
    pub(super) structured: Option<Value>,
    /// MCP's annotation, 0 to 1.
    priority: f64,
}

impl Outcome {
    /// What the tool did.
    pub(super) fn text(text: String) -> Outcome {
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
            put(&mut result, "structuredContent", structured);
        }
        if let Some(meta) = self.meta {
            put(&mut result, "_meta", json!({"zsh-tool/result": meta}));
        }
        result
    }
}

/// What a call is allowed to know of its surroundings.
pub struct Call<'a> {
    /// Cancelled by the client or by the server's end.
    pub cancel: &'a Cancel,
    /// Takes progress, when the client wants any.
    pub progress: Option<&'a mut dyn FnMut(Progress)>,
    /// Whether results are coloured.
    pub palette: Palette,
    /// Whether the answer may be a task of the client's.
    pub takes_tasks: bool,
}

/// The answer to a call.
#[derive(Debug)]
pub enum Reply {
    /// A result.
    Result(Outcome),
    /// A task, whose result the client asks for later.
    Task(Value),
}

/// How far a command is.
#[derive(Debug, Clone, PartialEq)]
pub struct Progress {
    /// Seconds since its start.
    pub elapsed: f64,
    /// The seconds that half of such commands take, where that is known.
    pub usual: Option<f64>,
    /// The newest line of its output, short and plain.
    pub message: String,
}

/// All tools of a server.
pub struct Tools {
    /// The tasks.
    pub supervisor: Arc<Supervisor>,
    /// What is remembered of commands.
    pub recorder: Arc<Recorder>,
    /// What the user decided.
    pub config: Config,
    /// What is wrong with the configuration.
    pub warnings: Vec<Warning>,
    /// Where the server also serves HTTP.
    pub monitor: Option<MonitorAt>,
    /// The tasks that clients ask for, by id.
    pub(super) handed_over: Mutex<HashMap<String, HandedOver>>,
}

/// What a call leaves to the result of the task that it has become.
pub(super) struct HandedOver {
    /// Characters of output at most.
    pub max_output: usize,
    /// What is to be said about the call, and what has been said of its command: the
    /// result is the same however often the client asks for it.
    pub notes: Vec<Insight>,
}

/// What a call came to.
pub(super) type Answer = Result<Outcome, NoAnswer>;

/// Why a call has no outcome.
#[derive(Debug)]
pub(super) enum NoAnswer {
    /// The client cancelled it and wants none.
    Cancelled,
    /// It is the client's task now.
    HandedOver(Arc<TaskHandle>),
    /// What the tool could not do, for the caller to read.
    Refused(String),
}

impl From<String> for NoAnswer {
    fn from(text: String) -> Self {
        NoAnswer::Refused(text)
    }
}

impl From<&str> for NoAnswer {
    fn from(text: &str) -> Self {
        NoAnswer::Refused(text.to_owned())
    }
}

impl Tools {
    /// All tools, over these tasks.
    pub fn new(
        supervisor: Arc<Supervisor>,
        recorder: Arc<Recorder>,
        config: Config,
        warnings: Vec<Warning>,
        monitor: Option<MonitorAt>,
    ) -> Tools {
        Tools {
            supervisor,
            recorder,
            config,
            warnings,
            monitor,
            handed_over: Mutex::default(),
        }
    }

    /// Carries a call out. `None`: it was cancelled and is not answered; what `Some`
    /// holds must be sent, since it has moved the task's cursor.
    pub fn call(&self, tool: &Tool, arguments: Option<&Value>, call: &mut Call) -> Option<Reply> {
        let answer = match tool.name {
            ToolName::Run => self.run(tool, arguments, call),
            ToolName::Poll => self.poll(tool, arguments, call),
            ToolName::Send => self.send(tool, arguments, call),
            ToolName::Kill => self.kill(tool, arguments, call),
            ToolName::Tasks => self.tasks(tool, arguments),
            ToolName::Health => self.health(tool, arguments),
            ToolName::AlanStats => self.alan_stats(tool, arguments),
            ToolName::AlanQuery => self.alan_query(tool, arguments),
            ToolName::NeverhangStatus => self.neverhang_status(tool, arguments),
            ToolName::NeverhangReset => self.neverhang_reset(tool, arguments),
        };
        let mut outcome = match answer {
            Ok(outcome) => outcome,
            Err(NoAnswer::Refused(text)) => Outcome::error(text),
            Err(NoAnswer::HandedOver(task)) => return Some(Reply::Task(self.created(&task))),
            Err(NoAnswer::Cancelled) => return None,
        };
        if !call.cancel.begin_answer() {
            return None;
        }
        self.put_notices_ahead(&mut outcome, arguments);
        Some(Reply::Result(outcome))
    }

    fn put_notices_ahead(&self, outcome: &mut Outcome, arguments: Option<&Value>) {
        let about = arguments
            .and_then(|arguments| arguments.get("task_id"))
            .and_then(Value::as_str);
        let notices = notices::take(&self.supervisor.open_tasks(), about);
        if notices.is_empty() {
            return;
        }
        let redactor = &self.supervisor.settings().redactor;
        let mut lines = notice::lines(&notices, |text| redactor.redact(text).into_owned());
        lines.push(std::mem::take(&mut outcome.text));
        outcome.text = lines.join("\n");
    }

    pub(super) fn find(&self, id: &str) -> Result<Arc<TaskHandle>, String> {
        self.supervisor.task(id).ok_or_else(|| {
            let id: String = id.chars().take(40).collect();
            format!(
                "task_id {id} is unknown: zsh_tasks with all=true lists the tasks that are known"
            )
        })
    }

    /// Waits, and tells the client's progress meanwhile, if it wants any.
    pub(super) fn watch(
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
                let account = self.recorder.account(task.id());
                let history = account.as_ref().map(|account| account.history());
                let estimate = history.as_ref().and_then(|known| known.estimate.as_ref());
                let usual = estimate.map(|estimate| estimate.median.seconds);
                tell = move |task: &TaskHandle| {
                    progress(Progress {
                        elapsed: task.live.facts.started.mono.elapsed().as_secs_f64(),
                        usual,
                        message: newest_line(task),
                    });
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

    /// The result that tells of a task and shows some of its output.
    pub(super) fn tell(&self, task: &TaskHandle, showing: Showing, palette: Palette) -> Answer {
        let stretches = showing
            .stretches
            .map_err(|error| format!("the output of task {} cannot be read: {error}", task.id()))?;
        let numbered = showing.numbering == Numbering::Numbered;
        // Taken beforehand: no lock is held while lines are laid out.
        let columns = task.live.state().columns;
        let shown = lines::lay_out(
            &stretches,
            &Layout {
                max_chars: showing.max_output,
                numbered,
                colours: palette.of_output(task.live.facts.input),
                columns,
                reader: &format!("zsh_poll task_id={}", task.id()),
            },
        );
        let mut lines = Lines {
            shown,
            new_bytes: showing.new_bytes,
            matched: showing.matched,
            numbered,
            screen: None,
        };
        let mut notes = showing.notes;
        // Who has asked for lines gets them.
        if numbered || lines.matched.is_some() {
            notes.extend(screen::hint(&task.live));
        } else if let Some(seen) = task.live.terminal().and_then(Terminal::full_screen) {
            lines.shown = Shown {
                text: screen::text(&seen.view, showing.max_output, task.id()),
                from_line: lines.shown.from_line,
                to_line: lines.shown.to_line,
                ..Shown::default()
            };
            lines.screen = Some(seen);
        }
        Ok(self.tell_lines(task, lines, notes, palette))
    }

    /// The same with lines that are laid out already.
    pub(super) fn tell_lines(
        &self,
        task: &TaskHandle,
        lines: Lines,
        notes: Vec<Insight>,
        palette: Palette,
    ) -> Outcome {
        let facts = &task.live.facts;
        let view = View::of(&task.live);
        let tail = lines::last_chars(&lines.shown.text, TAIL_CHARS);
        let account = self.recorder.account(task.id());
        let mut insights = insight::of_task(facts, view.end(), &task.spool.losses(), tail);
        insights.extend(unseen(task));
        insights.extend(notes);
        let remembered = account.iter().flat_map(|account| account.take_news());
        insights.extend(remembered.map(Insight::from));
        if self.config.insights == InsightChoice::Useful {
            insights.retain(|insight| insight.useful);
        }
        let warned = insights
            .iter()
            .any(|insight| insight.level == Level::Warning);
        let only_told = !insights.is_empty() && lines.shown.to_line == 0;
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
        let history = account.as_ref().map(|account| account.history());
        let result = TaskResult {
            facts,
            view,
            shown: lines.shown,
            new_bytes: lines.new_bytes,
            numbered: lines.numbered,
            matched: lines.matched,
            screen: lines.screen,
            estimate: history.as_ref().and_then(|known| known.estimate.as_ref()),
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

/// Says, once for a task that takes input, that nobody can see whether it waits for some.
fn unseen(task: &TaskHandle) -> Option<Insight> {
    let mut state = task.live.state();
    let speaks = state.ended.is_none() && !state.evidence_told;
    if !speaks || task.live.facts.input == Input::None {
        return None;
    }
    let words = conditions::evidence_words(state.evidence)?;
    state.evidence_told = true;
    Some(Insight::warning(words))
}

/// What of a task's output a result is to show.
pub(super) struct Showing {
    /// The output, or why it cannot be read.
    pub stretches: std::io::Result<Vec<Stretch>>,
    /// Bytes of it that no result has shown before.
    pub new_bytes: u64,
    /// The line that `until` matched.
    pub matched: Option<Match>,
    /// What is to be said about the call itself.
    pub notes: Vec<Insight>,
    /// Whether lines carry their numbers.
    pub numbering: Numbering,
    /// Characters of output at most.
    pub max_output: usize,
}

/// Lines for a result.
pub(super) struct Lines {
    /// Laid out.
    pub shown: Shown,
    /// Bytes of them that no result has shown before.
    pub new_bytes: u64,
    /// The line that `until` matched.
    pub matched: Option<Match>,
    /// Whether they carry their numbers.
    pub numbered: bool,
    /// The screen whose rows they are.
    pub screen: Option<Seen>,
}

/// Whether lines carry their numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Numbering {
    /// `zsh`, `zsh_send`.
    Plain,
    /// `zsh_poll`.
    Numbered,
}

/// Reads a call's arguments.
pub(super) fn read<T: DeserializeOwned>(
    tool: &Tool,
    arguments: Option<&Value>,
) -> Result<(T, Vec<Clamped>), String> {
    arguments::read(tool.wire_name, &tool.schema, arguments).map_err(|ArgumentError(text)| text)
}

/// Compiles a pattern that the caller gave.
pub(super) fn compile(argument: &str, pattern: Option<&str>) -> Result<Option<Regex>, String> {
    pattern.map(Regex::new).transpose().map_err(|error| {
        format!("{argument} is no valid regular expression (Rust syntax): {error}")
    })
}

/// Seconds that the caller gave.
pub(super) fn seconds_of(argument: &str, seconds: f64) -> Result<Duration, String> {
    Duration::try_from_secs_f64(seconds)
        .map_err(|_| format!("{argument} must be a number of seconds, not {seconds}"))
}

/// Says that a wait was shortened.
pub(super) fn clamped_note(clamped: &Clamped) -> Insight {
    Insight::info(format!(
        "{} {} s is above the maximum: {} s is used. For longer waits pass background: true and poll.",
        clamped.argument, clamped.asked, clamped.used
    ))
}

/// The newest line of output, short enough for a progress message.
pub(super) fn newest_line(task: &TaskHandle) -> String {
    let (line_start, end, columns) = {
        let state = task.live.state();
        (state.line_start, state.output_end, state.columns)
    };
    let line = reading::last_line(&task.spool, line_start, end, columns).unwrap_or_default();
    line.chars().take(PROGRESS_CHARS).collect()
}

/// The line that ended a wait, if one did.
pub(super) fn matched(stopped: Stopped) -> Option<Match> {
    match stopped {
        Stopped::Matched(found) => Some(found),
        Stopped::Output
        | Stopped::Ended
        | Stopped::WaitsForInput
        | Stopped::StandsStill
        | Stopped::Limit
        | Stopped::Cancelled => None,
    }
}
