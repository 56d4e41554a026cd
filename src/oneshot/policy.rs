//! Decides when to act on a running agent: on silence, a process that does not exit after its work,
//! a run that takes too long, or an agent that repeats itself.
//!
//! Pure: callers pass observations with their times and act on the decisions. The pipeline measures
//! silence.

use std::time::{Duration, Instant};

use super::state::{Budget, RunEvent};
use crate::agent::usage::Usage;
use crate::cli::OnStuck;

/// How long a process may take to exit after it has reported its result.
pub(crate) const EXIT_PATIENCE: Duration = Duration::from_secs(5);
/// How many probes in a row must find the agent stuck before a judge is asked.
const STUCK_PROBES: u64 = 2;

/// How many probes in a row must see no process before the agent counts as invisible: an exiting
/// process is briefly invisible too.
const BLIND_PROBES: u64 = 2;

/// What counts as a sign of life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SignsOfLife {
    /// All evidence counts.
    All,
    /// Only output counts: plain time limits.
    OutputOnly,
}

/// The user's settings for watching an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WatchRules {
    /// How long the agent may be silent.
    pub(crate) inactivity: Duration,
    /// The end of the run's time limit.
    pub(crate) runtime_ends: Option<Instant>,
    /// How long to wait in all for an endpoint that fails for now.
    pub(crate) wait_limit: Duration,
    /// What to do about an agent that a judge calls stuck.
    pub(crate) on_stuck: OnStuck,
    /// See [`SignsOfLife`].
    pub(crate) signs_of_life: SignsOfLife,
    /// How many probes after a judgement to ask the judge again.
    pub(crate) judge_again_after: u64,
}

/// An action on the agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum WatchAction {
    /// Ask the judge.
    Judge,
    /// Ask the person.
    Ask,
    /// Kill the agent and apply this event to the run.
    End(RunEvent),
}

/// Watches one agent.
#[derive(Debug, Clone)]
pub(crate) struct AgentWatch {
    rules: WatchRules,
    last_output: Instant,
    /// When the agent reported its result.
    finished: Option<Instant>,
    /// How many probes in a row did not see the agent's processes.
    blind_probes: u64,
    /// How many probes in a row found the agent stuck.
    stuck_probes: u64,
    judging: bool,
    judge_from: u64,
}

impl AgentWatch {
    /// Watches an agent that starts now.
    pub(crate) fn new(rules: WatchRules, now: Instant) -> AgentWatch {
        AgentWatch {
            rules,
            last_output: now,
            finished: None,
            blind_probes: 0,
            stuck_probes: 0,
            judging: false,
            judge_from: STUCK_PROBES,
        }
    }

    /// Records output.
    pub(crate) fn output(&mut self, at: Instant) {
        self.last_output = self.last_output.max(at);
    }

    /// Records that the agent has reported its result.
    pub(crate) fn finish(&mut self, at: Instant) {
        self.finished.get_or_insert(at);
    }

    /// Records whether a probe saw the agent's processes. Returns whether [`Self::is_blind`] has
    /// changed.
    pub(crate) fn note_sight(&mut self, seen: bool) -> bool {
        let before = self.is_blind();
        self.blind_probes = if seen { 0 } else { self.blind_probes.saturating_add(1) };
        self.is_blind() != before
    }

    /// Whether the agent's processes are invisible, so that only output counts.
    pub(crate) fn is_blind(&self) -> bool {
        self.blind_probes >= BLIND_PROBES
    }

    /// Whether output is the only sign of life.
    pub(crate) fn counts_output_only(&self) -> bool {
        self.is_blind() || self.rules.signs_of_life == SignsOfLife::OutputOnly
    }

    /// When [`Self::overdue`] may next return an action.
    pub(crate) fn due(&self) -> Option<Instant> {
        let exit = self.finished.and_then(|at| at.checked_add(EXIT_PATIENCE));
        exit.into_iter().chain(self.rules.runtime_ends).min()
    }

