//! How long commands of a kind take, from how long they took.
//!
//! Runs that were ended from outside say "longer than this" (right-censored); the
//! Kaplan–Meier estimator (1958) counts them as that, so that killing a command early
//! never makes it look fast. Every run counts once, whatever its age. Limits: what is
//! known of a command's input and of the machine plays no part. Pure.

use super::outcome::Outcome;

/// So many of the newest runs of a key are considered.
pub const RUNS_CONSIDERED: usize = 200;
/// Fewer completed runs say nothing.
pub const FEWEST_SAMPLES: usize = 3;
/// From so many completed runs of the very same command on, its kind is not needed.
pub const FEWEST_EXACT_SAMPLES: usize = 5;
/// The longest wait that is suggested, in seconds: callers' own limits are a minute.
pub const LONGEST_POLL_S: f64 = 50.0;
/// The shortest one: the default listen window of a poll.
pub const SHORTEST_POLL_S: f64 = 2.0;
/// Without an estimate, the first wait that is suggested, in seconds …
const FIRST_BLIND_POLL_S: f64 = 20.0;
/// … and how the later ones grow with the time already run.
const BLIND_POLL_GROWTH: f64 = 4.0;
/// Survival is a product of fractions; thresholds are compared beyond its rounding.
const ROUNDING: f64 = 1e-9;

/// One run, as far as its duration is concerned.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sample {
    /// How long it ran, in seconds.
    pub seconds: f64,
    /// Whether it ended by itself; otherwise it would have taken longer than that.
    pub completed: bool,
}

impl Sample {
    /// The sample of a remembered run; `None` where it has no duration.
    pub fn of_run(duration_ms: Option<i64>, outcome: Outcome) -> Option<Sample> {
        let milliseconds = duration_ms.filter(|duration| *duration > 0)?;
        Some(Sample {
            seconds: milliseconds as f64 / 1000.0,
            completed: outcome.is_complete(),
        })
    }
}

/// Which runs an estimate is made from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Basis {
    /// Runs of the very same command.
    Exact,
    /// Runs of commands of the same kind.
    Template,
}

impl Basis {
    /// The word for it in answers.
    pub fn as_str(self) -> &'static str {
        match self {
            Basis::Exact => "exact",
            Basis::Template => "template",
        }
    }
}

/// A duration where S(t) falls below a level, in seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Quantile {
    /// The duration.
    pub seconds: f64,
    /// The curve never falls that low: it is the longest completed run instead.
    pub at_least: bool,
}

/// How long a command takes; made once per task, asked at every poll.
#[derive(Debug, Clone, PartialEq)]
pub struct Estimate {
    /// The kind of command.
    pub template: String,
    /// What it is made from.
    pub basis: Basis,
    /// Completed runs in it.
    pub sample_size: usize,
    /// Half of the runs are done by then.
    pub median: Quantile,
    /// Nine in ten runs are done by then.
    pub p90: Quantile,
    curve: Curve,
}

impl Estimate {
    /// An estimate from the newest runs (newest first) of the command and of its kind;
    /// `None` while there are fewer than 3 completed ones.
    pub fn new(template: &str, exact: &[Sample], alike: &[Sample]) -> Option<Estimate> {
        let (basis, samples) = if is_enough(exact) {
            (Basis::Exact, exact)
        } else {
            (Basis::Template, alike)
        };
        let sample_size = completed(samples);
        if sample_size < FEWEST_SAMPLES {
            return None;
        }
        let curve = Curve::new(newest(samples).copied().collect());
        Some(Estimate {
            template: template.to_owned(),
            basis,
            sample_size,
            median: curve.below(0.5),
            p90: curve.below(0.1),
            curve,
        })
    }

    /// The part of such runs that is over after so many seconds: 1 − S(elapsed).
    pub fn completion_probability(&self, elapsed: f64) -> f64 {
        1.0 - self.curve.survival(elapsed)
    }

    /// The median of what is left for a run that already took so many seconds; `None`
    /// once it has outlived every run that completed.
    pub fn remaining(&self, elapsed: f64) -> Option<f64> {
        self.remaining_until(0.5, elapsed)
    }

    /// After how many seconds a look is worth its tokens: when nine in ten of the runs
    /// that took this long are over, at least 2 s and at most 50 s.
    pub fn next_poll(&self, elapsed: f64) -> f64 {
        match self.remaining_until(0.1, elapsed) {
            Some(remaining) => remaining.clamp(SHORTEST_POLL_S, LONGEST_POLL_S),
            None => next_blind_poll(elapsed),
        }
    }

