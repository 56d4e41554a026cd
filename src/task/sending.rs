//! Orders to running tasks: signals with their receipt, input, a new window size.

use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, bounded};

use super::input::Sending;
use super::kill_run::Receipt;
use super::live::Input;
use super::order::Order;
use super::order_line::NotOrdered;
use super::registry::TaskHandle;
use super::request::InputError;
use super::state::{KILL_GRACE, KILL_PATIENCE, KillOrder};
use super::supervisor::Supervisor;
use crate::process::pty::TerminalSize;

/// Input that may wait for a program that does not read.
pub const MAX_QUEUED_INPUT: usize = 1024 * 1024;
/// Beyond the longest kill, for a machine that is busy.
const KILL_SLACK: Duration = Duration::from_secs(2);

/// Why a kill has no receipt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoReceipt {
    /// Nothing of the task lives.
    Ended,
    /// Too many orders wait for its worker.
    Busy,
    /// Its worker has not answered in time.
    Late,
}

impl Supervisor {
    /// Signals a task's processes and waits for the receipt.
    ///
    /// # Errors
    /// When there is none; the kill may still go on.
    pub fn kill(&self, task: &TaskHandle, order: KillOrder) -> Result<Receipt, NoReceipt> {
        let closed = || task.live.state().closed;
        let received = self.begin_kill(task, order)?;
        if closed() {
            // The worker may have taken the order on its last turn, or never.
            return received.try_recv().map_err(|_| NoReceipt::Ended);
        }
        let patience = KILL_GRACE + KILL_PATIENCE + KILL_SLACK;
        received
            .recv_timeout(patience)
            .map_err(|error| match error {
                RecvTimeoutError::Timeout => NoReceipt::Late,
                RecvTimeoutError::Disconnected => NoReceipt::Ended,
            })
    }

    /// Signals a task's processes and goes on: the receipt comes when it is over.
    ///
    /// # Errors
    /// When there will be none.
    pub fn begin_kill(
        &self,
        task: &TaskHandle,
        order: KillOrder,
    ) -> Result<Receiver<Receipt>, NoReceipt> {
        if task.live.state().closed {
            return Err(NoReceipt::Ended);
        }
        let (receipt, received) = bounded(1);
        task.orders
            .send(Order::Kill { order, receipt })
            .map_err(|error| match error {
                NotOrdered::Ended => NoReceipt::Ended,
                NotOrdered::Busy => NoReceipt::Busy,
            })?;
        Ok(received)
    }

    /// Asks for a look at whether a task gets on, now and not when it would be time; it is
    /// counted in the task's state. One that has ended is looked at no more.
    pub fn look(&self, task: &TaskHandle) {
        let _ = task.orders.send(Order::Look);
    }

    /// Writes to a task.
    ///
    /// # Errors
    /// When it takes no input, or too much waits already.
    pub fn send_input(&self, task: &TaskHandle, bytes: Vec<u8>) -> Result<(), InputError> {
        self.send(task, Sending { bytes, end: false })
    }

    /// Tells a task that no more input comes.
    ///
    /// # Errors
    /// When it takes no input.
    pub fn end_input(&self, task: &TaskHandle) -> Result<(), InputError> {
        self.send(
            task,
            Sending {
                bytes: Vec::new(),
                end: true,
            },
        )
    }

    /// Writes to a task, and then ends its input where that is asked for; nothing that
    /// others send comes in between.
    ///
    /// # Errors
    /// When it takes no input, or too much waits already.
    pub fn send(&self, task: &TaskHandle, sending: Sending) -> Result<(), InputError> {
        let id = || task.id().to_owned();
        if task.live.facts.input == Input::None {
            return Err(InputError::NoInput(id()));
        }
        let (weight, closes) = (
            sending.weight(),
            sending.end && task.live.facts.input == Input::Pipe,
        );
        {
            let mut state = task.live.state();
            if state.ended.is_some() {
                return Err(InputError::Ended(id()));
            }
            if state.input_closed {
                return Err(InputError::Closed(id()));
            }
            // The end is always taken: it is how a task that waits for more comes to one.
            if !sending.bytes.is_empty() && state.queued_input + weight > MAX_QUEUED_INPUT {
                return Err(InputError::Full {
                    id: id(),
                    waiting: state.queued_input,
                    limit: MAX_QUEUED_INPUT,
                });
            }
            state.queued_input += weight;
            state.input_closed = closes;
            // What it waited for is on its way.
            state.forget_found();
        }
        self.order_input(task, Order::Input(sending))
            .inspect_err(|_| {
                let mut state = task.live.state();
                state.queued_input = state.queued_input.saturating_sub(weight);
                state.input_closed &= !closes;
            })
    }

    /// Changes the size of a task's terminal.
    ///
    /// # Errors
    /// When it has none.
    pub fn resize(&self, task: &TaskHandle, size: TerminalSize) -> Result<(), InputError> {
        if task.live.facts.input != Input::Terminal {
            return Err(InputError::NoTerminal(task.id().to_owned()));
        }
        // A program that waits wakes up for it: what it draws then is the reply.
        task.live.report(|state| {
            state.forget_found();
            state.queued_sizes += 1;
        });
        let ordered = self.order_input(task, Order::Resize(size));
        if ordered.is_err() {
            task.live.state().queued_sizes -= 1;
        }
        ordered
    }

    fn order_input(&self, task: &TaskHandle, order: Order) -> Result<(), InputError> {
        task.orders.send(order).map_err(|error| match error {
            NotOrdered::Ended => InputError::Ended(task.id().to_owned()),
            NotOrdered::Busy => InputError::Full {
                id: task.id().to_owned(),
                waiting: task.live.state().queued_input,
                limit: MAX_QUEUED_INPUT,
            },
        })
    }
}
