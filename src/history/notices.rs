//! Notices of tasks that ended while no call watched them, or that still run although the client
//! has abandoned the call that started them, or past a deadline that was not asked for. Each is
//! reported once, with the next result.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::progress::progress_state::Verdict;
use crate::task::live::{End, LiveTask};
use crate::task::registry::TaskHandle;

/// How many notices are listed; further ones are only counted.
pub(crate) const MAX_NAMED: usize = 5;

/// A task that ended or runs without a watching call.
#[derive(Debug, Clone)]
pub(crate) struct Notice {
    pub(crate) task: Arc<LiveTask>,
    pub(crate) news: News,
}

#[derive(Debug, Clone)]
pub(crate) enum News {
    Ended(End),
    /// The client has given up the call that started it.
    StartTimedOut,
    /// It runs past a deadline that its caller has not set, and no call has been about it for so
    /// long; with its status.
    Unpolled(Duration, Option<Box<Verdict>>),
}

/// Takes the pending notices, oldest first, except one for the task `about`: its result reports the
/// end.
pub(crate) fn take(tasks: &[Arc<TaskHandle>], about: Option<&str>) -> Vec<Notice> {
    tasks
        .iter()
        .filter(|task| Some(task.id()) != about)
        .filter_map(|task| {
            let now = Instant::now();
            let facts = &task.live.facts;
            let mut state = task.live.state();
            let news = match state.ended.clone() {
                Some(end) => {
                    let is_new =
                        !state.told.end && !state.told.end_noticed && state.active_calls == 0;
                    state.told.end_noticed |= is_new;
                    is_new.then_some(News::Ended(end))
                }
                None if state.told.start_timed_out => Some(News::StartTimedOut),
                None => state
                    .take_unpolled(facts, now)
                    .map(|unpolled| News::Unpolled(unpolled, state.verdict(now).map(Box::new))),
            };
            let news = news?;
            state.told.start_timed_out = false;
            drop(state);
            Some(Notice { task: Arc::clone(&task.live), news })
        })
        .collect()
}
