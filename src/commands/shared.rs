//! Builds the parts that commands share: the configuration, the log, a supervisor, a recorder.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::SIGXFSZ;
use tracing_subscriber::filter::LevelFilter;

use super::{output, sandbox};
use crate::agent::endpoint::{self, Endpoint};
use crate::agent::executor::{Executors, ListError};
use crate::agent::judge::command::CommandJudge;
use crate::agent::judge::openai::OpenaiJudge;
use crate::agent::judge::{Heuristic, Judge, UnusableJudge};
use crate::alan::schema::Derivation;
use crate::alan::store::{Store, StoreSettings};
use crate::base::clock::SystemClock;
use crate::config::{
    Config, DialectChoice, EnvironmentChoice, JudgeChoice, LogLevel, RunFlags, RunSettings,
    SpoolMode, Warning,
};
use crate::history::identity;
use crate::history::manopt::OptionsPolicy;
use crate::history::recorder::Recorder;
use crate::history::run_record::RecorderSettings;
use crate::neverhang::Rules;
use crate::peer::hosts::{HostContext, Hosts, Purpose};
use crate::process::descriptors::Waker;
use crate::process::{files, memory, orphans};
use crate::progress::tracker;
use crate::sandbox::policy::{self, Mode, Network, Policy, Tightening};
use crate::shell::command_line::CommandLine;
use crate::shell::{normalise, template};
use crate::task::environment::EnvironmentSettings;
use crate::task::environment::client::ClientFiles;
use crate::task::settings::Settings;
use crate::task::supervisor::Supervisor;
use crate::text::foreign::ShowPath;
use crate::text::redact::{Redactor, is_secret};

/// Loads the settings, with warnings about faulty ones.
pub(crate) fn load_config() -> (Config, Vec<Warning>) {
    Config::load(&|name| std::env::var_os(name))
}

/// Loads the settings, starts the log, and logs the warnings about faulty ones.
pub(crate) fn start() -> (Config, Vec<Warning>) {
    let (config, warnings) = load_config();
    start_log(&config);
    for warning in &warnings {
        tracing::warn!("{warning}");
    }
    (config, warnings)
}

/// The state directory. Commands trust its files, so no other user may be able to write to it or
/// replace it. Reports an error, and returns its exit code.
pub(crate) fn state_directory(config: &Config) -> Result<&Path, ExitCode> {
    let complain = |error: &dyn std::fmt::Display| {
        output::complain(error);
        ExitCode::FAILURE
    };
    let state = config.state_dir.as_deref().map_err(|error| complain(error))?;
    say_what_is_logged(config);
    if state.exists() {
        files::private_dir(state).map_err(|error| complain(&error))?;
    }
    Ok(state)
}

/// The working directory, whose file may set a run's settings.
pub(crate) fn project() -> PathBuf {
    std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/"))
}

/// Loads the settings of a run, with warnings about faulty ones. `project` is the directory whose
/// file is read too.
pub(crate) fn load_run_settings(
    config: &Config,
    project: Option<&Path>,
    flags: &RunFlags,
) -> (RunSettings, Vec<Warning>) {
    RunSettings::load(config, &|name| std::env::var_os(name), project, flags)
}

/// Starts the log of a command that has none, for what is found of the state directory.
pub(crate) fn say_what_is_logged(config: &Config) {
    if !tracing::dispatcher::has_been_set() {
        start_log(config);
    }
}

/// Starts the log: to stderr, or to the configured file.
pub(crate) fn start_log(config: &Config) {
    let level = match config.log {
        LogLevel::Off => LevelFilter::OFF,
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    };
    let log = tracing_subscriber::fmt()
        .with_max_level(level)
        .with_ansi(false)
        // Reporting them would panic when the reader of stderr is gone.
        .log_internal_errors(false)
        .with_target(false);
    let file = config.log_file.as_ref().map(|path| (files::append_log(path), path));
    match file {
        Some((Ok(file), _)) => log.with_writer(std::sync::Mutex::new(file)).init(),
        Some((Err(error), path)) => {
            output::complain(format_args!(
                "cannot write the log to {}: {error}; using stderr",
                path.shown()
            ));
            log.with_writer(std::io::stderr).init();
        }
        None => log.with_writer(std::io::stderr).init(),
    }
}

