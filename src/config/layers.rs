//! The sources of settings, in order of precedence, and the errors found in them.
//!
//! Limits: does not interpret keys.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use super::dirs::{Env, directory, variable};
use super::file::FileError;
use super::value::{Field, Raw, ValueParser};

use crate::text::foreign::{self, ShowPath};

/// The source of a value or of an error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SettingSource {
    /// No source sets it.
    Default,
    /// A file; without a line, the whole file.
    File {
        path: PathBuf,
        /// From 1.
        line: Option<u64>,
    },
    /// An environment variable.
    Env { name: Cow<'static, str> },
    /// A command-line option, such as `--model`.
    Flag { name: &'static str },
}

impl SettingSource {
    /// This line of the same file.
    pub(super) fn at(&self, line: u64) -> SettingSource {
        match self {
            SettingSource::File { path, .. } => {
                SettingSource::File { path: path.clone(), line: Some(line) }
            }
            other => other.clone(),
        }
    }
}

impl fmt::Display for SettingSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SettingSource::Default => f.write_str("default"),
            SettingSource::File { path, line: Some(line) } => {
                write!(f, "{}:{line}", path.shown())
            }
            SettingSource::File { path, line: None } => write!(f, "{}", path.shown()),
            SettingSource::Env { name } => write!(f, "${name}"),
            SettingSource::Flag { name } => f.write_str(name),
        }
    }
}

/// An error in the environment or in a file. The wrong value is not used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Warning {
    pub(crate) source: SettingSource,
    pub(crate) key: Option<String>,
    /// The error, and the value used instead.
    pub(crate) text: String,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.key {
            Some(key) => write!(f, "{}: {}: {}", self.source, foreign::shown(key), self.text),
            None => write!(f, "{}: {}", self.source, self.text),
        }
    }
}

/// The values of one source by key, not yet parsed.
pub(super) type Layer = BTreeMap<String, (SettingSource, Raw)>;

/// All sources except the defaults, and the errors found in them.
pub(crate) struct Sources<'a> {
    pub(crate) env: Env<'a>,
    /// The directory that `~` means.
    pub(super) home: Option<PathBuf>,
    /// In order of precedence.
    pub(super) layers: Vec<Layer>,
    pub(crate) warnings: Vec<Warning>,
}

impl<'a> Sources<'a> {
    pub(crate) fn new(env: Env<'a>) -> Self {
        Sources { env, home: directory(env, "HOME"), layers: Vec::new(), warnings: Vec::new() }
    }

    /// Adds the environment: each key with the variable that is named after it, and with the other
    /// that it may have. `prefix` comes before the keys.
    pub(super) fn add_variables(
        &mut self,
        prefix: &str,
        variables: &[(&str, Option<&'static str>)],
    ) {
        let set = |key: &str, name: Cow<'static, str>| {
            let value = Raw::from_env(variable(self.env, &name)?);
            Some((key.to_owned(), (SettingSource::Env { name }, value)))
        };
        let by_key = variables
            .iter()
            .filter_map(|(key, _)| set(key, Cow::Owned(variable_of(&format!("{prefix}{key}")))));
        let by_key = by_key.collect();
        let others = variables.iter().filter_map(|(key, name)| set(key, Cow::Borrowed((*name)?)));
        let others = others.collect();
        self.layers.extend([by_key, others]);
    }

    /// Adds a file. `check` returns the warning about a key that is not accepted.
    pub(super) fn add_file(
        &mut self,
        path: PathBuf,
        entries: Result<Vec<Field>, FileError>,
        check: &dyn Fn(&str) -> Result<(), String>,
    ) {
        let file = SettingSource::File { path, line: None };
        match entries {
            Ok(entries) => {
                let layer = self.layer(&file, entries, "", check);
                self.layers.push(layer);
            }
            Err(error) => {
                let source = error.line().map_or(file.clone(), |line| file.at(line));
                self.warn(source, None, format!("{error}; none of it is used"));
            }
        }
    }

    /// The entries of a file or of one section, whose warnings begin with `prefix`.
    pub(super) fn layer(
        &mut self,
        file: &SettingSource,
        entries: Vec<Field>,
        prefix: &str,
        check: &dyn Fn(&str) -> Result<(), String>,
    ) -> Layer {
        let mut layer = Layer::new();
        for entry in entries {
            let source = file.at(entry.line);
            // The key is empty if it is not text.
            let key = Some(format!("{prefix}{}", entry.key)).filter(|key| !key.is_empty());
            if let Err(text) = check(&entry.key) {
                self.warn(source, key, text);
                continue;
            }
            let before = layer.insert(entry.key, (source.clone(), entry.value));
            if let Some((SettingSource::File { line: Some(line), .. }, _)) = before {
                self.warn(source, key, format!("given twice; line {line} is ignored"));
            }
        }
        layer
    }

    /// The same sources without this file.
    pub(super) fn without(&self, file: &Path) -> Sources<'a> {
        let is_of_file = |layer: &Layer| {
            let mut sources = layer.values().map(|(source, _)| source);
            sources.any(|it| matches!(it, SettingSource::File { path, .. } if path == file))
        };
        let layers = self.layers.iter().filter(|layer| !is_of_file(layer));
        Sources {
            env: self.env,
            home: self.home.clone(),
            layers: layers.cloned().collect(),
            warnings: Vec::new(),
        }
    }

