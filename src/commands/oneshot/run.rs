//! `zsh-tool oneshot PROMPT`: runs agents until the work is done, and resumes runs.
//!
//! Exit codes: those of the run's stage (`oneshot::state`); 2 for usage errors, including an
//! unknown run; 1 when a run cannot continue.

use std::fmt::Display;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use signal_hook::consts::SIGUSR1;
use uuid::Uuid;

use super::end::{End, prompt_command, resume_command};
use super::planning::{flags, options, overlay, plan, probe_settings};
use super::screen::Screen;
use super::{find, mistyped, project};
use crate::agent::checks::Checks;
use crate::agent::executor::Executors;
use crate::base::clock::{Clock, SystemClock};
use crate::cli::OneshotRunArguments;
use crate::commands::output::{self, failed, misused};
use crate::commands::signals::{self, StopRequest};
use crate::commands::{monitor, shared};
use crate::config::{Config, JudgeChoice, NO_AUDITOR, RunSettings, Warning, is_command_line};
use crate::history::recorder::Recorder;
use crate::mcp::control::ControlSocket;
use crate::mcp::dispatch::{Shims, Tools};
use crate::oneshot::controls::{Control, Controls};
use crate::oneshot::engine::Engine;
use crate::oneshot::repository::{Repository, WORK_TREES, WorkTree};
use crate::oneshot::run::OpenRun;
use crate::oneshot::run_files::{MAX_PROMPT_BYTES, RunFile};
use crate::oneshot::runtime::{Runtime, check_agents};
use crate::oneshot::sessions::{self, FindError, RunView};
use crate::oneshot::state::{self, RunEvent};
use crate::oneshot::unreported;
use crate::peer::hosts::Hosts;
use crate::process::tree::COOKIE_VARIABLE;
use crate::process::{descriptors, files, memory};
use crate::task::supervisor::Supervisor;
use crate::text::foreign::ShowPath;

/// Runs the command.
pub(super) fn run(
    config: &Config,
    mut warnings: Vec<Warning>,
    arguments: &OneshotRunArguments,
) -> Result<ExitCode, ExitCode> {
    descriptors::seal_inherited();
    shared::start_log(config);
    let target = match &arguments.resume {
        Some(id) => RunTarget::Resumed(find(config, id)?.directory),
        None => {
            let prompt = prompt(&arguments.prompt)?;
            match arguments.id.map(|id| earlier(config, id, &prompt)).transpose()?.flatten() {
                Some(run) => match over(&run, arguments) {
                    Some(end) => return Ok(end.report(arguments.json)),
                    None => RunTarget::Resumed(run.directory),
                },
                None => RunTarget::New(prompt),
            }
        }
    };
    // A run that is resumed has its settings in its file.
    let project = matches!(target, RunTarget::New(_)).then(shared::project);
    let (settings, of_settings) =
        shared::load_run_settings(config, project.as_deref(), &flags(arguments));
    warnings.extend(of_settings);
    for warning in &warnings {
        output::say_on_stderr(format_args!("warning: {warning}"));
    }
    project::agree(config, &settings, arguments.trust_project)?;
    let executors = shared::executors(config).map_err(failed)?;
    if matches!(target, RunTarget::New(_)) {
        let names = [Some(settings.executor.as_str()), settings.auditor()];
        if let Some(error) = names.iter().flatten().find_map(|name| executors.find(name).err()) {
            return Err(misused(error));
        }
        check_review(&settings.check, settings.auditor(), config).map_err(misused)?;
        check_command_lines("--then", settings.then.as_slice(), config).map_err(misused)?;
    }
    judge(settings.judge.as_deref(), config, &executors).map_err(misused)?;
    shared::adopt_orphans();
    // From here on, a signal pauses the run, and the command to resume it is printed.
    let controls = handle_signals(config)
        .map_err(|error| failed(format_args!("cannot handle signals: {error}")))?;
    let begun = begin(arguments, config, &settings, target, &executors)?;
    // Within a task, the task's own end says it.
    if std::env::var_os(COOKIE_VARIABLE).is_none() {
        unreported::mark(shared::state_directory(config)?, begun.0.id());
    }
    let judge = judge(begun.0.file().options.judge.as_deref(), config, &executors);
    let judge = judge.map_err(|error| {
        output::say_on_stderr(resume_command(begun.0.id()));
        misused(error)
    })?;
    let invocation = Invocation { arguments, config, settings: &settings };
    invocation.execute(begun, &controls, executors, &judge)
}

