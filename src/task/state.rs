//! The life of one task as a pure machine: events and the time go in, effects come out.
//!
//! It knows when a task is over, when its deadline falls due, how a kill escalates from
//! SIGTERM to SIGKILL, and which outcome all that amounts to. It starts, reads and
//! signals nothing: the worker does. Pure.

use std::time::{Duration, Instant};

use super::request::AtTimeout;
use crate::process::signals::{Exit, Signal};
use crate::shell::outcome::Outcome;

/// After the shell's exit, output that a process holds open is read until it has been silent for
/// this time, and for [`DRAIN_LIMIT`] at most.
pub(crate) const DRAIN_SILENCE: Duration = Duration::from_millis(50);
/// The longest time for which such output is read.
pub(crate) const DRAIN_LIMIT: Duration = Duration::from_millis(250);
/// How long to wait for the end of output that no process holds open. The kernel always reports
/// it, but late if the machine is busy or was suspended.
pub(crate) const END_OF_OUTPUT_PATIENCE: Duration = Duration::from_secs(5);
/// From SIGTERM to SIGKILL.
pub(crate) const KILL_GRACE: Duration = Duration::from_secs(2);
/// From SIGTERM to SIGKILL when the server itself ends, or memory runs out.
pub(crate) const SHUTDOWN_GRACE: Duration = Duration::from_millis(500);
/// After SIGKILL: for how long the tree is scanned for survivors.
pub(crate) const KILL_PATIENCE: Duration = Duration::from_secs(1);
/// How long the receipt of a single signal waits for processes to end.
pub(crate) const SIGNAL_PATIENCE: Duration = Duration::from_millis(500);
/// A shell that ends within this time after a kill request counts as killed by it.
pub(crate) const KILL_CREDIT: Duration = Duration::from_secs(5);

/// The signals that a caller wants sent to a task's processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KillRequest {
    /// SIGTERM and SIGCONT, a grace, then SIGKILL.
    Escalate,
    /// One signal, once.
    Only(Signal),
}

impl KillRequest {
    /// Whether it makes processes end.
    pub fn is_terminating(self) -> bool {
        match self {
            KillRequest::Escalate => true,
            KillRequest::Only(signal) => signal.is_terminating(),
        }
    }
}

/// What the worker has seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TaskEvent {
    Output,
    /// The output has ended: no process holds it open any more.
    OutputClosed,
    /// A scan has found out whether a living process holds the output open.
    OutputHeld(bool),
    Exited(Exit),
    /// A caller has requested a kill.
    Kill(KillRequest),
    Shutdown,
    /// A scan of the tree found no process.
    TreeGone,
    /// A probe has found out whether the command makes progress, or may yet.
    Probed(Health),
    /// The processes occupy more memory than they may.
    OverMemory,
    /// A worker's turn ends.
    Time,
}

/// What the worker must do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Send these, in this order, to every process of the tree and to any that later scans find;
    /// report [`TaskEvent::TreeGone`] when a scan finds none.
    SignalTree(&'static [Signal]),
    /// Send this one signal to each process of the tree, now.
    SignalOnce(Signal),
    /// The kill is over: give the receipt to the calls that wait for it.
    CloseKill,
    /// Find out whether a living process holds the output open; report [`TaskEvent::OutputHeld`].
    SeekHolders,
    /// The task is over.
    Finish {
        exit: Exit,
        /// When it was seen to have ended; the drain afterwards does not count as the command's
        /// time.
        exited: Instant,
        outcome: Outcome,
        /// No process was found that holds the output open, and yet its end has not come.
        output_cut: bool,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cause {
    Deadline,
    Kill { requested: Instant },
    Shutdown,
    Memory,
}

/// Which processes hold the output open after the exit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Holders {
    /// Not known, or output has come since the last scan.
    Unknown,
    /// A scan for them is due.
    Scanning,
    /// There are some: silence decides.
    Present,
    /// There are none: the end of the output decides.
    Absent,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum KillPhase {
    Grace { until: Instant },
    Forced { until: Instant },
    SingleSignal { until: Instant },
}

impl KillPhase {
    fn until(self) -> Instant {
        match self {
            KillPhase::Grace { until }
            | KillPhase::Forced { until }
            | KillPhase::SingleSignal { until } => until,
        }
    }
}

/// When a task is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Deadline {
    #[default]
    Never,
    Fixed(Instant),
    /// At `first`, or later while it makes progress, but not after `latest`.
    Extended {
        first: Instant,
        latest: Instant,
    },
    /// From `first` on, once it is found in trouble; at `answered_by` if it waits for input.
    Judged {
        first: Instant,
        answered_by: Instant,
    },
}

/// How a task is, as far as its deadline depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Health {
    Sound,
    WaitsForInput,
    /// It is stuck, silent or stopped.
    #[default]
    Troubled,
}

