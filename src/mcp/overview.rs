//! `zsh_tasks` and `zsh_health`: aligned lines for people and models, JSON for programs.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::conditions::{self, wanted_word};
use super::insight::size;
use super::memory::outputs::{self, DatabaseOutput};
use super::memory::words;
use super::progress::{self, Standing};
use super::render::{self, status_word};
use super::times::{millis, seconds};
use super::view::View;
use crate::config::{Config, Warning};
use crate::process::probe;
use crate::progress::condition::Condition;
use crate::record::recorder::Recorder;
use crate::task::registry::TaskHandle;
use crate::task::supervisor::Supervisor;

/// How many tasks are listed when the caller does not say.
pub const TASKS_LISTED: usize = 50;
/// How much of a command a list shows.
const COMMAND_CHARS: usize = 80;

/// Where the server also serves HTTP.
#[derive(Debug, Clone)]
pub struct MonitorAt {
    /// The page's address, without the token.
    pub address: String,
    /// The file that holds the link with the token, for a person to open.
    pub link_file: Option<PathBuf>,
}

impl fmt::Display for MonitorAt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.link_file {
            Some(file) => write!(f, "{} (its link is in {})", self.address, file.display()),
            None => write!(
                f,
                "{} (its link cannot be kept: there is no state directory)",
                self.address
            ),
        }
    }
}

/// An overview in both forms.
pub struct Overview {
    /// For reading.
    pub text: String,
    /// The same, and more.
    pub structured: Value,
}

/// The running tasks and those with leftovers, or all, newest first.
pub fn tasks(supervisor: &Supervisor, all: bool, limit: usize) -> Overview {
    let every = supervisor.tasks();
    let listed: Vec<&Arc<TaskHandle>> = every
        .iter()
        .rev()
        .filter(|task| all || !task.live.state().closed)
        .collect();
    let more = listed.len().saturating_sub(limit);
    let redact = |text: &str| supervisor.settings().redactor.redact(text).into_owned();
    let rows: Vec<Row> = listed
        .iter()
        .take(limit)
        .map(|task| Row::of(task, &redact))
        .collect();
    let mut lines: Vec<String> = rows.iter().map(Row::line).collect();
    if lines.is_empty() {
        lines.push(
            if all {
                "no tasks"
            } else {
                "no running tasks (all=true lists ended ones)"
            }
            .to_owned(),
        );
    }
    if more > 0 {
        lines.push(format!("… {more} more: raise limit"));
    }
    let strays = supervisor.unattributed();
    for stray in &strays {
        lines.push(format!(
            "unattributed: {} {} (of a task, but which is not known; ends with the server)",
            stray.pid, stray.name
        ));
    }
    Overview {
        text: lines.join("\n"),
        structured: json!({
            "tasks": rows.iter().map(Row::json).collect::<Vec<_>>(),
            "not_listed": more,
            "unattributed": strays
                .iter()
                .map(|stray| json!({"pid": stray.pid, "name": stray.name}))
                .collect::<Vec<_>>(),
        }),
    }
}

struct Row {
    id: String,
    status: &'static str,
    standing: Option<Standing>,
    evidence: Vec<String>,
    exit_code: Option<i32>,
    age: Duration,
    silent: Option<Duration>,
    leftovers: usize,
    waiting: Option<&'static str>,
    conditions: Vec<Condition>,
    command: String,
    description: Option<String>,
    pid: i32,
}

impl Row {
    fn of(task: &TaskHandle, redact: &impl Fn(&str) -> String) -> Row {
        let facts = &task.live.facts;
        let view = View::of(&task.live);
        let is_running = view.running();
        let now = Instant::now();
        let state = task.live.state();
        let silent = (!state.closed)
            .then(|| now.duration_since(state.last_output.unwrap_or(facts.started.mono)));
        let leftovers = if state.ended.is_some() {
            state.leftovers.len()
        } else {
            0
        };
        let waiting = state
            .waiting
            .as_ref()
            .map(|waiting| wanted_word(waiting.wanted));
        drop(state);
        let command = render::echo(&redact(&facts.command));
        Row {
            id: facts.id.clone(),
            status: status_word(&view),
            exit_code: view.end().map(|end| end.exit.code()),
            age: now.duration_since(facts.started.mono),
            silent,
            leftovers,
            waiting,
            conditions: view.conditions().to_vec(),
            evidence: match is_running {
                true => progress::evidence(
                    view.standing.as_ref(),
                    view.waiting.as_ref(),
                    &view.conditions,
                    facts.input,
                ),
                false => Vec::new(),
            },
            standing: view.standing.filter(|_| is_running),
            command: command.chars().skip(2).take(COMMAND_CHARS).collect(),
            description: facts.description.as_deref().map(redact),
            pid: facts.pid,
        }
    }

