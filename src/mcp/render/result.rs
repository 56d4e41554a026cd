//! Results of calls about a task, as text for models and as JSON for programs.
//!
//! The text holds everything that a model acts on; `_meta` repeats it as JSON. States, reasons and
//! outcomes become words here and in the sibling files.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};

use super::notes::ResultNote;
use super::progress;
use super::view::{ProgressStatus, View};
use crate::alan::estimate::Estimate;
use crate::alan::insight::{Level, truncate};
use crate::history::notices::{MAX_NAMED, News, Notice};
use crate::mcp::clients::KeptPart;
use crate::mcp::outputs::{ConditionRow, TaskFacts};
use crate::progress::advice::Advice;
use crate::progress::condition::{Condition, StopSignal, Visibility};
use crate::progress::cost::Cost;
use crate::progress::wait::ProcessName;
use crate::progress::waiting::{InputProof, Waiting, WantedInput};
use crate::shell::outcome::Outcome;
use crate::task::describe::{self, ConditionKind};
use crate::task::live::{End, Facts, Input};
use crate::task::output::reading::Match;
use crate::task::port::Port;
use crate::task::snapshot::Snapshot;
use crate::task::stream::{PerStream, StreamName};
use crate::task::terminal::ScreenContent;
use crate::text::ansi::Colours;
use crate::text::foreign::{self, ShowPath};
use crate::text::frame;
use crate::text::lines::{Room, Shown};
use crate::text::quantity::{grouped, seconds, size};
use crate::text::screen;

/// How many characters of the command a result repeats.
const COMMAND_CHARS: usize = 120;
/// How many leftovers are named; the others are counted.
const LEFTOVERS_NAMED: usize = 8;
/// The longest `until` pattern that a suggested call repeats, in characters.
const PATTERN_CHARS: usize = 40;
/// How much of a prompt is shown.
const PROMPT_CHARS: usize = 120;

/// Whether status lines and insights are coloured, with at most one SGR colour per line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Palette {
    Coloured,
    Plain,
}

impl Palette {
    pub(crate) fn paint(self, code: &str, text: &str) -> String {
        match self {
            Palette::Coloured => format!("\x1b[{code}m{text}\x1b[0m"),
            Palette::Plain => text.to_owned(),
        }
    }

    /// Whether to keep the colours in the command's output: only if it was printed on a terminal
    /// and colours are on.
    pub(crate) fn output_colours(self, input: Input) -> Colours {
        match (self, input) {
            (Palette::Coloured, Input::Terminal) => Colours::Keep,
            _ => Colours::Drop,
        }
    }
}

const GREEN: &str = "32";
pub(crate) const RED: &str = "31";
pub(crate) const YELLOW: &str = "33";
const CYAN: &str = "36";
pub(crate) const DIM: &str = "2";

/// The result of a call about a task.
pub struct TaskResult {
    pub view: View,
    /// The output, laid out.
    pub shown: Shown,
    /// Stderr that is apart, laid out.
    pub errors: Shown,
    /// How many bytes of each stream no earlier result has shown.
    pub new_bytes: PerStream<u64>,
    /// Whether lines have numbers and the result names their range.
    pub numbered: bool,
    /// The line that `until` matched.
    pub matched: Option<Match>,
    /// The port that the task now serves, and the listening process if known.
    pub served: Option<(Port, Option<ProcessName>)>,
    /// The port that the call waited for and that is not served yet.
    pub awaited_port: Option<Port>,
    /// The pattern that the call waited for and that no line has matched yet.
    pub awaited_line: Option<String>,
    /// The listening ports of leftover processes, by pid.
    pub listening: BTreeMap<i32, Vec<u16>>,
    /// The screen whose rows are shown instead of lines of output.
    pub screen: Option<ScreenContent>,
    /// The command by which a person can answer the password prompt.
    pub person_line: Option<String>,
    pub notes: Vec<ResultNote>,
}

