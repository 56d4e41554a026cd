//! The streams that a task writes: what has come of each, and what results have shown of it. Pure.

use serde::{Deserialize, Serialize};

use crate::text::lines::{LinePosition, Position};

const START: Position = Position { offset: 0, line: 1 };

/// One of the streams that a task writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamName {
    /// Stdout, and stderr unless that is apart.
    Output,
    /// Stderr, if it is apart.
    Errors,
}

/// Something for each stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct PerStream<T> {
    pub output: T,
    pub errors: T,
}

impl<T> PerStream<T> {
    pub fn get(&self, name: StreamName) -> &T {
        match name {
            StreamName::Output => &self.output,
            StreamName::Errors => &self.errors,
        }
    }

    pub fn get_mut(&mut self, name: StreamName) -> &mut T {
        match name {
            StreamName::Output => &mut self.output,
            StreamName::Errors => &mut self.errors,
        }
    }

    pub fn map<U>(&self, of: impl Fn(&T) -> U) -> PerStream<U> {
        PerStream { output: of(&self.output), errors: of(&self.errors) }
    }
}

/// What has come of a stream so far.
#[derive(Debug, Clone, Copy)]
pub struct StreamState {
    pub end: Position,
    /// The start of the line at the end.
    pub line_start: Position,
    /// How many bytes at the end are an incomplete character.
    pub unfinished: u64,
    /// The offset that the reader that must not miss a byte has reached: the worker stops reading
    /// before bytes after it would be dropped. `None` if there is no such reader.
    pub taken: Option<u64>,
}

impl Default for StreamState {
    fn default() -> StreamState {
        StreamState { end: START, line_start: START, unfinished: 0, taken: None }
    }
}

impl StreamState {
    /// The end of what can be shown: an incomplete character is held back while the rest may come.
    pub(super) fn showable_end(&self, closed: bool) -> LinePosition {
        let held_back = if closed { 0 } else { self.unfinished };
        let offset = self.end.offset.saturating_sub(held_back);
        LinePosition {
            at: Position { offset, line: self.end.line },
            inside_line: offset > self.line_start.offset,
        }
    }

    /// How many lines there are. An unfinished one counts.
    pub fn lines(&self) -> u64 {
        let unfinished = u64::from(self.end.offset > self.line_start.offset);
        self.end.line.saturating_sub(1) + unfinished
    }
}

impl PerStream<StreamState> {
    /// A stream with more than was `read` of it, and its end.
    pub(crate) fn longer_than(&self, read: &PerStream<u64>) -> Option<(StreamName, u64)> {
        [StreamName::Output, StreamName::Errors]
            .map(|name| (name, self.get(name).end.offset))
            .into_iter()
            .find(|(name, end)| end > read.get(*name))
    }
}

/// How much of a stream results have shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StreamMark {
    pub(super) bytes: u64,
    /// The start of the line that the next byte belongs to.
    pub(super) line: Position,
}

impl StreamMark {
    /// Nothing was shown.
    pub(super) const NONE: StreamMark = StreamMark { bytes: 0, line: START };
}

impl Default for StreamMark {
    fn default() -> StreamMark {
        StreamMark::NONE
    }
}

/// What no result has shown of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Delta {
    /// The start of its first line, part of which may have been shown.
    pub from: Position,
    /// Where the new bytes begin.
    pub new_from: u64,
    /// Where they end.
    pub to: LinePosition,
}

impl Delta {
    pub fn new_bytes(&self) -> u64 {
        self.to.at.offset.saturating_sub(self.new_from)
    }
}
