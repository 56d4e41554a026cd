//! What becomes of an agent's output, in one pass: ingest → timestamp → inactivity
//! monitor → redact → log → parse → publish.
//!
//! Each stage pulls from the one before it and hands on the moment until which it is
//! willing to wait, so that silence is the deadline of a receive and nobody sleeps. What
//! is published has been written to the log before, and holds no secret.
//!
//! Limits: knows no process, which is behind [`Source`]; what records mean is
//! the parsing function's.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::log::{Kind, LogError, NewLine, Origin, RunLog};
use super::redaction::{self, Redacted};
use super::source::{Received, Source, StderrLines, Stream};
use crate::agent::stream::{Framer, Record};
use crate::base::clock::{Clock, Now};
use crate::text::redact::Redactor;

/// A record that is in the log.
#[derive(Debug, Clone, PartialEq)]
pub struct Published<A> {
    /// When it came.
    pub at: Now,
    /// The number of its line in the log.
    pub seq: u64,
    /// Where it was written.
    pub stream: Stream,
    /// The record, redacted.
    pub record: Record,
    /// What it means; nothing for stderr.
    pub activities: Vec<A>,
}

/// What the pipeline says next.
#[derive(Debug)]
pub enum Said<A, E> {
    /// There is a record.
    Record(Published<A>),
    /// Nothing until the moment that was asked for, or something else wants attention.
    Quiet,
    /// The agent has been silent for as long as it may be.
    Inactive {
        /// Since when.
        since: Instant,
    },
    /// The agent has ended, and everything was published.
    Ended(E),
    /// The log cannot be written: nothing more is published.
    Unwritable(LogError),
}

/// What passes between stages.
enum Flow<T, E> {
    Item(T),
    Quiet,
    Inactive { since: Instant },
    Ended(E),
    Unwritable(LogError),
}

impl<T, E> Flow<T, E> {
    fn and_then<U>(self, next: impl FnOnce(T) -> Flow<U, E>) -> Flow<U, E> {
        match self {
            Flow::Item(item) => next(item),
            Flow::Quiet => Flow::Quiet,
            Flow::Inactive { since } => Flow::Inactive { since },
            Flow::Ended(end) => Flow::Ended(end),
            Flow::Unwritable(error) => Flow::Unwritable(error),
        }
    }

    fn map<U>(self, change: impl FnOnce(T) -> U) -> Flow<U, E> {
        self.and_then(|item| Flow::Item(change(item)))
    }
}

/// An iterator that waits until a moment at most.
trait Stage {
    type Item;
    type End;

    fn next(&mut self, until: Instant) -> Flow<Self::Item, Self::End>;
    fn last_evidence(&mut self) -> Option<Instant>;
}

/// Records that came together.
struct Batch {
    stream: Stream,
    records: Vec<Record>,
}

/// Makes records of bytes.
struct Ingest<S: Source> {
    source: S,
    framer: Framer,
    stderr: StderrLines,
    /// What is left to be said at the end.
    rest: VecDeque<Batch>,
    end: Option<S::End>,
}

impl<S: Source> Stage for Ingest<S> {
    type Item = Batch;
    type End = S::End;

    fn next(&mut self, until: Instant) -> Flow<Batch, S::End> {
        if let Some(batch) = self.rest.pop_front() {
            return Flow::Item(batch);
        }
        if let Some(end) = self.end.take() {
            return Flow::Ended(end);
        }
        let batch = |stream, records| Flow::Item(Batch { stream, records });
        match self.source.next(until) {
            Received::Bytes(bytes) => batch(Stream::Stdout, self.framer.push(&bytes)),
            Received::Stderr(bytes) => batch(Stream::Stderr, self.stderr.push(&bytes)),
            Received::Quiet => Flow::Quiet,
            Received::Ended(end) => {
                self.rest.push_back(Batch {
                    stream: Stream::Stderr,
                    records: self.stderr.finish(),
                });
                self.end = Some(end);
                batch(Stream::Stdout, self.framer.finish())
            }
        }
    }

    fn last_evidence(&mut self) -> Option<Instant> {
        self.source.last_evidence()
    }
}

/// Something, and when it came.
struct Stamped<T> {
    at: Now,
    item: T,
}

/// Notes when something came.
struct Timestamp<'a, I> {
    before: I,
    clock: &'a dyn Clock,
}

