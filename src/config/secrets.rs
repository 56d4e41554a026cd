//! The secrets that the user lists: `secrets: {NAME: {env: VAR, programs: [PATH…]}}`, with `file:
//! PATH` or `command: [program, argument…]` in the place of `env`.
//!
//! Names and sources may be printed; a value is looked up when it is needed. Errors name the secret
//! and the problem, but never a value: a user may write a secret where its source belongs. Errors
//! of a look-up do not name the source either, since the agent reads them. `zsh-tool doctor` shows
//! the sources.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io::{self, Read};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use zeroize::Zeroizing;

use super::dirs::Env;
use super::layers::{SettingSource, Sources};
use super::value::{Field, File, Raw, ValueParser, is_variable, listed};
use crate::process::capture::{self, CaptureError, Limits};
use crate::process::executable::AllowedPrograms;
use crate::process::files;
use crate::process::spawn::{Launch, StderrTarget, Wiring};
use crate::text::foreign::{self, ShowPath};
use crate::text::mask::{MAX_SECRET_BYTES, MaskError, Secret};

pub(super) const KEY: &str = "secrets";

const EXPECTED: &str = "expected {env: VARIABLE}, {file: PATH} or {command: [program, argument…]}, \
                        with programs: [PATH…]";
const ONE_EXPECTED: &str = "expected {env: VARIABLE}, {file: PATH} or {command: [program, \
                            argument…]}, one of them, with programs: [PATH…]";

/// The source of a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SecretSource {
    /// A variable of the server's environment.
    Env(String),
    /// A file, without its final line ending.
    File(PathBuf),
    /// The output of a program, without its final line ending. Never empty.
    Command(Vec<String>),
}

impl fmt::Display for SecretSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SecretSource::Env(variable) => write!(f, "env {}", foreign::shown(variable)),
            SecretSource::File(path) => write!(f, "file {}", path.shown()),
            // Only the program, since its arguments may be secret.
            SecretSource::Command(words) => {
                write!(f, "command {}", foreign::shown(words.first().map_or("", String::as_str)))
            }
        }
    }
}

/// A secret that the user has listed.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ListedSecret {
    source: SecretSource,
    /// The programs that it may be typed into.
    programs: AllowedPrograms,
}

/// The listed secrets by name.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Secrets {
    by_name: BTreeMap<String, ListedSecret>,
}

impl Secrets {
    /// Reads the section. An entry with an error causes a warning and is not listed.
    pub(super) fn read(sources: &mut Sources<'_>) -> (Secrets, SettingSource) {
        let mut secrets = Secrets::default();
        let expected = "a mapping of names to sources; no secret is listed";
        let Some((source, fields)) = sources.section(KEY, expected) else {
            return (secrets, SettingSource::Default);
        };
        for field in fields {
            if let Err(problem) = secrets.take(&field, sources.home.as_deref()) {
                let key = if is_name(&field.key) {
                    format!("{KEY}.{}", field.key)
                } else {
                    KEY.to_owned()
                };
                sources.warn(source.at(field.line), Some(key), format!("{problem}; ignored"));
            }
        }
        (secrets, source)
    }

    fn take(&mut self, field: &Field, home: Option<&Path>) -> Result<(), &'static str> {
        if !is_name(&field.key) {
            return Err("a name takes letters, digits and _ only");
        }
        if self.by_name.contains_key(&field.key) {
            return Err("given twice");
        }
        self.by_name.insert(field.key.clone(), listed_secret(&field.value, home)?);
        Ok(())
    }

    /// The secrets in order of their names.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &SecretSource)> {
        let entries = self.by_name.iter();
        entries.map(|(name, secret)| (name.as_str(), &secret.source))
    }

    /// The names of the secrets that are never typed, since no program may read them.
    pub(crate) fn without_programs(&self) -> Vec<&str> {
        let never = |secret: &ListedSecret| secret.programs == AllowedPrograms::default();
        let found = self.by_name.iter().filter(|(_, secret)| never(secret));
        found.map(|(name, _)| name.as_str()).collect()
    }

    /// The names without their sources, for the agent.
    pub(crate) fn names(&self) -> String {
        listed(&self.by_name.keys().collect::<Vec<_>>())
    }

    /// Whether this variable contains a listed secret, so that no command gets it.
    pub(crate) fn hides(&self, variable: &OsStr) -> bool {
        self.iter().any(|(_, source)| match source {
            SecretSource::Env(hidden) => variable == hidden.as_str(),
            SecretSource::File(_) | SecretSource::Command(_) => false,
        })
    }

    /// The variables that contain listed secrets.
    pub(crate) fn hidden(&self) -> Vec<String> {
        let hidden = self.iter().filter_map(|(_, source)| match source {
            SecretSource::Env(hidden) => Some(hidden.clone()),
            SecretSource::File(_) | SecretSource::Command(_) => None,
        });
        hidden.collect()
    }

    /// Looks up a listed secret, and the programs that it may be typed into. May run a program.
    ///
    /// # Errors
    /// If it is not listed, not found, or cannot be typed.
    pub(crate) fn resolve(
        &self,
        name: &str,
        context: &ResolveContext,
    ) -> Result<(Secret, AllowedPrograms), ResolveError> {
        let ListedSecret { source, programs } = self.by_name.get(name).ok_or_else(|| {
            ResolveError::NotListed { name: name.to_owned(), listed: self.names() }
        })?;
        source
            .value(context)
            .map(|secret| (secret, programs.clone()))
            .map_err(|cause| ResolveError::NotThere { name: name.to_owned(), cause })
    }
}

