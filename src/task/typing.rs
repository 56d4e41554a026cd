//! A secret on its way into a task's terminal.
//!
//! It is typed whole and at once, or not at all: the worker looks at the terminal's echo
//! and writes in the next step, so that nothing but a program that changes its terminal in
//! that very moment can come in between.
//!
//! Limits: echo is the terminal's. A program that has it off and draws what is typed by
//! itself, as a shell's line editor does, shows a secret; that is masked like all output,
//! unless the program breaks it at the terminal's edge.

use std::os::fd::{AsFd, OwnedFd};

use crossbeam_channel::Sender;
use zeroize::Zeroizing;

use super::input::InputQueue;
use super::live::LiveTask;
use super::masking::Masking;
use crate::process::descriptors::{self, Transfer};
use crate::process::pty::{self, LineModes};
use crate::text::mask::Secret;

/// What a terminal sends for Enter.
const ENTER: u8 = b'\r';

/// A secret that is to be typed.
pub struct SecretOrder {
    /// What it is called where it is masked.
    pub name: String,
    /// Its bytes.
    pub secret: Secret,
    /// Whether Enter follows it.
    pub enter: bool,
    /// Takes what came of it; has room for it.
    pub answer: Sender<Result<(), Refusal>>,
}

/// Why a secret was not typed, as the worker saw it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The terminal shows what is typed, or does not say that it does not.
    Echo,
    /// Earlier input has not been taken yet.
    InputWaits,
    /// The terminal took so many bytes and no more.
    TakenInPart(usize),
}

impl SecretOrder {
    /// Carries it out on the master's end of the task's terminal, behind the input that
    /// was sent before, and answers.
    pub(super) fn carry_out(
        self,
        task: &LiveTask,
        master: &OwnedFd,
        input: &mut InputQueue,
        masking: &mut Masking,
    ) {
        let typed = match input.wants_to_write() {
            true => Err(Refusal::InputWaits),
            false => self.type_into(master, input, masking),
        };
        if typed.is_ok() {
            // What it waited for has come.
            task.report(|state| state.forget_found());
        }
        // Whoever asked may have given up; the channel has room for one.
        let _ = self.answer.try_send(typed);
    }

    fn type_into(
        &self,
        master: &OwnedFd,
        input: &mut InputQueue,
        masking: &mut Masking,
    ) -> Result<(), Refusal> {
        let secret = self.secret.bytes();
        let mut keys = Zeroizing::new(Vec::with_capacity(secret.len() + 1));
        keys.extend_from_slice(secret);
        if self.enter {
            keys.push(ENTER);
        }
        let hides = || matches!(pty::input_modes(master.as_fd()), Some((false, _)));
        if !hides() {
            return Err(Refusal::Echo);
        }
        // Before the first byte: a program may print it as soon as it has it.
        masking.cover(&self.name, &self.secret);
        let modes = LineModes::of(master);
        let mut written = 0;
        while written < keys.len() {
            let rest = keys.get(written..).unwrap_or_default();
            match descriptors::write(master, rest) {
                Transfer::Bytes(count) => {
                    input.note_typed(rest.get(..count).unwrap_or_default(), modes.as_ref());
                    written += count;
                }
                Transfer::WouldBlock | Transfer::Closed => {
                    return Err(Refusal::TakenInPart(written));
                }
            }
        }
        Ok(())
    }
}
