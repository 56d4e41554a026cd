//! The layers that a setting may come from: environment over file over default.
//!
//! Limits: knows which keys there are, not what they mean.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use super::dirs::{Env, base_directory, directory, variable};
use super::file::{self, FileError};
use super::value::{Kind, Raw};

/// Where a value comes from, or where a fault is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// Nobody set it.
    Default,
    /// A file, and the line in it, from 1; none when it is the file as a whole.
    File {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: Option<u64>,
    },
    /// A variable of the environment.
    Env {
        /// Its name.
        name: &'static str,
    },
    /// An option of the command line.
    Flag {
        /// As it is written, such as `--model`.
        name: &'static str,
    },
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Default => f.write_str("default"),
            Source::File {
                path,
                line: Some(line),
            } => write!(f, "{}:{line}", path.display()),
            Source::File { path, line: None } => write!(f, "{}", path.display()),
            Source::Env { name } => write!(f, "${name}"),
            Source::Flag { name } => f.write_str(name),
        }
    }
}

/// A fault in the environment or in the file; the program goes on without it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    /// Where it stands.
    pub place: Source,
    /// The key in question, where there is one.
    pub key: Option<String>,
    /// What is wrong, and what is used instead.
    pub text: String,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.key {
            Some(key) => write!(f, "{}: {key}: {}", self.place, self.text),
            None => write!(f, "{}: {}", self.place, self.text),
        }
    }
}

/// What the environment and the file give, before it is typed.
pub(crate) struct Given<'a> {
    pub(crate) env: Env<'a>,
    known: &'static [&'static str],
    home: Option<PathBuf>,
    path: PathBuf,
    entries: BTreeMap<String, (u64, Raw)>,
    /// What is wrong with it.
    pub(crate) warnings: Vec<Warning>,
}

impl<'a> Given<'a> {
    /// Reads the file that the environment names; `known` are the keys it may hold.
    pub(crate) fn read(env: Env<'a>, known: &'static [&'static str]) -> Self {
        let mut given = Given {
            env,
            known,
            home: directory(env, "HOME"),
            path: PathBuf::new(),
            entries: BTreeMap::new(),
            warnings: Vec::new(),
        };
        let named = variable(env, "ZSH_TOOL_CONFIG").map(PathBuf::from);
        let is_named = named.is_some();
        let usual = || Some(base_directory(env, "XDG_CONFIG_HOME", ".config")?.join("config.yaml"));
        let Some(path) = named.or_else(usual) else {
            return given;
        };
        given.path = path;
        match file::read(&given.path) {
            Ok(entries) => given.take_entries(entries),
            Err(FileError::Missing) if !is_named => {}
            Err(error) => {
                let text = format!("{error}; nothing of it is used");
                given.warn_of_file(error.line(), None, text);
            }
        }
        given
    }

    fn take_entries(&mut self, entries: Vec<file::Entry>) {
        let entries = entries.into_iter().flat_map(|entry| self.flattened(entry));
        for entry in entries.collect::<Vec<_>>() {
            let line = Some(entry.line);
            if !self.known.contains(&entry.key.as_str()) {
                let text = unknown_key(&entry.key, self.known);
                self.warn_of_file(line, Some(entry.key), text);
            } else if let Some((before, _)) = self
                .entries
                .insert(entry.key.clone(), (entry.line, entry.value))
            {
                let text = format!("given twice; line {before} is ignored");
                self.warn_of_file(line, Some(entry.key), text);
            }
        }
    }

    /// `openai: {model: x}` is `openai.model: x`, where there are such keys.
    fn flattened(&self, entry: file::Entry) -> Vec<file::Entry> {
        let prefix = format!("{}.", entry.key);
        let is_group = self.known.iter().any(|key| key.starts_with(&prefix));
        match entry.value {
            Raw::Map(fields) if is_group => fields
                .into_iter()
                .map(|field| file::Entry {
                    key: format!("{prefix}{}", field.key),
                    line: field.line,
                    value: field.value,
                })
                .collect(),
            Raw::Null if is_group => Vec::new(),
            _ => vec![entry],
        }
    }

    /// What `~` means.
    pub(crate) fn home(&self) -> Option<&Path> {
        self.home.as_deref()
    }

    /// The line and the value of a key that is no setting: only the file can hold it.
    pub(crate) fn take(&mut self, key: &str) -> Option<(u64, Raw)> {
        self.entries.remove(key)
    }

    /// A line of the file.
    pub(crate) fn place(&self, line: u64) -> Source {
        Source::File {
            path: self.path.clone(),
            line: Some(line),
        }
    }

    /// Notes a fault of the file.
    pub(crate) fn warn_of_file(&mut self, line: Option<u64>, key: Option<String>, text: String) {
        let path = self.path.clone();
        self.warnings.push(Warning {
            place: Source::File { path, line },
            key,
            text,
        });
    }

    /// The value of the highest source that has a good one; every bad one is a warning.
    pub(crate) fn resolve<K: Kind>(
        &mut self,
        key: &'static str,
        env_name: Option<&'static str>,
        kind: &K,
        default: K::Value,
    ) -> (K::Value, Source) {
        let of_env = env_name.and_then(|name| {
            let value = variable(self.env, name)?;
            Some((Source::Env { name }, Raw::of_env(value)))
        });
        let of_file = self.entries.remove(key).map(|(line, raw)| {
            let (path, line) = (self.path.clone(), Some(line));
            (Source::File { path, line }, raw)
        });

        choose(
            of_env.into_iter().chain(of_file),
            key,
            kind,
            default,
            self.home.as_deref(),
            &mut self.warnings,
        )
    }
}

/// The first good value of those that are given, the strongest first; every bad one is a
/// warning.
pub(super) fn choose<K: Kind>(
    given: impl Iterator<Item = (Source, Raw)>,
    key: &str,
    kind: &K,
    default: K::Value,
    home: Option<&Path>,
    warnings: &mut Vec<Warning>,
) -> (K::Value, Source) {
    let mut chosen = None;
    let mut problems = Vec::new();
    for (source, raw) in given {
        if raw.is_unset() {
            continue;
        }
        match kind.read(&raw, home) {
            Ok(value) => chosen = chosen.or(Some((value, source))),
            Err(problem) => problems.push((source, problem)),
        }
    }
    let (value, source) = chosen.unwrap_or((default, Source::Default));
    for (place, problem) in problems {
        warnings.push(Warning {
            place,
            key: Some(key.to_owned()),
            text: format!("{problem}; using {} ({source})", kind.show(&value)),
        });
    }
    (value, source)
}

/// What to say of a key that is none, with the nearest one where one is near.
pub(super) fn unknown_key(key: &str, known: &[&str]) -> String {
    let nearest = known
        .iter()
        .map(|known| (strsim::damerau_levenshtein(key, known), known))
        .min()
        .filter(|(distance, known)| *distance <= known.len().max(6) / 3);
    match nearest {
        Some((_, known)) => format!("unknown setting, ignored; did you mean {known}?"),
        None => "unknown setting, ignored; `zsh-tool config` lists the known ones".to_owned(),
    }
}
