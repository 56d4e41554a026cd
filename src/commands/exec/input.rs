//! Passes this process's stdin to a command. At most 1 MiB is read ahead of the command.

use std::fs::File;
use std::io::{self, IsTerminal};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileTypeExt;
use std::sync::Arc;
use std::time::Instant;

use crate::base::cancel::Cancel;
use crate::commands::output::complain;
use crate::process::descriptors::{self, Interest, Poller, Transfer};
use crate::task::input::{InputChunk, MAX_QUEUED_INPUT};
use crate::task::live::WaitStep;
use crate::task::registry::TaskHandle;
use crate::task::request::InputError;
use crate::task::supervisor::Supervisor;

/// Bytes read at once.
const CHUNK: usize = 64 * 1024;

/// The kind of this process's stdin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum InputOrigin {
    /// A pipe, a file or a socket, which is passed through.
    Stream,
    /// A terminal whose keys are passed to a command with a terminal.
    Terminal,
    /// Nothing for a command to read.
    Nothing,
}

impl InputOrigin {
    /// Classifies this process's stdin. A command without a terminal keeps `/dev/null`, since
    /// programs distinguish it from a pipe; a command with a terminal needs the end of the input.
    pub(crate) fn from_stdin(with_terminal: bool) -> InputOrigin {
        let stdin = io::stdin();
        if stdin.is_terminal() {
            return if with_terminal { InputOrigin::Terminal } else { InputOrigin::Nothing };
        }
        let kind = stdin
            .as_fd()
            .try_clone_to_owned()
            .and_then(|fd| File::from(fd).metadata())
            .map(|found| found.file_type());
        match kind {
            Ok(kind) if kind.is_fifo() || kind.is_file() || kind.is_socket() => InputOrigin::Stream,
            Ok(_) if with_terminal => InputOrigin::Stream,
            _ => InputOrigin::Nothing,
        }
    }
}

/// Passes stdin on, on its own thread, until either side ends. The thread may stay blocked in its
/// read until the process exits.
pub(crate) fn start(supervisor: Arc<Supervisor>, task: Arc<TaskHandle>) {
    let started = io::stdin().as_fd().try_clone_to_owned().and_then(|stdin| {
        let forward =
            Forward { supervisor: Arc::clone(&supervisor), task: Arc::clone(&task), stdin };
        std::thread::Builder::new().name("input".to_owned()).spawn(move || forward.run())
    });
    if let Err(error) = started {
        complain(format_args!("cannot pass stdin through: {error}"));
        let _ = supervisor.send(&task, InputChunk { end: true, ..InputChunk::default() });
    }
}

struct Forward {
    supervisor: Arc<Supervisor>,
    task: Arc<TaskHandle>,
    stdin: OwnedFd,
}

impl Forward {
    fn run(&self) {
        let mut buffer = vec![0; CHUNK];
        loop {
            match descriptors::read(&self.stdin, &mut buffer) {
                Transfer::Bytes(count) => {
                    let chunk = buffer.get(..count).unwrap_or_default();
                    if self.send(chunk).is_err() {
                        return;
                    }
                }
                // Another process that shares the descriptor has made it non-blocking.
                Transfer::WouldBlock => self.wait_for_stdin(),
                Transfer::Closed => {
                    // Fails only if the command has ended.
                    let _ = self
                        .supervisor
                        .send(&self.task, InputChunk { end: true, ..InputChunk::default() });
                    return;
                }
            }
        }
    }

    fn wait_for_stdin(&self) {
        let mut poller = Poller::default();
        poller.watch(self.stdin.as_fd(), Interest::Read);
        poller.wait(None);
    }

    /// Queues a chunk as soon as there is room.
    ///
    /// # Errors
    /// When the command accepts no more input.
    fn send(&self, chunk: &[u8]) -> Result<(), InputError> {
        let mut limit = MAX_QUEUED_INPUT - chunk.len();
        loop {
            self.wait_until_queued(limit);
            let sending = InputChunk { bytes: chunk.to_vec(), end: false };
            match self.supervisor.send(&self.task, sending) {
                // Many small chunks fill the worker's channel before the queue: wait until the
                // worker has received all of them.
                Err(InputError::Full { .. }) => limit = 0,
                sent => return sent,
            }
        }
    }

    /// Waits until at most `limit` bytes are queued for the command, or it has ended.
    fn wait_until_queued(&self, limit: usize) {
        self.task.live.wait_for(
            None,
            &Cancel::default(),
            |state| {
                let over = state.ended.is_some() || state.input_closed;
                if over || state.queued_input <= limit {
                    WaitStep::Found(())
                } else {
                    WaitStep::WaitUntil(None)
                }
            },
            Instant::now,
        );
    }
}
