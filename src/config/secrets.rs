//! The secrets that the user lists: `secrets: {NAME: {env: VAR}}`, or `{file: PATH}`, or
//! `{command: [program, argument…]}`.
//!
//! What stands here are names and where each secret comes from, which may be printed.
//! Somebody may have written a secret itself where its source belongs, so that no fault
//! repeats what was written there. Limits: nothing is looked up here.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fmt;
use std::path::{Path, PathBuf};

use super::layers::{Given, Source};
use super::value::{Field, File, Kind, Raw};

/// The key of the file.
pub(super) const KEY: &str = "secrets";

const EXPECTED: &str = "expected {env: VARIABLE}, {file: PATH} or {command: [program, argument…]}";

/// Where a secret comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SecretSource {
    /// A variable of the server's environment.
    Env(String),
    /// A file, without the line's end at its end.
    File(PathBuf),
    /// What a program prints, without the line's end at its end. Never empty.
    Command(Vec<String>),
}

impl fmt::Display for SecretSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SecretSource::Env(variable) => write!(f, "env {variable}"),
            SecretSource::File(path) => write!(f, "file {}", path.display()),
            // The program alone: its arguments may be secret.
            SecretSource::Command(words) => {
                write!(f, "command {}", words.first().map_or("", String::as_str))
            }
        }
    }
}

/// The listed secrets by name.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Secrets {
    by_name: BTreeMap<String, SecretSource>,
}

impl Secrets {
    /// What the file lists; what is wrong in it is a warning, and not listed.
    pub(super) fn read(given: &mut Given<'_>) -> (Secrets, Source) {
        let mut secrets = Secrets::default();
        let Some((line, raw)) = given.take(KEY) else {
            return (secrets, Source::Default);
        };
        let fields = match raw {
            Raw::Map(fields) => fields,
            Raw::Null => return (secrets, Source::Default),
            _ => {
                let text = "expected a mapping of names to sources; no secret is listed";
                given.warn_of_file(Some(line), Some(KEY.to_owned()), text.to_owned());
                return (secrets, Source::Default);
            }
        };
        for field in fields {
            if let Err(problem) = secrets.take(&field, given.home()) {
                let key = match is_name(&field.key) {
                    true => format!("{KEY}.{}", field.key),
                    false => KEY.to_owned(),
                };
                given.warn_of_file(Some(field.line), Some(key), format!("{problem}; ignored"));
            }
        }
        (secrets, given.place(line))
    }

    fn take(&mut self, field: &Field, home: Option<&Path>) -> Result<(), String> {
        if !is_name(&field.key) {
            return Err("a name takes letters, digits and _ only".to_owned());
        }
        if self.by_name.contains_key(&field.key) {
            return Err("given twice".to_owned());
        }
        let source = source(&field.value, home)?;
        self.by_name.insert(field.key.clone(), source);
        Ok(())
    }

    /// Where a listed secret comes from.
    pub fn source(&self, name: &str) -> Option<&SecretSource> {
        self.by_name.get(name)
    }

    /// The listed secrets, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &SecretSource)> {
        let entries = self.by_name.iter();
        entries.map(|(name, source)| (name.as_str(), source))
    }

    /// The names, for somebody who asks for another; never the sources.
    pub fn names(&self) -> String {
        let names: Vec<&str> = self.iter().map(|(name, _)| name).collect();
        match names.is_empty() {
            true => "none".to_owned(),
            false => names.join(", "),
        }
    }

    /// Whether this variable holds a listed secret: no command finds it in its
    /// environment.
    pub fn hides(&self, variable: &OsStr) -> bool {
        self.iter().any(|(_, source)| match source {
            SecretSource::Env(hidden) => variable == hidden.as_str(),
            SecretSource::File(_) | SecretSource::Command(_) => false,
        })
    }
}

impl fmt::Display for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.by_name.is_empty() {
            return f.write_str("none");
        }
        for (place, (name, source)) in self.iter().enumerate() {
            let separator = if place == 0 { "" } else { ", " };
            write!(f, "{separator}{name} ({source})")?;
        }
        Ok(())
    }
}

/// Letters, digits and `_`: what an argument and a label show as it is.
fn is_name(text: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    !text.is_empty() && text.chars().all(is_part)
}

fn source(raw: &Raw, home: Option<&Path>) -> Result<SecretSource, String> {
    let field = match raw {
        Raw::Map(fields) => match fields.as_slice() {
            [field] => field,
            _ => return Err(format!("{EXPECTED}, one of them")),
        },
        _ => return Err(EXPECTED.to_owned()),
    };
    match field.key.as_str() {
        "env" => match &field.value {
            Raw::Text(name) if is_variable(name) => Ok(SecretSource::Env(name.clone())),
            _ => Err("env takes the name of a variable".to_owned()),
        },
        "file" => match File.read(&field.value, home) {
            Ok(Some(path)) => Ok(SecretSource::File(path)),
            _ => Err("file takes an absolute path, or one that begins with `~/`".to_owned()),
        },
        "command" => match command(&field.value) {
            Some(words) => Ok(SecretSource::Command(words)),
            None => Err(
                "command takes a list: the program's name or absolute path, and its arguments, \
                 as text"
                    .to_owned(),
            ),
        },
        _ => Err(EXPECTED.to_owned()),
    }
}

