//! The output of a command on its way to stdout: every byte as it is, read from the
//! spool. A slow reader makes the command wait, as a pipe would.

use std::io;
use std::sync::Arc;
use std::time::Instant;

use crossbeam_channel::{Receiver, Sender, bounded};

use crate::commands::output::{Output, OutputError, complain};
use crate::task::live::{Cancel, Look};
use crate::task::registry::TaskHandle;
use crate::text::lines::{Place, Position};

/// Copied at once.
const CHUNK: u64 = 256 * 1024;
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

/// Copies on a thread of its own until the task and all that it left are gone, or until
/// it is cancelled; what has come by then is copied in any case.
///
/// # Errors
/// When there is no thread or descriptor for it.
pub fn start(
    task: Arc<TaskHandle>,
    sink: Sink,
    cancel: Arc<Cancel>,
) -> io::Result<Receiver<Copied>> {
    let output = match sink {
        Sink::Stdout => Some(Output::stdout()?),
        Sink::Nowhere => None,
    };
    let (tell, told) = bounded(MOST_MESSAGES);
    std::thread::Builder::new()
        .name("output".to_owned())
        .spawn(move || {
            let mut copy = Copy {
                task: &task,
                output,
                next: 0,
            };
            let copied = copy.run(&cancel, &tell);
            let _ = tell.send(Copied::All(copied));
        })?;
    Ok(told)
}

struct Copy<'a> {
    task: &'a TaskHandle,
    output: Option<Output>,
    /// The first byte that is not copied yet.
    next: u64,
}

enum Seen {
    Output { end: u64 },
    Exit,
    Over,
}

impl Copy<'_> {
    fn run(&mut self, cancel: &Cancel, tell: &Sender<Copied>) -> Result<(), OutputError> {
        if self.output.is_some() {
            self.task.note_taken(Some(0));
        }
        let copied = self.copy(cancel, tell);
        self.task.note_taken(None);
        copied
    }

    fn copy(&mut self, cancel: &Cancel, tell: &Sender<Copied>) -> Result<(), OutputError> {
        let mut exit_told = false;
        loop {
            let seen = self.task.live.wait_for(
                None,
                cancel,
                |state| {
                    let end = state.output_end.offset;
                    if end > self.next {
                        Look::Found(Seen::Output { end })
                    } else if state.ended.is_some() && !exit_told {
                        Look::Found(Seen::Exit)
                    } else if state.closed {
                        Look::Found(Seen::Over)
                    } else {
                        Look::WaitUntil(None)
                    }
                },
                Instant::now,
            );
            match seen {
                Some(Seen::Output { end }) => self.copy_to(end)?,
                Some(Seen::Exit) => {
                    exit_told = true;
                    let _ = tell.send(Copied::UpToExit);
                }
                Some(Seen::Over) | None => return Ok(()),
            }
        }
    }

    fn copy_to(&mut self, end: u64) -> Result<(), OutputError> {
        let Some(output) = &mut self.output else {
            self.next = end;
            return Ok(());
        };
        while self.next < end {
            let to = end.min(self.next + CHUNK);
            // Lines are nobody's business here: bytes are asked for by their offset.
            let from = Place {
                at: Position {
                    offset: self.next,
                    line: 1,
                },
                inside_line: true,
            };
            let pieces = self.task.spool.read(from, to);
            for piece in pieces.map_err(OutputError::Unreadable)? {
                report_gap(self.next, piece.start.at.offset);
                output.write(&piece.bytes)?;
                self.next = piece.end_offset();
            }
            report_gap(self.next, to);
            self.next = to;
            self.task.note_taken(Some(to));
        }
        Ok(())
    }
}

/// Bytes that the spool no longer has: its quota is smaller than what comes at once.
fn report_gap(from: u64, to: u64) {
    if to > from {
        complain(format_args!(
            "{} bytes of the output are gone: over the spool's quota (spool_task_quota, spool_quota)",
            to - from
        ));
    }
}
