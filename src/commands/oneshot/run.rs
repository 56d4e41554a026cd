//! `zsh-tool oneshot PROMPT`: runs agents until the work is done, and takes runs up again.
//!
//! Exit codes: those of the run's stage ([`Stage::exit_code`]); 2 for what is asked
//! wrongly, an unknown run among it; 1 when a run cannot go on.

use std::io::{self, IsTerminal, Read};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::bounded;
use serde_json::{Value, json};

use super::screen::Screen;
use super::{EXIT_USAGE, flags, signals};
use crate::agent::checks::Checks;
use crate::agent::executor::Executors;
use crate::base::clock::{Clock, SystemClock};
use crate::cli::OneshotRunArguments;
use crate::commands::monitor::{self, Monitor, MonitorError};
use crate::commands::{output, setup};
use crate::config::{Config, JudgeChoice, RunSettings, StuckChoice};
use crate::oneshot::context::{NewRun, RunOptions};
use crate::oneshot::controls::controls;
use crate::oneshot::engine::{Connections, Engine, Plan};
use crate::oneshot::equipment::Equipment;
use crate::oneshot::event::Event;
use crate::oneshot::policy::{Measure, OnStuck, Rules};
use crate::oneshot::run::OpenRun;
use crate::oneshot::sessions::{self, FindError};
use crate::oneshot::stage::Stage;
use crate::process::descriptors;
use crate::progress::tracker;
use crate::record::recorder::Recorder;
use crate::task::supervisor::Supervisor;

/// The switch of old: `0` asks for plain time limits.
const STATUS_SWITCH: &str = "AUTONOMOUS_STATUS_BASED_TIMEOUT";
/// Evidence is looked at at least so often, so that silence is measured well enough.
const LONGEST_LOOK: Duration = Duration::from_secs(1);
/// And so often at most: each look costs a scan of the machine.
const SHORTEST_LOOK: Duration = Duration::from_millis(100);
/// So many looks are taken within the silence that ends an agent.
const LOOKS_IN_SILENCE: u32 = 4;

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
                let read = io::stdin().read_to_end(&mut bytes);
                read.map_err(|error| {
                    usage(&format_args!("cannot read the prompt from stdin: {error}"))
                })?;
                String::from_utf8_lossy(&bytes).into_owned()
            }
            words => words.join(" "),
        };
        match prompt.trim().is_empty() {
            true => Err(usage(&"the prompt is empty: say what is to be done")),
            false => Ok(Wanted::New(prompt)),
        }
    }
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
            output::complain(format_args!("--judge: expected {expected}"));
            return ExitCode::from(EXIT_USAGE);
        }
    };
    setup::adopt_orphans();
    let taken = match take(arguments, config, settings, wanted) {
        Ok(taken) => taken,
        Err(code) => return code,
    };
    conclude(arguments, config, settings, taken, executors, &judge)
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

fn options(settings: &RunSettings) -> RunOptions {
    RunOptions {
        inactivity: settings.inactivity.as_secs_f64(),
        max_runtime: settings.max_runtime().map(|time| time.as_secs_f64()),
        on_stuck: Some(settings.on_stuck.name().to_owned()),
        judge: settings.judge.clone(),
        heartbeat: settings.heartbeat.map(|time| time.as_secs_f64()),
        stuck_threshold: settings.stuck_threshold.map(|count| count as u64),
    }
}

/// What a resume asks for over what the run was begun with.
fn overlay(arguments: &OneshotRunArguments, mut options: RunOptions) -> RunOptions {
    let flags = flags::of(arguments);
    if let Some(inactivity) = flags.inactivity {
        options.inactivity = inactivity.as_secs_f64();
    }
    if let Some(runtime) = flags.max_runtime {
        options.max_runtime = (!runtime.is_zero()).then_some(runtime.as_secs_f64());
    }
    if let Some(on_stuck) = flags.on_stuck {
        options.on_stuck = Some(on_stuck.name().to_owned());
    }
    if let Some(judge) = flags.judge {
        options.judge = judge;
    }
    if let Some(heartbeat) = flags.heartbeat {
        options.heartbeat = heartbeat.map(|time| time.as_secs_f64());
    }
    if let Some(threshold) = flags.stuck_threshold {
        options.stuck_threshold = threshold.map(|count| count as u64);
    }
    options
}

fn plan(options: &RunOptions, config: &Config, settings: &RunSettings) -> Plan {
    let time = |seconds: f64| Duration::try_from_secs_f64(seconds).ok();
    let inactivity = time(options.inactivity).filter(|time| !time.is_zero());
    let runtime = options.max_runtime.and_then(time);
    let threshold = options
        .stuck_threshold
        .unwrap_or(config.stuck_threshold as u64);
    let on_stuck = options.on_stuck.as_deref();
    let on_stuck = on_stuck.and_then(StuckChoice::from_name);
    let by_time = std::env::var_os(STATUS_SWITCH).is_some_and(|switch| switch == "0");
    Plan {
        rules: Rules {
            inactivity: inactivity.unwrap_or(settings.inactivity),
            runtime_ends: runtime.and_then(|time| Instant::now().checked_add(time)),
            on_stuck: on_stuck_of(on_stuck.unwrap_or(StuckChoice::Auto)),
            measure: match by_time {
                true => Measure::Time,
                false => Measure::Status,
            },
            judge_again_after: threshold,
        },
        tracking: tracker::Settings {
            heartbeat_interval: options
                .heartbeat
                .and_then(time)
                .unwrap_or(config.heartbeat_interval),
            stuck_threshold: threshold,
        },
    }
}

