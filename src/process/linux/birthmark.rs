//! A mark that says which task a process was born to. A process has it from its start and passes it
//! on to all that it starts, whatever becomes of its environment, session, descriptors and parent.
//!
//! The mark is the soft limit of file locks (`ulimit -x`): a number that `fork(2)`
//! copies, `execve(2)` keeps and the kernel has not enforced since Linux 2.4.25. `/proc` shows it
//! for processes of other users too, and even in the middle of exec and after the end.
//!
//! Limits: nothing stops a process from setting this limit itself (`ulimit -x unlimited`), and what
//! a service starts on a task's behalf (`systemctl`, `at`, `docker`) was not born to the task.

use rustix::process::{Resource, Rlimit};

use crate::process::processes::{field, proc_directory, read_proc_text};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Birthmark(u64);

impl Birthmark {
    /// The mark of the task with this cookie. Tasks share a mark as rarely as 61-bit hashes agree.
    pub(crate) fn for_cookie(cookie: &str) -> Birthmark {
        /// Far above any limit that is meant as one, and below "unlimited".
        const FLAG: u64 = 1 << 62;
        // FNV-1a: the same in each process, since a task may outlive the server that marked it.
        let hash = cookie.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        Birthmark(FLAG | hash >> 3)
    }

    /// The mark on a process; also any other limit of file locks that has been set.
    pub(crate) fn on(pid: i32) -> Option<Birthmark> {
        let limits = read_proc_text(proc_directory(pid).join("limits")).ok()?;
        field(&limits, "Max file locks")?
            .split_ascii_whitespace()
            .next()?
            .parse()
            .ok()
            .map(Birthmark)
    }

    /// Marks this process. It stays without a mark if a lower limit is imposed on it. Safe between
    /// fork and exec.
    pub(in crate::process) fn set(self) {
        let Rlimit { maximum, .. } = rustix::process::getrlimit(Resource::Locks);
        let marked = Rlimit { current: Some(self.0), maximum };
        let _ = rustix::process::setrlimit(Resource::Locks, marked);
    }
}

/// Takes the mark off this process, which then belongs to no task by it. Safe between fork and exec.
pub(in crate::process) fn remove() {
    let Rlimit { maximum, .. } = rustix::process::getrlimit(Resource::Locks);
    let _ = rustix::process::setrlimit(Resource::Locks, Rlimit { current: maximum, maximum });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_task_has_a_mark_of_its_own() {
        let marks = ["a/1", "a/2", "b/1", ""].map(|cookie| Birthmark::for_cookie(cookie).0);
        assert!(marks.iter().all(|mark| (1 << 62..1 << 63).contains(mark)), "{marks:?}");
        let distinct: std::collections::HashSet<u64> = marks.into_iter().collect();
        assert_eq!(distinct.len(), marks.len());
    }

    #[test]
    fn a_process_without_a_mark_has_none_of_a_task() {
        let own = std::process::id() as i32;
        assert_ne!(Birthmark::on(own), Some(Birthmark::for_cookie("a/1")));
        // Above any pid of a live machine.
        assert_eq!(Birthmark::on(50_000_000), None);
    }
}
