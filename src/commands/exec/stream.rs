//! Copies a command's raw output from the spool to stdout. A slow reader makes the command
//! wait, as a pipe would.

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crossbeam_channel::{Receiver, Sender, bounded};

use crate::commands::output::{Output, OutputError, complain};
use crate::process::descriptors::{Interest, Poller};
use crate::task::follower::{Follower, TaskEvent, Topics};
use crate::task::live::Cancel;
use crate::task::registry::TaskHandle;

/// A copy sends two messages: the shell's end and its own.
const MOST_MESSAGES: usize = 2;

/// How far the copying is.
#[derive(Debug)]
pub(crate) enum Copied {
    /// The shell has ended and its output is copied; leftover processes may print more.
    UpToExit,
    /// No more output will come, or no more can be written.
    All(Result<(), OutputError>),
}

/// Bytes written at once: small, so that a slow reader is seen to read.
const PIECE: usize = 16 * 1024;

/// Copies on a thread of its own until the task and its leftover processes have ended, or
/// until it is cancelled; output that has arrived by then is copied in any case. Without
/// `to_stdout` the output remains in the spool, and only the end is waited for. Returns how far
/// the copying is, and the number of bytes written so far.
///
/// # Errors
/// When there is no thread or descriptor for it.
pub(crate) fn start(
    task: Arc<TaskHandle>,
    to_stdout: bool,
    cancel: Arc<Cancel>,
) -> io::Result<(Receiver<Copied>, Arc<AtomicU64>)> {
    let output = to_stdout.then(Output::stdout).transpose()?;
    let (tell, told) = bounded(MOST_MESSAGES);
    let written = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&written);
    std::thread::Builder::new().name("output".to_owned()).spawn(move || {
        let topics = Topics { output: output.is_some(), ..Topics::default() };
        let mut follower = Follower::new(task, topics);
        let copied = copy(&mut follower, output, &cancel, &tell, &count);
        drop(follower);
        let _ = tell.send(Copied::All(copied));
    })?;
    Ok((told, written))
}

/// Calls `gone` once nothing reads stdout any more.
///
/// # Errors
/// There is no thread or descriptor for it.
pub(crate) fn watch_reader(gone: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let stdout = io::stdout().as_fd().try_clone_to_owned()?;
    std::thread::Builder::new().name("reader".to_owned()).spawn(move || {
        let mut poller = Poller::default();
        poller.watch(stdout.as_fd(), Interest::Hangup);
        poller.wait(None);
        gone();
    })?;
    Ok(())
}

fn copy(
    follower: &mut Follower,
    mut output: Option<Output>,
    cancel: &Cancel,
    tell: &Sender<Copied>,
    written: &AtomicU64,
) -> Result<(), OutputError> {
    loop {
        match follower.next(None, cancel).map_err(OutputError::Unreadable)? {
            TaskEvent::Output(bytes) => {
                if let Some(output) = &mut output {
                    for piece in bytes.chunks(PIECE) {
                        output.write(piece)?;
                        written.fetch_add(piece.len() as u64, Ordering::Relaxed);
                    }
                }
            }
            TaskEvent::Gap(bytes) => complain(format_args!(
                "{bytes} bytes of the output are gone: over the spool's quota (spool_task_quota, spool_quota)"
            )),
            TaskEvent::Exit => {
                let _ = tell.send(Copied::UpToExit);
            }
            TaskEvent::Over | TaskEvent::Cancelled => return Ok(()),
            TaskEvent::Errors(_) | TaskEvent::Probed | TaskEvent::Quiet => {}
        }
    }
}
