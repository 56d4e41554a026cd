//! What is recorded and not yet written, and what the writer has come to.
//!
//! Entries leave the queue when they are on disk, not when they are taken, so that a
//! reader always finds a record either in the database or here. Limits: 10,000 entries;
//! beyond, the oldest that only serves estimates goes, and is counted.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use crate::alan::outcome::Outcome;
use crate::alan::rows::CachedOptions;
use crate::alan::run::RunRows;

/// Entries that are kept at most while the database cannot be written.
pub const MOST_QUEUED: usize = 10_000;

/// One thing to be written.
#[derive(Debug, Clone)]
pub enum Job {
    /// A run.
    Run(Box<RunRows>),
    /// A table of options.
    Options(CachedOptions),
}

impl Job {
    /// A success tells how long commands take and little else; failures, timeouts and
    /// kills are what advice is made of.
    fn serves_estimates_only(&self) -> bool {
        matches!(self, Job::Run(rows) if rows.outcome() == Outcome::Success)
    }
}

/// A job with its place in the order of this server.
#[derive(Debug, Clone)]
pub struct Queued {
    /// From 1, rising.
    pub sequence: u64,
    /// What to write.
    pub job: Arc<Job>,
}

/// What the writer has come to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Phase {
    /// Nothing was needed of the database yet.
    #[default]
    Idle,
    /// It is being opened.
    Opening {
        /// Since when.
        since: Instant,
    },
    /// It is written.
    Ready,
    /// It cannot be written; what is queued stays in memory and is tried again.
    Failing {
        /// Why.
        cause: String,
        /// Whether it has been opened, so that it may still be read.
        readable: bool,
    },
    /// The writer has ended.
    Closed,
}

/// The queue and its circumstances.
#[derive(Debug, Default)]
pub struct Queue {
    entries: VecDeque<Queued>,
    last: u64,
    last_pushed: Option<Instant>,
    /// Entries that had to go.
    pub dropped: u64,
    /// What the writer has come to.
    pub phase: Phase,
    /// The writer is to end.
    pub closing: bool,
    /// A reader could not read the file.
    pub reopen: bool,
    /// The file was found corrupt.
    pub suspect: bool,
    /// The failure has been told of.
    pub told: bool,
    /// Where a corrupt file was moved to.
    pub moved_aside: Option<PathBuf>,
}

impl Queue {
    /// Adds a job; its sequence number.
    pub fn push(&mut self, job: Job) -> u64 {
        self.last += 1;
        self.last_pushed = Some(Instant::now());
        let sequence = self.last;
        self.add(Queued {
            sequence,
            job: Arc::new(job),
        });
        sequence
    }

    /// The number that the next job gets.
    pub fn next_sequence(&self) -> u64 {
        self.last + 1
    }

    fn add(&mut self, queued: Queued) {
        self.entries.push_back(queued);
        if self.entries.len() > MOST_QUEUED {
            let mut entries = self.entries.iter();
            let place = entries.position(|queued| queued.job.serves_estimates_only());
            self.entries.remove(place.unwrap_or(0));
            self.dropped += 1;
        }
    }

    /// Whether everything up to this number has left the queue.
    pub fn is_written(&self, sequence: u64) -> bool {
        self.entries
            .front()
            .is_none_or(|first| first.sequence > sequence)
    }

    /// Copies of the oldest entries, at most so many.
    pub fn oldest(&self, most: usize) -> Vec<Queued> {
        self.entries.iter().take(most).cloned().collect()
    }

    /// Takes out what is on disk now.
    pub fn remove_up_to(&mut self, sequence: u64) {
        while self
            .entries
            .front()
            .is_some_and(|first| first.sequence <= sequence)
        {
            self.entries.pop_front();
        }
    }

    /// The newest number given.
    pub fn last(&self) -> u64 {
        self.last
    }

    /// When the newest job came.
    pub fn last_pushed(&self) -> Option<Instant> {
        self.last_pushed
    }

    /// Entries that wait.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether none does.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::alan::outcome::Ending;
    use crate::alan::run::Run;
    use crate::alan::run::tests::ended;
    use crate::text::redact::Redactor;

    fn job(code: i32) -> Job {
        let run = ended("make", Ending::Exited(code), std::time::SystemTime::now());
        Job::Run(Box::new(
            Run::new(run, &Redactor::default()).rows("id", "s"),
        ))
    }

    #[test]
    fn beyond_the_limit_the_oldest_success_goes_and_is_counted() {
        let mut queue = Queue::default();
        queue.push(job(1));
        for _ in 1..MOST_QUEUED {
            queue.push(job(0));
        }
        queue.push(job(0));
        assert_eq!((queue.len(), queue.dropped), (MOST_QUEUED, 1));
        let kept: Vec<u64> = queue.oldest(2).iter().map(|entry| entry.sequence).collect();
        assert_eq!(kept, [1, 3], "the failure stays");
    }

    #[test]
    fn without_a_success_the_oldest_goes() {
        let mut queue = Queue::default();
        for _ in 0..=MOST_QUEUED {
            queue.push(job(1));
        }
        assert_eq!(queue.oldest(1).first().map(|entry| entry.sequence), Some(2));
    }

    #[test]
    fn entries_leave_when_they_are_written() {
        let mut queue = Queue::default();
        for _ in 0..3 {
            queue.push(job(0));
        }
        assert!(!queue.is_written(1));
        queue.remove_up_to(2);
        assert!(queue.is_written(2) && !queue.is_written(3));
        assert_eq!((queue.len(), queue.last()), (1, 3));
    }
}
