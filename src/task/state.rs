//! The life of one task as a pure machine: events and the time go in, effects come out.
//!
//! It knows when a task is over, when its deadline falls due, how a kill goes on from
//! SIGTERM to SIGKILL, and which outcome all that amounts to. It starts, reads and
//! signals nothing: the worker does.

use std::time::{Duration, Instant};

use crate::process::signals::{Exit, Signal};

/// After the shell's exit, output is read until it has been silent for so long …
pub const DRAIN_SILENCE: Duration = Duration::from_millis(50);
/// … and for so long at most.
pub const DRAIN_LIMIT: Duration = Duration::from_millis(250);
/// From SIGTERM to SIGKILL.
pub const KILL_GRACE: Duration = Duration::from_secs(2);
/// From SIGTERM to SIGKILL when the server itself ends.
pub const SHUTDOWN_GRACE: Duration = Duration::from_millis(500);
/// After SIGKILL: how long survivors are looked for.
pub const KILL_PATIENCE: Duration = Duration::from_secs(1);
/// How long the receipt of a single signal waits for what it ends.
pub const SIGNAL_PATIENCE: Duration = Duration::from_millis(500);
/// A shell that ends within this time after a kill was killed.
pub const KILL_CREDIT: Duration = Duration::from_secs(5);

/// What became of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// Exit code 0.
    Success,
    /// Any other exit code.
    Failure,
    /// Ended because its deadline had passed.
    Timeout,
    /// Ended because somebody asked for it.
    Killed,
    /// Ended because the server ended.
    Interrupted,
}

/// What somebody asks to be sent to a task's processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KillOrder {
    /// SIGTERM and SIGCONT, a grace, then SIGKILL.
    InOrder,
    /// One signal, once.
    Only(Signal),
}

impl KillOrder {
    /// Whether it asks processes to end.
    pub fn ends(self) -> bool {
        match self {
            KillOrder::InOrder => true,
            KillOrder::Only(signal) => signal.ends(),
        }
    }
}

/// What the worker has seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// Bytes came.
    Output,
    /// Nobody holds the output open any more.
    OutputClosed,
    /// The shell has ended.
    Exited(Exit),
    /// Somebody asks for a kill.
    Kill(KillOrder),
    /// The server ends.
    Shutdown,
    /// A scan of the tree found nobody.
    TreeGone,
    /// A look has told whether the command gets on, or may yet.
    Looked {
        /// Whether it does.
        gets_on: bool,
    },
    /// Nothing but the passing of time.
    Time,
}

