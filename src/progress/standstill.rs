//! Proves that a process's threads do nothing: since some moment, none has run, or each that ran
//! only tried in vain to take what another one holds.
//!
//! Pure: the caller reads the counters.

use std::time::{Duration, Instant};

/// The longest time between two vain attempts of a thread to enter a monitor
/// (`MAX_RECHECK_INTERVAL` of HotSpot's `objectMonitor.cpp`).
const LONGEST_RETRY: Duration = Duration::from_secs(1);

/// The part of a core that a process may use which does nothing: runtimes look after themselves.
/// Beyond it, a thread that serves the runtime may be doing what the others wait for.
const HOUSEKEEPING_SHARE: f64 = 0.03;
/// The kernel counts CPU time in ticks.
const TWO_TICKS: Duration = Duration::from_millis(20);

/// How often the threads of a process that do the program's work have run.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Runs {
    pub(crate) threads: Vec<ThreadRuns>,
    /// How often one of them woke up and tried in vain to enter a monitor; 0 if that is not counted.
    pub(crate) futile: u64,
    /// The CPU time of the process.
    pub(crate) cpu: Duration,
}

/// How often one thread has run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ThreadRuns {
    pub(crate) thread: i32,
    /// How often it has gone to sleep.
    pub(crate) pauses: u64,
    /// Whether it waits for another thread with a time limit.
    pub(crate) retries: bool,
}

/// Follows one process whose threads seem to wait for each other.
#[derive(Debug, Clone)]
pub(crate) struct Standstill {
    since: Instant,
    at_first: Runs,
}

impl Standstill {
    pub(crate) fn begin(runs: Runs, now: Instant) -> Standstill {
        Standstill { since: now, at_first: runs }
    }

    /// Adds a later reading; returns for how long nothing has been done.
    pub(crate) fn add(&mut self, runs: Runs, now: Instant) -> Duration {
        let lasted = now.saturating_duration_since(self.since);
        if self.is_kept_by(&runs, lasted) {
            return lasted;
        }
        *self = Standstill::begin(runs, now);
        Duration::ZERO
    }

    fn is_kept_by(&self, runs: &Runs, lasted: Duration) -> bool {
        let (before, after) = (&self.at_first.threads, &runs.threads);
        let cpu = runs.cpu.saturating_sub(self.at_first.cpu);
        let is_busy = cpu > lasted.mul_f64(HOUSEKEEPING_SHARE) + TWO_TICKS;
        if is_busy || before.len() != after.len() {
            return false;
        }
        // The counters are not read at the same moment: each thread may have begun a try.
        let (mut ran, mut retrying) = (0, 0);
        for (before, after) in before.iter().zip(after) {
            let Some(pauses) = after.pauses.checked_sub(before.pauses) else {
                return false;
            };
            if before.thread != after.thread {
                return false;
            }
            ran += pauses;
            if after.retries {
                retrying += 1;
                // One that sleeps for long, perhaps with what the others want, does not try.
                let fewest = lasted.as_secs() / LONGEST_RETRY.as_secs();
                if pauses + 2 < fewest {
                    return false;
                }
            }
        }
        let futile = runs.futile.saturating_sub(self.at_first.futile);
        ran.abs_diff(futile) <= retrying
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn runs(pauses: &[(u64, bool)], futile: u64) -> Runs {
        let threads = pauses.iter().zip(1..);
        let threads = threads.map(|((pauses, retries), thread)| ThreadRuns {
            thread,
            pauses: *pauses,
            retries: *retries,
        });
        Runs { threads: threads.collect(), futile, cpu: Duration::ZERO }
    }

    /// How long a process stands still that is read after each second.
    fn lasts(readings: &[Runs]) -> Duration {
        let start = Instant::now();
        let mut standstill = Standstill::begin(readings[0].clone(), start);
        let later = readings[1..].iter().zip(1..);
        later.fold(Duration::ZERO, |_, (runs, second)| {
            standstill.add(runs.clone(), start + SECOND * second)
        })
    }

    #[test]
    fn threads_that_do_not_run_stand_still() {
        let same = vec![runs(&[(5, false), (7, false)], 0); 13];
        assert_eq!(lasts(&same), SECOND * 12);
        let mut ran = same.clone();
        ran[12] = runs(&[(5, false), (8, false)], 0);
        assert_eq!(lasts(&ran), Duration::ZERO);
        let mut begun = same;
        begun[12] = runs(&[(5, false), (7, false), (1, false)], 0);
        assert_eq!(lasts(&begun), Duration::ZERO);
    }

    #[test]
    fn a_process_that_computes_does_not_stand_still() {
        let computes = |share: f64| {
            let at = |second: u32| {
                let cpu = SECOND.mul_f64(share) * second;
                Runs { cpu, ..runs(&[(5, false)], 0) }
            };
            lasts(&(0..13).map(at).collect::<Vec<_>>())
        };
        assert_eq!(computes(0.01), SECOND * 12);
        assert_eq!(computes(0.1), Duration::ZERO);
    }

    #[test]
    fn threads_that_try_in_vain_stand_still() {
        let tries = |second| runs(&[(second, true), (second, true), (3, false)], 2 * second);
        let tries: Vec<Runs> = (0..13).map(tries).collect();
        assert_eq!(lasts(&tries), SECOND * 12);
    }

    #[test]
    fn a_sleeper_beside_one_that_tries_in_vain_is_no_standstill() {
        // A thread sleeps for minutes with the lock that another one wants.
        let holds = |second| runs(&[(second, true), (3, true)], second);
        let holds: Vec<Runs> = (0..13).map(holds).collect();
        assert!(lasts(&holds) < SECOND * 4);
        // A thread sleeps again and again, each time for a second.
        let loops = |second| runs(&[(second, true), (second, true)], second);
        let loops: Vec<Runs> = (0..13).map(loops).collect();
        assert!(lasts(&loops) < SECOND * 4);
    }
}
