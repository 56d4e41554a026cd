//! Notices of tasks that ended while no call was watching, or that run although the client has
//! given up the call that started them: each is reported once, before the next result.

use std::sync::Arc;

use crate::task::live::{End, LiveTask};
use crate::task::registry::TaskHandle;

/// How many notices are named; more are only counted.
pub const MOST_NAMED: usize = 5;

/// A task that ended unseen, or runs unseen.
#[derive(Debug, Clone)]
pub struct Notice {
    pub task: Arc<LiveTask>,
    /// `None` while it runs.
    pub end: Option<End>,
}

/// Takes the pending notices, oldest first, except for the task that the result is about, which
/// reports the end itself.
pub fn take(tasks: &[Arc<TaskHandle>], about: Option<&str>) -> Vec<Notice> {
    tasks
        .iter()
        .filter(|task| Some(task.id()) != about)
        .filter_map(|task| {
            let mut state = task.live.state();
            let end = state.ended.clone();
            let is_new = match &end {
                Some(_) => !state.end_reported && !state.end_noticed && state.active_calls == 0,
                None => state.given_up,
            };
            if !is_new {
                return None;
            }
            state.end_noticed = end.is_some();
            state.given_up = false;
            drop(state);
            Some(Notice { task: Arc::clone(&task.live), end })
        })
        .collect()
}
