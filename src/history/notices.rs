//! Notices of tasks that ended while no call watched them, or that still run although the client
//! has abandoned the call that started them. Each is reported once, with the next result.

use std::sync::Arc;

use crate::task::live::{End, LiveTask};
use crate::task::registry::TaskHandle;

/// How many notices are listed; further ones are only counted.
pub(crate) const MAX_NAMED: usize = 5;

/// A task that ended or runs without a watching call.
#[derive(Debug, Clone)]
pub(crate) struct Notice {
    pub(crate) task: Arc<LiveTask>,
    /// `None` while it runs.
    pub(crate) end: Option<End>,
}

/// Takes the pending notices, oldest first, except one for the task `about`: its result reports the
/// end.
pub(crate) fn take(tasks: &[Arc<TaskHandle>], about: Option<&str>) -> Vec<Notice> {
    tasks
        .iter()
        .filter(|task| Some(task.id()) != about)
        .filter_map(|task| {
            let mut state = task.live.state();
            let end = state.ended.clone();
            let is_new = match &end {
                Some(_) => !state.told.end && !state.told.end_noticed && state.active_calls == 0,
                None => state.told.start_timed_out,
            };
            if !is_new {
                return None;
            }
            state.told.end_noticed = end.is_some();
            state.told.start_timed_out = false;
            drop(state);
            Some(Notice { task: Arc::clone(&task.live), end })
        })
        .collect()
}
