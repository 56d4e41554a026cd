//! The state machine of an agent run: its states, its events and every transition. Pure.
//!
//! A run is at a [`Position`]: a stage with the data that its next step depends on, and the number
//! of its iteration. [`step`] applies one [`RunEvent`] and returns the next [`Action`]; an event that
//! a state does not accept is [`Invalid`] and changes nothing. [`Position::replay`] uses [`step`]
//! to restore the position from the history in a run's files.
//!
//! Limits: independent of agents, files and clocks.

use std::fmt;
use std::num::NonZeroU32;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::agent::activity::AgentError;
pub use crate::agent::executor::Role;
use crate::process::signals::Exit;

/// Replaces empty feedback.
const NO_FEEDBACK: &str = "the auditor gave no reason";

/// The position of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Position {
    pub stage: Stage,
    /// The number of the current or last iteration, from 1; 0 before the first. After an iteration
    /// that a signal or the runner's death cut off, the next one gets the same number.
    pub iteration: u32,
    /// The maximum number of iterations.
    pub maximum: NonZeroU32,
    pub review: Review,
}

/// What judges a worker's result: checks first, then the auditor. Without either, the result counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Review {
    pub checks: bool,
    pub auditor: bool,
}

impl Review {
    /// The auditor alone.
    pub const AUDITOR: Review = Review { checks: false, auditor: true };
    const ALL: [Review; 4] = [
        Review::AUDITOR,
        Review { checks: true, auditor: true },
        Review { checks: true, auditor: false },
        Review { checks: false, auditor: false },
    ];

    /// The stage after a worker's result.
    fn begin(self) -> Stage {
        if self.checks { Stage::Active(Active::CheckPending) } else { self.after_checks() }
    }

    /// The stage after a result that has passed the checks.
    fn after_checks(self) -> Stage {
        if self.auditor {
            Stage::Active(Active::AuditPending(Audit::First))
        } else {
            Stage::Completed
        }
    }
}

impl Position {
    /// The position of a new run.
    pub(crate) fn created(maximum: NonZeroU32, review: Review) -> Position {
        Position { stage: Stage::Active(Active::Created), iteration: 0, maximum, review }
    }

    /// The name of its state.
    pub fn state(&self) -> RunState {
        self.stage.state()
    }

    /// The action at this position. An agent is never started twice for one entry of the history: a
    /// run that is found in `*_EXECUTING` must go through [`resume`].
    pub fn action(&self) -> Action {
        match &self.stage {
            Stage::Active(Active::Created) => Action::Take(RunEvent::Start),
            Stage::Active(Active::WorkerExecuting) => Action::RunWorker,
            Stage::Active(Active::RecoveryPending(_)) => Action::Recover,
            Stage::Active(Active::CheckPending | Active::AuditPending(_)) => {
                Action::Take(RunEvent::Next)
            }
            Stage::Active(Active::CheckExecuting) => Action::RunChecks,
            Stage::Active(Active::AuditorExecuting(audit)) => Action::RunAuditor(*audit),
            Stage::Active(Active::ReiterationPending) => Action::Take(if self.is_used_up() {
                RunEvent::MaxIterations
            } else {
                RunEvent::Next
            }),
            Stage::Interrupted { .. }
            | Stage::Completed
            | Stage::Rejected(_)
            | Stage::GivenUp { .. }
            | Stage::Failed(_) => Action::Stop,
        }
    }

    /// Whether no iteration is left.
    fn is_used_up(&self) -> bool {
        self.iteration >= self.maximum.get()
    }

    fn is_over_budget(&self) -> bool {
        self.stage.reason().is_some_and(|reason| reason.is_budget())
    }

    fn at(&self, stage: Stage) -> Position {
        Position { stage, ..self.clone() }
    }

    /// The position at which the worker runs in a new iteration.
    fn in_next_iteration(&self) -> Position {
        Position {
            iteration: self.iteration.saturating_add(1),
            ..self.at(Stage::Active(Active::WorkerExecuting))
        }
    }

    /// The position after an iteration that ended without an audit.
    fn after_recovery(&self, cause: &RecoveryCause) -> Position {
        let uncounted = u32::from(!cause.counts());
        Position {
            iteration: self.iteration.saturating_sub(uncounted),
            ..self.at(Stage::Active(Active::ReiterationPending))
        }
    }

    /// Replays a history, oldest entry first, and returns the position at its end.
    ///
    /// # Errors
    /// If no run can have this history; [`Unreplayable::entry`] counts from 0.
    pub(crate) fn replay<'a>(
        maximum: NonZeroU32,
        review: Review,
        history: impl IntoIterator<Item = (RunState, Option<&'a Reason>)>,
    ) -> Result<Position, Unreplayable> {
        let mut position: Option<Position> = None;
        for (entry, (state, reason)) in history.into_iter().enumerate() {
            let next = match &position {
                None => (state == RunState::Created).then(|| Position::created(maximum, review)),
                Some(before) => before.then(state, reason),
            };
            position = Some(next.ok_or(Unreplayable { entry, state })?);
        }
        position.ok_or(Unreplayable { entry: 0, state: RunState::Created })
    }

    /// The position after one more entry of the history; `None` if no event leads to it.
    pub fn then(&self, state: RunState, reason: Option<&Reason>) -> Option<Position> {
        let written = reason.map(Reason::to_string);
        let arrives = |next: &Position| {
            let found = next.stage.reason().map(|reason| reason.to_string());
            next.state() == state && found == written
        };
        // Try any maximum and any review, since a resume may have changed them.
        let maximums = [NonZeroU32::MIN, NonZeroU32::MAX];
        let plans = maximums.into_iter().flat_map(|it| Review::ALL.map(|review| (it, review)));
        plans
            .flat_map(|(maximum, review)| {
                let before = Position { maximum, review, ..self.clone() };
                let steps = candidate_events(reason).into_iter();
                steps.filter_map(move |event| step(&before, &event).ok())
            })
            .find(|(next, action)| arrives(next) && *action != Action::ReadVerdict)
            .map(|(next, _)| Position { maximum: self.maximum, review: self.review, ..next })
    }
}

