//! How a run is to be run: what was asked for when it was begun, what a resume asks for
//! over that, and what follows from both.

use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

use super::flags;
use crate::cli::OneshotRunArguments;
use crate::config::{Config, RunSettings, StuckChoice};
use crate::oneshot::context::RunOptions;
use crate::oneshot::engine::Plan;
use crate::oneshot::policy::{Measure, OnStuck, Rules};
use crate::progress::tracker;

/// The switch of old: `0` asks for plain time limits.
const STATUS_SWITCH: &str = "AUTONOMOUS_STATUS_BASED_TIMEOUT";
/// Evidence is looked at at least so often, so that silence is measured well enough.
const LONGEST_LOOK: Duration = Duration::from_secs(1);
/// And so often at most: each look costs a scan of the machine.
const SHORTEST_LOOK: Duration = Duration::from_millis(100);
/// So many looks are taken within the silence that ends an agent.
const LOOKS_IN_SILENCE: u32 = 4;

/// What a new run is to be begun with.
pub(super) fn options(settings: &RunSettings) -> RunOptions {
    RunOptions {
        inactivity: settings.inactivity.as_secs_f64(),
        max_runtime: settings.max_runtime().map(|time| time.as_secs_f64()),
        on_stuck: Some(settings.on_stuck.name().to_owned()),
        judge: settings.judge.clone(),
        heartbeat: settings.heartbeat.map(|time| time.as_secs_f64()),
        stuck_threshold: settings.stuck_threshold.map(|count| count as u64),
    }
}

/// What a resume asks for over what the run was begun with.
pub(super) fn overlay(arguments: &OneshotRunArguments, mut options: RunOptions) -> RunOptions {
    let flags = flags::of(arguments);
    if let Some(inactivity) = flags.inactivity {
        options.inactivity = inactivity.as_secs_f64();
    }
    if let Some(runtime) = flags.max_runtime {
        options.max_runtime = (!runtime.is_zero()).then_some(runtime.as_secs_f64());
    }
    if let Some(on_stuck) = flags.on_stuck {
        options.on_stuck = Some(on_stuck.name().to_owned());
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

/// What follows from a run's options.
pub(super) fn plan(options: &RunOptions, config: &Config, settings: &RunSettings) -> Plan {
    let time = |seconds: f64| Duration::try_from_secs_f64(seconds).ok();
    let inactivity = time(options.inactivity).filter(|time| !time.is_zero());
    let runtime = options.max_runtime.and_then(time);
    let threshold = options
        .stuck_threshold
        .unwrap_or(config.stuck_threshold as u64);
    let on_stuck = options.on_stuck.as_deref();
    let on_stuck = on_stuck.and_then(StuckChoice::from_name);
    let by_time = std::env::var_os(STATUS_SWITCH).is_some_and(|switch| switch == "0");
    Plan {
        rules: Rules {
            inactivity: inactivity.unwrap_or(settings.inactivity),
            runtime_ends: runtime.and_then(|time| Instant::now().checked_add(time)),
            on_stuck: on_stuck_of(on_stuck.unwrap_or(StuckChoice::Auto)),
            measure: match by_time {
                true => Measure::Time,
                false => Measure::Status,
            },
            judge_again_after: threshold,
        },
        tracking: tracker::Settings {
            // A run's file that somebody has changed may ask for looks without a pause.
            heartbeat_interval: options
                .heartbeat
                .and_then(time)
                .map_or(config.heartbeat_interval, |time| time.max(SHORTEST_LOOK)),
            stuck_threshold: threshold,
        },
    }
}

/// Where nobody can be asked, one waits.
fn on_stuck_of(choice: StuckChoice) -> OnStuck {
    let somebody = io::stdin().is_terminal() && io::stderr().is_terminal();
    match choice {
        StuckChoice::Auto | StuckChoice::Ask if somebody => OnStuck::Ask,
        StuckChoice::Auto | StuckChoice::Ask | StuckChoice::Wait => OnStuck::Wait,
        StuckChoice::Recover => OnStuck::Recover,
        StuckChoice::Fail => OnStuck::Fail,
    }
}

/// How often an agent's processes are looked at.
pub(super) fn looks(plan: &Plan) -> tracker::Settings {
    let often = plan.rules.inactivity / LOOKS_IN_SILENCE;
    let interval = often.min(LONGEST_LOOK).max(SHORTEST_LOOK);
    tracker::Settings {
        heartbeat_interval: interval.min(plan.tracking.heartbeat_interval),
        ..plan.tracking
    }
}
