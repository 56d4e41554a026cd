//! Finds who carries out a call, and makes an answer of what a tool returns; what the tools share,
//! such as waiting. Each call runs on its own thread and may wait.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde::Serialize;
use serde_json::{Value, json};

use super::access::Access;
use super::call::{Call, WrongCall};
use super::clients::{KeptOutput, KeptPart};
use super::render::notes::ResultNote;
use super::render::result::{self, Palette};
use super::render::view::View;
use super::tools::{RESULT_CHARS, Tool};
use crate::base::cancel::Cancel;
use crate::config::{Config, Warning};
use crate::history::notices;
use crate::history::recorder::Recorder;
use crate::peer::hosts::Hosts;
use crate::peer::pages::Pages;
use crate::peer::relayed::RelayedClient;
use crate::process::executable::AllowedPrograms;
use crate::process::guard::{Guarded, Launcher};
use crate::process::ledger::{Entry, Ledger};
use crate::protocol::message::put;
use crate::protocol::outbox::OnWritten;
use crate::protocol::stateless::ResultType;
use crate::sandbox::policy::Policy;
use crate::task::environment::StartEnvironment;
use crate::task::live::LiveState;
use crate::task::output::reading;
use crate::task::port::{InvalidPort, Port};
use crate::task::recalled::RecalledTask;
use crate::task::registry::TaskHandle;
use crate::task::stream::{Delta, PerStream, StreamName, StreamState};
use crate::task::supervisor::Supervisor;
use crate::task::told::ShownMark;
use crate::task::watch::{Goal, TaskWatch, Tick, WaitEnd};
use crate::text::foreign;
use crate::text::foreign::ShowPath;
use crate::text::lines::{self, Room};
use crate::text::mask::Secret;
use crate::text::pattern::Pattern;

/// The minimum time between two progress messages.
const PROGRESS_EVERY: Duration = Duration::from_millis(500);
/// How much of the output's last line a progress message contains.
const PROGRESS_CHARS: usize = 120;
/// How much of a wrong task id an error repeats, in characters.
const QUOTED_ID_CHARS: usize = 40;

/// The result of a tool.
#[derive(Debug)]
pub(crate) struct ToolResult {
    pub(crate) text: String,
    pub(super) is_error: bool,
    pub(super) meta: Option<Value>,
    /// The structured result, for a tool that declares one.
    pub(crate) structured: Option<Value>,
    /// MCP's annotation, 0 to 1.
    pub(super) priority: f64,
}

impl ToolResult {
    pub(super) fn text(text: String) -> ToolResult {
        ToolResult { text, is_error: false, meta: None, structured: None, priority: 0.7 }
    }

    /// Text, and the same as the JSON that the tool's output schema declares.
    pub(super) fn structured(text: String, structured: &impl Serialize) -> ToolResult {
        ToolResult { structured: Some(json!(structured)), ..ToolResult::text(text) }
    }

    pub(crate) fn error(text: impl Into<String>) -> ToolResult {
        ToolResult {
            is_error: true,
            meta: Some(json!({"status": "error"})),
            priority: 1.0,
            ..ToolResult::text(text.into())
        }
    }

    /// As the result of `tools/call`.
    pub(crate) fn into_result(self) -> Value {
        let mut result = json!({
            "content": [{
                "type": "text",
                "text": Value::Null,
                "annotations": {"audience": ["user", "assistant"], "priority": self.priority},
            }],
            "isError": self.is_error,
        });
        // `json!` would copy it, and it may have a megabyte.
        if let Some(text) = result.pointer_mut("/content/0/text") {
            *text = Value::String(self.text);
        }
        if let Some(structured) = self.structured {
            put(&mut result, "structuredContent", structured);
        }
        if let Some(meta) = self.meta {
            put(&mut result, "_meta", json!({"zsh-tool/result": meta}));
        }
        result
    }
}

