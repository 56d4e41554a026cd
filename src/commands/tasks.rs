//! `zsh-tool tasks`: the tasks of all running servers and the detached ones, from the state
//! directory.

use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{output, shared};
use crate::mcp::outputs::TaskFacts;
use crate::mcp::render::result;
use crate::monitor::session::now;
use crate::process::descriptors::{Interest, Poller};
use crate::process::directory_watch::DirectoryWatch;
use crate::task::describe;
use crate::task::journal;
use crate::task::snapshot::Snapshot;
use crate::task::tombstone;
use crate::text::foreign;
use crate::text::quantity::seconds;

/// How much of a command a line shows.
const COMMAND_CHARS: usize = 80;
/// How long a whole id is looked for: an answer that names a task may leave before the task's file
/// is written.
const NEWEST: Duration = Duration::from_millis(500);

/// Runs the command.
pub(crate) fn run(all: bool, as_json: bool) -> ExitCode {
    let (config, _) = shared::load_config();
    let state = match shared::state_directory(&config) {
        Ok(state) => state,
        Err(code) => return code,
    };
    let mut tasks: Vec<Listed> = Vec::new();
    for server in journal::servers(state) {
        let snapshots = tombstone::listed(&server).into_iter();
        let shown = snapshots.filter(|snapshot| all || !snapshot.is_over());
        tasks.extend(shown.map(|snapshot| Listed::new(&server, snapshot)));
    }
    tasks.sort_by(|a, b| b.snapshot.started().total_cmp(&a.snapshot.started()));
    let text: String = if as_json {
        tasks.iter().map(|task| format!("{}\n", task.json())).collect()
    } else {
        lines(&tasks)
    };
    if tasks.is_empty() {
        output::say_on_stderr(if all {
            "no tasks"
        } else {
            "no running tasks (--all lists ended ones)"
        });
    }
    output::conclude(output::print(&text), 0)
}

/// The task whose id begins with `wanted`. Otherwise reports that there is none, or several.
pub(super) fn find(state: &Path, wanted: &str) -> Option<(PathBuf, Snapshot)> {
    let mut found = beginning_with(state, wanted);
    if found.is_empty() && journal::is_task_id(wanted) {
        found = await_newest(state, wanted);
    }
    match found.len() {
        0 => {
            output::complain(format_args!(
                "no task's id begins with {wanted:?}: `zsh-tool tasks --all` lists the tasks"
            ));
            None
        }
        1 => found.pop(),
        count => {
            output::complain(format_args!(
                "the ids of {count} tasks begin with {wanted:?}: type more of the id:\n{}",
                listed(found).trim_end()
            ));
            None
        }
    }
}

/// Waits until a server writes the task's file.
fn await_newest(state: &Path, wanted: &str) -> Vec<(PathBuf, Snapshot)> {
    let deadline = Instant::now() + NEWEST;
    let mut servers = journal::servers(state).into_iter();
    let watch = servers.find_map(|directory| DirectoryWatch::new(&directory).ok());
    let Some(watch) = watch else {
        return Vec::new();
    };
    // One that is gone meanwhile has no newest task.
    servers.for_each(|directory| drop(watch.add(&directory)));
    loop {
        watch.drain();
        let found = beginning_with(state, wanted);
        let left = deadline.saturating_duration_since(Instant::now());
        if !found.is_empty() || left.is_zero() {
            return found;
        }
        let mut poller = Poller::default();
        poller.watch(watch.as_fd(), Interest::Read);
        poller.wait(Some(left));
    }
}

fn beginning_with(state: &Path, wanted: &str) -> Vec<(PathBuf, Snapshot)> {
    let tasks = journal::read_all(state).into_iter();
    tasks.filter(|(_, snapshot)| snapshot.id().starts_with(wanted)).collect()
}

/// The only task that waits for input. Otherwise lists the running tasks on stderr.
pub(super) fn find_waiting(state: &Path) -> Option<(PathBuf, Snapshot)> {
    let running: Vec<(PathBuf, Snapshot)> = journal::read_all(state)
        .into_iter()
        .filter(|(server, snapshot)| snapshot.running() && journal::server_lives(server))
        .collect();
    let mut waiting = running.iter().filter(|(_, snapshot)| snapshot.probed.waiting.is_some());
    match (waiting.next(), waiting.next()) {
        (Some(only), None) => return Some(only.clone()),
        _ if running.is_empty() => output::complain("no task is running"),
        (first, _) => {
            let count = if first.is_some() { "several tasks wait" } else { "no task waits" };
            output::complain(format_args!(
                "{count} for input: name the task to attach to:\n{}",
                listed(running).trim_end()
            ));
        }
    }
    None
}

/// Tasks as aligned lines: id, status, age, server, command.
fn lines(tasks: &[Listed]) -> String {
    let rows: Vec<_> = tasks.iter().map(Listed::cells).collect();
    output::columns(&rows, &[2])
}

/// Tasks as lines for a person who must choose one.
fn listed(tasks: Vec<(PathBuf, Snapshot)>) -> String {
    let tasks: Vec<Listed> =
        tasks.into_iter().map(|(server, snapshot)| Listed::new(&server, snapshot)).collect();
    lines(&tasks)
}

struct Listed {
    snapshot: Snapshot,
    instance: String,
    server_pid: Option<i32>,
    age: Duration,
}

impl Listed {
    fn new(server: &Path, snapshot: Snapshot) -> Listed {
        Listed {
            instance: server
                .file_name()
                .map(|name| name.to_string_lossy().into_owned())
                .unwrap_or_default(),
            server_pid: journal::server_pid(server).filter(|_| journal::server_lives(server)),
            age: Duration::try_from_secs_f64(now() - snapshot.started()).unwrap_or_default(),
            snapshot,
        }
    }

    fn cells(&self) -> [String; 5] {
        let snapshot = &self.snapshot;
        let mut status = describe::status_phrase(snapshot, None);
        if snapshot.attached {
            status.push_str(", person attached");
        } else if let Some(waiting) = &snapshot.probed.waiting {
            status.push_str(", waits for ");
            status.push_str(describe::wanted_word(waiting.wanted));
        }
        if !snapshot.running() && !snapshot.leftovers.is_empty() {
            status.push_str(&format!(", {} still running", snapshot.leftovers.len()));
        }
        if snapshot.facts.detached.is_some() {
            status.push_str(", detached");
        }
        let server = match self.server_pid {
            Some(pid) => format!("server {} (pid {pid})", self.instance),
            None => format!("server {}", self.instance),
        };
        let command = result::command_line(&snapshot.facts.command);
        let mut command: String = command.chars().take(COMMAND_CHARS).collect();
        if let Some(description) = &snapshot.facts.description {
            command.push_str(&format!("  # {}", foreign::shown(description)));
        }
        [snapshot.facts.id.clone(), status, seconds(self.age), server, command]
    }

    fn json(&self) -> Value {
        let snapshot = &self.snapshot;
        TaskFacts::from(snapshot).with(json!({
            "age_ms": result::millis(self.age),
            "duration_ms": snapshot.duration_ms(),
            "command": snapshot.facts.command,
            "description": snapshot.facts.description,
            "cwd": snapshot.facts.directory.to_string_lossy(),
            "pty": snapshot.is_on_terminal(),
            "leftovers": snapshot.leftover_pids(),
            "detached": snapshot.facts.detached,
            "server": self.instance,
            "server_pid": self.server_pid,
        }))
    }
}