    fn line(&self) -> String {
        let status = match (self.exit_code, &self.standing) {
            (Some(code), _) => format!("{} exit={code}", self.status),
            (None, Some(standing)) => format!("{}, {}", self.status, standing.status),
            (None, None) => self.status.to_owned(),
        };
        let mut facts = vec![format!("age {}", seconds(self.age))];
        if let Some(silent) = self.silent {
            facts.push(format!("silent {}", seconds(silent)));
        }
        if let Some(wanted) = self.waiting {
            facts.push(format!("waiting for {wanted}"));
        }
        facts.extend(conditions::summary(&self.conditions));
        if self.leftovers > 0 {
            facts.push(format!("{} still running", self.leftovers));
        }
        let description = self
            .description
            .as_ref()
            .map(|text| format!("  # {text}"))
            .unwrap_or_default();
        format!(
            "{}  {status:<20}  {:<24}  {}{description}",
            self.id,
            facts.join(", "),
            self.command
        )
    }

    fn json(&self) -> Value {
        json!({
            "task_id": self.id,
            "status": self.status,
            "progress": self.standing.as_ref().map(|standing| standing.status.to_string()),
            "evidence": self.evidence,
            "exit_code": self.exit_code,
            "age_ms": millis(self.age),
            "silent_ms": self.silent.map(millis),
            "waiting_for": self.waiting,
            "conditions": conditions::meta(&self.conditions),
            "leftovers": self.leftovers,
            "command": self.command,
            "description": self.description,
            "pid": self.pid,
        })
    }
}

/// How the server is doing.
pub fn health(
    supervisor: &Supervisor,
    recorder: &Recorder,
    config: &Config,
    warnings: &[Warning],
    monitor: Option<&MonitorAt>,
) -> Overview {
    let tasks = supervisor.tasks();
    let running = tasks
        .iter()
        .filter(|task| task.live.state().ended.is_none())
        .count();
    let lingering = tasks
        .iter()
        .filter(|task| task.live.state().lingers())
        .count();
    let shell = supervisor.find_shell();
    let shell_text = match &shell {
        Ok(shell) => match &shell.note {
            None => shell.path.display().to_string(),
            Some(note) => note.clone(),
        },
        Err(error) => error.to_string(),
    };
    let state = match supervisor.directory() {
        Ok(directory) => directory.path().display().to_string(),
        Err(cause) => format!("none: {cause}; output is kept in memory"),
    };
    let mut problems: Vec<String> = warnings.iter().map(Warning::to_string).collect();
    if shell.as_ref().map_or(true, |shell| shell.note.is_some()) {
        problems.push(shell_text.clone());
    }
    if let Err(cause) = supervisor.directory() {
        problems.push(cause.to_owned());
    }
    let shortcoming = probe::shortcoming().map(conditions::shortcoming_words);
    problems.extend(shortcoming.map(str::to_owned));
    // Asking for the circuits opens the database, so that its state is known.
    let circuits_open = outputs::open(&recorder.circuits());
    let status = recorder.store().status();
    let database = DatabaseOutput::from(&status);
    problems.extend(words::database_problems(&database));
    let mut lines = vec![
        format!(
            "status     {}",
            if problems.is_empty() {
                "ok"
            } else {
                "problems, see below"
            }
        ),
        format!("version    {}", env!("CARGO_PKG_VERSION")),
        format!("shell      {shell_text}"),
        format!(
            "tasks      {running} running of {}, {lingering} with processes left behind, {} ended kept of {}",
            config.max_tasks,
            tasks.len() - running,
            config.max_finished_tasks
        ),
        format!(
            "timeout    {} s by default, {} s at most",
            config.timeout_default.as_secs_f64(),
            config.timeout_max.as_secs_f64()
        ),
        format!(
            "spool      {} of {} on disk",
            size(supervisor.disk_bytes()),
            size(config.spool_quota)
        ),
        format!("state      {state}"),
        format!("database   {}", words::database(&database, status.opened)),
        format!("neverhang  {circuits_open} circuits open"),
    ];
    lines.extend(monitor.map(|monitor| format!("monitor    {monitor}")));
    lines.extend(problems.iter().map(|problem| format!("⚠ {problem}")));
    Overview {
        text: lines.join("\n"),
        structured: json!({
            "status": if problems.is_empty() { "ok" } else { "problems" },
            "version": env!("CARGO_PKG_VERSION"),
            "instance": supervisor.instance(),
            "shell": shell_text,
            "running": running,
            "lingering": lingering,
            "ended": tasks.len() - running,
            "max_tasks": config.max_tasks,
            "timeout_default_s": config.timeout_default.as_secs_f64(),
            "timeout_max_s": config.timeout_max.as_secs_f64(),
            "spool_bytes": supervisor.disk_bytes(),
            "spool_quota": config.spool_quota,
            "state_directory": state,
            "database": database,
            "circuits_open": circuits_open,
            "http": monitor.map(|monitor| &monitor.address),
            "problems": problems,
        }),
    }
}
