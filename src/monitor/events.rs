//! Event streams: one that lists all sessions for the dashboard, and one for each session.
//!
//! A session's stream reports its state (`session`), its output (`output`, or `log` for an agent
//! run) and its end (`end`). The id of an output event is the offset after it, and the id of a log
//! event is the line's number: a client that reconnects with that id gets exactly the rest. Output
//! dropped for the quota is reported as a gap. Limits: a stream buffers one event at a time and no
//! output; a client without an id gets only the newest [`FIRST_BYTES`] or [`FIRST_LINES`], with the
//! id `0` everything; a log line of more than [`LONGEST_LINE`] bytes is sent without its data.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::changes::{FileChanges, GATHER, OwnChanges};
use super::hosts::HostLists;
use super::http::response::{EventSource, SseEvent, StreamStep};
use super::output::{Chunk, OutputSource};
use super::runs;
use super::session::{List, Session, now};
use super::sessions::{Sessions, Task};
use crate::base::cancel::Cancel;
use crate::oneshot::log::LogLine;
use crate::oneshot::log_reader::{self, Follower};
use crate::oneshot::sessions::{self, RunView};
use crate::peer::hosts::Hosts;
use crate::text::quantity::grouped;

/// How much earlier output a new client gets.
const FIRST_BYTES: u64 = 256 * 1024;
/// How often the session's state is read while output arrives without a pause.
const CHECK_PAUSE: Duration = Duration::from_millis(200);
/// The minimum time between two lists of all sessions.
const LIST_PAUSE: Duration = Duration::from_secs(1);
/// Ends the id of an `end` event, after the position.
const END_MARK: &str = ".end";
/// How many earlier lines a new client gets.
const FIRST_LINES: usize = 1000;
/// How many bytes at the log's end are searched for them.
const FIRST_LINES_WITHIN: u64 = 1 << 20;
/// Longer lines, which are mostly whole files that an agent has read, are sent without their data.
const LONGEST_LINE: usize = 256 * 1024;

/// The last event that a client has seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LastSent {
    /// None: the client is new.
    Nothing,
    /// Output, up to this position.
    Output(u64),
    End,
}

impl LastSent {
    /// Parses a `Last-Event-ID`; an invalid id counts as none.
    pub(crate) fn parse(id: Option<&str>) -> LastSent {
        let position = |digits: &str| digits.parse().ok();
        match id.map(|id| (id.strip_suffix(END_MARK), id)) {
            Some((Some(digits), _)) if position(digits).is_some() => LastSent::End,
            Some((_, id)) => position(id).map_or(LastSent::Nothing, LastSent::Output),
            None => LastSent::Nothing,
        }
    }
}

/// A task or a run whose events a stream sends.
pub(crate) trait Followed: Send {
    /// Reads the state again; returns whether no more output will come. [`Followed::wait`] then
    /// waits for changes after this call.
    fn refresh(&mut self) -> bool;

    /// The session as in the list, without its output.
    fn session(&self) -> Session;

    /// The next piece of output, if any. `is_all` means that no more output will come.
    fn output(&mut self, is_all: bool) -> Option<SseEvent>;

    /// The position after the output sent so far.
    fn position(&self) -> u64;

    /// Waits for a change or the deadline.
    fn wait(&mut self, deadline: Instant, cancel: &Cancel);
}

/// The events of one session.
pub(crate) struct SessionEvents<F> {
    followed: F,
    /// The last state sent.
    sent: Option<Session>,
    checked: Option<Instant>,
    ended: bool,
}

impl<F: Followed> SessionEvents<F> {
    pub(crate) fn new(followed: F) -> SessionEvents<F> {
        SessionEvents { followed, sent: None, checked: None, ended: false }
    }

    /// The event to send now, if any.
    fn event(&mut self) -> Option<SseEvent> {
        // While output arrives without a pause, the state is not read for each piece.
        if self.checked.is_some_and(|checked| checked.elapsed() < CHECK_PAUSE)
            && let Some(event) = self.followed.output(false)
        {
            return Some(event);
        }
        self.checked = Some(Instant::now());
        // Read before the output, so that no output is missed.
        let is_all = self.followed.refresh();
        self.changed_session()
            .or_else(|| self.followed.output(is_all))
            .or_else(|| is_all.then(|| self.end()))
    }

