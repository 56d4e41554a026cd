//! Writes to stdout and stderr without panicking, unlike `println!` and `eprintln!`, when the reader
//! is gone. Unbuffered: pass a whole text or chunk in each call.

use std::fmt::Display;
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::os::fd::AsFd;
use std::process::ExitCode;

use crate::process::descriptors::BlockingFile;
use crate::text::foreign;
use crate::text::terminal_filter::TerminalFilter;

/// The exit code of usage errors, as clap's.
pub(crate) const EXIT_USAGE: u8 = 2;

/// The exit code that shells report for a program ended by SIGPIPE.
const EXIT_SIGPIPE: u8 = 141;

/// Why output is incomplete.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OutputError {
    /// The reader is gone; not reported on stderr.
    #[error("the reader of stdout is gone")]
    Closed,
    /// For example, the disk is full.
    #[error("cannot write to stdout: {0}")]
    Failed(#[from] io::Error),
    /// The source of the output could not be read.
    #[error("cannot read the output: {0}")]
    Unreadable(io::Error),
}

impl OutputError {
    /// Reports the error on stderr and returns the exit code: 141 if the reader is gone (as
    /// with SIGPIPE), otherwise 1.
    pub(crate) fn report(&self) -> u8 {
        match self {
            OutputError::Closed => EXIT_SIGPIPE,
            OutputError::Failed(_) | OutputError::Unreadable(_) => {
                complain(self);
                1
            }
        }
    }
}

/// stdout, for raw bytes.
#[derive(Debug)]
pub(crate) struct Output {
    file: BlockingFile,
    /// What keeps the bytes of others from asking or changing a terminal.
    filter: Option<TerminalFilter>,
}

impl Output {
    /// Opens this process's stdout.
    ///
    /// # Errors
    /// When no descriptor is left.
    pub(crate) fn stdout() -> io::Result<Output> {
        let fd = io::stdout().as_fd().try_clone_to_owned()?;
        Ok(Output { file: BlockingFile::new(fd), filter: None })
    }

    /// Opens this process's stderr.
    ///
    /// # Errors
    /// When no descriptor is left, or stderr is closed.
    pub(crate) fn stderr() -> io::Result<Output> {
        let fd = io::stderr().as_fd().try_clone_to_owned()?;
        Ok(Output { file: BlockingFile::new(fd), filter: None })
    }

    /// The same output, where a terminal gets only what passes the filter.
    pub(crate) fn filtered(self, filter: TerminalFilter) -> Output {
        Output { filter: io::stdout().is_terminal().then_some(filter), ..self }
    }

    /// Writes all of it, waiting for a slow reader.
    ///
    /// # Errors
    /// When the reader is gone or the system refuses.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<(), OutputError> {
        match &mut self.filter {
            Some(filter) => {
                let passed = filter.pass(bytes);
                self.write_all(&passed)
            }
            None => self.write_all(bytes),
        }
    }

    fn write_all(&mut self, mut bytes: &[u8]) -> Result<(), OutputError> {
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

/// Rows as aligned lines. The columns in `right` are aligned right; the last one is not
/// padded.
pub(crate) fn columns<const N: usize>(rows: &[[String; N]], right: &[usize]) -> String {
    let mut widths = [0; N];
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.chars().count().max(*width);
        }
    }
    let line = |row: &[String; N]| {
        let cells = row.iter().zip(widths).enumerate();
        let cells: Vec<String> = cells
            .map(|(column, (cell, width))| match column {
                _ if column + 1 == N => cell.clone(),
                _ if right.contains(&column) => format!("{cell:>width$}"),
                _ => format!("{cell:<width$}"),
            })
            .collect();
        cells.join("  ") + "\n"
    };
    rows.iter().map(line).collect()
}

/// Writes a whole text to stdout. A terminal gets no character of it that acts or is not seen.
///
/// # Errors
/// As [`Output::write`].
pub(crate) fn print(text: &str) -> Result<(), OutputError> {
    let text = if io::stdout().is_terminal() { foreign::lines(text) } else { text.into() };
    Output::stdout()?.write(text.as_bytes())
}

/// Writes a line to stderr, prefixed with the program's name. Errors are ignored: there is
/// nowhere to report them.
pub(crate) fn complain(text: impl Display) {
    say_on_stderr(format_args!("zsh-tool: {text}"));
}

/// Reports an error; returns the exit code of a failure.
pub(crate) fn failed(error: impl Display) -> ExitCode {
    complain(error);
    ExitCode::FAILURE
}

/// Reports a usage error; returns its exit code.
pub(crate) fn misused(error: impl Display) -> ExitCode {
    complain(error);
    ExitCode::from(EXIT_USAGE)
}

/// Writes a line to stderr.
pub(crate) fn say_on_stderr(text: impl Display) {
    // One write, so that lines of several processes do not mix.
    let text = text.to_string();
    let line = format!("{}\n", foreign::lines(&text));
    let _ = io::stderr().write_all(line.as_bytes());
}

/// A word quoted for a shell.
pub(crate) fn shell_word(word: &str) -> String {
    shlex::try_quote(word).map_or_else(|_| word.to_owned(), |quoted| quoted.into_owned())
}

/// The exit code of a command: `code`, if its output could be printed.
pub(crate) fn conclude(printed: Result<(), OutputError>, code: u8) -> ExitCode {
    ExitCode::from(match printed {
        Ok(()) => code,
        Err(error) => error.report(),
    })
}
