//! What every command that runs tasks begins with: the configuration, the log and a
//! supervisor.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crossbeam_channel::Receiver;
use signal_hook::consts::SIGXFSZ;
use tracing_subscriber::filter::LevelFilter;

use super::output;
use crate::agent::endpoint::{self, Endpoint};
use crate::agent::executor::{Executors, ListError};
use crate::agent::judge::command::{CommandJudge, ExecutorProgram};
use crate::agent::judge::openai::OpenaiJudge;
use crate::agent::judge::{Heuristic, Judge, Unusable};
use crate::alan::options::OptionsPolicy;
use crate::alan::schema::Derivation;
use crate::alan::store;
use crate::base::clock::SystemClock;
use crate::config::{
    Config, JudgeChoice, LogLevel, RunFlags, RunSettings, ShellMode as ConfiguredMode, SpoolMode,
    Warning,
};
use crate::neverhang::Rules;
use crate::process::{files, orphans};
use crate::progress::tracker;
use crate::record::pattern;
use crate::record::recorder::{self, Recorder};
use crate::shell::{normalise, template};
use crate::task::shell::ShellMode;
use crate::task::supervisor::{Settings, Supervisor};
use crate::text::redact::{Redactor, is_secret_name};

/// The settings of this process's environment, and what is wrong with them.
pub fn load_config() -> (Config, Vec<Warning>) {
    Config::load(&|name| std::env::var_os(name))
}

/// The settings of a run in this directory, and what is wrong with them.
pub fn load_run_settings(config: &Config, flags: &RunFlags) -> (RunSettings, Vec<Warning>) {
    let directory = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/"));
    RunSettings::load(config, &|name| std::env::var_os(name), &directory, flags)
}

/// Starts the log: to stderr, or to the configured file.
pub fn start_log(config: &Config) {
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
        // A reader of stderr that is gone would make it panic.
        .log_internal_errors(false)
        .with_target(false);
    let file = config
        .log_file
        .as_ref()
        .map(|path| (files::append_private(path), path));
    match file {
        Some((Ok(file), _)) => log.with_writer(std::sync::Mutex::new(file)).init(),
        Some((Err(error), path)) => {
            output::complain(format_args!(
                "cannot write the log to {}: {error}; it goes to stderr",
                path.display()
            ));
            log.with_writer(std::io::stderr).init();
        }
        None => log.with_writer(std::io::stderr).init(),
    }
}

/// A redactor that also knows the values of this environment's secrets.
pub fn redactor(config: &Config) -> Arc<Redactor> {
    let secrets = std::env::vars_os()
        .filter(|(name, _)| config.secrets.hides(name) || is_secret_name(&name.to_string_lossy()))
        .filter_map(|(_, value)| value.into_string().ok());
    Arc::new(Redactor::new(secrets))
}

/// What remembers commands, as configured; its database is opened when it is needed.
pub fn recorder(config: &Config, redactor: &Arc<Redactor>) -> Arc<Recorder> {
    let own = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let path = database(config);
    let old_databases = ["CLAUDE_PLUGIN_DATA", "CLAUDE_PLUGIN_ROOT"]
        .into_iter()
        .zip(["alan.db", "data/alan.db"])
        .filter_map(|(variable, name)| Some(PathBuf::from(own(variable)?).join(name)))
        .filter(|old| old.is_absolute() && *old != path)
        .collect();
    // One session is one conversation of the client: its retries are told of.
    let session = own("CLAUDE_CODE_SESSION_ID")
        .and_then(|session| session.into_string().ok())
        .unwrap_or_else(files::random_id);
    Arc::new(Recorder::new(recorder::Settings {
        store: store::Settings {
            path,
            session,
            derivation: Derivation {
                version: pattern::DERIVATION_VERSION,
                hash: normalise::hash,
                template: template::template,
                redactor: redactor.as_ref().clone(),
            },
            old_databases,
            rules: Rules {
                threshold: config.neverhang_threshold,
                window: config.neverhang_window.as_secs_f64(),
                recovery: config.neverhang_recovery.as_secs_f64(),
            },
        },
        options: OptionsPolicy {
            enabled: config.manopt_enabled,
            trigger: u32::try_from(config.manopt_fail_trigger).unwrap_or(u32::MAX),
            present: u32::try_from(config.manopt_fail_present).unwrap_or(u32::MAX),
        },
        options_time: config.manopt_timeout,
        environment: environment(config),
        redactor: Arc::clone(redactor),
    }))
}

/// The database of what commands did. Without a state directory there is none, and what
/// is learned stays in memory.
pub fn database(config: &Config) -> PathBuf {
    let in_state = || {
        let state = config.state_dir.as_ref().ok()?;
        Some(state.join("alan.db"))
    };
    config.alan_db.clone().or_else(in_state).unwrap_or_default()
}

/// The model's endpoint, as configured.
pub fn endpoint(config: &Config) -> endpoint::Settings {
    let key = std::env::var(&config.openai_api_key_env).ok();
    endpoint::Settings {
        base_url: config.openai_base_url.clone(),
        model: config.openai_model.clone(),
        key,
        key_variable: config.openai_api_key_env.clone(),
    }
}

