//! `zsh-tool oneshot PROMPT`: runs agents until the work is done, and takes runs up again.
//!
//! Exit codes: those of the run's stage (`oneshot::stage`); 2 for what is asked
//! wrongly, an unknown run among it; 1 when a run cannot go on.

use std::io::{self, Read};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use crossbeam_channel::{Receiver, bounded};

use super::end::{End, prompt_command, resume_command};
use super::planning::{looks, options, overlay, plan};
use super::screen::Screen;
use super::{EXIT_USAGE, flags, mistyped, signals};
use crate::agent::checks::Checks;
use crate::agent::executor::Executors;
use crate::base::clock::{Clock, SystemClock};
use crate::cli::OneshotRunArguments;
use crate::commands::monitor::{self, Monitor, MonitorError};
use crate::commands::{output, setup};
use crate::config::{Config, JudgeChoice, RunSettings};
use crate::oneshot::context::{MAX_PROMPT_BYTES, NewRun};
use crate::oneshot::controls::{Controller, Controls, controls};
use crate::oneshot::engine::{Connections, Engine, Plan};
use crate::oneshot::equipment::Equipment;
use crate::oneshot::event::Event;
use crate::oneshot::run::OpenRun;
use crate::oneshot::sessions::{self, FindError};
use crate::oneshot::stage::Stage;
use crate::process::descriptors;
use crate::record::recorder::Recorder;
use crate::task::supervisor::Supervisor;

/// Runs the command.
pub(super) fn run(arguments: &OneshotRunArguments) -> ExitCode {
    if let Err(error) = descriptors::seal_inherited() {
        output::complain(format_args!("cannot open /dev/null: {error}"));
        return ExitCode::FAILURE;
    }
    let (config, mut warnings) = setup::load_config();
    let (settings, more) = setup::load_run_settings(&config, &flags::of(arguments));
    warnings.extend(more);
    setup::start_log(&config);
    for warning in &warnings {
        output::say(format_args!("warning: {warning}"));
    }
    match Wanted::of(arguments, &config) {
        Ok(wanted) => conduct(arguments, &config, &settings, wanted),
        Err(code) => code,
    }
}

/// Which run is wanted.
enum Wanted {
    /// A new one, of this prompt.
    New(String),
    /// The one of this directory again.
    Again(PathBuf),
}

impl Wanted {
    fn of(arguments: &OneshotRunArguments, config: &Config) -> Result<Wanted, ExitCode> {
        let usage = |text: &dyn std::fmt::Display| {
            output::complain(text);
            ExitCode::from(EXIT_USAGE)
        };
        if let Some(id) = &arguments.resume {
            let state = state_directory(config)?;
            return match sessions::find(state, id) {
                Ok(found) => Ok(Wanted::Again(found.directory)),
                Err(error @ FindError::Load(_)) => {
                    output::complain(error);
                    Err(ExitCode::FAILURE)
                }
                Err(error) => Err(usage(&error)),
            };
        }
        let prompt = match arguments.prompt.as_slice() {
            [only] if only == "-" => {
                let mut bytes = Vec::new();
                let read = io::stdin()
                    .take(MAX_PROMPT_BYTES + 1)
                    .read_to_end(&mut bytes);
                read.map_err(|error| {
                    usage(&format_args!("cannot read the prompt from stdin: {error}"))
                })?;
                String::from_utf8_lossy(&bytes).into_owned()
            }
            words => {
                if let Some(name) = mistyped::meant(words).filter(|_| !is_surely_a_prompt()) {
                    let text = words.join(" ");
                    return Err(usage(&format_args!(
                        "{text:?} is no subcommand: did you mean `{name}`? As a prompt: {}",
                        prompt_command(&text)
                    )));
                }
                words.join(" ")
            }
        };
        if prompt.trim().is_empty() {
            return Err(usage(&"the prompt is empty: say what is to be done"));
        }
        if prompt.len() as u64 > MAX_PROMPT_BYTES {
            return Err(usage(&format_args!(
                "the prompt is larger than {} MiB: write it to a file and name that",
                MAX_PROMPT_BYTES >> 20
            )));
        }
        Ok(Wanted::New(prompt))
    }
}

/// Whether the command line says that what it ends with is the prompt.
fn is_surely_a_prompt() -> bool {
    std::env::args_os().any(|word| word == mistyped::END_OF_OPTIONS)
}