/// The events that may have led to an entry with this reason: all fixed events, and events made
/// from the reason.
fn candidate_events(reason: Option<&Reason>) -> Vec<RunEvent> {
    let mut events = vec![
        RunEvent::Start,
        RunEvent::Exit0,
        RunEvent::Inactivity,
        RunEvent::Stuck { fails: false },
        RunEvent::Stuck { fails: true },
        RunEvent::ExitHang,
        RunEvent::Outage,
        RunEvent::SupervisorDied,
        RunEvent::SpawnFailed,
        RunEvent::Cancel,
        RunEvent::MaxRuntime,
        RunEvent::RecoverySuccess,
        RunEvent::RecoveryPartial,
        RunEvent::RecoveryNothing,
        RunEvent::Next,
        RunEvent::ChecksPassed,
        RunEvent::ChecksFailed,
        RunEvent::MaxIterations,
        RunEvent::Done,
        RunEvent::Retry,
        RunEvent::NoVerdict,
        RunEvent::Resume { maximum: Some(NonZeroU32::MAX) },
    ];
    events.extend(Budget::ALL.map(RunEvent::OverBudget));
    events.extend(AgentError::NAMES.map(|(error, _)| RunEvent::AgentError(error)));
    events.extend(reason.map(|reason| RunEvent::Impossible { feedback: reason.to_string() }));
    match reason {
        Some(Reason::Signal(signal)) => {
            events.extend([RunEvent::Interrupt(*signal), RunEvent::Crash(Exit::Signal(*signal))]);
        }
        Some(Reason::ExitCode(code)) => events.push(RunEvent::Crash(Exit::Code(*code))),
        _ => {}
    }
    events
}

/// An event that a state does not accept.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a run in the state {state} does not accept the event {event:?}")]
pub struct Invalid {
    /// The state, which does not change.
    pub state: RunState,
    /// The refused event.
    pub event: RunEvent,
}

/// A history that no run can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("entry {entry} of the history, {state}, cannot follow the previous entries")]
pub struct Unreplayable {
    /// The index of the entry, from 0.
    pub entry: usize,
    /// The state of that entry.
    pub state: RunState,
}

/// Applies an event and returns the next position with its action.
///
/// # Errors
/// If the state does not accept the event.
pub(crate) fn step(position: &Position, event: &RunEvent) -> Result<(Position, Action), Invalid> {
    let next = match (&position.stage, event) {
        (Stage::Active(Active::AuditorExecuting(_)), RunEvent::ExitHang) => {
            return Ok((position.clone(), Action::ReadVerdict));
        }
        (Stage::Active(active), event) => from_active(position, active, event),
        (Stage::Interrupted { signal, before }, event) => {
            from_interrupted(position, *signal, before, event)
        }
        (Stage::Failed(Reason::MaxIterations), RunEvent::Resume { maximum: Some(maximum) }) => {
            let is_larger = *maximum > position.maximum && maximum.get() > position.iteration;
            let pending = position.at(Stage::Active(Active::ReiterationPending));
            is_larger.then_some(Position { maximum: *maximum, ..pending })
        }
        (Stage::GivenUp { retry, .. }, RunEvent::Resume { maximum }) => {
            // The iteration in which no work was done is repeated.
            let is_repeated = *retry == Active::ReiterationPending && !position.is_over_budget();
            Some(Position {
                iteration: position.iteration.saturating_sub(u32::from(is_repeated)),
                maximum: maximum.unwrap_or(position.maximum),
                ..position.at(Stage::Active(retry.clone()))
            })
        }
        (Stage::GivenUp { .. } | Stage::Failed(_) | Stage::Completed | Stage::Rejected(_), _) => {
            None
        }
    };
    let next = next.ok_or_else(|| Invalid { state: position.state(), event: event.clone() })?;
    let action = next.action();
    Ok((next, action))
}

fn from_active(position: &Position, active: &Active, event: &RunEvent) -> Option<Position> {
    let stage = match (active, event) {
        (_, RunEvent::Cancel) => Stage::Failed(Reason::UserCancelled),
        (_, RunEvent::MaxRuntime) => Stage::Failed(Reason::MaxRuntime),
        (_, RunEvent::Interrupt(signal)) => {
            Stage::Interrupted { signal: *signal, before: active.clone() }
        }
        (Active::Created, RunEvent::Start) => return Some(position.in_next_iteration()),
        (Active::WorkerExecuting, RunEvent::Exit0) => position.review.begin(),
        (Active::WorkerExecuting, event) => from_worker(event)?,
        (Active::RecoveryPending(_), RunEvent::RecoverySuccess) => position.review.begin(),
        (Active::RecoveryPending(RecoveryCause::Worker(reason)), RunEvent::RecoveryNothing) => {
            if reason.is_of_service() || reason.is_budget() {
                Stage::GivenUp { reason: reason.clone(), retry: Active::ReiterationPending }
            } else {
                Stage::Failed(reason.clone())
            }
        }
        // With other causes the worker did not fail but was cut off.
        (Active::RecoveryPending(cause), RunEvent::RecoveryPartial | RunEvent::RecoveryNothing) => {
            return Some(position.after_recovery(cause));
        }
        (Active::CheckPending, RunEvent::Next) => Stage::Active(Active::CheckExecuting),
        (Active::CheckExecuting, event) => from_checks(position.review, event)?,
        (Active::AuditPending(audit), RunEvent::Next) => {
            Stage::Active(Active::AuditorExecuting(*audit))
        }
        (Active::AuditPending(_) | Active::ReiterationPending, RunEvent::OverBudget(budget)) => {
            Stage::GivenUp { reason: budget.reason(), retry: active.clone() }
        }
        (Active::AuditorExecuting(audit), event) => from_auditor(*audit, event)?,
        (Active::ReiterationPending, RunEvent::Next) if !position.is_used_up() => {
            return Some(position.in_next_iteration());
        }
        (Active::ReiterationPending, RunEvent::MaxIterations) if position.is_used_up() => {
            Stage::Failed(Reason::MaxIterations)
        }
        _ => return None,
    };
    Some(position.at(stage))
}

fn from_worker(event: &RunEvent) -> Option<Stage> {
    let reason = match event {
        RunEvent::Stuck { fails: true } => return Some(Stage::Failed(Reason::StuckConfirmed)),
        RunEvent::SpawnFailed => {
            let (reason, retry) = (Reason::SpawnFailed, Active::ReiterationPending);
            return Some(Stage::GivenUp { reason, retry });
        }
        RunEvent::SupervisorDied => {
            return Some(Stage::Active(Active::RecoveryPending(RecoveryCause::SupervisorDied)));
        }
        RunEvent::Outage => {
            return Some(Stage::Active(Active::RecoveryPending(RecoveryCause::Outage)));
        }
        RunEvent::Crash(exit) => Reason::from(*exit),
        RunEvent::Inactivity => Reason::InactivityTimeout,
        RunEvent::Stuck { fails: false } => Reason::StuckConfirmed,
        RunEvent::AgentError(error) => Reason::from(*error),
        RunEvent::ExitHang => Reason::ExitHang,
        RunEvent::OverBudget(budget) => budget.reason(),
        _ => return None,
    };
    Some(Stage::Active(Active::RecoveryPending(RecoveryCause::Worker(reason))))
}

