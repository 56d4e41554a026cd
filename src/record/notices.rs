//! Tasks that ended while nobody looked: each is told of once, ahead of the next result.

use std::sync::Arc;

use crate::task::live::{End, LiveTask};
use crate::task::registry::TaskHandle;

/// More than so many are only counted.
pub const MOST_NAMED: usize = 5;

/// A task that ended unseen.
#[derive(Debug, Clone)]
pub struct Notice {
    /// Which.
    pub task: Arc<LiveTask>,
    /// How.
    pub end: End,
}

/// Takes the notices that are due, oldest first, but not for the task that the result is
/// about: that result tells of the end itself.
pub fn take(tasks: &[Arc<TaskHandle>], about: Option<&str>) -> Vec<Notice> {
    tasks
        .iter()
        .filter(|task| Some(task.id()) != about)
        .filter_map(|task| {
            let mut state = task.live.state();
            let end = state.ended.clone()?;
            if state.end_told || state.end_noticed || state.attended_by > 0 {
                return None;
            }
            state.end_noticed = true;
            drop(state);
            Some(Notice {
                task: Arc::clone(&task.live),
                end,
            })
        })
        .collect()
}