/// The judge of this name, or that of the settings; the error says what is wrong with the name.
fn judge(
    name: Option<&str>,
    config: &Config,
    executors: &Executors,
) -> Result<JudgeChoice, String> {
    let chosen = name.map(JudgeChoice::parse).transpose();
    let chosen = chosen.map_err(|expected| format!("--judge: {expected}"))?;
    let judge = chosen.unwrap_or_else(|| config.judge.clone());
    if let JudgeChoice::Executor(name) = &judge {
        executors.find(name).map_err(|error| format!("--judge: {error}"))?;
    }
    Ok(judge)
}

/// Whether these checks and this auditor can judge results; the error says what is missing.
fn check_review(checks: &[String], auditor: Option<&str>, config: &Config) -> Result<(), String> {
    if auditor.is_none() && checks.is_empty() {
        return Err("without an auditor, nothing says whether the work is done: give a --check \
                    such as 'make test', or an --auditor"
            .to_owned());
    }
    check_command_lines("--check", checks, config)
}

/// Whether these command lines can be kept in a run's file and run; the error says what is wrong.
fn check_command_lines(flag: &str, lines: &[String], config: &Config) -> Result<(), String> {
    let redactor = shared::redactor(config);
    if lines.iter().any(|line| !is_command_line(line)) {
        return Err(format!("{flag}: expected a command line, such as 'make test'"));
    }
    // The run's file must not contain it, and a resumed run needs it.
    if lines.iter().any(|line| redactor.redact(line) != line.as_str()) {
        return Err(format!(
            "{flag}: the command line contains a secret, which the run's file must not: read it \
             from a variable or a file"
        ));
    }
    Ok(())
}

/// The run to start or resume.
enum RunTarget {
    /// A new run with this prompt.
    New(String),
    /// The existing run in this directory.
    Resumed(PathBuf),
}

