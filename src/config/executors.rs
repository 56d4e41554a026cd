//! The agent programs that the user adds or changes: `executors: {NAME: {argv: […],
//! auditor: […], env: {…}, prompt_by: stdin|argument, …}}`. The further parts say how to read the
//! program, as in `data/executors.yaml`; the executors check them.
//!
//! Values of `env` may be secret, so they are neither printed nor quoted. Limits: does not check
//! the built-in executors or whether a program exists.

use std::fmt;
use std::path::Path;

use clap::ValueEnum;
use serde_json::Value;

use super::layers::{SettingSource, Sources};
use super::value::{Choice, Field, Raw, ValueParser, is_name, is_variable, listed};
use crate::text::foreign;

pub(super) const KEY: &str = "executors";

const EXPECTED: &str = "expected {argv: [program, argument…], auditor: [argument…], env: {VARIABLE: value}, \
     prompt_by: stdin|argument}";

/// How a program gets its prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, ValueEnum, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PromptBy {
    /// On stdin, followed by the end of the input.
    Stdin,
    Argument,
}

/// An executor from the configuration.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct UserExecutor {
    /// Letters, digits, `-` and `_`.
    pub name: String,
    /// The program and its arguments; empty if the entry has none.
    pub argv: Vec<String>,
    /// Further arguments of auditors, in the place of the built-in ones.
    pub auditor: Option<Vec<String>>,
    /// Variables to add to its environment.
    pub env: Vec<(String, String)>,
    pub prompt_by: Option<PromptBy>,
    /// How to read the program, by the names of [`READING`].
    pub reading: Vec<(String, Value)>,
}

/// The parts that say how to read a program's output and storage.
pub(crate) const READING: [&str; 7] =
    ["records", "events", "texts", "plain", "denied", "permission", "storage"];

impl fmt::Debug for UserExecutor {
    /// Omits the values of the variables.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.env.iter().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("UserExecutor")
            .field("name", &self.name)
            .field("argv", &self.argv)
            .field("auditor", &self.auditor)
            .field("env", &names)
            .field("prompt_by", &self.prompt_by)
            .field("reading", &self.reading)
            .finish()
    }
}

/// Reads the section. An entry with an error causes a warning and is not used.
pub(super) fn read(sources: &mut Sources<'_>) -> (Vec<UserExecutor>, SettingSource) {
    let expected = format!("a mapping of names to programs: {EXPECTED}; ignored");
    let Some((source, fields)) = sources.section(KEY, &expected) else {
        return (Vec::new(), SettingSource::Default);
    };
    let home = sources.home.clone();
    let mut executors: Vec<UserExecutor> = Vec::new();
    for field in fields {
        let mut warn = |line, part: &str, text| {
            let key = format!("{KEY}.{}{part}", field.key);
            sources.warn(source.at(line), Some(key), text);
        };
        match executor(&field, home.as_deref(), &mut warn) {
            Ok(executor) if executors.iter().any(|known| known.name == executor.name) => {
                warn(field.line, "", "given twice; ignored".to_owned());
            }
            Ok(executor) => executors.push(executor),
            Err(problem) => warn(field.line, "", format!("{problem}; ignored")),
        }
    }
    (executors, source)
}

/// The names, for people to read.
pub(super) fn show(executors: &[UserExecutor]) -> String {
    let names = executors.iter().map(|executor| match executor.argv.first() {
        // Only the program, since its arguments may be secret.
        Some(program) => format!("{} ({})", executor.name, foreign::shown(program)),
        None => executor.name.clone(),
    });
    listed(&names.collect::<Vec<_>>())
}

/// Reads one entry. `warn` gets the line of an unknown part, its key after the executor's, and the
/// warning.
fn executor(
    field: &Field,
    home: Option<&Path>,
    warn: &mut dyn FnMut(u64, &str, String),
) -> Result<UserExecutor, String> {
    if !is_name(&field.key, &['-', '_']) {
        return Err("a name takes letters, digits, - and _ only".to_owned());
    }
    let Raw::Map(parts) = &field.value else {
        return Err(EXPECTED.to_owned());
    };
    let mut executor = UserExecutor { name: field.key.clone(), ..UserExecutor::default() };
    for part in parts {
        match part.key.as_str() {
            "argv" => {
                executor.argv = part.value.command(home).ok_or(
                    "argv takes a list: the program's name, absolute path or path that begins \
                     with `~/`, and its arguments, as text",
                )?;
            }
            "auditor" => {
                let words = words(&part.value);
                executor.auditor = Some(words.ok_or("auditor takes a list of arguments, as text")?);
            }
            "env" => {
                let pairs = variables(&part.value);
                executor.env = pairs.ok_or("env takes a mapping of variables to text")?;
            }
            "prompt_by" => {
                let prompt_by = Choice::new().read(&part.value, None);
                executor.prompt_by =
                    Some(prompt_by.map_err(|_| "prompt_by takes stdin or argument")?);
            }
            name if READING.contains(&name) => {
                let value = document(&part.value).ok_or("its text must be UTF-8")?;
                executor.reading.push((name.to_owned(), value));
            }
            other => {
                let known = ["argv", "auditor", "env", "prompt_by"].into_iter().chain(READING);
                let known = known.collect::<Vec<_>>().join(", ");
                let text = format!("unknown, ignored; an executor has {known}");
                warn(part.line, &format!(".{other}"), text);
            }
        }
    }
    Ok(executor)
}

