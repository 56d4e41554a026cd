//! A run's options, the overrides of a resume, and the plan that follows from both.

use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

use crate::cli::{OnStuck, OneshotRunArguments};
use crate::config::{Config, RunFlags, RunSettings, StuckChoice};
use crate::oneshot::engine::WatchSettings;
use crate::oneshot::policy::{BudgetLimits, SignsOfLife, WatchRules};
use crate::oneshot::run_files::RunOptions;
use crate::progress::tracker;

/// The switch of older versions: `0` selects plain time limits.
const STATUS_SWITCH: &str = "AUTONOMOUS_STATUS_BASED_TIMEOUT";
/// The longest time between two checks, which limits the error of measured silence.
const MAX_PROBE_INTERVAL: Duration = Duration::from_secs(1);
/// The shortest time between two checks, since each scans the machine's processes.
const MIN_INTERVAL: Duration = Duration::from_millis(100);
/// The minimum number of checks within the silence that ends an agent.
const PROBES_IN_SILENCE: u32 = 4;

/// The options of a new run.
pub(super) fn options(settings: &RunSettings) -> RunOptions {
    RunOptions {
        inactivity: settings.inactivity.as_secs_f64(),
        max_runtime: settings.max_runtime().map(|time| time.as_secs_f64()),
        wait_limit: Some(settings.wait_limit.as_secs_f64()),
        check_timeout: Some(settings.check_timeout.as_secs_f64()),
        allow_edits: settings.allow_edits,
        max_cost: settings.max_cost(),
        max_tokens: settings.max_tokens(),
        on_stuck: Some(settings.on_stuck.name()),
        judge: settings.judge.clone(),
        heartbeat: settings.heartbeat.map(|time| time.as_secs_f64()),
        stuck_threshold: settings.stuck_threshold.map(|count| count as u64),
    }
}

/// The options of a run with the overrides of a resume.
pub(super) fn overlay(arguments: &OneshotRunArguments, mut options: RunOptions) -> RunOptions {
    let flags = flags(arguments);
    if let Some(inactivity) = flags.inactivity {
        options.inactivity = inactivity.as_secs_f64();
    }
    if let Some(runtime) = flags.max_runtime {
        options.max_runtime = (!runtime.is_zero()).then_some(runtime.as_secs_f64());
    }
    if let Some(limit) = flags.wait_limit {
        options.wait_limit = Some(limit.as_secs_f64());
    }
    if let Some(limit) = flags.check_timeout {
        options.check_timeout = Some(limit.as_secs_f64());
    }
    options.allow_edits |= arguments.allow_edits;
    if let Some(cost) = flags.max_cost {
        options.max_cost = (cost > 0.0).then_some(cost);
    }
    if let Some(tokens) = flags.max_tokens {
        options.max_tokens = (tokens > 0).then_some(tokens as u64);
    }
    if let Some(on_stuck) = flags.on_stuck {
        options.on_stuck = Some(on_stuck.name());
    }
    if let Some(judge) = flags.judge {
        options.judge = judge;
    }
    if let Some(heartbeat) = flags.heartbeat {
        options.heartbeat = heartbeat.map(|time| time.as_secs_f64());
    }
    if let Some(threshold) = flags.stuck_threshold {
        options.stuck_threshold = threshold.map(|count| count as u64);
    }
    options
}

/// The plan that follows from a run's options.
pub(super) fn plan(options: &RunOptions, config: &Config, settings: &RunSettings) -> WatchSettings {
    let time = |seconds: f64| Duration::try_from_secs_f64(seconds).ok();
    let inactivity = time(options.inactivity).filter(|time| !time.is_zero());
    let runtime = options.max_runtime.and_then(time);
    let threshold = options.stuck_threshold.unwrap_or(config.stuck_threshold as u64);
    let on_stuck = options.on_stuck.as_deref();
    let on_stuck = on_stuck.and_then(StuckChoice::from_name);
    let by_time = std::env::var_os(STATUS_SWITCH).is_some_and(|switch| switch == "0");
    WatchSettings {
        budget: BudgetLimits { usd: options.max_cost, tokens: options.max_tokens },
        check_timeout: options.check_timeout.and_then(time).unwrap_or(settings.check_timeout),
        rules: WatchRules {
            inactivity: inactivity.unwrap_or(settings.inactivity),
            runtime_ends: runtime.and_then(|time| Instant::now().checked_add(time)),
            wait_limit: options.wait_limit.and_then(time).unwrap_or(settings.wait_limit),
            on_stuck: on_stuck_of(on_stuck.unwrap_or(StuckChoice::Auto)),
            signs_of_life: if by_time { SignsOfLife::OutputOnly } else { SignsOfLife::All },
            judge_again_after: threshold,
        },
        tracker: tracker::TrackerSettings {
            // An edited run file may ask for checks without a pause.
            heartbeat_interval: options
                .heartbeat
                .and_then(time)
                .map_or(config.heartbeat_interval, |time| time.max(MIN_INTERVAL)),
            stuck_threshold: threshold,
        },
    }
}

/// Waits instead of asking if there is no terminal to ask on.
fn on_stuck_of(choice: StuckChoice) -> OnStuck {
    let is_attended = io::stdin().is_terminal() && io::stderr().is_terminal();
    match choice {
        StuckChoice::Auto | StuckChoice::Ask if is_attended => OnStuck::Ask,
        StuckChoice::Auto | StuckChoice::Ask | StuckChoice::Wait => OnStuck::Wait,
        StuckChoice::Recover => OnStuck::Recover,
        StuckChoice::Fail => OnStuck::Fail,
    }
}

/// How an agent's processes are checked.
pub(super) fn probe_settings(plan: &WatchSettings) -> tracker::TrackerSettings {
    let interval = plan.rules.inactivity / PROBES_IN_SILENCE;
    let interval = interval.clamp(MIN_INTERVAL, MAX_PROBE_INTERVAL);
    tracker::TrackerSettings {
        heartbeat_interval: interval.min(plan.tracker.heartbeat_interval),
        ..plan.tracker
    }
}

/// The settings of a run from the command line.
pub(super) fn flags(arguments: &OneshotRunArguments) -> RunFlags {
    RunFlags {
        executor: arguments.executor.clone(),
        auditor: arguments.auditor.clone().map(Some),
        check: (!arguments.check.is_empty()).then(|| arguments.check.clone()),
        check_timeout: arguments.check_timeout,
        max_cost: arguments.max_cost,
        allow_edits: arguments.allow_edits.then_some(true),
        worktree: arguments.worktree.then_some(true),
        then: arguments.then.clone().map(Some),
        max_tokens: arguments.max_tokens.and_then(|count| usize::try_from(count).ok()),
        model: arguments.model.clone().map(Some),
        auditor_model: arguments.auditor_model.clone().map(Some),
        max_iterations: arguments.max_iterations,
        inactivity: arguments.inactivity,
        max_runtime: arguments.max_runtime,
        wait_limit: arguments.wait_limit,
        on_stuck: arguments.on_stuck.map(choice),
        judge: arguments.judge.clone().map(Some),
        heartbeat: arguments.heartbeat.map(Some),
        keep_days: arguments.keep_days.map(usize::from),
        stuck_threshold: arguments.stuck_threshold.map(|count| usize::try_from(count.get()).ok()),
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