/// A redactor that also knows the values of this environment's secrets.
pub(crate) fn redactor(config: &Config) -> Arc<Redactor> {
    let variables = std::env::vars_os().filter_map(|(name, value)| {
        let is_listed = config.secrets.hides(&name);
        let value = value.into_string().ok()?;
        (is_listed || is_secret(&name.to_string_lossy(), &value)).then_some(value)
    });
    Arc::new(Redactor::new(variables))
}

/// The recorder of the command history, as configured. Its database is opened on first use.
pub(crate) fn recorder(config: &Config, redactor: &Arc<Redactor>) -> Arc<Recorder> {
    let own = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let path = database(config);
    let old_databases = ["CLAUDE_PLUGIN_DATA", "CLAUDE_PLUGIN_ROOT"]
        .into_iter()
        .zip(["alan.db", "data/alan.db"])
        .filter_map(|(variable, name)| Some(PathBuf::from(own(variable)?).join(name)))
        .filter(|old| old.is_absolute() && *old != path)
        .collect();
    // A session is one conversation of the client, within which retries count.
    let session = own("CLAUDE_CODE_SESSION_ID")
        .and_then(|session| session.into_string().ok())
        .unwrap_or_else(files::random_id);
    Arc::new(Recorder::new(RecorderSettings {
        store: Store::open(StoreSettings {
            path,
            session,
            derivation: Derivation {
                version: identity::DERIVATION_VERSION,
                hash: |text| normalise::hash(&CommandLine::parse(text)),
                template: |text| template::template(&CommandLine::parse(text)),
                with_subcommands: |text| template::with_subcommands(&CommandLine::parse(text)),
                redactor: redactor.as_ref().clone(),
            },
            old_databases,
            rules: Rules {
                threshold: config.neverhang_threshold,
                window: config.neverhang_window.as_secs_f64(),
                recovery: config.neverhang_recovery.as_secs_f64(),
            },
        }),
        options: OptionsPolicy {
            enabled: config.manopt_enabled,
            trigger: u32::try_from(config.manopt_fail_trigger).unwrap_or(u32::MAX),
            present: u32::try_from(config.manopt_fail_present).unwrap_or(u32::MAX),
        },
        options_time: config.manopt_timeout,
        environment: environment(config),
        sandbox: tightest_sandbox(config),
        redactor: Arc::clone(redactor),
    }))
}

/// The sandbox of programs that only print, such as `man`: the tightest one, where commands have one or
/// its settings are wrong.
pub(crate) fn tightest_sandbox(config: &Config) -> Option<Policy> {
    let tightest = Tightening { mode: Some(Mode::ReadOnly), network: Some(Network::Off) };
    let of_settings = match sandbox::settings(config, &project_directory()) {
        Ok(settings) if settings.mode == Mode::Off => return None,
        Ok(settings) => settings.tightened(Some(tightest)).ok(),
        Err(_) => None,
    };
    Some(of_settings.unwrap_or_else(|| Policy {
        mode: Mode::ReadOnly,
        network: Network::Off,
        best_effort: false,
        ..Policy::off()
    }))
}

/// The path of the command history; empty without a state directory, which keeps the history in
/// memory.
pub(crate) fn database(config: &Config) -> PathBuf {
    let in_state = || {
        let state = config.state_dir.as_ref().ok()?;
        Some(state.join("alan.db"))
    };
    config.alan_db.clone().or_else(in_state).unwrap_or_default()
}

/// The model's endpoint, as configured.
pub(crate) fn endpoint(config: &Config) -> endpoint::EndpointSettings {
    let key = std::env::var(&config.openai_api_key_env).ok();
    endpoint::EndpointSettings {
        base_url: config.openai_base_url.clone(),
        model: config.openai_model.clone(),
        key,
        key_variable: config.openai_api_key_env.clone(),
    }
}

