//! Detects that a command's duration has changed, so that its old runs mislead.
//!
//! The newest 8 runs are compared with the runs older than the newest 20. Each of the 8 exceeds the
//! older ones' upper quartile with a probability of a quarter at most, and falls below the lower
//! one likewise. If 5 or more of the 8 lie beyond the same quartile, the durations have changed,
//! and only the newest 20 runs count. This is a binomial test of each side: 2 · P(B ≥ 5) = 5.5 %
//! with B binomial of 8 and ¼. As the quartiles are those of a sample, 6 % of unchanged histories
//! of 200 runs fail it, and 10 % of 32 runs (`simulation`). That costs little, since the upper
//! figure of 20 runs covers the next run as often as that of 200 runs; a stricter test would miss
//! more changes of less than twice the time.
//!
//! A run that was cut off exceeds the quartile if it ran longer than that; otherwise it counts on
//! neither side.
//!
//! Limits, simulated with log-normal durations of deviation σ: a change by 0.9 σ is found in
//! half of the cases: the upper figure covers 81 to 86 % of the runs after 25 of them (of a
//! change by 1.4 σ or more, 85 to 91 %). Durations that grow with every run outgrow their
//! newest 20: at 2 % a run the upper figure covers 70 to 86 %. Pure.

use super::{MIN_SAMPLES, Sample, completed};

/// How many of the newest runs are tested.
const TESTED: usize = 8;
/// If this many of them lie beyond one quartile, it is more than chance.
const TOO_MANY: usize = 5;
/// How many of the newest runs count after a change.
const RUNS_AFTER_CHANGE: usize = 20;
/// The fewest older completed runs that give meaningful quartiles.
const MIN_OLDER: usize = 12;

/// The runs that count. `samples` are newest first.
pub(super) fn relevant(samples: &[Sample]) -> &[Sample] {
    match samples.split_at_checked(RUNS_AFTER_CHANGE) {
        Some((newest, older)) if has_changed(newest, older) => newest,
        _ => samples,
    }
}

fn has_changed(newest: &[Sample], older: &[Sample]) -> bool {
    // Too few new runs would give no estimate, while all runs together do.
    let is_enough = completed(newest) >= MIN_SAMPLES;
    let Some((lower, upper)) = quartiles(older).filter(|_| is_enough) else {
        return false;
    };
    let tested = newest.iter().take(TESTED);
    let above = tested.clone().filter(|sample| sample.seconds > upper);
    let below = tested.filter(|sample| sample.completed && sample.seconds < lower);
    above.count() >= TOO_MANY || below.count() >= TOO_MANY
}

/// Of `n` completed runs the ¼ (n + 1)th shortest and longest, rounded outwards, so that
/// another run lies beyond each with a probability of a quarter at most.
fn quartiles(samples: &[Sample]) -> Option<(f64, f64)> {
    let completed = samples.iter().filter(|sample| sample.completed);
    let mut sorted: Vec<f64> = completed.map(|sample| sample.seconds).collect();
    if sorted.len() < MIN_OLDER {
        return None;
    }
    sorted.sort_by(f64::total_cmp);
    let index = ((sorted.len() + 1) / 4).checked_sub(1)?;
    Some((*sorted.get(index)?, *sorted.iter().nth_back(index)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 20 new runs of which the newest take these times, and 40 older ones of 1 s to 40 s.
    fn runs(newest: &[(f64, bool)]) -> Vec<Sample> {
        let newest = newest.iter().copied();
        let others = (newest.len()..RUNS_AFTER_CHANGE).map(|_| (20.0, true));
        let older = (1..=40).map(|seconds| (f64::from(seconds), true));
        newest
            .chain(others)
            .chain(older)
            .map(|(seconds, completed)| Sample { seconds, completed })
            .collect()
    }

    fn counted(newest: &[(f64, bool)]) -> usize {
        relevant(&runs(newest)).len()
    }

    #[test]
    fn five_of_the_newest_eight_beyond_one_quartile_are_a_change() {
        assert_eq!(quartiles(&runs(&[])[20..]), Some((10.0, 31.0)));
        for beyond in [5.0, 35.0] {
            assert_eq!(counted(&[(beyond, true); 5]), 20);
            assert_eq!(counted(&[(beyond, true); 4]), 60);
        }
        let both = [(5.0, true), (35.0, true), (5.0, true), (35.0, true)];
        assert_eq!(counted(&[both, both].concat()), 60, "on both sides");
        assert_eq!(counted(&[[(20.0, true); 8], [(35.0, true); 8]].concat()), 60);
    }

    #[test]
    fn runs_that_were_cut_off_count_only_where_they_got_further() {
        assert_eq!(counted(&[(35.0, false); 5]), 20);
        assert_eq!(counted(&[(5.0, false); 5]), 60);
    }

    #[test]
    fn too_few_runs_are_no_change() {
        let short: Vec<Sample> = runs(&[(35.0, true); 8]).into_iter().take(31).collect();
        assert_eq!(relevant(&short).len(), 31, "11 older ones");
        assert_eq!(counted(&[(50.0, false); 18]), 60, "2 completed new ones");
        assert_eq!(relevant(&short[..8]).len(), 8);
    }
}
