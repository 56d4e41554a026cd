//! Detached tasks: a shim carries out the call that starts one, and every later server of the user
//! answers calls about the task.

use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::call::Call;
use super::dispatch::{Answered, CallContext, NoResult, Shims, ToolResult, Tools};
use super::outputs::{DetachedRow, TaskFacts};
use super::render::result::{command_line, listening_on, millis};
use super::tools::{RunArguments, Tool};
use crate::peer::PeerError;
use crate::peer::client::{Peer, PeerCall};
use crate::peer::relayed::{RelayedClient, RelayedStart};
use crate::task::describe::{self, outcome_word};
use crate::task::journal;
use crate::task::port_watch::ListedTask;
use crate::task::snapshot::Snapshot;
use crate::task::tombstone;
use crate::text::foreign;
use crate::text::quantity::seconds;

/// How long a shim may take to start its task and to answer.
const LAUNCH_LIMIT: Duration = Duration::from_secs(15);
/// How much of a command a notice shows.
const COMMAND_CHARS: usize = 60;

/// A detached task, running or ended, as its file describes it.
struct DetachedTask {
    snapshot: Snapshot,
    /// Its shim is alive.
    lives: bool,
}

impl Tools {
    /// Starts a shim that carries out a call with `detach: true`. `None` if the call was cancelled.
    pub(super) fn detach(
        &self,
        tool: &Tool,
        mut run: Box<RunArguments>,
        call: &mut CallContext,
    ) -> Option<Answered> {
        let refused = |text: String| Some(Answered::from_result(ToolResult::error(text)));
        if !self.config.allow_detach {
            return refused(
                "detach is turned off: leave it out, or set allow_detach: true in the config"
                    .to_owned(),
            );
        }
        if let Err(cause) = self.supervisor.directory() {
            return refused(format!("a detached task needs a state directory: {cause}"));
        }
        let Shims::Launcher(launcher) = &self.shims else {
            return refused(
                "detach needs the server's guard, which could not be started: leave detach out"
                    .to_owned(),
            );
        };
        let policy = match self.sandbox(run.sandbox.as_deref(), &call.given) {
            Ok(policy) => policy,
            Err(NoResult::Refused(text)) => return refused(text),
            Err(_) => return None,
        };
        let start =
            match self.supervisor.start_elsewhere(run.cwd.as_deref().map(Path::new), &policy) {
                Ok((directory, start)) => {
                    let directory = directory.map(|it| it.to_string_lossy().into_owned());
                    run.cwd = run.cwd.or(directory);
                    Some(RelayedStart::from(start))
                }
                Err(error) => return refused(error.to_string()),
            };
        let sandbox = Some(policy);
        let yields_after = run.yield_after.and_then(|wait| Duration::try_from_secs_f64(wait).ok());
        let yields_after = yields_after.unwrap_or_default().min(call.client.ceiling);
        let request = PeerCall {
            tool: tool.wire_name,
            arguments: &Call::Run(run).arguments(),
            client: RelayedClient { start, sandbox, ..call.relayed_client() },
            limit: LAUNCH_LIMIT + yields_after,
            cancel: call.cancel,
        };
        // The shim reads the history of the command from the database.
        self.recorder.store().wait_until_written();
        let answered = UnixStream::pair()
            .and_then(|(ours, theirs)| launcher.launch(theirs.into()).map(|()| ours))
            .map_err(|error| format!("the guard cannot be asked for a shim: {error}; no command was started"))
            .and_then(|stream| {
                let mut peer = Peer::launched(stream);
                match peer.call(&request, None) {
                    Ok(result) => Ok(Some((peer, result))),
                    Err(PeerError::Cancelled) => Ok(None),
                    Err(PeerError::Refused(text)) => Err(text),
                    Err(PeerError::Silent { .. } | PeerError::Unreadable { .. }) => Err(
                        "the shim for the detached task has not answered: the command may be running; \
                         see zsh_tasks before you start it again"
                            .to_owned(),
                    ),
                    Err(PeerError::Gone(_)) => {
                        Err("the shim for the detached task could not be started, or was killed: \
                         no command runs; try again, or see `zsh-tool doctor`"
                            .to_owned())
                    }
                }
            });
        match answered {
            Ok(Some((peer, result))) => self.pass_on(peer, result, call),
            Ok(None) => {
                // The command may be running: let the next answer report it.
                if call.cancel.timed_out_after().is_some() {
                    self.detached_reported.store(false, Ordering::Relaxed);
                }
                None
            }
            Err(text) => refused(text),
        }
    }

    /// The running detached tasks of this user, or all, newest first.
    fn detached_tasks(&self, all: bool) -> Vec<DetachedTask> {
        let Ok(state) = &self.supervisor.settings.state else {
            return Vec::new();
        };
        let mut found: Vec<DetachedTask> =
            // A far side of a host lists its own tasks as such.
            journal::shims(state)
                .iter()
                .filter(|directory| !directory.ends_with(&self.supervisor.instance))
                .flat_map(|directory| tasks_in(directory))
                .filter(|task| all || (task.lives && !task.snapshot.is_over()))
                .collect();
        found.sort_by(|a, b| b.snapshot.started().total_cmp(&a.snapshot.started()));
        found
    }

