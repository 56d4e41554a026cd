//! `zsh-tool events` and `zsh-tool hook stop`: events that an agent would otherwise poll for, from
//! the tasks of all running servers and shims, the ends of detached tasks whose shims are gone, and the
//! ends of agent runs.
//!
//! One thread waits for the owners' streams, for directories of new owners, for new runs and the ends of
//! their runners, and for the end of the reader of stdout.

mod runs;

use std::collections::HashSet;
use std::io::Read;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::Serialize;
use serde_json::{Value, json};

use self::runs::{Found, RunEnd};
use super::output::{self, OutputError};
use super::permissions;
use super::shared;
use crate::cli::{EventsArguments, HookCommand};
use crate::mcp::events::Event as TaskEvent;
use crate::oneshot::unreported;
use crate::peer::events::{EventStream, Received};
use crate::peer::{ANSWER_LIMIT, Owner};
use crate::process::descriptors::{Interest, Poller};
use crate::process::directory_watch::DirectoryWatch;
use crate::process::kill::Handle;
use crate::process::probe::Identity;
use crate::process::{files, tree};
use crate::task::environment::client;
use crate::task::events::EventKind;
use crate::task::journal::{self, SHIM_PREFIX};
use crate::task::recalled::RecalledTask;
use crate::task::snapshot::Snapshot;
use crate::task::supervisor::Supervisor;
use crate::task::tombstone;
use crate::text::foreign::ShowPath;

/// The first pause before another attempt to connect, since an owner creates its socket shortly
/// after its directory …
const FIRST_PAUSE: Duration = Duration::from_millis(25);
/// … and the longest pause.
const LAST_PAUSE: Duration = Duration::from_secs(30);
/// A connection that lasted this long resets the pause to the first.
const LASTING: Duration = Duration::from_secs(10);
/// How often directories are checked when the user has no inotify watches left, and runs whose runners
/// are not visible.
const BLIND_RECHECK: Duration = Duration::from_secs(1);
/// An owner that has sent nothing by then counts as frozen.
const FROZEN_AFTER: Duration = Duration::from_secs(1);
/// How long owners may take to send all pending events to a hook. The hook acknowledges them only
/// when all have arrived, for which owners wait longer than this.
const HOOK_LIMIT: Duration = Duration::from_secs(3);
/// The maximum size of a hook's input.
const MAX_HOOK_INPUT: u64 = 1 << 20;

pub(crate) fn run(arguments: &EventsArguments) -> ExitCode {
    let (config, _) = shared::load_config();
    let state = match shared::state_directory(&config) {
        Ok(state) => state,
        Err(code) => return code,
    };
    let mut print = |event: &Event| {
        let line = if arguments.json { json!(event).to_string() } else { event.line() };
        output::print(&format!("{line}\n"))
    };
    let mut sources = Sources::new(state, shared::supervisor(&config), arguments.of_client);
    let printed = if arguments.follow {
        sources.follow(&mut print)
    } else {
        sources.pending(ANSWER_LIMIT, &mut print).map(|silent| {
            for owner in silent {
                output::complain(format_args!("process {owner} owns tasks and does not answer"));
            }
        })
    };
    output::conclude(printed, 0)
}

/// Runs `hook`.
pub(crate) fn hook(command: &HookCommand) -> ExitCode {
    match command {
        HookCommand::SessionStart => session_start(),
        HookCommand::Stop => stop(),
        HookCommand::Permissions => permissions::answer(),
    }
}

/// Notes for the servers of the same client where the session's hooks write variables.
fn session_start() -> ExitCode {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let pid = variable("CLAUDE_PID").and_then(|pid| pid.to_str()?.parse().ok());
    let client = pid.and_then(tree::look_up);
    let file = variable("CLAUDE_ENV_FILE").map(PathBuf::from);
    // Older versions of Claude Code set neither.
    let (Some(client), Some(directory)) = (client, file.as_deref().and_then(Path::parent)) else {
        return ExitCode::SUCCESS;
    };
    let (config, _) = shared::load_config();
    let state = match shared::state_directory(&config) {
        Ok(state) => state,
        Err(code) => return code,
    };
    match client::write_note(state, client.id, directory) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            output::complain(format_args!("cannot note {}: {error}", directory.shown()));
            ExitCode::FAILURE
        }
    }
}

