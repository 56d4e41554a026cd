//! Processes an agent's output: splits its bytes into records, removes secrets, writes every record
//! to the log, and only then publishes it with its activities.
//!
//! Every wait has a deadline, so silence is detected without a timer or a sleep.
//!
//! Limits: [`ByteSource`] hides the agent's process; the parsing function turns records into
//! activities.

use std::collections::VecDeque;
use std::io;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::log::{LineKind, NewLine, Origin, RunLog};
use super::redaction::{self, Redacted};
use super::run_files::FileError;
use crate::agent::activity::Activity;
use crate::agent::stream::{Framer, Record};
use crate::base::clock::{Clock, Now};
use crate::process::signals::Exit;
use crate::text::redact::Redactor;

/// A record that has been logged.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Published {
    /// When its bytes arrived.
    pub(crate) at: Now,
    /// The number of its line in the log.
    pub(crate) seq: u64,
    pub(crate) stream: Stream,
    /// The record, redacted.
    pub(crate) record: Record,
    /// Its activities; empty for stderr.
    pub(crate) activities: Vec<Activity>,
}

/// The next event of a pipeline.
#[derive(Debug)]
pub(crate) enum PipelineEvent {
    Record(Published),
    /// Nothing arrived before the deadline, or the source was interrupted.
    Quiet,
    /// The agent has been silent for the whole inactivity limit.
    Inactive,
    /// The agent has ended and all of its output was published, or its output cannot be read.
    Ended(io::Result<Exit>),
    /// The log cannot be written. No further records are published.
    Unwritable(FileError),
}

/// The dependencies of a pipeline other than its source.
pub(crate) struct PipelineDeps<'a> {
    pub(crate) clock: &'a dyn Clock,
    pub(crate) inactivity: Duration,
    pub(crate) redactor: &'a Redactor,
    pub(crate) log: &'a mut RunLog,
    /// The agent that writes the output.
    pub(crate) origin: Origin,
}

/// Returns the activities of a record of stdout.
type Parse<'a> = &'a dyn Fn(&Record) -> Vec<Activity>;

/// Reads one agent's output.
pub(crate) struct Pipeline<'a, S: ByteSource> {
    source: S,
    framer: Framer,
    stderr: StderrLines,
    /// Redacts stdout lines, following private keys that span lines.
    stdout_secrets: redaction::Lines,
    stderr_secrets: redaction::Lines,
    deps: PipelineDeps<'a>,
    parse: Parse<'a>,
    /// The last sign of life.
    last_life: Instant,
    ready: VecDeque<Published>,
    end: Option<io::Result<Exit>>,
}

impl<'a, S: ByteSource> Pipeline<'a, S> {
    /// Creates a pipeline; silence counts from now.
    pub(crate) fn new(source: S, framer: Framer, parse: Parse<'a>, deps: PipelineDeps<'a>) -> Self {
        Pipeline {
            source,
            framer,
            stderr: StderrLines::default(),
            stdout_secrets: redaction::Lines::default(),
            stderr_secrets: redaction::Lines::default(),
            last_life: deps.clock.now().mono,
            deps,
            parse,
            ready: VecDeque::new(),
            end: None,
        }
    }

    /// Waits for the next event, at most until `until`. [`PipelineEvent::Ended`] is the last event.
    pub(crate) fn next(&mut self, until: Instant) -> PipelineEvent {
        loop {
            if let Some(published) = self.ready.pop_front() {
                return PipelineEvent::Record(published);
            }
            if let Some(end) = self.end.take() {
                return PipelineEvent::Ended(end);
            }
            let due = self.last_life.checked_add(self.deps.inactivity);
            let received = self.source.next(due.map_or(until, |due| until.min(due)));
            let taken = match received {
                Received::Bytes(bytes) => {
                    let records = self.framer.push(&bytes);
                    self.take(Stream::Stdout, records)
                }
                Received::Stderr(bytes) => {
                    let records = self.stderr.push(&bytes);
                    self.take(Stream::Stderr, records)
                }
                Received::Quiet => return self.quiet(due),
                Received::Ended(end) => {
                    self.end = Some(end);
                    let (stdout, stderr) = (self.framer.finish(), self.stderr.finish());
                    self.take(Stream::Stdout, stdout)
                        .and_then(|()| self.take(Stream::Stderr, stderr))
                }
            };
            if let Err(error) = taken {
                return PipelineEvent::Unwritable(error);
            }
        }
    }

    /// Handles a wait without output. `due` is when the silence is too long.
    fn quiet(&mut self, due: Option<Instant>) -> PipelineEvent {
        if due.is_none_or(|due| self.deps.clock.now().mono < due) {
            return PipelineEvent::Quiet;
        }
        // Probe only now: a probe is costly, and output is the usual sign of life.
        match self.source.last_evidence().filter(|at| *at > self.last_life) {
            Some(evidence) => {
                self.last_life = evidence;
                PipelineEvent::Quiet
            }
            None => PipelineEvent::Inactive,
        }
    }

