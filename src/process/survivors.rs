//! Processes that outlived whoever supervised them: finding them again, and ending them.
//!
//! They are the process that was noted, if pid and start time agree, all of its session,
//! all that carry the same variable in their environment, and what lives below any of
//! these. This process and those above it are never among them. Limits: whoever has left
//! the session and cleared its environment is not found.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use super::kill::{Handle, await_ends};
use super::processes;
use super::signals::Signal;
use super::tree::{Environment, Identity, ProcessInfo, Snapshot, look_up};

/// From SIGTERM to SIGKILL.
const GRACE: Duration = Duration::from_millis(500);
/// After SIGKILL, with new looks for whoever was born meanwhile.
const PATIENCE: Duration = Duration::from_secs(1);

/// How often a process is looked at that is becoming another program at that moment.
const LOOKS: usize = 200;

/// How they are recognised.
#[derive(Debug, Clone)]
pub struct Marks<'a> {
    /// The process that was noted; it led a session.
    pub leader: Option<Identity>,
    /// A variable that all of them were started with, and its value.
    pub variable: (&'a str, &'a str),
}

impl Marks<'_> {
    /// Ends all that are found; those that were.
    pub fn end(&self) -> Vec<ProcessInfo> {
        let found = self.living();
        let mut waiting = handles(&found);
        for process in &waiting {
            for signal in [Signal::Term, Signal::Cont] {
                // Whoever is gone by now needs none.
                let _ = process.signal(signal);
            }
        }
        await_ends(&mut waiting, GRACE);
        let last = Instant::now() + PATIENCE;
        loop {
            let mut left = handles(&self.living());
            let patience = last.saturating_duration_since(Instant::now());
            if left.is_empty() || patience.is_zero() {
                return found;
            }
            for process in &left {
                let _ = process.signal(Signal::Kill);
            }
            await_ends(&mut left, patience);
        }
    }

    /// All that live.
    pub fn living(&self) -> Vec<ProcessInfo> {
        let snapshot = Snapshot::take();
        let own = std::process::id() as i32;
        let above = with_ancestors(own, &snapshot);
        let mut found: HashSet<i32> = HashSet::new();
        let session = self.session(&snapshot);
        for process in snapshot.processes() {
            if above.contains(&process.id.pid) || found.contains(&process.id.pid) {
                continue;
            }
            if session.is_some_and(|leader| is_of(leader, process))
                || self.carries_variable(process)
            {
                let below = snapshot.descendants_but(process.id.pid, |child| child.id.pid == own);
                found.insert(process.id.pid);
                found.extend(below.iter().map(|child| child.id.pid));
            }
        }
        found
            .iter()
            .filter_map(|pid| snapshot.process(*pid))
            .filter(|process| !process.zombie && !above.contains(&process.id.pid))
            .cloned()
            .collect()
    }

    /// The leader, if the session of its number is still the one that it has led. Where it
    /// is gone the number may have been given anew, to one whose leader is gone as well: then
    /// one of the session must carry the variable.
    fn session(&self, snapshot: &Snapshot) -> Option<Identity> {
        let leader = self.leader?;
        let is_the_same = match snapshot.process(leader.pid) {
            Some(found) => found.id == leader,
            None => {
                let mut members = snapshot.processes();
                members.any(|process| is_of(leader, process) && self.carries_variable(process))
            }
        };
        is_the_same.then_some(leader)
    }

    fn carries_variable(&self, process: &ProcessInfo) -> bool {
        let (name, value) = self.variable;
        let wanted = format!("{name}={value}").into_bytes();
        for _ in 0..LOOKS {
            match processes::environment(process.id.pid) {
                Environment::Passing if look_up(process.id.pid).is_some_and(|now| !now.zombie) => {
                    std::thread::yield_now();
                }
                // Of another user it cannot be told, and it could not be ended.
                found => return found.has(&wanted),
            }
        }
        false
    }
}

fn is_of(leader: Identity, process: &ProcessInfo) -> bool {
    process.id == leader || (process.session == leader.pid && process.id.started >= leader.started)
}

