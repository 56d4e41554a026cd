//! The settings of agent runs: flags over environment over files.
//!
//! The files, in order of precedence: `.oneshot.json` in the working directory, `.oneshot.json` in
//! the home directory, `oneshot: {…}` in `config.yaml`. Each may contain some of the keys. An error
//! in one file causes a warning, and the value of the next one is used.
//!
//! Limits: `.oneshot.json` may come with a repository, so it only accepts settings of runs: no
//! programs, no endpoints, no names of keys; and it raises no limit that the user has set. Whether
//! the user agrees to it is the caller's to ask. Does not check whether an executor or a judge
//! exists.

use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::choices::StuckChoice;
use super::dirs::{Env, directory};
use super::file::{self, FileError};
use super::layers::{Layer, SettingSource, Sources, Warning, check_key};
use super::value::{
    COMMAND_LINE, Choice, CommandLines, Count, Flag, NAME, Optional, Raw, Time, ValueParser,
    expected,
};
use super::{Config, Row, SettingHelp, key_of, option_of, settings};

/// The section of `config.yaml`.
pub(super) const KEY: &str = "oneshot";

/// In place of an auditor's executor: the checks alone judge.
pub(crate) const NO_AUDITOR: &str = "none";

/// The file's name in the working directory and in the home directory.
const FILE_NAME: &str = ".oneshot.json";

/// Keys that a repository's file must not set: sections of `config.yaml`, programs to run, what
/// they may do and where, and how long other runs are kept.
const CONFIG_YAML_ONLY: [&str; 9] = [
    "executors",
    "hosts",
    "openai",
    "secrets",
    "check",
    "then",
    "allow_edits",
    "worktree",
    "keep_days",
];

const DAY: Duration = Duration::from_secs(24 * 3600);

/// The longest configurable times: a week, and a month for a whole run.
const WEEK: Duration = Duration::from_secs(7 * 24 * 3600);
const MONTH: Duration = Duration::from_secs(30 * 24 * 3600);

/// The shortest inactivity limit; no agent can answer in less time.
const MIN_INACTIVITY: Duration = Duration::from_millis(100);

