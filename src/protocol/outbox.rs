//! What waits to be written to the client, and the output itself, which one thread at a time takes
//! out of the lock to write.
//!
//! Usually nothing waits, and the thread that has an answer writes it: passing it to the writer
//! thread would delay it by a wake-up. While another thread writes, or messages wait, they go
//! through the queue, so that those of one thread stay in order.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::{Arc, OnceLock};

use super::framing::Framing;
use crate::base::sync::{CondvarMutex, Guard};

/// The client is gone, or the transport has finished.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the connection to the client is closed")]
pub struct Closed;

/// Called once a message has been written.
pub type OnWritten = Box<dyn FnOnce() + Send>;

type Output = Box<dyn Write + Send>;

/// One JSON message, without framing.
struct Message {
    bytes: Vec<u8>,
    on_written: Option<OnWritten>,
}

/// Whether messages are taken.
enum Phase {
    Open,
    /// No more: those that are queued are the last.
    Finishing,
    /// The output failed with this error, until the writer thread takes it.
    Failed(Option<io::Error>),
}

struct State {
    queue: VecDeque<Message>,
    /// `None` while a thread writes, and at the end.
    output: Option<Output>,
    phase: Phase,
}

/// The queue and the output of one connection.
pub struct Outbox {
    state: CondvarMutex<State>,
    /// How many messages are queued for a client that reads slowly; further senders wait.
    max_queued: usize,
    /// How the client frames its messages, once it has sent one.
    framing: OnceLock<Framing>,
}

impl Outbox {
    pub fn new(output: Output, max_queued: usize) -> Outbox {
        Outbox {
            max_queued,
            state: CondvarMutex::new(State {
                queue: VecDeque::new(),
                output: Some(output),
                phase: Phase::Open,
            }),
            framing: OnceLock::new(),
        }
    }

    /// Sets the framing of all messages that are written from now on, the first time.
    pub(super) fn set_framing(&self, framing: Framing) {
        self.framing.get_or_init(|| framing);
    }

    pub(super) fn framing(&self) -> Option<Framing> {
        self.framing.get().copied()
    }

    /// Whether senders have to wait.
    pub(super) fn is_full(&self) -> bool {
        self.state.lock().queue.len() >= self.max_queued
    }

    /// Queues a message for the writer thread. Waits while the queue is full.
    ///
    /// # Errors
    /// When no more messages are taken, even during the wait.
    pub fn queue(&self, bytes: Vec<u8>, on_written: Option<OnWritten>) -> Result<(), Closed> {
        let state = self.state.lock();
        state.check_open()?;
        self.queue_locked(state, Message { bytes, on_written })
    }

    /// Takes the output to write this message at once, or else queues the message as
    /// [`Outbox::queue`] does.
    ///
    /// # Errors
    /// As [`Outbox::queue`].
    pub fn hand_over(
        self: &Arc<Self>,
        bytes: Vec<u8>,
        on_written: Option<OnWritten>,
    ) -> Result<Option<DirectWrite>, Closed> {
        let mut state = self.state.lock();
        state.check_open()?;
        let message = Message { bytes, on_written };
        if state.queue.is_empty()
            && let Some(output) = state.output.take()
        {
            drop(state);
            let turn = Turn { outbox: Arc::clone(self), output: Some(output), failure: None };
            return Ok(Some(DirectWrite { turn, message }));
        }
        self.queue_locked(state, message)?;
        Ok(None)
    }

    fn queue_locked(&self, mut state: Guard<'_, State>, message: Message) -> Result<(), Closed> {
        while state.queue.len() >= self.max_queued {
            state = self.state.wait(state, None);
            if let Err(closed) = state.check_open() {
                // Before the message, whose closure may need other locks.
                drop(state);
                return Err(closed);
            }
        }
        state.queue.push_back(message);
        // A thread that has the output wakes the writer thread when it puts it back.
        if state.output.is_some() {
            drop(state);
            self.state.notify_all();
        }
        Ok(())
    }

    /// Takes no more messages.
    pub fn finish(&self) {
        let mut state = self.state.lock();
        if matches!(state.phase, Phase::Open) {
            state.phase = Phase::Finishing;
        }
        drop(state);
        self.state.notify_all();
    }