impl TaskResult {
    /// A result without output; lines to be added are numbered and not new.
    pub fn new(view: View, notes: Vec<ResultNote>) -> TaskResult {
        TaskResult {
            view,
            shown: Shown::default(),
            errors: Shown::default(),
            new_bytes: PerStream::default(),
            numbered: true,
            matched: None,
            served: None,
            awaited_port: None,
            awaited_line: None,
            listening: BTreeMap::new(),
            screen: None,
            person_line: None,
            notes,
        }
    }

    /// A result that shows these lines of a stream, none of them new.
    pub fn of_lines(
        view: View,
        notes: Vec<ResultNote>,
        stream: StreamName,
        shown: Shown,
    ) -> TaskResult {
        let mut result = TaskResult::new(view, notes);
        match stream {
            StreamName::Output => result.shown = shown,
            StreamName::Errors => result.errors = shown,
        }
        result
    }

    /// The result as text. The calls that it names wait for at most `ceiling`. The status is in the part
    /// that the client keeps of a long text.
    pub fn text(
        mut self,
        facts: &Facts,
        estimate: Option<&Estimate>,
        ceiling: Duration,
        palette: Palette,
        kept: KeptPart,
    ) -> String {
        let shown = std::mem::take(&mut self.shown.text);
        let errors = std::mem::take(&mut self.errors.text);
        let view = &self.view;
        let mut framed =
            vec![format!("$ {}", command_line(&facts.command)), frame::OPENING.to_owned()];
        let shows_errors = self.errors.to_line > 0;
        if !shown.is_empty() || self.shown.to_line > 0 {
            framed.push(shown);
        } else if !shows_errors {
            framed.push(match (view.task.output.bytes(), view.running()) {
                (0, _) => "(no output)".to_owned(),
                (_, true) => "(no new output)".to_owned(),
                (_, false) => "(no more output)".to_owned(),
            });
        }
        if shows_errors {
            framed.extend([frame::ERRORS.to_owned(), errors]);
        }
        framed.push(frame::closing(&facts.id));
        let mut lines = vec![status_line(facts, view, palette)];
        lines.extend(self.screen.as_ref().map(screen_line));
        lines.extend(leftover_line(facts, view, &self.listening));
        lines.extend(kept_line(&view.task.kept).filter(|_| !view.running()));
        lines.extend(self.position_line(facts));
        // Repeated here, since some clients cut out the middle of a result with its markers.
        let omissions = [&self.shown.omission, &self.errors.omission];
        let omissions = omissions.into_iter().filter(|omission| !omission.is_empty());
        lines.extend(omissions.map(|omission| format!("… {omission}")));
        let advice = progress::advice(view, self.has_news(), estimate);
        // Once the awaited port is served, do not show progress or suggest waiting for the end.
        if view.running() && self.served.is_none() {
            let accepts_keys = view.progress.as_ref().is_some_and(ProgressStatus::accepts_keys);
            let wait = progress::next_wait(view, estimate, ceiling);
            let next = wait.map(|listen| self.wait_call(None, listen));
            let next = next.or_else(|| accepts_keys.then(|| "zsh_send keys=[…]".to_owned()));
            let next = next.filter(|_| advice.is_none());
            lines.extend(progress::line(view, estimate, next));
        }
        lines.extend(view.waiting().map(|waiting| waiting_line(waiting, facts.input)));
        lines.extend(self.person_line.clone());
        lines.extend(condition_lines(view.conditions(), &facts.id));
        // If a person can answer, `person_line` replaces the advice.
        let by_person = self.person_line.is_some() && advice == Some(Advice::SendInput);
        if let Some(advice) = advice.filter(|_| !by_person) {
            let listen = progress::next_poll(view, estimate, ceiling);
            lines.push(self.suggestion(&advice, &facts.id, listen));
        }
        lines.extend(insight_lines(&self.notes, palette));
        let parts = match kept {
            KeptPart::Ends => [framed, lines],
            KeptPart::Head => [lines, framed],
        };
        parts.concat().join("\n")
    }