fn from_checks(review: Review, event: &RunEvent) -> Option<Stage> {
    Some(match event {
        RunEvent::ChecksPassed => review.after_checks(),
        RunEvent::ChecksFailed => Stage::Active(Active::ReiterationPending),
        RunEvent::SupervisorDied => Stage::Active(Active::CheckPending),
        RunEvent::SpawnFailed => {
            Stage::GivenUp { reason: Reason::SpawnFailed, retry: Active::CheckPending }
        }
        _ => return None,
    })
}

fn from_auditor(audit: Audit, event: &RunEvent) -> Option<Stage> {
    let given_up = |reason| Stage::GivenUp { reason, retry: Active::AuditPending(audit) };
    Some(match event {
        RunEvent::Done => Stage::Completed,
        RunEvent::Retry => Stage::Active(Active::ReiterationPending),
        RunEvent::Impossible { feedback } => Stage::Rejected(first_line(feedback)),
        RunEvent::NoVerdict => match audit {
            Audit::First => Stage::Active(Active::AuditPending(Audit::Reminded)),
            Audit::Reminded => {
                let retry = Active::AuditPending(Audit::First);
                Stage::GivenUp { reason: Reason::NoVerdict, retry }
            }
        },
        RunEvent::SupervisorDied | RunEvent::Outage => Stage::Active(Active::AuditPending(audit)),
        // The worker's result is kept: the audit can be repeated.
        RunEvent::Crash(exit) => given_up(Reason::from(*exit)),
        RunEvent::Inactivity => given_up(Reason::InactivityTimeout),
        RunEvent::Stuck { .. } => given_up(Reason::StuckConfirmed),
        RunEvent::AgentError(error) => given_up(Reason::from(*error)),
        RunEvent::SpawnFailed => given_up(Reason::SpawnFailed),
        RunEvent::OverBudget(budget) => given_up(budget.reason()),
        _ => return None,
    })
}

fn from_interrupted(
    position: &Position,
    signal: i32,
    before: &Active,
    event: &RunEvent,
) -> Option<Position> {
    match event {
        RunEvent::Cancel => Some(position.at(Stage::Failed(Reason::UserCancelled))),
        RunEvent::MaxRuntime => Some(position.at(Stage::Failed(Reason::MaxRuntime))),
        RunEvent::Resume { maximum } => {
            let active = match before {
                Active::WorkerExecuting => {
                    Active::RecoveryPending(RecoveryCause::Interrupt(signal))
                }
                Active::CheckExecuting => Active::CheckPending,
                Active::AuditorExecuting(audit) => Active::AuditPending(*audit),
                pending => pending.clone(),
            };
            let maximum = maximum.unwrap_or(position.maximum);
            Some(Position { maximum, ..position.at(Stage::Active(active)) })
        }
        _ => None,
    }
}

/// The first line of a text that is not blank.
fn first_line(text: &str) -> String {
    let line = text.lines().map(str::trim).find(|line| !line.is_empty());
    line.unwrap_or(NO_FEEDBACK).to_owned()
}

/// Why a run cannot be resumed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotResumable {
    #[error("the run is COMPLETED: start a new one")]
    Completed,
    #[error(
        "the run is REJECTED ({0}): resuming would only repeat that; start a new run with \
         another prompt"
    )]
    Rejected(String),
    /// No iteration is left.
    #[error(
        "the run is FAILED (max_iterations): give more than its {0} iterations with \
         --max-iterations"
    )]
    OutOfIterations(NonZeroU32),
    /// It failed.
    #[error("the run is FAILED ({0}): start a new one")]
    Failed(Reason),
}

/// Resumes a run that no process runs. Returns its position, with the new maximum if given, and the
/// event to begin with; without an event, begin with [`Position::action`].
///
/// # Errors
/// If its state is final.
pub fn resume(
    position: &Position,
    maximum: Option<NonZeroU32>,
) -> Result<(Position, Option<RunEvent>), NotResumable> {
    let event = match &position.stage {
        Stage::Completed => return Err(NotResumable::Completed),
        Stage::Rejected(line) => return Err(NotResumable::Rejected(line.clone())),
        Stage::Failed(Reason::MaxIterations) => {
            let event = RunEvent::Resume { maximum };
            if step(position, &event).is_err() {
                let enough = position.maximum.get().max(position.iteration);
                let enough = NonZeroU32::new(enough).unwrap_or(position.maximum);
                return Err(NotResumable::OutOfIterations(enough));
            }
            return Ok((position.clone(), Some(event)));
        }
        Stage::Failed(reason) => return Err(NotResumable::Failed(reason.clone())),
        Stage::Interrupted { .. } | Stage::GivenUp { .. } => {
            return Ok((position.clone(), Some(RunEvent::Resume { maximum })));
        }
        Stage::Active(_) => position.state().is_executing().then_some(RunEvent::SupervisorDied),
    };
    let position = Position { maximum: maximum.unwrap_or(position.maximum), ..position.clone() };
    Ok((position, event))
}

/// An event in a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunEvent {
    /// A created run begins.
    Start,
    /// The worker exited with 0 and reported no error.
    Exit0,
    /// The agent exited with another code, or a signal ended it.
    Crash(Exit),
    /// The agent was silent for too long.
    Inactivity,
    /// A judge has confirmed that the agent is stuck.
    Stuck {
        /// Whether the run fails with it; otherwise its work is recovered.
        fails: bool,
    },
    /// The agent ended and reported an error.
    AgentError(AgentError),
    /// The agent ended since its endpoint fails for now.
    Outage,
    /// The agent had finished, but its process did not end.
    ExitHang,
    /// The process that ran the run is gone.
    SupervisorDied,
    /// The agent's program could not be started.
    SpawnFailed,
    /// This signal pauses the run.
    Interrupt(i32),
    /// The user ends the run permanently.
    Cancel,
    /// The run has reached its time limit.
    MaxRuntime,
    /// The worker had finished its work.
    RecoverySuccess,
    /// The worker had done part of its work.
    RecoveryPartial,
    /// No work of the worker was found.
    RecoveryNothing,
    /// A pending run continues.
    Next,
    /// No iteration is left.
    MaxIterations,
    /// The auditor accepts the result.
    Done,
    /// The auditor wants another iteration.
    Retry,
    /// The auditor decides that the task cannot be done.
    Impossible {
        /// The auditor's whole feedback.
        feedback: String,
    },
    /// The auditor ended without a verdict.
    NoVerdict,
    /// All checks have passed.
    ChecksPassed,
    /// A check has failed.
    ChecksFailed,
    /// The agents have used up this budget.
    OverBudget(Budget),
    /// A run that was paused or given up, or is out of iterations, continues.
    Resume {
        /// A new maximum of iterations.
        maximum: Option<NonZeroU32>,
    },
}

/// What the agents of a run may use up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Budget {
    Cost,
    Tokens,
}

impl Budget {
    const ALL: [Budget; 2] = [Budget::Cost, Budget::Tokens];

