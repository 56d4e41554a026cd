//! `zsh_tasks` and `zsh_health`: aligned lines for people and models, JSON for programs.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::clients::KeptOutput;
use super::dispatch::{Answer, CallContext, ToolResult, Tools};
use super::history_tools;
use super::outputs::{
    ConditionRow, DetachedRow, HealthOutput, HostRow, LearnedRow, RestartRow, StrayRow, TaskFacts,
    TaskRow, TasksOutput, UsageRow,
};
use super::render::notes;
use super::render::progress;
use super::render::result::{command_line, listening_on, millis};
use super::render::view::View;
use super::tools::TasksArguments;
use crate::alan::rows::unix_seconds;
use crate::config::{DialectChoice, UnaskedDeadline, Warning};
use crate::process::control_group::ControlGroup;
use crate::process::ledger::Restart;
use crate::process::processes;
use crate::progress::condition::Condition;
use crate::task::describe;
use crate::task::port_watch::ListedTask;
use crate::task::registry::TaskHandle;
use crate::task::sandboxes;
use crate::text::foreign;
use crate::text::foreign::ShowPath;
use crate::text::quantity::{plural, seconds, size};

/// How many tasks are listed by default.
const TASKS_LISTED: usize = 50;
/// What a task takes in a list, in its longer form, in bytes.
const ROW_BYTES: usize = 500;
/// How much of a command a list shows.
const COMMAND_CHARS: usize = 80;

impl Tools {
    /// Lists running tasks and tasks with leftovers, or all tasks, newest first.
    pub(super) fn tasks(&self, arguments: &TasksArguments, kept: KeptOutput) -> Answer {
        let all = arguments.all.unwrap_or(false);
        let limit = arguments.limit.unwrap_or(TASKS_LISTED);
        // As many as the client's model gets to see.
        let limit = kept.bytes.map_or(limit, |bytes| limit.min(bytes / ROW_BYTES));
        let supervisor = &self.supervisor;
        let every = supervisor.tasks();
        let listed: Vec<&Arc<TaskHandle>> =
            every.iter().rev().filter(|task| all || !task.live.state().closed).collect();
        let more = listed.len().saturating_sub(limit);
        let redact = |text: &str| supervisor.settings.redactor.redact(text).into_owned();
        let shown = || listed.iter().take(limit);
        let members: Vec<ListedTask> = shown().map(|task| members(task)).collect();
        let ports = supervisor.ports_of(&members);
        let rows: Vec<TaskSummary> = (shown().zip(ports))
            .map(|(task, ports)| TaskSummary::new(task, ports, &redact))
            .collect();
        let mut detached = self.detached_rows(all);
        let detached_more = detached.len().saturating_sub(limit);
        detached.truncate(limit);
        let (mut lines, detached): (Vec<String>, Vec<DetachedRow>) = detached.into_iter().unzip();
        if detached_more > 0 {
            lines.push(format!("… {detached_more} more detached: raise limit"));
        }
        lines.extend(rows.iter().map(TaskSummary::line));
        if lines.is_empty() {
            let none =
                if all { "no tasks" } else { "no running tasks (all=true lists ended ones)" };
            lines.push(none.to_owned());
        }
        if more > 0 {
            lines.push(format!("… {more} more: raise limit"));
        }
        let strays = supervisor.unattributed();
        for stray in &strays {
            lines.push(format!(
                "unattributed: {} {} (owner unknown; killed when the server exits)",
                stray.id.pid,
                foreign::shown(&stray.name)
            ));
        }
        let strays = strays.into_iter();
        let output = TasksOutput {
            detached,
            tasks: rows.into_iter().map(|row| row.output).collect(),
            not_listed: more,
            unattributed: strays
                .map(|stray| StrayRow { pid: stray.id.pid, name: stray.name })
                .collect(),
        };
        Ok(ToolResult::structured(lines.join("\n"), &output))
    }