/// The context of a call: its client, its channel back, and values that other servers add.
pub(crate) struct CallContext<'a> {
    /// Cancelled by the client or by the server's end.
    pub(crate) cancel: &'a Cancel,
    /// Receives progress, if the client wants it.
    pub(crate) progress: Option<&'a mut dyn FnMut(ProgressMessage)>,
    /// How the client shows results.
    pub(crate) client: ClientProfile,
    /// The client's name; empty if it gave none.
    pub(crate) client_name: String,
    /// Whether the client accepts a task as the answer.
    pub(crate) takes_tasks: bool,
    /// How the caller has reached this server.
    pub(crate) access: Access,
    /// Whether a person reads the answer, so that the output it shows stays new for the agent.
    pub(crate) for_person: bool,
    pub(crate) given: Given,
    /// Its place in the ledger.
    pub(crate) entry: Option<&'a Entry>,
    /// How much of the task had been shown before this call's answer, if the answer shows more.
    pub(crate) shown_before: Option<(Arc<TaskHandle>, ShownMark)>,
}

/// What only a server that passes the call on sends.
#[derive(Default)]
pub(crate) struct Given {
    /// The id for the task that the call starts.
    pub(crate) task_id: Option<String>,
    /// The secret that the call names.
    pub(crate) secret: Option<(Secret, AllowedPrograms)>,
    /// The environment for the command of a shim.
    pub(crate) start: Option<StartEnvironment>,
    /// The sandbox for the command of a shim.
    pub(crate) policy: Option<Policy>,
    /// Codex's description of its own sandbox.
    pub(crate) codex: Option<Value>,
    /// What a task that gets input may do at most.
    pub(crate) at_most: Option<Policy>,
}

impl CallContext<'_> {
    /// Whether a call about a task of another process is relayed to it.
    pub(super) fn relays(&self) -> bool {
        matches!(self.access, Access::Full | Access::Carrier)
    }

    /// Whether this process runs on a host for its client, a server elsewhere. Tasks are then kept
    /// like detached ones, for the next connection.
    pub(super) fn on_host(&self) -> bool {
        self.access == Access::Carrier
    }

    /// Views the task, and marks its new output and its end as shown.
    pub(super) fn show_new(&mut self, task: &Arc<TaskHandle>) -> View {
        self.show(task, LiveState::take_deltas)
    }

    /// Views the task, and marks only its end as shown.
    pub(super) fn report_end(&mut self, task: &Arc<TaskHandle>) -> View {
        self.show(task, |state| {
            state.mark_end_shown();
            state.deltas()
        })
    }

    fn show(
        &mut self,
        task: &Arc<TaskHandle>,
        mark: impl FnOnce(&mut LiveState) -> PerStream<Delta>,
    ) -> View {
        if self.for_person {
            let made = task.live.made_unprotected(false);
            return View { made, ..View::take(&task.live) };
        }
        let view = View::take_with(&task.live, |state| {
            self.shown_before = Some((Arc::clone(task), state.told.mark()));
            let continues = state.continues_unasked(&task.live.facts, Instant::now());
            state.told.continues |= continues.is_some();
            mark(state)
        });
        View { made: task.live.made_unprotected(true), ..view }
    }

    /// Describes the client to another process that carries out the call.
    pub(super) fn relayed_client(&self) -> RelayedClient {
        RelayedClient {
            name: self.client_name.clone(),
            coloured: self.client.palette == Palette::Coloured,
            result_bytes: self.client.kept.bytes,
            result_lines: self.client.kept.lines,
            head_only: self.client.kept.part == KeptPart::Head,
            ceiling_s: Some(self.client.ceiling.as_secs_f64()),
            lease_s: None,
            for_person: false,
            task_id: self.given.task_id.clone(),
            secret: None,
            start: None,
            sandbox: self.given.at_most.clone(),
        }
    }
}

/// The answer to a call.
pub(crate) struct Answered {
    pub(crate) result_type: ResultType,
    pub(crate) result: Value,
    /// Called once the answer has been written. Until then, the output in it counts as not shown.
    pub(crate) delivered: Option<OnWritten>,
}

/// The outcome of a relayed call.
pub(super) enum Relayed {
    /// `None` if it was cancelled.
    Answered(Option<Answered>),
    /// The task's owner ended during the call: only its files remain.
    OwnerEnded,
}