    fn reason(self) -> Reason {
        match self {
            Budget::Cost => Reason::MaxCost,
            Budget::Tokens => Reason::MaxTokens,
        }
    }
}

/// The action at a position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Apply this event immediately.
    Take(RunEvent),
    RunWorker,
    /// Recover the worker's work.
    Recover,
    RunAuditor(Audit),
    RunChecks,
    /// Read the auditor's verdict as after exit 0; its processes have been killed.
    ReadVerdict,
    /// Nothing: the run is over or paused.
    Stop,
}

/// A shell adds this to a signal's number for its exit code.
const SIGNAL_EXIT_BASE: i32 = 128;

/// The name of a state in files and displays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum RunState {
    /// No agent has been started.
    Created,
    /// The worker runs.
    WorkerExecuting,
    /// The worker failed or was cut off; its work is being recovered.
    RecoveryPending,
    /// A result is ready for the checks.
    CheckPending,
    /// A check runs.
    CheckExecuting,
    /// A result is ready for the auditor.
    AuditPending,
    /// The auditor runs.
    AuditorExecuting,
    /// The worker will run again.
    ReiterationPending,
    /// A signal paused it; it can be resumed.
    Interrupted,
    /// The auditor decided DONE, or the checks have passed if there is no auditor.
    Completed,
    /// The auditor decided IMPOSSIBLE.
    Rejected,
    /// Given up.
    Failed,
}

impl RunState {
    /// Its name in the files.
    pub fn name(self) -> &'static str {
        match self {
            RunState::Created => "CREATED",
            RunState::WorkerExecuting => "WORKER_EXECUTING",
            RunState::RecoveryPending => "RECOVERY_PENDING",
            RunState::CheckPending => "CHECK_PENDING",
            RunState::CheckExecuting => "CHECK_EXECUTING",
            RunState::AuditPending => "AUDIT_PENDING",
            RunState::AuditorExecuting => "AUDITOR_EXECUTING",
            RunState::ReiterationPending => "REITERATION_PENDING",
            RunState::Interrupted => "INTERRUPTED",
            RunState::Completed => "COMPLETED",
            RunState::Rejected => "REJECTED",
            RunState::Failed => "FAILED",
        }
    }

    /// Whether a run ends there.
    pub(crate) fn is_terminal(self) -> bool {
        matches!(self, RunState::Completed | RunState::Rejected | RunState::Failed)
    }

    /// Whether an agent or a check runs.
    pub fn is_executing(self) -> bool {
        self.has_agent() || self == RunState::CheckExecuting
    }

    /// Whether an agent runs.
    pub(crate) fn has_agent(self) -> bool {
        matches!(self, RunState::WorkerExecuting | RunState::AuditorExecuting)
    }
}

impl fmt::Display for RunState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// What led to a recovery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RecoveryCause {
    /// The worker's failure, for which the run fails if nothing is found.
    Worker(Reason),
    /// A signal to the run.
    Interrupt(i32),
    /// The death of the process that ran the run.
    SupervisorDied,
    /// A failure of the worker's endpoint that passes.
    Outage,
}

impl RecoveryCause {
    /// The cause as a reason.
    pub(crate) fn reason(&self) -> Reason {
        match self {
            RecoveryCause::Worker(reason) => reason.clone(),
            RecoveryCause::Interrupt(signal) => Reason::Signal(*signal),
            RecoveryCause::SupervisorDied => Reason::SupervisorDied,
            RecoveryCause::Outage => Reason::Outage,
        }
    }

    /// Whether the iteration that it ended counts against the maximum.
    pub(super) fn counts(&self) -> bool {
        matches!(self, RecoveryCause::Worker(_))
    }
}

/// An attempt at an iteration's audit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Audit {
    First,
    /// The second, after an answer without a verdict: the auditor is reminded of the format.
    Reminded,
}

/// A stage of a run that is neither paused nor over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Active {
    /// See [`RunState::Created`].
    Created,
    /// See [`RunState::WorkerExecuting`].
    WorkerExecuting,
    /// See [`RunState::RecoveryPending`].
    RecoveryPending(RecoveryCause),
    /// See [`RunState::CheckPending`].
    CheckPending,
    /// See [`RunState::CheckExecuting`].
    CheckExecuting,
    /// See [`RunState::AuditPending`].
    AuditPending(Audit),
    /// See [`RunState::AuditorExecuting`].
    AuditorExecuting(Audit),
    /// See [`RunState::ReiterationPending`].
    ReiterationPending,
}

/// A state with everything that the next step depends on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stage {
    /// Under way.
    Active(Active),
    /// Paused.
    Interrupted {
        /// The signal that paused it.
        signal: i32,
        /// The stage before the pause.
        before: Active,
    },
    /// Done.
    Completed,
    /// The task cannot be done, with the first line of the feedback.
    Rejected(String),
    /// Failed, with nothing lost: when the cause is removed, the run can be resumed.
    GivenUp {
        reason: Reason,
        /// The stage at which it continues.
        retry: Active,
    },
    /// Given up for good, or until there are more iterations.
    Failed(Reason),
}

impl Stage {
    /// Its name.
    pub fn state(&self) -> RunState {
        match self {
            Stage::Active(Active::Created) => RunState::Created,
            Stage::Active(Active::WorkerExecuting) => RunState::WorkerExecuting,
            Stage::Active(Active::RecoveryPending(_)) => RunState::RecoveryPending,
            Stage::Active(Active::CheckPending) => RunState::CheckPending,
            Stage::Active(Active::CheckExecuting) => RunState::CheckExecuting,
            Stage::Active(Active::AuditPending(_)) => RunState::AuditPending,
            Stage::Active(Active::AuditorExecuting(_)) => RunState::AuditorExecuting,
            Stage::Active(Active::ReiterationPending) => RunState::ReiterationPending,
            Stage::Interrupted { .. } => RunState::Interrupted,
            Stage::Completed => RunState::Completed,
            Stage::Rejected(_) => RunState::Rejected,
            Stage::GivenUp { .. } | Stage::Failed(_) => RunState::Failed,
        }
    }

    /// The reason in the history, if any.
    pub(crate) fn reason(&self) -> Option<Reason> {
        match self {
            Stage::Active(Active::RecoveryPending(cause)) => Some(cause.reason()),
            Stage::Active(Active::AuditPending(Audit::Reminded)) => Some(Reason::NoVerdict),
            Stage::Interrupted { signal, .. } => Some(Reason::Signal(*signal)),
            Stage::Rejected(line) => Some(Reason::Feedback(line.clone())),
            Stage::GivenUp { reason, .. } | Stage::Failed(reason) => Some(reason.clone()),
            Stage::Active(_) | Stage::Completed => None,
        }
    }

