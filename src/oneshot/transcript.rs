//! The output of one agent so far: its result, its error and its newest activities. Pure.
//!
//! Memory is bounded: only the newest part of plain text is kept.

use std::collections::VecDeque;

use crate::agent::activity::{Activity, AgentError, Answer, keep_newest};
use crate::agent::deeds::Deeds;
use crate::agent::stream::Record;
use crate::agent::usage::{Meter, Usage};

/// How much stdout to keep of an agent whose whole stdout is its final text.
const MAX_STDOUT: usize = 4 << 20;
/// How much stderr to keep, which may name a failure.
const MAX_STDERR: usize = 64 << 10;
/// How many of the newest activities a judge gets.
const RECENT: usize = 20;
/// How many characters of each activity a judge gets.
const RECENT_CHARS: usize = 300;

/// The output of an agent.
#[derive(Debug, Clone)]
pub(crate) struct Transcript {
    /// Whether its whole stdout is its final text, since it has no records.
    is_plain: bool,
    stdout: String,
    stderr: String,
    answer: Answer,
    /// Its text before its last act.
    before: String,
    recent: VecDeque<String>,
    meter: Meter,
    deeds: Deeds,
}

impl Transcript {
    /// `is_plain` is set if the whole stdout is the answer.
    pub(crate) fn new(answer: Answer, is_plain: bool) -> Transcript {
        Transcript {
            is_plain,
            stdout: String::new(),
            stderr: String::new(),
            answer,
            before: String::new(),
            recent: VecDeque::new(),
            meter: Meter::default(),
            deeds: Deeds::default(),
        }
    }

    /// Adds a record of stdout with its activities.
    pub(crate) fn add(&mut self, record: &Record, activities: &[Activity]) {
        if let Record::Line(line) = record {
            add_line(&mut self.stdout, line, MAX_STDOUT);
        }
        for activity in activities {
            self.add_activity(activity);
        }
    }

    /// Adds a line of stderr, with the activity that it reports.
    pub(crate) fn add_stderr(&mut self, line: &str, activity: Option<&Activity>) {
        add_line(&mut self.stderr, line, MAX_STDERR);
        if let Some(activity) = activity {
            self.add_activity(activity);
        }
    }

    fn add_activity(&mut self, activity: &Activity) {
        if activity.is_act() && !self.answer.text().is_empty() {
            self.before = self.answer.text().to_owned();
        }
        if !self.is_plain {
            self.answer.add(activity);
        }
        if let Activity::Usage(report) = activity {
            self.meter.add(report);
        }
        self.deeds.add(activity);
        let words = match activity {
            Activity::Text(text) | Activity::Reflection(text) | Activity::Plan(text) => {
                Some(text.clone())
            }
            Activity::ToolResult { text, failed } => {
                Some(format!("{} {text}", if *failed { "failed:" } else { "→" }))
            }
            activity => activity.act(),
        };
        let Some(words) = words else {
            return;
        };
        self.recent.push_back(words.chars().take(RECENT_CHARS).collect());
        if self.recent.len() > RECENT {
            self.recent.pop_front();
        }
    }

    /// Whether its terminal event has arrived.
    pub(crate) fn has_ended(&self) -> bool {
        self.answer.is_final()
    }

    /// The error that its terminal event reports.
    pub(crate) fn error(&self) -> Option<AgentError> {
        self.answer.error()
    }

    /// Its final text: the text of its terminal event, else the text after its last act, else the
    /// text before that, else its stdout.
    pub(crate) fn final_text(&self) -> &str {
        if self.is_plain {
            return &self.stdout;
        }
        let texts = [self.answer.text(), &self.before];
        match texts.into_iter().find(|text| !text.is_empty()) {
            Some(text) => text,
            None if self.has_ended() => "",
            None => &self.stdout,
        }
    }

    pub(crate) fn stderr(&self) -> &str {
        &self.stderr
    }

    /// Its cost as reported so far.
    pub(crate) fn usage(&self) -> Usage {
        self.meter.usage()
    }

