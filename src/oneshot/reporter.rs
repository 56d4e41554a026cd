//! The events that a run reports to the program that displays it. Data only: the display adds
//! words.

use std::time::Instant;

use super::check::CheckResult;
use super::state::{Reason, Role, RunState};
use crate::agent::activity::Activity;

/// News about a run, for its display.
#[derive(Debug)]
pub(crate) enum RunNews<'a> {
    /// The run entered another state.
    State {
        state: RunState,
        /// The reason, if there is one.
        reason: Option<&'a Reason>,
        iteration: u32,
        /// The maximum number of iterations.
        maximum: u32,
    },
    /// An activity of an agent.
    Activity(&'a Activity),
    /// A line of an agent's stderr.
    StderrLine { role: Role, line: &'a str },
    /// The tracker's new status of the agent.
    Status(&'a str),
    /// A judge's judgement.
    Judged {
        /// The letter of the finding, if it is known.
        finding: Option<char>,
        reason: &'a str,
    },
    /// The auditor's feedback for the next worker.
    Feedback(&'a str),
    /// What the worker has changed: `3 files, +10 −2`.
    Changed(&'a str),
    /// This check runs now.
    Checking(&'a str),
    /// A check has ended.
    Checked(&'a CheckResult),
    /// Ask the person whether to wait for a stuck agent.
    Ask,
    /// Withdraw the question: the agent has ended.
    WithdrawQuestion,
    /// A note for the person.
    Note(&'a str),
}

/// Displays a run.
pub(crate) trait Reporter {
    /// Displays news.
    fn report(&mut self, news: &RunNews<'_>);

    /// When to call [`Reporter::refresh`] next.
    fn due(&self) -> Option<Instant>;

    /// Updates the display without news.
    fn refresh(&mut self);
}
