//! The process groups that this process has started and that may still have members.
//!
//! Without subreaper and list of processes, they are all by which what was started is
//! found again. Each child leads a session and a group of its own number. The number is
//! its own until it is reaped, and the group's for as long as that has members, which is
//! asked whenever a child begins.
//!
//! Limits: who leaves the group (`setsid`, job control) is out of reach. The number of a
//! group that has ended between two questions may have gone to a stranger.

use std::collections::BTreeSet;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::process::Pid;

use crate::process::descriptors::Poller;
use crate::process::signals::{Signal, group_lives};

/// How often groups are asked whether they have members while their end is awaited:
/// nothing tells of it.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// The groups that may have members.
static STARTED: Mutex<Started> = Mutex::new(Started {
    led: BTreeSet::new(),
    left: BTreeSet::new(),
});

/// Where the guard is told of groups.
static GUARD: OnceLock<UnixStream> = OnceLock::new();

struct Started {
    /// Their leader is a child that is not yet reaped.
    led: BTreeSet<i32>,
    /// Their leader is gone, and others were there the last time.
    left: BTreeSet<i32>,
}

/// What the guard is told of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum News {
    /// It has begun.
    Begun(i32),
    /// It has ended.
    Ended(i32),
}

impl News {
    /// From a line: `+4711`, `-4711`.
    pub fn parse(line: &str) -> Option<News> {
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

/// From now on the guard is told of groups by this.
pub fn tell(guard: UnixStream) {
    let _ = GUARD.set(guard);
}

/// A child leads a new group.
pub fn begun(child: Pid) {
    let group = child.as_raw_nonzero().get();
    let mut news = {
        let mut started = STARTED.lock();
        started.led.insert(group);
        started.forget_ended()
    };
    news.push(News::Begun(group));
    say(&news);
}

/// A child was reaped; its group may have other members.
pub fn reaped(child: Pid) {
    let group = child.as_raw_nonzero().get();
    let news = {
        let mut started = STARTED.lock();
        if started.led.remove(&group) {
            started.left.insert(group);
        }
        started.forget_ended()
    };
    say(&news);
}

/// The groups that have members now.
pub fn living() -> Vec<i32> {
    let started = STARTED.lock();
    let all = started.led.union(&started.left).copied();
    all.filter(|group| group_lives(*group)).collect()
}

impl Started {
    fn forget_ended(&mut self) -> Vec<News> {
        let ended: Vec<i32> = self
            .left
            .extract_if(.., |group| !group_lives(*group))
            .collect();
        ended.into_iter().map(News::Ended).collect()
    }
}

/// A guard that is gone needs no news.
fn say(news: &[News]) {
    if let Some(mut guard) = GUARD.get() {
        let lines: String = news.iter().map(|news| news.line()).collect();
        let _ = guard.write_all(lines.as_bytes());
    }
}

/// The group of a process; 0 when it is gone, or when the group's leader is out of sight, as
/// in a PID namespace that was entered without a new session. rustix takes no 0 for a pid.
#[cfg(not(target_os = "macos"))]
pub fn group(pid: i32) -> i32 {
    // SAFETY: it takes and gives numbers.
    unsafe { libc::getpgid(pid) }.max(0)
}

/// The session of a process; 0 as for its group.
pub fn session(pid: i32) -> i32 {
    // SAFETY: it takes and gives numbers.
    unsafe { libc::getsid(pid) }.max(0)
}

/// Sends these signals to groups.
pub fn signal(groups: &[i32], signals: &[Signal]) {
    for group in groups.iter().filter_map(|group| Pid::from_raw(*group)) {
        for signal in signals {
            // Whoever is gone by now needs none.
            let _ = rustix::process::kill_process_group(group, signal.raw());
        }
    }
}

/// Waits until nobody lives, or for so long; who does.
pub fn await_ends(living: impl Fn() -> Vec<i32>, limit: Duration) -> Vec<i32> {
    let deadline = Instant::now() + limit;
    loop {
        let left = living();
        let patience = deadline.saturating_duration_since(Instant::now());
        if left.is_empty() || patience.is_zero() {
            return left;
        }
        Poller::default().wait(Some(patience.min(LOOK_AGAIN)));
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
