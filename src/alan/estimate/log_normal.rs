//! Predicts the next run from a few runs by a log-normal distribution.
//!
//! Durations of programs spread by factors, so their logarithms are taken as normally
//! distributed. With `n` completed runs of mean `m` and standard deviation `s` of the
//! logarithms, `(ln X − m) / (s · √(1 + 1/n))` of the next run `X` follows Student's t with
//! `n − 1` degrees of freedom (Hahn and Meeker, *Statistical Intervals*, 1991, §4.7); its
//! 90 % quantile is the one-sided 90 % prediction bound.
//!
//! A run that was cut off counts with its expected duration, given that it would have taken longer
//! than it did: expectation maximisation finds the most likely mean and deviation. A run that was
//! cut off at once therefore changes nothing. Pure.

use std::f64::consts::{FRAC_2_PI, TAU};

use super::Sample;

/// The resolution of durations in the database, in seconds.
const MIN_SECONDS: f64 = 0.001;
/// The most steps of expectation and maximisation.
const MAX_STEPS: usize = 40;
/// The steps end once mean and deviation move by less than this share of the deviation.
const SETTLED: f64 = 1e-4;
/// Beyond this many standard deviations the tail of the normal distribution is computed by its
/// continued fraction; nearer the centre by its series.
const FAR: f64 = 2.5;
/// Terms of that fraction: the error is below 1e-9 from [`FAR`] on.
const FRACTION_TERMS: u32 = 60;
/// Halvings that find a quantile to the last bits of an `f64`.
const HALVINGS: usize = 60;
/// The search range for quantiles, in scales from the centre: with 2 degrees of freedom a value
/// beyond it has a probability of 1e-6.
const FARTHEST: f64 = 1000.0;

/// The distribution of the next run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Prediction {
    /// The mean of the logarithms of seconds.
    centre: f64,
    /// s · √(1 + 1/n).
    scale: f64,
    /// n − 1.
    freedom: u32,
}

impl Prediction {
    /// Predicts from these runs; `None` with fewer than two completed runs.
    pub(super) fn new(samples: &[Sample]) -> Option<Prediction> {
        let log = |sample: &Sample| sample.seconds.max(MIN_SECONDS).ln();
        let (completed, cut): (Vec<&Sample>, Vec<&Sample>) =
            samples.iter().partition(|sample| sample.completed);
        let completed: Vec<f64> = completed.into_iter().map(log).collect();
        let cut: Vec<f64> = cut.into_iter().map(log).collect();
        let freedom = u32::try_from(completed.len()).ok()?.checked_sub(1)?;
        if freedom == 0 {
            return None;
        }
        let (centre, deviation) = fit(&completed, &cut);
        let n = completed.len() as f64;
        // The maximum-likelihood deviation is too small by this factor, since the mean is estimated
        // from the same runs.
        let unbiased = deviation * (n / f64::from(freedom)).sqrt();
        Some(Prediction { centre, scale: unbiased * (1.0 + 1.0 / n).sqrt(), freedom })
    }

    /// The prediction bound: the duration that the next run exceeds with this probability.
    pub(super) fn exceeded_by(&self, part: f64) -> f64 {
        self.solve(part, |value| 1.0 - student(value, self.freedom))
    }

    /// The duration that a run exceeds with this probability, given that it has already taken
    /// `elapsed` seconds.
    ///
    /// This uses the normal distribution. Student's t, whose heavier tail covers the uncertainty
    /// of few runs, would overestimate the median of the remaining time: in simulations 60 to
    /// 80 % of runs stayed below it, against 48 to 53 % here.
    pub(super) fn exceeded_after(&self, elapsed: f64, part: f64) -> f64 {
        let beyond = elapsed.max(MIN_SECONDS).ln() - self.centre;
        if self.scale <= 0.0 {
            return elapsed.max(self.centre.exp());
        }
        let now = normal_survival(beyond / self.scale);
        self.solve(part * now, normal_survival).max(elapsed)
    }

    /// The duration at which a falling survival function, in scales from the centre, has this
    /// value.
    fn solve(&self, wanted: f64, survival: impl Fn(f64) -> f64) -> f64 {
        let (mut low, mut high) = (-FARTHEST, FARTHEST);
        for _ in 0..HALVINGS {
            let middle = f64::midpoint(low, high);
            if survival(middle) > wanted {
                low = middle;
            } else {
                high = middle;
            }
        }
        (self.centre + self.scale * high).exp()
    }
}

