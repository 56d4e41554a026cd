//! Decides what is started for a request: the shell and its arguments, the environment, the directory
//! and the input. Remembers what commands leave to the next ones.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use super::by_policy::ByPolicy;
use super::environment::{self, Environments, StartEnvironment, search_path};
use super::input::InputChunk;
use super::invocation::{self, LaunchContext, Prepared, StartupFileCache};
use super::journal::ServerDir;
use super::live::{Facts, Input};
use super::request::{Request, StartError, Stderr, Stdin};
use super::sandboxes::{self, Place};
use super::sessions::{Sessions, ShellEnd};
use super::settings::Settings;
use super::shell::{self, NoShell, Report, Shell, SideBand};
use super::unprotected::Unprotected;
use super::worker::OnShellEnd;
use crate::base::clock::Clock;
use crate::process::control_group::ControlGroup;
use crate::process::files;
use crate::process::probe::Identity;
use crate::process::pty::TerminalSize;
use crate::process::sandbox::Sandbox;
use crate::process::spawn::{Launch, StderrTarget, Wiring};
use crate::sandbox::policy::Policy;
use crate::shell::mode::ShellName;
use crate::text::foreign::ShowPath;

/// What is started for a request: the shell, what is known of the task before, and what its worker
/// gets.
pub(super) struct Plan {
    pub(super) launch: Launch,
    /// Without the shell's identity.
    pub(super) facts: Facts,
    pub(super) cookie: String,
    pub(super) first_input: InputChunk,
    /// Removed when the task is over.
    pub(super) files: Vec<files::Temporary>,
    /// Its own temporary directory, removed with them.
    pub(super) temporary: Option<files::TemporaryDirectory>,
    pub(super) sideband: Option<SideBand>,
    pub(super) on_shell_end: Option<OnShellEnd>,
    /// The size of the terminal that is emulated.
    pub(super) emulated: Option<TerminalSize>,
    pub(super) columns: Option<u16>,
}

/// What a command is planned with.
pub(super) struct PlanContext<'a> {
    pub(super) settings: &'a Settings,
    /// This server's directory, or why there is none.
    pub(super) directory: Result<&'a ServerDir, &'a str>,
    /// By which the task's processes are recognised.
    pub(super) cookie: String,
    pub(super) clock: &'a dyn Clock,
    pub(super) unprotected: &'a Unprotected,
}

#[derive(Default)]
pub(super) struct Planner {
    /// Where the last command of each sandbox ended.
    kept_directories: Mutex<ByPolicy<PathBuf>>,
    sessions: Arc<Mutex<Sessions>>,
    /// The configured shell, once it was found.
    shell: Mutex<Option<Shell>>,
    environments: Environments,
    startup_files: StartupFileCache,
}

