//! `zsh-tool tasks`: the tasks of all servers that live, from the state directory.

use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};

use super::{output, setup};
use crate::cli::TasksArguments;
use crate::mcp::render;
use crate::mcp::times;
use crate::monitor::tasks::state_word;
use crate::task::journal::{self, Entry};

/// How much of a command a line shows.
const COMMAND_CHARS: usize = 80;

/// Runs the command.
pub fn run(arguments: &TasksArguments) -> ExitCode {
    let (config, _) = setup::load_config();
    let state = match config.state_dir {
        Ok(state) => state,
        Err(error) => {
            output::complain(error);
            return ExitCode::FAILURE;
        }
    };
    let tasks: Vec<Listed> = journal::read_all(&state)
        .into_iter()
        .filter(|(_, entry)| arguments.all || !entry.is_over())
        .filter(|(server, _)| journal::server_lives(server))
        .map(|(server, entry)| Listed::new(&server, entry))
        .collect();
    let text: String = if arguments.json {
        tasks
            .iter()
            .map(|task| format!("{}\n", task.json()))
            .collect()
    } else {
        lines(&tasks)
    };
    if tasks.is_empty() {
        output::say(match arguments.all {
            true => "no tasks",
            false => "no running tasks (--all lists ended ones)",
        });
    }
    output::conclude(output::print(&text), 0)
}

/// Tasks as aligned lines: id, status, age, server, command.
fn lines(tasks: &[Listed]) -> String {
    let cells: Vec<[String; 5]> = tasks.iter().map(Listed::cells).collect();
    let mut widths = [0; 5];
    for row in &cells {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.chars().count().max(*width);
        }
    }
    let [id, status, age, server, _] = widths;
    cells
        .iter()
        .map(|[a, b, c, d, e]| format!("{a:<id$}  {b:<status$}  {c:>age$}  {d:<server$}  {e}\n"))
        .collect()
}

/// Tasks as lines for a person who has to choose one.
pub(super) fn describe(tasks: Vec<(std::path::PathBuf, Entry)>) -> String {
    let listed: Vec<Listed> = tasks
        .into_iter()
        .map(|(server, entry)| Listed::new(&server, entry))
        .collect();
    lines(&listed)
}

struct Listed {
    entry: Entry,
    instance: String,
    server_pid: Option<i32>,
    age: Duration,
}

impl Listed {
    fn new(server: &Path, entry: Entry) -> Listed {
        let started = Duration::try_from_secs_f64(entry.started).unwrap_or_default();
        let since_epoch = SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or_default();
        Listed {
            instance: server
                .file_name()
                .map(|name| name.to_string_lossy().into_owned())
                .unwrap_or_default(),
            server_pid: journal::server_pid(server),
            age: since_epoch.saturating_sub(started),
            entry,
        }
    }

    fn cells(&self) -> [String; 5] {
        let entry = &self.entry;
        let mut status = state_word(entry).to_owned();
        if let Some(code) = entry.exit_code {
            status.push_str(&format!(" exit={code}"));
        }
        if entry.outcome.is_some() && !entry.leftovers.is_empty() {
            status.push_str(&format!(", {} still running", entry.leftovers.len()));
        }
        let server = match self.server_pid {
            Some(pid) => format!("server {} (pid {pid})", self.instance),
            None => format!("server {}", self.instance),
        };
        let echoed = render::echo(&entry.command);
        let mut command: String = echoed
            .chars()
            .skip("$ ".len())
            .take(COMMAND_CHARS)
            .collect();
        if let Some(description) = &entry.description {
            command.push_str(&format!("  # {description}"));
        }
        [
            entry.id.clone(),
            status,
            times::seconds(self.age),
            server,
            command,
        ]
    }

    fn json(&self) -> Value {
        let entry = &self.entry;
        json!({
            "task_id": entry.id,
            "status": state_word(entry),
            "exit_code": entry.exit_code,
            "age_ms": times::millis(self.age),
            "duration_ms": entry.duration_ms,
            "command": entry.command,
            "description": entry.description,
            "cwd": entry.directory,
            "pid": entry.pid,
            "pty": entry.pty,
            "leftovers": entry.leftovers,
            "server": self.instance,
            "server_pid": self.server_pid,
        })
    }
}