impl Deadline {
    /// The deadline of a task that has begun at `start`.
    pub(crate) fn new(start: Instant, timeout: Option<Duration>, then: AtTimeout) -> Deadline {
        let Some(first) = timeout.and_then(|timeout| start.checked_add(timeout)) else {
            return Deadline::Never;
        };
        match then {
            AtTimeout::Kill => Deadline::Fixed(first),
            AtTimeout::Extend(most) => start
                .checked_add(most)
                .map_or(Deadline::Fixed(first), |latest| Deadline::Extended { first, latest }),
            AtTimeout::Judge(most) => {
                start.checked_add(most).map_or(Deadline::Fixed(first), |answered_by| {
                    Deadline::Judged { first, answered_by }
                })
            }
        }
    }

    /// The first moment at which it depends on how the task is.
    pub(crate) fn moving(&self) -> Option<Instant> {
        match self {
            Deadline::Never | Deadline::Fixed(_) => None,
            Deadline::Extended { first, .. } | Deadline::Judged { first, .. } => Some(*first),
        }
    }

    /// When the task will be killed if it stays as it is.
    fn when(&self, health: Health) -> Option<Instant> {
        match (*self, health) {
            (Deadline::Never, _) => None,
            (Deadline::Fixed(at), _) => Some(at),
            (Deadline::Extended { first, latest }, Health::Sound) => Some(latest.max(first)),
            (Deadline::Extended { first, .. }, _) => Some(first),
            (Deadline::Judged { first, .. }, Health::Troubled) => Some(first),
            (Deadline::Judged { first, answered_by }, Health::WaitsForInput) => {
                Some(answered_by.max(first))
            }
            (Deadline::Judged { .. }, Health::Sound) => None,
        }
    }
}

#[derive(Debug)]
pub(crate) struct Machine {
    deadline: Deadline,
    /// By the last probe.
    health: Health,
    exit: Option<(Exit, Instant)>,
    output_open: bool,
    holders: Holders,
    last_output: Option<Instant>,
    /// The server is ending: do not wait for an end of output that may not come.
    shutting_down: bool,
    cause: Option<Cause>,
    kill_phase: Option<KillPhase>,
    finished: bool,
}

impl Machine {
    pub(crate) fn new(deadline: Deadline) -> Machine {
        Machine {
            deadline,
            health: Health::default(),
            exit: None,
            output_open: true,
            holders: Holders::Unknown,
            last_output: None,
            shutting_down: false,
            cause: None,
            kill_phase: None,
            finished: false,
        }
    }

    /// Whether the task is over (its leftovers may still be alive).
    pub(crate) fn finished(&self) -> bool {
        self.finished
    }

    /// Whether the shell has ended.
    pub(crate) fn exited(&self) -> bool {
        self.exit.is_some()
    }

    /// Whether output may still come.
    pub(crate) fn output_open(&self) -> bool {
        self.output_open
    }

    /// When [`TaskEvent::Time`] is due next.
    pub(crate) fn next_wake(&self) -> Option<Instant> {
        let deadline = self.due().filter(|_| self.can_begin_kill());
        [deadline, self.kill_phase.map(KillPhase::until), self.drained_at()]
            .into_iter()
            .flatten()
            .min()
    }

    /// Whether the command runs and nothing is about to end it. A signal that it has survived
    /// changes nothing: deadlines still hold, and the next cause ends it.
    fn can_begin_kill(&self) -> bool {
        self.accepts_cause() && self.kill_phase.is_none()
    }

