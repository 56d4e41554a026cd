//! NEVERHANG temporarily refuses a command that has timed out repeatedly.
//!
//! Each command has a circuit breaker. It opens after 3 timeouts within an hour. After 5 minutes it
//! is half-open and allows one run, whose end closes it or opens it again. That run has a lease
//! that expires, so that a dead server does not block the command forever. The store keeps the
//! circuits and orders their events. All times are wall-clock, in seconds since 1970, because
//! servers share them. Setting the clock back prolongs a refusal by a few seconds at most. Pure.

use serde::{Deserialize, Serialize};

/// When circuits open and close.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rules {
    /// The number of timeouts that opens a circuit.
    pub threshold: usize,
    /// The time in which they must occur, in seconds.
    pub window: f64,
    /// How long a circuit stays open, in seconds.
    pub recovery: f64,
}

impl Default for Rules {
    fn default() -> Self {
        Rules { threshold: 3, window: 3600.0, recovery: 300.0 }
    }
}

/// How far ahead of a caller's time a recorded one may be, in seconds: another caller may have
/// recorded it while this one waited for the database's lock, which takes at most two seconds. A
/// time further ahead is from before the clock was set back.
const MAX_AHEAD: f64 = 5.0;
/// How long after its deadline the run of a half-open circuit keeps its lease.
const LEASE_GRACE: f64 = 60.0;
/// How long a run without a deadline keeps its lease.
const LEASE_WITHOUT_DEADLINE: f64 = 3600.0;
/// An open circuit allows a run with at least this multiple of the longest timed-out run's time
/// limit.
const MORE_TIME: f64 = 2.0;

/// A timeout of a command.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TimedOut {
    pub at: f64,
    /// The run's time limit in seconds; `None` if unknown.
    pub allowed: Option<f64>,
}

/// The right to be the only run of a half-open circuit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Lease {
    /// Unique for each lease.
    pub owner: String,
    /// When it was taken.
    pub taken_at: f64,
    /// When it expires.
    pub until: f64,
}

impl Lease {
    fn holds(&self, now: f64) -> bool {
        (self.taken_at - MAX_AHEAD..self.until).contains(&now)
    }
}

/// The state of a circuit.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum CircuitState {
    /// Runs are allowed.
    #[default]
    Closed,
    /// Runs are refused.
    Open {
        /// When it opened.
        since: f64,
    },
    /// One run is allowed.
    HalfOpen {
        /// The lease of that run, if it has begun.
        lease: Option<Lease>,
    },
}

impl CircuitState {
    /// The word in answers.
    pub fn as_str(&self) -> &'static str {
        match self {
            CircuitState::Closed => "CLOSED",
            CircuitState::Open { .. } => "OPEN",
            CircuitState::HalfOpen { .. } => "HALF_OPEN",
        }
    }
}

/// Whether a command may run.
#[derive(Debug, Clone, PartialEq)]
pub enum Decision {
    Allow,
    /// Run, and report the end with this lease; that end decides whether the circuit closes.
    Probe(Lease),
    Refuse(CircuitOpen),
}

/// Why a command is refused.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CircuitOpen {
    /// The number of timeouts that led to the refusal.
    pub timeouts: usize,
    /// The longest time limit of a timed-out run, in seconds. A run with twice that limit is
    /// allowed.
    pub longest: Option<f64>,
    /// Seconds until a run is allowed.
    pub retry_in: f64,
    /// Whether another run holds the lease.
    pub probing: bool,
}

/// How a run ended, for its circuit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum RunEnd {
    /// It exited by itself, with any exit code.
    Finished,
    /// Its deadline ended it.
    TimedOut {
        /// The time limit in seconds.
        allowed: f64,
        /// The median duration of the command's successes: a run with less time could not succeed.
        usual: Option<f64>,
        /// Whether it waited for input, which is not the command's fault.
        waited_for_input: bool,
    },
    /// A kill request or the server's exit ended it.
    Stopped,
}

impl RunEnd {
    /// The time limit of a run that counts as a timeout of its command.
    fn timed_out(self) -> Option<f64> {
        match self {
            RunEnd::TimedOut { allowed, usual, waited_for_input: false }
                if usual.is_none_or(|usual| allowed >= usual) =>
            {
                Some(allowed)
            }
            _ => None,
        }
    }
}

