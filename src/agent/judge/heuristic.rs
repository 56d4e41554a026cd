//! The judgement that needs nobody: the tracker's status, and what it counted.

use super::evidence::{Evidence, Finding, Judgement};
use crate::progress::tracker::{BlockedOn, Status};

/// Judges by the tracker's status alone. Silence is no loop and no failure: whoever gives
/// no sign of life waits for something.
pub fn heuristic(evidence: &Evidence) -> Judgement {
    let (finding, words) = match evidence.status {
        Status::Progressing => (Finding::Progress, "it gets on"),
        Status::Slow => (Finding::Progress, "it is slow, within its usual time"),
        Status::Stuck => (Finding::Loop, "it lives and does nothing new"),
        Status::Silent => (Finding::Blocked, "it gives no sign of life"),
        Status::Blocked(BlockedOn::Input) => (Finding::Blocked, "it waits for input"),
        Status::Blocked(BlockedOn::Network) => (Finding::Blocked, "it waits for the network"),
        Status::Blocked(BlockedOn::Stop) => (Finding::Blocked, "a signal has stopped it"),
        Status::Ended => (Finding::Unknown, "it has ended"),
    };
    Judgement {
        finding,
        reason: format!("{words}: {}", counted(evidence)),
    }
}

fn counted(evidence: &Evidence) -> String {
    let last = match evidence.last_change {
        Some((kind, ago)) => format!("the last {} s ago ({})", ago.as_secs(), kind.name()),
        None => "none so far".to_owned(),
    };
    format!(
        "signs of life {}, changes {}, {last}",
        evidence.heartbeats, evidence.state_changes
    )
}

#[cfg(test)]
mod tests {
    use super::super::evidence::tests::evidence;
    use super::*;

    #[test]
    fn every_status_has_its_finding() {
        for (status, finding) in [
            (Status::Progressing, Finding::Progress),
            (Status::Slow, Finding::Progress),
            (Status::Stuck, Finding::Loop),
            (Status::Silent, Finding::Blocked),
            (Status::Blocked(BlockedOn::Input), Finding::Blocked),
            (Status::Blocked(BlockedOn::Network), Finding::Blocked),
            (Status::Blocked(BlockedOn::Stop), Finding::Blocked),
            (Status::Ended, Finding::Unknown),
        ] {
            assert_eq!(heuristic(&evidence(status)).finding, finding, "{status}");
        }
    }

    #[test]
    fn the_reason_tells_what_was_counted() {
        assert_eq!(
            heuristic(&evidence(Status::Stuck)).reason,
            "it lives and does nothing new: signs of life 12, changes 3, \
             the last 75 s ago (output)"
        );
        let mut young = evidence(Status::Slow);
        (young.heartbeats, young.state_changes, young.last_change) = (1, 0, None);
        assert_eq!(
            heuristic(&young).reason,
            "it is slow, within its usual time: signs of life 1, changes 0, none so far"
        );
    }
}