fn handles(found: &[ProcessInfo]) -> Vec<Handle> {
    found
        .iter()
        .filter_map(|process| Handle::open(process.id).ok())
        .collect()
}

fn with_ancestors(pid: i32, snapshot: &Snapshot) -> HashSet<i32> {
    let mut line = HashSet::new();
    let mut next = Some(pid);
    while let Some(pid) = next
        && line.insert(pid)
    {
        next = snapshot.process(pid).map(|process| process.parent);
    }
    line
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command};

    use super::*;
    use crate::process::tree;

    fn sleeper(value: &str) -> Child {
        let child = Command::new("sleep")
            .arg("600")
            .env("ZSH_TOOL_TEST_SURVIVOR", value)
            .spawn()
            .expect("sleep is there");
        await_sleep(child.id() as i32, value);
        child
    }

    /// Waits until a process is a sleep with its environment: while it comes to its program
    /// it has none for a moment.
    fn await_sleep(pid: i32, value: &str) {
        let entry = format!("ZSH_TOOL_TEST_SURVIVOR={value}").into_bytes();
        let deadline = Instant::now() + Duration::from_secs(30);
        loop {
            let sleeps = tree::look_up(pid).is_some_and(|found| found.name == "sleep");
            if sleeps && processes::environment(pid).has(&entry) {
                return;
            }
            assert!(Instant::now() < deadline, "{pid} does not come to sleep");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn who_carries_the_variable_is_ended_and_nobody_else() {
        let own = format!("survivor-{}", std::process::id());
        let mut marked = sleeper(&own);
        let mut other = sleeper("somebody else");
        let marks = Marks {
            leader: None,
            variable: ("ZSH_TOOL_TEST_SURVIVOR", &own),
        };
        let ended = marks.end();
        let pids: Vec<u32> = ended.iter().map(|found| found.id.pid as u32).collect();
        assert_eq!(pids, [marked.id()]);
        assert!(!marked.wait().expect("it has ended").success());
        assert!(matches!(other.try_wait(), Ok(None)));
        other.kill().expect("it lives");
        other.wait().expect("it has ended");
    }

    #[test]
    fn another_process_of_the_same_pid_is_left_alone() {
        let mut stranger = sleeper("stranger");
        let pid = stranger.id() as i32;
        let found = tree::look_up(pid).expect("it runs");
        let marks = Marks {
            leader: Some(Identity {
                pid,
                started: found.id.started - 1,
            }),
            variable: ("ZSH_TOOL_TEST_SURVIVOR", "nobody"),
        };
        assert!(marks.end().is_empty());
        assert!(matches!(stranger.try_wait(), Ok(None)));
        let marks = Marks {
            leader: Some(found.id),
            ..marks
        };
        assert_eq!(marks.end().len(), 1);
        stranger.wait().expect("it has ended");
    }

    #[test]
    fn a_session_without_its_leader_must_carry_the_variable() {
        let own = format!("leaderless-{}", std::process::id());
        let output = Command::new("setsid")
            .args(["--wait", "sh", "-c"])
            .arg("sleep 600 >/dev/null 2>&1 & echo $$ $!")
            .env("ZSH_TOOL_TEST_SURVIVOR", &own)
            .output()
            .expect("setsid is there");
        let output = String::from_utf8_lossy(&output.stdout);
        let pids: Vec<i32> = output
            .split_whitespace()
            .filter_map(|pid| pid.parse().ok())
            .collect();
        let [leader, left] = pids[..] else {
            panic!("two pids: {output}");
        };
        await_sleep(left, &own);
        let found = tree::look_up(left).expect("it runs");
        assert_eq!(found.session, leader);
        let marks = Marks {
            leader: Some(Identity {
                pid: leader,
                started: found.id.started - 1,
            }),
            variable: ("ZSH_TOOL_TEST_SURVIVOR", "nobody"),
        };
        assert!(marks.end().is_empty());
        assert!(tree::look_up(left).is_some_and(|found| !found.zombie));
        let marks = Marks {
            variable: ("ZSH_TOOL_TEST_SURVIVOR", &own),
            ..marks
        };
        assert_eq!(marks.end().len(), 1);
    }
}