    /// Whether output has come that no earlier result has shown.
    fn has_news(&self) -> bool {
        self.new_bytes.output + self.new_bytes.errors > 0
    }

    /// `↻ lines 801-803  |  2.0 KB new  |  zsh_poll · zsh_send · zsh_kill`
    fn position_line(&self, facts: &Facts) -> Option<String> {
        let mut parts = Vec::new();
        if let Some(found) = &self.matched {
            let of = match found.stream {
                StreamName::Output => "",
                StreamName::Errors => "stderr ",
            };
            parts.push(format!("until matched {of}line {}", found.line));
        }
        if let Some((port, server)) = &self.served {
            let server =
                server.as_ref().map(|server| format!(" by {} {}", server.pid, server.name));
            parts.push(format!("port {port} is served{}", server.unwrap_or_default()));
        }
        if self.view.running() {
            parts.extend(self.awaited_port.map(|port| format!("port {port} is not served yet")));
            let line = self.awaited_line.as_ref();
            parts.extend(line.map(|_| "until matched no line yet".to_owned()));
        }
        let shows_position = self.numbered || self.view.running();
        if shows_position && self.shown.to_line > 0 {
            let (first, last) = (self.shown.from_line, self.shown.to_line);
            parts.push(match self.screen {
                None => format!("lines {first}-{last}"),
                Some(_) => {
                    format!("lines {first}-{last} not shown as lines (zsh_poll from_line={first})")
                }
            });
        }
        if shows_position && self.errors.to_line > 0 {
            let (first, last) = (self.errors.from_line, self.errors.to_line);
            parts.push(format!("stderr lines {first}-{last}"));
        }
        if shows_position && self.has_news() {
            parts.push(format!("{} new", size(self.new_bytes.output + self.new_bytes.errors)));
        }
        if self.view.running() {
            parts.push(match facts.input {
                Input::None => "zsh_poll".to_owned(),
                Input::Pipe | Input::Terminal => "zsh_poll · zsh_send".to_owned(),
            });
        }
        (!parts.is_empty()).then(|| format!("↻ {}", parts.join("  |  ")))
    }

    /// The advice and the call that follows it; `listen` is how many seconds to wait.
    fn suggestion(&self, advice: &Advice, id: &str, listen: f64) -> String {
        let call = match advice {
            Advice::SendInput => format!("zsh_send task_id={id}"),
            Advice::Hung { .. } | Advice::Stuck { .. } => format!("zsh_kill task_id={id}"),
            Advice::AwaitHolder { task } => wait_call(Some(task), "wait_for=end", listen),
            Advice::OtherWork | Advice::PressKeys | Advice::SeemsDone { .. } => {
                return advice.to_string();
            }
            Advice::NearingCompletion
            | Advice::Repeats { .. }
            | Advice::MutePeer { .. }
            | Advice::WorksSilently { .. }
            | Advice::SpacePolls { .. } => self.wait_call(Some(id), listen),
        };
        format!("{advice} → {call}")
    }

    /// The call that keeps waiting for what this call waited for.
    fn wait_call(&self, id: Option<&str>, listen: f64) -> String {
        let port = self.awaited_port.map(|port| format!("until_port={port}"));
        let line = self.awaited_line.as_ref().map(|pattern| {
            let is_shown = pattern.chars().count() <= PATTERN_CHARS
                && !pattern
                    .chars()
                    .any(|it| foreign::is_hidden(it) || frame::is_sign(it) || it == '"');
            match (is_shown, pattern.contains(char::is_whitespace)) {
                (true, false) => format!("until={pattern}"),
                (true, true) => format!("until=\"{pattern}\""),
                (false, _) => "until=…".to_owned(),
            }
        });
        let awaited: Vec<String> = port.into_iter().chain(line).collect();
        if awaited.is_empty() {
            wait_call(id, "wait_for=end", listen)
        } else {
            wait_call(id, &awaited.join(" "), listen)
        }
    }