    /// Writes what is queued until the last message, then closes the output. If a closure panics,
    /// the rest is dropped.
    ///
    /// # Errors
    /// The first failure of the output, in this thread or another. All senders get [`Closed`].
    pub fn write_queued(self: &Arc<Self>) -> io::Result<()> {
        let _ending = Ending(self);
        while let Some(mut turn) = self.next_turn()? {
            while turn.failure.is_none()
                && let Some(message) = self.pop()
            {
                turn.write(message);
            }
        }
        Ok(())
    }

    /// Waits until the output is free and something is queued; `None` once nothing more will be.
    fn next_turn(self: &Arc<Self>) -> io::Result<Option<Turn>> {
        let mut state = self.state.lock();
        loop {
            if let Phase::Failed(error) = &mut state.phase {
                return Err(error.take().unwrap_or_else(|| io::ErrorKind::BrokenPipe.into()));
            }
            if state.output.is_some() {
                if !state.queue.is_empty() {
                    let output = state.output.take();
                    return Ok(Some(Turn { outbox: Arc::clone(self), output, failure: None }));
                }
                if matches!(state.phase, Phase::Finishing) {
                    // Closed here, since senders keep the outbox.
                    let output = state.output.take();
                    drop(state);
                    drop(output);
                    return Ok(None);
                }
            }
            state = self.state.wait(state, None);
        }
    }

    /// Ends the connection: drops what is queued, and closes the output unless a thread writes, which
    /// then closes it.
    fn fail(&self, error: Option<io::Error>) {
        let mut state = self.state.lock();
        if !matches!(state.phase, Phase::Failed(_)) {
            state.phase = Phase::Failed(error);
        }
        let dropped = (std::mem::take(&mut state.queue), state.output.take());
        // Before what is dropped, whose closures may need other locks.
        drop(state);
        drop(dropped);
        self.state.notify_all();
    }

    fn pop(&self) -> Option<Message> {
        let mut state = self.state.lock();
        let message = state.queue.pop_front()?;
        // Senders wait for room.
        if state.queue.len() + 1 == self.max_queued {
            drop(state);
            self.state.notify_all();
        }
        Some(message)
    }
}

impl State {
    fn check_open(&self) -> Result<(), Closed> {
        if matches!(self.phase, Phase::Open) { Ok(()) } else { Err(Closed) }
    }
}

/// A message that its own thread is to write.
#[must_use = "until it is written, no other message is"]
pub struct DirectWrite {
    turn: Turn,
    message: Message,
}

impl DirectWrite {
    /// Writes it. Waits while the client does not read.
    pub fn write(mut self) {
        self.turn.write(self.message);
    }
}

/// Ends the connection when the writer thread ends, even by a panic.
struct Ending<'a>(&'a Outbox);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.fail(None);
    }
}

/// One thread's turn to write. Dropping it flushes the output and puts it back; if it has failed, it
/// is closed, which ends the connection.
struct Turn {
    outbox: Arc<Outbox>,
    output: Option<Output>,
    failure: Option<io::Error>,
}

impl Turn {
    fn write(&mut self, message: Message) {
        let framing = self.outbox.framing.get().copied().unwrap_or_default();
        let Some(output) = &mut self.output else { return };
        let mut written = output.write_all(&framing.encode(message.bytes));
        if let Some(on_written) = message.on_written.filter(|_| written.is_ok()) {
            written = output.flush();
            if written.is_ok() {
                on_written();
            }
        }
        self.failure = written.err();
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let Some(mut output) = self.output.take() else { return };
        if let Some(error) = self.failure.take().or_else(|| output.flush().err()) {
            drop(output);
            self.outbox.fail(Some(error));
            return;
        }
        let mut state = self.outbox.state.lock();
        if matches!(state.phase, Phase::Failed(_)) {
            drop(state);
            return;
        }
        state.output = Some(output);
        let is_awaited = !state.queue.is_empty() || !matches!(state.phase, Phase::Open);
        drop(state);
        if is_awaited {
            self.outbox.state.notify_all();
        }
    }
}