    /// What it did.
    pub(crate) fn deeds(&self) -> &Deeds {
        &self.deeds
    }

    /// Its newest activities, oldest first.
    pub(crate) fn recent(&self) -> Vec<String> {
        self.recent.iter().cloned().collect()
    }
}

/// Appends a line, and drops the oldest bytes if there are too many.
fn add_line(text: &mut String, line: &str, limit: usize) {
    text.push_str(line);
    text.push('\n');
    keep_newest(text, limit);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::activity::{Final, Texts};
    use crate::agent::executor::Executors;

    fn line(text: &str) -> Record {
        Record::Line(text.to_owned())
    }

    fn of_messages() -> Transcript {
        Transcript::new(Answer::new(Texts::Messages), false)
    }

    fn text(text: &str) -> Activity {
        Activity::Text(text.to_owned())
    }

    fn end(text: &str) -> Activity {
        Activity::Final(Final { text: text.to_owned(), error: None })
    }

    fn act() -> Activity {
        Activity::ToolCall { name: "Bash".to_owned(), argument: "ls".to_owned() }
    }

    #[test]
    fn the_final_text_is_the_terminal_events_else_the_last_text() {
        let mut transcript = of_messages();
        transcript.add(&line("starting"), &[]);
        assert_eq!(transcript.final_text(), "starting\n");
        transcript.add(&line("x"), &[text("I look"), act()]);
        assert_eq!(transcript.final_text(), "I look");
        transcript.add(&line("x"), &[text("it is done")]);
        assert_eq!(transcript.final_text(), "it is done");
        assert!(!transcript.has_ended());
        transcript.add(&line("{}"), &[end("")]);
        assert_eq!((transcript.final_text(), transcript.has_ended()), ("it is done", true));
        transcript.add(&line("{}"), &[end("DONE")]);
        assert_eq!((transcript.final_text(), transcript.error()), ("DONE", None));
    }

    #[test]
    fn pieces_of_an_answer_are_joined() {
        let mut transcript = Transcript::new(Answer::new(Texts::Pieces), false);
        let pieces = [text("I look."), act(), text("It is "), text("done."), end("")];
        transcript.add(&line("x"), &pieces);
        assert_eq!(transcript.final_text(), "It is done.");
    }

    #[test]
    fn the_whole_stdout_of_a_plain_program_is_the_answer() {
        let mut transcript = Transcript::new(Answer::new(Texts::Pieces), true);
        for words in ["one", "two"] {
            transcript.add(&line(words), &[text(&format!("{words}\n"))]);
        }
        assert_eq!(transcript.final_text(), "one\ntwo\n");
    }

    #[test]
    fn a_cost_is_known_as_far_as_it_was_reported() {
        let executors = Executors::new(&[]).unwrap();
        let claude = executors.find("claude").unwrap();
        let stream = include_str!("../../tests/fixtures/agents/claude/streams/denied.ndjson");
        let mut transcript = Transcript::new(claude.answer(), false);
        assert!(!transcript.usage().is_reported());
        let mut seen = Vec::new();
        for line in stream.lines() {
            let record = Record::Json(line.to_owned());
            transcript.add(&record, &claude.classify(&record));
            seen.push(transcript.usage());
        }
        assert_eq!((seen[1].turns, seen[1].usd), (Some(1), None));
        let last = transcript.usage();
        assert_eq!((last.turns, last.tokens()), (Some(4), Some(312)));
        assert!(last.usd.is_some_and(|usd| usd > 0.0));
    }

    #[test]
    fn the_kept_text_is_bounded_and_newest() {
        let mut transcript = Transcript::new(Answer::new(Texts::Pieces), true);
        for number in 0..200_000 {
            transcript.add(&line(&format!("line {number} of a flood, émigré")), &[]);
            transcript.add_stderr("a line of stderr", None);
        }
        let text = transcript.final_text();
        assert!(text.len() <= 2 * MAX_STDOUT);
        assert!(text.ends_with("line 199999 of a flood, émigré\n"));
        assert!(transcript.stderr().len() <= 2 * MAX_STDERR);
    }
}