    /// The result as JSON, `_meta["zsh-tool/result"]`.
    pub fn meta(
        &self,
        facts: &Facts,
        estimate: Option<&Estimate>,
        ceiling: Duration,
        log_paths: PerStream<Option<String>>,
    ) -> Value {
        let view = &self.view;
        let end = view.task.ended.as_ref();
        let waiting = view.waiting();
        let insights = self.notes.iter();
        TaskFacts::from(&view.task).with(json!({
            "pipestatus": end.map(|end| end.pipestatus.clone()).unwrap_or_default(),
            "duration_ms": millis(end.map_or(view.elapsed(), |end| end.duration)),
            "memory_max": facts.memory_max,
            "sandbox_missing": facts.sandbox.as_ref().map(|sandbox| &sandbox.missing),
            "cost": end.and_then(|end| end.cost.as_ref().map(|cost| cost_meta(end, cost))),
            "cwd": end.and_then(|end| end.moved_to.as_ref()).unwrap_or(&facts.directory).to_string_lossy(),
            "from_line": self.shown.from_line,
            "to_line": self.shown.to_line,
            "new_bytes": self.new_bytes.output,
            "total_lines": view.task.output.kept.lines,
            "omitted_lines": self.shown.omitted_lines,
            "omitted_bytes": self.shown.omitted_bytes,
            "matched_line": self.matched.as_ref().map(|found| found.line),
            "matched_stream": self.matched.as_ref().map(|found| match found.stream {
                StreamName::Output => "stdout",
                StreamName::Errors => "stderr",
            }),
            "served_port": self.served.as_ref().map(|(port, _)| port.number),
            "queued_input": view.task.input.queued,
            "prompt": waiting.map(|waiting| waiting.prompt.trim()),
            "reader": waiting.map(|waiting| json!({
                "pid": waiting.reader.pid,
                "name": waiting.reader.name,
                "program": waiting.program,
                "seen": waiting.proof == InputProof::Blocked,
            })),
            "conditions": view.conditions().iter().map(ConditionRow::from).collect::<Vec<_>>(),
            "evidence": match view.task.probed.evidence {
                Visibility::Whole => "whole",
                Visibility::NoSystemCalls => "no_calls",
                Visibility::Nothing => "none",
            },
            "leftovers": view.task.leftovers,
            "kept": view.task.kept,
            "insights": insights.map(|insight| json!([insight.level.as_str(), insight.message])).collect::<Vec<_>>(),
            "poll_meta": view.running().then(|| {
                let advice = progress::advice(view, self.has_news(), estimate);
                let suggestion =
                    self.person_line.clone().or(advice.map(|advice| advice.to_string()));
                progress::meta(view, facts.input, estimate, ceiling, suggestion)
            }),
            "log_path": log_paths.output,
            "stderr": (view.task.output.errors.bytes > 0).then(|| json!({
                "from_line": self.errors.from_line,
                "to_line": self.errors.to_line,
                "new_bytes": self.new_bytes.errors,
                "total_lines": view.task.output.errors.lines,
                "omitted_lines": self.errors.omitted_lines,
                "omitted_bytes": self.errors.omitted_bytes,
                "log_path": log_paths.errors,
            })),
            "screen": self.screen.as_ref().map(screen_meta),
        }))
    }
}

fn leftover_line(
    facts: &Facts,
    view: &View,
    listening: &BTreeMap<i32, Vec<u16>>,
) -> Option<String> {
    if view.task.leftovers.is_empty() || view.running() {
        return None;
    }
    let named = name_leftovers(&view.task.leftovers, listening);
    let count = view.task.leftovers.len();
    let (noun, them) = if count == 1 { ("process", "it") } else { ("processes", "them") };
    let id = &facts.id;
    Some(format!("{count} {noun} still running: {named} (zsh_kill task_id={id} ends {them})"))
}

