//! What a run reports to the program that displays it. Data only: the display adds words.

use std::time::Instant;

use super::state::{Reason, Role, RunState};
use crate::agent::activity::Activity;

/// Something that has happened and is already in the run's files.
#[derive(Debug)]
pub enum RunNews<'a> {
    /// The run entered another state.
    State {
        /// Which.
        state: RunState,
        /// Why, where there is a reason.
        reason: Option<&'a Reason>,
        /// The iteration.
        iteration: u32,
        /// How many there may be.
        maximum: u32,
    },
    /// An agent did or said something.
    Activity(&'a Activity),
    /// A line of an agent's stderr.
    Complaint {
        /// Which agent.
        role: Role,
        /// The line.
        line: &'a str,
    },
    /// The tracker's new status of the agent.
    Status(&'a str),
    /// A judge has judged.
    Judged {
        /// What it found, as a letter, where it found anything.
        finding: Option<char>,
        /// Why.
        reason: &'a str,
    },
    /// The auditor's feedback for the next worker.
    Feedback(&'a str),
    /// The person is asked whether to wait for a stuck agent.
    Ask,
    /// The agent in question has ended.
    AskNoMore,
    /// A note for the person.
    Note(&'a str),
}

/// Displays a run.
pub trait Reporter {
    /// Displays news.
    fn tell(&mut self, news: &RunNews<'_>);

    /// When to call [`Reporter::refresh`] next.
    fn due(&self) -> Option<Instant>;

    /// Brings the display up to date without news.
    fn refresh(&mut self);
}
