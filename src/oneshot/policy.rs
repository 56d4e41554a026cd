//! When something is done about an agent that runs: silence, a process that does not end
//! after its work, a run that takes too long, an agent that repeats itself.
//!
//! Pure: what is seen of the agent is passed in with its time. Limits: it ends nothing
//! and asks nobody; it says what is to be done. Silence is measured by the pipeline, which
//! knows when something came; here it is decided what it means.

use std::time::{Duration, Instant};

use super::event::{Event, StuckPolicy};

/// A process that has told its result gets so long to end.
pub const EXIT_PATIENCE: Duration = Duration::from_secs(5);
/// So many looks in a row must find the agent stuck before anybody is asked about it.
const STUCK_LOOKS: u64 = 2;

/// A process that is just ending shows nothing of itself: only so many looks in a row that
/// see nothing tell that nothing can be seen.
const BLIND_LOOKS: u64 = 2;

/// What is done about an agent that a judge calls stuck.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnStuck {
    /// The person at the terminal is asked, and the run goes on meanwhile.
    Ask,
    /// Nothing; it stands in the log.
    Wait,
    /// It is ended, and what it did is recovered.
    Recover,
    /// It is ended, and the run with it.
    Fail,
}

/// What tells that an agent lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measure {
    /// All evidence.
    Status,
    /// Output alone: plain time limits.
    Time,
}

/// What the user decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules {
    /// Silence for so long ends the agent.
    pub inactivity: Duration,
    /// When the run has taken too long.
    pub runtime_ends: Option<Instant>,
    /// See [`OnStuck`].
    pub on_stuck: OnStuck,
    /// See [`Measure`].
    pub measure: Measure,
    /// After a judge's answer so many more looks pass before it is asked again.
    pub judge_again_after: u64,
}

/// What ends an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Nothing was heard or seen of it.
    Inactivity,
    /// It has told its result and does not end.
    ExitHang,
    /// The run has taken too long.
    MaxRuntime,
    /// It lives, does not get on, and a judge has confirmed it.
    Stuck {
        /// The run is to fail with it.
        fails: bool,
    },
}

impl Fault {
    /// What it is to the run.
    pub fn event(self) -> Event {
        match self {
            Fault::Inactivity => Event::Inactivity,
            Fault::ExitHang => Event::ExitHang,
            Fault::MaxRuntime => Event::MaxRuntime,
            Fault::Stuck { fails: false } => Event::Stuck(StuckPolicy::Recover),
            Fault::Stuck { fails: true } => Event::Stuck(StuckPolicy::Fail),
        }
    }
}

/// What is to be done now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Demand {
    /// Ask the judge.
    Judge,
    /// Ask the person.
    Ask,
    /// End it.
    End(Fault),
}

/// The watch over one agent.
#[derive(Debug, Clone)]
pub struct Watch {
    rules: Rules,
    last_output: Instant,
    /// When it told its result.
    finished: Option<Instant>,
    /// Looks in a row that did not see its processes.
    blind_looks: u64,
    /// Looks in a row that found it stuck.
    stuck_looks: u64,
    judging: bool,
    judge_from: u64,
}

impl Watch {
    /// Over an agent that starts now.
    pub fn new(rules: Rules, now: Instant) -> Watch {
        Watch {
            rules,
            last_output: now,
            finished: None,
            blind_looks: 0,
            stuck_looks: 0,
            judging: false,
            judge_from: STUCK_LOOKS,
        }
    }

    /// It has written something.
    pub fn output(&mut self, at: Instant) {
        self.last_output = self.last_output.max(at);
    }

    /// It has told its result.
    pub fn finish(&mut self, at: Instant) {
        self.finished.get_or_insert(at);
    }

    /// Takes in whether a look has seen its processes; the answer is whether it has become
    /// another matter if they can be seen.
    pub fn note_sight(&mut self, seen: bool) -> bool {
        let before = self.is_blind();
        self.blind_looks = match seen {
            true => 0,
            false => self.blind_looks.saturating_add(1),
        };
        self.is_blind() != before
    }

    /// Its processes cannot be seen: only output counts.
    pub fn is_blind(&self) -> bool {
        self.blind_looks >= BLIND_LOOKS
    }

    /// Whether output alone is a sign of life.
    pub fn counts_output_only(&self) -> bool {
        self.is_blind() || self.rules.measure == Measure::Time
    }

    /// When [`Watch::overdue`] may have something to say though nothing is seen.
    pub fn due(&self) -> Option<Instant> {
        let exit = self.finished.and_then(|at| at.checked_add(EXIT_PATIENCE));
        exit.into_iter().chain(self.rules.runtime_ends).min()
    }

    /// What time has brought about.
    pub fn overdue(&self, now: Instant) -> Option<Demand> {
        if self.rules.runtime_ends.is_some_and(|end| now >= end) {
            return Some(Demand::End(Fault::MaxRuntime));
        }
        let hangs = |at| now.saturating_duration_since(at) >= EXIT_PATIENCE;
        self.finished
            .is_some_and(hangs)
            .then_some(Demand::End(Fault::ExitHang))
    }

    /// It has been silent for too long. Who has told its result need not say more.
    pub fn silent(&self) -> Option<Demand> {
        let waits = self.finished.is_none();
        waits.then_some(Demand::End(Fault::Inactivity))
    }