impl fmt::Display for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let entries = self.iter().map(|(name, source)| format!("{name} ({source})"));
        f.write_str(&listed(&entries.collect::<Vec<_>>()))
    }
}

/// Arguments and labels show names unchanged, so only safe characters are allowed.
fn is_name(text: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    !text.is_empty() && text.chars().all(is_part)
}

fn listed_secret(raw: &Raw, home: Option<&Path>) -> Result<ListedSecret, &'static str> {
    let Raw::Map(fields) = raw else {
        return Err(EXPECTED);
    };
    let (programs, sources): (Vec<&Field>, Vec<&Field>) =
        fields.iter().partition(|field| field.key == "programs");
    let [field] = sources.as_slice() else {
        return Err(ONE_EXPECTED);
    };
    let programs = match programs.as_slice() {
        [] => AllowedPrograms::default(),
        [field] => allowed_programs(&field.value)?,
        _ => return Err("programs is given twice"),
    };
    Ok(ListedSecret { source: source(field, home)?, programs })
}

fn allowed_programs(raw: &Raw) -> Result<AllowedPrograms, &'static str> {
    const EXPECTED: &str = "programs takes a list of absolute paths, or `any`";
    let path = |item: &Raw| item.text().map(PathBuf::from).filter(|path| path.is_absolute());
    match raw {
        Raw::Text(word) if word == "any" => Ok(AllowedPrograms::Any),
        Raw::List(items) => {
            let paths: Option<Vec<PathBuf>> = items.iter().map(path).collect();
            paths.map(AllowedPrograms::These).ok_or(EXPECTED)
        }
        _ => Err(EXPECTED),
    }
}

fn source(field: &Field, home: Option<&Path>) -> Result<SecretSource, &'static str> {
    match field.key.as_str() {
        "env" => match field.value.text().filter(|name| is_variable(name)) {
            Some(name) => Ok(SecretSource::Env(name.to_owned())),
            None => Err("env takes the name of a variable"),
        },
        "file" => match File.read(&field.value, home) {
            Ok(Some(path)) => Ok(SecretSource::File(path)),
            _ => Err("file takes an absolute path, or one that begins with `~/`"),
        },
        "command" => field.value.command(None).map(SecretSource::Command).ok_or(
            "command takes a list: the program's name or absolute path, and its arguments, as text",
        ),
        _ => Err(EXPECTED),
    }
}

/// The time limit of a program that prints a secret; the user may have to unlock a key.
const COMMAND_TIME: Duration = Duration::from_secs(10);
/// How much of a source to read: the longest secret, a line ending, and one more byte, which
/// reveals that a secret is too long.
const SOURCE_BYTES: usize = MAX_SECRET_BYTES + 3;
/// How much of an unlisted name an error repeats.
const SHOWN_CHARS: usize = 40;

/// What looking up secrets needs.
pub(crate) struct ResolveContext<'a> {
    /// The server's own environment.
    pub(crate) env: Env<'a>,
    /// The environment of programs, without the variables that contain secrets.
    pub(crate) environment: &'a [(OsString, OsString)],
    /// Programs that are meant to outlive their starter.
    pub(crate) daemons: Arc<[String]>,
}

