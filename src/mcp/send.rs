//! `zsh_send`: types into a task and shows its response.

use std::sync::Arc;
use std::time::Instant;

use super::call::DEFAULT_LISTEN;
use super::dispatch::{Answer, CallContext, NoResult, Tools, Until, compile, refused, seconds_or};
use super::render::notes::ResultNote;
use super::render::result::TaskResult;
use super::task_result::{Extent, Numbering};
use super::tools::SendArguments;
use crate::config::{ResolveContext, ResolveError};
use crate::process::executable::AllowedPrograms;
use crate::process::pty::TerminalSize;
use crate::sandbox::policy::Policy;
use crate::task::input::{InputChunk, LONGEST_LINE};
use crate::task::live::{ActiveCall, Input, LiveTask, SentInput};
use crate::task::output::reading;
use crate::task::registry::TaskHandle;
use crate::task::request::InputError;
use crate::task::terminal::Terminal;
use crate::task::watch::Goal;
use crate::text::keys::{self, Key};
use crate::text::mask::Secret;
use crate::text::quantity::grouped;

/// How much of the output may belong to a prompt.
const PROMPT_BYTES: u64 = 2000;

impl Tools {
    pub(super) fn send(
        &self,
        arguments: &SendArguments,
        mut notes: Vec<ResultNote>,
        call: &mut CallContext,
    ) -> Answer {
        let task = self.find(&arguments.task_id)?;
        if let Some(most) = &call.given.at_most {
            refuse_looser(&task, most)?;
        }
        let size = match (arguments.rows, arguments.cols) {
            // Without a terminal, its usual size is one that was filled in.
            (Some(rows), Some(cols)) => Some(TerminalSize { rows, cols }).filter(|size| {
                *size != TerminalSize::default() || task.live.facts.input == Input::Terminal
            }),
            (None, None) => None,
            _ => return Err(refused("rows and cols go together: pass both")),
        };
        let keys = arguments.keys.as_deref().unwrap_or_default();
        let eof = arguments.eof.unwrap_or(false);
        let types = arguments.input.is_some() || !keys.is_empty() || eof;
        let secret = arguments.secret_env.as_deref();
        if !types && secret.is_none() && size.is_none() {
            return Err(refused(
                "nothing to send: pass input, secret_env, keys, eof: true, or rows and cols",
            ));
        }
        if arguments.input.is_some() && secret.is_some() {
            return Err(refused("input and secret_env cannot go together: make two calls"));
        }
        refuse_while_attached(&task.live)?;
        // All arguments are checked before anything is sent.
        let keys = keys.iter().map(|name| Key::parse(name)).collect::<Result<Vec<Key>, _>>()?;
        if !keys.is_empty() && task.live.facts.input == Input::Pipe {
            return Err(InputError::NoKeyboard(task.id().to_owned()).into());
        }
        let pattern = compile("until", arguments.until.as_deref())?;
        let until = Until { pattern: pattern.as_ref(), port: None };
        let listen = seconds_or(DEFAULT_LISTEN, "listen", arguments.listen)?;
        let _active_call = ActiveCall::begin(&task.live);
        let secret = secret.map(|name| self.secret_for(&task, name, call)).transpose()?;
        // Noted before anything is sent, since the reply may arrive at once.
        let after = task.live.state().streams.map(|stream| stream.end.offset);
        let prompt = newest_line_of(&task, after.output);
        if let Some(size) = size {
            self.supervisor.resize(&task, size)?;
        }
        let enter = arguments.enter.unwrap_or(true);
        // A pipe echoes nothing, and the echo of keys is unknown.
        let text = arguments.input.as_deref();
        let typed = text.or(secret.is_some().then_some(""));
        let typed = typed.filter(|_| keys.is_empty() && task.live.facts.input == Input::Terminal);
        task.live.state().sent = typed.map(|typed| {
            let (at, after, typed) = (Instant::now(), after.output, typed.to_owned());
            Box::new(SentInput { at, after, prompt, typed })
        });
        if let Some((name, secret)) = secret {
            // Looking the secret up may have taken a while.
            if call.cancel.is_cancelled() {
                return Err(NoResult::Cancelled);
            }
            refuse_while_attached(&task.live)?;
            self.supervisor.send_secret(&task, name, secret, enter)?;
        }
        if types {
            let bytes = bytes_for(&task.live, text, enter, &keys);
            self.supervisor.send(&task, InputChunk { bytes, end: eof })?;
        }
        let found = self.watch(&task, Goal::Reply { after, typed }, until, listen, call)?;
        if !call.cancel.begin_answer() {
            return Err(NoResult::Cancelled);
        }
        let view = call.show_new(&task);
        notes.extend(after_sending(&task.live, !keys.is_empty()));
        let mut result = TaskResult::new(view, notes);
        self.note_found(&mut result, found, until);
        self.show_output(&task, result, Extent::New, Numbering::Plain, None, call.client)
    }