/// `kept: 4711 screen (a listed daemon outlives its command; kill 4711 ends it)`
pub(crate) fn kept_line(kept: &[ProcessName]) -> Option<String> {
    let (what, them) = match kept.len() {
        0 => return None,
        1 => ("a listed daemon outlives its command", "it"),
        _ => ("listed daemons outlive their command", "them"),
    };
    let named = name_leftovers(kept, &BTreeMap::new());
    let pids: Vec<String> = kept.iter().map(|daemon| daemon.pid.to_string()).collect();
    Some(format!("kept: {named} ({what}; kill {} ends {them})", pids.join(" ")))
}

/// `zsh_poll task_id=3dc8c9ee wait_for=end listen=25`
fn wait_call(id: Option<&str>, goal: &str, listen: f64) -> String {
    let id = id.map(|id| format!(" task_id={id}")).unwrap_or_default();
    format!("zsh_poll{id} {goal} listen={:.0}", listen.ceil())
}

/// The first line of a command, cut.
pub(crate) fn command_line(command: &str) -> String {
    let mut lines = command.lines().skip_while(|line| line.trim().is_empty());
    let first = foreign::typed(lines.next().unwrap_or_default());
    let first = truncate(&first, COMMAND_CHARS);
    match lines.count() {
        0 => first.into_owned(),
        1 => format!("{first} … +1 line"),
        more => format!("{first} … +{more} lines"),
    }
}

/// `✔ exit=0  0.4s  task=3dc8c9ee`
pub(crate) fn status_line(facts: &Facts, view: &View, palette: Palette) -> String {
    let mut parts = Vec::new();
    let shell = facts.chosen_shell.map(|shell| format!("shell={}", shell.as_str()));
    let sandbox = facts.sandbox.as_deref().map(describe::sandbox_phrase);
    let chosen = shell.into_iter().chain(sandbox);
    match &view.task.ended {
        None => {
            parts.push(palette.paint(CYAN, "⟳ RUNNING"));
            parts.push(format!("{:.1}s", view.elapsed().as_secs_f64()));
            parts.push(format!("task={}", facts.id));
            parts.extend(chosen);
            parts.push(format!("stdin={}", input_word(facts.input, view)));
        }
        Some(end) => {
            parts.push(end_words(end, palette));
            if !end.pipestatus.is_empty() {
                let statuses: Vec<String> = end.pipestatus.iter().map(i32::to_string).collect();
                parts.push(format!("pipestatus=[{}]", statuses.join(",")));
            }
            let at_stop = view.task.at_stop.as_ref();
            let at_deadline = at_stop.filter(|_| end.outcome == Outcome::Timeout);
            parts.push(describe::took(end, at_deadline.and_then(describe::at_deadline)));
            parts.push(format!("task={}", facts.id));
            parts.extend(chosen);
            if let Some(directory) = &end.moved_to {
                let kept = if view.keeps_directory { "" } else { ", not kept: pass cwd" };
                parts.push(format!("cwd={}{kept}", directory.shown()));
            }
            if !view.task.leftovers.is_empty() {
                parts.push(format!("{} still running", view.task.leftovers.len()));
            }
        }
    }
    parts.join("  ")
}

/// What a task has cost, for programs.
pub(crate) fn cost_meta(end: &End, cost: &Cost) -> Value {
    let seconds = |time: Duration| (time.as_secs_f64() * 1000.0).round() / 1000.0;
    json!({
        "wall_s": seconds(end.duration),
        "user_s": seconds(cost.cpu.user),
        "system_s": seconds(cost.cpu.system),
        "peak_bytes": cost.peak,
        "peak_at_least": cost.peak_is_least,
        "processes": cost.processes,
    })
}