/// Why a secret has no value.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ResolveError {
    #[error(
        "{} is not among the listed secrets: {listed}; the user lists them in config.yaml, as \
         `secrets: {{NAME: {{env: VARIABLE, programs: [PATH]}}}}`", foreign::in_quotes(.name, SHOWN_CHARS)
    )]
    NotListed {
        /// The requested name.
        name: String,
        listed: String,
    },
    #[error(
        "secret {name} is not available: {cause}; `zsh-tool doctor` shows where it is looked up"
    )]
    NotThere { name: String, cause: SecretError },
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum SecretError {
    /// The variable is unset, or an unexpanded `${…}` of a plugin.
    #[error("its variable is not set in the server's environment")]
    Unset,
    #[error("its file cannot be read: {0}")]
    File(io::Error),
    #[error("its program is not found in PATH")]
    NoProgram,
    #[error("its program printed none: {0}")]
    Program(CaptureError),
    /// The value cannot be typed or masked.
    #[error(transparent)]
    Unusable(#[from] MaskError),
}

impl SecretSource {
    /// Checks that the secret is available, without running a program.
    ///
    /// # Errors
    /// If it is not available.
    pub(crate) fn check(&self, context: &ResolveContext) -> Result<(), SecretError> {
        match self {
            SecretSource::Env(_) | SecretSource::File(_) => self.value(context).map(|_| ()),
            SecretSource::Command(words) => program_of(words, context).map(|_| ()),
        }
    }

    /// Whether users outside the group can read it.
    pub(crate) fn is_open_to_all(&self) -> bool {
        match self {
            SecretSource::File(path) => {
                std::fs::metadata(path).is_ok_and(|found| found.permissions().mode() & 0o004 != 0)
            }
            SecretSource::Env(_) | SecretSource::Command(_) => false,
        }
    }

    fn value(&self, context: &ResolveContext) -> Result<Secret, SecretError> {
        let bytes = match self {
            SecretSource::Env(variable) => read_variable(variable, context)?,
            SecretSource::File(path) => {
                without_line_end(read_file(path).map_err(SecretError::File)?)
            }
            SecretSource::Command(words) => without_line_end(read_command(words, context)?),
        };
        Ok(Secret::new(bytes)?)
    }
}

fn read_variable(name: &str, context: &ResolveContext) -> Result<Zeroizing<Vec<u8>>, SecretError> {
    let value = (context.env)(name).ok_or(SecretError::Unset)?;
    let bytes = Zeroizing::new(value.into_vec());
    // A secret may contain these characters, but a value that consists of `${…}` is an unexpanded
    // variable of a plugin.
    let is_unexpanded = bytes.starts_with(b"${") && bytes.ends_with(b"}");
    if is_unexpanded {
        return Err(SecretError::Unset);
    }
    Ok(bytes)
}

fn read_file(path: &Path) -> io::Result<Zeroizing<Vec<u8>>> {
    let file = files::open_regular(path)?;
    // Allocate once: growing could leave copies in memory.
    let mut bytes = Zeroizing::new(Vec::with_capacity(SOURCE_BYTES + 1));
    file.take(SOURCE_BYTES as u64).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn read_command(
    words: &[String],
    context: &ResolveContext,
) -> Result<Zeroizing<Vec<u8>>, SecretError> {
    let program = program_of(words, context)?;
    let limits = Limits {
        time: COMMAND_TIME,
        output: SOURCE_BYTES,
        daemons: Some(Arc::clone(&context.daemons)),
    };
    let launch = Launch {
        program,
        args: words.iter().skip(1).map(Into::into).collect(),
        environment: context.environment.to_vec(),
        directory: PathBuf::from("/"),
        wiring: Wiring::Pipe(StderrTarget::Nowhere),
        group: None,
        sandbox: None,
    };
    capture::output_of(launch, &limits).map_err(SecretError::Program)
}

fn program_of(words: &[String], context: &ResolveContext) -> Result<PathBuf, SecretError> {
    let program = words.first().ok_or(SecretError::NoProgram)?;
    let search_path = (context.env)("PATH").unwrap_or_default();
    files::find_program(program, &search_path).map_err(|_| SecretError::NoProgram)
}

/// Removes one line ending, which is not part of the secret.
fn without_line_end(mut bytes: Zeroizing<Vec<u8>>) -> Zeroizing<Vec<u8>> {
    for end in [b'\n', b'\r'] {
        if bytes.last() != Some(&end) {
            break;
        }
        bytes.pop();
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::tests::load_file;

    fn load(yaml: &str) -> (Secrets, Vec<String>) {
        let (config, warnings) = load_file(yaml);
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
        let source = |name| secrets.by_name.get(name).map(|secret| secret.source.clone());
        assert_eq!(source("SUDO"), Some(SecretSource::Env("SUDO_PW".into())));
        assert_eq!(source("DB"), Some(SecretSource::Command(words)));
        assert_eq!(source("key_2"), Some(SecretSource::File("/home/me/.key".into())));
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
    fn a_secret_goes_to_the_programs_that_are_listed_for_it() {
        let (secrets, warnings) = load(
            "secrets:\n  NONE: {env: A}\n  SUDO: {programs: [/usr/bin/sudo], env: B}\n  \
             ALL: {env: C, programs: any}\n",
        );
        assert_eq!(warnings, [""; 0]);
        let programs = |name| secrets.by_name.get(name).map(|secret| secret.programs.clone());
        let sudo = AllowedPrograms::These(vec!["/usr/bin/sudo".into()]);
        assert_eq!(programs("SUDO"), Some(sudo));
        assert_eq!(programs("ALL"), Some(AllowedPrograms::Any));
        assert_eq!(secrets.without_programs(), ["NONE"]);
        for wrong in ["sudo", "[sudo]", "[5]", "{a: b}"] {
            let (secrets, warnings) =
                load(&format!("secrets: {{A: {{env: B, programs: {wrong}}}}}"));
            assert_eq!(secrets, Secrets::default(), "{wrong}");
            assert!(warnings.concat().contains("absolute paths"), "{warnings:?}");
        }
    }

    #[test]
    fn an_empty_section_lists_none() {
        for yaml in ["", "secrets:", "secrets: {}"] {
            let (secrets, warnings) = load(yaml);
            assert_eq!(warnings, [""; 0], "{yaml}");
            assert_eq!(secrets.names(), "none");
        }
    }

    #[test]
    fn errors_are_named_with_their_line_without_the_value() {
        for (yaml, expected) in [
            ("secrets: hunter2", "FILE:1: secrets: expected a mapping"),
            ("secrets: [hunter2]", "FILE:1: secrets: expected a mapping"),
            ("secrets:\n  A: hunter2", "FILE:2: secrets.A: expected {env: VARIABLE}"),
            ("secrets:\n  A: {value: hunter2}", "FILE:2: secrets.A: expected {env: VARIABLE}"),
            ("secrets:\n  A: {hunter2: x}", "FILE:2: secrets.A: expected {env: VARIABLE}"),
            ("secrets:\n\n  hunter-2: {env: X}", "FILE:3: secrets: a name takes letters"),
            (
                "secrets:\n  A: {env: X, file: /hunter2}",
                "FILE:2: secrets.A: expected {env: VARIABLE}",
            ),
            ("secrets:\n  A: {env: [hunter2]}", "FILE:2: secrets.A: env takes the name"),
            ("secrets:\n  A: {file: hunter2}", "FILE:2: secrets.A: file takes an absolute path"),
            ("secrets:\n  A: {command: hunter2}", "FILE:2: secrets.A: command takes a list"),
            ("secrets:\n  A: {command: []}", "FILE:2: secrets.A: command takes a list"),
            ("secrets:\n  A: {command: [./hunter2]}", "FILE:2: secrets.A: command takes a list"),
            (
                "secrets:\n  A: {command: [sh, [hunter2]]}",
                "FILE:2: secrets.A: command takes a list",
            ),
            ("secrets:\n  B: {env: X}\n  B: {env: hunter2}", "FILE:3: secrets.B: given twice"),
        ] {
            let (_, warnings) = load(yaml);
            assert_eq!(warnings.len(), 1, "{yaml}: {warnings:?}");
            let warning = &warnings[0];
            assert!(warning.starts_with(expected), "{yaml}: {warning}");
            assert!(!warning.contains("hunter"), "{yaml}: {warning}");
        }
    }

    #[test]
    fn one_error_leaves_the_others_listed() {
        let (secrets, warnings) = load("secrets: {A: {env: X}, B: 1, 3: {env: Y}}");
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        assert_eq!(secrets.names(), "3, A");
    }
}
