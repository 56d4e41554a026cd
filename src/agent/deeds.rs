//! What an agent did, in numbers, and whether that is too little to be what was asked for. Pure.
//!
//! Limits: counts what the agent reports. A program that reports no tools seems to have done
//! nothing.

use std::fmt;

use super::activity::Activity;

/// An answer with fewer words has no substance by itself.
const FEW_WORDS: usize = 30;

/// The acts of an agent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Deeds {
    succeeded: u64,
    failed: u64,
    denied: u64,
    written: u64,
}

impl Deeds {
    /// Counts the next activity.
    pub(crate) fn add(&mut self, activity: &Activity) {
        match activity {
            Activity::ToolResult { failed: false, .. } => self.succeeded += 1,
            Activity::ToolResult { failed: true, .. } => self.failed += 1,
            Activity::Denied(_) => self.denied += 1,
            Activity::FileWritten { .. } => self.written += 1,
            _ => {}
        }
    }

    /// How many calls of tools were not denied. Most agents report a denied one as failed, too.
    fn ran(&self) -> u64 {
        self.succeeded.saturating_add(self.failed.saturating_sub(self.denied))
    }

    /// What an agent that ended well with this answer may have lacked.
    pub(crate) fn shortfall(&self, answer: &str) -> Option<Shortfall> {
        if self.denied > 0 {
            let calls = self.ran().saturating_add(self.denied);
            return Some(Shortfall::Denied { denied: self.denied, calls });
        }
        let is_idle = self.ran() == 0 && self.written == 0;
        let has_substance = answer.split_whitespace().nth(FEW_WORDS).is_some();
        (is_idle && !has_substance).then_some(Shortfall::Idle)
    }
}

/// What an agent may have lacked, as a clause without its subject.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shortfall {
    /// It was denied tools.
    Denied {
        denied: u64,
        /// All of its calls, including those.
        calls: u64,
    },
    /// It did nothing and said next to nothing.
    Idle,
}

impl fmt::Display for Shortfall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Shortfall::Denied { denied, calls: 1 } if *denied == 1 => {
                f.write_str("was denied the only tool that it called")
            }
            Shortfall::Denied { denied, calls } => {
                write!(f, "was denied {denied} of the {calls} tools that it called")
            }
            Shortfall::Idle => f.write_str("ran no tool and wrote no file"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(failed: bool) -> Activity {
        Activity::ToolResult { text: String::new(), failed }
    }

    fn denied() -> Activity {
        Activity::Denied("Write".to_owned())
    }

    fn shortfall(activities: &[Activity], answer: &str) -> Option<String> {
        let mut deeds = Deeds::default();
        activities.iter().for_each(|activity| deeds.add(activity));
        deeds.shortfall(answer).map(|shortfall| shortfall.to_string())
    }

    #[test]
    fn a_denied_tool_is_a_shortfall_whatever_else_was_done() {
        let written = Activity::FileWritten { path: "a".to_owned() };
        for (activities, expected) in [
            (vec![result(true), denied()], "was denied the only tool that it called"),
            (
                vec![result(false), result(true), denied(), written],
                "was denied 1 of the 2 tools that it called",
            ),
            // Codex reports a denied tool on stderr only.
            (vec![result(false), denied()], "was denied 1 of the 2 tools that it called"),
        ] {
            assert_eq!(shortfall(&activities, "done").as_deref(), Some(expected));
        }
    }

    #[test]
    fn an_idle_agent_is_one_that_says_little() {
        assert_eq!(shortfall(&[], "Done.").as_deref(), Some("ran no tool and wrote no file"));
        assert_eq!(shortfall(&[], &"an explanation ".repeat(20)), None);
        for activity in [result(false), result(true)] {
            assert_eq!(shortfall(&[activity], ""), None);
        }
        assert_eq!(shortfall(&[Activity::FileWritten { path: "a".to_owned() }], ""), None);
    }
}
