//! What the user decides: environment over file over defaults, resolved once.
//!
//! One table, `settings!`, holds every setting: it is the struct's fields, their
//! documentation, the parsing, the printing and the list of known keys. Nothing that is
//! wrong in the environment or in the file stops the program: each fault is a [`Warning`]
//! that names its place and the value in use instead.
//!
//! Limits: reads the environment through a function and one file; knows no argument of
//! the command line. Secrets are no settings, so that all values may be printed: of them
//! only names and sources are known here ([`Secrets`]).

mod address;
mod choices;
mod dirs;
mod endpoint;
mod executors;
mod file;
mod layers;
mod oneshot;
mod resolve;
mod secrets;
mod value;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use address::Address;
use choices::JudgeWord;
use dirs::{state_dir, variable};
use endpoint::{BaseUrl, ModelName, VariableName};
use layers::Given;
use value::{Count, File, Flag, Kind, Names, Program, Size, Time};

pub use choices::{
    ColorChoice, InsightChoice, JudgeChoice, LogLevel, ShellMode, SpoolMode, StuckChoice,
    TaskChoice,
};
pub use dirs::{Env, StateDirError};
pub use executors::{PromptBy, UserExecutor};
pub use layers::{Source, Warning};
pub use oneshot::{RunFlags, RunSettings};
pub use resolve::{Cause, ResolveError, Surroundings};
pub use secrets::{SecretSource, Secrets};

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

/// The longest wait of a call; clients cancel a call after 60 s.
pub const MAX_WAIT: Duration = seconds(50);

/// Programs that are meant to outlive the command that started them: process names, and
/// the main classes of those that run in a Java machine.
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

/// The key of a field: its own name, or the one that it is given.
macro_rules! key_of {
    ($field:ident) => {
        stringify!($field)
    };
    ($field:ident $key:literal) => {
        $key
    };
}