    /// Logs and publishes records that arrived together.
    fn take(&mut self, stream: Stream, records: Vec<Record>) -> Result<(), FileError> {
        let at = self.deps.clock.now();
        self.note_evidence(at.mono);
        let cleaned = records.into_iter().map(|record| self.clean(stream, record));
        let (records, data): (Vec<Record>, Vec<Redacted>) = cleaned.unzip();
        let first = self.deps.log.last_seq().saturating_add(1);
        let origin = &self.deps.origin;
        self.deps.log.append_all(data.into_iter().map(|data| NewLine {
            ts: at.unix_seconds(),
            kind: LineKind::Activity,
            origin: origin.clone(),
            data,
        }))?;
        for (further, record) in (0..).zip(records) {
            let activities = match stream {
                Stream::Stdout => (self.parse)(&record),
                Stream::Stderr => Vec::new(),
            };
            self.ready.push_back(Published {
                at,
                seq: first.saturating_add(further),
                stream,
                record,
                activities,
            });
        }
        Ok(())
    }

    /// The record without secrets, and its data for the log.
    fn clean(&mut self, stream: Stream, record: Record) -> (Record, Redacted) {
        let redactor = self.deps.redactor;
        let (secrets, key) = match stream {
            Stream::Stdout => (&mut self.stdout_secrets, "text"),
            Stream::Stderr => (&mut self.stderr_secrets, "stderr"),
        };
        let text = match record {
            Record::Json(text) => match serde_json::from_str::<Value>(&text) {
                Ok(value) => {
                    let (data, is_changed) = Redacted::and_whether_changed(value, redactor);
                    let text = if is_changed { data.value().to_string() } else { text };
                    return (Record::Json(text), data);
                }
                Err(_) => text,
            },
            Record::Line(text) => text,
        };
        let text = secrets.redact(&text, redactor);
        let data = Redacted::line(key, &text);
        (Record::Line(text.into_text()), data)
    }

    /// The source, for uses other than reading output.
    pub(crate) fn source(&mut self) -> &mut S {
        &mut self.source
    }

    /// Records a sign of life other than output.
    pub(crate) fn note_evidence(&mut self, at: Instant) {
        self.last_life = self.last_life.max(at);
    }

    /// The current time in Unix seconds.
    pub(crate) fn unix_now(&self) -> f64 {
        self.deps.clock.now().unix_seconds()
    }

    /// Logs a line about the agent that is not part of its output.
    pub(crate) fn note(&mut self, kind: LineKind, data: Value) -> Result<(), FileError> {
        let line = NewLine {
            ts: self.unix_now(),
            kind,
            origin: self.deps.origin.clone(),
            data: Redacted::new(data, self.deps.redactor),
        };
        self.deps.log.append(line).map(|_| ())
    }
}

/// The longest line of stderr, in bytes; records are on stdout.
const MAX_STDERR_LINE: usize = 1 << 20;

#[derive(Debug)]
pub(crate) enum Received {
    /// Bytes of stdout.
    Bytes(Vec<u8>),
    /// Bytes of stderr.
    Stderr(Vec<u8>),
    /// No output before the deadline, or a request to the run.
    Quiet,
    /// The agent has ended and all of its output was returned, or its output cannot be read.
    Ended(io::Result<Exit>),
}

/// A source of an agent's output.
pub(crate) trait ByteSource {
    /// Waits for output, at most until `until`.
    fn next(&mut self, until: Instant) -> Received;

    /// Probes the agent's I/O and processes. Returns its last sign of life other than output and
    /// CPU time.
    fn last_evidence(&mut self) -> Option<Instant>;
}

/// One of an agent's output streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stream {
    /// Records of the agent's format.
    Stdout,
    /// Lines for people.
    Stderr,
}

/// Splits stderr into lines, and overlong lines into pieces.
#[derive(Debug, Default)]
pub(super) struct StderrLines {
    begun: Vec<u8>,
}