fn stop() -> ExitCode {
    if !may_block(&input()) {
        return ExitCode::SUCCESS;
    }
    let (config, _) = shared::load_config();
    let Ok(state) = &config.state_dir else {
        return ExitCode::SUCCESS;
    };
    let mut sources = Sources::new(state, shared::supervisor(&config), true);
    let lines = sources.hold();
    if lines.is_empty() {
        return ExitCode::SUCCESS;
    }
    let answer = json!({"decision": "block", "reason": lines.join("\n")});
    let printed = output::print(&format!("{answer}\n"));
    sources.release(printed.is_ok());
    output::conclude(printed, 0)
}

/// The JSON on a hook's stdin; null if it cannot be read.
fn input() -> Value {
    let mut text = Vec::new();
    match std::io::stdin().lock().take(MAX_HOOK_INPUT).read_to_end(&mut text) {
        Ok(_) => serde_json::from_slice(&text).unwrap_or_default(),
        Err(_) => Value::Null,
    }
}

/// Whether the hook may block the stop: not if a stop hook has already made the agent continue.
fn may_block(input: &Value) -> bool {
    let active = input.get("stop_hook_active");
    input.is_object() && active.is_none_or(|active| active == &Value::Bool(false))
}

/// What is reported.
#[derive(Serialize)]
#[serde(untagged)]
enum Event {
    Task(TaskEvent),
    Run(RunEnd),
}

impl Event {
    /// The event as one line of text.
    fn line(&self) -> String {
        match self {
            Event::Task(event) => event.line(),
            Event::Run(end) => end.line(),
        }
    }
}

type Report<'a> = &'a mut dyn FnMut(&Event) -> Result<(), OutputError>;

/// The tasks whose events are reported.
enum Scope {
    All,
    /// Tasks of servers that one of the ancestors started, and detached tasks of the project.
    Client {
        ancestors: Vec<Identity>,
        project: PathBuf,
    },
}

impl Scope {
    /// Whether the owner with this directory is in scope; `None` while a shim has no task yet.
    fn includes(&self, directory: &Path) -> Option<bool> {
        let Scope::Client { ancestors, project } = self else {
            return Some(true);
        };
        if is_shim(directory) {
            let entries = journal::read_server(directory);
            return entries.first().map(|entry| is_of_project(entry, project));
        }
        let client = journal::server_client(directory);
        Some(client.is_some_and(|client| ancestors.contains(&client)))
    }
}

/// A living process that owns tasks.
struct Source {
    owner: Owner,
    stream: Option<EventStream>,
    /// Events that a hook has received but not printed.
    held: Vec<TaskEvent>,
    connected: Instant,
    /// When to connect next; `None` if connected or out of scope.
    connect_at: Option<Instant>,
    pause: Duration,
}

impl Source {
    fn connect(&mut self, scope: &Scope, follow: bool) {
        self.connect_at = None;
        self.connected = Instant::now();
        match scope.includes(&self.owner.directory) {
            Some(true) => self.stream = EventStream::open(&self.owner, follow).ok(),
            Some(false) => return,
            None => {}
        }
        if self.stream.is_none() && follow {
            self.try_later();
        }
    }

    /// Handles the end of the connection. Events that were not acknowledged are pending again.
    fn disconnect(&mut self) {
        self.stream = None;
        self.held.clear();
        if self.connected.elapsed() >= LASTING {
            self.pause = FIRST_PAUSE;
        }
        self.try_later();
    }

    fn try_later(&mut self) {
        self.connect_at = Some(Instant::now() + self.pause);
        self.pause = (self.pause * 2).min(LAST_PAUSE);
    }

