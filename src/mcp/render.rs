//! Results as text, and their machine-readable twin.
//!
//! The only place of the server where states, reasons and outcomes become words. What a
//! model is to act on stands in the text; `_meta` repeats it for programs.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::conditions;
use super::insight::{Insight, Level, size};
use crate::progress::advice::{Advice, Situation, advise};
use crate::progress::condition::{Condition, Evidence};
use crate::progress::waiting::{Waiting, Wanted};
use crate::task::live::{End, Facts, Input, Leftover, LiveTask};
use crate::task::reading::Match;
use crate::task::state::Outcome;
use crate::task::terminal::{Seen, Terminal};
use crate::text::ansi::{self, Colours};
use crate::text::lines::Shown;

/// The echoed command line is cut after so many characters.
const ECHO_CHARS: usize = 120;
/// The `◷` line is no longer than this.
const METER_CHARS: usize = 160;
const RULE: &str = "───";
/// Leftovers that are named; the others are counted.
const LEFTOVERS_NAMED: usize = 8;

/// Colours of status lines and insights (SGR), one a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Palette {
    /// With colours.
    Coloured,
    /// Without.
    Plain,
}

impl Palette {
    fn paint(self, code: &str, text: &str) -> String {
        match self {
            Palette::Coloured => format!("\x1b[{code}m{text}\x1b[0m"),
            Palette::Plain => text.to_owned(),
        }
    }

    /// Whether colours of command output stay: only those of terminals, and only when
    /// colours are on.
    pub fn of_output(self, input: Input) -> Colours {
        match (self, input) {
            (Palette::Coloured, Input::Terminal) => Colours::Keep,
            _ => Colours::Drop,
        }
    }
}

const GREEN: &str = "32";
const RED: &str = "31";
const YELLOW: &str = "33";
const CYAN: &str = "36";
const DIM: &str = "2";

/// A task at one moment, as far as results tell of it.
#[derive(Debug, Clone)]
pub struct View {
    ended: Option<End>,
    leftovers: Vec<Leftover>,
    elapsed: Duration,
    silent_for: Duration,
    idle_polls: u32,
    total_lines: u64,
    total_bytes: u64,
    unshown: u64,
    queued_input: usize,
    input_closed: bool,
    waiting: Option<Waiting>,
    conditions: Vec<Condition>,
    evidence: Evidence,
}

impl View {
    /// The task now.
    pub fn of(task: &LiveTask) -> View {
        let now = Instant::now();
        // The last line of a full screen asks nothing: it is a frame, a menu, a status.
        let tells_prompt = !task.terminal().is_some_and(Terminal::is_full_screen);
        let state = task.state();
        let started = task.facts.started.mono;
        let unfinished = u64::from(state.output_end.offset > state.line_start.offset);
        View {
            ended: state.ended.clone(),
            leftovers: state.leftovers.clone(),
            elapsed: now.duration_since(started),
            silent_for: now.duration_since(state.last_output.unwrap_or(started)),
            idle_polls: state.idle_polls,
            total_lines: state.output_end.line.saturating_sub(1) + unfinished,
            total_bytes: state.output_end.offset,
            unshown: state.unshown(),
            queued_input: state.queued_input,
            input_closed: state.input_closed,
            waiting: state.waiting.clone().map(|waiting| Waiting {
                prompt: if tells_prompt {
                    waiting.prompt
                } else {
                    String::new()
                },
                ..waiting
            }),
            conditions: state.conditions.clone(),
            evidence: state.evidence,
        }
    }

    /// Bytes of output that no result has shown.
    pub fn unshown(&self) -> u64 {
        self.unshown
    }

    /// Processes that outlived its shell.
    pub fn leftovers(&self) -> &[Leftover] {
        &self.leftovers
    }

    /// How it ended, if it has.
    pub fn end(&self) -> Option<&End> {
        self.ended.as_ref()
    }

    /// States of its processes that are worth knowing.
    pub fn conditions(&self) -> &[Condition] {
        &self.conditions
    }

    fn running(&self) -> bool {
        self.ended.is_none()
    }

    fn advice(&self, new_output: bool) -> Option<Advice> {
        // What stopped it is told with what to do about it.
        if !self.running() || self.conditions.iter().any(Condition::holds_up) {
            return None;
        }
        advise(&Situation {
            new_output,
            idle_polls: self.idle_polls,
            silent_for: self.silent_for,
            elapsed: self.elapsed,
            waiting_for_input: self.waiting.is_some(),
            ..Situation::default()
        })
    }
}