/// The circuit of one command.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Circuit {
    /// Whether runs are allowed.
    pub state: CircuitState,
    /// The timeouts that still count, oldest first.
    pub timeouts: Vec<TimedOut>,
}

impl Circuit {
    /// Whether it is closed without timeouts, so that it need not be kept.
    pub fn is_blank(&self) -> bool {
        self.state == CircuitState::Closed && self.timeouts.is_empty()
    }

    /// Decides whether a run with this time limit in seconds, or none, is allowed. If it becomes
    /// the only allowed run, takes the lease for it.
    pub fn check(
        &mut self,
        now: f64,
        deadline: Option<f64>,
        owner: &str,
        rules: &Rules,
    ) -> Decision {
        let left = self.retry_in(now, rules);
        match &self.state {
            CircuitState::Closed => return Decision::Allow,
            CircuitState::Open { .. } if left > 0.0 && !self.has_more_time(deadline) => {
                return Decision::Refuse(self.refusal(left, false));
            }
            CircuitState::HalfOpen { .. } if left > 0.0 => {
                return Decision::Refuse(self.refusal(left, true));
            }
            CircuitState::Open { .. } | CircuitState::HalfOpen { .. } => {}
        }
        let time = deadline.map_or(LEASE_WITHOUT_DEADLINE, |deadline| deadline + LEASE_GRACE);
        let lease = Lease { owner: owner.to_owned(), taken_at: now, until: now + time };
        self.state = CircuitState::HalfOpen { lease: Some(lease.clone()) };
        Decision::Probe(lease)
    }

    /// Records how a run ended; `lease` is from its check.
    pub fn report(&mut self, now: f64, end: RunEnd, lease: Option<&Lease>, rules: &Rules) {
        let is_probe = match &self.state {
            CircuitState::HalfOpen { lease: held } => lease.is_some() && held.as_ref() == lease,
            _ => false,
        };
        if let Some(allowed) = end.timed_out() {
            self.timeouts.push(TimedOut { at: now, allowed: Some(allowed) });
        }
        self.forget_old(now, rules);
        match (end.timed_out(), &self.state) {
            (Some(_), CircuitState::HalfOpen { .. }) if is_probe => {
                self.state = CircuitState::Open { since: now };
            }
            (Some(_), CircuitState::Closed) if self.timeouts.len() >= rules.threshold => {
                self.state = CircuitState::Open { since: now };
            }
            (None, _) if is_probe && end == RunEnd::Finished => *self = Circuit::default(),
            (None, _) if is_probe => self.state = CircuitState::HalfOpen { lease: None },
            _ => {}
        }
    }

    /// Seconds until a run is allowed.
    pub fn retry_in(&self, now: f64, rules: &Rules) -> f64 {
        match &self.state {
            CircuitState::Closed => 0.0,
            CircuitState::Open { since } if now < since - MAX_AHEAD => 0.0,
            CircuitState::Open { since } => (since + rules.recovery - now).max(0.0),
            CircuitState::HalfOpen { lease } => {
                let lease = lease.as_ref().filter(|lease| lease.holds(now));
                lease.map_or(0.0, |lease| lease.until - now)
            }
        }
    }

    /// Forgets timeouts outside the window, except those that opened the circuit.
    pub fn forget_old(&mut self, now: f64, rules: &Rules) {
        if self.state == CircuitState::Closed {
            let window = now - rules.window..=now;
            self.timeouts.retain(|timeout| window.contains(&timeout.at));
        }
        let limit = rules.threshold.max(1);
        let surplus = self.timeouts.len().saturating_sub(limit);
        self.timeouts.drain(..surplus);
    }

    fn has_more_time(&self, deadline: Option<f64>) -> bool {
        match (deadline, self.longest()) {
            (None, _) => true,
            (Some(deadline), Some(longest)) => deadline >= longest * MORE_TIME,
            (Some(_), None) => false,
        }
    }

