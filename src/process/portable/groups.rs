//! The process groups that this process has started and that may still have members.
//!
//! Without a subreaper and a list of processes, only groups lead back to what was started.
//! Each child leads a session and a group of its own number. The number belongs to the child
//! until it is reaped, and to the group while that has members, which is checked whenever a
//! child begins.
//!
//! Limits: a process that leaves the group (`setsid`, job control) is out of reach. If a group
//! ends between two checks, its number may have been reused by an unrelated one.

// macOS lists processes, which are ended one by one.
#![cfg_attr(target_os = "macos", allow(dead_code))]

use std::collections::BTreeSet;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::process::Pid;

use crate::process::descriptors::Poller;
use crate::process::probe::Identity;
use crate::process::signals::{Signal, group_lives};
use crate::process::terminate::Target;

/// How often groups are checked for members while their end is awaited: the system does not
/// report it.
const RECHECK: Duration = Duration::from_millis(20);

/// The groups that may have members.
static STARTED: Mutex<Started> =
    Mutex::new(Started { led: BTreeSet::new(), left: BTreeSet::new() });

/// Where the guard is notified of groups.
static GUARD: OnceLock<UnixStream> = OnceLock::new();

struct Started {
    /// Their leader is a child that is not yet reaped.
    led: BTreeSet<i32>,
    /// Their leader is gone, and others were there the last time.
    left: BTreeSet<i32>,
}

/// A message to the guard about a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum News {
    /// It has begun.
    Begun(i32),
    /// It has ended.
    Ended(i32),
}

impl News {
    /// From a line: `+4711`, `-4711`.
    pub(crate) fn parse(line: &str) -> Option<News> {
        let group = |digits: &str| digits.parse().ok().filter(|group| *group > 1);
        match line.split_at_checked(1)? {
            ("+", digits) => group(digits).map(News::Begun),
            ("-", digits) => group(digits).map(News::Ended),
            _ => None,
        }
    }

    fn line(self) -> String {
        match self {
            News::Begun(group) => format!("+{group}\n"),
            News::Ended(group) => format!("-{group}\n"),
        }
    }
}

/// Sends news of groups to the guard from now on.
pub(crate) fn report_to(guard: UnixStream) {
    let _ = GUARD.set(guard);
}

/// A child leads a new group.
pub(crate) fn begun(child: Pid) {
    let group = child.as_raw_nonzero().get();
    let mut news = {
        let mut started = STARTED.lock();
        started.led.insert(group);
        started.forget_ended()
    };
    news.push(News::Begun(group));
    report(&news);
}

/// A child was reaped; its group may have other members.
pub(crate) fn reaped(child: Pid) {
    let group = child.as_raw_nonzero().get();
    let news = {
        let mut started = STARTED.lock();
        if started.led.remove(&group) {
            started.left.insert(group);
        }
        started.forget_ended()
    };
    report(&news);
}

/// The groups that have members now.
pub(crate) fn living() -> Vec<i32> {
    let started = STARTED.lock();
    let all = started.led.union(&started.left).copied();
    all.filter(|group| group_lives(*group)).collect()
}

impl Started {
    fn forget_ended(&mut self) -> Vec<News> {
        let ended: Vec<i32> = self.left.extract_if(.., |group| !group_lives(*group)).collect();
        ended.into_iter().map(News::Ended).collect()
    }
}

/// Sends news to the guard; one that is gone needs none.
fn report(news: &[News]) {
    if let Some(mut guard) = GUARD.get() {
        let lines: String = news.iter().map(|news| news.line()).collect();
        let _ = guard.write_all(lines.as_bytes());
    }
}

/// The group of a process; 0 when it is gone, or when the group's leader is not visible, as
/// in a PID namespace that was entered without a new session. rustix takes no 0 for a pid.
#[cfg(not(target_os = "macos"))]
pub(crate) fn group(pid: i32) -> i32 {
    // SAFETY: it takes and gives numbers.
    unsafe { libc::getpgid(pid) }.max(0)
}

/// The session of a process; 0 as for its group.
pub(crate) fn session(pid: i32) -> i32 {
    // SAFETY: it takes and gives numbers.
    unsafe { libc::getsid(pid) }.max(0)
}

/// A group as one that can be ended.
#[derive(Debug)]
pub(in crate::process) struct Group(pub i32);

impl Target for Group {
    fn id(&self) -> Identity {
        Identity { pid: self.0, started: 0 }
    }

    fn send(&self, signal: Signal) {
        if let Some(group) = Pid::from_raw(self.0) {
            let _ = rustix::process::kill_process_group(group, signal.raw());
        }
    }

    fn await_ends(mut groups: Vec<Group>, limit: Duration) {
        let deadline = Instant::now() + limit;
        loop {
            groups.retain(|group| group_lives(group.0));
            let left = deadline.saturating_duration_since(Instant::now());
            if groups.is_empty() || left.is_zero() {
                return;
            }
            Poller::default().wait(Some(left.min(RECHECK)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn news_arrive_as_they_were_told() {
        for news in [News::Begun(4711), News::Ended(4711)] {
            assert_eq!(News::parse(news.line().trim_end()), Some(news));
        }
        // Signals to these would reach everybody, or the guard's own group.
        for line in ["", "+", "+0", "-1", "+-4", "4711", "é"] {
            assert_eq!(News::parse(line), None, "{line}");
        }
    }
}
