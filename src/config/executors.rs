//! The agent programs that the user adds or changes: `executors: {NAME: {argv: […],
//! env: {…}, prompt_by: stdin|argument}}`.
//!
//! Limits: whether a name is one of the built-in executors is not known here, nor whether
//! a program is there. Values of `env` may be secret: they are neither printed nor quoted.

use std::fmt;
use std::path::Path;

use super::layers::{Given, Source};
use super::value::{Field, Raw};

/// The key of the file.
pub(super) const KEY: &str = "executors";

/// What an entry may hold.
const ARGV: &str = "argv";
const ENV: &str = "env";
const PROMPT_BY: &str = "prompt_by";

const EXPECTED: &str =
    "expected {argv: [program, argument…], env: {VARIABLE: value}, prompt_by: stdin|argument}";

/// How a program is given its prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PromptBy {
    /// On stdin, then its end.
    Stdin,
    /// As one of its arguments.
    Argument,
}

/// An executor of the configuration.
#[derive(Clone, PartialEq, Eq)]
pub struct UserExecutor {
    /// Its name: letters, digits, `-` and `_`.
    pub name: String,
    /// The program and its arguments; empty where only the rest is given.
    pub argv: Vec<String>,
    /// Variables beyond the environment that it gets anyway.
    pub env: Vec<(String, String)>,
    /// How it gets its prompt, where that is said.
    pub prompt_by: Option<PromptBy>,
}

impl fmt::Debug for UserExecutor {
    /// Without what the variables hold.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.env.iter().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("UserExecutor")
            .field("name", &self.name)
            .field("argv", &self.argv)
            .field("env", &names)
            .field("prompt_by", &self.prompt_by)
            .finish()
    }
}

/// What the file lists; what is wrong in it is a warning, and not in use.
pub(super) fn read(given: &mut Given<'_>) -> (Vec<UserExecutor>, Source) {
    let Some((line, raw)) = given.take(KEY) else {
        return (Vec::new(), Source::Default);
    };
    let fields = match raw {
        Raw::Map(fields) => fields,
        Raw::Null => return (Vec::new(), Source::Default),
        _ => {
            let text = format!("expected a mapping of names to programs: {EXPECTED}; ignored");
            given.warn_of_file(Some(line), Some(KEY.to_owned()), text);
            return (Vec::new(), Source::Default);
        }
    };
    let mut executors: Vec<UserExecutor> = Vec::new();
    for field in fields {
        let key = format!("{KEY}.{}", field.key);
        let is_known = executors.iter().any(|known| known.name == field.key);
        let mut faults = Vec::new();
        match executor(&field, given.home(), &mut faults) {
            Ok(_) if is_known => faults.push((field.line, key, "given twice; ignored".to_owned())),
            Ok(executor) => executors.push(executor),
            Err(problem) => faults.push((field.line, key, format!("{problem}; ignored"))),
        }
        for (line, key, text) in faults {
            given.warn_of_file(Some(line), Some(key), text);
        }
    }
    (executors, given.place(line))
}

/// The names, for people to read.
pub(super) fn show(executors: &[UserExecutor]) -> String {
    let names = executors
        .iter()
        .map(|executor| match executor.argv.first() {
            // The program alone: its arguments may be secret.
            Some(program) => format!("{} ({program})", executor.name),
            None => executor.name.clone(),
        });
    let names: Vec<String> = names.collect();
    match names.is_empty() {
        true => "none".to_owned(),
        false => names.join(", "),
    }
}

type Faults = Vec<(u64, String, String)>;

fn executor(
    field: &Field,
    home: Option<&Path>,
    faults: &mut Faults,
) -> Result<UserExecutor, String> {
    if !is_name(&field.key) {
        return Err("a name takes letters, digits, - and _ only".to_owned());
    }
    let Raw::Map(parts) = &field.value else {
        return Err(EXPECTED.to_owned());
    };
    let mut executor = UserExecutor {
        name: field.key.clone(),
        argv: Vec::new(),
        env: Vec::new(),
        prompt_by: None,
    };
    for part in parts {
        match part.key.as_str() {
            ARGV => executor.argv = argv(&part.value, home)?,
            ENV => executor.env = variables(&part.value)?,
            PROMPT_BY => executor.prompt_by = Some(prompt_by(&part.value)?),
            other => {
                let key = format!("{KEY}.{}.{other}", field.key);
                let known = [ARGV, ENV, PROMPT_BY].join(", ");
                let text = format!("unknown, ignored; an executor has {known}");
                faults.push((part.line, key, text));
            }
        }
    }
    Ok(executor)
}

/// What an option of the command line and a word of a message show as it is.
fn is_name(text: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    text.starts_with(|c: char| c.is_ascii_alphanumeric()) && text.chars().all(is_part)
}

fn argv(raw: &Raw, home: Option<&Path>) -> Result<Vec<String>, String> {
    let problem = || {
        "argv takes a list: the program's name, absolute path or path that begins with `~/`, and \
         its arguments, as text"
            .to_owned()
    };
    let Raw::List(items) = raw else {
        return Err(problem());
    };
    let words = items.iter().map(scalar);
    let mut words: Vec<String> = words.collect::<Option<_>>().ok_or_else(problem)?;
    let program = words.first_mut().ok_or_else(problem)?;
    if let (Some(rest), Some(home)) = (program.strip_prefix("~/"), home) {
        *program = home.join(rest).to_str().ok_or_else(problem)?.to_owned();
    }
    let is_findable = !program.is_empty() && (program.starts_with('/') || !program.contains('/'));
    is_findable.then_some(words).ok_or_else(problem)
}

