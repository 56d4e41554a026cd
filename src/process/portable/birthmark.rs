//! A mark on the processes of a task that they inherit: Linux alone has a property that serves.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Birthmark;

impl Birthmark {
    /// The mark of the task with this cookie.
    pub(crate) fn for_cookie(_cookie: &str) -> Birthmark {
        Birthmark
    }

    /// The mark on a process: none.
    pub(crate) fn on(_pid: i32) -> Option<Birthmark> {
        None
    }

    /// Marks this process, where that is possible.
    pub(in crate::process) fn set(self) {}
}

/// Takes the mark off this process, which has none.
pub(in crate::process) fn remove() {}
