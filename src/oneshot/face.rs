//! What a run tells whoever shows it. Data only: words are the face's.

use std::time::Instant;

use super::reason::Reason;
use super::stage::{Role, State};
use crate::agent::activity::Activity;

/// Something that has happened, and stands in the run's files by now.
#[derive(Debug)]
pub enum News<'a> {
    /// The run came to another state.
    State {
        /// Which.
        state: State,
        /// Why, where there is a reason.
        reason: Option<&'a Reason>,
        /// The iteration.
        iteration: u32,
        /// How many there may be.
        maximum: u32,
    },
    /// An agent did or said something.
    Activity {
        /// Which agent.
        role: Role,
        /// What.
        activity: &'a Activity,
    },
    /// A line of an agent's stderr.
    Complaint {
        /// Which agent.
        role: Role,
        /// The line.
        line: &'a str,
    },
    /// The tracker has looked: its word for how the agent is.
    Status(&'a str),
    /// A judge has judged.
    Judged {
        /// What it found, as a letter, where it found anything.
        finding: Option<char>,
        /// Why.
        reason: &'a str,
    },
    /// What the auditor says to the next worker.
    Feedback(&'a str),
    /// A person is to say whether a stuck agent is waited for.
    Ask,
    /// The agent that was asked about has ended.
    AskNoMore,
    /// Something else that a person should know.
    Note(&'a str),
}

/// Shows a run.
pub trait Face {
    /// There is something to tell.
    fn tell(&mut self, news: &News<'_>);

    /// When it wants to be called though there is nothing to tell.
    fn due(&self) -> Option<Instant>;

    /// That time has come.
    fn refresh(&mut self);
}