impl Planner {
    /// Decides what is started for a request, and makes the files that it needs.
    ///
    /// # Errors
    /// As [`invocation::prepare`].
    pub(super) fn plan(
        &self,
        with: PlanContext,
        id: &str,
        request: Request,
        shell: &Shell,
    ) -> Result<Plan, StartError> {
        let PlanContext { settings, cookie, unprotected, .. } = with;
        let made = sandboxes::note_made_before(&unprotected.tell(id));
        unprotected.watch(&request.sandbox.protect);
        let place = Place::create(&request.sandbox, with.directory, id)?;
        let named = request.session.as_ref();
        let mut session = named.map(|name| self.sessions.lock().get(name, &request.sandbox));
        let mut gone = None;
        let directory = match (&request.directory, &mut session) {
            (Some(named), _) => Some(settings.directory.join(named)),
            (None, Some(session)) => {
                // One that is gone for another reason is refused by its name: the caller relies on it.
                let goes_with_task = |it: &PathBuf| goes_with_task(it, with.directory);
                if session.directory.as_ref().is_some_and(goes_with_task) {
                    gone = Arc::make_mut(session).directory.take();
                }
                session.directory.clone()
            }
            (None, None) => None,
        };
        let directory = directory.unwrap_or_else(|| {
            let kept = self.kept_directory(with.directory, &request.sandbox);
            kept.unwrap_or_else(|lost| {
                gone = gone.take().or(lost);
                settings.directory.clone()
            })
        });
        let moved = gone.map(|gone| note_gone(&gone, &directory));
        let configured = match request.shell {
            Some(_) => self.configured_shell(settings).ok(),
            None => Some(shell.clone()),
        };
        let is_same = configured.as_ref().is_some_and(|it| it.path == shell.path);
        let is_configured = configured.as_ref().is_some_and(|it| it.kind == shell.kind);
        let startup_file = settings.startup_file.iter().filter(|_| is_configured);
        let StartEnvironment { mut variables, files, problems } =
            request.start.unwrap_or_else(|| {
                // The same for every shell that a caller chooses.
                let shell = configured.as_ref().unwrap_or(shell);
                let environments = &self.environments;
                environments.environment_for(
                    &settings.environment,
                    shell,
                    &directory,
                    &request.sandbox,
                )
            });
        if let Some(session) = &session {
            session.apply(Arc::make_mut(&mut variables));
        }
        let mut environment = environment::environment(
            &variables,
            &request.environment,
            &cookie,
            request.terminal.is_some(),
        );
        place.add_to(&mut environment);
        let Prepared { arguments, variables: added, files, sideband } = invocation::prepare(
            &request.command,
            &LaunchContext {
                id,
                shell,
                mode: settings.shell_mode,
                takes_bash: settings.takes_bash,
                startup_files: &self.startup_files.due(startup_file.chain(&files)),
                startup_cache: &self.startup_files,
                environment: &environment,
                search_path: search_path(&settings.environment.inherited),
                directory: place.directory(with.directory),
                reports_exports: session.is_some(),
            },
        )?;
        let in_session = session.is_some();
        let on_shell_end = request.session.zip(session).map(|(name, session)| {
            let (sessions, started_with) = (Arc::clone(&self.sessions), environment.clone());
            let policy = request.sandbox.clone();
            let on_end = move |report: &Report| {
                let Some(variables) = &report.variables else { return };
                let end = ShellEnd { directory: report.directory.as_deref(), variables };
                let next = session.after(&started_with, &end);
                sessions.lock().put(&name, &policy, Arc::new(next));
            };
            Box::new(on_end) as OnShellEnd
        });
        let errors = match request.stderr {
            Stderr::Merged => StderrTarget::WithOutput,
            Stderr::Separate => StderrTarget::Separate,
        };
        let (wiring, input) = match (request.terminal, &request.stdin) {
            (Some(size), _) => (Wiring::Terminal(size), Input::Terminal),
            (None, Stdin::Null) => (Wiring::Pipe(errors), Input::None),
            (None, Stdin::Text(_)) => (Wiring::PipeWithInput(errors), Input::None),
            (None, Stdin::Open) => (Wiring::PipeWithInput(errors), Input::Pipe),
        };
        let first_input = match request.stdin {
            Stdin::Text(text) => {
                InputChunk { bytes: text.into_bytes(), end: request.terminal.is_none() }
            }
            Stdin::Null | Stdin::Open => InputChunk::default(),
        };
        let needed = sideband.iter().map(SideBand::name).chain(files.iter().map(|file| &*file.0));
        let sandbox = match &request.sandbox {
            policy if policy.is_off() => None,
            policy => Sandbox::prepare(policy, &place.needs(&directory, needed, &environment))?,
        };
        let confined = sandboxes::confined(request.sandbox, sandbox.as_ref());
        let group = request.memory_max.and_then(|most| ControlGroup::create(id, most));
        Ok(Plan {
            launch: Launch {
                program: shell.path.clone(),
                args: arguments,
                environment: environment.into_iter().chain(added).collect(),
                directory: directory.clone(),
                wiring,
                group,
                sandbox: sandbox.map(Arc::new),
            },
            facts: Facts {
                id: id.to_owned(),
                command: request.command.into_text(),
                description: request.description,
                part_of: request.part_of,
                detached: request.detached.map(Box::new),
                in_session,
                directory,
                chosen_shell: request.shell.filter(|_| !is_same),
                // The environment may have taken seconds to load.
                started: with.clock.now(),
                timeout: request.timeout,
                at_timeout: request.at_timeout,
                memory_max: request.memory_max,
                sandbox: confined,
                input,
                shell: Identity::default(),
                start_notes: [shell.note.clone(), moved, made]
                    .into_iter()
                    .flatten()
                    .chain(problems)
                    .collect(),
            },
            cookie,
            first_input,
            files,
            temporary: place.into_temporary(),
            sideband,
            on_shell_end,
            emulated: request.terminal.filter(|_| request.emulated),
            columns: request.terminal.map(|size| size.cols),
        })
    }

