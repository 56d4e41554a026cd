//! Typing a secret into a task's terminal.
//!
//! It goes only to the programs that the user has named, by the files that the reading processes
//! execute. It is typed completely and at once, or not at all: the worker checks who reads and the
//! terminal's echo, and writes in the next step, so that only a program that turns echo on between
//! the two, or that begins to read beside the one that asks, can expose it.
//!
//! Limits: echo is a mode of the terminal. A program that turns it off and draws what is typed
//! itself, as a shell's line editor does, shows a secret; that is masked like all output, unless
//! the program wraps it at the right margin.

use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use crossbeam_channel::Sender;
use zeroize::Zeroizing;

use super::input::InputQueue;
use super::live::LiveTask;
use super::output::mask::Masking;
use super::request::InputError;
use crate::process::descriptors::{self, Transfer};
use crate::process::executable::{AllowedPrograms, Cause, Refused};
use crate::process::pty::{self, LineModes};
use crate::progress::wait::ProcessName;
use crate::text::foreign::Foreign;
use crate::text::mask::Secret;

/// What a terminal sends for Enter.
const ENTER: u8 = b'\r';

/// A secret to type.
pub(crate) struct SecretInput {
    /// The name that its mask shows.
    pub(crate) name: String,
    pub(crate) secret: Secret,
    /// The programs that may read it.
    pub(crate) programs: AllowedPrograms,
    pub(crate) enter: bool,
    /// Has room for the result.
    pub(crate) answer: Sender<Result<(), SecretError>>,
}

impl SecretInput {
    /// Types it on the master of the task's terminal, after all earlier input, and sends the
    /// result. `readers` are the processes that read the terminal, or may.
    pub(super) fn carry_out(
        self,
        task: &LiveTask,
        readers: &[ProcessName],
        master: &OwnedFd,
        input: &mut InputQueue,
        masking: &mut Masking,
    ) {
        let typed = self
            .check_readers(task, readers)
            .and_then(|()| self.type_into(task, master, input, masking));
        if typed.is_ok() {
            // The input that it waited for has come.
            task.report(|state| state.forget_answered());
        }
        // The caller may be gone; the channel has room for one answer.
        let _ = self.answer.try_send(typed);
    }

    /// Checks that each program that may get it is one that the user has named.
    fn check_readers(&self, task: &LiveTask, readers: &[ProcessName]) -> Result<(), SecretError> {
        let (name, id) = (self.name.clone(), task.facts.id.clone());
        if readers.is_empty() && self.programs != AllowedPrograms::Any {
            return Err(SecretError::NoReader { name, id });
        }
        let refused = readers.iter().find_map(|reader| self.programs.admit(reader).err());
        let Some(Refused { process, cause }) = refused else {
            return Ok(());
        };
        Err(match cause {
            Cause::Unlisted(program) => SecretError::Program { name, process, program },
            Cause::Hidden => SecretError::HiddenProgram { name, process },
            Cause::Disguised(reason) => SecretError::Disguised { name, process, reason },
        })
    }

    fn type_into(
        &self,
        task: &LiveTask,
        master: &OwnedFd,
        input: &mut InputQueue,
        masking: &mut Masking,
    ) -> Result<(), SecretError> {
        let (name, id) = (self.name.clone(), task.facts.id.clone());
        if input.wants_to_write() {
            return Err(SecretError::InputWaits { name, id });
        }
        let secret = self.secret.bytes();
        let mut keys = Zeroizing::new(Vec::with_capacity(secret.len() + 1));
        keys.extend_from_slice(secret);
        if self.enter {
            keys.push(ENTER);
        }
        if !matches!(pty::input_modes(master.as_fd()), Some((false, _))) {
            return Err(SecretError::Echo { name, id });
        }
        // Before the first byte: a program may print it as soon as it has it.
        masking.cover(&self.name, &self.secret);
        let modes = LineModes::read(master);
        let mut written = 0;
        while written < keys.len() {
            let rest = keys.get(written..).unwrap_or_default();
            match descriptors::write(master, rest) {
                Transfer::Bytes(count) => {
                    input.note_typed(rest.get(..count).unwrap_or_default(), modes.as_ref());
                    written += count;
                }
                Transfer::WouldBlock | Transfer::Closed => {
                    return Err(SecretError::TakenInPart { name, id, bytes: written });
                }
            }
        }
        Ok(())
    }
}

/// A worker answers within milliseconds, unless the machine is busy.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    #[error(
        "task {0} has no terminal, and only a terminal can keep what is typed from being shown: \
         run the command again with pty: true"
    )]
    NoTerminal(String),
    /// The terminal would show it.
    #[error(
        "secret {name} was not typed: the terminal of task {id} shows what is typed (its echo is \
         on), so the secret would be visible. It is typed only at a prompt that hides it: wait \
         for one (zsh_poll task_id={id} says WAITING FOR A PASSWORD), then send it again"
    )]
    Echo { name: String, id: String },
    /// No process is seen reading the terminal.
    #[error(
        "secret {name} was not typed: no program is seen to read the terminal of task {id}; wait \
         for its prompt (zsh_poll task_id={id}), then send it again"
    )]
    NoReader { name: String, id: String },
    /// The user has not named this program.
    #[error(
        "secret {name} was not typed: what reads is {} {}, and that executes {program}, which is \
         not among the programs of the secret. Only the user may add it, in config.yaml: \
         `secrets: {{{name}: {{…, programs: [{program}]}}}}`",
        .process.pid,
        .process.name
    )]
    Program { name: String, process: ProcessName, program: Foreign },
    /// It is not shown which program that is.
    #[error(
        "secret {name} was not typed: what reads is {} {}, and the file that it executes is not \
         shown. If it is a program that runs as root, the user may add its file to the secret's \
         programs in config.yaml; `programs: any` types the secret into every program",
        .process.pid,
        .process.name
    )]
    HiddenProgram { name: String, process: ProcessName },
    /// It executes a listed program, and may be something else.
    #[error(
        "secret {name} was not typed: what reads is {} {}, which executes a program of the secret, \
         but {reason}. Run it without that, or let the user type it: zsh-tool attach TASK",
        .process.pid,
        .process.name
    )]
    Disguised { name: String, process: ProcessName, reason: &'static str },
    /// It would follow other input.
    #[error(
        "secret {name} was not typed: task {id} has not read what was sent before; wait until it \
         does (zsh_poll task_id={id}), then send it again"
    )]
    InputWaits { name: String, id: String },
    /// Only its beginning was typed.
    #[error(
        "only {bytes} bytes of secret {name} went into the terminal of task {id}, which does not \
         read: send C-u (input \"\\u0015\" with enter: false) before another try, or end the task"
    )]
    TakenInPart { name: String, id: String, bytes: usize },
    #[error(
        "task {id} has not answered within {} s; secret {name} may have been typed, or may be typed later",
        PATIENCE.as_secs()
    )]
    Late { name: String, id: String },
    #[error(transparent)]
    Input(#[from] InputError),
}