    /// The exit code of a command whose run ends or pauses at this stage; `None` for other stages.
    pub fn exit_code(&self) -> Option<u8> {
        match self {
            Stage::Active(_) => None,
            Stage::Completed => Some(0),
            Stage::Failed(Reason::MaxIterations | Reason::MaxRuntime) => Some(4),
            Stage::GivenUp { reason, .. } if reason.is_budget() => Some(5),
            Stage::GivenUp { .. } | Stage::Failed(_) => Some(1),
            Stage::Rejected(_) => Some(3),
            Stage::Interrupted { signal, .. } => {
                Some(u8::try_from(SIGNAL_EXIT_BASE + signal).unwrap_or(1))
            }
        }
    }
}

/// The reason for a state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    /// The agent could not reach its service.
    ConnectionRefused,
    /// Its service rejected its credentials.
    AuthFailed,
    /// Its service answered with an error.
    ApiError,
    /// One of its tools failed.
    ToolError,
    /// Its service fails for now; the run waits for it.
    Outage,
    /// It ended with this code, not 0.
    ExitCode(i32),
    /// This signal ended it, or interrupted the run.
    Signal(i32),
    /// It was silent for too long.
    InactivityTimeout,
    /// It was alive but made no progress.
    StuckConfirmed,
    /// It had finished and did not exit.
    ExitHang,
    /// The process that ran the run was killed.
    SupervisorDied,
    /// The auditor gave no verdict, twice.
    NoVerdict,
    /// All iterations are used up.
    MaxIterations,
    /// The run took too long.
    MaxRuntime,
    /// The agents have cost as much as they may.
    MaxCost,
    /// They have used as many tokens as they may.
    MaxTokens,
    /// The user stopped it for good.
    UserCancelled,
    /// The agent's program could not be started.
    SpawnFailed,
    /// The first line of the auditor's feedback.
    Feedback(String),
}

/// The reasons that are one word.
const WORDS: [(&str, Reason); 16] = [
    ("connection_refused", Reason::ConnectionRefused),
    ("auth_failed", Reason::AuthFailed),
    ("api_error", Reason::ApiError),
    ("tool_error", Reason::ToolError),
    ("outage", Reason::Outage),
    ("inactivity_timeout", Reason::InactivityTimeout),
    ("stuck_confirmed", Reason::StuckConfirmed),
    ("exit_hang", Reason::ExitHang),
    ("supervisor_died", Reason::SupervisorDied),
    ("no_verdict", Reason::NoVerdict),
    ("max_iterations", Reason::MaxIterations),
    ("max_runtime", Reason::MaxRuntime),
    ("max_cost", Reason::MaxCost),
    ("max_tokens", Reason::MaxTokens),
    ("user_cancelled", Reason::UserCancelled),
    ("spawn_failed", Reason::SpawnFailed),
];

impl Reason {
    /// Whether a service failed that agents need, not an agent.
    fn is_of_service(&self) -> bool {
        matches!(self, Reason::ConnectionRefused | Reason::AuthFailed | Reason::ApiError)
    }

    fn is_budget(&self) -> bool {
        matches!(self, Reason::MaxCost | Reason::MaxTokens)
    }

    /// Parses a reason; unknown text is feedback.
    pub fn parse(text: &str) -> Reason {
        let number = |prefix: &str| text.strip_prefix(prefix)?.parse().ok();
        if let Some((_, reason)) = WORDS.iter().find(|(word, _)| *word == text) {
            return reason.clone();
        }
        number("exit_code:")
            .map(Reason::ExitCode)
            .or_else(|| number("signal:").map(Reason::Signal))
            .unwrap_or_else(|| Reason::Feedback(text.to_owned()))
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::ExitCode(code) => write!(f, "exit_code:{code}"),
            Reason::Signal(signal) => write!(f, "signal:{signal}"),
            Reason::Feedback(line) => f.write_str(line),
            word => {
                let known = WORDS.iter().find(|(_, reason)| reason == word);
                f.write_str(known.map_or("", |(word, _)| word))
            }
        }
    }
}

impl Serialize for Reason {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Reason {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Reason::parse(&String::deserialize(deserializer)?))
    }
}

impl From<AgentError> for Reason {
    fn from(fault: AgentError) -> Reason {
        Reason::parse(fault.name())
    }
}