    pub(super) fn warn(&mut self, source: SettingSource, key: Option<String>, text: String) {
        self.warnings.push(Warning { source, key, text });
    }

    /// Takes the entries of a section of the file. `expected` describes the section for the
    /// warning.
    pub(super) fn section(
        &mut self,
        key: &str,
        expected: &str,
    ) -> Option<(SettingSource, Vec<Field>)> {
        let mut layers = self.layers.iter_mut();
        let (source, raw) = layers.find_map(|layer| layer.remove(key))?;
        match raw {
            Raw::Map(fields) => Some((source, fields)),
            Raw::Null => None,
            _ => {
                self.warn(source, Some(key.to_owned()), format!("expected {expected}"));
                None
            }
        }
    }

    /// The first valid value by precedence. Each invalid value causes a warning.
    pub(super) fn resolve<K: ValueParser>(
        &mut self,
        key: &str,
        parser: &K,
        default: K::Value,
    ) -> (K::Value, SettingSource) {
        let mut chosen = None;
        let mut problems = Vec::new();
        for (source, raw) in self.layers.iter_mut().filter_map(|layer| layer.remove(key)) {
            if raw.is_unset() {
                continue;
            }
            match parser.read(&raw, self.home.as_deref()) {
                Ok(value) => chosen = chosen.or(Some((value, source))),
                Err(problem) => problems.push((source, problem)),
            }
        }
        let (value, source) = chosen.unwrap_or((default, SettingSource::Default));
        for (place, problem) in problems {
            let text = format!("{problem}; using {} ({source})", parser.show(&value));
            self.warn(place, Some(key.to_owned()), text);
        }
        (value, source)
    }
}

/// The environment variable that is named after a key: `ZSH_TOOL_OPENAI_MODEL`.
pub(crate) fn variable_of(key: &str) -> String {
    format!("ZSH_TOOL_{}", key.replace('.', "_").to_uppercase())
}

/// The warning about an unknown key, with a similar known key if there is one.
pub(super) fn check_key(key: &str, known: &[&str]) -> Result<(), String> {
    if known.contains(&key) {
        return Ok(());
    }
    let nearest = known
        .iter()
        .map(|known| (strsim::damerau_levenshtein(key, known), known))
        .min()
        .filter(|(distance, known)| *distance <= known.len().max(6) / 3);
    Err(match nearest {
        Some((_, known)) => format!("unknown setting, ignored; did you mean {known}?"),
        None => "unknown setting, ignored; `zsh-tool config` lists the known ones".to_owned(),
    })
}
