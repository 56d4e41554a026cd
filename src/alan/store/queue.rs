//! Records that are not yet written, and the state of the writer.
//!
//! Entries leave the queue once they are on disk, so that a reader always finds a record either in
//! the database or in the queue. Limits: 10,000 entries; beyond that, the oldest entry that only
//! serves estimates is dropped and counted.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use super::connection::Losses;
use crate::alan::insight::Insight;
use crate::alan::rows::{CachedOptions, LastFailures};
use crate::alan::run::RunRows;
use crate::base::sync::CondvarMutex;
use crate::shell::outcome::Outcome;

/// The most entries kept while the database cannot be written.
pub(super) const MAX_QUEUED: usize = 10_000;

/// Logs the losses of a database and keeps the warnings for the next answer.
pub(super) fn note_losses(queue: &CondvarMutex<Queue>, path: &Path, losses: Losses) {
    let warnings = losses.warnings(path);
    for warning in &warnings {
        tracing::warn!("{warning}");
    }
    let mut queue = queue.lock();
    queue.losses.extend(warnings);
    queue.moved_aside = losses.moved_aside.or(queue.moved_aside.take());
}

/// A record to write.
#[derive(Debug, Clone)]
pub(super) enum Job {
    Run(Box<RunRows>),
    /// A table of options.
    Options(CachedOptions),
    /// What has failed.
    Failures(LastFailures),
}

impl Job {
    /// Successes serve little but estimates; advice needs failures, timeouts and kills.
    fn serves_estimates_only(&self) -> bool {
        matches!(self, Job::Run(rows) if rows.outcome() == Outcome::Success)
    }
}

/// A job with its number.
#[derive(Debug, Clone)]
pub(super) struct Queued {
    /// Counts up from 1.
    pub(crate) sequence: u64,
    pub(crate) job: Arc<Job>,
}

/// The queue at one time.
#[derive(Debug, Clone, Default)]
pub(super) struct QueueCopy {
    /// Oldest first.
    pub(super) entries: Vec<Queued>,
    /// The number of the newest job at that time, whether in these entries or gone.
    pub(super) last: u64,
}

/// The state of the writer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) enum Phase {
    /// No caller has used the database yet.
    #[default]
    Idle,
    /// The writer is opening the database.
    Opening {
        since: Instant,
    },
    Ready,
    /// The database cannot be written; the queue stays in memory, and the writer retries.
    Failing {
        cause: String,
        /// Whether the database is open and may still be read.
        readable: bool,
    },
    /// The writer has ended.
    Closed,
}

/// The queue, and the state that the writer and its callers share.
#[derive(Debug, Default)]
pub(super) struct Queue {
    pub(crate) entries: VecDeque<Queued>,
    /// The number of the newest job.
    pub(crate) last: u64,
    /// When the newest job was queued.
    pub(crate) last_pushed: Option<Instant>,
    /// How many entries were dropped.
    pub(crate) dropped: u64,
    /// The state of the writer.
    pub(crate) phase: Phase,
    /// The writer should end.
    pub(crate) closing: bool,
    /// A caller waits for the writer.
    pub(crate) awaited: bool,
    /// The writer should free its page cache.
    pub(crate) release: bool,
    /// A reader failed: the writer should reopen the file.
    pub(crate) reopen: bool,
    /// The file was found corrupt.
    pub(crate) suspect: bool,
    pub(crate) failure_reported: bool,
    /// Where a corrupt file was moved to.
    pub(crate) moved_aside: Option<PathBuf>,
    /// Warnings about losses that no result has reported yet.
    pub(crate) losses: Vec<Insight>,
}

impl Queue {
    /// Adds a job and returns its number.
    pub(super) fn push(&mut self, job: Job) -> u64 {
        self.last += 1;
        self.last_pushed = Some(Instant::now());
        self.entries.push_back(Queued { sequence: self.last, job: Arc::new(job) });
        if self.entries.len() > MAX_QUEUED {
            let mut entries = self.entries.iter();
            let index = entries.position(|queued| queued.job.serves_estimates_only());
            self.entries.remove(index.unwrap_or(0));
            self.dropped += 1;
        }
        self.last
    }

    /// Whether everything up to this number has left the queue.
    pub(super) fn is_written(&self, sequence: u64) -> bool {
        self.entries.front().is_none_or(|first| first.sequence > sequence)
    }

    /// Copies at most `limit` of the oldest entries.
    pub(super) fn oldest(&self, limit: usize) -> Vec<Queued> {
        self.entries.iter().take(limit).cloned().collect()
    }

    pub(super) fn copy(&self) -> QueueCopy {
        QueueCopy { entries: self.oldest(usize::MAX), last: self.last }
    }

    /// Passes on every run queued after the job with this number, oldest first. `false` if some
    /// have left the queue.
    pub(super) fn each_run_after(&self, sequence: u64, mut each: impl FnMut(&RunRows)) -> bool {
        let first = self.entries.partition_point(|queued| queued.sequence <= sequence);
        let mut queued = 0;
        for entry in self.entries.range(first..) {
            queued += 1;
            if let Job::Run(rows) = entry.job.as_ref() {
                each(rows);
            }
        }
        queued == self.last.saturating_sub(sequence)
    }

    /// Removes the entries that are on disk now.
    pub(super) fn remove_up_to(&mut self, sequence: u64) {
        while self.entries.front().is_some_and(|first| first.sequence <= sequence) {
            self.entries.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::alan::run::Ending;
    use crate::alan::run::Run;
    use crate::alan::run::tests::ended;
    use crate::text::redact::Redactor;

    fn job(code: i32) -> Job {
        let run = ended("make", Ending::Exited(code), std::time::SystemTime::now());
        Job::Run(Box::new(Run::new(run, &Redactor::default()).rows("id", "s")))
    }

    #[test]
    fn beyond_the_limit_the_oldest_success_is_dropped_and_counted() {
        let mut queue = Queue::default();
        queue.push(job(1));
        for _ in 1..MAX_QUEUED {
            queue.push(job(0));
        }
        queue.push(job(0));
        assert_eq!((queue.entries.len(), queue.dropped), (MAX_QUEUED, 1));
        let kept: Vec<u64> = queue.oldest(2).iter().map(|entry| entry.sequence).collect();
        assert_eq!(kept, [1, 3], "the failure stays");
    }

    #[test]
    fn without_a_success_the_oldest_entry_is_dropped() {
        let mut queue = Queue::default();
        for _ in 0..=MAX_QUEUED {
            queue.push(job(1));
        }
        assert_eq!(queue.oldest(1).first().map(|entry| entry.sequence), Some(2));
    }

    #[test]
    fn runs_after_a_number_are_passed_on_unless_some_have_left() {
        let mut queue = Queue::default();
        for code in 0..4 {
            queue.push(job(code));
        }
        let mut codes = Vec::new();
        assert!(queue.each_run_after(2, |rows| codes.push(rows.recent.exit_code)));
        assert_eq!(codes, [Some(2), Some(3)]);
        assert!(queue.each_run_after(4, |_| panic!("there is none")));
        queue.remove_up_to(2);
        assert!(queue.each_run_after(2, |_| {}));
        assert!(!queue.each_run_after(1, |_| {}), "the second is gone");
        assert_eq!((queue.copy().entries.len(), queue.copy().last), (2, 4));
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
        assert_eq!((queue.entries.len(), queue.last), (1, 3));
    }
}