impl Answered {
    /// This process's own result.
    pub(super) fn from_result(result: ToolResult) -> Answered {
        Answered {
            result_type: ResultType::Complete,
            result: result.into_result(),
            delivered: None,
        }
    }
}

/// How a client shows results, and how long it waits for them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ClientProfile {
    pub(crate) palette: Palette,
    /// How much of a result reaches the model, within [`RESULT_CHARS`].
    pub(crate) kept: KeptOutput,
    /// The longest wait of a call.
    pub(crate) ceiling: Duration,
}

/// How much of a result is reserved for lines other than output: in characters, and in bytes if
/// bytes are limited …
pub(crate) const AROUND_OUTPUT: usize = 4_000;
/// … and in lines.
const LINES_AROUND_OUTPUT: usize = 60;

impl ClientProfile {
    /// The room for output, given the `max_output` of the caller or the settings.
    pub(super) fn room(self, max_output: usize) -> Room {
        Room {
            chars: max_output.min(RESULT_CHARS - AROUND_OUTPUT),
            bytes: self.kept.bytes.map_or(usize::MAX, |bytes| bytes.saturating_sub(AROUND_OUTPUT)),
            lines: self
                .kept
                .lines
                .map_or(usize::MAX, |lines| lines.saturating_sub(LINES_AROUND_OUTPUT)),
        }
    }
}

/// How far a command has come.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ProgressMessage {
    /// Seconds since its start.
    pub(crate) elapsed: f64,
    /// The median duration of such commands in seconds, if known.
    pub(crate) usual: Option<f64>,
    /// The newest line of its output, short and plain.
    pub(crate) message: String,
}

impl ProgressMessage {
    /// The progress that the params of a `notifications/progress` describe.
    pub(crate) fn from_params(params: &Value) -> Option<ProgressMessage> {
        // From a host, which may say anything.
        let text = params.get("message").and_then(Value::as_str).unwrap_or_default();
        Some(ProgressMessage {
            elapsed: params.get("progress")?.as_f64()?,
            usual: params.get("total").and_then(Value::as_f64),
            message: progress_message(text),
        })
    }
}

/// How this process starts shims.
#[derive(Debug)]
pub(crate) enum Shims {
    /// Its guard starts them.
    Launcher(Launcher),
    /// This process is a shim itself: whether others can reach its task, or why not.
    IsShim(Result<(), String>),
    /// It has no guard.
    Unavailable,
}

impl Shims {
    /// For a server that is no shim.
    pub(crate) fn from_guard(guarded: Option<Guarded>) -> Shims {
        let launcher = guarded.and_then(|guarded| guarded.launcher);
        launcher.map_or(Shims::Unavailable, Shims::Launcher)
    }
}

/// All tools of a server.
pub(crate) struct Tools {
    pub(crate) supervisor: Arc<Supervisor>,
    pub(crate) recorder: Arc<Recorder>,
    pub(crate) config: Config,
    /// What is wrong with the configuration.
    pub(crate) warnings: Vec<Warning>,
    /// Where the server also serves HTTP.
    pub(crate) monitor: Option<MonitorAddress>,
    /// How detached tasks are started.
    pub(crate) shims: Shims,
    /// How long this shim's task outlives the last connection to it. Unset: it needs no connection.
    pub(crate) lease: OnceLock<Duration>,
    /// The connection to this far side is lost: cancelled calls leave their commands running.
    pub(crate) connection_lost: AtomicBool,
    /// The hosts on which commands can run.
    pub(crate) hosts: Arc<Hosts>,
    /// On a host: answers the page of the connected server.
    pub(crate) pages: OnceLock<Box<dyn Pages>>,
    /// What a server that replaces this one takes over.
    pub(crate) ledger: OnceLock<Arc<Ledger>>,
    /// The first answer has reported the detached tasks of the project.
    pub(super) detached_reported: AtomicBool,
    /// Calls that have become tasks of the client, by task id.
    pub(super) deferred_results: Mutex<HashMap<String, DeferredResult>>,
}