/// What a result tells about a task.
pub struct TaskResult<'a> {
    /// Which.
    pub facts: &'a Facts,
    /// In which state.
    pub view: View,
    /// Its output.
    pub shown: Shown,
    /// Bytes of it that no result has shown before.
    pub new_bytes: u64,
    /// Whether the lines are numbered, and their range is told.
    pub numbered: bool,
    /// The line that `until` matched.
    pub matched: Option<Match>,
    /// The screen, when that is shown and not lines of output.
    pub screen: Option<Seen>,
    /// What else is worth saying.
    pub insights: Vec<Insight>,
    /// The files that hold the output.
    pub log_path: Option<String>,
}

impl TaskResult<'_> {
    /// The text.
    pub fn text(&self, palette: Palette) -> String {
        let mut lines = vec![echo(&self.facts.command), RULE.to_owned()];
        lines.push(if !self.shown.text.is_empty() || self.shown.to_line > 0 {
            self.shown.text.clone()
        } else if self.view.running() && self.view.total_bytes > 0 {
            "(no new output)".to_owned()
        } else if self.view.total_bytes > 0 {
            "(no more output)".to_owned()
        } else {
            "(no output)".to_owned()
        });
        lines.push(RULE.to_owned());
        lines.push(status_line(self.facts, &self.view, palette));
        lines.extend(self.screen.as_ref().map(super::screen::line));
        lines.extend(self.leftover_line());
        lines.extend(self.position_line());
        lines.extend(self.meter_line());
        let waiting = self.view.waiting.as_ref();
        lines.extend(waiting.map(|waiting| conditions::waiting_line(waiting, self.facts.input)));
        lines.extend(conditions::condition_lines(
            &self.view.conditions,
            &self.facts.id,
        ));
        if let Some(advice) = self.view.advice(self.new_bytes > 0) {
            lines.push(suggestion(&advice, &self.facts.id));
        }
        lines.extend(insight_lines(&self.insights, palette));
        lines.join("\n")
    }

    fn leftover_line(&self) -> Option<String> {
        if self.view.leftovers.is_empty() || self.view.running() {
            return None;
        }
        let named = name_leftovers(&self.view.leftovers);
        let count = self.view.leftovers.len();
        let (noun, them) = match count {
            1 => ("process", "it"),
            _ => ("processes", "them"),
        };
        Some(format!(
            "{count} {noun} still running: {named} (zsh_kill task_id={} ends {them})",
            self.facts.id
        ))
    }

    /// `↻ lines 801-803  |  2.0 KB new  |  zsh_poll · zsh_send · zsh_kill`
    fn position_line(&self) -> Option<String> {
        let mut parts = Vec::new();
        if let Some(found) = &self.matched {
            parts.push(format!("until matched line {}", found.line));
        }
        let tells = self.numbered || self.view.running();
        if tells && self.shown.to_line > 0 {
            let (first, last) = (self.shown.from_line, self.shown.to_line);
            parts.push(match self.screen {
                None => format!("lines {first}-{last}"),
                Some(_) => {
                    format!("lines {first}-{last} not shown as lines (zsh_poll from_line={first})")
                }
            });
        }
        if tells && self.new_bytes > 0 {
            parts.push(format!("{} new", size(self.new_bytes)));
        }
        if self.view.running() {
            parts.push(match self.facts.input {
                Input::None => "zsh_poll · zsh_kill".to_owned(),
                Input::Pipe | Input::Terminal => "zsh_poll · zsh_send · zsh_kill".to_owned(),
            });
        }
        (!parts.is_empty()).then(|| format!("↻ {}", parts.join("  |  ")))
    }

    /// `◷ silent 18s · 5 empty polls`
    fn meter_line(&self) -> Option<String> {
        if !self.view.running() {
            return None;
        }
        let mut parts = Vec::new();
        if self.view.silent_for >= Duration::from_secs(1) {
            parts.push(format!("silent {}", seconds(self.view.silent_for)));
        }
        match self.view.idle_polls {
            0 => {}
            1 => parts.push("1 empty poll".to_owned()),
            polls => parts.push(format!("{polls} empty polls")),
        }
        if self.view.queued_input > 0 {
            let waits = size(self.view.queued_input as u64);
            parts.push(format!("{waits} of input wait to be read"));
        }
        (!parts.is_empty()).then(|| {
            let line = format!("◷ {}", parts.join(" · "));
            line.chars().take(METER_CHARS).collect()
        })
    }

    /// The twin for programs, `_meta["zsh-tool/result"]`.
    pub fn meta(&self) -> Value {
        let end = self.view.ended.as_ref();
        json!({
            "task_id": self.facts.id,
            "status": status_word(&self.view),
            "exit_code": end.map(|end| end.exit.code()),
            "pipestatus": end.map(|end| end.pipestatus.clone()).unwrap_or_default(),
            "duration_ms": millis(end.map_or(self.view.elapsed, |end| end.duration)),
            "cwd": end.and_then(|end| end.moved_to.as_ref()).unwrap_or(&self.facts.directory).to_string_lossy(),
            "from_line": self.shown.from_line,
            "to_line": self.shown.to_line,
            "new_bytes": self.new_bytes,
            "total_lines": self.view.total_lines,
            "omitted_lines": self.shown.omitted_lines,
            "matched_line": self.matched.as_ref().map(|found| found.line),
            "queued_input": self.view.queued_input,
            "waiting_for": self.view.waiting.as_ref().map(|waiting| wanted_word(waiting.wanted)),
            "prompt": self.view.waiting.as_ref().map(|waiting| waiting.prompt.trim()),
            "reader": self.view.waiting.as_ref().map(conditions::reader_meta),
            "conditions": conditions::meta(&self.view.conditions),
            "evidence": conditions::evidence_word(self.view.evidence),
            "leftovers": leftovers_meta(&self.view.leftovers),
            "insights": insights_meta(&self.insights),
            "poll_meta": self.poll_meta(),
            "log_path": self.log_path,
            "screen": self.screen.as_ref().map(super::screen::meta),
        })
    }

    fn poll_meta(&self) -> Value {
        if !self.view.running() {
            return Value::Null;
        }
        json!({
            "polls_since_output": self.view.idle_polls,
            "elapsed_since_last_output_s": tenths(self.view.silent_for),
            "total_elapsed_s": tenths(self.view.elapsed),
            "alan_estimate": Value::Null,
            "suggestion": self.view.advice(self.new_bytes > 0).map(|advice| advice.to_string()),
        })
    }
}