impl StderrLines {
    pub(super) fn push(&mut self, bytes: &[u8]) -> Vec<Record> {
        let mut records = Vec::new();
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.begun.extend_from_slice(piece);
            if piece.ends_with(b"\n") || self.begun.len() > MAX_STDERR_LINE {
                records.append(&mut self.finish());
            }
        }
        records
    }

    pub(super) fn finish(&mut self) -> Vec<Record> {
        let line = std::mem::take(&mut self.begun);
        let text = String::from_utf8_lossy(&line);
        let text = text.trim_end_matches(['\r', '\n']);
        let record = (!text.is_empty()).then(|| Record::Line(text.to_owned()));
        record.into_iter().collect()
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

    /// An event of a script, with its time in seconds.
    #[derive(Debug, Clone)]
    enum Happens {
        Bytes(u64, Vec<u8>),
        Stderr(u64, Vec<u8>),
        End(u64),
    }

    /// A scripted source that advances the clock itself, so that waiting takes no time.
    struct Scripted<'a> {
        clock: &'a FakeClock,
        script: VecDeque<Happens>,
        /// The times of signs of life other than output, in seconds from the start.
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

    impl ByteSource for Scripted<'_> {
        fn next(&mut self, until: Instant) -> Received {
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
                Some(Happens::End(_)) | None => Received::Ended(Ok(Exit::Code(7))),
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

    /// A log in a scratch directory.
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

        fn deps<'a>(&'a self, log: &'a mut RunLog) -> PipelineDeps<'a> {
            PipelineDeps {
                clock: &self.clock,
                inactivity: LIMIT,
                redactor: &self.redactor,
                log,
                origin: Origin { executor: Some("fake".to_owned()), ..Origin::default() },
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

    fn said(record: &Record) -> Vec<Activity> {
        text_of(record).into_iter().map(Activity::Text).collect()
    }

    /// All records that the pipeline publishes until it ends.
    fn published(place: &Place, script: Vec<Happens>) -> Vec<Published> {
        let mut log = RunLog::open(place.path()).unwrap();
        let source = Scripted::new(&place.clock, script);
        let framer = Framer::new(Framing::Lines);
        let mut pipeline = Pipeline::new(source, framer, &said, place.deps(&mut log));
        let far = place.clock.now().mono + Duration::from_secs(1_000_000);
        let mut found = Vec::new();
        loop {
            match pipeline.next(far) {
                PipelineEvent::Record(record) => {
                    // The record is on disk before it is published.
                    let newest = log_reader::tail(place.path(), 10_000, u64::MAX).unwrap();
                    assert!(newest.iter().any(|line| line.seq == record.seq));
                    found.push(record);
                }
                PipelineEvent::Ended(end) => {
                    assert_eq!(end.unwrap(), Exit::Code(7));
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
        let texts: Vec<(Stream, String)> =
            found.iter().map(|found| (found.stream, text_of(&found.record).concat())).collect();
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
        let last_life = format!("{found:?}");
        let logged = std::fs::read_to_string(place.path().join(super::super::log::FILE_NAME));
        let logged = logged.unwrap();
        for text in [&last_life, &logged] {
            assert!(!text.contains(TOKEN) && !text.contains(rest), "{text}");
            assert!(!text.contains("MIIEv"), "{text}");
            assert!(text.contains("so"), "{text}");
        }
    }

    /// Runs until the agent counts as inactive or ends: whether it was inactive, when in seconds,
    /// and the number of probes.
    fn silence(evidence: Vec<u64>, script: Vec<Happens>) -> (bool, u64, u32) {
        let place = Place::new();
        let begin = place.clock.now().mono;
        let mut log = RunLog::open(place.path()).unwrap();
        let mut source = Scripted::new(&place.clock, script);
        source.evidence = evidence;
        let framer = Framer::new(Framing::Plain);
        let mut pipeline = Pipeline::new(source, framer, &said, place.deps(&mut log));
        loop {
            // The engine wakes every second for other work.
            let until = place.clock.now().mono + Duration::from_secs(1);
            let ended = match pipeline.next(until) {
                PipelineEvent::Inactive => false,
                PipelineEvent::Ended(_) => true,
                _ => continue,
            };
            let after = place.clock.now().mono - begin;
            return (ended, after.as_secs(), pipeline.source().probes);
        }
    }

    #[test]
    fn silence_is_detected_without_any_output() {
        assert_eq!(silence(vec![], vec![]), (false, 300, 1));
    }

    #[test]
    fn output_on_either_stream_delays_inactivity() {
        let script = vec![bytes(299, "x"), Happens::Stderr(598, b"y".to_vec())];
        assert_eq!(silence(vec![], script), (false, 898, 1));
    }

    #[test]
    fn other_evidence_delays_inactivity_and_is_probed_when_due() {
        // The probe at 300 s finds the sign of 200 s, the one at 500 s that of 480 s, the one at
        // 780 s none.
        assert_eq!(silence(vec![100, 200, 480], vec![]), (false, 780, 3));
    }

    #[test]
    fn evidence_older_than_the_last_output_delays_nothing() {
        assert_eq!(silence(vec![50], vec![bytes(60, "x")]), (false, 360, 1));
    }

    #[test]
    fn an_end_within_the_time_is_an_end() {
        assert_eq!(silence(vec![], vec![Happens::End(300)]), (true, 300, 0));
    }

    #[test]
    fn evidence_from_the_engine_counts_too() {
        let place = Place::new();
        let begin = place.clock.now().mono;
        let mut log = RunLog::open(place.path()).unwrap();
        let source = Scripted::new(&place.clock, vec![]);
        let framer = Framer::new(Framing::Plain);
        let mut pipeline = Pipeline::new(source, framer, &said, place.deps(&mut log));
        pipeline.note_evidence(begin + Duration::from_secs(100));
        let far = begin + Duration::from_secs(100_000);
        assert!(matches!(pipeline.next(far), PipelineEvent::Inactive | PipelineEvent::Quiet));
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