/// The parts of a call that its task's result still needs, after the call has become a task.
pub(super) struct DeferredResult {
    /// The `max_output` of the caller.
    pub(crate) max_output: Option<usize>,
    /// Remarks about the call and its command, kept so that the result is the same whenever the
    /// client requests it.
    pub(crate) notes: Vec<ResultNote>,
}

/// Where the server also serves HTTP.
#[derive(Debug, Clone)]
pub(crate) struct MonitorAddress {
    /// The page's address, without the token.
    pub(crate) address: String,
    /// The file that contains the link with the token, for a person to open.
    pub(crate) link_file: Option<PathBuf>,
}

impl fmt::Display for MonitorAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.link_file {
            Some(file) => write!(f, "{} (its link is in {})", self.address, file.shown()),
            None => {
                write!(f, "{} (its link cannot be kept: there is no state directory)", self.address)
            }
        }
    }
}

pub(super) type Answer = Result<ToolResult, NoResult>;

/// Why a call has no result.
#[derive(Debug)]
pub(super) enum NoResult {
    /// The client has cancelled it.
    Cancelled,
    /// It has become a task of the client.
    BecameTask(Arc<TaskHandle>),
    /// Why the tool could not do it, for the caller to read.
    Refused(String),
}

impl<E: std::error::Error> From<E> for NoResult {
    fn from(error: E) -> Self {
        NoResult::Refused(error.to_string())
    }
}

pub(super) fn refused(text: impl Into<String>) -> NoResult {
    NoResult::Refused(text.into())
}

impl Tools {
    pub(crate) fn new(
        supervisor: Arc<Supervisor>,
        recorder: Arc<Recorder>,
        config: Config,
        warnings: Vec<Warning>,
        monitor: Option<MonitorAddress>,
        shims: Shims,
        hosts: Arc<Hosts>,
    ) -> Tools {
        Tools {
            hosts,
            pages: OnceLock::new(),
            ledger: OnceLock::new(),
            connection_lost: AtomicBool::new(false),
            supervisor,
            recorder,
            config,
            warnings,
            monitor,
            shims,
            lease: OnceLock::new(),
            detached_reported: AtomicBool::new(false),
            deferred_results: Mutex::default(),
        }
    }

    /// Carries out a call, here or by the process that must do it. `None` if it was cancelled and
    /// must not be answered. A result must be sent, since it has moved the task's cursor.
    pub(super) fn call(
        &self,
        tool: &Tool,
        call: Result<Call, WrongCall>,
        context: &mut CallContext,
    ) -> Option<Answered> {
        let mut call = match call {
            Ok(call) => call,
            Err(wrong) => {
                return self.answer(Err(wrong.error.into()), wrong.task_id.as_deref(), context);
            }
        };
        if matches!(call, Call::Send(_)) {
            match self.codex_policy(&context.given) {
                Ok(None) => {}
                Ok(policy) => context.given.at_most = policy,
                Err(error) => return self.answer(Err(error), call.task_id(), context),
            }
        }
        if let Some(host) = call.take_host() {
            return self.call_on_host(tool, &host, &call, context);
        }
        if let Some(owner) = call.task_id().and_then(|id| self.shim_of(id, context))
            && let Relayed::Answered(answered) = self.relay(owner, tool, &call, context)
        {
            return answered;
        }
        let is_shim = matches!(self.shims, Shims::IsShim(_));
        let mut call = match call {
            Call::Run(run) if run.detach == Some(true) && !is_shim => {
                return self.detach(tool, run, context);
            }
            call => call,
        };
        let note = call.limit_wait(context.client.ceiling);
        let notes = note.into_iter().collect();
        let about = call.task_id().map(str::to_owned);
        let answer = match call {
            Call::Run(run) => self.run(*run, notes, context),
            Call::Poll(poll) => self.poll(&poll, notes, context),
            Call::Send(send) => self.send(&send, notes, context),
            Call::Kill(kill) => self.kill(&kill, context),
            Call::Tasks(tasks) => self.tasks(&tasks, context.client.kept),
            Call::Health => self.health(context),
            Call::AlanStats => self.alan_stats(),
            Call::AlanQuery(query) => self.alan_query(&query),
            Call::NeverhangStatus => self.neverhang_status(),
            Call::NeverhangReset(reset) => self.neverhang_reset(reset.command.as_deref()),
        };
        self.answer(answer, about.as_deref(), context)
    }