/// The run that was started under this id before, if there is one.
fn earlier(config: &Config, id: Uuid, prompt: &str) -> Result<Option<RunView>, ExitCode> {
    let id = id.to_string();
    let run = match sessions::find(shared::state_directory(config)?, &id) {
        Ok(run) => run,
        Err(FindError::Unknown(_)) => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    if shared::redactor(config).redact(prompt) != run.file.prompt {
        return Err(misused(format_args!(
            "the run {id} has another prompt: give a new run another id, or resume it with {}",
            resume_command(&id)
        )));
    }
    Ok(Some(run))
}

/// The end of a run that these arguments cannot continue; `None` if they can.
fn over(run: &RunView, arguments: &OneshotRunArguments) -> Option<End> {
    let position = run.file.position().ok().filter(|_| !run.live)?;
    let is_over = state::resume(&position, arguments.max_iterations).is_err();
    is_over.then(|| End::of_ended(run, &position))
}

fn prompt(words: &[String]) -> Result<String, ExitCode> {
    let prompt = if words == ["-"] {
        let mut bytes = Vec::new();
        io::stdin()
            .take(MAX_PROMPT_BYTES + 1)
            .read_to_end(&mut bytes)
            .map_err(|error| misused(format_args!("cannot read the prompt from stdin: {error}")))?;
        String::from_utf8_lossy(&bytes).into_owned()
    } else {
        let text = words.join(" ");
        let objection = mistyped::objection(words).filter(|_| !is_surely_a_prompt());
        if let Some(objection) = objection.filter(|_| !text.trim().is_empty()) {
            return Err(misused(format_args!(
                "{text:?} {objection} As a prompt: {}",
                prompt_command(words)
            )));
        }
        text
    };
    // NULs are removed from prompts for agents.
    let is_blank = |letter: char| letter.is_whitespace() || letter.is_control();
    if prompt.chars().all(is_blank) {
        return Err(misused("the prompt is empty: say what the agent should do"));
    }
    if prompt.len() as u64 > MAX_PROMPT_BYTES {
        return Err(misused(format_args!(
            "the prompt is larger than {} MiB: write it to a file and name the file",
            MAX_PROMPT_BYTES >> 20
        )));
    }
    Ok(prompt)
}

/// Whether the command line marks the prompt with `--`.
fn is_surely_a_prompt() -> bool {
    std::env::args_os().any(|word| word == mistyped::END_OF_OPTIONS)
}

/// Handles signals from now on: the first that asks for the end pauses the run, the second ends
/// everything at once, and SIGUSR1 (`zsh-tool oneshot stop`) ends the run for good. Returns the
/// requests to the run.
fn handle_signals(config: &Config) -> io::Result<Controls> {
    let controls = Controls::new();
    let (controller, daemons) = (controls.controller.clone(), config.daemons.clone());
    signals::handle(None, &[SIGUSR1], move |request| match request {
        StopRequest::Other(_) => controller.send(Control::Stop(RunEvent::Cancel)),
        StopRequest::End(number) => controller.send(Control::Stop(RunEvent::Interrupt(number))),
        StopRequest::EndAtOnce(number) => signals::exit_at_once(&daemons, number),
    })?;
    Ok(controls)
}

/// A run that this process owns, its unredacted prompt if it is new, and its first event, if any.
type Begun = (OpenRun, Option<String>, Option<RunEvent>);

/// Creates the run, or resumes it.
fn begin(
    arguments: &OneshotRunArguments,
    config: &Config,
    settings: &RunSettings,
    target: RunTarget,
    executors: &Executors,
) -> Result<Begun, ExitCode> {
    let redactor = shared::redactor(config);
    match target {
        RunTarget::New(prompt) => {
            let directory = std::env::current_dir().map_err(|error| {
                failed(format_args!("the working directory cannot be used: {error}"))
            })?;
            let now = SystemClock.now();
            let created = RunFile::created(settings.max_iterations, now);
            let id = arguments.id.map_or(created.oneshot_id, |id| id.to_string());
            let state = shared::state_directory(config)?;
            if !settings.worktree {
                warn_of_others(state, &directory);
            }
            let (directory, work_tree) = if settings.worktree {
                let (directory, tree) = make_work_tree(config, state, &id, &directory)?;
                (directory, Some(tree))
            } else {
                (directory, None)
            };
            let file = RunFile {
                oneshot_id: id,
                prompt: prompt.clone(),
                directory,
                work_tree,
                then: settings.then.clone(),
                executor: settings.executor.clone(),
                auditor: settings.auditor().unwrap_or(NO_AUDITOR).to_owned(),
                checks: settings.check.clone(),
                model: settings.model.clone(),
                auditor_model: settings.auditor_model.clone(),
                options: options(settings),
                ..created
            };
            if let Some(keep) = settings.keep() {
                sessions::prune(state, keep, now);
            }
            let run = OpenRun::create(state, file, redactor, now).map_err(failed)?;
            Ok((run, Some(prompt), None))
        }
        RunTarget::Resumed(directory) => {
            let mut run = OpenRun::open(&directory, redactor).map_err(failed)?;
            let first = run.resume(arguments.max_iterations).map_err(failed)?;
            run.check_log().map_err(failed)?;
            // Checked before the run is changed, so that it can still be resumed with another
            // agent.
            let worker = arguments.executor.as_ref().unwrap_or(&run.file().executor);
            let auditor = arguments.auditor.as_ref().unwrap_or(&run.file().auditor);
            let checks = match arguments.check.as_slice() {
                [] => run.file().checks.clone(),
                checks => checks.to_vec(),
            };
            let audits = (auditor != NO_AUDITOR).then_some(auditor.as_str());
            check_review(&checks, audits, config).map_err(misused)?;
            check_command_lines("--then", arguments.then.as_slice(), config).map_err(misused)?;
            let environment = shared::environment(config);
            check_agents(executors, &environment, &run.file().directory, worker, audits).map_err(
                |error| {
                    output::complain(error);
                    output::say_on_stderr(resume_command(run.id()));
                    ExitCode::FAILURE
                },
            )?;
            let survivors = sessions::end_survivors(&run);
            if !survivors.is_empty() {
                tracing::info!("{} processes of the last runner ended", survivors.len());
            }
            let changed = overlay(arguments, run.file().options.clone());
            run.update(|file| {
                file.options = changed;
                if let Some(executor) = &arguments.executor {
                    file.executor.clone_from(executor);
                }
                if let Some(auditor) = &arguments.auditor {
                    file.auditor.clone_from(auditor);
                }
                file.checks = checks;
                if arguments.then.is_some() {
                    file.then.clone_from(&arguments.then);
                }
                if arguments.model.is_some() {
                    file.model.clone_from(&arguments.model);
                }
                if arguments.auditor_model.is_some() {
                    file.auditor_model.clone_from(&arguments.auditor_model);
                }
            })
            .map_err(failed)?;
            Ok((run, None, first))
        }
    }
}

/// Warns of runs that work in the same directory at this moment.
fn warn_of_others(state: &Path, directory: &Path) {
    let runs = sessions::list(state).runs.into_iter();
    let overlaps = |other: &Path| other.starts_with(directory) || directory.starts_with(other);
    for run in runs.filter(|run| run.live && overlaps(&run.file.directory)) {
        output::say_on_stderr(format_args!(
            "warning: the run {} works in this directory too; --worktree gives each its own",
            run.id()
        ));
    }
}

/// Makes a work tree for a run in a directory; returns the directory in it.
fn make_work_tree(
    config: &Config,
    state: &Path,
    id: &str,
    directory: &Path,
) -> Result<(PathBuf, WorkTree), ExitCode> {
    let refused = |error: &dyn Display| misused(format_args!("--worktree: {error}"));
    let trees = state.join(WORK_TREES);
    files::private_dir(state).map_err(failed)?;
    files::private_subdir(&trees).map_err(failed)?;
    let environment = shared::environment(config);
    let repository = Repository::find(directory, &trees, &environment);
    let Some(repository) = repository.map_err(|error| refused(&error))? else {
        return Err(refused(&format_args!("{} is in no git repository", directory.shown())));
    };
    if repository.has_changes().map_err(|error| refused(&error))? {
        output::say_on_stderr("warning: changes that are not committed are not in the work tree");
    }
    let branch = format!("oneshot-{}", id.get(..8).unwrap_or(id));
    let tree = repository.add_work_tree(&trees.join(id), &branch);
    let tree = tree.map_err(|error| refused(&error))?;
    let prefix = &repository.prefix;
    let directory =
        if prefix.as_os_str().is_empty() { tree.path.clone() } else { tree.path.join(prefix) };
    // A directory without committed files is not in the new work tree.
    std::fs::create_dir_all(&directory).map_err(|error| refused(&error))?;
    Ok((directory, tree))
}

/// What a run is started with.
struct Invocation<'a> {
    arguments: &'a OneshotRunArguments,
    config: &'a Config,
    settings: &'a RunSettings,
}

