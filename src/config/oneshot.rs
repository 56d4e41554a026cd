//! The settings of agent runs: flags over environment over files.
//!
//! The files are `.oneshot.json` in the working directory, the same in the home directory,
//! and `oneshot: {…}` in the common one, in this order. Each may hold some of the keys;
//! what is wrong in one is a warning, and the next one's value is in use.
//!
//! Limits: `.oneshot.json` may come with a repository, so that it takes the settings of
//! runs alone: no programs, no endpoints, nothing that names a key. Whether an executor or
//! a judge of such a name exists is not known here.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use super::choices::StuckChoice;
use super::dirs::{Env, directory, variable};
use super::file::{self, FileError};
use super::layers::{Given, Source, Warning, choose, unknown_key};
use super::value::{Count, Field, Kind, Maybe, Raw, Time, Word};
use super::{Config, Row};

/// The key of the common file.
pub(super) const KEY: &str = "oneshot";

/// The file in the working directory and in the home directory.
const FILE_NAME: &str = ".oneshot.json";

/// Sections of the common file that a repository's file must not replace.
const COMMON_ONLY: [&str; 3] = ["executors", "openai", "secrets"];

/// The longest times that can be asked for: a week, and a month for all of a run.
const WEEK: Duration = Duration::from_secs(7 * 24 * 3600);
const MONTH: Duration = Duration::from_secs(30 * 24 * 3600);

/// Shorter than this no agent could answer.
const LEAST_INACTIVITY: Duration = Duration::from_millis(100);

