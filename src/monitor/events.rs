//! Streams of events: one of all sessions for the dashboard, and one for each session.
//!
//! A session's stream tells how it is (`session`), what it prints (`output`) and that it is
//! over (`end`). The id of an output is the place behind it, in bytes: whoever comes back
//! with that gets the rest, nothing lost and nothing twice. What the quota has dropped is
//! told as a gap. Limits: a stream holds one event at a time and nothing of the output;
//! whoever comes without an id gets the newest [`FIRST_BYTES`], or all by `0`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;

use super::changes::{FileChanges, OwnChanges};
use super::output::{Chunk, Source};
use super::response::{Event, EventSource, Next};
use super::session::{List, Session, now};
use super::sessions::Sessions;
use super::tasks::Task;
use crate::task::live::Cancel;
use crate::text::lines::grouped;

/// Of earlier output a new reader gets so much.
const FIRST_BYTES: u64 = 256 * 1024;
/// While output comes without a pause, how a session is is looked at so often.
pub(super) const LOOK_PAUSE: Duration = Duration::from_millis(200);
/// The list of all sessions is told at most so often.
const LIST_PAUSE: Duration = Duration::from_secs(1);
/// What the id of an end has behind the place.
pub(super) const END_MARK: &str = ".end";

/// Where a reader has been.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Last {
    /// Nowhere: it is new.
    Nothing,
    /// It has all output before this place.
    Output(u64),
    /// It has been told of the end.
    End,
}

impl Last {
    /// From the id of the last event, as the client repeats it. What is no id of ours
    /// counts as none.
    pub fn of(id: Option<&str>) -> Last {
        let place = |digits: &str| digits.parse().ok();
        match id.map(|id| (id.strip_suffix(END_MARK), id)) {
            Some((Some(digits), _)) if place(digits).is_some() => Last::End,
            Some((_, id)) => place(id).map_or(Last::Nothing, Last::Output),
            None => Last::Nothing,
        }
    }
}

/// What a session's stream waits for.
enum Changes {
    Own(OwnChanges),
    Files(FileChanges),
}

/// The events of one task.
pub struct TaskEvents {
    sessions: Arc<Sessions>,
    task: Task,
    changes: Changes,
    /// How it was told to be.
    told: Option<Session>,
    /// The place behind the output that was told.
    place: u64,
    /// Output before the place that a new reader is not given.
    left_out: u64,
    /// When all of it was looked at.
    looked: Option<Instant>,
    /// `end` was told.
    ended: bool,
}

impl TaskEvents {
    /// What comes after the reader's last event.
    pub fn new(sessions: Arc<Sessions>, task: Task, last: Last) -> TaskEvents {
        let changes = match &task.source {
            Source::Own(task) => Changes::Own(OwnChanges::new(Arc::clone(task))),
            Source::Files { .. } => Changes::Files(FileChanges::new(None)),
        };
        let end = task.source.end(&task.entry);
        let (place, left_out) = match last {
            Last::Output(place) => (place, 0),
            Last::End => (end, 0),
            Last::Nothing => {
                let from = end.saturating_sub(FIRST_BYTES);
                (from, from)
            }
        };
        TaskEvents {
            sessions,
            task,
            changes,
            told: None,
            place,
            left_out,
            looked: None,
            ended: false,
        }
    }

    /// What there is to tell now; `None`: nothing until something changes.
    fn look(&mut self) -> Option<Event> {
        if self
            .looked
            .is_some_and(|looked| looked.elapsed() < LOOK_PAUSE)
            && let Some(event) = self.more_output(false)
        {
            return Some(event);
        }
        self.looked = Some(Instant::now());
        match &mut self.changes {
            Changes::Own(changes) => changes.note(),
            Changes::Files(changes) => {
                if let Source::Files { directory, .. } = &self.task.source {
                    changes.note(&[directory]);
                }
            }
        }
        // Asked before the output is read, so that the last of it is not missed.
        let again = self.sessions.again(&self.task);
        let is_gone = again.is_none();
        if let Some(task) = again {
            self.task = task;
        }
        let is_all = is_gone || self.is_over();
        self.changed_session()
            .or_else(|| self.more_output(is_all))
            .or_else(|| is_all.then(|| self.end()))
    }