impl From<Exit> for Reason {
    fn from(exit: Exit) -> Reason {
        match exit {
            Exit::Code(code) => Reason::ExitCode(code),
            Exit::Signal(signal) => Reason::Signal(signal),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const STATES: [RunState; 12] = [
        RunState::Created,
        RunState::WorkerExecuting,
        RunState::RecoveryPending,
        RunState::CheckPending,
        RunState::CheckExecuting,
        RunState::AuditPending,
        RunState::AuditorExecuting,
        RunState::ReiterationPending,
        RunState::Interrupted,
        RunState::Completed,
        RunState::Rejected,
        RunState::Failed,
    ];

    const FIVE: NonZeroU32 = NonZeroU32::new(5).unwrap();
    const TERM: i32 = 15;

    fn at(stage: Stage) -> Position {
        Position { stage, iteration: 2, maximum: FIVE, review: Review::AUDITOR }
    }

    fn active(active: Active) -> Stage {
        Stage::Active(active)
    }

    fn interrupted(before: Active) -> Stage {
        Stage::Interrupted { signal: TERM, before }
    }

    fn recovery(cause: RecoveryCause) -> Stage {
        active(Active::RecoveryPending(cause))
    }

    fn given_up(reason: Reason, retry: Active) -> Stage {
        Stage::GivenUp { reason, retry }
    }

    fn crashed() -> RecoveryCause {
        RecoveryCause::Worker(Reason::ExitCode(7))
    }

    fn resumed() -> RunEvent {
        RunEvent::Resume { maximum: None }
    }

    fn impossible() -> RunEvent {
        RunEvent::Impossible { feedback: "\n no card \nmore".to_owned() }
    }

    /// Every stage that the rules distinguish, in the second of five iterations.
    fn stages() -> Vec<Stage> {
        let pending = || {
            vec![
                Active::Created,
                Active::WorkerExecuting,
                Active::RecoveryPending(crashed()),
                Active::RecoveryPending(RecoveryCause::Interrupt(TERM)),
                Active::RecoveryPending(RecoveryCause::SupervisorDied),
                Active::RecoveryPending(RecoveryCause::Outage),
                Active::RecoveryPending(RecoveryCause::Worker(Reason::ApiError)),
                Active::CheckPending,
                Active::CheckExecuting,
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
            given_up(Reason::ApiError, Active::AuditPending(Audit::First)),
            given_up(Reason::ApiError, Active::ReiterationPending),
            given_up(Reason::MaxCost, Active::ReiterationPending),
        ]);
        stages
    }

    fn events() -> Vec<RunEvent> {
        vec![
            RunEvent::Start,
            RunEvent::Exit0,
            RunEvent::Crash(Exit::Code(7)),
            RunEvent::Crash(Exit::Signal(11)),
            RunEvent::Inactivity,
            RunEvent::Stuck { fails: false },
            RunEvent::Stuck { fails: true },
            RunEvent::AgentError(AgentError::ConnectionRefused),
            RunEvent::AgentError(AgentError::AuthFailed),
            RunEvent::AgentError(AgentError::ApiError),
            RunEvent::AgentError(AgentError::ToolError),
            RunEvent::ExitHang,
            RunEvent::Outage,
            RunEvent::SupervisorDied,
            RunEvent::SpawnFailed,
            RunEvent::Interrupt(TERM),
            RunEvent::Cancel,
            RunEvent::MaxRuntime,
            RunEvent::RecoverySuccess,
            RunEvent::RecoveryPartial,
            RunEvent::RecoveryNothing,
            RunEvent::Next,
            RunEvent::ChecksPassed,
            RunEvent::ChecksFailed,
            RunEvent::OverBudget(Budget::Cost),
            RunEvent::OverBudget(Budget::Tokens),
            RunEvent::MaxIterations,
            RunEvent::Done,
            RunEvent::Retry,
            impossible(),
            RunEvent::NoVerdict,
            resumed(),
            RunEvent::Resume { maximum: NonZeroU32::new(9) },
        ]
    }

    /// The whole transition table: a stage, an event, the next stage and its iteration. An event
    /// without a row is refused.
    fn table() -> Vec<(Stage, RunEvent, Stage, u32)> {
        use Active::*;
        let worker = || active(WorkerExecuting);
        let auditor = |audit| active(AuditorExecuting(audit));
        let audit = |audit| active(AuditPending(audit));
        let because = |reason| recovery(RecoveryCause::Worker(reason));
        let failed = Stage::Failed;
        let (first, reminded) = (Audit::First, Audit::Reminded);
        let died = || RecoveryCause::SupervisorDied;
        let paused = || RecoveryCause::Interrupt(TERM);
        let crash = |code| RunEvent::Crash(Exit::Code(code));
        let killed = RunEvent::Crash(Exit::Signal(11));
        let error = RunEvent::AgentError;
        let over = RunEvent::OverBudget;
        let more = || RunEvent::Resume { maximum: NonZeroU32::new(9) };
        let mut rows = vec![
            (active(Created), RunEvent::Start, worker(), 3),
            // The worker.
            (worker(), RunEvent::Exit0, audit(first), 2),
            (worker(), crash(7), because(Reason::ExitCode(7)), 2),
            (worker(), killed.clone(), because(Reason::Signal(11)), 2),
            (worker(), RunEvent::Inactivity, because(Reason::InactivityTimeout), 2),
            (worker(), RunEvent::Stuck { fails: false }, because(Reason::StuckConfirmed), 2),
            (worker(), RunEvent::Stuck { fails: true }, failed(Reason::StuckConfirmed), 2),
            (worker(), error(AgentError::ConnectionRefused), because(Reason::ConnectionRefused), 2),
            (worker(), error(AgentError::AuthFailed), because(Reason::AuthFailed), 2),
            (worker(), error(AgentError::ApiError), because(Reason::ApiError), 2),
            (worker(), error(AgentError::ToolError), because(Reason::ToolError), 2),
            (worker(), RunEvent::ExitHang, because(Reason::ExitHang), 2),
            (worker(), RunEvent::Outage, recovery(RecoveryCause::Outage), 2),
            (recovery(RecoveryCause::Outage), RunEvent::RecoverySuccess, audit(first), 2),
            (
                recovery(RecoveryCause::Outage),
                RunEvent::RecoveryPartial,
                active(ReiterationPending),
                1,
            ),
            (
                recovery(RecoveryCause::Outage),
                RunEvent::RecoveryNothing,
                active(ReiterationPending),
                1,
            ),
            (auditor(first), RunEvent::Outage, audit(first), 2),
            (auditor(reminded), RunEvent::Outage, audit(reminded), 2),
            (worker(), RunEvent::SupervisorDied, recovery(died()), 2),
            (worker(), RunEvent::SpawnFailed, given_up(Reason::SpawnFailed, ReiterationPending), 2),
            (worker(), over(Budget::Cost), because(Reason::MaxCost), 2),
            (worker(), over(Budget::Tokens), because(Reason::MaxTokens), 2),
            // The recovery.
            (recovery(crashed()), RunEvent::RecoverySuccess, audit(first), 2),
            (recovery(paused()), RunEvent::RecoverySuccess, audit(first), 2),
            (recovery(died()), RunEvent::RecoverySuccess, audit(first), 2),
            (recovery(crashed()), RunEvent::RecoveryPartial, active(ReiterationPending), 2),
            (recovery(paused()), RunEvent::RecoveryPartial, active(ReiterationPending), 1),
            (recovery(died()), RunEvent::RecoveryPartial, active(ReiterationPending), 1),
            (recovery(crashed()), RunEvent::RecoveryNothing, failed(Reason::ExitCode(7)), 2),
            (recovery(paused()), RunEvent::RecoveryNothing, active(ReiterationPending), 1),
            (recovery(died()), RunEvent::RecoveryNothing, active(ReiterationPending), 1),
            (because(Reason::ApiError), RunEvent::RecoverySuccess, audit(first), 2),
            (because(Reason::ApiError), RunEvent::RecoveryPartial, active(ReiterationPending), 2),
            (
                because(Reason::ApiError),
                RunEvent::RecoveryNothing,
                given_up(Reason::ApiError, ReiterationPending),
                2,
            ),
            // The checks.
            (active(CheckPending), RunEvent::Next, active(CheckExecuting), 2),
            (active(CheckExecuting), RunEvent::ChecksPassed, audit(first), 2),
            (active(CheckExecuting), RunEvent::ChecksFailed, active(ReiterationPending), 2),
            (active(CheckExecuting), RunEvent::SupervisorDied, active(CheckPending), 2),
            (
                active(CheckExecuting),
                RunEvent::SpawnFailed,
                given_up(Reason::SpawnFailed, CheckPending),
                2,
            ),
            // The audit.
            (audit(first), RunEvent::Next, auditor(first), 2),
            (audit(reminded), RunEvent::Next, auditor(reminded), 2),
            (auditor(first), RunEvent::NoVerdict, audit(reminded), 2),
            (
                auditor(reminded),
                RunEvent::NoVerdict,
                given_up(Reason::NoVerdict, AuditPending(first)),
                2,
            ),
            // The next iteration.
            (active(ReiterationPending), RunEvent::Next, worker(), 3),
            // Transitions that need a larger maximum.
            (failed(Reason::MaxIterations), more(), active(ReiterationPending), 2),
        ];
        // Runs that were given up.
        for (stage, retry, iteration) in [
            (given_up(Reason::ApiError, AuditPending(first)), AuditPending(first), 2),
            (given_up(Reason::ApiError, ReiterationPending), ReiterationPending, 1),
            (given_up(Reason::MaxCost, ReiterationPending), ReiterationPending, 2),
        ] {
            for resumed in [resumed(), more()] {
                rows.push((stage.clone(), resumed, active(retry.clone()), iteration));
            }
        }
        for pending in [AuditPending(first), AuditPending(reminded), ReiterationPending] {
            for (budget, reason) in
                [(Budget::Cost, Reason::MaxCost), (Budget::Tokens, Reason::MaxTokens)]
            {
                let end = given_up(reason, pending.clone());
                rows.push((active(pending.clone()), over(budget), end, 2));
            }
        }
        for auditing in [first, reminded] {
            let from = || auditor(auditing);
            let end = |reason| given_up(reason, AuditPending(auditing));
            rows.extend([
                (from(), RunEvent::Done, Stage::Completed, 2),
                (from(), RunEvent::Retry, active(ReiterationPending), 2),
                (from(), impossible(), Stage::Rejected("no card".to_owned()), 2),
                (from(), crash(7), end(Reason::ExitCode(7)), 2),
                (from(), killed.clone(), end(Reason::Signal(11)), 2),
                (from(), RunEvent::Inactivity, end(Reason::InactivityTimeout), 2),
                (from(), RunEvent::Stuck { fails: false }, end(Reason::StuckConfirmed), 2),
                (from(), RunEvent::Stuck { fails: true }, end(Reason::StuckConfirmed), 2),
                (from(), error(AgentError::ConnectionRefused), end(Reason::ConnectionRefused), 2),
                (from(), error(AgentError::AuthFailed), end(Reason::AuthFailed), 2),
                (from(), error(AgentError::ApiError), end(Reason::ApiError), 2),
                (from(), error(AgentError::ToolError), end(Reason::ToolError), 2),
                (from(), RunEvent::ExitHang, from(), 2),
                (from(), RunEvent::SupervisorDied, audit(auditing), 2),
                (from(), RunEvent::SpawnFailed, end(Reason::SpawnFailed), 2),
                (from(), over(Budget::Cost), end(Reason::MaxCost), 2),
                (from(), over(Budget::Tokens), end(Reason::MaxTokens), 2),
            ]);
        }
        // Pauses and resumes.
        for (before, after) in [
            (Created, Created),
            (WorkerExecuting, RecoveryPending(paused())),
            (RecoveryPending(crashed()), RecoveryPending(crashed())),
            (RecoveryPending(paused()), RecoveryPending(paused())),
            (RecoveryPending(died()), RecoveryPending(died())),
            (RecoveryPending(RecoveryCause::Outage), RecoveryPending(RecoveryCause::Outage)),
            (
                RecoveryPending(RecoveryCause::Worker(Reason::ApiError)),
                RecoveryPending(RecoveryCause::Worker(Reason::ApiError)),
            ),
            (CheckPending, CheckPending),
            (CheckExecuting, CheckPending),
            (AuditPending(first), AuditPending(first)),
            (AuditPending(reminded), AuditPending(reminded)),
            (AuditorExecuting(first), AuditPending(first)),
            (AuditorExecuting(reminded), AuditPending(reminded)),
            (ReiterationPending, ReiterationPending),
        ] {
            let from = active(before.clone());
            let pause = || interrupted(before.clone());
            rows.extend([
                (from.clone(), RunEvent::Interrupt(TERM), pause(), 2),
                (from.clone(), RunEvent::Cancel, failed(Reason::UserCancelled), 2),
                (from, RunEvent::MaxRuntime, failed(Reason::MaxRuntime), 2),
                (pause(), RunEvent::Cancel, failed(Reason::UserCancelled), 2),
                (pause(), RunEvent::MaxRuntime, failed(Reason::MaxRuntime), 2),
                (pause(), resumed(), active(after.clone()), 2),
                (pause(), more(), active(after), 2),
            ]);
        }
        rows
    }

    #[test]
    fn every_row_of_the_table_holds() {
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
                let is_row = table.iter().any(|(from, by, ..)| *from == stage && *by == event);
                let stepped = step(&at(stage.clone()), &event);
                assert_eq!(stepped.is_ok(), is_row, "{stage:?} by {event:?}");
                refused += usize::from(!is_row);
            }
        }
        // 36 stages, 33 events, and as many rows as the table has.
        assert_eq!(refused, 36 * 33 - table.len());
    }