    /// Reports the state of the server.
    pub(super) fn health(&self, call: &CallContext) -> Answer {
        let Tools { supervisor, config, monitor, .. } = self;
        let tasks = supervisor.tasks();
        let running = tasks.iter().filter(|task| task.live.state().ended.is_none()).count();
        let lingering = tasks.iter().filter(|task| task.live.state().lingers()).count();
        let shell = supervisor.find_shell(None);
        let shell_text = match &shell {
            Ok(shell) => match &shell.note {
                None if config.dialect == DialectChoice::Bash => {
                    format!("{}, dialect: bash", shell.path.shown())
                }
                None => shell.path.shown().to_string(),
                Some(note) => note.clone(),
            },
            Err(error) => error.to_string(),
        };
        let state = match supervisor.directory() {
            Ok(directory) => directory.path.shown().to_string(),
            Err(cause) => format!("none: {cause}; output is kept in memory"),
        };
        let mut problems: Vec<String> = self.warnings.iter().map(Warning::to_string).collect();
        if shell.as_ref().map_or(true, |shell| shell.note.is_some()) {
            problems.push(shell_text.clone());
        }
        if let Err(cause) = supervisor.directory() {
            problems.push(cause.to_owned());
        }
        let sandbox = sandboxes::summary(&supervisor.settings.sandbox);
        problems.extend(sandbox.problem);
        let visibility_limit = processes::visibility_limit().map(notes::visibility_limit);
        problems.extend(visibility_limit.map(str::to_owned));
        // Reading the circuits opens the database, so that its state is known.
        let circuits_open = history_tools::refusing(&self.recorder.circuits());
        let status = self.recorder.store().status();
        let database = history_tools::database(&status);
        problems.extend(history_tools::database_problems(&database));
        let learned = self.learned_ceilings().into_iter().filter(|learned| learned.is_sure);
        let (restarts, last_restart) =
            self.ledger.get().map(|ledger| ledger.restarts()).unwrap_or_default();
        let output = HealthOutput {
            status: if problems.is_empty() { "ok" } else { "problems" },
            version: env!("CARGO_PKG_VERSION"),
            instance: supervisor.instance.to_owned(),
            shell: shell_text,
            sandbox: sandbox.text,
            running,
            lingering,
            ended: tasks.len() - running,
            max_tasks: config.max_tasks,
            timeout_default_s: config.timeout_default.as_secs_f64(),
            timeout_max_s: config.timeout_max.as_secs_f64(),
            ceiling_s: call.client.ceiling.as_secs_f64(),
            learned_ceilings: learned.map(LearnedRow::from).collect(),
            restarts,
            last_restart: last_restart.map(|Restart { at, cause }| RestartRow { at, cause }),
            spool_bytes: supervisor.disk_bytes(),
            spool_quota: config.spool_quota,
            state_directory: state,
            database,
            circuits_open,
            http: monitor.as_ref().map(|monitor| monitor.address.clone()),
            hosts: self
                .hosts
                .iter()
                .map(|host| HostRow { name: host.entry.name.clone(), status: host.status() })
                .collect(),
            problems,
        };
        let database = history_tools::database_line(&output.database, status.opened);
        Ok(ToolResult::structured(self.health_text(&output, &database), &output))
    }