/// What the worker is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Send these, in this order, to every process of the tree, and to those that later
    /// scans find; report [`Event::TreeGone`] when a scan finds nobody.
    SignalTree(&'static [Signal]),
    /// Send this one signal to every process of the tree, now.
    SignalOnce(Signal),
    /// The kill is over: give the receipt to whoever waits for it.
    CloseKill,
    /// The task is over.
    Finish {
        /// How the shell ended.
        exit: Exit,
        /// When it was seen to have ended; the drain after it is not the command's time.
        exited: Instant,
        /// What that amounts to.
        outcome: Outcome,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cause {
    Deadline,
    Kill { asked: Instant },
    Shutdown,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Escalation {
    Grace { until: Instant },
    Forced { until: Instant },
    Once { until: Instant },
}

impl Escalation {
    fn until(self) -> Instant {
        match self {
            Escalation::Grace { until }
            | Escalation::Forced { until }
            | Escalation::Once { until } => until,
        }
    }
}

/// When a task is ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Deadline {
    /// In any case, or unless the task gets on; `None`: never.
    pub first: Option<Instant>,
    /// At the latest, however well it gets on; `None`: the first does not move.
    pub latest: Option<Instant>,
}

impl Deadline {
    /// After these times from the start.
    pub fn new(start: Instant, first: Option<Duration>, latest: Option<Duration>) -> Deadline {
        let after = |time: Duration| start.checked_add(time);
        Deadline {
            first: first.and_then(after),
            latest: latest.and_then(after),
        }
    }

    /// The deadline that moves while the task gets on, if it does.
    pub fn moving(&self) -> Option<Instant> {
        self.latest.and(self.first)
    }

    /// When the task is ended, as things are.
    fn when(&self, gets_on: bool) -> Option<Instant> {
        let first = self.first?;
        let latest = self.latest.filter(|_| gets_on);
        Some(latest.map_or(first, |latest| latest.max(first)))
    }
}

/// One task's state.
#[derive(Debug)]
pub struct Machine {
    deadline: Deadline,
    /// What the last look has told.
    gets_on: bool,
    exit: Option<(Exit, Instant)>,
    output_open: bool,
    last_output: Option<Instant>,
    cause: Option<Cause>,
    escalation: Option<Escalation>,
    finished: bool,
}

impl Machine {
    /// A task that has just been started.
    pub fn new(deadline: Deadline) -> Machine {
        Machine {
            deadline,
            gets_on: false,
            exit: None,
            output_open: true,
            last_output: None,
            cause: None,
            escalation: None,
            finished: false,
        }
    }

    /// Whether the task is over (its leftovers may live on).
    pub fn finished(&self) -> bool {
        self.finished
    }

    /// Whether a kill is under way.
    pub fn killing(&self) -> bool {
        self.escalation.is_some()
    }

    /// Whether the shell has ended.
    pub fn exited(&self) -> bool {
        self.exit.is_some()
    }

    /// Whether output may still come.
    pub fn output_open(&self) -> bool {
        self.output_open
    }

    /// When [`Event::Time`] is due next.
    pub fn next_wake(&self) -> Option<Instant> {
        let deadline = self.due().filter(|_| self.goes_on());
        [
            deadline,
            self.escalation.map(Escalation::until),
            self.drained_at(),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// Whether the command runs and nothing is about to end it. A signal that it has
    /// survived changes nothing: deadlines still hold, and what ends it is the next cause.
    fn goes_on(&self) -> bool {
        let spared = matches!(self.cause, None | Some(Cause::Kill { .. }));
        self.exit.is_none() && spared && self.escalation.is_none()
    }

    fn due(&self) -> Option<Instant> {
        self.deadline.when(self.gets_on)
    }

    /// When the drain after the exit is over, if it has begun and nothing is being killed.
    fn drained_at(&self) -> Option<Instant> {
        let (_, exited) = self.exit?;
        if self.finished || self.escalation.is_some() {
            return None;
        }
        if !self.output_open {
            return Some(exited);
        }
        let quiet_since = self.last_output.map_or(exited, |last| last.max(exited));
        Some((quiet_since + DRAIN_SILENCE).min(exited + DRAIN_LIMIT))
    }

    /// Takes one event in. The effects are to be carried out in their order.
    pub fn step(&mut self, event: Event, now: Instant) -> Vec<Effect> {
        let mut effects = Vec::new();
        match event {
            Event::Output => self.last_output = Some(now),
            Event::OutputClosed => self.output_open = false,
            Event::Exited(exit) => {
                if self.exit.is_none() {
                    self.exit = Some((exit, now));
                }
            }
            Event::Kill(order) => self.kill(order, now, &mut effects),
            Event::Shutdown => {
                if self.goes_on() {
                    self.cause = Some(Cause::Shutdown);
                }
                // A kill that is under way has had part of its grace; it gets no more.
                if !matches!(self.escalation, Some(Escalation::Forced { .. })) {
                    self.terminate(now + SHUTDOWN_GRACE, &mut effects);
                }
            }
            Event::TreeGone => {
                if self.escalation.take().is_some() {
                    effects.push(Effect::CloseKill);
                }
            }
            Event::Looked { gets_on } => self.gets_on = gets_on,
            // The turn of a worker ends with it: who looks before the deadline has looked.
            Event::Time => self.meet_deadline(now, &mut effects),
        }
        self.pass_time(now, &mut effects);
        effects
    }

    fn kill(&mut self, order: KillOrder, now: Instant, effects: &mut Vec<Effect>) {
        let spared = matches!(self.cause, None | Some(Cause::Kill { .. }));
        if order.ends() && self.exit.is_none() && spared {
            self.cause = Some(Cause::Kill { asked: now });
        }
        match order {
            KillOrder::InOrder => {
                if !matches!(
                    self.escalation,
                    Some(Escalation::Grace { .. } | Escalation::Forced { .. })
                ) {
                    self.terminate(now + KILL_GRACE, effects);
                }
            }
            KillOrder::Only(signal) => {
                effects.push(Effect::SignalOnce(signal));
                if self.escalation.is_none() {
                    let patience = if signal.ends() {
                        SIGNAL_PATIENCE
                    } else {
                        Duration::ZERO
                    };
                    self.escalation = Some(Escalation::Once {
                        until: now + patience,
                    });
                }
            }
        }
    }

    fn terminate(&mut self, until: Instant, effects: &mut Vec<Effect>) {
        self.escalation = Some(Escalation::Grace { until });
        effects.push(Effect::SignalTree(&[Signal::Term, Signal::Cont]));
    }

    fn meet_deadline(&mut self, now: Instant, effects: &mut Vec<Effect>) {
        let due = self.due().is_some_and(|deadline| now >= deadline);
        if due && self.goes_on() {
            self.cause = Some(Cause::Deadline);
            self.terminate(now + KILL_GRACE, effects);
        }
    }

    fn pass_time(&mut self, now: Instant, effects: &mut Vec<Effect>) {
        match self.escalation {
            Some(Escalation::Grace { until }) if now >= until => {
                self.escalation = Some(Escalation::Forced {
                    until: now + KILL_PATIENCE,
                });
                effects.push(Effect::SignalTree(&[Signal::Kill]));
            }
            Some(Escalation::Forced { until } | Escalation::Once { until }) if now >= until => {
                self.escalation = None;
                effects.push(Effect::CloseKill);
            }
            _ => {}
        }
        if let Some((exit, exited)) = self.exit
            && self.drained_at().is_some_and(|drained| now >= drained)
        {
            self.finished = true;
            effects.push(Effect::Finish {
                exit,
                exited,
                outcome: self.outcome(exit, exited),
            });
        }
    }

    /// What it comes to if nothing more is learned of the task.
    pub fn end_so_far(&self) -> (Exit, Outcome) {
        if let Some((exit, exited)) = self.exit {
            return (exit, self.outcome(exit, exited));
        }
        let outcome = match self.cause {
            Some(Cause::Deadline) => Outcome::Timeout,
            Some(Cause::Kill { .. }) => Outcome::Killed,
            Some(Cause::Shutdown) | None => Outcome::Interrupted,
        };
        // What it was sent last, or would have been.
        (Exit::Signal(Signal::Kill.number()), outcome)
    }

    fn outcome(&self, exit: Exit, exited: Instant) -> Outcome {
        match self.cause {
            Some(Cause::Deadline) => Outcome::Timeout,
            Some(Cause::Shutdown) => Outcome::Interrupted,
            Some(Cause::Kill { asked }) if exited.duration_since(asked) <= KILL_CREDIT => {
                Outcome::Killed
            }
            _ if exit.code() == 0 => Outcome::Success,
            _ => Outcome::Failure,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TERM: Exit = Exit::Signal(15);

    fn at(start: Instant, millis: u64) -> Instant {
        start + Duration::from_millis(millis)
    }

    fn until(first: Instant) -> Deadline {
        Deadline {
            first: Some(first),
            latest: None,
        }
    }

    fn finished(effects: &[Effect]) -> Option<Outcome> {
        effects.iter().find_map(|effect| match effect {
            Effect::Finish { outcome, .. } => Some(*outcome),
            _ => None,
        })
    }

    #[test]
    fn ends_at_once_when_exit_and_end_of_output_agree() {
        let t = Instant::now();
        let mut machine = Machine::new(Deadline::default());
        assert_eq!(machine.step(Event::OutputClosed, t), []);
        let effects = machine.step(Event::Exited(Exit::Code(0)), at(t, 3));
        assert_eq!(finished(&effects), Some(Outcome::Success));
        assert!(machine.finished());
    }

    #[test]
    fn output_held_open_delays_the_end_by_the_silence_only() {
        let t = Instant::now();
        let mut machine = Machine::new(Deadline::default());
        assert_eq!(machine.step(Event::Exited(Exit::Code(4)), t), []);
        assert_eq!(machine.next_wake(), Some(t + DRAIN_SILENCE));
        assert_eq!(machine.step(Event::Time, at(t, 49)), []);
        assert_eq!(
            finished(&machine.step(Event::Time, at(t, 50))),
            Some(Outcome::Failure)
        );
    }

    #[test]
    fn a_flood_after_the_exit_delays_the_end_by_the_limit_only() {
        let t = Instant::now();
        let mut machine = Machine::new(Deadline::default());
        machine.step(Event::Exited(Exit::Code(0)), t);
        for millis in (10..250).step_by(10) {
            assert_eq!(machine.step(Event::Output, at(t, millis)), []);
        }
        assert_eq!(
            finished(&machine.step(Event::Output, at(t, 250))),
            Some(Outcome::Success)
        );
    }

    #[test]
    fn the_deadline_terminates_and_then_kills() {
        let t = Instant::now();
        let mut machine = Machine::new(until(at(t, 1000)));
        assert_eq!(machine.next_wake(), Some(at(t, 1000)));
        assert_eq!(
            machine.step(Event::Time, at(t, 1000)),
            [Effect::SignalTree(&[Signal::Term, Signal::Cont])]
        );
        assert_eq!(machine.next_wake(), Some(at(t, 3000)));
        assert_eq!(
            machine.step(Event::Time, at(t, 3000)),
            [Effect::SignalTree(&[Signal::Kill])]
        );
        machine.step(Event::OutputClosed, at(t, 3001));
        assert_eq!(
            machine.step(Event::Exited(Exit::Signal(9)), at(t, 3001)),
            []
        );
        let effects = machine.step(Event::TreeGone, at(t, 3002));
        assert_eq!(effects.first(), Some(&Effect::CloseKill));
        assert_eq!(finished(&effects), Some(Outcome::Timeout));
    }

    const TERMINATE: Effect = Effect::SignalTree(&[Signal::Term, Signal::Cont]);

    fn moving(t: Instant) -> Machine {
        Machine::new(Deadline {
            first: Some(at(t, 1000)),
            latest: Some(at(t, 9000)),
        })
    }

    #[test]
    fn a_deadline_moves_while_the_command_gets_on_and_no_further_than_the_latest() {
        let t = Instant::now();
        let mut machine = moving(t);
        machine.step(Event::Looked { gets_on: true }, at(t, 900));
        assert_eq!(machine.next_wake(), Some(at(t, 9000)));
        assert_eq!(machine.step(Event::Time, at(t, 1000)), []);
        assert_eq!(
            machine.step(Event::Looked { gets_on: true }, at(t, 8999)),
            []
        );
        assert_eq!(machine.step(Event::Time, at(t, 9000)), [TERMINATE]);
        machine.step(Event::OutputClosed, at(t, 9001));
        machine.step(Event::Exited(TERM), at(t, 9001));
        let effects = machine.step(Event::TreeGone, at(t, 9002));
        assert_eq!(finished(&effects), Some(Outcome::Timeout));
    }

    #[test]
    fn what_does_not_get_on_ends_at_its_deadline() {
        let t = Instant::now();
        for looks in [vec![], vec![false], vec![true, false]] {
            let mut machine = moving(t);
            for gets_on in looks {
                machine.step(Event::Looked { gets_on }, at(t, 900));
            }
            assert_eq!(machine.next_wake(), Some(at(t, 1000)));
            assert_eq!(machine.step(Event::Time, at(t, 1000)), [TERMINATE]);
        }
    }

    #[test]
    fn what_gets_on_no_more_after_its_deadline_ends_then() {
        let t = Instant::now();
        let mut machine = moving(t);
        machine.step(Event::Looked { gets_on: true }, at(t, 900));
        machine.step(Event::Time, at(t, 1000));
        machine.step(Event::Looked { gets_on: false }, at(t, 4000));
        assert_eq!(machine.step(Event::Time, at(t, 4000)), [TERMINATE]);
    }

    #[test]
    fn what_comes_late_is_not_ended_by_an_old_look() {
        let t = Instant::now();
        let mut machine = moving(t);
        machine.step(Event::Looked { gets_on: false }, at(t, 100));
        // The worker was held up: output stands in the pipe, and a look is due.
        assert_eq!(machine.step(Event::Output, at(t, 1500)), []);
        machine.step(Event::Looked { gets_on: true }, at(t, 1500));
        assert_eq!(machine.step(Event::Time, at(t, 1500)), []);
    }

    #[test]
    fn a_deadline_that_does_not_move_holds_for_what_gets_on() {
        let t = Instant::now();
        let mut machine = Machine::new(until(at(t, 1000)));
        machine.step(Event::Looked { gets_on: true }, at(t, 900));
        assert_eq!(machine.step(Event::Time, at(t, 1000)), [TERMINATE]);
    }

    #[test]
    fn the_end_waits_for_a_kill_that_is_under_way() {
        let t = Instant::now();
        let mut machine = Machine::new(Deadline::default());
        machine.step(Event::Kill(KillOrder::InOrder), t);
        machine.step(Event::OutputClosed, at(t, 1));
        assert_eq!(machine.step(Event::Exited(TERM), at(t, 1)), []);
        assert_eq!(
            finished(&machine.step(Event::TreeGone, at(t, 2))),
            Some(Outcome::Killed)
        );
    }

    #[test]
    fn signals_that_do_not_end_change_no_outcome() {
        let t = Instant::now();
        let mut machine = Machine::new(Deadline::default());
        let effects = machine.step(Event::Kill(KillOrder::Only(Signal::Usr1)), t);
        assert_eq!(
            effects,
            [Effect::SignalOnce(Signal::Usr1), Effect::CloseKill]
        );
        machine.step(Event::OutputClosed, t);
        assert_eq!(
            finished(&machine.step(Event::Exited(Exit::Signal(10)), at(t, 5))),
            Some(Outcome::Failure)
        );
    }

    #[test]
    fn an_interrupt_that_the_command_survives_is_no_kill() {
        let t = Instant::now();
        let mut machine = Machine::new(Deadline::default());
        machine.step(Event::Kill(KillOrder::Only(Signal::Int)), t);
        assert_eq!(machine.step(Event::Time, at(t, 500)), [Effect::CloseKill]);
        machine.step(Event::OutputClosed, at(t, 9000));
        assert_eq!(
            finished(&machine.step(Event::Exited(Exit::Code(0)), at(t, 9000))),
            Some(Outcome::Success)
        );
    }

    #[test]
    fn the_deadline_holds_after_an_interrupt_that_the_command_survived() {
        let t = Instant::now();
        let mut machine = Machine::new(until(at(t, 3000)));
        machine.step(Event::Kill(KillOrder::Only(Signal::Int)), t);
        machine.step(Event::Time, at(t, 500));
        assert_eq!(machine.next_wake(), Some(at(t, 3000)));
        assert_eq!(
            machine.step(Event::Time, at(t, 3000)),
            [Effect::SignalTree(&[Signal::Term, Signal::Cont])]
        );
        machine.step(Event::Exited(TERM), at(t, 3001));
        machine.step(Event::OutputClosed, at(t, 3001));
        let effects = machine.step(Event::TreeGone, at(t, 3002));
        assert_eq!(finished(&effects), Some(Outcome::Timeout));
    }

    #[test]
    fn a_kill_counts_from_the_last_time_that_somebody_asked() {
        let t = Instant::now();
        let mut machine = Machine::new(Deadline::default());
        machine.step(Event::Kill(KillOrder::Only(Signal::Int)), t);
        machine.step(Event::Time, at(t, 500));
        machine.step(Event::Kill(KillOrder::InOrder), at(t, 60_000));
        machine.step(Event::Exited(TERM), at(t, 60_001));
        machine.step(Event::OutputClosed, at(t, 60_001));
        let effects = machine.step(Event::TreeGone, at(t, 60_002));
        assert_eq!(finished(&effects), Some(Outcome::Killed));
    }

    #[test]
    fn a_shutdown_after_an_interrupt_that_the_command_survived_interrupts_it() {
        let t = Instant::now();
        let mut machine = Machine::new(Deadline::default());
        machine.step(Event::Kill(KillOrder::Only(Signal::Int)), t);
        machine.step(Event::Time, at(t, 500));
        machine.step(Event::Shutdown, at(t, 900));
        machine.step(Event::Exited(TERM), at(t, 901));
        machine.step(Event::OutputClosed, at(t, 901));
        let effects = machine.step(Event::TreeGone, at(t, 902));
        assert_eq!(finished(&effects), Some(Outcome::Interrupted));
    }

    #[test]
    fn an_end_before_the_kill_stands() {
        let t = Instant::now();
        let mut machine = Machine::new(Deadline::default());
        machine.step(Event::Exited(Exit::Code(0)), t);
        machine.step(Event::Kill(KillOrder::InOrder), at(t, 10));
        assert_eq!(
            finished(&machine.step(Event::TreeGone, at(t, 60))),
            Some(Outcome::Success)
        );
    }

    #[test]
    fn a_shutdown_interrupts_with_a_short_grace() {
        let t = Instant::now();
        let mut machine = Machine::new(until(at(t, 60_000)));
        machine.step(Event::Shutdown, t);
        assert_eq!(machine.next_wake(), Some(t + SHUTDOWN_GRACE));
        machine.step(Event::Time, t + SHUTDOWN_GRACE);
        machine.step(Event::OutputClosed, at(t, 501));
        machine.step(Event::Exited(Exit::Signal(9)), at(t, 501));
        assert_eq!(
            finished(&machine.step(Event::TreeGone, at(t, 502))),
            Some(Outcome::Interrupted)
        );
    }

    #[test]
    fn survivors_of_sigkill_end_the_kill_after_the_patience() {
        let t = Instant::now();
        let mut machine = Machine::new(Deadline::default());
        machine.step(Event::Kill(KillOrder::InOrder), t);
        machine.step(Event::Time, t + KILL_GRACE);
        let effects = machine.step(Event::Time, t + KILL_GRACE + KILL_PATIENCE);
        assert_eq!(effects, [Effect::CloseKill]);
        assert!(!machine.finished());
    }

    #[test]
    fn the_deadline_does_not_touch_leftovers() {
        let t = Instant::now();
        let mut machine = Machine::new(until(at(t, 1000)));
        machine.step(Event::Exited(Exit::Code(0)), t);
        machine.step(Event::Time, at(t, 50));
        assert!(machine.finished());
        assert_eq!(machine.next_wake(), None);
        assert_eq!(machine.step(Event::Time, at(t, 5000)), []);
    }
}
