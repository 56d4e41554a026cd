//! The events of one agent run: how it is (`session`), each line of its log (`log`, whose
//! id is the line's number), and that nobody runs it any more (`end`).
//!
//! Limits: whoever comes without an id gets the newest lines only, or all by `0`; a line
//! of more than [`LONGEST_LINE`] bytes is told without its data.

use std::io;
use std::time::Instant;

use serde_json::json;

use super::changes::FileChanges;
use super::events::{END_MARK, LOOK_PAUSE, Last};
use super::response::{Event, EventSource, Next};
use super::runs;
use super::session::{Session, now};
use crate::oneshot::log::Line;
use crate::oneshot::log_reader::{self, Follower};
use crate::oneshot::sessions::{self, RunView};
use crate::task::live::Cancel;

/// Of earlier lines a new reader gets so many, among so many bytes.
const FIRST_LINES: usize = 1000;
const FIRST_BYTES: u64 = 1 << 20;
/// Longer lines are whole files that an agent has read.
const LONGEST_LINE: usize = 256 * 1024;

/// See the module.
pub struct RunEvents {
    run: RunView,
    log: Follower,
    changes: FileChanges,
    /// How it was told to be.
    told: Option<Session>,
    /// The number of the last line that was told, or is not to be.
    seq: u64,
    /// When all of it was looked at.
    looked: Option<Instant>,
    /// `end` was told.
    ended: bool,
}

impl RunEvents {
    /// What comes after the reader's last event.
    ///
    /// # Errors
    /// When the log cannot be read.
    pub fn new(run: RunView, last: Last) -> io::Result<RunEvents> {
        let seq = match last {
            Last::Output(seq) => seq,
            Last::Nothing | Last::End => {
                let newest = log_reader::tail(&run.directory, FIRST_LINES, FIRST_BYTES)?;
                newest.first().map_or(0, |line| line.seq.saturating_sub(1))
            }
        };
        Ok(RunEvents {
            log: Follower::open(&run.directory)?,
            changes: FileChanges::new(None),
            told: None,
            seq,
            looked: None,
            ended: false,
            run,
        })
    }

    /// What there is to tell now; `None`: nothing until something changes.
    fn look(&mut self) -> Option<Event> {
        // While lines come one after another, each need not wait for a look at all else.
        if self
            .looked
            .is_some_and(|looked| looked.elapsed() < LOOK_PAUSE)
            && let Some(event) = self.next_line()
        {
            return Some(event);
        }
        self.looked = Some(Instant::now());
        self.changes.note(&[&self.run.directory]);
        // Asked before the log is read, so that the last of it is not missed.
        let is_gone = match sessions::view(&self.run.directory) {
            Ok(run) => {
                self.run = run;
                false
            }
            Err(error) => {
                tracing::debug!("{error}");
                true
            }
        };
        let is_over = is_gone || !self.run.live;
        self.changed_session()
            .or_else(|| self.next_line())
            .or_else(|| is_over.then(|| self.end()))
    }

    fn changed_session(&mut self) -> Option<Event> {
        // The log comes by itself.
        let session = runs::session(&self.run, now(), Vec::new());
        let still = session.without_times();
        if self.told.as_ref() == Some(&still) {
            return None;
        }
        self.told = Some(still);
        Some(Event {
            id: None,
            name: Some("session"),
            data: json!(session).to_string(),
        })
    }

    fn next_line(&mut self) -> Option<Event> {
        loop {
            let line = self.log.next_line();
            let line = line.inspect_err(|error| tracing::warn!("a run's log: {error}"));
            let line = line.ok().flatten()?;
            if line.seq > self.seq {
                self.seq = line.seq;
                return Some(Event {
                    id: Some(line.seq.to_string()),
                    name: Some("log"),
                    data: told(line),
                });
            }
        }
    }

    fn end(&mut self) -> Event {
        self.ended = true;
        Event {
            id: Some(format!("{}{END_MARK}", self.seq)),
            name: Some("end"),
            data: json!({ "exitCode": runs::exit_code(&self.run) }).to_string(),
        }
    }
}

/// A line as it is told.
fn told(line: Line) -> String {
    let text = json!(line).to_string();
    if text.len() <= LONGEST_LINE {
        return text;
    }
    let data = json!({ "omitted_bytes": text.len() });
    json!(Line { data, ..line }).to_string()
}

impl EventSource for RunEvents {
    fn next(&mut self, deadline: Instant, cancel: &Cancel) -> Next {
        loop {
            if self.ended || cancel.is_cancelled() {
                return Next::End;
            }
            if let Some(event) = self.look() {
                return Next::Event(event);
            }
            if Instant::now() >= deadline {
                return Next::Quiet;
            }
            self.changes.wait(deadline, cancel, true);
        }
    }
}
