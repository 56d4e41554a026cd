//! Shows a run on stderr: a status line that is redrawn in place on a terminal, plain lines
//! elsewhere, and the question whether to wait for a stuck agent.

use std::io::{self, BufRead, IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::agent::activity::Activity;
use crate::commands::output;
use crate::oneshot::controls::{Control, Controller};
use crate::oneshot::reporter::{Reporter, RunNews};
use crate::oneshot::state::RunState;
use crate::text::quantity::seconds;

use super::words;

/// How often the status line is redrawn.
const REDRAW: Duration = Duration::from_secs(1);
/// Characters of an agent's activity that are shown.
const ACTIVITY_CHARS: usize = 60;
/// Moves to the start of the line and clears it.
const CLEAR: &str = "\r\x1b[K";
/// Cuts lines at the terminal's width instead of wrapping them, since only the last row of a wrapped
/// line could be cleared.
const NO_WRAP: &str = "\x1b[?7l";
/// Undoes [`NO_WRAP`].
const WRAP: &str = "\x1b[?7h";
const QUESTION: &str = "⚠ the agent appears stuck. Continue waiting? [Y/n, n cancels the run] ";
/// Characters of an agent's stderr line that are shown.
const STDERR_CHARS: usize = 200;

/// Lines of an auditor's feedback that are shown, and characters of each.
const FEEDBACK_LINES: usize = 3;
const FEEDBACK_CHARS: usize = 200;

/// Shows a run.
pub(super) struct Screen {
    controller: Controller,
    /// Whether stderr is a terminal.
    live: bool,
    /// Whether a thread reads answers.
    listens: bool,
    /// Whether the question is unanswered. It replaces the status line and is not redrawn, which
    /// would erase typed text.
    asking: Arc<AtomicBool>,
    /// The judge's last finding about this agent.
    judged: Option<Option<char>>,
    /// The last line that this agent wrote to stderr.
    last_error: String,
    started: Instant,
    next: Instant,
    drawn: bool,
    phase: String,
    status: String,
    activity: String,
}

impl Screen {
    pub(super) fn new(id: &str, controller: Controller) -> Screen {
        let now = Instant::now();
        let screen = Screen {
            controller,
            live: io::stderr().is_terminal(),
            listens: false,
            asking: Arc::default(),
            judged: None,
            last_error: String::new(),
            started: now,
            next: now,
            drawn: false,
            phase: String::new(),
            status: String::new(),
            activity: String::new(),
        };
        output::say_on_stderr(format_args!("zsh-tool: run {id}"));
        screen
    }

    /// Clears the status line and draws no more.
    pub(super) fn close(&mut self) {
        self.clear();
        self.live = false;
    }

    fn clear(&mut self) {
        if std::mem::take(&mut self.drawn) {
            let _ = io::stderr().write_all(CLEAR.as_bytes());
        }
    }

    fn say(&mut self, line: &str) {
        self.clear();
        output::say_on_stderr(line);
        self.draw();
    }

    fn draw(&mut self) {
        if !self.live {
            return;
        }
        let line = if self.asking.load(Ordering::Relaxed) {
            QUESTION.to_owned()
        } else {
            self.status_line()
        };
        // One write, so that the line does not flicker.
        let line = format!("{CLEAR}{NO_WRAP}{line}{WRAP}");
        let _ = io::stderr().write_all(line.as_bytes());
        self.drawn = true;
    }

    fn status_line(&self) -> String {
        let elapsed = seconds(self.started.elapsed());
        let mut parts = vec![self.phase.as_str(), &elapsed, &self.status, &self.activity];
        parts.retain(|part| !part.is_empty());
        parts.join(" · ")
    }

    fn ask(&mut self) {
        self.asking.store(true, Ordering::Relaxed);
        if self.live {
            self.draw();
        } else {
            self.say(QUESTION.trim_end());
        }
        if std::mem::replace(&mut self.listens, true) {
            return;
        }
        let controller = self.controller.clone();
        let asking = Arc::clone(&self.asking);
        // The thread stays blocked in its read until the process exits.
        let started = std::thread::Builder::new().name("answers".to_owned()).spawn(move || {
            for line in io::stdin().lock().lines().map_while(Result::ok) {
                asking.store(false, Ordering::Relaxed);
                let word = line.trim().to_ascii_lowercase();
                let keeps_waiting = !matches!(word.as_str(), "n" | "no");
                controller.send(Control::KeepWaiting(keeps_waiting));
            }
            // stdin has ended, which means to keep waiting.
            asking.store(false, Ordering::Relaxed);
        });
        if let Err(error) = started {
            tracing::warn!("cannot read answers: {error}");
        }
    }

    fn show_activity(&mut self, activity: &Activity) {
        let text = match activity {
            Activity::ToolCall { name, argument } => format!("{name}: {argument}"),
            Activity::FileWritten { path } => format!("wrote {path}"),
            Activity::Retry(retry) => retry.to_string(),
            Activity::Text(text) | Activity::Plan(text) | Activity::Reflection(text) => {
                text.clone()
            }
            _ => return,
        };
        self.activity = words::line(&text, ACTIVITY_CHARS);
    }

    /// Shows why another iteration follows.
    fn show_feedback(&mut self, feedback: &str) {
        let mut lines = feedback.lines().filter(|line| !line.trim().is_empty());
        for line in lines.by_ref().take(FEEDBACK_LINES) {
            let line = words::line(line, FEEDBACK_CHARS);
            self.say(&format!("        feedback: {line}"));
        }
        let more = lines.count();
        if more > 0 {
            self.say(&format!("        … {more} more lines"));
        }
    }

    /// Shows the agent's last line on stderr, which usually says why it failed.
    fn show_last_error(&mut self) {
        let last = std::mem::take(&mut self.last_error);
        if !last.is_empty() {
            self.say(&format!("        stderr: {last}"));
        }
    }
}

impl Reporter for Screen {
    fn report(&mut self, news: &RunNews<'_>) {
        match news {
            RunNews::State { state, reason, iteration, maximum } => {
                let phase = match state {
                    RunState::WorkerExecuting => "worker".to_owned(),
                    RunState::AuditorExecuting => "auditor".to_owned(),
                    RunState::CheckExecuting => "check".to_owned(),
                    other => other.name().to_owned(),
                };
                self.phase = format!("{phase} {iteration}/{maximum}");
                self.status.clear();
                self.activity.clear();
                self.judged = None;
                let elapsed = seconds(self.started.elapsed());
                let reason = reason.map(|reason| words::line(&reason.to_string(), ACTIVITY_CHARS));
                let reason = reason.map_or_else(String::new, |reason| format!(" ({reason})"));
                let line =
                    format!("{elapsed:>6}  {}/{maximum}  {}{reason}", iteration, state.name());
                self.say(&line);
                match state {
                    RunState::RecoveryPending | RunState::Failed => self.show_last_error(),
                    _ => self.last_error.clear(),
                }
            }
            RunNews::Activity(activity) => self.show_activity(activity),
            RunNews::Status(status) => {
                self.status = (*status).to_owned();
                if !self.asking.load(Ordering::Relaxed) {
                    self.draw();
                }
            }
            // A repeated finding is not shown.
            RunNews::Judged { finding, .. } if self.judged == Some(*finding) => {}
            RunNews::Judged { finding, reason } => {
                self.judged = Some(*finding);
                let finding = finding.map_or_else(|| "?".to_owned(), String::from);
                self.say(&format!("        judged {finding}: {}", words::line(reason, 200)));
            }
            RunNews::Feedback(feedback) => self.show_feedback(feedback),
            RunNews::Changed(summary) => self.say(&format!("        changed {summary}")),
            RunNews::Checking(command) => {
                self.status = words::line(command, ACTIVITY_CHARS);
                self.draw();
            }
            RunNews::Checked(result) => {
                let sign = if result.passed { '✔' } else { '✘' };
                self.say(&format!("        {sign} {}", words::line(&result.summary(), 200)));
            }
            RunNews::Ask => self.ask(),
            RunNews::WithdrawQuestion => {
                self.asking.store(false, Ordering::Relaxed);
                self.say("        (the agent has ended; no answer is needed)");
            }
            RunNews::Note(text) => self.say(&format!("⚠ {}", words::clean(text))),
            RunNews::StderrLine { role, line } => {
                // The end of a JSON document says nothing.
                if line.chars().any(char::is_alphanumeric) {
                    self.last_error = words::line(line, STDERR_CHARS);
                    tracing::debug!("{}: {}", role.name(), self.last_error);
                }
            }
        }
    }

    fn due(&self) -> Option<Instant> {
        self.live.then_some(self.next)
    }

    fn refresh(&mut self) {
        self.next = Instant::now() + REDRAW;
        if !self.asking.load(Ordering::Relaxed) {
            self.draw();
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.clear();
    }
}
