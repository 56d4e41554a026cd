//! Results as text, and their machine-readable twin.
//!
//! The only place of the server where states, reasons and outcomes become words. What a
//! model is to act on stands in the text; `_meta` repeats it for programs.

use serde_json::{Value, json};

use super::conditions;
use super::insight::{Insight, Level, Source, size};
use super::meter;
use super::times::millis;
use super::view::View;
use crate::alan::estimate::Estimate;
use crate::progress::advice::Advice;
use crate::task::live::{End, Facts, Input, Leftover};
use crate::task::reading::Match;
use crate::task::state::Outcome;
use crate::task::terminal::Seen;
use crate::text::ansi::{self, Colours};
use crate::text::lines::Shown;

/// The echoed command line is cut after so many characters.
const ECHO_CHARS: usize = 120;
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
    pub(super) fn paint(self, code: &str, text: &str) -> String {
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
pub(super) const RED: &str = "31";
pub(super) const YELLOW: &str = "33";
const CYAN: &str = "36";
pub(super) const DIM: &str = "2";

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
    /// How long such commands take, where that is known.
    pub estimate: Option<&'a Estimate>,
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
        let advice = self.advice();
        if self.view.running() {
            let next = meter::next_wait(&self.view, self.estimate);
            let next = next.filter(|_| advice.is_none());
            lines.extend(meter::line(&self.view, self.estimate, next));
        }
        let waiting = self.view.waiting.as_ref();
        lines.extend(waiting.map(|waiting| conditions::waiting_line(waiting, self.facts.input)));
        lines.extend(conditions::condition_lines(
            &self.view.conditions,
            &self.facts.id,
        ));
        if let Some(advice) = advice {
            let listen = meter::next_poll(&self.view, self.estimate);
            lines.push(suggestion(&advice, &self.facts.id, listen));
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
            "waiting_for": self.view.waiting.as_ref().map(|waiting| conditions::wanted_word(waiting.wanted)),
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
        let advice = self.advice();
        meter::meta(&self.view, self.facts.input, self.estimate, advice.as_ref())
    }

    fn advice(&self) -> Option<Advice> {
        meter::advice(&self.view, self.new_bytes > 0, self.estimate)
    }
}

/// The advice, and the call that follows it; `listen` is how many seconds a wait is worth.
fn suggestion(advice: &Advice, id: &str, listen: f64) -> String {
    let wait = format!(
        "zsh_poll task_id={id} wait_for=end listen={:.0}",
        listen.ceil()
    );
    let call = match advice {
        Advice::SendInput => format!("zsh_send task_id={id}"),
        Advice::Hung { .. } | Advice::Stuck { .. } => format!("zsh_kill task_id={id}"),
        Advice::NearingCompletion | Advice::WorksSilently { .. } | Advice::SpacePolls { .. } => {
            wait
        }
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
        .map(|insight| json!([insight.level.as_str(), insight.message]))
        .collect()
}

/// Warnings before information, each of the task's own on one line and of memory's on
/// another; what has lines of its own comes last.
fn insight_lines(insights: &[Insight], palette: Palette) -> Vec<String> {
    let mut lines = Vec::new();
    for (level, sign, colour) in [(Level::Warning, "⚠", YELLOW), (Level::Info, "ℹ", DIM)] {
        for (source, label) in [(Source::Task, ""), (Source::Memory, "A.L.A.N.: ")] {
            let (tables, messages): (Vec<&str>, Vec<&str>) = insights
                .iter()
                .filter(|insight| insight.level == level && insight.source == source)
                .map(|insight| insight.message.as_str())
                .partition(|message| message.contains('\n'));
            if !messages.is_empty() {
                let line = format!("{sign} {label}{}", messages.join(" | "));
                lines.push(palette.paint(colour, &line));
            }
            let table = |table: &str| palette.paint(colour, &format!("{sign} {label}{table}"));
            lines.extend(tables.into_iter().map(table));
        }
    }
    lines
}