    /// The secret for this task, by its name.
    fn secret_for<'a>(
        &self,
        task: &TaskHandle,
        name: &'a str,
        call: &CallContext,
    ) -> Result<(&'a str, (Secret, AllowedPrograms)), NoResult> {
        // Checked before the secret's program runs, which may ask a person.
        self.supervisor.check_secret_goes_to(task)?;
        match &call.given.secret {
            Some(secret) => Ok((name, secret.clone())),
            None => Ok((name, self.secret(name)?)),
        }
    }

    /// Looks up a listed secret, and the programs that may read it.
    pub(super) fn secret(&self, name: &str) -> Result<(Secret, AllowedPrograms), ResolveError> {
        let settings = &self.supervisor.settings;
        let context = ResolveContext {
            env: &|name| std::env::var_os(name),
            environment: &settings.environment.inherited,
            daemons: Arc::clone(&settings.daemons),
        };
        self.config.secrets.resolve(name, &context)
    }
}

/// The unfinished line at the end of the output.
fn newest_line_of(task: &TaskHandle, end: u64) -> String {
    let columns = task.live.state().columns;
    let output =
        reading::newest_text(&task.spools.output, end.saturating_sub(PROMPT_BYTES), end, columns);
    output.rsplit('\n').next().unwrap_or_default().to_owned()
}

/// Refuses input for a task that may do more than the call that types it: it would do that for the call.
/// A kill needs no such check, since it makes a task do nothing.
fn refuse_looser(task: &TaskHandle, most: &Policy) -> Result<(), NoResult> {
    let confined = task.live.facts.sandbox.as_ref();
    let own = confined.map_or_else(Policy::off, |confined| confined.policy.clone());
    if own.is_as_tight_as(most) {
        return Ok(());
    }
    Err(refused(format!(
        "nothing was sent: task {} (sandbox={own}) may do more than Codex's permission profile allows this \
         call ({most}). Start the command again, or choose the profile that it was started with",
        task.id()
    )))
}

/// Refuses input while a person is attached and may type.
fn refuse_while_attached(task: &LiveTask) -> Result<(), InputError> {
    match &task.state().people {
        Some(people) => Err(InputError::Attached(people.attached_for())),
        None => Ok(()),
    }
}

/// The bytes to send: the text, Enter if wanted, then the keys.
fn bytes_for(task: &LiveTask, text: Option<&str>, enter: bool, keys: &[Key]) -> Vec<u8> {
    let modes = task.terminal().map(Terminal::modes).unwrap_or_default();
    let (mut bytes, line_end) = match task.facts.input {
        Input::Terminal => (keys::typed(text.unwrap_or_default(), modes), b'\r'),
        Input::Pipe | Input::None => (text.unwrap_or_default().as_bytes().to_vec(), b'\n'),
    };
    if text.is_some() && enter {
        bytes.push(line_end);
    }
    bytes.extend(keys.iter().flat_map(|key| key.bytes(modes)));
    bytes
}

/// Remarks about what was sent.
fn after_sending(task: &LiveTask, pressed_keys: bool) -> Vec<ResultNote> {
    let mut notes = Vec::new();
    let (dropped, queued, runs) = {
        let mut state = task.state();
        let dropped = std::mem::take(&mut state.dropped_input);
        (dropped, state.queued_input, state.ended.is_none())
    };
    if dropped > 0 {
        notes.push(ResultNote::warning(format!(
            "the terminal dropped {} bytes of input: in line mode it takes lines of at most {} bytes. \
             Send shorter lines, or run it again with stdin_open: true.",
            grouped(dropped as u64),
            grouped(LONGEST_LINE as u64)
        )));
    }
    if runs && queued > 0 && pressed_keys {
        notes.push(ResultNote::warning(
            "the keys wait behind input that the program has not read: zsh_kill signal=INT reaches it at once.",
        ));
    }
    notes
}
