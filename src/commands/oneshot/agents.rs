//! `zsh-tool oneshot agents`: the agent programs, which of them are installed in which version, and
//! what they will be allowed to do.
//!
//! Limits: the programs of the configuration are not started, since they may take `--version` for a
//! prompt.

use std::ffi::OsStr;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::agent::executor::{Executor, Executors, Role, Verified, exec_line, version_in};
use crate::base::cancel::Cancel;
use crate::commands::{output, shared};
use crate::config::Config;
use crate::process::files;
use crate::shell::command_line::CommandLine;
use crate::task::live::{LiveState, WaitStep};
use crate::task::registry::TaskHandle;
use crate::task::request::{Request, Stderr};
use crate::task::state::KillRequest;
use crate::task::supervisor::Supervisor;
use crate::text::foreign::ShowPath;
use crate::text::lines::LinePosition;

use super::words;

/// How long a program may take to print its version: some start a runtime and unpack themselves.
const VERSION_TIME: Duration = Duration::from_secs(15);
/// How much of what it prints is read.
const MAX_OUTPUT: u64 = 64 << 10;

/// Lists the agent programs.
pub(super) fn list(config: &Config, json: bool) -> Result<ExitCode, ExitCode> {
    let executors = shared::executors(config).map_err(|error| {
        output::complain(error);
        ExitCode::FAILURE
    })?;
    let supervisor = shared::supervisor(config);
    let agents = look_up(&executors, config, &supervisor);
    supervisor.shut_down();
    supervisor.remove_server_dir();
    let text = if json {
        agents.iter().map(|agent| format!("{}\n", agent.to_json())).collect()
    } else {
        output::columns(&agents.iter().map(Agent::cells).collect::<Vec<_>>(), &[])
    };
    Ok(output::conclude(output::print(&text), 0))
}

/// An agent program on this machine.
struct Agent {
    name: String,
    state: AgentState,
}

enum AgentState {
    /// Its entry in the configuration is wrong, for this reason.
    Faulty(String),
    /// It is not installed; how to change that.
    Missing {
        remedy: String,
    },
    Installed {
        executor: Arc<Executor>,
        path: String,
        version: Option<String>,
    },
}

/// A program that may be printing its version.
struct Asked {
    executor: Arc<Executor>,
    path: String,
    task: Option<Arc<TaskHandle>>,
}

/// Looks up all programs. They print their versions side by side.
fn look_up(executors: &Executors, config: &Config, supervisor: &Arc<Supervisor>) -> Vec<Agent> {
    let environment = shared::environment(config);
    let path = environment.iter().find(|(name, _)| name == "PATH");
    let path = path.map(|(_, value)| value.as_os_str()).unwrap_or_default();
    let asked: Vec<(String, Result<Asked, AgentState>)> = executors
        .all_names()
        .map(|name| {
            let asked = executors
                .find(name)
                .map_err(|error| AgentState::Faulty(error.to_string()))
                .and_then(|executor| ask(executor, path, supervisor));
            (name.to_owned(), asked)
        })
        .collect();
    let limit = Instant::now() + VERSION_TIME * 2;
    let agents = asked.into_iter().map(|(name, asked)| {
        let state = asked.map(|asked| {
            let printed = asked.task.and_then(|task| printed_by(&task, supervisor, limit));
            AgentState::Installed {
                executor: asked.executor,
                path: asked.path,
                version: printed.and_then(|text| version_in(&text)),
            }
        });
        Agent { name, state: state.unwrap_or_else(|state| state) }
    });
    agents.collect()
}

/// Starts a program that prints its version, if it is installed.
fn ask(
    executor: &Arc<Executor>,
    search_path: &OsStr,
    supervisor: &Arc<Supervisor>,
) -> Result<Asked, AgentState> {
    let found = files::find_program(executor.program(), search_path);
    let path = found.map_err(|_| AgentState::Missing { remedy: executor.install_hint() })?;
    let words = [path.to_string_lossy().into_owned(), "--version".to_owned()];
    let path = path.shown().to_string();
    let request = Request {
        description: Some(format!("the version of {}", executor.name())),
        stderr: Stderr::Separate,
        timeout: Some(VERSION_TIME),
        ..Request::of_own(CommandLine::parse(exec_line(&words)))
    };
    let task = executor.prints_version().then(|| supervisor.start(request, None).ok()).flatten();
    Ok(Asked { executor: Arc::clone(executor), path, task })
}

/// What a program has printed; `None` if it did not end in time, or not well.
fn printed_by(task: &TaskHandle, supervisor: &Supervisor, limit: Instant) -> Option<String> {
    let ended = |state: &LiveState| match &state.ended {
        Some(end) => WaitStep::Found(end.exit.code()),
        None => WaitStep::WaitUntil(None),
    };
    let code = task.live.wait_for(Some(limit), &Cancel::default(), ended, Instant::now);
    if !task.live.state().closed {
        // A process that cannot be killed ends with the supervisor or not at all.
        let _ = supervisor.kill(task, KillRequest::Escalate);
    }
    let end = task.live.state().streams.output.end.offset;
    let pieces = task.spools.output.read(LinePosition::FIRST, end.min(MAX_OUTPUT)).ok()?;
    let bytes: Vec<u8> = pieces.into_iter().flat_map(|piece| piece.bytes).collect();
    (code == Some(0)).then(|| String::from_utf8_lossy(&bytes).into_owned())
}

impl Agent {
    /// Name, version, and what to do or what it may do.
    fn cells(&self) -> [String; 3] {
        let (state, more) = match &self.state {
            AgentState::Faulty(fault) => ("unusable".to_owned(), fault.clone()),
            AgentState::Missing { remedy } => ("not installed".to_owned(), remedy.clone()),
            AgentState::Installed { executor, version, .. } => {
                let allowed = |role| executor.permission(role);
                let allowed = |role| allowed(role).unwrap_or_else(|| "its own settings".to_owned());
                let (worker, auditor) = (allowed(Role::Worker), allowed(Role::Auditor));
                let version = version.as_deref();
                let verified = match executor.verified(version) {
                    Verified::Yes => ", verified".to_owned(),
                    Verified::Others(others) => format!(", verified with {others}"),
                    Verified::Never => ", not verified".to_owned(),
                    Verified::NotOurs => String::new(),
                };
                let state = version.unwrap_or("installed").to_owned() + &verified;
                (state, format!("worker: {worker}; auditor: {auditor}"))
            }
        };
        [self.name.clone(), words::clean(&state), words::clean(&more)]
    }

    fn to_json(&self) -> Value {
        match &self.state {
            AgentState::Faulty(fault) => json!({"name": self.name, "fault": fault}),
            AgentState::Missing { remedy } => {
                json!({"name": self.name, "installed": false, "remedy": remedy})
            }
            AgentState::Installed { executor, path, version } => json!({
                "name": self.name,
                "installed": true,
                "path": path,
                "version": version,
                "verified": executor.verified(version.as_deref()) == Verified::Yes,
                "verified_versions": executor.verified_versions(),
                "permission": {
                    "worker": executor.permission(Role::Worker),
                    "auditor": executor.permission(Role::Auditor),
                },
            }),
        }
    }
}