/// Declares every setting once: its documentation, key, type, default, what it takes and
/// the environment's name for it. A key of a mapping inside the file has a name of its own,
/// with a dot.
macro_rules! settings {
    ($(
        $(#[$doc:meta])*
        $field:ident $(as $key:literal)?:
            $type:ty = $default:expr, $kind:expr $(, env $env:literal)?;
    )*) => {
        /// The settings in use. Each field is the key of the file, or says which it is.
        #[derive(Debug, Clone, PartialEq)]
        pub struct Config {
            $( $(#[$doc])* pub $field: $type, )*
            /// The directory that all servers of this user share, or why there is none.
            pub state_dir: Result<PathBuf, StateDirError>,
            /// What `zsh_send` may type by name.
            pub secrets: Secrets,
            /// What the file says of agent runs, not yet resolved.
            oneshot: oneshot::Section,
            /// The agent programs that the user adds or changes.
            pub executors: Vec<UserExecutor>,
            sources: BTreeMap<&'static str, Source>,
        }

        /// Every key that the file may hold.
        pub const KEYS: &[&str] = &[
            $( key_of!($field $($key)?), )* secrets::KEY, oneshot::KEY, executors::KEY,
        ];

        impl Config {
            fn resolve(given: &mut Given<'_>) -> Config {
                let mut sources = BTreeMap::new();
                $(
                    let env_name = [$( $env )?].first().copied();
                    let key = key_of!($field $($key)?);
                    let ($field, source) = given.resolve(key, env_name, &$kind, $default);
                    sources.insert(key, source);
                )*
                let (state_dir, decided_by) = state_dir(given.env);
                if let Some(name) = decided_by {
                    sources.insert(STATE_DIR_KEY, Source::Env { name });
                }
                let (secrets, source) = Secrets::read(given);
                sources.insert(secrets::KEY, source);
                let oneshot = oneshot::Section::read(given);
                let (executors, source) = executors::read(given);
                sources.insert(executors::KEY, source);
                Config { $( $field, )* state_dir, secrets, oneshot, executors, sources }
            }

            /// Every setting with its value and source, for people to read.
            pub fn rows(&self) -> Vec<Row> {
                let mut rows = vec![$(
                    self.row(key_of!($field $($key)?), $kind.show(&self.$field)),
                )*];
                rows.push(self.row(STATE_DIR_KEY, match &self.state_dir {
                    Ok(path) => path.display().to_string(),
                    Err(error) => format!("none: {error}"),
                }));
                rows.push(self.row(secrets::KEY, self.secrets.to_string()));
                rows.push(self.row(executors::KEY, executors::show(&self.executors)));
                rows
            }
        }
    };
}

settings! {
    /// How long a call waits before it returns with the command still running.
    /// Seconds; default 2, from 0 to 50.
    yield_after: Duration = seconds(2), Time::seconds(Duration::ZERO..=MAX_WAIT);

    /// The deadline of a command that names none. Seconds; default 120, from 0.1 to a
    /// week, and at most `timeout_max`.
    timeout_default: Duration = seconds(120),
        Time::seconds(Duration::from_millis(100)..=hours(24 * 7)),
        env "NEVERHANG_TIMEOUT_DEFAULT";

    /// The longest deadline that a call may ask for. Seconds; default 600, from 0.1 to a
    /// week.
    timeout_max: Duration = seconds(600),
        Time::seconds(Duration::from_millis(100)..=hours(24 * 7)),
        env "NEVERHANG_TIMEOUT_MAX";

    /// Whether a call may ask for no deadline at all. Default true.
    allow_no_deadline: bool = true, Flag;

    /// The shell that runs commands: a name in PATH or a path. Default `zsh`.
    shell: String = "zsh".to_owned(), Program;

    /// How that shell reads its startup files. Default plain.
    shell_mode: ShellMode = ShellMode::Plain, ShellMode::WORDS;

    /// A file that is sourced before every command. Default none.
    prelude: Option<PathBuf> = None, File;

    /// Whether a call starts in the directory where the one before it ended. Default
    /// false; for those who run a single agent.
    keep_cwd: bool = false, Flag;

    /// Where output is kept. Default disk.
    spool: SpoolMode = SpoolMode::Disk, SpoolMode::WORDS;

    /// The output that is kept of one task. Bytes; default 256 MiB, from 64 KiB to 1 TiB.
    spool_task_quota: u64 = 256 * MIB, Size(64 * KIB..=TIB);

    /// The output that is kept of all tasks. Bytes; default 2 GiB, from 1 MiB to 64 TiB.
    spool_quota: u64 = 2 * GIB, Size(MIB..=64 * TIB);

    /// How long output is kept after a task's end. Hours; default 24, from 0 to 720.
    spool_keep_hours: Duration = hours(24), Time::hours(Duration::ZERO..=hours(720));

    /// The output that one result shows. Characters; default 30000, from 1000 to 500000.
    max_output: usize = 30_000, Count(1_000..=500_000);

    /// Programs that are neither reported nor ended when they outlive their command:
    /// process names, or main classes of Java programs. Default: the usual agents,
    /// multiplexers and build daemons.
    daemons: Vec<String> = DAEMONS.map(str::to_owned).to_vec(), Names;

    /// Tasks that run at once. Default 64, from 1 to 1024.
    max_tasks: usize = 64, Count(1..=1_024);

    /// Finished tasks that stay readable. Default 1000, from 1 to 100000.
    max_finished_tasks: usize = 1_000, Count(1..=100_000);

    /// The longest command text. Bytes; default 1 MiB, from 1 KiB to 64 MiB.
    max_command: u64 = MIB, Size(KIB..=64 * MIB);

    /// The longest request. Bytes; default 16 MiB, from 64 KiB to 256 MiB.
    max_request: u64 = 16 * MIB, Size(64 * KIB..=256 * MIB);

    /// When results are coloured. Default auto, which `NO_COLOR` turns into never.
    color: ColorChoice = ColorChoice::Auto, ColorChoice::WORDS, env "ZSH_TOOL_COLOR";

    /// Which insights a result carries. Default all.
    insights: InsightChoice = InsightChoice::All, InsightChoice::WORDS;

    /// The database of what commands did. Default: `alan.db` in the state directory.
    alan_db: Option<PathBuf> = None, File, env "ALAN_DB_PATH";

    /// Timeouts of a command within `neverhang_window` after which it is refused for
    /// `neverhang_recovery`. Default 3, from 1 to 100.
    neverhang_threshold: usize = 3, Count(1..=100);

    /// How long a timeout counts. Seconds; default 3600, from 1 to a week.
    neverhang_window: Duration = seconds(3600), Time::seconds(seconds(1)..=hours(24 * 7));

    /// How long a command is refused before it is tried again. Seconds; default 300, from
    /// 0.1 to a day.
    neverhang_recovery: Duration = seconds(300),
        Time::seconds(Duration::from_millis(100)..=hours(24));

    /// How often evidence is taken of whether a task gets on. Seconds; default 10, from
    /// 0.1 to 600.
    heartbeat_interval: Duration = seconds(10),
        Time::seconds(Duration::from_millis(100)..=seconds(600));

    /// Signs of life in a row without anything new after which a task is called stuck.
    /// Default 5, from 1 to 1000.
    stuck_threshold: usize = 5, Count(1..=1_000);

    /// Who judges whether an agent run gets on: `heuristic`, which asks nobody; `openai`,
    /// the endpoint of `openai.base_url`; `command:NAME`, the executor of that name.
    /// Default heuristic.
    judge: JudgeChoice = JudgeChoice::Heuristic, JudgeWord;

    /// Whether runs may be judged while they go on. Default true.
    enable_concurrent_checks: bool = true, Flag;

    /// The OpenAI-compatible endpoint, up to and with its version, as in
    /// `http://127.0.0.1:11434/v1`. Default none: nothing is sent anywhere.
    openai_base_url as "openai.base_url": Option<String> = None, BaseUrl;

    /// The model that is asked there. Default none.
    openai_model as "openai.model": Option<String> = None, ModelName;

    /// The variable of the environment that holds the endpoint's key; where it is not set
    /// no key is sent. Default `OPENAI_API_KEY`.
    openai_api_key_env as "openai.api_key_env": String = "OPENAI_API_KEY".to_owned(),
        VariableName;

    /// Whether options of a program that fails again and again are looked up in its manual
    /// page. Default true.
    manopt_enabled: bool = true, Flag, env "ALAN_MANOPT_ENABLED";

    /// How long such a look-up may take. Seconds; default 2, from 0.1 to 60.
    manopt_timeout: Duration = seconds(2),
        Time::seconds(Duration::from_millis(100)..=seconds(60)), env "ALAN_MANOPT_TIMEOUT";

    /// The failure in a row at which options are looked up. Default 2, from 1 to 1000.
    manopt_fail_trigger: usize = 2, Count(1..=1_000), env "ALAN_MANOPT_FAIL_TRIGGER";

    /// The failure in a row from which on they are shown. Default 3, from 1 to 1000.
    manopt_fail_present: usize = 3, Count(1..=1_000), env "ALAN_MANOPT_FAIL_PRESENT";

    /// Which calls of `zsh` are answered by a task of MCP's tasks extension, where the
    /// client declares it: those that ask for it by `background: true`; always, also those
    /// that would return with the command still running; or none. Default asked.
    mcp_tasks: TaskChoice = TaskChoice::Asked, TaskChoice::WORDS;

    /// Where the server also serves the monitor by HTTP; port 0 takes any that is free.
    /// Default off.
    http: Option<SocketAddr> = None, Address;

    /// What the server's log holds. Default error.
    log: LogLevel = LogLevel::Error, LogLevel::WORDS, env "ZSH_TOOL_LOG";

    /// The file that the log goes to, 0600. Default none: the log goes to stderr.
    log_file: Option<PathBuf> = None, File, env "ZSH_TOOL_LOG_FILE";
}

/// The state directory's name among the sources; it is no key of the file, since all
/// servers and the command line must agree on it.
const STATE_DIR_KEY: &str = "state_dir";

/// One setting as `zsh-tool config` prints it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// Its key.
    pub key: &'static str,
    /// Its value, with the unit.
    pub value: String,
    /// Where the value comes from.
    pub source: Source,
}

impl Config {
    /// The settings of this environment and of the file that it names, with all that is
    /// wrong in them. Never fails.
    pub fn load(env: Env<'_>) -> (Config, Vec<Warning>) {
        let mut given = Given::read(env, KEYS);
        let mut config = Config::resolve(&mut given);
        config.keep_default_timeout_below_max(&mut given.warnings);
        config.obey_no_color(env);
        (config, given.warnings)
    }

    /// Where the value of a setting comes from.
    pub fn source(&self, key: &str) -> Source {
        self.sources.get(key).cloned().unwrap_or(Source::Default)
    }

    fn row(&self, key: &'static str, value: String) -> Row {
        Row {
            key,
            value,
            source: self.source(key),
        }
    }

    /// A default above the maximum is clamped, as a call's own timeout is.
    fn keep_default_timeout_below_max(&mut self, warnings: &mut Vec<Warning>) {
        if self.timeout_default <= self.timeout_max {
            return;
        }
        let (default, max) = (self.timeout_default, self.timeout_max);
        let (of_default, of_max) = (self.source("timeout_default"), self.source("timeout_max"));
        // Who only lowered the maximum has done nothing wrong.
        if of_default != Source::Default {
            warnings.push(Warning {
                place: of_default,
                key: Some("timeout_default".to_owned()),
                text: format!(
                    "{} s is above timeout_max; using {} s ({of_max})",
                    default.as_secs_f64(),
                    max.as_secs_f64()
                ),
            });
        }
        self.timeout_default = max;
        self.sources.insert("timeout_default", of_max);
    }

    /// NO_COLOR (no-color.org): any value but an empty one, unless colour is asked for.
    fn obey_no_color(&mut self, env: Env<'_>) {
        let name = "NO_COLOR";
        if self.color == ColorChoice::Auto && variable(env, name).is_some() {
            self.color = ColorChoice::Never;
            self.sources.insert("color", Source::Env { name });
        }
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

    /// Loads a file of this text under this environment; `HOME` is a new directory.
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

    /// The one warning, with the file's path left out.
    fn only_warning(yaml: &str, variables: &[(&str, &str)]) -> String {
        let (_, warnings, path) = load(yaml, variables);
        let texts: Vec<String> = warnings.iter().map(Warning::to_string).collect();
        assert_eq!(texts.len(), 1, "{texts:?}");
        texts.concat().replace(&path.display().to_string(), "FILE")
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
        assert!(
            config
                .rows()
                .iter()
                .all(|row| row.source == Source::Default)
        );
    }

    #[test]
    fn every_default_is_a_value_that_its_setting_takes() {
        for row in Config::default().rows() {
            let written = row.value.trim_end_matches(" s").trim_end_matches(" h");
            // No file is what nobody can ask for, and the directory is no key.
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
            assert_eq!(config.source(row.key), Source::File { path, line });
            let again = config.rows().into_iter().find(|again| again.key == row.key);
            assert_eq!(again.map(|again| again.value), Some(row.value));
        }
    }

    #[test]
    fn the_environment_goes_over_the_file_and_the_file_over_the_default() {
        let (config, warnings, path) = load(
            "# mine\ntimeout_default: 30\ntimeout_max: 90\n",
            &[("NEVERHANG_TIMEOUT_MAX", "300.5")],
        );
        assert_eq!(warnings, []);
        assert_eq!(config.timeout_default, Duration::from_secs(30));
        assert_eq!(config.timeout_max, Duration::from_millis(300_500));
        let line = Some(2);
        assert_eq!(
            config.source("timeout_default"),
            Source::File { path, line }
        );
        let name = "NEVERHANG_TIMEOUT_MAX";
        assert_eq!(config.source("timeout_max"), Source::Env { name });
        assert_eq!(config.source("max_tasks"), Source::Default);
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
                "yield_after: 51",
                "FILE:1: yield_after: expected a time from 0 s to 50 s, found 51; \
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
    fn a_bad_variable_falls_back_to_the_file_and_says_so() {
        assert_eq!(
            only_warning(
                "timeout_max: 300",
                &[("NEVERHANG_TIMEOUT_MAX", "ten minutes")]
            ),
            "$NEVERHANG_TIMEOUT_MAX: timeout_max: expected a time from 0.1 s to 604800 s, \
             found \"ten minutes\"; using 300 s (FILE:1)"
        );
    }

    #[test]
    fn a_key_given_twice_takes_the_later_one_and_says_so() {
        let yaml = "max_tasks: 3\nmax_tasks: 5\n";
        assert_eq!(
            only_warning(yaml, &[]),
            "FILE:2: max_tasks: given twice; line 1 is ignored"
        );
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
        assert_eq!(config.source("timeout_max"), Source::Default);
    }

    #[test]
    fn a_syntax_error_leaves_the_defaults_and_names_the_line() {
        let (config, warnings, path) = load("max_tasks: 3\nshell: [zsh\n", &[]);
        assert_eq!(config.max_tasks, 64);
        assert_eq!(warnings.len(), 1);
        assert!(
            matches!(&warnings[0].place, Source::File { path: at, line: Some(2..=3) } if *at == path),
            "{warnings:?}"
        );
        assert!(warnings[0].text.ends_with("; nothing of it is used"));
    }

    #[test]
    fn a_missing_file_is_fine_unless_it_was_asked_for() {
        let home = tempfile::tempdir().unwrap();
        let (_, warnings) = Config::load(&|name| (name == "HOME").then(|| home.path().into()));
        assert_eq!(warnings, []);
        let missing = home.path().join("mine.yaml");
        let (_, warnings) =
            Config::load(&|name| (name == "ZSH_TOOL_CONFIG").then(|| missing.clone().into()));
        let text = format!(
            "{}: there is no such file; nothing of it is used",
            missing.display()
        );
        assert_eq!(
            warnings.iter().map(Warning::to_string).collect::<Vec<_>>(),
            [text]
        );
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
            [
                "$ZSH_TOOL_COLOR: color: expected one of auto, always, never, \
              found a value that is not UTF-8; using auto (default)"
            ]
        );
    }

    #[test]
    fn no_color_decides_only_where_nothing_else_does() {
        let color = |yaml: &str, variables: &[(&str, &str)]| load(yaml, variables).0.color;
        assert_eq!(color("", &[("NO_COLOR", "1")]), ColorChoice::Never);
        assert_eq!(color("", &[("NO_COLOR", "")]), ColorChoice::Auto);
        assert_eq!(
            color("color: always", &[("NO_COLOR", "1")]),
            ColorChoice::Always
        );
        let both = [("NO_COLOR", "1"), ("ZSH_TOOL_COLOR", "always")];
        assert_eq!(color("color: never", &both), ColorChoice::Always);
    }

    #[test]
    fn a_default_timeout_above_the_maximum_is_clamped_and_said() {
        assert_eq!(
            only_warning("timeout_default: 900", &[]),
            "FILE:1: timeout_default: 900 s is above timeout_max; using 600 s (default)"
        );
        let (config, warnings, _) = load("timeout_max: 60", &[]);
        assert_eq!(warnings, []);
        assert_eq!(config.timeout_default, Duration::from_secs(60));
    }

    /// A value as a file or a variable may hold it.
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
        fn whatever_is_configured_it_is_used_or_warned_of(
            lines in prop::collection::vec((prop::sample::select(KEYS.to_vec()), any_value()), 0..8),
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
            // Each variable that is asked for has one of the values or none, always the same.
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
            let (settings, _) = RunSettings::load(&config, &env, home.path(), &RunFlags::default());
            prop_assert!(!settings.rows().is_empty() && !settings.inactivity.is_zero());
        }
    }
}