    /// The tracker has judged, once each interval.
    pub fn tick(&mut self, stuck: bool) -> Option<Demand> {
        if !stuck || self.finished.is_some() || self.counts_output_only() {
            self.stuck_looks = 0;
            self.judge_from = STUCK_LOOKS;
            return None;
        }
        self.stuck_looks += 1;
        if self.judging || self.stuck_looks < self.judge_from {
            return None;
        }
        self.judging = true;
        Some(Demand::Judge)
    }

    /// The judge has answered; `confirmed`: it is a loop, or has failed.
    pub fn judged(&mut self, confirmed: bool) -> Option<Demand> {
        self.judging = false;
        self.judge_from = self
            .stuck_looks
            .saturating_add(self.rules.judge_again_after);
        if !confirmed || self.stuck_looks < STUCK_LOOKS {
            return None;
        }
        match self.rules.on_stuck {
            OnStuck::Ask => Some(Demand::Ask),
            OnStuck::Wait => None,
            OnStuck::Recover => Some(Demand::End(Fault::Stuck { fails: false })),
            OnStuck::Fail => Some(Demand::End(Fault::Stuck { fails: true })),
        }
    }

    /// Whether a plain time limit on output would have ended it.
    pub fn would_time_out(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.last_output) >= self.rules.inactivity
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn watch(change: impl FnOnce(&mut Rules, Instant)) -> (Watch, Instant) {
        let now = Instant::now();
        let mut rules = Rules {
            inactivity: 10 * SECOND,
            runtime_ends: None,
            on_stuck: OnStuck::Recover,
            measure: Measure::Status,
            judge_again_after: 3,
        };
        change(&mut rules, now);
        (Watch::new(rules, now), now)
    }

    #[test]
    fn by_time_or_where_processes_cannot_be_seen_nobody_is_stuck() {
        let (mut by_time, _) = watch(|rules, _| rules.measure = Measure::Time);
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
    fn one_look_that_sees_nothing_tells_nothing() {
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
        assert_eq!(watch.silent(), Some(Demand::End(Fault::Inactivity)));
        watch.finish(start);
        watch.finish(start + 4 * SECOND);
        assert_eq!(watch.silent(), None);
        assert_eq!(watch.overdue(start + 4 * SECOND), None);
        assert_eq!(watch.due(), Some(start + EXIT_PATIENCE));
        let ended = watch.overdue(start + EXIT_PATIENCE);
        assert_eq!(ended, Some(Demand::End(Fault::ExitHang)));
    }

    #[test]
    fn the_runtime_ends_whatever_the_agent_does() {
        let (mut watch, start) = watch(|rules, now| {
            rules.runtime_ends = now.checked_add(3 * SECOND);
        });
        let end = start + 3 * SECOND;
        watch.output(end);
        assert_eq!(watch.due(), Some(end));
        assert_eq!(watch.overdue(end), Some(Demand::End(Fault::MaxRuntime)));
    }

    #[test]
    fn a_judge_is_asked_at_the_second_look_in_a_row() {
        let (mut watch, _) = watch(|_, _| {});
        assert_eq!(watch.tick(true), None);
        assert_eq!(watch.tick(false), None);
        assert_eq!(watch.tick(true), None);
        assert_eq!(watch.tick(true), Some(Demand::Judge));
        assert_eq!(watch.tick(true), None, "it has not answered yet");
        let ended = watch.judged(true);
        assert_eq!(ended, Some(Demand::End(Fault::Stuck { fails: false })));
    }

    #[test]
    fn a_judge_that_does_not_confirm_is_asked_again_later() {
        let (mut watch, _) = watch(|_, _| {});
        watch.tick(true);
        assert_eq!(watch.tick(true), Some(Demand::Judge));
        assert_eq!(watch.judged(false), None);
        assert_eq!(watch.tick(true), None);
        assert_eq!(watch.tick(true), None);
        assert_eq!(watch.tick(true), Some(Demand::Judge));
    }

    #[test]
    fn what_is_confirmed_and_gets_on_again_meanwhile_is_left_alone() {
        let (mut watch, _) = watch(|_, _| {});
        watch.tick(true);
        watch.tick(true);
        watch.tick(false);
        assert_eq!(watch.judged(true), None);
    }

    #[test]
    fn each_way_of_dealing_with_it_has_its_demand() {
        for (on_stuck, demand) in [
            (OnStuck::Ask, Some(Demand::Ask)),
            (OnStuck::Wait, None),
            (
                OnStuck::Fail,
                Some(Demand::End(Fault::Stuck { fails: true })),
            ),
        ] {
            let (mut watch, _) = watch(|rules, _| rules.on_stuck = on_stuck);
            watch.tick(true);
            watch.tick(true);
            assert_eq!(watch.judged(true), demand, "{on_stuck:?}");
        }
    }

    #[test]
    fn a_plain_time_limit_looks_at_output_alone() {
        let (mut watch, start) = watch(|_, _| {});
        assert!(!watch.would_time_out(start + 9 * SECOND));
        assert!(watch.would_time_out(start + 10 * SECOND));
        watch.output(start + 10 * SECOND);
        assert!(!watch.would_time_out(start + 10 * SECOND));
    }
}
