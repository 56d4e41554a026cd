//! `zsh`: runs a command and answers when it ends or the call yields.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::codex;
use super::dispatch::{
    Answer, CallContext, DeferredResult, Given, NoResult, Shims, Tools, Until, compile, refused,
    seconds_or, until_port,
};
use super::render::notes::ResultNote;
use super::render::progress;
use super::render::result::TaskResult;
use super::task_result::{Extent, Numbering};
use super::tools::{RunArguments, StderrMode, TimeoutMode};
use crate::config::UnaskedDeadline;
use crate::process::files;
use crate::process::pty::TerminalSize;
use crate::sandbox::policy::{Policy, Settings, Tightening};
use crate::shell::command_line::CommandLine;
use crate::task::live::ActiveCall;
use crate::task::request::{
    self, AtTimeout, Detached, Request, StartError, Stderr, Stdin, TimeoutBounds, TimeoutError,
    TimeoutKind,
};
use crate::task::state::KillRequest;
use crate::task::watch::Goal;

/// When the call of a background command yields.
const BACKGROUND_YIELD: Duration = Duration::from_millis(300);

impl Tools {
    pub(super) fn run(
        &self,
        arguments: RunArguments,
        mut notes: Vec<ResultNote>,
        call: &mut CallContext,
    ) -> Answer {
        let ceiling = call.client.ceiling;
        let pattern = compile("until", arguments.until.as_deref())?;
        let port = until_port(arguments.until_port.as_deref())?;
        let detach = arguments.detach.unwrap_or(false);
        let background = detach || arguments.background.unwrap_or(false);
        let default = if background { BACKGROUND_YIELD } else { self.config.yield_after };
        let mut yield_after =
            seconds_or(default.min(ceiling), "yield_after", arguments.yield_after)?;
        let mut request = self.request(&arguments, background, &mut notes)?;
        if detach && arguments.session.is_some() {
            return Err(refused(
                "session and detach exclude each other: a session ends with this server, a detached command does not",
            ));
        }
        match (detach, arguments.detached_hours) {
            (true, hours) => self.mark_detached(&mut request, hours, call)?,
            (false, Some(_)) => {
                return Err(refused("detached_hours limits a detached command: pass detach: true"));
            }
            (false, None) => {}
        }
        request.sandbox = self.sandbox(arguments.sandbox.as_deref(), &call.given)?;
        request.id = call.given.task_id.clone();
        request.start = call.given.start.take();
        if call.on_host() {
            let until = request.timeout;
            request.detached = Some(self.detached(until, call));
            if matches!(request.at_timeout, AtTimeout::Judge(_)) {
                request.at_timeout = AtTimeout::Kill;
            }
        }
        let max_output = arguments.max_output;
        let on_terminal = request.terminal.is_some();
        let dialect = self.supervisor.dialect(request.shell);
        let run_record =
            self.recorder.begin(&request.command, request.timeout, on_terminal, dialect)?;
        // Noted before it runs: a server that replaces this one must not say that nothing began.
        let named = |id: &str| {
            if let Some(entry) = call.entry {
                entry.set_task(id);
            }
        };
        let started = self.supervisor.start_named(request, Some(run_record.on_end()), named);
        let task = started.inspect_err(|_| run_record.abandon())?;
        self.recorder.follow(&task.live, &run_record);
        let live = Arc::downgrade(&task.live);
        call.cancel.on_time_out(move || {
            if let Some(live) = live.upgrade() {
                live.state().told.start_timed_out = true;
            }
        });
        // Looked up while the command runs.
        let history = run_record.history();
        if let Some(estimate) = &history.estimate {
            task.live.state().expected_duration = progress::longest_expected(estimate);
        }
        if arguments.yield_after.is_none() && !background {
            let limit = self.config.learned_yield.min(ceiling);
            let known = progress::known_end(&history).filter(|end| *end <= limit);
            yield_after = yield_after.max(known.unwrap_or_default());
        }
        let _active_call = ActiveCall::of_started_task(&task.live);
        // A call that waits for a line or a port is answered only then.
        let awaits = pattern.is_some() || port.is_some();
        let at_once = !awaits && self.answers_by_task(call.takes_tasks, background);
        if at_once && call.cancel.begin_answer() {
            return Err(self.become_task(task, DeferredResult { max_output, notes }));
        }
        let until = Until { pattern: pattern.as_ref(), port };
        let stopped = self.watch(&task, Goal::End, until, yield_after, call)?;
        if !call.cancel.begin_answer() {
            // A client that cancels a command's first call wants the command killed, unless the call
            // timed out or the connection is lost. No client reads the receipt.
            let is_lost = self.connection_lost.load(Ordering::Relaxed);
            if call.cancel.timed_out_after().is_none() && !is_lost {
                {
                    let mut state = task.live.state();
                    state.told.kill_asked = true;
                    // The shim will be gone when others read of its end.
                    state.told.end |= matches!(self.shims, Shims::IsShim(_));
                }
                let _ = self.supervisor.kill(&task, KillRequest::Escalate);
            }
            return Err(NoResult::Cancelled);
        }
        if self.yields_by_task(call.takes_tasks, background, &stopped) {
            return Err(self.become_task(task, DeferredResult { max_output, notes }));
        }
        let mut view = call.show_new(&task);
        let moved_to = view.task.ended.as_ref().and_then(|end| end.moved_to.as_ref());
        // A session keeps its own directory.
        if let Some(directory) = moved_to.filter(|_| arguments.session.is_none()) {
            view.keeps_directory = self.supervisor.keep_directory(&task.live.facts, directory);
        }
        let mut result = TaskResult::new(view, notes);
        self.note_found(&mut result, stopped, until);
        self.show_output(&task, result, Extent::New, Numbering::Plain, max_output, call.client)
    }

