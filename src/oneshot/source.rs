//! Where an agent's output comes from, and what it is made of: the seam between the
//! pipeline and the supervised process.
//!
//! Limits: reads nothing itself. Pure.

use std::time::Instant;

use crate::agent::stream::Record;

/// A line of stderr is cut there; agents write records to stdout.
const MAX_STDERR_LINE: usize = 1 << 20;

/// What a source had to give.
#[derive(Debug, Clone, PartialEq)]
pub enum Received<E> {
    /// Of stdout.
    Bytes(Vec<u8>),
    /// Of stderr.
    Stderr(Vec<u8>),
    /// Nothing until the moment that was asked for, or something else wants attention.
    Quiet,
    /// The agent has ended and all of its output was given.
    Ended(E),
}

/// Where the output comes from.
pub trait Source {
    /// How an agent's end is described.
    type End;

    /// What comes next; waits until `until` at most.
    fn next(&mut self, until: Instant) -> Received<Self::End>;

    /// When there was a sign of life last, other than output and processor time: the
    /// source looks (at I/O, files, processes) now.
    fn last_evidence(&mut self) -> Option<Instant>;
}

/// Where something was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// Records of the agent's format.
    Stdout,
    /// Lines for people.
    Stderr,
}

/// Lines of stderr: cut where they are too long, whatever bytes they are.
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
