//! A run as a person sees it on stderr: a line of status that is drawn anew in place on a
//! terminal, plain lines elsewhere, and the question whether a stuck agent is waited for.

use std::io::{self, BufRead, IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::agent::activity::Activity;
use crate::commands::output;
use crate::mcp::view;
use crate::oneshot::controls::{Control, Controller};
use crate::oneshot::face::{Face, News};
use crate::oneshot::stage::State;

use super::words;

/// How often the line of status is drawn.
const REDRAW: Duration = Duration::from_secs(1);
/// Characters of what an agent does that are shown.
const MAX_ACT: usize = 60;
/// Goes to the line's beginning and clears it.
const CLEAR: &str = "\r\x1b[K";
/// A line that is longer than the terminal is wide is cut there and not wrapped: only its
/// last row could be cleared.
const NO_WRAP: &str = "\x1b[?7l";
/// Undoes that.
const WRAP: &str = "\x1b[?7h";
/// What a person is asked.
const QUESTION: &str = "⚠ the agent appears stuck. Continue waiting? [Y/n] ";
/// Characters of a line of stderr that are shown.
const MAX_COMPLAINT: usize = 200;

/// Lines of an auditor's feedback that are shown, and characters of each.
const FEEDBACK_LINES: usize = 3;
const FEEDBACK_CHARS: usize = 200;

/// Shows a run.
pub(super) struct Screen {
    controller: Controller,
    /// stderr is a terminal.
    live: bool,
    /// A thread reads answers.
    listens: bool,
    /// Nobody has answered yet. The question then stands where the status would, and is
    /// not drawn anew by itself: that would wipe out what is being typed.
    asking: Arc<AtomicBool>,
    /// What the judge said last of this agent.
    judged: Option<Option<char>>,
    /// The last that this agent said on stderr.
    complaint: String,
    started: Instant,
    next: Instant,
    drawn: bool,
    phase: String,
    status: String,
    act: String,
}

impl Screen {
    /// Shows a run that begins.
    pub(super) fn new(id: &str, controller: Controller) -> Screen {
        let now = Instant::now();
        let screen = Screen {
            controller,
            live: io::stderr().is_terminal(),
            listens: false,
            asking: Arc::default(),
            judged: None,
            complaint: String::new(),
            started: now,
            next: now,
            drawn: false,
            phase: String::new(),
            status: String::new(),
            act: String::new(),
        };
        output::say(format_args!("zsh-tool: run {id}"));
        screen
    }

    /// Nothing more is drawn; what is drawn goes.
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
        output::say(line);
        self.draw();
    }

    fn draw(&mut self) {
        if !self.live {
            return;
        }
        let line = match self.asking.load(Ordering::Relaxed) {
            true => QUESTION.to_owned(),
            false => self.status_line(),
        };
        // One write: a line that is half there would flicker.
        let line = format!("{CLEAR}{NO_WRAP}{line}{WRAP}");
        let _ = io::stderr().write_all(line.as_bytes());
        self.drawn = true;
    }

    fn status_line(&self) -> String {
        let elapsed = view::seconds(self.started.elapsed());
        let parts = [&self.phase, &elapsed, &self.status, &self.act];
        let parts: Vec<&str> = parts
            .into_iter()
            .map(String::as_str)
            .filter(|part| !part.is_empty())
            .collect();
        parts.join(" · ")
    }

    fn ask(&mut self) {
        self.asking.store(true, Ordering::Relaxed);
        match self.live {
            true => self.draw(),
            false => self.say(QUESTION.trim_end()),
        }
        if std::mem::replace(&mut self.listens, true) {
            return;
        }
        let controller = self.controller.clone();
        let asking = Arc::clone(&self.asking);
        // It stays in its read until the process ends: nothing interrupts that.
        let started = std::thread::Builder::new()
            .name("answers".to_owned())
            .spawn(move || {
                for line in io::stdin().lock().lines().map_while(Result::ok) {
                    asking.store(false, Ordering::Relaxed);
                    let word = line.trim().to_ascii_lowercase();
                    let goes_on = !matches!(word.as_str(), "n" | "no");
                    controller.ask(Control::GoOn(goes_on));
                }
                // Nobody will answer any more, which is to wait.
                asking.store(false, Ordering::Relaxed);
            });
        if let Err(error) = started {
            tracing::warn!("no answer can be read: {error}");
        }
    }

    fn act(&mut self, activity: &Activity) {
        let act = match activity {
            Activity::ToolCall { name, argument } => format!("{name}: {argument}"),
            Activity::FileWritten { path } => format!("wrote {path}"),
            Activity::Text(text) | Activity::Plan(text) | Activity::Reflection(text) => {
                text.clone()
            }
            _ => return,
        };
        self.act = words::line(&act, MAX_ACT);
    }

    /// Why there is another iteration.
    fn tell_feedback(&mut self, feedback: &str) {
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

    /// What an agent said last on stderr before it failed, since that mostly says why.
    fn tell_complaint(&mut self) {
        let complaint = std::mem::take(&mut self.complaint);
        if !complaint.is_empty() {
            self.say(&format!("        stderr: {complaint}"));
        }
    }
}

impl Face for Screen {
    fn tell(&mut self, news: &News<'_>) {
        match news {
            News::State {
                state,
                reason,
                iteration,
                maximum,
            } => {
                let phase = match state {
                    State::WorkerExecuting => "worker".to_owned(),
                    State::AuditorExecuting => "auditor".to_owned(),
                    other => other.name().to_owned(),
                };
                self.phase = format!("{phase} {iteration}/{maximum}");
                self.status.clear();
                self.act.clear();
                self.judged = None;
                let elapsed = view::seconds(self.started.elapsed());
                let reason = reason.map(|reason| words::line(&reason.to_string(), MAX_ACT));
                let reason = reason.map_or_else(String::new, |reason| format!(" ({reason})"));
                let line = format!(
                    "{elapsed:>6}  {}/{maximum}  {}{reason}",
                    iteration,
                    state.name()
                );
                self.say(&line);
                match state {
                    State::RecoveryPending | State::Failed => self.tell_complaint(),
                    _ => self.complaint.clear(),
                }
            }
            News::Activity { activity, .. } => self.act(activity),
            News::Status(status) => {
                self.status = (*status).to_owned();
                if !self.asking.load(Ordering::Relaxed) {
                    self.draw();
                }
            }
            // A judge that says the same again and again is no news.
            News::Judged { finding, .. } if self.judged == Some(*finding) => {}
            News::Judged { finding, reason } => {
                self.judged = Some(*finding);
                let finding = finding.map_or_else(|| "?".to_owned(), String::from);
                self.say(&format!(
                    "        judged {finding}: {}",
                    words::line(reason, 200)
                ));
            }
            News::Feedback(feedback) => self.tell_feedback(feedback),
            News::Ask => self.ask(),
            News::AskNoMore => {
                self.asking.store(false, Ordering::Relaxed);
                self.say("        (the agent has ended; no answer is needed)");
            }
            News::Note(text) => self.say(&format!("⚠ {}", words::clean(text))),
            News::Complaint { role, line } => {
                if !line.trim().is_empty() {
                    self.complaint = words::line(line, MAX_COMPLAINT);
                    tracing::debug!("{}: {}", role.name(), self.complaint);
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