    /// Whether nothing more comes of it.
    fn is_over(&self) -> bool {
        match &self.task.source {
            Source::Own(task) => task.live.state().closed,
            Source::Files { .. } => self.task.entry.is_over(),
        }
    }

    fn changed_session(&mut self) -> Option<Event> {
        // The output comes by itself.
        let session = self.sessions.session_of(&self.task, now(), 0);
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

    fn more_output(&mut self, is_all: bool) -> Option<Event> {
        if std::mem::take(&mut self.left_out) > 0 {
            let text = format!("… {} bytes of earlier output\n", grouped(self.place));
            return Some(self.output(&text, self.place));
        }
        let read = self.task.source.next(&self.task.entry, self.place, is_all);
        let (text, gap) = match read {
            Ok(None) => return None,
            Ok(Some(Chunk { gap, text, end })) => {
                self.place = end;
                let lost = match gap {
                    0 => String::new(),
                    gap => format!(
                        "… {} bytes are gone: over the spool's quota\n",
                        grouped(gap)
                    ),
                };
                (lost + &text, gap)
            }
            Err(error) => {
                tracing::warn!("the output of {}: {error}", self.task.entry.id);
                return None;
            }
        };
        Some(self.output(&text, gap))
    }

    fn output(&self, text: &str, gap: u64) -> Event {
        Event {
            id: Some(self.place.to_string()),
            name: Some("output"),
            data: match gap {
                0 => json!({ "text": text }).to_string(),
                gap => json!({ "text": text, "gap": gap }).to_string(),
            },
        }
    }

    fn end(&mut self) -> Event {
        self.ended = true;
        Event {
            id: Some(format!("{}{END_MARK}", self.place)),
            name: Some("end"),
            data: json!({ "exitCode": self.task.entry.exit_code }).to_string(),
        }
    }
}

impl EventSource for TaskEvents {
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
            match &mut self.changes {
                Changes::Own(changes) => changes.wait(deadline, cancel),
                Changes::Files(changes) => changes.wait(deadline, cancel, true),
            }
        }
    }
}

/// All sessions, whenever something of them has changed.
pub struct ListEvents {
    sessions: Arc<Sessions>,
    changes: FileChanges,
    told: Option<List>,
}

impl ListEvents {
    /// From now on, beginning with how they are.
    pub fn new(sessions: Arc<Sessions>) -> ListEvents {
        ListEvents {
            sessions,
            changes: FileChanges::new(Some(LIST_PAUSE)),
            told: None,
        }
    }
}

impl EventSource for ListEvents {
    fn next(&mut self, deadline: Instant, cancel: &Cancel) -> Next {
        loop {
            if cancel.is_cancelled() {
                return Next::End;
            }
            if self.told.is_some() {
                let shows_all = self.sessions.are_on_disk();
                self.changes.wait(deadline, cancel, shows_all);
            }
            if cancel.is_cancelled() {
                return Next::End;
            }
            self.changes.note(&self.sessions.directories());
            let list = self.sessions.list();
            let still = list.without_times();
            if self.told.as_ref() != Some(&still) {
                self.told = Some(still);
                return Next::Event(Event {
                    id: None,
                    name: Some("sessions"),
                    data: json!(list).to_string(),
                });
            }
            if Instant::now() >= deadline {
                return Next::Quiet;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_event_is_known_by_its_id() {
        assert_eq!(Last::of(None), Last::Nothing);
        assert_eq!(Last::of(Some("")), Last::Nothing);
        assert_eq!(Last::of(Some("12")), Last::Output(12));
        assert_eq!(Last::of(Some("12.end")), Last::End);
        assert_eq!(Last::of(Some(".end")), Last::Nothing);
        assert_eq!(Last::of(Some("-1")), Last::Nothing);
    }
}