    fn changed_session(&mut self) -> Option<SseEvent> {
        let session = self.followed.session();
        let without_times = session.without_times();
        if self.sent.as_ref() == Some(&without_times) {
            return None;
        }
        self.sent = Some(without_times);
        Some(SseEvent { id: None, name: Some("session"), data: json!(session).to_string() })
    }

    fn end(&mut self) -> SseEvent {
        self.ended = true;
        let exit_code = self.sent.as_ref().and_then(|session| session.exit_code);
        SseEvent {
            id: Some(format!("{}{END_MARK}", self.followed.position())),
            name: Some("end"),
            data: json!({ "exitCode": exit_code }).to_string(),
        }
    }
}

impl<F: Followed> EventSource for SessionEvents<F> {
    fn next(&mut self, deadline: Instant, cancel: &Cancel) -> StreamStep {
        loop {
            if self.ended || cancel.is_cancelled() {
                return StreamStep::End;
            }
            if let Some(event) = self.event() {
                return StreamStep::Event(event);
            }
            if Instant::now() >= deadline {
                return StreamStep::Quiet;
            }
            self.followed.wait(deadline, cancel);
        }
    }
}

/// The changes that a task's stream waits for.
enum Changes {
    Own(OwnChanges),
    Files(FileChanges),
}

/// A task whose output is read from a position on.
pub(crate) struct FollowedTask {
    sessions: Arc<Sessions>,
    task: Task,
    changes: Changes,
    /// The offset after the sent output.
    position: u64,
    /// Whether the next event must report how much earlier output is left out.
    reports_left_out: bool,
}

impl FollowedTask {
    pub(crate) fn new(sessions: Arc<Sessions>, task: Task, last: LastSent) -> FollowedTask {
        let changes = match &task.source {
            OutputSource::Own(task) => Changes::Own(OwnChanges::new(Arc::clone(task))),
            OutputSource::Files { .. } => Changes::Files(FileChanges::new(GATHER)),
        };
        let end = task.source.end(&task.snapshot);
        let position = match last {
            LastSent::Output(position) => position,
            LastSent::End => end,
            LastSent::Nothing => end.saturating_sub(FIRST_BYTES),
        };
        let reports_left_out = last == LastSent::Nothing && position > 0;
        FollowedTask { sessions, task, changes, position, reports_left_out }
    }

    fn output_event(&self, text: &str, gap: u64) -> SseEvent {
        let data = match gap {
            0 => json!({ "text": text }),
            gap => json!({ "text": text, "gap": gap }),
        };
        SseEvent {
            id: Some(self.position.to_string()),
            name: Some("output"),
            data: data.to_string(),
        }
    }
}

impl Followed for FollowedTask {
    fn refresh(&mut self) -> bool {
        match (&mut self.changes, &self.task.source) {
            (Changes::Own(changes), _) => changes.note(),
            (Changes::Files(changes), OutputSource::Files { directory, .. }) => {
                changes.note(&[directory]);
            }
            (Changes::Files(_), OutputSource::Own(_)) => {}
        }
        let Some(task) = self.sessions.reload(&self.task) else {
            return true;
        };
        self.task = task;
        match &self.task.source {
            OutputSource::Own(task) => task.live.state().closed,
            OutputSource::Files { .. } => self.task.snapshot.is_over(),
        }
    }

    fn session(&self) -> Session {
        self.sessions.session_of(&self.task, now(), 0)
    }

    fn output(&mut self, is_all: bool) -> Option<SseEvent> {
        if std::mem::take(&mut self.reports_left_out) {
            let text = format!("… {} bytes of earlier output not shown\n", grouped(self.position));
            return Some(self.output_event(&text, self.position));
        }
        let read = self.task.source.next(&self.task.snapshot, self.position, is_all).inspect_err(
            |error| tracing::warn!("the output of {}: {error}", self.task.snapshot.id()),
        );
        let Chunk { gap, text, end } = read.ok().flatten()?;
        self.position = end;
        if gap == 0 {
            return Some(self.output_event(&text, 0));
        }
        let lost = grouped(gap);
        let text = format!("… {lost} bytes were dropped (quota)\n{text}");
        Some(self.output_event(&text, gap))
    }

    fn position(&self) -> u64 {
        self.position
    }

    fn wait(&mut self, deadline: Instant, cancel: &Cancel) {
        match &mut self.changes {
            Changes::Own(changes) => changes.wait(deadline, cancel),
            Changes::Files(changes) => changes.wait(deadline, cancel, true, &[]),
        }
    }
}

