//! What agent runs are run with: the parts of this process that they have in common, and
//! how an agent is started with them.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::context::RunFile;
use super::stage::Role;
use crate::agent::checks::Checks;
use crate::agent::executor::{self, Executor, Executors, Launch};
use crate::base::clock::Clock;
use crate::process::files::{self, NoProgram};
use crate::record::recorder::Recorder;
use crate::task::registry::TaskHandle;
use crate::task::request::{Request, Stderr, Stdin};
use crate::task::supervisor::Supervisor;

/// What runs are run with.
pub struct Equipment {
    /// Starts and ends agents.
    pub supervisor: Arc<Supervisor>,
    /// Remembers them.
    pub recorder: Arc<Recorder>,
    /// The agent programs.
    pub executors: Executors,
    /// Judges whether they get on.
    pub checks: Arc<Checks>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// The user's home directory.
    pub home: PathBuf,
    /// What agents inherit.
    pub environment: Vec<(OsString, OsString)>,
}

impl Equipment {
    /// Whether both agents of a run can be started: what a worker does is in vain where
    /// nobody can judge it.
    ///
    /// # Errors
    /// Why one cannot be, for a person.
    pub fn check_agents(&self, run: &RunFile) -> Result<(), String> {
        for (role, name) in [(Role::Worker, &run.executor), (Role::Auditor, &run.auditor)] {
            let executor = self.executors.find(name);
            let executor = executor.map_err(|error| error.to_string())?;
            self.check_program(executor, role, &run.directory)?;
        }
        Ok(())
    }

    /// Whether an agent's program is there.
    fn check_program(
        &self,
        executor: &Executor,
        role: Role,
        directory: &Path,
    ) -> Result<(), String> {
        let variable = |(name, _): &&(OsString, OsString)| name == "PATH";
        let path = self.environment.iter().find(variable);
        let path = path.map(|(_, value)| value.as_os_str()).unwrap_or_default();
        let program = executor.program();
        let found = match program.contains('/') {
            true => files::locate_program(&directory.join(program).to_string_lossy(), path),
            false => files::locate_program(program, path),
        };
        let flag = match role {
            Role::Worker => "--executor",
            Role::Auditor => "--auditor",
        };
        found.map(|_| ()).map_err(|error| {
            let way_out = match &error {
                NoProgram::Missing => executor.install_hint(),
                NoProgram::NotExecutable(_) => "make it so with chmod".to_owned(),
            };
            let role = role.name();
            format!(
                "the {role}'s program {program} {error}: {way_out}; or choose another with {flag}"
            )
        })
    }

    /// Starts an agent.
    ///
    /// # Errors
    /// Why it cannot be, for a person.
    pub fn start_agent(
        &self,
        executor: &Executor,
        role: Role,
        directory: &Path,
        launch: Launch,
    ) -> Result<Arc<TaskHandle>, String> {
        self.check_program(executor, role, directory)?;
        let recorder = &self.recorder;
        let account = recorder.begin_agent(executor.name(), role.name());
        let request = Request {
            part_of: launch.run().map(str::to_owned),
            command: command_text(&launch.argv),
            description: Some(format!("agent {} ({})", executor.name(), role.name())),
            directory: Some(directory.to_path_buf()),
            environment: launch.environment,
            stdin: launch.stdin.map_or(Stdin::Null, Stdin::Text),
            stderr: Stderr::Apart,
            terminal: None,
            emulated: false,
            timeout: None,
            timeout_most: None,
        };
        let started = self
            .supervisor
            .start(request, Some(account.on_end()))
            .map_err(|error| format!("cannot start {}: {error}", executor.program()))?;
        recorder.follow(&started.live, &account);
        Ok(started)
    }
}

/// The agent in the shell's place: its wait status is the task's.
fn command_text(argv: &[String]) -> String {
    let words = argv.iter().map(|word| {
        let word = word.replace('\0', "");
        format!("'{}'", word.replace('\'', r"'\''"))
    });
    let words: Vec<String> = words.collect();
    format!("exec {}", words.join(" "))
}

/// A role, as agent programs are told of it.
pub(super) fn agents_role(role: Role) -> executor::Role {
    match role {
        Role::Worker => executor::Role::Worker,
        Role::Auditor => executor::Role::Auditor,
    }
}
