//! Starting a shell: its session, its descriptors, its signals, nothing else of ours.
//!
//! In pipe mode the child gets a session without a controlling terminal, `/dev/null` or
//! a pipe as stdin, and one pipe for stdout and stderr. In PTY mode `pty-process` gives
//! it a terminal. In both, descriptor 9 is the side-band and all else is closed on exec.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use super::descriptors::{self, SIDEBAND_FD};
use super::pty::{self, TerminalSize};
use super::tree::{self, Identity};
use super::wait::Child;

/// A pipe of this size takes a flood in few reads; more is counted against the user.
const OUTPUT_PIPE_BYTES: usize = 256 * 1024;

/// What the child's stdin, stdout and stderr are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wiring {
    /// stdin from `/dev/null`.
    Pipe,
    /// stdin from a pipe that we write to.
    PipeWithInput,
    /// A terminal of its own.
    Terminal(TerminalSize),
}

/// A program to start.
#[derive(Debug)]
pub struct Launch {
    /// Looked up in PATH when it has no slash.
    pub program: PathBuf,
    /// Its arguments, without its name.
    pub args: Vec<OsString>,
    /// Its whole environment.
    pub environment: Vec<(OsString, OsString)>,
    /// Where it starts.
    pub directory: PathBuf,
    /// Its descriptors.
    pub wiring: Wiring,
    /// Whether it gets the side-band.
    pub sideband: bool,
}

/// A started program and our ends of what it holds. All of them do not block.
#[derive(Debug)]
pub struct Spawned {
    /// The child itself.
    pub child: Child,
    /// The child as others see it.
    pub id: Identity,
    /// Its stdout and stderr, or its terminal.
    pub output: OwnedFd,
    /// Its stdin, if we hold the other end; a terminal is written to through `output`.
    pub input: Option<OwnedFd>,
    /// Where its prologue reports.
    pub sideband: Option<OwnedFd>,
}

