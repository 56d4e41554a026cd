//! `zsh_send`, `zsh_kill`, `zsh_tasks` and `zsh_health`.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::dispatch::{
    Answer, Call, LISTEN, NoAnswer, Numbering, Outcome, Showing, Tools, clamped_note, read,
    seconds_of,
};
use super::insight::Insight;
use super::overview;
use super::receipt;
use super::tools::{KillArguments, NoArguments, SendArguments, TasksArguments, Tool};
use super::view::View;
use crate::config::Surroundings;
use crate::process::pty::TerminalSize;
use crate::process::signals::Signal;
use crate::task::attendance::Attendance;
use crate::task::input::{LONGEST_LINE, Sending};
use crate::task::live::{Input, LiveTask};
use crate::task::order_line::MAX_ORDERS;
use crate::task::reading;
use crate::task::registry::TaskHandle;
use crate::task::request::InputError;
use crate::task::sending::NoReceipt;
use crate::task::state::KillOrder;
use crate::task::terminal::Terminal;
use crate::task::watch::Goal;
use crate::text::keys::{self, Key, KeyError};
use crate::text::lines::grouped;
use crate::text::mask::Secret;

/// After a kill's receipt the end itself is waited for so long.
const END_AFTER_KILL: Duration = Duration::from_secs(2);

impl Tools {
    /// Carries `zsh_send` out.
    pub(super) fn send(&self, tool: &Tool, arguments: Option<&Value>, call: &mut Call) -> Answer {
        let (arguments, clamped) = read::<SendArguments>(tool, arguments)?;
        let mut notes: Vec<Insight> = clamped.iter().map(clamped_note).collect();
        let task = self.find(&arguments.task_id)?;
        let size = match (arguments.rows, arguments.cols) {
            (Some(rows), Some(cols)) => Some(TerminalSize { rows, cols }),
            (None, None) => None,
            _ => return Err("rows and cols go together: pass both".into()),
        };
        let keys = arguments.keys.as_deref().unwrap_or_default();
        let eof = arguments.eof.unwrap_or(false);
        let types = arguments.input.is_some() || !keys.is_empty() || eof;
        let secret = arguments.secret_env.as_deref();
        if !types && secret.is_none() && size.is_none() {
            return Err(
                "nothing to send: pass input, secret_env, keys, eof: true, or rows and cols".into(),
            );
        }
        if arguments.input.is_some() && secret.is_some() {
            return Err("input and secret_env are two things to type: make two calls".into());
        }
        // All is read before anything is sent.
        let keys: Vec<Key> = keys
            .iter()
            .map(|name| Key::parse(name))
            .collect::<Result<_, KeyError>>()
            .map_err(|error| error.to_string())?;
        if !keys.is_empty() && task.live.facts.input == Input::Pipe {
            return Err(InputError::NoKeyboard(task.id().to_owned())
                .to_string()
                .into());
        }
        let listen = match arguments.listen {
            Some(seconds) => seconds_of("listen", seconds)?,
            None => LISTEN,
        };
        let _attending = Attendance::begin(&task.live);
        let secret = secret.map(|name| self.secret(name, &task)).transpose()?;
        // Marked before anything is sent: the reply may be faster than the next line.
        let after = task.live.state().output_end.offset;
        let refused = |error: InputError| error.to_string();
        if let Some(size) = size {
            self.supervisor.resize(&task, size).map_err(refused)?;
        }
        let enter = arguments.enter.unwrap_or(true);
        if let Some((name, secret)) = secret {
            // Looking it up may have taken a while.
            if call.cancel.is_cancelled() {
                return Err(NoAnswer::Cancelled);
            }
            self.supervisor
                .send_secret(&task, name, secret, enter)
                .map_err(|error| error.to_string())?;
        }
        if types {
            let text = arguments.input.as_deref().map(|text| (text, enter));
            let bytes = match task.live.facts.input {
                Input::Terminal => at_terminal(&task.live, text, &keys),
                Input::Pipe | Input::None => into_pipe(text),
            };
            let sending = Sending { bytes, end: eof };
            self.supervisor.send(&task, sending).map_err(refused)?;
        }
        self.watch(&task, Goal::Reply { after }, None, listen, call)?;
        if !call.cancel.begin_answer() {
            return Err(NoAnswer::Cancelled);
        }
        let max_output = self.config.max_output;
        let delta = task.live.take_delta();
        notes.extend(after_sending(&task.live, !keys.is_empty()));
        let stretches = reading::new_output(&task.spool, &delta, max_output);
        let showing = Showing {
            stretches,
            new_bytes: delta.new_bytes(),
            matched: None,
            notes,
            numbering: Numbering::Plain,
            max_output,
        };
        self.tell(&task, showing, call.palette)
    }