    /// Until when to wait for more pending events; `None` if all have arrived. An owner that answers
    /// gets the whole limit.
    fn awaited_until(&self, begun: Instant, limit: Duration) -> Option<Instant> {
        let limit = match &self.stream {
            Some(stream) if stream.is_complete => None,
            Some(stream) if !stream.answers => Some(FROZEN_AFTER),
            Some(_) => Some(limit),
            None => self.connect_at.map(|_| limit),
        };
        limit.map(|limit| begun + limit)
    }
}

struct Sources<'a> {
    state: &'a Path,
    scope: Scope,
    /// Reads the files of ended shims.
    supervisor: Arc<Supervisor>,
    living: Vec<Source>,
    /// Whether events are held for [`Sources::release`] instead of acknowledged at once.
    holds: bool,
    /// The directories and ids of ended tasks whose reports are held.
    claimed: Vec<(PathBuf, String)>,
    /// The ids of ended runs whose reports are held.
    claimed_runs: Vec<String>,
    /// The runners of runs that are live, as far as they are visible.
    runners: Vec<Option<Handle>>,
    /// The directories of ended processes, which are scanned once.
    ended: HashSet<PathBuf>,
}

impl<'a> Sources<'a> {
    fn new(state: &'a Path, supervisor: Arc<Supervisor>, of_client: bool) -> Sources<'a> {
        let scope = if of_client {
            Scope::Client {
                ancestors: client::ancestors(),
                project: supervisor.settings.directory.clone(),
            }
        } else {
            Scope::All
        };
        Sources {
            state,
            scope,
            supervisor,
            living: Vec::new(),
            holds: false,
            claimed: Vec::new(),
            claimed_runs: Vec::new(),
            runners: Vec::new(),
            ended: HashSet::new(),
        }
    }

    /// The lines of the pending events, which stay pending until [`Sources::release`].
    fn hold(&mut self) -> Vec<String> {
        self.holds = true;
        let mut lines = Vec::new();
        let mut collect = |event: &Event| {
            lines.push(event.line());
            Ok(())
        };
        // Owners that do not answer are skipped.
        let _ = self.pending(HOOK_LIMIT, &mut collect);
        lines.extend(self.living.iter().flat_map(|source| &source.held).map(TaskEvent::line));
        lines
    }

    /// Acknowledges the held events if they were printed; otherwise returns the claimed reports.
    fn release(&mut self, printed: bool) {
        if !printed {
            for (directory, task) in &self.claimed {
                tombstone::return_report(directory, task);
            }
            for id in &self.claimed_runs {
                unreported::mark(self.state, id);
            }
            return;
        }
        for stream in self.living.iter_mut().filter_map(|source| source.stream.as_mut()) {
            // The owner may be gone.
            let _ = stream.acknowledge();
        }
    }

    /// Reports the pending events. Returns the owners that did not send theirs within the limit.
    fn pending(&mut self, limit: Duration, report: Report) -> Result<Vec<Owner>, OutputError> {
        let begun = Instant::now();
        self.scan(report)?;
        self.report_runs(report)?;
        loop {
            if self.connect_due(false) {
                self.scan(report)?;
                continue;
            }
            let now = Instant::now();
            let awaited = |source: &Source| source.awaited_until(begun, limit);
            let until = self.living.iter().filter_map(awaited).filter(|until| *until > now).max();
            let Some(until) = until else {
                let late = self.living.iter().filter(|source| awaited(source).is_some());
                return Ok(late.map(|source| source.owner.clone()).collect());
            };
            let next = self.next_attempt().unwrap_or(until).min(until);
            let mut poller = Poller::default();
            self.watch(&mut poller);
            poller.wait(Some(next.saturating_duration_since(now)));
            let ready = self.ready(&poller);
            self.receive(&ready, report)?;
        }
    }

    /// Reports pending and later events, until the reader of stdout is gone.
    fn follow(&mut self, report: Report) -> Result<(), OutputError> {
        let servers = journal::servers_folder(self.state);
        let created = files::private_dir(self.state).and_then(|()| files::private_subdir(&servers));
        let unreported = created.and_then(|()| unreported::folder(self.state));
        let unreported =
            unreported.map_err(|error| OutputError::Unreadable(std::io::Error::other(error)))?;
        let watch = DirectoryWatch::new(&servers)
            .and_then(|watch| watch.add(&unreported).map(|()| watch))
            .ok();
        let stdout = std::io::stdout();
        let mut is_changed = true;
        loop {
            if is_changed {
                if let Some(watch) = &watch {
                    watch.drain();
                }
                self.scan(report)?;
                self.report_runs(report)?;
            }
            is_changed = self.connect_due(true);
            if is_changed {
                continue;
            }
            let mut poller = Poller::default();
            self.watch(&mut poller);
            let folder = watch.as_ref().map(|watch| poller.watch(watch.as_fd(), Interest::Read));
            let reader = poller.watch(stdout.as_fd(), Interest::Hangup);
            let next = self.next_attempt();
            let next = next.map(|next| next.saturating_duration_since(Instant::now()));
            let ends = self.runners.iter().map(|runner| runner.as_ref().and_then(Handle::ended));
            let ends: Vec<_> =
                ends.map(|end| end.map(|end| poller.watch(end, Interest::Read))).collect();
            let is_blind = watch.is_none() || ends.contains(&None);
            let blind = is_blind.then_some(BLIND_RECHECK);
            poller.wait(next.into_iter().chain(blind).min());
            if poller.ready(Some(reader)) {
                return Err(OutputError::Closed);
            }
            is_changed = is_blind || [folder].into_iter().chain(ends).any(|it| poller.ready(it));
            let ready = self.ready(&poller);
            self.receive(&ready, report)?;
        }
    }

    /// When to connect to an owner next.
    fn next_attempt(&self) -> Option<Instant> {
        self.living.iter().filter_map(|source| source.connect_at).min()
    }

    /// Finds new owners, and reports the ends of detached tasks whose shims are gone.
    fn scan(&mut self, report: Report) -> Result<(), OutputError> {
        self.drop_ended();
        for directory in journal::servers(self.state) {
            let is_known = |source: &Source| source.owner.directory == directory;
            if self.ended.contains(&directory) || self.living.iter().any(is_known) {
                continue;
            }
            if journal::server_lives(&directory) {
                self.living.push(Source {
                    owner: Owner { directory },
                    stream: None,
                    held: Vec::new(),
                    connected: Instant::now(),
                    connect_at: Some(Instant::now()),
                    pause: FIRST_PAUSE,
                });
                continue;
            }
            if is_shim(&directory) {
                self.report_ended(&directory, report)?;
            }
            self.ended.insert(directory);
        }
        Ok(())
    }

    /// Reports the ends of runs, and notes who runs the others.
    fn report_runs(&mut self, report: Report) -> Result<(), OutputError> {
        let Found { ends, runners } = runs::claim_ended(self.state, &self.scope);
        self.runners = runners;
        for end in ends {
            let id = end.oneshot_id.clone();
            if let Err(error) = report(&Event::Run(end)) {
                unreported::mark(self.state, &id);
                return Err(error);
            }
            if self.holds {
                self.claimed_runs.push(id);
            }
        }
        Ok(())
    }

    fn report_ended(&mut self, directory: &Path, report: Report) -> Result<(), OutputError> {
        for entry in journal::read_server(directory) {
            let reported = entry.shown.is_some_and(|shown| shown.end_reported());
            let in_scope = match &self.scope {
                Scope::All => true,
                Scope::Client { project, .. } => is_of_project(&entry, project),
            };
            if reported || !in_scope || !tombstone::claim_report(directory, entry.id()) {
                continue;
            }
            let event = match self.supervisor.recall(entry.id()) {
                Some(RecalledTask::Task(task)) => {
                    let redactor = &self.supervisor.settings.redactor;
                    TaskEvent::from_task(EventKind::Ended, &task, redactor, |_| None)
                }
                Some(RecalledTask::Ended(entry)) => TaskEvent::of_ended(&entry),
                None => continue,
            };
            if let Err(error) = report(&Event::Task(event)) {
                tombstone::return_report(directory, entry.id());
                return Err(error);
            }
            if self.holds {
                self.claimed.push((directory.to_owned(), entry.facts.id.clone()));
            }
        }
        Ok(())
    }

    /// Connects to the owners that are due. Returns whether one of them has ended.
    fn connect_due(&mut self, follow: bool) -> bool {
        let now = Instant::now();
        for source in &mut self.living {
            if source.connect_at.is_some_and(|at| at <= now) {
                source.connect(&self.scope, follow);
            }
        }
        let has_ended = |source: &Source| {
            source.stream.is_none() && !journal::server_lives(&source.owner.directory)
        };
        self.living.iter().any(has_ended)
    }

    fn watch<'p>(&'p self, poller: &mut Poller<'p>) {
        for stream in self.living.iter().filter_map(|source| source.stream.as_ref()) {
            poller.watch(stream.as_fd(), Interest::Read);
        }
    }

