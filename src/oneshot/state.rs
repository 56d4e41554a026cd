//! The state machine of an agent run: every way from one state to another. Pure.
//!
//! A run is at a [`Position`]: a stage with the data that its next step depends on, and
//! how many iterations it has had. [`step`] takes it on by one [`Event`] and says what is
//! to be done there; what a state does not take is [`Invalid`] and changes nothing.
//! [`Position::replay`] finds the position again from the history that a run's files hold,
//! by the same function.
//!
//! Limits: knows no agent, no file and no clock.

use std::num::NonZeroU32;

pub use super::event::{Action, Event, StuckPolicy};
pub use super::reason::{Crash, Reason};
pub use super::stage::{Active, Audit, Cause, Role, Stage, State};
use crate::agent::activity::AgentError;

/// What the first line of an empty feedback is.
const NO_FEEDBACK: &str = "the auditor gave no reason";

/// Where a run is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Position {
    /// Its stage.
    pub stage: Stage,
    /// The number of the iteration that runs or ran last, from 1; 0 before the first. One
    /// that an interrupt or the end of the runner cost is not counted: its number is
    /// given again.
    pub iteration: u32,
    /// How many iterations there may be.
    pub maximum: NonZeroU32,
}

impl Position {
    /// A run that has just been created.
    pub fn created(maximum: NonZeroU32) -> Position {
        Position {
            stage: Stage::Active(Active::Created),
            iteration: 0,
            maximum,
        }
    }

    /// The name of its state.
    pub fn state(&self) -> State {
        self.stage.state()
    }

    /// What is to be done there. An agent is never started twice for one entry of the
    /// history: who finds a run in `*_EXECUTING` has to ask [`resume`] what has become of
    /// it.
    pub fn action(&self) -> Action {
        match &self.stage {
            Stage::Active(Active::Created) => Action::Take(Event::Start),
            Stage::Active(Active::WorkerExecuting) => Action::RunWorker,
            Stage::Active(Active::RecoveryPending(_)) => Action::Recover,
            Stage::Active(Active::AuditPending(_)) => Action::Take(Event::Next),
            Stage::Active(Active::AuditorExecuting(audit)) => Action::RunAuditor(*audit),
            Stage::Active(Active::ReiterationPending) => Action::Take(match self.is_used_up() {
                true => Event::MaxIterations,
                false => Event::Next,
            }),
            Stage::Interrupted { .. }
            | Stage::Completed
            | Stage::Rejected(_)
            | Stage::Failed(_) => Action::Stop,
        }
    }

    /// Whether there is no iteration left.
    fn is_used_up(&self) -> bool {
        self.iteration >= self.maximum.get()
    }

    fn at(&self, stage: Stage) -> Position {
        Position {
            stage,
            ..self.clone()
        }
    }

    /// The worker runs, once more.
    fn in_next_iteration(&self) -> Position {
        Position {
            iteration: self.iteration.saturating_add(1),
            ..self.at(Stage::Active(Active::WorkerExecuting))
        }
    }

    /// The iteration is over without an audit.
    fn after_recovery(&self, cause: &Cause) -> Position {
        let uncounted = u32::from(!cause.counts());
        Position {
            iteration: self.iteration.saturating_sub(uncounted),
            ..self.at(Stage::Active(Active::ReiterationPending))
        }
    }

    /// The position at the end of a history, oldest entry first.
    ///
    /// # Errors
    /// When no run can have had this history; [`Unreplayable::entry`] counts from 0.
    pub fn replay<'a>(
        maximum: NonZeroU32,
        history: impl IntoIterator<Item = (State, Option<&'a Reason>)>,
    ) -> Result<Position, Unreplayable> {
        let mut position: Option<Position> = None;
        for (entry, (state, reason)) in history.into_iter().enumerate() {
            let next = match &position {
                None => (state == State::Created).then(|| Position::created(maximum)),
                Some(before) => before.then(state, reason),
            };
            position = Some(next.ok_or(Unreplayable { entry, state })?);
        }
        position.ok_or(Unreplayable {
            entry: 0,
            state: State::Created,
        })
    }

