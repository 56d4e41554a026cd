//! stdout and stderr of the commands for people.
//!
//! `println!` and `eprintln!` panic when nobody reads any more; what is written here
//! never does. Limits: unbuffered, so one call should carry a whole text or chunk.

use std::fmt::Display;
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsFd;
use std::process::ExitCode;

use crate::process::descriptors::Waiting;

/// What a shell shows for a program that SIGPIPE ended.
const EXIT_SIGPIPE: u8 = 141;

/// Why not all was put out.
#[derive(Debug, thiserror::Error)]
pub enum OutputError {
    /// Its reader is gone; no fault, and nobody is told.
    #[error("the reader of stdout is gone")]
    Closed,
    /// The disk is full, or the like.
    #[error("cannot write to stdout: {0}")]
    Failed(#[from] io::Error),
    /// What was to be written could not be read.
    #[error("cannot read what is to be printed: {0}")]
    Unreadable(io::Error),
}

impl OutputError {
    /// Says what is worth saying on stderr; the exit code that goes with it: 141 for a
    /// reader that is gone (as by SIGPIPE), else 1.
    pub fn report(&self) -> u8 {
        match self {
            OutputError::Closed => EXIT_SIGPIPE,
            OutputError::Failed(_) | OutputError::Unreadable(_) => {
                complain(self);
                1
            }
        }
    }
}

/// stdout, for bytes as they are.
#[derive(Debug)]
pub struct Output {
    file: Waiting,
}

impl Output {
    /// This process's stdout.
    ///
    /// # Errors
    /// When no descriptor is left.
    pub fn stdout() -> io::Result<Output> {
        let fd = io::stdout().as_fd().try_clone_to_owned()?;
        Ok(Output {
            file: Waiting::new(fd),
        })
    }

    /// Writes all of it, waiting for a slow reader.
    ///
    /// # Errors
    /// When the reader is gone or the system refuses.
    pub fn write(&mut self, mut bytes: &[u8]) -> Result<(), OutputError> {
        while !bytes.is_empty() {
            match self.file.write(bytes) {
                Ok(0) => return Err(io::Error::from(ErrorKind::WriteZero).into()),
                Ok(count) => bytes = bytes.get(count..).unwrap_or_default(),
                Err(error) => match error.kind() {
                    ErrorKind::Interrupted => {}
                    ErrorKind::BrokenPipe => return Err(OutputError::Closed),
                    _ => return Err(error.into()),
                },
            }
        }
        Ok(())
    }
}

/// Writes a whole text to stdout.
///
/// # Errors
/// As [`Output::write`].
pub fn print(text: &str) -> Result<(), OutputError> {
    Output::stdout()?.write(text.as_bytes())
}

/// Writes a line to stderr, with the program's name before it; when nobody reads there,
/// nothing can be done.
pub fn complain(text: impl Display) {
    say(format_args!("zsh-tool: {text}"));
}

/// Writes a line to stderr as it is.
pub fn say(text: impl Display) {
    // In one write, so that lines of several processes do not mix.
    let line = format!("{text}\n");
    let _ = io::stderr().write_all(line.as_bytes());
}

/// The end of a command that has printed something: `code`, if it could be printed.
pub fn conclude(printed: Result<(), OutputError>, code: u8) -> ExitCode {
    ExitCode::from(match printed {
        Ok(()) => code,
        Err(error) => error.report(),
    })
}
