//! Limits the work of a search in output: a pattern can take minutes on a single line. A search ends
//! at its call's end, when it is cancelled, or after a second of a processor's work for each megabyte.

use std::ops::Range;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};

use crate::base::cancel::Cancel;
use crate::process::threads::processor_time;
use crate::text::pattern::{GivenUp, Pattern};

/// The work that every search may do, and what each searched byte adds.
const WORK: Duration = Duration::from_secs(1);
const WORK_PER_BYTE: Duration = Duration::from_nanos(1_000);
/// How much text is searched between two looks at the clock.
const UNCHECKED_BYTES: usize = 64 << 10;

/// Costly searches take turns, piece by piece, so that several do not hold all processors.
static TURN: Mutex<()> = Mutex::new(());

/// The work of the searches of one call.
#[derive(Debug)]
pub(crate) struct Effort<'a> {
    cancel: &'a Cancel,
    /// The call's end.
    ends: Instant,
    /// How much work is allowed by now.
    allowed: Duration,
    /// How much work has been done before `since`.
    done: Duration,
    /// The [`processor_time`] from which on work is not yet counted.
    since: Option<Duration>,
    /// How much has been searched since the last look at the clock.
    unchecked: usize,
}

impl<'a> Effort<'a> {
    pub(crate) fn new(cancel: &'a Cancel, ends: Instant) -> Effort<'a> {
        let (allowed, done) = (WORK, Duration::ZERO);
        Effort { cancel, ends, allowed, done, since: None, unchecked: 0 }
    }

    /// Whether a line matches.
    ///
    /// # Errors
    /// When it would be too much work.
    pub(crate) fn is_match(&mut self, pattern: &Pattern, line: &str) -> Result<bool, GivenUp> {
        self.begin(line);
        self.find(pattern, line, 0).map(|found| found.is_some())
    }

    /// Allows the work for one more line or part of one.
    pub(crate) fn begin(&mut self, line: &str) {
        let bytes = u32::try_from(line.len()).unwrap_or(u32::MAX);
        self.allowed = self.allowed.saturating_add(WORK_PER_BYTE.saturating_mul(bytes));
    }

    /// The first match at or after `from` in a line for which [`Effort::begin`] was called.
    ///
    /// # Errors
    /// When it would be too much work.
    pub(crate) fn find(
        &mut self,
        pattern: &Pattern,
        line: &str,
        from: usize,
    ) -> Result<Option<Range<usize>>, GivenUp> {
        self.since.get_or_insert_with(processor_time);
        pattern.find(line, from, |bytes| self.permit(pattern.is_costly, bytes))
    }

    /// Ends the work for now: the time until the next search is none.
    pub(crate) fn pause(&mut self) {
        self.count();
        self.since = None;
    }

    /// How much work was done, to be shown.
    pub(crate) fn done(&self) -> Duration {
        self.done
    }

    fn count(&mut self) {
        let now = processor_time();
        if let Some(since) = self.since.replace(now) {
            self.done += now.saturating_sub(since);
        }
    }

    /// Permits a piece of work, and gives it its turn; `None` ends the search.
    fn permit(&mut self, is_costly: bool, bytes: usize) -> Option<Option<MutexGuard<'static, ()>>> {
        self.unchecked = self.unchecked.saturating_add(bytes);
        if !is_costly && self.unchecked < UNCHECKED_BYTES {
            return Some(None);
        }
        self.unchecked = 0;
        self.count();
        if self.cancel.is_cancelled() || Instant::now() >= self.ends || self.done > self.allowed {
            return None;
        }
        Some(is_costly.then(|| TURN.lock()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COSTLY: &str = "(?s).{0,900}x.{0,900}x.{0,900}x";

    #[test]
    fn a_search_ends_after_its_work_when_cancelled_and_at_the_calls_end() {
        let costly = Pattern::new(COSTLY).expect("a pattern");
        let line = "a".repeat(500_000);
        let cancel = Cancel::default();
        let far = Instant::now() + Duration::from_secs(600);
        let mut effort = Effort::new(&cancel, far);
        assert_eq!(effort.is_match(&costly, &line), Err(GivenUp));
        let done = effort.done();
        assert!(done > WORK && done < WORK * 6, "{done:?}");
        let begun = Instant::now();
        assert_eq!(Effort::new(&cancel, begun).is_match(&costly, &line), Err(GivenUp));
        cancel.cancel();
        assert_eq!(Effort::new(&cancel, far).is_match(&costly, &line), Err(GivenUp));
        assert!(begun.elapsed() < WORK, "at once");
    }

    #[test]
    fn many_matches_that_each_look_at_the_whole_line_are_given_up() {
        let pattern = Pattern::new("a.*z|a").expect("a pattern");
        assert!(!pattern.is_costly);
        let line = "a".repeat(2_000_000);
        let cancel = Cancel::default();
        let mut effort = Effort::new(&cancel, Instant::now() + Duration::from_secs(600));
        effort.begin(&line);
        let mut from = 0;
        let given_up = loop {
            match effort.find(&pattern, &line, from) {
                Ok(Some(found)) => from = found.end,
                other => break other,
            }
        };
        assert_eq!(given_up, Err(GivenUp));
    }
}