/// Declares the settings of runs as [`settings`] does, each with its flag.
macro_rules! run_settings {
    ($(
        $(#[doc = $doc:literal])*
        $key:ident: $type:ty = $default:expr, $parser:expr, env $env:literal, flag $flag:literal;
    )*) => {
        settings! {
            /// The settings of a run.
            RunSettings "oneshot." {
                /// The file of the directory of the run, if it is not the user's own.
                pub(crate) project: Option<PathBuf>,
            }
            $( $(#[doc = $doc])* $key: $type = $default, $parser, env $env; )*
        }

        /// The settings from the command line.
        #[derive(Debug, Clone, PartialEq, Default)]
        pub(crate) struct RunFlags {
            $( $(#[doc = $doc])* pub(crate) $key: Option<$type>, )*
        }

        impl RunSettings {
            fn apply(&mut self, flags: &RunFlags) {
                $( if let Some(value) = &flags.$key {
                    self.$key = value.clone();
                    self.origins.insert(stringify!($key), SettingSource::Flag { name: $flag });
                } )*
            }
        }
    };
}

run_settings! {
    /// The worker's executor. Default claude.
    executor: String = "claude".to_owned(), NAME,
        env "ONESHOT_EXECUTOR", flag "--executor";

    /// The auditor's executor, or `none`: then the checks alone judge. Default: the worker's.
    auditor: Option<String> = None, Optional(NAME, "the executor"),
        env "ONESHOT_AUDITOR", flag "--auditor";

    /// Command lines that check each worker's result, such as `make test`. Default: none.
    check: Vec<String> = Vec::new(), CommandLines,
        env "ONESHOT_CHECK", flag "--check";

    /// How long a check may take. Seconds; default 1800, from 0.1 to a week.
    check_timeout: Duration = Duration::from_secs(1800), Time::seconds(MIN_INACTIVITY..=WEEK),
        env "ONESHOT_CHECK_TIMEOUT", flag "--check-timeout";

    /// The model for the worker. Default: its program's own.
    model: Option<String> = None, Optional(NAME, "none"),
        env "ONESHOT_MODEL", flag "--model";

    /// The model for the auditor. Default: its program's own.
    auditor_model: Option<String> = None, Optional(NAME, "none"),
        env "ONESHOT_AUDITOR_MODEL", flag "--auditor-model";

    /// The most iterations of a run. Default 5, from 1 to 1000.
    max_iterations: NonZeroU32 = DEFAULT_ITERATIONS, Iterations,
        env "ONESHOT_MAX_ITERATIONS", flag "--max-iterations";

    /// How long an agent may be silent before it is stopped. Seconds; default 300, from 0.1 to a week.
    inactivity: Duration = Duration::from_secs(300), Time::seconds(MIN_INACTIVITY..=WEEK),
        env "ONESHOT_INACTIVITY", flag "--inactivity";

    /// How long a whole run may take. Seconds; default 0 (no limit), at most a month.
    max_runtime: Duration = Duration::ZERO, Time::seconds(Duration::ZERO..=MONTH),
        env "ONESHOT_MAX_RUNTIME", flag "--max-runtime";

    /// How long to wait in all for an agent's endpoint that fails for now: rate limits, errors of the
    /// server, refused connections. Seconds; default 21600 (6 hours), 0 for not at all, at most a month.
    wait_limit: Duration = Duration::from_secs(6 * 3600), Time::seconds(Duration::ZERO..=MONTH),
        env "ONESHOT_WAIT_LIMIT", flag "--wait-limit";

    /// What the agents of a run may cost together, as far as they report it. US dollars; default 0 (no
    /// limit).
    max_cost: f64 = 0.0, Dollars,
        env "ONESHOT_MAX_COST", flag "--max-cost";

    /// How many tokens they may use together, as far as they report it. Default 0 (no limit).
    max_tokens: usize = 0, Count(0..=usize::MAX),
        env "ONESHOT_MAX_TOKENS", flag "--max-tokens";

    /// Whether workers get their program's permission to change files. Default false.
    allow_edits: bool = false, Flag,
        env "ONESHOT_ALLOW_EDITS", flag "--allow-edits";

    /// Whether a run works in a git work tree of its own. Default false.
    worktree: bool = false, Flag,
        env "ONESHOT_WORKTREE", flag "--worktree";

    /// A command line to run when a run has ended, with ONESHOT_ID, ONESHOT_STATE, ONESHOT_REASON and
    /// ONESHOT_DIRECTORY in its environment. Default: none.
    then: Option<String> = None, Optional(COMMAND_LINE, "none"),
        env "ONESHOT_THEN", flag "--then";

    /// What to do about an agent that is stuck: `auto`, `ask`, `wait`, `recover` or `fail`.
    /// Default auto.
    on_stuck: StuckChoice = StuckChoice::Auto, Choice::new(),
        env "ONESHOT_ON_STUCK", flag "--on-stuck";

    /// The judge that decides whether an agent is stuck. Default: `judge`.
    judge: Option<String> = None, Optional(NAME, "the judge"),
        env "ONESHOT_JUDGE", flag "--judge";

    /// How often progress is measured. Seconds; default: `heartbeat_interval`; from 0.1 to 600.
    heartbeat: Option<Duration> = None,
        Optional(
            Time::seconds(Duration::from_millis(100)..=Duration::from_secs(600)),
            "heartbeat_interval"
        ),
        env "ONESHOT_HEARTBEAT", flag "--heartbeat";

    /// After how many consecutive measurements without progress an agent counts as stuck. Default:
    /// `stuck_threshold`; from 1 to 1000.
    stuck_threshold: Option<usize> = None, Optional(Count(1..=1_000), "stuck_threshold"),
        env "ONESHOT_STUCK_THRESHOLD", flag "--stuck-threshold";

    /// After how many days a new run removes a finished run that cannot be resumed. Default 30;
    /// from 0 (never) to 36500.
    keep_days: usize = 30, Count(0..=36_500),
        env "ONESHOT_KEEP_DAYS", flag "--keep-days";
}

const DEFAULT_ITERATIONS: NonZeroU32 = NonZeroU32::new(5).unwrap();

struct Iterations;

impl ValueParser for Iterations {
    type Value = NonZeroU32;

    fn read(&self, raw: &Raw, home: Option<&Path>) -> Result<NonZeroU32, String> {
        let count = Count(1..=1_000).read(raw, home)?;
        let count = u32::try_from(count).ok().and_then(NonZeroU32::new);
        Ok(count.unwrap_or(DEFAULT_ITERATIONS))
    }

    fn show(&self, value: &NonZeroU32) -> String {
        value.to_string()
    }
}

/// An amount of money, 0 or more.
struct Dollars;

impl ValueParser for Dollars {
    type Value = f64;

    fn read(&self, raw: &Raw, _: Option<&Path>) -> Result<f64, String> {
        let amount = raw.word().and_then(|word| word.trim().parse::<f64>().ok());
        let amount = amount.filter(|amount| amount.is_finite() && *amount >= 0.0);
        amount.ok_or_else(|| expected("an amount of dollars, such as 2.5", raw))
    }

    fn show(&self, value: &f64) -> String {
        value.to_string()
    }
}

impl RunSettings {
    /// The settings for a run, and the errors found in them. `project` is the directory whose file
    /// is read too. Never fails.
    pub(crate) fn load(
        config: &Config,
        env: Env<'_>,
        project: Option<&Path>,
        flags: &RunFlags,
    ) -> (RunSettings, Vec<Warning>) {
        let home = directory(env, "HOME");
        let mut sources = Sources::new(env);
        // No setting of a run is a path in the home directory.
        sources.home = None;
        sources.add_variables("oneshot.", RunSettings::VARIABLES);
        let project = project.filter(|directory| home.as_deref() != Some(directory));
        let project = project.and_then(|directory| add_file(&mut sources, directory));
        if let Some(home) = home {
            add_file(&mut sources, &home);
        }
        sources.layers.push(config.oneshot.clone());
        let own = project.as_ref().map(|file| sources.without(file));
        let mut settings = RunSettings::resolve(&mut sources, project);
        if let Some(mut own) = own {
            let limits = RunSettings::resolve(&mut own, None);
            sources.warnings.extend(settings.lower_to(&limits));
        }
        settings.apply(flags);
        (settings, sources.warnings)
    }

    /// The settings whose values come from the project's file.
    pub(crate) fn project_rows(&self) -> Vec<Row> {
        let is_of_project = |row: &Row| match &row.source {
            SettingSource::File { path, .. } => Some(path) == self.project.as_ref(),
            _ => false,
        };
        self.settings().into_iter().filter(is_of_project).collect()
    }

    /// Lowers the limits on what a run may cost to those that the user has set, and says so.
    fn lower_to(&mut self, own: &RunSettings) -> Vec<Warning> {
        let exceeds = |key: &str, is_higher: bool| {
            let is_of_project = self.project_rows().iter().any(|row| row.key.ends_with(key));
            is_of_project && is_higher && own.source(key) != SettingSource::Default
        };
        let longest = |settings: &RunSettings| settings.max_runtime().unwrap_or(Duration::MAX);
        let dollars = |settings: &RunSettings| settings.max_cost().unwrap_or(f64::INFINITY);
        let count = |settings: &RunSettings| settings.max_tokens().unwrap_or(u64::MAX);
        let lowered = [
            ("max_iterations", self.max_iterations > own.max_iterations),
            ("max_runtime", longest(self) > longest(own)),
            ("max_cost", dollars(self) > dollars(own)),
            ("max_tokens", count(self) > count(own)),
        ]
        .map(|(key, is_higher)| (key, exceeds(key, is_higher)));
        for (key, _) in lowered.iter().filter(|(_, is_lowered)| *is_lowered) {
            match *key {
                "max_iterations" => self.max_iterations = own.max_iterations,
                "max_runtime" => self.max_runtime = own.max_runtime,
                "max_cost" => self.max_cost = own.max_cost,
                _ => self.max_tokens = own.max_tokens,
            }
        }
        let lowered = lowered.into_iter().filter(|(_, is_lowered)| *is_lowered);
        lowered
            .filter_map(|(key, _)| {
                let own = own.source(key);
                let text = format!("a project raises no limit of the user; using that of {own}");
                let source = self.origins.insert(key, own)?;
                Some(Warning { source, key: Some(key.to_owned()), text })
            })
            .collect()
    }

    /// The auditor's executor; `None` if there is none.
    pub(crate) fn auditor(&self) -> Option<&str> {
        let auditor = self.auditor.as_deref().unwrap_or(&self.executor);
        (auditor != NO_AUDITOR).then_some(auditor)
    }

    /// How long to keep finished runs; `None` means forever.
    pub(crate) fn keep(&self) -> Option<Duration> {
        let days = u32::try_from(self.keep_days).ok()?;
        (days > 0).then(|| days * DAY)
    }

    /// The time limit of the whole run, if any.
    pub(crate) fn max_runtime(&self) -> Option<Duration> {
        (!self.max_runtime.is_zero()).then_some(self.max_runtime)
    }

    /// What the agents may cost, if that is limited.
    pub(crate) fn max_cost(&self) -> Option<f64> {
        (self.max_cost > 0.0).then_some(self.max_cost)
    }

    /// How many tokens they may use, if that is limited.
    pub(crate) fn max_tokens(&self) -> Option<u64> {
        (self.max_tokens > 0).then_some(self.max_tokens as u64)
    }
}

/// Takes the section of `config.yaml` from the sources.
pub(super) fn read_section(sources: &mut Sources<'_>) -> Layer {
    let Some((file, fields)) = sources.section(KEY, "a mapping of settings; ignored") else {
        return Layer::new();
    };
    let known = |key: &str| check_key(key, RunSettings::KEYS);
    sources.layer(&file, fields, "oneshot.", &known)
}

/// Adds `.oneshot.json` of this directory, if there is one. Returns its path.
fn add_file(sources: &mut Sources<'_>, directory: &Path) -> Option<PathBuf> {
    let path = directory.join(FILE_NAME);
    let entries = match file::read_json(&path) {
        Err(FileError::Missing) => return None,
        entries => entries,
    };
    sources.add_file(path.clone(), entries, &|key| {
        if CONFIG_YAML_ONLY.contains(&key) {
            return Err("allowed only in config.yaml, ignored".to_owned());
        }
        check_key(key, RunSettings::KEYS)
    });
    Some(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    struct Place {
        home: tempfile::TempDir,
        work: tempfile::TempDir,
    }

    impl Place {
        fn new() -> Place {
            Place { home: tempfile::tempdir().unwrap(), work: tempfile::tempdir().unwrap() }
        }

        fn common(&self, yaml: &str) {
            let folder = self.home.path().join(".config/zsh-tool");
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("config.yaml"), yaml).unwrap();
        }

        fn load(&self, variables: &[(&str, &str)], flags: &RunFlags) -> (RunSettings, Vec<String>) {
            let env = |name: &str| match name {
                "HOME" => Some(self.home.path().into()),
                _ => {
                    let (_, value) = variables.iter().find(|(known, _)| *known == name)?;
                    Some(value.into())
                }
            };
            let (config, mut warnings) = Config::load(&env);
            let (settings, of_runs) =
                RunSettings::load(&config, &env, Some(self.work.path()), flags);
            warnings.extend(of_runs);
            let warnings = warnings.iter().map(Warning::to_string);
            let home = self.home.path().to_string_lossy().into_owned();
            let work = self.work.path().to_string_lossy().into_owned();
            let warnings = warnings.map(|text| text.replace(&home, "HOME").replace(&work, "WORK"));
            (settings, warnings.collect())
        }
    }

    fn file(directory: &tempfile::TempDir, json: &str) {
        fs::write(directory.path().join(FILE_NAME), json).unwrap();
    }

    #[test]
    fn each_layer_overrides_the_lower_ones() {
        let place = Place::new();
        let flags = RunFlags::default();
        let iterations = |place: &Place, variables: &[(&str, &str)], flags: &RunFlags| {
            let (settings, warnings) = place.load(variables, flags);
            assert_eq!(warnings, Vec::<String>::new());
            settings.max_iterations.get()
        };
        assert_eq!(iterations(&place, &[], &flags), 5);
        place.common("oneshot: {max_iterations: 6}\nmax_tasks: 3\n");
        assert_eq!(iterations(&place, &[], &flags), 6);
        file(&place.home, "{\"max_iterations\": 7, \"model\": \"large\"}");
        assert_eq!(iterations(&place, &[], &flags), 7);
        file(&place.work, "{\n\t\"max_iterations\": 4\n}");
        assert_eq!(iterations(&place, &[], &flags), 4);
        let variables = [("ONESHOT_MAX_ITERATIONS", "9")];
        assert_eq!(iterations(&place, &variables, &flags), 9);
        let flags = RunFlags { max_iterations: NonZeroU32::new(10), ..flags };
        assert_eq!(iterations(&place, &variables, &flags), 10);
        let (settings, _) = place.load(&variables, &flags);
        let name = "--max-iterations";
        assert_eq!(settings.source("max_iterations"), SettingSource::Flag { name });
        // Files may be partial: the next file supplies missing keys.
        assert_eq!(settings.model.as_deref(), Some("large"));
        assert_eq!(settings.inactivity, Duration::from_secs(300));
    }

    #[test]
    fn a_project_raises_no_limit_of_the_user() {
        let flags = RunFlags::default();
        let place = Place::new();
        file(&place.work, "{\"max_iterations\": 1000, \"max_runtime\": 0, \"model\": \"large\"}");
        // The user has set none.
        let (settings, warnings) = place.load(&[], &flags);
        assert_eq!((settings.max_iterations.get(), warnings), (1000, Vec::new()));
        let keys = |settings: &RunSettings| {
            settings.project_rows().iter().map(|row| row.key).collect::<Vec<_>>()
        };
        let all = ["oneshot.model", "oneshot.max_iterations", "oneshot.max_runtime"];
        assert_eq!(keys(&settings), all);
        place.common("oneshot: {max_iterations: 2, max_runtime: 60}\n");
        let (settings, warnings) = place.load(&[], &flags);
        assert_eq!(settings.max_iterations.get(), 2);
        assert_eq!(settings.max_runtime(), Some(Duration::from_secs(60)));
        assert_eq!(keys(&settings), ["oneshot.model"]);
        let text = "WORK/.oneshot.json:1: max_iterations: a project raises no limit of the user; \
                    using that of HOME/.config/zsh-tool/config.yaml:1";
        assert!(warnings.len() == 2 && warnings[0] == text, "{warnings:?}");
        // The command line and the environment may.
        let flags = RunFlags { max_iterations: NonZeroU32::new(10), ..flags };
        assert_eq!(place.load(&[], &flags).0.max_iterations.get(), 10);
        assert_eq!(
            place.load(&[("ONESHOT_MAX_ITERATIONS", "9")], &flags).0.project_rows().len(),
            1
        );
        // A project's lower limits hold.
        file(&place.work, "{\"max_iterations\": 1, \"max_runtime\": 30}");
        let (settings, warnings) = place.load(&[], &RunFlags::default());
        assert_eq!((settings.max_iterations.get(), warnings), (1, Vec::new()));
        assert_eq!(settings.max_runtime(), Some(Duration::from_secs(30)));
    }

    #[test]
    fn the_file_of_the_home_directory_is_the_users_own() {
        let place = Place::new();
        file(&place.home, "{\"max_iterations\": 8}");
        let env = |name: &str| (name == "HOME").then(|| place.home.path().into());
        let (config, _) = Config::load(&env);
        let project = Some(place.home.path());
        let (settings, _) = RunSettings::load(&config, &env, project, &RunFlags::default());
        assert_eq!((settings.max_iterations.get(), settings.project_rows().len()), (8, 0));
    }

    #[test]
    fn errors_are_named_and_the_next_layer_is_used() {
        let place = Place::new();
        place.common("oneshot:\n  max_iterations: 6\n  colour: red\n");
        file(
            &place.work,
            "{\n \"max_iterations\": 0,\n \"inactvity\": 5,\n \"openai\": {\"base_url\": \"http://evil\"}\n}",
        );
        let (settings, warnings) =
            place.load(&[("ONESHOT_ON_STUCK", "panic")], &RunFlags::default());
        assert_eq!(settings.max_iterations.get(), 6);
        let (common, own) = ("HOME/.config/zsh-tool/config.yaml", "WORK/.oneshot.json");
        assert_eq!(
            warnings,
            [
                format!(
                    "{common}:3: oneshot.colour: unknown setting, ignored; `zsh-tool config` lists the known ones"
                ),
                format!("{own}:3: inactvity: unknown setting, ignored; did you mean inactivity?"),
                format!("{own}:4: openai: allowed only in config.yaml, ignored"),
                format!(
                    "{own}:2: max_iterations: expected a whole number from 1 to 1000, found 0; using 6 ({common}:2)"
                ),
                "$ONESHOT_ON_STUCK: on_stuck: expected one of auto, ask, wait, recover, fail, \
                 found \"panic\"; using auto (default)"
                    .to_owned(),
            ]
        );
    }

    #[test]
    fn a_file_without_a_json_object_is_named_with_its_line() {
        for (text, line) in [("{\n\"model\": x}", ":2"), ("[1]", ":1"), ("{\"a\":1,\n", ":2")] {
            let place = Place::new();
            file(&place.work, text);
            let (settings, warnings) = place.load(&[], &RunFlags::default());
            assert_eq!(settings.max_iterations, DEFAULT_ITERATIONS);
            let start = format!("WORK/.oneshot.json{line}: is not a JSON object");
            assert!(warnings.len() == 1 && warnings[0].starts_with(&start), "{warnings:?}");
        }
        let place = Place::new();
        file(&place.work, " \n");
        assert_eq!(place.load(&[], &RunFlags::default()).1, Vec::<String>::new());
    }

    #[test]
    fn the_auditor_is_the_executor_unless_set() {
        let place = Place::new();
        file(&place.work, "{\"executor\": \"codex\", \"max_runtime\": 1.5}");
        let (settings, _) = place.load(&[], &RunFlags::default());
        assert_eq!((settings.executor.as_str(), settings.auditor()), ("codex", Some("codex")));
        assert_eq!(settings.max_runtime(), Some(Duration::from_millis(1500)));
        let (settings, _) = place.load(&[("ONESHOT_AUDITOR", "claude")], &RunFlags::default());
        assert_eq!(settings.auditor(), Some("claude"));
    }
}