    /// The indices of the owners whose streams are ready. [`Sources::watch`] has added the streams
    /// to the poller first.
    fn ready(&self, poller: &Poller) -> Vec<usize> {
        let connected =
            self.living.iter().enumerate().filter(|(_, source)| source.stream.is_some());
        let numbered = connected.enumerate();
        numbered
            .filter(|(number, _)| poller.ready(Some(*number)))
            .map(|(_, (index, _))| index)
            .collect()
    }

    /// Reads from the streams with these indices.
    fn receive(&mut self, ready: &[usize], report: Report) -> Result<(), OutputError> {
        for index in ready {
            let Some(source) = self.living.get_mut(*index) else {
                continue;
            };
            let Some(stream) = &mut source.stream else {
                continue;
            };
            match stream.receive() {
                Received::Events(events) => {
                    let has_events = !events.is_empty();
                    for event in events {
                        match serde_json::from_value::<TaskEvent>(event) {
                            Ok(event) if self.holds => source.held.push(event),
                            Ok(event) => report(&Event::Task(event))?,
                            Err(error) => output::complain(format_args!(
                                "process {} sent an event that this version does not know: {error}",
                                source.owner
                            )),
                        }
                    }
                    if has_events && !self.holds {
                        // Fails if the owner is gone, which then has taken the event back.
                        let _ = stream.acknowledge();
                    }
                }
                Received::End => source.disconnect(),
            }
        }
        Ok(())
    }

