//! The output of a command on its way to stdout: every byte as it is, read from the
//! spool. A slow reader makes the command wait, as a pipe would.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crossbeam_channel::{Receiver, Sender, bounded};

use crate::commands::output::{Output, OutputError, complain};
use crate::task::follower::{Follower, Heard, Topics};
use crate::task::live::Cancel;
use crate::task::registry::TaskHandle;

/// What a copy tells in its life: the shell's end and its own.
const MOST_MESSAGES: usize = 2;

/// Where output goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sink {
    /// To stdout.
    Stdout,
    /// It stays in the spool; only the end is waited for.
    Nowhere,
}

/// How far the copying is.
#[derive(Debug)]
pub enum Copied {
    /// The shell has ended, and what it printed is copied; what it left may print more.
    UpToExit,
    /// Nothing more comes, or nothing more can be written.
    All(Result<(), OutputError>),
}

/// What is known of a copy under way.
#[derive(Debug)]
pub struct Copies {
    /// How far it is.
    pub told: Receiver<Copied>,
    /// So many bytes have been written.
    pub written: Arc<AtomicU64>,
}

/// Written at once, so that a reader that takes little is known to read.
const PIECE: usize = 16 * 1024;

/// Copies on a thread of its own until the task and all that it left are gone, or until
/// it is cancelled; what has come by then is copied in any case.
///
/// # Errors
/// When there is no thread or descriptor for it.
pub fn start(task: Arc<TaskHandle>, sink: Sink, cancel: Arc<Cancel>) -> io::Result<Copies> {
    let output = match sink {
        Sink::Stdout => Some(Output::stdout()?),
        Sink::Nowhere => None,
    };
    let (tell, told) = bounded(MOST_MESSAGES);
    let written = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&written);
    std::thread::Builder::new()
        .name("output".to_owned())
        .spawn(move || {
            let topics = Topics {
                output: output.is_some(),
                ..Topics::default()
            };
            let mut follower = Follower::new(task, topics);
            let copied = copy(&mut follower, output, &cancel, &tell, &count);
            drop(follower);
            let _ = tell.send(Copied::All(copied));
        })?;
    Ok(Copies { told, written })
}

fn copy(
    follower: &mut Follower,
    mut output: Option<Output>,
    cancel: &Cancel,
    tell: &Sender<Copied>,
    written: &AtomicU64,
) -> Result<(), OutputError> {
    loop {
        match follower
            .next(None, cancel)
            .map_err(OutputError::Unreadable)?
        {
            Heard::Output(bytes) => {
                if let Some(output) = &mut output {
                    for piece in bytes.chunks(PIECE) {
                        output.write(piece)?;
                        written.fetch_add(piece.len() as u64, Ordering::Relaxed);
                    }
                }
            }
            Heard::Gap(bytes) => complain(format_args!(
                "{bytes} bytes of the output are gone: over the spool's quota (spool_task_quota, spool_quota)"
            )),
            Heard::Exit => {
                let _ = tell.send(Copied::UpToExit);
            }
            Heard::Over | Heard::Cancelled => return Ok(()),
            Heard::Errors(_) | Heard::Looked | Heard::Quiet => {}
        }
    }
}