/// The maximum-likelihood mean and deviation of a normal distribution with these completed values,
/// and others with known lower limits only (`cut`).
fn fit(completed: &[f64], cut: &[f64]) -> (f64, f64) {
    let n = completed.len() as f64;
    let mut mean = completed.iter().sum::<f64>() / n;
    let squares = completed.iter().map(|value| (value - mean).powi(2));
    let mut deviation = (squares.sum::<f64>() / n).sqrt();
    if cut.is_empty() {
        return (mean, deviation);
    }
    // With a deviation of 0, values beyond the mean would have no likelihood.
    deviation = deviation.max(SETTLED);
    for _ in 0..MAX_STEPS {
        let expected: Vec<(f64, f64)> =
            cut.iter().map(|limit| beyond(mean, deviation, *limit)).collect();
        let all = n + cut.len() as f64;
        let sum = completed.iter().sum::<f64>() + expected.iter().map(|(at, _)| at).sum::<f64>();
        let next = sum / all;
        let squares = completed.iter().map(|value| (value - next).powi(2));
        let spread = expected.iter().map(|(at, variance)| (at - next).powi(2) + variance);
        let wider = ((squares.sum::<f64>() + spread.sum::<f64>()) / all).sqrt();
        let moved = (next - mean).abs().max((wider - deviation).abs());
        (mean, deviation) = (next, wider.max(SETTLED));
        if moved < SETTLED * deviation {
            break;
        }
    }
    (mean, deviation)
}

/// Mean and variance of the values above a limit (Johnson, Kotz and Balakrishnan,
/// *Continuous Univariate Distributions* 1, 1994, §13.10.1).
fn beyond(mean: f64, deviation: f64, limit: f64) -> (f64, f64) {
    let at = (limit - mean) / deviation;
    let hazard = hazard(at);
    let variance = (1.0 + at * hazard - hazard * hazard).max(0.0);
    ((mean + deviation * hazard).max(limit), deviation * deviation * variance)
}

/// The probability that the standard normal distribution exceeds a value.
fn normal_survival(at: f64) -> f64 {
    if at < -FAR {
        return 1.0 - normal_survival(-at);
    }
    density(at) / hazard(at)
}

fn density(at: f64) -> f64 {
    (-at * at / 2.0).exp() / TAU.sqrt()
}

/// Density over survival of the standard normal distribution.
fn hazard(at: f64) -> f64 {
    if at > FAR {
        // Abramowitz and Stegun, *Handbook of Mathematical Functions*, 26.2.14.
        return (1..=FRACTION_TERMS).rev().fold(at, |below, term| at + f64::from(term) / below);
    }
    if at < -FAR {
        return density(at) / (1.0 - normal_survival(-at));
    }
    // Formula 26.2.11 of the same book.
    let (mut term, mut sum, mut odd) = (at, at, 1.0);
    while term.abs() > f64::EPSILON * sum.abs() {
        odd += 2.0;
        term *= at * at / odd;
        sum += term;
    }
    density(at) / (0.5 - density(at) * sum)
}