    /// Makes the request start a detached task. Without a timeout, the task is killed after
    /// `detached_hours`.
    fn mark_detached(
        &self,
        request: &mut Request,
        hours: Option<f64>,
        call: &CallContext,
    ) -> Result<(), NoResult> {
        let limit = match hours {
            None => self.config.detached_hours,
            Some(hours) => Duration::try_from_secs_f64(hours * 3600.0).map_err(|_| {
                refused(format!("detached_hours must be a number of hours, not {hours}"))
            })?,
        };
        if let Shims::IsShim(Err(cause)) = &self.shims {
            return Err(StartError::Unlisted(cause.clone()).into());
        }
        request.timeout = request.timeout.or(Some(limit).filter(|limit| !limit.is_zero()));
        request.detached =
            Some(Detached { must_be_listed: true, ..self.detached(request.timeout, call) });
        Ok(())
    }

    fn detached(&self, timeout: Option<Duration>, call: &CallContext) -> Detached {
        Detached {
            client: call.client_name.clone(),
            project: self.supervisor.settings.directory.to_string_lossy().into_owned(),
            until: timeout.map(|limit| self.supervisor.now() + limit.as_secs_f64()),
            must_be_listed: false,
        }
    }

    fn request(
        &self,
        arguments: &RunArguments,
        background: bool,
        notes: &mut Vec<ResultNote>,
    ) -> Result<Request, NoResult> {
        let pty = arguments.pty.unwrap_or(false);
        let stdin_open = arguments.stdin_open.unwrap_or(false);
        let stdin = match (&arguments.stdin, stdin_open, pty) {
            (Some(_), _, true) => {
                return Err(refused(
                    "stdin feeds a pipe and pty has none: leave stdin out and type with zsh_send",
                ));
            }
            (Some(_), true, false) => {
                return Err(refused(
                    "stdin ends after its text and stdin_open stays open: pass one of them, \
                    and with stdin_open send the text with zsh_send",
                ));
            }
            (None, true, true) => {
                return Err(refused(
                    "stdin_open asks for a pipe and pty for a terminal: pass one of them",
                ));
            }
            (Some(text), false, false) => Stdin::Text(text.clone()),
            (None, true, false) => Stdin::Open,
            (None, false, _) => Stdin::Null,
        };
        if pty && arguments.stderr.is_some() {
            return Err(refused("a terminal has one stream for both: leave stderr out, or pty"));
        }
        if !pty && (arguments.rows.is_some() || arguments.cols.is_some()) {
            return Err(refused(
                "rows and cols are the size of a terminal: pass pty: true with them",
            ));
        }
        let standard = TerminalSize::default();
        let terminal = pty.then(|| TerminalSize {
            rows: arguments.rows.unwrap_or(standard.rows),
            cols: arguments.cols.unwrap_or(standard.cols),
        });
        let kind = match (background, pty || stdin_open) {
            (true, _) => TimeoutKind::Background,
            (false, true) => TimeoutKind::Interactive,
            (false, false) => TimeoutKind::Plain,
        };
        let bounds = TimeoutBounds {
            default: self.config.timeout_default,
            most: self.config.timeout_max,
            none_allowed: self.config.allow_no_deadline,
        };
        let timeout = match request::resolve_timeout(arguments.timeout, kind, &bounds) {
            // Models that fill in every argument mean nothing by it.
            Err(error @ TimeoutError::NoneForPlain) => {
                notes.push(ResultNote::info(format!("{error}; the default is used.")));
                request::resolve_timeout(None, kind, &bounds)?
            }
            resolved => resolved?,
        };
        if let Some(requested) = timeout.clamped_from {
            notes.push(ResultNote::info(format!(
                "timeout {requested} s is above the maximum: {} s is used. For longer runs pass background: true \
                 without timeout (or raise timeout_max).",
                self.config.timeout_max.as_secs_f64()
            )));
        }
        let is_extended = arguments.timeout_mode == Some(TimeoutMode::Progress);
        if is_extended && timeout.limit.is_none() {
            notes.push(ResultNote::info(
                "timeout_mode=progress extends the deadline, but this command has none: pass timeout.",
            ));
        }
        let most = self.config.timeout_max;
        let is_judged = self.config.unasked_deadline == UnaskedDeadline::Judge;
        let at_timeout = match arguments.timeout {
            _ if is_extended => AtTimeout::Extend(most),
            None if is_judged && kind != TimeoutKind::Background => AtTimeout::Judge(most),
            _ => AtTimeout::Kill,
        };
        let environment = arguments.env.iter().flatten();
        Ok(Request {
            command: CommandLine::parse(&*arguments.command),
            shell: arguments.shell,
            description: arguments.description.clone(),
            id: None,
            part_of: None,
            detached: None,
            directory: arguments.cwd.as_ref().map(PathBuf::from),
            session: arguments.session.clone(),
            environment: environment.map(|(name, value)| (name.clone(), value.clone())).collect(),
            start: None,
            stdin,
            stderr: match arguments.stderr {
                Some(StderrMode::Separate) => Stderr::Separate,
                None => Stderr::Merged,
            },
            terminal,
            emulated: true,
            timeout: timeout.limit,
            at_timeout,
            memory_max: arguments
                .memory_max
                .map(|megabytes| megabytes.saturating_mul(1_000_000))
                .or(self.config.memory_max),
            sandbox: Policy::off(),
        })
    }