    /// Whether the command runs, and neither a deadline nor the shutdown has ended it.
    fn accepts_cause(&self) -> bool {
        self.exit.is_none() && matches!(self.cause, None | Some(Cause::Kill { .. }))
    }

    fn due(&self) -> Option<Instant> {
        self.deadline.when(self.health)
    }

    /// When the drain after the exit is over, if it has begun and no kill is under way.
    fn drained_at(&self) -> Option<Instant> {
        let (_, exited) = self.exit?;
        if self.finished || self.kill_phase.is_some() {
            return None;
        }
        match self.holders {
            _ if !self.output_open => return Some(exited),
            Holders::Scanning => return None,
            Holders::Absent if self.shutting_down => return Some(exited),
            Holders::Absent => return Some(exited + END_OF_OUTPUT_PATIENCE),
            Holders::Unknown | Holders::Present => {}
        }
        let quiet_since = self.last_output.map_or(exited, |last| last.max(exited));
        Some((quiet_since + DRAIN_SILENCE).min(exited + DRAIN_LIMIT))
    }

    /// Processes one event. The effects must be carried out in order.
    pub(crate) fn step(&mut self, event: TaskEvent, now: Instant) -> Vec<Effect> {
        let mut effects = Vec::new();
        match event {
            TaskEvent::Output => {
                self.last_output = Some(now);
                if self.holders != Holders::Scanning {
                    self.holders = Holders::Unknown;
                }
            }
            TaskEvent::OutputClosed => self.output_open = false,
            TaskEvent::OutputHeld(false) => self.holders = Holders::Absent,
            TaskEvent::OutputHeld(true) => {
                self.holders = Holders::Present;
                // Output that came during the scan may be the last of a process that held it.
                if self.drained_at().is_some_and(|drained| now < drained) {
                    self.holders = Holders::Unknown;
                }
            }
            TaskEvent::Exited(exit) => {
                if self.exit.is_none() {
                    self.exit = Some((exit, now));
                }
            }
            TaskEvent::Kill(request) => self.kill(request, now, &mut effects),
            TaskEvent::Shutdown => {
                self.shutting_down = true;
                if self.can_begin_kill() {
                    self.cause = Some(Cause::Shutdown);
                }
                // A kill under way gets this grace instead of the rest of its own.
                if !matches!(self.kill_phase, Some(KillPhase::Forced { .. })) {
                    self.terminate(now + SHUTDOWN_GRACE, &mut effects);
                }
            }
            TaskEvent::TreeGone => {
                if self.kill_phase.take().is_some() {
                    effects.push(Effect::CloseKill);
                }
            }
            TaskEvent::Probed(health) => self.health = health,
            TaskEvent::OverMemory => {
                if self.accepts_cause() {
                    self.cause = Some(Cause::Memory);
                    // What grows must not grow for long.
                    self.terminate(now + SHUTDOWN_GRACE, &mut effects);
                }
            }
            // The last event of a worker's turn: any probe that was due before the deadline has
            // been taken.
            TaskEvent::Time => self.check_deadline(now, &mut effects),
        }
        self.pass_time(now, &mut effects);
        effects
    }

    fn kill(&mut self, request: KillRequest, now: Instant, effects: &mut Vec<Effect>) {
        if request.is_terminating() && self.accepts_cause() {
            self.cause = Some(Cause::Kill { requested: now });
        }
        match request {
            KillRequest::Escalate => {
                if !matches!(
                    self.kill_phase,
                    Some(KillPhase::Grace { .. } | KillPhase::Forced { .. })
                ) {
                    self.terminate(now + KILL_GRACE, effects);
                }
            }
            KillRequest::Only(signal) => {
                effects.push(Effect::SignalOnce(signal));
                if self.kill_phase.is_none() {
                    let patience =
                        if signal.is_terminating() { SIGNAL_PATIENCE } else { Duration::ZERO };
                    self.kill_phase = Some(KillPhase::SingleSignal { until: now + patience });
                }
            }
        }
    }

