//! This process's stdin on its way to a command. What the command does not read stays
//! where it comes from, but for the queue of 1 MiB.

use std::fs::File;
use std::io::{self, IsTerminal};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileTypeExt;
use std::sync::Arc;
use std::time::Instant;

use crate::commands::output::complain;
use crate::process::descriptors::{self, Interest, Poller, Transfer};
use crate::task::live::{Cancel, Look};
use crate::task::registry::TaskHandle;
use crate::task::request::InputError;
use crate::task::sending::MAX_QUEUED_INPUT;
use crate::task::supervisor::Supervisor;

/// Read at once.
const CHUNK: usize = 64 * 1024;

/// What stdin is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// A pipe, a file or a socket: passed through.
    Stream,
    /// A terminal, whose keys belong to a command that has one too.
    Terminal,
    /// Nothing that a command should read.
    Nothing,
}

impl Source {
    /// What this process's stdin is to a command with a terminal or without. Without
    /// one, `/dev/null` stays `/dev/null`, since programs tell it from a pipe; a command
    /// with one must be told of the end.
    pub fn of_stdin(with_terminal: bool) -> Source {
        let stdin = io::stdin();
        if stdin.is_terminal() {
            return match with_terminal {
                true => Source::Terminal,
                false => Source::Nothing,
            };
        }
        let kind = stdin
            .as_fd()
            .try_clone_to_owned()
            .and_then(|fd| File::from(fd).metadata())
            .map(|found| found.file_type());
        match kind {
            Ok(kind) if kind.is_fifo() || kind.is_file() || kind.is_socket() => Source::Stream,
            Ok(_) if with_terminal => Source::Stream,
            _ => Source::Nothing,
        }
    }
}

/// Passes stdin on, on a thread of its own, until either side ends. The thread is left
/// in its read at the end: only the process's own end interrupts that.
pub fn start(supervisor: Arc<Supervisor>, task: Arc<TaskHandle>) {
    let started = io::stdin().as_fd().try_clone_to_owned().and_then(|stdin| {
        let forward = Forward {
            supervisor: Arc::clone(&supervisor),
            task: Arc::clone(&task),
            stdin,
        };
        std::thread::Builder::new()
            .name("input".to_owned())
            .spawn(move || forward.run())
    });
    if let Err(error) = started {
        complain(format_args!("cannot pass stdin through: {error}"));
        let _ = supervisor.end_input(&task);
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
                // Whoever shares the descriptor has made it so.
                Transfer::WouldBlock => self.wait_for_stdin(),
                Transfer::Closed => {
                    // Fails when the command has ended, which ends the matter too.
                    let _ = self.supervisor.end_input(&self.task);
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
    /// When the command takes no more input.
    fn send(&self, chunk: &[u8]) -> Result<(), InputError> {
        let mut most_before = MAX_QUEUED_INPUT - chunk.len();
        loop {
            self.wait_until_queued(most_before);
            match self.supervisor.send_input(&self.task, chunk.to_vec()) {
                // Many small chunks fill the worker's orders before they fill the queue:
                // all of them have to go first.
                Err(InputError::Full { .. }) => most_before = 0,
                sent => return sent,
            }
        }
    }

    /// Waits until no more than `most` bytes wait for the command, or it has ended.
    fn wait_until_queued(&self, most: usize) {
        self.task.live.wait_for(
            None,
            &Cancel::default(),
            |state| {
                let over = state.ended.is_some() || state.input_closed;
                match over || state.queued_input <= most {
                    true => Look::Found(()),
                    false => Look::WaitUntil(None),
                }
            },
            Instant::now,
        );
    }
}
