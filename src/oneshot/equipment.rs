//! What agent runs are run with: the parts of this process that they have in common, and
//! how an agent is started with them.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::stage::Role;
use crate::agent::checks::Checks;
use crate::agent::executor::{self, Executor, Executors, Launch};
use crate::base::clock::Clock;
use crate::process::files;
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
        let variable = |(name, _): &&(OsString, OsString)| name == "PATH";
        let path = self.environment.iter().find(variable);
        let path = path.map(|(_, value)| value.as_os_str()).unwrap_or_default();
        let program = launch.argv.first().map_or("", String::as_str);
        let found = match program.contains('/') {
            true => files::find_program(&directory.join(program).to_string_lossy(), path),
            false => files::find_program(program, path),
        };
        if found.is_none() {
            return Err(format!(
                "{program} is not there: {}",
                executor.install_hint()
            ));
        }
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
            .map_err(|error| format!("cannot start {program}: {error}"))?;
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