    /// The state of the server as lines; `database` is the one about the database.
    fn health_text(&self, health: &HealthOutput, database: &str) -> String {
        let is_ok = health.problems.is_empty();
        let mut lines = vec![
            format!("status     {}", if is_ok { "ok" } else { "problems, see below" }),
            format!("version    {}", health.version),
            format!("shell      {}", health.shell),
            format!(
                "tasks      {} running of at most {}, {} with processes left behind, {} ended kept of at most {}",
                health.running,
                health.max_tasks,
                health.lingering,
                health.ended,
                self.config.max_finished_tasks
            ),
            match self.config.unasked_deadline {
                UnaskedDeadline::Judge => format!(
                    "timeout    {} s at most; without one, judged from {} s on",
                    health.timeout_max_s, health.timeout_default_s
                ),
                UnaskedDeadline::Kill => format!(
                    "timeout    {} s by default, {} s at most",
                    health.timeout_default_s, health.timeout_max_s
                ),
            },
            format!("waits      {} s at most in one call", health.ceiling_s),
            format!(
                "spool      {} of {} on disk",
                size(health.spool_bytes),
                size(health.spool_quota)
            ),
            format!("state      {}", health.state_directory),
            format!("database   {database}"),
            format!("neverhang  {} circuits open", health.circuits_open),
        ];
        if !health.sandbox.starts_with("off") {
            lines.push(format!("sandbox    {}", health.sandbox));
        }
        if let Some(limit) = self.config.memory_max {
            let held = describe::memory_limit(Some(limit), ControlGroup::can_be_made());
            lines.push(format!("memory     {held}"));
        }
        if let Some(last) = &health.last_restart {
            let times = plural(health.restarts, "time", "times");
            let ago = Duration::try_from_secs_f64(unix_seconds(SystemTime::now()) - last.at)
                .unwrap_or_default();
            lines.push(format!(
                "restarted  {times}, the last time {} ago ({})",
                seconds(ago),
                last.cause
            ));
        }
        lines.extend(health.learned_ceilings.iter().map(LearnedRow::line));
        let host = |host: &HostRow| {
            format!("host       {}: {}", host.name, foreign::composed(&host.status))
        };
        lines.extend(health.hosts.iter().map(host));
        lines.extend(self.monitor.as_ref().map(|monitor| format!("monitor    {monitor}")));
        lines.extend(health.problems.iter().map(|problem| format!("⚠ {problem}")));
        lines.join("\n")
    }
}

/// The task's processes; none if it is over.
fn members(task: &TaskHandle) -> ListedTask {
    let state = task.live.state();
    let leftovers = state.leftovers.iter().map(|left| left.pid).collect();
    ListedTask { shell: (!state.closed).then_some(task.live.facts.shell.pid), leftovers }
}

/// A row of the list, with facts that only its line shows.
struct TaskSummary {
    output: TaskRow,
    status: String,
    age: Duration,
    silent: Option<Duration>,
    conditions: Vec<Condition>,
}

impl TaskSummary {
    fn new(
        task: &TaskHandle,
        listening: Vec<u16>,
        redact: &impl Fn(&str) -> String,
    ) -> TaskSummary {
        let facts = &task.live.facts;
        let view = View::take(&task.live);
        let silent = (!task.live.state().closed).then_some(view.silent_for());
        let command = command_line(&redact(&facts.command));
        let output = TaskRow {
            facts: TaskFacts::from(&view.task),
            progress: view.status().map(|status| status.to_string()),
            evidence: if view.running() {
                progress::evidence(&view, facts.input)
            } else {
                Vec::new()
            },
            age_ms: millis(view.elapsed()),
            silent_ms: silent.map(millis),
            usage: UsageRow::of(&view.task.probed.usage).filter(|_| view.running()),
            conditions: view.conditions().iter().map(ConditionRow::from).collect(),
            leftovers: if view.running() { 0 } else { view.task.leftovers.len() },
            listening,
            command: command.chars().take(COMMAND_CHARS).collect(),
            description: facts.description.as_deref().map(redact),
        };
        let status = describe::status_phrase(&view.task, view.status());
        TaskSummary {
            output,
            status,
            age: view.elapsed(),
            silent,
            conditions: view.task.probed.conditions,
        }
    }

    fn line(&self) -> String {
        let row = &self.output;
        let status = &self.status;
        let mut facts = vec![format!("age {}", seconds(self.age))];
        if let Some(silent) = self.silent {
            facts.push(format!("silent {}", seconds(silent)));
        }
        if let Some(usage) = &row.usage {
            facts.push(describe::usage_phrase(usage.cpu_s, usage.memory_bytes));
        }
        if row.facts.attached {
            facts.push("person attached".to_owned());
        }
        if let Some(wanted) = row.facts.waiting_for {
            facts.push(format!("waiting for {wanted}"));
        }
        facts.extend(describe::condition_phrases(&self.conditions));
        if row.leftovers > 0 {
            facts.push(format!("{} still running", row.leftovers));
        }
        if !row.listening.is_empty() {
            facts.push(listening_on(&row.listening));
        }
        let facts = facts.join(", ");
        let mut line = format!("{}  {status:<20}  {facts:<24}  {}", row.facts.task_id, row.command);
        if let Some(description) = &row.description {
            line.push_str(&format!("  # {}", foreign::shown(description)));
        }
        line
    }
}