/// Who judges runs. What cannot be asked as it is configured is a judge that says so, in
/// whose place the heuristic judges.
pub fn judge(
    choice: &JudgeChoice,
    config: &Config,
    supervisor: &Arc<Supervisor>,
) -> Arc<dyn Judge> {
    let unusable = |name: &str, cause: String| {
        tracing::warn!("the judge {name} cannot be asked: {cause}");
        Arc::new(Unusable {
            name: name.to_owned(),
            cause,
        })
    };
    match choice {
        JudgeChoice::Heuristic => Arc::new(Heuristic),
        JudgeChoice::Openai => match Endpoint::new(endpoint(config)) {
            Ok(endpoint) => {
                let redactor = Arc::clone(&supervisor.settings().redactor);
                Arc::new(OpenaiJudge::new(endpoint, redactor))
            }
            Err(error) => unusable("openai", error.to_string()),
        },
        JudgeChoice::Command(name) => match program(name, config) {
            Ok(program) => Arc::new(CommandJudge::new(Box::new(program), Arc::clone(supervisor))),
            Err(cause) => unusable(&format!("command:{name}"), cause),
        },
    }
}

fn program(name: &str, config: &Config) -> Result<ExecutorProgram, String> {
    let executors = executors(config).map_err(|error| error.to_string())?;
    ExecutorProgram::new(Arc::new(executors), name, None).map_err(|error| error.to_string())
}

/// A supervisor for this process, as configured.
pub fn supervisor(config: &Config) -> Arc<Supervisor> {
    survive_file_size_limit();
    Arc::new(Supervisor::new(settings(config), Arc::new(SystemClock)))
}

/// A supervisor for the agents of a run, whose processes are looked at so often.
pub fn supervisor_of_agents(config: &Config, tracking: tracker::Settings) -> Arc<Supervisor> {
    survive_file_size_limit();
    let settings = Settings {
        tracking,
        ..settings(config)
    };
    Arc::new(Supervisor::new(settings, Arc::new(SystemClock)))
}

/// The agent programs that runs can use.
///
/// # Errors
/// When the built-in list is faulty.
pub fn executors(config: &Config) -> Result<Executors, ListError> {
    Executors::new(&config.executors)
}

/// Makes this process the one that orphaned descendants come to.
pub fn adopt_orphans() {
    if let Err(error) = orphans::adopt() {
        tracing::warn!(
            "no subreaper ({error}): detached processes are found by their environment only"
        );
    }
}

/// Starts the housekeeping, which goes on until the process ends; without it only
/// zombies and old output would gather.
pub fn start_housekeeping(
    supervisor: &Arc<Supervisor>,
    woken: Receiver<()>,
) -> Option<std::thread::JoinHandle<()>> {
    let supervisor = Arc::clone(supervisor);
    let started = std::thread::Builder::new()
        .name("housekeeping".to_owned())
        .spawn(move || supervisor.keep_house(&woken));
    started
        .inspect_err(|error| tracing::error!("no housekeeping thread: {error}"))
        .ok()
}

/// Under `ulimit -f` a write beyond the limit would end the process by SIGXFSZ. With any
/// handler it fails instead, as on a full disk, and the spool knows what to do.
fn survive_file_size_limit() {
    let seen = Arc::new(AtomicBool::new(false));
    if let Err(error) = signal_hook::flag::register(SIGXFSZ, seen) {
        tracing::warn!("a file size limit would end the server: {error}");
    }
}

fn settings(config: &Config) -> Settings {
    let variable = |name: &str| std::env::var_os(name).filter(is_given);
    Settings {
        state: config.state_dir.clone().map_err(|error| error.to_string()),
        spool_on_disk: config.spool == SpoolMode::Disk,
        task_quota: config.spool_task_quota,
        directory_quota: config.spool_quota,
        keep: config.spool_keep_hours,
        max_running: config.max_tasks,
        max_finished: config.max_finished_tasks,
        max_command: usize::try_from(config.max_command).unwrap_or(usize::MAX),
        shell: config.shell.clone(),
        shell_mode: match config.shell_mode {
            ConfiguredMode::Plain => ShellMode::Plain,
            ConfiguredMode::Login => ShellMode::Login,
            ConfiguredMode::Interactive => ShellMode::Interactive,
        },
        prelude: config.prelude.clone(),
        environment_file: variable("CLAUDE_ENV_FILE").map(PathBuf::from),
        directory: variable("CLAUDE_PROJECT_DIR").map_or_else(own_directory, PathBuf::from),
        keep_directory: config.keep_cwd,
        daemons: config.daemons.clone().into(),
        environment: environment(config),
        redactor: redactor(config),
        tracking: tracker::Settings {
            heartbeat_interval: config.heartbeat_interval,
            stuck_threshold: config.stuck_threshold as u64,
        },
    }
}

/// Where this process is. One that was removed is a path that names nothing, so that whoever
/// is to run a command there is told so instead of running it elsewhere.
pub fn own_directory() -> PathBuf {
    let removed = || std::fs::read_link("/proc/self/cwd").unwrap_or_else(|_| "(deleted)".into());
    std::env::current_dir().unwrap_or_else(|_| removed())
}

/// What commands inherit: no variable that holds a listed secret is among it.
pub fn environment(config: &Config) -> Vec<(OsString, OsString)> {
    std::env::vars_os()
        .filter(|(name, _)| !config.secrets.hides(name))
        .collect()
}

/// Whether a variable says anything: an unexpanded `${…}` of a plugin does not.
fn is_given(value: &OsString) -> bool {
    !value.is_empty() && !value.to_string_lossy().contains("${")
}
