//! Requests to a task's worker, and their channel. The task's handle keeps the sender until the
//! task is evicted, long after its end. So the worker closes the channel: a finished task holds
//! neither a descriptor nor a buffer for requests.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use crossbeam_channel::{Receiver, Sender, unbounded};
use parking_lot::Mutex;

use super::input::InputChunk;
use super::secret_input::SecretInput;
use super::state::KillRequest;
use super::termination::Receipt;
use crate::process::descriptors::{self, Waker};
use crate::process::pty::TerminalSize;

/// How many requests may wait for a worker; a few more if several threads send the last one at
/// once. The channel is limited by counting because a bounded one sets aside the memory for all of
/// them: 20 KiB for each task, most of which never get a request.
pub(crate) const MAX_REQUESTS: usize = 256;

/// Why a request did not reach a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SendError {
    /// The task has ended.
    Ended,
    /// Too many requests wait.
    Busy,
}

#[derive(Debug)]
pub(crate) struct RequestSender {
    /// `None` once the worker has ended.
    channel: Mutex<Option<Arc<Channel>>>,
}

#[derive(Debug)]
struct Channel {
    requests: Sender<WorkerRequest>,
    waker: Waker,
}

/// The worker's end of the channel, which closes when this is dropped.
pub(crate) struct RequestReceiver {
    requests: Receiver<WorkerRequest>,
    wakes: OwnedFd,
    sender: Arc<RequestSender>,
}

impl RequestSender {
    /// Creates a channel.
    ///
    /// # Errors
    /// No descriptor is free.
    pub(crate) fn new() -> io::Result<(Arc<RequestSender>, RequestReceiver)> {
        let (queue, requests) = unbounded();
        let (waker, wakes) = Waker::new()?;
        let channel = Channel { requests: queue, waker };
        let sender = Arc::new(RequestSender { channel: Mutex::new(Some(Arc::new(channel))) });
        let receiver = RequestReceiver { requests, wakes, sender: Arc::clone(&sender) };
        Ok((sender, receiver))
    }

    /// The sender of a task whose worker is gone.
    pub(crate) fn closed() -> Arc<RequestSender> {
        Arc::new(RequestSender { channel: Mutex::new(None) })
    }

    /// Gives the worker a request.
    ///
    /// # Errors
    /// When the worker is gone, or too many requests wait for it.
    pub(crate) fn send(&self, request: WorkerRequest) -> Result<(), SendError> {
        let channel = self.channel().ok_or(SendError::Ended)?;
        if channel.requests.len() >= MAX_REQUESTS {
            return Err(SendError::Busy);
        }
        channel.requests.send(request).map_err(|_| SendError::Ended)?;
        channel.waker.wake();
        Ok(())
    }

    /// Wakes the worker, if it still runs, to check what has changed.
    pub(crate) fn wake(&self) {
        if let Some(channel) = self.channel() {
            channel.waker.wake();
        }
    }

    /// A reference to the channel, to be used without the lock.
    fn channel(&self) -> Option<Arc<Channel>> {
        self.channel.lock().clone()
    }
}

impl RequestReceiver {
    /// Becomes readable when there is a request, or a change to check.
    pub(crate) fn wakes(&self) -> BorrowedFd<'_> {
        self.wakes.as_fd()
    }

    /// Takes the wake-ups that have gathered; later requests wake the worker again.
    pub(crate) fn drain_wakes(&self) {
        descriptors::drain_wakes(&self.wakes);
    }

    /// The oldest request that waits.
    pub(crate) fn next(&self) -> Option<WorkerRequest> {
        self.requests.try_recv().ok()
    }
}

impl Drop for RequestReceiver {
    /// Drops the waiting requests, which shows their senders that there will be no receipt.
    fn drop(&mut self) {
        *self.sender.channel.lock() = None;
        while self.next().is_some() {}
    }
}

/// A request to a worker. It may hold a secret, so it has no `Debug`.
pub(crate) enum WorkerRequest {
    /// Signal the process tree and send the receipt.
    Kill {
        request: KillRequest,
        /// Has room for the receipt.
        receipt: Sender<Receipt>,
    },
    /// Write to the program.
    Input(InputChunk),
    /// Type a secret, unless the terminal would show it.
    Secret(SecretInput),
    /// A new window size.
    Resize(TerminalSize),
    /// Write a change other than output to the task's file.
    NoteChange,
    /// Probe now whether the task makes progress.
    ProbeProgress,
    Shutdown,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_channel_closes_with_its_worker_and_keeps_nothing() {
        let (sender, receiver) = RequestSender::new().unwrap();
        sender.send(WorkerRequest::ProbeProgress).unwrap();
        let channel = Arc::downgrade(sender.channel.lock().as_ref().unwrap());
        drop(receiver);
        assert_eq!(sender.send(WorkerRequest::ProbeProgress), Err(SendError::Ended));
        sender.wake();
        assert!(channel.upgrade().is_none(), "the channel is kept");
    }

    #[test]
    fn a_full_channel_refuses_commands_until_one_is_taken() {
        let (sender, receiver) = RequestSender::new().unwrap();
        for _ in 0..MAX_REQUESTS {
            sender.send(WorkerRequest::ProbeProgress).unwrap();
        }
        assert_eq!(sender.send(WorkerRequest::ProbeProgress), Err(SendError::Busy));
        assert!(receiver.next().is_some());
        sender.send(WorkerRequest::ProbeProgress).unwrap();
    }
}