/// `✔ exit=0`
pub(crate) fn end_words(end: &End, palette: Palette) -> String {
    let code = end.exit.code();
    match end.outcome {
        Outcome::Success => palette.paint(GREEN, &format!("✔ exit={code}")),
        Outcome::Failure => palette.paint(exit_colour(code), &format!("✘ exit={code}")),
        Outcome::Timeout => palette.paint(YELLOW, &format!("⏱ TIMEOUT  exit={code}")),
        Outcome::Killed => {
            let why = end.over_memory.map(|over| format!(" ({})", describe::over_memory(over)));
            palette.paint(RED, &format!("✘ KILLED{}  exit={code}", why.unwrap_or_default()))
        }
        Outcome::Interrupted => palette.paint(YELLOW, &format!("✘ INTERRUPTED  exit={code}")),
    }
}

/// Says how a task ended whose output has been removed.
pub(crate) fn output_gone(snapshot: &Snapshot) -> String {
    let exit = snapshot.exit_code().map(|code| format!(", exit={code}"));
    format!(
        "task {} has ended ({}{}), and its output is no longer kept \
         (max_finished_tasks, spool_quota, spool_keep_hours)",
        snapshot.id(),
        snapshot.outcome().map_or("ended", describe::outcome_word),
        exit.unwrap_or_default()
    )
}

/// Yellow for 128 + N (a signal) and 255 (ssh failed), which are not the command's own result; red
/// for all other failures.
fn exit_colour(code: i32) -> &'static str {
    match code {
        129.. => YELLOW,
        _ => RED,
    }
}

fn input_word(input: Input, view: &View) -> &'static str {
    match input {
        Input::None => "no",
        Input::Pipe if view.task.input.closed => "closed",
        Input::Pipe => "open",
        Input::Terminal => "pty",
    }
}

/// `4711 node, 4712 esbuild`
pub(crate) fn name_leftovers(
    leftovers: &[ProcessName],
    listening: &BTreeMap<i32, Vec<u16>>,
) -> String {
    let mut named: Vec<String> = leftovers
        .iter()
        .take(LEFTOVERS_NAMED)
        .map(|left| match listening.get(&left.pid) {
            Some(ports) => format!("{} {} ({})", left.pid, left.name, listening_on(ports)),
            None => format!("{} {}", left.pid, left.name),
        })
        .collect();
    if leftovers.len() > LEFTOVERS_NAMED {
        named.push(format!("{} more", leftovers.len() - LEFTOVERS_NAMED));
    }
    named.join(", ")
}

/// `listening on 3000, 3001`
pub(crate) fn listening_on(ports: &[u16]) -> String {
    let ports: Vec<String> = ports.iter().map(u16::to_string).collect();
    format!("listening on {}", ports.join(", "))
}