    #[test]
    fn the_table_has_every_state_and_every_row_a_listed_stage_and_event() {
        let table = table();
        for state in STATES {
            assert!(stages().iter().any(|stage| stage.state() == state));
        }
        for (from, event, ..) in table {
            assert!(stages().contains(&from), "{from:?}");
            assert!(events().contains(&event), "{event:?}");
        }
    }

    #[test]
    fn the_last_iteration_is_followed_by_the_limit_and_nothing_else() {
        let last = Position { iteration: 5, ..at(active(Active::ReiterationPending)) };
        assert_eq!(last.action(), Action::Take(RunEvent::MaxIterations));
        assert!(step(&last, &RunEvent::Next).is_err());
        let (end, action) = step(&last, &RunEvent::MaxIterations).unwrap();
        assert_eq!(end.stage, Stage::Failed(Reason::MaxIterations));
        assert_eq!((action, end.stage.exit_code()), (Action::Stop, Some(4)));
        assert_eq!(resume(&end, None), Err(NotResumable::OutOfIterations(FIVE)));
        assert!(resume(&end, Some(FIVE)).is_err());
        let six = NonZeroU32::new(6);
        let (same, event) = resume(&end, six).unwrap();
        let (next, action) = step(&same, &event.unwrap()).unwrap();
        assert_eq!((next.maximum.get(), action), (6, Action::Take(RunEvent::Next)));
    }

    #[test]
    fn an_interrupted_iteration_is_repeated() {
        let mut run = Position::created(NonZeroU32::MIN, Review::AUDITOR);
        for event in
            [RunEvent::Start, RunEvent::Interrupt(TERM), resumed(), RunEvent::RecoveryNothing]
        {
            run = step(&run, &event).unwrap().0;
        }
        assert_eq!(run.action(), Action::Take(RunEvent::Next));
        let (again, action) = step(&run, &RunEvent::Next).unwrap();
        assert_eq!((again.iteration, action), (1, Action::RunWorker));
    }