    /// The running detached tasks, or all, each with its line for `zsh_tasks`.
    pub(super) fn detached_rows(&self, all: bool) -> Vec<(String, DetachedRow)> {
        let now = self.supervisor.now();
        let tasks = self.detached_tasks(all);
        let ports =
            self.supervisor.ports_of(&tasks.iter().map(DetachedTask::members).collect::<Vec<_>>());
        let rows = tasks.iter().zip(ports).map(|(task, ports)| {
            let row = task.row(now, ports);
            let status = describe::status_phrase(&task.snapshot, task.snapshot.status(now));
            (row.line(&status), row)
        });
        rows.collect()
    }

    /// The notice ahead of a server's first answer: the detached tasks of its project that run, and
    /// those whose end no server has reported. `about` is the task of that answer, which is left
    /// out.
    pub(super) fn detached_notice(&self, about: Option<&str>) -> Option<String> {
        let state = self.supervisor.settings.state.as_ref().ok()?;
        let project = self.supervisor.settings.directory.to_string_lossy();
        let now = self.supervisor.now();
        let ours = |task: &DetachedTask| {
            let detached = task.snapshot.facts.detached.as_ref();
            let is_of_project = detached.is_some_and(|detached| detached.project == project);
            is_of_project && about != Some(task.snapshot.id())
        };
        let mut parts = Vec::new();
        for directory in journal::shims(state) {
            for task in tasks_in(&directory).into_iter().filter(ours) {
                let ended = !task.snapshot.running();
                let reported = task.snapshot.shown.is_some_and(|shown| shown.end_reported());
                if !ended || (!reported && tombstone::claim_report(&directory, task.snapshot.id()))
                {
                    parts.push(task.notice(now));
                }
            }
        }
        (!parts.is_empty()).then(|| format!("┌ detached: {}", parts.join("  |  ")))
    }
}

impl DetachedTask {
    fn command(&self, chars: usize) -> String {
        command_line(&self.snapshot.facts.command).chars().take(chars).collect()
    }

    fn notice(&self, now: f64) -> String {
        let snapshot = &self.snapshot;
        let since = |at: f64| seconds(Duration::try_from_secs_f64(now - at).unwrap_or_default());
        let state = match (snapshot.outcome(), snapshot.exit_code()) {
            (None, _) => format!("running for {}", since(snapshot.started())),
            (Some(outcome), code) => {
                let took = Duration::from_millis(snapshot.duration_ms().unwrap_or_default());
                let how = match code {
                    Some(code) => format!("exit={code}"),
                    None => outcome_word(outcome).to_owned(),
                };
                format!("ended {} ago ({how})", since(snapshot.started() + took.as_secs_f64()))
            }
        };
        format!("task '{}' {state}  {}", snapshot.id(), self.command(COMMAND_CHARS))
    }

    /// The task's processes; none if it is over.
    fn members(&self) -> ListedTask {
        let lives = self.lives && !self.snapshot.is_over();
        ListedTask {
            // Not known before the shell has started.
            shell: Some(self.snapshot.facts.shell.pid).filter(|pid| lives && *pid > 0),
            leftovers: if lives { self.snapshot.leftover_pids() } else { Vec::new() },
        }
    }

    fn row(&self, now: f64, listening: Vec<u16>) -> DetachedRow {
        let snapshot = &self.snapshot;
        let detached = snapshot.facts.detached.as_ref();
        let age = Duration::try_from_secs_f64(now - snapshot.started()).unwrap_or_default();
        let until = detached.and_then(|detached| detached.until);
        let rest = until.filter(|_| snapshot.running());
        let rest = rest.map(|until| Duration::try_from_secs_f64(until - now).unwrap_or_default());
        let progress = snapshot.status(now).filter(|_| snapshot.running());
        DetachedRow {
            facts: TaskFacts::from(snapshot),
            progress: progress.map(|status| status.to_string()),
            age_ms: millis(age),
            ends_in_ms: rest.map(millis),
            client: detached.map(|detached| detached.client.clone()).unwrap_or_default(),
            project: detached.map(|detached| detached.project.clone()).unwrap_or_default(),
            listening,
            command: self.command(COMMAND_CHARS),
            description: snapshot.facts.description.clone(),
        }
    }
}

impl DetachedRow {
    /// The row as a line; `status` is what it says of the status.
    fn line(&self, status: &str) -> String {
        let row = self;
        let mut facts = vec![
            format!("detached, age {}", seconds(Duration::from_millis(row.age_ms))),
            format!("project {}", foreign::shown(&row.project)),
        ];
        if !row.client.is_empty() {
            facts.push(format!("by {}", foreign::shown(&row.client)));
        }
        if let Some(rest) = row.ends_in_ms {
            facts.push(format!("ends in {}", seconds(Duration::from_millis(rest))));
        }
        if !row.listening.is_empty() {
            facts.push(listening_on(&row.listening));
        }
        format!("{}  {status:<20}  {}  {}", row.facts.task_id, facts.join(", "), row.command)
    }
}

/// The tasks in a shim's directory: at most one.
fn tasks_in(directory: &Path) -> Vec<DetachedTask> {
    let lives = journal::server_lives(directory);
    let snapshots = tombstone::listed(directory).into_iter();
    snapshots.map(|snapshot| DetachedTask { snapshot, lives }).collect()
}