    /// Makes an answer of what a tool has returned. `about` is the task that the call named.
    fn answer(
        &self,
        answer: Answer,
        about: Option<&str>,
        call: &mut CallContext,
    ) -> Option<Answered> {
        let mut result = match answer {
            Ok(result) => result,
            Err(NoResult::Refused(text)) => ToolResult::error(text),
            Err(NoResult::BecameTask(task)) => {
                return Some(Answered {
                    result_type: ResultType::Task,
                    result: self.created(&task),
                    delivered: None,
                });
            }
            Err(NoResult::Cancelled) => return None,
        };
        if !call.cancel.begin_answer() {
            return None;
        }
        self.add_notices(&mut result.text, result.structured.as_mut(), about, call);
        let mut answered = Answered::from_result(result);
        // A shim remembers how much of its task was shown; after its end, the task's file does.
        let has_no_owner =
            |task: &TaskHandle| task.ended_server.is_some() && task.live.facts.detached.is_some();
        if let Some((task, _)) = call.shown_before.as_ref().filter(|(task, _)| has_no_owner(task)) {
            let (supervisor, task) = (Arc::clone(&self.supervisor), Arc::clone(task));
            answered.delivered = Some(Box::new(move || supervisor.keep_shown(&task)));
        }
        Some(answered)
    }

    /// Adds notices to a result: of tasks other than `about` that have ended and, in the first answer,
    /// of detached tasks of the project. Some clients show a structured result instead of the text.
    pub(super) fn add_notices(
        &self,
        text: &mut String,
        structured: Option<&mut Value>,
        about: Option<&str>,
        call: &CallContext,
    ) {
        // Notices are only for this process's own client.
        if !call.relays() {
            return;
        }
        let redactor = &self.supervisor.settings.redactor;
        let notices = notices::take(&self.supervisor.open_tasks(), about);
        let redact = |text: &str| redactor.redact(text).into_owned();
        let mut lines = result::notice_lines(&notices, call.client.ceiling, redact);
        // On a host, the detached tasks belong to other servers.
        if !call.on_host() && !self.detached_reported.swap(true, Ordering::Relaxed) {
            lines.extend(self.detached_notice(about));
        }
        if lines.is_empty() {
            return;
        }
        if let Some(structured) = structured {
            // A host may have put its own there.
            let earlier = structured.get_mut("notices").map(Value::take);
            let earlier = earlier.as_ref().and_then(Value::as_array).into_iter().flatten().cloned();
            let own = lines.iter().map(|line| json!(line));
            let all: Vec<Value> = own.chain(earlier).collect();
            put(structured, "notices", all);
        }
        let notices = lines.join("\n");
        match (call.client.kept.part, text.find('\n')) {
            (KeptPart::Ends, _) => text.insert_str(0, &format!("{notices}\n")),
            // The outcome stays first.
            (KeptPart::Head, Some(end)) => text.insert_str(end, &format!("\n{notices}")),
            (KeptPart::Head, None) => text.push_str(&format!("\n{notices}")),
        }
    }

    pub(super) fn find(&self, id: &str) -> Result<Arc<TaskHandle>, NoResult> {
        match self.recall(id) {
            Some(RecalledTask::Task(task)) => Ok(task),
            Some(RecalledTask::Ended(entry)) => Err(refused(result::output_gone(&entry))),
            None => {
                let id = foreign::shown(lines::first_chars(id, QUOTED_ID_CHARS));
                Err(refused(format!(
                    "task_id {id} is unknown: zsh_tasks with all=true lists the tasks that are known"
                )))
            }
        }
    }

    /// A task of this server, or what an earlier server left of one.
    pub(super) fn recall(&self, id: &str) -> Option<RecalledTask> {
        let own = self.supervisor.task(id).map(RecalledTask::Task);
        own.or_else(|| self.supervisor.recall(id))
    }