fn variables(raw: &Raw) -> Result<Vec<(String, String)>, String> {
    let problem = || "env takes a mapping of variables to text".to_owned();
    let fields = match raw {
        Raw::Map(fields) => fields.as_slice(),
        Raw::Null => &[],
        _ => return Err(problem()),
    };
    let pairs = fields.iter().map(|field| {
        let is_variable = !field.key.is_empty() && !field.key.contains(['=', '\0', '$']);
        let value = scalar(&field.value).filter(|_| is_variable)?;
        Some((field.key.clone(), value))
    });
    pairs.collect::<Option<_>>().ok_or_else(problem)
}

fn prompt_by(raw: &Raw) -> Result<PromptBy, String> {
    match raw {
        Raw::Text(word) if word.eq_ignore_ascii_case("stdin") => Ok(PromptBy::Stdin),
        Raw::Text(word) if word.eq_ignore_ascii_case("argument") => Ok(PromptBy::Argument),
        _ => Err("prompt_by takes stdin or argument".to_owned()),
    }
}

/// A value as an argument or a variable holds it.
fn scalar(raw: &Raw) -> Option<String> {
    match raw {
        Raw::Text(text) if !text.contains('\0') => Some(text.clone()),
        Raw::Integer(number) => Some(number.to_string()),
        Raw::Float(number) => Some(number.to_string()),
        Raw::Bool(value) => Some(value.to_string()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    /// Loads a file of this text: the executors, and the faults without the file's path.
    fn load(yaml: &str) -> (Config, Vec<String>) {
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
        (config, warnings)
    }

    #[test]
    fn programs_are_read_with_their_words_and_variables() {
        let (config, warnings) = load(
            "executors:\n  mine: {argv: [~/bin/agent, --depth, 3], env: {KEY: hunter2, N: 1}, \
             prompt_by: argument}\n  claude: {argv: [claude, --permission-mode, acceptEdits]}\n",
        );
        assert_eq!(warnings, [""; 0]);
        let [mine, claude] = config.executors.as_slice() else {
            panic!("{:?}", config.executors);
        };
        assert_eq!(mine.argv, ["/home/me/bin/agent", "--depth", "3"]);
        let variables = [("KEY", "hunter2"), ("N", "1")];
        assert_eq!(
            mine.env,
            variables.map(|(name, value)| (name.to_owned(), value.to_owned()))
        );
        assert_eq!(mine.prompt_by, Some(PromptBy::Argument));
        assert_eq!((claude.name.as_str(), claude.prompt_by), ("claude", None));
        let rows = config.rows();
        let row = rows.iter().find(|row| row.key == KEY).unwrap();
        assert_eq!(row.value, "mine (/home/me/bin/agent), claude (claude)");
        assert!(!format!("{config:?}").contains("hunter2"));
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line_and_leaves_the_rest() {
        for (entry, expected) in [
            ("x: hunter2", "FILE:3: executors.x: expected {argv:"),
            (
                "x: {argv: hunter2}",
                "FILE:3: executors.x: argv takes a list",
            ),
            ("x: {argv: []}", "FILE:3: executors.x: argv takes a list"),
            (
                "x: {argv: [./hunter2]}",
                "FILE:3: executors.x: argv takes a list",
            ),
            (
                "x: {argv: [a, [hunter2]]}",
                "FILE:3: executors.x: argv takes a list",
            ),
            (
                "x: {argv: [a], env: [hunter2]}",
                "FILE:3: executors.x: env takes a mapping",
            ),
            (
                "x: {argv: [a], env: {A: [hunter2]}}",
                "FILE:3: executors.x: env takes a mapping",
            ),
            (
                "x: {argv: [a], prompt_by: hunter2}",
                "FILE:3: executors.x: prompt_by takes stdin",
            ),
            (
                "x y: {argv: [a]}",
                "FILE:3: executors.x y: a name takes letters",
            ),
            (
                "-x: {argv: [a]}",
                "FILE:3: executors.-x: a name takes letters",
            ),
            (
                "x: {argv: [a], promt_by: stdin}",
                "FILE:3: executors.x.promt_by: unknown, ignored",
            ),
            ("good: {argv: [b]}", "FILE:3: executors.good: given twice"),
        ] {
            let (config, warnings) =
                load(&format!("executors:\n  good: {{argv: [a]}}\n  {entry}\n"));
            assert_eq!(warnings.len(), 1, "{entry}: {warnings:?}");
            assert!(
                warnings[0].starts_with(expected),
                "{entry}: {}",
                warnings[0]
            );
            assert!(!warnings[0].contains("hunter"), "{}", warnings[0]);
            assert_eq!(config.executors[0].argv, ["a"]);
        }
    }

    #[test]
    fn none_are_listed_by_nothing() {
        for yaml in ["", "executors:", "executors: {}"] {
            let (config, warnings) = load(yaml);
            assert_eq!(
                (warnings.as_slice(), config.executors.len()),
                ([].as_slice(), 0)
            );
        }
        let (_, warnings) = load("executors: [a]");
        assert!(warnings[0].starts_with("FILE:1: executors: expected a mapping"));
    }
}