    /// The position after one more entry of the history; `None` when no event leads there.
    pub fn then(&self, state: State, reason: Option<&Reason>) -> Option<Position> {
        let written = reason.map(Reason::to_string);
        let arrives = |next: &Position| {
            let found = next.stage.reason().map(|reason| reason.to_string());
            next.state() == state && found == written
        };
        // Whatever maximum the run had then: a resume may have changed it.
        [NonZeroU32::MIN, NonZeroU32::MAX]
            .into_iter()
            .flat_map(|maximum| {
                let before = Position {
                    maximum,
                    ..self.clone()
                };
                let steps = events_for(reason).into_iter();
                steps.filter_map(move |event| step(&before, &event).ok())
            })
            .find(|(next, action)| arrives(next) && *action != Action::ReadVerdict)
            .map(|(next, _)| Position {
                maximum: self.maximum,
                ..next
            })
    }
}

/// Every event that may have led to an entry with this reason.
fn events_for(reason: Option<&Reason>) -> Vec<Event> {
    let mut events = vec![
        Event::Start,
        Event::Exit0,
        Event::Inactivity,
        Event::Stuck(StuckPolicy::Recover),
        Event::Stuck(StuckPolicy::Fail),
        Event::ExitHang,
        Event::SupervisorDied,
        Event::SpawnFailed,
        Event::Cancel,
        Event::MaxRuntime,
        Event::RecoverySuccess,
        Event::RecoveryPartial,
        Event::RecoveryNothing,
        Event::Next,
        Event::MaxIterations,
        Event::Done,
        Event::Retry,
        Event::NoVerdict,
        Event::Resume {
            maximum: Some(NonZeroU32::MAX),
        },
    ];
    events.extend(reason.map(|reason| Event::Impossible {
        feedback: reason.to_string(),
    }));
    let of_reason = match reason {
        Some(Reason::Signal(signal)) => {
            events.push(Event::Interrupt(*signal));
            Some(Event::Crash(Crash::Signal(*signal)))
        }
        Some(Reason::ExitCode(code)) => Some(Event::Crash(Crash::ExitCode(*code))),
        Some(Reason::ConnectionRefused) => Some(Event::AgentError(AgentError::ConnectionRefused)),
        Some(Reason::AuthFailed) => Some(Event::AgentError(AgentError::AuthFailed)),
        Some(Reason::ApiError) => Some(Event::AgentError(AgentError::ApiError)),
        Some(Reason::ToolError) => Some(Event::AgentError(AgentError::ToolError)),
        _ => None,
    };
    events.extend(of_reason);
    events
}

/// An event that a state does not take.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a run in the state {state} does not take the event {event:?}")]
pub struct Invalid {
    /// Where the run is, and stays.
    pub state: State,
    /// What it was told.
    pub event: Event,
}

/// A history that no run can have had.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("entry {entry} of the history, {state}, cannot follow what is before it")]
pub struct Unreplayable {
    /// Its place, from 0.
    pub entry: usize,
    /// The state that does not fit.
    pub state: State,
}

/// Takes a run on by one event, and says what is to be done then.
///
/// # Errors
/// When the state does not take the event.
pub fn step(position: &Position, event: &Event) -> Result<(Position, Action), Invalid> {
    let arrived = match &position.stage {
        Stage::Active(active) => from_active(position, active, event),
        Stage::Interrupted { before, .. } => from_interrupted(position, before, event),
        Stage::Failed(Reason::MaxIterations) => from_out_of_iterations(position, event),
        Stage::Failed(_) | Stage::Completed | Stage::Rejected(_) => None,
    };
    let (next, action) = arrived.ok_or_else(|| Invalid {
        state: position.state(),
        event: event.clone(),
    })?;
    let action = action.unwrap_or_else(|| next.action());
    Ok((next, action))
}

/// Where an event leads, and what is to be done if it is not the usual there.
type Arrival = Option<(Position, Option<Action>)>;

fn from_active(position: &Position, active: &Active, event: &Event) -> Arrival {
    let failed = |reason| position.at(Stage::Failed(reason));
    let next = match event {
        Event::Cancel => failed(Reason::UserCancelled),
        Event::MaxRuntime => failed(Reason::MaxRuntime),
        Event::Interrupt(signal) => position.at(Stage::Interrupted {
            signal: *signal,
            before: active.clone(),
        }),
        Event::ExitHang if matches!(active, Active::AuditorExecuting(_)) => {
            return Some((position.clone(), Some(Action::ReadVerdict)));
        }
        event => match active {
            Active::Created => from_created(position, event)?,
            Active::WorkerExecuting => position.at(from_worker(event)?),
            Active::RecoveryPending(cause) => from_recovery(position, cause, event)?,
            Active::AuditPending(audit) => position.at(from_audit_pending(*audit, event)?),
            Active::AuditorExecuting(audit) => position.at(from_auditor(*audit, event)?),
            Active::ReiterationPending => from_reiteration(position, event)?,
        },
    };
    Some((next, None))
}