    fn terminate(&mut self, until: Instant, effects: &mut Vec<Effect>) {
        self.kill_phase = Some(KillPhase::Grace { until });
        effects.push(Effect::SignalTree(&[Signal::Term, Signal::Cont]));
    }

    fn check_deadline(&mut self, now: Instant, effects: &mut Vec<Effect>) {
        let due = self.due().is_some_and(|deadline| now >= deadline);
        if due && self.can_begin_kill() {
            self.cause = Some(Cause::Deadline);
            self.terminate(now + KILL_GRACE, effects);
        }
    }

    fn pass_time(&mut self, now: Instant, effects: &mut Vec<Effect>) {
        match self.kill_phase {
            Some(KillPhase::Grace { until }) if now >= until => {
                self.kill_phase = Some(KillPhase::Forced { until: now + KILL_PATIENCE });
                effects.push(Effect::SignalTree(&[Signal::Kill]));
            }
            Some(KillPhase::Forced { until } | KillPhase::SingleSignal { until })
                if now >= until =>
            {
                self.kill_phase = None;
                effects.push(Effect::CloseKill);
            }
            _ => {}
        }
        if let Some((exit, exited)) = self.exit
            && self.drained_at().is_some_and(|drained| now >= drained)
        {
            if self.output_open && self.holders == Holders::Unknown {
                self.holders = Holders::Scanning;
                effects.push(Effect::SeekHolders);
                return;
            }
            self.finished = true;
            effects.push(Effect::Finish {
                exit,
                exited,
                outcome: self.outcome(exit, exited),
                output_cut: self.output_open && self.holders == Holders::Absent,
            });
        }
    }

    /// The exit and outcome if nothing more is learned about the task.
    pub(crate) fn end_so_far(&self) -> (Exit, Outcome) {
        if let Some((exit, exited)) = self.exit {
            return (exit, self.outcome(exit, exited));
        }
        let outcome = match self.cause {
            Some(Cause::Deadline) => Outcome::Timeout,
            Some(Cause::Kill { .. } | Cause::Memory) => Outcome::Killed,
            Some(Cause::Shutdown) | None => Outcome::Interrupted,
        };
        // SIGKILL is the last signal that it was sent, or would have been.
        (Exit::Signal(Signal::Kill.number()), outcome)
    }