fn state_directory(config: &Config) -> Result<&Path, ExitCode> {
    config.state_dir.as_deref().map_err(|error| {
        output::complain(error);
        ExitCode::FAILURE
    })
}

/// A run that is ours, and how it begins.
struct Taken {
    run: OpenRun,
    /// The prompt as it was given.
    task: Option<String>,
    first: Option<Event>,
}

fn conduct(
    arguments: &OneshotRunArguments,
    config: &Config,
    settings: &RunSettings,
    wanted: Wanted,
) -> ExitCode {
    let executors = match setup::executors(config) {
        Ok(executors) => executors,
        Err(error) => {
            output::complain(error);
            return ExitCode::FAILURE;
        }
    };
    let names = [settings.executor.as_str(), settings.auditor()];
    if matches!(wanted, Wanted::New(_))
        && let Some(error) = names.iter().find_map(|name| executors.find(name).err())
    {
        output::complain(error);
        return ExitCode::from(EXIT_USAGE);
    }
    let judge = settings.judge.as_deref().map(JudgeChoice::of_word);
    let judge = match judge.transpose() {
        Ok(judge) => judge.unwrap_or_else(|| config.judge.clone()),
        Err(expected) => {
            output::complain(format_args!("--judge: {expected}"));
            return ExitCode::from(EXIT_USAGE);
        }
    };
    if let JudgeChoice::Command(name) = &judge
        && let Err(error) = executors.find(name)
    {
        output::complain(format_args!("--judge: {error}"));
        return ExitCode::from(EXIT_USAGE);
    }
    setup::adopt_orphans();
    // From here on there is something to pause, and a command to tell that resumes it.
    let asked = match Asked::listen(config) {
        Ok(asked) => asked,
        Err(error) => {
            output::complain(format_args!("cannot take signals: {error}"));
            return ExitCode::FAILURE;
        }
    };
    let taken = match take(arguments, config, settings, wanted) {
        Ok(taken) => taken,
        Err(code) => return code,
    };
    conclude(arguments, config, settings, taken, asked, executors, &judge)
}

/// What is asked of the run by signals.
struct Asked {
    controller: Controller,
    controls: Controls,
    /// Tells that a process has ended.
    woken: Receiver<()>,
}

impl Asked {
    fn listen(config: &Config) -> io::Result<Asked> {
        let (controller, controls) = controls();
        let (wake, woken) = bounded(1);
        signals::take(controller.clone(), wake, config.daemons.clone())?;
        Ok(Asked {
            controller,
            controls,
            woken,
        })
    }
}

/// Creates the run, or takes it up again.
fn take(
    arguments: &OneshotRunArguments,
    config: &Config,
    settings: &RunSettings,
    wanted: Wanted,
) -> Result<Taken, ExitCode> {
    let redactor = setup::redactor(config);
    let failed = |error: &dyn std::fmt::Display| {
        output::complain(error);
        ExitCode::FAILURE
    };
    match wanted {
        Wanted::New(prompt) => {
            let directory = std::env::current_dir().map_err(|error| {
                failed(&format_args!(
                    "the working directory cannot be used: {error}"
                ))
            })?;
            let new = NewRun {
                prompt: prompt.clone(),
                directory,
                executor: settings.executor.clone(),
                auditor: settings.auditor().to_owned(),
                model: settings.model.clone(),
                auditor_model: settings.auditor_model.clone(),
                max_iterations: settings.max_iterations,
                options: options(settings),
            };
            let state = state_directory(config)?;
            let run = OpenRun::create(state, new, redactor, SystemClock.now())
                .map_err(|error| failed(&error))?;
            Ok(Taken {
                run,
                task: Some(prompt),
                first: None,
            })
        }
        Wanted::Again(directory) => {
            let mut run = OpenRun::open(&directory, redactor).map_err(|error| failed(&error))?;
            let first = run
                .resume(arguments.max_iterations)
                .map_err(|error| failed(&error))?;
            let survivors = sessions::end_survivors(&run);
            if !survivors.is_empty() {
                tracing::info!("{} processes of the last runner ended", survivors.len());
            }
            let changed = overlay(arguments, run.file().options.clone());
            run.update(|details| {
                *details.options = changed;
                if let Some(executor) = &arguments.executor {
                    details.executor.clone_from(executor);
                }
                if let Some(auditor) = &arguments.auditor {
                    details.auditor.clone_from(auditor);
                }
                if arguments.model.is_some() {
                    details.model.clone_from(&arguments.model);
                }
                if arguments.auditor_model.is_some() {
                    details.auditor_model.clone_from(&arguments.auditor_model);
                }
            })
            .map_err(|error| failed(&error))?;
            Ok(Taken {
                run,
                task: None,
                first,
            })
        }
    }
}