/// The advice, and the call that follows it.
fn suggestion(advice: &Advice, id: &str) -> String {
    let call = match advice {
        Advice::SendInput => format!("zsh_send task_id={id}"),
        Advice::Hung { .. } => format!("zsh_kill task_id={id}"),
        Advice::NearingCompletion => format!("zsh_poll task_id={id} wait_for=end"),
        Advice::SpacePolls { .. } => format!("zsh_poll task_id={id} wait_for=end listen=45"),
    };
    format!("{advice} → {call}")
}

/// `$ command`: its first line, cut.
pub fn echo(command: &str) -> String {
    let mut lines = command.lines().skip_while(|line| line.trim().is_empty());
    // A carriage return would hide what stands before it.
    let first = lines.next().unwrap_or_default().replace('\r', "^M");
    let first = ansi::readable(first.as_bytes(), Colours::Drop, None);
    let more = lines.count();
    let mut echoed: String = first.chars().take(ECHO_CHARS).collect();
    if first.chars().count() > ECHO_CHARS {
        echoed.push('…');
    }
    match more {
        0 => format!("$ {echoed}"),
        1 => format!("$ {echoed} … +1 line"),
        more => format!("$ {echoed} … +{more} lines"),
    }
}

/// `✔ exit=0  0.4s  task=3dc8c9ee`
pub(super) fn status_line(facts: &Facts, view: &View, palette: Palette) -> String {
    let mut parts = Vec::new();
    match &view.ended {
        None => {
            parts.push(palette.paint(CYAN, "⟳ RUNNING"));
            parts.push(format!("{:.1}s", view.elapsed.as_secs_f64()));
            parts.push(format!("task={}", facts.id));
            parts.push(format!("stdin={}", input_word(facts.input, view)));
        }
        Some(end) => {
            parts.push(end_words(end, palette));
            if !end.pipestatus.is_empty() {
                let statuses: Vec<String> = end.pipestatus.iter().map(i32::to_string).collect();
                parts.push(format!("pipestatus=[{}]", statuses.join(",")));
            }
            parts.push(format!("{:.1}s", end.duration.as_secs_f64()));
            parts.push(format!("task={}", facts.id));
            if let Some(directory) = &end.moved_to {
                parts.push(format!("cwd={}, not kept: pass cwd", directory.display()));
            }
            if !view.leftovers.is_empty() {
                parts.push(format!("{} still running", view.leftovers.len()));
            }
        }
    }
    parts.join("  ")
}