    #[test]
    fn a_result_goes_to_the_checks_and_to_the_auditor_that_there_are() {
        let after = |review: Review, events: &[RunEvent]| {
            let from = Position { review, ..at(active(Active::WorkerExecuting)) };
            events.iter().fold(from, |run, event| step(&run, event).unwrap().0).stage
        };
        let [audited, checked_and_audited, checked, neither] = Review::ALL;
        let audit = active(Active::AuditPending(Audit::First));
        let passed = [RunEvent::Exit0, RunEvent::Next, RunEvent::ChecksPassed];
        assert_eq!(after(audited, &[RunEvent::Exit0]), audit);
        assert_eq!(after(checked_and_audited, &[RunEvent::Exit0]), active(Active::CheckPending));
        assert_eq!(after(checked_and_audited, &passed), audit);
        assert_eq!(after(checked, &passed), Stage::Completed);
        assert_eq!(after(neither, &[RunEvent::Exit0]), Stage::Completed);
    }

    #[test]
    fn an_auditor_that_hangs_after_its_verdict_is_read_and_nothing_changes() {
        let from = at(active(Active::AuditorExecuting(Audit::First)));
        let expected = (from.clone(), Action::ReadVerdict);
        assert_eq!(step(&from, &RunEvent::ExitHang), Ok(expected));
    }

    #[test]
    fn the_action_follows_from_the_position() {
        let audit = |audit| active(Active::AuditorExecuting(audit));
        for (stage, action) in [
            (active(Active::Created), Action::Take(RunEvent::Start)),
            (active(Active::WorkerExecuting), Action::RunWorker),
            (recovery(crashed()), Action::Recover),
            (active(Active::AuditPending(Audit::First)), Action::Take(RunEvent::Next)),
            (audit(Audit::First), Action::RunAuditor(Audit::First)),
            (audit(Audit::Reminded), Action::RunAuditor(Audit::Reminded)),
            (active(Active::ReiterationPending), Action::Take(RunEvent::Next)),
            (interrupted(Active::Created), Action::Stop),
            (Stage::Completed, Action::Stop),
        ] {
            assert_eq!(at(stage).action(), action);
        }
    }

    #[test]
    fn final_runs_are_not_resumed_with_a_reason() {
        let refusal = |stage| resume(&at(stage), None).unwrap_err().to_string();
        assert!(refusal(Stage::Completed).contains("COMPLETED"));
        let rejected = refusal(Stage::Rejected("needs a card".to_owned()));
        assert!(rejected.contains("REJECTED (needs a card)"), "{rejected}");
        assert!(refusal(Stage::Failed(Reason::StuckConfirmed)).contains("stuck_confirmed"));
        assert!(refusal(Stage::Failed(Reason::MaxIterations)).contains("--max-iterations"));
    }

    #[test]
    fn a_run_whose_runner_died_is_recovered_and_pending_runs_continue() {
        let event_of = |stage| resume(&at(stage), None).unwrap().1;
        let died = Some(RunEvent::SupervisorDied);
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
    fn exit_codes_match_the_documentation() {
        let code = |stage: Stage| stage.exit_code();
        assert_eq!(code(Stage::Completed), Some(0));
        assert_eq!(code(Stage::Failed(Reason::ExitCode(9))), Some(1));
        assert_eq!(code(Stage::Rejected("no".to_owned())), Some(3));
        assert_eq!(code(given_up(Reason::MaxCost, Active::ReiterationPending)), Some(5));
        assert_eq!(code(given_up(Reason::ApiError, Active::ReiterationPending)), Some(1));
        assert_eq!(code(Stage::Failed(Reason::MaxIterations)), Some(4));
        assert_eq!(code(Stage::Failed(Reason::MaxRuntime)), Some(4));
        for (signal, expected) in [(2, 130), (15, 143)] {
            let stage = Stage::Interrupted { signal, before: Active::Created };
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
    fn an_impossible_history_is_refused() {
        for (history, entry) in [
            (vec![(RunState::Completed, None)], 0),
            (vec![(RunState::Created, None), (RunState::Completed, None)], 1),
            (vec![(RunState::Created, None), (RunState::Interrupted, None)], 1),
            (vec![], 0),
        ] {
            let broken = Position::replay(FIVE, Review::AUDITOR, history).unwrap_err();
            assert_eq!(broken.entry, entry);
        }
    }

    #[test]
    fn a_reason_that_looks_like_another_is_still_the_feedback() {
        let reason = Reason::parse("max_runtime");
        let rejected = at(active(Active::AuditorExecuting(Audit::First)))
            .then(RunState::Rejected, Some(&reason))
            .unwrap();
        assert_eq!(rejected.stage, Stage::Rejected("max_runtime".to_owned()));
    }

    fn any_event() -> impl Strategy<Value = RunEvent> {
        prop_oneof![
            2 => prop::sample::select(events()),
            // Prefer usual events, so that walks get far.
            3 => prop::sample::select(vec![
                RunEvent::Start, RunEvent::Exit0, RunEvent::Next, RunEvent::Retry, RunEvent::RecoveryPartial,
                RunEvent::SupervisorDied, RunEvent::Interrupt(2), resumed(), RunEvent::RecoveryNothing,
                RunEvent::ChecksPassed, RunEvent::ChecksFailed,
            ]),
        ]
    }

    proptest! {
        #[test]
        fn random_walks_keep_the_promises(
            maximum in 1..6_u32,
            review in prop::sample::select(Review::ALL.to_vec()),
            walk in prop::collection::vec(any_event(), 0..120),
        ) {
            let mut run = Position::created(NonZeroU32::new(maximum).unwrap(), review);
            let mut history = vec![(run.state(), run.stage.reason())];
            for event in walk {
                let before = run.clone();
                let Ok((next, action)) = step(&run, &event) else {
                    continue;
                };
                // Only a larger maximum leads out of a final state, unless no work failed.
                if before.state().is_terminal() && !matches!(before.stage, Stage::GivenUp { .. }) {
                    prop_assert_eq!(&before.stage, &Stage::Failed(Reason::MaxIterations));
                    prop_assert!(next.maximum > before.maximum);
                }
                if next.state() == RunState::WorkerExecuting {
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
                let replayed = Position::replay(run.maximum, review, entries);
                prop_assert_eq!(replayed.as_ref(), Ok(&run));
            }
        }

        #[test]
        fn any_history_is_replayed_or_refused(
            entries in prop::collection::vec(
                (prop::sample::select(STATES.to_vec()), prop::option::of("[a-z_:0-9]{0,20}")),
                0..20,
            ),
        ) {
            let entries: Vec<(RunState, Option<Reason>)> = entries
                .into_iter()
                .map(|(state, reason)| (state, reason.map(|text| Reason::parse(&text))))
                .collect();
            let _ = Position::replay(
                FIVE,
                Review::AUDITOR,
                entries.iter().map(|(state, reason)| (*state, reason.as_ref())),
            );
        }
    }
}
