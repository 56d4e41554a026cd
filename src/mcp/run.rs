//! `zsh`: runs a command and answers at its end, or when it yields.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;

use super::choices::TimeoutMode;
use super::dispatch::{
    Answer, Call, HandedOver, NoAnswer, Numbering, Showing, Tools, clamped_note, compile, matched,
    read, seconds_of,
};
use super::insight::Insight;
use super::meter;
use super::tools::{RunArguments, Tool};
use crate::process::pty::TerminalSize;
use crate::task::attendance::Attendance;
use crate::task::deadline::{self, Kind, TimeoutBounds};
use crate::task::reading;
use crate::task::request::{Request, Stderr, Stdin};
use crate::task::state::KillOrder;
use crate::task::watch::Goal;

/// A background command's first answer.
const BACKGROUND_YIELD: Duration = Duration::from_millis(300);

impl Tools {
    /// Carries `zsh` out.
    pub(super) fn run(&self, tool: &Tool, arguments: Option<&Value>, call: &mut Call) -> Answer {
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
        let account = self
            .recorder
            .begin(
                &request.command,
                request.timeout,
                request.terminal.is_some(),
            )
            .map_err(|refused| refused.to_string())?;
        let started = self.supervisor.start(request, Some(account.on_end()));
        let task = started.map_err(|error| {
            account.abandon();
            error.to_string()
        })?;
        self.recorder.follow(&task.live, &account);
        // Looked up while the command runs.
        if let Some(estimate) = &account.history().estimate {
            task.live.state().usual = meter::usual(estimate);
        }
        let _attending = Attendance::of_start(&task.live);
        // Who names a line that ends the call is answered when it comes.
        let at_once = pattern.is_none() && self.answers_by_task(call.takes_tasks, background);
        if at_once && call.cancel.begin_answer() {
            return Err(self.hand_over(task, HandedOver { max_output, notes }));
        }
        let stopped = self.watch(&task, Goal::End, pattern.as_ref(), yield_after, call)?;
        if !call.cancel.begin_answer() {
            // Whoever cancels a command's first call wants the command gone; there is
            // nobody to read the receipt.
            let _ = self.supervisor.kill(&task, KillOrder::InOrder);
            return Err(NoAnswer::Cancelled);
        }
        if self.yields_by_task(call.takes_tasks, background, &stopped) {
            return Err(self.hand_over(task, HandedOver { max_output, notes }));
        }
        let delta = task.live.take_delta();
        let stretches = reading::new_output(&task.spool, &delta, max_output);
        let moved_to = task
            .live
            .state()
            .ended
            .as_ref()
            .and_then(|end| end.moved_to.clone());
        if let Some(directory) = moved_to {
            self.supervisor.keep_directory(&directory);
        }
        let showing = Showing {
            stretches,
            new_bytes: delta.new_bytes(),
            matched: matched(stopped),
            notes,
            numbering: Numbering::Plain,
            max_output,
        };
        self.tell(&task, showing, call.palette)
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
        let moves = arguments.timeout_mode == Some(TimeoutMode::Progress);
        if moves && timeout.limit.is_none() {
            notes.push(Insight::info(
                "timeout_mode progress moves a deadline and there is none: give timeout.",
            ));
        }
        let environment = arguments.env.iter().flatten();
        Ok(Request {
            command: arguments.command.clone(),
            description: arguments.description.clone(),
            part_of: None,
            directory: arguments.cwd.as_ref().map(PathBuf::from),
            environment: environment
                .map(|(name, value)| (name.clone(), value.clone()))
                .collect(),
            stdin,
            stderr: Stderr::Merged,
            terminal,
            emulated: true,
            timeout: timeout.limit,
            timeout_most: moves.then_some(self.config.timeout_max),
        })
    }
}
