//! Copies a command's raw output from its spools to stdout and stderr. A slow reader slows the
//! command down, as with a pipe.

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crossbeam_channel::{Receiver, Sender, bounded};

use crate::base::cancel::Cancel;
use crate::commands::output::{Output, OutputError, complain};
use crate::process::descriptors::{Interest, Poller};
use crate::task::follower::{Follower, TaskEvent, Topics};
use crate::task::registry::TaskHandle;
use crate::task::stream::StreamName;

/// Copying sends two messages: at the shell's end and at its own.
const MAX_MESSAGES: usize = 2;

/// The progress of copying.
#[derive(Debug)]
pub(crate) enum Copied {
    /// The shell has ended and its output is copied; leftover processes may print more.
    UpToExit,
    /// The copying is over.
    All(Result<(), OutputError>),
}

/// Bytes written at once: few, so that a slow reader counts as reading.
const PIECE: usize = 16 * 1024;

/// Starts a thread that copies until the task and its leftover processes have ended, or until
/// cancelled; output that has arrived by then is always copied. Without `copies_output` it only
/// waits for the end. Returns a channel of its progress, and the number of bytes written.
///
/// # Errors
/// When no thread or descriptor is left.
pub(crate) fn start(
    task: Arc<TaskHandle>,
    copies_output: bool,
    cancel: Arc<Cancel>,
) -> io::Result<(Receiver<Copied>, Arc<AtomicU64>)> {
    let mut outputs = Outputs::default();
    if copies_output {
        // Without a stderr of its own, a command's errors have no reader either.
        outputs = Outputs { stdout: Some(Output::stdout()?), stderr: Output::stderr().ok() };
    }
    let (progress, copies) = bounded(MAX_MESSAGES);
    let written = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&written);
    std::thread::Builder::new().name("output".to_owned()).spawn(move || {
        let topics = Topics { output: copies_output, errors: copies_output, probes: false };
        let mut follower = Follower::new(task, topics);
        let copied = copy(&mut follower, outputs, &cancel, &progress, &count);
        drop(follower);
        let _ = progress.send(Copied::All(copied));
    })?;
    Ok((copies, written))
}

/// Calls `gone` once the reader of stdout is gone.
///
/// # Errors
/// When no thread or descriptor is left.
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

#[derive(Default)]
struct Outputs {
    stdout: Option<Output>,
    stderr: Option<Output>,
}

fn copy(
    follower: &mut Follower,
    mut outputs: Outputs,
    cancel: &Cancel,
    progress: &Sender<Copied>,
    written: &AtomicU64,
) -> Result<(), OutputError> {
    loop {
        match follower.next(None, cancel).map_err(OutputError::Unreadable)? {
            TaskEvent::Output(name, bytes) => {
                for piece in bytes.chunks(PIECE) {
                    let output = match name {
                        StreamName::Output => &mut outputs.stdout,
                        StreamName::Errors => &mut outputs.stderr,
                    };
                    let Some(open) = output else { break };
                    match (open.write(piece), name) {
                        (Ok(()), _) => {}
                        (Err(error), StreamName::Output) => return Err(error),
                        // The rest of the errors is dropped, and the output still has a reader.
                        (Err(_), StreamName::Errors) => *output = None,
                    }
                    written.fetch_add(piece.len() as u64, Ordering::Relaxed);
                }
            }
            TaskEvent::Gap(bytes) => complain(format_args!(
                "{bytes} bytes of the output are gone: over the spool's quota (spool_task_quota, spool_quota)"
            )),
            TaskEvent::Exit => {
                let _ = progress.send(Copied::UpToExit);
            }
            TaskEvent::Over | TaskEvent::Cancelled => return Ok(()),
            TaskEvent::Probed | TaskEvent::Quiet => {}
        }
    }
}