/// The judge of runs. An unusable judge is replaced by an [`UnusableJudge`], which reports the
/// cause and leaves the decision to the heuristic.
pub(crate) fn judge(
    choice: &JudgeChoice,
    config: &Config,
    supervisor: &Arc<Supervisor>,
) -> Arc<dyn Judge> {
    let unusable = |name: &str, cause: String| {
        tracing::warn!("the judge {name} cannot be used: {cause}");
        Arc::new(UnusableJudge { name: name.to_owned(), cause })
    };
    match choice {
        JudgeChoice::Heuristic => Arc::new(Heuristic),
        JudgeChoice::Openai => match Endpoint::new(endpoint(config)) {
            Ok(endpoint) => {
                let redactor = Arc::clone(&supervisor.settings.redactor);
                Arc::new(OpenaiJudge::new(endpoint, redactor))
            }
            Err(error) => unusable("openai", error.to_string()),
        },
        JudgeChoice::Executor(name) => {
            let executor = executors(config)
                .map_err(|error| error.to_string())
                .and_then(|all| all.find(name).map(Arc::clone).map_err(|error| error.to_string()));
            match executor {
                Ok(executor) => Arc::new(CommandJudge::new(executor, Arc::clone(supervisor))),
                Err(cause) => unusable(&format!("command:{name}"), cause),
            }
        }
    }
}

/// A supervisor for this process, as configured.
pub(crate) fn supervisor(config: &Config) -> Arc<Supervisor> {
    survive_file_size_limit();
    Arc::new(Supervisor::new(settings(config), Arc::new(SystemClock)))
}

/// A server's supervisor, with the instance name from the guard.
pub(crate) fn supervisor_with_instance(instance: String, config: &Config) -> Arc<Supervisor> {
    survive_file_size_limit();
    let mut settings = settings(config);
    // Only servers need this: other commands already run in the environment of a person's shell.
    settings.environment.login = config.environment == EnvironmentChoice::Login;
    settings.environment.tools = config.environment_tools.clone();
    Arc::new(Supervisor::with_instance(instance, settings, Arc::new(SystemClock)))
}

/// Where Claude Code's hooks write variables for commands.
fn client_files(config: &Config) -> ClientFiles {
    let variable = |name: &str| std::env::var_os(name).filter(is_given);
    let named = variable("CLAUDE_ENV_FILE").map(PathBuf::from);
    let session = variable("CLAUDE_CODE_SESSION_ID");
    let own = variable("CLAUDE_CONFIG_DIR").map(PathBuf::from);
    let home = variable("HOME").map(|home| PathBuf::from(home).join(".claude"));
    let state = session.is_some().then(|| config.state_dir.clone().ok()).flatten();
    let first = session.and_then(|session| Some(own.or(home)?.join("session-env").join(session)));
    ClientFiles::new(named, state, first)
}

/// A supervisor for the agents of a run, which checks their processes as `tracker` says.
pub(crate) fn supervisor_of_agents(
    config: &Config,
    tracker: tracker::TrackerSettings,
) -> Arc<Supervisor> {
    survive_file_size_limit();
    let settings = Settings { tracker, ..settings(config) };
    Arc::new(Supervisor::new(settings, Arc::new(SystemClock)))
}

/// The hosts of the configuration, to be connected to for this purpose.
pub(crate) fn hosts(config: &Config, purpose: Purpose) -> Hosts {
    let context = HostContext {
        purpose,
        environment: environment(config),
        daemons: config.daemons.clone().into(),
    };
    Hosts::new(config.hosts.clone(), &context)
}

/// The maximum size of a message in bytes.
pub(crate) fn message_limit(config: &Config) -> usize {
    usize::try_from(config.max_request).unwrap_or(usize::MAX)
}

/// Releases unused memory, for [`start_housekeeping`].
pub(crate) fn release_memory(recorder: &Arc<Recorder>) -> impl Fn() + Send + use<> {
    let recorder = Arc::clone(recorder);
    move || {
        recorder.store().release_memory();
        memory::trim_heap();
        memory::drop_unchanged_pages();
    }
}