    fn outcome(&self, exit: Exit, exited: Instant) -> Outcome {
        match self.cause {
            Some(Cause::Deadline) => Outcome::Timeout,
            Some(Cause::Shutdown) => Outcome::Interrupted,
            Some(Cause::Memory) => Outcome::Killed,
            Some(Cause::Kill { requested }) if exited.duration_since(requested) <= KILL_CREDIT => {
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
    const TERMINATE: Effect = Effect::SignalTree(&[Signal::Term, Signal::Cont]);

    fn at(start: Instant, millis: u64) -> Instant {
        start + Duration::from_millis(millis)
    }

    fn until(first: Instant) -> Deadline {
        Deadline::Fixed(first)
    }

    fn finished(effects: &[Effect]) -> Option<Outcome> {
        effects.iter().find_map(|effect| match effect {
            Effect::Finish { outcome, .. } => Some(*outcome),
            _ => None,
        })
    }

    /// A machine whose output was silent, but open, after exit code 0 at `t`.
    fn silent_after_exit(t: Instant) -> Machine {
        let mut machine = Machine::new(Deadline::default());
        machine.step(TaskEvent::Exited(Exit::Code(0)), t);
        machine.step(TaskEvent::Time, at(t, 50));
        machine
    }

    /// Ends all processes by SIGTERM; returns the outcome.
    fn end_by_term(machine: &mut Machine, now: Instant) -> Option<Outcome> {
        machine.step(TaskEvent::OutputClosed, now);
        machine.step(TaskEvent::Exited(TERM), now);
        finished(&machine.step(TaskEvent::TreeGone, now))
    }

    #[test]
    fn ends_at_once_when_exit_and_end_of_output_agree() {
        let t = Instant::now();
        let mut machine = Machine::new(Deadline::default());
        assert_eq!(machine.step(TaskEvent::OutputClosed, t), []);
        let effects = machine.step(TaskEvent::Exited(Exit::Code(0)), at(t, 3));
        assert_eq!(finished(&effects), Some(Outcome::Success));
        assert!(machine.finished());
    }

    #[test]
    fn output_held_open_delays_the_end_by_the_silence_only() {
        let t = Instant::now();
        let mut machine = Machine::new(Deadline::default());
        assert_eq!(machine.step(TaskEvent::Exited(Exit::Code(4)), t), []);
        assert_eq!(machine.next_wake(), Some(t + DRAIN_SILENCE));
        assert_eq!(machine.step(TaskEvent::Time, at(t, 49)), []);
        assert_eq!(machine.step(TaskEvent::Time, at(t, 50)), [Effect::SeekHolders]);
        assert_eq!(
            finished(&machine.step(TaskEvent::OutputHeld(true), at(t, 51))),
            Some(Outcome::Failure)
        );
    }

    #[test]
    fn output_during_the_scan_for_its_holders_restarts_the_silence() {
        let t = Instant::now();
        let mut machine = silent_after_exit(t);
        assert_eq!(machine.step(TaskEvent::Output, at(t, 52)), []);
        assert_eq!(machine.step(TaskEvent::OutputHeld(true), at(t, 53)), []);
        assert_eq!(machine.step(TaskEvent::Time, at(t, 101)), []);
        assert_eq!(machine.step(TaskEvent::Time, at(t, 102)), [Effect::SeekHolders]);
    }

    #[test]
    fn output_that_nothing_holds_open_is_read_to_its_end() {
        let t = Instant::now();
        let mut machine = silent_after_exit(t);
        assert_eq!(machine.step(TaskEvent::OutputHeld(false), at(t, 51)), []);
        assert_eq!(machine.step(TaskEvent::Time, at(t, 4_999)), []);
        let effects = machine.step(TaskEvent::OutputClosed, at(t, 4_999));
        let expected = Effect::Finish {
            exit: Exit::Code(0),
            exited: t,
            outcome: Outcome::Success,
            output_cut: false,
        };
        assert_eq!(effects, [expected]);
    }

    #[test]
    fn an_end_of_output_that_does_not_come_delays_the_end_by_its_limit_only() {
        let t = Instant::now();
        let mut machine = silent_after_exit(t);
        machine.step(TaskEvent::OutputHeld(false), at(t, 51));
        assert_eq!(machine.next_wake(), Some(t + END_OF_OUTPUT_PATIENCE));
        let effects = machine.step(TaskEvent::Time, t + END_OF_OUTPUT_PATIENCE);
        let expected = Effect::Finish {
            exit: Exit::Code(0),
            exited: t,
            outcome: Outcome::Success,
            output_cut: true,
        };
        assert_eq!(effects, [expected]);
    }

    #[test]
    fn a_shutdown_does_not_wait_for_an_end_of_output() {
        let t = Instant::now();
        let mut machine = silent_after_exit(t);
        machine.step(TaskEvent::OutputHeld(false), at(t, 51));
        machine.step(TaskEvent::Shutdown, at(t, 60));
        let effects = machine.step(TaskEvent::TreeGone, at(t, 61));
        assert_eq!(finished(&effects), Some(Outcome::Success));
    }

    #[test]
    fn a_flood_after_the_exit_delays_the_end_by_the_limit_only() {
        let t = Instant::now();
        let mut machine = Machine::new(Deadline::default());
        machine.step(TaskEvent::Exited(Exit::Code(0)), t);
        for millis in (10..250).step_by(10) {
            assert_eq!(machine.step(TaskEvent::Output, at(t, millis)), []);
        }
        assert_eq!(machine.step(TaskEvent::Output, at(t, 250)), [Effect::SeekHolders]);
        machine.step(TaskEvent::Output, at(t, 252));
        assert_eq!(
            finished(&machine.step(TaskEvent::OutputHeld(true), at(t, 252))),
            Some(Outcome::Success)
        );
    }

    #[test]
    fn the_deadline_terminates_and_then_kills() {
        let t = Instant::now();
        let mut machine = Machine::new(until(at(t, 1000)));
        assert_eq!(machine.next_wake(), Some(at(t, 1000)));
        assert_eq!(machine.step(TaskEvent::Time, at(t, 1000)), [TERMINATE]);
        assert_eq!(machine.next_wake(), Some(at(t, 3000)));
        assert_eq!(
            machine.step(TaskEvent::Time, at(t, 3000)),
            [Effect::SignalTree(&[Signal::Kill])]
        );
        machine.step(TaskEvent::OutputClosed, at(t, 3001));
        assert_eq!(machine.step(TaskEvent::Exited(Exit::Signal(9)), at(t, 3001)), []);
        let effects = machine.step(TaskEvent::TreeGone, at(t, 3002));
        assert_eq!(effects.first(), Some(&Effect::CloseKill));
        assert_eq!(finished(&effects), Some(Outcome::Timeout));
    }

    fn moving(t: Instant) -> Machine {
        Machine::new(Deadline::Extended { first: at(t, 1000), latest: at(t, 9000) })
    }

    #[test]
    fn progress_extends_a_deadline_up_to_the_latest() {
        let t = Instant::now();
        let mut machine = moving(t);
        machine.step(TaskEvent::Probed(Health::Sound), at(t, 900));
        assert_eq!(machine.next_wake(), Some(at(t, 9000)));
        assert_eq!(machine.step(TaskEvent::Time, at(t, 1000)), []);
        assert_eq!(machine.step(TaskEvent::Probed(Health::Sound), at(t, 8999)), []);
        assert_eq!(machine.step(TaskEvent::Time, at(t, 9000)), [TERMINATE]);
        assert_eq!(end_by_term(&mut machine, at(t, 9001)), Some(Outcome::Timeout));
    }

    #[test]
    fn a_command_without_progress_ends_at_its_deadline() {
        let t = Instant::now();
        let (sound, troubled) = (Health::Sound, Health::Troubled);
        for probes in [vec![], vec![troubled], vec![sound, troubled]] {
            let mut machine = moving(t);
            for health in probes {
                machine.step(TaskEvent::Probed(health), at(t, 900));
            }
            assert_eq!(machine.next_wake(), Some(at(t, 1000)));
            assert_eq!(machine.step(TaskEvent::Time, at(t, 1000)), [TERMINATE]);
        }
    }

    #[test]
    fn a_command_whose_progress_ends_after_its_deadline_ends_then() {
        let t = Instant::now();
        let mut machine = moving(t);
        machine.step(TaskEvent::Probed(Health::Sound), at(t, 900));
        machine.step(TaskEvent::Time, at(t, 1000));
        machine.step(TaskEvent::Probed(Health::Troubled), at(t, 4000));
        assert_eq!(machine.step(TaskEvent::Time, at(t, 4000)), [TERMINATE]);
    }

    #[test]
    fn an_old_probe_does_not_end_a_command_with_late_output() {
        let t = Instant::now();
        let mut machine = moving(t);
        machine.step(TaskEvent::Probed(Health::Troubled), at(t, 100));
        // The worker was held up: output is in the pipe, and a probe is due.
        assert_eq!(machine.step(TaskEvent::Output, at(t, 1500)), []);
        machine.step(TaskEvent::Probed(Health::Sound), at(t, 1500));
        assert_eq!(machine.step(TaskEvent::Time, at(t, 1500)), []);
    }

    #[test]
    fn a_judged_deadline_ends_only_what_is_found_in_trouble() {
        let t = Instant::now();
        let judged =
            || Machine::new(Deadline::Judged { first: at(t, 1000), answered_by: at(t, 9000) });
        let mut sound = judged();
        sound.step(TaskEvent::Probed(Health::Sound), at(t, 900));
        assert_eq!(sound.next_wake(), None);
        assert_eq!(sound.step(TaskEvent::Time, at(t, 50_000)), []);
        // Found in trouble later, it ends then.
        sound.step(TaskEvent::Probed(Health::Troubled), at(t, 50_001));
        assert_eq!(sound.step(TaskEvent::Time, at(t, 50_001)), [TERMINATE]);
        assert_eq!(end_by_term(&mut sound, at(t, 50_002)), Some(Outcome::Timeout));
        // A question that is not answered ends at the longest deadline; one that is, does not.
        let mut asking = judged();
        asking.step(TaskEvent::Probed(Health::WaitsForInput), at(t, 900));
        assert_eq!(asking.next_wake(), Some(at(t, 9000)));
        assert_eq!(asking.step(TaskEvent::Time, at(t, 1000)), []);
        assert_eq!(asking.step(TaskEvent::Time, at(t, 9000)), [TERMINATE]);
        let mut answered = judged();
        answered.step(TaskEvent::Probed(Health::WaitsForInput), at(t, 900));
        answered.step(TaskEvent::Probed(Health::Sound), at(t, 8000));
        assert_eq!(answered.step(TaskEvent::Time, at(t, 9000)), []);
        // Without any evidence it ends at the first.
        assert_eq!(judged().step(TaskEvent::Time, at(t, 1000)), [TERMINATE]);
    }

    #[test]
    fn too_much_memory_ends_a_task_as_killed_soon() {
        let t = Instant::now();
        let mut machine = Machine::new(Deadline::Never);
        assert_eq!(machine.step(TaskEvent::OverMemory, at(t, 10)), [TERMINATE]);
        assert_eq!(machine.step(TaskEvent::OverMemory, at(t, 11)), [], "once");
        assert_eq!(machine.next_wake(), Some(at(t, 10) + SHUTDOWN_GRACE));
        assert_eq!(end_by_term(&mut machine, at(t, 20)), Some(Outcome::Killed));
        // The kernel was faster.
        let mut gone = Machine::new(Deadline::Never);
        gone.step(TaskEvent::OverMemory, at(t, 10));
        assert_eq!(end_by_term(&mut gone, at(t, 10)), Some(Outcome::Killed));
    }

    #[test]
    fn progress_does_not_extend_a_fixed_deadline() {
        let t = Instant::now();
        let mut machine = Machine::new(until(at(t, 1000)));
        machine.step(TaskEvent::Probed(Health::Sound), at(t, 900));
        assert_eq!(machine.step(TaskEvent::Time, at(t, 1000)), [TERMINATE]);
    }

    #[test]
    fn the_end_waits_for_a_kill_that_is_under_way() {
        let t = Instant::now();
        let mut machine = Machine::new(Deadline::default());
        machine.step(TaskEvent::Kill(KillRequest::Escalate), t);
        machine.step(TaskEvent::OutputClosed, at(t, 1));
        assert_eq!(machine.step(TaskEvent::Exited(TERM), at(t, 1)), []);
        assert_eq!(finished(&machine.step(TaskEvent::TreeGone, at(t, 2))), Some(Outcome::Killed));
    }

    #[test]
    fn signals_that_do_not_end_change_no_outcome() {
        let t = Instant::now();
        let mut machine = Machine::new(Deadline::default());
        let effects = machine.step(TaskEvent::Kill(KillRequest::Only(Signal::Usr1)), t);
        assert_eq!(effects, [Effect::SignalOnce(Signal::Usr1), Effect::CloseKill]);
        machine.step(TaskEvent::OutputClosed, t);
        assert_eq!(
            finished(&machine.step(TaskEvent::Exited(Exit::Signal(10)), at(t, 5))),
            Some(Outcome::Failure)
        );
    }

    #[test]
    fn an_interrupt_that_the_command_survives_is_no_kill() {
        let t = Instant::now();
        let mut machine = Machine::new(Deadline::default());
        machine.step(TaskEvent::Kill(KillRequest::Only(Signal::Int)), t);
        assert_eq!(machine.step(TaskEvent::Time, at(t, 500)), [Effect::CloseKill]);
        machine.step(TaskEvent::OutputClosed, at(t, 9000));
        assert_eq!(
            finished(&machine.step(TaskEvent::Exited(Exit::Code(0)), at(t, 9000))),
            Some(Outcome::Success)
        );
    }

    #[test]
    fn the_deadline_holds_after_an_interrupt_that_the_command_survived() {
        let t = Instant::now();
        let mut machine = Machine::new(until(at(t, 3000)));
        machine.step(TaskEvent::Kill(KillRequest::Only(Signal::Int)), t);
        machine.step(TaskEvent::Time, at(t, 500));
        assert_eq!(machine.next_wake(), Some(at(t, 3000)));
        assert_eq!(machine.step(TaskEvent::Time, at(t, 3000)), [TERMINATE]);
        assert_eq!(end_by_term(&mut machine, at(t, 3001)), Some(Outcome::Timeout));
    }

    #[test]
    fn a_kill_counts_from_the_last_request() {
        let t = Instant::now();
        let mut machine = Machine::new(Deadline::default());
        machine.step(TaskEvent::Kill(KillRequest::Only(Signal::Int)), t);
        machine.step(TaskEvent::Time, at(t, 500));
        machine.step(TaskEvent::Kill(KillRequest::Escalate), at(t, 60_000));
        assert_eq!(end_by_term(&mut machine, at(t, 60_001)), Some(Outcome::Killed));
    }

    #[test]
    fn a_shutdown_after_an_interrupt_that_the_command_survived_interrupts_it() {
        let t = Instant::now();
        let mut machine = Machine::new(Deadline::default());
        machine.step(TaskEvent::Kill(KillRequest::Only(Signal::Int)), t);
        machine.step(TaskEvent::Time, at(t, 500));
        machine.step(TaskEvent::Shutdown, at(t, 900));
        assert_eq!(end_by_term(&mut machine, at(t, 901)), Some(Outcome::Interrupted));
    }

    #[test]
    fn an_end_before_the_kill_keeps_its_outcome() {
        let t = Instant::now();
        let mut machine = Machine::new(Deadline::default());
        machine.step(TaskEvent::Exited(Exit::Code(0)), t);
        machine.step(TaskEvent::Kill(KillRequest::Escalate), at(t, 10));
        let effects = machine.step(TaskEvent::TreeGone, at(t, 60));
        assert_eq!(effects, [Effect::CloseKill, Effect::SeekHolders]);
        assert_eq!(
            finished(&machine.step(TaskEvent::OutputHeld(true), at(t, 60))),
            Some(Outcome::Success)
        );
    }

    #[test]
    fn a_shutdown_interrupts_with_a_short_grace() {
        let t = Instant::now();
        let mut machine = Machine::new(until(at(t, 60_000)));
        machine.step(TaskEvent::Shutdown, t);
        assert_eq!(machine.next_wake(), Some(t + SHUTDOWN_GRACE));
        machine.step(TaskEvent::Time, t + SHUTDOWN_GRACE);
        machine.step(TaskEvent::OutputClosed, at(t, 501));
        machine.step(TaskEvent::Exited(Exit::Signal(9)), at(t, 501));
        assert_eq!(
            finished(&machine.step(TaskEvent::TreeGone, at(t, 502))),
            Some(Outcome::Interrupted)
        );
    }

    #[test]
    fn survivors_of_sigkill_end_the_kill_after_the_patience() {
        let t = Instant::now();
        let mut machine = Machine::new(Deadline::default());
        machine.step(TaskEvent::Kill(KillRequest::Escalate), t);
        machine.step(TaskEvent::Time, t + KILL_GRACE);
        let effects = machine.step(TaskEvent::Time, t + KILL_GRACE + KILL_PATIENCE);
        assert_eq!(effects, [Effect::CloseKill]);
        assert!(!machine.finished());
    }

    #[test]
    fn the_deadline_does_not_touch_leftovers() {
        let t = Instant::now();
        let mut machine = Machine::new(until(at(t, 1000)));
        machine.step(TaskEvent::Exited(Exit::Code(0)), t);
        machine.step(TaskEvent::Time, at(t, 50));
        machine.step(TaskEvent::OutputHeld(true), at(t, 50));
        assert!(machine.finished());
        assert_eq!(machine.next_wake(), None);
        assert_eq!(machine.step(TaskEvent::Time, at(t, 5000)), []);
    }
}