impl Invocation<'_> {
    /// Runs to the end of the run, or until a signal pauses it.
    fn execute(
        &self,
        (run, task, first): Begun,
        controls: &Controls,
        executors: Executors,
        judge: &JudgeChoice,
    ) -> Result<ExitCode, ExitCode> {
        let plan = plan(&run.file().options, self.config, self.settings);
        let supervisor = shared::supervisor_of_agents(self.config, probe_settings(&plan));
        let recorder = shared::recorder(self.config, &supervisor.settings.redactor);
        let judge = shared::judge(judge, self.config, &supervisor);
        let checks = Arc::new(Checks::new(judge, self.config.enable_concurrent_checks));
        shared::start_housekeeping(&supervisor, memory::trim_heap);
        self.serve_tasks(&supervisor, &recorder);
        let monitor = self.monitor(run.id(), &supervisor, &recorder)?;
        let runtime = Runtime {
            supervisor: Arc::clone(&supervisor),
            recorder: Arc::clone(&recorder),
            executors: Arc::new(executors),
            checks: Arc::clone(&checks),
            clock: Arc::new(SystemClock),
            home: std::env::var_os("HOME").map_or_else(PathBuf::new, PathBuf::from),
            environment: shared::environment(self.config),
        };
        let mut screen = Screen::new(run.id(), controls.controller.clone());
        let id = run.id().to_owned();
        let mut engine = Engine::new(&runtime, plan, run, task, controls, &mut screen);
        let driven = engine.go(first);
        // This process owns the run until its agents have ended, so that a process that resumes the run
        // finds none.
        supervisor.shut_down();
        let end = driven.map(|()| End::from_engine(&engine));
        drop(engine);
        screen.close();
        drop(monitor);
        checks.close();
        recorder.close();
        supervisor.remove_server_dir();
        match end {
            Ok(end) => Ok(end.report(self.arguments.json)),
            Err(error) => {
                output::complain(error);
                output::say_on_stderr(resume_command(&id));
                Err(ExitCode::FAILURE)
            }
        }
    }

    /// Lets the user's other processes read and end the tasks of the run's agents.
    fn serve_tasks(&self, supervisor: &Arc<Supervisor>, recorder: &Arc<Recorder>) {
        let directory = supervisor.directory_made();
        let tools = Tools::new(
            Arc::clone(supervisor),
            Arc::clone(recorder),
            self.config.clone(),
            Vec::new(),
            None,
            Shims::Unavailable,
            Arc::new(Hosts::for_server(self.config.hosts.clone(), supervisor)),
        );
        let message_limit = shared::message_limit(self.config);
        if let Err(error) = ControlSocket::start(Arc::new(tools), message_limit, directory) {
            tracing::warn!("no control socket: {error}");
        }
    }

    /// The page, where one is asked for or configured.
    fn monitor(
        &self,
        run: &str,
        supervisor: &Arc<Supervisor>,
        recorder: &Arc<Recorder>,
    ) -> Result<Option<monitor::Monitor>, ExitCode> {
        let Some(address) = self.arguments.http.or(self.config.http) else { return Ok(None) };
        match monitor::start_beside(supervisor, address, self.config, recorder, None) {
            Ok(started) => {
                let address = started.announcement();
                output::say_on_stderr(format_args!("zsh-tool: dashboard at {address}"));
                Ok(Some(started))
            }
            Err(error) => {
                output::complain(error);
                // A port from the settings may be in use by another server, which is no error.
                if self.arguments.http.is_some() {
                    output::say_on_stderr(resume_command(run));
                    return Err(ExitCode::FAILURE);
                }
                Ok(None)
            }
        }
    }
}
