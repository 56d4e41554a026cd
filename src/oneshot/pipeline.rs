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

/// The log's numbers of these records; they end where numbers do.
fn numbered(first: u64, records: Vec<Record>) -> Vec<(u64, Record)> {
    let numbers = (0..).map(|further| first.saturating_add(further));
    numbers.zip(records).collect()
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
            let first = self.log.last_seq().saturating_add(1);
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
                    records: numbered(first, records),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::stream::Framing;
    use crate::base::clock::FakeClock;
    use crate::oneshot::log_reader;
    use proptest::prelude::*;
    use std::path::Path;

    const TOKEN: &str = "ghp_abcdefghijklmnopqrstuvwxyz0123456789";
    const LIMIT: Duration = Duration::from_secs(300);

    /// What happens, and after how many seconds.
    #[derive(Debug, Clone)]
    enum Happens {
        Bytes(u64, Vec<u8>),
        Stderr(u64, Vec<u8>),
        End(u64),
    }

    /// A source that moves the clock itself: waiting takes no time.
    struct Scripted<'a> {
        clock: &'a FakeClock,
        script: VecDeque<Happens>,
        /// When each sign of life comes that is not output, in seconds from the start.
        evidence: Vec<u64>,
        begin: Instant,
        probes: u32,
    }

    impl<'a> Scripted<'a> {
        fn new(clock: &'a FakeClock, script: Vec<Happens>) -> Scripted<'a> {
            Scripted {
                clock,
                script: script.into(),
                evidence: Vec::new(),
                begin: clock.now().mono,
                probes: 0,
            }
        }

        fn go_to(&self, moment: Instant) {
            let ahead = moment.saturating_duration_since(self.clock.now().mono);
            self.clock.advance(ahead);
        }
    }

    impl Source for Scripted<'_> {
        type End = &'static str;

        fn next(&mut self, until: Instant) -> Received<&'static str> {
            let at = match self.script.front() {
                Some(Happens::Bytes(at, _) | Happens::Stderr(at, _) | Happens::End(at)) => *at,
                None => u64::MAX / 4,
            };
            let at = self.begin + Duration::from_secs(at);
            if at > until {
                self.go_to(until);
                return Received::Quiet;
            }
            self.go_to(at);
            match self.script.pop_front() {
                Some(Happens::Bytes(_, bytes)) => Received::Bytes(bytes),
                Some(Happens::Stderr(_, bytes)) => Received::Stderr(bytes),
                Some(Happens::End(_)) | None => Received::Ended("over"),
            }
        }

        fn last_evidence(&mut self) -> Option<Instant> {
            self.probes += 1;
            let now = self.clock.now().mono;
            let moments = self.evidence.iter();
            let moments = moments.map(|at| self.begin + Duration::from_secs(*at));
            moments.filter(|moment| *moment <= now).max()
        }
    }

    /// A log in a directory of its own, and what has become of it.
    struct Place {
        directory: tempfile::TempDir,
        clock: FakeClock,
        redactor: Redactor,
    }

    impl Place {
        fn new() -> Place {
            Place {
                directory: tempfile::tempdir().unwrap(),
                clock: FakeClock::default(),
                redactor: Redactor::default(),
            }
        }

        fn path(&self) -> &Path {
            self.directory.path()
        }

        fn means<'a>(&'a self, log: &'a mut RunLog) -> Means<'a> {
            Means {
                clock: &self.clock,
                inactivity: LIMIT,
                redactor: &self.redactor,
                log,
                origin: Origin {
                    executor: Some("fake".to_owned()),
                    ..Origin::default()
                },
            }
        }

        fn logged(&self) -> Vec<Value> {
            let lines = log_reader::tail(self.path(), usize::MAX, u64::MAX).unwrap();
            lines.into_iter().map(|line| line.data).collect()
        }
    }

    fn text_of(record: &Record) -> Vec<String> {
        match record {
            Record::Json(text) | Record::Line(text) => vec![text.clone()],
        }
    }

    /// All that the pipeline publishes until it ends.
    fn published(place: &Place, script: Vec<Happens>) -> Vec<Published<String>> {
        let mut log = RunLog::open(place.path()).unwrap();
        let source = Scripted::new(&place.clock, script);
        let framer = Framer::new(Framing::Lines);
        let mut pipeline = Pipeline::new(source, framer, text_of, place.means(&mut log));
        let far = place.clock.now().mono + Duration::from_secs(1_000_000);
        let mut found = Vec::new();
        loop {
            match pipeline.next(far) {
                Said::Record(record) => {
                    // On disk before anybody learns of it.
                    let newest = log_reader::tail(place.path(), 10_000, u64::MAX).unwrap();
                    assert!(newest.iter().any(|line| line.seq == record.seq));
                    found.push(record);
                }
                Said::Ended(end) => {
                    assert_eq!(end, "over");
                    return found;
                }
                other => panic!("{other:?}"),
            }
        }
    }

    fn bytes(at: u64, text: &str) -> Happens {
        Happens::Bytes(at, text.as_bytes().to_vec())
    }

    #[test]
    fn records_are_logged_and_published_in_their_order() {
        let place = Place::new();
        let script = vec![
            bytes(1, "{\"type\":\"a\"}\n{\"ty"),
            Happens::Stderr(2, b"warning: x\r\nun".to_vec()),
            bytes(3, "pe\":\"b\"}\nplain\nlast"),
            Happens::Stderr(4, b"finished".to_vec()),
            Happens::End(5),
        ];
        let found = published(&place, script);
        let texts: Vec<(Stream, String)> = found
            .iter()
            .map(|found| (found.stream, text_of(&found.record).concat()))
            .collect();
        assert_eq!(
            texts,
            [
                (Stream::Stdout, "{\"type\":\"a\"}"),
                (Stream::Stderr, "warning: x"),
                (Stream::Stdout, "{\"type\":\"b\"}"),
                (Stream::Stdout, "plain"),
                (Stream::Stdout, "last"),
                (Stream::Stderr, "unfinished"),
            ]
            .map(|(stream, text)| (stream, text.to_owned()))
        );
        assert!(found.iter().map(|found| found.seq).is_sorted());
        assert!(found.iter().all(|found| match found.stream {
            Stream::Stdout => found.activities.len() == 1,
            Stream::Stderr => found.activities.is_empty(),
        }));
        let keys: Vec<Value> = place.logged();
        assert_eq!(keys.first().unwrap()["type"], "a");
        assert_eq!(keys.get(1).unwrap()["stderr"], "warning: x");
        assert_eq!(keys.get(3).unwrap()["text"], "plain");
    }

    #[test]
    fn a_secret_is_neither_logged_nor_published_nor_parsed() {
        let place = Place::new();
        let (half, rest) = TOKEN.split_at(10);
        let script = vec![
            bytes(1, &format!("{{\"text\":\"uses {half}")),
            bytes(2, &format!("{rest}\"}}\nplain {half}")),
            bytes(3, &format!("{rest}\n")),
            Happens::Stderr(4, format!("error with {half}").into_bytes()),
            Happens::Stderr(5, format!("{rest}\n").into_bytes()),
            bytes(
                6,
                "-----BEGIN PRIVATE KEY-----\nMIIEvg\nMIIEvh\n-----END PRIVATE KEY-----\nso\n",
            ),
            Happens::End(7),
        ];
        let found = published(&place, script);
        let seen = format!("{found:?}");
        let logged = std::fs::read_to_string(place.path().join(super::super::log::FILE_NAME));
        let logged = logged.unwrap();
        for text in [&seen, &logged] {
            assert!(!text.contains(TOKEN) && !text.contains(rest), "{text}");
            assert!(!text.contains("MIIEv"), "{text}");
            assert!(text.contains("so"), "{text}");
        }
    }

    /// Until the agent counts as inactive, or ends: which, and when, in seconds.
    fn silence(evidence: Vec<u64>, script: Vec<Happens>) -> (bool, u64, u32) {
        let place = Place::new();
        let begin = place.clock.now().mono;
        let mut log = RunLog::open(place.path()).unwrap();
        let mut source = Scripted::new(&place.clock, script);
        source.evidence = evidence;
        let framer = Framer::new(Framing::Plain);
        let mut pipeline = Pipeline::new(source, framer, text_of, place.means(&mut log));
        loop {
            // As an engine waits, which has other things to do every second.
            let until = place.clock.now().mono + Duration::from_secs(1);
            let ended = match pipeline.next(until) {
                Said::Inactive { .. } => false,
                Said::Ended(_) => true,
                _ => continue,
            };
            let after = place.clock.now().mono - begin;
            return (ended, after.as_secs(), pipeline.source().probes);
        }
    }

    #[test]
    fn silence_is_noticed_although_no_byte_ever_comes() {
        assert_eq!(silence(vec![], vec![]), (false, 300, 1));
    }

    #[test]
    fn output_on_either_stream_puts_it_off() {
        let script = vec![bytes(299, "x"), Happens::Stderr(598, b"y".to_vec())];
        assert_eq!(silence(vec![], script), (false, 898, 1));
    }

    #[test]
    fn other_evidence_puts_it_off_and_is_looked_for_when_it_falls_due() {
        // At 300 s that of 200 s is found, at 500 s that of 480 s, at 780 s none.
        assert_eq!(silence(vec![100, 200, 480], vec![]), (false, 780, 3));
    }

    #[test]
    fn evidence_that_is_older_than_the_last_output_puts_nothing_off() {
        assert_eq!(silence(vec![50], vec![bytes(60, "x")]), (false, 360, 1));
    }

    #[test]
    fn an_end_within_the_time_is_an_end() {
        assert_eq!(silence(vec![], vec![Happens::End(300)]), (true, 300, 0));
    }

    #[test]
    fn what_the_engine_has_seen_itself_counts_too() {
        let place = Place::new();
        let begin = place.clock.now().mono;
        let mut log = RunLog::open(place.path()).unwrap();
        let source = Scripted::new(&place.clock, vec![]);
        let framer = Framer::new(Framing::Plain);
        let mut pipeline = Pipeline::new(source, framer, text_of, place.means(&mut log));
        pipeline.note_evidence(begin + Duration::from_secs(100));
        let far = begin + Duration::from_secs(100_000);
        assert!(matches!(
            pipeline.next(far),
            Said::Inactive { .. } | Said::Quiet
        ));
        assert_eq!(place.clock.now().mono, begin + Duration::from_secs(400));
    }

    #[test]
    fn lines_of_stderr_are_cut_where_they_are_too_long() {
        let mut lines = StderrLines::default();
        let records = lines.push(&vec![b'x'; 3 * (1 << 20)]);
        assert_eq!(records.len(), 1);
        assert_eq!(lines.push(b"rest\xff\n").len(), 1);
        assert_eq!(lines.finish(), []);
    }

    proptest! {
        #[test]
        fn bytes_cut_anywhere_make_the_same_log(
            text in "([a-z ]{0,8}|\\{\"a\":[0-9]\\}|\"|é|\r|\n){0,30}",
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
        ) {
            let whole = Place::new();
            published(&whole, vec![bytes(1, &text), Happens::End(2)]);
            let mut places: Vec<usize> = cuts.iter().map(|cut| cut.index(text.len() + 1)).collect();
            places.extend([0, text.len()]);
            places.sort_unstable();
            let pieces = places.windows(2).map(|ends| {
                Happens::Bytes(1, text.as_bytes()[ends[0]..ends[1]].to_vec())
            });
            let cut = Place::new();
            published(&cut, pieces.chain([Happens::End(2)]).collect());
            prop_assert_eq!(whole.logged(), cut.logged());
        }
    }
}