/// `✔ exit=0`
pub fn end_words(end: &End, palette: Palette) -> String {
    let code = end.exit.code();
    match end.outcome {
        Outcome::Success => palette.paint(GREEN, &format!("✔ exit={code}")),
        Outcome::Failure => palette.paint(exit_colour(code), &format!("✘ exit={code}")),
        Outcome::Timeout => palette.paint(YELLOW, &format!("⏱ TIMEOUT  exit={code}")),
        Outcome::Killed => palette.paint(RED, &format!("✘ KILLED  exit={code}")),
        Outcome::Interrupted => palette.paint(YELLOW, &format!("✘ INTERRUPTED  exit={code}")),
    }
}

/// 255 is ssh's own failure and 128 + N a signal: yellow, as neither is the command's
/// verdict; all other failures are red.
fn exit_colour(code: i32) -> &'static str {
    match code {
        129.. => YELLOW,
        _ => RED,
    }
}

fn input_word(input: Input, view: &View) -> &'static str {
    match input {
        Input::None => "no",
        Input::Pipe if view.input_closed => "closed",
        Input::Pipe => "open",
        Input::Terminal => "pty",
    }
}

/// The status in one word, for programs and lists.
pub fn status_word(view: &View) -> &'static str {
    match view.ended.as_ref().map(|end| end.outcome) {
        None => "running",
        Some(Outcome::Success) => "completed",
        Some(Outcome::Failure) => "failed",
        Some(Outcome::Timeout) => "timeout",
        Some(Outcome::Killed) => "killed",
        Some(Outcome::Interrupted) => "interrupted",
    }
}

/// What a task waits for, in one word.
pub fn wanted_word(wanted: Wanted) -> &'static str {
    match wanted {
        Wanted::Input => "input",
        Wanted::Password => "password",
    }
}

/// `4711 node, 4712 esbuild`
pub fn name_leftovers(leftovers: &[Leftover]) -> String {
    let mut named: Vec<String> = leftovers
        .iter()
        .take(LEFTOVERS_NAMED)
        .map(|left| format!("{} {}", left.pid, left.name))
        .collect();
    if leftovers.len() > LEFTOVERS_NAMED {
        named.push(format!("{} more", leftovers.len() - LEFTOVERS_NAMED));
    }
    named.join(", ")
}

/// Leftovers for programs.
pub(super) fn leftovers_meta(leftovers: &[Leftover]) -> Vec<Value> {
    leftovers
        .iter()
        .map(|left| json!({"pid": left.pid, "name": left.name}))
        .collect()
}

/// Insights for programs.
pub fn insights_meta(insights: &[Insight]) -> Vec<Value> {
    insights
        .iter()
        .map(|insight| json!([level_word(insight.level), insight.message]))
        .collect()
}

fn level_word(level: Level) -> &'static str {
    match level {
        Level::Info => "info",
        Level::Warning => "warning",
    }
}

/// Warnings on one line, information on another.
fn insight_lines(insights: &[Insight], palette: Palette) -> Vec<String> {
    [(Level::Warning, "⚠", YELLOW), (Level::Info, "ℹ", DIM)]
        .into_iter()
        .filter_map(|(level, sign, colour)| {
            let messages: Vec<&str> = insights
                .iter()
                .filter(|insight| insight.level == level)
                .map(|insight| insight.message.as_str())
                .collect();
            (!messages.is_empty())
                .then(|| palette.paint(colour, &format!("{sign} {}", messages.join(" | "))))
        })
        .collect()
}

/// Whole seconds, minutes, hours: `18s`, `3m05s`, `2h10m`.
pub fn seconds(duration: Duration) -> String {
    let all = duration.as_secs();
    match all {
        0..120 => format!("{all}s"),
        120..7200 => format!("{}m{:02}s", all / 60, all % 60),
        _ => format!("{}h{:02}m", all / 3600, all % 3600 / 60),
    }
}

/// Milliseconds.
pub fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn tenths(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 10.0).round() / 10.0
}