/// Declares every setting of runs once: its documentation, key, type, default, what it
/// takes, its variable and its flag.
macro_rules! run_settings {
    ($(
        $(#[$doc:meta])*
        $key:ident: $type:ty = $default:expr, $kind:expr, $row:literal, $env:literal, $flag:literal;
    )*) => {
        /// How a run is to go on, resolved.
        #[derive(Debug, Clone, PartialEq)]
        pub struct RunSettings {
            $( $(#[$doc])* pub $key: $type, )*
            sources: BTreeMap<&'static str, Source>,
        }

        /// What the command line asks for.
        #[derive(Debug, Clone, PartialEq, Default)]
        pub struct RunFlags {
            $( $(#[$doc])* pub $key: Option<$type>, )*
        }

        const KEYS: &[&str] = &[$( stringify!($key), )*];
        const VARIABLES: &[(&str, &str)] = &[$( (stringify!($key), $env), )*];

        impl RunSettings {
            fn resolve(flags: &RunFlags, layers: &mut Layers) -> RunSettings {
                let mut sources = BTreeMap::new();
                $(
                    let ($key, source) = layers.resolve(stringify!($key), &$kind, $default);
                    let ($key, source) = match &flags.$key {
                        Some(value) => (value.clone(), Source::Flag { name: $flag }),
                        None => ($key, source),
                    };
                    sources.insert(stringify!($key), source);
                )*
                RunSettings { $( $key, )* sources }
            }

            /// Every setting with its value and source, for people to read.
            pub fn rows(&self) -> Vec<Row> {
                vec![$( Row {
                    key: $row,
                    value: $kind.show(&self.$key),
                    source: self.source(stringify!($key)),
                }, )*]
            }
        }
    };
}

run_settings! {
    /// The worker's executor. Default claude.
    executor: String = "claude".to_owned(), Word,
        "oneshot.executor", "ONESHOT_EXECUTOR", "--executor";

    /// The auditor's executor. Default: the worker's.
    auditor: Option<String> = None, Maybe(Word, "the executor"),
        "oneshot.auditor", "ONESHOT_AUDITOR", "--auditor";

    /// The model that the worker is asked to use. Default: its program's own.
    model: Option<String> = None, Maybe(Word, "none"),
        "oneshot.model", "ONESHOT_MODEL", "--model";

    /// The model that the auditor is asked to use. Default: its program's own.
    auditor_model: Option<String> = None, Maybe(Word, "none"),
        "oneshot.auditor_model", "ONESHOT_AUDITOR_MODEL", "--auditor-model";

    /// How many iterations there may be. Default 5, from 1 to 1000.
    max_iterations: NonZeroU32 = DEFAULT_ITERATIONS, Iterations,
        "oneshot.max_iterations", "ONESHOT_MAX_ITERATIONS", "--max-iterations";

    /// Silence after which an agent is given up. Seconds; default 300, from 0.1 to a week.
    inactivity: Duration = Duration::from_secs(300), Time::seconds(LEAST_INACTIVITY..=WEEK),
        "oneshot.inactivity", "ONESHOT_INACTIVITY", "--inactivity";

    /// How long all of a run may take. Seconds; default 0, which is no limit, to a month.
    max_runtime: Duration = Duration::ZERO, Time::seconds(Duration::ZERO..=MONTH),
        "oneshot.max_runtime", "ONESHOT_MAX_RUNTIME", "--max-runtime";

    /// What is done about an agent that is stuck. Default auto.
    on_stuck: StuckChoice = StuckChoice::Auto, StuckChoice::WORDS,
        "oneshot.on_stuck", "ONESHOT_ON_STUCK", "--on-stuck";

    /// Who judges whether an agent is stuck. Default: the judge of the common file.
    judge: Option<String> = None, Maybe(Word, "the judge"),
        "oneshot.judge", "ONESHOT_JUDGE", "--judge";

    /// How often evidence is taken. Seconds; default: `heartbeat_interval`; from 0.1 to 600.
    heartbeat: Option<Duration> = None,
        Maybe(
            Time::seconds(Duration::from_millis(100)..=Duration::from_secs(600)),
            "heartbeat_interval"
        ),
        "oneshot.heartbeat", "ONESHOT_HEARTBEAT", "--heartbeat";

    /// Signs of life in a row without anything new after which an agent is called stuck.
    /// Default: `stuck_threshold`; from 1 to 1000.
    stuck_threshold: Option<usize> = None, Maybe(Count(1..=1_000), "stuck_threshold"),
        "oneshot.stuck_threshold", "ONESHOT_STUCK_THRESHOLD", "--stuck-threshold";
}

const DEFAULT_ITERATIONS: NonZeroU32 = NonZeroU32::new(5).unwrap();

/// A number of iterations.
struct Iterations;

impl Kind for Iterations {
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

impl RunSettings {
    /// The settings for a run in `directory`, with all that is wrong in them. Never fails.
    pub fn load(
        config: &Config,
        env: Env<'_>,
        directory_of_run: &Path,
        flags: &RunFlags,
    ) -> (RunSettings, Vec<Warning>) {
        let mut layers = Layers::default();
        layers.add_environment(env);
        layers.add_file(directory_of_run);
        if let Some(home) = directory(env, "HOME")
            && home != directory_of_run
        {
            layers.add_file(&home);
        }
        layers.add_section(&config.oneshot);
        let settings = RunSettings::resolve(flags, &mut layers);
        (settings, layers.warnings)
    }

    /// Where the value of a setting comes from.
    pub fn source(&self, key: &str) -> Source {
        self.sources.get(key).cloned().unwrap_or(Source::Default)
    }

    /// The auditor's executor.
    pub fn auditor(&self) -> &str {
        self.auditor.as_deref().unwrap_or(&self.executor)
    }

    /// How long all of the run may take.
    pub fn max_runtime(&self) -> Option<Duration> {
        (!self.max_runtime.is_zero()).then_some(self.max_runtime)
    }
}

/// What the common file says.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Section(Vec<(Source, Field)>);

impl Section {
    /// Takes it out of what the file gives.
    pub(super) fn read(given: &mut Given<'_>) -> Section {
        match given.take(KEY) {
            None | Some((_, Raw::Null)) => Section::default(),
            Some((_, Raw::Map(fields))) => {
                let known = fields.into_iter().filter(|field| {
                    let is_known = KEYS.contains(&field.key.as_str());
                    if !is_known {
                        let key = format!("{KEY}.{}", field.key);
                        let text = unknown_key(&field.key, KEYS);
                        given.warn_of_file(Some(field.line), Some(key), text);
                    }
                    is_known
                });
                let known: Vec<Field> = known.collect();
                let placed = known.into_iter();
                Section(
                    placed
                        .map(|field| (given.place(field.line), field))
                        .collect(),
                )
            }
            Some((line, _)) => {
                let text = "expected a mapping of settings; ignored".to_owned();
                given.warn_of_file(Some(line), Some(KEY.to_owned()), text);
                Section::default()
            }
        }
    }
}

/// The layers below the flags, the strongest first.
#[derive(Default)]
struct Layers {
    layers: Vec<BTreeMap<String, (Source, Raw)>>,
    warnings: Vec<Warning>,
}

impl Layers {
    fn add_environment(&mut self, env: Env<'_>) {
        let given = VARIABLES.iter().filter_map(|(key, name)| {
            let value = variable(env, name)?;
            Some((
                (*key).to_owned(),
                (Source::Env { name }, Raw::of_env(value)),
            ))
        });
        self.layers.push(given.collect());
    }

    fn add_section(&mut self, section: &Section) {
        let given = section.0.iter();
        let given =
            given.map(|(place, field)| (field.key.clone(), (place.clone(), field.value.clone())));
        self.layers.push(given.collect());
    }

    fn add_file(&mut self, directory: &Path) {
        let path = directory.join(FILE_NAME);
        let place = |line| Source::File {
            path: path.clone(),
            line,
        };
        let entries = match file::read_bytes(&path).and_then(|bytes| parse(&bytes)) {
            Ok(entries) => entries,
            Err(FileError::Missing) => return,
            Err(error) => {
                self.warnings.push(Warning {
                    place: place(error.line()),
                    key: None,
                    text: format!("{error}; nothing of it is used"),
                });
                return;
            }
        };
        let mut layer = BTreeMap::new();
        for entry in entries {
            let at = place(Some(entry.line));
            if KEYS.contains(&entry.key.as_str()) {
                layer.insert(entry.key, (at, entry.value));
                continue;
            }
            let text = match COMMON_ONLY.contains(&entry.key.as_str()) {
                true => "is taken from config.yaml only, ignored".to_owned(),
                false => unknown_key(&entry.key, KEYS),
            };
            self.warnings.push(Warning {
                place: at,
                key: Some(entry.key),
                text,
            });
        }
        self.layers.push(layer);
    }

    /// The value of the strongest layer that has a good one; every bad one is a warning.
    fn resolve<K: Kind>(
        &mut self,
        key: &'static str,
        kind: &K,
        default: K::Value,
    ) -> (K::Value, Source) {
        let given = self.layers.iter_mut();
        let given = given.filter_map(|layer| layer.remove(key));
        choose(given, key, kind, default, None, &mut self.warnings)
    }
}

/// The entries of a JSON object, each with the line where its key stands first.
fn parse(bytes: &[u8]) -> Result<Vec<file::Entry>, FileError> {
    let text =
        std::str::from_utf8(bytes).map_err(|error| FileError::NotUtf8(error.valid_up_to()))?;
    if text.trim().is_empty() {
        return Ok(Vec::new());
    }
    let object: serde_json::Map<String, Value> =
        serde_json::from_str(text).map_err(|error| FileError::NotJson {
            line: u64::try_from(error.line()).ok().filter(|line| *line > 0),
            text: error.to_string(),
        })?;
    let entries = object.into_iter().map(|(key, value)| file::Entry {
        line: line_of(&key, text),
        key,
        value: raw(value),
    });
    Ok(entries.collect())
}

fn line_of(key: &str, text: &str) -> u64 {
    let quoted = Value::from(key).to_string();
    let before = text.split(&quoted).next().unwrap_or_default();
    1 + before.matches('\n').count() as u64
}

fn raw(value: Value) -> Raw {
    match value {
        Value::Null => Raw::Null,
        Value::Bool(value) => Raw::Bool(value),
        Value::Number(number) => match number.as_i128() {
            Some(integer) => Raw::Integer(integer),
            None => Raw::Float(number.as_f64().unwrap_or(f64::NAN)),
        },
        Value::String(text) => Raw::Text(text),
        Value::Array(items) => Raw::List(items.into_iter().map(raw).collect()),
        Value::Object(_) => Raw::Map(Vec::new()),
    }
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
            Place {
                home: tempfile::tempdir().unwrap(),
                work: tempfile::tempdir().unwrap(),
            }
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
            let (settings, of_runs) = RunSettings::load(&config, &env, self.work.path(), flags);
            warnings.extend(of_runs);
            let warnings = warnings.iter().map(Warning::to_string);
            let home = self.home.path().display().to_string();
            let work = self.work.path().display().to_string();
            let warnings = warnings.map(|text| text.replace(&home, "HOME").replace(&work, "WORK"));
            (settings, warnings.collect())
        }
    }

    fn file(directory: &tempfile::TempDir, json: &str) {
        fs::write(directory.path().join(FILE_NAME), json).unwrap();
    }

    #[test]
    fn each_layer_goes_over_those_below_it() {
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
        file(&place.work, "{\n\t\"max_iterations\": 8\n}");
        assert_eq!(iterations(&place, &[], &flags), 8);
        let variables = [("ONESHOT_MAX_ITERATIONS", "9")];
        assert_eq!(iterations(&place, &variables, &flags), 9);
        let flags = RunFlags {
            max_iterations: NonZeroU32::new(10),
            ..flags
        };
        assert_eq!(iterations(&place, &variables, &flags), 10);
        let (settings, _) = place.load(&variables, &flags);
        let name = "--max-iterations";
        assert_eq!(settings.source("max_iterations"), Source::Flag { name });
        // Files may be partial: what one does not say the next one does.
        assert_eq!(settings.model.as_deref(), Some("large"));
        assert_eq!(settings.inactivity, Duration::from_secs(300));
    }

    #[test]
    fn faults_are_named_and_the_next_layer_is_used() {
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
                format!("{own}:4: openai: is taken from config.yaml only, ignored"),
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
    fn a_file_that_is_no_json_object_is_named_with_its_line() {
        for (text, line) in [
            ("{\n\"model\": x}", ":2"),
            ("[1]", ":1"),
            ("{\"a\":1,\n", ":2"),
        ] {
            let place = Place::new();
            file(&place.work, text);
            let (settings, warnings) = place.load(&[], &RunFlags::default());
            assert_eq!(settings.max_iterations, DEFAULT_ITERATIONS);
            let start = format!("WORK/.oneshot.json{line}: is not a JSON object");
            assert!(
                warnings.len() == 1 && warnings[0].starts_with(&start),
                "{warnings:?}"
            );
        }
        let place = Place::new();
        file(&place.work, " \n");
        assert_eq!(
            place.load(&[], &RunFlags::default()).1,
            Vec::<String>::new()
        );
    }

    #[test]
    fn the_auditor_is_the_executor_unless_somebody_says_otherwise() {
        let place = Place::new();
        file(
            &place.work,
            "{\"executor\": \"codex\", \"max_runtime\": 1.5}",
        );
        let (settings, _) = place.load(&[], &RunFlags::default());
        assert_eq!(
            (settings.executor.as_str(), settings.auditor()),
            ("codex", "codex")
        );
        assert_eq!(settings.max_runtime(), Some(Duration::from_millis(1500)));
        let (settings, _) = place.load(&[("ONESHOT_AUDITOR", "claude")], &RunFlags::default());
        assert_eq!(settings.auditor(), "claude");
    }
}
