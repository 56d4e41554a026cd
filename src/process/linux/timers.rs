//! Waits that end on time.
//!
//! The kernel may end a thread's timed waits late, to wake it together with others: its timer slack,
//! 50 µs by default. See `prctl(2)`, PR_SET_TIMERSLACK.

use std::num::NonZeroU64;

use rustix::thread::set_current_timer_slack;

/// The least that can be set, in nanoseconds.
const LEAST: NonZeroU64 = NonZeroU64::MIN;

/// While it lives, timed waits of the thread that made it end on time. The threads and processes that
/// this thread creates meanwhile would inherit that; they should not, since it costs wake-ups.
#[must_use = "it ends when it is dropped"]
pub(crate) struct PreciseWaits(());

impl PreciseWaits {
    /// Makes them so. If the kernel refuses, they stay as they were.
    pub(crate) fn begin() -> PreciseWaits {
        let _ = set_current_timer_slack(Some(LEAST));
        PreciseWaits(())
    }
}

impl Drop for PreciseWaits {
    fn drop(&mut self) {
        // `None` restores the slack with which the thread began.
        let _ = set_current_timer_slack(None);
    }
}

#[cfg(test)]
mod tests {
    use rustix::thread::current_timer_slack;

    use super::*;

    #[test]
    fn the_slack_is_restored() {
        std::thread::spawn(|| {
            let slack = || current_timer_slack().expect("a slack");
            let usual = slack();
            let precise = PreciseWaits::begin();
            assert_eq!(slack(), 1);
            drop(precise);
            assert_eq!(slack(), usual);
        })
        .join()
        .expect("no panic");
    }
}