/// A run whose log is read from a line on.
pub(crate) struct FollowedRun {
    run: RunView,
    log: Follower,
    changes: FileChanges,
    /// The number of the last line that was sent or skipped.
    seq: u64,
}

impl FollowedRun {
    /// # Errors
    /// When the log cannot be read.
    pub(crate) fn new(run: RunView, last: LastSent) -> io::Result<FollowedRun> {
        let seq = match last {
            LastSent::Output(seq) => seq,
            LastSent::Nothing | LastSent::End => {
                let newest = log_reader::tail(&run.directory, FIRST_LINES, FIRST_LINES_WITHIN)?;
                newest.first().map_or(0, |line| line.seq.saturating_sub(1))
            }
        };
        Ok(FollowedRun {
            log: Follower::open(&run.directory)?,
            changes: FileChanges::new(GATHER),
            seq,
            run,
        })
    }
}

impl Followed for FollowedRun {
    fn refresh(&mut self) -> bool {
        self.changes.note(&[&self.run.directory]);
        match sessions::view(&self.run.directory) {
            Ok(run) => {
                self.run = run;
                !self.run.live
            }
            Err(error) => {
                tracing::debug!("{error}");
                true
            }
        }
    }

    fn session(&self) -> Session {
        runs::session(&self.run, now(), Vec::new())
    }

    fn output(&mut self, _is_all: bool) -> Option<SseEvent> {
        loop {
            let line = self.log.next_line();
            let line = line.inspect_err(|error| tracing::warn!("a run's log: {error}"));
            let line = line.ok().flatten()?;
            if line.seq > self.seq {
                self.seq = line.seq;
                return Some(SseEvent {
                    id: Some(line.seq.to_string()),
                    name: Some("log"),
                    data: data_of(line),
                });
            }
        }
    }

    fn position(&self) -> u64 {
        self.seq
    }

    fn wait(&mut self, deadline: Instant, cancel: &Cancel) {
        self.changes.wait(deadline, cancel, true, &[]);
    }
}

fn data_of(line: LogLine) -> String {
    let text = json!(line).to_string();
    if text.len() <= LONGEST_LINE {
        return text;
    }
    let data = json!({ "omitted_bytes": text.len() });
    json!(LogLine { data, ..line }).to_string()
}

/// The list of all sessions, sent whenever it has changed.
pub(crate) struct ListEvents {
    sessions: Arc<Sessions>,
    changes: FileChanges,
    hosts: Option<HostLists>,
    /// The list of this machine, and what hosts have listed.
    sent: Option<(List, Vec<Value>)>,
}

impl ListEvents {
    pub(crate) fn new(sessions: Arc<Sessions>, hosts: Option<Arc<Hosts>>) -> ListEvents {
        let hosts = hosts.map(HostLists::new);
        ListEvents { sessions, changes: FileChanges::new(LIST_PAUSE), hosts, sent: None }
    }
}

impl EventSource for ListEvents {
    fn next(&mut self, deadline: Instant, cancel: &Cancel) -> StreamStep {
        loop {
            if self.sent.is_some() {
                let shows_all = self.sessions.are_on_disk();
                let of_hosts = self.hosts.iter().flat_map(HostLists::awaited).collect::<Vec<_>>();
                self.changes.wait(deadline, cancel, shows_all, &of_hosts);
            }
            if cancel.is_cancelled() {
                return StreamStep::End;
            }
            self.changes.note(&self.sessions.directories());
            let list = self.sessions.list();
            let of_hosts = self.hosts.as_mut().map(HostLists::sessions).unwrap_or_default();
            let listed = Some((list.without_times(), of_hosts.clone()));
            if self.sent != listed {
                self.sent = listed;
                return StreamStep::Event(SseEvent {
                    id: None,
                    name: Some("sessions"),
                    data: list.with(of_hosts).to_string(),
                });
            }
            if Instant::now() >= deadline {
                return StreamStep::Quiet;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_event_is_read_from_its_id() {
        assert_eq!(LastSent::parse(None), LastSent::Nothing);
        assert_eq!(LastSent::parse(Some("")), LastSent::Nothing);
        assert_eq!(LastSent::parse(Some("12")), LastSent::Output(12));
        assert_eq!(LastSent::parse(Some("12.end")), LastSent::End);
        assert_eq!(LastSent::parse(Some(".end")), LastSent::Nothing);
        assert_eq!(LastSent::parse(Some("-1")), LastSent::Nothing);
    }
}
