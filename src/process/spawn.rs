//! Starting a program with its own session, descriptors and signals; it inherits nothing else.
//!
//! In pipe mode the child gets a session without a controlling terminal, `/dev/null` or a pipe as
//! stdin, and one pipe for stdout and stderr, or one for each. In PTY mode `pty-process` gives it a
//! terminal. In both modes every other descriptor is closed on exec.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

use super::birth::Birth;
use super::birthmark::Birthmark;
use super::control_group::ControlGroup;
use super::descriptors;
use super::files;
use super::memory;
use super::program::Program;
use super::pty::{self, TerminalSize};
use super::sandbox::Sandbox;
use super::start;
use super::tree::{self, COOKIE_VARIABLE, Identity};
use super::wait::Child;

use crate::text::foreign::ShowPath;

/// Large enough to read a flood of output in few calls; more would count against the user's limit.
const OUTPUT_PIPE_BYTES: usize = 256 * 1024;

/// What the child's stdin, stdout and stderr are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wiring {
    /// stdin from `/dev/null`.
    Pipe(StderrTarget),
    /// stdin from a pipe that we write to.
    PipeWithInput(StderrTarget),
    /// A terminal of its own.
    Terminal(TerminalSize),
}

/// Where stderr goes, without a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StderrTarget {
    /// On the pipe of stdout, in the order in which both are written.
    WithOutput,
    /// On a pipe of its own.
    Separate,
    /// To `/dev/null`.
    Nowhere,
}

#[derive(Debug)]
pub(crate) struct Launch {
    /// Looked up in PATH when it has no slash.
    pub(crate) program: PathBuf,
    /// Without its name.
    pub(crate) args: Vec<OsString>,
    pub(crate) environment: Vec<(OsString, OsString)>,
    pub(crate) directory: PathBuf,
    pub(crate) wiring: Wiring,
    /// The control group that it enters.
    pub(crate) group: Option<ControlGroup>,
    /// What confines it.
    pub(crate) sandbox: Option<Arc<Sandbox>>,
}

/// A started program and our ends of its descriptors, all of them non-blocking.
#[derive(Debug)]
pub(crate) struct Spawned {
    pub(crate) child: Child,
    pub(crate) id: Identity,
    /// Its stdout, with stderr unless that goes elsewhere, or its terminal.
    pub(crate) output: OwnedFd,
    /// Its stderr, where it has a pipe of its own.
    pub(crate) stderr: Option<OwnedFd>,
    /// The other end of its stdin, if that is a pipe; a terminal is written to through `output`.
    pub(crate) input: Option<OwnedFd>,
    /// The program's own end of its terminal, kept open where the last close discards unread
    /// output. The end of the output is seen only once this is closed.
    pub(crate) terminal: Option<OwnedFd>,
    /// The control group that it is in.
    pub(crate) group: Option<ControlGroup>,
}

/// Why a program was not started. Nothing runs then.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    #[error("the working directory {} does not exist or cannot be entered: give another cwd", .0.shown())]
    Directory(PathBuf),
    #[error("cannot start {}: no such program", .0.shown())]
    MissingProgram(PathBuf),
    #[error("cannot start {}: permission denied", .0.shown())]
    NotPermitted(PathBuf),
    #[error(
        "the command and its environment are longer than the kernel accepts (E2BIG): pass less in env"
    )]
    TooLong,
    #[error(
        "the system refuses more processes (EAGAIN): end some (`zsh_tasks` lists them) or raise `ulimit -u`"
    )]
    NoProcesses,
    #[error(
        "no memory is left for another process (ENOMEM): end some tasks (`zsh_tasks` lists them)"
    )]
    NoMemory,
    #[error(
        "no file descriptor is left (EMFILE): end some tasks (`zsh_tasks` lists them) or raise `ulimit -n`"
    )]
    NoDescriptors,
    #[error(
        "the machine has no file descriptor left (ENFILE): end programs that have many files open"
    )]
    NoFiles,
    #[error("cannot start {program}: {1}", program = .0.shown())]
    Other(PathBuf, #[source] io::Error),
}

impl Launch {
    /// Starts the program. The calling thread must be the one that waits for it.
    ///
    /// # Errors
    /// The program was not started; no process is left behind.
    pub(crate) fn spawn(self) -> Result<Spawned, SpawnError> {
        if !files::is_enterable(&self.directory) {
            return Err(SpawnError::Directory(self.directory));
        }
        match self.start() {
            Ok(spawned) => Ok(Spawned { group: self.group, ..spawned }),
            Err(error) => Err(classify(error, self.program, self.directory)),
        }
    }

    fn start(&self) -> io::Result<Spawned> {
        match self.wiring {
            Wiring::Pipe(stderr) => self.start_on_pipes(stderr, false),
            Wiring::PipeWithInput(stderr) => self.start_on_pipes(stderr, true),
            Wiring::Terminal(size) => self.start_on_terminal(size),
        }
    }

