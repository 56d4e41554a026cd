//! Whether a running task gets on, in words: its status, and the evidence for it, the
//! strongest first.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::conditions::{proof, summary, wanted_word};
use super::times::seconds;
use crate::progress::condition::Condition;
use crate::progress::tracker::{BlockedOn, ChangeKind, Deeds, Status};
use crate::progress::waiting::Waiting;
use crate::task::live::{Input, State};
use crate::task::words;

/// How it is with a task's progress at one moment.
#[derive(Debug, Clone)]
pub(super) struct Standing {
    pub status: Status,
    /// What it did between the last two looks.
    pub deeds: Deeds,
    /// It reads or writes steadily.
    pub moves_bytes: bool,
    /// Something else than its output has changed last, and not long ago.
    pub does_something_new: bool,
    /// For how long there has been nothing new.
    pub unchanged_for: Duration,
    /// Who waits for the network.
    pub peer: Option<(i32, String)>,
    /// Not all evidence can be had.
    pub degraded: bool,
}

impl Standing {
    /// Now; `None` before the first look.
    pub fn of(state: &State, now: Instant) -> Option<Standing> {
        let progress = state.progress.as_ref()?;
        let status = state.status(now)?;
        let newest = progress.tracker.last_change();
        Some(Standing {
            status,
            does_something_new: status == Status::Progressing
                && newest.is_some_and(|change| change.kind != ChangeKind::Output),
            deeds: *progress.tracker.deeds()?,
            moves_bytes: progress.tracker.moves_bytes(now),
            unchanged_for: progress.tracker.unchanged_for(now),
            peer: progress.peer.clone(),
            degraded: progress.degraded,
        })
    }

    /// Whether it uses CPU time; that alone is weak evidence.
    pub fn computes(&self) -> bool {
        words::computes(&self.deeds)
    }

    /// `["io +5.5 MB", "cpu 0%"]`
    fn evidence(&self) -> Vec<String> {
        let peer = self.peer.as_ref().map(|(pid, name)| (*pid, name.as_str()));
        words::evidence(self.status, &self.deeds, peer, self.unchanged_for)
    }
}

/// `progressing: io +5.5 MB`, `stuck: output +45 B, nothing new for 40s`; nothing where a line of its own tells what holds it up.
pub(super) fn part(standing: &Standing) -> Option<String> {
    let status = standing.status;
    match status {
        Status::Ended | Status::Blocked(BlockedOn::Input | BlockedOn::Stop) => None,
        _ => {
            let evidence = standing.evidence();
            let strongest = evidence.first()?;
            Some(match status {
                Status::Stuck => format!(
                    "{status}: {strongest}, nothing new for {}",
                    seconds(standing.unchanged_for)
                ),
                _ => format!("{status}: {strongest}"),
            })
        }
    }
}

/// All evidence there is, the strongest first.
pub(super) fn evidence(
    standing: Option<&Standing>,
    waiting: Option<&Waiting>,
    conditions: &[Condition],
    input: Input,
) -> Vec<String> {
    let mut evidence: Vec<String> = waiting
        .map(|waiting| proof(waiting, input))
        .into_iter()
        .collect();
    evidence.extend(summary(conditions));
    evidence.extend(standing.iter().flat_map(|standing| standing.evidence()));
    evidence
}

/// For programs; null before the first look.
pub(super) fn meta(
    standing: Option<&Standing>,
    waiting: Option<&Waiting>,
    conditions: &[Condition],
    input: Input,
) -> Value {
    let waiting_for = waiting.map(|waiting| wanted_word(waiting.wanted));
    json!({
        "status": standing.map(|standing| standing.status.to_string()),
        "evidence": evidence(standing, waiting, conditions, input),
        "over_s": standing.map(|standing| (10.0 * standing.deeds.time.as_secs_f64()).round() / 10.0),
        "waiting_for": waiting_for,
        "prompt": waiting.map(|waiting| waiting.prompt.trim()),
        "tracker": standing.map(|standing| if standing.degraded { "degraded" } else { "whole" }),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn standing(status: Status, deeds: Deeds) -> Standing {
        Standing {
            status,
            deeds,
            moves_bytes: false,
            does_something_new: false,
            unchanged_for: Duration::from_secs(40),
            peer: Some((4711, "curl".to_owned())),
            degraded: false,
        }
    }

    #[test]
    fn the_strongest_evidence_comes_first_and_cpu_time_last() {
        let deeds = Deeds {
            io: 5_500_000,
            output: 10,
            born: 2,
            cpu_share: 0.021,
            ..Deeds::default()
        };
        let evidence = standing(Status::Progressing, deeds).evidence();
        assert_eq!(
            evidence,
            ["io +5.5 MB", "output +10 B", "processes +2 -0", "cpu 2%"]
        );
        let little = Deeds {
            io: 24,
            output: 10,
            ..Deeds::default()
        };
        let evidence = standing(Status::Slow, little).evidence();
        assert_eq!(evidence, ["output +10 B", "io +24 B", "cpu 0%"]);
        let evidence = standing(Status::Silent, Deeds::default()).evidence();
        assert_eq!(evidence, ["cpu 0%"]);
        let spins = Deeds {
            cpu_share: 0.98,
            ..Deeds::default()
        };
        let evidence = standing(Status::Silent, spins).evidence();
        assert_eq!(evidence, ["cpu 98% (busy, unverified)"]);
        let blocked = Status::Blocked(BlockedOn::Network);
        let evidence = standing(blocked, Deeds::default()).evidence();
        assert_eq!(evidence, ["waits for its peer: 4711 curl", "cpu 0%"]);
    }
    #[test]
    fn what_is_stuck_is_told_with_how_long_nothing_was_new() {
        let deeds = Deeds {
            output: 45,
            ..Deeds::default()
        };
        let stuck = standing(Status::Stuck, deeds);
        let evidence = stuck.evidence();
        assert_eq!(evidence, ["output +45 B", "nothing new for 40s", "cpu 0%"]);
        assert_eq!(
            part(&stuck).as_deref(),
            Some("stuck: output +45 B, nothing new for 40s")
        );
    }
}
