//! What results, notices and events have told of a task, so that each of them tells only what is
//! new.

use std::time::Instant;

use serde::{Deserialize, Serialize};

use super::stream::{PerStream, StreamMark};
use crate::progress::waiting::Waiting;

/// What has been told of a task.
#[derive(Debug, Default)]
pub struct Told {
    /// How much of the output results have shown.
    pub(super) streams: PerStream<StreamMark>,
    /// A result has told the end.
    pub end: bool,
    /// A notice ahead of another task's result, or an event, has told the end.
    pub end_noticed: bool,
    /// A result has told that it is stuck, since it became so.
    pub stuck: bool,
    /// A result has told that it prints the same again and again, since it began to.
    pub repetition: bool,
    /// A result has told that the program draws a full screen.
    pub screen: bool,
    /// A result has told that a stream is not UTF-8.
    pub encoding: PerStream<bool>,
    /// A result has told that not all can be seen.
    pub evidence: bool,
    /// A result has warned of the number of its processes.
    pub process_count: bool,
    /// The client has given up the call that started it, and no result has told that.
    pub start_timed_out: bool,
    /// A result has told that it continues past a deadline that its caller has not set.
    pub continues: bool,
    /// When the last call about it ended, and how many notices have told since then that it runs.
    pub last_call: Option<Instant>,
    pub unpolled_notices: u32,
    /// The client has asked for it to be killed: such an end is no news.
    pub kill_asked: bool,
    pub polls: u64,
    /// The polls that have brought nothing since the last that brought something.
    pub empty_polls: EmptyPolls,
    pub(super) events: ReportedEvents,
}

impl Told {
    /// How many bytes of all streams results have shown.
    pub fn bytes(&self) -> u64 {
        self.streams.output.bytes + self.streams.errors.bytes
    }

    /// How much results have shown.
    pub fn mark(&self) -> ShownMark {
        ShownMark {
            output: self.streams.output,
            errors: self.streams.errors,
            end_reported: self.end,
            stuck_reported: self.stuck,
            screen_reported: self.screen,
        }
    }

    /// Restores what had been shown at an earlier moment, or by an earlier server.
    pub fn restore(&mut self, mark: ShownMark) {
        self.streams = PerStream { output: mark.output, errors: mark.errors };
        self.end = mark.end_reported;
        self.stuck = mark.stuck_reported;
        self.screen = mark.screen_reported;
    }
}

/// Polls in a row that brought nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EmptyPolls {
    pub polls: u32,
    /// As how many they count for advice: a long wait counts as several.
    pub weight: u32,
}

/// What results have shown of a task, to restore it when a result is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShownMark {
    #[serde(flatten)]
    output: StreamMark,
    #[serde(default)]
    errors: StreamMark,
    end_reported: bool,
    stuck_reported: bool,
    screen_reported: bool,
}

impl ShownMark {
    /// No result has shown anything.
    pub const NOTHING: ShownMark = ShownMark {
        output: StreamMark::NONE,
        errors: StreamMark::NONE,
        end_reported: false,
        stuck_reported: false,
        screen_reported: false,
    };

    pub(super) fn bytes(&self) -> u64 {
        self.output.bytes + self.errors.bytes
    }

    /// A result has reported the end.
    pub fn end_reported(&self) -> bool {
        self.end_reported
    }
}

/// Which events of a task have been reported, besides its end and being stuck.
#[derive(Debug, Default)]
pub(crate) struct ReportedEvents {
    /// The last wait for input.
    pub(super) waiting: Option<Box<Waiting>>,
    /// The program draws a full screen, whose last line is no prompt.
    pub(super) is_screen: bool,
    /// It is held up by a signal.
    pub(super) stopped: bool,
    /// Its end, with processes that outlived it.
    pub(super) leftovers: bool,
}

impl ReportedEvents {
    /// Whether this wait has been reported. Output of a waiting program does not make it a new
    /// wait.
    pub(super) fn has_reported(&self, waiting: &Waiting) -> bool {
        self.waiting.as_ref().is_some_and(|reported| {
            (&reported.reader, reported.wanted) == (&waiting.reader, waiting.wanted)
                && (self.is_screen || reported.prompt == waiting.prompt)
        })
    }
}