fn conclude(
    arguments: &OneshotRunArguments,
    config: &Config,
    settings: &RunSettings,
    taken: Taken,
    asked: Asked,
    executors: Executors,
    judge: &JudgeChoice,
) -> ExitCode {
    let Taken { run, task, first } = taken;
    let Asked {
        controller,
        controls,
        woken,
    } = asked;
    let plan = plan(&run.file().options, config, settings);
    let supervisor = setup::supervisor_of_agents(config, looks(&plan));
    let recorder = setup::recorder(config, &supervisor.settings().redactor);
    let judge = setup::judge(judge, config, &supervisor);
    let checks = Arc::new(Checks::new(judge, config.enable_concurrent_checks));
    setup::start_housekeeping(&supervisor, woken);
    let monitor = match arguments.http.or(config.http) {
        Some(address) => match start_monitor(address, config, &supervisor, &recorder) {
            Ok(monitor) => Some(monitor),
            Err(error) => {
                output::complain(error);
                // Where only the settings ask for it, another server may have that port.
                if arguments.http.is_some() {
                    output::say(resume_command(run.id()));
                    return ExitCode::FAILURE;
                }
                None
            }
        },
        None => None,
    };
    let equipment = Equipment {
        supervisor: Arc::clone(&supervisor),
        recorder: Arc::clone(&recorder),
        executors,
        checks: Arc::clone(&checks),
        clock: Arc::new(SystemClock),
        home: std::env::var_os("HOME").map_or_else(PathBuf::new, PathBuf::from),
        environment: setup::environment(config),
    };
    let mut screen = Screen::new(run.id(), controller.clone());
    let end = drive(
        &equipment,
        plan,
        run,
        task,
        first,
        Connections {
            controls: &controls,
            controller: &controller,
            face: &mut screen,
        },
    );
    screen.close();
    drop(monitor);
    checks.close();
    recorder.close();
    supervisor.remove_directory();
    match end {
        Ok(end) => end.tell(arguments.json),
        Err(failure) => {
            output::complain(failure.error);
            output::say(resume_command(&failure.id));
            ExitCode::FAILURE
        }
    }
}

/// Serves the dashboard while the run goes on.
fn start_monitor(
    address: SocketAddr,
    config: &Config,
    supervisor: &Arc<Supervisor>,
    recorder: &Arc<Recorder>,
) -> Result<Monitor, MonitorError> {
    let redactor = &supervisor.settings().redactor;
    let routes = monitor::routes(config, Some(Arc::clone(supervisor)), recorder, redactor);
    let directory = supervisor.directory().ok();
    let directory = directory.map(|directory| directory.path());
    let monitor = monitor::start(address, routes, directory)?;
    let place = monitor.announcement();
    output::say(format_args!("zsh-tool: dashboard at {place}"));
    Ok(monitor)
}

struct Failure {
    id: String,
    error: String,
}

fn drive<'a>(
    equipment: &'a Equipment,
    plan: Plan,
    run: OpenRun,
    task: Option<String>,
    first: Option<Event>,
    connections: Connections<'a>,
) -> Result<End, Failure> {
    // A new run ends in its own files by what is missing; one that is taken up again stays
    // as it is, since all that it needs is another command.
    if task.is_none()
        && let Err(error) = equipment.check_agents(run.file())
    {
        let id = run.id().to_owned();
        return Err(Failure { id, error });
    }
    let mut engine = Engine::new(equipment, plan, run, task, connections);
    let gone = engine.go(first);
    // The run is this process's until its agents have ended: whoever takes it up then
    // finds none.
    equipment.supervisor.shut_down();
    let id = engine.run().id().to_owned();
    if let Err(error) = gone {
        let error = error.to_string();
        return Err(Failure { id, error });
    }
    let position = engine.run().position().clone();
    // Of a run that is only paused nobody asks, and to look for it takes time.
    let is_paused = matches!(position.stage, Stage::Interrupted { .. });
    let result = (!is_paused).then(|| engine.result()).flatten();
    Ok(End {
        id,
        result,
        stage: position.stage,
        iteration: position.iteration,
        maximum: position.maximum.get(),
        directory: engine.run().directory().to_path_buf(),
        feedback: engine.run().file().feedback.clone(),
    })
}
