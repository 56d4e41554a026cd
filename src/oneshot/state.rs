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