    fn birth(&self) -> Birth {
        let mut cookies = self.environment.iter().filter(|(name, _)| name == COOKIE_VARIABLE);
        let cookie = cookies.find_map(|(_, cookie)| cookie.to_str());
        Birth {
            // The mark that belongs to the cookie in the environment.
            birthmark: cookie.map(Birthmark::for_cookie),
            group: self.group.as_ref().map(ControlGroup::entrance),
            sandbox: self.sandbox.clone(),
        }
    }

    /// `$0` is the name, not the path, as if it had been typed.
    fn name(&self) -> &OsStr {
        self.program.file_name().unwrap_or(self.program.as_os_str())
    }

    fn start_on_pipes(&self, stderr: StderrTarget, with_input: bool) -> io::Result<Spawned> {
        let (output, child_output) = descriptors::pipe()?;
        descriptors::widen_pipe(&output, OUTPUT_PIPE_BYTES);
        let (stderr, child_stderr) = match stderr {
            StderrTarget::Separate => {
                let (ours, theirs) = descriptors::pipe()?;
                (Some(ours), theirs)
            }
            StderrTarget::WithOutput => (None, child_output.try_clone()?),
            StderrTarget::Nowhere => (None, descriptors::open_null()?),
        };
        let (child_input, input) = if with_input {
            let (read, write) = descriptors::pipe()?;
            (read, Some(write))
        } else {
            (descriptors::open_null()?, None)
        };
        let descriptors =
            [(child_input.as_fd(), 0), (child_output.as_fd(), 1), (child_stderr.as_fd(), 2)];
        let arguments = self.args.iter().map(OsString::as_os_str);
        let pid = start::start(&Program {
            path: &self.program,
            arguments: std::iter::once(self.name()).chain(arguments).collect(),
            environment: &self.environment,
            directory: &self.directory,
            descriptors: &descriptors,
            birth: self.birth(),
        })?;
        // Close these first: the descriptor that watches the child may need their numbers.
        drop((child_input, child_output, child_stderr));
        Spawned::new(pid, output, stderr, input, None)
    }

    fn start_on_terminal(&self, size: TerminalSize) -> io::Result<Spawned> {
        let mut command = Command::new(&self.program);
        command
            .arg0(self.name())
            .args(&self.args)
            .env_clear()
            .envs(self.environment.iter().cloned())
            .current_dir(&self.directory);
        let (process, master, terminal) = pty::spawn(command, size, self.birth())?;
        let pid = i32::try_from(process.id()).map_err(io::Error::other)?;
        Spawned::new(pid, master, None, None, terminal)
    }
}

impl Spawned {
    fn new(
        pid: i32,
        output: OwnedFd,
        stderr: Option<OwnedFd>,
        input: Option<OwnedFd>,
        terminal: Option<OwnedFd>,
    ) -> io::Result<Spawned> {
        descriptors::set_nonblocking(&output)?;
        for fd in stderr.iter().chain(&input) {
            descriptors::set_nonblocking(fd)?;
        }
        let child = Child::adopt(pid)?;
        memory::prefer_for_oom_kill(pid);
        // The child is still in /proc: it has not been reaped.
        let started = tree::look_up(pid).map_or(0, |found| found.id.started);
        let id = Identity { pid, started };
        Ok(Spawned { child, id, output, stderr, input, terminal, group: None })
    }
}

fn classify(error: io::Error, program: PathBuf, directory: PathBuf) -> SpawnError {
    match error.raw_os_error() {
        // These errors may mean the directory: it may have been removed since it was checked.
        Some(libc::ENOENT | libc::ENOTDIR | libc::EACCES) if !files::is_enterable(&directory) => {
            SpawnError::Directory(directory)
        }
        Some(libc::ENOENT | libc::ENOTDIR) => SpawnError::MissingProgram(program),
        Some(libc::EACCES | libc::EPERM) => SpawnError::NotPermitted(program),
        Some(libc::E2BIG) => SpawnError::TooLong,
        Some(libc::EAGAIN) => SpawnError::NoProcesses,
        Some(libc::ENOMEM) => SpawnError::NoMemory,
        Some(libc::EMFILE) => SpawnError::NoDescriptors,
        Some(libc::ENFILE) => SpawnError::NoFiles,
        _ => SpawnError::Other(program, error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_a_directory_that_was_removed_before_the_start() {
        for errno in [libc::ENOENT, libc::EACCES] {
            let error = classify(
                io::Error::from_raw_os_error(errno),
                "/bin/sh".into(),
                "/no/such/directory".into(),
            );
            assert!(matches!(error, SpawnError::Directory(_)), "{error}");
        }
    }

    #[test]
    fn an_error_names_a_missing_program_if_the_directory_exists() {
        let error = io::Error::from_raw_os_error(libc::ENOENT);
        let error = classify(error, "/no/such/program".into(), "/".into());
        assert!(matches!(error, SpawnError::MissingProgram(_)), "{error}");
    }
}