fn from_created(position: &Position, event: &Event) -> Option<Position> {
    match event {
        Event::Start => Some(position.in_next_iteration()),
        _ => None,
    }
}

fn from_worker(event: &Event) -> Option<Stage> {
    let recover = |reason| Stage::Active(Active::RecoveryPending(Cause::Worker(reason)));
    Some(match event {
        Event::Exit0 => Stage::Active(Active::AuditPending(Audit::First)),
        Event::Crash(crash) => recover(Reason::from(*crash)),
        Event::Inactivity => recover(Reason::InactivityTimeout),
        Event::Stuck(StuckPolicy::Recover) => recover(Reason::StuckConfirmed),
        Event::Stuck(StuckPolicy::Fail) => Stage::Failed(Reason::StuckConfirmed),
        Event::AgentError(fault) => recover(Reason::from(*fault)),
        Event::ExitHang => recover(Reason::ExitHang),
        Event::SupervisorDied => Stage::Active(Active::RecoveryPending(Cause::SupervisorDied)),
        Event::SpawnFailed => Stage::Failed(Reason::SpawnFailed),
        _ => return None,
    })
}

fn from_recovery(position: &Position, cause: &Cause, event: &Event) -> Option<Position> {
    match event {
        Event::RecoverySuccess => {
            Some(position.at(Stage::Active(Active::AuditPending(Audit::First))))
        }
        Event::RecoveryPartial => Some(position.after_recovery(cause)),
        Event::RecoveryNothing => Some(match cause {
            Cause::Worker(reason) => position.at(Stage::Failed(reason.clone())),
            // The run is healthy: the worker was not given the time.
            Cause::Interrupt(_) | Cause::SupervisorDied => position.after_recovery(cause),
        }),
        _ => None,
    }
}

fn from_audit_pending(audit: Audit, event: &Event) -> Option<Stage> {
    match event {
        Event::Next => Some(Stage::Active(Active::AuditorExecuting(audit))),
        _ => None,
    }
}

fn from_auditor(audit: Audit, event: &Event) -> Option<Stage> {
    Some(match event {
        Event::Done => Stage::Completed,
        Event::Retry => Stage::Active(Active::ReiterationPending),
        Event::Impossible { feedback } => Stage::Rejected(first_line(feedback)),
        Event::NoVerdict => match audit {
            Audit::First => Stage::Active(Active::AuditPending(Audit::Reminded)),
            Audit::Reminded => Stage::Failed(Reason::NoVerdict),
        },
        Event::Crash(crash) => Stage::Failed(Reason::from(*crash)),
        Event::Inactivity => Stage::Failed(Reason::InactivityTimeout),
        Event::Stuck(_) => Stage::Failed(Reason::StuckConfirmed),
        Event::AgentError(fault) => Stage::Failed(Reason::from(*fault)),
        Event::SupervisorDied => Stage::Active(Active::AuditPending(audit)),
        Event::SpawnFailed => Stage::Failed(Reason::SpawnFailed),
        _ => return None,
    })
}

fn from_reiteration(position: &Position, event: &Event) -> Option<Position> {
    match (event, position.is_used_up()) {
        (Event::Next, false) => Some(position.in_next_iteration()),
        (Event::MaxIterations, true) => Some(position.at(Stage::Failed(Reason::MaxIterations))),
        _ => None,
    }
}

fn from_interrupted(position: &Position, before: &Active, event: &Event) -> Arrival {
    let next = match event {
        Event::Cancel => position.at(Stage::Failed(Reason::UserCancelled)),
        Event::MaxRuntime => position.at(Stage::Failed(Reason::MaxRuntime)),
        Event::Resume { maximum } => Position {
            stage: Stage::Active(after_interrupt(&position.stage, before)),
            maximum: maximum.unwrap_or(position.maximum),
            ..position.clone()
        },
        _ => return None,
    };
    Some((next, None))
}

/// The stage in which an interrupted run goes on.
fn after_interrupt(interrupted: &Stage, before: &Active) -> Active {
    match (before, interrupted) {
        (Active::WorkerExecuting, Stage::Interrupted { signal, .. }) => {
            Active::RecoveryPending(Cause::Interrupt(*signal))
        }
        (Active::AuditorExecuting(audit), _) => Active::AuditPending(*audit),
        (pending, _) => pending.clone(),
    }
}