    /// The action that an expired time limit causes.
    pub(crate) fn overdue(&self, now: Instant) -> Option<WatchAction> {
        if self.rules.runtime_ends.is_some_and(|end| now >= end) {
            return Some(WatchAction::End(RunEvent::MaxRuntime));
        }
        let hangs = |at| now.saturating_duration_since(at) >= EXIT_PATIENCE;
        self.finished.is_some_and(hangs).then_some(WatchAction::End(RunEvent::ExitHang))
    }

    /// The action that a long silence causes. After its result, an agent may be silent.
    pub(crate) fn silent(&self) -> Option<WatchAction> {
        let waits = self.finished.is_none();
        waits.then_some(WatchAction::End(RunEvent::Inactivity))
    }

    /// Records the tracker's verdict, once per interval.
    pub(crate) fn tick(&mut self, stuck: bool) -> Option<WatchAction> {
        if !stuck || self.finished.is_some() || self.counts_output_only() {
            self.stuck_probes = 0;
            self.judge_from = STUCK_PROBES;
            return None;
        }
        self.stuck_probes += 1;
        if self.judging || self.stuck_probes < self.judge_from {
            return None;
        }
        self.judging = true;
        Some(WatchAction::Judge)
    }

    /// Records the judge's answer. `confirmed` is set if the agent loops or has failed.
    pub(crate) fn judged(&mut self, confirmed: bool) -> Option<WatchAction> {
        self.judging = false;
        self.judge_from = self.stuck_probes.saturating_add(self.rules.judge_again_after);
        if !confirmed || self.stuck_probes < STUCK_PROBES {
            return None;
        }
        match self.rules.on_stuck {
            OnStuck::Ask => Some(WatchAction::Ask),
            OnStuck::Wait => None,
            OnStuck::Recover => Some(WatchAction::End(RunEvent::Stuck { fails: false })),
            OnStuck::Fail => Some(WatchAction::End(RunEvent::Stuck { fails: true })),
        }
    }

    /// Whether a plain time limit on output would have ended the agent.
    pub(crate) fn would_time_out(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.last_output) >= self.rules.inactivity
    }
}

/// What all agents of a run may use up together.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct BudgetLimits {
    /// US dollars.
    pub(crate) usd: Option<f64>,
    pub(crate) tokens: Option<u64>,
}

impl BudgetLimits {
    /// The budget that this usage exceeds or uses up.
    pub(crate) fn exceeded_by(&self, usage: &Usage) -> Option<Budget> {
        let exceeds_cost = self.usd.zip(usage.usd).is_some_and(|(limit, spent)| spent >= limit);
        let exceeds_tokens =
            self.tokens.zip(usage.tokens()).is_some_and(|(limit, spent)| spent >= limit);
        match (exceeds_cost, exceeds_tokens) {
            (true, _) => Some(Budget::Cost),
            (false, true) => Some(Budget::Tokens),
            (false, false) => None,
        }
    }