    /// A listed secret that is to be typed into this task, looked up now.
    fn secret<'a>(&self, name: &'a str, task: &TaskHandle) -> Result<(&'a str, Secret), String> {
        // Before a program is asked for it, which may ask a person.
        self.supervisor
            .check_secret_goes_to(task)
            .map_err(|error| error.to_string())?;
        let settings = self.supervisor.settings();
        let around = Surroundings {
            env: &|name| std::env::var_os(name),
            environment: &settings.environment,
            daemons: Arc::clone(&settings.daemons),
        };
        let secret = self.config.secrets.resolve(name, &around);
        let secret = secret.map_err(|error| error.to_string())?;
        Ok((name, secret))
    }

    /// Carries `zsh_kill` out.
    pub(super) fn kill(&self, tool: &Tool, arguments: Option<&Value>, call: &mut Call) -> Answer {
        let (arguments, _) = read::<KillArguments>(tool, arguments)?;
        let task = self.find(&arguments.task_id)?;
        let order = match &arguments.signal {
            None => KillOrder::InOrder,
            Some(name) => KillOrder::Only(Signal::from_name(name).ok_or_else(|| {
                let known = Signal::ALL.map(Signal::name).join(", ");
                format!("signal must be one of {known}, not {name}")
            })?),
        };
        let _attending = Attendance::begin(&task.live);
        let receipt = self.supervisor.kill(&task, order);
        if let Err(NoReceipt::Busy) = receipt {
            return Err(format!(
                "{MAX_ORDERS} orders wait for task {} already: try again in a moment",
                task.id()
            )
            .into());
        }
        let all_gone = order.ends()
            && receipt
                .as_ref()
                .is_ok_and(|receipt| receipt.survivors.is_empty());
        if all_gone {
            self.watch(&task, Goal::End, None, END_AFTER_KILL, call)?;
        }
        let view = View::of(&task.live);
        task.live.tell_end();
        let facts = &task.live.facts;
        let account = self.recorder.account(task.id());
        let insight = account.and_then(|account| account.take_kill_insight());
        let mut text = receipt::text(facts, &view, order, &receipt, call.palette);
        if let Some(insight) = &insight {
            text.push('\n');
            text.push_str(&receipt::insight_line(insight, call.palette));
        }
        let mut outcome = Outcome::text(text);
        outcome.meta = Some(receipt::meta(
            facts,
            &view,
            receipt.as_ref().ok(),
            insight.as_ref(),
        ));
        Ok(outcome)
    }

    /// Carries `zsh_tasks` out.
    pub(super) fn tasks(&self, tool: &Tool, arguments: Option<&Value>) -> Answer {
        let (arguments, _) = read::<TasksArguments>(tool, arguments)?;
        let overview = overview::tasks(
            &self.supervisor,
            arguments.all.unwrap_or(false),
            arguments.limit.unwrap_or(overview::TASKS_LISTED),
        );
        let mut outcome = Outcome::text(overview.text);
        outcome.structured = Some(overview.structured);
        Ok(outcome)
    }

    /// Carries `zsh_health` out.
    pub(super) fn health(&self, tool: &Tool, arguments: Option<&Value>) -> Answer {
        read::<NoArguments>(tool, arguments)?;
        let overview = overview::health(
            &self.supervisor,
            &self.recorder,
            &self.config,
            &self.warnings,
            self.monitor.as_ref(),
        );
        let mut outcome = Outcome::text(overview.text);
        outcome.structured = Some(overview.structured);
        Ok(outcome)
    }
}

/// What a terminal sends for text, with Enter after it or not, and then for keys.
fn at_terminal(task: &LiveTask, text: Option<(&str, bool)>, keys: &[Key]) -> Vec<u8> {
    let modes = task.terminal().map(Terminal::modes).unwrap_or_default();
    let mut bytes = Vec::new();
    if let Some((text, enter)) = text {
        bytes = keys::typed(text, modes);
        if enter {
            bytes.push(b'\r');
        }
    }
    bytes.extend(keys.iter().flat_map(|key| key.bytes(modes)));
    bytes
}

/// Text as a pipe takes it.
fn into_pipe(text: Option<(&str, bool)>) -> Vec<u8> {
    let (text, enter) = text.unwrap_or(("", false));
    let mut bytes = text.as_bytes().to_vec();
    if enter {
        bytes.push(b'\n');
    }
    bytes
}

/// What is worth saying about what was sent.
fn after_sending(task: &LiveTask, pressed: bool) -> Vec<Insight> {
    let mut notes = Vec::new();
    let (dropped, queued, runs) = {
        let mut state = task.state();
        let dropped = std::mem::take(&mut state.dropped_input);
        (dropped, state.queued_input, state.ended.is_none())
    };
    if dropped > 0 {
        notes.push(Insight::warning(format!(
            "the terminal dropped {} bytes of input: in line mode it takes lines of at most {} bytes. \
             Send shorter lines, or run it again with stdin_open: true.",
            grouped(dropped as u64),
            grouped(LONGEST_LINE as u64)
        )));
    }
    if runs && queued > 0 && pressed {
        notes.push(Insight::warning(
            "the keys wait behind input that the program has not read: zsh_kill signal=INT reaches it at once.",
        ));
    }
    notes
}
