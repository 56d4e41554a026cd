//! The evidence of how a task is, in the words that all faces use for it.
//!
//! One short phrase for each. Limits: what a caller might do about it is the faces' to say.

use std::time::Duration;

use super::live::Input;
use crate::progress::condition::{Condition, StopSignal};
use crate::progress::outlook::{BlockedOn, Status};
use crate::progress::tracker::{BYTES_THAT_COUNT, Deeds};
use crate::progress::waiting::{Proof, Waiting, Wanted};
use crate::text::quantity::{seconds, size};

/// Processes of one kind that are named; the others are counted.
const NAMED: usize = 4;
/// From this part of a core on, CPU time is worth a word where nothing else is done.
const BUSY_SHARE: f64 = 0.1;

/// `["io +5.5 MB", "cpu 0%"]`, the strongest first. `peer` is who waits for the network,
/// where somebody does, and `unchanged_for` how long there has been nothing new.
pub fn evidence(
    status: Status,
    deeds: &Deeds,
    peer: Option<(i32, &str)>,
    unchanged_for: Duration,
) -> Vec<String> {
    let mut evidence = Vec::new();
    if let (Status::Blocked(BlockedOn::Network), Some((pid, name))) = (status, peer) {
        evidence.push(format!("waits for its peer: {pid} {name}"));
    }
    let io = (deeds.io > 0).then(|| format!("io +{}", size(deeds.io)));
    let (much, little) = match deeds.io >= BYTES_THAT_COUNT {
        true => (io, None),
        false => (None, io),
    };
    evidence.extend(much);
    if deeds.output > 0 {
        evidence.push(format!("output +{}", size(deeds.output)));
    }
    if deeds.born > 0 || deeds.ended > 0 {
        let (born, ended) = (deeds.born, deeds.ended);
        evidence.push(format!("processes +{born} -{ended}"));
    }
    evidence.extend(little);
    if status == Status::Stuck {
        evidence.push(format!("nothing new for {}", seconds(unchanged_for)));
    }
    let cpu = format!("cpu {:.0}%", 100.0 * deeds.cpu_share);
    evidence.push(match computes(deeds) && !deeds.are_life() {
        true => format!("{cpu} (busy, unverified)"),
        false => cpu,
    });
    evidence
}

/// Whether it uses CPU time; that alone is weak evidence.
pub fn computes(deeds: &Deeds) -> bool {
    deeds.cpu_share >= BUSY_SHARE
}

/// What a task waits for, in one word.
pub fn wanted_word(wanted: Wanted) -> &'static str {
    match wanted {
        Wanted::Input => "input",
        Wanted::Password => "password",
    }
}

/// `reads tty: 4711 passwd`
pub fn proof(waiting: &Waiting, input: Input) -> String {
    let device = match input {
        Input::Terminal => "tty",
        Input::Pipe | Input::None => "stdin",
    };
    let reader = format!("{} {}", waiting.reader.pid, waiting.reader.name);
    match waiting.proof {
        Proof::Blocked => format!("reads {device}: {reader}"),
        Proof::Signs => format!("asks and is silent, cannot be read: {reader}"),
    }
}

/// `stopped: 4711 vim`, for lists.
pub fn summary(conditions: &[Condition]) -> Vec<String> {
    kinds(conditions)
        .into_iter()
        .map(|(kind, processes)| format!("{}: {}", kind.word().replace('_', " "), name(&processes)))
        .collect()
}

/// What is told together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind<'a> {
    /// By this signal.
    Stopped {
        /// The signal.
        by: StopSignal,
        /// As [`Condition::holds_up`].
        holds_up: bool,
    },
    /// As [`Condition::DiskSleep`].
    DiskSleep,
    /// As [`Condition::ZombieLeader`].
    ZombieLeader,
    /// Of this user.
    OutOfReach(&'a str),
}

impl Kind<'_> {
    /// The kind of a condition.
    pub fn of(condition: &Condition) -> Kind<'_> {
        match condition {
            Condition::Stopped { by, holds_up, .. } => Kind::Stopped {
                by: *by,
                holds_up: *holds_up,
            },
            Condition::DiskSleep { .. } => Kind::DiskSleep,
            Condition::ZombieLeader { .. } => Kind::ZombieLeader,
            Condition::OutOfReach { user, .. } => Kind::OutOfReach(user),
        }
    }

    /// Its word for programs.
    pub fn word(self) -> &'static str {
        match self {
            Kind::Stopped { .. } => "stopped",
            Kind::DiskSleep => "disk_sleep",
            Kind::ZombieLeader => "zombie_leader",
            Kind::OutOfReach(_) => "other_user",
        }
    }
}

/// The conditions by kind, in their order.
pub fn kinds(conditions: &[Condition]) -> Vec<(Kind<'_>, Vec<&Condition>)> {
    let mut kinds: Vec<(Kind<'_>, Vec<&Condition>)> = Vec::new();
    for condition in conditions {
        let kind = Kind::of(condition);
        match kinds.iter_mut().find(|(known, _)| *known == kind) {
            Some((_, processes)) => processes.push(condition),
            None => kinds.push((kind, vec![condition])),
        }
    }
    kinds
}

/// `1 vim, 2 vim, 2 more`
pub fn name(conditions: &[&Condition]) -> String {
    let mut named: Vec<String> = conditions
        .iter()
        .take(NAMED)
        .map(|condition| {
            let process = condition.process();
            format!("{} {}", process.pid, process.name)
        })
        .collect();
    if conditions.len() > NAMED {
        named.push(format!("{} more", conditions.len() - NAMED));
    }
    named.join(", ")
}

/// The signal's name.
pub fn signal_name(by: StopSignal) -> &'static str {
    match by {
        StopSignal::Stop => "SIGSTOP",
        StopSignal::Keyboard => "SIGTSTP",
        StopSignal::Reading => "SIGTTIN",
        StopSignal::Writing => "SIGTTOU",
        StopSignal::Unknown => "unknown",
    }
}
