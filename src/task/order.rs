//! What requests ask of a worker.

use crossbeam_channel::Sender;

use super::input::Sending;
use super::kill_run::Receipt;
use super::state::KillOrder;
use super::typing::SecretOrder;
use crate::process::pty::TerminalSize;

/// What a request asks of a worker. It may hold a secret, so that nothing prints it.
pub enum Order {
    /// Signal the tree; the receipt is the answer.
    Kill {
        /// In which way.
        order: KillOrder,
        /// Takes the receipt; has room for it.
        receipt: Sender<Receipt>,
    },
    /// Write to the program.
    Input(Sending),
    /// Type a secret, if the terminal does not show it.
    Secret(SecretOrder),
    /// A new window size.
    Resize(TerminalSize),
    /// Look now whether the task gets on.
    Look,
    /// The server ends.
    Shutdown,
}