fn from_out_of_iterations(position: &Position, event: &Event) -> Arrival {
    let Event::Resume {
        maximum: Some(maximum),
    } = event
    else {
        return None;
    };
    let is_larger = *maximum > position.maximum && maximum.get() > position.iteration;
    is_larger.then(|| {
        let next = Position {
            maximum: *maximum,
            ..position.at(Stage::Active(Active::ReiterationPending))
        };
        (next, None)
    })
}

/// The first line of a text that has anything in it.
fn first_line(text: &str) -> String {
    let line = text.lines().map(str::trim).find(|line| !line.is_empty());
    line.unwrap_or(NO_FEEDBACK).to_owned()
}

/// Why a run is not resumed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotResumable {
    /// There is nothing left to do.
    #[error("the run is COMPLETED: start a new one")]
    Completed,
    /// It would be refused again.
    #[error(
        "the run is REJECTED ({0}): resuming would only repeat that; start a new run with \
         another prompt"
    )]
    Rejected(String),
    /// It has used up its iterations.
    #[error(
        "the run is FAILED (max_iterations): give more than its {0} iterations with \
         --max-iterations"
    )]
    OutOfIterations(NonZeroU32),
    /// It failed.
    #[error("the run is FAILED ({0}): start a new one")]
    Failed(Reason),
}

