//! Determines when an agent last gave a sign of life.
//!
//! A waiting process is never fully idle: its runtime's timers and wake-ups transfer some bytes
//! each second, even if it waits for an answer that will never come. I/O is a sign of life only in
//! amounts that count as progress (`progress::tracker`). Output and processes that start or end
//! always are; CPU time never is.
//!
//! Pure.

use std::time::{Duration, Instant};

use crate::progress::tracker::{ByteWindow, Totals, TrackerSettings};

/// Follows one agent.
#[derive(Debug, Clone)]
pub(crate) struct Liveness {
    seen: Totals,
    bytes: ByteWindow,
    last: Option<Instant>,
}

impl Liveness {
    /// Follows an agent that starts now and is killed after `inactivity`. Adds up bytes over the
    /// tracker's default interval, since the background I/O of a waiting process does not depend on
    /// the configured interval.
    pub(crate) fn new(inactivity: Duration, now: Instant) -> Liveness {
        let window = inactivity.min(TrackerSettings::default().heartbeat_interval);
        let bytes = ByteWindow::new(window, now);
        Liveness { seen: Totals::default(), bytes, last: None }
    }

    /// Updates the agent's totals and returns when it last gave a sign of life.
    pub(crate) fn update(&mut self, totals: Totals, now: Instant) -> Option<Instant> {
        let before = std::mem::replace(&mut self.seen, totals);
        let moves_bytes = self.bytes.add(totals.io.saturating_sub(before.io), now);
        let acts = totals.output > before.output
            || totals.born > before.born
            || totals.ended > before.ended;
        if acts || moves_bytes {
            self.last = Some(now);
        }
        self.last
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::progress::tracker::BYTES_THAT_COUNT;

    const SECOND: Duration = Duration::from_secs(1);

    /// When the last sign of life was, after one update per second with the totals from `done`.
    fn last_life(seconds: u32, done: impl Fn(u64) -> Totals) -> Option<Duration> {
        let start = Instant::now();
        let mut life = Liveness::new(300 * SECOND, start);
        let updates =
            (1..=seconds).map(|second| life.update(done(second.into()), start + second * SECOND));
        updates.last().flatten().map(|last| last - start)
    }

    fn io(bytes: u64) -> Totals {
        Totals { io: bytes, ..Totals::default() }
    }

    #[test]
    fn small_amounts_are_no_sign_of_life_however_long_they_last() {
        assert_eq!(last_life(900, |second| io(270 * second)), None);
    }

    #[test]
    fn steady_reading_and_writing_is_a_sign_of_life() {
        let last = last_life(100, |second| io(1000 * second)).unwrap();
        assert!(last >= 95 * SECOND, "{last:?}");
        let once = last_life(100, |second| io(if second < 42 { 0 } else { BYTES_THAT_COUNT }));
        assert_eq!(once, Some(42 * SECOND));
    }

    #[test]
    fn output_and_processes_are_signs_of_life_and_computing_is_not() {
        let till_7 = |second: u64| second.min(7);
        let output = |second| Totals { output: till_7(second), ..Totals::default() };
        let born = |second| Totals { born: till_7(second), ..Totals::default() };
        let ended = |second| Totals { ended: till_7(second), ..Totals::default() };
        for last in [last_life(60, output), last_life(60, born), last_life(60, ended)] {
            assert_eq!(last, Some(7 * SECOND));
        }
        let computing = |second| {
            let mut totals = Totals::default();
            totals.cpu.user = Duration::from_secs(second);
            totals
        };
        assert_eq!(last_life(60, computing), None);
    }
}