    /// Waits until the goal, `until`, or `limit`, and reports progress if the client wants it.
    pub(super) fn watch(
        &self,
        task: &TaskHandle,
        goal: Goal<'_>,
        until: Until<'_>,
        limit: Duration,
        call: &mut CallContext,
    ) -> Result<WaitEnd, NoResult> {
        let cancel = call.cancel;
        let mut report;
        let tick = match &mut call.progress {
            None => None,
            Some(progress) => {
                let run_record = self.recorder.record_of(task.id());
                let history = run_record.as_ref().map(|run_record| run_record.history());
                let estimate = history.as_ref().and_then(|known| known.estimate.as_ref());
                let usual = estimate.map(|estimate| estimate.median.seconds);
                report = move |task: &TaskHandle| {
                    progress(ProgressMessage {
                        elapsed: task.live.facts.started.mono.elapsed().as_secs_f64(),
                        usual,
                        message: newest_line(task),
                    });
                };
                Some(Tick { every: PROGRESS_EVERY, call: &mut report })
            }
        };
        let mut port = until.port.map(|port| self.supervisor.port_watch(task, port));
        let limit = Instant::now() + limit;
        let (pattern, port) = (until.pattern, port.as_mut());
        Ok(TaskWatch { goal, pattern, port, limit, cancel, tick }.run(task)?)
    }
}

/// The call that reads a stream of a task.
pub(super) fn poll_call(task: &TaskHandle, stream: StreamName) -> String {
    let stderr = match stream {
        StreamName::Output => "",
        StreamName::Errors => " stderr=true",
    };
    format!("zsh_poll task_id={}{stderr}", task.id())
}

pub(super) fn unreadable(task: &TaskHandle, error: &io::Error) -> NoResult {
    refused(format!("the output of task {} cannot be read: {error}", task.id()))
}

/// Compiles the caller's pattern.
pub(super) fn compile(argument: &str, pattern: Option<&str>) -> Result<Option<Pattern>, NoResult> {
    pattern.map(Pattern::new).transpose().map_err(|error| {
        // The lines above repeat the pattern, which may have lines of its own.
        let error = error.to_string();
        let cause = foreign::shown(error.lines().last().unwrap_or_default()).into_owned();
        refused(format!("{argument} is not a valid regular expression (Rust syntax): {cause}"))
    })
}

/// The number of seconds that the caller passed, or the default.
pub(super) fn seconds_or(
    default: Duration,
    argument: &str,
    seconds: Option<f64>,
) -> Result<Duration, NoResult> {
    let Some(seconds) = seconds else {
        return Ok(default);
    };
    Duration::try_from_secs_f64(seconds)
        .map_err(|_| refused(format!("{argument} must be a number of seconds, not {seconds}")))
}

/// The newest line of output, short enough for a progress message.
pub(super) fn newest_line(task: &TaskHandle) -> String {
    let (streams, columns) = {
        let state = task.live.state();
        (state.streams, state.columns)
    };
    let last_line = |name: StreamName| {
        let StreamState { line_start, end, .. } = *streams.get(name);
        reading::last_line(task.spools.get(name), line_start, end, columns)
    };
    let line = last_line(StreamName::Output)
        .filter(|line| !line.is_empty())
        .or_else(|| last_line(StreamName::Errors))
        .unwrap_or_default();
    progress_message(&line)
}

/// A line of output as a progress message: what could mislead is in quotes.
fn progress_message(line: &str) -> String {
    let cut: String = line.chars().take(PROGRESS_CHARS).collect();
    if cut.is_empty() {
        return cut;
    }
    let shown = foreign::shown(&cut);
    if shown.chars().count() <= PROGRESS_CHARS {
        return shown.into_owned();
    }
    // Closing a text in quotes takes two characters.
    foreign::closed(lines::first_chars(&shown, PROGRESS_CHARS - 2))
}

/// Reads the argument `until_port`.
pub(super) fn until_port(text: Option<&str>) -> Result<Option<Port>, InvalidPort> {
    text.map(str::parse).transpose()
}

/// What ends a wait besides its goal.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Until<'a> {
    /// Ends at a line that matches this.
    pub(crate) pattern: Option<&'a Pattern>,
    /// Ends when the task listens at this port.
    pub(crate) port: Option<Port>,
}
