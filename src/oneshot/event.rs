//! What may happen to an agent run, and what is to be done about it. Pure.

use std::num::NonZeroU32;

use super::reason::Crash;
use super::stage::Audit;
use crate::agent::activity::AgentError;

/// What is done about an agent that is stuck for sure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StuckPolicy {
    /// Its work is recovered and the run goes on.
    Recover,
    /// The run is given up.
    Fail,
}

/// What may happen to a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A created run begins.
    Start,
    /// The worker ended with exit 0 and no error of its own.
    Exit0,
    /// The agent ended in any other way.
    Crash(Crash),
    /// Nothing was seen of the agent for too long.
    Inactivity,
    /// The agent is stuck for sure.
    Stuck(StuckPolicy),
    /// The agent ended and reported an error of its own.
    AgentError(AgentError),
    /// The agent had finished and did not end.
    ExitHang,
    /// The process that ran the run is gone.
    SupervisorDied,
    /// The agent's program could not be started.
    SpawnFailed,
    /// This signal is to pause the run.
    Interrupt(i32),
    /// The run is to end for good.
    Cancel,
    /// The run has taken as long as it may.
    MaxRuntime,
    /// The worker had done its work.
    RecoverySuccess,
    /// The worker had done some of it.
    RecoveryPartial,
    /// Nothing is left of the worker's work.
    RecoveryNothing,
    /// A pending run goes on.
    Next,
    /// There is no iteration left.
    MaxIterations,
    /// The auditor is content.
    Done,
    /// The auditor wants another iteration.
    Retry,
    /// The auditor says that it cannot be done, and why.
    Impossible {
        /// All that it said.
        feedback: String,
    },
    /// The auditor ended without a verdict.
    NoVerdict,
    /// An interrupted run, or one out of iterations, goes on.
    Resume {
        /// A new maximum of iterations.
        maximum: Option<NonZeroU32>,
    },
}

/// What is to be done at a position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Nothing: this event is to be taken at once.
    Take(Event),
    /// The worker is to be run.
    RunWorker,
    /// It is to be found out what the worker had done.
    Recover,
    /// The auditor is to be run.
    RunAuditor(Audit),
    /// The auditor's tree is to be ended and its verdict read, as after exit 0.
    ReadVerdict,
    /// The run is over, or paused.
    Stop,
}