/// Where nobody can be asked, one waits.
fn on_stuck_of(choice: StuckChoice) -> OnStuck {
    let somebody = io::stdin().is_terminal() && io::stderr().is_terminal();
    match choice {
        StuckChoice::Auto | StuckChoice::Ask if somebody => OnStuck::Ask,
        StuckChoice::Auto | StuckChoice::Ask | StuckChoice::Wait => OnStuck::Wait,
        StuckChoice::Recover => OnStuck::Recover,
        StuckChoice::Fail => OnStuck::Fail,
    }
}

/// How often an agent's processes are looked at.
fn looks(plan: &Plan) -> tracker::Settings {
    let often = plan.rules.inactivity / LOOKS_IN_SILENCE;
    let interval = often.min(LONGEST_LOOK).max(SHORTEST_LOOK);
    tracker::Settings {
        heartbeat_interval: interval.min(plan.tracking.heartbeat_interval),
        ..plan.tracking
    }
}

fn conclude(
    arguments: &OneshotRunArguments,
    config: &Config,
    settings: &RunSettings,
    taken: Taken,
    executors: Executors,
    judge: &JudgeChoice,
) -> ExitCode {
    let Taken { run, task, first } = taken;
    let plan = plan(&run.file().options, config, settings);
    let supervisor = setup::supervisor_of_agents(config, looks(&plan));
    let recorder = setup::recorder(config, &supervisor.settings().redactor);
    let judge = setup::judge(judge, config, &supervisor);
    let checks = Arc::new(Checks::new(judge, config.enable_concurrent_checks));
    let (controller, controls) = controls();
    let (wake, woken) = bounded(1);
    if let Err(error) = signals::take(controller.clone(), wake, config.daemons.clone()) {
        output::complain(format_args!("cannot take signals: {error}"));
        return ExitCode::FAILURE;
    }
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
    supervisor.shut_down();
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
    output::say(format_args!("zsh-tool: dashboard at {}", monitor.link()));
    Ok(monitor)
}

/// What came of a run.
struct End {
    id: String,
    stage: Stage,
    iteration: u32,
    maximum: u32,
    directory: PathBuf,
    result: Option<String>,
    feedback: Option<String>,
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
    let mut engine = Engine::new(equipment, plan, run, task, connections);
    let gone = engine.go(first);
    let id = engine.run().id().to_owned();
    if let Err(error) = gone {
        let error = error.to_string();
        return Err(Failure { id, error });
    }
    let position = engine.run().position().clone();
    Ok(End {
        id,
        stage: position.stage,
        iteration: position.iteration,
        maximum: position.maximum.get(),
        directory: engine.run().directory().to_path_buf(),
        result: engine.result(),
        feedback: engine.run().file().feedback.clone(),
    })
}

impl End {
    /// Says how it ended: the worker's result on stdout, the rest on stderr.
    fn tell(self, as_json: bool) -> ExitCode {
        let code = self.stage.exit_code().unwrap_or(1);
        let printed = match (as_json, &self.stage, &self.result) {
            (true, ..) => output::print(&format!("{}\n", self.json(code))),
            (false, Stage::Completed, Some(result)) if !result.is_empty() => {
                output::print(&format!("{}\n", result.trim_end_matches('\n')))
            }
            _ => Ok(()),
        };
        match &self.stage {
            Stage::Completed if as_json => {}
            Stage::Interrupted { .. } => {
                output::say(format_args!(
                    "zsh-tool: the run {} is paused; it goes on with",
                    self.id
                ));
                output::say(resume_command(&self.id));
            }
            stage => output::say(self.summary(stage)),
        }
        output::conclude(printed, code)
    }

    fn summary(&self, stage: &Stage) -> String {
        let state = stage.state();
        let iterations = format!("iteration {} of {}", self.iteration, self.maximum);
        match stage.reason() {
            Some(reason) => format!(
                "zsh-tool: {state} ({reason}), {iterations}, run {}",
                self.id
            ),
            None => format!("zsh-tool: {state}, {iterations}, run {}", self.id),
        }
    }

    fn json(&self, code: u8) -> Value {
        let is_paused = matches!(self.stage, Stage::Interrupted { .. });
        json!({
            "oneshot_id": self.id,
            "state": self.stage.state().name(),
            "reason": self.stage.reason().map(|reason| reason.to_string()),
            "iteration_count": self.iteration,
            "max_iterations": self.maximum,
            "exit_code": code,
            "result": self.result,
            "feedback": self.feedback,
            "directory": self.directory.to_string_lossy(),
            "resume": is_paused.then(|| resume_command(&self.id)),
        })
    }
}

/// The command that takes a run up again, for pasting into a shell.
fn resume_command(id: &str) -> String {
    let program = std::env::args()
        .next()
        .unwrap_or_else(|| "zsh-tool".to_owned());
    let is_link = Path::new(&program)
        .file_name()
        .is_some_and(|name| name == "oneshot");
    let quoted =
        shlex::try_quote(&program).map_or_else(|_| program.clone(), |word| word.into_owned());
    match is_link {
        true => format!("{quoted} --resume {id}"),
        false => format!("{quoted} oneshot --resume {id}"),
    }
}