    /// The policy for a command: the user's, as tight as its caller and the client want it.
    pub(super) fn sandbox(&self, asked: Option<&str>, given: &Given) -> Result<Policy, NoResult> {
        // Another server has decided, in whose place this shim starts the command.
        if let Some(policy) = &given.policy {
            return Ok(policy.clone());
        }
        let settings = self.sandbox_settings()?;
        let asked =
            asked.map(Tightening::parse).transpose().map_err(|error| refused(error.to_string()))?;
        let policy = settings.tightened(asked).map_err(StartError::from)?;
        let Some(codex) = self.codex_policy(given)? else { return Ok(policy) };
        let real = |path: PathBuf| files::real_path(&path).unwrap_or(path);
        Ok(policy.with_paths(real).meet(&codex))
    }

    fn sandbox_settings(&self) -> Result<&Settings, StartError> {
        let settings = self.supervisor.settings.sandbox.as_ref();
        settings.map_err(|fault| StartError::SandboxSettings(fault.clone()))
    }

    /// What Codex allows the call, if it says so.
    pub(super) fn codex_policy(&self, given: &Given) -> Result<Option<Policy>, NoResult> {
        let Some(state) = &given.codex else { return Ok(None) };
        let sandbox = self.sandbox_settings()?;
        let with = codex::Surroundings {
            workspace: sandbox.workspace(),
            state: self.supervisor.settings.state.as_deref().ok(),
            temporary: &std::env::temp_dir(),
            resolve: &files::real_path,
        };
        Ok(Some(codex::policy(state, &with)?))
    }
}
