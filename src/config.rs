//! Settings from the environment, the file and the defaults, in this order of precedence, resolved
//! once.
//!
//! One table, `settings!`, declares every setting: the struct's fields, their documentation, the
//! parsing, the printing and the list of known keys all come from it. An error in the environment
//! or in the file never stops the program: it becomes a [`Warning`] that names its place and the
//! value used instead.
//!
//! Limits: of the command line, covers only the arguments of runs ([`RunFlags`]). All values may be
//! printed, since secrets are not settings: only their names and sources are ([`Secrets`]).

mod choices;
mod dirs;
mod executors;
mod file;
mod hosts;
mod layers;
mod oneshot;
mod secrets;
mod value;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use choices::JudgeParser;
use dirs::{base_directory, state_dir, variable};
use layers::{Layer, Sources, check_key};
use value::{
    Address, BASE_URL, Choice, Choices, Count, Field, File, Flag, Megabytes, NAME, Names, Optional,
    PROGRAM, Paths, Raw, Size, Time, VARIABLE_NAME, ValueParser,
};

pub(crate) use choices::{
    ColorChoice, DialectChoice, EnvironmentChoice, EnvironmentTool, InsightChoice, InstallChoice,
    JudgeChoice, LogLevel, ShellMode, SpoolMode, StuckChoice, TaskChoice, UnaskedDeadline,
};
pub(crate) use dirs::{Env, StateDirError};
pub use executors::{PromptBy, UserExecutor};
pub(crate) use hosts::{HostEntry, HostList, UnknownHost};
pub(crate) use layers::{SettingSource, Warning, variable_of};
pub(crate) use oneshot::{NO_AUDITOR, RunFlags, RunSettings};
pub(crate) use secrets::{ResolveContext, ResolveError, SecretSource, Secrets};
pub(crate) use value::is_command_line;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const TIB: u64 = 1 << 40;

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

const fn hours(hours: u64) -> Duration {
    Duration::from_secs(3600 * hours)
}

/// The longest wait of a call, for the most patient clients.
pub(crate) const MAX_WAIT: Duration = seconds(600);

/// On macOS, programs started from the Dock do not have the user's PATH.
const ENVIRONMENT: EnvironmentChoice =
    if cfg!(target_os = "macos") { EnvironmentChoice::Login } else { EnvironmentChoice::Inherit };

/// Programs that are meant to outlive the command that started them: process names, and main
/// classes of Java programs.
const DAEMONS: [&str; 11] = [
    "gpg-agent",
    "ssh-agent",
    "dbus-daemon",
    "tmux",
    "screen",
    "watchman",
    "sccache",
    "adb",
    "bazel",
    "GradleDaemon",
    "KotlinCompileDaemon",
];

/// The key of a field: its own name, or the one given by `as`.
macro_rules! key_of {
    ($field:ident) => {
        stringify!($field)
    };
    ($field:ident $key:literal) => {
        $key
    };
}
use key_of;

macro_rules! option_of {
    () => {
        None
    };
    ($env:literal) => {
        Some($env)
    };
}
use option_of;

/// Where secrets usually are, which a sandboxed command does not read.
pub(crate) const DENY_READ: [&str; 21] = [
    "~/.ssh",
    "~/.aws",
    "~/.gnupg",
    "~/.config/gh",
    "~/.netrc",
    "~/.docker/config.json",
    "~/.git-credentials",
    "~/.cargo/credentials.toml",
    "~/.cargo/credentials",
    "~/.claude/.credentials.json",
    "~/.codex/auth.json",
    "~/.gemini/oauth_creds.json",
    "~/.config/gcloud",
    "~/.pypirc",
    "~/.kube/config",
    "~/.mozilla",
    "~/.config/google-chrome",
    "~/.config/chromium",
    "~/.config/BraveSoftware",
    "~/.config/microsoft-edge",
    "~/snap/firefox",
];