/// Warnings before information. Messages about the task share one line, those of the history
/// another; each table has its own.
fn insight_lines(insights: &[ResultNote], palette: Palette) -> Vec<String> {
    let mut lines = Vec::new();
    for (level, sign, colour) in [(Level::Warning, "⚠", YELLOW), (Level::Info, "ℹ", DIM)] {
        for (from_history, label) in [(false, ""), (true, "A.L.A.N.: ")] {
            let (tables, messages): (Vec<&str>, Vec<&str>) = insights
                .iter()
                .filter(|insight| insight.level == level && insight.from_history == from_history)
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

/// `⌨ WAITING FOR INPUT "Password:" (reads tty: 4711 passwd)`
fn waiting_line(waiting: &Waiting, input: Input) -> String {
    let what = match waiting.wanted {
        WantedInput::Input => "INPUT",
        WantedInput::Password => "A PASSWORD",
    };
    let prompt = match waiting.prompt.trim() {
        "" => String::new(),
        prompt => format!(" {}", foreign::in_quotes(prompt, PROMPT_CHARS)),
    };
    let proof = describe::input_proof_phrase(waiting, input);
    format!("⌨ WAITING FOR {what}{prompt} ({proof})")
}

/// `A person can answer: zsh-tool attach 3dc8c9ee`, for a password prompt on a terminal. Wherever
/// the answer to a prompt is advised, this replaces `zsh_send`.
pub(crate) fn person_line(
    wanted: WantedInput,
    facts: &Facts,
    secrets_listed: bool,
) -> Option<String> {
    if wanted != WantedInput::Password || facts.input != Input::Terminal {
        return None;
    }
    // Secrets are not typed into detached tasks.
    let subject = if secrets_listed && facts.detached.is_none() {
        "If no listed secret fits, a person"
    } else {
        "A person"
    };
    Some(format!("{subject} can answer: zsh-tool attach {}", facts.id))
}

/// `⏸ STOPPED (SIGTSTP): 4711 vim — zsh_kill task_id=… signal=CONT resumes it`
fn condition_lines(conditions: &[Condition], task: &str) -> Vec<String> {
    describe::kinds(conditions)
        .into_iter()
        .map(|(kind, processes)| {
            let them = if processes.len() == 1 { "it" } else { "them" };
            let named = describe::name(&processes);
            match kind {
                ConditionKind::Stopped { by, holds_up } => {
                    let may_want_terminal =
                        !holds_up && !matches!(by, StopSignal::Stop | StopSignal::Keyboard);
                    let by = match by {
                        StopSignal::Unknown => String::new(),
                        by => format!(" ({})", describe::signal_name(by)),
                    };
                    let resumes = format!("zsh_kill task_id={task} signal=CONT");
                    // If resumed in the background, it would try to use the terminal again.
                    let remedy = if may_want_terminal {
                        format!("fg in its shell if it is a job there, or {resumes}")
                    } else {
                        format!("{resumes} resumes {them}")
                    };
                    format!("⏸ STOPPED{by}: {named} — {remedy}")
                }
                ConditionKind::DiskSleep => format!(
                    "⏸ DISK SLEEP: {named} — in a sleep that no signal ends (disk, network file system)"
                ),
                ConditionKind::ZombieLeader => format!(
                    "⚠ ZOMBIE LEADER: {named} — the main thread has ended, other threads are still running"
                ),
                ConditionKind::OutOfReach(user) => {
                    format!("⚠ OF ANOTHER USER ({user}): {named} — zsh_kill cannot end {them}")
                }
            }
        })
        .collect()
}

/// `screen 24×80, cursor row 3 column 12, alternate screen`
fn screen_line(seen: &ScreenContent) -> String {
    let view = &seen.view;
    let mut line = format!(
        "screen {}×{}, cursor row {} column {}",
        view.rows.len(),
        view.cols,
        view.cursor_row,
        view.cursor_col
    );
    if !view.cursor_visible {
        line.push_str(" (hidden)");
    }
    if view.alternate {
        line.push_str(", alternate screen");
    }
    if seen.undrawn > 0 {
        let undrawn = grouped(seen.undrawn as u64);
        line.push_str(&format!(", {undrawn} bytes of output not drawn"));
    }
    line
}

fn screen_meta(seen: &ScreenContent) -> Value {
    let view = &seen.view;
    json!({
        "rows": view.rows.len(),
        "cols": view.cols,
        "cursor": [view.cursor_row, view.cursor_col],
        "cursor_visible": view.cursor_visible,
        "alternate": view.alternate,
        "undrawn_bytes": seen.undrawn,
        "lines": drawn_rows(view),
    })
}

/// The rows up to the last non-empty one, as many as fit.
pub(crate) fn screen_rows(view: &screen::ScreenView, mut room: Room, id: &str) -> Shown {
    let rows = drawn_rows(view);
    let marked: Vec<String> = rows.iter().map(|row| frame::marked(row.clone())).collect();
    let fitting = marked.iter().take_while(|row| room.take_line(row));
    let mut shown: Vec<&str> = fitting.map(String::as_str).collect();
    let left_out = rows.len() - shown.len();
    let omission = match left_out {
        0 => String::new(),
        rows => format!("{rows} more rows: zsh_poll task_id={id} screen=true max_output=…"),
    };
    let marker = format!("… {omission}");
    if rows.is_empty() {
        shown.push("(empty screen)");
    } else if left_out > 0 {
        shown.push(&marker);
    }
    Shown { text: shown.join("\n"), omission, ..Shown::default() }
}

fn drawn_rows(view: &screen::ScreenView) -> &[String] {
    let last = view.rows.iter().rposition(|row| !row.is_empty());
    view.rows.get(..last.map_or(0, |last| last + 1)).unwrap_or_default()
}

/// `┌ notify: task '3dc8c9ee' completed (exit=0, 61.2s) make test`
///
/// The calls that it names wait for at most `ceiling`.
pub(crate) fn notice_lines(
    notices: &[Notice],
    ceiling: Duration,
    redact: impl Fn(&str) -> String,
) -> Vec<String> {
    let mut lines: Vec<String> = notices
        .iter()
        .take(MAX_NAMED)
        .map(|notice| {
            let id = &notice.task.facts.id;
            let command = command_line(&redact(&notice.task.facts.command));
            let end = match &notice.news {
                News::Ended(end) => end,
                News::StartTimedOut => {
                    return format!(
                        "┌ notify: your earlier call's command still runs as task '{id}' (the call timed out): \
                         zsh_poll task_id={id} wait_for=end listen={}  {command}",
                        ceiling.as_secs()
                    );
                }
                News::Unpolled(unpolled, verdict) => {
                    let status = verdict.as_deref().and_then(describe::verdict_summary);
                    return format!(
                        "┌ notify: task '{id}' runs, unpolled for {}{} (zsh_kill ends it)  {command}",
                        seconds(*unpolled),
                        status.map_or_else(String::new, |status| format!(": {status}")),
                    );
                }
            };
            let word = match end.outcome {
                Outcome::Success => "completed",
                Outcome::Failure => "failed",
                Outcome::Timeout => "timed out",
                Outcome::Killed => "was killed",
                Outcome::Interrupted => "was interrupted",
            };
            format!(
                "┌ notify: task '{id}' {word} (exit={}, {:.1}s) {command}",
                end.exit.code(),
                end.duration.as_secs_f64(),
            )
        })
        .collect();
    if notices.len() > MAX_NAMED {
        lines.push(format!(
            "┌ notify: {} more tasks: zsh_tasks all=true",
            notices.len() - MAX_NAMED
        ));
    }
    lines
}

/// A duration in whole milliseconds.
pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::progress::wait::ProcessName;

    fn stopped(pid: i32, by: StopSignal, holds_up: bool) -> Condition {
        Condition::Stopped { process: ProcessName { pid, name: "vim".into() }, by, holds_up }
    }

    #[test]
    fn each_kind_has_one_line_that_says_what_to_do() {
        let mut all: Vec<Condition> =
            (1..=6).map(|pid| stopped(pid, StopSignal::Keyboard, true)).collect();
        all.push(stopped(7, StopSignal::Reading, false));
        let lines = condition_lines(&all, "3dc8c9ee");
        assert_eq!(
            lines,
            [
                "⏸ STOPPED (SIGTSTP): 1 vim, 2 vim, 3 vim, 4 vim, 2 more — zsh_kill \
                 task_id=3dc8c9ee signal=CONT resumes them",
                "⏸ STOPPED (SIGTTIN): 7 vim — fg in its shell if it is a job there, or zsh_kill \
                 task_id=3dc8c9ee signal=CONT",
            ]
        );
        let one = [stopped(7, StopSignal::Unknown, true)];
        assert_eq!(describe::condition_phrases(&one), ["stopped: 7 vim"]);
        let row = json!(one.each_ref().map(ConditionRow::from));
        assert_eq!(row[0]["signal"], Value::Null);
        assert!(row[0].get("user").is_none(), "{row}");
    }
}