    /// The shell with this name, or the configured one.
    ///
    /// # Errors
    /// No such shell was found.
    pub(super) fn find_shell(
        &self,
        settings: &Settings,
        name: Option<ShellName>,
    ) -> Result<Shell, NoShell> {
        let configured = self.configured_shell(settings);
        let Some(name) = name else { return configured };
        match configured {
            Ok(shell) if shell.note.is_none() && shell.is(name) => Ok(shell),
            _ => shell::find_named(name, search_path(&settings.environment.inherited)),
        }
    }

    fn configured_shell(&self, settings: &Settings) -> Result<Shell, NoShell> {
        let known = self.shell.lock().clone();
        if let Some(shell) = known.filter(|shell| files::is_program(&shell.path)) {
            return Ok(shell);
        }
        let search_path = search_path(&settings.environment.inherited);
        let found = shell::find(&settings.shell, search_path)?;
        // A fallback is not cached: the configured shell may be installed later.
        *self.shell.lock() = Some(found.clone()).filter(|shell| shell.note.is_none());
        Ok(found)
    }

    /// The environment and files for a command with this policy, which a shim will start, and the
    /// directory if it is not the default one.
    ///
    /// # Errors
    /// No shell was found.
    pub(super) fn start_elsewhere(
        &self,
        settings: &Settings,
        own: Result<&ServerDir, &str>,
        requested: Option<&Path>,
        policy: &Policy,
    ) -> Result<(Option<PathBuf>, StartEnvironment), NoShell> {
        let shell = self.configured_shell(settings)?;
        let base = &settings.directory;
        let found = match requested {
            Some(directory) => Ok(base.join(directory)),
            None => self.kept_directory(own, policy),
        };
        let directory = found.as_ref().unwrap_or(base);
        let environments = &self.environments;
        let mut start =
            environments.environment_for(&settings.environment, &shell, directory, policy);
        if let Err(Some(gone)) = &found {
            start.problems.push(note_gone(gone, base));
        }
        Ok((found.ok(), start))
    }

    /// Where commands with this policy start.
    ///
    /// # Errors
    /// In the default directory; with the one that is given up, if there was another.
    fn kept_directory(
        &self,
        own: Result<&ServerDir, &str>,
        policy: &Policy,
    ) -> Result<PathBuf, Option<PathBuf>> {
        let kept = self.kept_directories.lock().get(policy).ok_or(None)?;
        if is_usable(&kept, own) {
            return Ok(kept);
        }
        self.kept_directories.lock().remove(policy);
        Err(Some(kept))
    }

    /// Makes later commands with this policy start in this directory; returns whether they do.
    pub(super) fn keep_directory(
        &self,
        own: Result<&ServerDir, &str>,
        policy: &Policy,
        directory: &Path,
    ) -> bool {
        let is_usable = is_usable(directory, own);
        if is_usable {
            self.kept_directories.lock().put(policy, directory.to_path_buf());
        }
        is_usable
    }
}

/// Whether this is in the temporary directory of a sandboxed task.
fn goes_with_task(directory: &Path, own: Result<&ServerDir, &str>) -> bool {
    own.is_ok_and(|own| directory.starts_with(sandboxes::shared_directory(own)))
}

/// Whether a later command can start in this directory: it is there, and does not go with its task.
fn is_usable(directory: &Path, own: Result<&ServerDir, &str>) -> bool {
    // If this process may not look at it, the command starts there and says why that fails.
    let is_gone = || match directory.metadata() {
        Ok(found) => !found.is_dir(),
        Err(error) => matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory),
    };
    !goes_with_task(directory, own) && !is_gone()
}

fn note_gone(gone: &Path, start: &Path) -> String {
    format!(
        "{}, where an earlier command ended, is gone: this one starts in {}",
        gone.shown(),
        start.shown()
    )
}