    /// Says that an agent does not report what a limit is about.
    pub(crate) fn unmeasured_by(&self, agent: &str, usage: &Usage) -> Option<String> {
        let cost = (self.usd.is_some() && usage.usd.is_none()).then_some(("cost", "--max-cost"));
        let tokens = (self.tokens.is_some() && usage.tokens().is_none())
            .then_some(("tokens", "--max-tokens"));
        let (what, limit) = cost.or(tokens)?;
        Some(format!("{agent} has reported no {what}: {limit} does not count it"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn watch(change: impl FnOnce(&mut WatchRules, Instant)) -> (AgentWatch, Instant) {
        let now = Instant::now();
        let mut rules = WatchRules {
            inactivity: 10 * SECOND,
            runtime_ends: None,
            wait_limit: 60 * SECOND,
            on_stuck: OnStuck::Recover,
            signs_of_life: SignsOfLife::All,
            judge_again_after: 3,
        };
        change(&mut rules, now);
        (AgentWatch::new(rules, now), now)
    }

    #[test]
    fn without_visible_processes_or_by_time_no_agent_is_stuck() {
        let (mut by_time, _) = watch(|rules, _| rules.signs_of_life = SignsOfLife::OutputOnly);
        let (mut blind, _) = watch(|_, _| {});
        assert!(!blind.note_sight(false), "it may be ending");
        assert!(blind.note_sight(false));
        assert!(!blind.note_sight(false), "told once");
        for watch in [&mut by_time, &mut blind] {
            assert!(watch.counts_output_only());
            assert_eq!(watch.tick(true), None);
            assert_eq!(watch.tick(true), None);
        }
    }

    #[test]
    fn one_blind_probe_proves_nothing() {
        let (mut watch, _) = watch(|_, _| {});
        for _ in 0..3 {
            assert!(!watch.note_sight(false));
            assert!(!watch.note_sight(true));
            assert!(!watch.counts_output_only());
        }
        watch.note_sight(false);
        watch.note_sight(false);
        assert!(watch.counts_output_only());
        assert!(watch.note_sight(true), "it is seen again");
    }

    #[test]
    fn a_result_gives_the_process_five_seconds_and_silence_no_longer_counts() {
        let (mut watch, start) = watch(|_, _| {});
        assert_eq!(watch.silent(), Some(WatchAction::End(RunEvent::Inactivity)));
        watch.finish(start);
        watch.finish(start + 4 * SECOND);
        assert_eq!(watch.silent(), None);
        assert_eq!(watch.overdue(start + 4 * SECOND), None);
        assert_eq!(watch.due(), Some(start + EXIT_PATIENCE));
        let ended = watch.overdue(start + EXIT_PATIENCE);
        assert_eq!(ended, Some(WatchAction::End(RunEvent::ExitHang)));
    }

    #[test]
    fn the_runtime_ends_whatever_the_agent_does() {
        let (mut watch, start) = watch(|rules, now| {
            rules.runtime_ends = now.checked_add(3 * SECOND);
        });
        let end = start + 3 * SECOND;
        watch.output(end);
        assert_eq!(watch.due(), Some(end));
        assert_eq!(watch.overdue(end), Some(WatchAction::End(RunEvent::MaxRuntime)));
    }

    #[test]
    fn a_judge_is_asked_at_the_second_probe_in_a_row() {
        let (mut watch, _) = watch(|_, _| {});
        assert_eq!(watch.tick(true), None);
        assert_eq!(watch.tick(false), None);
        assert_eq!(watch.tick(true), None);
        assert_eq!(watch.tick(true), Some(WatchAction::Judge));
        assert_eq!(watch.tick(true), None, "it has not answered yet");
        let ended = watch.judged(true);
        assert_eq!(ended, Some(WatchAction::End(RunEvent::Stuck { fails: false })));
    }

    #[test]
    fn a_judge_that_does_not_confirm_is_asked_again_later() {
        let (mut watch, _) = watch(|_, _| {});
        watch.tick(true);
        assert_eq!(watch.tick(true), Some(WatchAction::Judge));
        assert_eq!(watch.judged(false), None);
        assert_eq!(watch.tick(true), None);
        assert_eq!(watch.tick(true), None);
        assert_eq!(watch.tick(true), Some(WatchAction::Judge));
    }

    #[test]
    fn a_confirmed_agent_that_progresses_again_is_left_alone() {
        let (mut watch, _) = watch(|_, _| {});
        watch.tick(true);
        watch.tick(true);
        watch.tick(false);
        assert_eq!(watch.judged(true), None);
    }

    #[test]
    fn each_setting_has_its_action() {
        for (on_stuck, demand) in [
            (OnStuck::Ask, Some(WatchAction::Ask)),
            (OnStuck::Wait, None),
            (OnStuck::Fail, Some(WatchAction::End(RunEvent::Stuck { fails: true }))),
        ] {
            let (mut watch, _) = watch(|rules, _| rules.on_stuck = on_stuck);
            watch.tick(true);
            watch.tick(true);
            assert_eq!(watch.judged(true), demand, "{on_stuck:?}");
        }
    }

    #[test]
    fn a_plain_time_limit_counts_only_output() {
        let (mut watch, start) = watch(|_, _| {});
        assert!(!watch.would_time_out(start + 9 * SECOND));
        assert!(watch.would_time_out(start + 10 * SECOND));
        watch.output(start + 10 * SECOND);
        assert!(!watch.would_time_out(start + 10 * SECOND));
    }
}
