//! Scans of the machine that several tasks use together.
//!
//! A caller gets the newest scan if it is recent enough, waits for the one in progress, or takes a
//! new one. Callers that scan repeatedly do so at common times, so that one scan serves all of
//! them: the first of them takes it, and the others find it when their turn comes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use super::tree::Scan;
use crate::base::sync::CondvarMutex;

/// How long after a common time the last of the turns is, each a [`TURNS`]th of it after the one
/// before. Threads that all woke at once would wait for the scan and for each other's lock.
const SPREAD: Duration = Duration::from_millis(24);
const TURNS: u32 = 64;

/// The common scans.
#[derive(Debug)]
pub(crate) struct Scans {
    /// Common times are whole multiples of a pause after this one.
    epoch: Instant,
    turns: AtomicU32,
    newest: CondvarMutex<LatestScan>,
}

#[derive(Debug, Default)]
struct LatestScan {
    /// The last scan, and when it was taken.
    scan: Option<(Instant, Arc<Scan>)>,
    /// Whether a thread is taking a new one.
    under_way: bool,
}

impl Default for Scans {
    fn default() -> Scans {
        Scans {
            epoch: Instant::now(),
            turns: AtomicU32::new(0),
            newest: CondvarMutex::new(LatestScan::default()),
        }
    }
}

impl Scans {
    /// The newest scan if it is not older than `max_age`, otherwise a new one, taken here or by
    /// a thread that has already begun one.
    pub(crate) fn recent(&self, max_age: Duration) -> Arc<Scan> {
        let mut newest = self.newest.lock();
        let mut waited = false;
        loop {
            if let Some((taken, scan)) = &newest.scan
                && !newest.under_way
                && (waited || taken.elapsed() <= max_age)
            {
                return Arc::clone(scan);
            }
            if !newest.under_way {
                break;
            }
            waited = true;
            newest = self.newest.wait(newest, None);
        }
        newest.under_way = true;
        drop(newest);
        let in_progress = ScanInProgress(self);
        let scan = Arc::new(Scan::take());
        self.newest.lock().scan = Some((Instant::now(), Arc::clone(&scan)));
        drop(in_progress);
        scan
    }

    /// A new caller's offset from the common times, so that callers do not all scan at once.
    pub(crate) fn phase_offset(&self) -> Duration {
        SPREAD / TURNS * (self.turns.fetch_add(1, Ordering::Relaxed) % TURNS)
    }

    /// The common time that is nearest to `pause` from now, and at least half a pause away.
    pub(crate) fn common_time(
        &self,
        now: Instant,
        pause: Duration,
        phase_offset: Duration,
    ) -> Instant {
        let now = now.checked_sub(phase_offset).unwrap_or(now);
        let earliest = now.saturating_duration_since(self.epoch) + pause / 2;
        let times = earliest.as_nanos().div_ceil(pause.as_nanos().max(1));
        let times = u32::try_from(times).unwrap_or(u32::MAX);
        self.epoch + pause * times + phase_offset
    }
}

/// A scan in progress. Waiting threads are notified of its end even if it panics.
struct ScanInProgress<'a>(&'a Scans);

impl Drop for ScanInProgress<'_> {
    fn drop(&mut self) {
        self.0.newest.lock().under_way = false;
        self.0.newest.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_scan_serves_all_callers_that_ask_at_once() {
        let scans = Scans::default();
        let first = scans.recent(Duration::ZERO);
        let again = scans.recent(Duration::from_secs(3600));
        assert!(Arc::ptr_eq(&first, &again));
        let newer = scans.recent(Duration::ZERO);
        assert!(!Arc::ptr_eq(&first, &newer));
    }

    #[test]
    fn common_times_are_the_same_for_all() {
        let scans = Scans::default();
        let pause = Duration::from_secs(1);
        let at = |millis| {
            let now = scans.epoch + Duration::from_millis(millis);
            let next = scans.common_time(now, pause, Duration::ZERO);
            next.duration_since(scans.epoch).as_millis()
        };
        assert_eq!(at(0), 1000);
        assert_eq!(at(499), 1000);
        assert_eq!(at(501), 2000);
        assert_eq!(at(1400), 2000);
        assert_eq!(at(2000), 3000);
    }

    #[test]
    fn each_has_its_turn_after_a_common_time() {
        let scans = Scans::default();
        let pause = Duration::from_secs(1);
        let turns: Vec<Duration> = (0..=TURNS).map(|_| scans.phase_offset()).collect();
        assert_eq!(turns.first(), Some(&Duration::ZERO));
        assert!(turns.iter().all(|turn| *turn < SPREAD));
        assert_eq!(turns.last(), Some(&Duration::ZERO), "they begin anew");
        let turn = SPREAD / 2;
        let first = scans.common_time(scans.epoch, pause, turn);
        assert_eq!(first, scans.epoch + pause + turn);
        assert_eq!(scans.common_time(first, pause, turn), first + pause);
    }
}
