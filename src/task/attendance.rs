//! Who is busy with a task: as long as a call is, the task's end is told by that call.

use std::sync::Arc;

use super::live::LiveTask;

/// A call that is about a task: while there is one, the task's end is told by it and by
/// no notice.
#[derive(Debug)]
pub struct Attendance {
    task: Arc<LiveTask>,
}

impl Attendance {
    /// A call begins to be about a task.
    pub fn begin(task: &Arc<LiveTask>) -> Attendance {
        task.state().attended_by += 1;
        Attendance::of_start(task)
    }

    /// The call that started the task: it has been counted since.
    pub fn of_start(task: &Arc<LiveTask>) -> Attendance {
        Attendance {
            task: Arc::clone(task),
        }
    }
}

impl Drop for Attendance {
    fn drop(&mut self) {
        let mut state = self.task.state();
        state.attended_by = state.attended_by.saturating_sub(1);
    }
}
