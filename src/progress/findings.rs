//! What looks at a task have found of its progress.

use super::tracker::Tracker;

/// What looks have found.
#[derive(Debug, Clone)]
pub struct Findings {
    /// The judgement.
    pub tracker: Tracker,
    /// Who waits for the network, if that holds the task up: pid and name.
    pub peer: Option<(i32, String)>,
    /// What some of the processes read and write cannot be seen.
    pub degraded: bool,
}