/// The probability that Student's t with this many degrees of freedom is below a value
/// (Abramowitz and Stegun, 26.7.3 and 26.7.4).
fn student(value: f64, freedom: u32) -> f64 {
    let angle = (value / f64::from(freedom).sqrt()).atan();
    let (sine, cosine) = angle.sin_cos();
    let is_odd = freedom % 2 == 1;
    let mut term = if is_odd { cosine } else { 1.0 };
    let mut sum = if freedom == 1 { 0.0 } else { term };
    // Factors 2/3, 4/5, … for odd degrees of freedom and 1/2, 3/4, … for even ones.
    let mut below = if is_odd { 3 } else { 2 };
    while below + 1 < freedom {
        term *= cosine * cosine * f64::from(below - 1) / f64::from(below);
        sum += term;
        below += 2;
    }
    let within = if is_odd { FRAC_2_PI * (angle + sine * sum) } else { sine * sum };
    0.5 + within / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn completed(seconds: &[f64]) -> Vec<Sample> {
        let sample = |seconds: &f64| Sample { seconds: *seconds, completed: true };
        seconds.iter().map(sample).collect()
    }

    fn cut_off(seconds: f64) -> Sample {
        Sample { seconds, completed: false }
    }

    #[test]
    fn students_t_has_its_tabulated_quantiles() {
        // Abramowitz and Stegun, table 26.10, one-sided 90 % and 97.5 %.
        let nine_in_ten = [1.886, 1.638, 1.533, 1.476, 1.440, 1.415];
        for (freedom, value) in (2..).zip(nine_in_ten) {
            let found = student(value, freedom);
            assert!((found - 0.9).abs() < 1e-4, "{freedom}: {found}");
        }
        for (freedom, value) in [(1, 12.706), (2, 4.303), (9, 2.262), (30, 2.042), (120, 1.980)] {
            let found = student(value, freedom);
            assert!((found - 0.975).abs() < 1e-4, "{freedom}: {found}");
            assert!((student(-value, freedom) - 0.025).abs() < 1e-4);
        }
    }

    #[test]
    fn the_bound_follows_the_formula() {
        let samples = completed(&[8.0, 10.0, 12.5, 9.0]);
        let logs: Vec<f64> = samples.iter().map(|sample| sample.seconds.ln()).collect();
        let mean = logs.iter().sum::<f64>() / 4.0;
        let squares: f64 = logs.iter().map(|log| (log - mean).powi(2)).sum();
        let wanted = (mean + 1.6377 * (squares / 3.0).sqrt() * 1.25f64.sqrt()).exp();
        let found = Prediction::new(&samples).expect("runs").exceeded_by(0.1);
        assert!((found / wanted - 1.0).abs() < 1e-3, "{found} for {wanted}");
    }

    #[test]
    fn the_normal_hazard_has_its_known_values() {
        for (at, wanted) in [
            (-9.0, 0.0),
            (-1.0, 0.287_600),
            (0.0, 0.797_885),
            (1.0, 1.525_135),
            (2.499_999, 2.822_743),
            (2.500_001, 2.822_745),
            (5.0, 5.186_504),
            (40.0, 40.024_968),
        ] {
            let found = hazard(at);
            assert!((found - wanted).abs() < 2e-5, "{found} at {at}");
        }
    }

    #[test]
    fn remaining_time_follows_the_normal_distribution() {
        // ln 10 ± 1: half of what exceeds 10 s exceeds e^0.674490 times as much, and of
        // what exceeds e² times 10 s half exceeds 2.278 deviations (tail 0.011375).
        let prediction = Prediction { centre: 10f64.ln(), scale: 1.0, freedom: 2 };
        for (elapsed, wanted) in [(0.0, 0.0), (1.0, 0.674_490), (7.389_056, 2.277_966)] {
            let found = (prediction.exceeded_after(10.0 * elapsed, 0.5) / 10.0).ln();
            assert!((found - wanted).abs() < 1e-3, "{found} after {elapsed}");
        }
    }

    #[test]
    fn a_run_that_was_cut_off_counts_at_least_at_its_length() {
        let runs = completed(&[8.0, 10.0, 12.5]);
        let bound = |cut: &[f64]| {
            let mut samples = runs.clone();
            samples.extend(cut.iter().map(|seconds| cut_off(*seconds)));
            Prediction::new(&samples).expect("runs").exceeded_by(0.1)
        };
        let without = bound(&[]);
        assert!((bound(&[0.01]) / without - 1.0).abs() < 1e-3, "says nothing");
        let mut as_completed = runs.clone();
        as_completed.extend(completed(&[40.0]));
        let completed_then = Prediction::new(&as_completed).expect("runs").exceeded_by(0.1);
        assert!(bound(&[40.0]) > completed_then && completed_then > without);
        assert!(bound(&[40.0, 40.0]) > bound(&[40.0]));
    }

    #[test]
    fn equal_runs_predict_an_equal_run() {
        let found = Prediction::new(&completed(&[3.0, 3.0, 3.0])).expect("runs");
        assert!((found.exceeded_by(0.1) - 3.0).abs() < 1e-9);
        assert!((found.exceeded_after(1.0, 0.5) - 3.0).abs() < 1e-9);
        assert_eq!(found.exceeded_after(7.0, 0.5), 7.0);
        assert_eq!(Prediction::new(&completed(&[3.0])), None);
    }
}