    /// What is left until the part of the runs still going falls below `part` of those
    /// that go now.
    fn remaining_until(&self, part: f64, elapsed: f64) -> Option<f64> {
        let now = self.curve.survival(elapsed);
        if now < ROUNDING || elapsed >= self.curve.longest_completed {
            return None;
        }
        Some((self.curve.below(part * now).seconds - elapsed).max(0.0))
    }
}

/// Whether runs of the very same command suffice, so that its kind is not asked for.
pub fn is_enough(exact: &[Sample]) -> bool {
    completed(exact) >= FEWEST_EXACT_SAMPLES
}

fn completed(samples: &[Sample]) -> usize {
    newest(samples).filter(|sample| sample.completed).count()
}

/// When to look next at a command of which nothing is known: a 2-minute job is seen to
/// end at the third look.
pub fn next_blind_poll(elapsed: f64) -> f64 {
    (elapsed * BLIND_POLL_GROWTH).clamp(FIRST_BLIND_POLL_S, LONGEST_POLL_S)
}

fn newest(samples: &[Sample]) -> impl Iterator<Item = &Sample> {
    samples.iter().take(RUNS_CONSIDERED)
}

/// The survival function S(t): the part of runs that take longer than t.
#[derive(Debug, Clone, PartialEq)]
struct Curve {
    /// Where it steps down, and to what, by rising time.
    steps: Vec<(f64, f64)>,
    longest_completed: f64,
}

impl Curve {
    fn new(mut samples: Vec<Sample>) -> Curve {
        // Of equal times the completed ones come first: those cut off then ran longer.
        samples.sort_by(|one, other| {
            let by_time = one.seconds.total_cmp(&other.seconds);
            by_time.then(other.completed.cmp(&one.completed))
        });
        let mut at_risk = samples.len();
        let mut survival = 1.0;
        let mut steps: Vec<(f64, f64)> = Vec::new();
        for sample in &samples {
            if sample.completed {
                survival *= 1.0 - 1.0 / at_risk as f64;
                steps.push((sample.seconds, survival));
            }
            at_risk -= 1;
        }
        let longest_completed = steps.last().map_or(0.0, |(time, _)| *time);
        Curve {
            steps,
            longest_completed,
        }
    }

    fn survival(&self, time: f64) -> f64 {
        let passed = self.steps.partition_point(|(at, _)| *at <= time);
        let last = passed.checked_sub(1).and_then(|last| self.steps.get(last));
        last.map_or(1.0, |(_, survival)| *survival)
    }