/// The agent programs that runs can use.
///
/// # Errors
/// When the built-in list is faulty.
pub(crate) fn executors(config: &Config) -> Result<Executors, ListError> {
    Executors::new(&config.executors)
}

/// Makes this process the parent of orphaned descendants.
pub(crate) fn adopt_orphans() {
    if let Err(error) = orphans::adopt() {
        tracing::warn!(
            "no subreaper ({error}): detached processes are found by their environment only"
        );
    }
}

/// Starts the housekeeping, which runs until the process exits. A failure is only logged: without
/// housekeeping, zombies and old output accumulate. `release` is called when the start and the
/// last command are over.
pub(crate) fn start_housekeeping(
    supervisor: &Arc<Supervisor>,
    release: impl Fn() + Send + 'static,
) {
    let start = || {
        let (waker, woken) = Waker::new()?;
        supervisor.set_housekeeping(Arc::new(waker))?;
        let supervisor = Arc::clone(supervisor);
        let thread = std::thread::Builder::new().name("housekeeping".to_owned());
        thread.spawn(move || supervisor.run_housekeeping(&woken, release))
    };
    if let Err(error) = start() {
        tracing::error!("no housekeeping: {error}");
    }
}

/// Handles SIGXFSZ, which would end the process at a write beyond `ulimit -f`. With a handler the
/// write fails, as on a full disk, which the spool can handle.
fn survive_file_size_limit() {
    let seen = Arc::new(AtomicBool::new(false));
    if let Err(error) = signal_hook::flag::register(SIGXFSZ, seen) {
        tracing::warn!("a file size limit would end the server: {error}");
    }
}

fn settings(config: &Config) -> Settings {
    let sandbox = sandbox::settings(config, &project_directory());
    Settings {
        state: config.state_dir.clone().map_err(|error| error.to_string()),
        spool_on_disk: config.spool == SpoolMode::Disk,
        task_quota: config.spool_task_quota,
        directory_quota: config.spool_quota,
        retention: config.spool_keep_hours,
        max_running: config.max_tasks,
        max_finished: config.max_finished_tasks,
        max_command: usize::try_from(config.max_command).unwrap_or(usize::MAX),
        shell: config.shell.clone(),
        shell_mode: config.shell_mode,
        takes_bash: config.dialect == DialectChoice::Bash,
        startup_file: config.prelude.clone(),
        directory: project_directory(),
        keep_directory: config.keep_cwd,
        daemons: config.daemons.clone().into(),
        environment: EnvironmentSettings {
            inherited: Arc::new(environment(config)),
            login: false,
            tools: Vec::new(),
            hidden: config.secrets.hidden(),
            client: client_files(config),
            daemons: config.daemons.clone().into(),
            sandbox: sandbox.as_ref().ok().map(policy::Settings::policy).filter(|it| !it.is_off()),
        },
        redactor: redactor(config),
        sandbox,
        tracker: tracker::TrackerSettings {
            heartbeat_interval: config.heartbeat_interval,
            stuck_threshold: config.stuck_threshold as u64,
        },
    }
}

/// The project's directory, in which commands start.
pub(crate) fn project_directory() -> PathBuf {
    let named = std::env::var_os("CLAUDE_PROJECT_DIR").filter(is_given);
    named.map_or_else(own_directory, |named| own_directory().join(named))
}

/// The working directory. If it was removed, a path that does not exist, so that commands fail
/// instead of running elsewhere.
pub(crate) fn own_directory() -> PathBuf {
    let removed = || std::fs::read_link("/proc/self/cwd").unwrap_or_else(|_| "(deleted)".into());
    std::env::current_dir().unwrap_or_else(|_| removed())
}

/// The environment that commands inherit, without the variables that hold listed secrets.
pub(crate) fn environment(config: &Config) -> Vec<(OsString, OsString)> {
    std::env::vars_os().filter(|(name, _)| !config.secrets.hides(name)).collect()
}

/// Whether a variable has a value; a plugin's unexpanded `${…}` does not count.
fn is_given(value: &OsString) -> bool {
    !value.is_empty() && !value.to_string_lossy().contains("${")
}
