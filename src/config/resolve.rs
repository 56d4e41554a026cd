//! A listed secret's value, looked up when it is asked for.
//!
//! Errors name the secret and what is wrong, never a value and never a source: they are
//! read by whoever asked. `zsh-tool doctor` tells the sources.

use std::ffi::OsString;
use std::io::{self, Read};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use zeroize::Zeroizing;

use super::dirs::Env;
use super::secrets::{SecretSource, Secrets};
use crate::process::capture::{self, CaptureError, Limits, Survivors};
use crate::process::files;
use crate::process::spawn::{Errors, Launch, Wiring};
use crate::text::mask::{MAX_SECRET_BYTES, Secret, Unusable};

/// How long a program may take to print a secret; somebody may have to unlock a key.
const COMMAND_TIME: Duration = Duration::from_secs(10);
/// What a source may hold: a secret of the longest kind, a line's end, and one byte more,
/// which tells that it is too long.
const SOURCE_BYTES: usize = MAX_SECRET_BYTES + 3;
/// How much of an unlisted name an error repeats.
const SHOWN_CHARS: usize = 40;

/// Where secrets are looked up.
pub struct Surroundings<'a> {
    /// The server's own environment.
    pub env: Env<'a>,
    /// The environment that programs get: without the variables that hold secrets.
    pub environment: &'a [(OsString, OsString)],
    /// Programs that are meant to outlive the one that started them.
    pub daemons: Arc<[String]>,
}

/// Why there is no value.
#[derive(Debug, thiserror::Error)]
pub enum ResolveError {
    /// The user lists no such secret.
    #[error(
        "{name:?} is not among the listed secrets: {listed}; the user lists them in config.yaml, \
         as `secrets: {{NAME: {{env: VARIABLE}}}}`"
    )]
    NotListed {
        /// What was asked for, cut.
        name: String,
        /// The names that are listed.
        listed: String,
    },
    /// It is listed.
    #[error("secret {name} is not there: {cause}; `zsh-tool doctor` says where it is looked for")]
    NotThere {
        /// Which.
        name: String,
        /// Why not.
        cause: Cause,
    },
}

/// What is wrong with a source.
#[derive(Debug, thiserror::Error)]
pub enum Cause {
    /// No such variable, or an unexpanded `${…}` of a plugin.
    #[error("its variable is not set in the server's environment")]
    Unset,
    /// The system refused.
    #[error("its file cannot be read: {0}")]
    File(io::Error),
    /// No such program.
    #[error("its program is not found in PATH")]
    NoProgram,
    /// The program gave none.
    #[error("its program gave none: {0}")]
    Program(CaptureError),
    /// The value cannot be typed, or not be masked.
    #[error(transparent)]
    Unusable(#[from] Unusable),
}

impl Secrets {
    /// Looks a listed secret up. Runs a program, where the user says so.
    ///
    /// # Errors
    /// When it is not listed, not there, or cannot be typed.
    pub fn resolve(&self, name: &str, around: &Surroundings) -> Result<Secret, ResolveError> {
        let source = self.source(name).ok_or_else(|| ResolveError::NotListed {
            name: name.chars().take(SHOWN_CHARS).collect(),
            listed: self.names(),
        })?;
        source
            .value(around)
            .map_err(|cause| ResolveError::NotThere {
                name: name.to_owned(),
                cause,
            })
    }
}

impl SecretSource {
    /// Whether the value is there, as far as that is known without running a program.
    ///
    /// # Errors
    /// Why it is not.
    pub fn check(&self, around: &Surroundings) -> Result<(), Cause> {
        match self {
            SecretSource::Env(_) | SecretSource::File(_) => self.value(around).map(|_| ()),
            SecretSource::Command(words) => program_of(words, around).map(|_| ()),
        }
    }

    /// Whether others than the user and the group can read it.
    pub fn is_open_to_all(&self) -> bool {
        match self {
            SecretSource::File(path) => {
                std::fs::metadata(path).is_ok_and(|found| found.permissions().mode() & 0o004 != 0)
            }
            SecretSource::Env(_) | SecretSource::Command(_) => false,
        }
    }

    fn value(&self, around: &Surroundings) -> Result<Secret, Cause> {
        let bytes = match self {
            SecretSource::Env(variable) => of_variable(variable, around)?,
            SecretSource::File(path) => without_line_end(of_file(path).map_err(Cause::File)?),
            SecretSource::Command(words) => without_line_end(of_command(words, around)?),
        };
        Ok(Secret::new(bytes)?)
    }
}

fn of_variable(name: &str, around: &Surroundings) -> Result<Zeroizing<Vec<u8>>, Cause> {
    let value = (around.env)(name).ok_or(Cause::Unset)?;
    let bytes = Zeroizing::new(value.into_vec());
    // A secret may hold these characters; as a whole it is a plugin's that none expanded.
    let is_unexpanded = bytes.starts_with(b"${") && bytes.ends_with(b"}");
    match is_unexpanded {
        true => Err(Cause::Unset),
        false => Ok(bytes),
    }
}

fn of_file(path: &Path) -> io::Result<Zeroizing<Vec<u8>>> {
    let file = files::open_regular(path)?;
    // Room for all of it from the start: growing would leave copies in memory.
    let mut bytes = Zeroizing::new(Vec::with_capacity(SOURCE_BYTES + 1));
    file.take(SOURCE_BYTES as u64).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn of_command(words: &[String], around: &Surroundings) -> Result<Zeroizing<Vec<u8>>, Cause> {
    let program = program_of(words, around)?;
    let limits = Limits {
        time: COMMAND_TIME,
        output: SOURCE_BYTES,
        survivors: Survivors::Left(Arc::clone(&around.daemons)),
    };
    let launch = Launch {
        program,
        args: words.iter().skip(1).map(Into::into).collect(),
        environment: around.environment.to_vec(),
        directory: PathBuf::from("/"),
        wiring: Wiring::Pipe(Errors::Nowhere),
        sideband: false,
    };
    capture::output_of(launch, &limits).map_err(Cause::Program)
}

fn program_of(words: &[String], around: &Surroundings) -> Result<PathBuf, Cause> {
    let program = words.first().ok_or(Cause::NoProgram)?;
    let search_path = (around.env)("PATH").unwrap_or_default();
    files::find_program(program, &search_path).ok_or(Cause::NoProgram)
}

/// One line's end belongs to the file or to the program, not to the secret.
fn without_line_end(mut bytes: Zeroizing<Vec<u8>>) -> Zeroizing<Vec<u8>> {
    for end in [b'\n', b'\r'] {
        if bytes.last() != Some(&end) {
            break;
        }
        bytes.pop();
    }
    bytes
}