    /// The longest time limit of a timed-out run, in seconds.
    pub fn longest(&self) -> Option<f64> {
        let allowed = self.timeouts.iter().filter_map(|timeout| timeout.allowed);
        allowed.max_by(f64::total_cmp)
    }

    fn refusal(&self, retry_in: f64, probing: bool) -> CircuitOpen {
        CircuitOpen { timeouts: self.timeouts.len(), longest: self.longest(), retry_in, probing }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const START: f64 = 1_000_000.0;

    fn timed_out(allowed: f64) -> RunEnd {
        RunEnd::TimedOut { allowed, usual: None, waited_for_input: false }
    }

    fn rules() -> Rules {
        Rules::default()
    }

    /// A circuit that opened at [`START`] by timeouts of 120 s.
    fn open() -> Circuit {
        let mut circuit = Circuit::default();
        for before in [20.0, 10.0, 0.0] {
            circuit.report(START - before, timed_out(120.0), None, &rules());
        }
        assert_eq!(circuit.state, CircuitState::Open { since: START });
        circuit
    }

    fn check(circuit: &mut Circuit, now: f64, deadline: Option<f64>) -> Decision {
        circuit.check(now, deadline, "me", &rules())
    }

    fn probe(circuit: &mut Circuit, now: f64) -> Lease {
        match check(circuit, now, Some(120.0)) {
            Decision::Probe(lease) => lease,
            other => panic!("{other:?}"),
        }
    }

    fn displayed_at(circuit: &Circuit, now: f64) -> Circuit {
        let mut seen = circuit.clone();
        seen.forget_old(now, &rules());
        seen
    }

    #[test]
    fn three_timeouts_within_the_window_open_the_circuit() {
        let mut circuit = Circuit::default();
        for at in [0.0, 10.0] {
            circuit.report(START + at, timed_out(120.0), None, &rules());
            assert_eq!(check(&mut circuit, START + at, Some(120.0)), Decision::Allow);
        }
        circuit.report(START + 20.0, timed_out(120.0), None, &rules());
        let refused =
            CircuitOpen { timeouts: 3, longest: Some(120.0), retry_in: 290.0, probing: false };
        assert_eq!(check(&mut circuit, START + 30.0, Some(120.0)), Decision::Refuse(refused));
    }

    #[test]
    fn timeouts_out_of_the_window_do_not_count() {
        let mut circuit = Circuit::default();
        for at in [0.0, 10.0, 3700.0, 3701.0] {
            circuit.report(START + at, timed_out(120.0), None, &rules());
        }
        assert_eq!(circuit.state, CircuitState::Closed);
    }

    #[test]
    fn a_list_does_not_show_timeouts_out_of_the_window() {
        let mut circuit = Circuit::default();
        circuit.report(START, timed_out(120.0), None, &rules());
        circuit.report(START + 10.0, timed_out(60.0), None, &rules());
        let seen = |after: f64| displayed_at(&circuit, START + after).timeouts.len();
        assert_eq!((seen(20.0), seen(3605.0), seen(3700.0)), (2, 1, 0));
        assert_eq!(displayed_at(&open(), START + 9000.0), open(), "what it opened for");
    }

    #[test]
    fn after_the_recovery_one_run_is_allowed() {
        let mut circuit = open();
        assert!(matches!(check(&mut circuit, START + 299.0, Some(120.0)), Decision::Refuse(_)));
        let lease = probe(&mut circuit, START + 300.0);
        assert_eq!(lease.until, START + 300.0 + 120.0 + 60.0);
        assert!(matches!(
            check(&mut circuit, START + 301.0, Some(120.0)),
            Decision::Refuse(CircuitOpen { probing: true, .. })
        ));
    }

    #[test]
    fn any_other_end_closes_and_a_stop_leaves_half_open() {
        for (end, closed) in [(RunEnd::Finished, true), (RunEnd::Stopped, false)] {
            let mut circuit = open();
            let lease = probe(&mut circuit, START + 300.0);
            circuit.report(START + 310.0, end, Some(&lease), &rules());
            assert_eq!(circuit.is_blank(), closed, "{end:?}");
            if !closed {
                assert_eq!(circuit.state, CircuitState::HalfOpen { lease: None });
                probe(&mut circuit, START + 311.0);
            }
        }
    }

    #[test]
    fn a_timeout_of_the_one_run_opens_again() {
        let mut circuit = open();
        let lease = probe(&mut circuit, START + 300.0);
        circuit.report(START + 420.0, timed_out(120.0), Some(&lease), &rules());
        assert_eq!(circuit.state, CircuitState::Open { since: START + 420.0 });
    }

    #[test]
    fn an_expired_lease_is_free() {
        let mut circuit = open();
        let lost = probe(&mut circuit, START + 300.0);
        let next = probe(&mut circuit, lost.until);
        circuit.report(lost.until + 1.0, RunEnd::Finished, Some(&lost), &rules());
        assert_eq!(circuit.state, CircuitState::HalfOpen { lease: Some(next) });
    }

    #[test]
    fn a_run_with_twice_the_time_is_allowed_immediately() {
        for (deadline, let_through) in [(Some(239.0), false), (Some(240.0), true), (None, true)] {
            let mut circuit = open();
            let decision = check(&mut circuit, START + 1.0, deadline);
            let probes = matches!(decision, Decision::Probe(_));
            assert_eq!(probes, let_through, "{deadline:?}");
        }
    }

    #[test]
    fn runs_with_too_little_time_do_not_count() {
        for end in [
            RunEnd::TimedOut { allowed: 10.0, usual: Some(60.0), waited_for_input: false },
            RunEnd::TimedOut { allowed: 120.0, usual: None, waited_for_input: true },
        ] {
            let mut circuit = Circuit::default();
            for _ in 0..5 {
                circuit.report(START, end, None, &rules());
            }
            assert!(circuit.is_blank());
        }
    }

    #[test]
    fn a_run_from_before_the_opening_does_not_decide_about_it() {
        let mut circuit = open();
        circuit.report(START + 1.0, RunEnd::Finished, None, &rules());
        assert_eq!(circuit.state, CircuitState::Open { since: START });
    }

    /// Two callers read the clock at once, and the later one gets the database's lock first.
    #[test]
    fn a_caller_that_read_the_clock_before_the_lease_was_taken_is_refused() {
        let mut circuit = open();
        let now = START + rules().recovery + 1.0;
        let lease = probe(&mut circuit, now);
        let before = now - 0.001;
        assert!(matches!(check(&mut circuit, before, Some(120.0)), Decision::Refuse(_)));
        circuit.report(now, timed_out(120.0), Some(&lease), &rules());
        assert!(matches!(check(&mut circuit, before, Some(120.0)), Decision::Refuse(_)));
    }

    #[test]
    fn a_clock_set_back_ends_the_refusal() {
        let mut circuit = open();
        probe(&mut circuit, START - 86_400.0);
        probe(&mut circuit, START - 90_000.0);
    }

    proptest! {
        #[test]
        fn at_any_time_at_most_one_run_holds_a_lease(
            steps in prop::collection::vec((0.0f64..400.0, 0u8..4, prop::option::of(1.0f64..500.0)), 0..80)
        ) {
            let mut circuit = Circuit::default();
            let mut now = START;
            let mut held: Option<Lease> = None;
            for (number, (pause, end, deadline)) in steps.into_iter().enumerate() {
                now += pause;
                let decision = circuit.check(now, deadline, &number.to_string(), &rules());
                if let Decision::Probe(lease) = &decision {
                    prop_assert!(held.as_ref().is_none_or(|held| !held.holds(now)));
                    held = Some(lease.clone());
                }
                let end = match end {
                    0 => RunEnd::Finished,
                    1 => RunEnd::Stopped,
                    2 => timed_out(deadline.unwrap_or(120.0)),
                    _ => continue,
                };
                if let Decision::Refuse(refusal) = decision {
                    prop_assert!(refusal.retry_in >= 0.0);
                    continue;
                }
                let lease = match decision {
                    Decision::Probe(lease) => Some(lease),
                    _ => None,
                };
                circuit.report(now, end, lease.as_ref(), &rules());
                if lease.is_some() {
                    held = None;
                }
                prop_assert!(circuit.timeouts.len() <= rules().threshold);
            }
        }
    }
}