impl<I: Stage> Stage for Timestamp<'_, I> {
    type Item = Stamped<I::Item>;
    type End = I::End;

    fn next(&mut self, until: Instant) -> Flow<Self::Item, I::End> {
        let flow = self.before.next(until);
        let at = self.clock.now();
        flow.map(|item| Stamped { at, item })
    }

    fn last_evidence(&mut self) -> Option<Instant> {
        self.before.last_evidence()
    }
}

/// Passes everything through, and says when nothing has come for too long.
struct InactivityMonitor<'a, I> {
    before: I,
    clock: &'a dyn Clock,
    limit: Duration,
    /// When there was a sign of life last.
    seen: Instant,
}

impl<T, I: Stage<Item = Stamped<T>>> Stage for InactivityMonitor<'_, I> {
    type Item = I::Item;
    type End = I::End;

    fn next(&mut self, until: Instant) -> Flow<Self::Item, I::End> {
        let due = self.seen.checked_add(self.limit);
        let flow = self.before.next(due.map_or(until, |due| until.min(due)));
        match &flow {
            Flow::Item(stamped) => self.seen = self.seen.max(stamped.at.mono),
            Flow::Quiet if due.is_some_and(|due| self.clock.now().mono >= due) => {
                // Asked only now: looking costs something, and output is the usual sign.
                let evidence = self.before.last_evidence();
                match evidence.filter(|evidence| *evidence > self.seen) {
                    Some(evidence) => self.seen = evidence,
                    None => return Flow::Inactive { since: self.seen },
                }
            }
            _ => {}
        }
        flow
    }

    fn last_evidence(&mut self) -> Option<Instant> {
        self.before.last_evidence()
    }
}

/// A record without secrets, and as the log has it.
struct Clean {
    record: Record,
    data: Redacted,
}

/// Takes secrets out.
struct Redact<'a, I> {
    before: I,
    redactor: &'a Redactor,
    stdout: redaction::Lines,
    stderr: redaction::Lines,
}

impl<I> Redact<'_, I> {
    fn clean(&mut self, stream: Stream, record: Record) -> Clean {
        let (lines, key) = match stream {
            Stream::Stdout => (&mut self.stdout, "text"),
            Stream::Stderr => (&mut self.stderr, "stderr"),
        };
        let text = match record {
            Record::Json(text) => match serde_json::from_str::<Value>(&text) {
                Ok(value) => return clean_json(text, value, self.redactor),
                Err(_) => text,
            },
            Record::Line(text) => text,
        };
        let text = lines.redact(&text, self.redactor);
        Clean {
            data: Redacted::line(key, &text),
            record: Record::Line(text.into_text()),
        }
    }
}

fn clean_json(text: String, value: Value, redactor: &Redactor) -> Clean {
    let (data, is_changed) = Redacted::and_whether_changed(value, redactor);
    let text = match is_changed {
        true => data.value().to_string(),
        false => text,
    };
    Clean {
        data,
        record: Record::Json(text),
    }
}

/// A batch without secrets.
struct CleanBatch {
    stream: Stream,
    records: Vec<Clean>,
}

impl<I: Stage<Item = Stamped<Batch>>> Stage for Redact<'_, I> {
    type Item = Stamped<CleanBatch>;
    type End = I::End;

    fn next(&mut self, until: Instant) -> Flow<Self::Item, I::End> {
        let flow = self.before.next(until);
        flow.map(|Stamped { at, item }| {
            let stream = item.stream;
            let records = item.records.into_iter();
            let records = records.map(|record| self.clean(stream, record)).collect();
            Stamped {
                at,
                item: CleanBatch { stream, records },
            }
        })
    }

    fn last_evidence(&mut self) -> Option<Instant> {
        self.before.last_evidence()
    }
}

/// A record, and its number in the log.
struct Logged {
    at: Now,
    stream: Stream,
    records: Vec<(u64, Record)>,
}

/// Writes everything to the log.
struct Write<'a, I> {
    before: I,
    log: &'a mut RunLog,
    origin: Origin,
}