/// A value as the executors read it, where every scalar is a text.
fn document(raw: &Raw) -> Option<Value> {
    Some(match raw {
        Raw::Null => Value::Null,
        Raw::List(values) => Value::Array(values.iter().map(document).collect::<Option<_>>()?),
        Raw::Map(fields) => {
            let pairs =
                fields.iter().map(|field| Some((field.key.clone(), document(&field.value)?)));
            Value::Object(pairs.collect::<Option<_>>()?)
        }
        scalar => Value::String(scalar.word()?),
    })
}

fn words(raw: &Raw) -> Option<Vec<String>> {
    match raw {
        Raw::List(words) => words.iter().map(Raw::word).collect(),
        Raw::Null => Some(Vec::new()),
        _ => None,
    }
}

fn variables(raw: &Raw) -> Option<Vec<(String, String)>> {
    let fields = match raw {
        Raw::Map(fields) => fields.as_slice(),
        Raw::Null => &[],
        _ => return None,
    };
    let pairs = fields.iter().map(|field| {
        let value = field.value.word().filter(|_| is_variable(&field.key))?;
        Some((field.key.clone(), value))
    });
    pairs.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::tests::load_file as load;

    #[test]
    fn programs_are_read_with_their_words_and_variables() {
        let (config, warnings) = load(
            "executors:\n  mine: {argv: [~/bin/agent, --depth, 3], env: {KEY: hunter2, N: 1}, \
             prompt_by: argument}\n  claude: {argv: [claude, --permission-mode, acceptEdits], \
             auditor: []}\n",
        );
        assert_eq!(warnings, [""; 0]);
        let [mine, claude] = config.executors.as_slice() else {
            panic!("{:?}", config.executors);
        };
        assert_eq!(mine.argv, ["/home/me/bin/agent", "--depth", "3"]);
        let variables = [("KEY", "hunter2"), ("N", "1")];
        assert_eq!(mine.env, variables.map(|(name, value)| (name.to_owned(), value.to_owned())));
        assert_eq!(mine.prompt_by, Some(PromptBy::Argument));
        assert_eq!((claude.name.as_str(), claude.prompt_by), ("claude", None));
        assert_eq!((&mine.auditor, &claude.auditor), (&None, &Some(Vec::new())));
        let rows = config.rows();
        let row = rows.iter().find(|row| row.key == KEY).unwrap();
        assert_eq!(row.value, "mine (/home/me/bin/agent), claude (claude)");
        assert!(!format!("{config:?}").contains("hunter2"));
    }

    #[test]
    fn errors_are_named_with_their_line_and_leave_the_rest() {
        for (entry, expected) in [
            ("x: hunter2", "FILE:3: executors.x: expected {argv:"),
            ("x: {argv: hunter2}", "FILE:3: executors.x: argv takes a list"),
            ("x: {argv: []}", "FILE:3: executors.x: argv takes a list"),
            ("x: {argv: [./hunter2]}", "FILE:3: executors.x: argv takes a list"),
            ("x: {argv: [a, [hunter2]]}", "FILE:3: executors.x: argv takes a list"),
            ("x: {argv: [a], auditor: hunter2}", "FILE:3: executors.x: auditor takes a list"),
            ("x: {argv: [a], env: [hunter2]}", "FILE:3: executors.x: env takes a mapping"),
            ("x: {argv: [a], env: {A: [hunter2]}}", "FILE:3: executors.x: env takes a mapping"),
            ("x: {argv: [a], prompt_by: hunter2}", "FILE:3: executors.x: prompt_by takes stdin"),
            ("x y: {argv: [a]}", "FILE:3: \"executors.x y\": a name takes letters"),
            ("-x: {argv: [a]}", "FILE:3: executors.-x: a name takes letters"),
            ("x: {argv: [a], promt_by: stdin}", "FILE:3: executors.x.promt_by: unknown, ignored"),
            ("good: {argv: [b]}", "FILE:3: executors.good: given twice"),
        ] {
            let (config, warnings) =
                load(&format!("executors:\n  good: {{argv: [a]}}\n  {entry}\n"));
            assert_eq!(warnings.len(), 1, "{entry}: {warnings:?}");
            assert!(warnings[0].starts_with(expected), "{entry}: {}", warnings[0]);
            assert!(!warnings[0].contains("hunter"), "{}", warnings[0]);
            assert_eq!(config.executors[0].argv, ["a"]);
        }
    }

    #[test]
    fn an_empty_section_lists_none() {
        for yaml in ["", "executors:", "executors: {}"] {
            let (config, warnings) = load(yaml);
            assert_eq!((warnings.as_slice(), config.executors.len()), ([].as_slice(), 0));
        }
        let (_, warnings) = load("executors: [a]");
        assert!(warnings[0].starts_with("FILE:1: executors: expected a mapping"));
    }
}
