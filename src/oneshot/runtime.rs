//! The parts of this process that agent runs share, and starting agents with them.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::state::Role;
use crate::agent::checks::Checks;
use crate::agent::executor::{Executor, Executors, Launch, exec_line};
use crate::base::clock::Clock;
use crate::history::recorder::Recorder;
use crate::process::files::{self, NoProgram};
use crate::shell::command_line::CommandLine;
use crate::task::registry::TaskHandle;
use crate::task::request::{Request, Stderr, Stdin};
use crate::task::supervisor::Supervisor;
use crate::text::foreign::ShowPath;

/// The parts that agent runs share.
pub(crate) struct Runtime {
    /// Starts and ends agents.
    pub(crate) supervisor: Arc<Supervisor>,
    /// Records agents in the command history.
    pub(crate) recorder: Arc<Recorder>,
    /// The agent programs.
    pub(crate) executors: Arc<Executors>,
    /// Status checks of agents.
    pub(crate) checks: Arc<Checks>,
    pub(crate) clock: Arc<dyn Clock>,
    /// The user's home directory.
    pub(crate) home: PathBuf,
    /// The environment that agents inherit.
    pub(crate) environment: Vec<(OsString, OsString)>,
}

impl Runtime {
    /// Starts an agent.
    ///
    /// # Errors
    /// If it cannot be started, with the reason as text.
    pub(crate) fn start_agent(
        &self,
        executor: &Executor,
        role: Role,
        directory: &Path,
        launch: Launch,
    ) -> Result<Arc<TaskHandle>, String> {
        check_agent(executor, role, &self.environment, directory)?;
        let recorder = &self.recorder;
        let run_record = recorder.begin_agent(executor.name(), role.name());
        let request = Request {
            part_of: launch.run().map(str::to_owned),
            description: Some(format!("agent {} ({})", executor.name(), role.name())),
            directory: Some(directory.to_path_buf()),
            environment: launch.environment,
            stdin: launch.stdin.map_or(Stdin::Null, Stdin::Text),
            stderr: Stderr::Separate,
            ..Request::of_own(CommandLine::parse(exec_line(&launch.argv)))
        };
        let started = self
            .supervisor
            .start(request, Some(run_record.on_end()))
            .map_err(|error| format!("cannot start {}: {error}", executor.program()))?;
        recorder.follow(&started.live, &run_record);
        Ok(started)
    }
}

/// Checks that the agents of a run can be started in a directory, given their executors' names: a
/// worker's result is useless without its auditor.
///
/// # Errors
/// If one of them cannot be started, with the reason as text.
pub(crate) fn check_agents(
    executors: &Executors,
    environment: &[(OsString, OsString)],
    directory: &Path,
    worker: &str,
    auditor: Option<&str>,
) -> Result<(), String> {
    let auditor = auditor.map(|name| (Role::Auditor, name));
    for (role, name) in [(Role::Worker, worker)].into_iter().chain(auditor) {
        let executor = executors.find(name).map_err(|error| error.to_string())?;
        check_agent(executor, role, environment, directory)?;
    }
    Ok(())
}

/// Checks that an agent's program and working directory exist.
fn check_agent(
    executor: &Executor,
    role: Role,
    environment: &[(OsString, OsString)],
    directory: &Path,
) -> Result<(), String> {
    if !files::is_enterable(directory) {
        return Err(format!(
            "the run's working directory {} cannot be entered: restore it first",
            directory.shown()
        ));
    }
    let path = environment.iter().find(|(name, _)| name == "PATH");
    let path = path.map(|(_, value)| value.as_os_str()).unwrap_or_default();
    let program = executor.program();
    let found = if program.contains('/') {
        files::find_program(&directory.join(program).to_string_lossy(), path)
    } else {
        files::find_program(program, path)
    };
    let flag = match role {
        Role::Worker => "--executor",
        Role::Auditor => "--auditor",
    };
    found.map(|_| ()).map_err(|error| {
        let remedy = match &error {
            NoProgram::Missing => executor.install_hint(),
            NoProgram::NotExecutable(_) => "make it executable with chmod".to_owned(),
            NoProgram::Directory(_) => "name the program in it".to_owned(),
        };
        let role = role.name();
        format!("the {role}'s program {program} {error}: {remedy}; or choose another with {flag}")
    })
}
