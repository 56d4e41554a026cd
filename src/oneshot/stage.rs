//! The states of an agent run: their names, and each with the data that the next step
//! depends on. Pure.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::reason::Reason;

/// What a shell adds to a signal's number for its exit code.
const SIGNAL_EXIT_BASE: i32 = 128;

/// The name of a state, as the files and the faces have it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum State {
    /// Nothing has been started.
    Created,
    /// The worker runs.
    WorkerExecuting,
    /// The worker ended badly: what it has done is to be found out.
    RecoveryPending,
    /// There is a result for the auditor.
    AuditPending,
    /// The auditor runs.
    AuditorExecuting,
    /// The worker is to run again.
    ReiterationPending,
    /// A signal ended it; it can be resumed.
    Interrupted,
    /// The auditor said DONE.
    Completed,
    /// The auditor said IMPOSSIBLE.
    Rejected,
    /// Given up.
    Failed,
}

impl State {
    /// All of them, in the order of a run.
    pub const ALL: [State; 10] = [
        State::Created,
        State::WorkerExecuting,
        State::RecoveryPending,
        State::AuditPending,
        State::AuditorExecuting,
        State::ReiterationPending,
        State::Interrupted,
        State::Completed,
        State::Rejected,
        State::Failed,
    ];

    /// The word that stands for it in the files.
    pub fn name(self) -> &'static str {
        match self {
            State::Created => "CREATED",
            State::WorkerExecuting => "WORKER_EXECUTING",
            State::RecoveryPending => "RECOVERY_PENDING",
            State::AuditPending => "AUDIT_PENDING",
            State::AuditorExecuting => "AUDITOR_EXECUTING",
            State::ReiterationPending => "REITERATION_PENDING",
            State::Interrupted => "INTERRUPTED",
            State::Completed => "COMPLETED",
            State::Rejected => "REJECTED",
            State::Failed => "FAILED",
        }
    }

    /// Whether a run ends there.
    pub fn is_terminal(self) -> bool {
        matches!(self, State::Completed | State::Rejected | State::Failed)
    }

    /// Whether an agent runs.
    pub fn is_executing(self) -> bool {
        matches!(self, State::WorkerExecuting | State::AuditorExecuting)
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Which of the two agents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// It does the work.
    Worker,
    /// It judges the result.
    Auditor,
}

impl Role {
    /// `worker` or `auditor`.
    pub fn name(self) -> &'static str {
        match self {
            Role::Worker => "worker",
            Role::Auditor => "auditor",
        }
    }
}

/// What led to a recovery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cause {
    /// The worker: when nothing is found the run has failed, for this reason.
    Worker(Reason),
    /// This signal, which the worker has nothing to do with.
    Interrupt(i32),
    /// The end of the process that ran the run.
    SupervisorDied,
}

impl Cause {
    /// The cause as a reason.
    pub fn reason(&self) -> Reason {
        match self {
            Cause::Worker(reason) => reason.clone(),
            Cause::Interrupt(signal) => Reason::Signal(*signal),
            Cause::SupervisorDied => Reason::SupervisorDied,
        }
    }

    /// Whether the iteration that it ended counts against the maximum.
    pub(super) fn counts(&self) -> bool {
        matches!(self, Cause::Worker(_))
    }
}

/// Which try of one iteration's audit it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Audit {
    /// The first.
    First,
    /// The one after the auditor gave no verdict: it is reminded of the format.
    Reminded,
}

/// A stage from which a run goes on, and to which it comes back after a pause.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Active {
    /// See [`State::Created`].
    Created,
    /// See [`State::WorkerExecuting`].
    WorkerExecuting,
    /// See [`State::RecoveryPending`].
    RecoveryPending(Cause),
    /// See [`State::AuditPending`].
    AuditPending(Audit),
    /// See [`State::AuditorExecuting`].
    AuditorExecuting(Audit),
    /// See [`State::ReiterationPending`].
    ReiterationPending,
}

/// A state with all that the next step depends on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stage {
    /// On its way.
    Active(Active),
    /// Paused.
    Interrupted {
        /// By this signal.
        signal: i32,
        /// There.
        before: Active,
    },
    /// Done.
    Completed,
    /// It cannot be done, as this first line of the feedback says.
    Rejected(String),
    /// Given up.
    Failed(Reason),
}

impl Stage {
    /// Its name.
    pub fn state(&self) -> State {
        match self {
            Stage::Active(Active::Created) => State::Created,
            Stage::Active(Active::WorkerExecuting) => State::WorkerExecuting,
            Stage::Active(Active::RecoveryPending(_)) => State::RecoveryPending,
            Stage::Active(Active::AuditPending(_)) => State::AuditPending,
            Stage::Active(Active::AuditorExecuting(_)) => State::AuditorExecuting,
            Stage::Active(Active::ReiterationPending) => State::ReiterationPending,
            Stage::Interrupted { .. } => State::Interrupted,
            Stage::Completed => State::Completed,
            Stage::Rejected(_) => State::Rejected,
            Stage::Failed(_) => State::Failed,
        }
    }

    /// Why it is there, where the history says so.
    pub fn reason(&self) -> Option<Reason> {
        match self {
            Stage::Active(Active::RecoveryPending(cause)) => Some(cause.reason()),
            Stage::Active(Active::AuditPending(Audit::Reminded)) => Some(Reason::NoVerdict),
            Stage::Interrupted { signal, .. } => Some(Reason::Signal(*signal)),
            Stage::Rejected(line) => Some(Reason::Feedback(line.clone())),
            Stage::Failed(reason) => Some(reason.clone()),
            Stage::Active(_) | Stage::Completed => None,
        }
    }

    /// The exit code of a command whose run has come to rest there; `None` where a run
    /// goes on.
    pub fn exit_code(&self) -> Option<u8> {
        match self {
            Stage::Active(_) => None,
            Stage::Completed => Some(0),
            Stage::Failed(Reason::MaxIterations | Reason::MaxRuntime) => Some(4),
            Stage::Failed(_) => Some(1),
            Stage::Rejected(_) => Some(3),
            Stage::Interrupted { signal, .. } => {
                Some(u8::try_from(SIGNAL_EXIT_BASE + signal).unwrap_or(1))
            }
        }
    }
}
