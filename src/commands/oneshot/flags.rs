//! What the command line says of a run, as settings.

use crate::cli::{OnStuck, OneshotRunArguments};
use crate::config::{RunFlags, StuckChoice};

/// The flags of these arguments.
pub(super) fn of(arguments: &OneshotRunArguments) -> RunFlags {
    RunFlags {
        executor: arguments.executor.clone(),
        auditor: arguments.auditor.clone().map(Some),
        model: arguments.model.clone().map(Some),
        auditor_model: arguments.auditor_model.clone().map(Some),
        max_iterations: arguments.max_iterations,
        inactivity: arguments.inactivity,
        max_runtime: arguments.max_runtime,
        on_stuck: arguments.on_stuck.map(choice),
        judge: arguments.judge.clone().map(Some),
        heartbeat: arguments.heartbeat.map(Some),
        stuck_threshold: arguments
            .stuck_threshold
            .map(|count| usize::try_from(count.get()).ok()),
    }
}

fn choice(policy: OnStuck) -> StuckChoice {
    match policy {
        OnStuck::Ask => StuckChoice::Ask,
        OnStuck::Wait => StuckChoice::Wait,
        OnStuck::Recover => StuckChoice::Recover,
        OnStuck::Fail => StuckChoice::Fail,
    }
}