/// Why a program was not started. Nothing runs then.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    /// The working directory is gone or is none.
    #[error("the working directory {0} does not exist or cannot be entered: pass another cwd")]
    Directory(PathBuf),
    /// No such program.
    #[error("cannot start {0}: no such program")]
    MissingProgram(PathBuf),
    /// Not executable.
    #[error("cannot start {0}: permission denied")]
    NotPermitted(PathBuf),
    /// Arguments and environment exceed what the kernel takes.
    #[error(
        "the command and its environment are longer than the kernel takes (E2BIG): pass less in env"
    )]
    TooLong,
    /// `fork` was refused.
    #[error(
        "the system refuses more processes (EAGAIN): end some, see zsh_tasks, or raise `ulimit -u`"
    )]
    NoProcesses,
    /// No descriptor is left.
    #[error(
        "no file descriptor is left (EMFILE): end some tasks, see zsh_tasks, or raise `ulimit -n`"
    )]
    NoDescriptors,
    /// Anything else.
    #[error("cannot start {program}: {source}")]
    Other {
        /// What was to be started.
        program: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

impl Launch {
    /// Starts the program. The calling thread must be the one that waits for it.
    ///
    /// # Errors
    /// Each cause by name; no process is left in any of them.
    pub fn spawn(self) -> Result<Spawned, SpawnError> {
        if !self.directory.is_dir() {
            return Err(SpawnError::Directory(self.directory));
        }
        let program = self.program.clone();
        self.start().map_err(|error| classify(error, program))
    }

    fn start(self) -> io::Result<Spawned> {
        let mut command = Command::new(&self.program);
        if let Some(name) = self.program.file_name() {
            // As if it had been typed: `$0` is the name, not the path.
            command.arg0(name);
        }
        command
            .args(&self.args)
            .env_clear()
            .envs(self.environment)
            .current_dir(&self.directory);
        let (ours, theirs) = if self.sideband {
            let (ours, theirs) = descriptors::pipe()?;
            descriptors::set_nonblocking(&ours)?;
            (Some(ours), Some(theirs))
        } else {
            (None, None)
        };
        let sideband = theirs.as_ref().map(AsRawFd::as_raw_fd);
        let (mut process, output, input) = match self.wiring {
            Wiring::Pipe => start_on_pipes(command, sideband, false)?,
            Wiring::PipeWithInput => start_on_pipes(command, sideband, true)?,
            Wiring::Terminal(size) => {
                let (process, master) = pty::spawn(command, size, move || prepare_child(sideband))?;
                (process, master, None)
            }
        };
        drop(theirs);
        descriptors::set_nonblocking(&output)?;
        if let Some(input) = &input {
            descriptors::set_nonblocking(input)?;
        }
        let child = match Child::adopt(&process) {
            Ok(child) => child,
            Err(error) => {
                // Nobody could watch it: it must not run on unseen.
                let _ = process.kill();
                let _ = process.wait();
                return Err(error);
            }
        };
        let pid = child.pid();
        // The child cannot be gone from /proc: it is ours and not yet reaped.
        let started = tree::look_up(pid).map_or(0, |found| found.id.started);
        Ok(Spawned {
            child,
            id: Identity { pid, started },
            output,
            input,
            sideband: ours,
        })
    }
}

type Started = (std::process::Child, OwnedFd, Option<OwnedFd>);

fn start_on_pipes(
    mut command: Command,
    sideband: Option<RawFd>,
    with_input: bool,
) -> io::Result<Started> {
    let (output, child_output) = descriptors::pipe()?;
    descriptors::widen_pipe(&output, OUTPUT_PIPE_BYTES);
    let (child_input, input) = if with_input {
        let (read, write) = descriptors::pipe()?;
        (read, Some(write))
    } else {
        (descriptors::open_null()?, None)
    };
    command
        .stdin(Stdio::from(child_input))
        .stdout(Stdio::from(child_output.try_clone()?))
        .stderr(Stdio::from(child_output));
    // SAFETY: the closure makes only system calls that are safe between fork and exec
    // (setsid, sigaction, dup2, fcntl) and allocates nothing.
    unsafe {
        command.pre_exec(move || {
            rustix::process::setsid()?;
            prepare_child(sideband)
        });
    }
    let process = command.spawn()?;
    Ok((process, output, input))
}

/// Gives a new process the actions and the mask that programs expect to begin with:
/// whatever the client or the guard ignores or blocks would be inherited, and a blocked
/// SIGTERM or an ignored SIGPIPE changes what programs do. Safe between fork and exec.
pub(super) fn reset_signals() {
    for signal in 1..=31 {
        // SAFETY: sets the default action; SIGKILL and SIGSTOP refuse, harmlessly.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
    // SAFETY: the set is initialised by sigemptyset before it is used.
    unsafe {
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &none, std::ptr::null_mut());
    }
}

/// Runs in the child between fork and exec.
fn prepare_child(sideband: Option<RawFd>) -> io::Result<()> {
    reset_signals();
    if let Some(fd) = sideband {
        // SAFETY: both numbers are open here: `fd` is the pipe's end, and SIDEBAND_FD
        // is held by `seal_inherited` for this. dup2 clears close-on-exec.
        if unsafe { libc::dup2(fd, SIDEBAND_FD) } < 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

fn classify(error: io::Error, program: PathBuf) -> SpawnError {
    match error.raw_os_error() {
        Some(libc::ENOENT | libc::ENOTDIR) => SpawnError::MissingProgram(program),
        Some(libc::EACCES | libc::EPERM) => SpawnError::NotPermitted(program),
        Some(libc::E2BIG) => SpawnError::TooLong,
        Some(libc::EAGAIN | libc::ENOMEM) => SpawnError::NoProcesses,
        Some(libc::EMFILE | libc::ENFILE) => SpawnError::NoDescriptors,
        _ => SpawnError::Other {
            program,
            source: error,
        },
    }
}