fn is_variable(name: &str) -> bool {
    !name.is_empty() && !name.contains(['=', '\0', '$'])
}

fn command(raw: &Raw) -> Option<Vec<String>> {
    let Raw::List(items) = raw else {
        return None;
    };
    let words = items.iter().map(|item| match item {
        Raw::Text(word) if !word.contains('\0') => Some(word.clone()),
        Raw::Integer(number) => Some(number.to_string()),
        _ => None,
    });
    let words: Vec<String> = words.collect::<Option<_>>()?;
    let program = words.first()?;
    let is_findable = !program.is_empty() && (program.starts_with('/') || !program.contains('/'));
    is_findable.then_some(words)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    /// Loads a file of this text: what is listed, and the faults without the file's path.
    fn load(yaml: &str) -> (Secrets, Vec<String>) {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("config.yaml");
        std::fs::write(&path, yaml).unwrap();
        let (config, warnings) = Config::load(&|name| match name {
            "HOME" => Some("/home/me".into()),
            "ZSH_TOOL_CONFIG" => Some(path.clone().into()),
            _ => None,
        });
        let shown = path.display().to_string();
        let warnings = warnings.iter().map(|warning| warning.to_string());
        let warnings = warnings.map(|text| text.replace(&shown, "FILE")).collect();
        (config.secrets, warnings)
    }

    #[test]
    fn each_kind_of_source_is_read() {
        let (secrets, warnings) = load(
            "secrets:\n  SUDO: {env: SUDO_PW}\n  key_2: {file: ~/.key}\n  \
             DB:\n    command: [pass, show, db, 2]\n",
        );
        assert_eq!(warnings, [""; 0]);
        let words = ["pass", "show", "db", "2"].map(str::to_owned).to_vec();
        let source = |name| secrets.source(name).cloned();
        assert_eq!(source("SUDO"), Some(SecretSource::Env("SUDO_PW".into())));
        assert_eq!(source("DB"), Some(SecretSource::Command(words)));
        assert_eq!(
            source("key_2"),
            Some(SecretSource::File("/home/me/.key".into()))
        );
        assert_eq!(source("SUDO_PW"), None, "a source is no name");
        assert_eq!(secrets.names(), "DB, SUDO, key_2");
        assert_eq!(
            secrets.to_string(),
            "DB (command pass), SUDO (env SUDO_PW), key_2 (file /home/me/.key)"
        );
        assert!(secrets.hides(OsStr::new("SUDO_PW")));
        assert!(!secrets.hides(OsStr::new("SUDO")));
    }

    #[test]
    fn none_are_listed_by_nothing() {
        for yaml in ["", "secrets:", "secrets: {}"] {
            let (secrets, warnings) = load(yaml);
            assert_eq!(warnings, [""; 0], "{yaml}");
            assert_eq!(secrets.names(), "none");
        }
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line_and_not_repeated() {
        for (yaml, expected) in [
            ("secrets: hunter2", "FILE:1: secrets: expected a mapping"),
            ("secrets: [hunter2]", "FILE:1: secrets: expected a mapping"),
            (
                "secrets:\n  A: hunter2",
                "FILE:2: secrets.A: expected {env: VARIABLE}",
            ),
            (
                "secrets:\n  A: {value: hunter2}",
                "FILE:2: secrets.A: expected {env: VARIABLE}",
            ),
            (
                "secrets:\n  A: {hunter2: x}",
                "FILE:2: secrets.A: expected {env: VARIABLE}",
            ),
            (
                "secrets:\n\n  hunter-2: {env: X}",
                "FILE:3: secrets: a name takes letters",
            ),
            (
                "secrets:\n  A: {env: X, file: /hunter2}",
                "FILE:2: secrets.A: expected {env: VARIABLE}",
            ),
            (
                "secrets:\n  A: {env: [hunter2]}",
                "FILE:2: secrets.A: env takes the name",
            ),
            (
                "secrets:\n  A: {file: hunter2}",
                "FILE:2: secrets.A: file takes an absolute path",
            ),
            (
                "secrets:\n  A: {command: hunter2}",
                "FILE:2: secrets.A: command takes a list",
            ),
            (
                "secrets:\n  A: {command: []}",
                "FILE:2: secrets.A: command takes a list",
            ),
            (
                "secrets:\n  A: {command: [./hunter2]}",
                "FILE:2: secrets.A: command takes a list",
            ),
            (
                "secrets:\n  A: {command: [sh, [hunter2]]}",
                "FILE:2: secrets.A: command takes a list",
            ),
            (
                "secrets:\n  B: {env: X}\n  B: {env: hunter2}",
                "FILE:3: secrets.B: given twice",
            ),
        ] {
            let (_, warnings) = load(yaml);
            assert_eq!(warnings.len(), 1, "{yaml}: {warnings:?}");
            let warning = &warnings[0];
            assert!(warning.starts_with(expected), "{yaml}: {warning}");
            assert!(!warning.contains("hunter"), "{yaml}: {warning}");
        }
    }

    #[test]
    fn one_fault_leaves_the_others_listed() {
        let (secrets, warnings) = load("secrets: {A: {env: X}, B: 1, 3: {env: Y}}");
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        assert_eq!(secrets.names(), "3, A");
    }
}