    fn drop_ended(&mut self) {
        // A connected owner reports its end itself.
        self.living.retain(|source| {
            source.stream.is_some() || journal::server_lives(&source.owner.directory)
        });
    }
}

fn is_shim(directory: &Path) -> bool {
    let name = directory.file_name().and_then(|name| name.to_str());
    name.is_some_and(|name| name.starts_with(SHIM_PREFIX))
}

fn is_of_project(entry: &Snapshot, project: &Path) -> bool {
    entry
        .facts
        .detached
        .as_ref()
        .is_some_and(|detached| detached.project == project.to_string_lossy())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_limit_and_a_lasting_connection_resets_them() {
        let now = Instant::now();
        let mut source = Source {
            owner: Owner { directory: PathBuf::new() },
            stream: None,
            held: Vec::new(),
            connected: now,
            connect_at: None,
            pause: FIRST_PAUSE,
        };
        for _ in 0..20 {
            source.disconnect();
            assert!(source.connect_at.take().is_some());
        }
        assert_eq!(source.pause, LAST_PAUSE);
        source.connected = now.checked_sub(LASTING).expect("the machine is up for longer");
        source.disconnect();
        assert_eq!(source.pause, FIRST_PAUSE * 2);
    }

    #[test]
    fn only_a_first_stop_is_blocked() {
        assert!(may_block(&json!({"hook_event_name": "Stop", "stop_hook_active": false})));
        assert!(may_block(&json!({})));
        for input in [
            json!({"stop_hook_active": true}),
            json!({"stop_hook_active": "yes"}),
            json!([]),
            json!("text"),
            Value::Null,
        ] {
            assert!(!may_block(&input), "{input}");
        }
    }
}