/// Declares a struct of settings, each with its documentation, key, type, default, parser and
/// environment variable. The prefix is added to the keys when they are shown; fields in braces are
/// not settings. `as` gives the key of a setting inside a mapping of the file, which contains a
/// dot.
macro_rules! settings {
    (
        $(#[$meta:meta])*
        $name:ident $prefix:literal { $( $(#[$own_doc:meta])* $vis:vis $own:ident: $own_type:ty, )* }
        $(
            $(#[doc = $doc:literal])*
            $field:ident $(as $key:literal)?:
                $type:ty = $default:expr, $parser:expr $(, env $env:literal)?;
        )*
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq)]
        pub(crate) struct $name {
            $( $(#[doc = $doc])* pub(crate) $field: $type, )*
            $( $(#[$own_doc])* $vis $own: $own_type, )*
            origins: std::collections::BTreeMap<&'static str, SettingSource>,
        }

        impl $name {
            const KEYS: &'static [&'static str] = &[$( key_of!($field $($key)?), )*];

            const VARIABLES: &'static [(&'static str, Option<&'static str>)] =
                &[$( (key_of!($field $($key)?), option_of!($($env)?)), )*];

            fn resolve(sources: &mut Sources<'_>, $( $own: $own_type, )*) -> $name {
                let mut origins = std::collections::BTreeMap::new();
                $(
                    let key = key_of!($field $($key)?);
                    let ($field, source) = sources.resolve(key, &$parser, $default);
                    origins.insert(key, source);
                )*
                $name { $( $field, )* $( $own, )* origins }
            }

            /// The source of a setting's value.
            pub(crate) fn source(&self, key: &str) -> SettingSource {
                self.origins.get(key).cloned().unwrap_or(SettingSource::Default)
            }

            /// Each setting of the table with its value and source, for people to read.
            pub(crate) fn settings(&self) -> Vec<Row> {
                vec![$( Row {
                    key: concat!($prefix, key_of!($field $($key)?)),
                    value: $parser.show(&self.$field),
                    source: self.source(key_of!($field $($key)?)),
                }, )*]
            }

            pub(crate) fn documentation() -> Vec<SettingHelp> {
                vec![$( SettingHelp {
                    key: concat!($prefix, key_of!($field $($key)?)),
                    env: option_of!($($env)?),
                    description: concat!($( $doc ),*),
                }, )*]
            }
        }
    };
}
use settings;

use crate::sandbox::policy::{Mode, Network};
use crate::text::foreign::ShowPath;

settings! {
    /// The settings in use. Each field is named like its key in the file, unless `as` gives another
    /// key.
    Config "" {
        /// The directory that all servers of this user share.
        pub state_dir: Result<PathBuf, StateDirError>,
        /// The secrets that `zsh_send` may type by name.
        pub secrets: Secrets,
        /// The file's section on agent runs.
        oneshot: Layer,
        /// The agent programs that the user adds or changes.
        pub executors: Vec<UserExecutor>,
        /// The other hosts on which commands may run.
        pub hosts: HostList,
        /// What is wrong with the sandbox's settings. Commands are refused then: without a sandbox they
        /// could do more than the user meant.
        pub sandbox_fault: Option<String>,
    }

    /// How long a call waits before it returns while the command is still running.
    /// Seconds; default 2, from 0 to 600, and at most what the client allows.
    yield_after: Duration = seconds(2), Time::seconds(Duration::ZERO..=MAX_WAIT);

    /// The longest wait of a call without `yield_after` for a command that is expected to end in
    /// that time: one with at least 3 ended runs, the last of them successful. Seconds; default 20,
    /// from 0 (never longer than `yield_after`) to 600.
    learned_yield: Duration = seconds(20), Time::seconds(Duration::ZERO..=MAX_WAIT);

    /// After how long the client abandons a call. Calls wait a tenth less, at least 0.5 s and at
    /// most 10 s, and never longer than 600 s. Seconds, from 1 (taken for 3) to a day; default by
    /// client, for unknown ones 60.
    client_timeout: Option<Duration> = None,
        Optional(Time::seconds(seconds(1)..=hours(24)), "by client");

    /// The deadline of a command whose call sets none. Seconds; default 120, from 0.1 to a week,
    /// and at most `timeout_max`.
    timeout_default: Duration = seconds(120),
        Time::seconds(Duration::from_millis(100)..=hours(24 * 7)),
        env "NEVERHANG_TIMEOUT_DEFAULT";

    /// What happens when a command that sets no deadline has run for `timeout_default`: `judge`, it is
    /// killed if it is stuck, silent or stopped, then or later, and if it waits for input for
    /// `timeout_max` in all, and continues otherwise; `kill`, it is killed. Default judge.
    unasked_deadline: UnaskedDeadline = UnaskedDeadline::Judge, Choice::new();

    /// How much memory the processes of a command may occupy together; above it they are killed. MB,
    /// or as in `4 GB`; default off, from 16 MB to 1 PB. A call may set another.
    memory_max: Option<u64> = None,
        Optional(Megabytes(16_000_000..=1_000_000_000_000_000), "off");

    /// The longest deadline that a call may set. Seconds; default 600, from 0.1 to a week.
    timeout_max: Duration = seconds(600),
        Time::seconds(Duration::from_millis(100)..=hours(24 * 7)),
        env "NEVERHANG_TIMEOUT_MAX";

    /// Whether a call may run a command without a deadline. Default true.
    allow_no_deadline: bool = true, Flag;

    /// The shell that runs commands: a name in PATH or a path. Default `zsh`.
    shell: String = "zsh".to_owned(), PROGRAM;

    /// How that shell reads its startup files. Default plain.
    shell_mode: ShellMode = ShellMode::Plain, Choice::new();

    /// The dialect in which zsh reads the text of commands: `zsh`; `bash`, with options that make text
    /// written for bash do what it says (`zsh-tool help shell` lists them). Default zsh.
    dialect: DialectChoice = DialectChoice::Zsh, Choice::new();

    /// The environment with which the server's commands start: `inherit`, the client's; `login`,
    /// the client's after an interactive login shell has changed it. That shell runs once, for at
    /// most 5 s, and again when a startup file of the user or the system changes. Default inherit;
    /// on macOS login.
    environment: EnvironmentChoice = ENVIRONMENT, Choice::new();

    /// Programs that supply variables for a command's directory, if they allow that directory:
    /// `direnv`, `mise`. They run before each command of the server. Default none.
    environment_tools: Vec<EnvironmentTool> = Vec::new(), Choices(Choice::new());

    /// A file that the shell sources before every command. Default none.
    prelude: Option<PathBuf> = None, File;

    /// Whether a command starts in the directory where the previous one ended. Useful with a single
    /// agent. Default false.
    keep_cwd: bool = false, Flag;

    /// Where to keep output: `disk` or `memory`. Default disk.
    spool: SpoolMode = SpoolMode::Disk, Choice::new();

    /// The most output kept of one task. Bytes; default 256 MiB, from 64 KiB to 1 TiB.
    spool_task_quota: u64 = 256 * MIB, Size(64 * KIB..=TIB);

    /// The most output kept of all tasks. Bytes; default 2 GiB, from 1 MiB to 64 TiB.
    spool_quota: u64 = 2 * GIB, Size(MIB..=64 * TIB);

    /// How long to keep output after the end of a task and of its server. Hours; default 24, from 0
    /// to 720.
    spool_keep_hours: Duration = hours(24), Time::hours(Duration::ZERO..=hours(720));

    /// The most output in one result. Characters; default 30000, from 1000 to 490000.
    max_output: usize = 30_000, Count(1_000..=490_000);

    /// The size of a whole result, for clients that shorten longer ones. Bytes; default by client
    /// (Codex, Gemini CLI, Qwen Code, opencode, Copilot CLI, Cline), and no limit for others; from
    /// 6000 to 1 GiB.
    client_output: Option<u64> = None, Optional(Size(6_000..=GIB), "by client");

    /// Programs that may outlive their command without being reported or stopped: process names, or
    /// main classes of Java programs. Default: the usual agents, multiplexers and build daemons.
    daemons: Vec<String> = DAEMONS.map(str::to_owned).to_vec(), Names;

    /// Whether a call may detach a command, so that it outlives the server. Default true.
    allow_detach: bool = true, Flag;

    /// The time limit of a detached command whose call sets none. Hours; default 24, from 0 (no
    /// limit) to 720.
    detached_hours: Duration = hours(24), Time::hours(Duration::ZERO..=hours(720));

    /// The most tasks that run at once. Default 64, from 1 to 1024.
    max_tasks: usize = 64, Count(1..=1_024);

    /// The number of processes of one task from which a result warns about them, once; no command
    /// is refused. Default 0, for never; at most 1,000,000.
    max_processes_task: usize = 0, Count(0..=1_000_000);

    /// The most finished tasks that stay readable. Default 1000, from 1 to 100000.
    max_finished_tasks: usize = 1_000, Count(1..=100_000);

    /// The longest command text. Bytes; default 1 MiB, from 1 KiB to 64 MiB.
    max_command: u64 = MIB, Size(KIB..=64 * MIB);

    /// The longest request. Bytes; default 16 MiB, from 64 KiB to 256 MiB.
    max_request: u64 = 16 * MIB, Size(64 * KIB..=256 * MIB);

    /// The sandbox of commands: `off`; `workspace`, they write only to the project, the temporary
    /// directory, caches of build tools and `sandbox.write`; `read-only`, only to a temporary directory
    /// of their own. A call can ask for a tighter one (`zsh-tool help sandbox`). Default off.
    sandbox_mode as "sandbox.mode": Mode = Mode::Off, Choice::new();

    /// More directories and files that commands may write to in the mode `workspace`. Default none.
    sandbox_write as "sandbox.write": Vec<PathBuf> = Vec::new(), Paths;

    /// Directories and files inside of those that commands may not write to all the same, as far as they
    /// exist. Default none.
    sandbox_deny_write as "sandbox.deny_write": Vec<PathBuf> = Vec::new(), Paths;

    /// What commands in a sandbox may not read; replaces the default. Default: where SSH, AWS, GnuPG,
    /// GitHub, Docker, Kubernetes, git, cargo and browsers keep secrets.
    sandbox_deny_read as "sandbox.deny_read": Vec<PathBuf> = DENY_READ.map(PathBuf::from).to_vec(),
        Paths;

    /// The network of commands in a sandbox: `on`; `loopback`, an interface of its own that connects
    /// only the processes of one command; `off`. Default on.
    sandbox_network as "sandbox.network": Network = Network::On, Choice::new();

    /// Whether commands run where the system cannot enforce all of the sandbox; each answer then names
    /// what is missing. Otherwise they are refused. Default false.
    sandbox_best_effort as "sandbox.best_effort": bool = false, Flag;

    /// When to colour results: `auto`, `always` or `never`. Default auto, which `NO_COLOR` turns
    /// into never.
    color: ColorChoice = ColorChoice::Auto, Choice::new();

    /// What a result shows of the command history: `useful`, warnings, options of failing commands
    /// and insights that are not shown elsewhere; `all`, also retries, streaks, similar and
    /// reliable commands. Default useful.
    insights: InsightChoice = InsightChoice::Useful, Choice::new();

    /// The database of the command history. Default: `alan.db` in the state directory.
    alan_db: Option<PathBuf> = None, File, env "ALAN_DB_PATH";

    /// After how many timeouts of a command within `neverhang_window` it is refused for
    /// `neverhang_recovery`. Default 3, from 1 to 100.
    neverhang_threshold: usize = 3, Count(1..=100);

    /// How long a timeout counts towards `neverhang_threshold`. Seconds; default 3600, from 1 to a week.
    neverhang_window: Duration = seconds(3600), Time::seconds(seconds(1)..=hours(24 * 7));

    /// How long a command is refused before a trial run. Seconds; default 300, from 0.1 to a day.
    neverhang_recovery: Duration = seconds(300),
        Time::seconds(Duration::from_millis(100)..=hours(24));

    /// The interval at which a task's progress is measured. Seconds; default 10, from 0.1 to 600.
    heartbeat_interval: Duration = seconds(10),
        Time::seconds(Duration::from_millis(100)..=seconds(600));

    /// After how many consecutive measurements without progress a task counts as stuck. Default 5,
    /// from 1 to 1000.
    stuck_threshold: usize = 5, Count(1..=1_000);

    /// The judge of an agent run's progress: `heuristic` (no model); `openai`, the endpoint at
    /// `openai.base_url`; `command:NAME`, the executor with that name. Default heuristic.
    judge: JudgeChoice = JudgeChoice::Heuristic, JudgeParser;

    /// Whether runs may be judged while they run. Default true.
    enable_concurrent_checks: bool = true, Flag;

    /// The OpenAI-compatible endpoint, including its version, as in `http://127.0.0.1:11434/v1`.
    /// Default none: no data is sent.
    openai_base_url as "openai.base_url": Option<String> = None, BASE_URL;

    /// The model to use at the endpoint. Default none.
    openai_model as "openai.model": Option<String> = None, Optional(NAME, "none");

    /// The environment variable that contains the endpoint's key; if it is not set, no key is sent.
    /// Default `OPENAI_API_KEY`.
    openai_api_key_env as "openai.api_key_env": String = "OPENAI_API_KEY".to_owned(),
        VARIABLE_NAME;

    /// Whether to look up the options of a program that fails repeatedly in its manual page.
    /// Default true.
    manopt_enabled: bool = true, Flag, env "ALAN_MANOPT_ENABLED";

    /// How long such a look-up may take. Seconds; default 2, from 0.1 to 60.
    manopt_timeout: Duration = seconds(2),
        Time::seconds(Duration::from_millis(100)..=seconds(60)), env "ALAN_MANOPT_TIMEOUT";

    /// After how many consecutive failures options are looked up. Default 2, from 1 to 1000.
    manopt_fail_trigger: usize = 2, Count(1..=1_000), env "ALAN_MANOPT_FAIL_TRIGGER";

    /// From how many consecutive failures on options are shown. Default 3, from 1 to 1000.
    manopt_fail_present: usize = 3, Count(1..=1_000), env "ALAN_MANOPT_FAIL_PRESENT";

    /// Which calls of `zsh` become tasks of MCP's tasks extension, if the client supports it:
    /// `on-request`, calls with `background: true`; `always`, also calls whose command is still
    /// running when they would return; `off`, none. Default on-request.
    mcp_tasks: TaskChoice = TaskChoice::OnRequest, Choice::new();

    /// The address at which the server also serves the monitor over HTTP; port 0 takes any
    /// free port. Default off.
    http: Option<SocketAddr> = None, Address;

    /// The level of the server's log: `off`, `error`, `warn`, `info`, `debug` or `trace`.
    /// Default error.
    log: LogLevel = LogLevel::Error, Choice::new();

    /// The log's file, with mode 0600. Default none: the log goes to stderr.
    log_file: Option<PathBuf> = None, File;
}

/// The state directory's name among the sources. It is not a key of the file, since all servers and
/// the command line must agree on it.
const STATE_DIR_KEY: &str = "state_dir";

/// The section whose keys are those of the sandbox.
const SANDBOX: &str = "sandbox";

/// Every key that the file may contain.
fn known_keys() -> Vec<&'static str> {
    let sections = [secrets::KEY, oneshot::KEY, executors::KEY, hosts::KEY];
    [Config::KEYS, &sections].concat()
}

/// The documentation of a setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SettingHelp {
    pub(crate) key: &'static str,
    /// Its environment variable besides the one that is named after it.
    pub(crate) env: Option<&'static str>,
    /// Its effect, with unit, default and range.
    pub(crate) description: &'static str,
}

/// The documentation of every setting; those of agent runs come last.
pub(crate) fn documentation() -> Vec<SettingHelp> {
    let mut all = Config::documentation();
    all.extend(RunSettings::documentation());
    all
}

/// One setting as `zsh-tool config` prints it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) key: &'static str,
    /// With the unit.
    pub(crate) value: String,
    pub(crate) source: SettingSource,
}

impl Config {
    /// The settings from this environment and the file that it names, and the errors found in them.
    /// Never fails.
    pub(crate) fn load(env: Env<'_>) -> (Config, Vec<Warning>) {
        let mut sources = Sources::new(env);
        sources.add_variables("", Config::VARIABLES);
        add_file(&mut sources);
        let (state_dir, state_dir_variable) = state_dir(env);
        let (secrets, secrets_source) = Secrets::read(&mut sources);
        let (executors, executors_source) = executors::read(&mut sources);
        let (hosts, hosts_source) = HostList::read(&mut sources);
        let oneshot = oneshot::read_section(&mut sources);
        let mut config =
            Config::resolve(&mut sources, state_dir, secrets, oneshot, executors, hosts, None);
        config.origins.extend([
            (secrets::KEY, secrets_source),
            (executors::KEY, executors_source),
            (hosts::KEY, hosts_source),
        ]);
        let source = state_dir_variable
            .map(|name| (STATE_DIR_KEY, SettingSource::Env { name: name.into() }));
        config.origins.extend(source);
        config.keep_default_timeout_below_max(&mut sources.warnings);
        config.obey_no_color(env);
        config.check_sandbox(&mut sources.warnings);
        (config, sources.warnings)
    }

    /// Every setting with its value and source, for people to read.
    pub(crate) fn rows(&self) -> Vec<Row> {
        let state_dir = match &self.state_dir {
            Ok(path) => path.shown().to_string(),
            Err(error) => format!("none: {error}"),
        };
        let others = [
            (STATE_DIR_KEY, state_dir),
            (secrets::KEY, self.secrets.to_string()),
            (executors::KEY, executors::show(&self.executors)),
            (hosts::KEY, self.hosts.to_string()),
        ];
        let mut rows = self.settings();
        rows.extend(others.map(|(key, value)| Row { key, value, source: self.source(key) }));
        rows
    }

    /// Clamps a default above the maximum, like a call's timeout.
    fn keep_default_timeout_below_max(&mut self, warnings: &mut Vec<Warning>) {
        if self.timeout_default <= self.timeout_max {
            return;
        }
        let (default, max) = (self.timeout_default, self.timeout_max);
        let (of_default, of_max) = (self.source("timeout_default"), self.source("timeout_max"));
        // Lowering only the maximum is not an error.
        if of_default != SettingSource::Default {
            warnings.push(Warning {
                source: of_default,
                key: Some("timeout_default".to_owned()),
                text: format!(
                    "{} s is above timeout_max; using {} s ({of_max})",
                    default.as_secs_f64(),
                    max.as_secs_f64()
                ),
            });
        }
        self.timeout_default = max;
        self.origins.insert("timeout_default", of_max);
    }

    /// Notes what is wrong with the settings of the sandbox, so that none is weaker than the user meant.
    fn check_sandbox(&mut self, warnings: &mut Vec<Warning>) {
        let is_about = |warning: &&Warning| match &warning.key {
            Some(key) => key == SANDBOX || key.starts_with("sandbox."),
            // A file that cannot be read may have switched it on.
            None => matches!(warning.source, SettingSource::File { .. }) && !self.is_sandboxed(),
        };
        self.sandbox_fault = warnings.iter().find(is_about).map(Warning::to_string);
        let others = [
            ("sandbox.network", self.sandbox_network != Network::On),
            ("sandbox.write", !self.sandbox_write.is_empty()),
            ("sandbox.best_effort", self.sandbox_best_effort),
        ];
        let set = others.iter().find_map(|(key, is_set)| is_set.then_some(key));
        if let Some(key) = set.filter(|_| self.source("sandbox.mode") == SettingSource::Default) {
            warnings.push(Warning {
                source: self.source(key),
                key: Some((*key).to_owned()),
                text: "only counts for calls that ask for a sandbox: set sandbox.mode too"
                    .to_owned(),
            });
        }
    }

    fn is_sandboxed(&self) -> bool {
        self.sandbox_mode != Mode::Off
    }

    /// NO_COLOR (no-color.org): any non-empty value disables colour, unless `color` is set.
    fn obey_no_color(&mut self, env: Env<'_>) {
        let name = "NO_COLOR";
        if self.color == ColorChoice::Auto && variable(env, name).is_some() {
            self.color = ColorChoice::Never;
            self.origins.insert("color", SettingSource::Env { name: name.into() });
        }
    }
}

/// Adds the file that the environment names, or the usual file if it exists.
fn add_file(sources: &mut Sources<'_>) {
    let named = variable(sources.env, "ZSH_TOOL_CONFIG").map(PathBuf::from);
    let entries = |path: &PathBuf| match &named {
        Some(_) => file::read(path),
        None => file::none_if_missing(file::read(path)),
    };
    let Some(path) = path(sources.env) else {
        return;
    };
    let known = known_keys();
    let flatten = |entry| flattened(entry, &known).into_iter();
    let entries = entries(&path).map(|entries| entries.into_iter().flat_map(flatten).collect());
    sources.add_file(path, entries, &|key| check_key(key, &known));
}

/// Where the file is, or would be; `None` without a home directory.
pub(crate) fn path(env: Env<'_>) -> Option<PathBuf> {
    let usual = || Some(base_directory(env, "XDG_CONFIG_HOME", ".config")?.join("config.yaml"));
    variable(env, "ZSH_TOOL_CONFIG").map(PathBuf::from).or_else(usual)
}

/// The text of a file with a section added to its end; unchanged if the section is there already.
///
/// # Errors
/// It cannot be read, or has such a section that says something else.
pub(crate) fn with_section(before: &str, key: &str, section: &str) -> Result<String, String> {
    let read = |text: &str| {
        let fields = file::parse(text.as_bytes()).map_err(|error| error.to_string())?;
        Ok::<_, String>(value::without_lines(fields))
    };
    let (mut fields, wanted) = (read(before)?, read(section)?);
    let is_about = |field: &Field| field.key == key || field.key.starts_with(&format!("{key}."));
    let own: Vec<Field> = fields.iter().filter(|field| is_about(field)).cloned().collect();
    if own == wanted {
        return Ok(before.to_owned());
    }
    if !own.is_empty() {
        return Err(format!("it has other settings of {key}"));
    }
    let gap = match before {
        "" => "",
        text if text.ends_with('\n') => "\n",
        _ => "\n\n",
    };
    let after = format!("{before}{gap}{section}");
    fields.extend(wanted);
    match read(&after) {
        Ok(now) if now == fields => Ok(after),
        _ => Err("it is written in a form to which nothing can be added".to_owned()),
    }
}

/// Turns `openai: {model: x}` into `openai.model: x`, if such keys are known.
fn flattened(entry: Field, known: &[&str]) -> Vec<Field> {
    let prefix = format!("{}.", entry.key);
    let is_group = known.iter().any(|key| key.starts_with(&prefix));
    match entry.value {
        Raw::Map(fields) if is_group => fields
            .into_iter()
            .map(|field| Field { key: format!("{prefix}{}", field.key), ..field })
            .collect(),
        Raw::Null if is_group => Vec::new(),
        _ => vec![entry],
    }
}

impl Default for Config {
    /// All defaults, as in an empty environment: without a state directory.
    fn default() -> Self {
        Config::load(&|_| None).0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::ffi::OsString;
    use std::fs;
    use std::os::unix::ffi::OsStringExt;

    /// Loads a file with this text for the home directory `/home/me`; the warnings call it `FILE`.
    pub(super) fn load_file(yaml: &str) -> (Config, Vec<String>) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("config.yaml");
        fs::write(&path, yaml).unwrap();
        let (config, warnings) = Config::load(&|name| match name {
            "HOME" => Some("/home/me".into()),
            "ZSH_TOOL_CONFIG" => Some(path.clone().into()),
            _ => None,
        });
        let shown = path.to_string_lossy().into_owned();
        let warnings = warnings.iter().map(Warning::to_string);
        (config, warnings.map(|text| text.replace(&shown, "FILE")).collect())
    }

    /// Loads a file with this text and these variables; `HOME` is a new directory.
    fn load(yaml: &str, variables: &[(&str, &str)]) -> (Config, Vec<Warning>, PathBuf) {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join(".config/zsh-tool/config.yaml");
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, yaml).unwrap();
        let (config, warnings) = Config::load(&|name| match name {
            "HOME" => Some(home.path().into()),
            _ => {
                let (_, value) = variables.iter().find(|(known, _)| *known == name)?;
                Some(value.into())
            }
        });
        (config, warnings, path)
    }

    /// The only warning, without the file's path.
    fn only_warning(yaml: &str, variables: &[(&str, &str)]) -> String {
        let (_, warnings, path) = load(yaml, variables);
        let texts: Vec<String> = warnings.iter().map(Warning::to_string).collect();
        assert_eq!(texts.len(), 1, "{texts:?}");
        texts.concat().replace(&path.to_string_lossy().into_owned(), "FILE")
    }

    #[test]
    fn an_empty_environment_gives_the_defaults() {
        let (config, warnings) = Config::load(&|_| None);
        assert_eq!(warnings, []);
        assert_eq!(config.yield_after, Duration::from_secs(2));
        assert_eq!(config.timeout_default, Duration::from_secs(120));
        assert_eq!(config.max_tasks, 64);
        assert_eq!(config.spool_task_quota, 268_435_456);
        assert_eq!(config.state_dir, Err(StateDirError::NoHome));
        assert!(config.rows().iter().all(|row| row.source == SettingSource::Default));
    }

    #[test]
    fn every_default_is_a_valid_value_of_its_setting() {
        for row in Config::default().rows() {
            let written = row.value.trim_end_matches(" s").trim_end_matches(" h");
            // A missing file cannot be configured, and the directory is not a key.
            if written == "none" || row.key == STATE_DIR_KEY {
                continue;
            }
            let yaml = match row.key {
                "daemons" => format!("daemons: [{written}]"),
                key => format!("{key}: {written}"),
            };
            let (config, warnings, path) = load(&yaml, &[]);
            assert_eq!(warnings, [], "{yaml}");
            let line = Some(1);
            assert_eq!(config.source(row.key), SettingSource::File { path, line });
            let again = config.rows().into_iter().find(|again| again.key == row.key);
            assert_eq!(again.map(|again| again.value), Some(row.value));
        }
    }

    #[test]
    fn the_environment_overrides_the_file_and_the_file_the_default() {
        let (config, warnings, path) = load(
            "# mine\ntimeout_default: 30\ntimeout_max: 90\n",
            &[("NEVERHANG_TIMEOUT_MAX", "300.5")],
        );
        assert_eq!(warnings, []);
        assert_eq!(config.timeout_default, Duration::from_secs(30));
        assert_eq!(config.timeout_max, Duration::from_millis(300_500));
        let line = Some(2);
        assert_eq!(config.source("timeout_default"), SettingSource::File { path, line });
        let name = "NEVERHANG_TIMEOUT_MAX";
        assert_eq!(config.source("timeout_max"), SettingSource::Env { name: name.into() });
        assert_eq!(config.source("max_tasks"), SettingSource::Default);
    }

    #[test]
    fn every_setting_has_a_variable_that_is_named_after_it() {
        for key in Config::KEYS {
            let name = variable_of(key);
            let (_, warnings, _) = load("", &[(&name, "=")]);
            // What is wrong for a setting is a warning; a few accept any text.
            let is_text = ["shell", "daemons", "openai.model"].contains(key);
            assert!(is_text != warnings.iter().any(|it| it.key.as_deref() == Some(key)), "{key}");
        }
        let set = [("ZSH_TOOL_TIMEOUT_MAX", "90"), ("NEVERHANG_TIMEOUT_MAX", "300")];
        let (config, warnings, _) = load("timeout_max: 60", &set);
        assert_eq!((config.timeout_max, warnings.len()), (Duration::from_secs(90), 0));
        let lists = [
            ("ZSH_TOOL_DAEMONS", "tmux, my-daemon"),
            ("ZSH_TOOL_ENVIRONMENT_TOOLS", "direnv,mise"),
            ("ZSH_TOOL_CLIENT_OUTPUT", "20 KiB"),
            ("ZSH_TOOL_OPENAI_MODEL", "m"),
        ];
        let (config, warnings, _) = load("", &lists);
        assert_eq!(warnings, []);
        assert_eq!(config.daemons, ["tmux", "my-daemon"]);
        assert_eq!(config.environment_tools.len(), 2);
        assert_eq!(config.client_output, Some(20_480));
        assert_eq!(config.openai_model.as_deref(), Some("m"));
    }

    #[test]
    fn an_unknown_key_is_named_with_its_line_and_the_nearest_one() {
        assert_eq!(
            only_warning("keep_cwd: true\nmax_task: 3\n", &[]),
            "FILE:2: max_task: unknown setting, ignored; did you mean max_tasks?"
        );
        assert_eq!(
            only_warning("colour_of_the_sky: blue\n", &[]),
            "FILE:1: colour_of_the_sky: unknown setting, ignored; \
             `zsh-tool config` lists the known ones"
        );
    }

    #[test]
    fn a_bad_value_of_each_kind_is_named_with_what_is_used_instead() {
        for (yaml, expected) in [
            (
                "max_tasks: many",
                "FILE:1: max_tasks: expected a whole number from 1 to 1024, found \"many\"; \
                 using 64 (default)",
            ),
            (
                "\nmax_tasks: 0",
                "FILE:2: max_tasks: expected a whole number from 1 to 1024, found 0; \
                 using 64 (default)",
            ),
            (
                "yield_after: 601",
                "FILE:1: yield_after: expected a time from 0 s to 600 s, found 601; \
                 using 2 s (default)",
            ),
            (
                "keep_cwd: [true]",
                "FILE:1: keep_cwd: expected true or false, found a list; \
                 using false (default)",
            ),
            (
                "spool: tape",
                "FILE:1: spool: expected one of disk, memory, found \"tape\"; \
                 using disk (default)",
            ),
            (
                "shell: zsh -f",
                "FILE:1: shell: expected the name or path of one program, without arguments, \
                 found \"zsh -f\"; using zsh (default)",
            ),
            (
                "prelude: env.sh",
                "FILE:1: prelude: expected an absolute path, or one that begins with `~/`, \
                 found \"env.sh\"; using none (default)",
            ),
            (
                "spool_quota: {size: 1}",
                "FILE:1: spool_quota: expected a size from 1 MiB to 64 TiB, in bytes or as in \
                 `256 MiB` (B, KB, MB, GB, KiB, MiB, GiB, TiB), found a mapping; \
                 using 2 GiB (default)",
            ),
        ] {
            assert_eq!(only_warning(yaml, &[]), expected);
        }
        let (config, ..) = load("daemons: [1]", &[]);
        assert_eq!(config.daemons, Config::default().daemons);
    }

    #[test]
    fn wrong_settings_of_the_sandbox_are_a_fault_and_not_a_looser_one() {
        for (yaml, fault) in [
            ("sandbox: {mode: workspac}", Some("sandbox.mode: expected one of off, workspace")),
            ("sandbox: workspace", Some("sandbox: unknown setting")),
            ("sandbox: {mod: workspace}", Some("did you mean sandbox.mode?")),
            ("sandbox: {deny_read: [secrets]}", Some("expected a list of absolute paths")),
            ("sandbox: {mode: workspace}\nshell: [zsh\n", Some("none of it is used")),
            ("sandbox: {mode: read-only, network: off, write: ~/notes}", None),
            ("max_tasks: many", None),
            ("", None),
        ] {
            let (config, warnings) = load_file(yaml);
            match (config.sandbox_fault, fault) {
                (Some(found), Some(fault)) => assert!(found.contains(fault), "{yaml}: {found}"),
                (found, fault) => assert_eq!(found.as_deref(), fault, "{yaml}: {warnings:?}"),
            }
        }
    }

    #[test]
    fn a_part_of_the_sandbox_without_a_mode_is_pointed_out() {
        let (config, warnings) = load_file("sandbox: {network: off}");
        assert!(warnings.concat().contains("set sandbox.mode too"), "{warnings:?}");
        assert_eq!((config.sandbox_mode, config.sandbox_fault), (Mode::Off, None));
    }

    #[test]
    fn a_bad_variable_falls_back_to_the_file_with_a_warning() {
        assert_eq!(
            only_warning("timeout_max: 300", &[("NEVERHANG_TIMEOUT_MAX", "ten minutes")]),
            "$NEVERHANG_TIMEOUT_MAX: timeout_max: expected a time from 0.1 s to 604800 s, \
             found \"ten minutes\"; using 300 s (FILE:1)"
        );
    }

    #[test]
    fn a_key_given_twice_takes_the_later_one_with_a_warning() {
        let yaml = "max_tasks: 3\nmax_tasks: 5\n";
        assert_eq!(only_warning(yaml, &[]), "FILE:2: max_tasks: given twice; line 1 is ignored");
        assert_eq!(load(yaml, &[]).0.max_tasks, 5);
    }

    #[test]
    fn a_literal_variable_counts_as_unset() {
        let (config, warnings, _) = load(
            "shell: ${MY_SHELL}\nprelude: \"${HOME}/env\"\nmax_tasks:\n",
            &[("NEVERHANG_TIMEOUT_MAX", "${user_config.max}")],
        );
        assert_eq!(warnings, []);
        assert_eq!(config.rows()[..5], Config::default().rows()[..5]);
        assert_eq!(config.prelude, None);
        assert_eq!(config.source("timeout_max"), SettingSource::Default);
    }

    #[test]
    fn a_syntax_error_leaves_the_defaults_and_names_the_line() {
        let (config, warnings, path) = load("max_tasks: 3\nshell: [zsh\n", &[]);
        assert_eq!(config.max_tasks, 64);
        assert_eq!(warnings.len(), 1);
        assert!(
            matches!(&warnings[0].source, SettingSource::File { path: at, line: Some(2..=3) } if *at == path),
            "{warnings:?}"
        );
        assert!(warnings[0].text.ends_with("; none of it is used"));
    }

    #[test]
    fn a_missing_file_is_fine_unless_it_was_named() {
        let home = tempfile::tempdir().unwrap();
        let (_, warnings) = Config::load(&|name| (name == "HOME").then(|| home.path().into()));
        assert_eq!(warnings, []);
        let missing = home.path().join("mine.yaml");
        let (_, warnings) =
            Config::load(&|name| (name == "ZSH_TOOL_CONFIG").then(|| missing.clone().into()));
        let text = format!("{}: there is no such file; none of it is used", missing.shown());
        assert_eq!(warnings.iter().map(Warning::to_string).collect::<Vec<_>>(), [text]);
    }

    #[test]
    fn a_variable_that_is_not_utf8_is_a_path_or_a_warning() {
        let bytes = || Some(OsString::from_vec(b"/tmp/\xff".to_vec()));
        let (config, warnings) = Config::load(&|name| match name {
            "ZSH_TOOL_LOG_FILE" | "ZSH_TOOL_COLOR" => bytes(),
            _ => None,
        });
        assert_eq!(config.log_file, bytes().map(PathBuf::from));
        assert_eq!(
            warnings.iter().map(Warning::to_string).collect::<Vec<_>>(),
            ["$ZSH_TOOL_COLOR: color: expected one of auto, always, never, \
              found a value that is not UTF-8; using auto (default)"]
        );
    }

    #[test]
    fn no_color_decides_only_without_other_settings() {
        let color = |yaml: &str, variables: &[(&str, &str)]| load(yaml, variables).0.color;
        assert_eq!(color("", &[("NO_COLOR", "1")]), ColorChoice::Never);
        assert_eq!(color("", &[("NO_COLOR", "")]), ColorChoice::Auto);
        assert_eq!(color("color: always", &[("NO_COLOR", "1")]), ColorChoice::Always);
        let both = [("NO_COLOR", "1"), ("ZSH_TOOL_COLOR", "always")];
        assert_eq!(color("color: never", &both), ColorChoice::Always);
    }

    #[test]
    fn a_default_timeout_above_the_maximum_is_clamped_with_a_warning() {
        assert_eq!(
            only_warning("timeout_default: 900", &[]),
            "FILE:1: timeout_default: 900 s is above timeout_max; using 600 s (default)"
        );
        let (config, warnings, _) = load("timeout_max: 60", &[]);
        assert_eq!(warnings, []);
        assert_eq!(config.timeout_default, Duration::from_secs(60));
    }

    /// A value that a file or a variable may contain.
    fn any_value() -> impl Strategy<Value = String> {
        prop_oneof![
            any::<i64>().prop_map(|number| number.to_string()),
            any::<f64>().prop_map(|number| number.to_string()),
            prop::sample::select(vec![
                "",
                "~",
                "true",
                "off",
                "60",
                "1e3",
                "-0",
                ".inf",
                ".nan",
                "256 MiB",
                "1 TiB",
                "99999999999999999999 TiB",
                "always",
                "~/x",
                "/x",
                "zsh",
                "${X}",
                "127.0.0.1:0",
                "http://h:1/v1",
                "[a, b]",
                "[[a]]",
                "{a: 1}",
                "{A: {env: X}}",
                "{A: {command: [x]}}",
                "{x: {argv: [y, 1], env: {A: b}}}",
                "{executor: x, inactivity: 1e400}",
                "heuristic",
            ])
            .prop_map(str::to_owned),
            "\\PC{0,12}",
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]

        #[test]
        fn any_configuration_is_used_or_causes_a_warning(
            lines in prop::collection::vec((prop::sample::select(known_keys()), any_value()), 0..8),
            variables in prop::collection::vec(prop::option::of(any_value()), 7),
            json in "(\\PC|[{}\\[\\]:,\"0-9]){0,30}",
        ) {
            let home = tempfile::tempdir().unwrap();
            let write = |name: &str, text: &str| {
                let path = home.path().join(name);
                fs::write(&path, text).unwrap();
                path
            };
            let lines: Vec<String> = lines.iter().map(|(key, value)| format!("{key}: {value}\n")).collect();
            let file = write("config.yaml", &lines.concat());
            write(".oneshot.json", &json);
            // Each queried variable has one of the values or none, always the same.
            let env = |name: &str| match name {
                "HOME" => Some(home.path().into()),
                "ZSH_TOOL_CONFIG" => Some(file.clone().into()),
                _ => {
                    let place = name.bytes().map(usize::from).sum::<usize>() % variables.len();
                    variables[place].as_ref().map(OsString::from)
                }
            };
            let (config, warnings) = Config::load(&env);
            for warning in &warnings {
                prop_assert!(!warning.text.is_empty());
            }
            prop_assert!(config.timeout_default <= config.timeout_max);
            prop_assert!(config.rows().iter().all(|row| !row.key.is_empty()));
            let (settings, _) = RunSettings::load(&config, &env, Some(home.path()), &RunFlags::default());
            prop_assert!(!settings.settings().is_empty() && !settings.inactivity.is_zero());
        }
    }
}