    /// The smallest t with S(t) below a level, or the longest completed run.
    fn below(&self, level: f64) -> Quantile {
        let found = self
            .steps
            .iter()
            .find(|(_, survival)| *survival < level - ROUNDING);
        Quantile {
            seconds: found.map_or(self.longest_completed, |(at, _)| *at),
            at_least: found.is_none() && self.steps.last().is_some_and(|(_, s)| *s > ROUNDING),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn completed(seconds: f64) -> Sample {
        Sample {
            seconds,
            completed: true,
        }
    }

    fn cut_off(seconds: f64) -> Sample {
        Sample {
            seconds,
            completed: false,
        }
    }

    fn estimate(samples: &[Sample]) -> Estimate {
        Estimate::new("make *", &[], samples).expect("enough samples")
    }

    /// A small generator with a fixed start, so that simulations are the same each time
    /// (Marsaglia's xorshift64*).
    struct Dice(u64);

    impl Dice {
        fn uniform(&mut self) -> f64 {
            self.0 ^= self.0 >> 12;
            self.0 ^= self.0 << 25;
            self.0 ^= self.0 >> 27;
            let high = self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 11;
            (high as f64 + 0.5) / (1u64 << 53) as f64
        }

        fn exponential(&mut self, mean: f64) -> f64 {
            -mean * self.uniform().ln()
        }

        fn log_normal(&mut self, median: f64, sigma: f64) -> f64 {
            let (radius, angle) = (self.uniform(), self.uniform());
            let normal = (-2.0 * radius.ln()).sqrt() * (std::f64::consts::TAU * angle).cos();
            median * (sigma * normal).exp()
        }
    }

    #[test]
    fn without_censoring_quantiles_are_those_of_the_sorted_list() {
        for n in 3..=RUNS_CONSIDERED {
            let durations: Vec<f64> = (0..n).map(|i| 1.0 + i as f64 * 0.7).collect();
            let shuffled: Vec<Sample> = (0..n)
                .filter_map(|i| durations.get((i * 211) % n))
                .map(|seconds| completed(*seconds))
                .collect();
            if n % 211 == 0 {
                continue;
            }
            let found = estimate(&shuffled);
            assert_eq!(found.median.seconds, durations[n / 2], "median of {n}");
            let place = (n as f64 * 0.9) as usize;
            assert_eq!(found.p90.seconds, durations[place.min(n - 1)], "p90 of {n}");
            assert!(!found.median.at_least && !found.p90.at_least);
            assert_eq!(found.sample_size, n);
        }
    }

    #[test]
    fn fewer_than_three_completed_runs_say_nothing() {
        let samples = [completed(1.0), completed(2.0), cut_off(3.0), cut_off(4.0)];
        assert_eq!(Estimate::new("make *", &[], &samples), None);
        assert_eq!(Estimate::new("make *", &[], &[]), None);
    }

    #[test]
    fn five_runs_of_the_very_command_are_preferred_to_its_kind() {
        let alike = vec![completed(100.0); 20];
        let four = vec![completed(5.0); 4];
        let five = vec![completed(5.0); 5];
        let by_kind = Estimate::new("make *", &four, &alike).expect("samples");
        assert_eq!(
            (by_kind.basis, by_kind.median.seconds),
            (Basis::Template, 100.0)
        );
        let exact = Estimate::new("make *", &five, &alike).expect("samples");
        assert_eq!((exact.basis, exact.median.seconds), (Basis::Exact, 5.0));
    }

    #[test]
    fn a_curve_that_stays_high_gives_the_longest_completed_run_as_a_lower_bound() {
        let mut samples = vec![cut_off(100.0); 10];
        samples.extend([completed(1.0), completed(2.0), completed(3.0)]);
        let found = estimate(&samples);
        assert_eq!(
            found.median,
            Quantile {
                seconds: 3.0,
                at_least: true
            }
        );
    }

    #[test]
    fn only_the_newest_runs_count() {
        let mut samples = vec![completed(10.0); RUNS_CONSIDERED];
        samples.extend(vec![completed(1000.0); 500]);
        let found = estimate(&samples);
        assert_eq!(found.sample_size, RUNS_CONSIDERED);
        assert_eq!(found.p90.seconds, 10.0);
    }

    #[test]
    fn completion_probability_is_the_part_that_is_over() {
        let samples: Vec<Sample> = (1..=4).map(|s| completed(f64::from(s))).collect();
        let found = estimate(&samples);
        for (elapsed, wanted) in [(0.5, 0.0), (1.0, 0.25), (2.9, 0.5), (4.0, 1.0), (9.0, 1.0)] {
            let got = found.completion_probability(elapsed);
            assert!((got - wanted).abs() < 1e-9, "{got} at {elapsed}");
        }
    }

    #[test]
    fn what_outlived_every_run_has_no_estimate_of_the_rest() {
        let found = estimate(&[completed(1.0), completed(2.0), completed(3.0)]);
        assert_eq!(found.remaining(3.0), None);
        assert_eq!(found.remaining(1.5), Some(1.5));
    }

    proptest! {
        #[test]
        fn a_run_that_was_killed_never_counts_as_short_as_one_that_ended_then(
            durations in prop::collection::vec(1u32..1000, 3..60),
            killed in prop::collection::vec(0usize..60, 0..20),
        ) {
            let whole: Vec<Sample> = durations.iter().map(|s| completed(f64::from(*s))).collect();
            let mut cut = whole.clone();
            for which in killed {
                let place = which % cut.len();
                if cut.iter().filter(|sample| sample.completed).count() > FEWEST_SAMPLES {
                    cut[place].completed = false;
                }
            }
            let (whole, cut) = (estimate(&whole), estimate(&cut));
            prop_assert!(cut.median.seconds >= whole.median.seconds || cut.median.at_least);
            prop_assert!(cut.p90.seconds >= whole.p90.seconds || cut.p90.at_least);
        }

        #[test]
        fn killing_early_never_shortens_an_estimate(
            durations in prop::collection::vec(1u32..1000, 3..60),
            at in 1u32..2000,
        ) {
            let mut samples: Vec<Sample> = durations.iter().map(|s| completed(f64::from(*s))).collect();
            let before = estimate(&samples);
            samples.insert(0, cut_off(f64::from(at)));
            let after = estimate(&samples);
            prop_assert!(after.median.seconds >= before.median.seconds);
            prop_assert!(after.p90.seconds >= before.p90.seconds);
        }

        #[test]
        fn any_samples_give_finite_numbers(
            samples in prop::collection::vec((0.001f64..1e6, any::<bool>()), 0..260),
            elapsed in 0.0f64..2e6,
        ) {
            let samples: Vec<Sample> = samples
                .into_iter()
                .map(|(seconds, completed)| Sample { seconds, completed })
                .collect();
            if let Some(found) = Estimate::new("t", &samples, &samples) {
                let probability = found.completion_probability(elapsed);
                prop_assert!((-1e-9..=1.0 + 1e-9).contains(&probability));
                prop_assert!(found.remaining(elapsed).is_none_or(|left| left >= 0.0));
                prop_assert!((SHORTEST_POLL_S..=LONGEST_POLL_S).contains(&found.next_poll(elapsed)));
                prop_assert!(found.median.seconds <= found.p90.seconds);
            }
        }
    }

    /// The part of fresh runs that stay below what was estimated from a history in
    /// which a third of the runs were cut off at a random time.
    fn coverage(mut draw: impl FnMut(&mut Dice) -> f64, of: impl Fn(&Estimate) -> f64) -> f64 {
        let mut dice = Dice(42);
        let (mut below, mut trials) = (0u32, 0u32);
        for _ in 0..400 {
            let history: Vec<Sample> = (0..60)
                .map(|_| {
                    let whole = draw(&mut dice);
                    let limit = draw(&mut dice) * 2.0;
                    if dice.uniform() < 0.33 && limit < whole {
                        cut_off(limit)
                    } else {
                        completed(whole)
                    }
                })
                .collect();
            let bound = of(&estimate(&history));
            for _ in 0..20 {
                trials += 1;
                below += u32::from(draw(&mut dice) <= bound);
            }
        }
        f64::from(below) / f64::from(trials)
    }

    #[test]
    fn the_p90_covers_nine_in_ten_runs_of_known_distributions() {
        let exponential = coverage(|dice| dice.exponential(30.0), |e| e.p90.seconds);
        let log_normal = coverage(|dice| dice.log_normal(60.0, 0.5), |e| e.p90.seconds);
        for (what, part) in [("exponential", exponential), ("log-normal", log_normal)] {
            assert!((0.87..=0.94).contains(&part), "{what}: {part}");
        }
    }

    #[test]
    fn half_of_the_runs_that_still_go_end_within_what_is_left() {
        let mut dice = Dice(7);
        for elapsed in [0.0, 20.0, 60.0] {
            let (mut within, mut trials) = (0u32, 0u32);
            for _ in 0..400 {
                let history: Vec<Sample> = (0..RUNS_CONSIDERED)
                    .map(|_| completed(dice.log_normal(60.0, 0.5)))
                    .collect();
                let Some(left) = estimate(&history).remaining(elapsed) else {
                    continue;
                };
                for _ in 0..40 {
                    let run = dice.log_normal(60.0, 0.5);
                    if run > elapsed {
                        trials += 1;
                        within += u32::from(run <= elapsed + left);
                    }
                }
            }
            let part = f64::from(within) / f64::from(trials);
            assert!((0.46..=0.54).contains(&part), "{part} after {elapsed}");
        }
    }

    /// Turns of an agent that starts a command, gets control after 2 s, and then looks
    /// again after exactly the time that is suggested.
    fn turns(job: f64, next: impl Fn(f64) -> f64) -> u32 {
        let (mut turns, mut elapsed) = (1, 2.0);
        while elapsed < job {
            elapsed += next(elapsed);
            turns += 1;
        }
        turns
    }

    #[test]
    fn a_two_minute_job_needs_at_most_four_turns() {
        assert!(turns(120.0, next_blind_poll) <= 4);
        let mut dice = Dice(3);
        let (mut sum, trials) = (0, 500);
        for _ in 0..trials {
            let history: Vec<Sample> = (0..20)
                .map(|_| completed(dice.log_normal(120.0, 0.08)))
                .collect();
            let found = estimate(&history);
            assert!(turns(120.0, |elapsed| found.next_poll(elapsed)) <= 4);
            sum += turns(dice.log_normal(120.0, 0.08), |elapsed| {
                found.next_poll(elapsed)
            });
        }
        assert!(f64::from(sum) / f64::from(trials) <= 4.2, "{sum} turns");
    }
}