impl<I: Stage<Item = Stamped<CleanBatch>>> Stage for Write<'_, I> {
    type Item = Logged;
    type End = I::End;

    fn next(&mut self, until: Instant) -> Flow<Logged, I::End> {
        let flow = self.before.next(until);
        flow.and_then(|Stamped { at, item }| {
            let (records, data): (Vec<Record>, Vec<Redacted>) = item
                .records
                .into_iter()
                .map(|clean| (clean.record, clean.data))
                .unzip();
            let first = self.log.last_seq() + 1;
            let lines = data.into_iter().map(|data| NewLine {
                ts: at.unix_seconds(),
                kind: Kind::Activity,
                origin: self.origin.clone(),
                data,
            });
            match self.log.append_all(lines) {
                Ok(_) => Flow::Item(Logged {
                    at,
                    stream: item.stream,
                    records: (first..).zip(records).collect(),
                }),
                Err(error) => Flow::Unwritable(error),
            }
        })
    }

    fn last_evidence(&mut self) -> Option<Instant> {
        self.before.last_evidence()
    }
}

/// What a pipeline needs besides its source.
pub struct Means<'a> {
    /// The time.
    pub clock: &'a dyn Clock,
    /// How long the agent may be silent.
    pub inactivity: Duration,
    /// What takes secrets out.
    pub redactor: &'a Redactor,
    /// Where everything is written to.
    pub log: &'a mut RunLog,
    /// Whose output it is.
    pub origin: Origin,
}

type Stages<'a, S> = Write<'a, Redact<'a, InactivityMonitor<'a, Timestamp<'a, Ingest<S>>>>>;

/// The stages, one behind the other.
pub struct Pipeline<'a, S: Source, A, P> {
    stages: Stages<'a, S>,
    parse: P,
    ready: VecDeque<Published<A>>,
}

impl<'a, S, A, P> Pipeline<'a, S, A, P>
where
    S: Source,
    P: FnMut(&Record) -> Vec<A>,
{
    /// A pipeline of this source; the agent counts as seen now. `parse` says what a record
    /// of stdout means.
    pub fn new(source: S, framer: Framer, parse: P, means: Means<'a>) -> Self {
        let ingest = Ingest {
            source,
            framer,
            stderr: StderrLines::default(),
            rest: VecDeque::new(),
            end: None,
        };
        let monitor = InactivityMonitor {
            before: Timestamp {
                before: ingest,
                clock: means.clock,
            },
            clock: means.clock,
            limit: means.inactivity,
            seen: means.clock.now().mono,
        };
        let redact = Redact {
            before: monitor,
            redactor: means.redactor,
            stdout: redaction::Lines::default(),
            stderr: redaction::Lines::default(),
        };
        Pipeline {
            stages: Write {
                before: redact,
                log: means.log,
                origin: means.origin,
            },
            parse,
            ready: VecDeque::new(),
        }
    }

    /// What comes next; waits until `until` at most. After [`Said::Inactive`] the count
    /// begins anew, after [`Said::Ended`] there is nothing more.
    pub fn next(&mut self, until: Instant) -> Said<A, S::End> {
        loop {
            if let Some(published) = self.ready.pop_front() {
                return Said::Record(published);
            }
            match self.stages.next(until) {
                Flow::Item(logged) => self.publish(logged),
                Flow::Quiet => return Said::Quiet,
                Flow::Inactive { since } => return Said::Inactive { since },
                Flow::Ended(end) => return Said::Ended(end),
                Flow::Unwritable(error) => return Said::Unwritable(error),
            }
        }
    }

    fn publish(&mut self, logged: Logged) {
        let (at, stream) = (logged.at, logged.stream);
        for (seq, record) in logged.records {
            let activities = match stream {
                Stream::Stdout => (self.parse)(&record),
                Stream::Stderr => Vec::new(),
            };
            self.ready.push_back(Published {
                at,
                seq,
                stream,
                record,
                activities,
            });
        }
    }

    /// The source, for what the engine does with the agent beside reading it.
    pub fn source(&mut self) -> &mut S {
        &mut self.stages.before.before.before.before.source
    }

    /// The log, for lines that are not the agent's.
    pub fn log(&mut self) -> &mut RunLog {
        self.stages.log
    }

    /// A sign of life that did not come by the stream.
    pub fn note_evidence(&mut self, at: Instant) {
        let monitor = &mut self.stages.before.before;
        monitor.seen = monitor.seen.max(at);
    }
}
