//! Typing a secret into a task: who may get one, and what came of it.

use std::time::Duration;

use crossbeam_channel::{RecvTimeoutError, bounded};

use super::live::Input;
use super::order::Order;
use super::order_line::NotOrdered;
use super::registry::TaskHandle;
use super::request::InputError;
use super::supervisor::Supervisor;
use super::typing::{Refusal, SecretOrder};
use crate::text::mask::Secret;

/// A worker answers within milliseconds, unless the machine is busy.
const PATIENCE: Duration = Duration::from_secs(10);
/// Why a secret was not typed.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    /// There is no terminal.
    #[error(
        "task {0} has no terminal, and only a terminal can keep what is typed from being shown: \
         run the command again with pty: true"
    )]
    NoTerminal(String),
    /// It would be shown.
    #[error(
        "secret {name} was not typed: the terminal of task {id} shows what is typed (its echo is \
         on), so that the secret would be seen. It is typed only at a prompt that hides it: wait \
         for one (zsh_poll task_id={id} says WAITING FOR A PASSWORD), then send it again"
    )]
    Echo {
        /// Which secret.
        name: String,
        /// Which task.
        id: String,
    },
    /// It would come after something else.
    #[error(
        "secret {name} was not typed: task {id} has not read what was sent before; wait until it \
         does (zsh_poll task_id={id}), then send it again"
    )]
    InputWaits {
        /// Which secret.
        name: String,
        /// Which task.
        id: String,
    },
    /// Only the beginning went in.
    #[error(
        "only {bytes} bytes of secret {name} went into the terminal of task {id}, which does not \
         read: send C-u (input \"\\u0015\" with enter: false) before another try, or end the task"
    )]
    TakenInPart {
        /// Which secret.
        name: String,
        /// Which task.
        id: String,
        /// How many bytes went in.
        bytes: usize,
    },
    /// The worker is busy.
    #[error(
        "the worker of task {id} has not answered within {} s; secret {name} may still be typed",
        PATIENCE.as_secs()
    )]
    Late {
        /// Which secret.
        name: String,
        /// Which task.
        id: String,
    },
    /// The task takes no input.
    #[error(transparent)]
    Input(#[from] InputError),
}

impl Supervisor {
    /// Whether a secret may be typed into a task, as far as that does not change.
    ///
    /// # Errors
    /// When the task has no terminal, or has ended.
    pub fn check_secret_goes_to(&self, task: &TaskHandle) -> Result<(), SecretError> {
        let id = || task.id().to_owned();
        if task.live.facts.input != Input::Terminal {
            return Err(SecretError::NoTerminal(id()));
        }
        match task.live.state().ended {
            Some(_) => Err(InputError::Ended(id()).into()),
            None => Ok(()),
        }
    }

    /// Types a secret into a task's terminal, and Enter after it. Waits until that is done.
    ///
    /// # Errors
    /// When it was not typed, or not whole.
    pub fn send_secret(
        &self,
        task: &TaskHandle,
        name: &str,
        secret: Secret,
        enter: bool,
    ) -> Result<(), SecretError> {
        self.check_secret_goes_to(task)?;
        let (id, name) = (task.id().to_owned(), name.to_owned());
        let (answer, answered) = bounded(1);
        let order = SecretOrder {
            name: name.clone(),
            secret,
            enter,
            answer,
        };
        if let Err(error) = task.orders.send(Order::Secret(order)) {
            return Err(match error {
                NotOrdered::Ended => InputError::Ended(id).into(),
                NotOrdered::Busy => SecretError::InputWaits { name, id },
            });
        }
        match answered.recv_timeout(PATIENCE) {
            Ok(Ok(())) => Ok(()),
            Ok(Err(Refusal::Echo)) => Err(SecretError::Echo { name, id }),
            Ok(Err(Refusal::InputWaits)) => Err(SecretError::InputWaits { name, id }),
            Ok(Err(Refusal::TakenInPart(bytes))) => {
                Err(SecretError::TakenInPart { name, id, bytes })
            }
            Err(RecvTimeoutError::Timeout) => Err(SecretError::Late { name, id }),
            Err(RecvTimeoutError::Disconnected) => Err(InputError::Ended(id).into()),
        }
    }
}