/// How a run that nobody runs is taken up again: its position with the new maximum, if
/// one is given, and the event to begin with; without one its [`Position::action`] is to
/// be done.
///
/// # Errors
/// When its state is final.
pub fn resume(
    position: &Position,
    maximum: Option<NonZeroU32>,
) -> Result<(Position, Option<Event>), NotResumable> {
    let event = match &position.stage {
        Stage::Completed => return Err(NotResumable::Completed),
        Stage::Rejected(line) => return Err(NotResumable::Rejected(line.clone())),
        Stage::Failed(Reason::MaxIterations) => {
            let event = Event::Resume { maximum };
            if step(position, &event).is_err() {
                let enough = position.maximum.get().max(position.iteration);
                let enough = NonZeroU32::new(enough).unwrap_or(position.maximum);
                return Err(NotResumable::OutOfIterations(enough));
            }
            return Ok((position.clone(), Some(event)));
        }
        Stage::Failed(reason) => return Err(NotResumable::Failed(reason.clone())),
        Stage::Interrupted { .. } => {
            return Ok((position.clone(), Some(Event::Resume { maximum })));
        }
        Stage::Active(_) => position
            .state()
            .is_executing()
            .then_some(Event::SupervisorDied),
    };
    let position = Position {
        maximum: maximum.unwrap_or(position.maximum),
        ..position.clone()
    };
    Ok((position, event))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const FIVE: NonZeroU32 = NonZeroU32::new(5).unwrap();
    const TERM: i32 = 15;

    fn at(stage: Stage) -> Position {
        Position {
            stage,
            iteration: 2,
            maximum: FIVE,
        }
    }

    fn active(active: Active) -> Stage {
        Stage::Active(active)
    }

    fn interrupted(before: Active) -> Stage {
        Stage::Interrupted {
            signal: TERM,
            before,
        }
    }

    fn recovery(cause: Cause) -> Stage {
        active(Active::RecoveryPending(cause))
    }

    fn crashed() -> Cause {
        Cause::Worker(Reason::ExitCode(7))
    }

    fn resumed() -> Event {
        Event::Resume { maximum: None }
    }

    fn impossible() -> Event {
        Event::Impossible {
            feedback: "\n no card \nmore".to_owned(),
        }
    }

    /// Every stage that the rules tell apart, in the second of five iterations.
    fn stages() -> Vec<Stage> {
        let pending = || {
            vec![
                Active::Created,
                Active::WorkerExecuting,
                Active::RecoveryPending(crashed()),
                Active::RecoveryPending(Cause::Interrupt(TERM)),
                Active::RecoveryPending(Cause::SupervisorDied),
                Active::AuditPending(Audit::First),
                Active::AuditPending(Audit::Reminded),
                Active::AuditorExecuting(Audit::First),
                Active::AuditorExecuting(Audit::Reminded),
                Active::ReiterationPending,
            ]
        };
        let mut stages: Vec<Stage> = pending().into_iter().map(Stage::Active).collect();
        stages.extend(pending().into_iter().map(interrupted));
        stages.extend([
            Stage::Completed,
            Stage::Rejected("no".to_owned()),
            Stage::Failed(Reason::ExitCode(7)),
            Stage::Failed(Reason::MaxIterations),
            Stage::Failed(Reason::MaxRuntime),
        ]);
        stages
    }

    fn events() -> Vec<Event> {
        vec![
            Event::Start,
            Event::Exit0,
            Event::Crash(Crash::ExitCode(7)),
            Event::Crash(Crash::Signal(11)),
            Event::Inactivity,
            Event::Stuck(StuckPolicy::Recover),
            Event::Stuck(StuckPolicy::Fail),
            Event::AgentError(AgentError::ConnectionRefused),
            Event::AgentError(AgentError::AuthFailed),
            Event::AgentError(AgentError::ApiError),
            Event::AgentError(AgentError::ToolError),
            Event::ExitHang,
            Event::SupervisorDied,
            Event::SpawnFailed,
            Event::Interrupt(TERM),
            Event::Cancel,
            Event::MaxRuntime,
            Event::RecoverySuccess,
            Event::RecoveryPartial,
            Event::RecoveryNothing,
            Event::Next,
            Event::MaxIterations,
            Event::Done,
            Event::Retry,
            impossible(),
            Event::NoVerdict,
            resumed(),
            Event::Resume {
                maximum: NonZeroU32::new(9),
            },
        ]
    }

    /// The whole table, row by row: where a stage goes by an event, and the number of the
    /// iteration there. A row that is missing is an event that is refused.
    fn table() -> Vec<(Stage, Event, Stage, u32)> {
        use Active::*;
        let worker = || active(WorkerExecuting);
        let auditor = |audit| active(AuditorExecuting(audit));
        let audit = |audit| active(AuditPending(audit));
        let because = |reason| recovery(Cause::Worker(reason));
        let failed = Stage::Failed;
        let (first, reminded) = (Audit::First, Audit::Reminded);
        let died = || Cause::SupervisorDied;
        let paused = || Cause::Interrupt(TERM);
        let crash = |code| Event::Crash(Crash::ExitCode(code));
        let killed = Event::Crash(Crash::Signal(11));
        let error = Event::AgentError;
        let more = || Event::Resume {
            maximum: NonZeroU32::new(9),
        };
        let mut rows = vec![
            (active(Created), Event::Start, worker(), 3),
            // The worker.
            (worker(), Event::Exit0, audit(first), 2),
            (worker(), crash(7), because(Reason::ExitCode(7)), 2),
            (worker(), killed.clone(), because(Reason::Signal(11)), 2),
            (
                worker(),
                Event::Inactivity,
                because(Reason::InactivityTimeout),
                2,
            ),
            (
                worker(),
                Event::Stuck(StuckPolicy::Recover),
                because(Reason::StuckConfirmed),
                2,
            ),
            (
                worker(),
                Event::Stuck(StuckPolicy::Fail),
                failed(Reason::StuckConfirmed),
                2,
            ),
            (
                worker(),
                error(AgentError::ConnectionRefused),
                because(Reason::ConnectionRefused),
                2,
            ),
            (
                worker(),
                error(AgentError::AuthFailed),
                because(Reason::AuthFailed),
                2,
            ),
            (
                worker(),
                error(AgentError::ApiError),
                because(Reason::ApiError),
                2,
            ),
            (
                worker(),
                error(AgentError::ToolError),
                because(Reason::ToolError),
                2,
            ),
            (worker(), Event::ExitHang, because(Reason::ExitHang), 2),
            (worker(), Event::SupervisorDied, recovery(died()), 2),
            (worker(), Event::SpawnFailed, failed(Reason::SpawnFailed), 2),
            // The recovery.
            (recovery(crashed()), Event::RecoverySuccess, audit(first), 2),
            (recovery(paused()), Event::RecoverySuccess, audit(first), 2),
            (recovery(died()), Event::RecoverySuccess, audit(first), 2),
            (
                recovery(crashed()),
                Event::RecoveryPartial,
                active(ReiterationPending),
                2,
            ),
            (
                recovery(paused()),
                Event::RecoveryPartial,
                active(ReiterationPending),
                1,
            ),
            (
                recovery(died()),
                Event::RecoveryPartial,
                active(ReiterationPending),
                1,
            ),
            (
                recovery(crashed()),
                Event::RecoveryNothing,
                failed(Reason::ExitCode(7)),
                2,
            ),
            (
                recovery(paused()),
                Event::RecoveryNothing,
                active(ReiterationPending),
                1,
            ),
            (
                recovery(died()),
                Event::RecoveryNothing,
                active(ReiterationPending),
                1,
            ),
            // The audit.
            (audit(first), Event::Next, auditor(first), 2),
            (audit(reminded), Event::Next, auditor(reminded), 2),
            (auditor(first), Event::NoVerdict, audit(reminded), 2),
            (
                auditor(reminded),
                Event::NoVerdict,
                failed(Reason::NoVerdict),
                2,
            ),
            // The next iteration.
            (active(ReiterationPending), Event::Next, worker(), 3),
            // What needs a larger maximum.
            (
                failed(Reason::MaxIterations),
                more(),
                active(ReiterationPending),
                2,
            ),
        ];
        for which in [first, reminded] {
            let from = || auditor(which);
            rows.extend([
                (from(), Event::Done, Stage::Completed, 2),
                (from(), Event::Retry, active(ReiterationPending), 2),
                (
                    from(),
                    impossible(),
                    Stage::Rejected("no card".to_owned()),
                    2,
                ),
                (from(), crash(7), failed(Reason::ExitCode(7)), 2),
                (from(), killed.clone(), failed(Reason::Signal(11)), 2),
                (
                    from(),
                    Event::Inactivity,
                    failed(Reason::InactivityTimeout),
                    2,
                ),
                (
                    from(),
                    Event::Stuck(StuckPolicy::Recover),
                    failed(Reason::StuckConfirmed),
                    2,
                ),
                (
                    from(),
                    Event::Stuck(StuckPolicy::Fail),
                    failed(Reason::StuckConfirmed),
                    2,
                ),
                (
                    from(),
                    error(AgentError::ConnectionRefused),
                    failed(Reason::ConnectionRefused),
                    2,
                ),
                (
                    from(),
                    error(AgentError::AuthFailed),
                    failed(Reason::AuthFailed),
                    2,
                ),
                (
                    from(),
                    error(AgentError::ApiError),
                    failed(Reason::ApiError),
                    2,
                ),
                (
                    from(),
                    error(AgentError::ToolError),
                    failed(Reason::ToolError),
                    2,
                ),
                (from(), Event::ExitHang, from(), 2),
                (from(), Event::SupervisorDied, audit(which), 2),
                (from(), Event::SpawnFailed, failed(Reason::SpawnFailed), 2),
            ]);
        }
        // Pauses, and how it goes on after them.
        for (before, after) in [
            (Created, Created),
            (WorkerExecuting, RecoveryPending(paused())),
            (RecoveryPending(crashed()), RecoveryPending(crashed())),
            (RecoveryPending(paused()), RecoveryPending(paused())),
            (RecoveryPending(died()), RecoveryPending(died())),
            (AuditPending(first), AuditPending(first)),
            (AuditPending(reminded), AuditPending(reminded)),
            (AuditorExecuting(first), AuditPending(first)),
            (AuditorExecuting(reminded), AuditPending(reminded)),
            (ReiterationPending, ReiterationPending),
        ] {
            let from = active(before.clone());
            let pause = || interrupted(before.clone());
            rows.extend([
                (from.clone(), Event::Interrupt(TERM), pause(), 2),
                (
                    from.clone(),
                    Event::Cancel,
                    failed(Reason::UserCancelled),
                    2,
                ),
                (from, Event::MaxRuntime, failed(Reason::MaxRuntime), 2),
                (pause(), Event::Cancel, failed(Reason::UserCancelled), 2),
                (pause(), Event::MaxRuntime, failed(Reason::MaxRuntime), 2),
                (pause(), resumed(), active(after.clone()), 2),
                (pause(), more(), active(after), 2),
            ]);
        }
        rows
    }

    #[test]
    fn every_row_of_the_table_leads_where_it_says() {
        for (from, event, to, iteration) in table() {
            let (next, _) = step(&at(from.clone()), &event)
                .unwrap_or_else(|invalid| panic!("{from:?}: {invalid}"));
            assert_eq!(next.stage, to, "{from:?} by {event:?}");
            assert_eq!(next.iteration, iteration, "{from:?} by {event:?}");
        }
    }

    #[test]
    fn every_other_event_is_refused_in_every_state() {
        let table = table();
        let mut refused = 0;
        for stage in stages() {
            for event in events() {
                let is_row = table
                    .iter()
                    .any(|(from, by, ..)| *from == stage && *by == event);
                let stepped = step(&at(stage.clone()), &event);
                assert_eq!(stepped.is_ok(), is_row, "{stage:?} by {event:?}");
                refused += usize::from(!is_row);
            }
        }
        // 25 stages, 28 events, and as many rows as the table has.
        assert_eq!(refused, 25 * 28 - table.len());
    }

    #[test]
    fn the_table_has_every_state_and_every_row_a_listed_stage_and_event() {
        let table = table();
        for state in State::ALL {
            assert!(stages().iter().any(|stage| stage.state() == state));
        }
        for (from, event, ..) in table {
            assert!(stages().contains(&from), "{from:?}");
            assert!(events().contains(&event), "{event:?}");
        }
    }

    #[test]
    fn the_last_iteration_is_followed_by_the_limit_and_nothing_else() {
        let last = Position {
            iteration: 5,
            ..at(active(Active::ReiterationPending))
        };
        assert_eq!(last.action(), Action::Take(Event::MaxIterations));
        assert!(step(&last, &Event::Next).is_err());
        let (end, action) = step(&last, &Event::MaxIterations).unwrap();
        assert_eq!(end.stage, Stage::Failed(Reason::MaxIterations));
        assert_eq!((action, end.stage.exit_code()), (Action::Stop, Some(4)));
        assert_eq!(resume(&end, None), Err(NotResumable::OutOfIterations(FIVE)));
        assert!(resume(&end, Some(FIVE)).is_err());
        let six = NonZeroU32::new(6);
        let (same, event) = resume(&end, six).unwrap();
        let (next, action) = step(&same, &event.unwrap()).unwrap();
        assert_eq!((next.maximum.get(), action), (6, Action::Take(Event::Next)));
    }

    #[test]
    fn an_iteration_that_an_interrupt_cost_is_had_again() {
        let mut run = Position::created(NonZeroU32::MIN);
        for event in [
            Event::Start,
            Event::Interrupt(TERM),
            resumed(),
            Event::RecoveryNothing,
        ] {
            run = step(&run, &event).unwrap().0;
        }
        assert_eq!(run.action(), Action::Take(Event::Next));
        let (again, action) = step(&run, &Event::Next).unwrap();
        assert_eq!((again.iteration, action), (1, Action::RunWorker));
    }

    #[test]
    fn an_auditor_that_hangs_after_its_verdict_is_read_and_nothing_changes() {
        let from = at(active(Active::AuditorExecuting(Audit::First)));
        let expected = (from.clone(), Action::ReadVerdict);
        assert_eq!(step(&from, &Event::ExitHang), Ok(expected));
    }

    #[test]
    fn what_is_to_be_done_follows_from_the_position() {
        let audit = |audit| active(Active::AuditorExecuting(audit));
        for (stage, action) in [
            (active(Active::Created), Action::Take(Event::Start)),
            (active(Active::WorkerExecuting), Action::RunWorker),
            (recovery(crashed()), Action::Recover),
            (
                active(Active::AuditPending(Audit::First)),
                Action::Take(Event::Next),
            ),
            (audit(Audit::First), Action::RunAuditor(Audit::First)),
            (audit(Audit::Reminded), Action::RunAuditor(Audit::Reminded)),
            (
                active(Active::ReiterationPending),
                Action::Take(Event::Next),
            ),
            (interrupted(Active::Created), Action::Stop),
            (Stage::Completed, Action::Stop),
        ] {
            assert_eq!(at(stage).action(), action);
        }
    }

    #[test]
    fn final_runs_are_not_resumed_and_say_why() {
        let refusal = |stage| resume(&at(stage), None).unwrap_err().to_string();
        assert!(refusal(Stage::Completed).contains("COMPLETED"));
        let rejected = refusal(Stage::Rejected("needs a card".to_owned()));
        assert!(rejected.contains("REJECTED (needs a card)"), "{rejected}");
        assert!(refusal(Stage::Failed(Reason::NoVerdict)).contains("no_verdict"));
        assert!(refusal(Stage::Failed(Reason::MaxIterations)).contains("--max-iterations"));
    }

    #[test]
    fn a_run_whose_runner_died_is_taken_up_as_such_and_pending_ones_go_on() {
        let event_of = |stage| resume(&at(stage), None).unwrap().1;
        let died = Some(Event::SupervisorDied);
        assert_eq!(event_of(active(Active::WorkerExecuting)), died);
        let auditor = active(Active::AuditorExecuting(Audit::First));
        assert_eq!(event_of(auditor), died);
        assert_eq!(event_of(active(Active::Created)), None);
        assert_eq!(event_of(recovery(crashed())), None);
        let nine = NonZeroU32::new(9);
        let (position, _) = resume(&at(active(Active::ReiterationPending)), nine).unwrap();
        assert_eq!(position.maximum.get(), 9);
    }

    #[test]
    fn exit_codes_are_those_that_are_documented() {
        let code = |stage: Stage| stage.exit_code();
        assert_eq!(code(Stage::Completed), Some(0));
        assert_eq!(code(Stage::Failed(Reason::ExitCode(9))), Some(1));
        assert_eq!(code(Stage::Rejected("no".to_owned())), Some(3));
        assert_eq!(code(Stage::Failed(Reason::MaxIterations)), Some(4));
        assert_eq!(code(Stage::Failed(Reason::MaxRuntime)), Some(4));
        for (signal, expected) in [(2, 130), (15, 143)] {
            let stage = Stage::Interrupted {
                signal,
                before: Active::Created,
            };
            assert_eq!(code(stage), Some(expected));
        }
        assert_eq!(code(active(Active::Created)), None);
    }

    #[test]
    fn reasons_read_back_as_they_were_written() {
        let words = "connection_refused auth_failed api_error tool_error exit_code:3 signal:15 \
                     inactivity_timeout stuck_confirmed exit_hang supervisor_died no_verdict \
                     max_iterations max_runtime user_cancelled spawn_failed";
        for word in words.split_whitespace() {
            let reason = Reason::parse(word);
            assert!(!matches!(reason, Reason::Feedback(_)), "{word}");
            assert_eq!(reason.to_string(), word);
        }
        for text in ["exit_code:", "signal:x", "", "needs a card"] {
            assert_eq!(Reason::parse(text), Reason::Feedback(text.to_owned()));
        }
    }

    #[test]
    fn a_history_that_no_run_can_have_had_is_refused() {
        for (history, entry) in [
            (vec![(State::Completed, None)], 0),
            (vec![(State::Created, None), (State::Completed, None)], 1),
            (vec![(State::Created, None), (State::Interrupted, None)], 1),
            (vec![], 0),
        ] {
            let broken = Position::replay(FIVE, history).unwrap_err();
            assert_eq!(broken.entry, entry);
        }
    }

    #[test]
    fn a_reason_that_looks_like_another_is_still_the_feedback() {
        let reason = Reason::parse("max_runtime");
        let rejected = at(active(Active::AuditorExecuting(Audit::First)))
            .then(State::Rejected, Some(&reason))
            .unwrap();
        assert_eq!(rejected.stage, Stage::Rejected("max_runtime".to_owned()));
    }

    fn any_event() -> impl Strategy<Value = Event> {
        prop_oneof![
            2 => prop::sample::select(events()),
            // The usual way, so that walks get far.
            3 => prop::sample::select(vec![
                Event::Start, Event::Exit0, Event::Next, Event::Retry, Event::RecoveryPartial,
                Event::SupervisorDied, Event::Interrupt(2), resumed(), Event::RecoveryNothing,
            ]),
        ]
    }

    proptest! {
        #[test]
        fn random_walks_keep_the_promises(
            maximum in 1..6_u32,
            walk in prop::collection::vec(any_event(), 0..120),
        ) {
            let mut run = Position::created(NonZeroU32::new(maximum).unwrap());
            let mut history = vec![(run.state(), run.stage.reason())];
            for event in walk {
                let before = run.clone();
                let Ok((next, action)) = step(&run, &event) else {
                    continue;
                };
                // Only a larger maximum leads out of an end.
                if before.state().is_terminal() {
                    prop_assert_eq!(&before.stage, &Stage::Failed(Reason::MaxIterations));
                    prop_assert!(next.maximum > before.maximum);
                }
                if next.state() == State::WorkerExecuting {
                    prop_assert!(next.iteration <= next.maximum.get());
                    prop_assert_eq!(next.iteration, before.iteration + 1);
                }
                if action == Action::ReadVerdict {
                    prop_assert_eq!(&next, &before);
                    continue;
                }
                prop_assert_eq!(action, next.action());
                run = next;
                history.push((run.state(), run.stage.reason()));
                let entries = history.iter().map(|(state, reason)| (*state, reason.as_ref()));
                let replayed = Position::replay(run.maximum, entries);
                prop_assert_eq!(replayed.as_ref(), Ok(&run));
            }
        }

        #[test]
        fn any_history_is_replayed_or_refused(
            entries in prop::collection::vec(
                (prop::sample::select(State::ALL.to_vec()), prop::option::of("[a-z_:0-9]{0,20}")),
                0..20,
            ),
        ) {
            let entries: Vec<(State, Option<Reason>)> = entries
                .into_iter()
                .map(|(state, reason)| (state, reason.map(|text| Reason::parse(&text))))
                .collect();
            let _ = Position::replay(
                FIVE,
                entries.iter().map(|(state, reason)| (*state, reason.as_ref())),
            );
        }
    }
}
